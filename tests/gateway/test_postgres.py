"""The questions of a gateway as functions of a real PostgreSQL."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dpframe as dp
from dpframe.doors import postgres
from dpframe.doors.cli.main import main
from dpframe.doors.sql.macros import macro_folder
from dpframe.errors import ParameterError, SourceError
from tests import engines
from tests.gateway.conftest import ANN, FLIGHTS, Served, free_port, start
from tests.gateway.test_documents import HERE, PORT, typed
from tests.integration.test_docs import blocks

WAREHOUSE = "dpf_warehouse"

pytestmark = pytest.mark.engines


@dataclass(frozen=True)
class Database:
    """A database with the functions, and the gateway that they ask."""

    gateway: Served
    name: str
    host: str

    def address(self, user: str) -> str:
        return f"postgresql:///{self.name}?host={self.host}&user={user}"

    def connect(self, user: str) -> Any:
        import psycopg

        return psycopg.connect(self.address(user), autocommit=True)

    def rows(self, user: str, statement: str, *given: Any) -> list[tuple[Any, ...]]:
        with self.connect(user) as db:
            found: list[tuple[Any, ...]] = db.execute(statement, given or None).fetchall()
            return found

    def refusal(self, user: str, statement: str) -> Any:
        """What an error says: its SQLSTATE, message, detail and context."""
        import psycopg

        with self.connect(user) as db, pytest.raises(psycopg.Error) as raised:
            db.execute(statement)
        return raised.value.diag


PAGE = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text("utf-8")

ROLES = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ann') THEN
        CREATE ROLE ann LOGIN; CREATE ROLE eve LOGIN; CREATE ROLE zed LOGIN; CREATE ROLE out LOGIN;
    END IF;
END $$;
GRANT dpframe_analyst TO ann, eve, zed;
ALTER ROLE ann SET search_path = "$user", public, dpframe;
ALTER ROLE eve SET search_path = "$user", public, dpframe;
ALTER ROLE zed SET search_path = "$user", public, dpframe;
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with engines.postgres() as engine:
        gateway = start(tmp_path_factory.mktemp("gateway"))
        about = engine.connection.info
        made = Database(gateway, about.dbname, about.host)
        try:
            available = "SELECT count(*) FROM pg_available_extensions WHERE name = 'plpython3u'"
            if made.rows("tester", available) == [(0,)]:
                pytest.skip("PL/Python is not installed")
            assert postgres.install(made.address("tester"), gateway.url, WAREHOUSE) == "warehouse"
            with made.connect("tester") as db:
                db.execute(ROLES)
            yield made
        finally:
            gateway.process.terminate()
            gateway.process.wait(30)


def test_a_question_is_word_for_word_that_of_duckdb(database: Database) -> None:
    """Word for word, and the answer is what HTTP gives, to the last number."""
    asked = "SELECT * FROM dp_hhh('sales', 'columns:shop,town', epsilon := 1.0, delta := 1e-6)"
    ann = dp.connect(database.gateway.url, token=ANN)
    drawn = database.rows("ann", asked)
    frame = ann.sales.hhh("columns:shop,town", epsilon=1.0, delta=1e-6)
    columns = ["level", "prefix", "residual", "count", "lower", "upper"]
    assert drawn == [*frame[columns].itertuples(index=False, name=None)]
    spent = database.rows("ann", "SELECT data, of, spent_epsilon FROM dp_budget()")
    assert database.rows("ann", asked) == drawn
    assert database.rows("ann", "SELECT data, of, spent_epsilon FROM dp_budget()") == spent


def test_a_rollup_comes_in_the_long_form(database: Database) -> None:
    measures = {"n": "count", "money": "sum(paid)", "middle": "median(paid)"}
    rows = database.rows(
        "ann",
        "SELECT * FROM dp_rollup('sales', %s, %s, epsilon := %s)",
        '["shop", "town"]',
        json.dumps(measures),
        3,
    )
    ann = dp.connect(database.gateway.url, token=ANN)
    frame = ann.sales.rollup(["shop", "town"], measures, epsilon=3)
    long = [
        (
            row["level"],
            row["prefix"],
            {"shop": row["shop"], "town": row["town"]},
            name,
            *(row[f"{name}{end}"] for end in ("", "_lower", "_upper")),
        )
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
        for name in measures
    ]
    assert rows == long


def test_times_and_durations_are_seconds(database: Database) -> None:
    asked = """SELECT dpframe.number('"2026-01-01T00:00:00.500"'), dpframe.number('"P0DT1H0M0S"'),
        dpframe.number('3.25'), dpframe.number('null')"""
    with database.connect("tester") as db:
        db.execute("SET TIME ZONE 'Asia/Kolkata'")
        assert db.execute(asked).fetchone() == (1767225600.5, 3600.0, 3.25, None)


def test_a_query_has_its_own_columns(database: Database) -> None:
    query = "SELECT shop, count(*) AS n, avg(paid) FROM Sales GROUP BY shop ORDER BY n DESC"
    call = f"FROM dp_sql('{query}', epsilon := 2)"
    told = database.refusal("ann", f"SELECT * {call} AS t(shop text)")
    assert told.sqlstate == "42804"
    listed = re.search(r"AS (t\(.*\))", told.message_primary)
    assert listed is not None
    rows = database.rows("ann", f"SELECT shop, n FROM (SELECT * {call} AS {listed[1]}) AS q")
    frame = dp.connect(database.gateway.url, token=ANN).sales.sql(query, epsilon=2)
    assert rows == [*frame[["shop", "n"]].itertuples(index=False, name=None)]
    lines = database.rows("ann", f"SELECT * FROM dp_explain_sql('{query}', epsilon := 2)")
    assert lines[0][0] == "guarantee"
    wish = """error := '{"n": 5, "avg(paid)": 1}'::json"""
    assert database.rows("ann", f"SELECT * FROM dp_explain_sql('{query}', {wish})")


def test_every_question_and_explanation_is_there(database: Database) -> None:
    found = database.rows(
        "tester",
        "SELECT proname, obj_description(oid, 'pg_proc') FROM pg_proc "
        "WHERE pronamespace = 'dpframe'::regnamespace AND proname LIKE 'dp\\_%'",
    )
    asked = {f"dp_{name}" for name in ("hhh", "rollup", "tree_counts", "heavy_hitters", "sql")}
    explains = {one.replace("dp_", "dp_explain_") for one in asked - {"dp_hhh"}} | {"dp_explain"}
    more = {"dp_budget", "dp_releases", "dp_receipt", "dp_datasets"}
    assert {name for name, _ in found} == asked | explains | more
    assert all(said for _, said in found)
    assert database.rows("ann", "SELECT item FROM dp_heavy_hitters('sales', 'shop') LIMIT 1")
    assert database.rows(
        "ann", "SELECT * FROM dp_tree_counts('sales', 'shop', keys := '[\"shop 1\"]')"
    )
    assert database.rows("ann", "SELECT * FROM dp_explain('sales', 'shop', error := 10)")
    assert database.rows("ann", "SELECT data FROM dp_datasets() ORDER BY data") == [
        ("flights",), ("people",), ("sales",),
    ]  # fmt: skip
    (release,) = database.rows("ann", "SELECT release FROM dp_releases() LIMIT 1")
    ((receipt,),) = database.rows("ann", "SELECT dp_receipt('sales', %s)", release[0])
    assert receipt["guarantee"].endswith("one record")


def test_parameters_have_the_places_of_the_macros() -> None:
    """By place a call is that of DuckDB: what a gateway adds comes last."""
    scripts = [(macro_folder() / "postgres" / name).read_text("utf-8") for name in postgres.FILES]
    for name, listed in re.findall(
        r"CREATE FUNCTION dpframe\.(dp_\w+)\(\n(.*?)\n\) RETURNS", "\n".join(scripts), re.S
    ):
        here = re.findall(r'"?(\w+)"? (?:text|double|integer|boolean|anyelement)\b', listed)
        if name in ("dp_sql", "dp_explain_sql"):
            macros = (macro_folder() / "queries.sql").read_text("utf-8")
        else:
            question = name.removeprefix("dp_").removeprefix("explain_")
            question = {"explain": "hhh"}.get(question, question)
            macros = (macro_folder() / f"{question}.sql").read_text("utf-8")
        found = re.search(rf"MACRO {name}\((.*?)\) AS TABLE", macros, re.S)
        assert found is not None
        there = re.findall(r'"(\w+)" := NULL', found[1])
        assert here[: len(there)] == there, name


def test_the_file_of_questions_is_the_declarations() -> None:
    text = (macro_folder() / "postgres" / "questions.sql").read_text("utf-8")
    assert text == postgres.questions_text()


@pytest.mark.parametrize(
    ("user", "statement", "state", "said"),
    [
        ("ann", "SELECT * FROM dp_hhh('sales', 'nothing')", "22023", "may not be asked"),
        ("ann", "SELECT * FROM dp_hhh('sals', 'shop')", "42P01", "Yours: sales, people, flights"),
        ("ann", "SELECT * FROM dp_hhh()", "22004", "tbl is missing"),
        ("ann", "SELECT * FROM dp_hhh('sales', 'shop', epsilon := 5)", "22023", "at most 4"),
        ("ann", "SELECT * FROM dp_hhh('sales', 'shop', release := 'mine')", "22023", "'release'"),
        ("ann", "SELECT * FROM dp_hhh('sales', '[\"shop')", "22P02", "json"),
        ("eve", "SELECT * FROM dp_hhh('sales', 'shop', epsilon := 2)", "53400", "Ask for less"),
        ("eve", "SELECT * FROM dp_hhh('people', 'year')", "42P01", "Yours: sales"),
        ("zed", "SELECT * FROM dp_budget()", "42501", "'zed' is no analyst"),
        ("out", "SELECT * FROM dpframe.dp_budget()", "42501", "schema dpframe"),
        ("ann", "SELECT * FROM dpframe.gateway", "42501", "table gateway"),
        ("ann", "SELECT dpframe.send('eve', ARRAY['datasets'], NULL)", "42501", "function send"),
        ("ann", "SELECT dpframe.answer(ARRAY['datasets'])", "42501", "function answer"),
        ("ann", "SET SESSION AUTHORIZATION eve", "42501", "session authorization"),
        ("ann", "SET ROLE dpframe_owner", "42501", "dpframe_owner"),
    ],
)
def test_refusals_have_their_states_and_no_line_of_python(
    database: Database, user: str, statement: str, state: str, said: str
) -> None:
    found = database.refusal(user, statement)
    assert (found.sqlstate, said in found.message_primary) == (state, True), found.message_primary
    assert "Traceback" not in f"{found.context}{found.message_detail}"


def test_set_role_changes_nothing_of_who_asks(database: Database) -> None:
    with database.connect("tester") as db:
        db.execute("GRANT eve TO ann")
        try:
            with database.connect("ann") as ann:
                ann.execute("SET ROLE eve")
                found = ann.execute("SELECT DISTINCT data FROM dpframe.dp_budget()").fetchall()
                assert len(found) == 3
        finally:
            db.execute("REVOKE eve FROM ann")


def test_explain_draws_nothing_and_rollback_refunds_nothing(database: Database) -> None:
    asked = "SELECT * FROM dp_hhh('sales', 'town', epsilon := 0.25)"
    spent = "SELECT spent_epsilon FROM dp_budget() WHERE data = 'sales' AND of = 'your share'"
    before = database.rows("ann", spent)[0][0]
    database.rows("ann", f"EXPLAIN (VERBOSE) {asked}")
    assert database.rows("ann", spent)[0][0] == before
    with database.connect("ann") as db, db.transaction(force_rollback=True):
        db.execute(asked)
    assert database.rows("ann", spent)[0][0] == pytest.approx(before + 0.25)


def test_a_wait_is_cancelled_without_lines_of_python(database: Database) -> None:
    with database.connect("ann") as db:
        db.execute("SET statement_timeout = 30")
        import psycopg

        with pytest.raises(psycopg.errors.QueryCanceled, match="asked again") as raised:
            db.execute("SELECT * FROM dp_rollup('sales', 'shop', 'count', epsilon := 0.0123)")
        assert "Traceback" not in str(raised.value.diag.context)


def test_a_gateway_that_is_away_is_an_error_at_once(database: Database, tmp_path: Path) -> None:
    import psycopg

    with engines.postgres() as engine:
        made = Database(database.gateway, engine.connection.info.dbname, database.host)
        other = start(tmp_path)
        postgres.install(made.address("tester"), other.url, WAREHOUSE)
        asked = "SELECT * FROM dpframe.dp_budget()"
        with made.connect("ann") as db:
            assert db.execute(asked).fetchall()
            other.process.terminate()
            other.process.wait(30)
            with pytest.raises(psycopg.OperationalError, match="no gateway answers") as raised:
                db.execute(asked)
            assert raised.value.diag.sqlstate == "08001"
            assert "Traceback" not in str(raised.value.diag.context)


def test_installing_again_replaces_and_says_what_to_drop(database: Database) -> None:
    address = database.address("tester")
    postgres.install(address, database.gateway.url, WAREHOUSE)
    with database.connect("tester") as db:
        db.execute("CREATE VIEW mine AS SELECT * FROM dpframe.dp_budget()")
        try:
            with pytest.raises(ParameterError, match=r"used by view public\.mine"):
                postgres.install(address, database.gateway.url, WAREHOUSE)
            assert database.rows("ann", "SELECT count(*) FROM dp_budget()")
        finally:
            db.execute("DROP VIEW mine")
    postgres.install(address, database.gateway.url, WAREHOUSE)
    assert database.rows("ann", "SELECT count(*) FROM dp_budget()")


def test_a_wrong_installation_changes_nothing(database: Database) -> None:
    address, url = database.address("tester"), database.gateway.url
    for given, kind, said in (
        ((address, "http://example.org", WAREHOUSE), ParameterError, "https"),
        ((address, url, "dpf_wrong"), SourceError, "no analyst has this token"),
        ((address, url, ANN), ParameterError, "speaks for nobody"),
        ((address, "http://127.0.0.1:1", WAREHOUSE), SourceError, "no gateway answers"),
        ((database.address("ann"), url, WAREHOUSE), ParameterError, "superuser"),
        ((database.address("nobody"), url, WAREHOUSE), SourceError, "nobody"),
    ):
        with pytest.raises(kind, match=said):
            postgres.install(*given)
    assert database.rows("tester", "SELECT url FROM dpframe.gateway") == [(url,)]


def test_a_schema_of_somebody_else_is_left_alone(database: Database) -> None:
    with engines.postgres() as engine:
        engine.connection.execute("CREATE SCHEMA dpframe")
        engine.connection.execute("CREATE TABLE dpframe.mine AS SELECT 1 AS one")
        made = Database(database.gateway, engine.connection.info.dbname, database.host)
        with pytest.raises(SourceError, match="was not made by dpframe"):
            postgres.install(made.address("tester"), database.gateway.url, WAREHOUSE)
        assert made.rows("tester", "SELECT one FROM dpframe.mine") == [(1,)]


def test_the_command_and_the_files_by_hand(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DPFRAME_TOKEN", raising=False)
    command = ["install-postgres", database.address("tester"), "--gateway", database.gateway.url]
    assert main(command) == 2
    monkeypatch.setenv("DPFRAME_TOKEN", WAREHOUSE)
    assert main(command) == 0
    assert "GRANT dpframe_analyst TO" in capsys.readouterr().out
    with engines.postgres() as engine:
        made = Database(database.gateway, engine.connection.info.dbname, database.host)
        folder = macro_folder() / "postgres"
        files = [part for name in postgres.FILES for part in ("-f", str(folder / name))]
        psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", made.address("tester")]
        subprocess.run([*psql, "--single-transaction", *files], check=True, capture_output=True)
        given = f"INSERT INTO dpframe.gateway VALUES ('{database.gateway.url}', '{WAREHOUSE}')"
        subprocess.run([*psql, "-c", given], check=True, capture_output=True)
        assert made.rows("ann", "SELECT count(*) FROM dpframe.dp_budget()") == [(6,)]


def test_a_deputy_speaks_for_whom_the_policy_says_alone(database: Database) -> None:
    def status(token: str, name: str | None) -> int:
        head = {"Authorization": f"Bearer {token}"} | (
            {} if name is None else {"Dpframe-Analyst": name}
        )
        request = urllib.request.Request(f"{database.gateway.url}/api/analyst", headers=head)
        try:
            with urllib.request.urlopen(request) as answer:
                assert json.load(answer)["name"] == (name or "warehouse")
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert status(WAREHOUSE, None) == status(WAREHOUSE, "ann") == status(WAREHOUSE, "eve") == 200
    assert status(WAREHOUSE, "ben") == status(WAREHOUSE, "Ann") == status(WAREHOUSE, "") == 403
    assert status(ANN, "eve") == status(ANN, "ann") == 403
    assert status("dpf_wrong", "ann") == 401


def test_the_page_typed_as_printed(tmp_path: Path) -> None:
    """Law: nothing fails, and what the page says comes out does; only the port is another."""
    shutil.copy(FLIGHTS, tmp_path / "flights.parquet")
    with engines.postgres() as engine:
        about = engine.connection.info
        named = {"PGHOST": about.host, "PGUSER": "tester", "PGDATABASE": about.dbname}
        known = "SELECT count(*) FROM pg_roles WHERE rolname = 'ann'"
        found = [block for block in blocks(PAGE) if block.runs]
        script = typed([block for block in found if block.language != "text"])
        if engine.connection.execute(known).fetchone() == (1,):  # of an earlier test
            script = script.replace('-c "CREATE ROLE ann LOGIN" ', "")
        done = subprocess.run(
            ["bash", "-c", script.replace(PORT, str(free_port()))],
            cwd=tmp_path,
            env={**os.environ, **named, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[:1]])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
    assert done.returncode == 0, done.stdout
    assert not re.search("ERROR|Traceback", done.stdout), done.stdout
    spent = re.search(r"flights \| your share \| +(\S+) \| +(\S+)", done.stdout)
    assert spent is not None
    assert spent.groups() == ("2", "0"), done.stdout


def test_every_state_is_in_the_table() -> None:
    """Law: those that the functions give, and no other of ours."""
    text = (macro_folder() / "postgres" / "gateway.sql").read_text("utf-8")
    given = set(re.findall(r"(?:THEN|ELSE|ERRCODE =) '(\w{5})'", text)) - {"42710", "42P06"}
    told = set(re.findall(r"`(\w{5})`", PAGE.partition("| SQLSTATE |")[2].partition("## Run")[0]))
    assert told == given | {"22P02"}
