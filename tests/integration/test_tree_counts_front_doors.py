"""Counts of a tree are the same by whichever door rows and keys come in."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli import main as cli
from dpframe.hierarchy import as_hierarchy
from dpframe.postprocess.level_values import TEXT
from dpframe.postprocess.lineages import nearest_reported
from dpframe.testing import seeded_noise
from tests import members
from tests.doors import (
    Answer,
    Door,
    World,
    accessor,
    command,
    function,
    in_sql,
    in_turn,
    public,
    rows,
    sql,
)
from tests.members import some

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
PURE: dict[str, Any] = {"epsilon": 1.0}


def weighted() -> pd.DataFrame:
    """Rows with weights: good ones, missing and negative ones, and huge ones."""
    frame = rows()
    n = np.arange(len(frame))
    frame["n"] = pd.Series(n % 7, dtype="Int64")
    for step, odd in ((11, None), (13, -3), (101, 5 * 10**9)):
        frame.loc[n % step == 0, "n"] = odd
    frame["big"] = np.where(n % 3 == 0, 10**9, 4 * 10**8)
    return frame


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("doors")
    frame = weighted()
    frame.to_parquet(folder / "rows.parquet")
    con = duckdb.connect(str(folder / "user.db"))
    con.read_parquet(str(folder / "rows.parquet")).create("visits")
    yield World(frame, folder / "rows.parquet", con)
    con.close()


# -- doors ---------------------------------------------------------------------------------------


def command_line(world: World, hierarchy: str, arguments: dict[str, Any]) -> Answer:
    flags = [flag for name, value in arguments.items() for flag in option(world, name, value)]
    return command(world, "tree-counts", hierarchy, flags)


def option(world: World, name: str, value: Any) -> list[str]:
    """One argument as the command line takes it; keys in a file."""
    if name == "consistent":
        return [] if value else ["--raw"]
    if name == "level_weights":
        value = ",".join(map(str, value))
    if name == "keys" and not isinstance(value, str):
        file = world.parquet.with_name("keys.parquet")
        pq.write_table(keys_table(value), file)
        value = file
    return [f"--{name.replace('_', '-')}={value}"]


def keys_table(keys: Any) -> pa.Table:
    return keys if isinstance(keys, pa.Table) else pa.Table.from_pandas(keys, preserve_index=False)


DOORS: dict[str, Door] = {
    "accessor": accessor("tree_counts"),
    "function, pandas": function("tree_counts", lambda world: world.frame),
    "function, Arrow": function("tree_counts", lambda world: pa.Table.from_pandas(world.frame)),
    "function, Polars": function("tree_counts", lambda world: pl.read_parquet(world.parquet)),
    "function, lazy Polars": function("tree_counts", lambda world: pl.scan_parquet(world.parquet)),
    "function, DuckDB relation": function("tree_counts", lambda world: world.con.table("visits")),
    "function, file": function("tree_counts", lambda world: world.parquet),
    "command line": command_line,
    "SQL, table": sql("tree_counts", "'visits'"),
    "SQL, query": sql("tree_counts", "query := 'SELECT * FROM visits -- all'"),
}

# -- the law -------------------------------------------------------------------------------------

HOSTS = pd.DataFrame(
    {"zip": ["90000", "90111", "99999", "x'y"], "path": ["a/0/0", "a/1/1", "a/0/0", "日本"]}
)
PATHS = pd.DataFrame({"path": ["a/0/0", "a/1/1", "a/1/13", "a/2", "b/none/1/2/3"]})
NETS = pd.DataFrame({"ip": ["10.1.1.7", "10.2.2.7", "2001:db8::1", "::ffff:10.1.16.7", "1.1.1.1"]})
NUMBER = "number:amount?lower=0&upper=40&depth=4"
SHARES: dict[str, Any] = {"user": "who"}
BOUNDED: dict[str, Any] = {"user": "who", "contribution": "records", "max_contributions": 2}
RELATIVE: dict[str, Any] = {
    "epsilon": 40.0,
    "delta": 1e-6,
    "mechanism": "relative",
    "alpha": 0.9,
    "largest": 2 * 10**12,
    "weight": "big",
}

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("columns", "columns:host,zip,path", BUDGET),
    ("ragged paths", "path:path", BUDGET),
    ("addresses of both versions", "ip:ip", BUDGET),
    ("dates", "date:when", BUDGET),
    ("malformed dropped", "path:path?invalid=drop", BUDGET),
    ("domain keys", NUMBER, {**PURE, "keys": "domain"}),
    ("domain keys, delta", NUMBER, {**BUDGET, "keys": "domain", "consistent": False}),
    ("listed columns", "columns:zip,path", {**PURE, "keys": HOSTS}),
    ("listed paths", "path:path", {**PURE, "keys": PATHS}),
    ("listed paths, delta 0", "path:path", {"epsilon": 1.0, "delta": 0.0, "keys": PATHS}),
    ("listed addresses", "ip:ip", {**PURE, "keys": NETS}),
    ("listed, as drawn", "ip:ip", {**PURE, "keys": NETS, "consistent": False}),
    ("shares", "path:path", {**BUDGET, **SHARES}),
    ("shares, as drawn", "path:path", {**BUDGET, **SHARES, "consistent": False}),
    ("shares of listed keys", "path:path", {**PURE, **SHARES, "keys": PATHS}),
    ("records of users", "path:path", {**BUDGET, **BOUNDED}),
    ("records of users, listed", "path:path", {**PURE, **BOUNDED, "keys": PATHS}),
    ("weights", "path:path", {**BUDGET, "weight": "n"}),
    ("weights, listed", "path:path", {**PURE, "weight": "n", "keys": PATHS}),
    ("bounded weights", "path:path", {**BUDGET, "weight": "n", "max_weight": 3}),
    ("large weights", "columns:host,zip", {**BUDGET, "weight": "big"}),
    ("as drawn", "path:path", {**BUDGET, "consistent": False}),
    ("consistent", "path:path", {**BUDGET, "consistent": True, "confidence": 0.9}),
    ("additive", "columns:host,zip", {**BUDGET, "mechanism": "additive"}),
    ("laplace", "columns:host,zip", {**BUDGET, "mechanism": "laplace"}),
    ("gaussian", "columns:host,zip", {**BUDGET, "mechanism": "gaussian"}),
    ("gaussian, listed", "path:path", {**BUDGET, "mechanism": "gaussian", "keys": PATHS}),
    ("gaussian, records", "path:path", {**BUDGET, "mechanism": "gaussian", **BOUNDED}),
    ("hhh", "path:path", {**BUDGET, "mechanism": "hhh"}),
    ("hhh, shares", "path:path", {**BUDGET, "mechanism": "hhh", **SHARES, "consistent": False}),
    ("relative", "columns:zip,host", RELATIVE),
    ("relative, as drawn", "columns:zip,host", {**RELATIVE, "consistent": False}),
    ("level weights", "columns:host,zip", {**BUDGET, "level_weights": [1, 2, 2.5]}),
    ("threshold", "path:path", {**BUDGET, "threshold": 90}),
]
every_case = pytest.mark.parametrize(("hierarchy", "arguments", "doors"), in_turn(DOORS, CASES))


@some(
    "columns",
    "addresses of both versions",
    "domain keys",
    "listed columns",
    "listed addresses",
    "shares, as drawn",
    "records of users",
    "weights, listed",
    "additive",
    "gaussian, listed",
    "hhh",
    "relative, as drawn",
)
@every_case
def test_every_front_door_gives_the_same_counts(
    world: World, hierarchy: str, arguments: dict[str, Any], doors: dict[str, Door]
) -> None:
    """Law: same rows, arguments and noise give equal frames, column types and receipts."""
    found = {}
    for name, door in doors.items():
        with seeded_noise(3):
            found[name] = door(world, hierarchy, arguments)
    expected, receipt = found["accessor"]
    assert len(expected) > 2
    check_shape(expected, hierarchy)
    if arguments.get("consistent", True):
        check_adds_up(expected, receipt)
    for name, (result, card) in found.items():
        pd.testing.assert_frame_equal(result, expected, obj=name)
        assert public(card) == public(receipt), name


def check_shape(frame: pd.DataFrame, hierarchy: str) -> None:
    """The columns, types and order of the docstring."""
    columns = as_hierarchy(hierarchy).label_columns
    numbers = ["residual", "count", "lower", "upper"]
    assert list(frame.columns) == ["level", "prefix", *columns, *numbers]
    texts = [TEXT] * (1 + len(columns))
    assert [str(t) for t in frame.dtypes] == ["int64", *texts, *["int64"] * 4]
    assert isinstance(frame.index, pd.RangeIndex)
    order = list(zip(frame["level"], frame["prefix"], strict=True))
    assert frame["level"].is_monotonic_increasing
    assert order[0] == (0, "*")
    assert frame["residual"].sum() == frame["count"][0]
    assert ((frame["lower"] <= frame["count"]) & (frame["count"] <= frame["upper"])).all()


def check_adds_up(frame: pd.DataFrame, receipt: dict[str, Any]) -> None:
    """Whole, not negative, and every node is the sum of the rows below it."""
    assert (frame["count"] >= 0).all()
    above = nearest_reported(frame, as_hierarchy(receipt["hierarchy"]))
    levels = frame["level"].to_numpy()
    assert (levels[above[1:]] == levels[1:] - 1).all()
    below = np.zeros(len(frame), dtype=np.int64)
    np.add.at(below, above[1:], frame["count"].to_numpy()[1:])
    inner = np.isin(np.arange(len(frame)), above)
    assert (below[inner] == frame["count"].to_numpy()[inner]).all()


def test_the_law_of_front_doors_can_fail(world: World) -> None:
    """Negative control: other noise, in SQL too, gives another frame."""
    results = []
    for seed in (3, 4):
        with seeded_noise(seed):
            results.append(DOORS["SQL, table"](world, "path:path", {**PURE, "keys": PATHS})[0])
    assert not results[0].equals(results[1])


# -- keys ----------------------------------------------------------------------------------------

ONE = HOSTS["zip"].tolist()
TWO = list(HOSTS.itertuples(index=False, name=None))


def forms(frame: pd.DataFrame) -> dict[str, Any]:
    """The same keys as everything that Python passes."""
    values = list(frame.itertuples(index=False, name=None))
    out = {
        "tuples": values,
        "lists": [list(value) for value in values],
        "reversed": values[::-1],
        "pandas": frame,
        "pandas, other columns too": frame.assign(other=1)[["other", *frame.columns[::-1]]],
        "Polars": pl.from_pandas(frame),
        "Arrow": pa.Table.from_pandas(frame),
    }
    if len(frame.columns) == 1:
        ((name, series),) = frame.items()
        values = series.tolist()
        out |= {
            "list": values,
            "tuple": tuple(values),
            "series": series,
            "index": pd.Index(series, name=name),
            "array": series.to_numpy(),
            "Polars series": pl.Series(values),
            "Arrow array": pa.array(values),
        }
    return out


SQL_KEYS = {
    "one": [
        "['90000', '90111', '99999', 'x''y']",
        "[{'zip': '90000'}, {'zip': '90111'}, {'zip': '99999'}, {'zip': 'x''y'}]",
        "getvariable('listed_keys')",
        "$keys",
        "'listed'",
        "'listed_backwards'",
        "list_concat(['90000', '90111'], ['99999', 'x''y'])",
    ],
    "two": [
        "[('90000', 'a/0/0'), ('90111', 'a/1/1'), ('99999', 'a/0/0'), ('x''y', '日本')]",
        "[['90000', 'a/0/0'], ['90111', 'a/1/1'], ['99999', 'a/0/0'], ['x''y', '日本']]",
        "[{'zip': '90000', 'path': 'a/0/0'}, {'zip': '90111', 'path': 'a/1/1'}, "
        "{'zip': '99999', 'path': 'a/0/0'}, {'zip': 'x''y', 'path': '日本'}]",
        "[{'path': '日本', 'zip': 'x''y'}, {'path': 'a/0/0', 'zip': '90000'}, "
        "{'path': 'a/0/0', 'zip': '99999'}, {'path': 'a/1/1', 'zip': '90111'}]",
        "getvariable('listed_keys')",
        "$keys",
        "'listed'",
        "'listed_backwards'",
    ],
}


@members.in_turn(
    ("consistent", [True, False]), ("columns", [["zip"], ["zip", "path"]], ["one", "two"])
)
def test_keys_are_the_same_in_every_form(
    world: World, columns: list[str], consistent: bool, tmp_path: Path
) -> None:
    """Law: lists, tuples, frames, files, tables, variables and structs name the same nodes."""
    keys = HOSTS[columns]
    spec = f"columns:{','.join(columns)}"
    asked: dict[str, Any] = {**PURE, "consistent": consistent}
    found: dict[str, Answer] = {}
    for name, form in forms(keys).items():
        with seeded_noise(9):
            found[name] = DOORS["accessor"](world, spec, {**asked, "keys": form})
    for ending in ("parquet", "csv"):
        file = tmp_path / f"keys.{ending}"
        keys.to_parquet(file) if ending == "parquet" else keys.to_csv(file, index=False)
        with seeded_noise(9):
            found[ending] = command_line_keys(world, spec, asked, file)
    for text in SQL_KEYS["one" if len(columns) == 1 else "two"]:
        with seeded_noise(9):
            found[text] = sql_keys(world, spec, asked, text, keys)
    expected, receipt = found["tuples"]
    assert len(expected) > 5
    for name, (result, card) in found.items():
        pd.testing.assert_frame_equal(result, expected, obj=name)
        assert public(card) == public(receipt), name


def command_line_keys(world: World, spec: str, asked: dict[str, Any], file: Path) -> Answer:
    out = file.with_name("out.parquet")
    flags = [f for name, value in asked.items() for f in option(world, name, value)]
    command = ["tree-counts", str(world.parquet), spec, *flags, f"--keys={file}", "--quiet"]
    assert cli.main([*command, "-o", str(out)]) == 0
    receipt = receipt_in_metadata(pq.read_schema(out).metadata)
    assert receipt is not None
    return pd.read_parquet(out), receipt.to_dict()


def sql_keys(
    world: World, spec: str, asked: dict[str, Any], text: str, keys: pd.DataFrame
) -> Answer:
    con = world.con.cursor()
    con.register("given", keys)
    con.execute("CREATE OR REPLACE TABLE listed AS SELECT *, 7 AS more FROM given")
    con.execute("CREATE OR REPLACE VIEW listed_backwards AS FROM listed ORDER BY ALL DESC")
    values = keys.to_dict("records") if len(keys.columns) > 1 else ONE
    con.execute("SET VARIABLE listed_keys = $v", {"v": values})
    dp.register(con)
    given: dict[str, Any] = {"spec": spec, **asked}
    if "$keys" in text:
        given["keys"] = values
    statement = (
        "SELECT * FROM dp_tree_counts('visits', $spec, epsilon := $epsilon, "
        f"consistent := $consistent, keys := {text})"
    )
    result = con.execute(statement, given).df()
    card = con.execute("SELECT receipt FROM dp_releases()").fetchall()[0][0]
    return result, json.loads(card)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("'nowhere'", ("keys ('nowhere')", "no table", "['a', 'b']")),
        ("'here'", ("keys ('here')", "committed")),
        ("'temp.here'", ("keys ('temp.here')", "committed")),
        ("'broken'", ("keys ('broken')",)),
        ("'numbers'", ("'zip'",)),
        ("[]", ("keys has 0 keys",)),
        ("[NULL]", ("keys has None", "malformed")),
        ("['a', 'a']", ("keys has 2 keys that mean 'a'", "once")),
        ("[{'zap': 'a'}]", ("keys lacks column 'zip'",)),
        ("[('a', 'b')]", ("keys has", "one value of column 'zip'")),
        ("7", ("keys must be a list", "int")),
        ("{'zip': 'a'}", ("keys must be a list", "dict")),
        ("'domain'", ("keys := 'domain'", "Pass a list of keys")),
        ("(SELECT list(zip) FROM listed)", ("cannot contain subqueries",)),
    ],
)
def test_wrong_keys_of_sql_are_answered(world: World, keys: str, said: tuple[str, ...]) -> None:
    """Law: the message names keys and what would do; nothing is drawn."""
    con = world.con.cursor()
    con.execute("CREATE TEMP TABLE here AS SELECT '90000' AS zip")
    con.execute("CREATE OR REPLACE TABLE numbers AS SELECT 90000 AS zap")
    con.execute("CREATE OR REPLACE VIEW broken AS SELECT error('sEcReT') AS zip")
    dp.register(con)
    with pytest.raises(duckdb.Error) as raised:
        con.execute(f"FROM dp_tree_counts('visits', 'columns:zip', epsilon := 1.0, keys := {keys})")
    for part in said:
        assert part in str(raised.value)
    assert "sEcReT" not in str(raised.value).split("LINE 1")[0]
    assert con.execute("FROM dp_releases()").fetchall() == []


# -- the others of the family --------------------------------------------------------------------


def test_every_door_explains_the_same(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: function, accessor, command line and SQL print one plan, for every case."""
    dp.register(world.con)
    for name, hierarchy, arguments in CASES:
        expected = dp.explain_tree_counts(hierarchy, **arguments)
        assert str(world.frame.dp.explain_tree_counts(hierarchy, **arguments)) == str(expected)
        given = {k: in_sql(v) for k, v in arguments.items()}
        named = "".join(f", {argument} := ${argument}" for argument in given)
        statement = f"FROM dp_explain_tree_counts(hierarchy := $hierarchy{named})"
        shown = world.con.execute(statement, {"hierarchy": hierarchy, **given}).df()
        assert shown.to_dict("list") == expected.to_frame().to_dict("list"), name
        flags = [flag for k, v in arguments.items() for flag in option(world, k, v)]
        assert cli.main(["explain-tree-counts", hierarchy, *flags]) == 0
        assert capsys.readouterr().out.strip() == str(expected), name


