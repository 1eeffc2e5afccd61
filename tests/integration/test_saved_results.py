"""``result.dp.save``: every format, read back by what reads it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.doors.cli.output import FILES

FORMULA = "=1+1"


@pytest.fixture(scope="module")
def result() -> pd.DataFrame:
    rows = pd.DataFrame({"city": ["Paris"] * 900 + [FORMULA] * 700, "amount": 2.0})
    return rows.dp.rollup(
        ["city"], {"n": "count", "sold": "sum(amount, 0, 4)"}, epsilon=3.0, delta=1e-6
    )


def test_every_ending_is_written_and_read_back(result: pd.DataFrame, tmp_path: Path) -> None:
    """Law: the rows are those of the frame, texts are no formulas, and what can holds the
    receipt."""
    files = {ending: tmp_path / f"sales{ending}" for ending in FILES["output"]}
    for file in files.values():
        result.dp.save(file)
    known = result.reset_index(drop=True)
    for read in (pq.read_table, pyarrow.feather.read_table):
        table = read(files[".parquet" if read is pq.read_table else ".feather"])
        pd.testing.assert_frame_equal(table.to_pandas(), known, check_like=True)
        assert dp.verify(json.loads(table.schema.metadata[b"dpframe"]))
    sheets = pd.read_excel(files[".xlsx"], sheet_name=None)
    assert sheets["result"]["n"].tolist() == known["n"].tolist()
    assert FORMULA in set(sheets["result"]["city"])
    assert "guarantee" in set(sheets["privacy card"].iloc[:, 0]) | {
        sheets["privacy card"].columns[0]
    }
    told = json.loads(files[".json"].read_text("utf-8"))
    assert [row["n"] for row in told["rows"]] == known["n"].tolist()
    assert told["receipt"]["guarantee"] == result.dp.receipt["guarantee"]
    assert f"'{FORMULA}" in set(pd.read_csv(files[".csv"])["city"])
    result.dp.save(files[".csv"], unescaped=True)
    assert FORMULA in set(pd.read_csv(files[".csv"])["city"])
    assert "Privacy card" in files[".html"].read_text("utf-8")
    for ending in (".md", ".txt"):
        assert str(known["n"][0]) in files[ending].read_text("utf-8").replace(",", "")


def test_a_polars_result_and_some_rows_are_saved(result: pd.DataFrame, tmp_path: Path) -> None:
    frame = pl.DataFrame({"city": ["Paris"] * 900})
    frame.dp.tree_counts(["city"], epsilon=3.0, keys=["Paris"]).dp.save(tmp_path / "a.parquet")
    assert pl.read_parquet(tmp_path / "a.parquet")["prefix"].to_list()[1] == "Paris"
    result[result["level"] == 1].dp.save(tmp_path / "b.json")
    assert len(json.loads((tmp_path / "b.json").read_text("utf-8"))["rows"]) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sales", r"must end in \.txt or \.csv"),
        ("sales.xls", r"must end in"),
        ("none/sales.csv", "folder that does not exist"),
    ],
)
def test_other_paths_are_refused(
    result: pd.DataFrame, tmp_path: Path, name: str, said: str
) -> None:
    with pytest.raises(dp.errors.ParameterError, match=said):
        result.dp.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_frame_that_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dp.DpframeError):
        pd.DataFrame({"a": [1]}).dp.save(tmp_path / "a.csv")
