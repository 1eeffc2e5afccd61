"""Expressions of a query: of single private rows, and of released rows.

**Private rows.** An expression depends on its row and on constants alone, and is *total*: it fails
on no value. Casts become TRY_CAST, whole numbers are widened before they are computed with, and
what still fails on a row is NULL there. DuckDB's TRY catches errors of values, not those of types
and of constants ("not implemented"), so that these are checked here, before any row is read. One
TRY is around a whole expression: TRY runs what fails a second time, and nested ones would double
the time of one row again and again. What makes texts longer is cut, or one row could take all
memory.

**Released rows.** Functions are those of the same list, aggregates and windows. Nothing there reads
a file, a setting, a variable or the clock, or waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dpframe import _duck
from dpframe.doors.sql.query_tree import (
    Query,
    Tree,
    arguments,
    column_name,
    constant,
    expression_text,
    inner_trees,
    make_cast,
    make_constant,
    make_function,
    make_operator,
    type_expression,
)
from dpframe.errors import ParameterError, SourceError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PATTERNS = _words("""
    ~~ !~~ ~~* !~~* like_escape not_like_escape ilike_escape not_ilike_escape regexp_matches
    regexp_full_match regexp_extract regexp_replace
""")
"""Functions with a pattern, which must be a constant: a pattern of a row could take any time."""

LONGEST_PATTERN = 1_000

WITH_UNITS = _words("date_trunc datetrunc date_part datepart date_diff datediff date_sub datesub")
"""Functions whose first argument is a unit, which must be a constant."""

BETWEEN_TIMES = _words("date_diff datediff date_sub datesub")

CLOCK = _words("""
    hour hours h minute minutes min second seconds s sec millisecond milliseconds ms microsecond
    microseconds us epoch
""")
"""Units that times of a day have, too."""

UNITS = CLOCK | _words("""
    millennium millennia century centuries decade decades year years y quarter quarters month months
    mon week weeks w day days d dow dayofweek isodow doy dayofyear weekday isoyear yearweek
    weekofyear
""")

OF_WEEKS = _words("dayofweek isodow weekday dayofyear isoyear week weekofyear yearweek")
"""Functions of days, which DuckDB also has for intervals, where each value fails."""

LONGER = _words("|| concat concat_ws replace regexp_replace")
"""Functions that make texts longer."""

LONGEST_TEXT = 4_000
"""Most characters of a text that these functions make; what is longer is cut."""

MOST_TEXTS = 20
"""Most texts that one call puts together, and most characters that a replacement has."""

COPYING = _words("nullif split_part date_add dateadd if")
"""Macros of DuckDB, which copy their arguments: nested ones would be run again at every level."""

MOST_COPIES = 4

ROW_FUNCTIONS = (
    PATTERNS
    | WITH_UNITS
    | OF_WEEKS
    | LONGER
    | _words("""
    + - * / // % abs ceil ceiling floor round sign trunc sqrt exp ln log log2 log10 pow power
    greatest least coalesce ifnull nullif if lower upper lcase ucase trim ltrim rtrim length len
    strlen char_length substring substr left right reverse split_part starts_with ends_with prefix
    suffix contains strpos instr position ^@ date_add dateadd year month day hour minute second
    quarter dayofmonth dayname monthname last_day strftime epoch epoch_ms to_timestamp make_date
    make_timestamp time_bucket to_years to_months to_weeks to_days to_hours to_minutes to_seconds
    timezone isnan isinf isfinite try_strptime mod
""")
)
"""Functions of one row: each depends on its arguments alone. What fails on a row is NULL there."""

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
    COMPARE_IN COMPARE_NOT_IN
""")

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

AGGREGATES = _words("""
    count count_star sum avg mean median quantile quantile_cont quantile_disc approx_quantile
    approx_count_distinct count_if countif min max any_value arbitrary first last arg_min
    arg_max min_by max_by string_agg group_concat listagg list array_agg stddev stddev_samp
    stddev_pop variance var_samp var_pop mode mad bool_and bool_or bit_and bit_or bit_xor
    product fsum sumkahan favg kurtosis skewness entropy corr covar_pop covar_samp regr_slope
    regr_intercept histogram geometric_mean geomean approx_top_k reservoir_quantile
""")
"""Aggregate functions: those that are answered, and those that are refused by name."""

WINDOWS = _words("""
    row_number rank dense_rank rank_dense percent_rank cume_dist ntile lag lead first_value
    last_value nth_value
""")

RELEASED_PARTS = _words("""
    COLUMN_REF CONSTANT CAST CONJUNCTION FUNCTION OPERATOR CASE COMPARISON BETWEEN WINDOW SUBQUERY
    STAR POSITIONAL_REFERENCE
""")
"""Expressions that run on released rows."""

