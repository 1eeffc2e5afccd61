"""Each query that people write is its question, drawn alike, and shows what DuckDB would."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.doors.sql import query as door
from dpframe.errors import ParameterError
from dpframe.testing import seeded_noise
from tests.members import some
from tests.sql.written_queries import (
    BOUNDS,
    OF_A_USER,
    ROWS_OF_A_USER,
    Written,
    frames,
    with_tables,
    without_bigquery,
    written,
)

SPENT = {"delta": 1e-6, "confidence": 0.9999, "progress": False}
USER = "customer_id"
ANSWERED = [one for one in written() if "refused" not in one.said]
EVIDENCE = [pytest.mark.evidence]
REFUSED = [one for one in written() if "refused" in one.said or "refused by user" in one.said]


EACH_SUITE = 12
"""One query of so many is in the suite, by record or by user in turn; all the others, and both
units of every query, take longer, and are evidence."""


def each(queries: list[Written]) -> pytest.MarkDecorator:
    given = [
        pytest.param(
            *(one, user),
            id=f"{one.number}-{unit}",
            marks=[] if place % EACH_SUITE == 0 and place // EACH_SUITE % 2 == turn else EVIDENCE,
        )
        for turn, (unit, user) in enumerate([("record", None), ("user", USER)])
        for place, one in enumerate(queries)
    ]
    return pytest.mark.parametrize(("written", "user"), given)


@pytest.fixture(scope="module")
def plain() -> Any:
    """The tables in DuckDB, where a query runs as it is."""
    con = with_tables()
    yield con
    con.close()


def given_bounds(written: Written, user: str | None) -> dict[str, tuple[float, float]]:
    """The argument ``bounds``: what a record has, or what a user has at a row of the result."""
    bounds = {**BOUNDS, **written.bounds}
    if user is None:
        return bounds
    wider = {name: (OF_A_USER * a, OF_A_USER * b) for name, (a, b) in bounds.items()}
    return {**wider, "*": (0, ROWS_OF_A_USER)}


def epsilon_of(written: Written, user: str | None) -> float:
    """So much that numbers are nearly exact; of users as much as noise in rounds is made for."""
    if (
        user is not None
        or "epsilon" in written.text
        or written.said.get("levels") not in (None, "rollup")
    ):
        return 10.0
    return 20.0


def ask(written: Written, user: str | None) -> pd.DataFrame:
    tables = frames()
    return dp.sql(
        written.text,
        {"sales": tables["sales"]},
        public={"stores": tables["stores"], "products": tables["products"]},
        user=user,
        bounds=given_bounds(written, user),
        epsilon=epsilon_of(written, user),
        **SPENT,
    )


MEASURE = re.compile(
    r"(sum|mean|quantile|distinct)(?: ([\d.]+))?(?: ([\[(])(\d+), (\d+)[\])])? (.+)", re.S
)
"""A measure in a file; between are where a quantile is, and bounds: ``[0, 1]`` says the query, of
each row, and ``(0, 8000)`` an argument in it."""


# -- the twin: rows by plain SQL, and the question as the file says it ----------------------------


def listed(text: str | None, mark: str = "; ") -> list[str]:
    return [one.strip() for one in text.split(mark)] if text else []


@dataclass
class Twin:
    """The question of a query as its comments say it, over rows that plain DuckDB computes."""

    written: Written
    user: str | None
    con: duckdb.DuckDBPyConnection

    def __post_init__(self) -> None:
        self.keys: dict[str, str] = {}
        for one in listed(self.written.said.get("by")):
            name, _, expression = one.partition(" = ")
            self.keys[name] = expression or name
        self.values: dict[str, str] = {}
        self.measures = dict.fromkeys(map(self.measure, listed(self.written.said.get("of"))))

    def value(self, expression: str, condition: str) -> str:
        """The column of an expression, where a condition holds."""
        if condition:
            expression = f"CASE WHEN {condition} THEN {expression} END"
        for name, other in self.values.items():
            if other == expression:
                return name
        name = f"v{len(self.values)}"
        self.values[name] = expression
        return name

    def measure(self, said: str) -> str:
        """A measure, such as ``sum amount if channel = 'web'``, as a text of dpframe's."""
        by_user = self.user is not None
        said, _, condition = said.partition(" if ")
        if said == "rows":
            if not by_user and not condition:
                return "count"
            return f"sum({self.value('1', condition)}, 0, {ROWS_OF_A_USER if by_user else 1})"
        if said == "people":
            whole = by_user and not condition
            return "count" if whole else f"distinct({self.value(USER, condition)})"
        found = MEASURE.fullmatch(said)
        assert found is not None, said
        kind, at, bounds, lower, upper, of = found.groups()
        column = self.value(of, condition)
        if kind == "distinct":
            return f"distinct({column})"
        ends: tuple[float, float] = (int(lower), int(upper)) if bounds else (0, 0)
        if bounds == "[" and kind == "sum" and by_user:
            ends = ends[0] * ROWS_OF_A_USER, ends[1] * ROWS_OF_A_USER
        elif not bounds:
            ends = given_bounds(self.written, self.user)[of]
        more = f"{at}, " if at else ""
        return f"{kind}({column}, {more}{ends[0]}, {ends[1]})"

    def rows(self, packed: bool) -> pa.Table:
        """Keys, values and users. A text begins with "=", several keys of one level are JSON."""
        columns = {**self.keys, **self.values, "person": USER, "rows": "'rows'"}
        listed = ", ".join(f'{text} AS "{name}"' for name, text in columns.items())
        table = self.written.said.get("from", "sales")
        where = self.written.said.get("where", "true")
        rows = self.con.sql(f"SELECT {listed} FROM {table} WHERE {where}").to_arrow_table()
        for i, name in enumerate(rows.column_names[: len(self.keys)]):
            if rows.schema.field(i).type in (pa.string(), pa.large_string()):
                shown = [None if one is None else f"={one}" for one in rows[name].to_pylist()]
                if not packed:
                    rows = rows.set_column(i, name, pa.array(shown, pa.string()))
        if packed:
            texts = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in self.keys)
            keys = self.con.from_arrow(rows).project(texts).fetchall()
            written = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in keys]
            rows = rows.append_column("packed", pa.array(written, pa.string()))
        return rows.append_column("record", pa.array(range(len(rows))))

    def sets(self) -> list[list[str]]:
        """Sets of keys, as the question has them: the largest first."""
        said = self.written.said.get("levels")
        if said is None:
            return [[*self.keys]]
        if said == "rollup":
            return [[*self.keys][:n] for n in range(len(self.keys), -1, -1)]
        return [[] if one == "()" else listed(one, ", ") for one in listed(said, " / ")]

    def release(self) -> pd.DataFrame:
        """The released rows of the question."""
        measures, keys, sets = [*self.measures], [*self.keys], self.sets()
        alone, by_user = measures in ([], ["count"]), self.user is not None
        asked: dict[str, Any] = {"epsilon": epsilon_of(self.written, self.user), **SPENT}
        if by_user:
            asked["user"] = "person"
        measured = {"measures": {f"m {i}": one for i, one in enumerate(measures)} or "count"}
        if not keys:
            return dp.rollup(self.rows(False), by=["rows"], keys=["rows"], **measured, **asked)
        packed = len(sets) == 1 and len(keys) > 1 and (by_user or alone)
        if packed:
            sets, keys = [["packed"]], ["packed"]
        rows = self.rows(packed)
        coarse_first = [set(one) for one in sets[::-1] if one]
        steps = zip([set(), *coarse_first], coarse_first, strict=False)
        tree = len(sets) == 1 or all(a < b and len(b) == len(a) + 1 for a, b in steps)
        keys = [*dict.fromkeys(name for one in sets[::-1] for name in one)]
        if tree and alone and (by_user or len(sets) == 1):
            rounds = {"mechanism": "rounds"} if by_user else {}
            return dp.hhh(rows, keys, **rounds, **asked)
        if by_user:
            asked["contribution"] = "items"
        if tree and (by_user or len(sets) > 1):
            return dp.rollup(rows, by=keys, **measured, **asked)
        by = "sets:" + ";".join(",".join(one) for one in sets if one)
        if len(sets) == 1:
            by += ",rows" if len(keys) == 1 else ""
        elif not by_user:
            asked |= {"user": "record", "contribution": "items"}
        return dp.rollup(rows, by=by, **measured, **asked)


