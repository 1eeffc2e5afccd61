"""The gate: an analyst, a data set, a question and its arguments make rows and a receipt, or a
refusal. Every door of the gateway is made of it.

A refusal follows from the policy, the arguments and the budgets alone. What still fails after rows
were read is one sentence, and a quota ends it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from dpframe.asking.answer import answer_checked
from dpframe.asking.measure_texts import measures_from
from dpframe.asking.question import Question, explain_plan, plan_within_error
from dpframe.asking.release import DataScope, replay_of_stored
from dpframe.common.calls import argument_hint, shown_value
from dpframe.doors.gateway.policy import Analyst, DataSet, Policy, columns_of
from dpframe.doors.gateway.shares import (
    Memory,
    SharedLedger,
    Shares,
    check_private,
    hold_folder,
    holders,
)
from dpframe.doors.sql import query as sql_query
from dpframe.doors.sql.query_tree import read_query
from dpframe.errors import (
    ColumnError,
    DpframeError,
    LedgerError,
    OverBudgetError,
    ParameterError,
    ParameterTypeError,
    SourceError,
)
from dpframe.ledger.book import Ledger
from dpframe.questions.question_list import QUESTIONS
from dpframe.sources.frames import without_rows

NAMED: dict[str, Question[Any, Any]] = {question.name: question for question in QUESTIONS}

SET_BY_POLICY = ("user", "source", "seed")
"""Arguments of questions that no analyst gives."""

SQL_ARGUMENTS = ("query", "epsilon", "delta", "intervals", "threshold", "confidence", "period")

FAILED = (
    "the question could not be answered. The owner's log says when; nothing else is said, because "
    "it could follow from rows."
)
CLOSED = (
    "{name!r} is closed for you: too many questions failed after rows were read. Ask its owner."
)
UNKNOWN = "there is no data set {name!r} for you. dp.connect(...).datasets lists yours."


class UnknownDataError(ParameterError):
    """A data set that does not exist for the analyst."""


class ClosedError(SourceError):
    """A data set that answers no more: its quota of failures is spent, or its source changed."""


class FailedError(SourceError):
    """A question failed after rows were read. Nothing is said about why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer: rows with their receipt in the metadata of the schema.

    Parameters
    ----------
    name
        The name of the release.
    table
        The rows.
    receipt
        The facts of the receipt.
    free
        Why the answer cost nothing; None if it was drawn for this request.
    """

    name: str
    table: pa.Table
    receipt: Mapping[str, Any]
    free: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question that the policy allows, read once.

    Parameters
    ----------
    name
        The name of its release: a digest of the canonical question, the state of the rows, and what
        of the policy matters.
    data, question, arguments
        The data set, the name of the question, and its arguments with what the policy sets.
    release
        Makes the release in a ledger, from open rows, under a name.
    finish
        Makes rows for the analyst of the release, free.
    explain
        Explains it, with a ledger.
    """

    name: str
    data: DataSet
    question: str
    arguments: Mapping[str, Any]
    release: Callable[[Any, Ledger, str], Any]
    finish: Callable[[Any], pa.Table]
    explain: Callable[[Ledger], Any]


# -- the gate --------------------------------------------------------------------------------------


