"""Category paths, file paths and URL paths: parts between separators, to any depth."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dpframe._sql import literal
from dpframe.errors import HierarchyError
from dpframe.hierarchy._base import (
    MAX_HEIGHT,
    Hierarchy,
    OnInvalid,
    check_column_name,
    check_level_number,
    text_sql,
)


@dataclass(frozen=True)
class Path(Hierarchy):
    """Parts between separators, coarse to fine; parts beyond ``depth_limit`` are cut.

    Empty parts do not count: ``/a//b/`` and ``a/b`` are equal paths. A short path ends at its last
    part and is counted there and at all nodes above. A path without parts, such as ``/``, is
    counted at the root only; its key is the empty text. Empty text is no path.
    """

    column: str
    separator: str = "/"
    depth_limit: int = 8
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "path"

    def validate(self) -> None:
        check_column_name("path", self.column)
        if not isinstance(self.separator, str) or not self.separator:
            raise HierarchyError(
                f"path: separator must be text, and not empty; got {self.separator!r}."
            )
        check_level_number("path", self.depth_limit, MAX_HEIGHT)

    @property
    def on_invalid(self) -> OnInvalid:
        return self.invalid

    @property
    def height(self) -> int:
        return self.depth_limit

    @property
    def source_columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(f"part {i}" for i in range(1, self.height + 1))

    @property
    def options(self) -> dict[str, str]:
        out = {}
        if self.separator != "/":
            out["separator"] = self.separator
        if self.depth_limit != 8:
            out["depth"] = str(self.depth_limit)
        return out

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        separator, text = literal(self.separator), text_sql(columns[0], types[0])
        parts = (
            f"list_filter(string_split(nullif({text}, ''), {separator}), "
            f"lambda part: part <> '')[1:{self.depth_limit}]"
        )
        return ({"k1": f"array_to_string({parts}, {separator})"},)

    def depth(self, keys: tuple[str, ...]) -> str | None:
        parts = f"len(string_split(nullif({keys[0]}, ''), {literal(self.separator)}))"
        return f"coalesce({parts}, CASE WHEN {keys[0]} = '' THEN 0 ELSE 1 END)"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        separator = literal(self.separator)
        return (f"array_to_string(string_split({keys[0]}, {separator})[1:{level}], {separator})",)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"string_split({keys[0]}, {literal(self.separator)})",)

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        parts = shown[0].split(self.separator)
        return (*(self.separator.join(parts[:n]) for n in range(1, level)), shown[0])
