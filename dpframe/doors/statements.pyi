"""Statements for warehouses, as type checkers read them.

Made by ``python -m tests.references`` of the declarations of questions.
"""

from collections.abc import Mapping, Sequence
from datetime import date

import pandas as pd

from dpframe.asking.warehouse_plan import RollupSql
from dpframe.hierarchy import Hierarchy
from dpframe.measures.measure import Measure
from dpframe.periods import Period

def measures_sql(
    by: str | Sequence[str] | Hierarchy,
    measures: Mapping[str, Measure | str] | Sequence[Measure | str] | str,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    user: str | None = None,
    threshold: float | None = None,
    heavy: str | None = None,
    keys: object = None,
    selection_share: float | None = None,
    confidence: float = 0.95,
    contribution: str | None = None,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    level_importance: Mapping[str, float] | Sequence[float] | str | None = None,
) -> RollupSql: ...
def rollup_sql(
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    threshold: float | int | None = None,
    user: str | None = None,
    contribution: str | None = None,
    max_contributions: int | None = None,
    weight: str | None = None,
    max_weight: float | None = None,
    mechanism: str | None = None,
    remainder: bool | None = None,
    release_share: float | None = None,
    confidence: float = 0.95,
    acknowledge: bool = False,
    totals: bool = False,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    at_most: int | None = None,
    nodes_per_user: int | None = None,
) -> RollupSql: ...
def tree_rollup_sql(
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    keys: object = None,
    user: str | None = None,
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
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    at_most: int | None = None,
) -> RollupSql: ...
