"""What the contract of doors asks of every question: rows, cases, mistakes, how answers compare.

A new question is a ``Contract`` more; the laws are in ``test_contract.py``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dpframe as dp
from dpframe.doors.cli import main as cli
from dpframe.hierarchy import as_hierarchy
from dpframe.postprocess.level_values import TEXT
from dpframe.postprocess.shown_nodes import flat_frame, nearest_reported
from tests.doors import Door, World, accessor, command, function, public, rows, sql

Answers = Mapping[str, Any]
"""What every door answered."""
Arguments = dict[str, Any]
BUDGET: Arguments = {"epsilon": 1.0, "delta": 1e-6}
PURE: Arguments = {"epsilon": 1.0}
SPENT = ["--epsilon=1", "--delta=1e-6"]
SHARES: Arguments = {"user": "who"}
BOUNDED: Arguments = {"user": "who", "contribution": "records", "max_contributions": 2}
DIFFERENT: Arguments = {"user": "who", "contribution": "items", "at_most": 4}
DAY: Arguments = {"period": ("when", "2013-01-01")}


# -- arguments as the command line takes them ------------------------------------------------------


def flags_of(world: World, about: Any, arguments: Arguments) -> list[str]:
    """A column, hierarchy or dimensions and every argument; tables and lists of words in files."""
    return [
        about,
        *(flag for name, value in arguments.items() for flag in _flag(world, name, value)),
    ]


def _flag(world: World, name: str, value: Any) -> list[str]:
    switches = {
        "remainder": "--no-remainder",
        "conditioned": "--no-conditioned",
        "consistent": "--raw",
    }
    if name in switches:
        return [] if value else [switches[name]]
    if name == "measures":
        return [f"--measure={text}" for text in ([value] if isinstance(value, str) else value)]
    if name == "ledger":
        value = value.path
    elif name == "period":
        column, text, *zone = value
        value = f"{column}={'@'.join([text, *zone])}"
    elif name in ("level_weights", "level_importance", "segments") and not isinstance(value, str):
        value = ",".join(map(str, value))
    elif name in ("deny", "public"):
        file = world.parquet.with_name(f"{name}.txt")
        file.write_text("\n".join([*value, "", ""]), encoding="utf-8")
        value = file
    elif name == "keys" and not isinstance(value, str):
        file = world.parquet.with_name("keys.parquet")
        value.to_parquet(file, index=False)
        value = file
    return [f"-{name}{value}" if len(name) == 1 else f"--{name.replace('_', '-')}={value}"]


# -- contracts -------------------------------------------------------------------------------------


def same_release(found: Answers, about: Any, arguments: Arguments) -> None:
    """Equal frames, column types and receipts."""
    expected, receipt = found["accessor"]
    for name, (result, card) in found.items():
        pd.testing.assert_frame_equal(result, expected, obj=name)
        assert public(card) == public(receipt), name


@dataclass(frozen=True, kw_only=True, eq=False)
class Contract:
    """A question, and what the laws of doors need to ask it."""

    name: str
    frame: Callable[[], pd.DataFrame] = rows
    table: Callable[[], pa.Table] | None = None
    """The same rows in a file, where pandas would write other types."""
    cases: Mapping[str, tuple[Any, Arguments]]
    suite: tuple[str, ...]
    """The cases that the suite runs; all of them are evidence."""
    cheap: tuple[Any, Arguments]
    """What is asked where only a ledger matters."""
    others: tuple[Arguments, ...]
    """Arguments that each make another request of it."""
    first: str = "hierarchy"
    """What SQL calls the first argument."""
    planning: Arguments = field(default_factory=dict)
    """What a plan needs beside the arguments of a release."""
    same: Callable[[Answers, Any, Arguments], None] = same_release
    stored: Callable[[Any], Any] = lambda answer: answer[0]
    """What of an answer a replay gives again."""
    flags: Callable[[World, Any, Arguments], list[str]] = flags_of
    doors: Mapping[str, Door] = field(default_factory=dict)
    """Where they are not those of every question."""
    reads_types: bool = False
    """Whether types of columns are read before a name is looked up."""
    always: tuple[str, ...] = ()
    """What its command needs beside the arguments of the question."""
    mistakes: tuple[tuple[list[str], tuple[str, ...]], ...] = ()
    """What follows the source on the command line, and what is said of it."""
    real: tuple[tuple[str, Any, Arguments], ...] = ()
    """Real tables, and what is asked of them."""

    @property
    def command(self) -> str:
        return self.name.replace("_", "-")

    @property
    def explains(self) -> str:
        return "explain" if self.name == "hhh" else f"explain_{self.name}"

    def every_door(self) -> dict[str, Door]:
        def line(world: World, about: Any, arguments: Arguments) -> Any:
            return command(world, self.command, *_split(self.flags(world, about, arguments)))

        read = partial(function, self.name)
        return {
            "accessor": accessor(self.name),
            "function, pandas": read(lambda world: world.frame),
            "function, Arrow": read(lambda world: pa.Table.from_pandas(world.frame)),
            "function, Polars": read(lambda world: pl.read_parquet(world.parquet)),
            "function, lazy Polars": read(lambda world: pl.scan_parquet(world.parquet)),
            "function, DuckDB relation": read(lambda world: world.con.table("visits")),
            "function, file": read(lambda world: world.parquet),
            "command line": line,
            "SQL, table": sql(self.name, "'visits'", self.first),
            "SQL, query": sql(self.name, "query := 'SELECT * FROM visits -- all'", self.first),
            **self.doors,
        }


def _split(flags: list[str]) -> tuple[str, list[str]]:
    return flags[0], flags[1:]


def world_of(contract: Contract, folder: Path, real: Path | None = None) -> World:
    """The rows in everything that a door reads: those of the contract, or of a real table."""
    parquet = real or folder / "rows.parquet"
    if real is None and contract.table:
        pq.write_table(contract.table(), parquet)
    elif real is None:
        contract.frame().to_parquet(parquet)
    con = duckdb.connect(str(folder / "user.db"))
    con.read_parquet(str(parquet)).create("visits")
    con.execute('CREATE SCHEMA "my ""odd"" schema"')
    con.execute("CREATE VIEW seen AS SELECT * FROM visits WHERE true")
    con.execute('CREATE VIEW "my ""odd"" schema"."visits; --" AS FROM visits')
    frame = contract.frame() if real is None else pd.read_parquet(real)
    con.register("registered", frame)
    return World(frame, parquet, con)


# -- hhh, and cells --------------------------------------------------------------------------------

UNITS: dict[str, Arguments] = {"records": {}, "shares": {**SHARES, "contribution": "share"}}
HIERARCHIES = (
    *("ip:ip", "path:path", "columns:host,zip,path", "domain:host", "date:when"),
    *("code:zip?lengths=1,3,5", "number:amount?lower=0&upper=40&depth=4", "ip:ip * zip"),
)
HHH = Contract(
    name="hhh",
    cases={
        **{f"{h}-{u}": (h, {**BUDGET, **more}) for h in HIERARCHIES for u, more in UNITS.items()},
        "bounded": ("path:path", {**BUDGET, **BOUNDED}),
        "no remainder": (
            "path:path",
            {**BUDGET, "remainder": False, "threshold": 60, "confidence": 0.9},
        ),
        "laplace": ("path:path", {**BUDGET, "mechanism": "laplace"}),
        "gaussian": ("path:path", {**BUDGET, "mechanism": "gaussian", **BOUNDED}),
        "weights": ("path:path", {**BUDGET, "weight": "amount", "max_weight": 10}),
        "weights of users": (
            "path:path",
            {**BUDGET, "user": "who", "weight": "amount", "max_weight": 12.5},
        ),
        "weights above a sum": (
            "path:path",
            {**BUDGET, "weight": "year", "max_weight": 2001.5, "threshold": 70_000.5},
        ),
        "different users": ("columns:host,zip", {**BUDGET, **DIFFERENT, "epsilon": 9.0}),
        "rounds": ("path:path", {**BUDGET, "user": "who", "mechanism": "rounds", "epsilon": 9.0}),
        "users": ("columns:host,zip", {**BUDGET, "user": "who"}),
        "one node": ("columns:host,zip", {**BUDGET, "user": "who", "nodes_per_user": 1}),
        "a period": ("path:path", {**BUDGET, **DAY}),
        "every option": (
            "columns:host,zip",
            {
                **BUDGET,
                **BOUNDED,
                "threshold": 150,
                "remainder": False,
                "release_share": 0.4,
                "confidence": 0.9,
                "mechanism": "offline",
            },
        ),
    },
    suite=(
        *("ip:ip-records", "columns:host,zip,path-shares", "ip:ip * zip-records", "weights"),
        *("rounds", "users", "a period", "every option"),
    ),
    cheap=("path:path", BUDGET),
    others=(
        *(DAY, {"epsilon": 2.0}, {"threshold": 90}, {"remainder": False}, DIFFERENT),
        {"weight": "amount", "max_weight": 10},
    ),
    mistakes=(
        (["ipp:src", *SPENT], ("ipp:src", "Did you mean 'ip'")),
        (["ip:ip", "--epsilon=0", "--delta=1e-6"], ("epsilon (0.0)", "0.0001")),
        (["ip:ip", "--epsilon=1"], ("pass --delta,",)),
        (["ip:pi", *SPENT], ("'pi'", "Did you mean 'ip'")),
        (["ip:ip", *SPENT, "--threshold=3"], ("threshold (3)", "smallest")),
        (["ip:ip", *SPENT, "-o", "x.xls"], ("output ('x.xls')", ".parquet")),
        (["ip:ip", *SPENT, "-o", "no/x.csv"], ("folder that does not exist",)),
        (["zip", *SPENT, "--mechanism=paper"], ("Pass --acknowledge, or use --mechanism",)),
    ),
    doors={
        "SQL, view": sql("hhh", "'seen'"),
        "SQL, registered frame": sql("hhh", "'registered'"),
        "SQL, quoted name": sql("hhh", """'"my ""odd"" schema"."visits; --"'"""),
    },
)
FLAT = Contract(
    name="heavy_hitters",
    cases={
        "words": ("zip", BUDGET),
        "users, the largest": ("path", {**BUDGET, **SHARES, "k": 5}),
        "a period": ("zip", {**BUDGET, **DAY}),
    },
    suite=("words", "users, the largest"),
    cheap=("zip", BUDGET),
    others=({"epsilon": 2.0}, {"k": 3}),
    first="column",
)

# -- rollups ---------------------------------------------------------------------------------------

LARGE: Arguments = {"epsilon": 8.0, "delta": 1e-5}
USER: Arguments = {**LARGE, "user": "who"}
MEASURES = ["count AS n", "sum(amount, 0, 40, clipped=true) AS paid", "mean(amount, 0, 40)"]
SUMS = [
    "count AS n",
    "sum(amount, 0, 40) AS paid",
    "sum(odd, auto, auto) AS odd",
    "sum(whole, 0, auto, share=2) AS whole",
    "mean(amount, 0, 40)",
]
"""What is measured along with rounds, and a mean."""
BY_SHARES: Arguments = {"contribution": "share"}
BY_ROUNDS: Arguments = {"contribution": "items", "epsilon": 6.0}
LISTED = pd.DataFrame({"path": ["a/0/0", "a/1/1", "a/1/13", "b/none"]})
AFTER_THE_DRAW = ("measures", "card", "levels_measured", "notices", "ledger", "keys", "budget")
"""What ``dp_releases`` lists as it was charged, before the draw."""


def hostile() -> pd.DataFrame:
    """Rows with values that count nothing, huge ones, and users who are missing."""
    frame = rows()
    n = np.arange(len(frame))
    frame["odd"] = np.select(
        [n % 11 == 0, n % 13 == 0, n % 17 == 0], [np.nan, np.inf, -1e308], default=2.5
    )
    frame["whole"] = pd.Series(np.where(n % 7 == 0, 2**62, n % 5), dtype="Int64")
    frame.loc[n % 5 == 0, "whole"] = None
    frame.loc[n % 19 == 0, "who"] = None
    return frame


def same_rollup(found: Answers, about: Any, arguments: Arguments) -> None:
    """Equal columns, order, values and receipts, as every door can say them."""

    def plain(value: object) -> object:
        if isinstance(value, np.generic):
            value = value.item()
        return None if value is None or value != value else str(value)

    frame, receipt = found["accessor"]
    for name, (other, facts) in found.items():
        assert list(other.columns) == list(frame.columns), name
        for column in frame.columns:
            assert [*map(plain, other[column])] == [*map(plain, frame[column])], (name, column)
        left_out = AFTER_THE_DRAW if name.startswith("SQL") else AFTER_THE_DRAW[-3:]
        ours, theirs = (
            {k: v for k, v in public(dict(card)).items() if k not in left_out}
            for card in (receipt, facts)
        )
        assert ours == theirs, name


ROLLUP = Contract(
    name="rollup",
    frame=hostile,
    cases={
        "columns": ("columns:host,zip", {**LARGE, "measures": MEASURES}),
        "ragged paths": ("path:path", {**LARGE, "measures": MEASURES}),
        "one measure": ("ip:ip", {**LARGE, "measures": "count"}),
        "odd values": (
            "columns:host",
            {**LARGE, "measures": ["sum(odd, -9, 9)", "mean(odd, 0, 9)"]},
        ),
        "whole numbers": ("date:when", {**LARGE, "measures": "sum(whole, 0, 1e15) AS s"}),
        "negative sums": ("columns:host", {**LARGE, "measures": "sum(odd, -9, 0, clipped=true)"}),
        "distinct": ("columns:host,zip", {**LARGE, "measures": ["distinct(who)", "count"]}),
        "auto": ("columns:host", {**LARGE, "measures": ["sum(amount, 0, auto)", "count"]}),
        "listed": ("path:path", {"epsilon": 8.0, "keys": LISTED, "measures": MEASURES}),
        "important levels": (
            "columns:host,zip",
            {**LARGE, "measures": ["count", "sum(id, 0, 600)"], "level_importance": [0, 3, 1.5]},
        ),
        "even levels": ("ip:ip", {**LARGE, "measures": "count", "level_importance": "even"}),
        "share": ("columns:host", {**LARGE, "measures": ["count(share=3)", "sum(id, 0, 600)"]}),
        "selection": ("columns:host", {**LARGE, "measures": "count", "selection_share": 0.7}),
        "users": ("columns:host,zip", {**USER, **BY_SHARES, "measures": MEASURES}),
        "users, auto": ("columns:host,zip", {**USER, "measures": MEASURES}),
        "by rounds": ("columns:host,zip", {**USER, **BY_ROUNDS, "measures": SUMS}),
        "paths by rounds": ("path:path", {**USER, **BY_ROUNDS, "measures": ["count", *SUMS[1:]]}),
        "sums by rounds": ("ip:ip", {**USER, **BY_ROUNDS, "measures": "sum(odd, -9, 9) AS odd"}),
        "rows of users": (
            "columns:host",
            {**USER, **BY_SHARES, "measures": ["count(at_most=3) AS n", "count"]},
        ),
        "distinct of users": (
            "columns:host",
            {**USER, **BY_SHARES, "measures": "distinct(id, at_most=4)"},
        ),
        "users, listed": (
            "path:path",
            {"epsilon": 8.0, "user": "who", "keys": LISTED, "measures": "count"},
        ),
        "threshold": (
            "columns:host",
            {**LARGE, "measures": "count", "threshold": 100, "confidence": 0.8},
        ),
        "cells": ("host * zip", {**LARGE, "measures": MEASURES}),
        "a period": ("columns:host", {**LARGE, "measures": MEASURES, **DAY}),
    },
    suite=(*("columns", "distinct of users", "cells", "by rounds", "important levels"),),
    cheap=("columns:host", {**LARGE, "measures": "count"}),
    others=(
        {"epsilon": 2.0},
        {"measures": ["count", "sum(amount, 0, 40)"]},
        {"level_importance": "even"},
    ),
    first="by",
    same=same_rollup,
)

# -- counts of a tree ------------------------------------------------------------------------------

HOSTS = pd.DataFrame(
    {"zip": ["90000", "90111", "99999", "x'y"], "path": ["a/0/0", "a/1/1", "a/0/0", "日本"]}
)
PATHS = pd.DataFrame({"path": ["a/0/0", "a/1/1", "a/1/13", "a/2", "b/none/1/2/3"]})
NETS = pd.DataFrame({"ip": ["10.1.1.7", "10.2.2.7", "2001:db8::1", "::ffff:10.1.16.7", "1.1.1.1"]})
NUMBER = "number:amount?lower=0&upper=40&depth=4"
RELATIVE: Arguments = {
    "epsilon": 40.0,
    "delta": 1e-6,
    "mechanism": "relative",
    "alpha": 0.9,
    "largest": 2 * 10**12,
    "weight": "big",
}


def weighted() -> pd.DataFrame:
    """Rows with weights: good ones, missing and negative ones, and huge ones."""
    frame = rows()
    n = np.arange(len(frame))
    frame["n"] = pd.Series(n % 7, dtype="Int64")
    for step, odd in ((11, None), (13, -3), (101, 5 * 10**9)):
        frame.loc[n % step == 0, "n"] = odd
    frame["big"] = np.where(n % 3 == 0, 10**9, 4 * 10**8)
    return frame


def same_counts(found: Answers, about: Any, arguments: Arguments) -> None:
    """The same release, of the shape that the docstring promises; made consistent, it adds up."""
    same_release(found, about, arguments)
    frame, receipt = found["accessor"]
    columns = as_hierarchy(about).label_columns
    numbers = ["residual", "count", "lower", "upper"]
    assert list(frame.columns) == ["level", "prefix", *columns, *numbers]
    texts = [TEXT] * (1 + len(columns))
    assert [str(t) for t in frame.dtypes] == ["int64", *texts, *["int64"] * 4]
    assert isinstance(frame.index, pd.RangeIndex)
    assert frame["level"].is_monotonic_increasing
    assert (frame["level"][0], frame["prefix"][0]) == (0, "*")
    if receipt.get("adds_up", True):
        assert frame["residual"].sum() == frame["count"][0]
    assert ((frame["lower"] <= frame["count"]) & (frame["count"] <= frame["upper"])).all()
    if not receipt["consistent"]:
        return
    assert (frame["count"] >= 0).all()
    above = nearest_reported(frame, as_hierarchy(receipt["hierarchy"]))
    levels = frame["level"].to_numpy()
    assert (levels[above[1:]] == levels[1:] - 1).all()
    below = np.zeros(len(frame), dtype=np.int64)
    np.add.at(below, above[1:], frame["count"].to_numpy()[1:])
    inner = np.isin(np.arange(len(frame)), above)
    assert (below[inner] == frame["count"].to_numpy()[inner]).all()


TREE = Contract(
    name="tree_counts",
    frame=weighted,
    cases={
        "columns": ("columns:host,zip,path", BUDGET),
        "ragged paths": ("path:path", BUDGET),
        "addresses of both versions": ("ip:ip", BUDGET),
        "dates": ("date:when", BUDGET),
        "malformed dropped": ("path:path?invalid=drop", BUDGET),
        "domain keys": (NUMBER, {**PURE, "keys": "domain"}),
        "domain keys, delta": (NUMBER, {**BUDGET, "keys": "domain", "consistent": False}),
        "listed columns": ("columns:zip,path", {**PURE, "keys": HOSTS}),
        "listed paths": ("path:path", {**PURE, "keys": PATHS}),
        "listed paths, delta 0": ("path:path", {"epsilon": 1.0, "delta": 0.0, "keys": PATHS}),
        "listed addresses": ("ip:ip", {**PURE, "keys": NETS}),
        "listed, as drawn": ("ip:ip", {**PURE, "keys": NETS, "consistent": False}),
        "shares": ("path:path", {**BUDGET, **SHARES}),
        "shares, as drawn": ("path:path", {**BUDGET, **SHARES, "consistent": False}),
        "shares of listed keys": ("path:path", {**PURE, **SHARES, "keys": PATHS}),
        "records of users": ("path:path", {**BUDGET, **BOUNDED}),
        "records of users, listed": ("path:path", {**PURE, **BOUNDED, "keys": PATHS}),
        "weights": ("path:path", {**BUDGET, "weight": "n"}),
        "weights, listed": ("path:path", {**PURE, "weight": "n", "keys": PATHS}),
        "bounded weights": ("path:path", {**BUDGET, "weight": "n", "max_weight": 3}),
        "large weights": ("columns:host,zip", {**BUDGET, "weight": "big"}),
        "as drawn": ("path:path", {**BUDGET, "consistent": False}),
        "consistent": ("path:path", {**BUDGET, "consistent": True, "confidence": 0.9}),
        "additive": ("columns:host,zip", {**BUDGET, "mechanism": "additive"}),
        "laplace": ("columns:host,zip", {**BUDGET, "mechanism": "laplace"}),
        "gaussian": ("columns:host,zip", {**BUDGET, "mechanism": "gaussian"}),
        "gaussian, listed": ("path:path", {**BUDGET, "mechanism": "gaussian", "keys": PATHS}),
        "gaussian, records": ("path:path", {**BUDGET, "mechanism": "gaussian", **BOUNDED}),
        "hhh": ("path:path", {**BUDGET, "mechanism": "hhh"}),
        "hhh, shares": ("path:path", {**BUDGET, "mechanism": "hhh", **SHARES, "consistent": False}),
        "relative": ("columns:zip,host", RELATIVE),
        "relative, as drawn": ("columns:zip,host", {**RELATIVE, "consistent": False}),
        "level weights": ("columns:host,zip", {**BUDGET, "level_weights": [1, 2, 2.5]}),
        "threshold": ("path:path", {**BUDGET, "threshold": 90}),
        "different users": ("columns:zip,path", {**PURE, **DIFFERENT, "keys": HOSTS}),
        "a period": ("columns:zip,path", {**PURE, **DAY, "keys": HOSTS}),
    },
    suite=(
        *("columns", "listed columns", "shares, as drawn", "bounded weights"),
        *("gaussian, listed", "hhh"),
    ),
    cheap=("path:path", {**PURE, "keys": PATHS}),
    others=({"epsilon": 2.0}, {"consistent": False}, {"keys": PATHS.head(2)}),
    same=same_counts,
    mistakes=(
        (["path:path", "--epsilon=1"], ("delta is missing", "--keys FILE or --keys domain")),
        (["path:path", "--epsilon=1", "--keys=no.csv"], ("'no.csv'", "does not exist")),
        (["path:path", "--epsilon=1", "--keys=rows.parquet"], ("keys has None", "malformed")),
        (
            ["columns:path,zap", "--epsilon=1", "--keys=rows.parquet"],
            ("'zap'", "Did you mean 'zip'"),
        ),
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
    ),
    real=(
        ("flights_nyc13", "columns:origin,dest,carrier", {**BUDGET, "user": "user_id"}),
        ("flights_nyc13", "number:air_time?lower=0&upper=512&depth=6", {**PURE, "keys": "domain"}),
        (
            "flights_nyc13",
            "columns:origin,dest",
            {**BUDGET, "weight": "distance", "max_weight": 50},
        ),
        ("git_paths_rails", "path:path", {**BUDGET, "mechanism": "hhh"}),
        (
            "tor_relay_ips",
            "ip:ip?prefixes=8,16&prefixes6=16,32",
            {**BUDGET, "mechanism": "laplace"},
        ),
        ("dns_zeek_wrccdc", "domain:query", {**BUDGET, "consistent": False}),
    ),
)

# -- items of users --------------------------------------------------------------------------------

CENTRAL: Arguments = {
    "user": "who",
    "epsilon": 8.0,
    "delta": 1e-6,
    "mechanism": "laplace",
    "length": 15,
}
REPORTS: Arguments = {**CENTRAL, "mechanism": "reports", "epsilon": 4.0}
DIGITS = "-.0123456789"


def typed(n: int = 6_000) -> pd.DataFrame:
    generator = np.random.default_rng(7)
    heavy = (generator.zipf(1.6, n) - 1) % 24
    who = [None if i == 0 else f"user {i}" for i in generator.integers(0, 2_000, n)]
    day = pd.Timestamp("2026-11-01")
    texts = ("Ab", "b'c", "日本", "é", "👩‍👩‍👧‍👦", "", "a b", "e\u0301", None)
    frame = pd.DataFrame(
        {
            "who": pd.Series(who, dtype="str"),
            "id": generator.integers(0, 2_000, n),
            "word": pd.Series(
                [None if i == 9 else "abcdefgh"[i % 8] + "xyz"[i % 3] for i in heavy], dtype="str"
            ),
            "odd": pd.Series([texts[i % 9] for i in heavy], dtype="str"),
            "long": pd.Series(["x" * 3_000 if i == 0 else "ab" * i for i in heavy], dtype="str"),
            "number": heavy % 7 - 2,
            "real": np.where(heavy == 3, np.nan, heavy / 4),
            "day": pd.Series([day + pd.Timedelta(days=int(i % 3)) for i in heavy]).astype(
                "datetime64[us]"
            ),
            "yes": heavy % 2 == 0,
            "count": pd.Series(["abc"[i % 3] for i in heavy], dtype="str"),
        }
    )
    frame.loc[5, "long"] = "y" * 1_000_000
    return frame


def same_items(found: Answers, about: Any, arguments: Arguments) -> None:
    """The same release, of the shape that the docstring promises, largest first."""
    same_release(found, about, arguments)
    frame, _ = found["accessor"]
    label = f"{about}_" if about == "count" else about
    assert list(frame.columns) == [label, "count", "lower", "upper"]
    assert [str(t) for t in frame.dtypes][1:] == ["int64"] * 3
    assert isinstance(frame.index, pd.RangeIndex)
    order = list(zip(-frame["count"], frame[label], strict=True))
    assert order == sorted(order)
    assert ((frame["lower"] <= frame["count"]) & (frame["count"] <= frame["upper"])).all()


def flat_line(name: str) -> Door:
    """The command line, whose file has a node a row; as the other doors show it."""

    def door(world: World, column: str, arguments: Arguments) -> Any:
        about, flags = _split(flags_of(world, column, arguments))
        frame, receipt = command(world, name, about, flags)
        assert list(frame.columns[:2]) == ["level", "prefix"]
        assert (frame["prefix"] == frame.iloc[:, 2]).all()
        assert (frame["residual"] == frame["count"]).all()
        return flat_frame(frame, str(frame.columns[2]), None), receipt

    return door


ITEMS = Contract(
    name="prefix_tree",
    frame=typed,
    cases={
        "words": ("word", CENTRAL),
        "words, reports": ("word", REPORTS),
        "gaussian": ("word", {**CENTRAL, "mechanism": "gaussian"}),
        "odd texts": ("odd", {**CENTRAL, "alphabet": "ab'日é"}),
        "long texts": ("long", CENTRAL),
        "whole numbers": ("number", {**CENTRAL, "alphabet": DIGITS}),
        "real numbers": ("real", {**CENTRAL, "alphabet": DIGITS, "length": 20, "rounds": 2}),
        "times": ("day", {**CENTRAL, "alphabet": DIGITS + " :", "length": 60, "limit": 2**16}),
        "booleans": ("yes", {**CENTRAL, "alphabet": "truefals"}),
        "numbers for users": ("word", {**CENTRAL, "user": "id"}),
        "a column like a number of the result": ("count", CENTRAL),
        "weighted, of all": ("word", {**CENTRAL, "selection": "weighted", "conditioned": False}),
        "segments": ("word", {**CENTRAL, "segments": [6, 4, 5]}),
        "even": ("word", {**CENTRAL, "segments": "even", "iterations": 3}),
        "small cells": ("word", {**CENTRAL, "iterations": 8, "limit": 64, "false_positives": 0.1}),
        "denied": ("word", {**CENTRAL, "deny": ["ax", "AX", "日本", "it's"]}),
        "huffman": ("word", {**CENTRAL, "encoding": "huffman", "public": ["ax", "by", "日本"]}),
        "rounds": ("word", {**REPORTS, "rounds": 2, "iterations": 1, "confidence": 0.8}),
        "removed": ("word", {**REPORTS, "neighbours": "remove"}),
        "shuffled": ("word", {**REPORTS, "accountant": "shuffle"}),
        "declared": ("word", {**REPORTS, "devices": 1_500}),
        "taking part": ("word", {**REPORTS, "participation": 0.75}),
        "a period": ("word", {**CENTRAL, "period": ("day", "2026-11-01")}),
    },
    suite=(*("words", "gaussian", "weighted, of all", "denied", "removed", "a period"),),
    cheap=("word", CENTRAL),
    others=({"epsilon": 7.0}, {"rounds": 2}, {"devices": 1_000}, {"conditioned": False}),
    first="column",
    planning={"devices": int(typed()["who"].nunique(dropna=False))},
    same=same_items,
    doors={"command line": flat_line("prefix-tree")},
    mistakes=tuple(
        (["word", *(f"--{k}={v}" for k, v in CENTRAL.items()), *flags], words)
        for flags, words in (
            (["--epsilon=0"], ("epsilon (0.0)", "0.0001")),
            (["--epsilon=nan"], ("epsilon (nan)",)),
            (["--epsilon=-1"], ("epsilon (-1.0)",)),
            (["--delta=1"], ("delta (1.0)",)),
            (["--user=whom"], ("column 'whom' does not exist", "Did you mean 'who'")),
            (["--segments=adptive"], ("segments ('adptive')", "Did you mean 'adaptive'")),
            (["--segments=5,5"], ("segments (5, 5)", "add up to length (15)")),
            (["--segments=5;10"], ("segments ('5;10')", "commas")),
            (["--segments="], ("segments ('')",)),
            (["--selection=weight"], ("selection ('weight')", "Did you mean 'weighted'")),
            (["--encoding=hufman"], ("encoding ('hufman')", "Did you mean 'huffman'")),
            (["--encoding=huffman"], ("needs --public,",)),
            (["--mechanism=laplce"], ("mechanism ('laplce')", "Did you mean 'laplace'")),
            (["--accountant=agregate"], ("accountant ('agregate')", "Did you mean 'aggregate'")),
            (["--neighbours=replaced"], ("neighbours ('replaced')", "Did you mean 'replace'")),
            (["--devices=3000"], ("devices (3,000)", "users of the source")),
            (["--deny=nowhere.txt"], ("deny ('nowhere.txt') does not exist", "one item a line")),
            (["--deny=."], ("deny ('.') is a folder",)),
            (
                ["--public=nowhere.txt", "--encoding=huffman"],
                ("public ('nowhere.txt') does not exist",),
            ),
            (["--report=page.txt"], ("report ('page.txt') must end in .html",)),
            (["-o", "out.xls"], ("output ('out.xls') must end in",)),
        )
    ),
)

# -- synthetic rows --------------------------------------------------------------------------------

N, DRAWN = 3_000, 400
SMALL: Arguments = {"k": 8, "width": 32}
"""A tree of hundreds of nodes: that of the sizes by default, 22,000, is in one case."""
SYNTHETIC: Arguments = {"epsilon": 2.0, **SMALL}
YEAR = "lower=2017-01-01&upper=2018-01-01"
WORDS = ["w0", "w1", "w2", "w3", "not in the data"]
REALS = "number:f64?lower=0&upper=20"


@cache
def kinds() -> pa.Table:
    """A column of every kind, with missing values, values out of bounds and odd text."""
    generator = np.random.default_rng(5)
    i = np.arange(N)
    heavy = (generator.zipf(1.4, N) - 1) % 50
    hours = 1_483_228_800 + 3600 * heavy * 7
    seconds = pa.array(hours).cast(pa.timestamp("s"))
    whole = {
        "i32": pa.array((heavy - 3).astype(np.int32)),
        "i64": pa.array(heavy * 10**6, mask=i % 31 == 0),
        "u8": pa.array((heavy % 7).astype(np.uint8)),
    }
    real = {
        "f32": pa.array((heavy / 3).astype(np.float32)),
        "f64": pa.array(np.where(i % 29 == 0, np.nan, heavy / 3), from_pandas=False),
        "money": pa.array([Decimal(int(h)) / 4 for h in heavy], type=pa.decimal128(7, 2)),
    }
    times = {
        "day": pa.array([dt.date(2017, 1, 1) + dt.timedelta(int(h)) for h in heavy]),
        "us": seconds.cast(pa.timestamp("us")),
        "ns": seconds.cast(pa.timestamp("ns")),
        "tz": seconds.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
    }
    texts = {
        "word": pa.array([None if h == 9 else f"w{h}" for h in heavy]),
        "odd": pa.array([("日本", "a'b", 'q"x', "é")[h % 4] for h in heavy]),
        "size": pa.array([f"s{h % 3}" for h in heavy]).dictionary_encode(),
        "yes": pa.array(heavy % 2 == 0),
        "year": pa.array(2000 + heavy % 3),
        "ip": pa.array(["2001:db8::1" if h == 8 else f"10.{h % 3}.{h}.7" for h in heavy]),
    }
    return pa.table({**whole, **real, **times, **texts})


def as_pandas(table: pa.Table) -> pd.DataFrame:
    """As users have it; what pandas has no type for as Arrow."""
    frame = table.to_pandas()
    for name in ("day", "money"):
        frame[name] = pd.Series(pd.array(table[name], dtype=pd.ArrowDtype(table[name].type)))
    frame["i64"] = pd.Series(table["i64"].to_pandas(integer_object_nulls=True), dtype="Int64")
    return frame


def generated(source: Callable[[World], Any]) -> Door:
    """``dp.synthesize``: rows, and the counts behind them."""

    def door(world: World, columns: Any, arguments: Arguments) -> Any:
        generator = dp.synthesize(source(world), columns, **arguments)
        return generator.sample_arrow(DRAWN), generator.counts()

    return door


def by_accessor(world: World, columns: Any, arguments: Arguments) -> Any:
    generator = world.frame.dp.synthesize(columns, **arguments)
    return generator.sample_arrow(DRAWN), generator.counts()


def streamed(*ends: int) -> Door:
    """``dp.PrivHP``, which reads the rows in these pieces."""

    def door(world: World, columns: Any, arguments: Arguments) -> Any:
        of_finish = {k: v for k, v in arguments.items() if k in ("epsilon", "split")}
        counts = dp.PrivHP(columns, **{k: v for k, v in arguments.items() if k not in of_finish})
        table = pq.read_table(world.parquet)
        for start, end in zip((0, *ends), (*ends, N), strict=True):
            counts.update(table.slice(start, end - start))
        generator = counts.finish(**of_finish)
        return generator.sample_arrow(DRAWN), generator.counts()

    return door


def synthetic_flags(world: World, columns: Any, arguments: Arguments) -> list[str]:
    """Columns as texts; keys in a file a column."""
    specs = spec_texts(columns)
    given = dict(arguments)
    listed = given.pop("keys", {})
    if not isinstance(listed, dict):
        listed = {specs[0].partition(":")[2]: listed}
    flags = []
    for name, keys in listed.items():
        file = world.parquet.with_name(f"keys_{name}.parquet")
        names = name.split(",")
        split = list(zip(*keys, strict=True)) if len(names) > 1 else [list(keys)]
        pq.write_table(pa.table(dict(zip(names, split, strict=True))), file)
        flags.append(f"--keys={file}")
    return [*specs, *flags_of(world, "", given)[1:], *flags]


def spec_texts(columns: Any) -> list[str]:
    if isinstance(columns, dict):
        return [
            f"{'time' if isinstance(low, str) else 'number'}:{name}?lower={low}&upper={high}"
            for name, (low, high) in columns.items()
        ]
    return [columns] if isinstance(columns, str) else list(columns)


def synthetic_line(world: World, columns: Any, arguments: Arguments) -> Any:
    out, saved = (world.parquet.with_name(name) for name in ("out.parquet", "saved.parquet"))
    flags = [*synthetic_flags(world, columns, arguments), *ROWS.always, "--quiet"]
    line = ["synthesize", str(world.parquet), *flags, "-o", str(out), "--save", str(saved)]
    assert cli.main(line) == 0
    return pq.read_table(out), dp.Generator.load(saved).counts()


def synthetic_sql(source: str) -> Door:
    def door(world: World, columns: Any, arguments: Arguments) -> Any:
        given = dict(arguments)
        dp.register(world.con, ledger=given.pop("ledger", None))
        named = "".join(f', "{name}" := ${name}' for name in given)
        statement = f"FROM dp_synthesize({source}, columns := $c, n := {DRAWN}{named})"
        columns = {k: list(v) for k, v in columns.items()} if isinstance(columns, dict) else columns
        return world.con.sql(statement, params={"c": columns, **given}).to_arrow_table(), None

    return door


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for the width of offsets of text, dictionaries, and the name of a zone."""
    if pa.types.is_dictionary(one):
        one = one.value_type
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return bool(one.unit == other.unit and (one.tz is None) == (other.tz is None))
    if pa.types.is_string(one) or pa.types.is_large_string(one):
        return bool(pa.types.is_string(other) or pa.types.is_large_string(other))
    return bool(one == other)


