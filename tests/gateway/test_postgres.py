"""The questions of a gateway as functions of a real PostgreSQL."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import dpframe as dp
from dpframe.doors import postgres
from dpframe.doors.cli.main import main
from dpframe.doors.gateway.http import Door
from dpframe.doors.gateway.policy import hash_token
from dpframe.doors.sql.macros import macro_folder, parameters_of
from dpframe.errors import ParameterError, SourceError
from tests import engines
from tests.gateway.attacked import opened
from tests.gateway.conftest import ANN, FLIGHTS, Served, free_port, start
from tests.gateway.test_client import answering, saying, write_certificate
from tests.gateway.test_documents import PORT, run_script, typed
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
        there = parameters_of(name, macros)
        assert there
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
        (
            "ann",
            """SELECT * FROM dp_rollup('sales', 'shop', '{"n": "count", "m": null}')""",
            "22023",
            "m",
        ),
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
        ((address, url, "dpf_a\nb"), ParameterError, "one line"),
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
        done = run_script(script.replace(PORT, str(free_port())), tmp_path, **named)
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


# -- attacks ---------------------------------------------------------------------------------------


@pytest.fixture
def fresh(database: Database) -> Iterator[Database]:
    """A database without the functions, and a role ``mal`` that may sign in."""
    with engines.postgres() as engine:
        known = "SELECT count(*) FROM pg_roles WHERE rolname = 'mal'"
        if engine.connection.execute(known).fetchone() == (0,):
            engine.connection.execute("CREATE ROLE mal LOGIN")
        yield Database(database.gateway, engine.connection.info.dbname, database.host)


def run(db: Any, script: str) -> None:
    for statement in script.split(";;"):
        db.execute(statement)


def test_no_cast_of_an_analyst_runs_as_the_owner(database: Database) -> None:
    """Whoever may make a type makes a cast of it to json, which json_build_object calls."""
    with database.connect("eve") as eve:
        told: list[str] = []
        eve.add_notice_handler(lambda said: told.append(said.message_primary))
        for kind in ("json", "text"):
            run(
                eve,
                f"""CREATE TYPE pg_temp.to_{kind} AS ENUM ('7');;
                CREATE FUNCTION pg_temp.steal(pg_temp.to_{kind}) RETURNS {kind} LANGUAGE plpgsql
                AS $$ BEGIN RAISE NOTICE '% runs it', current_user; RETURN '1'; END $$;;
                CREATE CAST (pg_temp.to_{kind} AS {kind}) WITH FUNCTION
                pg_temp.steal(pg_temp.to_{kind}) AS IMPLICIT""",
            )
            for name in ("explain", "explain_sql", "explain_rollup"):
                asked = {
                    "explain": "'sales', 'shop'",
                    "explain_sql": "'SELECT count(*) FROM sales'",
                    "explain_rollup": "'sales', 'shop', 'count'",
                }[name]
                call = f"dpframe.dp_{name}({asked}, error := '7'::pg_temp.to_{kind})"
                eve.execute(f"SELECT * FROM {call}")
        assert told == []


def test_who_is_no_analyst_asks_through_no_function_of_one(database: Database) -> None:
    with database.connect("tester") as db:
        run(db, "CREATE SCHEMA traps AUTHORIZATION eve;; REVOKE dpframe_analyst FROM ann")
        try:
            with database.connect("eve") as eve:
                run(
                    eve,
                    """CREATE FUNCTION traps.sprung() RETURNS bigint LANGUAGE sql SECURITY DEFINER
                    AS 'SELECT count(*) FROM dpframe.dp_budget()';;
                    CREATE VIEW traps.seen AS SELECT traps.sprung();;
                    GRANT USAGE ON SCHEMA traps TO ann;; GRANT SELECT ON traps.seen TO ann""",
                )
            told = database.refusal("ann", "SELECT * FROM traps.seen")
            assert told.sqlstate == "42501"
            assert "ann is no member" in told.message_primary
            assert database.rows("eve", "SELECT * FROM traps.seen") == [(2,)]
        finally:
            run(db, "GRANT dpframe_analyst TO ann;; DROP SCHEMA traps CASCADE")


def test_no_operator_of_others_runs_as_the_superuser_who_installs(fresh: Database) -> None:
    with fresh.connect("tester") as db:
        db.execute(f"ALTER DATABASE {fresh.name} OWNER TO mal")
    with fresh.connect("mal") as mal:
        run(
            mal,
            f"""CREATE SCHEMA near;; CREATE TABLE near.ran (who text);;
            CREATE FUNCTION near.joined(text, regprocedure) RETURNS text LANGUAGE plpgsql
            AS $$ BEGIN INSERT INTO near.ran VALUES (current_user); RETURN $1 || $2::text; END $$;;
            CREATE OPERATOR near.|| (LEFTARG = text, RIGHTARG = regprocedure,
                FUNCTION = near.joined);;
            CREATE FUNCTION near.alike(name, name) RETURNS bool LANGUAGE plpgsql
            AS $$ BEGIN INSERT INTO near.ran VALUES (current_user); RETURN true; END $$;;
            CREATE OPERATOR near.~~ (LEFTARG = name, RIGHTARG = name, FUNCTION = near.alike);;
            CREATE FUNCTION near.extension() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO near.ran VALUES (current_user); RETURN 'plpython3u'; END $$;;
            CREATE VIEW near.pg_available_extensions AS SELECT near.extension() AS name;;
            ALTER DATABASE {fresh.name} SET search_path = near, pg_catalog""",
        )
    for _ in range(2):
        postgres.install(fresh.address("tester"), fresh.gateway.url, WAREHOUSE)
    folder = macro_folder() / "postgres"
    files = [part for name in postgres.FILES for part in ("-f", str(folder / name))]
    psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", fresh.address("tester")]
    subprocess.run([*psql, "--single-transaction", *files], check=True, capture_output=True)
    assert fresh.rows("tester", "SELECT who FROM near.ran") == []


def test_nothing_that_was_planted_in_the_schema_stays(fresh: Database) -> None:
    """Whoever makes dpframe_owner first can make its schema, too."""
    with fresh.connect("tester") as db:
        run(
            db,
            """CREATE SCHEMA dpframe AUTHORIZATION dpframe_owner;;
            GRANT ALL ON SCHEMA dpframe TO mal;; CREATE SCHEMA mine AUTHORIZATION mal""",
        )
    with fresh.connect("mal") as mal:
        run(
            mal,
            """CREATE TABLE mine.seen (who text, token text);;
            CREATE TABLE mine.above (token text);;
            CREATE TABLE dpframe.gateway (url text, token text, only_row boolean DEFAULT true)
            INHERITS (mine.above);; GRANT ALL ON dpframe.gateway TO dpframe_owner, eve;;
            CREATE FUNCTION mine.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO mine.seen VALUES (current_user, NEW.token); RETURN NEW; END $$;;
            CREATE TRIGGER keep BEFORE INSERT ON dpframe.gateway FOR EACH ROW
            EXECUTE FUNCTION mine.keep()""",
        )
    postgres.install(fresh.address("tester"), fresh.gateway.url, WAREHOUSE)
    assert fresh.rows("mal", "SELECT * FROM mine.seen") == []
    assert fresh.rows("mal", "SELECT * FROM mine.above") == []
    assert fresh.refusal("mal", "CREATE TABLE dpframe.mine ()").sqlstate == "42501"


def test_an_extension_that_somebody_puts_there_holds_up_no_upgrade(fresh: Database) -> None:
    """The owner of a database may do that, with extensions that are trusted."""
    given = fresh.address("tester"), fresh.gateway.url, WAREHOUSE
    postgres.install(*given)
    with fresh.connect("tester") as db:
        known = "SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'"
        if db.execute(known).fetchone() == (0,):
            pytest.skip("the extensions that come with PostgreSQL are not installed")
        db.execute(f"ALTER DATABASE {fresh.name} OWNER TO mal")
    with fresh.connect("mal") as mal:
        mal.execute("CREATE EXTENSION citext SCHEMA dpframe")
    postgres.install(*given)
    assert fresh.rows("ann", "SELECT * FROM dpframe.dp_budget()")
    owners = """SELECT DISTINCT proowner::regrole::text FROM pg_proc
        WHERE pronamespace = 'dpframe'::regnamespace ORDER BY 1"""
    assert fresh.rows("ann", owners) == [("dpframe_owner",), ("tester",)]


@pytest.mark.parametrize("grant", ["eve TO dpframe_owner", "dpframe_owner TO mal"])
def test_the_owner_has_and_is_no_member(fresh: Database, grant: str) -> None:
    with fresh.connect("tester") as db:
        db.execute(f"GRANT {grant}")
        try:
            with pytest.raises(SourceError, match="be no member"):
                postgres.install(fresh.address("tester"), fresh.gateway.url, WAREHOUSE)
        finally:
            db.execute(f"REVOKE {grant.replace(' TO ', ' FROM ')}")


def test_rights_that_superusers_give_by_default_are_taken_back(fresh: Database) -> None:
    with fresh.connect("tester") as db:
        for kind in ("TABLES", "FUNCTIONS", "SCHEMAS"):
            db.execute(f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO eve, mal")
    postgres.install(fresh.address("tester"), fresh.gateway.url, WAREHOUSE)
    for user, statement in (
        ("eve", "SELECT token FROM dpframe.gateway"),
        ("eve", "UPDATE dpframe.gateway SET url = 'https://mal.example'"),
        ("eve", "SELECT dpframe.send('ann', ARRAY['datasets'], NULL)"),
        ("eve", "SELECT dpframe.answer(ARRAY['datasets'])"),
        ("eve", "CREATE TABLE dpframe.mine ()"),
        ("mal", "SELECT * FROM dpframe.dp_budget()"),
    ):
        assert fresh.refusal(user, statement).sqlstate == "42501", statement
    assert fresh.rows("eve", "SELECT * FROM dpframe.dp_budget()")


def test_who_reads_and_writes_all_tables_sees_no_token(database: Database) -> None:
    with database.connect("tester") as db:
        if db.info.server_version < 140000:
            pytest.skip("there are no such roles before 14")
        run(
            db,
            """DROP ROLE IF EXISTS dumper;; CREATE ROLE dumper LOGIN;;
            GRANT pg_read_all_data, pg_write_all_data TO dumper""",
        )
    assert database.rows("dumper", "SELECT * FROM dpframe.gateway") == []
    with database.connect("dumper") as db:
        assert db.execute("UPDATE dpframe.gateway SET url = 'https://mal.example'").rowcount == 0
        assert db.execute("DELETE FROM dpframe.gateway").rowcount == 0
    dump = ["pg_dump", database.address("dumper")]
    done = subprocess.run(dump, capture_output=True, text=True)
    if "server version mismatch" in done.stderr:
        pytest.skip("pg_dump is older than the server")
    assert "row-level security" in done.stderr
    without = [*dump, "--exclude-table-data=dpframe.gateway"]
    done = subprocess.run(without, capture_output=True, text=True, check=True)
    assert "CREATE FUNCTION dpframe.dp_hhh" in done.stdout
    assert WAREHOUSE not in done.stdout


def test_the_token_is_in_no_log(fresh: Database) -> None:
    with fresh.connect("tester") as db:
        for setting in (
            "session_preload_libraries = 'auto_explain'",
            "auto_explain.log_min_duration = 0",
            "auto_explain.log_nested_statements = on",
            "log_statement = 'all'",
            "log_min_duration_statement = 0",
            "log_min_duration_sample = 0",
            "log_transaction_sample_rate = 1",
            "log_parameter_max_length = -1",
            "log_parameter_max_length_on_error = -1",
        ):
            db.execute(f"ALTER DATABASE {fresh.name} SET {setting}")
    log = Path(fresh.host) / "log"
    for token in (WAREHOUSE, "dpf_wrong_token", ANN):
        before = log.stat().st_size
        try:
            postgres.install(fresh.address("tester"), fresh.gateway.url, token)
        except (ParameterError, SourceError):
            assert token != WAREHOUSE
        told = log.read_bytes()[before:].decode()
        assert "SHOW is_superuser" in told
        assert token not in told
    before = log.stat().st_size
    assert fresh.rows("ann", "SELECT * FROM dpframe.dp_budget()")
    told = log.read_bytes()[before:].decode()
    assert "SELECT url, token FROM dpframe.gateway" in told
    assert WAREHOUSE not in told


def test_settings_of_an_analyst_change_no_argument_and_no_number(database: Database) -> None:
    asked = "SELECT * FROM dpframe.dp_hhh('sales', 'year', epsilon := 1.4375)"
    settings = {
        "extra_float_digits": "-15",
        "standard_conforming_strings": "off",
        "DateStyle": "SQL, DMY",
        "IntervalStyle": "sql_standard",
        "TimeZone": "Asia/Kolkata",
        "transform_null_equals": "on",
        "array_nulls": "off",
        "quote_all_identifiers": "on",
        "row_security": "off",
        "search_path": "pg_temp",
        "plpgsql.extra_errors": "all",
    }
    told: list[Any] = []
    with database.connect("ann") as db:
        db.add_notice_handler(told.append)
        for name, value in settings.items():
            db.execute(f"SET {name} = '{value}'")
        assert db.execute(asked).fetchall()
        newest = "SELECT arguments ->> 'epsilon' FROM dpframe.dp_releases()"
        assert ("1.4375",) in db.execute(newest).fetchall()
    assert told == []
    frame = dp.connect(database.gateway.url, token=ANN).sales.hhh("year", epsilon=1.4375)
    columns = ["level", "prefix", "residual", "count", "lower", "upper"]
    drawn = [*frame[columns].itertuples(index=False, name=None)]
    assert database.rows("ann", asked) == drawn


def test_long_and_odd_names_of_columns(database: Database) -> None:
    long = "n" * 70
    query = f'SELECT shop AS "a""\') x", count(*) AS "{long}" FROM sales GROUP BY shop'
    columns = "AS t(a text, b bigint, c bigint, d bigint)"
    rows = database.rows("ann", f"SELECT a, b FROM dp_sql($q${query}$q$, epsilon := 1.5) {columns}")
    frame = dp.connect(database.gateway.url, token=ANN).sales.sql(query, epsilon=1.5)
    assert rows == [*frame[["a\"') x", long]].itertuples(index=False, name=None)]


@pytest.mark.parametrize("name", ["..", ".", "a/../../log", "a%2f..", "a?x", "a#x", "x" * 101, ""])
def test_no_name_of_a_data_set_leads_elsewhere(database: Database, name: str) -> None:
    """A proxy in front resolves dots, and could send the token to a neighbour."""
    import psycopg

    for call in ("SELECT * FROM dp_hhh(%s, 'shop')", "SELECT dp_receipt('sales', %s)"):
        with database.connect("ann") as db, pytest.raises(psycopg.Error, match="such a name") as e:
            db.execute(call, (name,))
        assert e.value.sqlstate == "42P01"


def test_a_wait_over_tls_is_cancelled(fresh: Database, tmp_path: Path) -> None:
    """A server sends tickets after the handshake, so that a socket has bytes, and no answer."""
    released = threading.Event()

    def answer(here: Any) -> None:
        released.wait(60)
        saying(b"[]")(here)

    write_certificate(tmp_path)
    known = Path(fresh.host) / "own.pem"
    known.write_bytes((tmp_path / "own.pem").read_bytes())
    postgres.install(fresh.address("tester"), fresh.gateway.url, WAREHOUSE)
    with answering(answer, tmp_path / "own.pem") as (url, heads), fresh.connect("tester") as db:
        import psycopg

        db.execute("UPDATE dpframe.gateway SET url = %s", (url,))
        trust = f"import os; os.environ['SSL_CERT_FILE'] = {str(known)!r}"
        db.execute(f"DO LANGUAGE plpython3u $${trust}$$")
        db.execute("SET SESSION AUTHORIZATION ann")
        db.execute("SET statement_timeout = 1000")
        try:
            with pytest.raises(psycopg.errors.QueryCanceled, match="asked again"):
                db.execute("SELECT * FROM dpframe.dp_datasets()")
        finally:
            released.set()
        assert heads[0]["Dpframe-Analyst"] == "ann"


def test_an_open_transaction_holds_nobody_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = [one.replace("'10s'", "'200ms'") for one in postgres.QUIET]
    monkeypatch.setattr(postgres, "QUIET", short)
    given = database.address("tester"), database.gateway.url, WAREHOUSE
    with database.connect("ann") as db, db.transaction():
        assert db.execute("SELECT * FROM dp_budget()").fetchall()
        with pytest.raises(SourceError, match="has a transaction open"):
            postgres.install(*given)
    assert postgres.install(*given) == "warehouse"


def test_no_message_quotes_a_password(database: Database) -> None:
    for address in (
        "postgresql://u:hid/den@localhost/db",
        "postgresql://u:hid@den@localhost/db",
        "postgresql://u:hid%zzden@localhost/db",
        "postgresql://u:hid den@localhost/db?nothing=1",
        "postgresql://u:hid?den@localhost:1/db",
        "host=localhost port=1 password='hid den",
    ):
        with pytest.raises((ParameterError, SourceError)) as raised:
            postgres.install(address, database.gateway.url, WAREHOUSE)
        assert not re.search("hid|den", str(raised.value)), raised.value
    for gateway in (
        *("https://ann:hidden@a.org", "http://ann:hidden@a.org", "ann:hidden@a.org"),
        *("https://a.org/?key=hidden", "https://a.org:port", "https://[a", "https://a.org/a b", ""),
    ):
        with pytest.raises(ParameterError, match="must be an address") as refused:
            postgres.install(database.address("tester"), gateway, WAREHOUSE)
        assert "hidden" not in str(refused.value)


def test_what_is_no_gateway_is_not_installed(fresh: Database) -> None:
    elsewhere = saying(b"", 302, Location="https://mal.example/api/analyst")
    for answer in (
        *(saying(b"[]", **{"Content-Type": "application/json"}), saying(b"<html>"), elsewhere),
        *(saying(text, **{"Content-Type": "application/json"}) for text in (b"{}", b"{", b"1")),
        saying(b"[1]", 403, **{"Content-Type": "application/json"}),
    ):
        with answering(answer) as (url, heads):
            with pytest.raises(SourceError, match=r"no gateway|refuses|nothing was changed"):
                postgres.install(fresh.address("tester"), url, WAREHOUSE)
            assert len(heads) == 1
    assert fresh.rows("tester", "SELECT to_regnamespace('dpframe')") == [(None,)]


def test_a_database_of_another_encoding_is_refused(fresh: Database) -> None:
    with fresh.connect("tester") as db:
        db.execute("DROP DATABASE IF EXISTS plain")
        db.execute("CREATE DATABASE plain ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    other = Database(fresh.gateway, "plain", fresh.host)
    with pytest.raises(SourceError, match="ENCODING UTF8"):
        postgres.install(other.address("tester"), other.gateway.url, WAREHOUSE)


def test_roles_with_odd_names_are_nobody_else(database: Database) -> None:
    odd = [
        'ann"',
        "ann\r\nDpframe-Analyst: ann",
        "Ann",
        " ann",
        "ann%",
        "%61nn",
        "ann\u200b",
        "a'n",
    ]
    odd = ['"' + name.replace('"', '""') + '"' for name in odd]
    with database.connect("tester") as db:
        for name in odd:
            db.execute(f"CREATE ROLE {name} LOGIN IN ROLE dpframe_analyst")
        try:
            for name in odd:
                db.execute(f"SET SESSION AUTHORIZATION {name}")
                with pytest.raises(Exception, match="is no analyst"):
                    db.execute("SELECT * FROM dpframe.dp_budget()")
                db.execute("RESET SESSION AUTHORIZATION")
        finally:
            db.execute("RESET SESSION AUTHORIZATION")
            for name in odd:
                db.execute(f"DROP ROLE {name}")


def test_one_statement_sends_one_request(database: Database) -> None:
    log = database.gateway.folder / "log.txt"

    def paths(start: int) -> list[str]:
        lines = log.read_text()[start:].splitlines()
        return [json.loads(line)["path"] for line in lines if '"path"' in line]

    def sent(statement: str) -> list[str]:
        start, until = log.stat().st_size, time.monotonic() + 10
        database.rows("ann", statement)
        while not paths(start) and time.monotonic() < until:
            time.sleep(0.05)  # a line is written after its answer is sent
        time.sleep(0.1)  # a second request would be seen
        return paths(start)

    asked = "dp_hhh('sales', 'shop', epsilon := 0.375)"
    one = ["/api/datasets/sales/hhh"]
    assert sent(f"SELECT * FROM {asked}") == one
    assert sent(f"SELECT {asked}") == one
    assert sent(f"SELECT count(*) FROM {asked} AS a, generate_series(1, 3)") == one
    assert sent(f"WITH q AS (SELECT * FROM {asked}) TABLE q UNION ALL TABLE q") == one
    long = "dp_rollup('sales', 'shop', 'count', epsilon := 0.375)"
    assert sent(f"SELECT *, value + lower FROM {long}") == ["/api/datasets/sales/rollup"]
    assert sent(f"SELECT i FROM generate_series(1, 3) AS i, LATERAL {asked} WHERE i > 0") == one


def test_a_log_tells_through_whom_and_an_owner_is_none(tmp_path: Path) -> None:
    """Law: a token that speaks for an owner opens no data set again, and reads no log."""
    more = f'[analyst.desk]\ntoken = "{hash_token("dpf_desk")}"\nspeaks_for = ["ann", "ben"]\n'
    gate = opened(tmp_path, more=more)
    told = logging.getLogger("dpframe.gateway")
    lines: list[dict[str, Any]] = []
    keep = logging.Handler()
    keep.emit = lambda record: lines.append(record.facts)  # type: ignore[attr-defined,method-assign]
    told.addHandler(keep)
    told.setLevel(logging.INFO)
    try:
        with TestClient(Door(gate).app()) as client:

            def status(path: str, *names: str) -> int:
                head = [("Authorization", "Bearer dpf_desk")]
                head += [("Dpframe-Analyst", name) for name in names]
                return int(client.get(path, headers=head).status_code)

            assert status("/api/datasets/sales", "ann") == 200
            assert status("/api/datasets/sales", "ben") == 200
            assert status("/api/log", "ben") == 403
            for names in (["ann", "ben"], ["ann", "ann"], ["ann, ben"], ["ann%00"], ["desk"], [""]):
                assert status("/api/datasets", *names) == 403, names
            assert (lines[0]["analyst"], lines[0]["through"]) == ("ann", "desk")
            assert (lines[-1]["analyst"], lines[-1]["through"]) == (None, "desk")
    finally:
        told.removeHandler(keep)
        told.setLevel(logging.NOTSET)
        gate.close()
