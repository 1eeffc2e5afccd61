"""Arguments that a function does not have, answered in its own name, at every door alike."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, TypeVar

from dpframe.errors import ParameterTypeError

P = ParamSpec("P")
T = TypeVar("T")


def known_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which answers an unknown name with the one that was meant."""
    known = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        check_known(function.__name__, kwargs, known)
        return function(*args, **kwargs)

    return call


def check_known(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise ParameterTypeError for the first name that a function does not know."""
    for name in given:
        if name not in known:
            raise ParameterTypeError(f"{function} has no argument {name!r}.{meant(name, known)}")


def meant(name: str, known: Sequence[str]) -> str:
    """The name that was probably meant, or else all names."""
    names = [other for other in known if other != "self"]
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else f" It has: {', '.join(names)}."
