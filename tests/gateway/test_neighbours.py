"""What a gateway says of neighbouring tables is equal, but for released numbers.

Tables differ in one hostile record, or in one user with many. All doors are asked the same, right
and wrong.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from dpframe.doors.gateway import ARROW
from dpframe.doors.gateway.gate import ClosedError, FailedError, Gate
from dpframe.doors.gateway.http import Door
from dpframe.doors.gateway.policy_reader import read_policy
from dpframe.errors import DpframeError, OverBudgetError, SourceError
from dpframe.ledger.book import Ledger
from dpframe.questions.question_list import QUESTIONS
from tests.gateway.attacked import CANARY, TOKENS, opened, sold, write

HHH: dict[str, Any] = vars(next(one for one in QUESTIONS if one.name == "hhh"))
"""The parts of a question, which is frozen."""

PLAIN = {"person": 17, "country": "c0", "city": "t0", "amount": 1.0}

HOSTILE: dict[str, list[dict[str, Any]]] = {
    "nothing but nulls": [{}],
    "no number": [{**PLAIN, "amount": float("nan")}],
    "infinite": [{**PLAIN, "amount": float("inf")}, {**PLAIN, "amount": -1e308}],
    "long text": [{**PLAIN, "country": CANARY + "x" * 100_000}],
    "odd text": [{**PLAIN, "city": "\0;'\"\\\n\u202e%s{}<script>" + CANARY}],
    "new key": [{**PLAIN, "country": CANARY, "city": CANARY}],
    "far day": [{**PLAIN, "day": pd.Timestamp("2262-01-01")}],
    "new user": [{**PLAIN, "person": 10**9, "city": f"t{i % 40}"} for i in range(300)],
    "bad bytes": [{**PLAIN, "city": b"\xff\xfe" + CANARY.encode()}],
}

ROLLUP = {"by": ["country", "city"], "measures": ["count", "sum(amount)"]}

ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("hhh", {"hierarchy": "columns:country,city", "epsilon": 1}),
    ("rollup", ROLLUP),
    ("rollup", {"by": "number:amount?lower=0&upper=64", "measures": "count"}),
    ("tree_counts", {"hierarchy": "country"}),
    ("heavy_hitters", {"column": "country"}),
    ("hhh", {"hierarchy": "country", "period": "2026-W02"}),
    ("sql", {"query": "SELECT country, count(*), sum(amount) FROM sales GROUP BY country"}),
    ("sql", {"query": "SELECT city, count(*) FROM sales WHERE amount / 0 > 1 GROUP BY city"}),
    ("sql", {"query": "SELECT count(*) AS n FROM sales WHERE CAST(amount AS TINYINT) > 1"}),
]

REFUSED: list[tuple[str, Any]] = [
    *((q, given) for q in ("hhh", "rollup", "sql", "nothing") for given in ({}, [], None, 3)),
    ("hhh", {"hierarchy": "secret"}),
    ("hhh", {"hierarchy": "columns:country,person"}),
    ("hhh", {"hierarchy": "country", "user": "city"}),
    ("hhh", {"hierarchy": "country", "ledger": "/tmp/other.db"}),
    ("hhh", {"hierarchy": "country", "release": "mine"}),
    ("hhh", {"hierarchy": "country", "seed": 1}),
    ("hhh", {"hierarchy": "country", "epsilon": "1"}),
    ("hhh", {"hierarchy": "country", "epsilon": 10**400}),
    ("hhh", {"hierarchy": "country", "epsilon": -1}),
    ("hhh", {"hierarchy": "country", "epsilon": 1e-9}),
    ("hhh", {"hierarchy": "country", "period": "2026-13"}),
    ("hhh", {"hierarchy": "country", "period": ["amount", "2026"]}),
    ("hhh", {"hierarchy": "country", "weight": "secret"}),
    ("hhh", {"hierarchy": "country", "weight": "amount", "max_weight": 10**9}),
    ("hhh", {"hierarchy": "country", "\ud800": 1}),
    ("rollup", {"by": "country", "measures": "sum(secret)"}),
    ("rollup", {"by": "country", "measures": "sum(amount, 0, 1000000)"}),
    ("rollup", {"by": "country", "measures": "count", "keys": "/etc/passwd"}),
    ("rollup", {"by": "country", "measures": [f"mean(amount, 0, {i})" for i in range(60)]}),
    ("tree_counts", {"hierarchy": "country", "level_weights": [1e300, 0, "x"]}),
    ("heavy_hitters", {"column": "person"}),
    ("sql", {"query": "SELECT secret, count(*) FROM sales GROUP BY secret"}),
    ("sql", {"query": "SELECT country, count(*) FROM sales WHERE person = 1 GROUP BY country"}),
    ("sql", {"query": "SELECT country, count(*) FROM closed GROUP BY country"}),
    ("sql", {"query": "SELECT country, count(*) FROM 'sales.parquet' GROUP BY country"}),
    ("sql", {"query": "SELECT * FROM read_parquet('sales.parquet')"}),
    ("sql", {"query": "SELECT count(*) FROM sales WHERE error(city) = 'x'"}),
    ("sql", {"query": "SELECT max(city) FROM sales"}),
    ("sql", {"query": "(" * 3000}),
    ("sql", {"query": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 9) count(*) FROM sales"}),
]

VARIES = ("release_id", "time", "ledger", "noise", "notices", "proof", "card")
"""Facts of receipts that follow from the moment or from released numbers, with their words."""


def without_numbers(fact: Any) -> Any:
    """A fact, with a sign in the place of each number: bounds and shares are found privately.
    ``change``, what to ask for instead, follows from the rows that are shown."""
    if isinstance(fact, dict):
        return {key: without_numbers(one) for key, one in fact.items() if key != "change"}
    if isinstance(fact, list):
        return [without_numbers(one) for one in fact]
    number = isinstance(fact, int | float) and not isinstance(fact, bool)
    return "#" if number else re.sub(r"\d[\d.e+-]*", "#", fact) if isinstance(fact, str) else fact


def table_of(more: list[dict[str, Any]]) -> pa.Table:
    """The usual rows and some more, whose missing values are NULL, with bytes that are no text."""
    base = pa.Table.from_pandas(sold(1_500))
    kinds = {field.name: field.type for field in base.schema}
    columns = {}
    for name, kind in kinds.items():
        values = [row.get(name) for row in more]
        if kind in (pa.string(), pa.large_string()):
            text = [v.encode() if isinstance(v, str) else v for v in values]
            old = [v.as_py().encode() for v in base[name]]
            raw = pa.array([*old, *text], pa.binary())
            columns[name] = pa.StringArray.from_buffers(
                len(raw), raw.buffers()[1], raw.buffers()[2], raw.buffers()[0], raw.null_count
            )
        else:
            added = pa.array(values, kind)
            columns[name] = pa.concat_arrays([base[name].combine_chunks(), added])
    return pa.table(columns)


@contextmanager
def served(folder: Path, rows: pa.Table, **settings: Any) -> Iterator[tuple[Gate, TestClient]]:
    gate = opened(folder, rows, **settings)
    try:
        head = {"Authorization": f"Bearer {TOKENS['ann']}"}
        with TestClient(Door(gate).app(), headers=head, raise_server_exceptions=False) as client:
            yield gate, client
    finally:
        gate.close()


def seen(response: Any) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body of a response, without what may vary, and without the values of
    rows."""
    heads = {k: v for k, v in response.headers.items() if k not in ("date", "content-length")}
    if response.status_code != 200:
        return (
            response.status_code,
            {**heads, "n": response.headers["content-length"]},
            response.text,
        )
    body = response.json()
    if isinstance(body, dict) and "rows" in body:
        body = {k: v for k, v in body.items() if k != "rows"}
        receipt = {k: v for k, v in body["receipt"].items() if k not in VARIES}
        body = {**body, "receipt": without_numbers(receipt), "free": bool(body["free"])}
    if isinstance(body, list):
        body = [{k: v for k, v in one.items() if k != "time"} for one in body]
    return response.status_code, heads, body


