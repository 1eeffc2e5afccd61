"""The HTML page of a release, which loads nothing from outside: answer, drawing, table, card."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.asking.measure_texts import (
    ReleasedMeasure,
    bound_words,
    cut_words,
    parse_measure,
    receipt_measures,
)
from dpframe.asking.privacy_receipt import Receipt
from dpframe.common.digest import frame_state
from dpframe.errors import ParameterError
from dpframe.measures.bins import spoken_value
from dpframe.pages.answers import answer_sections, lists_all
from dpframe.pages.chartable import Chartable, Kind, area_measure, chartable
from dpframe.pages.drawings import Shape, Tick, draw_shape, spread_ticks, value_ticks
from dpframe.pages.marginals import SHAPED, NodeShapes, shapes_of
from dpframe.pages.page_parts import (
    budget_figure,
    budget_words,
    cells_page,
    check_columns,
    check_plain,
    confidence_percent,
    extract_remark,
    figure_text,
    figures_list,
    figures_of,
    fill_asset,
    guarantee_line,
    html_document,
    intervals_sentence,
    not_shown_remark,
    not_shown_words,
    notices_of,
    plain_words,
    released_part,
    sure_text,
    table_section,
    write_page,
)
from dpframe.postprocess.shown_nodes import (
    areas,
    finite_numbers,
    label_joint,
    nearest_reported,
    released_numbers,
    shown_nodes,
)

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = ("count", "lower", "upper", "residual")
TOTALS = 6
"""Largest number of measures whose total stands at the top of a page; the table has the rest."""

UNDRAWN = "Choose a name in the table to see what is below it."
NO_WIDTHS = (
    "No measure of this rollup has parts that are never more than the whole, so nothing is drawn "
    f"to scale. {UNDRAWN}"
)
HINT = (
    "Width is {}, of small blocks more than that, so that they can be read; a hatched block holds "
    "several nodes. Choose a block to zoom in, one above it to zoom out. With the keyboard: arrow "
    "keys, Enter, Escape."
)
SHARED = (
    "A user with many records counts no more than one with few, and is divided over the nodes of "
    "their records: a node may have many more users than its number, each with a small part. How "
    "many different users a node has, a rollup says with dp.distinct of the user."
)


def report_page(
    frame: pd.DataFrame,
    receipt: Receipt,
    *,
    title: str | None = None,
    kind: Kind | None = None,
    measure: str | None = None,
) -> str:
    """Return the page as text: one HTML document, whose policy forbids all but its own script.

    Arguments are those of ``result.dp.report``; by default the title is what was counted and the
    columns, and the drawing one that fits.

    Raises
    ------
    ParameterError
        The kind or the measure does not fit the release; or the frame lacks a column of a release,
        does not belong to the receipt, or its numbers were changed.

    Privacy
    -------
    Post-processing of a release: free. The page promises what the receipt says.
    """
    if "order" in receipt and "dimensions" in receipt:
        check_plain(kind=kind)
        return cells_page(frame, receipt, title=title, measure=measure)
    frame, extract = released_part(frame, receipt, "report")
    shown = chartable(frame, receipt)
    asked = shown.find_measure(measure)
    form = shown.kind(kind)
    if form == "treemap":
        raise ParameterError("kind ('treemap') is not for pages. Use 'icicle', or result.dp.plot.")
    measures = receipt_measures(receipt)
    if form == "icicle" and asked is not None:
        measures.sort(key=lambda one: one.name != area_measure(shown, form, asked).name)
    first = asked or shown.measures[0]
    told, top = answer_sections(frame, shown, first, form, (asked,) if asked else shown.measures)
    facts = figures_list(_report_figures(shown, measures))
    numbers = "numbers" if measures else "counts"
    guarantee = guarantee_line(receipt, f"All {numbers} here are noisy,")
    is_listed = form == "bar" and lists_all(shown)  # the bars are all there is
    return html_document(
        f"{top}{_shape_sections(frame, shown)}"
        f"{'' if is_listed else _tree_sections(shown, measures, form)}"
        "<section aria-labelledby='facts-title'><h2 id='facts-title'>This release</h2>"
        f"{facts}</section>",
        title=title or f"{receipt.subject} of {', '.join(shown.hierarchy.source_columns)}",
        lead=f"{told}{notices_of(receipt)}{not_shown_remark(receipt)}{extract_remark(extract)}"
        f"{guarantee}",
        promise=_report_promise(receipt, measures),
        receipt=receipt,
        script=None if is_listed else ("report.js", "nodes", _node_facts(shown, measures)),
    )


def write_report(
    frame: pd.DataFrame,
    receipt: Receipt,
    path: str | Path,
    *,
    title: str | None = None,
    kind: Kind | None = None,
    measure: str | None = None,
) -> None:
    """Write the page of a release to a file, completely or not at all."""

    def make() -> str:
        return report_page(frame, receipt, title=title, kind=kind, measure=measure)

    write_page(path, make, "report", 'Other files are written by result.dp.save("x.xlsx").')


# -- sections ------------------------------------------------------------------------------------


def _tree_sections(shown: Chartable, measures: list[ReleasedMeasure], form: str) -> str:
    """Return the sections of drawing and table, which the script fills with numbers."""
    is_drawn = form == "icicle"
    drawn = _drawn_measure(measures)
    if not is_drawn:
        hint = UNDRAWN
    elif measures and drawn is None:
        hint = NO_WIDTHS
    else:
        name = (
            "the noisy count"
            if drawn is None
            else f"<bdi>{html.escape(drawn.name)}</bdi>, which is noisy"
        )
        hint = HINT.format(name)
    tree = fill_asset(
        "report.html",
        hierarchy="Parts of the whole" if is_drawn else "One node at a time",
        hint=hint,
        undrawn="" if is_drawn else " hidden",
        flat=" hidden" if not is_drawn and shown.hierarchy.height == 1 else "",
    )
    several, bounds = shown.hierarchy.height > 1, bound_words(shown.receipt)
    heads: list[tuple[str, ...]] = [("prefix", "", "Node")]
    heads += [("level", "number level", "Level")] if several else []
    heads += [
        (f"m{i}", "number measure", one.name, bounds.get(one.name, ""))
        for i, one in enumerate(measures)
    ]
    if not measures:
        heads += [
            (name, f"number {name}", name.capitalize(), bounds.get(name, ""))
            for name in _numbers_of(shown)
        ]
    kind = f"narrows {'measures' if measures else 'counts'}{'' if several else ' flat'}"
    return tree + table_section("nodes", "All numbers", heads, kind, levels=several)


def _drawn_measure(measures: list[ReleasedMeasure]) -> ReleasedMeasure | None:
    """Return the first measure that widths can show, or None."""
    return next((measure for measure in measures if measure.has_areas), None)


# -- data ----------------------------------------------------------------------------------------


def _node_facts(shown: Chartable, measures: list[ReleasedMeasure]) -> dict[str, object]:
    """Return the released numbers as a list per column, and the parent and area of each node."""
    frame, hierarchy, receipt = shown.nodes, shown.hierarchy, shown.receipt
    ancestor = nearest_reported(frame, hierarchy)
    drawn = _drawn_measure(measures)
    width = "count" if not measures else None if drawn is None else drawn.name
    return {
        **_bound_facts(receipt, "count"),
        "kind": hierarchy.kind,
        "joint": label_joint(hierarchy),
        "levels": list(hierarchy.level_names),
        "confidence": confidence_percent(receipt),
        "level": frame["level"].astype("int64").tolist(),
        "prefix": frame["prefix"].astype(str).tolist(),
        "digits": receipt.digits,
        **(_measure_facts(frame, measures, receipt) if measures else _count_facts(shown)),
        "parent": ancestor.tolist(),
        "area": areas(frame, ancestor, width).tolist(),
    }


def _count_facts(shown: Chartable) -> dict[str, Any]:
    names = _numbers_of(shown)
    check_columns(shown.nodes, names)
    return {name: finite_numbers(shown.nodes[name]) for name in names}


def _numbers_of(shown: Chartable) -> tuple[str, ...]:
    """Return the columns of counts, without the residual where nothing is below a node or counted
    apart from it."""
    plain = shown.hierarchy.height == 1 or shown.receipt.get("adds_up") is False
    return NUMBERS[:3] if plain else NUMBERS


def _bound_facts(receipt: Receipt, column: str) -> dict[str, str]:
    """Return what stands beside the interval of a number, and of the number of everything."""
    whole = {"said": False, "total": True}
    words = {name: cut_words(receipt, column, total=total) for name, total in whole.items()}
    return {name: f", {said}" if said else "" for name, said in words.items()}


def _measure_facts(
    frame: pd.DataFrame, measures: list[ReleasedMeasure], receipt: Receipt
) -> dict[str, Any]:
    """Return a list of numbers for each column, and the facts that a page needs of each measure."""
    drawn = _drawn_measure(measures)
    written = [figures_of(frame, one) for one in measures]
    facts: dict[str, Any] = {
        "measures": [
            {
                "key": f"m{i}",
                "title": one.name,
                "digits": figures.digits,
                **_bound_facts(receipt, one.name),
            }
            for i, (one, figures) in enumerate(zip(measures, written, strict=True))
        ],
        "drawn": None if drawn is None else f"m{measures.index(drawn)}",
    }
    for i, (measure, figures) in enumerate(zip(measures, written, strict=True)):
        numbers = released_numbers(frame, measure.columns, measure.limits)
        columns = list(map(list, zip(*numbers, strict=True))) if numbers else [[], [], []]
        facts |= zip((f"m{i}", f"m{i}_lower", f"m{i}_upper"), columns, strict=True)
        if figures.is_binned:  # words, such as "unknown"
            facts["measures"][i] |= figures.texts(*columns)
    return facts


# -- words ---------------------------------------------------------------------------------------


def _report_figures(
    shown: Chartable, measures: list[ReleasedMeasure]
) -> list[tuple[str, str, str]]:
    frame, receipt = shown.nodes, shown.receipt
    total = frame[frame["level"] == 0]
    rows = []
    if len(total) == 1 and measures:
        for measure in measures[:TOTALS]:
            figures = figures_of(frame, measure)
            ((value, *ends),) = released_numbers(total, measure.columns, measure.limits)
            between = f"{figures.interval(*ends)}, {sure_text(receipt, measure.name, total=True)}"
            rows.append((measure.name, figures.number(value), between))
    elif len(total) == 1:
        numbers = (finite_numbers(total[name])[0] for name in ("count", "lower", "upper"))
        count, lower, upper = ("" if n is None else figure_text(n, receipt.digits) for n in numbers)
        between = f"{lower} {f'to {upper}' if upper else 'upwards'}"
        between += f", {sure_text(receipt, 'count', total=True)}"
        rows.append((receipt.count_noun.capitalize(), count, between))
    levels = "1 level" if receipt["height"] == 1 else f"{receipt['height']} levels"
    rows.append(("Nodes", f"{len(frame) - len(total):,}", f"in {levels}"))
    if receipt["threshold"] is not None:
        noisy = receipt["mechanism"].startswith("tree-") or receipt.get("adds_up") is False
        kind = "noisy" if noisy else "residual"
        threshold = figure_text(receipt["threshold"], receipt.digits)
        rows.append(("Threshold", threshold, f"{kind} {receipt.count_noun}"))
    return [*rows, budget_figure(receipt)]


def _report_promise(receipt: Receipt, measures: list[ReleasedMeasure]) -> list[str]:
    """Return the guarantee in plain words; all numbers and reservations are from the receipt."""
    card = {line.name: line for line in receipt.card_lines}
    about = [f"The counts are of {receipt['counts']}. {_about_noise(receipt)}"]
    words = [
        *(_measure_sentences(receipt, measures) if measures else about),
        intervals_sentence(receipt),
    ]
    if receipt.get("user") is not None and receipt.get("contribution") == "share":
        words.append(SHARED)
    if "not_shown" not in receipt and {"certainly reported", "never reported"} <= card.keys():
        what = "a number" if receipt.get("adds_up") is False else "a residual"
        words.append(
            f"A node that was not reported need not be empty: {what} of "
            f"{card['certainly reported'].value_text} or more is certainly reported, one below "
            f"{card['never reported'].value_text} never is."
        )
    words += [
        *not_shown_words(receipt),
        f"The numbers on this page were released with {receipt['guarantee']}.",
        plain_words(receipt, "this page"),
    ]
    if receipt.get("local_guarantee"):
        words.append(f"Whoever sees single reports of devices: {receipt['local_guarantee']}.")
    return [*words, budget_words(receipt)]


def _about_noise(receipt: Receipt) -> str:
    if receipt.get("consistent"):
        return (
            "They carry noise on purpose, and were then changed so that they are not negative and "
            "every node is the sum of the rows below it."
        )
    if receipt["mechanism"].startswith("prefix-"):
        return "They carry noise on purpose; an item that is not here need not be rare."
    return "They carry noise on purpose, and can be negative."


def _levels_words(levels: Sequence[int] | None) -> str:
    if levels is None:
        return "at the lowest rows"
    first, last = levels[0], levels[-1]
    return f"at level {first}" if first == last else f"at levels {first} to {last}"


def _measure_sentences(receipt: Receipt, measures: list[ReleasedMeasure]) -> list[str]:
    """Return sentences that explain the measures."""
    out = [
        f"Counts are of {receipt['counts']}. All numbers carry noise on purpose, and can be "
        "negative where the true ones are not."
    ]
    if not all(measure.adds_up for measure in measures):
        out.append(
            "Counts and sums of a node hold what is below it; means, quantiles and numbers of "
            "different values do not add up."
            if receipt.get("adds_up") is not False
            else "Numbers of a node hold what is below it. They do not add up: a user with two "
            "nodes is one user, and what a user adds is cut at every node on its own."
        )
    for name, facts in receipt["measures"].items():
        if "edges" in facts:
            out.append(_bins_sentence(name, facts, receipt))
        elif facts.get("adds_up") is False:
            bounds = [
                f"{part['bound']:,g} {_levels_words(part['levels'])}"
                for part in facts.get("noise") or []
                if part["of"] == "sum"
            ]
            if bounds:
                out.append(
                    f"For {name}, what one user adds up to at a node was cut, so that the root of "
                    f"the sum of squares over nodes is at most {', '.join(bounds)}; no interval "
                    "covers what that takes away."
                )
        elif facts["lower"] is not None:
            by_user = receipt["user"] is not None and str(facts["spec"]).startswith("sum")
            what = "everything a user adds up to was" if by_user else "values were"
            out.append(
                f"For {name}, {what} cut to {facts['lower']:,g} from below and to "
                f"{facts['upper']:,g} from above; no interval covers what that takes away."
            )
    return out


def _bins_sentence(name: str, facts: Mapping[str, Any], receipt: Receipt) -> str:
    """Return how values were counted in bins."""
    low, high = (spoken_value(facts[end], facts["value"]) for end in ("lower", "upper"))
    return (
        f"For {name}, values were counted in {len(facts['edges']) - 1:,} bins from {low} to "
        f"{high}, and in one beyond each end. No value is cut: where an interval reaches beyond an "
        "end, it says “at least” or “up to”. A node with too few values is unknown."
        f"{_user_weight(facts, receipt)}"
    )


def _user_weight(facts: Mapping[str, Any], receipt: Receipt) -> str:
    """Return how a user counts in bins."""
    if receipt["user"] is None:
        return ""
    each = parse_measure(facts["spec"])[1].each
    if each == "row":
        return " Every user weighs 1, divided evenly over their values."
    return (
        f" A value is the {each} of a user at a node. At each level every user weighs 1, divided "
        "evenly over their nodes there."
    )


# -- distributions -------------------------------------------------------------------------------


def _shape_sections(frame: pd.DataFrame, shown: Chartable) -> str:
    """Return the sections that show how values are distributed under the largest nodes, as HTML;
    one for each column and bins."""
    measures = shown.receipt.get("measures") or {}
    binned = [name for name, facts in measures.items() if "edges" in facts]
    if not binned or frame_state(frame) is None:
        return ""
    nodes, found = shown_nodes(frame, shown.receipt, "report"), dict[object, NodeShapes]()
    for name in binned:
        shapes = shapes_of(nodes, name)
        if shapes is not None:
            key = shapes.measure.column, shapes.measure.bins, shapes.measure.each
            found.setdefault(key, shapes)
    several = enumerate([*found.values()][:SHAPED])
    return "".join(_shape_section(shown, shapes, at) for at, shapes in several)


def _shape_section(shown: Chartable, shapes: NodeShapes, at: int) -> str:
    measure, (low, high) = shapes.measure, shapes.shown_edges
    edges = measure.bins.edges
    if shapes.is_even:
        ticks = value_ticks(*shapes.ends, measure.value)
    else:
        ticks = spread_ticks(shapes.place, edges[low], edges[high], measure.value)
    labels = shown.nodes["prefix"].iloc[shapes.places].astype(str).tolist()
    if not shown.level[shapes.places].any():
        labels = ["Everything"]
    users = "values" if shown.receipt["user"] is None else "users"
    panels = "".join(
        _shape_figure(shapes, own, label, users, ticks)
        for label, own in zip(labels, shapes.own.tolist(), strict=True)
    )
    column = f"<bdi>{html.escape(str(measure.column))}</bdi>"
    title = f"How {column} is distributed"
    if measure.each != "row":
        title = f"How the {measure.each}s of {column} of users are distributed"
    return (
        f"<section aria-labelledby='shapes-{at}'><h2 id='shapes-{at}'>{title}</h2>"
        f"<p class='legend'><span class='key bar'>noisy numbers of {users}</span>"
        "<span class='key median'>median</span><span class='key band'>its interval, "
        f"{confidence_percent(shown.receipt)}</span></p><div class='nodes'>{panels}</div>"
        f"<p class='note below'>{_shape_notes(shapes)}</p></section>"
    )


def _shape_figure(
    shapes: NodeShapes, own: int, label: str, users: str, ticks: Sequence[Tick]
) -> str:
    """Return the drawing of one node below its name, its number of values and its median."""
    places, heights, bars = shapes.bars(own)
    median, figures = shapes.medians[own], shapes.figures
    said = f"median {figures.number(median[0])} ({figures.interval(*median[1:])})"
    size = max(int(shapes.node.running_totals[own, -1]), 0)
    words = f"about {size:,} {users}; {said}{shapes.words_beyond(own)}"
    names = [
        f"{figures.number(a)} to {figures.number(b)}: {number:,} {users}" for a, b, number in bars
    ]
    drawing = draw_shape(
        Shape(edges=places, heights=heights, names=names, median=shapes.mark(own)),
        ends=shapes.ends,
        most=1.04 * max(*heights, 0.0) or 1.0,
        ticks=ticks,
        label=f"{label}: {shapes.measure.column} of {words}",
    )
    return (
        f"<figure><figcaption><h3 dir='auto'>{html.escape(label)}</h3><span>{words}</span>"
        f"</figcaption>{drawing}</figure>"
    )


def _shape_notes(shapes: NodeShapes) -> str:
    """Return how the drawings are read."""
    notes = ["All share one axis; the tallest bar of each node fills its height."]
    if not shapes.is_even:
        low, high = shapes.measure.bins.edges[0], shapes.measure.bins.edges[-1]
        notes.append(f"{'Away from 0 the' if low <= 0 <= high else 'The'} axis is logarithmic.")
    notes.append(
        "Where noise is large, neighbouring bins are drawn as one; numbers below 0, which are "
        "noise, are not drawn."
    )
    return " ".join(notes)
