"""``dp.connect``: the questions of a gateway, with the frames and receipts of the local library."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import numpy as np
import pyarrow as pa

from dpframe.asking.answer import warn_of_replay
from dpframe.asking.call_arguments import flag
from dpframe.asking.card import Line
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.question import Explanation
from dpframe.asking.release import Release
from dpframe.budget import Budget
from dpframe.common.calls import import_extra, known_arguments, shown_value
from dpframe.common.digest import seal_frame
from dpframe.common.progress import part, step
from dpframe.doors.accessor import method_doc
from dpframe.doors.gateway import LOOPBACK, TOKEN, Connection, Secret
from dpframe.doors.gateway.policy import QUESTIONS_SERVED, SET_BY_POLICY
from dpframe.doors.sql.query import as_pandas, explain_sql, sql
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, as_hierarchy, is_one_hierarchy
from dpframe.measures.measure import Measure
from dpframe.periods import Period, as_period, hint_of_type, period_text
from dpframe.questions import question_list as asks
from dpframe.sources.frames import key_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from dpframe.doors.gateway.remote_questions import RemoteQuestions
else:
    RemoteQuestions = Generic  # the methods are made below; the stub has their types

F = TypeVar("F")
"""The frames of a gateway: pandas or Polars."""

LONGEST = 600.0
"""Seconds to wait for an answer."""

# -- data sets -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """What an explanation of a gateway says of its plan: the budget and the lines of the card."""

    budget: Budget
    card: tuple[Line, ...]
    sight = None

    class unit:  # the lines say it
        user = None

    class draws:  # the proof comes with the answer
        kind = None

    def lines(self) -> list[Line]:
        """The lines of the card."""
        return [*self.card]


@known_arguments
class Gateway(Generic[F]):
    """A gateway, as one analyst sees it. :func:`dpframe.connect` makes it.

    Its data sets are attributes, and items by their name: ``gateway.sales``, ``gateway["sales"]``.
    """

    def __init__(self, connection: Connection, frames: Literal["pandas", "polars"]) -> None:
        self._connection, self._frames = connection, frames
        self._known: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<gateway {self._connection.url}>"

    @property
    def datasets(self) -> dict[str, RemoteData[F]]:
        """The data sets that you may ask, by name."""
        found = self._connection.read("GET", "/api/datasets")
        self._known = tuple(one["name"] for one in found)
        return {name: RemoteData(self._connection, self._frames, name) for name in self._known}

    def __getitem__(self, name: str) -> RemoteData[F]:
        """A data set; ParameterError if there is none of this name for you."""
        data = RemoteData[F](self._connection, self._frames, name)
        if not isinstance(name, str) or not name.isidentifier():
            raise ParameterError(f"there is no data set {shown_value(name)}. datasets lists yours.")
        data.describe()
        return data

    def __getattr__(self, name: str) -> RemoteData[F]:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except ParameterError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._known})


class RemoteData(RemoteQuestions[F]):
    """A data set of a gateway: questions, explanations, budget, releases.

    The questions and their explanations are those of the local library, without the arguments that
    the policy sets. ``period`` may be a text alone: the policy names the column of times.
    """

    def __init__(
        self, connection: Connection, frames: Literal["pandas", "polars"], name: str
    ) -> None:
        self._connection, self._frames, self.name = connection, frames, name
        self._path = f"/api/datasets/{urllib.parse.quote(str(name), safe='')}"

    def __repr__(self) -> str:
        return f"<data set {self.name!r} of {self._connection.url}>"

    def describe(self) -> dict[str, Any]:
        """What may be asked: columns, levels, bounds, filters, questions, the largest epsilon."""
        found: dict[str, Any] = self._connection.read("GET", self._path)
        return found

    def budget(self) -> F:
        """A frame of what is left: your share, your group's and the total.

        Columns ``of``, ``epsilon``, ``spent``, ``left``, ``delta`` and ``delta_spent``.
        """
        found: F = self._read_list("budget", BUDGET)
        return found

    def releases(self) -> F:
        """A frame of all releases that are stored, your own and those of others.

        Columns ``release``, ``time``, ``question``, ``arguments`` (JSON), ``epsilon``, ``delta``
        and ``yours``; for owners also ``analyst``. :meth:`recall` gets one.
        """
        found: F = self._read_list("releases", RELEASES)
        return found

    def recall(self, release: str) -> F:
        """A stored release as it was drawn, by its name; free.

        Of a query in SQL these are the nodes that the query was answered from. ParameterError if
        there is no release of this name.
        """
        found: F = self._deliver(self._recall_frame(release))
        return found

    def _recall_frame(self, release: str) -> pd.DataFrame:
        if not RELEASE.fullmatch(str(release)):
            raise ParameterError(
                f"{self.name!r} has no release {shown_value(release)}. releases() lists all."
            )
        path = f"{self._path}/releases/{release}"
        return _released_of(self._connection.read_table("GET", path))[0]

    def change(
        self,
        before: Any,
        after: Any,
        *,
        measure: str | None = None,
        confidence: float | None = None,
        simultaneous: bool = True,
    ) -> F:
        """Compare two releases, as :func:`dpframe.change` does; free.

        Parameters
        ----------
        before, after
            Names of releases here, or frames that this gateway or dpframe returned.
        measure, confidence, simultaneous
            As for :func:`dpframe.change`.
        """
        from dpframe.doors.result_methods import change

        with step(f"recalling releases of {self.name}"):
            sides = [self._side(before), self._side(after)]
        found: F = self._deliver(
            change(*sides, measure=measure, confidence=confidence, simultaneous=simultaneous)
        )
        return found

    def _side(self, given: Any) -> Any:
        if isinstance(given, str):
            return self._recall_frame(given)
        if type(given).__module__.partition(".")[0] == "polars":
            from dpframe.doors.accessor import released_frame

            return released_frame(given)
        return given

    def _read_list(self, what: str, columns: Sequence[str]) -> Any:
        import pandas as pd

        rows = self._connection.read("GET", f"{self._path}/{what}")
        for row in rows:
            if "arguments" in row:
                row["arguments"] = json.dumps(row["arguments"])
        frame = pd.DataFrame(rows, columns=None if rows else list(columns))
        return self._deliver(frame)

    def _deliver(self, frame: pd.DataFrame) -> Any:
        if self._frames == "pandas":
            return frame
        from dpframe.doors.accessor import polars_result

        return polars_result(frame)

    def _ask(self, question: str, given: dict[str, Any]) -> Any:
        """The answer to a question, as the local library returns it."""
        shown = flag("progress", given.pop("progress", True))
        sent = as_request(given)
        with step(f"waiting for {self._connection.url}", shown):
            table = self._connection.read_table("POST", f"{self._path}/{question}", sent)
            with part("reading the answer"):
                frame, released, free = _released_of(table)
        if free:
            warn_of_replay(
                released,
                f"the answer cost nothing: {free}. It tells of the rows of then; "
                f"the owner of {self.name!r} says when they change.",
            )
        return self._deliver(frame)

    def _explain(self, question: str, given: dict[str, Any]) -> Explanation[Any]:
        """What a question would cost and show; free."""
        shown = flag("progress", given.pop("progress", True))
        sent = as_request(given)
        with step(f"waiting for {self._connection.url}", shown):
            found = self._connection.read("POST", f"{self._path}/{question}/explain", sent)
        lines = [Line(*row) for row in found["lines"]]
        if found["free"]:
            paid = Line(IN_LEDGER, "nothing to pay", f"{found['free']}: you would see that answer")
            lines = [*(line for line in lines if line.id != IN_LEDGER), paid]
        budget = Budget(epsilon=found["epsilon"], delta=found["delta"])
        return Explanation(PricedPlan(budget, tuple(lines)))


BUDGET = ("of", "epsilon", "spent", "left", "delta", "delta_spent")
RELEASES = ("release", "time", "question", "arguments", "epsilon", "delta", "yours")
IN_LEDGER = "in the ledger"
RELEASE = re.compile(r"[\w-]{1,200}", re.ASCII)


def _released_of(table: pa.Table) -> tuple[pd.DataFrame, Release, str]:
    """The frame of an answer, its release, and why it was free; no text if it was not."""
    facts = json.loads(table.schema.metadata[b"dpframe"])
    free = table.schema.metadata.get(b"free", b"").decode()
    frame = as_pandas(table) if "query" in facts else table.to_pandas()
    frame.attrs = {}
    released = Release(frame, Receipt(facts))
    return seal_frame(frame.copy(), facts), released, free


# -- arguments -------------------------------------------------------------------------------------


def as_request(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as a gateway reads them; what is left out is not sent."""
    about = next((given[name] for name in ("hierarchy", "by") if name in given), None)
    out = {}
    for name, value in given.items():
        if value is None:
            continue
        if name == "keys":
            out[name] = _keys(value, about)
        elif name == "period":
            out[name] = _period(value)
        else:
            out[name] = as_json(value, name)
    return out


