"""Locks of Python 3.11 that a forked child would wait for: those of ``cached_property``."""

from __future__ import annotations

import os
import sys
import threading
from functools import cached_property


def _in_child() -> None:
    """A thread of the parent can have held them, and does not exist here."""
    modules = [module for name, module in sys.modules.items() if name.startswith("dpframe.")]
    for kind in [value for module in modules for value in vars(module).values()]:
        if isinstance(kind, type) and kind.__module__.startswith("dpframe."):
            for value in vars(kind).values():
                if isinstance(value, cached_property):
                    vars(value)["lock"] = threading.RLock()


if sys.version_info < (3, 12) and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
