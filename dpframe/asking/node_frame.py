"""Released nodes, cells or trees as a frame: labels, numbers, intervals, always in one order; and
notices on what a frame shows of measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.asking.card import Line, Text
from dpframe.budget import PrivacyUnit
from dpframe.counts import Ints, NoisyNodes, NoisyTree, coded_values, different_values
from dpframe.hierarchy import OTHER, ROOT, Hierarchy
from dpframe.hierarchy._cells import BETWEEN
from dpframe.measures.bins import spoken_value
from dpframe.measures.measure import Measure
from dpframe.postprocess.consistency import consistent_tree, tree_in_records
from dpframe.postprocess.level_values import level_column, natural_order, text_column
from dpframe.postprocess.shown_nodes import label_joint, released_numbers


class NodeFramePlan(Protocol):
    """What a frame of nodes needs to know of a plan."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def grid(self) -> int: ...

    @property
    def unit(self) -> PrivacyUnit: ...

    def half_width(self, terms: int) -> int:
        """Half width of the interval for a count with ``terms`` draws of noise, in units."""


def tidy(
    noisy: NoisyNodes, plan: NodeFramePlan, types: Sequence[str] = (), whole_half: int = 0
) -> pd.DataFrame:
    """Return a frame with the columns level, prefix, the label columns of the hierarchy (if it has
    any), residual, count, lower and upper, with rows in natural order. The numbers are int64;
    float64 if the unit is a measure.

    Cells have the columns of ``node_columns``, then residual, lower and upper, and, with whole
    counts, count, count_lower and count_upper; ``whole_half`` is the half width of their intervals.
    Cells of rounds, which do not add up, have count behind residual.
    ``types`` are the DuckDB types of the levels' columns, if they are known.
    """
    order, columns = node_columns(plan.hierarchy, noisy.level, noisy.keys, types)
    lower, upper = noisy.bounds or _noise_intervals(noisy, plan)
    numbers = {"residual": noisy.residual, "count": noisy.count, "lower": lower, "upper": upper}
    if plan.hierarchy.has_cells and noisy.bounds is None:  # a cell's count would be its residual
        del numbers["count"]
    if (whole := noisy.whole) is not None:
        ends = {"count_lower": whole - whole_half, "count_upper": whole + whole_half}
        numbers |= {"count": whole, **ends}
    for name, values in numbers.items():
        units = values[order]
        if plan.unit.measured:
            columns[name] = units * (plan.unit.worth / plan.grid)
        elif name.endswith("lower"):
            columns[name] = units // plan.grid
        elif name.endswith("upper"):
            columns[name] = -(-units // plan.grid)
        else:  # to whole counts, halves up
            columns[name] = (2 * units + plan.grid) // (2 * plan.grid)
    return pd.DataFrame(columns)


def node_columns(
    hierarchy: Hierarchy, level: Ints, keys: Sequence[pa.ChunkedArray], types: Sequence[str] = ()
) -> tuple[Ints, dict[str, object]]:
    """Return the order of nodes or cells and their sorted columns.

    Columns of nodes: level, prefix and the label columns. Columns of cells: level, prefix, then for
    every dimension its label (``*`` where it is rolled up) and its level. ``level`` numbers the
    kinds of cells: the kind asked last is 1, and the kind asked first, the finest, has the largest
    number; 0 is the total. Cells are sorted by level, then by the values of one dimension after the
    other.
    """
    if hierarchy.has_cells:
        return _cell_columns(hierarchy, level, tuple(pc.cast(key, pa.string()) for key in keys))
    texts = tuple(map(_coded_texts, keys))
    labels = hierarchy.labels(level, texts)
    order = natural_order(hierarchy, level, labels, texts, types)
    no_rest = np.zeros(len(level), dtype=np.bool_)
    columns: dict[str, object] = {"level": level[order], "prefix": text_column(labels.take(order))}
    for depth, name in enumerate(hierarchy.label_columns, 1):
        kind = types[depth - 1] if types else ""
        key = texts[depth - 1].take(order)
        columns[name] = level_column(key, level[order], depth, kind, no_rest)
    return order, columns


def _coded_texts(key: pa.ChunkedArray) -> pa.DictionaryArray:
    """A key as text, each different one written once."""
    different, place = different_values(key)
    return coded_values(different.cast(pa.string()), place)


def _cell_columns(
    cells: Hierarchy, level: Ints, keys: Sequence[pa.ChunkedArray]
) -> tuple[Ints, dict[str, object]]:
    kinds = np.array([*cells.kind_order, (0,) * len(cells.dimensions)], dtype=np.int64)
    depth = kinds[len(kinds) - 1 - level]
    found = [
        _node_label_ranks(one, depth[:, i], own)
        for i, (one, own) in enumerate(zip(cells.dimensions, cells.by_keys(keys), strict=True))
    ]
    order = np.lexsort([*(rank for _, rank in reversed(found)), level])
    parts = [
        pc.if_else(pa.array(depth[:, i] > 0), label, None) for i, (label, _) in enumerate(found)
    ]
    parts[0] = pc.if_else(pa.array(level > 0), parts[0], ROOT)  # Arrow drops rows without any part
    prefix = pc.binary_join_element_wise(*parts, BETWEEN, null_handling="skip")
    shown: dict[str, object] = {"level": level[order], "prefix": text_column(prefix.take(order))}
    for i, (name, (label, _)) in enumerate(zip(cells.names, found, strict=True)):
        shown[name] = text_column(label.take(order))
        shown[f"{name}_level"] = depth[order, i]
    return order, shown


def _node_label_ranks(
    one: Hierarchy, depth: Ints, keys: Sequence[pa.ChunkedArray]
) -> tuple[pa.Array, Ints]:
    """Return the labels of a dimension's nodes, and their ranks.

    Each different node is named and sorted once, however many cells it is in; equal nodes have
    equal ranks.
    """
    node = depth
    for key in keys:
        coded = key.combine_chunks().dictionary_encode("encode").indices.to_numpy()
        _, node = np.unique(node * (len(depth) + 1) + coded, return_inverse=True)
    _, once, node = np.unique(node, return_index=True, return_inverse=True)
    own, level = tuple(key.take(once) for key in keys), depth[once]
    labels = one.labels(level, own)
    rank = np.empty(len(once), dtype=np.int64)
    rank[natural_order(one, level, labels, own)] = np.arange(len(once))
    return labels.take(node), rank[node]


def _noise_intervals(noisy: NoisyNodes, plan: NodeFramePlan) -> tuple[Ints, Ints]:
    """Return lower and upper ends of intervals of counts, in units; they cover the noise alone."""
    different, where = np.unique(noisy.terms, return_inverse=True)
    half = np.array([plan.half_width(int(k)) for k in different], dtype=np.int64)[where]
    return noisy.count - half, noisy.count + half


def counts_frame(
    noisy: NoisyTree,
    hierarchy: Hierarchy,
    types: Sequence[str],
    *,
    grid: int,
    consistent: bool,
    adds_up: bool,
) -> pd.DataFrame:
    """Columns level, prefix, (one a level,) residual, count, lower, upper; in natural order.

    ``residual`` is what no row below covers: the count of a node minus the counts of its children
    in the frame. Residuals add up to the total. Where counts do not add up, the residual is the
    count. The label of an ``<other>`` row is the label of its parent, followed by ``<other>``.
    """
    tree = consistent_tree(noisy, grid) if consistent else tree_in_records(noisy, grid)
    residual = tree.count.copy()
    if adds_up:
        np.subtract.at(residual, tree.parent[1:], tree.count[1:])
    keys = tuple(map(_coded_texts, tree.keys))
    labels = _tree_labels(tree, hierarchy, keys)
    order = natural_order(hierarchy, tree.level, labels, keys, types, tree.other)
    level, other = tree.level[order], tree.other[order]
    columns: dict[str, object] = {"level": level, "prefix": text_column(labels.take(order))}
    for depth, name in enumerate(hierarchy.label_columns, 1):
        kind = types[depth - 1] if types else ""
        columns[name] = level_column(keys[depth - 1].take(order), level, depth, kind, other)
    columns["residual"] = residual[order]
    columns["count"] = tree.count[order]
    columns["lower"], columns["upper"] = tree.lower[order], tree.upper[order]
    return pd.DataFrame(columns)


def _tree_labels(tree: NoisyTree, hierarchy: Hierarchy, keys: tuple[pa.Array, ...]) -> pa.Array:
    """The labels of nodes. For an ``<other>`` node: its parent's label, followed by ``<other>``."""
    own: NDArray[np.int64] = tree.level - tree.other
    labels = hierarchy.labels(own, keys)
    between = label_joint(hierarchy) or " "
    under_root = pa.array(tree.other & (own == 0))
    below = pc.binary_join_element_wise(labels, OTHER, between)
    named = pc.if_else(pa.array(tree.other), below, labels)
    out = pc.if_else(under_root, OTHER, named)
    return out.combine_chunks() if isinstance(out, pa.ChunkedArray) else out


# -- notices on measures in a frame ----------------------------------------------------------------


def cut_values_notices(
    total: pd.DataFrame, name: str, measure: Measure, rows: tuple[float, float] | None
) -> list[Line]:
    """A notice if most values are beyond the bounds; ``rows`` is the interval of the number of
    records, or users."""
    if not measure.clipped or rows is None or rows[0] <= 0:
        return []
    if 2 * float(total[f"{name}_clipped_lower"].iloc[0]) <= rows[1]:
        return []
    return [
        Line.of(
            "notice",
            Text("values of {name} are mostly cut"),
            (
                "more than half of them lie beyond the bounds, so that it is far off, and no "
                "interval says how far: choose wider bounds, or 'auto'"
            ),
            name=name,
        )
    ]


def unknown_quantiles_notices(
    frame: pd.DataFrame,
    measures: Mapping[str, Measure],
    fewest: Mapping[str, int],
    names: Sequence[str] = (),
) -> list[Line]:
    """A notice on nodes without quantiles, because they have too few values, of the measure that
    has the most of them. ``fewest`` has how many values a node needs, by measure; ``names`` are of
    levels."""
    wanted = {name: m for name, m in measures.items() if m.at}
    missing = {
        name: frame[[f"{name}{end}" for end in m.quantile_ends]].isna().all(axis=1).to_numpy()
        for name, m in wanted.items()
    }
    name = max(missing, key=lambda one: int(missing[one].sum()), default="")
    if not name or not missing[name].any():
        return []
    level = frame["level"].to_numpy()
    counts = {
        names[at - 1]: (np.count_nonzero((level == at) & ~missing[name]), (level == at).sum())
        for at in np.unique(level[level > 0]).tolist()
        if names
    }
    known = [f"{some:,} of {all_:,} nodes of {what}" for what, (some, all_) in counts.items()]
    return [
        Line.of(
            "notice",
            Text("{name} is unknown at {unknown:,} of {nodes:,} nodes"),
            "they have too few values: about {fewest:,} are needed at this epsilon, half as many "
            "at twice of it{known}{more}",
            name=name,
            unknown=int(missing[name].sum()),
            nodes=len(frame),
            fewest=fewest[name],
            known=f"; known are {', '.join(known)}" if len(known) > 1 else "",
            more="; other quantiles are unknown at no more nodes" if len(missing) > 1 else "",
        )
    ]


def beyond_bounds_notices(total: pd.DataFrame, name: str, measure: Measure) -> list[Line]:
    """A notice on quantiles of everything that may lie beyond a bound."""
    if not measure.at or not isinstance(measure.lower, float):
        return []
    limits, sides = (measure.lower, float(measure.upper or 0)), dict[str, str]()
    for end in measure.quantile_ends:
        columns = [f"{name}{end}{one}" for one in ("", "_lower", "_upper")]
        ((value, lower, upper),) = released_numbers(total, columns, limits)
        if value is not None and upper is None:
            sides["a higher upper"] = columns[0]
        if value is not None and lower is None:
            sides["a lower lower"] = columns[0]
    return [
        Line.of(
            "notice",
            Text("{quantile} may lie beyond a bound"),
            "its interval for everything reaches beyond {bound}: choose {side} bound",
            quantile=quantile,
            bound=spoken_value(limits["higher" in side], measure.value),
            side=side,
        )
        for side, quantile in sides.items()
    ]
