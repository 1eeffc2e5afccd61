"""The pages of the gateway: a tutorial typed as printed, and tables that say what the code says."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from dpframe.doors.cli.main import command_parser
from dpframe.doors.gateway import policy_reader, views
from dpframe.doors.gateway.policy import Policy, hash_token
from tests.integration.test_docs import Block, blocks

pytest.importorskip("starlette")

HERE = Path(__file__).resolve().parents[2]
PAGE = (HERE / "docs" / "gateway.md").read_text("utf-8")
DEPLOYMENT = (HERE / "docs" / "deployment.md").read_text("utf-8")

PORT = "8722"
SERVES = "dpframe serve policy.toml"


def rows_below(heading: str, page: str = PAGE) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    below = page.partition(f"# {heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert table is not None, heading
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]


# -- the policy ------------------------------------------------------------------------------------

KEYS = {
    "[gateway]": policy_reader.OF_GATEWAY,
    "[gateway.identity]": policy_reader.OF_IDENTITY,
    "[data.NAME]": policy_reader.OF_DATA,
    "[analyst.NAME]": policy_reader.OF_ANALYST,
    "[group.NAME]": policy_reader.OF_GROUP,
    "[view.NAME]": views.OF_VIEW,
}


@pytest.mark.parametrize("heading", KEYS)
def test_every_key_of_a_policy_is_in_its_table(heading: str) -> None:
    """Law: each key once, and no other."""
    told = [key for row in rows_below(heading) for key in re.findall(r"`(\w+)`", row[0])]
    assert sorted(told) == sorted(KEYS[heading])
    rows = [row for row in rows_below(heading) if "`" in row[0]]
    assert all(len(row) == 4 and all(row) for row in rows)


def test_defaults_are_those_of_the_code() -> None:
    """Of the settings of the gateway that are numbers, and of its address."""
    told = {row[0].strip("`"): row[2].strip("`") for row in rows_below("[gateway]")}
    known: dict[str, Any] = {field.name: field.default for field in fields(Policy)}
    for name in ("floor", "failures", "longest", "rate"):
        assert float(told[name]) == known[name], name
    assert told["address"] == '"{}:{}"'.format(*known["address"])
    assert told["behind_proxy"] == str(known["behind_proxy"]).lower()


def test_every_table_of_a_policy_is_told() -> None:
    heads = set(re.findall(r"^### \[(\w+)", PAGE, re.MULTILINE))
    assert heads == set(policy_reader.OF_FILE)


# -- HTTP ------------------------------------------------------------------------------------------


def routes() -> set[tuple[str, str]]:
    from dpframe.doors.gateway.http import Door

    class Held:
        """What a door reads of a gate before anybody asks."""

        policy = Policy(path=Path(), folder=Path(), data={}, analysts={})

    held: Any = Held()
    found = set()
    for route in Door(held).app().routes:
        for method in getattr(route, "methods", None) or ():
            path = re.sub(r"^/page/.+", "/page/{file}", getattr(route, "path", ""))
            found.add((method, path))
    return {(method, path) for method, path in found if method != "HEAD"}


def test_every_address_is_in_the_table() -> None:
    """Law: the routes of the application, each with its method."""
    told = [(row[0], row[1].strip("`")) for row in rows_below("Over HTTP")]
    assert sorted(told) == sorted(routes())


def test_every_status_is_in_the_table() -> None:
    """Law: those that the door gives to refusals, those that it writes itself, and 200."""
    from dpframe.doors.gateway.http import STATUS

    written = {code for _, code in STATUS} | {200, 404, 405}
    source = HERE / "dpframe" / "doors" / "gateway" / "http.py"
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            codes = [one.value for one in node.keywords if one.arg == "status_code"]
            if getattr(node.func, "id", "") in ("_problem", "HTTPException"):
                codes.append(node.args[0])
            values = [code.value for code in codes if isinstance(code, ast.Constant)]
            written |= {value for value in values if isinstance(value, int)}
    text = PAGE.partition("| status | when |\n")[2].partition("\n\n")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) ", text, re.MULTILINE)] == sorted(written)


# -- the tutorial ----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def typed(found: list[Block]) -> str:
    """The page as a shell gets it; where it serves, it goes on as in another terminal."""
    parts = [
        "set -eo pipefail",
        "umask 002",  # as many have it, by which a group can change what is written
        f'dpframe() {{ {sys.executable} -m dpframe "$@"; }}',
        f'python() {{ {sys.executable} "$@"; }}',
    ]
    for kind, together in groupby(found, lambda block: block.file or block.language):
        text = "".join(block.text for block in together)
        if kind == "sh":
            parts.append(text.replace(f"{SERVES}\n", f"{STARTED}\n"))
        elif kind == "python":
            parts.append(f"{sys.executable} -i -q <<'END_OF_PYTHON'\n{text}END_OF_PYTHON")
        else:
            parts.append(f"cat > {kind} <<'END_OF_FILE'\n{text}END_OF_FILE")
    return "\n".join(parts)


def run_script(script: str, folder: Path, **named: str) -> subprocess.CompletedProcess[str]:
    """Run a page in a folder, with variables of the environment. Both its outputs are in stdout."""
    path = os.pathsep.join([str(HERE), *sys.path[:1]])
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, **named, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )


HEALTH = DEPLOYMENT.partition("\nHEALTHCHECK CMD ")[2].partition("\n")[0]
"""How a container asks whether the gateway is there."""

STARTED = f"""{sys.executable} -m dpframe serve policy.toml > served.txt 2>&1 &
trap "kill $!" EXIT
for i in $(seq 300); do
  if curl -sf http://127.0.0.1:{PORT}/healthz > health.txt; then break; fi
  sleep 0.1
