"""A result as a table for people: digits grouped, an interval in one column, nodes below others.

The texts are the same for notebooks and terminals. pandas' Styler writes them as HTML
(docs/decisions/0058). Labels are text: they are escaped, and cannot turn the text around them.
"""

from __future__ import annotations

import html
import math
import shutil
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpframe.asking.card import WARNING_LINES
from dpframe.asking.measure_texts import (
    NOISE_ALONE,
    Figures,
    ReleasedMeasure,
    bound_words,
    digits_for_width,
    receipt_measures,
)
from dpframe.asking.privacy_receipt import Receipt
from dpframe.common.digest import CHANGE, RECEIPT, frame_state
from dpframe.common.texts import fold_rows, visible
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy, as_hierarchies
from dpframe.hierarchy._base import ALL, REST
from dpframe.measures.measure import BINS_END
from dpframe.pages.page_parts import (
    confidence_percent,
    figures_of,
    intervals_sentence,
    not_shown_text,
    sentence,
)
from dpframe.postprocess.shown_nodes import (
    as_nodes,
    finite_numbers,
    label_joint,
    nearest_reported,
    released_numbers,
    type_of_values,
)

if TYPE_CHECKING:
    import pandas as pd

INDENT = "\u2003"
"""An em space: it stays where a style sheet is lost, and in what is copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableTable:
    """The first rows of a result as texts.

    ``heads`` and each of ``rows`` have ``labels`` labels first. ``below`` are remarks below heads,
    on numbers that bounds cut. ``depths`` says how far each row is indented. ``of`` is the number
    of rows of the result.
    """

    heads: tuple[str, ...]
    below: tuple[str, ...]
    labels: int
    rows: list[tuple[str, ...]]
    depths: list[int]
    of: int


def readable_table(
    frame: pd.DataFrame, receipt: Mapping[str, Any], most: int | None
) -> ReadableTable | None:
    """Return at most ``most`` rows of a released frame as texts, all if None.

    Nodes of a tree stand below the node above them where all rows are shown, in the order of the
    release. Else rows stay in their order, with whole labels, and the names of levels where labels
    do not tell them: a node without rows below it would seem to have none. None for releases that
    have no nodes, such as synthetic rows.
    """
    facts = Receipt(receipt)
    if "hierarchy" not in facts or str(facts["mechanism"]).startswith("synthetic"):
        return None
    hierarchy = as_hierarchies(facts["hierarchy"])
    shown = as_nodes(frame.head(len(frame) if most is None else most), hierarchy.label_columns)
    numbers = _number_columns(shown, facts)
    if not numbers or not {"level", "prefix"} <= {*shown.columns}:
        return None
    depths = dict.fromkeys(range(len(shown)), 0)
    if hierarchy.has_cells:
        names, labels = hierarchy.names, _cell_labels(shown, hierarchy, facts)
    else:
        names = (" / ".join(hierarchy.label_columns or hierarchy.source_columns),)
        labels = [(label,) for label in _whole_labels(shown)]
        if len(shown) == len(frame) and shown["level"].is_monotonic_increasing:
            with suppress(ParameterError):  # a label that is like none of this hierarchy
                labels, depths = _nested_labels(shown, hierarchy)
        elif not label_joint(hierarchy) and shown["level"].max() > 1:
            names = (*names, "level")
            known = ("", *hierarchy.level_names)
            pairs = zip(_whole_labels(shown), shown["level"].tolist(), strict=True)
            labels = [(label, known[level]) for label, level in pairs]
    columns = [column for texts in numbers.values() for column in texts]
    rows = [(*labels[row], *(column[row] for column in columns)) for row in depths]
    heads = _number_heads(numbers, facts)
    return ReadableTable(
        heads=(*names, *(head for head, _ in heads)),
        below=(*("" for _ in names), *(below for _, below in heads)),
        labels=len(names),
        rows=[tuple(map(visible, row)) for row in rows],
        depths=[*depths.values()],
        of=len(frame),
    )


def change_table(frame: pd.DataFrame, most: int | None) -> ReadableTable:
    """Return at most ``most`` rows of a frame of changes as texts, all if None.

    Where a release does not report a node, the bounds of its number stand in parentheses.
    """
    facts, shown = frame.attrs[CHANGE], frame.head(len(frame) if most is None else most)
    columns = [*shown.columns]
    parts = columns[columns.index("prefix") + 1 : columns.index("before")]
    sides = change_figures(shown)
    moved = replace(sides, value="duration") if sides.value == "time" else sides
    columns = [
        *(_reported_texts(shown, side, sides) for side in ("before", "after")),
        *_texts_of_number(shown, ("change", "change_lower", "change_upper"), moved),
        *_texts_of_number(shown, ("ratio", "ratio_lower", "ratio_upper"), Figures(digits=RATIO)),
        ["yes" if clear else "" for clear in shown["more_than_noise"].tolist()],
    ]
    names = [" / ".join(parts) or "prefix"]
    labels = [_whole_labels(shown)]
    if not parts and shown["level"].max() > 1:
        names.append("level")
        labels.append([str(level) for level in shown["level"].tolist()])
    interval = f"{100 * facts['confidence']:.6g} % interval"
    together = "all together" if facts["simultaneous"] else "each on its own"
    times = [_time_of(facts[side]) for side in ("before", "after")]
    return ReadableTable(
        heads=(*names, "before", "after", "change", interval, "ratio", interval, "more than noise"),
        below=(*("" for _ in names), *times, str(facts["measure"]), together, "", together, ""),
        labels=len(names),
        rows=[tuple(map(visible, row)) for row in zip(*labels, *columns, strict=True)],
        depths=[0] * len(shown),
        of=len(frame),
    )


RATIO = 3
"""Decimals of a ratio."""


def _time_of(facts: Mapping[str, Any]) -> str:
    """Return the period of a release, or its name."""
    period = facts.get("period")
    return str(facts.get("release") or "") if period is None else str(period["text"])


def change_figures(found: pd.DataFrame) -> Figures:
    """How the numbers of both releases in a frame of changes are written: two digits of the
    narrowest interval of a change. Changes of times are durations, as finely."""
    kinds = {"DATE": "time", "TIMESTAMP": "time", "INTERVAL": "duration"}
    value: Any = kinds.get(type_of_values(found["before"]).partition(" ")[0], "number")
    columns = ("change", "change_lower", "change_upper")
    known = list(zip(*(finite_numbers(found[name]) for name in columns), strict=True))
    if value == "number":
        halves = [(b - a) / 2 for _, a, b in known if a is not None and b is not None and b > a]
        whole = str(found["change"].dtype) == "Int64"
        return Figures(digits=0 if whole else digits_for_width(min(halves)) if halves else 2)
    like = ReleasedMeasure(
        name="change", kind="quantile", of=None, spec="", signed=True, value=value
    )
    return like.figures(known)


def _reported_texts(shown: pd.DataFrame, side: str, figures: Figures) -> list[str]:
    numbers, bounds = _texts_of_number(shown, (side, f"{side}_lower", f"{side}_upper"), figures)
    pairs = zip(numbers, bounds, strict=True)
    return [number or (f"({ends})" if ends else "") for number, ends in pairs]


# -- labels --------------------------------------------------------------------------------------


def _whole_labels(shown: pd.DataFrame) -> list[str]:
    pairs = zip(shown["prefix"].astype(str), shown["level"].tolist(), strict=True)
    return [label if level else ALL for label, level in pairs]


def _nested_labels(
    shown: pd.DataFrame, hierarchy: Hierarchy
) -> tuple[list[tuple[str, ...]], dict[int, int]]:
    """Return the label of each row of a tree without what the node above it says, and the depths of
    the rows by their places, in the order in which nodes stand below the node above them."""
    labels, joint, root = _whole_labels(shown), label_joint(hierarchy), shown["level"].eq(0)
    below = defaultdict[int, list[int]](list)
    shorter: list[tuple[str, ...]] = []
    for row, above in enumerate(nearest_reported(shown, hierarchy).tolist()):
        below[above].append(row)
        inner = joint and above >= 0 and not root.iloc[above]
        shorter.append((labels[row].removeprefix(f"{labels[above]}{joint}" if inner else ""),))
    depths: dict[int, int] = {}
    waiting = [(row, 0) for row in below[-1][::-1]]
    while waiting:
        row, depths[row] = waiting.pop()
        inside = depths[row] + (not root.iloc[row])
        waiting += [(one, inside) for one in below[row][::-1]]
    return shorter, depths


def _cell_labels(
    shown: pd.DataFrame, cells: Hierarchy, receipt: Mapping[str, Any]
) -> list[tuple[str, ...]]:
    """Return the labels of each cell, one a dimension."""
    columns = [
        [label if level else ALL for label, level in zip(shown[name], depth, strict=True)]
        for name, depth in ((name, shown[f"{name}_level"].tolist()) for name in cells.names)
    ]
    rows = [tuple(map(str, row)) for row in zip(*columns, strict=True)]
    if receipt.get("adds_up") is False or "count_lower" in shown.columns:
        return rows
    nothing = ("",) * (len(cells.names) - 1)
    return [
        (REST, *nothing) if not level else row
        for level, row in zip(shown["level"].tolist(), rows, strict=True)
    ]


# -- numbers -------------------------------------------------------------------------------------


def _number_columns(shown: pd.DataFrame, receipt: Receipt) -> dict[str, list[list[str]]]:
    """Return the texts of each number: its values, and its intervals if it has any."""
    measures = receipt_measures(receipt)
    columns = {*shown.columns}
    if any(not {*measure.all_columns} <= columns for measure in measures):
        return {}
    if measures:
        return {one.name: _texts_of_measure(shown, one) for one in measures}
    figures = Figures(digits=receipt.digits)
    found: dict[str, tuple[tuple[str, str, str], Figures]] = {}
    ends = ("lower", "upper")
    own = ("residual", *ends) if "count" not in columns or "count_lower" in columns else None
    if own is not None:
        found["residual"] = (own, figures)
        ends = ("count_lower", "count_upper")
    if "count" in columns:
        found["count"] = (("count", *ends), figures)
    if any(not {*names} <= columns for names, _ in found.values()):
        return {}
    texts = {name: _texts_of_number(shown, *number) for name, number in found.items()}
    if "residual" in columns and "residual" not in found:
        residual = _number_texts(shown["residual"], figures)
        if residual != texts["count"][0]:
            texts["residual"] = [residual]
    return texts


def readable_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Round measures and their ends to the first two figures of the smallest half width, as text:
    further digits are noise."""
    from pandas import isna
    from pandas.api.types import is_float_dtype

    out = frame.copy()
    for name in frame.columns:
        ends = [f"{name}_lower", f"{name}_upper"]
        if not is_float_dtype(frame[name]) or not {*ends} <= set(frame.columns):
            continue
        narrowest = ((frame[ends[1]] - frame[ends[0]]) / 2).loc[lambda half: half > 0].min()
        if not 0 < narrowest < math.inf:  # NaN where there is none
            continue
        digits = digits_for_width(float(narrowest))
        for column in (name, *ends):
            out[column] = ["" if isna(x) else f"{x:.{digits}f}" for x in frame[column].tolist()]
    return out


