"""Reservations and filters of a ledger: releases that are paid for beforehand."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpframe._known_arguments import known_arguments
from dpframe.ledger.charge import in_steps, receipt_steps
from dpframe.ledger.filters import Filter, check_filter, price_filter
from dpframe.ledger.history import ReleaseHistory, prepaid_frame, read_history
from dpframe.ledger.open_file import OpenedFile
from dpframe.ledger.reservations import (
    Reservation,
    check_reserves,
    exact_price,
    facts_of,
    plan_gaussian_cost,
    price_reservation,
    reservable_plan,
)
from dpframe.ledger.state import write_filter, write_reservation
from dpframe.ledger.totals import Spending, read_totals, spending_of

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
