"""The questions, one room each, with the same file names in each."""

from __future__ import annotations

from typing import Any

from dpframe.asking.question import Question
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.hhh.heavy_hitters import HEAVY_HITTERS
from dpframe.questions.prefix_tree.ask import PREFIX_TREE
from dpframe.questions.synthesize.ask import SYNTHESIZE
from dpframe.questions.tree_counts.ask import TREE_COUNTS

QUESTIONS: tuple[Question[Any, Any], ...] = (
    HHH,
    TREE_COUNTS,
    HEAVY_HITTERS,
    SYNTHESIZE,
    PREFIX_TREE,
)
