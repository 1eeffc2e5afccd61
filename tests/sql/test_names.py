"""Names and texts that break out of careless SQL, or that our own SQL uses itself."""

from __future__ import annotations

import re

import duckdb
import pytest

import dpframe as dp
from dpframe import _duck
from dpframe.sources import sql_tables
from dpframe.sources import sql_tables as sql_sources
from tests.members import few, some
from tests.sql.visits import HHH, LABELS, Con, charges, hhh, labels, literal, said

pytestmark = pytest.mark.usefixtures("registered")

OURS = [
    *("source", "keyed", "pairs", "leaves", "candidates", "texts", "running", "rows", "bounded"),
    *("numbered", "ranked", "places"),
    *("level_1", "level_2", "level_3", "source_rows", "dpframe_source", "r", "t", "k1", "query"),
    "dpframe_valid",
]
"""What the generated SQL calls its parts."""

OUR_COLUMNS = [
    *("level", "n", "k1", "t1", "s1", "c0", "u", "i", "m", "d", "r", "x", "h", "total", "upto"),
    *("source", "source_rows", "moment", "part", "keys", "prefix", "count", "residual", "txt"),
]

HOSTILE = [
    *("a b", "a'b", 'a"b', "a.b", "a,b", "a?b", "a%b", "a&b", "a;b", "a/b", "a\\b", "a\nb"),
    *("'; DROP TABLE visits; --", '"; DROP TABLE visits; --', "--", "/*", "*/", "$$", "$1", "?"),
    *(
        *("{}", "{x}", "%s", ":x", "SELECT", "*", "é", "日本", "🏴", " a "),
        "a" * 3000,
        *(")", "(SELECT 1)"),
    ),
]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def intact(con: Con) -> bool:
    return con.execute("SELECT count(*) FROM visits").fetchall() == [(900,)]


def test_the_list_of_our_names_is_complete() -> None:
    """Law: every CTE of the generated SQL is tried below."""
    plans = [
        dp.explain(h, epsilon=1.0, delta=1e-6, **arguments).plan
        for h in ("path:a?depth=3", "columns:a,b")
        for arguments in (
            {},
            {"user": "w", "contribution": "share"},
            {"user": "w", "contribution": "records", "max_contributions": 2},
        )
    ]
    source = sql_sources.table_source("visits")
    for plan in plans:
        text = sql_tables.table_rollup_statement(
            source, plan.hierarchy, plan.unit, band=1, seed=1, columns=None
        )
        assert set(re.findall(r"(\w+) AS \(", text)) <= set(OURS)
    assert _duck.VIEW in OURS
    assert sql_tables.SOURCE in OURS


SHARED = {"user": "who", "contribution": "share", "threshold": 60}
SAMPLED = {"user": "who", "contribution": "records", "max_contributions": 2, "threshold": 60}


@few(5, "name", OURS)
def test_a_table_called_like_a_part_of_our_sql_is_read(con: Con, name: str) -> None:
    """Law: the caller's table is counted, as ``tbl``, and no CTE of ours."""
    con.execute(f"CREATE TABLE {quoted(name)} AS SELECT 'right/' || who AS p, who FROM visits")
    for unit in ({"threshold": 60}, SHARED, SAMPLED):
        call = hhh(name, "path:p?depth=2", **unit)
        assert labels(con, call) == ["*", "right"]


def test_tables_called_like_all_parts_of_our_sql_are_read(con: Con) -> None:
    """Law: in a ``query`` too, also as the source of a CTE of the caller's called like ours."""
    for name in OURS:
        con.execute(f"CREATE TABLE {quoted(name)} AS SELECT 'right/' || who AS p, who FROM visits")
    every = " UNION ALL ".join(f"SELECT * FROM {quoted(name)}" for name in OURS)
    query = f"WITH leaves AS ({every}) SELECT * FROM leaves WHERE p IS NOT NULL"
    for text in (every, query):
        for unit in ({"threshold": 1000}, SHARED, SAMPLED):
            call = hhh(None, "path:p?depth=2", query=text, **unit)
            assert labels(con, call) == ["*", "right"]


@some(
    "['level', 'n', 'k1', 't1', 's1', 'c0']",
    "['h', 'total', 'upto', 'source', 'source_rows', 'moment']",
)
@pytest.mark.parametrize("names", [OUR_COLUMNS[i : i + 6] for i in range(0, 24, 6)], ids=str)
def test_columns_called_like_ours_are_read(con: Con, names: list[str]) -> None:
    """Law: column names of the caller meet none of ours, as levels, keys and users."""
    columns = ", ".join(f"'right' AS {quoted(name)}" for name in names)
    con.execute(f"CREATE TABLE t AS SELECT {columns}, who FROM visits")
    for name in names:
        assert labels(con, hhh("t", f"path:{name}")) == ["*", "right"]
        assert labels(
            con, hhh("t", "columns:who", user=name, contribution="share", threshold=30)
        ) == ["*"]
    levels = hhh("t", f"columns:{','.join(names)}")
    assert labels(con, levels) == ["*", " / ".join(["right"] * len(names))]


