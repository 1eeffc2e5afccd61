"""References in the docs are what the declarations say."""

from __future__ import annotations

import pytest

from tests import references


@pytest.mark.parametrize("name", references.MADE_FILES)
def test_a_reference_is_what_is_declared(name: str) -> None:
    """If this fails: ``python -m tests.references``."""
    assert (references.HERE / name).read_text("utf-8") == references.MADE_FILES[name]()


def test_every_question_and_command_is_there() -> None:
    """Negative control: the makers see what there is."""
    functions = references.sql_reference()
    assert all(f"## {name}\n" in functions for name in ("dp_hhh", "dp_rollup", "dp_change"))
    commands = references.command_reference()
    for name in ("hhh", "explain-rollup", "run", "publish", "plan-series hhh", "completion"):
        assert f"## dpframe {name}\n" in commands, name
    assert "`--epsilon`" in commands
