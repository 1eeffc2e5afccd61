"""``dp.sql`` and ``dp.explain_sql``: the SQL that people write, answered privately."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe import _duck
from dpframe.asking.answer import PLANNING, find_answer, warn_of_replay
from dpframe.asking.call_arguments import column_name, flag, release_name
from dpframe.asking.card import Line
from dpframe.asking.question import Explanation, explain_plan, plan_within_error
from dpframe.asking.release import (
    DataScope,
    Release,
    make_release,
    replay_of_stored,
    require_ledger,
)
from dpframe.common.calls import known_arguments, shown_value
from dpframe.common.digest import seal_frame
from dpframe.common.progress import step
from dpframe.common.texts import identifier
from dpframe.doors.sql.query_expressions import Columns, Roles
from dpframe.doors.sql.query_groups import (
    ANSWER,
    RECORD,
    SqlQuestion,
    read_question,
)
from dpframe.doors.sql.query_rows import PRIVATE, USER, RowReader
from dpframe.doors.sql.query_tree import Query, is_reserved, read_query, refused_depth
from dpframe.errors import ParameterError, ParameterTypeError, SourceError
from dpframe.ledger import chosen_ledger
from dpframe.questions.question_list import QUESTIONS
from dpframe.sources.frames import is_spark, package_of, refuse_spark, without_rows
from dpframe.sources.source_relations import (
    describe_source,
    open_source,
    relation_types,
)

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period

NAMED = {question.name: question for question in QUESTIONS}


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that a query may name."""

    private: Mapping[str, Any]
    public: Mapping[str, Any]

    @classmethod
    def of(cls, tables: object, public: object) -> Tables:
        """Check the arguments ``tables`` and ``public``."""
        found: list[dict[str, Any]] = []
        shared = {} if public is None else public
        for what, given in (("tables", tables), ("public", shared)):
            if not isinstance(given, Mapping) or not all(isinstance(n, str) for n in given):
                raise ParameterTypeError(
                    f"{what} must map names to frames or paths, such as {{'sales': frame}}; got "
                    f"{shown_value(given)}."
                )
            found.append(dict(given))
        names = [name.casefold() for one in found for name in one]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ParameterError(f"table {twice[0]!r} is named twice. Give it one name.")
        reserved = [name for name in names if is_reserved(name)]
        if reserved or not found[0]:
            raise ParameterError(
                f"tables needs a private table whose name does not begin with dpframe_; got "
                f"{[*found[0]]!r}."
            )
        for source in (*found[0].values(), *found[1].values()):
            if is_spark(source):
                refuse_spark(source)
        return cls(*found)

    def columns(self) -> tuple[dict[str, Columns], dict[str, Columns]]:
        """Columns and types of private and of public tables. No row is read."""
        private, public = map(table_columns, (self.private, self.public))
        return private, public

    def public_rows(self) -> dict[str, pa.Table]:
        """The public tables in memory."""
        out = {}
        for name, source in self.public.items():
            types = _types(source)
            with open_source(source, [*types]) as relation:
                listed = _as_declared(types, relation)
                out[name] = relation.query(f"SELECT {listed} FROM {_duck.VIEW}", False)
        return out

    @staticmethod
    def check_keys(asked: SqlQuestion, rows: Mapping[str, pa.Table]) -> None:
        """Raise ParameterError if a key of a public table occurs twice."""
        for key in asked.keys:
            key.check(_duck.select_from_tables(rows, key.repeated, "the public tables"))


def table_columns(tables: Mapping[str, Any]) -> dict[str, Columns]:
    """Columns and types of tables. No row is read."""
    return {name.casefold(): Columns(name, _types(source)) for name, source in tables.items()}


def _types(source: Any) -> dict[str, str]:
    empty = without_rows(source)
    if isinstance(empty, str) or hasattr(empty, "__fspath__"):
        columns: list[str] = []
    elif package_of(empty) == "polars" and hasattr(empty, "collect_schema"):
        columns = empty.collect_schema().names()
    else:
        columns = [*getattr(empty, "column_names", getattr(empty, "columns", ()))]
    with open_source(empty, columns) as relation:
        return plain_types(relation_types(relation))


def plain_types(types: Mapping[str, str]) -> dict[str, str]:
    """Types of columns, with texts in the place of types that an empty table cannot have: those of
    pandas, and of values of the data. ParameterError for names that a query cannot tell apart."""
    names = [name.casefold() for name in types]
    if any(is_reserved(name) or names.count(name) > 1 for name in names):
        raise ParameterError(
            "names of columns must differ in more than case, and not begin with dpframe_. Rename "
            "columns."
        )
    other = ("PANDAS", "ENUM", '"NULL"', "JSON")
    return {name: "VARCHAR" if kind.startswith(other) else kind for name, kind in types.items()}


