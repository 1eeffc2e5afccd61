"""Codes under their prefixes, as people read them."""

from __future__ import annotations

import pandas as pd

import dpframe as dp
from tests.rollups import exact_counts


def found(values: list[object], **options: object) -> dict[tuple[str | None, ...], int]:
    hierarchy = dp.code("z", **options)  # type: ignore[arg-type]
    return exact_counts(pd.DataFrame({"z": pd.Series(values, dtype=object)}), hierarchy)


def test_labels_are_prefixes() -> None:
    """The first characters of the code, as long as the level says."""
    assert found(["90210", "90211"], lengths=(1, 3, 5)) == {
        (): 2,
        ("9",): 2,
        ("9", "902"): 2,
        ("9", "902", "90210"): 1,
        ("9", "902", "90211"): 1,
    }
    assert dp.code("z", lengths=(1, 3)).level_names == ("first 1", "first 3")


def test_short_codes_end_early_and_too_short_ones_are_invalid() -> None:
    """A code has the levels that it fills."""
    assert found(["90", "9021", "1", ""], lengths=(2, 4)) == {
        (): 4,
        (None,): 2,
        ("90",): 2,
        ("90", "9021"): 1,
    }


def test_characters_are_counted_and_not_bytes() -> None:
    """One character beyond ASCII is one character."""
    assert found(["日本語", "🏴ab"], lengths=(1, 2)) == {
        (): 2,
        ("日",): 1,
        ("日", "日本"): 1,
        ("🏴",): 1,
        ("🏴", "🏴a"): 1,
    }


def test_spaces_around_a_code_do_not_count() -> None:
    """Inside of a code they do."""
    assert found([" A1 ", "A1", "A 1"], lengths=(1, 3)) == {(): 3, ("A",): 3, ("A", "A 1"): 1}


def test_numbers_are_codes_too() -> None:
    """Integers, whole floats and text give the same prefixes."""
    assert found([90210, 90210.0, "90210"], lengths=(3,)) == {(): 3, ("902",): 3}
