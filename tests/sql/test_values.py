"""Values of every type: read as they are, as text, or by Python, they are the same nodes."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe import _duck
from dpframe.budget import PrivacyUnit
from dpframe.doors.sql.calls import _text_rows
from dpframe.hierarchy import as_hierarchy
from dpframe.sources import sql_tables
from dpframe.sources import sql_tables as sql_sources
from dpframe.sources.rollup_statement import tree_of
from tests import members
from tests.members import some
from tests.rollups import exact_counts, tree_paths
from tests.sql.visits import BUDGET, Con, charges, hhh, labels, said
from tests.strategies import MALFORMED

KINDS = [
    *("columns:k", "path:k?depth=3", "ip:k", "domain:k", "date:k", "code:k?lengths=1,3"),
    *("number:k?lower=0&upper=10&depth=3", "date:k?zone=Asia/Kathmandu"),
]

TEXTS = [
    *("a/b", "a", "A", "", " ", "NULL", "1", "1.0", "01", "1e3", "nan", "2013-05-01", "'", '"'),
    *(
        *("2013-05-01 10:30:00+02:00", "www.Example.org", "10.0.0.1", "é", "日本", "🏴", "a\x00b"),
        "\\",
    ),
    *("infinity", "0044-03-15 (BC)", "12:00", "true", "[1]", "x" * 5000),
]

VALUES: dict[str, list[str]] = {
    "VARCHAR": [*(f"'{t.replace(chr(39), chr(39) * 2)}'" for t in (*TEXTS, *MALFORMED))],
    "ENUM('a', 'b/c', '1', 'new\nline')": ["'a'", "'b/c'", "'1'", "'new\nline'"],
    "BOOLEAN": ["true", "false"],
    "INTEGER": ["1", "-7", "10", "2147483647"],
    "UBIGINT": ["9", "18446744073709551615"],
    "HUGEINT": ["9", "-170141183460469231731687303715884105727"],
    "BIGNUM": ["9", "'9' || repeat('0', 50)"],
    "DECIMAL(18, 3)": ["1.5", "2", "-0.001"],
    "FLOAT": ["0.1", "1", "'nan'", "'inf'", "-0.0", "16777217"],
    "DOUBLE": [
        *("0.1", "1", "'nan'", "'-inf'", "-0.0", "1e15", "1e16", "9007199254740993", "5e-324"),
        *("2::DOUBLE ** 126", "-(2::DOUBLE ** 127)"),
    ],
    "DATE": ["'2013-05-01'", "'infinity'", "'0044-03-15 (BC)'", "'290000-01-01'"],
    "TIME": ["'10:00:00'", "'10:00:00.000001'"],
    "TIMESTAMP": ["'2013-05-01 10:30:00.5'", "'-infinity'", "'0001-01-01'"],
    "TIMESTAMP_S": ["'2013-05-01 10:30:00'", "'infinity'", "'0044-03-15 (BC)'"],
    "TIMESTAMP_MS": ["'2013-05-01 10:30:00.5'", "'-infinity'"],
    "TIMESTAMP_S[]": ["['2013-05-01 10:30:00']"],
    "TIMESTAMP_NS": ["'2013-05-01 10:30:00.000000001'", "'2013-05-01 10:30:00'"],
    "TIMESTAMP WITH TIME ZONE": [
        *("'2013-05-01 23:30:00+00'", "'2013-11-03 05:30:00+00'", "'2013-11-03 06:30:00+00'"),
        *("'1850-01-01 00:30:00+00'", "'infinity'", "'0001-01-01 00:00:00+00'", "'9999-12-31'"),
        *("'2013-05-01 23:30:00.000001+00'", "'0044-03-15 (BC) 00:00:00+00'"),
    ],
    "TIMESTAMPTZ_NS": ["'2013-05-01 23:30:00+00'", "'2013-11-03 05:30:00+00'"],
    "INTERVAL": ["INTERVAL 1 MONTH", "INTERVAL 30 DAYS"],
    "UUID": ["'eeccb8c5-9943-b2bb-bb5e-222f4e14b687'"],
    "BLOB": ["'a'::BLOB", "'\\xAA\\x00'::BLOB"],
    "BIT": ["'101'"],
    "JSON": ["""'{"a": 1}'""", "'1'"],
    "INTEGER[]": ["[1, 2]", "[]"],
    "INTEGER[2]": ["[1, 2]"],
    "STRUCT(a INTEGER)": ["{'a': 1}"],
    "MAP(VARCHAR, INTEGER)": ["MAP {'a': 1}"],
    "UNION(n INTEGER, s VARCHAR)": ["2::INTEGER", "'a'::VARCHAR"],
    "VARIANT": ["1::VARIANT", "'a'::VARIANT"],
}


@pytest.fixture
def registered(con: Con) -> None:
    dp.register(con)


def filled(con: Con, kind: str) -> None:
    rows = " UNION ALL ".join(
        f"SELECT ({value})::{kind} AS k FROM range({1 + i % 3})"
        for i, value in enumerate((*VALUES[kind], "NULL"))
    )
    con.execute(f"CREATE OR REPLACE TABLE t AS {rows}")


def nodes(con: Con, spec: str, seen: bool) -> dict[Any, int] | str:
    """All nodes by path with their counts, or the words of the refusal."""
    hierarchy, source = as_hierarchy(spec), sql_sources.table_source("t")
    described = _duck.describe_relation(con, source.relation, "") if seen else None
    columns = None if described is None else sql_tables.described_columns(described)
    try:
        text = sql_tables.table_rollup_statement(
            source, hierarchy, PrivacyUnit(), band=1, seed=1, columns=columns
        )
        tree = tree_of(con.sql(text).to_arrow_table())
    except (dp.ColumnError, duckdb.Error) as error:
        return str(error).removeprefix("Invalid Input Error: ").split(" Other connections see")[0]
    paths = tree_paths(tree, hierarchy)
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, tree.count.tolist(), strict=True))


def by_python(con: Con, spec: str, kind: str) -> dict[Any, int] | str:
    hierarchy, rows = as_hierarchy(spec), con.table("t")
    if kind == "INTERVAL" and hierarchy.kind in ("path", "code"):
        rows = rows.select("k::VARCHAR AS k")  # one month and 30 days are equal, not so their texts
    try:
        return exact_counts(rows, hierarchy)
    except dp.ColumnError as error:
        return str(error)


def in_turn() -> list[Any]:
    """Types and kinds; beside columns, types other than text meet two or three kinds, in turn."""
    others, cases = KINDS[1:], []
    for n, kind in enumerate(VALUES):
        rest = [] if kind == "VARCHAR" else [s for i, s in enumerate(others) if (i + n) % 3]
        some, name = [spec for spec in KINDS if spec not in rest], kind.split("(")[0]
        cases.append(pytest.param(kind, some, id=name))
        cases.append(pytest.param(kind, rest, id=f"{name}, the rest", marks=pytest.mark.evidence))
    return cases


@some(
    *("VARCHAR", "BOOLEAN", "HUGEINT", "DECIMAL", "DATE", "TIMESTAMP_S", "TIMESTAMP_S[]"),
    *("TIMESTAMPTZ_NS", "JSON", "STRUCT", "UNION"),
)
@pytest.mark.parametrize(("kind", "chosen"), in_turn())
def test_values_are_the_same_nodes_in_every_way(con: Con, kind: str, chosen: list[str]) -> None:
    """Law: nodes and counts do not depend on whether a second connection knew the types.

    A type that a hierarchy does not read is refused in the same words.
    """
    filled(con, kind)
    for spec in chosen:
        expected = by_python(con, spec, kind)
        assert nodes(con, spec, seen=False) == expected, spec
        assert nodes(con, spec, seen=True) == expected, spec


def test_some_types_are_refused_and_others_found(con: Con) -> None:
    """Negative control: the law above compares trees of several nodes, and refusals."""
    filled(con, "INTEGER[]")
    assert "has type INTEGER[]; date reads dates" in str(nodes(con, "date:k", seen=False))
    filled(con, "DOUBLE")
    assert len(nodes(con, "columns:k", seen=False)) == 1 + len(VALUES["DOUBLE"])  # NaN is NULL
    filled(con, "BOOLEAN")
    assert len(nodes(con, "number:k?lower=0&upper=10&depth=3", seen=False)) > 3


@some("TIMESTAMP WITH TIME ZONE-America/New_York", "TIMESTAMP-America/New_York")
@members.in_turn(
    ("kind", ["TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "TIMESTAMP"]),
    (
        "zone",
        [
            *("America/New_York", "Asia/Kathmandu"),
            pytest.param("UTC", marks=pytest.mark.evidence),  # as before it was set
        ],
    ),
)
def test_the_zone_of_the_session_moves_no_time(con: Con, kind: str, zone: str) -> None:
    """Law: dates and columns of times with a zone are read in UTC, on both ways."""
    con.execute("SET TimeZone = 'UTC'")
    filled(con, kind)
    expected = {spec: nodes(con, spec, seen=True) for spec in ("date:k", "columns:k")}
    con.execute(f"SET TimeZone = '{zone}'")
    for spec, found in expected.items():
        assert nodes(con, spec, seen=True) == nodes(con, spec, seen=False) == found


@pytest.mark.usefixtures("registered")
def test_a_collation_of_a_column_merges_nothing(con: Con) -> None:
    """Law: text is compared by its characters, in tables that others see and in temporary ones."""
    for name, kind in (("t", "TABLE"), ("v", "TEMP TABLE")):
        con.execute(f"CREATE {kind} {name} (k VARCHAR COLLATE NOCASE, who VARCHAR)")
        con.execute(f"INSERT INTO {name} SELECT 'SECRET', 'one'")
        con.execute(f"INSERT INTO {name} SELECT 'secret', who FROM visits")
        for hierarchy in ("columns:k", "path:k?depth=1"):  # of 90 users a deep one can miss
            assert labels(con, hhh(name, hierarchy)) == ["*", "secret"]
            by_user = {"user": "who", "contribution": "share"}
            assert labels(con, hhh(name, hierarchy, **by_user)) == ["*", "secret"]
            assert labels(con, hhh(name, hierarchy, user="who")) == ["secret"]


# -- what is said when something fails -----------------------------------------------------------

SECRET = "SECRETVALUE"


@some("columns:k", "ip:k", "code:k?lengths=1,3")
@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("spec", KINDS)
def test_our_sql_never_fails_on_a_value(con: Con, spec: str) -> None:
    """Law: no text is an error, so that nothing in a message can quote one."""
    con.execute("CREATE TABLE t (k VARCHAR)")
    texts = [*TEXTS, *MALFORMED, SECRET, SECRET * 100_000]
    con.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
    con.execute("INSERT INTO t SELECT NULL FROM range(500)")
    con.execute("CREATE TEMP VIEW v AS FROM t")
    for name in ("t", "v"):
        assert labels(con, hhh(name, spec, threshold=250)) == ["*", "<invalid>"]


def test_a_failure_inside_of_python_quotes_nothing(
    con: Con, ledger: dp.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: an error that is not ours reaches SQL by the name of its class only."""

    def fails(*_: object) -> None:
        raise ValueError(f"cannot read {SECRET}")

    dp.register(con, ledger=ledger)
    con.execute(f"CREATE TABLE t AS SELECT '{SECRET}' AS k FROM range(500)")
    with monkeypatch.context() as patch:
        patch.setattr("dpframe.doors.sql.calls.counts_of", fails)
        words = said(con, f"FROM {hhh('t')}")
    assert "dpframe failed (ValueError; its text is withheld)" in words
    assert SECRET not in words
    assert charges(ledger) == 0
    with monkeypatch.context() as patch:
        patch.setattr("dpframe.sources.sql_tables.rollup_statement", fails)
        assert SECRET not in said(con, f"FROM {hhh('t')}")
        assert SECRET not in said(con, f"FROM dp_explain('t', 'columns:k', {BUDGET})")


