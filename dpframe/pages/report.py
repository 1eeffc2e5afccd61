"""The HTML page of a release, which loads nothing from outside: answer, drawing, table, card."""

from __future__ import annotations

import html
import json
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from dpframe._paths import PAGES, check_target, local_file, replace_file
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.released_measures import ReleasedMeasure, receipt_measures
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.pages.answers import answer_sections
from dpframe.pages.cells_page import cells_page, check_plain
from dpframe.pages.chartable import Chartable, Kind, area_measure, chartable
from dpframe.pages.page_parts import (
    asset,
    budget_figure,
    budget_words,
    figure_text,
    figures_list,
    hash_of,
    html_document,
    plain_words,
    released_part,
)
from dpframe.pages.rollups import (
    drawing_hint,
    drawn_measure,
    measure_facts,
    measure_heads,
    measure_sentences,
    total_figures,
)
from dpframe.postprocess.lineages import areas, label_joint, nearest_reported

NUMBERS = ("residual", "count", "lower", "upper")
SCRIPTS = ("nodes.js", "drawing.js", "table.js", "page.js")
TITLES = ("Count", "Lower", "Upper", "Residual")
HEAD = (
    '<th scope="col" role="columnheader" data-by="{}" class="number">'
    '<button type="button">{}</button></th>'
)
UNDRAWN = "Choose a name in the table to see what is below it."
HINT = (
    "Width is the noisy count, of small blocks more than that, so that they can be read; a hatched "
    "block holds several nodes. Choose a block to zoom "
    "in, one above it to zoom out. With the keyboard: arrow keys, Enter, Escape."
)
SHARED = (
    "A user with many records counts no more than one with few, and is divided over the nodes of "
    "their records: a node may have many more users than its number, each with a small part. How "
    "many different users a node has, a rollup says with dp.distinct of the user."
)
LEAD = '<p class="lead">Noisy {} with <strong>{}</strong>.</p>'


