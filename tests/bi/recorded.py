"""The queries that Superset sent for docs/bi/superset, as PostgreSQL wrote them into its log."""

from __future__ import annotations

import os
import re
from pathlib import Path

FILE = Path(__file__).with_name("superset_queries.sql")
RECORD = os.environ.get("DPFRAME_RECORD") == "1"
HEAD = """-- What Apache Superset 6.1 sends to PostgreSQL for the dashboard of docs/bi/superset, by
-- log_statement; written by DPFRAME_RECORD=1 pytest -m bi tests/bi/test_superset.py.
"""
LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ .*?LOG:  statement: ", re.MULTILINE)
ANY_LINE = re.compile(r"\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ ")


def queries(log: str) -> list[str]:
    """The different SELECT statements over published tables, in a fixed order."""
    found = set()
    for start in LINE.finditer(log):
        text = ANY_LINE.split(log[start.end() :], maxsplit=1)[0]
        if text.startswith("SELECT") and re.search(r"\bFROM dp_results\.", text):
            lines = (line.strip() for line in text.strip().splitlines())
            found.add("\n".join(line for line in lines if line).removesuffix(";"))
    return sorted(found)


def kept() -> list[str]:
    text = FILE.read_text("utf-8").removeprefix(HEAD)
    return [one.strip() for one in text.split(";\n") if one.strip()]


def write(found: list[str]) -> None:
    FILE.write_text(HEAD + "".join(f"\n{one};\n" for one in found), "utf-8")
