"""The plans of all releases of a sketch: request, noise, intervals, frame.

**The frame** of a noisy sketch has keys, counts and intervals. It is post-processing, and free.

*One stream.* Let q and Q be the plan's ``noise_above`` and ``noise_below``: ``P(Z < -q) +
P(Z - eta > Q)`` is at most the chance to miss. The true count f is between C and C + alpha, and
U = C + alpha + Z, so

    f <= C + alpha = U - Z                        <= U + q                 unless Z < -q
    f >= C         = U - alpha_hat - (Z - eta)    >= U - (alpha_hat + Q)   unless Z - eta > Q

The law of Z - eta bounds the noise of U and of alpha_hat together, instead of a bound on each of
the two. ``lower`` is at most U - q, also where alpha_hat is negative.

*Other releases.* A released value is V + Z in units of 1/g; n is the number of all records. For
post-processed sketches, g = k + 1 and f is between V/g and (V + n)/g: sums, and universes of one
stream or a sum. For other releases, g = 1 and f is between V and V + n/(k + 1). n is private: the
caller's ``records`` takes its place, and without ``records`` there is no upper bound.

For a key that is fixed beforehand, ``P(published, and its interval misses) <= 1 - confidence``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import log, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.sketch_lattice import LARGEST_TABLE, PureLaws, lattice_laws, pure_laws
from dpframe.accounting.sketch_stream import SketchLaws, gshm_laws, sketch_laws
from dpframe.asking.card import Curve, Draw, DrawList, Line, Text, counts_game
from dpframe.asking.level_plan import ReleasePlan
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.errors import BudgetError
from dpframe.mechanisms.streaming_hhh import (
    NoisySketch,
    SketchedLaws,
    release_sketch,
    release_universe_top,
)
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.sketches import SketchState

if TYPE_CHECKING:
    import pandas as pd

Structure = Literal["variant", "standard", "sum", "bounded", "users"]
"""The structure that a record changes: a stream's sketch (two kinds), a merge (two ways), or users'
sets."""

LEAST_EPSILON = 1e-4
"""The smallest epsilon of a record: below it the tables of the noise get too long."""

SOURCE = "Lebeda, Tetek (PODS 2023)"

NAMES: dict[Structure, str] = {
    "variant": "misra-gries",
    "standard": "misra-gries-standard",
    "sum": "merged-sum",
    "bounded": "merged-bounded",
    "users": "privacy-aware-misra-gries",
}

PAPERS: dict[Structure, str] = {
    "variant": f"{SOURCE}, Algorithm 2, with alpha and C + alpha released",
    "standard": f"{SOURCE}, section 5.1, with alpha and C + alpha released",
    "sum": f"{SOURCE}, Algorithm 3 and section 7",
    "bounded": f"{SOURCE}, Corollary 2 and Theorem 5, with integer noise",
    "users": f"{SOURCE}, Algorithm 4 and Corollary 10, with integer noise",
}


@dataclass(frozen=True, kw_only=True)
class SketchUnit(PrivacyUnit):
    """The unit of privacy of a sketch, which knows no column of users.

    ``entry`` is what enters the sketch in one step: "record" or "user".
    """

    entry: str

    @property
    def moves(self) -> int:
        return self.max_contributions

    @property
    def sentence(self) -> str:
        if self.entry == "user":
            return "adding or removing one user with all their items"
        if self.max_contributions == 1:
            return "adding or removing one record"
        return (
            f"adding or removing one user with all their records, of which there are at most "
            f"{self.max_contributions} (promised by the caller)"
        )

    @property
    def counts(self) -> str:
        return "users with an item" if self.entry == "user" else "records"

    @property
    def facts(self) -> dict[str, object]:
        several = self.max_contributions > 1
        return {
            **super().facts,
            "contribution": "records" if several or self.entry == "user" else None,
            "max_contributions": self.max_contributions if several else None,
        }


@dataclass(frozen=True, kw_only=True)
class SketchRequest:
    """What the caller wants released, and the public parameters of the sketch.

    Parameters
    ----------
    structure, unit, counters, sketches
        Facts of the sketch: the structure that a record changes; what enters in one step, "record"
        or "user"; the number k of counters; the number of merged sketches.
    max_contributions
        The most records of one user, as the caller promises; 1 protects single records.
    budget
        ``delta`` is 0 with a universe.
    universe
        Public keys, ascending; None if nobody listed the keys.
    records
        Public upper bound on the records (or items of users) that went in.
    levels
        The number of sketches that one record enters: more than 1 with one sketch for each level.
    """

    structure: Structure
    unit: str
    counters: int
    sketches: int = 1
    max_contributions: int = 1
    budget: Budget
    universe: pa.Array | None = None
    records: int | None = None
    confidence: float = 0.95
    levels: int = 1

    @property
    def record(self) -> Budget:
        """The budget of one record. BudgetError if ``max_contributions`` leaves a record less than
        ``LEAST_EPSILON``."""
        record, most = per_record(self.budget, self.max_contributions), self.max_contributions
        if record.epsilon < LEAST_EPSILON and most > 1:
            raise BudgetError(
                f"epsilon ({self.budget.epsilon:g}) over max_contributions ({most}) leaves a "
                f"record less than {LEAST_EPSILON:g}. Raise epsilon, or lower max_contributions."
            )
        return record

    @property
    def privacy_unit(self) -> SketchUnit:
        """The unit of privacy."""
        return SketchUnit(max_contributions=self.max_contributions, entry=self.unit)


Numbers = NDArray[np.int64]
Intervals = tuple[Numbers, Numbers, Numbers | None]
"""Counts, lower bounds on the true counts and, where known, upper bounds; whole numbers."""


def sketch_frame(keys: pa.Array, intervals: Intervals) -> pd.DataFrame:
    """Columns key, count, lower, upper; sorted by key. ``upper`` is missing where it is unknown."""
    import pandas as pd

    count, lower, upper = intervals
    bound = pd.array([pd.NA] * len(count), dtype="Int64") if upper is None else upper
    return pd.DataFrame(
        {
            "key": _keys_series(keys),
            "count": count,
            "lower": lower,
            "upper": pd.Series(bound, dtype="Int64"),
        }
    )


def count_intervals(noisy: NoisySketch, *, above: int, below: int, most: int | None) -> Intervals:
    """Intervals of counts, in units: ``most`` is what the sketches can have lost, None if it is
    private."""
    g, values = noisy.unit, noisy.values
    count = (2 * values + g) // (2 * g)  # rounded after the noise
    lower = np.maximum(np.minimum(-((below - values) // g), count), 0)
    if most is None:
        return count, lower, None
    upper = np.maximum((values + above + most) // g, count)
    return count, lower, np.maximum(upper, 0)


def _keys_series(keys: pa.Array) -> pd.Series:
    """The keys as a column. Integers are int64, or uint64 if a key needs it.

    Without rows the column is always of objects: the type of the sketch's keys would tell whether
    the sketch has seen a record at all.
    """
    import pandas as pd

    if not len(keys):
        return pd.Series([], dtype=object)
    if pa.types.is_integer(keys.type):
        numbers = keys.to_numpy()
        wide = numbers.dtype == np.uint64 and int(numbers[-1]) > 2**63 - 1
        return pd.Series(numbers if wide else numbers.astype(np.int64))
    texts = keys.to_pylist()
    return pd.Series(texts, dtype=object if isinstance(texts[0], bytes) else None)


ROUNDING = 1e-12
"""A bound on the rounding error of a convolved probability; subtracted from the chance to miss."""

CHANCE = (
    "for a key fixed beforehand, the chance that it is published with an interval that misses "
    "the true count is at most one minus the confidence; given that a key near the threshold "
    "was published, it misses more often"
)
"""The promise on the intervals of every release."""


@dataclass(frozen=True, kw_only=True)
class SketchPlan(ReleasePlan):
    """Merged sketches, and sketches of users: counts are too low by what the sketches dropped. How
    much they dropped stays private.

    The plan draws as every plan does. It has no request, and its unit of privacy names no column:
    only named releases and sources need these, and releases of a sketch are numbered.
    """

    asked: SketchRequest
    laws: Any

    compared: ClassVar[str] = "noisy count"
    """What the threshold is compared with, in words."""

    @property
    def budget(self) -> Budget:
        return self.asked.budget

    @property
    def unit(self) -> SketchUnit:
        return self.asked.privacy_unit

    @property
    def mechanism_name(self) -> str:
        return NAMES[self.asked.structure]

    @property
    def paper(self) -> str:
        return PAPERS[self.asked.structure]

    @property
    def sensitivity(self) -> str:
        """How far one record or user can change the values that get noise."""
        asked, k = self.asked, self.asked.counters
        levels = "" if asked.levels == 1 else f"on each of {asked.levels} levels "
        if self.laws.unit == 1:
            most = f"at most {k} counters by 1, all in one direction"
            return f"{levels}one {asked.unit} moves {most}"
        return (
            f"{levels}one record moves the sum by at most {2 * k - 1}/{k + 1} (l1) and "
            f"sqrt({k * k + k - 1})/{k + 1} (l2), however many sketches are in it"
        )

    @property
    def intervals(self) -> str:
        records = self.asked.records
        if records is None:
            return (
                f"{CHANCE}. upper is missing: the number of records is private and was not declared"
            )
        return (
            f"{CHANCE}. lower allows for the noise, upper also for the sketch, which loses at most "
            f"{records / (self.asked.counters + 1):.6g} of a count if there were at most {records} "
            "records"
        )

    @cached_property
    def draws(self) -> DrawList:
        return sketch_draws(self.laws, group=self.asked.max_contributions)

    @property
    def threshold(self) -> float | None:
        """The count from which keys are shown, for one stream less the sketch error; None with a
        universe."""
        laws: SketchedLaws = self.laws
        return laws.least / laws.unit

    # -- intervals, in units of the laws: how far the noise reaches ----------------------------

    @property
    def _miss(self) -> float:
        return 1 - self.asked.confidence - ROUNDING

    def reach(self, mass: float) -> int:
        """The smallest q with P(Z > q) <= mass. Z is symmetric."""
        noise: NoiseTable = self.laws.noise
        return max(0, int(np.argmax(noise.at_least() <= mass)) + noise.lowest - 1)

    @cached_property
    def noise_above(self) -> int:
        """The q with P(Z < -q) <= half the chance to miss."""
        return self.reach(self._miss / 2)

    @property
    def most_lost(self) -> int | None:
        """The most by which a value is below the truth before noise; None unless the caller
        declared a bound on the number of records."""
        records = self.asked.records
        if records is None or self.laws.unit > 1:
            return records
        return records // (self.asked.counters + 1)

    def counts(self, noisy: NoisySketch) -> Intervals:
        """Counts, lower bounds on the true counts and, where known, upper bounds."""
        return count_intervals(
            noisy, above=self.noise_above, below=self.noise_above, most=self.most_lost
        )

    def unpublished_at_most(self, noisy: NoisySketch) -> int | None:
        """An upper bound, at the confidence, on the true count of a key that is not published; None
        if the release does not tell one."""
        most = self.most_lost if noisy.decrements is None else noisy.decrements
        if most is None:
            return None
        laws: SketchedLaws = self.laws
        return max(0, (laws.least - 1 + self.reach(self._miss) + most) // laws.unit)

    # -- the release --------------------------------------------------------------------------

    def run(self, counted: SketchState, /) -> NoisySketch:
        """The only noisy step."""
        return release_sketch(counted, self.laws)

    def key_lines(self) -> list[Line]:
        """The card lines on which keys are published."""
        shown = f"{self.compared} from which keys are shown"
        return [Line("threshold", self.threshold, shown), self.delta_line]

    def lines(self) -> list[Line]:
        """The card lines, all known before the sketch is released."""
        asked = self.asked
        return [
            self.guarantee_line,
            Line("mechanism", self.mechanism_name, self.paper),
            Line("counts", self.unit.counts, self.unit.what_counts),
            Line.of("counters", asked.counters, "of each of {n} sketches", n=asked.sketches),
            Line("sensitivity", self.sensitivity, "what the noise has to cover"),
            *self.draws.lines,
            Line.of(
                "noise error",
                Text("+-{half_width} with confidence {confidence:g}"),
                "of a count, from the noise alone",
                half_width=-(-self.noise_above // self.laws.unit),
                confidence=asked.confidence,
            ),
            *self.key_lines(),
        ]

    @property
    def facts(self) -> dict[str, object]:
        asked = self.asked
        return {
            "hierarchy": None,
            "counters": asked.counters,
            "sketches": asked.sketches,
            "sensitivity": self.sensitivity,
            "threshold": self.threshold,
            "universe": None if asked.universe is None else len(asked.universe),
            "records": asked.records,
            "confidence": asked.confidence,
            "sketch_error": None,
            "unpublished_at_most": None,
            "release_number": 1,
        }

    def frame(self, noisy: NoisySketch, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Columns key, count, lower, upper; sorted by key."""
        return sketch_frame(noisy.keys, self.counts(noisy))

    def finish_receipt(self, facts: Receipt, noisy: NoisySketch, frame: pd.DataFrame, /) -> Receipt:
        """The receipt, with the released error and the bound on unpublished keys."""
        error, unpublished = noisy.decrements, self.unpublished_at_most(noisy)
        rows: list[list[object]] = []
        if error is not None:
            meaning = "released too: how far counts can be above the truth, itself noisy"
            rows.append(["sketch error", error, meaning])
        if unpublished is not None:
            chance = f"{self.asked.confidence:g}"
            meaning = f"true count of a key that is not published, confidence {chance}"
            rows.append(["unpublished at most", unpublished, meaning])
        own = {"sketch_error": error, "unpublished_at_most": unpublished}
        return facts.with_facts({**own, "card": [*facts["card"], *rows]})


