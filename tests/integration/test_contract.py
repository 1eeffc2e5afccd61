"""One contract of questions and doors: whichever door the rows come in by, the same release, the
same plan, one charge, one replay, and the same refusals.

What is asked is in ``contract.py``; what one question alone promises is tested in its own room.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli import main as cli
from dpframe.ledger import forecast as open_file
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.testing import seeded_noise
from tests.doors import Door, World, command, in_this_process, public, rows
from tests.integration.contract import BUDGET, CONTRACTS, HHH, Arguments, Contract, world_of
from tests.integration.test_ledger_faults import held
from tests.members import some

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
ROADS = ("accessor", "SQL, table", "command line")
"""The ways in which arguments and errors go."""

Worlds = Callable[[Contract], World]
every_question = pytest.mark.parametrize("question", CONTRACTS)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    made: dict[str, World] = {}

    def world(contract: Contract) -> World:
        if contract.name not in made:
            made[contract.name] = world_of(contract, tmp_path_factory.mktemp(contract.name))
        return made[contract.name]

    yield world
    for each in made.values():
        each.con.close()


@cache
def doors_of(contract: Contract) -> dict[str, Door]:
    return contract.every_door()


def answered(
    doors: dict[str, Door], world: World, about: Any, arguments: Arguments, seed: int = 3
) -> dict[str, Any]:
    found = {}
    for name, door in doors.items():
        with seeded_noise(seed):
            found[name] = door(world, about, arguments)
    return found


def complaint(contract: Contract, road: str, world: World, about: Any, given: Arguments) -> str:
    if road == "command line":
        return refused_line(
            contract, world, [*contract.flags(world, about, given), *contract.always]
        )
    with pytest.raises((dp.DpframeError, duckdb.Error)) as raised:
        doors_of(contract)[road](world, about, given)
    return f"{type(raised.value).__name__}: {raised.value}"


def refused_line(contract: Contract, world: World, flags: list[str]) -> str:
    """Law: exit code 2, nothing on stdout and no traceback."""
    folder = world.parquet.parent
    done = in_this_process(contract.command, str(world.parquet), *flags, cwd=folder)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


TITLES = {
    "hhh": "Heavy hitters of path",
    "heavy_hitters": "Heavy hitters of zip",
    "rollup": "Rollup of host",
    "tree_counts": "Counts of path",
    "prefix_tree": "Frequent items of word",
}
"""Of the page of what is cheap."""

# -- releases --------------------------------------------------------------------------------------


def cases() -> list[Any]:
    """Every case, by its name, and the doors that it goes through.

    Arguments go in by four roads: accessor, function, command line and SQL, and what a source is
    does not depend on them. So every case takes every road, each with one of its sources, and the
    next case with the next; the first case takes all. All cases by all doors are evidence.
    """
    out = []
    for contract in CONTRACTS.values():
        doors = doors_of(contract)
        roads = [list(road) for _, road in groupby(doors, lambda name: name.partition(",")[0])]
        assert set(contract.suite) <= contract.cases.keys()
        for number, case in enumerate(contract.suite):
            taken = {"accessor", "function, file", *(road[number % len(road)] for road in roads)}
            some = {name: doors[name] for name in (doors if number == 0 else taken)}
            out.append(pytest.param(contract, case, some, id=f"{contract.name}, {case}"))
        out += [
            pytest.param(
                *(contract, case, doors),
                id=f"{contract.name}, {case}, every door",
                marks=pytest.mark.evidence,
            )
            for case in contract.cases
        ]
    return out


@pytest.mark.parametrize(("contract", "case", "doors"), cases())
def test_every_door_gives_the_same_release(
    contract: Contract, case: str, doors: dict[str, Door], worlds: Worlds
) -> None:
    """Law: same rows, arguments and noise give equal frames, column types and receipts."""
    about, arguments = contract.cases[case]
    found = answered(doors, worlds(contract), about, arguments)
    assert len(found["accessor"][0]) > 1
    contract.same(found, about, arguments)


@every_question
def test_the_law_of_doors_can_fail(question: str, worlds: Worlds) -> None:
    """Negative control: other noise, in SQL and on the command line too, is another release."""
    contract = CONTRACTS[question]
    for door in ROADS:
        results = []
        for seed in (3, 4):
            with seeded_noise(seed):
                answer = doors_of(contract)[door](worlds(contract), *contract.cheap)
                results.append(answer[0])
        assert not results[0].equals(results[1]), door


REAL = [
    pytest.param(
        *(contract, table, about, arguments),
        id=f"{contract.name}, {table}, {about}",
        marks=[pytest.mark.evidence] if number > 1 else [],
    )
    for contract in CONTRACTS.values()
    for number, (table, about, arguments) in enumerate(contract.real)
]


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder shared/data with real tables is not beside the checkout"
)
@pytest.mark.parametrize(("contract", "table", "about", "arguments"), REAL)
def test_real_tables_come_out_the_same(
    contract: Contract, table: str, about: Any, arguments: Arguments, tmp_path: Path
) -> None:
    world = world_of(contract, tmp_path, DATA / f"{table}.parquet")
    taken = {"accessor", "function, file", "function, Arrow", "SQL, query"}
    if contract.reads_types:  # those of a frame of pandas are others
        taken.remove("accessor")
    doors = {name: door for name, door in doors_of(contract).items() if name in taken}
    contract.same(answered(doors, world, about, arguments), about, arguments)
    world.con.close()


WHOLE = {
    "years": ("columns:year,zip", {}),
    "users": ("columns:year,when", {"user": "who"}),
    "numbers of users": (
        "path:path",
        {"user": "id", "contribution": "records", "max_contributions": 2},
    ),
}


@pytest.mark.parametrize(
    "case", ["years", pytest.param("users", marks=pytest.mark.evidence), "numbers of users"]
)
def test_whole_numbers_give_the_same_nodes(case: str, worlds: Worlds) -> None:
    """Law: whole numbers, which some doors sort and hash as text, make the same nodes everywhere.

    Draws then fall on other nodes, and samples on other records: the budget makes both small.
    """
    hierarchy, more = WHOLE[case]
    large = {"epsilon": 10.0, "delta": 1e-3, "threshold": 60, **more}
    found = answered(doors_of(HHH), worlds(HHH), hierarchy, large, seed=5)
    expected = found["accessor"][0]
    assert len(expected) > 2
    for name, (result, _) in found.items():
        labels = result.drop(columns=["residual", "count", "lower", "upper"])
        if [str(t) for t in labels.dtypes] != [str(t) for t in expected[labels.columns].dtypes]:
            assert name.startswith("SQL, "), name  # a table that only its connection sees: text
            assert set(labels["prefix"]) == set(expected["prefix"]), name
            continue
        pd.testing.assert_frame_equal(labels, expected[labels.columns], obj=name)
        assert (result["count"] - expected["count"]).abs().max() <= 20


@pytest.mark.parametrize("ending", ["parquet", "csv", "json", "html"])
@pytest.mark.parametrize("question", [name for name in CONTRACTS if name != "synthesize"])
def test_files_of_every_format_hold_the_release(
    question: str, ending: str, worlds: Worlds, tmp_path: Path
) -> None:
    """Law: the same rows in every file, with the receipt where a format has room for it, and a
    report beside them."""
    contract = CONTRACTS[question]
    world, (about, arguments) = worlds(contract), contract.cheap
    flags = contract.flags(world, about, arguments)[1:]
    with seeded_noise(2):
        expected, receipt = command(world, contract.command, about, flags)
    out, page = tmp_path / f"out.{ending}", tmp_path / "page.html"
    line = [contract.command, str(world.parquet), about, *flags, "-o", str(out)]
    with seeded_noise(2):
        assert cli.main([*line, "--report", str(page), "--quiet"]) == 0
    text = out.read_text("utf-8") if ending != "parquet" else ""
    assert TITLES[question] in page.read_text("utf-8")
    if ending == "html":
        labels = expected["prefix" if "prefix" in expected else expected.columns[0]]
        assert all(html.escape(label) in text for label in labels[1:4])
        return
    if ending == "json":
        document = json.loads(text)
        assert public(document["receipt"]) == public(receipt)
        found = pd.DataFrame(document["rows"])
    else:
        found = pd.read_parquet(out) if ending == "parquet" else pd.read_csv(out)
    if ending == "parquet":
        found_receipt = receipt_in_metadata(pq.read_schema(out).metadata)
        assert found_receipt is not None
        assert public(found_receipt.to_dict()) == public(receipt)
    assert list(found.columns) == list(expected.columns)
    for column in expected:
        texts = [
            each[column].map(str).where(each[column].notna(), "") for each in (found, expected)
        ]
        assert texts[0].tolist() == texts[1].tolist(), column


def test_the_real_command_line_finds_the_same_nodes(worlds: Worlds, tmp_path: Path) -> None:
    """Law: a process of its own reports what this one does, noise apart."""
    flags = ["--epsilon", "40", "--delta", "1e-6", "--threshold", "60", "-o", "out.parquet"]
    line = [sys.executable, "-m", "dpframe", "hhh", str(worlds(HHH).parquet), "path:path", *flags]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = pd.read_parquet(tmp_path / "out.parquet")
    here = dp.hhh(rows(), "path:path", epsilon=40.0, delta=1e-6, threshold=60)
    pd.testing.assert_frame_equal(result[["level", "prefix"]], here[["level", "prefix"]])
    assert "Privacy card" in done.stderr


# -- plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "cases"),
    [
        *((name, contract.suite) for name, contract in CONTRACTS.items()),
        *(
            pytest.param(name, tuple(contract.cases), marks=pytest.mark.evidence)
            for name, contract in CONTRACTS.items()
        ),
    ],
)
def test_every_door_explains_the_same(
    question: str, cases: tuple[str, ...], worlds: Worlds
) -> None:
    """Law: function, accessor, command line and SQL print one plan."""
    contract = CONTRACTS[question]
    world = worlds(contract)
    dp.register(world.con)
    for case in cases:
        about, arguments = contract.cases[case]
        given = {**contract.planning, **arguments}
        given.pop("period", None)  # of which the door of a source says more
        expected = getattr(dp, contract.explains)(about, **given)
        assert str(getattr(world.frame.dp, contract.explains)(about, **given)) == str(expected)
        named = "".join(f', "{argument}" := ${argument}' for argument in given)
        statement = f'FROM dp_{contract.explains}("{contract.first}" := $about{named})'
        asked = {k: v.to_dict("records") if hasattr(v, "to_dict") else v for k, v in given.items()}
        words = {k: list(v) for k, v in about.items()} if isinstance(about, dict) else about
        shown = world.con.execute(statement, {"about": words, **asked}).df()
        assert shown.to_dict("list") == expected.to_frame().to_dict("list"), case
        line = [contract.explains.replace("_", "-"), *contract.flags(world, about, given)]
        done = in_this_process(*line, cwd=world.parquet.parent)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == str(expected), case


# -- ledgers ---------------------------------------------------------------------------------------


@every_question
def test_every_door_charges_the_same(question: str, worlds: Worlds, ledger: dp.Ledger) -> None:
    """Law: one release costs a ledger the same by whichever door it came; the ledger of a context
    is charged by every door but the command line, which takes its path."""
    contract = CONTRACTS[question]
    about, arguments = contract.cheap
    for name, door in doors_of(contract).items():
        if name == "command line":
            door(worlds(contract), about, {**arguments, "ledger": ledger})
            continue
        with dp.use_ledger(ledger):
            _, card = door(worlds(contract), about, arguments)
        if isinstance(card, dict):  # in SQL it is listed as it was charged
            assert (card["ledger"] is None) == name.startswith("SQL"), name
    spent = ledger.releases()
    assert len(spent) == len(doors_of(contract))
    assert spent[["epsilon", "delta", "hierarchy", "neighbours"]].drop_duplicates().shape[0] == 1
    each = arguments["epsilon"]
    assert ledger.summary()["spent_epsilon"][0] == pytest.approx(each * len(spent))


@every_question
def test_a_name_replays_by_every_door_without_the_data(
    question: str, ledger: dp.Ledger, tmp_path: Path
) -> None:
    """Law: identical, free, and nothing is read: the source may be empty or gone. Who replays is
    told, and other data under the name are refused."""
    contract = CONTRACTS[question]
    about, arguments = contract.cheap
    here = world_of(contract, tmp_path)
    taken = ("accessor", "function, file", "command line", "SQL, table")

    def of(door: str, data: str = "2026-11-02") -> Arguments:
        return {**arguments, "ledger": ledger, "release": door, "data": data}

    def ask(world: World, door: str) -> Any:
        return contract.stored(doors_of(contract)[door](world, about, of(door)))

    first = {door: ask(here, door) for door in taken}
    listed = ledger.releases()
    charged = listed["release"].tolist()
    assert charged == list(taken)
    assert {json.loads(receipt)["data"] for receipt in listed["receipt"]} == {"2026-11-02"}
    here.con.execute("DROP TABLE visits CASCADE")
    file = here.parquet
    schema = pq.read_schema(file)
    file.unlink()
    if contract.reads_types:
        pq.write_table(schema.empty_table(), file)
        here.con.read_parquet(str(file)).create("visits")
    gone = replace(here, frame=here.frame.head(0))
    for door in taken:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            again = ask(gone, door)
        notices = [str(note.message) for note in told if note.category is dp.ReplayedNotice]
        assert len(notices) == (door in ("accessor", "function, file")), door
        assert all(f"'{door}' is replayed: drawn on " in text for text in notices)
        if again is not None:  # rows drawn from stored counts
            pd.testing.assert_frame_equal(again, first[door], obj=door)
        if door != "function, file":
            said = complaint(contract, door, gone, about, of(door, "2026-11-03"))
            assert "data was '2026-11-02' and is now '2026-11-03'" in said, door
    assert ledger.releases()["release"].tolist() == charged
    here.con.close()


@every_question
def test_a_name_stands_for_one_request(question: str, worlds: Worlds, ledger: dp.Ledger) -> None:
    """Law: other arguments under the same name, or another question, are refused by every door,
    without a charge."""
    contract = CONTRACTS[question]
    about, arguments = contract.cheap
    world, named = worlds(contract), {"ledger": ledger, "release": "r"}
    doors_of(contract)["function, file"](world, about, {**arguments, **named})
    for number, other in enumerate(contract.others):
        for road in ROADS if number == 0 else ("accessor",):
            said = complaint(contract, road, world, about, {**arguments, **other, **named})
            assert "'r'" in said, (road, other)
    another = CONTRACTS["heavy_hitters" if question == "hhh" else "hhh"]
    column = str(world.frame.columns[0])
    about = column if question == "hhh" else [column]
    said = complaint(another, "accessor", world, about, {**BUDGET, **named})
    assert "'r'" in said
    assert len(ledger.releases()) == 1


def damaged(ledger: dp.Ledger) -> AbstractContextManager[object]:
    ledger.path.write_bytes(b"no ledger, only text\n" * 400)
    return nullcontext()


def gone(ledger: dp.Ledger) -> AbstractContextManager[object]:
    ledger.path.unlink()
    return nullcontext()


def locked(ledger: dp.Ledger) -> AbstractContextManager[object]:
    return held(ledger.path, "BEGIN IMMEDIATE")


def stop_draws(patched: pytest.MonkeyPatch) -> None:
    """From here on a draw is a TypeError."""
    for law in (NoiseTable, UnboundedNoise):
        patched.setattr(law, "draw", None)


@some(
    "hhh-locked",
    "heavy_hitters-damaged",
    "rollup-locked",
    "tree_counts-gone",
    "prefix_tree-damaged",
    "synthesize-locked",
    "hhh-gone",
)
@pytest.mark.parametrize("fault", [damaged, gone, locked])
@every_question
def test_a_ledger_that_cannot_be_used_stops_every_door(
    question: str,
    fault: Callable[[dp.Ledger], AbstractContextManager[object]],
    worlds: Worlds,
    ledger: dp.Ledger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law: nothing is drawn without the charge, whatever happened to the ledger; who had to wait
    can charge later."""
    contract = CONTRACTS[question]
    about, arguments = contract.cheap
    asked = {**arguments, "ledger": ledger}
    monkeypatch.setattr(open_file, "BUSY", 0.1)
    with monkeypatch.context() as patched, fault(ledger):
        stop_draws(patched)
        for road in ROADS:
            said = complaint(contract, road, worlds(contract), about, asked)
            assert "ledger" in said.lower(), (road, said)
            assert fault is not locked or "is locked by another process" in said, road
    if fault is locked:
        assert len(ledger.releases()) == 0
        with monkeypatch.context() as patched:
            stop_draws(patched)
            with pytest.raises(TypeError):  # a draw would be seen
                doors_of(contract)["accessor"](worlds(contract), about, arguments)
        doors_of(contract)["SQL, table"](worlds(contract), about, asked)
        assert len(ledger.releases()) == 1


