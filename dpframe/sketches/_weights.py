"""Weigh users at their values, in whole numbers: loops over users, for long tables. Compiled.

User ``u`` has the values ``value[starts[u] : starts[u + 1]]``.
"""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.sketches._compile import compile_loop

Whole = NDArray[np.int64]
Values = NDArray[np.int32]


@compile_loop
def importance_squares(starts: Whole, value: Values, items: int, importance: Whole) -> Whole:
    """Return for every user the sum of the squared importance of the first ``items`` values."""
    out = np.zeros(len(starts) - 1, dtype=np.int64)
    for u in range(len(out)):
        total = 0
        for i in range(starts[u], min(starts[u + 1], starts[u] + items)):
            one = importance[value[i]]
            total += one * one
        out[u] = total
    return out


@compile_loop
def value_weights(
    starts: Whole, value: Values, items: int, importance: Whole, length: Whole, norm: int
) -> Whole:
    """Return for every value the sum over users of ``norm`` times its importance, divided by the
    user's ``length`` and rounded down. Only the first ``items`` values of a user count."""
    out = np.zeros(len(importance), dtype=np.int64)
    for u in range(len(length)):
        if length[u] == 0:
            continue
        for i in range(starts[u], min(starts[u + 1], starts[u] + items)):
            one = importance[value[i]]
            if one > 0:
                out[value[i]] += norm * one // length[u]
    return out


@compile_loop
def mark_first_values(starts: Whole, value: Values, items: int, values: int) -> NDArray[np.bool_]:
    """Return which values are among the first ``items`` of at least one user."""
    out = np.zeros(values, dtype=np.bool_)
    for u in range(len(starts) - 1):
        for i in range(starts[u], min(starts[u + 1], starts[u] + items)):
            out[value[i]] = True
    return out


@compile_loop
def count_found_values(starts: Whole, value: Values, found: NDArray[np.bool_]) -> Whole:
    """Return for every user how many of the ``found`` values the user has."""
    out = np.zeros(len(starts) - 1, dtype=np.int64)
    for u in range(len(out)):
        many = 0
        for i in range(starts[u], starts[u + 1]):
            if found[value[i]]:
                many += 1
        out[u] = many
    return out


@compile_loop
def weight_sums(starts: Whole, value: Values, found: NDArray[np.bool_], weight: Whole) -> Whole:
    """Return for every ``found`` value the sum of the weights of its users; 0 for other values."""
    out = np.zeros(len(found), dtype=np.int64)
    for u in range(len(weight)):
        for i in range(starts[u], starts[u + 1]):
            if found[value[i]]:
                out[value[i]] += weight[u]
    return out
