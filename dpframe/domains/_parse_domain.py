"""Parse a domain from what people write: strings, hierarchies, or a dict of bounds."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import numpy as np

from dpframe.domains._axis import Axis
from dpframe.domains._category_keys import categories
from dpframe.domains._domain import Domain
from dpframe.domains._ip_axis import IpAxis
from dpframe.domains._listed_axis import ListedAxis
from dpframe.domains._number_axis import NumberAxis
from dpframe.domains._time_axis import TimeAxis, utc_moment
from dpframe.errors import HierarchyError, ParameterError, ParameterTypeError
from dpframe.hierarchy import KINDS, Hierarchy, as_hierarchy
from dpframe.hierarchy._ip import Ip
from dpframe.hierarchy._number import Number

EXAMPLE = (
    "'number:distance?lower=0&upper=5000', 'time:ts?lower=2017-01-01&upper=2018-01-01', "
    "'ip:src?version=4', or 'columns:carrier' with keys=[...]"
)

TIME_EXAMPLE = "'time:COLUMN?lower=2017-01-01&upper=2018-01-01'"


def as_domain(columns: object, *, depth: int | None = None, keys: object = None) -> Domain:
    """Return the domain of rows of some columns.

    Parameters
    ----------
    columns
        A specification such as ``"number:distance?lower=0&upper=5000"``, a hierarchy or an axis;
        a list of these; or a dict from column to (lower, upper), numbers or times.
    depth
        Bits of a path, 1 to 60. By default all bits that the columns have, 20 for numbers and
        times, but at most 32.
    keys
        The values of the categories: a list, ``ListedNodes`` or an Arrow table. If several axes
        need keys, a dict from column, or tuple of columns, to these.

    Raises
    ------
    ParameterError, ParameterTypeError
        If there is no such domain, bounds or keys are missing or wrong, a column appears twice,
        or the depth is out of range.
    """
    if isinstance(columns, Mapping):
        given: list[object] = [_bounds_axis(name, value) for name, value in columns.items()]
    elif isinstance(columns, str | Hierarchy | Axis):
        given = [columns]
    elif isinstance(columns, Sequence) and not isinstance(columns, bytes):
        given = list(columns)
    else:
        raise ParameterTypeError(
            f"columns must be text such as {EXAMPLE}, a list of texts, or a dict of (lower, upper);"
            f" got {type(columns).__name__}."
        )
    if not given:
        raise ParameterError(f"columns is empty: name at least one, such as {EXAMPLE}.")
    read = [_parse_axis(value) for value in given]
    chosen = _hierarchy_keys([axis for axis in read if isinstance(axis, Hierarchy)], keys)
    axes = (
        ListedAxis(axis, categories(chosen.pop(0), axis)) if isinstance(axis, Hierarchy) else axis
        for axis in read
    )
    return Domain.of(tuple(axes), depth)


def _parse_axis(value: object) -> Axis | Hierarchy:
    """Return the axis of a value, or a hierarchy that needs keys to become an axis."""
    limited = False
    if isinstance(value, str):
        kind, colon, rest = value.partition(":")
        if kind == "time" and colon:
            return _parse_time_axis(value, rest)
        if not colon or kind not in KINDS:
            known, example = [*KINDS, "time"], EXAMPLE
            if not colon and value:
                column = quote(value)
                example = (
                    f"'number:{column}?lower=0&upper=100', 'time:{column}?lower=2017-01-01&"
                    f"upper=2018-01-01', or 'columns:{column}' with keys=[...]"
                )
            near = difflib.get_close_matches(kind.lower(), known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near and colon else ""
            raise HierarchyError(
                f"columns: {value!r} names no known kind.{hint} Write KIND:COLUMN with one of "
                f"{', '.join(known)}, for example {example}."
            )
        limited = "depth" in dict(parse_qsl(rest.partition("?")[2]))
        value = as_hierarchy(value)
    if isinstance(value, Number):  # an object does not say whether its usual depth was meant
        limited = limited or "depth" in value.options
        limit = value.depth_limit if limited else None
        return NumberAxis(value.column, value.lower, value.upper, limit)
    if isinstance(value, Ip):
        return IpAxis(value)
    if isinstance(value, Hierarchy | Axis):
        return value
    raise ParameterTypeError(
        f"columns must list texts such as {EXAMPLE}, or hierarchies; got {type(value).__name__}."
    )


def _parse_time_axis(text: str, rest: str) -> TimeAxis:
    column, _, query = rest.partition("?")
    if "," in column:
        raise HierarchyError(f"time reads one column; {text!r} names several: write %2C in a name.")
    given = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    names = [name for name, _ in given]
    for name in names:
        if name not in ("lower", "upper", "depth"):
            raise HierarchyError(f"time has no option {name!r}. It has: lower, upper, depth.")
        if names.count(name) > 1:
            raise HierarchyError(f"time: option {name!r} appears twice in {text!r}; keep one.")
    options = dict(given)
    missing = [name for name in ("lower", "upper") if name not in options]
    if missing:
        raise HierarchyError(
            f"time needs {' and '.join(missing)}: write {TIME_EXAMPLE} with public values, never "
            "from the data."
        )
    limit: Any = options.get("depth")
    if limit is not None:
        try:
            limit = int(limit)
        except ValueError:
            raise HierarchyError(f"time: depth must be a whole number; got {limit!r}.") from None
    low, high = utc_moment("lower", options["lower"]), utc_moment("upper", options["upper"])
    return TimeAxis(unquote(column.strip()), low, high, limit)


def _bounds_axis(name: object, bounds: object) -> Axis:
    """Return the axis of an entry of a dict."""
    if not isinstance(name, str):
        raise ParameterTypeError(f"columns must have column names as keys; got {name!r}.")
    times = (str, dt.date, np.datetime64)
    if isinstance(bounds, tuple | list) and len(bounds) == 2:
        low, high = (x.item() if isinstance(x, np.number) else x for x in bounds)
        if not (isinstance(low, times) and isinstance(high, times)):
            return NumberAxis(name, low, high)
        if any(map(_is_time, bounds)):
            return TimeAxis(name, utc_moment("lower", low), utc_moment("upper", high))
    raise ParameterError(
        f"columns[{name!r}] must be (lower, upper), numbers or times; got {bounds!r}. List "
        f"categories as keys: columns=['columns:{quote(name)}'], keys={{{name!r}: [...]}}."
    )


def _is_time(bound: object) -> bool:
    with suppress(HierarchyError):
        utc_moment("lower", bound)
        return True
    return False


def _hierarchy_keys(hierarchies: list[Hierarchy], keys: object) -> list[object]:
    """Return the keys of each hierarchy, in order."""
    if not hierarchies:
        if keys is not None:
            raise ParameterError("keys is for categories, and columns names none: leave it out.")
        return []
    if keys is None:
        raise ParameterError(
            f"{hierarchies[0].spec} needs keys: pass keys=[...] with its public values, never from "
            "the data."
        )
    if not isinstance(keys, Mapping):
        if len(hierarchies) > 1:
            names = ", ".join(repr(",".join(h.source_columns)) for h in hierarchies)
            raise ParameterError(f"keys must be a dict with a list for each of {names}.")
        return [keys]
    left = {_joined_names(name): listed for name, listed in keys.items()}
    chosen = []
    for hierarchy in hierarchies:
        name = ",".join(hierarchy.source_columns)
        if name not in left:
            raise ParameterError(f"keys lacks {name!r}: add a list of its public values.")
        chosen.append(left.pop(name))
    if left:
        raise ParameterError(f"keys has {next(iter(left))!r}, which needs no keys: leave it out.")
    return chosen


def _joined_names(name: object) -> str:
    return ",".join(map(str, name)) if isinstance(name, tuple) else str(name)
