"""The SQL rollup against a dictionary of Python tuples, over nasty values."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.counts import python_integers
from dpframe.errors import ColumnError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.measures.bins import Steps
from dpframe.sources import exact_trees as tables
from dpframe.sources.portable_sql import Summand, values_to_count
from tests import strategies as nasty
from tests.members import few, some
from tests.naive import leaf_paths, rollup, shares, units_of_pairs
from tests.rollups import exact_counts

PAIR = dp.columns("a", "b")


def frame_of(values: Sequence[Any]) -> pd.DataFrame:
    """One column ``x`` of Python objects as they are."""
    return pd.DataFrame({"x": pd.Series(list(values), dtype=object)})


@nasty.examples_of(4, 100, nasty.KINDS)
def test_rows_are_counted_as_one_by_one(drawn: Any) -> None:
    """Law: every value is in the node that the Python of its kind finds: ``ipaddress``, ``split``,
    slices, datetimes in UTC, halves of intervals, tuples; everything else is invalid."""
    rows, hierarchy = drawn
    found = exact_counts(nasty.frame_of(rows, hierarchy), hierarchy)
    assert found == rollup(leaf_paths(hierarchy, rows))


def test_every_listed_malformed_address_is_invalid() -> None:
    """No malformed address of the list slips through, one by one."""
    found = exact_counts(frame_of(nasty.MALFORMED), dp.ip("x"))
    assert found == {(): len(nasty.MALFORMED), (None,): len(nasty.MALFORMED)}


@nasty.examples(
    8,
    200,
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 2)), max_size=60),
    st.integers(0, 2**62),
)
def test_units_are_of_users_and_their_keys(rows: list[tuple[int, int, int]], seed: int) -> None:
    """Row by row a user gets what their keys get by the number of rows that each has, to the unit:
    keys of numbers, of texts, and such that are read from texts."""

    def hashed(user: int) -> int:
        return int(duckdb.sql(f"SELECT hash({user}::BIGINT, {seed}::UBIGINT)").fetchall()[0][0])

    unit = PrivacyUnit(user="u")
    numbers = pd.DataFrame(rows, columns=["u", "a", "b"], dtype="int64")
    texts = numbers.astype({"a": str, "b": str})
    labels = texts.assign(b=texts["a"] + "/" + texts["b"])
    for frame, hierarchy in ((numbers, PAIR), (texts, PAIR), (labels, dp.path("b"))):
        keys = list(frame[["a", "b"]].itertuples(index=False, name=None))
        twin = units_of_pairs(frame["u"], keys, grid=unit.grid, offset=hashed)
        shown = {tuple(map(str, path)): n for path, n in twin.items() if n or not path}
        assert exact_counts(frame, hierarchy, unit, seed) == shown


def test_shares_are_unbiased() -> None:
    """Over many users with the same rows every node gets its exact share, to 5 sigmas."""
    users, leaves = 4_000, ["a/b", "a/c", "a/c", "a/c", "d", "d", "e/f/g"]
    frame = pd.DataFrame({"who": np.repeat(np.arange(users), len(leaves)), "x": leaves * users})
    hierarchy, unit = dp.path("x"), PrivacyUnit(user="who")
    found = exact_counts(frame, hierarchy, unit)
    for path, weight in shares(["one"] * 7, leaf_paths(hierarchy, [(v,) for v in leaves])).items():
        assert abs(found[path] - users * unit.grid * float(weight)) <= 5 * 0.5 * users**0.5 * 3
    assert len({found[("a",)], found[("d",)], found[("e",)]}) == 3


KINDS_OF_TEXT = ["columns:x", "path:x", "code:x?lengths=1,3", "domain:x", "ip:x", "date:x"]
TEXTS = ["a/b", "10.0.0.1", "", None, "2013-05-01", "www.example.org", "a/b"]


@some("columns:x", "date:x")
@few(3, "spec", KINDS_OF_TEXT)
def test_text_reads_alike_however_it_is_stored(spec: str) -> None:
    """Objects, pandas strings, categories, Arrow text, dictionaries and ENUM give equal counts."""
    hierarchy = as_hierarchy(spec)
    expected = rollup(leaf_paths(hierarchy, [(v,) for v in TEXTS]))
    enum = pd.api.types.CategoricalDtype(["2013-05-01", "unused", "a/b", "", "10.0.0.1"])
    con = duckdb.connect()
    con.register("given", pa.table({"x": TEXTS}))
    con.execute(
        "CREATE TYPE word AS ENUM ('www.example.org', 'a/b', '2013-05-01', '', '10.0.0.1', 'no')"
    )
    sources: list[object] = [
        frame_of(TEXTS),
        pd.DataFrame({"x": pd.Series(TEXTS, dtype="str")}),
        pd.DataFrame({"x": pd.Series(TEXTS, dtype="string")}),
        pd.DataFrame({"x": pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.large_string()))}),
        pd.DataFrame({"x": pd.Series(TEXTS, dtype="category")}),
        pa.table({"x": pa.array(TEXTS, pa.string_view())}),
        pa.table({"x": pa.chunked_array([TEXTS[:2], TEXTS[2:]])}),
        pa.table({"x": pa.array(TEXTS).dictionary_encode()}),
        con.sql("FROM given"),
        con.sql("SELECT CAST(x AS word) AS x FROM given"),
    ]
    for source in sources:
        assert exact_counts(source, hierarchy) == expected
    some = pd.DataFrame({"x": pd.Series(["a/b", "", None], dtype=enum)})
    assert exact_counts(some, hierarchy) == exact_counts(frame_of(["a/b", "", None]), hierarchy)


@some("columns:x", "code:x?lengths=1,2")
@pytest.mark.parametrize("spec", ["columns:x", "path:x", "code:x?lengths=1,2"])
def test_whole_numbers_read_alike_with_and_without_missing_values(spec: str) -> None:
    """A NULL turns integers of pandas into floats; the labels do not change."""
    hierarchy = as_hierarchy(spec)
    values = [0, 7, -3, 123456789012, 7]
    with_gap = [*values, None]
    expected = rollup(leaf_paths(hierarchy, [(v,) for v in values]))
    gapped = rollup(leaf_paths(hierarchy, [(v,) for v in with_gap]))
    for dtype in ("int64", "Int64", "float64", "Float64", object, "category"):
        frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
        assert exact_counts(frame, hierarchy) == expected
        if dtype != "int64":
            frame = pd.DataFrame({"x": pd.Series(with_gap, dtype=dtype)})
            assert exact_counts(frame, hierarchy) == gapped
    assert exact_counts(pa.table({"x": with_gap}), hierarchy) == gapped


def labels(source: object, spec: str = "columns:x") -> dict[Any, int]:
    return {
        path[0]: n for path, n in exact_counts(source, as_hierarchy(spec)).items() if len(path) == 1
    }


def test_other_types_have_the_labels_of_sql() -> None:
    """Booleans, decimals, times, periods, intervals, bytes, and text that is no Unicode."""
    assert labels(pd.DataFrame({"x": [True, False, True]})) == {"true": 2, "false": 1}
    nullable = pd.DataFrame({"x": pd.Series([True, None], dtype="boolean")})
    assert labels(nullable) == {"true": 1, None: 1}
    assert labels(pa.table({"x": [Decimal("1.50"), Decimal("2.00")]})) == {"1.50": 1, "2.00": 1}
    assert labels(pd.DataFrame({"x": [Decimal("1.50"), 1.5]})) == {"1.5": 2}
    assert labels(pa.table({"x": [dt.date(2013, 5, 1)]})) == {"2013-05-01": 1}
    assert labels(pd.DataFrame({"x": pd.period_range("2013-01", periods=2, freq="M")})) == {
        "2013-01": 1,
        "2013-02": 1,
    }
    assert labels(pd.DataFrame({"x": pd.cut([1, 5, 2], [0, 3, 6])})) == {"(0, 3]": 2, "(3, 6]": 1}
    assert labels(pd.DataFrame({"x": [b"a", b"\xff", "a"]})) == {"a": 2, r"\xFF": 1}
    assert labels(pd.DataFrame({"x": pd.arrays.SparseArray([1, 0, 0])})) == {"0": 2, "1": 1}
    assert labels(pd.DataFrame({"x": [2**80, 1, 2**80]})) == {str(2**80): 2, "1": 1}
    assert labels(frame_of(["\ud800x", "b", "\ud800x"])) == {r"\xED\xA0\x80x": 2, "b": 1}
    assert labels(pa.table({"x": pa.nulls(3)})) == {None: 3}
    assert labels(pa.table({"x": pa.nulls(3)}), "date:x") == {None: 3}


@pytest.mark.parametrize("unit", ["s", "ns", "us, Asia/Tokyo", "ns, Asia/Tokyo"])
def test_timestamps_read_alike_whatever_their_unit_and_zone(unit: str) -> None:
    """Days are days in UTC."""
    utc = pd.Series(pd.to_datetime(["2013-05-01 23:30", "2013-05-02 00:30", None], utc=True))
    column = (utc if "," in unit else utc.dt.tz_localize(None)).astype(f"datetime64[{unit}]")
    hierarchy = dp.date("x", levels=("month", "day"))
    found = exact_counts(pd.DataFrame({"x": column}), hierarchy)
    month, days = "2013-05", ("2013-05-01", "2013-05-02")
    assert found == {(): 3, (None,): 1, (month,): 2, (month, days[0]): 1, (month, days[1]): 1}


def test_infinite_times_are_invalid() -> None:
    """A date without a calendar day is malformed, not an error."""
    con = duckdb.connect()
    for kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
        source = con.sql(
            f"SELECT CAST(i AS {kind}) AS x FROM (VALUES ('infinity'), ('-infinity')) t(i)"
        )
        assert labels(source, "date:x") == {None: 2}


@pytest.mark.parametrize("values", [[1], [True], [1.5], [dt.time(1, 2)], [b"x"], [{"a": 1}]])
def test_dates_refuse_columns_that_hold_no_times(values: list[Any]) -> None:
    """By the type of the column, which is public, and never by a value."""
    with pytest.raises(ColumnError, match=r"column 'x' has type .*; date reads dates"):
        exact_counts(pa.table({"x": values}), dp.date("x"))


ALL_KINDS = [*KINDS_OF_TEXT, "number:x?lower=0&upper=8&depth=3", "columns:x,x2"]


@some("columns:x", "code:x?lengths=1,3", "date:x")
@pytest.mark.parametrize("spec", ALL_KINDS)
def test_an_empty_frame_is_a_root_of_zero(spec: str) -> None:
    """No rows: only level 0, with count 0, whatever the dtype of an empty column."""
    for dtype in (object, "str"):
        frame = pd.DataFrame({"x": pd.Series([], dtype=dtype), "x2": pd.Series([], dtype=dtype)})
        assert exact_counts(frame, as_hierarchy(spec)) == {(): 0}
        assert exact_counts(frame.assign(u=[]), as_hierarchy(spec), PrivacyUnit(user="u")) == {
            (): 0
        }


def test_columns_that_nobody_asked_for_do_not_matter() -> None:
    """Duplicate, numbered, nested or unreadable other columns are never touched."""
    frame = pd.DataFrame([["a", 1, 2, 3, object()]], columns=["x", "y", "y", 0, ("t", 1)])
    assert labels(frame) == {"a": 1}
    frame = pd.DataFrame({"x": ["a"], "X": ["b"]})
    assert labels(frame) == {"a": 1}
    assert labels(frame, "columns:X") == {"b": 1}


def test_ambiguous_columns_are_refused_by_name() -> None:
    """Names that stand twice, or twice but for their case, or are no texts cannot be read."""
    twice = pd.DataFrame([["a", "b"]], columns=["x", "x"])
    with pytest.raises(ColumnError, match="column 'x' appears 2 times"):
        exact_counts(twice, dp.columns("x"))
    cases = pd.DataFrame({"x": ["a"], "X": ["b"]})
    with pytest.raises(ColumnError, match="differ in case only"):
        exact_counts(cases, dp.columns("x", "X"))
    pairs = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    for columns in ([0, 1], pairs):
        with pytest.raises(ColumnError, match="column 'a' does not exist"):
            exact_counts(pd.DataFrame([[1, 2]], columns=columns), dp.columns("a"))


@pytest.mark.parametrize(
    "name", ['a"b', "a'b", "a;--", "sélect", " a ", "a.b", "c0", "k1", "n", "u", "level"]
)
def test_names_of_columns_are_quoted(name: str) -> None:
    """Quotes, spaces, dots and the names used inside of the statement are ordinary names."""
    frame = pd.DataFrame({name: ["a", "b", "a"], "other": ["z"] * 3})
    assert exact_counts(frame, dp.columns(name)) == {(): 3, ("a",): 2, ("b",): 1}
    found = exact_counts(frame, dp.path("other"), PrivacyUnit(user=name))
    assert found == {(): 512, ("z",): 512}


def test_an_unreadable_arrow_type_raises_our_error() -> None:
    """What DuckDB cannot read says so without a foreign exception."""
    wide = pa.table({"x": pa.array([1], pa.decimal256(50, 3))})
    with pytest.raises(ColumnError, match=r"'x' has type decimal256\(50, 3\), which DuckDB does"):
        exact_counts(wide, dp.columns("x"))


@pytest.mark.parametrize(
    "spec", ["columns:x,y", "path:x", "domain:x", "ip:x", "code:x?lengths=1,2"]
)
def test_preorder_does_not_depend_on_settings_of_a_connection(spec: str) -> None:
    """Other default directions and null orders on the caller's connection change nothing."""
    con = duckdb.connect()
    rows = "('b/c', '1'), ('a', NULL), (NULL, '1'), ('b', '2'), ('10.0.0.1', '3'), ('::1', '3')"
    relation = con.sql(f"SELECT * FROM (VALUES {rows}) t(x, y)")
    expected = exact_counts(relation, as_hierarchy(spec))
    con.execute("SET default_order = 'DESC'; SET default_null_order = 'NULLS_LAST'")
    assert exact_counts(relation, as_hierarchy(spec)) == expected


