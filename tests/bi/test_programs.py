"""What is published, read by programs of others: JDBC, ADBC, ODBC, Spark, dbt and Framework.

Each test skips, with a sentence, where its tool is not there. Variables name what is not found by
itself: ``DPFRAME_DBT`` an environment with dbt, ``DPFRAME_FRAMEWORK`` a folder in which npm
installed docs/bi/framework, ``DPFRAME_JDBC`` the jar of the driver. docs/bi.md has the commands.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from tests import engines
from tests.bi import sold
from tests.bi.database import FIRST, ROWS, Database, jdbc_driver, place, port_of, same
from tests.integration.test_report_in_browser import Page, _screen, chromium

__all__ = ["chromium"]

pytestmark = pytest.mark.bi

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs" / "bi"


def run(*command: object, **how: Any) -> str:
    told = [str(one) for one in command]
    done = subprocess.run(told, capture_output=True, text=True, timeout=300, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# -- JDBC ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jar() -> Path:
    return jdbc_driver()


@pytest.fixture(scope="module")
def address(database: Database) -> Iterator[str]:
    with port_of(database.host) as port:
        yield f"jdbc:postgresql://127.0.0.1:{port}/{database.name}?user={database.reader}"


ASKED = (
    "SELECT period_start, label, department, revenue, is_rest FROM dp_results.revenue_all "
    "WHERE prefix = ? AND period_start >= ? AND revenue > ? ORDER BY 1"
)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_jdbc(database: Database, jar: Path, address: str, expected: Any, zone: str) -> None:
    """Metadata with remarks, prepared statements with parameters, parts of rows, NULL and days."""
    lines = [
        f"{ASKED}\ttext:*\tdate:2026-10-05\tnumber:0",
        ROWS,
        "SELECT half_day FROM dp_results.times WHERE level = ? ORDER BY 1 LIMIT 1\tnumber:1",
        "DELETE FROM dp_results.revenue_all RETURNING 1",
    ]
    java = ["java", f"-Duser.timezone={zone}", "-cp", jar, HERE / "Client.java", address]
    told = run(*java, "dp_results", input="\n".join(lines)).splitlines()
    said = [line.split("\t") for line in told]
    tables = {line[1]: line[2:] for line in said if line[0] == "table"}
    assert tables["revenue_all"][0] == "TABLE"
    assert tables["revenue_latest"][0] == "VIEW"
    assert all("null" not in remark and remark for _, remark in tables.values())
    columns = {(line[1], line[2]): line[3:] for line in said if line[0] == "column"}
    assert {name for name, _ in columns} == set(tables)
    assert all(remark and remark != "null" for *_, remark in columns.values())
    kinds = {(kind, number) for kind, number, _ in columns.values()}
    plain = {"text": "12", "int8": "-5", "float8": "8", "bool": "-7", "date": "91"}
    assert kinds <= {*plain.items(), ("timestamp", "93")}
    rows = [line[1:] for line in said if line[0] == "row"]
    total = [row for row in rows if len(row) == 5]
    assert len(total) == len(sold.WEEKS) - 1
    assert total[0][0] == "2026-10-05=2026-10-05"  # by a day of Java's calendar, and by Date
    assert (total[0][2], total[0][4]) == ("null", "false")
    assert len([row for row in rows if len(row) == expected.shape[1]]) == len(expected)
    assert ["2026-09-28 00:00:00.0"] in rows
    (error,) = [line[1:] for line in said if line[0] == "error"]
    assert error[0] == "42501"


# -- ADBC ----------------------------------------------------------------------------------------


def test_adbc(database: Database, expected: pd.DataFrame) -> None:
    """Arrow columns of their own types, in parts, with parameters, and what is in the schema."""
    adbc = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="ADBC is not installed")
    with closing(adbc.connect(database.address())) as connection:
        with connection.cursor() as cursor:
            cursor.execute(ROWS)
            table = cursor.fetch_arrow_table()
            same(table.to_pandas(), expected)
            types = {field.name: str(field.type) for field in table.schema}
            assert types["level"] == "int64"
            assert types["revenue"] == types["customers"] == "double"
            assert types["period_start"] == "date32[day]"
            assert types["is_rest"] == "bool"
            one = "SELECT period_start FROM dp_results.revenue_all WHERE prefix = $1 AND level = $2"
            cursor.execute(one, ("*", 0))
            assert min(cursor.fetchall()) == (FIRST,)
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": "100"})
            cursor.execute(ROWS)
            assert sum(len(batch) for batch in cursor.fetch_record_batch()) == len(expected)
            cursor.execute("SELECT half_day FROM dp_results.times ORDER BY 1 LIMIT 1")
            assert cursor.fetch_arrow_table()["half_day"].type.tz is None
            with pytest.raises(adbc.Error, match="permission denied") as raised:
                cursor.execute("DELETE FROM dp_results.revenue_all")
            assert raised.value.sqlstate == "42501"
        connection.rollback()
        found = connection.adbc_get_objects(depth="tables", db_schema_filter="dp_results")
        (catalog,) = [one for one in found.read_all().to_pylist() if one["catalog_db_schemas"]]
        (schema,) = catalog["catalog_db_schemas"]
        names = {one["table_name"]: one["table_type"] for one in schema["db_schema_tables"]}
        assert (names["revenue_all"], names["revenue_latest"]) == ("table", "view")
        assert connection.adbc_get_table_schema("revenue_all", db_schema_filter="dp_results").names


# -- ODBC ----------------------------------------------------------------------------------------


def test_odbc(database: Database, expected: pd.DataFrame) -> None:
    """Whole texts and numbers, days, truth values if asked for; this driver shows no comments."""
    pyodbc = pytest.importorskip("pyodbc", reason="pyodbc is not installed")
    if "PostgreSQL Unicode" not in pyodbc.drivers():
        pytest.skip("the ODBC driver of PostgreSQL is not installed")
    told = f"Servername={database.host};Database={database.name};Username={database.reader}"
    with closing(pyodbc.connect(f"Driver=PostgreSQL Unicode;{told};BoolsAsChar=0")) as connection:
        cursor = connection.cursor()
        names = {row.table_name: row.table_type for row in cursor.tables(schema="dp_results")}
        assert (names["revenue_all"], names["revenue_latest"]) == ("TABLE", "VIEW")
        cursor.execute(ROWS)
        columns = [column[0] for column in cursor.description]
        same(pd.DataFrame([tuple(row) for row in cursor.fetchall()], columns=columns), expected)
        receipts = "SELECT receipt FROM dp_results.dp_releases WHERE release = ?"
        release = f"revenue-{sold.WEEKS[0]}"
        cursor.execute(receipts, (release,))
        assert json.loads(cursor.fetchone()[0]) == database.ledger.recall(release).attrs["dp"]
        with pytest.raises(pyodbc.Error, match="42501"):
            cursor.execute("DELETE FROM dp_results.revenue_all")


# -- Spark ---------------------------------------------------------------------------------------


def test_spark(database: Database, expected: pd.DataFrame) -> None:
    """Parquet of one table, in a session of another zone."""
    folder = database.folder / "results_parquet"
    with engines.spark() as engine:
        engine.session.read.parquet(str(folder / "revenue_all.parquet")).createOrReplaceTempView(
            "s"
        )
        found = engine.session.sql(ROWS.replace("dp_results.revenue_all", "s"))
        types = dict(found.dtypes)
        assert types["period_start"] == "date"
        assert (types["revenue"], types["level"], types["is_rest"]) == (
            "double",
            "bigint",
            "boolean",
        )
        rows = [row.asDict() for row in found.collect()]
        same(pd.DataFrame(rows, columns=found.columns), expected)
        times = engine.session.read.parquet(str(folder / "times.parquet"))
        assert dict(times.dtypes)["half_day"] == "timestamp_ntz"
        assert str(times.agg({"half_day": "min"}).collect()[0][0]) == "2026-09-28 00:00:00"


# -- dbt -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["duckdb", "postgres"])
def test_dbt(database: Database, tmp_path: Path, target: str) -> None:
    """The project of the documents as it stands: its model is made, and its tests pass."""
    dbt = place("DPFRAME_DBT", "", "environment with dbt") / "bin" / "dbt"
    shutil.copytree(DOCS / "dbt", tmp_path, dirs_exist_ok=True)
    shutil.copy(database.folder / "results.duckdb", tmp_path)
    database.owner.execute("CREATE SCHEMA IF NOT EXISTS models")
    database.owner.execute(f"GRANT ALL ON SCHEMA models TO {database.reader}")
    where = {"PGHOST": database.host, "PGDATABASE": database.name, "PGUSER": database.reader}
    env = {**os.environ, **where, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    how = ["--profiles-dir", ".", "--target", target, "--no-use-colors"]
    assert "PASS=1 WARN=0 ERROR=0" in run(dbt, "run", *how, cwd=tmp_path, env=env)
    assert re.search(r"PASS=[89] WARN=0 ERROR=0", run(dbt, "test", *how, cwd=tmp_path, env=env))
    told = "SELECT week, revenue, change, change_lower, change_upper FROM {} ORDER BY week"
    if target == "duckdb":
        with duckdb.connect(tmp_path / "models.duckdb", read_only=True) as con:
            rows = con.execute(told.format("revenue_by_week")).fetchall()
    else:
        rows = database.owner.execute(told.format("models.revenue_by_week")).fetchall()
    changes = {week.isocalendar()[1]: change for week, _, change, *_ in rows}
    assert (changes[40], changes[44]) == (None, None)  # the first, and the one after a gap
    assert all(low < change < high for _, _, change, low, high in rows if change is not None)
    assert changes[41] == rows[1][1] - rows[0][1]


# -- Framework -----------------------------------------------------------------------------------


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder's files."""
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *said: Any) -> None: ...


