"""Noise and threshold for a mechanism, from public parameters alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from dpframe.accounting.calibrate import choose_laws, law_options, smallest_threshold
from dpframe.accounting.gshm import GshmLaws
from dpframe.accounting.laws import Laws
from dpframe.accounting.levels import LevelLaws, level_laws
from dpframe.accounting.printed import printed_lower_bound
from dpframe.accounting.sketch_users import better_user_laws
from dpframe.accounting.sketches import SketchLaws, sketch_laws
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.errors import BudgetError, ParameterError, ThresholdError
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import printed_hhh
from dpframe.mechanisms.printed_hhh import PrintedLaws

Mechanism = Literal["offline", "streaming", "laplace", "gaussian", "paper"]
MECHANISMS: tuple[str, ...] = get_args(Mechanism)

AnyLaws = Laws | LevelLaws | PrintedLaws | SketchLaws | GshmLaws

GOES_WITH: dict[str, tuple[tuple[str, ...], str]] = {
    "release_share": (("offline",), "divides epsilon between two draws"),
    "counters": (("streaming",), "is the size of a sketch"),
    "acknowledge": (("paper",), "lets the algorithm run as it is printed"),
    "remainder": (("offline", "laplace", "gaussian"), "releases what no reported node covers"),
    "level_weights": (
        ("additive", "laplace", "gaussian"),
        "divides the budget over one histogram a level",
    ),
    "alpha": (("relative",), "is the relative error that is accepted"),
    "largest": (("relative",), "is the largest number of records that the data could have"),
}
"""Arguments that only some mechanisms take, and what they do. One that would be ignored is refused:
whoever gives it expects something of it, and a stored request would hold it."""


def check_goes(name: str, value: object, mechanism: str) -> None:
    """Raise ParameterError for an argument that was given and that a mechanism does not take."""
    known, what = GOES_WITH[name]
    if mechanism not in known:
        named = " or ".join(f"mechanism={other!r}" for other in known)
        raise ParameterError(
            f"{name} ({value!r}) {what}: it goes with {named}, and mechanism={mechanism!r} does "
            "not take it. Leave it out."
        )


DEFAULT_COUNTERS = 2000
"""Counters of a sketch, if nobody says how many."""


def chosen_laws(
    mechanism: Mechanism,
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    threshold: int | None,
    remainder: bool,
    release_share: float | None,
    acknowledge: bool,
    counters: int | None,
) -> tuple[AnyLaws, int]:
    """The least noise within the budget, and the threshold, by default the smallest private one."""
    record = per_record(budget, unit.moves)
    if release_share is not None:
        check_goes("release_share", release_share, mechanism)
    if unit.contribution == "items" and mechanism != "streaming":
        raise ParameterError(
            f"contribution='items' is for mechanism='streaming'; mechanism={mechanism!r} adds up "
            "what it counts: use contribution='share' or 'records'."
        )
    if mechanism == "offline":
        with advice("move release_share towards the middle", given=release_share is not None):
            options = law_options(
                height=hierarchy.height,
                epsilon=record.epsilon,
                delta=record.delta,
                remainder=remainder,
                release_share=release_share or default_release_share(hierarchy.height, remainder),
                grid=unit.grid,
                threshold=threshold,
            )
        smallest = smallest_threshold(options)
        threshold = _at_least(threshold, smallest, budget, hierarchy.height)
        return choose_laws(options, threshold), threshold
    if unit.grid > 1:
        known = "'records' or 'items'" if mechanism == "streaming" else "'records'"
        raise ParameterError(
            f"mechanism={mechanism!r} counts no shares of users: pass contribution={known} with "
            "max_contributions=, or use mechanism='offline'."
        )
    if mechanism == "streaming":
        return _streaming(hierarchy.height, unit, budget, threshold, counters or 0)
    if mechanism == "paper":
        return _printed(hierarchy.height, record, threshold, remainder, acknowledge)
    laws = level_laws(
        mechanism,
        levels=hierarchy.height + remainder,
        epsilon=record.epsilon,
        delta=record.delta,
    )
    return laws, _at_least(threshold, laws.threshold, budget, hierarchy.height)


@contextmanager
def advice(text: str, *, given: bool) -> Iterator[None]:
    """Adds what else the caller can do to a BudgetError, if the argument for it was given."""
    try:
        yield
    except BudgetError as error:
        if not given:
            raise
        raise BudgetError(f"{str(error).removesuffix('.')}, or {text}.") from None


def default_release_share(height: int, remainder: bool) -> float:
    """Part of epsilon that the released count gets; a third from three paid nodes on."""
    return 1 / min(3, max(2, height + remainder))


def _at_least(threshold: int | None, smallest: int, budget: Budget, height: int) -> int:
    if threshold is not None and threshold < smallest:
        raise ThresholdError(
            f"threshold ({threshold}) is below the smallest private threshold {smallest} for "
            f"epsilon={budget.epsilon:g}, delta={budget.delta:g}, height={height}: "
            "raise threshold, epsilon or delta."
        )
    return smallest if threshold is None else threshold


def _streaming(
    height: int,
    unit: PrivacyUnit,
    budget: Budget,
    threshold: int | None,
    counters: int,
) -> tuple[SketchLaws | GshmLaws, int]:
    """Laws for one sketch a level; for users those of the better of two sketches."""
    laws: SketchLaws | GshmLaws
    if unit.contribution != "items":
        record = per_record(budget, unit.moves)
        laws = sketch_laws(sketches=height, epsilon=record.epsilon, delta=record.delta)
    else:
        _, laws = better_user_laws(
            counters=counters,
            sketches=height,
            max_contributions=unit.max_contributions,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )
    smallest = laws.theta if isinstance(laws, SketchLaws) else 1 + laws.t
    return laws, smallest if threshold is None else threshold


def _printed(
    height: int, record: Budget, threshold: int | None, remainder: bool, acknowledge: bool
) -> tuple[PrintedLaws, int]:
    if height >= 5:
        bound = printed_lower_bound(record.epsilon, height)
        raise ParameterError(
            f"mechanism='paper' is refused at height {height}: the printed algorithm is not "
            f"private from height 5 on; at epsilon={record.epsilon:g} its delta is at least "
            f"{bound:.1e}, not the requested {record.delta:g} (docs/soundness.md). "
            "Use mechanism='offline'."
        )
    if not acknowledge:
        raise ParameterError(
            "mechanism='paper' is the algorithm as printed, kept for comparison: pass "
            "acknowledge=True to run it, or use mechanism='offline', which has less noise."
        )
    if remainder:
        raise ParameterError(
            "mechanism='paper' releases no remainder, and adding one is not private at height 4: "
            "pass remainder=False."
        )
    smallest = printed_hhh.smallest_threshold(record.epsilon, record.delta, height)
    threshold = _at_least(threshold, smallest, record, height)
    laws = printed_hhh.printed_laws(record.epsilon, height, threshold)
    if laws.delta > record.delta:
        raise ParameterError(
            f"mechanism='paper' costs delta={laws.delta:.2g} at threshold {threshold}, more than "
            f"the requested {record.delta:g}: raise threshold."
        )
    return laws, threshold
