"""A gateway that is killed at random moments, while eight clients ask."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpframe.doors.gateway.gate import Gate
from dpframe.doors.gateway.policy_reader import read_policy
from tests.gateway.attacked import Process, asked, opened, write

CLIENTS = 8

EACH = 0.015625
"""Epsilon of a question."""


@dataclass
class Seen:
    """Replies: the name of the question's arguments, the ids and the rows that anybody got."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    replies: list[tuple[int, str, str, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def note(self, question: int, response: httpx.Response) -> None:
        body = response.json()
        with self.lock:
            if response.status_code != 200:
                self.broken.append(response.text)
                return
            rows = json.dumps(body["rows"], sort_keys=True)
            self.replies.append((question, body["release"], body["receipt"]["release_id"], rows))


def attack(server: Process, seen: Seen, pick: random.Random, until: threading.Event) -> None:
    """Ask equal and different questions until the server is gone."""
    with server.client(pick.choice(["ann", "ben"])) as client:
        while not until.is_set():
            question = pick.randrange(400)
            try:
                seen.note(question, asked(client, "hhh", **arguments(question)))
            except (httpx.HTTPError, ValueError):
                return


def arguments(question: int) -> dict[str, Any]:
    return {"hierarchy": "country", "epsilon": EACH, "threshold": 3000 + question}


def entries(folder: Path) -> list[tuple[str, str, int]]:
    """Name, id, and whether a result is stored, of every charge."""
    with closing(sqlite3.connect(folder / "policy.ledgers" / "sales.db")) as db:
        return db.execute(
            "SELECT name, release_id, EXISTS (SELECT 1 FROM results WHERE "
            "results.release_id = charges.release_id) FROM charges"
        ).fetchall()


def kill_often(folder: Path, kills: int, seed: int) -> Seen:
    """Kill a server so many times. Checks after each kill what must hold then."""
    pick, seen = random.Random(seed), Seen()
    server = Process(write(folder, floor=0.01, total=1000.0))
    for _ in range(kills):
        until = threading.Event()
        threads = [
            threading.Thread(
                target=attack, args=(server, seen, random.Random(pick.getrandbits(32)), until)
            )
            for _ in range(CLIENTS)
        ]
        for one in threads:
            one.start()
        if pick.random() < 0.7:
            wait_for_reply(seen)
        time.sleep(pick.uniform(0.0, 0.4))
        server.kill()
        until.set()
        for one in threads:
            one.join(60)
        check(folder, seen)
        server.start()
    server.stop()
    check(folder, seen)
    return seen


def wait_for_reply(seen: Seen) -> None:
    """Wait until somebody got an answer from this process, or long enough."""
    before = len(seen.replies)
    for _ in range(500):
        if len(seen.replies) > before:
            return
        time.sleep(0.02)


def check(folder: Path, seen: Seen) -> None:
    """Laws: what was seen was charged, and stored; a name was charged once; an equal question got
    the same rows, whoever asked and however often the server died."""
    charged = entries(folder)
    stored = {release_id: name for name, release_id, kept in charged if kept}
    assert not seen.broken, seen.broken[:3]
    for _, name, release_id, _ in seen.replies:
        assert stored[release_id] == name
    twice = [name for name, count in Counter(name for name, _, _ in charged).items() if count > 1]
    assert not twice
    for what in (0, 1):
        answers = {(reply[what], *reply[2:]) for reply in seen.replies}
        assert len({one[0] for one in answers}) == len(answers)


def test_killed_gateways_show_nothing_uncharged_and_charge_once(tmp_path: Path) -> None:
    seen = kill_often(tmp_path / "g", 2, seed=1)
    assert seen.replies


@pytest.mark.evidence
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_kills(tmp_path: Path, seed: int) -> None:
    """Five of these are 500 kills with 8 clients."""
    seen = kill_often(tmp_path / "g", 100, seed)
    gate = Gate(read_policy(tmp_path / "g" / "policy.toml"))
    spent = gate.budget(gate.policy.analysts["ben"], "sales")[-1]["spent"]
    assert spent == pytest.approx(EACH * len(entries(tmp_path / "g")))
    gate._ledgers["sales"].verify()
    gate.close()
    assert len({reply[0] for reply in seen.replies}) > 50


class Killed(BaseException):
    """Stands for the death of a process."""


@pytest.fixture
def dying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Opens a gate whose process seems to die at a call, and opens it again."""

    def die(module: str, name: str, after: bool) -> tuple[Gate, Gate]:
        gate = opened(tmp_path / "g")
        files = set((tmp_path / "g" / "policy.ledgers").iterdir())
        with monkeypatch.context() as patch:
            target = __import__(module, fromlist=["x"])
            owner, _, method = name.rpartition(".")
            place = getattr(target, owner) if owner else target
            real = getattr(place, method)

            def dead(*args: Any, **given: Any) -> Any:
                if after:
                    real(*args, **given)
                raise Killed

            patch.setattr(place, method, dead)
            patch.setattr(Path, "unlink", lambda *_, **__: None)  # the dead remove no files
            with pytest.raises(Killed):
                gate.ask(gate.policy.analysts["ann"], "sales", "hhh", arguments(0))
        gate.close()
        assert files
        return gate, Gate(read_policy(tmp_path / "g" / "policy.toml"))

    return die


@pytest.mark.parametrize(
    ("module", "name", "after", "again"),
    [
        ("dpframe.doors.gateway.shares", "write_charge", False, EACH),
        ("dpframe.asking.release", "count_affordable", True, EACH),
        ("dpframe.doors.gateway.shares", "SharedLedger.charge", True, EACH),
        ("dpframe.ledger.book", "Ledger.keep", False, EACH),
        ("dpframe.ledger.book", "Ledger.keep", True, EACH),
    ],
    ids=["before the charge", "after counting", "before drawing", "unstored", "stored"],
)
def test_a_question_that_died_is_paid_once(
    dying: Any, module: str, name: str, after: bool, again: float
) -> None:
    """Law: whoever asks again after a death at any place pays nothing more, also somebody else."""
    _, gate = dying(module, name, after)
    ben = gate.policy.analysts["ben"]
    reply = gate.ask(ben, "sales", "hhh", arguments(0))
    assert gate.budget(ben, "sales")[-1]["spent"] == again
    assert len(gate.releases(ben, "sales")) == 1
    assert gate.ask(ben, "sales", "hhh", arguments(0)).table.equals(reply.table)
    left = [one.name for one in gate.policy.folder.iterdir() if "-unfinished-" in one.name]
    assert left == []
    gate.close()
