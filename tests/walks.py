"""Notebooks of ``docs/walks``: run as a new user would, beside two public tables.

``python -m tests.walks`` runs them and keeps what they answered; the tests run them and compare
nothing, since answers are noisy.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parents[1]
WALKS = sorted((HERE / "docs" / "walks").glob("*.ipynb"))
DATA = HERE.parent / "shared" / "data"
PATH = os.environ.get("PATH", "")
"""Of whoever runs this; a new user's begins with the environment's ``bin``, as activating does."""

TABLES = ("retail_completejourney.parquet", "flights_nyc13.parquet")


def walked(path: Path, folder: Path) -> Any:
    """A notebook that was run in a folder which holds the two tables and nothing else."""
    for table in TABLES:
        (folder / table).symlink_to(DATA / table)
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    with patch.dict(os.environ, {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{PATH}"}):
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    return notebook


def kept(notebook: Any, folder: Path) -> Any:
    """As it is shown in the docs: without what a wait looked like, and where it was run."""
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
            for one in cell.outputs:
                drawn(one.get("data", {}))
    text = nbformat.writes(notebook)
    text = text.replace(f"{folder}/", "").replace(str(folder), ".")
    return nbformat.reads(re.sub(r"\\u001b\[[0-9;]*m", "", text), as_version=4)


PLOT = "application/vnd.plotly.v1+json"


def drawn(data: Any) -> None:
    """A plot as HTML, too, for the site, which has plotly.js beside it (``plots.js``)."""
    if PLOT in data:
        figure = {key: data[PLOT][key] for key in ("data", "layout")}
        figure["layout"].pop("template", None)
        text = json.dumps(figure, separators=(",", ":")).replace("</", "<\\/")
        data["text/html"] = (
            f'<div class="plot"><script type="application/json">{text}</script></div>'
        )


if __name__ == "__main__":
    for path in WALKS:
        if len(sys.argv) == 1 or path.stem in sys.argv[1:]:
            with TemporaryDirectory() as folder:
                nbformat.write(kept(walked(path, Path(folder)), Path(folder)), path)