@dataclass(frozen=True, kw_only=True)
class SingleStreamPlan(SketchPlan):
    """The sketch of one stream: its error, alpha_hat, is released with the counters."""

    laws: SketchLaws

    compared = "noisy count less the sketch error"
    sensitivity = "one record moves one of k counters C + alpha, or alpha, by 1"
    intervals = f"{CHANCE}. lower allows for the sketch error and the noise, upper for the noise"

    @cached_property
    def noise_below(self) -> int:
        """The Q with P(Z - eta > Q) <= what ``noise_above`` leaves of the chance to miss."""
        noise, shared = self.laws.noise, self.laws.shared
        missed = float(noise.at_least()[self.noise_above + 1 - noise.lowest])
        size = len(noise.weights) + len(shared.weights) - 1
        # the law of Z - eta by Fourier transforms, whose rounding ROUNDING covers
        product = np.fft.rfft(noise.pmf, size) * np.fft.rfft(shared.pmf[::-1], size)
        law = np.maximum(np.fft.irfft(product, size), 0.0)
        tails = np.append(np.cumsum(law[::-1])[::-1], 0.0)
        lowest = noise.lowest - shared.highest
        return max(0, int(np.argmax(tails <= self._miss - missed)) + lowest - 1)

    def counts(self, noisy: NoisySketch) -> Intervals:
        assert noisy.decrements is not None
        below = max(noisy.decrements + self.noise_below, self.noise_above)
        return count_intervals(noisy, above=self.noise_above, below=below, most=0)


