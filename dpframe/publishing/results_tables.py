"""Tables of published results, and their names."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dpframe._version import __version__
from dpframe.asking.measure_texts import ReleasedMeasure, receipt_measures
from dpframe.common.texts import identifier, literal
from dpframe.ledger import StoredResult
from dpframe.postprocess.shown_nodes import whole_microseconds
from dpframe.publishing.chart_columns import (
    BEGIN,
    MEANINGS,
    ChartColumns,
    chart_columns,
    chart_meanings,
    free_columns,
    measure_unit,
    period_bounds,
    period_starts,
    released_meanings,
    with_chart_columns,
)

if TYPE_CHECKING:
    import pandas as pd

LONGEST_NAME = 50
"""Characters kept of a name. With ``_latest`` and a number it fits the 63 characters of most
databases, and with ``.parquet`` in UTF-8 the 255 bytes of a file name."""

RESERVED = ("dp_", "duckdb_", "pg_", "sqlite_", "information_schema")
"""Beginnings of names that dpframe and catalogs of databases use."""

_NUMBERS = re.compile(r"(?:[-_./: ]+[QWqw]?[0-9]+(?:T[0-9]{2})?)+$")
_APART = "-_./: "
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNames:
    """The name of a release, and of its family, its table, the view of the family's newest release
    and the table of the whole family."""

    release: str
    family: str
    table: str
    view: str
    whole: str

    @property
    def numbers(self) -> str | None:
        """The part of the name after the family, such as ``2026-11``, or None."""
        return self.release[len(self.family) :].lstrip(_APART) or None


def name_tables(releases: Sequence[str], *, in_bytes: bool = False) -> list[TableNames]:
    """Name the tables and views of releases, in the order of charges; later releases never change
    the names of earlier ones. ``in_bytes``: the longest name is counted in bytes of UTF-8."""
    taken: set[str] = set()
    shared: dict[str, tuple[str, str]] = {}
    out = []
    for release in releases:
        table = free_name(identifier_of(release, in_bytes=in_bytes), taken)
        kin = family(release)
        if kin not in shared:
            stem = identifier_of(kin, in_bytes=in_bytes)
            shared[kin] = free_name(f"{stem}_latest", taken), free_name(f"{stem}_all", taken)
        view, whole = shared[kin]
        out.append(TableNames(release=release, family=kin, table=table, view=view, whole=whole))
    return out


def family(release: str) -> str:
    """Return the name without the numbers at its end, unless no letter would be left.

    Each number is set off by ``-``, ``_``, ``.``, ``/``, ``:`` or a space; Q or W may stand before
    it, and an hour after it.

    >>> [family(n) for n in ("ips-2026-11", "sales 2026-Q3", "ipv6", "2026-11", "a-2026-11-22T13")]
    ['ips', 'sales', 'ipv6', '2026-11', 'a']
    """
    stem = _NUMBERS.sub("", release)
    return stem if _LETTER.search(stem) else release


def identifier_of(text: str, *, in_bytes: bool = False) -> str:
    """Make an identifier: small letters and digits of any script, ``_`` for all other characters.

    It begins with a letter, and has at most 50 characters (``in_bytes``: 50 bytes of UTF-8).

    >>> [identifier_of(n) for n in ("IPs 2026/11", "Größe", "2026-11", "dp_budget", "?")]
    ['ips_2026_11', 'grösse', 'release_2026_11', 'release_dp_budget', 'release']
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else "_" for c in folded)
    cut = _first_bytes if in_bytes else _first_characters
    name = cut(re.sub("_+", "_", kept).strip("_")).rstrip("_")
    if not name or not name[0].isalpha() or name.startswith(RESERVED):
        name = cut(f"release_{name}").rstrip("_")
    return name


def _first_characters(name: str) -> str:
    return name[:LONGEST_NAME]


def _first_bytes(name: str) -> str:
    return name.encode()[:LONGEST_NAME].decode("utf-8", "ignore")


def free_name(wanted: str, taken: set[str]) -> str:
    """Return ``wanted``, with ``__2``, ``__3``, ... if it is taken in any case, and mark it taken.

    SQL and file systems may ignore case. Names from :func:`identifier_of` hold no ``__``, so a
    numbered name equals no other name.
    """
    name, number = wanted, 1
    while name.casefold() in taken:
        number += 1
        name = f"{wanted}__{number}"
    taken.add(name.casefold())
    return name