def _keys(keys: Any, about: Any) -> Any:
    """Listed keys as texts and numbers: a list of values, or of lists where columns are several."""
    if isinstance(keys, str) or about is None or not is_one_hierarchy(about):
        return as_json(keys, "keys")
    table = key_table(keys, as_hierarchy(about))
    columns = [[as_json(v, "keys") for v in column.to_pylist()] for column in table.columns]
    return columns[0] if len(columns) == 1 else [list(row) for row in zip(*columns, strict=True)]


def _period(given: Any) -> Any:
    if isinstance(given, tuple | list | Period):
        found = as_period(given).request
        return found if found[2] is not None else found[:2]
    text = period_text(given)
    if not isinstance(text, str):
        raise ParameterTypeError(
            f"period ({shown_value(given)}) must be a text such as '2026-W47', a day, or a pandas "
            f"Period.{hint_of_type(given)}"
        )
    return text


def as_json(value: Any, name: str) -> Any:
    """A value of Python as a gateway reads it: hierarchies and measures as their texts, numbers and
    lists of NumPy, pandas, Polars and Arrow as plain ones.

    Raises ParameterError for NaN and infinity, and ParameterTypeError for what has no such form.
    """
    if isinstance(value, Hierarchy | Measure) or type(value).__name__ == "Cells":
        return value.spec
    if isinstance(value, np.generic | Decimal | Fraction):
        value = _plain_number(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(f"{name} ({value!r}) must be finite. Leave it out for the default.")
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return str(value) if value == value else as_json(math.nan, name)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): as_json(one, name) for key, one in value.items()}
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(value, method):
            value = getattr(value, method)()
            break
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [as_json(one, name) for one in value]
    raise ParameterTypeError(
        f"{name} ({shown_value(value)}) cannot be sent to a gateway. Pass texts and numbers."
    )


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        import pandas as pd

        return pd.Timestamp(value)
    return value.item() if isinstance(value, np.generic) else float(value)