@dataclass(frozen=True, kw_only=True)
class UniversePlan(SketchPlan):
    """The k largest noisy counts of a public universe: delta is 0 for every kind of sketch."""

    laws: PureLaws

    threshold = None

    @property
    def mechanism_name(self) -> str:
        return f"{super().mechanism_name}-universe"

    @property
    def paper(self) -> str:
        where = "Algorithm 3" if self.laws.unit > 1 else "section 7"
        return f"{SOURCE}, {where}, Laplace noise on every key of the universe"

    @cached_property
    def draws(self) -> DrawList:
        laws, group = self.laws, self.asked.max_contributions
        noise = _count_noise(UnboundedNoise(laws.scale), laws.unit, moves=laws.move.absolute)
        return counts_game([noise], delta=0.0, group=group, curve=_curve_of(laws))

    def reach(self, mass: float) -> int:
        return self.laws.reach(mass)

    def unpublished_at_most(self, noisy: NoisySketch) -> int | None:
        return None

    def key_lines(self) -> list[Line]:
        keys = 0 if self.asked.universe is None else len(self.asked.universe)
        largest = f"largest {self.asked.counters} of {keys} keys"
        return [Line("published", largest, "keys that are not listed are never published")]

    def run(self, counted: SketchState, /) -> NoisySketch:
        return release_universe_top(counted, self.asked.universe, self.laws)