NOT_TRIED = _words("WINDOW SUBQUERY STAR POSITIONAL_REFERENCE")
"""Expressions that TRY does not take; aggregates are others."""

ALWAYS_RIGHT = ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")


@dataclass(frozen=True, slots=True)
class Columns:
    """A table that a query may name: its name as declared, and its columns with their types."""

    name: str
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """What each column of the private table may do in a query, by names in small letters: be
    grouped by, be measured, or stand in conditions. Joins may compare every column."""

    group: frozenset[str]
    measure: frozenset[str]
    filter: frozenset[str]

    @classmethod
    def of(cls, *, group: Iterable[str], measure: Iterable[str], filter: Iterable[str]) -> Roles:
        """Roles of columns, whatever the case of their names."""
        given = (group, measure, filter)
        return cls(
            **{
                role: frozenset(map(str.casefold, names))
                for role, names in zip(MAY, given, strict=True)
            }
        )

    def refusal(self, column: str, role: str) -> str:
        """The message about a column that may not have a role, with those that it has."""
        has = [words for one, words in MAY.items() if column in getattr(self, one)]
        return (
            f"{column!r} may not {MAY[role]}, by the policy. It may "
            f"{' or '.join(has) or 'only be joined by'}."
        )


MAY = {"group": "be grouped by", "measure": "be measured", "filter": "stand in a condition"}
"""Roles, and what they allow."""


@dataclass(slots=True)
class RowTable:
    """A table of a FROM clause: its name there, and its columns, with the private columns that each
    is made of. ``private`` says whether its rows are."""

    alias: str
    columns: dict[str, set[str]]
    private: bool


def origins(part: Any, tables: Sequence[RowTable], items: Sequence[Tree] = ()) -> set[str]:
    """The private columns that an expression is made of, in small letters; more rather than less,
    where a name could mean several things."""
    found: set[str] = set()
    for one in inner_trees(part):
        names = [name.casefold() for name in one.get("column_names", ())]
        meant = [table.columns[n] for table in tables for n in names if n in table.columns]
        for table in tables:
            if names == [table.alias]:  # a whole row
                meant += table.columns.values()
        if names and not meant:
            others = [item for item in items if item["alias"].casefold() == names[0]]
            rest = [item for item in items if item not in others]
            meant += [origins(item, tables, rest) for item in others]
            if not others and names[0] not in NOW:  # of a table that has no name here
                meant += [found for table in tables for found in table.columns.values()]
        found |= set().union(*meant)
    return found


