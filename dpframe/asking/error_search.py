"""Find the smallest epsilon at which a release is as exact as the caller wants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dpframe._known_arguments import shown_value
from dpframe.asking.call_arguments import EPSILON, budget_amount
from dpframe.asking.card import Line
from dpframe.errors import BudgetError, ParameterError, ParameterTypeError, ThresholdError

EPSILON_DIGITS = 3
"""Digits of an epsilon that is found."""

EPSILON_RATIO = 1 + 10.0 ** (1 - EPSILON_DIGITS) / 2
"""Least ratio of two epsilons that the search tells apart."""

Errors = Mapping[str, float]
"""Half widths of intervals, by the name of a measure."""


def smallest_epsilon_plan(
    error: object, arguments: Mapping[str, object], planned: Callable[[float], Any]
) -> Any:
    """Return the plan with the smallest epsilon that keeps ``error``, rounded up to three digits.

    Parameters
    ----------
    error
        A number, or numbers by the name of a measure: largest half widths of intervals, in the
        measure's unit.
    arguments
        The arguments of the call, which must leave epsilon out.
    planned
        Returns the plan with an epsilon. ``plan.errors`` has the errors that are known before the
        data are read.

    Raises
    ------
    BudgetError
        If no epsilon is enough.
    ParameterError, ParameterTypeError
        If epsilon is given, or if ``error`` asks for an error that this question does not know.
    """
    if arguments.get("epsilon") is not None:
        raise ParameterError(
            f"epsilon ({arguments['epsilon']!r}) and error ({error!r}) do not go together. Leave "
            "epsilon out."
        )
    low, high = EPSILON
    guess, found, nearest = 1.0, None, None
    while low * EPSILON_RATIO < high and low < guess < high:
        plan = _plan_or_none(planned, guess)
        if plan is None:  # no known noise would do: epsilon is too large, or too small
            low, high = (low, guess) if guess > 1 else (guess, high)
            guess = _epsilon_up(math.sqrt(low * high))
            continue
        wanted = _wanted_errors(error, getattr(plan, "errors", {}))
        excess = max(plan.errors[name] / most for name, most in wanted.items())
        if excess <= 1:
            high, found = guess, plan
        else:
            low, nearest = guess, plan
        guess = _epsilon_up(guess * max(excess, 1e-6))
        if not low * EPSILON_RATIO < guess < high:
            guess = _epsilon_up(math.sqrt(low * high))
    if found is None:
        if nearest is None:
            planned(1.0)  # raises if something else is wrong with the arguments
        told = (
            ""
            if nearest is None
            else f": the smallest found is {_errors_text(nearest.errors, error)}"
        )
        raise BudgetError(f"no epsilon keeps error={error!r}{told}. Allow more.")
    return found


def _plan_or_none(planned: Callable[[float], Any], epsilon: float) -> Any:
    """Return the plan with this epsilon, None if there is none."""
    try:
        return planned(epsilon)
    except (BudgetError, ThresholdError):
        return None


def _epsilon_up(epsilon: float) -> float:
    """Round up to three digits."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - EPSILON_DIGITS + 1)
    return float(f"{math.ceil(epsilon / unit * (1 - 1e-12)) * unit:.{EPSILON_DIGITS}g}")


def _wanted_errors(error: object, errors: Errors) -> dict[str, float]:
    """Return the largest error that is wanted, by the name of a measure."""
    if not errors:
        raise ParameterError(
            f"error ({error!r}) is not known here before data are read. Pass epsilon instead."
        )
    named = error if isinstance(error, Mapping) else {next(iter(errors)): error}
    if not isinstance(error, Mapping) and len(errors) > 1:
        raise ParameterError(
            f"error ({error!r}) must name one of {', '.join(errors)}, as in "
            f"error={{{next(iter(errors))!r}: {error!r}}}."
        )
    if not named:
        raise ParameterError("error is empty: name a measure and its largest error.")
    for name in named:
        if name not in errors:
            raise ParameterError(
                f"error of {name!r} is not known before data are read. Name one of "
                f"{', '.join(errors)}."
            )
    return {name: _positive_error(name, most) for name, most in named.items()}


def _positive_error(name: str, most: object) -> float:
    if isinstance(most, str | bytes):
        raise ParameterTypeError(f"error of {name} must be a number; got {shown_value(most)}.")
    return budget_amount(
        f"error of {name}", most, 1e-300, 1e300, "the largest half width of an interval"
    )


def _errors_text(errors: Errors, error: object) -> str:
    names = error if isinstance(error, Mapping) else errors
    return ", ".join(f"{name} +-{errors[name]:.4g}" for name in names if name in errors)


def found_epsilon_line(epsilon: float, error: object, errors: Errors) -> Line:
    """Return the line on the epsilon that was found, by a plan that has ``errors``."""
    named = _wanted_errors(error, errors)
    most = ", ".join(f"{name} within +-{value:.12g}" for name, value in named.items())
    return Line.of(
        "epsilon",
        epsilon,
        "the smallest, to three digits, that keeps {most}",
        most=most,
    )
