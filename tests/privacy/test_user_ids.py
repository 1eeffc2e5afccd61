"""A user weighs what the unit allows, whatever type ids have and however equal ids are spelled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpframe as dp
from dpframe.budget import SHARE_GRID, PrivacyUnit
from dpframe.questions.synthesize.generator import row_domain
from dpframe.sketches.hot_partition import HotPartition
from dpframe.sources.codes import count_devices, counted_codes
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.spark_stream import sketch_states
from dpframe.testing import seeded_noise
from tests.members import few, in_turn

SHARE = PrivacyUnit(user="u")
MOST: Any = {"contribution": "records", "max_contributions": 3}
UNIT = PrivacyUnit(user="u", **MOST)
BUDGET: Any = {"epsilon": 1.0, "delta": 1e-6}

NUMBERS = ["0", "1"]
STAMPS = ["'2020-01-31'", "'2020-02-29 23:59:59'"]
NOCASE = ["('Ann' COLLATE NOCASE)", "('ann' COLLATE NOCASE)", "('bob' COLLATE NOCASE)"]
REALS = ["0.0", "'-0.0'", "'nan'", "'-nan'", "'inf'", "0.1"]
SPANS = ["'1 month'", "'30 days'", "'720 hours'", "'31 days'"]

IDS: dict[str, list[str]] = {
    **{
        kind: [f"{n}::{kind}" for n in NUMBERS]
        for kind in (
            *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BIGNUM"),
            *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
        )
    },
    **{kind: [f"{n}::{kind}" for n in REALS] for kind in ("FLOAT", "DOUBLE")},
    **{
        kind: [f"{text}::{kind}" for text in STAMPS]
        for kind in (
            *("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
            *("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
        )
    },
    **{kind: [f"'{t}'::{kind}" for t in ("12:00", "13:00")] for kind in ("TIME", "TIME_NS")},
    "TIME WITH TIME ZONE": [
        f"'{t}'::TIMETZ" for t in ("12:00:00+00", "13:00:00+01", "12:00:00+01")
    ],
    "INTERVAL": [f"{t}::INTERVAL" for t in SPANS],
    "DECIMAL": ["1::DECIMAL(5,2)", "1.01::DECIMAL(5,2)"],
    "VARCHAR": ["'Ann'", "'ann'", "'ann '", "'\u00e9'", "'e\u0301'"],
    "VARCHAR COLLATE NOCASE": NOCASE,
    "ENUM": [f"'{t}'::ENUM ('b', 'a')" for t in "ab"],
    "UUID": [f"'{n}0000000-0000-0000-0000-000000000000'::UUID" for n in (1, 9)],
    "BLOB": [r"'\x00'::BLOB", r"'\x00\x00'::BLOB"],
    "BIT": ["'1'::BIT", "'01'::BIT"],
    "GEOMETRY": ["'POINT (0 0)'::GEOMETRY", "'POINT (0 1)'::GEOMETRY"],
    "NULL": ["NULL"],
    "VARIANT": [
        *(f"7::{kind}::VARIANT" for kind in ("TINYINT", "INTEGER", "BIGINT", "DOUBLE")),
        *("7.5::DECIMAL(5,2)::VARIANT", "'7'::VARIANT", "NULL"),
        *(f"{span}::INTERVAL::VARIANT" for span in SPANS),
        *("{'a': 1::TINYINT}::VARIANT", "{'a': 1::BIGINT}::VARIANT"),
        *("[1::TINYINT]::VARIANT", "[1::BIGINT]::VARIANT"),
    ],
    "STRUCT": [f"{{'a': {text}}}" for text in NOCASE],
    "STRUCT of VARIANT": [f"{{'a': 7::{kind}::VARIANT}}" for kind in ("TINYINT", "BIGINT")],
    "STRUCT of DOUBLE": [f"{{'a': {n}::DOUBLE}}" for n in REALS],
    "TUPLE": [f"row({text}, 1)" for text in NOCASE],
    "LIST": [f"[{text}]" for text in NOCASE],
    "LIST of INTERVAL": [f"[{span}::INTERVAL]" for span in SPANS],
    "ARRAY": [f"array_value({text}, 'x')" for text in NOCASE],
    "MAP": [f"MAP {{{text}: 1}}" for text in NOCASE],
    "UNION": [f"union_value(num := {n}::DOUBLE)" for n in REALS],
}
"""Ids of every type of DuckDB, among them such as are equal and spelled in different ways."""


def test_ids_of_every_type_are_listed() -> None:
    """Law: a type that a new DuckDB brings is missing here until somebody lists it."""
    types = duckdb.sql("SELECT DISTINCT logical_type FROM duckdb_types()").fetchall()
    assert {name for (name,) in types} - set(IDS) == {"TYPE"}  # no table has a column of it


def loaded(spellings: list[str]) -> tuple[duckdb.DuckDBPyConnection, dict[str, int]]:
    """Rows of users: ``a`` a number for ids that DuckDB holds equal, ``b`` different values; and
    how many rows each user has."""
    con = duckdb.connect()
    ids = " UNION ALL ".join(f"SELECT {i} AS i, {sql} AS u" for i, sql in enumerate(spellings))
    con.execute(f"CREATE TABLE ids AS {ids}")
    ((kind,),) = con.sql("SELECT typeof(any_value(u)) FROM ids").fetchall()
    same = "u COLLATE C" if kind == "VARCHAR" else "u"  # texts are compared exactly
    con.execute(
        "CREATE TABLE visits AS SELECT x.u, n, 'user ' || (SELECT min(y.i) FROM ids y "
        f"WHERE y.{same} IS NOT DISTINCT FROM x.{same}) AS a, 'b' || (x.i * 5 + n) % 11 AS b "
        "FROM ids x, range(7) r(n)"
    )
    return con, dict(con.sql("SELECT a, count(*) FROM visits GROUP BY a").fetchall())


REFUSED = ("VARIANT", "STRUCT of VARIANT", "BIGNUM")
"""Types of which not every value has a text; those that nest TIMESTAMP_S and _MS are others."""


@pytest.mark.parametrize("seeds", [1, pytest.param(9, marks=pytest.mark.evidence)])
@few(14, "kind", [kind for kind in IDS if kind not in REFUSED])
def test_a_user_weighs_exactly_what_the_unit_allows(kind: str, seeds: int) -> None:
    """Law: users whose ids DuckDB holds equal are one user of 256 units, for any seed."""
    con, users = loaded(IDS[kind])
    for seed in range(seeds):
        with seeded_noise(seed):
            tree = exact_counts(con.table("visits"), dp.columns("a", "b"), SHARE, 1)
        here = tree.level == 1
        names = tree.keys[0].filter(here).to_pylist()
        assert dict(zip(names, tree.count[here].tolist(), strict=True)) == dict.fromkeys(
            users, SHARE_GRID
        )
        assert int(tree.count[tree.level == 2].sum()) == SHARE_GRID * len(users)


@pytest.mark.parametrize("kind", ["STRUCT", "INTERVAL", "DOUBLE"])
def test_a_user_has_at_most_m_records_by_every_door(kind: str) -> None:
    """Law: of users with seven rows or more exactly m count; devices are as many as users."""
    con, users = loaded(IDS[kind])
    visits, flat = con.table("visits"), dp.columns("b")
    plan = dp.explain(flat, **BUDGET, user="u", **MOST, mechanism="streaming").plan
    assert exact_counts(visits, flat, UNIT, 1).count[0] == 3 * len(users)
    assert sketch_states(visits, plan)[0][0].total == 3 * len(users)
    domain = row_domain({"n": (0, 8)}, depth=3, keys=None).domain
    sketch = HotPartition(3, 8, 8, seed=1)
    assert counted_codes(visits, domain, sketch, UNIT).records == 3 * len(users)
    assert count_devices(visits, flat, "u") == len(users)


TOLD = r"column 'u' has type .* [Cc]ast the column"
"""Where rows of a temporary table are handed over, some types are refused before they are read."""


@in_turn(("kind", [*REFUSED, "TIMESTAMP_S[]", "STRUCT(a TIMESTAMP_MS)"]), ("rows", [0, 7]))
def test_ids_without_a_text_are_refused_by_their_type(kind: str, rows: int, tmp_path: Path) -> None:
    """Law: by every door and with the same words, whether or not there is a row; nothing is
    charged."""
    con = duckdb.connect()
    value = IDS[kind][0] if kind in IDS else f"NULL::{kind}"
    con.execute(f"CREATE TABLE visits AS SELECT {value} AS u, 'b' AS b, 1 AS n FROM range({rows})")
    con.execute("CREATE TEMP TABLE here AS FROM visits")
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=9.0, delta=0.1)
    visits, given = con.table("visits"), {**BUDGET, "user": "u", "ledger": ledger}
    sample: Any = {"epsilon": 1.0, "user": "u", "max_contributions": 3, "ledger": ledger}
    doors: list[Callable[[], object]] = [
        lambda: dp.hhh(visits, ["b"], **given),
        lambda: dp.hhh(visits, ["b"], **given, **MOST, mechanism="streaming"),
        lambda: dp.heavy_hitters(visits, "b", **given),
        lambda: dp.tree_counts(visits, ["b"], **given),
        lambda: dp.prefix_tree(visits, "b", **given),
        lambda: dp.synthesize(visits, {"n": (0, 8)}, depth=3, **sample),
    ]
    for door in doors:
        with pytest.raises(dp.ColumnError, match=TOLD):
            door()
    dp.register(con, ledger=ledger)
    budget = "epsilon := 1.0, delta := 1e-6, \"user\" := 'u'"
    most = "contribution := 'records', max_contributions := 3"
    for table in ("visits", "here"):
        for call in (
            f"dp_hhh('{table}', 'columns:b', {budget})",
            f"dp_tree_counts('{table}', 'columns:b', {budget})",
            f"dp_heavy_hitters('{table}', 'b', {budget})",
        ):
            with pytest.raises(duckdb.Error, match=TOLD):
                con.execute(f"FROM {call}").fetchall()
    for call in (
        f"dp_hhh('visits', 'columns:b', {budget}, {most}, mechanism := 'streaming')",
        f"dp_prefix_tree('visits', 'b', {budget})",
        "dp_synthesize('visits', 'number:n?lower=0&upper=8', n := 3, epsilon := 1.0, "
        "\"user\" := 'u', max_contributions := 3, depth := 3)",
    ):
        with pytest.raises(duckdb.Error, match=TOLD):
            con.execute(f"FROM {call}").fetchall()
    assert len(ledger.releases()) == 0