# -- questions -------------------------------------------------------------------------------------

NOT_GIVEN = (
    *(*SET_BY_POLICY, "tables", "public", "bounds"),
    *("ledger", "release", "data", "candidates", "plan"),
)
"""Arguments that the policy sets, or that only the owner of rows can give."""

PERIOD = "str | date | pd.Period | tuple[Any, ...] | Period | None"
"""The type of ``period`` where the policy names the column."""

OF_GATEWAY = (
    "The policy sets the largest epsilon, and epsilon and delta of a question that names none.",
    "``period`` may be a text, a day or a Period of pandas alone.",
    "A finer rollup that was answered answers this one for nothing; ``derive=False`` draws anew.",
)
"""What the methods of a gateway do otherwise; the last line for rollups."""

SERVED: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    asking: (getattr(asks, asking), getattr(asks, explaining))
    for _, asking, explaining in asks.ROOMS.values()
    if asking in QUESTIONS_SERVED
} | {"sql": (sql, explain_sql)}
"""Each question with the functions that ask and explain it in the local library."""


def remote_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function's method of a remote data set."""
    signature = inspect.signature(function)
    taken = [
        p.replace(annotation=PERIOD) if p.name == "period" else p
        for p in signature.parameters.values()
        if p.name not in NOT_GIVEN
    ]
    if "progress" not in signature.parameters:
        taken.append(inspect.signature(sql).parameters["progress"])
    if function in SERVED["rollup"]:
        by_name = inspect.Parameter.KEYWORD_ONLY
        taken.append(inspect.Parameter("derive", by_name, default=True, annotation="bool"))
    about = taken[0].replace(default=taken[0].empty)  # nothing has counted it elsewhere
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return signature.replace(parameters=[own, about, *taken[1:]])


