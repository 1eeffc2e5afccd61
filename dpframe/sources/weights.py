"""A column of weights: how many records a row stands for, or how much of a measure it has."""

from __future__ import annotations

from dpframe.budget import PrivacyUnit
from dpframe.hierarchy._types import REAL, WHOLE, Advice, outer, refused

READ = (*WHOLE, '"NULL"')
"""DuckDB's types, without parameters, that hold weights; decimals without digits after the point
do too."""

MEASURED = (*READ, *REAL, "DECIMAL")
"""Types that hold a measure."""

HUNDREDTHS = "Count in whole units such as hundredths, in which max_weight is then too"


def sums(df: str) -> str:
    """The questions that add up a column as it is; ``df`` is how pandas writes the column."""
    column = df.removeprefix("df[").removesuffix("]")
    return (
        f" Sums of what is not whole: df.dp.rollup(by, {{'total': dp.sum({column}, lower=0, "
        f"upper=...)}}, ...). What is heavy by it: df.dp.hhh(..., weight={column}, max_weight=...)."
    )


ADVICE: dict[tuple[str, ...], Advice] = {
    REAL: lambda df, sql: (
        f"{HUNDREDTHS}: in pandas ({df} * 100).round().astype('Int64'), in SQL CAST(round({sql} * "
        "100) AS BIGINT). Whole numbers that a missing value turned into floating-point ones: "
        f"{df}.astype('Int64').{sums(df)}"
    ),
    ("DECIMAL",): lambda df, sql: (
        f"{HUNDREDTHS}: in pandas ({df}.astype('Float64') * 100).round().astype('Int64'), in SQL "
        f"CAST(round({sql} * 100) AS BIGINT).{sums(df)}"
    ),
    ("VARCHAR", "ENUM"): lambda df, sql: (
        f"{HUNDREDTHS}: in pandas (pd.to_numeric({df}, errors='coerce') * 100).round()"
        f".astype('Int64'), in SQL CAST(round(TRY_CAST({sql} AS DOUBLE) * 100) AS BIGINT). Of "
        "texts that are whole numbers leave out * 100."
    ),
}

MEASURE_ADVICE: dict[tuple[str, ...], Advice] = {
    ("VARCHAR", "ENUM"): lambda df, sql: (
        f"Make numbers of it, in pandas pd.to_numeric({df}, errors='coerce'), in SQL "
        f"TRY_CAST({sql} AS DOUBLE)."
    ),
    ("INTERVAL",): lambda df, sql: (
        f"Seconds are {df}.dt.total_seconds() in pandas, epoch({sql}) in SQL."
    ),
}

OTHERWISE = "Cast the column to whole numbers (BIGINT), or name another one."
NUMBERS = "Cast the column to numbers (DOUBLE), or name another one."


def check_weight_type(unit: PrivacyUnit, duckdb_type: str, *, text: bool = False) -> None:
    """Raise ColumnError unless a column holds what the unit weighs rows by: whole numbers, or
    numbers where it is a measure. By its type alone, which is public.

    Fractions of records would count 0, and a column of floating-point numbers is there to hold
    them. ``text`` lets texts pass: a CSV file has nothing else.
    """
    column, kind = unit.weight or "", outer(duckdb_type)
    if text and duckdb_type == "VARCHAR":
        return
    if unit.measured:
        if kind not in MEASURED:
            raise refused(
                "a measure is read from", column, duckdb_type, "numbers", MEASURE_ADVICE, NUMBERS
            )
        return
    whole_decimal = duckdb_type.startswith("DECIMAL(") and duckdb_type.endswith(",0)")
    if kind not in READ and not whole_decimal:
        raise refused(
            "a weight is read from", column, duckdb_type, "whole numbers", ADVICE, OTHERWISE
        )


def weight_sql(value: str, most: int) -> str:
    """SQL of a weight, BIGINT in 0 to ``most``, from the SQL of the value of a column of whole
    numbers, or of texts that are read as such.

    Larger weights become ``most``. NULL, negative ones and texts that are no whole number are 0.
    No value is an error, nor is a type: ``check_weight_type`` has seen it.
    """
    number = f"TRY_CAST({value} AS DOUBLE)"
    return (
        f"CASE WHEN isfinite({number}) AND {number} >= 1 AND {number} = floor({number}) "
        f"THEN TRY_CAST(least({number}, {most}::DOUBLE) AS BIGINT) ELSE 0::BIGINT END"
    )
