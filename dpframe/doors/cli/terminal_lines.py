"""Print lines for people; control characters become visible, so that no terminal obeys them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import IO

from dpframe._terminal import style_text, visible
from dpframe.errors import DpframeError


class NotPrintedError(DpframeError):
    """Standard output cannot be written, for instance because the disk is full."""


def say(text: object, file: IO[str] | None = None, styles: Mapping[int, str] = {}) -> None:
    """Print lines for people; characters that the terminal's encoding lacks are escaped.

    ``styles`` maps numbers of lines, from 0, to styles, for terminals that show styles.
    """
    out = sys.stdout if file is None else file
    lines = _visible_lines(text, out)
    print_text("\n".join(style_text(line, styles.get(n), out) for n, line in enumerate(lines)), out)


def print_failure(text: str) -> None:
    """Print on standard error what went wrong."""
    said = "\n".join(_visible_lines(text, sys.stderr))
    print_text(f"{style_text('dpframe:', 'wrong', sys.stderr)} {said}", sys.stderr)


def _visible_lines(text: object, out: IO[str]) -> list[str]:
    """Split a text into lines that a terminal shows and does not obey."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    return [
        visible(line).encode(encoding, "backslashreplace").decode(encoding)
        for line in str(text).split("\n")
    ]


def print_text(text: str, out: IO[str]) -> None:
    """Print a text unchanged, and a line break; NotPrintedError if ``out`` cannot be written."""
    try:
        print(text, file=out, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise print_error(error) from error


def print_error(error: OSError) -> NotPrintedError:
    """Return the error for output that cannot be written."""
    return NotPrintedError(f"nothing can be printed ({error.strerror}).")