# -- what is drawn -------------------------------------------------------------------------------


def _points_of(
    laws: SketchedLaws | PureLaws, epsilons: Sequence[float]
) -> list[tuple[float, float]]:
    return [(epsilon, laws.cost(epsilon)) for epsilon in epsilons]


def _curve_of(laws: SketchedLaws | PureLaws) -> Curve:
    return partial(_points_of, laws)  # plans are pickled, and so is this


def _count_noise(law: NoiseTable | UnboundedNoise, grid: int, **facts: Any) -> Draw:
    names, applies_to = ("count",), "in every count"
    return Draw(law=law, grid=grid, names=names, label="noise", applies_to=applies_to, **facts)


def sketch_draws(laws: SketchedLaws, *, group: int, by_level: bool = False) -> DrawList:
    """Return the draws of sketches: noise in counts and, for one stream, in the sketch error.

    With ``by_level`` the sketches are of one stream in the levels of a hierarchy. ``group`` is 1
    for whole users.
    """
    noise, error = _count_noise(laws.noise, laws.unit), laws.error_noise
    shared = {} if error is None else {"shared": Draw(law=error, names=("sketch_error",))}
    if by_level:
        names, added = ("test", "release"), "added to what is reported"
        noise = Draw(law=laws.noise, names=names, label="release noise", applies_to=added)
    if by_level and error is not None:
        added = "added to the sketch error of each level"
        shared = {"shared": Draw(law=error, label="error noise", applies_to=added)}
    return DrawList(
        kind=laws.kind,
        draws=(noise, *shared.values()),
        facts={"sketches": laws.sketches, **laws.game, "noise": noise, **shared},
        delta=laws.delta,
        group=group,
        curve=None if by_level and error is None else _curve_of(laws),
    )


