"""Give frames of pandas and Polars ``.dp``, now if they are loaded, else as soon as somebody does.

``import dpframe`` alone then does not pay for them: the command line and SQL users start fast.
Beside pandas, what a first release of a frame needs is loaded at once, so that the first is about
as fast as the second.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from dpframe._forking import loaded, others_inside

if TYPE_CHECKING:
    from importlib.abc import Loader  # which takes long to load
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _Accessor:
    """Loads ours when it is used, if nobody has."""

    def __init__(self, home: str, name: str) -> None:
        self._home, self._name = home, name

    def __get__(self, frame: object, kind: type) -> Any:
        accessor = loaded(self._home, self._name)
        return accessor if frame is None else accessor(frame)


def _to_pandas(pandas: Any, alone: bool) -> None:
    home, name = "dpframe.doors.accessor", "DpAccessor"
    _give(pandas.DataFrame, home, name)
    if alone:
        with suppress(Exception):  # whoever asks is told, and not who imports
            loaded(home, name)


def _to_polars(polars: Any, alone: bool) -> None:
    for kind in (polars.DataFrame, polars.LazyFrame):
        _give(kind, "dpframe.doors.polars_accessor", "PolarsAccessor")


def _give(kind: Any, home: str, name: str) -> None:
    given = kind.__dict__.get("dp")
    if given is not None and not isinstance(given, _Accessor):
        warnings.warn(f"dpframe replaces the accessor dp of {kind.__name__}.", stacklevel=2)
    kind.dp = _Accessor(home, name)
    kind._accessors.add("dp")  # as the libraries do themselves, for completion


LIBRARIES: dict[str, Callable[[Any, bool], None]] = {"pandas": _to_pandas, "polars": _to_polars}
"""What gives their frames the accessor; and whether ours may be loaded meanwhile."""


def register_accessors() -> None:
    """Give every frame the accessor ``.dp``."""
    waiting = {}
    for name, give in LIBRARIES.items():
        if name in sys.modules:
            give(sys.modules[name], True)
        else:
            waiting[name] = give
    if waiting:
        sys.meta_path.insert(0, _UntilLoaded(waiting))


class _UntilLoaded:
    """Finds nothing itself; adds a last step to the first import of a library, and steps aside
    after the last of them."""

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
            spec.loader = cast("Loader", _ThenGive(spec.loader, give))
        return spec


class _ThenGive:
    """Arrow loads pandas when it first meets a frame, with a lock of its own that our modules need;
    another thread may load them, and wait for pandas. Neither can be where Arrow is not loaded yet
    and no other thread is inside of ours."""

    def __init__(self, loader: Loader, give: Callable[[Any, bool], None]) -> None:
        self._loader, self._give = loader, give
        self._alone = "pyarrow" not in sys.modules and not others_inside()

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader  # as if nobody had watched
        self._loader.exec_module(module)
        self._give(module, self._alone)
