"""The list of questions, and the functions by which they are asked. ``dpframe`` exports these."""

from __future__ import annotations

from typing import Any

from dpframe.asking.question import Question
from dpframe.questions.hhh.ask import HHH, explain, hhh
from dpframe.questions.hhh.heavy_hitters import (
    HEAVY_HITTERS,
    explain_heavy_hitters,
    heavy_hitters,
)
from dpframe.questions.prefix_tree.ask import PREFIX_TREE, explain_prefix_tree, prefix_tree
from dpframe.questions.rollup.ask import ROLLUP, explain_rollup, rollup
from dpframe.questions.synthesize.ask import SYNTHESIZE, explain_synthesize, synthesize
from dpframe.questions.tree_counts.ask import TREE_COUNTS, explain_tree_counts, tree_counts

QUESTIONS: tuple[Question[Any, Any], ...] = (
    HHH,
    ROLLUP,
    TREE_COUNTS,
    HEAVY_HITTERS,
    SYNTHESIZE,
    PREFIX_TREE,
)

__all__ = [
    "explain",
    "explain_heavy_hitters",
    "explain_prefix_tree",
    "explain_rollup",
    "explain_synthesize",
    "explain_tree_counts",
    "heavy_hitters",
    "hhh",
    "prefix_tree",
    "rollup",
    "synthesize",
    "tree_counts",
]
