"""Drawings of pages in SVG, and ticks of their axes."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.measures.bins import ValueKind

Reals = NDArray[np.float64]

SPACING = (
    *(("1s", "%H:%M:%S"), ("5s", "%H:%M:%S"), ("15s", "%H:%M:%S"), ("1min", "%H:%M")),
    *(("5min", "%H:%M"), ("15min", "%H:%M"), ("1h", "%H:%M"), ("3h", "%H:%M"), ("6h", "%d %b %Hh")),
    *(("1D", "%d %b"), ("2D", "%d %b"), ("7D", "%d %b"), ("MS", "%b %Y"), ("2MS", "%b %Y")),
    *(("QS", "%b %Y"), ("6MS", "%b %Y"), ("YS", "%Y"), ("2YS", "%Y"), ("5YS", "%Y")),
    *(("10YS", "%Y"), ("20YS", "%Y"), ("50YS", "%Y")),
)
"""Distances of ticks on an axis of times, finest first, and their formats."""

LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
"""Units of numbers on an axis, largest first."""

UNITS = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0), ("seconds", 1.0))


def stamp_of(seconds: float) -> pd.Timestamp:
    return pd.Timestamp("1970-01-01") + pd.Timedelta(microseconds=round(seconds * 1e6))


def time_ticks(low: float, high: float) -> list[Tick]:
    """Return at most six ticks at round times."""
    start, end = stamp_of(low), stamp_of(high)
    years = (high - low) / (365.25 * 86_400)
    for spacing, written in SPACING:
        ends_well = spacing.endswith("YS")
        if years > 3 and not ends_well:
            continue
        if (high - low) / 86_400 > 60 and not spacing.endswith("S"):
            continue
        rough = pd.date_range(start.floor("D"), periods=2, freq=spacing)
        if (high - low) / (rough[1] - rough[0]).total_seconds() > 5:
            continue
        first = pd.Timestamp(start.year // 100 * 100, 1, 1) if ends_well else start.floor("D")
        times = pd.date_range(first, end, freq=spacing)
        found = [t for t in times if start <= t <= end]
        if found:
            return [
                Tick((t - pd.Timestamp("1970-01-01")).total_seconds(), t.strftime(written))
                for t in found
            ]
    return [Tick(low, start.strftime("%Y-%m-%d"))]


def seconds_text(seconds: float) -> str:
    """Write a duration in the largest unit of which it is one or more."""
    name, unit = next((pair for pair in UNITS if seconds >= pair[1]), UNITS[-1])
    return f"{seconds / unit:.3g} {name}"


WIDTH, HEIGHT = 480, 250
"""Size of a histogram in units, which the page scales to its width."""

LEFT, RIGHT, TOP, BOTTOM = 54, 12, 10, 30

BAR, LETTER = 26, 9.0
"""Height of a row of bars, and width of a letter of its label on a phone."""

PERCENT = 56
"""Room for the number at the end of a bar."""

LONGEST_NAME = 20
"""Largest width of a drawn label in letters, wide letters counting twice; the tooltip has all."""

HATCH = (
    "<svg width='0' height='0' aria-hidden='true'><defs><pattern id='hatch' width='7' height='7' "
    "patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
    "<line class='hatch' x1='0' y1='0' x2='0' y2='7'/></pattern></defs></svg>"
)
"""The pattern behind periods that were not drawn; a page has it once."""

DOTS = 60
"""Up to this number of periods each has a dot; beyond it, only points without neighbours."""


# -- axes and parts ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, in units of the axis, and the text there."""

    at: float
    text: str


def nice_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Return ticks at round numbers from ``low`` to ``high``, at most ``most`` + 1."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [Tick(i * step, plain_number(i * step)) for i in range(first, last + 1)]


def value_ticks(low: float, high: float, value: ValueKind, most: int = 4) -> list[Tick]:
    """Return ticks of an axis of numbers, of times in seconds since 1970, or of durations in
    seconds."""
    if value == "time":
        return time_ticks(low, high)
    if value == "number":
        return short_ticks(nice_ticks(low, high, most))
    large = max(abs(low), abs(high))
    name, unit = next((pair for pair in UNITS if large >= 2 * pair[1]), UNITS[-1])
    ticks = nice_ticks(low / unit, high / unit, most)
    return [Tick(tick.at * unit, f"{tick.text} {name}" if tick.at else tick.text) for tick in ticks]


