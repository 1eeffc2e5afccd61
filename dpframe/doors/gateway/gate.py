"""The gate: an analyst, a data set, a question and its arguments make rows and a receipt, or a
refusal. Every door of the gateway is made of it.

A refusal follows from the policy, the arguments and the budgets alone. What still fails after rows
were read is one sentence, and a quota ends it.
"""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from dpframe._duck import VIEW
from dpframe.asking.release import replay_of_stored
from dpframe.common.calls import argument_hint, shown_value
from dpframe.common.digest import CHANGE
from dpframe.common.progress import time_limit
from dpframe.common.texts import identifier
from dpframe.doors.gateway.policy import Analyst, DataSet, Policy, View, source_files
from dpframe.doors.gateway.policy_questions import (
    NAMED,
    GateQuestion,
    coarser_rows,
    empty_rows,
    read_arguments,
    read_sql,
)
from dpframe.doors.gateway.shares import (
    Memory,
    PromptLedger,
    SharedLedger,
    Shares,
    check_private,
    finish_draws,
    hold_folder,
    holders,
)
from dpframe.doors.result_methods import change
from dpframe.doors.series.declaration import FileSource
from dpframe.doors.sql.query_tree import inner_trees, read_query
from dpframe.errors import (
    DpframeError,
    LedgerError,
    OverBudgetError,
    ParameterError,
    ParameterTypeError,
    SourceError,
)
from dpframe.hierarchy import Hierarchy
from dpframe.ledger.book import Ledger, StoredResult
from dpframe.sources.row_files import PARQUET
from dpframe.sources.small_frames import MOST
from dpframe.sources.source_relations import open_source, relation_types

LISTED = 1000
"""How many releases are listed at most."""

NAME = re.compile(r"[\w-]{1,100}")
"""Names of releases."""

SLOW = 1.0
"""Seconds of a processor after which a plan has large tables of noise, and is not kept."""

PLANS = 200
"""How many plans are kept, for whoever asks again."""

COUNTED = 4
"""How many questions are counted at once."""

READING = 5.0
"""Seconds in which few rows must have been read at the start, or questions read them."""

KEPT = 2**18
"""The most bytes of an answer that stays in memory, with its question."""

FAILED = (
    "the question could not be answered. The owner's log says when; nothing else is said, because "
    "it could follow from rows."
)
CLOSED = (
    "{name!r} is closed for you: too many questions failed after rows were read. Ask its owner."
)
UNKNOWN = "there is no data set {name!r} for you. Yours: {yours}."


UNUSABLE = "the ledger cannot be used now. Nothing was shown; ask the owner."

