"""A column of weights: how many records a row stands for. Every value reads as a whole number."""

from __future__ import annotations

from dpframe._sql import literal
from dpframe.budget import PrivacyUnit
from dpframe.errors import ColumnError

LARGEST = 10**9
"""Records that a row stands for at most: sums of as many rows as there are fit 64 bits."""

READ = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    *("UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", '"NULL"'),
)
"""DuckDB's types, without parameters, that hold weights."""

READABLE = (
    "; a weight is read from whole numbers, floating-point numbers and decimals. Cast the column "
    "to BIGINT, or name another one."
)


def most(unit: PrivacyUnit) -> int:
    """Records that a row of a unit with weights stands for at most."""
    return LARGEST if unit.max_weight is None else min(unit.max_weight, LARGEST)


def check_weight_type(column: str, duckdb_type: str, *, text: bool = False) -> None:
    """Raise ColumnError unless the DuckDB type of a column, which is public, holds numbers.

    ``text`` lets texts pass: a CSV file has nothing else.
    """
    if text and duckdb_type == "VARCHAR":
        return
    outer = duckdb_type.split("(")[0]  # what is inside can list values of an ENUM
    if outer not in READ or duckdb_type.endswith("]"):
        raise ColumnError(f"column {column!r} has type {outer}{READABLE}")


def weight_sql(value: str, column: str, most: int, *, text: bool = False) -> str:
    """SQL of a weight, BIGINT in 0 to ``most``, from the SQL of the value of a column.

    Larger weights become ``most``. NULL, NaN, infinite, negative and fractional ones are 0. No
    value is an error; a type that holds no numbers is, and is all that the error tells. With
    ``text``, texts are read as the numbers that they are, and count 0 otherwise.
    """
    number, kind = f"TRY_CAST({value} AS DOUBLE)", f"typeof({value})"  # a constant for DuckDB
    outer = f"split_part({kind}, '(', 1)"
    # a decimal can have more digits than a double
    digits = f"regexp_full_match(CAST({value} AS VARCHAR), '[0-9]*(\\.0*)?')"
    whole = (
        f"{number} = floor({number}) "
        f"AND CASE WHEN {outer} = 'DECIMAL' AND NOT ends_with({kind}, ',0)') "
        f"THEN {digits} ELSE true END"
    )
    read = (*READ, "VARCHAR") if text else READ
    before, after = literal(f"column {column!r} has type "), literal(READABLE)
    return (
        f"CASE WHEN {outer} NOT IN ({', '.join(map(literal, read))}) OR ends_with({kind}, ']') "
        f"THEN error({before} || {outer} || {after}) "
        f"WHEN isfinite({number}) AND {number} >= 1 AND {whole} "
        f"THEN TRY_CAST(least({number}, {most}::DOUBLE) AS BIGINT) ELSE 0::BIGINT END"
    )
