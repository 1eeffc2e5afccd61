"""Host names from the right, as people read them."""

from __future__ import annotations

import pandas as pd

import dpframe as dp
from tests.rollups import exact_counts


def found(values: list[str | None], **options: object) -> dict[tuple[str | None, ...], int]:
    hierarchy = dp.domain("d", **options)  # type: ignore[arg-type]
    return exact_counts(pd.DataFrame({"d": pd.Series(values, dtype=object)}), hierarchy)


def test_labels_are_domains() -> None:
    """``www.example.org`` is under ``example.org`` under ``org``."""
    assert found(["www.example.org", "example.org", "org"]) == {
        (): 3,
        ("org",): 3,
        ("org", "example.org"): 2,
        ("org", "example.org", "www.example.org"): 1,
    }


def test_case_and_a_trailing_dot_do_not_count() -> None:
    """One dot at the end is the DNS root; two are malformed."""
    assert found(["A.B.", "a.b", " a.B "]) == {(): 3, ("b",): 3, ("b", "a.b"): 3}
    assert found(["a.b..", ".a.b", "a..b", "."]) == {(): 4, (None,): 4}


def test_international_names_are_lowered() -> None:
    """Unicode and punycode are names; they are not turned into each other."""
    assert found(["BÜCHER.example", "xn--bcher-kva.example"]) == {
        (): 2,
        ("example",): 2,
        ("example", "bücher.example"): 1,
        ("example", "xn--bcher-kva.example"): 1,
    }


def test_what_is_no_host_name_is_invalid() -> None:
    """Addresses, URLs, ports, mail addresses, white space and nothing."""
    bad = [
        "10.0.0.1",
        "::1",
        "http://a.b",
        "a.b/c",
        "a.b:80",
        "x@a.b",
        "a b.c",
        "a\t.b",
        "",
        None,
        "7",
    ]
    assert found(bad) == {(): len(bad), (None,): len(bad)}
    assert found([*bad, "a.b"], invalid="drop") == {(): 1, ("b",): 1, ("b", "a.b"): 1}


def test_labels_left_of_the_depth_are_cut() -> None:
    assert found(["a.b.c.d", "x.b.c.d"], depth=3) == {
        (): 2,
        ("d",): 2,
        ("d", "c.d"): 2,
        ("d", "c.d", "b.c.d"): 2,
    }
    assert dp.domain("d", depth=1).level_names == ("label 1 from the right",)
