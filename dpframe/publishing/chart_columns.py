"""Columns of published tables: those that charts need, and what released ones mean.

Charts need a label for each row, the row above, rests, shares, and dates of periods. These follow
from released rows and their receipt, so they are free.

**Labels** are the value of a node at its own level. Everything, rests, missing values and empty
texts have words in parentheses. A value that reads like one of these words gets quotation marks.

**Shares** are those of ``result.dp.share("total")``, of the first measure that is a count, or a sum
of values that are not negative. Rows of one level share nothing, so their true shares add up to at
most 1; a row and the row above it share what is in both.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dpframe.asking.measure_texts import ReleasedMeasure, receipt_measures
from dpframe.errors import ParameterError
from dpframe.hierarchy import INVALID, OTHER, Hierarchy, as_hierarchies
from dpframe.hierarchy._base import ALL, MISSING, REST
from dpframe.hierarchy._cells import BETWEEN
from dpframe.ledger import StoredResult
from dpframe.measures.measure import AT_BOUND_END, BINS_END
from dpframe.periods import read_unit_period
from dpframe.postprocess.shown_nodes import (
    ShownNodes,
    label_joint,
    lineages,
    nearest_ancestors,
    shown_nodes,
)
from dpframe.postprocess.shown_rows import NodeShares, is_nested, node_shares

if TYPE_CHECKING:
    pass

EMPTY = "(empty)"
"""The label of an empty text."""

WORDS = (ALL, REST, MISSING, EMPTY)

SHARES = ("share", "share_lower", "share_upper")

CHART_COLUMNS = ("label", "parent", "is_rest", *SHARES)
"""Names that are ours in the table of every release, whether or not it has all of these columns."""

QUERY_TEXTS, QUERY_LISTS = "\"||\"('=', ", "to_json(list_value("
"""In the source of a release of ``dp.sql``: its texts begin with ``=``, so that none reads like a
missing value, and several columns that are one level are a list in JSON."""

MEANINGS = {
    "label": f"What to write on a chart: the value at the own level of the row; {ALL} for "
    f"everything, {REST} for what no other row shows, {MISSING} for missing or malformed values, "
    f"{EMPTY} for an empty text. Not unique: values below different rows can be equal",
    "parent": "Prefix of the nearest row above in the same release; NULL if there is none, and for "
    "cells, which lie below several rows",
    "is_rest": "Whether the row is what no other row shows: <other>, or the remainder of cells",
}


BEGIN = (
    "When the period begins, as the clock of its zone shows it; NULL where neither the question "
    "nor the name of the release tells a period"
)
"""The meaning of a column with the first day, or the first moment, of a period."""


def free_columns(columns: Sequence[str], ours: Collection[str]) -> list[str]:
    """Name a release's columns in a table: a name that is ours already gets ``_`` at its end."""
    taken = {column.casefold() for column in columns}
    out = []
    for column in columns:
        name = column
        while name.casefold() in ours or (name != column and name.casefold() in taken):
            name += "_"
        out.append(name)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalShare:
    """Of which measure shares are, and at which confidence the intervals hold."""

    measure: str
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChartColumns:
    """Columns to put behind those of a release; none for a release without nodes."""

    columns: Mapping[str, pa.Array]
    share: TotalShare | None = None


def chart_columns(stored: StoredResult, rows: pa.Table, facts: Mapping[str, Any]) -> ChartColumns:
    """Make the columns of a release from its rows and its receipt."""
    if "hierarchy" not in facts or not {"level", "prefix"} <= {*rows.column_names}:
        return ChartColumns(columns={})
    hierarchy, source = as_hierarchies(facts["hierarchy"]), str(stored.request.get("source"))
    frame, nodes = stored.to_frame(), None
    if hierarchy.has_cells:
        labels, rest = _cell_labels(rows, hierarchy, facts, source)
        parents: Sequence[str | None] = [None] * rows.num_rows
    else:
        with suppress(ParameterError):  # items of devices, and frames of earlier versions
            nodes = shown_nodes(frame, facts, "share")
        lines = lineages(frame, hierarchy) if nodes is None else nodes.lineages
        labels, rest = _node_labels(rows, hierarchy, facts, source, lines)
        parents = _labels_above(rows["prefix"].to_pylist(), lines)
    columns = {
        "label": pa.array(labels, pa.string()),
        "parent": pa.array(parents, pa.string()),
        "is_rest": pa.array(rest, pa.bool_()),
    }
    found = None if nodes is None else _total_shares(nodes)
    if found is None:
        return ChartColumns(columns=columns)
    for name, values in zip(SHARES, found.numbers, strict=True):
        columns[name] = pa.array(values, pa.float64(), from_pandas=True)  # NULL for NaN
    share = TotalShare(measure=found.measure, confidence=found.ends.confidence)
    return ChartColumns(columns=columns, share=share)


