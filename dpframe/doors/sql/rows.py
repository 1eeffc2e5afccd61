"""Functions that a statement calls when it runs: they charge, draw, replay, compare, and show the
ledger.

Each returns its rows as one list, a row as a list of texts, which the statement casts to the types
of their columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpframe import _duck
from dpframe.asking.answer import answer_checked
from dpframe.asking.level_plan import MechanismInput
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import Release, make_release, replay_of_stored
from dpframe.doors.result_methods import change
from dpframe.doors.sql.calls import NAMED, Session, about_of, plan_call, session_of
from dpframe.errors import ParameterError, SourceError
from dpframe.ledger.history import period_in
from dpframe.noise import replaced_by
from dpframe.postprocess.shown_nodes import cut_facts
from dpframe.questions.synthesize.generator import Generator
from dpframe.sources.keys import listed_counts
from dpframe.sources.rollup_statement import counts_of
from dpframe.sources.source_relations import PeriodReading, canonical

if TYPE_CHECKING:
    import pandas as pd

Facts = Mapping[str, Any]
"""The facts of a call, which the statement carries as JSON."""

TEXTS = "VARCHAR[][]"
"""DuckDB's type of the rows that a call returns."""


def draw_list(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    lists: pa.ChunkedArray,
    collations: pa.ChunkedArray,
) -> pa.Array:
    """Draw a release from one list: of candidates that the statement counted, or of rows that no
    second connection sees."""
    return _run_calls(_draw_from_list, tokens, calls, lists, collations)


def draw_relation(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    relations: pa.ChunkedArray,
    settings: pa.ChunkedArray,
    paths: pa.ChunkedArray,
) -> pa.Array:
    """Draw a release, or a generator and rows from it, from what a second connection counts."""
    return _run_calls(_draw_from_relation, tokens, calls, relations, settings, paths)


def read_released(tokens: pa.ChunkedArray, calls: pa.ChunkedArray) -> pa.Array:
    """Return rows that are released already, or of the ledger: nothing is charged or drawn."""
    made: dict[tuple[str, str], pa.Array] = {}
    for token, call in zip(tokens.to_pylist(), calls.to_pylist(), strict=True):
        if (token, call) not in made:
            facts = json.loads(call)
            made[token, call] = _text_rows(READ[facts["read"]](session_of(token), facts))
    return _concatenate([made[p] for p in zip(tokens.to_pylist(), calls.to_pylist(), strict=True)])


def _run_calls(
    draw: Callable[..., pa.Table], tokens: pa.ChunkedArray, calls: pa.ChunkedArray, *more: Any
) -> pa.Array:
    """Draw for the only call; ParameterError if DuckDB would run it once for each of several
    rows."""
    if len(calls) > 1:
        name = json.loads(calls[0].as_py()).get("question", "hhh")
        raise ParameterError(
            f"dp_{name} would be drawn and charged once for each of several rows. Join its result, "
            "or put it in a CTE."
        )
    made = []
    for token, call, *rest in zip(tokens.to_pylist(), calls.to_pylist(), *more, strict=True):
        session, facts = session_of(token), json.loads(call)
        with replaced_by(facts["noise"]):  # the caller's noise: this may be a thread of DuckDB
            made.append(_text_rows(draw(session, facts, *rest)))
    return _concatenate(made)


# -- drawing -------------------------------------------------------------------------------------


def _draw_from_list(
    session: Session, facts: Facts, listed: pa.ListScalar, collation: pa.StringScalar
) -> pa.Table:
    if facts.get("handed"):
        rows = pa.array([], listed.type.value_type) if listed.values is None else listed.values
        return _ask_source(session, facts, _duck.without_views(pa.Table.from_struct_array(rows)))
    _duck.check_collation(collation.as_py())
    question, types = NAMED[facts["question"]], tuple(facts["types"])
    plan = question.fitted(plan_call(question, facts["arguments"], session), listed)
    about = about_of(facts)
    if about.period is not None:  # as the statement reads its column
        kind = canonical(facts["time"])
        about = about.read_as(PeriodReading(period=about.period, kind=kind))
    released = make_release(
        partial(_listed_candidates, listed, types, plan),
        plan,
        source=facts["source"],
        ledger=session.ledger,
        name=facts["release"],
        about=about,
    )
    _keep_receipt(session, facts, released)
    return _as_table(released.frame)


def _listed_candidates(
    listed: pa.ListScalar, types: tuple[str, ...], plan: Any
) -> MechanismInput[Any]:
    counts = counts_of(_candidate_rows(listed), plan.hierarchy, types)
    if plan.listed_keys is not None:
        counts = listed_counts(counts.axes[0], plan.listed_keys)
    return MechanismInput(counts, types)


def _candidate_rows(listed: pa.ListScalar) -> pa.Table:
    """Return a list of candidates as a table, sorted by their numbers ``i``; SourceError if one is
    missing."""
    table = _duck.without_views(pa.Table.from_struct_array(listed.values))
    position = table["i"].to_numpy()
    if (np.diff(position) != 1).any():
        order = np.argsort(position)
        if (position[order] != np.arange(1, len(order) + 1)).any():
            raise SourceError("candidates are missing. Run the statement again.")
        table = table.take(pa.array(order))
    return table.drop_columns(["i"])


def _draw_from_relation(
    session: Session,
    facts: Facts,
    relation: pa.StringScalar,
    settings: pa.ListScalar,
    path: pa.StringScalar,
) -> pa.Table:
    """Ask as from Python, with the relation, opened on a second connection, as the source."""
    shared = {one["name"]: one["value"] for one in settings.as_py() or ()}
    with _duck.second_connection_relation(
        session.open_connection(), relation.as_py(), path.as_py(), "the source", shared
    ) as source:
        return _ask_source(session, facts, source)


