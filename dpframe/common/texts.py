"""Texts: quoted for SQL, as HTML, and made visible on terminals.

A notebook shows a few plain lines of an object, and folds the rest below them. Colours are the
page's own, so that it can be read on a light and on a dark page.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Sequence
from typing import IO


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


CELL = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0;white-space:normal"


def folded_html(title: str, lines: Iterable[str], more: str, rows: Iterable[Sequence[str]]) -> str:
    """HTML of a title, lines, and a table that opens below ``more``.

    All arguments are text, and are escaped here. The first cell of a row is its heading.
    """
    shown = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    return (
        "<div style='color:inherit;background:transparent;border-left:.2em solid currentColor;"
        f"padding-left:.8em'><div><strong>{html.escape(title)}</strong></div>{shown}"
        f"{fold_rows(more, rows)}</div>"
    )


def fold_rows(more: str, rows: Iterable[Sequence[str]]) -> str:
    """HTML of a table that opens below ``more``, escaped here; nothing without rows."""
    table = "".join(_html_row(row) for row in rows)
    if not table:
        return ""
    return (
        f"<details><summary style='cursor:pointer'>{html.escape(more)}</summary>"
        "<table style='color:inherit;background:transparent;border-collapse:collapse'>"
        f"<tbody>{table}</tbody></table></details>"
    )


def _html_row(cells: Sequence[str]) -> str:
    first, *others = map(html.escape, cells)
    style = "color:inherit;background:transparent"
    return (
        f"<tr style='{style}'><th scope='row' style='{CELL}'>{first}</th>"
        + "".join(f"<td style='{CELL}'>{cell}</td>" for cell in others)
        + "</tr>"
    )


OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: escape sequences begin with one
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text around it
    "\u2028\u2029\ud800-\udfff]"  # ends of lines, and halves of characters
)


def visible(text: str) -> str:
    r"""The text with what a terminal would obey written out.

    >>> print(visible("\x1b[31mred"))
    \x1b[31mred
    """
    return OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


STYLES = {"strong": "1", "faint": "2", "wrong": "1;31"}
"""How a terminal shall write text: codes of SGR, ECMA-48."""


def style_text(text: str, style: str | None, out: IO[str]) -> str:
    """Text that is visible already, in a style where it may have one: on a terminal that has
    colours, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if not style or not text or plain or not out.isatty():
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"
