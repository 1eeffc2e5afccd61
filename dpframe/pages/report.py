"""A release as one HTML page that needs nothing from outside: drawing, table, promise, card."""

from __future__ import annotations

import html
import json
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from dpframe._paths import check_target, local, replacing
from dpframe.asking.measured import ShownMeasure, shown_measures
from dpframe.asking.receipt import Receipt
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.pages.parts import (
    asset,
    budget_words,
    document,
    figure,
    hash_of,
    plain_words,
    shown_part,
    spent,
)
from dpframe.pages.rollups import drawn_measure, heads, hint, measure_facts, said, totals
from dpframe.postprocess.flat import as_nodes
from dpframe.postprocess.nesting import areas, joint, nearest_reported

NUMBERS = ("residual", "count", "lower", "upper")
SCRIPTS = ("nodes.js", "drawing.js", "table.js", "page.js")
TITLES = ("Count", "Lower", "Upper", "Residual")
HEAD = (
    '<th scope="col" role="columnheader" data-by="{}" class="number">'
    '<button type="button">{}</button></th>'
)
HINT = (
    "Width is the noisy count; a hatched block holds several small nodes. Choose a block to zoom "
    "in, one above it to zoom out. With the keyboard: arrow keys, Enter, Escape."
)
LEAD = '<p class="lead">Noisy {} with <strong>{}</strong>.</p>'


def page(frame: pd.DataFrame, receipt: Receipt, *, title: str | None = None) -> str:
    """The page as text.

    Parameters
    ----------
    frame
        What a release returned, or some of its rows in any order.
    receipt
        Its receipt, ``result.dp.receipt``.
    title
        Heading of the page; by default what was counted, "Heavy hitters of" or "Counts of", and
        the columns.

    Returns
    -------
    str
        One HTML document. It loads nothing: its own policy forbids every request, and every
        script but its own.

    Raises
    ------
    ParameterError
        The frame lacks a column of a release, does not belong to the receipt, or holds other
        numbers than were released.

    Privacy
    -------
    Post-processing of a release: free. The page promises what the receipt says.
    """
    frame, extract = shown_part(frame, receipt, "report")
    hierarchy = as_hierarchy(receipt["hierarchy"])
    frame = as_nodes(frame, hierarchy.label_columns)
    measures = shown_measures(receipt)
    nodes = _nodes(frame, receipt, hierarchy, measures)
    script = "\n".join(asset(name) for name in SCRIPTS)
    return document(
        _sections(measures),
        title=title or f"{receipt.subject} of {', '.join(hierarchy.source_columns)}",
        lead=LEAD.format("numbers" if measures else "counts", html.escape(receipt["guarantee"]))
        + _said(extract),
        figures=_figures(frame, receipt, measures),
        promise=_promise(receipt, measures),
        receipt=receipt,
        style=asset("page.css"),
        policy=f"; script-src 'sha256-{hash_of(script)}'",
        before='<a class="skip" href="#nodes">Skip to the table</a>',
        after=(
            f'<script type="application/json" id="data">{_embedded(nodes)}</script>\n'
            f'<script type="module">{script}</script>'
        ),
    )


def _sections(measures: list[ShownMeasure]) -> str:
    """Drawing and table, before their numbers are in."""
    counted = "\n".join(HEAD.format(title.lower(), title) for title in TITLES)
    return Template(asset("page.html")).substitute(
        columns="measures" if measures else "counts",
        heads=heads(measures) if measures else counted,
        hint=hint(measures) if measures else HINT,
        undrawn=" hidden" if measures and drawn_measure(measures) is None else "",
    )


def _said(extract: str) -> str:
    return f'<p class="lead">{extract[:1].upper()}{extract[1:]}.</p>' if extract else ""


def write_report(
    frame: pd.DataFrame, receipt: Receipt, path: str | Path, *, title: str | None = None
) -> None:
    """Write :func:`page` to a file, as a whole or not at all."""
    path = local(path, "report")
    check_target("report", path)
    text = page(frame, receipt, title=title)
    with replacing(path, "the report") as file:
        file.write(text.encode(errors="replace"))


