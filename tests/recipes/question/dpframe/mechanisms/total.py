"""The number of all records. Neighbours: one record, which moves it by one.

Bounded Laplace noise (Dwork, McSherry, Nissim, Smith, 2006), whose cost is computed exactly.
"""

from __future__ import annotations

import numpy as np

from dpframe.accounting.losses import composed_delta
from dpframe.counts import CountTree, NoisyNodes
from dpframe.noise import NoiseTable


def cost(noise: NoiseTable, *, epsilon: float) -> float:
    """Delta at ``epsilon``."""
    return composed_delta(noise, levels=1, epsilon=epsilon)


def run(tree: CountTree, *, noise: NoiseTable) -> NoisyNodes:
    """Perturb the root."""
    count = tree.count[:1] + noise.draw(1)
    return NoisyNodes(
        level=tree.level[:1],
        ancestor=np.array([-1]),
        residual=count,
        count=count,
        terms=np.array([1]),
        keys=tuple(key.slice(0, 1) for key in tree.keys),
    )
