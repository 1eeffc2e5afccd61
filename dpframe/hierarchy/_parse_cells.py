"""Parse several hierarchies at once: products, cubes, grouping sets, and one hierarchy inside of
another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from urllib.parse import unquote

from dpframe._known_arguments import known_arguments
from dpframe.errors import HierarchyError, ParameterTypeError, class_name
from dpframe.hierarchy._base import MAX_HEIGHT, Hierarchy, Kind
from dpframe.hierarchy._cells import (
    BETWEEN,
    SETS,
    UNDER,
    Cells,
    is_one_dimension,
    nested_kinds,
    product_kinds,
    too_many_kinds,
)
from dpframe.hierarchy._columns import Columns
from dpframe.hierarchy._parse import as_hierarchy, is_one_hierarchy, split_hierarchies


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
