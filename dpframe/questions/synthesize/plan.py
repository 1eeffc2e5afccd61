"""What fitting a generator of synthetic rows will do and cost, from public parameters alone.

This module sees no data. Of the domain it needs the shape only.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpframe.accounting.compose import Profile
from dpframe.accounting.hot_partition import PartitionLaws, Split, partition_laws
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.mechanisms import hot_partition
from dpframe.mechanisms.hot_partition import Partition
from dpframe.sketches.hot_partition import HotPartition, Shape

DEFAULT_HOT = 1024
"""Cells of a level that are refined, if nobody says how many."""

DEFAULT_WIDTH = 4096
"""Cells of a row of a sketch, if nobody says how many."""


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan:
    """Everything about a generator except the data and the draw.

    ``domain`` is the canonical text of what rows can be, in which keys are cut to a short hash;
    ``digest`` is a hash of all of it. ``columns`` are their names, ``schema`` the
    types of the columns as a text of their own. ``shape`` holds k, w, j, depth and hash seed.
    """

    domain: str
    digest: str
    columns: tuple[str, ...]
    schema: str
    shape: Shape
    split: Split
    budget: Budget
    laws: PartitionLaws
    unit: PrivacyUnit

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

    def sketch(self) -> HotPartition:
        """An empty sketch of this shape."""
        s = self.shape
        return HotPartition(s.depth, s.hot, s.width, s.rows, seed=s.seed)

    def run(self, counted: object) -> Partition:
        """The only noisy step."""
        assert isinstance(counted, HotPartition)
        return hot_partition.run(counted, self.laws)


def make_synthetic_plan(
    *,
    domain: str,
    digest: str,
    columns: tuple[str, ...],
    schema: str,
    diameters: tuple[float, ...],
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
        diameters=diameters,
        split=split,
    )
    return SyntheticPlan(
        domain=domain,
        digest=digest,
        columns=columns,
        schema=schema,
        shape=shape,
        split=split,
        budget=budget,
        laws=laws,
        unit=unit,
    )
