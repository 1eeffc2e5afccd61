"""Give frames of pandas and Polars ``.dp``: now if the library is loaded, else when it is loaded.

Therefore ``import dpframe`` does not load these libraries: the command line and SQL start fast.
Pandas and the modules for a first release of a frame are loaded together, so that the first
release is about as fast as the second.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from dpframe._forks import others_inside
from dpframe._late_imports import load_name

if TYPE_CHECKING:
    from importlib.abc import Loader  # which takes long to load
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _Accessor:
    """A descriptor that loads our accessor when ``.dp`` is used."""

    def __init__(self, home: str, name: str) -> None:
        self._home, self._name = home, name

    def __get__(self, frame: object, kind: type) -> Any:
        accessor = load_name(self._home, self._name)
        return accessor if frame is None else accessor(frame)


def _give_to_pandas(pandas: Any, alone: bool) -> None:
    home, name = "dpframe.doors.accessor", "DpAccessor"
    _give_accessor(pandas.DataFrame, home, name)
    if alone:
        with suppress(Exception):  # raised again when .dp is used; importing pandas must not fail
            load_name(home, name)


def _give_to_polars(polars: Any, alone: bool) -> None:
    for kind in (polars.DataFrame, polars.LazyFrame):
        _give_accessor(kind, "dpframe.doors.polars_accessor", "PolarsAccessor")


def _give_accessor(kind: Any, home: str, name: str) -> None:
    given = kind.__dict__.get("dp")
    if given is not None and not isinstance(given, _Accessor):
        warnings.warn(f"dpframe replaces the accessor dp of {kind.__name__}.", stacklevel=2)
    kind.dp = _Accessor(home, name)
    kind._accessors.add("dp")  # as the libraries do themselves, for completion


LIBRARIES: dict[str, Callable[[Any, bool], None]] = {
    "pandas": _give_to_pandas,
    "polars": _give_to_polars,
}
"""Functions that give a library's frames the accessor, by library. Their second argument says
whether our modules may be loaded now."""


def register_accessors() -> None:
    """Give every frame the accessor ``.dp``."""
    waiting = {}
    for name, give in LIBRARIES.items():
        if name in sys.modules:
            give(sys.modules[name], True)
        else:
            waiting[name] = give
    if waiting:
        sys.meta_path.insert(0, _ImportFinder(waiting))


class _ImportFinder:
    """A finder that adds a last step to the first import of each waiting library.

    It finds no module itself, and removes itself when no library waits any more.
    """

    def __init__(self, waiting: dict[str, Callable[[Any, bool], None]]) -> None:
        self._waiting = waiting

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        give = self._waiting.pop(name, None)
        if give is None:
            return None
        if not self._waiting:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _AccessorLoader(spec.loader, give))
        return spec


class _AccessorLoader:
    """A loader that gives frames the accessor after it has loaded their library.

    It also loads our modules, but only if no deadlock is possible. Arrow loads pandas when it first
    meets a frame, and holds a lock then that our modules need; or another thread may be loading our
    modules and wait for pandas. Neither can happen if Arrow is not loaded yet and no other thread
    is inside of our modules.
    """

    def __init__(self, loader: Loader, give: Callable[[Any, bool], None]) -> None:
        self._loader, self._give = loader, give
        self._alone = "pyarrow" not in sys.modules and not others_inside()

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader  # leave no trace
        self._loader.exec_module(module)
        self._give(module, self._alone)
