"""What a gateway answers in a second, under load, and what it adds to the library.

Run with ``python -m tests.benchmarks.gateway FOLDER [--releases 10000] [--seconds 20]``; it needs
``wrk`` (Debian's package). A real ``dpframe serve`` answers over loopback, from a ledger of so many
releases:

* replays of one question, by 8 clients;
* new small questions (``hhh`` of 10,000 rows in two columns, each with a threshold of its own);
* one client: milliseconds of a question, new and replayed, and those of processors;
* the memory of the server before and after 10,000 replays and the new questions;
* a rollup of 1e7 rows beside ``dp.rollup`` with a ledger, in turns, each a new release;
* what a call costs more through PostgreSQL than over HTTP, once connected, where PostgreSQL is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import dpframe as dp
from dpframe.doors.gateway.gate import Gate
from dpframe.doors.gateway.policy import hash_token
from dpframe.doors.gateway.policy_reader import read_policy
from tests.benchmarks import bench
from tests.benchmarks.ledger import add_copies

TOKEN = "dpf_benchmark"
WAREHOUSE = "dpf_warehouse"
ADDRESS = "127.0.0.1:8733"

POLICY = """
[gateway]
address = "{address}"
floor = {floor}
rate = 1000000

[data.visits]
source = "visits.parquet"
levels = ["columns:a,b"]
epsilon = 1e5
delta = 0.5
largest = 1.0

[data.rows]
source = "rows.parquet"
levels = ["columns:a,b,c"]
bounds = {{ x = [0, 100] }}
epsilon = 1e5
delta = 0.5
largest = 1.0

[analyst.ann]
token = "{token}"
shares = {{ visits = 1e5, rows = 1e5 }}

[analyst.warehouse]
token = "{warehouse}"
speaks_for = ["ann"]
"""

QUESTION = {"hierarchy": "columns:a,b", "epsilon": 0.1, "delta": 1e-6, "threshold": 500}

LUA = """
local n = {start}
request = function()
  if {new} then n = n + 1 end
  local body = string.format(
    '{{"hierarchy": "columns:a,b", "epsilon": 0.1, "delta": 1e-6, "threshold": %d}}', n)
  return wrk.format("POST", "/api/datasets/visits/hhh", {{
    ["Authorization"] = "Bearer {token}", ["Content-Type"] = "application/json",
    ["Accept"] = "{accept}"}}, body)
end
"""


def fill(folder: Path, releases: int) -> None:
    """Append copies of one real release to the ledger, each under a name of its own."""
    policy = read_policy(folder / "policy.toml")
    gate = Gate(policy)
    reply = gate.ask(policy.analysts["ann"], "visits", "hhh", QUESTION)
    add_copies(gate._ledgers["visits"], reply.name, releases)
    gate.close()


def serve(folder: Path) -> subprocess.Popen[bytes]:
    """A server that answers."""
    command = [sys.executable, "-m", "dpframe", "serve", str(folder / "policy.toml")]
    log = (folder / "log.txt").open("wb")
    process = subprocess.Popen(command, cwd=bench.ROOT, stdout=log, stderr=log)
    for _ in range(200):
        try:
            urllib.request.urlopen(f"http://{ADDRESS}/healthz", timeout=1)
            return process
        except OSError:
            time.sleep(0.1)
    raise SystemExit((folder / "log.txt").read_text())


def resident(process: subprocess.Popen[bytes]) -> float:
    """Memory of a process, in MB."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    assert found is not None
    return int(found[1]) / 1024


