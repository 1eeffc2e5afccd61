"""Files that take the place of others, and what dead processes leave of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from dpframe.common import files as _paths


def test_what_a_dead_process_left_is_removed_and_what_a_live_one_writes_is_not(
    tmp_path: Path,
) -> None:
    """Law: unfinished files that nobody touched for a day, and nothing else."""
    old, young, foreign = (
        tmp_path / name for name in (".dpframe-a.new", ".dpframe-b.new", "c.new")
    )
    for file in (old, young, foreign):
        file.write_bytes(b"half")
    day_before = time.time() - _paths.LEFT - 60
    for file in (old, foreign):
        os.utime(file, (day_before, day_before))
    with _paths.replace_file(tmp_path / "page.html", "a page") as stream:
        stream.write(b"whole")
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == [".dpframe-b.new", "c.new", "page.html"]
