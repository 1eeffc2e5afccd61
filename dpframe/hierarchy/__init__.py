"""Kinds of hierarchy over columns; all doors take the same strings and objects.

===========  ====================================================  ======================
kind         string                                                object
===========  ====================================================  ======================
IP prefixes  ``ip:src``, ``ip:src?prefixes=8,16&version=4``        ``ip("src", ...)``
paths        ``path:category?separator=/&depth=8``                 ``path("category")``
columns      ``columns:country,state,city``, a list of names       ``columns("a", "b")``
domains      ``domain:host?depth=4``                               ``domain("host")``
dates        ``date:when?levels=year,month``                       ``date("when")``
codes        ``code:zip?lengths=1,3,5``                            ``code("zip", ...)``
numbers      ``number:age?lower=0&upper=100&depth=10``             ``number("age", ...)``
===========  ====================================================  ======================

``date:when?zone=Europe/Paris`` reads times that have a zone by the clocks of Paris.
Several hierarchies at once, for :func:`dpframe.hhh`, are ``"ip:src * ip:dst"`` or :func:`product`,
:func:`cube`, ``"sets:a,b;a"`` or :func:`grouping_sets`, and one hierarchy inside of another,
``"country > date:when"``.
Every kind takes ``invalid="count"`` (the default: NULL, empty and malformed values are counted
under an ``<invalid>`` node) or ``invalid="drop"``.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

import numpy as np

from dpframe.common.calls import known_arguments, shown_value
from dpframe.errors import HierarchyError, ParameterTypeError, class_name
from dpframe.hierarchy._base import INVALID, MAX_HEIGHT, OTHER, ROOT, Hierarchy, Kind, OnInvalid
from dpframe.hierarchy._cells import (
    BETWEEN,
    SETS,
    UNDER,
    Cells,
    Columns,
    is_one_dimension,
    nested_kinds,
    product_kinds,
    too_many_kinds,
)
from dpframe.hierarchy._date import USUAL, Date
from dpframe.hierarchy._plain_values import Code, HostNames, Ip, Number, Path

__all__ = [
    "INVALID",
    "KINDS",
    "OTHER",
    "ROOT",
    "Cells",
    "Hierarchy",
    "Kind",
    "as_hierarchies",
    "as_hierarchy",
    "code",
    "columns",
    "cube",
    "date",
    "domain",
    "grouping_sets",
    "ip",
    "is_one_hierarchy",
    "number",
    "path",
    "product",
]


@known_arguments
def ip(
    column: str,
    *,
    prefixes: tuple[int, ...] = (8, 16, 24, 32),
    prefixes6: tuple[int, ...] = (16, 32, 48, 64, 128),
    version: int | None = None,
    invalid: OnInvalid = "count",
) -> Ip:
    """IPv4 and IPv6 addresses under their prefixes.

    Parameters
    ----------
    column
        Column of addresses as text, not as numbers. IPv4-mapped IPv6 addresses are their IPv4
        addresses.
    prefixes, prefixes6
        Prefix lengths in bits, increasing; 1 to 32 for IPv4, 1 to 128 for IPv6.
    version
        4 or 6 to accept one family only (the other family is then invalid); both by default.
    invalid
        "count" malformed values under ``<invalid>``, or "drop" them.

    Examples
    --------
    >>> ip("src", prefixes=(8, 16)).spec
    'ip:src?prefixes=8,16'
    """
    return Ip(column, _option_tuple(prefixes), _option_tuple(prefixes6), version, invalid)


@known_arguments
def path(
    column: str, *, separator: str = "/", depth: int = 8, invalid: OnInvalid = "count"
) -> Path:
    """Paths such as ``tools/saws/hand``: at most ``depth`` (1 to 128) parts, the rest is cut.

    Empty parts do not count. A path counts at its last part and above: ``tools`` at its own node
    and the root, and a path without parts, such as ``/``, at the root only.

    Examples
    --------
    >>> path("category", separator=" > ").height
    8
    """
    return Path(column, separator, depth, invalid)


@known_arguments
def columns(*names: str | Sequence[str], invalid: OnInvalid = "count") -> Columns:
    """Columns as levels, coarse to fine: pass their names, or one list of names.

    Examples
    --------
    >>> columns("country", "city").spec
    'columns:country,city'
    """
    listed: Any = names[0] if len(names) == 1 and not isinstance(names[0], str) else names
    return Columns(_option_tuple(listed.tolist() if hasattr(listed, "tolist") else listed), invalid)


@known_arguments
def domain(column: str, *, depth: int = 4, invalid: OnInvalid = "count") -> HostNames:
    """Host names from the right: at most ``depth`` (1 to 128) labels; labels further left are cut.

    Examples
    --------
    >>> domain("host", depth=2).spec
    'domain:host?depth=2'
    """
    return HostNames(column, depth, invalid)


@known_arguments
def date(
    column: str,
    *,
    levels: tuple[str, ...] = USUAL,
    zone: str | None = None,
    invalid: OnInvalid = "count",
) -> Date:
    """Dates and times, by their year, quarter, month, week, day and hour.

    Parameters
    ----------
    column
        Column of dates, timestamps or ISO 8601 text.
    levels
        Some of year, quarter, month, day, hour, coarse to fine; or some of week, day, hour, with
        the weeks of ISO 8601.
    zone
        Time zone whose clocks are used to read timestamps with a zone, and texts with an offset,
        such as "Europe/Paris"; UTC by default. Times without a zone are read unchanged.
    invalid
        "count" malformed values under ``<invalid>``, or "drop" them.

    Examples
    --------
    >>> date("when", levels=("year", "month"), zone="Europe/Paris").spec
    'date:when?levels=year,month&zone=Europe/Paris'
    """
    return Date(column, _option_tuple(levels), invalid, zone)


@known_arguments
def code(column: str, *, lengths: tuple[int, ...], invalid: OnInvalid = "count") -> Code:
    """Prefixes of a code: ``lengths`` are their increasing lengths in characters.

    Examples
    --------
    >>> code("zip", lengths=(1, 3, 5)).height
    3
    """
    return Code(column, _option_tuple(lengths), invalid)


@known_arguments
def number(
    column: str, *, lower: float, upper: float, depth: int = 10, invalid: OnInvalid = "count"
) -> Number:
    """Binary splits of [lower, upper], ``depth`` (1 to 48) levels; the bounds are public.

    Examples
    --------
    >>> number("age", lower=0, upper=128, depth=7).height
    7
    """
    return Number(column, lower, upper, depth, invalid)


def _option_tuple(values: Any) -> Any:
    """Return a list, array or range as a tuple of Python values. Other values stay unchanged; the
    kind checks them later."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return tuple(values) if isinstance(values, list | range) else values


