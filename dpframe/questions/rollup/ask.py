"""``dp.rollup``, one function for every source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpframe._known_arguments import known_arguments
from dpframe.asking.answer import answer_call
from dpframe.asking.explain import make_explain
from dpframe.asking.question import Question
from dpframe.questions.rollup.checks import rollup_plan
from dpframe.questions.rollup.count import check_rollup_source, columns, count, rollup_result_types

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.hierarchy import Hierarchy
    from dpframe.ledger import Ledger
    from dpframe.measures import Measure
    from dpframe.periods import Period


@known_arguments
def rollup(
    source: object = None,
    by: str | Sequence[str] | Hierarchy | None = None,
    measures: Mapping[str, Measure | str] | Sequence[Measure | str] | str | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    user: str | None = None,
    threshold: float | None = None,
    heavy: str | None = None,
    keys: object = None,
    selection_share: float | None = None,
    confidence: float = 0.95,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
    candidates: object = None,
    plan: object = None,
) -> pd.DataFrame:
    """Counts, sums and means at every level of a hierarchy, differentially private.

    One selection finds the nodes to show, or the caller lists them. Every measure is then taken on
    parts: the records that have the same finest shown node. So measures add up: a node is the sum
    of its own part and the parts of the shown nodes below it.

    Parameters
    ----------
    source
        As for :func:`hhh`.
    by
        The hierarchy: ``"ip:src"``, a list of columns from coarse to fine, or an object, as for
        :func:`hhh`. Several hierarchies can be asked at once: rows are then segments of cells,
        which are disjoint and add up to everything.
    measures
        What to measure, by the name of the column in the result: ``"count"``,
        ``dp.sum("amount", lower=0, upper=500)``, ``dp.mean(...)``, ``dp.distinct(...)``,
        ``dp.count(at_most=10)``, or measures as texts, ``"sum(amount, 0, 500)"``.
    epsilon
        1e-4 to 50, for everything together. No default.
    delta
        1e-12 to 0.1; with ``keys`` 0, or left out.
    user
        Column that identifies a person; all rows of one person are protected together. Counts then
        count users: each weighs 1, divided over their rows. Bounds of sums bound a user's total.
    threshold
        Number of records, or users, in a node's part from which the node is shown, and all nodes
        above it. By default the smallest private threshold.
    heavy
        The name of a measure that decides which nodes are shown, instead of records or users: a sum
        from 0 to an upper bound. ``threshold`` is then in the unit of this measure.
    keys
        The keys to show, known publicly, as for :func:`tree_counts`. Every key is shown, and all
        nodes above it. Nothing is selected then.
    selection_share
        Part of epsilon (0.01 to 0.99) for the selection. Default 0.16, by user a third.
    confidence
        Confidence of the intervals, 0.5 to 0.999999.
    period
        Only the records of a period, such as ``("when", "2026-W47")``; as for :func:`hhh`.
    ledger, release, data, progress
        As for :func:`hhh`.
    candidates, plan
        Instead of everything else: the result of a statement of :func:`measures_sql`, and its plan.

    Returns
    -------
    pandas.DataFrame
        ``level`` (int64, 0 = everything), ``prefix`` (label), for ``columns`` hierarchies one
        column a level, in the type of the source; then for every measure ``NAME``, ``NAME_lower``
        and ``NAME_upper``: int64 for counts and different values, float64 for sums and means.
        Sorted by level and value. The receipt is in ``attrs["dp"]`` and ``result.dp.receipt``.

    Raises
    ------
    ParameterError, ParameterTypeError, SourceError, LedgerError
        As :func:`hhh`.

    Privacy
    -------
    (epsilon, delta)-differential privacy for adding or removing one record, or one user with all
    their records. Assumed public: every argument, names and types of the columns. Values beyond
    bounds are cut, which intervals do not cover.

    References
    ----------
    Biswas, Cormode, Kanza, Srivastava, Zhou, "Differentially Private Hierarchical Heavy Hitters"
    (2024), Algorithm 1, corrected, for the selection. McSherry, "Privacy Integrated Queries"
    (2009), Theorem 4, for the parts. Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy of
    Differentially Private Histograms Through Consistency" (2010), for adding up.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> sales = pd.DataFrame({"country": ["FR"] * 600 + ["DE"] * 400, "amount": 10.0})
    >>> measures = {"orders": "count", "revenue": dp.sum("amount", lower=0, upper=500)}
    >>> result = dp.rollup(sales, ["country"], measures, epsilon=1.0, delta=1e-6)
    >>> list(result.columns)[3:6]
    ['orders', 'orders_lower', 'orders_upper']
    """
    return answer_call(
        ROLLUP,
        source,
        by=by,
        measures=measures,
        epsilon=epsilon,
        delta=delta,
        user=user,
        threshold=threshold,
        heavy=heavy,
        keys=keys,
        selection_share=selection_share,
        confidence=confidence,
        period=period,
        ledger=ledger,
        release=release,
        data=data,
        progress=progress,
        candidates=candidates,
        plan=plan,
    ).to_frame()


ROLLUP = Question(
    ask=rollup,
    planned=rollup_plan,
    count=count,
    checked=check_rollup_source,
    rollup="measures_sql",
    rolled_up=lambda _: None,
    result_types=rollup_result_types,
    columns=columns,
)

explain_rollup = make_explain(
    "explain_rollup",
    ROLLUP,
    rollup,
    """>>> import dpframe as dp
>>> plan = dp.explain_rollup(["country"], "count", epsilon=1.0, delta=1e-6).plan
>>> plan.selection.threshold
70""",
)
