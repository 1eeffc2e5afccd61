"""Tools for agents, over HTTP, by the client of the protocol's own library."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

import dpframe as dp
from dpframe.doors.gateway.policy_questions import call_descriptions
from tests.gateway.conftest import ANN, BEN, EVE, Served

pytest.importorskip("mcp_types")

import anyio
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from dpframe.doors.gateway import mcp


def told(served: Served, token: str, steps: Callable[[Any], Any], mode: str = "auto") -> Any:
    """What some steps of a client return, which has connected with a token."""

    async def run() -> Any:
        head = {"Authorization": f"Bearer {token}"}
        async with create_mcp_http_client(headers=head) as http:
            transport = streamable_http_client(f"{served.url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                return await steps(client)

    return anyio.run(run)


def called(served: Served, token: str, name: str, mode: str = "auto", **given: Any) -> Any:
    """The structured content of a tool's answer, or the sentence of its refusal."""

    async def call(client: Any) -> Any:
        found = await client.call_tool(name, given)
        if found.is_error:
            (one,) = found.content
            return str(one.text)
        assert json.loads(found.content[0].text) == found.structured_content
        return found.structured_content

    return told(served, token, call, mode)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_finds_the_tools_and_asks(served: Served, mode: str) -> None:
    """Law: the questions with the schemas of their declarations, the analyst's data sets, and the
    rows of ``dp.connect`` for the same question; both ages of the protocol."""

    async def look(client: Any) -> Any:
        assert "budget" in client.instructions
        return (await client.list_tools()).tools

    tools = {one.name: one for one in told(served, ANN, look, mode)}
    named = {f"{'explain_' * one.explains}{one.question}": one for one in call_descriptions()}
    assert {*tools} == {"list_datasets", "describe", "budget", "releases", "recall", *named}
    for name, one in named.items():
        properties = dict(tools[name].input_schema["properties"])
        assert properties.pop("dataset")["enum"] == ["sales", "people", "flights"]
        assert properties == one.arguments["properties"]
        assert one.summary in tools[name].description
        assert tools[name].annotations.read_only_hint is one.explains
    found = called(served, ANN, "rollup", mode, dataset="sales", by="town", measures="sum(paid)")
    wanted = dp.connect(served.url, token=ANN).sales.rollup("town", "sum(paid)")
    assert [row["sum_paid"] for row in found["rows"]] == wanted["sum_paid"].tolist()
    assert found["all_rows"] == len(wanted)
    assert found["shown"] == "all of the rows"
    assert found["receipt"]["guarantee"] == wanted.dp.receipt["guarantee"]
    assert [row["of"] for row in found["budget"]] == ["your share", "the total"]


def test_an_analyst_sees_own_data_sets(served: Served) -> None:
    found = called(served, EVE, "list_datasets")
    assert [one["name"] for one in found["datasets"]] == ["sales"]
    assert "no data set 'people' for you" in called(served, EVE, "describe", dataset="people")
    assert called(served, EVE, "describe", dataset="sales")["about"] == "What shops sold."
    assert called(served, EVE, "budget", dataset="sales")["budget"][0]["epsilon"] == 1.0


def test_a_price_comes_before_the_question(served: Served) -> None:
    """Law: explanations cost nothing, and say what the question then costs."""
    asked = {"dataset": "sales", "hierarchy": "shop", "epsilon": 0.55}
    before = called(served, ANN, "budget", dataset="sales")
    plan = called(served, ANN, "explain_hhh", **asked)
    assert plan["price"]["epsilon"] == 0.55
    assert plan["free"] is None
    assert called(served, ANN, "budget", dataset="sales") == before
    assert called(served, ANN, "hhh", **asked)["price"] == plan["price"]
    again = called(served, ANN, "explain_hhh", **asked)
    assert again["price"]["epsilon"] == 0
    assert "drawn on" in again["free"]
    cheapest = {"dataset": "sales", "column": "town", "error": 40}
    assert 0 < called(served, ANN, "explain_heavy_hitters", **cheapest)["price"]["epsilon"] < 4


