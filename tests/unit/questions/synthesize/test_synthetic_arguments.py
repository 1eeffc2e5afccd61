"""Every argument of synthetic rows, wrong in every way, and data at the edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from tests.unit.refusals import SECRET, Wrong, assert_refused, refusals

FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, 3.0] * 100,
        "word": [f"{SECRET}/a", "b", "日本"] * 100,
        "at": pd.date_range("2017-01-01", periods=300, freq="h"),
    }
)
YEAR = ("2017-01-01", "2018-01-01")
GOOD: dict[str, Any] = {"columns": {"x": (0, 8)}, "epsilon": 1.0}
LISTED: dict[str, Any] = {"columns": "columns:word", "keys": ["b", "c"]}


def by_stream(**arguments: Any) -> object:
    of_finish = {k: arguments.pop(k) for k in ("epsilon", "split") if k in arguments}
    stream = dp.PrivHP(**arguments)
    stream.update(FRAME)
    return stream.finish(**of_finish)


DOORS = {"explain": dp.explain_synthesize, "stream": by_stream}
every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)

BUDGETS: list[Wrong] = [
    ({"epsilon": None}, BudgetError, ("epsilon is missing", "1.0")),
    ({"epsilon": 0}, BudgetError, ("epsilon (0)", "0.0001 to 50")),
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
    ({"columns": "number:x"}, HierarchyError, ("number needs lower and upper",)),
    ({"columns": "number:x?lower=0"}, HierarchyError, ("number needs upper",)),
    ({"columns": "time:at?upper=2017-01-01"}, HierarchyError, ("time needs lower",)),
    ({"columns": {"x": 5}}, ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (5,)}}, ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (1, 2, 3)}}, ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (8, 0)}}, HierarchyError, ("must be less than upper",)),
    ({"columns": {"x": (8, 8)}}, HierarchyError, ("must be less than upper",)),
    ({"columns": {"x": (math.nan, 8)}}, HierarchyError, ("lower must be finite", "nan")),
    ({"columns": {"x": (0, math.inf)}}, HierarchyError, ("upper must be finite", "inf")),
    ({"columns": {"x": ("a", 8)}}, HierarchyError, ("lower", "'a'")),
    ({"columns": {"x": ("a", "b")}}, ParameterError, ("columns['x']", "keys={'x': [...]}")),
    ({"columns": {"x": (None, 8)}}, HierarchyError, ("lower must be a number",)),
    ({"columns": {"at": ("2018-01-01", "2017-01-01")}}, HierarchyError, ("must be before upper",)),
    ({"columns": {"at": ("2017-01-01", "2017-01-01")}}, HierarchyError, ("lower", "before")),
    ({"columns": {"at": ("2017-01-01", pd.NaT)}}, HierarchyError, ()),
    ({"columns": ["number:x?lower=0&upper=8"] * 2}, ColumnError, ("'x' twice",)),
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
    ({"depth": 49}, ParameterError, ("depth must be a whole number in 1 to 48",)),
    (
        {"columns": {"x": (0, 8), "at": YEAR}, "depth": 1},
        ParameterError,
        ("depth (1)", "below the number"),
    ),
    ({"split": "optimum"}, ParameterError, ("split ('optimum')", "Did you mean 'optimal'?")),
    ({"split": "zzz"}, ParameterError, ("split ('zzz')", "uniform")),
]

WRONG = [*BUDGETS, *COLUMNS, *KEYS, *SIZES]


@every_door
@refusals(WRONG)
def test_a_wrong_argument_is_answered_with_name_value_and_rule(
    door: Callable[..., object], case: Wrong
) -> None:
    assert_refused(door, case, **GOOD)


OPENED: list[Wrong] = [
    ({"columns": {"y": (0, 8)}}, ColumnError, ("column 'y' does not exist",)),
    ({"columns": {"wrd": (0, 8)}}, ColumnError, ("'wrd'", "Did you mean 'word'?")),
    ({"columns": {"at": (0, 8)}}, ColumnError, ("column 'at'", "TIMESTAMP", "time:COLUMN")),
    ({"columns": {"x": YEAR}}, ColumnError, ("'x'", "DOUBLE", "pd.to_datetime")),
    ({"columns": "ip:x?version=4"}, ColumnError, ("'x'", "DOUBLE", "Choose")),
    ({"columns": "columns:x", "keys": ["one"]}, ColumnError, ("keys has 'one'", "'x'")),
    ({"release": "r", "ledger": None}, ParameterError, ("release='r'", "needs a ledger")),
    ({"release": ""}, ParameterError, ("release ('')",)),
    ({"seed": -1}, ParameterError, ("seed (-1)",)),
    ({"seed": 2**63}, ParameterError, ("seed",)),
]


@refusals([*WRONG, *OPENED])
def test_what_fails_is_named_and_free(case: Wrong, tmp_path: Path) -> None:
    """Law: names and types of columns are public, their values are not; nothing is charged."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=100.0, delta=1e-2)
    assert_refused(FRAME.dp.synthesize, case, **{"ledger": ledger, **GOOD})
    assert len(ledger.releases()) == 0


N = [(None, ParameterTypeError), (1.5, ParameterTypeError), (10**9 + 1, ParameterError)]


@pytest.mark.parametrize(("n", "error"), [*N, (-1, ParameterError), (True, ParameterTypeError)])
def test_a_wrong_number_of_rows(n: Any, error: type[DpframeError]) -> None:
    generator = dp.synthesize(FRAME, **GOOD)
    for draw in (generator.sample, generator.sample_arrow):
        with pytest.raises(error, match=r"\bn\b"):
            draw(n)
        with pytest.raises(DpframeError, match="seed"):
            draw(3, seed=-1)


# -- data at the edge ----------------------------------------------------------------------------


FEW = {
    "no rows": pd.Series([], dtype="float64"),
    "NaN": [math.nan] * 50,
    "NA": pd.array([None] * 50, dtype="Int64"),
    "None": [None] * 50,
    "one row": [1.0],
}


@some("no rows", "NA")
@pytest.mark.parametrize("name", FEW)
def test_hardly_any_rows_are_a_release(name: str) -> None:
    """Law: rows come out, of the same form, whatever is there."""
    generator = dp.synthesize(pd.DataFrame({"x": FEW[name]}), {"x": (0, 8)}, epsilon=0.5)
    found = generator.sample(20)
    assert len(found) == 20
    assert found["x"].astype("float64").between(0, 8).all()
    assert (generator.counts()["count"] >= 0).all()


def test_a_stream_without_rows_is_a_release() -> None:
    found = dp.PrivHP({"x": (0, 8), "at": ("2017-01-01", "2018-01-01")}).finish(epsilon=1.0)
    assert [str(t) for t in found.sample(3).dtypes] == ["float64", "datetime64[us]"]
