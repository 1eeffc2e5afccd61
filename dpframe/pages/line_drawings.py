"""Draw a number over periods with the band of its intervals, as SVG text without a script."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dpframe.pages.marginal_drawings import nice_ticks, plain_number

TOP = 12

HATCH = (
    "<svg width='0' height='0' aria-hidden='true'><defs><pattern id='hatch' width='7' height='7' "
    "patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
    "<line class='hatch' x1='0' y1='0' x2='0' y2='7'/></pattern></defs></svg>"
)
"""The pattern behind periods that were not drawn; a page has it once."""

DOTS = 60
"""Up to this number of periods each has a dot; beyond it, only points without neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A released number and the ends of its interval; an unknown end is None."""

    value: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a drawing in units, which the page scales; and of a letter on a phone."""

    width: int
    height: int
    letter: float
    kind: str

    @property
    def left(self) -> float:
        return 7.5 * self.letter

    @property
    def right(self) -> float:
        return 3.2 * self.letter

    @property
    def bottom(self) -> float:
        return 3 * self.letter


WIDE = Size(width=960, height=300, letter=8, kind="wide")
NARROW = Size(width=480, height=280, letter=10, kind="narrow")
SMALL = Size(width=480, height=220, letter=9.5, kind="small")


def draw_lines(
    periods: Sequence[str],
    points: Sequence[Point | None],
    gaps: frozenset[str],
    *,
    label: str,
    said: Callable[[Point], str],
    size: Size,
) -> str:
    """Draw one line over periods.

    Parameters
    ----------
    periods
        All periods in their order, including periods that were not drawn.
    points
        One point per period; None where nothing was reported.
    gaps
        Periods that were not drawn.
    label
        The text for screen readers.
    said
        Returns a point in words, for its tooltip.
    size
        The size of the drawing.
    """
    across = size.width - size.left - size.right
    up = size.height - TOP - size.bottom
    slot = across / len(periods)
    low, high = _axis_ends([point for point in points if point is not None])

    def x(i: int) -> float:
        return round(size.left + slot * (i + 0.5), 2)

    def y(value: float) -> float:
        return round(TOP + up * (high - value) / (high - low), 2)

    parts = [_lines_svg_tag(size, label)]
    for tick in nice_ticks(low, high, 4):
        at = y(tick.at)
        parts.append(_svg_line(size.left, at, size.width - size.right, at, "grid"))
        parts.append(_svg_text(size.left - 7, at + 5, plain_number(tick.at), "end"))
    for i, period in enumerate(periods):
        if period in gaps:
            parts.append(
                f"<rect fill='url(#hatch)' x='{x(i) - slot / 2:.2f}' y='{TOP}' "
                f"width='{slot:.2f}' height='{up:.2f}'/>"
            )
    for run in _point_runs(points):
        parts.append(_band_path(run, x, y))
        path = "L".join(f"{x(i)} {y(point.value)}" for i, point in run)
        parts.append(f"<path class='line' d='M{path}'/>")
        if len(periods) <= DOTS or len(run) == 1:
            parts += [f"<circle class='dot' cx='{x(i)}' cy='{y(p.value)}' r='3'/>" for i, p in run]
    base = y(max(low, 0.0))
    parts.append(_svg_line(size.left, base, size.width - size.right, base, "axis"))
    for i in _labelled_places(periods, slot, size.letter):
        at, edge = x(i), "middle"
        room = len(periods[i]) * size.letter / 2
        if at + room > size.width:
            at, edge = size.width - 2, "end"
        parts.append(_svg_line(x(i), TOP + up, x(i), TOP + up + 4, "axis"))
        parts.append(_svg_text(at, TOP + up + 2.2 * size.letter, periods[i], edge))
    for i, (period, point) in enumerate(zip(periods, points, strict=True)):
        words = "not drawn" if period in gaps else "not reported" if point is None else said(point)
        parts.append(
            f"<rect class='hit' x='{x(i) - slot / 2:.2f}' y='{TOP}' width='{slot:.2f}' "
            f"height='{up:.2f}'><title>{html.escape(f'{period}: {words}')}</title></rect>"
        )
    return "".join([*parts, "</svg>"])


def _axis_ends(points: Sequence[Point]) -> tuple[float, float]:
    """Return the ends of the vertical axis, which holds 0, all points and their intervals."""
    drawn = [0.0]
    for point in points:
        drawn += [end for end in (point.value, point.lower, point.upper) if end is not None]
    low, high = min(drawn), max(drawn)
    room = 0.06 * (high - low) or 1.0
    return (low - room if low < 0 else 0.0), high + room


Run = list[tuple[int, Point]]


def _point_runs(points: Sequence[Point | None]) -> Iterator[Run]:
    """Yield stretches of consecutive periods that have a point."""
    run: Run = []
    for i, point in enumerate(points):
        if point is not None:
            run.append((i, point))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _band_path(run: Run, x: Callable[[int], float], y: Callable[[float], float]) -> str:
    """Draw the area between the ends of the intervals; for a single period, a stroke."""
    parts = []
    ends = [None if p.lower is None or p.upper is None else (i, p.lower, p.upper) for i, p in run]
    stretch: list[tuple[int, float, float]] = []
    for end in [*ends, None]:
        if end is not None:
            stretch.append(end)
            continue
        if len(stretch) == 1:
            i, lower, upper = stretch[0]
            parts.append(_svg_line(x(i), y(lower), x(i), y(upper), "whisker"))
        elif stretch:
            over = [f"{x(i)} {y(upper)}" for i, _, upper in stretch]
            under = [f"{x(i)} {y(lower)}" for i, lower, _ in reversed(stretch)]
            parts.append(f"<path class='band' d='M{'L'.join(over + under)}Z'/>")
        stretch = []
    return "".join(parts)


def _labelled_places(periods: Sequence[str], slot: float, letter: float) -> list[int]:
    """Choose the periods written below the axis: at even distances, including the last."""
    need = (max(map(len, periods)) + 2) * letter
    every = max(1, math.ceil(need / slot))
    return list(range(len(periods) - 1, -1, -every))[::-1]


def _lines_svg_tag(size: Size, label: str) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='lines {size.kind}' "
        f"viewBox='0 0 {size.width} {size.height}' role='img' aria-label='{html.escape(label)}'>"
    )


def _svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f"<line class='{kind}' x1='{x1:.2f}' y1='{y1:.2f}' x2='{x2:.2f}' y2='{y2:.2f}'/>"


def _svg_text(x: float, y: float, text: str, anchor: str) -> str:
    return f"<text x='{x:.2f}' y='{y:.2f}' text-anchor='{anchor}'>{html.escape(text)}</text>"
