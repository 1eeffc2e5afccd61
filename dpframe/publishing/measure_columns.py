"""Measures of rollups in results files: the meanings of their columns, and ``dp_measures``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dpframe.asking.released_measures import ReleasedMeasure, receipt_measures
from dpframe.ledger import StoredResult
from dpframe.publishing.names import TableNames
from dpframe.publishing.results_tables import MEASURES, Table

MEASURE_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("release", pa.string(), "Name of the release in the ledger"),
    ("table_name", pa.string(), "Table that holds the release, with a column a measure"),
    ("release_id", pa.string(), "Random id of the release"),
    ("level", pa.int64(), "Level of the node: 0 is everything"),
    ("prefix", pa.string(), "Label of the node; * is everything, <invalid> what is missing"),
    ("measure", pa.string(), "Name of the measure, as its column in the table of the release"),
    ("kind", pa.string(), "count, sum, mean, distinct, or clipped: values beyond the bounds"),
    ("source_column", pa.string(), "Column that was measured; NULL for what counts rows"),
    ("unit", pa.string(), "What the value is a number of, or in the unit of which column it is"),
    ("adds_up", pa.bool_(), "Whether the value of a node is that of its parts together"),
    ("value", pa.float64(), "Noisy value; may be negative"),
    ("lower", pa.float64(), "Lower end of its interval; what clipping takes away is not covered"),
    ("upper", pa.float64(), "Upper end of its interval; what clipping takes away is not covered"),
)


def measure_meanings(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the meanings of the columns of measures; none for releases that are no rollups."""
    at = f"at confidence {facts.get('confidence')}: {facts.get('intervals')}"
    out = {}
    for measure in receipt_measures(facts):
        value, lower, upper = measure.columns
        what = f"{measure.spec}, in {_measure_unit(measure, facts)}"
        if measure.kind == "clipped":
            what = (
                f"Values that {measure.spec} cut to its bounds, as {_measure_unit(measure, facts)}"
            )
        sums = "adds up" if measure.adds_up else "does not add up"
        out[value] = f"Noisy number: {what}; {sums}, may be negative"
        out[lower] = f"Lower end of the interval for the true {value}, {at}"
        out[upper] = f"Upper end of the interval for the true {value}, {at}"
    return out


def _measure_unit(measure: ReleasedMeasure, facts: Mapping[str, Any]) -> str:
    if measure.kind == "distinct":
        return f"different values of {measure.of}"
    if measure.kind in ("sum", "mean"):
        return f"the unit of {measure.of}"
    return str(facts.get("counts"))


def measures_table(published: Sequence[tuple[TableNames, StoredResult, Table]]) -> Table | None:
    """Make ``dp_measures``: a row for each release, node and measure, oldest release first.

    Returns None if no release is a rollup: such results files had no ``dp_measures`` before.
    """
    schema = pa.schema([(name, kind) for name, kind, _ in MEASURE_COLUMNS])
    parts = []
    for named, stored, table in published:
        facts = json.loads(stored.receipt)
        for measure in receipt_measures(facts):
            value, lower, upper = measure.columns
            shared = {
                "release": stored.name,
                "table_name": named.table,
                "release_id": stored.release_id,
                "measure": measure.name,
                "kind": measure.kind,
                "source_column": measure.of,
                "unit": _measure_unit(measure, facts),
                "adds_up": measure.adds_up,
            }
            own = {"level": "level", "prefix": "prefix"}
            own |= {"value": value, "lower": lower, "upper": upper}
            n = table.rows.num_rows
            columns = [
                table.rows[own[name]].cast(kind)
                if name in own
                else pa.chunked_array([pa.array([shared[name]] * n, kind)])
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
