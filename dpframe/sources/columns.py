"""Find columns by name. Names are public; values never appear in a message."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from dpframe.errors import ColumnError


def require_columns(
    wanted: Sequence[str],
    present: Sequence[object],
    *,
    listed: bool = True,
    alone: bool = False,
    index: Sequence[object] = (),
) -> None:
    """Raise ColumnError unless every wanted column occurs once, and in one spelling.

    ``alone`` says that SQL will see only the wanted columns. ``listed=False`` keeps the present
    names out of the message: the first line of a text file without a header is a record. ``index``
    names the levels of a frame's index, which are no columns.
    """
    names = [column for column in present if isinstance(column, str)]
    for name in wanted:
        if name not in names and name in index:
            raise ColumnError(f"column {name!r} is in the index. Pass frame.reset_index().")
        if name not in names:
            raise ColumnError(
                f"column {name!r} does not exist.{_missing_column_help(name, names, listed)}"
            )
        if names.count(name) > 1:
            raise ColumnError(f"column {name!r} appears {names.count(name)} times. Rename one.")
        seen = wanted if alone else names
        twins = {other for other in seen if other.lower() == name.lower()} - {name}
        if twins:  # SQL does not tell them apart, and could read the wrong column
            raise ColumnError(
                f"columns {name!r} and {min(twins)!r} differ in case only. Rename one."
            )


def check_arrow_types(types: Mapping[str, object]) -> None:
    """Raise ColumnError for a Polars type that Arrow lacks; ``types`` maps columns to types."""
    for name, kind in types.items():
        if "Int128" in str(kind):
            raise ColumnError(
                f"column {name!r} has type {kind}, which Arrow lacks. Cast it to Int64, or a key "
                "to String."
            )


def _missing_column_help(name: str, names: list[str], listed: bool) -> str:
    if not listed:
        return " The first line of the file must name the columns."
    near = [other for other in names if other.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    outer, dot, field = name.partition(".")
    if dot and outer in names:
        return (
            f" Fields of column {outer!r} are not read. Make a column of the field: in SQL "
            f"{outer}.{field} AS {field}, in pandas df[{outer!r}].str[{field!r}]."
        )
    if set("*>") & set(name) and not any(sign in name for sign in (" * ", " > ")):
        hint += " For several hierarchies hhh and rollup read 'a * b' and 'a > b', with blanks."
    some = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    return f"{hint} Columns: {some or 'none'}."