def test_hostile_names_are_names(con: Con) -> None:
    """Law: a table, column, level and user of any name is read, and nothing else happens."""
    call = "dp_hhh($t, $h, epsilon := 1.0, delta := 1e-6"
    for name in HOSTILE:
        con.execute(f"CREATE TABLE {quoted(name)} AS SELECT k AS {quoted(name)} FROM visits")
        con.execute(f"CREATE OR REPLACE TEMP VIEW seen AS FROM {quoted(name)}")
        given = {"t": quoted(name), "h": [name]}
        cursor = con.execute(f"FROM {call})", given)
        columns = [column[0] for column in cursor.description]
        assert columns == ["level", "prefix", name, "residual", "count", "lower", "upper"]
        assert [row[2] for row in cursor.fetchall()] == [None, *LABELS[1:]], name
        given = {"t": "temp.seen", "h": [name], "u": name}
        found = con.execute(
            f"SELECT prefix FROM {call}, user := $u, contribution := 'share')", given
        ).fetchall()
        assert found == [("*",)], name
    assert intact(con)


def test_hostile_texts_are_texts(con: Con, ledger: dp.Ledger) -> None:
    """Law: no argument runs as SQL: it is a name that does not exist, or is refused."""
    for text in HOSTILE:
        for call in (
            hhh(text),
            hhh(hierarchy=f"columns:{text}"),
            hhh(user=text),
            hhh(mechanism=text),
            hhh(contribution=text, user="who"),
            hhh(None, query=text),
        ):
            assert said(con, f"FROM {call}")
    assert intact(con)
    assert charges(ledger) == 0


@few(4, "separator", ["'", '"', "\\", "''", "$$", "--", "%00", "%0A", ")", "é"])
def test_hostile_separators_are_separators(con: Con, separator: str) -> None:
    text = {"%00": "\x00", "%0A": "\n"}.get(separator, separator)
    con.execute("CREATE TABLE t AS SELECT 'a' || ? || k AS p FROM visits", [text])
    con.execute("CREATE TEMP VIEW seen AS FROM t")
    for tbl in ("t", "temp.seen"):
        found = labels(con, hhh(tbl, f"path:p?depth=2&separator={separator}"))
        assert found == ["*", *(f"a{text}{k}" for k in LABELS[1:])]


@pytest.mark.parametrize(
    "query",
    [
        *("FROM visits) UNION ALL (FROM visits", "FROM visits; DROP TABLE visits"),
        *("FROM visits; --", "FROM visits /*", "FROM visits' --"),
        *("FROM visits\x00) AS x; DROP TABLE visits --", "DROP TABLE visits"),
        *("INSERT INTO visits FROM visits", "COPY visits TO 'x.csv'", "PRAGMA database_list"),
        "SELECT * FROM visits WHERE k = $k",
        "SELECT 1 AS k) AS source_rows), source AS (SELECT 'mine' AS c0 FROM range(900)) --",
        *("", ";", "-- nothing"),
    ],
)
def test_a_query_is_one_select_and_stays_inside(con: Con, ledger: dp.Ledger, query: str) -> None:
    """Law: what is not one SELECT, by itself and in parentheses, is refused before it runs."""
    given = {"q": query}
    call = "dp_hhh(query := $q, hierarchy := 'columns:k', epsilon := 1.0, delta := 1e-6)"
    with pytest.raises(duckdb.Error, match="query must be one SELECT"):
        con.execute(f"FROM {call}", given)
    assert intact(con)
    assert charges(ledger) == 0


@pytest.mark.parametrize(
    "query",
    [
        *("FROM visits", "TABLE visits", "(SELECT * FROM visits)", "  FROM visits ; ;\n"),
        *("FROM visits -- all of it", "FROM visits /* ; */", "SELECT * FROM visits ORDER BY n"),
        *("WITH leaves AS (FROM visits) FROM leaves", "FROM visits WHERE k <> ';'"),
        "SELECT * FROM visits UNION ALL SELECT * FROM visits WHERE false",
        "SELECT $$;--$$ AS s, k FROM visits",
    ],
)
def test_queries_of_every_form(con: Con, query: str) -> None:
    assert labels(con, hhh(None, query=query)) == LABELS


