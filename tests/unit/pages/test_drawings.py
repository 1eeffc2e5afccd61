"""What stands beside a line: numbers and periods, each in its own room."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from dpframe.pages.drawings import NARROW, SMALL, WIDE, Point, Size, draw_lines

TEXT = re.compile(r"<text class='tick' x='([\d.]+)' y='[\d.]+' text-anchor='(\w+)'>([^<]*)<")
BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}
"""The part of a text that stands before its place."""


def texts(periods: list[str], values: list[float], size: Size) -> list[tuple[float, float, str]]:
    """The left and right end of every text beside a line, letters as wide as on a phone."""
    points = [Point(value=value, lower=value - 1, upper=value + 1) for value in values]
    drawing = draw_lines(periods, points, frozenset(), label="x", said=str, size=size)
    out = []
    for at, anchor, text in TEXT.findall(drawing):
        wide = size.letter * len(text)
        left = float(at) - BEFORE[anchor] * wide
        out.append((left, left + wide, text))
    return out


@pytest.mark.parametrize("size", [WIDE, NARROW, SMALL], ids=lambda size: size.kind)
@pytest.mark.parametrize("count", [1, 2, 7, 31, 400])
@pytest.mark.parametrize("name", ["2024-{:02}", "{:04}-02-27 00:00"])
def test_no_period_is_written_over_another_or_cut(name: str, count: int, size: Size) -> None:
    """Law: below the axis, texts are apart and in the drawing, and the last period is named."""
    periods = [name.format(i) for i in range(count)]
    found = [text for text in texts(periods, [5.0] * count, size) if text[2] in periods]
    assert found[-1][2] == periods[-1]
    assert all(left >= 0 and right <= size.width for left, right, _ in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))


@pytest.mark.parametrize("most", [3.0, 9e3, 31_000_000.0, 8e8])
def test_numbers_at_the_axis_are_whole(most: float) -> None:
    """Law: the axis leaves room for its longest number."""
    periods = ["2024-01", "2024-02"]
    found = [text for text in texts(periods, [most, most / 2], NARROW) if text[2] not in periods]
    assert len(found) > 2
    assert min(left for left, *_ in found) >= 0
