"""Files for the examples of ``docs/command_line.md``: ``python -m tests.examples`` makes them here.

Everything in them is made up: 3,000 visits of 300 people to a shop.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

CITIES = {"FR": ["Paris", "Lyon"], "IT": ["Rome", "Bari"], "ES": ["Madrid"]}
WORDS = ["selfie", "brunch", "holiday"]


def visits(rows: int = 3000) -> pd.DataFrame:
    """One row a visit; the same ones every time."""
    random = np.random.default_rng(1)
    countries = random.choice(list(CITIES), rows, p=[0.6, 0.3, 0.1])
    customers = random.integers(0, 300, rows)
    return pd.DataFrame(
        {
            "src": [f"10.{n % 2}.{n % 3}.{n % 5}" for n in random.integers(0, 30, rows)],
            "country": countries,
            "city": [random.choice(CITIES[country]) for country in countries],
            "category": random.choice(["shop/shoes", "shop/hats", "blog/news"], rows),
            "word": random.choice(WORDS, rows, p=[0.6, 0.3, 0.1]),
            "customer_id": customers,
            "user_id": [f"user {n}" for n in customers],
            "distance": random.integers(0, 5000, rows),
            "air_time": random.integers(0, 700, rows),
        }
    )


def make(folder: Path) -> None:
    """Write the files that the page reads."""
    frame = visits()
    for name in ("visits.parquet", "sales.parquet", "logs/a.parquet", "logs/2026-11-01/a.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(folder / name)
    frame.to_csv(folder / "logs.csv.gz", index=False)
    with duckdb.connect(folder / "warehouse.duckdb") as con:
        con.execute("CREATE OR REPLACE TABLE visits AS FROM frame")


if __name__ == "__main__":
    make(Path.cwd())
