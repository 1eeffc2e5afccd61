"""Measures as callers write them and receipts name them, how their numbers are written, and what
bounds cut of these."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpframe.common.texts import is_unicode
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.measures.bins import CLOCK, Each, ValueKind, duration_text, moment_text
from dpframe.measures.measure import (
    AT_BOUND_END,
    AUTO,
    Measure,
    count,
    distinct,
    mean,
    quote_column,
    sum,
)
from dpframe.measures.quantile_measures import histogram, median, quantile, quantiles

TAKES: Mapping[str, tuple[str, ...]] = {
    "count": ("at_most", "share"),
    "sum": ("column", "lower", "upper", "clipped", "share"),
    "mean": ("column", "lower", "upper", "share"),
    "distinct": ("column", "at_most", "share"),
    "median": ("column", "lower", "upper", "bins", "spacing", "each", "share"),
    "quantile": ("column", "at", "lower", "upper", "bins", "spacing", "each", "share"),
    "quantiles": ("column", "lower", "upper", "at", "bins", "spacing", "each", "share"),
    "histogram": ("column", "lower", "upper", "bins", "spacing", "each", "share"),
}
"""Measures, and what each takes: all but those in ``NAMED_ONLY`` also by their places."""

NAMED_ONLY = ("clipped", "bins", "spacing", "each", "share")

MADE = {
    "count": count,
    "sum": sum,
    "mean": mean,
    "distinct": distinct,
    "median": median,
    "quantile": quantile,
    "quantiles": quantiles,
    "histogram": histogram,
}

EXAMPLES = "'count', 'sum(amount, 0, 500)' or 'mean(amount, 0, 500)'"

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "count": ("len", "n", "rows", "size", "value_counts"),
    "sum": ("total",),
    "mean": ("average",),
    "distinct": (
        *("approx_count_distinct", "approx_distinct", "count_distinct", "countdistinct"),
        *("n_distinct", "n_unique", "nunique", "unique", "uniq"),
    ),
    "median": ("approx_median", "med"),
    "histogram": ("hist",),
}
"""What other languages call a measure. Nearness of letters would lead from ``max`` to ``mean``."""

SPREAD = re.compile(
    r"(arg_?)?(max|min)\w*|median\w+|mode|\w*(quantile|percentile)\w*|p\d+|std\w*|var\w*"
)
"""Functions of how values are spread that are no measures; quantiles serve instead."""

ALIAS = re.compile(
    r"^(?P<what>.*?)(?:\s+AS\s+(?P<name>\"(?:[^\"]|\"\")+\"|[^\s\"(),]+))?\s*$", re.I | re.S
)
CALL = re.compile(r"^\s*(?P<kind>[A-Za-z_]+)\s*(?:\((?P<inside>.*)\))?\s*$", re.S)
NAME_FIRST = re.compile(
    rf"\s*(?P<name>[^\W\d]\w*)\s*:?=\s*(?P<what>(?:{'|'.join(TAKES)})\b(?:\(.*\))?)\s*", re.S
)
"""A measure with its name before it, as keyword arguments have it."""

PART = re.compile(
    r"\s*(?:(?P<key>[A-Za-z_]+)\s*=\s*)?"
    r"(?P<value>\"(?:[^\"]|\"\")+\"|\[[^\]\"]*\]|[^,\"\[]*?)\s*(?:,|$)",
    re.S,
)


Bounds = Mapping[str, tuple[Any, Any]]
"""Bounds of values by column, or by measure: ``amount``, ``sum(amount)``."""


def parse_measure(
    text: str, column: str = "amount", bounds: Bounds | None = None
) -> tuple[str, Measure]:
    """A measure that is written as text, and the name of its column in the result.

    ``column`` is the column in the examples of errors about a text that names none. ``bounds`` are
    those of a policy: the text may leave them out, and names no others.

    Raises
    ------
    ParameterError
        If the text is no measure; it says what could have been meant.
    """
    alias = ALIAS.match(text)
    call = CALL.match(alias["what"]) if alias is not None else None
    if alias is None or call is None:
        named = NAME_FIRST.fullmatch(text)
        meant = repr(f"{named['what']} AS {named['name']}") if named is not None else EXAMPLES
        raise ParameterError(f"measure {text!r} is not understood. Write {meant}.")
    kind, inside = call["kind"].lower(), call["inside"]
    measure = _measure_of_call(text, kind, inside, quote_column(column), bounds)
    return _unquote(alias["name"]) if alias["name"] else measure.default_name, measure


def _measure_of_call(
    text: str, kind: str, inside: str | None, column: str, bounds: Bounds | None = None
) -> Measure:
    kind = {"avg": "mean"}.get(kind, kind)
    if kind not in TAKES:
        what = instead_of(kind, inside or "") or f" Write {EXAMPLES}."
        raise ParameterError(f"measure {text!r}: {kind!r} is none of {', '.join(TAKES)}.{what}")
    _check_count(text, kind, inside or "")
    places = [name for name in TAKES[kind] if name not in NAMED_ONLY]
    given: dict[str, object] = {}
    for key, value in _call_arguments(text, inside or ""):
        name = key or (places.pop(0) if places else None)
        if name is None or name not in TAKES[kind] or name in given:
            raise ParameterError(
                f"measure {text!r}: {kind} takes {', '.join(TAKES[kind])}, each once. "
                f"Write {EXAMPLES}."
            )
        if key in places:
            places.remove(key)
        given[name] = (
            _unquote(value) if name == "column" else _read_argument(text, kind, name, value)
        )
    if "column" in TAKES[kind] and given.get("column", "*") == "*":
        example = f"{kind}({column}, 0, 500)"
        if kind in ("distinct", "quantile"):
            example = f"{kind}({column}{', 0.95, 0, 500' * (kind == 'quantile')})"
        raise ParameterError(f"measure {text!r} names no column. Write {example!r}.")
    if bounds is not None:
        _bound_by_policy(text, kind, given, bounds)
    if "lower" in TAKES[kind] and not {"lower", "upper"} <= {*given}:
        named = quote_column(str(given["column"]))
        if kind not in ("sum", "mean"):
            at = given.get("at", 0.95)
            at = at if isinstance(at, float) and 0 < at < 1 else 0.95
            part = f", {at:g}" * (kind == "quantile")
            raise ParameterError(
                f"measure {text!r} lacks bounds of its values. Write '{kind}({named}{part}, 0, "
                "500)' with bounds known without the data; wide ones lose little."
            )
        raise ParameterError(
            f"measure {text!r} lacks bounds of its values. Write '{kind}({named}, 0, 500)' with "
            f"bounds known without the data, or '{kind}({named}, auto, auto)' to find them "
            "privately."
        )
    of = [given.pop("column")] if "column" in given else []
    make: Any = MADE[kind]
    made: Measure = make(*of, **given)
    return made


def _bound_by_policy(text: str, kind: str, given: dict[str, object], bounds: Bounds) -> None:
    """Give a measure the bounds that a policy has for it."""
    column = str(given.get("column", "*"))
    pair = bounds.get(f"{kind}({column})", bounds.get(column) if "lower" in TAKES[kind] else None)
    limits = {"lower": 0, "upper": 1} if "lower" in TAKES[kind] else {"at_most": 1}
    if pair is None and "lower" in limits:
        raise ParameterError(
            f"measure {text!r}: the policy has no bounds of {column!r}. It has bounds of "
            f"{', '.join(bounds) or 'no column'}."
        )
    for name, end in limits.items():
        if pair is not None and given.setdefault(name, pair[end]) != pair[end]:
            raise ParameterError(
                f"measure {text!r}: the policy sets {name} to {pair[end]!r}. Leave it out."
            )


def instead_of(kind: str, inside: str = "") -> str:
    """What to write for a function of another language; empty for an unknown function."""
    if SPREAD.fullmatch(kind):
        return _spread_hint(inside)
    for name, others in OTHER_NAMES.items():
        if kind in others or difflib.get_close_matches(kind, [name], cutoff=0.6):
            return f" Write {name + f'({inside})' * bool(inside)!r}."
    return ""


def _spread_hint(inside: str) -> str:
    column = inside.partition(",")[0].strip()
    column = column if column.isidentifier() else "amount"
    return (
        f" How values are spread: 'median({column}, 0, 500)', 'quantile({column}, 0.95, 0, 500)' "
        f"or 'histogram({column}, 0, 500)', with bounds that you know."
    )


def _check_count(text: str, kind: str, inside: str) -> None:
    """Raise ParameterError for counts as SQL spells them, count(x) and count(DISTINCT x)."""
    different = re.fullmatch(r"\s*distinct\s+(.+?)\s*", inside, re.I | re.S)
    if kind in ("count", "distinct") and different is not None:
        raise ParameterError(
            f"measure {text!r} counts different values. Write 'distinct({different[1]})', with "
            f"user= 'distinct({different[1]}, at_most=10)'."
        )
    column = inside.strip()
    if kind != "count" or "=" in column or re.fullmatch(r"[-+.\d].*|", column, re.S):
        return
    other = f", or 'distinct({column})' for its different values" if column != "*" else ""
    raise ParameterError(
        f"measure {text!r}: count takes no column. Write 'count' for records, with user= for "
        f"users{other}."
    )


def _call_arguments(text: str, inside: str) -> Iterator[tuple[str | None, str]]:
    at = 0
    while at < len(inside) or (at and inside[at - 1 : at] == ","):
        part = PART.match(inside, at)
        if part is None or not part["value"] or part.end() == at:
            raise ParameterError(f"measure {text!r} is not understood. Write {EXAMPLES}.")
        yield part["key"], part["value"]
        at = part.end()


BINNED_TEXTS = ("median", "quantile", "quantiles", "histogram")


def _read_number(value: str) -> float | str:
    """A number; the text as it is for dates, times and durations."""
    try:
        return float(value)
    except ValueError:
        return value


def _read_argument(text: str, kind: str, name: str, value: str) -> object:
    if name in ("lower", "upper") and value.lower() == AUTO:
        return AUTO
    if value.startswith("["):
        inside = value[1:-1].strip()
        return [_read_number(one.strip()) for one in inside.split(",")] if inside else []
    if name in ("spacing", "bins", "each") and value.isalpha():
        return value.lower()
    if name in ("lower", "upper") and kind in BINNED_TEXTS:
        return _read_number(value)
    if name == "clipped" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return float(value)
    except ValueError:
        raise ParameterError(
            f"measure {text!r}: {name} ({value!r}) must be a number. Put a name with commas or "
            'brackets in double quotes: sum("a, b", 0, 500).'
        ) from None


def _unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


# -- several ---------------------------------------------------------------------------------------


def measures_from(value: object, bounds: Bounds | None = None) -> dict[str, Measure]:
    """Measures by the names of their columns in the result, in their order.

    Parameters
    ----------
    value
        A mapping from names to measures, objects or texts; or one text, measure or a sequence of
        them, named by ``AS`` or after what they are.
    bounds
        As for :func:`parse_measure`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If there is no measure, if something is no measure, or if two have one name.
    """
    if value is None:
        raise ParameterError(
            f"measures is missing. Pass measures='count', or another such as {EXAMPLES}."
        )
    named = list(_named_measures(value, bounds))
    if not named:
        raise ParameterError(f"measures is empty. Name what is measured, for example {EXAMPLES}.")
    out: dict[str, Measure] = {}
    for name, measure in named:
        if name in out:
            raise ParameterError(f"two measures are named {name!r}. Give each its own name.")
        out[name] = measure
    return out


def _named_measures(value: object, bounds: Bounds | None) -> Iterator[tuple[str, Measure]]:
    if isinstance(value, Mapping):
        for name, measure in value.items():
            if not isinstance(name, str) or not name or not is_unicode(name):
                raise ParameterTypeError(f"measures has {name!r} as a column's name. Use text.")
            _check_alias(name, measure)
            yield name, _one_measure(measure, name, bounds)[1]
    elif isinstance(value, str | Measure):
        yield _one_measure(value, bounds=bounds)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for measure in value:
            yield _one_measure(measure, bounds=bounds)
    else:
        raise ParameterTypeError(
            f"measures must map names to measures or list texts; got {type(value).__name__}. For "
            "example: {'orders': 'count', 'revenue': dp.sum('amount', lower=0, upper=500)}."
        )


def _check_alias(name: str, value: object) -> None:
    """Raise ParameterError for a text with another name than its key in the mapping."""
    alias = ALIAS.match(value) if isinstance(value, str) else None
    if alias is not None and alias["name"] and _unquote(alias["name"]) != name:
        raise ParameterError(
            f"measure {value!r} has two names, {_unquote(alias['name'])!r} and its key {name!r}. "
            "Leave AS out of a mapping's values, or list texts."
        )


def _one_measure(
    value: object, column: str = "amount", bounds: Bounds | None = None
) -> tuple[str, Measure]:
    if isinstance(value, Measure):
        return value.default_name, value
    if isinstance(value, str):
        return parse_measure(value, column, bounds)
    raise ParameterTypeError(
        f"a measure must be dp.count(), dp.sum(...), dp.mean(...) or a text such as {EXAMPLES}; "
        f"got {type(value).__name__}."
    )


ReleasedKind = Literal["count", "sum", "mean", "distinct", "clipped", "quantile", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedMeasure:
    """A measure of a release: the column of its number, and two for the ends of its interval.

    ``of`` is the column of the source, None if rows are counted. ``signed`` says whether the true
    value can be below 0.
    """

    name: str
    kind: ReleasedKind
    of: str | None
    spec: str
    signed: bool
    summed: bool = True
    """Whether a count or a sum is made of parts; rounds measure every node on its own."""
    value: ValueKind = "number"
    """What its values are, if they are counted in bins."""
    limits: tuple[float, float] | None = None
    """Between which bounds a quantile is looked for; None for other numbers."""
    at: float | None = None
    """Which part of the values a quantile is not below; None for other numbers."""
    each: Each = "row"

    @property
    def columns(self) -> tuple[str, str, str]:
        """The columns of the value and of its lower and upper end."""
        return self.name, f"{self.name}_lower", f"{self.name}_upper"

    @property
    def all_columns(self) -> tuple[str, ...]:
        """All columns that say something of the number."""
        return (*self.columns, f"{self.name}{AT_BOUND_END}") if self.limits else self.columns

    @property
    def is_binned(self) -> bool:
        """Whether it is unknown where there are too few values."""
        return self.kind in ("quantile", "histogram")

    @property
    def adds_up(self) -> bool:
        """Whether the value of a node is the sum of the values of its parts."""
        return self.summed and self.kind in ("count", "sum", "clipped")

    @property
    def has_whole_values(self) -> bool:
        """Whether its values are whole numbers."""
        return self.kind in ("count", "distinct", "clipped", "histogram")

    def figures(self, numbers: Iterable[Sequence[float | None]]) -> Figures:
        """How its numbers are written, of which each comes with the ends of its interval: two
        digits of the narrowest interval."""
        found = [*numbers]
        if self.has_whole_values or not found:
            return Figures(is_binned=self.is_binned)
        ends = ((low, high) for _, low, high in found if low is not None and high is not None)
        half = min(((high - low) / 2 for low, high in ends if high > low), default=None)
        if self.value == "number":
            whole = self.is_binned and all(isinstance(one, int) for _, one, _ in found)
            digits = 0 if whole else 2 if half is None else digits_for_width(half)
            return Figures(digits=digits, is_binned=self.is_binned)
        fine = (half or 1.0) / (1 if self.value == "time" else 5)
        seconds = len(CLOCK) - 1 + min(6, digits_for_width(10 * fine))
        place = next((i for i, unit in enumerate(CLOCK) if fine >= unit), seconds)
        return Figures(digits=place, value=self.value, is_binned=True)

    @property
    def has_areas(self) -> bool:
        """Whether widths in a chart can show the measure: no part is ever more than the whole."""
        return self.adds_up and not self.signed


def receipt_measures(facts: Mapping[str, Any]) -> list[ReleasedMeasure]:
    """Return the measures of a receipt in the order of their columns; [] without named measures."""
    out = []
    for name, said in (facts.get("measures") or {}).items():
        _, measure = parse_measure(said["spec"])
        own = {
            "of": measure.column,
            "spec": said["spec"],
            "summed": said.get("adds_up", True) is not False,
        }
        lower = AUTO if said["lower"] is None else said["lower"]
        if measure.is_binned:
            out += _binned_measures(name, measure, said["spec"])
            continue
        signed = measure.kind in ("sum", "mean") and (lower == AUTO or not lower >= 0)
        kind: Any = measure.kind
        out.append(ReleasedMeasure(name=name, kind=kind, signed=signed, **own))
        if measure.clipped:
            cut = f"{name}_clipped"
            out.append(ReleasedMeasure(name=cut, kind="clipped", signed=False, **own))
    return out


def _binned_measures(name: str, measure: Measure, spec: str) -> list[ReleasedMeasure]:
    """The numbers of a measure that counts values in bins: each quantile, or the number of
    values."""
    told: dict[str, Any] = {"of": measure.column, "spec": spec, "value": measure.value}
    told["each"] = measure.each
    if measure.kind == "histogram":
        return [ReleasedMeasure(name=name, kind="histogram", signed=False, **told)]
    low, high = float(measure.lower or 0), float(measure.upper or 0)
    told |= {"signed": measure.value == "number" and low < 0, "limits": (low, high)}
    return [
        ReleasedMeasure(name=f"{name}{end}", kind="quantile", at=at, **told)
        for end, at in zip(measure.quantile_ends, measure.at, strict=True)
    ]


def digits_for_width(half: float) -> int:
    """Return the decimals to show of a value, so that two digits of the half width are seen."""
    if not math.isfinite(half) or half <= 0:
        return 0
    return min(12, max(0, 1 - math.floor(math.log10(half))))


# -- numbers ---------------------------------------------------------------------------------------

UNKNOWN, TOO_FEW = "unknown", "too few values"
"""What stands in the place of a number in bins that is missing, and of its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How the numbers of a measure are written for people.

    ``digits`` are decimals, or how finely :func:`dpframe.measures.bins.moment_text` writes. Numbers
    in bins are unknown where there are too few.
    """

    digits: int = 0
    value: ValueKind = "number"
    is_binned: bool = False

    def number(self, number: float | None) -> str:
        """Return a number as text."""
        if number is None:
            return UNKNOWN if self.is_binned else ""
        if self.value == "time":
            return moment_text(number, self.digits)
        if self.value == "duration":
            return duration_text(number, self.digits)
        return f"{number:,.{self.digits}f}" if isinstance(number, float) else f"{number:,}"

    def interval(self, lower: float | None, upper: float | None) -> str:
        """Return an interval as text."""
        if lower is None and upper is None:
            return TOO_FEW if self.is_binned else "interval unknown"
        if lower is None:
            return f"up to {self.number(upper)}"
        if upper is None:
            least = self.number(lower)
            return f"at least {least}" if self.is_binned else f"{least} or more"
        return f"{self.number(lower)} to {self.number(upper)}"

    def texts(
        self,
        values: Sequence[float | None],
        lower: Sequence[float | None],
        upper: Sequence[float | None],
    ) -> dict[str, list[str]]:
        """Return numbers and their intervals as texts."""
        ends = zip(lower, upper, strict=True)
        return {"texts": [*map(self.number, values)], "ends": [self.interval(*e) for e in ends]}


# -- bounds ----------------------------------------------------------------------------------------

USER_COLUMN = re.compile(r"([a-z]{3,30})(_?id)?", re.IGNORECASE)
"""Names of columns of users that are a word for one user: customer, customer_id, customerId."""

NOISE_ALONE = "noise alone"
"""What the interval of a number holds, where bounds cut what is added up."""


FULLY = " counts fully at up to "
"""Stands before the number of nodes of a user that count fully."""


def bound_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what bounds leave of each number of a receipt, such as "each customer up to 5,000".

    The keys are names of columns, ``count`` for counts; numbers that nothing cuts have none. Each
    bound is a choice, or was released itself.
    """
    measures = facts.get("measures")
    if not measures:
        words = "" if facts["mechanism"].startswith("synthetic") else _count_bound(facts)
        return {"count": words} if words else {}
    found = {name: _measure_bound(said, facts) for name, said in measures.items()}
    return {name: words for name, words in found.items() if words}


