"""Read a column of weights: how many records a row stands for, or how much of a measure it has."""

from __future__ import annotations

from dpframe.budget import PrivacyUnit
from dpframe.hierarchy._types import REAL, WHOLE, Advice, outer_type, unreadable_type

READ = (*WHOLE, '"NULL"')
"""DuckDB's types, without parameters, that hold weights; decimals without digits after the point
do too."""

MEASURED = (*READ, *REAL, "DECIMAL")
"""Types that hold a measure."""

HUNDREDTHS = "Count hundredths, max_weight too"


def fraction_advice(df: str) -> str:
    """Advice on questions that add up fractions; ``df`` is how pandas writes the column."""
    column = df.removeprefix("df[").removesuffix("]")
    return (
        f" Sums of fractions: df.dp.rollup(by, {{'total': dp.sum({column}, lower=0, upper=...)}}, "
        f"...). Heavy by fractions: df.dp.hhh(..., weight={column}, max_weight=...)."
    )


ADVICE: dict[tuple[str, ...], Advice] = {
    REAL: lambda df, sql: (
        f"{HUNDREDTHS}: in pandas ({df} * 100).round().astype('Int64'), in SQL CAST(round({sql} * "
        f"100) AS BIGINT). Floats by a missing value: {df}.astype('Int64').{fraction_advice(df)}"
    ),
    ("DECIMAL",): lambda df, sql: (
        f"{HUNDREDTHS}: in pandas ({df}.astype('Float64') * 100).round().astype('Int64'), in SQL "
        f"CAST(round({sql} * 100) AS BIGINT).{fraction_advice(df)}"
    ),
    ("VARCHAR", "ENUM"): lambda df, sql: (
        f"{HUNDREDTHS}: in pandas (pd.to_numeric({df}, errors='coerce') * 100).round()"
        f".astype('Int64'), in SQL CAST(round(TRY_CAST({sql} AS DOUBLE) * 100) AS BIGINT). For "
        "whole numbers leave out * 100."
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
    """Raise ColumnError unless the type of the weight's column, which is public, is a type of whole
    numbers, or of any numbers if the weight is a measure.

    A fraction of a record would count 0, and columns of floating-point numbers hold fractions.
    ``text`` lets texts pass: a CSV file has nothing else.
    """
    column, kind = unit.weight or "", outer_type(duckdb_type)
    if text and duckdb_type == "VARCHAR":
        return
    if unit.measured:
        if kind not in MEASURED:
            raise unreadable_type(
                "a measure is read from", column, duckdb_type, "numbers", MEASURE_ADVICE, NUMBERS
            )
        return
    whole_decimal = duckdb_type.startswith("DECIMAL(") and duckdb_type.endswith(",0)")
    if kind not in READ and not whole_decimal:
        raise unreadable_type(
            "a weight is read from", column, duckdb_type, "whole numbers", ADVICE, OTHERWISE
        )


def weight_sql(value: str, most: int) -> str:
    """SQL of a weight, BIGINT in 0 to ``most``, from the SQL of a value: a whole number, or a text
    that is read as one.

    Larger weights become ``most``. NULL, negative numbers and texts that are no whole number are 0.
    No value is an error, nor is a type, since ``check_weight_type`` has checked it.
    """
    number = f"TRY_CAST({value} AS DOUBLE)"
    return (
        f"CASE WHEN isfinite({number}) AND {number} >= 1 AND {number} = floor({number}) "
        f"THEN TRY_CAST(least({number}, {most}::DOUBLE) AS BIGINT) ELSE 0::BIGINT END"
    )
