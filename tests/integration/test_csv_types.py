"""Declared types of CSV files: every row counts, and no row decides how another one is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpframe as dp
from dpframe._duck import VIEW
from dpframe.doors.cli.main import main
from dpframe.doors.series.declaration import as_source
from dpframe.sources import row_files
from dpframe.sources.source_relations import open_source

LARGE: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-3}
VALUES = [
    *("", "0", "-7", "+7", "007", " 12 ", "1.5", "1e3", "9" * 19, "9" * 400, "1_000", "0x1f"),
    *("nan", "inf", "-0", "1e999", "true", "T", "no", "2026-01-05", "2026-1-5", "2026-02-30"),
    *("99999-01-01", "infinity", "epoch", "2026-01-05 07:00:00", "2026-01-05T07:00:00+02"),
    *("NULL", "a", "Kölner", "''", "\u2028", "\0", "1\0", "0001-01-01 (BC)", "294248-01-01"),
]
LINES = [
    *(f"{value},{value},{value}\n" for value in VALUES),
    *(f'"{value}","{value}\n",x\n' for value in VALUES),
    *("1\n", "1,2\n", "1,2,3,4\n", ",,\n", "\n", '"1""2",3,4\n', '"1"2,3,4\n', "1,2,3\r\n"),
    *("1,2,3\r", "é" * 3_000 + ",1,2\n", "1," + "7" * 3_000_000 + ",3\n", "5,6,7\n"),
]


def rows(source: object) -> Counter[tuple[str | None, ...]]:
    """The rows as texts, by how often they occur."""
    with open_source(source, []) as relation:
        shown = ", ".join(f'CAST("{name}" AS VARCHAR) AS "{name}"' for name in "abc")
        found = relation.query(f"SELECT {shown} FROM {VIEW}", False)
    return Counter(tuple(row.values()) for row in found.to_pylist())


def expected(file: Path, kinds: tuple[str, ...]) -> Counter[tuple[str | None, ...]]:
    """The slow twin: every row is read as texts, and each of its texts is read alone."""
    out: Counter[tuple[str | None, ...]] = Counter()
    with duckdb.connect() as con:
        for values, times in rows(str(file)).items():
            read = [
                con.execute(f"SELECT TRY_CAST($1::VARCHAR AS {kind})::VARCHAR", [v]).fetchall()[0]
                for v, kind in zip(values, kinds, strict=True)
            ]
            out[tuple(text or None for (text,) in read)] += times
    return out


@pytest.mark.parametrize("kind", row_files.TYPES)
@pytest.mark.parametrize("written", ["utf-8", "latin-1"])
def test_a_declared_type_keeps_every_row(tmp_path: Path, kind: str, written: str) -> None:
    """Law: a file has the same rows with types and without; a text that is no value is missing."""
    file = tmp_path / "t.csv"
    file.write_bytes(("a,b,c\n" + "".join(LINES)).encode(written, "replace"))
    found = rows(dp.csv_file(file, types={"a": kind, "b": kind}))
    assert found == expected(file, (kind, kind, "VARCHAR"))
    assert found.total() > len(LINES) - 10


def test_a_reader_that_leaves_rows_out_is_rejected(tmp_path: Path) -> None:
    """A planted bug: DuckDB's reader, told the types, leaves out a row with a wrong value."""
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\nx,2,3\n")
    wanted = expected(tmp_path / "t.csv", ("BIGINT", "VARCHAR", "VARCHAR"))
    assert rows(dp.csv_file(tmp_path / "t.csv", types={"a": "bigint"})) == wanted
    columns = "{'a': 'BIGINT', 'b': 'VARCHAR', 'c': 'VARCHAR'}"
    scan = f"read_csv('{tmp_path}/t.csv', columns = {columns}, delim = ',', {row_files.LENIENT})"
    for planted in (scan, f"(SELECT TRY_CAST(a AS BIGINT) AS a FROM {text_scan(scan)})"):
        assert len(duckdb.sql(f"SELECT a FROM {planted}").fetchall()) < wanted.total()


def text_scan(scan: str) -> str:
    return scan.replace("BIGINT", "VARCHAR")


def test_one_row_changes_no_type(tmp_path: Path) -> None:
    """Law: rows of wrong values count as missing, and the others keep their type and order."""
    body = "day,v\n" + "2026-01-05,1\n2025-12-31,2\n" * 400
    for more in ("", "never,1\n", "2026-02-30,x\n", '"2026\n",1\n'):
        (tmp_path / "t.csv").write_text(body + more)
        source = dp.csv_file(tmp_path / "t.csv", types={"day": "DATE", "v": "BIGINT"})
        found = dp.hhh(source, ["day"], **LARGE)["day"].dropna()
        assert found.astype(str).tolist() == ["2025-12-31", "2026-01-05"]
        levels = dp.hhh(source, ["v"], **LARGE)
        assert levels["v"].dropna().astype(str).tolist() == ["1", "2"]


def test_every_door_takes_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("n;v\n" + "10;1\n" * 400 + "9;1\n" * 400)
    source = dp.csv_file("t.csv", delimiter=";", types={"n": "bigint"})
    told = dp.hhh(source, ["n"], **LARGE)
    assert told["n"].dropna().astype(str).tolist() == ["9", "10"]  # numbers in their order
    assert "CSV, delimiter ';', 'n' as BIGINT" in str(told.dp.receipt)
    assert "every other column is text" in str(told.dp.receipt)
    asked = ["hhh", "t.csv", "n", "--epsilon", "50", "--delta", "1e-3", "--quiet"]
    assert main([*asked, "--delimiter", ";", "--types", "n=BIGINT,v=DOUBLE", "-o", "o.json"]) == 0
    capsys.readouterr()
    declared = {"file": "t.csv", "delimiter": ";", "types": {"n": "BIGINT"}}
    for given in (declared, source):
        with as_source(given, tmp_path, "source").open("2026-11") as opened:
            assert isinstance(opened, row_files.File)
            assert opened.types == {"n": "BIGINT"}


def test_what_is_no_type_is_refused(tmp_path: Path) -> None:
    by_column = [({"a": kind}, "column 'a' cannot be") for kind in ("STRUCT(a INT)", 7, "INTT")]
    for given, said in [("BIGINT", "types must be as"), (["a"], "types must be as"), *by_column]:
        with pytest.raises(dp.ParameterError, match=said):
            dp.csv_file("t.csv", types=given)  # type: ignore[arg-type]
    with pytest.raises(dp.ParameterError, match="Leave delimiter, encoding, types out"):
        dp.csv_file("t.parquet", types={"a": "DATE"})
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(dp.ColumnError, match="'b'"):
        dp.hhh(dp.csv_file(tmp_path / "t.csv", types={"b": "DATE"}), ["a"], **LARGE)
