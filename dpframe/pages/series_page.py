"""The HTML pages of a series of releases and of changes between two: lines, bars, the card."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from dpframe.asking.measure_texts import Figures, receipt_measures
from dpframe.asking.privacy_receipt import Receipt
from dpframe.common.digest import CHANGE, frame_state
from dpframe.errors import ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.pages.chartable import (
    Change,
    changes_of,
)
from dpframe.pages.drawings import (
    HATCH,
    NARROW,
    SMALL,
    WIDE,
    Point,
    Size,
    axis_of,
    draw_bar,
    draw_lines,
)
from dpframe.pages.page_parts import (
    budget_words,
    check_columns,
    figures_list,
    figures_of,
    fill_asset,
    guarantee_line,
    html_document,
    intervals_sentence,
    plain_words,
    sure_text,
    user_notes,
    write_page,
)
from dpframe.pages.tables import change_figures
from dpframe.postprocess.release_changes import NUMBERS
from dpframe.postprocess.shown_nodes import as_nodes, released_numbers

NODES = 12
"""Largest number of nodes with a drawing: the largest nodes."""

PERIODS = 120
"""Largest number of periods that are drawn: the last ones."""

CHANGES, ROWS = 15, 200
"""Largest number of rows in the table of changes of a series, and of a page of changes."""

Node = tuple[int, str]
"""Level and label of a node."""

ROOT = (0, "*")

SIDES = ("before", "after")
"""Names of two releases that nothing else tells apart."""

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

    Where none shows anything, it is the last periods. Periods after the last release are left out
    where they would fill the page. ``find`` returns the release of a period.
    """
    read = cache(find)
    after_last = next((n for n, one in enumerate(reversed(periods)) if read(one) is not None), 0)
    if after_last >= PERIODS:
        periods = periods[:-after_last]
    newest: list[tuple[str, Made]] = []
    after: list[str] = []
    for period in reversed(periods):
        made = read(period)
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
        return Stretch(releases={period: read(period) for period in periods[-PERIODS:]})
    return Stretch(
        releases=dict(newest[::-1]), before=tuple(before[::-1]), after=tuple(after[::-1])
    )


def _is_quiet(frame: pd.DataFrame, receipt: Receipt) -> bool:
    """Return whether no node was found, and every number may be noise: intervals of twice the width
    hold 0, as one of many intervals misses what it should hold."""
    if receipt.get("keys") is None and (frame["level"] > 0).any():
        return False
    totals = totals_of(receipt)  # which stay large when nothing is added
    named = [one for one in receipt_measures(receipt) if one.name not in totals]
    if named and all(one.limits for one in named):
        return all(frame[one.name].isna().all() for one in named)
    measures = [one.columns for one in named if not one.limits] or [("count", "lower", "upper")]
    for columns in measures:
        if {*columns} <= {*frame.columns}:
            value, low, high = (frame[name] for name in columns)
            if ((2 * low - value > 0) | (2 * high - value < 0)).any():
                return False
    return True


