"""Weekly releases of revenue by department, as docs/dashboard.md declares them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from dpframe.doors.cli.main import main

HERE = Path(__file__).resolve().parents[2]
FAMILY = "revenue"
TOTAL = "(all)"
"""What ``label`` says for the total."""


def real_rows() -> Path | None:
    """75,000 purchases of a year, if they are beside the checkout."""
    folders = (folder / "shared" / "data" for folder in HERE.parents)
    files = (folder / "retail_completejourney.parquet" for folder in folders)
    return next((file for file in files if file.exists()), None)


def made_rows(file: Path) -> Path:
    """Purchases of six weeks, of which a department is too small for some."""
    random = np.random.default_rng(5)
    n = 6000
    names = ["GROCERY", "DRUG GM", "MEAT's", "FLORAL"]
    seconds = random.integers(0, 42 * 86400, n)
    rows = pd.DataFrame(
        {
            "ts": pd.Timestamp("2017-01-02") + pd.to_timedelta(seconds, unit="s"),
            "user_id": random.integers(0, 1500, n),
            "department": random.choice(names, n, p=[0.6, 0.25, 0.13, 0.02]),
            "sales_value": random.uniform(0, 20, n),
        }
    )
    rows.to_parquet(file)
    return file


def declare(folder: Path, rows: Path, to: str) -> Path:
    """The declaration of docs/dashboard.md, for other rows and another place."""
    page = (HERE / "docs" / "dashboard.md").read_text("utf-8")
    found = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert found
    text = re.sub(r'source = ".*"', f'source = "{rows}"', found[1])
    text = re.sub(r'publish = ".*"', f'publish = "{to}"', text)
    file = folder / "reports.toml"
    file.write_text(text, "utf-8")
    return file


def rights(password: str) -> list[str]:
    """The statements of docs/bi.md that make a role which can read what is published."""
    page = (HERE / "docs" / "bi.md").read_text("utf-8")
    found = re.search(r"```sql\n(CREATE ROLE.*?)```", page, re.DOTALL)
    assert found
    text = found[1].replace("'PASSWORD'", f"'{password}'")
    return [one.strip() for one in text.split(";") if one.strip()]


def run(declaration: Path, until: str) -> None:
    assert main(["run", str(declaration), "--until", until, "--quiet"]) == 0
