"""A gateway's questions, asked through PostgreSQL over ADBC and JDBC."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.bi.database import jdbc_driver, port_of
from tests.bi.test_functions import HHH, MEASURES, ROLLUP, SPENT, ann, spent
from tests.gateway.test_postgres import Database, database

__all__ = ["ann", "database"]

pytestmark = pytest.mark.bi


def test_adbc_asks(database: Database, ann: psycopg.Connection[Any]) -> None:
    """Columns of Arrow, parameters by number, and the state of an error."""
    adbc = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="ADBC is not installed")
    with (
        closing(adbc.connect(database.address("ann"))) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(HHH)
        table = cursor.fetch_arrow_table()
        assert [str(kind) for kind in table.schema.types] == [
            "int32",
            "string",
            *["double"] * 4,
        ]
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert rows == ann.execute(HHH).fetchall()
        before = spent(ann)
        asked = "SELECT * FROM dp_hhh($1, $2, epsilon := $3, delta := $4)"
        cursor.execute(asked, ("sales", "columns:shop,town", 1.0, 1e-6))
        assert [tuple(row) for row in cursor.fetchall()] == rows
        cursor.execute(ROLLUP.format("$1", "$2", "$3", "$4"), ("sales", "shop", MEASURES, 1.0))
        measured = cursor.fetch_arrow_table().to_pylist()
        assert json.loads(measured[0]["node"]) == {"shop": None}
        assert spent(ann) <= before + 1
        cursor.execute("SELECT * FROM dp_hhh('sales', 'nothing')")
        with pytest.raises(adbc.Error, match="may not be asked") as raised:
            cursor.fetchall()  # a query runs when its rows are fetched
        assert raised.value.sqlstate == "22023"


def test_jdbc_asks(database: Database, ann: psycopg.Connection[Any]) -> None:
    """A prepared statement that is executed six times is charged once; errors have their states."""
    jar = jdbc_driver()
    asked = "SELECT * FROM dp_hhh(?, ?, epsilon := ?, delta := ?)"
    query = "SELECT shop, count(*) AS n FROM sales GROUP BY shop"
    columns = "AS t(shop text, n bigint, n_lower bigint, n_upper bigint)"
    lines = [
        f"{asked}\ttext:sales\ttext:columns:shop,town\tnumber:1.0\tnumber:1e-6",
        f"{ROLLUP.format(*'????')}\ttext:sales\ttext:shop\ttext:{MEASURES}\tnumber:1.0",
        f"SELECT shop, n FROM dp_sql(?, epsilon := ?) {columns}\ttext:{query}\tnumber:1",
        "SELECT * FROM dp_hhh('sales', 'nothing')",
        "SELECT * FROM dp_hhh('sals', 'shop')",
        SPENT,
    ]
    before = spent(ann)
    with port_of(database.host) as port:
        address = f"jdbc:postgresql://127.0.0.1:{port}/{database.name}?user=ann"
        program = ["java", "-cp", jar, Path(__file__).with_name("Client.java")]
        done = subprocess.run(
            [*map(str, program), address, "dpframe"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    said = [line.split("\t") for line in done.stdout.splitlines()]
    rows = [line[1:] for line in said if line[0] == "row"]
    whole = ann.execute(HHH).fetchall()
    assert rows[: len(whole)] == [[str(value) for value in row] for row in whole]
    assert ["0", "*", '{"shop": null}', "n"] in [row[:4] for row in rows]
    assert {"shop 0", "shop 1", "shop 2"} <= {row[0] for row in rows if len(row) == 2}
    assert [line[1] for line in said if line[0] == "error"] == ["22023", "42P01"]
    assert spent(ann) <= before + 3
