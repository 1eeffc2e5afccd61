"""Items are the same by whichever door users and their items come in."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli import main as cli
from dpframe.federated.encoding import LETTERS
from dpframe.ledger import open_file
from dpframe.pages.report import report_page
from dpframe.postprocess.flat import flat_frame
from dpframe.questions.prefix_tree.plan import PrefixPlan
from dpframe.testing import seeded_noise
from tests import members
from tests.doors import Answer, Door, World, accessor, command, function, in_turn, public, sql
from tests.integration.test_ledger_faults import held
from tests.members import some
from tests.published import content, rows

CENTRAL: dict[str, Any] = {
    "user": "who",
    "epsilon": 8.0,
    "delta": 1e-6,
    "mechanism": "laplace",
    "length": 15,
}
REPORTS: dict[str, Any] = {**CENTRAL, "mechanism": "reports", "epsilon": 4.0}


def typed(n: int = 6_000) -> pd.DataFrame:
    """Users with several items of every kind; some are missing, and so are some users."""
    generator = np.random.default_rng(7)
    heavy = (generator.zipf(1.6, n) - 1) % 24
    who = [None if i == 0 else f"user {i}" for i in generator.integers(0, 2_000, n)]
    day = pd.Timestamp("2026-11-01")
    texts = ("Ab", "b'c", "日本", "é", "👩‍👩‍👧‍👦", "", "a b", "e\u0301", None)
    frame = pd.DataFrame(
        {
            "who": pd.Series(who, dtype="str"),
            "id": generator.integers(0, 2_000, n),
            "word": pd.Series(
                [None if i == 9 else "abcdefgh"[i % 8] + "xyz"[i % 3] for i in heavy], dtype="str"
            ),
            "odd": pd.Series([texts[i % 9] for i in heavy], dtype="str"),
            "long": pd.Series(["x" * 3_000 if i == 0 else "ab" * i for i in heavy], dtype="str"),
            "number": heavy % 7 - 2,
            "real": np.where(heavy == 3, np.nan, heavy / 4),
            "day": pd.Series([day + pd.Timedelta(days=int(i % 3)) for i in heavy]).astype(
                "datetime64[us]"
            ),
            "yes": heavy % 2 == 0,
            "count": pd.Series(["abc"[i % 3] for i in heavy], dtype="str"),
        }
    )
    frame.loc[5, "long"] = "y" * 1_000_000
    return frame


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("doors")
    frame = typed()
    frame.to_parquet(folder / "rows.parquet")
    con = duckdb.connect(str(folder / "user.db"))
    con.read_parquet(str(folder / "rows.parquet")).create("typed")
    yield World(frame, folder / "rows.parquet", con)
    con.close()


# -- doors ---------------------------------------------------------------------------------------


def command_line(world: World, column: str, arguments: dict[str, Any]) -> Answer:
    frame, receipt = command(world, "prefix-tree", column, options(world, arguments))
    assert list(frame.columns[:2]) == ["level", "prefix"]
    assert (frame["prefix"] == frame.iloc[:, 2]).all()
    assert (frame["residual"] == frame["count"]).all()
    return flat_frame(frame, str(frame.columns[2]), None), receipt


def options(world: World, arguments: dict[str, Any]) -> list[str]:
    """Arguments as the command line takes them; items in a file."""
    out = []
    for name, value in arguments.items():
        if name == "conditioned":
            out += [] if value else ["--no-conditioned"]
            continue
        if name == "segments" and not isinstance(value, str):
            value = ",".join(map(str, value))
        if name in ("deny", "public"):
            file = world.parquet.with_name(f"{name}.txt")
            file.write_text("\n".join([*value, "", ""]), encoding="utf-8")
            value = file
        out.append(f"--{name.replace('_', '-')}={value}")
    return out


DOORS: dict[str, Door] = {
    "accessor": accessor("prefix_tree"),
    "function, pandas": function("prefix_tree", lambda world: world.frame),
    "function, Arrow": function("prefix_tree", lambda world: pa.Table.from_pandas(world.frame)),
    "function, Polars": function("prefix_tree", lambda world: pl.read_parquet(world.parquet)),
    "function, lazy Polars": function("prefix_tree", lambda world: pl.scan_parquet(world.parquet)),
    "function, DuckDB relation": function("prefix_tree", lambda world: world.con.table("typed")),
    "function, file": function("prefix_tree", lambda world: world.parquet),
    "command line": command_line,
    "SQL, table": sql("prefix_tree", "'typed'", "column"),
    "SQL, query": sql("prefix_tree", "query := 'SELECT * FROM typed -- all'", "column"),
}

# -- the law -------------------------------------------------------------------------------------

DIGITS = "-.0123456789"

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("words", "word", CENTRAL),
    ("words, reports", "word", REPORTS),
    ("gaussian", "word", {**CENTRAL, "mechanism": "gaussian"}),
    ("odd texts", "odd", {**CENTRAL, "alphabet": "ab'日é"}),
    ("long texts", "long", CENTRAL),
    ("whole numbers", "number", {**CENTRAL, "alphabet": DIGITS}),
    ("real numbers", "real", {**CENTRAL, "alphabet": DIGITS, "length": 20, "rounds": 2}),
    ("times", "day", {**CENTRAL, "alphabet": DIGITS + " :", "length": 60, "limit": 2**16}),
    ("booleans", "yes", {**CENTRAL, "alphabet": "truefals"}),
    ("numbers for users", "word", {**CENTRAL, "user": "id"}),
    ("a column like a number of the result", "count", CENTRAL),
    ("weighted, of all", "word", {**CENTRAL, "selection": "weighted", "conditioned": False}),
    ("segments", "word", {**CENTRAL, "segments": [6, 4, 5]}),
    ("even", "word", {**CENTRAL, "segments": "even", "iterations": 3}),
    ("small cells", "word", {**CENTRAL, "iterations": 8, "limit": 64, "false_positives": 0.1}),
    ("denied", "word", {**CENTRAL, "deny": ["ax", "AX", "日本", "it's"]}),
    ("huffman", "word", {**CENTRAL, "encoding": "huffman", "public": ["ax", "by", "日本"]}),
    ("rounds", "word", {**REPORTS, "rounds": 2, "iterations": 1, "confidence": 0.8}),
    ("removed", "word", {**REPORTS, "neighbours": "remove"}),
    ("shuffled", "word", {**REPORTS, "accountant": "shuffle"}),
    ("declared", "word", {**REPORTS, "devices": 1_500}),
    ("taking part", "word", {**REPORTS, "participation": 0.75}),
]
every_case = pytest.mark.parametrize(("column", "arguments", "doors"), in_turn(DOORS, CASES))


@some(
    "words",
    "gaussian",
    "whole numbers",
    "times",
    "a column like a number of the result",
    "even",
    "denied",
    "removed",
)
@every_case
def test_every_front_door_gives_the_same_items(
    world: World, column: str, arguments: dict[str, Any], doors: dict[str, Door]
) -> None:
    """Law: same rows, arguments and noise give equal frames, column types and receipts."""
    found = {}
    for name, door in doors.items():
        with seeded_noise(3):
            found[name] = door(world, column, arguments)
    expected, receipt = found["accessor"]
    assert len(expected) > 1
    check_shape(expected, column)
    for name, (result, card) in found.items():
        pd.testing.assert_frame_equal(result, expected, obj=name)
        assert public(card) == public(receipt), name


def check_shape(frame: pd.DataFrame, column: str) -> None:
    """The columns, types and order of the docstring."""
    label = f"{column}_" if column == "count" else column
    assert list(frame.columns) == [label, "count", "lower", "upper"]
    assert [str(t) for t in frame.dtypes][1:] == ["int64"] * 3
    assert isinstance(frame.index, pd.RangeIndex)
    order = list(zip(-frame["count"], frame[label], strict=True))
    assert order == sorted(order)
    assert ((frame["lower"] <= frame["count"]) & (frame["count"] <= frame["upper"])).all()


def test_the_law_of_front_doors_can_fail(world: World) -> None:
    """Negative control: other noise, in SQL and on the command line too, gives another frame."""
    for door in ("accessor", "SQL, table", "command line"):
        results = []
        for seed in (3, 4):
            with seeded_noise(seed):
                results.append(DOORS[door](world, "word", REPORTS)[0])
        assert not results[0].equals(results[1])


def test_every_door_explains_the_same(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: function, accessor, command line and SQL print one plan, for every case."""
    dp.register(world.con)
    users = world.frame["who"].nunique(dropna=False)  # as above: their plans are known by now
    for name, column, arguments in CASES:
        given = {"devices": users, **arguments}
        expected = dp.explain_prefix_tree(column, **given)
        assert str(world.frame.dp.explain_prefix_tree(column, **given)) == str(expected)
        named = "".join(f', "{argument}" := ${argument}' for argument in given)
        statement = f'FROM dp_explain_prefix_tree("column" := $c{named})'
        shown = world.con.execute(statement, {"c": column, **given}).df()
        assert shown.to_dict("list") == expected.to_frame().to_dict("list"), name
        assert cli.main(["explain-prefix-tree", column, *options(world, given)]) == 0
        assert capsys.readouterr().out.strip() == str(expected), name


