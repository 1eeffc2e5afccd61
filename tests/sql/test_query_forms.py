"""Parts of queries that tools and analysts write, each where it can go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp

ROWS = 4_000
SALES = pd.DataFrame(
    {
        "country": np.resize(["FR", "DE"], ROWS),
        "amount": np.resize([10.0, 20.0, 30.0], ROWS),
        "quantity": np.resize([1, 2, 3, 4], ROWS),
        "store_id": np.resize([1, 2, 3, 4, 5], ROWS),
        "customer_id": np.arange(ROWS) // 8,  # each is in both countries
    }
)
STORES = pd.DataFrame(
    {"store_id": [1, 2, 3, 4, 5], "region": list("NNSSS"), "size": [9, 5, 5, 5, 5]}
)


def ask(query: str, **more: Any) -> pd.DataFrame:
    given = {"bounds": {"amount": (0, 50), "*": (0, 20)}, "epsilon": 8.0, "delta": 1e-6, **more}
    tables = {"sales": SALES}
    return dp.sql(query, tables, public={"stores": STORES}, progress=False, **given)


def refusal(query: str, **more: Any) -> str:
    with pytest.raises(dp.ParameterError) as refused:
        ask(query, **more)
    return str(refused.value)


def test_a_schema_is_read_past() -> None:
    result = ask(
        'SELECT "shop"."public"."sales"."country" AS c, count(*) AS n '
        'FROM "shop"."public"."sales" GROUP BY "shop"."public"."sales"."country"'
    )
    assert [*result["c"].sort_values()] == ["DE", "FR"]


def test_one_name_in_two_schemas_is_refused() -> None:
    query = "SELECT count(*) FROM a.sales JOIN b.sales AS other USING (store_id)"
    assert "two tables are named 'sales'" in refusal(query)


def test_a_table_with_a_schema_is_no_cte_of_its_name() -> None:
    inside = "WITH sales AS (SELECT * FROM raw.sales) SELECT count(*) AS n FROM sales"
    assert abs(ask(inside)["n"].item() - ROWS) < 50
    beside = "WITH sales AS (SELECT * FROM sales WHERE amount > 99) SELECT count(*) FROM raw.sales"
    assert "WITH has the name 'sales', too" in refusal(beside)


def test_users_are_counted_at_each_row() -> None:
    """Each customer buys in both countries: shares of users would count half of them at each."""
    query = "SELECT country, count(DISTINCT customer_id) AS n FROM sales GROUP BY country"
    for one in (query, query.replace(" AS n", " AS n, sum(amount) AS s")):
        result = ask(one, user="customer_id")
        assert all(abs(result["n"] - 500) < 60)


@pytest.mark.parametrize("more", [{"epsilon": 40.0}, {"threshold": 50.0}])
def test_shares_of_users_do_not_take_their_place(more: dict[str, Any]) -> None:
    """What rounds of users have no noise for, or do not take, is refused instead."""
    query = "SELECT country, count(*) AS n, sum(amount) AS s FROM sales GROUP BY country"
    with pytest.raises((dp.ParameterError, dp.errors.BudgetError)):
        ask(query, user="customer_id", **more)


@pytest.mark.parametrize(
    "query", ["GROUP BY customer_id", "GROUP BY ROLLUP (country, customer_id)"]
)
def test_groups_of_one_user_are_refused(query: str) -> None:
    whole = f"SELECT customer_id, count(*) FROM sales {query}"
    assert "a group of one user is never shown" in refusal(whole, user="customer_id")


def test_distinct_on_shows_rows_and_is_refused() -> None:
    query = "SELECT DISTINCT ON (country) country, amount FROM sales"
    assert "DISTINCT ON shows single rows" in refusal(query)


@pytest.mark.parametrize("user", [None, "customer_id"])
@pytest.mark.parametrize(
    ("aggregate", "exact"),
    [
        ("sum(1)", ROWS / 2),
        ("sum(CASE WHEN quantity > 2 THEN 1 ELSE 0 END)", ROWS / 4),
        ("sum(CASE WHEN quantity > 2 THEN 1 END)", ROWS / 4),
        ("sum(CASE quantity WHEN 1 THEN 2 WHEN 2 THEN 2 ELSE -1 END)", ROWS / 4),
        ("avg(CASE WHEN quantity > 2 THEN 1.0 ELSE 0.0 END)", 0.5),
        ("count(1)", ROWS / 2),
    ],
)
def test_constants_bound_themselves(aggregate: str, exact: float, user: str | None) -> None:
    result = ask(f"SELECT country, {aggregate} AS n FROM sales GROUP BY country", user=user)
    assert np.allclose(result["n"], exact, rtol=0.1)


@pytest.mark.parametrize("value", ["quantity", "CAST(0.7 AS INTEGER)"])
def test_other_values_do_not_bound_themselves(value: str) -> None:
    query = f"SELECT avg(CASE WHEN quantity > 2 THEN {value} END) FROM sales"
    assert "bounds are missing" in refusal(query)


@pytest.mark.parametrize("name", ["amount", "sum(amount)", "SUM(sales.amount)", "revenue"])
def test_bounds_are_found_by_what_they_are_of(name: str) -> None:
    query = 'SELECT sum("public"."sales"."amount") AS revenue FROM "public"."sales"'
    result = ask(query, bounds={name: (0, 50)})
    assert abs(result["revenue"].item() / SALES["amount"].sum() - 1) < 0.05


def test_a_public_cte_is_joined_and_its_key_is_checked() -> None:
    joined = "SELECT size, count(*) AS n FROM sales JOIN s USING (store_id) GROUP BY size"
    result = ask(f"WITH s AS (SELECT store_id, size FROM stores WHERE size > 5) {joined}")
    assert [*result["size"]] == [9]
    twice = "WITH s AS (SELECT (store_id // 2)::BIGINT AS store_id, size FROM stores)"
    assert "occurs twice in a public table" in refusal(f"{twice} {joined}")
    for cut in ("LIMIT 1", "QUALIFY row_number() OVER () = 1", "USING SAMPLE 1"):
        assert refusal(f"WITH s AS (SELECT * FROM stores {cut}) {joined}")
    assert refusal(f"WITH s AS (SELECT 1 AS store_id, 9 AS size) {joined}")
    assert "random" in refusal(f"WITH s AS (SELECT * FROM stores WHERE random() > 0.5) {joined}")


def test_numbers_days_and_widened_keys_have_the_types_of_the_query() -> None:
    query = (
        "SELECT quantity // 2 AS half, DATE '2026-01-01' + quantity::INTEGER AS day, "
        "sum(count(*)) OVER () AS n, 1.5 * count(*) AS m FROM sales GROUP BY half, day"
    )
    kinds = [str(kind) for kind in ask(query).dtypes.drop(["m_lower", "m_upper"], errors="ignore")]
    assert [kind.split("[")[0] for kind in kinds] == ["int64", "datetime64", "int64", "float64"]
