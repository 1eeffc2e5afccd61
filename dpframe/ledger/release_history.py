"""What a ledger's history says for a verifier: who paid for which release, of which period."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpframe.ledger.entries import entries, exact_cost_of
from dpframe.ledger.filters import is_filter
from dpframe.ledger.reservations import profile_of
from dpframe.ledger.totals import read_totals


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRelease:
    """A release. ``block`` is the period that it was charged for: axis, first second, and the
    second after the last; None for all records. ``under`` is the id of the reservation or filter
    that paid, None if the totals paid."""

    name: str
    receipt: Mapping[str, Any]
    block: tuple[str, int, int] | None
    under: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReservation:
    """What was paid for several releases, and the law of each; an empty law for a filter."""

    name: str
    epsilon: Fraction
    delta: Fraction
    releases: int
    law: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHistory:
    """A whole history. ``restated`` says that an older version composed some of its releases. The
    cost of a reservation is its cost for one step, also where two steps were charged."""

    releases: tuple[WrittenRelease, ...]
    reservations: tuple[WrittenReservation, ...]
    restated: bool
    protects: str | None


def read_history(db: sqlite3.Connection) -> ReleaseHistory:
    """The history, oldest first; LedgerError where it is not as it was written."""
    now = read_totals(db)
    drawn, reserved, restated = [], [], False
    for entry in entries(db, now):
        restated |= entry.open is None and now.accountant == "pld"
        if entry.releases is None:
            blocks = entry.blocks
            ends = None if blocks is None else (blocks.axis, blocks.first, blocks.last)
            drawn.append(
                WrittenRelease(
                    name=entry.name or entry.release_id,
                    receipt=json.loads(entry.receipt),
                    block=ends,
                    under=entry.under,
                )
            )
            continue
        epsilon, delta = exact_cost_of(entry, steps=1)
        reserved.append(
            WrittenReservation(
                name=entry.release_id,
                epsilon=epsilon,
                delta=delta,
                releases=entry.releases,
                law=() if is_filter(entry.profile) else profile_of(entry.profile),
            )
        )
    return ReleaseHistory(
        releases=tuple(drawn),
        reservations=tuple(reserved),
        restated=restated,
        protects=now.protects,
    )
