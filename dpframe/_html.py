"""What a notebook shows of an object: a few plain lines, and the rest folded below them.

Colours are the page's own, so that it can be read on a light and on a dark page.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

CELL = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0;white-space:normal"


def folded_html(title: str, lines: Iterable[str], more: str, rows: Iterable[Sequence[str]]) -> str:
    """HTML of a title, lines, and a table that opens below ``more``.

    All arguments are text, and are escaped here. The first cell of a row is its heading.
    """
    shown = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    table = "".join(_html_row(row) for row in rows)
    if table:
        table = (
            f"<details><summary style='cursor:pointer'>{html.escape(more)}</summary>"
            "<table style='color:inherit;background:transparent;border-collapse:collapse'>"
            f"<tbody>{table}</tbody></table></details>"
        )
    return (
        "<div style='color:inherit;background:transparent;border-left:.2em solid currentColor;"
        f"padding-left:.8em'><div><strong>{html.escape(title)}</strong></div>{shown}{table}</div>"
    )


def _html_row(cells: Sequence[str]) -> str:
    first, *others = map(html.escape, cells)
    style = "color:inherit;background:transparent"
    return (
        f"<tr style='{style}'><th scope='row' style='{CELL}'>{first}</th>"
        + "".join(f"<td style='{CELL}'>{cell}</td>" for cell in others)
        + "</tr>"
    )
