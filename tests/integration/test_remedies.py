"""Mistakes that people type, at every door: the answer names the value, and its remedy works."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.doors.cli import main as cli
from dpframe.errors import (
    ColumnError,
    DpframeError,
    ParameterError,
    ParameterTypeError,
)

FILE = resources.files("dpframe") / "data" / "flights.parquet"
B: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
wrongly: Any = dp
"""For calls that a type checker would refuse."""


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    frame = pd.read_parquet(str(FILE)).head(20_000)
    return frame.assign(when=pd.to_datetime(frame["date"]))


@pytest.fixture
def folder(tmp_path: Path, flights: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the flights are files: one, and two in a folder."""
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    for name in ("f.parquet", "logs/a.parquet", "logs/b.parquet"):
        flights.to_parquet(name)
    return tmp_path


def answer(call: Callable[[], object]) -> str:
    with pytest.raises(DpframeError) as raised:
        call()
    return str(raised.value)


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(cli.main(shlex.split(command)))
    assert ended.value.code == 2
    return capsys.readouterr().err


def works(command: str) -> None:
    assert cli.main([*shlex.split(command), "--quiet"]) == 0


# -- measures --------------------------------------------------------------------------------------

MEASURES = {
    "count(*)": "count",
    "count(*) AS flights": "count",
    "COUNT(origin)": "distinct(origin)",
    "count(distinct origin)": "distinct(origin)",
    "nunique(origin)": "distinct(origin)",
    "approx_count_distinct(origin)": "distinct(origin)",
    "size": "count",
    "total(hour, 0, 24)": "sum(hour, 0, 24)",
    "average(hour, 0, 24)": "mean(hour, 0, 24)",
    "sum(hour)": "sum(hour, 0, 500)",
    "avg(hour)": "mean(hour, auto, auto)",
}
"""Measures as other languages write them, and what to write here."""


def doors_of_measures(frame: pd.DataFrame, text: str) -> dict[str, Callable[[], object]]:
    """A measure at the doors that raise."""

    def series() -> object:
        report = {"name": "r", "question": "rollup", "by": ["carrier"], "measures": [text], **B}
        period = {"column": "when", "unit": "month", "first": "2013-01"}
        return dp.Series(reports=[report], source=frame, period=period, ledger="b.db")

    return {
        "accessor": lambda: frame.dp.rollup(["carrier"], measures=text, **B),
        "function": lambda: dp.rollup(frame, ["carrier"], measures=[text], **B),
        "lazy": lambda: pl.from_pandas(frame).lazy().dp.rollup(["carrier"], measures=text, **B),
        "explained": lambda: dp.explain_rollup(["carrier"], measures=text, **B),
        "series": series,
    }


