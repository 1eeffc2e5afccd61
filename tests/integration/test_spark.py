"""Spark, classic and Connect: the frames of DuckDB, faults that leave no half release, errors.

One classic session for all tests, and one Connect session in a process of its own, which runs
beside them. Skipped without pyspark or Java; an error instead with DPFRAME_REQUIRE_SPARK=1.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe import _duck
from dpframe.budget import PrivacyUnit
from dpframe.errors import ColumnError, ParameterTypeError, SourceError
from dpframe.hierarchy import as_hierarchy
from dpframe.ledger import Ledger
from dpframe.questions.hhh.sketch_plans import partition_plan
from dpframe.sketches import MisraGries, merge_raw_sketches
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.spark import shuffle_partitions
from dpframe.sources.spark_stream import Worker, partitioned_states
from dpframe.sources.stream_batches import update_sketches
from dpframe.testing import seeded_noise
from tests.integration.spark_driver import BUDGET, STREAM, reading, shown

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
REQUIRED = os.environ.get("DPFRAME_REQUIRE_SPARK") == "1"
ROWS = 4_000

pytestmark = pytest.mark.engines


def absent() -> str | None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed"
    return None if shutil.which("java") else "Spark needs Java, which is not on PATH"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    why = absent()
    if why is not None:
        if REQUIRED:
            raise RuntimeError(why)
        pytest.skip(why)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def paths(folder: Path) -> Path:
    rng = np.random.default_rng(5)
    tops = rng.choice(["a", "b", "", "c//"], ROWS, p=[0.5, 0.3, 0.1, 0.1])
    leaves = np.minimum(rng.zipf(1.3, ROWS), 2_000)
    pairs = zip(tops, leaves, strict=True)
    text = [f"{top}/{leaf % 7}/{leaf}" if top else None for top, leaf in pairs]
    file = folder / "paths.parquet"
    users = pa.array(rng.integers(0, 500, ROWS), pa.int64())
    pq.write_table(pa.table({"path": pa.array(text, pa.string()), "user": users}), file)
    return file


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:
    """Spark's own files under another name: executors write beside them."""
    import pyspark

    made = folder / "home"
    made.mkdir()
    for file in Path(pyspark.__file__).parent.iterdir():
        (made / file.name).symlink_to(file)
    return made


@pytest.fixture(scope="module")
def driver(folder: Path, home: Path, paths: Path) -> Iterator[subprocess.Popen[str]]:
    """The program on a Connect session, started before everything else."""
    Ledger(folder / "killed.db", epsilon=3.0, delta=1e-5)
    files = [folder / "killed.db", paths, folder / "marker"]
    call = [sys.executable, "-m", "tests.integration.spark_driver", *files]
    more = {"PYTHONPATH": str(ROOT), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    started = subprocess.Popen(
        call,
        cwd=ROOT,
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    yield started
    started.kill()
    started.communicate()


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Any]:
    """Classic Spark on two threads, in which a task may fail twice."""
    from pyspark.sql import SparkSession

    os.environ["PYTHONPATH"] = str(ROOT)
    made = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than these rows
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(folder))
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
    gc.collect()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5)


def spent(ledger: Ledger) -> int:
    return len(ledger.releases())


MALFORMED = [None, "", "x", "NaN", "999.1.1.1", "1:2:3", "..", "2024-13-45", "-inf", "\u0130\u03a3"]

CASES = [
    ("tor_relay_ips", "ip:ip"),
    ("flights_nyc13", "columns:carrier,dest,flight"),
    ("git_paths_rails", "path:path"),
    ("flights_nyc13", "date:date"),
    ("flights_nyc13", "number:air_time?lower=0&upper=512&depth=6"),
    ("dns_zeek_wrccdc", "domain:query"),
    ("geo_geonames_cities500", "code:admin1_code?lengths=1,2"),
]


