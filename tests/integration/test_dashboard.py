"""The page of a dashboard for a year, typed as printed in a PostgreSQL of its own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests import engines
from tests.gateway.test_documents import run_script, said_in_order, typed
from tests.integration.test_docs import blocks
from tests.walks import DATA

HERE = Path(__file__).resolve().parents[2]
PAGE = (HERE / "docs" / "dashboard.md").read_text("utf-8")


@pytest.mark.engines
@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder shared/data with real tables is not beside the checkout"
)
def test_a_year_is_one_total_as_the_page_says(tmp_path: Path) -> None:
    """Law: nothing fails, what the page says comes out, and every week is there once."""
    shutil.copy(DATA / "retail_completejourney.parquet", tmp_path / "retail.parquet")
    with engines.postgres() as engine:
        if engine.connection.execute(
            "SELECT count(*) FROM pg_roles WHERE rolname = 'dashboards'"
        ).fetchone() == (1,):
            engine.connection.execute("DROP ROLE dashboards")
        engine.connection.execute("DROP DATABASE IF EXISTS shop")
        named = {"PGHOST": engine.connection.info.host, "PGUSER": "tester"}
        found = [block for block in blocks(PAGE) if block.runs]
        script = typed([block for block in found if block.language != "text"])
        done = run_script(script, tmp_path, **named)
    assert done.returncode == 0, done.stdout
    assert not re.search("ERROR|Traceback", done.stdout), done.stdout
    assert said_in_order(done.stdout, found) == [], done.stdout
    weeks = re.findall(r"^ (2017-\d\d-\d\d) +\|", done.stdout, re.M)
    assert weeks == ["2017-12-11", "2017-12-18", "2017-12-25"], done.stdout
    assert "(2, 1e-06)-differential privacy" in done.stdout
    assert (tmp_path / "pages" / "revenue.html").stat().st_size > 10_000
