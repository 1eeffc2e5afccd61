"""PI-RAPPOR in full: every report of small fields with its exact probability."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from dpframe.errors import ParameterError
from dpframe.federated import PiRappor


def pi_law(oracle: PiRappor, cell: int | None) -> dict[tuple[int, ...], Fraction]:
    """Exact law of a report, over every outcome of every draw of the shipped code."""
    out: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    path: list[int] = []
    while True:
        sizes: list[int] = []

        def draw(n: int, size: int, sizes: list[int] = sizes) -> np.ndarray:
            values = []
            for _ in range(size):
                if len(sizes) == len(path):
                    path.append(0)
                values.append(path[len(sizes)])
                sizes.append(n)
            return np.array(values, dtype=np.int64)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dpframe.federated.encoding.uniform", draw)
            report = oracle.randomize(cell)
        out[tuple(report.tolist())] += Fraction(1, math.prod(sizes))
        while path and path[-1] == sizes[len(path) - 1] - 1:
            path.pop()
        if not path:
            return out
        path[-1] += 1


def pi_worst(laws: list[Mapping[tuple[int, ...], Fraction]]) -> float:
    """The largest log ratio of likelihoods of a report."""
    every = set().union(*laws)
    zero = Fraction(0)
    return max(
        math.log(max(law.get(r, zero) for law in laws) / min(law[r] for law in laws)) for r in every
    )


@pytest.mark.parametrize(
    ("prefixes", "segment", "el"), [(1, 1, 0.1), (1, 1, 0.5), (2, 1, 1.0), (3, 1, 2.0), (1, 2, 0.3)]
)
def test_pi_rappor_is_locally_private(prefixes: int, segment: int, el: float) -> None:
    """Law: every report, from every cell or none, has ratios of at most e^el, and of as it says."""
    oracle = PiRappor(prefixes, segment, el)
    cells = [None, *range(prefixes << segment)]
    worst = pi_worst([pi_law(oracle, c) for c in cells])
    assert worst == pytest.approx(oracle.local_epsilon, rel=1e-9)
    assert 0 < oracle.local_epsilon <= el * (1 + 1e-12)


def test_it_never_costs_more_than_it_was_asked_for() -> None:
    """Law: for every local epsilon the small elements are fewer than half of the field."""
    for el in np.geomspace(1e-3, 15, 200).tolist():
        oracle = PiRappor(1, 3, el)
        assert 2 * oracle.small < oracle.field
        assert 0 < oracle.local_epsilon <= el * (1 + 1e-12)


def test_the_rounding_of_the_appendix_is_rejected() -> None:
    """Planted bug: as many small elements as printed, rounded down, cost more than el."""
    oracle = PiRappor(1, 1, 1.0)
    oracle.small -= 1
    laws = [pi_law(oracle, c) for c in (None, 0, 1)]
    assert pi_worst(laws) > 1.0


@pytest.mark.parametrize("el", [0.0, -1.0, math.nan, 25.0, 800.0])
def test_pi_rappor_refuses_what_it_cannot_keep(el: float) -> None:
    with pytest.raises(ParameterError, match="local_epsilon"):
        PiRappor(1, 3, el)


@pytest.mark.parametrize(("prefixes", "segment", "el"), [(3, 1, 1.0), (1, 2, 0.7)])
def test_bits_have_the_chances_of_one_hot_reports(prefixes: int, segment: int, el: float) -> None:
    """Law: held cells show with chance 1/2, others with a0; two are independent as in one-hot."""
    oracle = PiRappor(prefixes, segment, el)
    a0, size = Fraction(oracle.small, oracle.field), prefixes << segment
    for cell in (None, *range(size)):
        both = np.zeros((size, size), dtype=object)
        for report, mass in pi_law(oracle, cell).items():
            bits = oracle.aggregate([np.array(report, dtype=np.int64)])
            both += np.multiply.outer(bits, bits) * mass
        one = [Fraction(1, 2) if c == cell else a0 for c in range(size)]
        assert np.diagonal(both).tolist() == one
        for i, j in itertools.combinations(range(size), 2):
            if cell in (None, i, j):
                assert both[i, j] == one[i] * one[j]


def test_pi_rappor_estimates_are_unbiased() -> None:
    """Law: the mean of the estimates over exact laws is the number of holders."""
    oracle = PiRappor(1, 1, 1.0)
    held = [0, 0, 1, None]
    sums = np.zeros(2, dtype=object)
    for cell in held:
        for report, mass in pi_law(oracle, cell).items():
            sums = sums + oracle.aggregate([np.array(report, dtype=np.int64)]) * mass
    found = oracle.estimate(sums.astype(np.float64), devices=len(held))
    assert found == pytest.approx([2, 1], abs=1e-12)
