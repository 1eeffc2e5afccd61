"""``df.dp`` for mypy: ``plugins = dpframe.doors.mypy_plugin`` in a caller's configuration.

Without this plugin mypy checks no use of ``df.dp``: the stubs of pandas take an unknown attribute
of a frame for a column.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import MypyFile, TypeInfo
from mypy.plugin import AttributeContext, Plugin
from mypy.types import Instance, Type

ACCESSOR = "dpframe.doors.accessor"


class DpPlugin(Plugin):
    """Tells mypy the type of the attribute ``dp`` of frames."""

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """Return the accessor's module if ``file`` is dpframe, so that mypy reads it whenever
        dpframe is imported."""
        return [(10, ACCESSOR, -1)] if file.fullname == "dpframe" else []

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        return self._accessor if fullname == "pandas.core.frame.DataFrame.dp" else None

    def _accessor(self, context: AttributeContext) -> Type:
        found = self.lookup_fully_qualified(f"{ACCESSOR}.DpAccessor")
        accessor = None if found is None else found.node
        if not isinstance(accessor, TypeInfo):  # dpframe is not imported
            return context.default_attr_type
        return Instance(accessor, [])


def plugin(version: str) -> type[Plugin]:
    """Return the plugin's class: the entry point that mypy calls."""
    return DpPlugin
