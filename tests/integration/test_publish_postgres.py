"""Published results in PostgreSQL: the tables of the DuckDB file, changed by rows in one step."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import dpframe as dp
from dpframe import publish
from dpframe.doors.cli.main import main
from dpframe.publishing import postgres
from tests import engines
from tests.integration.test_publish import rolled_up
from tests.published import (
    BUDGET,
    NOVEMBER,
    OCTOBER,
    SALES,
    VISITS,
    assert_whole,
    content,
    ledger_in,
)

pytestmark = pytest.mark.engines

MADE = "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %s"


class Results:
    """A schema of results as a reader finds it, in a session that is not in UTC."""

    def __init__(self, connection: Any, schema: str = "dp_results") -> None:
        self.db, self.schema = connection, schema
        self.address = engines.server().address(connection.info.dbname)
        self.to = f"{self.address}&schema={schema}"

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.db.execute(statement, values or None).fetchall()
        return found

    def names(self) -> list[str]:
        kinds = "WHERE c.relkind IN ('r', 'v') ORDER BY c.relname"
        return [name for (name,) in self.rows(f"SELECT c.relname {MADE} {kinds}", self.schema)]

    def frame(self, name: str) -> pd.DataFrame:
        with self.db.cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{self.schema}"."{name}"')
            columns = [column.name for column in cursor.description]
            return pd.DataFrame(cursor.fetchall(), columns=columns)

    def content(self) -> dict[str, pd.DataFrame]:
        return {name: self.frame(name) for name in self.names()}

    def versions(self) -> dict[str, Any]:
        """Which transaction made each row, relation, column and comment."""
        out: dict[str, Any] = {}
        for name in self.names():
            asked = f"SELECT c.xmin, c.oid, c.relkind {MADE} AND c.relname = %s"
            ((*out[name], kind),) = self.rows(asked, self.schema, name)
            if kind == "r":
                out[f"rows of {name}"] = self.rows(
                    f'SELECT xmin, ctid FROM "{self.schema}"."{name}" ORDER BY ctid'
                )
        for what, of in (("attribute", "attrelid"), ("description", "objoid")):
            out[what] = self.rows(
                f"SELECT o.xmin, o.ctid FROM pg_{what} o, pg_class c, pg_namespace n WHERE o.{of} ="
                " c.oid AND n.oid = c.relnamespace AND n.nspname = %s ORDER BY o.ctid",
                self.schema,
            )
        return out


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return ledger_in(tmp_path)


@pytest.fixture
def results() -> Iterator[Results]:
    with engines.postgres() as engine:
        engine.connection.prepare_threshold = None  # it prepares SELECT *, which gets new columns
        yield Results(engine.connection)


# -- what is in it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [ledger_in, rolled_up])
def test_it_holds_what_the_duckdb_file_holds(made: Any, results: Results, tmp_path: Path) -> None:
    """Law: the same names, columns and rows. Measured numbers are double precision; a view of the
    newest has the columns of the whole family."""
    ledger = made(tmp_path)
    publish(ledger, tmp_path / "results.duckdb")
    shown = publish(ledger, results.to)
    found, file = results.content(), content(tmp_path / "results.duckdb")
    assert found.keys() == file.keys()
    assert _texts_of(shown) == _texts_of(found["dp_releases"])
    for name, frame in file.items():
        ours = found[name]
        more = [column for column in ours.columns if column not in frame.columns]
        if name.endswith("_latest"):
            assert ours[more].isna().all(axis=None)
        else:
            assert more == []
        order = [c for c in ("release", "charge", "measure", "level", "prefix") if c in frame]
        ours, frame = (f.sort_values(order or "ledger_id") for f in (ours[frame.columns], frame))
        assert _texts_of(ours) == _texts_of(frame), name


def _texts_of(frame: pd.DataFrame) -> list[list[str]]:
    """Values as texts: numbers of any type, dates, and what is missing, look the same."""
    plain = frame.astype(object).where(frame.notna(), None)
    if "period_start" in plain:
        plain["period_start"] = pd.to_datetime(plain["period_start"])
    for column in plain:
        if pd.api.types.is_numeric_dtype(frame[column]) and frame[column].dtype != bool:
            plain[column] = [None if v is None else float(v) for v in plain[column]]
    # a day is a date in one and a time in the other
    return [[str(v).removesuffix(" 00:00:00") for v in row] for row in plain.values.tolist()]


def test_types_and_comments(results: Results, tmp_path: Path) -> None:
    """Law: no type follows from a row; everything has the comment that it has in DuckDB."""
    publish(rolled_up(tmp_path), results.to)
    publish(ledger_in(tmp_path), f"{results.address}&schema=other")
    kinds = results.rows(
        "SELECT c.relname, a.attname, format_type(a.atttypid, -1), "
        f"col_description(c.oid, a.attnum) {MADE} "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
        "WHERE c.relkind IN ('r', 'v')",
        results.schema,
    )
    assert {kind for *_, kind, _ in kinds} == {
        *("text", "bigint", "double precision", "boolean", "date", "timestamp without time zone")
    }
    assert all(comment for *_, comment in kinds)
    wide = {(name, column): kind for name, column, kind, _ in kinds}
    for column in ("orders", "paid_lower", "people"):
        assert wide["paid_all", column] == wide["paid_latest", column] == "double precision"
    assert wide["paid_1", "level"] == "bigint"
    said = dict(
        results.rows(
            f"SELECT c.relname, obj_description(c.oid) {MADE} WHERE c.relkind IN ('r', 'v')",
            "other",
        )
    )
    guarantee = "(0.5, 1e-06)-differential privacy for adding or removing one record"
    assert all(said.values())
    assert guarantee in said["ips_2026_11"]
    assert said["ips_latest"].startswith("The newest of its family. ")
    assert said["dp_releases"].startswith("Published by dpframe")


def test_columns_for_charts_have_one_type_whatever_the_data_are_called(
    results: Results, tmp_path: Path
) -> None:
    """Law: ours have our types; columns and measures of the data that have their names get _ behind
    them, and stay measures. Later releases fit."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=100.0, delta=0.1)
    rows = VISITS.assign(label=7, share="x")
    asked = {"epsilon": 8.0, "delta": 1e-6, "ledger": ledger}
    for release in ("named-2026-10", "named-2026-11"):
        measures = {"is_rest": "count", "parent": dp.sum("who", lower=0, upper=600)}
        dp.rollup(rows, ["label", "share"], measures, **asked, release=release)
        publish(ledger, results.to)
    kinds = dict(
        results.rows(
            f"SELECT a.attname, format_type(a.atttypid, -1) {MADE} AND c.relname = 'named_all' "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0",
            results.schema,
        )
    )
    assert {name: kinds[name] for name in ("label_", "share_", "is_rest_", "parent_")} == {
        "label_": "bigint",
        "share_": "text",
        "is_rest_": "double precision",
        "parent_": "double precision",
    }
    assert {name: kinds[name] for name in ("period_start", "label", "parent", "is_rest")} == {
        "period_start": "date",
        "label": "text",
        "parent": "text",
        "is_rest": "boolean",
    }
    ends = ("share", "share_lower", "share_upper")
    assert {kinds[name] for name in ends} == {"double precision"}
    found = results.frame("named_latest")
    assert sorted(found["label"]) == ["(all)", "7", "x"]
    assert found.loc[found["level"] == 0, "share"].tolist() == [1.0]


