"""Cells of several hierarchies that another engine counts: the frames that DuckDB's rows give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.dialects import DIALECTS
from dpframe.errors import ColumnError, ParameterError, SourceError
from dpframe.hierarchy import as_hierarchies
from dpframe.sources.rollup_parts import RowParts
from dpframe.testing import seeded_noise
from tests import engines
from tests.hostile import DATES, DOMAINS, IPS, NUMBERS, PATHS
from tests.integration.test_cells_front_doors import ASKED, talks
from tests.integration.test_measures_elsewhere import MEASURES, ROWS

BUDGET: dict[str, Any] = {"epsilon": 9.0, "delta": 1e-6}
SHAPES: list[Any] = [
    "country * path:path?depth=3",
    ["country", "path:path"],
    *("sets:country,city;city", "number:whole?lower=0&upper=40&depth=3 * country * yes"),
    "columns:country,city?invalid=drop * columns:rate,cents",
]
"""Ragged, nested, sets, three dimensions, and values that engines write in their own ways."""


class Duck:
    """DuckDB as a warehouse."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()

    def load(self, name: str, table: pa.Table) -> None:
        self.connection.register(name, table)

    def query(self, sql: str) -> pa.Table:
        return self.connection.sql(sql).to_arrow_table()


@pytest.fixture(
    scope="module",
    params=["duckdb", *(pytest.param(e, marks=pytest.mark.engines) for e in ("postgres", "spark"))],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "duckdb":
        warehouse = Duck()
        yield warehouse
        warehouse.connection.close()
        return
    with getattr(engines, request.param)() as running:
        yield running


def name_of(engine: Any) -> str:
    return "duckdb" if isinstance(engine, Duck) else str(engine.dialect.name)


@pytest.mark.parametrize("by", SHAPES, ids=str)
def test_rollups_of_candidates_are_those_of_the_rows(engine: Any, by: Any) -> None:
    """Law: a statement, its rows in any order, and the frame: one noise, one answer."""
    engine.load("rows", ROWS)
    with seeded_noise(7):
        made = dp.measures_sql(
            by,
            MEASURES,
            table="rows",
            dialect=name_of(engine),
            types=engines.canonical_types(ROWS),
            **BUDGET,
        )
        found = engine.query(made.sql).to_pandas().sample(frac=1, random_state=1)
        got = dp.rollup(candidates=found, plan=made.plan)
    with seeded_noise(7):
        want = dp.rollup(ROWS, by, MEASURES, **BUDGET)
    pd.testing.assert_frame_equal(got, want)
    assert len(got) > 3


HOSTILE: list[tuple[pa.Table, pa.Table, str, str]] = [
    (PATHS, IPS, "path:a?depth=3", "ip:b?prefixes=8,16&prefixes6=16,32"),
    (DOMAINS, DATES, "domain:a?depth=2&invalid=drop", "date:b?levels=year,month"),
    (NUMBERS, PATHS, "number:a?lower=0&upper=100&depth=3", "code:b?lengths=1,3"),
]


@pytest.mark.parametrize(("one", "two", "a", "b"), HOSTILE, ids=[a for *_, a, _ in HOSTILE])
def test_hostile_values_are_in_the_same_cells(
    engine: Any, one: pa.Table, two: pa.Table, a: str, b: str
) -> None:
    """Law: no engine fails at a value, and each counts where it counts in DuckDB."""
    left, right = one["c"].cast(pa.string()), two["c"].cast(pa.string())
    n = len(left) * len(right)
    pairs = pa.table(
        {
            "a": left.take(pa.array(np.arange(n) // len(right))),
            "b": right.take(pa.array(np.arange(n) % len(right))),
        }
    )
    engine.load("pairs", pairs)
    asked: dict[str, Any] = {**BUDGET, "threshold": 40}
    with seeded_noise(3):
        made = dp.rollup_sql(f"{a} * {b}", table="pairs", dialect=name_of(engine), **asked)
        got = dp.hhh(candidates=engine.query(made.sql), plan=made.plan)
    with seeded_noise(3):
        want = dp.hhh(pairs, f"{a} * {b}", **asked)
    pd.testing.assert_frame_equal(got, want)
    assert len(got) > 3


def test_no_rows_are_a_rest_of_zero(engine: Any) -> None:
    engine.load(
        "nothing", pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.int64())})
    )
    made = dp.rollup_sql("a * b", table="nothing", dialect=name_of(engine), **BUDGET)
    found = engine.query(made.sql)
    assert found.num_rows == 1
    assert dp.hhh(candidates=found, plan=made.plan)["prefix"].tolist() == ["*"]