def _as_declared(types: Mapping[str, str], relation: _duck.Relation) -> str:
    """SQL of columns in the types that the query was read with, whatever the rows brought."""
    found = relation_types(relation)
    return ", ".join(
        identifier(name)
        if found.get(name) == kind
        else f"TRY_CAST({identifier(name)} AS {kind}) AS {identifier(name)}"
        for name, kind in types.items()
    )


@known_arguments
def sql(
    query: str,
    tables: Mapping[str, object],
    *,
    public: Mapping[str, object] | None = None,
    user: str | None = None,
    bounds: Mapping[str, tuple[object, object]] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    intervals: bool | None = None,
    threshold: float | None = None,
    confidence: float = 0.95,
    period: str | tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """The answer to a query in SQL, differentially private.

    The query is one SELECT that groups the rows of a private table: by columns, expressions,
    ``ROLLUP``, ``CUBE`` or ``GROUPING SETS``. It is read into a question, :func:`rollup` or
    :func:`hhh`, and is never run beside the rows. What stands after the grouping (HAVING, ORDER BY,
    LIMIT, arithmetic on aggregates, windows, outer queries) runs on released rows, and costs
    nothing.

    Parameters
    ----------
    query
        The text, in the dialect of DuckDB. BigQuery's ``SELECT WITH DIFFERENTIAL_PRIVACY
        OPTIONS(epsilon = 1, delta = 1e-6, privacy_unit_column = customer_id)`` and
        ``contribution_bounds_per_group => (0, 500)`` are read, too.
    tables
        Private tables by name, of which the query names one: sources as for :func:`hhh`.
    public
        Public tables by name. They are joined by a key that no two of their rows have.
    user
        Column that identifies a person; all rows of one person are protected together.
        ``count(*)`` still counts rows, and ``count(DISTINCT user)`` counts people. In means and
        quantiles each person weighs 1, divided over their rows.
    bounds
        Bounds of the values of sums, means and quantiles, by column, by aggregate
        (``"sum(amount)"``) or by the name of the result's column. With ``user``, bounds of a sum
        are of what a person has at one row of the result, and of the root of the sum of their
        squares over rows; ``"*"`` bounds their number of rows. ``"auto"`` as an end of a sum finds
        it privately. Constants bound themselves: ``sum(CASE WHEN ... THEN 1 ELSE 0 END)``.
    epsilon, delta
        As for :func:`rollup`. Without GROUP BY nothing of delta is used.
    intervals
        Whether ``NAME_lower`` and ``NAME_upper`` stand beside each aggregate. Default True.
    period
        As for :func:`rollup`; or the name of a column of times alone: its days are then those to
        which WHERE limits it, so that a ledger charges them as a period.
    threshold, confidence, ledger, release, data, progress
        As for :func:`rollup`.

    Returns
    -------
    pandas.DataFrame
        The columns that the query names, in its order. Keys have the types of the query, counts
        are int64, sums and means float64. Small groups are missing. The receipt is in
        ``attrs["dp"]`` and ``result.dp.receipt``; it holds the query.

    Raises
    ------
    ParameterError
        What cannot be answered; it names the part of the query, its place, and what to write.
    ParameterTypeError, SourceError, LedgerError
        As :func:`hhh`.

    Privacy
    -------
    As :func:`rollup`, for adding or removing one record of the private table, or one user. Public
    are: the query, every argument, names and types of columns, and public tables. Expressions of
    one row fail on no value: a cast that fails, or a number that is too large, is NULL.

    References
    ----------
    As :func:`rollup`.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> sales = pd.DataFrame({"country": ["FR"] * 600 + ["DE"] * 400, "amount": 10.0})
    >>> asked = "SELECT country, sum(amount) AS revenue FROM sales GROUP BY ROLLUP (country)"
    >>> bounds = {"amount": (0, 50)}
    >>> result = dp.sql(asked, {"sales": sales}, bounds=bounds, epsilon=1.0, delta=1e-6)
    >>> list(result.columns)
    ['country', 'revenue', 'revenue_lower', 'revenue_upper']
    """
    with step(PLANNING, flag("progress", progress)):
        known = Tables.of(tables, public)
        given = {"user": user, "bounds": bounds, "epsilon": epsilon, "delta": delta}
        given |= {"intervals": intervals, "threshold": threshold}
        columns = known.columns()
        call = read_call(read_query(query), *columns, given)
        planning = {
            **call.arguments,
            "threshold": threshold,
            "confidence": confidence,
        }
        kept, name = chosen_ledger(ledger), release_name(release)
        about = DataScope.of({"data": data, "period": call.period(period, columns)})
        released = release_call(call, known, planning, kept, name, about, progress)
    warn_of_replay(released)
    table = final_table(call, known, released, name)
    return seal_frame(as_pandas(table), json.loads(table.schema.metadata[b"dpframe"]))


@dataclass(frozen=True, slots=True)
class SqlCall:
    """A query that was read, and all planning arguments of its question."""

    query: Query
    question: SqlQuestion
    arguments: Mapping[str, Any]

    @property
    def line(self) -> Line:
        """The line of a card that says what the query was read into."""
        asked = self.question
        by = asked.arguments.get("by", asked.arguments.get("hierarchy"))
        shown = ", ".join(by) if isinstance(by, list) else str(by)
        return Line("query", f"{asked.question}, by {shown}", " ".join(self.query.text.split()))

    def period(
        self, given: Any, tables: tuple[Mapping[str, Columns], Mapping[str, Columns]]
    ) -> Any:
        """The argument ``period``; with the name of a column alone, its days are those of WHERE."""
        if not isinstance(given, str):
            return given
        private, public = tables
        reader = RowReader(self.query, private, public)
        reader.kind_of_query(self.query.tree, {})
        return given, reader.days_of(given)


@refused_depth()
def read_call(
    query: Query,
    private: Mapping[str, Columns],
    public: Mapping[str, Columns],
    given: Mapping[str, Any],
    roles: Roles | None = None,
) -> SqlCall:
    """Read a query into a question, with the arguments ``user``, ``bounds``, ``epsilon``,
    ``delta``, ``intervals`` and ``threshold``, each None where it is left out. ``roles`` says what
    columns may do."""
    known = dict(given)
    for option, value in query.options.items():
        name = {"privacy_unit_column": "user"}.get(option, option)
        if known[name] is not None and known[name] != value:
            raise ParameterError(
                f"{name} ({known[name]!r}) differs from OPTIONS ({value!r}). Leave one out."
            )
        known[name] = value
    user = None if known["user"] is None else column_name("user", known["user"])
    intervals = known["intervals"] is None or flag("intervals", known["intervals"])
    bounds = checked_bounds(known["bounds"])
    question = read_question(
        query, private, public, user=user, bounds=bounds, intervals=intervals, roles=roles
    )
    if user is not None and known.get("threshold") is not None:
        raise ParameterError(
            "threshold does not go with user in a query: groups are found in rounds. Leave it out."
        )
    spent = {name: known[name] for name in ("epsilon", "delta")}
    return SqlCall(query, question, {**question.arguments, **spent})


def checked_bounds(bounds: object) -> dict[str, tuple[Any, Any]]:
    """Bounds by name, each a pair."""
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping) or not all(
        isinstance(name, str) and isinstance(pair, list | tuple) and len(pair) == 2
        for name, pair in bounds.items()
    ):
        raise ParameterTypeError(
            f"bounds must map names to pairs, such as {{'amount': (0, 500)}}; got "
            f"{shown_value(bounds)}."
        )
    return {name: (pair[0], pair[1]) for name, pair in bounds.items()}


