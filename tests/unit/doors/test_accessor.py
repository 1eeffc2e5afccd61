"""``df.dp`` has the signatures of the functions, for people, editors and type checkers."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.asking.question import WAREHOUSE_ARGUMENTS
from dpframe.doors.accessor import DpAccessor
from dpframe.questions.question_list import QUESTIONS

ASKED = [question.name for question in QUESTIONS]
EXPLAINED = ["explain" if name == "hhh" else f"explain_{name}" for name in ASKED]
FRAME = pd.DataFrame({"a": ["x"] * 60})


@pytest.mark.parametrize("name", [*ASKED, *EXPLAINED])
def test_a_method_has_the_signature_of_its_function(name: str) -> None:
    """Law: but for the source and what another engine has counted."""
    source, about, *rest = inspect.signature(getattr(dp, name)).parameters.values()
    wanted = [
        about.replace(default=about.empty),
        *(p for p in rest if p.name not in WAREHOUSE_ARGUMENTS),
    ]
    found = inspect.signature(getattr(FRAME.dp, name))
    assert list(found.parameters.values()) == wanted
    assert source.name not in found.parameters
    placed = {p.name for p in wanted[1:] if p.kind is not inspect.Parameter.KEYWORD_ONLY}
    assert placed == ({"measures"} if name.endswith("rollup") else set())


@pytest.mark.parametrize("name", [*ASKED, *EXPLAINED])
def test_a_method_says_what_its_function_says(name: str) -> None:
    """Law: what ``df.dp.hhh?`` shows is the docstring of ``dp.hhh``, about a frame."""
    function, method = getattr(dp, name), getattr(DpAccessor, name)
    doc, own = inspect.cleandoc(function.__doc__), method.__doc__
    assert own.split("\n")[0] == doc.split("\n")[0]
    assert f".dp.{name}(" in own
    assert not re.search(r"^(source|candidates|plan)\b.*\n    ", own, re.M)
    for parameter in inspect.signature(method).parameters:
        if parameter != "self" and name in ASKED:
            assert re.search(rf"^([\w, ]+, )?{parameter}(, [\w, ]+)?\n    ", own, re.M), parameter


NO_STATEMENT = {"rollup_sql": ["counters"], "tree_rollup_sql": [], "measures_sql": []}
"""Arguments of sketches, which no statement makes."""


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.rollup], ids=lambda q: q.name)
def test_a_statement_for_a_warehouse_takes_what_plans_its_question(question: Any) -> None:
    """Law: as it is declared there; what it is about must be said."""
    name = str(question.rollup)
    about, *rest = [question.parameters[argument] for argument in question.plan_arguments]
    found = inspect.signature(getattr(dp, name)).parameters
    placed = [p.name for p in rest if p.kind is not p.KEYWORD_ONLY]
    rest = [p for p in rest if p.kind is p.KEYWORD_ONLY]
    own = [about.name, *placed, "table", "dialect", "types"]
    assert [*found] == [*own, *(p.name for p in rest if p.name not in NO_STATEMENT[name])]
    assert [found[p.name] for p in rest if p.name not in NO_STATEMENT[name]] == [
        p for p in rest if p.name not in NO_STATEMENT[name]
    ]
    assert found[about.name].default is inspect.Parameter.empty
    assert f"{found[about.name].annotation} | None" == about.annotation


@pytest.mark.parametrize(("name", "explain"), [*zip(ASKED, EXPLAINED, strict=True)])
def test_explain_takes_the_call_that_would_run(name: str, explain: str) -> None:
    """Law: with the source or without; and behind it how exact it is to be."""
    asked = inspect.signature(getattr(dp, name)).parameters.values()
    explained = inspect.signature(getattr(dp, explain)).parameters.values()
    left = [p for p in asked if p.name not in WAREHOUSE_ARGUMENTS]
    *explained, error = explained
    assert (error.name, error.kind, error.default) == ("error", error.KEYWORD_ONLY, None)
    assert list(explained) == [p.replace(default=None) if p.default is p.empty else p for p in left]


def test_explanations_take_a_source_by_place_and_by_name() -> None:
    budget = {"epsilon": 1.0, "delta": 1e-6}
    plans = [
        *(dp.explain(["a"], **budget), dp.explain(FRAME, ["a"], **budget)),
        *(dp.explain(hierarchy=["a"], **budget), dp.explain(FRAME, hierarchy=["a"], **budget)),
        *(dp.explain(source=FRAME, hierarchy=["a"], **budget), FRAME.dp.explain(["a"], **budget)),
        *(dp.explain(["a"], source=FRAME, **budget), FRAME.dp.explain(hierarchy=["a"], **budget)),
    ]
    assert len({str(plan) for plan in plans}) == 1
    with pytest.raises(dp.ColumnError):
        dp.explain(["b"], source=FRAME, **budget)
    with pytest.raises(dp.ParameterError, match="needs a ledger"):
        dp.explain(FRAME, ["a"], **budget, release="r")
    for doubled in (dp.explain, FRAME.dp.explain):
        with pytest.raises(dp.ParameterTypeError, match="'source'"):
            doubled(*([FRAME] * (doubled is dp.explain)), ["a"], source=FRAME, **budget)


class Loud:
    """A value that must not be looked at."""

    def __str__(self) -> str:
        raise AssertionError("read")


def test_explanations_read_no_row() -> None:
    """Law: of a frame, names and types; nothing lazy is computed, no reader is used up."""
    loud = pd.DataFrame({"a": pd.Series([Loud()] * 3, dtype=object)})
    table = pa.table({"a": ["x"]})
    lazy = pl.DataFrame({"a": ["x"]}).lazy()
    fails = lazy.with_columns(a=pl.col("a").map_elements(lambda _: 1 / 0, return_dtype=pl.String))
    budget = {"epsilon": 1.0, "delta": 1e-6}
    for source in (loud, table, table.to_batches()[0], lazy.collect(), fails):
        assert dp.explain(source, ["a"], **budget).plan.height == 1
        assert dp.explain_tree_counts(source, ["a"], **budget).plan.height == 1
        dp.explain_synthesize(source, "columns:a", keys=["x"], epsilon=1.0)
        with pytest.raises(dp.ColumnError):
            dp.explain(source, ["b"], **budget)
    loud.dp.explain(["a"], **budget)
    with pytest.raises(dp.SourceError, match="does not exist"):
        dp.explain_synthesize("nowhere.csv", "columns:a", keys=["x"], epsilon=1.0)
