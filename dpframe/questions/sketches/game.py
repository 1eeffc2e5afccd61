"""What a verifier takes of sketches, of one stream and of others."""

from __future__ import annotations

from dpframe.accounting.sketches import SketchLaws
from dpframe.accounting.sparse_gaussian import GshmLaws
from dpframe.asking.proofs import Game, numbered


def merged_game(laws: GshmLaws, moves: int) -> Game:
    """The game of counts that move the same way; whole users need no group."""
    facts = {
        "kind": "merged",
        "sketches": laws.sketches,
        "changed": laws.changed,
        "least": 1 + laws.t,
        "noise": 0,
    }
    return Game(facts, (laws.noise,), moves)


def sketch_game(laws: SketchLaws, sketches: int, standard: int | None, moves: int) -> Game:
    """The game of so many sketches, for groups of ``moves`` records.

    ``standard`` is the number of counters of a sketch that removes zeros at once, else None.
    """
    (noise, shared), tables = numbered(laws.noise, laws.shared)
    facts = {
        "kind": "sketches",
        "sketches": sketches,
        "standard": standard,
        "theta": laws.theta,
        "noise": noise,
        "shared": shared,
    }
    return Game(facts, tables, moves)