# -- publishing again ------------------------------------------------------------------------------


def test_publishing_again_changes_nothing(ledger: dp.Ledger, results: Results) -> None:
    """Law: no row, no relation, no comment is written anew."""
    publish(ledger, results.to)
    before = results.versions()
    publish(ledger, results.to)
    assert results.versions() == before


def test_a_new_period_changes_no_relation_that_is_there(results: Results, tmp_path: Path) -> None:
    """Law: earlier rows stay where they are, and views are what they were; only the mark of the
    newest moves. A reader in a transaction keeps its state."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-4)
    for month in ("ips-2026-10", "ips-2026-11"):
        dp.hhh(VISITS, "ip:src", **BUDGET, ledger=ledger, release=month)
    publish(ledger, results.to, releases="ips-2026-10")
    before = results.versions()
    results.db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    earlier = results.content()
    publish(ledger, results.to)
    for name, frame in earlier.items():
        assert_frame_equal(results.frame(name), frame)
    results.db.execute("COMMIT")
    after = results.versions()
    for name in ("ips_2026_10", "ips_all", "ips_latest", "dp_releases", "dp_budget"):
        assert after[name] == before[name]
    assert set(before["rows of ips_all"]) < set(after["rows of ips_all"])
    assert assert_whole(results.content()) == 2


def test_rows_that_somebody_removed_come_back(ledger: dp.Ledger, results: Results) -> None:
    publish(ledger, results.to)
    earlier = results.content()
    results.db.execute("DELETE FROM dp_results.ips_all WHERE level = 0")
    results.db.execute("UPDATE dp_results.dp_releases SET is_latest = NOT is_latest")
    publish(ledger, results.to)
    for name, frame in results.content().items():
        order = list(frame.columns)[:4]
        assert_frame_equal(
            frame.sort_values(order, ignore_index=True),
            earlier[name].sort_values(order, ignore_index=True),
        )


def test_rows_of_another_version_are_written_anew(
    ledger: dp.Ledger, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a release shows beside its numbers can change with the version that publishes."""
    publish(ledger, results.to)
    before = results.versions()
    monkeypatch.setattr("dpframe.publishing.results_tables.__version__", "99")
    publish(ledger, results.to)
    after = results.versions()
    assert not set(before["rows of ips_all"]) & set(after["rows of ips_all"])
    assert before["ips_latest"] == after["ips_latest"]


