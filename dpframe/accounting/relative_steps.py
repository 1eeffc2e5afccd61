"""Parameters of the counts with relative error, and the proof that their equations hold.

Source: Ghazi, Kamath, Kumar, Manurangsi and Wu, "On Differentially Private Counting on Trees"
(2023), "CT" below: Lemma 23 (classification), Lemma 26 (reduction), Corollary 27. The proof of
Corollary 27 is in a version that is not printed, so the sequences are our own. d = height + 1.

**Choice.** For l steps, i = 1 the smallest threshold::

    alpha_i = a = alpha / (4 + 2 alpha)          least M_0, up to its second order
    g       = (1 - 1e-9) (1 + alpha) (1 - a) / (1 + a)
    tau_i   = tau_1 g^(i-1),   M_i = (1 + a) tau_(i+1),   M_0 = (1 + a) tau_1
    eta_i, delta_i  proportional to p^(i-1), p = g^(-1/2), with sums eta, delta
    epsilon_i       proportional to r^(i-1), r = g^(-(1 - 1/(2 L_1))), with sum epsilon
    L_i = ln(2d/eta_i),   L'_i = ln(1 + (e^(epsilon_i/2) - 1)/delta_i),   k = M_i/tau_i = (1 + a) g
    tau_1 = max(96 k L_1, 12 k L'_1) / (a epsilon_1),  at least 5/(a (1 - 1/k))

**Equations.** g > 1: (1 + alpha)(1 - a) - (1 + a) = alpha - a (2 + alpha) = alpha/2. (3) and (4)
hold by construction, the last part because l is the first with M_l >= largest. (5):
M_i = (1 - 1e-9)(1 + alpha)(1 - a) tau_i, and k > 1. (6) defines tau_min = M_0/alpha.
(2) is tau_i >= 96 k L_i/(a epsilon_i) and tau_i >= 12 k L'_i/(a epsilon_i), and holds for i = 1.
As L_1 >= ln 8, 1/2 < 1 - 1/(2 L_1) < 1, so r <= p and g r >= 1. L_i = L_1 + (i-1) ln(g)/2, and
with y = (i-1) ln(g)/(2 L_1), (g r)^(i-1) = e^y >= 1 + y = L_i/L_1: the first part. For the second,
e^(xt) - 1 <= t (e^x - 1) for t <= 1 gives L'_i <= ln(1 + (r/p)^(i-1) (...)) <= L'_1.

**With whole numbers.** By (5) M/((1 - a) tau) is in [1, 2), so c = 2. Lemma 23 needs
Delta + 2R <= a tau; it is proved there for c = M/((1-a) tau), not for whole c. Here
Delta = 2 ceil(8c/epsilon L) and R = ceil(2c/epsilon ln(...)), ln(...) <= L', so
Delta + 2R < (32 L + 8 L')/epsilon + 5 <= a tau (1/3 + 2/3)/k + 5 <= a tau, by (2) and tau_1.

The noise is discrete Laplace of scale s, for which P(|Z| > x) <= e^(-x/s) at whole x: Lemma 17's
Delta stays right. Its truncation is exact too, see ``end_mass``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from dpframe.errors import ParameterError

SCALE_GRID = 2**16
"""Scales in records are rounded up to multiples of 1 / SCALE_GRID. Up to ``LARGEST`` records, the
sampler takes such scales."""

LARGEST = 10**15
"""Largest number of records that noise in 64 bits allows for."""

MOST_EPSILON = 100
"""No guarantee beyond this epsilon is worth its name; the limit keeps exponentials finite."""

MARGIN = 1e-9
"""Relative margin where a float is rounded to the private side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One classification: CT Algorithm 1's parameters, and the noise for them.

    ``largest`` is M, ``threshold`` tau, ``tops`` c, ``slack`` Delta, ``bound`` R; counts are in
    records. ``scale`` is 2c/epsilon, rounded up, the scale of the truncated noise. The thresholds
    of the sparse vector have twice this scale, its queries four times.
    """

    largest: float
    eta: float
    alpha: float
    threshold: float
    epsilon: float
    delta: float
    tops: int
    slack: int
    scale: Fraction
    bound: int

    @property
    def least(self) -> int:
        """The smallest whole number that reaches tau."""
        return math.ceil(self.threshold)

    @property
    def cut(self) -> int:
        """Line 12: tau - Delta - R."""
        return self.least - self.slack - self.bound

    @property
    def band(self) -> int:
        """Fewest records with which a node can become top; with fewer it cannot, whatever the
        noise."""
        return self.cut - self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class RelativeLaws:
    """Parameters of CT Algorithm 2 for whole trees of ``height`` levels below the root.

    ``largest`` is M, what the caller declares, ``lowest`` M_0. ``steps`` start at i = 1, the
    smallest threshold. ``delta`` is the proved delta at ``epsilon``, at most the requested one.
    """

    height: int
    alpha: float
    eta: float
    largest: int
    lowest: float
    steps: tuple[Step, ...]
    epsilon: float
    delta: float

    @property
    def band(self) -> int:
        """Fewest records of a released node; only the root is released whatever its count."""
        return min(step.band for step in self.steps)

    @property
    def smallest_threshold(self) -> int:
        """From this count on a node is released, with a relative error within ``alpha``, with a
        chance of at least 1 - eta."""
        return math.ceil(self.lowest)


def end_mass(scale: Fraction, bound: int) -> float:
    """Return P(Z = bound) for discrete Laplace Z given |Z| <= bound, rounded up.

    P(Z = bound) is delta of the truncated noise at every epsilon >= 1/scale. Where the laws of Z
    and of Z + 1 both have mass, their ratio is at most e^(1/scale), and each law has one value that
    the other lacks.
    """
    rate = float(1 / scale)
    q = math.exp(-rate)
    last = math.exp(-rate * bound)
    return -math.expm1(-rate) * last / (1 + q - 2 * q * last) * (1 + MARGIN)


def least_truncation_bound(scale: Fraction, delta: float) -> int:
    """Return the least R with ``end_mass(scale, R) <= delta``: Lemma 16 for whole numbers."""
    rise = math.expm1(float(1 / scale))
    reach = float(scale) * math.log((2 + rise / delta) / (2 + rise))
    bound = max(1, math.ceil(reach) - 1)
    while end_mass(scale, bound) > delta:
        bound += 1
    return bound


def relative_delta(laws: RelativeLaws) -> float:
    """Return delta at ``laws.epsilon``, from the scales and bounds that are drawn from, rounded up.

    A step costs 2 c/scale and c end masses (proof in ``mechanisms/level_counts.py``). Returns 1
    if the scales do not keep epsilon, or if an empty node, or a node of one record, might become
    top.
    """
    epsilon = sum((2 * step.tops / step.scale for step in laws.steps), Fraction(0))
    if epsilon > Fraction(laws.epsilon) or laws.band < 2:
        return 1.0
    parts = (step.tops * end_mass(step.scale, step.bound) for step in laws.steps)
    return min(1.0, math.fsum(parts) * (1 + MARGIN))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sequences:
    """First terms and ratios for a number of steps; the module's docstring has the formulas."""

    a: float
    growth: float
    first: float
    shares: tuple[float, float, float]  # of epsilon, delta and eta in step 1
    ratios: tuple[float, float, float]

    def threshold(self, i: int) -> float:
        return self.first * self.growth ** (i - 1)

    def lowest(self) -> float:
        return (1 + self.a) * self.first

    def largest(self, i: int) -> float:
        return (1 + self.a) * self.threshold(i + 1)