def busy(process: subprocess.Popen[bytes]) -> float:
    """Seconds of processors that a process took."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def one_client(process: subprocess.Popen[bytes], questions: int) -> None:
    """Milliseconds of a question, and those of processors in the server, where nobody else asks."""
    head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    http = HTTPConnection(*ADDRESS.split(":"))
    asked: dict[str, dict[str, Any]] = {
        "hhh": {"hierarchy": "columns:a,b"},
        "rollup": {"by": ["a", "b"], "measures": {"n": "count"}},
    }
    for question, about in asked.items():
        for name, step in (("new", 1), ("replayed", 0)):
            taken, threshold = [], 2_000
            for i in range(questions + 1):
                threshold += step
                body = {**about, "epsilon": 0.1, "delta": 1e-6, "threshold": threshold}
                start = time.perf_counter()
                http.request("POST", f"/api/datasets/visits/{question}", json.dumps(body), head)
                answer = http.getresponse()
                answer.read()
                assert answer.status == 200
                taken.append(1000 * (time.perf_counter() - start))
                if not i:
                    before = busy(process)
            each = 1000 * (busy(process) - before) / questions
            bench.row(f"{question}, {name}, ms", median_text(taken[1:]), f"{each:.1f}")


def load(folder: Path, name: str, *, new: bool, start: int, seconds: int) -> None:
    """Let 8 clients ask for some seconds, and print what wrk says."""
    script = folder / "load.lua"
    accept = "application/vnd.apache.arrow.stream"
    script.write_text(
        LUA.format(start=start, new=str(new).lower(), token=TOKEN, accept=accept), "utf-8"
    )
    command = ["wrk", "-t", "1", "-c", "8", "-d", f"{seconds}s", "--latency", "--timeout", "30s"]
    done = subprocess.run(
        [*command, "-s", str(script), f"http://{ADDRESS}"],
        capture_output=True,
        text=True,
        check=True,
    )
    told = {
        key: (found := re.search(pattern, done.stdout)) and found[1]
        for key, pattern in {
            "requests": r"(\d+) requests in",
            "each second": r"Requests/sec:\s+([\d.]+)",
            "p50": r"\n +50% +(\S+)",
            "p99": r"\n +99% +(\S+)",
            "not answered": r"Non-2xx or 3xx responses: (\d+)",
        }.items()
    }
    bench.row(name, *(str(told[key] or 0) for key in told))


def beside_library(folder: Path, turns: int) -> None:
    """Seconds of a rollup of 1e7 rows, by the library with a ledger and by the gateway."""
    ledger = dp.Ledger(folder / "library.db", epsilon=1e5, delta=0.5)
    rows = dp.connect(f"http://{ADDRESS}", token=TOKEN)["rows"]
    asked: dict[str, Any] = {"by": ["a", "b", "c"], "epsilon": 0.5}
    measures = ["count", "sum(x, 0, 100)"]
    taken: dict[str, list[float]] = {"library": [], "gateway": []}
    for turn in range(turns + 1):
        threshold = 500 + turn
        start = time.perf_counter()
        dp.rollup(
            str(folder / "rows.parquet"),
            measures=measures,
            threshold=threshold,
            delta=2.5e-6,
            ledger=ledger,
            release=f"turn-{turn}",
            **asked,
        )
        middle = time.perf_counter()
        rows.rollup(measures=["count", "sum(x)"], threshold=threshold, delta=2.5e-6, **asked)
        if turn:
            taken["library"].append(middle - start)
            taken["gateway"].append(time.perf_counter() - middle)
    for name, each in taken.items():
        bench.row(f"1e7 rows, {name}", bench.spread(each, 3))
    added = [b - a for a, b in zip(taken["library"], taken["gateway"], strict=True)]
    bench.row("added, s", f"{statistics.median(added):.3f}")


def through_postgres(turns: int) -> None:
    """Milliseconds of the same replays over HTTP, read as JSON, and through PostgreSQL."""
    import psycopg

    from dpframe.doors import postgres
    from tests.engines import postgres as database

    with database() as engine:
        about = engine.connection.info
        address = f"postgresql:///{about.dbname}?host={about.host}&user="
        postgres.install(f"{address}tester", f"http://{ADDRESS}", WAREHOUSE)
        engine.connection.execute("CREATE ROLE ann LOGIN")
        engine.connection.execute("GRANT dpframe_analyst TO ann")
        with psycopg.connect(f"{address}ann", autocommit=True) as db:
            http = HTTPConnection(*ADDRESS.split(":"))
            for data, by in (("visits", "columns:a,b"), ("rows", "columns:a,b,c")):
                beside_http(db, http, data, by, turns)


def beside_http(db: Any, http: HTTPConnection, data: str, by: str, turns: int) -> None:
    """Time one question, through both doors in turns."""
    asked = {"hierarchy": by, "epsilon": 0.5, "delta": 1e-6}
    head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    call = "SELECT * FROM dpframe.dp_hhh(%s, %s, epsilon := 0.5, delta := 1e-6)"
    taken: list[tuple[float, float]] = []
    for _ in range(turns + 1):
        start = time.perf_counter()
        http.request("POST", f"/api/datasets/{data}/hhh", json.dumps(asked), head)
        rows = len(json.loads(http.getresponse().read())["rows"])
        middle = time.perf_counter()
        assert len(db.execute(call, (data, by)).fetchall()) == rows
        taken.append((1000 * (middle - start), 1000 * (time.perf_counter() - middle)))
    first, second = ([one[i] for one in taken[1:]] for i in (0, 1))
    added = statistics.median(b - a for a, b in taken[1:])
    bench.row(
        f"{rows} rows: HTTP, PostgreSQL, added, ms",
        *map(median_text, (first, second)),
        f"{added:.1f}",
    )


def median_text(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}"


def main() -> None:
    sizes = {"releases": 10_000, "seconds": 20, "turns": 5, "rows": 10_000_000, "questions": 100}
    given = bench.options(folder=Path, **sizes, only=("small", "load"))
    folder: Path = given.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    few = "SELECT i % 20 AS a, hash(i) % 10 AS b FROM range(10000) t(i)"
    bench.write_rows(few, folder / "visits.parquet")
    many = (
        f"SELECT hash(i) % 20 AS a, hash(i, 1) % 20 AS b, hash(i, 2) % 20 AS c, "
        f"(hash(i, 3) % 100)::DOUBLE AS x FROM range({given.rows}) t(i)"
    )
    bench.write_rows(many, folder / "rows.parquet")
    hashes = {"token": hash_token(TOKEN), "warehouse": hash_token(WAREHOUSE)}
    text = POLICY.format(address=ADDRESS, floor=0.01, **hashes)
    (folder / "policy.toml").write_text(text, "utf-8")
    fill(folder, given.releases)
    process = serve(folder)
    try:
        bench.head("load", "requests", "each second", "p50", "p99", "not answered")
        one_client(process, given.questions)
        if given.only == "small":
            return
        load(folder, "replays, once before", new=False, start=500, seconds=2)
        before = resident(process)
        load(folder, "replays", new=False, start=500, seconds=given.seconds)
        load(folder, "new questions", new=True, start=10_000, seconds=given.seconds)
        after = resident(process)
        load(folder, "replays", new=False, start=500, seconds=given.seconds)
        bench.row("memory, MB", f"{before:.0f}", f"{after:.0f}", f"{resident(process):.0f}")
        if given.only == "load":
            return
        beside_library(folder, given.turns)
        through_postgres(40 * given.turns)
    finally:
        process.terminate()
        process.wait(60)


if __name__ == "__main__":
    main()
