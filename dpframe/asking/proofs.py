"""Proofs of receipts: what a claim rests on, written down for a verifier that shares no code.

A proof is a text of JSON: the promise, the game that the mechanism is, the tables that it draws
from. It is made from a plan, so that no number in it can come from data (docs/verifying.md). Plans
with a proof have a ``game``; plans without a game have no proof yet.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.noise import NoiseTable, UnboundedNoise

if TYPE_CHECKING:
    from dpframe.accounting.tree_levels import TreeLaws
    from dpframe.asking.plan_protocols import Draws

FORMAT, VERSION = "dpframe proof", 1

LONGEST_INSIDE = 40_000
"""Most characters of a proof inside a receipt; of a longer proof the receipt has the digest."""

LONGEST_ALONE = 400_000
"""Most characters where no arguments make the plan again: no file holds the sketch."""


@dataclass(frozen=True, eq=False)
class Game:
    """A mechanism as a verifier sees it: facts as plain JSON types, which number the tables."""

    facts: Mapping[str, object]
    tables: tuple[NoiseTable, ...] = ()
    group: int = 1


def number_tables(*tables: NoiseTable) -> tuple[list[int], tuple[NoiseTable, ...]]:
    """Number ``tables``: return the number of each, and the different tables in this order."""
    first: dict[tuple[int, bytes], int] = {}
    own: list[NoiseTable] = []
    numbers = []
    for table in tables:
        key = (table.lowest, table.weights.tobytes())
        if key not in first:
            first[key] = len(own)
            own.append(table)
        numbers.append(first[key])
    return numbers, tuple(own)


def counts_game(laws: TreeLaws, least: Sequence[int | None], moves: int) -> Game:
    """Return the game of counts that move by one, or by the shares of a user.

    There is one count for each of ``laws``; it is shown from ``least`` on, always if that is None.
    """
    bounded = [noise for noise in laws.noises if isinstance(noise, NoiseTable)]
    numbers, tables = number_tables(*bounded)
    levels: list[dict[str, object]] = [
        {
            **({"table": numbers[n]} if bounded else {}),
            **({"scale": _law_scale(noise, laws.scales[n])} if laws.family == "laplace" else {}),
            "least": shown,
        }
        for n, (noise, shown) in enumerate(zip(laws.noises, least, strict=True))
    ]
    return Game({"kind": "counts", "units": laws.grid, "levels": levels}, tables, moves)


def _law_scale(noise: NoiseTable | UnboundedNoise, scale: float) -> float | str:
    """Return the scale of unbounded noise exactly, in units; of a table ``scale``, in records."""
    return str(noise.scale) if isinstance(noise, UnboundedNoise) else scale


def proof_text(plan: Draws[Any, Any]) -> str | None:
    """Return the proof of a plan; None if its mechanism has no proof yet."""
    game: Game | None = getattr(plan, "game", None)
    if game is None:
        return None
    budget = plan.budget
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "promise": {"epsilon": budget.epsilon, "delta": budget.delta, "group": game.group},
        "game": dict(game.facts),
        "tables": [_table_json(table) for table in game.tables],
    }
    return json.dumps(whole, allow_nan=False)


def _table_json(table: NoiseTable) -> dict[str, Any]:
    raw = table.weights.astype(np.dtype("<u8"), copy=False).tobytes()
    return {"lowest": int(table.lowest), "weights": base64.b64encode(raw).decode()}


UNKNOWN = "no proof is written for releases of this mechanism yet: its promise rests on its tests"


def proof_facts(plan: Draws[Any, Any], question: str) -> dict[str, Any]:
    """Return the facts on the proof that a receipt holds.

    These are its digest, and its text if that is short; else the question and the arguments that
    make the text again.
    """
    text = proof_text(plan)
    facts: dict[str, Any] = {"version": VERSION, "sha256": None, "text": None}
    if text is None:
        return {"proof": {**facts, "why": UNKNOWN}}
    facts["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    arguments = getattr(plan, "request", None)
    if len(text) <= (LONGEST_ALONE if arguments is None else LONGEST_INSIDE):
        return {"proof": {**facts, "text": text}}
    return {"proof": {**facts, "question": question, "arguments": arguments}}
