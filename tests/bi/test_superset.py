"""Apache Superset over published releases: docs/bi.md, done by the REST API and in a browser.

Run with ``DPFRAME_SUPERSET=FOLDER pytest -m bi tests/bi/test_superset.py``, where FOLDER is an
environment in which Superset is installed; docs/bi.md says how. It takes a minute, and ten on a
busy machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from tests import engines
from tests.bi import dashboard, recorded, revenue
from tests.bi.superset import Client, Server, program

pytestmark = pytest.mark.bi

WEEKS = "2017-W50"
NEXT = "2017-W51"
READER, PASSWORD = "dashboards", "only-reads"
SCHEMA = "dp_results"
KEPT = revenue.HERE / "docs" / "bi" / "superset"


@dataclass
class Shop:
    """A ledger with a year of weeks, published into PostgreSQL and into a file of DuckDB."""

    folder: Path
    declaration: Path
    engine: engines.PostgresEngine

    @property
    def info(self) -> Any:
        return self.engine.connection.info

    @property
    def ledger(self) -> dp.Ledger:
        return dp.Ledger(self.folder / "budget.db")

    @property
    def server(self) -> str:
        """Where the results are, as it stands in the files of the dashboard."""
        return f"/{self.info.dbname}?host={self.info.host}"

    def address(self, user: str, database: str) -> str:
        """The address of a database of Superset's own."""
        return f"postgresql+psycopg2://{user}@/{database}?host={self.info.host}"

    def publish(self, until: str) -> None:
        revenue.run(self.declaration, until)
        dp.publish(self.ledger, self.folder / "results.duckdb")

    def released(self) -> pd.DataFrame:
        """All released rows, from the ledger, with the Monday of their week."""
        found = []
        for name in self.ledger.names():
            week = name.removeprefix(f"{revenue.FAMILY}-")
            rows = self.ledger.recall(name)
            rows.insert(0, "week", pd.to_datetime(f"{week}-1", format="%G-W%V-%u"))
            found.append(rows)
        rows = pd.concat(found, ignore_index=True)
        return rows.assign(label=rows["department"].fillna(revenue.TOTAL))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    program()  # skips where Superset is not
    rows = revenue.real_rows()
    if rows is None:
        pytest.skip("shared/data/retail_completejourney.parquet is not beside the checkout")
    folder = tmp_path_factory.mktemp("shop")
    with engines.postgres() as engine:
        info = engine.connection.info
        to = f"postgresql://{info.user}@/{info.dbname}?host={info.host}&schema={SCHEMA}"
        shop = Shop(folder, revenue.declare(folder, rows, to), engine)
        shop.publish(WEEKS)
        for statement in revenue.rights(PASSWORD):
            engine.run(statement)
        engine.run(f"ALTER ROLE {READER} SET log_statement = 'all'")
        engine.run("CREATE DATABASE superset")
        yield shop


@pytest.fixture(scope="module")
def client(shop: Shop) -> Iterator[Client]:
    server = Server(shop.folder / "superset", shop.address(shop.info.user, "superset"))
    server.prepare()
    shop.engine.run("CREATE DATABASE fresh TEMPLATE superset")
    with server.running() as client:
        yield client


@pytest.fixture(scope="module")
def made(client: Client, shop: Shop) -> int:
    """The dashboard over PostgreSQL."""
    reader = f"postgresql+psycopg2://{READER}:{PASSWORD}@{shop.server}"
    database = dashboard.connect(client, dashboard.DATABASE, reader)
    return dashboard.build(client, database, SCHEMA)


