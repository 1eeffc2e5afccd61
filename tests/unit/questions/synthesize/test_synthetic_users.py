"""Users of synthetic rows: at most so many rows of each are counted, and paid for as a group."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.call_arguments import CallArguments
from dpframe.budget import PrivacyUnit
from dpframe.doors.cli.main import main
from dpframe.questions.synthesize.checks import row_domain, shape_from, synthetic_plan
from dpframe.sources.codes import counted_codes
from tests.unit.refusals import Wrong, assert_refused, refusals

COLUMNS = {"x": (0, 8)}
ROWS = pd.DataFrame(
    {
        "x": [0.5] * 40 + [7.5] * 3 + [float(i % 8) for i in range(30)] + [1.0, 2.0, 3.0],
        "u": ["often"] * 40 + ["some"] * 3 + [f"u{i // 2}" for i in range(30)] + [None] * 3,
    }
)


def cells(rows: pd.DataFrame, most: int) -> np.ndarray:
    """Exact counts of eight cells, users bounded."""
    wanted = row_domain(COLUMNS, depth=3, keys=None)
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
        plan = dp.explain_synthesize(COLUMNS, epsilon=0.7, user="u", max_contributions=most).plan
        assert most * plan.laws.epsilon <= Fraction(0.7)  # type: ignore[union-attr]
        assert most * float(plan.laws.epsilon) > 0.69  # type: ignore[union-attr]


def test_receipts_name_the_user() -> None:
    facts = dp.synthesize(ROWS, COLUMNS, epsilon=1.0, user="u", max_contributions=2).receipt
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
    assert_refused(ROWS.dp.synthesize, case, columns=COLUMNS, epsilon=1.0)


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
