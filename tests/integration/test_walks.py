"""The walks of a new user in ``docs/walks``, each in a real kernel from its first cell on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import walks

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(
        not walks.DATA.is_dir(), reason="the folder shared/data is not beside the checkout"
    ),
]


@pytest.mark.parametrize("path", walks.WALKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_needs_nothing_but_the_tables(path: Path, tmp_path: Path) -> None:
    """Law: no cell fails or warns, and most of them show something."""
    notebook = walks.walked(path, tmp_path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    said = [one.text for cell in code for one in cell.outputs if one.get("name") == "stderr"]
    assert not [text for text in said if "Warning" in text]
    assert sum(bool(cell.outputs) for cell in code) > len(code) / 2


def test_what_is_kept_of_them_names_no_machine() -> None:
    """Nothing of where they were run, and no error, is in the docs."""
    for path in walks.WALKS:
        text = path.read_text("utf-8")
        assert "/tmp/" not in text
        assert '"output_type": "error"' not in text
        assert '"execution_count": 1' in text