@every_question
def test_what_cannot_be_paid_is_not_drawn(question: str, worlds: Worlds, tmp_path: Path) -> None:
    contract = CONTRACTS[question]
    about, arguments = contract.cheap
    small = dp.Ledger(tmp_path / "small.db", epsilon=0.5, delta=1e-5)
    for road in ROADS:
        asked = {**arguments, "ledger": small}
        said = complaint(contract, road, worlds(contract), about, asked)
        assert "epsilon" in said
        assert road == "command line" or "OverBudgetError" in said
    assert len(small.releases()) == 0


# -- mistakes --------------------------------------------------------------------------------------

MISTAKES = [
    pytest.param(contract, flags, said, id=f"{contract.name} {' '.join(flags)}")
    for contract in CONTRACTS.values()
    for flags, said in contract.mistakes
]


@pytest.mark.parametrize(("contract", "flags", "said"), MISTAKES)
def test_the_command_line_answers_mistakes(
    contract: Contract, flags: list[str], said: tuple[str, ...], worlds: Worlds, ledger: dp.Ledger
) -> None:
    """Law: one message with the argument, its value and the next step; no charge."""
    words = refused_line(contract, worlds(contract), [*flags, f"--ledger={ledger.path}"])
    for part in said:
        assert part in words
    assert len(ledger.releases()) == 0


@every_question
def test_a_budget_that_is_missing_is_named(question: str, worlds: Worlds) -> None:
    """Law: epsilon has no default, nor has delta where keys are not listed."""
    contract = CONTRACTS[question]
    about, arguments = contract.cheap
    for name in ("epsilon", "delta"):
        if name in arguments:
            left = {k: v for k, v in arguments.items() if k != name}
            for road in ROADS:
                said = complaint(contract, road, worlds(contract), about, left)
                assert f"{name} is missing" in said, road