class Gate:
    """Answers questions about the data sets of a policy.

    Opens the ledgers in the policy's folder, which it makes. One process may hold a folder.

    Raises
    ------
    LedgerError
        The folder or a ledger cannot be used: other rights or owner, other totals, another process.
    SourceError
        Rows changed since the last run, and their state has the name of then.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._held = hold_folder(policy.folder)
        self._memory = Memory(policy.folder / "gateway.json")
        self._ledgers = {name: self._open(data) for name, data in policy.data.items()}
        self._shares = {name: Shares() for name in policy.data}
        self._prints = {name: self._memory.check_state(data) for name, data in policy.data.items()}
        self._read: OrderedDict[str, Asked] = OrderedDict()
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._lock = threading.Lock()
        self.log: deque[dict[str, Any]] = deque(maxlen=2000)

    def close(self) -> None:
        """Let another process hold the folder."""
        os.close(self._held)

    def _open(self, data: DataSet) -> Ledger:
        file = self.policy.folder / f"{data.name}.db"
        is_new = not file.exists()
        ledger = Ledger(
            file,
            epsilon=data.epsilon,
            delta=data.delta,
            accountant=data.accountant,  # type: ignore[arg-type]
            protects="records" if data.user is None else f"user:{data.user}",
        )
        if is_new:
            file.chmod(0o600)
        check_private(file, 0o600)
        return ledger

    # -- what is there -------------------------------------------------------------------------

    def data_of(self, analyst: Analyst, name: object) -> DataSet:
        """A data set that an analyst may ask; UnknownDataError for all others."""
        found = self.policy.data.get(name) if isinstance(name, str) else None
        if found is None or not analyst.may_ask(found.name):
            raise UnknownDataError(UNKNOWN.format(name=shown_value(name).strip("'\"")))
        return found

    def describe(self, analyst: Analyst, name: object) -> dict[str, Any]:
        """What may be asked of a data set, and what is left."""
        data = self.data_of(analyst, name)
        return {
            "name": data.name,
            "about": data.about,
            "protects": "one record" if data.user is None else f"one {data.user}",
            "columns": dict(data.columns),
            "levels": [level.spec for level in data.levels],
            "bounds": {key: list(pair) for key, pair in data.bounds.items()},
            "filters": list(data.filters),
            "period": data.period,
            "public": sorted(data.public),
            "keys": sorted(data.keys),
            "questions": list(data.questions),
            "largest": data.largest,
            "default": data.default,
            "state": data.state,
            "budget": self.budget(analyst, data.name),
        }

    def datasets(self, analyst: Analyst) -> list[dict[str, Any]]:
        """Every data set that an analyst may ask."""
        return [self.describe(analyst, n) for n in self.policy.data if analyst.may_ask(n)]

    def budget(self, analyst: Analyst, name: object) -> list[dict[str, Any]]:
        """Shares and total of a data set: of, epsilon, spent, left, delta_spent."""
        data = self.data_of(analyst, name)
        ledger, shares = self._ledgers[data.name], self._shares[data.name]
        rows = []
        with ledger._reading() as db:
            for holder, share, words in holders(analyst, data):
                epsilon, delta = shares.spent(db, holder)
                rows.append(_budget_row(words, share, epsilon, data.share_of_delta(share), delta))
        spent = ledger.spent
        rows.append(_budget_row("the total", data.epsilon, spent.epsilon, data.delta, spent.delta))
        return rows

    def releases(self, analyst: Analyst, name: object) -> list[dict[str, Any]]:
        """Every release that is stored: name, when it was drawn, question, epsilon, delta."""
        data = self.data_of(analyst, name)
        frame = self._ledgers[data.name].releases()
        rows = []
        for row in frame[frame["name"].notna()].to_dict("records"):
            facts = json.loads(row["receipt"])
            rows.append(
                {
                    "release": row["name"],
                    "time": facts["time"],
                    "epsilon": row["epsilon"],
                    "delta": row["delta"],
                    "mechanism": facts.get("mechanism"),
                    "hierarchy": facts.get("hierarchy"),
                    "yours": facts.get("analyst") == analyst.name,
                    **({"analyst": facts.get("analyst")} if analyst.owner else {}),
                }
            )
        return rows

    def release(self, analyst: Analyst, name: object, release: object) -> Reply:
        """A stored release, as it was drawn; free."""
        data = self.data_of(analyst, name)
        stored = self._ledgers[data.name].find(str(release))
        if stored is None:
            raise UnknownDataError(f"{data.name!r} has no release {shown_value(release)}.")
        released = replay_of_stored(stored)
        table, facts = released.to_arrow(), released.receipt.to_dict()
        return Reply(name=stored.name, table=table, receipt=facts, free=_replay_words(facts))

    # -- asking --------------------------------------------------------------------------------

    def ask(self, analyst: Analyst, name: object, question: object, arguments: Any) -> Reply:
        """Answer a question, or replay its answer.

        Raises
        ------
        UnknownDataError
            No such data set for this analyst.
        ParameterError, ParameterTypeError
            The policy or the question does not allow the arguments.
        OverBudgetError
            A share or the total has too little left. Nothing is read, charged or drawn.
        ClosedError
            The data set answers no more.
        FailedError
            Something failed after rows were read.
        """
        began = time.monotonic()
        facts = {
            "analyst": analyst.name,
            "data": shown_value(name),
            "question": shown_value(question),
        }
        try:
            asked = self.read(analyst, name, question, arguments)
            reply = self._replay(asked) or self._draw(analyst, asked, began)
        except DpframeError as error:
            self._note(facts, "refused" if not isinstance(error, FailedError) else "failed")
            raise
        self._note(
            {**facts, "release": reply.name}, "answered" if reply.free is None else "replayed"
        )
        return reply

    def explain(
        self, analyst: Analyst, name: object, question: object, arguments: Any
    ) -> dict[str, Any]:
        """What a question would cost and show: ``epsilon``, ``delta``, ``lines``, and why it would
        cost nothing, if so. Free; no row is read."""
        asked = self.read(analyst, name, question, arguments, explains=True)
        ledger = self._ledger_of(analyst, asked.data)
        explained = asked.explain(ledger)
        stored = ledger.find(asked.name)
        return {
            "release": asked.name,
            "epsilon": explained.plan.budget.epsilon,
            "delta": explained.plan.budget.delta,
            "free": None if stored is None else _replay_words(json.loads(stored.receipt)),
            "lines": [line.row for line in explained.lines],
            "budget": self.budget(analyst, asked.data.name),
        }

    def _replay(self, asked: Asked) -> Reply | None:
        """The reply of a release that is stored; None if there is none."""
        stored = self._ledgers[asked.data.name].find(asked.name)
        if stored is None:
            return None
        released = replay_of_stored(stored)
        return _reply(asked, released, _replay_words(released.receipt))

    def _ledger_of(self, analyst: Analyst, data: DataSet) -> SharedLedger:
        return SharedLedger.of(self._ledgers[data.name], analyst, data, self._shares[data.name])

    def _draw(self, analyst: Analyst, asked: Asked, began: float) -> Reply:
        data, ledger = asked.data, self._ledger_of(analyst, asked.data)
        if self._memory.failures(analyst.name, data.name) >= self.policy.failures:
            raise ClosedError(CLOSED.format(name=data.name))
        if data.fingerprint() != self._prints[data.name]:
            raise ClosedError(
                f"the rows of {data.name!r} changed while the gateway runs. Its owner must name "
                "their state in the policy, and start it again."
            )
        try:
            with data.rows() as rows:
                released = asked.release(rows, ledger, asked.name)
        except OverBudgetError:
            raise
        except LedgerError:
            raise LedgerError(
                f"the ledger of {data.name!r} cannot be used now. Nothing was shown; ask its owner."
            ) from None
        except Exception as error:
            self._memory.add_failure(analyst.name, data.name)
            self._sleep(began)
            raise FailedError(FAILED) from error
        self._sleep(began)
        replayed = released.receipt.get("replayed")
        return _reply(asked, released, _replay_words(released.receipt) if replayed else None)

    def _sleep(self, began: float) -> None:
        """Wait for the next step of the floor, so that times tell little of rows."""
        floor = self.policy.floor
        steps = math.ceil((time.monotonic() - began) / floor)
        time.sleep(max(0.0, began + steps * floor - time.monotonic()))

    def _note(self, facts: Mapping[str, Any], outcome: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.log.append({"time": now, **facts, "outcome": outcome})

    # -- reading -------------------------------------------------------------------------------

    def read(
        self,
        analyst: Analyst,
        name: object,
        question: object,
        arguments: Any,
        explains: bool = False,
    ) -> Asked:
        """Check a question by the policy. No row is read."""
        data = self.data_of(analyst, name)
        if not isinstance(question, str) or question not in data.questions:
            hint = argument_hint(str(question), data.questions)
            raise ParameterError(f"{data.name!r} answers no {shown_value(question)}.{hint}")
        if not isinstance(arguments, Mapping):
            raise ParameterTypeError(
                f"arguments must be names with values; got {shown_value(arguments)}."
            )
        try:
            key = json.dumps([data.name, question, arguments, explains], sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            raise ParameterTypeError("arguments must be values of JSON.") from None
        with self._lock:
            known = self._read.get(key)
            if known is not None:
                self._read.move_to_end(key)
                return known
        try:
            reader = read_sql if question == "sql" else partial(read_arguments, NAMED.get(question))
            asked: Asked = reader(data, arguments, explains)
        except DpframeError:
            raise
        except Exception as error:  # arguments alone were read, so that this tells no row
            self._note({"analyst": analyst.name, "error": repr(error)}, "defect")
            raise ParameterError(
                "the arguments are not understood. Compare them with the question's description."
            ) from error
        with self._lock:
            self._read[key] = asked
            while len(self._read) > 1000:
                self._read.popitem(last=False)
        return asked


def _reply(asked: Asked, released: Any, free: str | None) -> Reply:
    table = asked.finish(released)
    receipt = json.loads((table.schema.metadata or {})[b"dpframe"])
    return Reply(name=asked.name, table=table, receipt=receipt, free=free)


def _replay_words(receipt: Mapping[str, Any]) -> str:
    return f"it was drawn on {receipt['time']}"


def _budget_row(of: str, total: float, spent: float, delta: float, used: float) -> dict[str, Any]:
    left = max(0.0, total - spent)
    return {"of": of, "epsilon": total, "spent": spent, "left": left, "delta": delta} | {
        "delta_spent": used
    }


# -- questions -------------------------------------------------------------------------------------


def release_of(question: str, data: DataSet, request: Mapping[str, Any], about: DataScope) -> str:
    """The name of a release: a digest of everything that its rows follow from."""
    facts = {
        "question": question,
        "request": request,
        "about": about.request,
        "data": data.name,
        "state": data.state,
        "source": data.source.describe(""),
        "user": data.user,
    }
    text = json.dumps(facts, sort_keys=True, default=str)
    return f"{data.name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _planning(
    data: DataSet, known: Sequence[str], given: Mapping[str, Any], explains: bool
) -> tuple[dict[str, Any], Any]:
    """Arguments with what the policy sets, and the error that an explanation looks for."""
    known = [one for one in known if one not in SET_BY_POLICY]
    known += ["error"] * explains
    for name in given:
        if name not in known:
            set_by = " The policy sets it." if name in SET_BY_POLICY else argument_hint(name, known)
            raise ParameterError(f"an analyst gives no argument {name!r}.{set_by}")
    out = {key: value for key, value in given.items() if value is not None}
    error = out.pop("error", None)
    if error is None:
        out.setdefault("epsilon", data.default)
    epsilon = out.get("epsilon")
    if epsilon is not None:
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float):
            raise ParameterTypeError(f"epsilon must be a number; got {shown_value(epsilon)}.")
        if not 0 < epsilon <= data.largest:
            raise ParameterError(
                f"epsilon ({epsilon!r}) must be above 0 and at most {data.largest:g}, the largest "
                f"of a question about {data.name!r}."
            )
        out.setdefault("delta", data.share_of_delta(epsilon))
    else:
        out.setdefault("delta", data.share_of_delta(data.default))
    if "period" in out:
        out["period"] = _period(data, out["period"])
    return out, error


def _period(data: DataSet, given: Any) -> tuple[Any, ...]:
    if data.period is None:
        raise ParameterError(f"{data.name!r} has no column of periods. Leave period out.")
    parts = [data.period, given] if isinstance(given, str) else given
    if not isinstance(parts, list) or not parts or parts[0] != data.period:
        raise ParameterError(
            f"period ({shown_value(given)}) must be a text such as '2026-W47'; it is read from "
            f"{data.period!r}."
        )
    if len(parts) == 2 and data.zone is not None:
        parts = [*parts, data.zone]
    return tuple(parts)


def read_arguments(
    question: Question[Any, Any], data: DataSet, given: Mapping[str, Any], explains: bool
) -> Asked:
    """A question of the library, as a data set allows it."""
    planning, error = _planning(data, [*question.plan_arguments], given, explains)
    if data.user is not None:
        planning["user"] = data.user
    _use_lists(data, planning)
    if "measures" in planning:
        planning["measures"] = measures_from(planning["measures"], data.bounds)
    if planning.get("weight") is not None:
        _bound_weight(data, planning)
    asked, found = plan_within_error(question, planning, error)
    _check_allowed(data, asked, planning)
    about = DataScope.of({"data": data.state, "period": planning.get("period")})
    with data.rows() as rows:
        empty = without_rows(rows)
        question.checked(question.declared(asked), empty)
        explained_scope = about.read_in(empty)

    def release(rows: Any, ledger: Ledger, name: str) -> Any:
        return answer_checked(
            question,
            asked,
            rows,
            ledger=ledger,
            name=name,
            about=about,
            progress=False,
            place=data.name,
        ).release

    def explain(ledger: Ledger) -> Any:
        return explain_plan(question, question.declared(asked), found, explained_scope, ledger)

    return Asked(
        name=release_of(question.name, data, asked.request, about),
        data=data,
        question=question.name,
        arguments=planning,
        release=release,
        finish=lambda released: released.to_arrow(),
        explain=explain,
    )


def _use_lists(data: DataSet, planning: dict[str, Any]) -> None:
    """Put a public list in the place of its name; no other text names keys, such as a file."""
    keys = planning.get("keys")
    if isinstance(keys, str) and keys != "domain":
        if keys not in data.keys:
            raise ParameterError(
                f"keys ({keys!r}) is no list of {data.name!r}.{argument_hint(keys, [*data.keys])}"
            )
        planning["keys"] = data.keys[keys]


def _bound_weight(data: DataSet, planning: dict[str, Any]) -> None:
    weight = planning["weight"]
    pair = data.bounds.get(weight) if isinstance(weight, str) else None
    if pair is None:
        raise ColumnError(f"weight ({shown_value(weight)}) has no bounds in {data.name!r}.")
    if planning.setdefault("max_weight", pair[1]) != pair[1]:
        raise ParameterError(f"max_weight is {pair[1]!r} for {weight!r}. Leave it out.")


def _check_allowed(data: DataSet, asked: Any, planning: Mapping[str, Any]) -> None:
    """Refuse hierarchies and measures of columns that the policy does not name for them."""
    hierarchy = asked.hierarchy
    if not data.allows(hierarchy):
        listed = ", ".join(level.spec for level in data.levels)
        raise ColumnError(
            f"{hierarchy.spec!r} may not be asked of {data.name!r}. It has levels {listed}."
        )
    for measure in (planning.get("measures") or {}).values():
        if measure.column not in (None, *data.columns):
            raise ColumnError(
                f"{measure.spec!r} may not be asked of {data.name!r}: no such column."
            )


def read_sql(data: DataSet, given: Mapping[str, Any], explains: bool) -> Asked:
    """A query in SQL, as a data set allows it."""
    planning, error = _planning(data, SQL_ARGUMENTS, given, explains)
    period = planning.pop("period", None)
    text = planning.pop("query", None)
    if not isinstance(text, str):
        raise ParameterTypeError(f"query must be text; got {shown_value(text)}.")
    query = read_query(text)
    for option in query.options:
        if option == "privacy_unit_column":
            raise ParameterError("the policy sets privacy_unit_column. Leave it out.")
        if option in planning and option not in given:
            del planning[option]
    tables = sql_query.Tables(private={}, public=data.public)
    columns = (
        {data.name.casefold(): columns_of(data)},
        sql_query.table_columns(data.public),
    )
    asked_with = {
        "user": data.user,
        "bounds": data.bounds,
        **{name: planning.get(name) for name in ("epsilon", "delta", "intervals", "threshold")},
    }
    call = sql_query.read_call(query, *columns, asked_with)
    epsilon = call.arguments["epsilon"]
    if epsilon is not None and not 0 < epsilon <= data.largest:
        raise ParameterError(f"epsilon ({epsilon!r}) must be at most {data.largest:g}.")
    confidence = {} if "confidence" not in planning else {"confidence": planning["confidence"]}
    arguments = {**call.arguments, "threshold": planning.get("threshold"), **confidence}
    question = NAMED[call.question.question]
    asked, found = plan_within_error(question, arguments, error)
    tables.check_keys(call.question, tables.public_rows())
    about = DataScope.of({"data": data.state, "period": call.period(period, columns)})
    request = {**asked.request, "rows": call.question.rows}

    def release(rows: Any, ledger: Ledger, name: str) -> Any:
        here = replace(tables, private={call.question.table: rows})
        return sql_query.release_call(
            call, here, arguments, ledger, name, about, progress=False, place=data.name
        )

    def explain(ledger: Ledger) -> Any:
        shown = explain_plan(question, question.declared(asked), found, about, ledger)
        return replace(shown, advice=(call.line, *shown.advice))

    return Asked(
        name=release_of("sql", data, request, about),
        data=data,
        question="sql",
        arguments=arguments,
        release=release,
        finish=lambda released: sql_query.final_table(call, tables, released, None),
        explain=explain,
    )
