"""The HTML page of a series of releases: lines over periods, the largest changes, the card."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpframe.asking.measure_texts import receipt_measures
from dpframe.asking.privacy_receipt import Receipt
from dpframe.errors import ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.pages.drawings import HATCH, NARROW, SMALL, WIDE, Point, Size, draw_lines
from dpframe.pages.page_parts import (
    budget_words,
    decimals,
    figure_text,
    figures_list,
    fill_asset,
    finite_numbers,
    guarantee_line,
    html_document,
    intervals_sentence,
    plain_words,
    sure_text,
    write_page,
)
from dpframe.postprocess.shown_nodes import as_nodes

NODES = 12
"""Largest number of nodes with a drawing: the largest nodes."""

PERIODS = 120
"""Largest number of periods that are drawn: the last ones."""

CHANGES = 15
"""Largest number of rows in the table of changes."""

Node = tuple[int, str]
"""Level and label of a node."""

ROOT = (0, "*")

Changes = pd.DataFrame | str
"""The result of ``dp.change``, or a sentence that says why there is none."""


Made = tuple[pd.DataFrame, Receipt] | None
"""Frame and receipt of a period; None if it was not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The releases of the periods that a page draws, and the periods before and after these, which
    show nothing."""

    releases: Mapping[str, Made]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """What is not drawn because it shows nothing, as HTML; an empty text for none."""
        said, shown = [], list(self.releases)
        for where, end, quiet in (
            ("before", shown[0], self.before),
            ("after", shown[-1], self.after),
        ):
            if quiet:
                said.append(f"{len(quiet):,} more, {where} {end}, show nothing but noise.")
        if self.after:
            said.append(f"If the data end there, run with until {shown[-1]}.")
        words = f"Drawn are {len(shown):,} periods. {' '.join(said)}"
        return f'<p class="lead">{html.escape(words)}</p>' if said else ""


def shown_stretch(periods: Sequence[str], find: Callable[[str], Made]) -> Stretch:
    """Return the last periods that show something, and what lies between them.

    Where none shows anything, it is the last periods. ``find`` returns the release of a period.
    """
    newest: list[tuple[str, Made]] = []
    after: list[str] = []
    for period in reversed(periods):
        made = find(period)
        if not newest and made is not None and _is_quiet(*made):
            after.append(period)
        else:
            newest.append((period, made))
        if len(newest) == PERIODS:
            break
    before: list[str] = []
    while newest and (made := newest[-1][1]) is not None and _is_quiet(*made):
        before.append(newest.pop()[0])
    if not any(made for _, made in newest):
        return Stretch(releases={period: find(period) for period in periods[-PERIODS:]})
    return Stretch(
        releases=dict(newest[::-1]), before=tuple(before[::-1]), after=tuple(after[::-1])
    )


def _is_quiet(frame: pd.DataFrame, receipt: Receipt) -> bool:
    """Return whether no node was found, and every number may be noise: intervals of twice the width
    hold 0, as one of many intervals misses what it should hold."""
    if receipt.get("keys") is None and (frame["level"] > 0).any():
        return False
    measures = [one.columns for one in receipt_measures(receipt)] or [("count", "lower", "upper")]
    for columns in measures:
        if {*columns} <= {*frame.columns}:
            value, low, high = (frame[name] for name in columns)
            if ((2 * low - value > 0) | (2 * high - value < 0)).any():
                return False
    return True


def series_page(stretch: Stretch, changes: Changes | Mapping[str, Changes], *, title: str) -> str:
    """Return the page as text: one HTML document without scripts, whose policy forbids requests.

    Parameters
    ----------
    stretch
        The releases of the periods in order, from one declaration.
    changes
        The result of ``dp.change`` for the last two releases, or why there is none; for rollups, by
        the name of the measure.
    title
        Heading.

    Raises
    ------
    ParameterError
        No period was drawn, or the releases have no hierarchy.

    Privacy
    -------
    Post-processing of releases: free.
    """
    periods = stretch.releases
    drawn = {period: made for period, made in periods.items() if made is not None}
    if not drawn:
        raise ParameterError("no period of the series is drawn. Draw one first.")
    frame, receipt = list(drawn.values())[-1]
    if "hierarchy" not in receipt or receipt["mechanism"].startswith("synthetic"):
        raise ParameterError("pages over time need a hierarchy. Leave pages out.")
    measures = receipt_measures(receipt)
    asked = [(one.columns, decimals(frame, one), one.name) for one in measures]
    asked = asked or [(("count", "lower", "upper"), receipt.digits, receipt.count_noun)]
    gaps = frozenset(periods.keys() - drawn.keys())
    sections, figures = [], []
    for place, (columns, digits, name) in enumerate(asked):
        over = _MeasureOverTime(
            name=name,
            place=place,
            is_only=len(asked) == 1,
            digits=digits,
            confidence=sure_text(receipt, columns[0]),
            periods=tuple(periods),
            points={
                period: _node_points(made[0], receipt, columns) for period, made in drawn.items()
            },
            gaps=gaps,
            changes=changes.get(columns[0], "") if isinstance(changes, Mapping) else changes,
        )
        sections.append(_measure_sections(over))
        figures += _series_figures(over)
    missing = f"{len(gaps):,} not drawn" if gaps else "none is missing"
    guarantee = guarantee_line(receipt, "Every release here is noisy,")
    return html_document(
        _measure_links([name for *_, name in asked]) + "".join(sections),
        title=title,
        lead=f"{figures_list([*figures, ('Periods', f'{len(drawn):,}', missing)])}{stretch.remark}"
        f"{guarantee}",
        promise=[
            f"Each of these releases has {receipt['guarantee']}; the card is that of the newest.",
            plain_words(receipt, "one of them"),
            "Whoever sees several of them: what they cost together is in the ledger.",
            intervals_sentence(receipt),
            budget_words(receipt),
        ],
        heading="What is promised",
        receipt=receipt,
        before=HATCH,
    )


def write_series_page(
    stretch: Stretch,
    changes: Changes | Mapping[str, Changes],
    path: str | Path,
    *,
    title: str,
) -> None:
    """Write :func:`series_page` to a file, completely or not at all."""
    write_page(path, lambda: series_page(stretch, changes, title=title))


# -- numbers -------------------------------------------------------------------------------------


def _node_points(
    frame: pd.DataFrame, receipt: Receipt, columns: tuple[str, str, str]
) -> dict[Node, Point]:
    nodes = as_nodes(frame, as_hierarchy(receipt["hierarchy"]).label_columns)
    missing = [name for name in ("level", "prefix", *columns) if name not in nodes.columns]
    if missing:
        raise ParameterError(f"a release of the series has no column {missing[0]!r}.")
    keys = zip(nodes["level"].astype(int), nodes["prefix"].astype(str), strict=True)
    numbers = zip(*(finite_numbers(nodes[name]) for name in columns), strict=True)
    return {
        node: Point(value=value, lower=lower, upper=upper)
        for node, (value, lower, upper) in zip(keys, numbers, strict=True)
        if value is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasureOverTime:
    """A measure: how it is written, its points in every period that was drawn, its changes."""

    name: str
    place: int
    is_only: bool
    digits: int
    confidence: str
    periods: tuple[str, ...]
    points: Mapping[str, dict[Node, Point]]
    gaps: frozenset[str]
    changes: Changes

    def write(self, value: float) -> str:
        return figure_text(round(value, self.digits) if self.digits else round(value), self.digits)

    def write_signed(self, value: float) -> str:
        return f"{'+' if value > 0 else ''}{self.write(value)}".replace("-", "−")

    def write_ends(self, lower: float | None, upper: float | None, *, sign: bool = False) -> str:
        write = self.write_signed if sign else self.write
        return " to ".join("…" if end is None else write(end) for end in (lower, upper))

    def write_point(self, point: Point) -> str:
        return f"{self.write(point.value)} ({self.write_ends(point.lower, point.upper)})"

    def points_of(self, node: Node) -> list[Point | None]:
        return [self.points.get(period, {}).get(node) for period in self.periods]

    def draw(self, node: Node, size: Size, name: str) -> str:
        label = f"{name}, {self.periods[0]} to {self.periods[-1]}"
        points, said = self.points_of(node), self.write_point
        return draw_lines(self.periods, points, self.gaps, label=label, said=said, size=size)

    def largest_nodes(self) -> list[Node]:
        """Return the nodes with the largest numbers in any period, by the lower ends of their
        intervals: the largest number of many periods would be the one with the largest noise."""
        size: dict[Node, float] = {}
        for points in self.points.values():
            for node, point in points.items():
                least = point.value if point.lower is None else point.lower
                size[node] = max(size.get(node, -math.inf), least)
        nodes = sorted((node for node in size if node[0] > 0), key=lambda node: (-size[node], node))
        return nodes[:NODES]


# -- sections ------------------------------------------------------------------------------------


def _measure_links(names: list[str]) -> str:
    """Return links to the measures, if there are several."""
    if len(names) < 2:
        return ""
    links = "".join(
        f'<a href="#time-{place}" dir="auto">{html.escape(name)}</a>'
        for place, name in enumerate(names)
    )
    return f'<nav class="links" aria-label="Measures">{links}</nav>'


def _measure_sections(over: _MeasureOverTime) -> str:
    """Return the sections of one measure: its total over time, largest changes, largest nodes."""
    name, changes = html.escape(over.name), over.changes
    table = (
        f"<p>{html.escape(changes)}</p>"
        if isinstance(changes, str)
        else _changes_table(over, changes)
    )
    total = "<p>No total was released.</p>"
    if any(over.points_of(ROOT)):
        total = (
            f"<figure>{''.join(over.draw(ROOT, size, 'Total') for size in (WIDE, NARROW))}</figure>"
        )
    return fill_asset(
        "series.html",
        number=str(over.place),
        whose="" if over.is_only else f'<span class="whose" dir="auto">{name}</span> ',
        what=name,
        confidence=html.escape(over.confidence),
        gap_key='<span class="key gap">not drawn</span>' if over.gaps else "",
        total=total,
        changes=table,
        nodes="".join(_node_figure(node, over) for node in over.largest_nodes())
        or "<p>None reported.</p>",
    )


def _node_figure(node: Node, over: _MeasureOverTime) -> str:
    newest = list(over.points)[::-1]
    last = next(period for period in newest if node in over.points[period])
    said = over.write_point(over.points[last][node])
    if last != newest[0]:
        said = f"last reported in {last}: {said}"
    times = sum(node in points for points in over.points.values())
    if times < len(newest):
        said = f"shown in {times:,} of {len(newest):,} periods; {said}"
    return (
        f"<figure><figcaption><h3 dir='auto'>{html.escape(node[1])}</h3>"
        f"<span>{html.escape(said)}</span></figcaption>{over.draw(node, SMALL, node[1])}</figure>"
    )


def _series_figures(over: _MeasureOverTime) -> list[tuple[str, str, str]]:
    """Return figures of a measure: its total, and the change of its total."""
    last = list(over.points)[-1]
    rows = []
    total = over.points[last].get(ROOT)
    if total is not None:
        between = f"{over.write_ends(total.lower, total.upper)}, {over.confidence}"
        rows.append((f"{over.name.capitalize()}, {last}", over.write(total.value), between))
    if not isinstance(over.changes, str):
        whole = next((one for one in _changes_of(over.changes) if one.level == 0), None)
        if whole is not None and whole.change is not None:
            remark = over.write_ends(whole.lower, whole.upper, sign=True)
            if not whole.is_more_than_noise:
                remark += ", may be noise"
            name = "Change" if over.is_only else f"Change of {over.name}"
            rows.append((name, over.write_signed(whole.change), remark))
    return rows


# -- changes -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The numbers of a node in two periods, None where it was not reported, and their change.

    ``lower`` and ``upper`` are the ends of the interval of the change.
    """

    label: str
    level: int
    before: Point | None
    after: Point | None
    change: float | None
    lower: float | None
    upper: float | None
    ratio: float | None
    is_more_than_noise: bool

    @property
    def at_least(self) -> float:
        """The least size of the change by its interval; 0 if it may be noise."""
        if not self.is_more_than_noise:
            return 0.0
        return min(abs(end) for end in (self.lower, self.upper) if end is not None)


