"""What is heavy in bytes or revenue: arguments, words and numbers of ``hhh`` with a weight."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.doors.cli import main as cli
from dpframe.errors import ColumnError, DpframeError, ParameterError, ThresholdError
from dpframe.pages.page_parts import figure_text
from dpframe.testing import seeded_noise

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
BYTES: dict[str, Any] = {**BUDGET, "weight": "bytes", "max_weight": 1000}
NUMBERS = ["residual", "count", "lower", "upper"]


def traffic(n: int = 6_000) -> pd.DataFrame:
    """A few hosts with most of the bytes, and more rows elsewhere."""
    generator = np.random.default_rng(5)
    host = generator.choice(["a/heavy", "a/light", "b/many"], n, p=[0.2, 0.1, 0.7])
    mean = pd.Series(host).map({"a/heavy": 600.0, "a/light": 20.0, "b/many": 5.0})
    return pd.DataFrame(
        {
            "path": pd.Series(host, dtype="str"),
            "bytes": np.minimum(generator.exponential(1.0, n) * mean, 5000.0),
            "who": generator.integers(0, 900, n),
        }
    )


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return traffic()


# -- what comes out ------------------------------------------------------------------------------


def test_nodes_are_heavy_by_the_sum_and_not_by_their_rows(frame: pd.DataFrame) -> None:
    """Law: the heavy node is found, the one with most rows is not; by rows it is the other way."""
    with seeded_noise(1):
        heavy = frame.dp.hhh("path:path", **BYTES, threshold=200_000)
        many = frame.dp.hhh("path:path", **BUDGET, threshold=3_000)
    assert heavy["prefix"].tolist() == ["*", "a/heavy"]
    assert many["prefix"].tolist() == ["*", "b/many"]


def test_numbers_are_sums_of_what_is_not_cut_off(frame: pd.DataFrame) -> None:
    """Law: float64, multiples of max_weight / 256, adding up; the sums lie in the intervals, which
    those of what was cut off do not."""
    with seeded_noise(1):
        result = frame.dp.hhh("path:path", **BYTES)
    assert [str(t) for t in result[NUMBERS].dtypes] == ["float64"] * 4
    units = result[NUMBERS].to_numpy() / (1000 / 256)
    assert (units == np.round(units)).all()
    assert result["residual"].sum() == result["count"][0]
    cut = frame["bytes"].clip(upper=1000)
    below = result[result["prefix"] != "*"]
    assert set(below["prefix"]) >= {"a/heavy"}
    for prefix, lower, upper in zip(below["prefix"], below["lower"], below["upper"], strict=True):
        assert lower <= cut[frame["path"].str.startswith(prefix)].sum() <= upper
    assert result["lower"][0] <= cut.sum() <= result["upper"][0] < frame["bytes"].sum()


def test_users_count_up_to_the_bound_over_all_their_rows(frame: pd.DataFrame) -> None:
    with seeded_noise(1):
        result = frame.dp.hhh("path:path", **BYTES, user="who", remainder=True)
    total = frame.groupby("who")["bytes"].sum().clip(upper=1000).sum()
    assert result["lower"][0] <= total <= result["upper"][0]
    assert (
        result.dp.receipt["neighbours"]
        == "adding or removing one user ('who') with all their records"
    )


def test_noise_and_thresholds_are_those_of_a_record_times_the_bound() -> None:
    """Law: a bound times c makes every number of a plan times c, and no other number."""
    plans = [
        dp.explain("ip:src", **BUDGET, user="u", weight="b", max_weight=most).plan
        for most in (1.0, 0.25, 2.0**20)
    ]
    shares = dp.explain("ip:src", **BUDGET, user="u", contribution="share").plan
    for plan in plans:
        most = plan.unit.max_weight
        assert plan.laws == shares.laws
        assert plan.threshold == shares.threshold * most
        assert plan.threshold_units == shares.threshold * 256
        assert plan.band == shares.band
        assert plan.receipt()["noise"]["release"]["sd"] == shares.laws.release.sd / 256 * most
        assert (
            plan.certainly_reported >= (plan.threshold_units - plan.test_noise.lowest) * most / 256
        )
        assert plan.never_reported <= plan.band * most / 256


def test_a_threshold_need_not_be_whole(frame: pd.DataFrame) -> None:
    """Law: it is compared in units, rounded up; the receipt has it as it was given."""
    plan = dp.explain("path:path", **BUDGET, weight="b", max_weight=0.1, threshold=5.003).plan
    assert plan.threshold_units == math.ceil(5.003 / 0.1 * 256)
    assert plan.receipt()["threshold"] == 5.003
    smallest = dp.explain("path:path", **BUDGET, weight="b", max_weight=0.1).plan
    with pytest.raises(ThresholdError) as raised:
        dp.explain("path:path", **BUDGET, weight="b", max_weight=0.1, threshold=1)
    found = re.search(
        r"smallest private threshold (\S+) of 'b' with max_weight=0.1 ", str(raised.value)
    )
    assert found is not None
    again = dp.explain("path:path", **BUDGET, weight="b", max_weight=0.1, threshold=float(found[1]))
    assert again.plan.threshold_units == smallest.threshold_units
    assert "or lower max_weight" in str(raised.value)


def test_every_threshold_is_private_in_units() -> None:
    """Law: whatever the bound, the smallest threshold is that of the units, never below."""
    for most in (1e-200, 3.3e-7, 0.1, 1 / 3, 1.0, 1e6 + 0.1, 1e200):
        plan = dp.explain("path:path", **BUDGET, weight="b", max_weight=most).plan
        records = dp.explain("path:path", **BUDGET, user="u", contribution="share").plan.threshold
        assert plan.threshold_units == records * 256
        assert plan.test_noise.highest + 2 * 256 <= plan.threshold_units


# -- words ---------------------------------------------------------------------------------------


def test_the_receipt_and_the_card_speak_of_the_column(frame: pd.DataFrame) -> None:
    with seeded_noise(1):
        receipt = frame.dp.hhh("path:path", **BYTES).dp.receipt
    assert receipt["counts"] == (
        "bytes, the sum of column 'bytes', of which each row counts at most 1000"
    )
    assert (receipt["weight"], receipt["max_weight"]) == ("bytes", 1000.0)
    assert "row, which counts for at most 1000 of column 'bytes'" in receipt["guarantee"]
    assert "max_weight cuts off, which makes counts too low" in receipt["intervals"]
    assert "residual 'bytes' from which a node is reported" in str(receipt)
    assert "records" not in str(receipt)
    assert "weight" not in frame.dp.hhh("path:path", **BUDGET).dp.receipt
    users = dp.explain("path:path", **BYTES, user="who")
    assert "of which each user counts at most 1000" in str(users)


def test_a_total_that_may_be_0_is_noticed(frame: pd.DataFrame) -> None:
    """Law: by the released total alone: text that is no number and a bound far above all rows."""
    for most in (1000, 1e12):
        given = frame.assign(bytes=0.0) if most == 1000 else frame
        with seeded_noise(1):
            receipt = given.dp.hhh("path:path", **{**BYTES, "max_weight": most}).dp.receipt
        (said,) = receipt["notices"]
        assert "does column 'bytes' hold positive numbers" in said
    assert "notices" not in frame.dp.hhh("path:path", **BYTES).dp.receipt


# -- what is refused -----------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"weight": "bytes"}, "max_weight is missing. .* 'bytes' .* the data"),
    ({"max_weight": 5}, r"max_weight \(5\) needs weight="),
    *(
        ({"weight": "bytes", "max_weight": most}, "max_weight .*must be a number from 1e-200")
        for most in (0, -1, math.nan, math.inf, "5", True, 1e201)
    ),
    ({"weight": "", "max_weight": 5}, "weight .* must be the name of a column"),
    ({"weight": 3, "max_weight": 5}, "weight must be the name of a column"),
    ({"weight": "who", "max_weight": 5, "user": "who"}, "weight .* and user are the same column"),
    (
        {**BYTES, "user": "who", "contribution": "records", "max_contributions": 2},
        "contribution='records' does not go with weight",
    ),
    (
        {**BYTES, "user": "who", "contribution": "items"},
        r"weight \('bytes'\) does not go with contribution='items'",
    ),
    *(
        ({**BYTES, "mechanism": name, **more}, f"mechanism='{name}' adds up no weight")
        for name, more in (
            ("laplace", {}),
            ("gaussian", {}),
            ("streaming", {}),
            ("paper", {"acknowledge": True, "remainder": False}),
        )
    ),
    ({**BYTES, "threshold": 10}, r"threshold \(10\) is below the smallest private .*'bytes'"),
    ({**BYTES, "threshold": math.nan}, "threshold .*must be a number from"),
    ({"threshold": 100.5}, "threshold must be a whole number"),
]


@pytest.mark.parametrize(("given", "said"), BAD)
def test_what_does_not_go_together_is_refused(
    frame: pd.DataFrame, given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """Law: by the function and its explanation, in the same words, before anything is spent."""
    ledger = dp.Ledger(tmp_path / "l.db", epsilon=5.0, delta=1e-5)
    words = set()
    for call in (frame.dp.hhh, dp.explain):
        with pytest.raises(DpframeError, match=said) as raised:
            call("path:path", **{**BUDGET, **given}, ledger=ledger)
        words.add(str(raised.value))
    assert len(words) == 1
    assert ledger.spent.epsilon == 0


def test_columns_that_are_no_measure_are_refused(frame: pd.DataFrame) -> None:
    for column, said in (
        ("missing", "column 'missing' does not exist"),
        ("path", "column 'path' has type VARCHAR; a measure is read from numbers. Make numbers"),
    ):
        asked = {**BYTES, "weight": column}
        with pytest.raises(ColumnError, match=said) as given:
            frame.dp.hhh("path:path", **asked)
        with pytest.raises(ColumnError, match=said):
            frame.dp.explain("path:path", **asked)
        with duckdb.connect() as con:
            dp.register(con)
            con.register("t", frame)
            with pytest.raises(duckdb.Error, match="column"):
                con.sql(
                    f"FROM dp_hhh('t', 'path:path', epsilon := 1.0, delta := 1e-6, "
                    f"weight := '{column}', max_weight := 5)"
                ).fetchall()
        assert "a/heavy" not in str(given.value)


def test_what_a_refused_measure_says_to_write_is_read(frame: pd.DataFrame) -> None:
    df = frame.assign(bytes=frame["bytes"].astype(str))
    with pytest.raises(ColumnError) as raised:
        df.dp.hhh("path:path", **BYTES)
    found = re.search(r"in pandas (.*), in SQL (.*)\.$", str(raised.value))
    assert found is not None
    pd.testing.assert_series_equal(eval(found[1], {"df": df, "pd": pd}), frame["bytes"])
    assert duckdb.sql(f"SELECT {found[2]} FROM df LIMIT 1").fetchall() == [(frame["bytes"][0],)]


# -- doors ---------------------------------------------------------------------------------------


def test_the_command_line_reads_texts_of_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: CSV columns are texts, which read as numbers; what is none counts 0. What is printed has
    the digits that mean something."""
    file, out = tmp_path / "sales.csv", tmp_path / "out.json"
    file.write_text("country,revenue\n" + "UK,12.50\nFR,none\n" * 2_000)
    flags = ["--weight=revenue", "--max-weight=20.5", "--threshold=800.5", "--epsilon=2"]
    assert cli.main(["hhh", str(file), "columns:country", *flags, "--delta=1e-6", f"-o={out}"]) == 0
    rows = {row["prefix"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) == {"*", "UK"}
    assert abs(rows["UK"]["count"] - 25_000) <= 350  # the largest error that its noise can make
    assert f"{rows['UK']['count']:.2f} " in capsys.readouterr().out
    assert (
        cli.main(["hhh", str(file), "columns:country", *flags[:1], "--epsilon=1", "--delta=1e-6"])
        == 2
    )
    assert "Pass --max-weight" in capsys.readouterr().err


def test_duckdb_as_a_warehouse_counts_a_measure(frame: pd.DataFrame) -> None:
    """Law: the statement for DuckDB gives what the function gives; others refuse and say why."""
    made = dp.rollup_sql(
        "path:path",
        table="t",
        dialect="duckdb",
        types={"path": "varchar", "bytes": "double"},
        **BYTES,
    )
    con = duckdb.connect()
    con.register("t", frame)
    with seeded_noise(1):
        result = dp.hhh(candidates=con.sql(made.sql).to_arrow_table(), plan=made.plan)
    cut = frame["bytes"].clip(upper=1000).sum()
    assert result["lower"][0] <= cut <= result["upper"][0]
    for dialect in ("postgres", "spark", "bigquery", "snowflake"):
        with pytest.raises(ParameterError, match=f"128 bits, which dialect='{dialect}' lacks"):
            dp.rollup_sql("path:path", table="t", dialect=dialect, **BYTES)


def test_spark_says_that_it_adds_up_no_measure() -> None:
    """Before its session is asked for anything."""
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe", "sparkSession": None})
    with pytest.raises(ParameterError, match="Spark lacks"):
        dp.hhh(kind(), "path:path", **BYTES)


# -- shown and published -------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1000.0, 0.001])
def test_pages_and_tables_hold_the_released_numbers(
    frame: pd.DataFrame, tmp_path: Path, most: float
) -> None:
    """Law: none is cut to a whole number, on the page, in the figure, in files and databases."""
    scaled = frame.assign(bytes=frame["bytes"] * most / 1000)
    ledger = dp.Ledger(tmp_path / "l.db", epsilon=5.0, delta=1e-4)
    asked = {**BYTES, "max_weight": most, "ledger": ledger, "release": "heavy"}
    with seeded_noise(2):
        result = scaled.dp.hhh("path:path", **asked)
    receipt = result.dp.receipt
    page = tmp_path / "page.html"
    result.dp.report(page)
    text = page.read_text()
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    for name in NUMBERS:
        assert data[name] == result[name].tolist()
    assert data["area"][0] >= max(data["count"][0], 0)
    assert 10.0 ** -data["digits"] <= max(1.0, most / 256)
    assert figure_text(result["count"][0], receipt.digits) in text
    assert "<dt>Bytes</dt>" in text
    plotly = pytest.importorskip("plotly")
    assert plotly
    (trace,) = result.dp.plot(kind="icicle").data
    assert trace.values[0] == data["area"][0]
    assert f"count {figure_text(result['count'][0], receipt.digits)}" in trace.hovertext[0]
    listed = dp.publish(ledger, tmp_path / "results.duckdb")
    assert listed["threshold"].tolist() == [receipt["threshold"]]
    with duckdb.connect(str(tmp_path / "results.duckdb"), read_only=True) as con:
        stored = con.sql("SELECT * FROM heavy").df()
        said = con.sql(
            "SELECT comment FROM duckdb_columns() WHERE table_name = 'heavy' "
            "AND column_name = 'count'"
        ).fetchall()
    pd.testing.assert_frame_equal(stored[NUMBERS], result[NUMBERS])
    assert "the sum of column 'bytes', of which each row counts at most" in said[0][0]
    parquet = pq.read_table(tmp_path / "results_parquet" / "heavy.parquet").to_pandas()
    pd.testing.assert_frame_equal(parquet[NUMBERS], result[NUMBERS])
    result.loc[0, "count"] += 0.25
    assert "not the release" in result.dp.receipt["frame"]