# -- comparisons ---------------------------------------------------------------------------------


def assert_same_release(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Rows and numbers are the same, whatever the columns are called."""
    assert one.shape == other.shape
    for (name, a), (_, b) in zip(one.items(), other.items(), strict=True):
        for left, right in zip(a, b, strict=True):
            if isinstance(left, list | np.ndarray):
                assert [*left] == [*right], name
            else:
                assert (pd.isna(left) and pd.isna(right)) or left == right, (name, left, right)


OF_USERS = 12.0
"""How many times as far a number may be by user, where no interval tells."""


def assert_near(
    result: pd.DataFrame, exact: pd.DataFrame, near: float, ordered: bool, few: bool
) -> None:
    """Rows are those of the exact answer: each number lies within its interval, or within a part
    of the largest one of its column. Where some groups are of ``few`` records, some are missing."""
    assert few or len(result) == len(exact), (len(result), len(exact))
    assert len(result) >= 0.9 * len(exact)
    most = {name: near * _largest(exact[name]) for name in exact}
    left = result.to_dict("records")
    for row in exact.to_dict("records"):
        places = range(1 if ordered else len(left))
        fits = [i for i in places if all(_fits(left[i], name, row[name], most) for name in row)]
        if few and not fits:
            continue
        assert fits, f"no row is near {row}; the next is {left[0]}"
        del left[fits[0]]
    assert not left


def _largest(column: pd.Series[Any]) -> float:
    numbers = [abs(one) for one in column if isinstance(one, int | float | np.number)]
    return float(max((one for one in numbers if not pd.isna(one)), default=0.0))


def _fits(row: dict[str, Any], name: str, exact: Any, most: dict[str, float]) -> bool:
    found = row[name]
    if pd.isna(exact) or pd.isna(found):
        return bool(pd.isna(exact) and pd.isna(found))
    if isinstance(exact, str | pd.Timestamp | bool | np.bool_):
        return bool(found == exact)
    if f"{name}_lower" in row:
        return bool(row[f"{name}_lower"] - 1e-6 <= exact <= row[f"{name}_upper"] + 1e-6)
    return bool(abs(found - exact) <= most[name])


def kinds(frame: pd.DataFrame) -> list[str]:
    """The kinds of columns: text, time, truth or number."""
    return [
        "number" if one.kind in "iuf" else "text" if one.kind == "O" else one.kind
        for one in frame.dtypes
    ]


def released_by(
    written: Written, user: str | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the question of a query releases, and what the query shows of it."""
    released: list[pd.DataFrame] = []
    monkeypatch.setattr(
        door, "warn_of_replay", lambda one: released.append(one.to_arrow().to_pandas())
    )
    with seeded_noise(50):
        shown = ask(written, user)
    return released[0], shown


# -- tests ---------------------------------------------------------------------------------------


@each(ANSWERED)
def test_a_query_is_its_question_and_shows_what_duckdb_shows(
    written: Written,
    user: str | None,
    plain: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not written.is_asked(user is not None) or written.refusal(user is not None):
        pytest.skip("asked of the other unit alone")
    released, result = released_by(written, user, monkeypatch)
    twin = Twin(written, user, plain)
    with seeded_noise(50):
        same = twin.release()
    assert_same_release(released, same)
    exact = plain.execute(without_bigquery(written.text)).df()
    names = [*exact.columns]
    assert [one for one in result.columns if one in names] == names
    for name in {*result.columns} - {*names}:
        assert name.removesuffix("_lower").removesuffix("_upper") in names
    if "differs" not in written.said and (user is None or "differs by user" not in written.said):
        assert kinds(result[names]) == kinds(exact)
        near = float(written.said.get("near", 0.01)) * (1.0 if user is None else OF_USERS)
        ordered = user is None and "ORDER BY" in written.text.upper().rpartition(")")[2]
        assert_near(result, exact, near, ordered, "few" in written.said)


@each(REFUSED)
def test_a_query_is_refused_with_its_sentence(written: Written, user: str | None) -> None:
    sentence = written.refusal(user is not None)
    if sentence is None:
        pytest.skip("answered for this unit")
    with pytest.raises(ParameterError) as told:
        ask(written, user)
    assert str(told.value) == sentence


def test_there_are_enough_queries_of_each_origin() -> None:
    """Nine in ten of what a private tool can answer are answered, and titles are told apart."""
    queries = written()
    assert len(queries) >= 150
    assert (
        len({one.number for one in queries}) == len({one.text for one in queries}) == len(queries)
    )
    assert len(ANSWERED) >= 150
    assert sum("refused" in one.said for one in queries) >= 15
    origins = {one.origin for one in queries}
    assert {"Metabase", "Superset", "Tableau", "Grafana", "dbt", "BigQuery", "Analysts"} < origins
    known = {"by", "of", "from", "where", "levels", "near", "few", "only", "refused"}
    known |= {"refused by user", "differs", "differs by user"}
    assert {word for one in queries for word in one.said} <= known


ONE = next(one for one in written() if one.title == "A filter of months")


@some("where", "by", "from")
@pytest.mark.parametrize(
    "wrong",
    [
        {"where": "ordered_at >= '2026-01-01' AND ordered_at <= '2026-07-02'"},
        {"by": "category"},
        {"of": "sum quantity"},
        {"of": "sum (0, 499) amount"},
        {"of": "rows; sum amount"},
        {"from": "sales JOIN stores USING (store_id)"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_another_question_is_told_apart(
    wrong: dict[str, str], plain: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: a question that a query is not has other rows or other numbers."""
    released, _ = released_by(ONE, None, monkeypatch)
    other = Written(ONE.origin, ONE.title, ONE.text, {**ONE.said, **wrong}, ONE.bounds)
    with seeded_noise(50):
        same = Twin(other, None, plain).release()
    with pytest.raises(AssertionError):
        assert_same_release(released, same)


def test_another_answer_is_told_apart(
    plain: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: rows that are missing, in another order, or of another group."""
    _, result = released_by(ONE, None, monkeypatch)
    exact = plain.execute(ONE.text).df()
    assert_near(result, exact, 0.01, True, False)
    moved = exact.assign(country=exact["country"].iloc[::-1].to_numpy())
    more = exact.assign(sum=exact["sum"] * 1.05)
    for wrong in (exact[1:], exact[::-1], moved, more):
        with pytest.raises(AssertionError):
            assert_near(result, wrong, 0.01, True, False)
