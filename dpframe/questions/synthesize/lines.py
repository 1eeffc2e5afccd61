"""What is known of a generator of synthetic rows before the data are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.asking.card import Line, Text, guarantee

if TYPE_CHECKING:
    from dpframe.questions.synthesize.plan import SyntheticPlan

PAPER = "Holland, Camtepe, Thapa, Xue, Private Synthetic Data Generation in Small Memory (PrivHP)"


def synthetic_lines(plan: SyntheticPlan) -> list[Line]:
    """The lines of the plan and of the card."""
    shape, scales = plan.shape, plan.laws.scales
    exact = [float(scale) * 2**0.5 for scale in scales[: shape.exact + 1]]
    hashed = [float(scale) * 2**0.5 for scale in scales[shape.exact + 1 :]]
    out = [
        Line("guarantee", guarantee(plan), "against anybody who sees the generator"),
        Line("mechanism", "synthetic, PrivHP", PAPER),
        Line("domain", plan.domain, "what rows can be, declared by the caller"),
        Line("counts", plan.unit.counts, "rows with a missing value in these columns are left out"),
        Line("k", shape.hot, "cells of a level that are divided further"),
        Line("depth", shape.depth, "halvings of the domain"),
        Line("exact levels", shape.exact, "levels that are counted cell by cell"),
        Line.of(
            "noise, exact levels",
            Text("sd {first:.3g} to {last:.3g}"),
            "discrete Laplace, unbounded, added to every cell there",
            first=min(exact),
            last=max(exact),
        ),
    ]
    if hashed:
        kind = "count-min" if shape.rows == 1 else "count sketch"
        out += [
            Line.of(
                "sketch",
                Text("{kind}, {rows} x {width}"),
                "of each of the {levels} levels below",
                kind=kind,
                rows=shape.rows,
                width=shape.width,
                levels=len(hashed),
            ),
            Line.of(
                "noise, sketched levels",
                Text("sd {first:.3g} to {last:.3g}"),
                "discrete Laplace, unbounded, added to every cell of the sketches",
                first=min(hashed),
                last=max(hashed),
            ),
        ]
    out += [
        Line("split", plan.split, "how epsilon is divided over levels"),
        Line.of(
            "memory",
            Text("{megabytes:.3g} MB"),
            "of the counts, whatever the data",
            megabytes=8 * shape.cells / 1000000.0,
        ),
        Line.of(
            "computed epsilon",
            Text("{epsilon:.6g}"),
            "sum over levels, exact",
            epsilon=plan.unit.moves * float(plan.laws.epsilon),
        ),
        Line("computed delta", "0", "pure: noise without bounds, scales rounded up"),
    ]
    return out
