"""What all pages share: the document with its card, the table of numbers, and common words."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import json
import math
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from dpframe._paths import PAGES, check_target, local_file, replace_file
from dpframe._unicode import is_unicode
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.released_measures import ReleasedMeasure, digits_for_width
from dpframe.digest import frame_state, released_columns
from dpframe.errors import ParameterError
from dpframe.postprocess.shown_nodes import check_complete_columns

if TYPE_CHECKING:
    import pandas as pd


def html_document(
    sections: str,
    *,
    title: str,
    lead: str,
    figures: Iterable[tuple[str, str, str]] = (),
    promise: Iterable[str],
    receipt: Receipt,
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
    receipt
        The receipt whose card stands at the end.
    script
        The name of a script beside ``shared.js``, the id of the section of its table, and the data
        that both read.
    """
    if not isinstance(title, str) or not is_unicode(title):
        raise ParameterError(f"title ({title!r}) must be text that UTF-8 can write.")
    said = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in promise)
    style, policy, after = _asset("page.css"), "", ""
    if script is not None:
        name, table, facts = script
        code = _asset("shared.js") + _asset(name)
        before += f'<a class="skip" href="#{table}">Skip to the table</a>'
        policy = f"; script-src 'sha256-{_hash_of(code)}'"
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
        card=_card(receipt),
        style=style,
        style_hash=_hash_of(style),
        policy=policy,
        before=before,
        after=after,
    )


def table_section(
    name: str, title: str, heads: Iterable[tuple[str, str, str]], kind: str, *, levels: bool
) -> str:
    """Return the section of a table that the script fills, as HTML.

    Parameters
    ----------
    name, title
        The id of the section, and its heading.
    heads
        Key, class and title of each column.
    kind
        The class of the table.
    levels
        Whether rows can be filtered by their level.
    """
    columns = "".join(
        f'<th scope="col" role="columnheader" data-by="{key}" class="{classes}">'
        f'<button type="button"><bdi>{html.escape(text)}</bdi></button></th>'
        for key, classes, text in heads
    )
    flat = "" if levels else " hidden"
    return fill_asset("table.html", id=name, title=title, heads=columns, columns=kind, flat=flat)


def write_page(path: str | Path, make: Callable[[], str], name: str = "path") -> None:
    """Write a page to a file, completely or not at all; ``name`` is the argument of the path."""
    path = local_file(path, name)
    check_target(name, path, PAGES)
    text = make()
    with replace_file(path, "the report" if name == "report" else "the page") as file:
        file.write(text.encode(errors="replace"))


def figures_list(figures: Iterable[tuple[str, str, str]]) -> str:
    """Return names, values and remarks of figures as HTML; an empty text for none."""
    escaped = (map(html.escape, figure) for figure in figures)
    shown = "".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{remark}</small></dd></div>"
        for name, value, remark in escaped
    )
    return f'<dl class="figures">{shown}</dl>' if shown else ""


def _card(receipt: Receipt) -> str:
    return "".join(
        f"<tr><th scope='row'>{html.escape(line.name)}</th>"
        f"<td>{html.escape(line.value_text)}</td><td>{html.escape(line.meaning_text)}</td></tr>"
        for line in receipt.card_lines
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


def finite_numbers(column: pd.Series[Any]) -> list[float | None]:
    """Return the numbers of a column, with None for missing and infinite numbers."""
    pairs = zip(column.tolist(), column.isna(), strict=True)
    return [None if missing or not math.isfinite(n) else n for n, missing in pairs]


def decimals(frame: pd.DataFrame, measure: ReleasedMeasure) -> int:
    """Return how many decimals to show: two digits of the narrowest interval."""
    if measure.has_whole_values or not len(frame):
        return 0
    _, lower, upper = measure.columns
    half = (frame[upper].astype(float) - frame[lower].astype(float)) / 2
    wide = half[half > 0]
    return digits_for_width(float(wide.min())) if len(wide) else 2


def figure_text(number: float, digits: int) -> str:
    """Write a released number for people."""
    return f"{number:,.{digits}f}" if isinstance(number, float) else f"{number:,}"


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
    return f"The budget is {card['budget'].value_text}; {card['budget'].meaning_text}."


# -- assets --------------------------------------------------------------------------------------


def fill_asset(name: str, **values: str) -> str:
    """Return an HTML file of ``pages/assets`` with values for its names."""
    return Template(_asset(name)).substitute(values)


def _asset(name: str) -> str:
    return (resources.files("dpframe.pages") / "assets" / name).read_text("utf-8")


def _hash_of(text: str) -> str:
    """Return the SHA-256 hash of a text as a content security policy writes it."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _data_text(facts: Mapping[str, object]) -> str:
    """Return JSON that no label can end: ASCII only, without signs that HTML reads as markup."""
    text = json.dumps(facts, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
