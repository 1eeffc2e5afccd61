"""Modules that are loaded when they are first used."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from dpframe._forks import InsideCall
from dpframe.errors import DpframeError


def load_name(home: str, name: str) -> Any:
    """Return what a module has under a name. Load the module if nothing has done that."""
    loaded = sys.modules.get(home)
    if hasattr(loaded, name):
        return getattr(loaded, name)
    with InsideCall(DpframeError):
        return getattr(importlib.import_module(home), name)
