"""Nothing but the release leaves: not by repr, error, receipt, log, stream or row order."""

from __future__ import annotations

import io
import logging
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.counts import CountTree
from dpframe.noise import replaced_bits
from dpframe.questions.hhh import ask as count
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.sources.exact_trees import exact_counts
from dpframe.testing import seeded_noise
from tests import test_architecture as architecture

from .enumerate_outputs import tree_of

SECRET = "SECRETVALUE"
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def plan_of(user: str | None = None) -> HhhPlan:
    return dp.explain(["a", "b"], user=user, mechanism="offline", **BUDGET).plan


def visits(extra: list[tuple[str, str]] | None = None) -> pd.DataFrame:
    rows = [("x", "p")] * 90 + [("x", "q")] * 40 + [("y", "p")] * 200 + [("z", "r")] * 6
    return pd.DataFrame(rows + (extra or []), columns=["a", "b"]).assign(
        u=lambda f: [f"user {i}" for i in range(len(f))]
    )


def everything_said(error: BaseException) -> str:
    """An exception as any log would print it, with all that hangs on it."""
    said, waiting, seen = [], [error], set()
    while waiting:
        here = waiting.pop()
        if here is None or id(here) in seen:
            continue
        seen.add(id(here))
        said += [str(here), repr(here), repr(here.args), repr(vars(here))]
        said += ["".join(traceback.format_exception(here))]
        waiting += [here.__cause__, here.__context__]  # type: ignore[list-item]
    return "\n".join(said)


# -- what a private object says about itself ---------------------------------------------------


def test_a_count_tree_says_nothing() -> None:
    """Law: repr, str and format of true counts are one constant."""
    for tree in (tree_of({}), tree_of({SECRET: 12345}), counted(visits())):
        for said in (repr(tree), str(tree), f"{tree}", f"{tree!r}", repr([tree])):
            assert "<private>" in said
            assert SECRET not in said
            assert "12345" not in said
        assert repr(tree) == "CountTree(<private>)"


# -- errors ------------------------------------------------------------------------------------

Broken = Callable[[Path], tuple[object, object]]
"""Makes a source that fails while it is read, and the hierarchy to read it with."""


def csv_without_the_column(tmp: Path) -> tuple[object, object]:
    path = tmp / "rows.csv"
    path.write_text(f"{SECRET},y\n{SECRET},y\n")  # no names: the first line is data
    return path, ["a"]


def parquet_that_is_cut(tmp: Path) -> tuple[object, object]:
    path = tmp / "rows.parquet"
    pq.write_table(pa.table({"a": [SECRET] * 500}), path, compression="none")
    path.write_bytes(path.read_bytes()[:-20])
    return path, ["a"]


def parquet_with_a_damaged_page(tmp: Path) -> tuple[object, object]:
    path = tmp / "rows.parquet"
    values = [f"{SECRET}{i}" for i in range(2000)]
    pq.write_table(pa.table({"a": values}), path, compression="snappy")
    data = bytearray(path.read_bytes())
    data[100:400] = b"\xff" * 300
    path.write_bytes(bytes(data))
    return path, ["a"]


def of_sql(making: str, reading: str, by: object = "columns:a", after: str = "") -> Broken:
    """A relation of a table of the caller, to which something happens afterwards."""

    def relation(tmp: Path) -> tuple[object, object]:
        con = duckdb.connect()
        con.execute(making)
        found = con.sql(reading)
        con.execute(after)
        return found, by

    return relation


def relation_with_a_failing_python_function(tmp: Path) -> tuple[object, object]:
    def fails(x: str) -> str:
        raise ValueError(f"cannot read {x}")

    con = duckdb.connect()
    con.create_function("fails", fails, ["VARCHAR"], "VARCHAR")
    con.execute(f"CREATE TABLE t AS SELECT '{SECRET}' AS raw")
    return con.sql("SELECT fails(raw) AS a FROM t"), ["a"]


def lazy_frame_with_a_failing_cast(tmp: Path) -> tuple[object, object]:
    frame = pl.DataFrame({"a": [SECRET, "1"]}).lazy()
    return frame.with_columns(pl.col("a").cast(pl.Int64)), ["a"]