def printed_columns(frame: pd.DataFrame, receipt: Receipt) -> pd.DataFrame:
    """Return rows without lists of numbers in bins, and with numbers, times and durations as text
    that is as fine as their intervals."""
    measures = receipt.get("measures") or {}
    lists = [f"{name}{BINS_END}" for name, facts in measures.items() if "edges" in facts]
    out = frame.drop(columns=lists, errors="ignore")
    for one in receipt_measures(receipt):
        if one.value != "number" and {*one.columns} <= {*out.columns}:
            figures = figures_of(out, one)
            for column in one.columns:
                numbers = finite_numbers(frame[column])
                out[column] = ["" if n is None else figures.number(n) for n in numbers]
    return readable_numbers(out)


def _texts_of_measure(shown: pd.DataFrame, measure: ReleasedMeasure) -> list[list[str]]:
    figures = figures_of(shown, measure)
    if not figures.is_binned:
        return _texts_of_number(shown, measure.columns, figures)
    numbers = released_numbers(shown, measure.columns, measure.limits)
    columns = zip(*numbers, strict=True) if numbers else ((), (), ())
    return [*figures.texts(*columns).values()]


def _texts_of_number(
    shown: pd.DataFrame, columns: tuple[str, str, str], figures: Figures
) -> list[list[str]]:
    value, lower, upper = (_number_texts(shown[name], figures) for name in columns)
    return [value, [_interval_text(*ends) for ends in zip(lower, upper, strict=True)]]


