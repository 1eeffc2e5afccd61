"""What the files of this folder share: a ledger, and the engines that count beside DuckDB."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpframe as dp
from tests import engines

OF_SPARK = (
    *("ignore:PySpark does not yet fully support pandas", "ignore::ResourceWarning"),
    "ignore::DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What Spark warns of is no error of ours."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if item.path.parent == Path(__file__).parent and ("engine" in names or "session" in names):
            for ignored in OF_SPARK:
                item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "budget.db", epsilon=1000.0, delta=1e-2)


@pytest.fixture(
    scope="module", params=["postgres", pytest.param("spark", marks=pytest.mark.engines)]
)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    with getattr(engines, request.param)() as running:
        yield running


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of the workers that feed sketches
    with engines.spark() as running:
        yield running.session
