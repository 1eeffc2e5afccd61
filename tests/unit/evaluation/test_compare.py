"""``dp.compare``: what it returns, that its errors are those of the noise, and bad input."""

from __future__ import annotations

from typing import Any

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
)
from dpframe.testing import seeded_noise

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
SAMPLE = pd.DataFrame(
    {"a": ["x", "x", "y", "y", "z"] * 400, "b": ["1", "2", "3", "4", "5"] * 400, "w": [3] * 2000}
)
COLUMNS = ["estimator", "level", "nodes", "shown", "mean_error", "rmse", "worst_rmse"]


def errors(hierarchy: Any = ("a", "b"), **arguments: Any) -> pd.DataFrame:
    asked = {**BUDGET, "public": SAMPLE, "repeats": 4, **arguments}
    with seeded_noise(5):
        return dp.compare(list(hierarchy), **asked)


def test_one_row_an_estimator_and_level() -> None:
    """Law: the columns of the docstring, every level, the nodes that the sample has."""
    found = errors(mechanisms=["additive", "laplace", "gaussian", "hhh"])
    assert list(found.columns) == COLUMNS
    assert found["estimator"].tolist() == [
        name for name in ("additive", "laplace", "gaussian", "hhh") for _ in range(3)
    ]
    assert found["level"].tolist() == [0, 1, 2] * 4
    assert found["nodes"].tolist() == [1, 3, 5] * 4
    assert (found["shown"] == 1).all()
    assert (found["mean_error"] <= found["rmse"] + 1e-9).all()
    assert (found["rmse"] <= found["worst_rmse"] + 1e-9).all()
    assert isinstance(found.index, pd.RangeIndex)


def test_errors_of_large_counts_are_the_noise() -> None:
    """Law: as drawn, the root mean squared error is the standard deviation of the noise."""
    plan = dp.explain_tree_counts(["a", "b"], **BUDGET, mechanism="laplace").plan
    found = errors(mechanisms=["laplace"], consistent=False, repeats=400)
    expected = [noise.sd for noise in plan.laws.noises]  # type: ignore[union-attr]
    assert found["rmse"].tolist() == pytest.approx(expected, rel=0.25)
    half = errors(mechanisms=["laplace"], consistent=False, repeats=400, epsilon=2.0)
    assert (half["rmse"] < 0.7 * found["rmse"]).all()  # negative control: other noise is seen


@pytest.mark.parametrize("keys", [None, [("x", "1"), ("y", "3"), ("q", "9")]])
@pytest.mark.parametrize("unit", [{}, {"user": "b"}, {"weight": "w"}])
def test_errors_of_listed_keys_users_and_weights(keys: Any, unit: dict[str, Any]) -> None:
    """Law: in users and in weighted records errors are of the noise too; empty keys are left out.

    A user weighs 1: here few users, whose counts are small and are not shown.
    """
    found = errors(mechanisms=["laplace"], keys=keys, consistent=False, repeats=60, **unit)
    plan = dp.explain_tree_counts(["a", "b"], **BUDGET, mechanism="laplace", keys=keys, **unit).plan
    nodes = [1, 2, 2] if keys else [1, 3, 5]
    assert found["nodes"].tolist() == nodes
    if keys or "user" not in unit:
        expected = [noise.sd / plan.grid for noise in plan.laws.noises]  # type: ignore[union-attr]
        assert found["rmse"].tolist() == pytest.approx(expected, rel=0.35)
        assert (found["shown"] == 1).all()
    else:
        assert found["shown"].tolist() == [1, 0, 0]
        assert found["mean_error"].tolist()[1:] == [5 / 3, 1.0]  # estimated as 0


def test_adding_up_lowers_the_error() -> None:
    """Law: with all keys listed, counts that add up are nearer than counts as drawn."""
    keys = SAMPLE[["a", "b"]].drop_duplicates()
    drawn, added = (
        errors(mechanisms=["laplace"], keys=keys, consistent=c, repeats=300, level_weights=[1] * 3)
        for c in (False, True)
    )
    assert (added["rmse"] < drawn["rmse"]).all()


def test_nodes_that_are_not_shown_are_estimated_as_zero() -> None:
    """Law: where nothing is shown the error is the count."""
    few = SAMPLE.iloc[:20]
    found = errors(public=few, mechanisms=["additive", "hhh"], threshold=90)
    for _, rows in found.groupby("estimator"):
        assert rows["shown"].tolist() == [1, 0, 0]
        assert rows["mean_error"].tolist()[1:] == [20 / 3, 4]
        assert rows["worst_rmse"].tolist()[1:] == [8, 4]


