"""Host names under their domains, from the right."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dpframe.hierarchy._base import (
    MAX_HEIGHT,
    Hierarchy,
    OnInvalid,
    check_column_name,
    check_level_number,
    text_sql,
)

NAME = r"[^\s./:@]+(\.[^\s./:@]+)*"
"""Pattern of names. Labels hold no white space and no separators of URLs or mail addresses."""


@dataclass(frozen=True)
class HostNames(Hierarchy):
    """``www.example.org`` under ``example.org`` under ``org``: at most ``depth_limit`` labels.

    Labels further left are cut. Case and one trailing dot do not count. Empty labels, IP addresses
    (a last label of digits only), URLs and mail addresses are invalid.
    """

    column: str
    depth_limit: int = 4
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "domain"

    def validate(self) -> None:
        check_column_name("domain", self.column)
        check_level_number("domain", self.depth_limit, MAX_HEIGHT)

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
        return tuple(f"label {i} from the right" for i in range(1, self.height + 1))

    @property
    def options(self) -> dict[str, str]:
        return {} if self.depth_limit == 4 else {"depth": str(self.depth_limit)}

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        name = f"regexp_replace(lower(trim({text_sql(columns[0], types[0])})), '\\.$', '')"
        labels = f"array_to_string(string_split(name, '.')[-{self.depth_limit}:], '.')"
        return (
            {"name": name},
            {
                "k1": f"CASE WHEN regexp_full_match(name, '{NAME}') "
                f"AND NOT regexp_matches(name, '(^|\\.)[0-9]+$') THEN {labels} END"
            },
        )

    def depth(self, keys: tuple[str, ...]) -> str | None:
        return f"coalesce(len(string_split({keys[0]}, '.')), 1)"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"array_to_string(string_split({keys[0]}, '.')[-{level}:], '.')",)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"list_reverse(string_split({keys[0]}, '.'))",)

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        parts = shown[0].split(".")
        return (*(".".join(parts[-n:]) for n in range(1, level)), shown[0])