def short_ticks(ticks: Sequence[Tick]) -> list[Tick]:
    """Return ticks in thousands of millions and so on, if all are 0 or at least a million."""
    most = max((abs(tick.at) for tick in ticks), default=0.0)
    unit, name = next(((u, n) for u, n in LARGE if most >= u), (1.0, ""))
    if not name:
        return list(ticks)
    return [Tick(t.at, f"{plain_number(t.at / unit)} {name}" if t.at else t.text) for t in ticks]


def plain_number(value: float) -> str:
    """Write a number for people: six digits, separators, an exponent only if it is needed."""
    if value == 0 or 1e-4 <= abs(value) < 1e9:
        text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
        return text.replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def percent_of_rows(share: float) -> str:
    """Write a share of rows as a percentage, with one or two decimals."""
    if share == 0:
        return "0 %"
    if share < 0.0001:
        return "< 0.01 %"
    text = f"{100 * share:.{2 if share < 0.01 else 1}f} %"
    return text.replace(".00 %", " %").replace(".0 %", " %")


def _svg(kind: str, width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='{kind}' viewBox='0 0 {width} {height}' "
        f"role='img' aria-label='{html.escape(label)}'>{''.join(parts)}</svg>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f"<line class='{kind}' x1='{x1:.2f}' y1='{y1:.2f}' x2='{x2:.2f}' y2='{y2:.2f}'/>"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return (
        f"<text class='{kind}' x='{x:.2f}' y='{y:.2f}' text-anchor='{anchor}'>"
        f"{html.escape(text)}</text>"
    )


def _box(x: float, y: float, width: float, height: float, attribute: str, inside: str = "") -> str:
    return (
        f"<rect {attribute} x='{x:.2f}' y='{y:.2f}' width='{width:.2f}' height='{height:.2f}'"
        + (f"><title>{html.escape(inside)}</title></rect>" if inside else "/>")
    )


# -- lines over periods --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A released number and the ends of its interval; an unknown end is None."""

    value: float
    lower: float | None
    upper: float | None


Run = list[tuple[int, Point]]
"""Consecutive periods that have a point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a drawing in units, which the page scales; and of its widest digit."""

    width: int
    height: int
    letter: float
    kind: str


WIDE = Size(width=960, height=300, letter=9, kind="wide")
NARROW = Size(width=480, height=280, letter=10.9, kind="narrow")
SMALL = Size(width=480, height=220, letter=10.9, kind="small")


def draw_lines(
    periods: Sequence[str],
    points: Sequence[Point | None],
    gaps: frozenset[str],
    *,
    label: str,
    said: Callable[[Point], str],
    size: Size,
    value: ValueKind = "number",
    limits: tuple[float, float] | None = None,
) -> str:
    """Draw one line over all periods in their order; periods in ``gaps`` were not drawn.

    A point is None where nothing was reported. ``label`` is for screen readers, and ``said``
    returns a point in words, for its tooltip. ``value`` says what the numbers are. An interval that
    reaches beyond one of ``limits`` is drawn to it, or to the end of the axis.
    """
    low, high = _axis_ends([point for point in points if point is not None], value != "time")
    ticks = value_ticks(low, high, value)
    left = size.letter * max(6.5, *(len(tick.text) for tick in ticks)) + 10
    right = size.width - 3.2 * size.letter
    top, bottom = 12.0, size.height - 3 * size.letter
    slot = (right - left) / len(periods)

    def x(i: int) -> float:
        return round(left + slot * (i + 0.5), 2)

    def y(value: float) -> float:
        return round(top + (bottom - top) * (high - value) / (high - low), 2)

    def column(i: int, attribute: str, inside: str = "") -> str:
        return _box(x(i) - slot / 2, top, slot, bottom - top, attribute, inside)

    parts = []
    for tick in ticks:
        parts.append(_line(left, y(tick.at), right, y(tick.at), "grid"))
        parts.append(_text(left - 7, y(tick.at) + 5, tick.text, "end"))
    parts += [column(i, "fill='url(#hatch)'") for i, name in enumerate(periods) if name in gaps]
    for run in _point_runs(points):
        parts += _band_parts(run if limits is None else _closed_run(run, limits, (low, high)), x, y)
        path = "L".join(f"{x(i)} {y(point.value)}" for i, point in run)
        parts.append(f"<path class='line' d='M{path}'/>")
        if len(periods) <= DOTS or len(run) == 1:
            parts += [f"<circle class='dot' cx='{x(i)}' cy='{y(p.value)}' r='3'/>" for i, p in run]
    base = y(max(low, 0.0)) if value != "time" else bottom
    parts.append(_line(left, base, right, base, "axis"))
    for i, at, edge in _period_labels(periods, x, slot, size):
        parts.append(_line(x(i), bottom, x(i), bottom + 4, "axis"))
        parts.append(_text(at, bottom + 2.2 * size.letter, periods[i], edge))
    for i, (period, point) in enumerate(zip(periods, points, strict=True)):
        words = "not drawn" if period in gaps else "not reported" if point is None else said(point)
        parts.append(column(i, "class='hit'", f"{period}: {words}"))
    return _svg(f"lines {size.kind}", size.width, size.height, label, parts)


