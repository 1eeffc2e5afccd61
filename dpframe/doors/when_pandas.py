"""Register ``df.dp`` now if pandas is loaded, otherwise as soon as somebody loads it.

``import dpframe`` alone then does not pay for pandas: the command line and SQL users start fast.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

AFTERWARDS = ("largest", "other_confidence", "shares", "subtree")

WITH_PANDAS = (
    *("dpframe.asking.frame", "dpframe.doors.accessor", "pyarrow.compute"),
    *(f"dpframe.postprocess.{name}" for name in AFTERWARDS),
)
"""What calls would load later, with the frames of every question: a thread that loads a module
while another one forks leaves a child that waits for it."""


def register_accessor() -> None:
    """Give every pandas frame the accessor ``.dp``."""
    if "pandas" in sys.modules:
        plans = [
            name for name in sys.modules if re.fullmatch(r"dpframe\.questions\.\w+\.plan", name)
        ]
        frames = [name.replace(".plan", ".frame") for name in plans]
        for name in [*WITH_PANDAS, *filter(importlib.util.find_spec, frames)]:
            importlib.import_module(name)
    else:
        sys.meta_path.insert(0, _UntilPandas())


class _UntilPandas(MetaPathFinder):
    """Finds nothing itself; steps aside at the first import of pandas and adds a last step."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "pandas":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader)
        return spec


class _ThenRegister(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader  # as if nobody had watched
        self._loader.exec_module(module)
        register_accessor()
