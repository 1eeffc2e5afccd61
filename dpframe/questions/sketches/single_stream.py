"""The sketch of one stream, whose error is released with the counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.sketch_stream import SketchLaws, sketch_delta, sketch_laws
from dpframe.asking.draws import DrawList
from dpframe.mechanisms.sketch_release import NoisySketch, single_stream
from dpframe.noise import NoiseTable
from dpframe.questions.sketches.frame import Intervals, stream_intervals
from dpframe.questions.sketches.lines import CHANCE
from dpframe.questions.sketches.release_draws import sketch_draws
from dpframe.questions.sketches.sketch_request import SketchRequest
from dpframe.questions.sketches.table_plan import TablePlan
from dpframe.sketches import SketchState


@dataclass(frozen=True, kw_only=True)
class SingleStreamPlan(TablePlan[SketchLaws, NoisySketch]):
    """The release of the counters and of the sketch error, alpha_hat."""

    compared = "noisy count less the sketch error"
    grid = 1
    sensitivity = "one record moves one of k counters C + alpha, or alpha, by 1"
    intervals = f"{CHANCE}. lower allows for the sketch error and the noise, upper for the noise"

    @property
    def threshold(self) -> int:
        return self.laws.theta

    @cached_property
    def draws(self) -> DrawList:
        return sketch_draws(
            self.laws,
            self.asked.levels,
            standard=self.counters if self.structure == "standard" else None,
            group=self.max_contributions,
            curve=self.curve,
        )

    def delta_at(self, epsilon: float) -> float:
        laws = self.laws
        return sketch_delta(
            laws.noise,
            family=laws.family,
            scale=laws.scale,
            theta=laws.theta,
            sketches=self.asked.levels,
            epsilon=epsilon,
            unshared=laws.unshared,
        )

    @cached_property
    def below(self) -> int:
        """The Q with P(Z - eta > Q) <= the part of the chance to miss that ``above`` leaves."""
        noise, shared = self.laws.noise, self.laws.shared
        missed = float(noise.at_least()[self.above + 1 - noise.lowest])
        tails = _tails(_difference(noise, shared))
        lowest = noise.lowest - shared.highest
        return max(0, int(np.argmax(tails <= self._miss - missed)) + lowest - 1)

    def run(self, counted: SketchState, /) -> NoisySketch:
        return single_stream(counted, self.laws)

    def counts(self, noisy: NoisySketch) -> Intervals:
        return stream_intervals(noisy, above=self.above, below=self.below)

    def sketch_error(self, noisy: NoisySketch) -> int:
        return noisy.decrements

    def unpublished_at_most(self, noisy: NoisySketch) -> int:
        return max(0, self.threshold - 1 + self.unpublished + noisy.decrements)


def single_stream_plan(asked: SketchRequest) -> SingleStreamPlan:
    """Choose the noise for the sketch of one stream."""
    record = asked.record
    laws = sketch_laws(
        sketches=1,
        standard=asked.structure == "standard",
        counters=asked.counters,
        epsilon=record.epsilon,
        delta=record.delta,
    )
    return SingleStreamPlan(asked=asked, laws=laws)


def _difference(noise: NoiseTable, shared: NoiseTable) -> NDArray[np.float64]:
    """The law of Z - eta, by Fourier transforms. ``ROUNDING`` covers their rounding."""
    size = len(noise.weights) + len(shared.weights) - 1
    product = np.fft.rfft(noise.pmf, size) * np.fft.rfft(shared.pmf[::-1], size)
    return np.maximum(np.fft.irfft(product, size), 0.0)


def _tails(pmf: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(value >= lowest + i) for every i, and a last entry of 0."""
    return np.append(np.cumsum(pmf[::-1])[::-1], 0.0)
