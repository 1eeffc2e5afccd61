"""The verdict on all releases of a ledger together: docs/guarantees.md, "Several releases"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from typing import Any

from dpframe.verifier.curves import BoundAt, Points, is_law, law_breach, reservation_bound
from dpframe.verifier.period_charges import Block, Cost, block_mismatch, largest_charge
from dpframe.verifier.verdict import ProofStep, Verdict

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