RAW = f"CREATE TABLE t AS SELECT '{SECRET}' AS raw FROM range(10)"
ENUM = f"CREATE TYPE secret AS ENUM ('{SECRET}', 'b')"
FAILING: dict[str, Broken] = {
    "a CSV without the column": csv_without_the_column,
    "a Parquet file that is cut": parquet_that_is_cut,
    "a Parquet file with a damaged page": parquet_with_a_damaged_page,
    "a failing cast": of_sql(RAW, "SELECT raw::INTEGER AS a FROM t"),
    "an error function": of_sql(RAW, "SELECT error('row ' || raw)::VARCHAR AS a FROM t"),
    "a failing Python function": relation_with_a_failing_python_function,
    "a dropped table": of_sql(RAW, "SELECT raw AS a FROM t", after="DROP TABLE t"),
    "a lazy frame with a failing cast": lazy_frame_with_a_failing_cast,
    "categories in what dates refuse": of_sql(ENUM, "SELECT {'x': 'b'::secret} AS a", "date:a"),
}


@pytest.mark.parametrize("broken", FAILING.values(), ids=FAILING)
def test_an_error_never_quotes_the_data(
    broken: Broken, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Law: message, arguments, cause, context and printed traceback hold no value of the data."""
    source, hierarchy = broken(tmp_path)
    with pytest.raises(dp.DpframeError) as caught:
        dp.hhh(source, hierarchy, **BUDGET)  # type: ignore[arg-type]
    assert SECRET not in everything_said(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    printed = capfd.readouterr()
    assert SECRET not in printed.out + printed.err


def text_that_is_not_unicode() -> pa.Table:
    raw = pa.array([SECRET.encode() + b"\xff\xfe"] * 3, type=pa.binary())
    return pa.table({"a": pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())})


@pytest.mark.parametrize(
    "harmless",
    [
        pd.DataFrame({"a": [SECRET, 1, 2.5, None, b"\xff", (1, SECRET), "\ud800"]}, dtype=object),
        pd.DataFrame({"a": pd.Categorical([SECRET, "b"])}),
        pl.DataFrame({"a": [SECRET, None]}),
        text_that_is_not_unicode(),
    ],
    ids=["mixed objects", "categories", "polars", "no unicode"],
)
def test_odd_values_are_counted_without_a_word(
    harmless: object, capfd: pytest.CaptureFixture[str]
) -> None:
    """Law: a column of odd values is no error and no warning; few records never show."""
    result = dp.hhh(harmless, ["a"], **BUDGET)
    assert SECRET not in result.to_string()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "line",
    [
        f"{SECRET},{SECRET},{SECRET}\n".encode(),
        f"{SECRET}\n".encode(),
        SECRET.encode() + b"\xff\xfe,y\n",
        f'x,{SECRET}"y\n'.encode(),
        f'x,"{SECRET}"y\n'.encode(),
        b"x," + SECRET.encode() * 300_000 + b"\n",
        f'x,"{SECRET}\n{SECRET}"\n'.encode(),
    ],
    ids=[
        *("too many values", "too few", "no unicode", "stray quote", "text after quote"),
        *("too long", "line break"),
    ],
)
def test_a_malformed_line_of_a_csv_moves_the_tree_by_one_record_at_most(
    line: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Law: such a line is counted once or not at all, without a word; all others still count."""
    good, path = 20_000, tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n" + b"x,y\n" * (good // 2) + line + b"x,y\n" * (good // 2))
    tree = counted(str(path))
    nodes = zip(*(column.to_pylist() for column in tree.keys), strict=True)
    counts = dict(zip(nodes, tree.count.tolist(), strict=True))
    assert good <= counts[None, None] <= good + 1
    assert good <= counts["x", "y"] <= counts["x", None] <= counts[None, None]
    assert capfd.readouterr() == ("", "")


def counted(source: object) -> CountTree:
    """All nodes, without a band, so that single records can be seen."""
    return exact_counts(source, plan_of().hierarchy, PrivacyUnit(), 1)


@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_text_that_is_not_unicode_moves_no_other_value(encoded: bool) -> None:
    """Law: such a value is repaired on its own; a sort that misread it would move the next key."""
    bad = text_that_is_not_unicode().column("a")
    bad = bad.dictionary_encode() if encoded else bad
    table = pa.table({"a": bad, "b": ["x", "y", "y"]})
    tree = counted(table)
    labels = list(zip(*(column.to_pylist() for column in tree.keys), tree.count, strict=True))
    repaired = SECRET + r"\xFF\xFE"
    leaves = [(repaired, "x", 1), (repaired, "y", 2)]
    assert labels == [(None, None, 3), (repaired, None, 3), *leaves]


def test_the_check_for_leaks_can_fail(tmp_path: Path) -> None:
    """Negative control: what DuckDB and Polars say themselves does quote the data."""
    relation, _ = FAILING["a failing cast"](tmp_path)
    with pytest.raises(duckdb.Error) as caught:
        relation.fetchall()  # type: ignore[attr-defined]
    assert SECRET in everything_said(caught.value)
    frame, _ = lazy_frame_with_a_failing_cast(tmp_path)
    with pytest.raises(pl.exceptions.PolarsError) as raised:
        frame.collect()  # type: ignore[attr-defined]
    assert SECRET in everything_said(raised.value)
    with pytest.raises(RuntimeError) as hidden:
        quotes_in_its_context()
    assert SECRET in everything_said(hidden.value)


def quotes_in_its_context() -> None:
    """``from None`` hides the original when printed; the context still holds it."""
    try:
        raise ValueError(SECRET)
    except ValueError:
        raise RuntimeError("hidden") from None


# -- receipts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [None, "u"])
def test_a_receipt_is_the_same_for_any_data(user: str | None) -> None:
    """Law: receipts of releases of different tables differ in id, time, notices and what is not
    shown only; these are what the released rows say, and are said of them again by a plan that sees
    nothing else."""
    facts, plan, said = [], plan_of(user), ("notices", "not_shown")
    for frame in (visits(), visits([(SECRET, SECRET)] * 500), visits().head(0)):
        result = dp.hhh(frame, ["a", "b"], user=user, mechanism="offline", **BUDGET)
        given = result.attrs["dp"]
        rows: Any = SimpleNamespace(sketch_error=None)
        again = plan.finish_receipt(plan.receipt(), rows, pd.DataFrame(result))
        assert all(given.get(name) == again.get(name) for name in said)
        facts.append({k: v for k, v in given.items() if k not in ("release_id", "time", *said)})
        facts[-1]["card"] = [line for line in facts[-1]["card"] if line[0] != "notice"]
    assert "notices" in given
    assert facts[0] == facts[1] == facts[2]
    assert facts[0].keys() == plan.receipt().keys() - {"release_id", "time"}


def test_a_result_carries_and_shows_nothing_but_the_release_and_its_receipt() -> None:
    """Law: a pickled result, attributes included, its repr and html hold no key that was not
    reported; the digest is of reported rows."""
    result = dp.hhh(visits([(SECRET, SECRET)] * 3), ["a", "b"], **BUDGET)
    assert list(result.attrs) == ["dp", "dp_digest"]
    assert SECRET.encode() not in pickle.dumps(result)
    buffer = io.StringIO()
    result.info(buf=buffer)
    card = result.dp.receipt
    for said in (repr(result), result.to_html(), buffer.getvalue(), str(card), card._repr_html_()):
        assert SECRET not in said


# -- order of rows -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"user": "u"}, {"user": "u", "contribution": "share"}, {"mechanism": "laplace"}],
    ids=str,
)
def test_the_order_of_the_input_changes_nothing(options: dict[str, str]) -> None:
    """Law: shuffled rows under the same noise give the identical frame, rows in equal order."""
    frames = [visits(), visits().sample(frac=1, random_state=3), visits().iloc[::-1]]
    results = []
    for frame in frames:
        with seeded_noise(11):
            results.append(dp.hhh(frame, ["a", "b"], **BUDGET, **options))  # type: ignore[arg-type]
    for other in results[1:]:
        pd.testing.assert_frame_equal(results[0], other)


