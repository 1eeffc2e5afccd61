"""What prefix trees find on public data, and the figures that their paper prints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpframe as dp
from dpframe.accounting.aggregate import shuffle_local_epsilon
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError
from dpframe.papers import item_metrics, marginal_frequencies, triehh_rate, triehhpp_rate
from tests.members import some

ROUNDS = (12, 6, 4, 3)
TABLE_IV = {
    1.0: (0.0079, 0.0153, 0.0221, 0.0283),
    0.5: (0.0040, 0.0079, 0.0117, 0.0153),
    0.25: (0.0020, 0.0040, 0.0060, 0.0079),
}
TABLE_V = {
    1.0: (0.0071, 0.0129, 0.0193, 0.0255),
    0.5: (0.0032, 0.0067, 0.0102, 0.0138),
    0.25: (0.0016, 0.0034, 0.0053, 0.0071),
}
TABLE_VI = {
    1.0: (0.0153, 0.0305, 0.0449, 0.0589),
    0.5: (0.0078, 0.0159, 0.0239, 0.0319),
    0.25: (0.0039, 0.0082, 0.0123, 0.0166),
}
TABLE_I = {
    0.25: (6.36, 6.05, 5.79, 5.63, 5.35, 5.31),
    0.5: (7.18, 6.96, 6.73, 6.48, 6.33, 6.26),
    1.0: (8.03, 7.73, 7.58, 7.39, 7.03, 7.018),
}


def test_rates_of_triehh_are_those_of_table_iv_in_all_cells() -> None:
    """(1 - exp(-epsilon/L)) / 10, cut to four digits; three cells are a hair below a digit."""
    for epsilon, row in TABLE_IV.items():
        for rounds, printed in zip(ROUNDS, row, strict=True):
            rate = triehh_rate(epsilon=epsilon, rounds=rounds, votes=10)
            assert math.floor(rate * 1e4) / 1e4 == printed


@pytest.mark.parametrize(("votes", "table"), [(10, TABLE_V), (20, TABLE_VI)])
def test_rates_of_triehhpp_are_within_a_rounding_of_tables_v_and_vi(
    votes: int, table: dict[float, tuple[float, ...]]
) -> None:
    """Within 1.5 %, but for one cell that the formula does not give."""
    for epsilon, row in table.items():
        for rounds, printed in zip(ROUNDS, row, strict=True):
            rate = triehhpp_rate(epsilon=epsilon, delta=1e-6, rounds=rounds, votes=votes)
            if (votes, epsilon, rounds) == (10, 1.0, 12):
                assert rate == pytest.approx(0.0062, abs=5e-5)
                assert printed == 0.0071
            else:
                assert rate == pytest.approx(printed, rel=0.015)


@some("0.25-5", "1.0-5")
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.evidence)])
@pytest.mark.parametrize("epsilon", list(TABLE_I))
def test_table_i_is_on_the_safe_side_of_the_shuffle_accountant(epsilon: float, step: int) -> None:
    """Not reproduced: the proved bound allows 0.2 to 1.2 more in every cell (decision 0017)."""
    for reports, printed in list(enumerate(TABLE_I[epsilon], 1))[::step]:
        ours = shuffle_local_epsilon(
            devices=1_600_000, reports=reports, epsilon=epsilon, delta=1e-6
        )
        assert 0.15 < ours - printed < 1.25


@given(
    st.lists(st.floats(0.001, 1), min_size=1, max_size=12), st.data(), st.integers(1, 12),
    st.integers(0, 3),
)  # fmt: skip
def test_metrics_are_as_defined(
    frequencies: list[float], data: st.DataObject, top: int, false: int
) -> None:
    """Against sets and sums."""
    items = data.draw(st.lists(st.integers(0, len(frequencies) - 1), unique=True))
    found = len(items) + false
    seen = item_metrics(np.array(frequencies), np.array(items, dtype=np.int64), found, top)
    order = sorted(range(len(frequencies)), key=lambda i: -frequencies[i])
    mass, hits = sum(frequencies[i] for i in items), len(set(order[:top]) & set(items))
    assert (seen.found, seen.real) == (found, len(items))
    assert seen.mass == pytest.approx(mass)
    assert seen.recall == hits / min(top, len(frequencies))
    if found:
        best = sum(frequencies[i] for i in order[:found])
        assert seen.weight_ratio == pytest.approx(mass / best)
        assert (seen.precision, seen.false_positives) == (hits / found, 1 - len(items) / found)
    else:
        assert math.isnan(seen.precision)


@given(st.lists(st.floats(0, 1), max_size=12), st.integers(1, 5))
def test_marginals_are_sums_over_a_window(frequencies: list[float], window: int) -> None:
    """Against slices of the sorted list."""
    ordered = sorted(frequencies, reverse=True)
    sums = marginal_frequencies(np.array(frequencies), window)
    slices = [ordered[i : i + window] for i in range(max(1, len(ordered) - window + 1))]
    assert sums.tolist() == pytest.approx([sum(s) for s in slices] if ordered else [])


@pytest.fixture(scope="module")
def typed() -> pd.DataFrame:
    """6,000 users with one or two words; "the" is everybody's."""
    words = ["the"] * 6000 + ["cat"] * 3000 + ["dog"] * 1500 + ["emu"] * 15
    users = [*range(6000), *range(3000), *range(1500), *range(15)]
    return pd.DataFrame({"who": users, "word": words})


