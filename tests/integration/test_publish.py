"""Published results as BI tools read them: DuckDB, SQLAlchemy, pandas, Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from pandas.testing import assert_frame_equal

import dpframe as dp
from dpframe import publish
from dpframe.asking.release import receipt_in_metadata
from dpframe.publishing.results_tables import MEASURE_COLUMNS
from tests.published import (
    NOVEMBER,
    OCTOBER,
    SALES,
    VISITS,
    as_released,
    assert_whole,
    content,
    engine_of,
    ledger_in,
    rows,
)

COLUMNS = "FROM duckdb_columns() WHERE NOT internal"


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return ledger_in(tmp_path)


@pytest.fixture
def results(ledger: dp.Ledger, tmp_path: Path) -> Path:
    publish(ledger, tmp_path / "results.duckdb")
    return tmp_path / "results.duckdb"


@pytest.fixture
def database(results: Path) -> Iterator[sa.Engine]:
    made = engine_of(results)
    yield made
    made.dispose()


# -- what is in it -------------------------------------------------------------------------------


def test_tables_hold_what_was_released_and_views_the_newest(
    ledger: dp.Ledger, results: Path
) -> None:
    """Same columns, order and rows; a family's columns may change from release to release."""
    found = content(results)
    assert assert_whole(found) == 3
    for name, table in ((OCTOBER, "ips_2026_10"), (SALES, "grösse_2026_q3")):
        assert_frame_equal(as_released(found[table]), ledger.recall(name), check_dtype=False)
    newest = ledger.recall(NOVEMBER)
    assert "Level_" in newest.columns  # SQL takes Level and level for one name
    for name in ("ips_2026_11", "ips_latest"):
        assert_frame_equal(as_released(found[name]), newest, check_dtype=False)
    types = {kind for (kind,) in rows(results, f"SELECT data_type {COLUMNS}")}
    assert types <= {"VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"}  # flat


def test_releases_and_budget_are_those_of_the_ledger(ledger: dp.Ledger, results: Path) -> None:
    """One row a named release with its receipt, and what all charges cost."""
    found = content(results)
    listed = found["dp_releases"]
    assert list(listed["release"]) == [OCTOBER, SALES, NOVEMBER]
    assert list(listed["charge"]) == [1, 2, 3]
    assert list(listed["is_latest"]) == [False, True, True]
    for row in listed.itertuples():
        receipt = ledger.recall(row.release).attrs["dp"]
        assert json.loads(row.receipt) == receipt
        for fact in ("guarantee", "neighbours", "epsilon", "delta", "threshold", "confidence"):
            assert getattr(row, fact) == receipt[fact]
        assert pd.Timestamp(row.time, tz="UTC") == pd.Timestamp(receipt["time"])
    budget = found["dp_budget"].drop(columns="ledger_id")
    assert_frame_equal(budget, ledger.summary().drop(columns="ledger"), check_dtype=False)
    assert found["dp_budget"]["ledger_id"][0] == ledger.ledger_id


def test_everything_has_a_comment(results: Path) -> None:
    """Tables carry the guarantee, columns what they mean, intervals their confidence."""
    named = "SELECT table_name, comment FROM duckdb_tables() UNION ALL SELECT view_name, comment "
    comments = dict(rows(results, f"{named} FROM duckdb_views() WHERE NOT internal"))
    guarantee = "(0.5, 1e-06)-differential privacy for adding or removing one record"
    assert set(comments) == set(content(results))
    assert all(comments.values())
    assert guarantee in comments["ips_2026_11"]
    assert guarantee in comments["ips_latest"]
    columns = rows(results, f"SELECT table_name, column_name, comment {COLUMNS}")
    by_name = {(table, column): comment for table, column, comment in columns}
    assert all(by_name.values())
    assert "0.9" in by_name["ips_latest", "lower"]
    assert "records" in by_name["ips_latest", "count"]
    assert "users, each weighing 1" in by_name["grösse_2026_q3", "count"]
    assert "'Level' at level 1" in by_name["ips_2026_11", "Level_"]