def test_rows_are_in_order_of_level_and_label() -> None:
    """Law: the order of a result is a function of what is reported, not of the counts."""
    for seed in range(5):
        with seeded_noise(seed):
            result = dp.hhh(visits(), ["a", "b"], **BUDGET)
        assert len(result) > 3
        rows = list(zip(result["level"], result["prefix"], strict=True))
        assert rows == sorted(rows)


@pytest.mark.parametrize(
    "record", [("z", "r"), ("new", "new"), ("", "")], ids=["rare", "new", "invalid"]
)
def test_one_record_below_the_band_moves_the_remainder_by_one_and_nothing_else(
    record: tuple[str, str],
) -> None:
    """Law: neighbours under the same noise differ where the record is, here in the remainder."""
    results = []
    for frame in (visits(), visits([record])):
        with seeded_noise(11):
            results.append(dp.hhh(frame, ["a", "b"], **BUDGET))
    before, after = results
    for column in ("residual", "count", "lower", "upper"):
        after.loc[0, column] -= 1
    pd.testing.assert_frame_equal(before, after)


# -- logs and streams --------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [False, True])
def test_a_release_is_silent(
    progress: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Law: nothing is logged, printed or warned about, also on files, also with progress on."""
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "rows.parquet"
    visits().to_parquet(path)
    for source in (visits(), path, pl.from_pandas(visits()), duckdb.read_parquet(str(path))):
        dp.hhh(source, ["a", "b"], progress=progress, **BUDGET)
        dp.hhh(source, ["a", "b"], user="u", progress=progress, **BUDGET)
        dp.hhh(source, ["a", "b"], user="u", contribution="share", progress=progress, **BUDGET)
    assert capfd.readouterr() == ("", "")
    ours = [r for r in caplog.records if r.name.split(".")[0] in ("dpframe", "root", "duckdb")]
    assert not ours


READERS = {"duckdb", "pandas", "polars", "pyarrow.parquet", "pyarrow.csv", "sqlite3"}


def loaded(*several: Iterable[str]) -> list[set[str]]:
    """All modules, ours and others, that some bring along, and others after them."""
    show = "; ".join(f"import sys, {', '.join(one)}; print(*sys.modules)" for one in several)
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_a_plan_cannot_reach_data() -> None:
    """Law: nothing that a plan brings along can read a table or a file. What of ours it imports
    later cannot either: tests/test_architecture.py.

    Negative control: what ``dpframe.asking.answer`` brings along can.
    """
    plans = architecture._plans()
    assert {"questions.hhh.plan", "questions.hhh.sketch_plans"} <= set(plans)
    found, more = loaded([f"dpframe.{plan}" for plan in plans], ["dpframe.asking.answer"])
    assert not found & READERS
    assert not [name for name in found if name.startswith("dpframe.sources")]
    assert {"duckdb", "dpframe.sources.exact_trees"} <= more


def test_explaining_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: explain never opens a connection nor counts, and draws no noise."""

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("explain reached for data or noise")

    monkeypatch.setattr("duckdb.connect", forbidden)
    monkeypatch.setattr(count, "exact_counts", forbidden)
    with replaced_bits(forbidden):  # type: ignore[arg-type]
        assert "threshold" in str(dp.explain(["a", "b"], user="u", **BUDGET))
        assert "threshold" in str(dp.explain(["a", "b"], user="u", nodes_per_user=1, **BUDGET))
        with pytest.raises(AssertionError):
            dp.hhh(visits(), ["a", "b"], **BUDGET)


def test_equal_plans_have_equal_cards_whatever_was_released_before() -> None:
    """Law: no state of earlier releases shows in a plan: caches hold public numbers only."""
    before = str(dp.explain(["a", "b"], **BUDGET))
    dp.hhh(visits([(SECRET, SECRET)] * 500), ["a", "b"], **BUDGET)
    assert str(dp.explain(["a", "b"], **BUDGET)) == before


def test_intervals_of_neighbours_have_the_same_width() -> None:
    """Law: the width of an interval comes from the plan and the public shape of the result."""
    widths = []
    for extra in ([], [("x", "p")] * 40):
        with seeded_noise(11):
            result = dp.hhh(visits(extra), ["a", "b"], **BUDGET)
        widths.append((result["upper"] - result["lower"]).tolist())
    assert widths[0] == widths[1]
    assert np.all(np.array(widths[0]) > 0)
