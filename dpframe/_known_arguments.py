"""Errors for calls that do not fit a signature, in our words and by the name of what was called."""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import numbers
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from dpframe._forks import InsideCall
from dpframe._tracebacks import BY_IPYTHON, render_for_ipython, shorten_traceback
from dpframe.errors import DpframeError, ParameterTypeError

inside_call = InsideCall(DpframeError)

T = TypeVar("T", bound=Callable[..., Any])

setattr(DpframeError, BY_IPYTHON, render_for_ipython)

BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def known_arguments(called: T) -> T:
    """Let a function explain calls that do not fit it: an unknown name by the name that was meant.

    In a class, this holds for the constructor and the public methods. Our errors have short
    tracebacks then.
    """
    if not inspect.isclass(called):
        return cast(T, _check_calls(called))
    for name, member in list(vars(called).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(called, name, _check_calls(member))
        elif isinstance(member, classmethod):
            setattr(called, name, classmethod(_check_calls(member.__func__)))
        elif isinstance(member, property) and member.fget is not None:
            setattr(
                called, name, property(shorten_errors(member.fget), member.fset, doc=member.__doc__)
            )
    return called


def shorten_errors(called: T) -> T:
    """Let a function raise our errors without frames of ours."""

    @functools.wraps(called)
    def call(*args: Any, **arguments: Any) -> Any:
        around = sys.exc_info()[1]
        try:
            with inside_call:
                return called(*args, **arguments)
        except DpframeError as error:
            raise shorten_traceback(error, around)  # noqa: B904  DPFRAME_TRACEBACK=full: all frames

    return cast(T, call)


def _check_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **arguments: Any) -> Any:
        around = sys.exc_info()[1]
        try:
            with inside_call:
                bind_arguments(function, signature, args, arguments)
                return function(*args, **arguments)
        except DpframeError as error:
            raise shorten_traceback(error, around)  # noqa: B904  DPFRAME_TRACEBACK=full: all frames

    return call


def bind_arguments(
    function: Callable[..., object],
    signature: inspect.Signature,
    args: Sequence[object],
    arguments: Mapping[str, object],
) -> dict[str, Any]:
    """The arguments of a call by name; ParameterTypeError if it does not fit the signature."""
    try:
        return dict(signature.bind(*args, **arguments).arguments)
    except TypeError:
        raise ParameterTypeError(_misfit(function, signature, args, arguments)) from None


def _misfit(
    function: Callable[..., object],
    signature: inspect.Signature,
    args: Sequence[object],
    arguments: Mapping[str, object],
) -> str:
    """What is wrong with a call: its first fault, and what to write."""
    name, docs = _callable_name(function), [function.__doc__]
    parameters = {p.name: p for p in signature.parameters.values() if p.name not in ("self", "cls")}
    own = len(signature.parameters) - len(parameters)
    given = args[own:]
    if own:
        docs.append(inspect.getdoc(args[0]))
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        check_known(name, arguments, tuple(parameters))
    places = [p.name for p in parameters.values() if p.kind in BY_PLACE]
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    if len(given) > len(places) and not many:
        first = f"takes {' and '.join(places)} first and the rest" if places else "takes arguments"
        return f"{name} {first} by name; got {len(given)} without a name.{_for_example(name, docs)}"
    twice = [p for p in places[: len(given)] if p in arguments]
    if twice:
        return f"{name} has {twice[0]!r} by place and name. Leave one out."
    missing = [
        p.name
        for p in parameters.values()
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and p.name not in (*places[: len(given)], *arguments)
    ]
    return lacks_message(name, missing, docs)


def lacks_message(name: str, missing: Sequence[str], docs: Sequence[str | None]) -> str:
    """The message about arguments that a call lacks, with an example out of docstrings."""
    return f"{name} lacks {', '.join(missing)}.{_for_example(name, docs)}"


def _callable_name(function: Callable[..., object]) -> str:
    """The name of a function, or of the class that it constructs."""
    return function.__qualname__.removesuffix(".__init__").split(".")[-1]


def _for_example(name: str, docs: Sequence[str | None]) -> str:
    """The first call in the examples of docstrings, without what is done with its result."""
    import doctest

    for doc in docs:
        for example in doctest.DocTestParser().get_examples(inspect.cleandoc(doc or "")):
            for node in ast.walk(ast.parse(example.source)):
                called = isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1]
                if called == name:
                    text = ast.get_source_segment(example.source, node) or ""
                    return f" For example: {' '.join(text.split())}"
    return ""


def check_known(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise ParameterTypeError for the first name that a function does not know."""
    for name in given:
        if name not in known:
            raise ParameterTypeError(
                f"{function} has no argument {name!r}.{argument_hint(name, known)}"
            )


CALLED: Mapping[str, Sequence[str]] = {
    "hierarchy by columns column": (
        *("by", "column", "columns", "cols", "dimensions", "fields", "group_by", "groupby"),
        *("hierarchies", "hierarchy", "on", "path"),
    ),
    "delta": ("del",),
    "epsilon": ("eps", "budget", "privacy_budget"),
    "max_contributions at_most": ("contribution_bound", "max_partitions_contributed"),
    "measures": ("agg", "aggregate", "aggregates", "aggs", "measure", "metric", "metrics"),
    "source path": ("df", "file", "filename", "frame", "table"),
    "threshold": ("min_count", "minimum", "min_size", "cutoff"),
    "user": ("id", "person", "privacy_id", "privacy_unit", "uid", "user_column", "user_id"),
}
"""Words that people write for an argument, by its name in dpframe. A key has several names if
functions call the argument differently; the first name that a function has is meant. Names that
look alike can mean different things: ``columns`` is not ``counters``."""

OF_TIME = (
    "Levels of time are the hierarchy 'date:COLUMN'. Records of one time are chosen by period."
)

LACKING: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("date", "dates", "time", "timestamp", "when", "window"), ("period", OF_TIME)),
    "column": ("share", "It counts rows: different values of a column are dp.distinct('COLUMN')."),
    "delta": ("epsilon", "Its guarantee is pure, with delta 0. Leave it out."),
    "keys": ("threshold", "It finds keys itself. Listed keys are counted by tree_counts."),
    "seed": ("epsilon", "Nobody may know the noise before it is drawn. Leave it out."),
}
"""Arguments that functions lack on purpose: if a function has the first name here, what to do."""


def argument_hint(name: str, known: Sequence[str]) -> str:
    """The hint for an unknown name: what to write, or else all known names."""
    near, plain = nearest_name(name, known), _plain_name(name)
    if near is not None:
        return f" Did you mean {near!r}?"
    beside, remark = LACKING.get(plain, ("", ""))
    if beside in map(_plain_name, known):
        return f" {remark}"
    return f" It has: {', '.join(known)}."


def nearest_name(name: str, known: Sequence[str]) -> str | None:
    """The known name that was probably meant."""
    names = {_plain_name(option): option for option in known}
    for arguments, words in CALLED.items():
        for argument in arguments.split() if _plain_name(name) in words else ():
            if argument in names:
                return names[argument]
    if LACKING.get(_plain_name(name), ("",))[0] in names:
        return None
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return near[0] if near else None


def _plain_name(name: str) -> str:
    """The name of an argument, also from an option of the command line."""
    return name.lstrip("-").replace("-", "_").lower()


def shown_value(value: object) -> str:
    """A value of a wrong type as an error may show it: text and numbers as they are, of all else
    only the type, because a frame would print its rows."""
    if value is None or isinstance(value, str | bool | numbers.Number):
        return repr(value)[:200]
    return type(value).__name__
