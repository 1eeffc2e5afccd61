"""Releases of a ledger together: docs/guarantees.md, "Several releases"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpframe.verifier.verdict import Step, Verdict

SEVERAL = "docs/guarantees.md, Several releases"


def verify_releases(
    parts: Sequence[tuple[str, Mapping[str, Any], Verdict]],
    *,
    epsilon: float,
    delta: float,
    unless: str | None = None,
) -> Verdict:
    """The verdict on all of a ledger's releases within its totals: each is proved, and promised
    epsilons and proved deltas add up (basic composition).

    Parameters
    ----------
    parts
        Name, receipt and verdict of every release.
    epsilon, delta
        The totals. They and what is promised are taken as they are written, in decimals.
    unless
        Why releases may be within the totals though their sum is not, if they may.
    """
    each = tuple((name, verdict) for name, _, verdict in parts)
    total = {"epsilon": _written(epsilon), "delta": _written(delta)}
    known: dict[str, Any] = {**total, "parts": each}
    for outcome in ("failed", "not verified"):
        wrong = [name for name, verdict in each if verdict.outcome == outcome]
        if wrong:
            which = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
            reason = f"{len(wrong)} of {len(each)} releases: {which}"
            return Verdict(outcome=outcome, reason=reason, **known)
    spent = sum((_written(receipt["epsilon"]) for _, receipt, _ in parts), Fraction(0))
    bound = sum((v.bound or Fraction(0) for _, _, v in parts), Fraction(0))
    steps = (
        Step(f"{len(each)} releases, each proved: epsilons add up to {float(spent):.12g}", SEVERAL),
    )
    if spent > total["epsilon"] or bound > total["delta"]:
        reason = f"added up they are ({float(spent):.9g}, {float(bound):.4g}), above the totals"
        if unless is not None:
            return Verdict(outcome="not verified", reason=f"{reason}; {unless}", **known)
        return Verdict(outcome="failed", reason=reason, steps=steps, **known)
    reason = f"{len(each)} releases, promised: delta <= {delta:g} for the weakest of their units"
    return Verdict(outcome="proved", reason=reason, bound=bound, steps=steps, **known)


def _written(number: float) -> Fraction:
    """The number as it is written, 0.1 for the double next to it: totals are kept in decimals."""
    return Fraction(Decimal(repr(float(number))))
