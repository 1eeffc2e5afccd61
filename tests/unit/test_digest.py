"""A frame that is not the release does not pass for it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.common.digest import DIGEST, frame_state, seal_frame
from tests.members import some

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
ROWS = pd.DataFrame({"a": ["x"] * 400 + ["y"] * 900, "b": ["p"] * 700 + ["q"] * 600, "n": 1.5})
ROWS["who"] = range(1300)


def stream(rows: pd.DataFrame) -> pd.DataFrame:
    counted = dp.StreamingHHH(["a", "b"])
    counted.update(rows)
    return counted.release(**BUDGET)


def sketch(rows: pd.DataFrame) -> pd.DataFrame:
    counted = dp.MisraGries(9)
    counted.update(rows["a"])
    return counted.release(**BUDGET)


def words(rows: pd.DataFrame) -> pd.DataFrame:
    small = {"length": 10, "alphabet": "xy", "iterations": 2}
    return dp.prefix_tree(rows, "a", user="who", **small, **BUDGET)


DRAWN: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "hhh": lambda rows: dp.hhh(rows, ["a", "b"], **BUDGET),
    "users": lambda rows: dp.hhh(rows, ["a", "b"], user="who", **BUDGET),
    "shares": lambda rows: dp.hhh(rows, ["a", "b"], user="who", contribution="share", **BUDGET),
    "tree": lambda rows: dp.tree_counts(rows, ["a", "b"], **BUDGET),
    "flat": lambda rows: dp.heavy_hitters(rows, "a", k=5, **BUDGET),
    "prefix": words,
    "stream": stream,
    "sketch": sketch,
    "cells": lambda rows: dp.synthesize(rows, {"n": (0, 2)}, epsilon=1.0, depth=4).counts(),
}


@pytest.fixture(scope="module", params=DRAWN)
def result(request: pytest.FixtureRequest) -> pd.DataFrame:
    return DRAWN[request.param](ROWS)


def shuffled(result: pd.DataFrame) -> pd.DataFrame:
    """Two columns of which one stands in another order."""
    part = result[["count", "upper"] if "upper" in result else ["count", result.columns[0]]]
    return part.assign(count=list(part["count"])[::-1])


CHANGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "other counts": lambda r: r.assign(count=r["count"] * 2),
    "one count": lambda r: r.assign(count=[*r["count"][:-1], r["count"].iloc[-1] + 1]),
    "a renamed column": lambda r: r.rename(columns={"count": "n"}),
    "a column for another": lambda r: r.drop(columns=["count"]).assign(mine=1),
    "a column shuffled alone": lambda r: shuffled(r),
    "numbers of fewer columns": lambda r: r[["count"]] + 1,
    "no column at all": lambda r: r[[]],
    "a sum": lambda r: r[["count"]].sum().to_frame().T.assign(count=r["count"].sum() + 0.5),
    "twice": lambda r: pd.concat([r, r]),
    "names shuffled": lambda r: r.assign(**{r.columns[1]: list(r[r.columns[1]])[::-1]}),
    "a row more": lambda r: pd.concat([r, r.tail(1)]),
}


@some(
    *("hhh-other counts", "hhh-numbers of fewer columns", "users-a renamed column", "users-a sum"),
    *("tree-a column shuffled alone", "flat-one count", "flat-no column at all"),
    *("prefix-a column for another", "stream-numbers of fewer columns", "sketch-a sum"),
    *("sketch-a renamed column", "cells-a column shuffled alone"),
)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_numbers_are_not_shown_with_the_receipt(
    result: pd.DataFrame, change: str, tmp_path: Path
) -> None:
    """The receipt says that the frame is not the release; pages and figures are refused."""
    changed = CHANGES[change](result)
    changed.attrs = result.attrs
    if change == "names shuffled" and result.iloc[:, 1].nunique() < 2:
        pytest.skip("one name")
    if change == "a column shuffled alone" and list(result["count"]) == list(result["count"])[::-1]:
        pytest.skip("the same either way round")
    says = "this frame is not the release that the receipt is of"
    receipt = changed.dp.receipt
    assert says in receipt["frame"]
    assert says in str(receipt)
    assert says in receipt._repr_html_()
    if "hierarchy" in receipt and not receipt["mechanism"].startswith("synthetic"):
        for show in (lambda: changed.dp.report(tmp_path / "page.html"), changed.dp.plot):
            with pytest.raises(dp.ParameterError, match=says):
                show()
        assert not (tmp_path / "page.html").exists()


def test_the_release_itself_and_its_rows_in_any_order_are_the_release(result: pd.DataFrame) -> None:
    for same in (result, result.copy(), result.iloc[::-1], result.sample(frac=1).reset_index()):
        assert "frame" not in same.drop(columns="index", errors="ignore").dp.receipt
    more = result.assign(share=0.5)
    assert more.dp.receipt["frame"] == "not part of the release: column 'share'"


def test_some_columns_of_the_release_are_an_extract(result: pd.DataFrame, tmp_path: Path) -> None:
    """Law: also of some rows in another order; what needs all columns says what is missing."""
    some = result[[result.columns[0], "count"]]
    missing = [name for name in result.columns if name not in some.columns]
    turned = some.iloc[::-1].head(2)
    for part in (some, turned, some.set_index(result.columns[0]), result[["count"]]):
        said = part.dp.receipt["frame"]
        assert "an extract of the release, without column" in said
        assert "not the release" not in said
        assert missing[0] in said
    if "hierarchy" in result.dp.receipt:
        for show in (lambda: some.dp.report(tmp_path / "page.html"), some.dp.plot):
            with pytest.raises(dp.ParameterError, match=r"has no column|shows nodes of"):
                show()
    assert not (tmp_path / "page.html").exists()


def test_a_very_long_release_knows_its_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: two bytes a cell have an end; what cannot be told is not claimed."""
    monkeypatch.setattr("dpframe.common.digest.CELLS", 8)
    long = seal_frame(pd.DataFrame({"a": range(9), "b": range(9)}), {})
    found = frame_state(long[["a"]])
    assert found is not None
    assert found.changed == "it has no column 'b'"
    assert frame_state(long.head(3)) == frame_state(long.tail(3))
    assert len(str(long.attrs[DIGEST])) < 200


