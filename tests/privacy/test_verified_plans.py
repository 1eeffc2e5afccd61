"""Random plans over the whole range of parameters: the verifier confirms every one.

``python -m tests.privacy.test_verified_plans 500 1`` prints a line a plan, and then one for each of
a fifth as many rollups and prefix trees: how much larger the verifier's bound is than the
accountant's, and how long it took. Where they disagree one is wrong.
"""

from __future__ import annotations

import itertools
import math
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

import dpframe as dp
from dpframe.asking.level_plan import proof_text
from dpframe.errors import BudgetError, ParameterError, ThresholdError
from dpframe.measures.measure import Measure
from dpframe.verifier import verify_receipt
from dpframe.verifier.verdict import Verdict

USERS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"user": "u"},
    {"user": "u", "contribution": "records", "max_contributions": 4},
)

LONGEST = 20_000_000
"""Characters of a proof that is still checked here: tables of a million entries."""
PATIENCE = 5
"""Seconds for a plan to be made."""


@dataclass(frozen=True)
class Case:
    """One plan, its verdict and how long that took."""

    arguments: dict[str, Any]
    plan: Any
    verdict: Verdict
    seconds: float

    @property
    def excess(self) -> float:
        """How much larger the bound is than what the accountant computed."""
        computed, bound = self.plan.delta_spent, self.verdict.bound
        return float(bound or 0) / computed - 1 if computed else 0.0


EXPLAINED: dict[str, Any] = {
    "hhh": dp.explain,
    "tree_counts": dp.explain_tree_counts,
    "rollup": dp.explain_rollup,
}


def between(generator: random.Random, low: float, high: float) -> float:
    """A number of three digits, as many of one size as of another."""
    return float(f"{math.exp(generator.uniform(math.log(low), math.log(high))):.3g}")


def drawn(generator: random.Random) -> dict[str, Any]:
    """Arguments of one plan."""
    height = round(math.exp(generator.uniform(0, math.log(128))))
    arguments = {
        "hierarchy": f"path:p?depth={height}",
        "epsilon": between(generator, 1e-3, 20),
        "delta": between(generator, 1e-12, 1e-2),
        **generator.choice(USERS),
    }
    question = generator.choice(("hhh",) * 7 + ("tree_counts",))
    if question == "tree_counts":
        arguments["mechanism"] = generator.choice(("auto", "laplace", "gaussian", "hhh"))
        if arguments["mechanism"] == "auto":
            del arguments["mechanism"]
    else:
        arguments["mechanism"] = generator.choice(
            ("offline",) * 6 + ("offline-gaussian", "laplace", "gaussian", "streaming")
        )
        if arguments["mechanism"] == "offline":
            arguments["remainder"] = generator.random() < 0.7
            if generator.random() < 0.3:
                arguments["release_share"] = round(generator.uniform(0.1, 0.9), 2)
            if generator.random() < 0.4:
                arguments["threshold"] = round(math.exp(generator.uniform(3, 9)))
    return {"question": question, **arguments}


def drawn_rollup(generator: random.Random) -> dict[str, Any]:
    """Arguments of one plan: by record and by user, selected or listed, one to five measures."""
    height = round(math.exp(generator.uniform(0, math.log(32))))
    user = generator.choice((None, "u"))
    arguments: dict[str, Any] = {
        "hierarchy": f"path:p?depth={height}",
        "epsilon": between(generator, 0.05, 20),
        "user": user,
    }
    if generator.random() < 0.25:
        arguments["keys"] = ["a/b/c"]
    else:
        arguments["delta"] = between(generator, 1e-12, 1e-2)
        if generator.random() < 0.3:
            arguments["selection_share"] = round(generator.uniform(0.05, 0.9), 2)
    measures = {f"m{n}": drawn_measure(generator, user) for n in range(generator.randint(1, 5))}
    if generator.random() < 0.3:  # a sum and a mean of the same values share what is drawn
        upper = generator.choice((1.0, 0.3, 12345.6789))
        measures |= {
            "revenue": dp.sum("y", lower=0, upper=upper),
            "average": dp.mean("y", lower=0, upper=upper),
        }
    sums = [n for n, m in measures.items() if (m.kind, m.lower) == ("sum", 0) and m.upper != "auto"]
    if sums and "keys" not in arguments and generator.random() < 0.3:
        arguments["heavy"] = generator.choice(sums)
    return {"question": "rollup", **arguments, "measures": measures}