def _axis_ends(points: Sequence[Point], zero: bool) -> tuple[float, float]:
    """Return the ends of the vertical axis, which holds all points and their intervals, and 0 if
    ``zero``."""
    ends = [end for point in points for end in (point.value, point.lower, point.upper)]
    low, high = axis_of(ends, zero=zero)
    room = 0.06 * (high - low) or 1.0
    return (low - room if low < 0 or not zero else 0.0), high + room


def _point_runs(points: Sequence[Point | None]) -> Iterator[Run]:
    """Yield stretches of consecutive periods that have a point."""
    for is_gap, run in groupby(enumerate(points), key=lambda pair: pair[1] is None):
        if not is_gap:
            yield [(i, point) for i, point in run if point is not None]


def _closed_run(run: Run, limits: tuple[float, float], axis: tuple[float, float]) -> Run:
    """Return points whose open ends are at a limit, or at the end of the axis before it."""
    low, high = max(limits[0], axis[0]), min(limits[1], axis[1])
    return [
        (
            i,
            Point(
                value=point.value,
                lower=low if point.lower is None else point.lower,
                upper=high if point.upper is None else point.upper,
            ),
        )
        for i, point in run
    ]


def _band_parts(run: Run, x: Callable[[int], float], y: Callable[[float], float]) -> list[str]:
    """Draw the area between the ends of the intervals; for a single period, a stroke."""
    parts = []
    ends = [None if p.lower is None or p.upper is None else (i, p.lower, p.upper) for i, p in run]
    for is_open, group in groupby(ends, key=lambda end: end is None):
        stretch = [end for end in group if end is not None]
        if len(stretch) == 1:
            ((i, lower, upper),) = stretch
            parts.append(_line(x(i), y(lower), x(i), y(upper), "whisker"))
        elif not is_open:
            over = [f"{x(i)} {y(upper)}" for i, _, upper in stretch]
            under = [f"{x(i)} {y(lower)}" for i, lower, _ in reversed(stretch)]
            parts.append(f"<path class='band' d='M{'L'.join(over + under)}Z'/>")
    return parts


def _period_labels(
    periods: Sequence[str], x: Callable[[int], float], slot: float, size: Size
) -> list[tuple[int, float, str]]:
    """Return the periods that are written below the axis, where, and from which end.

    They stand at even distances, the last one included. The last one is moved inwards if it has no
    room to the right, and takes the room of others then.
    """
    wide = max(map(len, periods)) * size.letter
    every = max(1, math.ceil((wide + 2 * size.letter) / slot))
    limit, out = float(size.width), []
    for i in range(len(periods) - 1, -1, -every):
        room = len(periods[i]) * size.letter / 2
        at, edge = (x(i), "middle") if x(i) + room <= size.width else (size.width - 2.0, "end")
        if at + (room if edge == "middle" else 0) <= limit and at >= room:
            out.append((i, at, edge))
            limit = at - (room if edge == "middle" else 2 * room) - size.letter
    return out[::-1]


def draw_bar(
    value: float | None,
    lower: float | None,
    upper: float | None,
    low: float,
    high: float,
    *,
    zero: bool = True,
) -> str:
    """Draw a bar from 0 to ``value``, or only its place if not ``zero``, and its interval, on an
    axis from ``low`` to ``high``."""
    span = (high - low) or 1.0

    def at(number: float) -> float:
        return round(100 * (number - low) / span, 3)

    parts = []
    if value is not None:
        left, right = sorted((at(0.0), at(value))) if zero else (at(value) - 0.5, at(value) + 0.5)
        wide = max(right - left, 0.3)
        parts.append(f"<rect class='bar' x='{left}' y='0' width='{wide:.3f}' height='16'/>")
    if lower is not None and upper is not None:
        start, wide = at(lower), max(at(upper) - at(lower), 0.35)
        parts.append(f"<rect class='whisker' x='{start}' y='6' width='{wide:.3f}' height='4'/>")
    return f"<svg viewBox='0 0 100 16' preserveAspectRatio='none'>{''.join(parts)}</svg>"


def axis_of(numbers: Iterable[float | None], *, zero: bool = True) -> tuple[float, float]:
    """Return the ends of an axis that holds all numbers, and 0 if ``zero``."""
    known = [number for number in numbers if number is not None]
    known += [0.0] if zero or not known else []
    return min(known), max(known)


