"""Keys of counts of a tree are the same in every form and by every door, and so are files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli import main as cli
from dpframe.testing import seeded_noise
from tests import members
from tests.doors import Answer, World, accessor, public
from tests.integration.contract import HOSTS, PURE, TREE, flags_of, world_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = world_of(TREE, tmp_path_factory.mktemp("doors"))
    yield made
    made.con.close()


ONE = HOSTS["zip"].tolist()


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
        *("getvariable('listed_keys')", "$keys", "'listed'", "'listed_backwards'"),
        "list_concat(['90000', '90111'], ['99999', 'x''y'])",
    ],
    "two": [
        "[('90000', 'a/0/0'), ('90111', 'a/1/1'), ('99999', 'a/0/0'), ('x''y', '日本')]",
        "[['90000', 'a/0/0'], ['90111', 'a/1/1'], ['99999', 'a/0/0'], ['x''y', '日本']]",
        "[{'zip': '90000', 'path': 'a/0/0'}, {'zip': '90111', 'path': 'a/1/1'}, "
        "{'zip': '99999', 'path': 'a/0/0'}, {'zip': 'x''y', 'path': '日本'}]",
        "[{'path': '日本', 'zip': 'x''y'}, {'path': 'a/0/0', 'zip': '90000'}, "
        "{'path': 'a/0/0', 'zip': '99999'}, {'path': 'a/1/1', 'zip': '90111'}]",
        *("getvariable('listed_keys')", "$keys", "'listed'", "'listed_backwards'"),
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
            found[name] = accessor("tree_counts")(world, spec, {**asked, "keys": form})
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
    flags = [*flags_of(world, spec, asked), f"--keys={file}", "--quiet"]
    command = ["tree-counts", str(world.parquet), *flags]
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
