"""``pyarrow.compute``, loaded when it is first used, or with pandas: it takes long to load."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    function = globals()[name] = getattr(pyarrow.compute, name)
    return function