def with_chart_columns(released: pa.Table, chart: ChartColumns) -> pa.Table:
    """The rows of a release with these columns behind them. Released columns with such a name get
    ``_`` behind it; the metadata, with the receipt, is kept."""
    own = free_columns(released.column_names, CHART_COLUMNS)
    metadata = dict(released.schema.metadata or {})
    if own != released.column_names:
        metadata.pop(b"pandas", None)  # it has types by names of columns
    rows = released.rename_columns(own).replace_schema_metadata(metadata)
    for column, values in chart.columns.items():
        rows = rows.append_column(column, values)
    return rows


def chart_meanings(shares: Sequence[TotalShare], intervals: str) -> Mapping[str, str]:
    """The meanings of the columns, by name; ``shares`` are of the releases in one table, and
    ``intervals`` says where the ends of intervals hold."""
    if not shares:
        return MEANINGS
    measures = list(dict.fromkeys(share.measure for share in shares))
    what = repr(measures[0])
    if len(measures) > 1:
        what = f"one measure of its release, {' or '.join(map(repr, measures))},"
    sure = f"at confidence {min(share.confidence for share in shares):g}, each on its own"
    return {
        **MEANINGS,
        "share": f"Part of everything in the release, its row of level 0, that {what} of this row "
        "is: from 0 to 1. Add up within one level only: a row is a part of the row above it, too. "
        "NULL where everything may be 0",
        "share_lower": f"Lower end of the interval for the true share of everything, {sure}: "
        f"{intervals}",
        "share_upper": f"Upper end of the interval for the true share of everything, {sure}: "
        f"{intervals}",
    }


def _total_shares(nodes: ShownNodes) -> NodeShares | None:
    """Shares of everything of the first measure that has such; None where none has."""
    for name, columns in nodes.measures.items():
        if columns.kind in ("count", "sum") and is_nested(nodes, columns.measure, columns):
            with suppress(ParameterError):  # different users, or no row of everything
                return node_shares(nodes, of="total", measure=name)
    return None


# -- labels ----------------------------------------------------------------------------------------


def _labels_above(
    prefixes: Sequence[str], lines: Sequence[tuple[Hashable, ...]]
) -> list[str | None]:
    """The label of the nearest row above each row, None where none is."""
    return [prefixes[at] if at >= 0 else None for at in nearest_ancestors(lines).tolist()]


def _node_labels(
    rows: pa.Table,
    hierarchy: Hierarchy,
    facts: Mapping[str, Any],
    source: str,
    lines: Sequence[tuple[Hashable, ...]],
) -> tuple[list[str], list[bool]]:
    """A label for each node, and whether it is a rest. Of two nodes that read alike the first has a
    value that reads like a missing one, or like a rest, literally."""
    level, times = rows["level"].to_pylist(), Counter(lines)
    has_rests = "consistent" in facts
    labels, rests, seen = [], [], Counter[tuple[Hashable, ...]]()
    for depth, text, line in zip(level, _own_texts(rows, hierarchy, has_rests), lines, strict=True):
        seen[line] += 1
        literal = seen[line] < times[line]
        rest = has_rests and text == OTHER and not literal and depth > 0
        if depth == 0:
            label = ALL
        elif rest:
            label = REST
        else:
            label = quoted_word(text) if literal else value_label(text, source)
        labels.append(label)
        rests.append(rest)
    return labels, rests


