"""``dp.connect``: what comes back is what the local library returns, and what fails is said."""

from __future__ import annotations

import inspect
import json
import socket
import ssl
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.doors import gateway
from dpframe.doors.gateway import Connection, Secret, client
from dpframe.testing import seeded_noise
from tests.gateway.conftest import ANN, BEN, EVE, FLIGHTS, Served, free_port

SPEND: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def ann(served: Served) -> Any:
    return dp.connect(served.url, token=ANN)


def local(served: Served, question: str, *args: Any, **given: Any) -> Any:
    """The answer of the local library under the seed of the gateway."""
    with seeded_noise(4):
        return getattr(dp, question)(str(served.folder / "sales.parquet"), *args, **given)


SAME: dict[str, tuple[str, str, tuple[Any, ...], dict[str, Any]]] = {
    "a tree": ("sales", "hhh", (["shop", "town"],), SPEND),
    "whole numbers": ("sales", "hhh", ("year",), {**SPEND, "remainder": False}),
    "dates": ("sales", "hhh", ("date:day",), SPEND),
    "intervals": ("sales", "hhh", (dp.number("paid", lower=0, upper=64),), SPEND),
    "a cube": ("sales", "hhh", (dp.cube(["shop", "year"]),), SPEND),
    "measures": (
        *("sales", "rollup", (["town"],)),
        {
            **SPEND,
            "measures": {
                "n": dp.count(),
                "paid": dp.sum("paid", lower=0, upper=50),
                "each": dp.mean("paid", lower=0, upper=50),
                "half": dp.median("items", lower=0, upper=9),
            },
        },
    ),
    "listed keys": ("sales", "tree_counts", ("year",), {"epsilon": 0.7, "keys": [2020, 2022]}),
    "a cube of listed keys": (
        *("sales", "rollup", ("town * year", "count")),
        {"epsilon": 0.7, "keys": {"town": ["a", "b"], "year": [2020, 2022]}},
    ),
    "the largest": ("sales", "heavy_hitters", ("town",), {**SPEND, "k": 2}),
    "a period": (
        *("sales", "hhh", ("shop",)),
        {**SPEND, "period": ("day", pd.Period("2026-01-05", "W-SUN"))},
    ),
    "users": ("people", "rollup", ("year", ["count", "sum(paid, 0, 50)"]), SPEND),
}


@pytest.mark.parametrize("case", SAME)
def test_answers_are_those_of_the_local_library(served: Served, ann: Any, case: str) -> None:
    """Law: under one seed the frames are equal, with dtypes, labels and what the receipts say."""
    name, question, args, given = SAME[case]
    found = getattr(ann[name], question)(*args, **given)
    more = {"user": "who"} if name == "people" else {}
    more |= {"delta": 1e-3 * given["epsilon"] / 1000.0} if "delta" not in given else {}
    wanted = local(served, question, *args, **given, **more)
    pd.testing.assert_frame_equal(found, wanted)
    apart = {*OF_ITS_OWN} | {key for key in wanted.dp.receipt if key.startswith("ledger")}
    for key in {*wanted.dp.receipt} - apart:
        assert found.dp.receipt[key] == wanted.dp.receipt[key], key


OF_ITS_OWN = ("release_id", "time", "release", "data", "card", "replayed", "budget")


def test_a_query_is_answered_as_here(served: Served, ann: Any) -> None:
    query = (
        "SELECT year, shop, count(*) AS n, sum(paid) AS paid FROM sales WHERE items < 5 "
        "GROUP BY ROLLUP (year, shop) ORDER BY n DESC LIMIT 4"
    )
    found = ann.sales.sql(query, **SPEND)
    with seeded_noise(4):
        rows = {"sales": str(served.folder / "sales.parquet")}
        wanted = dp.sql(query, rows, bounds={"paid": (0, 50)}, **SPEND)
    pd.testing.assert_frame_equal(found, wanted)


