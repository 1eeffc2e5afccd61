"""SQL dialects that a rollup can be written in: what one engine says in its own way.

DuckDB is not among them but in front of them: the package runs it, and its statement is written by
the hierarchies themselves. Every other engine gets the same nodes from the few operations of
:class:`Dialect`, all keys as text.
"""

from __future__ import annotations

from dpframe.dialects._bigquery import BigQuery
from dpframe.dialects._dialect import REAL, SPACES, WHOLE, ZONED, Dialect, canonical_type
from dpframe.dialects._postgres import Postgres
from dpframe.dialects._snowflake import Snowflake
from dpframe.dialects._spark import Spark

__all__ = [
    "DIALECTS",
    "POSTGRES",
    "REAL",
    "RUN",
    "SPACES",
    "SPARK",
    "WHOLE",
    "ZONED",
    "Dialect",
    "canonical_type",
]

SPARK = Spark()
POSTGRES = Postgres()

RUN = (POSTGRES, SPARK)
"""Those whose statements tests run against DuckDB's; others are only parsed."""

DIALECTS: dict[str, Dialect] = {
    **{d.name: d for d in (*RUN, Snowflake(), BigQuery())},
    "databricks": SPARK,
}
"""By name."""