def cut_words(facts: Mapping[str, Any], column: str, *, total: bool = False) -> str:
    """Return what stands beside the interval of a number that bounds cut; else an empty text.

    ``total`` says that it is the number of everything. There a user has one node, and counts fully
    where no bound is one for the total and other nodes.
    """
    words = bound_words(facts).get(column)
    apart = facts["mechanism"] != "rounds" or not isinstance(facts.get("at_most_above"), int)
    if total and apart and words is not None and FULLY in words:
        return ""
    return f"{NOISE_ALONE}; {words}" if words else ""


def _bounded_one(facts: Mapping[str, Any]) -> str:
    """Return a word for one of those whose part is bounded: a row, or a user."""
    if facts.get("user") is None:
        return "each row"
    name = USER_COLUMN.fullmatch(str(facts["user"]))
    return f"each {name[1].lower() if name else 'user'}"


def _amount_text(number: float) -> str:
    return f"{number:,.12g}"


def _number_of(number: int, what: str) -> str:
    return f"{_amount_text(number)} {what}{'s' * (number != 1)}"


def _count_bound(facts: Mapping[str, Any]) -> str:
    who, most = _bounded_one(facts), facts.get("max_contributions")
    if facts.get("weight") is not None and facts.get("max_weight") is not None:
        return f"{who} up to {_amount_text(facts['max_weight'])}"
    if facts.get("user") is None:
        return ""
    if facts.get("at_most") is not None:
        return _nodes_bound(facts)
    if facts.get("contribution") in ("records", "items") and most is not None:
        what = "record" if facts["contribution"] == "records" else "value"
        return f"{who} up to {_number_of(most, what)}"
    return ""


