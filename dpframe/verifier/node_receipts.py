"""Compare the receipt of different users at nodes with its proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe.verifier.noise_receipts import same_noise, same_scale
from dpframe.verifier.proof import Proof, positive_number
from dpframe.verifier.verdict import check_claim


def check_nodes(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Check that the proof has as many counts as one user moves, the threshold of the receipt, and
    the noise of the receipt on every level. Where keys are listed every count is shown, else only
    the total is shown in any case."""
    levels, game = proof.game.get("levels"), proof.game
    each = [one for one in levels if isinstance(one, Mapping)] if isinstance(levels, list) else []
    listed = receipt.get("mechanism") != "items"
    check_claim(
        (receipt.get("keys") is not None) == listed,
        "keys are listed in one of receipt and mechanism, and found in the other",
    )
    times = _moved_counts(receipt, listed=listed)
    check_claim(
        receipt.get("moved") == sum(times) == len(each) and game.get("units") == 1,
        f"a user moves {sum(times)} counts by 1; the receipt says {receipt.get('moved')!r}, and "
        f"the proof is of {len(each)}",
    )
    shown = [level.get("least") for level in each]
    least = receipt.get("threshold")
    wanted = [None] + [least] * (len(each) - 1)
    check_claim((least is None) == listed, f"the receipt has threshold {least!r}")
    check_claim(shown == wanted, "the receipt shows nodes from another threshold on than the proof")
    noise = receipt.get("noise")
    facts = noise if isinstance(noise, Mapping) else {}
    told = facts.get("levels") if listed else [facts.get("release")] * len(times)
    check_claim(
        isinstance(told, list) and len(told) == len(times), "the receipt has noise of others"
    )
    laws = [law for law, number in zip(told or (), times, strict=True) for _ in range(number)]
    for law, level in zip(laws, each, strict=True):
        if "table" in level:
            same_noise(law, proof.table(level["table"], "table"), "count")
        else:
            same_scale(law, positive_number(level.get("scale"), "scale"), "count", 1)


def _moved_counts(receipt: Mapping[str, Any], *, listed: bool) -> list[int]:
    """How many counts of each level one user moves: the total, and on every other level as many
    nodes as a user counts at, or as many as are listed if these are fewer."""
    height, most = receipt.get("height"), receipt.get("at_most")
    check_claim(
        type(most) is int and 0 < most < 10**6, f"a user counts at {most!r} nodes of a level"
    )
    check_claim(type(height) is int and height < 10**6, f"the receipt has height {height!r}")
    assert type(height) is int
    assert type(most) is int
    if not listed:
        return [1, *[most] * height]
    nodes = receipt.get("listed")
    check_claim(
        isinstance(nodes, list)
        and len(nodes) == height
        and all(type(number) is int and number > 0 for number in nodes),
        "the receipt does not say how many nodes of each level are listed",
    )
    return [1, *[min(most, number) for number in nodes or ()]]
