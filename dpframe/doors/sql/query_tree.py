"""The text of a query as the tree that DuckDB's own parser makes of it, and parts of such trees.

A tree is JSON (``json_serialize_sql``). Its form belongs to the version of DuckDB, which the tests
pin. Names, constants and functions stay parts of the tree: no text is glued to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dpframe import _duck
from dpframe.common.calls import argument_hint, shown_value
from dpframe.common.texts import is_unicode
from dpframe.errors import ParameterError, ParameterTypeError

Tree = dict[str, Any]
"""A node of a query, or an expression."""

LONGEST = 100_000
"""Most characters of a query."""

PLACE = ("query_location", "query_location_length")
"""Keys that say where in the text a part stands: a byte, and a number of bytes."""

OF_TABLE = ("sample", "column_name_alias", "at_clause")
"""What a table has beside its name."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its text, its tree, and the options of ``WITH DIFFERENTIAL_PRIVACY``."""

    text: str
    tree: Tree
    options: Mapping[str, Any]

    def path_of(self, table: Tree) -> list[str]:
        """The name of a table with what qualifies it; BigQuery's backticks hold all of it."""
        path: list[str] = table["qualified_name"]["path"]
        start = table[PLACE[0]]
        return path[0].split(".") if self.text.encode()[start : start + 1] == b"`" else path

    def refuse(self, part: Tree, why: str) -> ParameterError:
        """The error that names a part of the query, its place in the text, and what to do."""
        start, length = (part.get(key, 0) for key in PLACE)
        encoded = self.text.encode()
        if start >= len(encoded):
            return ParameterError(why[:1].upper() + why[1:])
        end = start + length if length else len(encoded)
        found = " ".join(encoded[start:end].decode(errors="ignore").split())
        found = found if len(found) <= 40 else f"{found[:37]}..."
        return ParameterError(f"{found} ({_place(encoded, start)}): {why}")


def _place(encoded: bytes, start: int) -> str:
    """Where a byte of a text stands, in lines and characters."""
    before = encoded[:start].decode(errors="ignore")
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


MOST_NULLIF = 12
"""DuckDB's parser copies what stands in NULLIF, so that each one in another doubles the tree."""

NESTED = "query is nested too deeply, or too large. Write it with less nesting."


@contextmanager
def refused_depth() -> Iterator[None]:
    """Refuse what is nested too deeply for Python or for DuckDB."""
    try:
        yield
    except RecursionError:
        raise ParameterError(NESTED) from None


@refused_depth()
def read_query(text: object) -> Query:
    """Parse the text of one SELECT.

    Raises
    ------
    ParameterTypeError
        The query is no text.
    ParameterError
        It cannot be parsed, or is not one SELECT.
    """
    if not isinstance(text, str):
        raise ParameterTypeError(
            f"query must be a text such as 'SELECT count(*) FROM sales'; got {shown_value(text)}."
        )
    if not is_unicode(text):
        raise ParameterError("query has half of a surrogate pair, which is no character. Drop it.")
    if len(text) > LONGEST:
        raise ParameterError(f"query has {len(text)} characters; at most {LONGEST} are read.")
    if text.lower().count("nullif") > MOST_NULLIF:
        raise ParameterError(
            f"query has NULLIF more than {MOST_NULLIF} times. Write CASE WHEN a = b THEN NULL ELSE "
            "a END."
        )
    plain, options = _without_options(text)
    parsed = _parse(plain)
    statements = parsed.get("statements", [])
    if len(statements) != 1:
        raise ParameterError(f"query has {len(statements)} statements. Write one SELECT.")
    query = Query(text, statements[0]["node"], options)
    query = replace(query, tree=rebuild(query.tree, _with_named_columns))
    if _is_deep(query.tree):
        raise ParameterError(NESTED)
    for part in inner_trees(query.tree):
        _check_part(query, part)
    return replace(query, tree=_with_our_names(query))


