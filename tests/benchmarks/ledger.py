"""What a charge costs: one process alone, 8 processes that charge one ledger 200 times each,
ledgers of up to 100,000 releases, and one of 10,000 releases with periods; and what a small
question costs with a ledger.

Run with ``python -m tests.benchmarks.ledger [--folder-on DISK] [--processes 8] [--times 200]
[--most 1e5] [--only blocks] [--only small]``. Every charge waits for the disk, so beside it stands
what a bare SQLite transaction of the same size takes in the same folder, with the same settings, in
turns. The total is checked to be exactly right.
"""

from __future__ import annotations

import itertools
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpframe.ledger import Blocks, Ledger
from dpframe.ledger.book import write_result
from dpframe.ledger.entries import append_entry, entry_of, newest_entry
from dpframe.ledger.state import read_state
from dpframe.ledger.store import read_totals
from tests.benchmarks import bench
from tests.privacy.ledger_worker import DELTA, EPSILON, LAW, TOTALS, charge, race


def bare(path: Path, text: str) -> None:
    """The least that a durable row costs: open, write, wait for the disk, close."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = EXTRA")
        db.execute("CREATE TABLE IF NOT EXISTS t (x)")
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t VALUES (?)", (text,))
        db.execute("COMMIT")


def charged(
    ledger: Ledger, folder: Path, costs: Iterable[Any]
) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of charges, those of processors, and of a bare row beside each."""
    ours, cpu, floor = [], [], []
    for cost in costs:
        taken = bench.timed(lambda c=cost: ledger.charge(c))  # type: ignore[misc]
        ours.append(1e3 * taken["seconds"])
        cpu.append(1e3 * taken["busy"])
        floor.append(
            1e3 * bench.timed(lambda c=cost: bare(folder / "bare.db", c.receipt))["seconds"]
        )  # type: ignore[misc]
    return ours, cpu, floor


def used(uses: dict[str, Callable[[], Any]]) -> str:
    return ", ".join(
        f"{name} {1e3 * bench.timed(use)['seconds']:.0f} ms" for name, use in uses.items()
    )


def alone(folder: Path, accountant: Any, times: int) -> None:
    ledger = Ledger(folder / f"{accountant}.db", **TOTALS, accountant=accountant)
    ledger.charge(charge())  # loads what it needs
    ours, _, floor = charged(ledger, folder, (charge() for _ in range(times)))
    print(
        f"one process, {accountant}: {statistics.median(ours):.2f} ms a charge (median of {times}, "
        f"mean {statistics.mean(ours):.2f}); bare SQLite {statistics.median(floor):.2f} ms"
    )


def together(folder: Path, processes: int, times: int) -> None:
    ledger = Ledger(folder / "race.db", **TOTALS)
    run: Any = race(str(ledger.path), str(processes), str(times))
    ms = sorted(run["milliseconds"])
    number = processes * times
    print(
        f"{processes} processes x {times}: {number / run['seconds']:.0f} charges a second; "
        f"a charge takes {statistics.median(ms):.2f} ms (median), "
        f"{ms[int(0.99 * number)]:.0f} ms (99 %), {ms[-1]:.0f} ms (longest)"
    )
    opened = used({"opening": lambda: Ledger(ledger.path)})
    print(f"a ledger of {number} charges: {opened}")
    again = Ledger(ledger.path)
    right = again.spent.epsilon == round(number * EPSILON, 9) and len(again.releases()) == number
    print(f"total {again.spent.epsilon} of {number} x {EPSILON}: {'exact' if right else 'WRONG'}")


def long(folder: Path, accountant: Any, releases: int) -> None:
    """A ledger with a reservation and so many releases before: what each use of it takes."""
    held = {"epsilon": 2000.0, "delta": 1e-2}
    ledger = Ledger(folder / f"{accountant}-{releases}.db", **held, accountant=accountant)
    if accountant == "pld":
        ledger.reserve(LAW, releases=10, delta=1e-7)
    with ledger._write_transaction() as db:
        last = newest_entry(db, read_totals(db))
        for _ in range(releases):
            cost = entry_of(charge(), ((EPSILON, DELTA),), (0, 0))
            before = last
            last = cost._replace(
                number=last.number + 1,
                spent_epsilon=before.spent_epsilon + cost.epsilon,
                spent_delta=before.spent_delta + cost.delta,
                open=before.open,
            )
            last = last._replace(seal=last.seal_after(before.seal))
            append_entry(db, before, last)
    uses: dict[str, Callable[[], Any]] = {
        "charge": lambda: ledger.charge(charge()),
        "left": lambda: ledger.left,
        "open": lambda: Ledger(ledger.path),
        "summary": ledger.summary,
        "releases(100)": lambda: ledger.releases(100),
        "releases()": ledger.releases,
        "verify": ledger.verify,
    }
    print(f"{accountant}, {releases} releases: {used(uses)}")


