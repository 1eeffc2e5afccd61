"""The games of offline heavy hitters and of measures on the parts of a selection.

**Offline heavy hitters** have a game along a path, by the worst residuals, or one by shares.

docs/guarantees.md, "Why it holds: one record". The state of the game is how many tests remain and
what the answers so far have made of the likelihood ratio u, at first e^epsilon. Before the next
test the adversary names the residual F of the node. The node is selected with
q = P(F + W >= threshold) without the record and with q' = P(F + 1 + W >= threshold) with it. If it
is selected, F + V or F + 1 + V is seen, and the game ends. If no node is selected, the root is
released in the same way, or nothing is released.

``T_t(u)`` is what the adversary gains at most, the sum of P(answers) - u P'(answers) over all
answers for which that is positive. It falls in u and is convex, so that a chord lies above it. It
is kept at the points of a grid. Any grid will do: a coarser one gives a larger bound, never a false
one.

**Measures** on the parts of a selection have a game of what one record or user moves, and its cost.

docs/guarantees.md, "Measures on the parts of a selection". A proof does not claim how much is
moved: that follows here from what is added up and from its bounds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from dpframe.verifier import verdict as linear_losses
from dpframe.verifier.numbers import BITS, ONE, TABLE, divide_up, exp_below
from dpframe.verifier.sketch_games import composed_bound
from dpframe.verifier.verdict import (
    MOST_HEIGHT,
    BrokenProofError,
    DeltaBound,
    Law,
    Proof,
    ProofStep,
    check_claim,
    check_loss,
    check_time,
    positive_number,
    refine_bound,
    zero_or_positive,
)

POINTS = (120, 480, 1920, 7680)
"""About how many points a grid has; the next number is tried only if the bound is not small enough
yet."""

COARSE = 480
"""Up to this many points a grid says nothing about what more points would gain."""

CORNERS = 96
"""About how many edges are kept of a polygon around the pairs (q, q') that has more than twice as
many corners."""

FARTHEST = 8.0
"""How far beyond the reach of likely answers a grid goes, in logarithms of u."""

Point = tuple[Fraction, Fraction]


@dataclass(frozen=True, kw_only=True)
class PathGame:
    """What is drawn and seen: ``height`` tests, then the root if ``remainder``. Without a law of
    ``release`` no number is released: all that is seen of a node is that it was selected."""

    test: Law
    release: Law | None
    height: int
    threshold: int
    remainder: bool


def path_bound(game: PathGame, epsilon: Fraction, enough: Fraction = Fraction(0)) -> Fraction:
    """Upper bound on delta at epsilon: the larger of both directions. Finer grids are tried until
    the bound is at most ``enough``, or cannot get there."""
    corners = polygon(selection_pairs(game.test, game.threshold))
    start = exp_below(epsilon)

    def bound_on(points: int, more_first: bool) -> Fraction:
        found = _direction_bound(game, corners, start, points, more_first=more_first)
        return Fraction(found, ONE)

    return max(
        refine_bound(partial(bound_on, more_first=way), POINTS, COARSE, enough)
        for way in (False, True)
    )


def selection_pairs(test: Law, threshold: int) -> list[tuple[int, int]]:
    """All pairs (q, q') for residuals F >= 1, in parts of 2**64.

    The pair (0, q') is among them, for a node that is there on one side only, with a residual of 1:
    the other side never tests it.
    """
    pairs = {(0, 0), (0, test.at_least(threshold - 1)), (TABLE, TABLE)}
    least = max(1, threshold - test.highest - 1)  # the smallest F with q' > 0
    most = threshold - test.lowest  # from here on q = q' = 1
    pairs.update(
        (test.at_least(threshold - f), test.at_least(threshold - f - 1))
        for f in range(least, most + 1)
    )
    return sorted(pairs)


# -- the worst residual is a corner: docs/mechanism.md, "How it is computed" -----------------------


def polygon(pairs: list[tuple[int, int]]) -> list[Point]:
    """Corners of a convex polygon that holds all pairs. What a test costs is convex in (q, q'), so
    that no pair inside costs more than the worst corner."""
    hull = _half_hull(pairs)[:-1] + _half_hull(pairs[::-1])[:-1] if len(pairs) > 2 else pairs
    corners = [(Fraction(x, TABLE), Fraction(y, TABLE)) for x, y in hull]
    if len(corners) <= 2 * CORNERS:
        return corners
    edges = list(pairwise([*corners, corners[0]]))
    skip, ends = len(edges) // CORNERS, CORNERS // 8
    n = len(edges)
    kept = [e for i, e in enumerate(edges) if i < ends or i >= n - ends or i % skip == 0]
    outer = [_edge_intersection(a, b) for a, b in pairwise([*kept, kept[0]])]
    within = all(point is not None and 0 <= min(point) <= max(point) <= 1 for point in outer)
    return [point for point in outer if point is not None] if within else corners


def _half_hull(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """One half of the convex hull of points in order; in whole numbers, exact."""
    out: list[tuple[int, int]] = []
    for x, y in points:
        while len(out) > 1:
            (ax, ay), (bx, by) = out[-2], out[-1]
            if (bx - ax) * (y - ay) > (by - ay) * (x - ax):
                break
            out.pop()
        out.append((x, y))
    return out


def _edge_intersection(one: tuple[Point, Point], other: tuple[Point, Point]) -> Point | None:
    """The point where two prolonged edges meet, outside of all edges between them; None if they do
    not meet."""
    if one[1] == other[0]:
        return one[1]
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = *one, *other
    turn = (bx - ax) * (dy - cy) - (by - ay) * (dx - cx)
    if turn <= 0:
        return None
    part = ((cx - ax) * (dy - cy) - (cy - ay) * (dx - cx)) / turn
    return ax + part * (bx - ax), ay + part * (by - ay)


# -- what is seen when a node is released ----------------------------------------------------------


class ShiftDivergence:
    """V against V + 1, or V + 1 against V: the sum of p - u p' where that is positive.

    Values stand in the order of p / p', which is known to one part of ONE. A value in the wrong
    place has a p - u p' below p' / ONE. All such values together are off by at most one part of
    ONE, which is added.
    """

    def __init__(self, law: Law | None, *, more_first: bool) -> None:
        weights = [] if law is None else law.weights
        still, moved = [*weights, 0], [0, *weights]
        if law is None:  # V is not seen: one value, as likely in both
            still = moved = [TABLE]
        first, second = (moved, still) if more_first else (still, moved)
        pairs = list(zip(first, second, strict=True))
        self._p, self._q = [sum(p for p, q in pairs if q == 0)], [0]
        order = sorted(((p * ONE // q, p, q) for p, q in pairs if q > 0), reverse=True)
        self._negated = [-ratio for ratio, _, _ in order]
        for _, p, q in order:
            self._p.append(self._p[-1] + p)
            self._q.append(self._q[-1] + q)

    def divergence(self, mass: int, u: int, other: int) -> int:
        """The sum for ``mass`` times the first law and ``u other`` times the second, rounded up;
        mass, u and other in parts of ONE."""
        if mass == 0:
            return 0
        against = u * other
        at = bisect_right(self._negated, -(against // mass) - 1)
        over = (mass * self._p[at] << BITS) - against * self._q[at]
        return max(0, divide_up(over, TABLE << BITS)) + 1


# -- the game --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SelectionStep:
    """One pair of selection probabilities, in parts of ONE: rounded up for the first law, down for
    the other."""

    top: int
    top_other: int
    bot: int
    bot_other: int


def _selection_steps(corners: list[Point], *, more_first: bool) -> list[SelectionStep]:
    out = []
    for q, more in corners:
        p, other = (more, q) if more_first else (q, more)
        up = [-(-(x.numerator << BITS) // x.denominator) for x in (p, 1 - p)]
        down = [(x.numerator << BITS) // x.denominator for x in (other, 1 - other)]
        out.append(SelectionStep(up[0], max(0, down[0]), up[1], max(0, down[1])))
    return out


def _direction_bound(
    game: PathGame, corners: list[Point], start: int, n: int, *, more_first: bool
) -> int:
    """T_h at ``start``, in parts of ONE, rounded up."""
    steps, seen = (
        _selection_steps(corners, more_first=more_first),
        ShiftDivergence(game.release, more_first=more_first),
    )
    grid = _ratio_grid(steps, game.height, start, n, more_first=more_first)
    if game.remainder:
        values = [seen.divergence(ONE, u, ONE) for u in grid]
    else:
        values = [max(ONE - u, 0) for u in grid]
    shifts = [_step_on_grid(step, seen, grid) for step in steps]
    for _ in range(game.height):
        check_time()
        # u = 0 keeps everything; beyond the grid the last value is above all that follow
        known, values = [ONE, *values, values[-1]], list(values)
        for shift in shifts:
            values = [
                now if now > (at := (known[j] * a + known[j + 1] * b >> BITS) + c) else at
                for now, (j, a, b, c) in zip(values, shift, strict=True)
            ]
    return min(ONE, values[grid.index(start)])


def _step_on_grid(
    step: SelectionStep, seen: ShiftDivergence, grid: list[int]
) -> list[tuple[int, int, int, int]]:
    """For every u of the grid: where T_{t-1} is looked up, with which weights, and what is added.

    The chord's weight on its right end, where T is smaller, is rounded down; the sum up.
    """
    points, out = [0, *grid], []
    check_time()
    for u in grid:
        added = seen.divergence(step.top, u, step.top_other) + 1
        if step.bot == 0:
            out.append((0, 0, 0, added))
            continue
        x = u * step.bot_other // step.bot  # rounded down: T falls
        j = bisect_right(points, x) - 1
        right = 0
        if j + 1 < len(points):
            right = step.bot * (x - points[j]) // (points[j + 1] - points[j])
        out.append((j, step.bot - right, right, added))
    return out


def _ratio_grid(
    steps: list[SelectionStep], height: int, start: int, n: int, *, more_first: bool
) -> list[int]:
    """The points of a grid from ``start`` to where the answers can take u, spaced so that the ratio
    of the likeliest answer leads from one point to another. Floats choose them; any points would
    do."""
    moves = [
        (step.top_other - step.top if not more_first else step.top - step.top_other, move)
        for step in steps
        if step.bot > ONE // 10_000 and (move := _log_ratio(step)) > 0
    ]
    usual = max(moves, default=(0, 0.01))[1]
    most = max((move for _, move in moves), default=usual)
    reach = min(most * height, 4.0 + 2 * abs(math.log(start / ONE))) + usual
    each = max(usual / max(1, math.ceil(n * usual / reach)), reach / (8 * n))
    factor, out, far = exp_below(Fraction(each)), [start], 0.0
    while far < reach + FARTHEST:
        far += each
        out.append(out[-1] * factor >> BITS if more_first else (out[-1] << BITS) // factor)
        if (
            far > reach and len(out) % _points_to_doubling(n) == 0
        ):  # rare answers lead farther: ever fewer
            factor, each = factor * factor >> BITS, 2 * each
    return sorted(set(out))


def _points_to_doubling(n: int) -> int:
    """How many points beyond the reach of likely answers come before their distance is doubled."""
    return max(8, n // 40)


def _log_ratio(step: SelectionStep) -> float:
    if step.bot_other == 0:
        return 0.0
    return abs(math.log(step.bot / ONE) - math.log(step.bot_other / ONE))


# -- The games of offline heavy hitters: along a path, or by shares -------------------------------


ONE_RECORD = "docs/guarantees.md, Why it holds: one record"


SHARES = "docs/mechanism.md, Users as shares"


def bound_path_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of one record along one path: docs/guarantees.md, "Why it holds: one record"."""
    check_claim(
        proof.whole_number("height", 1) <= MOST_HEIGHT, f"there are more than {MOST_HEIGHT} tests"
    )
    game = PathGame(
        test=proof.law("test"),
        release=proof.law_or_none("release"),
        height=proof.whole_number("height", 1),
        threshold=proof.whole_number("threshold"),
        remainder=proof.flag("remainder"),
    )
    hidden = game.test.highest + 1 < game.threshold
    alone = "is never selected" if hidden else "can be selected; all of that chance is counted"
    return DeltaBound(
        path_bound(game, epsilon, enough),
        ProofStep("a node that only one table has " + alone, f"{ONE_RECORD}, after step 4"),
        ProofStep(
            f"the worst residuals of {game.height} tests, then "
            f"{'the remainder' if game.remainder else 'nothing'}: T_{game.height} from T_0",
            f"{ONE_RECORD}, steps 1 to 4",
        ),
    )


def bound_shares_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of all units of a record or user, wherever they lie: docs/mechanism.md, "Users as
    shares"."""
    test, release = proof.law("test"), proof.law_or_none("release")
    height, units, threshold = (
        proof.whole_number("height", 1),
        proof.whole_number("units", 1),
        proof.whole_number("threshold"),
    )
    left, right = proof.scale("left"), proof.scale("right")
    scale = None if release is None else proof.scale("release_scale")
    check_claim(scale is not None or proof.game.get("release_scale") is None, "nothing is released")
    check_claim(
        test.highest + units < threshold,
        f"threshold {threshold} is no more than {units} units above {test.highest}, the most that "
        "the test noise adds: a node that only one table has could be selected",
    )
    loss = linear_losses.selection_loss(
        left=left, right=right, release=scale, height=height, remainder=proof.flag("remainder")
    )
    check_loss("the scales", loss, epsilon)
    bot, top = linear_losses.selection_slips(test, left=left, right=right, units=units)
    ends = Fraction(0)
    if release is not None and scale is not None:
        ends = linear_losses.slip_of_release(release, scale, units)
    return DeltaBound(
        height * max(bot, top) + ends,
        ProofStep("a node that only one table has is never selected", f"{SHARES}, after step 4"),
        ProofStep(f"a unit loses at most {float(loss):.9g} / {units}", f"{SHARES}, step 4"),
        ProofStep("slips of all levels and of what is released, added", f"{SHARES}, steps 1 to 3"),
    )


MEASURES = "docs/guarantees.md, Measures on the parts of a selection"

BINNED = ("values", "bins", "groups")
"""The kinds of draws of a measure that counts values in bins: numbers of values, numbers in bins,
and in groups of neighbouring bins. One record is in one bin of one part."""

OVER_PERIODS = ("rows", "users", "sum")
"""The kinds of draws that have running totals."""

COUNTED, VALUED = ("rows", "users", "outside", *BINNED), ("sum", "mean")
"""The kinds of draws whose numbers add up over nodes: counts, in units, and values between bounds,
in steps."""

DRAW_FIELDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(COUNTED, frozenset({"unit", "at_most"})),
    **dict.fromkeys(VALUED, frozenset({"low", "high", "decimals"})),
    "distinct": frozenset({"at_most", "singly"}),
    "search": frozenset(),
}
"""For each kind of draw: its fields besides its measure and its noise."""


@dataclass(frozen=True, kw_only=True)
class MeasureDraw:
    """One thing that is drawn for a measure.

    ``moved`` is by how much one record, or user, moves the draw in total; None where a search finds
    the bounds. Noise is discrete Laplace over all integers, of ``scale``; for kinds that add up,
    1/scale is divided between parts and levels. Where bounds are found, the scale follows from
    these and from ``epsilon``. With a ``table`` the noise is that table, and ``moved`` counts move
    by one. With ``periods`` it is Gaussian noise over all periods of a series, of a scale and an
    end for the parts and each measured level; a unit in one period moves later draws by ``column``.
    """

    measure: str
    of: str
    facts: Mapping[str, Any]
    moved: int | None
    scale: Fraction | None = None
    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    table: Law | None = None
    tables: tuple[tuple[Law, int], ...] = ()
    periods: tuple[Mapping[str, Any], ...] = ()
    column: tuple[int, ...] = ()

    @property
    def laws(self) -> Sequence[tuple[Law, int]]:
        """The tables of the draw, each with the number of counts that have it."""
        if self.table is None or self.moved is None:
            return self.tables
        return [(self.table, self.moved)]

    @property
    def loss(self) -> Fraction:
        """The epsilon of the whole draw."""
        if self.scale is None or self.moved is None:
            assert self.epsilon is not None
            return self.epsilon
        return self.moved / self.scale


def bound_measures_game(
    over_periods: Callable[[MeasureDraw], Fraction],
    proof: Proof,
    epsilon: Fraction,
    enough: Fraction,
) -> DeltaBound:
    """Bound delta of everything that is drawn for measures once it is known which nodes are
    shown; ``over_periods`` bounds it for Gaussian noise of a series."""
    drawn = draws_of_game(proof)
    loss = sum((each.loss for each in drawn), Fraction(0))
    check_loss("measures", loss, epsilon)
    bound, said = Fraction(0), list[ProofStep]()
    for each in drawn:
        if each.laws:
            own = min(each.delta, enough)
            bound += composed_bound(each.laws, each.loss, own)
        if each.periods:
            bound += over_periods(each)
        said.append(ProofStep(_draw_sentence(each), f"{MEASURES}, {POINT_TEXTS[each.of]}"))
    whole = ProofStep(
        f"all measures lose at most {float(loss):.9g} together", f"{MEASURES}, after 7"
    )
    return DeltaBound(bound, *said, whole)


POINT_TEXTS = {
    **dict.fromkeys((*COUNTED, *VALUED), "points 2 to 5"),
    **dict.fromkeys(BINNED, "points 5 and 8"),
    "distinct": "point 6",
    "search": "point 7",
}


def _draw_sentence(each: MeasureDraw) -> str:
    what = f"{each.measure}, {each.of}: loses {float(each.loss):.9g}"
    if each.moved is None:
        return f"{what}, by a scale that follows from the bounds that are found"
    if each.periods:
        return f"{what}, in {len(each.column)} periods, of which one moves by {each.moved}"
    if each.laws:
        return f"{what}, as {each.moved} counts that move by one"
    assert each.scale is not None
    return f"{what}, moves by {each.moved} at scale {float(each.scale):.9g}"


def draws_of_game(proof: Proof) -> list[MeasureDraw]:
    """Everything that the game says is drawn; BrokenProofError for what cannot be drawn.

    Segments of cells are one level with nothing above it: their height is 0 here.
    """
    height = proof.whole_number("height", 1)
    check_claim(height <= MOST_HEIGHT, f"there are more than {MOST_HEIGHT} levels")
    if "segments" in proof.game and proof.flag("segments"):
        height = 0
    drawn = [_read_draw(proof, each, height) for each in proof.entries("drawn", "what is drawn")]
    names = {each.measure for each in drawn}
    for name, of in totals_of_game(proof).items():
        if of not in names or name in names:
            raise BrokenProofError(f"{name!r} is the total of {of!r}, which is not drawn")
    means = {each.measure for each in drawn if each.of == "mean"}
    for name, of in sums_of_means(proof).items():
        if of not in means:
            raise BrokenProofError(f"{name!r} is read from a mean {of!r} that is not drawn")
    return drawn


def sums_of_means(proof: Proof) -> Mapping[str, str]:
    """The sums that are read from the draws of a mean, each with the name of that mean: such sums
    draw nothing."""
    told = proof.game.get("read", {})
    if not isinstance(told, dict) or not all(isinstance(of, str) for of in told.values()):
        raise BrokenProofError("'read' must name a mean for every sum in it")
    return told


def totals_of_game(proof: Proof) -> Mapping[str, str]:
    """The running totals over the periods of a series, each with the name of its measure: they draw
    nothing."""
    told = proof.game.get("totals", {})
    if not isinstance(told, dict) or not all(isinstance(of, str) for of in told.values()):
        raise BrokenProofError("'totals' must name a measure for every total in it")
    return told


def _read_draw(proof: Proof, told: Any, height: int) -> MeasureDraw:
    kind = told.get("of") if isinstance(told, dict) else None
    if (
        not isinstance(kind, str)
        or kind not in DRAW_FIELDS
        or not isinstance(told.get("measure"), str)
    ):
        raise BrokenProofError(
            f"a draw must name a measure, and 'of' one of {', '.join(DRAW_FIELDS)}"
        )
    noise = set(told) - DRAW_FIELDS[kind] - {"measure", "of"}
    part, tables = proof.of(told), list[tuple[Law, int]]()
    if kind in VALUED and all(told.get(each) is None for each in DRAW_FIELDS[kind]):
        moved, wanted = None, {"epsilon"}
    elif kind == "rows" and "tables" in told:
        tables = _tables_of_kinds(part)
        moved, wanted = sum(times for _, times in tables), {"tables", "epsilon", "delta"}
        if _move_of_draw(part, kind, height) != 1:
            raise BrokenProofError("tables need counts that move by one each")
    elif kind == "distinct" and "table" in told:
        moved, wanted = _move_of_draw(part, kind, height), {"table", "epsilon", "delta"}
        if told.get("singly") is not True:
            raise BrokenProofError("a table needs counts that move by one each")
    elif kind in OVER_PERIODS and "periods" in told:
        moved = _move_of_draw(part, kind, height)
        wanted = {"periods", "column", "epsilon", "delta"}
    else:
        moved, wanted = _move_of_draw(part, kind, height), {"scale"}
    if noise != wanted or not DRAW_FIELDS[kind] <= set(told):
        raise BrokenProofError(f"a draw of {kind!r} lacks fields, or has others than it needs")
    return MeasureDraw(
        measure=told["measure"],
        of=kind,
        facts=told,
        moved=moved,
        scale=part.scale("scale") if "scale" in wanted else None,
        epsilon=positive_number(told["epsilon"], "epsilon") if "epsilon" in wanted else None,
        delta=zero_or_positive(told.get("delta", 0), "delta"),
        table=part.law("table") if "table" in wanted else None,
        tables=tuple(tables),
        periods=tuple(part.entries("periods")) if "periods" in wanted else (),
        column=_column_of_draw(told["column"]) if "column" in wanted else (),
    )


def _tables_of_kinds(part: Proof) -> list[tuple[Law, int]]:
    """The tables of a count of listed cells, each with the number of kinds of cells that have it:
    a record moves one count of a kind."""
    tables = []
    for told in part.entries("tables", "tables of kinds"):
        one = part.of(told) if isinstance(told, dict) and set(told) == {"table", "times"} else None
        if one is None:
            raise BrokenProofError("a table of kinds must have 'table' and 'times', and no more")
        tables.append((one.law("table"), one.whole_number("times", 1)))
    return tables


def _column_of_draw(told: object) -> tuple[int, ...]:
    if not isinstance(told, list) or not all(type(one) is int and one >= 0 for one in told):
        raise BrokenProofError("'column' must be whole numbers from 0 on")
    check_claim(bool(told) and told[0] > 0, "a unit does not move the first draw after it")
    check_claim(len(told) <= MOST_HEIGHT, f"there are more than {MOST_HEIGHT} periods")
    return tuple(told)


def _move_of_draw(part: Proof, kind: str, height: int) -> int:
    """By how much one record, or user, moves a draw in total, in its units or steps."""
    if kind in COUNTED:
        return part.whole_number("unit", 1) * part.whole_number("at_most", 1)
    if kind in VALUED:
        return move_of_values(kind, _whole_bound(part, "low"), _whole_bound(part, "high"))
    if kind == "distinct":  # ``most`` at every level; at the root 1, or as many
        most = part.whole_number("at_most", 1)
        if not height:
            return most
        return height * most + (1 if part.flag("singly") else most)
    return 1


def move_of_values(kind: str, low: int, high: int) -> int:
    """By how much one value between bounds moves a sum, or both vectors of a mean together; in
    steps, and at least 1."""
    if low > high:
        raise BrokenProofError("the lower bound must not be above the upper one")
    return max(1, high - low if kind == "mean" else max(abs(low), abs(high)))


def _whole_bound(part: Proof, name: str) -> int:
    value = part.game.get(name)
    if type(value) is not int:
        raise BrokenProofError(f"{name!r} must be a whole number")
    return value
