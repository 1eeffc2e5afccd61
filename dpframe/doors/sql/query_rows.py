"""The part of a query that reads private rows: its tables, joins and filters, one row at a time.

What a query computes of a row depends on that row and on public tables alone, so that a record
moves nothing else. A public table is joined by a key that no two of its rows have, so that a record
stays one record. Users are a column of ours, which no query can name, and every subquery hands on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import pyarrow as pa

from dpframe import _duck
from dpframe.common.calls import argument_hint
from dpframe.doors.sql.query_expressions import (
    ELSEWHERE,
    Columns,
    ExpressionReader,
    Roles,
    RowTable,
    is_aggregate,
    origins,
)
from dpframe.doors.sql.query_tree import (
    Tree,
    as_text,
    column_name,
    constant,
    cte_query,
    expression_text,
    first_placed,
    inner_trees,
    is_expression,
    make_cast,
    make_column,
    make_select,
    make_star,
    make_subquery,
    make_table,
    rebuild,
    type_expression,
)
from dpframe.errors import ParameterError

PRIVATE = "dpframe_private"
"""The name of the private table in the text of a row query."""

USER = "dpframe_user"
"""The column of users in that table. Subqueries hand it on."""


ONE = "Ask one grouped SELECT, and go on with its rows."

SECOND = (
    "a second private table is not read: a record could meet many others. Join public tables only, "
    "or join before you ask."
)

Kind = Literal["rows", "released", "public"]
"""What a table of a query holds: private rows, what is released of them, or public rows."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key by which a public table is joined; no two of its rows may have it.

    ``repeated`` is a statement over the public tables, whose rows are keys that occur twice.
    """

    columns: str
    repeated: str

    @property
    def refusal(self) -> str:
        """The message where two rows have one key."""
        return (
            f"the key {self.columns} occurs twice in a public table, so that a record would count "
            "twice. Keep one row of each key."
        )

    def check(self, repeated: pa.Table) -> None:
        """Raise ParameterError if two rows of the public table have one key."""
        if repeated.num_rows:
            raise ParameterError(self.refusal)


Scope = Mapping[str, "tuple[Kind, Tree, Scope]"]
"""CTEs by their names: what each holds, its query, and the CTEs that it sees."""


@dataclass(slots=True)
class RowReader(ExpressionReader):
    """Reads the private side of a query. Public keys that have to be checked gather in ``keys``.

    ``roles`` says what columns may do; None allows all."""

    user: str | None = None
    roles: Roles | None = None
    keys: list[PublicKey] = field(default_factory=list)
    asked: list[tuple[Tree, Scope]] = field(default_factory=list)

    # -- what a table or a query holds --------------------------------------------------------

    def kind_of_query(self, node: Tree, ctes: Scope) -> Kind:
        """What a query holds. Queries that group private rows gather in ``asked``."""
        inside = [*(node.get("children") or [node.get("left"), node.get("right")])]
        if node["type"] == "SET_OPERATION_NODE":
            ctes = self.scope_of(node, ctes)
            inside += [one["subquery"]["node"] for one in inner_subqueries(node["modifiers"])]
            kinds = [self.kind_of_query(one, ctes) for one in inside if one]
            if "rows" in kinds:
                raise self.query.refuse(
                    first_placed(node), "UNION of private rows is not read. " + ONE
                )
            return "released" if "released" in kinds else "public"
        ctes = self.scope_of(node, ctes)
        kind = self.kind_of_table(node["from_table"], ctes)
        for part in inner_subqueries({**node, "cte_map": None}):
            found = self.kind_of_query(part["subquery"]["node"], ctes)
            if kind == "rows" or found == "rows":
                raise self.query.refuse(part, ELSEWHERE["SUBQUERY"])
            kind = "released" if found == "released" else kind
        if kind == "rows" and is_grouped(node):
            if not any(one is node for one, _ in self.asked):
                self.asked.append((node, ctes))
            return "released"
        return kind

    def scope_of(self, node: Tree, ctes: Scope) -> Scope:
        """The CTEs that a query sees: those around it, and its own."""
        out = dict(ctes)
        for entry in node["cte_map"]["map"]:
            inside = cte_query(entry)
            out[entry["key"].casefold()] = self.kind_of_query(inside, out), inside, dict(out)
        return out

    def kind_of_table(self, table: Tree, ctes: Scope) -> Kind:
        """What a table of FROM holds."""
        if table["type"] == "BASE_TABLE":
            return self.named_table(table, ctes)[0]
        if table["type"] == "SUBQUERY":
            return self.kind_of_query(table["subquery"]["node"], ctes)
        if table["type"] == "JOIN":
            kinds = [self.kind_of_table(table[side], ctes) for side in ("left", "right")]
            if kinds.count("rows") == 2 or {*kinds} == {"rows", "released"}:
                raise self.query.refuse(first_placed(table), SECOND)
            return next((one for one in ("rows", "released") if one in kinds), "public")
        return "public"  # values, or nothing

    def named_table(self, table: Tree, ctes: Scope) -> tuple[Kind, Columns | Tree]:
        """What a name in FROM stands for, and its columns, or the query of a CTE."""
        (name,) = table["qualified_name"]["path"]
        key = name.casefold()
        if key in ctes:
            return ctes[key][0], ctes[key][1]
        if key in self.private:
            return "rows", self.private[key]
        if key in self.public:
            return "public", self.public[key]
        known = [one.name for one in (*self.private.values(), *self.public.values())]
        hint = argument_hint(name, known) if known else ""
        raise self.query.refuse(table, f"there is no table {name!r}.{hint}")

    # -- tables of rows -----------------------------------------------------------------------

    def read_rows(self, table: Tree, ctes: Scope) -> Tree:
        """The tables of a FROM clause that holds private rows, as a row query reads them."""
        if table["type"] == "SUBQUERY":
            node = self.read_select(table["subquery"]["node"], ctes)
            return {**table, "subquery": {**table["subquery"], "node": node}}
        if table["type"] == "JOIN":
            return self._read_join(table, ctes)
        name = table["qualified_name"]["path"][-1]
        alias, renamed = table["alias"] or name, table["column_name_alias"]
        if name.casefold() not in ctes:
            return {**make_table(PRIVATE, alias), "column_name_alias": renamed}
        _, node, inner = ctes[name.casefold()]
        inside = make_subquery(self.read_select(node, inner), alias)
        return {**inside, "column_name_alias": renamed}

    def read_select(self, node: Tree, ctes: Scope) -> Tree:
        """A SELECT of single rows inside of FROM. Its order is dropped: no row is shown."""
        if node.get("qualify"):
            raise self.query.refuse(first_placed(node), ELSEWHERE["WINDOW"])
        if any(one["type"] != "ORDER_MODIFIER" for one in node["modifiers"]):
            raise self.query.refuse(
                first_placed(node),
                "LIMIT before the grouping would let one row decide about others. Write it after "
                "the grouping.",
            )
        where, ctes = node["where_clause"], self.scope_of(node, ctes)
        table = self.read_rows(node["from_table"], ctes)
        items = [self._read_item(item) for item in node["select_list"]]
        if self.user is not None:
            items = [_without_user(one, _public_names(table)) for one in items]
            items.append(make_column(USER))
        if where is not None:
            self.check_role(where, "filter", table, items)
        return make_select(items, table, None if where is None else self.condition(where))

    def _read_item(self, item: Tree) -> Tree:
        if item["class"] == "STAR":
            if item.get("expr") is not None or item.get("columns"):
                raise self.query.refuse(item, "COLUMNS(...) is not read. Name the columns.")
            replaced = rebuild(
                item["replace_list"], lambda part: self.total(part) if is_expression(part) else None
            )
            return {**item, "replace_list": replaced}
        name = item["alias"] or column_name(item) or expression_text(item)
        return {**self.total(item), "alias": name}

    def is_user(self, name: str) -> bool:
        """Whether a name is the users' column, and no part of FROM gives it to another one."""
        user = (self.user or "").casefold()
        if name.casefold() != user:
            return False
        public = {c.casefold() for one in self.public.values() for c in one.types}
        return user not in public | self.given_names

    # -- joins --------------------------------------------------------------------------------

    def _read_join(self, join: Tree, ctes: Scope) -> Tree:
        left = self.kind_of_table(join["left"], ctes) == "rows"
        ours, theirs = ("left", "right") if left else ("right", "left")
        outer = "LEFT" if left else "RIGHT"
        if join["join_type"] not in ("INNER", outer) or join["ref_type"] != "REGULAR":
            raise self.query.refuse(
                first_placed(join),
                f"this join could make rows that no record has. Write {outer} JOIN ... ON "
                "private.key = public.key.",
            )
        public, types = self._read_public(join[theirs], ctes)
        private = self.read_rows(join[ours], ctes)
        pairs = self._pairs(join, public["alias"].casefold(), types)
        kinds = self.bind([one for one, _ in pairs], private)
        keys: list[Tree] = []
        for (_, key), kind in zip(pairs, kinds, strict=True):
            name = str(column_name(key))
            if kind in ("FLOAT", "DOUBLE"):
                raise self.query.refuse(
                    first_placed(join),
                    f"key {name!r} is a floating-point number. Join by another type.",
                )
            same = kind == types.get(name.casefold(), kind)
            if not same and join.get("using_columns"):
                raise self.query.refuse(
                    first_placed(join),
                    f"key {name!r} has another type in each table. Write ON.",
                )
            # cast on the public side: no private value is cast, and equal keys are found there
            keys.append(key if same else make_cast(key, type_expression(kind)))
        named = ", ".join(str(column_name(key)) for _, key in pairs)
        self.keys.append(PublicKey(named, _repeated_keys(public, keys)))
        read = {**join, ours: private, theirs: public}
        if not join.get("using_columns"):
            compared = [
                make_comparison(one, key) for (one, _), key in zip(pairs, keys, strict=True)
            ]
            read["condition"] = compared[0] if len(compared) == 1 else make_conjunction(compared)
        return read

    def _read_public(self, side: Tree, ctes: Scope) -> tuple[Tree, Mapping[str, str]]:
        """The public side of a join, and the types of its columns by their names in small
        letters."""
        table = self._public_rows(side, ctes)
        found = self.bind_select(make_select([make_star()], table))
        return table, {name.casefold(): kind for name, kind in found}

    def _public_rows(self, side: Tree, ctes: Scope) -> Tree:
        """A public table, or a SELECT of its rows: always the same ones, as keys are checked."""
        node, scope, alias = None, ctes, side["alias"]
        if side["type"] == "BASE_TABLE":
            _, found = self.named_table(side, ctes)
            alias = alias or side["table_name"]
            if isinstance(found, Columns):
                table = make_table(found.name, alias)
                return {**table, "column_name_alias": side["column_name_alias"]}
            _, node, scope = ctes[side["table_name"].casefold()]
        elif side["type"] == "SUBQUERY":
            node = side["subquery"]["node"]
        if node is None or node["type"] != "SELECT_NODE" or is_grouped(node) or _is_cut(node):
            raise self.query.refuse(
                first_placed(side), "name a public table here. Prepare it before you ask."
            )
        inside = self._public_rows(node["from_table"], self.scope_of(node, scope))
        where = node["where_clause"] and self.condition(node["where_clause"])
        read = make_select([self._read_item(item) for item in node["select_list"]], inside, where)
        return {**make_subquery(read, alias), "column_name_alias": side["column_name_alias"]}

    def _pairs(self, join: Tree, alias: str, types: Mapping[str, str]) -> list[tuple[Tree, Tree]]:
        """The private and public columns that a join compares."""
        if join.get("using_columns"):
            named = [make_column(name) for name in join["using_columns"]]
            return [(one, one) for one in named]
        pairs: list[tuple[Tree, Tree]] = []
        for part in conjuncts(join["condition"]) if join["condition"] else []:
            sides = [part[side] for side in ("left", "right") if side in part]
            public = [one for one in sides if _is_of(one, alias, types)]
            private = [one for one in sides if not _is_of(one, alias, types)]
            plain = part["type"] == "COMPARE_EQUAL" and len(public) == len(private) == 1
            if not plain or column_name(private[0]) is None:
                raise self.query.refuse(part, KEYS_ALONE)
            pairs.append((private[0], public[0]))
        if not pairs:
            raise self.query.refuse(first_placed(join), KEYS_ALONE)
        return pairs

    # -- what columns may do --------------------------------------------------------------------

    def check_role(
        self,
        part: Tree,
        role: str,
        table: Tree,
        items: Sequence[Tree] = (),
        made: Tree | None = None,
    ) -> None:
        """Raise ParameterError if an expression is made of a private column without a role.

        ``table`` holds the rows, and ``items`` are selected beside the expression: it may use their
        names. ``made`` is what to look at in its place.
        """
        if self.roles is None:
            return
        allowed: frozenset[str] = getattr(self.roles, role)
        for column in sorted(origins(made or part, self._made_of(table), items) - allowed):
            raise self.query.refuse(part, self.roles.refusal(column, role))

    def _made_of(self, table: Tree) -> list[RowTable]:
        """The tables of a FROM clause, and of which private columns theirs are made.

        What a join adds follows from the column that it compares.
        """
        renamed = table.get("column_name_alias") or ()
        if table["type"] == "JOIN":
            sides = [self._made_of(table[side]) for side in ("left", "right")]
            compared: list[Any] = [table.get("condition")]
            compared += [make_column(name) for name in table.get("using_columns") or ()]
            keys = origins(compared, [*sides[0], *sides[1]])
            for side in sides:
                for one in [] if any(one.private for one in side) else side:
                    one.columns.update({name: found | keys for name, found in one.columns.items()})
            return [*sides[0], *sides[1]]
        alias, columns = table["alias"].casefold(), {}
        private = any(one.get("table_name") == PRIVATE for one in inner_trees(table))
        if table["type"] == "BASE_TABLE":
            name = table["table_name"]
            known = self.asked_table.types if private else self.public[name.casefold()].types
            columns = {c.casefold(): {c.casefold()} if private else set() for c in known}
        elif table["type"] == "SUBQUERY":
            node = table["subquery"]["node"]
            columns, items = self._columns_of_select(node), node["select_list"]
            if len(columns) != len(items) or any(item["class"] == "STAR" for item in items):
                whole = set().union(*columns.values())  # which is which is not known
                return [
                    RowTable(
                        alias,
                        {**columns, **dict.fromkeys(map(str.casefold, renamed), whole)},
                        private,
                    )
                ]
        own = zip((*map(str.casefold, renamed),), columns.values(), strict=False)
        columns = dict(own) | dict([*columns.items()][len(renamed) :])
        return [RowTable(alias, columns, private)]

    def _columns_of_select(self, node: Tree) -> dict[str, set[str]]:
        """The columns of a SELECT of rows, and of which private columns each name is made."""
        inside, items = self._made_of(node["from_table"]), node["select_list"]
        made: list[tuple[str, set[str]]] = []
        for item in items:
            if item["class"] != "STAR":
                name = item["alias"] or str(column_name(item))
                made.append((name, origins(item, inside, items)))
                continue
            whose, left_out = item["relation_name"].casefold(), item["exclude_list"]
            given = [
                pair for one in inside if whose in ("", one.alias) for pair in one.columns.items()
            ]
            known = dict(given)
            made += [pair for pair in given if pair[0] not in map(str.casefold, left_out)]
            for renamed in item["rename_list"]:
                old = renamed["key"]["column"].casefold()
                made.append((renamed["value"], known.get(old, set().union(*known.values()))))
            for replaced in item["replace_list"]:
                made.append((replaced["key"], origins(replaced, inside, items)))
        columns: dict[str, set[str]] = {}
        for name, found in made:
            columns[name.casefold()] = columns.get(name.casefold(), set()) | found
        return columns

    @property
    def asked_table(self) -> Columns:
        """The private table whose rows are grouped, below joins, subqueries and CTEs."""
        (node, ctes), *_ = self.asked
        table = node["from_table"]
        while table["type"] != "BASE_TABLE" or table["table_name"].casefold() in ctes:
            if table["type"] == "JOIN":
                left = self.kind_of_table(table["left"], ctes) == "rows"
                table = table["left" if left else "right"]
                continue
            if table["type"] == "SUBQUERY":
                node = table["subquery"]["node"]
            else:
                _, node, ctes = ctes[table["table_name"].casefold()]
            table, ctes = node["from_table"], self.scope_of(node, ctes)
        return self.private[table["table_name"].casefold()]

    def days_of(self, column: str) -> str:
        """The days, ``first..last``, to which WHERE limits a column of times of the private table.

        All rows that WHERE lets pass lie in them, so that a query that reads these days alone has
        the same answer. ParameterError if WHERE does not name both ends in plain comparisons.
        """
        ((node, ctes),) = self.asked
        table = node["from_table"]
        lows: list[datetime] = []
        highs: list[datetime] = []
        while table["type"] == "JOIN":
            side = "left" if self.kind_of_table(table["left"], ctes) == "rows" else "right"
            table = table[side]
        plain = table["type"] == "BASE_TABLE" and not table["column_name_alias"]
        kind = self.asked_table.types.get(column, "")
        if plain and table["table_name"].casefold() not in ctes and kind in UNZONED:
            for part in conjuncts(node["where_clause"] or {}):
                low, high = _ends_of(part, (table["alias"] or table["table_name"], column))
                lows += [low] if low else []
                highs += [high] if high else []
        if not lows or not highs or max(lows) > min(highs):
            raise ParameterError(
                f"period ({column!r}) needs both ends in WHERE of the table: {column} >= "
                f"'2026-11-01' AND {column} < '2026-12-01', or pass ({column!r}, '2026-11')."
            )
        return f"{max(lows).date()}..{min(highs).date()}"

    def bind(self, columns: list[Tree], table: Tree) -> list[str]:
        """The types of expressions over tables of rows; an error if DuckDB refuses them."""
        bound = self.bind_select(make_select([{**c, "alias": ""} for c in columns], table))
        return [kind for _, kind in bound]

    def bind_select(self, node: Tree) -> list[tuple[str, str]]:
        """Names and types of what a row query selects."""
        private = self.asked_table
        types = dict(private.types)
        if self.user is not None:
            types[USER] = types[self.user]
        tables = {PRIVATE: types, **{one.name: one.types for one in self.public.values()}}
        found = _duck.bound_columns(tables, as_text(node))
        if isinstance(found, str):
            raise ParameterError(f"query cannot be bound: {found.replace(PRIVATE, private.name)}.")
        return found


