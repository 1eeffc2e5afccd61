"""Queries at random: from a grammar of the SQL that people write, and with parts changed.

A query follows from its seed alone. Most are plain, and can be answered; some parts are wild, and
are refused by name.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TEXTS = ("country", "product", '"odd ""name"', "code")
WHOLE = ("quantity", "small", "customer_id", "big")
REAL = ("amount", "ratio")
TIMES = ("ordered_at", "day")
FLAGS = ("flag",)

NUMBER_FUNCTIONS = (
    *("abs({})", "ceil({})", "floor({})", "round({}, 1)", "sign({})", "trunc({})", "sqrt({})"),
    *("exp({})", "ln({})", "log2({})", "log10({})", "pow({}, 2)", "greatest({}, {})"),
    *("least({}, {})", "coalesce({}, 0)", "nullif({}, 0)", "({} + {})", "({} - {})", "({} * {})"),
    *("({} / {})", "({} // {})", "({} % {})", "-{}", "mod({}, 7)", "ifnull({}, 1)", "({} ** 2)"),
)
TEXT_FUNCTIONS = (
    *("lower({})", "upper({})", "trim({})", "ltrim({})", "replace({}, 'F', 'G')", "left({}, 1)"),
    *("right({}, 2)", "reverse({})", "substring({}, 1, 2)", "substr({}, 2)", "({} || '-' || {})"),
    *("concat({}, '.', {})", "split_part({}, '-', 1)", "coalesce({}, 'none')", "nullif({}, '')"),
    *("regexp_replace({}, '[0-9]+', '#')", "regexp_extract({}, '^(.)', 1)"),
    *("concat_ws('/', {}, {})", "if(flag, {}, 'x')", "{}[1:2]"),
)
TIME_KEYS = (
    *("date_trunc('month', {})", "date_trunc('week', {})", "year({})", "month({})", "dayname({})"),
    *("extract(quarter FROM {})", "date_part('dow', {})", "strftime({}, '%Y-%m')", "last_day({})"),
    *("CAST({} AS DATE)", "({} + INTERVAL 1 DAY)", "date_diff('day', {}, DATE '2026-01-01')"),
    *(
        "time_bucket(INTERVAL '7 days', {})",
        "epoch({})",
        "{}::DATE",
        "date_add({}, INTERVAL 1 MONTH)",
    ),
    *("isodow({})", "monthname({})", "quarter({})", "week({})", "yearweek({})", "hour({})"),
    *("make_date(year({}), 1, 1)", "to_timestamp(epoch({}))", "({} - to_days(quantity))"),
)
TYPES = (
    *("BIGINT", "INTEGER", "VARCHAR", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN", "TINYINT"),
    *("DECIMAL(10, 2)", "FLOAT", "UBIGINT", "HUGEINT", "TIMESTAMPTZ", "SMALLINT", "TIME"),
)
STRANGE_TYPES = (
    *("BLOB", "INTEGER[]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)", "JSON", "UUID", "BIT"),
    *("ENUM('a', 'b')", "INTERVAL", "nothing", "DECIMAL(99, 2)", "UNION(a INTEGER, b DATE)"),
    *("VARIANT", "BIGNUM", "GEOMETRY", "NULL", "INTEGER[3]"),
)
REFUSED_FUNCTIONS = (
    *("random()", "uuid()", "getenv('HOME')", "nextval('s')", "list_value({})", "md5({})"),
    *("hash({})", "current_setting('threads')", "struct_pack(a := {})", "{}[1]", "error('no')"),
    *("list_transform([{}], x -> x + 1)", "{} COLLATE NOCASE", "$1", "?", "unnest([{}])"),
    *("regexp_matches(country, {})", "repeat({}, 1000000000)", "chr(0)", "no_such_function({})"),
    *("(SELECT 1)", "(SELECT max(price) FROM products)", "(SELECT max(amount) FROM sales)", "#1"),
    *("{} IN (SELECT code FROM countries)", "EXISTS (SELECT 1 FROM sales)", "DEFAULT", "*"),
    *("row_number() OVER ()", "sum({}) OVER (ORDER BY day)", "CAST({} AS nothing)", "lag({})"),
    *("COLUMNS('c.*')", "COLUMNS(*)", "[{}, {}]", "{{'a': {}}}", "sales", "rowid", "sales.*"),
    *("main.lower({})", "query('SELECT 1')", "lower(DISTINCT {})", "lower({}) FILTER (true)"),
    *("[x FOR x IN [{}]]", "({}, {})", "{} IS DISTINCT FROM {}", "{} SIMILAR TO 'a|b'", "NULL"),
    *("txid_current()", "pg_typeof({})", "printf('%s', {})", "MAP {{'a': {}}}", "setseed(0.5)"),
    *("{} GLOB 'a*'", "country LIKE product", "country LIKE '%' ESCAPE product", "TRY({})"),
)
AGGREGATES = (
    *("count(*)", "count(*)", "count(*)", "count()", "count({c})", "count(DISTINCT {c})"),
    *("sum({n})", "sum({n})", "avg({n})", "mean({n})", "median({n})", "quantile_cont({n}, 0.9)"),
    *("quantile_disc({n}, 0.25)", "count_if({b})", "countif({b})", "approx_count_distinct({c})"),
    *("percentile_cont(0.5) WITHIN GROUP (ORDER BY {n})", "count(DISTINCT customer_id)"),
    *("approx_quantile({n}, 0.5)", "sum({n}) FILTER (WHERE {b})", "count(*) FILTER ({b})"),
    *("sum(CASE WHEN {b} THEN 1 ELSE 0 END)", "sum({e})", "avg({e})", "count(1)"),
)
REFUSED_AGGREGATES = (
    *("min({n})", "max({c})", "stddev({n})", "var_pop({n})", "string_agg({t}, ',')", "list({c})"),
    *("any_value({c})", "first({c})", "mode({c})", "bool_or({b})", "corr(amount, ratio)"),
    *("arg_max({t}, {n})", "histogram({c})", "sum(DISTINCT {n})", "avg(DISTINCT {n})", "mad({n})"),
    *("quantile_cont({n}, [0.1, 0.9])", "quantile_cont({n}, 2)", "median(DISTINCT {n})"),
    *("array_agg({c} ORDER BY {n})", "count(country, product)", "sum()", "sum(*)", "count(sales)"),
    *("product({n})", "approx_top_k({c}, 3)", "bit_xor(quantity)", "last({n})", "sum(sum({n}))"),
    *("entropy({c})", "quantile_cont({n}, quantity)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY "
      "{n} DESC)", "count(DISTINCT *)", "sum({t})", "avg({b})", "median({t})", "sum({d})"),
    *("count(DISTINCT country, product)", "count(DISTINCT (country, product))", "max_by({c}, {n})"),
    *("reservoir_quantile({n}, 0.5)", "bitstring_agg(quantity)", "list_sum([{n}])", "sem({n})"),
    *("group_concat({t})", "first({c} ORDER BY {n})", "count(*) OVER ()", "sum({n} ORDER BY {n})"),
    *("quantile_cont({n})", "median()", "approx_quantile({n}, 0.5, 3)", "weighted_avg({n}, ratio)"),
)  # fmt: skip
BOUNDED = "{name}({n}, contribution_bounds_per_group => ({low}, {high}))"

NAMES = ("total", "level", "amount", "count", "lower", "x0_lower", '"level 2"', "All", "record")
"""Names of columns, of which results have some already."""

WINDOWS = (
    *("rank() OVER (ORDER BY {a} DESC)", "sum({a}) OVER ()", "row_number() OVER (ORDER BY {a})"),
    *("{a} / sum({a}) OVER ()", "lag({a}) OVER (ORDER BY {a})", "ntile(4) OVER (ORDER BY {a})"),
    *("{a} - avg({a}) OVER (PARTITION BY {k})", "first_value({a}) OVER w"),
    *("sum({a}) OVER (ORDER BY {a} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",),
)
AFTER = (
    *("round({a}, 1)", "{a} * 2", "{a} / {b}", "coalesce({a}, 0)", "CAST({a} AS VARCHAR)", "-{a}"),
    *("CASE WHEN {a} > 10 THEN 'many' ELSE 'few' END", "{a} + {b}", "nullif({a}, 0)", "{a}::INT"),
    *("greatest({a}, 0)", "1.0 * {a} / {b}", "floor({a})", "{a} > 3", "format('{{}}', {a})"),
    *("100 - {a}", "sqrt(abs({a}))", "[{a}, {b}]", "{a} IS NULL", "random() + {a}"),
)

# fmt: off
JUNK = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "(", ")", ",", ";", ";;", "'", '"', "--", "/*",
    "*/", "\x00", "\ufeff", "\u202e", "é", "漢字", "🦆", "\ud800", "\t", "\r\n", "\\",
    "$$", "$a$", "::", "NULL", "1e999", "0x", "99999999999999999999999999999999999999999", "-",
    "..", "*", "@", "#1", "?", "$1", ":name", "[", "]", "{", "}", "=>", ":=", "->", "ALL",
    "DISTINCT", "AS", "ON", "UNION", "LIMIT 0", "OFFSET 1", "PIVOT", "UNPIVOT", "DESCRIBE",
    "SUMMARIZE", "EXPLAIN", "1", "DROP TABLE sales", "ATTACH 'x'", "COPY sales TO 'x'",
    "PRAGMA threads", "SET threads = 1", "TABLESAMPLE 1%", "USING SAMPLE 1", "dpframe_private",
    "dpframe_released", "dpframe_user", "WITH DIFFERENTIAL_PRIVACY", "OPTIONS(",
    "OPTIONS(epsilon = 1)", "count(*)", "sales", "''", "LATERAL", "NATURAL", "ASOF",
    "POSITIONAL", "CROSS", "SEMI", "ANTI", "FULL OUTER JOIN", "U&'x'", "e'\\x00'", "x'00'",
    "TRUE", "INTERVAL", "DATE", "OVER ()", "FILTER (WHERE true)", "QUALIFY",
    "read_csv('/etc/passwd')", "'/etc/passwd'", "range(9)", "information_schema.tables",
    "VALUES", "RECURSIVE", "MATERIALIZED", "EXCLUDE (country)", "REPLACE (1 AS country)",
    "FETCH", "\x0b", "\x7f",
)
# fmt: on


@dataclass
class Written:
    """A query and the arguments of its call; ``plain`` is the query as DuckDB itself reads it."""

    text: str
    plain: str | None
    arguments: dict[str, Any] = field(default_factory=dict)


class Writer:
    """Writes one query."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.wild = 0.0 if self._chance(0.6) else 0.08

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _pick(self, of: Any) -> Any:
        return self._random.choice(of)

    def _is_wild(self) -> bool:
        return self._chance(self.wild)

    # -- expressions ----------------------------------------------------------------------------

    def number(self, depth: int = 2) -> str:
        if self._is_wild():
            return self._filled(self._pick(REFUSED_FUNCTIONS), self.any, depth)
        if depth and self._chance(0.5):
            how = self._pick(("function", "cast", "case", "text", "time"))
            if how == "function":
                return self._filled(self._pick(NUMBER_FUNCTIONS), self.number, depth)
            if how == "cast":
                return self.cast(depth, ("BIGINT", "DOUBLE", "INTEGER", "DECIMAL(10, 2)"))
            if how == "case":
                return self.case(self.number, depth)
            if how == "text":
                return f"length({self.text(depth - 1)})"
            return f"year({self.time(depth - 1)})"
        return str(self._pick((*WHOLE, *REAL, *WHOLE, *REAL, self._random.randint(-3, 100), 1.5)))

    def text(self, depth: int = 2) -> str:
        if self._is_wild():
            return self._filled(self._pick(REFUSED_FUNCTIONS), self.any, depth)
        if depth and self._chance(0.5):
            if self._chance(0.3):
                return self.case(self.text, depth) if self._chance(0.5) else self.cast(depth, TYPES)
            return self._filled(self._pick(TEXT_FUNCTIONS), self.text, depth)
        return str(self._pick((*TEXTS, *TEXTS, "'x'", "'it''s'", "''")))

    def time(self, depth: int = 2) -> str:
        if self._is_wild():
            return self._filled(self._pick(REFUSED_FUNCTIONS), self.any, depth)
        if self._chance(0.05):
            return str(self._pick(("current_date", "now()", "current_timestamp", "today()")))
        return str(self._pick((*TIMES, "DATE '2026-11-01'", "TIMESTAMP '2026-11-01 10:00:00'")))

    def time_key(self, depth: int = 2) -> str:
        return self._filled(self._pick(TIME_KEYS), self.time, depth)

    def condition(self, depth: int = 2) -> str:
        if self._is_wild():
            return self._filled(self._pick(REFUSED_FUNCTIONS), self.any, depth)
        if depth and self._chance(0.35):
            one, two = self.condition(depth - 1), self.condition(depth - 1)
            return str(self._pick((f"({one} AND {two})", f"({one} OR {two})", f"NOT ({one})")))
        sign = self._pick(("<", ">", "=", "<>", ">=", "<=", "!="))
        kind = self._pick(("number", "text", "time", "flag", "list", "between", "like", "null"))
        if kind == "number":
            return f"{self.number(depth - 1 if depth else 0)} {sign} {self.number(0)}"
        if kind == "text":
            return f"{self.text(depth - 1 if depth else 0)} {sign} {self.text(0)}"
        if kind == "time":
            return f"{self.time()} {sign} {self.time()}"
        if kind == "list":
            return f"{self._pick(TEXTS)} {self._pick(('IN', 'NOT IN'))} ('FR', 'DE', 'x')"
        if kind == "between":
            return f"{self.number(0)} BETWEEN {self.number(0)} AND {self.number(0)}"
        if kind == "like":
            how = self._pick(("LIKE 'F%'", "ILIKE '%x_'", "NOT LIKE 'a'", "LIKE 'a$%' ESCAPE '$'"))
            return f"{self.text(0)} {how}"
        if kind == "null":
            return f"{self.column()} IS {self._pick(('', 'NOT '))}NULL"
        return str(self._pick(("flag", "NOT flag", "true", "regexp_matches(country, '^F')")))

    def any(self, depth: int = 2) -> str:
        makers = (self.number, self.text, self.time_key, self.condition, self.time)
        made: str = self._pick(makers)(max(depth, 0))
        return made

    def column(self) -> str:
        return str(self._pick((*TEXTS, *WHOLE, *REAL, *TIMES, *FLAGS)))

    def cast(self, depth: int, types: tuple[str, ...]) -> str:
        kind = self._pick(STRANGE_TYPES if self._is_wild() else types)
        how = self._pick(("CAST({} AS {})", "TRY_CAST({} AS {})", "({})::{}"))
        return str(how.format(self.any(depth - 1), kind))

    def case(self, of: Callable[[int], str], depth: int) -> str:
        whens = " ".join(
            f"WHEN {self.condition(depth - 1)} THEN {of(depth - 1)}"
            for _ in range(self._random.randint(1, 2))
        )
        other = f" ELSE {of(depth - 1)}" if self._chance(0.6) else ""
        return f"CASE {whens}{other} END"

    def _filled(self, form: str, of: Callable[[int], str], depth: int) -> str:
        given = [of(depth - 1 if depth > 0 else 0) for _ in range(form.count("{}"))]
        return form.format(*given)

    # -- a grouped SELECT -----------------------------------------------------------------------

    def key(self) -> str:
        if self._chance(0.55):
            return self.column()
        kinds = (self.text, self.time_key, self.time_key, self.number, self.condition)
        made: str = self._pick(kinds)(self._pick((1, 1, 2)))
        return made

    def aggregate(self) -> str:
        if self._chance(0.06):
            low, high = self._pick(((0, 100), (-5, 5), (10, 0), ("'a'", 1), ("NULL", 2)))
            name = self._pick(("SUM", "AVG", "COUNT", "median"))
            return BOUNDED.format(name=name, n=self._pick(REAL), low=low, high=high)
        form = self._pick(REFUSED_AGGREGATES if self._is_wild() else AGGREGATES)
        return str(
            form.format(
                c=self.column(),
                n=self._pick((*WHOLE, *REAL, "amount", "amount")),
                t=self._pick(TEXTS),
                d=self._pick(TIMES),
                b=self.condition(1),
                e=self.number(1),
            )
        )

    def tables(self) -> str:
        """The FROM clause, with names that the columns of the grammar have."""
        table = self._pick(("sales", "sales", "sales", "SALES", "sales AS s", '"sales" t'))
        if self._is_wild():
            return str(
                self._pick(
                    (
                        "sales JOIN sales AS other ON sales.customer_id = other.customer_id",
                        "sales, countries",
                        "sales CROSS JOIN visits",
                        "sales JOIN visits USING (customer_id)",
                        "read_csv('/etc/passwd')",
                        "sales TABLESAMPLE 10%",
                        "sales FULL JOIN countries ON sales.country = countries.key",
                        "sales ASOF JOIN products ON sales.amount >= products.price",
                        "sales JOIN countries ON sales.country < countries.key",
                        "sales JOIN countries ON lower(sales.country) = countries.key",
                        "sales NATURAL JOIN products",
                        "sales POSITIONAL JOIN products",
                        "(SELECT * FROM sales UNION ALL SELECT * FROM sales)",
                        "(SELECT * FROM sales LIMIT 5)",
                        "(SELECT DISTINCT * FROM sales)",
                        "(PIVOT sales ON country USING sum(amount))",
                        "(UNPIVOT sales ON amount, ratio)",
                        "(VALUES (1), (2)) v",
                        "sales LEFT JOIN LATERAL (SELECT 1) ON true",
                        "nothing",
                        "main.sales",
                        "sales JOIN rates ON sales.ratio = rates.ratio",
                        "sales JOIN doubled ON sales.country = doubled.key",
                        "sales SEMI JOIN countries ON sales.country = countries.key",
                        "sales AS country(a, b)",
                        "sales USING SAMPLE 3 ROWS",
                        "(SELECT * FROM sales) TABLESAMPLE 10 ROWS",
                        "sales AT (VERSION => 1)",
                        "'/etc/passwd'",
                    )
                )
            )
        how = self._random.random()
        if how < 0.12:
            kind = self._pick(("JOIN", "LEFT JOIN", "INNER JOIN"))
            return f"sales {kind} countries ON sales.country = countries.key"
        if how < 0.18:
            return f"sales {self._pick(('JOIN', 'LEFT JOIN'))} products USING (product)"
        if how < 0.21:
            return "countries RIGHT JOIN sales s ON key = s.country AND true"
        if how < 0.24:
            return "sales JOIN plans ON sales.small = plans.id"
        if how < 0.34:
            items = self._pick(
                ("*", "*, amount * 2 AS twice", "* EXCLUDE (ratio), ratio", "sales.*")
            )
            where = f" WHERE {self.condition(1)}" if self._chance(0.4) else ""
            return f"(SELECT {items} FROM sales{where}) AS inside"
        return str(table)

    def grouping(self, keys: list[str]) -> str:
        if not keys:
            return str(self._pick(("", "", " GROUP BY ()", " GROUP BY ALL")))
        listed = ", ".join(keys)
        numbers = ", ".join(str(i + 1) for i in range(len(keys)))
        sets = [self._random.sample(keys, self._random.randint(0, len(keys))) for _ in range(3)]
        chosen = ", ".join(f"({', '.join(one)})" for one in sets)
        forms = (
            *(f" GROUP BY {listed}",) * 4,
            *(f" GROUP BY {numbers}", " GROUP BY ALL", f" GROUP BY ROLLUP ({listed})"),
            *(f" GROUP BY ROLLUP ({listed})", f" GROUP BY CUBE ({listed})"),
            *(f" GROUP BY GROUPING SETS ({chosen})", f" GROUP BY GROUPING SETS (({listed}), ())"),
            f" GROUP BY {keys[0]}, ROLLUP ({', '.join(keys[1:]) or keys[0]})",
        )
        if self._is_wild():
            return str(self._pick(("", " GROUP BY 99", f" GROUP BY {listed}, 0", " GROUP BY *")))
        return str(self._pick(forms))

    def select(self) -> str:
        """One SELECT that groups the private table."""
        keys = [self.key() for _ in range(self._pick((0, 1, 1, 1, 2, 2, 3)))]
        least = 0 if keys and self._chance(0.1) else 1
        asked = [self.aggregate() for _ in range(self._random.randint(least, 3))]
        items, aliases = [], []
        named = self._chance(0.3)
        for i, one in enumerate([*keys, *asked]):
            alias = self._pick(("", "", "", f"x{i}", f'"A {i}"', *NAMES))
            alias = "" if alias in aliases and not self._is_wild() else alias
            aliases.append(alias)
            items.append(f"{one} AS {alias}" if alias else one)
        shown = [a or one for a, one in zip(aliases, [*keys, *asked], strict=True)]
        a, b = (self._pick(asked), self._pick(asked)) if asked else ("count(*)", "count(*)")
        if asked and self._chance(0.25):
            items.append(self._pick(AFTER).format(a=a, b=b) + (" AS after" if named else ""))
        if asked and self._chance(0.12):
            items.append(self._pick(WINDOWS).format(a=a, k=keys[0] if keys else "1"))
        if keys and self._chance(0.1):
            items.append(f"grouping({', '.join(keys)}) AS bits")
        if self._is_wild():
            items.append(self._filled(self._pick(REFUSED_FUNCTIONS), self.any, 1))
        if self._chance(0.1):
            self._random.shuffle(items)
        text = "SELECT "
        if self._chance(0.04):
            text += self._pick(("DISTINCT ", "DISTINCT ON (country) ", "ALL "))
        text += ", ".join(items) + f" FROM {self.tables()}"
        if self._chance(0.35):
            text += f" WHERE {self.condition()}"
        text += self.grouping(keys)
        if self._chance(0.2):
            other = self.condition(1) if self._is_wild() else "true"
            text += f" HAVING {self._pick((f'{a} > 2', f'{a} BETWEEN 1 AND 9', other))}"
        if "OVER w" in text:
            text += f" WINDOW w AS (ORDER BY {a})"
        if self._chance(0.08):
            text += f" QUALIFY row_number() OVER (ORDER BY {a}) <= 3"
        if self._chance(0.3):
            way = self._pick(("", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"))
            text += f" ORDER BY {self._pick((*shown, '1', '2', 'ALL', a, f'-{a}'))}{way}"
        if self._chance(0.2):
            text += self._pick(
                (" LIMIT 3", " LIMIT 0", " LIMIT 50%", " LIMIT 2 OFFSET 1", " OFFSET 1")
            )
        return text

    # -- queries --------------------------------------------------------------------------------

    def query(self) -> str:
        text, how = self.select(), self._random.random()
        if how < 0.62:
            return text
        if how < 0.7:
            rest = self._pick(("", " LIMIT 2", " ORDER BY 1", " WHERE true"))
            items = self._pick(("*", "*", "count(*) AS n", "*, 1 AS one", "COLUMNS(*)"))
            return f"SELECT {items} FROM ({text}) AS asked{rest}"
        if how < 0.78:
            hint = self._pick(("", "", "MATERIALIZED ", "NOT MATERIALIZED ", "RECURSIVE "))
            head = "RECURSIVE " if hint == "RECURSIVE " else ""
            hint = "" if head else hint
            return f"WITH {head}asked AS {hint}({text}) SELECT * FROM asked"
        if how < 0.86:
            where = f" WHERE {self.condition(1)}" if self._chance(0.5) else ""
            inside = f"SELECT *, quantity * amount AS twice FROM sales{where}"
            return f"WITH some AS ({inside}) {text.replace('FROM sales', 'FROM some')}"
        if how < 0.9:
            return (
                f"WITH asked AS ({text}) SELECT * FROM asked LEFT JOIN countries "
                f"ON true WHERE {self._pick(('true', 'key IS NULL'))}"
            )
        if how < 0.93:
            link = self._pick(("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "UNION ALL BY NAME"))
            other = self._pick((text, self.select(), "SELECT 1", "SELECT * FROM countries"))
            return f"{text} {link} {other}"
        if how < 0.95:
            return f"FROM ({text})"
        if how < 0.97:
            return f"SELECT * FROM ({text}) WHERE 1 < (SELECT count(*) FROM countries)"
        return str(
            self._pick(
                (
                    "SELECT * FROM sales",
                    "SELECT 1",
                    "TABLE sales",
                    "FROM sales",
                    "VALUES (1)",
                    "PIVOT sales ON country USING count(*)",
                    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) TABLE r",
                    "SUMMARIZE sales",
                    "DESCRIBE sales",
                    f"EXPLAIN {text}",
                    f"{text}; {text}",
                    f"CREATE TABLE t AS {text}",
                    "SELECT count(*) FROM sales WHERE (SELECT true)",
                    "SELECT country, (SELECT count(*) FROM sales) FROM sales GROUP BY 1",
                    f"SELECT * FROM ({text}) a JOIN ({text}) b USING (country)",
                    f"SELECT (SELECT max(1) FROM ({text})) AS a",
                    f"WITH a AS ({text}), b AS (SELECT * FROM a) SELECT * FROM b, a",
                    f"WITH sales AS (SELECT * FROM sales) {text}",
                    f"WITH a AS (SELECT * FROM b), b AS ({text}) SELECT * FROM a",
                    f"SELECT * FROM ({text}) a JOIN countries c ON EXISTS (SELECT 1 FROM sales)",
                    f"SELECT * FROM ({text}) a JOIN countries c ON EXISTS (FROM '/etc/passwd')",
                    f"SELECT * FROM ({text}) a, (VALUES ((SELECT max(amount) FROM sales))) v",
                )
            )
        )

    def written(self) -> Written:
        plain = self.query()
        text, arguments = plain, {}
        if self._chance(0.5):
            arguments["user"] = "customer_id"
        if self._chance(0.3):
            arguments["intervals"] = self._chance(0.5)
        if self._chance(0.12) and "SELECT " in plain:
            options = self._pick(OPTIONS)
            text = plain.replace("SELECT ", f"SELECT WITH DIFFERENTIAL_PRIVACY {options} ", 1)
            if "privacy_unit" in options:
                arguments.pop("user", None)
        if "contribution_bounds" in text:
            return Written(text, None, arguments)
        return Written(text, plain, arguments)


OPTIONS = (
    *("", "OPTIONS()", "OPTIONS(epsilon = 1)", "OPTIONS(EPSILON = 1.0, DELTA = 1e-6)", "OPTIONS"),
    *("OPTIONS(privacy_unit_column = customer_id)", "OPTIONS(epsilon = 2, epsilon = 2)"),
    *("OPTIONS(max_groups_contributed = 3)", "OPTIONS(epsilon = 'a')", "OPTIONS(epsilon)"),
    *("OPTIONS(intervals = false)", "OPTIONS(epsilon = (SELECT 1))", "OPTIONS(nothing = 1)", "(1)"),
    *("OPTIONS(privacy_unit_column = nothing)", "OPTIONS(epsilon = ')')", "OPTIONS(delta = -1)"),
    *("OPTIONS(1 FROM sales)", "OPTIONS(epsilon = 1) OPTIONS(delta = 1)", "OPTIONS(epsilon => 1)"),
    *("OPTIONS(privacy_unit_column = 'customer_id')", "OPTIONS(epsilon = 1;)", "OPTIONS(*)"),
)

FUNCTIONS = (
    *("count", "sum", "avg", "min", "median", "lower", "length", "abs", "year", "date_trunc"),
    *(
        "concat",
        "coalesce",
        "round",
        "grouping",
        "countif",
        "quantile_cont",
        "row_number",
        "unnest",
    ),
)

TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|\s+|.", re.S)


def mutated(text: str, seed: int) -> str:
    """The text with one to three changes."""
    made = random.Random(f"mutation {seed}")
    for _ in range(made.choice((1, 1, 1, 2, 3))):
        tokens = TOKEN.findall(text)
        filled = [i for i, one in enumerate(tokens) if not one.isspace()] or [0]
        at, other = made.choice(filled), made.choice(filled)
        tokens = tokens or [""]
        how = made.random()
        if how < 0.3:
            tokens[at] = _another(made, tokens[at])
        elif how < 0.4:
            del tokens[at]
        elif how < 0.48:
            tokens.insert(at, tokens[at] + " ")
        elif how < 0.56:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif how < 0.8:
            tokens.insert(at, f" {made.choice(JUNK)} ")
        elif how < 0.86:
            tokens[at] = tokens[at].swapcase()
        elif how < 0.92:
            tokens = tokens[: at + 1]
        elif how < 0.95:
            tokens.insert(at, made.choice((" /* ' */ ", " -- x\n", " /* /* */ */ ", "\n")))
        elif how < 0.97:
            place = made.randrange(len(text) + 1)
            tokens = [
                text[:place],
                chr(made.choice((0, 39, 34, 0x2019, 0xA0, 0x10FFFF))),
                text[place:],
            ]
        else:
            tokens = [_long_or_deep(made, tokens, at)]
        text = "".join(tokens)
    return text


def _another(made: random.Random, token: str) -> str:
    """A token of the same kind."""
    if token.lower() in FUNCTIONS:
        return made.choice(FUNCTIONS)
    if token.isidentifier() and token.islower():
        return made.choice((*TEXTS, *WHOLE, *REAL, *TIMES, *FLAGS, *NAMES, "sales", "key"))
    if token.isdigit():
        return made.choice(("0", "-1", "2", "1e9", "9223372036854775808", "NULL", "'1'"))
    if token.startswith("'"):
        return made.choice(("''", "'%'", "'é'", "1", "NULL", "'2026-13-40'", f"'{'x' * 1_001}'"))
    return made.choice(("+", "-", "=", "<", ",", "||", "(", "AND", "IS", "*", "DISTINCT", "IN"))


def _long_or_deep(made: random.Random, tokens: list[str], at: int) -> str:
    """A text with a part many times over, or inside of itself many times."""
    times = made.choice((20, 200, 900, 2_000, 9_000))
    one, text = tokens[at], "".join(tokens)
    left, right = "".join(tokens[:at]), "".join(tokens[at + 1 :])
    return str(
        made.choice(
            (
                f"{left}{'(' * times}{one}{')' * times}{right}",
                f"{left}{'-' * 2 * times}{one}{right}",
                f"{left}{'NOT ' * times}{one}{right}",
                f"{left}{'abs(' * times}{one}{')' * times}{right}",
                f"{left}{' + '.join([one] * times)}{right}",
                f"{left}{', '.join([one] * times)}{right}",
                f"{left}{' AND '.join([one] * times)}{right}",
                f"{'SELECT * FROM (' * min(times, 900)}{text}{')' * min(times, 900)}",
                f"{left}{'x' * times * 20}{right}",
                f"{left}'{'x' * times}'{right}",
                f"{left}{' ' * times}{one}{right}",
                f"{left}{'/*' * times}{one}{'*/' * times}{right}",
                f"{left}{'CASE WHEN true THEN ' * times}{one}{' END' * times}{right}",
                f"{text} WHERE {' OR '.join(f'amount = {i}' for i in range(times))}",
                f"{left}{one}{'[1]' * times}{right}",
                " UNION ALL ".join([text] * min(times, 60)),
                f"{left}{'CAST(' * times}{one}{' AS VARCHAR)' * times}{right}",
            )
        )
    )


def written(seed: int) -> Written:
    """The query of a seed: two in five are changed."""
    made = Writer(seed).written()
    if seed % 5 < 3:
        return made
    return Written(mutated(made.text, seed), None, made.arguments)