def add_copies(ledger: Ledger, name: str, releases: int) -> None:
    """Append copies of a stored release to a ledger, each under a name of its own."""
    stored = ledger.find(name)
    assert stored is not None
    with ledger._write_transaction() as db:
        last = newest_entry(db, read_totals(db))
        for i in range(releases):
            copy = {"name": f"copy-{i}", "release_id": f"{i:032x}"}
            before = last
            last = last._replace(
                number=before.number + 1,
                spent_epsilon=before.spent_epsilon + before.epsilon,
                spent_delta=before.spent_delta + before.delta,
                **copy,
            )
            last = last._replace(seal=last.seal_after(before.seal))
            append_entry(db, before, last)
            write_result(db, replace(stored, **copy))
        db.execute("UPDATE budget SET spent_epsilon = ?, spent_delta = ?", last.sums)


SMALL = {"hhh": {}, "rollup": {"measures": {"n": "count"}}}


def small(folder: str, question: str, releases: int, times: int = 30) -> bench.Figures:
    """Milliseconds and those of processors of a question about 10,000 rows of pandas: without a
    ledger, charged, charged and stored under a name, and replayed."""
    import pandas as pd

    n, counter = range(10_000), itertools.count()
    frame = pd.DataFrame({"a": [f"x{i % 5}" for i in n], "b": [i % 50 for i in n]})
    book = Ledger(Path(folder, f"{question}-{releases}.db"), epsilon=1e5, delta=0.5)

    def ask(**given: Any) -> Any:
        asked = {**SMALL[question], "epsilon": 0.5, "delta": 1e-6}
        return getattr(frame.dp, question)(["a", "b"], **asked, **given)

    def named() -> Any:
        return ask(ledger=book, release=f"new-{next(counter)}")

    named()
    add_copies(book, "new-0", releases)
    kinds = {
        "no ledger": ask,
        "charged": lambda: ask(ledger=book),
        "named": named,
        "replayed": lambda: ask(ledger=book, release="new-0"),
    }
    kinds["bare SQLite"] = lambda: bare(Path(folder, "bare.db"), "x" * 3000)
    runs = bench.in_turns(kinds, times)
    return {
        kind: [1e3 * bench.middle(each, what) for what in ("seconds", "busy")]
        for kind, each in runs.items()
    }


def small_questions(folder: Path, releases: int) -> None:
    bench.head("10,000 rows", "releases before", "a call", "ms", "of processors")
    for question in SMALL:
        for before in (0, releases):
            (folder / "bare.db").unlink(missing_ok=True)
            for kind, figures in bench.alone(small, folder, question, before).items():
                bench.row(question, before, kind, *(f"{ms:.2f}" for ms in figures))


def spans(kind: str, number: int) -> list[tuple[int, int]]:
    """First and last day of every release: one day each, or long ranges that overlap."""
    if kind == "disjoint days":
        return [(day, day + 1) for day in range(number)]
    return [(i // 2, 2 * number - i) for i in range(number)]


def by_block(folder: Path, kind: str, releases: int, times: int = 200) -> None:
    """A ledger of so many releases with periods: what the next ones take, beside a bare row."""
    ledger = Ledger(folder / f"{kind}.db", **TOTALS)
    with ledger._write_transaction() as db:
        for first, last in spans(kind, releases):
            cost = replace(charge(), blocks=blocks_of(first, last))
            here = read_state(db)
            entry, _ = here.with_charge(cost, ())
            append_entry(
                db, here.last, entry._replace(tops=here.segments.add(cost.blocks, entry.cost))
            )
    some = spans(kind, releases)[:: max(1, releases // times)]
    costs = [replace(charge(), blocks=blocks_of(*days)) for days in some]
    ours, cpu, floor = charged(ledger, folder, costs)
    uses: dict[str, Callable[[], Any]] = {
        "summary": ledger.summary,
        "check": lambda: ledger.check(costs[-1]),
        "open": lambda: Ledger(ledger.path),
        "blocks": ledger.blocks,
        "within 28 days": lambda: ledger.within(days=28),
        "verify": ledger.verify,
    }
    told = used(uses)
    print(
        f"{releases} releases, {kind}: {len(ledger.blocks())} blocks; a charge "
        f"{statistics.median(ours):.2f} ms (median of {len(ours)}, 95 % "
        f"{sorted(ours)[int(0.95 * len(ours))]:.2f}, of processor time "
        f"{statistics.median(cpu):.2f}); bare SQLite {statistics.median(floor):.2f} ms; {told}"
    )


def blocks_of(first: int, last: int) -> Blocks:
    return Blocks(axis="when as written", first=86_400 * first, last=86_400 * last)


def main() -> None:
    sizes = {"processes": 8, "times": 200, "most": 100_000}
    given = bench.options(folder_on="", **sizes, only=("blocks", "small"))
    with tempfile.TemporaryDirectory(dir=given.folder_on or None) as name:
        folder = Path(name)
        if given.only != "blocks":
            small_questions(folder, min(10_000, given.most))
        if given.only == "small":
            return
        bare(folder / "bare.db", "")
        for kind in ("disjoint days", "overlapping ranges"):
            by_block(folder, kind, min(10_000, given.most))
        if given.only == "blocks":  # releases with periods
            return
        for accountant in ("sum", "pld"):
            alone(folder, accountant, given.times)
        together(folder, given.processes, given.times)
        for releases in (n for n in (10, 1_000, 10_000, 100_000) if n <= given.most):
            for accountant in ("sum", "pld"):
                long(folder, accountant, releases)


if __name__ == "__main__":
    main()
