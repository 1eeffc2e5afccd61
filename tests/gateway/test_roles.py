"""What columns may do in a query: a policy says which may be grouped by, be measured, or stand in
conditions. A column keeps its role under other names, and hands it on to what is joined by it."""

from __future__ import annotations

import itertools
import re
from typing import Any

import duckdb
import pandas as pd
import pytest

from dpframe.doors.sql import query_rows
from dpframe.doors.sql.query import SqlCall, read_call
from dpframe.doors.sql.query_expressions import Columns, Roles
from dpframe.doors.sql.query_measures import MeasureReader
from dpframe.doors.sql.query_rows import PRIVATE, USER, RowReader
from dpframe.doors.sql.query_tree import read_query
from dpframe.errors import ParameterError

TYPES = {"hour": "INTEGER", "dest": "VARCHAR", "origin": "VARCHAR", "day": "DATE", "who": "VARCHAR"}
PUBLIC = {
    "airports": Columns("airports", {"code": "VARCHAR", "state": "VARCHAR"}),
    "hours": Columns("hours", {"hour": "INTEGER", "part": "VARCHAR"}),
}
ROLES = Roles.of(group=["Dest", "day"], measure=["HOUR"], filter=["origin", "day"])


def read(query: str, roles: Roles | None = ROLES) -> SqlCall:
    bounds = dict.fromkeys(("hour", "h", "v", "length(dest)", "length(who)"), (0, 24))
    given: dict[str, Any] = {"user": "who", "bounds": bounds}
    given |= {"epsilon": 1.0, "delta": 1e-6, "intervals": None, "threshold": None}
    return read_call(
        read_query(query), {"flights": Columns("flights", TYPES)}, PUBLIC, given, roles
    )


ALLOWED = [
    "SELECT dest, count(*) FROM flights GROUP BY dest",
    "SELECT upper(DEST) AS d, count(*) FROM flights GROUP BY d",
    "SELECT date_trunc('week', day), sum(hour) FROM flights WHERE origin = 'JFK' GROUP BY 1",
    "SELECT count(DISTINCT who) FROM flights",
    "SELECT count(DISTINCT who) FILTER (WHERE origin = 'JFK') FROM flights",
    "SELECT dest, sum(CASE WHEN origin = 'JFK' THEN 1 ELSE 0 END) FROM flights GROUP BY dest",
    "SELECT dest, sum(CASE WHEN origin = 'JFK' THEN hour END) AS h FROM flights GROUP BY dest",
    "SELECT state, count(*) FROM flights JOIN airports ON dest = code GROUP BY state",
    "SELECT count(*) FROM flights JOIN airports ON origin = code WHERE state = 'CA'",
    "SELECT count(*) FROM flights JOIN hours USING (hour)",
    "SELECT state, count(*) FROM flights f JOIN airports ON dest = code "
    "JOIN hours h ON f.hour = h.hour GROUP BY state",
    "SELECT * FROM (SELECT dest, avg(hour) FROM flights GROUP BY dest) WHERE dest = 'LAX'",
    "SELECT dest, count(*) AS hour FROM flights GROUP BY dest HAVING hour > 8 ORDER BY hour",
    "WITH t AS (SELECT *, hour + 1 AS h FROM flights WHERE day > '2013-02-01') "
    "SELECT dest, avg(h) FROM t GROUP BY dest",
    "SELECT b, count(*) FROM flights AS f(a, b) GROUP BY b",
    "SELECT hour, count(*) FROM (SELECT * EXCLUDE (hour), upper(dest) AS hour FROM flights) "
    "GROUP BY hour",
    "SELECT b, count(*) FROM (SELECT hour, dest FROM flights) AS t(a, b) GROUP BY b",
    "SELECT count(*) FROM flights WHERE day > current_date",
]

