"""The door of the gateway over HTTP: JSON or Arrow, bearer tokens, problem details (RFC 9457)."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import os
import signal
import socket
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpframe._version import __version__
from dpframe.common.calls import shown_value
from dpframe.doors.gateway import INTERFACE, JSON
from dpframe.doors.gateway.gate import (
    ClosedError,
    FailedError,
    Gate,
    Reply,
    UnknownDataError,
)
from dpframe.doors.gateway.page import (
    FORMS,
    HTML,
    OF_FILES,
    OF_REPORT,
    json_bytes,
    page_routes,
)
from dpframe.doors.gateway.policy import Analyst, Policy
from dpframe.doors.gateway.policy_questions import openapi_document
from dpframe.doors.gateway.views import Refresher
from dpframe.errors import (
    DpframeError,
    LedgerError,
    OverBudgetError,
    ParameterError,
    ParameterTypeError,
    SourceError,
)

PROBLEM = "application/problem+json"

BODY = 64 * 1024
"""The most bytes of a request's body."""

WAITING = 20.0
"""Seconds in which a body must have come."""

AT_ONCE = 16
"""The most requests of an analyst that are answered at once, so that others find a thread."""

DEPUTY_HEADER = "dpframe-analyst"
"""The header by which a deputy names the analyst who asks, with what is no letter as %XX."""

HEAD = 10.0
"""Seconds in which the head of a request must have come."""

STATUS: tuple[tuple[type[DpframeError], int], ...] = (
    (UnknownDataError, 404),
    (OverBudgetError, 409),
    (ClosedError, 423),
    (FailedError, 503),
    (LedgerError, 503),
    (SourceError, 503),
    (ParameterError, 422),
    (ParameterTypeError, 422),
)
"""The status of each refusal; the first class that fits."""

log = logging.getLogger("dpframe.gateway")


