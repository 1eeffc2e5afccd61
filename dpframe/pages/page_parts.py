"""Parts of pages: documents, figures, and the page of cells."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import ipaddress
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.asking.call_arguments import known_choice
from dpframe.asking.card import NO_USER, kind_of_privacy
from dpframe.asking.measure_texts import (
    Figures,
    ReleasedMeasure,
    bound_words,
    cut_words,
    receipt_measures,
)
from dpframe.asking.privacy_receipt import Receipt
from dpframe.common.digest import frame_state, released_columns
from dpframe.common.files import PAGES, check_target, local_file, replace_file
from dpframe.common.texts import is_unicode
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy, as_hierarchies
from dpframe.postprocess.shown_nodes import (
    check_complete_columns,
    finite_numbers,
    released_numbers,
)

if TYPE_CHECKING:
    import pandas as pd


def html_document(
    sections: str,
    *,
    title: str,
    lead: str,
    figures: Iterable[tuple[str, str, str]] = (),
    promise: Iterable[str],
    receipt: Receipt | None = None,
    card: Iterable[tuple[str, str, str]] = (),
    heading: str = "What the numbers mean and what is promised",
    before: str = "",
    script: tuple[str, str, Mapping[str, object]] | None = None,
) -> str:
    """Return one HTML document, whose own policy forbids every request.

    Parameters
    ----------
    sections, lead, before
        HTML between the figures and the promise, below the heading, and before the main part.
    title, heading, promise
        Heading, heading of the promise, and its sentences, as text.
    figures
        Name, value and remark of each figure at the top, as text.
    receipt, card
        The receipt whose card stands at the end, or the names, values and meanings of its lines.
    script
        The name of a script beside ``shared.js``, the id of the section of its table, and the data
        that both read.
    """
    if not isinstance(title, str) or not is_unicode(title):
        raise ParameterError(f"title ({title!r}) must be text that UTF-8 can write.")
    notes = (*promise, *user_notes(receipt))
    said = "".join(f"<li>{html.escape(one)}</li>" for one in notes)
    style, policy, after = asset_text("page.css"), "", ""
    if script is not None:
        name, table, facts = script
        code = asset_text("shared.js") + asset_text(name)
        before += f'<a class="skip" href="#{table}">Skip to the table</a>'
        policy = f"; script-src 'sha256-{text_hash(code)}'"
        after = (
            f'<script type="application/json" id="data">{_data_text(facts)}</script>\n'
            f'<script type="module">{code}</script>'
        )
    return fill_asset(
        "document.html",
        title=html.escape(title),
        lead=lead,
        figures=figures_list(figures),
        heading=html.escape(heading),
        sections=sections,
        promise=f"<ul class='promise'>{said}</ul>",
        card=_card(card if receipt is None else _card_lines(receipt)),
        style=style,
        style_hash=text_hash(style),
        policy=policy,
        before=before,
        after=after,
    )


def table_section(
    name: str, title: str, heads: Iterable[tuple[str, ...]], kind: str, *, levels: bool
) -> str:
    """Return the section of a table that the script fills, as HTML.

    Parameters
    ----------
    name, title
        The id of the section, and its heading.
    heads
        Key, class and title of each column, and what stands below the title.
    kind
        The class of the table.
    levels
        Whether rows can be filtered by their level.
    """
    columns = "".join(
        f'<th scope="col" role="columnheader" data-by="{key}" class="{classes}">'
        f'<button type="button"><bdi>{html.escape(text)}</bdi></button>{_small(*below)}</th>'
        for key, classes, text, *below in heads
    )
    flat = "" if levels else " hidden"
    return fill_asset("table.html", id=name, title=title, heads=columns, columns=kind, flat=flat)


def _small(text: str = "") -> str:
    return f"<small>{html.escape(text)}</small>" if text else ""


def write_page(
    path: str | Path, make: Callable[[], str], name: str = "path", instead: str = ""
) -> None:
    """Write a page to a file, completely or not at all; ``name`` is the argument of the path, and
    ``instead`` a sentence on what writes other files."""
    path = local_file(path, name)
    check_target(name, path, PAGES, instead)
    text = make()
    with replace_file(path, "the report" if name == "report" else "the page") as file:
        file.write(text.encode(errors="replace"))


def notices_of(receipt: Receipt) -> str:
    """Return the notices of a receipt as HTML: why numbers are poor, and what to change."""
    found = []
    notices = [line for line in receipt.card_lines if line.id == "notice"]
    for line in notices[: len(receipt.get("notices", ()))]:  # a measure can have this name
        head = html.escape(sentence(line.value_text, ""))
        said = html.escape(line.meaning_text)
        end = "" if said.endswith((".", "?")) else "."
        found.append(f"<p class='notice'><strong>{head}</strong> {sentence(said, end)}</p>")
    return "".join(found)


def user_notes(facts: Mapping[str, Any] | None) -> list[str]:
    """Return the note on rows without a user, for the facts of a release that names users."""
    user = None if facts is None else facts.get("user")
    return [] if user is None else [sentence(NO_USER.format(user=repr(user)))]


def guarantee_line(receipt: Mapping[str, Any], numbers: str) -> str:
    """Return the guarantee as HTML: one line, which unfolds to what it holds for."""
    return (
        "<details class='guarantee'>"
        f"<summary>{kind_of_privacy(receipt['epsilon'], receipt['delta'])}</summary>"
        f"<p>{numbers} with {html.escape(receipt['guarantee'])}. "
        "<a href='#promise-title'>What this promises</a></p></details>"
    )


def figures_list(figures: Iterable[tuple[str, str, str]]) -> str:
    """Return names, values and remarks of figures as HTML; an empty text for none."""
    escaped = (map(html.escape, figure) for figure in figures)
    shown = "".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{remark}</small></dd></div>"
        for name, value, remark in escaped
    )
    return f'<dl class="figures">{shown}</dl>' if shown else ""


def _card_lines(receipt: Receipt) -> Iterator[tuple[str, str, str]]:
    return ((line.name, line.value_text, line.meaning_text) for line in receipt.card_lines)


def _card(lines: Iterable[tuple[str, str, str]]) -> str:
    return "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        f"<td>{html.escape(value)}</td><td>{html.escape(meaning)}</td></tr>"
        for name, value, meaning in lines
    )


def released_part(frame: pd.DataFrame, receipt: Receipt, what: str) -> tuple[pd.DataFrame, str]:
    """Return the released columns of a frame, and a remark if rows of the release are missing.

    Raises ParameterError for a frame whose numbers were changed.
    """
    if "hierarchy" not in receipt or receipt["mechanism"].startswith("synthetic"):
        raise ParameterError(
            f"{what} shows nodes of a hierarchy, which this release has not. For synthetic rows "
            "see Generator.report."
        )
    found = frame_state(frame)
    if found is None:
        return frame, ""
    if found.changed:
        raise ParameterError(
            f"{found.sentence}. Make the {what} from the release or from some of its rows; show "
            "derived numbers with another tool, without the receipt."
        )
    check_complete_columns(found, what)
    missing = found.rows < found.of
    return released_columns(frame), dataclasses.replace(found, more=()).sentence if missing else ""


# -- numbers -------------------------------------------------------------------------------------


def check_columns(frame: pd.DataFrame, names: Iterable[str]) -> None:
    """Raise ParameterError if the frame lacks a column."""
    for name in names:
        if name not in frame.columns:
            raise ParameterError(f"the frame has no column {name!r}. Pass the result unchanged.")


def figures_of(frame: pd.DataFrame, measure: ReleasedMeasure) -> Figures:
    """Return how to write the numbers of a measure of a release."""
    return measure.figures(zip(*(finite_numbers(frame[n]) for n in measure.columns), strict=True))


def figure_text(number: float, digits: int) -> str:
    """Write a released number for people."""
    return f"{number:,.{digits}f}" if isinstance(number, float) else f"{number:,}"


def sure_text(receipt: Receipt, column: str, *, total: bool = False) -> str:
    """Return what stands beside an interval: its confidence, and what bounds cut of its number."""
    cut = cut_words(receipt, column, total=total)
    return ", ".join(filter(None, (confidence_percent(receipt), cut)))


def confidence_percent(receipt: Receipt) -> str:
    """Return the confidence of the intervals, such as 95 %."""
    return f"{100 * receipt['confidence']:.6g} %"


# -- words ---------------------------------------------------------------------------------------


def budget_figure(receipt: Receipt) -> tuple[str, str, str]:
    """Return the budget of the release as a figure for the top of a page."""
    return ("Epsilon", f"{receipt['epsilon']:g}", f"delta {receipt['delta']:g}")


def sentence(text: str, end: str = ".") -> str:
    """Return a text that begins with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}{end}"


