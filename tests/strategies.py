"""Nasty column values, one strategy a kind of hierarchy, for hypothesis."""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpframe as dp


def examples(few: int, many: int, *drawn: Any) -> Callable[[Callable[..., None]], Any]:
    """Draw arguments of a law that is compared with an exact twin: few in the suite, which draws
    anew each time, and many as evidence."""

    def test_of(law: Callable[..., None]) -> Any:
        def test(number: int) -> None:
            _drawn(law, number, drawn)

        return _test(test, law, few, many)

    return test_of


def examples_of(few: int, many: int, kinds: Mapping[str, Any], *drawn: Any) -> Callable[..., Any]:
    """``examples`` of a law whose first argument is drawn from every kind in turn."""

    def test_of(law: Callable[..., None]) -> Any:
        def test(kind: str, number: int) -> None:
            _drawn(law, number, (kinds[kind], *drawn))

        return pytest.mark.parametrize("kind", kinds)(_test(test, law, few, many))

    return test_of


def _drawn(law: Callable[..., None], number: int, drawn: tuple[Any, ...]) -> None:
    options: dict[str, Any] = {"suppress_health_check": list(HealthCheck)}
    settings(max_examples=number, deadline=None, **options)(given(*drawn)(law))()


def _test(test: Any, law: Callable[..., None], few: int, many: int) -> Any:
    test.__name__, test.__doc__, test.__module__ = law.__name__, law.__doc__, law.__module__
    numbers = [few, pytest.param(many, marks=pytest.mark.evidence)]
    return pytest.mark.parametrize("number", numbers)(test)


MISSING = st.sampled_from([None, float("nan"), pd.NA, pd.NaT])
"""Everything that pandas takes for missing in a column of objects."""

QUOTES = st.sampled_from(
    ["'", '"', "''", "a'b", "'; DROP TABLE t; --", "$$", "{}", "%s", "\\", "\x00"]
)
"""Text that breaks out of careless SQL."""

WORDS = st.text(
    alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="İ"), max_size=6
)