# -- ledgers -------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "budget.db", epsilon=1000.0, delta=1e-2)


def run(world: World, *flags: str, column: str = "word") -> int:
    given = [*options(world, CENTRAL), *flags]
    return cli.main(["prefix-tree", str(world.parquet), column, *given])


def test_every_door_charges_once(world: World, ledger: dp.Ledger) -> None:
    """Law: one release costs a ledger the same by whichever door it came."""
    for name, door in DOORS.items():
        if name != "command line":  # takes the path of the ledger instead
            with dp.use_ledger(ledger):
                door(world, "word", CENTRAL)
    assert run(world, f"--ledger={ledger.path}") == 0
    spent = ledger.releases()
    assert len(spent) == len(DOORS)
    assert spent[["epsilon", "delta", "hierarchy", "neighbours"]].drop_duplicates().shape[0] == 1


def test_a_name_replays_by_every_door_without_the_data(
    world: World, ledger: dp.Ledger, tmp_path: Path
) -> None:
    """Law: identical, free, and nothing is read: the source may be empty or gone."""
    file = tmp_path / "rows.parquet"
    world.frame.to_parquet(file)
    con = duckdb.connect()
    con.execute(f"CREATE TABLE typed AS FROM '{file}'")
    here = World(world.frame.copy(), file, con)
    asked = {**CENTRAL, "ledger": ledger}
    first = {
        "pandas": here.frame.dp.prefix_tree("word", **asked, release="pandas"),
        "file": dp.prefix_tree(file, "word", **asked, release="file"),
    }
    flags = [f"--ledger={ledger.path}", "--release=command", "-o"]
    assert run(here, *flags, str(tmp_path / "1.parquet")) == 0
    dp.register(con, ledger=ledger)
    named = ", ".join(f'"{k}" := ${k}' for k in CENTRAL)
    statement = f"FROM dp_prefix_tree('typed', 'word', {named}, release := 'sql')"
    rows_of_sql = con.execute(statement, CENTRAL).fetchall()
    charged = ledger.releases()["release"].tolist()
    assert charged == ["pandas", "file", "command", "sql"]

    file.unlink()
    con.execute("DROP TABLE typed")
    nobody = here.frame.head(0)
    assert nobody.dp.prefix_tree("word", **asked, release="pandas").equals(first["pandas"])
    assert dp.prefix_tree(file, "word", **asked, release="file").equals(first["file"])
    assert run(here, *flags, str(tmp_path / "2.parquet")) == 0
    one, two = (pq.read_table(tmp_path / f"{n}.parquet") for n in (1, 2))
    assert one.equals(two)
    assert con.execute(statement, CENTRAL).fetchall() == rows_of_sql
    assert ledger.releases()["release"].tolist() == charged