@pytest.mark.usefixtures("registered")
def test_categories_of_a_type_are_not_quoted(con: Con) -> None:
    con.execute(f"CREATE TABLE t AS SELECT {{'x': 'b'::ENUM('{SECRET}', 'b')}} AS k")
    con.execute("CREATE TEMP TABLE v AS FROM t")
    for name in ("t", "v"):
        words = said(con, f"FROM {hhh(name, 'date:k')}")
        assert "has type STRUCT; date reads" in words
        assert SECRET not in words


@pytest.mark.usefixtures("registered")
def test_a_view_of_the_caller_speaks_for_itself(con: Con) -> None:
    """What the caller's own SQL says is DuckDB's, and can quote the data: a known limit."""
    con.execute(f"CREATE VIEW v AS SELECT error('{SECRET}')::VARCHAR AS k FROM visits")
    assert SECRET in said(con, f"FROM {hhh('v')}")


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_time_beyond_microseconds_leaves_the_database_open(con: Con, unit: str) -> None:
    """Law: such a row is invalid. DuckDB closes the user's database when it writes one as text."""
    seconds = 1577836800 * {"s": 1, "ms": 1000}[unit]
    times = pa.table({"k": pa.array([2**62, -(2**62), *[seconds] * 300], pa.timestamp(unit))})
    con.register("times", times)
    con.execute("CREATE TABLE t AS SELECT k, [k] AS l, k::VARIANT AS v, 'u' || row AS u FROM "
                "(SELECT k, row_number() OVER () AS row FROM times)")  # fmt: skip
    dp.register(con)
    day = "2020-01-01 00:00:00"
    for spec in ("columns:k", "path:k?depth=1", "date:k?levels=year"):
        for name in ("t", "times"):
            found = labels(con, hhh(name, spec, epsilon=10.0, threshold=100))
            assert found == ["*", "2020" if spec.startswith("date") else day]
        by_user = {"user": "k", "epsilon": 10.0, "threshold": 100}
        assert labels(con, hhh("t", spec, contribution="share", **by_user)) == ["*"]
        assert labels(con, hhh("t", spec, **by_user)) == []
        assert exact_counts(con.table("t"), as_hierarchy(spec))[(None,)] == 2
    for column in ("l", "v"):
        with pytest.raises(duckdb.Error, match="Cast the column"):
            labels(con, hhh("t", f"columns:{column}"))
        with pytest.raises(dp.ColumnError, match="Cast the column"):
            dp.hhh(con.table("t"), [column], epsilon=1.0, delta=1e-6)
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(302,)]


