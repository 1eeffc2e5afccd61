"""The game of rounds of weights, for a verifier. It names laws: their tables would be too long."""

from __future__ import annotations

from dpframe.accounting.weighted_round_noise import Law, RoundLaws
from dpframe.asking.proofs import Game


def rounds_game(laws: RoundLaws) -> Game:
    """Return the game: Gaussian noise on the weights of every round, on sizes and on counts."""
    return Game(
        {
            "kind": "rounds",
            "items": laws.items,
            "unit": laws.unit,
            "threshold": laws.threshold,
            "rounds": [{**_sigma_and_end(one), "part": one.part} for one in laws.rounds],
            "sizes": None if laws.sizes is None else _sigma_and_end(laws.sizes),
            "norm": laws.count.norm,
            "count": _sigma_and_end(laws.count),
        }
    )


def _sigma_and_end(law: Law) -> dict[str, object]:
    return {"sigma": law.sigma, "end": int(law.noise.highest)}
