"""How the gateway starts, stops, logs, limits and knows who asks."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import jwt
import pandas as pd
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from starlette.requests import Request

from dpframe.common.progress import guard_time, time_limit
from dpframe.doors.cli.main import main
from dpframe.doors.gateway.gate import FailedError, Gate
from dpframe.doors.gateway.http import Door
from dpframe.doors.gateway.policy import Identity, Policy, hash_token
from dpframe.doors.gateway.policy_reader import read_policy

ROWS = pd.DataFrame({"who": [f"u{i}" for i in range(600)], "shop": [*"aab"] * 200})

POLICY = """\
[gateway]
address = "127.0.0.1:0"
floor = {floor}
{more}

[data.sales]
source = {source}
user = "who"
levels = ["columns:shop"]
epsilon = 10.0
delta = 1e-5

[analyst."ann@example.com"]
token = "{token}"
owner = true
shares = {{ sales = 4.0 }}
"""

COUNT = {"by": ["shop"], "measures": "count", "epsilon": 0.5}


def write(
    folder: Path, more: str = "", floor: float = 0.01, source: str = '"sales.parquet"'
) -> Path:
    ROWS.to_parquet(folder / "sales.parquet")
    path = folder / "policy.toml"
    path.write_text(
        POLICY.format(more=more, floor=floor, source=source, token=hash_token("dpf_ann"))
    )
    return path


@contextlib.contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``dpframe serve`` as a process, and its address."""
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dpframe", "serve", *arguments],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line.split())
            if line.startswith("serving"):
                break
        assert lines, (folder / "log.txt").read_text()
        assert lines[-1][0] == "serving", (lines, (folder / "log.txt").read_text())
        process.said = lines  # type: ignore[attr-defined]
        yield process, lines[-1][1]
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()


def ask(
    url: str,
    given: dict[str, Any] | None = None,
    token: str = "dpf_ann",
    context: ssl.SSLContext | None = None,
) -> Any:
    """Status and JSON of a response: of POST with arguments, else of GET."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None if given is None else json.dumps(given).encode()
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


# -- commands --------------------------------------------------------------------------------------


def test_check_says_what_is_there_or_every_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    assert main(["serve", str(path), "--check"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{path}: no mistakes; data sets: 1, analysts: 1\n"
    assert said.err == ""
    path.write_text(path.read_text().replace("floor", "flor").replace("shop", "shp"))
    assert main(["serve", str(path), "--check"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.findall(r", line (\d+): ", said.err) == ["3", "9"]
    assert not (tmp_path / "policy.ledgers").exists()
    assert main(["serve"]) == 2
    assert "Pass policy.toml, or --demo" in capsys.readouterr().err


def test_without_the_extra_a_sentence_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "uvicorn", None)  # type: ignore[arg-type]
    assert main(["serve", "--demo"]) == 2
    assert "Run pip install 'dpframe[serve]'." in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
    assert main(["serve", str(write(tmp_path)), "--check"]) == 0  # needs no server


def test_a_token_is_shown_once_and_its_hash_is_for_the_policy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["token", "ann@example.com"]) == 0
    said = capsys.readouterr()
    (token,) = re.findall(r"dpf_[\w-]{43}", said.err)
    assert "dpf_" not in said.out
    assert tomllib.loads(said.out) == {"analyst": {"ann@example.com": {"token": hash_token(token)}}}
    assert main(["token", "ann@example.com"]) == 0
    assert token not in capsys.readouterr().err
    assert main(["token", "a b"]) == 2
    assert "letters, digits" in capsys.readouterr().err


# -- start and stop --------------------------------------------------------------------------------


@pytest.mark.engines
def test_a_question_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    path = write(tmp_path, floor=1.5)
    for number, code, says in ((signal.SIGTERM, 0, "stopped by SIGTERM"), (signal.SIGINT, 130, "")):
        answers: list[Any] = []
        with served(tmp_path, str(path)) as (process, url):
            given = {**COUNT, "epsilon": 0.5 + code / 1000}
            at = f"{url}/api/datasets/sales/rollup"
            thread = threading.Thread(target=lambda: answers.append(ask(at, given)))  # noqa: B023
            thread.start()
            time.sleep(0.7)
            process.send_signal(number)
            thread.join()
            assert process.wait(20) == code
            assert process.stdout is not None
            assert says in process.stdout.read()
        assert [status for status, _ in answers] == [200]
        log = (tmp_path / "log.txt").read_text()
        assert ("interrupted. What was asked is answered." in log) == (code == 130), log
        assert "Traceback" not in log


@pytest.mark.engines
def test_a_demonstration_works_twice_in_an_empty_folder(tmp_path: Path) -> None:
    spent = []
    tokens = set()
    for _ in range(2):
        with served(tmp_path, "--demo") as (process, url):
            said = dict(process.said)  # type: ignore[attr-defined]
            assert {*said} == {"policy", "token", "serving"}
            tokens.add(said["token"])
            at = f"{url}/api/datasets/flights"
            status, answer = ask(f"{at}/rollup", {**COUNT, "by": ["carrier"]}, said["token"])
            assert status == 200
            assert answer["rows"]
            spent.append(ask(f"{at}/budget", None, said["token"])[1][-1]["spent"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    assert len(tokens) == 2
    assert spent[0] == spent[1] == pytest.approx(0.5)  # the second answer is the first one


def test_what_keeps_it_from_starting_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path = write(tmp_path)
        path.write_text(path.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        assert main(["serve", str(path)]) == 2
        assert f"address 127.0.0.1:{port} is taken by another process" in capsys.readouterr().err
    assert not (tmp_path / "policy.ledgers").exists()
    path = write(tmp_path)
    gate = Gate(read_policy(path))
    assert main(["serve", str(path)]) == 2
    assert "held by another gateway" in capsys.readouterr().err
    gate.close()
    path.write_text(path.read_text().replace("epsilon = 10", "epsilon = 11"))
    assert main(["serve", str(path)]) == 2
    assert "dpframe: " in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # as it was


FULL = """
import resource, signal, sys
from dpframe.doors.gateway.gate import Gate
from dpframe.doors.gateway.policy_reader import read_policy
from dpframe.errors import DpframeError
most = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
policy = read_policy("policy.toml")
ann = policy.analysts["ann@example.com"]
def tried(act):
    try:
        return act()
    except DpframeError as error:
        print(type(error).__name__, error)
