"""The history of a ledger: its releases, and what paid for them in advance."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpframe.budget import as_float
from dpframe.common.calls import known_arguments, shown_value
from dpframe.common.texts import folded_html, visible
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.ledger import store
from dpframe.ledger import store as schema
from dpframe.ledger.blocks import (
    NULL_FIRST,
    Span,
    block_text,
    moment_text,
    stretches,
    tops_of,
    worst_window,
)
from dpframe.ledger.entries import (
    RECORDS,
    SEVERAL,
    Entry,
    entries,
    exact_cost_of,
    in_steps,
    is_of_period,
    newest_entry,
    protected_sentences,
    protection_words,
    receipt_steps,
)
from dpframe.ledger.forecast import OpenedFile
from dpframe.ledger.reservations import (
    Filter,
    Reservation,
    check_filter,
    check_reserves,
    exact_price,
    facts_of,
    filter_of,
    is_filter,
    plan_gaussian_cost,
    price_filter,
    price_reservation,
    profile_of,
    reservable_plan,
    reservation_of,
)
from dpframe.ledger.state import read_state, write_filter, write_reservation
from dpframe.ledger.store import (
    DELTA_UNIT,
    EPSILON_UNIT,
    Spending,
    Totals,
    Units,
    float_amount,
    read_totals,
    spending_of,
    units_up,
)
from dpframe.periods import USERS

if TYPE_CHECKING:
    import pandas as pd


@known_arguments
class Prepayments(OpenedFile):
    """Reservations and filters of a ledger."""

    def release_history(self) -> ReleaseHistory:
        """Releases, their periods and what paid for them, for :func:`dpframe.verify`."""
        with self._reading() as db:
            return read_history(db)

    def open_filter(self, plan: object, *, epsilon: float, delta: float) -> Filter:
        """Pay now for Gaussian releases to come, however many and whatever their budgets.

        A *privacy filter*: later releases with ``mechanism="offline-gaussian"`` that protect the
        same unit use it up, each by what it reveals, and cost nothing more. Their number, budgets,
        thresholds and questions may be chosen after looking at earlier answers. What a release
        takes grows nearly with the square of its epsilon, so that many small releases fit. A
        release that does not fit is charged on top. What is not used is not given back.

        Parameters
        ----------
        plan
            What ``dp.explain`` or its kind returns for such a release, or a series of
            :func:`plan_series`. The filter is for what that release protects: records, or users of
            a column.
        epsilon, delta
            The cost of all releases together that the filter pays for: epsilon from 0.01 to 100. A
            quarter of delta is for ends and rounding of noise tables; from that quarter a release
            takes about half of its own delta.

        Raises
        ------
        ParameterError
            The plan has other noise, whose cost is no sum of squares, or the ledger was made with
            accountant="sum". A BudgetError if epsilon or delta is out of range, or pays for no
            release.
        OverBudgetError
            The totals do not hold that much; nothing is charged.

        Privacy
        -------
        All that the filter pays for is (epsilon, delta)-private together, against an analyst who
        chooses every release after seeing all others (docs/decisions/0023).

        Examples
        --------
        >>> import tempfile, pathlib, dpframe as dp
        >>> file = pathlib.Path(tempfile.mkdtemp(), "budget.db")
        >>> ledger = dp.Ledger(file, epsilon=3.0, delta=1e-5, accountant="pld")
        >>> one = dp.explain(
        ...     ["origin"], epsilon=0.2, delta=1e-8, mechanism="offline-gaussian"
        ... )
        >>> adhoc = ledger.open_filter(one, epsilon=2.0, delta=2e-6)
        >>> adhoc.left, ledger.forecast(one).reserved  # ten by the plain sum
        (1.0, 104)
        """
        check_reserves(self.accountant)
        law = reservable_plan(plan)
        (e, d), cost, amounts = price_filter(epsilon, delta)
        check_filter(law, plan_gaussian_cost(law), e, d, amounts)
        with self._write_transaction() as db:
            return write_filter(db, law, (Fraction(e), Fraction(d)), cost, amounts)

    def filters(self) -> pd.DataFrame:
        """One row per filter, oldest first: cost, what is left, and how many releases used it."""
        with self._reading() as db:
            return prepaid_frame(Filter, db)

    def reserve(self, plan: object, *, releases: int, delta: float) -> Reservation:
        """Pay now for several later releases of one law; together they cost less than their sum.

        Every later release with the law of ``plan`` uses one of the reserved releases, whatever it
        asks and wherever it is called, and costs nothing more. A release with another law, or after
        the last reserved one, is charged on top. What is not used is not given back.

        Parameters
        ----------
        plan
            What ``dp.explain``, ``explain_tree_counts``, ``explain_prefix_tree`` or
            ``explain_synthesize`` returns for one of the releases. Everything that shapes noise or
            cost belongs to its law: budget, mechanism, unit, height, threshold, ``release_share``,
            ``remainder``, ``keys``, ``level_weights``, ``counters`` and their like.
        releases
            How many, at most 100,000.
        delta
            Delta of all releases together, at least the sum of their deltas. Epsilon is what holds
            at that delta by privacy loss distributions, or the plain sum where that is no more.

        Raises
        ------
        ParameterError
            ``releases`` is out of range, or the ledger was made with accountant="sum". A
            BudgetError if ``delta`` is less than the sum, or not below 1.
        OverBudgetError
            The totals do not hold that much; nothing is charged. ``cost_of`` asks beforehand.

        Examples
        --------
        >>> import tempfile, pathlib, dpframe as dp
        >>> file = pathlib.Path(tempfile.mkdtemp(), "budget.db")
        >>> ledger = dp.Ledger(file, epsilon=3.0, delta=1e-5, accountant="pld")
        >>> weekly = dp.explain(["origin"], epsilon=0.1, delta=1e-8)
        >>> year = ledger.reserve(weekly, releases=52, delta=5e-6)
        >>> year.left, round(year.epsilon, 1)  # the plain sum is 5.2
        (52, 2.1)
        """
        check_reserves(self.accountant)
        law = reservable_plan(plan)
        number, cost = price_reservation(law, releases, delta)
        with self._write_transaction() as db:
            return write_reservation(db, law, number, cost, exact_price(law, number, delta, cost))

    def cost_of(self, plan: object, *, releases: int, delta: float) -> Spending:
        """What :meth:`reserve` would charge for the same arguments; spends nothing."""
        check_reserves(self.accountant)
        law = reservable_plan(plan)
        number, cost = price_reservation(law, releases, delta)
        with self._reading() as db:
            steps = receipt_steps(facts_of(law), read_totals(db).protects)
        return spending_of(in_steps(cost, exact_price(law, number, delta, cost), steps)[0])

    def reservations(self) -> pd.DataFrame:
        """One row per reservation, oldest first: cost, law, and how many releases are left."""
        with self._reading() as db:
            return prepaid_frame(Reservation, db)


FACTS = ("mechanism", "hierarchy", "neighbours")
"""Facts that are shown from every receipt."""


def summary_frame(db: sqlite3.Connection, path: str) -> pd.DataFrame:
    """One row: totals, spent, left, the plain sum, what is saved, releases, what is protected."""
    import pandas as pd

    now, made = read_totals(db), list(reservations(db))
    last = newest_entry(db, now)
    first_format = store.file_format(db) < schema.RESERVATIONS
    drawn, alone = ("1", "1") if first_format else ("releases IS NULL", "under IS NULL")
    count, high, low = db.execute(  # in two parts: the sum of many may have more than 63 bits
        f"SELECT count(*), coalesce(sum(CASE WHEN {alone} THEN epsilon >> 32 END), 0), "
        f"coalesce(sum(CASE WHEN {alone} THEN epsilon & 4294967295 END), 0) "
        f"FROM charges WHERE {drawn}"
    ).fetchone()
    plain = (high << 32) + low
    tops = tops_of(last.tops).values()
    free = now.epsilon - last.spent_epsilon, now.delta - last.spent_delta
    plain += sum(_reservation_plain_sum(r) for r in made)
    plain += sum(_filter_plain_sum(db, one) for one in filters(db))
    return pd.DataFrame(
        {
            "ledger": [path],
            "accountant": [now.accountant],
            "epsilon": [now.total[0]],
            "delta": [now.total[1]],
            "spent_epsilon": [now.spending.epsilon],
            "spent_delta": [now.spending.delta],
            "left_epsilon": [now.remainder.epsilon],
            "left_delta": [now.remainder.delta],
            "plain_epsilon": [float_amount(plain, EPSILON_UNIT)],
            "saved_epsilon": [float_amount(plain - last.spent_epsilon, EPSILON_UNIT)],
            "releases": [int(count)],
            "reserved": [sum(r.left for r in made)],
            "unread_epsilon": [
                float_amount(
                    max(0, free[0] + min((t.epsilon for t in tops), default=0)), EPSILON_UNIT
                )
            ],
            "unread_delta": [
                float_amount(max(0, free[1] + min((t.delta for t in tops), default=0)), DELTA_UNIT)
            ],
            "protects": pd.Series([_protects(db, now, last)], dtype=text_dtype()),
        }
    )


def _protects(db: sqlite3.Connection, now: Totals, last: Entry) -> str:
    """What the totals hold for; if a ledger mixes units, also what its releases protect."""
    said = "; ".join(protected_sentences(db, now, last))
    if now.protects is None:
        return said
    words = protection_words(now.protects)
    if now.protects == SEVERAL:
        return f"{words}: {said}"
    by_period = any(map(is_of_period, protected_sentences(db, now, last)))
    return words + (USERS if by_period and now.protects != RECORDS else "")


def _reservation_plain_sum(made: Reservation) -> int:
    """The sum of the epsilons of a reservation's releases, or what was charged if that is more."""
    alone = made.releases * units_up(made.release_epsilon, EPSILON_UNIT)
    return max(alone, units_up(made.epsilon, EPSILON_UNIT))


