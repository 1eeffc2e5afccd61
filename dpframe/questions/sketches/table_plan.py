"""The base class of releases with bounded noise: a table, and a threshold."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from dpframe.asking.card import Line
from dpframe.noise import NoiseTable
from dpframe.questions.sketches.base_sketch_plan import N, SketchPlan


class BoundedLaws(Protocol):
    """Laws with bounded noise."""

    @property
    def noise(self) -> NoiseTable: ...

    @property
    def delta(self) -> float: ...


T = TypeVar("T", bound=BoundedLaws)


@dataclass(frozen=True, kw_only=True)
class TablePlan(SketchPlan[T, N]):
    """Noise from a table, and a threshold that hides what only one of two neighbours stores."""

    compared: ClassVar[str] = "noisy count"
    """What the threshold is compared with, in words."""

    @property
    @abstractmethod
    def threshold(self) -> int:
        """The threshold in units of ``1/grid``; for one stream, U - alpha_hat is compared with
        it."""

    @property
    def noise_sd(self) -> float:
        return self.laws.noise.sd / self.grid

    @cached_property
    def unpublished(self) -> int:
        """The q with P(Z < -q) <= the chance to miss, for the bound on keys that are not
        published."""
        return self.reach(self._miss)

    def reach(self, mass: float) -> int:
        noise = self.laws.noise
        return max(0, int(np.argmax(noise.at_least() <= mass)) + noise.lowest - 1)

    def key_lines(self) -> list[Line]:
        shown = f"{self.compared} from which keys are shown"
        return [
            Line("threshold", self.threshold / self.grid, shown),
            self.delta_line,
        ]
