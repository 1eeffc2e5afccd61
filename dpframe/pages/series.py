"""Releases of one series as one HTML page: lines over periods, the largest changes, the card."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from dpframe._paths import check_target, local, replacing
from dpframe.asking.measured import shown_measures
from dpframe.asking.receipt import Receipt
from dpframe.errors import ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.pages.line_drawings import HATCH, NARROW, SMALL, WIDE, Point, lines
from dpframe.pages.parts import asset, budget_words, document, figure, plain_words, spent
from dpframe.pages.rollups import decimals
from dpframe.postprocess.flat import as_nodes

NODES = 12
"""Nodes that have a drawing, the largest ones."""

CHANGES = 15
"""Rows of the table of changes."""

PERIODS = 120
"""The last so many are drawn."""

Node = tuple[int, str]
"""Level and label."""

ROOT = (0, "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a node had in two periods, and the ends of an interval for the difference."""

    label: str
    before: Point
    after: Point
    lower: float | None
    upper: float | None

    @property
    def difference(self) -> float:
        return self.after.value - self.before.value

    @property
    def is_more_than_noise(self) -> bool:
        return (self.lower is not None and self.lower > 0) or (
            self.upper is not None and self.upper < 0
        )


def series_page(releases: Mapping[str, tuple[pd.DataFrame, Receipt] | None], *, title: str) -> str:
    """The page as text.

    Parameters
    ----------
    releases
        Frame and receipt of every period in order, of one declaration; None of a period that was
        not drawn.
    title
        Heading.

    Returns
    -------
    str
        One HTML document without scripts. Its own policy forbids every request.

    Raises
    ------
    ParameterError
        No period was drawn, or what was drawn is no hierarchy.

    Privacy
    -------
    Post-processing of releases: free.
    """
    shown = dict(list(releases.items())[-PERIODS:])
    drawn = {period: made for period, made in shown.items() if made is not None}
    if not drawn:
        raise ParameterError("no period of the series is drawn: there is nothing to show.")
    frame, receipt = list(drawn.values())[-1]
    if "hierarchy" not in receipt or receipt["mechanism"].startswith("synthetic"):
        raise ParameterError("a page over time shows nodes of a hierarchy: leave pages out.")
    columns, digits, what = _columns(frame, receipt)
    found = {period: _points(made[0], receipt, columns) for period, made in drawn.items()}
    told = _Told(digits=digits, confidence=_percent(receipt["confidence"]))
    gaps = frozenset(shown.keys() - drawn.keys())
    over = _Over(periods=tuple(shown), found=found, gaps=gaps, told=told)
    changes = _changes(found)
    sections = Template(asset("series.html")).substitute(
        what=html.escape(what),
        confidence=told.confidence,
        gap_key='<span class="key gap">not drawn</span>' if gaps else "",
        total=_total(over),
        changes=_table(changes, list(found), told, receipt),
        nodes="".join(_figure(node, over) for node in _largest(found)) or "<p>None reported.</p>",
    )
    return document(
        sections,
        title=title,
        lead=f'<p class="lead">Every release with <strong>{html.escape(receipt["guarantee"])}'
        "</strong>.</p>",
        figures=_figures(over, changes, what, receipt),
        promise=_promise(receipt, told),
        receipt=receipt,
        style=asset("page.css") + asset("series.css"),
        before=HATCH,
    )


def write_series_page(
    releases: Mapping[str, tuple[pd.DataFrame, Receipt] | None], path: str | Path, *, title: str
) -> None:
    """Write :func:`series_page` to a file, as a whole or not at all."""
    path = local(path)
    check_target("path", path)
    text = series_page(releases, title=title)
    with replacing(path, "the page") as file:
        file.write(text.encode(errors="replace"))


# -- numbers -------------------------------------------------------------------------------------


def _columns(frame: pd.DataFrame, receipt: Receipt) -> tuple[tuple[str, str, str], int, str]:
    """Value and ends of what is drawn, its decimals, and what it is."""
    measures = shown_measures(receipt)
    if not measures:
        return ("count", "lower", "upper"), receipt.digits, receipt["counts"].split(",")[0]
    first = measures[0]
    return first.columns, decimals(frame, first), first.name


def _points(
    frame: pd.DataFrame, receipt: Receipt, columns: tuple[str, str, str]
) -> dict[Node, Point]:
    nodes = as_nodes(frame, as_hierarchy(receipt["hierarchy"]).label_columns)
    missing = [name for name in ("level", "prefix", *columns) if name not in nodes.columns]
    if missing:
        raise ParameterError(f"a release of the series has no column {missing[0]!r}.")
    rows = zip(*(nodes[name].tolist() for name in ("level", "prefix", *columns)), strict=True)
    out = {}
    for level, prefix, value, lower, upper in rows:
        if (known := _known(value)) is not None:
            point = Point(value=known, lower=_known(lower), upper=_known(upper))
            out[int(level), str(prefix)] = point
    return out


def _known(number: Any) -> float | None:
    return None if pd.isna(number) or not math.isfinite(number) else number


def _largest(found: Mapping[str, dict[Node, Point]]) -> list[Node]:
    """The nodes with the largest numbers in any period."""
    size: dict[Node, float] = {}
    for points in found.values():
        for node, point in points.items():
            size[node] = max(size.get(node, -math.inf), point.value)
    nodes = sorted((node for node in size if node[0] > 0), key=lambda node: (-size[node], node))
    return nodes[:NODES]


