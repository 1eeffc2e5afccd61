"""Names of published tables and views: readable, stable, and never the same for two releases."""

from __future__ import annotations

import unicodedata

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpframe.asking.call_arguments import release_name
from dpframe.publishing.results_tables import family, identifier_of, name_tables
from tests.members import tries
from tests.strategies import QUOTES, WORDS


def _is_name(text: str) -> bool:
    try:
        return release_name(text) is not None
    except ValueError:
        return False


PIECES = [
    *("ips", "IPS", "Ips", "-", "_", "__", " ", "2026", "11", "2", "latest", "dp_", "'", '"', ";"),
    *("é", "e\u0301", "É", "ß", "SS", "日本", "हिन्दी", "🚀", "ﬁ", "fi", "\u212a", "k", "İ", "i"),
]

NEAR = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)
"""Names that differ by little, or that SQL or a file system would take for one."""

NAMES = st.lists(
    st.one_of(NEAR, NEAR, WORDS, QUOTES, st.text(max_size=200)).filter(_is_name),
    min_size=1,
    max_size=12,
    unique=True,
)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


@tries(25, 100, deadline=None)
@given(NAMES)
def test_no_two_releases_or_views_share_a_name(releases: list[str]) -> None:
    """Tables and views are all different, also to who ignores case or composes accents."""
    found = name_tables(releases)
    tables = [_folded(n.table) for n in found]
    views = {n.family: n.view for n in found}
    wholes = {n.family: n.whole for n in found}
    shared = map(_folded, [*views.values(), *wholes.values()])
    names = [*tables, *shared, "dp_releases", "dp_budget"]
    assert len(set(names)) == len(names)
    assert [n.release for n in found] == releases
    assert all((n.view, n.whole) == (views[n.family], wholes[n.family]) for n in found)
    assert all(n.release.endswith(n.numbers or n.family) for n in found)


@tries(25, 100, deadline=None)
@given(NAMES)
def test_a_later_release_renames_nothing(releases: list[str]) -> None:
    """A dashboard on a table keeps its table, whatever is released afterwards."""
    assert name_tables(releases)[:-1] == name_tables(releases[:-1])


@settings(deadline=None)
@given(st.one_of(NEAR, st.text(max_size=200)).filter(_is_name))
def test_a_name_is_an_identifier_and_a_file_name(release: str) -> None:
    """Letters, digits, marks and ``_`` only, a letter first, and short."""
    name = identifier_of(release)
    assert name[0].isalpha()
    assert all(c == "_" or c.isalnum() or unicodedata.category(c)[0] == "M" for c in name)
    assert "__" not in name
    assert len(f"{name}_latest") <= 63
    assert len(f"{name}__999.parquet".encode()) <= 255
    assert not name.startswith(("dp_", "pg_", "duckdb_", "sqlite_"))


@settings(max_examples=25, deadline=None)
@given(NAMES)
def test_duckdb_holds_all_of_them_side_by_side(releases: list[str]) -> None:
    """DuckDB, which decides what the same name is, takes every table and view."""
    with duckdb.connect() as con:
        for name in {x for n in name_tables(releases) for x in (n.table, n.view, n.whole)}:
            con.execute(f'CREATE TABLE "{name}" AS SELECT 1 AS a')


READABLE = [
    *(("ips-2026-11", "ips_2026_11", "ips"), ("ips-2026-11-03", "ips_2026_11_03", "ips")),
    *(("IPs 2026/11", "ips_2026_11", "IPs"), ("sales_2026-Q3", "sales_2026_q3", "sales")),
    *(("sales.2026-W45", "sales_2026_w45", "sales"), ("ips", "ips", "ips")),
    ("sales-2026-W40..2026-W47", "sales_2026_w40_2026_w47", "sales"),
    *(("sales-2026-11-22T13", "sales_2026_11_22t13", "sales"), ("ipv6", "ipv6", "ipv6")),
    ("top-10-carriers", "top_10_carriers", "top-10-carriers"),
    ("O'Neil; DROP TABLE x--", "o_neil_drop_table_x", "O'Neil; DROP TABLE x--"),
    ("dp_releases", "release_dp_releases", "dp_releases"),
    *(("2026-11", "release_2026_11", "2026-11"), ("Größe 2026", "grösse_2026", "Größe")),
    *(("日本-2026-11", "日本_2026_11", "日本"), ("हिन्दी-7", "हिन्दी_7", "हिन्दी")),
    *(("🚀", "release", "🚀"), ("x" * 200, "x" * 50, "x" * 200)),
]


@pytest.mark.parametrize(("release", "table", "kin"), READABLE)
def test_names_are_readable(release: str, table: str, kin: str) -> None:
    assert (identifier_of(release), family(release)) == (table, kin)


def test_names_that_meet_are_numbered_in_the_order_of_their_charges() -> None:
    """The first keeps the plain name; a release may also be called like a view."""
    found = name_tables(["ips-1", "IPS 1", "ips_1", "ips latest", "dp-budget"])
    assert [n.table for n in found] == [
        *("ips_1", "ips_1__2", "ips_1__3", "ips_latest__3", "release_dp_budget")
    ]
    assert [n.view for n in found][:4] == [
        *("ips_latest", "ips_latest__2", "ips_latest", "ips_latest_latest")
    ]
