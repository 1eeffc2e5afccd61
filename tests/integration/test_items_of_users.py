"""Items of users: files and pages of them, words that are read and words that are left out."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.doors.cli import main as cli
from dpframe.federated.encoding import LETTERS
from dpframe.pages.report import report_page
from dpframe.testing import seeded_noise
from tests import members
from tests.doors import World
from tests.integration.contract import CENTRAL, ITEMS, REPORTS, flags_of, world_of
from tests.published import as_released, content, rows


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = world_of(ITEMS, tmp_path_factory.mktemp("doors"))
    yield made
    made.con.close()


def run(world: World, *flags: str, column: str = "word") -> int:
    given = [*flags_of(world, column, CENTRAL), *flags]
    return cli.main(["prefix-tree", str(world.parquet), *given])


def test_what_is_missing_is_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: user has no default; a plan needs devices; a column and a file must exist."""
    flags = flags_of(world, "word", {k: v for k, v in CENTRAL.items() if k != "user"})
    assert cli.main(["prefix-tree", str(world.parquet), *flags]) == 2
    assert "user is missing" in capsys.readouterr().err
    assert cli.main(["explain-prefix-tree", *flags_of(world, "word", CENTRAL)]) == 2
    assert "devices is missing" in capsys.readouterr().err
    assert run(world, column="wrod") == 2
    assert "column 'wrod' does not exist. Did you mean 'word'" in capsys.readouterr().err
    gone = str(world.parquet.with_name("gone.parquet"))
    assert cli.main(["prefix-tree", gone, *flags_of(world, "word", CENTRAL)]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_files_of_items_are_lines_of_utf_8(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: ends of lines, a mark in front and empty lines are no items; other bytes are told."""
    file = tmp_path / "deny.txt"
    plans = []
    for data in ("ax\nby\n", "\ufeffax\r\nby\r\n", "\nby\n\nax", "ax\rby"):
        file.write_bytes(data.encode())
        given = [*flags_of(world, "word", CENTRAL)[1:], "--devices=2000", f"--deny={file}"]
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


def test_the_terminal_shows_the_largest_first(world: World, capsys: Any) -> None:
    with seeded_noise(2):
        assert run(world) == 0
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
        drawn = frame.sort_values("count", ascending=False, kind="stable")
        listed = re.findall(r"<th scope='row'><bdi>(.*?)</bdi>.*?class='number'>([\d,-]+)<", text)
        words, counts = zip(*listed, strict=True)
        assert [html.unescape(word) for word in words] == drawn["word"].tolist()
        assert [int(n.replace(",", "")) for n in counts] == drawn["count"].tolist()
        (trace,) = frame.dp.plot().data
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
        assert list(found[table].columns) == [*columns, "label", "parent", "is_rest"]
        assert found[table]["label"].tolist() == found[table]["prefix"].tolist()
        released = as_released(found[table])
        pd.testing.assert_frame_equal(released, ledger.recall(name), check_dtype=False)
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


# -- words of real people --------------------------------------------------------------------------


DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.mark.evidence
@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not beside the checkout")
def test_words_of_rails_are_found_and_truly_used() -> None:
    """Law: at epsilon 1 and delta 1e-6 at least 320 words on average over ten releases, counts
    included; at least 95 % of them are used by as many users as the threshold says; and counts are
    off by no more than a sample of the best number of words of a user, 127 (see the benchmark)."""
    source = str(DATA / "git_words_rails.parquet")
    truth = dict(
        duckdb.sql(f"SELECT word, count(DISTINCT user_id) FROM '{source}' GROUP BY word").fetchall()
    )
    found, used, squares = 0, 0, 0.0
    for seed in range(10):
        with seeded_noise(seed):
            words = dp.heavy_hitters(
                source, "word", user="user_id", epsilon=1.0, delta=1e-6, progress=False
            )
        true = words["word"].map(truth)
        found += len(words)
        used += int((true >= words.dp.receipt["threshold"]).sum())
        squares += float(((words["count"] - true) ** 2).mean())
    assert found >= 3200
    assert used >= 0.95 * found
    assert (squares / 10) ** 0.5 <= 127
