"""The same rows give the same release, wherever they come from, and no source confuses it."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe._duck import connections as process_database
from dpframe.asking.question import Question
from dpframe.doors.cli.main import main
from dpframe.errors import SourceError
from dpframe.hierarchy import as_hierarchy
from dpframe.questions.question_list import QUESTIONS
from dpframe.sources.source_relations import open_source
from dpframe.testing import seeded_noise
from tests.doors import rows
from tests.members import some
from tests.rollups import exact_counts

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


HIERARCHIES = [
    *("ip:ip", "path:path", "columns:year,host,zip", "domain:host", "date:when"),
    *("code:zip?lengths=1,3,5", "number:amount?lower=0&upper=40&depth=4"),
]

UNITS: dict[str, dict[str, Any]] = {
    "records": {},
    "shares": {"user": "who", "contribution": "share"},
    "bounded": {"user": "who", "contribution": "records", "max_contributions": 2},
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    frame = rows(3_000)
    folder = tmp_path_factory.mktemp("rows's")  # a quote in the path
    table = pa.Table.from_pandas(frame, preserve_index=False)
    frame.to_parquet(folder / "rows.parquet")
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_csv(folder / "rows.tsv", index=False, sep="\t")
    frame.to_csv(folder / "rows.csv.gz", index=False)
    (folder / "parts").mkdir()
    for i in range(3):
        pq.write_table(table.slice(1_000 * i, 1_000), folder / "parts" / f"{i}.parquet")
    con = duckdb.connect(str(folder / "user.db"))
    con.read_parquet(str(folder / "rows.parquet")).create("visits")
    yield {
        "pandas": frame,
        "pandas, shuffled": frame.sample(frac=1, random_state=3),
        "pandas, other index": frame.set_index(np.full(len(frame), 7)),
        "arrow": table,
        "record batch": table.combine_chunks().to_batches()[0],
        "polars": pl.from_arrow(table),
        "polars, lazy": pl.from_arrow(table).lazy(),
        "relation": con.sql("FROM visits"),
        "relation of a query": con.sql("SELECT * FROM visits ORDER BY who, ip"),
        "parquet": str(folder / "rows.parquet"),
        "parquet, Path": folder / "rows.parquet",
        "parquet, pattern": str(folder / "parts" / "*.parquet"),
        "csv": folder / "rows.csv",
        "tsv": folder / "rows.tsv",
        "csv, compressed": folder / "rows.csv.gz",
    }
    con.close()


CASES = [(h, unit, i + j) for i, h in enumerate(HIERARCHIES) for j, unit in enumerate(UNITS)]


@some(
    *("ip:ip-records", "ip:ip-bounded", "path:path-bounded", "columns:year,host,zip-shares"),
    *("domain:host-shares", "date:when-shares", "code:zip?lengths=1,3,5-records"),
    "number:amount?lower=0&upper=40&depth=4-records",
)
@pytest.mark.parametrize(
    ("hierarchy", "unit", "chosen"),
    [
        *(pytest.param(h, u, slice(n % 3, None, 3), id=f"{h}-{u}") for h, u, n in CASES),
        *(
            pytest.param(h, u, slice(None), id=f"{h}-{u}, all", marks=pytest.mark.evidence)
            for h, u, _ in CASES
        ),
    ],
)
def test_every_source_gives_the_same_release(
    sources: dict[str, object], hierarchy: str, unit: str, chosen: slice
) -> None:
    """Same rows, same noise: equal frames and types, whatever holds the rows and in which order.

    A third of the sources for a kind and a unit, so that each meets every kind and every unit.
    """
    found = {}
    for name in dict.fromkeys(["pandas", *list(sources)[chosen]]):
        source = sources[name]
        if hierarchy.startswith("ip") and unit != "records" and name.startswith("pandas, "):
            continue  # the slowest statement; order is tested on the others
        if "year" in hierarchy and unit == "bounded" and name.startswith(("csv", "tsv")):
            continue  # the sample hashes keys, and a year is text here
        with seeded_noise(3):
            found[name] = dp.hhh(source, hierarchy, **BUDGET, **UNITS[unit])
    expected = found["pandas"]
    assert len(expected) > 4
    for name, result in found.items():
        if "year" in hierarchy and name.startswith(("csv", "tsv")):  # where it is text
            result["year"] = result["year"].astype(expected["year"].dtype)
        pd.testing.assert_frame_equal(result, expected)
        assert result.attrs["dp"]["guarantee"] == expected.attrs["dp"]["guarantee"]


def objects(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """Everything on a connection that a release could leave behind."""
    views = "SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal"
    tables = "SELECT database_name, schema_name, table_name FROM duckdb_tables()"
    functions = "SELECT schema_name, function_name FROM duckdb_functions() WHERE NOT internal"
    settings = "SELECT 'setting', name, value FROM duckdb_settings()"
    return [row for q in (views, tables, functions, settings) for row in con.execute(q).fetchall()]


@pytest.mark.parametrize("where", [":memory:", "file", "read only"])
def test_nothing_is_left_on_the_callers_connection(tmp_path: Path, where: str) -> None:
    path = ":memory:" if where == ":memory:" else str(tmp_path / "user.db")
    con = duckdb.connect(path)
    con.execute("CREATE TABLE t AS SELECT 'a/' || (i % 3) AS p, i AS who FROM range(2000) r(i)")
    if where == "read only":
        con.close()
        con = duckdb.connect(path, read_only=True)
    before = objects(con)
    relation = con.sql("FROM t")
    for arguments in ({}, {"user": "who"}):
        assert len(dp.hhh(relation, "path:p", **BUDGET, **arguments)) > 1
    with pytest.raises(dp.ColumnError):
        dp.hhh(relation, "path:q", **BUDGET)
    with pytest.raises(SourceError):
        dp.hhh(con.sql("SELECT error('no') AS p"), "path:p", **BUDGET)
    assert objects(con) == before
    assert con.sql("SELECT count(*) FROM t").fetchall() == [(2000,)]
    con.close()


def test_a_relation_with_a_view_of_our_name_reads_the_right_rows() -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE dpframe_source AS SELECT 'wrong' AS p FROM range(900)")
    con.execute("CREATE TABLE t AS SELECT 'right' AS p FROM range(900)")
    assert "right" in set(dp.hhh(con.sql("FROM t"), "path:p", **BUDGET)["prefix"])
    assert con.sql("SELECT DISTINCT p FROM dpframe_source").fetchall() == [("wrong",)]


def test_a_release_inside_of_a_transaction_leaves_it_open() -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT 'a' AS p FROM range(900)")
    con.execute("BEGIN")
    con.execute("INSERT INTO t SELECT 'b' FROM range(900)")
    assert {"a", "b"} <= set(dp.hhh(con.sql("FROM t"), "path:p", **BUDGET)["prefix"])
    con.execute("ROLLBACK")
    assert con.sql("SELECT count(*) FROM t").fetchall() == [(900,)]


@pytest.mark.parametrize("name", ["rows", "rows.xlsx", "rows.parquet.bak"])
def test_an_unknown_ending_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match=r"has no known ending \(\.parquet"):
        dp.hhh(str(tmp_path / name), "path:p", **BUDGET)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    """The path is the caller's own, so the message may say it."""
    for name in ("none.parquet", "none.csv"):
        with pytest.raises(SourceError, match=name):
            dp.hhh(tmp_path / name, "path:p", **BUDGET)
    with pytest.raises(SourceError, match="nothing"):
        dp.hhh(str(tmp_path / "nothing-*.parquet"), "path:p", **BUDGET)
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(SourceError, match=r"folder\.parquet"):
        dp.hhh(tmp_path / "folder.parquet", "path:p", **BUDGET)
    with pytest.raises(SourceError, match=r"is a folder. Name the files in it.*/\*\.parquet'"):
        dp.hhh(tmp_path, "path:p", **BUDGET)