def compared(typed: pd.DataFrame, **asked: Any) -> Any:
    given = {"user": "who", "epsilon": 4.0, "delta": 1e-6, "length": 20, **asked}
    return dp.compare_prefix_trees("word", public=typed, **given)


def test_methods_are_compared_on_the_same_devices(typed: pd.DataFrame) -> None:
    """Frequent words are found by all but the samplers, and what is found is real."""
    seen = compared(typed, top=2, repeats=2)
    frame = seen.frame.set_index(["method", "repeat"])
    assert set(frame.index.get_level_values("method")) == {
        *("reports", "even segments", "shuffle accountant", "laplace", "gaussian"),
        *("triehh", "triehh++"),
    }
    for method in ("reports", "laplace", "gaussian"):
        assert (frame.loc[method, "recall"] == 1).all()
    assert frame.loc[("triehh", 1), "sampled"] < 0.1
    local = frame["local_epsilon"].groupby(level="method").first()
    assert local["reports"] > local["shuffle accountant"]


def test_marginals_begin_with_the_true_line(typed: pd.DataFrame) -> None:
    """Method "true" dominates every other, window by window."""
    pytest.importorskip("plotly")
    seen = compared(typed, methods=["gaussian"])
    wide = seen.marginals(window=1).pivot(index="rank", columns="method", values="frequency")
    assert (wide["true"] + 1e-12 >= wide["gaussian"].fillna(0)).all()
    assert wide["true"][1] == pytest.approx((3000 + 1500 / 2 + 1485 / 3 + 15 / 4) / 6000)
    assert [line.name for line in seen.plot(window=1).data] == ["true", "gaussian"]


def test_the_unweighted_metric_is_the_part_of_users_who_have_it(typed: pd.DataFrame) -> None:
    """Everybody has "the"."""
    seen = compared(typed, methods=["gaussian"], metric="unweighted")
    assert sorted(seen.true.tolist()) == pytest.approx([15 / 6000, 0.25, 0.5, 1.0])


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"methods": ["gausian"]}, ParameterError, "Did you mean 'gaussian'"),
        ({"methods": []}, ParameterError, "methods is empty"),
        ({"methods": "reports"}, ParameterTypeError, "list of names"),
        ({"methods": {"a": 1}}, ParameterTypeError, "dict of arguments"),
        ({"repeat": 2}, ParameterTypeError, "^compare_prefix_trees has no .* mean 'repeats'"),
        ({"methods": {"a": {"lenght": 9}}}, ParameterTypeError, "mean 'length'"),
        ({"iteration": 3}, ParameterTypeError, "Did you mean 'iterations'"),
        ({"metric": "mass"}, ParameterError, "metric"),
        ({"repeats": 0}, ParameterError, "repeats"),
        ({"user": None}, ParameterError, "user is missing"),
    ],
)
def test_wrong_arguments_say_what_is_right(
    typed: pd.DataFrame, wrong: dict[str, object], error: type[DpframeError], said: str
) -> None:
    with pytest.raises(error, match=said):
        compared(typed, epsilon=1.0, **wrong)