def _public_names(table: Tree) -> set[str]:
    """The names of the public tables that a FROM clause joins."""
    if table["type"] == "JOIN":
        return _public_names(table["left"]) | _public_names(table["right"])
    private = any(one.get("table_name") == PRIVATE for one in inner_trees(table))
    return set() if private else {table["alias"].casefold()}


def _without_user(item: Tree, public: set[str]) -> Tree:
    """What a query selects; a star over private rows leaves out our column of users."""
    if item["class"] != "STAR" or item["relation_name"].casefold() in public:
        return item
    return {**item, "exclude_list": [*item["exclude_list"], USER]}


KEYS_ALONE = (
    "a public table is joined by its key alone. Write ON private.key = public.key, and conditions "
    "in WHERE."
)


def inner_subqueries(node: Tree | list[Tree]) -> list[Tree]:
    """The subqueries of a query's expressions, also of its joins, without those inside of them and
    those that are tables."""
    found: list[Tree] = []

    def keep(part: Tree) -> Tree | None:
        if part.get("type") != "SUBQUERY":
            return None
        if "class" in part:
            found.append(part)
            rebuild(part["child"], keep)  # x IN (SELECT ...)
        return part

    rebuild(node, keep)
    return found


def _is_cut(node: Tree) -> bool:
    """Whether a SELECT shows some of its rows alone, which its WHERE does not say."""
    modifiers = [one["type"] for one in node["modifiers"] if one["type"] != "ORDER_MODIFIER"]
    return bool(modifiers or node.get("qualify") or node.get("sample"))