done
cat health.txt
curl -sf http://127.0.0.1:{PORT}/ | grep -q "<html"
{shlex.join([sys.executable, *json.loads(HEALTH)[1:]])}"""


PROMPTS = re.compile(r"(>>> |\.\.\. )")


def said_in_order(output: str, page: list[Block]) -> list[str]:
    """Blocks of ``text`` that do not come out, one after the other; spaces do not count."""
    left, missing = " ".join(PROMPTS.sub("", output).split()), []
    for block in page:
        if block.language == "text":
            wanted = " ".join(block.text.split())
            _, found, after = left.partition(wanted)
            if found:
                left = after
            else:
                missing.append(block.text)
    return missing


@pytest.mark.engines
@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks by curl")
def test_the_tutorial_typed_as_printed(tmp_path: Path) -> None:
    """Law: nothing fails, and what the page says comes out does; only the port is another."""
    pytest.importorskip("mcp")
    port = str(free_port())
    found = [block for block in blocks(PAGE.partition("\n## What an analyst")[0]) if block.runs]
    script = typed([block for block in found if block.language != "text"]).replace(PORT, port)
    assert f"{sys.executable} -m dpframe serve policy.toml >" in script
    done = run_script(script, tmp_path)
    told = f"{done.stdout}\n{(tmp_path / 'served.txt').read_text('utf-8')}"
    assert done.returncode == 0, told
    assert not re.search("Traceback|SyntaxError|NameError", told), told
    assert said_in_order(done.stdout, found) == [], told
    assert (tmp_path / "airports.html").stat().st_size > 1000
    assert (tmp_path / "policy.ledgers").stat().st_mode & 0o777 == 0o700
    outcomes = re.findall(r'"outcome": ?"(\w+)"', done.stdout)
    ended = ["answered", "replayed", "answered", *["refused"] * 2, "replayed", "refused"]
    assert outcomes == ended, told
    tokens = [(tmp_path / f"{name}.txt").read_text().split()[-1] for name in ("ann", "ben", "olga")]
    policy = tomllib.loads((tmp_path / "policy.toml").read_text("utf-8"))
    assert policy["analyst"]["ann"]["token"] == hash_token(tokens[0])
    assert not any(token in (tmp_path / "policy.toml").read_text() for token in tokens)


# -- deployment ------------------------------------------------------------------------------------


def saved(name: str) -> str:
    """The file that the page on deployment shows."""
    (text,) = [block.text for block in blocks(DEPLOYMENT) if block.file == name]
    return text


class UnitFile(dict[str, Any]):
    """Keys of a unit's section; one that is there twice is a list."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self and isinstance(value, list):
            value = [*self[key], *value]
        super().__setitem__(key, value)


