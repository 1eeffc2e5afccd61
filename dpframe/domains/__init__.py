"""Encode rows as paths in a binary tree of cells, and draw rows from cells.

===========  ==================================================  ===========================
axis         string                                              a bit of its path
===========  ==================================================  ===========================
numbers      ``number:distance?lower=0&upper=5000``              a half of the interval
times        ``time:ts?lower=2017-01-01&upper=2018-01-01``       a half of the interval
addresses    ``ip:src?version=4``                                a bit of the address
categories   any other hierarchy, with a list of keys            a bit of a child's number
===========  ==================================================  ===========================

Several axes are cut in turn. Bounds and categories are public and declared by the caller. A row has
no path, and is left out, if a value is missing or is no number, time or address.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import numpy as np
import pyarrow as pa

from dpframe.domains._axes import IpAxis, NumberAxis, TimeAxis, utc_moment
from dpframe.domains._axis import (
    Axis,
    Codes,
    Counts,
    Mask,
    Moves,
    axis_turns,
    single_array,
    types_of_columns,
)
from dpframe.domains._listed_axis import ListedAxis, categories
from dpframe.errors import ColumnError, HierarchyError, ParameterError, ParameterTypeError
from dpframe.hierarchy import KINDS, ROOT, Hierarchy, as_hierarchy
from dpframe.hierarchy._plain_values import Ip, Number
from dpframe.noise import PublicRandom

__all__ = [
    "MAX_DEPTH",
    "USUAL_DEPTH",
    "Axis",
    "Domain",
    "IpAxis",
    "ListedAxis",
    "NumberAxis",
    "TimeAxis",
    "as_domain",
]

MAX_DEPTH = 60
"""Most bits of a path, which is a 64-bit integer."""

USUAL_DEPTH = 32
"""Most bits of a path if no depth is given: 2**32 cells are more than most tables have rows."""


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """All possible rows, as a binary tree of cells that is ``depth`` levels deep.

    Bit t of a path halves axis ``turn[t]``; the highest of ``depth`` bits is the first. A cell of
    level n is given by the first n bits. By default ``depth`` is the sum of the bits of the axes,
    20 for numbers and times, but at most 32.
    """

    axes: tuple[Axis, ...]
    depth: int
    turn: tuple[int, ...]

    @classmethod
    def of(cls, axes: tuple[Axis, ...], depth: int | None) -> Domain:
        """Make a domain: check the depth, and divide its bits among the axes."""
        names = [name for axis in axes for name in axis.columns]
        for name in names:
            if sum(name.lower() == other.lower() for other in names) > 1:
                raise ColumnError(f"columns names {name!r} twice: name each column once.")
        bits = [axis.usual if depth is None else axis.bits for axis in axes]
        needed, most = sum(b > 0 for b in bits), min(MAX_DEPTH, sum(bits))
        if not needed:
            raise ParameterError("columns can hold one value only: list more keys.")
        if depth is None:
            depth = min(USUAL_DEPTH, most)
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= most:
            raise ParameterError(
                f"depth must be a whole number in 1 to {most} for these columns; got {depth!r}."
            )
        if depth < needed:
            raise ParameterError(
                f"depth ({depth}) is below the number of axes ({needed}): raise depth, or name "
                "fewer columns."
            )
        return cls(axes, depth, axis_turns(bits, depth))

    def __repr__(self) -> str:
        return f"Domain({self.spec!r})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Source columns in the order of the output."""
        return tuple(name for axis in self.axes for name in axis.columns)

    @property
    def spec(self) -> str:
        """The canonical text; lists of keys appear as hashes."""
        return "; ".join([*(axis.spec for axis in self.axes), f"depth={self.depth}"])

    @cached_property
    def diameters(self) -> tuple[float, ...]:
        """Largest l-infinity diameter of a cell at levels 0 to ``depth``; every axis is scaled to
        0 to 1.

        Values of a hierarchy that share n levels have distance 2**-n, equal values 0.
        """
        return tuple(
            max(a.diameter(int(k)) for a, k in zip(self.axes, fixed, strict=True))
            for fixed in self._fixed_bits
        )

    @cached_property
    def _fixed_bits(self) -> Counts:
        """Bits of each axis that a cell of each level fixes, shape (depth + 1, axes)."""
        fixed = np.zeros((self.depth + 1, len(self.axes)), dtype=np.int64)
        for level, axis in enumerate(self.turn, 1):
            fixed[level] = fixed[level - 1]
            fixed[level, axis] += 1
        return fixed

    @cached_property
    def _places(self) -> tuple[tuple[int, ...], ...]:
        """For each axis, the places of its bits in a path, lowest first."""
        places: list[list[int]] = [[] for _ in self.axes]
        for level, axis in enumerate(self.turn):
            places[axis].insert(0, self.depth - 1 - level)
        return tuple(map(tuple, places))

    @cached_property
    def _weave(self) -> tuple[Moves, ...]:
        return tuple(map(Moves.of, self._places))

    @cached_property
    def _unweave(self) -> tuple[Moves, ...]:
        every = range(self.depth)
        return tuple(
            Moves.of([p.index(place) if place in p else -1 for place in every])
            for p in self._places
        )

    def check_types(self, types: Mapping[str, str]) -> None:
        """Raise ColumnError if the DuckDB types of the columns cannot be read."""
        for axis in self.axes:
            named = (str(kind) for kind in types_of_columns(axis.columns, types))
            axis.check_types(tuple("ENUM" if k.startswith("ENUM") else k for k in named))

    def codes(self, batch: pa.Table | pa.RecordBatch) -> Codes:
        """Return the paths of the rows without missing values, in their order. Private.

        The result does not depend on how rows are split into batches.
        """
        out = np.zeros(batch.num_rows, dtype=np.uint64)
        valid: Mask | None = None
        for axis, moves, places in zip(self.axes, self._weave, self._places, strict=True):
            arrays = tuple(single_array(batch.column(name)) for name in axis.columns)
            codes, known = axis.read(arrays, len(places))
            if known is not None:
                valid = known if valid is None else valid & known
            if len(self.axes) == 1:
                out = codes
            elif places:
                moves.add(codes, out)
        return out if valid is None or valid.all() else out[valid]

    def rows(
        self, level: Counts, code: Codes, generator: PublicRandom, types: Mapping[str, pa.DataType]
    ) -> pa.Table:
        """Draw one row from every cell, uniformly, with the names and types of the source."""
        columns: dict[str, pa.Array] = {}
        for axis, (fixed, prefix) in zip(self.axes, self._cells(level, code), strict=True):
            kinds = types_of_columns(axis.columns, types)
            drawn = axis.draw(fixed, prefix, generator, kinds)
            columns.update(zip(axis.columns, drawn, strict=True))
        return pa.table(columns)

    def labels(self, level: Counts, code: Codes) -> pa.Array:
        """Return a label for every cell, ``*`` for level 0."""
        texts: list[list[str]] = []
        for axis, (fixed, prefix) in zip(self.axes, self._cells(level, code), strict=True):
            known: dict[tuple[int, int], str] = {}
            pairs = list(zip(fixed.tolist(), prefix.tolist(), strict=True))
            for pair in pairs:
                if pair not in known:
                    known[pair] = axis.label(*pair)
            texts.append([known[pair] for pair in pairs])
        joined = map(" / ".join, zip(*texts, strict=True))
        cells = zip(level.tolist(), joined, strict=True)
        return pa.array([text if n else ROOT for n, text in cells], type=pa.string())

    def _cells(self, level: Counts, code: Codes) -> list[tuple[Counts, Codes]]:
        """Return for each axis how many bits of its path each cell fixes, and these bits."""
        full = code.astype(np.uint64) << (self.depth - level).astype(np.uint64)
        out = []
        for axis, (moves, places) in enumerate(zip(self._unweave, self._places, strict=True)):
            fixed = self._fixed_bits[level, axis]
            path = np.zeros(len(full), dtype=np.uint64)
            moves.add(full, path)
            out.append((fixed, path >> (len(places) - fixed).astype(np.uint64)))
        return out


# -- Parse a domain from what people write: strings, hierarchies, or a dict of bounds -------------


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
