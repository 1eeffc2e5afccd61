"""Queries in SQL against an attacker: what one record can move, and what a query can learn or read.

The law of the row query, by enumeration through the shipped code: the rows of a table are those of
its records, each alone; a record has at most one row, and it is its user's. So adding a record adds
its row, and changes no other one. Nothing fails for any record, and types never change. Planted
bugs must be rejected by the same law.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import dpframe as dp
from dpframe import _duck
from dpframe.doors.sql import query as door
from dpframe.doors.sql import query_expressions, query_rows, query_tree
from dpframe.doors.sql.query_expressions import ROW_FUNCTIONS, UNITS, Columns, ExpressionReader
from dpframe.errors import DpframeError, ParameterError, SourceError

Row = Mapping[str, Any]

SCHEMA = pa.schema(
    {
        "who": pa.string(),
        "id": pa.int64(),
        "k": pa.string(),
        "n": pa.int64(),
        "small": pa.int8(),
        "x": pa.float64(),
        "f": pa.float32(),
        "money": pa.decimal128(38, 10),
        "day": pa.date32(),
        "seen": pa.timestamp("us"),
        "zoned": pa.timestamp("us", "UTC"),
        "second": pa.timestamp("s"),
        "nano": pa.timestamp("ns"),
        "hour_of_day": pa.time64("us"),
        "ok": pa.bool_(),
        "raw": pa.binary(),
        "many": pa.list_(pa.int32()),
        "pair": pa.struct({"a": pa.int32(), "k": pa.string()}),
        "took": pa.month_day_nano_interval(),
    }
)

LONG = "a" * 5_000

RECORDS: list[Row] = [
    {"who": "ann", "id": 1, "k": "a", "n": 1, "small": 1, "x": 0.5, "day": date(2026, 11, 1)},
    {"who": "ann", "id": 2, "k": "", "n": -(2**63), "small": -128, "x": float("nan"), "f": -0.0},
    {"who": "=a", "id": 3, "k": "<invalid>", "n": 2**63 - 1, "small": 127, "x": float("inf")},
    {"who": None, "id": 4},
    {"who": "a", "id": 5, "k": '["a", null]', "x": -0.0, "n": 0, "many": [1, None], "ok": True},
    {"who": "'\"\\", "id": 6, "k": "x\0y'\"\\", "x": -1.7e308, "money": Decimal("-1e27"), "n": 5},
    {"who": "A", "id": 7, "k": LONG, "n": 10**6, "x": 5e-324, "pair": {"a": 1, "k": "A"}},
    {
        "who": "z",
        "id": 8,
        "k": "01",
        "n": 1,
        "day": date.max,
        "seen": datetime.max,
        "second": datetime(9999, 12, 31),
        "nano": datetime(2262, 4, 11),
        "raw": b"\xff\0",
        "ok": False,
    },
    {
        "who": "z",
        "id": 9,
        "k": " 1",
        "n": 7,
        "day": date.min,
        "seen": datetime.min,
        "took": (2**31 - 1, -(2**31), 2**62),
        "hour_of_day": (datetime.min + timedelta(hours=23)).time(),
    },
]

PUBLIC = {
    "p": pa.table(
        {
            "k": ["a", "A", "", "01", "1", None, None],
            "name": ["one", "two", "three", None, "five", "six", "seven"],
            "number": [1, 2, 3, 4, None, None, 5],
        }
    ),
    "q": pa.table({"number": [1, 2, 3], "region": ["north", "south", None]}),
    "users": pa.table({"who": ["ann", "z"], "place": ["x", "y"]}),
}

BOUNDS = dict.fromkeys(("x", "n", "money", "id", "s", "*", "f", "small"), (0, 10))


def table_of(records: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([*records], schema=SCHEMA)


def read(
    text: str, user: str | None = None, public: Mapping[str, Any] = PUBLIC
) -> tuple[door.Tables, door.SqlQuestion]:
    named = {name: rows for name, rows in public.items() if f" {name}" in text}
    tables = door.Tables.of({"t": table_of([])}, named)
    given = {"user": user, "bounds": BOUNDS, "epsilon": 1.0, "delta": 1e-6, "intervals": None}
    call = door.read_call(door.read_query(text), *tables.columns(), given)
    return tables, call.question


def rows_of(
    tables: door.Tables, asked: door.SqlQuestion, records: Sequence[Row], times: int = 1
) -> pa.Table:
    """The rows that the question counts, read so many times."""
    with door._opened_rows(asked, tables, table_of(records)) as relation:
        first, *others = (
            relation.query(f"SELECT * FROM {_duck.VIEW}", False) for _ in range(times)
        )
    assert all(content(first) == content(other) for other in others)
    return first


def content(rows: pa.Table, but: Sequence[str] = ()) -> Counter[str]:
    kept = rows.drop_columns([*but])
    return Counter(json.dumps(row, default=repr, sort_keys=True) for row in kept.to_pylist())


def check_query(text: str, user: str | None = None, public: Mapping[str, Any] = PUBLIC) -> int:
    """Hold a query to the law; return how many records have a row."""
    tables, asked = read(text, user, public)
    number = [door.RECORD] if asked.numbered else []
    alone, shown = [], 0
    for record in RECORDS:
        rows = rows_of(tables, asked, [record])
        assert rows.num_rows <= 1, "a record counts twice"
        shown += rows.num_rows
        if user is not None and rows.num_rows:
            assert rows[user].to_pylist() == [record.get(user)], "a row is another user's"
        alone.append(content(rows, number))
    types = None
    every = [*range(len(RECORDS))]
    for base in ([], every, [*every[:0:-1], 1]):  # one record twice
        rows = rows_of(tables, asked, [RECORDS[i] for i in base], times=2)
        assert content(rows, number) == sum((alone[i] for i in base), Counter()), "others change"
        for name in number:
            assert {*rows[name].to_pylist()} == {*range(1, rows.num_rows + 1)}
        assert types in (None, rows.schema), "types follow from data"
        types = rows.schema
    return shown


EVERY = len(RECORDS)

TYPES = [name for name in SCHEMA.names if name not in ("many", "pair", "f", "x", "took")]

QUERIES = {
    # joins
    "SELECT name, count(*) FROM t JOIN p ON t.k = p.k GROUP BY name": 3,
    "SELECT p.name, count(*) FROM p JOIN t ON p.k = t.k GROUP BY 1": 3,
    "SELECT name, count(*) FROM t LEFT JOIN p USING (k) GROUP BY name": EVERY,
    "SELECT name, count(*) FROM p RIGHT JOIN t USING (k) GROUP BY ROLLUP (name)": EVERY,
    "SELECT number, count(*) FROM t LEFT JOIN p ON p.number = t.n GROUP BY 1": EVERY,
    "SELECT count(*) FROM t JOIN p ON t.n = p.number AND p.k = t.k": 1,
    "SELECT region, name FROM t JOIN p ON t.k = p.k LEFT JOIN q ON p.number = q.number GROUP BY "
    "region, name": 3,
    "SELECT region, count(*) FROM q RIGHT JOIN (p RIGHT JOIN t ON t.k = p.k) ON q.number = "
    "p.number GROUP BY region": EVERY,
    "SELECT b, count(*) FROM t AS u JOIN p AS t(a, b) ON u.k = t.a GROUP BY b": 3,
    "SELECT c, count(*) FROM t AS p(a, b, c) JOIN q AS t ON p.b = t.number GROUP BY c": 3,
    "SELECT p.k AS o, t.k, count(*) FROM t JOIN p ON t.k = p.k WHERE p.name <> t.k "
    "GROUP BY o, t.k": 2,
    "SELECT q.number, count(*) FROM t JOIN q ON t.small = q.number GROUP BY 1": 1,
    "SELECT q.number, count(*) FROM t JOIN q ON t.money = q.number GROUP BY 1": 0,
    "SELECT place, count(*) FROM (SELECT k AS who FROM t) s LEFT JOIN users ON s.who = users.who "
    "GROUP BY place": EVERY,
    # names that shadow others
    "WITH t AS (SELECT * FROM t WHERE n > 0) SELECT k, count(*) FROM t GROUP BY k": 6,
    "WITH p AS (SELECT k AS name FROM t) SELECT name, count(*) FROM p GROUP BY name": EVERY,
    "WITH a AS (SELECT * FROM t), b AS (WITH a AS (SELECT k FROM a) SELECT k AS k2 FROM a) "
    "SELECT k2, count(*) FROM b GROUP BY k2": EVERY,
    "WITH a(y, z) AS (SELECT k, n FROM t) SELECT y, sum(z) AS s FROM a GROUP BY y": EVERY,
    "SELECT a, count(*) FROM (SELECT k, n FROM t) AS s(a) GROUP BY a": EVERY,
    "SELECT w, k, count(*) FROM t AS s(w) GROUP BY ROLLUP (w, k)": EVERY,
    "SELECT name, count(*) FROM (SELECT p.* FROM t JOIN p ON t.k = p.k) p GROUP BY name": 3,
    "SELECT z, count(*) FROM (SELECT t.*, p.name AS z FROM t LEFT JOIN p ON t.k = p.k) "
    "GROUP BY z": EVERY,
    "SELECT j, sum(n) AS s FROM (SELECT * EXCLUDE (x) REPLACE (n + 1 AS n) RENAME (k AS j) "
    "FROM t) GROUP BY j": EVERY,
    "WITH a(n, k) AS (SELECT k, n FROM t) SELECT k, count(*) FROM a WHERE n = '' GROUP BY k": 1,
    "SELECT upper(k) AS c, count(*) FROM t WHERE c = 'A' GROUP BY c": 1,
    # conditions
    "SELECT k, count(*) FROM t WHERE k GROUP BY k": 0,
    "SELECT k, count(*) FROM t WHERE NOT k OR n > 0 GROUP BY k": 6,
    "SELECT k, count(*) FROM t WHERE k AND money OR x GROUP BY k": 5,
    "SELECT count(*) FROM t WHERE n > 4 OR CAST(k AS INT) > 0 OR 1 // (n - 1) > 7": 5,
    "SELECT count(*) FROM t WHERE k BETWEEN '0' AND '2' OR CAST(k AS INT) BETWEEN n AND 3": 1,
    "SELECT count(*) FROM t WHERE k IN (1, '2') OR n IN (7, 1.5) OR n NOT IN (1, NULL)": 2,
    "SELECT count(*) FROM t WHERE k = 1 OR day = k OR n = k": 2,
    "SELECT count(*) FROM t WHERE k LIKE '" + "%a_" * 300 + "'": 1,
    "SELECT count(*) FROM t WHERE regexp_matches(k, '" + "(a*)*" * 100 + "$')": 8,
    "SELECT count(*) FROM t WHERE (k IS NULL) IS NULL OR NOT (x > 0)": 2,
    "SELECT count(*) FROM t WHERE CASE WHEN n = 1 THEN k WHEN k THEN '1' ELSE 'no' END": 0,
    "SELECT count(*) FROM t WHERE true GROUP BY 'a'": EVERY,
    "SELECT count(*) FROM t WHERE NULL": 0,
    # values
    "SELECT k, sum(x) FILTER (k), sum(CASE WHEN k THEN n ELSE 1 // n END) AS s FROM t "
    "GROUP BY k": EVERY,
    "SELECT k, count(k), count(*) FILTER (WHERE n > 1), count_if(k = 1) FROM t "
    "GROUP BY CUBE (k, n)": EVERY,
    "SELECT k, sum(n * n * n * n) AS s FROM t GROUP BY k": EVERY,
    "SELECT sum(money * money) AS s, avg(id) FROM t": EVERY,
    "SELECT sum(x * 1e308 * 10) AS s FROM t": EVERY,
    "SELECT sum(abs(small) + n) AS s FROM t GROUP BY ROLLUP (ok)": EVERY,
    "SELECT median(x), sum(date_diff('microsecond', day, seen)) AS s FROM t GROUP BY ok": EVERY,
    "SELECT seen + to_days(small) AS d, day - INTERVAL 300000 YEAR, count(*) FROM t "
    "GROUP BY 1, 2": EVERY,
    "SELECT make_date(n, n, n) AS d, count(*) FROM t GROUP BY d": EVERY,
    "SELECT date_trunc('century', day) AS d, last_day(seen), count(*) FROM t GROUP BY 1, 2": EVERY,
    "SELECT substring(k, n, n) AS s1, left(k, n), split_part(k, k, n), count(*) FROM t GROUP BY "
    "ALL": EVERY,
    "SELECT CAST(x AS INT) AS a, CAST(k AS DATE) AS b, CAST(n AS TINYINT) AS c, count(*) FROM t "
    "GROUP BY ROLLUP (a, b, c)": EVERY,
    "SELECT week(took), date_diff('year', hour_of_day, hour_of_day), count(*) FROM t "
    "GROUP BY ALL": EVERY,
    "SELECT pair.a AS a, count(*) FROM t GROUP BY a": EVERY,
    # keys
    "SELECT count(DISTINCT who), count(DISTINCT who) FILTER (WHERE n > 0) FROM t GROUP BY who": 9,
    "SELECT k, who, day, count(*) FROM t GROUP BY k, who, day": EVERY,
    "SELECT k, who, x, count(*), sum(x) FROM t GROUP BY k, who, x": EVERY,
    "SELECT k AS record, n AS level, count(*) FROM t GROUP BY GROUPING SETS ((k), (n), ())": EVERY,
    "SELECT DISTINCT k, raw FROM t": EVERY,
    **{
        f"SELECT {name}, id, count(*) FROM t GROUP BY ROLLUP ({name}, id)": 9 for name in TYPES[::2]
    },
    **{f"SELECT k, {name}, count(*) FROM t GROUP BY k, {name}": EVERY for name in TYPES[1::2]},
}
"""Queries, and how many records have a row."""


TRIED = [
    pytest.param(text, user, marks=[] if (place + once) % 2 else [pytest.mark.evidence])
    for place, text in enumerate(QUERIES)
    for once, user in enumerate([None, "who"])
    if user is None or not re.search(r"GROUP BY (k, )?who", text)  # groups of one user
]
"""All queries by record and by user; each one way in the suite, both as evidence."""


@pytest.mark.parametrize(("text", "user"), TRIED)
def test_a_record_moves_its_own_row_alone(text: str, user: str | None) -> None:
    """Law: rows(T) is the sum of rows({r}) over records r of T; each has at most one row, which is
    its user's; nothing fails, and no type changes."""
    assert check_query(text, user) == QUERIES[text]


