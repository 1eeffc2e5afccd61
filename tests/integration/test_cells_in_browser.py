"""The matrix of cells in a real browser: it adds up wherever one goes, and leads back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpframe.testing import seeded_noise
from tests.integration.test_report_in_browser import chromium

__all__ = ["chromium"]

pytestmark = pytest.mark.engines


def number(text: str) -> int:
    return int(text.replace(",", "") or 0)


def sums(chromium: Any) -> tuple[int, int]:
    entries = chromium.execute_script(
        "return [...document.querySelectorAll('#grid td:not(.sum)')].map((one) => one.textContent)"
    )
    last = chromium.execute_script(
        "return [...document.querySelectorAll('#grid td.sum')].at(-1).textContent"
    )
    return sum(map(number, entries)), number(last)


def test_the_matrix_adds_up_at_every_step_and_leads_back(chromium: Any, tmp_path: Path) -> None:
    """Law: entries are sums of disjoint cells: below an entry there is what it showed."""
    rows = [(f"10.{i % 3}.{i % 2}.{i % 5}", f"a/{'bc'[i % 2]}/{i % 4}") for i in range(9000)]
    rows += [(f"172.16.{i % 9}.1", f"d{i % 30}/x") for i in range(6000)]
    frame = pd.DataFrame(rows, columns=["src", "p"])
    with seeded_noise(1):
        result = frame.dp.hhh(
            "ip:src?version=4 * path:p?depth=3", epsilon=1.0, delta=1e-6, threshold=60
        )
    result.dp.report(tmp_path / "cells.html")
    chromium.get((tmp_path / "cells.html").as_uri())
    total = int(result.loc[result["level"] > 0, "residual"].sum())
    assert sums(chromium) == (total, total)
    entry = "document.querySelector('#grid td button')"
    shown = number(chromium.execute_script(f"return {entry}.textContent"))
    chromium.execute_script(f"{entry}.click()")
    assert sums(chromium) == (shown, shown)
    chromium.execute_script("document.querySelector('#trail-0 button').click()")
    chromium.execute_script("document.querySelector('#trail-1 button')?.click()")
    assert sums(chromium) == (total, total)
    listed = "document.querySelectorAll('#table tbody tr').length"
    assert chromium.execute_script(f"return {listed}") == min(50, len(result))
    assert chromium.get_log("browser") == []
