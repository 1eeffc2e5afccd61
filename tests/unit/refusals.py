"""Calls that are refused: the class of the error, its words, and nothing of the data."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

SECRET = "sEcReT-4711"
"""A value of the data that no message may quote."""

Wrong = tuple[dict[str, Any], type[Exception], tuple[str, ...]]
"""What is wrong in a call, the class of the error, and parts of its message."""


def refusals(rows: Sequence[Wrong]) -> pytest.MarkDecorator:
    """``parametrize`` by calls that are refused, named by what is wrong in each."""
    return pytest.mark.parametrize(
        "case", rows, ids=[re.sub(" at 0x[0-9a-f]+", "", str(row[0]))[1:70] for row in rows]
    )


def assert_refused(call: Callable[..., object], case: Wrong, **good: Any) -> None:
    """A call that would be good is refused for what a case has wrong."""
    wrong, error, said = case
    with pytest.raises(Exception) as raised:  # noqa: PT011
        call(**{**good, **wrong})
    assert raised.type is error, repr(raised.value)
    for part in said:
        assert part in str(raised.value)
    assert SECRET not in chain(raised.value)


def chain(error: BaseException) -> str:
    """All that a traceback of this error could print."""
    seen = [error]
    for one in seen:
        seen += [e for e in (one.__cause__, one.__context__) if e is not None]
    return " ".join(str(e) + repr(e.args) for e in seen)
