"""Text that is no UTF-8, in columns of one piece and of many."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpframe.sources import objects as arrow_values


@pytest.mark.parametrize("many", [1, 10**9])
def test_pieces_are_repaired_alike_by_one_thread_and_by_several(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: each piece stays in its place, and only text that is no UTF-8 changes."""
    monkeypatch.setattr(arrow_values, "MANY", many)
    raw = [[f"{piece}-{row}".encode() for row in range(5)] for piece in range(40)]
    raw[17][2] = b"\xff\xfe"
    pieces = [pa.array(texts, pa.binary()).view(pa.string()) for texts in raw]
    table = pa.table({"text": pa.chunked_array(pieces), "n": pa.array(range(200))})
    found = arrow_values.readable_table(table)
    raw[17][2] = rb"\xFF\xFE"
    expected = [text.decode() for texts in raw for text in texts]
    assert found["text"].to_pylist() == expected
    assert found["n"].equals(table["n"])