def test_an_extract_says_so(tmp_path: Path) -> None:
    """On the card, on the page and under the title of the figure; and further columns stay away."""
    result = dp.hhh(ROWS, ["a", "b"], **BUDGET)
    part = result[result["level"] < 2].assign(secret="not released")
    n, said = len(part), f"an extract of the release: {len(part)} of {len(result)} rows"
    line = next(line for line in str(part.dp.receipt).splitlines() if line.startswith("frame"))
    assert line.split()[:2] == ["frame", "extract"]
    assert 0 < n < len(result)
    assert said in str(part.dp.receipt)
    part.dp.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert said.replace("an", "An", 1) in page
    assert "not released" not in page
    assert said in part.dp.plot().layout.title.subtitle.text
    result.dp.report(tmp_path / "page.html")
    assert "extract" not in (tmp_path / "page.html").read_text("utf-8")


def test_a_flat_frame_shows_its_own_columns(tmp_path: Path) -> None:
    """Columns that a page would take for those of nodes are not taken from outside the release."""
    found = dp.heavy_hitters(ROWS, "a", k=5, **BUDGET)
    found.assign(level=1, prefix="made up", residual=7).dp.report(tmp_path / "page.html")
    assert "made up" not in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    "way", ["pandas", "polars", "pyarrow types", "nullable", "objects", "float"]
)
def test_other_types_of_the_same_values_are_the_release(
    result: pd.DataFrame, way: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.parquet"
    result.to_parquet(path)
    numbers = result.select_dtypes("integer").columns
    again = {
        "pandas": lambda: pd.read_parquet(path),
        "pyarrow types": lambda: pd.read_parquet(path, dtype_backend="pyarrow"),
        "polars": lambda: pl.read_parquet(path).to_pandas(),
        "nullable": result.convert_dtypes,
        "objects": lambda: result.astype(object),
        "float": lambda: result.astype(dict.fromkeys(numbers, "float64")),
    }[way]()
    again.attrs = again.attrs or result.attrs
    assert again.attrs[DIGEST] == result.attrs[DIGEST]
    assert "frame" not in again.dp.receipt


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_digest_is_of_values_whatever_holds_them(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers, missing values, texts and times have one code in every type."""
    monkeypatch.setattr("dpframe.common.digest.AT_ONCE", at_once)
    times = pd.to_datetime(["2020-01-01", None])
    same: list[list[Any]] = [
        [pd.array([1, None], "Int64"), [1.0, np.nan], [Decimal("1.00"), None]],
        [["a", None], pd.Categorical(["a", None]), pd.array(["a", None], "string[pyarrow]")],
        [times.astype(f"datetime64[{unit}]") for unit in ("s", "us", "ns")],
        [np.float32([0.5, -2.0]), np.float64([0.5, -2.0])],
    ]
    different = [[1.0, 2.0], [1.0, 2.5], ["1", "2"], [-1, -2], [1.0, np.nan], [None, None]]
    for group in same:
        digests = {str(seal_frame(pd.DataFrame({"c": v}), {}).attrs[DIGEST]) for v in group}
        assert len(digests) == 1
    assert len({str(seal_frame(pd.DataFrame({"c": v}), {}).attrs[DIGEST]) for v in different}) == 6


def test_synthetic_rows_are_marked_when_they_were_changed() -> None:
    rows = dp.synthesize(ROWS, {"n": (0, 2)}, epsilon=1.0, depth=4).sample(500)
    assert "frame" not in rows.dp.receipt
    assert "frame" not in rows.sample(frac=1).dp.receipt
    for changed in (rows.assign(n=rows["n"] * 2), rows.head(9), pd.concat([rows, rows])):
        changed.attrs = rows.attrs
        assert "not the release" in changed.dp.receipt["frame"]
    with pytest.raises(dp.ParameterError, match="shows nodes of a hierarchy"):
        rows.dp.report("page.html")


def test_frames_of_older_versions_stay_readable(tmp_path: Path) -> None:
    """Where nothing says what was released, nothing is claimed; what a ledger holds is known."""
    result = dp.hhh(ROWS, ["a", "b"], **BUDGET)
    old = result.assign(count=7)
    del old.attrs[DIGEST]
    assert frame_state(old) is None
    assert "frame" not in old.dp.receipt
    old.dp.report(tmp_path / "page.html")
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-3)
    dp.hhh(ROWS, ["a", "b"], ledger=ledger, release="r", **BUDGET)
    recalled = ledger.recall("r")
    assert "frame" not in recalled.dp.receipt
    assert "not the release" in recalled.assign(count=7).dp.receipt["frame"]


def test_a_digest_is_a_function_of_released_numbers(tmp_path: Path) -> None:
    made = [seal_frame(pd.DataFrame({"n": [1, 2]}), {"release_id": i}).attrs[DIGEST] for i in "ab"]
    assert made[0] == made[1]
    none = {"p": pd.Series([], dtype=str), "n": np.array([], np.int64)}
    empty = seal_frame(pd.DataFrame(none), {})
    assert frame_state(empty) == frame_state(empty.copy())
    pa.Table.from_pandas(empty)