def test_only_large_nodes_are_compared() -> None:
    """Law: ``at_least`` leaves out small nodes; a level without any has no errors."""
    found = errors(at_least=700, mechanisms=["additive"])
    assert found["nodes"].tolist() == [1, 2, 0]
    assert found.loc[2, ["shown", "mean_error", "rmse", "worst_rmse"]].isna().all()


def test_relative_errors_are_given_with_alpha() -> None:
    """Law: one column more; ``largest`` is the size of the sample where it is left out."""
    large = {"public": SAMPLE.assign(w=10**8), "weight": "w", "alpha": 0.5, "epsilon": 10.0}
    found = errors(mechanisms=["additive", "relative"], **large)
    assert list(found.columns) == [*COLUMNS, "alpha_rmse"]
    named = errors(mechanisms=["additive", "relative"], **large, largest=2000 * 10**8)
    pd.testing.assert_frame_equal(found, named)
    additive, relative = found.iloc[:3], found.iloc[3:].reset_index(drop=True)
    assert (additive["alpha_rmse"] < 1).all()
    assert (relative["mean_error"] > additive["mean_error"]).all()
    assert (relative["shown"] == 1).all()


def test_every_source_is_compared(tmp_path: Any) -> None:
    """Law: frame, table and file of the same rows give the same numbers."""
    SAMPLE.to_parquet(tmp_path / "s.parquet")
    sources = [SAMPLE, pa.Table.from_pandas(SAMPLE), pl.from_pandas(SAMPLE), tmp_path / "s.parquet"]
    first, *others = (errors(public=source) for source in sources)
    for other in others:
        pd.testing.assert_frame_equal(other, first)


def test_nothing_is_charged(tmp_path: Any) -> None:
    """Law: public data cost nothing, also where a ledger is in use."""
    with dp.use_ledger(dp.Ledger(tmp_path / "b.db", epsilon=1.0, delta=1e-5)) as ledger:
        errors()
    assert len(ledger.releases()) == 0


def test_an_empty_sample_has_no_errors_below_the_total() -> None:
    found = errors(public=SAMPLE.iloc[:0], mechanisms=["additive", "hhh"])
    assert found["nodes"].tolist() == [0] * 6
    assert found["rmse"].isna().all()


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"public": None}, ParameterError, ("public is missing",)),
        ({"public": 3}, DpframeError, ("int",)),
        ({"mechanisms": []}, ParameterError, ("mechanisms is empty", "at least one")),
        ({"mechanisms": "hhh"}, ParameterTypeError, ("mechanisms must be a list", "'hhh'")),
        ({"mechanisms": ["laplase"]}, ParameterError, ("mechanisms", "mean 'laplace'?")),
        ({"mechanisms": [3]}, ParameterTypeError, ("mechanisms", "3")),
        ({"repeats": 0}, ParameterError, ("repeats (0)", "1 to 10000")),
        ({"repeats": 1.5}, ParameterTypeError, ("repeats", "1.5")),
        ({"repeats": True}, ParameterTypeError, ("repeats", "True")),
        ({"at_least": 0}, ParameterError, ("at_least (0)", "from 1")),
        ({"at_least": "x"}, ParameterTypeError, ("at_least", "'x'")),
        ({"alpha": 1.5}, ParameterError, ("alpha (1.5)", "0.01 to 0.99")),
        ({"epsilon": None}, BudgetError, ("epsilon is missing",)),
        ({"delta": None}, BudgetError, ("delta", "keys=[...]")),
        ({"mechanisms": ["relative"]}, ParameterError, ("needs alpha=",)),
        ({"mechanisms": ["relative"], "alpha": 0.5}, ParameterError, ("largest (2000)",)),
        ({"mechanisms": ["hhh"], "keys": ["a"]}, ParameterError, ("keys",)),
        ({"epsilons": 1.0}, ParameterTypeError, ("no argument 'epsilons'", "mean 'epsilon'?")),
        ({"mechanism": "hhh"}, ParameterTypeError, ("no argument 'mechanism'", "mechanisms")),
        ({"release": "r"}, ParameterTypeError, ("no argument 'release'",)),
        ({"weight": "nope"}, ColumnError, ("'nope'",)),
        ({"consistent": 1}, ParameterTypeError, ("consistent", "1")),
    ],
)
def test_bad_input(wrong: dict[str, Any], error: type[DpframeError], said: tuple[str, ...]) -> None:
    """Law: the argument, its value and the rule."""
    with pytest.raises(error) as raised:
        errors(**wrong)
    for part in said:
        assert part in str(raised.value)


def test_a_seed_of_the_tests_is_the_only_one() -> None:
    """Negative control: without it two comparisons differ."""
    one, two = (dp.compare(["a"], public=SAMPLE, **BUDGET, repeats=3) for _ in range(2))
    assert not np.array_equal(one["rmse"], two["rmse"])
