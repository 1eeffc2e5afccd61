"""Which reported node lies under which, and how much room each gets in a drawing; from public data
alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.hierarchy import INVALID, OTHER, Hierarchy
from dpframe.hierarchy._columns import Columns
from dpframe.hierarchy._path import Path

if TYPE_CHECKING:
    import pandas as pd


def nearest_reported(frame: pd.DataFrame, hierarchy: Hierarchy) -> NDArray[np.int64]:
    """The nearest reported ancestor of every row.

    ``frame`` has some or all rows of a release, in any order. The result has the position of the
    ancestor's row, -1 where none is reported. ParameterError if a row is no node of this hierarchy,
    or a column is missing.

    A value that is literally ``<invalid>`` reads like a missing one, and one that is literally
    ``<other>`` like what no other row covers. Of two rows that read alike the first is taken, which
    in the order of a release is the literal one.
    """
    return nearest_ancestors(lineages(frame, hierarchy))


def nearest_ancestors(rows: Sequence[tuple[Hashable, ...]]) -> NDArray[np.int64]:
    """The nearest reported ancestor of every row, as :func:`nearest_reported` finds it, from the
    lineages of the rows."""
    places: dict[tuple[int, Hashable], int] = {}
    for place, lineage in enumerate(rows):
        places.setdefault((len(lineage), lineage[-1] if lineage else None), place)
    root = places.get((0, None), -1)
    found = np.full(len(rows), root, dtype=np.int64)
    for place, lineage in enumerate(rows):
        if not lineage:
            found[place] = -1
        for level in range(len(lineage) - 1, 0, -1):
            above = places.get((level, lineage[level - 1]))
            if above is not None:
                found[place] = above
                break
    return found


def areas(
    frame: pd.DataFrame, ancestor: NDArray[np.int64], column: str | None = "count"
) -> NDArray[Any]:
    """Room for every row in a drawing where children lie inside their parent.

    A noisy count can be negative, and children can sum up to more than their parent. The area
    of a node is its count or what its children take, whichever is more, and never below 0.

    ``ancestor`` is from :func:`nearest_reported`. ``column`` has the numbers that areas stand for;
    None gives 1 to every node that has no reported node below.
    """
    from pandas.api import types  # loads pandas, which would load what imports this

    level = frame["level"].to_numpy(dtype=np.int64)
    area: NDArray[Any]
    if column is None:
        area = np.ones(len(frame), dtype=np.int64)
        area[ancestor[ancestor >= 0]] = 0
    else:
        kind = np.float64 if types.is_float_dtype(frame[column].dtype) else np.int64
        area = np.maximum(frame[column].to_numpy(dtype=kind), 0)
    inside = np.zeros_like(area)
    for depth in range(int(level.max(initial=0)), -1, -1):
        here = np.flatnonzero(level == depth)
        area[here] = np.maximum(area[here], inside[here])
        below = here[ancestor[here] >= 0]
        np.add.at(inside, ancestor[below], area[below])
    return area


def label_joint(hierarchy: Hierarchy) -> str:
    """What joins the label of a node to the rest of its children's labels; empty if nothing does.

    Only paths and columns repeat the label of the parent in front.
    """
    if isinstance(hierarchy, Path):
        return hierarchy.separator
    return " / " if isinstance(hierarchy, Columns) else ""


def _lineage_of_row(
    hierarchy: Hierarchy, level: int, shown: tuple[str, ...]
) -> tuple[Hashable, ...]:
    """The lineage of a row by the rules of the hierarchy; an ``<other>`` row lies under the node
    whose label it carries."""
    label, tail = shown[-1], f"{label_joint(hierarchy) or ' '}{OTHER}"
    if hierarchy.label_columns or hierarchy.kind == "code":  # the same for rows and for values
        return hierarchy.lineage(level, shown)
    if label == OTHER and level == 1:
        return (OTHER,)
    if level == 1 or not label.endswith(tail):
        return hierarchy.lineage(level, shown)
    return (*hierarchy.lineage(level - 1, (label.removesuffix(tail),)), label)


def _level_texts(frame: pd.DataFrame, depth: int, name: str) -> pd.Series:
    """A level column as text; where its type has no ``<invalid>`` and no ``<other>``, the label of
    the row tells them apart."""
    column = frame[name]
    texts = column.astype(object).where(column.notna(), INVALID).map(str)
    if "prefix" in frame.columns:
        other = (
            column.isna()
            & (frame["level"] == depth)
            & frame["prefix"].astype("str").str.endswith(OTHER)
        )
        texts = texts.where(~other, OTHER)
    return texts


def lineages(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[tuple[Hashable, ...]]:
    """The lineage of every row: the nodes above it and its own node, coarse to fine.

    Arguments and errors are those of :func:`nearest_reported`; the lineage of the root is empty.
    """
    names = hierarchy.label_columns or ("prefix",)
    missing = [name for name in ("level", *names) if name not in frame.columns]
    if missing:
        raise ParameterError(
            f"the frame has no column {missing[0]!r}. Pass it as dpframe returned it."
        )
    texts = [_level_texts(frame, depth, name) for depth, name in enumerate(names, 1)]
    levels = frame["level"].to_numpy(dtype=np.int64).tolist()
    out = []
    for row, (level, *shown) in enumerate(zip(levels, *texts, strict=True)):
        own = tuple(shown[:level] if hierarchy.label_columns else shown)
        lineage: tuple[Hashable, ...] = ()
        if 1 <= level <= hierarchy.height:
            with suppress(ValueError, OverflowError):
                lineage = _lineage_of_row(hierarchy, level, own)
        if len(lineage) != level:
            raise ParameterError(
                f"row {row} of the frame is no node of {hierarchy.spec!r}. Pass the frame as "
                "dpframe returned it, with its own receipt."
            )
        out.append(lineage)
    return out