@some("VARIANT", "STRUCT(a TIMESTAMP_MS)")
@pytest.mark.parametrize("kind", ["VARIANT", "TIMESTAMP_S[]", "STRUCT(a TIMESTAMP_MS)"])
def test_one_row_of_a_type_without_text_changes_no_answer(
    con: Con, ledger: dp.Ledger, kind: str
) -> None:
    """Law: a query over no row and over one row is the same error, which is that of the type."""
    dp.register(con, ledger=ledger)
    words = set()
    for rows in (0, 1):
        con.execute(
            f"CREATE OR REPLACE TABLE t AS SELECT NULL::{kind} AS k, 'b' AS b FROM range({rows})"
        )
        con.execute("CREATE OR REPLACE TEMP TABLE here AS FROM t")
        for name in ("t", "here"):
            for spec in ("columns:k", "columns:b,k", "number:k?lower=0&upper=10&depth=3"):
                words.add(said(con, f"FROM {hhh(name, spec)}").split(";")[0].split(": ")[-1])
                call = f"dp_tree_counts('{name}', '{spec}', {BUDGET})"
                words.add(said(con, f"FROM {call}").split(";")[0].split(": ")[-1])
            call = f"dp_heavy_hitters('{name}', 'k', {BUDGET})"
            words.add(said(con, f"FROM {call}").split(";")[0].split(": ")[-1])
    assert words == {f"column 'k' has type {kind.split('(')[0]}"}
    assert charges(ledger) == 0