@pytest.mark.parametrize("text", MEASURES)
def test_a_measure_of_another_language_is_told_ours(
    text: str, flights: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: at every door, and what it says to write is a measure."""
    remedy = MEASURES[text]
    for door, call in doors_of_measures(flights, text).items():
        said = answer(call)
        assert repr(text) in said, door
        assert repr(remedy) in said, door
    with closing(duckdb.connect()) as con:
        dp.register(con)
        con.register("f", flights)
        with pytest.raises(duckdb.Error) as raised:
            con.sql(
                f"FROM dp_rollup('f', 'carrier', measures := '{text}', epsilon := 1, delta := 1e-6)"
            ).fetchall()
        assert repr(remedy) in str(raised.value)
    command = "rollup f.parquet carrier --epsilon 1 --delta 1e-6 --measure"
    assert repr(remedy) in printed(f"{command} '{text}'", capsys)
    assert len(flights.dp.rollup(["carrier"], measures=remedy, **B)) > 3


SPREAD = {
    "max(hour)": "quantile(hour, 0.95, 0, 500)",
    "min(hour)": "median(hour, 0, 500)",
    "percentile(hour, 95)": "histogram(hour, 0, 500)",
    "median(hour)": "median(hour, 0, 500)",
    "quantile(hour, 0.5)": "quantile(hour, 0.5, 0, 500)",
}
"""Questions of how values are spread, and a measure that answers with bounds."""


@pytest.mark.parametrize("text", SPREAD)
def test_how_values_are_spread_is_told_by_quantiles(
    text: str, flights: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: no function is answered by one that is only written alike, as the mean is."""
    remedy = SPREAD[text]
    for call in doors_of_measures(flights, text).values():
        said = answer(call)
        assert "Did you mean" not in said
        assert repr(remedy) in said
    command = "rollup f.parquet carrier --epsilon 1 --delta 1e-6 --measure"
    assert repr(remedy) in printed(f"{command} '{text}'", capsys)
    assert len(flights.dp.rollup(["carrier"], measures=remedy, **B)) > 3
    name = text.partition("(")[0]
    if not hasattr(wrongly, name):
        with pytest.raises(AttributeError, match=r"'quantile\(amount, 0\.95, 0, 500\)'"):
            getattr(wrongly, name)


def test_names_of_python_that_are_nearly_right_are_told(flights: pd.DataFrame) -> None:
    """Law: of questions and of methods of a result, at each door; no name is guessed from afar."""
    owners: tuple[Any, ...] = (wrongly, flights.dp, pl.DataFrame(flights).dp)
    for owner in owners:
        for name in ("heavyhitters", "heavyHitters", "heavy_hitter"):
            with pytest.raises(AttributeError, match="Did you mean 'heavy_hitters'"):
                getattr(owner, name)
    with pytest.raises(AttributeError, match=r"a method of a result: result\.dp\.report"):
        _ = wrongly.report
    with pytest.raises(AttributeError, match=r"no 'describe'. It has: hhh"):
        _ = flights.dp.describe
    assert not hasattr(flights.dp, "_ipython_display_")


@pytest.mark.parametrize("macro", ["dp_hhh", "dp_explain", "dp_rollup", "dp_heavy_hitters"])
def test_a_call_in_sql_without_its_table_is_told(macro: str, flights: pd.DataFrame) -> None:
    """Law: whoever writes the columns first is told what comes first, and what then is missing."""
    with closing(duckdb.connect()) as con:
        dp.register(con)
        with pytest.raises(duckdb.Error, match=r"is missing\. The table comes first, as in dp_"):
            con.sql(f"FROM {macro}(['origin', 'dest'], epsilon := 1, delta := 1e-6)").fetchall()
        with pytest.raises(duckdb.Error, match="The table comes first"):
            con.sql(f"FROM {macro}('columns:origin', epsilon := 1, delta := 1e-6)").fetchall()


@pytest.mark.parametrize("text", ["people=count", "people = count", "people := count"])
def test_a_measure_with_its_name_first_is_told(
    text: str, flights: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remedy = "count AS people"
    command = "rollup f.parquet carrier --epsilon 1 --delta 1e-6 --measure"
    assert f"Write {remedy!r}" in printed(f"{command} '{text}'", capsys)
    works(f"{command} '{remedy}'")
    with pytest.raises(ParameterError, match=r"'sum\(hour, 0, 24\) AS hours'"):
        flights.dp.rollup(["carrier"], "hours=sum(hour, 0, 24)", **B)


def test_different_values_of_users_are_told_with_their_bound(
    flights: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: what is said to write does not fail next for want of a bound; 16 are taken without."""
    bounded, text = "distinct(origin, at_most=10)", "count(distinct origin)"
    rollup = lambda measures: flights.dp.rollup(  # noqa: E731
        ["carrier"], measures=measures, user="aircraft", **B
    )
    assert repr(bounded) in answer(lambda: rollup(text))
    command = "rollup f.parquet carrier --epsilon 1 --delta 1e-6 --user aircraft --measure"
    assert repr(bounded) in printed(f"{command} '{text}'", capsys)
    assert len(rollup(bounded)) > 3
    works(f"{command} '{bounded}'")
    usual = rollup("distinct(origin)").dp.receipt["measures"]["distinct_origin"]["spec"]
    assert usual == "distinct(origin, at_most=16)"
    works(f"{command} 'distinct(origin)'")


def test_a_measure_without_its_column_is_told_with_the_one_that_was_named(
    flights: pd.DataFrame,
) -> None:
    assert "Write 'sum(hour, 0, 500)'." in answer(
        lambda: flights.dp.rollup(["carrier"], measures={"hour": "sum"}, **B)
    )
    assert "Write 'distinct(origin)'." in answer(
        lambda: flights.dp.rollup(["carrier"], measures={"origin": "distinct"}, **B)
    )
    said = answer(lambda: flights.dp.rollup(["carrier"], measures="sum(*, 0, 5)", **B))
    assert "names no column" in said
    assert "hierarchies" not in said


def test_the_example_of_a_call_is_the_call() -> None:
    """Law: without what its docstring does with the result."""
    for call in (lambda: wrongly.sum("amt"), lambda: wrongly.sum("amt", lower=0)):
        said = answer(call)
        assert said.endswith('For example: dp.sum("amount", lower=0, upper=500)')
        assert eval(said.partition("For example: ")[2], {"dp": dp}).kind == "sum"
    assert answer(lambda: wrongly.count(column="amt")).endswith("are dp.distinct('COLUMN').")


# -- arguments -------------------------------------------------------------------------------------

MEANT = [
    ("hhh", "columns", "hierarchy"),
    ("hhh", "by", "hierarchy"),
    ("hhh", "min_count", "threshold"),
    ("hhh", "user_id", "user"),
    ("tree_counts", "by", "hierarchy"),
    ("rollup", "columns", "by"),
    ("rollup", "hierarchy", "by"),
    ("synthesize", "by", "columns"),
    ("heavy_hitters", "by", "column"),
]


@pytest.mark.parametrize(("question", "name", "meant"), MEANT)
def test_an_argument_of_another_name_is_told_ours(
    question: str,
    name: str,
    meant: str,
    flights: pd.DataFrame,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Law: what is meant, not what is written alike; on the command line where it stands."""
    said = f"{question} has no argument {name!r}. Did you mean {meant!r}?"
    assert answer(lambda: getattr(flights.dp, question)(**{name: ["carrier"]})) == said
    assert answer(lambda: getattr(dp, question)(flights, **{name: ["carrier"]})) == said
    report = {"name": "r", "question": question, name: "carrier"}
    period = {"column": "when", "unit": "month", "first": "2013-01"}
    told = answer(lambda: dp.Series(reports=[report], source=flights, period=period, ledger="b.db"))
    taken = {name, meant} == {"by", "hierarchy"}  # by reports of every question
    assert (f"no key {name!r}. Did you mean {meant!r}?" in told) != taken
    option, command = f"--{name.replace('_', '-')}", question.replace("_", "-")
    shown = printed(f"{command} f.parquet carrier {option} x", capsys)
    placed = meant in ("hierarchy", "by", "columns", "column")
    remedy = f"{command} FILE {meant.upper()}." if placed else f"'--{meant}'"
    assert remedy in shown
    assert "counters" not in shown


def test_what_a_question_lacks_on_purpose_is_told(
    flights: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: the next argument in the alphabet is no help to somebody who budgets delta."""
    said = answer(lambda: flights.dp.synthesize({"hour": (0, 24)}, **B))
    assert said.endswith(
        "has no argument 'delta'. Its guarantee is pure, with delta 0. Leave it out."
    )
    assert "Leave it out" in printed("synthesize f.parquet number:hour --delta 1e-6", capsys)
    assert flights.dp.synthesize({"hour": (0, 24)}, epsilon=1.0).receipt.delta == 0
    said = answer(lambda: wrongly.hhh(flights, ["carrier"], date="when", **B))
    assert "'date:COLUMN'. Records of one time are chosen by period." in said
    assert "--data" not in printed("hhh f.parquet carrier --date when", capsys)
    assert "counted by tree_counts" in answer(lambda: flights.dp.hhh(["carrier"], keys=["AA"], **B))


def test_columns_that_are_written_with_a_comma(
    flights: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: what is said to write is read at every door; a list of Python would not be."""
    remedy = "columns:carrier,origin"
    assert repr(remedy) in answer(lambda: flights.dp.hhh("carrier,origin", **B))
    assert repr(remedy) in printed("hhh f.parquet carrier,origin --epsilon 1 --delta 1e-6", capsys)
    budget = "--epsilon 1 --delta 1e-6"
    assert f"is one argument: {remedy}." in printed(
        f"hhh f.parquet carrier origin {budget}", capsys
    )
    works(f"hhh f.parquet {remedy} {budget}")
    assert len(flights.dp.hhh(remedy, **B)) == len(flights.dp.hhh(["carrier", "origin"], **B))


def test_categories_in_the_place_of_bounds(flights: pd.DataFrame) -> None:
    """Law: texts that are no times are categories, and are told how to be listed."""
    for call in (flights.dp.synthesize, lambda *a, **k: dp.synthesize(flights, *a, **k)):
        said = answer(lambda call=call: call({"carrier": ["AA", "UA"]}, epsilon=1.0))
        assert "time:" not in said
        assert said.endswith(": columns=['columns:carrier'], keys={'carrier': [...]}.")
    keys = {"carrier": ["AA", "UA"]}
    assert len(flights.dp.synthesize(["columns:carrier"], keys=keys, epsilon=1.0).sample(9)) == 9
    with pytest.raises(ParameterError, match="must be before"):
        flights.dp.synthesize({"when": ("2014-01-01", "2013-01-01")}, epsilon=1.0)
    with pytest.raises(ParameterError, match="upper must be a date or a time"):
        flights.dp.synthesize({"when": ("2014-01-01", "x")}, epsilon=1.0)


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (Decimal("0.5"), 0.5),
        (Decimal("0.1"), 0.1),
        (Fraction(1, 2), 0.5),
        (Fraction(1, 10), 0.1),
        (np.float32(0.5), 0.5),
        (np.float16(0.1), float(np.float16(0.1))),
        (np.longdouble(0.5), 0.5),
        (np.int64(1), 1.0),
    ],
)
def test_numbers_of_every_kind_are_budgets(
    given: Any, read: float, flights: pd.DataFrame, tmp_path: Path
) -> None:
    """Law: at every argument that is a number, and in totals of a ledger."""
    assert flights.dp.hhh(["carrier"], epsilon=given, delta=1e-6).dp.receipt.epsilon == read
    for frame in (
        flights.dp.tree_counts(["carrier"], epsilon=given, keys=["AA"]),
        flights.dp.rollup(["carrier"], measures="count", epsilon=given, delta=Decimal("1e-6")),
        flights.dp.heavy_hitters("carrier", epsilon=given, delta=1e-6, k=Decimal(3)),
    ):
        assert frame.dp.receipt.epsilon == read
    assert flights.dp.synthesize({"hour": (0, 24)}, epsilon=given).receipt.epsilon == read
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=given, delta=Decimal("1e-6"))
    assert ledger.left.epsilon == pytest.approx(read, abs=1e-12)
    assert ledger.left.delta == 1e-6


def test_a_number_that_no_float_is_gets_no_larger_budget(flights: pd.DataFrame) -> None:
    """Law: it is rounded down, as a promise must be."""
    for exact in (
        Fraction(1, 3),
        Fraction(2, 3),
        Fraction(1, 7),
        Decimal("0.30000000000000001665"),
    ):
        epsilon = dp.explain(["carrier"], epsilon=exact, delta=1e-6).plan.budget.epsilon
        assert epsilon - 1e-15 < Fraction(epsilon) <= Fraction(exact)
    for none in (Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), 10**400, -(10**400)):
        with pytest.raises(DpframeError, match="must be a finite number"):
            flights.dp.hhh(["carrier"], epsilon=none, delta=1e-6)
    for none in (True, "0.5", np.bool_(True), 1j):
        with pytest.raises(ParameterTypeError, match="must be a number"):
            flights.dp.hhh(["carrier"], epsilon=none, delta=1e-6)
    with pytest.raises(ParameterTypeError, match="whole number"):
        flights.dp.hhh(["carrier"], threshold=Decimal("99.5"), **B)


