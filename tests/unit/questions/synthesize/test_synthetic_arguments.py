"""Every argument of synthetic rows, wrong in every way; data at the edge; and users."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.call_arguments import CallArguments
from dpframe.budget import PrivacyUnit
from dpframe.doors.cli.main import main
from dpframe.questions.synthesize.ask import shape_from, synthetic_plan
from dpframe.questions.synthesize.generator import row_domain
from dpframe.sources.codes import counted_codes
from tests.members import some
from tests.unit.refusals import SECRET, Wrong, assert_refused, refusals

FRAME = pd.DataFrame({"x": [1.0, 2.0, 3.0] * 100, "word": [f"{SECRET}/a", "b", "日本"] * 100})
FRAME["at"] = pd.date_range("2017-01-01", periods=300, freq="h")
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
    ({"epsilon": None}, dp.BudgetError, ("epsilon is missing", "1.0")),
    ({"epsilon": 0}, dp.BudgetError, ("epsilon (0)", "0.0001 to 50")),
    ({"epsilon": math.inf}, dp.BudgetError, ("epsilon (inf)",)),
]

COLUMNS: list[Wrong] = [
    ({"columns": None}, dp.ParameterTypeError, ("columns is missing", "number:distance")),
    ({"columns": 3}, dp.ParameterTypeError, ("columns", "int")),
    ({"columns": b"x"}, dp.ParameterTypeError, ("columns", "bytes")),
    ({"columns": []}, dp.ParameterError, ("columns is empty",)),
    ({"columns": {}}, dp.ParameterError, ("columns is empty",)),
    ({"columns": [3]}, dp.ParameterTypeError, ("columns", "int")),
    ({"columns": {3: (0, 1)}}, dp.ParameterTypeError, ("columns", "3")),
    ({"columns": "x"}, dp.HierarchyError, ("'x'", "KIND:COLUMN")),
    ({"columns": "nubmer:x?lower=0&upper=1"}, dp.HierarchyError, ("Did you mean 'number'",)),
    ({"columns": "number:x"}, dp.HierarchyError, ("number needs lower and upper",)),
    ({"columns": "number:x?lower=0"}, dp.HierarchyError, ("number needs upper",)),
    ({"columns": "time:at?upper=2017-01-01"}, dp.HierarchyError, ("time needs lower",)),
    ({"columns": {"x": 5}}, dp.ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (5,)}}, dp.ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (1, 2, 3)}}, dp.ParameterError, ("columns['x']", "(lower, upper)")),
    ({"columns": {"x": (8, 0)}}, dp.HierarchyError, ("must be less than upper",)),
    ({"columns": {"x": (8, 8)}}, dp.HierarchyError, ("must be less than upper",)),
    ({"columns": {"x": (math.nan, 8)}}, dp.HierarchyError, ("lower must be finite", "nan")),
    ({"columns": {"x": (0, math.inf)}}, dp.HierarchyError, ("upper must be finite", "inf")),
    ({"columns": {"x": ("a", 8)}}, dp.HierarchyError, ("lower", "'a'")),
    ({"columns": {"x": ("a", "b")}}, dp.ParameterError, ("columns['x']", "keys={'x': [...]}")),
    ({"columns": {"x": (None, 8)}}, dp.HierarchyError, ("lower must be a number",)),
    (
        {"columns": {"at": ("2018-01-01", "2017-01-01")}},
        dp.HierarchyError,
        ("must be before upper",),
    ),
    ({"columns": {"at": ("2017-01-01", "2017-01-01")}}, dp.HierarchyError, ("lower", "before")),
    ({"columns": {"at": ("2017-01-01", pd.NaT)}}, dp.HierarchyError, ()),
    ({"columns": ["number:x?lower=0&upper=8"] * 2}, dp.ColumnError, ("'x' twice",)),
    ({"columns": "ip:word"}, dp.HierarchyError, ("IPv6", "version=4")),
]

KEYS: list[Wrong] = [
    ({"keys": ["a"]}, dp.ParameterError, ("keys is for categories", "leave it out")),
    ({**LISTED, "keys": None}, dp.ParameterError, ("columns:word needs keys", "keys=[...]")),
    ({**LISTED, "keys": []}, dp.ParameterError, ("keys has 0 keys",)),
    ({**LISTED, "keys": {"word": []}}, dp.ParameterError, ("keys has 0 keys",)),
    ({**LISTED, "keys": {}}, dp.ParameterError, ("keys must be a dict", "'word'")),
    ({**LISTED, "keys": {"wrod": ["b"]}}, dp.ParameterError, ("keys", "'word'", "wrod")),
    ({**LISTED, "keys": {"word": ["b"], "x": [1]}}, dp.ParameterError, ("keys", "'word'", "'x'")),
    ({**LISTED, "keys": ["b", "b"]}, dp.ParameterError, ("keys has 'b' twice",)),
    ({**LISTED, "keys": [None]}, dp.ParameterError, ("keys has None",)),
    ({**LISTED, "keys": [("a", "b")]}, dp.ParameterError, ("keys has ('a', 'b')", "'word'")),
    ({**LISTED, "keys": 3}, dp.ParameterTypeError, ("keys must be a list", "int")),
    ({**LISTED, "keys": "b"}, dp.ParameterTypeError, ("keys must be a list", "str")),
]

SIZES: list[Wrong] = [
    ({"k": 0}, dp.ParameterError, ("k (0)", "from 1")),
    ({"k": -1}, dp.ParameterError, ("k (-1)",)),
    ({"k": 2**40}, dp.ParameterError, ("k",)),
    ({"width": 0}, dp.ParameterError, ("width (0)",)),
    ({"width": 2**40}, dp.ParameterError, ("width",)),
    ({"rows": 0}, dp.ParameterError, ("rows (0)",)),
    ({"rows": 2}, dp.ParameterError, ("rows", "2", "odd")),
    ({"rows": 100}, dp.ParameterError, ("rows (100)",)),
    ({"rows": None}, dp.ParameterTypeError, ("rows", "None")),
    ({"depth": 0}, dp.ParameterError, ("depth",)),
    ({"depth": 61}, dp.ParameterError, ("depth (61)", "60")),
    ({"depth": 49}, dp.ParameterError, ("depth must be a whole number in 1 to 48",)),
    (
        {"columns": {"x": (0, 8), "at": YEAR}, "depth": 1},
        dp.ParameterError,
        ("depth (1)", "below the number"),
    ),
    ({"split": "optimum"}, dp.ParameterError, ("split ('optimum')", "Did you mean 'optimal'?")),
    ({"split": "zzz"}, dp.ParameterError, ("split ('zzz')", "uniform")),
]

WRONG = [*BUDGETS, *COLUMNS, *KEYS, *SIZES]


@every_door
@refusals(WRONG)
def test_a_wrong_argument_is_answered_with_name_value_and_rule(door: Any, case: Wrong) -> None:
    assert_refused(door, case, **GOOD)


OPENED: list[Wrong] = [
    ({"columns": {"y": (0, 8)}}, dp.ColumnError, ("column 'y' does not exist",)),
    ({"columns": {"wrd": (0, 8)}}, dp.ColumnError, ("'wrd'", "Did you mean 'word'?")),
    ({"columns": {"at": (0, 8)}}, dp.ColumnError, ("column 'at'", "TIMESTAMP", "time:COLUMN")),
    ({"columns": {"x": YEAR}}, dp.ColumnError, ("'x'", "DOUBLE", "pd.to_datetime")),
    ({"columns": "ip:x?version=4"}, dp.ColumnError, ("'x'", "DOUBLE", "Choose")),
    ({"columns": "columns:x", "keys": ["one"]}, dp.ColumnError, ("keys has 'one'", "'x'")),
    ({"release": "r", "ledger": None}, dp.ParameterError, ("release='r'", "needs a ledger")),
    ({"release": ""}, dp.ParameterError, ("release ('')",)),
    ({"seed": -1}, dp.ParameterError, ("seed (-1)",)),
    ({"seed": 2**63}, dp.ParameterError, ("seed",)),
]


@refusals([*WRONG, *OPENED])
def test_what_fails_is_named_and_free(case: Wrong, tmp_path: Path) -> None:
    """Law: names and types of columns are public, their values are not; nothing is charged."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=100.0, delta=1e-2)
    assert_refused(FRAME.dp.synthesize, case, **{"ledger": ledger, **GOOD})
    assert len(ledger.releases()) == 0