def test_a_cte_of_the_caller_is_a_table(con: Con) -> None:
    """Law: names mean what they mean in the caller's statement, where a CTE hides a table."""
    hiding = "WITH visits AS (SELECT 'cte' AS k FROM range(500))"
    rows = con.execute(f"{hiding} SELECT prefix FROM {HHH}").fetchall()
    assert rows == [("*",), ("cte",)]
    other = "WITH leaves AS (SELECT 'cte' AS k FROM range(500))"
    rows = con.execute(f"{other} SELECT prefix FROM {HHH}").fetchall()
    assert [row[0] for row in rows] == LABELS


def test_names_are_parsed_as_duckdb_does(con: Con) -> None:
    """Law: parts are separated by dots, quoted or not, and case does not matter."""
    con.execute('CREATE SCHEMA "s.s"')
    con.execute('CREATE TABLE "s.s"."t "" t" AS SELECT \'odd\' AS k FROM range(500)')
    for name in ("visits", "VISITS", '"visits"', " main . visits ", "memory.main.visits"):
        assert labels(con, hhh(name)) == LABELS
    assert labels(con, hhh('"s.s"."t "" t"')) == ["*", "odd"]
    wrong = ["", ".", "a.", ".a", "a..b", 'a"b', '"a', 'a"', '""', "a.b.c.d", '"a"b', "a.b."]
    for name in wrong:
        assert "tbl (" in said(con, f"FROM dp_hhh({literal(name)}, 'columns:k', 1.0, 1e-6)")


# -- calling what lies behind the macros -----------------------------------------------------------


def test_functions_behind_the_macros_say_nothing_of_use(con: Con, ledger: dp.Ledger) -> None:
    """Law: called by hand they ask for a registered connection, or say that they failed."""
    one = "[{'i': 1, 'level': 0, 'n': 5, 't1': NULL::VARCHAR}]"
    foreign = [
        f"SELECT __dpframe_draw('no', '{{}}', {one}, '')",
        f"SELECT __dpframe_draw(1, '{{}}', {one}, '')",
        "SELECT __dpframe_ledger(NULL, NULL)",
        'SELECT __dpframe_read(NULL, \'{"read": "budget"}\')',
        "SELECT __dpframe_read('x', '{\"read\": \"releases\"}')",
        'SELECT __dpframe_read(\'x\', \'{"read": "replay", "release": "a"}\')',
    ]
    for statement in foreign:
        words = said(con, statement)
        assert "no longer registered" in words or "its text is withheld" in words
    here = [
        f"SELECT __dpframe_draw(__dpframe_here(), '{{}}', {one}, '')",
        f"SELECT __dpframe_draw(__dpframe_here(), 'no JSON', {one}, '')",
        "SELECT __dpframe_ask(__dpframe_here())",
        "SELECT __dpframe_ask(__dpframe_here(), '', 'hhh', 'visits')",
        "SELECT __dpframe_ask(__dpframe_here(), '', 'no question', {'tbl': 'visits'})",
        "SELECT __dpframe_draw(__dpframe_here())",
        "SELECT __dpframe_explain(__dpframe_here(), 1)",
        "SELECT __dpframe_ledger(__dpframe_here(), 'receipts')",
        "SELECT __dpframe_read(__dpframe_here(), '{}')",
    ]
    for statement in here:
        assert "its text is withheld" in said(con, statement)
    assert charges(ledger) == 0


def test_candidates_made_by_hand_must_be_a_tree(con: Con, ledger: dp.Ledger) -> None:
    """Law: a list that no rollup wrote is refused, and its numbers are not in the message."""
    given = (
        "{'tbl': 'visits', 'query': NULL, 'release': NULL, 'data': NULL, "
        "'hierarchy': 'columns:k', 'epsilon': 1.0, 'delta': 1e-6}"
    )
    asked = f"SELECT __dpframe_ask(__dpframe_here(), '', 'hhh', {given})"
    (text,) = con.execute(asked).fetchall()[0]
    call = re.search(r"'(\{.*?\})', list", text)
    assert call is not None
    for rows in (
        "[{'i': 1, 'level': 1, 'n': 5432, 't1': 'a'}]",
        "[{'i': 1, 'level': 0, 'n': 5, 't1': NULL}, {'i': 2, 'level': 1, 'n': 5432, 't1': 'a'}]",
        "[{'i': 1, 'level': 0, 'n': 5432, 't1': NULL}, {'i': 3, 'level': 1, 'n': 5, 't1': 'a'}]",
        "[]::STRUCT(i BIGINT, level INTEGER, n BIGINT, t1 VARCHAR)[]",
        *("NULL", "['5432']"),
    ):
        words = said(con, f"SELECT __dpframe_draw(__dpframe_here(), '{call[1]}', {rows}, '')")
        assert "SourceError" in words
        assert "5432" not in words.split("LINE 1")[0]
    assert charges(ledger) == 0