def test_explanations_print_as_here(ann: Any, served: Served) -> None:
    """Law: the card of the local library and the line of the ledger; values have their types."""
    for name, args, given in (
        ("explain", (["shop", "town"],), {"delta": 1e-6, "error": 30}),
        ("explain_rollup", ("shop", "count"), SPEND),
        ("explain_tree_counts", ("year",), {**SPEND, "mechanism": "gaussian"}),
        ("explain_heavy_hitters", ("town",), SPEND),
    ):
        found = getattr(ann.sales, name)(*args, **given)
        wanted = getattr(dp, name)(str(served.folder / "sales.parquet"), *args, **given)
        lines = [line for line in found.lines if line.id != "in the ledger"]
        assert [one.row for one in lines] == [one.row for one in wanted.lines]
        assert len(found.lines) == len(lines) + 1
        assert found["epsilon"] == wanted["epsilon"]
    shown = ann.sales.explain_sql("SELECT shop, count(*) FROM sales GROUP BY shop", **SPEND)
    assert "hhh, by shop" in str(shown)
    with pytest.raises(dp.ParameterError, match="no proof"):
        shown.proof()


def test_polars_frames_keep_working(served: Served) -> None:
    gateway = dp.connect(served.url, token=ANN, frames="polars")
    found = gateway.sales.hhh(["shop", "town"], **SPEND)
    assert isinstance(found, pl.DataFrame)
    wanted = local(served, "hhh", ["shop", "town"], **SPEND)
    assert found.equals(pl.from_pandas(wanted))
    shown: Any = found
    assert shown.dp.top(1).height == 1
    assert shown.dp.receipt["epsilon"] == 1.0
    assert isinstance(gateway.sales.budget(), pl.DataFrame)
    assert isinstance(gateway.sales.releases(), pl.DataFrame)
    other = gateway.sales.hhh(["shop", "town"], epsilon=2.0, delta=1e-6)
    assert "more_than_noise" in gateway.sales.change(found, other).columns


def test_what_is_free_here_is_free_there(served: Served, ann: Any, tmp_path: Path) -> None:
    """Law: the receipt, pages, plots, shares, files and proofs work on what came back."""
    asked: dict[str, Any] = {"hierarchy": ["origin", "dest"], "contribution": "share"}
    found = ann.flights.tree_counts(**asked, epsilon=1.0)
    here = dp.tree_counts(FLIGHTS, **asked, user="aircraft", epsilon=1.0, delta=5e-6)
    assert dp.verify(found).code == dp.verify(here).code == 0
    assert "Privacy card" in str(found.dp.receipt)
    assert len(found.dp.share()) == len(found)
    assert len(found.dp.top(3)) == 3
    found.dp.report(tmp_path / "page.html")
    found.dp.save(tmp_path / "rows.parquet")
    assert pd.read_parquet(tmp_path / "rows.parquet").dp.receipt["epsilon"] == 1.0
    assert found.dp.to_arrow().num_rows == len(found)
    assert "<table" in found.dp._repr_html_()
    assert found.dp.plot() is not None
    again = ann.flights.tree_counts(**asked, epsilon=1.5)
    changed = dp.change(found, again, simultaneous=False)
    names = ann.flights.releases().set_index("epsilon")["release"]
    told = ann.flights.change(names[1.0], names[1.5], simultaneous=False)
    pd.testing.assert_frame_equal(told, changed)
    pd.testing.assert_frame_equal(ann.flights.recall(names[1.0]), found)


def test_budget_and_releases_are_frames(served: Served, ann: Any) -> None:
    ann.sales.hhh("shop", epsilon=0.9)
    left = ann.sales.budget()
    assert list(left.columns) == list(client.BUDGET)
    assert left["of"].tolist() == ["your share", "the total"]
    kept = ann.sales.releases()
    assert list(kept.columns) == list(client.RELEASES)
    assert kept["yours"].dtype == bool
    assert list(dp.connect(served.url, token=EVE).sales.releases().columns) == list(kept.columns)
    assert list(ann.flights.describe()["columns"])


