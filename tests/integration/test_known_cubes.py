"""Cubes of listed keys at every door: what is shown, what adds up, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.testing import seeded_noise

KEYS: dict[str, Any] = {"country": ["FR", "DE", "IT"], "size": [1, 2], "sold": [True, False]}
SUMS: Any = {"n": "count", "paid": dp.sum("amount", lower=0, upper=100)}


@pytest.fixture(scope="module")
def sales() -> pd.DataFrame:
    draw = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "country": draw.choice(["FR", "DE", "ES", None], 4000),
            "size": draw.integers(1, 4, 4000),
            "sold": draw.random(4000) < 0.3,
            "amount": draw.integers(0, 120, 4000).astype(float),
            "user": draw.integers(0, 500, 4000),
        }
    )


def of_kind(rows: pd.DataFrame, *told: str) -> pd.DataFrame:
    apart = [(rows[name] != "*") == (name in told) for name in KEYS]
    return rows[np.logical_and.reduce(apart)]


def test_every_cell_is_shown_and_rows_add_up(sales: pd.DataFrame) -> None:
    """Law: all cells of listed values of all kinds, empty ones too; records with other values are
    in no row; rows of one kind add up to those of coarser kinds, counts and sums exactly."""
    with seeded_noise(1):
        rows = sales.dp.rollup("country * size * sold", SUMS, keys=KEYS, epsilon=50.0)
    assert len(rows) == 4 * 3 * 3
    listed = sales[sales["country"].isin(KEYS["country"]) & sales["size"].isin(KEYS["size"])]
    (total,) = rows.loc[rows["prefix"] == "*", "n"]
    assert abs(total - len(listed)) < 5
    (paid,) = rows.loc[rows["prefix"] == "*", "paid"]
    assert abs(paid - listed["amount"].clip(upper=100).sum()) < 200
    assert (of_kind(rows, "country").set_index("country")["n"]["IT"]) < 5
    for told in (["country"], ["size"], ["country", "sold"], [*KEYS]):
        one = of_kind(rows, *told)
        assert one["n"].sum() == total
        assert one["paid"].sum() == pytest.approx(paid, abs=1e-6)
        coarse = of_kind(rows, *told[:-1]).set_index(told[:-1])["n"] if told[:-1] else None
        if coarse is not None:
            assert (one.groupby(told[:-1])["n"].sum() == coarse).all()


@pytest.mark.parametrize("by", ["sets:country,size;sold", "country * size"])
def test_chosen_kinds_come_alone(sales: pd.DataFrame, by: str) -> None:
    """Law: only the kinds that are asked for, and the total; they agree, too."""
    names = [name for name in KEYS if name in by]
    keys = [KEYS[name] for name in names]
    rows = sales.dp.rollup(by, "count", keys=keys, epsilon=1.0)
    (total,) = rows.loc[rows["level"] == 0, "count"]
    kinds = {tuple(row) for row in (rows[names] != "*").to_numpy().tolist()}
    assert len(kinds) == rows["level"].nunique()
    for _, kind in rows.groupby("level"):
        assert kind["count"].sum() == total
    assert dp.verify(rows.attrs["dp"])


def test_doors_answer_alike(sales: pd.DataFrame, tmp_path: Path, capsys: Any) -> None:
    """Law: a frame, SQL and the command line give the same numbers with the same noise; keys can be
    a mapping, lists in order, or a table whose columns list them."""
    given = {"keys": {k: KEYS[k] for k in ("country", "size")}, "epsilon": 1.0}
    with seeded_noise(4):
        one = sales.dp.rollup("country * size", "count", **given)
    listed_keys = pd.DataFrame({"country": ["DE", "FR", "IT", "FR"], "size": [1, 2, None, 2]})
    listed_keys["size"] = listed_keys["size"].astype("Int64")
    with seeded_noise(4):
        assert sales.dp.rollup("country * size", "count", keys=listed_keys, epsilon=1.0).equals(one)
    con = duckdb.connect()
    dp.register(con)
    con.execute("CREATE TABLE sales AS FROM sales")
    con.execute("CREATE TABLE listed AS SELECT country, size::INTEGER AS size FROM listed_keys")
    for keys in ("{'country': ['FR', 'DE', 'IT'], 'size': [1, 2]}", "'listed'"):
        with seeded_noise(4):
            found = con.execute(
                "FROM dp_rollup('sales', 'country * size', 'count', epsilon := 1.0, "
                f'"keys" := {keys})'
            ).df()
        assert found["count"].tolist() == one["count"].tolist()
    sales.to_parquet(tmp_path / "sales.parquet")
    listed_keys.to_csv(tmp_path / "keys.csv", index=False)
    asked = ["rollup", str(tmp_path / "sales.parquet"), "country * size", "--measure", "count"]
    with seeded_noise(4):
        assert main([*asked, "--keys", str(tmp_path / "keys.csv"), "--epsilon", "1"]) == 0
    told = capsys.readouterr().out
    assert all(str(number) in told for number in one["count"].tolist())


def test_users_weigh_one_in_all(sales: pd.DataFrame) -> None:
    """Law: with user= the count of all listed cells is at most the number of users, and bounds of
    sums are those of a user's total."""
    with seeded_noise(5):
        rows = sales.dp.rollup("country * size * sold", SUMS, keys=KEYS, user="user", epsilon=50.0)
    (total,) = rows.loc[rows["prefix"] == "*", "n"]
    listed = sales[sales["country"].isin(KEYS["country"]) & sales["size"].isin(KEYS["size"])]
    assert abs(total - listed["user"].nunique()) <= 4
    (paid,) = rows.loc[rows["prefix"] == "*", "paid"]
    assert paid <= 100 * listed["user"].nunique() + 200
    assert rows.attrs["dp"]["contribution"] == "share"