def test_a_choice_of_releases_removes_the_others(ledger: dp.Ledger, results: Results) -> None:
    publish(ledger, results.to)
    publish(ledger, results.to, releases=[OCTOBER])
    assert set(results.names()) == {
        "dp_releases",
        "dp_budget",
        "ips_2026_10",
        "ips_latest",
        "ips_all",
    }
    assert assert_whole(_of_releases(results)) == 1
    publish(ledger, results.to)
    assert assert_whole(_of_releases(results)) == 3


def _of_releases(results: Results) -> dict[str, pd.DataFrame]:
    """Its content, of which views of the newest are cut to the columns of their release."""
    found = results.content()
    for row in found["dp_releases"].itertuples():
        if row.is_latest:
            found[row.latest_view] = found[row.latest_view][list(found[row.table_name].columns)]
    return found


def test_measures_go_away_with_their_rollups(results: Results, tmp_path: Path) -> None:
    """The table stays, for those who read it; without rows."""
    ledger = rolled_up(tmp_path)
    publish(ledger, results.to)
    before = len(results.frame("dp_measures"))
    publish(ledger, results.to, releases=["paid-1", "ips-1"])
    assert set(results.frame("dp_measures")["release"]) == {"paid-1"}
    publish(ledger, results.to, releases=["ips-1"])
    assert len(results.frame("dp_measures")) == 0
    publish(ledger, results.to)
    assert len(results.frame("dp_measures")) == before


# -- columns ---------------------------------------------------------------------------------------


def test_new_columns_come_last_and_wait_for_readers(ledger: dp.Ledger, results: Results) -> None:
    """Law: a reader who holds the family is never ended; publication waits for it."""
    publish(ledger, results.to, releases=[OCTOBER])
    before = list(results.frame("ips_latest").columns)
    results.db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    earlier = results.frame("ips_latest")
    other = threading.Thread(target=publish, args=(ledger, results.to))
    other.start()
    for _ in range(12):  # longer than the server waits before it looks for deadlocks
        assert_frame_equal(results.frame("ips_latest"), earlier)
        assert_frame_equal(
            results.frame("ips_2026_10"), earlier[results.frame("ips_2026_10").columns]
        )
        time.sleep(0.15)
    assert other.is_alive()
    results.db.execute("COMMIT")
    other.join(30)
    assert list(results.frame("ips_latest").columns) == [*before, "Level_", "city"]
    assert list(results.frame("ips_2026_10").columns) == before
    assert assert_whole(_of_releases(results)) == 3