def test_the_same_ledger_gives_the_same_content(ledger: dp.Ledger, tmp_path: Path) -> None:
    """Publishing adds no clock and no path: equal tables, equal Parquet bytes."""
    for name in ("a.duckdb", "b.duckdb", "b.duckdb"):
        publish(ledger, tmp_path / name)
    first, second = content(tmp_path / "a.duckdb"), content(tmp_path / "b.duckdb")
    assert list(first) == list(second)
    for name, frame in first.items():
        assert_frame_equal(frame, second[name])
    files = sorted((tmp_path / "a_parquet").iterdir())
    assert len(files) == 7
    for file in files:
        assert file.read_bytes() == (tmp_path / "b_parquet" / file.name).read_bytes()
    assert str(tmp_path) not in "".join(f.to_csv() for f in first.values())


def test_a_choice_of_releases_renames_none_and_drops_the_others(
    ledger: dp.Ledger, results: Path
) -> None:
    """The newest of a family is the newest that is published."""
    publish(ledger, results, releases=[OCTOBER])
    found = content(results)
    assert set(found) == {"dp_releases", "dp_budget", "ips_2026_10", "ips_latest", "ips_all"}
    assert {p.stem for p in (results.parent / "results_parquet").iterdir()} == set(found) - {
        "ips_latest"
    }
    assert assert_whole(found) == 1


