"""Quoting: the only place where text becomes part of a SQL statement."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted string."""
    return "'" + text.replace("'", "''") + "'"


def is_nan(number: str) -> str:
    """SQL of whether a floating-point number is NaN.

    ``isnan`` and comparisons are not enough: DuckDB answers them from the statistics of a Parquet
    file, in which NaN is left out, so that a NaN seems to lie between the other numbers.
    """
    return f"NOT (isfinite({number}) OR isinf({number}))"


def ascending_order(*columns: str, nulls: str = "LAST") -> str:
    """Columns for ORDER BY, with all said: a connection can have other defaults than DuckDB."""
    return ", ".join(f"{column} ASC NULLS {nulls}" for column in columns)
