"""SQL dialects in which a rollup can be written: what each engine says in its own way.

DuckDB is not among them: the package runs it, and the hierarchies themselves write its statement.
For every other engine, the few operations of :class:`Dialect` give equal nodes, with all keys as
text.
"""

from __future__ import annotations

from dpframe.dialects._dialect import (
    REAL,
    SPACES,
    WHOLE,
    ZONED,
    BigQuery,
    Dialect,
    Snowflake,
    canonical_type,
)
from dpframe.dialects._engines import Postgres, Spark

__all__ = [
    "DIALECTS",
    "POSTGRES",
    "REAL",
    "SPACES",
    "SPARK",
    "TESTED_DIALECTS",
    "WHOLE",
    "ZONED",
    "Dialect",
    "canonical_type",
]

SPARK = Spark()
POSTGRES = Postgres()

TESTED_DIALECTS = (POSTGRES, SPARK)
"""Dialects whose statements tests run and compare with DuckDB's. Other dialects are only parsed."""

DIALECTS: dict[str, Dialect] = {
    **{d.name: d for d in (*TESTED_DIALECTS, Snowflake(), BigQuery())},
    "databricks": SPARK,
}
"""All dialects by name."""