def test_tree_counts_are_published(tmp_path: Path) -> None:
    """Listed keys and found ones: rows as they are, comments of counts, facts in the list."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=10.0, delta=1e-4)
    asked = {"epsilon": 1.0, "ledger": ledger}
    dp.tree_counts(VISITS, ["city", "src"], **asked, keys=[("Rome", "x")], release="listed-1")
    dp.tree_counts(VISITS, "ip:src", **asked, delta=1e-6, release="found-1", consistent=False)
    dp.tree_counts(VISITS, "ip:src", **asked, delta=1e-6, mechanism="hhh", release="added-1")
    weight = {"weight": "who", "max_weight": 3}
    dp.tree_counts(VISITS, ["city"], **asked, keys=["Rome"], **weight, release="weights-1")
    target = tmp_path / "results.duckdb"
    shown = publish(ledger, target).set_index("release")
    found = content(target)
    assert assert_whole(found) == 4
    for name, table in shown["table_name"].items():
        assert_frame_equal(as_released(found[table]), ledger.recall(str(name)), check_dtype=False)
    listed = found["dp_releases"].set_index("release")
    assert pd.isna(listed["threshold"]["listed-1"])
    assert listed["threshold"]["found-1"] > 0
    assert listed["delta"]["listed-1"] == 0
    assert listed["mechanism"]["added-1"] == "tree-hhh"
    assert "1-differential privacy for adding or" in listed["guarantee"]["listed-1"]
    assert "at most 3 records (column 'who')" in listed["neighbours"]["weights-1"]
    assert json.loads(listed["receipt"]["weights-1"])["max_weight"] == 3
    columns = rows(target, f"SELECT table_name, column_name, comment {COLUMNS}")
    said = {(table, column): comment for table, column, comment in columns}
    assert all(said.values())
    for table in ("listed_1", "listed_latest", "added_1"):
        assert "never negative" in said[table, "count"]
        assert "<other> what no other row covers" in said[table, "prefix"]
    assert "may be negative" in said["found_1", "count"]
    assert "NULL if keys" in said["dp_releases", "threshold"]
    assert "'city' at level 1" in said["listed_1", "city"]
    assert "of which a row stands for as many as column 'who' says" in said["weights_1", "count"]


PAID: dict[str, Any] = {
    "orders": "count",
    "paid": dp.sum("who", lower=0, upper=600, clipped=True),
    "typical": dp.mean("who", lower=0, upper=600),
    "people": dp.distinct("who"),
}


def rolled_up(folder: Path, way: str = "share") -> dp.Ledger:
    """Two rollups with other measures and hierarchies, and a release that is none."""
    ledger = dp.Ledger(folder / "b.db", epsilon=60.0, delta=0.1)
    asked = {"epsilon": 8.0, "delta": 1e-6, "ledger": ledger}
    dp.rollup(VISITS, ["city", "src"], PAID, **asked, release="paid-1")
    dp.hhh(VISITS, "ip:src", **asked, release="ips-1")
    asked |= {"user": "who", "contribution": way}
    dp.rollup(VISITS, "ip:src", {"visits": "count"}, **asked, release="paid-2")
    return ledger


@pytest.mark.parametrize("way", ["share", "items"])
def test_rollups_are_published_wide_and_long(way: str, tmp_path: Path) -> None:
    """Law: every number of a rollup is in the table of its release, and once in dp_measures, whose
    columns do not depend on what is measured; again from Parquet."""
    ledger, target = rolled_up(tmp_path, way), tmp_path / "results.duckdb"
    for _ in range(2):  # what was published is replaced
        publish(ledger, target)
    found = content(target)
    long = found.pop("dp_measures")
    assert assert_whole(found) == 3
    for release, table in (("paid-1", "paid_1"), ("paid-2", "paid_2"), ("paid-2", "paid_latest")):
        assert_frame_equal(as_released(found[table]), ledger.recall(release), check_dtype=False)
    names = [measure[0] for measure in MEASURE_COLUMNS]
    assert list(long.columns) == names
    assert set(long["release"]) == {"paid-1", "paid-2"}
    for release, table in (("paid-1", "paid_1"), ("paid-2", "paid_2")):
        own, wide = long[long["release"] == release], as_released(found[table])
        shown = [c for c in wide.columns if f"{c}_lower" in wide.columns]
        assert list(own["measure"].drop_duplicates()) == shown
        for name in shown:
            rows_of = own[own["measure"] == name].reset_index(drop=True)
            assert rows_of["level"].tolist() == wide["level"].tolist()
            assert rows_of["prefix"].tolist() == wide["prefix"].tolist()
            for ours, theirs in (("value", ""), ("lower", "_lower"), ("upper", "_upper")):
                assert rows_of[ours].tolist() == wide[f"{name}{theirs}"].astype(float).tolist()
    kinds = long.drop_duplicates(["release", "measure"]).set_index(["release", "measure"])
    assert kinds["kind"].tolist() == ["count", "sum", "clipped", "mean", "distinct", "count"]
    assert kinds["adds_up"].tolist() == [True, True, True, False, False, way == "share"]
    assert kinds["unit"]["paid-1", "people"] == "different values of who"
    unit = "users, each weighing 1" if way == "share" else "different users"
    assert unit in kinds["unit"]["paid-2", "visits"]
    parquet = pd.read_parquet(tmp_path / "results_parquet" / "dp_measures.parquet")
    assert_frame_equal(parquet, long, check_dtype=False)


def test_measures_have_comments_and_flat_types(tmp_path: Path) -> None:
    """What a column of a measure means, the bounds it was cut to, and how sure its ends are."""
    target = tmp_path / "results.duckdb"
    publish(rolled_up(tmp_path), target)
    columns = rows(target, f"SELECT table_name, column_name, comment {COLUMNS}")
    said = {(table, column): comment for table, column, comment in columns}
    assert all(said.values())
    assert "sum(who, 0, 600" in said["paid_1", "paid"]
    assert "does not add up" in said["paid_1", "typical"]
    assert "confidence 0.95" in said["paid_1", "orders_lower"]
    assert "'city' at level 1" in said["paid_1", "city"]
    assert "cut to its bounds" in said["paid_1", "paid_clipped"]
    types = {kind for (kind,) in rows(target, f"SELECT data_type {COLUMNS}")}
    assert types <= {"VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"}
    engine = engine_of(target)
    read = pd.read_sql("SELECT release, measure, value FROM dp_measures WHERE level = 0", engine)
    assert len(read) == 6
    engine.dispose()


def test_without_a_rollup_no_table_of_measures_is_there(tmp_path: Path) -> None:
    """Law: what dashboards read already stays as it is, also when a rollup is left out again."""
    ledger, target = rolled_up(tmp_path), tmp_path / "results.duckdb"
    publish(ledger, target)
    publish(ledger, target, releases="ips-1")
    assert set(content(target)) == {"dp_releases", "dp_budget", "ips_1", "ips_latest", "ips_all"}
    assert not (tmp_path / "results_parquet" / "dp_measures.parquet").exists()


# -- all of a family ------------------------------------------------------------------------------


def test_a_family_is_one_table_with_its_period(ledger: dp.Ledger, results: Path) -> None:
    """Law: the rows of every release of the family and no others, oldest first; what a release
    does not have is NULL. It is in Parquet, too."""
    found = content(results)["ips_all"]
    assert list(found.columns[:3]) == ["release", "period", "period_start"]
    for release, period in ((OCTOBER, "2026-10"), (NOVEMBER, "2026-11")):
        own = found[found["release"] == release].reset_index(drop=True)
        assert set(own.pop("period")) == {period}
        drawn = ledger.recall(release)
        assert_frame_equal(own[list(drawn.columns)], drawn, check_dtype=False)
        assert set(own.pop("period_start").astype(str)) == {f"{period}-01"}
        assert as_released(own).drop(columns=["release", *drawn.columns]).isna().all().all()
    parquet = pd.read_parquet(results.parent / "results_parquet/ips_all.parquet")
    assert_frame_equal(parquet.astype({"period_start": "datetime64[us]"}), found)
    listed = content(results)["dp_releases"].set_index("release")
    assert listed["all_table"].to_dict() == {
        OCTOBER: "ips_all", NOVEMBER: "ips_all", SALES: "grösse_all"
    }  # fmt: skip
    assert listed["period"].to_dict() == {OCTOBER: "2026-10", NOVEMBER: "2026-11", SALES: "2026-Q3"}


def test_releases_of_one_family_may_differ_in_names_and_types(tmp_path: Path) -> None:
    """Columns with other types, in other cases, and with our own names: all rows are there."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=100.0, delta=1e-4)
    asked = {"epsilon": 20.0, "delta": 1e-6, "ledger": ledger}
    sources = [
        {"city": [True] * 300, "period": ["x"] * 300, "period_": ["y"] * 300},
        {"CITY": [7] * 300, "period": ["x"] * 300, "Release": [1.5] * 300},
        {"city": ["Rome"] * 300, "period": [pd.Timestamp("2026-01-01")] * 300},
    ]
    for i, source in enumerate(sources):
        dp.hhh(pd.DataFrame(source), list(source), **asked, release=f"mixed-{i}")
    target = tmp_path / "results.duckdb"
    for _ in range(2):
        publish(ledger, target)
    found = content(target)
    assert assert_whole(found) == 3
    whole = found["mixed_all"]
    assert set(whole["period"]) == {"0", "1", "2"}
    deepest = whole[whole["level"] == 3 - (whole["release"] == "mixed-2")]
    assert deepest["city"].tolist() == ["true", "7", "Rome"]
    assert deepest["Release_"].tolist()[1] == 1.5
    assert deepest["period__"].tolist()[0] == "x"
    texts = [text[:10] for text in deepest["period_"]]  # times as Arrow writes them
    assert texts == ["y", "x", "2026-01-01"]


