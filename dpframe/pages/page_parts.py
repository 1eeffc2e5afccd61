"""Parts that all pages share: the document around their sections, the promise and the card."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import math
from collections.abc import Iterable
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from dpframe._unicode import is_unicode
from dpframe.asking.privacy_receipt import Receipt
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
    style: str,
    heading: str = "What is promised",
    policy: str = "",
    before: str = "",
    after: str = "",
) -> str:
    """Return one HTML document, whose own policy forbids every request.

    Parameters
    ----------
    sections
        HTML between the figures and the promise.
    title
        Heading, as text.
    lead
        HTML below the heading.
    figures
        Name, value and remark of each figure at the top, as text.
    promise
        Sentences about what is promised, as text.
    receipt
        The receipt whose card stands at the end.
    style
        All CSS.
    heading
        Heading of the sentences about what is promised.
    policy
        Additions to the policy, for pages with scripts.
    before, after
        HTML before and after the main part.
    """
    if not isinstance(title, str) or not is_unicode(title):
        raise ParameterError(f"title ({title!r}) must be text that UTF-8 can write.")
    said = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in promise)
    return Template(asset("document.html")).substitute(
        title=html.escape(title),
        lead=lead,
        figures=figures_list(figures),
        heading=html.escape(heading),
        sections=sections,
        promise=f"<ul class='promise'>{said}</ul>",
        card=_card(receipt),
        style=style,
        style_hash=hash_of(style),
        policy=policy,
        before=before,
        after=after,
    )


def figures_list(figures: Iterable[tuple[str, str, str]]) -> str:
    """Return names, values and remarks of figures as HTML; an empty text for none."""
    shown = "".join(_figure_html(*figure) for figure in figures)
    return f'<dl class="figures">{shown}</dl>' if shown else ""


def _figure_html(name: str, value: str, remark: str) -> str:
    return (
        f"<div><dt>{html.escape(name)}</dt>"
        f"<dd>{html.escape(value)}<small>{html.escape(remark)}</small></dd></div>"
    )


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


# -- numbers ---


def figure_text(number: float, digits: int) -> str:
    """Write a released number for people."""
    return f"{number:,.{digits}f}" if isinstance(number, float) else f"{number:,}"


# -- words ---------------------------------------------------------------------------------------


def budget_figure(receipt: Receipt) -> tuple[str, str, str]:
    """Return the budget of the release as a figure for the top of a page."""
    return ("Epsilon", f"{receipt['epsilon']:g}", f"delta {receipt['delta']:g}")


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


def asset(name: str) -> str:
    """Return the text of a file in ``pages/assets``."""
    return (resources.files("dpframe.pages") / "assets" / name).read_text("utf-8")


def hash_of(text: str) -> str:
    """Return the SHA-256 hash of a text as a content security policy writes it."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