def _with_named_columns(part: Tree) -> Tree | None:
    """``WITH t(a, b) AS (query)`` as ``WITH t AS (SELECT * FROM (query) AS t(a, b))``."""
    aliases = part.get("value", {}).get("aliases") if isinstance(part.get("value"), dict) else None
    if not aliases or "key" not in part:
        return None
    plain = {**part, "value": {**part["value"], "aliases": []}}
    inside = {**make_subquery(cte_query(plain), part["key"]), "column_name_alias": aliases}
    inside = rebuild(inside, _with_named_columns)
    return make_cte(part["key"], make_select([make_star()], inside))


def cte_query(entry: Tree) -> Tree:
    """The query of an entry of WITH."""
    value = entry["value"]
    found: Tree = value["query_node"] if "query_node" in value else value["query"]["node"]
    return found


DEEPEST = 300
"""Most parts of a tree that are in one another: about three a level of parentheses."""


MOST_PARTS = 8_000
"""Most parts of a tree. A tree can be far larger than its text: ``CASE x WHEN ...`` copies x."""


def _is_deep(tree: Tree) -> bool:
    level: list[Any] = [tree]
    parts = 0
    for _ in range(DEEPEST):
        parts += len(level)
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for values in inside for one in values if isinstance(one, dict | list)]
    return bool(level) or parts > MOST_PARTS


SAMPLE = "a sample or a version is not read, for a row in it could push out another. Leave it out."

TABLES = ("BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "SUBQUERY")

QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE")

RESERVED = "dpframe_"
"""What names begin with that are ours."""


def _check_part(query: Query, part: Tree) -> None:
    """Raise ParameterError for what no query may have, wherever it stands."""
    kind = str(part.get("type"))
    if kind.endswith("_NODE") and kind not in QUERIES:
        raise query.refuse(part, "this kind of query is not read. Ask one grouped SELECT.")
    tables = [part[key] for key in ("from_table", "left", "right") if key in part]
    if any("class" not in t and t["type"] not in TABLES + QUERIES for t in tables if t):
        raise query.refuse(
            first_placed(tables),
            "this is no table, join or subquery. Pass the rows as a table, and name it.",
        )
    if part.get("sample") or part.get("at_clause"):
        raise query.refuse(first_placed(part), SAMPLE)
    if part.keys() != {"kind", "text"} and any(map(is_reserved, _texts([*part.values()]))):
        raise query.refuse(
            first_placed(part), f"names that begin with {RESERVED} are ours. Choose another."
        )


def _texts(values: list[Any]) -> Iterator[str]:
    for one in values:
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            yield from _texts(one)


def first_placed(part: Any) -> Tree:
    """The first part with a place in the text."""
    for one in inner_trees(part):
        if one.get(PLACE[0], 2**64) < 2**63 and one.get(PLACE[1]):
            return one
    return {}


def is_reserved(name: str) -> bool:
    return name.casefold().startswith(RESERVED)


def _parse(plain: str) -> Tree:
    try:
        parsed = _duck.query_tree(plain)
    except _duck.Error:
        raise ParameterError("query cannot be parsed. Write it shorter.") from None
    if parsed["error"]:
        message = parsed["error_message"]
        if "position" in parsed:
            message += f" ({_place(plain.encode(), int(parsed['position']))})"
        if parsed["error_type"] == "not implemented":
            message = "it is no SELECT. Write one SELECT"
        raise ParameterError(f"query cannot be parsed: {message}.")
    return parsed


def _with_our_names(query: Query) -> Tree:
    """The tree with tables by their last names: ``"public"."sales"`` is the table ``sales``.

    Tables are handed in by name, so that a schema says no more, unless two tables have one name.
    BigQuery's ``percentile_cont(x, 0.5)`` is DuckDB's ``quantile_cont``.
    """
    _check_last_names(query, query.tree, frozenset())
    paths: dict[str, list[str]] = {}
    for one in inner_trees(query.tree):
        if one.get("type") == "BASE_TABLE":
            path = [name.casefold() for name in query.path_of(one)]
            if len(path) > 1 and paths.setdefault(path[-1], path) != path:
                raise query.refuse(one, f"two tables are named {path[-1]!r}. Rename one.")

    def our_names(part: Tree) -> Tree | None:
        if part.get("type") == "BASE_TABLE":
            name = query.path_of(part)[-1]
            return {**make_table(name, part["alias"]), **{k: part[k] for k in (*PLACE, *OF_TABLE)}}
        if part.get("function_name", "").lower() == "percentile_cont":
            changed = {
                **part,
                **{key: QUANTILE[key] for key in ("function_name", "qualified_name")},
            }
            return {key: rebuild(one, our_names) for key, one in changed.items()}
        names = part.get("column_names", [])
        for path in paths.values():
            if len(names) > len(path) and [one.casefold() for one in names[: len(path)]] == path:
                return {**part, "column_names": names[len(path) - 1 :]}
        return None

    tree: Tree = rebuild(query.tree, our_names)
    return tree


def _check_last_names(query: Query, part: Any, ctes: frozenset[str]) -> None:
    """Raise ParameterError where a table with a schema has the last name of a CTE that it sees."""
    if isinstance(part, list):
        for one in part:
            _check_last_names(query, one, ctes)
    elif isinstance(part, dict):
        for entry in part.get("cte_map", {}).get("map", []):
            _check_last_names(query, cte_query(entry), ctes)
            ctes |= {entry["key"].casefold()}
        if part.get("type") == "BASE_TABLE":
            *more, name = query.path_of(part)
            if more and name.casefold() in ctes:
                raise query.refuse(part, f"WITH has the name {name!r}, too. Rename it there.")
        for key, one in part.items():
            if key != "cte_map":
                _check_last_names(query, one, ctes)


# -- WITH DIFFERENTIAL_PRIVACY, as BigQuery writes it ---------------------------------------------

CLAUSE = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?(?:\*/|\Z)"
    r"|(?P<clause>\bSELECT(?P<with>\s+WITH\s+DIFFERENTIAL_PRIVACY\b)(?P<head>\s*OPTIONS\s*\()?)",
    re.I | re.S,
)
"""Texts, names and comments, which are passed over, and the clause."""

