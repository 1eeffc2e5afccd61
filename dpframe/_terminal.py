"""Text for a terminal, which shall show it and not obey it."""

from __future__ import annotations

import os
import re
from typing import IO

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