def test_readers_that_never_end_are_told_of(
    ledger: dp.Ledger, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(ledger, results.to, releases=[OCTOBER])
    results.db.execute("BEGIN")
    results.frame("ips_latest")
    monkeypatch.setattr(postgres, "WAITING", 1.0)
    with pytest.raises(dp.ParameterError, match=r"readers keep 'ips_all' open.* End their trans"):
        publish(ledger, results.to)
    assert assert_whole(_of_releases(results)) == 1
    results.db.execute("COMMIT")


def test_another_type_is_refused(results: Results, tmp_path: Path) -> None:
    """Law: nothing is changed, and the sentence says what helps."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-4)
    years = pd.DataFrame({"year": [2025] * 600})
    dp.hhh(years, ["year"], **BUDGET, ledger=ledger, release="years-1")
    publish(ledger, results.to)
    dp.hhh(years.astype(str), ["year"], **BUDGET, ledger=ledger, release="years-2")
    before = results.versions()
    with pytest.raises(
        dp.ParameterError, match=r"'year' of 'years_all' is bigint and .* text\. Give"
    ):
        publish(ledger, results.to)
    assert results.versions() == before
    publish(ledger, f"{results.address}&schema=new")  # where it is text from the beginning
    publish(ledger, f"{results.address}&schema=new", releases="years-1")
    new = Results(results.db, "new")
    assert set(new.frame("years_latest")["year"].dropna()) == {"2025"}


def test_a_measure_of_one_family_is_a_level_of_another(results: Results, tmp_path: Path) -> None:
    """Law: what a column is called in one family decides no type in another."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-4)
    sold = pd.DataFrame({"pieces": [2] * 600, "shop": ["a"] * 600})
    dp.hhh(sold, ["pieces"], **BUDGET, ledger=ledger, release="sizes-1")
    publish(ledger, results.to)
    added = {"pieces": dp.sum("pieces", lower=0, upper=9)}
    dp.rollup(sold, ["shop"], added, **BUDGET, ledger=ledger, release="sums-1")
    publish(ledger, results.to)
    for family, kind in (("sizes_all", "bigint"), ("sums_all", "double precision")):
        told = f"SELECT DISTINCT pg_typeof(pieces)::text FROM {results.schema}.{family}"
        assert results.rows(told) == [(kind,)]


def test_names_that_postgresql_would_cut_or_refuse(results: Results, tmp_path: Path) -> None:
    """Names longer than 63 bytes, with quotes, in mixed case, names of system columns, and text
    with the character that PostgreSQL does not have."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=99.0, delta=1e-3)
    long = "größe der längsten spalte, die jemals jemand geschrieben hat, nummer "
    for number, columns in enumerate(
        ([f"{long}1", f"{long}2"], ['Say "it\'s"', "CITY"], ["city", "xmin"], ["release", "period"])
    ):
        frame = pd.DataFrame({column: [f"{column}\0%s"] * 600 for column in columns})
        dp.hhh(frame, columns, **BUDGET, ledger=ledger, release=f"{long * 2}-{number}")
    schema = 'Some "Body\'s"; %s'
    to = f"{results.address}&schema=Some%20%22Body's%22;%20%25s"
    for _ in range(2):
        shown = publish(ledger, to)
    assert all(len(n.encode()) <= 63 for n in shown["table_name"])
    found = results.rows(f"SELECT c.relname {MADE} WHERE c.relkind = 'v'", schema)
    assert {name for (name,) in found} == {*shown["table_name"], *shown["latest_view"]}
    quoted = schema.replace('"', '""')
    with results.db.cursor() as cursor:
        cursor.execute(f'SELECT * FROM "{quoted}"."{shown["all_table"][0]}"')
        names = [column.name for column in cursor.description]
        rows = cursor.fetchall()
    assert {'Say "it\'s"', "CITY", "xmin_", "release_", "period_"} < set(names)
    assert "city" not in names  # the same as CITY
    cut = [name for name in names if name.startswith("größe")]
    assert len(cut) == 2
    assert {row[names.index("xmin_")] for row in rows} == {None, "xmin\ufffd%s"}
    publish(ledger, to, releases=list(shown["release"][:2]))
    publish(ledger, to)


# -- rights ----------------------------------------------------------------------------------------


def test_whoever_may_read_the_list_may_read_everything_and_nobody_else(
    ledger: dp.Ledger, results: Results
) -> None:
    """Law: grants on dp_releases are carried over to what a publication makes, also by name of a
    group and with quotes; views show rows of tables that their reader may not touch."""
    publish(ledger, results.to, releases=[OCTOBER])
    db, role, other = results.db, f'"An" "n{os.getpid()}"'.replace('" "', '""'), f"eve{os.getpid()}"
    db.execute(f"CREATE ROLE {role}")
    db.execute(f"CREATE ROLE {other}")
    try:
        db.execute(f"GRANT USAGE ON SCHEMA dp_results TO {role}, {other}")
        db.execute(f"GRANT SELECT ON dp_results.dp_releases TO {role}")
        db.execute(f"GRANT SELECT ON dp_results.ips_latest TO {other}")
        publish(ledger, results.to)
        db.execute(f"SET ROLE {role}")
        assert assert_whole(_of_releases(results)) == 3
        for statement in ("DELETE FROM dp_results.ips_all", "CREATE TABLE dp_results.x ()"):
            with pytest.raises(Exception, match="permission denied"):
                db.execute(statement)
        db.execute(f"SET ROLE {other}")
        assert len(results.frame("ips_latest")) == len(ledger.recall(NOVEMBER))
        for name in ("ips_all", "dp_releases", "grösse_all", "ips_2026_11"):
            with pytest.raises(Exception, match="permission denied"):
                results.frame(name)
    finally:
        db.execute("RESET ROLE")
        db.execute(f"DROP OWNED BY {role}, {other}")
        db.execute(f"DROP ROLE {role}, {other}")


def test_own_views_are_left_alone(ledger: dp.Ledger, results: Results) -> None:
    """A view of theirs in the schema stays; one that shows what would go away stops that."""
    publish(ledger, results.to)
    results.db.execute(
        "CREATE VIEW dp_results.mine AS SELECT prefix, count FROM dp_results.ips_latest; "
        'CREATE VIEW public.other AS SELECT * FROM dp_results."grösse_latest"'
    )
    publish(ledger, results.to)
    assert len(results.frame("mine")) == len(ledger.recall(NOVEMBER))
    with pytest.raises(
        dp.ParameterError, match=r"views of yours show what would go away .*Drop them"
    ):
        publish(ledger, results.to, releases=[OCTOBER])
    results.db.execute("DROP VIEW public.other")
    publish(ledger, results.to, releases=[OCTOBER])
    assert len(results.frame("mine")) == len(ledger.recall(OCTOBER))


# -- what is refused -------------------------------------------------------------------------------


def test_a_schema_with_something_else_is_refused(ledger: dp.Ledger, results: Results) -> None:
    results.db.execute("CREATE SCHEMA mine; CREATE TABLE mine.visits (a int)")
    results.db.execute(
        "CREATE SCHEMA code; CREATE FUNCTION code.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"
    )
    results.db.execute("CREATE SCHEMA named; CREATE TABLE named.dp_releases (release text)")
    for schema, what in (("mine", "visits"), ("code", "f"), ("named", "dp_releases")):
        with pytest.raises(
            dp.ParameterError, match=f"holds '{what}', which publishing did not make"
        ):
            publish(ledger, f"{results.address}&schema={schema}")
    results.db.execute("CREATE SCHEMA empty")
    publish(ledger, f"{results.address}&schema=empty")
    results.db.execute("CREATE TABLE empty.dp_measures_of_mine (a int)")
    publish(ledger, results.to, releases=[OCTOBER])
    results.db.execute('CREATE TABLE dp_results."grösse_all" (a int)')
    with pytest.raises(dp.ParameterError, match="holds 'grösse_all', which publishing did not"):
        publish(ledger, results.to)
    assert results.frame("grösse_all").empty


def test_results_of_another_ledger_are_refused(
    ledger: dp.Ledger, results: Results, tmp_path: Path
) -> None:
    publish(ledger, results.to)
    before = results.versions()
    other = dp.Ledger(tmp_path / "other.db", epsilon=1, delta=1e-5)
    dp.hhh(VISITS, "ip:src", **BUDGET, ledger=other, release=OCTOBER)
    with pytest.raises(dp.LedgerError, match="published from another ledger"):
        publish(other, results.to)
    assert results.versions() == before


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("postgresql://u:se@cret@h/d", "Write @"),
        ("postgresql://u:se/cret@h/d", "Write @"),
        ("postgresql://u:se?cret@h/d", "Write @"),
        ("postgresql://u:se#cret@h/d", "Write @"),
        ("postgresql://u:se%zzcret@h/d", "cannot read"),
        ("postgresql://u:secret@h/d?schema=", "names no schema"),
        ("postgresql://u:secret@h/d?schema=pg_x", "names no schema"),
        (f"postgresql://u:secret@h/d?schema={'ö' * 32}", "names no schema"),
        ("postgresql://u:secret@127.0.0.1:9/d", "no PostgreSQL server answers"),
        ("postgresql://u:secret@no.such.host.invalid/d", "no PostgreSQL server answers"),
    ],
)
def test_a_wrong_address_is_told_without_its_password(
    ledger: dp.Ledger, to: str, words: str
) -> None:
    with pytest.raises(dp.ParameterError, match=words) as error:
        publish(ledger, to)
    shown = f"{error.value}{error.value.__context__!r}"
    assert "cret" not in shown
    assert len(str(error.value)) < 400


def test_wrong_releases_are_refused_and_nothing_is_made(
    ledger: dp.Ledger, results: Results
) -> None:
    with pytest.raises(dp.ReleaseNameError, match="names no release"):
        publish(ledger, results.to, releases=["no"])
    assert results.names() == []
    assert results.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'dp_results'") == []


def test_roles_that_may_not_write(ledger: dp.Ledger, results: Results) -> None:
    """No right to create, a role that is read-only, one that is no owner; a member of the owner
    may publish, and everything keeps its owner."""
    db, name, owner = results.db, f"writer{os.getpid()}", f"owner{os.getpid()}"
    to = results.to.replace("tester", name)
    db.execute(f"CREATE ROLE {name} LOGIN")
    db.execute(f"CREATE ROLE {owner}")
    try:
        with pytest.raises(dp.ParameterError, match="the role may not do this"):
            publish(ledger, to)
        db.execute(f"CREATE SCHEMA dp_results AUTHORIZATION {owner}")
        db.execute(f"GRANT {owner} TO {name}")
        publish(ledger, to)
        assert assert_whole(_of_releases(results)) == 3
        db.execute(f"REASSIGN OWNED BY {name} TO {owner}")
        publish(ledger, to, releases=[OCTOBER])
        publish(ledger, to)
        owners = f"SELECT DISTINCT pg_get_userbyid(c.relowner) {MADE}"
        assert results.rows(owners, "dp_results") == [(owner,)]
        db.execute(f"REVOKE {owner} FROM {name}")
        with pytest.raises(dp.ParameterError, match=f"belongs to role '{owner}'"):
            publish(ledger, to)
        db.execute("DROP SCHEMA dp_results CASCADE")
        db.execute(f"CREATE SCHEMA dp_results AUTHORIZATION {name}")
        db.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
        with pytest.raises(dp.ParameterError, match="is read-only"):
            publish(ledger, to)
        assert results.names() == []
    finally:
        db.execute(f"DROP OWNED BY {name}, {owner} CASCADE")
        db.execute(f"DROP ROLE {name}, {owner}")


TRAP = """
CREATE FUNCTION public.trap() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RESET ROLE; ALTER ROLE {eve} SUPERUSER; RETURN NEW; END$$;
CREATE TRIGGER trap BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION public.trap()
"""


def test_tables_of_others_get_no_rows(ledger: dp.Ledger, results: Results) -> None:
    """A role that may make schemas makes ours first, with a trigger that would run with the
    rights of the publisher; or has a table among ours, or owns the schema only."""
    db, eve = results.db, f"eve{os.getpid()}"
    publish(ledger, results.to)
    db.execute(f"CREATE ROLE {eve}")
    try:
        db.execute(f"ALTER TABLE dp_results.ips_all OWNER TO {eve}")
        with pytest.raises(dp.ParameterError, match=f"belongs to role '{eve}', too"):
            publish(ledger, results.to)
        db.execute("DROP SCHEMA dp_results CASCADE")
        db.execute(f"CREATE SCHEMA dp_results AUTHORIZATION {eve}")
        with pytest.raises(dp.ParameterError, match=f"belongs to role '{eve}', too"):
            publish(ledger, results.to)
        db.execute(
            "CREATE TABLE dp_results.dp_releases (release text); "
            "CREATE TABLE dp_results.dp_budget (ledger_id text); "
            f"INSERT INTO dp_results.dp_budget VALUES ('{ledger.ledger_id}'); "
            "COMMENT ON TABLE dp_results.dp_releases IS 'Published by dpframe'; "
            f"{TRAP.format(eve=eve, table='dp_results.dp_releases')};"
            f"ALTER TABLE dp_results.dp_releases OWNER TO {eve}; "
            f"ALTER TABLE dp_results.dp_budget OWNER TO {eve}"
        )
        with pytest.raises(dp.ParameterError, match=f"belongs to role '{eve}', too"):
            publish(ledger, results.to)
        assert results.rows("SELECT rolsuper FROM pg_roles WHERE rolname = %s", eve) == [(False,)]
    finally:
        db.execute(f"DROP OWNED BY {eve} CASCADE")
        db.execute(f"DROP ROLE {eve}")


# -- several at once -------------------------------------------------------------------------------

PUBLISH = """
import sys
from dpframe import publish
ledger, to, name, times = sys.argv[1:]
for _ in range(int(times)):
    publish(ledger, to)
    publish(ledger, to, releases=[name])
publish(ledger, to)
"""


def test_publishers_wait_for_each_other(ledger: dp.Ledger, results: Results) -> None:
    """Also the first ones, where the schema is missing."""
    words = [sys.executable, "-c", PUBLISH, str(ledger.path), results.to, NOVEMBER, "2"]
    others = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [other.communicate(timeout=120)[1] for other in others] == ["", "", ""]
    assert assert_whole(_of_releases(results)) == 3


def test_a_publisher_that_waits_too_long_says_so(
    ledger: dp.Ledger, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(ledger, results.to)
    monkeypatch.setattr(postgres, "WAITING", 0.3)
    results.db.execute("BEGIN; LOCK TABLE dp_results.dp_releases IN SHARE ROW EXCLUSIVE MODE")
    with pytest.raises(dp.ParameterError, match="is being published by another process"):
        publish(ledger, results.to)
    results.db.execute("COMMIT")


# -- servers and zones -----------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[engines.PostgresServer]:
    engines.server()  # skips where there can be none
    made = engines.PostgresServer("timezone=Asia/Kathmandu", "datestyle=SQL,DMY")
    yield made
    made.stop()


def test_zones_of_server_client_and_session_change_no_time(
    ledger: dp.Ledger,
    server: engines.PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Times are in UTC, and those of a zone the same moments, wherever who is."""
    import psycopg

    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-4)
    when = pd.to_datetime(["2026-03-29T01:30:00+02:00"] * 600)
    frame = pd.DataFrame({"at": when, "day": when.tz_localize(None)})
    dp.hhh(frame, ["at"], **BUDGET, ledger=ledger, release="zoned-1")
    dp.hhh(frame, ["day"], **BUDGET, ledger=ledger, release="plain-1")
    monkeypatch.setenv("TZ", "America/St_Johns")
    monkeypatch.setenv("PGTZ", "Pacific/Chatham")
    monkeypatch.setenv("PGDATESTYLE", "German")
    time.tzset()
    try:
        for _ in range(2):
            shown = publish(ledger, server.address("postgres"))
        with psycopg.connect(server.address("postgres")) as db:
            db.execute("SET DateStyle = ISO")
            times = [
                t for (t,) in db.execute("SELECT time FROM dp_results.dp_releases ORDER BY charge")
            ]
            assert times == shown["time"].dt.to_pydatetime().tolist()
            assert times[0].isoformat() == ledger.recall("zoned-1").attrs["dp"]["time"][:19]
            (at,) = db.execute("SELECT max(at) FROM dp_results.zoned_1").fetchone() or ()
            assert at == when[0]
            (day,) = db.execute("SELECT max(day)::text FROM dp_results.plain_1").fetchone() or ()
            assert day == "2026-03-29 01:30:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_servers_that_are_away_come_back_or_refuse_the_password(
    ledger: dp.Ledger, server: engines.PostgresServer
) -> None:
    """One sentence each, without the password, and the next publication succeeds."""
    import psycopg

    with psycopg.connect(server.address("postgres"), autocommit=True) as db:
        db.execute("CREATE ROLE late LOGIN PASSWORD 'Geheim!7' VALID UNTIL '2020-01-01'")
        db.execute("CREATE DATABASE d OWNER late")
    hba = Path(server.folder, "data", "pg_hba.conf")
    hba.write_text(f"local all late scram-sha-256\n{hba.read_text()}")
    server.stop()
    to = server.address("d", "late:Geheim!7").replace("?", "?connect_timeout=5&")
    with pytest.raises(dp.ParameterError, match="no PostgreSQL server answers") as away:
        publish(ledger, to)
    server.start()
    with pytest.raises(dp.ParameterError, match=r"does not let this user in .* expired") as expired:
        publish(ledger, to)
    with pytest.raises(dp.ParameterError, match="does not let this user in") as wrong:
        publish(ledger, to.replace("!7", "!8"))
    with pytest.raises(dp.ParameterError, match=r"asks for a password.*pgpass"):
        publish(ledger, to.replace(":Geheim!7", ""))
    for error in (away, expired, wrong):
        assert "Geheim" not in f"{error.value}{error.value.__context__!r}"
    with psycopg.connect(server.address("postgres"), autocommit=True) as db:
        db.execute("ALTER ROLE late VALID UNTIL 'infinity'")
    publish(ledger, to)


