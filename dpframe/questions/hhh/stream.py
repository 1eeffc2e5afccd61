"""``dp.StreamingHHH``: hierarchical heavy hitters of a stream that comes in pieces.

:mod:`dpframe.sources.stream_batches` counts; this module adds the private release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpframe.asking.call_arguments import CallArguments, Constraint, delta_amount, optional_whole
from dpframe.budget import PrivacyUnit
from dpframe.common.calls import known_arguments
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.sketch_plans import StreamingPlan, merged_stream_plan, streaming_plan
from dpframe.questions.sketches.ask import known_records, next_release
from dpframe.sources import stream_batches as raw

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger


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