def test_a_name_stands_for_one_request(
    world: World, ledger: dp.Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: other arguments under the same name are refused, by every door, without a charge."""
    flags = [f"--ledger={ledger.path}", "--release=r"]
    assert run(world, *flags) == 0
    for other in ("--epsilon=7", "--rounds=2", "--devices=1000", "--no-conditioned"):
        assert run(world, *flags, other) == 2
        assert "'r'" in capsys.readouterr().err
    with pytest.raises(dp.ReleaseNameError):
        dp.prefix_tree(world.parquet, "odd", **CENTRAL, ledger=ledger, release="r")
    assert len(ledger.releases()) == 1


def damaged(path: Path) -> None:
    path.write_bytes(b"no ledger, only text\n" * 400)


@pytest.mark.parametrize("broken", [damaged, Path.unlink], ids=["damaged", "gone"])
def test_a_ledger_that_cannot_be_used_stops_every_door(
    world: World, ledger: dp.Ledger, broken: Callable[[Path], object], monkeypatch: Any, capsys: Any
) -> None:
    """Law: nothing is drawn without the charge, whatever happened to the ledger."""
    monkeypatch.setattr(PrefixPlan, "run", None)  # a draw would be a TypeError
    dp.register(world.con, ledger=ledger)
    broken(ledger.path)
    with pytest.raises(dp.LedgerError):
        world.frame.dp.prefix_tree("word", **CENTRAL, ledger=ledger)
    named = ", ".join(f'"{k}" := ${k}' for k in CENTRAL)
    with pytest.raises(duckdb.Error, match="LedgerError"):
        world.con.execute(f"FROM dp_prefix_tree('typed', 'word', {named})", CENTRAL)
    assert run(world, f"--ledger={ledger.path}") == 2
    said = capsys.readouterr().err
    assert "ledger" in said
    assert "Traceback" not in said


def test_a_locked_ledger_stops_every_door(
    world: World, ledger: dp.Ledger, monkeypatch: Any, capsys: Any
) -> None:
    """Law: who cannot charge in time draws nothing; later it works."""
    monkeypatch.setattr(open_file, "BUSY", 0.3)
    dp.register(world.con, ledger=ledger)
    named = ", ".join(f'"{k}" := ${k}' for k in CENTRAL)
    statement = f"FROM dp_prefix_tree('typed', 'word', {named})"
    with held(ledger.path, "BEGIN IMMEDIATE"):
        with pytest.raises(dp.LedgerError, match="is locked by another process"):
            world.frame.dp.prefix_tree("word", **CENTRAL, ledger=ledger)
        with pytest.raises(duckdb.Error, match="is locked by another process"):
            world.con.execute(statement, CENTRAL)
        assert run(world, f"--ledger={ledger.path}") == 2
        assert "is locked by another process" in capsys.readouterr().err
    assert len(ledger.releases()) == 0
    assert len(world.con.execute(statement, CENTRAL).fetchall()) > 1
    assert len(ledger.releases()) == 1


def test_what_cannot_be_paid_is_not_drawn(world: World, tmp_path: Path, capsys: Any) -> None:
    small = dp.Ledger(tmp_path / "small.db", epsilon=1.0, delta=1e-5)
    dp.register(world.con, ledger=small)
    named = ", ".join(f'"{k}" := ${k}' for k in CENTRAL)
    with pytest.raises(dp.OverBudgetError):
        dp.prefix_tree(world.frame, "word", **CENTRAL, ledger=small)
    with pytest.raises(duckdb.Error, match="OverBudgetError"):
        world.con.execute(f"FROM dp_prefix_tree('typed', 'word', {named})", CENTRAL)
    assert run(world, f"--ledger={small.path}") == 2
    assert "epsilon" in capsys.readouterr().err
    assert len(small.releases()) == 0


# -- mistakes ------------------------------------------------------------------------------------

WRONG: list[tuple[list[str], tuple[str, ...]]] = [
    (["--epsilon=0"], ("epsilon (0.0)", "0.0001")),
    (["--epsilon=nan"], ("epsilon (nan)",)),
    (["--epsilon=-1"], ("epsilon (-1.0)",)),
    (["--delta=1"], ("delta (1.0)",)),
    (["--user=whom"], ("column 'whom' does not exist", "Did you mean 'who'")),
    (["--segments=adptive"], ("segments ('adptive')", "Did you mean 'adaptive'")),
    (["--segments=5,5"], ("segments (5, 5)", "add up to length (15)")),
    (["--segments=5;10"], ("segments ('5;10')", "commas")),
    (["--segments="], ("segments ('')",)),
    (["--selection=weight"], ("selection ('weight')", "Did you mean 'weighted'")),
    (["--encoding=hufman"], ("encoding ('hufman')", "Did you mean 'huffman'")),
    (["--encoding=huffman"], ("needs --public,",)),
    (["--mechanism=laplce"], ("mechanism ('laplce')", "Did you mean 'laplace'")),
    (["--accountant=agregate"], ("accountant ('agregate')", "Did you mean 'aggregate'")),
    (["--neighbours=replaced"], ("neighbours ('replaced')", "Did you mean 'replace'")),
    (["--devices=3000"], ("devices (3,000)", "users of the source")),
    (["--deny=nowhere.txt"], ("deny ('nowhere.txt') does not exist", "one item a line")),
    (["--deny=."], ("deny ('.') is a folder",)),
    (["--public=nowhere.txt", "--encoding=huffman"], ("public ('nowhere.txt') does not exist",)),
    (["--release=r"], ("needs --ledger",)),
    (["--report=page.txt"], ("report ('page.txt') must end in .html",)),
    (["-o", "out.xls"], ("output ('out.xls') must end in",)),
]


@pytest.mark.parametrize(("flags", "words"), WRONG, ids=[" ".join(f) for f, _ in WRONG])
def test_a_mistake_on_the_command_line_is_named(
    world: World, flags: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: exit code 2, the argument, its value and the rule, and no traceback."""
    assert run(world, *flags) == 2
    done = capsys.readouterr()
    assert done.out == ""
    for word in words:
        assert word in done.err


def test_what_is_missing_is_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: user, epsilon and delta have no default; a plan needs devices."""
    for name in ("user", "epsilon", "delta"):
        flags = options(world, {k: v for k, v in CENTRAL.items() if k != name})
        assert cli.main(["prefix-tree", str(world.parquet), "word", *flags]) == 2
        assert f"{name} is missing" in capsys.readouterr().err
    assert cli.main(["explain-prefix-tree", "word", *options(world, CENTRAL)]) == 2
    assert "devices is missing" in capsys.readouterr().err
    assert run(world, column="wrod") == 2
    assert "column 'wrod' does not exist. Did you mean 'word'" in capsys.readouterr().err
    gone = str(world.parquet.with_name("gone.parquet"))
    assert cli.main(["prefix-tree", gone, "word", *options(world, CENTRAL)]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_files_of_items_are_lines_of_utf_8(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: ends of lines, a mark in front and empty lines are no items; other bytes are told."""
    file = tmp_path / "deny.txt"
    plans = []
    for data in ("ax\nby\n", "\ufeffax\r\nby\r\n", "\nby\n\nax", "ax\rby"):
        file.write_bytes(data.encode())
        given = [*options(world, CENTRAL), "--devices=2000", f"--deny={file}"]
        assert cli.main(["explain-prefix-tree", "word", *given]) == 0
        plans.append(capsys.readouterr().out)
    assert len(set(plans)) == 1
    assert "deny list" in plans[0]
    file.write_bytes(b"ax\n\xff\xfe")
    assert run(world, f"--deny={file}") == 2
    assert "is not UTF-8" in capsys.readouterr().err


FEW = pd.DataFrame({"who": ["sEcReT"], "word": ["sEcReT"]})


@members.in_turn(("mechanism", ["reports", "laplace"]), ("rows", [0, 1]))
def test_hardly_any_rows(rows: int, mechanism: str, tmp_path: Path, capsys: Any) -> None:
    """Law: reports of nobody hide nobody, an error that says so; central noise gives a frame."""
    frame = FEW.head(rows)
    frame.to_parquet(tmp_path / "few.parquet")
    con = duckdb.connect()
    con.execute(f"CREATE TABLE few AS FROM '{tmp_path}/few.parquet'")
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=100.0, delta=1e-2)
    dp.register(con, ledger=ledger)
    asked = {**CENTRAL, "mechanism": mechanism}
    named = ", ".join(f'"{k}" := ${k}' for k in asked)
    flags = [f"--{k}={v}" for k, v in asked.items()]
    line = ["prefix-tree", str(tmp_path / "few.parquet"), "word", *flags, f"--ledger={ledger.path}"]

    def by_sql() -> object:
        return con.execute(f"FROM dp_prefix_tree('few', 'word', {named})", asked).fetchall()

    if mechanism == "reports":
        with pytest.raises(dp.BudgetError, match="too few to hide each other"):
            dp.prefix_tree(frame, "word", **asked, ledger=ledger)
        with pytest.raises(duckdb.Error, match="too few to hide each other") as raised:
            by_sql()
        assert "sEcReT" not in str(raised.value)
        assert cli.main(line) == 2
        done = capsys.readouterr()
        assert "too few to hide each other" in done.err
        assert "sEcReT" not in done.err + done.out
        assert len(ledger.releases()) == 0
    else:
        found = dp.prefix_tree(frame, "word", **asked, ledger=ledger)
        assert list(found.columns) == ["word", "count", "lower", "upper"]
        by_sql()
        assert cli.main(line) == 0
        assert len(ledger.releases()) == 3


