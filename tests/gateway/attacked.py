"""Gates and processes of a gateway for attacks, over small tables with a canary in every text."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpframe.doors.gateway.gate import Gate
from dpframe.doors.gateway.policy import hash_token
from dpframe.doors.gateway.policy_reader import read_policy

CANARY = "canary7391"
"""A text in every row that no release may show: it is in no column of the policy, and in one value
of each that is."""

TOKENS = {name: f"dpf_{name}" for name in ("ann", "ben", "cat")}

POLICY = """
[gateway]
floor = {floor}
failures = 2
{more}
[data.sales]
source = "sales.parquet"
user = {user}
levels = ["columns:country,city", "country", "number:amount?lower=0&upper=64"]
bounds = {{ amount = [0, 50] }}
filters = ["amount", "day"]
period = "day"
epsilon = {total}
delta = 1e-4
largest = 4.0
default = 1.0
questions = ["hhh", "rollup", "tree_counts", "heavy_hitters", "sql"]

[data.sales.public]
regions = "regions.parquet"

[data.closed]
source = "sales.parquet"
levels = ["country"]
epsilon = 1.0
delta = 1e-6

[analyst.ann]
token = "{ann}"
group = "team"
shares = {{ sales = {share} }}

[analyst.ben]
token = "{ben}"
owner = true
group = "team"

[analyst.cat]
token = "{cat}"
shares = {{ closed = 1.0 }}

[group.team]
shares = {{ sales = {team} }}
"""


def sold(n: int = 2_000) -> pd.DataFrame:
    """Rows whose parts are frequent enough to be shown."""
    pick = np.random.default_rng(3).integers(0, 10**6, n)
    return pd.DataFrame(
        {
            "person": pick % 701,
            "country": pd.Series([f"c{i % 3}" for i in pick], dtype="str"),
            "city": pd.Series([f"t{i % 12}" for i in pick], dtype="str"),
            "amount": pick % 47 + 0.5,
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(pick % 50, "D"),
            "secret": CANARY,
        }
    )


def write(
    folder: Path,
    rows: pd.DataFrame | pa.Table | None = None,
    *,
    user: bool = False,
    floor: float = 0.01,
    total: float = 1000.0,
    share: float | None = None,
    team: float | None = None,
    more: str = "",
) -> Path:
    """A folder with rows, a public table, and a policy over them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = sold() if rows is None else rows
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows)
    pq.write_table(table, folder / "sales.parquet")
    pd.DataFrame({"k": ["c0", "c1"], "region": ["north", "south"]}).to_parquet(
        folder / "regions.parquet"
    )
    text = POLICY.format(
        user='"person"' if user else '""',
        floor=floor,
        total=total,
        share=total if share is None else share,
        team=total if team is None else team,
        more=more,
        **{name: hash_token(token) for name, token in TOKENS.items()},
    )
    text = text.replace('user = ""\n', "")
    (folder / "policy.toml").write_text(text)
    return folder / "policy.toml"


def opened(folder: Path, rows: Any = None, **settings: Any) -> Gate:
    """A gate over a new folder."""
    return Gate(read_policy(write(folder, rows, **settings)))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


ZYGOTE = """
import os, sys, threading
from dpframe.doors.cli.main import main
import uvicorn.protocols.http.h11_impl, uvicorn.lifespan.on, uvicorn.loops.asyncio
import dpframe.doors.gateway.http, dpframe.doors.gateway.policy_reader, dpframe.testing, pandas
http = sys.modules["dpframe.doors.gateway.http"]
http.HEAD, http.WAITING = {head}, {waiting}
for line in sys.stdin:
    if os.fork() == 0:
        os.close(0)
        os._exit(main(["serve", line.strip()]))
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
"""
"""A process with all modules loaded, which forks a gateway for each policy on its input."""


class Process:
    """``dpframe serve`` in a process of its own, over ``write``'s folder. It can start often."""

    def __init__(self, policy: Path, head: float = 10.0, waiting: float = 20.0) -> None:
        self.policy, self.port = policy, free_port()
        text = policy.read_text()
        line = f'address = "127.0.0.1:{self.port}"\n'
        policy.write_text(text.replace("[gateway]\n", "[gateway]\n" + line, 1))
        self.log = policy.parent / "log.txt"
        with self.log.open("ab") as log:
            self.zygote = subprocess.Popen(
                [sys.executable, "-c", ZYGOTE.format(head=head, waiting=waiting)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start a gateway, and wait until it answers."""
        assert self.zygote.stdin is not None
        self.zygote.stdin.write(f"{self.policy}\n".encode())
        self.zygote.stdin.flush()
        for _ in range(3000):
            try:
                httpx.get(f"{self.url}/healthz", timeout=5)
                return
            except httpx.HTTPError:
                assert self.zygote.poll() is None, self.log.read_text()
                time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def run_again(self, policy: Path | None = None) -> int:
        """The exit code of a second gateway beside this one."""
        command = [sys.executable, "-m", "dpframe", "serve", str(policy or self.policy)]
        with self.log.open("ab") as log:
            return subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, timeout=120
            ).returncode

    @property
    def pid(self) -> int:
        """The process of the gateway, which is the only child of the process with the modules."""
        children = Path(f"/proc/{self.zygote.pid}/task/{self.zygote.pid}/children").read_text()
        (pid,) = [int(one) for one in children.split() if _is_alive(int(one))]
        return pid

    def kill(self) -> None:
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        while _is_alive(pid):
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop the gateway as a service manager does, and the process that forked it."""
        pid = self.pid
        os.kill(pid, signal.SIGTERM)
        while _is_alive(pid):
            time.sleep(0.01)
        assert self.zygote.stdin is not None
        self.zygote.stdin.close()
        self.zygote.wait(30)

    def client(self, who: str = "ann") -> httpx.Client:
        head = {"Authorization": f"Bearer {TOKENS[who]}"}
        return httpx.Client(base_url=self.url, headers=head, timeout=60)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def asked(client: httpx.Client, question: str, **arguments: Any) -> httpx.Response:
    return client.post(f"/api/datasets/sales/{question}", json=arguments)


def text_of(response: httpx.Response) -> str:
    """All that a client sees of a response, without what follows from the clock."""
    heads = {k: v for k, v in response.headers.items() if k != "date"}
    return json.dumps([response.status_code, heads, response.text], sort_keys=True)