# -- data ----------------------------------------------------------------------------------------


def _nodes(
    frame: pd.DataFrame, receipt: Receipt, hierarchy: Hierarchy, measures: list[ShownMeasure]
) -> dict[str, object]:
    """The released numbers, a list a column, and where each node lies."""
    ancestor = nearest_reported(frame, hierarchy)
    if measures:
        drawn, numbers = drawn_measure(measures), measure_facts(frame, measures)
    else:
        drawn, numbers = None, _counts(frame)
    return {
        "kind": hierarchy.kind,
        "joint": joint(hierarchy),
        "levels": list(hierarchy.level_names),
        "confidence": _percent(receipt),
        "level": frame["level"].astype("int64").tolist(),
        "prefix": frame["prefix"].astype(str).tolist(),
        "digits": receipt.digits,
        **numbers,
        "parent": ancestor.tolist(),
        "area": areas(frame, ancestor, _width(measures, drawn)).tolist(),
    }


def _numbers(column: pd.Series[Any]) -> list[float | None]:
    """Whole numbers, of a measure any, None where nothing is known."""
    pairs = zip(column.tolist(), column.isna(), strict=True)
    return [None if missing else int(n) if n == int(n) else n for n, missing in pairs]


def _width(measures: list[ShownMeasure], drawn: ShownMeasure | None) -> str | None:
    """The column that widths show; None where no width says anything."""
    if measures:
        return None if drawn is None else drawn.name
    return "count"


def _counts(frame: pd.DataFrame) -> dict[str, object]:
    missing = [name for name in NUMBERS if name not in frame.columns]
    if missing:
        raise ParameterError(
            f"the frame has no column {missing[0]!r}: pass it as dpframe returned it."
        )
    return {name: _numbers(frame[name]) for name in NUMBERS}


def _embedded(facts: dict[str, object]) -> str:
    """JSON that no label can end: ASCII only, and nothing that HTML reads as markup."""
    text = json.dumps(facts, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


# -- words ---------------------------------------------------------------------------------------


def _figures(
    frame: pd.DataFrame, receipt: Receipt, measures: list[ShownMeasure]
) -> list[tuple[str, str, str]]:
    rows = totals(frame, measures, _percent(receipt))
    what, digits = receipt["counts"].split(",")[0], receipt.digits
    total = frame[frame["level"] == 0]
    if len(total) == 1 and not measures:
        numbers = (_numbers(total[name])[0] for name in ("count", "lower", "upper"))
        count, lower, upper = ("" if n is None else figure(n, digits) for n in numbers)
        between = f"{lower} {f'to {upper}' if upper else 'upwards'}, {_percent(receipt)}"
        rows.append((what.capitalize(), count, between))
    nodes = len(frame) - len(total)
    levels = "1 level" if receipt["height"] == 1 else f"{receipt['height']} levels"
    rows.append(("Nodes", f"{nodes:,}", f"in {levels}"))
    if receipt["threshold"] is not None:
        kind = "noisy" if receipt["mechanism"].startswith("tree-") else "residual"
        rows.append(("Threshold", figure(receipt["threshold"], digits), f"{kind} {what}"))
    return [*rows, spent(receipt)]


def _promise(receipt: Receipt, measures: list[ShownMeasure]) -> list[str]:
    """The guarantee in plain words; every number and reservation is one of the receipt."""
    card = {line.name: line for line in receipt._lines}
    intervals = receipt["intervals"]
    about = [f"The counts are of {receipt['counts']}. {_about_noise(receipt)}"]
    words = [
        f"The numbers on this page were released with {receipt['guarantee']}.",
        plain_words(receipt, "this page"),
        *(said(receipt, measures) if measures else about),
        f"{intervals[:1].upper()}{intervals[1:]} ({_percent(receipt)}).",
    ]
    if {"certainly reported", "never reported"} <= card.keys():
        words.append(
            "A node that was not reported need not be empty: a residual of "
            f"{card['certainly reported'].value} or more is certainly reported, one below "
            f"{card['never reported'].value} never is."
        )
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


def _percent(receipt: Receipt) -> str:
    return f"{100 * receipt['confidence']:.6g} %"
