"""Calls: errors that name what did not fit, short tracebacks, forked children, late imports.

**Forked children** lack the threads of their parent: what one of them was doing at the fork, such
as loading a module or waiting inside SQLite, is never finished there.

So a child makes locks and databases anew. If another thread was inside a call at the fork, the
child refuses all calls, because it could wait for ever. Nothing waits for other threads' imports.

**Short tracebacks** of our own errors show a caller the line that was wrong, and not how we found
that out.

The message of such an error is all that there is to know. Errors that are not ours keep every
frame; ``DPFRAME_TRACEBACK=full`` in the environment keeps all frames of our errors, too.
"""

from __future__ import annotations

import ast
import atexit
import difflib
import functools
import importlib.util
import inspect
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dpframe.errors import DpframeError, ParameterTypeError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_calls: dict[int, int] = {}
"""How many calls each thread is inside of."""

_was_torn = False
"""Whether this process was forked while another thread was inside a call."""


class InsideCall:
    """A block that is a call for forks of other threads. It raises ``error`` in a child that was
    forked while another thread was inside such a block."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __enter__(self) -> None:
        if _was_torn:
            raise self._error(
                "this process was forked while another thread was inside a call of dpframe. Start "
                "it with spawn, for instance by multiprocessing.get_context('spawn')."
            )
        thread = get_ident()
        _calls[thread] = _calls.get(thread, 0) + 1

    def __exit__(self, *error: object) -> None:
        thread = get_ident()
        if _calls[thread] > 1:
            _calls[thread] -= 1
        else:
            del _calls[thread]


def is_torn() -> bool:
    """Whether this process was forked while another thread was inside a call."""
    return _was_torn


def others_inside() -> bool:
    """Whether another thread is inside a call."""
    return bool(_calls.keys() - {get_ident()})


_before: list[Callable[[], object]] = []
_in_parent: list[Callable[[], object]] = []
_in_child: list[Callable[[], object]] = []
for _hooks in (_before, _in_parent, _in_child):
    atexit.register(_hooks.clear)  # what they hold would outlive the interpreter: DuckDB complains


def renew_in_child(
    renew: Callable[[], object],
    *,
    before: Callable[[], object] | None = None,
    in_parent: Callable[[], object] | None = None,
) -> None:
    """Call ``renew`` in each forked child, and the others around each fork in the parent."""
    _in_child.append(renew)
    _before.extend([before] if before else [])
    _in_parent.extend([in_parent] if in_parent else [])


def _run_hooks(hooks: list[Callable[[], object]]) -> None:
    for hook in hooks:
        hook()


def _start_child() -> None:
    global _was_torn
    _was_torn = _was_torn or others_inside()
    for thread in _calls.keys() - {get_ident()}:
        del _calls[thread]
    _run_hooks(_in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _run_hooks(_before),
        after_in_parent=lambda: _run_hooks(_in_parent),
        after_in_child=_start_child,
    )


E = TypeVar("E", bound=BaseException)

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""How the names of the package's files begin."""

SETTING, FULL = "DPFRAME_TRACEBACK", "full"


def shorten_traceback(error: E, around: BaseException | None) -> E:
    """Take our frames off an error of ours that is raised to the caller next.

    ``around`` is the exception that the caller was handling already. The frame that raises the
    error stays, except in notebooks.
    """
    if _keeps_all_frames():
        return error
    error.__traceback__ = None
    if error.__cause__ is None:
        error.__context__ = around
    link, known = error.__cause__, {id(error), id(around)}
    while link is not None and id(link) not in known:
        known.add(id(link))
        trace = link.__traceback__
        while trace is not None and _is_ours(trace):
            trace = trace.tb_next
        link.__traceback__, link = trace, link.__cause__
    return error


def _keeps_all_frames() -> bool:
    return os.environ.get(SETTING) == FULL


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(OURS)