def everything(
    client: TestClient, allowed: list[tuple[str, dict[str, Any]]]
) -> Iterator[tuple[str, Any]]:
    """What a client sees of the same requests, in the same order."""
    where = "/api/datasets/sales"
    for name in ("", "/sales", "/closed", "/nothing", "/sales/budget"):
        yield f"GET {name}", seen(client.get(f"/api/datasets{name}"))
    for question, given in [*allowed, *REFUSED]:
        body = json.dumps(given)
        for door in (f"{where}/{question}/explain", f"{where}/{question}"):
            response = client.post(door, content=body, headers={"Content-Type": "application/json"})
            yield f"{door} {body[:200]}", seen(response)
            yield f"budget after {door} {body[:200]}", seen(client.get(f"{where}/budget"))
    releases = client.get(f"{where}/releases").json()
    yield "releases", [{k: v for k, v in one.items() if k != "time"} for one in releases]
    for one in releases:
        yield one["release"], seen(client.get(f"{where}/releases/{one['release']}"))
    named = [one["release"] for one in releases]
    for given in ({"before": named[0], "after": named[1]}, {"before": "x", "after": "y"}, {}):
        yield f"change {given}", seen(client.post(f"{where}/change", json=given))[:2]


def check_equal(
    folder: Path,
    more: list[dict[str, Any]],
    allowed: list[tuple[str, dict[str, Any]]],
    **settings: Any,
) -> None:
    """Law: a table and its neighbour look the same but for released numbers, and no reply has what
    is in no release."""
    told = []
    for rows in (table_of([]), table_of(more)):
        shutil.rmtree(folder / "g", ignore_errors=True)  # the name of a release has the path
        with served(folder / "g", rows, **settings) as (_, client):
            told.append(list(everything(client, allowed)))
    for one, other in zip(*told, strict=True):
        assert one == other
    assert CANARY not in repr(told)
    assert not any(status[0] >= 500 for _, status in told[0] if isinstance(status, tuple))


