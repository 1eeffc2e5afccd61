"""The part of a query that reads private rows: its tables, joins and filters, one row at a time.

What a query computes of a row depends on that row and on public tables alone, so that a record
moves nothing else. It is *total*: it fails on no value. Casts become TRY_CAST, whole numbers are
widened before they are computed with, and what still fails on a row is NULL there (TRY). Functions
are those of a list. A public table is joined by a key that no two of its rows have, so that a
record stays one record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa

from dpframe import _duck
from dpframe.common.calls import argument_hint
from dpframe.doors.sql.query_tree import (
    PLACE,
    Query,
    Tree,
    arguments,
    as_text,
    column_name,
    constant,
    expression_text,
    inner_trees,
    is_expression,
    make_cast,
    make_column,
    make_constant,
    make_operator,
    make_select,
    make_table,
    rebuild,
    type_expression,
)
from dpframe.errors import ParameterError

PRIVATE = "dpframe_private"
"""The name of the private table in the text of a row query."""

USER = "dpframe_user"
"""The column of users in that table. Subqueries hand it on."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ROW_FUNCTIONS = _words("""
    + - * / // % || abs ceil ceiling floor round sign trunc sqrt exp ln log log2 log10 pow power
    greatest least coalesce ifnull nullif if concat concat_ws lower upper lcase ucase trim ltrim
    rtrim length len strlen char_length substring substr left right replace reverse split_part
    starts_with ends_with prefix suffix contains strpos instr position ~~ !~~ ~~* !~~*
    ^@ like_escape not_like_escape ilike_escape not_ilike_escape regexp_matches
    regexp_full_match regexp_extract regexp_replace date_trunc datetrunc date_part datepart
    date_diff datediff date_sub datesub date_add dateadd year month day hour minute second
    quarter week weekofyear weekday dayofweek isodow dayofmonth dayofyear yearweek dayname
    monthname isoyear last_day strftime epoch epoch_ms to_timestamp make_date make_timestamp
    time_bucket to_years to_months to_weeks to_days to_hours to_minutes to_seconds timezone
    isnan isinf isfinite try_strptime mod
""")
"""Functions of one row: each depends on its arguments alone. What fails on a row is NULL there."""

PATTERNS = _words("""
    ~~ !~~ ~~* !~~* like_escape not_like_escape ilike_escape not_ilike_escape regexp_matches
    regexp_full_match regexp_extract regexp_replace
""")
"""Functions with a pattern, which must be a constant: a pattern of a row could take any time."""

LONGEST_PATTERN = 1_000

ARITHMETIC = frozenset(["+", "-", "*", "//", "%", "abs", "mod", "pow", "power"])
"""Functions before which whole numbers are widened."""

WIDER = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER"), "BIGINT"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER"), "BIGINT"),
    **dict.fromkeys(("BIGINT", "UBIGINT"), "HUGEINT"),
}

NOW = {
    "current_date": "DATE",
    "today": "DATE",
    "current_timestamp": "TIMESTAMP WITH TIME ZONE",
    "now": "TIMESTAMP WITH TIME ZONE",
    "get_current_timestamp": "TIMESTAMP WITH TIME ZONE",
    "transaction_timestamp": "TIMESTAMP WITH TIME ZONE",
    "localtimestamp": "TIMESTAMP",
}
"""What is the time or the day, with its type: a constant from when the query is read."""

OPERATORS = _words("""
    OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_NOT OPERATOR_COALESCE OPERATOR_NULLIF
    COMPARE_IN COMPARE_NOT_IN OPERATOR_TRY
""")

NEVER_FAIL = ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_NOT", "OPERATOR_TRY")

ELSEWHERE = {
    "SUBQUERY": "a subquery beside private rows is not read. JOIN a public table by its key.",
    "WINDOW": "a window over private rows is not read. Put windows over the grouped result.",
    "PARAMETER": "a parameter has no value here. Write the value into the query.",
    "COLLATE": "a collation is not read. Compare lower(column) instead.",
    "LAMBDA": "a lambda is not read. Compute the column before you ask.",
    "STAR": "name the columns instead of *.",
    "POSITIONAL_REFERENCE": "name the column instead of its number.",
}
"""Parts of expressions that no row query takes, and what to write instead."""

SAMPLE = "a sample or a version is not read, for a row in it could push out another. Leave it out."

ONE = "Ask one grouped SELECT, and go on with its rows."

SECOND = (
    "a second private table is not read: a record could meet many others. Join public tables only, "
    "or join before you ask."
)

AGGREGATES = _words("""
    count count_star sum avg mean median quantile quantile_cont quantile_disc approx_quantile
    approx_count_distinct count_if countif min max any_value arbitrary first last arg_min
    arg_max min_by max_by string_agg group_concat listagg list array_agg stddev stddev_samp
    stddev_pop variance var_samp var_pop mode mad bool_and bool_or bit_and bit_or bit_xor
    product fsum sumkahan favg kurtosis skewness entropy corr covar_pop covar_samp regr_slope
    regr_intercept histogram geometric_mean geomean approx_top_k reservoir_quantile