def trim_traceback(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without frames of ours at its end; unchanged if it has no other frame."""
    links = []
    link = trace
    while link is not None:
        links.append(link)
        link = link.tb_next
    while links and _is_ours(links[-1]):
        links.pop()
    kept = None
    for link in reversed(links):
        kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return kept or trace


def render_for_ipython(error: BaseException) -> list[str]:
    """The lines by which IPython shows an error."""
    shell = sys.modules["IPython"].get_ipython()
    trace = error.__traceback__ if _keeps_all_frames() else trim_traceback(error.__traceback__)
    told: Any = shell.InteractiveTB.structured_traceback
    lines: list[str] = told(type(error), error, trace, tb_offset=shell.InteractiveTB.tb_offset)
    return lines


BY_IPYTHON = "_render_traceback_"
"""The method that IPython asks an error for; our errors have it."""


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
            del args, arguments  # tools that show variables of a traceback would show a token
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


def load_name(home: str, name: str) -> Any:
    """Return what a module has under a name. Load the module if nothing has done that."""
    loaded = sys.modules.get(home)
    if hasattr(loaded, name):
        return getattr(loaded, name)
    with InsideCall(DpframeError):
        return getattr(importlib.import_module(home), name)


def import_extra(name: str, message: str, error: type[DpframeError] = DpframeError) -> Any:
    """Return a module of a library that is an extra; an error of ours if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise error(message) from None


class _LateAccessor:
    """A descriptor that loads our accessor when ``.dp`` is used."""

    def __init__(self, home: str, name: str) -> None:
        self._home, self._name = home, name

    def load(self) -> Any:
        """Return the class of the accessor."""
        return load_name(self._home, self._name)

    def __get__(self, frame: object, kind: type) -> Any:
        accessor = self.load()
        return accessor if frame is None else accessor(frame)


def register_accessors(homes: Mapping[str, tuple[str, str]]) -> None:
    """Give every frame of a library its accessor ``.dp``: now, or when the library is loaded.

    ``homes`` has the module and the name of each library's accessor. With pandas, what a first
    release of a frame needs is loaded now, too: the first release is about as fast as the second.
    """
    for library, home in homes.items():
        if library not in sys.modules:
            sys.meta_path.insert(0, _LibraryFinder(library, _LateAccessor(*home)))
            continue
        _give_accessor(sys.modules[library], _LateAccessor(*home))
        if library == "pandas":
            with suppress(Exception):  # raised again when .dp is used
                load_name(*home)


def _give_accessor(library: Any, accessor: _LateAccessor) -> None:
    kinds = {getattr(library, name, library.DataFrame) for name in ("DataFrame", "LazyFrame")}
    for kind in kinds:
        given = vars(kind).get("dp")
        if given is not None and not isinstance(given, _LateAccessor):
            warnings.warn(f"dpframe replaces the accessor dp of {kind.__name__}.", stacklevel=2)
        kind.dp = accessor
        kind._accessors.add("dp")  # as the libraries do themselves, for completion
    _show_results(library.DataFrame, accessor)


def _show_results(kind: Any, accessor: _LateAccessor) -> None:
    """Let notebooks show results as tables for people, and other frames as they did before.

    IPython asks a function that is registered for a type before it asks the object itself.
    """
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "display_formatter", None) is None:
        return
    formatter = shell.display_formatter.formatters["text/html"]
    try:
        before = formatter.lookup_by_type(kind)
    except KeyError:
        before = None

    def show(frame: Any) -> str | None:
        shown: str | None = accessor.load()._released_html(frame)
        if shown is not None:
            return shown
        plain: str | None = frame._repr_html_() if before is None else before(frame)
        return plain

    formatter.for_type(kind, show)


class _LibraryFinder:
    """Adds a last step to the first import of one library, and is gone then.

    Python and pandas have no other place to be told that pandas is loaded, and sorted imports load
    dpframe first (docs/decisions/0043).
    """

    def __init__(self, library: str, accessor: _LateAccessor) -> None:
        self._library, self._accessor = library, accessor

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._library:
            return None
        with suppress(ValueError):  # another thread looks, too
            sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:  # who looks need not import: Polars asks whether pandas is there
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader

            def exec_module(module: ModuleType) -> None:
                with suppress(ValueError):
                    sys.meta_path.remove(self)
                del loader.exec_module  # leave no trace
                loader.exec_module(module)
                _give_accessor(module, self._accessor)

            loader.exec_module = exec_module
        return spec