def remote_method(question: str, function: Callable[..., Any], explains: bool) -> Any:
    """The method of a remote data set that asks or explains a question: the signature and the
    docstring are the function's, without what the policy sets."""
    signature = remote_signature(function)

    def method(self: RemoteData[Any], *args: Any, **given: Any) -> Any:
        bound = dict(signature.bind(self, *args, **given).arguments)
        del bound["self"]
        return (self._explain if explains else self._ask)(question, bound)

    method.__name__ = function.__name__
    method.__qualname__ = f"RemoteData.{function.__name__}"
    end = "\n".join(OF_GATEWAY if "derive" in signature.parameters else OF_GATEWAY[:-1])
    method.__doc__ = method_doc(function.__doc__ or "", [*signature.parameters], end)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


for _question, (_asks, _explains) in SERVED.items():
    setattr(RemoteData, _asks.__name__, remote_method(_question, _asks, False))
    setattr(RemoteData, _explains.__name__, remote_method(_question, _explains, True))
known_arguments(RemoteData)


# -- connecting ------------------------------------------------------------------------------------


@overload
def connect(
    url: str,
    *,
    token: str | None = None,
    frames: Literal["pandas"] = "pandas",
    timeout: float = LONGEST,
) -> Gateway[pd.DataFrame]: ...
@overload
def connect(
    url: str, *, token: str | None = None, frames: Literal["polars"], timeout: float = LONGEST
) -> Gateway[pl.DataFrame]: ...
@known_arguments
def connect(
    url: str,
    *,
    token: str | None = None,
    frames: Literal["pandas", "polars"] = "pandas",
    timeout: float = LONGEST,
) -> Gateway[Any]:
    """Connect to a gateway, which answers questions about rows that you cannot read.

    Parameters
    ----------
    url
        Its address, such as ``"https://data.example.org"``; ``http://`` only for this machine.
    token
        Your token, which its owner gave you; by default the variable DPFRAME_TOKEN of the
        environment. It goes to this address alone: no redirect is followed.
    frames
        The frames of answers: "pandas" (default) or "polars".
    timeout
        Seconds to wait for an answer.

    Returns
    -------
    Gateway
        ``datasets`` lists what you may ask; ``gateway.sales.rollup("country", epsilon=0.1)`` asks.
        Frames and receipts are those of the local library, and :func:`verify`, pages, plots,
        ``share``, ``top`` and :func:`change` work on them.

    Raises
    ------
    ParameterError
        The token is unknown; or a question's arguments are not allowed, with the remedy.
    OverBudgetError
        Your share, your group's or the total has too little left.
    SourceError
        No gateway of this version answers, or a question failed there.
    """
    address = _checked_address(url)
    secret = _checked_token(token)
    if frames not in ("pandas", "polars"):
        raise ParameterError(f"frames ({shown_value(frames)}) must be 'pandas' or 'polars'.")
    if frames == "polars":
        import_extra("polars", "frames='polars' needs Polars. Run pip install polars.")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ParameterError(f"timeout ({shown_value(timeout)}) must be seconds, above 0.")
    connection = Connection(address, secret, min(float(timeout), 1e6))
    with step(f"connecting to {address}"):
        connection.check()
        gateway = Gateway[Any](connection, frames)
        _ = gateway.datasets
    return gateway


def _checked_address(url: object) -> str:
    if not isinstance(url, str):
        raise ParameterTypeError(f"url must be text; got {shown_value(url)}.")
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urllib.parse.urlsplit("")
    plain = not (parts.query or parts.fragment or parts.username or parts.password)
    printable = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not host or not plain or not printable:
        raise ParameterError(
            "url must be an address such as 'https://data.example.org', without name, password or "
            "query."
        )
    if parts.scheme == "http" and host not in LOOPBACK:
        raise ParameterError(
            f"url ({url!r}) would send your token in the clear. Use https://, or a tunnel to this "
            "machine."
        )
    return url.rstrip("/")


def _checked_token(token: object) -> Secret:
    found = os.environ.get(TOKEN) if token is None else token
    if found is None:
        raise ParameterError(f"connect needs your token. Pass token=, or set {TOKEN}.")
    if not isinstance(found, str):
        raise ParameterTypeError(f"token must be text; got {type(found).__name__}.")
    found = found.strip()
    if not (found and found.isascii() and found.isprintable() and " " not in found):
        raise ParameterError("token is no token: it has one line without blanks. Copy it again.")
    return Secret(found)
