"""Check the arguments of all front doors, and find the epsilon for an error."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

from dpframe.asking.card import Line
from dpframe.budget import LARGEST_EPSILON, Budget, Contribution, PrivacyUnit, as_float
from dpframe.common.calls import shown_value
from dpframe.common.texts import is_unicode
from dpframe.errors import (
    BudgetError,
    ColumnError,
    ParameterError,
    ParameterTypeError,
    ThresholdError,
)
from dpframe.hierarchy import Hierarchy, as_hierarchies, as_hierarchy, columns

EPSILON = (1e-4, LARGEST_EPSILON)
DELTA = (1e-12, 0.1)
"""Below 1e-12 the rounding of 64-bit noise tables and of the accountant would show."""

ChoiceName = TypeVar("ChoiceName", bound=str)

DELTA_ADVICE = "well below one over the number of people"


Constraint = Callable[[str, object], Any]
"""Checks the value of one argument by its name, and returns it with its type."""


def none_or(check: Constraint) -> Constraint:
    """What ``check`` accepts, or None if it was left out."""
    return partial(_none_or_checked, check)


def _none_or_checked(check: Constraint, name: str, value: object) -> Any:
    return None if value is None else check(name, value)


def optional_whole(low: int, high: int) -> Constraint:
    """A whole number within bounds, or None if it was left out."""
    return none_or(partial(whole_number, low=low, high=high))


def optional_number(low: float, high: float) -> Constraint:
    """A number within bounds, or None if it was left out."""
    return none_or(partial(bounded_number, low=low, high=high))


def choice(known: Sequence[str]) -> Constraint:
    """A name that must be one of ``known``."""
    return partial(known_choice, known=known)


def constraint_schema(check: Constraint | None) -> dict[str, Any]:
    """What a constraint accepts, as a schema of JSON; empty if it tells nothing."""
    if not isinstance(check, partial):
        return {"type": "boolean"} if check is flag else {}
    if check.func is _none_or_checked:
        return constraint_schema(check.args[0])
    if check.func is known_choice:
        return {"type": "string", "enum": [*check.keywords["known"]]}
    kind = {whole_number: "integer", bounded_number: "number"}[check.func]
    bounds = {"minimum": check.keywords["low"], "maximum": check.keywords["high"]}
    return {"type": kind, **bounds}


def delta_amount(name: str, value: object) -> float:
    return budget_amount(name, value, *DELTA, DELTA_ADVICE)


class CallArguments(Mapping[str, Any]):
    """The arguments of one call, each checked by ``COMMON`` or by the question's ``constraints``.

    An argument None leaves the choice to dpframe. What several arguments say together is checked
    by whoever makes a plan of them.
    """

    def __init__(
        self, arguments: Mapping[str, object], constraints: Mapping[str, Constraint] | None = None
    ) -> None:
        table = {**COMMON, **(constraints or {})}
        self._arguments = {
            name: table[name](name, value) if name in table else value
            for name, value in arguments.items()
        }

    def __getitem__(self, name: str) -> Any:
        return self._arguments[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)

    def but(self, **others: object) -> CallArguments:
        """Return a copy in which the arguments ``others`` are replaced."""
        return CallArguments({**self._arguments, **others})

    @property
    def hierarchy(self) -> Hierarchy:
        return as_hierarchy(self["hierarchy"])

    @property
    def hierarchies(self) -> Hierarchy:
        """One hierarchy, or several that are asked at once."""
        return as_hierarchies(self["hierarchy"])

    @property
    def column(self) -> Hierarchy:
        """The hierarchy whose only level is the values of a column."""
        return flat_hierarchy(self["column"])

    @property
    def budget(self) -> Budget:
        return Budget(epsilon=self["epsilon"], delta=self["delta"])

    @property
    def unit(self) -> PrivacyUnit:
        """The unit of privacy, without weights."""
        return user_unit(self["user"], self["contribution"], self["max_contributions"])

    def goes(self, table: MechanismArguments, mechanism: str) -> None:
        """Raise ParameterError for a given argument that the mechanism does not take.

        Such an argument is not ignored: the caller expects an effect, and a stored request would
        hold the argument.
        """
        for name, (known, what) in table.items():
            value = self[name]
            if value is None or value is False or mechanism in known:
                continue
            named = " or ".join(f"mechanism={other!r}" for other in known)
            raise ParameterError(
                f"{name} ({value!r}) {what}, and goes only with {named}, not "
                f"mechanism={mechanism!r}. Leave it out."
            )


MechanismArguments = Mapping[str, tuple[tuple[str, ...], str]]
"""For each argument that only some mechanisms take: these mechanisms, and what it does."""


def check_contribution(
    unit: PrivacyUnit, mechanism: str, beside: Mapping[str, tuple[Contribution, ...]]
) -> None:
    """Raise ParameterError for a ``contribution`` that a mechanism does not count.

    Every mechanism counts "records"; ``beside`` says what each mechanism counts besides.
    """
    kind = unit.contribution
    if unit.user is None or kind in ("records", *beside.get(mechanism, ())):
        return
    ways = [f"contribution={other!r}" for other in beside.get(mechanism, ())]
    ways += [f"mechanism={other!r}" for other, kinds in beside.items() if kind in kinds]
    raise ParameterError(
        f"contribution={kind!r} does not go with mechanism={mechanism!r}. "
        + ", or ".join(["Pass contribution='records' with max_contributions=", *ways])
        + "."
    )


def release_name(value: object) -> str | None:
    """Check the name of a release: text that people and file systems can read."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ParameterTypeError(f"release must be a name, as text; got {shown_value(value)}.")
    if not value.strip() or len(value) > 200 or not value.isprintable():
        raise ParameterError(f"release ({value[:200]!r}) must have 1 to 200 printable characters.")
    return value


