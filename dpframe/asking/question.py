"""A question: its declaration, and the steps that are its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from dpframe._forking import no_fork
from dpframe.asking.card import Line
from dpframe.asking.given import Given
from dpframe.asking.plan import Counted, Plan, Rollup
from dpframe.sources.counting import check_readable

A = TypeVar("A")
"""What is asked for: a plan, or what becomes one with the size of the data."""
P = TypeVar("P", bound=Plan[Any, Any])

OF_RELEASE = ("ledger", "release", "data", "progress")
"""Arguments of every question that say how a release is kept and shown."""

OF_WAREHOUSE = ("candidates", "plan")
"""Arguments of questions that another engine can count for."""


def _readable(plan: Any, source: object) -> None:
    check_readable(source, plan.hierarchy, plan.unit)


def _level_types(asked: Any, columns: list[tuple[str, str]]) -> tuple[str, ...]:
    with no_fork():
        from dpframe.sources.sql_tables import check_stored, level_types

    check_stored(asked.hierarchy, asked.unit, columns)
    return level_types(asked.hierarchy, columns)


def _as_it_is(asked: Any, *_: object) -> Any:
    return asked


@dataclass(frozen=True)
class Question(Generic[A, P]):
    """One question of the package. Its signature and docstring, ``ask``, are the declaration from
    which every door is made.

    Parameters
    ----------
    ask
        The public function: a source first, then what it is asked about, then keywords.
    planned
        What is asked for, from unchecked arguments. Sees no data.
    count
        The private step: true counts of a source for a plan; and whether to show progress.
    fitted
        What is asked for, with public facts of a source: types, partitions.
    opens
        The columns of a source that is opened once, to be sized and counted; None where counting
        alone opens it.
    sized
        The plan of that for a source, where it depends on the public size of the data.
    declared
        The plan of what is asked for without any source, to be explained.
    checked
        Raises ColumnError for a column that a source lacks or whose type a plan cannot read; by
        default for the columns of its hierarchy.
    former
        The request that an older version stored for the same call, if there is one.
    advice
        What else could be asked for, for an explanation.
    rollup
        The public function that writes the statement by which a warehouse counts, if there is one.
    rolled_up
        The plan, where a statement of SQL counts for it; None where a second connection does that
        while the statement runs.
    result_types
        What such a statement knows of its result before that: from the columns of a source, as
        pairs of name and type, the types of levels, or of rows by name. Raises ColumnError for a
        column that is not there or cannot be read.
    laws
        Arguments that choose a law, each of which may have the least error in a series of releases:
        the usual one first.
    columns
        The columns of a source that are read, where a statement of SQL can hand over the rows that
        no second connection sees; None where it cannot, for any plan or for this one.
    instead
        Where only some of the mechanisms need a second connection, which, and what needs none.
    """

    ask: Callable[..., Any]
    planned: Callable[[Given], A]
    count: Callable[[object, P, bool], Counted[Any]]
    fitted: Callable[[A, object], A] = _as_it_is
    opens: Callable[[A], Sequence[str]] | None = None
    sized: Callable[[A, object, bool], P] = _as_it_is
    declared: Callable[[A], P] = _as_it_is
    checked: Callable[[P, object], None] = _readable
    former: Callable[[A], Mapping[str, object] | None] = lambda _: None
    advice: Callable[[P], list[Line]] = lambda _: []
    rollup: str | None = None
    rolled_up: Callable[[A], Rollup | None] = _as_it_is
    result_types: Callable[[A, list[tuple[str, str]]], Any] = _level_types
    laws: Sequence[Mapping[str, object]] = ({},)
    columns: Callable[[A], Sequence[str] | None] | None = None
    instead: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return self.ask.__name__

    @property
    def about(self) -> str:
        """What it is asked about: a hierarchy, one column, or what rows can be."""
        return next(iter(self.planning))

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Of the declaration, in its order."""
        return inspect.signature(self.ask).parameters

    @cached_property
    def planning(self) -> Mapping[str, object]:
        """The arguments that a plan is made of, with their defaults: what the question is about
        first, which has none."""
        _, *rest = self.parameters.values()  # the source
        beside = (*OF_RELEASE, *OF_WAREHOUSE)
        return {
            p.name: None if p.default is p.empty else p.default
            for p in rest
            if p.name not in beside
        }

    @property
    def call(self) -> inspect.Signature:
        """The call that is explained: of no warehouse, and its source may be left out."""
        own = [p for p in self.parameters.values() if p.name not in OF_WAREHOUSE]
        return inspect.Signature(
            [p.replace(default=None) if p.default is p.empty else p for p in own]
        )

    def given(self, arguments: Mapping[str, object]) -> Given:
        """The planning arguments among ``arguments``, and defaults for what is not there."""
        return Given({name: arguments.get(name, value) for name, value in self.planning.items()})

    def plan(self, arguments: Mapping[str, object]) -> A:
        """What is asked for."""
        return self.planned(self.given(arguments))
