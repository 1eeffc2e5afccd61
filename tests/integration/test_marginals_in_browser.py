"""The page of synthetic rows beside a sample, in a real browser."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.pages.marginals import write_marginals
from tests.integration.test_report_in_browser import (
    CONTRASTS,
    HOSTILE,
    SCRIPTS,
    Page,
    _screen,
    chromium,
    page,
)

pytestmark = pytest.mark.engines

__all__ = ["chromium", "page"]

BOUNDS = {"distance": (0, 5000), "ts": ("2013-01-01", "2014-01-01")}


def opened(page: Page, labels: list[str], width: int, dark: bool = False) -> None:
    """A page of four columns, one of them with these labels."""
    rng = np.random.default_rng(1)
    n = 3000
    real = pd.DataFrame(
        {
            "distance": rng.integers(0, 3000, n),
            "ts": pd.Timestamp("2013-01-01") + pd.to_timedelta(rng.integers(0, 8760, n), unit="h"),
            labels[0]: rng.choice(labels, n),
            "share": rng.random(n),
        }
    )
    generator = dp.synthesize(real, BOUNDS, epsilon=1.0)
    file = page.folder / "marginals.html"
    synthetic = generator.sample(n).assign(**{labels[0]: labels[0], "share": 0.5})
    write_marginals(real, synthetic, file, note=labels[0], receipt=generator.receipt)
    page.command("Emulation.setDeviceMetricsOverride", **_screen(width))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    page.command("Emulation.setEmulatedMedia", features=[scheme])
    page.driver.get("about:blank")
    page.logs()
    page.driver.get(file.as_uri())


@pytest.mark.parametrize("width", [390, 1280])
def test_columns_are_drawn_and_fit(page: Page, width: int) -> None:
    """Four drawings with area, side by side where there is room; every letter inside its box."""
    opened(page, [*SCRIPTS, "x" * 500], width)
    assert page.fits()
    boxes = page.js(
        "[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) == 4
    assert min(box["height"] for box in boxes) > 100
    assert len({round(box["x"]) for box in boxes}) == (2 if width > 1000 else 1)
    outside = page.js(
        "[...document.querySelectorAll('svg text')].filter(e => {"
        "const t = e.getBoundingClientRect(), s = e.ownerSVGElement.getBoundingClientRect();"
        "return t.left < s.left - 1 || t.right > s.right + 1}).map(e => e.textContent)"
    )
    assert outside == []
    painted = "getComputedStyle(document.querySelector('svg .synthetic')).stroke"
    assert page.js(painted) != "none"


def test_hostile_labels_stay_text(page: Page) -> None:
    opened(page, HOSTILE, 1280)
    assert page.js("window.hit === undefined")
    assert page.js("document.querySelectorAll('script, img, iframe, object, b').length") == 0
    titles = page.js("[...document.querySelectorAll('svg title')].map(e => e.textContent)")
    for label in HOSTILE:
        assert any(title.startswith(label) for title in titles)


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible_in_light_and_dark(page: Page, dark: bool) -> None:
    """At least 4.5 to 1 for text, and 3 to 1 for the outline against the paper."""
    opened(page, ["a", "b"], 1280, dark)
    chosen = (
        "['h1', '.lead', '.note', '.figures small', '.legend', 'h3', 'figcaption span', "
        "'.distances th', '.distances td', '.card th', '.promise li']"
    )
    head, tail = CONTRASTS.split("const chosen = ")
    script = f"{head}const chosen = {chosen};{tail.split('];', 1)[1]}"
    measured = page.driver.execute_script(script)
    assert {name: ratio for name, ratio in measured if ratio < 4.5} == {}
