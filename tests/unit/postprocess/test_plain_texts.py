"""Values of texts that Arrow reads against those that DuckDB reads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from dpframe.postprocess import level_values
from dpframe.postprocess.level_values import PLAIN, plain_values
from tests import strategies as nasty

NUMBERS = st.integers(-(2**64), 2**64).map(str) | st.integers(-300, 300).map(str)
DAYS = st.dates().map(str) | st.tuples(
    st.sampled_from(["0000", "0001", "2023", "2024", "9999", "10000", "24"]),
    st.sampled_from(["00", "01", "02", "2", "12", "13"]),
    st.sampled_from(["00", "01", "1", "28", "29", "30", "31", "32"]),
).map("-".join)
ODD = st.sampled_from(
    [*("", " ", "-", "-0", "+1", "01", "1_000", "1e3", "12.0", "0x1F", " 7", "7\n", "TRUE"),
     *("t", "1", "\u0661", "infinity", "-infinity", "epoch", "0044-03-15 (BC)"),
     *("2024-01-01 00:00:00", "epoch"),
     *("2024-1-1", "2024/01/01", "true\n", "9" * 18, "9" * 19, "-" + "9" * 18, "127", "128")]
)  # fmt: skip
USUAL = {
    "BOOLEAN": st.sampled_from(["true", "false"]),
    "DATE": DAYS,
    **{kind: NUMBERS for kind in PLAIN if "INT" in kind},
}


@nasty.examples(
    60,
    1000,
    st.sampled_from(sorted(PLAIN)).flatmap(
        lambda kind: st.tuples(
            st.just(kind), st.lists(USUAL[kind] | st.none(), max_size=8), st.lists(ODD, max_size=2)
        )
    ),
    st.booleans(),
)
def test_usual_texts_mean_what_duckdb_reads(
    drawn: tuple[str, list[str | None], list[str]], odd: bool
) -> None:
    """Law: of whatever texts, a level column and the order of its values are DuckDB's."""
    kind, texts, more = drawn
    held = pa.array(dict.fromkeys([*texts, *(more if odd else [])]), pa.string())
    key = pa.chunked_array([held.take(pa.array(np.arange(2 * len(held)) % max(1, len(held))))])
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(level_values, "plain_values", lambda *_: None)
        typed = level_values._typed_column(key, kind) if kind in level_values.PANDAS else None
        rank = level_values._rank_of_values(key, kind)
    if typed is not None:
        found = level_values._typed_column(key, kind)
        assert found.dtype == typed.dtype
        assert found.equals(typed)
    order = [ranks.to_numpy().tolist() for ranks in (level_values._rank_of_values(key, kind), rank)]
    assert order[0] == order[1]


def test_usual_texts_are_read_without_a_statement() -> None:
    """What DuckDB writes of its own values is read here, but for numbers of more digits."""
    texts = {"BOOLEAN": ["true", None], "DATE": ["0001-01-01", "2024-02-29", "9999-12-31"]}
    for kind in PLAIN:
        assert plain_values(pa.array(texts.get(kind, ["0", None, "127"])), kind) is not None
    unread = {"DATE": "2023-02-29", "TINYINT": "128", "UBIGINT": "-1", "DOUBLE": "1"}
    for kind, text in unread.items():
        assert plain_values(pa.array([text]), kind) is None
