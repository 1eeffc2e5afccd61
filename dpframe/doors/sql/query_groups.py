"""A query as a question: its grouped SELECT is a rollup, and the rest runs on what is released.

The tree of the query is cut in two. What reads private rows becomes a row query, which has a column
for each key and each value, and a question of it. In what remains, keys and aggregates are columns
of the released rows, so that HAVING, ORDER BY, windows, arithmetic and outer queries are free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from dpframe import _duck
from dpframe.common.texts import identifier
from dpframe.doors.sql.query_expressions import Columns, Roles, is_aggregate
from dpframe.doors.sql.query_measures import (
    Bounds,
    MeasureReader,
    QueryMeasure,
    free_name,
    interval_columns,
    without_bounds,
)
from dpframe.doors.sql.query_rows import (
    ONE,
    USER,
    PublicKey,
    RowReader,
    Scope,
)
from dpframe.doors.sql.query_tree import (
    Query,
    Tree,
    as_text,
    column_name,
    constant,
    cte_names,
    cte_query,
    expression_text,
    inner_trees,
    make_cast,
    make_column,
    make_constant,
    make_cte,
    make_function,
    make_select,
    make_star,
    make_subquery,
    make_table,
    rebuild,
    same_expression,
    type_expression,
)
from dpframe.errors import ParameterError
from dpframe.sources.frames import require_columns

RELEASED = "dpframe_released"
"""The name of the released rows in what runs on them: ``g0, r0, ...``, the keys and whether each is
rolled up, and ``m0, m0_lower, m0_upper, ...``, the measures."""

ANSWER = "dpframe_answer"
"""The name of the frame that the question returns, in the text of the released rows."""

ALL = "rows"
"""The only key of a query without GROUP BY, and a constant column beside a single key."""

RECORD = "record"
"""The column that numbers records, where each counts as a user of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the keys of a query become a hierarchy.

    Parameters
    ----------
    question
        ``hhh`` where only keys are asked, or the one number that it counts, else ``rollup``.
    by
        The hierarchy, as names of columns or as text.
    cells
        Whether rows are cells of sets of columns.
    packed
        Whether several keys are one level, as one text.
    numbered
        Whether records are numbered, and count as users: cells of several sets are then counted
        whole.
    levels
        The keys of a tree, coarse to fine.
    total
        Whether everything is one row.
    constant
        The name of a constant column beside a single key, which cells need.
    """

    question: str
    by: Any
    cells: bool = False
    packed: str | None = None
    numbered: bool = False
    levels: tuple[int, ...] = ()
    total: bool = False
    constant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuestion:
    """What a query was read into.

    Parameters
    ----------
    table
        The private table that is asked, as declared, and ``columns``, which of it are read, with
        their types.
    rows
        The row query, over the table ``PRIVATE`` and public tables by their names.
    question, arguments
        The question, and its arguments that follow from the query.
    user
        The column of users of the private table; None protects records.
    numbered
        As in :class:`Shape`.
    result
        What remains of the query, over ``ANSWER`` and public tables.
    keys
        Keys of public tables that must not repeat.
    """

    table: str
    columns: Mapping[str, str]
    rows: str
    question: str
    arguments: Mapping[str, Any]
    user: str | None
    numbered: bool
    result: str
    keys: tuple[PublicKey, ...]


def read_question(
    query: Query,
    private: Mapping[str, Columns],
    public: Mapping[str, Columns],
    *,
    user: str | None,
    bounds: Bounds,
    intervals: bool,
    roles: Roles | None = None,
) -> SqlQuestion:
    """Read a query into a question.

    Parameters
    ----------
    private, public
        The tables that it may name, by their names in small letters.
    user
        The column of users; None protects records.
    bounds
        Bounds of the values of sums, means and quantiles.
    intervals
        Whether ``NAME_lower`` and ``NAME_upper`` stand beside each aggregate.
    roles
        What columns of the private table may do; None allows all.

    Raises
    ------
    ParameterError
        The query cannot be answered privately, or something is missing. It names the part of the
        query, its place, and what to write instead.
    """
    reader = RowReader(query, private, public, user, roles)
    kind = reader.kind_of_query(query.tree, {})
    if kind == "rows":
        raise ParameterError(
            "query shows rows of a private table. Group them: SELECT column, count(*) FROM ... "
            "GROUP BY column."
        )
    if not reader.asked:
        raise ParameterError("query reads no private table. Ask DuckDB itself.")
    if len(reader.asked) > 1:
        raise query.refuse(
            next(inner_trees(reader.asked[1][0]["select_list"])),
            "private rows are grouped a second time. Ask once, by GROUP BY ROLLUP, or ask twice.",
        )
    ((node, ctes),) = reader.asked
    if user is not None:
        require_columns([user], [*reader.asked_table.types])
    names = _bound_names(reader, node, ctes)
    return GroupReader(reader, node, ctes, names, bounds).question(intervals)


def _bound_names(reader: RowReader, node: Tree, ctes: Scope) -> list[tuple[str, str]]:
    """Names and types that DuckDB gives the columns of the grouped SELECT.

    The whole query is bound, too, so that errors of DuckDB's come before anything is charged.
    """
    query = reader.query
    tables = {one.name: one.types for one in (*reader.private.values(), *reader.public.values())}
    own = {entry["key"].casefold() for entry in node["cte_map"]["map"]}
    around = [make_cte(key, one[1]) for key, one in ctes.items() if key not in own]
    alone = {**node, "cte_map": {"map": [*around, *node["cte_map"]["map"]]}}
    names: list[tuple[str, str]] = []
    for tree in [query.tree] if node is query.tree else [query.tree, alone]:
        found = _duck.bound_columns(tables, as_text(rebuild(tree, without_bounds)))
        if isinstance(found, str):
            raise ParameterError(f"query cannot be bound: {found}.")
        names = found
    return names


class GroupReader:
    """Reads one grouped SELECT."""

    def __init__(
        self,
        reader: RowReader,
        node: Tree,
        ctes: Scope,
        names: Sequence[tuple[str, str]],
        bounds: Bounds,
    ) -> None:
        self._reader, self._node, self._ctes = reader, node, ctes
        self._query, self._user = reader.query, reader.user
        items = node["select_list"]
        if len(items) != len(names):
            raise self._query.refuse(items[0], "name the columns instead of *.")
        self._names = [name for name, _ in names]
        self._from = reader.read_rows(node["from_table"], ctes)
        self._groups: list[Tree] = []
        self._keys: list[str] = []
        self._sets = self._read_sets()
        for part in self._groups:
            reader.check_role(part, "group", self._from, items)
        shown = {id(item): name for item, name in zip(items, self._names, strict=True)}
        self._measures = MeasureReader(reader, shown, self._keys, self._user, bounds, self._from)

    # -- keys ---------------------------------------------------------------------------------

    def _read_sets(self) -> list[tuple[int, ...]]:
        """The sets of keys, by their numbers; fills ``groups`` and ``keys``, their names."""
        node = self._node
        distinct = [one for one in node["modifiers"] if one["type"] == "DISTINCT_MODIFIER"]
        expressions = [self._group(one) for one in node["group_expressions"]]
        sets = [tuple(one) for one in node["group_sets"]]
        forced = node["aggregate_handling"] == "FORCE_AGGREGATES"
        if forced or (distinct and not expressions):
            items = [one for one in node["select_list"] if not _has_aggregate(one)]
            for one in [part for modifier in distinct for part in modifier["distinct_on_targets"]]:
                raise self._query.refuse(one, "DISTINCT ON shows single rows. Use GROUP BY.")
            if forced or len(items) == len(node["select_list"]):
                expressions = [{**one, "alias": ""} for one in items]
        users = [self._user] if self._user is not None else []
        numbers: list[int] = []
        for one in expressions:
            if users and self._reader.is_user(column_name(one) or ""):
                raise self._query.refuse(
                    one, f"a group of one user is never shown. Ask count(DISTINCT {users[0]})."
                )
            same = [i for i, other in enumerate(self._groups) if same_expression(one, other)]
            if not same:
                self._groups.append(one)
                self._keys.append(free_name(self._key_name(one), [*self._keys, *users]))
            numbers.append(same[0] if same else len(self._groups) - 1)
        sets = sets or [tuple(range(len(expressions)))]
        found = [tuple(dict.fromkeys(numbers[i] for i in one)) for one in sets]
        if len({frozenset(one) for one in found}) < len(found):
            raise ParameterError(
                "GROUP BY has a set of columns twice, so that its rows are twice. Leave one out."
            )
        return found

    def _group(self, part: Tree) -> Tree:
        """An expression of GROUP BY; a number or an alias stands for a column of the result."""
        items = self._node["select_list"]
        place, name = constant(part), column_name(part)
        if part["class"] == "CONSTANT" and isinstance(place, int) and 1 <= place <= len(items):
            part = items[place - 1]
        elif name is not None and len(part["column_names"]) == 1:
            aliased = [one for one in items if one["alias"].casefold() == name.casefold()]
            if aliased and name.casefold() not in self._source_columns():
                part = aliased[0]
        return {**part, "alias": ""}

    def _source_columns(self) -> set[str]:
        found = self._reader.bind_select(make_select([make_star()], self._from))
        return {name.casefold() for name, _ in found}

    def _key_name(self, key: Tree) -> str:
        for item, name in zip(self._node["select_list"], self._names, strict=True):
            if same_expression(item, key):
                return name
        return column_name(key) or expression_text(key)

    def _shape(self, measures: Mapping[str, QueryMeasure]) -> Shape:
        """The hierarchy and the question.

        A single level is asked without those above it. By record it is a set of cells; by user a
        tree of one level has the smaller noise, and takes all measures.
        """
        keys, sets = self._keys, self._sets
        taken = [*keys, *self._measures.values, *measures]
        if not keys or sets == [()]:
            return Shape(question="rollup", by=[ALL], total=True)
        texts = [one.text for one in measures.values()]
        filled = sorted((one for one in sets if one), key=len)
        chain = all({*a} < {*b} and len(b) == len(a) + 1 for a, b in pairwise(filled))
        if len(sets) == 1:
            (only,) = sets
            alone = texts in ([], ["count"])
            if self._user is None and not alone:
                extra = free_name(ALL, taken) if len(only) == 1 else None
                named = [*(keys[i] for i in only), *([extra] if extra else [])]
                return Shape(question="rollup", by=_sets_text([named]), cells=True, constant=extra)
            packed = None
            if len(only) > 1:
                packed = free_name(", ".join(keys[i] for i in only), taken)
            return Shape(
                question="hhh" if alone else "rollup",
                by=[packed or keys[only[0]]],
                packed=packed,
                levels=only,
            )
        if chain and len(filled[0]) == 1:
            levels = tuple(dict.fromkeys(i for one in filled for i in one))
            alone = texts in ([], ["count"]) and self._user is not None
            return Shape(
                question="hhh" if alone else "rollup",
                by=[keys[i] for i in levels],
                levels=levels,
            )
        for name, measure in measures.items():
            if not measure.text.startswith(("count", "sum(")):
                raise self._query.refuse(
                    self._measures.calls[name],
                    "this is not measured over several sets of columns. Ask count and sum there, "
                    "or GROUP BY ROLLUP.",
                )
        finest_first = sorted(filled, key=len, reverse=True)
        text = _sets_text([[keys[i] for i in one] for one in finest_first])
        return Shape(question="rollup", by=text, cells=True, numbered=self._user is None)

    # -- the question -------------------------------------------------------------------------

    def question(self, intervals: bool) -> SqlQuestion:
        """The question, and what remains."""
        result = self._result(intervals)  # finds all measures
        reader, measures = self._reader, self._measures.measures
        if not measures and not self._keys:
            raise self._query.refuse(self._node["select_list"][0], "nothing is asked of the rows.")
        shape = self._shape(measures)
        given: dict[str, Any] = {}
        if shape.question == "hhh":
            given["hierarchy"] = shape.by
        else:
            given["by"] = shape.by
            given["measures"] = {name: one.text for name, one in measures.items()} or "count"
            if shape.total:
                given["keys"] = [ALL]
        if self._user is not None or shape.numbered:
            given["user"] = self._user or RECORD
            if not shape.total:  # shares of users are no counts of them at each row
                rounds = "mechanism" if shape.question == "hhh" else "contribution"
                given[rounds] = "rounds" if shape.question == "hhh" else "items"
        kinds, rows = self._row_query(shape)
        table = reader.asked_table
        names = _read_columns(rows, table.types, self._user)
        read = {name: table.types[name] for name in names}
        released = make_cte(RELEASED, _query_of(self._write_released(shape, kinds, measures)))
        text = as_text({**result, "cte_map": {"map": [released, *result["cte_map"]["map"]]}})
        self._check_result(shape, kinds, measures, text)
        return SqlQuestion(
            table=table.name,
            columns=read,
            rows=as_text(rows),
            question=shape.question,
            arguments=given,
            user=self._user,
            numbered=shape.numbered,
            result=text,
            keys=tuple(reader.keys),
        )

    def _row_query(self, shape: Shape) -> tuple[Mapping[str, str], Tree]:
        """The row query, and the types of its keys and values before keys are written as texts.

        Texts begin with "=", so that an empty text is not a missing one; several keys that are one
        level are a list in JSON.
        """
        reader, where = self._reader, self._node["where_clause"]
        named = list(zip(self._keys, self._groups, strict=True))
        keys = [{**reader.total(one), "alias": name} for name, one in named]
        values = [{**one, "alias": name} for name, one in self._measures.values.items()]
        if shape.total or shape.constant:
            values.append({**make_constant(ALL), "alias": shape.constant or ALL})
        if self._user is not None:
            values.append(make_column(USER, self._user))
        condition = None if where is None else reader.condition(where)
        if where is not None:
            reader.check_role(where, "filter", self._from, self._node["select_list"])
        plain = make_select([*keys, *values], self._from, condition)
        kinds = dict(reader.bind_select(plain))
        asked = [{**one, "alias": name} for name, one in named]
        bound = reader.bind_select(make_select(asked, self._from)) if asked else []
        for i, (name, kind) in enumerate(bound):
            if kind != kinds[name]:  # whole numbers that were widened
                kinds[name], cast = kind, make_cast({**keys[i], "alias": ""}, type_expression(kind))
                keys[i] = {**cast, "alias": name}
        plain = {**plain, "select_list": [*keys, *values]}
        text = type_expression("VARCHAR")
        # around the rows: inside, a condition could mean a key's name, and would find these texts
        columns = [make_column(one["alias"] or USER) for one in values]
        texts = [make_cast(make_column(name), text) for name in self._keys]
        if shape.packed:
            packed = make_cast(make_function("to_json", make_function("list_value", *texts)), text)
            columns.insert(0, {**packed, "alias": shape.packed})
        else:
            for name, value in zip(self._keys[::-1], texts[::-1], strict=True):
                shown = make_function("||", make_constant("="), value, alias=name)
                columns.insert(0, shown if _is_text(kinds[name]) else make_column(name))
        return kinds, make_select(columns, make_subquery(plain))

    def _write_released(
        self, shape: Shape, kinds: Mapping[str, str], measures: Mapping[str, QueryMeasure]
    ) -> str:
        """The text of the released rows."""
        chosen: list[str] = []
        for i, key in enumerate(self._keys):
            kind, label = kinds[key], identifier(key)
            rolled, value = "false", label
            if shape.packed:
                value = f"json_extract_string({identifier(shape.packed)}, '$[{i}]')"
            elif _is_text(kind):
                value = f"CASE WHEN starts_with({label}, '=') THEN substr({label}, 2) END"
            if shape.cells:
                rolled = f"{identifier(f'{key}_level')} = 0"
            elif i in shape.levels and not shape.packed:
                rolled = f"level < {shape.levels.index(i) + 1}"
            elif not shape.packed:
                rolled, value = "true", "NULL"  # a key of no set
            value = value if _is_text(kind) else f"TRY_CAST({value} AS {kind})"
            chosen += [
                f"CASE WHEN {rolled} THEN NULL ELSE {value} END AS g{i}",
                f"{rolled} AS r{i}",
            ]
        for i, (name, measure) in enumerate(measures.items()):
            for end, rounding in (("", "round"), ("_lower", "floor"), ("_upper", "ceil")):
                column = {"": "count"}.get(end, end[1:]) if shape.question == "hhh" else name + end
                number = identifier(column)
                if measure.whole:
                    number = f"CAST({rounding}({number}) AS BIGINT)"
                chosen.append(f"{number} AS m{i}{end}")
        total = () in self._sets and not shape.total
        where = "true" if total else "level > 0"
        return f"SELECT {', '.join(chosen)} FROM {ANSWER} WHERE {where}"

    # -- what remains -------------------------------------------------------------------------

    def _result(self, intervals: bool) -> Tree:
        """The query with the grouped SELECT over released rows, and without CTEs of rows."""
        node, outer = self._node, self._node is self._query.tree
        items: list[Tree] = []
        places: list[int] = []
        for item, name in zip(node["select_list"], self._names, strict=True):
            shown = {**self._afterwards(item), "alias": name}
            items.append(shown)
            places.append(len(items))
            if intervals and outer:
                items += interval_columns(shown, name)
        after = {
            **make_select(items, make_table(RELEASED)),
            "modifiers": [self._reorder(one, places) for one in node["modifiers"]],
            "where_clause": node["having"] and self._afterwards(node["having"]),
            "qualify": node["qualify"] and self._afterwards(node["qualify"]),
            "cte_map": node["cte_map"],
        }

        def cut(part: Tree) -> Tree | None:
            if part is node:
                return rebuild(after, cut)  # type: ignore[no-any-return]
            entries = part.get("map")
            if isinstance(entries, list) and any(map(self._holds_rows, entries)):
                kept = [one for one in entries if not self._holds_rows(one)]
                return {**part, "map": rebuild(kept, cut)}
            return None

        result: Tree = self._reader.afterwards(rebuild(self._query.tree, cut))
        self._check_tables(result)
        return result

    def _check_tables(self, result: Tree) -> None:
        """Raise ParameterError if what remains reads more than released and public rows."""
        known = {RELEASED, *self._reader.public}
        known |= {name.casefold() for name in cte_names(result)}
        for one in inner_trees(result):
            if one.get("type") == "BASE_TABLE":
                *more, name = one["qualified_name"]["path"]
                if more or name.casefold() not in known:
                    raise self._query.refuse(one, "only released rows are read here. " + ONE)

    def _holds_rows(self, entry: Tree) -> bool:
        """Whether a CTE has private rows: it is in the row query, and is dropped here."""
        node = cte_query(entry)
        return any(kind == "rows" and one is node for kind, one, _ in self._ctes.values())

    def _reorder(self, modifier: Tree, places: Sequence[int]) -> Tree:
        """A modifier; ORDER BY 2 names a column, and intervals move columns."""
        if modifier["type"] != "ORDER_MODIFIER":
            done: Tree = self._afterwards(modifier)
            return done
        orders = []
        for one in modifier["orders"]:
            part = one["expression"]
            place, name = constant(part), column_name(part)
            aliases = [item["alias"].casefold() for item in self._node["select_list"]]
            if part["class"] == "CONSTANT" and isinstance(place, int):
                part = make_constant(places[place - 1] if 1 <= place <= len(places) else place)
            elif name is None or len(part["column_names"]) > 1 or name.casefold() not in aliases:
                part = self._afterwards(part)
            orders.append({**one, "expression": part})
        return {**modifier, "orders": orders}

    def _afterwards(self, part: Tree) -> Tree:
        """A part of the query over released rows."""
        done: Tree = rebuild(part, self._released_column)
        return done

    def _released_column(self, part: Tree) -> Tree | None:
        if "class" not in part:
            return None
        alias = part.get("alias", "")
        for i, key in enumerate(self._groups):
            if same_expression(part, key):
                return make_column(f"g{i}", alias)
        if part["type"] == "GROUPING_FUNCTION":
            return {**self._grouping_bits(part), "alias": alias}
        if is_aggregate(part):
            return make_column(f"m{self._measures.number(part)}", alias)
        return None

    def _grouping_bits(self, part: Tree) -> Tree:
        """``GROUPING(a, b)``: a bit for each key, the last one lowest, 1 where it is rolled up."""
        whole, bits = type_expression("BIGINT"), []
        for place, one in enumerate(reversed(part["children"])):
            found = [i for i, key in enumerate(self._groups) if same_expression(one, key)]
            if not found:
                raise self._query.refuse(part, "GROUPING takes columns of GROUP BY.")
            bit = make_cast(make_column(f"r{found[0]}"), whole)
            bits.append(make_function("*", bit, make_constant(2**place)))
        if not bits:
            raise self._query.refuse(part, "GROUPING takes columns of GROUP BY.")
        total = bits[0]
        for bit in bits[1:]:
            total = make_function("+", total, bit)
        return make_cast(total, whole)

    def _check_result(
        self,
        shape: Shape,
        kinds: Mapping[str, str],
        measures: Mapping[str, QueryMeasure],
        text: str,
    ) -> None:
        """Bind what remains to an answer without rows, so that no error comes after the charge."""
        types = {"level": "BIGINT", **dict.fromkeys(("count", "lower", "upper"), "BIGINT")}
        for key in [*self._keys, *([shape.packed] if shape.packed else [])]:
            types |= {key: "VARCHAR", f"{key}_level": "BIGINT"}
        for name, measure in measures.items():
            kind = kinds[measure.of] if measure.of else "DOUBLE"
            types |= {f"{name}{end}": kind for end in ("", "_lower", "_upper")}
        public = {one.name: one.types for one in self._reader.public.values()}
        found = _duck.bound_columns({ANSWER: types, **public}, text)
        if isinstance(found, str):
            raise ParameterError(f"query cannot be answered from released rows: {found}.")
        shown = [name for name, _ in found]
        twice = next((name for name in shown if shown.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(
                f"column {twice!r} is in the result twice. Give one of them another name with AS."
            )


def _read_columns(rows: Tree, known: Collection[str], user: str | None) -> tuple[str, ...]:
    """Which columns of the private table a row query reads; at least one, for there are rows."""
    trees = [*inner_trees(rows)]
    keys = ("column_names", "using_columns")
    named = {c.casefold() for one in trees for key in keys for c in one.get(key, ())}
    whole = {one["alias"].casefold() for one in trees if "alias" in one and "class" not in one}
    renamed = any(one.get("column_name_alias") for one in trees)
    if renamed or whole & named or any(one.get("class") == "STAR" for one in trees):
        return tuple(known)
    return tuple(c for c in known if c.casefold() in named or c == user) or (*known,)[:1]


def _query_of(text: str) -> Tree:
    node: Tree = _duck.query_tree(text)["statements"][0]["node"]
    return node


def _has_aggregate(part: Tree) -> bool:
    return any(map(is_aggregate, inner_trees(part)))


def _sets_text(sets: Sequence[Sequence[str]]) -> str:
    return "sets:" + ";".join(",".join(quote(name, safe="") for name in one) for one in sets)


def _is_text(kind: str) -> bool:
    return kind == "VARCHAR" or kind.startswith("ENUM")
