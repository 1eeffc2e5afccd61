"""The only place that loads numba, so that ``import dpframe`` does not, and works without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from dpframe.errors import DpframeError

try:
    import numba
except ImportError:
    raise DpframeError(
        "sketches need numba, which compiles them: pip install 'dpframe[streams]'."
    ) from None

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call; keep the code on disk where there is a place to write. Other
    threads go on while it runs.

    numba looks for changes in the file of a function only: one compiled function may call another
    of the same file, never of another file.
    """
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # a read-only installation, and no home directory either
        return cast(Function, numba.njit(nogil=True)(function))


def inlined(function: Function) -> Function:
    """For arithmetic in hot loops. Not for functions that take arrays: each call would count
    references to them."""
    return cast(Function, numba.njit(inline="always")(function))