def _own_texts(rows: pa.Table, hierarchy: Hierarchy, has_rests: bool) -> list[str]:
    """The text of each node at its own level; where rests are, that of a rest is ``<other>``."""
    level, prefix = (rows[name].to_pylist() for name in ("level", "prefix"))
    shown = [_texts(rows[name]) for name in hierarchy.label_columns]
    joint, out = label_joint(hierarchy), []
    for row, (depth, label) in enumerate(zip(level, prefix, strict=True)):
        own = shown[depth - 1][row] if shown and depth else None
        if own is None and joint:
            own = label.rsplit(joint, 1)[-1] or label
        elif own is None:
            own = OTHER if has_rests and label.endswith(f" {OTHER}") else label
        out.append(own)
    return out


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    """The values of a column of texts; None for values of other types, whose texts have no part of
    what joins the labels of nodes."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts: list[str | None] = column.to_pylist()
        return texts
    return [None] * len(column)


def _cell_labels(
    rows: pa.Table, cells: Hierarchy, facts: Mapping[str, Any], source: str
) -> tuple[list[str], list[bool]]:
    """A label for each cell, of the nodes that are not rolled up, and whether it is a remainder."""
    overlap = facts.get("adds_up") is False or "count_lower" in rows.column_names
    nodes = [
        [
            value_label(text, source) if depth else None
            for text, depth in zip(rows[name].to_pylist(), depths, strict=True)
        ]
        for name, depths in ((name, rows[f"{name}_level"].to_pylist()) for name in cells.names)
    ]
    total = [depth == 0 for depth in rows["level"].to_pylist()]
    labels = [
        (ALL if overlap else REST) if top else BETWEEN.join(t for t in texts if t is not None)
        for top, *texts in zip(total, *nodes, strict=True)
    ]
    return labels, [top and not overlap for top in total]


def value_label(text: str, source: str) -> str:
    """The label of a value. ``source`` tells whether texts are those of ``dp.sql``."""
    if text == INVALID:
        return MISSING
    if QUERY_LISTS in source and text.startswith("["):
        with suppress(ValueError):
            parts = json.loads(text)
            return " / ".join(MISSING if p is None else quoted_word(str(p)) for p in parts)
    return quoted_word(text.removeprefix("=") if QUERY_TEXTS in source else text)


def quoted_word(text: str) -> str:
    """A value as a label, in quotation marks where it reads like a word for what is no value.

    >>> [quoted_word(text) for text in ("Paris", "", "(all)", '"(all)"')]
    ['Paris', '(empty)', '"(all)"', '""(all)""']
    """
    if not text:
        return EMPTY
    return f'"{text}"' if text.strip('"') in WORDS else text


# -- periods ---------------------------------------------------------------------------------------

LIKELY = range(1900, 2100)
"""Numbers at the end of a name that are taken for a year where they stand alone."""

Bounds = tuple[datetime, datetime]


def period_bounds(facts: Mapping[str, Any], numbers: str | None) -> Bounds | None:
    """Begin and end of the period that was counted, as the clock of its zone shows them; else of
    the period that the end of the name tells. None where neither is a period."""
    period = facts.get("period")
    if period is not None:
        ends = period.get("start"), period.get("end")
        return None if None in ends else (_moment(ends[0]), _moment(ends[1]))
    if numbers is None or (re.fullmatch("[0-9]{4}", numbers) and int(numbers) not in LIKELY):
        return None
    with suppress(ParameterError):
        return read_unit_period(re.sub("[-_./: ]+", "-", numbers))[1]
    return None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def period_starts(bounds: Iterable[Bounds | None]) -> pa.Array:
    """When periods begin: days, or times if one of the periods is not of whole days."""
    known = list(bounds)
    hours = any(end.time() != time() for ends in known if ends is not None for end in ends)
    begins = [None if ends is None else ends[0] for ends in known]
    if hours:
        return pa.array(begins, pa.timestamp("us"))
    return pa.array([None if b is None else b.date() for b in begins], pa.date32())


# -- what released columns mean --------------------------------------------------------------------


def released_meanings(schema: pa.Schema, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What the columns of a release mean, in their order."""
    columns, measured = schema.names, _measure_meanings(facts)
    unit = f"Counts {facts.get('counts')}"
    interval = f"at confidence {facts.get('confidence')}: {facts.get('intervals')}"
    adds_up = bool(facts.get("consistent"))
    signed = "never negative, the sum of the rows below" if adds_up else "may be negative"
    labels = "* is everything, <invalid> what is missing or malformed"
    if "consistent" in facts:
        labels += ", <other> what no other row covers"
    residual = "Noisy number under the node that no reported node below covers."
    if facts.get("adds_up") is False:
        residual = "The same as count: these numbers do not add up."
    known = {
        "level": f"Level of the node: 0 is everything, {facts.get('height')} the finest",
        "prefix": f"Label of the node; {labels}",
        "residual": f"{residual} {unit}",
        "count": f"Noisy number under the node; {signed}. {unit}",
        "lower": f"Lower end of the interval for the true count, {interval}. {unit}",
        "upper": f"Upper end of the interval for the true count, {interval}. {unit}",
    }
    if measured:
        known = {name: known[name] for name in ("level", "prefix")} | measured
    if str(facts.get("mechanism")).startswith("prefix-"):
        known |= _item_meanings(facts)
    levels = list(facts.get("levels") or ())
    out = []
    for column in columns:
        if column in known:
            out.append(known[column])
        else:  # a column for each level, coarse to fine
            depth = len([c for c in columns[: columns.index(column)] if c not in known]) + 1
            value = f" of {levels[depth - 1]!r}" if depth <= len(levels) else ""
            kind = schema.field(column).type
            text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
            rest = "" if text else ", and for what the prefix calls <invalid> or <other>"
            out.append(f"Value{value} at level {depth}; NULL for coarser nodes{rest}")
    return tuple(out)