def mostly(values: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Four in five from ``values``."""
    return st.integers(0, 4).flatmap(lambda i: odd if i == 0 else values)


# -- addresses -----------------------------------------------------------------------------------

_FOUR = st.one_of(
    st.integers(0, 2**32 - 1), st.integers(0, 5).map(lambda i: 0x0A000000 + 257 * i)
).map(ipaddress.IPv4Address)
_SIX = st.one_of(
    st.integers(0, 2**128 - 1),
    st.lists(st.sampled_from([0, 0, 0, 1, 0xDB8, 0x2001, 0xFFFF]), min_size=8, max_size=8).map(
        lambda groups: sum(g << (16 * i) for i, g in enumerate(groups))
    ),
).map(ipaddress.IPv6Address)


def _dotted(address: ipaddress.IPv6Address) -> str:
    high, low = address.exploded[:-9], ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return f"{high}{low}"


_SPELLINGS = st.sampled_from(
    [
        str,
        lambda a: a.exploded,
        lambda a: str(a).upper(),
        lambda a: a.exploded.upper(),
        _dotted,
        lambda a: f" {a}  ",
        lambda a: ":".join(f"{g:x}" for g in np.frombuffer(a.packed, ">u2").tolist()),
    ]
)

ADDRESSES: st.SearchStrategy[str] = st.one_of(
    _FOUR.map(str),
    _FOUR.map(lambda a: f" {a}"),
    st.tuples(_SIX, _SPELLINGS).map(lambda pair: pair[1](pair[0])),
    _FOUR.map(lambda a: f"::ffff:{a}"),
    _FOUR.map(lambda a: f"::FFFF:{int(a) >> 16:x}:{int(a) & 0xFFFF:X}"),
    _FOUR.map(lambda a: f"::{a}"),
    _FOUR.map(lambda a: f"64:ff9b::{a}"),
)
"""Valid addresses in many spellings; few distinct ones, so that nodes meet."""

_MALFORMED = """
01.2.3.4 1.2.3.04 256.1.1.1 1.2.3.4.5 1.2.3 1.2.3. .1.2.3 1..2.3 -1.2.3.4 +1.2.3.4 1.2.3.4a
0x1.2.3.4 1e1.2.3.4 1.2.3.4/32 1.2.3.4:80 [::1]:80 [::1] ::1/128 fe80::1%eth0 1.2.3.4%1
1::2::3 ::: :::: : :1 1: 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 ::1:2:3:4:5:6:7:8 1:2:3:4::5:6:7:8
12345::1 g::1 ::g ::1.2.3 ::1.2.3.4.5 ::1.2.3.256 ::01.2.3.4 1.2.3.4::1 ::1.2.3.4:1
1:2:3:4:5:6:7:1.2.3.4 ::-1 ::+1 ::0x1 ::1_0 1_0.1.1.1 localhost null nan 0 1 4294967296
１.2.3.4 ١.2.3.4 ::１
"""

MALFORMED = (
    *_MALFORMED.split(),
    *("", " ", "1. 2.3.4", ": :1", "1.2.3.4 5", "1.2.3.4\x00", "\t::1", "1.2.3.4\t", "1.2.3.4\n"),
)
"""Addresses with zones, ports, masks, leading zeros, too few and too many parts, ..."""

BAD_ADDRESSES = st.sampled_from(MALFORMED)


IPS = mostly(ADDRESSES, st.one_of(BAD_ADDRESSES, QUOTES, WORDS, MISSING))

# -- paths and codes -----------------------------------------------------------------------------

SEPARATORS = st.sampled_from(["/", ".", "::", " > ", "'", "\\", "aa", "%", "é", "→", '"', "(", ","])

_PARTS = st.one_of(
    st.sampled_from(
        ["a", "b", "A", "a'b", "", "", " ", ".", "é", "e\u0301", "日本", "🏴", "aa", "<invalid>"]
    ),
    WORDS,
)


def paths(separator: str) -> st.SearchStrategy[Any]:
    """Ragged paths, with empty parts, of up to 12 parts, and some without any."""
    joined = st.lists(_PARTS, max_size=12).map(separator.join)
    short = [separator, separator * 2, separator * 3, f"{separator}a"]
    return mostly(joined, st.one_of(QUOTES, WORDS, MISSING, st.sampled_from(short)))


CODES = mostly(
    st.text(alphabet="01aé日🏴 '", max_size=8),
    st.one_of(WORDS, QUOTES, MISSING, st.integers(0, 99999)),
)

# -- columns -------------------------------------------------------------------------------------

_VALUES = st.one_of(
    st.sampled_from(["Paris", "paris", "Texas", "", "a", "<invalid>", "NULL", "a / b"]),
    QUOTES,
    WORDS,
)


def column_rows(width: int) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Rows of text and missing values; few distinct values, so that labels repeat."""
    row = st.tuples(*[mostly(_VALUES, MISSING)] * width)
    return st.lists(row, max_size=40)


MIXED = st.one_of(
    st.sampled_from([True, False, 0, 1, -1, 2**62, 2**80, -(2**70)]),
    st.integers(),
    st.sampled_from(
        [0.0, -0.0, 1.0, 1.5, 1e14, 1e15, 1e16, 1e300, math.inf, -math.inf, 0.1, 5e-324]
    ),
    st.floats(allow_nan=True),
    st.sampled_from(
        [Decimal("1.50"), Decimal("0"), dt.date(2013, 5, 1), dt.datetime(2013, 5, 1, 10)]
    ),
    _VALUES,
    MISSING,
)
"""What a column of objects can hold side by side."""

# -- dates ---------------------------------------------------------------------------------------

_MOMENTS = st.one_of(
    st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)),
    st.datetimes(dt.datetime(2013, 1, 1), dt.datetime(2013, 1, 3)),
)
_OFFSETS = st.integers(-14 * 4, 14 * 4).map(lambda q: dt.timezone(dt.timedelta(minutes=15 * q)))

_ISO = st.one_of(
    _MOMENTS.map(lambda t: t.date().isoformat()),
    _MOMENTS.map(lambda t: t.isoformat(" ")),
    _MOMENTS.map(lambda t: t.isoformat("T", "minutes")),
    _MOMENTS.map(lambda t: t.isoformat("T", "seconds") + "Z"),
    st.builds(lambda t, z: t.replace(tzinfo=z).isoformat(), _MOMENTS, _OFFSETS),
    st.builds(lambda t, z: t.replace(tzinfo=z).isoformat(" ", "seconds"), _MOMENTS, _OFFSETS),
)
BAD_DATES = st.sampled_from(
    [
        *("", " ", "2013-02-30", "2013-13-01", "2013-00-01", "2013-05-01 25:00", "-", ":", "1.5"),
        *("2013-05-01 10:61:00", "2013-05-01 10:00:00+", "2013-05-01T10:00:00+aa:00", "NaT"),
        *("yesterday", "now", "01/02/2013", "2013-05-01x", "infinity", "-infinity", "99999999999"),
    ]
)

DATE_TEXTS = mostly(_ISO, st.one_of(BAD_DATES, QUOTES, MISSING))
DATE_OBJECTS = mostly(
    st.one_of(
        _MOMENTS,
        _MOMENTS.map(dt.datetime.date),
        st.builds(lambda t, z: t.replace(tzinfo=z), _MOMENTS, _OFFSETS),
        _ISO,
    ),
    st.one_of(BAD_DATES, MISSING),
)

# -- domains -------------------------------------------------------------------------------------

