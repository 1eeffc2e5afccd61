"""A node of a release by its label, and everything that is shown below it."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from dpframe.errors import ParameterError
from dpframe.postprocess.shown_nodes import ShownNodes, shown_nodes

if TYPE_CHECKING:
    import pandas as pd

LISTED = 10
"""The most labels that an error message names."""


def subtree(frame: pd.DataFrame, receipt: Mapping[str, Any], label: object) -> pd.DataFrame:
    """``result.dp.below``; see :meth:`dpframe.doors.result_methods.ResultMethods.below`."""
    nodes = shown_nodes(frame, receipt, "below")
    top = _lineage_of_label(nodes, str(label))
    rows = [place for place, line in enumerate(nodes.lineages) if line[: len(top)] == top]
    return frame.iloc[rows]


def _lineage_of_label(nodes: ShownNodes, label: str) -> tuple[Hashable, ...]:
    """The lineage of the one node with this label: a prefix, else a value of a level's column.
    ParameterError if there is none, or more than one."""
    by_prefix: dict[tuple[Hashable, ...], str] = {}
    by_label: dict[tuple[Hashable, ...], str] = {}
    labels: dict[str, None] = {}
    for line, prefix in zip(nodes.lineages, nodes.nodes["prefix"].astype(str), strict=True):
        labels[prefix] = None
        if prefix == label:
            by_prefix[line] = prefix
        if not nodes.hierarchy.label_columns:
            continue
        for depth, node in enumerate(line, 1):  # a node that is not shown has a label below it
            assert isinstance(node, tuple)
            labels[node[-1]] = None
            if node[-1] == label:
                by_label[line[:depth]] = " / ".join(node)
    found = by_prefix or by_label
    if not found:
        near = difflib.get_close_matches(label, labels, n=1, cutoff=0.6)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(
            f"below ({label!r}) is no label that this frame shows.{hint} Pass a prefix, or a value "
            "of a column of a level."
        )
    if len(found) > 1:
        texts = list(dict.fromkeys(found.values()))
        more = f" and {len(texts) - LISTED} more" if len(texts) > LISTED else ""
        raise ParameterError(
            f"below ({label!r}) is the label of {len(found)} nodes. Pass the prefix of one of "
            f"them: {', '.join(map(repr, texts[:LISTED]))}{more}."
        )
    return next(iter(found))