def _nodes_bound(facts: Mapping[str, Any], parts: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return at how many nodes of a level a user counts fully.

    ``parts`` are of the noise of a count by rounds: the lowest nodes, the total, levels between.
    """
    most, above = facts["at_most"], facts.get("at_most_above")
    several = list(above) if isinstance(above, Sequence) else [above] if above else []
    several = [part["at_most"] for part in parts[1:]] or several
    if len(several) > 1:  # the first is of the total, of which a user has one
        del several[0]
    elif parts:
        several = []
    if not several or min(several) == most:
        return f"{_bounded_one(facts)}{FULLY}{_number_of(most, 'node')}"
    both = f"{_amount_text(most)} of the lowest nodes and {_amount_text(min(several))} above"
    return f"{_bounded_one(facts)}{FULLY}{both}"


def _measure_bound(said: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    _, measure = parse_measure(said["spec"])
    lower, upper = said.get("lower"), said.get("upper")
    if measure.kind == "count" and said.get("adds_up") is False and facts.get("at_most"):
        return _nodes_bound(facts, said.get("noise") or ())
    if measure.kind in ("count", "distinct"):
        if facts.get("user") is None or measure.at_most is None:
            return ""
        what = "row" if measure.kind == "count" else "value"
        return f"{_bounded_one(facts)} up to {_number_of(measure.at_most, what)}"
    if said.get("adds_up") is False:  # cut at every node, by bounds of their own
        each = sorted({p["bound"] for p in said.get("noise") or () if p["of"] == "sum"})
        some = " to ".join(map(_amount_text, dict.fromkeys((*each[:1], *each[-1:]))))
        some = f"a bound of {some} by level" if len(each) > 1 else some
        return f"{_bounded_one(facts)} up to {some}" if each else ""
    if lower is None or upper is None or measure.is_binned:
        return ""  # a quantile at a bound says so itself
    who = "each value" if measure.kind == "mean" else _bounded_one(facts)
    least = "up to" if lower == 0 else f"from {_amount_text(lower)} to"
    return f"{who} {least} {_amount_text(upper)}"
