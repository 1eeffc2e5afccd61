"""What a generator of synthetic rows will do and cost, from public parameters alone.

This module sees no data. It needs only the shape of the domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dpframe.asking.card import Draw, DrawList, Line, Text, counts_game
from dpframe.asking.level_plan import ReleasePlan
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.mechanisms import privhp_partition as hot_partition
from dpframe.mechanisms.privhp_partition import Partition, PartitionLaws, Split, partition_laws
from dpframe.noise import UnboundedNoise
from dpframe.sketches.hot_partition import HotPartition, Shape

if TYPE_CHECKING:
    import pandas as pd

PAPER = "Holland, Camtepe, Thapa, Xue, Private Synthetic Data Generation in Small Memory (PrivHP)"

DEFAULT_HOT = 1024
"""The default number of cells of a level that are refined."""

DEFAULT_WIDTH = 4096
"""The default number of cells of a row of a sketch."""


class DomainFacts(Protocol):
    """The facts of a domain that a plan needs."""

    @property
    def spec(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def diameters(self) -> tuple[float, ...]: ...


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan(ReleasePlan):
    """Everything about a generator except the data and the draw.

    ``rows`` describes what rows can be, and ``digest`` is a hash of the whole domain. ``schema``
    holds the types of the columns, as text. ``shape`` holds k (refined cells of a level), the width
    and rows of a sketch, the depth and the hash seed.
    """

    rows: DomainFacts
    digest: str
    schema: str
    shape: Shape
    split: Split
    epsilon: float
    laws: PartitionLaws
    protected: PrivacyUnit

    question = "synthesize"
    audience = "against anybody who sees the generator"
    mechanism_name = "synthetic-privhp"
    paper = PAPER
    intervals = "no intervals"

    @property
    def budget(self) -> Budget:
        """The budget, with delta 0: the release is pure."""
        return Budget(epsilon=self.epsilon, delta=0.0)

    @property
    def unit(self) -> PrivacyUnit:
        return self.protected

    @property
    def domain(self) -> str:
        """The canonical text of the domain, in which a short hash stands for the keys."""
        return self.rows.spec

    @property
    def columns(self) -> tuple[str, ...]:
        return self.rows.columns

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types."""
        return {
            "counts": "synthetic",
            "domain": self.domain,
            "digest": self.digest,
            "schema": self.schema,
            "epsilon": self.budget.epsilon,
            "user": self.unit.user,
            "max_contributions": self.unit.max_contributions,
            "k": self.shape.hot,
            "width": self.shape.width,
            "rows": self.shape.rows,
            "split": self.split,
        }

    @property
    def draws(self) -> DrawList:
        """One count moves on every exact level, and one cell in every row of each sketch below.

        The release is pure, so that delta is 0 at epsilon.
        """
        laws = self.laws
        moved = [1 if level <= laws.exact else laws.rows for level in range(laws.depth + 1)]
        counts = [
            Draw(law=UnboundedNoise(scale), moves=m)
            for m, scale in zip(moved, laws.scales, strict=True)
        ]
        return counts_game(counts, delta=0.0, group=self.unit.moves)

    @property
    def noise(self) -> dict[str, Any]:
        return {"scales": [float(scale) for scale in self.laws.scales]}

    @property
    def facts(self) -> dict[str, object]:
        return {
            "hierarchy": self.domain,
            "columns": list(self.columns),
            "height": self.shape.depth,
            "levels": [f"1/{2**level}" for level in range(1, self.shape.depth + 1)],
            "threshold": None,
            "remainder": None,
            "confidence": None,
            "k": self.shape.hot,
            "width": self.shape.width,
            "rows": self.shape.rows,
            "split": self.split,
        }

    def sketch(self) -> HotPartition:
        """An empty sketch of this shape."""
        s = self.shape
        return HotPartition(s.depth, s.hot, s.width, s.rows, seed=s.seed)

    def run(self, counted: HotPartition, /) -> Partition:
        """The only noisy step."""
        return hot_partition.run(counted, self.laws)

    def lines(self) -> list[Line]:
        """The card lines, all known before the data are read."""
        shape, scales = self.shape, self.laws.scales
        exact = [float(scale) * 2**0.5 for scale in scales[: shape.exact + 1]]
        hashed = [float(scale) * 2**0.5 for scale in scales[shape.exact + 1 :]]
        out = [
            self.guarantee_line,
            Line("mechanism", "synthetic, PrivHP", PAPER),
            Line("domain", self.domain, "what rows can be, declared by the caller"),
            Line(
                "counts",
                self.unit.counts,
                "rows with a missing value in these columns are left out",
            ),
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
            Line("split", self.split, "how epsilon is divided over levels"),
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
                epsilon=self.unit.moves * float(self.laws.epsilon),
            ),
            self.delta_line,
        ]
        return out

    def frame(self, noisy: Partition, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The cells and their counts, from which rows are sampled."""
        import pandas as pd  # late: `import dpframe` does not load it

        parts = {"level": noisy.level, "code": noisy.code, "count": noisy.count}
        return pd.DataFrame({**parts, "leaf": noisy.leaf})

    def finish_receipt(self, facts: Receipt, noisy: Partition, frame: pd.DataFrame, /) -> Receipt:
        """The receipt, unchanged: no notice applies to cells."""
        return facts


def make_synthetic_plan(
    *,
    domain: DomainFacts,
    digest: str,
    schema: str,
    shape: Shape,
    split: Split,
    epsilon: float,
    unit: PrivacyUnit,
) -> SyntheticPlan:
    """Choose the noise of a generator. Pure: no data, no randomness."""
    budget = Budget(epsilon=epsilon, delta=0.0)
    laws = partition_laws(
        depth=shape.depth,
        hot=shape.hot,
        rows=shape.rows,
        epsilon=per_record(budget, unit.moves).epsilon,
        diameters=domain.diameters,
        split=split,
    )
    return SyntheticPlan(
        rows=domain,
        digest=digest,
        schema=schema,
        shape=shape,
        split=split,
        epsilon=epsilon,
        laws=laws,
        protected=unit,
    )
