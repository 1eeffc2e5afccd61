"""Compare the receipt of noisy counts, or of one sketch a level, with its proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe.verifier.noise_receipts import same_noise, same_number, same_scale
from dpframe.verifier.numbers import is_number
from dpframe.verifier.proof import Proof, positive_number
from dpframe.verifier.verdict import check_claim


def check_count_levels(receipt: Mapping[str, Any], proof: Proof, units: int) -> None:
    """Check the number of levels (of the hierarchy, and the total), their thresholds and their
    noise. Where keys are not listed, every level but the total has a threshold."""
    told, height = proof.game.get("levels"), receipt.get("height")
    levels = [each for each in told if isinstance(each, Mapping)] if isinstance(told, list) else []
    noise = receipt.get("noise")
    facts = noise if isinstance(noise, Mapping) else {}
    if receipt.get("mechanism") == "synthetic-privhp":
        _check_generator_levels(receipt, proof, levels, facts)
        return
    total, listed = receipt.get("remainder"), receipt.get("keys") is not None
    check_claim(isinstance(total, bool), f"the receipt has remainder {total!r}")
    assert isinstance(total, bool)
    places = [each.get("least") is None for each in levels]
    open_ones = sum(places)
    check_claim(
        places == [True] * total + [listed] * (height or 0),
        f"the receipt has {height!r} levels {'and' if total else 'without'} a total, "
        f"{'listed' if listed else 'with thresholds'}; the proof has {len(levels)} levels, "
        f"{open_ones} of them without a threshold",
    )
    _check_thresholds(receipt, levels, units)
    told = facts.get("levels")
    if told is None:  # histograms have one law for all levels
        each = [(name, level) for level in levels for name in ("test", "release")]
        for name, level in each:
            same_noise(facts.get(name), proof.table(level.get("table"), "table"), name, units)
        return
    check_claim(
        isinstance(told, list) and len(told) == len(levels), "the receipt has noise of others"
    )
    for number, (one, level) in enumerate(zip(told or (), levels, strict=True)):
        _check_level_noise(one, level, proof, f"level {number}", units)


def _check_level_noise(
    facts: Any, level: Mapping[str, Any], proof: Proof, name: str, units: int
) -> None:
    if "table" in level:
        same_noise(facts, proof.table(level["table"], "table"), name, units)
    else:
        same_scale(facts, positive_number(level.get("scale"), "scale"), name, units)


def _check_thresholds(
    receipt: Mapping[str, Any], levels: list[Mapping[str, Any]], units: int
) -> None:
    """Check that the threshold of the receipt, in whole counts, is at least the largest of all
    levels: no node is shown with fewer than it says. Histograms have one threshold on all
    levels."""
    least = [each["least"] for each in levels if each.get("least") is not None]
    told = receipt.get("threshold")
    if not least:
        check_claim(told is None, f"the receipt has threshold {told!r}, the proof has none")
        return
    alike = receipt.get("mechanism") in ("laplace", "gaussian")
    check_claim(
        all(type(each) is int for each in least)
        and is_number(told)
        and (told * units >= max(least) if not alike else {told * units} == set(least)),
        f"the receipt has threshold {told!r}, the proof {max(map(str, least))} in parts of {units}",
    )


def _check_generator_levels(
    receipt: Mapping[str, Any],
    proof: Proof,
    levels: list[Mapping[str, Any]],
    noise: Mapping[str, Any],
) -> None:
    """Check that a record moves one count on each level down to floor(log2 k), and one cell of
    every row of a sketch on each level below; and the scale of each level."""
    height, k, rows = (receipt.get(name) for name in ("height", "k", "rows"))
    check_claim(
        type(k) is int and k > 0 and type(rows) is int and rows > 0 and type(height) is int,
        "the receipt has no numbers of levels, counts and rows",
    )
    exact = min(int(height or 0), int(k or 1).bit_length() - 1)
    wanted = [1 if level <= exact else int(rows or 0) for level in range(int(height or 0) + 1)]
    moved = [each.get("moves", 1) for each in levels]
    check_claim(
        moved == wanted and proof.game.get("units") == 1,
        f"a record moves {sum(wanted)} counts of {len(wanted)} levels by 1, in the proof "
        f"{len(moved)} levels have others",
    )
    scales = noise.get("scales")
    check_claim(
        isinstance(scales, list) and len(scales) == len(levels),
        "the receipt has no scale of every level",
    )
    for number, (told, level) in enumerate(zip(scales or (), levels, strict=True)):
        same_number(
            told, positive_number(level.get("scale"), "scale"), f"at level {number} the scale"
        )


def check_level_sketches(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Check the sketches of all levels: their number, counters, threshold and noise."""
    kind, game = proof.game.get("kind"), proof.game
    height, told = receipt.get("height"), receipt.get("threshold")
    check_claim(
        game.get("sketches") == height,
        f"the receipt has {height!r} levels, the proof {game.get('sketches')!r}",
    )
    if kind == "merged":
        counters, changed = receipt.get("counters"), proof.whole("changed", 1)
        check_claim(
            counters == changed, f"a user moves {counters!r} counts, in the proof {changed}"
        )
    else:
        check_claim(game.get("standard") is None, "sketches of a stream remove zeros late")
    least = proof.whole("least" if kind == "merged" else "theta")
    check_claim(told == least, f"the receipt has threshold {told!r}, the proof {least}")
    noise = receipt.get("noise")
    for name in ("test", "release"):
        facts = noise.get(name) if isinstance(noise, Mapping) else None
        same_noise(facts, proof.law("noise"), name)
