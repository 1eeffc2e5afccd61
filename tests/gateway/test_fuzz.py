"""The API from outside: whatever is sent, no defect, and nothing of rows or of the process."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import dpframe as dp
from dpframe.doors.gateway.gate import Gate
from dpframe.doors.gateway.http import BODY, Door
from dpframe.doors.gateway.policy_questions import NAMED, SQL_ARGUMENTS
from dpframe.doors.gateway.policy_reader import read_policy
from dpframe.errors import LedgerError, ParameterError, SourceError
from tests.gateway.attacked import CANARY, TOKENS, Process, asked, opened, sold, write

WORDS = ("Traceback", 'File "', "/dev/shm", "/tmp/", "site-packages", "sales.parquet", CANARY)
"""What no reply has: rows, paths, and the inside of the process."""

TEXTS = st.sampled_from(
    [
        *("country", "city", "amount", "day", "person", "secret", "country,city", "a" * 5000),
        *("columns:country,city", "number:amount?lower=0&upper=64", "ip:country", "date:day"),
        *("count", "sum(amount)", "median(amount)", "distinct(city)", "sum(secret)", "count(x)"),
        *("offline", "laplace", "gaussian", "streaming", "rounds", "paper", "hhh", "additive"),
        *("domain", "share", "records", "items", "2026-W02", "2026-01..2026-03", "NULL", "\0"),
        *(
            "/etc/passwd",
            "../policy.toml",
            "other.parquet",
            "*",
            "' OR 1=1 --",
            "\ud800",
            "𝔘\u202e",
        ),
    ]
)

NUMBERS = st.sampled_from([0, 1, 2, 3, 0.5, 1.0, -1, 1e-9, 1e308, 10**30, 2**63, 0.95, 500, 5000])

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda one: st.lists(one, max_size=4) | st.dictionaries(TEXTS, one, max_size=3),
    max_leaves=6,
)

QUERY_PARTS = st.sampled_from(
    [
        *(
            "SELECT",
            "FROM",
            "WHERE",
            "GROUP BY",
            "ROLLUP (",
            "CUBE (",
            ")",
            "(",
            ",",
            "*",
            "count(*)",
        ),
        *(
            "sum(amount)",
            "avg(amount)",
            "country",
            "city",
            "sales",
            "regions",
            "JOIN",
            "ON",
            "LEFT",
        ),
        *("sales.country = regions.k", "region", "amount > 3", "HAVING", "ORDER BY 1", "LIMIT 2"),
        *("person", "secret", "closed", "WITH r AS (", "UNION", "DISTINCT", "OVER ()", "max(city)"),
        *(
            "read_text('/etc/passwd')",
            "getenv('HOME')",
            "current_setting('threads')",
            "error(city)",
        ),
        *("CAST(city AS INT)", "1/0", "'", '"', "--", "/*", ";", "DROP TABLE sales", "CASE WHEN"),
        *("THEN 1 ELSE 0 END", "OPTIONS(epsilon = 9)", "WITH DIFFERENTIAL_PRIVACY", "PRAGMA x"),
    ]
)

QUERIES = st.one_of(
    st.lists(QUERY_PARTS, max_size=14).map(" ".join),
    st.tuples(QUERY_PARTS, QUERY_PARTS, QUERY_PARTS).map(
        lambda p: f"SELECT country, {p[0]} FROM sales WHERE {p[1]} GROUP BY country {p[2]}"
    ),
)


USUAL: dict[str, st.SearchStrategy[Any]] = {
    "epsilon": st.sampled_from([0.05, 0.5, 1, 4.0]),
    "delta": st.sampled_from([1e-7, 1e-9]),
    "threshold": st.integers(300, 3000),
    "confidence": st.sampled_from([0.5, 0.9, 0.999]),
    "mechanism": st.sampled_from(["offline", "laplace", "gaussian", "streaming", "additive"]),
    "measures": st.sampled_from(["count", ["count", "sum(amount)"], {"x": "median(amount)"}]),
    "period": st.sampled_from(["2026-W02", "2026-01..2026-03"]),
    "keys": st.just(["c0", "c1"]),
    "weight": st.just("amount"),
    "k": st.integers(1, 20),
    "error": st.sampled_from([5, 50.0, {"count": 9}]),
    "totals": st.booleans(),
    "remainder": st.booleans(),
}
"""Values that some questions take."""


def arguments_of_questions() -> st.SearchStrategy[tuple[str, Any]]:
    """A question, known or not, with arguments that it has or has not."""
    out: list[st.SearchStrategy[tuple[str, Any]]] = []
    for name in ("hhh", "rollup", "tree_counts", "heavy_hitters"):
        known = [*NAMED[name].plan_arguments, "user", "ledger", "error", "derive"]
        given_some = st.dictionaries(st.sampled_from(known), VALUES, max_size=4)
        first = known[0]
        usual = st.fixed_dictionaries(
            {first: st.sampled_from(["country", "columns:country,city"])},
            optional={key: one for key, one in USUAL.items() if key in known},
        )
        mixed = st.tuples(usual, given_some).map(lambda two: {**two[0], **two[1]})
        out.append(st.tuples(st.just(name), usual | mixed | given_some))
    beside = st.dictionaries(st.sampled_from([*SQL_ARGUMENTS, "x"]), VALUES, max_size=2)
    queries = st.tuples(QUERIES, beside).map(lambda p: {**p[1], "query": p[0]})
    out.append(st.tuples(st.just("sql"), queries))
    out.append(st.tuples(st.sampled_from(["change", "reopen", "budget", "x", "..", "%00"]), VALUES))
    return st.one_of(out)


REQUESTS = st.tuples(
    arguments_of_questions(),
    st.booleans(),
    st.sampled_from(["sales"] * 12 + ["closed", "nothing", "%ff", "a" * 300]),
    st.sampled_from(["ann"] * 6 + ["ben"] * 6 + ["cat", ""]),
)


def check_reply(response: Any) -> None:
    """Laws: no defect, nothing of the rows, of the machine or of the inside, and JSON."""
    assert response.status_code < 500, response.text
    seen = response.text + str(response.headers)
    assert not [word for word in WORDS if word in seen], seen[:2000]
    if response.status_code != 204 and response.text:
        json.loads(response.text, parse_constant=lambda text: pytest.fail(text))


def send(client: Any, request: Any) -> Any:
    (question, given_some), explains, data, who = request
    head = {"Content-Type": "application/json"}
    if who:
        head["Authorization"] = f"Bearer {TOKENS[who]}"
    where = f"/api/datasets/{data}/{question}" + "/explain" * explains
    return client.post(where, content=json.dumps(given_some).encode(), headers=head)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of a gateway in this process, whose rows have a canary in every text."""
    rows = sold(800)
    rows.loc[5, ["country", "city"]] = CANARY
    gate = opened(tmp_path_factory.mktemp("fuzz"), rows, total=1e5, more="rate = 1000000")
    with TestClient(Door(gate).app(), raise_server_exceptions=False) as found:
        yield found
    gate.close()