@dataclass(slots=True)
class ExpressionReader:
    """Reads expressions; ``private`` and ``public`` are the tables that a query may name."""

    query: Query
    private: Mapping[str, Columns]
    public: Mapping[str, Columns]
    given_names: frozenset[str] = field(init=False)
    """Names that the query gives to other things than the columns of that name."""

    def __post_init__(self) -> None:
        self.given_names = frozenset(_given_names(self.query.tree))

    # -- of single private rows ---------------------------------------------------------------

    def total(self, part: Tree) -> Tree:
        """An expression of one row that fails on no value; ParameterError for one that is not."""
        if part.get("type") == "OPERATOR_TRY":
            part = {**part["children"][0], "alias": part["alias"]}
        return _try(self._of_row(part))

    def condition(self, part: Tree) -> Tree:
        """A condition on one row: whether it holds, or NULL. It fails on no value."""
        if part["class"] == "CONJUNCTION" or part["type"] == "OPERATOR_NOT":
            return {**part, "children": [self.condition(one) for one in part["children"]]}
        return make_cast(self.total(part), type_expression("BOOLEAN"))

    def _of_row(self, part: Tree) -> Tree:
        kind = part["class"]
        if kind == "COLUMN_REF":
            name = str(column_name(part))
            if name.casefold() == "rowid" and not self._is_column(name):
                raise self.query.refuse(part, "the place of a row depends on others. Leave it out.")
            return self._clock(part, name) or part
        if kind == "CONSTANT":
            return part
        if kind == "CAST":
            return {**part, "child": self._of_row(part["child"]), "try_cast": True}
        if kind == "FUNCTION":
            now = self._clock_of_call(part)
            if now is not None:
                return now
            if part["filter"] or part["distinct"] or part["order_bys"]["orders"]:
                raise self._unknown(part)
            return self._function(part, [self._of_row(one) for one in arguments(part)], True)
        if kind == "CONJUNCTION" or (kind == "OPERATOR" and part["type"] in OPERATORS):
            return {**part, "children": [self._of_row(one) for one in part["children"]]}
        if kind == "CASE":
            checks = [
                {key: self._of_row(one) for key, one in check.items()}
                for check in part["case_checks"]
            ]
            other = part["else_expr"]
            return {**part, "case_checks": checks, "else_expr": other and self._of_row(other)}
        if kind in ("COMPARISON", "BETWEEN"):
            names = ("left", "right", "input", "lower", "upper")
            return {**part, **{n: self._of_row(part[n]) for n in names if n in part}}
        why = "this is not read. Compute the column before you ask."
        if part["type"] == "OPERATOR_TRY":
            why = "leave TRY out: what fails on a row is NULL there."
        raise self.query.refuse(part, ELSEWHERE.get(kind, why))

    # -- of released rows ---------------------------------------------------------------------

    def afterwards(self, part: Any) -> Any:
        """What runs on released rows: functions of the list, and casts that fail on no value."""
        if isinstance(part, list):
            return [self.afterwards(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "class" in part:
            plain = not any(map(_is_not_tried, inner_trees(part)))
            done = self._of_released(part)
            return _try(done) if plain else done
        done = {key: self.afterwards(value) for key, value in part.items()}
        if part.get("type") == "SELECT_NODE":
            named = zip(part["select_list"], done["select_list"], strict=True)
            done["select_list"] = [keep_name(*pair) for pair in named]
        return done

    def _of_released(self, part: Any) -> Any:
        """An expression without TRY; parts of one that TRY does not take are tried."""
        if isinstance(part, list):
            return [self._of_released(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "class" not in part:
            return {key: self._of_released(value) for key, value in part.items()}
        kind = part["class"]
        if kind not in RELEASED_PARTS or part["type"] == "OPERATOR_TRY":
            why = "this does not run on released rows. Compute it of the result."
            raise self.query.refuse(part, why)
        if kind == "WINDOW":
            name = part["function_name"].lower()
            if name not in WINDOWS | AGGREGATES or len(part["qualified_name"]["path"]) > 1:
                raise self._unknown(part)
        read = self.afterwards if any(map(_is_not_tried, inner_trees(part))) else self._of_released
        if kind == "CAST":
            return {**part, "child": read(part["child"]), "try_cast": True}
        if kind != "FUNCTION":
            return {key: read(value) for key, value in part.items()}
        now = self._clock_of_call(part)
        if now is not None:
            return now
        inside = [read(one) for one in arguments(part)]
        if not is_aggregate(part):
            return self._function(part, inside, False)
        if part["function_name"].lower() not in AGGREGATES or part["qualified_name"]["path"][1:]:
            raise self._unknown(part)
        return {
            **{key: read(value) for key, value in part.items()},
            "arguments": as_arguments(inside),
        }

    # -- functions ----------------------------------------------------------------------------

    def _unknown(self, part: Tree) -> ParameterError:
        name = part["function_name"]
        return self.query.refuse(
            part, f"function {name} is not read here. Compute the column before you ask."
        )

    def _function(self, part: Tree, inside: list[Tree], of_row: bool) -> Tree:
        """A call with these arguments, if nothing but a value of an argument can make it fail."""
        name, given = part["function_name"].lower(), arguments(part)
        if name not in ROW_FUNCTIONS or len(part["qualified_name"]["path"]) > 1:
            raise self._unknown(part)
        if any(one["name"] for one in part["arguments"]):
            raise self.query.refuse(part, f"{name} is read with plain arguments alone.")
        self._check_constants(part, name, given)
        if name in ARITHMETIC and of_row:
            inside = [self._wide(one) for one in inside]
        times = range(0)
        if name in OF_WEEKS:
            times = range(len(inside))
        elif name in BETWEEN_TIMES and str(constant(given[0])).lower() not in CLOCK:
            times = range(1, len(inside))
        for place in times:
            inside[place] = make_cast(inside[place], type_expression("TIMESTAMP"))
        if name not in LONGER:
            return {**part, "arguments": as_arguments(inside)}
        most = make_constant(LONGEST_TEXT)
        if name in ("replace", "regexp_replace"):
            inside[0] = make_function("left", inside[0], most)
        longer = {**part, "alias": "", "arguments": as_arguments(inside)}
        return make_function("left", longer, most, alias=part["alias"])

    def _check_constants(self, part: Tree, name: str, given: list[Tree]) -> None:
        """Raise ParameterError for arguments that must be constants and are none, or wrong ones."""
        if name in COPYING and sum(map(_is_copying, inner_trees(part))) > MOST_COPIES:
            raise self.query.refuse(part, f"at most {MOST_COPIES} of {name} are in one another.")
        if name in PATTERNS:
            known = [constant(one) for one in given[1:]]
            if any(one is None or len(str(one)) > LONGEST_PATTERN for one in known):
                why = f"a pattern must be a text of at most {LONGEST_PATTERN} characters."
                raise self.query.refuse(part, why)
            if name.endswith("_escape") and not _is_escaped(*map(str, known[:2])):
                raise self.query.refuse(part, "the pattern ends with its sign of escape.")
            self._probe(part, [make_constant("a"), *given[1:]])
        if name in LONGER:
            last = constant(given[2]) if name.endswith("replace") and len(given) > 2 else ""
            if not isinstance(last, str) or max(len(last), len(given)) > MOST_TEXTS:
                why = f"at most {MOST_TEXTS} texts are joined, or characters of a constant put in."
                raise self.query.refuse(part, why)
        if name in WITH_UNITS and (not given or str(constant(given[0])).lower() not in UNITS):
            raise self.query.refuse(part, "the unit must be a text such as 'month'.")
        if name in ("timezone", "time_bucket"):
            others = [given[0], *given[2:]] if given else given
            if len(given) < 2 or any(column_name(p) for o in others for p in inner_trees(o)):
                why = f"all of {name} but its time must be constants."
                raise self.query.refuse(part, why)
            for kind in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
                time = make_cast(make_constant("2026-11-01"), type_expression(kind))
                self._probe(part, [given[0], time, *given[2:]])

    def _probe(self, part: Tree, given: list[Tree]) -> None:
        """Raise ParameterError if a call fails on constants."""
        text = expression_text({**part, "arguments": as_arguments(given)})
        try:
            _duck.select_from_tables({}, f"SELECT {text}", "constants")
        except SourceError:
            why = "its constants are refused by DuckDB. Try the call in DuckDB."
            raise self.query.refuse(part, why) from None

    def _clock_of_call(self, part: Tree) -> Tree | None:
        name = part["qualified_name"]["path"][-1]
        return self._clock(part, name) if not part["arguments"] else None

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
        if name is None or name.casefold() in self.given_names:
            return part
        tables = (*self.private.values(), *self.public.values())
        kinds = {
            k for one in tables for c, k in one.types.items() if c.casefold() == name.casefold()
        }
        wider = {WIDER[kind] for kind in kinds if kind in WIDER}
        if len(kinds) != 1 or not wider:
            return part
        return make_cast(part, type_expression(wider.pop()))


def _given_names(tree: Tree) -> Iterator[str]:
    """Names that a query gives to expressions and columns of other names, in small letters."""
    for one in inner_trees(tree):
        given = [
            *one.get("column_name_alias", ()),
            *(renamed["value"] for renamed in one.get("rename_list", ())),
            *(replaced["key"] for replaced in one.get("replace_list", ())),
        ]
        alias = one.get("alias", "") if "class" in one else ""
        if alias.casefold() != (column_name(one) or "").casefold():
            given.append(alias)
        yield from map(str.casefold, given)


def is_aggregate(part: Tree) -> bool:
    """Whether a part of a query is a call of an aggregate function, and no window."""
    return part.get("class") == "FUNCTION" and (
        part["function_name"].lower() in AGGREGATES or bool(part["filter"]) or part["distinct"]
    )


def _is_not_tried(part: Tree) -> bool:
    return part.get("class") in NOT_TRIED or is_aggregate(part)


def _is_copying(part: Tree) -> bool:
    return part.get("class") == "FUNCTION" and part["function_name"].lower() in COPYING


def _is_escaped(pattern: str, escape: str = "") -> bool:
    """Whether a character follows each sign of escape in a pattern of LIKE."""
    if len(escape) != 1:
        return not escape
    signs = iter(pattern)
    return all(one != escape or next(signs, None) is not None for one in signs)


def as_arguments(given: list[Tree]) -> list[Tree]:
    return [{"name": "", "expression": one} for one in given]


def keep_name(item: Tree, read: Tree) -> Tree:
    """What a query selects, under the name that DuckDB gives it before it is changed."""
    plain = item["class"] in ("COLUMN_REF", "STAR") or item["alias"] or item == read
    return read if plain else {**read, "alias": expression_text(item)}


def _try(part: Tree) -> Tree:
    """An expression that is NULL where it fails; unchanged if it fails on no value."""
    risky = ("FUNCTION", "CASE", "COMPARISON", "BETWEEN", "OPERATOR", "CONJUNCTION")
    if not any(
        one.get("class") in risky and one["type"] not in ALWAYS_RIGHT for one in inner_trees(part)
    ):
        return part
    return make_operator("OPERATOR_TRY", {**part, "alias": ""}, alias=part.get("alias", ""))
