"""Releases of sales as the files of docs/bi read them, and others with levels of many types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpframe as dp
from dpframe.testing import seeded_noise

WEEKS = ("2026-W40", "2026-W41", "2026-W42", "2026-W44")
"""One is missing."""
NEXT = "2026-W45"
DEPARTMENTS = ("GROCERY", "Früchte & Gemüse", "MEAT's", "TINY")
ODD = 'Art (100 %) "x"'
KINDS = {
    "days": ["day"],
    "times": ["half_day"],
    "kinds": ["online", "pieces"],
    'Größe "Ü" 2026-Q3, a name that is longer than PostgreSQL takes in its 63 bytes': [
        ODD,
        "online",
    ],
}
MEASURES = {"customers": dp.count(), "revenue": dp.sum("amount", lower=0, upper=20)}
EACH: dict[str, Any] = {"user": "customer", "epsilon": 1.0, "delta": 1e-6}


def _rows() -> pd.DataFrame:
    random = np.random.default_rng(7)
    n = 6000
    seconds = random.integers(0, 42 * 86400, n)
    rows = pd.DataFrame(
        {
            "ts": pd.Timestamp("2026-09-28") + pd.to_timedelta(seconds, unit="s"),
            "customer": random.integers(0, 1500, n),
            "department": random.choice(DEPARTMENTS, n, p=[0.5, 0.35, 0.149, 0.001]),
            "amount": random.uniform(0, 20, n),
            "pieces": random.integers(1, 4, n),
            "online": random.random(n) < 0.4,
        }
    )
    rows["day"] = rows["ts"].dt.date.astype("date32[pyarrow]")
    rows[ODD] = rows["pieces"].astype(str)
    rows["half_day"] = rows["ts"].dt.floor("12h")
    return rows


def draw(ledger: dp.Ledger, *weeks: str, **more: Any) -> None:
    """Draw the sales of weeks, with ``more`` measures."""
    rows = _rows()
    for week in weeks:
        stored: dict[str, Any] = {"ledger": ledger, "release": f"revenue-{week}"}
        stored |= {"contribution": "share"}  # else weeks cannot be compared
        with seeded_noise(int(week[-2:])):
            dp.rollup(
                rows, ["department"], {**MEASURES, **more}, period=("ts", week), **EACH, **stored
            )


def ledger_in(folder: Path) -> dp.Ledger:
    """Draw sales of ``WEEKS``, and releases whose levels have other types than text."""
    ledger = dp.Ledger(folder / "budget.db", epsilon=9.0, delta=1e-4)
    draw(ledger, *WEEKS)
    rows = _rows()
    for name, levels in KINDS.items():
        with seeded_noise(1):
            dp.hhh(rows, levels, **EACH, ledger=ledger, release=name)
    return ledger