@pytest.mark.parametrize("by", ["columns:k", "path:k"])
def test_values_are_counted_where_they_are_added_up(by: str) -> None:
    """Law: a value is present where it is finite, read beside another value or by itself."""
    values = [1.5, None, math.nan, math.inf, -math.inf, -3.0, 1e300, 0.0, 2.5, 7.0]
    frame = pa.table({"k": ["a/b", "a/c", "a/b", "d", "d"] * 2, "v": pa.array(values)})
    steps, hierarchy = Steps(-1.0, 5.0), as_hierarchy(by)
    value = Summand(kind="value", column="v", steps=steps)
    present = Summand(kind="present", column="v", steps=steps)
    alone = summed(frame, hierarchy, {"y": present})
    beside = summed(frame, hierarchy, {"x": value, "y": present})
    other = summed(frame, hierarchy, {"x": replace(value, steps=Steps(0.0, 5.0)), "y": present})
    assert alone["y"] == beside["y"] == other["y"]
    assert beside["y"][0] == sum(v is not None and math.isfinite(v) for v in values) == 6
    assert beside["x"][0] == sum(
        steps.of(min(max(v, -1.0), 5.0)) for v in values if v is not None and math.isfinite(v)
    )
    assert values_to_count({"x": value, "y": present}) == {"y": "x"}
    assert values_to_count({"y": present}) == {}