def test_a_time_in_a_variant_leaves_the_database_open(con: Con) -> None:
    """Law: where no second connection knows the type, no cast comes before its refusal."""
    con.register("times", pa.table({"k": pa.array([2**62], pa.timestamp("s"))}))
    con.execute("CREATE TEMP TABLE here AS SELECT k::VARIANT AS k, 'b' AS b FROM times")
    dp.register(con)
    for spec in ("columns:b,k", "number:k?lower=0&upper=10&depth=3"):
        assert "Cast the column" in said(con, f"FROM {hhh('here', spec)}")
    for weight in ("\"user\" := 'k'", "weight := 'k', max_weight := 5"):
        call = f"dp_tree_counts('here', 'columns:b', {BUDGET}, {weight})"
        assert "column 'k' has type VARIANT" in said(con, f"FROM {call}")
    assert con.execute("SELECT count(*) FROM here").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "arguments",
    [
        "'t', 'columns:k'",
        "'t', 'columns:u', user := 'k', contribution := 'share'",
    ],
)
@pytest.mark.parametrize("kind", ["ENUM('a', 'b/c')", "ENUM('a', 'b/c')[]", "STRUCT(x ENUM('a'))"])
def test_columns_of_enums_are_read(con: Con, registered: None, kind: str, arguments: str) -> None:
    """Law: a type whose name has no values where it is looked up fails no statement."""
    value = {"E": "'a'", "S": "{'x': 'a'}"}[kind[0]] if kind[-1] != "]" else "['a']"
    con.execute(f"CREATE TABLE t AS SELECT ({value})::{kind} AS k, i % 3 AS u FROM range(500) r(i)")
    statement = f"SELECT count(*) FROM dp_hhh({arguments}, epsilon := 1.0, delta := 1e-6)"
    assert con.sql(statement).fetchall()[0][0] > 0


def test_numbers_come_back_from_texts_as_they_were() -> None:
    """Law: the texts in which rows reach DuckDB hold every bit of a number; no number is NULL."""
    draw = np.random.default_rng(7)
    odd = [0.0, -0.0, 5e-324, 1e-310, 1.7976931348623157e308, np.inf, -np.inf, 1e22, 1 / 3, 2.0**63]
    reals = np.concatenate([odd, draw.integers(0, 2**63, 20_000).view(np.float64)])
    reals = reals[~np.isnan(reals)]
    whole = np.concatenate(
        [[0, -1, 2**63 - 1, -(2**63)], draw.integers(-(2**63), 2**63 - 1, 9_000)]
    )
    for kind, values in (("DOUBLE", reals), ("BIGINT", whole)):
        (rows,) = _text_rows(pa.table({"n": values})).to_pylist()
        cast = f"SELECT TRY_CAST(r[1] AS {kind}) AS n FROM (SELECT unnest(?::VARCHAR[][]) AS r)"
        found = duckdb.execute(cast, [rows]).fetchnumpy()["n"]
        assert not np.ma.getmaskarray(found).any()
        assert np.asarray(found).tobytes() == values.tobytes()