def is_grouped(node: Tree) -> bool:
    """Whether a SELECT groups the rows of its tables."""
    distinct = any(one["type"] == "DISTINCT_MODIFIER" for one in node["modifiers"])
    forced = node["aggregate_handling"] == "FORCE_AGGREGATES"
    if distinct or forced or node["group_expressions"] or node["group_sets"] or node["having"]:
        return True
    parts = [node["select_list"], node["modifiers"], node["qualify"]]
    return any(is_aggregate(part) for part in inner_trees(parts))


UNZONED = ("DATE", "TIMESTAMP")
"""Types of times whose day depends on no time zone, and which no constant is rounded to."""

LONGEST_TIME = len("2026-11-01 00:00:00.000000")

FLIPPED = {"LESS": "GREATER", "GREATER": "LESS"}


def _ends_of(part: Tree, path: tuple[str, str]) -> tuple[datetime | None, datetime | None]:
    """The first and the last moment that a condition leaves to a column; None for no end."""
    kind = str(part.get("type"))

    def is_column(one: Tree) -> bool:
        names = [name.casefold() for name in one.get("column_names", ())]
        return bool(names) and names == [name.casefold() for name in path[-len(names) :]]

    if kind == "COMPARE_BETWEEN":
        plain = is_column(part["input"])
        return (_moment(part["lower"]), _moment(part["upper"])) if plain else (None, None)
    left, right = part.get("left"), part.get("right")
    if left is None or right is None:
        return None, None
    if is_column(right):
        left, right = right, left
        kind = "".join(FLIPPED.get(one, one) for one in re.split("(LESS|GREATER)", kind))
    moment = _moment(right) if is_column(left) else None
    before = None if moment is None else moment - timedelta(microseconds=1)
    ends = {
        "COMPARE_EQUAL": (moment, moment),
        "COMPARE_GREATERTHAN": (moment, None),
        "COMPARE_GREATERTHANOREQUALTO": (moment, None),
        "COMPARE_LESSTHAN": (None, before),
        "COMPARE_LESSTHANOREQUALTO": (None, moment),
    }
    return ends.get(kind, (None, None))