# -- arguments -------------------------------------------------------------------------------------

ALIKE: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a hierarchy": (
        *("hhh", {"hierarchy": "date:day", "epsilon": 0.4}),
        {"hierarchy": dp.date("day"), "epsilon": np.float64(0.4)},
    ),
    "columns of a frame": (
        *("hhh", {"hierarchy": ["shop", "town"], "epsilon": 0.3}),
        {"hierarchy": pd.Index(["shop", "town"]), "epsilon": 0.3},
    ),
    "measures": (
        *("rollup", {"by": "town", "measures": {"n": "count", "p": "sum(paid, 0, 50)"}}),
        {"by": ("town",), "measures": {"n": dp.count(), "p": dp.sum("paid", lower=0, upper=50)}},
    ),
    "a day": (
        *("hhh", {"hierarchy": "town", "period": "2026-01-05"}),
        {"hierarchy": "town", "period": date(2026, 1, 5)},
    ),
    "a period of pandas": (
        *("hhh", {"hierarchy": "town", "period": "2026-W02"}),
        {"hierarchy": "town", "period": ("day", pd.Period("2026-01-06", "W-SUN"))},
    ),
    "a range": (
        *("hhh", {"hierarchy": "town", "period": "2026-01-10..2026-01-14"}),
        {"hierarchy": "town", "period": ("day", "2026-01-10..2026-01-14")},
    ),
    "an array of keys": (
        *("tree_counts", {"hierarchy": "year", "keys": [2020, 2021], "epsilon": 0.2}),
        {"hierarchy": "year", "keys": np.array([2020, 2021], "int16"), "epsilon": 0.2},
    ),
    "days as keys": (
        *("tree_counts", {"hierarchy": "date:day", "keys": ["2026-01-05"], "epsilon": 0.2}),
        {"hierarchy": "date:day", "keys": pd.Series([date(2026, 1, 5)]), "epsilon": 0.2},
    ),
    "tuples as keys": (
        *("tree_counts", {"hierarchy": ["shop", "town"], "keys": [["shop 0", "a"]]}),
        {"hierarchy": ["shop", "town"], "keys": [("shop 0", "a")]},
    ),
    "a frame of keys": (
        *("tree_counts", {"hierarchy": ["shop", "town"], "keys": [["shop 0", "b"]]}),
        {
            "hierarchy": ["shop", "town"],
            "keys": pd.DataFrame({"town": ["b"], "shop": ["shop 0"], "other": [1]}),
        },
    ),
    "an Arrow table of keys": (
        *("rollup", {"by": ["shop", "town"], "measures": "count", "keys": [["shop 1", "a"]]}),
        {
            "by": ["shop", "town"],
            "measures": "count",
            "keys": pa.table({"shop": ["shop 1"], "town": ["a"]}),
        },
    ),
    "a list of the policy": (
        *("tree_counts", {"hierarchy": "town", "keys": ["a", "b", "c"]}),
        {"hierarchy": "town", "keys": "towns"},
    ),
    "a list of the policy in a cube": (
        "rollup",
        {
            "by": "town * year",
            "measures": "count",
            "keys": {"town": ["a", "b", "c"], "year": [2020]},
        },
        {
            "by": "town * year",
            "measures": "count",
            "keys": {"town": "towns", "year": np.array([2020])},
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ALIKE)
def test_arguments_mean_the_same_in_every_form(ann: Any, case: str) -> None:
    """Law: what Python writes in two ways is one question, whose second answer costs nothing."""
    question, plain, other = ALIKE[case]
    first = getattr(ann.sales, question)(**plain)
    before = ann.sales.budget()
    with pytest.warns(dp.ReplayedNotice, match="cost nothing: it was drawn on"):
        second = getattr(ann.sales, question)(**other)
    pd.testing.assert_frame_equal(first, second)
    pd.testing.assert_frame_equal(before, ann.sales.budget())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epsilon": float("nan")}, r"epsilon \(nan\) must be finite"),
        ({"epsilon": np.float32("inf")}, r"epsilon \(inf\) must be finite"),
        ({"threshold": -float("inf")}, r"threshold \(-inf\) must be finite"),
        ({"threshold": b"3"}, r"threshold \(bytes\) cannot be sent"),
        ({"threshold": {1, 2}}, r"threshold \(set\) cannot be sent"),
        ({"period": pd.Timestamp("2026-01-05 13:00")}, r"pass its .date\(\)"),
        ({"period": ("day", "2026-W60")}, "does not exist"),
        ({"progress": "no"}, "progress"),
        ({"treshold": 3}, "Did you mean 'threshold'"),
        ({"user": "who"}, "hhh has no argument 'user'"),
    ],
)
def test_what_cannot_be_sent_is_refused_here(
    ann: Any, given: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: nothing is sent then."""
    monkeypatch.setattr(Connection, "send", None)
    with pytest.raises((dp.ParameterError, dp.ParameterTypeError), match=words):
        _data(ann).hhh("shop", **given)


def _data(gateway: Any) -> Any:
    return client.RemoteData(gateway._connection, "pandas", "sales")


def test_keys_are_checked_before_they_are_sent(ann: Any) -> None:
    with pytest.raises(dp.ColumnError, match="keys lacks column 'town'"):
        ann.sales.tree_counts(["shop", "town"], keys=pd.DataFrame({"shop": ["a"]}))


# -- refusals and replays --------------------------------------------------------------------------


def test_refusals_are_errors_of_the_local_library(served: Served, ann: Any) -> None:
    eve = dp.connect(served.url, token=EVE)
    with pytest.raises(dp.OverBudgetError, match="share"):
        eve.sales.hhh("town", epsilon=1.7)
    with pytest.raises(dp.ParameterError, match="no data set 'people' for you"):
        _ = eve["people"]
    with pytest.raises(AttributeError, match="no data set 'people' for you"):
        _ = eve.people
    assert not hasattr(eve, "salez")
    with pytest.raises(dp.ParameterError, match="at most 4"):
        ann.sales.hhh("town", epsilon=9.0)
    with pytest.raises(dp.ColumnError, match="may not be asked"):
        ann.sales.hhh("who", epsilon=1.0)
    with pytest.raises(dp.ParameterError, match="no release 'x/y'"):
        ann.sales.recall("x/y")
    with pytest.raises(dp.ParameterTypeError, match="lacks hierarchy"):
        ann.sales.hhh()
    assert dir(eve)[-1] == "sales"


def test_an_answer_of_somebody_else_costs_nothing(served: Served, ann: Any) -> None:
    """Law: the rows are the same, a notice says when they were drawn, once for each line."""
    first = ann.sales.hhh("town", epsilon=1.1)
    ben = dp.connect(served.url, token=BEN)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            second = ben.sales.hhh("town", epsilon=1.1)
    assert [one.category for one in said] == [dp.ReplayedNotice]
    assert said[0].filename == __file__
    assert "owner of 'sales'" in str(said[0].message)
    pd.testing.assert_frame_equal(first, second)
    assert second.dp.receipt["replayed"]
    assert "nothing to pay" in str(ben.sales.explain("town", epsilon=1.1))


def test_a_coarser_rollup_follows_from_a_finer_one(ann: Any) -> None:
    ann.sales.rollup(["shop", "town"], "count", epsilon=0.8)
    with pytest.warns(dp.ReplayedNotice, match="follows from release"):
        found = ann.sales.rollup("shop", "count", epsilon=0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        anew = ann.sales.rollup("shop", "count", epsilon=0.8, derive=False)
    assert [*anew.columns] == [name for name in found.columns if name != "town"]
    assert found["town"].isna().all()  # as the receipt of the finer one names it


# -- methods ---------------------------------------------------------------------------------------


def test_methods_have_the_signatures_and_docstrings_of_the_questions() -> None:
    """Law: those of the accessor without what the policy sets; the rest is not offered."""
    for name, (asks, explains) in client.SERVED.items():
        for function in (asks, explains):
            method = getattr(client.RemoteData, function.__name__)
            assert method.__name__ == function.__name__
            taken = inspect.signature(method).parameters
            whole = inspect.signature(function).parameters
            assert {*whole} - {*taken} <= {*client.NOT_GIVEN}
            assert {*taken} - {*whole} <= {"self", "derive", "progress"}
            assert not {*taken} & {*client.NOT_GIVEN}
            assert "policy sets" in (method.__doc__ or ""), name
            assert ">>>" not in method.__doc__
    said = client.RemoteData.hhh.__doc__ or ""
    assert "Hierarchical heavy hitters" in said
    assert "\nledger" not in said


def test_waiting_is_shown(ann: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: a step goes on while the gateway works, unless nobody wants it."""
    from dpframe.common import progress

    seen: list[bool] = []
    read_table = Connection.read_table

    def watched(*args: Any) -> pa.Table:
        seen.append(progress.goes_on())
        return read_table(*args)

    monkeypatch.setattr(Connection, "read_table", watched)
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    ann.sales.hhh("shop", epsilon=1.1)
    ann.sales.hhh("shop", epsilon=1.1, progress=False)
    assert seen == [True, False]


def test_who_stops_waiting_learns_that_the_answer_may_be_there(
    ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    data = ann.sales
    monkeypatch.setattr(data._connection._opener, "open", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        data.hhh("shop", epsilon=0.35)
    assert any("replayed for nothing" in note for note in stopped.value.__notes__)


# -- what is no gateway ----------------------------------------------------------------------------

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer, certificate: Path | None = None) -> Iterator[tuple[str, list[Any]]]:
    """A server that answers every request in one way: its address, and what it was sent."""
    heads: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heads.append(self.headers)
            answer(self)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        scheme = "http"
        if certificate is not None:
            context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"{scheme}://127.0.0.1:{server.server_port}", heads
        finally:
            server.shutdown()
            thread.join()


def saying(body: bytes, status: int = 200, **head: str) -> Answer:
    def answer(here: BaseHTTPRequestHandler) -> None:
        here.send_response(status)
        for name, value in {**head, "Content-Length": str(len(body))}.items():
            here.send_header(name, value)
        here.end_headers()
        here.wfile.write(body)

    return answer


def as_gateway(then: Answer) -> Answer:
    """Answers who it is as a gateway does, and everything else otherwise."""

    def answer(here: BaseHTTPRequestHandler) -> None:
        known = {"status": "ok", "version": "0.3.0", "interface": client_interface()}
        (saying(json.dumps(known).encode()) if here.path == "/healthz" else then)(here)

    return answer


def client_interface() -> int:
    from dpframe.doors.gateway import INTERFACE

    return INTERFACE


def hangs_up(here: BaseHTTPRequestHandler) -> None:
    here.connection.shutdown(socket.SHUT_RDWR)


def sleeps(here: BaseHTTPRequestHandler) -> None:
    threading.Event().wait(1.0)


def breaks_off(here: BaseHTTPRequestHandler) -> None:
    here.send_response(200)
    here.send_header("Content-Length", "100")
    here.end_headers()
    here.wfile.write(b"{")


ELSEWHERE = {"Location": "http://127.0.0.1:9/login?next=x"}

STRANGE: dict[str, tuple[Answer, str]] = {
    "a page": (saying(b"<html>hello</html>"), "is no gateway of dpframe"),
    "other JSON": (saying(b'{"status": "ok"}'), "is no gateway of dpframe"),
    "a list": (saying(b"[1]"), "is no gateway of dpframe"),
    "deep JSON": (saying(b"[" * 200_000), "is no gateway of dpframe"),
    "another version": (
        saying(b'{"version": "9.1", "interface": 99}'),
        "runs dpframe 9.1, and here is",
    ),
    "not there": (saying(b"nothing", 404), "answers with status 404"),
    "a proxy": (saying(b"<html>", 502), "answers with status 502"),
    "sent on": (saying(b"", 302, **ELSEWHERE), "sends on to 127.0.0.1:9, and tokens are not"),
    "hangs up": (hangs_up, "no gateway answers|does not speak http"),
    "breaks off": (breaks_off, "no gateway answers|does not speak http"),
    "too slow": (sleeps, "gave no answer in 0.2 s. Ask again"),
    "a page later": (as_gateway(saying(b"<html>")), "is no gateway of dpframe"),
    "sent on later": (as_gateway(saying(b"", 307, **ELSEWHERE)), "tokens are not sent on"),
    "slow later": (as_gateway(sleeps), "gave no answer"),
    "no sentence": (as_gateway(saying(b'{"a": 1}', 500)), "answers with status 500"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_what_is_no_gateway_is_said(case: str) -> None:
    """Law: a sentence with the address; who is no gateway never sees the token."""
    answer, words = STRANGE[case]
    with answering(answer) as (url, heads):
        with pytest.raises(dp.SourceError, match=words) as caught:
            dp.connect(url, token=ANN, timeout=0.2)
        assert url in str(caught.value)
        assert len(str(caught.value).split()) <= 30
        if not case.endswith("later") and case != "no sentence":
            assert not any(ANN in str(head) for head in heads)


def test_who_asks_too_often_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: as long as the gateway says, if that is within the time limit; else it is an error."""
    slept: list[float] = []
    monkeypatch.setattr(gateway.time, "sleep", slept.append)
    told = {"Content-Type": "application/problem+json", "Retry-After": "7"}
    busy = saying(b'{"detail": "you sent 9 requests in a minute. Wait."}', 429, **told)

    def answer(here: BaseHTTPRequestHandler) -> None:
        (saying(b"[]") if len(slept) == 2 else busy)(here)

    with answering(as_gateway(answer)) as (url, _):
        assert dp.connect(url, token=ANN, timeout=60).datasets == {}
    assert slept == [7, 7]
    with answering(as_gateway(busy)) as (url, _), pytest.raises(dp.SourceError, match="you sent 9"):
        dp.connect(url, token=ANN, timeout=5)
    assert slept == [7, 7]


def test_a_redirect_carries_no_token_on() -> None:
    with answering(saying(b"{}")) as (other, theirs):
        onward = as_gateway(saying(b"", 307, Location=f"{other}/api/datasets"))
        with answering(onward) as (url, ours), pytest.raises(dp.SourceError, match="not sent on"):
            dp.connect(url, token=ANN)
        assert any(ANN in str(head) for head in ours)
        assert theirs == []


def test_nobody_answers_or_speaks_no_tls() -> None:
    port = free_port()
    with pytest.raises(dp.SourceError, match=f"no gateway answers at .*:{port}: Conn"):
        dp.connect(f"http://127.0.0.1:{port}", token=ANN)
    with answering(saying(b"")) as (url, _), pytest.raises(dp.SourceError, match="speak https"):
        dp.connect(url.replace("http:", "https:"), token=ANN)


def test_a_certificate_that_nobody_knows(tmp_path: Path) -> None:
    """Law: it is said, with what to do, before a token is sent."""
    write_certificate(tmp_path)
    with answering(saying(b"{}"), tmp_path / "own.pem") as (url, heads):
        with pytest.raises(dp.SourceError, match=r"not trusted: self.signed.*SSL_CERT_FILE"):
            dp.connect(url, token=ANN)
        assert heads == []


def write_certificate(folder: Path) -> None:
    """``own.pem``, a key and a certificate of 127.0.0.1 that the key itself has signed."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=1),
        extensions=[x509.Extension(address.oid, False, address)],
    ).sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    coded = serialization.Encoding.PEM
    private = key.private_bytes(coded, serialization.PrivateFormat.PKCS8, plain)
    (folder / "own.pem").write_bytes(private + made.public_bytes(coded))


def test_an_answer_that_is_no_table(ann: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"", b"nothing of Arrow", b'{"rows": []}'):
        monkeypatch.setattr(Connection, "send", lambda *_, _body=body: _body)
        with pytest.raises(dp.SourceError, match="no gateway of dpframe"):
            _data(ann).recall("x")


@pytest.mark.parametrize(
    "url",
    [
        *("data.example.org", "ftp://data.example.org", "https://", "https://ann:pw@a.org"),
        *("https://a.org/?token=x", "https://a.org:port", "http://data.example.org", "https://[a"),
        *("https://a.org/a b", "https://a.org/\n"),
    ],
)
def test_addresses_that_are_none_or_not_safe(url: str) -> None:
    with pytest.raises(dp.ParameterError, match=r"must be an address|in the clear") as caught:
        dp.connect(url, token=ANN)
    assert "pw" not in str(caught.value)


# -- tokens ----------------------------------------------------------------------------------------


def test_the_token_comes_from_the_environment(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPFRAME_TOKEN", f"{ANN}\n")
    assert "sales" in dp.connect(served.url).datasets
    monkeypatch.delenv("DPFRAME_TOKEN")
    with pytest.raises(dp.ParameterError, match="set DPFRAME_TOKEN"):
        dp.connect(served.url)
    for token in ("", "a b", "a\nb", "é"):
        with pytest.raises(dp.ParameterError, match="token is no token"):
            dp.connect(served.url, token=token)
    with pytest.raises(dp.ParameterTypeError, match="token must be text; got int"):
        dp.connect(served.url, token=5)  # type: ignore[call-overload]


def test_no_text_shows_a_token(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: neither reprs nor errors, nor tracebacks with all variables and all contexts."""
    token = "dpf_" + "very" + "secret"
    monkeypatch.setenv("DPFRAME_TOKEN", token)
    del token

    def all_of(error: BaseException | None) -> str:
        out = ""
        while error is not None:
            shown = traceback.TracebackException.from_exception(error, capture_locals=True)
            out += "".join(shown.format()) + repr(error) + str(error)
            error = error.__cause__ or error.__context__
        return out

    with pytest.raises(dp.ParameterError, match=r"knows nobody with this token. Check") as caught:
        dp.connect(served.url)
    shown = all_of(caught.value)
    assert not shown.count("very" + "secret")
    monkeypatch.undo()
    found = dp.connect(served.url, token=ANN)
    data = found.sales
    for thing in (found, data, found._connection, vars(found), vars(found._connection)):
        assert ANN not in repr(thing)
    assert repr(Secret(ANN)) == "<token>"
    for call in (
        lambda: data.hhh("who"),
        lambda: data.hhh("town", epsilon=99.0),
        lambda: data.recall("none"),
        lambda: found["none"],
        lambda: found.none,
    ):
        with pytest.raises((dp.DpframeError, AttributeError)) as refused:
            call()
        assert ANN not in all_of(refused.value)
    with answering(saying(b"<html>", 502)) as (url, _), pytest.raises(dp.SourceError) as away:
        client.RemoteData(Connection(url, Secret(ANN), 5.0), "pandas", "sales").budget()
    assert ANN not in all_of(away.value)


def test_no_proxy_sees_the_token_of_this_machine(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(saying(b"{}")) as (proxy, heads):
        monkeypatch.setenv("http_proxy", proxy)
        assert "sales" in dp.connect(served.url, token=ANN).datasets
    assert heads == []