# -- two distributions ---------------------------------------------------------------------------


def draw_histogram(
    edges: Sequence[float],
    real: Sequence[float],
    synthetic: Sequence[float],
    *,
    ticks: Sequence[Tick],
    names: Sequence[str],
    label: str,
) -> str:
    """Draw bars of the public sample and an outline of the synthetic rows.

    ``edges`` ascend, one more than bins. ``real`` and ``synthetic`` are parts of the rows in each
    bin, 0 to 1; ``names`` are the bins in their tooltips, and ``label`` is for screen readers.
    """
    low, high = edges[0], edges[-1]
    most = max(*real, *synthetic, 1e-9) * 1.06
    across, base = WIDTH - LEFT - RIGHT, float(HEIGHT - BOTTOM)

    def x(value: float) -> float:
        return round(LEFT + across * (value - low) / (high - low), 2)

    def y(share: float) -> float:
        return round(TOP + (base - TOP) * (1 - share / most), 2)

    parts, steps, hits = [], [f"M{x(low)} {base}"], []
    for tick in nice_ticks(0, most, 4):
        parts.append(_line(LEFT, y(tick.at), WIDTH - RIGHT, y(tick.at), "grid"))
        parts.append(_text(LEFT - 7, y(tick.at) + 4, percent_of_rows(tick.at), "end"))
    bins = zip(pairwise(map(x, edges)), names, real, synthetic, strict=True)
    for (left, right), name, a, b in bins:
        if a > 0:
            gap = min(0.5, (right - left) / 8)
            parts.append(
                _box(left + gap, y(a), right - left - 2 * gap, base - y(a), "class='real'")
            )
        steps.append(f"L{left} {y(b)}L{right} {y(b)}")
        hits.append(
            _box(left, TOP, right - left, base - TOP, "class='hit'", _tooltip_text(name, a, b))
        )
    outline = "".join([*steps, f"L{x(high)} {base}"])
    parts.append(f"<path class='under' d='{outline}Z'/><path class='synthetic' d='{outline}'/>")
    parts.append(_line(LEFT, base, WIDTH - RIGHT, base, "axis"))
    for tick in ticks:
        parts.append(_line(x(tick.at), base, x(tick.at), base + 4, "axis"))
        most_right = WIDTH - 2 - LETTER * len(tick.text) / 2
        parts.append(_text(min(x(tick.at), most_right), base + 18, tick.text, "middle"))
    return _svg("marginal", WIDTH, HEIGHT, label, parts + hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How values are distributed: bars between ascending places on an axis, with their heights and
    names, and the median with its interval, in the same places; None if that is unknown."""

    edges: Sequence[float]
    heights: Sequence[float]
    names: Sequence[str]
    median: Point | None


def draw_shape(
    shape: Shape, *, ends: tuple[float, float], most: float, ticks: Sequence[Tick], label: str
) -> str:
    """Draw a distribution on an axis that others share: from ``ends[0]`` to ``ends[1]``, up to
    ``most``. ``label`` is for screen readers."""
    size = SHAPE
    left, right, top = 6.0, size.width - 6.0, 6.0
    base = size.height - 2.4 * size.letter

    def x(place: float) -> float:
        inside = min(max(place, ends[0]), ends[1])
        return round(left + (right - left) * (inside - ends[0]) / (ends[1] - ends[0]), 2)

    parts, hits = [], []
    bars = zip(pairwise(map(x, shape.edges)), shape.heights, shape.names, strict=True)
    for (start, end), height, name in bars:
        if end <= start:
            continue
        high = round((base - top) * min(max(height, 0.0) / most, 1.0), 2)
        gap = min(0.5, (end - start) / 8)
        if high > 0:
            bar = _box(start + gap, base - high, end - start - 2 * gap, high, "class='fill'")
            parts.append(bar)
        hits.append(_box(start, top, end - start, base - top, "class='hit'", name))
    if shape.median is not None:
        lower, upper = shape.median.lower, shape.median.upper
        start, end = x(ends[0] if lower is None else lower), x(ends[1] if upper is None else upper)
        parts.append(_box(start, top, max(end - start, 1.0), base - top, "class='band'"))
        parts.append(_line(x(shape.median.value), top, x(shape.median.value), base, "median"))
    parts.append(_line(left, base, right, base, "axis"))
    for tick in ticks:
        room = size.letter * len(tick.text) / 2
        at = min(max(x(tick.at), room + 1), size.width - room - 1)
        parts.append(_line(x(tick.at), base, x(tick.at), base + 4, "axis"))
        parts.append(_text(at, base + 2 * size.letter, tick.text, "middle"))
    return _svg("shape", size.width, size.height, label, parts + hits)


SHAPE = Size(width=480, height=170, letter=10.9, kind="shape")
"""Size of a distribution beside others."""


def spread_ticks(
    place: Callable[[float], float], low: float, high: float, value: ValueKind
) -> list[Tick]:
    """Return ticks of an axis on which values grow in proportion: round values that have room
    beside each other, the roundest and largest first."""
    largest, ends = max(abs(low), abs(high)), (place(low), place(high))
    scale = SHAPE.width / ((ends[1] - ends[0]) or 1.0)
    ticks: list[Tick] = [Tick(place(0.0), "0")] if low <= 0 <= high else []
    for sizes in ROUND_CLOCK if value == "duration" else ROUND:
        for size in (one for one in reversed(sizes) if one <= largest):
            for one in (size, -size):
                text = short_duration(one) if value == "duration" else plain_number(one)
                tick = Tick(place(one) if low <= one <= high else math.inf, text)
                if all(
                    abs(tick.at - other.at) * scale
                    >= SHAPE.letter * ((len(text) + len(other.text)) / 2 + 1)
                    for other in ticks
                ) and math.isfinite(tick.at):
                    ticks.append(tick)
    return sorted(ticks, key=lambda tick: tick.at)


def short_duration(seconds: float) -> str:
    """Write a round duration in its largest unit."""
    name, unit = next((p for p in CLOCK_UNITS if abs(seconds) >= p[1]), CLOCK_UNITS[-1])
    return f"{plain_number(seconds / unit)} {name}"


CLOCK_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))

POWERS = tuple(10.0**n for n in range(-12, 16))

ROUND = (POWERS, tuple(5 * power for power in POWERS), tuple(2 * power for power in POWERS))
"""Round numbers, the roundest first."""

ROUND_CLOCK = (
    (*POWERS[:13], 60.0, 3_600.0, *(86_400.0 * power for power in POWERS[12:])),
    (10.0, 600.0, 21_600.0),
)
"""Round durations in seconds, the roundest first."""


def draw_category_bars(
    names: Sequence[str],
    real: Sequence[float],
    synthetic: Sequence[float],
    *,
    label: str,
    rest: tuple[str, float, float] | None = None,
) -> str:
    """Draw two bars for each category, one above the other, with their parts of the rows.

    ``rest`` are all other categories together: a name and both parts, written and not drawn.
    """
    most = max(*real, *synthetic, 1e-9)
    short = [_shorten_name(name) for name in names]
    left = max(40.0, LETTER * max(map(_width_in_letters, short)) + 12)
    across = WIDTH - left - RIGHT - PERCENT
    parts = []
    for i, (name, a, b) in enumerate(zip(names, real, synthetic, strict=True)):
        y = 3.0 + BAR * i
        parts.append(_text(left - 8, y + BAR / 2 + 4, short[i], "end", "name"))
        for share, at, kind in ((a, 3, "real"), (b, BAR / 2, "fill")):
            width = max(across * share / most, 0.8)
            parts.append(_box(left, y + at, width, BAR / 2 - 3, f"class='{kind}'"))
        end = left + across * max(a, b) / most + 6
        parts.append(_text(end, y + BAR / 2 + 4, percent_of_rows(b), "start"))
        parts.append(_box(0, y, WIDTH, BAR, "class='hit'", _tooltip_text(name, a, b)))
    if rest is not None:
        name, a, b = rest
        below = 3 + BAR * len(names) + BAR / 2 + 4
        both = f"{percent_of_rows(a)} in the sample, {percent_of_rows(b)} synthetic"
        parts += [_text(left - 8, below, name, "end"), _text(left, below, both, "start")]
    height = BAR * (len(names) + (rest is not None)) + 6
    return _svg("marginal", WIDTH, height, label, parts)


def _tooltip_text(name: str, real: float, synthetic: float) -> str:
    """Return the tooltip of a bin or a category."""
    return (
        f"{name}: {percent_of_rows(real)} of rows in the sample, "
        f"{percent_of_rows(synthetic)} synthetic"
    )


def _width_in_letters(text: str) -> int:
    """Return the width of a text in letters: East Asian letters count twice, marks not at all."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _shorten_name(name: str) -> str:
    if _width_in_letters(name) <= LONGEST_NAME:
        return name
    end = next(
        i for i in range(1, len(name) + 1) if _width_in_letters(name[:i]) >= LONGEST_NAME - 1
    )
    return name[:end].rstrip()[: 2 * LONGEST_NAME] + "…"