def _number_texts(column: pd.Series[Any], figures: Figures) -> list[str]:
    """Return numbers with their digits grouped; nothing for missing and infinite ones."""
    numbers = finite_numbers(column)
    if figures.value != "number":
        return ["" if number is None else figures.number(number) for number in numbers]
    return ["" if number is None else f"{number:,.{figures.digits}f}" for number in numbers]


def _interval_text(lower: str, upper: str) -> str:
    if lower and upper:
        return f"{lower} to {upper}"
    return f"{lower} or more" if lower else f"up to {upper}" if upper else ""


def _number_heads(
    numbers: Mapping[str, Sequence[object]], receipt: Receipt
) -> list[tuple[str, str]]:
    """Return the heads of the columns of numbers, and what stands below each."""
    bounds, interval = bound_words(receipt), f"{confidence_percent(receipt)} interval"
    heads: list[tuple[str, str]] = []
    for name, texts in numbers.items():
        words = bounds.get(name, "")
        pair = (name, words), (interval, NOISE_ALONE if words else "")
        heads += pair[: len(texts)]
    return heads


# -- notebooks -----------------------------------------------------------------------------------


def released_html(frame: pd.DataFrame) -> str | None:
    """Return a result as HTML for notebooks: the table, what its numbers mean, the card folded.

    None for any other frame, and for one that is not as it was released: rows or columns were left
    out, added or changed. pandas shows those.
    """
    import pandas as pd

    facts, changes = frame.attrs.get(RECEIPT), frame.attrs.get(CHANGE)
    known = isinstance(facts, dict) or isinstance(changes, dict)
    if not known or not pd.get_option("display.notebook_repr_html"):
        return None
    state = frame_state(frame)
    if state is None or state.sentence:
        return None
    most = pd.get_option("display.max_rows") or None  # as pandas reads 0
    if isinstance(changes, dict):
        return _shown_html(change_table(frame, most), [sentence(changes["means"])])
    receipt = Receipt(facts or {})
    table = readable_table(frame, receipt, most)
    if table is None:
        return None
    lines = receipt.card_lines
    loud = [
        f"{line.name}: {line.value_text}, {line.meaning_text}"
        for line in lines
        if line.name in WARNING_LINES
    ]
    remarks = [intervals_sentence(receipt), not_shown_text(receipt)]
    card = [[*map(visible, (q.name, q.value_text, q.meaning_text))] for q in lines]
    promise = f"Privacy card: {receipt['guarantee']}"
    return _shown_html(table, remarks, loud, fold_rows(promise, card))


