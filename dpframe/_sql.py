"""Quoting: the only place where text becomes part of a SQL statement."""

from __future__ import annotations

from collections.abc import Sequence


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


def json_as_text(columns: Sequence[str], types: Sequence[str]) -> str:
    """All columns in a SELECT, those of type JSON as texts: ``TRY_CAST`` of JSON to a number raises
    for a text that is no JSON, and nobody checked that there is none."""
    names = [identifier(c) for c, kind in zip(columns, types, strict=True) if kind == "JSON"]
    texts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in names)
    return f"* REPLACE ({texts})" if texts else "*"


def ascending(*columns: str, nulls: str = "LAST") -> str:
    """What stands behind ORDER BY: a connection can have other defaults than DuckDB."""
    return ", ".join(f"{column} ASC NULLS {nulls}" for column in columns)
