"""Lines for people, on a terminal or not: what is in them is shown and not obeyed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import IO

from dpframe._terminal import styled, visible
from dpframe.errors import DpframeError


class NotPrintedError(DpframeError):
    """Standard output takes nothing, for instance because the disk is full."""


def say(text: object, file: IO[str] | None = None, styles: Mapping[int, str] = {}) -> None:
    """Print lines for people: a terminal shows what is in them, whatever its encoding.

    ``styles`` are those of some lines, where the terminal has any.
    """
    out = sys.stdout if file is None else file
    lines = _lines(text, out)
    print_text("\n".join(styled(line, styles.get(n), out) for n, line in enumerate(lines)), out)


def fail(text: str) -> None:
    """Say on standard error what went wrong."""
    said = "\n".join(_lines(text, sys.stderr))
    print_text(f"{styled('dpframe:', 'wrong', sys.stderr)} {said}", sys.stderr)


def _lines(text: object, out: IO[str]) -> list[str]:
    """Lines as a terminal shows them and does not obey them."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    return [
        visible(line).encode(encoding, "backslashreplace").decode(encoding)
        for line in str(text).split("\n")
    ]


def print_text(text: str, out: IO[str]) -> None:
    """Print a line as it is; NotPrintedError if there is no room."""
    try:
        print(text, file=out, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unprintable(error) from error


def unprintable(error: OSError) -> NotPrintedError:
    """What is raised where a line cannot be written."""
    return NotPrintedError(f"nothing can be printed ({error.strerror}).")
