"""The chart of docs/rollup.md: what a user's bound takes away and what it adds, as one SVG file.

Run with ``python -m tests.benchmarks.rollup_bounds_chart``. Real baskets, departments listed,
households protected. Nothing is drawn at random: cutting is computed from the data, which are
public here, and noise from its law.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpframe as dp
from tests.benchmarks.bench import SHARED
from tests.benchmarks.synthetic_chart import STYLE

FILE = Path("docs/images/rollup_bounds.svg")
Reals = NDArray[np.float64]

WIDTH, HEIGHT = 480, 300
LEFT, TOP, RIGHT, BOTTOM = 62, 70, 24, 44
BOUNDS = np.geomspace(10, 1000, 41)
LARGEST = 1e5
LEAST = 1e2
OWN = """
.noise { fill: none; stroke: var(--soft); stroke-width: 1.6; stroke-dasharray: 5 4; }
.cut { fill: none; stroke: var(--soft); stroke-width: 1.6; stroke-dasharray: 1 3.2;
  stroke-linecap: round; }
.both { fill: none; stroke: var(--drawn); stroke-width: 2.2; stroke-linejoin: round; }
"""


def errors(sales: pd.DataFrame) -> tuple[Reals, Reals]:
    """For each bound: root mean square over departments of what is cut, and of the noise."""
    totals = sales.groupby(["user_id", "department"])["sales_value"].sum().unstack(fill_value=0.0)
    size = totals.sum(axis=1)
    cut, noise = [], []
    for bound in BOUNDS:
        kept = totals.mul(np.minimum(1.0, bound / size), axis=0)
        cut.append(float(np.sqrt(((totals - kept).sum() ** 2).mean())))
        plan = dp.explain_rollup(
            ["department"],
            {"revenue": dp.sum("sales_value", lower=0, upper=float(bound))},
            epsilon=1.0,
            user="user_id",
            keys=list(totals.columns),
        ).plan
        (paid,) = plan.paid["revenue"]
        one = math.sqrt(2) * paid.vector.most / float(paid.epsilon) * paid.vector.bounds.step
        noise.append(one)
    return np.array(cut), np.array(noise)


def chart(cut: Reals, noise: Reals) -> str:
    """Both, and their root sum of squares, on logarithmic axes."""
    both = np.hypot(cut, noise)

    def x(bound: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(bound / BOUNDS[0]) / math.log(100)

    def y(error: float) -> float:
        part = math.log(max(error, LEAST) / LEAST) / math.log(LARGEST / LEAST)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    def line(kind: str, errors: Reals) -> str:
        seen = [(x(b), y(e)) for b, e in zip(BOUNDS, errors, strict=True) if e >= LEAST]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in seen)
        return f"<polyline class='{kind}' points='{points}'/>"

    grid = "".join(
        f"<line class='grid' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y(e):.1f}' y2='{y(e):.1f}'/>"
        f"<text x='{LEFT - 8}' y='{y(e) + 4:.1f}' text-anchor='end'>{e:,.0f}</text>"
        for e in (1e2, 1e3, 1e4, 1e5)
    )
    ticks = "".join(
        f"<text x='{x(b):.1f}' y='{HEIGHT - BOTTOM + 18}' text-anchor='middle'>{b:,}</text>"
        for b in (10, 30, 100, 300, 1000)
    )
    best = int(both.argmin())
    mark = (
        f"<circle cx='{x(BOUNDS[best]):.1f}' cy='{y(both[best]):.1f}' r='4' fill='var(--drawn)'/>"
        f"<text x='{x(BOUNDS[best]):.1f}' y='{y(both[best]) - 14:.1f}' "
        f"style='fill: var(--ink)'>best: {BOUNDS[best]:.0f}</text>"
    )
    entries = (("cut", "cut away", 0), ("noise", "noise", 100), ("both", "both", 180))
    keys = "".join(
        f"<line class='{kind}' x1='{LEFT + at}' x2='{LEFT + at + 22}' y1='46' y2='46'/>"
        f"<text x='{LEFT + at + 28}' y='50'>{name}</text>"
        for kind, name, at in entries
    )
    title = "Error of a department's revenue, by a household's bound"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' "
        f"aria-label='{title}'><style>{STYLE}{OWN}</style>"
        f"<rect class='paper' width='{WIDTH}' height='{HEIGHT}'/>"
        f"<text class='title' x='14' y='24'>{title}</text>{keys}{grid}"
        f"<line class='axis' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{HEIGHT - BOTTOM}' "
        f"y2='{HEIGHT - BOTTOM}'/>{ticks}"
        f"<text x='{(LEFT + WIDTH - RIGHT) / 2}' y='{HEIGHT - 8}' text-anchor='middle'>"
        f"upper bound of a household's total, epsilon 1</text>"
        f"{line('cut', cut)}{line('noise', noise)}{line('both', both)}{mark}</svg>\n"
    )


if __name__ == "__main__":
    columns = ["user_id", "department", "sales_value"]
    sales = pd.read_parquet(SHARED / "retail_completejourney.parquet", columns=columns).dropna()
    cut, noise = errors(sales)
    for bound, one, other in zip(BOUNDS, cut, noise, strict=True):
        print(f"{bound:6.0f} {one:9.0f} {other:9.0f} {math.hypot(one, other):9.0f}")
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(chart(cut, noise), encoding="utf-8", newline="\n")
