"""A question: its declaration, and the steps in which it differs from other questions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from dpframe.asking.call_arguments import CallArguments, Constraint
from dpframe.asking.card import Line
from dpframe.asking.plan_protocols import MechanismInput, Plan, Rollup
from dpframe.sources.exact_trees import check_readable

A = TypeVar("A")
"""What is asked for: a plan, or what becomes a plan when the size of the data is known."""
P = TypeVar("P", bound=Plan[Any, Any])

RELEASE_ARGUMENTS = ("ledger", "release", "data", "progress")
"""Arguments of every question that say how a release is kept and shown."""

WAREHOUSE_ARGUMENTS = ("candidates", "plan")
"""Arguments of questions that another engine can count for."""


def _check_source_readable(plan: Any, source: object) -> None:
    check_readable(source, plan.hierarchy, plan.unit)


def _stored_level_types(asked: Any, columns: list[tuple[str, str]]) -> tuple[str, ...]:
    from dpframe.sources.sql_tables import check_stored, level_types

    check_stored(asked.hierarchy, asked.unit, columns)
    return level_types(asked.hierarchy, columns)


def _first_argument(asked: Any, *_: object) -> Any:
    return asked


@dataclass(frozen=True)
class Question(Generic[A, P]):
    """One question of the package.

    The signature and docstring of ``ask`` are the declaration from which every door is made.

    Parameters
    ----------
    ask
        The public function: a source first, then what it is asked about, then keywords.
    planned
        Returns what is asked for, from arguments that are checked one by one. Sees no data.
    count
        The private step: true counts of a source for a plan. The flag is whether to show progress.
    constraints
        Checks of single arguments, by name, beside ``COMMON``.
    fitted
        Adds public facts of a source to what is asked for: types, partitions.
    opens
        The columns of a source that is opened once, to be sized and counted; None if only
        counting opens it.
    sized
        Returns the plan for a source, if the plan depends on the public size of the data.
    declared
        Returns the plan to explain when there is no source.
    checked
        Raises ColumnError for a column that a source lacks or whose type a plan cannot read; by
        default for the columns of its hierarchy.
    former
        The request that an older version stored for the same call, if there is one.
    advice
        Returns lines of an explanation on what else could be asked for.
    rollup
        The public function that writes the statement by which a warehouse counts, if there is one.
    rolled_up
        Returns the plan if a statement of SQL counts for it; None if a second connection counts
        while the statement runs.
    result_types
        Returns what such a statement knows of its result before it runs: the types of levels, or
        of rows by name. Takes the columns of a source as pairs of name and type. Raises
        ColumnError for a column that is not there or cannot be read.
    laws
        Arguments that choose a law, the usual law first. Each may have the least error in a series
        of releases.
    columns
        Returns the columns that are read, if a statement of SQL can hand over rows that no second
        connection sees. None, or a function that returns None, where it cannot.
    instead
        If only some mechanisms need a second connection: words for these, and words for what to use
        instead.
    """

    ask: Callable[..., Any]
    planned: Callable[[CallArguments], A]
    count: Callable[[object, P, bool], MechanismInput[Any]]
    constraints: Mapping[str, Constraint] | None = None
    fitted: Callable[[A, object], A] = _first_argument
    opens: Callable[[A], Sequence[str]] | None = None
    sized: Callable[[A, object, bool], P] = _first_argument
    declared: Callable[[A], P] = _first_argument
    checked: Callable[[P, object], None] = _check_source_readable
    former: Callable[[A], Mapping[str, object] | None] = lambda _: None
    advice: Callable[[P], list[Line]] = lambda _: []
    rollup: str | None = None
    rolled_up: Callable[[A], Rollup | None] = _first_argument
    result_types: Callable[[A, list[tuple[str, str]]], Any] = _stored_level_types
    laws: Sequence[Mapping[str, object]] = ({},)
    columns: Callable[[A], Sequence[str] | None] | None = None
    instead: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return self.ask.__name__

    @property
    def subject(self) -> str:
        """The argument that the question is about: a hierarchy, a column, or what rows can be."""
        return next(iter(self.plan_arguments))

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the declaration, in its order."""
        return inspect.signature(self.ask).parameters

    @cached_property
    def plan_arguments(self) -> Mapping[str, object]:
        """The arguments that a plan is made of, with their defaults.

        The first one is what the question is about, and has no default.
        """
        _, *rest = self.parameters.values()  # without the source
        beside = (*RELEASE_ARGUMENTS, *WAREHOUSE_ARGUMENTS)
        return {
            p.name: None if p.default is p.empty else p.default
            for p in rest
            if p.name not in beside
        }

    @property
    def call(self) -> inspect.Signature:
        """The signature to explain: without a warehouse's arguments; the source may be left out."""
        own = [p for p in self.parameters.values() if p.name not in WAREHOUSE_ARGUMENTS]
        return inspect.Signature(
            [p.replace(default=None) if p.default is p.empty else p for p in own]
        )

    def call_arguments(self, arguments: Mapping[str, object]) -> CallArguments:
        """Return the planning arguments among ``arguments``, and defaults for missing ones; each
        is checked by itself."""
        return CallArguments(
            {name: arguments.get(name, value) for name, value in self.plan_arguments.items()},
            self.constraints,
        )

    def plan(self, arguments: Mapping[str, object]) -> A:
        """Return what the arguments ask for."""
        return self.planned(self.call_arguments(arguments))
