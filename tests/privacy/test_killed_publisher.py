"""Every read of published results in PostgreSQL is one whole state, whenever a publisher dies.

Publishers are processes that bring a schema to the states of a ledger at several times, two at
once, and are killed at random moments; readers run one query after another: ``python -m
tests.privacy.test_killed_publisher``. What a query answers in each state is computed by DuckDB,
from files. Next to the check stand planted bugs that the same check must reject.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.publishing import postgres
from tests import engines
from tests.members import often

from . import ledger_worker
from .ledger_worker import ended, forked

pytestmark = pytest.mark.engines  # kills processes of its own

worker = partial(ledger_worker.worker, module="test_killed_publisher", timeout=7200)

STATES, READERS = 6, 8
LIFE = 3.0
"""Seconds that a publisher lives beside the one before it, at most."""

QUERIES = (
    "SELECT r.release, r.is_latest, r.row_count, count(a.level), sum(a.count) FROM dp_releases r "
    "LEFT JOIN visits_all a ON a.release = r.release WHERE r.latest_view = 'visits_latest' "
    "GROUP BY r.release, r.is_latest, r.row_count ORDER BY r.release",
    "SELECT a.release, r.period, count(*), sum(a.residual) FROM visits_all a "
    "FULL JOIN dp_releases r ON r.release = a.release GROUP BY a.release, r.period ORDER BY 1, 2",
    "SELECT r.release, count(*), sum(l.count), max(r.row_count), max(b.releases) "
    "FROM visits_latest l, dp_releases r, dp_budget b "
    "WHERE r.is_latest AND r.latest_view = 'visits_latest' GROUP BY r.release",
    "SELECT m.release, m.measure, count(*), sum(round(m.value)), sum(round(p.paid)) "
    "FROM dp_measures m JOIN paid_all p ON p.release = m.release AND p.level = m.level "
    "AND p.prefix = m.prefix GROUP BY m.release, m.measure ORDER BY 1, 2",
    "SELECT m.release, m.measure, count(*), max(b.releases) FROM paid_latest p JOIN dp_measures m "
    "ON m.level = p.level AND m.prefix = p.prefix JOIN dp_releases r ON r.release = m.release "
    "CROSS JOIN dp_budget b WHERE r.is_latest GROUP BY m.release, m.measure ORDER BY 1, 2",
    "SELECT (SELECT count(*) FROM visits_all), (SELECT count(*) FROM paid_all), "
    "(SELECT count(*) FROM dp_measures), (SELECT count(*) FROM dp_releases), "
    "(SELECT sum(count) FROM visits_latest), (SELECT releases FROM dp_budget)",
)


def ledger_at(folder: Path, state: int) -> Path:
    return folder / f"state-{state}.db"


def draw_states(folder: Path) -> None:
    """Copies of one ledger after each period. Half-way both families get a level more."""
    ledger = dp.Ledger(folder / "budget.db", epsilon=600.0, delta=1e-2)
    visits = pd.DataFrame({"city": ["a", "b", "c"] * 900, "shop": ["x", "y"] * 1350, "spent": 2.0})
    for state in range(1, STATES + 1):
        levels = ["city"] if state <= STATES // 2 else ["city", "shop"]
        asked: Any = {"epsilon": 2.0, "delta": 1e-6, "ledger": ledger}
        period = f"2026-W{30 + state}"
        dp.hhh(visits, levels, **asked, release=f"visits-{period}")
        measures = {"n": "count", "paid": dp.sum("spent", lower=0, upper=5)}
        dp.rollup(visits, levels, measures, **asked, release=f"paid-{period}")
        shutil.copy(ledger.path, ledger_at(folder, state))


def read_answers(folder: Path) -> list[dict[str, int]]:
    """For each query what it answers in each state, by DuckDB."""
    out: list[dict[str, int]] = [{} for _ in QUERIES]
    for state in range(1, STATES + 1):
        file = folder / f"state-{state}.duckdb"
        dp.publish(ledger_at(folder, state), file)
        with duckdb.connect(file, read_only=True) as con:
            for answers, query in zip(out, QUERIES, strict=True):
                answers[plain_text(con.execute(query).fetchall())] = state
    assert all(len(answers) == STATES for answers in out)
    return out


def plain_text(rows: list[tuple[Any, ...]]) -> str:
    """Rows as text, the same whatever types of numbers the engine has."""
    return json.dumps(
        [[v if isinstance(v, str | None | bool) else float(v) for v in r] for r in rows]
    )


# -- readers ---------------------------------------------------------------------------------------


def read_on(
    address: str, schema: str, number: int, answers: list[dict[str, int]], out: Path
) -> None:
    """Run one query after another until somebody says stop: alone, or all in one transaction."""
    import psycopg

    stop, found = out.parent / "stop", Counter[str]()
    chance = random.Random(number)
    states = set()
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as db:
        db.execute(f'SET search_path = "{schema}"')
        level = ("READ COMMITTED", "REPEATABLE READ")[number % 2]
        while not stop.exists():
            try:
                db.execute(f"BEGIN ISOLATION LEVEL {level}")
                seen = []
                for which in chance.sample(range(len(QUERIES)), 3):
                    text = plain_text(db.execute(QUERIES[which]).fetchall())
                    seen.append(answers[which].get(text, 0))
                    if not seen[-1]:
                        (out.parent / f"mixed-{number}").write_text(f"{QUERIES[which]}\n{text}\n")
                db.execute("COMMIT")
            except psycopg.Error as error:
                found["failed"] += 1
                (out.parent / f"failed-{number}").write_text(f"{error.sqlstate} {error}")
                db.execute("ROLLBACK")
                continue
            found["reads"] += len(seen)
            found["mixed"] += sum(state == 0 for state in seen)
            found["torn"] += level == "REPEATABLE READ" and len(set(seen)) > 1
            states |= {*seen} - {0}
            time.sleep(0.01)  # eight of them leave publishers some of the machine
    out.write_text(json.dumps({**found, "states": sorted(states)}))


@contextlib.contextmanager
def reading(folder: Path, address: str, schema: str, answers: Any) -> Iterator[list[Path]]:
    """Readers beside what is done; afterwards each has written what it found."""
    files = [folder / f"{schema}-reader-{number}" for number in range(READERS)]
    (folder / "stop").unlink(missing_ok=True)
    pids = [
        forked(lambda n=n, out=out: _done(lambda: read_on(address, schema, n, answers, out)))
        for n, out in enumerate(files)
    ]
    try:
        yield files
    finally:
        (folder / "stop").touch()
        codes = [ended(pid) for pid in pids]
    assert codes == [0] * READERS, codes


def _done(work: Callable[[], object]) -> None:
    work()
    os._exit(0)


# -- publishers ------------------------------------------------------------------------------------


def plant(bug: str) -> None:
    """Break publishing in one way."""
    schema: Any = postgres.Schema
    if bug == "two transactions":
        write, listed = schema._write, postgres.RELEASES

        def writes(self: Any, one: Any, kept: set[str]) -> None:
            if one.table.name == listed:
                self._run("COMMIT", "BEGIN")
            write(self, one, kept)

        schema._write = writes
    if bug == "tables are emptied":  # not by rows: earlier snapshots lose them
        change, kept_releases = schema._change_views, schema._kept_releases

        def changes(self: Any) -> None:
            change(self)
            families = [n for n in self._tables if n.endswith("_all") and n in self._columns]
            self._run(*(f"TRUNCATE {self._name(name)}" for name in families))

        def keeps(self: Any, made: Any) -> set[str]:
            kept_releases(self, made)
            return set()

        schema._change_views, schema._kept_releases = changes, keeps
    if bug == "views name their release":  # and are made anew with each
        views_of = schema._views_of

        def names(self: Any, made: Any) -> Any:
            views = views_of(self, made)
            for view, one in made.latest.items():
                told = f"release = '{one.stored.name}'"
                views[view] = postgres.replace(views[view], condition=told)
                if view in self._columns:
                    self._run(self._view(views[view]))
            return views

        schema._views_of = names
    if bug == "others do not wait":
        run = schema._run

        def runs(self: Any, *statements: str) -> None:
            run(self, *(s for s in statements if "SHARE ROW EXCLUSIVE" not in s))

        schema._run = runs


def publish_on(folder: str, to: str, seed: int, bug: str) -> None:
    """Publish states in any order until killed; an error of ours ends it."""
    chance = random.Random(seed)
    plant(bug)
    while True:
        dp.publish(ledger_at(Path(folder), chance.randint(1, STATES)), to)


def killed(root: str, address: str, times: str, bug: str = "") -> object:
    """Kill two publishers at random moments, again and again, in a few schemas one after another;
    publish once more, undisturbed."""
    folder = Path(root)
    draw_states(folder)
    answers = read_answers(folder)
    chance, dead, found, whole, schemas = random.Random(7), 0, [], [], 0
    codes = Counter[int]()
    while dead < int(times):
        schemas += 1
        schema = f"{bug} {schemas}".strip()
        to = f"{address}&schema={schema.replace(' ', '%20')}"
        dp.publish(ledger_at(folder, 1), to)
        with reading(folder, address, schema, answers) as files:
            for _ in range(min(20, -(-(int(times) - dead) // 2))):
                seeds = chance.random(), chance.random()
                pids = [
                    forked(lambda s=s, to=to: _done(lambda: publish_on(root, to, s, bug)))
                    for s in seeds
                ]
                for pid in pids:
                    time.sleep(chance.uniform(0.0, LIFE))
                    os.kill(pid, signal.SIGKILL)
                    codes[ended(pid)] += 1
                dead = codes[-9]
            if sum(codes.values()) > 4 * int(times):
                break
        found += [json.loads(file.read_text()) for file in files]
        whole.append(is_whole(folder, address, to, schema))
    total = Counter[str]()
    for each in found:
        total.update({k: v for k, v in each.items() if k != "states"})
    states = sorted({state for each in found for state in each["states"]})
    told = [p.read_text() for p in (*folder.glob("mixed-*"), *folder.glob("failed-*"))][:3]
    return {
        **total,
        "states": states,
        "kills": dead,
        "schemas": schemas,
        "codes": {str(code): n for code, n in codes.items()},
        "whole": all(whole),
        "told": told,
    }


def is_whole(folder: Path, address: str, to: str, schema: str) -> bool:
    """Whether an undisturbed publication of the last state ends as one in a new schema."""
    import psycopg

    new = f"new {schema}"
    try:
        dp.publish(ledger_at(folder, STATES), to)
    except dp.DpframeError:
        return False
    dp.publish(ledger_at(folder, STATES), f"{address}&schema={new.replace(' ', '%20')}")
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as db:
        contents = []
        for name in (schema, new):
            tables = db.execute(
                "SELECT c.relname::text, c.relkind::text, obj_description(c.oid) FROM pg_class c "
                "WHERE c.relnamespace = %s::regnamespace AND relkind IN ('r', 'v') ORDER BY 1",
                (f'"{name}"',),
            ).fetchall()
            contents.append([*tables])
            for table, *_ in tables:
                of = f'SELECT to_jsonb(t)::text FROM "{name}"."{table}" t ORDER BY 1'
                contents[-1] += db.execute(of).fetchall()
    return contents[0] == contents[1]


# -- tests -----------------------------------------------------------------------------------------


@often(10, 200, "times")
def test_every_read_is_one_whole_state_whenever_publishers_die(tmp_path: Path, times: int) -> None:
    """Law: no read fails; each answer is that of one state, and in a transaction with one snapshot
    all are of the same. As evidence 200 kills."""
    with engines.postgres() as engine:
        address = engines.server().address(engine.connection.info.dbname)
        found = worker("killed", tmp_path, address, times)
    assert found["kills"] >= times
    assert found["reads"] > 20 * times
    assert len(found["states"]) >= (2 if times < 200 else STATES // 2 + 1)
    assert broken(found) == set(), found["told"]


def broken(found: dict[str, Any]) -> set[str]:
    """What did not hold: reads that failed, or showed no state or two of them; publishers that
    ended with an error; a last publication that did not end as one in a new schema."""
    out = {law for law in ("failed", "mixed", "torn") if found.get(law)}
    out |= {"errors"} if {*found["codes"]} - {"-9"} else set()
    return out if found["whole"] else out | {"whole"}


BUGS = {
    "two transactions": {"mixed"},
    "tables are emptied": {"mixed", "failed"},
    "views name their release": {"mixed", "failed"},
    "others do not wait": {"errors", "whole"},
}
"""What is planted, and the laws of which it breaks one."""


@pytest.mark.parametrize(
    "bug", [pytest.param(b, marks=[pytest.mark.evidence] * (i > 0)) for i, b in enumerate(BUGS)]
)
def test_planted_bugs_are_rejected_by_the_same_check(tmp_path: Path, bug: str) -> None:
    with engines.postgres() as engine:
        address = engines.server().address(engine.connection.info.dbname)
        found = worker("killed", tmp_path, address, 20, bug)
    assert broken(found) & BUGS[bug], found


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    print(json.dumps({"killed": killed}[command](*words)))
