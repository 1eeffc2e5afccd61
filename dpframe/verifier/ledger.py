"""The verdict on all releases of a ledger together: docs/guarantees.md, "Several releases"."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import MAX_EMAX, ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from dpframe.verifier.numbers import ONE, divide_up, exp_above, exp_below
from dpframe.verifier.sketch_games import Grid, delta_at, losses_on_grid, repeat_losses
from dpframe.verifier.verdict import ProofStep, Verdict

EPOCH = datetime(1970, 1, 1)

READ = {"instants": "as instants", "dates": "as dates", "text": "as text", "written": "as written"}
"""How an axis names the way in which times are read: periods that are read in another way may share
records."""

FINER = " in nanoseconds"

NULL = (-(2**47), 1 - 2**47)
"""The one second that stands for records without a time."""

Cost = tuple[Fraction, Fraction]
"""Epsilon and delta."""


class Block(NamedTuple):
    """A stretch of an axis, which is a column and how its times are read: from ``first`` to before
    ``last``, in whole seconds since 1970."""

    axis: str
    first: int
    last: int


def largest_charge(charges: Iterable[tuple[Block | None, Cost]]) -> Cost:
    """The sum of all costs without a block and, for every axis, of the most that is charged at any
    moment; epsilons and deltas are added separately."""
    total, axes = (Fraction(0), Fraction(0)), dict[str, list[tuple[int, Cost]]]()
    for block, cost in charges:
        if block is None:
            total = _add_costs(total, cost)
            continue
        ends = axes.setdefault(block.axis, [])
        ends += [(block.first, cost), (block.last, (-cost[0], -cost[1]))]
    for ends in axes.values():
        at, most = (Fraction(0), Fraction(0)), (Fraction(0), Fraction(0))
        costs: dict[int, Cost] = {}
        for moment, cost in ends:
            costs[moment] = _add_costs(costs.get(moment, (Fraction(0), Fraction(0))), cost)
        for moment in sorted(costs):
            at = _add_costs(at, costs[moment])
            most = max(most[0], at[0]), max(most[1], at[1])
        total = _add_costs(total, most)
    return total


def _add_costs(one: Cost, other: Cost) -> Cost:
    return one[0] + other[0], one[1] + other[1]


def block_mismatch(receipt: Mapping[str, Any], block: Block | None) -> str | None:
    """Why a release does not read the block that it was charged for; None if it does."""
    told = receipt.get("period")
    if block is None:
        return None  # it was charged for all records
    if block.first >= block.last:
        return "it was charged for no time at all"
    if not isinstance(told, Mapping):
        return "it was charged for a period, and its receipt says that it reads all records"
    own = f"{told.get('column')} {READ.get(str(told.get('read')))}"
    if block.axis.removesuffix(FINER if told.get("read") == "instants" else "") != own:
        return f"it reads {told.get('column')!r}, and was charged for {block.axis!r}"
    start, end = told.get("start"), told.get("end")
    if start is None or end is None:
        null = start is None and end is None and (block.first, block.last) == NULL
        return None if null else "it was charged for another period than that without a time"
    zone = str(told.get("zone") or "UTC") if told.get("read") == "instants" else None
    try:
        read = tuple(_epoch_seconds(str(each), zone) for each in (start, end))
    except (ValueError, OSError):
        return "its period cannot be read"
    if read != (block.first, block.last):
        return f"it reads from {start} to before {end}, and was charged for other moments"
    return None


def _epoch_seconds(text: str, zone: str | None) -> int:
    at = datetime.fromisoformat(text)
    if zone is None:
        return (at - EPOCH) // timedelta(seconds=1)
    return int(at.replace(tzinfo=ZoneInfo(zone)).timestamp())


# -------------------------------------------------------------------------------------------------
# The cost of releases of one law, reserved together: docs/guarantees.md, "Several releases".
#
# A law is a list of points (epsilon, delta) that every release of it keeps, in both directions.
# The divergence D at t = e^epsilon is convex, D(0) = 1 and D(1 / t) = 1 - 1 / t + D'(t) / t, with
# D' the divergence in the other direction. So the lower convex hull of all these points is above
# D. The hull is itself the curve of two laws whose losses are at its corners
# (docs/decisions/0011): these two dominate every release of the law, and their losses convolve.


Points = Sequence[tuple[Fraction, Fraction]]

BoundAt = Callable[[Fraction, Fraction], Fraction | None]
"""Takes an epsilon and a delta that would be enough, and gives an upper bound on delta, which need
not be below what would be enough; None where there is no bound."""

TRIMMED = 10**8
"""Ends of a convolution are raised if they weigh at most delta, divided by this and by the number
of releases."""


def is_law(law: Points) -> bool:
    """Whether a curve can go through the points: epsilons grow, and are from 0 to
    ``MOST_LAW_EPSILON``; deltas are from 0 to 1. The last point is the promise, whose epsilon may
    be anywhere in the range."""
    epsilons = [epsilon for epsilon, _ in law[:-1]]
    grow = all(less < more for less, more in pairwise(epsilons))
    within = all(0 <= epsilon <= MOST_LAW_EPSILON and 0 <= delta <= 1 for epsilon, delta in law)
    return grow and within


MOST_LAW_EPSILON = 1000
"""The largest epsilon of a law."""


def law_breach(law: Points, bound_at: BoundAt) -> str | None:
    """Why a release does not keep a law; None if it keeps every point."""
    for epsilon, delta in law:
        bound = bound_at(epsilon, delta)
        if bound is None or bound > delta:
            found = "nothing" if bound is None else f"{float(bound):.6g}"
            return f"{float(delta):.6g} is reserved at epsilon {float(epsilon):g}, proved {found}"
    return None


def reservation_bound(law: Points, times: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Upper bound on delta, at an epsilon, of ``times`` releases that keep a law."""
    points = _law_hull(law)
    slopes = [(there[1] - here[1]) / (there[0] - here[0]) for here, there in pairwise(points)]
    second = [more - less for less, more in zip(slopes, [*slopes[1:], Fraction(0)], strict=True)]
    first = [q * t for q, (t, _) in zip(second, points[1:], strict=True)]
    step = max(float(law[-1][0]) / max(1, len(law) - 1), 1e-9)
    grid = Grid(exp_below(Fraction(step)))
    one = losses_on_grid(
        [divide_up(p.numerator * ONE, p.denominator) for p in first],
        [math.floor(q * ONE) for q in second],
        grid,
        divide_up(points[-1][1].numerator * ONE, points[-1][1].denominator),
    )
    ends = max(1, math.floor(delta * ONE) // (TRIMMED * times))
    whole = repeat_losses(one, times, ends)
    return Fraction(delta_at(whole, grid, exp_below(epsilon)), ONE)


def _law_hull(law: Points) -> list[tuple[Fraction, Fraction]]:
    """The lower convex hull of D(0) = 1, of the points, and of what they give below t = 1. Each t
    is rounded up, where D is no larger."""
    right = sorted((Fraction(exp_above(epsilon), ONE), delta) for epsilon, delta in law)
    left = [(1 / t, 1 - 1 / t + delta / t) for t, delta in reversed(right) if t > 1]
    found: list[tuple[Fraction, Fraction]] = []
    for point in [(Fraction(0), Fraction(1)), *left, *right]:
        while len(found) >= 2 and _is_above_chord(found[-2], found[-1], point):
            found.pop()
        found.append(point)
    return found


Point = tuple[Fraction, Fraction]


def _is_above_chord(a: Point, b: Point, c: Point) -> bool:
    """Whether b lies on or above the chord from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


# -------------------------------------------------------------------------------------------------
# The verdict on all releases of a ledger together: docs/guarantees.md, "Several releases".


SEVERAL = "docs/guarantees.md, Several releases"
PERIODS = "docs/guarantees.md, Periods"
UNITS = "docs/guarantees.md, Several releases; decision 0036"
ROUNDED = (1 + Fraction(1, 2**53)) ** 2
"""Factor on a total, for two roundings to floats, of the parts and of the total: n times the n-th
part of a total fits the total, and so do decimals that add up to it."""

RESERVED = "docs/guarantees.md, Several releases; decision 0011"


@dataclass(frozen=True, kw_only=True)
class LedgerRelease:
    """What a ledger holds of a release: its receipt, the verdict on it, the period that it was
    charged for (None: all records), and the reservation or filter that paid (None: the totals)."""

    name: str
    receipt: Mapping[str, Any]
    verdict: Verdict
    block: Block | None = None
    under: str | None = None
    bound_at: BoundAt = field(default=lambda _, __: None, repr=False)

    @property
    def cost(self) -> Cost:
        """The epsilon of the receipt, and the delta that its proof gives."""
        return Fraction(float(self.receipt["epsilon"])), self.verdict.bound or Fraction(0)


@dataclass(frozen=True, kw_only=True)
class ReservedLaw:
    """A reservation: ``times`` releases of one law, paid for together. The law of a filter is
    empty."""

    name: str
    epsilon: Fraction
    delta: Fraction
    times: int
    law: Points


def verify_releases(
    parts: Sequence[LedgerRelease],
    reserved: Sequence[ReservedLaw] = (),
    *,
    epsilon: float,
    delta: float,
    unless: str | None = None,
    protects: str | None = None,
) -> Verdict:
    """The verdict on all of a ledger's releases: whether they are within its totals. Each must be
    proved. Promised epsilons and proved deltas add up (basic composition). A reservation costs what
    all its releases cost together. Releases of periods cost the most at any moment.

    Parameters
    ----------
    parts
        Every release.
    reserved
        Every reservation and filter.
    epsilon, delta
        The totals. They, and what is promised, are taken as the exact values of floats.
    unless
        The reason why releases may be within the totals though their sum is not; None: they may
        not.
    protects
        The unit of the ledger: "records"; "user:", "replace:" or "remove:" and a column; or a
        sentence of neighbours. None: the unit of all releases.
    """
    each = tuple((part.name, part.verdict) for part in parts)
    names = [one.name for one in reserved]
    total = {"epsilon": Fraction(float(epsilon)), "delta": Fraction(float(delta))}
    known: dict[str, Any] = {**total, "parts": each}
    for outcome in ("failed", "not verified"):
        wrong = [name for name, verdict in each if verdict.outcome == outcome]
        if wrong:
            which = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
            reason = f"{len(wrong)} of {len(each)} releases: {which}"
            return Verdict(outcome=outcome, reason=reason, **known)
    units = list(dict.fromkeys(receipt_unit(part.receipt) for part in parts))
    unit = units[0] if protects is None and len(units) == 1 else protects
    steps_each = {id(part): steps_for_unit(part.receipt, unit) for part in parts}
    unpriced = [part for part in parts if steps_each[id(part)] is None]
    if unpriced:
        reason = f"the releases protect different units: {'; '.join(map(unit_sentence, units))}"
        if unit not in (None, MIXED):
            reason += f"; the ledger protects {unit_sentence(unit)}"
        return Verdict(outcome="not verified", reason=reason, **known)

    def cost(part: LedgerRelease) -> Cost:
        return group_privacy_cost(part.cost, steps_each[id(part)] or 1)

    if len(set(names)) < len(names):
        return Verdict(outcome="failed", reason="two reservations have one name", **known)
    for part in parts:
        why = block_mismatch(part.receipt, part.block)
        if why is not None:
            return Verdict(outcome="failed", reason=f"release {part.name}: {why}", **known)
    steps = [ProofStep(f"{len(each)} releases, each proved", SEVERAL)]
    charges: list[tuple[Block | None, Cost]] = []
    for one, drawn in _releases_by_payer(parts, reserved):
        if one is None:
            charges += [(part.block, cost(part)) for part in drawn]
            continue
        found = _reservation_delta(one, drawn)
        if isinstance(found, Fraction):
            most = max(steps_each[id(part)] or 1 for part in drawn)
            charges.append((None, group_privacy_cost((one.epsilon, found), most)))
            told = f"{one.times} releases of one law, of which {len(drawn)} were made, lose "
            steps.append(ProofStep(f"{told}{float(one.epsilon):.12g} together", RESERVED))
            continue
        charges += [(part.block, cost(part)) for part in drawn]
        unless = unless or f"{one.name}: {found}"
    spent, bound = largest_charge(charges)
    if any(block is not None for block, _ in charges):
        steps.append(ProofStep("of periods of a column, the most at any moment", PERIODS))
    twice = sum(steps == 2 for steps in steps_each.values())
    if twice:
        steps.append(
            ProofStep(f"{twice} of them count for two steps of {unit_sentence(unit or '')}", UNITS)
        )
    rounded = ", above the total by the rounding of floats" * (spent > total["epsilon"])
    steps.append(ProofStep(f"epsilons add up to {float(spent):.12g}{rounded}", SEVERAL))
    if spent > total["epsilon"] * ROUNDED or bound > total["delta"] * ROUNDED:
        reason = f"added up they are ({float(spent):.9g}, {float(bound):.4g}), above the totals"
        if unless is not None:
            return Verdict(outcome="not verified", reason=f"{reason}; {unless}", **known)
        return Verdict(outcome="failed", reason=reason, steps=tuple(steps), **known)
    reason = f"{len(each)} releases, promised: delta <= {delta:g}"
    reason += f" for {unit_sentence(unit)}" if unit is not None else ""
    if any(block is not None for block, _ in charges):
        reason += ", of a user within one block"
    return Verdict(outcome="proved", reason=reason, bound=bound, steps=tuple(steps), **known)


def _releases_by_payer(
    parts: Sequence[LedgerRelease], reserved: Sequence[ReservedLaw]
) -> Iterator[tuple[ReservedLaw | None, list[LedgerRelease]]]:
    """Releases by the reservation that paid for them; first None, with all other releases."""
    known = {one.name: one for one in reserved}
    yield None, [part for part in parts if part.under not in known]
    for name, one in known.items():
        drawn = [part for part in parts if part.under == name]
        if drawn:
            yield one, drawn


def _reservation_delta(one: ReservedLaw, drawn: Sequence[LedgerRelease]) -> Fraction | str:
    """Delta of a reservation at its epsilon, or the reason why it is not known."""
    if not one.law:
        return "what releases of a filter tell together is not verified"
    if not is_law(one.law):
        return (
            "its law is no curve: points go from small epsilons to large ones, deltas from 0 to 1"
        )
    if len(drawn) > one.times:
        return f"{len(drawn)} releases used a reservation of {one.times}"
    if any(part.cost[1] > one.law[-1][1] for part in drawn):
        return "a release promises more than was reserved"
    for part in drawn:
        if (
            decimal_value(part.receipt["epsilon"]),
            decimal_value(part.receipt["delta"]),
        ) != one.law[-1]:
            return "a release has another budget than was reserved"
        why = law_breach(one.law[:-1], part.bound_at)
        if why is not None:
            return why
    found = reservation_bound(one.law, one.times, one.epsilon, one.delta)
    if found > one.delta:
        return f"{one.times} releases of the reserved law are {float(found):.6g} at its epsilon"
    return found


RECORD = "adding or removing one record"
ITEMS = "adding or removing one user with all their items"
MIXED = "several"


def receipt_unit(receipt: Mapping[str, Any]) -> str:
    """The unit of privacy of a release, from the arguments in its receipt, which its verdict has
    compared with its guarantee. How many records of a user count is no part of the unit."""
    user, sentence = receipt.get("user"), str(receipt.get("neighbours"))
    if sentence == ITEMS:
        return sentence
    if user is None:
        is_row = receipt.get("max_weight") is not None  # whatever it weighs
        is_row |= receipt.get("max_contributions") is not None  # the caller promised how many
        return "records" if is_row or sentence == RECORD else sentence
    if not str(receipt.get("mechanism")).startswith("prefix-"):
        return f"user:{user}"
    return f"{'replace' if sentence.startswith('replacing') else 'remove'}:{user}"


def unit_sentence(unit: str) -> str:
    """What neighbouring tables of a unit differ by."""
    kind, _, user = unit.partition(":")
    everything = {
        "records": RECORD,
        "user": f"adding or removing one user ({user!r}) with all their records",
        "replace": f"replacing all records of one user ({user!r}) by any others",
        "remove": f"adding or removing all items of one user ({user!r}), who still reports",
    }
    return everything.get(kind, unit)


def steps_for_unit(receipt: Mapping[str, Any], unit: str | None) -> int | None:
    """How many steps between a release's own neighbours lead from a table to one that differs by
    one ``unit``: docs/decisions/0036. None where no number bounds them."""
    own = receipt_unit(receipt)
    if own == unit:
        return 1
    if unit == "records" and (own.startswith("user:") or own == ITEMS):
        return 2
    kind, _, user = (unit or "").partition(":")
    if kind == "remove" and own == f"replace:{user}":
        return 1
    twice = (f"user:{user}", f"remove:{user}")
    return 2 if kind in ("replace", "remove") and own in twice else None


def group_privacy_cost(cost: Cost, steps: int) -> Cost:
    """Group privacy: two steps of (epsilon, delta) are 2 epsilon and delta (1 + e^epsilon)."""
    if steps == 1:
        return cost
    if cost[0] > 700:  # no delta is above 1
        return 2 * cost[0], Fraction(cost[1] > 0)
    with localcontext(prec=60, Emax=MAX_EMAX, rounding=ROUND_CEILING):
        power = Decimal(cost[0].numerator) / Decimal(cost[0].denominator)
        growth = Fraction(power.exp().next_plus())
    return 2 * cost[0], (1 + growth) * cost[1]


def decimal_value(number: float) -> Fraction:
    """The shortest decimal of a double, such as exactly 0.1 for the double nearest to 0.1: totals
    are kept in decimals."""
    return Fraction(Decimal(repr(float(number))))