def sampled(table: str, names: list[str]) -> pa.Table:
    """Rows of a real table, and malformed ones where a column holds text."""
    file = DATA / f"{table}.parquet"
    if not file.is_file():
        pytest.skip("the folder shared/data with real tables is not beside the checkout")
    rows = pq.read_table(file, columns=names).slice(0, ROWS)
    columns = []
    for name in names:
        column = rows[name]
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        more = pa.array(MALFORMED if text else [None] * len(MALFORMED), column.type)
        columns.append(pa.chunked_array([*column.chunks, *[more] * 30], type=column.type))
    return pa.table(columns, names=names)


@pytest.mark.parametrize(("table", "spec"), CASES)
def test_frames_are_those_of_duckdb(session: Any, table: str, spec: str) -> None:
    """With the same noise, on real rows with malformed ones among them."""
    rows = sampled(table, list(as_hierarchy(spec).source_columns))
    frames = []
    for source in (rows, session.createDataFrame(rows)):
        with seeded_noise(7):
            frames.append(dp.hhh(source, spec, threshold=60, **BUDGET))
    pd.testing.assert_frame_equal(*frames)
    assert len(frames[0]) > 2


STRICT = ("spark.sql.ansi.enforceReservedKeywords", "spark.sql.parser.quotedRegexColumnNames")


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_neither_ansi_mode_nor_case_make_a_difference(session: Any, paths: Path, ansi: str) -> None:
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.caseSensitive", ansi)
    for setting in STRICT:
        session.conf.set(setting, ansi)
    try:
        odd = session.read.parquet(str(paths)).selectExpr("path AS `a.b ``c`", "user AS other")
        with seeded_noise(3):
            found = dp.tree_counts(odd, "path:a.b `c", **BUDGET)
        with seeded_noise(3):
            expected = dp.tree_counts(str(paths), "path:path", **BUDGET)
        pd.testing.assert_frame_equal(found, expected)
        assert [table.name for table in session.catalog.listTables()] == []
    finally:
        session.conf.unset("spark.sql.ansi.enabled")
        session.conf.unset("spark.sql.caseSensitive")
        for setting in STRICT:
            session.conf.unset(setting)


def test_users_weigh_what_they_may(session: Any, paths: Path) -> None:
    """Shares add up to one a user and samples to their bound, whatever Spark's hash is."""
    rows, hierarchy = session.read.parquet(str(paths)), as_hierarchy("path:path")
    table = pq.read_table(paths)
    _, rows_of = np.unique(table["user"].to_numpy(), return_counts=True)
    share = PrivacyUnit(user="user")
    tree = exact_counts(rows, hierarchy, share, 1)
    assert tree.count[0] == share.grid * len(rows_of)
    few = PrivacyUnit(user="user", contribution="records", max_contributions=3)
    tree = exact_counts(rows, hierarchy, few, 1)
    assert tree.count[0] == np.minimum(rows_of, 3).sum()
    for way in ({}, {"contribution": "share"}):
        assert dp.hhh(rows, "path:path", user="user", **BUDGET, **way)["count"].iloc[0] > 0


def test_pairs_of_users_and_values_come_from_there(session: Any) -> None:
    """Law: different users at every value, as of the same rows in pandas, bit by bit."""
    rows = [(f"u{i}", w) for w, n in {"a": 400, "b": 250, "c": 3}.items() for i in range(n)]
    rows += [("u1", "a"), (None, "a"), ("u7", None)]
    frame = pd.DataFrame(rows, columns=["who", "word"])
    spark = session.createDataFrame(rows, "who STRING, word STRING")
    answers = []
    for source in (spark, frame):
        with seeded_noise(4):
            answers.append(dp.heavy_hitters(source, "word", user="who", epsilon=1.0, delta=1e-6))
    pd.testing.assert_frame_equal(*answers)
    assert answers[0]["word"].tolist() == ["a", "b"]


