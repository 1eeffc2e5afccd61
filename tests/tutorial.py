"""Type ``docs/tutorial.md`` as it is printed: ``python -m tests.tutorial``.

In a copy of what is under version control, by a shell and interactive Pythons, in the environment
that the page makes. Prints how long it took; fails if a command or a line of Python does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.integration.test_docs import Block, blocks

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"

MADE = ("week.html", "pages/routes.html", "pages/carriers.html", "results.duckdb", "budget.db")
"""What stands in the folder afterwards."""


def script(page: str) -> str:
    """The page as a shell gets it: lines of Python between two of its own go to one interpreter."""
    typed = [block for block in blocks(page) if block.language != "text"]
    assert typed[0].text.startswith("python3 -m venv .venv\n")
    parts = ["set -e\n"]
    for kind, together in groupby(typed, lambda block: block.file or block.language):
        parts.append(_typed(kind, [*together]))
    return "".join(parts)


def _typed(kind: str, together: list[Block]) -> str:
    text = "".join(block.text for block in together)
    if kind == "sh":
        return text
    if kind == "python":
        assert text.endswith("\nexit()\n"), "who reads on is in Python still"
        return f"python -i -q <<'END_OF_PYTHON'\n{text}END_OF_PYTHON\n"
    assert together[0].file, f"{kind} is typed nowhere"
    return f"cat > {kind} <<'END_OF_FILE'\n{text}END_OF_FILE\n"


def copied(folder: Path) -> Path:
    """What a user has who has fetched the project."""
    names = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    ).splitlines()
    for name in names:
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def main() -> int:
    start = time.monotonic()
    with TemporaryDirectory() as made:
        checkout = copied(Path(made, "dpframe"))
        leave = {"PYTHONPATH", "VIRTUAL_ENV"}
        environment = {k: v for k, v in os.environ.items() if k not in leave}
        done = subprocess.run(
            ["bash", "-c", script(PAGE.read_text("utf-8"))],
            cwd=checkout,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        missing = [name for name in MADE if not (checkout / "weekly" / name).is_file()]
    failed = done.returncode or missing or "Traceback" in done.stdout or "Error" in done.stdout
    if failed:
        print(done.stdout, f"exit code {done.returncode}", f"missing: {missing}", sep="\n")
        return 1
    print(f"the tutorial, typed as printed: {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