MARK = "Published by dpframe"
"""The beginning of the comment on ``dp_releases`` in every results file."""

LEDGER_KEY = b"dpframe_ledger"
"""Schema metadata of every Parquet file: the id of the ledger it was published from."""

RELEASES = "dp_releases"
BUDGET = "dp_budget"
MEASURES = "dp_measures"

_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()

Columns = tuple[tuple[str, pa.DataType, str], ...]
"""Name, type and meaning of every column of a table."""

RELEASE_COLUMNS: Columns = (
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

BUDGET_COLUMNS: Columns = (
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

MEASURE_COLUMNS: Columns = (
    ("release", _TEXT, "Name of the release in the ledger"),
    ("table_name", _TEXT, "Table that holds the release, with a column a measure"),
    ("release_id", _TEXT, "Random id of the release"),
    ("level", _WHOLE, "Level of the node: 0 is everything"),
    ("prefix", _TEXT, "Label of the node; * is everything, <invalid> what is missing"),
    (
        "measure",
        _TEXT,
        "Name of the measure, as its column in the table of the release; that has _ behind its "
        "name if the table has a column of that name already",
    ),
    (
        "kind",
        _TEXT,
        "count, sum, mean, distinct, quantile, histogram (how many values there are), "
        "or clipped: values beyond the bounds",
    ),
    ("source_column", _TEXT, "Column that was measured; NULL for what counts rows"),
    (
        "unit",
        _TEXT,
        "What the value is a number of, or in the unit of which column it is; seconds of times",
    ),
    ("adds_up", pa.bool_(), "Whether the value of a node is that of its parts together"),
    ("value", _REAL, "Noisy value; may be negative; NULL where nothing is known"),
    ("lower", _REAL, "Lower end of its interval, which does not cover what bounds cut"),
    ("upper", _REAL, "Upper end of its interval, which does not cover what bounds cut"),
    ("family", _TEXT, "The name of the release without the numbers at its end"),
    ("period", _TEXT, "The period that was counted, or the numbers at the end of the name"),
    ("period_start", pa.timestamp("us"), BEGIN),
    ("label", _TEXT, MEANINGS["label"]),
    ("parent", _TEXT, MEANINGS["parent"]),
    ("is_rest", pa.bool_(), MEANINGS["is_rest"]),
)

FAMILY_COLUMNS = {
    "release": "Name of the release in the ledger",
    "period": "The period that was counted, or the numbers at the end of the name of the release",
    "period_start": BEGIN,
}
"""Columns that a table of a family has beside those of its releases, with their meanings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or view to write: its name and rows, its comment, and the meaning of each column."""

    name: str
    rows: pa.Table
    comment: str
    meanings: tuple[str, ...]

    def comment_statements(
        self, kind: str, name: str, before: str = "", *, there: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the statements that comment on this table, or on a view that shows it, by its
        quoted name; but not what is ``there`` already, by column, or by ``""`` for the table."""
        said = {"": before + self.comment}
        said |= dict(zip(self.rows.column_names, self.meanings, strict=True))
        return [
            f"COMMENT ON COLUMN {name}.{identifier(column)} IS {literal(text)};"
            if column
            else f"COMMENT ON {kind} {name} IS {literal(text)};"
            for column, text in said.items()
            if there is None or there.get(column) != text
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRelease:
    """A release to publish: its names, as the ledger stores it, its receipt and its table."""

    names: TableNames
    stored: StoredResult
    facts: Mapping[str, Any]
    table: Table
    chart: ChartColumns
    called: Mapping[str, str]
    """The names of the released columns in the table."""

    @property
    def period(self) -> str | None:
        """The period of the release: from its receipt, or else from the end of its name."""
        text = (self.facts.get("period") or {}).get("text")
        return self.names.numbers if text is None else str(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """All that is published of one state of a ledger: its releases, oldest first, and tables."""

    published: Sequence[PublishedRelease]
    families: Sequence[Table]
    measures: Table | None
    budget: Table
    releases: Table

    @property
    def latest(self) -> dict[str, PublishedRelease]:
        """The newest release of each family, by the name of its view."""
        return {one.names.view: one for one in self.published}

    @property
    def common_tables(self) -> list[Table]:
        """The tables of no single family, ``dp_budget`` and ``dp_releases`` last."""
        measures = [] if self.measures is None else [self.measures]
        return [*measures, self.budget, self.releases]


def published_release(stored: StoredResult, names: TableNames) -> PublishedRelease:
    """Make the table of a release from its stored frame."""
    released, facts = stored.to_arrow(), json.loads(stored.receipt)
    chart = chart_columns(stored, released, facts)
    rows = with_chart_columns(released, chart)
    shares = [] if chart.share is None else [chart.share]
    known = chart_meanings(shares, str(facts.get("intervals")))
    table = Table(
        name=names.table,
        rows=rows,
        comment=f"Release {stored.name!r}: {facts.get('guarantee')}. Hierarchy "
        f"{facts.get('hierarchy')}, {facts.get('time')}. Its receipt is in {RELEASES}",
        meanings=(
            *released_meanings(released.schema, facts),
            *(known[column] for column in chart.columns),
        ),
    )
    return PublishedRelease(
        names=names,
        stored=stored,
        facts=facts,
        table=table,
        chart=chart,
        called=dict(zip(released.column_names, rows.column_names, strict=False)),
    )


def releases_table(published: Sequence[PublishedRelease], charges: pd.DataFrame) -> Table:
    """Make ``dp_releases``: a row for each published release, oldest first."""
    sources = dict(zip(charges["release_id"], charges["source"], strict=True))
    numbers = dict(zip(charges["release_id"], charges["number"], strict=True))
    newest = {one.names.view: one.stored.release_id for one in published}
    rows = []
    for one in published:
        names, facts, release_id = one.names, one.facts, one.stored.release_id
        own = {
            "release": one.stored.name,
            "family": names.family,
            "table_name": names.table,
            "latest_view": names.view,
            "all_table": names.whole,
            "period": one.period,
            "is_latest": newest[names.view] == release_id,
            "charge": int(numbers[release_id]),
            "time": datetime.fromisoformat(facts["time"]).astimezone(UTC).replace(tzinfo=None),
            "levels": ", ".join(facts.get("levels") or ()),
            "source": sources[release_id],
            "user_column": facts.get("user"),
            "row_count": one.table.rows.num_rows,
            "receipt": one.stored.receipt,
        }
        rows.append({column: own.get(column, facts.get(column)) for column, *_ in RELEASE_COLUMNS})
    return _table_from_rows(
        RELEASES,
        f"{MARK} {__version__}: one row a release, with its guarantee and receipt",
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
    columns: Columns,
) -> Table:
    schema = pa.schema([(column, kind) for column, kind, _ in columns])
    return Table(
        name=name,
        rows=pa.Table.from_pylist(rows, schema=schema),
        comment=comment,
        meanings=tuple(meaning for *_, meaning in columns),
    )


NEWEST = "The newest of its family. "
"""How comments on views of newest releases begin."""


def results_script(tables: Sequence[Table], latest: dict[str, Table]) -> str:
    """Return the SQL that makes the views and all comments, once the tables exist."""
    statements = ["BEGIN;"]
    for table in tables:
        statements += table.comment_statements("TABLE", identifier(table.name))
    for view, table in latest.items():
        statements.append(
            f"CREATE VIEW {identifier(view)} AS SELECT * FROM {identifier(table.name)};"
        )
        statements += table.comment_statements("VIEW", identifier(view), NEWEST)
    return "\n".join([*statements, "COMMIT;"])


IN_SECONDS = {"time": "seconds since 1970, in UTC", "duration": "seconds"}
"""The units of quantiles of times and durations, which a table of numbers cannot hold."""


def _long_unit(measure: ReleasedMeasure, facts: Mapping[str, Any]) -> str:
    usual = measure_unit(measure, facts)
    return IN_SECONDS.get(measure.value, usual) if measure.kind == "quantile" else usual


def _long_column(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    micros = whole_microseconds(values)
    if micros is None:
        return values.cast(kind)
    return pc.divide(micros.cast(pa.float64()), 1e6)


def measures_table(published: Sequence[PublishedRelease]) -> Table | None:
    """Make ``dp_measures``: a row for each release, node and measure, oldest release first.

    Returns None if no release is a rollup: such results files had no ``dp_measures`` before.
    """
    schema = pa.schema([(name, kind) for name, kind, _ in MEASURE_COLUMNS])
    parts = []
    for one in published:
        rows = one.table.rows
        bounds = period_bounds(one.facts, one.names.numbers)
        for measure in receipt_measures(one.facts):
            ends = [one.called[column] for column in measure.columns]
            own = dict(zip(("value", "lower", "upper"), ends, strict=True))
            own |= {
                name: name for name in ("level", "prefix", *MEANINGS) if name in rows.schema.names
            }
            shared = {
                "release": one.stored.name,
                "table_name": one.names.table,
                "release_id": one.stored.release_id,
                "measure": measure.name,
                "kind": measure.kind,
                "source_column": measure.of,
                "unit": _long_unit(measure, one.facts),
                "adds_up": measure.adds_up,
                "family": one.names.family,
                "period": one.period,
                "period_start": None if bounds is None else bounds[0],
            }
            columns = [
                _long_column(rows[own[name]], kind)
                if name in own
                else pa.chunked_array([pa.array([shared.get(name)] * rows.num_rows, kind)])
                for name, kind, _ in MEASURE_COLUMNS
            ]
            parts.append(pa.table(columns, schema=schema))
    if not parts:
        return None
    return Table(
        name=MEASURES,
        rows=pa.concat_tables(parts),
        comment="Measures of all rollups: one row a release, node and measure. Do not add up over "
        "all rows: choose a measure and a level",
        meanings=tuple(meaning for *_, meaning in MEASURE_COLUMNS),
    )


def family_tables(published: Sequence[PublishedRelease]) -> list[Table]:
    """Return a table for each family: the rows of its releases, oldest first.

    Views would be too slow: DuckDB takes 5 s to read a view of 2,000 tables, minutes for 9,000.
    """
    families: dict[str, list[PublishedRelease]] = {}
    for one in published:
        families.setdefault(one.names.whole, []).append(one)
    return [_family_table(name, members) for name, members in families.items()]


def _family_table(name: str, members: Sequence[PublishedRelease]) -> Table:
    parts: list[dict[str, pa.ChunkedArray]] = []
    called = {column: column for column in FAMILY_COLUMNS}
    meanings = dict(FAMILY_COLUMNS)
    begins = period_starts(period_bounds(one.facts, one.names.numbers) for one in members)
    for one in members:
        rows = one.table.rows
        same = (
            pa.array([one.stored.name], _TEXT),
            pa.array([one.period], _TEXT),
            begins.slice(len(parts), 1),
        )
        part = {
            column: pa.chunked_array([pa.repeat(value[0], rows.num_rows)])
            for column, value in zip(FAMILY_COLUMNS, same, strict=True)
        }
        renamed = free_columns(rows.column_names, FAMILY_COLUMNS)
        for own, values, meaning in zip(renamed, rows.columns, one.table.meanings, strict=True):
            # DuckDB takes City and city for one column
            column = called.setdefault(own.casefold(), own)
            part[column], meanings[column] = values, meaning
        parts.append(part)
    shares = [one.chart.share for one in members if one.chart.share is not None]
    told = chart_meanings(shares, "where lower and upper of the release hold")
    meanings |= {column: told[column] for column in meanings if column in told}
    lengths = [one.table.rows.num_rows for one in members]
    return Table(
        name=name,
        rows=pa.table(
            {
                column: _stack_columns(
                    part.get(column, pa.chunked_array([pa.nulls(n)]))
                    for part, n in zip(parts, lengths, strict=True)
                )
                for column in meanings
            }
        ),
        comment=f"All releases of the family {members[0].names.family!r}, oldest first: one row a "
        "release and node. A node that only some of them report is no zero in the others. Comments "
        "on columns are those of the newest release that has them; guarantees are in dp_releases",
        meanings=tuple(meanings.values()),
    )


def _stack_columns(parts: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Concatenate columns in a type that holds all of them: text, if no other does."""
    tables = [pa.table({"": part}) for part in parts]
    try:
        return pa.concat_tables(tables, promote_options="permissive").column(0)
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        texts = [pa.table({"": table.column(0).cast(pa.string())}) for table in tables]
        return pa.concat_tables(texts).column(0)
