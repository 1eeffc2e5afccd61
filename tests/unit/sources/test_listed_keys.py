"""Keys that the caller lists: what they are, what is refused, and their counts out of a tree."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.counts import CountTree, ListedNodes
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.sources import frames as key_tables
from dpframe.sources import keys
from dpframe.sources import rollup_statement as listed_join
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.keys import check_key_types, listed_counts, listed_nodes
from tests import strategies as nasty
from tests.members import in_turn, some
from tests.naive import Path, leaf_paths, rollup
from tests.rollups import columns_of_t, node_counts, tree_by_sql, tree_paths

RECORDS = PrivacyUnit()
PATH = dp.path("x", depth=3)
PAIR = dp.columns("a", "b")


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError("the value itself")


def as_tree(listed: ListedNodes) -> CountTree:
    """Listed nodes as a tree of no counts, to read their paths."""
    zero = np.zeros(len(listed.level), dtype=np.int64)
    return CountTree(level=listed.level, parent=listed.parent, count=zero, keys=listed.keys)


def paths_of(listed: ListedNodes, hierarchy: Hierarchy) -> list[Path]:
    return tree_paths(as_tree(listed), hierarchy)


def rest_of(listed: ListedNodes, hierarchy: Hierarchy) -> set[Path]:
    found = zip(paths_of(listed, hierarchy), listed.rest.tolist(), strict=True)
    return {path for path, rest in found if rest}


# -- what keys are -------------------------------------------------------------------------------

KEYS: dict[str, list[Any]] = {
    "columns:x": ["a", "it's", '"', "é日🏴", " ", "NULL", "a\nb", "a\x00b", "\\", "-- ;"],
    "columns:x,y": [("a", "1"), ("a", "2"), ("b", "1"), ("a / b", "'")],
    "path:x?depth=3": ["a/b/c", "a/b", "a", "d/é", "it's/\"/x", "f/g/h/i"],
    "code:x?lengths=1,3,5": ["1", "123", "12345", "2é", "999", "é23"],
    "domain:x": ["org", "www.Example.org", "example.org.", "a.b.c.d.e", "É.de"],
    "ip:x": ["10.0.0.1", "10.0.0.2", "11.0.0.1", "::1", "2001:db8::1"],
    "ip:x?version=4&prefixes=8,16": ["10.0.0.1", "10.1.0.1", "255.0.0.0"],
    "date:x": ["2013-05-01", "2013-05-01 10:00:00", "2014-01-01T00:30:00+01:00"],
    "number:x?lower=0&upper=8&depth=3": [0, 1.5, "7.9", 3],
}


def rows_of(spec: str) -> list[tuple[Any, ...]]:
    return [key if isinstance(key, tuple) else (key,) for key in KEYS[spec]]


@pytest.mark.parametrize("spec", KEYS)
def test_keys_are_the_nodes_of_values(spec: str) -> None:
    """Law: keys are nodes of such values with all above, in preorder, in whichever order."""
    hierarchy = as_hierarchy(spec)
    listed = listed_nodes(KEYS[spec], hierarchy)
    paths = paths_of(listed, hierarchy)  # checks parents and keys
    naive = {p for p in leaf_paths(hierarchy, rows_of(spec)) if p is not None}
    assert len(paths) == len(set(paths))
    assert set(paths) == {leaf[:n] for leaf in naive for n in range(len(leaf) + 1)}
    assert all(key.type == pa.string() for key in listed.keys)
    # something can be beside listed children only
    assert rest_of(listed, hierarchy) == {p[:-1] for p in paths if p}
    for again in (list(reversed(KEYS[spec])), tuple(KEYS[spec])):
        other = listed_nodes(again, hierarchy)
        assert (other.name, paths_of(other, hierarchy)) == (listed.name, paths)


def test_other_lists_have_other_names() -> None:
    """One key less, moved characters, another level or another rest are another name."""
    lists: list[list[Any]] = [
        *([("a", "b")], [("ab", "c")], [("a", "bc")], [("a", "b"), ("a", "c")]),
        *([("a", "b"), ("b", "b")], [("b", "a")]),
    ]
    names = [listed_nodes(some, PAIR).name for some in lists]
    names += [listed_nodes([key], PATH).name for key in ("a", "b", "a/b")]
    names += [listed_nodes(["a"], dp.columns("x")).name]
    assert len(set(names)) == len(names) - 1  # one column a and a path a are the same nodes
    assert all(len(name) == 64 for name in names)
    hierarchy = dp.number("x", lower=0, upper=4, depth=2)
    some, domain = listed_nodes([0, 1, 2, 3], hierarchy), listed_nodes("domain", hierarchy)
    assert paths_of(some, hierarchy) == paths_of(domain, hierarchy)
    assert some.name != domain.name


def holders() -> list[Any]:
    """The keys 2, 10 and 30 in whatever holds keys."""
    numbers = [2, 10, 30]
    frame = pd.DataFrame({"other": ["z"] * 3, "x": numbers})
    return [
        *(numbers, tuple(numbers), ["2", "10", "30"], [2.0, "10", np.int8(30)]),
        *([(2,), (10,), (30,)], np.array([2, "10", 30.0], dtype=object)),
        *(np.array(numbers), np.array([2.0, 10, 30]), np.array(["2", "10", "30"])),
        *(frame["x"], pd.Index(numbers), frame["x"].astype("category"), pd.array(numbers)),
        *(frame["x"].astype(str), frame["x"].astype(object), frame["x"].astype("Int64")),
        *(frame["x"].set_axis([7, 7, 7]), pl.Series(numbers), pl.Series(["2", "10", "30"])),
        *(pa.array(numbers), pa.chunked_array([[2], [10, 30]]), pa.array(["2", "10", "30"])),
        pl.Series([2, "10", 30], dtype=pl.Object),
        *(frame, pl.DataFrame(frame), pl.LazyFrame(frame), pa.table(frame)),
        *(pa.table(frame).to_batches()[0], frame.astype(object), frame.astype({"x": float})),
    ]


@pytest.mark.parametrize("held", holders(), ids=lambda held: type(held).__name__)
def test_keys_are_the_same_however_they_are_held(held: Any) -> None:
    """Law: lists, arrays and frames, numbers and text, of the same keys have one name."""
    hierarchy = dp.columns("x")
    listed = listed_nodes(held, hierarchy)
    assert listed.name == listed_nodes(["10", "2", "30"], hierarchy).name
    assert sorted(listed.keys[0].drop_null().to_pylist()) == ["10", "2", "30"]
    if type(held).__name__ != "RecordBatch":
        assert len(held if not isinstance(held, pl.LazyFrame) else held.collect()) == 3


def test_tuples_and_frames_are_the_same_keys() -> None:
    """Several columns from tuples, lists, a MultiIndex or frames, in any order of columns."""
    expected = listed_nodes([("x", 1), ("y", 2)], PAIR)
    assert paths_of(expected, PAIR) == [(), ("x",), ("x", "1"), ("y",), ("y", "2")]
    frame = pd.DataFrame({"z": [0, 0], "b": [1, 2], "a": ["x", "y"]})
    index = pd.MultiIndex.from_tuples([("x", 1), ("y", 2)])
    twice = np.array([["x", 1], ["y", 2]], dtype=object)
    objects = pd.Series([("x", 1), ("y", 2)])
    for held in (frame, pa.table(frame), pl.DataFrame(frame), index, twice, objects):
        assert listed_nodes(held, PAIR).name == expected.name
    assert listed_nodes([["x", 1], ["y", 2]], PAIR).name == expected.name


def test_times_and_decimals_are_read_as_data() -> None:
    """Dates as objects, arrays of datetimes and text. Decimals have no one text: 1.5 and 1.50."""
    days = [dt.date(2013, 5, 1), dt.date(2014, 1, 2)]
    hierarchy = dp.date("x", levels=("year", "day"))
    names = {
        listed_nodes(held, hierarchy).name
        for held in (
            *(days, [d.isoformat() for d in days], np.array(days, dtype="datetime64[ns]")),
            *(pa.array(days), pd.to_datetime(pd.Series(days)), pd.to_datetime(days)),
            pd.DataFrame({"x": pd.to_datetime(days).tz_localize("UTC")}),
        )
    }
    assert len(names) == 1
    with pytest.raises(dp.ParameterError, match="Write the text"):
        listed_nodes([Decimal("1.50")], dp.columns("x"))
    for held in (["1.50"], pa.array([Decimal("1.50")])):
        assert paths_of(listed_nodes(held, dp.columns("x")), dp.columns("x")) == [(), ("1.50",)]


def test_a_key_above_another_one_is_a_key() -> None:
    """A value can end early; what is listed below it, and only then, leaves a rest."""
    listed = listed_nodes(["Food", "Food/Apple", "Toys"], PATH)
    food, apple = ("Food",), ("Food", "Food/Apple")
    assert paths_of(listed, PATH) == [(), food, apple, ("Toys",)]
    assert rest_of(listed, PATH) == {(), food}


# -- what is refused -----------------------------------------------------------------------------

WRONG: list[tuple[Any, Any, type[Exception], str]] = [
    ([], PATH, ParameterError, r"keys has 0 keys"),
    ([(Unshown(), 1)], PATH, ParameterError, r"keys has a tuple. A key must be one value of"),
    (pd.DataFrame({"x": []}), PATH, ParameterError, r"keys has 0 keys"),
    ("Food", PATH, ParameterError, r"keys is the text 'Food'\. Pass a list of keys, \['Food'\]"),
    ({"Food": 1}, PATH, ParameterTypeError, r"keys must be a list.*; got dict"),
    ({"Food"}, PATH, ParameterTypeError, r"got set"),
    (None, PATH, ParameterTypeError, r"got NoneType"),
    (7, PATH, ParameterTypeError, r"got int"),
    (b"Food", PATH, ParameterTypeError, r"got bytes"),
    (["a", "b", "a"], PATH, ParameterError, r"2 keys that mean 'a'. List each"),
    (["A/b", "A/b/"], PATH, ParameterError, r"2 keys that mean 'A/b'.* in one spelling"),
    (["a/b/c/1", "a/b/c/2", "a/b/c"], PATH, ParameterError, r"3 keys that mean 'a/b/c'"),
    (["10.0.0.1", "::ffff:10.0.0.1"], dp.ip("x"), ParameterError, r"2 .* mean '10.0.0.1/32'"),
    (["10.0.0.1", "10.0.0.2"], dp.ip("x", prefixes=(8, 24)), ParameterError, r"'10.0.0.0/24'"),
    (["a.org", "A.org."], dp.domain("x"), ParameterError, r"2 keys that mean 'a.org'"),
    ([("a", 1), ("a", "1")], PAIR, ParameterError, r"2 keys that mean 'a / 1'"),
    ([0.1, 0.2], dp.number("x", lower=0, upper=8, depth=3), ParameterError, r"mean '\[0, 1\)'"),
    (["a", ""], PATH, ParameterError, r"keys has '', which is malformed, empty or missing for"),
    (["a", None], PATH, ParameterError, r"keys has None, which is malformed"),
    (["a", ""], dp.columns("x"), ParameterError, r"keys has '', which is malformed"),
    ([1, float("nan")], dp.columns("x"), ParameterError, r"keys has None, which is malformed"),
    (np.array([1, np.nan]), dp.columns("x"), ParameterError, r"which is malformed"),
    (["10.0.0.0/8"], dp.ip("x"), ParameterError, r"keys has '10.0.0.0/8', which is malformed"),
    (["::1"], dp.ip("x", version=4), ParameterError, r"keys has '::1', which is malformed"),
    (["May"], dp.date("x"), ParameterError, r"keys has 'May', which is malformed"),
    (["x"], dp.number("x", lower=0, upper=1), ParameterError, r"keys has 'x', which is malformed"),
    (["1"], dp.code("x", lengths=(2, 3)), ParameterError, r"keys has '1', which is malformed"),
    ([("a", None)], PAIR, ParameterError, r"keys has \('a', None\), which is malformed"),
    ([("a", "b"), (None, "b")], PAIR, ParameterError, r"keys has \(None, 'b'\), which"),
    ([("a", "")], PAIR, ParameterError, r"keys has \('a', ''\), which is malformed"),
    ([("a", "b"), ("a",)], PAIR, ParameterError, r"keys has \('a',\). A key must be a tuple of 2"),
    ([("a", "b", "c")], PAIR, ParameterError, r"tuple of 2 values, for columns 'a', 'b'"),
    (["ab"], PAIR, ParameterError, r"keys has 'ab'. A key must be a tuple of 2 values"),
    (pd.Series(["ab"]), PAIR, ParameterError, r"keys has 'ab'. A key must be a tuple of 2"),
    (pa.array(["ab"]), PAIR, ParameterError, r"keys has 'ab'. A key must be a tuple of 2"),
    ([("a", "b")], PATH, ParameterError, r"\('a', 'b'\). A key must be one value of column 'x'"),
    ([("a",)], PATH, ParameterError, r"\('a',\). A key must be one value of column 'x'"),
    ([("a", "b")], dp.columns("x"), ParameterError, r"A key must be one value of column 'x'"),
    (pd.DataFrame({"c": [1]}), PAIR, ColumnError, r"keys lacks columns 'a', 'b'.*columns 'a', 'b'"),
    (pl.DataFrame({"a": [1]}), PAIR, ColumnError, r"keys lacks column 'b'"),
    (pa.table({"y": [1]}), PATH, ColumnError, r"keys lacks column 'x'"),
    (np.array([1, 2]), dp.date("x"), ColumnError, r"has type BIGINT; date reads dates"),
    (["a"], dp.columns("\0"), ColumnError, r"has a NUL in its name"),
]


@pytest.mark.parametrize(("given", "hierarchy", "error", "words"), WRONG)
def test_wrong_keys(given: Any, hierarchy: Hierarchy, error: type[Exception], words: str) -> None:
    """Every rule, in words that quote the key."""
    with pytest.raises(error, match=words):
        listed_nodes(given, hierarchy)


@pytest.mark.parametrize("spec", [s for s in KEYS if not s.startswith("columns")])
def test_malformed_keys_are_seen_where_malformed_values_are_dropped(spec: str) -> None:
    """Dropping is for data: a key that could never count is an error."""
    hierarchy = as_hierarchy(spec + ("&" if "?" in spec else "?") + "invalid=drop")
    listed_nodes(KEYS[spec], hierarchy)
    with pytest.raises(ParameterError, match=r"keys has '', which is malformed"):
        listed_nodes([*KEYS[spec], ""], hierarchy)


def test_lists_and_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_tables, "MOST", 5)
    monkeypatch.setattr(keys, "MOST", 5)
    with pytest.raises(ParameterError, match="keys has 6 keys"):
        listed_nodes(list("abcdef"), PATH)
    with pytest.raises(ParameterError, match=r"keys has 3 keys.* 7 nodes"):
        listed_nodes(["a/b", "c/d", "e/f"], PATH)
    assert len(listed_nodes(["a/b", "c/d"], PATH).level) == 5
    with pytest.raises(ParameterError) as error:
        listed_nodes(["x" * 100_000] * 2, PATH)
    assert len(str(error.value)) < 400


# -- finite domains ------------------------------------------------------------------------------

FINITE = [
    (dp.number("x", lower=0, upper=8, depth=3), 8),
    (dp.number("x", lower=-1e-3, upper=1e9, depth=10), 1024),
    (dp.number("x", lower=1e-300, upper=3e-300, depth=4), 16),
    (dp.ip("x", version=4, prefixes=(2, 8)), 256),
    (dp.ip("x", version=4, prefixes=(12,), prefixes6=(64,)), 4096),
    (dp.ip("x", version=6, prefixes6=(3, 9)), 512),
]


@pytest.mark.parametrize(("hierarchy", "leaves"), FINITE, ids=lambda v: getattr(v, "spec", v))
def test_a_finite_domain_has_every_leaf(hierarchy: Hierarchy, leaves: int) -> None:
    """Law: all leaves, one value each; what is beside them is malformed, thus below the root."""
    values = hierarchy.domain_values()
    assert values is not None
    assert len(set(leaf_paths(hierarchy, [(value,) for value in values]))) == leaves
    listed = listed_nodes("domain", hierarchy)
    assert (listed.level == hierarchy.height).sum() == leaves
    assert rest_of(listed, hierarchy) == {()}
    dropped = as_hierarchy(hierarchy.spec + "&invalid=drop")
    assert not listed_nodes("domain", dropped).rest.any()


@pytest.mark.parametrize(
    "spec",
    [
        *("columns:x", "path:x", "code:x?lengths=1", "domain:x", "date:x", "ip:x", "columns:x,y"),
        *("ip:x?version=4", "ip:x?prefixes=8&prefixes6=16", "ip:x?version=6&prefixes6=21"),
        "number:x?lower=0&upper=1&depth=21",
    ],
)
def test_other_kinds_have_no_finite_domain(spec: str) -> None:
    with pytest.raises(ParameterError, match=r"keys='domain' needs .* Pass a list .* number "):
        listed_nodes("domain", as_hierarchy(spec))


def test_intervals_that_numbers_cannot_tell_apart_are_no_domain() -> None:
    with pytest.raises(ParameterError, match="too narrow for floating-point"):
        listed_nodes("domain", dp.number("x", lower=1e16, upper=1e16 + 4, depth=8))


# -- types of the data ---------------------------------------------------------------------------

CANNOT, AS_1 = "cannot hold", "would show as '1'"
TYPED_KEYS: dict[str, list[tuple[str, str | None]]] = {
    "INTEGER": [("7", None), ("-7", None), ("abc", CANNOT), ("99999999999", CANNOT),
                ("01", AS_1), ("9.5", CANNOT), ("1.0", AS_1)],
    "DECIMAL(5,2)": [("1.50", None), ("1.505", CANNOT),
                     ("1.5", "of type DECIMAL would show as '1.50'")],
    "UBIGINT": [("18446744073709551615", None)],
    "HUGEINT": [(str(2**100), None)],
    "DATE": [("2013-05-01", None), ("2013-5-1", "would show as '2013-05-01'"), ("May", CANNOT)],
    "BOOLEAN": [("true", None), ("t", "would show as 'true'"), ("abc", CANNOT)],
    "DOUBLE": [("1", None), ("0.1", None), ("1.0", AS_1), ("nan", CANNOT)],
    "TIMESTAMP": [("2013-05-01 10:00:00", None),
                  ("2013-05-01", "would show as '2013-05-01 00:00:00'")],
    "TIMESTAMP WITH TIME ZONE": [("2013-05-01 10:00:00", None)],
    "UUID": [("eeccb8c5-9943-b2bb-bb5e-222f4e14b687", None)],
    **{kind: [(key, None)] for kind, key in {
        "VARCHAR": "01", "ENUM": "anything", "INTEGER[]": "[1, 2]", "JSON": "{}"}.items()},
}  # fmt: skip
TYPED = [(kind, *given) for kind, keys_ in TYPED_KEYS.items() for given in keys_]


@some(
    "INTEGER-7-None", "INTEGER-abc-cannot hold", "INTEGER-9.5-cannot hold",
    "INTEGER-1.0-would show as '1'", "DATE-2013-05-01-None", "BOOLEAN-true-None",
    "BOOLEAN-abc-cannot hold", "DOUBLE-1.0-would show as '1'",
    "TIMESTAMP-2013-05-01-would show as '2013-05-01 00:00:00'", "VARCHAR-01-None",
    "INTEGER[]-[1, 2]-None",
)  # fmt: skip
@pytest.mark.parametrize(("kind", "key", "words"), TYPED)
def test_a_key_that_no_value_can_have_is_an_error(kind: str, key: str, words: str | None) -> None:
    """Law: it would count nothing without a word; the levels of columns keep their types."""
    listed = listed_nodes([("x", key)], PAIR)
    if words is None:
        check_key_types(listed, PAIR, ("VARCHAR", kind))
        return
    with pytest.raises(ColumnError, match=f"keys has '{key}', which column 'b'.*{words}"):
        check_key_types(listed, PAIR, ("VARCHAR", kind))
    check_key_types(listed_nodes([key], PATH), PATH, (kind,))


def test_keys_that_pass_are_found() -> None:
    """Law: what the check lets through is what the rollup writes, for values of every type."""
    con = duckdb.connect()
    for kind, key, words in TYPED:
        if words is not None or kind in ("ENUM", "JSON", "VARCHAR"):
            continue
        zone = "+00" if "ZONE" in kind else ""
        rows = con.sql(f"SELECT 'x' AS a, '{key}{zone}'::{kind} AS b")
        tree = exact_counts(rows, PAIR, RECORDS, 1, listed=listed_nodes([("x", key)], PAIR))
        assert tree.count.tolist() == [1, 1, 1], kind


def test_keys_of_a_wrong_type_are_refused_before_the_data_are_read() -> None:
    """By the type alone: an empty table is enough."""
    empty = pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.int64())})
    listed = listed_nodes([("x", "one")], PAIR)
    with pytest.raises(ColumnError, match="keys has 'one', which column 'b' of type BIGINT"):
        exact_counts(empty, PAIR, RECORDS, 1, listed=listed)
    seen = [("a", "VARCHAR"), ("b", "BIGINT")]
    with pytest.raises(ColumnError, match="keys has 'one', which column 'b' of type BIGINT"):
        tree_by_sql(duckdb.connect(), PAIR, columns=seen, only=listed)


# -- counts --------------------------------------------------------------------------------------


def counted(source: object, hierarchy: Hierarchy, listed: ListedNodes) -> dict[Path, int]:
    tree = exact_counts(source, hierarchy, RECORDS, 1, listed=listed)
    assert tree.level is listed.level
    assert repr(tree) == "CountTree(<private>)"
    return node_counts(tree, hierarchy)


def expect_listed(
    hierarchy: Hierarchy, rows: list[tuple[Any, ...]], some: list[Any], sql: bool = True
) -> None:
    """Counts of listed nodes are the naive ones, 0 where there are none."""
    listed = listed_nodes(some, hierarchy)
    names = hierarchy.source_columns
    parts = list(zip(*rows, strict=True)) or [()] * len(names)
    frame = pd.DataFrame(
        {n: pd.Series(list(p), dtype=object) for n, p in zip(names, parts, strict=True)}
    )
    naive = rollup(leaf_paths(hierarchy, rows))
    expected = {path: naive.get(path, 0) for path in paths_of(listed, hierarchy)}
    assert counted(frame, hierarchy, listed) == expected
    if not sql:
        return
    con = duckdb.connect()
    con.register("t", frame)
    for columns in (None, columns_of_t(con)):
        whole = tree_by_sql(con, hierarchy, columns=columns, only=listed)
        assert set(tree_paths(whole, hierarchy)) <= set(expected)  # no other node is fetched
        assert listed_counts(whole, listed).count.tolist() == list(expected.values())


@some("in SQL-columns:x", "in SQL-domain:x", "afterwards-columns:x,y", "afterwards-ip:x")
@in_turn(("short", [2_000, 0], ["in SQL", "afterwards"]), ("spec", KEYS))
def test_listed_nodes_are_counted(spec: str, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: with keys in the data, others, malformed values, and keys that are not there."""
    hierarchy = as_hierarchy(spec)
    data = [*rows_of(spec) * 2, *[(None,) * len(hierarchy.source_columns)] * 3, rows_of(spec)[0]]
    data += [("z",) * len(hierarchy.source_columns)]
    for rows in (data, data[:3], []) if short else (data,):
        with monkeypatch.context() as patch:
            patch.setattr(listed_join, "SHORT", short)
            expect_listed(hierarchy, rows, KEYS[spec], sql=bool(short))


