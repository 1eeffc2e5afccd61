"""The door for language-model agents: the questions as tools of the Model Context Protocol.

It needs ``dpframe[mcp]``. An agent sends an analyst's token, spends an analyst's budget, and sees
what an analyst sees. Each request stands alone: nothing of an agent is kept between two.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dpframe._version import __version__
from dpframe.common.calls import argument_hint
from dpframe.doors.gateway.gate import FAILED, Gate, Reply
from dpframe.doors.gateway.policy import Analyst
from dpframe.doors.gateway.policy_questions import CallDescription, call_descriptions
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError

ROWS = 200
"""The most rows that one answer shows to an agent."""

GUIDE = (
    "Private tables, answered with differential privacy: numbers are noisy, and have intervals. "
    "Every new question spends a budget that does not come back. So call list_datasets first, then "
    "releases, because what was answered before costs nothing, then explain_* to see the price and "
    "the error. Ask one broad question rather than many narrow ones. Rows that are missing are "
    "small, or not there: never read them as 0."
)

KEPT = "analyst of this request"
"""Where the state of a request holds its analyst."""

Tool = Callable[[Analyst, dict[str, Any]], dict[str, Any]]


class ToolDoor:
    """An ASGI application of one address, for tools over streamable HTTP.

    Parameters
    ----------
    gate
        What answers.
    admit
        Returns the analyst of a request, or the response that refuses it.
    read_body
        Reads and checks the body of a request, within limits of size and time.
    run
        Runs a call in a thread.
    as_json
        Writes a reply as JSON.
    """

    def __init__(
        self,
        gate: Gate,
        admit: Callable[[Request], AbstractContextManager[Analyst | Response]],
        read_body: Callable[[Request], Awaitable[bytes]],
        run: Callable[[Callable[[], Any]], Awaitable[Any]],
        as_json: Callable[[Reply], bytes],
    ) -> None:
        self._gate, self._admit, self._read_body = gate, admit, read_body
        self._run, self._as_json = run, as_json
        logging.getLogger("mcp").setLevel(logging.ERROR)  # its warnings quote arguments
        self._questions = {_tool_name(one): one for one in call_descriptions()}
        self._free: dict[str, tuple[Tool, dict[str, Any], str]] = {
            "list_datasets": (self._list, {}, "The data sets that you may ask, and what is left."),
            "describe": (self._describe, {}, "What may be asked of a data set, and what is left."),
            "budget": (self._budget, {}, "What is left: your share, your group's, and the total."),
            "releases": (
                self._releases,
                {},
                "What was answered before, by anybody: recall shows it for nothing.",
            ),
            "recall": (
                self._recall,
                RECALLED,
                f"A stored release, for nothing: {ROWS} rows from start on.",
            ),
        }
        server = Server(
            "dpframe",
            version=__version__,
            instructions=GUIDE,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self._sessions = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    def session(self) -> AbstractAsyncContextManager[None]:
        """The block within which requests are answered."""
        return self._sessions.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with self._admit(request) as admitted:
            if isinstance(admitted, Response):
                await admitted(scope, receive, send)
                return
            scope.setdefault("state", {})[KEPT] = admitted
            body: list[Message] = [{"type": "http.request", "body": await self._read_body(request)}]

            async def receive_body() -> Message:
                return body.pop() if body else await receive()

            await self._sessions.handle_request(scope, receive_body, send)

    # -- what the protocol calls ---------------------------------------------------------------

    async def _list_tools(
        self, context: ServerRequestContext[Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        analyst = _analyst_of(context)
        data = {n: one for n, one in self._gate.policy.data.items() if analyst.may_ask(n)}
        asked = {question for one in data.values() for question in one.questions}
        tools = [
            types.Tool(
                name=name,
                description=about,
                input_schema=_with_data(given, [*data] if name != "list_datasets" else []),
                annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
            )
            for name, (_, given, about) in self._free.items()
        ]
        tools += [
            types.Tool(
                name=name,
                description=one.description,
                input_schema=_with_data(one.arguments, [*data]),
                output_schema=None if one.explains else ANSWER,
                annotations=types.ToolAnnotations(
                    read_only_hint=one.explains,
                    destructive_hint=False,
                    idempotent_hint=True,
                    open_world_hint=False,
                ),
            )
            for name, one in self._questions.items()
            if one.question in asked
        ]
        return types.ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        analyst, given = _analyst_of(context), dict(params.arguments or {})
        try:
            told = await self._run(partial(self._answer, analyst, params.name, given))
        except DpframeError as error:
            return _refusal_of(str(error))
        except Exception:
            logging.getLogger("dpframe.gateway").exception("a tool failed")
            return _refusal_of(FAILED)
        return types.CallToolResult(
            content=[types.TextContent(text=json.dumps(told))], structured_content=told
        )

    def _answer(self, analyst: Analyst, name: str, given: dict[str, Any]) -> dict[str, Any]:
        if name in self._free:
            tool, schema, _ = self._free[name]
            known = ["dataset"] * (name != "list_datasets") + [*schema.get("properties", ())]
            for key in given:
                if key not in known:
                    hint = argument_hint(key, known) if known else ""
                    raise ParameterTypeError(f"{name} has no argument {key[:60]!r}.{hint}")
            return tool(analyst, given)
        if name not in self._questions:
            known = [*self._free, *self._questions]
            raise ParameterError(f"there is no tool {name[:60]!r}.{argument_hint(name, known)}")
        one, data = self._questions[name], given.pop("dataset", None)
        if one.explains:
            return self._explain(analyst, data, one.question, given)
        reply = self._gate.ask(analyst, data, one.question, given)
        return self._show_rows(analyst, data, reply, 0)

    # -- tools ---------------------------------------------------------------------------------

    def _list(self, analyst: Analyst, given: dict[str, Any]) -> dict[str, Any]:
        return {"datasets": self._gate.datasets(analyst)}

    def _describe(self, analyst: Analyst, given: dict[str, Any]) -> dict[str, Any]:
        return self._gate.describe(analyst, given.get("dataset"))

    def _budget(self, analyst: Analyst, given: dict[str, Any]) -> dict[str, Any]:
        return {"budget": self._gate.budget(analyst, given.get("dataset"))}

    def _releases(self, analyst: Analyst, given: dict[str, Any]) -> dict[str, Any]:
        rows = self._gate.releases(analyst, given.get("dataset"))
        return {**_extent(len(rows), 0, "the newest releases"), "releases": rows[:ROWS]}

    def _recall(self, analyst: Analyst, given: dict[str, Any]) -> dict[str, Any]:
        data, start = given.get("dataset"), given.get("start", 0)
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise ParameterTypeError("start must be a whole number, the first row that is shown.")
        reply = self._gate.release(analyst, data, given.get("release"))
        return self._show_rows(analyst, data, reply, start)

    def _explain(
        self, analyst: Analyst, data: Any, question: str, given: dict[str, Any]
    ) -> dict[str, Any]:
        told = self._gate.explain(analyst, data, question, given)
        lines = [dict(zip(("name", "value", "meaning"), row, strict=True)) for row in told["lines"]]
        price = {"epsilon": told["epsilon"], "delta": told["delta"]}
        return {
            "price": FREE if told["free"] else price,
            "free": told["free"],
            "card": lines,
            "budget": told["budget"],
        }

    def _show_rows(self, analyst: Analyst, data: Any, reply: Reply, start: int) -> dict[str, Any]:
        """Some rows of an answer, with what its receipt promises and what it cost."""
        part = Reply(
            name=reply.name,
            table=reply.table.slice(start, ROWS),
            receipt=reply.receipt,
            free=reply.free,
        )
        told = json.loads(self._as_json(part))
        facts, spent = reply.receipt, ("epsilon", "delta")
        return {
            "release": reply.name,
            "free": reply.free,
            "price": FREE if reply.free else {name: facts.get(name) for name in spent},
            "columns": told["columns"],
            **_extent(reply.table.num_rows, start, "the rows"),
            "rows": told["rows"],
            "receipt": {name: facts[name] for name in SUMMARY if facts.get(name) is not None},
            "budget": self._gate.budget(analyst, data),
        }


FREE = {"epsilon": 0.0, "delta": 0.0}

SUMMARY = ("guarantee", "counts", "confidence", "intervals", "mechanism", "threshold", "time")
"""Facts of a receipt that an agent sees; the gateway keeps the whole receipt with the release."""

RECALLED = {
    "properties": {
        "release": {"type": "string", "description": "The name of the release."},
        "start": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "The first row that is shown, from 0.",
        },
    },
    "required": ["release"],
}

ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "release": {"type": "string", "description": "Its name; recall shows it for nothing."},
        "free": {"type": ["string", "null"], "description": "Why it cost nothing, if so."},
        "price": {"type": "object", "description": "What it cost."},
        "columns": {"type": "array", "items": {"type": "object"}},
        "all_rows": {"type": "integer", "description": "How many rows the release has."},
        "shown": {"type": "string", "description": "Which of them are here."},
        "rows": {"type": "array", "items": {"type": "object"}},
        "receipt": {"type": "object", "description": "What is promised, and what numbers mean."},
        "budget": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["release", "free", "price", "columns", "all_rows", "shown", "rows", "receipt"],
}


def _extent(rows: int, start: int, what: str) -> dict[str, Any]:
    """How many rows there are, and which are shown."""
    end = min(rows, start + ROWS)
    shown = f"all of {what}"
    if start >= rows > 0:
        shown = f"nothing: {what} end before {start}"
    elif start > 0 or end < rows:
        more = f"; recall with start={end} shows more" if end < rows and what == "the rows" else ""
        shown = f"{start + 1:,} to {end:,} of {rows:,} of {what}{more}"
    return {"all_rows": rows, "shown": shown}


def _with_data(schema: Mapping[str, Any], data: Sequence[str]) -> dict[str, Any]:
    """A schema of arguments, with the data set first if some can be named."""
    which = {"type": "string", "enum": [*data], "description": "The data set."}
    first = {"dataset": which} if data else {}
    return {
        "type": "object",
        "properties": {**first, **schema.get("properties", {})},
        "required": [*first, *schema.get("required", ())],
        "additionalProperties": False,
    }


def _tool_name(one: CallDescription) -> str:
    return f"explain_{one.question}" if one.explains else one.question


def _analyst_of(context: ServerRequestContext[Any]) -> Analyst:
    request = context.request
    assert isinstance(request, Request)
    found = request.scope["state"][KEPT]
    assert isinstance(found, Analyst)
    return found


def _refusal_of(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=sentence)], is_error=True)
