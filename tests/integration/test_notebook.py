"""A notebook as Jupyter runs it: one kernel, a few cells."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

pytestmark = pytest.mark.engines

PACKAGE = Path(__file__).resolve().parents[2]

CELLS = [
    "import pandas as pd, dpframe as dp\n"
    "df = pd.DataFrame({'country': ['FR'] * 400 + ['IT'] * 300})\n"
    "result = df.dp.hhh('country', epsilon=1.0, delta=1e-6)\n"
    "result",
    *("result.dp", "result.dp.receipt", "dp.explain('country', epsilon=1.0, delta=1e-6)"),
    "result[result['level'] == 1].assign(count=7).dp",
    "import polars as pl\npl.from_pandas(df).dp.hhh('country', epsilon=1.0, delta=1e-6)",
    *("result[result['level'] == 1]", "df"),
    "import time, dpframe.common.progress as progress\n"
    "progress.AFTER = progress.EVERY = 0.02\n"
    "with progress.step('planning the noise'):\n"
    "    time.sleep(0.2)",
    "[name for name in dir(dp) if name in ('hhh', 'errors', 'TYPE_CHECKING', '_HOMES')]",
    "df.dp.hhh('cuontry', epsilon=1.0, delta=1e-6)",
]


def test_a_notebook_shows_tables_cards_progress_and_short_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: results are tables with a card, other frames pandas'; cards fold; a bar shows on the
    kernel's standard error; an error of ours shows the cell and its message."""
    for name in ("DPFRAME_TRACEBACK", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))  # the kernel runs elsewhere
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    with pytest.raises(CellExecutionError) as raised:
        client.execute()
    table, accessor, card, plan, changed, polars, part, rows, bar, names, error = (
        c.outputs for c in notebook.cells
    )
    for shown in (table, polars):
        page = shown[-1]["data"]["text/html"]
        assert page.index("95 % interval") < page.index("<details>") < page.index("Privacy card")
    assert "residual" in table[-1]["data"]["text/plain"].splitlines()[0]  # as pandas writes it
    for shown in (part, rows):
        assert "<table border" in shown[-1]["data"]["text/html"]
    for shown in (accessor, card, plan):
        page = shown[-1]["data"]["text/html"]
        assert "<details>" in page
        assert page.index("differential privacy") < page.index("<details>")
    assert "Privacy card" in card[-1]["data"]["text/plain"]
    assert "this frame is not the release" in changed[-1]["data"]["text/html"]
    said = "".join(part["text"] for part in bar if part["output_type"] == "stream")
    assert "planning the noise: 00:00" in said
    assert names[-1]["data"]["text/plain"] == "['hhh']"
    told = "\n".join(error[-1]["traceback"])
    assert "column 'cuontry' does not exist" in told
    assert "dpframe/" not in told
    assert "answer.py" not in str(raised.value)
