"""Every argument of synthetic rows, wrong in every way, and data at the edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.errors import (
    BudgetError,
    ColumnError,
    DpframeError,
    HierarchyError,
    ParameterError,
    ParameterTypeError,
)
from tests.members import some
from tests.unit.asking.test_arguments import chain

SECRET = "sEcReT-4711"
FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, 3.0] * 100,
        "word": [f"{SECRET}/a", "b", "日本"] * 100,
        "at": pd.date_range("2017-01-01", periods=300, freq="h"),
    }
)
GOOD: dict[str, Any] = {"columns": {"x": (0, 8)}, "epsilon": 1.0}
LISTED: dict[str, Any] = {"columns": "columns:word", "keys": ["b", "c"]}


def by_function(**arguments: Any) -> object:
    return dp.synthesize(FRAME, **arguments)


def by_explain(**arguments: Any) -> object:
    return dp.explain_synthesize(**arguments)


def by_stream(**arguments: Any) -> object:
    of_finish = {k: arguments.pop(k) for k in ("epsilon", "split") if k in arguments}
    stream = dp.PrivHP(**arguments)
    stream.update(FRAME)
    return stream.finish(**of_finish)


DOORS = [by_function, by_explain, by_stream]
every_door = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)

Wrong = tuple[dict[str, Any], type[DpframeError], tuple[str, ...]]

BUDGETS: list[Wrong] = [
    ({"epsilon": None}, BudgetError, ("epsilon is missing", "1.0")),
    ({"epsilon": 0}, BudgetError, ("epsilon (0)", "0.0001 to 50")),
    ({"epsilon": -1}, BudgetError, ("epsilon (-1)",)),
    ({"epsilon": 51}, BudgetError, ("epsilon (51)",)),
    ({"epsilon": math.nan}, BudgetError, ("epsilon (nan)",)),
    ({"epsilon": math.inf}, BudgetError, ("epsilon (inf)",)),
]

COLUMNS: list[Wrong] = [
    ({"columns": None}, ParameterTypeError, ("columns is missing", "number:distance")),
    ({"columns": 3}, ParameterTypeError, ("columns", "int")),
    ({"columns": b"x"}, ParameterTypeError, ("columns", "bytes")),
    ({"columns": []}, ParameterError, ("columns is empty",)),
    ({"columns": {}}, ParameterError, ("columns is empty",)),
    ({"columns": [3]}, ParameterTypeError, ("columns", "int")),
    ({"columns": {3: (0, 1)}}, ParameterTypeError, ("columns", "3")),
    ({"columns": "x"}, HierarchyError, ("'x'", "KIND:COLUMN")),
    ({"columns": "nubmer:x?lower=0&upper=1"}, HierarchyError, ("Did you mean 'number'",)),
    ({"columns": "number:x"}, HierarchyError, ("lower", "upper")),
    ({"columns": "number:x?lower=0"}, HierarchyError, ("upper",)),
    ({"columns": "time:at?upper=2017-01-01"}, HierarchyError, ("lower",)),
    ({"columns": {"x": 5}}, ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (5,)}}, ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (1, 2, 3)}}, ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (8, 0)}}, HierarchyError, ("lower", "upper")),
    ({"columns": {"x": (8, 8)}}, HierarchyError, ("lower", "upper")),
    ({"columns": {"x": (math.nan, 8)}}, HierarchyError, ("lower", "nan")),
    ({"columns": {"x": (0, math.inf)}}, HierarchyError, ("upper", "inf")),
    ({"columns": {"x": ("a", 8)}}, HierarchyError, ("lower", "'a'")),
    ({"columns": {"x": ("a", "b")}}, ParameterError, ("columns['x']", "keys={'x': [...]}")),
    ({"columns": {"x": (None, 8)}}, HierarchyError, ("lower",)),
    ({"columns": {"at": ("2018-01-01", "2017-01-01")}}, HierarchyError, ("lower", "before")),
    ({"columns": {"at": ("2017-01-01", "2017-01-01")}}, HierarchyError, ("lower", "before")),
    ({"columns": {"at": ("2017-01-01", pd.NaT)}}, HierarchyError, ()),
    (
        {"columns": ["number:x?lower=0&upper=8", "number:x?lower=0&upper=9"]},
        ColumnError,
        ("'x' twice",),
    ),
    ({"columns": "ip:word"}, HierarchyError, ("IPv6", "version=4")),
]

KEYS: list[Wrong] = [
    ({"keys": ["a"]}, ParameterError, ("keys is for categories", "leave it out")),
    ({**LISTED, "keys": None}, ParameterError, ("columns:word needs keys", "keys=[...]")),
    ({**LISTED, "keys": []}, ParameterError, ("keys has 0 keys",)),
    ({**LISTED, "keys": {"word": []}}, ParameterError, ("keys has 0 keys",)),
    ({**LISTED, "keys": {}}, ParameterError, ("keys must be a dict", "'word'")),
    ({**LISTED, "keys": {"wrod": ["b"]}}, ParameterError, ("keys", "'word'", "wrod")),
    ({**LISTED, "keys": {"word": ["b"], "x": [1]}}, ParameterError, ("keys", "'word'", "'x'")),
    ({**LISTED, "keys": ["b", "b"]}, ParameterError, ("keys has 'b' twice",)),
    ({**LISTED, "keys": [None]}, ParameterError, ("keys has None",)),
    ({**LISTED, "keys": [("a", "b")]}, ParameterError, ("keys has ('a', 'b')", "'word'")),
    ({**LISTED, "keys": 3}, ParameterTypeError, ("keys must be a list", "int")),
    ({**LISTED, "keys": "b"}, ParameterTypeError, ("keys must be a list", "str")),
]

SIZES: list[Wrong] = [
    ({"k": 0}, ParameterError, ("k (0)", "from 1")),
    ({"k": -1}, ParameterError, ("k (-1)",)),
    ({"k": 2**40}, ParameterError, ("k",)),
    ({"width": 0}, ParameterError, ("width (0)",)),
    ({"width": 2**40}, ParameterError, ("width",)),
    ({"rows": 0}, ParameterError, ("rows (0)",)),
    ({"rows": 2}, ParameterError, ("rows", "2", "odd")),
    ({"rows": 100}, ParameterError, ("rows (100)",)),
    ({"rows": None}, ParameterTypeError, ("rows", "None")),
    ({"depth": 0}, ParameterError, ("depth",)),
    ({"depth": 61}, ParameterError, ("depth (61)", "60")),
    ({"depth": 49}, ParameterError, ("depth", "48")),
    (
        {"columns": {"x": (0, 8), "at": ("2017-01-01", "2018-01-01")}, "depth": 1},
        ParameterError,
        (),
    ),
    ({"split": "optimum"}, ParameterError, ("split ('optimum')", "Did you mean 'optimal'?")),
    ({"split": "zzz"}, ParameterError, ("split ('zzz')", "uniform")),
]

WRONG = [*BUDGETS, *COLUMNS, *KEYS, *SIZES]


@every_door
@pytest.mark.parametrize(("wrong", "error", "said"), WRONG)
def test_a_wrong_argument_is_answered_with_name_value_and_rule(
    door: Callable[..., object],
    wrong: dict[str, Any],
    error: type[DpframeError],
    said: tuple[str, ...],
) -> None:
    """Law: the class of the error tells what is wrong, the message how to go on."""
    with pytest.raises(DpframeError) as raised:
        door(**{**GOOD, **wrong})
    assert issubclass(raised.type, error), str(raised.value)
    for part in said:
        assert part in str(raised.value)
    assert SECRET not in chain(raised.value)


OPENED: list[Wrong] = [
    ({"columns": {"y": (0, 8)}}, ColumnError, ("column 'y' does not exist",)),
    ({"columns": {"wrd": (0, 8)}}, ColumnError, ("'wrd'", "Did you mean 'word'?")),
    ({"columns": {"at": (0, 8)}}, ColumnError, ("column 'at'", "TIMESTAMP", "time:COLUMN")),
    (
        {"columns": {"x": ("2017-01-01", "2018-01-01")}},
        ColumnError,
        ("'x'", "DOUBLE", "pd.to_datetime"),
    ),
    ({"columns": "ip:x?version=4"}, ColumnError, ("'x'", "DOUBLE", "Choose")),
    ({"columns": "columns:x", "keys": ["one"]}, ColumnError, ("keys has 'one'", "'x'")),
    ({"release": "r"}, ParameterError, ("release='r'", "needs a ledger")),
    ({"release": ""}, ParameterError, ("release ('')",)),
    ({"seed": -1}, ParameterError, ("seed (-1)",)),
    ({"seed": 2**63}, ParameterError, ("seed",)),
]


@pytest.mark.parametrize(("wrong", "error", "said"), OPENED)
def test_a_column_that_is_not_there_or_not_readable_is_named(
    wrong: dict[str, Any], error: type[DpframeError], said: tuple[str, ...]
) -> None:
    """Law: names and types of columns are public, their values are not."""
    with pytest.raises(DpframeError) as raised:
        by_function(**{**GOOD, **wrong})
    assert issubclass(raised.type, error), str(raised.value)
    for part in said:
        assert part in str(raised.value)
    assert SECRET not in chain(raised.value)


def test_nothing_is_charged_for_what_fails(tmp_path: Path) -> None:
    """Law: a wrong argument, a column that is missing, a type that cannot be read: all free."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=100.0, delta=1e-2)
    for wrong, error, _ in [*WRONG, *OPENED]:
        if wrong.get("release") == "r":
            continue  # the ledger is what it lacked
        with pytest.raises(error):
            dp.synthesize(FRAME, **{**GOOD, **wrong}, ledger=ledger)
    assert len(ledger.releases()) == 0
    assert ledger.summary()["spent_epsilon"][0] == 0


