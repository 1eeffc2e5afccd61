"""Every argument of every question with values that its declaration rules out."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.question import RELEASE_ARGUMENTS
from dpframe.errors import BudgetError, DpframeError, ParameterError, ParameterTypeError
from dpframe.questions.question_list import QUESTIONS
from tests.members import some
from tests.unit.refusals import SECRET

FRAME = pd.DataFrame({"place": [f"{SECRET}/a"] * 3, "who": [SECRET] * 3, "visits": [1, 2, 3]})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
GOOD: dict[str, dict[str, Any]] = {
    "hhh": {"hierarchy": "path:place", **BUDGET},
    "tree_counts": {"hierarchy": "path:place", **BUDGET},
    "heavy_hitters": {"column": "place", **BUDGET},
    "synthesize": {"columns": {"visits": (0, 8)}, "epsilon": 1.0},
    "prefix_tree": {"column": "place", "user": "who", "devices": 10**6, **BUDGET},
    "rollup": {"by": "path:place", "measures": "count", **BUDGET},
}
"""A call of every question that a plan can be made for."""

RECORDS: dict[str, Any] = {"user": "who", "contribution": "records"}
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


def wrong(annotation: str) -> Iterator[tuple[object, tuple[type[Exception], ...]]]:
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
    for value, answers in wrong(annotation):
        given = {"ledger": ledger, **GOOD[question.name], **beside, argument: value}
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
        question.ask(FRAME, **{**GOOD[question.name], "epsilon": None})


RECEIPTS = [
    *((name, {}) for name in ("heavy_hitters", "synthesize", "rollup", "tree_counts")),
    *(("tree_counts", more) for more in ({"delta": None, "keys": ["a"]}, {"consistent": False})),
    *(("tree_counts", more) for more in ({"mechanism": "hhh"}, {"weight": "visits"})),
    ("synthesize", {"columns": "columns:place", "keys": ["b", "c"]}),
]


@pytest.mark.parametrize(("question", "more"), RECEIPTS)
def test_receipts_say_nothing_of_the_data(question: str, more: dict[str, Any]) -> None:
    """Law: those of empty and full tables differ in id, time and notices of released rows alone."""
    receipts = []
    for frame in (FRAME, FRAME.iloc[:0]):
        released = getattr(dp, question)(frame, **{**GOOD[question], **more})
        facts = (released.receipt if question == "synthesize" else released.dp.receipt).to_dict()
        assert SECRET not in str(facts) + repr(released)
        facts["card"] = [line for line in facts["card"] if line[0] != "notice"]
        receipts.append({k: v for k, v in facts.items() if k not in TOLD})
    assert receipts[0] == receipts[1]


TOLD = ("release_id", "time", "notices")


def test_every_question_is_called_here() -> None:
    assert GOOD.keys() == {question.name for question in QUESTIONS}
    for question in QUESTIONS:
        assert question.plan(GOOD[question.name])
