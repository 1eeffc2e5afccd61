"""Every argument of every front door, checked once: name, value, rule, next step."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, cast

import numpy as np

from dpframe._unicode import is_unicode
from dpframe.budget import Budget, Contribution, PrivacyUnit
from dpframe.errors import BudgetError, ColumnError, ParameterError, ParameterTypeError
from dpframe.hierarchy import as_hierarchy
from dpframe.ledger import Ledger, as_ledger, current_ledger
from dpframe.questions.hhh.laws import check_goes
from dpframe.questions.hhh.plan import DEFAULT_COUNTERS, MECHANISMS, Mechanism, Plan, make_plan
from dpframe.sketches import LARGEST

EPSILON = (1e-4, 50.0)
DELTA = (1e-12, 0.1)
"""Below 1e-12 the rounding of 64-bit noise tables and of the accountant would show."""


def plan_from(
    hierarchy: object,
    *,
    epsilon: object,
    delta: object,
    threshold: object,
    user: object,
    contribution: object,
    max_contributions: object,
    mechanism: object,
    remainder: object,
    release_share: object,
    confidence: object,
    acknowledge: object,
    counters: object = None,
) -> Plan:
    """A plan from unchecked arguments."""
    kind = cast(Mechanism, chosen("mechanism", mechanism, MECHANISMS))
    if flag("acknowledge", acknowledge):
        check_goes("acknowledge", acknowledge, kind)
    return make_plan(
        hierarchy=as_hierarchy(hierarchy),
        unit=unit_from(user, contribution, max_contributions),
        budget=Budget(
            epsilon=amount("epsilon", epsilon, *EPSILON, "for example 1.0"),
            delta=amount("delta", delta, *DELTA, "well below one over the number of people"),
        ),
        mechanism=kind,
        threshold=None if threshold is None else whole("threshold", threshold, 1, 2**53),
        remainder=_remainder(remainder, kind),
        release_share=(
            None if release_share is None else number("release_share", release_share, 0.01, 0.99)
        ),
        confidence=number("confidence", confidence, 0.5, 0.999999),
        acknowledge=bool(acknowledge),
        counters=_counters(counters, kind),
    )


def _remainder(value: object, mechanism: Mechanism) -> bool:
    if value is None:
        return mechanism != "streaming"
    if flag("remainder", value) and mechanism != "paper":  # which says itself what it lacks
        check_goes("remainder", value, mechanism)
    return bool(value)


def _counters(value: object, mechanism: Mechanism) -> int | None:
    if value is not None:
        check_goes("counters", value, mechanism)
        return whole("counters", value, 2, LARGEST)
    return DEFAULT_COUNTERS if mechanism == "streaming" else None


def release_name(value: object) -> str | None:
    """The name of a release: text that people and file systems can read."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ParameterTypeError(f"release must be a name, as text; got {value!r}.")
    if not value.strip() or len(value) > 200 or not value.isprintable():
        raise ParameterError(
            f"release ({value[:200]!r}) must be a name of 1 to 200 printable characters, for "
            "example 'ips-2026-11'."
        )
    return value


def data_name(value: object) -> str | None:
    """The caller's name for the state of the data."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ParameterTypeError(
            "data must be your name for the state of the data, as text, for example '2026-11-03'; "
            f"got {type(value).__name__}."
        )
    if not value.strip() or len(value) > 200 or not value.isprintable():
        raise ParameterError(
            f"data ({value[:200]!r}) must be your name for the state of the data, 1 to 200 "
            "printable characters, for example '2026-11-03'."
        )
    return value


def chosen_ledger(value: object) -> Ledger | None:
    """The ledger of the call, or of ``use_ledger``."""
    return current_ledger() if value is None else as_ledger(value)


def unit_from(user: object, contribution: object, max_contributions: object) -> PrivacyUnit:
    if user is None:
        for name, value in (
            ("contribution", contribution),
            ("max_contributions", max_contributions),
        ):
            if value is not None:
                raise ParameterError(
                    f"{name} ({value!r}) needs user=: name the column that identifies a person, "
                    f"or leave {name} out to protect single records."
                )
        return PrivacyUnit()
    user = column_name("user", user)
    default = "share" if contribution is None else contribution
    kind = chosen("contribution", default, ("share", "records", "items"))
    if kind == "share":
        if max_contributions is not None:
            raise ParameterError(
                f"max_contributions ({max_contributions!r}) goes with contribution='records'; "
                "with shares every user weighs 1 and needs no bound."
            )
        return PrivacyUnit(user=user)
    if max_contributions is None:
        raise ParameterError(
            f"contribution={kind!r} needs max_contributions=, the number of {kind} counted of "
            "each user; it must not be learned from the data."
        )
    bound = whole("max_contributions", max_contributions, 1, 1_000_000)
    return PrivacyUnit(user=user, contribution=cast(Contribution, kind), max_contributions=bound)


def column_name(argument: str, value: object) -> str:
    """The name of a column that an argument says."""
    if not isinstance(value, str):
        raise ParameterTypeError(
            f"{argument} must be the name of a column; got {type(value).__name__}."
        )
    if not value or not is_unicode(value):
        raise ColumnError(
            f"{argument} ({value!r}) must be the name of a column: text that is not empty and that "
            "UTF-8 can write. Rename the column."
        )
    return value


def amount(name: str, value: object, low: float, high: float, advice: str) -> float:
    """Part of a privacy budget, which has no default."""
    if value is None:
        raise BudgetError(f"{name} is missing: pass {name}=, {advice}. There is no default.")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterTypeError(f"{name} must be a number, {advice}; got {value!r}.")
    real: Any = value
    if not low <= real <= high:  # also refuses NaN
        raise BudgetError(
            f"{name} ({value!r}) must be a finite number from {low:g} to {high:g}: {advice}."
        )
    return float(value)


def number(name: str, value: object, low: float, high: float) -> float:
    """A number within bounds."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterTypeError(
            f"{name} must be a number from {low:g} to {high:g}; got {value!r}."
        )
    real: Any = value
    if not low <= real <= high:  # also refuses NaN
        raise ParameterError(f"{name} ({value!r}) must be a number from {low:g} to {high:g}.")
    return float(value)


def whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number within bounds, also from a float that is one."""
    given: Any = value
    if isinstance(value, float | np.floating) and float(value).is_integer():
        given = int(value)
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise ParameterTypeError(f"{name} must be a whole number of at least {low}; got {value!r}.")
    if not low <= int(given) <= high:
        raise ParameterError(f"{name} ({value!r}) must be a whole number from {low} to {high}.")
    return int(given)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ParameterTypeError(f"{name} must be True or False; got {value!r}.")
    return value


def chosen(name: str, value: object, known: Sequence[str]) -> str:
    if not isinstance(value, str):
        raise ParameterTypeError(f"{name} must be one of {', '.join(known)}; got {value!r}.")
    if value not in known:
        near = difflib.get_close_matches(value.lower(), known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(f"{name} ({value!r}) must be one of {', '.join(known)}.{hint}")
    return value