def same_rows(found: Answers, columns: Any, arguments: Arguments) -> None:
    """Equal counts, rows and types; the types of the source, and counts that add up."""
    expected, counts = found["function, file"]
    assert list(counts.columns) == ["level", "cell", "count", "leaf"]
    assert [str(counts[c].dtype) for c in ("level", "count", "leaf")] == [
        *("int64", "float64", "bool")
    ]
    assert counts["cell"][0] == "*"
    assert counts["level"].is_monotonic_increasing
    assert (counts["count"] >= 0).all()
    assert np.isclose(counts.loc[counts["leaf"], "count"].sum(), counts["count"][0])
    for name, (table, tree) in found.items():
        assert table.column_names == expected.column_names, name
        assert table.to_pylist() == expected.to_pylist(), name
        if name != "command line":  # pandas writes its file
            for one, other in zip(expected.schema, table.schema, strict=True):
                assert same_type(one.type, other.type), (name, one.name)
        if tree is not None:
            pd.testing.assert_frame_equal(tree, counts, obj=name)


ROWS = Contract(
    name="synthesize",
    frame=lambda: as_pandas(kinds()),
    table=kinds,
    cases={
        "int32": ("number:i32?lower=0&upper=64", SYNTHETIC),
        "int64 with NULL": ("number:i64?lower=0&upper=4e7", SYNTHETIC),
        "uint8": ("number:u8?lower=0&upper=300", SYNTHETIC),
        "float32": ("number:f32?lower=-1&upper=20", SYNTHETIC),
        "float64 with NaN": ("number:f64?lower=-1&upper=20", SYNTHETIC),
        "decimal": ("number:money?lower=0&upper=20", SYNTHETIC),
        "date": (f"time:day?{YEAR}", SYNTHETIC),
        "timestamp us": (f"time:us?{YEAR}", SYNTHETIC),
        "timestamp ns": (f"time:ns?{YEAR}", SYNTHETIC),
        "timestamp with a zone": (f"time:tz?{YEAR}", SYNTHETIC),
        "address": ("ip:ip?version=4", SYNTHETIC),
        "categories": ("columns:word", {**SYNTHETIC, "keys": WORDS}),
        "categories, Unicode": ("columns:odd", {**SYNTHETIC, "keys": ["日本", "a'b", 'q"x']}),
        "dictionary": ("columns:size", {**SYNTHETIC, "keys": ["s0", "s1"]}),
        "booleans": ("columns:yes", {**SYNTHETIC, "keys": [True, False]}),
        "whole numbers as categories": ("columns:year", {**SYNTHETIC, "keys": [2000, 2001]}),
        "two columns": ("columns:size,word", {**SYNTHETIC, "keys": [("s0", "w0"), ("s1", "w1")]}),
        "a dict": ({"f64": (0, 20), "us": ("2017-01-01", "2018-01-01")}, SYNTHETIC),
        "several, in turn": (
            ["number:i64?lower=0&upper=4e7", f"time:us?{YEAR}", "columns:word", "columns:yes"],
            {**SYNTHETIC, "keys": {"word": WORDS, "yes": [True, False]}},
        ),
        "sizes by default": (f"time:us?{YEAR}", {"epsilon": 2.0}),
        "sizes": ("number:f32?lower=0&upper=20", {**SYNTHETIC, "k": 4, "width": 16, "rows": 3}),
        "uniform": ("number:f32?lower=0&upper=20", {**SYNTHETIC, "split": "uniform", "depth": 12}),
    },
    suite=(*("int32", "timestamp us", "address", "several, in turn"),),
    cheap=(REALS, SYNTHETIC),
    others=(
        {"epsilon": 1.0},
        {"k": 9},
        {"width": 9},
        {"rows": 3},
        {"depth": 9},
        {"split": "uniform"},
    ),
    first="columns",
    same=same_rows,
    stored=lambda answer: answer[1],
    flags=synthetic_flags,
    doors={
        "accessor": by_accessor,
        "function, pandas": generated(lambda world: world.frame),
        "function, Arrow": generated(lambda world: pq.read_table(world.parquet)),
        "function, Polars": generated(lambda world: pl.read_parquet(world.parquet)),
        "function, lazy Polars": generated(lambda world: pl.scan_parquet(world.parquet)),
        "function, DuckDB relation": generated(lambda world: world.con.table("visits")),
        "function, file": generated(lambda world: world.parquet),
        "stream, at once": streamed(),
        "stream, in batches": streamed(1, 2, 2, 1000, 2047, 2999),
        "command line": synthetic_line,
        "SQL, table": synthetic_sql("'visits'"),
        "SQL, query": synthetic_sql("query := 'SELECT * FROM visits -- all'"),
    },
    reads_types=True,
    always=(f"-n{DRAWN}",),
    mistakes=(
        ([REALS, "--epsilon=1"], ("n is missing",)),
        (["number:f64?lower=0", "--epsilon=1", "-n3"], ("upper",)),
        (["number:f46?lower=0&upper=9", "--epsilon=1", "-n3"], ("'f46'", "Did you mean")),
        ([REALS, "-n3"], ("epsilon is missing",)),
        (["columns:word", "--epsilon=1", "-n3"], ("keys",)),
        (["columns:word", "--epsilon=1", "-n3", "--keys=no.csv"], ("'no.csv'", "does not exist")),
        ([REALS, "--epsilon=1", "-n3", "--keys=no.csv"], ("keys has 1 files",)),
        ([REALS, "--epsilon=1", "-n3", "-o", "x.html"], ("'x.html'",)),
        ([REALS, "--epsilon=1", "-n3", "--save", "x.csv"], ("'x.csv'",)),
        ([REALS, "--epsilon=1", "-n3", "--split=unifrom"], ("Did you mean",)),
    ),
    real=(
        ("flights_nyc13", {"distance": (0, 5000), "air_time": (0, 720)}, SYNTHETIC),
        ("flights_nyc13", "columns:origin", {"epsilon": 1.0, "keys": ["JFK", "LGA", "EWR"]}),
        ("geo_geonames_cities500", {"lat": (-90, 90), "lon": (-180, 180)}, SYNTHETIC),
        ("tor_relay_ips", "ip:ip?version=4", SYNTHETIC),
    ),
)

CONTRACTS = {each.name: each for each in (HHH, FLAT, ROLLUP, TREE, ITEMS, ROWS)}
