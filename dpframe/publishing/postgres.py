"""Published results in a schema of PostgreSQL, of which every query sees one whole state.

All changes are rows in one transaction. Tables of families, and those of no single family, keep
their rows of releases that did not change. Views find their releases by rows: nothing that a reader
may hold is made anew when a period comes.

Columns are added before, empty, to one relation at a time. What is no longer published goes away in
the same transaction; its locks are taken in a span shorter than that after which PostgreSQL looks
for deadlocks, or given back. So a reader that waits for us is never the one that PostgreSQL ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpframe.asking.measure_texts import receipt_measures
from dpframe.common.files import (
    ResultsSchema,
    connect_to_schema,
    errors_of_others,
    postgres_driver,
    refusal_text,
)
from dpframe.common.texts import identifier, literal, postgres_column
from dpframe.errors import LedgerError, ParameterError
from dpframe.ledger import Ledger
from dpframe.publishing.chart_columns import TEXT, free_columns, postgres_texts, postgres_type
from dpframe.publishing.results_tables import (
    BUDGET,
    FAMILY_COLUMNS,
    MARK,
    MEASURES,
    NEWEST,
    RELEASES,
    Publication,
    PublishedRelease,
    Table,
)

WAITING = 60.0
"""Seconds to wait for another process that publishes, or for readers of what gets new columns."""

SPAN = 500
"""Milliseconds to wait for readers at a time: others wait behind us."""

TRIES = 5
"""How often to try what fails because of somebody else."""

AWAY = "10min"
"""After which the server ends the transaction of a publisher of which nothing is heard."""

COUNTED = {"residual", "count", "lower", "upper"}
"""Columns that are numbers of real type, whatever was counted: a type depends on no row."""


def replace_rows(
    database: ResultsSchema, ledger: Ledger, read: Callable[[], Publication]
) -> Publication:
    """Make the schema show what ``read`` gives, in one transaction; ``read`` is called when no
    other process publishes there.

    Raises
    ------
    ParameterError
        The server cannot be reached, or refuses; the schema holds something else; a column would
        need another type. The old state is kept.
    LedgerError
        The schema shows results of another ledger.
    """
    driver, until = postgres_driver("publishing to PostgreSQL"), time.monotonic() + WAITING
    for attempt in range(1, TRIES + 1):
        connection = connect_to_schema(driver, database)
        try:
            return Schema(connection, driver, database, until).publish(ledger, read)
        except driver.Error as raised:
            error, broken = raised, connection.broken
        finally:
            connection.close()
        if attempt == TRIES or not isinstance(error, errors_of_others(driver)):
            break
        time.sleep(0.05 * attempt + os.getpid() % 16 / 64)  # two that collided wait differently
    # outside of the handler: no context holds the password
    raise ParameterError(refusal_text(driver, database, error, broken))


# -- tables and their types ------------------------------------------------------------------------


def _measured_columns(one: PublishedRelease) -> set[str]:
    """Columns of its family whose numbers have a real type."""
    named = [one.called[c] for m in receipt_measures(one.facts) for c in m.columns]
    return COUNTED | set(free_columns(named, FAMILY_COLUMNS))


@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """A table with names and types for PostgreSQL."""

    table: Table
    types: dict[str, str]
    names: dict[str, str]


def fit_table(table: Table, there: Mapping[str, str], measured: set[str]) -> FittedTable:
    """Fit a table to the columns that are there, by name and type."""
    names, types = {}, {}
    for column in table.rows.schema:
        name = postgres_column(column.name, there)
        while name in types:
            name += "_"
        names[column.name] = name
        old = there.get(name)
        new = postgres_type(column.type, measured=column.name in measured) or old or TEXT
        if old not in (None, new, TEXT):
            raise ParameterError(
                f"column {name!r} of {table.name!r} is {old} and would become {new}. Give the "
                "changed series another name, or publish to another schema."
            )
        types[name] = old or new
    return FittedTable(
        table=replace(table, rows=table.rows.rename_columns(list(names.values()))),
        types=types,
        names=names,
    )


@dataclass(frozen=True, kw_only=True)
class View:
    """A view of the table of a family: of one release, or of the newest."""

    table: Table
    family: str
    condition: str
    release: str | None = None
    before: str = ""

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def columns(self) -> list[str]:
        out: list[str] = self.table.rows.column_names
        return out


# -- the schema ------------------------------------------------------------------------------------


class Schema:
    """The schema of results, for one publisher."""

    def __init__(self, connection: Any, driver: Any, database: ResultsSchema, until: float) -> None:
        self._db, self._driver, self._database, self._until = connection, driver, database, until
        self._schema = database.schema

    def publish(self, ledger: Ledger, read: Callable[[], Publication]) -> Publication:
        """Bring the schema to the state that ``read`` gives."""
        while True:
            with self._db.transaction():
                self._enter(ledger)
                made = read()
                self._plan(made)
                if self._is_new:
                    self._run(*(step for _, step in self._widening_steps()))
                if self._is_new or not self._widening_steps():
                    self._replace_rows(made)
                    return made
            while self._widen(ledger):
                pass

    def _enter(self, ledger: Ledger) -> None:
        """Begin a transaction of the only publisher."""
        self._settle()
        self._look()
        self._listed = {}
        self._take_over(ledger)
        self._listed = self._list()
        self._act_as_owner()

    def _plan(self, made: Publication) -> None:
        measured: dict[str, set[str]] = {}
        for one in made.published:
            measured.setdefault(one.names.whole, set()).update(_measured_columns(one))
        self._tables = {
            t.name: fit_table(t, self._columns.get(t.name, {}), measured.get(t.name, COUNTED))
            for t in (*made.families, *made.common_tables)
        }
        self._views = self._views_of(made)
        wanted = {*self._tables, *self._views}
        foreign = sorted((wanted & self._columns.keys()) - self._own_names)
        if foreign:
            raise self._other_content(foreign[0])

    def _replace_rows(self, made: Publication) -> None:
        kept = self._kept_releases(made)
        self._change_views()
        if made.measures is None and MEASURES in self._columns:
            self._run(f"DELETE FROM {self._name(MEASURES)}")
        for one in self._tables.values():
            self._write(one, kept)
        self._run(*(self._view(v) for v in self._views.values() if v.name not in self._columns))
        self._comment()
        self._grant()

    # -- what is there -----------------------------------------------------------------------------

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._db.execute(statement, values or None).fetchall()
        return found

    def _run(self, *statements: str) -> None:
        if statements:
            self._db.execute(";\n".join(statements).replace("\0", "\ufffd"))

    def _name(self, name: str) -> str:
        return f"{identifier(self._schema)}.{identifier(name)}"

    def _settle(self) -> None:
        """Make what we say mean the same on every server, for every role and in every zone."""
        left = max(1, int(1000 * (self._until - time.monotonic())))
        self._run(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET LOCAL search_path = pg_catalog, pg_temp",
            "SET LOCAL standard_conforming_strings = on",
            "SET LOCAL DateStyle = 'ISO, YMD'",
            "SET LOCAL TimeZone = 'UTC'",
            "SET LOCAL client_min_messages = warning",
            "SET LOCAL statement_timeout = 0",
            f"SET LOCAL idle_in_transaction_session_timeout = {literal(AWAY)}",
            f"SET LOCAL lock_timeout = {left}",
        )

    def _look(self) -> None:
        """Read the columns, kinds and comments of what is in the schema."""
        self._columns: dict[str, dict[str, str]] = {}
        self._comments: dict[str, dict[str, str]] = {}
        self._is_view: dict[str, bool] = {}
        self._owners: dict[str, str] = {}
        for name, kind, owner, column, declared in self._rows(RELATIONS, self._schema):
            self._is_view[name], self._owners[name] = kind == "v", owner
            columns = self._columns.setdefault(name, {})
            columns |= {} if column is None else {column: declared}
        for name, column, text in self._rows(COMMENTS, self._schema):
            self._comments.setdefault(name, {})[column] = text

    def _take_over(self, ledger: Ledger) -> None:
        """Check that the schema is ours or empty, and wait for another publisher."""
        self._is_new = not self._comments.get(RELEASES, {}).get("", "").startswith(MARK)
        if self._is_new:
            self._begin()
            self._look()
        self._act_as_owner()
        self._run(f"LOCK TABLE {self._name(RELEASES)} IN SHARE ROW EXCLUSIVE MODE")
        self._look()
        budget = self._name(BUDGET)
        ids = self._rows(f"SELECT ledger_id FROM {budget}") if BUDGET in self._columns else []
        if not (self._is_new or ids):
            raise self._other_content(BUDGET)
        if ids and ids[0][0] != ledger.ledger_id:
            raise LedgerError(
                f"to ({self._database.shown!r}) was published from another ledger than "
                f"{str(ledger.path)!r}. Name another schema, or drop this one first."
            )

    def _act_as_owner(self) -> None:
        """Be the one owner of all that is there, if it is us or a role that we are a member of.

        Triggers of tables run with our rights: nobody else may own any, or drop ours to make some.
        """
        ((home, me, groups),) = self._rows(OWNERS, self._schema)
        owner = self._owners.get(RELEASES, me)
        others = {self._owners[name] for name in self._own_names} | {owner, *home} - {me, *groups}
        if others - {owner} or owner not in {me, *groups}:
            role = min(others - {me} or {owner})
            raise ParameterError(
                f"to ({self._database.shown!r}) belongs to role {role!r}, too. Publish as that "
                "role or as a member of it, or name another schema."
            )
        self._run(f"SET LOCAL ROLE {identifier(owner)}")

    def _begin(self) -> None:
        """Make the schema and its list of releases, which the first publisher locks."""
        there = self._rows(CONTENT, self._schema)
        if any(name for (name,) in there):
            raise self._other_content(there[0][0])
        schema = identifier(self._schema)
        if not there:
            self._run(
                f"CREATE SCHEMA {schema}",
                f"COMMENT ON SCHEMA {schema} IS {literal(f'{MARK}: see {RELEASES}')}",
            )
        self._run(f"CREATE TABLE {self._name(RELEASES)} (release text PRIMARY KEY)")

    def _other_content(self, name: str) -> ParameterError:
        return ParameterError(
            f"to ({self._database.shown!r}) holds {name!r}, which publishing did not make. Name "
            "another schema at the end: ?schema=NAME."
        )

    def _list(self) -> dict[str, dict[str, Any]]:
        """What ``dp_releases`` says of each release that is there."""
        if not {*LISTED} <= {*self._columns[RELEASES]}:  # it was made just now
            return {}
        found = self._rows(f"SELECT {', '.join(LISTED)} FROM {self._name(RELEASES)}")
        return {row[0]: dict(zip(LISTED, row, strict=True)) for row in found}

    @property
    def _own_names(self) -> set[str]:
        """What ``dp_releases`` says that publishing made, and is there."""
        keys = ("table_name", "latest_view", "all_table")
        named = {row[key] for row in self._listed.values() for key in keys}
        return {RELEASES, BUDGET, MEASURES, *named} & self._columns.keys()

    # -- what is to be there -----------------------------------------------------------------------

    def _views_of(self, made: Publication) -> dict[str, View]:
        """The views of releases, and of the newest of each family."""
        out, meanings = {}, {}
        for one in made.published:
            family = self._tables[one.names.whole]
            called = {name.casefold(): column for name, column in family.names.items()}
            own = free_columns(one.table.rows.column_names, FAMILY_COLUMNS)
            columns = [called[name.casefold()] for name in own]
            meanings[one.names.table] = dict(zip(columns, one.table.meanings, strict=True))
            out[one.names.table] = View(
                table=replace(one.table, rows=one.table.rows.rename_columns(columns)),
                family=one.names.whole,
                condition=f"release = {literal(one.stored.name)}",
                release=one.stored.name,
            )
        for view, one in made.latest.items():
            family = self._tables[one.names.whole]
            columns = [name for name in family.types if name not in FAMILY_COLUMNS]
            known = dict(zip(family.types, family.table.meanings, strict=True))
            known |= meanings[one.names.table]
            out[view] = View(
                table=Table(
                    name=view,
                    rows=family.table.rows.select(columns),
                    comment=one.table.comment,
                    meanings=tuple(known[name] for name in columns),
                ),
                family=one.names.whole,
                condition=f"release IN (SELECT r.release FROM {self._name(RELEASES)} AS r "
                f"WHERE r.is_latest AND r.latest_view = {literal(view)})",
                before=NEWEST,
            )
        return out

    def _view(self, view: View) -> str:
        """The statement that makes a view, or appends columns to one that is there."""
        shown = dict.fromkeys([*self._columns.get(view.name, ()), *view.columns])
        return (
            f"CREATE OR REPLACE VIEW {self._name(view.name)} AS "
            f"SELECT {', '.join(map(identifier, shown))} "
            f"FROM {self._name(view.family)} WHERE {view.condition}"
        )

    def _kept_releases(self, made: Publication) -> set[str]:
        """The releases whose rows are there, as this version of dpframe publishes them."""
        self._counts = {name: self._count(name) for name in self._tables if name in self._columns}
        if self._comments.get(RELEASES, {}).get("") != made.releases.comment:
            return set()
        long = {} if made.measures is None else _counts_of(made.measures.rows["release"])
        out = set()
        for one in made.published:
            name, names = one.stored.name, one.names
            listed = (name, one.stored.release_id, names.table, names.view, names.whole)
            rows = {names.whole: one.table.rows.num_rows, MEASURES: long.get(name, 0)}
            if (
                tuple(self._listed.get(name, {}).values()) == listed
                and all(self._counts.get(t, {}).get(name, 0) == n for t, n in rows.items())
                and not self._needs_columns(self._views[names.table])
            ):
                out.add(name)
        return out

    def _count(self, name: str) -> dict[str, int]:
        """How many rows of each release a table has."""
        if "release" not in self._columns[name]:
            return {}
        rows = self._rows(f"SELECT release, count(*) FROM {self._name(name)} GROUP BY release")
        return dict(rows)

    # -- changes -----------------------------------------------------------------------------------

    def _needs_columns(self, view: View) -> bool:
        """Whether a view is missing, or lacks columns."""
        return not {*view.columns} <= self._columns.get(view.name, {}).keys()

    def _widening_steps(self) -> list[tuple[str, str]]:
        """Relations that lack columns, and the statements that add them: tables first."""
        steps = []
        for name, one in self._tables.items():
            there = self._columns.get(name, one.types)
            added = [
                f"ADD COLUMN {identifier(c)} {k}" for c, k in one.types.items() if c not in there
            ]
            if added:
                steps.append((name, f"ALTER TABLE {self._name(name)} {', '.join(added)}"))
        newest = [v for v in self._views.values() if v.release is None and v.name in self._columns]
        return steps + [(v.name, self._view(v)) for v in newest if self._needs_columns(v)]

    def _widen(self, ledger: Ledger) -> bool:
        """Add empty columns to one relation. False if no relation lacks any.

        The transaction holds no other lock, so that it is part of no deadlock.
        """
        with self._db.transaction() as here:
            self._enter(ledger)
            for name, step in self._widening_steps()[:1]:
                try:
                    self._run(f"SET LOCAL lock_timeout = {SPAN}", step)
                    return True
                except self._driver.errors.LockNotAvailable:
                    self._pause(name)
                    raise self._driver.Rollback(here) from None
            return False
        return True  # somebody reads it: once more

    def _pause(self, name: str) -> None:
        """Let readers go on for a moment; an error if we waited too long."""
        if time.monotonic() > self._until:
            raise ParameterError(
                f"to ({self._database.shown!r}): readers keep {name!r} open, which gets new "
                "columns or goes away. End their transactions, then publish again."
            )
        time.sleep(0.2)

    def _change_views(self) -> None:
        """Add columns to views of releases, and drop what is no longer published."""
        gone = self._own_names - {*self._tables, *self._views, MEASURES}
        shows = {row["table_name"]: release for release, row in self._listed.items()}
        shown = [
            view
            for view in self._views.values()
            if view.release is not None
            and view.name in self._columns
            and (self._needs_columns(view) or shows.get(view.name) != view.release)
        ]
        gone_views = sorted(name for name in gone if self._is_view[name])
        gone_tables = sorted(gone - {*gone_views})
        self._lock([*gone_views, *(v.name for v in shown)], gone_tables)
        for kind, names in (("VIEW", gone_views), ("TABLE", gone_tables)):
            if names:
                self._run(f"DROP {kind} {', '.join(map(self._name, names))}")
        self._run(*map(self._view, shown))

    def _lock(self, views: Sequence[str], tables: Sequence[str]) -> None:
        """Hold every lock that readers feel, all of them taken within one short span.

        A reader that waits for one of them while we wait for one of its own would be ended as a
        deadlock, if both lasted for ``deadlock_timeout``. Views come first, as for readers.
        """
        if not views and not tables:
            return
        ((patience,),) = self._rows(PATIENCE)
        steps = [
            f"ALTER VIEW {self._name(name)} ALTER COLUMN "
            f"{identifier(next(iter(self._columns[name])))} DROP DEFAULT"  # has none: only a lock
            for name in views
        ]
        steps += [f"LOCK TABLE {self._name(name)} IN ACCESS EXCLUSIVE MODE" for name in tables]
        block = literal(f"BEGIN {' '.join(f'{step};' for step in steps)} END")
        while True:
            try:
                with self._db.transaction():
                    self._run(f"SET LOCAL statement_timeout = {min(SPAN, patience // 2)}")
                    self._run(f"DO {block}")
                    self._run("SET LOCAL statement_timeout = 0")
                    return
            except self._driver.errors.QueryCanceled:
                pass
            self._pause([*views, *tables][0])

    def _write(self, one: FittedTable, kept: set[str]) -> None:
        """Make a table if it is missing, and replace rows that differ; ``kept`` are the releases
        whose rows stay."""
        name, rows = one.table.name, one.table.rows
        where = self._name(name)
        if name not in self._columns:
            columns = ", ".join(f"{identifier(c)} {kind}" for c, kind in one.types.items())
            self._run(f"CREATE TABLE {where} ({columns})")
            if "release" in one.types:
                self._run(f"CREATE INDEX ON {where} (release)")
        if name in (RELEASES, BUDGET):
            new = self._mark_new_rows(one)
        else:
            same = pa.array(sorted(kept), rows["release"].type)
            new = pc.invert(pc.is_in(rows["release"], value_set=same))
            stale = sorted(self._counts.get(name, {}).keys() - kept)
            self._delete(name, "release = ANY(%s)", stale)
        rows = rows.filter(new)
        if not rows.num_rows:
            return
        copying = f"COPY {where} ({', '.join(map(identifier, one.types))}) FROM STDIN"
        with self._db.cursor() as cursor, cursor.copy(copying) as copy:
            for row in zip(*map(postgres_texts, rows.columns), strict=True):
                copy.write_row(row)

    def _delete(self, name: str, condition: str, values: list[Any]) -> None:
        if values:
            where = self._name(name).replace("%", "%%")
            self._db.execute(f"DELETE FROM {where} WHERE {condition}", (values,))

    def _mark_new_rows(self, one: FittedTable) -> pa.Array:
        """Delete the rows of a table that are not to be there, and tell which are to come."""
        asked = f"SELECT ctid, {', '.join(map(identifier, one.types))} FROM "
        there = {repr(row[1:]): row[0] for row in self._rows(asked + self._name(one.table.name))}
        wanted = [repr(row) for row in zip(*map(_values, one.table.rows.columns), strict=True)]
        stale = [there[row] for row in there.keys() - {*wanted}]
        self._delete(one.table.name, "ctid = ANY(%s::tid[])", stale)
        return pa.array([row not in there for row in wanted], pa.bool_())

    def _comment(self) -> None:
        comments = [("TABLE", one.table, "") for one in self._tables.values()]
        comments += [("VIEW", view.table, view.before) for view in self._views.values()]
        said = []
        for kind, table, before in comments:
            where, there = self._name(table.name), self._comments.get(table.name, {})
            said += table.comment_statements(kind, where, before, there=there)
        self._run(*(statement.rstrip(";") for statement in said))

    def _grant(self) -> None:
        """Let whoever may select ``dp_releases`` select everything else."""
        names = {*self._tables, *self._views}
        holders: dict[str, set[str]] = {}
        for name, role in self._rows(RIGHTS, self._schema):
            holders.setdefault(role, set()).add(name)
        for role, named in sorted(holders.items()):
            lacking = sorted(names - named)
            if RELEASES in named and lacking:
                self._run(f"GRANT SELECT ON {', '.join(map(self._name, lacking))} TO {role}")


def _counts_of(values: pa.ChunkedArray) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in pc.value_counts(values).to_pylist()}


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Values as the driver gives them back."""
    return (
        postgres_texts(column)
        if postgres_type(column.type, measured=False) == TEXT
        else column.to_pylist()
    )


