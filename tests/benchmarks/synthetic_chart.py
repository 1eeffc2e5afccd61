"""The chart of docs/synthetic.md: distances of flights, real and synthetic, as one SVG file.

Run with ``python -m tests.benchmarks.synthetic_chart``. The drawing is that of ``write_marginals``;
what the page's style sheet says there is written into the file here, for light and dark readers.
The noise has a fixed seed, so that the file changes only when the drawing does.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

import dpframe as dp
from dpframe.evaluation import wasserstein
from dpframe.pages.drawings import HEIGHT, WIDTH, draw_histogram
from dpframe.pages.marginals import bins_of
from dpframe.testing import seeded_noise
from tests.benchmarks.bench import SHARED

FILE = Path("docs/images/synthetic.svg")
HEAD = 46
STYLE = """
svg { --ink: #24292f; --soft: #5b6470; --line: #e3e6ea; --paper: #ffffff; --sample: #c3c8d1;
  --drawn: #1b5fc1; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6e9ee; --soft: #a3acb9; --line: #363c46;
  --paper: #16191f; --sample: #565d6a; --drawn: #7fb2ff; } }
text { font: 11.5px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  fill: var(--soft); }
.title { font-size: 14px; font-weight: 600; fill: var(--ink); }
.paper { fill: var(--paper); }
.grid { stroke: var(--line); }
.axis { stroke: var(--soft); }
.real { fill: var(--sample); }
.under { fill: var(--drawn); fill-opacity: 0.1; }
.synthetic { fill: none; stroke: var(--drawn); stroke-width: 1.6; stroke-linejoin: round; }
.hit { fill: transparent; }
"""


def chart(real: pd.Series[float], synthetic: pd.Series[float], title: str) -> str:
    """Both histograms with a title and a legend, as one SVG document."""
    values = [np.asarray(s, float) for s in (real, synthetic)]
    bins = bins_of(np.concatenate(values), "number", 0, 5000)
    drawing = draw_histogram(
        bins.edges.tolist(),
        *map(bins.shares, values),
        ticks=bins.ticks,
        names=bins.names,
        label=title,
    )
    opening, inside = re.match(r"(<svg[^>]*>)(.*)</svg>", drawing, re.DOTALL).groups()  # type: ignore[union-attr]
    opening = opening.replace(f"0 0 {WIDTH} {HEIGHT}", f"0 {-HEAD} {WIDTH} {HEIGHT + HEAD}")
    apart = wasserstein(real, synthetic)
    keys = (
        "<rect class='real' x='46' y='-16' width='14' height='9'/>"
        f"<text x='66' y='-8'>real, {len(real):,} flights</text>"
        "<rect class='under' x='191' y='-16' width='14' height='9'/>"
        "<rect class='synthetic' x='191' y='-16' width='14' height='9'/>"
        f"<text x='211' y='-8'>synthetic, {len(synthetic):,} rows</text>"
        f"<text x='468' y='-27' text-anchor='end'>1-Wasserstein {apart:.1f} miles</text>"
    )
    paper = f"<rect class='paper' x='0' y='{-HEAD}' width='{WIDTH}' height='{HEIGHT + HEAD}'/>"
    heading = f"<text class='title' x='46' y='-27'>{title}</text>"
    return f"{opening}<style>{STYLE}</style>{paper}{heading}{keys}{inside}</svg>\n"


if __name__ == "__main__":
    flights = pd.read_parquet(SHARED / "flights_nyc13.parquet", columns=["distance"])
    with seeded_noise(1):
        generator = dp.synthesize(flights, {"distance": (0, 5000)}, epsilon=1.0)
        rows = generator.sample(100_000, seed=1)
    FILE.parent.mkdir(exist_ok=True)
    found = chart(flights["distance"], rows["distance"], "Flight distance in miles, epsilon 1")
    FILE.write_text(found, encoding="utf-8", newline="\n")
    print(FILE, len(found), "bytes")
