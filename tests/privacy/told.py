"""A proof of a game, written by hand."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from dpframe.noise import NoiseTable


def told(
    game: Mapping[str, Any],
    *tables: NoiseTable,
    epsilon: float = 1.0,
    delta: float = 1e-4,
    group: int = 1,
) -> str:
    """The text of a proof with these tables, as docs/proofs/format.md specifies it."""
    weights = (base64.b64encode(law.weights.astype("<u8").tobytes()).decode() for law in tables)
    told = [
        {"lowest": int(law.lowest), "weights": w} for law, w in zip(tables, weights, strict=True)
    ]
    promise = {"epsilon": epsilon, "delta": delta, "group": group}
    known = {"format": "dpframe proof", "version": 1, "promise": promise}
    return json.dumps({**known, "game": dict(game), "tables": told})