@pytest.mark.parametrize("given", ["1/3", "0,5"])
def test_an_option_that_is_no_number(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(f"hhh f.parquet carrier --epsilon {given} --delta 1e-6", capsys)
    assert f"--epsilon ({given!r}) must be a number, such as 0.5." in said


# -- files -----------------------------------------------------------------------------------------


def test_a_page_is_html(flights: pd.DataFrame, folder: Path) -> None:
    """Law: no file that promises another format holds a page, whoever writes it."""
    result = flights.dp.hhh(["carrier"], **B)
    generator = flights.dp.synthesize({"hour": (0, 24)}, epsilon=1.0)
    for ending in (".pdf", ".xlsx", ".parquet", ".md", ".ipynb", ""):
        said = answer(lambda e=ending: result.dp.report(f"page{e}"))
        assert "must end in .html or .htm." in said
        assert 'result.dp.save("x.xlsx")' in said
        assert "must end in .html or .htm." in answer(
            lambda e=ending: generator.report(f"page{e}", public=flights, n=9)
        )
    assert not list(Path().glob("page*"))
    for ending in (".html", ".htm", ".HTML"):
        result.dp.report(f"page{ending}")
    result.dp.save("page.xlsx")
    assert openpyxl.load_workbook("page.xlsx").sheetnames == ["result", "privacy card"]


def test_what_is_read_is_told(
    flights: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: folders, lists, addresses and statements are told what to pass, and it is read."""

    def asked(source: Any) -> Any:
        return dp.tree_counts(source, ["carrier"], keys=["AA"], epsilon=1.0)

    budget = "carrier --epsilon 1 --delta 1e-6"
    for path in ("logs", "logs/"):
        said = (
            "is a folder. Name the files in it by a pattern in quotation marks, 'logs/*.parquet'."
        )
        assert answer(lambda p=path: asked(p)).endswith(said)
        assert said in printed(f"hhh {path} {budget}", capsys)
    paths = ["logs/a.parquet", "logs/b.parquet"]
    assert "Pass one pattern, 'logs/*.parquet'" in answer(lambda: asked(paths))
    twice = asked("logs/*.parquet")["count"][0]
    assert abs(twice - 40_000) < 500
    assert abs(asked(pyarrow.dataset.dataset(paths))["count"][0] - twice) < 500
    works(f"hhh 'logs/*.parquet' {budget}")
    for address in ("https://example.org/a.parquet", "s3://bucket/a.csv", "hf://datasets/a"):
        assert "is an address. Download the file" in answer(lambda a=address: asked(a))
        assert "is an address" in printed(f"hhh {address} {budget}", capsys)
    local = f"file://{folder}/f.parquet"
    assert answer(lambda: asked(local)).endswith(f"Pass the path, '{folder}/f.parquet'.")
    assert len(asked(f"{folder}/f.parquet")) == 3
    assert "Pass a relation, duckdb.sql(" in answer(lambda: asked("SELECT * FROM flights"))


def test_objects_that_hold_a_frame_are_told_which(flights: pd.DataFrame) -> None:
    """Law: what is no source is named by its class, with what to pass in its place."""
    styler = type("Styler", (), {"__module__": "pandas.io.formats.style", "data": flights})()
    with closing(duckdb.connect()) as con:
        for source, remedy in (
            (styler, "Pass the frame itself: styler.data."),
            (flights.groupby("carrier"), "Pass the frame that is grouped."),
            (con, "Pass a relation of it: con.table('NAME') or con.sql('SELECT ...')."),
            (b"f.parquet", "Pass the path as text: os.fsdecode(path)."),
            (None, "Pass the frame or the path."),
        ):
            assert answer(lambda s=source: dp.hhh(s, ["carrier"], **B)).endswith(remedy)
    assert len(dp.hhh(styler.data, ["carrier"], **B)) > 3


@pytest.mark.parametrize("question", ["hhh", "rollup", "tree-counts", "synthesize"])
def test_a_pattern_that_the_shell_wrote_out(
    question: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: two files or more are told how to quote the pattern; that is read."""
    for more in ("", "logs/b.parquet"):
        said = printed(f"{question} logs/a.parquet logs/b.parquet {more} columns:carrier", capsys)
        assert "'logs/b.parquet' is a second file" in said
        assert said.endswith("Write the pattern in quotation marks: 'logs/*.parquet'.\n")
    works("hhh 'logs/*.parquet' columns:carrier --epsilon 1 --delta 1e-6")


def test_keys_of_a_command_are_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "tree-counts f.parquet columns:carrier --epsilon 1 --keys"
    assert "Name a file with the keys in its column carrier" in printed(f"{command} AA,UA", capsys)
    Path("keys.csv").write_text("carrier\nAA\nUA\n")
    works(f"{command} keys.csv")


@pytest.mark.parametrize(
    "path", [":memory:", "file::memory:", "file:a.db?mode=memory", "sqlite:///a.db"]
)
def test_a_ledger_is_a_file(path: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: no door makes a file of a name that another library reads as something else."""
    before = sorted(Path().iterdir())
    budget = "--epsilon 1 --delta 1e-6"
    for call in (
        lambda: dp.Ledger(path, epsilon=1.0, delta=1e-6),
        lambda: dp.use_ledger(path),
        lambda: dp.hhh("f.parquet", ["carrier"], ledger=path, **B),
        lambda: dp.register(duckdb.connect(), ledger=path),
    ):
        assert answer(call).startswith(f"ledger ({path!r}) is ")
    assert "is no name" in printed(f"ledger {path} {budget}", capsys) or "://" in path
    assert "ledger" in printed(f"hhh f.parquet carrier {budget} --ledger {path}", capsys)
    assert sorted(Path().iterdir()) == before
    Path("r.toml").write_text(
        f"ledger = {{path = {path!r}, epsilon = 1.0, delta = 1e-5}}\nsource = 'f.parquet'\n"
        "[period]\ncolumn = 'when'\nunit = 'month'\nfirst = '2013-01'\n[[report]]\nname = 'r'\n"
        "question = 'hhh'\nhierarchy = 'columns:carrier'\nepsilon = 0.1\ndelta = 1e-6\n"
    )
    assert "ledger" in printed("run r.toml --until 2013-01", capsys)
    assert sorted(p for p in Path().iterdir() if p.name != "r.toml") == before


def test_encrypted_parquet_is_named(folder: Path) -> None:
    """Law: what a file is follows from its ends, and no byte between them is told."""
    key = "0123456789112345"
    with closing(duckdb.connect()) as con:
        con.execute("SET force_mbedtls_unsafe = 'true'")
        con.execute(f"PRAGMA add_parquet_key('k', '{key}')")
        con.execute(
            "COPY (FROM read_parquet('f.parquet')) TO 'e.parquet' "
            "(ENCRYPTION_CONFIG {footer_key: 'k'})"
        )
        said = answer(lambda: dp.hhh("e.parquet", ["carrier"], **B))
        assert said.startswith("'e.parquet' is encrypted Parquet.")
        config = "encryption_config = {footer_key: 'k'}"
        relation = con.sql(f"FROM read_parquet('e.parquet', {config})")
        assert len(dp.hhh(relation, ["carrier"], **B)) > 3
    whole = Path("f.parquet").read_bytes()
    Path("half.parquet").write_bytes(whole[: len(whole) // 2])
    Path("empty.parquet").write_bytes(b"")
    Path("text.parquet").write_text("carrier,secret\nAA,4711\n")
    for name, what in (("half", "a part of one"), ("empty", "is empty"), ("text", "no Parquet")):
        said = answer(lambda n=name: dp.hhh(f"{n}.parquet", ["carrier"], **B))
        assert what in said
        assert "4711" not in said


def test_a_closed_connection_is_named(folder: Path) -> None:
    con = duckdb.connect()
    relation = con.sql("FROM read_parquet('f.parquet')")
    con.close()
    for call in (
        lambda: dp.hhh(relation, ["carrier"], **B),
        lambda: dp.rollup(relation, ["carrier"], measures="count", **B),
    ):
        assert "failed: its connection is closed." in answer(call)


# -- times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (pd.Period("2013-01-04", "W-SAT"), "2012-12-30..2013-01-05"),
        (pd.Period("2013-01-04", "W-SUN"), "2013-W01"),
        (pd.Period("2013-01-04", "Q-NOV"), "2012-12-01..2013-02-28"),
        (pd.Period("2013-01-04", "2D"), "2013-01-04..2013-01-05"),
        (pd.Period("2013-01-04 06:00", "6h"), "2013-01-04T06..2013-01-04T11"),
        (np.datetime64("2013-01-04"), "2013-01-04"),
        (np.datetime64("2013-01"), "2013-01"),
        (np.datetime64("2013"), "2013"),
        (np.datetime64("2013-01-04T06"), "2013-01-04T06"),
    ],
)
def test_periods_of_other_libraries_are_what_they_hold(
    given: Any, text: str, flights: pd.DataFrame
) -> None:
    """Law: where it is whole hours; the receipt says which."""
    result = flights.dp.tree_counts(["carrier"], keys=["AA"], epsilon=9.0, period=("when", given))
    assert result.dp.receipt["period"]["text"] == text
    if isinstance(given, pd.Period):
        inside = flights["when"].between(given.start_time, given.end_time).sum()
        assert abs(result["count"][0] - inside) < 9


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("W-SAT", "write its first and last day, '2026-11-15..2026-11-21'"),
        (np.datetime64("2013-01-04", "W"), "write the ISO week or the first and last day"),
        (np.datetime64("2013-01-04", "ns"), "pass value.astype('datetime64[D]') for the day"),
        (np.datetime64("NaT", "ns"), "Records without a time are None."),
        (pd.NaT, "Records without a time are None."),
        (pd.Period("2013-01-04 10:30", "min"), "pass value.asfreq('D') for the day"),
        (2013, "Write '2013', as one text."),
        (("2013-01-01", "2013-01-31"), "Write '2013-01-01..2013-01-31', as one text."),
    ],
)
def test_what_is_no_period_is_told_how_to_be_one(
    given: Any, remedy: str, flights: pd.DataFrame
) -> None:
    period: Any = ("when", given)
    assert remedy in answer(lambda: flights.dp.hhh(["carrier"], period=period, **B))
    for again in {
        "astype": lambda: given.astype("datetime64[D]"),
        "asfreq": lambda: given.asfreq("D"),
    }.items():
        if again[0] in remedy:
            period = ("when", again[1]())
            assert len(flights.dp.hhh(["carrier"], period=period, **B))


def test_weeks_of_a_series_are_those_of_iso_8601(flights: pd.DataFrame) -> None:
    period = {"column": "when", "unit": "W-SAT", "first": "2013-01-05"}
    report = {"name": "r", "question": "hhh", "hierarchy": "carrier", **B}
    assert "Weeks are those of ISO 8601, from Monday to Sunday." in answer(
        lambda: dp.Series(reports=[report], source=flights, period=period, ledger="b.db")
    )


@pytest.mark.parametrize(
    "keys",
    [
        ["2013-01"],
        ["2013-01-01"],
        [pd.Period("2013-01", "M")],
        [np.datetime64("2013-01")],
        np.array(["2013-01"], dtype="M8[M]"),
        pd.Series(["2013-01"], dtype="category"),
        pa.array(["2013-01"]),
        pl.Series(["2013-01"]),
        pd.DataFrame({"when": ["2013-01"]}),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_keys_of_months_are_months(keys: Any, flights: pd.DataFrame) -> None:
    """Law: as the result shows them, too, whatever holds them: all name the same nodes."""
    months = "date:when?levels=year,month"
    result = flights.dp.tree_counts(months, keys=keys, epsilon=9.0)
    assert result["prefix"].tolist()[:1] == ["*"]
    january = result[result["prefix"] == "2013-01"]["count"]
    inside = (flights["when"].dt.strftime("%Y-%m") == "2013-01").sum()
    assert abs(january.iloc[0] - inside) < 20
    same = flights.dp.tree_counts(months, keys=["2013-01-31"], epsilon=9.0)
    assert result.dp.receipt["keys"] == same.dp.receipt["keys"]


def test_keys_that_are_coarser_than_the_finest_level(flights: pd.DataFrame) -> None:
    """Law: the hierarchy that is said to take them takes them."""
    for call in (
        lambda by: flights.dp.tree_counts(by, keys=["2013-01"], epsilon=1.0),
        lambda by: flights.dp.rollup(by, keys=["2013-01"], measures="count", epsilon=1.0),
    ):
        said = answer(lambda call=call: call("date:when"))
        assert said.startswith("keys has '2013-01', a month, and date:when ends at hours.")
        assert said.endswith("List hours, or pass 'date:when?levels=year,month'.")
        assert len(call("date:when?levels=year,month")) >= 3
    said = answer(lambda: flights.dp.tree_counts(["when"], keys=["2013-01"], epsilon=1.0))
    assert "would show as '2013-01-01 00:00:00'" in said
    assert len(flights.dp.tree_counts(["when"], keys=["2013-01-01 00:00:00"], epsilon=1.0)) == 3


# -- types -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 60_000])
def test_numbers_of_16_bits_are_read(n: int, tmp_path: Path) -> None:
    """Law: exactly, at every door, on both sides of the size from which DuckDB counts."""
    half = np.array([0.5, 2, np.nan] * (n // 3), dtype=np.float16)
    table = pa.table({"x": half, "k": ["a"] * n})
    pq.write_table(table, tmp_path / "h.parquet")
    sources: list[Any] = [table, pd.DataFrame({"x": half, "k": "a"}), str(tmp_path / "h.parquet")]
    if hasattr(pl, "Float16"):
        frame = pl.from_arrow(table.select(["k"])).with_columns(
            pl.Series("x", half).cast(pl.Float16)
        )
        sources += [frame, frame.lazy(), nw.from_native(frame)]
    for source in sources:
        counts = dp.tree_counts(source, ["x"], keys=[0.5, 2.0], epsilon=9.0)
        frame = counts.to_pandas() if isinstance(counts, pl.DataFrame) else counts
        assert frame["prefix"].tolist() == ["*", "0.5", "2", "<other>"]
        assert np.abs(frame["count"].to_numpy() - [n, n / 3, n / 3, n / 3]).max() < 9
        total = dp.rollup(source, ["k"], measures="sum(x, 0, 4)", epsilon=9.0, delta=1e-6)
        shown = total.to_pandas() if isinstance(total, pl.DataFrame) else total
        assert abs(shown["sum_x"].iloc[0] - n * 2.5 / 3) < 20


def test_types_that_are_not_read_are_named_with_a_cast() -> None:
    """Law: by the type alone, with frames of no rows, too; the cast is read."""
    n = 900
    wide = pa.table({"x": pa.array([Decimal("1.500")] * n, pa.decimal256(50, 3))})
    int128 = getattr(pl, "Int128", None)  # of Polars 1.18
    huge = pl.DataFrame({"x": pl.Series([7] * n).cast(int128 or pl.Int64)})
    for source, kind in (
        (wide, "decimal256(50, 3)"),
        (wide.slice(0, 0), "decimal256(50, 3)"),
        (pa.table({"x": pa.array([[np.float16(1)]] * n)}), "list<item: halffloat>"),
        (huge, "Int128"),
        (huge.lazy(), "Int128"),
        (nw.from_native(huge), "Int128"),
        (huge.clear(), "Int128"),
    ):
        if kind == "Int128" and int128 is None:
            continue
        said = answer(lambda s=source: dp.hhh(s, ["x"], **B))
        assert f"column 'x' has type {kind}, which" in said
        assert "Cast it to" in said
        with pytest.raises(ColumnError, match="Cast it to"):
            dp.rollup(source, ["x"], measures="sum(x, 0, 9)", **B)
    for source in (
        wide.set_column(0, "x", wide["x"].cast(pa.float64())),
        wide.set_column(0, "x", wide["x"].cast(pa.decimal128(38, 3))),
        wide.set_column(0, "x", wide["x"].cast(pa.string())),
        huge.cast(pl.Int64),
        huge.cast(pl.String),
    ):
        assert len(dp.hhh(source, ["x"], **B)) == 2


def test_fields_of_structs_are_told_how_to_be_columns(flights: pd.DataFrame) -> None:
    places = [{"city": "NYC"}] * 900
    frames = [pd.DataFrame({"place": places}), pa.table({"place": places})]
    frames += [pl.DataFrame({"place": places}), duckdb.from_arrow(frames[1])]
    for frame in frames:
        for call in (
            lambda f=frame: dp.hhh(f, ["place.city"], **B),
            lambda f=frame: dp.rollup(f, ["place"], measures="sum(place.city, 0, 5)", **B),
            lambda f=frame: dp.hhh(f, ["place"], user="place.city", **B),
        ):
            said = answer(call)
            assert "column 'place.city' does not exist. Fields of column 'place'" in said
            assert "Did you mean" not in said
    frame = frames[0]
    assert len(dp.hhh(frame.assign(city=frame["place"].str["city"]), ["city"], **B)) == 2
    with closing(duckdb.connect()) as con:
        con.register("t", frames[1])
        assert len(dp.hhh(con.sql("SELECT place.city AS city FROM t"), ["city"], **B)) == 2


# -- others ----------------------------------------------------------------------------------------


def test_a_ledger_that_is_not_there_is_made_with_totals_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: where a release has an epsilon already, nobody is told to pass one."""
    said = answer(lambda: dp.hhh("f.parquet", ["carrier"], ledger="b.db", **B))
    call = "dp.Ledger(path, epsilon=3.0, delta=1e-5)"
    assert call in said
    release = "hhh f.parquet carrier --epsilon 1 --delta 1e-6 --ledger b.db"
    printed_ = printed(release, capsys)
    assert call in printed_
    command = "ledger PATH --epsilon 3 --delta 1e-5"
    assert f"dpframe {command}." in printed_
    assert cli.main(command.replace("PATH", "b.db").split()) == 0
    works(release)


def test_an_error_that_no_epsilon_keeps_for_want_of_delta(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Law: what is missing is said, not that the error should be larger."""
    for explain in (
        lambda **b: dp.explain(["carrier"], error=50, **b),
        lambda **b: dp.explain_rollup(["carrier"], measures="count", error=50, **b),
        lambda **b: dp.explain_heavy_hitters("carrier", error=50, k=5, **b),
    ):
        assert answer(explain).startswith("delta is missing")
        assert explain(delta=1e-6).plan.budget.epsilon > 0
    assert "delta is missing" in printed("explain columns:carrier --error 50", capsys)


def test_a_column_in_the_place_of_its_name(flights: pd.DataFrame) -> None:
    """Law: the message holds the name and no value of the column."""
    for frame in (flights, pl.from_pandas(flights)):
        for call in (
            lambda f=frame: f.dp.hhh(f["carrier"], **B),
            lambda f=frame: f.dp.rollup(f["carrier"], measures="count", **B),
            lambda f=frame: f.dp.tree_counts(f["carrier"], epsilon=1.0, keys=["AA"]),
        ):
            said = answer(call)
            assert said.endswith("Pass 'carrier'.")
            assert not any(repr(value) in said for value in flights["carrier"].unique())
    assert len(flights.dp.hhh(flights.columns[3:5], **B)) > 3


def test_arguments_of_a_command_in_another_order(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = "--epsilon 1 --delta 1e-6"
    said = printed(f"hhh columns:carrier f.parquet {budget}", capsys)
    assert "Write f.parquet columns:carrier." in said
    works(f"hhh f.parquet columns:carrier {budget}")
    for question, command in (("hhh", "explain"), ("tree_counts", "explain-tree-counts")):
        said = printed(f"explain {question} columns:carrier {budget}", capsys)
        assert f"Write dpframe {command} columns:carrier." in said
        assert cli.main(f"{command} columns:carrier {budget}".split()) == 0


def test_keys_in_a_set_or_a_range_are_told_to_be_listed(flights: pd.DataFrame) -> None:

    def ask(keys: Any) -> pd.DataFrame:
        return flights.dp.tree_counts(["hour"], keys=keys, epsilon=1.0)

    for keys in ({5, 6}, range(5, 7)):
        assert answer(lambda k=keys: ask(k)).endswith("Pass list(keys).")
        assert len(ask(list(keys))) == 4


def test_arguments_are_named_as_sql_takes_them(flights: pd.DataFrame) -> None:
    """Law: what a message of a macro says to pass is bound by DuckDB; ``delta = 1e-6`` is not."""
    with closing(duckdb.connect()) as con:
        dp.register(con)
        con.register("f", flights)
        for call, said, remedy in (
            ("dp_hhh('f', 'carrier', epsilon := 1", "pass delta :=, well", "delta := 1e-6"),
            ("dp_tree_counts('f', 'hour', epsilon := 1", "keys := [...] or", "keys := [5, 6]"),
            (
                "dp_hhh('f', 'carrier', epsilon := 1, delta := 1e-6, user := 'aircraft', "
                "contribution := 'records'",
                "contribution := 'records' needs max_contributions :=,",
                "max_contributions := 3",
            ),
        ):
            with pytest.raises(duckdb.Error) as raised:
                con.execute(f"FROM {call})")
            assert said in str(raised.value)
            assert len(con.execute(f"FROM {call}, {remedy})").fetchall()) > 2


def test_a_confidence_in_percent_and_a_text_file_of_another_name(
    folder: Path, flights: pd.DataFrame
) -> None:
    """Law: 95 is told as 0.95; a file that ends in .txt is read as what it is said to be."""
    said = answer(lambda: flights.dp.hhh(["carrier"], **B, confidence=95))
    assert said.endswith("Write 0.95.")
    assert not answer(lambda: flights.dp.hhh(["carrier"], **B, confidence=2)).endswith("0.02.")
    flights.head(2000).to_csv("rows.txt", index=False)
    assert "dp.csv_file(path)" in answer(lambda: dp.hhh("rows.txt", ["carrier"], **B))
    assert len(dp.hhh(dp.csv_file("rows.txt"), ["carrier"], **B)) > 1
