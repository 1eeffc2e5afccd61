"""Write Python objects of a column as text by rules for their types: equal objects, equal texts.

A user is a group of equal values. If one user had two texts, their rows would count as two users,
and the promise would be half as strong as stated. So only types whose equality is known are read,
and an object of any other type is missing (docs/known_limits.md).
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
import pathlib
import uuid
from collections.abc import Callable, Iterable
from decimal import Decimal, Inexact, localcontext
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe._unicode import decode_bytes, escape_bytes

WHOLE = 2.0**127
"""Whole floating-point numbers below this are written as integers, as SQL writes them
(``text_sql``)."""

LARGEST = 2**1024 - 2**970
"""Whole numbers below this round to a finite floating-point number."""

DIGITS = 4000
"""Decimals with more digits before or behind the point are not written: that would take long."""


def texts_of_objects(values: Any) -> pa.Array:
    """Python objects as texts, each as SQL would write it; an object without a text is NULL."""
    from pandas.api.types import infer_dtype  # loaded late: sketches do without pandas

    if infer_dtype(values, skipna=True) in ("string", "empty"):
        try:
            return pa.Array.from_pandas(values, type=pa.large_string())
        except Exception:  # text with lone surrogates
            pass
    return each_as_text(values)


def each_as_text(values: Iterable[Any]) -> pa.Array:
    """Each object as text, independently of all other objects."""
    return pa.array(map(object_text, values), type=pa.large_string())


def object_text(value: Any) -> str | None:
    """The text of an object; None if it is missing, or its type has no texts.

    For texts and missing values this agrees with Arrow, which reads a column of texts at once:
    other rows decide which of the two reads a value.
    """
    try:
        return _text_or_raise(value)
    except Exception:  # an object can raise anything, and must not stop the other rows
        return None


def _text_or_raise(value: Any) -> str | None:
    """The text of an object; None if it is missing. Raises if its type is not read."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return None
    for kinds, text in TEXTS:
        if isinstance(value, kinds):
            return text(value)
    if type(value).__module__.partition(".")[0] == "pandas":
        return OF_PANDAS[type(value).__name__](value)
    raise TypeError


def _unicode_text(value: str) -> str:
    text = str.__str__(value)  # for an enum: its value
    return decode_bytes(text.encode("utf-8", "surrogatepass"))


def _number_text(value: Any) -> str | None:
    """The text of a number, None for NaN. Equal numbers have equal texts, whatever their types: 7,
    7.0 and Decimal("7.00")."""
    if value != value:  # NaN
        return None
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > DIGITS:
        raise OverflowError
    if not isinstance(value, int | np.integer) and math.isinf(value):
        return repr(float(value))
    if value == int(value):
        whole = int(value)
        as_float = float(whole) if WHOLE <= abs(whole) < LARGEST else math.nan
        return repr(as_float) if as_float == whole else str(whole)
    if value == float(value):
        return repr(float(value))
    if isinstance(value, Fraction):
        value = _equal_decimal(value)
    return f"{value:f}".rstrip("0") if isinstance(value, Decimal) else str(value)


def _equal_decimal(value: Fraction) -> Decimal | Fraction:
    """A fraction as a decimal, if a decimal of at most DIGITS digits equals it; else unchanged."""
    with localcontext(prec=DIGITS) as context:
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        return value if context.flags[Inexact] else exact


def _complex_text(value: Any) -> str | None:
    number = complex(value) + 0j  # no negative zero
    if number != number:
        return None
    return str(number) if number.imag else _number_text(number.real)


def _moment_text(value: dt.datetime) -> str | None:
    """The instant in UTC, so that equal instants of two zones have one text. None for a year that
    only pandas can hold."""
    if not 1 <= value.year <= 9999:
        return None
    return str(value if value.tzinfo is None else value.astimezone(dt.UTC))


def _time_of_day_text(value: dt.time) -> str | None:
    return None if value.tzinfo else str(value)  # a zone's offset depends on the day


def _duration_text(value: dt.timedelta) -> str:
    """A duration of Python or of pandas, which can have nanoseconds."""
    whole = dt.timedelta(value.days, value.seconds, value.microseconds)
    return _duration_with_nanoseconds(whole, getattr(value, "nanoseconds", 0))