def intervals_sentence(receipt: Receipt) -> str:
    """Return what the ends of the intervals hold, and how certainly."""
    return sentence(receipt["intervals"], f" ({confidence_percent(receipt)}).")


def extract_remark(extract: str) -> str:
    """Return the remark that rows of a release are missing, as HTML; an empty text for none."""
    return f'<p class="lead">{sentence(extract)}</p>' if extract else ""


def plain_words(receipt: Receipt, source: str) -> str:
    """Return the guarantee in plain words, for a reader of ``source``."""
    delta = f", plus a probability of {receipt['delta']:g}" if receipt["delta"] else ""
    return (
        f"In plain words: compare two tables that differ by {receipt['neighbours']}. Whatever "
        f"somebody may read off {source} is at most {likelihood_factor(receipt['epsilon'])} "
        "times as likely "
        f"with the one as with the other{delta}, and the other way round."
    )


def likelihood_factor(epsilon: float) -> str:
    """Write e^epsilon to four digits, rounded up: a smaller factor would promise more."""
    factor = math.exp(epsilon)
    unit = 10.0 ** (math.floor(math.log10(factor)) - 3)
    return f"{math.ceil(factor / unit) * unit:,.4g}"


def budget_words(receipt: Receipt) -> str:
    """Return a sentence about the budget, from the card."""
    card = {line.name: line for line in receipt.card_lines}
    return f"Budget (epsilon, delta): {card['budget'].meaning_text}."