def _changes(found: Mapping[str, dict[Node, Point]]) -> list[Change]:
    """Of nodes that the last two drawn periods both report, what is more than noise first."""
    if len(found) < 2:
        return []
    before, after = list(found.values())[-2:]
    out = [
        Change(
            label=node[1],
            before=old,
            after=new,
            lower=None if new.lower is None or old.upper is None else new.lower - old.upper,
            upper=None if new.upper is None or old.lower is None else new.upper - old.lower,
        )
        for node, new in after.items()
        if (old := before.get(node)) is not None
    ]
    return sorted(out, key=lambda c: (not c.is_more_than_noise, -abs(c.difference), c.label))


# -- words ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """How numbers are written."""

    digits: int
    confidence: str

    def number(self, value: float) -> str:
        return figure(round(value, self.digits) if self.digits else round(value), self.digits)

    def signed(self, value: float) -> str:
        return f"{'+' if value > 0 else ''}{self.number(value)}".replace("-", "−")

    def between(self, lower: float | None, upper: float | None, sign: bool = False) -> str:
        write = self.signed if sign else self.number
        ends = ("…" if end is None else write(end) for end in (lower, upper))
        return " to ".join(ends)

    def point(self, point: Point) -> str:
        return f"{self.number(point.value)} ({self.between(point.lower, point.upper)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Over:
    """Points of every period, and which were not drawn."""

    periods: tuple[str, ...]
    found: Mapping[str, dict[Node, Point]]
    gaps: frozenset[str]
    told: _Told

    def of(self, node: Node) -> list[Point | None]:
        return [self.found.get(period, {}).get(node) for period in self.periods]

    def drawn(self, node: Node, size: Any, name: str) -> str:
        return lines(
            self.periods,
            self.of(node),
            self.gaps,
            label=f"{name}, {self.periods[0]} to {self.periods[-1]}",
            said=self.told.point,
            size=size,
        )


def _total(over: _Over) -> str:
    if not any(over.of(ROOT)):
        return "<p>No total was released.</p>"
    drawings = "".join(over.drawn(ROOT, size, "Total") for size in (WIDE, NARROW))
    return f"<figure>{drawings}</figure>"


def _figure(node: Node, over: _Over) -> str:
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


def _table(changes: Sequence[Change], periods: Sequence[str], told: _Told, receipt: Receipt) -> str:
    if not changes:
        return "<p>Two periods that report a node in common are needed.</p>"
    before, after = (html.escape(period) for period in periods[-2:])
    rows = "".join(_row(change, told) for change in changes[:CHANGES])
    sure = _percent(max(0.0, 2 * receipt["confidence"] - 1))
    return (
        "<div class='scrolling'><table class='changes' aria-labelledby='changes-title'><thead><tr>"
        f"<th scope='col'>Node</th><th scope='col' class='number optional'>{before}</th>"
        f"<th scope='col' class='number optional'>{after}</th>"
        "<th scope='col' class='number'>Change</th><th scope='col' class='number optional'>Ratio"
        f"</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p class='note below'>From {before} to {after}. An interval of a change is made of both "
        f"intervals and holds with at least {sure}, one node at a time: of many nodes some lie "
        "outside of theirs. Changes that noise alone may explain stand below the others, in grey. "
        "Nodes that only one of the two periods reports are left out: what is not reported is not "
        "zero.</p>"
    )


def _row(change: Change, told: _Told) -> str:
    kind = "" if change.is_more_than_noise else " class='within'"
    ratio = change.after.value / change.before.value if change.before.value > 0 else None
    interval = told.between(change.lower, change.upper, sign=True)
    return (
        f"<tr{kind}><th scope='row' dir='auto'>{html.escape(_called(change.label))}</th>"
        f"<td class='number optional'>{told.number(change.before.value)}</td>"
        f"<td class='number optional'>{told.number(change.after.value)}</td>"
        f"<td class='number'>{told.signed(change.difference)}<small>{interval}</small></td>"
        f"<td class='number optional'>{'' if ratio is None else f'× {ratio:.2f}'}</td></tr>"
    )


def _called(label: str) -> str:
    return "Total" if label == ROOT[1] else label


def _figures(
    over: _Over, changes: Sequence[Change], what: str, receipt: Receipt
) -> list[tuple[str, str, str]]:
    last = list(over.found)[-1]
    rows = []
    total = over.found[last].get(ROOT)
    if total is not None:
        between = f"{over.told.between(total.lower, total.upper)}, {over.told.confidence}"
        rows.append((f"{what.capitalize()}, {last}", over.told.number(total.value), between))
    whole = next((change for change in changes if change.label == ROOT[1]), None)
    if whole is not None:
        remark = over.told.between(whole.lower, whole.upper, sign=True)
        rows.append(("Change", over.told.signed(whole.difference), remark))
    missing = f"{len(over.gaps):,} not drawn" if over.gaps else "none is missing"
    rows.append(("Periods", f"{len(over.found):,}", missing))
    return [*rows, spent(receipt)]


def _promise(receipt: Receipt, told: _Told) -> list[str]:
    intervals = receipt["intervals"]
    return [
        f"Each of these releases has {receipt['guarantee']}; the card is that of the newest.",
        plain_words(receipt, "one of them"),
        "Whoever sees several of them: what they cost together is in the ledger.",
        f"{intervals[:1].upper()}{intervals[1:]} ({told.confidence}).",
        budget_words(receipt),
    ]


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.6g} %"