def test_neighbours_look_the_same(tmp_path: Path) -> None:
    check_equal(tmp_path, HOSTILE["new key"], ALLOWED[:2])


@pytest.mark.evidence
@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
def test_all_neighbours_look_the_same(tmp_path: Path, kind: str, user: bool) -> None:
    check_equal(tmp_path, HOSTILE[kind], ALLOWED, user=user)


@pytest.mark.evidence
def test_arrow_replies_have_one_schema(tmp_path: Path) -> None:
    """Law: types and names of columns do not follow from rows."""
    schemas = []
    for name in ("infinite", "new key", "bad bytes"):
        with served(tmp_path / name, table_of(HOSTILE[name])) as (_, client):
            heads = {"Accept": ARROW}
            sent = [
                client.post(f"/api/datasets/sales/{q}", json=a, headers=heads) for q, a in ALLOWED
            ]
            schemas.append([pa.ipc.open_stream(one.content).read_all().schema for one in sent])
    assert schemas[0] == schemas[1] == schemas[2]


def _fail(error: BaseException) -> Callable[..., Any]:
    def failing(*_: Any, **__: Any) -> Any:
        raise error

    return failing


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"bad value {CANARY}"),
        MemoryError(CANARY),
        SourceError(f"reading failed at {CANARY}"),
        OSError(28, "No space left", CANARY),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failures_after_reading_say_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Law: the answer is one sentence; failures are counted, stay charged, close the data set, and
    are not forgotten by a restart; who asks the same again does not pay again."""
    monkeypatch.setitem(HHH, "count", _fail(error))
    with served(tmp_path / "g", table_of([])) as (gate, client):
        sent = [
            client.post("/api/datasets/sales/hhh", json={"hierarchy": "country", "epsilon": e})
            for e in (1, 1, 2)
        ]
        assert [one.status_code for one in sent] == [503, 503, 423]
        assert CANARY not in "".join(one.text + str(one.headers) for one in sent)
        assert sent[0].text == sent[1].text
        assert client.get("/api/datasets/sales/budget").json()[0]["spent"] == 1.0
        assert client.get("/api/datasets/sales/releases").json() == []
        assert CANARY not in json.dumps([*gate.log])
    gate = Gate(read_policy(tmp_path / "g" / "policy.toml"))
    ann, ben = gate.policy.analysts["ann"], gate.policy.analysts["ben"]
    with pytest.raises(ClosedError):
        gate.ask(ann, "sales", "hhh", {"hierarchy": "country"})
    with pytest.raises(FailedError):
        gate.ask(ben, "sales", "hhh", {"hierarchy": "country"})
    gate.reopen(ben, "sales", "ann")
    with pytest.raises(FailedError):
        gate.ask(ann, "sales", "hhh", {"hierarchy": "country"})
    gate.close()


def test_failures_that_cannot_be_noted_close_the_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: a full disk gives nobody more failures, and the sentence stays the same."""
    gate = opened(tmp_path / "g")
    ann = gate.policy.analysts["ann"]
    monkeypatch.setattr(gate._memory, "_write", _fail(OSError(28, "No space left on device")))
    gate._tables["sales"] = None  # as of a large file
    monkeypatch.setattr(type(gate.policy.data["sales"]), "rows", _fail(ValueError(CANARY)))
    with pytest.raises(FailedError):
        gate.ask(ann, "sales", "hhh", {"hierarchy": "country"})
    with pytest.raises(ClosedError):
        gate.ask(ann, "sales", "hhh", {"hierarchy": "country"})
    gate.close()


