"""What is known of a generator of synthetic rows before the data are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.asking.quantities import Quantity, guarantee

if TYPE_CHECKING:
    from dpframe.questions.synthesize.plan import SyntheticPlan

PAPER = "Holland, Camtepe, Thapa, Xue, Private Synthetic Data Generation in Small Memory (PrivHP)"


def synthetic_lines(plan: SyntheticPlan) -> list[Quantity]:
    """The lines of the plan and of the card."""
    shape, scales = plan.shape, plan.laws.scales
    exact = [float(scale) * 2**0.5 for scale in scales[: shape.exact + 1]]
    hashed = [float(scale) * 2**0.5 for scale in scales[shape.exact + 1 :]]
    out = [
        Quantity("guarantee", guarantee(plan), "against anybody who sees the generator"),
        Quantity("mechanism", "synthetic, PrivHP", PAPER),
        Quantity("domain", plan.domain, "what rows can be, declared by the caller"),
        Quantity(
            "counts", plan.unit.counts, "rows with a missing value in these columns are left out"
        ),
        Quantity("k", shape.hot, "cells of a level that are divided further"),
        Quantity("depth", shape.depth, "halvings of the domain"),
        Quantity("exact levels", shape.exact, "levels that are counted cell by cell"),
        Quantity(
            "noise, exact levels",
            f"sd {min(exact):.3g} to {max(exact):.3g}",
            "discrete Laplace, unbounded, added to every cell there",
        ),
    ]
    if hashed:
        kind = "count-min" if shape.rows == 1 else "count sketch"
        out += [
            Quantity(
                "sketch",
                f"{kind}, {shape.rows} x {shape.width}",
                f"of each of the {len(hashed)} levels below",
            ),
            Quantity(
                "noise, sketched levels",
                f"sd {min(hashed):.3g} to {max(hashed):.3g}",
                "discrete Laplace, unbounded, added to every cell of the sketches",
            ),
        ]
    out += [
        Quantity("split", plan.split, "how epsilon is divided over levels"),
        Quantity("memory", f"{8 * shape.cells / 1e6:.3g} MB", "of the counts, whatever the data"),
        Quantity(
            "computed epsilon",
            f"{plan.unit.moves * float(plan.laws.epsilon):.6g}",
            "sum over levels, exact",
        ),
        Quantity("computed delta", "0", "pure: noise without bounds, scales rounded up"),
    ]
    return out