def _filter_plain_sum(db: sqlite3.Connection, one: Filter) -> int:
    """The sum of the epsilons of a filter's releases, or what the filter cost if that is more."""
    (drawn,) = db.execute(
        "SELECT coalesce(sum(epsilon), 0) FROM charges WHERE releases IS NULL AND under = ?",
        (one.filter_id,),
    ).fetchone()
    return max(int(drawn), units_up(one.epsilon, EPSILON_UNIT))


def text_dtype() -> Any:
    """The dtype of texts, even where all are missing."""
    import pandas as pd

    return pd.Series([""]).dtype


def prepaid_frame(kind: type[Reservation | Filter], db: sqlite3.Connection) -> pd.DataFrame:
    """A frame with one row per reservation, or per filter, oldest first."""
    import pandas as pd

    found: Iterator[Reservation | Filter] = reservations(db) if kind is Reservation else filters(db)
    rows, kinds = list(found), {"str": text_dtype(), "int": "int64", "float": "float64"}
    return pd.DataFrame(
        {
            field.name: pd.Series(
                [getattr(row, field.name) for row in rows], dtype=kinds[str(field.type)]
            )
            for field in fields(kind)
        }
    )


def releases_frame(
    db: sqlite3.Connection, limit: object = None, before: object = None
) -> pd.DataFrame:
    """A frame with one row per release, oldest first; ``stored`` says whether the result of the
    release can be replayed."""
    import pandas as pd

    rows = _page(db, _optional_count("limit", limit), _optional_count("before", before))
    stored = {name for (name,) in db.execute("SELECT release_id FROM results")}
    facts = [_receipt_facts(row) for row in rows]
    text = text_dtype()
    return pd.DataFrame(
        {
            "number": pd.Series([r.number for r in rows], dtype="int64"),
            "time": pd.Series([r.time for r in rows], dtype=text),
            "release": pd.Series([r.name for r in rows], dtype=text),
            "release_id": pd.Series([r.release_id for r in rows], dtype=text),
            "source": pd.Series([r.source for r in rows], dtype=text),
            **{name: pd.Series([f[i] for f in facts], dtype=text) for i, name in enumerate(FACTS)},
            "epsilon": pd.Series(
                [float_amount(r.epsilon, EPSILON_UNIT) for r in rows], dtype="float64"
            ),
            "delta": pd.Series([float_amount(r.delta, DELTA_UNIT) for r in rows], dtype="float64"),
            "stored": pd.Series([r.release_id in stored for r in rows], dtype="bool"),
            "receipt": pd.Series([r.receipt for r in rows], dtype=text),
            "period": pd.Series([f[-1] for f in facts], dtype=text),
        }
    )


