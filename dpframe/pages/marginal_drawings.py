"""Draw two distributions in one drawing, as SVG text without scripts, addresses or styles."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 480, 250
"""Size of a histogram in units, which the page scales to its width."""

LEFT, RIGHT, TOP, BOTTOM = 54, 12, 10, 30

BAR, LETTER = 26, 9.0
"""Height of a row of bars, and width of a letter of its label on a phone."""

PERCENT = 56
"""Room for the number at the end of a bar."""

LONGEST_NAME = 20
"""Largest width of a drawn label in letters, wide letters counting twice; the tooltip has all."""

AMONG_ALL = "of rows"


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
    return f"{100 * share:.{2 if share < 0.01 else 1}f} %".replace(".00 %", " %").replace(
        ".0 %", " %"
    )


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

    Parameters
    ----------
    edges
        Ascending, one more than bins.
    real, synthetic
        Parts of the rows in each bin, 0 to 1.
    ticks
        Ticks of the horizontal axis.
    names
        The name of each bin, for its tooltip.
    label
        The text for screen readers.
    """
    low, high = edges[0], edges[-1]
    top = max(*real, *synthetic, 1e-9) * 1.06
    across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(value: float) -> float:
        return round(LEFT + across * (value - low) / (high - low), 2)

    def y(share: float) -> float:
        return round(TOP + up * (1 - share / top), 2)

    base = y(0)
    parts = [_marginal_svg_tag(WIDTH, HEIGHT, label)]
    for tick in nice_ticks(0, top, 4):
        parts.append(_marginal_line(LEFT, y(tick.at), WIDTH - RIGHT, y(tick.at), "grid"))
        parts.append(_marginal_text(LEFT - 7, y(tick.at) + 4, percent_of_rows(tick.at), "end"))
    for left, right, share in zip(edges, edges[1:], real, strict=False):
        if share > 0:
            gap = min(0.5, (x(right) - x(left)) / 8)
            parts.append(_box(x(left) + gap, y(share), x(right) - x(left) - 2 * gap, base, "real"))
    steps = [f"M{x(low)} {base}"]
    for left, right, share in zip(edges, edges[1:], synthetic, strict=False):
        steps.append(f"L{x(left)} {y(share)}L{x(right)} {y(share)}")
    outline = "".join([*steps, f"L{x(high)} {base}"])
    parts.append(f"<path class='under' d='{outline}Z'/><path class='synthetic' d='{outline}'/>")
    parts.append(_marginal_line(LEFT, base, WIDTH - RIGHT, base, "axis"))
    for tick in ticks:
        parts.append(_marginal_line(x(tick.at), base, x(tick.at), base + 4, "axis"))
        edge = "end" if x(tick.at) > WIDTH - 3 * RIGHT else "middle"
        parts.append(_marginal_text(x(tick.at), base + 18, tick.text, edge))
    rows = zip(edges, edges[1:], names, real, synthetic, strict=False)
    for left, right, name, a, b in rows:
        parts.append(
            f"<rect class='hit' x='{x(left)}' y='{TOP}' width='{x(right) - x(left):.2f}' "
            f"height='{up}'>{_tooltip(name, a, b)}</rect>"
        )
    return "".join([*parts, "</svg>"])


def draw_category_bars(
    names: Sequence[str],
    real: Sequence[float],
    synthetic: Sequence[float],
    *,
    label: str,
    rest: tuple[str, float, float] | None = None,
) -> str:
    """Draw two bars for each category, one above the other, with their parts of the rows.

    Parameters
    ----------
    names
        The categories, at least one.
    real, synthetic
        Parts of the rows in each category, 0 to 1.
    label
        The text for screen readers.
    rest
        All other categories together: a name and both parts, written and not drawn.
    """
    top = max(*real, *synthetic, 1e-9)
    short = [_shorten_name(name) for name in names]
    left = max(40.0, LETTER * max(map(_width_in_letters, short)) + 12)
    across = WIDTH - left - RIGHT - PERCENT
    parts = [_marginal_svg_tag(WIDTH, BAR * (len(names) + (rest is not None)) + 6, label)]
    for i, (name, a, b) in enumerate(zip(names, real, synthetic, strict=True)):
        y = 3 + BAR * i
        parts.append(_marginal_text(left - 8, y + BAR / 2 + 4, short[i], "end", "name"))
        for share, at, kind in ((a, 3, "real"), (b, BAR / 2, "fill")):
            width = max(across * share / top, 0.8)
            parts.append(_box(left, y + at, width, y + at + BAR / 2 - 3, kind))
        end = left + across * max(a, b) / top + 6
        parts.append(_marginal_text(end, y + BAR / 2 + 4, percent_of_rows(b), "start"))
        parts.append(
            f"<rect class='hit' x='0' y='{y}' width='{WIDTH}' height='{BAR}'>"
            f"{_tooltip(name, a, b)}</rect>"
        )
    if rest is not None:
        name, a, b = rest
        below = 3 + BAR * len(names) + BAR / 2 + 4
        parts.append(_marginal_text(left - 8, below, name, "end"))
        parts.append(
            _marginal_text(
                left,
                below,
                f"{percent_of_rows(a)} in the sample, {percent_of_rows(b)} synthetic",
                "start",
            )
        )
    return "".join([*parts, "</svg>"])


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


def _marginal_svg_tag(width: float, height: float, label: str) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='marginal' viewBox='0 0 {width} {height}' "
        f"role='img' aria-label='{html.escape(label)}'>"
    )


def _tooltip(name: str, real: float, synthetic: float) -> str:
    text = (
        f"{name}: {percent_of_rows(real)} {AMONG_ALL} in the sample, "
        f"{percent_of_rows(synthetic)} synthetic"
    )
    return f"<title>{html.escape(text)}</title>"


def _marginal_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f"<line class='{kind}' x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}'/>"


def _box(x: float, top: float, width: float, bottom: float, kind: str) -> str:
    return (
        f"<rect class='{kind}' x='{x:.2f}' y='{top:.2f}' width='{width:.2f}' "
        f"height='{bottom - top:.2f}'/>"
    )


def _marginal_text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return (
        f"<text class='{kind}' x='{x:.2f}' y='{y:.2f}' text-anchor='{anchor}'>"
        f"{html.escape(text)}</text>"
    )
