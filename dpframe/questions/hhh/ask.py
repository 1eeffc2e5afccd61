"""``dp.hhh`` and ``dp.StreamingHHH``: one function for every source, and a stream in pieces.

Of a stream :mod:`dpframe.sources.stream_batches` counts; this module adds the private release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpframe.asking.answer import answer_call
from dpframe.asking.call_arguments import CallArguments, Constraint, delta_amount, optional_whole
from dpframe.asking.level_plan import MechanismInput
from dpframe.asking.question import Question, make_explain
from dpframe.budget import PrivacyUnit
from dpframe.common.calls import known_arguments
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.plan import (
    CONSTRAINTS,
    advice,
    former_request,
    hhh_plan,
    plan_by_shares,
)
from dpframe.sources import stream_batches as raw
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.frames import is_spark
from dpframe.sources.spark import SparkFrame, shuffle_partitions

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.hierarchy import Hierarchy
    from dpframe.ledger import Ledger
    from dpframe.periods import Period
    from dpframe.questions.hhh.sketch_plans import StreamingPlan


def hhh_for_source(plan: Any, source: object) -> HhhPlan[Any, Any]:
    """Return the plan for a source: on Spark, sketches are kept for each partition."""
    if plan.counters is not None and is_spark(source):
        from dpframe.questions.hhh.sketch_plans import partition_plan

        return partition_plan(plan, shuffle_partitions(source))
    return plan  # type: ignore[no-any-return]


def hhh_rollup_plan(plan: Any) -> HhhPlan[Any, Any] | None:
    """Return the plan if it starts from the counts of a tree; None if it needs rows."""
    if plan.unit.nodes is not None:
        return None
    return plan if plan.counters is None and plan.items is None else None


def hhh_columns(plan: Any) -> Sequence[str] | None:
    """Return the columns that the count reads, if it counts values of users or users at nodes; else
    None."""
    if plan.items is None and plan.unit.nodes is None:
        return None
    return list(dict.fromkeys([*plan.hierarchy.source_columns, plan.unit.user]))


SKETCH_MECHANISM = ("mechanism='streaming'", "by mechanism='offline'")
"""The mechanism that needs the rows of a table, and what to use without them."""


def nodes_of_users(source: object, plan: Any, progress: bool) -> MechanismInput[Any]:
    """Read users and their nodes for rounds."""
    from dpframe.sources.user_nodes import user_nodes

    asked = (plan.hierarchy, plan.unit, plan.items, plan.shares)
    users = user_nodes(source, *asked, progress=progress)
    return MechanismInput(users, users.nodes.types)


def count(source: object, plan: Any, progress: bool) -> MechanismInput[Any]:
    """Count a source for the mechanism of a plan."""
    if plan.counters is None:
        if plan.items is not None:
            return nodes_of_users(source, plan, progress)
        if plan.unit.nodes is not None:
            from dpframe.sources.exact_trees import node_users

            users = node_users(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
            return MechanismInput(users, users.types)
        counts = exact_counts(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
        return MechanismInput(counts, counts.types)
    if plan.partitions is None:
        from dpframe.sources.spark_stream import sketch_states

        return MechanismInput(*sketch_states(source, plan, progress=progress))
    from dpframe.sources.spark_stream import partitioned_states

    types = SparkFrame(source, plan.hierarchy.source_columns).types
    return MechanismInput(partitioned_states(source, plan), tuple(types.values()))


@known_arguments
def hhh(
    source: object = None,
    hierarchy: str | Sequence[str] | Hierarchy | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    threshold: float | int | None = None,
    user: str | None = None,
    contribution: str | None = None,
    max_contributions: int | None = None,
    weight: str | None = None,
    max_weight: float | None = None,
    mechanism: str | None = None,
    remainder: bool | None = None,
    release_share: float | None = None,
    confidence: float = 0.95,
    acknowledge: bool = False,
    counters: int | None = None,
    totals: bool = False,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
    candidates: object = None,
    plan: object = None,
    at_most: int | None = None,
    nodes_per_user: int | None = None,
) -> pd.DataFrame:
    """Hierarchical heavy hitters, differentially private.

    Reports the nodes of a hierarchy whose residual count (records below them that no reported
    node further down covers) reaches a threshold, at every level, with noisy counts.

    Parameters
    ----------
    source
        A pandas or Polars frame, Arrow table, DuckDB relation, path of a parquet or CSV file, or
        Spark DataFrame, which Spark counts (docs/warehouses.md).
    hierarchy
        ``"ip:src"``, a list of columns from coarse to fine, or an object such as
        ``dp.ip("src")``; see :mod:`dpframe.hierarchy`. Its height never depends on the data.
        "offline" takes several at once: ``"ip:src * ip:dst"``, ``dp.cube(["country", "product"])``
        (docs/cubes.md).
    epsilon, delta
        The privacy budget of this release: 1e-4 to 50 and 1e-12 to 0.1. No defaults.
    threshold
        Residual count from which a node is reported, with ``weight`` the residual sum, which need
        not be whole. By default the smallest private one.
    user
        Column that identifies a person, whose rows are protected together. NULL ids count
        as one user. By default single records are protected. Ids beyond 2^53 must be whole numbers
        or text: pandas makes floats of integers for one NULL, and equal floats are one user.
    contribution
        With ``user``: "auto" (default; "rounds", or "share" where something in the call goes with
        shares alone: the card says which, and why), "share" (a user weighs 1, divided over their
        rows, at the price of one row), "records" (a uniform sample of at most ``max_contributions``
        rows each) or "items": how many different users a node has, which does not add up. A user
        counts once at each of at most ``at_most`` nodes a level; with "streaming", once at each
        node above at most ``max_contributions`` leaves.
    max_contributions
        With ``contribution="records"``, or "items" of "streaming": how many rows or leaves of each
        user count, at least 1. With "rounds": most nodes of a user that take part when nodes are
        searched, at least the height; 500 by default.
    weight
        Column of numbers, such as bytes or revenue: nodes are heavy by its sum. It holds whole
        numbers, decimals or floating-point numbers. Missing and negative numbers and NaN count 0,
        infinity counts ``max_weight``. Text is refused except in CSV files, where text that is no
        number counts 0. Only with "offline" or "offline-gaussian", and "share".
    max_weight
        With ``weight``: the most that a row counts, or with ``user`` all rows of a user together;
        what is above is cut off. Noise and the smallest threshold grow with it: choose it from
        what is known without the data, never from the data.
    mechanism
        "offline" (default without ``user``, and by shares, records and items: exact counts),
        "offline-gaussian" (the same with Gaussian noise: more noise for one release, less for many
        releases that are reserved together, :func:`plan_series`), "streaming" (one pass and one
        sketch a level, for data whose nodes do not fit in memory), "rounds" (what "auto" takes for
        users: where they have many nodes it finds several times as many, and it counts the
        different users of each, which does not add up), the baselines "laplace" and "gaussian", or
        "paper" (the algorithm as printed).
    remainder
        Release what no reported node covers as level 0, so that everything adds up. Default True,
        except for "streaming", "rounds" and "items", which cannot. True makes "auto" take shares.
    release_share
        Part of epsilon (0.01 to 0.99) spent on reported counts; the rest decides what is
        reported. Default a third (half for a single level without remainder; a fifth in rounds).
    confidence
        Confidence of the intervals, 0.5 to 0.999999.
    acknowledge
        Must be True for ``mechanism="paper"``.
    counters
        With ``mechanism="streaming"``: counters of each sketch, at least 2; default 2000. Before
        noise, counts are too high by at most the number of records over ``counters + 1``; too low
        by at most as much where sketches take one user at a time.
    totals
        With several hierarchies: release the whole count of every reported cell too, including
        records that other cells have taken, as ``count``, ``count_lower`` and ``count_upper``. Half
        of epsilon and delta pays for it, with Gaussian noise for one count of every kind of cells.
        Only records can be counted.
    period
        Only the records of a period: a column of times and its text, ``("when", "2026-W47")``, and
        a time zone where the column has one. Years, quarters, months, ISO weeks, days, hours and
        ranges of them; ``("when", None)`` for NULL times (docs/periods.md). Disjoint periods of
        one column cost a ledger what the dearest of them costs.
    ledger
        A :class:`Ledger` (or its path) that the release is charged to, before noise is drawn.
        Default: the ledger of :class:`use_ledger`, else none.
    release
        A name. The first call draws, charges and stores the result in the ledger; later calls
        with the same arguments and source replay it, identical and free, without reading data.
        In-memory frames of one kind count as one source: name a release after its data. A replay
        says so with a :class:`ReplayedNotice`, and its receipt with ``replayed``.
    data
        Your name for the state of the data, such as "2026-11-03". It goes into the receipt, and a
        name that answered for other ``data`` is an error in place of a replay.
    progress
        Whether notebooks and terminals show what takes longer than two seconds: the step, its
        time, and how much of a query is done, in percent.
    candidates, plan
        Instead of everything above but ``ledger``, ``release`` and ``data``: what a statement of
        :func:`rollup_sql` returned, and its plan.
    at_most
        With ``contribution="items"``: most nodes of a level that a user counts at, 1 to 1000; 16 by
        default. A user with more nodes counts at a uniform sample. Noise and threshold grow with
        the square root of ``at_most``. With "rounds": how many of the lowest released nodes of a
        user, and of those above them, count fully; found privately by default.
    nodes_per_user
        For "auto": how many of the finest nodes a user has, from what is known without the data.
        With 1, shares are taken where they show more. It bounds nothing: users with more are
        protected alike.

    Returns
    -------
    pandas.DataFrame
        ``level`` (int64, 0 = everything), ``prefix`` (label), for ``columns`` hierarchies one
        column a level, in the type of the source, ``residual``, ``count`` (int64, may be negative;
        unbiased given what is reported, except for the baselines), ``lower`` and ``upper``
        (interval for the true count). With ``weight`` these four are float64: sums of the weight,
        without what is cut off. Rounds of one level have no row of level 0. Rows are sorted by
        level and value, ``<invalid>`` last (docs/sql.md, "Order and types"). The receipt is in
        ``attrs["dp"]`` and ``result.dp.receipt``, whose ``not_shown`` says from which count on
        nodes are seen, and what is in others.

    Raises
    ------
    ParameterError, ParameterTypeError
        An argument breaks its rule (BudgetError, ThresholdError, HierarchyError, ColumnError).
    SourceError
        The data cannot be read.
    LedgerError
        The ledger cannot be used (OverBudgetError, ReleaseNameError). Nothing was drawn.

    Privacy
    -------
    (epsilon, delta)-differential privacy for adding or removing one record, whatever its weight, or
    one user with all their records. Assumed public: every argument, the names and types of the
    columns, the path or name of the source. With ``mechanism="streaming"`` and no ``user``, rows
    must stand in an order that no single record decides (docs/streaming.md). Not covered: running
    time, and repeated releases without a ledger, which add up.

    References
    ----------
    Biswas, Cormode, Kanza, Srivastava, Zhou, "Differentially Private Hierarchical Heavy
    Hitters" (2024), Algorithms 1 and, for streams, 3, corrected; see docs/soundness.md and
    docs/mechanism.md. Lebeda, Tetek, "Better Differentially Private Approximate Histograms and
    Heavy Hitters using the Misra-Gries Sketch" (2023), Algorithms 1, 2 and 4. "rounds": as for
    :func:`heavy_hitters`, with nodes of all levels in the place of values.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> visits = pd.DataFrame({"src": ["10.0.0.1"] * 500 + ["10.0.7.7"] * 20})
    >>> result = dp.hhh(visits, "ip:src?version=4", epsilon=1.0, delta=1e-6, threshold=100)
    >>> list(result.columns)
    ['level', 'prefix', 'residual', 'count', 'lower', 'upper']
    """
    return answer_call(
        HHH,
        source,
        hierarchy=hierarchy,
        epsilon=epsilon,
        delta=delta,
        threshold=threshold,
        user=user,
        contribution=contribution,
        max_contributions=max_contributions,
        weight=weight,
        max_weight=max_weight,
        mechanism=mechanism,
        remainder=remainder,
        release_share=release_share,
        confidence=confidence,
        acknowledge=acknowledge,
        counters=counters,
        totals=totals,
        period=period,
        ledger=ledger,
        release=release,
        data=data,
        progress=progress,
        candidates=candidates,
        plan=plan,
        at_most=at_most,
        nodes_per_user=nodes_per_user,
    ).to_frame()


HHH = Question(
    ask=hhh,
    planned=hhh_plan,
    constraints=CONSTRAINTS,
    fitted=hhh_for_source,
    count=count,
    advice=advice,
    former=former_request,
    by_shares=plan_by_shares,
    rollup="rollup_sql",
    rolled_up=hhh_rollup_plan,
    columns=hhh_columns,
    laws=({"mechanism": "offline"}, {"mechanism": "offline-gaussian"}),
    instead=SKETCH_MECHANISM,
)

explain = make_explain(
    "explain",
    HHH,
    hhh,
    """>>> import dpframe as dp