REFUSED = {
    "SELECT hour, count(*) FROM flights GROUP BY hour": "grouped",
    "SELECT hour // 6 AS q, count(*) FROM flights GROUP BY ROLLUP (q)": "grouped",
    "SELECT DISTINCT origin FROM flights": "grouped",
    "SELECT who IS NULL, count(*) FROM flights GROUP BY 1": "grouped",
    "SELECT CASE WHEN hour > 3 THEN dest END AS g, count(*) FROM flights GROUP BY g": "grouped",
    "WITH t AS (SELECT hour AS dest FROM flights) SELECT dest, count(*) FROM t GROUP BY dest": (
        "grouped"
    ),
    "WITH t AS (SELECT hour FROM flights), u(dest) AS (SELECT hour FROM t) "
    "SELECT dest, count(*) FROM u GROUP BY dest": "grouped",
    "SELECT h, count(*) FROM (SELECT * RENAME (hour AS h) FROM flights) GROUP BY h": "grouped",
    "SELECT dest, count(*) FROM (SELECT * REPLACE (hour AS dest) FROM flights) GROUP BY dest": (
        "grouped"
    ),
    "SELECT a, count(*) FROM flights AS f(a, b) GROUP BY a": "grouped",
    "SELECT x, count(*) FROM (SELECT f AS x FROM flights f) GROUP BY x": "grouped",
    "SELECT g, count(*) FROM (SELECT hour AS h, h + 1 AS g FROM flights) GROUP BY g": "grouped",
    "SELECT part, count(*) FROM flights JOIN hours USING (hour) GROUP BY part": "grouped",
    "SELECT part, count(*) FROM flights f JOIN hours g ON f.hour = g.hour GROUP BY part": "grouped",
    "SELECT h.part, count(*) FROM hours h JOIN flights f ON f.hour = h.hour GROUP BY 1": "grouped",
    "SELECT b.part, count(*) FROM flights f JOIN hours a ON f.hour = a.hour "
    "JOIN hours b ON a.hour = b.hour GROUP BY b.part": "grouped",
    "SELECT part, count(*) FROM flights f LEFT JOIN (SELECT hour + 1 AS k, part FROM hours) g "
    "ON f.hour = g.k GROUP BY part": "grouped",
    "SELECT dest, count(*) FROM (SELECT origin AS dest, * EXCLUDE (dest) FROM flights) GROUP BY "
    "dest": "grouped",
    "SELECT dest, count(*) FROM (SELECT * EXCLUDE (dest), hour AS dest FROM flights) GROUP BY "
    "dest": "grouped",
    "SELECT d, count(*) FROM (SELECT * EXCLUDE (hour, who), hour FROM flights) AS t(a, b, c, d) "
    "GROUP BY d": "grouped",
    "SELECT c, count(*) FROM (SELECT dest, dest, hour FROM flights) AS t(a, b, c) GROUP BY c": (
        "grouped"
    ),
    "SELECT a, count(*) FROM (flights JOIN airports ON dest = code) AS t(a, b) GROUP BY a": (
        "grouped"
    ),
    "SELECT dest, count(*) FROM flights GROUP BY dest ORDER BY sum(length(dest))": "measured",
    "SELECT count(*) FROM flights WHERE dest = 'JFK'": "condition",
    "SELECT count(*) FROM flights WHERE origin = 'JFK' OR upper(dest) = 'X'": "condition",
    "SELECT count(*) FROM flights WHERE who = 'N1'": "condition",
    "SELECT count(*) FILTER (WHERE hour > 3) FROM flights": "condition",
    "SELECT count_if(hour > 3) FROM flights": "condition",
    "SELECT sum(CASE WHEN hour > 3 THEN 1 ELSE 0 END) FROM flights": "condition",
    "WITH t AS (SELECT hour AS h FROM flights WHERE h > 2) SELECT count(*) FROM t": "condition",
    "SELECT count(*) FROM (SELECT dest FROM flights WHERE hour > 2)": "condition",
    "SELECT count(*) FROM flights JOIN airports ON dest = code WHERE state = 'CA'": "condition",
    "SELECT sum(CASE WHEN origin = 'JFK' THEN length(dest) END) AS h FROM flights": "measured",
    "SELECT count(DISTINCT dest) FROM flights": "measured",
    "SELECT count(dest) FROM flights": "measured",
    "SELECT median(length(who)) FROM flights": "measured",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length(dest)) FROM flights": "measured",
    "SELECT sum(d, contribution_bounds_per_group => (0, 9)) FROM "
    "(SELECT length(dest) AS d FROM flights)": "measured",
}


def verdict(query: str) -> str:
    """The role that is missing; empty for an allowed query."""
    try:
        read(query)
    except ParameterError as error:
        found = re.search(r"may not (?:be|stand in a) (\w+)", str(error))
        return str(error) if found is None else found[1]
    return ""


@pytest.mark.parametrize("query", ALLOWED)
def test_queries_within_roles_are_read(query: str) -> None:
    assert verdict(query) == ""


@pytest.mark.parametrize("query", REFUSED)
def test_queries_beyond_roles_are_refused(query: str) -> None:
    assert verdict(query) == REFUSED[query]
    assert read(query, None).question  # it is the policy that refuses, and nothing else


def test_a_refusal_names_the_column_and_what_it_may_do() -> None:
    with pytest.raises(ParameterError) as refused:
        read("SELECT h, count(*) FROM (SELECT hour AS h FROM flights) GROUP BY h")
    assert str(refused.value) == (
        "h (line 1, column 66): 'hour' may not be grouped by, by the policy. It may be measured."
    )
    with pytest.raises(ParameterError, match="It may only be joined by"):
        read("SELECT count(*) FROM flights WHERE who = 'x'")


# -- planted bugs ----------------------------------------------------------------------------------


def _no_renames(self: RowReader, table: Any) -> list[Any]:
    own = {name: {name} for name in TYPES}
    return [query_rows.RowTable("flights", own, True)]


def _no_keys(whole: Any) -> Any:
    def made_of(self: RowReader, table: Any) -> list[Any]:
        found = whole(self, table)
        for one in found:
            if not one.private:
                one.columns = {name: set() for name in one.columns}
        return list(found)

    return made_of


