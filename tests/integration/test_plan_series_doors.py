"""The planner of series in SQL and on the command line: the numbers of ``dp.plan_series``."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main

COLUMNS = ["way", "mechanism", "epsilon", "delta", "half_width", "shown_from", "epsilon_together"]


def test_sql_has_the_ways_of_python() -> None:
    plan = dp.plan_series(20, "hhh", ["a", "b"], user="who", total=(2.0, 1e-6))
    with duckdb.connect() as con:
        dp.register(con)
        found = con.sql(
            "FROM dp_plan_series('hhh', 'columns:a,b', 20, 2.0, 1e-6, arguments := {'user': 'who'})"
        ).df()
    expected = plan.to_frame()
    assert found[COLUMNS].to_dict("list") == expected[COLUMNS].to_dict("list")
    assert found.loc[found["chosen"], "mechanism"].tolist() == [plan.arguments["mechanism"]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("'hhhh', 'columns:a', 20, 2.0, 1e-6", "Did you mean 'hhh'"),
        ("'hhh', 'columns:a', 20, 2.0", "delta of total is missing"),
        ("'hhh', 'columns:a', 0, 2.0, 1e-6", "releases"),
        ("'hhh', 'columns:a', 20, 2.0, 1e-6, arguments := 'who'", "must be a struct"),
        ("'hhh', 'columns:a', 20, 2.0, 1e-6, arguments := {'usr': 'w'}", "Did you mean 'user'"),
    ],
)
def test_sql_says_what_is_wrong_with_a_plan(call: str, words: str) -> None:
    with duckdb.connect() as con:
        dp.register(con)
        with pytest.raises(duckdb.Error, match=words):
            con.sql(f"FROM dp_plan_series({call})")


def test_the_command_plans_and_says_until_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: ``dpframe plan-series`` prints the table of Python; with a ledger also how many of the
    releases that are planned it still holds."""
    book = dp.Ledger(tmp_path / "b.db", epsilon=2.0, delta=1e-6, accountant="pld")
    plan = dp.plan_series(20, "hhh", ["a", "b"], user="who", total=(2.0, 1e-6))
    command = ["plan-series", "hhh", "columns:a,b", "--releases", "20", "--user", "who"]
    command += ["--epsilon", "2", "--delta", "1e-6", "--ledger", str(book.path), "--every", "week"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert str(plan) in out
    assert "more fit if they are reserved now (out on " in out
    with pytest.raises(SystemExit):
        main(["plan-series", "hhhh", "columns:a,b", "--releases", "20"])
