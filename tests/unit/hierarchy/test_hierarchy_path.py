"""Paths of any depth, as people read them."""

from __future__ import annotations

import pandas as pd

import dpframe as dp
from tests.rollups import exact_counts


def found(values: list[str | None], **options: object) -> dict[tuple[str | None, ...], int]:
    hierarchy = dp.path("p", **options)  # type: ignore[arg-type]
    return exact_counts(pd.DataFrame({"p": pd.Series(values, dtype=object)}), hierarchy)


def test_labels_are_paths_without_empty_parts() -> None:
    """``/a//b/`` and ``a/b`` are one path; a path counts at every level that it has."""
    assert found(["/a//b/", "a/b", "a"]) == {(): 3, ("a",): 3, ("a", "a/b"): 2}


def test_the_same_part_under_two_parents_is_two_nodes() -> None:
    """Paris in Texas is not Paris in France."""
    assert found(["France/Paris", "Texas/Paris"]) == {
        (): 2,
        ("France",): 1,
        ("Texas",): 1,
        ("France", "France/Paris"): 1,
        ("Texas", "Texas/Paris"): 1,
    }


def test_parts_below_the_depth_are_cut() -> None:
    """Depth bounds the height; what is deeper is counted at the last level."""
    assert found(["a/b/c/d", "a/b/x"], depth=2) == {(): 2, ("a",): 2, ("a", "a/b"): 2}


def test_a_path_without_parts_is_the_roots_own() -> None:
    """NULL and empty text are invalid; a part that reads <invalid> is an ordinary part."""
    values = [None, "", "/", "///", "<invalid>"]
    assert found(values) == {(): 5, (None,): 2, ("<invalid>",): 1}
    assert found(values, invalid="drop") == {(): 3, ("<invalid>",): 1}
    assert found([">>", ">>>>", ">"], separator=">>") == {(): 3, (">",): 1}


def test_separators_are_text_and_no_patterns() -> None:
    """Dots, pipes, quotes and percent signs separate as themselves, also several characters."""
    assert found(["a.b"], separator=".") == {(): 1, ("a",): 1, ("a", "a.b"): 1}
    assert found(["a|b"], separator="|") == {(): 1, ("a",): 1, ("a", "a|b"): 1}
    assert found(["a'b"], separator="'") == {(): 1, ("a",): 1, ("a", "a'b"): 1}
    assert found(["Home > Tools"], separator=" > ") == {
        (): 1,
        ("Home",): 1,
        ("Home", "Home > Tools"): 1,
    }
    assert found(["aaaaab"], separator="aa") == {(): 1, ("ab",): 1}


def test_level_names_count_parts() -> None:
    assert dp.path("p", depth=2).level_names == ("part 1", "part 2")