def _duration_with_nanoseconds(whole: dt.timedelta, nano: int) -> str:
    if not nano:
        return str(whole)
    clock = (dt.datetime(2000, 1, 1) + dt.timedelta(seconds=whole.seconds)).time()
    return f"{whole.days} days {clock}.{whole.microseconds:06}{nano:03}"


def _numpy_time_text(value: Any) -> str | None:
    """A time or duration of NumPy, of any unit, as Python or pandas writes it. None for NaT, and
    for a fraction of a nanosecond. Raises for a value that Python cannot hold, and for a number of
    months or years without a date."""
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and value.dtype.kind == "M":
        value, unit, count = value.astype("datetime64[D]"), "D", 1
    parts = int(value.astype(np.int64)) * count * ATTOSECONDS[unit]
    nano, finer = divmod(parts, ATTOSECONDS["ns"])
    if finer:
        return None
    micro, nano = divmod(nano, 1_000)
    whole = dt.timedelta(microseconds=micro)
    if value.dtype.kind == "m":
        return _duration_with_nanoseconds(whole, nano)
    moment = dt.datetime(1970, 1, 1) + whole
    return f"{moment.isoformat(' ', 'microseconds')}{nano:03}" if nano else str(moment)


ATTOSECONDS = {
    **{u: 1_000**power for power, u in enumerate(("as", "fs", "ps", "ns", "us", "ms", "s"))},
    "m": 60 * 10**18,
    "h": 3_600 * 10**18,
    "D": 86_400 * 10**18,
    "W": 604_800 * 10**18,
}
"""Attoseconds of NumPy's units, without years and months, whose lengths differ."""


def _interval_text(value: Any) -> str:
    left, right = _text_or_raise(value.left), _text_or_raise(value.right)
    return f"{'(['[value.closed_left]}{left}, {right}{')]'[value.closed_right]}"


def _item_texts(values: Iterable[Any]) -> list[str]:
    """The texts of a container's elements, texts in quotes: ("a, b",) is not ("a", "b")."""
    texts = [(value, _text_or_raise(value)) for value in values]
    return [repr(text) if isinstance(value, QUOTED) else str(text) for value, text in texts]


def _tuple_text(value: tuple[Any, ...]) -> str:
    items = _item_texts(value)
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _list_text(value: Any) -> str:
    return f"[{', '.join(_item_texts(value))}]"


def _set_text(value: Any) -> str:
    return "{" + ", ".join(sorted(_item_texts(value))) + "}"


def _dict_text(value: dict[Any, Any]) -> str:
    pairs = zip(_item_texts(value), _item_texts(value.values()), strict=True)
    return "{" + ", ".join(sorted(f"{key}: {item}" for key, item in pairs)) + "}"


QUOTED = (str, bytes, bytearray, memoryview)

TEXTS: tuple[tuple[Any, Callable[[Any], str | None]], ...] = (
    (str, _unicode_text),
    ((bool, np.bool_), lambda value: str(bool(value)).lower()),
    ((np.datetime64, np.timedelta64), _numpy_time_text),  # a kind of whole number to NumPy
    ((int, float, np.integer, np.floating, Decimal, Fraction), _number_text),
    ((bytes, bytearray, memoryview), lambda value: escape_bytes(bytes(value))),
    (uuid.UUID, str),
    (dt.datetime, _moment_text),
    (dt.date, str),
    (dt.time, _time_of_day_text),
    (dt.timedelta, _duration_text),
    ((ipaddress.IPv4Address, ipaddress.IPv6Address), str),
    ((ipaddress.IPv4Network, ipaddress.IPv6Network), str),
    (Enum, lambda value: f"{type(value).__name__}.{value.name}"),
    (pathlib.PurePosixPath, str),
    (pathlib.PureWindowsPath, lambda value: str(value).lower()),
    ((complex, np.complexfloating), _complex_text),
    (tuple, _tuple_text),
    (list, _list_text),
    (np.ndarray, lambda value: object_text(value.tolist())),
    ((set, frozenset), _set_text),
    (dict, _dict_text),
)
"""How objects of a type are written. The first type that fits decides. Equal objects have one text,
with two exceptions: truth values are no numbers, and a subclass can define its own equality."""

OF_PANDAS: dict[str, Callable[[Any], str]] = {"Period": str, "Interval": _interval_text}
"""How pandas objects are written, by the name of their class, so that pandas need not be loaded."""