def test_results_of_an_older_version_are_replaced(results: Path, ledger: dp.Ledger) -> None:
    """Files without tables of families are ours, too; a table beside ours is not."""
    with duckdb.connect(results) as con:
        con.execute("ALTER TABLE dp_releases DROP all_table")
        con.execute("ALTER TABLE dp_releases DROP period")
        con.execute("DROP TABLE ips_all; DROP TABLE grösse_all")
    publish(ledger, results)
    assert assert_whole(content(results)) == 3
    with duckdb.connect(results) as con:
        con.execute("CREATE TABLE more_all AS SELECT 1 AS a")
    with pytest.raises(dp.ParameterError, match="also holds 'more_all'"):
        publish(ledger, results)


# -- how it is read ------------------------------------------------------------------------------


def test_sqlalchemy_reflects_tables_views_columns_and_comments(database: sa.Engine) -> None:
    """What BI tools on SQLAlchemy list to their users."""
    inspector = sa.inspect(database)
    lists, own = {"dp_budget", "dp_releases"}, {"grösse_2026_q3", "ips_2026_10", "ips_2026_11"}
    assert {*inspector.get_table_names()} == lists | own | {"grösse_all", "ips_all"}
    assert sorted(inspector.get_view_names()) == ["grösse_latest", "ips_latest"]
    for name in ("ips_2026_10", "grösse_latest"):
        comment = inspector.get_table_comment(name)["text"]
        assert comment is not None
        assert "differential privacy" in comment
        columns = inspector.get_columns(name)
        assert all(column["comment"] for column in columns)
        kinds = sa.BigInteger | sa.String | sa.Boolean | sa.Float
        assert all(isinstance(column["type"], kinds) for column in columns)


