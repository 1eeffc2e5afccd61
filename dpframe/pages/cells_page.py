"""The page of cells of several hierarchies: a matrix of two hierarchies, and a table of all."""

from __future__ import annotations

import html
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpframe.asking.call_arguments import known_choice
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.released_measures import receipt_measures
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy, as_hierarchies
from dpframe.pages.page_parts import (
    budget_figure,
    budget_words,
    check_columns,
    decimals,
    extract_remark,
    figure_text,
    fill_asset,
    finite_numbers,
    html_document,
    intervals_sentence,
    plain_words,
    released_part,
    table_section,
)

if TYPE_CHECKING:
    import pandas as pd

ORDERED = ("date", "number")
"""Kinds of dimensions whose nodes stand in their own order, and not by size."""

WHOLE = ("count", "count_lower", "count_upper")
"""Columns of whole counts, where they were released."""

LARGEST = 3
"""Number of cells that the first sentence names."""


@dataclass(frozen=True, kw_only=True)
class _CellNumber:
    """The number that a page shows for every cell: its columns in a frame, and how to read them."""

    title: str
    columns: tuple[str, str, str]
    digits: int
    adds_up: bool = True

    def write(self, value: float) -> str:
        return figure_text(value, self.digits)


def _shown_number(frame: pd.DataFrame, receipt: Receipt, measure: str | None) -> _CellNumber:
    """Return the residual; for a rollup, the named measure, or the first that adds up."""
    several = receipt_measures(receipt)
    if not several:
        check_plain(measure=measure)
        own = ("residual", "lower", "upper")
        return _CellNumber(title="Residual", columns=own, digits=receipt.digits)
    names = [one.name for one in several]
    wanted = next((one.name for one in several if one.adds_up), names[0])
    if measure is not None:
        wanted = known_choice("measure", measure, names)
    one = several[names.index(wanted)]
    check_columns(frame, one.columns)
    return _CellNumber(
        title=one.name, columns=one.columns, digits=decimals(frame, one), adds_up=one.adds_up
    )


def cells_page(
    frame: pd.DataFrame, receipt: Receipt, *, title: str | None = None, measure: str | None = None
) -> str:
    """Return the page as text; arguments and errors are as for pages of one hierarchy.

    Rows stand for disjoint records, so that their counts and sums may be added up: an entry of the
    matrix is the sum of all reported cells that lie in it. Other measures have no matrix.
    """
    frame, extract = released_part(frame, receipt, "report")
    number = _shown_number(frame, receipt, measure)
    cells = as_hierarchies(receipt["hierarchy"])
    whole = WHOLE if "whole_counts" in receipt else ()
    levels = (f"{name}_level" for name in cells.names)
    check_columns(frame, ["level", "prefix", *number.columns, *whole, *cells.names, *levels])
    renamed = zip(("residual", "lower", "upper"), number.columns, strict=True)
    frame = frame.assign(**{name: frame[column] for name, column in renamed})
    is_matrix = len(cells.dimensions) == 2 and number.adds_up and bool((frame["level"] > 0).any())
    heads = [(str(i), "", name) for i, name in enumerate(cells.names)]
    heads += [("level", "kind optional", "Kind"), ("residual", "number residual", number.title)]
    heads += [("count", "number count", "Whole count")] if whole else []
    notices = (f"<p class='notice'>{html.escape(n)}</p>" for n in receipt.get("notices", ()))
    answer = f'<p class="lead">{_cells_answer(frame, number)}</p>'
    return html_document(
        fill_asset("cells.html", flat="" if is_matrix else " hidden")
        + table_section("cells", "All cells", heads, "cells", levels=False),
        title=title or f"Heavy cells of {', '.join(cells.source_columns)}",
        lead=f"{answer}{''.join(notices)}{extract_remark(extract)}",
        figures=_cell_figures(frame, receipt, number),
        promise=_cells_promise(receipt),
        receipt=receipt,
        script=("cells.js", "cells", _cell_facts(frame, receipt, cells, number.digits)),
    )


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
    frame: pd.DataFrame, receipt: Receipt, cells: Hierarchy, digits: int
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
        "kind": [receipt["levels"][level - 1] if level else "the rest" for level in levels],
        "level": levels,
        "digits": digits,
        **{name: finite_numbers(frame[name]) for name in ("residual", "lower", "upper", *whole)},
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
    largest = found[found["residual"].notna()].head(LARGEST)
    pairs = zip(largest["prefix"].astype(str), largest["residual"].tolist(), strict=True)
    said = [f"<strong>{html.escape(p)}</strong> ({number.write(n)})" for p, n in pairs]
    of = "" if number.title == "Residual" else f" by <bdi>{html.escape(number.title)}</bdi>"
    return f"The largest of {len(found):,} cells{of}: {', '.join(said)}."


def _cell_figures(
    frame: pd.DataFrame, receipt: Receipt, number: _CellNumber
) -> list[tuple[str, str, str]]:
    is_count = number.title == "Residual"
    cells, rest = frame[frame["level"] > 0], frame[frame["level"] == 0]
    rows = [("Cells", f"{len(cells):,}", f"of {receipt['height']} kinds")]
    if number.adds_up:
        total = number.write(sum(cells["residual"].tolist()))
        rows.append(("In cells", total, receipt.count_noun if is_count else number.title))
    if len(rest) == 1 and rest["residual"].notna().all():
        value, *ends = (rest[name].tolist()[0] for name in ("residual", "lower", "upper"))
        rows.append(("In none", number.write(value), " to ".join(map(number.write, ends))))
    threshold = figure_text(receipt["threshold"], receipt.digits)
    what = f"residual {receipt.count_noun}" if is_count else "from which a cell is shown"
    return [*rows, ("Threshold", threshold, what), budget_figure(receipt)]


def _cells_promise(receipt: Receipt) -> list[str]:
    order = receipt["order"]
    few = ", ".join(order if len(order) <= 4 else (*order[:3], "...", order[-1]))
    return [
        f"The numbers are of {receipt['counts']}. They carry noise on purpose, and can be "
        "negative.",
        "Each record counts in the first of its cells that is reported, in this order of kinds: "
        f"{few}. So rows are of disjoint records and add up; a cell can have more than its row.",
        intervals_sentence(receipt),
        f"The numbers on this page were released with {receipt['guarantee']}.",
        plain_words(receipt, "this page"),
        budget_words(receipt),
    ]
