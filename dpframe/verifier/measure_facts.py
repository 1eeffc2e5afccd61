"""Derive what the receipt of a rollup must say: its measures, their bounds and the noise that they
got, and the selection of the nodes that are shown."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpframe.verifier.facts import (
    DOUBLE,
    FREE,
    Fact,
    Facts,
    Path,
    Receipt,
    scale_facts,
    table_facts,
)
from dpframe.verifier.measure_game import MeasureDraw, draws_of_game, move_of_values, sums_of_means
from dpframe.verifier.numbers import is_number
from dpframe.verifier.proof import BrokenProofError, Proof, games_of_proof
from dpframe.verifier.verdict import check_claim

TEXT = re.compile(
    r"(?P<kind>count|distinct|sum|mean)"
    r'(?:\((?:(?P<plain>[^,"()=]+)|"(?P<quoted>(?:[^"]|"")+)")?.*\))?'
)
AT_MOST = re.compile(r"at_most=([0-9]+)(?:, share=[^,\"()=]+)?\)$")
BOUNDS = re.compile(
    r'(?:[^,"()=]+|"(?:[^"]|"")+"), ([^,"()=]+), ([^,"()=]+?)(, clipped=true)?(?:, |\))'
)
"""Patterns for the text of a measure in a receipt: what it measures, how many rows or nodes of a
user count, the bounds of values."""

LEAST_SCALE = 1e-90
"""The least scale in a receipt: what larger scales lose can be written as a float."""

GRAIN = Fraction(1, 2**14)
"""The amount by which the scale of a draw may be rounded up."""

NOISE_KINDS: Mapping[str, tuple[str, ...]] = {"mean": ("above", "below"), "search": ()}
"""What a receipt calls the noise of a draw, if not by the kind of the draw: a mean has two noises,
``above`` and ``below``, and a search has none."""

POSITIVE = Fact.number("a positive number", lambda told: told > 0)


@dataclass(frozen=True, kw_only=True)
class MeasureText:
    """A measure as a receipt writes it, such as ``sum(x, 0, 10)``."""

    kind: str
    column: str
    bounds: tuple[str | None, ...]
    clipped: bool
    at_most: str | None

    @classmethod
    def read(cls, text: str) -> MeasureText:
        """Read a text; BrokenProofError if it is no measure."""
        whole, most = TEXT.fullmatch(text), AT_MOST.search(text)
        valued = whole is not None and whole["kind"] in ("sum", "mean")
        found = BOUNDS.match(text.partition("(")[2]) if valued else None
        if whole is None or (valued and found is None):
            raise BrokenProofError(f"the receipt measures {text!r}, which is not known")
        return cls(
            kind=whole["kind"],
            column=whole["plain"] or (whole["quoted"] or "").replace('""', '"'),
            bounds=found.groups()[:2] if found else (None, None),
            clipped=bool(found and found[3]),
            at_most=most[1] if most else None,
        )

    def draws(self, user: object, read: bool) -> list[str]:
        """The draws that the measure calls for, in the words of `_draw_text`. A sum that is
        ``read`` from a mean has no draw for its value."""
        most = f", at most {1 if self.at_most is None else int(self.at_most)}"
        if self.kind == "count":
            return [f"{'rows' if user is None or self.at_most is not None else 'users'}{most}"]
        if self.kind == "distinct":
            return [f"distinct{most}, singly {user is None or self.column == user}"]
        own = [] if read else [self.kind]
        more = [f"outside{most}"] if self.clipped else []
        return sorted([*["search"] * self.bounds.count("auto"), *own, *more])


def _draw_text(draw: MeasureDraw) -> str:
    named = {"at_most": "at most", "singly": "singly"}
    told = [f", {text} {draw.facts[name]}" for name, text in named.items() if name in draw.facts]
    return "".join([draw.of, *told])


def rollup_facts(receipt: Receipt, proof: Proof) -> Facts:
    """The facts of a rollup: its proof has one game of measures and, where keys are not listed, one
    selection."""
    each, listed = games_of_proof(proof), receipt["keys"] is not None
    parts = [(epsilon, part) for epsilon, _, part in each]
    measures = [part for _, part in parts if part.game.get("kind") == "measures"]
    selections = [one for one in parts if one[1].game.get("kind") in ("path", "shares")]
    check_claim(
        (len(each), len(measures), len(selections)) == (2 - listed, 1, 1 - listed),
        f"a rollup {'of listed keys measures' if listed else 'selects once, then measures'}; the "
        f"proof has {len(selections)} selections and {len(measures)} games of measures",
    )
    yield from _measures_facts(receipt, measures[0])
    if listed:
        yield from ((name, None) for name in ("threshold", "noise", "selection"))
    for epsilon, selection in selections:
        yield from _selecting_facts(receipt, selection, epsilon)


def _selecting_facts(receipt: Receipt, proof: Proof, epsilon: Fraction) -> Facts:
    """Epsilon, height, threshold and noise: in records or users, or in the unit of a sum that
    selects."""
    threshold, law, noise = proof.whole_number("threshold"), proof.law("test"), receipt["noise"]
    units = proof.whole_number("units", 1) if proof.game["kind"] == "shares" else 1
    yield "height", proof.whole_number("height", 1)
    check_claim(
        receipt["user"] is None or units > 1,
        "the receipt has users, the proof one record, which it does not divide",
    )
    worths: dict[str | None, Fraction] = {None: Fraction(1)}
    for name, one in receipt["measures"].items():
        if one["spec"].startswith("sum(") and POSITIVE.holds(one.get("upper")):
            worths[name] = Fraction(one["upper"])
    if "selection" in receipt:
        fields = {"epsilon": epsilon, "measure": Fact("a sum", lambda told: told in [*worths])}
        size = Fact(
            " and ".join(fields), lambda told: isinstance(told, dict) and {*told} == {*fields}
        )
        yield "selection", size
        yield from ((("selection", name), fact) for name, fact in fields.items())
        worth = worths[receipt["selection"]["measure"]]
    else:  # earlier versions did not say what selects
        low = noise.get("lowest") if isinstance(noise, dict) else None
        ends = {one: Fact.near(law.lowest * one / units, DOUBLE) for one in worths.values()}
        worth = next((one for one, end in ends.items() if end.holds(low)), Fraction(1))
    yield from table_facts(("noise",), law, units, worth)
    one, most = worth / units, threshold * worth / units
    room = 1 - DOUBLE * (worth != 1)  # in units of a sum it was multiplied
    yield (
        "threshold",
        Fact.number(f"{float(most):g}", lambda told: most - one < Fraction(told) * room <= most),
    )


def _measures_facts(receipt: Receipt, proof: Proof) -> Facts:
    """What every measure draws, loses and is bounded by."""
    drawn, read, measures = draws_of_game(proof), sums_of_means(proof), receipt["measures"]
    names = sorted({each.measure for each in drawn} | set(read))
    listed = ", ".join(names)
    yield "measures", Fact(listed, lambda told: isinstance(told, dict) and sorted(told) == names)
    yield "height", proof.whole_number("height", 1)
    segments = "segments" in proof.game and proof.flag("segments")
    if segments or "segments" in receipt:
        yield "segments", segments
    texts: dict[str, MeasureText] = {}
    for name in names:
        yield ("measures", name), Fact("an object", lambda told: isinstance(told, dict))
        yield ("measures", name, "spec"), Fact("a text", lambda told: isinstance(told, str))
        yield ("measures", name, "epsilon"), POSITIVE
        texts[name] = MeasureText.read(measures[name]["spec"])
    for name, text in texts.items():
        own = [each for each in drawn if each.measure == name]
        pair = [each for each in drawn if each.measure == read.get(name) and each.of == "mean"]
        wanted, kinds = text.draws(receipt["user"], name in read), sorted(map(_draw_text, own))
        check_claim(
            kinds == wanted,
            f"measure {name!r} draws {'; '.join(wanted)}, the proof {'; '.join(kinds)}",
        )
        check_claim(
            name not in read or text.column == texts[read[name]].column,
            f"measure {name!r} is of {text.column!r}, and read from another column",
        )
        bounded = [each for each in own if each.facts.get("low") is not None] + pair
        yield from _bound_facts(name, measures[name], text, bounded)
        yield from _noise_list_facts(name, measures[name], own, pair)
        together = {name, *(each for each, of in read.items() if of == name)}
        loss = sum((each.loss for each in drawn if each.measure in together), Fraction(0))
        paid = sum(Fraction(measures[each]["epsilon"]) for each in together)
        check_claim(
            name in read or loss <= paid * (1 + DOUBLE),
            f"measure {name!r} loses {float(loss):.9g}, and the receipt says less",
        )


def _bound_facts(
    measure: str, facts: Mapping[str, Any], text: MeasureText, drawn: list[MeasureDraw]
) -> Facts:
    """Bounds are those in the text of the measure and in the draws, unless a search finds them;
    measures without bounds in the text have no bounds."""
    found = Fact("found", lambda told: is_number(told) or told in (None, "auto"))
    for name, end, bound in zip(("lower", "upper"), ("low", "high"), text.bounds, strict=True):
        yield ("measures", measure, name), found if bound == "auto" else _read_bound(bound)
        for each in drawn:
            own, decimals = each.facts[end], each.facts["decimals"]
            steps = _bound_in_steps(facts.get(name), decimals)
            check_claim(
                abs(own - steps) <= Fraction(1, 2) + abs(steps) * DOUBLE,
                f"measure {measure!r} has the bound {facts.get(name)!r}, the proof {own} steps of "
                f"10**-{decimals}",
            )


def _read_bound(text: str | None) -> Fraction | None:
    try:
        return None if text is None else Fraction(float(text))
    except (ValueError, OverflowError):
        raise BrokenProofError(f"a bound in the receipt must be a number; it is {text!r}") from None


def _bound_in_steps(bound: object, decimals: object) -> Fraction:
    if not is_number(bound) or type(decimals) is not int or not -400 < decimals < 400:
        raise BrokenProofError("bounds must be numbers, and steps powers of ten")
    return Fraction(bound) * Fraction(10) ** decimals


def _nearest_step(steps: Fraction) -> int:
    """The nearest whole number, halves away from 0, as values become steps."""
    whole = math.floor(abs(steps) + Fraction(1, 2))
    return whole if steps > 0 else -whole


# -- the noise that was drawn, which a receipt says after the release -----------------------------


def _noise_list_facts(
    measure: str, facts: Mapping[str, Any], own: list[MeasureDraw], pair: list[MeasureDraw]
) -> Facts:
    """The noise of a measure's own draws, and of the ``pair``: the mean that a sum is read from.
    The receipt of a plan has no noise."""
    path: Path = ("measures", measure, "noise")
    kinds_of = [(kind, each) for each in own for kind in NOISE_KINDS.get(each.of, (each.of,))]
    wanted = dict([*(("sum", each) for each in pair), *kinds_of])
    noise = facts.get("noise")
    each = noise if isinstance(noise, list) else []
    kinds = [str(one.get("of")) if isinstance(one, dict) else "" for one in each]
    yield path, FREE
    check_claim(
        noise is None or sorted(kinds) == sorted(wanted),
        f"measure {measure!r} has noise of {', '.join(kinds)}, the proof of {', '.join(wanted)}",
    )
    for number, one in enumerate(each):
        yield from _estimate_facts((*path, number), facts, one, wanted[one["of"]])


def _estimate_facts(
    path: Path, facts: Mapping[str, Any], estimate: Mapping[str, Any], draw: MeasureDraw
) -> Facts:
    """The noise of one draw: at least the noise in the proof, and above that at most what rounding
    adds."""
    yield from (((*path, name), FREE) for name in ("of", "intervals"))
    yield (*path, "unit"), draw.facts.get("unit", 1)
    steps = draw.facts.get("decimals") if draw.moved is not None else estimate.get("decimals")
    stepped, moved = estimate["of"] in ("sum", "above", "below"), draw.moved
    yield (*path, "decimals"), steps if stepped else None
    if draw.table is not None:
        yield from table_facts((*path, "law"), draw.table)
        return
    if draw.of == "distinct":
        assert draw.scale is not None
        yield from scale_facts((*path, "law"), draw.scale)
        return
    scales = estimate.get("scales")
    if not isinstance(scales, dict) or "parts" not in scales:
        raise BrokenProofError(f"the receipt's scales of {path[1]!r} are not understood")
    yield from (((*path, "scales", name), Fact.at_least(Fraction(LEAST_SCALE))) for name in scales)
    if moved is None:
        ends = (_bound_in_steps(facts.get(name), steps) for name in ("lower", "upper"))
        moved = move_of_values(draw.of, *map(_nearest_step, ends))
    told = [*map(Fraction, scales.values())]
    loss = sum((moved / one for one in told), Fraction(0))
    finest = sum((moved / max(one - GRAIN, GRAIN) for one in told), Fraction(0))
    check_claim(
        loss <= draw.loss and finest >= draw.loss * (1 - GRAIN),
        f"{path[1]!r}, {estimate['of']}: scales in the receipt lose {float(loss):.9g}, and the "
        f"proof is for {float(draw.loss):.9g}",
    )