# -- files, reports, publishing ------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "csv", "json", "html"])
def test_the_command_line_writes_every_format(world: World, tmp_path: Path, ending: str) -> None:
    """Law: the rows are the same in every file, and a report goes beside them."""
    out, report = tmp_path / f"out.{ending}", tmp_path / "report.html"
    with seeded_noise(2):
        assert run(world, "-o", str(out), "--report", str(report)) == 0
    with seeded_noise(2):
        expected = world.frame.dp.prefix_tree("word", **CENTRAL)
    if ending == "parquet":
        found = pd.read_parquet(out)
        receipt = receipt_in_metadata(pq.read_schema(out).metadata)
        assert receipt is not None
        assert receipt["mechanism"] == "prefix-laplace"
    elif ending == "csv":
        found = pd.read_csv(out)
    elif ending == "json":
        document = json.loads(out.read_text("utf-8"))
        found = pd.DataFrame(document["rows"])
        assert document["receipt"]["user"] == "who"
    else:
        found = None
        assert expected["word"][0].rstrip("\u2026") in out.read_text("utf-8")
    if found is not None:
        pd.testing.assert_frame_equal(flat_frame(found, "word", None), expected, check_dtype=False)
    text = report.read_text("utf-8")
    assert "Frequent items of word" in text
    assert "in 1 level<" in text