LISTED = ("release", "release_id", "table_name", "latest_view", "all_table")

OF_SCHEMA = """FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %s"""

KINDS = "c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S')"

RELATIONS = f"""
SELECT c.relname, c.relkind::text, pg_catalog.pg_get_userbyid(c.relowner), a.attname,
pg_catalog.format_type(a.atttypid, a.atttypmod) {OF_SCHEMA}
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE {KINDS} ORDER BY c.relname ASC NULLS LAST, a.attnum ASC NULLS LAST"""

COMMENTS = f"""
SELECT c.relname, coalesce(a.attname::text, ''), d.description {OF_SCHEMA}
JOIN pg_catalog.pg_description d ON d.objoid = c.oid
AND d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid
AND d.objsubid > 0"""

CONTENT = f"""
SELECT found.name FROM pg_catalog.pg_namespace n LEFT JOIN (
SELECT c.relname::text AS name, c.relnamespace AS home FROM pg_catalog.pg_class c WHERE {KINDS}
UNION ALL SELECT p.proname, p.pronamespace FROM pg_catalog.pg_proc p
) AS found ON found.home = n.oid WHERE n.nspname = %s ORDER BY found.name ASC NULLS LAST"""
"""SQL for what is in a schema: one row without a name if it is empty, none if it is missing."""

OWNERS = """
SELECT CASE WHEN o.rolsuper OR o.oid = d.datdba OR o.rolname = 'pg_database_owner' THEN '{}'
ELSE ARRAY[o.rolname::text] END, session_user::text, ARRAY(SELECT g.rolname::text
FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles g ON g.oid = m.roleid
JOIN pg_catalog.pg_roles u ON u.oid = m.member AND u.rolname = session_user)
FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner
JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
WHERE n.nspname = %s"""
"""SQL for the owner of a schema, unless the database is theirs, us, and the roles we are in."""

PATIENCE = "SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'deadlock_timeout'"

RIGHTS = f"""
SELECT c.relname, coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC') {OF_SCHEMA}
CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS rights
LEFT JOIN pg_catalog.pg_roles r ON r.oid = rights.grantee
WHERE {KINDS} AND rights.privilege_type = 'SELECT' AND rights.grantee <> c.relowner
AND (rights.grantee = 0 OR r.oid IS NOT NULL)"""