def _receipt_facts(entry: Entry) -> tuple[str | None, ...]:
    """The ``FACTS`` in an entry's receipt, then its period, None for all records. The rest of the
    receipt is not kept in memory."""
    said = json.loads(entry.receipt)
    period, blocks = period_in(said), entry.blocks
    if period is None and blocks is not None:
        period = f"{blocks.axis}: {block_text(blocks.first, blocks.last)}"
    return *(said.get(name) for name in FACTS), period


def period_in(receipt: Mapping[str, Any]) -> str | None:
    """The period in a receipt, with its column, as text; None without a period."""
    said = receipt.get("period")
    return f"{said['column']}: {said['text'] or 'NULL'}" if said else None


def _page(db: sqlite3.Connection, limit: int | None, before: int | None) -> list[Entry]:
    """The newest ``limit`` releases with numbers below ``before``; None: all, and up to the
    last."""
    now = read_totals(db)
    last = newest_entry(db, now).number if before is None else before - 1
    known = store.file_format(db)
    found = "" if known < schema.RESERVATIONS else "AND +releases IS NULL"  # +: not by the index
    row = db.execute(
        f"SELECT min(number) FROM (SELECT number FROM charges WHERE number <= ? {found} "
        "ORDER BY number DESC NULLS LAST LIMIT ?)",
        (last, -1 if limit is None else limit),
    ).fetchone()
    if row[0] is None:
        return []
    return [entry for entry in entries(db, now, row[0], last) if entry.releases is None]


