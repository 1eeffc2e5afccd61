"""While a statement of SQL runs: charge, draw, replay, and what the ledger holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from dpframe import _duck
from dpframe.asking.plan import Counted, Plan
from dpframe.asking.release import Release, released, replayed
from dpframe.doors.sql.sessions import KINDS, Session, plan_of, session_of
from dpframe.doors.sql.types import (
    budget_rows,
    candidates,
    release_rows,
    result_rows,
)
from dpframe.errors import ParameterError, SourceError
from dpframe.noise import replaced_by
from dpframe.sources.keys import listed_counts
from dpframe.sources.sketch_states import relation_states
from dpframe.tree import CountTree


def draw(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    lists: pa.ChunkedArray,
    collations: pa.ChunkedArray,
) -> pa.Array:
    for collation in collations:
        _duck.check_collation(collation.as_py())
    _check_one(calls)
    rows = zip(tokens.to_pylist(), calls.to_pylist(), lists, strict=True)
    return pa.concat_arrays(
        [
            _released(token, call, partial(_listed, listed, tuple(json.loads(call)["types"])))
            for token, call, listed in rows
        ]
    )


def _listed(listed: pa.ListScalar, types: tuple[str, ...], plan: Any) -> Counted[CountTree]:
    tree = candidates(listed, types)
    if plan.listed is not None:
        tree = listed_counts(tree, plan.listed)
    return Counted(tree, tree.types)


def sketch(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    relations: pa.ChunkedArray,
    paths: pa.ChunkedArray,
) -> pa.Array:
    return once(_sketched, tokens, calls, relations, paths)


def _sketched(token: str, call: str, relation: str, path: str) -> pa.Array:
    con = session_of(token).opened()

    def counted(plan: Any) -> Counted[Any]:
        with _duck.beside(con, relation, path, "the source") as rows:
            return Counted(*relation_states(rows, plan))

    return _released(token, call, counted)


def once(run: Callable[..., pa.Array], tokens: pa.ChunkedArray, *more: pa.ChunkedArray) -> pa.Array:
    """``run`` of the arguments of one call; ``more`` starts with what the call is."""
    _check_one(more[0])
    rows = zip(*(c.to_pylist() for c in (tokens, *more)), strict=True)
    return pa.concat_arrays([run(*row) for row in rows])


def _check_one(calls: pa.ChunkedArray) -> None:
    """Refuse what DuckDB would run once for each of several rows."""
    if len(calls) > 1:
        kind = json.loads(calls[0].as_py()).get("kind", "hhh")
        raise ParameterError(
            f"dp_{kind} would be drawn and charged once for each of several rows, as in a subquery "
            "that uses columns from outside: join its result, or put it in a CTE."
        )


def _released(token: str, call: str, counted: Callable[[Any], Counted[Any]]) -> pa.Array:
    session, facts = session_of(token), json.loads(call)
    asked = plan_of(facts["kind"], facts["arguments"], session)
    plan = KINDS[facts["kind"]].fitted(asked, facts["source"])
    return result_rows(charged_release(session, facts, plan, partial(counted, plan)))


def charged_release(
    session: Session,
    facts: Mapping[str, Any],
    plan: Plan[Any, Any],
    counted: Callable[[], Counted[Any]],
) -> Release:
    """One release for what a statement says of its call, remembered for ``dp_releases``."""
    with replaced_by(facts["noise"]):  # that of who asked: this may be a thread of DuckDB
        result = released(
            counted,
            plan,
            source=facts["source"],
            ledger=session.ledger,
            name=facts["release"],
            data=facts["data"],
        )
    if session.ledger is None:
        session.receipts.append((result.receipt, facts["source"]))
    return result


def replay(tokens: pa.ChunkedArray, calls: pa.ChunkedArray) -> pa.Array:
    pairs = list(zip(tokens.to_pylist(), calls.to_pylist(), strict=True))
    rows = {pair: _replayed(*pair) for pair in dict.fromkeys(pairs)}
    return pa.concat_arrays([rows[pair] for pair in pairs])


def _replayed(token: str, call: str) -> pa.Array:
    session, facts = session_of(token), json.loads(call)
    stored = session.ledger.find(facts["release"]) if session.ledger is not None else None
    if stored is None:
        raise SourceError(f"release {facts['release']!r} is no longer in the ledger.")
    return result_rows(replayed(stored))


def budget(tokens: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([budget_rows(session_of(t.as_py()).ledger) for t in tokens])


def releases(tokens: pa.ChunkedArray) -> pa.Array:
    sessions = [session_of(t.as_py()) for t in tokens]
    return pa.concat_arrays([release_rows(s.ledger, s.receipts) for s in sessions])
