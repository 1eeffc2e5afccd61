"""Pairs of SQL, "input; expected;", each file with a table of the same stem."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dpframe as dp
from tests.members import some

FOLDER = Path(__file__).parent / "cases"

STEMS = sorted(path.stem for path in FOLDER.glob("*.sql"))


def pairs(stem: str) -> list[tuple[str, str]]:
    text = (FOLDER / f"{stem}.sql").read_text("utf-8")
    statements = [statement.query.strip() for statement in duckdb.extract_statements(text)]
    assert len(statements) % 2 == 0, f"{stem}.sql has an input without an expected answer"
    return list(zip(statements[::2], statements[1::2], strict=True))


def filled(con: duckdb.DuckDBPyConnection, stem: str) -> None:
    con.execute(
        f"CREATE TABLE {stem} AS SELECT lines.* EXCLUDE (times) "
        f"FROM read_csv('{FOLDER / stem}.csv', all_varchar = true) AS lines, "
        "range(times::INTEGER)"
    )


@some("addresses", "sales")
@pytest.mark.parametrize("stem", STEMS)
def test_the_pairs_of_a_file(stem: str, tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=1000.0, delta=0.5)
    with duckdb.connect() as con:
        filled(con, stem)
        dp.register(con, ledger=ledger)
        for given, expected in pairs(stem):
            assert con.execute(given).fetchall() == con.execute(expected).fetchall(), given


def test_every_file_has_its_table_and_every_table_its_file() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.csv")) == STEMS
    assert sum(len(pairs(stem)) for stem in STEMS) >= 20


def test_a_pair_can_fail() -> None:
    """Negative control: the comparison sees a row too many, and another order."""
    with duckdb.connect() as con:
        one, two = (con.execute(f"VALUES {v}").fetchall() for v in ("(1), (2)", "(2), (1)"))
    assert one != two
    assert one != one[:1]
