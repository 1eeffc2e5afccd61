"""Functions that a SQL statement calls when it runs: charge, draw, replay, show the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from dpframe import _duck
from dpframe.asking.answer import Answer, answer_checked
from dpframe.asking.data_scope import DataScope
from dpframe.asking.plan_protocols import MechanismInput
from dpframe.asking.release import Release, make_release, replay_of_stored
from dpframe.doors.sql.calls import NAMED, about_of, plan_call
from dpframe.doors.sql.sessions import Session, session_of
from dpframe.doors.sql.types import (
    budget_rows,
    candidate_rows,
    release_rows,
    result_rows,
    text_rows,
    tree_of_candidates,
)
from dpframe.errors import ParameterError, SourceError
from dpframe.hierarchy import Cells
from dpframe.noise import replaced_by
from dpframe.questions.synthesize.generator import Generator
from dpframe.sources.cell_table import cells_of
from dpframe.sources.keys import listed_counts
from dpframe.sources.period_source import PeriodReading
from dpframe.sources.source_relations import canonical

Facts = Mapping[str, Any]
"""The facts of a call, which the statement carries as JSON."""

Settings = Sequence[Mapping[str, str]] | None
"""Names and values of the statement's connection settings, which a second connection takes over."""


def draw_candidates(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    lists: pa.ChunkedArray,
    collations: pa.ChunkedArray,
) -> pa.Array:
    """Draw a release from the candidates that the statement counted."""
    return _draw_lists(result_rows, tokens, calls, lists, collations)


def draw_cells(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    lists: pa.ChunkedArray,
    collations: pa.ChunkedArray,
) -> pa.Array:
    """Draw a release from cells that the statement counted; rows are texts, for any columns."""
    return _draw_lists(_release_texts, tokens, calls, lists, collations)


def _draw_lists(
    shown: Callable[[Release], pa.Array],
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    lists: pa.ChunkedArray,
    collations: pa.ChunkedArray,
) -> pa.Array:
    for collation in collations:
        _duck.check_collation(collation.as_py())
    _check_one(calls)
    rows = zip(tokens.to_pylist(), calls.to_pylist(), lists, strict=True)
    return pa.concat_arrays([shown(_draw_release(*row)) for row in rows])


def _draw_release(token: str, call: str, listed: pa.ListScalar) -> Release:
    session, facts = session_of(token), json.loads(call)
    question = NAMED[facts["question"]]
    plan = question.fitted(plan_call(question, facts["arguments"], session), listed)
    with replaced_by(facts["noise"]):  # the caller's noise: this may be a thread of DuckDB
        result = make_release(
            partial(_listed_candidates, listed, tuple(facts["types"]), plan),
            plan,
            source=facts["source"],
            ledger=session.ledger,
            name=facts["release"],
            about=_about_as_read(facts),
        )
    return _keep_receipt(session, facts, result)


def _about_as_read(facts: Facts) -> DataScope:
    """Return what a call says about its data, and how the statement reads the period's column."""
    about = about_of(facts)
    if about.period is None:
        return about
    return about.read_as(PeriodReading(period=about.period, kind=canonical(facts["time"])))


def _listed_candidates(
    listed: pa.ListScalar, types: tuple[str, ...], plan: Any
) -> MechanismInput[Any]:
    if isinstance(plan.hierarchy, Cells):
        cells = cells_of(candidate_rows(listed), plan.hierarchy, types)
        return MechanismInput(cells, types)
    tree = tree_of_candidates(listed, types)
    if plan.listed_keys is not None:
        tree = listed_counts(tree, plan.listed_keys)
    return MechanismInput(tree, tree.types)


def draw_from_relation(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    relations: pa.ChunkedArray,
    settings: pa.ChunkedArray,
    paths: pa.ChunkedArray,
) -> pa.Array:
    """Draw a release from what a second connection counts."""
    return _run_only_call(
        partial(_draw_one_relation, result_rows), tokens, calls, relations, settings, paths
    )


def _draw_one_relation(
    shown: Callable[[Release], pa.Array],
    token: str,
    call: str,
    relation: str,
    settings: Settings,
    path: str,
) -> pa.Array:
    session, facts = session_of(token), json.loads(call)
    with replaced_by(facts["noise"]):
        return shown(_ask_relation(session, facts, relation, settings, path).release)


def draw_measures(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    relations: pa.ChunkedArray,
    settings: pa.ChunkedArray,
    paths: pa.ChunkedArray,
) -> pa.Array:
    """Draw a release from what a second connection counts; rows are texts, for any columns."""
    return _run_only_call(
        partial(_draw_one_relation, _release_texts), tokens, calls, relations, settings, paths
    )


def _release_texts(release: Release) -> pa.Array:
    return text_rows(pa.Table.from_pandas(release.frame, preserve_index=False))