@pytest.mark.engines
@pytest.mark.parametrize(
    "arguments",
    [
        {"user": "who", "contribution": "share", "threshold": 40},
        {"user": "who", "contribution": "records", "max_contributions": 3, "threshold": 300},
        {"weight": "bytes", "max_weight": 16, "threshold": 3000},
        {"totals": True, "threshold": 300},
    ],
    ids=str,
)
def test_users_weights_and_totals(engine: Any, arguments: dict[str, Any]) -> None:
    """Law: everything that a statement of one hierarchy counts, one of several counts."""
    if "weight" in arguments and name_of(engine) != "duckdb":
        with pytest.raises(ParameterError, match="integers of 128 bits"):
            dp.rollup_sql(ASKED, table="t", dialect=name_of(engine), **BUDGET, **arguments)
        return
    rows = pa.Table.from_pandas(talks())
    engine.load("talks", rows)
    made = dp.rollup_sql(
        *(ASKED,),
        table="talks",
        dialect=name_of(engine),
        types=engines.canonical_types(rows),
        **BUDGET,
        **arguments,
    )
    found = dp.hhh(candidates=engine.query(made.sql), plan=made.plan)
    want = dp.hhh(rows, ASKED, **BUDGET, **arguments)
    busy = "10.0.0.1/32 * 192.168.0.0/16"
    for frame in (found, want):
        assert busy in set(frame["prefix"])
    far = 12 * (16 if "weight" in arguments else 1)
    sums = [frame["residual"].sum() for frame in (found, want)]
    assert abs(sums[0] - sums[1]) <= far * (len(found) + len(want))


SEVERAL = {
    "n": "count",
    "m": dp.mean("amount", lower=-20, upper=100),
    "different": dp.distinct("whole"),
    "found": "sum(whole, auto, auto)",
}


@pytest.mark.engines
@pytest.mark.parametrize(
    ("by", "measures"), [(SHAPES[0], MEASURES), *((s, SEVERAL) for s in SHAPES)]
)
def test_spark_frames_are_those_of_duckdb(session: Any, by: Any, measures: Any) -> None:
    """Law: of records, of different values and of bounds that are searched; no view stays."""
    spark = session.createDataFrame(ROWS)
    found = []
    for source in (ROWS, spark):
        with seeded_noise(7):
            found.append(dp.rollup(source, by, measures, **BUDGET))
    pd.testing.assert_frame_equal(*found)
    assert len(found[0]) > 3
    assert not [t for t in session.catalog.listTables() if t.name.startswith("dpframe")]


@pytest.mark.engines
def test_spark_divides_users_over_segments_as_duckdb_does(session: Any) -> None:
    """Law: given the reported cells, what users add to segments is the same, number by number."""
    spark = session.createDataFrame(ROWS)
    cells = as_hierarchies("country * path:path?depth=3", "by")
    measures = {
        "n": "count",
        "rows": dp.count(at_most=2),
        "s": dp.sum("amount", lower=-10, upper=50, clipped=True),
        "m": dp.mean("amount", lower=-20, upper=100),
        "d": dp.distinct("whole", at_most=3),
    }
    plan = dp.explain_rollup(cells, measures, **BUDGET, user="who").plan
    kept: list[Any] = []
    with seeded_noise(1):
        told = dp.rollup(ROWS, cells, measures, **BUDGET, user="who")
    nodes = reported(told, cells)
    for source in (ROWS, spark):
        parts = RowParts(
            source=source, hierarchy=cells, unit=PrivacyUnit(user="who"), progress=False
        )
        found = [list(v) for v in parts.of_rows(plan.vectors, nodes)]
        # of users with three rows each all pairs count, whatever the hash is
        found.append(list(parts.distinct(plan.counts["d"].distinct, nodes)))
        kept.append(found)
    assert kept[0] == kept[1]
    assert sum(map(bool, kept[0][0])) > 3


