"""What is loaded late: our modules when a name is first used, extras when a call needs them, and
``.dp`` of frames when their library is there. So ``import dpframe`` loads no library.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpframe._forks import InsideCall
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


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

    def __get__(self, frame: object, kind: type) -> Any:
        accessor = load_name(self._home, self._name)
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
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module  # leave no trace
                loader.exec_module(module)
                _give_accessor(module, self._accessor)

            loader.exec_module = exec_module
        return spec