def test_a_source_that_is_gone_closes_the_data_set(tmp_path: Path) -> None:
    """Law: rows that changed or went are not read, and their path is not told."""
    gate = opened(tmp_path / "g")
    (tmp_path / "g" / "sales.parquet").unlink()
    with pytest.raises(ClosedError) as told:
        gate.ask(gate.policy.analysts["ann"], "sales", "hhh", {"hierarchy": "country"})
    assert str(tmp_path) not in str(told.value)
    gate.close()


def test_budgets_tell_nothing_of_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: a question is charged before rows are read, so that no budget says when they were, and
    its release is seen by nobody before its answer is due."""
    gate = opened(tmp_path / "g", floor=0.3)
    ann, ben = gate.policy.analysts["ann"], gate.policy.analysts["ben"]
    steps: list[tuple[str, Any, Any]] = []

    def note(what: str) -> None:
        steps.append(
            (what, gate.budget(ben, "sales")[0]["spent"], len(gate.releases(ben, "sales")))
        )

    keep, counted = Ledger.keep, HHH["count"]

    def kept(*given: Any) -> None:
        keep(*given)
        note("kept")

    def count(*given: Any) -> Any:
        note("counted")
        return counted(*given)

    monkeypatch.setitem(HHH, "count", count)
    monkeypatch.setattr(Ledger, "keep", kept)
    gate.ask(ann, "sales", "hhh", {"hierarchy": "country", "epsilon": 1})
    note("answered")
    assert steps == [("counted", 1.0, 0), ("kept", 1.0, 0), ("answered", 1.0, 1)]
    gate.close()


def test_other_totals_of_a_public_table_are_another_question(tmp_path: Path) -> None:
    """Law: the name of a release holds all that its rows follow from, public tables, too."""
    query = (
        "SELECT region, count(*) FROM sales JOIN regions ON sales.country = regions.k "
        "GROUP BY region"
    )
    names = []
    for region in ("south", "west"):
        write(tmp_path / "g")
        table = pd.DataFrame({"k": ["c0", "c1"], "region": ["north", region]})
        table.to_parquet(tmp_path / "g" / "regions.parquet")
        gate = Gate(read_policy(tmp_path / "g" / "policy.toml"))
        with suppress(OverBudgetError):
            read = gate.read(gate.policy.analysts["ann"], "sales", "sql", {"query": query})
            names.append(read.name)
        gate.close()
        (tmp_path / "g" / "policy.ledgers" / "gateway.json").unlink()
    assert len({*names}) == 2


def test_endings_of_queries_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: what runs on released rows ends, however much the query asks of it."""
    monkeypatch.setattr("dpframe.doors.gateway.policy_questions.ENDING", 0.3)
    gate = opened(tmp_path / "g")
    often = ", ".join(f"r AS r{i}" for i in range(30))
    query = (
        "WITH r AS (SELECT country, city, count(*) AS n FROM sales GROUP BY country, city) "
        f"SELECT count(*) AS n FROM {often}"
    )
    with pytest.raises(DpframeError, match="interrupted"):
        gate.ask(gate.policy.analysts["ann"], "sales", "sql", {"query": query})
    gate.close()