class Door:
    """The application: routes over a gate."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._threads = anyio.CapacityLimiter(64)
        self._rates = Rates(gate.policy.rate)
        self._running: Counter[str] = Counter()

    def app(self) -> Starlette:
        """The application, for any ASGI server."""
        routes = [
            Route("/healthz", self.health, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/api/datasets", self.private(self.datasets), methods=["GET"]),
            Route("/api/datasets/{data}", self.private(self.dataset), methods=["GET"]),
            Route("/api/datasets/{data}/budget", self.private(self.budget), methods=["GET"]),
            Route("/api/datasets/{data}/releases", self.private(self.releases), methods=["GET"]),
            Route(
                "/api/datasets/{data}/releases/{release}",
                self.private(self.release),
                methods=["GET"],
            ),
            Route("/api/datasets/{data}/change", self.private(self.change), methods=["POST"]),
            Route("/api/datasets/{data}/reopen", self.private(self.reopen), methods=["POST"]),
            Route("/api/datasets/{data}/{question}", self.private(self.ask), methods=["POST"]),
            Route(
                "/api/datasets/{data}/{question}/explain",
                self.private(self.explain),
                methods=["POST"],
            ),
            Route("/api/sql", self.private(self.ask_sql), methods=["POST"]),
            Route("/api/sql/explain", self.private(self.explain_sql), methods=["POST"]),
            Route("/api/log", self.private(self.owner_log), methods=["GET"]),
            *page_routes(self.gate, self.private, self._rows),
        ]
        tools = self._tools()
        if tools is not None:
            routes.append(Route("/mcp", tools, methods=["POST"]))
        return Starlette(
            routes=routes,
            lifespan=None if tools is None else lambda _: tools.session(),
            middleware=[Middleware(RequestLog)],
            exception_handlers={
                HTTPException: _http_problem,
                DpframeError: _refusal,
                Exception: _defect,
            },
        )

    def _tools(self) -> Any:
        """The door for agents; None without the library of its protocol."""
        if find_spec("mcp_types") is None:
            return None
        from dpframe.doors.gateway.mcp import ToolDoor

        return ToolDoor(self.gate, self.admit, checked_body, self._run, json_bytes)

    # -- who asks ------------------------------------------------------------------------------

    def private(
        self, answer: Callable[[Request, Analyst], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint for analysts alone."""

        async def endpoint(request: Request) -> Response:
            with self.admit(request) as admitted:
                if isinstance(admitted, Response):
                    return admitted
                response = await answer(request, admitted)
            for name in ("Cache-Control", "X-Content-Type-Options"):
                response.headers.setdefault(name, OF_FILES[name])
            return response

        return endpoint

    @contextmanager
    def admit(self, request: Request) -> Iterator[Analyst | Response]:
        """The analyst of a request that is under way in the block, or the response that refuses
        it."""
        analyst = self.analyst_of(request)
        if analyst is None:
            yield _problem(
                401,
                "no analyst has this token. Send 'Authorization: Bearer TOKEN'.",
                headers={"WWW-Authenticate": "Bearer"},
            )
            return
        if DEPUTY_HEADER in request.headers:
            request.state.through = analyst.name
            name = ", ".join(map(unquote, request.headers.getlist(DEPUTY_HEADER)))
            if name not in analyst.speaks_for:
                yield _problem(
                    403,
                    f"{shown_value(name)} is no analyst for whom {analyst.name!r} may ask. The "
                    "policy names them: speaks_for.",
                )
                return
            analyst = replace(self.gate.policy.analysts[name], owner=False)
        wait = self._rates.wait(analyst.name)
        if wait > 0:
            yield _problem(
                429,
                f"you sent {self.gate.policy.rate} requests in a minute. Wait.",
                headers={"Retry-After": str(int(wait) + 1)},
            )
            return
        if self._running[analyst.name] >= AT_ONCE:
            yield _problem(
                429,
                f"you have {AT_ONCE} requests under way. Wait for an answer.",
                headers={"Retry-After": "1"},
            )
            return
        request.state.analyst = analyst.name
        self._running[analyst.name] += 1
        try:
            yield analyst
        finally:
            self._running[analyst.name] -= 1

    def analyst_of(self, request: Request) -> Analyst | None:
        """Whoever the token of a request belongs to, or whom the proxy in front names.

        A browser sends a proxy's cookies also where another site makes it ask: such a request names
        nobody.
        """
        policy, headers = self.gate.policy, request.headers
        kind, _, token = headers.get("authorization", "").partition(" ")
        found = policy.analyst_of(token.strip()) if kind.lower() == "bearer" and token else None
        if found is not None or policy.identity is None:
            return found
        from_elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        untyped = request.method == "POST" and "content-type" not in headers
        return None if from_elsewhere or untyped else policy.analyst_of_proxy(headers)

    async def _run(self, call: Callable[[], Any]) -> Any:
        return await anyio.to_thread.run_sync(call, limiter=self._threads)

    async def _rows(self, accepted: str, call: Callable[[], Reply]) -> Response:
        """The response to a call that makes a reply; both are made in a thread."""
        response: Response = await self._run(lambda: _rows(accepted, call()))
        return response

    # -- endpoints -----------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__, "interface": INTERFACE})

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(openapi_document())

    async def datasets(self, request: Request, analyst: Analyst) -> Response:
        return JSONResponse(await self._run(partial(self.gate.datasets, analyst)))

    async def dataset(self, request: Request, analyst: Analyst) -> Response:
        name = request.path_params["data"]
        return JSONResponse(await self._run(partial(self.gate.describe, analyst, name)))

    async def budget(self, request: Request, analyst: Analyst) -> Response:
        name = request.path_params["data"]
        return JSONResponse(await self._run(partial(self.gate.budget, analyst, name)))

    async def releases(self, request: Request, analyst: Analyst) -> Response:
        name = request.path_params["data"]
        return JSONResponse(await self._run(partial(self.gate.releases, analyst, name)))

    async def release(self, request: Request, analyst: Analyst) -> Response:
        data, name = request.path_params["data"], request.path_params["release"]
        return await self._rows(_form_of(request), partial(self.gate.release, analyst, data, name))

    async def ask(self, request: Request, analyst: Analyst) -> Response:
        given = await arguments_of(request)
        data, question = request.path_params["data"], request.path_params["question"]
        return await self._rows(
            _form_of(request), partial(self.gate.ask, analyst, data, question, given)
        )

    async def change(self, request: Request, analyst: Analyst) -> Response:
        given = await arguments_of(request)
        data = request.path_params["data"]
        return await self._rows(_form_of(request), partial(self.gate.change, analyst, data, given))

    async def reopen(self, request: Request, analyst: Analyst) -> Response:
        given = await arguments_of(request)
        name = request.path_params["data"]
        await self._run(partial(self.gate.reopen, analyst, name, given.get("analyst")))
        return Response(status_code=204)

    async def explain(self, request: Request, analyst: Analyst) -> Response:
        given = await arguments_of(request)
        data, question = request.path_params["data"], request.path_params["question"]
        return JSONResponse(
            await self._run(partial(self.gate.explain, analyst, data, question, given))
        )

    async def ask_sql(self, request: Request, analyst: Analyst) -> Response:
        given = await arguments_of(request)
        gate = self.gate
        return await self._rows(
            _form_of(request),
            lambda: gate.ask(analyst, gate.data_of_query(analyst, given), "sql", given),
        )

    async def explain_sql(self, request: Request, analyst: Analyst) -> Response:
        given = await arguments_of(request)
        gate = self.gate
        return JSONResponse(
            await self._run(
                lambda: gate.explain(analyst, gate.data_of_query(analyst, given), "sql", given)
            )
        )

    async def owner_log(self, request: Request, analyst: Analyst) -> Response:
        if not analyst.owner:
            return _problem(403, "the log is for owners. The policy names them.")
        return JSONResponse([*self.gate.log])