def test_an_answer_of_somebody_else_costs_nothing(served: Served) -> None:
    """Law: another analyst gets the same rows, by the question and by its name."""
    query = "SELECT shop, count(*) AS n FROM sales GROUP BY shop"
    first = called(served, ANN, "sql", dataset="sales", query=query)
    second = called(served, BEN, "sql", dataset="sales", query=query)
    assert first["free"] is None
    assert "drawn on" in second["free"]
    assert second["price"] == {"epsilon": 0.0, "delta": 0.0}
    assert second["rows"] == first["rows"]
    kept = called(served, BEN, "releases", dataset="sales")["releases"]
    assert {"release": first["release"], "yours": False}.items() <= next(
        row for row in kept if row["release"] == first["release"]
    ).items()
    assert called(served, BEN, "recall", dataset="sales", release=first["release"])["free"]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("hhh", {"hierarchy": "town", "epsilon": 1.9}, "share"),
        ("hhh", {"hierarchy": "town", "epsilon": 9.0}, "at most 4"),
        ("hhh", {"hierarchy": "who"}, "may not be asked"),
        ("hhh", {"hierarchy": "town", "treshold": 3}, "Did you mean 'threshold'"),
        ("hhh", {"hierarchy": "town", "user": "who"}, "The policy sets it"),
        ("rollup", {"by": "town", "measures": "sum(paid, 0, 9)"}, "the policy sets upper"),
        ("sql", {"query": "SELECT * FROM sales"}, "GROUP BY"),
        ("recall", {"release": "x"}, "no release 'x'"),
        ("recall", {"release": "x", "start": -1}, "start must be a whole number"),
        ("budget", {"of": "all"}, "budget has no argument 'of'"),
        ("hhhh", {}, "no tool 'hhhh'. Did you mean 'hhh'"),
    ],
)
def test_refusals_are_sentences(served: Served, name: str, given: Any, words: str) -> None:
    """Law: an error of the tool with the sentence that ``dp.connect`` raises; nothing is spent."""
    before = called(served, EVE, "budget", dataset="sales")
    assert words in called(served, EVE, name, dataset="sales", **given)
    assert called(served, EVE, "budget", dataset="sales") == before
    if name == "hhh" and "treshold" not in given and "user" not in given:
        with pytest.raises(dp.DpframeError) as refused:
            dp.connect(served.url, token=EVE).sales.hhh(**given)
        assert str(refused.value) == called(served, EVE, name, dataset="sales", **given)


def test_long_answers_are_cut_and_say_so(served: Served) -> None:
    """Law: the cap, how many there are, and how the rest is seen for nothing."""
    asked = {"dataset": "sales", "hierarchy": "number:paid?lower=0&upper=64", "epsilon": 4.0}
    found = called(served, ANN, "tree_counts", **asked, keys="domain")
    assert found["all_rows"] > mcp.ROWS == len(found["rows"])
    assert found["shown"].startswith(f"1 to {mcp.ROWS} of ")
    rest = called(served, ANN, "recall", dataset="sales", release=found["release"], start=mcp.ROWS)
    assert len(rest["rows"]) == min(mcp.ROWS, found["all_rows"] - mcp.ROWS)
    beyond = called(served, ANN, "recall", dataset="sales", release=found["release"], start=10**9)
    assert beyond["rows"] == []
    assert "nothing" in beyond["shown"]


def test_no_token_no_tools(served: Served) -> None:
    """Law: a wrong token is refused at each request, before anything of the protocol is read."""
    for token in ("dpf_wrong", ""):
        with pytest.raises(BaseException) as refused:  # noqa: PT011  groups of groups
            called(served, token, "list_datasets")
        assert "sales" not in str(refused.value)
        assert post(served, token, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}')[0] == 401


def post(served: Served, token: str, body: bytes, method: str = "POST") -> tuple[int, bytes]:
    head = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    request = urllib.request.Request(f"{served.url}/mcp", body, head, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"no JSON", 400),
        (b"[]", 400),
        (b"[" * 60_000, 400),
        (b'{"jsonrpc": "2.0", "jsonrpc": "2.0"}', 400),
        (b'{"jsonrpc": "2.0", "id": NaN}', 400),
        (b'{"a": "' + b"x" * 70_000 + b'"}', 413),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}', 200),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 3}}', 200),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}', 400),
    ],
)
def test_bodies_that_are_no_request(served: Served, body: bytes, status: int) -> None:
    """Law: refused with the status of the protocol; never 500, and nothing of the inside."""
    found, said = post(served, ANN, body)
    assert found in (status, 400, 404)
    assert b"Traceback" not in said
    assert str(served.folder).encode() not in said


def test_no_stream_stays_open(served: Served) -> None:
    """Law: there is one way to ask, so that no client holds a connection for nothing."""
    for method in ("GET", "DELETE"):
        assert post(served, ANN, b"", method)[0] == 405