# -- assets --------------------------------------------------------------------------------------


def fill_asset(name: str, **values: str) -> str:
    """Return an HTML file of ``pages/assets`` with values for its names."""
    return Template(asset_text(name)).substitute(values)


def asset_text(name: str) -> str:
    return (resources.files("dpframe.pages") / "assets" / name).read_text("utf-8")


def text_hash(text: str) -> str:
    """Return the SHA-256 hash of a text as a content security policy writes it."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _data_text(facts: Mapping[str, object]) -> str:
    """Return JSON that no label can end: ASCII only, without signs that HTML reads as markup."""
    text = json.dumps(facts, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


ORDERED = ("date", "number")
"""Kinds of dimensions whose nodes stand in their own order, and not by size."""

WHOLE = ("count", "count_lower", "count_upper")
"""Columns of whole counts, where they were released."""

NUMBER = ("residual", "lower", "upper")
"""Columns of the number that a page shows for every cell."""

LARGEST = 3
"""Number of cells that the first sentence names."""


@dataclass(frozen=True, kw_only=True)
class _CellNumber:
    """The number that a page shows for every cell: its columns in a frame, and how to read them."""

    title: str
    columns: tuple[str, str, str]
    figures: Figures
    limits: tuple[float, float] | None = None
    bounded: str = "count"
    """The name under which bounds of the number are told."""
    adds_up: bool = True
    overlap: bool = False
    """Whether it is of all of a cell, so that cells overlap, and level 0 is a total."""

    @property
    def rest(self) -> str:
        """What level 0 is."""
        return "everything" if self.overlap else "the rest"

    def write(self, value: float | None) -> str:
        return self.figures.number(value)

    def read(self, frame: pd.DataFrame) -> dict[str, Any]:
        """The numbers of the cells and the ends of their intervals, as columns of numbers."""
        if self.limits is None:
            return dict(zip(NUMBER, (frame[name] for name in self.columns), strict=True))
        found = released_numbers(frame, self.columns, self.limits)
        columns = zip(*found, strict=True) if found else ((), (), ())
        arrays = (np.array(column, dtype=np.float64) for column in columns)
        return dict(zip(NUMBER, arrays, strict=True))


def _shown_number(frame: pd.DataFrame, receipt: Receipt, measure: str | None) -> _CellNumber:
    """Return the residual, or the count of cells that overlap; for a rollup, the named measure, or
    the first that adds up."""
    several, overlap = receipt_measures(receipt), receipt.get("adds_up") is False
    if not several:
        check_plain(measure=measure)
        title, name = ("Users", "count") if overlap else ("Residual", "residual")
        own = (name, "lower", "upper")
        return _CellNumber(
            title=title,
            columns=own,
            figures=Figures(digits=receipt.digits),
            adds_up=not overlap,
            overlap=overlap,
        )
    names = [one.name for one in several]
    wanted = next((one.name for one in several if one.adds_up), names[0])
    if measure is not None:
        wanted = known_choice("measure", measure, names)
    one = several[names.index(wanted)]
    check_columns(frame, one.all_columns)
    return _CellNumber(
        title=one.name,
        columns=one.columns,
        figures=figures_of(frame, one),
        limits=one.limits,
        bounded=one.name,
        adds_up=one.adds_up and not overlap,
        overlap=overlap,
    )


def cells_page(
    frame: pd.DataFrame, receipt: Receipt, *, title: str | None = None, measure: str | None = None
) -> str:
    """Return the page as text; arguments and errors are as for pages of one hierarchy.

    Rows stand for disjoint records, so that their counts and sums may be added up: an entry of the
    matrix is the sum of all reported cells that lie in it. Of cells that overlap it is the number
    of one cell. Other measures have no matrix.
    """
    frame, extract = released_part(frame, receipt, "report")
    number = _shown_number(frame, receipt, measure)
    cells = as_hierarchies(receipt["hierarchy"])
    whole = WHOLE if "whole_counts" in receipt else ()
    known = receipt.get("keys") is not None
    levels = (f"{name}_level" for name in cells.names)
    check_columns(frame, ["level", "prefix", *number.columns, *whole, *cells.names, *levels])
    frame = frame.assign(**number.read(frame))
    is_drawn = number.adds_up or number.overlap
    is_matrix = len(cells.dimensions) == 2 and is_drawn and bool((frame["level"] > 0).any())
    heads: list[tuple[str, ...]] = [(str(i), "", name) for i, name in enumerate(cells.names)]
    bound = bound_words(receipt).get(number.bounded, "")
    heads += [("level", "kind optional", "Kind")]
    heads += [("residual", "number residual", number.title, bound)]
    heads += [("count", "number count", "Whole count")] if whole else []
    answer = f"<p class='answer'>{_cells_answer(frame, number)}</p>"
    return html_document(
        fill_asset(
            "cells.html",
            flat="" if is_matrix else " hidden",
            entry=ENTRY_OF_MARGINALS
            if known
            else ENTRY_OF_OVERLAP
            if number.overlap
            else ENTRY_OF_PARTS,
        )
        + table_section("cells", "All cells", heads, "cells", levels=False),
        title=title
        or f"{'Cells' if known else 'Heavy cells'} of {', '.join(cells.source_columns)}",
        lead=f"{answer}{notices_of(receipt)}{not_shown_remark(receipt)}{extract_remark(extract)}"
        f"{guarantee_line(receipt, 'All numbers here are noisy,')}",
        figures=_cell_figures(frame, receipt, number),
        promise=_cells_promise(receipt, number),
        receipt=receipt,
        script=("cells.js", "cells", _cell_facts(frame, receipt, cells, number)),
    )


ENTRY_OF_PARTS = (
    "An entry adds up all cells in it that are shown: no record is in two of them. Choose a "
    "name, or an entry, to see what is below it; the names above the matrix lead back. “all of it” "
    "is what is reported without going further down."
)
ENTRY_OF_MARGINALS = (
    "An entry is the number of its own cell, and entries below add up to it. Choose a name, or an "
    "entry, to see what is below it; the names above the matrix lead back."
)
ENTRY_OF_OVERLAP = (
    "An entry is the number of its own cell: cells overlap, and entries do not add up. Choose a "
    "name, or an entry, to see what is below it; the names above the matrix lead back. “all of it” "
    "is the whole that the others are in."
)


def not_shown_text(receipt: Receipt) -> str:
    """Return what a release does not show, in a sentence; an empty text where that is not known."""
    unseen = [line for line in receipt.not_shown_lines if line.id == "not shown"]
    said = "".join(f"; {line.values['unseen']}" for line in unseen if line.values).rstrip("; ")
    return "".join(f"Not shown: {line.value_text}{said}." for line in unseen)


def not_shown_remark(receipt: Receipt) -> str:
    """Return what a release does not show as HTML."""
    words = not_shown_text(receipt)
    return f'<p class="lead">{html.escape(words)}</p>' if words else ""


def not_shown_words(receipt: Receipt) -> list[str]:
    """Return sentences on what a release shows for sure, and on what would show more."""
    words = []
    for line in receipt.not_shown_lines:
        if line.id == "not shown" and line.values is not None:
            words.append(sentence(f"{line.values['sure']}"))
        else:
            words.append(f"More is shown with {line.value_text}: {line.meaning_text}.")
    return words


def check_plain(**given: object) -> None:
    """Raise ParameterError for a choice that cells do not have: they have one drawing and one
    number."""
    for name, value in given.items():
        if value is not None:
            raise ParameterError(
                f"{name} ({value!r}) does not fit cells of several hierarchies. Leave {name} out: "
                "they have one number and a matrix."
            )


def _cell_facts(
    frame: pd.DataFrame, receipt: Receipt, cells: Hierarchy, number: _CellNumber
) -> dict[str, object]:
    """Return the released numbers as a list per column, and the lines of nodes above every cell."""
    lines = []
    for one, name in zip(cells.dimensions, cells.names, strict=True):
        pairs = zip(frame[name].astype(str), frame[f"{name}_level"].astype(int), strict=True)
        lines.append([lineage_labels(one, label, level) for label, level in pairs])
    whole = WHOLE if "whole_counts" in receipt else ()
    levels = frame["level"].astype(int).tolist()
    return {
        "names": list(cells.names),
        "ordered": [one.kind in ORDERED for one in cells.dimensions],
        "lines": lines,
        "kind": [receipt["levels"][level - 1] if level else number.rest for level in levels],
        "level": levels,
        "digits": number.figures.digits,
        "overlap": number.overlap,
        **(numbers := {name: finite_numbers(frame[name]) for name in (*NUMBER, *whole)}),
        **(number.figures.texts(*(numbers[name] for name in NUMBER)) if number.limits else {}),
    }


def lineage_labels(one: Hierarchy, label: str, level: int) -> list[str]:
    """Return the labels of a node and of the nodes above it, coarse to fine."""
    if level == 0:
        return []
    shown: tuple[str, ...] = (label,)
    if one.label_columns:
        shown = tuple(label.split(" / "))
        if len(shown) != level:  # a value holds the separator itself
            return [label]
    above = one.lineage(level, shown)[:-1]
    return [*(_ancestor_label(one, depth, node) for depth, node in enumerate(above, 1)), label]


def _ancestor_label(one: Hierarchy, level: int, node: Any) -> str:
    """Return the label of a node above, from its key in a lineage."""
    if isinstance(node, str):
        return node
    if one.kind == "number":
        return one.label(level, (str(node),))
    if one.kind == "ip":
        version, length, bits = node
        four = version == 4
        kind = ipaddress.IPv4Address if four else ipaddress.IPv6Address
        return f"{kind(bits << ((32 if four else 128) - length))}/{length}"
    return " / ".join(map(str, node))


def _cells_answer(frame: pd.DataFrame, number: _CellNumber) -> str:
    found = frame[frame["level"] > 0].sort_values("residual", ascending=False, kind="stable")
    if not len(found):
        return "No cell reached the threshold."
    if number.overlap:  # coarser cells are larger, and say less
        found = found[found["level"] == found["level"].max()]
    found = found[found["residual"].notna()]
    wide = (found["upper"] - found["lower"] > found["residual"].abs()).tolist()
    if wide and (wide[0] or 2 * sum(wide) > len(wide)):
        return f"Noise is most of the numbers of {len(found):,} cells, so that none is named first."
    largest = found.head(LARGEST)
    pairs = zip(largest["prefix"].astype(str), largest["residual"].tolist(), strict=True)
    said = [f"<strong>{html.escape(p)}</strong> ({number.write(n)})" for p, n in pairs]
    plain = number.title in ("Residual", "Users")
    of = "" if plain else f" by <bdi>{html.escape(number.title)}</bdi>"
    finest = "finest " if number.overlap else ""
    return f"The largest of {len(found):,} {finest}cells{of}: {', '.join(said)}."


def _cell_figures(
    frame: pd.DataFrame, receipt: Receipt, number: _CellNumber
) -> list[tuple[str, str, str]]:
    is_count = not receipt_measures(receipt)
    cells, rest = frame[frame["level"] > 0], frame[frame["level"] == 0]
    rows = [("Cells", f"{len(cells):,}", f"of {receipt['height']} kinds")]
    if number.adds_up:
        total = number.write(sum(cells["residual"].tolist()))
        rows.append(("In cells", total, receipt.count_noun if is_count else number.title))
    if len(rest) == 1 and rest["residual"].notna().all():
        value, *ends = (finite_numbers(rest[name])[0] for name in NUMBER)
        title = number.title if number.overlap else "In none"
        sure = sure_text(receipt, number.bounded, total=True)
        rows.append((title, number.write(value), f"{number.figures.interval(*ends)}, {sure}"))
    if receipt["threshold"] is None:  # all cells are shown
        return [*rows, budget_figure(receipt)]
    threshold = figure_text(receipt["threshold"], receipt.digits)
    residual = "" if number.overlap else "residual "
    what = f"{residual}{receipt.count_noun}" if is_count else "from which a cell is shown"
    return [*rows, ("Threshold", threshold, what), budget_figure(receipt)]


def _cells_promise(receipt: Receipt, number: _CellNumber) -> list[str]:
    order = receipt["order"]
    few = ", ".join(order if len(order) <= 4 else (*order[:3], "...", order[-1]))
    rows = "Each number is of all of its cell. Cells overlap, so that rows do not add up."
    if receipt.get("keys") is not None:
        rows = "Cells of one kind are disjoint, and add up to those of coarser kinds."
    if not number.overlap:
        rows = (
            "Each record counts in the first of its cells that is reported, in this order of "
            f"kinds: {few}. So rows are of disjoint records and add up; a cell can have more than "
            "its row."
        )
    return [
        f"The numbers are of {receipt['counts']}. They carry noise on purpose, and can be "
        "negative.",
        rows,
        intervals_sentence(receipt),
        *not_shown_words(receipt),
        f"The numbers on this page were released with {receipt['guarantee']}.",
        plain_words(receipt, "this page"),
        budget_words(receipt),
    ]
