"""PI-RAPPOR: reports of a few numbers in place of a vector of all cells.

Feldman, Talwar, "Lossless Compression of Efficient Private Local Randomizers" (2021), Algorithms 3
to 5, with the speed-up of Chadha et al. (2023), Appendix B. A report is a random affine function
over a prime field; the bit that it reports for a cell w is whether its value at w is among the
c smallest elements. Bits have the chances of one-hot reports. The bit of the held cell is
independent of any other bit; two other bits need not be independent if a cell is held.

There are three differences. First, the appendix takes c = floor(q / (e^el + 1)), so that a0 = c/q
is below 1/(e^el + 1) and the local epsilon, log((q - c)/c), above el: with el = 4 and 16
completions (q = 59, c = 1) it is 4.06. Here c is rounded up. Second, q is also at least
(e^el + 1)/(e^el - 1), so that c stays below q/2, where likelihood ratios turn over. Third, the bits
of one report are not independent altogether, so the exact accountant of sums does not hold: use
``accountant="shuffle"``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.noise import uniform

LARGEST = 2**31
"""Largest size of the field: products stay within 64 bits."""


class PiRappor:
    """Local randomiser and frequency oracle for the cells of one iteration.

    Parameters
    ----------
    prefixes
        Number of prefixes of the iteration.
    segment
        Bits below each prefix: cell number = prefix number * 2^segment + value.
    local_epsilon
        el, above 0.

    Privacy
    -------
    :meth:`randomize` is el-differentially private in the local model.

    Examples
    --------
    >>> from dpframe.federated import PiRappor
    >>> oracle = PiRappor(1, 3, local_epsilon=4.0)
    >>> sums = oracle.aggregate(oracle.randomize(5) for _ in range(400))
    >>> int(sums.argmax())
    5
    """

    def __init__(self, prefixes: int, segment: int, local_epsilon: float) -> None:
        if not local_epsilon > 0:
            raise ParameterError(f"local_epsilon ({local_epsilon:g}) must be above 0.")
        odds = math.exp(min(local_epsilon, 30.0))
        least = max(odds + 1, 2**segment, (odds + 1) / math.expm1(min(local_epsilon, 30.0)))
        if least >= LARGEST:
            raise ParameterError(
                f"segment ({segment}) and local_epsilon ({local_epsilon:g}) need over 2^31 "
                "elements. Lower the segment, or move local_epsilon towards 1."
            )
        self.prefixes, self.segment = prefixes, segment
        self.field = _prime(math.ceil(least))
        self.small = math.ceil(self.field / (math.exp(local_epsilon) + 1))
        self.local_epsilon = math.log((self.field - self.small) / self.small)
        self._digits = 0
        while self.field**self._digits < prefixes:
            self._digits += 1

    @property
    def silence(self) -> float:
        """a0: the probability with which the bit of a cell that is not held is 1."""
        return self.small / self.field

    def randomize(self, cell: int | None) -> NDArray[np.int64]:
        """Return what a device sends: int64, shape (d + 1,). Pass None to report nothing."""
        slopes = uniform(self.field, self._digits + 1)
        if cell is None:
            return np.append(uniform(self.field, 1), slopes)
        if not 0 <= cell < self.prefixes << self.segment:
            raise ParameterError(f"cell ({cell}) must be from 0 to {self._cells - 1}.")
        high = int(uniform(2, 1)[0]) == 0
        value = int(uniform(self.field - self.small if high else self.small, 1)[0])
        value += self.small if high else 0
        point = np.append(self._points(np.array([cell >> self.segment]))[0], cell % self._values)
        inner = int(sum(int(a) * int(b) for a, b in zip(slopes, point, strict=True)))
        return np.append((value - inner) % self.field, slopes)

    def aggregate(self, reports: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the sums of the bits of all cells: int64, shape (prefixes * 2^segment,)."""
        sums = np.zeros((self.prefixes, self._values), dtype=np.int64)
        points = self._points(np.arange(self.prefixes))
        rows = np.repeat(np.arange(self.prefixes), self.small)
        for report in reports:
            start = np.full(self.prefixes, int(report[0]))
            for slope, column in zip(report[1:-1], points.T, strict=True):
                start = (start + slope * column) % self.field
            last = int(report[-1])
            if last == 0:
                sums[start < self.small] += 1
                continue
            inverse = pow(last, -1, self.field)
            values = (np.arange(self.small) - start[:, None]) % self.field * inverse % self.field
            inside = values.ravel() < self._values
            np.add.at(sums, (rows[inside], values.ravel()[inside]), 1)
        return sums.ravel()

    def estimate(self, sums: NDArray[np.int64], *, devices: int) -> NDArray[np.float64]:
        """Return unbiased estimates of how many devices hold each cell."""
        return np.asarray((sums - devices * self.silence) / (0.5 - self.silence))

    @property
    def _values(self) -> int:
        return 1 << self.segment

    @property
    def _cells(self) -> int:
        return self.prefixes << self.segment

    def _points(self, prefixes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return prefix numbers as digits to the base of the field."""
        digits = [prefixes // self.field**i % self.field for i in range(self._digits)]
        return np.stack(digits, axis=1) if digits else np.zeros((len(prefixes), 0), dtype=np.int64)


def _prime(least: int) -> int:
    """Return the smallest prime from ``least`` on."""
    n = least
    while any(n % d == 0 for d in range(2, math.isqrt(n) + 1)):
        n += 1
    return n
