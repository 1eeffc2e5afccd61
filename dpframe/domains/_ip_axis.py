"""IPv4 addresses, bit by bit."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe.domains._axis import (
    Arrays,
    Axis,
    Codes,
    Counts,
    Mask,
    Types,
    decoded_type,
    is_text_type,
    unreadable_column,
)
from dpframe.domains._read_values import (
    arrow_duckdb_type,
    distinct_values,
    query_values,
    single_array,
)
from dpframe.errors import HierarchyError
from dpframe.hierarchy._ip import Ip
from dpframe.noise import PublicRandom


@lru_cache(maxsize=1)
def octets() -> pa.Array:
    """Return the texts 0 to 255. They are made at the first call, because Arrow loads pandas to
    look at Python objects."""
    return pa.array([str(i) for i in range(256)])


@dataclass(frozen=True)
class IpAxis(Axis):
    """The first bits of an IPv4 address, as many as the longest prefix has.

    Other text, IPv6 addresses too, counts as missing. A value of a cell is any address in it.
    """

    hierarchy: Ip

    def __post_init__(self) -> None:
        if self.hierarchy.version != 4:
            column = self.hierarchy.column
            raise HierarchyError(
                f"{self.hierarchy.spec} reads IPv6 addresses, which a domain cannot: write "
                f"ip:{column}?version=4, which leaves them out."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.hierarchy.source_columns

    @property
    def bits(self) -> int:
        return self.hierarchy.prefixes[-1]

    @property
    def spec(self) -> str:
        only = replace(self.hierarchy, prefixes=(self.bits,), invalid="count").spec
        return only.replace("prefixes=32&", "")

    def check_types(self, types: tuple[str, ...]) -> None:
        if types[0] not in ("VARCHAR", '"NULL"') and not types[0].startswith("ENUM"):
            raise unreadable_column("ip", self.columns[0], types[0], "text")

    def read(self, columns: Arrays, bits: int) -> tuple[Codes, Mask | None]:
        texts, place = distinct_values(single_array(columns[0]))
        full = Ip(self.columns[0], prefixes=(32,), version=4)
        steps = full.key_steps(("c0",), (arrow_duckdb_type(texts),))
        found = single_array(
            query_values(texts, steps, f"(k1 & {2**32 - 1}::UHUGEINT)::BIGINT AS x")["x"]
        )
        address = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
        valid = found.is_valid().to_numpy(zero_copy_only=False)
        return (address >> np.uint64(32 - bits))[place], valid[place]

    def draw(self, fixed: Counts, prefix: Codes, generator: PublicRandom, types: Types) -> Arrays:
        kind = decoded_type(types[0])
        if not is_text_type(kind) and not pa.types.is_null(kind):
            raise unreadable_column("ip", self.columns[0], kind, "text")
        free = (32 - fixed).astype(np.uint64)
        rest = generator.integers(0, 2**32, len(prefix), dtype=np.uint64)
        address = (prefix << free) | (rest & ((np.uint64(1) << free) - np.uint64(1)))
        parts = [
            octets().take(pa.array((address >> np.uint64(shift)) & np.uint64(255)))
            for shift in (24, 16, 8, 0)
        ]
        dotted = pc.binary_join_element_wise(*parts, ".")
        return (dotted.cast(kind) if is_text_type(kind) else dotted,)

    def label(self, fixed: int, prefix: int) -> str:
        return f"{self.columns[0]} {ipaddress.IPv4Address(prefix << (32 - fixed))}/{fixed}"