def _changes_of(found: pd.DataFrame) -> list[_Change]:
    """Read the rows of ``dp.change``; sort them by the least size of the change, largest first."""
    out = [
        _Change(
            label=str(row["prefix"]),
            level=int(row["level"]),
            before=_change_point(row, "before"),
            after=_change_point(row, "after"),
            change=_finite_or_none(row["change"]),
            lower=_finite_or_none(row["change_lower"]),
            upper=_finite_or_none(row["change_upper"]),
            ratio=_finite_or_none(row["ratio"]),
            is_more_than_noise=bool(row["more_than_noise"]),
        )
        for row in found.to_dict("records")
    ]
    return sorted(out, key=lambda c: (-c.at_least, -abs(c.change or 0.0), c.level, c.label))


def _change_point(row: Mapping[Any, Any], side: str) -> Point | None:
    value, *ends = (_finite_or_none(row[f"{side}{end}"]) for end in ("", "_lower", "_upper"))
    return None if value is None else Point(value=value, lower=ends[0], upper=ends[1])


def _finite_or_none(number: Any) -> float | None:
    return None if pd.isna(number) or not math.isfinite(number) else number


def _changes_table(over: _MeasureOverTime, found: pd.DataFrame) -> str:
    """Return the table of the largest changes, and a note on its intervals, as HTML."""
    periods = tuple(over.points)[-2:]
    before, after = html.escape(periods[0]), html.escape(periods[-1])
    rows = "".join(_change_row(change, over) for change in _changes_of(found)[:CHANGES])
    sure = f"{100 * found.attrs['dp_change']['confidence']:.6g} %"
    return (
        "<div class='scrolling'><table class='changes' "
        f"aria-labelledby='changes-{over.place}'><thead><tr>"
        f"<th scope='col'>Node</th><th scope='col' class='number optional'>{before}</th>"
        f"<th scope='col' class='number optional'>{after}</th>"
        "<th scope='col' class='number'>Change</th><th scope='col' class='number optional'>Ratio"
        f"</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p class='note below'>From {before} to {after}, of {len(found):,} nodes. The intervals "
        f"of all changes hold together with confidence {sure}. Changes that noise alone may "
        "explain stand below the others, in grey. Where a period does not report a node, its "
        "interval is made of bounds from threshold and noise: what is not reported is not zero."
        "</p>"
    )


def _change_row(change: _Change, over: _MeasureOverTime) -> str:
    kind = "" if change.is_more_than_noise else " class='within'"
    ends = over.write_ends(change.lower, change.upper, sign=True)
    sides = "".join(
        f"<td class='number optional'>{'not reported' if p is None else over.write(p.value)}</td>"
        for p in (change.before, change.after)
    )
    moved = "" if change.change is None else over.write_signed(change.change)
    ratio = "" if change.ratio is None else f"× {change.ratio:.2f}"
    name = "Total" if change.label == "*" else html.escape(change.label)
    return (
        f"<tr{kind}><th scope='row' dir='auto'>{name}</th>{sides}"
        f"<td class='number'>{moved}<small>{ends}</small></td>"
        f"<td class='number optional'>{ratio}</td></tr>"
    )