def draw_handed_rows(
    tokens: pa.ChunkedArray, calls: pa.ChunkedArray, lists: pa.ChunkedArray
) -> pa.Array:
    """Draw a release from rows that come as one list, because no second connection sees them. The
    rows of the result are texts, for any columns."""
    return _draw_from_list(_release_texts, pa.list_(pa.list_(pa.string())), tokens, calls, lists)


def draw_handed_nodes(
    tokens: pa.ChunkedArray, calls: pa.ChunkedArray, lists: pa.ChunkedArray
) -> pa.Array:
    """Draw a release of nodes from rows that come as one list, because no second connection sees
    these rows."""
    return _draw_from_list(result_rows, pa.null(), tokens, calls, lists)


def _draw_from_list(
    shown: Callable[[Release], pa.Array],
    kind: pa.DataType,
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    lists: pa.ChunkedArray,
) -> pa.Array:
    _check_one(calls)
    if not len(calls):
        return pa.array([], kind)
    session, facts = session_of(tokens[0].as_py()), json.loads(calls[0].as_py())
    (listed,) = lists
    rows = pa.array([], lists.type.value_type) if listed.values is None else listed.values
    source = _duck.without_views(pa.Table.from_struct_array(rows))
    with replaced_by(facts["noise"]):
        return shown(_ask_source(session, facts, source).release)


def sample_rows(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    relations: pa.ChunkedArray,
    settings: pa.ChunkedArray,
    paths: pa.ChunkedArray,
) -> pa.Array:
    """Draw a generator from what a second connection counts; return synthetic rows from it."""
    return _run_only_call(_sample_one_relation, tokens, calls, relations, settings, paths)


def _sample_one_relation(
    token: str, call: str, relation: str, settings: Settings, path: str
) -> pa.Array:
    session, facts = session_of(token), json.loads(call)
    with replaced_by(facts["noise"]):
        answer = _ask_relation(session, facts, relation, settings, path)
        asked = answer.asked
        generator = Generator(answer.release, asked.wanted, asked.schema, dict(asked.dtypes))
        return text_rows(generator.sample_arrow(facts["n"]))


def _ask_relation(
    session: Session, facts: Facts, relation: str, settings: Settings, path: str
) -> Answer[Any]:
    """Ask as from Python, with the relation, opened on a second connection, as the source."""
    shared = {one["name"]: one["value"] for one in settings or ()}
    with _duck.second_connection_relation(
        session.opened(), relation, path, "the source", shared
    ) as source:
        return _ask_source(session, facts, source)


def _ask_source(session: Session, facts: Facts, source: object) -> Answer[Any]:
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
    _keep_receipt(session, facts, answer.release)
    return answer


def _keep_receipt(session: Session, facts: Facts, result: Release) -> Release:
    """Keep the receipt of a release for ``dp_releases`` without a ledger; return the release."""
    if session.ledger is None:
        session.receipts.append((result.receipt, facts["source"]))
    return result


def _run_only_call(
    run: Callable[..., pa.Array], tokens: pa.ChunkedArray, *more: pa.ChunkedArray
) -> pa.Array:
    """Call ``run`` with the arguments of the only call; ``more`` begins with the call's facts."""
    _check_one(more[0])
    calls = zip(*(c.to_pylist() for c in (tokens, *more)), strict=True)
    return pa.concat_arrays([run(*call) for call in calls])


def _check_one(calls: pa.ChunkedArray) -> None:
    """Raise ParameterError for a call that DuckDB would run once for each of several rows."""
    if len(calls) > 1:
        name = json.loads(calls[0].as_py()).get("question", "hhh")
        raise ParameterError(
            f"dp_{name} would be drawn and charged once for each of several rows. Join its result, "
            "or put it in a CTE."
        )


def replay(tokens: pa.ChunkedArray, calls: pa.ChunkedArray) -> pa.Array:
    return _replay_each(tokens, calls, result_rows)


def replay_measured(tokens: pa.ChunkedArray, calls: pa.ChunkedArray) -> pa.Array:
    return _replay_each(tokens, calls, _release_texts)


def _replay_each(
    tokens: pa.ChunkedArray, calls: pa.ChunkedArray, shown: Callable[[Release], pa.Array]
) -> pa.Array:
    pairs = list(zip(tokens.to_pylist(), calls.to_pylist(), strict=True))
    rows = {pair: shown(_replay_release(*pair)) for pair in dict.fromkeys(pairs)}
    return pa.concat_arrays([rows[pair] for pair in pairs])


def _replay_release(token: str, call: str) -> Release:
    session, facts = session_of(token), json.loads(call)
    stored = session.ledger.find(facts["release"]) if session.ledger is not None else None
    if stored is None:
        raise SourceError(
            f"release {facts['release']!r} is no longer in the ledger. Run the statement again."
        )
    return replay_of_stored(stored)


def budget_lists(tokens: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([budget_rows(session_of(t.as_py()).ledger) for t in tokens])


def release_lists(tokens: pa.ChunkedArray) -> pa.Array:
    sessions = [session_of(t.as_py()) for t in tokens]
    return pa.concat_arrays([release_rows(s.ledger, s.receipts) for s in sessions])
