"""Rows become paths and paths become rows: types stay, cells are kept, values never raise."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpframe.domains import Domain, as_domain
from dpframe.domains._axis import Moves, axis_turns
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.hierarchy import columns, ip, number, path
from dpframe.sources.keys import listed_nodes
from tests.members import tries
from tests.strategies import WORDS

DISTANCE = "number:distance?lower=0&upper=5000"
YEAR = "time:ts?lower=2017-01-01&upper=2018-01-01"


def codes(domain: Domain, **values: Any) -> list[int]:
    return domain.codes(pa.table(values)).tolist()


def drawn(domain: Domain, level: int, code: list[int], seed: int = 0, **types: Any) -> pa.Table:
    cells = np.array(code, dtype=np.uint64)
    levels = np.full(len(code), level, dtype=np.int64)
    return domain.rows(levels, cells, np.random.default_rng(seed), types)


def comes_back(domain: Domain, level: int, code: list[int], **types: Any) -> None:
    """Rows that are drawn from cells have paths that begin with these cells."""
    table = drawn(domain, level, code, **types)
    assert {f.name: f.type for f in table.schema} == types
    again = domain.codes(table)
    assert (again >> np.uint64(domain.depth - level)).tolist() == code


def every(level: int) -> list[int]:
    return list(range(2**level))


# -- numbers -------------------------------------------------------------------------------------


def no_unicode() -> pa.Array:
    raw = pa.array([b"a", b"\xff", None], pa.binary())
    return pa.Array.from_buffers(pa.string(), 3, raw.buffers())


TWO = "time:ts?lower=2017-01-01&upper=2017-01-03"
LOCAL = pa.array(["2017-01-02T23:30", "2017-01-02T00:30"]).cast(pa.timestamp("s"))
AN_HOUR_AHEAD = pa.compute.assume_timezone(LOCAL, "Europe/Berlin")
WRITTEN = ["2017-01-02T00:30+01:00", "2017-01-02T00:30", "2017-01-02", "no time", None]
FARTHEST = pa.array([-(2**63) + 1, 2**63 - 1, None], pa.timestamp("us"))
IPS = ["10.0.0.1", "255.255.255.255", "::1", "::ffff:10.0.0.1", "10.0.0.256", None, ""]
OUTSIDE = [-1e308, -math.inf, -1.0, 1.0, 2.0, math.inf, 1e308]
THREE, TRUTH = {"keys": [3, 1, 2]}, {"keys": [False, True]}
ONE = {"depth": 1}
CODES: dict[str, tuple[Any, dict[str, Any], Any, list[int]]] = {
    "numbers": (DISTANCE, {"depth": 3}, [0.0, 624.9, 625.0, 2500.0, 4999.0], [0, 0, 1, 4, 7]),
    "numbers outside": ({"x": (-1, 1)}, {"depth": 4}, OUTSIDE, [0, 0, 0, 15, 15, 15, 15]),
    "missing numbers": (DISTANCE, ONE, [None, math.nan, 4000.0, None], [1]),
    "numbers as text": (DISTANCE, ONE, ["x", "", "4e3", None, "10", "nan"], [1, 0]),
    "small integers": (DISTANCE, ONE, pa.array([None, 1, 4000], pa.int16()), [0, 1]),
    "nulls": (DISTANCE, ONE, pa.nulls(3), []),
    "no numbers": (DISTANCE, ONE, pa.array([], pa.float64()), []),
    "times of a zone, in UTC": (TWO, ONE, AN_HOUR_AHEAD, [1, 0]),
    "times as text": (TWO, ONE, WRITTEN, [0, 1, 1]),
    "times outside": (YEAR, {"depth": 2}, FARTHEST, [0, 3]),
    "dates outside": (YEAR, {"depth": 2}, [dt.date(1, 1, 1), dt.date(9999, 12, 31)], [0, 3]),
    "addresses": (ip("src", version=4), {}, IPS, [0x0A000001, 2**32 - 1, 0x0A000001]),
    "networks": ("ip:src?version=4&prefixes=8,16", {}, ["10.1.2.3"], [0x0A01]),
    "integers": ("columns:c", THREE, [3, 1, 2, 9, None], [0, 1, 2, 3]),
    "reals": ("columns:c", THREE, [3.0, 1.0, 2.0, 9.0, math.nan], [0, 1, 2, 3]),
    "truth": ("columns:c", TRUTH, [True, None, False], [1, 0]),
    "truth as text, others left out": ("columns:c", TRUTH, ["true", "false", "maybe"], [1, 0]),
    "no Unicode in texts": ("columns:c", {"keys": ["a"]}, no_unicode(), [0, 1]),
    "no Unicode in numbers": ({"c": (0, 1)}, {}, no_unicode(), []),
    "no Unicode in addresses": ("ip:c?version=4", {}, no_unicode(), []),
}


@pytest.mark.parametrize("name", CODES)
def test_a_value_has_the_path_of_its_cell(name: str) -> None:
    spec, options, values, expected = CODES[name]
    domain = as_domain(spec, **options)
    assert codes(domain, **{domain.columns[0]: values}) == expected


NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal128(9, 2), pa.decimal128(38, 0), pa.decimal256(40, 3), pa.string()),
    pa.large_string(),
]


BOUNDED = "number:x?lower=0&upper=120"
TIMES = [
    *(pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us")),
    *(pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("s", "UTC")),
    pa.string(),
]
TYPES = [*((BOUNDED, kind) for kind in NUMBERS), *((YEAR, kind) for kind in TIMES)]


@pytest.mark.parametrize(("spec", "kind"), TYPES, ids=[f"{s[:4]} {kind}" for s, kind in TYPES])
def test_a_value_comes_back_in_its_cell_and_type(spec: str, kind: pa.DataType) -> None:
    domain = as_domain(spec, depth=8 if spec == YEAR else 5)
    for level, times in ((domain.depth, 1), (2, 50)):
        comes_back(domain, level, every(level) * times, **{domain.columns[0]: kind})


def test_whole_numbers_are_all_equally_likely() -> None:
    """In a cell of three of them; half a million draws, five standard deviations."""
    domain = as_domain("number:x?lower=0&upper=6", depth=1)
    found = Counter(drawn(domain, 1, [1] * 300_000, x=pa.int64())["x"].to_pylist())
    assert set(found) == {3, 4, 5}
    assert max(abs(n - 100_000) for n in found.values()) < 5 * math.sqrt(300_000 * 2 / 9)


def test_a_cell_without_a_whole_number_gives_the_nearest_within_the_bounds() -> None:
    domain = as_domain("number:x?lower=0&upper=2", depth=4)
    found = drawn(domain, 4, every(4), x=pa.int32())["x"].to_pylist()
    assert found == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]
    assert drawn(as_domain({"x": (0.2, 0.4)}), 0, [0], x=pa.int8())["x"].to_pylist() == [0]


def test_whole_numbers_stay_in_their_type() -> None:
    domain = as_domain({"x": (-1e300, 1e300)}, depth=3)
    for kind in (pa.int8(), pa.int64(), pa.uint64()):
        assert drawn(domain, 3, every(3), x=kind)["x"].type == kind


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_a_drawn_number_has_the_path_of_its_cell(
    lower: float, width: float, depth: int, seed: int
) -> None:
    domain = as_domain({"x": (lower, lower + width)}, depth=depth)
    generator = np.random.default_rng(seed)
    level = generator.integers(0, domain.depth + 1, 50)
    cells = (generator.random(50) * 2.0**level).astype(np.uint64)
    table = domain.rows(level, cells, generator, {"x": pa.float64()})
    again = domain.codes(table) >> (domain.depth - level).astype(np.uint64)
    assert again.tolist() == cells.tolist()


# -- times ---------------------------------------------------------------------------------------


def test_bounds_with_a_zone_are_read_in_utc() -> None:
    one = as_domain({"ts": ("2017-01-01T01:00+01:00", "2017-01-03")})
    other = as_domain({"ts": (dt.date(2017, 1, 1), pd.Timestamp("2017-01-03"))})
    assert one.spec == other.spec


def test_all_years_fit_but_not_in_nanoseconds() -> None:
    domain = as_domain("time:ts?lower=0001-01-01&upper=9999-12-31", depth=10)
    comes_back(domain, 10, every(10), ts=pa.timestamp("us"))
    with pytest.raises(ColumnError, match="nanoseconds"):
        domain.check_types({"ts": "TIMESTAMP_NS"})
    with pytest.raises(ColumnError, match="nanoseconds"):
        drawn(domain, 1, [0], ts=pa.timestamp("ns"))


# -- addresses -----------------------------------------------------------------------------------


def test_an_address_is_its_bits() -> None:
    domain = as_domain(ip("src", version=4))
    assert domain.spec == "ip:src?version=4; depth=32"
    comes_back(domain, 32, [0, 1, 0x0A000001, 2**32 - 1], src=pa.string())
    comes_back(domain, 9, every(9), src=pa.large_string())
    short = as_domain("ip:src?version=4&prefixes=8,16")
    assert short.depth == 16
    comes_back(short, 16, [0x0A01], src=pa.string())


# -- categories ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_listed_value_has_a_path_of_its_own(size: int) -> None:
    """In bits for the children and ``<other>``; unused paths are never drawn."""
    keys = ["ä", "b", "🙂", "d", "e"][:size]
    domain = as_domain("columns:c", keys=keys)
    assert domain.depth == size.bit_length()
    assert codes(domain, c=[*keys, "x", None]) == list(range(size + 1))
    comes_back(domain, domain.depth, every(domain.depth)[: size + 1], c=pa.string())
    found = drawn(domain, domain.depth, every(domain.depth), c=pa.string())["c"].to_pylist()
    assert set(found) == {*keys, "<other>"}
    assert domain.diameters[-1] == 0.0


def test_values_below_a_cell_are_equally_likely() -> None:
    domain = as_domain("columns:c", keys=list("abcd"))
    found = Counter(drawn(domain, 0, [0] * 50_000, c=pa.string())["c"].to_pylist())
    assert set(found) == {*"abcd", "<other>"}
    assert max(abs(n - 10_000) for n in found.values()) < 5 * math.sqrt(50_000 * 4 / 25)


def test_a_path_without_a_value_gives_the_one_that_shares_most_bits() -> None:
    domain = as_domain("columns:c", keys=list("abcd"))  # 0 to 3, and 4 is the rest
    assert drawn(domain, 3, [5, 6, 7], c=pa.string())["c"].to_pylist() == ["<other>"] * 3


def test_levels_of_several_columns() -> None:
    keys = [("US", "NY"), ("US", "LA"), ("US", "SF"), ("DE", "B"), ("FR", "NY")]
    domain = as_domain("columns:country,city", keys=keys)
    assert domain.depth == 2 + 2  # three countries and <other>; at most three cities
    countries = ["US", "US", "US", "DE", "FR", "FR", "XX", None, "US"]
    cities = ["NY", "LA", "SF", "B", "NY", "LA", "NY", "NY", None]
    assert codes(domain, country=countries, city=cities) == [0, 1, 2, 4, 8, 12, 12]
    comes_back(domain, 4, [0, 1, 2, 4, 8, 12], country=pa.string(), city=pa.large_string())
    assert domain.diameters == (1.0, 1.0, 0.5, 0.5, 0.0)
    labels = domain.labels(np.array([2, 0, 4]), np.array([0, 0, 12], dtype=np.uint64))
    assert labels.to_pylist() == ["country,city US>NY, US>LA, US>SF", "*", "country,city <other>"]


def test_paths_of_any_length() -> None:
    """A value below a listed one counts as that; a node above is a value if it is listed."""
    domain = as_domain("path:p", keys=["a", "a/b", "c", "d/e/f"])
    values = ["a", "/a/", "a/b", "a/b/z", "a/z", "c", "c/x/y", "d", "d/e", "d/e/f", "//", None]
    found = drawn(domain, domain.depth, codes(domain, p=values), p=pa.string())["p"].to_pylist()
    other = "<other>"
    assert found == ["a", "a", "a/b", "a/b", other, "c", "c", other, other, "d/e/f"]


def test_listed_nodes_and_lists_give_the_same_paths() -> None:
    for hierarchy, keys, values in (
        (path("x"), ["a/b", "a/c", "d"], ["a/b", "a/c", "d", "a", "e"]),
        (columns("x"), ["p", "q", "r"], ["p", "q", "r", "s", "p"]),
    ):
        nodes = listed_nodes(keys, hierarchy)
        one, two = as_domain(hierarchy, keys=nodes), as_domain(hierarchy, keys=keys)
        assert codes(one, x=values) == codes(two, x=values)
        assert one.spec == two.spec
        assert one.spec != as_domain(hierarchy, keys=keys[:2]).spec


def test_other_kinds_are_categories_too() -> None:
    for spec, keys, values in (
        ("domain:x", ["example.org", "example.com"], ["www.example.org", "EXAMPLE.com."]),
        ("code:x?lengths=1,3", ["123", "45"], ["12345", "46"]),
        ("date:x?levels=year,month", ["2017-01-01", "2017-02-01"], ["2017-01-31", "2017-02-03"]),
    ):
        domain = as_domain(spec, keys=keys)
        found = codes(domain, x=values)
        assert len(set(found)) == 2
        comes_back(domain, domain.depth, found, x=pa.string())
    months = as_domain("date:x?levels=year,month", keys=["2017-01-01", "2017-02-01"])
    when = [dt.date(2017, 2, 7), dt.date(2017, 1, 9)]
    for kind in (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        found = codes(months, x=pa.array(when).cast(kind))
        comes_back(months, months.depth, found, x=kind)


def test_typed_categories_come_back_typed() -> None:
    domain = as_domain("columns:c", keys=[3, 1, 2])
    for kind in (pa.int64(), pa.uint8(), pa.float64(), pa.decimal128(9, 0)):
        assert drawn(domain, 2, every(2), c=kind)["c"].type == kind
        assert drawn(domain, 2, every(2), c=kind)["c"].to_pylist() == [3, 1, 2, None]
    domain.check_types({"c": "BIGINT"})
    with pytest.raises(ColumnError, match=r"write it as '3\.00'"):
        domain.check_types({"c": "DECIMAL(9,2)"})
    with pytest.raises(ColumnError, match="is no value of column"):
        domain.check_types({"c": "DATE"})


def test_booleans_are_one_bit() -> None:
    domain = as_domain("columns:c", keys=[False, True])
    assert domain.depth == 1
    comes_back(domain, 1, [0, 1], c=pa.bool_())


@tries(25, 60, deadline=None)
@given(st.lists(WORDS.filter(bool), min_size=1, max_size=12, unique=True), st.lists(WORDS))
def test_any_text_is_a_category(keys: list[str], values: list[str]) -> None:
    domain = as_domain("columns:c", keys=keys)
    texts = pa.array([*keys, *values], pa.string())
    found = domain.codes(pa.table({"c": texts}))
    again = drawn(domain, domain.depth, found.tolist(), c=pa.string())["c"].to_pylist()
    assert again == [v if v in keys else "<other>" for v in [*keys, *values] if v]


def test_more_levels_than_a_path_has_bits() -> None:
    """Categories that differ only below 60 bits share a path, and are drawn alike."""
    keys = ["/".join([*["0"] * n, str(i)]) for n in range(7) for i in range(1, 260)]
    domain = as_domain("path:p", keys=keys, depth=60)  # 7 levels of 9 bits
    last = keys[-259:]
    found = codes(domain, p=[*keys, *last])
    assert len(set(found[:-259])) < len(keys) == len(found) - 259
    comes_back(domain, 60, found, p=pa.string())


# -- several axes --------------------------------------------------------------------------------


def test_axes_are_cut_in_turn() -> None:
    domain = as_domain(["number:a?lower=0&upper=4", "number:b?lower=0&upper=4"], depth=4)
    assert domain.turn == (0, 1, 0, 1)
    assert codes(domain, a=[2.0, 0.0, 1.0, 0.0], b=[0.0, 2.0, 0.0, 1.0]) == [8, 4, 2, 1]
    assert domain.diameters == (1.0, 1.0, 0.5, 0.5, 0.25)
    assert as_domain(DISTANCE, depth=3).diameters == (1.0, 0.5, 0.25, 0.125)
    assert axis_turns([1, 4, 2], 7) == (0, 1, 2, 1, 2, 1, 1)
    comes_back(domain, 4, every(4), a=pa.float64(), b=pa.float64())
    comes_back(domain, 3, every(3), a=pa.float64(), b=pa.float64())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any), st.data())
def test_weaving_is_undone(bits: list[int], data: st.DataObject) -> None:
    depth = data.draw(st.integers(1, min(60, sum(bits))))
    turn = axis_turns(bits, depth)
    assert len(turn) == depth
    for axis in range(len(bits)):
        places = [depth - 1 - t for t, a in enumerate(turn) if a == axis][::-1]
        assert len(places) <= bits[axis]
        back = [places.index(p) if p in places else -1 for p in range(depth)]
        low = np.uint64(max(len(places) - 10, 0))
        values = np.arange(2 ** min(len(places), 10), dtype=np.uint64) << low
        out, again = np.zeros_like(values), np.zeros_like(values)
        Moves.of(places).add(values, out)
        Moves.of(back).add(out, again)
        assert again.tolist() == values.tolist()


def test_a_row_with_one_missing_value_is_left_out() -> None:
    domain = as_domain([DISTANCE, "columns:c", YEAR], keys=["x"], depth=3)
    when = [dt.datetime(2017, 9, 1), None, dt.datetime(2017, 1, 1), dt.datetime(2017, 1, 1)]
    assert codes(domain, distance=[4000, 1, 1, None], c=["x", "x", None, "x"], ts=when) == [5]


def test_labels_read_like_the_cells() -> None:
    domain = as_domain([DISTANCE, "number:air_time?lower=0&upper=700", YEAR])
    level, code = np.array([0, 1, 4, 6]), np.array([0, 1, 2, 63], dtype=np.uint64)
    assert domain.labels(level, code).to_pylist() == [
        "*",
        "distance [2500, 5000] / air_time [0, 700] / ts [2017-01-01, 2018-01-01]",
        "distance [0, 1250) / air_time [0, 350) / ts [2017-07-02 12:00:00, 2018-01-01]",
        "distance [3750, 5000] / air_time [525, 700] / ts [2017-10-01 18:00:00, 2018-01-01]",
    ]
    addresses = as_domain("ip:src?version=4").labels(np.array([8]), np.array([10], np.uint64))
    assert addresses.to_pylist() == ["src 10.0.0.0/8"]


def test_usual_depths() -> None:
    assert as_domain(DISTANCE).depth == 20
    assert as_domain([DISTANCE, YEAR, "ip:a?version=4"]).depth == 32
    assert as_domain("number:x?lower=0&upper=8&depth=3").depth == 3
    assert as_domain("number:x?lower=0&upper=8&depth=10").depth == 10
    assert as_domain(number("x", lower=0, upper=8)).depth == 20
    assert as_domain(number("x", lower=0, upper=8, depth=4)).depth == 4
    assert as_domain([DISTANCE, "columns:c"], keys=["a"]).depth == 21


def test_the_specification_is_canonical() -> None:
    for spec in (DISTANCE, YEAR, "ip:src?version=4", "number:x?lower=0&upper=8&depth=10"):
        domain = as_domain(spec)
        assert domain.spec == f"{spec}; depth={domain.depth}"
        assert as_domain({"distance": (0, 5000)}).spec == as_domain(DISTANCE).spec
    odd = as_domain({" a,b?": ("2017-01-01", "2018-01-01")})
    assert as_domain(odd.spec.partition(";")[0]).columns == (" a,b?",)


# -- errors --------------------------------------------------------------------------------------

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ("number:x?lower=0&upper=lots", {}, "must be a number"),
    ({"x": (0, True)}, {}, "upper must be a number"),
    ({"x": ("2017-01-01", 5)}, {}, "lower must be a number"),
    ({"x": ("2017-01-01", "soon")}, {}, "upper must be a date or a time"),
    ("time:x", {}, "time needs lower and upper"),
    ("time:x?lower=1&upper=2018-01-01", {}, "lower must be a date or a time"),
    ("time:x?lower=2017-01-01&uper=2018-01-01", {}, "no option 'uper'"),
    ("time:?lower=2017-01-01&upper=2018-01-01", {}, "needs the name of one column"),
    ("ip:x?version=6", {}, "write ip:x\\?version=4"),
    (["x", "y"], {}, "names no known kind"),
    ([DISTANCE, "columns:Distance"], {"keys": ["a"]}, "twice"),
    (DISTANCE, {"depth": True}, "depth must be a whole number"),
    (DISTANCE, {"depth": 2.0}, "depth must be a whole number"),
    ("columns:c", {"keys": []}, "keys is empty"),
    ("columns:c", {"keys": ["a", None]}, "malformed, empty or missing"),
    ("columns:c", {"keys": ["a", ""]}, "malformed, empty or missing"),
    ("columns:a,b", {"keys": ["a"]}, "tuple of 2 values"),
    (["columns:a", "columns:b"], {"keys": ["a"]}, "keys must be a dict"),
    (["columns:a", "columns:b"], {"keys": {"a": ["a"]}}, "keys lacks 'b'"),
    ("columns:a", {"keys": {"a": ["a"], "b": ["b"]}}, "keys has 'b'"),
    ("columns:a", {"keys": pa.table({"b": [1]})}, "keys lacks column 'a'"),
    ("path:a", {"keys": listed_nodes([("a", "b")], columns("a", "b"))}, "another hierarchy"),
]


@pytest.mark.parametrize(("wrong", "options", "message"), WRONG)
def test_errors_name_the_argument_and_the_rule(wrong: Any, options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        as_domain(wrong, **options)


def test_wrong_types_of_arguments() -> None:
    for wrong in (5, [5], {5: (0, 1)}):
        with pytest.raises(ParameterTypeError):
            as_domain(wrong)
    for keys in ("domain", 5):
        with pytest.raises(ParameterTypeError):
            as_domain("columns:c", keys=keys)


def test_wrong_types_of_columns() -> None:
    for spec, wrong in (
        (DISTANCE, ["BOOLEAN", "DATE", "TIMESTAMP", "STRUCT(secret INTEGER)", "INTEGER[]", "BLOB"]),
        (YEAR.replace("ts", "distance"), ["BOOLEAN", "BIGINT", "TIME", "DATE[]"]),
        ("ip:distance?version=4", ["BIGINT", "VARCHAR[]"]),
    ):
        for kind in wrong:
            with pytest.raises(ColumnError, match="'distance' has type") as raised:
                as_domain(spec).check_types({"distance": kind})
            assert "secret" not in str(raised.value)
    with pytest.raises(ColumnError, match="does not exist"):
        as_domain(DISTANCE).check_types({"x": "DOUBLE"})
    with pytest.raises(ColumnError, match="cast it to DOUBLE"):
        as_domain({"x": (0, 1e18)}).check_types({"x": "DECIMAL(38,5)"})
    for kind in ("UBIGINT", "HUGEINT", "DECIMAL(9,2)", "FLOAT", "VARCHAR", "ENUM('a')", '"NULL"'):
        as_domain(DISTANCE).check_types({"distance": kind})
    for kind in ("DATE", "TIMESTAMP_S", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "VARCHAR"):
        as_domain(YEAR).check_types({"ts": kind})