def test_a_server_that_stops_in_the_middle_keeps_the_old_state(
    ledger: dp.Ledger, server: engines.PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    to = server.address("postgres")
    publish(ledger, to, releases=[OCTOBER])
    real = postgres.Schema._grant

    def stops(self: postgres.Schema) -> None:
        server.stop()
        real(self)

    monkeypatch.setattr(postgres.Schema, "_grant", stops)
    with pytest.raises(dp.ParameterError, match=r"the connection ended .* nothing is half done"):
        publish(ledger, to)
    server.start()
    with psycopg.connect(to) as db:
        assert assert_whole(_of_releases(Results(db))) == 1
    monkeypatch.undo()
    publish(ledger, to)
    with psycopg.connect(to) as db:
        assert assert_whole(_of_releases(Results(db))) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted by root")
def test_a_full_disk_keeps_the_old_state(
    ledger: dp.Ledger, results: Results, tmp_path: Path
) -> None:
    """A table space of 2 MB that is full in the middle of a publication."""
    small = Path(engines.server().folder, "small")
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        import shutil

        shutil.chown(small, "postgres")
        results.db.execute(f"CREATE TABLESPACE small LOCATION '{small}'")
        results.db.execute("ALTER ROLE tester SET default_tablespace = small")
        publish(ledger, results.to)
        before = results.versions()
        many = pd.DataFrame({"who": [f"somebody {i}" for i in range(40_000)]})
        keys = many["who"].tolist()
        dp.tree_counts(many, ["who"], epsilon=0.5, keys=keys, ledger=ledger, release="many-1")
        with pytest.raises(dp.ParameterError, match=r"the server has no room .*Make room"):
            publish(ledger, results.to)
        assert results.versions() == before
        publish(ledger, results.to, releases=[OCTOBER, SALES, NOVEMBER])
    finally:
        results.db.execute("ALTER ROLE tester RESET default_tablespace")
        results.db.execute("DROP SCHEMA IF EXISTS dp_results CASCADE")
        results.db.execute("DROP TABLESPACE IF EXISTS small")
        subprocess.run(["umount", small], check=True)


# -- doors -----------------------------------------------------------------------------------------


def test_the_command_shows_no_password(
    ledger: dp.Ledger, results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    to = results.to.replace("tester", "tester:geheim")
    assert main(["publish", "--ledger", str(ledger.path), "--to", to]) == 0
    said = capsys.readouterr().out
    assert said.strip().endswith("?schema=dp_results")
    assert "geheim" not in said
    assert assert_whole(_of_releases(results)) == 3


def test_a_series_publishes_there(results: Results, tmp_path: Path) -> None:
    """From reports.toml; a wrong address stops the run before anything is drawn."""
    VISITS.assign(when=pd.Timestamp("2026-09-05")).to_parquet(tmp_path / "visits.parquet")
    declared = """
publish = "{to}"
source = "visits.parquet"
ledger = {{ path = "budget.db", epsilon = 3.0, delta = 1e-4 }}
period = {{ column = "when", unit = "month", first = "2026-09" }}

[[report]]
name = "ips"
question = "hhh"
hierarchy = "ip:src"
epsilon = 0.5
delta = 1e-6
"""
    file = tmp_path / "reports.toml"
    file.write_text(declared.format(to=results.to.replace("tester", "tester:geheim")))
    for until in ("2026-09", "2026-10"):
        done = dp.Series.read(file).run(until)
        assert (done.code, done.failures) == (0, ())
        assert "geheim" not in f"{done}{done.to_json()}"
        assert "published to postgresql:///" in str(done)
    assert assert_whole(results.content()) == 2
    file.write_text(declared.format(to="postgresql://u:ge@heim@h/d"))
    with pytest.raises(dp.ParameterError, match="Write @"):
        dp.Series.read(file)