def _sequences(
    steps: int, *, height: int, alpha: float, epsilon: float, delta: float, eta: float
) -> _Sequences:
    a = alpha / (4 + 2 * alpha)
    growth = (1 - MARGIN) * (1 + alpha) * (1 - a) / (1 + a)
    p = growth**-0.5
    eta_1, delta_1 = _first_term(eta, p, steps), _first_term(delta, p, steps)
    log_eta = math.log(2 * (height + 1) / eta_1)
    r = growth ** -(1 - 1 / (2 * log_eta))
    epsilon_1 = _first_term(epsilon, r, steps)
    log_delta = math.log1p(math.expm1(epsilon_1 / 2) / delta_1)
    k = (1 + a) * growth
    first = max(
        96 * k * log_eta / (a * epsilon_1),
        12 * k * log_delta / (a * epsilon_1),
        5 / (a * (1 - 1 / k)),
    ) * (1 + MARGIN)
    return _Sequences(
        a=a,
        growth=growth,
        first=first,
        shares=(epsilon_1, delta_1, eta_1),
        ratios=(r, p, p),
    )


def _first_term(total: float, ratio: float, steps: int) -> float:
    """Return the first term of a geometric sequence with sum ``total``, less a rounding margin."""
    return total * (1 - ratio) / (1 - ratio**steps) * (1 - MARGIN)


