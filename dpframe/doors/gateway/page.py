"""The page at ``/``, and the forms in which answers are sent.

An analyst signs in, sees what may be asked, its price, and answers.

It is one HTML document with a style sheet and scripts, which ship with the package. It loads
nothing from outside, keeps the token in the tab's own storage, and sends it as any client does. Its
policy lets no other script run, in it or in the reports that it shows in sandboxed frames.
"""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dpframe._version import __version__
from dpframe.asking.privacy_receipt import Receipt
from dpframe.doors.cli.output import write_csv
from dpframe.doors.gateway import ARROW, JSON
from dpframe.doors.gateway.gate import Gate, Reply
from dpframe.doors.gateway.policy import Analyst
from dpframe.errors import ParameterError
from dpframe.pages.page_parts import asset_text, fill_asset, text_hash
from dpframe.pages.report import report_page

CSV = "text/csv"
HTML = "text/html"

FILES = {
    "page.css": "text/css",
    "gateway.css": "text/css",
    "gateway.js": "text/javascript",
    "gateway_forms.js": "text/javascript",
    "gateway_answers.js": "text/javascript",
    "gateway_parts.js": "text/javascript",
}
"""What the document loads, with its kinds."""

REPORTS = (("shared.js", "report.js"), ("shared.js", "cells.js"))
"""The scripts of reports, each made of several files."""

OF_FILES = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of all that is loaded."""


OF_REPORT = {**OF_FILES, "Content-Security-Policy": "sandbox allow-scripts"}
"""Headers of a report, which is no page of the gateway's: what a browser opens of it is alone."""


def page_policy() -> str:
    """The policy of the document, which its reports take over: scripts and styles of the package
    alone, requests to the gateway alone, no text read as HTML but reports, no page around it."""
    scripts = " ".join(map(_hash_of, REPORTS))
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {scripts}",
            f"style-src 'self' {_hash_of(('page.css',))}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types report",
        )
    )


def _hash_of(names: tuple[str, ...]) -> str:
    return f"'sha256-{text_hash(''.join(map(asset_text, names)))}'"


def page_routes(
    gate: Gate,
    private: Callable[[Callable[[Request, Analyst], Awaitable[Response]]], Any],
    rows: Callable[[str, Callable[[], Reply]], Awaitable[Response]],
) -> list[Route]:
    """Routes of the page: the document, its files, who asks, and the report of a release.

    Parameters
    ----------
    gate
        What answers.
    private
        Makes an endpoint for analysts.
    rows
        Makes a response, of a type, of the reply that a call makes.
    """
    identity = "token" if gate.policy.identity is None else "proxy"
    document = fill_asset("gateway.html", version=__version__, identity=identity)
    headers = {**OF_FILES, "Content-Security-Policy": page_policy()}

    async def start(request: Request) -> Response:
        return Response(document, media_type=HTML, headers=headers)

    async def file(request: Request) -> Response:
        name = request.path_params["file"]
        if name not in FILES:
            raise HTTPException(404)
        return Response(asset_text(name), media_type=FILES[name], headers=OF_FILES)

    async def who(request: Request, analyst: Analyst) -> Response:
        facts = {
            "name": analyst.name,
            "group": analyst.group,
            "owner": analyst.owner,
            "speaks_for": list(analyst.speaks_for),
        }
        return JSONResponse(facts, headers=OF_FILES)

    async def report(request: Request, analyst: Analyst) -> Response:
        data, name = request.path_params["data"], request.path_params["release"]
        return await rows(HTML, partial(gate.release, analyst, data, name))

    release = "/api/datasets/{data}/releases/{release}"
    return [
        Route("/", start, methods=["GET"]),
        Route("/page/{file}", file, methods=["GET"]),
        Route("/api/analyst", private(who), methods=["GET"]),
        Route(f"{release}/page", private(report), methods=["GET"]),
    ]


def report_bytes(reply: Reply) -> bytes:
    """The report of an answer: one HTML document. ParameterError for an answer to a query."""
    if "query" in reply.receipt:
        raise ParameterError("the answer to a query has no report. Read its rows.")
    frame = reply.table.replace_schema_metadata(None).to_pandas()
    return report_page(frame, Receipt(reply.receipt)).encode(errors="replace")


# -- forms of answers -----------------------------------------------------------------------------


def arrow_bytes(reply: Reply) -> bytes:
    """A stream of Arrow; the receipt, the name and why it was free are in the schema's metadata."""
    facts = {b"release": reply.name.encode(), b"free": (reply.free or "").encode()}
    schema = reply.table.schema
    table = reply.table.replace_schema_metadata({**(schema.metadata or {}), **facts})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def csv_bytes(reply: Reply) -> bytes:
    """The rows as CSV in UTF-8, without the receipt. No cell is a formula in a spreadsheet."""
    file = io.BytesIO()
    write_csv(reply.table.replace_schema_metadata(None).to_pandas(), file, escaped=True)
    return file.getvalue()


def json_bytes(reply: Reply) -> bytes:
    """The answer as JSON; times and days as ISO 8601, NaN as null."""
    import pandas as pd

    frame = reply.table.replace_schema_metadata(None).to_pandas()
    rows = pd.DataFrame.to_json(frame, orient="records", date_format="iso", double_precision=15)
    head = {
        "release": reply.name,
        "free": reply.free,
        "columns": [{"name": f.name, "type": str(f.type)} for f in reply.table.schema],
        "receipt": reply.receipt,
    }
    return json.dumps(head)[:-1].encode() + b', "rows": ' + rows.encode() + b"}"


FORMS: dict[str, Callable[[Reply], bytes]] = {
    ARROW: arrow_bytes,
    CSV: csv_bytes,
    HTML: report_bytes,
    JSON: json_bytes,
}
"""The forms of an answer, by their type."""