Given = ParamSpec("Given")
T = TypeVar("T")


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
    encoded
        The bytes of forms in which it was sent, by their type.
    """

    name: str
    table: pa.Table
    receipt: Mapping[str, Any]
    free: str | None
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False)


def withhold_path(method: Callable[Given, T]) -> Callable[Given, T]:
    """The method, whose errors of a ledger name no file."""

    @wraps(method)
    def call(*args: Given.args, **given: Given.kwargs) -> T:
        try:
            return method(*args, **given)
        except OverBudgetError:
            raise
        except LedgerError:
            raise LedgerError(UNUSABLE) from None

    return call


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
        with ExitStack() as opening:
            opening.enter_context(hold_folder(policy.folder))
            self._memory = Memory(policy.folder / "gateway.json")
            self._ledgers = {name: self._open(data) for name, data in policy.data.items()}
            for name, ledger in self._ledgers.items():
                self._memory.check_ledger(name, ledger)
                finish_draws(ledger)
            self._shares = {name: Shares() for name in policy.data}
            self._prints = {
                name: self._memory.check_state(data) for name, data in policy.data.items()
            }
            self._tables = {name: _rows_in_memory(data) for name, data in policy.data.items()}
            self._empty = {
                name: _columns_relation(opening, empty_rows(data))
                for name, data in policy.data.items()
            }
            self._opened = opening.pop_all()
        self._slots = threading.BoundedSemaphore(COUNTED)
        self._flights: dict[str, threading.Event] = {}
        self._turns: dict[str, threading.Lock] = {}
        self._read: OrderedDict[str, GateQuestion] = OrderedDict()
        self._replies: WeakKeyDictionary[GateQuestion, Reply] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self.published: dict[str, str] = {}
        self.log: deque[dict[str, Any]] = deque(maxlen=2000)

    def close(self) -> None:
        """Let another process hold the folder."""
        self._opened.close()

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
            yours = ", ".join(self._names(analyst)) or "none"
            raise UnknownDataError(UNKNOWN.format(name=shown_value(name).strip("'\""), yours=yours))
        return found

    def data_of_query(self, analyst: Analyst, arguments: Mapping[str, Any]) -> str:
        """The data set that a query names.

        Raises UnknownDataError unless it names just one that the analyst may ask.
        """
        query = read_query(arguments.get("query"))
        tables = [one for one in inner_trees(query.tree) if one.get("type") == "BASE_TABLE"]
        named = {query.path_of(one)[-1].casefold() for one in tables}
        yours = self._names(analyst)
        found = [name for name in yours if name.casefold() in named]
        if len(found) != 1:
            raise UnknownDataError(
                f"the query must name one data set of yours; it names {len(found)}. Yours: "
                f"{', '.join(yours) or 'none'}."
            )
        return found[0]

    def _names(self, analyst: Analyst) -> list[str]:
        """The data sets that an analyst may ask."""
        return [name for name in self.policy.data if analyst.may_ask(name)]

    @withhold_path
    def describe(self, analyst: Analyst, name: object) -> dict[str, Any]:
        """What may be asked of a data set, and what is left."""
        data = self.data_of(analyst, name)
        return {
            "name": data.name,
            "about": data.about,
            "protects": "one record" if data.user is None else f"one {data.user}",
            "columns": dict(data.columns),
            "levels": [level.spec for level in data.levels],
            "hierarchies": [_hierarchy_facts(level) for level in data.levels],
            "bounds": {key: list(pair) for key, pair in data.bounds.items()},
            "filters": list(data.filters),
            "period": data.period,
            "public": sorted(data.public),
            "keys": sorted(data.keys),
            "questions": list(data.questions),
            "largest": data.largest,
            "default": data.default,
            "state": data.state,
            "views": [self._view_facts(v) for v in self.policy.views.values() if v.data is data],
            "budget": self.budget(analyst, data.name),
        }

    def _view_facts(self, view: View) -> dict[str, Any]:
        return {
            "name": view.name,
            "question": view.report.question.name,
            "arguments": dict(view.given),
            "unit": view.report.timing.unit,
            "first": view.report.timing.first,
            "published": self.published.get(view.data.name),
        }

    @withhold_path
    def datasets(self, analyst: Analyst) -> list[dict[str, Any]]:
        """Every data set that an analyst may ask."""
        return [self.describe(analyst, name) for name in self._names(analyst)]

    @withhold_path
    def budget(self, analyst: Analyst, name: object) -> list[dict[str, Any]]:
        """Shares and total of a data set: of, epsilon, spent, left, delta_spent."""
        data = self.data_of(analyst, name)
        ledger, shares = self._ledgers[data.name], self._shares[data.name]
        rows = []
        with ledger._reading() as db:
            for holder, share, words in holders(analyst, data):
                epsilon, delta = shares.spending(db, holder)
                rows.append(_budget_row(words, share, epsilon, data.share_of_delta(share), delta))
        spent = ledger.spent
        rows.append(_budget_row("the total", data.epsilon, spent.epsilon, data.delta, spent.delta))
        return rows

    @withhold_path
    def releases(self, analyst: Analyst, name: object) -> list[dict[str, Any]]:
        """The newest releases: name, when it was drawn, what was asked, its cost."""
        data = self.data_of(analyst, name)
        frame = self._ledgers[data.name].releases(LISTED)
        rows = []
        seen = frame["stored"] & ~frame["release"].isin([*self._flights])
        for row in frame[seen].to_dict("records"):
            facts = json.loads(row["receipt"])
            asker = facts.get("analyst")
            rows.append(
                {
                    "release": row["release"],
                    "time": facts["time"],
                    **facts.get("asked", {}),
                    "epsilon": row["epsilon"],
                    "delta": row["delta"],
                    "yours": asker == analyst.name,
                    **({"analyst": asker} if analyst.owner else {}),
                }
            )
        return rows

    @withhold_path
    def release(self, analyst: Analyst, name: object, release: object) -> Reply:
        """A stored release, as it was drawn; free. Its question must be allowed today."""
        data = self.data_of(analyst, name)
        stored, asked = self._find_stored(analyst, data, release)
        released = replay_of_stored(stored)
        found = _reply(asked, released, _replay_words(released.receipt))
        return Reply(name=stored.name, table=found.table, receipt=found.receipt, free=found.free)

    @withhold_path
    def change(self, analyst: Analyst, name: object, arguments: Any) -> Reply:
        """What changed between two stored releases, ``before`` and ``after``; free.

        Takes ``measure``, ``confidence`` and ``simultaneous`` as :func:`dpframe.change` does.
        """
        data = self.data_of(analyst, name)
        known = ("before", "after", "measure", "confidence", "simultaneous")
        if not isinstance(arguments, Mapping) or not {"before", "after"} <= {*arguments}:
            raise ParameterTypeError("a change needs before and after, names of releases.")
        given = dict(arguments)
        for key in given:
            if key not in known:
                raise ParameterError(f"a change has no {key!r}.{argument_hint(key, known)}")
        ends = [self._find_stored(analyst, data, given.pop(key))[0] for key in ("before", "after")]
        frame = change(*map(replay_of_stored, ends), **given)
        facts = {**frame.attrs[CHANGE]}
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        return Reply(
            name=f"{ends[0].name}..{ends[1].name}",
            table=table,
            receipt=facts,
            free="it follows from two releases",
        )

    def _find_stored(
        self, analyst: Analyst, data: DataSet, release: object
    ) -> tuple[StoredResult, GateQuestion]:
        """A stored result, and its question as the policy reads it today."""
        ledger = self._ledgers[data.name]
        known = isinstance(release, str) and NAME.fullmatch(release) is not None
        stored = self._find(data, str(release)) if known else None
        if stored is None:
            raise UnknownDataError(f"{data.name!r} has no release {shown_value(release)}.")
        with ledger._reading() as db:
            (text,) = db.execute(
                "SELECT receipt FROM charges WHERE release_id = ?", (stored.release_id,)
            ).fetchone()
        asked = json.loads(text).get("asked", {})
        return stored, self.read(
            analyst, data.name, asked.get("question"), asked.get("arguments", {})
        )

    # -- asking --------------------------------------------------------------------------------

    @withhold_path
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
            Something failed after rows were read. What it cost stays spent.
        """
        began = time.monotonic()
        facts = {
            "analyst": analyst.name,
            "data": name if isinstance(name, str) else shown_value(name),
            "question": question if isinstance(question, str) else shown_value(question),
        }
        try:
            asked = self.read(analyst, name, question, arguments)
            reply = None
            while reply is None:
                reply = self._free(analyst, asked)[0] or self._draw_once(analyst, asked, began)
        except FailedError as error:  # the class of an error says nothing of rows to its owner
            self.note({**facts, "error": type(error.__cause__).__name__}, "failed")
            raise
        except DpframeError as error:
            self.note({**facts, "error": type(error).__name__}, "refused")
            raise
        self.note(
            {**facts, "release": reply.name}, "answered" if reply.free is None else "replayed"
        )
        return reply

    @withhold_path
    def explain(
        self, analyst: Analyst, name: object, question: object, arguments: Any
    ) -> dict[str, Any]:
        """What a question would cost and show: ``epsilon``, ``delta``, ``lines``, and why it would
        cost nothing, if so. Free; no row is read."""
        asked = self.read(analyst, name, question, arguments, explains=True)
        free, shown = self._free(analyst, asked)
        ledger = self._ledger_of(analyst, shown)
        with self._planning_turn(analyst):
            explained = shown.explain(ledger)
        budget = self.budget(analyst, asked.data.name)
        return {
            "release": asked.name,
            "epsilon": explained.plan.budget.epsilon,
            "delta": explained.plan.budget.delta,
            "free": None if free is None else free.free,
            "lines": [line.row for line in explained.lines],
            "budget": [{**now, **then} for now, then in zip(budget, ledger.outlook, strict=True)],
        }

    def reopen(self, owner: Analyst, name: object, analyst: object) -> None:
        """Forget the failures of an analyst, or of "view NAME", so that a data set answers again.

        Raises ParameterError for who is no owner, and for what the policy lacks. An owner needs no
        share of the data set.
        """
        if not owner.owner:
            raise ParameterError("only owners reopen a data set. The policy names them.")
        data = self.data_of(owner, name)
        known = {*self.policy.analysts, *(view.holder for view in self.policy.views.values())}
        if not isinstance(analyst, str) or analyst not in known:
            raise ParameterError(f"there is no analyst {shown_value(analyst)}.")
        self._memory.forget_failures(analyst, data.name)
        self.note({"analyst": owner.name, "data": data.name, "of": analyst}, "reopened")

    def _free(self, analyst: Analyst, asked: GateQuestion) -> tuple[Reply | None, GateQuestion]:
        """The reply of a stored release of this question or of a finer one, and the question that
        it answered; None and this question where nothing is stored."""
        reply = self._replies.get(asked) or self._replay(asked)
        for arguments in asked.finer if reply is None else ():
            with suppress(DpframeError):  # a question that cannot be asked was not answered
                finer = self.read(analyst, asked.data.name, asked.question, arguments)
                known = self._replay(finer)
                if known is not None:
                    table = coarser_rows(asked, known.table, known.name)
                    why = f"it follows from release {known.name}, and {known.free}"
                    return Reply(
                        name=known.name, table=table, receipt=_facts(table), free=why
                    ), finer
        return reply, asked

    def _replay(self, asked: GateQuestion) -> Reply | None:
        """The reply of a release that is stored; None if there is none."""
        stored = self._find(asked.data, asked.name)
        if stored is None:
            return None
        released = replay_of_stored(stored)
        reply = _reply(asked, released, _replay_words(released.receipt))
        if reply.table.nbytes < KEPT:
            self._replies[asked] = reply
        return reply

    def _find(self, data: DataSet, name: str) -> StoredResult | None:
        """A stored result; None until whoever drew it has it."""
        stored = self._ledgers[data.name].find(name)
        return None if name in self._flights else stored  # in this order: it can end in between

    def _draw_once(self, analyst: Analyst, asked: GateQuestion, began: float) -> Reply | None:
        """Draw a release; None once another thread, which draws the same one, is done or failed.

        Until its answer is due nobody sees the release: when it is there tells how long rows took.
        """
        with self.flight(asked.name) as is_mine:
            return self._draw(analyst, asked, began) if is_mine else None

    @contextmanager
    def flight(self, name: str) -> Iterator[bool]:
        """Let one thread draw a release; the others wait for it.

        True in the thread that draws: nobody sees the release until its block ends. False in a
        thread that has waited: the release is there, or its draw failed.
        """
        with self._lock:
            other = self._flights.get(name)
            if other is None:
                mine = self._flights[name] = threading.Event()
        if other is not None:
            other.wait()
            yield False
            return
        try:
            yield True
        finally:
            with self._lock:
                del self._flights[name]
            mine.set()

    def _ledger_of(self, analyst: Analyst, asked: GateQuestion) -> SharedLedger:
        data, said = asked.data, {"question": asked.question, "arguments": asked.given}
        ledger, shares = self._ledgers[data.name], self._shares[data.name]
        return SharedLedger.of(ledger, shares, said).of_analyst(analyst, data)

    def ledger_of_view(self, view: View, asked: Mapping[str, Any]) -> PromptLedger:
        """The ledger for a view's release, whose entry has what is ``asked``."""
        ledger, shares = self._ledgers[view.data.name], self._shares[view.data.name]
        return PromptLedger.of(ledger, shares, {"view": view.name, **asked})

    def is_closed(self, view: View) -> bool:
        """Whether draws of a view failed too often, until an owner opens it again."""
        return self._memory.failures(view.holder, view.data.name) >= self.policy.failures

    def add_failure(self, view: View) -> None:
        """Count a draw of a view that failed after rows may have been read."""
        self._memory.add_failure(view.holder, view.data.name)

    def _draw(self, analyst: Analyst, asked: GateQuestion, began: float) -> Reply:
        data, ledger = asked.data, self._ledger_of(analyst, asked)
        if self._memory.failures(analyst.name, data.name) >= self.policy.failures:
            raise ClosedError(CLOSED.format(name=data.name))
        if not self._is_unchanged(data):
            raise ClosedError(
                f"the rows of {data.name!r} changed while the gateway runs. Its owner must name "
                "their state in the policy, and start it again."
            )
        try:
            # who waits holds no rows, and no time counts
            with self.take_slot(), ExitStack() as opening:
                rows = self._tables[data.name]
                rows = opening.enter_context(data.rows()) if rows is None else rows
                released = asked.release(rows, ledger, asked.name)
        except (OverBudgetError, LedgerError):
            raise
        except Exception as error:
            self._memory.add_failure(analyst.name, data.name)
            raise FailedError(FAILED) from error
        finally:
            self.wait_for_step(began)
        replayed = released.receipt.get("replayed")
        return _reply(asked, released, _replay_words(released.receipt) if replayed else None)

    def _is_unchanged(self, data: DataSet) -> bool:
        """Whether the files of a source are those of the start."""
        try:
            return data.fingerprint() == self._prints[data.name]
        except (OSError, DpframeError):
            return False

    @contextmanager
    def take_slot(self) -> Iterator[None]:
        """Allow some questions at a time, each for as long as the policy says."""
        with self._slots, time_limit(self.policy.longest):
            yield

    def wait_for_step(self, began: float) -> None:
        """Wait for the next step of the floor, so that times tell little of rows."""
        floor = self.policy.floor
        steps = math.ceil((time.monotonic() - began) / floor)
        time.sleep(max(0.0, began + steps * floor - time.monotonic()))

    def note(self, facts: Mapping[str, Any], outcome: str) -> None:
        """Write a line into the owner's log."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.log.append({"time": now, **facts, "outcome": outcome})

    def _planning_turn(self, analyst: Analyst) -> threading.Lock:
        """A lock for planning one question of an analyst at a time: plans hold the interpreter."""
        return self._turns.setdefault(analyst.name, threading.Lock())

    # -- reading -------------------------------------------------------------------------------

    def read(
        self,
        analyst: Analyst,
        name: object,
        question: object,
        arguments: Any,
        explains: bool = False,
    ) -> GateQuestion:
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
            call = [data.name, question, arguments, explains]
            key = json.dumps(call, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ParameterTypeError("arguments must be JSON with finite numbers.") from None
        with self._lock:
            known = self._read.get(key)
            if known is not None:
                self._read.move_to_end(key)
                return known
        began = time.thread_time()
        try:
            with self._planning_turn(analyst):
                if question == "sql":
                    asked = read_sql(data, self._empty[data.name], arguments, explains)
                else:
                    asked = read_arguments(
                        NAMED[question], data, self._empty[data.name], arguments, explains
                    )
        except DpframeError:
            raise
        except Exception as error:  # arguments alone were read, so that this tells no row
            self.note({"analyst": analyst.name, "error": repr(error)}, "defect")
            raise ParameterError(
                "the arguments are not understood. Compare them with the question's description."
            ) from error
        finally:
            is_slow = time.thread_time() - began > SLOW
            if is_slow:
                forget_tables()
        with self._lock:
            if not is_slow:
                self._read[key] = asked
            while len(self._read) > PLANS:
                self._read.popitem(last=False)
        return asked


def _rows_in_memory(data: DataSet) -> pa.Table | None:
    """The rows that are read at the start, and not before a question's charge: of SQLite and
    PostgreSQL, which are read as a whole, and of small local files of Parquet and DuckDB. None for
    sources whose rows a statement reads.

    For one seed a table answers as its file does, if DuckDB has the same types for both
    (docs/decisions/0035).
    """
    if isinstance(data.source, FileSource) and not _is_local_parquet(data):
        return None
    with data.rows() as rows:
        if isinstance(rows, pa.Table):
            return rows
        with suppress(DpframeError), time_limit(READING):  # then a question reads what it needs
            return _small_table(rows, [*data.columns])
    return None


def _columns_relation(opening: ExitStack, empty: pa.Table) -> Any:
    """Columns without rows as a relation, which tells their types faster than a table does; the
    table where DuckDB cannot read some of them. Threads share it: the questions of a gateway ask
    for its types, and run nothing over it."""
    try:
        return opening.enter_context(open_source(empty, empty.column_names))
    except DpframeError:
        return empty


def _is_local_parquet(data: DataSet) -> bool:
    files = source_files(data.source)
    return bool(files) and all(file.name.lower().endswith(PARQUET) for file in files)


def _small_table(rows: object, columns: list[str]) -> pa.Table | None:
    """Columns of a source of few rows; None if there are more, or if their types would differ."""
    with open_source(rows, columns) as relation:
        listed, types = ", ".join(map(identifier, columns)), relation_types(relation)
        table = relation.query(f"SELECT {listed} FROM {VIEW} LIMIT {MOST + 1}", False)
    with open_source(table, columns) as held:
        same = relation_types(held) == {name: types[name] for name in columns}
    return table if same and table.num_rows <= MOST else None


def forget_tables() -> None:
    """Empty what the library keeps of noise and of its costs. Tables of small epsilons have 100 MB
    each, and explanations are free: kept, they would fill the memory."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("dpframe."):
            for value in [*vars(module).values()]:
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()


def _reply(asked: GateQuestion, released: Any, free: str | None) -> Reply:
    table = asked.finish(released)
    return Reply(name=asked.name, table=table, receipt=_facts(table), free=free)


def _facts(table: pa.Table) -> dict[str, Any]:
    """The receipt in the metadata of a table."""
    found: dict[str, Any] = json.loads(table.schema.metadata[b"dpframe"])
    return found


def _replay_words(receipt: Mapping[str, Any]) -> str:
    return f"it was drawn on {receipt['time']}"


def _hierarchy_facts(level: Hierarchy) -> dict[str, Any]:
    return {
        "spec": level.spec,
        "kind": level.kind,
        "columns": [*level.source_columns],
        "levels": [*level.level_names],
    }


def _budget_row(of: str, total: float, spent: float, delta: float, used: float) -> dict[str, Any]:
    left = max(0.0, total - spent)
    return {"of": of, "epsilon": total, "spent": spent, "left": left, "delta": delta} | {
        "delta_spent": used
    }