# -- planted bugs --------------------------------------------------------------------------------


def unchecked_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(query_rows.PublicKey, "check", lambda key, repeated: None)


def keys_checked_before_the_cast(patch: pytest.MonkeyPatch) -> None:
    real = query_rows._repeated_keys
    plain = lambda table, keys: real(table, [key.get("child", key) for key in keys])  # noqa: E731
    patch.setattr(query_rows, "_repeated_keys", plain)


def casts_that_fail(patch: pytest.MonkeyPatch) -> None:
    real = query_tree.make_cast
    for module in (query_rows, query_expressions):
        patch.setattr(module, "make_cast", lambda *given: {**real(*given), "try_cast": False})


def nothing_tried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(query_expressions, "_try", lambda part: part)


def users_that_a_query_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(query_tree, "is_reserved", lambda name: False)


def samples(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(query_tree, "_check_part", lambda query, part: None)


def users_not_handed_on(patch: pytest.MonkeyPatch) -> None:
    real, user = query_rows.make_column, query_rows.USER
    other = lambda name, alias="": real("id", user) if name == user else real(name, alias)  # noqa: E731
    patch.setattr(query_rows, "make_column", other)


COLLIDING = {
    "c": pa.table({"key": ["7", "07", "8"], "name": ["x", "y", "z"]}),
    "d": pa.table({"key": [7, 7, 8], "name": ["x", "y", "z"]}),
}

PLANTED = {
    unchecked_keys: ("SELECT name, count(*) FROM t JOIN d ON d.key = t.n GROUP BY name", None),
    keys_checked_before_the_cast: (
        "SELECT c.name, count(*) FROM t JOIN c ON t.n = c.key GROUP BY 1",
        None,
    ),
    casts_that_fail: ("SELECT k, count(*) FROM t WHERE k GROUP BY k", None),
    nothing_tried: ("SELECT make_date(n, n, n) AS d, count(*) FROM t GROUP BY d", None),
    users_that_a_query_names: (
        "SELECT k, count(*) FROM (SELECT k, id AS dpframe_user FROM t) GROUP BY k",
        "who",
    ),
    samples: ("SELECT k, count(*) FROM (SELECT k FROM t) TABLESAMPLE 2 ROWS GROUP BY k", None),
    users_not_handed_on: ("SELECT k, count(*) FROM (SELECT id, k FROM t) GROUP BY k", "who"),
}
"""Bugs, and queries that must not pass with them."""


@pytest.mark.parametrize("plant", PLANTED)
def test_planted_bugs_are_rejected(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: with the bug the query breaks the law; without, it is refused, or holds."""
    text, user = PLANTED[plant]
    public = {**PUBLIC, **COLLIDING}
    with suppress(ParameterError):
        check_query(text, user, public)
    plant(monkeypatch)
    with pytest.raises((AssertionError, SourceError)):
        check_query(text, user, public)


# -- what a query can read, and learn --------------------------------------------------------------

SALES = "(SELECT k, count(*) AS c FROM t GROUP BY k) s"

REACHES = [
    *(
        text.format(inside)
        for inside in (
            "read_csv('/etc/passwd')",
            "read_text('/etc/passwd')",
            "'/etc/passwd.csv'",
            "information_schema.tables",
            "duckdb_settings()",
            "duckdb_tables",
            "pg_catalog.pg_class",
            "sniff_csv('/etc/passwd')",
            "glob('/*')",
            "query('SELECT 1')",
            "query_table('t')",
            "range(10)",
            "(DESCRIBE t)",
            "PUBLIC",
            "main.q",
            "pa",
        )
        for text in (
            "SELECT count(*) FROM t JOIN {0} AS o ON t.k = o.k",
            "SELECT k, count(*) FROM t WHERE k IN (SELECT name FROM {0} AS o) GROUP BY k",
            f"SELECT c FROM {SALES} JOIN {{0}} AS o ON true",
            f"SELECT c, (SELECT count(*) FROM {{0}} AS o) FROM {SALES}",
            f"SELECT c FROM {SALES} JOIN p ON (SELECT count(*) FROM {{0}} AS o) > 0",
            f"SELECT c FROM {SALES}, (VALUES ((SELECT count(*) FROM {{0}} AS o))) v",
            f"SELECT c FROM {SALES} ORDER BY (SELECT count(*) FROM {{0}} AS o)",
            f"SELECT c FROM {SALES} UNION ALL SELECT count(*) FROM {{0}} AS o",
            f"WITH o AS (SELECT * FROM {{0}} AS o) SELECT c FROM {SALES}, o",
        )
    ),
    *(
        f"SELECT k, {call}, count(*) FROM t GROUP BY k"
        for call in (
            "current_setting('temp_directory')",
            "getenv('HOME')",
            "getvariable('x')",
            "version()",
            "current_database()",
            "current_schemas(true)",
            "txid_current()",
            "random()",
            "uuid()",
            "nextval('x')",
            "error(k)",
            "sleep_ms(1000)",
            "repeat(k, 1000000000)",
            "lpad(k, 1000000000, 'x')",
            "list_transform([1], x -> x)",
            "unnest(range(1000000000))",
            "main.abs(1)",
            "system.main.version()",
            "COLUMNS(*)::VARCHAR",
            "write_log(k)",
            "parse_path(k)",
            "format('{}', k)",
            "(SELECT count(*) FROM t)",
        )
    ),
    "SELECT k, count(*) FROM t WHERE random() < 0.5 GROUP BY k",
    "SELECT uuid() AS u, count(*) FROM t GROUP BY u",
    "SELECT k, count(*) FROM t WHERE row_number() OVER () < 3 GROUP BY k",
    "SELECT k, count(*) FROM t WHERE n > (SELECT avg(n) FROM t) GROUP BY k",
    "SELECT a.k, count(*) FROM t a JOIN t b ON a.k = b.k GROUP BY a.k",
    "SELECT k, count(*) FROM (SELECT k FROM t ORDER BY n LIMIT 5) GROUP BY k",
    "SELECT k, count(*) FROM (SELECT k FROM t QUALIFY row_number() OVER () < 3) GROUP BY k",
    "SELECT k, count(*) FROM (SELECT k FROM t UNION ALL SELECT k FROM t) GROUP BY k",
    "SELECT k, count(*) FROM t JOIN p ON t.k >= p.k GROUP BY k",
    "SELECT t.k, count(*) FROM t CROSS JOIN p GROUP BY t.k",
    "SELECT t.k, count(*) FROM t FULL JOIN p ON t.k = p.k GROUP BY t.k",
    "SELECT t.k, count(*) FROM t, p GROUP BY t.k",
    "SELECT t.k, count(*) FROM t JOIN LATERAL (SELECT t.n) x ON true GROUP BY t.k",
    "SELECT p.k, count(*) FROM p LEFT JOIN t ON t.k = p.k GROUP BY p.k",
    "SELECT k, count(*) FROM t TABLESAMPLE 10% GROUP BY k",
    "SELECT k, count(*) FROM t USING SAMPLE 3 ROWS GROUP BY k",
    "SELECT u, count(*) FROM (SELECT unnest(many) AS u FROM t) GROUP BY u",
    "SELECT timezone(k, seen) AS u, count(*) FROM t GROUP BY u",
    "SELECT timezone('Mars', seen) AS u, count(*) FROM t GROUP BY u",
    "SELECT CASE WHEN id = 3 THEN timezone('Mars', seen) END AS u, count(*) FROM t GROUP BY u",
    "SELECT date_trunc(k, seen) AS u, count(*) FROM t GROUP BY u",
    "SELECT time_bucket(INTERVAL 0 DAY, seen) AS u, count(*) FROM t GROUP BY u",
    "SELECT count(*) FROM t WHERE k LIKE k",
    "SELECT count(*) FROM t WHERE k LIKE 'abc!' ESCAPE '!'",
    "SELECT count(*) FROM t WHERE regexp_matches(k, '(')",
    "SELECT count(*) FROM t WHERE regexp_matches(k, k)",
    "SELECT count(*) FROM t WHERE replace(k, 'a', '" + "b" * 50 + "') = ''",
    "SELECT count(*) FROM t WHERE replace(k, 'a', k) = ''",
    "SELECT count(*) FROM t WHERE coalesce(TRY(1 // n), 0) = 0",
    "SELECT count(*) FROM t WHERE " + "NOT " * 400 + "ok",
    "SELECT count(*) FROM t WHERE " + "nullif(" * 12 + "k" + ", 'a')" * 12 + " = ''",
    "SELECT count(*) FROM t WHERE " + "CASE " * 10 + "n" + " WHEN 1 THEN 2 WHEN 2 THEN 1 END" * 10,
    "SELECT count(*) FROM t AS dpframe_private",
    "SELECT k AS DPFRAME_USER, count(*) FROM t GROUP BY 1",
    "WITH dpframe_released AS (SELECT 1 AS g0, 2 AS m0) SELECT k, count(*) FROM t GROUP BY k",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT c, i FROM r, "
    + SALES,
]


@pytest.mark.parametrize("user", [None, "who"])
@pytest.mark.parametrize("text", REACHES)
def test_nothing_is_read_that_was_not_named(text: str, user: str | None) -> None:
    """Law: these are refused before a row is read."""
    with pytest.raises(ParameterError):
        read(text, user)


SHUT = [
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM '/etc/hostname'",
    "SELECT * FROM rows",
    "COPY (SELECT 1) TO '/tmp/x.csv'",
    "ATTACH '/tmp/x.db'",
    "SET threads = 1",
    "INSTALL httpfs",
    "LOAD httpfs",
]


@pytest.mark.parametrize("statement", SHUT)
def test_released_rows_are_in_a_database_that_is_shut(statement: str) -> None:
    """Law: even a text that escaped every check reads no file, variable or network."""
    rows = pa.table({"a": [1]})
    with pytest.raises(SourceError, match="failed"):
        _duck.select_from_tables({"released": rows}, statement, "the test")


@pytest.mark.parametrize("records", [[], RECORDS[:1], RECORDS], ids=len)
def test_errors_are_the_same_for_neighbours(records: Sequence[Row]) -> None:
    """Law: what is refused is refused in the same words, whatever the rows."""
    asked = "SELECT number, median(x) FROM t JOIN p ON t.n = p.key GROUP BY number"
    with pytest.raises(DpframeError) as caught:
        dp.sql(asked, {"t": table_of(records)}, public=PUBLIC, epsilon=1, delta=1e-6)
    assert str(caught.value).startswith("query cannot be bound")


@pytest.mark.parametrize(
    "ending",
    [
        "CAST(k AS INT)",
        "1 // (c - c)",
        "make_date(c, 13, 1)",
        "max(CAST(k AS INT)) OVER ()",
        "lag(CAST(k AS DATE)) OVER (ORDER BY c)",
        "(SELECT max(CAST(k AS INT)) FROM s)",
    ],
)
def test_what_follows_fails_on_no_released_row(ending: str) -> None:
    """Law: an expression that fails on a released row is NULL there."""
    rows = table_of([{"k": "a"}] * 100)
    asked = f"WITH s AS (SELECT k, count(*) AS c FROM t GROUP BY k) SELECT {ending} FROM s"
    shown = dp.sql(asked, {"t": rows}, epsilon=1, delta=1e-6, progress=False)
    assert shown.iloc[:, 0].isna().tolist() == [True]


def test_a_failure_after_the_charge_says_how_to_get_the_rows(tmp_path: Any) -> None:
    """Law: a release with a name is asked again, with another ending, for free."""
    rows = {"t": table_of([{"k": "a"}] * 100)}
    given = {"epsilon": 1, "delta": 1e-6, "progress": False, "release": "r"}
    given["ledger"] = str(tmp_path / "ledger")
    dp.Ledger(given["ledger"], epsilon=1, delta=1e-6)
    asked = "SELECT k, ntile(count(*) - count(*)) OVER () FROM t GROUP BY k"
    with pytest.raises(SourceError, match=r"charged.*release='r'"):
        dp.sql(asked, rows, **given)
    assert len(dp.sql("SELECT k, count(*) FROM t GROUP BY k", rows, **given)) == 1


# -- time and memory of one record -----------------------------------------------------------------


def depth_of_tries(part: Any) -> int:
    if isinstance(part, list):
        return max(map(depth_of_tries, part), default=0)
    if not isinstance(part, dict):
        return 0
    if part.get("type") == "SUBQUERY":  # rows of an inner query are made once
        return 0
    return (part.get("type") == "OPERATOR_TRY") + max(map(depth_of_tries, part.values()), default=0)


@pytest.mark.parametrize(
    "nested",
    [
        "month(make_date(2020, coalesce({}, 13), 1))",
        "CASE WHEN {} > 1 THEN 13 // n END",
        "sqrt(abs(coalesce({}, n)))",
    ],
)
def test_no_record_is_tried_twice_at_each_level(nested: str) -> None:
    """Law: one TRY an expression. TRY runs again what fails: nested ones would double the time of
    one record at every level."""
    text = "n"
    for _ in range(20):
        text = nested.format(text)
    for where in ("SELECT {} AS v, count(*) FROM t GROUP BY v", "SELECT count(*) FROM t WHERE {}"):
        _, asked = read(where.format(text))
        (node,) = (one["node"] for one in _duck.query_tree(asked.rows)["statements"])
        while node["from_table"]["type"] == "SUBQUERY":
            assert depth_of_tries({**node, "from_table": {}}) <= 1
            node = node["from_table"]["subquery"]["node"]
        assert depth_of_tries(node) == 1


@pytest.mark.parametrize(
    "nested",
    [
        "{0} || {0}",
        "concat({0}, {0}, {0})",
        "concat_ws('--', {0}, {0})",
        "replace({0}, 'a', 'aaaaaaaaaaaaaaaaaaa')",
        "regexp_replace({0}, '.', '\\0\\0\\0', 'g')",
        "upper({0} || 'ß')",
    ],
)
def test_no_record_grows(nested: str) -> None:
    """Law: texts that a query makes are short, however often functions make them longer."""
    table = "t"
    for _ in range(20):
        table = f"(SELECT {nested.format('k')} AS k FROM {table})"
    tables, asked = read(f"SELECT k, count(*) FROM {table} GROUP BY k")
    rows = rows_of(tables, asked, [{"k": LONG}])
    (made,) = rows["k"].to_pylist()
    assert 2_000 < len(made) <= query_expressions.LONGEST_TEXT + len("=")


# -- TRY catches all that functions can fail with ------------------------------------------------

EXTREMES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127", "0"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "-1", "0", "1", "13"],
    "HUGEINT": [str(-(2**127)), str(2**127 - 1), "0"],
    "UBIGINT": [str(2**64 - 1), "0"],
    "FLOAT": ["'nan'", "'inf'", "-0.0", "-1e38"],
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "-0.0", "-1.7e308", "1.7e308", "5e-324", "-1"],
    "DECIMAL(4,2)": ["99.99", "-99.99", "0"],
    "DECIMAL(38,10)": ["9999999999999999999999999999.9999999999", "-1", "0"],
    "VARCHAR": [
        *("''", "'a'", "'\\'", "'('", "'x' || chr(0) || 'y'", "'🤦‍e'"),
        *("'2020-02-30'", "repeat('a', 5000)", "'1e999'", "'year'", "'infinity'", "'-5 days'"),
    ],
    "DATE": [
        "'infinity'",
        "'-infinity'",
        "'5877642-06-25 (BC)'",
        "'5881580-07-10'",
        "'1970-01-01'",
    ],
    "TIMESTAMP": [
        *("'infinity'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'"),
        "'2020-02-29 23:59:59.999999'",
    ],
    "TIMESTAMP_S": ["'infinity'", "'294247-01-10 04:00:54'", "'2020-02-29'"],
    "TIMESTAMP_NS": ["'infinity'", "'1677-09-22'", "'2262-04-11'"],
    "TIMESTAMP WITH TIME ZONE": [
        *("'infinity'", "'290309-12-22 (BC) 00:00:00+00'", "'294247-01-10 04:00:54.775806+00'"),
        "'2020-02-29 00:00:00+00'",
    ],
    "TIME": ["'00:00:00'", "'24:00:00'"],
    "TIME WITH TIME ZONE": ["'00:00:00+15:59'", "'23:59:59-15:59'"],
    "INTERVAL": [
        *("'0 days'", "'1 month 1 day'", "'2147483647 months'", "'-2147483648 days'"),
        "to_microseconds(-9223372036854775808)",
    ],
    "UUID": ["'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "BLOB": ["'\\x00\\xff'::BLOB", "''::BLOB"],
    "BIT": ["'0'::BIT", "'101010101'::BIT"],
    "INTEGER[]": ["[]", "[1, NULL]"],
    "VARCHAR[]": ["['a', NULL]"],
    "STRUCT(a INTEGER)": ["{'a': 1}"],
}
"""Values of each type that are most likely to make a function fail; NULL is added to them."""

ARGUMENTS = {
    **{
        f: [f"'{u}', {{0}}" for u in sorted(UNITS)]
        for f in ("date_trunc", "date_part", "datetrunc", "datepart")
    },
    **{f: [f"'{u}', {{0}}, {{0}}" for u in sorted(UNITS)] for f in query_expressions.BETWEEN_TIMES},
    "replace": ["{0}, 'a', 'b'", "{0}, {0}, ''"],
    "left": ["{0}, {1}"],
    "regexp_replace": ["{0}, '(a)', '\\\\1', 'g'"],
    "timezone": ["'Europe/Paris', {0}", "'UTC', {0}"],
    "time_bucket": [
        f"INTERVAL '{width}', {{0}}{more}"
        for width in ("1 month", "1 week", "1 microsecond", "100000 years")
        for more in ("", ", 'Asia/Tokyo'", ", INTERVAL '1 day'", ", DATE '2020-01-01'")
    ],
    **{
        name: ["{0}, 'a%'", "{0}, '(a|b)*'", "{0}, '[[:alpha:]]', 'x'", "{0}, 'a', '', 'g'"]
        for name in query_expressions.PATTERNS
    },
    "strftime": ["{0}, '%Y-%m-%d %H:%M:%S.%f %j %U'"],
    "try_strptime": ["{0}, '%Y-%m-%d'", "{0}, ['%d/%m/%Y', '%j']"],
}
"""Arguments of functions that must have constants."""


def calls_of(name: str) -> list[str]:
    """Calls of a function; its arguments are columns {0}, {1}, {2}."""
    quoted = name if name in ("coalesce", "if") else f'"{name}"'
    given = ["{0}", "{0}, {1}", "{0}, {1}, {1}", "{0}, {0}, {1}"]
    return [f"{quoted}({one})" for one in ARGUMENTS.get(name, given)]


def extremes() -> _duck.DuckDBPyConnection:
    import duckdb

    con = duckdb.connect()
    for place, (kind, values) in enumerate(EXTREMES.items()):
        listed = ", ".join(f"CAST({value} AS {kind})" for value in [*values, "NULL"])
        con.execute(f"CREATE TABLE t{place} AS SELECT unnest([{listed}]) AS v{place}")
    return con


FAMILIES = {
    "numbers": ("TINYINT", "BIGINT", "HUGEINT", "DOUBLE", "DECIMAL(38,10)", "BOOLEAN"),
    "texts": ("VARCHAR", "BIGINT", "BLOB", "BIT"),
    "times": (
        *("DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIME", "INTERVAL"),
        *("TIME WITH TIME ZONE", "BIGINT", "DOUBLE", "TIMESTAMP_S"),
    ),
}
"""Types that functions take together."""


def total_text(call: str) -> str | None:
    """A call as a row query has it; None where it is refused."""
    types = {f"v{place}": kind for place, kind in enumerate(EXTREMES)}
    reader = ExpressionReader(query_tree.read_query("SELECT 1"), {"t": Columns("t", types)}, {})
    with suppress(ParameterError):
        (part,) = query_tree.read_query(f"SELECT {call}").tree["select_list"]
        return query_tree.expression_text(reader.total(part))
    return None


def escapes(con: _duck.DuckDBPyConnection, call: str, kinds: Sequence[str]) -> bool | None:
    """Whether an error escapes for some values of columns of these types; None if none binds."""
    places = [[*EXTREMES].index(kind) for kind in kinds]
    text = total_text(call.format(*(f"v{place}" for place in places)))
    tables = ", ".join(f"t{place}" for place in dict.fromkeys(places))
    if text is None:
        return None
    try:
        bound = con.sql(f"SELECT {text} AS v FROM {tables}")
    except _duck.Error:
        return None
    try:
        bound.fetchall()
    except (_duck.Error, UnicodeDecodeError, ValueError, OverflowError):
        try:
            con.execute(f"EXPLAIN SELECT {text} FROM {tables} LIMIT 0")
        except _duck.Error:
            return None  # it cannot be planned, whatever the rows
        try:
            con.execute(f"SELECT count({text}) FROM {tables}").fetchall()
        except _duck.Error:
            return True
    return False


def pairs_of(families: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    pairs = [(a, b) for kinds in families.values() for a in kinds for b in kinds]
    return [*dict.fromkeys([*pairs, *((kind, kind) for kind in EXTREMES)])]


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(kind, kind) for kind in ("BIGINT", "TIME", "INTERVAL")], id="few"),
        pytest.param([(kind, kind) for kind in EXTREMES], id="alike", marks=pytest.mark.evidence),
        pytest.param(pairs_of(FAMILIES), id="together", marks=pytest.mark.evidence),
        pytest.param(pairs_of({"all": [*EXTREMES]}), id="all", marks=[pytest.mark.evidence]),
    ],
)
def test_no_function_of_rows_fails(pairs: Sequence[tuple[str, str]]) -> None:
    """Law: no value of any type makes a function fail, as a row query has it. Every function of the
    list is tried with some type."""
    con, found, tried = extremes(), [], set()
    for name in sorted(ROW_FUNCTIONS):
        every = 1 if len(pairs) > len(EXTREMES) else 5
        for call in calls_of(name)[:4] + calls_of(name)[4::every]:
            for kinds in pairs:
                one = escapes(con, call, kinds)
                tried |= {name} if one is not None else set()
                found += [(call, kinds)] if one else []
    assert found == []
    assert len(pairs) <= len(EXTREMES) or ROW_FUNCTIONS - tried <= {"dateadd"}


def test_an_escape_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: units that DuckDB does not implement, and nothing tried."""
    con = extremes()
    monkeypatch.setattr(query_expressions, "UNITS", UNITS | {"era"})
    assert escapes(con, "date_diff('era', {0}, {0})", ["TIMESTAMP"]) is not None
    monkeypatch.setattr(query_expressions, "_try", lambda part: part)
    assert escapes(con, "make_date({0}, {1}, {1})", ["BIGINT", "BIGINT"])
