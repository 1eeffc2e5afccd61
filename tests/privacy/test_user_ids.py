"""A user weighs what the unit allows, whatever type ids have and however equal ids are spelled."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import dpframe as dp
from dpframe.budget import SHARE_GRID, PrivacyUnit
from dpframe.frontends.synthetic_arguments import asked
from dpframe.sketches.hot_partition import HotPartition
from dpframe.sources.codes import counted_codes
from dpframe.sources.devices import count_devices
from dpframe.sources.sketch_states import sketch_states
from dpframe.sources.tables import exact_counts
from dpframe.testing import seeded_noise

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


@pytest.mark.parametrize("kind", IDS)
def test_a_user_weighs_exactly_what_the_unit_allows(kind: str) -> None:
    """Law: users whose ids DuckDB holds equal are one user of 256 units, for any seed."""
    con, users = loaded(IDS[kind])
    for seed in range(2):
        with seeded_noise(seed):
            tree = exact_counts(con.table("visits"), dp.columns("a", "b"), SHARE, 1)
        here = tree.level == 1
        names = tree.keys[0].filter(here).to_pylist()
        assert dict(zip(names, tree.count[here].tolist(), strict=True)) == dict.fromkeys(
            users, SHARE_GRID
        )
        assert int(tree.count[tree.level == 2].sum()) == SHARE_GRID * len(users)


@pytest.mark.parametrize("kind", ["VARIANT", "STRUCT", "INTERVAL", "DOUBLE"])
def test_a_user_has_at_most_m_records_by_every_door(kind: str) -> None:
    """Law: of users with seven rows or more exactly m count; devices are as many as users."""
    con, users = loaded(IDS[kind])
    visits, flat = con.table("visits"), dp.columns("b")
    plan = dp.explain(flat, **BUDGET, user="u", **MOST, mechanism="streaming").plan
    assert exact_counts(visits, flat, UNIT, 1).count[0] == 3 * len(users)
    assert sketch_states(visits, plan).states[0].total == 3 * len(users)
    domain = asked({"n": (0, 8)}, depth=3, keys=None).domain
    sketch = HotPartition(3, 8, 8, seed=1)
    assert counted_codes(visits, domain, sketch, UNIT).records == 3 * len(users)
    assert count_devices(visits, flat, "u") == len(users)
