"""What a released frame and its receipt say of the noise in every number: intervals anew.

Counts are shown in whole records, intervals around them outwards, and of counts that were made to
add up the ones that were drawn are not shown at all. So a drawn count is known up to a range, and
an interval at another confidence is that of the whole range: it holds whatever the drawn one does.
Where noise is in whole records and nothing was adjusted, this is the interval that the same release
would have had. What is recomputed at the confidence of the release must be what it shows; if not,
nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.noise import NoiseTable, UnboundedNoise, law_of_facts
from dpframe.postprocess.half_widths import half_width
from dpframe.postprocess.legacy import law_by_spread
from dpframe.postprocess.shown_nodes import ShownNodes

Whole = NDArray[np.int64]

SUMMED, NOMINAL = ("offline", "offline-gaussian", "paper"), ("laplace", "gaussian")
"""Mechanisms of heavy hitters whose counts are sums of independent draws, and those with one draw
in a count, which was selected upon."""

COUNTED = ("rounds",)
"""Those with a draw of its own in every count."""

FINEST = 1e-12
"""By how much :func:`.intervals.half_width` may fall short of a confidence."""

NEW_RELEASE = "ask with another confidence= when you release"


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownNoise:
    """The noise in the counts of a whole release, in units of ``grid``.

    ``low`` and ``high``: int64, shape (n,); the drawn count is between them. ``law`` is the place
    in ``laws`` and ``terms`` the number of independent draws in it. ``adjusted`` is ``count``
    where the shown count is another one than the drawn one, and intervals hold it as well.
    """

    laws: tuple[NoiseTable | UnboundedNoise, ...]
    law: Whole
    terms: Whole
    grid: int
    low: Whole
    high: Whole
    adjusted: Whole | None

    def half(self, confidence: float, terms: Whole | None = None, *, strict: bool = False) -> Whole:
        """Half widths of intervals for sums of that many draws, in units; 0 for none.

        ``strict`` is for confidences so near to 1 that rounding of float64 counts.
        """
        terms = self.terms if terms is None else terms
        pairs, where = np.unique(np.stack([self.law, terms]), axis=1, return_inverse=True)
        halves = [self._half(law, k, confidence, strict) for law, k in pairs.T.tolist()]
        return np.array(halves, dtype=np.int64)[where.reshape(-1)]

    def _half(self, law: int, terms: int, confidence: float, strict: bool) -> int:
        noise = self.laws[law]
        if not terms:
            return 0
        return half_width(noise, terms, min(1.0, confidence + FINEST * strict))

    def ends(self, confidence: float, *, strict: bool = False) -> tuple[Whole, Whole]:
        """Intervals for the true counts, in records."""
        half = self.half(confidence, strict=strict)
        lower = (self.low - half) // self.grid
        upper = -(-(self.high + half) // self.grid)
        if self.adjusted is None:
            return lower, upper
        lower = np.minimum(np.maximum(lower, 0), self.adjusted)
        return lower, np.maximum(upper, self.adjusted)


def is_exact(facts: Mapping[str, Any]) -> bool:
    """Whether a receipt holds exactly what made a law; earlier versions wrote no such fields."""
    return "halves" in facts or "scale" in facts


def number_law(facts: Mapping[str, Any]) -> NoiseTable | UnboundedNoise:
    """Return the law of noise in released numbers, which is symmetric, in units of its grid.

    Raises ParameterError if the facts disagree, or are of an earlier version and do not tell it.
    """
    law = law_of_facts(facts) if is_exact(facts) else law_by_spread(facts)
    if law.ends is not None and sum(law.ends) != 0:
        raise ParameterError(
            f"the noise in the receipt ({law.family}) is not symmetric. Pass the frame as dpframe "
            "returned it."
        )
    return law


def each_confidence(receipt: Mapping[str, Any]) -> float:
    """Of every interval on its own, as the frame shows it."""
    together = receipt.get("simultaneous")
    return float(receipt["confidence"] if together is None else together["each"])


def check_whole(nodes: ShownNodes) -> None:
    """ParameterError where rows are missing."""
    if not nodes.whole:
        raise ParameterError(
            "intervals of other confidence need all rows of the release: ask the frame that "
            "dpframe returned, and then choose rows."
        )


def known_noise(nodes: ShownNodes) -> KnownNoise:
    """The noise of a release; ParameterError where frame and receipt do not say enough."""
    check_whole(nodes)
    mechanism, facts = nodes.receipt["mechanism"], nodes.receipt["noise"]
    if nodes.nodes.get("count") is not None and nodes.nodes["count"].dtype.kind == "f":
        raise ParameterError(
            "the numbers of this release are those of a measure, of which its receipt does not "
            f"tell the units of the noise: {NEW_RELEASE}."
        )
    if mechanism in SUMMED and nodes.alike.any():
        raise ParameterError(
            "two rows of this release read alike, so that nobody can say which rows are below "
            f"them, and what noise their counts hold: {NEW_RELEASE}."
        )
    if mechanism in (*SUMMED, *NOMINAL, *COUNTED):
        return _noise_by_intervals(
            nodes, (facts["release"],), np.zeros_like(nodes.level), _terms_of_counts(nodes), False
        )
    if str(mechanism).startswith("tree-") and nodes.receipt["keys"] and "levels" in facts:
        consistent = bool(nodes.receipt["consistent"])
        ones = np.ones_like(nodes.level)
        return _noise_by_intervals(nodes, tuple(facts["levels"]), nodes.level, ones, consistent)
    raise ParameterError(
        f"the receipt of a release by mechanism {mechanism!r} does not tell the law of every "
        f"number, so that its intervals are for confidence {nodes.receipt['confidence']:g} alone: "
        f"{NEW_RELEASE}."
    )


def _terms_of_counts(nodes: ShownNodes) -> Whole:
    """Residuals in a count: of all rows at and below it."""
    out = np.ones_like(nodes.level)
    if nodes.receipt["mechanism"] in (*NOMINAL, *COUNTED):
        return out
    for depth in range(int(nodes.level.max(initial=0)), 0, -1):
        here = np.flatnonzero((nodes.level == depth) & (nodes.ancestor >= 0))
        np.add.at(out, nodes.ancestor[here], out[here])
    return out


def _noise_by_intervals(
    nodes: ShownNodes,
    facts: tuple[Mapping[str, Any], ...],
    law: Whole,
    terms: Whole,
    consistent: bool,
) -> KnownNoise:
    """Drawn counts as far as the frame says them: by the shown count, and by both ends."""
    laws, grid = tuple(map(number_law, facts)), int(facts[0]["grid"])
    count, lower, upper = (
        nodes.frame[name].to_numpy(dtype=np.int64) for name in ("count", "lower", "upper")
    )
    far = np.iinfo(np.int64).max // 4
    noise = KnownNoise(
        laws=laws,
        law=law,
        terms=terms,
        grid=grid,
        low=np.full_like(count, -far),
        high=np.full_like(count, far),
        adjusted=count if consistent else None,
    )
    half = noise.half(
        each_confidence(nodes.receipt), strict=nodes.receipt.get("simultaneous") is not None
    )
    # lower = (drawn - half) // grid, then at least 0 and at most the shown count where adjusted
    low = np.where(consistent & (lower == 0), -far, lower * grid + half)
    high = np.where(consistent & (lower == count), far, (lower + 1) * grid - 1 + half)
    # upper = -(-(drawn + half) // grid), then at least the shown count where adjusted
    high = np.minimum(high, upper * grid - half)
    low = np.maximum(
        low,
        np.where(consistent & (upper == count), -far, _least_before_rounding(upper, grid) - half),
    )
    if not consistent:  # the shown count is the drawn one, halves up
        least, most = count * grid - grid // 2, count * grid + (grid - 1) // 2
        fits = (lower >= (least - half) // grid) & (upper <= -(-(most + half) // grid))
        # ends that were computed anew are those of a range around the drawn one
        low = np.where(fits, np.maximum(least, lower * grid + half), 1)
        high = np.where(fits, np.minimum(most, upper * grid - half), 0)
    if (low > high).any():
        raise ParameterError(
            "the intervals of this frame are not those of the noise that its receipt tells, so "
            f"that others cannot be told from them: {NEW_RELEASE}."
        )
    return KnownNoise(
        laws=laws, law=law, terms=terms, grid=grid, low=low, high=high, adjusted=noise.adjusted
    )


def _least_before_rounding(upper: Whole, grid: int) -> Whole:
    """The least sum of a drawn count and half a width that is rounded up to ``upper``."""
    return (upper - 1) * grid + 1
