"""What a ledger holds, as frames."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, amount
from dpframe.ledger.totals import totals

if TYPE_CHECKING:
    import pandas as pd

FACTS = ("mechanism", "hierarchy", "neighbours")
"""Shown from every receipt."""


def summary(db: sqlite3.Connection, path: str) -> pd.DataFrame:
    """One row: totals, spent, left, the plain sum, what the accountant saves, releases."""
    import pandas as pd

    now = totals(db)
    plain, count = db.execute("SELECT coalesce(sum(epsilon), 0), count(*) FROM charges").fetchone()
    return pd.DataFrame(
        {
            "ledger": [path],
            "accountant": [now.accountant],
            "epsilon": [amount(now.epsilon, EPSILON_UNIT)],
            "delta": [amount(now.delta, DELTA_UNIT)],
            "spent_epsilon": [now.spent.epsilon],
            "spent_delta": [now.spent.delta],
            "left_epsilon": [now.left.epsilon],
            "left_delta": [now.left.delta],
            "plain_epsilon": [amount(plain, EPSILON_UNIT)],
            "saved_epsilon": [amount(plain - now.spent_epsilon, EPSILON_UNIT)],
            "releases": [int(count)],
        }
    )


def releases(db: sqlite3.Connection) -> pd.DataFrame:
    """One row a charge, oldest first; ``stored`` says that its name replays it."""
    import pandas as pd

    rows = db.execute(
        "SELECT number, time, charges.name, charges.release_id, source, epsilon, delta, "
        "charges.receipt, results.name IS NOT NULL FROM charges LEFT JOIN results "
        "ON results.release_id = charges.release_id ORDER BY number ASC NULLS FIRST"
    ).fetchall()
    facts = [json.loads(row[7]) for row in rows]
    text = pd.Series([""]).dtype  # also where all is missing, or no row

    return pd.DataFrame(
        {
            "number": pd.Series([r[0] for r in rows], dtype="int64"),
            "time": pd.Series([r[1] for r in rows], dtype=text),
            "release": pd.Series([r[2] for r in rows], dtype=text),
            "release_id": pd.Series([r[3] for r in rows], dtype=text),
            "source": pd.Series([r[4] for r in rows], dtype=text),
            **{name: pd.Series([fact.get(name) for fact in facts], dtype=text) for name in FACTS},
            "epsilon": pd.Series([amount(r[5], EPSILON_UNIT) for r in rows], dtype="float64"),
            "delta": pd.Series([amount(r[6], DELTA_UNIT) for r in rows], dtype="float64"),
            "stored": pd.Series([bool(r[8]) for r in rows], dtype="bool"),
            "receipt": pd.Series([r[7] for r in rows], dtype=text),
        }
    )