def test_upper_case_endings_are_known(tmp_path: Path) -> None:
    rows(3_000).to_parquet(tmp_path / "rows.parquet")
    shutil.move(tmp_path / "rows.parquet", tmp_path / "ROWS.PARQUET")
    assert len(dp.hhh(tmp_path / "ROWS.PARQUET", "path:path", **BUDGET)) > 1


def csv(folder: Path, text: str) -> Path:
    (folder / "t.csv").write_text(text)
    return folder / "t.csv"


def labels(source: object) -> set[str]:
    return set(dp.hhh(source, "columns:p", **BUDGET)["prefix"]) - {"*"}


def test_one_row_never_changes_how_a_csv_is_read(tmp_path: Path) -> None:
    """Header, separator, quotes and comments are fixed; nothing is guessed from the rows."""
    body = "a;b\n" * 500
    assert labels(csv(tmp_path, "p\n" + body)) == {"a;b"}
    assert labels(csv(tmp_path, "p\n" + body + "x\n")) == {"a;b"}
    assert labels(csv(tmp_path, "p\n" + "7\n" * 500)) == {"7"}
    assert labels(csv(tmp_path, "p,q\n" + "'a',b\n" * 500)) == {"'a'"}
    assert labels(csv(tmp_path, "p,q\n" + "#a,b\n" * 500)) == {"#a"}
    assert labels(csv(tmp_path, "p,q\n" + '"a,""b""",c\n' * 500)) == {'a,"b"'}
    assert labels(csv(tmp_path, "p,q\r\n" + "a,b\r\n" * 500)) == {"a"}
    assert labels(csv(tmp_path, "p,q\n" + ",b\n" * 250 + '"",b\n' * 250)) == {"<invalid>"}
    assert labels(csv(tmp_path, "p,q\n")) == set()


