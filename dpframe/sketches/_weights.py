"""Weights of users at their values, in whole numbers: one loop where tables are long. Compiled."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.sketches._compiled import compiled

Whole = NDArray[np.int64]


@compiled
def squares_of(
    user: NDArray[np.int32], value: NDArray[np.int32], importance: Whole, users: int
) -> Whole:
    """Sums of the squared importance of the values that users have."""
    out = np.zeros(users, dtype=np.int64)
    for i in range(len(user)):
        one = importance[value[i]]
        if one > 0:
            out[user[i]] += one * one
    return out


@compiled
def weights_of(
    user: NDArray[np.int32], value: NDArray[np.int32], importance: Whole, length: Whole, norm: int
) -> Whole:
    """Sums over users of their norm times the importance of a value over the length of all."""
    out = np.zeros(len(importance), dtype=np.int64)
    for i in range(len(user)):
        one = importance[value[i]]
        if one > 0:
            out[value[i]] += norm * one // length[user[i]]
    return out


@compiled
def held_by(user: NDArray[np.int32], value: NDArray[np.int32], found: NDArray[np.bool_]) -> Whole:
    """How many of the found values every user has."""
    out = np.zeros(user.max() + 1, dtype=np.int64)
    for i in range(len(user)):
        if found[value[i]]:
            out[user[i]] += 1
    return out


@compiled
def sums_at(
    user: NDArray[np.int32], value: NDArray[np.int32], found: NDArray[np.bool_], weight: Whole
) -> Whole:
    """Sums over users of their weight at the found values."""
    out = np.zeros(len(found), dtype=np.int64)
    for i in range(len(user)):
        if found[value[i]]:
            out[value[i]] += weight[user[i]]
    return out
