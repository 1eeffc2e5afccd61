"""What fitting a generator of synthetic rows will do and cost, from public parameters alone.

This module sees no data. Of the domain it needs the shape only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpframe._forking import no_fork
from dpframe.accounting.compose import Profile
from dpframe.accounting.privhp import PartitionLaws, Split, partition_laws
from dpframe.asking.card import Line
from dpframe.asking.proofs import Game
from dpframe.asking.receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.mechanisms import privhp as hot_partition
from dpframe.mechanisms.privhp import Partition
from dpframe.questions.synthesize.lines import synthetic_lines
from dpframe.questions.synthesize.receipt import synthetic_receipt
from dpframe.sketches.hot_partition import HotPartition, Shape

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_HOT = 1024
"""Cells of a level that are refined, if nobody says how many."""

DEFAULT_WIDTH = 4096
"""Cells of a row of a sketch, if nobody says how many."""


class Rows(Protocol):
    """What has to be known of a domain."""

    @property
    def spec(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def diameters(self) -> tuple[float, ...]: ...


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan:
    """Everything about a generator except the data and the draw.

    ``rows`` is what rows can be, and ``digest`` a hash of all of it. ``schema`` are the types of
    the columns as a text of their own. ``shape`` holds k, w, j, depth and hash seed.
    """

    rows: Rows
    digest: str
    schema: str
    shape: Shape
    split: Split
    budget: Budget
    laws: PartitionLaws
    unit: PrivacyUnit

    @property
    def domain(self) -> str:
        """The canonical text of what rows can be, in which keys are cut to a short hash."""
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
    def profile(self) -> Profile:
        """Pure: epsilon alone."""
        return ((self.budget.epsilon, 0.0),)

    @property
    def game(self) -> Game:
        """A count of every exact level, and a cell of every row of a sketch below."""
        moved = [
            1 if level <= self.laws.exact else self.laws.rows
            for level in range(self.laws.depth + 1)
        ]
        levels = [
            {"scale": str(scale), "moves": m, "least": None}
            for m, scale in zip(moved, self.laws.scales, strict=True)
        ]
        return Game({"kind": "counts", "units": 1, "levels": levels}, (), self.unit.moves)

    def sketch(self) -> HotPartition:
        """An empty sketch of this shape."""
        s = self.shape
        return HotPartition(s.depth, s.hot, s.width, s.rows, seed=s.seed)

    def run(self, counted: HotPartition, /) -> Partition:
        """The only noisy step."""
        return hot_partition.run(counted, self.laws)

    def lines(self) -> list[Line]:
        """What is known before the data are read."""
        return synthetic_lines(self)

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of a release of this plan."""
        return synthetic_receipt(self, name)

    def frame(self, noisy: Partition, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The cells and their counts."""
        with no_fork():
            from dpframe.questions.synthesize.frame import synthetic_frame  # loads pandas

        return synthetic_frame(noisy)

    def answered(self, facts: Receipt, noisy: Partition, frame: pd.DataFrame, /) -> Receipt:
        """The receipt as it is: cells are no rows that notices are about."""
        return facts


def make_synthetic_plan(
    *,
    domain: Rows,
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
        budget=budget,
        laws=laws,
        unit=unit,
    )