def test_the_terminal_shows_the_largest_first(world: World, capsys: Any) -> None:
    with seeded_noise(2):
        flags = options(world, CENTRAL)
        assert cli.main(["prefix-tree", str(world.parquet), "word", *flags]) == 0
    shown, said = capsys.readouterr()
    with seeded_noise(2):
        expected = world.frame.dp.prefix_tree("word", **CENTRAL)
    lines = shown.splitlines()
    assert lines[0].split() == ["word", "count", "lower", "upper"]
    assert [line.split()[0] for line in lines[1:11]] == expected["word"].tolist()[:10]
    assert "Privacy card" in said


FLAT: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "prefix_tree": lambda frame: frame.dp.prefix_tree("word", **CENTRAL),
    "heavy_hitters": lambda frame: frame.dp.heavy_hitters("word", epsilon=1.0, delta=1e-6, k=5),
}


@pytest.mark.parametrize("name", FLAT)
def test_flat_frames_have_reports_and_plots(world: World, tmp_path: Path, name: str) -> None:
    """Law: a page and a figure of the rows that are there, sorted or filtered by the caller."""
    result = FLAT[name](world.frame)
    some = result.sort_values("word").iloc[1:]
    for frame in (result, some):
        frame.dp.report(tmp_path / "page.html", title="Words")
        text = (tmp_path / "page.html").read_text("utf-8")
        data = json.loads(text.split('id="data">')[1].split("</script>")[0])
        assert data["prefix"] == frame["word"].tolist()
        assert data["count"] == data["residual"] == frame["count"].tolist()
        assert set(data["level"]) == {1}
        assert set(data["parent"]) == {-1}
        (trace,) = frame.dp.plot().data
        drawn = frame.sort_values("count", ascending=False, kind="stable")
        assert list(trace.x) == drawn["count"].tolist()
        said = [html.unescape(text.split("</b>")[0][3:]) for text in trace.hovertext]
        assert said == drawn["word"].tolist()
    assert list(result.columns) == ["word", "count", "lower", "upper"]  # left as it was
    for lacking in ("word", "count", "upper"):
        with pytest.raises(dp.ParameterError, match=f"has no column .{lacking}"):
            result.drop(columns=lacking).dp.report(tmp_path / "no.html")
    assert not (tmp_path / "no.html").exists()