def shown(
    client: Client, chart: str, label: str | None = None, on: str = dashboard.DATABASE
) -> pd.DataFrame:
    """What a chart shows, with a choice in the filter."""
    one = next(one for one in dashboard.CHARTS if one.name == chart)
    every = client.list("dataset")
    found = [
        d["id"]
        for d in every
        if (d["table_name"], d["database"]["database_name"]) == (one.table, on)
    ]
    filters = [dashboard.node(label)] if label else []
    asked = dashboard.question(one, found[0], *filters)
    told = client.send("POST", "/chart/data", json=asked).json()["result"][0]
    rows = pd.DataFrame(told["data"])
    if "period_start" in rows:
        rows["period_start"] = pd.to_datetime(rows["period_start"], unit="ms")
    return rows


NUMBER, LINE, TABLE, STACK = (one.name for one in dashboard.CHARTS)


def assert_shows(client: Client, shop: Shop, on: str = dashboard.DATABASE) -> None:
    """Each number of each chart is a released one, and none is left out."""
    released = shop.released()
    newest = released[released["week"] == released["week"].max()]
    for label in (revenue.TOTAL, "GROCERY", "MEAT"):
        rows = released[released["label"] == label].set_index("week")
        line = shown(client, LINE, label, on).set_index("period_start").sort_index()
        assert line.index.tolist() == rows.index.tolist()  # and a week without a row has no dot
        for column, name in zip(("revenue", "revenue_lower", "revenue_upper"), line, strict=True):
            assert line[name].tolist() == pytest.approx(rows[column].tolist(), rel=1e-12)
        number = newest.loc[newest["label"] == label, "revenue"].tolist()
        assert shown(client, NUMBER, label, on)["revenue"].tolist() == pytest.approx(number)
    finest = newest[newest["level"] == 1].sort_values("revenue", ascending=False)
    table = shown(client, TABLE, on=on)
    assert table["label"].tolist() == finest["label"].tolist()
    pairs = {"revenue": "revenue", "from": "revenue_lower", "to": "revenue_upper"}
    for name, column in {**pairs, "customers": "customers"}.items():
        assert table[name].tolist() == pytest.approx(finest[column].tolist())
    every = released[released["level"] == 1].sort_values(["week", "label"])
    stack = shown(client, STACK, on=on).sort_values(["period_start", "label"])
    assert stack["period_start"].tolist() == every["week"].tolist()
    assert stack["label"].tolist() == every["label"].tolist()
    assert stack["value"].tolist() == pytest.approx(every["revenue"].tolist())


def test_charts_show_what_was_released(client: Client, shop: Shop, made: int) -> None:
    """Law: in PostgreSQL, by a role that only reads."""
    assert_shows(client, shop)


def test_another_number_is_noticed(client: Client, shop: Shop, made: int) -> None:
    """Negative control: one number of one week is twice what was released."""
    row = "period = '2017-W07' AND level = 0"
    change = f"UPDATE {SCHEMA}.revenue_all SET revenue = revenue {{}} WHERE {row}"
    shop.engine.run(change.format("* 2"))
    with pytest.raises(AssertionError):
        assert_shows(client, shop)
    shop.engine.run(change.format("/ 2"))


def test_metrics_are_empty_where_rows_do_not_add_up(client: Client, shop: Shop, made: int) -> None:
    """Law: without a choice of one node there is no number, for it would count everything twice."""
    assert shown(client, NUMBER)["revenue"].tolist() == [None]
    assert shown(client, LINE)["revenue"].isna().all()


def test_the_same_over_a_file_of_duckdb(client: Client, shop: Shop, made: int) -> None:
    """Law: a file that is opened read-only gives the same charts."""
    file = shop.folder / "results.duckdb"
    address = f"duckdb:///{file}?access_mode=READ_ONLY"
    database = dashboard.connect(client, "file", address)
    number = dashboard.build(client, database, "results.main")
    assert_shows(client, shop, "file")
    client.send("DELETE", f"/dashboard/{number}")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM dp_results.revenue_all",
        "CREATE TABLE dp_results.mine (a int)",
        "SET default_transaction_read_only = off; UPDATE dp_results.dp_budget SET epsilon = 0",
    ],
)
def test_nobody_writes_from_sql_lab(client: Client, made: int, statement: str) -> None:
    """Law: neither by Superset's own rule nor by the role's rights."""
    database = next(d for d in client.list("database") if d["database_name"] == dashboard.DATABASE)
    client.change("database", database["id"], allow_dml=True)  # so PostgreSQL has to refuse
    with pytest.raises(AssertionError, match=r"read-only|permission denied"):
        client.send(
            *("POST", "/sqllab/execute/"),
            json={"database_id": database["id"], "sql": statement, "runAsync": False},
        )
    client.change("database", database["id"], allow_dml=False)