def drawn_measure(generator: random.Random, user: str | None) -> Measure:
    """One measure."""
    share = round(math.exp(generator.uniform(-2, 2)), 3)
    kind = generator.choice(("count", "sum", "mean", "distinct", "auto"))
    if kind == "count":
        rows = generator.choice((None, 1, 20)) if user is not None else None
        return dp.count(at_most=rows, share=share)
    if kind == "distinct":
        column = generator.choice(("u", "c", 'a "q" b'))
        most = None if user is None else generator.choice((1, 3, 50))
        return dp.distinct(column, at_most=most, share=share)
    lower = generator.choice((0.0, 0.0, -generator.uniform(0, 100)))
    upper = 10 ** generator.uniform(-6, 12)
    if kind == "auto":
        either: tuple[Any, Any] = generator.choice((("auto", 7.0), (0.0, "auto"), ("auto", "auto")))
        if generator.random() < 0.5:
            return dp.mean("x", lower=either[0], upper=either[1], share=share)
        cut = generator.random() < 0.3
        return dp.sum("x", lower=either[0], upper=either[1], clipped=cut, share=share)
    if kind == "mean":
        return dp.mean("x, y", lower=lower, upper=upper, share=share)
    return dp.sum("x", lower=lower, upper=upper, clipped=generator.random() < 0.3, share=share)


@contextmanager
def patience() -> Iterator[None]:
    """TimeoutError where a plan takes too long to make: of small epsilons some laws are searched
    for minutes, and what is tested here is how they are verified."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def cases(
    number: int,
    seed: int,
    *,
    most: float = 128,
    least: float = 1e-3,
    draw: Callable[[random.Random], dict[str, Any]] = drawn,
) -> Iterator[Case]:
    """So many plans that can be made; what no plan is made for is left out."""
    generator = random.Random(seed)
    while number:
        arguments = draw(generator)
        question = arguments.pop("question")
        about = arguments.pop("hierarchy")
        if int(about.rpartition("=")[2]) > most or arguments["epsilon"] < least:
            continue
        explain = EXPLAINED[question]
        try:
            with patience():
                plan: Any = explain(about, **arguments).plan
        except (BudgetError, ThresholdError, ParameterError, TimeoutError):
            continue
        text = proof_text(plan)
        if text is None or len(text) > LONGEST:
            continue
        start = time.perf_counter()
        verdict = verify_receipt(plan.receipt(), text)
        seconds = time.perf_counter() - start
        if verdict.outcome == "not verified" and "takes too long to compare" in verdict.reason:
            continue  # Gaussian noise of users with long tables, as docs/verifying.md says
        yield Case({"question": question, "about": about, **arguments}, plan, verdict, seconds)
        number -= 1


def drawn_tree(generator: random.Random) -> dict[str, Any]:
    """Arguments of one prefix tree."""
    return {
        "user": "u",
        "devices": round(math.exp(generator.uniform(math.log(200), math.log(1e9)))),
        "epsilon": between(generator, 1e-2, 20),
        "delta": between(generator, 1e-11, 1e-2),
        "iterations": generator.choice((3, 4, 6, 12)),
        "rounds": generator.choice((1, 1, 1, 2, 5)),
        "participation": generator.choice((1.0, 1.0, 0.5, 0.01)),
        "neighbours": generator.choice(("replace", "remove")),
    }


def trees(number: int, seed: int) -> Iterator[Case]:
    """So many prefix trees of which a plan can be made."""
    generator = random.Random(seed)
    while number:
        arguments = drawn_tree(generator)
        try:
            with patience():
                plan: Any = dp.explain_prefix_tree("word", **arguments).plan
        except (BudgetError, ParameterError, TimeoutError):
            continue
        start = time.perf_counter()
        verdict = verify_receipt(plan.receipt(), proof_text(plan))
        seconds = time.perf_counter() - start
        yield Case({"question": "prefix_tree", **arguments}, plan, verdict, seconds)
        number -= 1


def confirmed(case: Case) -> None:
    assert case.verdict, (case.arguments, case.verdict.reason)
    assert case.verdict.bound is not None
    assert case.verdict.bound <= Fraction(case.plan.budget.delta)


def test_random_plans_are_proved() -> None:
    """Law: of some plans drawn from all there are every one is confirmed."""
    for case in itertools.chain(cases(5, seed=5, most=12, least=0.2), trees(1, seed=5)):
        confirmed(case)


@pytest.mark.evidence
def test_five_hundred_plans_are_proved() -> None:
    """Law: every one of 500, and of 100 prefix trees."""
    for case in itertools.chain(cases(500, seed=1), trees(100, seed=1)):
        confirmed(case)


def main(number: int, seed: int) -> None:
    rollups = cases(number // 5, seed, draw=drawn_rollup)
    for case in itertools.chain(cases(number, seed), rollups, trees(number // 5, seed)):
        print(
            f"{case.verdict.outcome}\t{case.excess:.2e}\t{case.seconds:.2f}\t{case.arguments}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
