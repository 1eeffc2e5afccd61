"""Apache Superset in tests: a server of our own, asked by its REST API."""

from __future__ import annotations

import io
import json
import os
import secrets
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

ENVIRONMENT = "DPFRAME_SUPERSET"
"""The folder of an environment in which Superset is installed (docs/bi.md)."""
PASSWORD = "only-of-a-test"
CONFIG = """
from superset.config import TALISMAN_CONFIG
SECRET_KEY = {key!r}
SQLALCHEMY_DATABASE_URI = {metadata!r}
TALISMAN_CONFIG["content_security_policy"]["img-src"] = ["'self'", "blob:", "data:"]
"""
"""That of docs/bi.md."""


def program() -> Path:
    """The command ``superset``; skips where there is none."""
    folder = os.environ.get(ENVIRONMENT)
    if not folder:
        pytest.skip(f"{ENVIRONMENT} does not name an environment with Superset; see docs/bi.md")
    found = Path(folder, "bin", "superset")
    if not found.exists():
        pytest.skip(f"{found} is not there; docs/bi.md says how to install Superset")
    return found


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """Superset in a folder, its own tables in the database at an address."""

    def __init__(self, folder: Path, metadata: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = folder / "superset_config.py"
        config.write_text(CONFIG.format(key=secrets.token_hex(32), metadata=metadata), "utf-8")
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FLASK"))},
            "SUPERSET_CONFIG_PATH": str(config),
            "SUPERSET_HOME": str(folder),
            "FLASK_APP": "superset.app:create_app()",
        }

    def command(self, *arguments: str) -> None:
        done = subprocess.run(
            [program(), *arguments], env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]

    def prepare(self) -> None:
        """Make the tables, the rights, and one administrator."""
        self.command("db", "upgrade")
        name = ("--username", "admin", "--password", PASSWORD, "--email", "admin@example.org")
        self.command("fab", "create-admin", *name, "--firstname", "A", "--lastname", "B")
        self.command("init")

    @contextmanager
    def running(self) -> Iterator[Client]:
        command = [program(), "run", "-p", str(self.port), "--with-threads"]
        with open(self.folder / "server.log", "ab") as log:
            process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        try:
            self._wait(process)
            with Client(self.url) as client:
                yield client
        finally:
            process.terminate()
            process.wait(30)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        for _ in range(600):
            assert process.poll() is None, (self.folder / "server.log").read_text()[-2000:]
            try:
                if httpx.get(f"{self.url}/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.2)
        raise TimeoutError("Superset does not answer")


class Client:
    """An administrator at the REST API."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=f"{url}/api/v1", timeout=120, headers={"Referer": url})
        told = {"username": "admin", "password": PASSWORD, "provider": "db", "refresh": True}
        token = self._http.post("/security/login", json=told).json()["access_token"]
        self._http.headers["Authorization"] = f"Bearer {token}"
        self._http.headers["X-CSRFToken"] = self.get("/security/csrf_token/")["result"]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def send(self, method: str, path: str, **told: Any) -> httpx.Response:
        found = self._http.request(method, path, **told)
        assert found.status_code < 300, (method, path, found.status_code, found.text[:2000])
        return found

    def get(self, path: str, **told: Any) -> Any:
        return self.send("GET", path, **told).json()

    def make(self, kind: str, **fields: Any) -> int:
        """Make a database, data set, chart or dashboard, and return its id."""
        return int(self.send("POST", f"/{kind}/", json=fields).json()["id"])

    def change(self, kind: str, number: int, **fields: Any) -> None:
        self.send("PUT", f"/{kind}/{number}", json=fields)

    def list(self, kind: str) -> list[dict[str, Any]]:
        found = self.get(f"/{kind}/", params={"q": "(page_size:100)"})
        return sorted(found["result"], key=lambda one: one["id"])

    def exported(self, dashboard: int) -> dict[str, str]:
        """The files of an export by their paths below its folder."""
        found = self.send("GET", "/dashboard/export/", params={"q": f"!({dashboard})"})
        with zipfile.ZipFile(io.BytesIO(found.content)) as zipped:
            names = [name for name in zipped.namelist() if name.endswith(".yaml")]
            return {name.partition("/")[2]: zipped.read(name).decode() for name in names}

    def take(self, files: dict[str, str], passwords: dict[str, str]) -> None:
        """Import the files of an export."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as zipped:
            for name, text in files.items():
                zipped.writestr(f"export/{name}", text)
        self.send(
            "POST",
            "/dashboard/import/",
            files={"formData": ("export.zip", buffer.getvalue(), "application/zip")},
            data={"passwords": json.dumps(passwords), "overwrite": "true"},
        )
