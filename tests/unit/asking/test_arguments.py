"""Every argument of every front door, wrong in every way."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    DpframeError,
    ParameterError,
    ParameterTypeError,
    SourceError,
    ThresholdError,
)

SECRET = "sEcReT-4711"
FRAME = pd.DataFrame({"place": [f"{SECRET}/a"] * 3, "who": [SECRET] * 3, "visits": [1, 2, 3]})
GOOD: dict[str, Any] = {"hierarchy": "path:place", "epsilon": 1.0, "delta": 1e-6}


def by_function(**arguments: Any) -> object:
    return dp.hhh(FRAME, **arguments)


def by_explain(**arguments: Any) -> object:
    return dp.explain(**arguments)


DOORS = [by_function, by_explain]
every_door = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)


USER = {"user": "who"}
RECORDS = {"user": "who", "contribution": "records"}

WRONG: list[tuple[dict[str, Any], type[DpframeError], tuple[str, ...]]] = [
    ({"hierarchy": None}, ParameterTypeError, ("hierarchy", "NoneType", "'ip:src'")),
    # budget
    ({"epsilon": None}, BudgetError, ("epsilon", "missing", "no default")),
    ({"delta": None}, BudgetError, ("delta", "missing", "no default")),
    ({"epsilon": 0}, BudgetError, ("epsilon", "(0)", "0.0001 to 50")),
    ({"epsilon": -1.0}, BudgetError, ("epsilon", "-1.0", "0.0001 to 50")),
    ({"epsilon": 100.1}, BudgetError, ("epsilon", "100.1", "0.0001 to 50")),
    ({"epsilon": 10**400}, BudgetError, ("epsilon", "0.0001 to 50")),
    ({"epsilon": math.nan}, BudgetError, ("epsilon", "nan", "finite")),
    ({"epsilon": math.inf}, BudgetError, ("epsilon", "inf", "finite")),
    ({"epsilon": np.float64("nan")}, BudgetError, ("epsilon", "nan", "finite")),
    ({"delta": 0.0}, BudgetError, ("delta", "0.0", "1e-12 to 0.1")),
    ({"delta": 1}, BudgetError, ("delta", "(1)", "1e-12 to 0.1")),
    ({"delta": 1e-13}, BudgetError, ("delta", "1e-13", "1e-12 to 0.1")),
    ({"delta": -math.inf}, BudgetError, ("delta", "-inf", "finite")),
    # threshold
    ({"threshold": 0}, ParameterError, ("threshold", "(0)", "from 1")),
    ({"threshold": -5}, ParameterError, ("threshold", "(-5)", "from 1")),
    ({"threshold": 2**54}, ParameterError, ("threshold", str(2**54), str(2**53))),
    ({"threshold": 2}, ThresholdError, ("threshold (2)", "smallest private threshold", "Raise")),
    # unit
    ({"contribution": "records"}, ParameterError, ("contribution ('records')", "user=")),
    ({"max_contributions": 3}, ParameterError, ("max_contributions (3)", "user=")),
    ({**USER, "contribution": "rows"}, ParameterError, ("contribution ('rows')", "share, records")),
    ({**USER, "contribution": ""}, ParameterError, ("contribution ('')", "share, records")),
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
    ({"release_share": 1.0}, ParameterError, ("release_share (1.0)", "0.01 to 0.99")),
    ({"release_share": math.nan}, ParameterError, ("release_share (nan)", "0.01 to 0.99")),
    ({"confidence": 95}, ParameterError, ("confidence (95)", "0.5 to 0.999999")),
    ({"confidence": math.inf}, ParameterError, ("confidence (inf)", "0.5 to 0.999999")),
]


@every_door
@pytest.mark.parametrize(("wrong", "error", "said"), WRONG)
def test_a_wrong_argument_is_answered_with_name_value_and_rule(
    door: Callable[..., object],
    wrong: dict[str, Any],
    error: type[DpframeError],
    said: tuple[str, ...],
) -> None:
    """The class of the error tells what is wrong, the message how to go on."""
    with pytest.raises(DpframeError) as raised:
        door(**{**GOOD, **wrong})
    assert raised.type is error
    for part in said:
        assert part in str(raised.value)
    assert SECRET not in str(raised.value)


def test_errors_are_builtin_errors_too() -> None:
    """Code that expects ValueError, TypeError and RuntimeError keeps working."""
    assert issubclass(ParameterError, ValueError)
    assert issubclass(ParameterTypeError, TypeError)
    assert issubclass(SourceError, RuntimeError)
    for error in (BudgetError, ThresholdError, ColumnError, dp.HierarchyError):
        assert issubclass(error, ParameterError)


PAPER = {"mechanism": "paper", "acknowledge": True, "remainder": False}


@every_door
@pytest.mark.parametrize(
    ("given", "name", "goes"),
    [
        ({"mechanism": "laplace", "release_share": 0.3}, "release_share (0.3)", "'offline'"),
        ({"mechanism": "gaussian", "release_share": 0.3}, "release_share (0.3)", "'offline'"),
        ({"mechanism": "streaming", "release_share": 0.3}, "release_share (0.3)", "'offline'"),
        ({**PAPER, "release_share": 0.3}, "release_share (0.3)", "'offline'"),
        ({"mechanism": "laplace", "counters": 99}, "counters (99)", "'streaming'"),
        ({"mechanism": "streaming", "remainder": True}, "remainder (True)", "'offline'"),
        ({"mechanism": "gaussian", "acknowledge": True}, "acknowledge (True)", "'paper'"),
    ],
)
def test_what_a_mechanism_would_ignore_is_refused(
    door: Callable[..., object], given: dict[str, Any], name: str, goes: str
) -> None:
    """Law: an argument is used or refused, in the same words for every mechanism."""
    with pytest.raises(ParameterError) as raised:
        door(**{**GOOD, "hierarchy": "path:place?depth=4", **given})
    assert str(raised.value).startswith(name)
    assert f"only with mechanism={goes}" in str(raised.value)


def test_a_stored_request_with_an_ignored_argument_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: a release that was stored when release_share was ignored replays without it."""
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