""")
"""Aggregate functions: those that are answered, and those that are refused by name."""

Kind = Literal["rows", "released", "public"]
"""What a table of a query holds: private rows, what is released of them, or public rows."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A table that a query may name: its name as declared, and its columns with their types."""

    name: str
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key by which a public table is joined; no two of its rows may have it.

    ``repeated`` is a statement over the public tables, whose rows are keys that occur twice.
    """

    columns: str
    repeated: str

    def check(self, repeated: pa.Table) -> None:
        """Raise ParameterError if two rows of the public table have one key."""
        if repeated.num_rows:
            raise ParameterError(
                f"the key {self.columns} occurs twice in a public table, so that a record would "
                "count twice. Keep one row of each key."
            )


Scope = Mapping[str, "tuple[Kind, Tree, Scope]"]
"""CTEs by their names: what each holds, its query, and the CTEs that it sees."""


@dataclass(slots=True)
class RowReader:
    """Reads the private side of a query. Public keys that have to be checked gather in ``keys``."""

    query: Query
    private: Mapping[str, Columns]
    public: Mapping[str, Columns]
    user: str | None = None
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
                raise self.query.refuse(_placed(node), "UNION of private rows is not read. " + ONE)
            return "released" if "released" in kinds else "public"
        if node["type"] != "SELECT_NODE":
            raise self.query.refuse(_placed(node), "this kind of query is not read. " + ONE)
        ctes = self.scope_of(node, ctes)
        kind = self.kind_of_table(node["from_table"], ctes)
        if node["sample"] and kind == "rows":
            raise self.query.refuse(_placed(node), SAMPLE)
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
        if table.get("sample") or table.get("at_clause"):
            raise self.query.refuse(_placed(table), SAMPLE)
        if table["type"] == "BASE_TABLE":
            return self.named_table(table, ctes)[0]
        if table["type"] == "SUBQUERY":
            return self.kind_of_query(table["subquery"]["node"], ctes)
        if table["type"] == "JOIN":
            kinds = [self.kind_of_table(table[side], ctes) for side in ("left", "right")]
            if kinds.count("rows") == 2 or {*kinds} == {"rows", "released"}:
                raise self.query.refuse(_placed(table), SECOND)
            return next((one for one in ("rows", "released") if one in kinds), "public")
        if table["type"] in ("EMPTY", "EXPRESSION_LIST"):
            return "public"
        raise self.query.refuse(
            _placed(table),
            "this is no table, join or subquery. Pass the rows as a table, and name it.",
        )

    def named_table(self, table: Tree, ctes: Scope) -> tuple[Kind, Columns | Tree]:
        """What a name in FROM stands for, and its columns, or the query of a CTE."""
        *more, name = table["qualified_name"]["path"]
        key = name.casefold()
        if not more and key in ctes:
            return ctes[key][0], ctes[key][1]
        if not more and key in self.private:
            return "rows", self.private[key]
        if not more and key in self.public:
            return "public", self.public[key]
        known = [one.name for one in (*self.private.values(), *self.public.values())]
        named = ".".join([*more, name])
        raise self.query.refuse(table, f"there is no table {named!r}.{argument_hint(named, known)}")

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
        return {
            "type": "SUBQUERY",
            "alias": alias,
            "sample": None,
            "subquery": {"node": self.read_select(node, inner), "named_param_map": []},
            "column_name_alias": renamed,
        }

    def read_select(self, node: Tree, ctes: Scope) -> Tree:
        """A SELECT of single rows inside of FROM. Its order is dropped: no row is shown."""
        if node.get("qualify"):
            raise self.query.refuse(_placed(node), ELSEWHERE["WINDOW"])
        if any(one["type"] != "ORDER_MODIFIER" for one in node["modifiers"]):
            raise self.query.refuse(
                _placed(node),
                "LIMIT before the grouping would let one row decide about others. Write it after "
                "the grouping.",
            )
        where, ctes = node["where_clause"], self.scope_of(node, ctes)
        table = self.read_rows(node["from_table"], ctes)
        items = [self._read_item(item) for item in node["select_list"]]
        public = {one["alias"].casefold() for one in inner_trees(table) if self._is_public(one)}
        stars = [one["relation_name"].casefold() for one in items if one["class"] == "STAR"]
        if self.user is not None and not any(name not in public for name in stars):
            items.append(make_column(USER))
        return make_select(items, table, None if where is None else self.total(where))

    def _is_public(self, table: Tree) -> bool:
        return table.get("type") == "BASE_TABLE" and table["table_name"] != PRIVATE

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

    # -- joins --------------------------------------------------------------------------------

    def _read_join(self, join: Tree, ctes: Scope) -> Tree:
        left = self.kind_of_table(join["left"], ctes) == "rows"
        ours, theirs = ("left", "right") if left else ("right", "left")
        outer = "LEFT" if left else "RIGHT"
        if join["join_type"] not in ("INNER", outer) or join["ref_type"] != "REGULAR":
            raise self.query.refuse(
                _placed(join),
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
                    _placed(join), f"key {name!r} is a floating-point number. Join by another type."
                )
            same = kind == types.get(name.casefold(), kind)
            if not same and join.get("using_columns"):
                raise self.query.refuse(
                    _placed(join), f"key {name!r} has another type in each table. Write ON."
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
            read["condition"] = compared[0] if len(compared) == 1 else _all_of(compared)
        return read

    def _read_public(self, side: Tree, ctes: Scope) -> tuple[Tree, Mapping[str, str]]:
        """The public side of a join, and the types of its columns by their names in small
        letters."""
        found = None
        if side["type"] == "BASE_TABLE":
            _, found = self.named_table(side, ctes)
        if not isinstance(found, Columns):
            raise self.query.refuse(
                _placed(side), "name a public table here. Prepare it before you ask."
            )
        table = make_table(found.name, side["alias"] or found.name)
        renamed = side["column_name_alias"]
        names = [*renamed, *[*found.types][len(renamed) :]]
        types = {
            name.casefold(): kind for name, kind in zip(names, found.types.values(), strict=True)
        }
        return {**table, "column_name_alias": renamed}, types

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
            raise self.query.refuse(_placed(join), KEYS_ALONE)
        return pairs

    @property
    def asked_table(self) -> Columns:
        """The private table that the query reads."""
        names = {
            one["table_name"].casefold()
            for one in inner_trees(self.query.tree)
            if one.get("type") == "BASE_TABLE"
        }
        return next(one for key, one in self.private.items() if key in names)

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

    # -- expressions --------------------------------------------------------------------------

    def total(self, part: Tree) -> Tree:
        """An expression of one row that fails on no value; ParameterError for one that is not."""
        kind = part["class"]
        if kind == "COLUMN_REF":
            return self._clock(part, column_name(part)) or part
        if kind == "CONSTANT":
            return part
        if kind == "CAST":
            return {**part, "child": self.total(part["child"]), "try_cast": True}
        if kind == "CONJUNCTION":
            return {**part, "children": [self.total(one) for one in part["children"]]}
        if kind == "FUNCTION":
            return self._total_function(part)
        if kind == "OPERATOR" and part["type"] in OPERATORS:
            children = [self.total(one) for one in part["children"]]
            done = {**part, "children": children}
            return done if part["type"] in NEVER_FAIL else make_try(done)
        if kind == "CASE":
            checks = [
                {key: self.total(one) for key, one in check.items()}
                for check in part["case_checks"]
            ]
            other = part["else_expr"]
            return make_try(
                {**part, "case_checks": checks, "else_expr": other and self.total(other)}
            )
        if kind in ("COMPARISON", "BETWEEN"):
            names = ("left", "right", "input", "lower", "upper")
            return make_try({**part, **{n: self.total(part[n]) for n in names if n in part}})
        raise self.query.refuse(
            part, ELSEWHERE.get(kind, "this is not read. Compute the column before you ask.")
        )

    def _total_function(self, part: Tree) -> Tree:
        name = part["function_name"].lower()
        *more, last = part["qualified_name"]["path"]
        now = self._clock(part, last) if not part["arguments"] else None
        if now is not None:
            return now
        if name not in ROW_FUNCTIONS or more or part["distinct"] or part["filter"]:
            raise self.query.refuse(
                part,
                f"function {name} is not read for single rows. Compute the column before you ask.",
            )
        if part["order_bys"]["orders"] or any(one["name"] for one in part["arguments"]):
            raise self.query.refuse(part, f"{name} is read with plain arguments alone.")
        given = arguments(part)
        if name in PATTERNS:
            self._check_pattern(part, given[1:])
        inside = [self.total(one) for one in given]
        if name in ARITHMETIC:
            inside = [self._wide(one) for one in inside]
        return make_try({**part, "arguments": [{"name": "", "expression": one} for one in inside]})

    def _check_pattern(self, part: Tree, patterns: list[Tree]) -> None:
        for one in patterns:
            text = constant(one)
            if not isinstance(text, str) or len(text) > LONGEST_PATTERN:
                raise self.query.refuse(
                    part, f"a pattern must be a text of at most {LONGEST_PATTERN} characters."
                )

    def _clock(self, part: Tree, name: str | None) -> Tree | None:
        """The time or the day as a constant, if a part is one of them and no column."""
        kind = NOW.get((name or "").lower())
        if kind is None or len(part.get("column_names", [""])) > 1 or self._is_column(name):
            return None
        now = datetime.now(UTC)
        text = now.date().isoformat() if kind == "DATE" else now.isoformat(" ")
        if kind == "TIMESTAMP":
            text = now.replace(tzinfo=None).isoformat(" ")
        return {**make_cast(make_constant(text), type_expression(kind)), "alias": part["alias"]}

    def _is_column(self, name: str | None) -> bool:
        tables = (*self.private.values(), *self.public.values())
        return any(c.casefold() == (name or "").casefold() for one in tables for c in one.types)

    def _wide(self, part: Tree) -> Tree:
        """A column of whole numbers in a wider type; other expressions as they are."""
        name = column_name(part)
        if name is None:
            return part
        tables = (*self.private.values(), *self.public.values())
        kinds = {
            k for one in tables for c, k in one.types.items() if c.casefold() == name.casefold()
        }
        wider = {WIDER[kind] for kind in kinds if kind in WIDER}
        if len(kinds) != 1 or not wider:
            return part
        return make_cast(part, type_expression(wider.pop()))


KEYS_ALONE = (
    "a public table is joined by its key alone. Write ON private.key = public.key, and conditions "
    "in WHERE."
)


def _placed(part: Tree) -> Tree:
    """The first part with a place in the text."""
    for one in inner_trees(part):
        if one.get(PLACE[0], 2**64) < 2**63 and one.get(PLACE[1]):
            return one
    return {}


def cte_query(entry: Tree) -> Tree:
    """The query of an entry of WITH."""
    value = entry["value"]
    found: Tree = value["query_node"] if "query_node" in value else value["query"]["node"]
    return found


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


def is_grouped(node: Tree) -> bool:
    """Whether a SELECT groups the rows of its tables."""
    distinct = any(one["type"] == "DISTINCT_MODIFIER" for one in node["modifiers"])
    forced = node["aggregate_handling"] == "FORCE_AGGREGATES"
    if distinct or forced or node["group_expressions"] or node["group_sets"] or node["having"]:
        return True
    parts = [node["select_list"], node["modifiers"], node["qualify"]]
    return any(is_aggregate(part) for part in inner_trees(parts))


def is_aggregate(part: Tree) -> bool:
    """Whether a part of a query is a call of an aggregate function, and no window."""
    return part.get("class") == "FUNCTION" and (
        part["function_name"].lower() in AGGREGATES or bool(part["filter"]) or part["distinct"]
    )


def conjuncts(condition: Tree) -> list[Tree]:
    """The conditions that AND joins."""
    if condition.get("type") == "CONJUNCTION_AND":
        return [one for child in condition["children"] for one in conjuncts(child)]
    return [condition]


def _all_of(conditions: list[Tree]) -> Tree:
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


def make_comparison(left: Tree, right: Tree) -> Tree:
    """``left = right``."""
    kind = "COMPARE_EQUAL"
    return {"class": "COMPARISON", "type": kind, "alias": "", "left": left, "right": right}


def _repeated_keys(table: Tree, keys: list[Tree]) -> str:
    """A statement whose rows are the keys that two rows of a public table have."""
    named = [{**key, "alias": f"k{i}"} for i, key in enumerate(keys)]
    inside = as_text(make_select(named, table))
    columns = ", ".join(f"k{i}" for i in range(len(keys)))
    given = " AND ".join(f"k{i} IS NOT NULL" for i in range(len(keys)))
    return f"SELECT 1 FROM ({inside}) WHERE {given} GROUP BY {columns} HAVING count(*) > 1 LIMIT 1"


def make_try(part: Tree) -> Tree:
    """``TRY(part)``: NULL where it fails."""
    return make_operator("OPERATOR_TRY", {**part, "alias": ""}, alias=part.get("alias", ""))