gate = Gate(policy)
count = {"by": ["shop"], "measures": "count", "epsilon": 0.5}
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most[1]))  # no file grows any more
print("full", tried(lambda: gate.ask(ann, "sales", "rollup", count)))
resource.setrlimit(resource.RLIMIT_FSIZE, most)
before = gate.budget(ann, "sales")[-1]["spent"]
first = gate.ask(ann, "sales", "rollup", count)
print("spent", before, gate.budget(ann, "sales")[-1]["spent"], first.free)
gate.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most[1]))
import shutil
shutil.rmtree("policy.ledgers")
print("start", tried(lambda: Gate(policy)))
"""


@pytest.mark.engines
def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FULL], cwd=tmp_path, text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    refused, full, spent, started, start = done.stdout.splitlines()
    assert re.match(r"(LedgerError|FailedError|SourceError) ", refused), refused
    assert (full, start) == ("full None", "start None")
    assert re.match(r"(LedgerError|SourceError) ", started), started
    assert spent in ("spent 0.0 0.5 None", "spent 0.5 1.0 None"), spent  # nothing unpaid is shown


# -- the log ---------------------------------------------------------------------------------------


@pytest.mark.engines
def test_each_request_is_a_line_of_facts(tmp_path: Path) -> None:
    path = write(tmp_path)
    with served(tmp_path, str(path)) as (process, url):
        at = f"{url}/api/datasets"
        assert ask(at)[0] == 200
        assert ask(at, token="dpf_SECRET")[0] == 401
        assert ask(f"{url}/nothing?x=SECRET")[0] == 404
        assert ask(f"{at}/sales/rollup", {**COUNT, "keys": ["SECRET"], "wrong": "SECRET"})[0] == 422
        assert ask(f"{at}/sales/rollup", COUNT)[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    lines = [json.loads(line) for line in (tmp_path / "log.txt").read_text().splitlines()]
    assert all(
        [*one] == ["time", "level", "analyst", "method", "path", "status", "ms"] for one in lines
    )
    assert [(one["analyst"], one["method"], one["status"]) for one in lines] == [
        ("ann@example.com", "GET", 200),
        (None, "GET", 401),
        (None, "GET", 404),
        ("ann@example.com", "POST", 422),
        ("ann@example.com", "POST", 200),
    ]
    assert "SECRET" not in str(lines)
    assert "dpf_" not in str(lines)


@pytest.mark.engines
def test_quiet_logs_no_request_and_errors_quote_nothing(tmp_path: Path) -> None:
    import logging

    from dpframe.doors.gateway.http import JsonLines, log

    try:
        raise ValueError("a value of a row")
    except ValueError:
        record = log.makeRecord("x", logging.ERROR, "", 0, "failed\nat row", (), sys.exc_info())
    facts = json.loads(JsonLines().format(record))
    assert facts["error"] == "ValueError"
    assert facts["message"] == "failed"
    assert "row" not in str({**facts, "at": ""})
    path = write(tmp_path)
    with served(tmp_path, str(path), "--quiet") as (process, url):
        assert ask(f"{url}/api/datasets")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert (tmp_path / "log.txt").read_text() == ""


# -- TLS -------------------------------------------------------------------------------------------


def certify(folder: Path, password: bytes | None = None) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and its key, as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(__import__("ipaddress").ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(signed.public_bytes(Encoding.PEM))
    hidden = NoEncryption() if password is None else BestAvailableEncryption(password)
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
    files[1].chmod(0o600)
    return files


@pytest.mark.engines
def test_a_real_request_over_tls(tmp_path: Path) -> None:
    certificate, _ = certify(tmp_path)
    path = write(tmp_path, 'certificate = "cert.pem"\nkey = "key.pem"')
    with served(tmp_path, str(path)) as (_, url):
        assert url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=certificate)
        status, answer = ask(f"{url}/api/datasets/sales/rollup", COUNT, context=context)
        assert status == 200
        assert answer["receipt"]
        with pytest.raises(urllib.error.URLError):
            ask(f"{url}/healthz", context=ssl.create_default_context())


def test_files_that_cannot_serve_tls_are_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, 'certificate = "cert.pem"\nkey = "key.pem"')

    def said() -> str:
        assert main(["serve", str(path), "--check"]) == 2
        return capsys.readouterr().err

    assert "line 4: gateway.certificate: no such file or directory" in said()
    certify(tmp_path)
    assert main(["serve", str(path), "--check"]) == 0
    (tmp_path / "key.pem").chmod(0o644)
    assert "line 5: key can be used by others. Run chmod o= on it" in said()
    certificate = (tmp_path / "cert.pem").read_bytes()
    certify(tmp_path)
    (tmp_path / "cert.pem").write_bytes(certificate)
    assert "line 4: certificate and key must be PEM files of each other" in said()
    certify(tmp_path, b"password")
    assert "the key without a password" in said()
    (tmp_path / "key.pem").write_bytes(b"")
    assert "must be PEM files" in said()


# -- who asks, behind a proxy ----------------------------------------------------------------------

KEYS: dict[str, Any] = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "RS256": rsa.generate_private_key(65537, 2048),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
AUDIENCE, ISSUER = "/projects/1/apps/dpframe", "https://proxy.example.com"


def pem(algorithm: str) -> bytes:
    form = PublicFormat.SubjectPublicKeyInfo
    found: bytes = KEYS[algorithm].public_key().public_bytes(Encoding.PEM, form)
    return found


def signed(algorithm: str = "ES256", key: Any = None, headers: Any = None, **claims: Any) -> str:
    """A token as a proxy makes it."""
    now = int(time.time())
    given = {"email": "ann@example.com", "aud": AUDIENCE, "iss": ISSUER, "exp": now + 60}
    given = {name: value for name, value in {**given, **claims}.items() if value is not None}
    return jwt.encode(given, key or KEYS[algorithm], algorithm=algorithm, headers=headers)


def identity(algorithm: str = "ES256") -> Identity:
    return Identity(
        header="X-Assertion",
        key=pem(algorithm).decode(),
        algorithm=algorithm,
        audience=AUDIENCE,
        issuer=ISSUER,
    )


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_signed_header_names_the_analyst(algorithm: str) -> None:
    one = identity(algorithm)
    assert one.name_in(signed(algorithm)) == "ann@example.com"
    assert one.name_in(f"Bearer {signed(algorithm)}") == "ann@example.com"
    assert one.name_in(signed(algorithm, aud=["x", AUDIENCE])) == "ann@example.com"


def unsigned(header: dict[str, str], claims: dict[str, Any]) -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=") for p in (header, claims)
    )
    return b".".join([*parts, b""]).decode()


def test_other_tokens_name_nobody() -> None:
    one, now = identity(), int(time.time())
    claims = {"email": "ann@example.com", "aud": AUDIENCE, "iss": ISSUER, "exp": now + 60}
    token = signed()
    head, body, signature = token.split(".")
    refused = {
        "empty": "",
        "no token": "ann@example.com",
        "a NUL": "\0",
        "not ASCII": "é.é.é",
        "another key": signed(key=ec.generate_private_key(ec.SECP256R1())),
        "alg none": unsigned({"alg": "none", "typ": "JWT"}, claims),
        "alg None": unsigned({"alg": "None"}, claims),
        "no signature": f"{head}.{body}.",
        "another body": f"{head}.{body[:-4]}AAAA.{signature}",
        "cut": token[:-2],
        "another algorithm": signed("RS256"),
        "expired": signed(exp=now - 3600),
        "not yet": signed(nbf=now + 3600),
        "no expiry": signed(exp=None),
        "expiry as text": unsigned({"alg": "ES256"}, {**claims, "exp": "x"}),
        "another audience": signed(aud="/projects/2"),
        "no audience": signed(aud=None),
        "another issuer": signed(iss="https://evil.example.com"),
        "no issuer": signed(iss=None),
        "no name": signed(email=None),
        "a list of names": signed(email=["ann@example.com"]),
        "not verified": signed(email_verified=False),
    }
    assert {why for why, given in refused.items() if one.name_in(given) is not None} == set()


def test_a_public_key_is_no_secret_of_hs256() -> None:
    """The public key as an HMAC secret: the classical confusion of algorithms."""
    import hashlib
    import hmac

    for algorithm in KEYS:
        now = int(time.time())
        claims = {"email": "ann@example.com", "aud": AUDIENCE, "iss": ISSUER, "exp": now + 60}
        start = unsigned({"alg": "HS256", "typ": "JWT"}, claims).rstrip(".")
        made = hmac.new(pem(algorithm), start.encode(), hashlib.sha256).digest()
        token = f"{start}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"
        assert (
            jwt.api_jws.PyJWS().decode_complete(token, options={"verify_signature": False})[
                "header"
            ]["alg"]
            == "HS256"
        )
        assert identity(algorithm).name_in(token) is None


def test_keys_are_also_a_set_of_which_tokens_name_one() -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    keys = [
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(one.public_key())), "kid": kid}
        for kid, one in (("new", KEYS["ES256"]), ("old", other))
    ]
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"}
    one = replace(identity(), key=json.dumps({"keys": [*keys, secret]}))
    assert {*one.keys} == {"new", "old"}
    assert one.name_in(signed(headers={"kid": "new"})) == "ann@example.com"
    assert one.name_in(signed(key=other, headers={"kid": "old"})) == "ann@example.com"
    assert one.name_in(signed(headers={"kid": "old"})) is None
    assert one.name_in(signed(headers={"kid": "none"})) is None
    assert one.name_in(signed()) is None
    assert one.name_in(jwt.encode({}, "secret" * 8, "HS256", {"kid": "secret"})) is None


SETTINGS = """
behind_proxy = true
identity = {{ header = "X-Assertion", key = "{key}", algorithm = "{algorithm}", audience = "a" }}
"""


def test_a_policy_with_identity_needs_no_tokens_and_a_public_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "proxy.pem").write_bytes(pem("ES256"))
    private = KEYS["ES256"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "private.pem").write_bytes(private)
    (tmp_path / "keys.json").write_text('{"keys": []}')
    for key, algorithm, says in (
        ("proxy.pem", "ES256", ""),
        ("proxy.pem", "RS256", "has no public key for RS256"),
        ("proxy.pem", "HS256", "algorithm has no 'HS256'"),
        ("proxy.pem", "none", "algorithm has no 'none'"),
        ("private.pem", "ES256", "has no public key for ES256"),
        ("keys.json", "ES256", "has no public key for ES256"),
        ("sales.parquet", "ES256", "has no public key for ES256"),
        ("none.pem", "ES256", "no such file or directory"),
    ):
        path = write(tmp_path, SETTINGS.format(key=key, algorithm=algorithm))
        path.write_text(re.sub("token = .*\n", "", path.read_text()))
        assert main(["serve", str(path), "--check"]) == 2 * bool(says)
        assert says in capsys.readouterr().err
    path = write(
        tmp_path, SETTINGS.format(key="proxy.pem", algorithm="ES256").replace("true", "false")
    )
    assert main(["serve", str(path), "--check"]) == 2
    assert "identity needs behind_proxy = true" in capsys.readouterr().err


def request(method: str = "GET", **headers: str) -> Request:
    named = [(n.replace("_", "-").encode(), v.encode("latin-1")) for n, v in headers.items()]
    return Request({"type": "http", "method": method, "headers": named})


def test_who_asks_is_told_by_a_token_or_behind_a_proxy_by_its_header(tmp_path: Path) -> None:
    policy = replace(read_policy(write(tmp_path)), behind_proxy=True, identity=identity())
    ann = policy.analysts["ann@example.com"]

    def who(policy: Policy, method: str = "GET", **headers: str) -> object:
        door = Door.__new__(Door)
        door.gate = type("G", (), {"policy": policy})()
        return door.analyst_of(request(method, **headers))

    token, bearer = signed(), "Bearer dpf_ann"
    assert who(policy) is None
    assert who(policy, authorization=bearer) is ann
    assert who(policy, x_assertion=token) is ann
    assert who(policy, x_assertion=signed(email="ANN@example.com")) is ann
    assert who(policy, x_assertion=signed(email="eve@example.com")) is None
    assert who(policy, x_assertion=token, authorization="Bearer dpf_wrong") is ann
    assert who(policy, x_assertion="dpf_ann") is None
    assert who(policy, authorization=f"Bearer {token}") is None  # another header is the proxy's
    assert who(replace(policy, behind_proxy=False), x_assertion=token) is None
    assert who(replace(policy, identity=None), x_assertion=token) is None
    # another site can make a browser ask, with the proxy's cookie
    json_type = {"content_type": "application/json"}
    assert who(policy, "POST", x_assertion=token, **json_type) is ann
    assert who(policy, "POST", x_assertion=token) is None
    assert who(policy, "POST", x_assertion=token, sec_fetch_site="cross-site", **json_type) is None
    assert who(policy, "POST", x_assertion=token, sec_fetch_site="same-origin", **json_type) is ann
    assert who(policy, "POST", authorization=bearer, sec_fetch_site="cross-site") is ann


# -- limits ----------------------------------------------------------------------------------------


def test_a_question_that_takes_longer_is_interrupted_and_is_a_failure(tmp_path: Path) -> None:
    duckdb.connect(tmp_path / "slow.duckdb").close()
    slow = "SELECT range % 7 AS shop, range % 1000 AS who FROM range(100000000000)"
    path = write(tmp_path, "longest = 1", source=f"{{ database = 'slow.duckdb', sql = '{slow}' }}")
    policy = read_policy(path)
    ann, gate = policy.analysts["ann@example.com"], Gate(policy)
    began = time.monotonic()
    with pytest.raises(FailedError):
        gate.ask(ann, "sales", "rollup", COUNT)
    assert 1 <= time.monotonic() - began < 20
    assert gate._memory.failures(ann.name, "sales") == 1
    assert gate.budget(ann, "sales")[-1]["spent"] == 0.5  # charged before rows were read
    assert not [t for t in threading.enumerate() if t.name == "dpframe-time-limit"]
    gate.close()


def test_the_time_of_statements_adds_up_and_time_between_them_is_free() -> None:
    stopped: list[int] = []
    with time_limit(0.3):
        with time_limit(9), guard_time(partial(stopped.append, 8)):
            time.sleep(0.12)
        for statement in range(4):
            time.sleep(0.15)
            with guard_time(partial(stopped.append, statement)):
                time.sleep(0.12)
    assert {*stopped} <= {2, 3}
    assert 3 in stopped
    before = len(stopped)
    with guard_time(partial(stopped.append, 9)):  # no limit holds here
        time.sleep(0.12)
    assert len(stopped) == before


GROUPS = """
import resource
from dpframe.doors.gateway.http import limit_memory
from dpframe.doors.gateway.gate import Gate
from dpframe.doors.gateway.policy_reader import read_policy
policy = read_policy("policy.toml")
if policy.memory is not None:
    limit_memory(policy.memory)
