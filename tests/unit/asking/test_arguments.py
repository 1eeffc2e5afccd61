"""Every argument of every question, wrong in every way, and with values of other types."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Iterator
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
from dpframe.asking.question import RELEASE_ARGUMENTS
from dpframe.errors import (
    BudgetError,
    ColumnError,
    DpframeError,
    ParameterError,
    ParameterTypeError,
    SourceError,
    ThresholdError,
)
from dpframe.questions.question_list import QUESTIONS
from tests.members import some
from tests.unit.refusals import SECRET, Wrong, assert_refused, refusals

FRAME = pd.DataFrame({"place": [f"{SECRET}/a"] * 3, "who": [SECRET] * 3, "visits": [1, 2, 3]})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
GOOD: dict[str, Any] = {"hierarchy": "path:place", **BUDGET}


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
    (
        {**USER, "contribution": "share", "max_contributions": 3},
        ParameterError,
        ("max_contributions (3)", "'records'"),
    ),
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


# -- what a declaration rules out ------------------------------------------------------------------

CALLS: dict[str, dict[str, Any]] = {
    "hhh": {"hierarchy": "path:place", **BUDGET},
    "tree_counts": {"hierarchy": "path:place", **BUDGET},
    "heavy_hitters": {"column": "place", **BUDGET},
    "synthesize": {"columns": {"visits": (0, 8)}, "epsilon": 1.0},
    "prefix_tree": {"column": "place", "user": "who", "devices": 10**6, **BUDGET},
    "rollup": {"by": "path:place", "measures": "count", **BUDGET},
}
"""A call of every question that a plan can be made for."""

RELATIVE: dict[str, Any] = {"mechanism": "relative", "alpha": 0.5, "largest": 10**6}
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("synthesize", "max_contributions"): {"user": "who"},
    ("synthesize", "user"): {"max_contributions": 3},
    ("synthesize", "keys"): {"columns": "columns:place"},
    ("prefix_tree", "public"): {"encoding": "huffman"},
    ("rollup", "threshold"): {"measures": "sum(visits, 0, 5) AS s", "heavy": "s"},
    ("tree_counts", "alpha"): RELATIVE,
    ("tree_counts", "largest"): RELATIVE,
    ("tree_counts", "max_weight"): {"weight": "visits"},
    ("hhh", "max_weight"): {"weight": "visits"},
    ("hhh", "weight"): {"max_weight": 5.0},
    **{(q, "contribution"): {"user": "who"} for q in ("hhh", "tree_counts", "heavy_hitters")},
    **{(q, "max_contributions"): RECORDS for q in ("hhh", "tree_counts", "heavy_hitters")},
    **{(q, "counters"): {"mechanism": "streaming"} for q in ("hhh", "heavy_hitters")},
}
"""What an argument goes with."""


class Other:
    """Of no type that anything has."""

    def __repr__(self) -> str:
        return "<other>"


def other_values(annotation: str) -> Iterator[tuple[object, tuple[type[Exception], ...]]]:
    """Values that an annotation rules out, and how they are answered."""
    kinds = {kind.strip() for kind in annotation.split("|")}
    typed = (ParameterTypeError,)
    yield Other(), typed
    if "object" in kinds:
        return
    if "None" not in kinds:
        yield None, typed
    if not kinds & {"str", "Ledger"}:
        yield "1", typed
        yield b"1", typed
    if kinds & {"int", "float"}:
        yield from ((value, typed) for value in (True, [1.0], 1j))
        yield math.nan, typed if "int" in kinds else (ParameterError,)
    if "int" in kinds:
        yield from ((value, typed) for value in (1.5, math.inf))
    if "bool" in kinds:
        yield from ((value, typed) for value in (1, 0.0))
    if "str" in kinds:
        yield from ((value, typed) for value in (3, b"x", {"a"}))


DECLARED = [
    (question, argument)
    for question in QUESTIONS
    for argument in (*question.plan_arguments, *RELEASE_ARGUMENTS)
]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> dp.Ledger:
    return dp.Ledger(tmp_path_factory.mktemp("ledger") / "b.db", epsilon=100.0, delta=1e-2)


@some("hhh-hierarchy", "synthesize-ledger")
@pytest.mark.parametrize(
    ("question", "argument"), DECLARED, ids=[f"{q.name}-{a}" for q, a in DECLARED]
)
def test_a_value_of_another_type_is_refused_by_name(
    question: Any, argument: str, ledger: dp.Ledger
) -> None:
    """Law: by the question and its explanation in the same words, and it costs nothing."""
    explain = getattr(dp, "explain" if question.name == "hhh" else f"explain_{question.name}")
    annotation = question.parameters[argument].annotation
    beside = BESIDE.get((question.name, argument), {})
    for value, answers in other_values(annotation):
        given = {"ledger": ledger, **CALLS[question.name], **beside, argument: value}
        said = set()
        for call in (partial(question.ask, FRAME), explain):
            with pytest.raises(DpframeError) as raised:
                call(**given)
            assert isinstance(raised.value, answers), (value, raised.value)
            assert re.search(rf"\b{argument}\b", str(raised.value)), (value, raised.value)
            assert SECRET not in str(raised.value)
            said.add(str(raised.value))
        assert len(said) == 1, said
    assert ledger.spent == dp.Spending(epsilon=0.0, delta=0.0)


def handed_on(text: str) -> dict[str | None, str]:
    """What a function hands on to ``answer``, by name."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if ast.unparse(node.func) == "answer_call"]
    _, source = call.args
    named = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    return {"source": ast.unparse(source), **named}