_LABELS = st.sampled_from(
    [
        "com", "COM", "org", "www", "WwW", "a-b", "_dmarc", "xn--bcher-kva", "bücher", "日本", "ÀÉ",
        "1", "42",
    ]
)  # fmt: skip
DOMAINS = mostly(
    st.one_of(
        st.lists(_LABELS, min_size=1, max_size=7).map(".".join),
        st.lists(_LABELS, min_size=1, max_size=3).map(lambda labels: ".".join(labels) + "."),
    ),
    st.one_of(
        st.sampled_from(
            [
                *("10.0.0.1", "::1", ".", "..", ".com", "com..", "a..b", "http://a.com", "a.com/b"),
                *("a.com:80", "x@a.com", "a.b.1", "1", "", " ", "a b.com", "a.com\t", " a.com "),
                *("\u3000a.com", "a.c\nom", "\n"),
            ]
        ),
        QUOTES,
        MISSING,
        WORDS,
    ),
)

# -- numbers -------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(-20, 120),
    st.floats(),
    st.integers(-20, 120).map(float),
    st.sampled_from([-0.0, 100.0]),
)
NUMBER_TEXTS = mostly(
    st.one_of(NUMBERS.map(repr), st.integers(-20, 120).map(str), st.just(" 12 ")),
    st.one_of(
        st.sampled_from(["", "x", "1,5", "--1", "1e", "0x1f", "１", "12abc"]), QUOTES, MISSING
    ),
)

# -- rows with a hierarchy that reads them ---------------------------------------------------------

INVALID = st.sampled_from(["count", "drop"])
_LEVELS = st.sampled_from(
    [
        *[("year", "month", "day", "hour"), ("year",), ("hour",), ("month", "hour")],
        *[("year", "day"), ("year", "quarter", "month"), ("quarter",), ("quarter", "day")],
        *[("week", "hour"), ("week",)],
    ]
)


def _rows(values: st.SearchStrategy[Any], hierarchies: Any) -> st.SearchStrategy[Any]:
    """Rows of one column x, and a hierarchy of it."""
    return st.tuples(st.lists(values.map(lambda value: (value,)), max_size=50), hierarchies)


def _built(kind: Callable[..., Any], **options: Any) -> st.SearchStrategy[Any]:
    return st.builds(partial(kind, "x"), **options)


def _columns(width: int) -> st.SearchStrategy[Any]:
    names = [f"c{i}" for i in range(width)]
    return st.tuples(column_rows(width), st.builds(partial(dp.columns, *names), invalid=INVALID))


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "addresses": _rows(
        IPS,
        st.sampled_from(
            [
                *(dp.ip("x"), dp.ip("x", invalid="drop"), dp.ip("x", version=4)),
                *(dp.ip("x", version=6), dp.ip("x", prefixes=(1, 31), prefixes6=(127,))),
                dp.ip("x", prefixes=(7, 9, 10), prefixes6=(3, 96, 97), invalid="drop"),
            ]
        ),
    ),
    "paths": SEPARATORS.flatmap(
        lambda by: _rows(
            paths(by),
            _built(partial(dp.path, separator=by), depth=st.integers(1, 9), invalid=INVALID),
        )
    ),
    "codes": _rows(
        CODES,
        _built(
            dp.code,
            lengths=st.sampled_from([(1, 3, 5), (2,), tuple(range(1, 9)), (4, 9)]),
            invalid=INVALID,
        ),
    ),
    "domains": _rows(DOMAINS, _built(dp.domain, depth=st.integers(1, 5), invalid=INVALID)),
    "texts of dates": _rows(DATE_TEXTS, _built(dp.date, levels=_LEVELS, invalid=INVALID)),
    "dates": _rows(DATE_OBJECTS, _built(dp.date, levels=_LEVELS)),
    "numbers": st.sampled_from([(0, 100.0), (-3.7, 99.9), (-1e300, 1e300), (1e-9, 2e-9)]).flatmap(
        lambda ends: _rows(
            NUMBERS,
            _built(
                partial(dp.number, lower=ends[0], upper=ends[1]),
                depth=st.integers(1, 12) | st.just(48),
                invalid=INVALID,
            ),
        )
    ),
    "texts of numbers": _rows(NUMBER_TEXTS, st.just(dp.number("x", lower=0, upper=100, depth=5))),
    "columns": st.integers(1, 4).flatmap(_columns),
    "mixed objects": _rows(MIXED, st.just(dp.columns("x"))),
}
"""Values out of which a hierarchy makes nodes, or none: pairs of rows and the hierarchy."""


def frame_of(rows: list[tuple[Any, ...]], hierarchy: Any) -> pd.DataFrame:
    """Objects as they are; numbers as numbers."""
    floats = hierarchy.kind == "number" and all(type(x) is float for x, *_ in rows)
    return pd.DataFrame(
        rows, columns=list(hierarchy.source_columns), dtype="float64" if floats else object
    )
