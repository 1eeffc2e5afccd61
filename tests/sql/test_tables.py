"""Which table a name means: temporary, shadowed, attached, changed, registered, as a file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from tests.members import some
from tests.sql.visits import HHH, LABELS, VISITS, Con, hhh, labels, said

pytestmark = pytest.mark.usefixtures("registered")


def filled(name: str, value: str, kind: str = "VARCHAR") -> str:
    return f"CREATE TABLE {name} AS SELECT {value}::{kind} AS k FROM range(500)"


def test_temporary_tables_and_views(con: Con) -> None:
    """Law: what only this connection sees is counted like any table, whatever its types."""
    con.execute(
        "CREATE TEMP TABLE t AS SELECT *, n::DOUBLE AS x, DATE '2020-01-01' + n::INTEGER AS day "
        "FROM visits"
    )
    con.execute("CREATE TEMP VIEW v AS FROM t")
    for name in ("t", "temp.t", "temp.main.t", "v"):
        assert labels(con, hhh(name)) == LABELS
        assert labels(con, hhh(name, "columns:n")) == ["*", "0", "1", "2"]
        assert labels(con, hhh(name, "columns:x")) == ["*", "0", "1", "2"]
        days = hhh(name, "date:day?levels=day")
        assert labels(con, days) == ["*", "2020-01-01", "2020-01-02", "2020-01-03"]


@pytest.mark.parametrize("kind", ["pandas", "Arrow"])
def test_registered_frames(con: Con, kind: str) -> None:
    frame = con.table("visits").df()
    con.register("frame", frame if kind == "pandas" else pa.Table.from_pandas(frame))
    assert labels(con, hhh("frame")) == LABELS
    assert labels(con, hhh("frame", "columns:n")) == ["*", "0", "1", "2"]
    assert labels(con, hhh(None, query="SELECT * FROM frame WHERE n < 2")) == LABELS[:3]


def test_a_frame_in_a_variable_of_python(con: Con) -> None:
    seen_in_python = pd.DataFrame({"k": ["here"] * 500})
    rows = con.execute(f"SELECT prefix FROM {hhh('seen_in_python')}").fetchall()
    assert rows == [("*",), ("here",)]
    assert len(seen_in_python) == 500


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_is_a_quoted_name(con: Con, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f'it\'s "odd".{ending}'
    (con.table("visits").write_parquet if ending == "parquet" else con.table("visits").write_csv)(
        str(path)
    )
    name = '"' + str(path).replace('"', '""') + '"'
    assert labels(con, hhh(name)) == LABELS


def test_a_temporary_table_hides_one_of_the_database(con: Con) -> None:
    """Law: the table that DuckDB would read is counted, or an error says how to name it."""
    con.execute(filled("t", "1", "INTEGER"))
    con.execute(filled("t", "'hiding'").replace("TABLE", "TEMP TABLE"))
    con.execute("ALTER TABLE temp.t ADD COLUMN only_here VARCHAR DEFAULT 'yes'")
    words = said(con, f"FROM {hhh('t')}")
    assert "column 'k' is INTEGER for other connections and has another type here" in words
    assert "temp.NAME" in words
    assert "write temp.NAME for a temporary table" in said(
        con, f"FROM {hhh('t', 'path:only_here')}"
    )
    assert labels(con, hhh("temp.t")) == ["*", "hiding"]
    assert labels(con, hhh("temp.t", "path:only_here")) == ["*", "yes"]
    assert labels(con, hhh("memory.main.t")) == ["*", "1"]
    for hierarchy in ("path:k", "code:k?lengths=1"):  # read either type: never an error
        assert labels(con, hhh("t", hierarchy))[1] in ("hiding", "h")


@some("DATE '2020-01-01'-'2020-01-01'", "1::DECIMAL(9, 2)-'a'", "1::UBIGINT-'x'::BLOB")
@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("DATE '2020-01-01'", "'2020-01-01'"),
        ("TIMESTAMPTZ '2020-01-01 00:00:00+00'", "1"),
        ("1::DECIMAL(9, 2)", "'a'"),
        ("true", "[1]"),
        ("uuid()", "{'a': 1}"),
        ("1::UBIGINT", "'x'::BLOB"),
        ("1::HUGEINT", "INTERVAL 1 DAY"),
    ],
)
def test_a_type_that_is_not_the_expected_one_is_an_error_of_ours(
    con: Con, there: str, here: str
) -> None:
    """Law: whatever the two types are, nothing is counted as something else; a type that the kind
    does not read is refused as such, whichever table it is of."""
    con.execute(f"CREATE TABLE t AS SELECT {there} AS k FROM range(500)")
    con.execute(f"CREATE TEMP TABLE t AS SELECT {here} AS k FROM range(500)")
    for call in (hhh("t"), hhh("t", "path:who", user="k"), hhh("t", "date:k")):
        words = said(con, f"FROM {call}")
        said_so = ("for other connections", "Other connections see the table so", "has type")
        assert any(part in words for part in said_so)


def test_use_and_search_path_decide(con: Con, tmp_path: Path) -> None:
    con.execute(f"ATTACH '{tmp_path}/other.db' AS \"an 'other'\"")
    con.execute("CREATE SCHEMA s")
    con.execute(filled("t", "1", "INTEGER"))
    con.execute(filled("\"an 'other'\".t", "'attached'"))
    con.execute(filled("s.t", "DATE '2020-01-01'", "DATE"))
    assert labels(con, hhh("t")) == ["*", "1"]
    assert labels(con, hhh("\"an 'other'\".t")) == ["*", "attached"]
    con.execute("USE \"an 'other'\"")
    assert labels(con, hhh("t")) == ["*", "attached"]
    assert labels(con, hhh("memory.main.t")) == ["*", "1"]
    con.execute("USE memory.s")
    assert labels(con, hhh("t")) == ["*", "2020-01-01"]
    con.execute("SET search_path = 's,main'")
    assert labels(con, hhh("t")) == ["*", "2020-01-01"]
    assert labels(con, HHH) == LABELS
    con.execute("RESET search_path")
    assert labels(con, hhh("t")) == ["*", "1"]


def test_tables_of_an_open_transaction(con: Con) -> None:
    """Law: rows and tables that are not committed count; a type that changed is an error."""
    con.execute("BEGIN")
    con.execute("INSERT INTO visits SELECT src, who, 'fresh', n FROM visits")
    assert labels(con) == ["*", "fresh", *LABELS[1:]]
    con.execute(filled("t", "'new'"))
    assert labels(con, hhh("t")) == ["*", "new"]
    con.execute("ALTER TABLE visits ALTER n TYPE VARCHAR")
    assert labels(con) == ["*", "fresh", *LABELS[1:]]
    assert "Commit changes to the table first" in said(con, f"FROM {hhh(hierarchy='columns:n')}")
    con.execute("ROLLBACK")
    con.execute("BEGIN")
    con.execute("ALTER TABLE visits ALTER n TYPE VARCHAR")
    con.execute("COMMIT")
    assert labels(con, hhh(hierarchy="columns:n")) == ["*", "0", "1", "2"]


def test_a_table_that_changes_between_two_runs(con: Con) -> None:
    """Law: a prepared statement counts the table as it is when it runs, or says what changed."""
    con.execute(f"PREPARE p AS SELECT prefix FROM {hhh(hierarchy='columns:n')}")
    con.execute("DELETE FROM visits WHERE n = 1")
    assert [r[0] for r in con.execute("EXECUTE p").fetchall()] == ["*", "0", "2"]
    con.execute("ALTER TABLE visits ALTER n TYPE VARCHAR")
    assert [r[0] for r in con.execute("EXECUTE p").fetchall()] == ["*", "0", "2"]
    con.execute("DROP TABLE visits")
    assert "does not exist" in said(con, "EXECUTE p")


def test_a_view_means_the_tables_of_its_own_database(tmp_path: Path) -> None:
    """Law: an unqualified name in a view is looked up where the view lives, as for any view."""
    with duckdb.connect(str(tmp_path / "one.db")) as con:
        con.execute(f"CREATE TABLE visits AS {VISITS}")
        dp.register(con)
        con.execute(f"CREATE VIEW heavy AS FROM {HHH}")
    with duckdb.connect() as con:
        dp.register(con)
        con.execute(f"ATTACH '{tmp_path}/one.db' AS one")
        assert labels(con, "one.heavy") == LABELS
        con.execute("CREATE TABLE visits AS SELECT 'other' AS k FROM range(500)")
        assert labels(con, "one.heavy") == LABELS
        con.execute("CREATE OR REPLACE TABLE visits AS SELECT 7 AS k FROM range(500)")
        assert "name the table in full" in said(con, "FROM one.heavy")
        con.execute("USE one")
        assert labels(con, "heavy") == LABELS


@some("empty", "NULL", "no text")
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("SELECT 'x' AS k WHERE false", ["*"]),
        ("SELECT 'x' AS k", ["*"]),
        ("SELECT NULL::VARCHAR AS k FROM range(500)", ["*", "<invalid>"]),
        ("SELECT NULL AS k FROM range(500)", ["*", "<invalid>"]),
        ("SELECT 'nan'::DOUBLE AS k FROM range(500)", ["*", "<invalid>"]),
        ("SELECT '' AS k FROM range(500)", ["*", "<invalid>"]),
        ("SELECT 'x' || i AS k FROM range(1000000) r(i)", ["*"]),
        ("SELECT if(i < 500, 'a', 'x' || i) AS k FROM range(100000) r(i)", ["*", "a"]),
    ],
    ids=[
        *("empty", "one row", "NULL", "NULL of no type", "NaN", "no text", "1e6 values"),
        "one heavy",
    ],
)
def test_tables_of_every_size(con: Con, rows: str, expected: list[str]) -> None:
    """Law: no table is too small or too diverse; without a remainder an empty one gives no row."""
    con.execute(f"CREATE TABLE t AS {rows}")
    con.execute("CREATE TEMP VIEW v AS FROM t")
    for name in ("t", "v"):
        assert labels(con, hhh(name)) == expected
        assert labels(con, hhh(name, remainder=False)) == expected[1:]


def test_many_candidates_keep_their_order(con: Con) -> None:
    """Law: a list of candidates that crosses into Python in pieces, on threads, is one tree."""
    con.execute("SET threads = 4")
    con.execute("SET preserve_insertion_order = false")
    con.execute(
        "CREATE TABLE t AS SELECT (i % 20) || '/' || (i % 1000) || '/' || (i % 20000) AS p "
        "FROM range(600000) r(i)"
    )
    call = hhh("t", "path:p?depth=3", epsilon=10.0, delta=1e-2, threshold=20)
    rows = con.execute(f"SELECT count(*), min(residual), max(residual), max(count) FROM {call}")
    nodes, low, high, total = rows.fetchall()[0]
    assert nodes == 20_001
    assert (low, high) > (-50, 20)
    assert high < 45
    assert abs(total - 600_000) < 5_000