def release_call(
    call: SqlCall,
    tables: Tables,
    planning: Mapping[str, Any],
    ledger: Ledger | None,
    name: str | None,
    about: DataScope,
    progress: bool,
    place: str | None = None,
) -> Release:
    """The release of a query's question, or its replay. ``place`` names the source; by default the
    path of a file or the kind of an object."""
    asked = call.question
    question = NAMED[asked.question]
    source = tables.private[asked.table]
    place = f"{describe_source(source) if place is None else place}: {asked.rows}"
    plan: Any = question.plan(planning)
    if name is not None:
        stored = find_answer(question, plan, place, about, require_ledger(ledger, name), name)
        if stored is not None:
            return replay_of_stored(stored)
    about = about.read_in(source)
    with _opened_rows(asked, tables, about.restrict(source)) as rows:
        plan = question.sized(question.fitted(plan, rows), rows, progress)
        counted = partial(question.count, rows, plan, progress)
        return make_release(
            counted, plan, source=place, ledger=ledger, name=name, about=about, looked=True
        )


@contextmanager
def _opened_rows(asked: SqlQuestion, tables: Tables, source: object) -> Iterator[_duck.OwnRelation]:
    """The rows of a row query, on a connection of our own."""
    public = tables.public_rows()
    tables.check_keys(asked, public)
    with open_source(source, [*asked.columns]) as opened:
        relation = opened
        if not isinstance(opened, _duck.OwnRelation):
            listed = ", ".join(map(identifier, asked.columns))
            rows = opened.query(f"SELECT {listed} FROM {_duck.VIEW}", False)
            relation = _duck.register_table(rows, "the rows of the query")
        assert isinstance(relation, _duck.OwnRelation)
        with relation:
            shown = _as_declared(asked.columns, relation)
            if asked.user is not None:
                user, kind = identifier(asked.user), asked.columns[asked.user]
                shown += f", TRY_CAST({user} AS {kind}) AS {USER}"
            number = RECORD if asked.numbered else None
            yield relation.derive(PRIVATE, shown, asked.rows, public, number)