class Rates:
    """How often each analyst asked in the last minute."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, name: str) -> float:
        """Seconds to wait; 0 if the request may go on, which counts it."""
        now, each = time.monotonic(), self._most / 60
        with self._lock:
            left, at = self._left.get(name, (float(self._most), now))
            left = min(float(self._most), left + (now - at) * each)
            if left < 1:
                self._left[name] = (left, now)
                return (1 - left) / each
            self._left[name] = (left - 1, now)
        return 0.0


# -- requests --------------------------------------------------------------------------------------


async def arguments_of(request: Request) -> dict[str, Any]:
    """The arguments in a request's body; HTTPException for what is no plain JSON object."""
    return _object_of(await _body_of(request))


async def checked_body(request: Request) -> bytes:
    """A request's body, which is a plain JSON object; HTTPException else."""
    body = await _body_of(request)
    _object_of(body)
    return body


async def _body_of(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind.lower() != "application/json":
        raise HTTPException(415, "send arguments as application/json.")
    body = bytearray()
    try:
        with anyio.fail_after(WAITING):
            async for part in request.stream():
                body += part
                if len(body) > BODY:
                    raise HTTPException(413, f"a body may have {BODY} bytes. Send less.")
    except TimeoutError:
        raise HTTPException(408, "the body took too long. Send it again.") from None
    except ClientDisconnect:
        raise HTTPException(400, "the body is not whole.") from None
    return bytes(body)


def _object_of(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(
            body.decode() or "{}", object_pairs_hook=_unique, parse_constant=_no_number
        )
    except (ValueError, RecursionError):
        raise HTTPException(
            400, "the body is no JSON object of arguments, each once, with finite numbers."
        ) from None
    if not isinstance(given, dict):
        raise HTTPException(400, "the body must be a JSON object of arguments.")
    return given


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is there twice")
    return out


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _form_of(request: Request) -> str:
    return str(request.headers.get("accept", ""))


# -- responses -------------------------------------------------------------------------------------


def _rows(accepted: str, reply: Reply) -> Response:
    """Rows and receipt, in the form that a request accepts."""
    kind = next((one for one in FORMS if one in accepted), JSON)
    if kind not in reply.encoded:
        reply.encoded[kind] = FORMS[kind](reply)
    headers = OF_REPORT if kind == HTML else None
    return Response(reply.encoded[kind], media_type=kind, headers=headers)


def _problem(
    status: int, detail: str, error: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    facts = {"type": "about:blank", "status": status, "detail": detail}
    if error:
        facts["error"] = error
    return JSONResponse(facts, status, headers, media_type=PROBLEM)


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code in (404, 405):
        detail = "there is no such address. /openapi.json lists all."
    return _problem(error.status_code, detail, headers=error.headers)


async def _refusal(request: Request, error: Exception) -> Response:
    status = next(code for kind, code in STATUS if isinstance(error, kind))
    kind = next(k.__name__ for k in type(error).__mro__ if k.__module__ == DpframeError.__module__)
    return _problem(status, str(error), kind)


async def _defect(request: Request, error: Exception) -> Response:
    return _problem(500, "this is a defect of the gateway. Tell its owner what you sent.")


# -- the log ---------------------------------------------------------------------------------------


class RequestLog:
    """Logs each request as facts: analyst, whose token spoke for them, method, path, status and
    milliseconds; no argument, no token and nothing of an answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            state = scope.get("state", {})
            facts = {
                "analyst": state.get("analyst"),
                **({"through": state["through"]} if "through" in state else {}),
                "method": scope["method"],
                "path": scope["path"][:200],
                "status": status,
                "ms": round(1000 * (time.monotonic() - began)),
            }
            level = logging.ERROR if status >= 500 else logging.INFO
            log.log(level, "request", extra={"facts": facts})


class JsonLines(logging.Formatter):
    """A line of JSON for a record. Of an error the kind and the place: its text can quote rows."""

    def format(self, record: logging.LogRecord) -> str:
        now = datetime.fromtimestamp(record.created, UTC)
        facts: dict[str, Any] = {
            "time": now.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        facts |= getattr(record, "facts", None) or {"message": record.getMessage().split("\n")[0]}
        if record.exc_info and record.exc_info[0] is not None:
            frames = traceback.extract_tb(record.exc_info[2])
            facts |= {"error": record.exc_info[0].__name__}
            facts |= {"at": f"{frames[-1].filename}:{frames[-1].lineno}"} if frames else {}
        return json.dumps(facts)


def log_to_stderr(quiet: bool) -> None:
    """Write the log of this process to standard error; with ``quiet`` only what went wrong."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    log.setLevel(logging.ERROR if quiet else logging.INFO)


# -- serving ---------------------------------------------------------------------------------------


def serve(
    policy: Policy,
    say: Callable[[str], object] = print,
    quiet: bool = False,
    any_port: bool = False,
) -> str:
    """Answer requests until the process is told to stop; return by what.

    ``say`` is called with the address once connections are taken. Requests that are under way are
    answered. With ``any_port`` a free port serves where the policy's is taken.

    Raises
    ------
    LedgerError, SourceError
        As :class:`Gate`.
    ParameterError
        The address is taken, or is none of this machine.
    KeyboardInterrupt
        Ctrl-C, after the last answer.
    """
    import uvicorn

    told: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: told.append("SIGTERM"))
    if policy.memory is not None:
        limit_memory(policy.memory)
    log_to_stderr(quiet)
    with ExitStack() as closing:
        closing.callback(signal.signal, signal.SIGTERM, before)
        opened = closing.enter_context(open_socket(policy.address, any_port))
        gate = Gate(policy)
        closing.callback(gate.close)
        server = uvicorn.Server(
            uvicorn.Config(
                Door(gate).app(),
                http=punctual_protocol(),
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=policy.behind_proxy,
                ssl_certfile=_path_text(policy.certificate),
                ssl_keyfile=_path_text(policy.key),
                timeout_keep_alive=15,
                timeout_graceful_shutdown=math.ceil(policy.longest) + 5,
                limit_concurrency=256,
            )
        )
        views = Refresher(gate)
        closing.callback(views.stop, policy.longest + 5)
        views.start()
        say(address_text(opened, policy))
        try:
            if not told:
                server.run([opened])
        except KeyboardInterrupt as error:
            error.add_note("What was asked is answered.")
            raise
    return told[0] if told else "its server"


def limit_memory(most: int) -> None:
    """Let DuckDB take so many bytes in this process; more goes to files."""
    os.environ["DPFRAME_MEMORY_LIMIT"] = f"{most}B"


def open_socket(address: tuple[str, int], any_port: bool = False) -> socket.socket:
    """A socket that takes connections; ParameterError if there can be none."""
    host, port = address
    try:
        kind, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.create_server(place[:2], family=kind, backlog=2048)
        # connections take it over: else each answer waits 40 ms for a client's acknowledgement
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        if taken and any_port:
            return open_socket((host, 0))
        why = "is taken by another process" if taken else f"cannot be used: {error.strerror}"
        raise ParameterError(
            f"address {host}:{port} {why}. Write another one under [gateway]: address = "
            "'127.0.0.1:0' takes a free port."
        ) from None


def address_text(opened: socket.socket, policy: Policy) -> str:
    """The address of a socket, as a client writes it."""
    host, port = policy.address[0], opened.getsockname()[1]
    scheme = "http" if policy.certificate is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def punctual_protocol() -> type[asyncio.Protocol]:
    """Uvicorn's protocol, which hangs up where the head of a request takes too long: open
    connections are counted, so that slow ones would keep others out."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Punctual(H11Protocol):
        late: asyncio.TimerHandle | None = None

        @property
        def waits(self) -> bool:
            """Whether no request is under way."""
            return self.cycle is None or bool(self.cycle.response_complete)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.late = self.loop.call_later(HEAD, self.hang_up)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if not self.waits and self.late is not None:
                self.late.cancel()
                self.late = None
            elif self.waits and self.late is None:
                self.late = self.loop.call_later(HEAD, self.hang_up)

        def hang_up(self) -> None:
            self.late = None
            if self.waits and not self.transport.is_closing():
                self.transport.close()

    return Punctual


def _path_text(path: Path | None) -> str | None:
    return None if path is None else str(path)