def _ask_source(session: Session, facts: Facts, source: object) -> pa.Table:
    question = NAMED[facts["question"]]
    answer = answer_checked(
        question,
        plan_call(question, facts["arguments"], session),
        source,
        ledger=session.ledger,
        name=facts["release"],
        about=about_of(facts),
        progress=False,
        place=facts["source"],
    )
    released, asked = answer.release, answer.asked
    _keep_receipt(session, facts, released)
    if "n" not in facts:
        return _as_table(released.frame)
    return Generator(released, asked.wanted, asked.schema, dict(asked.dtypes)).sample_arrow(
        facts["n"]
    )


def _keep_receipt(session: Session, facts: Facts, released: Release) -> None:
    """Keep the receipt of a release for ``dp_releases`` without a ledger. With ``k`` the statement
    shows the largest rows alone, and the receipt says so."""
    if session.ledger is not None:
        return
    receipt, k = released.receipt, facts["arguments"].get("k")
    if k is not None and NAMED[facts["question"]].subject == "column":  # elsewhere k cuts no rows
        rows = int((released.frame["level"] > 0).sum())
        receipt = Receipt(cut_facts(receipt.to_dict(), min(int(k), rows), rows))
    session.receipts.append((receipt, facts["source"]))


# -- what is released already --------------------------------------------------------------------


def _replay(session: Session, facts: Facts) -> pa.Table:
    stored = session.ledger.find(facts["release"]) if session.ledger is not None else None
    if stored is None:
        raise SourceError(
            f"release {facts['release']!r} is no longer in the ledger. Run the statement again."
        )
    return _as_table(replay_of_stored(stored).frame)


def change_table(session: Session, call: Facts) -> pa.Table:
    """Return the change between two releases that the arguments of ``dp_change`` name."""
    for role in ("before", "after"):
        if not isinstance(call.get(role), str):
            raise ParameterError(
                f"{role} ({call.get(role)!r}) must be the name of a release. Write for example "
                "dp_change('sales-2026-W46', 'sales-2026-W47')."
            )
    if session.ledger is None:
        raise ParameterError(
            f"dp_change({call['before']!r}, {call['after']!r}) needs a ledger with both results. "
            "Call dpframe.register(con, ledger=...)."
        )
    options = {n: call[n] for n in ("measure", "confidence", "simultaneous") if n in call}
    return _as_table(change(call["before"], call["after"], ledger=session.ledger, **options))


BUDGET = {
    **dict.fromkeys(("ledger", "accountant"), "VARCHAR"),
    **dict.fromkeys(("epsilon", "delta", "spent_epsilon", "spent_delta"), "DOUBLE"),
    **dict.fromkeys(("left_epsilon", "left_delta", "plain_epsilon", "saved_epsilon"), "DOUBLE"),
    **dict.fromkeys(("releases", "reserved"), "BIGINT"),
    **dict.fromkeys(("unread_epsilon", "unread_delta"), "DOUBLE"),
    "protects": "VARCHAR",
}
"""Columns of ``dp_budget``, with their types."""

RELEASES = {
    "number": "BIGINT",
    **dict.fromkeys(("time", "release", "release_id", "source", "mechanism"), "VARCHAR"),
    **dict.fromkeys(("hierarchy", "neighbours"), "VARCHAR"),
    **dict.fromkeys(("epsilon", "delta"), "DOUBLE"),
    "stored": "BOOLEAN",
    **dict.fromkeys(("receipt", "period"), "VARCHAR"),
}
"""Columns of ``dp_releases``, with their types."""


def _budget(session: Session, facts: Facts) -> pa.Table:
    """Return the summary of the ledger in one row; no row without a ledger."""
    return pa.table({}) if session.ledger is None else _as_table(session.ledger.summary())


def _releases(session: Session, facts: Facts) -> pa.Table:
    """Return the releases of the ledger; without a ledger, those of the connection."""
    if session.ledger is not None:
        return _as_table(session.ledger.releases()[[*RELEASES]])
    rows = [
        {
            **{name: receipt.get(name) for name in RELEASES},
            "number": number,
            "source": source,
            "stored": False,
            "receipt": receipt.to_json(),
            "period": period_in(receipt),
        }
        for number, (receipt, source) in enumerate(session.receipts, 1)
    ]
    return pa.Table.from_pylist(rows)


READ: Mapping[str, Callable[[Session, Facts], pa.Table]] = {
    "replay": _replay,
    "change": change_table,
    "budget": _budget,
    "releases": _releases,
}


# -- rows as texts -------------------------------------------------------------------------------


def _as_table(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _text_rows(table: pa.Table) -> pa.ListArray:
    """Return a table as one list of rows, each a list of texts."""
    rows, wide = table.num_rows, table.num_columns
    columns = [column.cast(pa.string()).combine_chunks() for column in table.columns]
    order = (np.arange(rows)[:, None] + rows * np.arange(wide)).ravel()
    texts = pa.concat_arrays([pa.array([], pa.string()), *columns]).take(pa.array(order))
    listed = pa.ListArray.from_arrays(pa.array(wide * np.arange(rows + 1), pa.int32()), texts)
    return pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), listed)


def _concatenate(made: list[pa.Array]) -> pa.Array:
    none = pa.array([], pa.list_(pa.list_(pa.string())))
    return pa.concat_arrays([none, *made])