def final_table(call: SqlCall, tables: Tables, released: Release, name: str | None) -> pa.Table:
    """What remains of the query, run on released rows. The receipt is in the schema's metadata."""
    asked = call.question
    receipt = released.receipt.with_release_facts({"query": call.query.text}, [call.line])
    rows = {ANSWER: released.to_arrow(), **tables.public_rows()}
    try:
        table = _duck.select_from_tables(rows, asked.result, "the released rows")
    except SourceError as error:
        advice = "Pass release= next time, to ask again for free."
        if name is not None:
            advice = f"Ask another ending under release={name!r}, for free."
        raise SourceError(f"the rows are charged, but {error} {advice}") from None
    return table.replace_schema_metadata({b"dpframe": receipt.to_json().encode()})


@known_arguments
def explain_sql(
    query: str,
    tables: Mapping[str, object],
    *,
    public: Mapping[str, object] | None = None,
    user: str | None = None,
    bounds: Mapping[str, tuple[object, object]] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    intervals: bool | None = None,
    threshold: float | None = None,
    confidence: float = 0.95,
    period: str | tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    error: float | Mapping[str, float] | None = None,
) -> Explanation[Any]:
    """What :func:`sql` with these arguments would do: the question that the query is read into, its
    noise, its errors, and what it cannot show.

    Spends nothing. Reads names and types of columns, and keys of public tables. With ``error`` in
    the place of ``epsilon`` it finds the smallest epsilon, as :func:`explain_rollup` does.

    Returns
    -------
    Explanation
        As of :func:`explain`, with a line ``query``.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> sales = pd.DataFrame({"country": ["FR", "DE"]})
    >>> asked = "SELECT country, count(*) FROM sales GROUP BY country"
    >>> dp.explain_sql(asked, {"sales": sales}, epsilon=1.0, delta=1e-6)["query"]
    'hhh, by country'
    """
    known = Tables.of(tables, public)
    given = {"user": user, "bounds": bounds, "epsilon": epsilon, "delta": delta}
    given |= {"intervals": intervals, "threshold": threshold}
    columns = known.columns()
    call = read_call(read_query(query), *columns, given)
    known.check_keys(call.question, known.public_rows())
    question = NAMED[call.question.question]
    planning = {**call.arguments, "threshold": threshold, "confidence": confidence}
    if call.question.question == "hhh" and isinstance(error, Mapping) and len(error) == 1:
        (error,) = error.values()  # it counts one number, whatever the query calls it
    asked, found = plan_within_error(question, planning, error)
    about = DataScope.of({"data": data, "period": call.period(period, columns)})
    about = about.read_in(known.private[call.question.table])
    shown = explain_plan(
        question,
        question.declared(asked),
        found,
        about,
        chosen_ledger(ledger),
        release_name(release),
    )
    return replace(shown, advice=(call.line, *shown.advice))


def as_pandas(table: pa.Table) -> pd.DataFrame:
    """A frame whose whole numbers stay whole where one is missing, and whose decimals are floats
    and days are times, as DuckDB makes frames."""
    import pandas as pd

    for i, column in enumerate(table.schema):
        if pa.types.is_decimal(column.type):
            values = table.column(i).cast(pa.float64())
            if column.type.scale == 0 and all(
                abs(one) < 2**53 for one in values.drop_null().to_pylist()
            ):
                values = values.cast(pa.int64())
            table = table.set_column(i, column.name, values)
    kinds = {pa.int64(): pd.Int64Dtype()}
    frame: pd.DataFrame = table.to_pandas(types_mapper=kinds.get, date_as_object=False)
    whole = [name for name, kind in frame.dtypes.items() if kind == "Int64"]
    return frame.astype({name: "int64" for name in whole if not frame[name].hasnans})