class Site:
    """The site of the documents, built in a folder from the Parquet files of a database."""

    def __init__(self, folder: Path, database: Database) -> None:
        modules = place("DPFRAME_FRAMEWORK", "", "folder with node_modules") / "node_modules"
        shutil.copytree(DOCS / "framework", folder, dirs_exist_ok=True)
        (folder / "node_modules").symlink_to(modules)
        self.folder, self.database = folder, database

    def build(self) -> dict[str, Any]:
        """Build it, and return the rows that it holds."""
        shutil.rmtree(self.folder / "results_parquet", ignore_errors=True)
        parquet = self.database.folder / "results_parquet"
        shutil.copytree(parquet, self.folder / "results_parquet")
        env = {**os.environ, "OBSERVABLE_TELEMETRY_DISABLE": "true"}
        shutil.rmtree(self.folder / "dist", ignore_errors=True)
        run("npm", "run", "build", cwd=self.folder, env=env)
        (data,) = (self.folder / "dist" / "_file").glob("revenue.*.json")
        found: dict[str, Any] = json.loads(data.read_text("utf-8"))
        return found


@pytest.fixture(scope="module")
def site(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"), database)


DRAWN = """
const paths = (figure) => [...figure.querySelectorAll("path")].map((p) => p.getAttribute("d"));
const figures = [...document.querySelectorAll("svg")];
return {
    said: figures.map((one) => one.getAttribute("aria-label")),
    pieces: figures.map((one) => paths(one).map((d) => d.split("M").length - 1)),
    bars: document.querySelectorAll('g[aria-label="bar"] rect').length,
    width: document.documentElement.scrollWidth,
}
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_framework_draws(site: Site, chromium: Any, width: int, dark: bool) -> None:
    """On a desk and a phone, in light and dark: a line with a band and a gap, and bars with their
    intervals; nothing is loaded from elsewhere, and nothing fails."""
    if not (site.folder / "dist").exists():
        site.build()
    page = Page(chromium, site.folder)
    page.command("Emulation.setDeviceMetricsOverride", **_screen(width))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    page.command("Emulation.setEmulatedMedia", features=[scheme])
    with served(site.folder / "dist") as address:
        chromium.get("about:blank")
        page.logs()
        chromium.get(address)
        for _ in range(100):
            drawn = chromium.execute_script(DRAWN)
            if len(drawn["said"]) == 2:
                break
            time.sleep(0.1)
        said, asked = page.logs()
        assert [line for line in said if "favicon" not in line] == []
        assert [one for one in asked if not one.startswith((address, "about:"))] == []
    assert drawn["said"][0].startswith("revenue of (all) over time")
    assert 2 in drawn["pieces"][0]  # a week is missing
    assert drawn["bars"] == 3
    assert drawn["width"] <= width
    letters = page.js("getComputedStyle(document.body).color")
    bright = sum(map(int, re.findall(r"\d+", letters)[:3])) / 3
    assert (bright > 128) == dark


def test_framework_is_built_again(site: Site, database: Database) -> None:
    """It shows what is published when it is built, and a week later one week more."""
    first = site.build()
    assert {row["period"] for row in first["rows"]} >= set(sold.WEEKS)
    assert set(first["releases"][0]) == {"release", "is_latest", "confidence", "guarantee"}
    assert date.fromisoformat(first["rows"][0]["period_start"][:10]) == FIRST
    sold.draw(database.ledger, sold.NEXT)
    database.publish()
    assert {row["period"] for row in site.build()["rows"]} == {*sold.WEEKS, sold.NEXT}