@lru_cache(maxsize=64)
def relative_laws(
    *, height: int, alpha: float, epsilon: float, delta: float, largest: int, eta: float
) -> RelativeLaws:
    """Return the parameters for a budget, in as few steps as lead up to ``largest``.

    Parameters
    ----------
    height
        Levels below the root, at least 1.
    alpha
        Relative error that is aimed at, in (0, 1).
    epsilon, delta
        Budget for one record, above 0; delta below 1.
    largest
        The most records that the data can have, at most 10**15; an assumption about the data
        that accuracy depends on and privacy does not.
    eta
        Chance for each node that its count is not as promised, in (0, 1/2].

    Raises
    ------
    ParameterError
        If a value is out of range, not even ``largest`` records could be told from none, or no
        noise reaches delta.
    """
    if not (0 < alpha < 1 and 0 < eta <= 0.5 and 0 < epsilon <= MOST_EPSILON and 0 < delta < 1):
        raise ParameterError(
            f"alpha ({alpha:g}) must lie between 0 and 1, eta ({eta:g}) in (0, 0.5], epsilon "
            f"({epsilon:g}) above 0 and at most {MOST_EPSILON}, delta ({delta:g}) between 0 and 1."
        )
    if not (height >= 1 and 1 <= largest <= LARGEST):
        raise ParameterError(
            f"height ({height}) must be at least 1, and largest ({largest}) between 1 and 10**15."
        )
    last = 0
    while True:
        last += 1
        chosen = _sequences(last, height=height, alpha=alpha, epsilon=epsilon, delta=delta, eta=eta)
        if chosen.largest(last) >= largest:
            break
    least = math.ceil(chosen.lowest())
    if least > largest:
        raise ParameterError(
            f"largest ({largest}) is too small: no count below {least} can be told from 0. Use the "
            f"default mechanism, raise epsilon or alpha, or declare largest={least} at least."
        )
    steps = tuple(_classification_step(chosen, i, height) for i in range(1, last + 1))
    laws = RelativeLaws(
        height=height,
        alpha=alpha,
        eta=eta,
        largest=largest,
        lowest=chosen.lowest(),
        steps=steps,
        epsilon=epsilon,
        delta=delta,
    )
    spent = relative_delta(laws)
    if spent > delta:
        raise ParameterError(
            f"no noise reaches delta={delta:g} at epsilon={epsilon:g}. Raise delta, or move "
            "epsilon towards 1."
        )
    return replace(laws, delta=spent)


def _classification_step(chosen: _Sequences, i: int, height: int) -> Step:
    epsilon, delta, eta = (
        share * ratio ** (i - 1) for share, ratio in zip(chosen.shares, chosen.ratios, strict=True)
    )
    threshold, largest = chosen.threshold(i), chosen.largest(i)
    tops = math.floor(largest / ((1 - chosen.a) * threshold)) + 1
    exact = 2 * tops / Fraction(epsilon)
    scale = Fraction(math.ceil(exact * SCALE_GRID), SCALE_GRID)
    slack = 2 * math.ceil(4 * float(scale) * math.log(2 * (height + 1) / eta) * (1 + MARGIN))
    return Step(
        largest=largest,
        eta=eta,
        alpha=chosen.a,
        threshold=threshold,
        epsilon=epsilon,
        delta=delta,
        tops=tops,
        slack=slack,
        scale=scale,
        bound=least_truncation_bound(scale, delta / tops / (1 + 3 * MARGIN)),
    )