INSIDE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?P<sign>[()])", re.S)

OPTIONS = ("epsilon", "delta", "privacy_unit_column", "intervals")
"""Options that are read. BigQuery's others are found privately, or follow from the plan."""


def _without_options(text: str) -> tuple[str, Mapping[str, Any]]:
    """The text with blanks in the place of the clause, so that places stay; and its options."""
    found = [one for one in CLAUSE.finditer(text) if one["clause"]]
    if not found:
        return text, {}
    if len(found) > 1:
        raise ParameterError("WITH DIFFERENTIAL_PRIVACY is there twice. Ask one query at a time.")
    start, end = found[0].start("with"), found[0].end()
    options: Mapping[str, Any] = {}
    if found[0]["head"]:
        inside = end
        end = _end_of_options(text, end)
        options = _options(_blank(text[:inside])[: -len("SELECT ")], text[inside : end - 1])
    return text[:start] + _blank(text[start:end]) + text[end:], options


def _blank(text: str) -> str:
    """As many blanks as a text has bytes, so that places stay."""
    return re.sub(r"[^\n]", lambda found: " " * len(found[0].encode()), text)


def _end_of_options(text: str, start: int) -> int:
    depth = 1
    for found in INSIDE.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(found["sign"] or "", 0)
        if not depth:
            return found.end()
    raise ParameterError("OPTIONS( is not closed. Write OPTIONS(epsilon = 1, delta = 1e-6).")


def _options(before: str, inside: str) -> Mapping[str, Any]:
    if not inside.strip():
        return {}
    node, *more = [one["node"] for one in _parse(f"{before}SELECT {inside}")["statements"]]
    beside = ("modifiers", "where_clause", "group_expressions", "having", "qualify", "sample")
    if more or node["from_table"]["type"] != "EMPTY" or any(node[part] for part in beside):
        raise ParameterError("OPTIONS has more than options. Write OPTIONS(epsilon = 1).")
    options: dict[str, Any] = {}
    for one in node["select_list"]:
        name = column_name(one["left"]) if one["type"] == "COMPARE_EQUAL" else None
        if name is None or name.lower() not in OPTIONS:
            what = "one of OPTIONS" if name is None else f"option {name!r}"
            raise ParameterError(f"{what} is not read.{argument_hint(name or '', OPTIONS)}")
        if name.lower() in options:
            raise ParameterError(f"option {name!r} is there twice. Leave one out.")
        options[name.lower()] = _option(name.lower(), one["right"])
    return options