def report_page(
    frame: pd.DataFrame,
    receipt: Receipt,
    *,
    title: str | None = None,
    kind: Kind | None = None,
    measure: str | None = None,
) -> str:
    """Return the page as text.

    Parameters
    ----------
    frame
        The frame of a release, or some of its rows in any order.
    receipt
        Its receipt, ``result.dp.receipt``.
    title
        Heading of the page; by default what was counted, "Heavy hitters of" or "Counts of", and
        the columns.
    kind
        The drawing: "bar", "line", "heatmap" or "icicle"; by default one that fits the release.
    measure
        The measure of a rollup for the answer and the drawing; by default the first.

    Returns
    -------
    str
        One HTML document. It loads nothing: its policy forbids every request, and every script but
        its own.

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
    asked = shown.chosen(measure)
    form = shown.kind(kind)
    if form == "treemap":
        raise ParameterError("kind ('treemap') is not for pages. Use 'icicle', or result.dp.plot.")
    first = asked or shown.measures[0]
    hierarchy, measures = shown.hierarchy, receipt_measures(receipt)
    if form == "icicle" and asked is not None:
        measures.sort(key=lambda one: one.name != area_measure(shown, form, asked).name)
    nodes = _node_facts(shown.nodes, receipt, hierarchy, measures)
    script = "\n".join(asset(name) for name in SCRIPTS)
    told, top = answer_sections(frame, shown, first, form, (asked,) if asked else shown.measures)
    return html_document(
        top + _report_sections(shown, measures, form) + _facts_section(shown, receipt, measures),
        title=title or f"{receipt.subject} of {', '.join(hierarchy.source_columns)}",
        lead=told
        + _notices(receipt)
        + LEAD.format("numbers" if measures else "counts", html.escape(receipt["guarantee"]))
        + _extract_remark(extract),
        promise=_report_promise(receipt, measures),
        heading="What the numbers mean and what is promised",
        receipt=receipt,
        style=asset("page.css") + asset("lines.css") + asset("charts.css"),
        policy=f"; script-src 'sha256-{hash_of(script)}'",
        before='<a class="skip" href="#nodes">Skip to the table</a>',
        after=(
            f'<script type="application/json" id="data">{_nodes_json(nodes)}</script>\n'
            f'<script type="module">{script}</script>'
        ),
    )


def _report_sections(shown: Chartable, measures: list[ReleasedMeasure], form: str) -> str:
    """Return the sections of drawing and table, which the script fills with numbers."""
    counted = "\n".join(HEAD.format(title.lower(), title) for title in TITLES)
    drawn = form == "icicle"
    return Template(asset("page.html")).substitute(
        columns="measures" if measures else "counts",
        heads=measure_heads(measures) if measures else counted,
        hierarchy="Parts of the whole" if drawn else "One node at a time",
        hint=(drawing_hint(measures) if measures else HINT) if drawn else UNDRAWN,
        undrawn="" if drawn else " hidden",
        flat=" hidden" if not drawn and shown.hierarchy.height == 1 else "",
    )


def _facts_section(shown: Chartable, receipt: Receipt, measures: list[ReleasedMeasure]) -> str:
    figures = figures_list(_report_figures(shown.nodes, receipt, measures))
    return (
        "<section aria-labelledby='facts-title'><h2 id='facts-title'>This release</h2>"
        f"{figures}</section>"
    )


def _notices(receipt: Receipt) -> str:
    """Return the notices of a receipt as HTML: why numbers are poor, and what to change."""
    found = []
    notices = [line for line in receipt.card_lines if line.id == "notice"]
    for line in notices[: len(receipt.get("notices", ()))]:  # a measure can have this name
        head, said = (
            f"{text[:1].upper()}{text[1:]}" for text in (line.value_text, line.meaning_text)
        )
        end = "" if said.endswith((".", "?")) else "."
        found.append(
            f"<p class='notice'><strong>{html.escape(head)}</strong> {html.escape(said)}{end}</p>"
        )
    return "".join(found)


def _extract_remark(extract: str) -> str:
    return f'<p class="lead">{extract[:1].upper()}{extract[1:]}.</p>' if extract else ""


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
    path = local_file(path, "report")
    check_target("report", path, PAGES)
    text = report_page(frame, receipt, title=title, kind=kind, measure=measure)
    with replace_file(path, "the report") as file:
        file.write(text.encode(errors="replace"))


# -- data ----------------------------------------------------------------------------------------


def _node_facts(
    frame: pd.DataFrame,
    receipt: Receipt,
    hierarchy: Hierarchy,
    measures: list[ReleasedMeasure],
) -> dict[str, object]:
    """Return the released numbers as a list per column, and the parent and area of each node."""
    ancestor = nearest_reported(frame, hierarchy)
    if measures:
        drawn, numbers = drawn_measure(measures), measure_facts(frame, measures)
    else:
        drawn, numbers = None, _count_columns(frame)
    return {
        "kind": hierarchy.kind,
        "joint": label_joint(hierarchy),
        "levels": list(hierarchy.level_names),
        "confidence": _confidence_percent(receipt),
        "level": frame["level"].astype("int64").tolist(),
        "prefix": frame["prefix"].astype(str).tolist(),
        "digits": receipt.digits,
        **numbers,
        "parent": ancestor.tolist(),
        "area": areas(frame, ancestor, _width_column(measures, drawn)).tolist(),
    }


def _whole_numbers(column: pd.Series[Any]) -> list[float | None]:
    """Return the numbers of a column, whole numbers as int; None where nothing is known."""
    pairs = zip(column.tolist(), column.isna(), strict=True)
    return [None if missing else int(n) if n == int(n) else n for n, missing in pairs]


def _width_column(measures: list[ReleasedMeasure], drawn: ReleasedMeasure | None) -> str | None:
    """Return the column that widths show, or None if no measure can be shown as widths."""
    if measures:
        return None if drawn is None else drawn.name
    return "count"


def _count_columns(frame: pd.DataFrame) -> dict[str, object]:
    missing = [name for name in NUMBERS if name not in frame.columns]
    if missing:
        raise ParameterError(f"the frame has no column {missing[0]!r}. Pass the result unchanged.")
    return {name: _whole_numbers(frame[name]) for name in NUMBERS}


def _nodes_json(facts: dict[str, object]) -> str:
    """Return JSON that no label can end: ASCII only, without signs that HTML reads as markup."""
    text = json.dumps(facts, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


# -- words ---------------------------------------------------------------------------------------


def _report_figures(
    frame: pd.DataFrame, receipt: Receipt, measures: list[ReleasedMeasure]
) -> list[tuple[str, str, str]]:
    rows = total_figures(frame, measures, _confidence_percent(receipt))
    what, digits = receipt.count_noun, receipt.digits
    total = frame[frame["level"] == 0]
    if len(total) == 1 and not measures:
        numbers = (_whole_numbers(total[name])[0] for name in ("count", "lower", "upper"))
        count, lower, upper = ("" if n is None else figure_text(n, digits) for n in numbers)
        between = f"{lower} {f'to {upper}' if upper else 'upwards'}, {_confidence_percent(receipt)}"
        rows.append((what.capitalize(), count, between))
    nodes = len(frame) - len(total)
    levels = "1 level" if receipt["height"] == 1 else f"{receipt['height']} levels"
    rows.append(("Nodes", f"{nodes:,}", f"in {levels}"))
    if receipt["threshold"] is not None:
        noisy = receipt["mechanism"].startswith("tree-") or receipt.get("adds_up") is False
        kind = "noisy" if noisy else "residual"
        rows.append(("Threshold", figure_text(receipt["threshold"], digits), f"{kind} {what}"))
    return [*rows, budget_figure(receipt)]


def _report_promise(receipt: Receipt, measures: list[ReleasedMeasure]) -> list[str]:
    """Return the guarantee in plain words; all numbers and reservations are from the receipt."""
    card = {line.name: line for line in receipt.card_lines}
    intervals = receipt["intervals"]
    about = [f"The counts are of {receipt['counts']}. {_about_noise(receipt)}"]
    words = [
        *(measure_sentences(receipt, measures) if measures else about),
        f"{intervals[:1].upper()}{intervals[1:]} ({_confidence_percent(receipt)}).",
    ]
    if receipt.get("user") is not None and receipt.get("contribution") == "share":
        words.append(SHARED)
    if {"certainly reported", "never reported"} <= card.keys():
        words.append(
            f"A node that was not reported need not be empty: {_tested_number(receipt)} of "
            f"{card['certainly reported'].value_text} or more is certainly reported, one below "
            f"{card['never reported'].value_text} never is."
        )
    words += [
        f"The numbers on this page were released with {receipt['guarantee']}.",
        plain_words(receipt, "this page"),
    ]
    if receipt.get("local_guarantee"):
        words.append(f"Whoever sees single reports of devices: {receipt['local_guarantee']}.")
    return [*words, budget_words(receipt)]


def _tested_number(receipt: Receipt) -> str:
    return "a number" if receipt.get("adds_up") is False else "a residual"


def _about_noise(receipt: Receipt) -> str:
    if receipt.get("consistent"):
        return (
            "They carry noise on purpose, and were then changed so that they are not negative and "
            "every node is the sum of the rows below it."
        )
    if receipt["mechanism"].startswith("prefix-"):
        return "They carry noise on purpose; an item that is not here need not be rare."
    return "They carry noise on purpose, and can be negative."


def _confidence_percent(receipt: Receipt) -> str:
    return f"{100 * receipt['confidence']:.6g} %"