# -- the choice of noise and threshold -----------------------------------------------------------


def sketch_plan(asked: SketchRequest) -> SketchPlan:
    """Choose noise and threshold by the structure of the sketch; BudgetError if no noise reaches
    the budget."""
    streams, record = asked.structure in ("variant", "standard"), asked.record
    if asked.universe is not None:
        post_processed = streams or asked.structure == "sum"
        pure = pure_laws(
            counters=asked.counters, epsilon=record.epsilon, post_processed=post_processed
        )
        return UniversePlan(asked=asked, laws=pure)
    if not streams:
        return table_plan(asked)
    laws = sketch_laws(
        sketches=1,
        standard=asked.structure == "standard",
        counters=asked.counters,
        epsilon=record.epsilon,
        delta=record.delta,
    )
    return SingleStreamPlan(asked=asked, laws=laws)


def table_plan(asked: SketchRequest) -> SketchPlan:
    """Choose the noise for a merge, or for sketches of users, on each of ``levels`` levels."""
    record, moved = asked.record, asked.counters * asked.levels
    epsilon, delta = record.epsilon, record.delta
    if asked.structure == "sum":
        laws = lattice_laws(
            counters=asked.counters,
            sketches=asked.levels,
            merged=True,
            epsilon=epsilon,
            delta=delta,
        )
        return SketchPlan(asked=asked, laws=laws)
    # refuse before the table is built: counters that move together need a table this long
    if 2 * (2 * sqrt(moved) * -log(delta) / epsilon) > LARGEST_TABLE:
        raise BudgetError(
            f"epsilon ({epsilon:g}) is too small for {moved} counters. Raise epsilon, or lower the "
            "number of counters."
        )
    sparse = gshm_laws(changed=asked.counters, sketches=asked.levels, epsilon=epsilon, delta=delta)
    return SketchPlan(asked=asked, laws=sparse)