def summed(frame: pa.Table, hierarchy: Hierarchy, sums: dict[str, Summand]) -> dict[str, list[int]]:
    """Sums of all nodes, by name."""
    tree = tables.exact_counts(frame, hierarchy, PrivacyUnit(), 1, sums=sums, beside=["v"])
    found = zip(sums, tree.sums, strict=True)
    return {name: python_integers(column).tolist() for name, column in found}


def test_sums_are_whole_numbers_of_any_size() -> None:
    """Law: what Arrow holds in 128 bits comes out as it is, and NULL as 0."""
    small, large = [5, None, -(2**63), 2**63 - 1], [2**63, None, 1 - 10**38, 3]
    for values in (small, large, [None, None], []):
        column = pa.chunked_array([pa.array(values, pa.decimal128(38, 0))])
        found = python_integers(column)
        assert found.tolist() == [0 if v is None else v for v in values]
        assert all(type(number) is int for number in found)


@pytest.mark.parametrize("lengths", ["", "?prefixes=8,16,24&prefixes6=32", "?prefixes=8"])
def test_sums_of_both_families_are_those_of_their_rows(lengths: str) -> None:
    """Also where one has fewer levels; an exponent in capitals is no octet."""
    fours = ["1.2.3.4", "::ffff:1.2.3.4", " 1.2.3.4", "1.2.3.9"]
    values = [*fours, "2001:db8::1", "2001:DB8::2", "1E2.1.1.1"]
    frame = pa.table({"ip": values * 2, "v": [1] * 14})
    hierarchy, sums = as_hierarchy(f"ip:ip{lengths}"), {"rows": Summand(kind="row")}
    tree = tables.exact_counts(frame, hierarchy, PrivacyUnit(), 1, sums=sums, beside=["v"])
    assert python_integers(tree.sums[0]).tolist() == tree.count.tolist()
    assert sorted(tree.count[tree.level == 1].tolist()) == [2, 4, 8]
    assert tree.count[0] == 14
