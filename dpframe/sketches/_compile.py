"""Compile the loops of sketches with numba.

Only this module loads numba, so that ``import dpframe`` works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from dpframe._late_imports import import_extra

numba = import_extra(
    "numba", "sketches need numba, which compiles them: pip install 'dpframe[streams]'."
)

Function = TypeVar("Function", bound=Callable[..., Any])


def compile_loop(function: Function) -> Function:
    """Compile a function at its first call, and keep its code on disk where that can be written.

    Other threads run on while the compiled function runs. numba looks for changes only in the file
    of a function: a compiled function may call others in its own file, never in another file.
    """
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # a read-only installation, and no home directory either
        return cast(Function, numba.njit(nogil=True)(function))


def compile_inline(function: Function) -> Function:
    """Compile a function into its callers: arithmetic in hot loops. Do not use it for functions
    that take arrays: each call would count references to the arrays."""
    return cast(Function, numba.njit(inline="always")(function))
