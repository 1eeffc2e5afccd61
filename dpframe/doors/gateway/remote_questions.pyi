"""Questions of a gateway, as type checkers read them.

Made by ``python -m tests.references`` of the declarations of questions.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Generic, TypeVar

import pandas as pd

from dpframe.asking.question import Explanation
from dpframe.hierarchy import Hierarchy
from dpframe.measures.measure import Measure
from dpframe.periods import Period

F = TypeVar("F")

class RemoteQuestions(Generic[F]):
    """The questions of a gateway; ``F`` is the kind of its frames."""
    def hhh(
        self,
        hierarchy: str | Sequence[str] | Hierarchy | None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        threshold: float | int | None = None,
        contribution: str | None = None,
        max_contributions: int | None = None,
        weight: str | None = None,
        max_weight: float | None = None,
        mechanism: str | None = None,
        remainder: bool | None = None,
        release_share: float | None = None,
        confidence: float = 0.95,
        counters: int | None = None,
        totals: bool = False,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
        at_most: int | None = None,
        nodes_per_user: int | None = None,
    ) -> F:
        """Hierarchical heavy hitters, differentially private."""
    def explain(
        self,
        hierarchy: str | Sequence[str] | Hierarchy | None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        threshold: float | int | None = None,
        contribution: str | None = None,
        max_contributions: int | None = None,
        weight: str | None = None,
        max_weight: float | None = None,
        mechanism: str | None = None,
        remainder: bool | None = None,
        release_share: float | None = None,
        confidence: float = 0.95,
        counters: int | None = None,
        totals: bool = False,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
        at_most: int | None = None,
        nodes_per_user: int | None = None,
        error: float | Mapping[str, float] | None = None,
    ) -> Explanation[Any]:
        """What hhh with these arguments would do: noise, thresholds, error."""
    def rollup(
        self,
        by: str | Sequence[str] | Hierarchy | None,
        measures: Mapping[str, Measure | str] | Sequence[Measure | str] | str | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        threshold: float | None = None,
        heavy: str | None = None,
        keys: object = None,
        selection_share: float | None = None,
        confidence: float = 0.95,
        contribution: str | None = None,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
        level_importance: Mapping[str, float] | Sequence[float] | str | None = None,
        derive: bool = True,
    ) -> F:
        """Counts, sums and means at every level of a hierarchy, differentially private."""
    def explain_rollup(
        self,
        by: str | Sequence[str] | Hierarchy | None,
        measures: Mapping[str, Measure | str] | Sequence[Measure | str] | str | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        threshold: float | None = None,
        heavy: str | None = None,
        keys: object = None,
        selection_share: float | None = None,
        confidence: float = 0.95,
        contribution: str | None = None,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
        level_importance: Mapping[str, float] | Sequence[float] | str | None = None,
        error: float | Mapping[str, float] | None = None,
        derive: bool = True,
    ) -> Explanation[Any]:
        """What rollup with these arguments would do: noise, thresholds, error."""
    def tree_counts(
        self,
        hierarchy: str | Sequence[str] | Hierarchy | None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        keys: object = None,
        contribution: str | None = None,
        max_contributions: int | None = None,
        weight: str | None = None,
        max_weight: int | None = None,
        mechanism: str = "additive",
        level_weights: Sequence[float] | None = None,
        threshold: int | None = None,
        consistent: bool = True,
        confidence: float = 0.95,
        alpha: float | None = None,
        largest: int | None = None,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
        at_most: int | None = None,
    ) -> F:
        """Counts of all nodes of a hierarchy, differentially private, that add up."""
    def explain_tree_counts(
        self,
        hierarchy: str | Sequence[str] | Hierarchy | None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        keys: object = None,
        contribution: str | None = None,
        max_contributions: int | None = None,
        weight: str | None = None,
        max_weight: int | None = None,
        mechanism: str = "additive",
        level_weights: Sequence[float] | None = None,
        threshold: int | None = None,
        consistent: bool = True,
        confidence: float = 0.95,
        alpha: float | None = None,
        largest: int | None = None,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
        at_most: int | None = None,
        error: float | Mapping[str, float] | None = None,
    ) -> Explanation[Any]:
        """What tree_counts with these arguments would do: noise, thresholds, error."""
    def heavy_hitters(
        self,
        column: str,
        *,
        k: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        threshold: int | None = None,
        contribution: str | None = None,
        max_contributions: int | None = None,
        mechanism: str | None = None,
        counters: int | None = None,
        release_share: float | None = None,
        confidence: float = 0.95,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
        at_most: int | None = None,
    ) -> F:
        """The frequent values of one column, with noisy counts, differentially private."""
    def explain_heavy_hitters(
        self,
        column: str,
        *,
        k: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        threshold: int | None = None,
        contribution: str | None = None,
        max_contributions: int | None = None,
        mechanism: str | None = None,
        counters: int | None = None,
        release_share: float | None = None,
        confidence: float = 0.95,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
        at_most: int | None = None,
        error: float | Mapping[str, float] | None = None,
    ) -> Explanation[Any]:
        """What heavy_hitters with these arguments would do: noise, thresholds, error."""
    def sql(
        self,
        query: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        intervals: bool | None = None,
        threshold: float | None = None,
        confidence: float = 0.95,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        progress: bool = True,
    ) -> F:
        """The answer to a query in SQL, differentially private."""
    def explain_sql(
        self,
        query: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        intervals: bool | None = None,
        threshold: float | None = None,
        confidence: float = 0.95,
        period: str | date | pd.Period | tuple[Any, ...] | Period | None = None,
        error: float | Mapping[str, float] | None = None,
        progress: bool = True,
    ) -> Explanation[Any]:
        """What sql with these arguments would do: the question that the query is read into, its"""
