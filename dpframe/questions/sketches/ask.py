"""Sketches that can be released: ``dp.MisraGries``, ``dp.PrivacyAwareMisraGries`` and merges.

:mod:`dpframe.sketches` counts; this module adds the private release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import numpy as np
import pyarrow as pa

from dpframe import sketches as raw
from dpframe.asking.call_arguments import (
    DELTA,
    EPSILON,
    bounded_number,
    budget_amount,
    whole_number,
)
from dpframe.asking.level_plan import Draws, MechanismInput
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import charge_draw, count_affordable, payment
from dpframe.budget import Budget
from dpframe.common.calls import known_arguments
from dpframe.errors import BudgetError, DpframeError, ParameterError, ParameterTypeError
from dpframe.ledger import chosen_ledger
from dpframe.questions.sketches.plan import SketchPlan, SketchRequest, Structure, sketch_plan
from dpframe.sketches._batches import key_order
from dpframe.sketches._batches import single_column as as_column
from dpframe.sketches._sketch import LARGEST, Sketch, merge_into
from dpframe.sources.stream_batches import StreamingHHH, merged_streams, ordered_keys

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger

C = TypeVar("C")
N = TypeVar("N")


class ReleaseCounter(Protocol):
    """A sketch, or a stream with a sketch per level, that counts its releases."""

    _released: int


def next_release(
    sketch: ReleaseCounter, state: Callable[[], C], plan: Draws[C, N], ledger: object
) -> pd.DataFrame:
    """Make the next release. The number of releases rises after the charge, before any draw."""

    def begun() -> None:
        sketch._released += 1

    facts = number_receipt(plan.receipt(), sketch._released + 1)
    paid_by = payment(chosen_ledger(ledger), plan, facts, "sketch")
    counts = count_affordable(lambda: MechanismInput(state()), paid_by)
    return charge_draw(counts, plan, facts, paid_by, begun).to_frame()


def number_receipt(receipt: Receipt, number: int) -> Receipt:
    """The receipt of the ``number``-th release of one sketch."""
    card = list(receipt["card"])
    if number > 1:
        count = "both count" if number == 2 else "all count"
        card.append(["releases", number, f"release {number} of this sketch; {count}"])
    return receipt.with_facts({"release_number": number, "card": card})


Streams = TypeVar("Streams", bound=StreamingHHH)
FEW_RECORDS = 50
"""A sum is better than a bounded merge for up to this number times k^(3/2) times sqrt(levels)
records (docs/streaming.md)."""


class _Releasable(Sketch):
    """A sketch that can be released privately."""

    __slots__ = ()

    def release(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        universe: object = None,
        records: int | None = None,
        max_contributions: int | None = None,
        confidence: float = 0.95,
        ledger: Ledger | str | Path | None = None,
    ) -> pd.DataFrame:
        """The keys with large counters, differentially private.

        Parameters
        ----------
        epsilon, delta
            The privacy budget of this release: 1e-4 to 50 and 1e-12 to 0.1. No defaults.
        universe
            A finite public list of all keys that could occur, up to ten million, each once,
            instead of ``delta``: every key gets noise, the k largest are published, and delta is 0.
            Never pass the keys that did occur.
        records
            A public upper bound on the records (items, for a sketch of users) that went in. Merged
            sketches, sketches of users and universes need it for ``upper``, because their releases
            do not tell the error of the sketch. The bound is not checked against the data.
        max_contributions
            Protect a user with at most this many records instead of a single record, 1 to a
            million. The sketch does not know users: the caller promises that nobody has more.
        confidence
            Confidence of the intervals, 0.5 to 0.999999.
        ledger
            A :class:`dpframe.Ledger` (or its path) that the release is charged to, before noise is
            drawn. Default: the ledger of :class:`dpframe.use_ledger`, else none.

        Returns
        -------
        pandas.DataFrame
            ``key`` (int64, or uint64 if a key needs it; text; bytes objects; without rows always
            object), ``count`` (int64, may be negative with a universe), ``lower`` (int64, from 0)
            and ``upper`` (Int64, missing where the release cannot tell). Sorted by key.
            The receipt is in ``attrs["dp"]`` and ``result.dp.receipt``.

            For one stream, ``count`` is an upper bound on the true count, plus noise; it is at most
            ``receipt["sketch_error"]`` above the truth, also plus noise. Otherwise ``count`` is at
            most ``n / (k + 1)`` below the truth, plus noise; n is the number of records. Items of a
            user beyond ``max_items`` are not part of the truth: they were never counted.

            For a key fixed beforehand, the chance that it is published and that its interval misses
            the true count is at most ``1 - confidence``. Given that a key near the threshold was
            published, it misses more often.

        Raises
        ------
        ParameterError, ParameterTypeError
            An argument breaks its rule (for the budget: BudgetError). Nothing was drawn or charged.
        LedgerError
            The ledger cannot be used (OverBudgetError). Nothing was drawn.

        Privacy
        -------
        (epsilon, delta)-differential privacy, with ``universe`` epsilon-differential privacy, for
        adding or removing one record; for a sketch of users, one user with all their items; with
        ``max_contributions``, one user with at most that many records. Assumed: the order of the
        other records (or users) does not depend on the record (or user) in question, and for merged
        sketches neither does the choice of their sketches. Assumed public: every argument, the
        parameters of the sketch, the number of sketches, the type of keys. Not covered: running
        time, files, and what other methods return. Every release has new noise and a new charge;
        releases add up.

        References
        ----------
        Lebeda, Tetek: Better Differentially Private Approximate Histograms and Heavy Hitters using
        the Misra-Gries Sketch, PODS 2023. One stream: Algorithm 2. Sum and universe: Algorithm 3.
        Bounded merge: Corollary 2. Users: Algorithm 4, Corollary 10. Noise on integers:
        docs/streaming.md.

        Examples
        --------
        >>> import dpframe as dp
        >>> sketch = dp.MisraGries(counters=64)
        >>> sketch.update(["a"] * 500 + ["b"] * 300 + ["c"])
        >>> result = sketch.release(epsilon=1.0, delta=1e-6)
        >>> list(result.columns), list(result["key"])
        (['key', 'count', 'lower', 'upper'], ['a', 'b'])
        >>> result.dp.receipt["guarantee"]
        '(1, 1e-06)-differential privacy for adding or removing one record'
        """
        plan = sketch_plan_from(
            self,
            epsilon=epsilon,
            delta=delta,
            universe=universe,
            records=records,
            max_contributions=max_contributions,
            confidence=confidence,
        )
        return next_release(self, self._state, plan, ledger)

    @property
    def releases(self) -> int:
        """How many releases hold one record of the sketch, at most; in a merge also the releases of
        its sketches before. Public."""
        return self._released

    def merge(self, other: Sketch) -> MergedSketch:
        """Merge this and another sketch with equally many counters; see
        :func:`dpframe.merge_sketches`."""
        return merge_sketches([self, other])

    def resume(self) -> None:
        """Let a released sketch take records again.

        The next release holds the records of the last release too. Each release is charged, and a
        record is protected only by the sum of both. To release only what comes in from now on,
        begin a new sketch instead. Does nothing if the sketch was not released.

        Examples
        --------
        >>> import dpframe as dp
        >>> sketch = dp.MisraGries(counters=8)
        >>> sketch.update([7] * 400)
        >>> first = sketch.release(epsilon=1.0, delta=1e-6)
        >>> sketch.resume()
        >>> sketch.update([7] * 400)
        >>> sketch.release(epsilon=1.0, delta=1e-6).dp.receipt["release_number"]
        2
        """
        self._resumed = self._released


class MergedSketch(_Releasable, raw.MergedSketch):
    __slots__ = ()
    __doc__ = raw.MergedSketch.__doc__


class MisraGries(_Releasable, raw.MisraGries):
    __slots__ = ()
    __doc__ = raw.MisraGries.__doc__

    def update(self, batch: object) -> None:
        super().update(ordered_keys(batch))

    update.__doc__ = raw.MisraGries.update.__doc__


class PrivacyAwareMisraGries(_Releasable, raw.PrivacyAwareMisraGries):
    __slots__ = ()
    __doc__ = raw.PrivacyAwareMisraGries.__doc__

    def update_users(self, users: object, items: object) -> None:
        super().update_users(ordered_keys(users), ordered_keys(items))

    update_users.__doc__ = raw.PrivacyAwareMisraGries.update_users.__doc__


if TYPE_CHECKING:  # typing would keep every module alive until the interpreter is gone

    @overload
    def merge_sketches(
        sketches: Iterable[Streams], *, method: str | None = None, records: int | None = None
    ) -> Streams: ...
    @overload
    def merge_sketches(
        sketches: Iterable[Sketch], *, method: str | None = None, records: int | None = None
    ) -> MergedSketch: ...


@known_arguments
def merge_sketches(
    sketches: Iterable[Sketch] | Iterable[StreamingHHH],
    *,
    method: str | None = None,
    records: int | None = None,
) -> MergedSketch | StreamingHHH:
    """One sketch from several of the same class, number of counters k and kind of key.

    Parameters
    ----------
    sketches
        The sketches, in an order that does not depend on the data. They are not changed. Merged
        sketches can be among them if their method is the same.
    method
        "bounded": k counters, whatever the number of sketches; a count loses only what the sketches
        themselves dropped; noise grows as sqrt(k). "sum": up to k counters for each sketch; every
        count loses n / (k + 1), n the number of all records; noise as for a single record. Default:
        the method of the merged sketches among ``sketches``, else "bounded", unless ``records``
        says that "sum" is better. Sketches of users can only be merged by "bounded".
    records
        About how many records there are in all, as a public number; never the true number. Up to
        ``50 k^(3/2)``, for a StreamingHHH times the root of its height, the default is "sum".

    Returns
    -------
    MergedSketch
        Several :class:`StreamingHHH` of one hierarchy give a StreamingHHH, merged level by level.

    Raises
    ------
    ParameterError, ParameterTypeError
        If there is no sketch, or a stream occurs twice (a sketch, its copy, its file, a merge that
        holds it), or the sketches do not fit together.

    Privacy
    -------
    None before ``release``: the result is raw data. Each record must have entered exactly one of
    the sketches, chosen independently of all others: by source, or by a hash of its own key or
    user, never by its position. A merge remembers how often its sketches were released.

    References
    ----------
    Agarwal et al.: Mergeable Summaries, 2013. Lebeda, Tetek: Better Differentially Private
    Approximate Histograms and Heavy Hitters using the Misra-Gries Sketch, PODS 2023, sections 6
    and 7.

    Examples
    --------
    >>> import dpframe as dp
    >>> monday, tuesday = dp.MisraGries(counters=2), dp.MisraGries(counters=2)
    >>> monday.update([4] * 900 + [7])
    >>> tuesday.update([4] * 800)
    >>> week = dp.merge_sketches([monday, tuesday], method="sum")
    >>> week.release(epsilon=1.0, delta=1e-6)["key"].tolist()
    [4]
    """
    about = expected_records(records)
    if method is not None and records is not None:
        raise ParameterError("records and method exclude each other. Pass one of them.")
    several: Any = sketches
    if method is None and isinstance(several, Iterable) and not isinstance(several, Sketch):
        several = list(several)
        method = _merge_method(several, about)
    first, several = _peek_first(several)
    if isinstance(first, StreamingHHH):
        return merged_streams(several, method or "bounded", type(first))
    return merge_into(several, method or "bounded", MergedSketch)


def _peek_first(sketches: Any) -> tuple[object, Any]:
    """The first sketch or None, and an iterable of all, which reads a generator step by step."""
    if isinstance(sketches, Sketch) or not isinstance(sketches, Iterable):
        return None, sketches
    rest = iter(sketches)
    first = next(rest, None)
    return first, () if first is None else chain([first], rest)


def _merge_method(sketches: Sequence[Sketch | StreamingHHH], records: int | None) -> str:
    """Choose the method by public facts: methods, units, k, levels, and declared ``records``."""
    for sketch in sketches:
        if isinstance(sketch, raw.MergedSketch | StreamingHHH) and sketch.method:
            return sketch.method
    first = sketches[0] if sketches else None
    if isinstance(first, Sketch) and first._unit == "user":
        return "bounded"
    if records is None or not isinstance(first, Sketch | StreamingHHH):
        return "bounded"
    levels = first.hierarchy.height if isinstance(first, StreamingHHH) else 1
    few = FEW_RECORDS * levels**0.5 * first.counters**1.5
    return "sum" if records <= few else "bounded"


def sketch_plan_from(
    sketch: Sketch,
    *,
    epsilon: object,
    delta: object,
    universe: object,
    records: object,
    max_contributions: object,
    confidence: object,
) -> SketchPlan:
    """A plan from unchecked arguments and the public parameters of a sketch."""
    structure = _sketch_structure(sketch)
    checked_epsilon = budget_amount("epsilon", epsilon, *EPSILON, "for example 1.0")
    return sketch_plan(
        SketchRequest(
            structure=structure,
            unit=sketch._unit,
            counters=sketch.counters,
            sketches=sketch.sketches if isinstance(sketch, raw.MergedSketch) else 1,
            max_contributions=_sketch_contributions(max_contributions, sketch._unit),
            budget=Budget(epsilon=checked_epsilon, delta=_sketch_delta(delta, universe)),
            universe=None if universe is None else _universe_keys(universe),
            records=known_records(records, structure, universe),
            confidence=bounded_number("confidence", confidence, 0.5, 0.999999),
        )
    )


def expected_records(value: object) -> int | None:
    """The checked hint of a merge: about how many records there are, a public number, or None."""
    return None if value is None else whole_number("records", value, 0, 2**53)


def _sketch_structure(sketch: Sketch) -> Structure:
    if isinstance(sketch, raw.MergedSketch):
        return sketch.method
    if isinstance(sketch, raw.MisraGries):
        return "standard" if sketch.standard else "variant"
    return "users"


def _sketch_delta(delta: object, universe: object) -> float:
    if universe is None:
        if delta is None:
            raise BudgetError(
                "delta is missing. Pass delta=, well below one over the number of people, or "
                "universe=, a public list of all keys."
            )
        return budget_amount("delta", delta, *DELTA, "well below one over the number of people")
    if delta is not None:
        raise ParameterError(f"delta ({delta!r}) does not go with universe=. Leave one out.")
    return 0.0


def _sketch_contributions(value: object, unit: str) -> int:
    if value is None:
        return 1
    if unit == "user":
        raise ParameterError(
            f"max_contributions ({value!r}) is for sketches of single records. Leave it out: "
            "this sketch counts whole users, with at most max_items items each."
        )
    return whole_number("max_contributions", value, 1, 1_000_000)


def known_records(value: object, structure: Structure, universe: object) -> int | None:
    """The declared upper bound on records, or None. ParameterError where the release tells the
    sketch error."""
    if value is None:
        return None
    if universe is None and structure in ("variant", "standard"):
        raise ParameterError(
            "records is not needed for the sketch of one stream. Leave it out: the released "
            "sketch error gives upper."
        )
    return whole_number("records", value, 0, 2**53)


def _universe_keys(universe: object) -> pa.Array:
    """The public keys, sorted."""
    if isinstance(universe, str | bytes | bytearray | int):
        raise ParameterTypeError(f"universe must be a list of keys; got {type(universe).__name__}.")
    told: DpframeError | None = None
    column = None
    try:
        column = as_column(universe, None)
    except (ParameterError, ParameterTypeError) as error:
        told = type(error)(f"universe does not hold keys: {error}")
    if told is not None:
        raise told
    if column is None:
        raise ParameterError("universe is empty. List the keys that could occur.")
    if len(column) > LARGEST:
        raise ParameterError(f"universe ({len(column)} keys) must hold at most {LARGEST} keys.")
    keys = column.to_arrow()
    if len(keys.unique()) < len(keys):
        raise ParameterError("universe holds a key twice. List each key once.")
    return keys.take(pa.array(key_order(keys).astype(np.int64)))