def _option(name: str, value: Tree) -> Any:
    found = column_name(value) if name == "privacy_unit_column" else constant(value)
    if found is None:
        raise ParameterError(f"option {name} must be a {OPTION_KINDS.get(name, 'number')}.")
    return found


OPTION_KINDS = {"privacy_unit_column": "column", "intervals": "true or false"}


# -- parts of trees ------------------------------------------------------------------------------


def is_expression(part: object) -> bool:
    return isinstance(part, dict) and "class" in part


def rebuild(part: Any, change: Callable[[Tree], Any]) -> Any:
    """A copy of a part, in which each tree for which ``change`` returns another has been replaced.

    A tree comes before what it holds; what replaces it is not looked at again.
    """
    if isinstance(part, list):
        return [rebuild(one, change) for one in part]
    if not isinstance(part, dict):
        return part
    other = change(part)
    if other is not None:
        return other
    return {key: rebuild(value, change) for key, value in part.items()}


def inner_trees(part: Any) -> Iterator[Tree]:
    """All trees in a part, itself first."""
    if isinstance(part, list):
        for one in part:
            yield from inner_trees(one)
    elif isinstance(part, dict):
        yield part
        for one in part.values():
            yield from inner_trees(one)


def bare(part: Any) -> Any:
    """A part without places, aliases and the case of names, to compare it with others."""
    if isinstance(part, list):
        return [bare(one) for one in part]
    if not isinstance(part, dict):
        return part
    if part.get("class") == "COLUMN_REF":
        return {"class": "COLUMN_REF", "names": [name.casefold() for name in part["column_names"]]}
    return {key: bare(value) for key, value in part.items() if key not in (*PLACE, "alias")}


def same_expression(one: Any, other: Any) -> bool:
    """Whether two expressions are the same, whatever qualifies their columns if only one has it."""
    return _compare(bare(one), bare(other))


