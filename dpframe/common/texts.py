"""Texts: quoted for SQL, as HTML, made visible on terminals, and as UTF-8.

A notebook shows a few plain lines of an object, and folds the rest below them. Colours are the
page's own, so that it can be read on a light and on a dark page.

Text of Arrow arrays that is no UTF-8 is repaired value by value. Arrow does not look at text that
it is given; DuckDB fails at it or misreads it, and Python's own words about it quote it. One such
record must not decide what happens to the others.
"""

from __future__ import annotations

import codecs
import hashlib
import html
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def identifier(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted string."""
    return "'" + text.replace("'", "''") + "'"


LONGEST_IN_POSTGRES = 63
"""Bytes of a name in PostgreSQL."""

OF_SYSTEM = {"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"}
"""Names of columns that every table of PostgreSQL has."""


def postgres_column(name: str, there: Mapping[str, str]) -> str:
    """The name of a column that PostgreSQL takes: that of one which is there already, in any case,
    or one of at most 63 bytes, of which a digest keeps long ones apart."""
    name = name.replace("\0", "\ufffd") or "_"
    if len(name.encode()) > LONGEST_IN_POSTGRES:
        start = name.encode()[: LONGEST_IN_POSTGRES - 9].decode("utf-8", "ignore")
        name = f"{start}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    name = f"{name}_" if name in OF_SYSTEM else name
    if name in there:
        return name
    return next((one for one in there if one.casefold() == name.casefold()), name)


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


@cache
def arrow_texts() -> tuple[pa.DataType, ...]:
    """Arrow's three layouts of texts."""
    import pyarrow as pa  # late: help of the command line loads no library

    return pa.string(), pa.large_string(), pa.string_view()


def unicode(array: pa.Array) -> pa.Array:
    """Texts as UTF-8; the same array if it was UTF-8 already, or holds no texts."""
    import pyarrow as pa  # late: help of the command line loads no library

    if array.type not in arrow_texts():
        return array
    try:
        array.validate(full=True)
        return array
    except pa.ArrowInvalid:
        pass
    texts = array.cast(pa.large_binary()).to_pylist()
    return pa.array([t if t is None else decode_bytes(t) for t in texts], type=array.type)


def is_unicode(text: str) -> bool:
    """Whether a text of Python can be written as UTF-8, which lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


ESCAPES = "dpframe.escapes"
"""The name under which codecs find how to write bytes that are no text of an encoding."""


def _escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(f"\\x{byte:02X}" for byte in wrong), error.end


codecs.register_error(ESCAPES, _escapes)


def decode_bytes(raw: bytes) -> str:
    r"""Bytes as text; a byte that is no UTF-8 is written as DuckDB writes it, such as ``\x80``, so
    that different bytes stay different."""
    return raw.decode("utf-8", ESCAPES)


def escape_bytes(raw: bytes) -> str:
    """Bytes as DuckDB writes a BLOB: printable ASCII as it is, other bytes in hexadecimal."""
    return re.sub(rb"[^ -~]|[\\'\"]", lambda m: b"\\x%02X" % ord(m[0]), raw).decode()
