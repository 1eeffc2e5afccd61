"""What an explained release would cost in the ledger, and whether it fits."""

from __future__ import annotations

from dpframe.asking.card import Line, Text, format_value
from dpframe.asking.data_scope import DataScope
from dpframe.asking.plan_protocols import Plan
from dpframe.asking.release import LEAST_CHARGE
from dpframe.ledger import Charge, Ledger, Spending
from dpframe.ledger.reservations import plan_gaussian_cost


def ledger_fit_lines(
    plan: Plan[object, object], about: DataScope, ledger: Ledger | None, name: str | None = None
) -> list[Line]:
    """Return one line for the card of an explanation; [] without a ledger. Charges nothing."""
    if ledger is None:
        return []
    if name is not None and ledger.find(name) is not None:
        meaning = f"release {name!r} is stored: the call that it answered is replayed for nothing"
        return [Line("in the ledger", "nothing to pay", meaning)]
    receipt = plan.receipt(name)
    facts = receipt.with_facts(about.facts(receipt))
    seen = ledger.foresee(
        Charge(
            release_id=facts["release_id"],
            time=facts["time"],
            epsilon=plan.budget.epsilon,
            delta=plan.budget.delta or LEAST_CHARGE,
            profile=lambda: plan.profile,
            source="",
            receipt=facts.to_json(),
            blocks=about.blocks,
            told=lambda: plan_gaussian_cost(plan),
        )
    )
    where = "for any release"
    if about.period is not None and about.reading is not None:
        where = f"for {about.period.column} {about.period.text or 'NULL'}, which has spent "
        where += f"{_spending_text(seen.spent)}"
    elif about.period is not None:
        where = "for any release; a period has that or more, which its source tells"
    if seen.steps > 1:
        where += f"; it costs two steps, as the totals hold for {seen.protects}"
    if seen.paid_by is not None:
        return [
            Line.of(
                "in the ledger",
                "paid for already",
                "by {paid_by}",
                paid_by=seen.paid_by,
            )
        ]
    if not seen.fits:
        value = f"does not fit: {_spending_text(seen.left)} left"
        return [
            Line.of(
                "in the ledger",
                value,
                "{where}; it would be refused",
                where=where,
            )
        ]
    after = f"{where}; {_spending_text(seen.after)} would be left there"
    return [
        Line.of(
            "in the ledger",
            Text("fits: {left} left"),
            "{after}",
            left=_spending_text(seen.left),
            after=after,
        )
    ]


def _spending_text(amount: Spending) -> str:
    return f"({format_value(amount.epsilon)}, {format_value(amount.delta)})"