def test_what_nobody_knows_stays_unknown(sales: pd.DataFrame) -> None:
    """Law: rows, types and receipts do not depend on the data, an empty frame included."""
    given: Any = {
        "by": "country * size",
        "measures": SUMS,
        "keys": [["FR"], [1, 2]],
        "epsilon": 1.0,
    }
    some, none = sales.dp.rollup(**given), sales[:0].dp.rollup(**given)
    assert some["prefix"].tolist() == none["prefix"].tolist()
    assert some.dtypes.tolist() == none.dtypes.tolist()
    assert some.attrs["dp"]["measures"] == none.attrs["dp"]["measures"]


def test_pages_show_marginals(sales: pd.DataFrame, tmp_path: Path) -> None:
    """Law: a report says that cells add up, and has no threshold."""
    rows = sales.dp.rollup("country * size", SUMS, keys=[["FR", "DE"], [1, 2]], epsilon=1.0)
    rows.dp.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "add up to those of coarser kinds" in page
    assert "Threshold" not in page
    assert rows.dp.top(1, level="country * size")["prefix"].tolist()[0].startswith(("FR", "DE"))


@pytest.mark.parametrize(
    ("keys", "kind", "said"),
    [
        ({"country": ["FR"], "size": []}, ParameterError, r"keys\['size'\] is empty"),
        (
            {"country": ["FR", "FR"], "size": [1]},
            ParameterError,
            r"keys\['country'\] has 2 keys that mean 'FR'",
        ),
        ({"country": ["FR"], "size": ["x"]}, ColumnError, "'x', which column 'size'"),
        ({"country": ["FR", None], "size": [1]}, ParameterError, "keys has None"),
        ({"country": ["FR"]}, ParameterError, "keys lacks 'size'"),
        ({"country": ["FR"], "size": [1], "z": [1]}, ParameterError, "keys names 'z'"),
        ([["FR"]], ParameterError, "1 lists for 2 dimensions"),
        ([("FR", 1), ("DE", 2)], ParameterTypeError, "keys must be keys={'country'"),
        ("domain", ParameterTypeError, "keys must be keys={'country'"),
        (
            {"country": [str(n) for n in range(2000)], "size": list(range(1000))},
            ParameterError,
            "2,000 x 1,000, so 2,003,000 cells: list fewer, at most 1,000,000",
        ),
    ],
)
def test_wrong_keys_say_why(
    sales: pd.DataFrame, tmp_path: Path, keys: Any, kind: type[Exception], said: str
) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=1.0, delta=1e-6)
    with pytest.raises(kind, match=said):
        sales.dp.rollup("country * size", "count", keys=keys, epsilon=1.0, ledger=ledger)
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize(
    ("by", "more", "said"),
    [
        ("country * size", {"measures": dp.distinct("user")}, "counts, sums and means"),
        ("country * size", {"measures": dp.median("amount", lower=0, upper=9)}, "counts, sums"),
        ("country * size", {"threshold": 5}, "threshold .* does not go with keys"),
        ("country * number:amount?lower=0&upper=8&depth=3", {}, "one level; .* has 3"),
    ],
)
def test_what_does_not_go_with_keys_says_why(
    sales: pd.DataFrame, by: str, more: dict[str, Any], said: str
) -> None:
    given: dict[str, Any] = {"measures": "count", "keys": [["FR"], [1]], "epsilon": 1.0, **more}
    with pytest.raises(ParameterError, match=said):
        sales.dp.rollup(by, **given)


def test_warehouses_do_not_count_cubes_of_keys() -> None:
    with pytest.raises(ParameterError, match="warehouses do not count"):
        dp.measures_sql(
            "a * b", "count", table="t", dialect="postgres", keys=[["x"], ["y"]], epsilon=1.0
        )