def _item_meanings(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the meanings that differ because nodes are items of a prefix tree."""
    cut = f"an ellipsis at its end stands for what {facts.get('length')} bits do not hold"
    counts = f"Counts {facts.get('counts')}"
    return {
        "level": "1: every row is an item",
        "prefix": f"The item; {cut}, U+FFFD for a character outside of the alphabet",
        "residual": f"The same as count. {counts}",
        "count": f"Estimated number. {counts}",
    }


def _measure_meanings(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the meanings of the columns of measures; none for releases that are no rollups."""
    at = f"at confidence {facts.get('confidence')}: {facts.get('intervals')}"
    out = {}
    for measure in receipt_measures(facts):
        value, lower, upper = measure.columns
        what = f"{measure.spec}, in {measure_unit(measure, facts)}"
        if measure.kind == "clipped":
            what = (
                f"Values that {measure.spec} cut to its bounds, as {measure_unit(measure, facts)}"
            )
        sums = "adds up" if measure.adds_up else "does not add up"
        out[value] = f"Noisy number: {what}; {sums}, may be negative"
        if (of := facts["measures"].get(measure.name, {}).get("total_of")) is not None:
            out[value] = f"Noisy sum of {of} over all periods so far: {what}; no sum over periods"
        out[lower] = f"Lower end of the interval for the true {value}, {at}"
        out[upper] = f"Upper end of the interval for the true {value}, {at}"
        if measure.kind == "quantile":
            out[value] = f"Noisy quantile: {what}; does not add up; NULL where nothing is known"
            beyond = "Whether the interval reaches beyond a bound of"
            out[f"{value}{AT_BOUND_END}"] = f"{beyond} {measure.spec}"
    for name, said in (facts.get("measures") or {}).items():
        if "edges" in said:
            out[f"{name}{BINS_END}"] = (
                f"Noisy numbers of values in the bins of {said['spec']}, with one beyond each end; "
                "a list as text"
            )
    return out


def measure_unit(measure: ReleasedMeasure, facts: Mapping[str, Any]) -> str:
    """What a measure is a number of, or in which unit."""
    if measure.kind == "distinct":
        return f"different values of {measure.of}"
    if measure.kind == "histogram":
        return f"values of {measure.of}"
    if measure.kind in ("sum", "mean", "quantile"):
        return f"the unit of {measure.of}"
    return str(facts.get("counts"))


# -- types in PostgreSQL ---------------------------------------------------------------------------

TEXT, REAL, WHOLE = "text", "double precision", "bigint"


def postgres_type(kind: pa.DataType, *, measured: bool) -> str | None:
    """The type of a column in PostgreSQL; None if its rows are all NULL and tell none."""
    if pa.types.is_integer(kind):
        return REAL if measured else WHOLE
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return REAL
    if pa.types.is_null(kind):
        return None
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return f"timestamp {'with' if kind.tz else 'without'} time zone"
    return "interval" if pa.types.is_duration(kind) else TEXT


def postgres_texts(values: pa.ChunkedArray) -> list[str | None]:
    """Values as PostgreSQL reads them whatever the settings; it has no character zero."""
    if pa.types.is_duration(values.type):
        micros = values.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
        values = pc.binary_join_element_wise(micros, "microseconds", " ")
    texts = pc.replace_substring(values.cast(pa.large_string()), "\0", "\ufffd")
    out: list[str | None] = texts.to_pylist()
    return out