def test_the_page_promises_what_the_receipt_says(world: World) -> None:
    """Law: neighbours, units and what single reports tell, in words, and nothing else."""
    result = world.frame.dp.prefix_tree("word", **REPORTS)
    receipt: Receipt = result.dp.receipt
    text = report_page(result, receipt)
    promise = text.split("<ul class='promise'>")[1].split("</ul>")[0].replace("&#x27;", "'")
    words = "two tables that differ by replacing all records of one user ('who') by any others"
    users = f"the number of users, {receipt['devices']:,}, is public"
    assert f"{words}; {users}. Whatever somebody may read off this page" in promise
    assert receipt["local_guarantee"] in promise
    assert receipt["counts"] in promise
    assert "can be negative" not in promise
    removed = world.frame.dp.prefix_tree("word", **{**REPORTS, "neighbours": "remove"})
    promise = report_page(removed, removed.dp.receipt)
    assert "differ by adding or removing all items of one user" in promise


def test_prefix_trees_are_published(world: World, tmp_path: Path, ledger: dp.Ledger) -> None:
    """Law: rows as they are, comments of items, facts in the list."""
    asked = {**CENTRAL, "ledger": ledger}
    dp.prefix_tree(world.frame, "word", **asked, release="words-1")
    dp.prefix_tree(world.frame, "count", **asked, release="counted-1")
    dp.publish(ledger, tmp_path / "results.duckdb")
    found = content(tmp_path / "results.duckdb")
    for table, name, label in (
        ("words_1", "words-1", "word"),
        ("counted_1", "counted-1", "count_"),
    ):
        columns = ["level", "prefix", label, "residual", "count", "lower", "upper"]
        assert list(found[table].columns) == columns
        pd.testing.assert_frame_equal(found[table], ledger.recall(name), check_dtype=False)
    listed = found["dp_releases"].set_index("release").loc["words-1"]
    receipt = ledger.recall("words-1").attrs["dp"]
    for fact in ("guarantee", "neighbours", "mechanism", "counts", "intervals", "epsilon"):
        assert listed[fact] == receipt[fact]
    assert listed["user_column"] == "who"
    assert listed["neighbours"].startswith(
        "replacing all records of one user ('who') by any others"
    )
    assert pd.isna(listed["threshold"])
    assert pd.isna(listed["contribution"])
    statement = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'words_1'"
    comments = dict(rows(tmp_path / "results.duckdb", statement))
    assert all(comments.values())
    assert "what 15 bits do not hold" in comments["prefix"]
    assert "'word'" in comments["word"]
    assert "users who reported an item when it was found" in comments["count"]
    assert "given that it is shown" in comments["lower"]
    assert "<invalid>" not in "".join(comments.values())


