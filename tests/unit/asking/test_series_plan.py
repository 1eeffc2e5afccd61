"""``dp.plan_series``: every way keeps the total, and its numbers are those of ``dp.explain``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.series_plan import SeriesPlan
from tests.members import some

TOTAL = (3.0, 1e-6)
H = list("abcd")


@cache
def series(
    question: str, releases: int = 52, disjoint: bool = False, **arguments: Any
) -> SeriesPlan:
    asked = {**arguments, "measures": ["count"]} if question == "rollup" else arguments
    return dp.plan_series(releases, question, H, total=TOTAL, disjoint=disjoint, **asked)


WEIGHTS = {"weight": "w", "max_weight": 20.0}
USERS = {"user": "u"}
CASES = [("hhh", USERS), ("hhh", {}), ("hhh", WEIGHTS), ("tree_counts", USERS), ("rollup", {})]


@pytest.mark.parametrize(
    ("question", "way"),
    [("hhh", {"mechanism": "rounds"}), ("tree_counts", {"contribution": "items"})],
)
def test_rounds_say_how_many_users_show_a_node(question: str, way: dict[str, str]) -> None:
    """Law: in users, and what ``dp.explain`` says of a node whose users have no other."""
    taken = series(question, 4, **USERS, **way).ways[0]
    explained = dp.explain if question == "hhh" else dp.explain_tree_counts
    plan = explained(H, epsilon=TOTAL[0] / 4, delta=TOTAL[1] / 4, **USERS, **way).plan
    assert taken.shown_from == plan.sight.likely[1] < 2 * plan.threshold


@some(0, 2)
@pytest.mark.parametrize(("question", "unit"), CASES)
def test_every_way_keeps_the_total_and_uses_it(question: str, unit: dict[str, Any]) -> None:
    """Law: to the last digits; what is composed uses 98 % of it."""
    plan = series(question, **unit)
    assert [way.name for way in plan.ways] == ["sum", "pld", "chosen", "disjoint"]
    for way in plan.ways:
        assert way.together.epsilon <= TOTAL[0]
        assert way.together.delta <= TOTAL[1]
        assert way.together.epsilon >= 0.98 * TOTAL[0]
    summed, pld, chosen, disjoint = plan.ways
    assert 52 * summed.plan.budget.epsilon <= TOTAL[0]
    assert disjoint.plan.budget.epsilon == TOTAL[0]
    assert chosen.badness <= min(summed.badness, pld.badness)
    assert disjoint.badness < chosen.badness


def test_a_ledger_of_the_total_holds_the_series_and_nothing_more(tmp_path: Path) -> None:
    """Law: the reservation fits, pays for what ``arguments`` ask, and what follows is refused."""
    plan = series("hhh", releases=3, user="u")
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=3.0, delta=1e-6, accountant="pld")
    reserved = plan.reserve(ledger)
    assert reserved is not None
    assert (reserved.left, reserved.epsilon) == (3, plan.chosen.together.epsilon)
    rows = pd.DataFrame({name: ["x"] * 60 for name in H} | {"u": range(60)})
    spent = ledger.spent
    for _ in range(3):
        rows.dp.hhh(ledger=ledger, **plan.arguments)
    assert ledger.spent == spent
    with pytest.raises(dp.OverBudgetError):
        rows.dp.hhh(ledger=ledger, **plan.arguments)


def test_a_year_by_household_has_a_third_of_the_error_of_equal_parts() -> None:
    """Law: so has what is certain to be shown; disjoint weeks have that of one release."""
    plan = series("hhh", user="u")
    summed, _, chosen, disjoint = plan.ways
    assert chosen.plan.mechanism == "offline-gaussian"
    assert chosen.errors["count"] <= summed.errors["count"] / 3
    assert chosen.shown_from <= summed.shown_from / 3
    alone = dp.explain(H, user="u", contribution="share", epsilon=3.0, delta=1e-6).plan
    assert disjoint.errors == alone.errors
    assert disjoint.shown_from == alone.certainly_reported


def test_numbers_are_those_of_explain() -> None:
    plan = series("hhh", user="u")
    frame = plan.to_frame().set_index("way")
    for way in plan.ways:
        told = dp.explain(**way.arguments).plan
        row = frame.loc[way.name]
        assert row["half_width"] == told.errors["count"]
        assert row["shown_from"] == told.certainly_reported
        assert row["threshold"] == told.threshold
        assert (row["mechanism"], row["epsilon"]) == (told.mechanism, told.budget.epsilon)


def test_what_is_named_or_disjoint_is_taken_so(tmp_path: Path) -> None:
    """Law: disjoint periods have the whole total each, and nothing has to be reserved."""
    named = series("hhh", mechanism="offline")
    assert {way.plan.mechanism for way in named.ways} == {"offline"}
    plan = series("hhh", disjoint=True, user="u")
    assert plan.arguments["epsilon"] == TOTAL[0]
    assert plan.reserve(dp.Ledger(tmp_path / "b.db", epsilon=3.0, delta=1e-6)) is None


def test_one_release_has_the_whole_total() -> None:
    plan = series("hhh", releases=1)
    assert [way.plan.budget.epsilon for way in plan.ways[:2]] == [TOTAL[0]] * 2
    assert plan.chosen.badness <= plan.ways[0].badness


def test_it_prints_as_a_table_of_ways() -> None:
    text = repr(series("hhh", user="u"))
    for word in ("52 releases of hhh within (3, 1e-06)", "chosen *", "disjoint", "half width"):
        assert word in text
    assert "take: mechanism='offline-gaussian', epsilon=" in text
    assert max(map(len, text.splitlines())) <= 100


WRONG: list[tuple[Any, tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    (0, ("hhh", H), {}, dp.ParameterError, "releases (0)"),
    (52, ("hh", H), {}, dp.ParameterError, "Did you mean 'hhh'?"),
    (52, ("synthesize", H), {}, dp.ParameterError, "question ('synthesize') must be one of"),
    (52, (7, H), {}, dp.ParameterTypeError, "question must be one of"),
    (52, ("hhh", H), {"total": 3.0}, dp.ParameterTypeError, "total must be a pair"),
    (52, ("hhh", H), {"total": (0.0, 1e-6)}, dp.BudgetError, "epsilon of total (0.0)"),
    (52, ("hhh", H), {"epsilon": 1.0}, dp.ParameterError, "epsilon (1.0) must be left out"),
    (52, ("hhh", H), {"usr": "u"}, dp.ParameterTypeError, "'usr'"),
    (52, ("hhh", H), {"ledger": "x.db"}, dp.ParameterTypeError, "ledger"),
    (52, ("hhh", H), {"mechanism": "nonsense"}, dp.ParameterError, "mechanism ('nonsense')"),
    (52, ("hhh", H), {"disjoint": 1}, dp.ParameterTypeError, "disjoint"),
    (52, ("hhh", H), {"threshold": 1}, dp.BudgetError, "no known way fits 52 releases into total"),
]


@pytest.mark.parametrize(("releases", "about", "arguments", "error", "words"), WRONG)
def test_wrong_calls_say_what_to_write(
    releases: Any, about: Any, arguments: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as told:
        dp.plan_series(releases, *about, **{"total": TOTAL, **arguments})
    assert words in str(told.value)


def test_a_series_is_reserved_wherever_a_ledger_can_be_named(tmp_path: Path) -> None:
    """Law: by path, by the ledger in use; with none the error says how to name one."""
    plan = series("hhh", releases=3, user="u")
    for name in ("a.db", "b.db"):
        dp.Ledger(tmp_path / name, epsilon=3.0, delta=1e-6, accountant="pld")
    by_path = plan.reserve(tmp_path / "a.db")
    with dp.use_ledger(tmp_path / "b.db"):
        in_use = plan.reserve()
    assert by_path is not None
    assert in_use is not None
    assert (by_path.left, by_path.epsilon) == (in_use.left, in_use.epsilon)
    with pytest.raises(dp.ParameterError, match=r"ledger .*accountant='pld'"):
        plan.reserve()


def test_a_series_of_different_users_takes_the_law_that_counts_them() -> None:
    """Law: without a mechanism of the caller; of values in rounds none is made."""
    items: dict[str, object] = {"user": "who", "contribution": "items", "at_most": 2}
    series = dp.plan_series(4, "hhh", ["city"], total=(1.0, 1e-6), **items)
    assert {way.plan.mechanism for way in series.ways} == {"items"}
    assert series.arguments["at_most"] == 2
    one = dp.explain(**series.arguments).plan
    assert one.threshold == series.plan.threshold
    with pytest.raises(dp.ParameterError, match="cannot be planned as a series"):
        dp.plan_series(4, "heavy_hitters", "city", total=(1.0, 1e-6), **items)