@pytest.mark.parametrize("question", QUESTIONS, ids=[q.name for q in QUESTIONS])
def test_every_argument_is_handed_on_under_its_own_name(question: Any) -> None:
    """Law: a release without its ``user`` would protect records."""
    found = handed_on(inspect.getsource(question.ask))
    assert list(found.items()) == [(name, name) for name in question.parameters]


def test_an_argument_that_is_taken_for_another_is_seen() -> None:
    swapped = "def f(source, epsilon, user):\n    return answer_call(F, source, epsilon=user)"
    assert handed_on(swapped) == {"source": "source", "epsilon": "user"}


@pytest.mark.parametrize("question", QUESTIONS, ids=[q.name for q in QUESTIONS])
def test_a_budget_has_no_default(question: Any) -> None:
    with pytest.raises(BudgetError, match=r"epsilon is missing: .* There is no default"):
        question.ask(FRAME, **{**CALLS[question.name], "epsilon": None})


RECEIPTS = [
    *((name, {}) for name in ("heavy_hitters", "synthesize", "rollup", "tree_counts")),
    *(("tree_counts", more) for more in ({"delta": None, "keys": ["a"]}, {"consistent": False})),
    *(("tree_counts", more) for more in ({"mechanism": "hhh"}, {"weight": "visits"})),
    ("synthesize", {"columns": "columns:place", "keys": ["b", "c"]}),
]


@pytest.mark.parametrize(("question", "more"), RECEIPTS)
def test_receipts_say_nothing_of_the_data(question: str, more: dict[str, Any]) -> None:
    """Law: those of empty and full tables differ in id, time and what is said of released rows
    alone."""
    receipts = []
    for frame in (pd.concat([FRAME] * 100), FRAME.iloc[:0]):
        released = getattr(dp, question)(frame, **{**CALLS[question], **more})
        facts = (released.receipt if question == "synthesize" else released.dp.receipt).to_dict()
        assert SECRET not in str(facts) + repr(released) * (question == "synthesize")
        facts["card"] = [line for line in facts["card"] if line[0] != "notice"]
        receipts.append({k: v for k, v in facts.items() if k not in TOLD})
    assert receipts[0] == receipts[1]


TOLD = ("release_id", "time", "notices", "not_shown")


def test_every_question_is_called_here() -> None:
    assert CALLS.keys() == {question.name for question in QUESTIONS}
    for question in QUESTIONS:
        assert question.plan(CALLS[question.name])