def _compare(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        if one.get("class") == other.get("class") == "COLUMN_REF":
            least = min(len(one["names"]), len(other["names"]))
            return bool(one["names"][-least:] == other["names"][-least:])
        return one.keys() == other.keys() and all(_compare(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_compare, one, other))
    return bool(one == other)


def cte_names(tree: Tree) -> list[str]:
    """The names of all CTEs."""
    entries = (one["map"] for one in inner_trees(tree) if isinstance(one.get("map"), list))
    return [entry["key"] for listed in entries for entry in listed]


def named_tables(tree: Tree) -> list[str]:
    """The names of tables in FROM, without those of a schema; names of CTEs are among them."""
    paths = (
        one["qualified_name"]["path"]
        for one in inner_trees(tree)
        if one.get("type") == "BASE_TABLE"
    )
    return [*dict.fromkeys(path[0] for path in paths if len(path) == 1)]


def column_name(part: Tree) -> str | None:
    """The name of a column, without what qualifies it; None for other expressions."""
    return str(part["column_names"][-1]) if part.get("class") == "COLUMN_REF" else None


def arguments(function: Tree) -> list[Tree]:
    """The arguments of a function that have no name."""
    return [one["expression"] for one in function.get("arguments", []) if not one["name"]]


def named_arguments(function: Tree) -> dict[str, Tree]:
    return {
        one["name"].lower(): one["expression"]
        for one in function.get("arguments", [])
        if one["name"]
    }


def constant(part: Tree) -> Any:
    """The value of a number, a text, or true or false; None for other expressions."""
    if part.get("class") == "FUNCTION" and part["function_name"] == "-":
        (inside, *more) = arguments(part)
        value = constant(inside)
        return -value if not more and isinstance(value, int | float) else None
    if part.get("class") == "CAST":  # DATE '2026-11-01', or a text of BigQuery's
        return constant(part["child"])
    if part.get("class") != "CONSTANT":
        return None
    kind, text = part["literal"]["kind"], part["literal"].get("text")
    if kind in ("INTEGER", "NUMERIC"):
        return int(text) if kind == "INTEGER" else float(text)
    if kind == "BOOLEAN":
        return text == "true"
    return text if kind == "STRING" else None


# -- trees that are made -------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _template(text: str) -> Tree:
    """The tree of a query. It is shared: whoever changes it makes a copy."""
    node: Tree = _duck.query_tree(text)["statements"][0]["node"]
    return node


def make_column(name: str, alias: str = "") -> Tree:
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": alias, "column_names": [name]}


def make_constant(value: int | str) -> Tree:
    kind = "INTEGER" if isinstance(value, int) else "STRING"
    return {
        "class": "CONSTANT",
        "type": "VALUE_CONSTANT",
        "alias": "",
        "literal": {"kind": kind, "text": str(value)},
    }


def make_function(name: str, *given: Tree, alias: str = "") -> Tree:
    return {
        "class": "FUNCTION",
        "type": "FUNCTION",
        "alias": alias,
        "function_name": name,
        "schema": "",
        "catalog": "",
        "filter": None,
        "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
        "distinct": False,
        "is_operator": False,
        "export_state": False,
        "arguments": [{"name": "", "expression": one} for one in given],
        "qualified_name": {"path": [name]},
        "is_legacy_function_call": False,
    }


QUANTILE = make_function("quantile_cont")


def make_operator(kind: str, *children: Tree, alias: str = "") -> Tree:
    return {"class": "OPERATOR", "type": kind, "alias": alias, "children": [*children]}


def make_case(condition: Tree, then: Tree) -> Tree:
    """``CASE WHEN condition THEN then END``."""
    nothing = {**make_constant(0), "literal": {"kind": "NULL_LITERAL"}}
    return {
        "class": "CASE",
        "type": "CASE_EXPR",
        "alias": "",
        "case_checks": [{"when_expr": condition, "then_expr": then}],
        "else_expr": nothing,
    }


def make_cast(child: Tree, type_expression: Tree) -> Tree:
    """``TRY_CAST(child AS type)``."""
    return {
        "class": "CAST",
        "type": "OPERATOR_CAST",
        "alias": "",
        "child": child,
        "try_cast": True,
        "type_expr": type_expression,
    }


def type_expression(name: str) -> Tree:
    """The tree of a type of DuckDB, by its name."""
    (cast,) = _template(f"SELECT CAST(NULL AS {name})")["select_list"]
    found: Tree = cast["type_expr"]
    return found


def make_table(name: str, alias: str = "") -> Tree:
    return {
        "type": "BASE_TABLE",
        "alias": alias,
        "sample": None,
        "schema_name": "",
        "catalog_name": "",
        "table_name": name,
        "column_name_alias": [],
        "at_clause": None,
        "qualified_name": {"path": [name]},
    }


def make_subquery(node: Tree, alias: str = "") -> Tree:
    """A query in FROM."""
    return {
        "type": "SUBQUERY",
        "alias": alias,
        "sample": None,
        "subquery": {"node": node, "named_param_map": []},
        "column_name_alias": [],
    }


def make_star() -> Tree:
    (star,) = _template("SELECT * FROM t")["select_list"]
    found: Tree = star
    return found


def make_cte(name: str, node: Tree) -> Tree:
    """An entry of WITH."""
    entry: Tree = _template("WITH t AS (SELECT 1) SELECT 1")["cte_map"]["map"][0]
    value = dict(entry["value"])
    if "query_node" in value:
        value["query_node"] = node
    else:
        value["query"] = {**value["query"], "node": node}
    return {"key": name, "value": value}


def make_select(columns: list[Tree], table: Tree, where: Tree | None = None) -> Tree:
    return {
        "type": "SELECT_NODE",
        "modifiers": [],
        "cte_map": {"map": []},
        "select_list": columns,
        "from_table": table,
        "where_clause": where,
        "group_expressions": [],
        "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING",
        "having": None,
        "sample": None,
        "qualify": None,
    }


def as_text(node: Tree) -> str:
    """The text of a query."""
    return _duck.query_text({"error": False, "statements": [{"node": node, "named_param_map": []}]})


def expression_text(part: Tree) -> str:
    """The text of an expression."""
    nothing = {"type": "EMPTY", "alias": "", "sample": None}
    return as_text(make_select([{**part, "alias": ""}], nothing)).removeprefix("SELECT ").strip()
