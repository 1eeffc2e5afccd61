"""The HTML page of a series of releases: lines over periods, the largest changes, the card."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from dpframe._paths import PAGES, check_target, local_file, replace_file
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.released_measures import receipt_measures
from dpframe.errors import ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.pages.changes_table import changes_of, changes_table, finite_or_none
from dpframe.pages.line_drawings import HATCH, NARROW, SMALL, WIDE, Point, draw_lines
from dpframe.pages.page_parts import (
    asset,
    budget_figure,
    budget_words,
    figure_text,
    html_document,
    plain_words,
)
from dpframe.pages.rollups import decimals
from dpframe.postprocess.flat import as_nodes

NODES = 12
"""Largest number of nodes with a drawing: the largest nodes."""

PERIODS = 120
"""Largest number of periods that are drawn: the last ones."""

Node = tuple[int, str]
"""Level and label of a node."""

ROOT = (0, "*")


Changes = pd.DataFrame | str
"""The result of ``dp.change``, or a sentence that says why there is none."""


def series_page(
    releases: Mapping[str, tuple[pd.DataFrame, Receipt] | None],
    changes: Changes | Mapping[str, Changes],
    *,
    title: str,
) -> str:
    """Return the page as text.

    Parameters
    ----------
    releases
        Frame and receipt of every period in order, from one declaration; None for a period that was
        not drawn.
    changes
        The result of ``dp.change`` for the last two releases, or why there is none; for rollups, by
        the name of the measure.
    title
        Heading.

    Returns
    -------
    str
        One HTML document without scripts. Its own policy forbids every request.

    Raises
    ------
    ParameterError
        No period was drawn, or the releases have no hierarchy.

    Privacy
    -------
    Post-processing of releases: free.
    """
    shown = dict(list(releases.items())[-PERIODS:])
    drawn = {period: made for period, made in shown.items() if made is not None}
    if not drawn:
        raise ParameterError("no period of the series is drawn. Draw one first.")
    frame, receipt = list(drawn.values())[-1]
    if "hierarchy" not in receipt or receipt["mechanism"].startswith("synthetic"):
        raise ParameterError("pages over time need a hierarchy. Leave pages out.")
    gaps, confidence = frozenset(shown.keys() - drawn.keys()), _percent_text(receipt["confidence"])
    all_of_them = _series_measures(frame, receipt)
    parts, rows = [], []
    for number, (columns, digits, what) in enumerate(all_of_them):
        found = {period: _node_points(made[0], receipt, columns) for period, made in drawn.items()}
        told = _NumberWriter(digits=digits, confidence=confidence)
        over = _PointsOverTime(periods=tuple(shown), found=found, gaps=gaps, told=told)
        own = changes.get(columns[0], "") if isinstance(changes, Mapping) else changes
        whose = html.escape(what) if len(all_of_them) > 1 else ""
        parts.append(_measure_sections(over, own, number, html.escape(what), whose))
        rows += _series_figures(over, own, what, several=bool(whose))
    periods = (
        "Periods",
        f"{len(drawn):,}",
        f"{len(gaps):,} not drawn" if gaps else "none is missing",
    )
    return html_document(
        _measure_links([what for *_, what in all_of_them]) + "".join(parts),
        title=title,
        lead=f'<p class="lead">Every release with <strong>{html.escape(receipt["guarantee"])}'
        "</strong>.</p>",
        figures=[*rows, periods, budget_figure(receipt)],
        promise=_series_promise(receipt, told),
        receipt=receipt,
        style=asset("page.css") + asset("lines.css") + asset("series.css"),
        before=HATCH,
    )


def write_series_page(
    releases: Mapping[str, tuple[pd.DataFrame, Receipt] | None],
    changes: Changes | Mapping[str, Changes],
    path: str | Path,
    *,
    title: str,
) -> None:
    """Write :func:`series_page` to a file, completely or not at all."""
    path = local_file(path)
    check_target("path", path, PAGES)
    text = series_page(releases, changes, title=title)
    with replace_file(path, "the page") as file:
        file.write(text.encode(errors="replace"))


# -- numbers -------------------------------------------------------------------------------------


def _series_measures(
    frame: pd.DataFrame, receipt: Receipt
) -> list[tuple[tuple[str, str, str], int, str]]:
    """Return for each measure its columns of value and ends, its decimals, and its name."""
    measures = receipt_measures(receipt)
    if not measures:
        return [(("count", "lower", "upper"), receipt.digits, receipt.count_noun)]
    return [(one.columns, decimals(frame, one), one.name) for one in measures]


def _node_points(
    frame: pd.DataFrame, receipt: Receipt, columns: tuple[str, str, str]
) -> dict[Node, Point]:
    nodes = as_nodes(frame, as_hierarchy(receipt["hierarchy"]).label_columns)
    missing = [name for name in ("level", "prefix", *columns) if name not in nodes.columns]
    if missing:
        raise ParameterError(f"a release of the series has no column {missing[0]!r}.")
    rows = zip(*(nodes[name].tolist() for name in ("level", "prefix", *columns)), strict=True)
    out = {}
    for level, prefix, value, lower, upper in rows:
        if (number := finite_or_none(value)) is not None:
            point = Point(value=number, lower=finite_or_none(lower), upper=finite_or_none(upper))
            out[int(level), str(prefix)] = point
    return out


def _nodes_to_draw(found: Mapping[str, dict[Node, Point]]) -> list[Node]:
    """Return the nodes with the largest numbers in any period."""
    size: dict[Node, float] = {}
    for points in found.values():
        for node, point in points.items():
            size[node] = max(size.get(node, -math.inf), point.value)
    nodes = sorted((node for node in size if node[0] > 0), key=lambda node: (-size[node], node))
    return nodes[:NODES]


# -- words ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberWriter:
    """How the page writes numbers."""

    digits: int
    confidence: str

    def number(self, value: float) -> str:
        return figure_text(round(value, self.digits) if self.digits else round(value), self.digits)

    def signed(self, value: float) -> str:
        return f"{'+' if value > 0 else ''}{self.number(value)}".replace("-", "−")

    def between(self, lower: float | None, upper: float | None, sign: bool = False) -> str:
        write = self.signed if sign else self.number
        ends = ("…" if end is None else write(end) for end in (lower, upper))
        return " to ".join(ends)

    def point(self, point: Point) -> str:
        return f"{self.number(point.value)} ({self.between(point.lower, point.upper)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _PointsOverTime:
    """The points of every period, and the periods that were not drawn."""

    periods: tuple[str, ...]
    found: Mapping[str, dict[Node, Point]]
    gaps: frozenset[str]
    told: _NumberWriter

    def of(self, node: Node) -> list[Point | None]:
        return [self.found.get(period, {}).get(node) for period in self.periods]

    def drawn(self, node: Node, size: Any, name: str) -> str:
        return draw_lines(
            self.periods,
            self.of(node),
            self.gaps,
            label=f"{name}, {self.periods[0]} to {self.periods[-1]}",
            said=self.told.point,
            size=size,
        )


def _measure_links(names: list[str]) -> str:
    """Return links to the measures, if there are several."""
    if len(names) < 2:
        return ""
    links = "".join(
        f'<a href="#time-{number}" dir="auto">{html.escape(name)}</a>'
        for number, name in enumerate(names)
    )
    return f'<nav class="measures" aria-label="Measures">{links}</nav>'


def _measure_sections(
    over: _PointsOverTime, changes: Changes, number: int, what: str, whose: str
) -> str:
    """Return the sections of one measure: its total over time, largest changes, largest nodes."""
    last, told = tuple(over.found)[-2:], over.told
    if isinstance(changes, str):
        table = f"<p>{html.escape(changes)}</p>"
    else:
        table = changes_table(changes, (last[0], last[-1]), number=told.number, signed=told.signed)
    nodes = "".join(_node_figure(node, over) for node in _nodes_to_draw(over.found))
    return Template(asset("series.html")).substitute(
        number=number,
        whose=f'<span class="whose" dir="auto">{whose}</span> ' if whose else "",
        what=what,
        confidence=told.confidence,
        gap_key='<span class="key gap">not drawn</span>' if over.gaps else "",
        total=_total_drawing(over),
        changes=table,
        nodes=nodes or "<p>None reported.</p>",
    )


def _total_drawing(over: _PointsOverTime) -> str:
    if not any(over.of(ROOT)):
        return "<p>No total was released.</p>"
    drawings = "".join(over.drawn(ROOT, size, "Total") for size in (WIDE, NARROW))
    return f"<figure>{drawings}</figure>"


def _node_figure(node: Node, over: _PointsOverTime) -> str:
    last = next(period for period in list(over.found)[::-1] if node in over.found[period])
    said = over.told.point(over.found[last][node])
    if last != list(over.found)[-1]:
        said = f"last reported in {last}: {said}"
    label = html.escape(node[1])
    return (
        f"<figure><figcaption><h3 dir='auto'>{label}</h3>"
        f"<span>{html.escape(said)}</span></figcaption>"
        f"{over.drawn(node, SMALL, node[1])}</figure>"
    )


def _series_figures(
    over: _PointsOverTime, changes: Changes, what: str, *, several: bool
) -> list[tuple[str, str, str]]:
    """Return figures of a measure: its total and, if it is the only one, its change."""
    last = list(over.found)[-1]
    rows = []
    total = over.found[last].get(ROOT)
    if total is not None:
        between = f"{over.told.between(total.lower, total.upper)}, {over.told.confidence}"
        rows.append((f"{what.capitalize()}, {last}", over.told.number(total.value), between))
    known_changes = [] if isinstance(changes, str) or several else changes_of(changes)
    whole = next((change for change in known_changes if change.level == 0), None)
    if whole is not None and whole.change is not None:
        remark = over.told.between(whole.lower, whole.upper, sign=True)
        rows.append(("Change", over.told.signed(whole.change), remark))
    return rows


def _series_promise(receipt: Receipt, told: _NumberWriter) -> list[str]:
    intervals = receipt["intervals"]
    return [
        f"Each of these releases has {receipt['guarantee']}; the card is that of the newest.",
        plain_words(receipt, "one of them"),
        "Whoever sees several of them: what they cost together is in the ledger.",
        f"{intervals[:1].upper()}{intervals[1:]} ({told.confidence}).",
        budget_words(receipt),
    ]


def _percent_text(confidence: float) -> str:
    return f"{100 * confidence:.6g} %"
