"""The tables of results files before they are written, with a comment on everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe._sql import identifier, literal
from dpframe.ledger import StoredResult
from dpframe.publishing.names import TableNames

if TYPE_CHECKING:
    import pandas as pd

MARK = "Published by dpframe"
"""The beginning of the comment on ``dp_releases`` in every results file."""

LEDGER_KEY = b"dpframe_ledger"
"""Schema metadata of every Parquet file: the id of the ledger it was published from."""

RELEASES = "dp_releases"
BUDGET = "dp_budget"
MEASURES = "dp_measures"

_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()

RELEASE_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("release", _TEXT, "Name of the release in the ledger"),
    ("family", _TEXT, "The name without the numbers at its end"),
    ("table_name", _TEXT, "Table that holds the release"),
    ("latest_view", _TEXT, "View that shows the newest published release of the family"),
    ("all_table", _TEXT, "Table that holds all published releases of the family"),
    ("is_latest", pa.bool_(), "Whether that view shows this release"),
    ("charge", _WHOLE, "Number of its charge in the ledger; a newer release has a larger one"),
    ("time", pa.timestamp("us"), "When it was planned and drawn, in UTC"),
    ("mechanism", _TEXT, "Algorithm that added the noise"),
    ("hierarchy", _TEXT, "The hierarchy as it was asked for"),
    ("levels", _TEXT, "Names of levels 1, 2, ..."),
    ("period", _TEXT, "The period that was counted, or the numbers at the end of the name"),
    ("source", _TEXT, "What was counted"),
    ("epsilon", _REAL, "Epsilon of this release"),
    ("delta", _REAL, "Delta of this release"),
    ("guarantee", _TEXT, "What is promised, against anybody who sees the release"),
    ("neighbours", _TEXT, "The change of the data that cannot be told from the release"),
    ("user_column", _TEXT, "Column that identifies a person; NULL if single records are protected"),
    (
        "contribution",
        _TEXT,
        "How a person counts: share, records or items; NULL without a user column, and for prefix "
        "trees, where a person reports one item a question",
    ),
    ("max_contributions", _WHOLE, "Most records counted of each person; NULL for shares"),
    ("counts", _TEXT, "What residual, count, lower and upper count"),
    (
        "threshold",
        _REAL,
        "Residual, or noisy count for tree counts, from which a node is reported; NULL if keys "
        "were listed, and for prefix trees",
    ),
    ("remainder", pa.bool_(), "Whether what no reported node covers is released as level 0"),
    ("confidence", _REAL, "Confidence of lower and upper, from 0 to 1"),
    ("intervals", _TEXT, "What lower and upper mean"),
    ("row_count", _WHOLE, "Rows of the release"),
    ("version", _TEXT, "Version of dpframe that drew it"),
    ("release_id", _TEXT, "Random id of the release"),
    ("receipt", _TEXT, "The whole receipt as JSON"),
)

BUDGET_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("ledger_id", _TEXT, "Random id of the ledger"),
    ("accountant", _TEXT, "How releases compose: sum, or pld, where they can be reserved"),
    ("epsilon", _REAL, "Total epsilon of the ledger"),
    ("delta", _REAL, "Total delta of the ledger"),
    ("spent_epsilon", _REAL, "Epsilon spent by all releases together"),
    ("spent_delta", _REAL, "Delta spent by all releases together"),
    ("left_epsilon", _REAL, "Epsilon left"),
    ("left_delta", _REAL, "Delta left"),
    ("plain_epsilon", _REAL, "Plain sum of the epsilons of all releases"),
    ("saved_epsilon", _REAL, "What reservations and disjoint periods save against the plain sum"),
    ("releases", _WHOLE, "Releases charged, with and without a name, published or not"),
    ("reserved", _WHOLE, "Releases that are paid for and not drawn yet"),
    ("unread_epsilon", _REAL, "Epsilon left for a period that no release has read"),
    ("unread_delta", _REAL, "Delta left for a period that no release has read"),
    ("protects", _TEXT, "What the totals hold for: who or what is protected"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or view to write: its name and rows, its comment, and the meaning of each column."""

    name: str
    rows: pa.Table
    comment: str
    meanings: tuple[str, ...]

    def comment_statements(self, kind: str, name: str, before: str = "") -> list[str]:
        """Return the statements that comment on this table, or on a view that shows it."""
        on = [f"COMMENT ON {kind} {identifier(name)} IS {literal(before + self.comment)};"]
        for column, meaning in zip(self.rows.column_names, self.meanings, strict=True):
            where = f"{identifier(name)}.{identifier(column)}"
            on.append(f"COMMENT ON COLUMN {where} IS {literal(meaning)};")
        return on