N = [(None, dp.ParameterTypeError), (1.5, dp.ParameterTypeError), (10**9 + 1, dp.ParameterError)]


@pytest.mark.parametrize(
    ("n", "error"), [*N, (-1, dp.ParameterError), (True, dp.ParameterTypeError)]
)
def test_a_wrong_number_of_rows(n: Any, error: type[dp.DpframeError]) -> None:
    generator = dp.synthesize(FRAME, **GOOD)
    for draw in (generator.sample, generator.sample_arrow):
        with pytest.raises(error, match=r"\bn\b"):
            draw(n)
        with pytest.raises(dp.DpframeError, match="seed"):
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
    generator = dp.synthesize(pd.DataFrame({"x": FEW[name]}), {"x": (0, 8)}, epsilon=0.5)
    found = generator.sample(20)
    assert len(found) == 20
    assert found["x"].astype("float64").between(0, 8).all()
    assert (generator.counts()["count"] >= 0).all()


def test_a_stream_without_rows_is_a_release() -> None:
    found = dp.PrivHP({"x": (0, 8), "at": ("2017-01-01", "2018-01-01")}).finish(epsilon=1.0)
    assert [str(t) for t in found.sample(3).dtypes] == ["float64", "datetime64[us]"]


# -- users, of whom so many rows are counted, and paid for as a group ------------------------------