def test_different_users_at_nodes_are_those_of_the_same_rows(session: Any) -> None:
    """Law: pairs of a user and their values come from Spark; numbers are as of pandas, bit by
    bit."""
    rows = [(f"u{i}", a, f"{a}{i % 2}") for i in range(300) for a in "xy"] + [(None, "x", "x0")]
    frame = pd.DataFrame(rows, columns=["who", "a", "b"])
    spark = session.createDataFrame(rows, "who STRING, a STRING, b STRING")
    users: dict[str, Any] = {"user": "who", "contribution": "items", "epsilon": 4.0}
    answers = []
    for source in (spark, frame):
        with seeded_noise(4):
            found = dp.hhh(source, ["a", "b"], delta=1e-6, **users)
            listed = dp.tree_counts(source, ["a"], keys=["x", "z"], **users)
            answers.append((found, listed))
    for one, other in zip(*answers, strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert answers[0][0]["prefix"].tolist()[:3] == ["*", "x", "y"]


def test_weights_are_read_there(session: Any) -> None:
    table = pa.table({"a": ["x", "y", "z", "v"], "w": [3, 10**15, None, -2]})
    for kind in (pa.int64(), pa.decimal128(20, 0)):
        rows = table.set_column(1, "w", table["w"].cast(kind))
        found, expected = (
            exact_counts(source, as_hierarchy(["a"]), PrivacyUnit(weight="w", max_weight=5), 1)
            for source in (session.createDataFrame(rows), rows)
        )
        assert found.count.tolist() == expected.count.tolist() == [8, 3, 5]
    frames = []
    for source in (session.createDataFrame(table), table):
        with seeded_noise(2):
            frames.append(dp.tree_counts(source, ["a"], weight="w", max_weight=5, **BUDGET))
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.parametrize(
    ("spec", "user"),
    [
        ("columns:u", "u"),
        ("columns:c", "u"),
        ("columns:c", "c"),
    ],
)
def test_users_of_one_partition_stay_apart(session: Any, spec: str, user: str) -> None:
    """Ids that Spark tells apart are different users in a stream, too, though DuckDB holds fewer
    times; and a column can hold both the ids and the hierarchy."""
    micros = (-9223372036854775806, -9223372036854775805, 253429016400000000, 253429020000000000)
    ids = ", ".join(f"(timestamp_micros({n}))" for n in micros)
    rows = session.sql(f"SELECT u, CAST(u AS STRING) AS c FROM VALUES {ids}, (NULL) AS v(u)")
    users = 5 if user == "u" else len(set(rows.toArrow()["c"].to_pylist()))
    options = {**STREAM, "user": user, "contribution": "items", "max_contributions": 40}
    plan = partition_plan(dp.explain(spec, **options).plan, 1)
    (state,) = partitioned_states(rows, plan)
    assert (plan.method, state.counts.sum()) == ("bounded", users)
    tree = exact_counts(rows, as_hierarchy(spec), PrivacyUnit(user=user), 1)
    assert tree.count[0] == 256 * users


def test_the_band_of_a_stream_follows_the_threshold(session: Any, paths: Path) -> None:
    """What travels are the counters that noise could lift over the threshold that was asked for."""
    rows, found = session.read.parquet(str(paths)), []
    for threshold in (300, 900):
        asked = dp.explain("path:path", **{**STREAM, "threshold": threshold}).plan
        plan = partition_plan(asked, 3)
        assert plan.band - 1 + plan.laws.noise.highest < threshold * plan.grid
        assert plan.band + plan.laws.noise.highest >= threshold * plan.grid
        found.append((plan.band, partitioned_states(rows, plan)))
    (_, small), (band, large) = found
    for more, fewer in zip(small, large, strict=True):
        assert fewer.counts.tolist() == more.counts[more.counts >= band].tolist()
    assert sum(len(s.counts) for s in large) < sum(len(s.counts) for s in small)


def test_listed_keys_are_looked_up_there(session: Any, paths: Path) -> None:
    keys = ["a/1/1", "a/2/2", "b/1/8", "z/1/1"]
    frames = []
    for source in (str(paths), session.read.parquet(str(paths))):
        with seeded_noise(2):
            frames.append(dp.tree_counts(source, "path:path", keys=keys, epsilon=1.0))
    pd.testing.assert_frame_equal(*frames)


def test_streams_are_merged_from_partitions_by_hash(session: Any, paths: Path) -> None:
    """What Spark adds up is the module's merge of sketches of the same partitions, in the order of
    the hash; nothing else is released."""
    rows = session.read.parquet(str(paths))
    asked = dp.explain("path:path", **STREAM).plan
    plan = partition_plan(asked, 3)
    states = partitioned_states(rows, plan)
    by_hash = rows.selectExpr("path", "pmod(hash(path), 3) AS part", "xxhash64(path) AS h")
    table = by_hash.toArrow()
    expected: list[list[MisraGries]] = []
    for part in range(3):
        own = table.filter(pa.array(table["part"].to_numpy() == part)).sort_by("h")
        sketches = [MisraGries(100) for _ in range(asked.height)]
        with _duck.register_table(own.select(["path"]), "a partition") as relation:
            update_sketches(sketches, relation, asked.hierarchy)
        expected.append(sketches)
    for level, state in enumerate(states):
        whole = merge_raw_sketches([parts[level] for parts in expected], method="sum")._state()
        kept = whole.counts >= plan.band
        assert state.counts.tolist() == whole.counts[kept].tolist()
        assert state.keys.to_pylist() == whole.keys.filter(pa.array(kept)).to_pylist()
    result = dp.hhh(rows, "path:path", **STREAM)
    assert {"a", "b"} <= set(result["prefix"])
    receipt = result.dp.receipt
    assert (receipt["mechanism"], receipt["method"]) == ("streaming-merged-sum", "sum")
    assert receipt["sketches"] == 3
    assert "however many sketches" in receipt["sensitivity"]


@pytest.mark.parametrize(("most", "method"), [(40, "bounded"), (1, "sum")])
def test_streams_of_users(session: Any, paths: Path, most: int, method: str) -> None:
    """A user is in one partition, and the merge with less noise is taken."""
    rows = session.read.parquet(str(paths))
    result = dp.hhh(
        rows, "path:path", user="user", contribution="items", max_contributions=most, **STREAM
    )
    receipt = result.dp.receipt
    assert receipt["method"] == method
    assert receipt["user"] == "user"
    assert receipt["neighbours"].startswith("adding or removing one user ('user')")
    counted = result.set_index("prefix")["count"]
    assert abs(counted.get("a", 500) - 500) < 500


def test_a_worker_feeds_partitions_however_they_come() -> None:
    """Batches, tasks with several partitions and empty tasks change no sketch."""
    rows = pa.table(
        {
            "part": pa.array([0] * 50 + [1] * 30, pa.int32()),
            "hashed": pa.array(range(80), pa.int64()),
            "c0": pa.array([f"a/{i % 9}" for i in range(80)]),
        }
    )
    hierarchy = as_hierarchy("path:path?depth=2")
    worker = Worker(
        hierarchy=hierarchy,
        unit=PrivacyUnit(),
        counters=3,
        by_sets=False,
        seed=1,
        version=dp.__version__,
    )
    whole = pa.Table.from_batches(worker(iter(rows.to_batches())))
    pieces = pa.Table.from_batches(worker(iter(rows.to_batches(max_chunksize=7))))
    assert whole.equals(pieces)
    assert set(whole["part"].to_pylist()) == {0, 1}
    assert list(worker(iter([]))) == []
    with pytest.raises(SourceError, match="another version of dpframe"):
        list(replace(worker, version="0.0")(iter([])))


# -- faults ---------------------------------------------------------------------------------------


def killing(marker: Path, always: bool) -> Any:
    name = str(marker)

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if always or not os.path.exists(name):
                open(name, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return step


@pytest.mark.parametrize("options", [BUDGET, STREAM])
def test_a_worker_that_is_killed_again_and_again_leaves_no_charge(
    session: Any, paths: Path, ledger: Ledger, tmp_path: Path, options: dict[str, Any]
) -> None:
    """The job fails, nothing is charged, nothing is released, and no text of Spark is passed on."""
    rows = session.read.parquet(str(paths)).select("path")
    broken = rows.mapInArrow(killing(tmp_path / "killed", True), "path string")
    with pytest.raises(SourceError, match="withheld") as caught:
        dp.hhh(broken, "path:path", ledger=ledger, release="never", **options)
    assert caught.value.__context__ is None
    assert spent(ledger) == 0
    assert [table.name for table in session.catalog.listTables()] == []


@pytest.mark.parametrize("options", [{**BUDGET, "threshold": 100}, STREAM])
def test_a_task_that_is_tried_again_changes_nothing(
    session: Any, paths: Path, ledger: Ledger, tmp_path: Path, options: dict[str, Any]
) -> None:
    """A worker that dies once: the frame is that of a run without a fault, charged once."""
    rows = session.read.parquet(str(paths)).select("path")
    marker = tmp_path / "killed"
    once = rows.mapInArrow(killing(marker, False), "path string")
    with seeded_noise(4):
        found = dp.hhh(once, "path:path", ledger=ledger, **options)
    with seeded_noise(4):
        expected = dp.hhh(rows, "path:path", **options)
    assert marker.exists()
    pd.testing.assert_frame_equal(found, expected)
    assert spent(ledger) == 1


# -- errors ---------------------------------------------------------------------------------------


class Kept(logging.Handler):
    """What is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.mark.parametrize("failing", ["raise_error(path)", "CAST(CAST(path AS INT) AS STRING)"])
def test_a_value_that_fails_is_not_quoted(
    session: Any, paths: Path, ledger: Ledger, failing: str
) -> None:
    """What an expression of the caller raises can hold the data; pyspark would log it, too."""
    from pyspark.logger import PySparkLogger

    rows = (
        session.read.parquet(str(paths)).where("path IS NOT NULL").selectExpr(f"{failing} AS path")
    )
    logger, log = PySparkLogger.getLogger("SQLQueryContextLogger"), Kept()
    logger.addHandler(log)
    try:
        with pytest.raises(SourceError) as caught:
            dp.tree_counts(rows, "path:path", ledger=ledger, **BUDGET)
        assert "/" not in str(caught.value)
        assert spent(ledger) == 0
        assert log.lines == []
        with pytest.raises(Exception, match=r"[ab]/[0-9]"):
            rows.toArrow()
        assert bool(log.lines) == ("CAST" in failing)  # without dpframe
    finally:
        logger.removeHandler(log)


def test_columns_that_cannot_be_read(session: Any, ledger: Ledger) -> None:
    """Names and types are checked before Spark runs anything."""
    rows = session.sql("SELECT map('a', 1) AS m, 'x' AS text, 1 AS n, interval 1 day AS i")
    with pytest.raises(ColumnError, match=r"column 'm' has type MAP.*Cast it"):
        dp.hhh(rows, "path:m", ledger=ledger, **BUDGET)
    with pytest.raises(ColumnError, match="column 'i' has type"):
        dp.hhh(rows, ["i"], ledger=ledger, mechanism="streaming", **BUDGET)
    with pytest.raises(ColumnError, match=r"'txt' does not exist.*Did you mean 'text'"):
        dp.hhh(rows, "path:txt", ledger=ledger, **BUDGET)
    with pytest.raises(ColumnError, match="date reads dates"):
        dp.hhh(rows, "date:n", ledger=ledger, **BUDGET)
    for mechanism in ("offline", "streaming"):
        with pytest.raises(ColumnError, match=r"column 'n' has type INTEGER\W+ip reads text"):
            dp.hhh(rows, "ip:n", mechanism=mechanism, ledger=ledger, **BUDGET)
    fractions = session.sql("SELECT 'x' AS text, 1.0D AS w, 1.5 AS d")
    for weight in ("w", "d", "text"):
        with pytest.raises(ColumnError, match=f"(?i)'{weight}' has type .* a weight is read from"):
            dp.tree_counts(fractions, ["text"], weight=weight, ledger=ledger, **BUDGET)
    endless = session.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS text")
    for options in (BUDGET, STREAM):
        with pytest.raises(SourceError, match="streaming DataFrame has no end"):
            dp.hhh(endless, "path:text", ledger=ledger, **options)
    with pytest.raises(ParameterTypeError, match=r"(?i)pass frame\.toArrow"):
        dp.synthesize(rows, {"n": (0, 1)}, epsilon=1.0)
    assert spent(ledger) == 0


def test_an_explanation_of_a_spark_frame_runs_nothing(session: Any, folder: Path) -> None:
    """Law: of a frame of Spark it reads names and types; the plan is that of the call, for a stream
    that of one sketch (docs/streaming.md). A step of it that reads rows is noticed if it runs."""
    marker = folder / "explained"
    rows = session.range(9).selectExpr("concat('a/', id) AS path")
    watched = rows.mapInArrow(reading(str(marker)), "path string")
    for options in (BUDGET, STREAM):
        said = dp.explain(watched, "path:path", **options)
        assert str(said) == str(dp.explain("path:path", **options))
    card = dp.hhh(rows, "path:path", **BUDGET).dp.receipt["card"]
    planned = dp.explain(watched, "path:path", **BUDGET).plan.receipt()["card"]
    assert planned == [line for line in card if line[0] != "notice"]  # of what was released
    with pytest.raises(ColumnError, match="'pat'"):
        dp.explain(watched, "path:pat", **BUDGET)
    assert not marker.exists()
    watched.count()
    assert marker.exists()


def test_executors_and_a_driver_that_are_killed(
    driver: subprocess.Popen[str], session: Any, folder: Path, paths: Path
) -> None:
    """Spark Connect on two executors gives the same frames, also if one of them dies in the middle;
    if they die again and again, nothing is charged or released. A charge without a release is all
    that is left of a driver that dies after it."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        out, _ = driver.communicate(timeout=900)
    said = dict(map(json.loads, out.splitlines()))
    assert driver.returncode == -signal.SIGKILL, said
    assert said["connect"]
    with seeded_noise(1):
        offline = dp.hhh(str(paths), "path:path", threshold=100, **BUDGET)
    assert said["offline"] == said["once"] == offline.to_dict("list")
    assert (folder / "marker1").read_text() == "x"
    with seeded_noise(1):
        streaming = dp.hhh(session.read.parquet(str(paths)), "path:path", **STREAM)
    assert said["streaming"] == shown(streaming)
    for options in (BUDGET, STREAM):
        assert "withheld" in said[f"always {len(options)}"]
    assert len((folder / "marker100").read_text()) >= 4
    assert said["views"] == []
    assert not (folder / "marker-read").exists()
    explained = session.read.parquet(str(paths)).select("path")
    for options in (BUDGET, STREAM):
        wanted = str(dp.explain(explained, "path:path", **options))
        assert said[f"explained {len(options)}"] == wanted
    assert "'pat'" in said["no column"]
    ledger = Ledger(folder / "killed.db")
    assert spent(ledger) == 2  # with one executor less, and by the driver that died
    assert ledger.find("lost", {}) is ledger.find("killed", {}) is None


def test_a_session_that_has_stopped(session: Any, paths: Path, ledger: Ledger) -> None:
    rows = session.read.parquet(str(paths))
    session.stop()
    for options in (BUDGET, STREAM):
        assert shuffle_partitions(rows) > 0
        with pytest.raises(SourceError, match=r"session .* has stopped"):
            dp.hhh(rows, "path:path", ledger=ledger, **options)
    assert spent(ledger) == 0


def test_a_limit_of_spark_is_named(session: Any) -> None:
    """The driver holds pairs of users and nodes, which Spark limits."""
    from pyspark.sql import SparkSession

    session.stop()
    limited = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.maxResultSize", "1k")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        rows = limited.range(1000).selectExpr("id AS user", "id % 10 AS x")
        with pytest.raises(SourceError, match=r"more than spark.driver.maxResultSize. Raise it"):
            dp.hhh(rows, ["x"], user="user", **BUDGET)
    finally:
        limited.stop()
