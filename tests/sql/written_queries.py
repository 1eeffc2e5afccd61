"""The SQL that people write: queries of tools and analysts, with what each must become.

A file of ``written/`` has the queries of one origin. Comments before a query say what it stands for
and, by hand, the question that it is: keys, levels, measures, where and from. ``refused`` is the
sentence with which it is refused instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent / "written"

ROWS = 20_000
COUNTRIES = {"FR": 0.3, "DE": 0.2, "US": 0.15, "IT": 0.1, "ES": 0.1, "GB": 0.08, "NL": 0.07}
CHANNELS = {"web": 0.5, "store": 0.3, "phone": 0.15, None: 0.05}
CATEGORIES = ["food", "toys", "books", "garden"]

BOUNDS: dict[str, tuple[float, float]] = {
    "amount": (0, 500),
    "quantity": (0, 10),
    "amount * quantity": (0, 5000),
    "quantity * list_price": (0, 1000),
}
"""Bounds of what a record has."""

OF_A_USER = 6
"""What a user has at a row of the result is at most so many times that."""

ROWS_OF_A_USER = 20


@dataclass(frozen=True, slots=True)
class Written:
    """A query, what it stands for, and what it becomes."""

    origin: str
    title: str
    text: str
    said: dict[str, str] = field(hash=False)
    bounds: dict[str, tuple[float, float]] = field(hash=False)

    @property
    def number(self) -> str:
        """What names the query in tests."""
        return f"{self.origin}: {self.title}"

    def refusal(self, user: bool) -> str | None:
        """The sentence with which it is refused."""
        return self.said.get("refused by user" if user else "refused by record") or self.said.get(
            "refused"
        )

    def is_asked(self, user: bool) -> bool:
        """Whether it is asked so: a query with a privacy unit is not asked by record."""
        return self.said.get("only") in (None, "user" if user else "record")


@cache
def written() -> list[Written]:
    """All queries, in the order of the files."""
    return [one for path in sorted(FOLDER.glob("*.sql")) for one in _queries(path)]


def _queries(path: Path) -> list[Written]:
    head, *blocks = re.split(r"\n\n+", path.read_text("utf-8").strip())
    origin = head.removeprefix("-- # ")
    found = []
    for block in blocks:
        lines = block.splitlines()
        comments = [one[3:] for one in lines if one.startswith("-- ")]
        text = "\n".join(lines[len(comments) :]).removesuffix(";")
        title, *rest = comments
        said, bounds = {}, {}
        for one in rest:
            word, _, value = one.partition(": ")
            if word == "bounds":
                name, _, pair = value.rpartition(" = ")
                lower, upper = map(float, pair.split(", "))
                bounds[name] = lower, upper
            else:
                said[word] = value
        found.append(Written(origin, title, text, said, bounds))
    return found


@cache
def frames() -> dict[str, pd.DataFrame]:
    """Sales, stores and products: always the same."""
    rng = np.random.default_rng(20261127)
    number = rng.choice(12, ROWS, p=0.85 ** np.arange(12) / (0.85 ** np.arange(12)).sum())
    start = np.datetime64("2025-01-01", "us")
    seconds = (np.datetime64("2026-11-01", "us") - start) // np.timedelta64(1, "s")
    amount = np.clip(rng.gamma(2.0, 60.0, ROWS), 1.0, 499.99).round(2)
    sales = pd.DataFrame(
        {
            "country": rng.choice([*COUNTRIES], ROWS, p=[*COUNTRIES.values()]),
            "product": [f"P{1 + i:02}" for i in number],
            "category": [CATEGORIES[i % 4] for i in number],
            "channel": rng.choice(np.array([*CHANNELS], object), ROWS, p=[*CHANNELS.values()]),
            "amount": amount,
            "quantity": rng.integers(1, 10, ROWS),
            "ordered_at": start + rng.integers(0, seconds, ROWS) * np.timedelta64(1_000_000, "us"),
            "customer_id": rng.integers(0, 4_000, ROWS),
            "store_id": rng.integers(1, 12, ROWS),
        }
    )
    stores = pd.DataFrame(
        {
            "store_id": np.arange(1, 11),  # one has no row
            "city": [
                "Aix",
                "Bonn",
                "Cork",
                "Delft",
                "Essen",
                "Fano",
                "Gent",
                "Hull",
                "Ivry",
                "Jena",
            ],
            "region": ["North", "South", "East", "West", "North"] * 2,
            "opened_on": pd.date_range("2010-01-01", periods=10, freq="YS"),
            "square_metres": np.arange(100, 1100, 100),
        }
    )
    products = pd.DataFrame(
        {
            "product": [f"P{i:02}" for i in range(1, 13)],
            "brand": ["Acme", "Bolt", "Crux"] * 4,
            "list_price": np.arange(5, 65, 5) + 0.5,
        }
    )
    return {"sales": sales, "stores": stores, "products": products}


def with_tables() -> duckdb.DuckDBPyConnection:
    """The tables in plain DuckDB, under all names that tools give them."""
    con = duckdb.connect()
    con.execute("ATTACH ':memory:' AS analytics")
    for name, frame in frames().items():
        con.register("given", frame)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        for schema in ("public", "shop", "analytics.main", "analytics.raw"):
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            con.execute(f"CREATE TABLE {schema}.{name} AS SELECT * FROM given")
    return con


OF_BIGQUERY = {
    r"WITH DIFFERENTIAL_PRIVACY (OPTIONS\([^)]*\))?": "",
    r", contribution_bounds_per_\w+ => \([^)]*\)": "",
    r"PERCENTILE_CONT\((\w+), ": r"quantile_cont(\1, ",
    r"APPROX_COUNT_DISTINCT\(": "COUNT(DISTINCT ",
    "`": "",
}


def without_bigquery(text: str) -> str:
    """A query as plain DuckDB runs it, exactly: without what only BigQuery writes."""
    for written, plain in OF_BIGQUERY.items():
        text = re.sub(written, plain, text)
    return text
