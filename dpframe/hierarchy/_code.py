"""Codes whose prefixes mean something: ZIP, ICD, NAICS."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dpframe.hierarchy._base import (
    Hierarchy,
    OnInvalid,
    check_column_name,
    check_increasing,
    text_sql,
)


@dataclass(frozen=True)
class Code(Hierarchy):
    """Levels are the first ``lengths[0]`` characters, then the first ``lengths[1]``, and so on.

    Spaces around a code do not count. A code shorter than ``lengths[0]`` is invalid; a code
    shorter than the last length ends at the last level that it fills.
    """

    column: str
    lengths: tuple[int, ...]
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "code"

    def validate(self) -> None:
        check_column_name("code", self.column)
        check_increasing("code", "lengths", self.lengths, 1, 10_000)

    @property
    def on_invalid(self) -> OnInvalid:
        return self.invalid

    @property
    def height(self) -> int:
        return len(self.lengths)

    @property
    def source_columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(f"first {n}" for n in self.lengths)

    @property
    def options(self) -> dict[str, str]:
        return {"lengths": ",".join(map(str, self.lengths))}

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        filled = " ".join(
            f"WHEN length(code) >= {n} THEN left(code, {n})" for n in reversed(self.lengths)
        )
        return (
            {"code": f"trim({text_sql(columns[0], types[0])})"},
            {"k1": f"CASE {filled} END"},
        )

    def depth(self, keys: tuple[str, ...]) -> str | None:
        filled = " ".join(
            f"WHEN length({keys[0]}) >= {n} THEN {level}"
            for level, n in reversed(list(enumerate(self.lengths, 1)))
        )
        return f"CASE {filled} ELSE 1 END"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"left({keys[0]}, {self.lengths[level - 1]})",)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        return (*(shown[0][:n] for n in self.lengths[: level - 1]), shown[0])
