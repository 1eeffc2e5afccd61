"""Queries that random ones (``test_fuzz``) were answered wrongly with, each in short."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main

SALES = pa.table(
    {
        "country": ["FR", "DE"] * 200,
        "product": ["pen", "ink"] * 200,
        "quantity": [1, 2] * 200,
        "amount": [1.5, 2.5] * 200,
    }
)
PRODUCTS = pd.DataFrame({"product": ["pen", "ink"], "price": [1.5, 2.5]})


def ask(query: str, **more: Any) -> pd.DataFrame:
    given = {"bounds": {"amount": (0, 50)}, "epsilon": 8.0, "delta": 1e-3, **more}
    return dp.sql(query, {"sales": SALES}, public={"products": PRODUCTS}, progress=False, **given)


def refusal(query: str, **more: Any) -> str:
    given = {"bounds": {"amount": (0, 50)}, "epsilon": 8.0, "delta": 1e-3, **more}
    with pytest.raises(dp.ParameterError) as refused:
        dp.explain_sql(query, {"sales": SALES}, **given)
    return str(refused.value)


def test_a_key_of_using_is_read() -> None:
    query = "SELECT price, count(*) AS n FROM sales JOIN products USING (product) GROUP BY price"
    assert sorted(ask(query)["price"]) == [1.5, 2.5]


@pytest.mark.parametrize(
    "query", ["SELECT count(*) AS n FROM sales", "SELECT count(*) AS n FROM sales GROUP BY ALL"]
)
def test_rows_are_counted_where_no_column_is_named(query: str) -> None:
    assert 380 < ask(query)["n"].item() < 420


@pytest.mark.parametrize(
    "query",
    [
        "SELECT country AS n, count(*) AS n FROM sales GROUP BY country",
        "SELECT avg(amount), avg(amount) FROM sales",
        "SELECT sum(amount) AS a, count(*) AS a_lower FROM sales",
        "SELECT * FROM (SELECT country, count(*) AS n FROM sales GROUP BY 1), (SELECT 1 AS n)",
    ],
)
def test_two_columns_of_one_name_are_refused_before_the_charge(query: str) -> None:
    assert "is in the result twice" in refusal(query)


@pytest.mark.parametrize(
    "query",
    [
        'SELECT country AS level, count(DISTINCT product) AS "level 2" FROM sales GROUP BY 1',
        'SELECT quantity, product AS All, sum(amount) AS "all 2" FROM sales GROUP BY ROLLUP (1, 2)',
        'SELECT quantity, sum(amount) AS "All 2" FROM sales GROUP BY 1',
        "SELECT country AS a, product, sum(amount) AS a_level FROM sales GROUP BY CUBE (1, 2)",
        "SELECT country AS a_lower, sum(amount) AS a FROM sales GROUP BY 1",
        'SELECT country, product, sum(amount) AS "country, product" FROM sales GROUP BY 1, 2',
    ],
)
def test_names_of_the_question_never_meet(query: str) -> None:
    assert len(ask(query, intervals=False))


def test_distinct_groups_by_all() -> None:
    query = "SELECT DISTINCT country, sum(amount) AS total FROM sales GROUP BY ALL"
    assert sorted(ask(query)["country"]) == ["DE", "FR"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*)::TINYINT AS n FROM sales",
        "SELECT n::TINYINT AS n, rank() OVER (ORDER BY 1) FROM (SELECT count(*) AS n FROM sales)",
        "SELECT left('x', n::TINYINT) AS n, rank() OVER () FROM (SELECT count(*) n FROM sales)",
    ],
)
def test_what_fails_on_a_released_number_is_missing_and_not_lost(query: str) -> None:
    assert ask(query)["n"].isna().all()
    names = [*ask(query, intervals=False).columns]
    assert names == ["n", *names[1:]]
    assert not any("TRY" in name for name in names)


def test_what_is_advised_for_missing_bounds_can_be_passed() -> None:
    query = "SELECT sum(least(amount, 7) * quantity) FROM sales"
    assert "bounds={'least(amount, 7) * quantity': (LOWEST, HIGHEST)}" in refusal(query)
    assert len(ask(query, bounds={"least(amount, 7) * quantity": (0, 500)}))
    long = "CASE WHEN country IN ('FR', 'DE', 'x') AND product = 'pen' THEN amount ELSE 0 END"
    asked = refusal(f"SELECT sum({long}) AS total FROM sales")
    assert "bounds={'total': (LOWEST, HIGHEST)}" in asked
    assert "by its text" in refusal(f"SELECT 1 + sum({long}) FROM sales")
    assert len(ask(f"SELECT 1 + sum({long}) FROM sales", bounds={long: (0, 500)}))


@pytest.mark.parametrize("bounds", ["(10, 0)", "('a', 1)", "(2, 2)"])
def test_bounds_in_a_query_are_named_with_their_place(bounds: str) -> None:
    query = f"SELECT SUM(amount, contribution_bounds_per_group => {bounds}) FROM sales"
    assert refusal(query).startswith("SUM(amount, contribution_bounds_per_g... (line 1, column 8):")


def test_bounds_are_numbers_of_numpy_too() -> None:
    query = "SELECT sum(amount) AS total FROM sales"
    assert len(ask(query, bounds={"amount": (np.float64(0), np.float64(50.5))}))
    assert len(ask(query, bounds={"amount": (np.int64(0), np.float32(50.5))}))


@pytest.mark.parametrize("times", [150, 600, 9_000])
@pytest.mark.parametrize(
    "part",
    ["SELECT * FROM (", "(", "abs(", "NOT ", "- ", "1 + ", "CASE WHEN true THEN ", "CAST("],
)
def test_nested_queries_are_answered_or_refused(part: str, times: int) -> None:
    end = {"SELECT * FROM (": ")", "CASE WHEN true THEN ": " END", "CAST(": " AS BIGINT)"}
    ends = end.get(part, ")" if "(" in part else "") * times
    query = f"SELECT count(*) FROM sales WHERE {part * times}quantity{ends} = 1"
    if part.startswith("SELECT"):
        query = f"{part * times}SELECT count(*) FROM sales{ends}"
    with contextlib.suppress(dp.ParameterError):
        dp.explain_sql(query, {"sales": SALES}, epsilon=1.0)


def test_a_refusal_says_a_thing_once() -> None:
    asked = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) count(*) FROM sales"
    assert refusal(asked.format("epsilon = 2, epsilon = 2")).startswith(
        "option 'epsilon' is there twice"
    )
    assert refusal(asked.format("max_groups = 2")).count("privacy_unit_column") == 1
    assert refusal("SELECT count(*) FROM nothing").count("sales") == 1
    assert not refusal("SELECT coun(*) FROM sales").endswith("..")


def test_places_are_counted_in_characters() -> None:
    assert refusal("SELECT 'éé', 'é' frm x y").endswith("(line 1, column 22).")
    asked = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) max(amount)\nFROM sales"
    assert "(line 1, column 44): a largest" in refusal(asked.format(""))
    assert refusal(asked.format("epsilon = = 1")).endswith("(line 1, column 52).")
    assert "a\ud800" not in refusal("SELECT 'a\ud800' FROM sales")


@pytest.mark.parametrize("options", ["epsilon = 1 FROM sales", "epsilon = 1; SELECT 1"])
def test_options_are_options_alone(options: str) -> None:
    asked = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) count(*) FROM sales"
    assert "more than options" in refusal(asked)


def test_many_open_comments_are_passed_over_once() -> None:
    assert "cannot be parsed" in refusal("SELECT " + "/*" * 49_000)


@pytest.mark.parametrize(
    "table",
    [
        "(SELECT * FROM sales) TABLESAMPLE 10 ROWS",
        "(sales JOIN products USING (product)) TABLESAMPLE 10 ROWS",
        "(SELECT * FROM sales USING SAMPLE 10 ROWS)",
        "sales USING SAMPLE 10 ROWS",
        "sales TABLESAMPLE 10%",
    ],
)
def test_no_row_pushes_another_out_of_a_sample(table: str) -> None:
    said = refusal(f"SELECT count(*) FROM {table}", public={"products": PRODUCTS})
    assert "a sample or a version is not read" in said


ASKED = "(SELECT country, count(*) AS n FROM sales GROUP BY country) AS asked"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM {ASKED} JOIN products ON EXISTS (FROM {{}})",
        f"SELECT * FROM {ASKED}, (VALUES ((SELECT 1 FROM {{}}))) AS other",
        f"SELECT * FROM {ASKED} WHERE (SELECT true FROM {{}}) IN (SELECT true)",
        f"SELECT country FROM {ASKED} UNION ALL SELECT 'x' LIMIT (SELECT 1 FROM {{}})",
        f"SELECT country FROM {ASKED} UNION ALL SELECT 'x' ORDER BY (SELECT 1 FROM {{}})",
        f"WITH a AS (SELECT 1 FROM {{}}) SELECT * FROM {ASKED}",
    ],
)
@pytest.mark.parametrize("table", ["'{}'", "read_csv('{}')", "cursor", "nothing"])
def test_no_table_is_read_that_was_not_passed(query: str, table: str, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    said = refusal(query.format(table.format(path)), public={"products": PRODUCTS})
    assert "there is no table" in said or "this is no table" in said


@pytest.mark.parametrize("by", ["a", "s.a", "upper(a)"])
def test_columns_of_a_table_are_renamed_by_place(by: str) -> None:
    query = f"SELECT {by} AS key, count(*) AS n FROM sales AS s (a, country) GROUP BY 1"
    assert {*ask(query)["key"]} == {"FR", "DE"}


def test_a_whole_row_is_all_of_its_columns() -> None:
    rows = pa.table({"a": [1] * 800, "b": [*range(20)] * 40})
    query = "SELECT count(DISTINCT sales) AS n FROM sales"
    result = dp.sql(query, {"sales": rows}, epsilon=8.0, delta=1e-3, progress=False)
    assert 17 < result["n"].item() < 23


def test_grouping_names_columns() -> None:
    query = "SELECT country, grouping() FROM sales GROUP BY ROLLUP (country)"
    assert "GROUPING takes columns" in refusal(query)


@pytest.mark.parametrize(
    "by",
    [
        "GROUPING SETS ((country), (), ())",
        "ROLLUP (country, country)",
        "country, ROLLUP (country)",
        "GROUPING SETS ((country, product), (product, country))",
    ],
)
def test_sets_that_duckdb_shows_twice_are_refused(by: str) -> None:
    assert "twice" in refusal(f"SELECT count(*) AS n FROM sales GROUP BY {by}")


def test_what_cubes_lack_is_named_as_the_query_does() -> None:
    query = "SELECT country, product, avg(amount) AS lower FROM sales GROUP BY CUBE (1, 2)"
    assert refusal(query).startswith("avg(amount) (line 1, column 26): this is not measured")


def test_what_new_readers_met() -> None:
    query = "SELECT country, sum(amount) AS n FROM sales GROUP BY country"
    with pytest.raises(dp.ParameterError, match="They are there for 'amout': write 'amount'"):
        ask(query, bounds={"amout": (0, 5)})
    with pytest.raises(dp.ParameterTypeError, match="public must map names"):
        dp.sql(query, {"sales": SALES}, public=PRODUCTS, epsilon=1.0, delta=1e-6)
    counted = "SELECT country, count(*) AS n FROM sales GROUP BY country"
    given = {"delta": 1e-6, "error": {"n": 20}}
    assert dp.explain_sql(counted, {"sales": SALES}, **given).epsilon < 1


def test_bounds_in_messages_of_a_shell(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "sales.parquet"
    pq.write_table(SALES, file)
    asked = "SELECT sum(amount) AS total FROM sales"
    assert main(["sql", asked, "--table", f"sales={file}", "--epsilon", "1"]) == 2
    assert "Pass --bounds total=LOWEST,HIGHEST" in capsys.readouterr().err


def test_the_place_of_a_row_is_no_column() -> None:
    asked = refusal("SELECT sum(amount) FILTER (WHERE rowid < quantity) FROM sales")
    assert "the place of a row depends on others" in asked


WRONG = SALES.set_column(0, "country", pa.array(["WRONG"] * 400))


@pytest.mark.parametrize(
    "query",
    [
        "WITH other AS (SELECT * FROM sales) SELECT country, count(*) FROM other GROUP BY country",
        "WITH z AS (SELECT * FROM other) SELECT country, count(*) FROM sales GROUP BY country",
        "SELECT country, count(*) FROM (WITH other AS (FROM sales) FROM other) GROUP BY country",
        "SELECT country, count(*) FROM products RIGHT JOIN sales USING (product) GROUP BY country",
    ],
)
def test_the_table_that_is_grouped_is_read(query: str) -> None:
    """A CTE can have the name of another private table, or read one in vain."""
    tables = {"other": WRONG, "sales": SALES}
    public = {"products": PRODUCTS}
    shown = dp.sql(query, tables, public=public, epsilon=8.0, delta=1e-3, progress=False)
    assert {*shown["country"]} == {"FR", "DE"}


def test_a_name_that_is_given_to_another_column_is_not_widened_as_its_own() -> None:
    query = "SELECT sum(quantity * 2) AS s FROM (SELECT amount AS quantity FROM sales) AS q"
    shown = dp.sql(query, {"sales": SALES}, bounds={"s": (0, 10)}, epsilon=50.0, progress=False)
    assert abs(shown["s"].iloc[0] - 1600) < 20


def test_the_column_of_users_is_asked_of_the_table_that_is_read() -> None:
    query = "SELECT country, count(DISTINCT quantity) AS n FROM sales GROUP BY country"
    tables = {"sales": SALES, "other": WRONG.drop_columns(["quantity"])}
    assert dp.explain_sql(query, tables, user="quantity", epsilon=1.0, delta=1e-6)["query"]


def test_a_receipt_with_its_query_is_proved() -> None:
    for query in (
        "SELECT country, count(*) FROM sales GROUP BY 1",
        "SELECT sum(amount) FROM sales",
    ):
        assert dp.verify(ask(query)).code == 0


def test_a_key_that_repeats_when_the_statement_runs_is_refused() -> None:
    """The check while a statement is bound sees what is committed; a transaction has more."""
    con = duckdb.connect()
    con.execute("CREATE TABLE sales AS SELECT 'x' AS k, 1 AS s FROM range(500)")
    con.execute("CREATE TABLE stores AS SELECT 1 AS s, 'c' AS city")
    dp.register(con)
    asked = "'SELECT city, {} AS n FROM sales JOIN stores USING (s) GROUP BY city'"
    given = "epsilon := 5.0, delta := 1e-6, public := ['stores'], bounds := {'s': [0, 2]}"
    for number in ("count(*)", "sum(s)"):
        call = f"FROM dp_sql({asked.format(number)}, {given})"
        assert 400 < con.execute(call).fetchall()[0][1] < 600
    con.execute("BEGIN")
    con.execute("INSERT INTO stores SELECT 1, 'c' FROM range(3)")
    with pytest.raises(duckdb.Error, match="occurs twice"):
        con.execute(f"FROM dp_sql({asked.format('count(*)')}, {given})").fetchall()


def test_rows_of_an_answer_are_no_nodes(tmp_path: Path) -> None:
    shown = ask("SELECT country, sum(amount) AS total FROM sales GROUP BY country").dp
    page = str(tmp_path / "page.html")
    for call in (shown.top, shown.below, shown.intervals, shown.report, shown.quantile):
        given = {"top": (1,), "below": ("FR",), "intervals": (0.9,), "quantile": (0.5,)}
        with pytest.raises(dp.ParameterError, match="answer to a query, whose rows are no nodes"):
            call(*given.get(call.__name__, (page,)))
    shown.save(tmp_path / "rows.csv")


def test_a_short_query_is_refused_before_its_tree_is_large() -> None:
    """Law: NULLIF in NULLIF, which DuckDB's parser doubles each time, takes no time."""
    text = "amount"
    for _ in range(40):
        text = f"Nullif ({text}, 1)"
    query = f"SELECT sum({text}) FROM sales"
    with pytest.raises(dp.ParameterError, match="NULLIF more than 12 times"):
        dp.sql(query, {"sales": pd.DataFrame({"amount": [1.0]})}, epsilon=1.0, delta=1e-6)