>>> frame = dp.explain("ip:src", epsilon=1.0, delta=1e-6).to_frame()
>>> list(frame.columns)
['quantity', 'value', 'meaning']""",
)


@known_arguments
class StreamingHHH(raw.StreamingHHH):
    """Hierarchical heavy hitters of a stream, in one Misra-Gries sketch a level.

    It does what ``dp.hhh(..., mechanism="streaming")`` does with one source, for records that come
    in pieces, over time, or in several places. Memory does not depend on the number of records.

    Parameters
    ----------
    hierarchy
        As for :func:`dpframe.hhh`: ``"ip:src"``, a list of columns, or an object such as
        ``dp.ip("src")``.
    counters
        Counters of the sketch of each level, k, from 2. An estimate is at most n / (k + 1) below
        the true count, n the number of records.

    Raises
    ------
    ParameterError, ParameterTypeError
        If ``counters`` is no whole number from 2, or the hierarchy cannot be read (HierarchyError).

    Privacy
    -------
    Only what ``release`` returns is private; see there. The object itself is raw data, and so are
    its files, what its other methods return, and the time and memory that they need. ``repr`` shows
    parameters only. The order of records must not depend on any single record.

    References
    ----------
    Lebeda, Tetek: Better Differentially Private Approximate Histograms and Heavy Hitters using the
    Misra-Gries Sketch, PODS 2023: Algorithm 1. Biswas, Cormode, Kanza, Srivastava, Zhou:
    Differentially Private Hierarchical Heavy Hitters, 2024: Algorithm 3.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> sketch = dp.StreamingHHH(["country", "city"], counters=100)
    >>> sketch.update(pd.DataFrame({"country": ["DE"] * 500, "city": ["Berlin"] * 500}))
    >>> sketch.update(pd.DataFrame({"country": ["DE"] * 400, "city": ["Bonn", "Ulm"] * 200}))
    >>> sketch
    StreamingHHH('columns:country,city', counters=100, <private>)
    >>> sketch.top(2)
    [(1, 'DE', 900), (2, 'DE / Berlin', 500)]
    """

    __slots__ = ()

    def resume(self) -> None:
        """Let a released stream take records again.

        The next release holds the records of the last release too. Each release is charged, and a
        record is protected only by the sum of both. Does nothing if there was no release.
        """
        self._resumed = self._released

    def merge(self, other: StreamingHHH) -> StreamingHHH:
        """Merge this and another stream, level by level; see :func:`dpframe.merge_sketches`."""
        method = self._method or (other.method if isinstance(other, StreamingHHH) else None)
        return raw.merged_streams([self, other], method or "bounded", StreamingHHH)

    def release(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        threshold: int | None = None,
        confidence: float = 0.95,
        ledger: Ledger | str | Path | None = None,
        records: int | None = None,
    ) -> pd.DataFrame:
        """The hierarchical heavy hitters, differentially private.

        Parameters
        ----------
        epsilon, delta
            The privacy budget of this release: 1e-4 to 50 and 1e-12 to 0.1. No defaults.
        threshold
            Residual count from which a node is reported, from 1. By default the count below which
            noisy counters are hidden.
        confidence
            Confidence of the intervals, 0.5 to 0.999999.
        ledger
            A :class:`dpframe.Ledger` (or its path) that the release is charged to, before noise is
            drawn. Default: the ledger of :class:`dpframe.use_ledger`, else none.
        records
            For merged streams: a public upper bound on the records that went in, for ``upper``. The
            bound is not checked against the data.

        Returns
        -------
        pandas.DataFrame
            The frame of ``dp.hhh(..., mechanism="streaming")``: ``level``, ``prefix``, one text
            column a level for hierarchies of columns, and ``residual``, ``count``, ``lower``,
            ``upper`` (int64), by level and label. The receipt is in ``attrs["dp"]`` and
            ``.dp.receipt``.

            For merged streams, ``count`` is at most n / (k + 1) below the truth, plus noise, where
            n is the number of records; ``upper`` (Int64) is missing without ``records``.

        Raises
        ------
        ParameterError, ParameterTypeError
            An argument breaks its rule (BudgetError). Nothing was drawn or charged.
        LedgerError
            The ledger cannot be used (OverBudgetError). Nothing was drawn.

        Privacy
        -------
        (epsilon, delta)-differential privacy for adding or removing one record. Assumed: the order
        of the other records does not depend on that record, and for merged streams neither does
        the choice of their streams. Assumed public: every argument, hierarchy, k, the number of
        streams. Not covered: running time, files, and what other methods return. Every release has
        new noise and a new charge; releases add up.

        References
        ----------
        Lebeda, Tetek: Better Differentially Private Approximate Histograms and Heavy Hitters using
        the Misra-Gries Sketch, PODS 2023. One stream: Algorithms 1 and 2. Merged by "sum":
        Algorithm 3 and section 7; by "bounded": Corollary 2. Wilkins, Kifer, Zhang, Karrer: Exact
        Privacy Analysis of the Gaussian Sparse Histogram Mechanism, 2024. Biswas, Cormode, Kanza,
        Srivastava, Zhou: Differentially Private Hierarchical Heavy Hitters, 2024, Algorithm 3,
        corrected.

        Examples
        --------
        >>> import pandas as pd, dpframe as dp
        >>> sketch = dp.StreamingHHH("ip:src?version=4")
        >>> sketch.update(pd.DataFrame({"src": ["10.0.0.1"] * 900 + ["10.0.7.7"]}))
        >>> result = sketch.release(epsilon=1.0, delta=1e-6, threshold=300)
        >>> result["prefix"].tolist()
        ['10.0.0.1/32']
        """
        from dpframe.questions.sketches.ask import next_release

        named = {"epsilon": epsilon, "delta": delta, "threshold": threshold}
        plan = stream_plan(
            self, CallArguments({**named, "confidence": confidence}, RELEASE_CONSTRAINTS), records
        )
        return next_release(self, self._states, plan, ledger)


RELEASE_CONSTRAINTS: Mapping[str, Constraint] = {
    "delta": delta_amount,
    "threshold": optional_whole(1, 2**53),
}


def stream_plan(streams: raw.StreamingHHH, given: CallArguments, records: object) -> StreamingPlan:
    """Make a plan from checked arguments and the public parameters of streams."""
    from dpframe.questions.hhh.sketch_plans import merged_stream_plan, streaming_plan
    from dpframe.questions.sketches.ask import known_records

    method = streams.method
    asked = HhhArguments(
        hierarchy=streams.hierarchy,
        unit=PrivacyUnit(),
        budget=given.budget,
        mechanism="streaming",
        threshold=given["threshold"],
        remainder=False,
        confidence=given["confidence"],
        counters=streams.counters,
    )
    known = known_records(records, method or "variant", None)
    if method is None:
        return streaming_plan(asked)
    return merged_stream_plan(asked, method, streams.sketches, records=known)
