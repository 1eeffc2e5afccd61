"""Derive from a proof, and from the arguments that a receipt declares, what the receipt must say.

`check_receipt` compares each fact before the next one is derived, so that deriving may
rely on all facts before it. FailedClaimError says where a proof does not fit what is declared.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from fractions import Fraction
from typing import Any

from dpframe.verifier.facts import (
    DECLARED,
    DOUBLE,
    Fact,
    Facts,
    Path,
    Receipt,
    Want,
    level_noise,
    rollup_facts,
    table_facts,
)
from dpframe.verifier.numbers import ONE, exp_below
from dpframe.verifier.reports import HOLDER_CHANCE, OFF, relative_steps
from dpframe.verifier.rounds_game import (
    above_facts,
    full_weight,
    gaussian_facts,
    has_rounds,
    part_norms,
    read_gaussian,
    rounds_rollup_facts,
)
from dpframe.verifier.sketch_games import read_levels
from dpframe.verifier.verdict import (
    MOST_HEIGHT,
    NotVerifiedError,
    Proof,
    check_claim,
    games_of_proof,
    positive_number,
)

WHOLE_USERS = ("rounds", "items", "tree-items-laplace", "tree-items-gaussian", "rollup")
"""Mechanisms whose games are about a user with all their records."""

WHOLE_COUNTS = ("merged-bounded", "privacy-aware-misra-gries")
"""Mechanisms of sketches in which a record or user moves at most k counts by 1."""

OF_SKETCHES = ("misra-gries", "misra-gries-standard", "merged-sum", *WHOLE_COUNTS)
"""Mechanisms of sketches that an application keeps: their receipts name no column of users."""

WITHIN_PERIOD = ", where all records of that user lie within one period"
"""End of the sentence for a user in a release that reads a period: the user may be in other periods
too."""

KINDS_OF_GAMES = {
    "path shares steps": "offline",
    "path normal": "offline-gaussian",
    "path shares": "tree-hhh",
    "measures steps": "rollup",
    "relative": "tree-relative",
    "sketches merged": "streaming",
    "merged": "merged-bounded privacy-aware-misra-gries streaming-merged-bounded "
    "streaming-privacy-aware-misra-gries",
    "sketches": "misra-gries misra-gries-standard",
    "sums": "merged-sum streaming-merged-sum",
    "rounds": "rounds",
    "reports": "prefix-reports",
    "counts": "laplace gaussian tree-laplace tree-gaussian tree-laplace-gaussian items "
    "tree-items-laplace tree-items-gaussian synthetic-privhp prefix-laplace prefix-gaussian "
    + " ".join(f"{each}-universe" for each in OF_SKETCHES),
}
KINDS = {name: kinds.split() for kinds, of in KINDS_OF_GAMES.items() for name in of.split()}
"""For each mechanism that a receipt can name: the kinds of games that belong to it."""

FIXED_FIELDS: tuple[tuple[str, object, str], ...] = (
    ("counters", None, "offline laplace gaussian items rounds"),
    ("remainder", False, "streaming items rounds prefix-"),
    ("remainder", True, "rollup tree-"),
    ("remainder", None, "synthetic-"),
    ("adds_up", False, "items tree-items-"),
    ("height", 1, "prefix-"),
    ("threshold", None, "prefix- synthetic-"),
    ("contribution", None, "prefix-"),
    ("max_contributions", None, "prefix-"),
)
"""Fields that always have one value, and the beginnings of the mechanisms where they have it."""


def receipt_facts(receipt: Receipt, proof: Proof) -> Facts:
    """Everything that a receipt with this proof must say."""
    mechanism, kind = str(receipt["mechanism"]), proof.game.get("kind")
    if mechanism not in KINDS:
        raise NotVerifiedError(f"this verifier does not know the mechanism {mechanism!r}")
    check_claim(kind in KINDS[mechanism], f"the mechanism {mechanism!r} is no game {kind!r}")
    yield "mechanism", mechanism
    yield from _label_facts(receipt, proof)
    for name, value, starts in FIXED_FIELDS:
        if mechanism.startswith((*starts.split(),)):
            yield name, value
    if mechanism.startswith("prefix-"):
        yield from _prefix_facts(receipt, proof)
        return
    if mechanism == "rollup":
        selects = has_rounds(proof)
        yield from (rounds_rollup_facts if selects else rollup_facts)(receipt, proof)
    if mechanism in ("offline", "offline-gaussian", "tree-hhh"):
        proof = yield from _whole_count_facts(proof)
    units, worth = yield from _unit_facts(receipt, proof)
    if mechanism.removesuffix("-universe") in OF_SKETCHES:
        yield from _sketch_facts(receipt, proof)
    elif mechanism == "rounds":
        yield from _rounds_facts(receipt, proof)
    elif mechanism == "tree-relative":
        yield from _relative_facts(proof)
    elif mechanism == "synthetic-privhp":
        yield from _generator_facts(receipt, proof)
    elif "items" in mechanism.split("-"):
        yield from _user_count_facts(receipt, proof)
    elif mechanism.startswith("streaming"):
        yield from _stream_facts(receipt, proof)
    elif kind == "counts":
        yield from _level_facts(receipt, proof, units)
    elif mechanism != "rollup":
        yield from _selection_facts(proof, units, worth)


def _label_facts(receipt: Receipt, proof: Proof) -> Facts:
    """The promise, the names of levels, the guarantee on the card, and which fields are objects."""
    height, guarantee, delta = receipt["height"], receipt["guarantee"], proof.delta
    yield "epsilon", proof.epsilon
    yield "delta", delta
    yield "computed_delta", Fact.number(f"up to {float(delta):g}", lambda told: 0 <= told <= delta)
    yield "height", None if height is None else Fact.whole_number(MOST_HEIGHT + 1)
    yield "levels", None if height is None else Fact.size(height)
    for name in ("ledger", "period"):
        yield name, Fact("an object", lambda told: isinstance(told, dict | None))
    lists = receipt["mechanism"].startswith(("tree-", "rollup"))
    yield "keys", DECLARED if lists and isinstance(receipt["keys"], str) else None
    measures = receipt["measures"] if isinstance(receipt["measures"], dict) else {}
    measure, card = measures.get("guarantee"), receipt["card"]  # a measure may have that name
    lines = [[guarantee], *([[measure.get("spec")]] if isinstance(measure, dict) else [])]
    told = [one for one in card if isinstance(one, list)] if isinstance(card, list) else []
    check_claim(
        card is None or [one[1:2] for one in told if one[:1] == ["guarantee"]] == lines,
        f"the receipt has another guarantee on its card than {guarantee!r}",
    )


def _unit_facts(
    receipt: Receipt, proof: Proof
) -> Generator[tuple[Want, object], None, tuple[int, Fraction]]:
    """The unit of privacy: the guarantee names exactly the unit that the arguments say, and the
    proof is of as many records. Return how many units of the game one record or user has, and what
    these are worth in the receipt."""
    names = ("mechanism", "user", "contribution", "max_contributions", "weight", "max_weight")
    mechanism, user, way, number, weight, most = (receipt[name] for name in names)
    kind, units = proof.game.get("kind"), proof.game.get("units", 1)
    divided, worth = False, Fraction(1)
    sentence, own_way, counted, records = "adding or removing one record", None, None, 1
    one_user = f"adding or removing one user ({user!r}) with all their records"
    if mechanism.removesuffix("-universe") in OF_SKETCHES:
        yield "user", None
        if mechanism.startswith("privacy-aware"):
            sentence, own_way = "adding or removing one user with all their items", "records"
        elif number is not None:
            counted, own_way, records = Fact.whole_number(), "records", number
            sentence = "adding or removing one user with all their records, of which there are at "
            sentence += f"most {number} (promised by the caller)"
    else:
        yield from ((name, DECLARED) for name in ("user", "weight", "max_weight"))
        if most is not None and not mechanism.startswith("tree-"):
            yield "max_weight", Fact.number("a positive number", lambda told: told > 0)
            divided, worth, own_way = True, Fraction(most), None if user is None else "share"
            text = str(int(most)) if worth.denominator == 1 and most < 1e16 else repr(most)
            sentence = f"adding or removing one row, which counts for at most {text} of column "
            sentence = f"{sentence}{weight!r}" if user is None else one_user
        elif most is not None:
            yield from (("user", None), ("max_weight", Fact.whole_number()))
            records, sentence = most, "adding or removing one row, which stands for at most "
            sentence += f"{most} records (column {weight!r})"
        elif weight is not None:
            yield "user", None
            sentence += f", of which a row stands for as many as column {weight!r} says"
        elif mechanism in WHOLE_USERS and user is not None:
            shares = mechanism == "rollup" and not has_rounds(proof)
            sentence, own_way = one_user, "share" if shares else "items"
        elif user is not None and way == "share":
            sentence, own_way, divided = one_user, "share", True
        elif user is not None:
            own_way = "records" if way == "records" and kind != "merged" else "items"
            which = "of whose different values" if own_way == "items" else "of which"
            counted, records = Fact.whole_number(), 1 if kind == "merged" else number
            sentence = f"{one_user}, {which} at most {number} are counted"
    yield "contribution", own_way
    if mechanism != "rounds" and not has_rounds(proof):  # whose proof says of how many
        yield "max_contributions", counted
    yield from _sentence_facts(receipt, proof, sentence)
    own = proof.group if kind != "normal" else proof.group * proof.whole_number("moves", 1)
    check_claim(
        own == records and (kind != "normal" or proof.group == 1),
        f"the receipt has {records} records of a user or row, the proof {own}",
    )
    check_claim(
        type(units) is int and units > 0 and (units > 1) == divided,
        f"{sentence} moves counts {'in parts' if divided else 'by whole numbers'}, and the proof "
        f"has {units!r} units of one",
    )
    return units, worth


def _sentence_facts(receipt: Receipt, proof: Proof, sentence: str) -> Facts:
    """The guarantee and the neighbours of a receipt are those of its arguments."""
    sentence += WITHIN_PERIOD if None not in (receipt["period"], receipt["user"]) else ""
    epsilon, delta = float(proof.epsilon), float(proof.delta)
    promise = f"({epsilon:g}, {delta:g})-" if delta else f"{epsilon:g}-"
    yield "guarantee", f"{promise}differential privacy for {sentence}"
    yield "neighbours", sentence


# -- selections and counts of levels --------------------------------------------------------------


def _whole_count_facts(proof: Proof) -> Generator[tuple[Want, object], None, Proof]:
    """The facts of whole counts of cells; return the proof of the selection. With whole counts the
    selection is the first of two steps; the second step has one count for every kind of cells and
    one for the total."""
    if proof.game.get("kind") != "steps":
        yield "whole_counts", None
        return proof
    kinds = [part.game.get("kind") for _, _, part in games_of_proof(proof)]
    known = kinds in (["path", "counts"], ["shares", "counts"])
    check_claim(known, f"whole_counts are a selection and counts, the proof is of {kinds}")
    (_, _, selection), (epsilon, delta, whole) = games_of_proof(proof)
    levels = read_levels(whole)
    yield ("whole_counts", "epsilon"), epsilon
    yield ("whole_counts", "delta"), delta
    yield "height", len(levels) - 1
    found = whole.game.get("units") == 1 and all(one.get("least") is None for one in levels)
    check_claim(found, "whole_counts are of cells that are found already, and move by one")
    for law in {whole.table(one.get("table"), "table") for one in levels}:
        yield from table_facts(("whole_counts", "noise"), law)
    return selection


def _selection_facts(proof: Proof, units: int, worth: Fraction) -> Facts:
    """A selection: height, remainder, threshold and noise."""
    yield "keys", None
    yield "height", proof.whole_number("height", 1)
    if "remainder" in proof.game:
        yield "remainder", proof.flag("remainder")
    one, exact = worth / units, proof.whole_number("threshold") * worth / units
    most = exact * (1 + DOUBLE) * (1 if worth == 1 else Fraction(1001, 1000))  # four digits
    told = Fact.number(f"{float(exact):g}", lambda told: exact - one < told <= most)
    yield "threshold", told  # counts are whole units
    for name in ("test", "release"):
        yield from table_facts(("noise", name), proof.law(name), units, worth)


def _level_facts(receipt: Receipt, proof: Proof, units: int) -> Facts:
    """Counts of levels, of the hierarchy and of the total: where keys are not listed, every level
    but the total has a threshold. No node is shown with fewer than the receipt says; histograms
    have one threshold on all levels, and one law of noise."""
    levels, listed, noise = read_levels(proof), receipt["keys"] is not None, receipt["noise"]
    alike = receipt["mechanism"] in ("laplace", "gaussian")
    places = [each.get("least") is None for each in levels]
    total = places[0] or not alike
    yield "remainder", total
    yield "height", len(levels) - total
    check_claim(
        places == [True] * total + [listed] * (len(levels) - total),
        f"the receipt has {'no ' * listed}thresholds on all levels but the total, the proof not",
    )
    least = {Fraction(each["least"], units) for each in levels if each.get("least") is not None}
    yield from (("threshold", one if alike else Fact.at_least(one)) for one in least)
    if not least:
        yield "threshold", None
    by_level = isinstance(noise, dict) and "levels" in noise
    if by_level:
        yield ("noise", "levels"), Fact.size(len(levels))
    for number, level in enumerate(levels):
        for name in [("levels", number)] if by_level else [("test",), ("release",)]:
            yield from level_noise(("noise", *name), level, proof, units)


def _generator_facts(receipt: Receipt, proof: Proof) -> Facts:
    """Synthetic rows: a record moves one count on each level down to floor(log2 k), and one cell of
    every row of a sketch on each level below."""
    levels = read_levels(proof)
    yield from ((name, Fact.whole_number()) for name in ("k", "rows"))
    yield "height", len(levels) - 1
    exact, moved = receipt["k"].bit_length(), [each.get("moves", 1) for each in levels]
    wanted = [1 if level < exact else receipt["rows"] for level in range(len(levels))]
    check_claim(
        moved == wanted,
        f"by the receipt one record moves {wanted} counts of the levels, by the proof {moved}",
    )
    scales = [Fact.near(positive_number(each.get("scale"), "scale")) for each in levels]
    yield ("noise", "scales"), Fact.items(scales)


def _user_count_facts(receipt: Receipt, proof: Proof) -> Facts:
    """Counts of different users. A user moves the total and, on every other level, up to
    ``at_most`` counts, or all listed nodes if these are fewer. With listed keys every count is
    shown; else only the total is always shown."""
    levels, listed = read_levels(proof), receipt["mechanism"] != "items"
    yield from ((name, Fact.whole_number(10**6)) for name in ("height", "at_most"))
    height, most = receipt["height"], receipt["at_most"]
    if listed:
        yield "keys", Fact("a digest", lambda told: told is not None)
        yield "listed", Fact.items([Fact.whole_number()] * height)
        yield ("noise", "levels"), Fact.size(height + 1)
    nodes = receipt["listed"] if listed else [most] * height
    times = [1, *(min(most, number) for number in nodes)]
    yield from (("moved", len(levels)), ("moved", sum(times)))
    least = {each.get("least") for each in levels[1:]}
    shown = levels[0].get("least") is None and (None in least) == listed
    check_claim(shown, "the proof has thresholds where every node is shown, or none elsewhere")
    yield from (("threshold", each) for each in least)
    places = [number for number, many in enumerate(times) for _ in range(many)]
    drawn = {  # each law of a level once
        (number, str(level.get("table")), str(level.get("scale"))): level
        for number, level in zip(places, levels, strict=True)
    }
    for (number, _, _), level in drawn.items():
        place = ("levels", number) if listed else ("release",)
        yield from level_noise(("noise", *place), level, proof)


def _relative_facts(proof: Proof) -> Facts:
    """Counts with a relative error: what is drawn in each step."""
    steps = relative_steps(proof)
    yield from (("height", Fact.whole_number()), ("keys", None))
    yield ("noise", "steps"), len(steps)
    for name, of in (("tops", "tops"), ("bounds", "bound"), ("scales", "tests")):
        yield ("noise", name), Fact.items([Fact.near(Fraction(getattr(one, of))) for one in steps])
    yield "threshold", Fact.at_least(min(step.cut for step in steps))


# -- sketches -------------------------------------------------------------------------------------


def _stream_facts(receipt: Receipt, proof: Proof) -> Facts:
    """One sketch a level, of one stream or merged. One record or user moves one number of a sketch,
    or up to ``changed`` counts in the game "merged".

    Counters below ``least`` are not looked at. Which nodes are shown follows from the others, so
    that any threshold is private. Receipts of earlier versions tell one number for ``least`` and
    the threshold.
    """
    kind, single = proof.game["kind"], receipt["mechanism"] == "streaming"
    check_claim(proof.game.get("standard") is None, "sketches of a stream remove zeros late")
    parts = 1
    if kind != "sketches":
        k = proof.whole_number("changed" if kind == "merged" else "counters", 1)
        parts = k + 1 if kind == "sums" else 1
        yield "counters", k
    if not single:
        yield "universe", None
    yield "height", proof.whole_number("sketches", 1)
    least = Fraction(proof.whole_number("least" if kind == "merged" else "theta"), parts)
    if receipt["hidden_below"] is None:
        yield "threshold", least
    else:
        yield from (("threshold", Fact.whole_number()), ("hidden_below", Fact.near(least)))
    for name in ("test", "release") if single else ("release",):
        yield from table_facts(("noise", name), proof.law("noise"), parts)


def _sketch_facts(receipt: Receipt, proof: Proof) -> Facts:
    """A sketch that an application keeps: counters, threshold and noise, and how far a record moves
    its counts. With a list of keys the noise of each key has no bounds."""
    yield "counters", Fact.whole_number()
    k, game, mechanism = receipt["counters"], proof.game, receipt["mechanism"]
    own = mechanism.removesuffix("-universe")
    whole, parts = own in WHOLE_COUNTS, 1 if own in WHOLE_COUNTS else k + 1
    if own != mechanism:
        yield from (("universe", Fact.whole_number()), ("threshold", None))
        levels = read_levels(proof)
        check_claim(len(levels) == 1, f"the receipt is of one list, the proof of {len(levels)}")
        moved = levels[0].get("moves", 1)
        yield "counters", moved if whole else Fraction(moved + 1, 2)
        yield from level_noise(("noise", "count"), levels[0], proof, parts)
        return
    yield "universe", None
    check_claim(game.get("sketches") == 1, "the receipt is of one sketch, the proof of others")
    if own in ("merged-sum", "misra-gries-standard") or whole:
        fields = {"merged-sum": "counters", "misra-gries-standard": "standard"}
        yield "counters", proof.whole_number(fields.get(own, "changed"), 1)
    if own.startswith("misra-gries"):
        late, parts = own == "misra-gries", 1
        check_claim(not late or game.get("standard") is None, f"a {own} removes zeros late")
        yield from table_facts(("noise", "sketch_error"), proof.law("shared"))
    least = proof.whole_number("least" if whole else "theta")
    yield "threshold", Fact.near(Fraction(least, parts))
    yield from table_facts(("noise", "count"), proof.law("noise"), parts)


# -- users and devices ----------------------------------------------------------------------------


def _rounds_facts(receipt: Receipt, proof: Proof) -> Facts:
    """Values of users: the noise of every round, of the sizes and of the counts. A user moves
    ``at_most`` counts together by a vector of at most the norm in the proof. Where a release has to
    find ``at_most``, the norm is divided only then."""
    game, unit, most = proof.game, proof.whole_number("unit", 1), receipt["at_most"]
    rounds = game["rounds"] if isinstance(game.get("rounds"), list) else []
    yield "max_contributions", proof.whole_number("items", 1)
    yield "at_most", None if most is None else Fact.whole_number()
    check_claim("measured" not in game, "only a rollup measures along with rounds")
    yield "user", Fact("a column", lambda told: isinstance(told, str))
    norms = part_norms(proof)
    grid = full_weight(norms[0], most)
    check_claim(bool(rounds), "nothing is searched")
    told = most is not None or game.get("sizes") is not None
    check_claim(told, "at_most is to be found without a histogram")
    yield ("noise", "rounds"), Fact.size(len(rounds))
    for number, each in enumerate(rounds):
        yield from gaussian_facts(("noise", "rounds", number), each, unit)
    yield from gaussian_facts(("noise", "release"), game.get("count"), grid)
    if len(norms) == 1:
        yield "height", 1
    else:
        cells = "height" in game
        yield "height", proof.whole_number("height", 2) if cells else Fact.at_least(2)
        yield "adds_up", False
        yield from above_facts(receipt, game.get("count"), norms[1:], cells)
    if game.get("sizes") is None:
        yield ("noise", "sizes"), None
    else:
        yield from gaussian_facts(("noise", "sizes"), game["sizes"], 1)
    parts = sum(read_gaussian(each, 1, 1).part for each in rounds)
    yield "threshold", Fact.at_least(-(-proof.whole_number("threshold") // (unit * parts)))


def _prefix_facts(receipt: Receipt, proof: Proof) -> Facts:
    """Reports of devices, or counts of them: a device sends one report in every round of every
    iteration. A device that is replaced moves two counts each time."""
    names = ("iterations", "rounds", "devices")
    yield from ((name, Fact.whole_number()) for name in names)
    iterations, rounds, devices = (receipt[name] for name in names)
    times, promise, who = iterations * rounds, None, f"one user ({receipt['user']!r})"
    yield from (("user", DECLARED), ("reports", times))
    if proof.game["kind"] == "counts":
        levels = read_levels(proof)
        replaced = len(levels) == 2 * times
        yield "reports", Fraction(len(levels), 1 + replaced)
        check_claim(
            all(law.symmetric for law in proof.laws)
            and proof.game.get("units") == 1
            and all(each.get("least") is None for each in levels),
            "counts of devices have symmetric noise and no threshold, and move by one",
        )
        for law in {proof.table(each.get("table"), "table") for each in levels}:
            yield from table_facts(("noise",), law)
        yield from (("reporting", devices), ("participation", 1), ("local_epsilon", None))
        yield "standard_error", receipt["noise"]["sd"]
    else:
        replaced, local = proof.flag("replaced"), receipt["local_epsilon"]
        yield from _report_facts(proof)
        promise = f"{local:g}-differential privacy in the local model for a report, "
        promise += f"{times * local:g} for all {times} of a device"
    yield "local_guarantee", promise
    sentence = f"adding or removing all items of {who}, who still reports"
    if replaced:
        sentence = f"replacing all records of {who} by any others"
    sentence += f"; the number of users, {devices:,}, is public"
    yield from _sentence_facts(receipt, proof, sentence)
    check_claim(proof.group == 1, f"the receipt has one user, the proof {proof.group}")


def _report_facts(proof: Proof) -> Facts:
    """Randomised reports: how many there are, and what one of them and their sums tell."""
    silence, chance = proof.scale("silence"), proof.scale("participation")
    devices = proof.whole_number("devices", 1)
    yield from (("devices", devices), ("participation", chance), ("noise", None))
    yield "reporting", proof.whole_number("counted", 1)
    yield "reports", proof.whole_number("reports", 1)
    odds = (1 / silence - 1) * ONE

    def is_local(told: Fraction) -> bool:
        return 0 < told < 100 and abs(odds / exp_below(Fraction(told)) - 1) < OFF

    yield "local_epsilon", Fact.number(f"of a chance {float(silence):g}", is_local)
    others = max(1, round(devices * chance)) - 1
    square = (Fraction(1, 4) + others * silence * (1 - silence)) / (HOLDER_CHANCE - silence) ** 2
    yield "standard_error", Fact.root(square, OFF)


# -- Compare a receipt with the facts that its proof shows ----------------------------------------
#
# Every field of a receipt is compared with a fact, or free by its name, or unknown. An unknown
# field is a claim that nobody checked.


FREE_FIELDS: Mapping[str, str] = {
    "": "release release_id time version replayed data paper counts hierarchy levels confidence "
    "intervals released_confidence budget notices card frame frame_changed frame_extract "
    "noise_source level_importance "
    "proof proof.version proof.sha256 proof.text proof.why proof.question proof.arguments "
    "ledger ledger.id ledger.accountant ledger.epsilon ledger.delta ledger.left_epsilon "
    "ledger.left_delta ledger.protects ledger.charged_epsilon ledger.charged_delta steps "
    "ledger.reservation period period.column period.text period.zone "
    "period.start period.end period.read order dimensions query analyst group",
    "tree-": "level_weights consistent",
    "rollup": "listed running running.periods running.look running.number running.noise",
    "stream": "counters method",
    "offline-gaussian": "remainder",
    "synthetic-": "columns width split",
    "prefix-": "accountant encoding length limit segments false_positives selection conditioned "
    "left_out denied",
    **dict.fromkeys(
        ("misra-gries", "merged-", "privacy-aware-misra-gries", "streaming"),
        "sketches sensitivity records sketch_error unpublished_at_most release_number",
    ),
}
"""Fields that say nothing of privacy or noise, by the beginning of a mechanism's name. They are
names, sentences, times and versions, arguments that no noise depends on, and what was released."""

FREE_PATHS = ("proof.arguments.", "ledger.reservation.", "levels_measured.", "not_shown.", "asked.")
"""Beginnings of free paths: the arguments from which the proof can be made again, what a ledger
says of its reservation, and the weight of every level that was measured, from which scales
follow, what is said of nodes that are not shown, and what somebody asked of a gateway."""


def check_receipt(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Check that every leaf of the receipt follows from the proof or is free: FailedClaimError
    names a leaf that says something else, NotVerifiedError a leaf that nobody knows.

    A fact is compared before the next one is derived, which may rely on it.
    """
    plain = PlainReceipt(_plain(receipt))
    fields, compared = dict(_fields(plain)), set[Path]()
    for place, proved in receipt_facts(plain, proof):
        path = (place,) if isinstance(place, str) else place
        fact = proved if isinstance(proved, Fact) else Fact.exactly(proved)
        told, name = fields.get(path), ".".join(map(str, path))
        text = f"the receipt has {name} {told!r:.200}, the proof {fact.text:.200}"
        check_claim(fact.holds(told), text)
        compared.add(path)
    mechanism = str(plain["mechanism"])
    starts = (names for start, names in FREE_FIELDS.items() if mechanism.startswith(start))
    free = {name for names in starts for name in names.split()}
    for path, value in fields.items():
        name = ".".join(each for each in path if isinstance(each, str))
        known = path in compared or name in free or f"{name}.".startswith(FREE_PATHS)
        if not known and not _parts(value):
            raise NotVerifiedError(
                f"the receipt has {name!r}, which this verifier does not know: a later version "
                f"of dpframe than {plain['version']!r} may have written it"
            )


class PlainReceipt(dict[str, Any]):
    """A receipt in which a field that is missing is None."""

    def __missing__(self, name: str) -> None:
        return None


def _plain(value: Any) -> Any:
    """A value of a receipt as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inside) for name, inside in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value


def _parts(value: Any) -> list[tuple[str | int, Any]]:
    """What is in an object, or in a list of objects, by name or number; else nothing."""
    if isinstance(value, dict):
        return [*value.items()]
    objects = isinstance(value, list) and any(isinstance(one, dict) for one in value)
    return [*enumerate(value)] if objects else []


def _fields(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Everything inside a value, objects too, each with its path."""
    for name, inside in _parts(value):
        yield (*path, name), inside
        yield from _fields(inside, (*path, name))
