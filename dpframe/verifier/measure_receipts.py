"""Compare the receipt of a rollup with its proof: the measures, their bounds, and the noise that
they got."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpframe.verifier.adaptive import games_of_proof
from dpframe.verifier.laws import BrokenProofError
from dpframe.verifier.measure_game import MeasureDraw, draws_of_game, move_of_values, sums_of_means
from dpframe.verifier.noise_receipts import same_noise, same_scale
from dpframe.verifier.numbers import is_number
from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import check_claim

SPEC = re.compile(
    r'(?P<kind>[a-z]+)(?:\((?:(?P<plain>[^,"()=]+)|"(?P<quoted>(?:[^"]|"")+)")?.*\))?'
)
AT_MOST = re.compile(r"at_most=([0-9]+)(?:, share=[^,\"()=]+)?\)$")
BOUNDS = re.compile(
    r'(?:[^,"()=]+|"(?:[^"]|"")+"), ([^,"()=]+), ([^,"()=]+?)(, clipped=true)?(?:, |\))'
)
"""Patterns for the text of a measure in a receipt: what it measures, how many rows or nodes of a
user count, the bounds of values."""

ROUNDED = Fraction(1, 2**50)
"""The largest relative error of a product of doubles."""


def check_rollup(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Check that the proof has one game of measures and, where keys are not listed, one selection;
    and compare both with the receipt."""
    check_claim(proof.group == 1, f"the receipt has one record or user, the proof {proof.group}")
    each = games_of_proof(proof)
    measures = [part for _, _, part in each if part.game.get("kind") == "measures"]
    selections = [
        (epsilon, part) for epsilon, _, part in each if part.game.get("kind") in ("path", "shares")
    ]
    listed = receipt.get("keys") is not None
    check_claim(
        (len(each), len(measures), len(selections)) == (2 - listed, 1, 1 - listed),
        f"a rollup {'of listed keys measures' if listed else 'selects once, then measures'}; the "
        f"proof has {len(selections)} selections and {len(measures)} games of measures",
    )
    _check_measures(receipt, measures[0])
    for epsilon, selection in selections:
        _check_rollup_selection(receipt, selection, epsilon)
    if listed:
        facts = receipt.get("threshold"), receipt.get("noise"), receipt.get("selection")
        check_claim(facts == (None, None, None), "the receipt selects, and its keys are listed")


def _check_rollup_selection(receipt: Mapping[str, Any], proof: Proof, epsilon: Fraction) -> None:
    """Compare epsilon, height, threshold and noise: in records or users, or in the unit of a sum
    that selects."""
    game, shares = proof.game, proof.game.get("kind") == "shares"
    units = proof.whole("units", 1) if shares else 1
    height, told = receipt.get("height"), receipt.get("threshold")
    check_claim(
        game.get("height") == height,
        f"the receipt has height {height!r}, the proof {game.get('height')!r}",
    )
    check_claim(
        shares or receipt.get("user") is None, "the receipt has users, the proof one record"
    )
    check_claim(
        units > 1 or receipt.get("user") is None,
        "the receipt has users, whose records have parts of one; the proof does not divide it",
    )
    facts, law = receipt.get("noise"), proof.law("test")
    low = facts.get("lowest") if isinstance(facts, Mapping) else None
    measures = receipt["measures"].values()
    sums = [m.get("upper") for m in measures if str(m.get("spec")).startswith("sum(")]
    worth = next(  # of the sum that selects, if a sum does
        (
            Fraction(each)
            for each in sums
            if _is_positive(each) and low == law.lowest / units * each
        ),
        Fraction(1),
    )
    worth = Fraction(1) if low == law.lowest / units else worth
    if "selection" in receipt:  # earlier versions did not say what selects
        worth = _worth(receipt, epsilon)
    same_noise(facts, law, "test", units, worth)
    check_claim(is_number(told), "the receipt has no threshold")
    exact = Fraction(told or 0) * units / worth
    check_claim(
        math.ceil(exact - exact * ROUNDED * (worth != 1)) == proof.whole("threshold"),
        f"the receipt has threshold {told!r}, the proof "
        f"{float(proof.whole('threshold') * worth / units):g}",
    )


