"""What a release proves of nodes that it does not report, over every outcome of its tests."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.noise import NoiseTable, halves
from dpframe.postprocess.change_sides import hidden_bound, law_of_tests, most_hidden, topmost_below
from dpframe.postprocess.shown_nodes import shown_nodes
from dpframe.questions.hhh.ask import HHH
from dpframe.testing import seeded_noise
from tests.earlier_receipts import earlier_frame

TEST = halves(left=("geometric", 3.0, 20), right=("geometric", 1.0, 6), recentre=False)
THRESHOLD = 12
TRIPS = pd.DataFrame(
    {
        "origin": ["JFK"] * 700 + ["LGA"] * 500,
        "dest": ["LAX"] * 300 + ["SFO"] * 300 + list("abcdefghij") * 60,
        "who": [str(i % 400) for i in range(1200)],
    }
)
BY = ["origin", "dest"]


def missed(law: NoiseTable, residual: int) -> float:
    """P(a node of this residual is not reported)."""
    values = range(law.lowest, law.highest + 1)
    return sum(p for w, p in zip(values, law.pmf, strict=True) if residual + w < THRESHOLD)


@pytest.mark.parametrize("chance", [0.0, 1e-4, 0.01, 0.2])
def test_the_bound_is_the_least_that_is_passed_with_the_chance(chance: float) -> None:
    """Law: no node with more is left out with a larger chance, and one with as much is."""
    most = most_hidden(TEST, THRESHOLD, chance)
    for residual in range(most + 1, most + 40):
        assert missed(TEST, residual) <= chance + 1e-15
    assert missed(TEST, most) > chance


def released(what: str = "hhh", **arguments: Any) -> pd.DataFrame:
    given = {"epsilon": 1.0, "delta": 1e-6, **arguments}
    with seeded_noise(3):
        frame: pd.DataFrame = getattr(TRIPS.dp, what)(BY, **given)
    return frame


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "records": ("hhh", {}),
    "shares": ("hhh", {"user": "who", "contribution": "share"}),
    "samples": ("hhh", {"user": "who", "contribution": "records", "max_contributions": 2}),
    "threshold": ("hhh", {"threshold": 150, "remainder": False}),
    "gaussian": ("hhh", {"mechanism": "offline-gaussian"}),
    "tree": ("tree_counts", {"mechanism": "hhh"}),
    "rollup": ("rollup", {"measures": {"n": "count"}}),
    "rollup of users": (
        "rollup",
        {"measures": {"n": "count"}, "user": "who", "contribution": "share"},
    ),
    "another division of epsilon": ("hhh", {"release_share": 0.2}),
}
TOLD = [(kind, "this") for kind in KINDS] + [(kind, "earlier") for kind in [*KINDS][:-1]]


@pytest.mark.parametrize(("kind", "version"), TOLD)
def test_the_law_of_tests_is_the_one_that_was_drawn_from(kind: str, version: str) -> None:
    """Law: the receipt has the table of the release, and needs no argument that it lacks; for a
    receipt of an earlier version the plan that is made again has it."""
    what, arguments = KINDS[kind]
    frame = released(what, **arguments)
    if version == "earlier":
        frame = earlier_frame(frame)
        assert law_of_tests(frame.dp.receipt, None) is None
    question = getattr(dp, {"hhh": "explain"}.get(what, f"explain_{what}"))
    plan = question(BY, epsilon=1.0, delta=1e-6, **arguments).plan
    law = plan.selection.test_noise
    found = law_of_tests(frame.dp.receipt, HHH.plan)
    assert found is not None
    assert (found.lowest, found.weights.tolist()) == (law.lowest, law.weights.tolist())
    hidden = hidden_bound(shown_nodes(frame, frame.dp.receipt, "change"), HHH.plan)
    assert hidden.by_chance
    certain = hidden.at(1, 0.0)
    assert certain == hidden.certain
    if what == "hhh":
        assert certain is not None
        assert plan.certainly_reported == -(-(certain + 1) // plan.grid)
    likely = hidden.at(1, 1e-3)
    assert likely is not None
    assert certain is not None
    assert 0 < likely < certain
    assert hidden.at(0, 1e-3) is None  # the rest is never tested


def test_another_division_of_epsilon_in_an_earlier_version_leaves_what_is_certain() -> None:
    """Law: what a receipt does not tell is not guessed: its ends bound what is hidden."""
    frame = earlier_frame(released(release_share=0.2))
    assert law_of_tests(frame.dp.receipt, HHH.plan) is None
    hidden = hidden_bound(shown_nodes(frame, frame.dp.receipt, "change"), HHH.plan)
    assert not hidden.by_chance
    assert hidden.at(1, 0.1) == hidden.at(1, 0.0) == hidden.certain
    assert hidden.certain is not None


@pytest.mark.parametrize("mechanism", ["streaming", "laplace"])
def test_others_prove_nothing(mechanism: str) -> None:
    """Law: mechanisms whose reports are no tests of residuals have no bound."""
    frame = released(mechanism=mechanism)
    nodes = shown_nodes(frame, frame.dp.receipt, "change")
    assert hidden_bound(nodes, HHH.plan).certain is None


def test_a_measure_that_decides_bounds_no_count() -> None:
    """Law: where bytes decide what is shown, nothing is said of records."""
    rows = TRIPS.assign(size=5.0)
    measures = {"n": "count", "bytes": dp.sum("size", lower=0, upper=10)}
    with seeded_noise(1):
        frame = rows.dp.rollup(BY, measures, heavy="bytes", epsilon=1.0, delta=1e-6)
    for given in (frame, earlier_frame(frame)):
        assert law_of_tests(given.dp.receipt, HHH.plan) is None
        nodes = shown_nodes(given, given.dp.receipt, "change")
        assert hidden_bound(nodes, HHH.plan).certain is None


def test_both_draws_of_a_printed_test_bound_what_is_hidden() -> None:
    """Law: the receipt has the laws of both draws, from whose ends the number on the card follows,
    which alone is read from receipts of earlier versions."""
    paper = {"mechanism": "paper", "acknowledge": True, "remainder": False, "epsilon": 4.0}
    frame, plan = released(**paper), dp.explain(BY, delta=1e-6, **paper).plan
    assert frame.dp.receipt["noise"]["shared"]["highest"] == plan.laws.gamma.highest
    no_card = frame.copy()
    no_card.attrs = {**frame.attrs, "dp": {**frame.attrs["dp"], "card": []}}
    for given in (frame, earlier_frame(frame), no_card):
        hidden = hidden_bound(shown_nodes(given, given.dp.receipt, "change"), HHH.plan)
        assert hidden.certain == plan.certainly_reported - 1
        assert not hidden.by_chance


def test_what_is_reported_below_a_node_that_is_not() -> None:
    """Law: the topmost reported nodes under each node between them and the next reported one."""
    frame = released(threshold=250)
    nodes = shown_nodes(frame, frame.dp.receipt, "change")
    assert frame["prefix"].tolist() == ["*", "LGA", "JFK / LAX", "JFK / SFO"]
    below = topmost_below(nodes)
    (place,) = below
    assert place[0] == 1
    assert frame["prefix"].iloc[below[place]].tolist() == ["JFK / LAX", "JFK / SFO"]
