"""Proofs of receipts: what a claim rests on, written down for a verifier that shares no code.

A proof is a text of JSON: the promise, the game that the mechanism is, the tables that it draws
from. It is made from the draws of a plan, so that no number in it can come from data
(docs/verifying.md).
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.noise import NoiseTable

if TYPE_CHECKING:
    from dpframe.asking.plan_protocols import Proves

FORMAT, VERSION = "dpframe proof", 1

LONGEST_INSIDE = 40_000
"""Most characters of a proof inside a receipt; of a longer proof the receipt has the digest."""

LONGEST_ALONE = 400_000
"""Most characters inside a receipt where no arguments make the plan again, as the sketch that it
needs is in no file."""


def proof_text(plan: Proves) -> str | None:
    """Return the proof of a plan; None if its mechanism has no proof yet."""
    draws = plan.draws
    if draws.kind is None:
        return None
    game, tables = draws.game()
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "promise": {
            "epsilon": plan.budget.epsilon,
            "delta": plan.budget.delta,
            "group": draws.group,
        },
        "game": game,
        "tables": [_table_json(table) for table in tables],
    }
    return json.dumps(whole, allow_nan=False)


def _table_json(table: NoiseTable) -> dict[str, Any]:
    raw = table.weights.astype(np.dtype("<u8"), copy=False).tobytes()
    return {"lowest": int(table.lowest), "weights": base64.b64encode(raw).decode()}


UNKNOWN = "no proof is written for releases of this mechanism yet: its promise rests on its tests"


def proof_facts(plan: Proves) -> dict[str, Any]:
    """Return the facts on the proof that a receipt holds.

    These are its digest, and its text if that is short; else the question and the arguments that
    make the text again.
    """
    text, question = proof_text(plan), plan.question
    facts: dict[str, Any] = {"version": VERSION, "sha256": None, "text": None}
    if text is None:
        return {**facts, "why": UNKNOWN}
    facts["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    if len(text) <= (LONGEST_ALONE if question is None else LONGEST_INSIDE):
        return {**facts, "text": text}
    return {**facts, "question": question, "arguments": getattr(plan, "request", None)}
