"""Whether the receipt of different users at nodes says what its proof is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import claim


def check_nodes(receipt: Mapping[str, Any], proof: Proof) -> None:
    """As many counts as one user moves, of which all are shown where keys are listed, else one, the
    total; the same threshold, and noise with the same ends."""
    levels, moved = proof.game.get("levels"), receipt.get("moved")
    each = levels if isinstance(levels, list) else []
    claim(
        type(moved) is int and moved == len(each),
        f"the receipt says that a user moves {moved!r} counts, the proof is of {len(each)}",
    )
    height, at_most = receipt.get("height"), receipt.get("at_most")
    most = 1 + height * at_most if type(height) is int and type(at_most) is int else 0
    listed = receipt.get("keys") is not None
    claim(
        len(each) <= most if listed else len(each) == most,
        f"at_most={at_most!r} nodes of {height!r} levels and the total are not the {len(each)} "
        "counts of the proof",
    )
    shown = [level.get("least") for level in each]
    wanted = [None] * most if listed else [None, *[receipt.get("threshold")] * (most - 1)]
    claim(
        shown == wanted[: len(each)],
        "the receipt shows nodes from another threshold on than the proof",
    )
    laws = [proof.table(level["table"], "table") for level in each if "table" in level]
    told = _ends(receipt.get("noise"))
    proved: set[tuple[Any, Any]] = {(law.lowest, law.highest) for law in laws} or {(None, None)}
    claim(
        told == proved,
        f"noise goes from and to {sorted(told, key=str)} in the receipt, in the proof "
        f"{sorted(proved, key=str)}",
    )


def _ends(noise: Any) -> set[tuple[Any, Any]]:
    """The ends of every law that a receipt tells, of one release or of levels."""
    told = [*noise.values()] if isinstance(noise, Mapping) else []
    several = [one for each in told for one in (each if isinstance(each, list | tuple) else [each])]
    facts = [one for one in several if isinstance(one, Mapping)]
    return {(one.get("lowest"), one.get("highest")) for one in facts}
