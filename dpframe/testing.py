"""Reproducible noise for tests. Importing this module outside of tests is a privacy bug.

There is no seed in the public interface; this context manager is the one way to fix the bits
that every draw consumes, and it is visible in review.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import replaced_bits


@contextmanager
def seeded_noise(seed: int) -> Iterator[None]:
    """Within the block all noise comes from SHAKE-256 of the seed: the same on every machine."""
    drawn = 0

    def bits(n: int) -> NDArray[np.uint64]:
        nonlocal drawn
        drawn += 1
        stream = hashlib.shake_256(f"{seed}:{drawn}".encode()).digest(8 * n)
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64)

    with replaced_bits(bits):
        yield