def _worth(receipt: Mapping[str, Any], epsilon: Fraction) -> Fraction:
    """What a record or user of the selection is worth in its threshold: 1, or the most that it adds
    to the sum that selects."""
    chosen = receipt["selection"]
    check_claim(isinstance(chosen, Mapping), "the receipt does not say what its selection costs")
    check_claim({*chosen} == {"epsilon", "measure"}, "the receipt does not say what selects")
    own, name = chosen.get("epsilon"), chosen.get("measure")
    check_claim(name is None or isinstance(name, str), f"the receipt selects by {name!r}")
    check_claim(
        is_number(own) and Fraction(own or 0) == epsilon,
        f"the receipt has epsilon {own!r} for its selection, the proof {float(epsilon):g}",
    )
    if name is None:
        return Fraction(1)
    measure = receipt["measures"].get(name)
    most = measure.get("upper") if isinstance(measure, Mapping) else None
    sums = isinstance(measure, Mapping) and str(measure.get("spec")).startswith("sum(")
    check_claim(
        sums and _is_positive(most), f"the receipt selects by {name!r}, which is no sum of it"
    )
    return Fraction(most or 0)


def _check_measures(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Raise FailedClaimError for a measure that is not in the proof, or is drawn with less
    noise."""
    told = receipt.get("measures")
    check_claim(isinstance(told, Mapping), "the receipt names no measures, and the proof does")
    assert isinstance(told, Mapping)
    height, drawn, read = receipt.get("height"), draws_of_game(proof), sums_of_means(proof)
    proved = proof.game.get("height")
    check_claim(proved == height, f"the receipt has height {height!r}, the proof {proved!r}")
    check_claim(
        receipt.get("segments", False) is proof.game.get("segments", False),
        "one of receipt and proof has segments of cells, the other one nodes",
    )
    names = {each.measure for each in drawn} | set(read)
    check_claim(
        names == set(told),
        f"the receipt has measures {', '.join(sorted(told))}, the proof {', '.join(sorted(names))}",
    )
    for name, facts in told.items():
        own = [each for each in drawn if each.measure == name]
        spec = str(facts.get("spec")) if isinstance(facts, Mapping) else ""
        check_claim(
            SPEC.fullmatch(spec) is not None, f"measure {name!r} is {spec!r}, which is none"
        )
        wanted = _draws_of_spec(spec, receipt.get("user"), name in read)
        check_claim(
            sorted(each.of for each in own) == sorted(wanted),
            f"measure {name!r} is {spec}, which draws {', '.join(wanted) or 'nothing'}; the proof "
            f"has {', '.join(each.of for each in own) or 'nothing'}",
        )
        for each in own:
            _check_draw(each, spec, facts, receipt.get("user"))
        pair = [each for each in drawn if each.measure == read.get(name) and each.of == "mean"]
        for each in pair:
            _check_draw_bounds(each, spec, facts)
            source = told.get(each.measure)
            of_mean = str(source.get("spec")) if isinstance(source, Mapping) else ""
            check_claim(
                _spec_column(spec) in (None, _spec_column(of_mean)),
                f"measure {name!r} is {spec}, and is read from {of_mean}",
            )
        _check_bounds_text(facts)
        _check_measure_noise(name, facts, own, pair)
    _check_losses(told, drawn, read)


def _spec_column(spec: str) -> str | None:
    """The column in the text of a measure: x of ``sum(x, 0, 10)``."""
    found = SPEC.fullmatch(spec)
    return None if found is None else found["plain"] or found["quoted"]


def _check_losses(
    told: Mapping[str, Any], drawn: list[MeasureDraw], read: Mapping[str, str]
) -> None:
    """Check that no measure loses more than the receipt says; a mean pays for itself and for the
    sums that are read from it."""
    for name in set(told) - set(read):
        names = {name, *(each for each, of in read.items() if of == name)}
        loss = sum((each.loss for each in drawn if each.measure in names), Fraction(0))
        epsilons = [told[each].get("epsilon") for each in names]
        check_claim(
            all(_is_positive(each) for each in epsilons)
            and loss <= sum(map(Fraction, epsilons)) * (1 + ROUNDED),
            f"measure {name!r} loses {float(loss):.9g}, and the receipt says less",
        )


def _draws_of_spec(spec: str, user: object, read: bool) -> list[str]:
    """The kinds of draws that the text of a measure calls for."""
    kind = spec.partition("(")[0]
    if kind == "count":
        return ["users" if user is not None and not AT_MOST.search(spec) else "rows"]
    if kind == "distinct":
        return ["distinct"]
    bounds = BOUNDS.match(spec.partition("(")[2])
    if kind not in ("sum", "mean") or bounds is None:
        raise BrokenProofError(f"the receipt measures {spec!r}, which is not known")
    searches = [bound for bound in bounds.groups()[:2] if bound == "auto"]
    return ["search"] * len(searches) + [kind] * (not read) + ["outside"] * bool(bounds[3])


def _check_draw(each: MeasureDraw, spec: str, facts: Mapping[str, Any], user: object) -> None:
    """Compare how often a user counts, and the bounds of values."""
    told, own = AT_MOST.search(spec), each.facts
    if "at_most" in own:
        most = int(told[1]) if told else 1
        check_claim(own["at_most"] == most, f"{spec} counts {most}, the proof {own['at_most']}")
    if each.of == "distinct":
        found = SPEC.fullmatch(spec)
        column = found and (found["plain"] or (found["quoted"] or "").replace('""', '"'))
        singly = user is None or column == user
        check_claim(
            own["singly"] is singly,
            f"counts of {spec} move by {'one' if singly else 'more'} each, in the proof not",
        )
    if own.get("low") is not None:
        _check_draw_bounds(each, spec, facts)


def _check_bounds_text(facts: Mapping[str, Any]) -> None:
    """Check that bounds are those in the text of the measure, unless a search finds them; measures
    without bounds in the text have none."""
    spec = str(facts.get("spec"))
    found = BOUNDS.match(spec.partition("(")[2])
    bounded = found is not None and spec.startswith(("sum(", "mean("))
    for number, name in enumerate(("lower", "upper")):
        told, text = facts.get(name), found[number + 1] if found and bounded else None
        searched = text == "auto" and (is_number(told) or told in (None, "auto"))
        check_claim(
            searched or (told is None if text is None else _text_is_number(told, text)),
            f"the receipt has {name} {told!r} of {spec}",
        )


def _text_is_number(told: object, text: str) -> bool:
    """Whether a text stands for this number."""
    try:
        return is_number(told) and told == float(text)
    except ValueError:
        return False


def _check_draw_bounds(each: MeasureDraw, spec: str, facts: Mapping[str, Any]) -> None:
    own = each.facts
    for name, bound in (("low", facts.get("lower")), ("high", facts.get("upper"))):
        steps = _bound_in_steps(bound, own["decimals"])
        check_claim(
            abs(own[name] - steps) <= Fraction(1, 2) + abs(steps) * ROUNDED,
            f"{spec} has the bound {bound!r}, the proof {own[name]} steps of "
            f"10**-{own['decimals']}",
        )


def _bound_in_steps(bound: object, decimals: object) -> Fraction:
    if not is_number(bound) or type(decimals) is not int or not -400 < decimals < 400:
        raise BrokenProofError("bounds must be numbers, and steps powers of ten")
    return Fraction(bound) * Fraction(10) ** decimals


NOISE_KINDS: Mapping[str, tuple[str, ...]] = {"mean": ("above", "below"), "search": ()}
"""What a receipt calls the noise of a draw, if not by the kind of the draw: a mean is made of what
is above and below."""


# -- the noise that was drawn, which a receipt says after the release -----------------------------


def _check_measure_noise(
    name: str, facts: Mapping[str, Any], own: list[MeasureDraw], pair: list[MeasureDraw]
) -> None:
    """Compare the noise of a measure's own draws, and of the ``pair``: the mean that a sum is read
    from."""
    told = facts.get("noise")
    if told is None:  # a plan tells no noise
        return
    if not isinstance(told, list) or not all(isinstance(each, Mapping) for each in told):
        raise BrokenProofError(f"the receipt's noise of {name!r} is not understood")
    wanted = [("sum", each) for each in pair]
    for each in own:
        wanted += [(kind, each) for kind in NOISE_KINDS.get(each.of, (each.of,))]
    kinds = [str(estimate.get("of")) for estimate in told]
    check_claim(
        sorted(kinds) == sorted(kind for kind, _ in wanted),
        f"measure {name!r} has noise of {', '.join(kinds)}, which is not what the proof has",
    )
    by_kind = dict(wanted)
    for kind, estimate in zip(kinds, told, strict=True):
        _check_estimate(name, facts, estimate, by_kind[kind])


def _check_estimate(
    name: str, facts: Mapping[str, Any], estimate: Mapping[str, Any], each: MeasureDraw
) -> None:
    """Check that an estimate in the receipt has no less noise than the proof says."""
    of, unit = str(estimate.get("of")), estimate.get("unit")
    wanted = each.facts.get("unit", 1)
    check_claim(unit == wanted, f"{name!r} counts in units of 1/{unit!r}, in the proof 1/{wanted}")
    decimals = estimate.get("decimals")
    own = each.facts.get("decimals") if each.moved is not None else decimals
    wanted = own if of in ("sum", "above", "below") else None
    check_claim(
        decimals == wanted, f"{name!r} counts in steps of 10**-{decimals!r}, in the proof not"
    )
    if each.of == "distinct":
        law = estimate.get("law")
        if each.table is None:
            assert each.scale is not None
            same_scale(law, each.scale, name, 1)
        else:
            same_noise(law, each.table, name)
        return
    scales = estimate.get("scales")
    if (
        not isinstance(scales, Mapping)
        or "parts" not in scales
        or not all(_is_positive(one) and one > LEAST_TOLD_SCALE for one in scales.values())
    ):
        raise BrokenProofError(f"the receipt's scales of {name!r} are not understood")
    moved = each.moved
    if moved is None:
        low, high = (
            _nearest_step(_bound_in_steps(facts.get(end), estimate.get("decimals")))
            for end in ("lower", "upper")
        )
        moved = move_of_values(each.of, low, high)
    loss = sum((moved / Fraction(one) for one in scales.values()), Fraction(0))
    check_claim(
        loss <= each.loss,
        f"{name!r}, {of}: scales in the receipt lose {float(loss):.9g}, more than "
        f"{float(each.loss):.9g}",
    )
    finest = sum(
        (moved / max(Fraction(one) - GRAIN, GRAIN) for one in scales.values()), Fraction(0)
    )
    check_claim(
        finest >= each.loss * (1 - GRAIN),
        f"{name!r}, {of}: scales in the receipt are for {float(loss):.9g}, and the proof is for "
        f"{float(each.loss):.9g}",
    )


LEAST_TOLD_SCALE = 1e-90
"""Scales in a receipt are above this: what they lose is then a number that can be told."""

GRAIN = Fraction(1, 2**14)
"""The amount by which the scale of a draw may be rounded up."""


def _is_positive(value: object) -> bool:
    return is_number(value) and value > 0


def _nearest_step(steps: Fraction) -> int:
    """The nearest whole number, halves away from 0, as values become steps."""
    whole = math.floor(abs(steps) + Fraction(1, 2))
    return whole if steps > 0 else -whole