@pytest.mark.parametrize("mechanism", ["offline", "streaming"])
def test_a_line_break_within_quotes_is_part_of_the_field(tmp_path: Path, mechanism: str) -> None:
    """Also where other rows are short and are filled up."""
    broken, short = '"x\r\ny",1\n' * 400, "x\n" * 400
    file = csv(tmp_path, "p,q\n" + (broken + short) * 3)
    found = dp.hhh(file, "columns:p", mechanism=mechanism, **BUDGET)
    assert dict(zip(found["prefix"], found["count"], strict=True)) == pytest.approx(
        {p: 2400 if p == "*" else 1200 for p in found["prefix"]}, abs=200
    )
    assert {"x", "x\r\ny"} <= set(found["prefix"])


def test_a_csv_is_read_with_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread a file, and DuckDB still says how far it is."""
    file = csv(tmp_path, "p,q\n" + '"x\ny",1\n' * 2_000_000)
    with open_source(file, ["p"]) as relation:
        shown: list[float] = []
        watched = threading.Event()
        cursor = relation._cursor
        cursor.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")

        def watch() -> None:
            while not watched.wait(0.005):
                shown.append(cursor.query_progress())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            relation.query("SELECT count(DISTINCT p) FROM dpframe_source", False)
        finally:
            watched.set()
            watcher.join()
    assert any(0 < percent < 100 for percent in shown)


def test_a_csv_keeps_leading_zeros(tmp_path: Path) -> None:
    assert labels(csv(tmp_path, "p,q\n" + "00501,1\n" * 500)) == {"00501"}


CALLS: dict[str, tuple[object, dict[str, Any]]] = {
    "hhh": (["word"], {"delta": 1e-6}),
    "rollup": (
        ["word"],
        {
            "delta": 1e-6,
            "user": "who",
            "measures": ["count", "sum(who, 0, auto)", "distinct(who, at_most=1)"],
        },
    ),
    "tree_counts": (["word"], {"delta": 1e-6}),
    "heavy_hitters": ("word", {"delta": 1e-6}),
    "synthesize": ("columns:word", {"keys": ["a"]}),
    "prefix_tree": ("word", {"delta": 1e-6, "user": "who", "mechanism": "gaussian"}),
}


@some("hhh", "tree_counts", "prefix_tree")
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_the_rows_of_a_source_are_read_once(question: Question[Any, Any]) -> None:
    """Law: whatever has to be known of a source first, its rows come out of it a single time."""
    times: list[int] = []

    def read(column: pl.Series) -> pl.Series:
        times.append(len(column))
        return column

    rows = pl.DataFrame({"who": range(900), "word": ["a"] * 900})
    lazy = rows.lazy().with_columns(pl.col("word").map_batches(read, return_dtype=pl.String))
    about, arguments = CALLS[question.name]
    question.ask(lazy, about, epsilon=1.0, **arguments)
    assert times == [900]


# -- sources made to confuse -----------------------------------------------------------------------


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def test_a_column_is_never_read_under_another_spelling(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """SQL ignores case: reading ``Person`` for ``person`` would leave users unbounded."""
    rows = """SELECT 'c' || i AS "Person", 'bob' AS person, 'leaf' AS g FROM range(300) t(i)"""
    with pytest.raises(dp.ColumnError, match="differ in case only"):
        dp.hhh(connection.sql(rows), ["g"], user="person", **BUDGET)


@pytest.mark.parametrize("hierarchy", [["k"], "path:k"])
def test_a_collation_does_not_merge_texts(
    connection: duckdb.DuckDBPyConnection, hierarchy: object
) -> None:
    """One record ``SECRET`` must not become the label of 300 records ``secret``."""
    connection.execute("CREATE TABLE t (k VARCHAR COLLATE NOCASE)")
    connection.execute("INSERT INTO t VALUES ('SECRET')")
    connection.execute("INSERT INTO t SELECT 'secret' FROM range(300)")
    result = dp.hhh(connection.table("t"), hierarchy, **BUDGET)  # type: ignore[arg-type]
    assert list(result["prefix"]) == ["*", "secret"]


def test_values_of_one_text_are_one_node(connection: duckdb.DuckDBPyConnection) -> None:
    """The number 2 and the text '2' of a UNION: one node, whose children are counted once."""
    connection.execute(
        "CREATE TABLE u AS SELECT CASE WHEN i % 2 = 0 THEN 2::INTEGER::UNION(n INTEGER, s VARCHAR) "
        "ELSE '2'::VARCHAR::UNION(n INTEGER, s VARCHAR) END AS k, 'c' || (i % 4) AS c "
        "FROM range(4000) t(i)"
    )
    result = dp.hhh(connection.table("u"), ["k", "c"], threshold=200, **BUDGET)
    assert list(result["prefix"]) == ["*", *(f"2 / c{i}" for i in range(4))]


def test_a_date_beyond_the_calendar_stops_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    """One such record is invalid; it cannot decide whether there is a release."""
    rows = "SELECT '290309-12-22 (BC)' AS d UNION ALL SELECT '2020-01-01' FROM range(300)"
    result = dp.hhh(connection.sql(rows), "date:d?levels=year", **BUDGET)
    assert list(result["prefix"]) == ["*", "2020"]


def test_budgets_at_the_edge_end_quickly_and_soundly() -> None:
    """Searches for noise stop: a plan within the budget, or a refusal that says why."""
    assert dp.explain("path:x?depth=8", epsilon=0.01, delta=0.1).plan.delta_spent <= 0.1
    assert dp.explain("path:x?depth=9", epsilon=0.1, delta=0.1).plan.delta_spent <= 0.1
    with pytest.raises(dp.BudgetError, match="too small"):
        dp.explain("path:x?depth=1", user="u", contribution="share", epsilon=1e-4, delta=1e-6)
    with pytest.raises(dp.BudgetError):
        dp.explain("path:x?depth=1", epsilon=50, delta=1e-12, remainder=False)


@pytest.mark.parametrize(
    ("spec", "one", "others"),
    [("path:k?depth=1", "INTERVAL 1 MONTH", "INTERVAL 30 DAYS"), ("columns:k", "[-0.0]", "[0.0]")],
)
def test_equal_values_with_different_texts_stay_different_nodes(
    spec: str, one: str, others: str
) -> None:
    """Law: text is compared exactly, so that one record cannot name the node of the others."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT {one} AS k UNION ALL SELECT {others} FROM range(300)")
    (expected,) = con.execute(f"SELECT CAST({others} AS VARCHAR)").fetchall()
    result = dp.hhh(con.table("t"), spec, epsilon=50.0, delta=0.1, threshold=100)
    assert list(result["prefix"]) == ["*", expected[0]]


