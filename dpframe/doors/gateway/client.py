"""``dp.connect``: the questions of a gateway, with the frames and receipts of the local library."""

from __future__ import annotations

import inspect
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from dpframe import errors
from dpframe.asking.card import Line
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.question import Explanation
from dpframe.asking.release import Release
from dpframe.budget import Budget
from dpframe.common.calls import known_arguments, shown_value
from dpframe.doors.accessor import DpAccessor
from dpframe.doors.sql import query
from dpframe.doors.sql.query import as_pandas
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError, SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.measures.measure import Measure

ARROW = "application/vnd.apache.arrow.stream"

LONGEST = 600.0
"""Seconds to wait for an answer."""


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """What an explanation of a gateway says of its plan: the budget and the lines of the card."""

    budget: Budget
    card: tuple[Line, ...]
    sight = None

    class unit:  # the lines say it
        user = None

    def lines(self) -> list[Line]:
        """The lines of the card."""
        return [*self.card]


class Gateway:
    """A gateway, as one analyst sees it. :func:`dpframe.connect` makes it."""

    def __init__(self, url: str, token: str, timeout: float) -> None:
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout

    def __repr__(self) -> str:
        return f"<gateway {self._url}>"

    @property
    def datasets(self) -> dict[str, RemoteData]:
        """The data sets that you may ask, by name."""
        found = self.read("GET", "/api/datasets")
        return {one["name"]: RemoteData(self, one["name"]) for one in found}

    def __getitem__(self, name: str) -> RemoteData:
        """A data set; ParameterError if there is none of this name for you."""
        data = RemoteData(self, name)
        data.describe()
        return data

    def __getattr__(self, name: str) -> RemoteData:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except ParameterError as error:
            raise AttributeError(str(error)) from None

    def read(self, method: str, path: str, given: Mapping[str, Any] | None = None) -> Any:
        """The JSON of an answer."""
        return json.loads(self.send(method, path, given, "application/json"))

    def send(self, method: str, path: str, given: Mapping[str, Any] | None, accept: str) -> bytes:
        """The body of an answer.

        Raises the error of the local library for a refusal; SourceError where no gateway answers.
        """
        body = None if given is None else json.dumps(given).encode()
        request = urllib.request.Request(self._url + path, body, method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Accept", accept)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                found: bytes = response.read()
                return found
        except urllib.error.HTTPError as error:
            raise _refusal(error.read(), error.code) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise SourceError(
                f"no gateway answers at {self._url}: {why}. Check the address, or ask its owner."
            ) from None


def _refusal(body: bytes, status: int) -> DpframeError:
    try:
        facts = json.loads(body)
        kind, detail = facts.get("error", ""), str(facts["detail"])
    except (ValueError, KeyError, AttributeError):
        return SourceError(f"the gateway answered with status {status}. Check the address.")
    found = getattr(errors, str(kind), SourceError if status >= 500 else ParameterError)
    if not (isinstance(found, type) and issubclass(found, DpframeError)):
        found = ParameterError
    return found(detail)


class RemoteData:
    """A data set of a gateway: questions, explanations, budget, releases."""

    not_given = (
        *("source", "tables", "public", "user", "bounds", "seed"),
        *("ledger", "release", "data", "progress", "candidates", "plan"),
    )

    def __init__(self, gateway: Gateway, name: str) -> None:
        self.gateway, self.name = gateway, name
        self._path = f"/api/datasets/{urllib.parse.quote(name, safe='')}"

    def __repr__(self) -> str:
        return f"<data set {self.name!r} of {self.gateway!r}>"

    def describe(self) -> dict[str, Any]:
        """What may be asked."""
        found: dict[str, Any] = self.gateway.read("GET", self._path)
        return found

    def budget(self) -> Any:
        """A frame of what is left: your share, your group's and the total."""
        import pandas as pd

        return pd.DataFrame(self.gateway.read("GET", f"{self._path}/budget"))

    def releases(self) -> Any:
        """A frame of all releases that are stored, your own and those of others."""
        import pandas as pd

        return pd.DataFrame(self.gateway.read("GET", f"{self._path}/releases"))

    def recall(self, release: str) -> Any:
        """A stored release; free."""
        path = f"{self._path}/releases/{urllib.parse.quote(release, safe='')}"
        return _frame_of(self.gateway.send("GET", path, None, ARROW))

    def ask(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """The answer to a question, as the local library returns it."""
        sent = {name: as_json(value) for name, value in arguments.items()}
        body = self.gateway.send("POST", f"{self._path}/{question}", sent, ARROW)
        return _frame_of(body)

    def explained(self, question: str, arguments: Mapping[str, Any]) -> Explanation[Any]:
        """What a question would cost and show; free."""
        sent = {name: as_json(value) for name, value in arguments.items()}
        found = self.gateway.read("POST", f"{self._path}/{question}/explain", sent)
        lines = tuple(Line(*row) for row in found["lines"])
        budget = Budget(epsilon=found["epsilon"], delta=found["delta"])
        return Explanation(PricedPlan(budget, lines))


def _method(name: str) -> Any:
    """The method of a question or of its explanation, with the signature of the accessor's."""
    explains = name.startswith("explain")
    question = {"explain": "hhh"}.get(name, name.removeprefix("explain_"))
    signature = inspect.signature(getattr(DpAccessor, name, getattr(query, name, None)))
    known = [
        p for p in signature.parameters.values() if p.name not in ("self", *RemoteData.not_given)
    ]

    def call(self: RemoteData, *args: Any, **given: Any) -> Any:
        bound = inspect.Signature(known).bind(*args, **given).arguments
        return (self.explained if explains else self.ask)(question, bound)

    call.__name__ = name
    call.__signature__ = inspect.Signature([SELF, *known])  # type: ignore[attr-defined]
    return call


SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

for _question in ("hhh", "rollup", "tree_counts", "heavy_hitters", "sql"):
    for _name in (_question, "explain" if _question == "hhh" else f"explain_{_question}"):
        setattr(RemoteData, _name, _method(_name))


def _frame_of(body: bytes) -> Any:
    table = pa.ipc.open_stream(body).read_all()
    facts = json.loads(table.schema.metadata[b"dpframe"])
    frame = as_pandas(table) if "query" in facts else table.to_pandas()
    return Release(frame, Receipt(facts)).to_frame()


def as_json(value: object) -> Any:
    """A value of Python as a gateway reads it: hierarchies and measures as their texts."""
    if isinstance(value, Hierarchy | Measure):
        return value.spec
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): as_json(one) for key, one in value.items()}
    if hasattr(value, "tolist"):  # arrays, columns and numbers of NumPy
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [as_json(one) for one in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise ParameterTypeError(f"a gateway cannot read {shown_value(value)}. Pass texts and numbers.")


@known_arguments
def connect(url: str, *, token: str, timeout: float = LONGEST) -> Gateway:
    """Connect to a gateway, which answers questions about rows that you cannot read.

    Parameters
    ----------
    url
        Its address, such as ``"https://data.example.org"``.
    token
        Your token, which its owner gave you.
    timeout
        Seconds to wait for an answer.

    Returns
    -------
    Gateway
        ``datasets`` lists what you may ask; ``gateway.sales.rollup("country", epsilon=0.1)`` asks.
        Frames and receipts are those of the local library.

    Raises
    ------
    ParameterError
        The token is unknown; or a question's arguments are not allowed, with the remedy.
    OverBudgetError
        Your share, your group's or the total has too little left.
    SourceError
        No gateway answers, or a question failed there.
    """
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ParameterError(f"url ({shown_value(url)}) must begin with http:// or https://.")
    gateway = Gateway(url, token, timeout)
    gateway.read("GET", "/api/datasets")
    return gateway
