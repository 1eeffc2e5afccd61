"""The dashboard of docs/bi/superset, made by Superset's REST API as an analyst makes it by hand."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import yaml

from tests.bi.revenue import TOTAL
from tests.bi.superset import Client

TITLE, DATABASE = "Revenue by department", "dpframe results"
ONE_LEVEL = "CASE WHEN COUNT(DISTINCT level) = 1 THEN SUM({}) END"
ONE_WEEK = "CASE WHEN COUNT(DISTINCT level) = 1 AND COUNT(DISTINCT period) = 1 THEN SUM({}) END"
ONE_ROW = "CASE WHEN COUNT(*) = 1 THEN MAX({}) END"
ONE_MEASURE = (
    "CASE WHEN COUNT(DISTINCT level) = 1 AND COUNT(DISTINCT measure) = 1 "
    "AND COUNT(DISTINCT family) = 1 THEN SUM(value) END"
)
"""Expressions of metrics that are empty, and not wrong, where a chart sums what does not add up."""

BAND = {end: f"revenue__yhat_{end}" for end in ("lower", "upper")}
"""Superset draws metrics with these endings as a band, as it draws its own forecasts."""

METRICS = {
    "revenue_all": {
        "revenue": (ONE_LEVEL.format("revenue"), "Empty where a chart mixes levels."),
        **{
            name: (
                ONE_ROW.format(f"revenue_{end}"),
                "One end of the interval, drawn as a band. Empty for more than one row.",
            )
            for end, name in BAND.items()
        },
        "customers": (ONE_WEEK.format("customers"), "Empty where a chart mixes levels or weeks."),
    },
    "revenue_latest": {
        "revenue": (ONE_LEVEL.format("revenue"), "Empty where a chart mixes levels."),
        "from": (ONE_ROW.format("revenue_lower"), "Low end of the interval."),
        "to": (ONE_ROW.format("revenue_upper"), "High end of the interval."),
        "customers": (ONE_LEVEL.format("customers"), "Empty where a chart mixes levels."),
    },
    "dp_measures": {
        "value": (ONE_MEASURE, "Empty where a chart mixes levels, measures or families."),
    },
}


@dataclass(frozen=True)
class Chart:
    """A chart over a data set: its kind, what its form says, and its place on the dashboard."""

    name: str
    table: str
    kind: str
    form: dict[str, Any]
    about: str
    width: int
    filtered: bool = False


def at(column: str, value: object) -> dict[str, Any]:
    """A filter of a chart: a column has a value."""
    return {
        "clause": "WHERE",
        "expressionType": "SIMPLE",
        "subject": column,
        "operator": "==",
        "comparator": value,
    }


ALWAYS = {"clause": "WHERE", "expressionType": "SIMPLE", "operator": "TEMPORAL_RANGE"}
NO_RANGE = {**ALWAYS, "subject": "period_start", "comparator": "No filter"}
OVER_TIME = {
    "x_axis": "period_start",
    "time_grain_sqla": "P1W",
    "x_axis_time_format": "%d %b",
    "truncateYAxis": False,
    "row_limit": 10000,
}

CHARTS = (
    Chart(
        "Revenue, newest week",
        "revenue_latest",
        "big_number_total",
        {
            "metric": "revenue",
            "adhoc_filters": [],
            "y_axis_format": ",.0f",
            "header_font_size": 0.4,
        },
        "The newest week of what the filter chooses. A node that was not shown has no number.",
        4,
        True,
    ),
    Chart(
        "Revenue of a week, with its interval",
        "revenue_all",
        "echarts_timeseries_line",
        {
            **OVER_TIME,
            "metrics": ["revenue", *BAND.values()],
            "resample_rule": "7D",  # a week without a row breaks the line
            "resample_method": "asfreq",
            "groupby": [],
            "adhoc_filters": [NO_RANGE],
            "y_axis_format": ",.0f",
            "rich_tooltip": True,
            "show_legend": False,
            "connectNulls": False,
        },
        "Dots are released numbers, the band is their interval. No dot: the week was not shown.",
        8,
        True,
    ),
    Chart(
        "Newest week by department",
        "revenue_latest",
        "table",
        {
            "query_mode": "aggregate",
            "groupby": ["label"],
            "metrics": ["revenue", "from", "to", "customers"],
            "adhoc_filters": [at("level", 1)],
            "timeseries_limit_metric": "revenue",
            "order_desc": True,
            "row_limit": 100,
            "column_config": {
                name: {"d3NumberFormat": ",.0f", "showCellBars": name == "revenue"}
                for name in ("revenue", "from", "to", "customers")
            },
        },
        "A department that few customers buy in is not shown. It is not zero.",
        5,
    ),
    Chart(
        "Departments of a week, stacked",
        "dp_measures",
        "echarts_timeseries_bar",
        {
            **OVER_TIME,
            "metrics": ["value"],
            "groupby": ["label"],
            "adhoc_filters": [
                at("family", "revenue"),
                at("measure", "revenue"),
                at("level", 1),
                NO_RANGE,
            ],
            "stack": "Stack",
            "y_axis_format": ",.0f",
            "rich_tooltip": True,
            "show_legend": True,
        },
        "What stands here are released departments only: they add up to less than the total.",
        7,
    ),
)


def connect(client: Client, name: str, address: str) -> int:
    """A database connection of which Superset itself lets nobody write."""
    return client.make(
        "database",
        database_name=name,
        sqlalchemy_uri=address,
        expose_in_sqllab=True,
        allow_dml=False,
        extra="{}",
    )


def data_set(client: Client, database: int, schema: str, table: str) -> int:
    """A data set over a published table, with the metrics that cannot be summed wrongly."""
    made = client.make("dataset", database=database, schema=schema, table_name=table)
    metrics = [
        {"metric_name": name, "expression": text, "description": about, "d3format": ",.0f"}
        for name, (text, about) in METRICS[table].items()
    ]
    told = client.get(f"/dataset/{made}")["result"]
    times = {"main_dttm_col": "period_start"} if _has(told, "period_start") else {}
    client.change("dataset", made, metrics=metrics, **times)
    return made


def _has(told: dict[str, Any], column: str) -> bool:
    return any(one["column_name"] == column for one in told["columns"])


def chart(client: Client, one: Chart, data_sets: dict[str, int], dashboard: int) -> int:
    source = data_sets[one.table]
    form = {"viz_type": one.kind, "datasource": f"{source}__table", **one.form}
    return client.make(
        "chart",
        slice_name=one.name,
        viz_type=one.kind,
        datasource_id=source,
        datasource_type="table",
        description=one.about,
        params=json.dumps(form),
        dashboards=[dashboard],
    )


def build(client: Client, database: int, schema: str) -> int:
    """The whole dashboard over a published schema; returns its id."""
    data_sets = {table: data_set(client, database, schema, table) for table in METRICS}
    dashboard = client.make("dashboard", dashboard_title=TITLE, published=True)
    made = [chart(client, one, data_sets, dashboard) for one in CHARTS]
    told = {
        "native_filter_configuration": [_filter(data_sets["revenue_all"], made)],
        "chart_configuration": {},
        "global_chart_configuration": {"scope": _everywhere(), "chartsInScope": made},
        "cross_filters_enabled": False,
        "filter_bar_orientation": "HORIZONTAL",
        "color_scheme": "supersetColors",
    }
    places = _places({one: client.get(f"/chart/{one}")["result"]["uuid"] for one in made})
    client.change(
        *("dashboard", dashboard), position_json=json.dumps(places), json_metadata=json.dumps(told)
    )
    return dashboard


def _everywhere(*but: int) -> dict[str, Any]:
    return {"rootPath": ["ROOT_ID"], "excluded": list(but)}


def _filter(data_set: int, made: list[int]) -> dict[str, Any]:
    """A choice of one node; before anybody chooses, the total."""
    shown = [number for number, one in zip(made, CHARTS, strict=True) if one.filtered]
    others = [number for number in made if number not in shown]
    default = {"col": "label", "op": "IN", "val": [TOTAL]}
    return {
        "id": "NATIVE_FILTER-department",
        "name": "Department",
        "type": "NATIVE_FILTER",
        "filterType": "filter_select",
        "description": "One at a time: rows of different levels do not add up.",
        "targets": [{"datasetId": data_set, "column": {"name": "label"}}],
        "scope": _everywhere(*others),
        "chartsInScope": shown,
        "tabsInScope": [],
        "cascadeParentIds": [],
        "controlValues": {
            "multiSelect": False,
            "enableEmptyFilter": True,
            "defaultToFirstItem": False,
            "searchAllOptions": False,
            "inverseSelection": False,
        },
        "defaultDataMask": {
            "extraFormData": {"filters": [default]},
            "filterState": {"value": [TOTAL], "label": TOTAL},
        },
    }


def _places(made: dict[int, str]) -> dict[str, Any]:
    """Two charts a row; a chart without its uuid would be put on the dashboard a second time."""
    every = list(zip(made.items(), CHARTS, strict=True))
    rows: dict[str, Any] = {}
    for i in range(0, len(every), 2):
        row, above = f"ROW-{i // 2 + 1}", ["ROOT_ID", "GRID_ID"]
        children = []
        for n, ((number, uuid), one) in enumerate(every[i : i + 2], i + 1):
            told = {"chartId": number, "uuid": uuid, "sliceName": one.name}
            rows[f"CHART-{n}"] = {
                "id": f"CHART-{n}",
                "type": "CHART",
                "children": [],
                "parents": [*above, row],
                "meta": {**told, "width": one.width, "height": 40},
            }
            children.append(f"CHART-{n}")
        meta = {"background": "BACKGROUND_TRANSPARENT"}
        rows[row] = {"id": row, "type": "ROW", "children": children, "parents": above, "meta": meta}
    grid = [name for name in rows if name.startswith("ROW-")]
    return {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"id": "ROOT_ID", "type": "ROOT", "children": ["GRID_ID"]},
        "GRID_ID": {"id": "GRID_ID", "type": "GRID", "children": grid, "parents": ["ROOT_ID"]},
        "HEADER_ID": {"id": "HEADER_ID", "type": "HEADER", "meta": {"text": TITLE}},
        **rows,
    }


def question(one: Chart, source: int, *filters: dict[str, Any]) -> dict[str, Any]:
    """What a browser sends for a chart, with filters of the dashboard."""
    form = one.form
    metrics = form.get("metrics") or [form["metric"]]
    of_chart = [
        {"col": f["subject"], "op": f["operator"], "val": f["comparator"]}
        for f in form["adhoc_filters"]
    ]
    query: dict[str, Any] = {
        "filters": [*filters, *of_chart],
        "columns": list(form.get("groupby", [])),
        "metrics": metrics,
        "extras": {"having": "", "where": ""},
        "row_limit": form.get("row_limit"),
        "orderby": [[metrics[0], False]] if "row_limit" in form else [],
    }
    if "x_axis" in form:
        axis = {
            "timeGrain": form["time_grain_sqla"],
            "columnType": "BASE_AXIS",
            "sqlExpression": form["x_axis"],
            "label": form["x_axis"],
            "expressionType": "SQL",
            "isColumnReference": True,
        }
        query["columns"] = [axis, *query["columns"]]
        query["series_columns"] = list(form.get("groupby", []))
        query["extras"]["time_grain_sqla"] = form["time_grain_sqla"]
    return {
        "datasource": {"id": source, "type": "table"},
        "force": True,
        "queries": [query],
        "result_format": "json",
        "result_type": "full",
    }


def node(label: str) -> dict[str, Any]:
    """A choice in the filter of the dashboard."""
    return {"col": "label", "op": "IN", "val": [label]}


# -- files -----------------------------------------------------------------------------------------

SERVER = "db.example/shop"
ADDRESS = f"postgresql+psycopg2://dashboards:XXXXXXXXXX@{SERVER}"
"""What the address of the database is in the files. Who takes them writes their own server; for the
mask Superset asks."""
DEFAULTS: dict[str, Any] = {
    "is_active": True,
    "groupby": True,
    "filterable": True,
    "filter_select_enabled": True,
    "is_dttm": False,
}
"""What Superset takes for granted where a file does not say it, beside False and nothing."""


def readable(files: dict[str, str]) -> dict[str, str]:
    """An export without what is empty, without numbers of one server, and in one order."""
    told = {name: yaml.safe_load(text) for name, text in files.items()}
    names = _names(told)
    kept: dict[str, str] = {}
    for name, content in told.items():
        if name == "metadata.yaml":
            content["timestamp"] = "2026-01-01T00:00:00+00:00"
        if name.startswith("databases/"):
            content["sqlalchemy_uri"] = ADDRESS
        if name.startswith("datasets/"):
            content.pop("catalog", None)
            for key in ("metrics", "columns"):
                content[key].sort(key=lambda row: row.get("metric_name") or row["column_name"])
        if name.startswith("charts/"):
            content["params"].pop("datasource")
        if name.startswith("dashboards/"):
            for one in content["metadata"]["native_filter_configuration"]:
                one.pop("chartsInScope", None)  # imports do not renumber it, browsers find it anew
            content = _renumbered(content, _numbers(content["position"]))
        text = yaml.safe_dump(
            _full(content),
            sort_keys=False,
            allow_unicode=True,
            width=150,
            default_flow_style=None,
        )
        for found, instead in names.items():
            text = text.replace(found, instead)
        kept[re.sub(r"_\d+\.yaml$", ".yaml", name)] = text
    return dict(sorted(kept.items()))


def kept(folder: Path) -> dict[str, str]:
    """The files of a folder as an export has them."""
    files = sorted(folder.rglob("*.yaml"))
    return {file.relative_to(folder).as_posix(): file.read_text("utf-8") for file in files}


def _names(told: dict[str, Any]) -> dict[str, str]:
    """A uuid for each thing, which follows from its kind and name."""
    found = {}
    for file, content in told.items():
        kind = file.partition("/")[0]
        titles = ("dashboard_title", "slice_name", "table_name", "database_name")
        title = next((content[key] for key in titles if key in content), "")
        if "uuid" in content:
            found[content["uuid"]] = str(uuid5(NAMESPACE_URL, f"dpframe/{kind}/{title}"))
    return found


def _full(content: Any) -> Any:
    """Without what says nothing."""
    if isinstance(content, list):
        return [_full(one) for one in content]
    if not isinstance(content, dict):
        return content
    return {
        key: _full(one)
        for key, one in content.items()
        if one is not None and DEFAULTS.get(key) != one and not (key in UNTOLD and not one)
    }


UNTOLD = {
    *("allow_run_async", "allow_ctas", "allow_cvas", "impersonate_user"),
    *("offset", "normalize_columns", "always_filter_main_dttm", "is_dttm"),
    *("expanded_slices", "label_colors", "shared_label_colors", "map_label_colors"),
    *("color_scheme_domain", "timed_refresh_immune_slices", "refresh_frequency", "tabsInScope"),
    *("cascadeParentIds", "chart_configuration", "annotation_layers"),
}


def _numbers(position: dict[str, Any]) -> dict[int, int]:
    charts = [one["meta"] for key, one in position.items() if key.startswith("CHART-")]
    order = [one.name for one in CHARTS]
    return {one["chartId"]: order.index(one["sliceName"]) + 1 for one in charts}


def _renumbered(content: Any, numbers: dict[int, int]) -> Any:
    """Charts by their places: the numbers of one server mean nothing on another."""
    if isinstance(content, list):
        return [_renumbered(one, numbers) for one in content]
    if not isinstance(content, dict):
        return content
    return {
        key: numbers[one]
        if key == "chartId"
        else sorted(numbers[n] for n in one)
        if key in ("excluded", "chartsInScope")
        else _renumbered(one, numbers)
        for key, one in content.items()
    }
