"""Every kind of hierarchy, as people read it: which path a value has."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.common.texts import literal
from dpframe.counts import coded_values, different_values
from dpframe.errors import ColumnError
from dpframe.hierarchy import as_hierarchy
from dpframe.sources.cell_leaves import keyed_sql
from tests.rollups import exact_counts

INVALID = (None,)
DROPPED = None
LAST = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
NO_HOSTS = ["10.0.0.1", "::1", "http://a.b", "a.b/c", "a.b:80", "x@a.b", "a b.c", "a\t.b", "", "7"]
NO_HOSTS += ["a.b..", ".a.b", "a..b", "."]

CODES: dict[str, tuple[str, dict[Any, Any]]] = {
    "prefixes": ("1,3,5", {"90210": "9 → 902 → 90210", "90211": "9 → 902 → 90211"}),
    "short": ("2,4", {"90": "90", "9021": "90 → 9021", "1": INVALID, "": INVALID}),
    "characters, not bytes": ("1,2", {"日本語": "日 → 日本", "🏴ab": "🏴 → 🏴a"}),
    "spaces": ("1,3", {" A1 ": "A", "A1": "A", "A 1": "A → A 1"}),
    "numbers": ("3", {90210: "902", 90211.0: "902", "90212": "902"}),
}
HOSTS: dict[str, tuple[str, dict[Any, Any]]] = {
    "from the right": ("", {"a.b.c": "c → b.c → a.b.c", "b.c": "c → b.c", "c": "c"}),
    "case and one dot": ("", dict.fromkeys(["A.B.", "a.b", " a.B "], "b → a.b")),
    "lowered": ("", {"BÜ.de": "de → bü.de", "xn--b-xha.de": "de → xn--b-xha.de"}),
    "invalid": ("", dict.fromkeys(NO_HOSTS, INVALID)),
    "dropped": ("?invalid=drop", {**dict.fromkeys([*NO_HOSTS, None], DROPPED), "a.b": "b → a.b"}),
    "depth": ("?depth=3", dict.fromkeys(["a.b.c.d", "x.b.c.d"], "d → c.d → b.c.d")),
}
FOLDERS: dict[str, tuple[str, dict[Any, Any]]] = {
    "empty parts": ("", {"/a//b/": "a → a/b", "a/b": "a → a/b", "a": "a"}),
    "two parents": (
        "",
        {"France/Paris": "France → France/Paris", "Texas/Paris": "Texas → Texas/Paris"},
    ),
    "depth": ("?depth=2", dict.fromkeys(["a/b/c/d", "a/b/x"], "a → a/b")),
    "no parts": ("", {None: INVALID, "": INVALID, "/": "", "///": "", "<invalid>": "<invalid>"}),
    "dropped": ("?invalid=drop", {None: DROPPED, "": DROPPED, "/": "", "<invalid>": "<invalid>"}),
    "two signs": ("?separator=>>", {">>": "", ">>>>": "", ">": ">"}),
    "a dot": ("?separator=.", {"a.b": "a → a.b"}),
    "a pipe": ("?separator=|", {"a|b": "a → a|b"}),
    "a quote": ("?separator='", {"a'b": "a → a'b"}),
    "spaces": ("?separator= > ", {"Home > T": "Home → Home > T"}),
    "overlaps": ("?separator=aa", {"aaaaab": "ab"}),
}
LOW, HIGH = "[0, 50)", "[50, 100]"
BELOW, ABOVE = [-1.0, -np.inf, -0.0], [101.0, np.inf, 1e308]
OUTSIDE = {**dict.fromkeys(BELOW, LOW), **dict.fromkeys(ABOVE, HIGH), np.nan: INVALID}
NUMBERS: dict[str, tuple[str, dict[Any, Any]]] = {
    "boundaries": ("0&upper=100&depth=1", {0.0: LOW, 49.999: LOW, 50.0: HIGH, 100.0: HIGH}),
    "outside in the nearest": ("0&upper=100&depth=1", OUTSIDE),
    "bounds of doubles": ("-1e300&upper=1e300&depth=1", {0.0: "[0, 1e+300]"}),
}
FOUR = "10.0.0.0/8 → 10.2.0.0/16 → 10.2.3.0/24 → 10.2.3.4/32"
SIX = "2001::/16 → 2001:db8::/32 → 2001:db8::/48 → 2001:db8::/64 → 2001:db8::a/128"
MAPPED = ["::ffff:10.2.3.4", "::FFFF:a02:304", "0:0:0:0:0:ffff:10.2.3.4", " 10.2.3.4 ", "10.2.3.4"]
EMBEDDED = {"::1.2.3.4": "::102:304/128", "64:ff9b::1.2.3.4": "64:ff9b::102:304/128"}
EDGES = {
    "0.0.0.0": "0.0.0.0/1 → 0.0.0.0/32",
    "255.255.255.255": "128.0.0.0/1 → 255.255.255.255/32",
    "::": "::/1 → ::/128",
    LAST: f"8000::/1 → {LAST}/128",
}
OF_FOUR = {"10.0.0.1": "10.0.0.0/8", "::ffff:10.0.0.1": "10.0.0.0/8", "2001:db8::1": INVALID}
OF_SIX = {"::ffff:10.0.0.1": DROPPED, "10.0.0.1": DROPPED, "2001:db8::1": "2001:db8::/32"}
ADDRESSES: dict[str, tuple[str, dict[Any, Any]]] = {
    "as ipaddress writes them": ("", {"10.2.3.4": FOUR, "2001:DB8::A": SIX}),
    "mapped to IPv4": ("", dict.fromkeys(MAPPED, FOUR)),
    "embedded stay IPv6": ("?prefixes6=128", EMBEDDED),
    "edges": ("?prefixes=1,32&prefixes6=1,128", EDGES),
    "version 4": ("?prefixes=8&version=4", {**OF_FOUR, "x": INVALID, None: INVALID}),
    "version 6": ("?prefixes6=32&version=6&invalid=drop", OF_SIX),
}
KINDS = {"code:x?lengths=": CODES, "domain:x": HOSTS, "path:x": FOLDERS}
KINDS |= {"number:x?lower=": NUMBERS, "ip:x": ADDRESSES}
CASES = [(kind, name) for kind, cases in KINDS.items() for name in cases]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_value_counts_at_every_node_of_its_path(kind: str, name: str) -> None:
    options, meant = KINDS[kind][name]
    expected: Counter[tuple[str | None, ...]] = Counter()
    for path in meant.values():
        if path is not DROPPED:
            labels = path if path is INVALID else tuple(filter(None, path.split(" → ")))
            expected.update(labels[:n] for n in range(len(labels) + 1))
    dtype = float if kind.startswith("number") else object
    frame = pd.DataFrame({"x": pd.Series([*meant], dtype=dtype)})
    assert exact_counts(frame, as_hierarchy(kind + options)) == expected


LEVEL_NAMES = {
    "code:z?lengths=1,3": ("first 1", "first 3"),
    "domain:d?depth=1": ("label 1 from the right",),
    "path:p?depth=2": ("part 1", "part 2"),
    "number:x?lower=0&upper=1&depth=3": ("1/2", "1/4", "1/8"),
    "columns:continent,country": ("continent", "country"),
    "date:t?levels=year,day": ("year", "day"),
    "ip:a": ("/8 or /16", "/16 or /32", "/24 or /48", "/32 or /64", "/128"),
    "ip:a?version=4": ("/8", "/16", "/24", "/32"),
    "ip:a?prefixes=16&prefixes6=16": ("/16",),
}


@pytest.mark.parametrize("spec", LEVEL_NAMES)
def test_levels_have_names(spec: str) -> None:
    assert as_hierarchy(spec).level_names == LEVEL_NAMES[spec]


PRINTABLE = "".join(map(chr, range(32, 127)))


def test_an_octet_is_a_number_as_it_is_written() -> None:
    """Of all texts of up to three printable characters, in the place of an octet, exactly the
    numbers up to 255 without leading zeros are read. No text is shorter than its number, so that a
    longer one elsewhere cannot make up for it."""
    letters = f"(SELECT unnest(string_split({literal(PRINTABLE)}, '')) AS x)"
    octets = f"""
        WITH one AS MATERIALIZED {letters}, two AS (SELECT a.x || b.x AS x FROM one a, one b)
        SELECT x FROM one UNION ALL SELECT x FROM two UNION ALL SELECT '' UNION ALL
        SELECT a.x || b.x FROM one a, two b"""
    rows = "(SELECT '7.' || x || '.0.255' AS c0, x FROM octets WHERE x NOT LIKE '%:%')"
    statement = f"""WITH octets AS MATERIALIZED ({octets}),
        found AS ({keyed_sql(dp.ip("ip"), ("VARCHAR",), rows, "x")})
        SELECT list(x) FROM found WHERE k1 IS NOT NULL AND x NOT LIKE '%.%'"""
    with duckdb.connect() as con:
        ((read,),) = con.execute(statement).fetchall()
        assert sorted(read) == sorted(map(str, range(256)))
        short = f"SELECT x, TRY_CAST(x AS UTINYINT) AS v FROM ({octets}) WHERE strlen(x) < 3"
        shorter = f"SELECT count(*) FROM ({short}) WHERE strlen(v::VARCHAR) > strlen(x)"
        assert con.execute(shorter).fetchall() == [(0,)]


def test_labels_of_numbers_are_intervals_and_48_halvings_are_exact() -> None:
    """Half open, and closed at the upper bound."""
    hierarchy = dp.number("x", lower=0, upper=100, depth=3)
    labels = [hierarchy.label(*at) for at in ((3, ("0",)), (3, ("7",)), (1, ("0",)), (1, (None,)))]
    assert labels == ["[0, 12.5)", "[87.5, 100]", "[0, 50)", "<invalid>"]
    deep = exact_counts(pd.DataFrame({"x": [1.0]}), dp.number("x", lower=0, upper=2**48, depth=48))
    assert (len(deep), max(deep, key=len)[-1]) == (49, "[1, 2)")


def test_integers_booleans_and_texts_are_numbers() -> None:
    hierarchy = dp.number("x", lower=0, upper=2, depth=1)
    for column in ([0, 1], [False, True], ["0", "1.0"], pd.Series([0, 1], dtype="Int64")):
        frame = pd.DataFrame({"x": column})
        assert exact_counts(frame, hierarchy) == {(): 2, ("[0, 1)",): 1, ("[1, 2]",): 1}
    assert exact_counts(pd.DataFrame({"x": ["one", ""]}), hierarchy) == {(): 2, (None,): 2}
    dates = pd.DataFrame({"x": pd.to_datetime(["2013-05-01"])})
    with pytest.raises(ColumnError, match=r"has type TIMESTAMP.*; number reads numbers and text"):
        exact_counts(dates, hierarchy)


def test_equal_bounds_are_equal_hierarchies() -> None:
    assert dp.number("x", lower=0, upper=1) == dp.number("x", lower=0.0, upper=1.0)
    assert dp.number("x", lower=0, upper=2**63 - 1) == dp.number("x", lower=0, upper=2**63)


def test_labels_of_columns_are_joined_with_slashes() -> None:
    hierarchy = dp.columns("continent", "country")
    assert hierarchy.label(2, ("Europe", "France")) == "Europe / France"
    assert hierarchy.label(1, ("Europe", None)) == "Europe"
    assert hierarchy.label(2, ("Europe", None)) == "Europe / <invalid>"


def test_labels_of_many_nodes_are_those_of_each() -> None:
    """The texts of a node below its level are those of no label, so they must not matter."""
    hierarchy, parts = dp.columns("a", "b", "c"), (None, "", "*", " / ", "x", "日本")
    nodes = [(n, t) for t in itertools.product(parts, repeat=3) for n in range(4)]
    level = np.array([n for n, _ in nodes])
    texts = [
        pa.chunked_array([pa.array(column)]) for column in zip(*(t for _, t in nodes), strict=True)
    ]
    coded = [pa.chunked_array([coded_values(*different_values(text))]) for text in texts]
    each = [hierarchy.label(n, t) if n else "*" for n, t in nodes]
    assert hierarchy.labels(level, texts).to_pylist() == each
    assert hierarchy.labels(level, coded).to_pylist() == each


def test_missing_values_are_nodes_under_their_parents_or_drop_the_row() -> None:
    """NULL and empty text meet; the levels below a missing value still count."""
    continents, countries = ["Europe", "Europe", None, "", "America"], ["France", None, "France"]
    places = pd.DataFrame({"a": continents, "b": [*countries, "France", "US"], "c": ["Paris"] * 5})
    found = exact_counts(places, dp.columns("a", "b", "c"))
    assert found[(None,)] == found[(None, "France")] == found[("Europe",)] == 2
    assert found[("Europe", None, "Paris")] == 1
    kept = exact_counts(places, dp.columns("a", "b", "c", invalid="drop"))
    assert kept[()] == 2
    assert all(None not in path for path in kept)


def test_values_that_read_like_markers_or_like_each_other_are_nodes_apart() -> None:
    frame = pd.DataFrame({"a": ["<invalid>", None, "NULL", np.nan]})
    expected = {(): 4, ("<invalid>",): 1, ("NULL",): 1, (None,): 2}
    assert exact_counts(frame, dp.columns("a")) == expected
    slashes = pd.DataFrame({"a": ["x / y", "x"], "b": ["z", "y / z"]})
    found = exact_counts(slashes, dp.columns("a", "b"))
    assert found[("x / y", "z")] == found[("x", "y / z")] == 1


RESERVED = [
    *((("country",), ("country",)), (("level", "prefix"), ("level_", "prefix_"))),
    (("count", "count_"), ("count__", "count_")),
    (("lower", "lower_", "lower__"), ("lower___", "lower_", "lower__")),
]


@pytest.mark.parametrize(("names", "columns"), RESERVED)
def test_reserved_names_get_a_free_suffix(names: tuple[str, ...], columns: tuple[str, ...]) -> None:
    assert dp.columns(*names).label_columns == columns  # type: ignore[attr-defined]