@pytest.mark.engines
def test_spark_answers_by_user(session: Any) -> None:
    """Law: every user weighs one, and they are divided over all there is."""
    spark = session.createDataFrame(ROWS)
    by_user: dict[str, Any] = {**BUDGET, "user": "who"}
    result = dp.rollup(spark, "country * city", "count", **by_user, contribution="share")
    assert abs(result["count"].sum() - ROWS.num_rows // 3) < 30
    for measures in ("count", {"n": "count", "s": "sum(whole, 0, auto)"}):
        shown = []
        for source in (spark, ROWS):
            with seeded_noise(4):
                shown.append(dp.rollup(source, "country * city", measures, **by_user))
        pd.testing.assert_frame_equal(*shown)
        assert abs(shown[0].iloc[0, 6] - ROWS.num_rows // 3) < 30
    with pytest.raises(ParameterError, match="Spark lacks"):
        dp.rollup(
            spark, "country * city", {"s": "sum(whole, 0, 9)"}, **BUDGET, heavy="s", threshold=500
        )


def made(**more: Any) -> Any:
    measures = {"n": "count", "sent": dp.sum("bytes", lower=0, upper=20)}
    return dp.measures_sql(
        ASKED,
        measures,
        table="talks",
        dialect="duckdb",
        types={"bytes": "bigint"},
        **BUDGET,
        **more,
    )


@pytest.fixture(scope="module")
def answer() -> pd.DataFrame:
    return in_duckdb(made())


def in_duckdb(statement: Any) -> pd.DataFrame:
    warehouse = Duck()
    warehouse.load("talks", pa.Table.from_pandas(talks()))
    found = warehouse.query(statement.sql).to_pandas()
    warehouse.connection.close()
    return found


Change = Callable[[pd.DataFrame], pd.DataFrame]


def put(column: str, value: Any, where: str = "l2 == 2") -> Change:

    def changed(frame: pd.DataFrame) -> pd.DataFrame:
        out = frame.astype({column: object})
        out.loc[frame.query(where).index[0], column] = value
        return out

    return changed


def counted(change: Change) -> Change:
    """With the number of rows that the statement would have told."""
    return lambda frame: change(frame).pipe(lambda rows: rows.assign(nodes=len(rows)))


WRONG: list[tuple[Change, str]] = [
    (lambda f: f.iloc[:-1], "candidates lacks rows"),
    (lambda f: f.drop(columns="l2"), "no column 'l2'"),
    (counted(lambda f: f.query("l1 > 0 or l2 > 0")), "exactly one row with all levels 0"),
    (counted(lambda f: pd.concat([f, f.query("l2 == 2").head(1)])), "a repeated group"),
    (put("l1", 5), "levels outside 0 to 4"),
    (put("l2", -1), "levels outside 0 to 2"),
    (put("l2", 1), "keys that are no nodes"),
    (put("t1", "12"), "keys that are no nodes"),
    (put("t1", "x", "l1 == 0"), "keys that are no nodes"),
    (put("n", 0), "groups of no records"),
    (put("n", 2**62), "counts beyond"),
    (put("x1", str(10**30)), "sums that its counts cannot have"),
    (put("plan", "another"), "belongs to another plan"),
]


@pytest.mark.parametrize(("change", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_result_that_is_none_is_refused_and_not_charged(
    answer: pd.DataFrame, tmp_path: Any, change: Change, said: str
) -> None:
    """Law: strict, before anything is charged, and no value of the result is quoted."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=20.0, delta=1e-5)
    with pytest.raises((SourceError, ColumnError), match=said) as error:
        dp.rollup(candidates=change(answer), plan=made().plan, ledger=ledger)
    assert "10.0.0" not in str(error.value)
    assert ledger.spent.epsilon == 0


FORMS: dict[str, Change] = {
    "upper case": lambda frame: frame.rename(columns=str.upper),
    "decimals": lambda frame: frame.assign(n=[Decimal(n) for n in frame["n"]]),
    "floats": lambda frame: frame.astype({"l1": float, "n": float}),
    "other order": lambda frame: frame[::-1][sorted(frame.columns)],
    "categories": lambda frame: frame.astype({"t1": "category"}),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_form_of_a_result_does_not_matter(answer: pd.DataFrame, form: Change) -> None:
    """Law: as clients return it: names in any case, numbers and texts in any type, any order."""
    found = []
    for candidates in (answer, form(answer)):
        with seeded_noise(5):
            found.append(dp.rollup(candidates=candidates, plan=made().plan))
    pd.testing.assert_frame_equal(*found)


@pytest.mark.parametrize(("text", "other"), [("1", "01"), ("1", " 1")])
def test_two_texts_of_one_node_are_one_group(text: str, other: str) -> None:
    """Law: a record is in one group, however a client writes its node."""
    plan = dp.rollup_sql(
        "a * b", table="t", dialect="duckdb", types={"a": "integer", "b": "integer"}, **BUDGET
    ).plan
    rows = [(0, 0, 0, None, None), (9, 1, 1, text, "5"), (9, 1, 1, other, "5")]
    frame = pd.DataFrame(rows, columns=["n", "l1", "l2", "t1", "t2"])
    with pytest.raises(SourceError, match="a repeated group"):
        dp.hhh(candidates=frame.assign(plan=plan.fingerprint, nodes=3), plan=plan)


def test_a_collation_that_takes_texts_for_equal_gets_no_result() -> None:
    """Law: whatever the rows are, so that no text of one decides it."""
    with duckdb.connect() as con:
        con.execute("SET default_collation = 'nocase'")
        con.execute("CREATE TABLE t AS SELECT 'x' AS a, 'y' AS b")
        statement = dp.rollup_sql("a * b", table="t", dialect="duckdb", **BUDGET)
        with pytest.raises(duckdb.Error, match="RESET default_collation"):
            con.sql(statement.sql).df()


def test_a_node_below_the_band_is_refused() -> None:
    """Law: a result that has finer nodes than its plan lets travel is of something else."""
    fine, coarse = made(), made(threshold=300)
    found = in_duckdb(fine).assign(plan=coarse.plan.fingerprint)
    with pytest.raises(SourceError, match="below the"):
        dp.rollup(candidates=found, plan=coarse.plan)


def reported(told: pd.DataFrame, cells: Any) -> Any:
    """The nodes of a frame, as the statements take them."""
    from dpframe.mechanisms.rollup import Nodes

    kinds = [(0, 0), *reversed(cells.kinds)]
    columns: list[list[str | None]] = []
    for name, one in zip(cells.names, cells.of, strict=True):
        assert one.key_width == 1
        found = [None if t == "*" or "<invalid>" in t else t for t in told[name]]
        columns.append(found)
    assert {kinds[level] for level in told["level"]} <= set(kinds)
    return Nodes(
        level=told["level"].to_numpy(),
        ancestor=np.full(len(told), -1),
        keys=tuple(pa.chunked_array([pa.array(c, pa.string())]) for c in columns),
    )


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("unit", [{}, {"user": "u"}], ids=str)
def test_statements_are_one_select_of_their_dialect(name: str, unit: dict[str, Any]) -> None:
    """As sqlglot reads the dialect; for Snowflake and BigQuery nothing else is tested."""
    sqlglot = pytest.importorskip("sqlglot")
    by = "country * date:day?levels=year,month * number:x?lower=0&upper=1&depth=2"
    made = dp.rollup_sql(
        by, table="visits", dialect=name, types={"day": "date", "x": "double"}, **BUDGET, **unit
    )
    (tree,) = sqlglot.parse(made.sql, read=name)
    assert tree.key == "select"
    assert tuple(tree.named_selects) == made.plan.columns
