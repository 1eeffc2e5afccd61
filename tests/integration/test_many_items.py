"""Words of real people: how many are found, and whether they are really used."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
pytestmark = [
    pytest.mark.evidence,
    pytest.mark.skipif(
        not DATA.is_dir(),
        reason="the folder shared/data with real tables is not beside the checkout",
    ),
]


def test_words_of_rails_are_found_and_truly_used() -> None:
    """Law: at epsilon 1 and delta 1e-6 at least 320 words on average over ten releases, counts
    included; at least 95 % of them are used by as many users as the threshold says; and counts are
    off by no more than a sample of the best number of words of a user, 127 (see the benchmark)."""
    source = str(DATA / "git_words_rails.parquet")
    truth = dict(
        duckdb.sql(f"SELECT word, count(DISTINCT user_id) FROM '{source}' GROUP BY word").fetchall()
    )
    found, used, squares = 0, 0, 0.0
    for seed in range(10):
        with seeded_noise(seed):
            words = dp.heavy_hitters(
                source, "word", user="user_id", epsilon=1.0, delta=1e-6, progress=False
            )
        true = words["word"].map(truth)
        found += len(words)
        used += int((true >= words.dp.receipt["threshold"]).sum())
        squares += float(((words["count"] - true) ** 2).mean())
    assert found >= 3200
    assert used >= 0.95 * found
    assert (squares / 10) ** 0.5 <= 127
