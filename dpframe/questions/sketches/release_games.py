"""The games of released sketches, for a verifier."""

from __future__ import annotations

from dpframe.accounting.sketch_lattice import LatticeLaws
from dpframe.accounting.sketch_pure import PureLaws
from dpframe.accounting.sketch_stream import SketchLaws
from dpframe.accounting.sparse_gaussian import GshmLaws
from dpframe.asking.proofs import Game, number_tables


def merged_game(laws: GshmLaws, moves: int) -> Game:
    """The game of counts that move in one direction, for groups of ``moves`` records; whole users
    need no group."""
    facts = {
        "kind": "merged",
        "sketches": laws.sketches,
        "changed": laws.changed,
        "least": 1 + laws.t,
        "noise": 0,
    }
    return Game(facts, (laws.noise,), moves)


def sum_game(laws: LatticeLaws, counters: int, moves: int) -> Game:
    """The game of sums of post-processed sketches, for groups of ``moves`` records."""
    facts = {
        "kind": "sums",
        "sketches": laws.sketches,
        "counters": counters,
        "theta": laws.theta,
        "noise": 0,
    }
    return Game(facts, (laws.noise,), moves)


def universe_game(laws: PureLaws, moves: int) -> Game:
    """The game of a public list of keys, each with unbounded noise."""
    level = {"scale": str(laws.scale), "moves": laws.move.absolute, "least": None}
    return Game({"kind": "counts", "units": 1, "levels": [level]}, (), moves)


def sketch_game(laws: SketchLaws, sketches: int, standard: int | None, moves: int) -> Game:
    """The game of ``sketches`` sketches, for groups of ``moves`` records.

    ``standard`` is the number of counters of a sketch that removes zeros at once, else None.
    """
    (noise, shared), tables = number_tables(laws.noise, laws.shared)
    facts = {
        "kind": "sketches",
        "sketches": sketches,
        "standard": standard,
        "theta": laws.theta,
        "noise": noise,
        "shared": shared,
    }
    return Game(facts, tables, moves)