ROUNDS = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@given(request=REQUESTS)
@settings(ROUNDS, max_examples=50)
def test_requests_of_all_kinds(client: TestClient, request: Any) -> None:
    check_reply(send(client, request))


@pytest.mark.evidence
@given(request=REQUESTS)
@settings(ROUNDS, max_examples=20_000)
def test_twenty_thousand_requests(client: TestClient, request: Any) -> None:
    check_reply(send(client, request))


@pytest.mark.evidence
def test_the_schema_of_the_gateway(client: TestClient) -> None:
    """Requests that schemathesis makes of the API's own description."""
    schemathesis = pytest.importorskip("schemathesis")
    if client.get("/openapi.json").status_code == 404:
        pytest.skip("there is no description yet")
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(ROUNDS, max_examples=1200)
        def check(case: Any) -> None:
            kwargs = case.as_transport_kwargs(base_url="http://testserver")
            kwargs["headers"] = {**kwargs["headers"], "Authorization": f"Bearer {TOKENS['ann']}"}
            kwargs.pop("cookies", None)
            check_reply(client.request(**kwargs))

        check()


HOSTILE = [
    (b"{", 400),
    (b"[]", 400),
    (b"\xff\xfe{}", 400),
    (b'{"epsilon": NaN}', 400),
    (b'{"epsilon": -Infinity}', 400),
    (b'{"epsilon": 1e999, "hierarchy": "country"}', 422),
    (b'{"epsilon": 1, "epsilon": 2}', 400),
    (b'{"a": {"b": 1, "b": 2}}', 400),
    (b"[" * 60_000, 400),
    (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, 400),
    (b'{"epsilon": ' + b"9" * 5_000 + b"}", 400),
    (b'{"hierarchy": "country", "epsilon": ' + b"9" * 4_000 + b"}", 422),
    (b'{"hierarchy": "\\ud800"}', 422),
    (b'"' + b"x" * BODY + b'"', 413),
    (b"x" * (10 * 2**20), 413),
]