BUGS = {
    "renames are not followed": (RowReader, "_made_of", _no_renames),
    "joins hand nothing on": (RowReader, "_made_of", _no_keys(RowReader._made_of)),
    "aggregates are free": (MeasureReader, "_check_roles", lambda self, call: None),
    "subqueries are free": (RowReader, "_columns_of_select", lambda self, node: {}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    assert any(verdict(query) != REFUSED[query] for query in REFUSED)


# -- what the rows say -----------------------------------------------------------------------------

SOURCES = [
    "flights",
    "flights AS f(dest, hour, origin, day, who)",
    "(SELECT * REPLACE (hour AS dest, dest AS origin) FROM flights)",
    "(SELECT * RENAME (hour AS dest, dest AS hour) FROM flights)",
    "(SELECT origin AS dest, length(dest) AS hour, day FROM flights WHERE origin < 'c')",
    "(SELECT dest, hour, h AS origin, day FROM (SELECT *, hour + 1 AS h FROM flights))",
    "(SELECT * EXCLUDE (dest, who), hour AS dest FROM flights)",
    "(SELECT * EXCLUDE (hour, who), hour FROM flights) AS t(dest, origin, day, hour)",
    "(SELECT * EXCLUDE (hour, who), hour FROM flights) AS t(hour, day, origin, dest)",
    "(SELECT dest, dest, origin, hour FROM flights) AS t(origin, hour, day, dest)",
    "(SELECT state AS dest, hour, dest AS origin FROM flights JOIN airports ON dest = code)",
    "(SELECT part AS dest, f.hour, origin FROM flights f LEFT JOIN hours g ON f.hour = g.hour)",
    "(SELECT code AS dest, hour, origin FROM airports JOIN flights ON code = origin)",
]
KEYS = ["dest", "length(CAST(origin AS VARCHAR))", "hour IS NULL", "coalesce(origin, origin)"]
VALUES = ["sum(hour)", "count(*)", "count_if(CAST(hour AS VARCHAR) > '3')"]
WHERES = [
    "",
    "WHERE CAST(origin AS VARCHAR) > 'b'",
    "WHERE CAST(dest AS VARCHAR) = 'a' OR hour IS NULL",
]

NAMES = ("hour", "dest", "origin")


def rows_of(
    db: duckdb.DuckDBPyConnection, call: SqlCall, table: str
) -> tuple[list[Any], list[Any]]:
    """Keys, and all values, of the rows that a query groups, over a table of flights."""
    frame = db.sql(call.question.rows.replace(PRIVATE, table)).df().drop(columns="who").map(repr)
    by = call.question.arguments.get("by", call.question.arguments.get("hierarchy"))
    keys = frame[[name for name in frame if name in by]]
    return sorted(map(tuple, keys.to_numpy())), sorted(map(tuple, frame.to_numpy()))


def compare_rows() -> None:
    """A slow twin: rows in which one column differs have the same keys unless it may be grouped by
    or filtered, and are the same unless it has any role."""
    pick = range(24)
    flights = pd.DataFrame(
        {
            "hour": [i % 5 + i // 20 for i in pick],
            "dest": [("abcd" * 3)[i * 7 % 11] for i in pick],
            "origin": [("dcab" * 3)[i * 5 % 9] for i in pick],
            "day": [f"2013-01-{i + 1:02}" for i in pick],
            "who": [f"u{i}" for i in pick],
        }
    )
    kinds = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in TYPES.items())
    allowed, refused, moved = 0, 0, 0
    with duckdb.connect() as db:
        db.register("airports", pd.DataFrame({"code": [*"abcd"], "state": [*"wxyz"]}))
        db.register("hours", pd.DataFrame({"hour": range(6), "part": [*"uvuvuv"]}))
        for column in ("day", *NAMES):
            db.register("given", flights.assign(**{column: flights[column].to_numpy()[::-1]}))
            db.execute(f"CREATE TABLE by_{column} AS SELECT {kinds}, who AS {USER} FROM given")
        cases = [*itertools.product(SOURCES, KEYS, VALUES, WHERES, NAMES)]
        for source, key, value, where, column in cases[::16]:
            others = [name for name in NAMES if name != column]
            roles = Roles.of(group=others, measure=["hour"], filter=others)
            query = f"SELECT {key} AS k, {value} AS v FROM {source} {where} GROUP BY k"
            try:
                call = read(query, roles)
            except ParameterError as error:
                refused += "by the policy" in str(error)
                continue
            before, after = rows_of(db, call, "by_day"), rows_of(db, call, f"by_{column}")
            allowed += 1
            moved += before != after
            assert before[0] == after[0], (query, column)
            assert before == after or column == "hour", (query, column)
    assert min(allowed, refused) >= 10
    assert moved  # the twin sees what a column does


def test_a_column_without_a_role_moves_nothing_that_the_role_would() -> None:
    compare_rows()


def test_the_twin_finds_a_planted_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS["renames are not followed"])
    with pytest.raises(AssertionError, match="SELECT"):
        compare_rows()
