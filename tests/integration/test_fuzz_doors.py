"""Whatever a front door is given, it answers, or refuses in words of ours that hold no data."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pandas as pd
import pytest

import dpframe as dp
from dpframe.sources import frames
from tests import fuzz_doors
from tests.fuzz_sources import NUMBER, WORD


def test_hostile_calls_answer_or_are_refused_without_data_and_without_charge(
    tmp_path: Path,
) -> None:
    """Law: some calls of every door; ``-m evidence`` makes ten thousand others."""
    assert fuzz_doors.run(20261122, 40, tmp_path) > 5


@pytest.mark.evidence
def test_ten_thousand_hostile_calls(tmp_path: Path) -> None:
    """The same law; ``DPFRAME_FUZZ_SEED`` and ``DPFRAME_FUZZ_CASES`` choose the calls."""
    seed = int(os.environ.get("DPFRAME_FUZZ_SEED", random.SystemRandom().getrandbits(32)))
    cases = int(os.environ.get("DPFRAME_FUZZ_CASES", 10_000))
    print(f"DPFRAME_FUZZ_SEED={seed} DPFRAME_FUZZ_CASES={cases}")
    assert fuzz_doors.run(seed, cases, tmp_path) > cases // 20


Case = tuple[int, tuple[str, str, str]]


def differences(cases: list[Case]) -> tuple[int, list[Case]]:
    """How many calls answered, and those that one table's values made answer otherwise."""
    answers = sum(hostile == "answers" for _, (_, hostile, _) in cases)
    return answers, [(seed, case) for seed, case in cases if case[1] != case[2]]


def of_values(seeds: range, folder: Path) -> list[Case]:
    book = fuzz_doors.mixed_ledger(folder / "values.db")
    found = ((seed, fuzz_doors.run_values(seed, book)) for seed in seeds)
    return [(seed, case) for seed, case in found if case is not None]


def test_no_value_decides_whether_a_call_answers(tmp_path: Path) -> None:
    """Law: of two tables of one schema both are answered, or both refused in the same words; both
    ways of counting release the same."""
    answers, differ = differences(of_values(range(16), tmp_path))
    assert not differ
    assert answers > 4


def test_no_value_decides_where_duckdb_reads_by_itself(tmp_path: Path) -> None:
    """The same law for relations, tables named in SQL, Parquet files and commands."""
    answers, differ = differences(fuzz_doors.run_children(range(24), tmp_path))
    assert not differ
    assert answers > 2


@pytest.mark.evidence
def test_no_value_of_twenty_thousand_decides_whether_a_call_answers(tmp_path: Path) -> None:
    """The same laws, over every type of Arrow with random bytes below NULLs and elsewhere; a tenth
    as many cases at the doors where DuckDB reads by itself."""
    first = int(os.environ.get("DPFRAME_FUZZ_SEED", random.SystemRandom().getrandbits(32)))
    cases = int(os.environ.get("DPFRAME_FUZZ_CASES", 20_000))
    print(f"DPFRAME_FUZZ_SEED={first} DPFRAME_FUZZ_CASES={cases}")
    answers, differ = differences(
        fuzz_doors.run_children(range(first, first + cases // 10), tmp_path)
    )
    assert not differ
    assert answers > cases // 100
    answers, differ = differences(of_values(range(first, first + cases), tmp_path))
    assert not differ
    assert answers > cases // 4


def test_values_that_decide_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the one rule for what DuckDB can hold, a map decides."""
    monkeypatch.setattr(frames, "readable_table", lambda table: table)
    _, differ = differences(of_values(range(170, 171), tmp_path))
    assert [seed for seed, _ in differ] == [170]


def quotes(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    raise dp.ColumnError(f"the value {NUMBER}")


def hides(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    try:
        raise ValueError(WORD)
    except ValueError:
        raise dp.SourceError("failed") from None


def chains(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    try:
        raise ValueError(WORD)
    except ValueError as error:
        raise dp.SourceError("failed") from error


def is_raw(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    raise KeyError("x")


def charges(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    dp.hhh(pd.DataFrame({"c": ["a"]}), ["c"], epsilon=1.0, delta=1e-6, ledger=book)
    raise dp.SourceError("failed")


@pytest.mark.parametrize("door", [quotes, hides, chains, is_raw, charges])
def test_the_check_can_fail(door: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: an error that quotes, now or in what is behind it, a raw one, a charge."""
    monkeypatch.setattr(fuzz_doors, "DOORS", (door,))
    with pytest.raises(AssertionError, match="case"):
        fuzz_doors.run(1, 1, tmp_path)