def totals_of(receipt: Receipt) -> dict[str, str]:
    """The running totals of a receipt, with names for people."""
    told = receipt.get("measures") or {}
    return {name: f"{own['total_of']} so far" for name, own in told.items() if "total_of" in own}


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
    measures, totals = receipt_measures(receipt), totals_of(receipt)
    if totals and receipt["running"]["look"] != "weeks":
        measures.sort(key=lambda one: one.name not in totals)  # what readers look at stands first
    asked = [
        (one.columns, figures_of(frame, one), totals.get(one.name, one.name), one.limits)
        for one in measures
    ]
    own = Figures(digits=receipt.digits)
    asked = asked or [(("count", "lower", "upper"), own, receipt.count_noun, None)]
    gaps = frozenset(periods.keys() - drawn.keys())
    sections, figures = [], []
    for place, (columns, written, name, limits) in enumerate(asked):
        over = _MeasureOverTime(
            name=name,
            place=place,
            is_only=len(asked) == 1,
            written=_NumberTexts(figures=written),
            limits=limits,
            confidence=sure_text(receipt, columns[0]),
            confidence_of_total=sure_text(receipt, columns[0], total=True),
            periods=tuple(periods),
            points={
                period: _node_points(made[0], receipt, columns, limits)
                for period, made in drawn.items()
            },
            gaps=gaps,
            changes=None  # a running total changes by what the newest period adds
            if columns[0] in totals
            else changes.get(columns[0], "")
            if isinstance(changes, Mapping)
            else changes,
        )
        sections.append(_measure_sections(over))
        figures += _series_figures(over)
    missing = f"{len(gaps):,} not drawn" if gaps else "none is missing"
    guarantee = guarantee_line(receipt, "Every release here is noisy,")
    return html_document(
        _measure_links([name for _, _, name, _ in asked]) + "".join(sections),
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
    frame: pd.DataFrame,
    receipt: Receipt,
    columns: tuple[str, str, str],
    limits: tuple[float, float] | None,
) -> dict[Node, Point]:
    nodes = as_nodes(frame, as_hierarchy(receipt["hierarchy"]).label_columns)
    missing = [name for name in ("level", "prefix", *columns) if name not in nodes.columns]
    if missing:
        raise ParameterError(f"a release of the series has no column {missing[0]!r}.")
    keys = zip(nodes["level"].astype(int), nodes["prefix"].astype(str), strict=True)
    numbers = released_numbers(nodes, columns, limits)
    return {
        node: Point(value=value, lower=lower, upper=upper)
        for node, (value, lower, upper) in zip(keys, numbers, strict=True)
        if value is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberTexts:
    """How the numbers of a measure are written, and those of its changes."""

    figures: Figures

    def write(self, value: float) -> str:
        digits = self.figures.digits
        plain = self.figures.value == "number"
        return self.figures.number((round(value, digits or None)) if plain else value)

    def write_signed(self, value: float) -> str:
        """Return a change as text; of times, a duration."""
        text = self.write(value)
        if self.figures.value == "time":
            text = replace(self.figures, value="duration").number(value)
        return f"{'+' if value > 0 else ''}{text}".replace("-", "−")

    def write_ends(self, lower: float | None, upper: float | None, *, sign: bool = False) -> str:
        write = self.write_signed if sign else self.write
        if self.figures.is_binned and not sign:
            return self.figures.interval(lower, upper)
        return " to ".join("…" if end is None else write(end) for end in (lower, upper))


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasureOverTime:
    """A measure: how it is written, its points in every period that was drawn, its changes."""

    name: str
    place: int
    is_only: bool
    written: _NumberTexts
    limits: tuple[float, float] | None
    confidence: str
    confidence_of_total: str
    periods: tuple[str, ...]
    points: Mapping[str, dict[Node, Point]]
    gaps: frozenset[str]
    changes: Changes | None

    def write_point(self, point: Point) -> str:
        ends = self.written.write_ends(point.lower, point.upper)
        return f"{self.written.write(point.value)} ({ends})"

    def points_of(self, node: Node) -> list[Point | None]:
        return [self.points.get(period, {}).get(node) for period in self.periods]

    def draw(self, node: Node, size: Size, name: str) -> str:
        label = f"{name}, {self.periods[0]} to {self.periods[-1]}"
        points, said = self.points_of(node), self.write_point
        kind = self.written.figures.value
        return draw_lines(
            self.periods,
            points,
            self.gaps,
            label=label,
            said=said,
            size=size,
            value=kind,
            limits=self.limits,
        )

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
    name = html.escape(over.name)
    whose = "" if over.is_only else f'<span class="whose" dir="auto">{name}</span> '
    nodes = over.largest_nodes()
    total = "<p>No total was released.</p>"
    if any(over.points_of(ROOT)):
        total = (
            f"<figure>{''.join(over.draw(ROOT, size, 'Total') for size in (WIDE, NARROW))}</figure>"
        )
    return fill_asset(
        "series.html",
        number=str(over.place),
        whose=whose,
        what=name,
        confidence=html.escape(over.confidence),
        gap_key='<span class="key gap">not drawn</span>' if over.gaps else "",
        total=total,
        changes=_changes_section(over, whose),
        nodes="".join(_node_figure(node, over) for node in nodes) or "<p>None reported.</p>",
        note=_lines_note(over, nodes),
    )


def _changes_section(over: _MeasureOverTime, whose: str) -> str:
    """Return the section of the largest changes; empty for running totals."""
    changes, title = over.changes, f"changes-{over.place}"
    if changes is None:
        return ""
    if isinstance(changes, str):
        table = f"<p>{html.escape(changes)}</p>"
    else:
        last = tuple(over.points)[-2:]
        names = (last[0], last[-1])
        some = changes_of(changes)[:CHANGES]
        table = _changes_table(some, names, over.written, title) + _changes_note(changes, names)
    return (
        f'<section aria-labelledby="{title}">\n<h2 class="capital" id="{title}">{whose}largest '
        f"changes</h2>\n{table}\n</section>\n"
    )


def _lines_note(over: _MeasureOverTime, nodes: Sequence[Node]) -> str:
    """Return the note on breaks in lines and on hatched periods; empty if there are none."""
    breaks = any(node not in points for node in nodes for points in over.points.values())
    said = [
        *(["A line breaks where a node was not reported, which is not zero."] if breaks else []),
        *(["A hatched period was not drawn."] if over.gaps else []),
    ]
    return f'<p class="note below">{" ".join(said)}</p>' if said else ""


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
        between = f"{over.written.write_ends(total.lower, total.upper)}, {over.confidence_of_total}"
        rows.append((f"{over.name.capitalize()}, {last}", over.written.write(total.value), between))
    if isinstance(over.changes, pd.DataFrame):
        whole = next((one for one in changes_of(over.changes) if one.level == 0), None)
        if whole is not None:
            name = "Change" if over.is_only else f"Change of {over.name}"
            rows += _moved_figure(name, whole, over.written)
    return rows


# -- changes -------------------------------------------------------------------------------------


def _changes_table(
    changes: Sequence[Change], names: tuple[str, str], written: _NumberTexts, title: str
) -> str:
    """Return changes with their bars as a table, as HTML; ``title`` is the id of its heading."""
    ends = axis_of(n for c in changes for n in (c.change, c.lower, c.upper))
    rows = "".join(_change_row(change, ends, written) for change in changes)
    heads = "".join(
        f"<th scope='col' class='number optional'><bdi>{html.escape(name)}</bdi></th>"
        for name in names
    )
    return (
        f"<div class='across'><table class='bars changes' aria-labelledby='{title}'><thead><tr>"
        "<th scope='col'>Node</th><th class='drawn' aria-hidden='true'></th>"
        f"<th scope='col' class='number'>Change</th>{heads}"
        "<th scope='col' class='number optional ratio'>Ratio</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _change_row(change: Change, ends: tuple[float, float], written: _NumberTexts) -> str:
    kind = "" if change.is_more_than_noise else " class='within'"
    between = written.write_ends(change.lower, change.upper, sign=True)
    sides = "".join(
        "<td class='number other optional'>"
        f"{'not reported' if p is None else written.write(p.value)}</td>"
        for p in (change.before, change.after)
    )
    moved = "" if change.change is None else written.write_signed(change.change)
    ratio = "" if change.ratio is None else f"× {change.ratio:.2f}"
    return (
        f"<tr{kind}><th scope='row'><bdi>{html.escape(change.name)}</bdi></th>"
        "<td class='drawn' aria-hidden='true'>"
        f"{draw_bar(change.change, change.lower, change.upper, *ends)}</td>"
        f"<td class='number'>{moved}<small>{between}</small></td>{sides}"
        f"<td class='number other optional ratio'>{ratio}</td></tr>"
    )


def _changes_note(found: pd.DataFrame, names: tuple[str, str]) -> str:
    """Return what the intervals of changes hold, as HTML."""
    facts = found.attrs[CHANGE]
    many = f"{facts['intervals']:,} node{'s' * (facts['intervals'] != 1)}"
    what = many if found["level"].any() else "the total alone"
    whole = f"Of {what}"
    if names != SIDES:
        whole = html.escape(f"From {names[0]} to {names[1]}, of {what}")
    hold = "of all changes hold together" if facts["simultaneous"] else "hold each on its own"
    return (
        f"<p class='note below'>{whole}. The "
        f"intervals {hold} with confidence {100 * facts['confidence']:.6g} %. Changes that noise "
        "alone may explain stand below the others, in grey. Where a period does not report a "
        "node, its interval is made of bounds from threshold and noise: what is not reported is "
        "not zero.</p>"
    )


def change_page(found: pd.DataFrame, *, title: str | None = None) -> str:
    """Return the page of ``dp.change`` as text: one HTML document without scripts.

    Raises
    ------
    ParameterError
        The numbers of the frame were changed, or it lacks columns.

    Privacy
    -------
    Post-processing of releases: free.
    """
    facts, remark = checked_change(found, "report")
    changes = changes_of(found)
    written = _NumberTexts(figures=change_figures(found))
    names = side_names(facts)
    sides = [facts[side] for side in ("before", "after")]
    table = _changes_table(changes[:ROWS], names, written, "changes")
    more = len(changes) - ROWS
    if more > 0:
        table += f"<p class='note'>The other {more:,} are in the frame.</p>"
    told = [side["guarantee"] for side in sides if "guarantee" in side]
    if len({*told}) == 1:
        lines = guarantee_line(sides[0], "Both releases are noisy, each")
    else:
        whose = zip(("earlier", "later"), sides, strict=True)
        lines = "".join(
            guarantee_line(side, f"The {which} release is noisy,")
            for which, side in whose
            if "guarantee" in side
        )
    return html_document(
        "<section aria-labelledby='changes'><h2 id='changes'>Changes, the clearest first</h2>"
        f"{table}{_changes_note(found, names)}</section>",
        title=title or change_title(facts),
        lead=f"<p class='answer'>{_clearest_change(changes, written)}</p>"
        f"{figures_list(_change_figures(changes, names, written))}{remark}{lines}",
        promise=[
            f"In the frame, {facts['means']}.",
            *(f"A release that was compared has {guarantee}." for guarantee in dict.fromkeys(told)),
            "Comparing costs nothing more: changes are computed from released numbers alone.",
            "Whoever sees both releases: what they cost together is in the ledger.",
            *user_notes(sides[1]),
        ],
        heading="What the numbers mean and what is promised",
        card=[
            (side, str(one["release"] or one["release_id"]), f"{one['time']}, {one['guarantee']}")
            for side, one in zip(("before", "after"), sides, strict=True)
            if "guarantee" in one
        ],
    )


def checked_change(found: pd.DataFrame, what: str) -> tuple[Mapping[str, Any], str]:
    """Return the facts of a frame of ``dp.change``, and a remark if some of its rows are missing.

    Raises ParameterError for a frame whose numbers were changed, or that lacks columns.
    """
    check_columns(found, ("level", "prefix", *NUMBERS))
    state = frame_state(found)
    if state is not None and state.changed:
        raise ParameterError(
            f"this frame is not what dp.change returned: {state.changed}. Make the {what} of its "
            "result, or of some of its rows."
        )
    is_part = state is not None and state.rows < state.of
    said = f"An extract: {state.rows:,} of {state.of:,} rows." if state and is_part else ""
    return found.attrs[CHANGE], said


def side_names(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return what tells the two releases of a change apart: period, data or name."""
    for key in ("period", "data", "release"):
        found = [facts[side].get(key) for side in ("before", "after")]
        named = [one.get("text") if isinstance(one, Mapping) else one for one in found]
        if all(isinstance(one, str) and one for one in named) and named[0] != named[1]:
            return str(named[0]), str(named[1])
    return SIDES


def change_title(facts: Mapping[str, Any]) -> str:
    """Return what changed, and from when to when if the releases tell."""
    names = side_names(facts)
    when = "" if names == SIDES else f", {names[0]} to {names[1]}"
    return f"Change of {facts['measure']}{when}"


def write_change_page(found: pd.DataFrame, path: str | Path, *, title: str | None = None) -> None:
    """Write :func:`change_page` to a file, completely or not at all."""
    write_page(path, lambda: change_page(found, title=title), "report")


def _clearest_change(changes: Sequence[Change], written: _NumberTexts) -> str:
    """Return how many nodes changed by more than noise, and which one most, as HTML."""
    nodes = [change for change in changes if change.level > 0]
    if not nodes:
        return "Only the total is compared."
    clear = [change for change in nodes if change.is_more_than_noise]
    if not clear:
        return "No node changed by more than noise alone may explain."
    most = clear[0]
    moved = "" if most.change is None else f" by {written.write_signed(most.change)}"
    ends = written.write_ends(most.lower, most.upper, sign=True)
    return (
        f"{len(clear):,} of {len(nodes):,} nodes changed by more than noise. The clearest is "
        f"<strong><bdi>{html.escape(most.name)}</bdi></strong>,{moved} ({ends})."
    )


def _change_figures(
    changes: Sequence[Change], names: tuple[str, str], written: _NumberTexts
) -> list[tuple[str, str, str]]:
    """Return the total before and after, and its change."""
    whole = next((change for change in changes if change.level == 0), None)
    if whole is None:
        return []
    before, after = (
        []
        if p is None
        else [(f"Total, {name}", written.write(p.value), written.write_ends(p.lower, p.upper))]
        for name, p in zip(names, (whole.before, whole.after), strict=True)
    )
    return [*after, *_moved_figure("Change", whole, written), *before]


def _moved_figure(name: str, whole: Change, written: _NumberTexts) -> list[tuple[str, str, str]]:
    if whole.change is None:
        return []
    remark = written.write_ends(whole.lower, whole.upper, sign=True)
    if not whole.is_more_than_noise:
        remark += ", may be noise"
    return [(name, written.write_signed(whole.change), remark)]
