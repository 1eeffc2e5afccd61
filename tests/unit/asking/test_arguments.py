"""Every argument of every front door, wrong in every way."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.errors import (
    BudgetError,
    ColumnError,
    ParameterError,
    ParameterTypeError,
    SourceError,
    ThresholdError,
)
from tests.unit.refusals import SECRET, Wrong, assert_refused, refusals

FRAME = pd.DataFrame({"place": [f"{SECRET}/a"] * 3, "who": [SECRET] * 3, "visits": [1, 2, 3]})
GOOD: dict[str, Any] = {"hierarchy": "path:place", "epsilon": 1.0, "delta": 1e-6}


DOORS = {"function": partial(dp.hhh, FRAME), "explain": dp.explain}
every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)

USER = {"user": "who"}
RECORDS = {"user": "who", "contribution": "records"}

LAPLACE, GAUSSIAN, STREAMING = ({"mechanism": m} for m in ("laplace", "gaussian", "streaming"))
PAPER = {"mechanism": "paper", "hierarchy": "path:place?depth=4"}
RUNS: dict[str, Any] = {**PAPER, "acknowledge": True, "remainder": False}
ONLY_OFFLINE = "only with mechanism='offline'"

WRONG: list[Wrong] = [
    ({"hierarchy": None}, ParameterTypeError, ("hierarchy", "NoneType", "'ip:src'")),
    # budget
    ({"epsilon": None}, BudgetError, ("epsilon", "missing", "no default")),
    ({"delta": None}, BudgetError, ("delta", "missing", "no default")),
    ({"epsilon": 0}, BudgetError, ("epsilon", "(0)", "0.0001 to 50")),
    ({"epsilon": 100.1}, BudgetError, ("epsilon", "100.1", "0.0001 to 50")),
    ({"epsilon": 10**400}, BudgetError, ("epsilon", "0.0001 to 50")),
    ({"epsilon": math.nan}, BudgetError, ("epsilon", "nan", "finite")),
    ({"epsilon": math.inf}, BudgetError, ("epsilon", "inf", "finite")),
    ({"delta": 0.0}, BudgetError, ("delta", "0.0", "1e-12 to 0.1")),
    ({"delta": 1}, BudgetError, ("delta", "(1)", "1e-12 to 0.1")),
    ({"delta": 1e-13}, BudgetError, ("delta", "1e-13", "1e-12 to 0.1")),
    ({"delta": -math.inf}, BudgetError, ("delta", "-inf", "finite")),
    # threshold
    ({"threshold": 0}, ParameterError, ("threshold", "(0)", "from 1")),
    ({"threshold": 2**54}, ParameterError, ("threshold", str(2**54), str(2**53))),
    ({"threshold": 2}, ThresholdError, ("threshold (2)", "smallest private threshold", "Raise")),
    # unit
    ({"contribution": "records"}, ParameterError, ("contribution ('records')", "user=")),
    ({"max_contributions": 3}, ParameterError, ("max_contributions (3)", "user=")),
    ({**USER, "contribution": "rows"}, ParameterError, ("contribution ('rows')", "share, records")),
    ({**USER, "contribution": "record"}, ParameterError, ("Did you mean 'records'?",)),
    ({**USER, "max_contributions": 3}, ParameterError, ("max_contributions (3)", "'records'")),
    (RECORDS, ParameterError, ("contribution='records'", "max_contributions=", "data")),
    ({**RECORDS, "max_contributions": 0}, ParameterError, ("max_contributions (0)", "from 1")),
    ({**RECORDS, "max_contributions": 10**7}, ParameterError, ("max_contributions", "1000000")),
    # mechanism
    ({"mechanism": "ofline"}, ParameterError, ("mechanism ('ofline')", "Did you mean 'offline'?")),
    ({"mechanism": "Laplace"}, ParameterError, ("mechanism", "Did you mean 'laplace'?")),
    ({"mechanism": "laplace", **USER}, ParameterError, ("mechanism='laplace'", "='share'")),
    ({"mechanism": "gaussian", **USER}, ParameterError, ("mechanism='gaussian'", "'records'")),
    ({"mechanism": "paper", **USER}, ParameterError, ("mechanism='paper'", "='share'")),
    ({"mechanism": "laplace", "threshold": 2}, ThresholdError, ("threshold (2)", "smallest")),
    # the rest
    ({"release_share": 0}, ParameterError, ("release_share (0)", "0.01 to 0.99")),
    ({"release_share": math.nan}, ParameterError, ("release_share (nan)", "0.01 to 0.99")),
    ({"confidence": 95}, ParameterError, ("confidence (95)", "0.5 to 0.999999")),
    ({"confidence": math.inf}, ParameterError, ("confidence (inf)", "0.5 to 0.999999")),
    # what a mechanism would ignore
    ({**LAPLACE, "release_share": 0.3}, ParameterError, ("release_share (0.3)", ONLY_OFFLINE)),
    ({**GAUSSIAN, "release_share": 0.3}, ParameterError, ("release_share (0.3)", ONLY_OFFLINE)),
    ({**STREAMING, "release_share": 0.3}, ParameterError, ("release_share (0.3)", ONLY_OFFLINE)),
    ({**RUNS, "release_share": 0.3}, ParameterError, ("release_share (0.3)", ONLY_OFFLINE)),
    ({**LAPLACE, "counters": 99}, ParameterError, ("counters (99)", "only with", "'streaming'")),
    ({**STREAMING, "remainder": True}, ParameterError, ("remainder (True)", ONLY_OFFLINE)),
    ({**GAUSSIAN, "acknowledge": True}, ParameterError, ("acknowledge (True)", "only with")),
    # the printed algorithm: where it is not private, not asked for twice, with a remainder
    (
        {**PAPER, "hierarchy": "path:place?depth=5"},
        ParameterError,
        ("at height 5: ", "delta is at"),
    ),
    (PAPER, ParameterError, ("acknowledge=True",)),
    ({**PAPER, "acknowledge": True}, ParameterError, ("remainder=False",)),
    ({**RUNS, "threshold": 9}, ThresholdError, ("threshold (9)",)),
]


@every_door
@refusals(WRONG)
def test_a_wrong_argument_is_answered_with_name_value_and_rule(door: Any, case: Wrong) -> None:
    """Law: an argument is used or refused; the message says how to go on."""
    assert_refused(door, case, **GOOD)


def test_errors_are_builtin_errors_too() -> None:
    assert issubclass(ParameterError, ValueError)
    assert issubclass(ParameterTypeError, TypeError)
    assert issubclass(SourceError, RuntimeError)
    for error in (BudgetError, ThresholdError, ColumnError, dp.HierarchyError):
        assert issubclass(error, ParameterError)


def test_a_stored_request_with_an_ignored_argument_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=9, delta=0.1)
    given: dict[str, Any] = {**GOOD, "mechanism": "laplace", "release": "r", "ledger": ledger}
    with monkeypatch.context() as before:
        before.setattr("dpframe.asking.call_arguments.CallArguments.goes", lambda *_: None)
        stored = dp.hhh(FRAME, **given, release_share=0.3)
    pd.testing.assert_frame_equal(dp.hhh(FRAME, **given), stored)
    with pytest.raises(dp.ReleaseNameError):  # another release is another one still
        dp.hhh(FRAME, **{**given, "epsilon": 2.0})
    assert len(ledger.releases()) == 1


def test_advice_names_arguments_that_the_caller_gave() -> None:
    """Law: what an error tells to move is an argument of the function that was called."""
    share = {"release_share": 0.99, "epsilon": 49.0}
    with pytest.raises(BudgetError, match="Or move release_share towards the middle"):
        dp.explain("path:place", delta=1e-6, **share)
    uneven: dict[str, Any] = {"epsilon": 49.0, "level_weights": [1e6, 1]}
    with pytest.raises(BudgetError, match="Or even out level_weights") as raised:
        dp.explain_tree_counts(["place"], delta=1e-6, **uneven)
    assert "release_share" not in str(raised.value)
    with pytest.raises(ParameterError) as raised_too:
        dp.heavy_hitters(FRAME, "place", mechanism="paper", epsilon=1.0, delta=1e-6)
    assert "acknowledge" not in str(raised_too.value)
    with pytest.raises(ParameterError, match=r"^max_contributions is missing") as missing:
        dp.synthesize(FRAME, {"visits": (0, 9)}, epsilon=1.0, user="who")
    assert "contribution=" not in str(missing.value)


def test_numbers_of_numpy_are_numbers() -> None:
    given: dict[str, Any] = {"epsilon": np.float32(1.0), "delta": np.float64(1e-6)}
    given |= {"threshold": np.int64(500), "release_share": np.float32(0.5), **RECORDS}
    given |= {"confidence": np.float64(0.9), "max_contributions": np.int32(2)}
    plan = dp.explain("path:place", **given).plan
    assert (plan.budget.epsilon, plan.budget.delta) == (1.0, 1e-6)
    assert (plan.threshold, plan.unit.max_contributions) == (500, 2)
    assert type(plan.threshold) is type(plan.unit.max_contributions) is int
    for threshold in (500.0, np.float32(500), np.uint16(500)):
        assert dp.explain(**GOOD, threshold=threshold).plan.threshold == 500
    assert dp.explain("path:place", epsilon=1, delta=1e-6).plan.budget.epsilon == 1.0


def test_the_printed_algorithm_runs_when_acknowledged() -> None:
    result = dp.hhh(FRAME, **{**GOOD, **RUNS})
    assert result.attrs["dp"]["mechanism"] == "paper"
    assert (result["level"] >= 1).all()


# -- columns and sources -------------------------------------------------------------------------


def sources(tmp_path: Path) -> list[object]:
    FRAME.to_parquet(tmp_path / "t.parquet")
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    table = pa.Table.from_pandas(FRAME)
    con = duckdb.connect()
    con.register("t", table)
    frame: Any = pl.from_arrow(table)
    rows = [FRAME, table, table.to_batches()[0], frame, frame.lazy(), con.sql("FROM t")]
    return [*rows, tmp_path / "t.parquet", str(tmp_path / "t.csv")]


def test_a_missing_column_gets_near_names_from_every_source(tmp_path: Path) -> None:
    *named, text_file = sources(tmp_path)
    with pytest.raises(ColumnError, match=r"'plaice' does not exist\. The first line of the file"):
        dp.hhh(text_file, "path:plaice", epsilon=1.0, delta=1e-6)  # it could be a record
    for source in named:
        with pytest.raises(ColumnError, match=r"'plaice' does not exist\. Did you mean 'place'\?"):
            dp.hhh(source, "path:plaice", epsilon=1.0, delta=1e-6)
        with pytest.raises(ColumnError, match=r"'whom' does not exist\. Did you mean 'who'\?"):
            dp.hhh(source, "path:place", epsilon=1.0, delta=1e-6, user="whom")
        with pytest.raises(ColumnError, match=r"Columns: 'place', 'who', 'visits'\."):
            dp.hhh(source, "columns:place,zzzzzz", epsilon=1.0, delta=1e-6)
    with pytest.raises(ColumnError, match="Did you mean 'place'"):
        FRAME.dp.explain("path:plaice", epsilon=1.0, delta=1e-6)


BASELINES = {"laplace", "gaussian"}
COUNTS: dict[Any, dict[str, set[str]]] = {
    dp.explain: {"share": {"offline"}, "items": {"offline", "streaming"}},
    dp.explain_tree_counts: {"share": {"additive", "laplace", "hhh"}},
}
COUNTS[dp.explain]["records"] = {"offline", "streaming", "paper", *BASELINES}
COUNTS[dp.explain_tree_counts]["items"] = {"additive", *BASELINES}
COUNTS[dp.explain_tree_counts]["records"] = {"additive", "hhh", "relative", *BASELINES}
"""What of a user each mechanism counts."""

OWN: dict[str, dict[str, object]] = {
    "paper": {"acknowledge": True, "remainder": False},
    "relative": {"alpha": 0.5, "largest": 10**6},
}


@pytest.mark.parametrize("explain", COUNTS)
def test_what_no_mechanism_counts_of_a_user_is_refused_in_the_same_words(explain: Any) -> None:
    """Law: those go together whose noise covers it; others are refused with what is possible."""
    for kind, known in COUNTS[explain].items():
        for mechanism in COUNTS[explain]["records"]:
            bound: dict[str, object] = {} if kind == "share" else {"max_contributions": 1}
            if kind == "items" and mechanism != "streaming" and mechanism in known:
                bound = {"at_most": 2}
                if explain is dp.explain_tree_counts:
                    bound["keys"] = ["a/b"]
            call = {"user": "who", "contribution": kind, "mechanism": mechanism, **bound}
            budget = {"epsilon": 1.0, "delta": 1e-2, **OWN.get(mechanism, {})}
            if mechanism in known:
                explain("path:place?depth=3", **call, **budget)
                continue
            refused = f"^contribution='{kind}' does not go with mechanism='{mechanism}'"
            with pytest.raises(ParameterError, match=refused) as raised:
                explain("path:place?depth=3", **call, **budget)
            assert all(f"mechanism='{other}'" in str(raised.value) for other in known)


class Unwritable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("end", [Unwritable(), ("2026-11-15", Unwritable())])
def test_a_period_of_objects_without_a_text_is_refused(end: Any) -> None:
    """Law: a hint never runs the code of an object."""
    with pytest.raises(dp.ParameterTypeError, match="period must be text"):
        dp.explain(["a"], epsilon=1.0, delta=1e-6, period=("day", end))
