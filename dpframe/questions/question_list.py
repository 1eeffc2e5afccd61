"""The list of questions, and the functions that ask them. ``dpframe`` exports these functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.common.calls import load_name

READ = TYPE_CHECKING
"""For imports that only mypy reads. mypy orders modules by their imports, except the imports under
``if TYPE_CHECKING``, and has to know a function before a method is made of that function."""

ROOMS = {
    "dpframe.questions.hhh.ask": ("HHH", "hhh", "explain"),
    "dpframe.questions.rollup.ask": ("ROLLUP", "rollup", "explain_rollup"),
    "dpframe.questions.tree_counts.ask": ("TREE_COUNTS", "tree_counts", "explain_tree_counts"),
    "dpframe.questions.hhh.heavy_hitters": (
        "HEAVY_HITTERS",
        "heavy_hitters",
        "explain_heavy_hitters",
    ),
    "dpframe.questions.synthesize.ask": ("SYNTHESIZE", "synthesize", "explain_synthesize"),
    "dpframe.questions.prefix_tree.ask": ("PREFIX_TREE", "prefix_tree", "explain_prefix_tree"),
}
"""For each module that declares a question: the declaration, the function that asks the question,
and the function that explains it. A module is loaded when its question is first asked."""

HOMES = {name: home for home, (_, *functions) in ROOMS.items() for name in functions}
"""For each function that asks or explains: the name of its module."""

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

if not TYPE_CHECKING:  # else a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name == "QUESTIONS":
            value = tuple(load_name(home, names[0]) for home, names in ROOMS.items())
        elif name in HOMES:
            value = load_name(HOMES[name], name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


if READ:
    from dpframe.asking.question import Question
    from dpframe.questions.hhh.ask import explain, hhh
    from dpframe.questions.hhh.heavy_hitters import (
        explain_heavy_hitters,
        heavy_hitters,
    )
    from dpframe.questions.prefix_tree.ask import (
        explain_prefix_tree,
        prefix_tree,
    )
    from dpframe.questions.rollup.ask import explain_rollup, rollup
    from dpframe.questions.synthesize.ask import (
        explain_synthesize,
        synthesize,
    )
    from dpframe.questions.tree_counts.ask import (
        explain_tree_counts,
        tree_counts,
    )

    QUESTIONS: tuple[Question[Any, Any], ...]