def test_the_unit_is_hardened_and_serves_a_policy() -> None:
    """Every line is a key and a value; what keeps others out is there."""
    unit = configparser.RawConfigParser(strict=False, dict_type=UnitFile)
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read_string(saved("dpframe.service"))
    service = unit["Service"]
    for key in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "PrivateDevices"):
        assert service[key] == "yes", key
    assert service["ProtectSystem"] == "strict"
    assert service["StateDirectoryMode"] == "0700"
    assert service["LimitCORE"] == "0"
    assert "MemoryMax" in service
    assert "MemoryDenyWriteExecute" not in service  # numba compiles
    start = service["ExecStart"].split()
    command_parser().parse_args(start[1:])
    assert service["ExecStartPre"] == f"{service['ExecStart']} --check"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = saved("dpframe.service")
    program = "/opt/dpframe/bin/dpframe"
    assert program in text
    file = tmp_path / "dpframe.service"
    file.write_text(text.replace(program, sys.executable), "utf-8")
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_container_file_runs_what_there_is(tmp_path: Path) -> None:
    """Each of its steps is known; the shell reads its command, and the parser the program's."""
    text = saved("Containerfile").replace("\\\n", " ")
    steps = dict(line.split(" ", 1) for line in text.splitlines())
    assert steps["FROM"] == "python:3.13-slim"
    assert steps["USER"] != "root"
    subprocess.run(["bash", "-n", "-c", steps["RUN"]], check=True)
    program, *start = json.loads(steps["ENTRYPOINT"]) + json.loads(steps["CMD"])
    assert program == "dpframe"
    command_parser().parse_args(start)
    assert steps["HEALTHCHECK"] == f"CMD {HEALTH}"
    program, *rest = json.loads(HEALTH.replace(PORT, str(free_port())))
    assert program == "python"
    done = subprocess.run([sys.executable, *rest], stderr=subprocess.DEVNULL)
    assert done.returncode != 0  # nothing listens


def test_parts_of_policies_have_keys_that_there_are() -> None:
    """Those that the page on deployment shows beside no data set."""
    shown = [tomllib.loads(one.text) for one in blocks(DEPLOYMENT) if one.language == "toml"]
    assert len(shown) >= 3
    for part in shown:
        assert set(part) == {"gateway"}
        assert set(part["gateway"]) <= set(policy_reader.OF_GATEWAY)
        assert set(part["gateway"].get("identity", ())) <= set(policy_reader.OF_IDENTITY)


def test_what_the_pages_name_is_there() -> None:
    """Files of tests, on the pages of the gateway."""
    listed = set(re.findall(r"`(test_\w+)`", (HERE / "docs" / "security.md").read_text("utf-8")))
    assert len(listed) > 3
    assert [name for name in listed if not (HERE / f"tests/gateway/{name}.py").is_file()] == []
    for page in ("gateway", "security", "deployment", "decisions/0063-gateway"):
        text = (HERE / "docs" / f"{page}.md").read_text("utf-8")
        named = re.findall(r"\btests/[\w/]+\.py", text)
        assert [name for name in named if not (HERE / name).is_file()] == [], page


def test_a_text_that_does_not_come_out_is_noticed() -> None:
    """Negative control."""
    page = [*blocks("```text\na  b\n```\n```text\nc\n```\n")]
    assert said_in_order("x a b y c", page) == []
    assert said_in_order("c x a b", page) == ["c\n"]