@nasty.examples(4, 100, st.data(), st.integers(1, 3))
def test_listed_columns_have_the_naive_counts(data: st.DataObject, width: int) -> None:
    """Random rows, and a random part of their tuples as keys."""
    rows = data.draw(nasty.column_rows(width))
    names = [f"c{i}" for i in range(width)]
    hierarchy = dp.columns(*names)
    leaves = [p for p in leaf_paths(hierarchy, rows) if p is not None and None not in p]
    some = data.draw(
        st.lists(st.sampled_from([*leaves, ("new",) * width]), min_size=1, unique=True)
    )
    expect_listed(hierarchy, rows, some)


@nasty.examples(4, 100, st.lists(nasty.paths("/"), max_size=40), st.data())
def test_listed_paths_have_the_naive_counts(values: list[Any], data: st.DataObject) -> None:
    rows = [(v,) for v in values]
    nodes = sorted(
        {p[-1] for p in rollup(leaf_paths(PATH, rows)) if p and p[-1]} | {"new", "n/e/w"}
    )
    some = data.draw(st.lists(st.sampled_from(nodes), min_size=1, unique=True))
    expect_listed(PATH, rows, some)


def test_integer_columns_are_found_by_text_keys() -> None:
    """Keys of a tree are integers where the column is; listed ones are text."""
    frame = pd.DataFrame({"a": [1, 1, 2, 10], "b": [True, False, True, True]})
    listed = listed_nodes([(10, "true"), (1, "true"), (3, "false")], PAIR)
    found = counted(frame, PAIR, listed)
    ones, tens = {("1",): 2, ("1", "true"): 1}, {("10",): 1, ("10", "true"): 1}
    assert found == {(): 4, **ones, **tens, ("3",): 0, ("3", "false"): 0}


