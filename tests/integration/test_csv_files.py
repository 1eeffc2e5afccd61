"""CSV files in other forms than commas and UTF-8, and what is said of numbers in them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import dpframe as dp
from dpframe.doors.cli.main import main
from dpframe.hierarchy import as_hierarchy
from tests.rollups import exact_counts

BUDGET: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-3}
TEXT = "city,v\n" + "Köln,1\n" * 800 + "Berlin,2\n" * 400


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def counts(source: object) -> dict[str, int]:
    result = dp.hhh(source, ["city"], **BUDGET)
    return dict(zip(result["prefix"], result["count"], strict=True))


EXACT = {"*": 1200, "Berlin": 400, "Köln": 800}


def near(found: dict[str, int], expected: dict[str, int]) -> None:
    assert found.keys() == expected.keys()
    assert all(abs(found[key] - expected[key]) <= 3 for key in expected)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_rows_that_are_no_utf_8_are_counted(folder: Path, name: str) -> None:
    """Law: no row is left out for its bytes, and other encodings are read as such."""
    opened = gzip.open if name.endswith("gz") else open
    with opened(name, "wb") as file:
        file.write(TEXT.encode("latin-1"))
    near(counts(name), {"*": 1200, "Berlin": 400, r"K\xF6ln": 800})
    for encoding in ("latin-1", "cp1252"):
        near(counts(dp.csv_file(name, encoding=encoding)), EXACT)
    assert not list(folder.glob("dpframe-*"))


def test_one_row_that_is_no_utf_8_changes_no_other(folder: Path) -> None:
    """Law: a byte that is no text is one row's, even before a line break or a quote."""
    body = TEXT.encode()
    for row in (b"\xe9\n", b'"\xe9",1\n', b"\xe9,\xff\n", b"\xf0\x9f,1\n"):
        (folder / "rows.csv").write_bytes(body + row * 20 + b"Berlin,2\n" * 100)
        found = counts("rows.csv")
        assert found["Köln"] in range(797, 804)
        assert found["Berlin"] in range(497, 504)
        assert found["*"] in range(1317, 1324)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_told_and_read(
    folder: Path, delimiter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rows.csv").write_text(TEXT.replace(",", delimiter), encoding="utf-8")
    with pytest.raises(dp.ColumnError, match=r"Pass dp\.csv_file\('rows\.csv', delimiter="):
        counts("rows.csv")
    near(counts(dp.csv_file("rows.csv", delimiter=delimiter)), EXACT)
    asked = ["hhh", "rows.csv", "city", "--epsilon", "50", "--delta", "1e-3", "--quiet"]
    typed = delimiter.replace("\t", r"\t")
    assert main([*asked, "--delimiter", typed, "-o", "out.json"]) == 0
    assert "Köln" in (folder / "out.json").read_text(encoding="utf-8")
    capsys.readouterr()


def test_a_period_and_any_ending(folder: Path) -> None:
    rows = TEXT.replace(",1", ",2026-01-05").replace(",2\n", ",2026-02-05\n")
    (folder / "rows.txt").write_text(rows.replace(",", ";"), encoding="latin-1")
    source = dp.csv_file(folder / "rows.txt", delimiter=";", encoding="latin-1")
    result = dp.hhh(source, ["city"], period=("v", "2026-01"), **BUDGET)
    assert result["prefix"].tolist() == ["*", "Köln"]
    assert {"source", "period"} <= {line[0] for line in result.dp.receipt["card"]}
    (folder / "rows.txt").write_text(TEXT, encoding="utf-8")
    near(counts(dp.csv_file("rows.txt")), EXACT)


def test_utf_16_and_the_first_line_of_excel_are_told(folder: Path) -> None:
    (folder / "rows.csv").write_text(TEXT, encoding="utf-16")
    with pytest.raises(dp.SourceError, match="encoding='utf-16'"):
        counts("rows.csv")
    near(counts(dp.csv_file("rows.csv", encoding="utf-16")), EXACT)
    asked = ["hhh", "rows.csv", "city", "--epsilon", "50", "--delta", "1e-3", "--quiet"]
    assert main([*asked, "--encoding", "utf-16", "-o", "out.json"]) == 0
    for encoding in ("utf-16-le", "utf-16-be"):  # with the mark that these leave in the text
        (folder / "rows.csv").write_bytes(("\ufeff" + TEXT).encode(encoding))
        near(counts(dp.csv_file("rows.csv", encoding=encoding)), EXACT)
    (folder / "rows.csv").write_text("sep=;\n" + TEXT.replace(",", ";"))
    for source in ("rows.csv", dp.csv_file("rows.csv", delimiter=";")):
        with pytest.raises(dp.SourceError, match="Remove that line, and pass delimiter"):
            counts(source)


def test_what_is_no_delimiter_and_no_encoding_is_refused() -> None:
    for given in ("", ";;", '"', "\n", 7):
        with pytest.raises(dp.ParameterError, match="delimiter must be one character"):
            dp.csv_file("rows.csv", delimiter=given)  # type: ignore[arg-type]
    for given in ("utf-7", "shift_jis", "hex", "none", 7):
        with pytest.raises(dp.ParameterError, match=r"is not read\. Pass 'latin-1'"):
            dp.csv_file("rows.csv", encoding=given)  # type: ignore[arg-type]
    with pytest.raises(dp.ParameterError, match="is no CSV file"):
        dp.csv_file("rows.parquet", delimiter=";")


def test_cards_of_csv_say_what_is_read_as_a_number(folder: Path) -> None:
    """Law: the line stands on every release of CSV, whatever the rows are."""
    for rows in ("a,1\n" * 500, 'a,"1,250.00"\n' * 500, "a,$5\n" * 500, ""):
        (folder / "rows.csv").write_text("city,v\n" + rows)
        result = dp.rollup("rows.csv", ["city"], dp.sum("v", lower=0, upper=2000), **BUDGET)
        assert "1,250.00, $5 and 3,50 count nothing" in str(result.dp.receipt)
    (folder / "rows.csv").write_text("city;v\n")
    told = dp.hhh(dp.csv_file("rows.csv", delimiter=";"), ["city"], **BUDGET).dp.receipt
    assert "CSV, delimiter ';'" in str(told)


def test_series_read_other_delimiters(folder: Path) -> None:
    from dpframe.doors.series.declaration import as_source

    (folder / "rows.csv").write_text(TEXT.replace(",", ";"), encoding="latin-1")
    how = {"delimiter": ";", "encoding": "latin-1"}
    for given in ({"file": "rows.csv", **how}, dp.csv_file("rows.csv", **how)):  # type: ignore[arg-type]
        with as_source(given, folder, "source").open("2026-11") as source:
            near(counts(source), EXACT)


@pytest.mark.parametrize("cut", [b"K\xf6", b"K\xe2\x82"])
def test_bytes_that_are_cut_off_at_the_end_are_read(folder: Path, cut: bytes) -> None:
    """Law: the last row is as it is written, without a line end too."""
    Path("rows.csv").write_bytes(b"city\n" + b"Rome\n" * 3 + cut)
    label = "K" + "".join(rf"\x{byte:02X}" for byte in cut[1:])
    found = exact_counts("rows.csv", as_hierarchy(["city"]))
    assert found == {(): 4, ("Rome",): 3, (label,): 1}