Convert = Callable[[str, str], object]


def _parse_integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise HierarchyError(f"{name} must be a whole number; got {text!r}.") from None


def _parse_real(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise HierarchyError(f"{name} must be a number; got {text!r}.") from None


def _parse_integers(name: str, text: str) -> tuple[int, ...]:
    return tuple(_parse_integer(name, part) for part in text.split(","))


def _parse_words(name: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _parse_text(name: str, text: str) -> str:
    return text


KINDS: dict[str, tuple[type[Hierarchy], dict[str, tuple[str, Convert]]]] = {
    "ip": (
        Ip,
        {
            "prefixes": ("prefixes", _parse_integers),
            "prefixes6": ("prefixes6", _parse_integers),
            "version": ("version", _parse_integer),
        },
    ),
    "path": (
        Path,
        {"separator": ("separator", _parse_text), "depth": ("depth_limit", _parse_integer)},
    ),
    "columns": (Columns, {}),
    "domain": (HostNames, {"depth": ("depth_limit", _parse_integer)}),
    "date": (Date, {"levels": ("levels", _parse_words), "zone": ("zone", _parse_text)}),
    "code": (Code, {"lengths": ("lengths", _parse_integers)}),
    "number": (
        Number,
        {
            "lower": ("lower", _parse_real),
            "upper": ("upper", _parse_real),
            "depth": ("depth_limit", _parse_integer),
        },
    ),
}
"""For each kind its class and, for each option in a string, its field and its parser."""

REQUIRED = {"code": ("lengths",), "number": ("lower", "upper")}

EXAMPLE = (
    "'ip:src', 'path:category', 'columns:country,city', 'domain:host', 'date:when', "
    "'code:zip?lengths=1,3,5', 'number:age?lower=0&upper=100'"
)


def as_hierarchy(value: object, name: str = "hierarchy") -> Hierarchy:
    """Return the hierarchy of a string, a list of column names or a hierarchy object. ``name`` is
    the argument's name, for messages. Raises HierarchyError or ParameterTypeError."""
    if not is_one_hierarchy(value):
        raise HierarchyError(
            f"{name} ({shown_value(value)}) is several hierarchies, for hhh and rollup only: "
            "pass one, "
            "such as 'ip:src', or columns:... for a column of that name, with %20 for a blank."
        )
    if isinstance(value, Hierarchy):
        return value
    if isinstance(value, str):
        return _parse_string(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return Columns(tuple(value))
    if type(value).__name__ == "Series":
        column = getattr(value, "name", None)
        raise ParameterTypeError(
            f"{name} must be the name of a column, and is the column itself. Pass {column!r}."
        )
    if hasattr(value, "tolist") and not hasattr(value, "columns"):  # df.columns[:2], an array
        return Columns(tuple(value.tolist()))
    raise ParameterTypeError(
        f"{name} must be the name of a column, text such as {EXAMPLE}, a list of column names, or "
        f"a hierarchy; got {class_name(value)}."
    )


def is_one_hierarchy(value: object) -> bool:
    """Whether a value means one hierarchy, and not several at once."""
    if isinstance(value, Cells):
        return False
    if isinstance(value, str):
        return not value.startswith(f"{SETS}:") and not any(
            split_hierarchies(value, sign) for sign in (BETWEEN, UNDER)
        )
    listed = isinstance(value, Sequence) and not isinstance(value, bytes)
    return not listed or not any(_is_kind(part) for part in value)  # type: ignore[attr-defined]


def split_hierarchies(text: str, sign: str) -> list[str]:
    """Return the texts of the hierarchies that a sign joins; an empty list if the sign is absent or
    part of an option, as in ``path:category?separator= > ``."""
    parts = [part.lstrip() for part in text.split(sign)]
    several = len(parts) > 1 and all(part and not part.startswith("&") for part in parts)
    return parts if several else []


def _is_kind(part: object) -> bool:
    if isinstance(part, Hierarchy):
        return True
    kind, colon, rest = part.partition(":") if isinstance(part, str) else ("", "", "")
    return kind in KINDS and bool(colon and rest)


def _parse_string(text: str) -> Hierarchy:
    kind, colon, rest = text.partition(":")
    if not colon and "," in text:
        found = [name.strip(" []()'\"") for name in text.split(",")]  # a list, as Python writes it
        several = f"columns:{','.join(found)}"
        raise HierarchyError(
            f"hierarchy {text!r} would be one column: write {several!r} for several levels."
        )
    if not colon and text and kind not in KINDS:
        return Columns((text,))
    if text in KINDS:
        raise HierarchyError(
            f"hierarchy {text!r} has no column: write {text}:COLUMN, or columns:{text} for a "
            "column of that name."
        )
    if not colon or kind not in KINDS:
        near = difflib.get_close_matches(kind.lower(), KINDS, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near and colon else ""
        raise HierarchyError(
            f"hierarchy {text!r} names no known kind.{hint} Write KIND:COLUMN with one of "
            f"{', '.join(KINDS)}, for example {EXAMPLE}."
        )
    columns_text, _, query = rest.partition("?")
    names = tuple(unquote(c.strip()) for c in columns_text.split(","))
    if not all(names):
        raise HierarchyError(f"hierarchy {text!r} has an empty column name: write {kind}:COLUMN.")
    if kind != "columns" and len(names) > 1:
        raise HierarchyError(
            f"{kind} reads one column; {text!r} names {len(names)}: use columns:..., or %2C for a "
            "comma in a name."
        )
    cls, known = KINDS[kind]
    fields: dict[str, object] = {"columns": names} if kind == "columns" else {"column": names[0]}
    given = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    for name, value in given:
        if sum(other == name for other, _ in given) > 1:
            raise HierarchyError(f"{kind}: option {name!r} appears twice in {text!r}; keep one.")
        if name == "invalid":
            fields["invalid"] = value
        elif name in known:
            field, read = known[name]
            fields[field] = read(f"{kind}: {name}", value)
        else:
            options = [*known, "invalid"]
            near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise HierarchyError(
                f"{kind} has no option {name!r}.{hint} It has: {', '.join(options)}."
            )
    missing = [name for name in REQUIRED.get(kind, ()) if known[name][0] not in fields]
    if missing:
        raise HierarchyError(
            f"{kind} needs {' and '.join(missing)}: write {_EXAMPLES[kind]} with public values, "
            "never from the data."
        )
    return cls(**fields)


_EXAMPLES = {
    "code": "'code:COLUMN?lengths=1,3,5'",
    "number": "'number:COLUMN?lower=0&upper=100&depth=10'",
}


@known_arguments
def product(*hierarchies: str | Sequence[str] | Hierarchy) -> Cells:
    """Cells of two or more hierarchies: every combination of their levels.

    Parameters
    ----------
    *hierarchies
        What :func:`hhh` takes as a hierarchy, such as ``"ip:src"``, ``dp.path("category")`` or a
        list of columns. A column is in one hierarchy only. A cube or product stands for the
        hierarchies in it.

    Examples
    --------
    >>> product("ip:src?version=4", "ip:dst?version=4").height
    24
    >>> product(["country", "city"], "channel").spec
    'columns:country,city * columns:channel'
    """
    if len(hierarchies) < 2:
        raise HierarchyError(
            f"product needs two or more hierarchies; got {len(hierarchies)}. Pass a single one "
            "without product."
        )
    found = tuple(one for value in hierarchies for one in _factors(value))
    kinds = math.prod(one.height + 1 for one in found) - 1
    if kinds > MAX_HEIGHT:
        raise too_many_kinds(kinds)
    return Cells(found, product_kinds([one.height for one in found]))


def _factors(value: object) -> tuple[Hierarchy, ...]:
    one = as_hierarchies(value, "hierarchies")
    if isinstance(one, Cells) and one.form != "product":
        raise HierarchyError(
            f"hierarchies: {one.spec!r} lacks some kinds of cells, and a product needs all. Pass "
            "hierarchies or dp.cube, or name sets with dp.grouping_sets."
        )
    return one.of if isinstance(one, Cells) else (one,)


@known_arguments
def cube(columns: Sequence[str]) -> Cells:
    """Cells by every subset of the columns, as SQL's ``GROUP BY CUBE``.

    Examples
    --------
    >>> cube(["country", "product", "channel"]).height
    7
    """
    names = _listed_names(columns, "cube", "columns")
    if len(names) < 2:
        raise HierarchyError(f"cube needs two or more columns; got {names!r}.")
    if 2 ** len(names) - 1 > MAX_HEIGHT:
        raise too_many_kinds(2 ** len(names) - 1)
    return product(*(Columns((name,)) for name in names))


@known_arguments
def grouping_sets(sets: Sequence[str | Sequence[str]]) -> Cells:
    """Cells by some sets of columns, as SQL's ``GROUPING SETS``, finest first.

    Parameters
    ----------
    sets
        Sets of names in the order in which they are asked: a set comes after all sets that have its
        columns and more. The total can be left out (``remainder=`` releases it), or be an empty set
        at the end.

    Examples
    --------
    >>> grouping_sets([["country", "product"], ["product"], ["country"]]).spec
    'sets:country,product;product;country'
    """
    given = [
        _listed_names([s] if isinstance(s, str) else s, "grouping_sets", "sets")
        for s in _set_list(sets)
    ]
    if given and not given[-1]:
        given.pop()
    if not given or not all(given):
        raise HierarchyError(
            f"grouping_sets needs sets of columns, an empty one (the total) at the end only; got "
            f"{sets!r}."
        )
    for place, one in enumerate(given):
        for later in given[place + 1 :]:
            if set(one) == set(later):
                raise HierarchyError(f"grouping_sets has {one!r} twice: keep one of them.")
            if set(one) < set(later):
                raise HierarchyError(
                    f"grouping_sets has {one!r} before {later!r}, which is finer. Write finest "
                    f"first: {_finest_first(given)!r}."
                )
    names = tuple(dict.fromkeys(name for one in given for name in one))
    kinds: list[Kind] = [tuple(int(name in one) for name in names) for one in given]
    if len(kinds) > MAX_HEIGHT:
        raise too_many_kinds(len(kinds))
    if len(names) < 2:
        raise HierarchyError(f"grouping_sets names one column, {names[0]!r}: pass {[*names]!r}.")
    return Cells(tuple(Columns((name,)) for name in names), tuple(kinds))


def as_hierarchies(value: object, name: str = "hierarchy") -> Hierarchy:
    """Return a hierarchy, or several hierarchies at once as ``Cells``, from what people write."""
    if is_one_hierarchy(value):
        return as_hierarchy(value, name)
    if isinstance(value, Cells):
        return value
    if isinstance(value, str):
        return _parse_several(value)
    assert isinstance(value, Sequence)
    return _nest_hierarchies([as_hierarchy(part, name) for part in value])


def _parse_several(text: str) -> Hierarchy:
    if text.startswith(f"{SETS}:"):
        listed = text.removeprefix(f"{SETS}:").split(";")
        sets = [[unquote(n.strip()) for n in one.split(",") if n.strip()] for one in listed]
        return grouping_sets(sets)
    products, chains = split_hierarchies(text, BETWEEN), split_hierarchies(text, UNDER)
    if products and chains:
        raise HierarchyError(
            f"hierarchy {text!r} has both {BETWEEN.strip()!r} and {UNDER.strip()!r}: use only one "
            "of them."
        )
    if products:
        return product(*products)
    return _nest_hierarchies([as_hierarchy(part) for part in chains])


def _nest_hierarchies(found: list[Hierarchy]) -> Hierarchy:
    """Nest each hierarchy inside of the hierarchy before it. Neighbours that are columns with equal
    ``invalid`` become one dimension."""
    joined: list[Hierarchy] = []
    for one in found:
        before = joined[-1] if joined else None
        if before is not None and is_one_dimension(before, one):
            joined[-1] = Columns((*before.source_columns, *one.source_columns), one.on_invalid)
        else:
            joined.append(one)
    if len(joined) == 1:
        return joined[0]
    height = sum(one.height for one in joined)
    if height > MAX_HEIGHT:
        raise too_many_kinds(height)
    return Cells(tuple(joined), nested_kinds([one.height for one in joined]))


def _set_list(value: object) -> list[object]:
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise ParameterTypeError(
            f"sets must be lists of columns, finest first; got {class_name(value)}."
        )
    return list(value)


def _listed_names(value: object, what: str, argument: str) -> list[str]:
    listed = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(listed, list | tuple) or not all(isinstance(n, str) and n for n in listed):
        raise ParameterTypeError(
            f"{what}: {argument} must be lists of column names; got {value!r}."
        )
    for name in listed:
        if listed.count(name) > 1:
            raise HierarchyError(f"{what} names column {name!r} twice in {list(listed)!r}.")
    return list(listed)


def _finest_first(sets: list[list[str]]) -> list[list[str]]:
    return sorted(sets, key=lambda one: -len(one))