@every_door
def test_the_hierarchy_is_required(door: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="hierarchy"):
        door(epsilon=1.0, delta=1e-6)


def test_numbers_of_numpy_are_numbers() -> None:
    """Scalars of numpy count as what they hold."""
    plan = dp.explain(
        "path:place",
        epsilon=np.float32(1.0),
        delta=np.float64(1e-6),
        threshold=np.int64(500),  # type: ignore[arg-type]
        release_share=np.float32(0.5),
        confidence=np.float64(0.9),
        user="who",
        contribution="records",
        max_contributions=np.int32(2),  # type: ignore[arg-type]
    ).plan
    assert (plan.budget.epsilon, plan.budget.delta) == (1.0, 1e-6)
    assert (plan.threshold, plan.unit.max_contributions) == (500, 2)
    assert type(plan.threshold) is type(plan.unit.max_contributions) is int
    for threshold in (500.0, np.float32(500), np.uint16(500)):
        assert dp.explain(**GOOD, threshold=threshold).plan.threshold == 500
    assert dp.explain("path:place", epsilon=1, delta=1e-6).plan.budget.epsilon == 1.0


@every_door
@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (
            {"hierarchy": "path:place?depth=5"},
            ParameterError,
            r"refused at height 5: .*delta is at",
        ),
        ({}, ParameterError, "acknowledge=True"),
        ({"acknowledge": True}, ParameterError, "remainder=False"),
        (
            {"acknowledge": True, "remainder": False, "threshold": 9},
            ThresholdError,
            "threshold .9.",
        ),
    ],
)
def test_the_printed_algorithm_is_refused_where_it_is_not_private(
    door: Callable[..., object], wrong: dict[str, Any], error: type[DpframeError], said: str
) -> None:
    """Never from height 5 on, only when asked for twice, and never with a remainder."""
    arguments = {**GOOD, "hierarchy": "path:place?depth=4", "mechanism": "paper", **wrong}
    with pytest.raises(error, match=said):
        door(**arguments)


def test_the_printed_algorithm_runs_when_acknowledged() -> None:
    """At height 4 or less, without a remainder, it is there to compare with."""
    arguments = {**GOOD, "hierarchy": "path:place?depth=4", "mechanism": "paper"}
    result = dp.hhh(FRAME, **arguments, remainder=False, acknowledge=True)
    assert result.attrs["dp"]["mechanism"] == "paper"
    assert (result["level"] >= 1).all()


# -- columns and sources -------------------------------------------------------------------------


def sources(tmp_path: Path) -> list[object]:
    FRAME.to_parquet(tmp_path / "t.parquet")
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    table = pa.Table.from_pandas(FRAME)
    con = duckdb.connect()
    con.register("t", table)
    return [
        FRAME,
        table,
        table.to_batches()[0],
        pl.from_arrow(table),
        pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
        con.sql("FROM t"),
        tmp_path / "t.parquet",
        str(tmp_path / "t.csv"),
    ]