def data_name(value: object) -> str | None:
    """Check the caller's name for the state of the data."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ParameterTypeError(
            f"data must be text, such as '2026-11-03'; got {type(value).__name__}."
        )
    if not value.strip() or len(value) > 200 or not value.isprintable():
        raise ParameterError(f"data ({value[:200]!r}) must have 1 to 200 printable characters.")
    return value


def user_unit(user: object, contribution: object, max_contributions: object) -> PrivacyUnit:
    if user is None:
        for name, value in (
            ("contribution", contribution),
            ("max_contributions", max_contributions),
        ):
            if value is not None:
                raise ParameterError(
                    f"{name} ({value!r}) needs user=. Name the column that identifies a person, "
                    f"or leave {name} out."
                )
        return PrivacyUnit()
    user = column_name("user", user)
    default = "share" if contribution is None else contribution
    kind: Contribution = known_choice("contribution", default, ("share", "records", "items"))
    if kind == "share":
        if max_contributions is not None:
            raise ParameterError(
                f"max_contributions ({max_contributions!r}) does not bound shares. Pass "
                "contribution='records' too."
            )
        return PrivacyUnit(user=user)
    if max_contributions is None:
        raise ParameterError(
            f"contribution={kind!r} needs max_contributions=, a number of {kind} for each user. "
            "Choose it without the data."
        )
    bound = whole_number("max_contributions", max_contributions, 1, 1_000_000)
    return PrivacyUnit(user=user, contribution=kind, max_contributions=bound)


def column_name(argument: str, value: object) -> str:
    """Check that an argument is the name of a column."""
    if not isinstance(value, str):
        raise ParameterTypeError(
            f"{argument} must be the name of a column; got {type(value).__name__}."
        )
    if not value or not is_unicode(value):
        raise ColumnError(
            f"{argument} ({value!r}) must be the name of a column in UTF-8. Rename it."
        )
    return value


def budget_amount(name: str, value: object, low: float, high: float, advice: str) -> float:
    """Check a part of a privacy budget, which has no default."""
    if value is None:
        raise BudgetError(f"{name} is missing: pass {name}=, {advice}. There is no default.")
    real = as_float(value)
    if real is None:
        raise ParameterTypeError(f"{name} must be a number, {advice}; got {shown_value(value)}.")
    if not low <= real <= high:  # also refuses NaN
        raise BudgetError(
            f"{name} ({value!r}) must be a finite number from {low:g} to {high:g}, {advice}."
        )
    return real


def bounded_number(name: str, value: object, low: float, high: float) -> float:
    """Check a number within bounds."""
    real = as_float(value)
    if real is None:
        raise ParameterTypeError(
            f"{name} must be a number from {low:g} to {high:g}; got {shown_value(value)}."
        )
    if not low <= real <= high:  # also refuses NaN
        parts = f" Write {real / 100:g}." if high < 1 and low <= real / 100 <= high else ""
        raise ParameterError(
            f"{name} ({value!r}) must be a number from {low:g} to {high:g}.{parts}"
        )
    return real


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """Check a whole number within bounds; a float such as 3.0 is one, too."""
    given: Any = value
    if not isinstance(value, Integral) and (real := as_float(value)) is not None:
        given = int(real) if real.is_integer() and real == value else value
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise ParameterTypeError(
            f"{name} must be a whole number >= {low}; got {shown_value(value)}."
        )
    if not low <= int(given) <= high:
        raise ParameterError(f"{name} ({value!r}) must be a whole number from {low} to {high}.")
    return int(given)


def level_numbers(
    name: str, value: object, hierarchy: Hierarchy, *, by_name: bool = False
) -> tuple[float, ...] | None:
    """Check one number for each level, level 0 first: positive ones. ``by_name``: numbers of at
    least 0, not all 0, also by the names of levels ("*" is level 0); other levels then have 0."""
    if value is None:
        return None
    levels, given = hierarchy.height + 1, value
    kind = "numbers of at least 0, not all 0" if by_name else "positive numbers"
    rule = f"{name} must be {levels} {kind}, one for each level, level 0 (everything) first"
    if by_name and isinstance(value, Mapping):
        names = [*hierarchy.level_names]
        names.insert(0, "*")
        given = [0.0] * levels
        rule = f"numbers of {name} must be at least 0, not all 0"
        for level, number in value.items():
            given[names.index(known_choice(f"a level of {name}", level, names))] = number
    weights: Any = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(weights, str | bytes) or not isinstance(weights, Sequence):
        raise ParameterTypeError(f"{rule}; got {type(value).__name__}.")
    for w in weights:
        if as_float(w) is None:
            raise ParameterTypeError(f"{rule}; got {w!r}.")
    if len(weights) != levels:
        raise ParameterError(f"{rule}; got {len(weights)}.")
    numbers = tuple(as_float(w) or 0.0 for w in weights)
    if any(as_float(w) == math.inf != w for w in weights):
        raise ParameterError(f"{rule}; got a number beyond 1e308.")
    counting = [w for w in numbers if w or not by_name]
    shown = dict(value) if isinstance(value, Mapping) else list(weights)
    if not counting or not all(math.isfinite(w) and w > 0 for w in counting):
        raise ParameterError(f"{rule}; got {shown}.")
    if max(counting) > 1e6 * min(counting):
        rule += ", the largest at most 1e6 times the smallest" + " above 0" * by_name
        raise ParameterError(f"{rule}; got {shown}.")
    return numbers


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ParameterTypeError(f"{name} must be True or False; got {shown_value(value)}.")
    return value


def known_choice(name: str, value: object, known: Sequence[ChoiceName]) -> ChoiceName:
    if not isinstance(value, str):
        raise ParameterTypeError(
            f"{name} must be one of {', '.join(known)}; got {shown_value(value)}."
        )
    if value not in known:
        near = difflib.get_close_matches(value.lower(), known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(f"{name} ({value!r}) must be one of {', '.join(known)}.{hint}")
    return known[known.index(value)]


def flat_hierarchy(column: object) -> Hierarchy:
    """Return the hierarchy whose only level is the values of a column."""
    if not isinstance(column, str):
        raise ParameterTypeError(
            f"column must be text; got {type(column).__name__}. Use hhh for levels."
        )
    return columns(column)


COMMON: Mapping[str, Constraint] = {
    "epsilon": lambda name, value: budget_amount(name, value, *EPSILON, "for example 1.0"),
    "confidence": partial(bounded_number, low=0.5, high=0.999999),
    "release_share": optional_number(0.01, 0.99),
    "selection_share": optional_number(0.01, 0.99),
    "alpha": optional_number(0.01, 0.99),
    "largest": optional_whole(1, 2**53),
    "seed": optional_whole(0, 2**63 - 1),
    "acknowledge": flag,
    "totals": flag,
    "consistent": flag,
    "conditioned": flag,
}
"""What is checked of arguments that mean the same in every question."""


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
        measure's unit; for what is counted in bins, of the rank of a quantile, as a part of 1,000
        values.
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
        more = getattr(plan, "unknown_errors", None)
        wanted = _wanted_errors(error, getattr(plan, "errors", {}), more)
        _check_rank_errors(wanted, plan)
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


def _wanted_errors(error: object, errors: Errors, more: str | None = None) -> dict[str, float]:
    """Return the largest error that is wanted, by the name of a measure. ``more`` is what makes
    errors known, for a message."""
    if not errors:
        ways = "" if more is None else f", or {more}"
        raise ParameterError(
            f"error ({error!r}) is not known here before data are read. Pass epsilon instead{ways}."
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


def _check_rank_errors(wanted: Mapping[str, float], plan: Any) -> None:
    """Raise ParameterError for an error of a rank that is no part of the values."""
    for name in wanted:
        if name in getattr(plan, "rank_errors", ()) and wanted[name] >= MOST_RANK:
            raise ParameterError(
                f"error of {name} ({wanted[name]:g}) is of the rank of a quantile, as a part of "
                f"all values. Pass a number below {MOST_RANK:g}, such as 0.01."
            )


MOST_RANK = 0.5
"""From this error of a rank on a median could be any value."""


def _positive_error(name: str, most: object) -> float:
    if isinstance(most, str | bytes):
        raise ParameterTypeError(f"error of {name} must be a number; got {shown_value(most)}.")
    return budget_amount(
        f"error of {name}", most, 1e-300, 1e300, "the largest half width of an interval"
    )


def _errors_text(errors: Errors, error: object) -> str:
    names = error if isinstance(error, Mapping) else errors
    return ", ".join(f"{name} +-{errors[name]:.4g}" for name in names if name in errors)


def found_epsilon_line(error: object, plan: Any) -> Line:
    """Return the line on the epsilon that was found, by a plan that has ``errors``."""
    named, ranks = _wanted_errors(error, plan.errors), getattr(plan, "rank_errors", ())
    told = []
    for name, value in named.items():
        limit = f"within +-{value:.12g}"
        if name in ranks:
            name = f"the rank of {name}"
            limit += " of the values, where a node has 1,000 of its own"
        told.append(f"{name} {limit}")
    return Line.of(
        "epsilon",
        plan.budget.epsilon,
        "the smallest, to three digits, that keeps {most}",
        most=", and ".join(told),
    )


@contextmanager
def add_advice(text: str, *, given: bool) -> Iterator[None]:
    """Add to a BudgetError what else the caller can do, if the argument for it was given."""
    try:
        yield
    except BudgetError as error:
        if not given:
            raise
        raise BudgetError(f"{error} Or {text}.") from None