@some("None-ParameterTypeError", "1.5-ParameterTypeError", "1000000001-ParameterError")
@pytest.mark.parametrize(
    ("n", "error"),
    [
        (None, ParameterTypeError),
        (-1, ParameterError),
        (1.5, ParameterTypeError),
        ("9", ParameterTypeError),
        (True, ParameterTypeError),
        (10**9 + 1, ParameterError),
        (math.nan, ParameterTypeError),
    ],
)
def test_a_wrong_number_of_rows(n: Any, error: type[DpframeError]) -> None:
    generator = dp.synthesize(FRAME, **GOOD)
    for draw in (generator.sample, generator.sample_arrow):
        with pytest.raises(error, match=r"\bn\b"):
            draw(n)
        with pytest.raises(DpframeError, match="seed"):
            draw(3, seed=-1)


# -- data at the edge ----------------------------------------------------------------------------


def shares(frame: pd.DataFrame, columns: Any, **arguments: Any) -> pd.DataFrame:
    return dp.synthesize(frame, columns, epsilon=50.0, **arguments).sample(2000, seed=1)


def test_values_beyond_bounds_count_at_the_bound() -> None:
    """Law: no error, no word; rows stay within the bounds."""
    frame = pd.DataFrame({"x": [-1e300, -math.inf] * 500 + [math.inf, 1e300, 99] * 500})
    found = shares(frame, {"x": (0, 8)}, depth=3)["x"]
    assert found.between(0, 8).all()
    assert abs((found < 1).mean() - 0.4) < 0.05
    assert abs((found > 7).mean() - 0.6) < 0.05