@pytest.mark.parametrize(("body", "status"), HOSTILE, ids=range(len(HOSTILE)))
def test_bodies(client: TestClient, body: bytes, status: int) -> None:
    head = {"Authorization": f"Bearer {TOKENS['ann']}", "Content-Type": "application/json"}
    response = client.post("/api/datasets/sales/hhh", content=body, headers=head)
    assert response.status_code == status, response.text[:300]
    check_reply(response)


def test_methods_types_and_tokens(client: TestClient) -> None:
    ann = {"Authorization": f"Bearer {TOKENS['ann']}"}
    where = "/api/datasets/sales/hhh"
    for method in ("GET", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS"):
        response = client.request(method, where, headers=ann)
        assert response.status_code in (404, 405)
        check_reply(response)
    # pages of others can send the other types, and none, with what a browser knows of a proxy
    for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x", ""):
        response = client.post(where, content=b"{}", headers={**ann, "Content-Type": kind})
        assert response.status_code == 415
    wrong = [
        "",
        "Bearer",
        "Bearer x",
        "Basic dpf_ann",
        "Bearer dpf_ann x",
        "Bearer dpf_ANN",
        "Bearer é",
    ]
    bodies = set()
    for token in wrong:
        heads = {"Authorization": token.encode("latin-1")}
        response = client.post(where, content=b"{}", headers=heads)
        assert response.status_code == 401
        bodies.add(response.text)
    assert len(bodies) == 1
    unknown = [client.get(f"/api/datasets/{name}", headers=ann) for name in ("closed", "other")]
    assert [one.status_code for one in unknown] == [404, 404]
    assert unknown[0].text.replace("closed", "other") == unknown[1].text


def test_a_removed_analyst_is_nobody(tmp_path: Path) -> None:
    path = write(tmp_path / "g")
    kept = path.read_text()
    path.write_text(
        kept.replace(kept[kept.index("[analyst.ann]") : kept.index("[analyst.ben]")], "")
    )
    gate = Gate(read_policy(path))
    with TestClient(Door(gate).app()) as here:
        found = here.get("/api/datasets", headers={"Authorization": f"Bearer {TOKENS['ann']}"})
    assert found.status_code == 401
    gate.close()


def test_forged_and_replayed_receipts_do_not_verify(tmp_path: Path) -> None:
    """Law: rows or numbers of a receipt that were changed, or of another release, are found."""
    gate = opened(tmp_path / "g")
    ann = gate.policy.analysts["ann"]
    one, other = (
        dp.asking.release.replay_of_stored(
            gate._ledgers["sales"].find(
                gate.ask(ann, "sales", "hhh", {"hierarchy": "country", "epsilon": e}).name
            )
        ).to_frame()
        for e in (1, 2)
    )
    assert dp.verify(one).code == 0
    forged = one.copy()
    forged["count"] += 1
    forged.attrs = one.attrs
    assert dp.verify(forged).code != 0
    swapped = one.copy()
    swapped.attrs = other.attrs
    assert dp.verify(swapped).code != 0
    cheaper = one.copy()
    cheaper.attrs = {**one.attrs, "dp": {**one.attrs["dp"], "epsilon": 0.1}}
    assert dp.verify(cheaper).code != 0
    gate.close()


# -- what changes under a gateway ------------------------------------------------------------------


def test_rows_that_change_are_not_read(tmp_path: Path) -> None:
    """Law: answers that are stored stay; nothing is drawn of other rows under the state's name."""
    folder = tmp_path / "g"
    gate = opened(folder)
    ann = gate.policy.analysts["ann"]
    first = gate.ask(ann, "sales", "hhh", {"hierarchy": "country"})
    sold(100).to_parquet(folder / "sales.parquet")
    assert gate.ask(ann, "sales", "hhh", {"hierarchy": "country"}).table.equals(first.table)
    with pytest.raises(SourceError, match="changed"):
        gate.ask(ann, "sales", "hhh", {"hierarchy": "city"})
    gate.close()
    with pytest.raises(SourceError, match="state"):
        Gate(read_policy(folder / "policy.toml"))


def test_a_ledger_that_is_replaced_is_refused(tmp_path: Path) -> None:
    """Law: no other ledger takes the place of one that has spent, while it runs or afterwards."""
    folder = tmp_path / "g"
    gate = opened(folder)
    ann = gate.policy.analysts["ann"]
    gate.ask(ann, "sales", "hhh", {"hierarchy": "country"})
    file = folder / "policy.ledgers" / "sales.db"
    file.unlink()
    dp.Ledger(file, epsilon=1000.0, delta=1e-4, protects="records")
    file.chmod(0o600)
    with pytest.raises(LedgerError):
        gate.ask(ann, "sales", "hhh", {"hierarchy": "city"})
    gate.close()
    for _ in range(2):
        with pytest.raises(LedgerError, match="is not the ledger"):
            Gate(read_policy(folder / "policy.toml"))
        file.unlink()


def test_folders_and_files_of_others_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "g"
    gate = opened(folder)
    with pytest.raises(LedgerError, match="held"):
        Gate(read_policy(folder / "policy.toml"))
    gate.close()
    ledgers = folder / "policy.ledgers"
    for path, mode in (
        (ledgers, 0o750),
        (ledgers / "sales.db", 0o644),
        (ledgers / "gateway.json", 0o604),
    ):
        right = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(LedgerError, match="can be read by others"):
            Gate(read_policy(folder / "policy.toml"))
        path.chmod(right)
    (ledgers / "gateway.json").write_text("{")
    with pytest.raises(LedgerError, match="damaged"):
        Gate(read_policy(folder / "policy.toml"))


def test_a_full_disk_shows_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """Law: where nothing can be written, nothing is drawn; afterwards all goes on."""
    gate = opened(tmp_path / "g")
    ann = gate.policy.analysts["ann"]
    first = gate.ask(ann, "sales", "hhh", {"hierarchy": "country"})
    spent = gate.budget(ann, "sales")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(LedgerError) as told:
            gate.ask(ann, "sales", "hhh", {"hierarchy": "city"})
        assert str(tmp_path) not in str(told.value)
        assert gate.ask(ann, "sales", "hhh", {"hierarchy": "country"}).table.equals(first.table)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert gate.budget(ann, "sales") == spent
    assert gate.ask(ann, "sales", "hhh", {"hierarchy": "city"}).free is None
    gate.close()


def test_a_narrower_policy_holds_for_stored_answers(tmp_path: Path) -> None:
    """Law: what the policy no longer allows is neither replayed nor recalled."""
    folder = tmp_path / "g"
    gate = opened(folder)
    ann = gate.policy.analysts["ann"]
    cities = gate.ask(ann, "sales", "hhh", {"hierarchy": "columns:country,city", "epsilon": 2})
    gate.close()
    text = (folder / "policy.toml").read_text()
    for old, new in (('"columns:country,city", ', ""), ("largest = 4.0", "largest = 1.5")):
        (folder / "policy.toml").write_text(text.replace(old, new))
        gate = Gate(read_policy(folder / "policy.toml"))
        ann = gate.policy.analysts["ann"]
        with pytest.raises(dp.DpframeError):
            gate.ask(ann, "sales", "hhh", {"hierarchy": "columns:country,city", "epsilon": 2})
        with pytest.raises(dp.DpframeError):
            gate.release(ann, "sales", cities.name)
        gate.close()


# -- what takes long -------------------------------------------------------------------------------


def test_plans_that_take_long_are_refused(tmp_path: Path) -> None:
    gate = opened(tmp_path / "g", user=True)
    ann = gate.policy.analysts["ann"]
    began = time.process_time()
    for question, given_some in (
        ("hhh", {"hierarchy": "country", "epsilon": 0.0001}),
        ("rollup", {"by": "country", "measures": "sum(amount)", "epsilon": 0.001}),
        ("rollup", {"by": "country", "measures": ["count", "sum(amount)"], "epsilon": 0.015}),
        ("rollup", {"by": "country", "measures": {f"m{i}": "sum(amount)" for i in range(300)}}),
    ):
        with pytest.raises(dp.DpframeError, match=r"at least|at most"):
            gate.explain(ann, "sales", question, given_some)
    assert time.process_time() - began < 10
    gate.close()


def test_a_search_that_takes_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = opened(tmp_path / "g")
    monkeypatch.setattr("dpframe.doors.gateway.policy_questions.SEARCH", 0.0)
    with pytest.raises(ParameterError, match="Name an epsilon"):
        gate.explain(
            gate.policy.analysts["ann"],
            "sales",
            "tree_counts",
            {"hierarchy": "country", "error": 9},
        )
    gate.close()


def test_no_door_names_the_file_of_a_ledger_that_is_gone(tmp_path: Path) -> None:
    gate = opened(tmp_path / "g")
    (tmp_path / "g" / "policy.ledgers" / "sales.db").unlink()
    head = {"Authorization": f"Bearer {TOKENS['ann']}", "Content-Type": "application/json"}
    where = "/api/datasets/sales"
    with TestClient(Door(gate).app(), headers=head, raise_server_exceptions=False) as here:
        for path in ("", "/budget", "/releases", "/releases/sales-1"):
            response = here.get(where + path)
            assert (response.status_code, "/" in response.json()["detail"]) == (503, False)
        assert here.get("/api/datasets").status_code == 503
        for path in ("/hhh", "/hhh/explain"):
            response = here.post(where + path, json={"hierarchy": "country"})
            assert (response.status_code, "/" in response.json()["detail"]) == (503, False)
    gate.close()


def test_plans_of_one_analyst_are_made_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: however much somebody asks at once, others find the interpreter."""
    now: list[int] = [0]
    most: list[int] = []
    gate = opened(tmp_path / "g")

    def slow(*_: Any) -> None:
        now[0] += 1
        most.append(now[0])
        time.sleep(0.02)
        now[0] -= 1
        raise ParameterError("no")

    monkeypatch.setattr("dpframe.doors.gateway.gate.read_sql", slow)

    def read(number: int) -> None:
        with suppress(ParameterError):
            gate.explain(gate.policy.analysts["ann"], "sales", "sql", {"query": str(number)})

    threads = [threading.Thread(target=read, args=(i,)) for i in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == [1] * 6
    gate.close()


@pytest.mark.evidence
def test_slow_and_many_clients(tmp_path: Path) -> None:
    """Law: whoever sends a head or a body slowly is hung up on, and keeps nobody out; one analyst
    takes not all threads."""
    server = Process(write(tmp_path / "g", more="rate = 1000000"), head=1.0, waiting=1.0)
    head = "POST /api/datasets/sales/hhh HTTP/1.1\r\nHost: x\r\n"
    head += f"Authorization: Bearer {TOKENS['ann']}\r\n"
    began = [
        b"POST /api/da",
        head.encode(),
        f"{head}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{".encode(),
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal",
    ]
    open_ones = []
    for part in began * 5:
        one = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        one.sendall(part)
        open_ones.append(one)
    for one in open_ones:
        received = b""
        while chunk := one.recv(65536):
            received += chunk
        assert CANARY.encode() not in received
        one.close()
    with server.client() as here:
        assert asked(here, "hhh", hierarchy="country").status_code == 200
        pipelined = f"{head}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}" * 3
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as one:
            one.sendall(pipelined.encode())
            received = b""
            while received.count(b"HTTP/1.1 422") < 3:
                received += one.recv(65536)
        huge = {"X-Huge": "x" * 200_000}
        with suppress(httpx.HTTPError):
            assert here.get("/healthz", headers=huge).status_code in (400, 431)
        assert here.get("/healthz").status_code == 200
    server.stop()
    assert "Traceback" not in server.log.read_text()


def test_one_analyst_takes_not_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: requests above the limit of one analyst are refused, and others are answered."""
    gate, go = opened(tmp_path / "g"), threading.Event()
    monkeypatch.setattr("dpframe.doors.gateway.http.AT_ONCE", 2)
    monkeypatch.setattr(gate, "budget", lambda *_: go.wait(30) and [])
    with TestClient(Door(gate).app()) as here:
        statuses: list[int] = []

        def get(who: str) -> None:
            head = {"Authorization": f"Bearer {TOKENS[who]}"}
            where = "/api/datasets/sales/" + ("budget" if who == "ann" else "releases")
            statuses.append(here.get(where, headers=head).status_code)

        threads = [threading.Thread(target=get, args=("ann",)) for _ in range(5)]
        for one in threads:
            one.start()
        while statuses.count(429) < 3:
            time.sleep(0.01)
        get("ben")
        assert statuses[-1] == 200
        go.set()
        for one in threads:
            one.join()
    assert sorted(statuses) == [200, 200, 200, 429, 429, 429]
    gate.close()


@pytest.mark.evidence
def test_ports_and_folders_are_taken_once(tmp_path: Path) -> None:
    """Law: a second gateway on the same folder or port says so, and changes nothing."""
    server = Process(write(tmp_path / "g"))
    assert server.run_again() != 0
    assert "is taken" in server.log.read_text()
    text = server.policy.read_text()
    other = tmp_path / "g" / "policy2.toml"
    other.write_text(
        text.replace(str(server.port), "0").replace(
            "[gateway]\n", '[gateway]\nfolder = "policy.ledgers"\n'
        )
    )
    assert server.run_again(other) != 0
    assert "held by another gateway" in server.log.read_text()
    with server.client() as here:
        assert asked(here, "hhh", hierarchy="country").status_code == 200
    server.stop()