def test_words_with_digits_and_words_that_cannot_be_written() -> None:
    """Law: digits are read, and what the alphabet lacks is left out by a rule that the receipt
    states; no label stands for what nobody held."""
    words = ["covid19"] * 700 + ["2026"] * 500 + ["日本語"] * 450 + ["Zürich"] * 254
    frame = pd.DataFrame({"who": range(len(words)), "word": words})
    asked: dict[str, Any] = {"user": "who", "epsilon": 4.0, "delta": 1e-6}
    with seeded_noise(1):
        found = frame.dp.prefix_tree("word", **asked)
    assert set(found["word"].head(2)) == {"covid19", "2026"}
    assert not found["word"].str.contains("\ufffd").any()
    left_out = found.dp.receipt["left_out"]
    assert "items with characters other than" in left_out
    assert left_out in str(found.dp.receipt)
    assert left_out in str(dp.explain_prefix_tree("word", devices=len(words), **asked))
    with seeded_noise(1):
        letters = "abcdefghijklmnopqrstuvwxyzäöü"
        german = frame.dp.prefix_tree("word", alphabet=letters, mechanism="laplace", **asked)
    assert german["word"][0] == "zürich"


def test_a_release_of_the_former_default_alphabet_replays(tmp_path: Path) -> None:
    """Law: what was stored when letters were the default is what the same call gives now, by Python
    and SQL; a call that names an alphabet is another question."""
    words = ["ax"] * 3000 + ["by"] * 2000
    frame = pd.DataFrame({"who": range(len(words)), "word": words})
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=9.0, delta=1e-3)
    asked: dict[str, Any] = {"user": "who", "epsilon": 4.0, "delta": 1e-6, "ledger": ledger}
    asked["mechanism"] = "laplace"  # its plan is found sooner
    first = frame.dp.prefix_tree("word", alphabet=LETTERS, **asked, release="r")
    assert frame.dp.prefix_tree("word", **asked, release="r").equals(first)
    assert len(ledger.releases()) == 1
    with pytest.raises(dp.ReleaseNameError, match="encoding"):
        frame.dp.prefix_tree("word", alphabet="abxy", **asked, release="r")
    with duckdb.connect() as con:
        con.execute("CREATE TABLE typed AS SELECT * FROM frame")
        dp.register(con, ledger=ledger)
        letters = LETTERS.replace("'", "''")
        call = "FROM dp_prefix_tree('typed', 'word', 4.0, 1e-6, \"user\" := 'who', release := 's'"
        call += ", mechanism := 'laplace'"
        old = con.execute(f"{call}, alphabet := '{letters}')").df()
        assert con.execute(f"{call})").df().equals(old)
    assert len(ledger.releases()) == 2
