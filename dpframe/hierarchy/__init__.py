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

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpframe.common.calls import known_arguments
from dpframe.hierarchy._base import INVALID, OTHER, ROOT, Hierarchy, Kind, OnInvalid
from dpframe.hierarchy._cells import Cells, Columns
from dpframe.hierarchy._date import USUAL, Date
from dpframe.hierarchy._ip import Ip
from dpframe.hierarchy._parse import (
    KINDS,
    as_hierarchies,
    as_hierarchy,
    cube,
    grouping_sets,
    is_one_hierarchy,
    product,
)
from dpframe.hierarchy._plain_values import Code, HostNames, Number, Path

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