@pytest.mark.filterwarnings("ignore:duckdb-engine doesn't yet support reflection on indices")
def test_sqlalchemy_reflects_everything_at_once(database: sa.Engine, ledger: dp.Ledger) -> None:
    """``MetaData.reflect`` and queries built from it, by name."""
    metadata = sa.MetaData()
    metadata.reflect(database, views=True)
    assert len(metadata.tables) == 9
    ips = metadata.tables["ips_2026_10"]
    root = sa.select(ips.c.prefix, ips.c["count"]).where(ips.c.level == 0)
    with database.connect() as con:
        (found,) = con.execute(root).all()
    assert tuple(found) == tuple(ledger.recall(OCTOBER).loc[0, ["prefix", "count"]])


def test_pandas_reads_sql(database: sa.Engine, ledger: dp.Ledger) -> None:
    with database.connect() as con:
        found = pd.read_sql(sa.text("SELECT * FROM ips_2026_10"), con)
        assert_frame_equal(as_released(found), ledger.recall(OCTOBER), check_dtype=False)
        with pytest.raises(sa.exc.DBAPIError, match="read-only"):
            con.execute(sa.text("DELETE FROM ips_2026_10"))


def test_parquet_is_read_by_pyarrow_polars_and_pandas(ledger: dp.Ledger, results: Path) -> None:
    """Every file is a release with its receipt, or one of the two lists."""
    folder = results.parent / "results_parquet"
    for row in pl.read_parquet(folder / "dp_releases.parquet").iter_rows(named=True):
        file = folder / f"{row['table_name']}.parquet"
        table = pq.read_table(file)
        receipt = receipt_in_metadata(pq.read_schema(file).metadata)
        assert receipt == ledger.recall(row["release"]).attrs["dp"] == json.loads(row["receipt"])
        frame = ledger.recall(row["release"])
        assert_frame_equal(as_released(pd.read_parquet(file)), frame, check_dtype=False)
        assert_frame_equal(as_released(table.to_pandas()), frame, check_dtype=False)
        assert pl.read_parquet(file).to_dicts() == table.to_pylist()


def test_older_duckdb_can_read_the_file(results: Path) -> None:
    (tags,) = rows(results, "SELECT tags FROM duckdb_databases() WHERE database_name = 'results'")
    assert tags[0]["storage_version"] == "v1.0.0+"


def test_a_period_without_bounds_has_no_text_of_its_own(tmp_path: Path) -> None:
    """``(column, None)`` counts every row, and is no period of the name ``None``."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=1.0, delta=1e-5)
    rows = pd.DataFrame({"shop": ["a"] * 900, "day": pd.Timestamp("2026-11-05")})
    told = {"epsilon": 1.0, "delta": 1e-6, "period": ("day", None)}
    rows.dp.hhh("columns:shop", **told, ledger=ledger, release="shops-2026-11")
    done = dp.publish(ledger, tmp_path / "results.duckdb")
    assert done["period"].tolist() == ["2026-11"]
