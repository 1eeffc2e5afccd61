"""Types are public: what one alone shows to be unreadable is refused before anything is charged."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.doors.cli import main as cli
from dpframe.errors import ColumnError
from dpframe.hierarchy import as_hierarchy
from dpframe.testing import seeded_noise
from tests.members import some

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}

ROWS = pd.DataFrame(
    {
        "n": pd.Series([16_909_060, 5] * 300, dtype="int64"),
        "x": [0.5, 2.0] * 300,
        "yes": [True, False] * 300,
        "day": pd.Series(pd.to_datetime(["2024-03-01", "2024-03-02"] * 300)).astype(
            "datetime64[us]"
        ),
        "place": ["DE", "FR"] * 300,
    }
)

UNREADABLE = [
    *("ip:n", "ip:x?version=4", "ip:yes", "ip:day", "date:n", "date:x", "date:yes"),
    *("number:day?lower=0&upper=9", "domain:n", "domain:x", "domain:yes", "domain:day"),
]
"""Questions that no value of a column of its type answers."""

WEIGHTS: list[dict[str, Any]] = [{"weight": name} for name in ("x", "yes", "day", "place")]


@dataclass
class World:
    """The rows behind every door, and what was charged."""

    folder: Path
    con: duckdb.DuckDBPyConnection
    ledger: dp.Ledger

    @property
    def charges(self) -> int:
        return len(self.ledger.releases())


@pytest.fixture
def world(tmp_path: Path) -> World:
    ROWS.to_parquet(tmp_path / "rows.parquet")
    con = duckdb.connect(str(tmp_path / "user.db"))
    con.read_parquet(str(tmp_path / "rows.parquet")).create("visits")
    con.execute("CREATE TEMP TABLE none AS FROM visits WHERE false")
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=100, delta=0.1)
    dp.register(con, ledger=ledger)
    return World(tmp_path, con, ledger)


Ask = Callable[[World, str, dict[str, Any]], object]


def python(source: Callable[[World], Any]) -> Ask:
    def ask(world: World, spec: str, given: dict[str, Any]) -> object:
        return dp.tree_counts(source(world), spec, ledger=world.ledger, **BUDGET, **given)

    return ask


def macro(table: str) -> Ask:
    def ask(world: World, spec: str, given: dict[str, Any]) -> object:
        more = "".join(f", {name} := '{value}'" for name, value in given.items())
        budget = "epsilon := 1.0, delta := 1e-6"
        return world.con.sql(f"FROM dp_tree_counts('{table}', '{spec}', {budget}{more})").fetchall()

    return ask


def explained(world: World, spec: str, given: dict[str, Any]) -> object:
    return ROWS.dp.explain_tree_counts(spec, **BUDGET, **given)


def declared(world: World, spec: str, given: dict[str, Any]) -> object:
    kinds = {"n": "bigint", "x": "double", "yes": "boolean", "day": "timestamp", "place": "text"}
    if given.get("weight") == "place":  # texts can be whole numbers, as in a CSV file
        raise ColumnError("column 'place' has type VARCHAR; a weight is read from whole numbers.")
    return dp.tree_rollup_sql(spec, table="t", dialect="spark", types=kinds, **BUDGET, **given)


DOORS: dict[str, Ask] = {
    "pandas": python(lambda world: ROWS),
    "Arrow": python(lambda world: pa.Table.from_pandas(ROWS)),
    "Polars": python(lambda world: pl.from_pandas(ROWS)),
    "relation": python(lambda world: world.con.table("visits")),
    "Parquet": python(lambda world: world.folder / "rows.parquet"),
    "SQL": macro("visits"),
    "SQL, temporary and empty": macro("temp.none"),
    "explain": explained,
    "warehouse": declared,
}


@some("pandas", "Polars", "SQL", "explain")
@pytest.mark.parametrize("door", DOORS)
def test_a_type_that_cannot_be_read_costs_nothing(world: World, door: str) -> None:
    """Law: the same words at every door, with what to do, and nothing in the ledger."""
    questions = [*((spec, {}) for spec in UNREADABLE), *(("columns:place", w) for w in WEIGHTS)]
    for spec, given in questions:
        with pytest.raises((ColumnError, duckdb.Error)) as raised:
            DOORS[door](world, spec, given)
        hierarchy = as_hierarchy(spec)
        column = given.get("weight", hierarchy.source_columns[0])
        reads = "a weight is read from whole numbers" if given else f"{hierarchy.kind} reads"
        assert re.search(rf"column '{column}' has type .*; {reads}", str(raised.value)), spec
    assert world.charges == 0


def test_nor_in_streams_devices_and_synthetic_rows(world: World) -> None:
    """The other questions of the same columns; what can be read still is."""
    frame = ROWS.assign(month=pd.PeriodIndex(ROWS["day"], freq="M"))
    for ask in (
        lambda: dp.StreamingHHH("ip:n").update(ROWS),
        lambda: dp.hhh(ROWS, "date:n", mechanism="streaming", ledger=world.ledger, **BUDGET),
        lambda: dp.hhh(ROWS, "ip:x", user="n", ledger=world.ledger, **BUDGET),
        lambda: dp.hhh(frame, "date:month", ledger=world.ledger, **BUDGET),
        lambda: dp.synthesize(ROWS, {"day": (0, 9)}, epsilon=1.0, ledger=world.ledger),
        lambda: dp.synthesize(ROWS, "ip:n?version=4", epsilon=1.0, ledger=world.ledger),
        lambda: dp.synthesize(
            frame, {"month": ("2024-01-01", "2025-01-01")}, epsilon=1.0, ledger=world.ledger
        ),
    ):
        with pytest.raises(ColumnError, match="has type"):
            ask()
    with pytest.raises(duckdb.Error, match="has type BIGINT; date reads"):
        world.con.sql(
            "FROM dp_hhh('visits', 'date:n', epsilon := 1.0, delta := 1e-6, "
            "mechanism := 'streaming')"
        )
    assert world.charges == 0
    days = frame.assign(p=pd.PeriodIndex(frame["day"], freq="D"))
    labels = dp.hhh(days, "date:p?levels=day", **BUDGET)["prefix"].tolist()
    assert labels == ["*", "2024-03-01", "2024-03-02"]  # periods that name one day
    assert dp.hhh(frame, ["month"], **BUDGET)["month"].tolist()[1:] == ["2024-03"]


CONVERSIONS: dict[str, tuple[str, str]] = {
    "ip:n": ("1.2.3.4/32", r"in pandas (.*), in SQL (.*)\.$"),
    "date:n?levels=year": ("1970", r"1970: (.*), in SQL (.*); milliseconds"),
    "date:month?levels=month": ("2024-03", r"beginnings, (.*), or ()"),
    "date:ymd?levels=day": ("2025-12-31", r"20251231: (.*), (try_strptime.*)\. Pass"),
    "number:took?lower=0&upper=9&depth=1": ("[0, 4.5)", r"seconds: (.*) in pandas, (.*) in SQL\.$"),
    "path:parts": ("a/b", r"in pandas (.*), in SQL (.*)\.$"),
}


@pytest.mark.parametrize("spec", CONVERSIONS)
def test_what_a_refusal_says_to_write_can_be_read(spec: str) -> None:
    """Law: the column that the message tells how to make is read, and holds what it should."""
    df = ROWS.assign(
        month=pd.PeriodIndex(ROWS["day"], freq="M"),
        took=pd.Timedelta(seconds=2),
        ymd=20251231,
        parts=pd.Series([["a", "b"]] * len(ROWS), dtype=pd.ArrowDtype(pa.list_(pa.string()))),
    )
    label, words = CONVERSIONS[spec]
    hierarchy = as_hierarchy(spec)
    (column,) = hierarchy.source_columns
    with pytest.raises(ColumnError) as raised:
        dp.hhh(df, spec, **BUDGET)
    found = re.search(words, str(raised.value))
    assert found is not None, str(raised.value)
    in_pandas, in_sql = found.groups()
    written = eval(in_pandas, {"df": df, "pd": pd, "ipaddress": ipaddress})
    sources: list[object] = [df[["x"]].assign(**{column: written})]
    if in_sql:
        con = duckdb.connect()
        con.register("rows_here", pa.table({column: pa.Array.from_pandas(df[column])}))
        sources.append(con.sql(f'SELECT {in_sql} AS "{column}" FROM rows_here'))
    for source in sources:
        assert label in dp.hhh(source, spec, **BUDGET)["prefix"].tolist()


def test_fractions_are_refused_as_weights_and_cents_counted() -> None:
    """A float column is an error that names the ways, whatever its values are: whole units, sums
    of the column as it is, and what is heavy by it."""
    sales = pd.DataFrame({"country": ["UK", "FR"] * 500, "revenue": [3.75, 2.0] * 500})
    for revenue in (sales["revenue"], pd.Series([1, None] * 500)):  # floats by a missing value
        with pytest.raises(ColumnError, match=r"\(df\['revenue'\] \* 100\)\.round\(\)") as raised:
            sales.assign(revenue=revenue).dp.tree_counts(["country"], weight="revenue", **BUDGET)
        said = str(raised.value)
        assert "df['revenue'].astype('Int64')" in said
        assert "df.dp.rollup(by, {'total': dp.sum('revenue', lower=0, upper=...)}, ...)" in said
        assert "df.dp.hhh(..., weight='revenue', max_weight=...)" in said
    cents = sales.assign(revenue=(sales["revenue"] * 100).round().astype("Int64"))
    with seeded_noise(1):
        result = cents.dp.tree_counts(["country"], weight="revenue", max_weight=1000, **BUDGET)
    assert abs(result["count"][0] - 287_500) < 60_000


@pytest.mark.parametrize(
    "revenue",
    [
        pd.Series([12.5, None], dtype="float32"),
        pd.Series([Decimal("12.50"), None]),
        pd.Series([Decimal("12.50"), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        pd.Series(["12.50", None]),
        pd.Series(["12.50", "none"], dtype="category"),
    ],
)
def test_what_a_refused_weight_says_to_write_counts_hundredths(revenue: pd.Series) -> None:
    """Law: in pandas and in SQL the same whole numbers, none of them rounded to units."""
    df = pd.DataFrame({"x": "a", "revenue": revenue})
    with pytest.raises(ColumnError, match="hundredths, max_weight too") as raised:
        dp.tree_counts(df, ["x"], weight="revenue", **BUDGET)
    found = re.search(r"in pandas (.*), in SQL (.*?)\.( |$)", str(raised.value))
    assert found is not None
    assert eval(found[1], {"df": df, "pd": pd}).tolist() == [1250, pd.NA]
    con = duckdb.connect()
    con.register("rows_here", pa.table({"revenue": pa.Array.from_pandas(revenue)}))
    assert con.sql(f"SELECT {found[2]} FROM rows_here").fetchall() == [(1250,), (None,)]


def test_weights_of_text_say_what_counts_nothing(tmp_path: Path) -> None:
    """Law: a CSV file is text, so its fractions count 0; the receipt and its card say so."""
    file = tmp_path / "sales.csv"
    file.write_text("country,revenue\n" + "UK,12\nFR,12.50\n" * 400)
    out = tmp_path / "out.json"
    flags = ["--weight=revenue", "--max-weight=20", "--epsilon=2", "--delta=1e-6"]
    assert cli.main(["tree-counts", str(file), "columns:country", *flags, f"-o={out}"]) == 0
    result = dp.tree_counts(
        file, ["country"], weight="revenue", max_weight=20, epsilon=2.0, delta=1e-6
    )
    assert abs(result["count"][0] - 4800) < 1000
    receipt = result.dp.receipt
    assert "that are no whole number, such as 12.50, count 0" in str(receipt)
    assert "such as 12.50, count 0" in out.read_text()
    assert "not as they were cut or left out" in receipt["intervals"]
    plain = dp.tree_counts(file, ["country"], epsilon=2.0, delta=1e-6).dp.receipt
    assert "12.50" not in str(plain)
    assert "notices" not in receipt


@pytest.mark.parametrize("mechanism", ["additive", "hhh"])
def test_weights_that_may_all_count_nothing_are_noticed(tmp_path: Path, mechanism: str) -> None:
    """Law: by the released total alone, where weights are texts; numbers need no such words."""
    file = tmp_path / "sales.csv"
    file.write_text("country,revenue\n" + "UK,12.25\nFR,12.50\n" * 400)
    asked = {"weight": "revenue", "max_weight": 20, "mechanism": mechanism, **BUDGET}
    receipt = dp.tree_counts(file, ["country"], **asked).dp.receipt
    (said,) = receipt["notices"]
    assert "does column 'revenue' hold whole numbers?" in said
    assert said.partition(": ")[2] in str(receipt)
    nothing = pd.DataFrame({"country": ["UK"] * 400, "revenue": 0})
    receipt = nothing.dp.tree_counts(["country"], **asked).dp.receipt
    assert not any("weights" in one for one in receipt["notices"])
    assert "12.50" not in str(receipt)


def test_the_type_of_a_weight_in_a_warehouse_is_said() -> None:
    """Law: a column that nobody gave a type could hold fractions, which would count 0 as texts."""
    made: dict[str, Any] = {"table": "t", "dialect": "postgres", **BUDGET, "weight": "w"}
    for types, words in (
        (None, "types lacks 'w', the weight.*types={'w': 'bigint'}"),
        ({"w": "numeric"}, "DECIMAL, which may hold fractions"),
        ({"w": "numeric(9,2)"}, "has type DECIMAL; a weight is read from whole numbers"),
        ({"w": "float8"}, "has type DOUBLE; a weight is read from whole numbers"),
    ):
        with pytest.raises(ColumnError, match=words):
            dp.tree_rollup_sql(["a"], types=types, **made)
    for kind in ("bigint", "numeric(20,0)", "text"):
        assert dp.tree_rollup_sql(["a"], types={"w": kind}, **made).sql


MOSTLY = "more than half of what was counted: does column 'place' hold"


@pytest.mark.parametrize("mechanism", ["offline", "streaming", "laplace"])
def test_a_result_that_is_mostly_invalid_says_so(mechanism: str, tmp_path: Path) -> None:
    """Law: the released numbers alone decide, and the card says it first; stored, it stays."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=100, delta=0.1)
    spec = "number:place?lower=0&upper=9"
    given: dict[str, Any] = {"mechanism": mechanism, "ledger": ledger, **BUDGET}
    result = dp.hhh(ROWS, spec, release=mechanism, **given)
    for receipt in (result.dp.receipt, ledger.recall(mechanism).dp.receipt):
        assert f"{MOSTLY} numbers" in receipt["notices"][0]
        assert str(receipt).splitlines()[2].startswith("notice")
    half = ROWS.assign(place=["1"] * 400 + ["x"] * 200)
    assert "notices" not in dp.hhh(half, spec, **given).attrs["dp"]


def test_of_columns_the_one_that_is_mostly_missing_is_named(tmp_path: Path) -> None:
    rows = ROWS.assign(city=None, place=ROWS["place"])
    receipt = dp.tree_counts(rows, ["place", "city"], **BUDGET).dp.receipt
    assert ["'city' hold values" in said for said in receipt["notices"]] == [True]
    rows.to_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "out.html"
    flags = ["--epsilon=1", "--delta=1e-6", f"-o={out}"]
    assert cli.main(["hhh", str(tmp_path / "rows.parquet"), "columns:city", *flags]) == 0
    assert "hold values" in out.read_text()


def test_what_looks_at_types_draws_nothing(world: World) -> None:
    """Law: a query that releases by itself is run once, and charged once, for the question that it
    is the source of."""
    first = "dp_hhh(''visits'', ''columns:place'', epsilon := 1.0, delta := 1e-6)"
    inner = f"SELECT prefix, count FROM {first}"
    world.con.sql(
        f"FROM dp_tree_counts(query := '{inner}', hierarchy := 'columns:prefix', "
        "weight := 'count', max_weight := 9000, epsilon := 1.0, delta := 1e-6)"
    ).fetchall()
    assert world.charges == 2