def _moment(part: Tree) -> datetime | None:
    text = constant(part)
    with suppress(ValueError):
        if not isinstance(text, str) or len(text) > LONGEST_TIME:
            return None
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo is None else None
    return None


def conjuncts(condition: Tree) -> list[Tree]:
    """The conditions that AND joins."""
    if condition.get("type") == "CONJUNCTION_AND":
        return [one for child in condition["children"] for one in conjuncts(child)]
    return [condition]


def make_comparison(left: Tree, right: Tree) -> Tree:
    """``left = right``."""
    kind = "COMPARE_EQUAL"
    return {"class": "COMPARISON", "type": kind, "alias": "", "left": left, "right": right}


def make_conjunction(conditions: list[Tree]) -> Tree:
    """All of the conditions, by AND."""
    return {
        "class": "CONJUNCTION",
        "type": "CONJUNCTION_AND",
        "alias": "",
        "children": conditions,
    }


def _is_of(part: Tree | None, alias: str, names: Mapping[str, str]) -> bool:
    """Whether an expression is a column of the public side."""
    if part is None or part.get("class") != "COLUMN_REF":
        return False
    *more, name = part["column_names"]
    return more[-1].casefold() == alias if more else name.casefold() in names


def _repeated_keys(table: Tree, keys: list[Tree]) -> str:
    """A statement whose rows are the keys that two rows of a public table have."""
    named = [{**key, "alias": f"k{i}"} for i, key in enumerate(keys)]
    inside = as_text(make_select(named, table))
    columns = ", ".join(f"k{i}" for i in range(len(keys)))
    given = " AND ".join(f"k{i} IS NOT NULL" for i in range(len(keys)))
    return f"SELECT 1 FROM ({inside}) WHERE {given} GROUP BY {columns} HAVING count(*) > 1 LIMIT 1"
