"""The exact distributions of releases of naive Misra-Gries sketches (``tests/naive.py``).

Written from the paper's text with dictionaries and integers, apart from the package. Probabilities
are exact integers, in units of 2**-64 a draw.

A pair of neighbours is compared by its ``profile``: outcomes with the same ratio of
probabilities are added up, which keeps the divergence and makes products of levels small.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from dpframe.noise import TOTAL, NoiseTable
from tests import naive

Counters = Mapping[int, int]
"""Keys and counters; negative keys are dummies, never published."""
Sketch = tuple[int, Counters]
"""Number of decrements, counters."""
Law = dict[Any, int]
"""Outputs and their weights; the weights of a law have a common sum."""


class Profile(NamedTuple):
    """Masses (P, Q) of sets of outcomes of equal ratio, as integers over one total."""

    total: int
    masses: list[tuple[int, int]]


# -- sketches ----------------------------------------------------------------------------------


def misra_gries(stream: Sequence[int], k: int) -> Sketch:
    counters, decrements = naive.misra_gries(stream, k)
    return decrements, {key if real else key - k: n for (real, key), n in counters.items()}


def standard_misra_gries(stream: Sequence[int], k: int) -> Sketch:
    counters, decrements = naive.standard_misra_gries(stream, k)
    return decrements, counters


def post_processed(counters: Counters, k: int) -> Counters:
    """Algorithm 3 in units of 1/(k + 1): every counter minus the mean over k + 1."""
    total = sum(counters.values())
    return {x: (k + 1) * c - total for x, c in counters.items()}


def positive(values: Counters) -> Counters:
    return {x: v for x, v in values.items() if v > 0}


def added(parts: Iterable[Counters]) -> Counters:
    out: Counter[int] = Counter()
    for part in parts:
        out.update(part)
    return out


# -- neighbours --------------------------------------------------------------------------------


def streams(universe: int, longest: int) -> Iterator[tuple[int, ...]]:
    for length in range(longest + 1):
        yield from itertools.product(range(universe), repeat=length)


def neighbours(stream: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Every stream with one record less."""
    for i in range(len(stream)):
        yield (*stream[:i], *stream[i + 1 :])


def sketch_pairs(
    build: Callable[[Sequence[int]], Sketch],
    universe: int,
    longest: int,
    others: Iterable[tuple[int, ...]] = (),
) -> set[tuple[tuple[int, tuple[tuple[int, int], ...]], ...]]:
    """Different pairs of neighbouring sketches, decrements counted from the smaller one."""
    pairs = set()
    for stream in itertools.chain(streams(universe, longest), others):
        a, more = build(stream)
        for fewer in neighbours(stream):
            b, less = build(fewer)
            pairs.add(((a - b, tuple(sorted(more.items()))), (0, tuple(sorted(less.items())))))
    return pairs


# -- releases ----------------------------------------------------------------------------------


def weights(noise: NoiseTable) -> list[tuple[int, int]]:
    return list(enumerate(noise.weights.tolist(), start=noise.lowest))


def one_counter(value: int, noise: Any, least: int, whole: int) -> list[tuple[int | None, int]]:
    """Published value (None if below ``least``) and weight."""
    shown = [(value + z, w) for z, w in weights(noise) if value + z >= least]
    hidden = whole - sum(w for _, w in shown)
    return [(None, hidden), *shown] if hidden else list(shown)


def counters_law(values: Counters, noise: Any, least: int, whole: int = TOTAL) -> Law:
    """Independent noise on every value; those of at least ``least`` are published by key."""
    law: Law = {(): 1}
    for x in sorted(values):
        step: Law = {}
        for shown, w in one_counter(values[x], noise, least, whole):
            for out, mass in law.items():
                new = out if shown is None or x < 0 else (*out, (x, shown))
                step[new] = step.get(new, 0) + mass * w
        law = step
    return law


def release_law(sketch: Sketch, noise: NoiseTable, shared: NoiseTable, theta: int) -> Law:
    """alpha_hat = alpha + eta, and U + Z of the keys with U + Z >= alpha_hat + theta."""
    decrements, counters = sketch
    raised = {x: c + decrements for x, c in counters.items()}
    law: Law = {}
    for eta, w in weights(shared):
        released = decrements + eta
        for out, mass in counters_law(raised, noise, released + theta).items():
            law[released, out] = law.get((released, out), 0) + w * mass
    return law


def released(laws: Any) -> Callable[[Sketch], Law]:
    """The release with these laws."""
    return lambda sketch: release_law(sketch, laws.noise, laws.shared, laws.theta)


# -- divergence --------------------------------------------------------------------------------


def profile(p: Law, q: Law) -> Profile:
    """Masses of P and Q, over a common total, added up where their ratio is the same."""
    p_total, q_total = sum(p.values()), sum(q.values())
    total = math.lcm(p_total, q_total)
    up, vp = total // p_total, total // q_total
    pairs = ((p.get(out, 0) * up, q.get(out, 0) * vp) for out in {*p, *q})
    return Profile(total, summed(pairs))


def summed(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for a, b in pairs:
        common = math.gcd(a, b)
        if not common:
            continue  # an outcome of neither
        masses = found.setdefault((a // common, b // common), [0, 0])
        masses[0] += a
        masses[1] += b
    return sorted((a, b) for a, b in found.values())


def reverse(given: Profile) -> Profile:
    """The profile of (Q, P)."""
    return Profile(given.total, sorted((b, a) for a, b in given.masses))


def product(first: Profile, second: Profile) -> Profile:
    """Two independent releases."""
    pairs = ((a * c, b * d) for a, b in first.masses for c, d in second.masses)
    return Profile(first.total * second.total, summed(pairs))


def divergence(given: Profile, epsilon: float) -> float:
    """D(P || Q): the sum of (P - e^epsilon Q)+, rounded once."""
    over, under = math.exp(epsilon).as_integer_ratio()
    apart = sum(max(under * a - over * b, 0) for a, b in given.masses)
    return float(Fraction(apart, under * given.total))


def both_ways(given: Profile, epsilon: float) -> float:
    return max(divergence(given, epsilon), divergence(reverse(given), epsilon))


def profiles_of(pairs: Iterable[Any], release: Callable[[Sketch], Law]) -> list[Profile]:
    """The different profiles of pairs of sketches."""
    law = cache(lambda sketch: release((sketch[0], dict(sketch[1]))))
    return different(profile(law(p), law(q)) for p, q in pairs)


def different(profiles: Iterable[Profile]) -> list[Profile]:
    return list({(one.total, *one.masses): one for one in profiles}.values())


def furthest(profiles: Iterable[Profile], epsilon: float) -> float:
    """The largest divergence of any pair, in both directions."""
    return max(both_ways(one, epsilon) for one in profiles)


def values_profile(p: Counters, q: Counters, noise: NoiseTable, least: int) -> Profile:
    """Profile of two releases of independent counters: only those that differ count.

    ``p`` and ``q`` hold what each side stores; what is not stored gets no noise.
    """
    out = Profile(1, [(1, 1)])
    for x in sorted({*p, *q}):
        if p.get(x) != q.get(x):
            laws = [counters_law({x: s[x]} if x in s else {}, noise, least) for s in (p, q)]
            out = product(out, profile(*laws))
    return out
