"""Every argument of tree counts, wrong in every way, and data at the edge of what is counted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.errors import (
    BudgetError,
    ColumnError,
    HierarchyError,
    LedgerError,
    ParameterError,
    ParameterTypeError,
    ReleaseNameError,
    ThresholdError,
)
from dpframe.testing import seeded_noise
from tests.members import in_turn, some
from tests.unit.refusals import SECRET, Wrong, assert_refused, chain, refusals

FRAME = pd.DataFrame({"place": [f"{SECRET}/a", f"{SECRET}/b", "x"] * 100, "who": [SECRET] * 300})
FRAME = FRAME.assign(visits=[1, 2, 3] * 100, year=[2001, 2002, 2003] * 100)
GOOD: dict[str, Any] = {"hierarchy": "path:place?depth=2", "epsilon": 1.0, "delta": 1e-6}
PURE: dict[str, Any] = {**GOOD, "delta": None, "keys": ["a", "b/c"]}


USER = {"user": "who"}
RECORDS = {"user": "who", "contribution": "records"}
ITEMS = {"user": "who", "contribution": "items"}
RELATIVE: dict[str, Any] = {"mechanism": "relative", "alpha": 0.5, "largest": 10**6}
WEIGHT = {"weight": "visits"}
LEVELS = ("level_weights must be 3 positive numbers", "level 0")

LISTED = {"delta": None, "keys": ["a"]}

BUDGETS: list[Wrong] = [
    ({"epsilon": None}, BudgetError, ("epsilon is missing", "epsilon=", "1.0")),
    ({"epsilon": 51}, BudgetError, ("epsilon (51)", "0.0001 to 50")),
    ({"delta": None}, BudgetError, ("delta", "keys=[...]", "'domain'", "delta > 0")),
    ({"delta": 0}, BudgetError, ("delta", "keys=[...]", "delta > 0")),
    ({"delta": 1.0}, BudgetError, ("delta (1.0)", "well below")),
    ({"delta": 1e-13, "keys": ["a"]}, BudgetError, ("delta (1e-13)", "left out")),
    ({"delta": 0.5, "keys": ["a"]}, BudgetError, ("delta (0.5)", "left out")),
    ({"delta": False, "keys": ["a"]}, ParameterTypeError, ("delta", "False")),
    ({"delta": None, **RELATIVE}, BudgetError, ("delta", "delta > 0")),
    ({**LISTED, "mechanism": "gaussian"}, BudgetError, ("mechanism='gaussian'", "Pass delta")),
]

TWO = {"hierarchy": ["place", "year"]}
IP = {"hierarchy": "ip:place"}

KEYS: list[Wrong] = [
    ({"keys": "a"}, ParameterError, ("keys is the text 'a'", "['a']", "'domain'")),
    ({"keys": "Domain"}, ParameterError, ("keys is the text 'Domain'", "'domain'")),
    ({"keys": "domain"}, ParameterError, ("keys='domain'", "Pass a list of keys")),
    ({"keys": []}, ParameterError, ("keys has 0 keys", "1 to")),
    ({"keys": ["a/b", "/a//b"]}, ParameterError, ("keys has 2 keys that mean 'a/b'", "once")),
    ({"keys": [None]}, ParameterError, ("keys has None", "malformed", "whole value")),
    ({"keys": [""]}, ParameterError, ("keys has ''", "malformed")),
    ({"keys": [math.nan]}, ParameterError, ("keys has", "malformed")),
    ({"keys": 3}, ParameterTypeError, ("keys must be a list", "int")),
    ({"keys": {"a"}}, ParameterTypeError, ("keys must be a list", "set")),
    ({"keys": iter(["a"])}, ParameterTypeError, ("keys must be a list", "iterator")),
    ({"keys": [("a", "b")]}, ParameterError, ("keys has ('a', 'b')", "one value", "'place'")),
    ({"keys": pd.DataFrame({"plaice": ["a"]})}, ColumnError, ("keys lacks column 'place'",)),
    ({**TWO, "keys": ["a"]}, ParameterError, ("keys has 'a'", "tuple of 2", "'place', 'year'")),
    ({**TWO, "keys": [("a", None)]}, ParameterError, ("keys has ('a', None)", "every column")),
    ({**TWO, "keys": [("a", 1, 2)]}, ParameterError, ("keys has ('a', 1, 2)", "tuple of 2")),
    ({**IP, "keys": ["10.0.0.0/8"]}, ParameterError, ("keys has '10.0.0.0/8'", "whole value")),
    ({**IP, "keys": ["10.0.0.1", "010.0.0.1"]}, ParameterError, ("keys has '010.0.0.1'",)),
    ({**IP, "keys": ["::ffff:10.0.0.1", "10.0.0.1"]}, ParameterError, ("2 keys that mean", "once")),
    (
        {"keys": ["a"], "mechanism": "hhh"},
        ParameterError,
        ("='hhh'", "Leave keys out", "'additive'"),
    ),
    ({"keys": ["a"], **RELATIVE}, ParameterError, ("mechanism='relative'", "Leave keys out")),
]

LEVEL_WEIGHTS: list[Wrong] = [
    ({"level_weights": [1, 1]}, ParameterError, (*LEVELS, "got 2")),
    ({"level_weights": [1, -1, 1]}, ParameterError, (*LEVELS, "-1")),
    ({"level_weights": [0, 1, 1]}, ParameterError, (*LEVELS, "0, 1, 1")),
    ({"level_weights": [1, 1, math.nan]}, ParameterError, (*LEVELS, "nan")),
    ({"level_weights": [1, 1, 10**400]}, ParameterError, (*LEVELS, "beyond")),
    ({"level_weights": [1, 1, 2e6]}, ParameterError, (*LEVELS, "1e6 times the smallest")),
    ({"level_weights": [True] * 3}, ParameterTypeError, (*LEVELS, "True")),
    ({"level_weights": ["1"] * 3}, ParameterTypeError, (*LEVELS, "'1'")),
    ({"level_weights": "111"}, ParameterTypeError, (*LEVELS, "str")),
    ({"level_weights": np.array(3)}, ParameterTypeError, (*LEVELS, "ndarray")),
    ({"level_weights": np.ones((3, 1))}, ParameterTypeError, (*LEVELS, "[1.0]")),
    ({"level_weights": {1, 2, 3}}, ParameterTypeError, (*LEVELS, "set")),
    ({"level_weights": [1] * 3, "mechanism": "hhh"}, ParameterError, ("='hhh'", "Leave it out")),
    ({"level_weights": [1] * 3, **RELATIVE}, ParameterError, ("level_weights", "Leave it out")),
]

WEIGHTS: list[Wrong] = [
    ({**WEIGHT, **USER}, ParameterError, ("weight ('visits')", "user ('who')", "Leave one out")),
    ({**WEIGHT, "contribution": "share"}, ParameterError, ("contribution ('share')", "user=")),
    ({**WEIGHT, "max_contributions": 2}, ParameterError, ("max_contributions (2)", "user=")),
    ({"max_weight": 3}, ParameterError, ("max_weight (3)", "weight=")),
    ({**USER, "max_weight": 3}, ParameterError, ("max_weight (3)", "weight=")),
    ({**WEIGHT, "max_weight": 0}, ParameterError, ("max_weight (0)", "from 1 to 1000000000")),
    ({**WEIGHT, "max_weight": 10**9 + 1}, ParameterError, ("max_weight", "to 1000000000")),
    ({**WEIGHT, "max_weight": 10**9}, BudgetError, ("epsilon (1e-09", "Raise epsilon")),
    (RECORDS, ParameterError, ("contribution='records'", "max_contributions=")),
    (
        {**LISTED, **ITEMS, "max_contributions": 2},
        ParameterError,
        ("contribution='items'", "at_most="),
    ),
    ({**ITEMS, "max_contributions": 1}, ParameterError, ("max_contributions (1)", "2")),
    ({**ITEMS, "level_weights": [1] * 3}, ParameterError, ("level_weights", "without keys")),
    ({**ITEMS, "mechanism": "laplace"}, ParameterError, ("mechanism ('laplace')", "without keys")),
    ({**ITEMS, "delta": None}, BudgetError, ("delta", "keys=[...]", "delta > 0")),
    ({**ITEMS, "at_most": 2001}, ParameterError, ("at_most (2001)", "2000")),
]

MECHANISMS: list[Wrong] = [
    ({"mechanism": "laplase"}, ParameterError, ("mechanism ('laplase')", "mean 'laplace'?")),
    ({"mechanism": "Gaussian"}, ParameterError, ("mechanism", "Did you mean 'gaussian'?")),
    ({"mechanism": "offline"}, ParameterError, ("mechanism ('offline')", "additive, laplace")),
    ({"mechanism": "streaming"}, ParameterError, ("mechanism", "hhh, relative")),
    ({"mechanism": "gaussian", **USER}, ParameterError, ("'gaussian'", "'records'", "'laplace'")),
    ({**RELATIVE, **USER}, ParameterError, ("mechanism='relative'", "'records'")),
    ({"threshold": 1}, ThresholdError, ("threshold (1)", "smallest private threshold", "Raise")),
    ({"threshold": 1, "mechanism": "hhh"}, ThresholdError, ("threshold (1)", "Raise threshold")),
    ({"threshold": 0}, ParameterError, ("threshold (0)", "from 1")),
    ({"threshold": 2**54}, ParameterError, ("threshold", str(2**53))),
    ({"threshold": 99, "keys": ["a"]}, ParameterError, ("threshold (99)", "keys", "Leave it out")),
    ({"threshold": 99, **RELATIVE}, ParameterError, ("threshold (99)", "Leave it out")),
    ({"alpha": 0.5}, ParameterError, ("alpha (0.5)", "mechanism='relative'")),
    ({"largest": 9}, ParameterError, ("largest (9)", "mechanism='relative'")),
    ({**RELATIVE, "alpha": None}, ParameterError, ("needs alpha=", "0.5")),
    ({**RELATIVE, "largest": None}, ParameterError, ("needs largest=", "largest number")),
    ({**RELATIVE, "alpha": 1.0}, ParameterError, ("alpha (1.0)", "0.01 to 0.99")),
    ({**RELATIVE, "largest": 0}, ParameterError, ("largest (0)", "from 1")),
    ({**RELATIVE, "largest": 9}, ParameterError, ("largest (9) is too small", "default mechanism")),
    ({"confidence": 95}, ParameterError, ("confidence (95)", "0.5 to 0.999999")),
    ({"hierarchy": "pth:place"}, HierarchyError, ("pth", "Did you mean 'path'")),
]

WRONG = [*BUDGETS, *KEYS, *LEVEL_WEIGHTS, *WEIGHTS, *MECHANISMS]


@refusals(WRONG)
def test_an_explanation_names_a_wrong_argument_its_value_and_the_rule(case: Wrong) -> None:
    assert_refused(dp.explain_tree_counts, case, **GOOD)


def test_numbers_of_numpy_and_arrays_are_arguments() -> None:
    plans = [
        dp.explain_tree_counts(**GOOD, level_weights=weights, threshold=threshold).plan
        for weights, threshold in (
            ([1, 2, 3], 500),
            ((1.0, 2.0, 3.0), 500.0),
            (np.array([1, 2, 3]), np.int64(500)),
            (pd.Series([1, 2, 3]), np.float32(500)),
        )
    ]
    assert len({str(plan.request) for plan in plans}) == 1
    pure = [dp.explain_tree_counts(**{**PURE, "delta": d}).plan for d in (None, 0, 0.0)]
    assert {plan.budget.delta for plan in pure} == {0.0}


OPENED: list[Wrong] = [
    ({"hierarchy": "path:plaice"}, ColumnError, ("'plaice'", "Did you mean 'place'?")),
    ({"weight": "vists"}, ColumnError, ("'vists'", "Did you mean 'visits'?")),
    ({"weight": ""}, ColumnError, ("weight ('')", "name of a column")),
    ({"weight": "who"}, ColumnError, ("column 'who'", "VARCHAR", "Count hundredths")),
    ({"user": "whom"}, ColumnError, ("'whom'", "Did you mean 'who'?")),
    ({"hierarchy": ["year"], "keys": ["new"]}, ColumnError, ("keys has 'new'", "'year'")),
    ({"hierarchy": ["year"], "keys": ["02001"]}, ColumnError, ("keys has '02001'", "'2001'")),
    ({"hierarchy": "date:year", "keys": ["2001-01-01"]}, ColumnError, ("'year'", "to_timestamp")),
    ({"release": "r", "ledger": None}, ParameterError, ("release='r'", "needs a ledger")),
    ({"release": ""}, ParameterError, ("release ('')", "200 printable")),
]


@refusals([*WRONG, *OPENED])
def test_what_fails_is_named_and_free(case: Wrong, ledger: dp.Ledger) -> None:
    """Law: names and types of columns are public, their values are not; nothing is charged."""
    assert_refused(FRAME.dp.tree_counts, case, **{"ledger": ledger, **GOOD})
    assert len(ledger.releases()) == 0


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "budget.db", epsilon=100.0, delta=1e-2)


OTHERS: list[dict[str, Any]] = [
    *({"keys": ["a"]}, {"keys": ["a", "b/d"]}, {"keys": None, "delta": 1e-6}, {"delta": 1e-6}),
    *({"consistent": False}, {"epsilon": 2.0}, {"confidence": 0.9}, {"weight": "visits"}),
    *({"weight": "visits", "max_weight": 3}, {"user": "who"}, {"level_weights": [1, 1, 2]}),
    *({"mechanism": "laplace"}, {"hierarchy": "path:place?depth=3"}),
]


@some(0, 2, 5, 7, 10)
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_a_name_stands_for_one_request(ledger: dp.Ledger, other: dict[str, Any]) -> None:
    FRAME.dp.tree_counts(**PURE, ledger=ledger, release="r")
    with pytest.raises(ReleaseNameError, match="'r'") as raised:
        FRAME.dp.tree_counts(**{**PURE, **other}, ledger=ledger, release="r")
    assert isinstance(raised.value, LedgerError)
    assert SECRET not in chain(raised.value)
    with pytest.raises(ReleaseNameError, match="'r'"):
        FRAME.dp.hhh("path:place", epsilon=1.0, delta=1e-6, ledger=ledger, release="r")
    assert len(ledger.releases()) == 1


def test_a_pure_release_costs_no_delta_to_speak_of(ledger: dp.Ledger) -> None:
    FRAME.dp.tree_counts(**PURE, ledger=ledger)
    spent = ledger.summary()
    assert spent["spent_epsilon"][0] == 1.0
    assert spent["spent_delta"][0] <= 1e-15


def near(frame: pd.DataFrame, label: str, truth: int, most: int = 40) -> bool:
    row = frame[frame["prefix"] == label]
    return len(row) == 1 and abs(row["count"].item() - truth) <= most


@in_turn(("keys", [["a", "b"], None], ["listed", "found"]), ("consistent", [True, False]))
def test_counts_near_two_to_53(keys: list[str] | None, consistent: bool) -> None:
    """Law: large counts lose no unit to floating-point numbers."""
    rows = 2_200_000
    keys_of_rows = pa.array(["a", "b"]).take(np.repeat([0, 1], rows))
    frame = pa.table({"k": keys_of_rows, "w": np.full(2 * rows, 10**9)})
    asked = {"epsilon": 5.0, "delta": 1e-6, "keys": keys, "consistent": consistent}
    result = dp.tree_counts(frame, ["k"], weight="w", **asked)
    assert 2 * rows * 10**9 > 2**52 / 2
    for label, truth in (("a", rows * 10**9), ("b", rows * 10**9), ("*", 2 * rows * 10**9)):
        assert near(result, label, truth)
    if consistent:
        assert result["count"][0] == result["count"][1:].sum()


HARDLY: list[dict[str, Any]] = [
    *({"delta": 1e-6}, {"keys": ["a", "b"]}, {"keys": ["a", "b"], "consistent": False}),
    {"delta": 1e-6, "mechanism": "gaussian", "consistent": False},
    {"delta": 1e-6, "mechanism": "relative", "alpha": 0.5, "largest": 10**6},
    *({"delta": 1e-6, **more} for more in ({"mechanism": "hhh"}, {"user": "w"}, {"weight": "w"})),
]


@pytest.mark.parametrize("asked", HARDLY, ids=str)
@pytest.mark.parametrize("n", [0, 1])
def test_hardly_any_rows_are_a_release(n: int, asked: dict[str, Any]) -> None:
    frame = pd.DataFrame({"k": ["a"], "w": [1]}).iloc[:n]
    result = dp.tree_counts(frame, ["k"], epsilon=0.5, **asked)
    assert list(result["prefix"]) == (["*", "a", "b", "<other>"] if "keys" in asked else ["*"])
    assert result["prefix"][0] == "*"
    assert (result["lower"] <= result["count"]).all()
    assert result["residual"].sum() == result["count"][0]
    if asked.get("consistent", True):
        assert (result["count"] >= 0).all()


VALUES = [
    *("<other>", "<invalid>", "日本", "é", "e\u0301", "👩‍👩‍👧‍👦", "a\nb", "", "*", "'; --"),
    "\x00",
]


@pytest.mark.parametrize("listed", [True, False])
def test_every_text_is_a_value(listed: bool) -> None:
    """Law: markers and Unicode in the data are values like others, before what they mean."""
    frame = pd.DataFrame({"k": VALUES * 400, "x": ["<other>"] * 400 * len(VALUES)})
    values = [v for v in VALUES if v]  # the empty text is missing
    keys = [(v, "<other>") for v in values[:5]] if listed else None
    with seeded_noise(2):
        result = dp.tree_counts(frame, ["k", "x"], epsilon=5.0, delta=1e-6, keys=keys)
    shown = values[:5] if listed else values
    under = result[(result["level"] == 2) & (result["x"] == "<other>")]
    for value in shown:
        rows = under[under["k"] == value]
        assert len(rows) == (2 if value != "<invalid>" or listed else 4)
        assert near(rows.iloc[:1], f"{value} / <other>", 400)
    first = result[(result["level"] == 1) & (result["prefix"] == "<other>")]
    assert len(first) == 2
    assert abs(first["count"].iloc[0] - 400) <= 40
    assert first["residual"].iloc[0] == 0
