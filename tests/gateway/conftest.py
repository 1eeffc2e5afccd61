"""A gateway in a process of its own: two data sets of generated rows, and the flights that ship."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.gateway.policy import hash_token

ANN, BEN, EVE = "dpf_ann", "dpf_ben", "dpf_eve"
"""Tokens: of an analyst, of an owner, and of an analyst who has little left."""

FLIGHTS = Path(dp.__file__).parent / "data" / "flights.parquet"

POLICY = """\
[gateway]
address = "127.0.0.1:{port}"
floor = 0.01

[data.sales]
source = "sales.parquet"
levels = ["columns:shop,town", "shop", "town", "year", "date:day", "number:paid?lower=0&upper=64"]
bounds = {{ paid = [0, 50], items = [0, 9] }}
filters = ["items", "paid", "day"]
period = "day"
keys = {{ towns = ["a", "b", "c"] }}
epsilon = 1000.0
delta = 1e-3
largest = 4.0
default = 1.0
about = "What shops sold."

[data.people]
source = "sales.parquet"
user = "who"
levels = ["columns:shop,town", "year"]
bounds = {{ paid = [0, 50] }}
epsilon = 1000.0
delta = 1e-3
largest = 4.0
default = 1.0

[data.flights]
source = "{flights}"
user = "aircraft"
levels = ["columns:origin,dest", "carrier"]
bounds = {{ hour = [0, 24] }}
epsilon = 20.0
delta = 1e-4
largest = 2.0
default = 0.5

[analyst.ann]
token = "{ann}"
shares = {{ sales = 1000.0, people = 1000.0, flights = 10.0 }}

[analyst.ben]
token = "{ben}"
owner = true
shares = {{ sales = 1000.0, people = 1000.0, flights = 10.0 }}

[analyst.eve]
token = "{eve}"
shares = {{ sales = 1.0 }}

[analyst.warehouse]
token = "{warehouse}"
speaks_for = ["ann", "eve"]
"""

SEEDED = """
import sys
from dpframe.doors.gateway.gate import Gate
from dpframe.testing import seeded_noise
draw = Gate._draw
def seeded(gate, analyst, asked, began):
    if asked.data.name == "flights":
        return draw(gate, analyst, asked, began)
    with seeded_noise({seed}):
        return draw(gate, analyst, asked, began)
Gate._draw = seeded
"""
"""Every draw uses the same bits, as a local call under this seed does, but those of flights."""

START = """
from dpframe.doors.cli.main import main
sys.exit(main(["serve", sys.argv[1]]))
"""


@dataclass(frozen=True)
class Served:
    """A gateway that runs: its address, its files, and its process."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]


def sold(n: int = 3_000) -> pd.DataFrame:
    """Rows whose columns have many types, with shops and towns that are frequent enough."""
    pick = np.random.default_rng(5).integers(0, 10**6, n)
    return pd.DataFrame(
        {
            "who": pick % 700,
            "shop": pd.Series([f"shop {i % 3}" for i in pick], dtype="str"),
            "town": pd.Series(["abc"[i % 9 // 3] for i in pick], dtype="str"),
            "year": (2020 + pick % 4).astype("int16"),
            "day": [(pd.Timestamp("2026-01-01") + pd.Timedelta(days=i % 31)).date() for i in pick],
            "paid": pick % 50 + 0.25,
            "items": pick % 7,
        }
    )


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write_policy(folder: Path, port: int) -> Path:
    """A folder with rows, and a policy over them."""
    sold().to_parquet(folder / "sales.parquet")
    hashes = {name: hash_token(f"dpf_{name}") for name in ("ann", "ben", "eve", "warehouse")}
    path = folder / "policy.toml"
    path.write_text(POLICY.format(port=port, flights=FLIGHTS, **hashes))
    return path


def start(folder: Path, seed: int | None = None) -> Served:
    """Start ``dpframe serve`` over ``write_policy``'s folder, and wait until it answers."""
    port = free_port()
    path = write_policy(folder, port)
    code = ("import sys\n" if seed is None else SEEDED.format(seed=seed)) + START
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=log, stderr=subprocess.STDOUT
        )
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                return Served(url, folder, process)
        except OSError:
            assert process.poll() is None, (folder / "log.txt").read_text()
            time.sleep(0.1)
    process.kill()
    raise AssertionError((folder / "log.txt").read_text())


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway in a process of its own, whose draws are those of ``seeded_noise(4)``."""
    found = start(tmp_path_factory.mktemp("gateway"), seed=4)
    try:
        yield found
    finally:
        found.process.terminate()
        found.process.wait(30)