gate = Gate(policy)
ann = policy.analysts["ann@example.com"]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
try:
    gate.ask(ann, "sales", "rollup", {"by": ["shop"], "measures": "count", "epsilon": 0.5})
    print("answered", peak() - before)
except Exception as error:
    print(type(error).__name__, peak() - before)
"""


ONE_MORE = """
import subprocess, sys
sys.exit(subprocess.call([sys.executable, "-c", sys.argv[1]]))
"""
"""Runs a program as the child of a small process: peaks of memory begin with a parent's."""


@pytest.mark.engines
def test_counting_takes_no_more_memory_than_the_policy_says(tmp_path: Path) -> None:
    many = "SELECT repeat(CAST(range AS VARCHAR), 40) AS shop, range % 9 AS who FROM range(200000)"
    duckdb.connect(tmp_path / "many.duckdb").close()
    took = {}
    for more in ("", "memory = 67108864"):
        write(tmp_path, more, source=f"{{ database = 'many.duckdb', sql = '{many}' }}")
        done = subprocess.run(
            [sys.executable, "-c", ONE_MORE, GROUPS],
            cwd=tmp_path,
            env={**os.environ, "DPFRAME_THREADS": "2"},
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        took[more] = done.stdout.split()
        for file in (tmp_path / "policy.ledgers").iterdir():
            file.unlink()
    print(took)
    assert int(took["memory = 67108864"][1]) < 0.6 * int(took[""][1])
