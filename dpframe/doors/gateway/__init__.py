"""The gateway: analysts ask and never reach the data. Here is how its client speaks with it."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any

import pyarrow as pa

from dpframe import errors
from dpframe._version import __version__
from dpframe.errors import DpframeError, ParameterError, SourceError

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"

INTERFACE = 1
"""The version of the requests and answers between client and gateway, which ``/healthz`` says."""

TOKEN = "DPFRAME_TOKEN"
"""The variable of the environment that holds the token of a call that names none."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

ASKS_AGAIN = "Ask again: what was charged already is replayed for nothing."


class Secret:
    """A token that no text shows."""

    def __init__(self, text: str) -> None:
        self._header: Callable[[], str] = lambda: f"Bearer {text}"

    def __repr__(self) -> str:
        return "<token>"

    def write_in(self, request: urllib.request.Request) -> None:
        """Put the token into the head of a request, which no redirect takes along."""
        request.add_unredirected_header("Authorization", self._header())


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because it would carry the question to another place."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Connection:
    """Sends requests to one address, and to no other.

    Raises the error of the local library for a refusal, and SourceError where no gateway answers.
    """

    def __init__(self, url: str, token: Secret, timeout: float) -> None:
        self.url, self._token, self._timeout = url, token, timeout
        handlers: list[Any] = [NoRedirect()]
        if url.startswith("http:"):  # to this machine, so that no proxy may see the token
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def check(self) -> None:
        """Ask who answers, before a token is sent. SourceError if it is no gateway of this
        version."""
        found = self.read("GET", "/healthz", private=False)
        spoken = found.get("interface") if isinstance(found, dict) else None
        if not isinstance(spoken, int) or "version" not in found:
            raise self._no_gateway()
        if spoken != INTERFACE:
            raise SourceError(
                f"the gateway at {self.url} runs dpframe {str(found['version'])[:20]}, and here is "
                f"{__version__}: they do not understand each other. Install that version here."
            )

    def read(
        self,
        method: str,
        path: str,
        given: Mapping[str, Any] | None = None,
        *,
        private: bool = True,
    ) -> Any:
        """The JSON of an answer."""
        body = self.send(method, path, given, "application/json", private=private)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise self._no_gateway() from None

    def read_table(
        self, method: str, path: str, given: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """The rows of an answer; receipt and name are in the schema's metadata."""
        body = self.send(method, path, given, ARROW)
        try:
            table = pa.ipc.open_stream(body).read_all()
        except pa.ArrowException:
            raise self._no_gateway() from None
        if b"dpframe" not in (table.schema.metadata or {}):
            raise self._no_gateway()
        return table

    def send(
        self,
        method: str,
        path: str,
        given: Mapping[str, Any] | None,
        accept: str,
        *,
        private: bool = True,
    ) -> bytes:
        """The body of an answer. Where the gateway says so, waits and sends it again."""
        body = None if given is None else json.dumps(given, allow_nan=False).encode()
        request = urllib.request.Request(self.url + path, body, {"Accept": accept}, method=method)
        if private:
            self._token.write_in(request)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        began = time.monotonic()
        try:
            while True:
                try:
                    with self._opener.open(request, timeout=self._timeout) as response:
                        found: bytes = response.read()
                        return found
                except urllib.error.HTTPError as error:
                    wait = _seconds_to_wait(error)
                    if wait is None or time.monotonic() + wait > began + self._timeout:
                        problem: DpframeError = self._refusal(error)
                        break
                time.sleep(wait)
        except (OSError, ValueError, HTTPException) as error:
            problem = self._absence(error)
        except KeyboardInterrupt as error:
            error.add_note(f"The gateway may answer the question all the same. {ASKS_AGAIN}")
            raise
        raise problem  # outside of the block: frames of urllib hold the token

    def _no_gateway(self) -> SourceError:
        return SourceError(f"{self.url} answers, but is no gateway of dpframe. Check the address.")

    def _absence(self, error: Exception) -> SourceError:
        """The error where nobody answers."""
        why = getattr(error, "reason", None) or error
        if isinstance(why, TimeoutError):
            return SourceError(
                f"the gateway at {self.url} gave no answer in {self._timeout:g} s. {ASKS_AGAIN}"
            )
        if isinstance(why, ssl.SSLCertVerificationError):
            return SourceError(
                f"the certificate of {self.url} is not trusted: {why.verify_message}. If your "
                "organisation has its own, SSL_CERT_FILE names the file."
            )
        if isinstance(why, ssl.SSLError | HTTPException):
            return SourceError(
                f"what answers at {self.url} does not speak {self.url.partition(':')[0]}. Check "
                "the address."
            )
        said = getattr(why, "strerror", None) or str(why).rstrip(".") or type(why).__name__
        return SourceError(
            f"no gateway answers at {self.url}: {said}. Check the address, or ask its owner."
        )

    def _refusal(self, error: urllib.error.HTTPError) -> DpframeError:
        """The error for an answer that is none."""
        if 300 <= error.code < 400:
            host = urllib.parse.urlsplit(error.headers.get("Location") or "").netloc or "elsewhere"
            return SourceError(
                f"{self.url} sends on to {host[:100]}, and tokens are not sent on. Connect to "
                "that address, if you trust it."
            )
        try:
            facts = json.loads(error.read())
            kind, detail = str(facts.get("error", "")), str(facts["detail"])
        except (OSError, ValueError, KeyError, AttributeError, HTTPException):
            return SourceError(
                f"{self.url} answers with status {error.code}, which no gateway does. Check the "
                "address."
            )
        if error.code == 401:
            return ParameterError(
                f"the gateway at {self.url} knows nobody with this token. Check token=, or {TOKEN}."
            )
        found = getattr(errors, kind, None)
        if not (isinstance(found, type) and issubclass(found, DpframeError)):
            found = SourceError if error.code in (429, *range(500, 600)) else ParameterError
        return found(detail)


def _seconds_to_wait(error: urllib.error.HTTPError) -> int | None:
    """How long a gateway asks to wait before the next request; None if it does not."""
    told = error.headers.get("Retry-After") or ""
    plain = told.isascii() and told.isdigit() and len(told) < 7
    return int(told) if error.code == 429 and plain else None