def _shown_html(
    table: ReadableTable, remarks: Sequence[str], loud: Sequence[str] = (), card: str = ""
) -> str:
    """Return a table between warnings and remarks, with a card below them."""
    cut = ""
    if len(table.rows) < table.of:
        cut = (
            f"The first {len(table.rows):,} of {table.of:,} rows. "
            'pd.set_option("display.max_rows", None) shows all.'
        )
    return (
        f"<div style='{PLAIN}'>{_paragraphs(loud)}"
        f"<div style='overflow-x:auto'>{_table_html(table)}</div>"
        f"{_paragraphs([cut, *remarks])}{card}</div>"
    )


PLAIN = "color:inherit;background:transparent"
"""Colours are the page's own, light or dark."""


def _paragraphs(texts: Sequence[str]) -> str:
    style = "margin:.3em 0;max-width:60em"
    return "".join(f"<p style='{style}'>{html.escape(visible(t))}</p>" for t in texts if t)


STYLES = (
    ("", "border-collapse:collapse; border:none; margin:.3em 0; font-variant-numeric:tabular-nums"),
    ("th, td", "padding:.25em 1.4em .25em 0; border:none; text-align:right; white-space:nowrap"),
    ("th", "font-weight:600; border-bottom:1px solid currentColor; vertical-align:bottom"),
    ("td", "vertical-align:top"),
)
"""Rules of a table, for the elements that a selector names."""