EIGHT = {"x": (0, 8)}
ROWS = pd.DataFrame(
    {
        "x": [0.5] * 40 + [7.5] * 3 + [float(i % 8) for i in range(30)] + [1.0, 2.0, 3.0],
        "u": ["often"] * 40 + ["some"] * 3 + [f"u{i // 2}" for i in range(30)] + [None] * 3,
    }
)


def cells(rows: pd.DataFrame, most: int) -> np.ndarray:
    """Exact counts of eight cells, users bounded."""
    wanted = row_domain(EIGHT, depth=3, keys=None)
    plan = synthetic_plan(
        wanted,
        shape_from(wanted.domain, CallArguments({"k": 8, "width": 1, "rows": 1}), 1),
        None,
        CallArguments({"epsilon": 1.0, "split": "uniform", "user": "u", "max_contributions": most}),
    )
    unit = PrivacyUnit(user="u", contribution="records", max_contributions=most)
    return counted_codes(rows, wanted.domain, plan.sketch(), unit).cells


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_a_user_counts_at_most_so_many_times(most: int) -> None:
    """Law: the total is the sum of min(rows, most); NULL ids are one user."""
    expected = ROWS.groupby("u", dropna=False).size().clip(upper=most).sum()
    assert cells(ROWS, most).sum() == expected


@pytest.mark.parametrize("most", [1, 3])
def test_one_user_more_moves_counts_by_no_more(most: int) -> None:
    """Law: samples of users do not depend on each other (here: users who fit as a whole)."""
    for user in ("often", "some"):
        moved = cells(ROWS, most).sum() - cells(ROWS[ROWS["u"] != user], most).sum()
        assert 0 < moved <= most


def test_the_sample_of_a_user_is_uniform() -> None:
    """Law: every row of a user is equally likely, equal rows too (8 sigma)."""
    users = [f"user {i}" for i in range(100)]
    rows = pd.DataFrame({"x": ([0.5] * 3 + [4.5]) * 100, "u": np.repeat(users, 4)})
    hits = sum(int(cells(rows, 1)[0]) for _ in range(4))
    assert abs(hits - 300) < 8 * (400 * 0.75 * 0.25) ** 0.5


def test_a_group_is_paid_for() -> None:
    """Law: m records at the noise of epsilon / m cost at most epsilon, exactly."""
    for most in (1, 3, 7, 1000):
        plan = dp.explain_synthesize(EIGHT, epsilon=0.7, user="u", max_contributions=most).plan
        assert most * plan.laws.epsilon <= Fraction(0.7)  # type: ignore[union-attr]
        assert most * float(plan.laws.epsilon) > 0.69  # type: ignore[union-attr]


def test_receipts_name_the_user() -> None:
    facts = dp.synthesize(ROWS, EIGHT, epsilon=1.0, user="u", max_contributions=2).receipt
    assert facts["guarantee"].startswith("1-differential privacy for adding or removing one user")
    assert (facts["user"], facts["contribution"], facts["max_contributions"]) == ("u", "records", 2)


@refusals(
    [
        ({"user": "u"}, dp.ParameterError, ("max_contributions",)),
        ({"max_contributions": 3}, dp.ParameterError, ("user=",)),
        ({"user": "u", "max_contributions": 0}, dp.ParameterError, ("max_contributions",)),
        ({"user": "nobody", "max_contributions": 1}, dp.ColumnError, ("nobody",)),
        ({"user": 3, "max_contributions": 1}, dp.ParameterTypeError, ("user",)),
    ]
)
def test_wrong_users_are_refused(case: Wrong) -> None:
    assert_refused(ROWS.dp.synthesize, case, columns=EIGHT, epsilon=1.0)


def test_sql_and_the_command_line_know_users(tmp_path: object) -> None:
    con = duckdb.connect()
    con.register("frame", ROWS)
    con.execute("CREATE TABLE people AS SELECT * FROM frame")
    dp.register(con)
    spec = "number:x?lower=0&upper=8"
    counted = con.sql(
        f"SELECT count(*) FROM dp_synthesize('people', '{spec}', n := 9, epsilon := 1.0, "
        "\"user\" := 'u', max_contributions := 2)"
    ).fetchall()
    assert counted == [(9,)]
    path = f"{tmp_path}/people.parquet"
    ROWS.to_parquet(path)
    arguments = ["synthesize", path, spec, "--epsilon", "1", "-n", "3"]
    assert main([*arguments, "--user", "u", "--max-contributions", "2"]) == 0
    assert main([*arguments, "--user", "u"]) == 2