def _optional_count(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterTypeError(f"{name} must be a whole number; got {shown_value(value)}.")
    if not 0 <= value < 2**63:
        raise ParameterError(f"{name} ({value!r}) must be 0 or more.")
    return value


def reservations(db: sqlite3.Connection) -> Iterator[Reservation]:
    """All reservations except filters, oldest first."""
    left = _remaining_amounts(db)
    for entry in prepaid_entries(db):
        if not is_filter(entry.profile):
            there = left.get(entry.release_id, 0)
            yield reservation_of(entry, there if isinstance(there, int) else 0)


def filters(db: sqlite3.Connection) -> Iterator[Filter]:
    """All filters, oldest first."""
    left = _remaining_amounts(db)
    for entry in prepaid_entries(db):
        if is_filter(entry.profile):
            (drawn,) = db.execute(
                "SELECT count(*) FROM charges WHERE releases IS NULL AND under = ?",
                (entry.release_id,),
            ).fetchone()
            yield filter_of(entry, left[entry.release_id], drawn)


def _remaining_amounts(db: sqlite3.Connection) -> dict[str, Any]:
    return {held.reservation_id: held.left for held in read_state(db).held}


def prepaid_entries(db: sqlite3.Connection) -> Iterator[Entry]:
    """Entries of reservations and filters."""
    if store.file_format(db) < schema.RESERVATIONS:
        return
    now = read_totals(db)
    numbers = db.execute(
        "SELECT number FROM charges WHERE releases > 0 "
        "ORDER BY +number ASC NULLS FIRST"  # +: found by the index of reservations, then sorted
    ).fetchall()
    for (number,) in numbers:
        for entry in entries(db, now, number, number):
            if entry.profile != "[]":  # not the restated releases of the first format
                yield entry


def charged_spans(db: sqlite3.Connection) -> tuple[Entry, dict[str, list[Span]]]:
    """The last entry, and for every axis the charges to its blocks that the totals paid."""
    now, spans = read_totals(db), dict[str, list[Span]]()
    last = newest_entry(db, now)
    for entry in entries(db, now):
        if entry.axis is not None and entry.under is None:
            ends = int(entry.first or 0), int(entry.last or 0)
            spans.setdefault(entry.axis, []).append((*ends, entry.cost))
    return last, spans


def blocks_frame(db: sqlite3.Connection) -> pd.DataFrame:
    """A frame with one row for each stretch of an axis that the same releases read."""
    import pandas as pd

    now, (last, spans) = read_totals(db), charged_spans(db)
    tops, rows = tops_of(last.tops), []
    for axis, charges in sorted(spans.items()):
        for first, end, cost, number in stretches(charges):
            free = now.epsilon - last.spent_epsilon, now.delta - last.spent_delta
            left = (
                max(0, free[0] + tops[axis][0] - cost[0]),
                max(0, free[1] + tops[axis][1] - cost[1]),
            )
            null = first == NULL_FIRST
            ends = (None, None) if null else (moment_text(first), moment_text(end))
            rows.append((axis, *ends, number, cost, left))
    return pd.DataFrame(
        {
            "axis": pd.Series([row[0] for row in rows], dtype=text_dtype()),
            "first": pd.Series([row[1] for row in rows], dtype=text_dtype()),
            "last": pd.Series([row[2] for row in rows], dtype=text_dtype()),
            "releases": pd.Series([row[3] for row in rows], dtype="int64"),
            **{
                f"{what}_{name}": pd.Series(
                    [float_amount(row[place][which], unit) for row in rows], dtype="float64"
                )
                for place, what in ((4, "spent"), (5, "left"))
                for which, (name, unit) in enumerate(
                    (("epsilon", EPSILON_UNIT), ("delta", DELTA_UNIT))
                )
            },
        }
    )


def window_spending(db: sqlite3.Connection, seconds: int) -> Units:
    """The cost of the worst window of ``seconds`` seconds on every axis, with charges to all
    blocks."""
    last, spans = charged_spans(db)
    tops = tops_of(last.tops)
    epsilon, delta = read_totals(db).spent_units
    for axis, charges in spans.items():
        e, d = worst_window(charges, seconds)
        epsilon, delta = epsilon + e - tops[axis].epsilon, delta + d - tops[axis].delta
    return epsilon, delta


def seconds_of(days: object) -> int:
    """Days of a window as whole seconds, rounded up."""
    number = as_float(days)
    if number is None:
        raise ParameterTypeError(f"days must be a number; got {shown_value(days)}.")
    if not 0 <= number < 1e7:  # also refuses NaN
        raise ParameterError(f"days ({days!r}) must be 0 or more, and below 1e7.")
    return math.ceil(Fraction(str(days)) * 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRelease:
    """A release. ``block`` is the period that it was charged for: axis, first second, and the
    second after the last; None for all records. ``under`` is the id of the reservation or filter
    that paid, None if the totals paid."""

    name: str
    receipt: Mapping[str, Any]
    block: tuple[str, int, int] | None
    under: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReservation:
    """What was paid for several releases, and the law of each; an empty law for a filter."""

    name: str
    epsilon: Fraction
    delta: Fraction
    releases: int
    law: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHistory:
    """A whole history. ``restated`` says that an older version composed some of its releases. The
    cost of a reservation is its cost for one step, also where two steps were charged."""

    releases: tuple[WrittenRelease, ...]
    reservations: tuple[WrittenReservation, ...]
    restated: bool
    protects: str | None


def read_history(db: sqlite3.Connection) -> ReleaseHistory:
    """The history, oldest first; LedgerError where it is not as it was written."""
    now = read_totals(db)
    drawn, reserved, restated = [], [], False
    for entry in entries(db, now):
        restated |= entry.open is None and now.accountant == "pld"
        if entry.releases is None:
            blocks = entry.blocks
            ends = None if blocks is None else (blocks.axis, blocks.first, blocks.last)
            drawn.append(
                WrittenRelease(
                    name=entry.name or entry.release_id,
                    receipt=json.loads(entry.receipt),
                    block=ends,
                    under=entry.under,
                )
            )
            continue
        epsilon, delta = exact_cost_of(entry, steps=1)
        reserved.append(
            WrittenReservation(
                name=entry.release_id,
                epsilon=epsilon,
                delta=delta,
                releases=entry.releases,
                law=() if is_filter(entry.profile) else profile_of(entry.profile),
            )
        )
    return ReleaseHistory(
        releases=tuple(drawn),
        reservations=tuple(reserved),
        restated=restated,
        protects=now.protects,
    )


NEWEST = 20
"""Releases in the list."""

LISTED = ("number", "time", "release", "mechanism", "hierarchy", "epsilon", "delta")
"""Columns of ``ledger.releases()`` that the list has."""


def ledger_html(summary: pd.DataFrame, releases: pd.DataFrame) -> str:
    """HTML of ``ledger.summary()`` and of ``releases``: given oldest first, shown newest first."""
    (facts,) = summary.to_dict("records")
    listed = [[_cell_text(row[name]) for name in LISTED] for row in releases.to_dict("records")]
    total = f"({facts['epsilon']:g}, {facts['delta']:g})"
    return folded_html(
        f"Ledger {visible(str(facts['ledger']))}",
        [
            f"spent ({facts['spent_epsilon']:.4g}, {facts['spent_delta']:.3g}) of {total}, "
            f"accountant {facts['accountant']}",
            f"left ({facts['left_epsilon']:.4g}, {facts['left_delta']:.3g})"
            + (f", for {facts['protects']}" if facts["protects"] else ""),
            f"{facts['releases']:,} releases, {facts['reserved']:,} more paid for beforehand",
        ],
        f"the newest {len(listed)} of them",
        [list(LISTED), *reversed(listed)] if listed else (),
    )


def _cell_text(value: object) -> str:
    if value is None or value != value:  # missing
        return ""
    return f"{value:.6g}" if isinstance(value, float) else visible(str(value))