def test_text_is_compared_by_its_characters() -> None:
    """A collation of a column makes no other text a listed one."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t (x VARCHAR COLLATE NOCASE)")
    con.execute("INSERT INTO t VALUES ('a'), ('A'), ('A'), ('é')")
    listed = listed_nodes(["a"], dp.columns("x"))
    assert counted(con.table("t"), dp.columns("x"), listed) == {(): 4, ("a",): 1}
    found = tree_by_sql(con, dp.columns("x"), columns=[("x", "VARCHAR")], only=listed)
    assert found.count.tolist() == [4, 1]


def test_weights_and_users_have_listed_counts() -> None:
    """The unit is that of the statement: shares of users, or weights of rows."""
    frame = pd.DataFrame({"x": ["a", "a", "b"], "u": [1, 1, 2], "w": [5, 6, 7]})
    listed = listed_nodes(["a", "c"], dp.columns("x"))
    users = exact_counts(frame, dp.columns("x"), PrivacyUnit(user="u"), 1, listed=listed)
    assert users.count.tolist() == [512, 256, 0]
    weights = exact_counts(frame, dp.columns("x"), PrivacyUnit(weight="w"), 1, listed=listed)
    assert weights.count.tolist() == [18, 11, 0]


@pytest.mark.parametrize("cast", [pa.string(), pa.large_string(), pa.string_view()])
def test_a_tree_s_text_can_be_of_any_arrow_type(cast: pa.DataType) -> None:
    """And in chunks, with keys that differ in one column only."""
    pairs = list(itertools.product("ab", "ab"))
    listed = listed_nodes(pairs, PAIR)
    tree = exact_counts(pd.DataFrame(pairs * 3, columns=["a", "b"]), PAIR, RECORDS, 1)

    def other(column: pa.ChunkedArray) -> pa.ChunkedArray:
        cut = [column.slice(0, 2), column.slice(2)]
        return pa.chunked_array([c for part in cut for c in part.cast(cast).chunks], type=cast)

    shuffled: Callable[[Any], Any] = lambda array: array[::-1]  # noqa: E731
    tree = CountTree(
        level=shuffled(tree.level),
        parent=tree.parent,
        count=shuffled(tree.count),
        keys=tuple(other(key.take(list(range(len(key)))[::-1])) for key in tree.keys),
    )
    assert listed_counts(tree, listed).count.tolist() == [12, 6, 3, 3, 6, 3, 3]