LABELS = (
    "text-align:left; white-space:normal; overflow-wrap:anywhere; max-width:28em; min-width:{}ch"
)
"""The rule of a column of labels, of which so many characters stand in one line at least."""

LINE = 20
"""Characters that stand in one line at least, of labels and of remarks below heads."""


def _table_html(table: ReadableTable) -> str:
    """Return a table as HTML; Styler escapes its texts."""
    import pandas as pd

    rows = [
        (INDENT * depth + first, *rest)
        for depth, (first, *rest) in zip(table.depths, table.rows, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=range(len(table.heads)), dtype=object)
    labels = [(f".col{n}", LABELS.format(_line_of(frame[n]))) for n in range(table.labels)]
    rules = [{"selector": names, "props": rule} for names, rule in (*STYLES, *labels)]
    styler = frame.style.format(
        dict.fromkeys(range(table.labels), _isolated_label), escape="html", na_rep=""
    )
    heads = [_head_html(*pair) for pair in zip(table.heads, table.below, strict=True)]
    styler = styler.relabel_index(heads, axis="columns")
    styler = styler.hide(axis="index").set_table_styles(rules)  # type: ignore[arg-type]
    return str(styler.to_html(cell_ids=False))


def _line_of(texts: Iterable[str]) -> int:
    return min(LINE, max(map(len, texts), default=0))


def _head_html(head: str, below: str) -> str:
    small = (
        f"display:block;margin-left:auto;min-width:{_line_of([below])}ch;max-width:14em;"
        "font-weight:normal;font-size:90%;white-space:normal"
    )
    remark = f"<small style='{small}'>{html.escape(visible(below))}</small>" if below else ""
    return f"<bdi>{html.escape(visible(head))}</bdi>{remark}"


def _isolated_label(escaped: object) -> str:
    """Let a label that is written from right to left not turn what is around it."""
    text = str(escaped)
    label = text.lstrip(INDENT)
    depth = len(text) - len(label)
    inner = depth + 1  # where further lines begin, below the first one and further in
    hang = f"padding-left:{inner}em;text-indent:-{inner}em"
    return f"<div style='{hang}'>{INDENT * depth}<bdi>{label}</bdi></div>"


# -- terminals -----------------------------------------------------------------------------------

NARROW = 24
"""Fewest columns of a terminal that a label may take."""


def result_text(frame: pd.DataFrame, receipt: Mapping[str, Any], most: int) -> str | None:
    """Return at most ``most`` rows of a result as this terminal can show them; None for releases
    that have no nodes."""
    table = readable_table(frame, receipt, most)
    return None if table is None else _terminal_text(table)


def change_text(found: pd.DataFrame, most: int) -> str:
    """Return at most ``most`` rows of changes as this terminal can show them."""
    return _terminal_text(change_table(found, most))


def _terminal_text(table: ReadableTable) -> str:
    rest = table.of - len(table.rows)
    more = [f"... and {rest} more rows"] if rest else []
    return "\n".join([*table_lines(table, shutil.get_terminal_size().columns), *more])


def table_lines(table: ReadableTable, width: int) -> list[str]:
    """Return a table as lines of text for a terminal with ``width`` columns: a head, and a line a
    row. What does not fit of a label is replaced by an ellipsis."""
    rows = [
        ("  " * depth + first, *rest)
        for depth, (first, *rest) in zip(table.depths, table.rows, strict=True)
    ]
    columns = [*zip(tuple(map(visible, table.heads)), *rows, strict=True)]
    wide = [max(map(_cells_of, column)) for column in columns]
    free = width - sum(wide[table.labels :]) - 2 * (len(wide) - 1)
    most = max(NARROW, free // table.labels)
    padded = [
        [_fit_width(cell, min(most, n), left=True) for cell in column]
        if place < table.labels
        else [_fit_width(cell, n, left=False) for cell in column]
        for place, (column, n) in enumerate(zip(columns, wide, strict=True))
    ]
    return ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]


def _cells_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _fit_width(text: str, width: int, *, left: bool) -> str:
    """Return a text of a width; a longer one is cut, and ends in an ellipsis."""
    if _cells_of(text) > width:
        while _cells_of(text) > width - 1:
            text = text[:-1]
        text += "…"
    gap = " " * (width - _cells_of(text))
    return text + gap if left else gap + text