def test_every_door_charges_the_same(world: World, tmp_path: Path) -> None:
    """Law: one release costs a ledger the same by whichever door it came."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=100.0, delta=1e-3)
    asked = {**PURE, "keys": PATHS}
    for name, door in DOORS.items():
        if name != "command line":  # takes the path of the ledger instead
            with dp.use_ledger(ledger):
                door(world, "path:path", asked)
    keys = option(world, "keys", PATHS)
    flags = ["--epsilon=1", *keys, f"--ledger={ledger.path}"]
    assert cli.main(["tree-counts", str(world.parquet), "path:path", *flags]) == 0
    spent = ledger.releases()
    assert len(spent) == len(DOORS)
    assert spent[["epsilon", "delta", "hierarchy", "neighbours"]].drop_duplicates().shape[0] == 1


@pytest.mark.parametrize("ending", ["parquet", "csv", "json", "html"])
def test_the_command_line_writes_every_format(world: World, tmp_path: Path, ending: str) -> None:
    """Law: the rows are the same in every file, and a report goes beside them."""
    out, report = tmp_path / f"out.{ending}", tmp_path / "report.html"
    flags = ["--epsilon=1", "--keys=domain", "-o", str(out), "--report", str(report), "--quiet"]
    with seeded_noise(2):
        assert cli.main(["tree-counts", str(world.parquet), NUMBER, *flags]) == 0
    with seeded_noise(2):
        expected = world.frame.dp.tree_counts(NUMBER, **PURE, keys="domain")
    if ending == "parquet":
        pd.testing.assert_frame_equal(pd.read_parquet(out), expected)
    elif ending == "csv":
        pd.testing.assert_frame_equal(pd.read_csv(out), expected, check_dtype=False)
    elif ending == "json":
        document = json.loads(out.read_text("utf-8"))
        assert document["rows"] == expected.to_dict("records")
        assert document["receipt"]["mechanism"] == "tree-laplace"
    else:
        assert "[37.5, 40]" in out.read_text("utf-8")
    assert "Counts of amount" in report.read_text("utf-8")


MISTAKES = [
    (
        ["path:path", "--epsilon=1"],
        ("delta is missing", "list the keys: --keys FILE or --keys domain"),
    ),
    (["path:path", "--epsilon=1", "--keys=no.csv"], ("'no.csv'", "does not exist")),
    (["path:path", "--epsilon=1", "--keys=FILE"], ("keys has None", "malformed")),
    (["columns:path,zap", "--epsilon=1", "--keys=FILE"], ("'zap'", "Did you mean 'zip'")),
    (["ip:ip", "--epsilon=1", "--keys=domain"], ("--keys domain needs", "Pass a list of keys")),
    (["path:path", "--epsilon=1", "--level-weights=1;2"], ("level-weights ('1;2')", "1,2,2")),
    (
        ["path:path", "--epsilon=1", "--delta=1e-6", "--mechanism=guassian"],
        ("mechanism ('guassian')", "Did you mean 'gaussian'?"),
    ),
    (
        ["path:path", "--epsilon=1", "--delta=1e-6", "--max-weight=3"],
        ("max_weight (3)", "needs --weight"),
    ),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_the_command_line_answers_mistakes(
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: tuple[str, ...],
) -> None:
    """Law: exit code 2, one message with the next step, nothing on stdout."""
    monkeypatch.chdir(world.parquet.parent)
    flags = [a.replace("FILE", str(world.parquet)) for a in arguments]
    assert cli.main(["tree-counts", str(world.parquet), *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    for part in said:
        assert part in err


# -- real tables ---------------------------------------------------------------------------------

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
with_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder shared/data with real tables is not beside the checkout"
)

REAL: list[tuple[str, str, dict[str, Any]]] = [
    ("flights_nyc13", "columns:origin,dest,carrier", BUDGET),
    ("flights_nyc13", "columns:origin,dest,carrier", {**BUDGET, "user": "user_id"}),
    (
        "flights_nyc13",
        "columns:origin,carrier",
        {**PURE, "keys": [("JFK", "AA"), ("EWR", "UA"), ("LGA", "ZZ")]},
    ),
    ("flights_nyc13", "number:air_time?lower=0&upper=512&depth=6", {**PURE, "keys": "domain"}),
    ("flights_nyc13", "columns:origin,dest", {**BUDGET, "weight": "distance", "max_weight": 50}),
    ("git_paths_rails", "path:path", {**BUDGET, "mechanism": "hhh"}),
    (
        "tor_relay_ips",
        "ip:ip?prefixes=8,16&prefixes6=16,32",
        {**BUDGET, "mechanism": "laplace"},
    ),
    ("dns_zeek_wrccdc", "domain:query", {**BUDGET, "consistent": False}),
]


@some("flights_nyc13-columns:origin,dest,carrier-delta", "git_paths_rails-path:path-mechanism")
@with_data
@members.few(
    4, ("table", "hierarchy", "arguments"), REAL, ids=[f"{t}-{h}-{list(a)[-1]}" for t, h, a in REAL]
)
def test_real_tables_come_out_the_same(
    table: str, hierarchy: str, arguments: dict[str, Any]
) -> None:
    """Law: frame, file, Arrow table and SQL agree on real rows, and counts add up."""
    file = DATA / f"{table}.parquet"
    beside = [arguments[name] for name in ("user", "weight") if name in arguments]
    frame = pd.read_parquet(file, columns=[*as_hierarchy(hierarchy).source_columns, *beside])
    found = []
    for source in (frame, file, pa.Table.from_pandas(frame)):
        with seeded_noise(6):
            found.append(dp.tree_counts(source, hierarchy, **arguments))
    with duckdb.connect() as con, seeded_noise(6):
        dp.register(con)
        given = {"h": hierarchy, **arguments}
        named = ", ".join(f"{name} := ${name}" for name in arguments)
        query = f"query := 'FROM read_parquet(''{file}'')'"
        statement = f"SELECT * FROM dp_tree_counts({query}, hierarchy := $h, {named})"
        found.append(con.execute(statement, given).df())
    check_shape(found[0], hierarchy)
    receipt = Receipt(found[0].attrs["dp"])
    if receipt["consistent"]:
        check_adds_up(found[0], receipt.to_dict())
    for other in found[1:]:
        other.attrs = found[0].attrs
        pd.testing.assert_frame_equal(other, found[0])