def release_table(
    stored: StoredResult, name: TableNames, measured: Callable[[Mapping[str, Any]], dict[str, str]]
) -> Table:
    """Make the table of a release from its stored frame; ``measured`` returns the meanings of its
    measures."""
    rows, facts = stored.to_arrow(), json.loads(stored.receipt)
    return Table(
        name=name.table,
        rows=rows,
        comment=f"Release {stored.name!r}: {facts.get('guarantee')}. Hierarchy "
        f"{facts.get('hierarchy')}, {facts.get('time')}. Its receipt is in {RELEASES}",
        meanings=_column_meanings(rows.schema, facts, measured(facts)),
    )


def _column_meanings(
    schema: pa.Schema, facts: dict[str, Any], measured: dict[str, str]
) -> tuple[str, ...]:
    columns = schema.names
    unit = f"Counts {facts.get('counts')}"
    interval = f"at confidence {facts.get('confidence')}: {facts.get('intervals')}"
    adds_up = bool(facts.get("consistent"))
    signed = "never negative, the sum of the rows below" if adds_up else "may be negative"
    labels = "* is everything, <invalid> what is missing or malformed"
    if "consistent" in facts:
        labels += ", <other> what no other row covers"
    known = {
        "level": f"Level of the node: 0 is everything, {facts.get('height')} the finest",
        "prefix": f"Label of the node; {labels}",
        "residual": f"{_residual_meaning(facts)} {unit}",
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


def _item_meanings(facts: dict[str, Any]) -> dict[str, str]:
    """Return the meanings that differ because nodes are items of a prefix tree."""
    cut = f"an ellipsis at its end stands for what {facts.get('length')} bits do not hold"
    counts = f"Counts {facts.get('counts')}"
    return {
        "level": "1: every row is an item",
        "prefix": f"The item; {cut}, U+FFFD for a character outside of the alphabet",
        "residual": f"The same as count. {counts}",
        "count": f"Estimated number. {counts}",
    }


def period_of(name: TableNames, facts: Mapping[str, Any]) -> str | None:
    """Return the period of a release: from its receipt, or else from the end of its name."""
    period = facts.get("period")
    return name.numbers if period is None else str(period["text"])


def releases_table(
    published: Sequence[tuple[TableNames, StoredResult, Table]], charges: pd.DataFrame
) -> Table:
    """Make ``dp_releases``: a row for each published release, oldest first."""
    sources = dict(zip(charges["release_id"], charges["source"], strict=True))
    numbers = dict(zip(charges["release_id"], charges["number"], strict=True))
    newest = {name.view: stored.release_id for name, stored, _ in published}
    rows = []
    for name, stored, table in published:
        facts = json.loads(stored.receipt)
        own = {
            "release": stored.name,
            "family": name.family,
            "table_name": name.table,
            "latest_view": name.view,
            "all_table": name.whole,
            "period": period_of(name, facts),
            "is_latest": newest[name.view] == stored.release_id,
            "charge": int(numbers[stored.release_id]),
            "time": _utc(facts["time"]),
            "levels": ", ".join(facts.get("levels") or ()),
            "source": sources[stored.release_id],
            "user_column": facts.get("user"),
            "row_count": table.rows.num_rows,
            "receipt": stored.receipt,
        }
        rows.append({column: own.get(column, facts.get(column)) for column, *_ in RELEASE_COLUMNS})
    return _table_from_rows(
        RELEASES,
        f"{MARK}: one row a release, with its guarantee and receipt",
        rows,
        RELEASE_COLUMNS,
    )


def budget_table(summary: pd.DataFrame, ledger_id: str) -> Table:
    """Make ``dp_budget``: one row, without the path of the ledger."""
    row = {**summary.to_dict("records")[0], "ledger_id": ledger_id}
    return _table_from_rows(
        BUDGET,
        "The ledger when it was published: totals, spent and left, over all of its releases",
        [{column: row[column] for column, *_ in BUDGET_COLUMNS}],
        BUDGET_COLUMNS,
    )


def _table_from_rows(
    name: str,
    comment: str,
    rows: list[dict[str, Any]],
    columns: tuple[tuple[str, pa.DataType, str], ...],
) -> Table:
    schema = pa.schema([(column, kind) for column, kind, _ in columns])
    return Table(
        name=name,
        rows=pa.Table.from_pylist(rows, schema=schema),
        comment=comment,
        meanings=tuple(meaning for *_, meaning in columns),
    )


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)


def results_script(tables: Sequence[Table], latest: dict[str, Table]) -> str:
    """Return the SQL that makes the views and all comments, once the tables exist."""
    statements = ["BEGIN;"]
    for table in tables:
        statements += table.comment_statements("TABLE", table.name)
    for view, table in latest.items():
        statements.append(
            f"CREATE VIEW {identifier(view)} AS SELECT * FROM {identifier(table.name)};"
        )
        statements += table.comment_statements("VIEW", view, "The newest of its family. ")
    return "\n".join([*statements, "COMMIT;"])


def _residual_meaning(facts: Mapping[str, Any]) -> str:
    if facts.get("adds_up") is False:
        return "The same as count: these numbers do not add up."
    return "Noisy number under the node that no reported node below covers."