# -- files ---------------------------------------------------------------------------------------

SECRET = "SECRETVALUE"


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def holding(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


HOSTILE_FILES: dict[str, Callable[[Path], Path | str]] = {
    "no gzip": lambda at: holding(at / "a.csv.gz", f"c\n{SECRET}\n".encode()),
    "half of a gzip": lambda at: holding(at / "a.csv.gz", gzip.compress(b"c\n" * 9_000)[:15]),
    "a long header": lambda at: holding(at / "a.csv", f"c,{SECRET * 20_000}\n1,2\n".encode()),
    "a folder": lambda at: folder(at / "a.csv"),
    "a folder of Parquet": lambda at: folder(at / "a.parquet"),
    "a long path": lambda at: at / f"{'x' * 5_000}.csv",
    "a surrogate": lambda at: str(at / "\ud800.csv"),
    "a NUL": lambda at: str(at / "a\x00b.csv"),
    "no Parquet": lambda at: holding(at / "a.parquet", f"PAR1{SECRET}".encode()),
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_file_that_cannot_be_read_is_an_error_of_ours(name: str, tmp_path: Path) -> None:
    """Law: whatever a file is, the error is ours and quotes nothing of its lines."""
    with pytest.raises(dp.ParameterError if name == "a NUL" else dp.SourceError) as caught:
        dp.hhh(HOSTILE_FILES[name](tmp_path), ["c"], **BUDGET)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert caught.value.__context__ is None


def test_without_a_temporary_folder_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would spill raw keys into the working directory."""
    monkeypatch.setattr(process_database, "_databases", {})
    monkeypatch.setattr(process_database, "_folders", {})
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(dp.SourceError, match="TMPDIR"):
        dp.hhh(pd.DataFrame({"c": [0.5]}), ["c"], **BUDGET)


# -- names ---------------------------------------------------------------------------------------


def test_names_that_no_text_can_hold_are_refused_where_they_are_given(tmp_path: Path) -> None:
    """Empty names and lone surrogates, in columns, separators and titles."""
    odd = "\ud800"
    frame = pd.DataFrame(np.full((300, 3), "a"), columns=pd.Index([odd, "", "c"], dtype=object))
    for hierarchy in ([odd], f"path:{odd}", f"path:c?separator={odd}", [""], ["c", ""]):
        with pytest.raises(dp.HierarchyError):
            dp.hhh(frame, hierarchy, **BUDGET)
    for name in (odd, ""):
        with pytest.raises(dp.ParameterError, match="user"):
            dp.hhh(frame, ["c"], user=name, **BUDGET)
        with pytest.raises(dp.ParameterError, match="user"):
            dp.prefix_tree(frame, "c", user=name, devices=100, **BUDGET)
        with pytest.raises(dp.ParameterError, match="weight"):
            dp.tree_counts(frame, ["c"], weight=name, **BUDGET)
        with pytest.raises(dp.ParameterError):
            dp.synthesize(frame, {name: (0, 1)}, epsilon=1.0)
        with pytest.raises(dp.ParameterError):
            dp.heavy_hitters(frame, name, **BUDGET)
    found = dp.hhh(frame, ["c"], **BUDGET)
    assert list(found["prefix"]) == ["*", "a"]
    with pytest.raises(dp.ParameterError, match="title"):
        found.dp.report(tmp_path / "page.html", title=odd)


# -- CSV files in other forms than commas and UTF-8 ------------------------------------------------


LARGE: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-3}
TEXT = "city,v\n" + "Köln,1\n" * 800 + "Berlin,2\n" * 400


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def counts(source: object) -> dict[str, int]:
    result = dp.hhh(source, ["city"], **LARGE)
    return dict(zip(result["prefix"], result["count"], strict=True))


EXACT = {"*": 1200, "Berlin": 400, "Köln": 800}


def close_to(found: dict[str, int], expected: dict[str, int]) -> None:
    assert found.keys() == expected.keys()
    assert all(abs(found[key] - expected[key]) <= 3 for key in expected)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_rows_that_are_no_utf_8_are_counted(here: Path, name: str) -> None:
    """Law: no row is left out for its bytes, and other encodings are read as such."""
    opened = gzip.open if name.endswith("gz") else open
    with opened(name, "wb") as file:
        file.write(TEXT.encode("latin-1"))
    close_to(counts(name), {"*": 1200, "Berlin": 400, r"K\xF6ln": 800})
    for encoding in ("latin-1", "cp1252"):
        close_to(counts(dp.csv_file(name, encoding=encoding)), EXACT)
    assert not list(here.glob("dpframe-*"))


def test_one_row_that_is_no_utf_8_changes_no_other(here: Path) -> None:
    """Law: a byte that is no text is one row's, even before a line break or a quote."""
    body = TEXT.encode()
    for row in (b"\xe9\n", b'"\xe9",1\n', b"\xe9,\xff\n", b"\xf0\x9f,1\n"):
        (here / "rows.csv").write_bytes(body + row * 20 + b"Berlin,2\n" * 100)
        found = counts("rows.csv")
        assert found["Köln"] in range(797, 804)
        assert found["Berlin"] in range(497, 504)
        assert found["*"] in range(1317, 1324)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_told_and_read(
    here: Path, delimiter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "rows.csv").write_text(TEXT.replace(",", delimiter), encoding="utf-8")
    with pytest.raises(dp.ColumnError, match=r"Pass dp\.csv_file\('rows\.csv', delimiter="):
        counts("rows.csv")
    close_to(counts(dp.csv_file("rows.csv", delimiter=delimiter)), EXACT)
    asked = ["hhh", "rows.csv", "city", "--epsilon", "50", "--delta", "1e-3", "--quiet"]
    typed = delimiter.replace("\t", r"\t")
    assert main([*asked, "--delimiter", typed, "-o", "out.json"]) == 0
    assert "Köln" in (here / "out.json").read_text(encoding="utf-8")
    capsys.readouterr()


def test_a_period_and_any_ending(here: Path) -> None:
    rows = TEXT.replace(",1", ",2026-01-05").replace(",2\n", ",2026-02-05\n")
    (here / "rows.txt").write_text(rows.replace(",", ";"), encoding="latin-1")
    source = dp.csv_file(here / "rows.txt", delimiter=";", encoding="latin-1")
    result = dp.hhh(source, ["city"], period=("v", "2026-01"), **LARGE)
    assert result["prefix"].tolist() == ["*", "Köln"]
    assert {"source", "period"} <= {line[0] for line in result.dp.receipt["card"]}
    (here / "rows.txt").write_text(TEXT, encoding="utf-8")
    close_to(counts(dp.csv_file("rows.txt")), EXACT)


def test_utf_16_and_the_first_line_of_excel_are_told(here: Path) -> None:
    (here / "rows.csv").write_text(TEXT, encoding="utf-16")
    with pytest.raises(dp.SourceError, match="encoding='utf-16'"):
        counts("rows.csv")
    close_to(counts(dp.csv_file("rows.csv", encoding="utf-16")), EXACT)
    asked = ["hhh", "rows.csv", "city", "--epsilon", "50", "--delta", "1e-3", "--quiet"]
    assert main([*asked, "--encoding", "utf-16", "-o", "out.json"]) == 0
    for encoding in ("utf-16-le", "utf-16-be"):  # with the mark that these leave in the text
        (here / "rows.csv").write_bytes(("\ufeff" + TEXT).encode(encoding))
        close_to(counts(dp.csv_file("rows.csv", encoding=encoding)), EXACT)
    (here / "rows.csv").write_text("sep=;\n" + TEXT.replace(",", ";"))
    for source in ("rows.csv", dp.csv_file("rows.csv", delimiter=";")):
        with pytest.raises(dp.SourceError, match="Remove that line, and pass delimiter"):
            counts(source)


def test_what_is_no_delimiter_and_no_encoding_is_refused() -> None:
    for given in ("", ";;", '"', "\n", 7):
        with pytest.raises(dp.ParameterError, match="delimiter must be one character"):
            dp.csv_file("rows.csv", delimiter=given)  # type: ignore[arg-type]
    for given in ("utf-7", "shift_jis", "hex", "none", 7):
        with pytest.raises(dp.ParameterError, match=r"is not read\. Pass 'latin-1'"):
            dp.csv_file("rows.csv", encoding=given)  # type: ignore[arg-type]
    with pytest.raises(dp.ParameterError, match="is no CSV file"):
        dp.csv_file("rows.parquet", delimiter=";")


def test_cards_of_csv_say_what_is_read_as_a_number(here: Path) -> None:
    """Law: the line stands on every release of CSV, whatever the rows are."""
    for given in ("a,1\n" * 500, 'a,"1,250.00"\n' * 500, "a,$5\n" * 500, ""):
        (here / "rows.csv").write_text("city,v\n" + given)
        result = dp.rollup("rows.csv", ["city"], dp.sum("v", lower=0, upper=2000), **LARGE)
        assert "1,250.00, $5 and 3,50 count nothing" in str(result.dp.receipt)
    (here / "rows.csv").write_text("city;v\n")
    told = dp.hhh(dp.csv_file("rows.csv", delimiter=";"), ["city"], **LARGE).dp.receipt
    assert "CSV, delimiter ';'" in str(told)


def test_series_read_other_delimiters(here: Path) -> None:
    from dpframe.doors.series.declaration import as_source

    (here / "rows.csv").write_text(TEXT.replace(",", ";"), encoding="latin-1")
    how = {"delimiter": ";", "encoding": "latin-1"}
    for given in ({"file": "rows.csv", **how}, dp.csv_file("rows.csv", **how)):  # type: ignore[arg-type]
        with as_source(given, here, "source").open("2026-11") as source:
            close_to(counts(source), EXACT)


@pytest.mark.parametrize("cut", [b"K\xf6", b"K\xe2\x82"])
def test_bytes_that_are_cut_off_at_the_end_are_read(here: Path, cut: bytes) -> None:
    """Law: the last row is as it is written, without a line end too."""
    Path("rows.csv").write_bytes(b"city\n" + b"Rome\n" * 3 + cut)
    label = "K" + "".join(rf"\x{byte:02X}" for byte in cut[1:])
    found = exact_counts("rows.csv", as_hierarchy(["city"]))
    assert found == {(): 4, ("Rome",): 3, (label,): 1}