@some("no rows", "NA")
@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": pd.Series([], dtype="float64")}),
        pd.DataFrame({"x": [math.nan] * 50}),
        pd.DataFrame({"x": pd.array([None] * 50, dtype="Int64")}),
        pd.DataFrame({"x": [None] * 50}),
        pd.DataFrame({"x": [1.0]}),
    ],
    ids=["no rows", "NaN", "NA", "None", "one row"],
)
def test_hardly_any_rows_are_a_release(frame: pd.DataFrame) -> None:
    """Law: rows come out, of the same form, whatever is there."""
    generator = dp.synthesize(frame, {"x": (0, 8)}, epsilon=0.5)
    found = generator.sample(20)
    assert len(found) == 20
    assert found["x"].astype("float64").between(0, 8).all()
    assert (generator.counts()["count"] >= 0).all()


def test_a_stream_without_rows_is_a_release() -> None:
    found = dp.PrivHP({"x": (0, 8), "at": ("2017-01-01", "2018-01-01")}).finish(epsilon=1.0)
    assert [str(t) for t in found.sample(3).dtypes] == ["float64", "datetime64[us]"]


VALUES = ["<other>", "<invalid>", "日本", "é", "e\u0301", "👩‍👩‍👧‍👦", "a\nb", "*", "'; --"]


def test_every_text_is_a_value() -> None:
    """Law: texts are told apart by their characters, in names of columns too."""
    frame = pd.DataFrame({"größe 'x'": VALUES * 300})
    found = shares(frame, "columns:größe 'x'", keys=VALUES[1:])
    counts = found["größe 'x'"].value_counts(normalize=True)
    assert set(counts.index) == set(VALUES)
    assert (abs(counts - 1 / len(VALUES)) < 0.05).all()


def test_numbers_of_numpy_are_arguments() -> None:
    plans = [
        str(dp.explain_synthesize({"x": bounds}, epsilon=1.0, k=k, depth=depth))
        for bounds, k, depth in (
            ((0, 8), 16, 9),
            ([0.0, 8.0], np.int64(16), np.int32(9)),
            ((np.float64(0), np.int64(8)), 16.0, 9.0),
        )
    ]
    assert len(set(plans)) == 1


def test_receipts_say_nothing_of_the_data() -> None:
    """Law: receipts of empty and full tables differ in id and time only, and quote no value."""
    for asked in (GOOD, {**LISTED, "epsilon": 1.0}):
        full = dp.synthesize(FRAME, **asked)
        empty = dp.synthesize(FRAME.iloc[:0], **asked)
        one, other = full.receipt.to_dict(), empty.receipt.to_dict()
        assert SECRET not in str(one) + repr(full) + str(full.receipt)
        assert {k: v for k, v in one.items() if other[k] != v}.keys() <= {"release_id", "time"}