def test_a_missing_column_gets_near_names_from_every_source(tmp_path: Path) -> None:
    """The name, near names, and what columns there are; the user column too."""
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


def test_a_plan_may_be_made_for_columns_that_nobody_has() -> None:
    """``dp.explain`` has no source, so it knows no columns."""
    assert dp.explain("path:nowhere", epsilon=1.0, delta=1e-6).plan.height == 8


def chain(error: BaseException) -> str:
    """All that a traceback of this error could print."""
    seen = [error]
    for one in seen:
        seen += [e for e in (one.__cause__, one.__context__) if e is not None]
    return " ".join(str(e) + repr(e.args) for e in seen)


def failing_sources(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "torn.parquet").write_bytes(f"PAR1{SECRET}PAR1".encode())
    (tmp_path / "quote.csv").write_text(f'place,who\na,b\n"{SECRET}\n')
    (tmp_path / "wide.csv").write_text(f"place,who\na,b\n{SECRET},x,y,z\n")
    (tmp_path / "semicolon.csv").write_text(f"name\n{SECRET};a\n{SECRET};b\n")
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT '{SECRET}' AS v")
    lazy = pl.LazyFrame({"v": [SECRET]}).select(place=pl.col("v").cast(pl.Int64), who=pl.col("v"))
    return {
        "relation": con.sql("SELECT CAST(v AS INTEGER) AS place, v AS who FROM t"),
        "lazy frame": lazy,
        "torn parquet": tmp_path / "torn.parquet",
        "open quote": tmp_path / "quote.csv",
        "wide row": tmp_path / "wide.csv",
        "other separator": tmp_path / "semicolon.csv",
        "enum": con.sql(f"SELECT CAST('{SECRET}' AS ENUM('{SECRET}')) AS other"),
    }


@pytest.mark.parametrize(
    "name", [*("relation", "lazy frame", "torn parquet", "other separator", "enum")]
)
def test_no_message_quotes_the_data(tmp_path: Path, name: str) -> None:
    """A row that cannot be read fails without its text, in the error and in all behind it."""
    with pytest.raises((SourceError, ColumnError)) as raised:
        dp.hhh(failing_sources(tmp_path)[name], "path:place", epsilon=1.0, delta=1e-6)
    assert SECRET not in chain(raised.value)


@pytest.mark.parametrize("name", ["open quote", "wide row"])
def test_a_torn_line_of_a_csv_stops_nothing(tmp_path: Path, name: str) -> None:
    """Malformed lines do not decide whether there is a result, and are not quoted in it."""
    source = failing_sources(tmp_path)[name]
    result = dp.hhh(source, "path:place", epsilon=1.0, delta=1e-6)
    assert SECRET not in result.to_string() + str(result.attrs)


def test_an_unreadable_type_is_named_without_a_value() -> None:
    """The type of a column is public, its values are not."""
    with pytest.raises(ColumnError, match="column 'visits' has type BIGINT; date reads") as raised:
        dp.hhh(FRAME, "date:visits", epsilon=1.0, delta=1e-6)
    assert SECRET not in chain(raised.value)


def test_unreadable_values_are_counted_in_silence() -> None:
    """No warning, no error, and nothing of them in the receipt."""
    result = dp.hhh(FRAME, "date:place?levels=day", epsilon=1.0, delta=1e-6)
    assert SECRET not in str(result.attrs)


COUNTS = {
    dp.explain: {
        "share": {"offline"},
        "items": {"offline", "streaming"},
        "records": {"offline", "streaming", "laplace", "gaussian", "paper"},
    },
    dp.explain_tree_counts: {
        "share": {"additive", "laplace", "hhh"},
        "items": {"additive", "laplace", "gaussian"},
        "records": {"additive", "laplace", "gaussian", "hhh", "relative"},
    },
}
"""What of a user each mechanism counts."""

OWN: dict[str, dict[str, object]] = {
    "paper": {"acknowledge": True, "remainder": False},
    "relative": {"alpha": 0.5, "largest": 10**6},
}


@pytest.mark.parametrize("explain", COUNTS)
def test_what_no_mechanism_counts_of_a_user_is_refused_in_the_same_words(
    explain: Callable[..., object],
) -> None:
    """Law: of contributions and mechanisms exactly those go together whose noise covers it; others
    are refused with both named, and with what is possible, which then is."""
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