def test_the_kept_files_are_its_export(client: Client, made: int) -> None:
    """Law: docs/bi/superset is what Superset exports, made readable. With DPFRAME_RECORD=1 it is
    written."""
    found = dashboard.readable(client.exported(made))
    if recorded.RECORD:
        shutil.rmtree(KEPT, ignore_errors=True)
        for name, text in found.items():
            (KEPT / name).parent.mkdir(parents=True, exist_ok=True)
            (KEPT / name).write_text(text, "utf-8")
    assert dashboard.kept(KEPT) == found


@pytest.fixture(scope="module")
def fresh(client: Client, shop: Shop) -> Iterator[Client]:
    """A new Superset, prepared as the other was, that took the kept files with the address of a
    database in them."""
    server = Server(shop.folder / "fresh", shop.address(shop.info.user, "fresh"))
    files = dashboard.kept(KEPT)
    name = next(name for name in files if name.startswith("databases/"))
    files[name] = files[name].replace(dashboard.SERVER, shop.server)
    with server.running() as client:
        client.take(files, {name: PASSWORD})
        yield client


def test_a_fresh_superset_takes_the_kept_files(shop: Shop, made: int, fresh: Client) -> None:
    """Law: they show the same there, each chart once, and are exported the same."""
    (board,) = fresh.list("dashboard")
    assert len(fresh.list("chart")) == len(dashboard.CHARTS)
    assert_shows(fresh, shop)
    assert dashboard.readable(fresh.exported(board["id"])) == dashboard.kept(KEPT)


def test_a_browser_sends_the_recorded_queries(fresh: Client, shop: Shop, browser: Any) -> None:
    """Law: what people see asks for what tests/bi/superset_queries.sql holds, and shows what was
    released."""
    log = Path(shop.info.host) / "log"
    before = log.stat().st_size
    (board,) = fresh.list("dashboard")
    browser.sign_in(fresh.url)
    browser.open(f"{fresh.url}/superset/dashboard/{board['id']}/", charts=len(dashboard.CHARTS))
    newest = shop.released().sort_values("week", kind="stable").groupby("label").last()["revenue"]
    assert f"{newest[revenue.TOTAL]:,.0f}" in browser.text()
    browser.choose("GROCERY")
    assert f"{newest[revenue.TOTAL]:,.0f}" not in browser.text()
    assert browser.text().count(f"{newest['GROCERY']:,.0f}") == 2  # the number and the table
    with open(log, encoding="utf-8") as lines:
        lines.seek(before)
        found = recorded.queries(lines.read())
    if recorded.RECORD:
        recorded.write(found)
    assert found == recorded.kept()


def test_a_week_later_the_new_week_is_there(client: Client, shop: Shop, made: int) -> None:
    """Law: one draw more, the others as they were, in both places; the dashboard is not touched."""
    before, count = shop.released(), len(shop.ledger.names())
    shop.publish(NEXT)
    after = shop.released()
    assert len(shop.ledger.names()) == count + 1
    old = after[after["week"] < after["week"].max()].reset_index(drop=True)
    pd.testing.assert_frame_equal(old, before)
    assert shown(client, LINE, revenue.TOTAL)["period_start"].max() == after["week"].max()
    assert_shows(client, shop)
    shop.publish(NEXT)  # again: nothing is drawn
    pd.testing.assert_frame_equal(shop.released(), after)
