"""A question: its declaration, and how it is explained before anything is spent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from dpframe.asking.call_arguments import CallArguments, Constraint, flag, release_name
from dpframe.asking.card import Line, card_summary, card_text, html_card, no_user_lines
from dpframe.asking.level_plan import UNKNOWN, MechanismInput, Plan, Rollup, proof_text
from dpframe.asking.privacy_receipt import (
    fact_as_attribute,
    missing_key_message,
    not_shown_lines,
    with_not_shown,
)
from dpframe.asking.release import ALL_DATA, DataScope, require_ledger
from dpframe.common.calls import bind_arguments, lacks_message, shorten_errors
from dpframe.common.progress import step
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.ledger import chosen_ledger
from dpframe.sources.exact_trees import check_readable
from dpframe.sources.frames import without_rows
from dpframe.sources.source_relations import period_reading

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.ledger import Ledger

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
    by_shares
        Returns the plan whose numbers add up, with a reason on its card, where ``planned`` took
        another way for a call that named none; other plans as they are.
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
    by_shares: Callable[[A, str], A] = _first_argument
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


ExplainedPlan = TypeVar("ExplainedPlan", bound=Plan[Any, Any], covariant=True)


@dataclass(frozen=True, eq=False)
class Explanation(Mapping[str, Any], Generic[ExplainedPlan]):
    """A plan for people: prints as a card, ``to_frame()`` gives its rows.

    A mapping from the names of its lines to their values, too, with ``epsilon`` and ``delta``:
    ``explained["standard error"]``, or as an attribute, ``explained.standard_error``.
    """

    plan: ExplainedPlan
    solved: Line | None = None
    """The epsilon that was found for an error."""
    about: DataScope = ALL_DATA
    """What the call says of its data, such as their period."""
    afforded: tuple[Line, ...] = ()
    """Lines on what the release would find in the ledger, if one is given or in use."""

    advice: tuple[Line, ...] = ()
    """Lines on other mechanisms that could be asked for."""

    @property
    def lines(self) -> list[Line]:
        """What is known before the data are read, what the release would find in the ledger, and
        what another mechanism would give."""
        found = [] if self.solved is None else [self.solved]
        sight = self.plan.sight
        unseen = [] if sight is None else not_shown_lines(sight.facts({}, None))
        unseen += no_user_lines(self.plan.unit.user)
        lines = with_not_shown(self.about.on(self.plan.lines(), self.plan.unit.user), unseen)
        return [*found, *lines, *self.afforded, *self.advice]

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """The value of every line by its name; the first line of a name counts."""
        budget = self.plan.budget
        values = {line.name: line.content for line in reversed(self.lines)}
        ordered = {line.name: values[line.name] for line in self.lines}
        return {"epsilon": budget.epsilon, "delta": budget.delta} | ordered

    def __getitem__(self, key: str) -> Any:
        try:
            return self._facts[key]
        except KeyError:
            raise KeyError(missing_key_message("the explanation", key, self._facts)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            named = {key.replace(" ", "_"): key for key in self._facts}
            return fact_as_attribute(
                {name: self._facts[key] for name, key in named.items()}, "the explanation", name
            )

    def __dir__(self) -> list[str]:
        named = (key.replace(" ", "_") for key in self._facts)
        return sorted({*super().__dir__(), *filter(str.isidentifier, named)})

    def proof(self) -> str:
        """The proof of a release of this plan, as text: what :func:`dpframe.verify` checks.

        JSON (docs/verifying.md): the promise, the game that the mechanism is, and the tables that
        it draws from. Nothing is spent. ParameterError if this mechanism has no proof yet.
        """
        text = proof_text(self.plan)
        if text is None:
            raise ParameterError(f"{UNKNOWN}. dp.verify answers 'not verified' for them.")
        return text

    def to_frame(self) -> pd.DataFrame:
        """Columns ``quantity``, ``value`` and ``meaning``, all text."""
        import pandas as pd

        rows = self.lines
        return pd.DataFrame(
            {
                "quantity": [q.name for q in rows],
                "value": [q.value_text for q in rows],
                "meaning": [q.meaning_text for q in rows],
            }
        )

    def __str__(self) -> str:
        return card_text("Plan (nothing spent)", self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = self.lines
        return html_card("Plan (nothing spent)", lines, card_summary(lines))


CallParams = ParamSpec("CallParams")


DOC = """What :func:`{asked}` with these arguments would do: noise, thresholds, error.

Takes the call of :func:`{asked}`. Where that has a source, names and types of the columns are
checked; it may be left out. Spends nothing and reads no data. With a ledger, given or in use, it
says what the release would find there, in the blocks of its period, and whether it fits.

With ``error`` in the place of ``epsilon`` it finds the smallest epsilon, to three digits, at which
intervals are at most so wide to each side: a number, or numbers by the name of a measure, for what
one node has of its own.

Returns
-------
Explanation
    Prints as a card; ``to_frame()`` has the columns quantity, value and meaning, ``plan`` is the
    plan.

Examples
--------
{example}
"""


if TYPE_CHECKING:  # typing would keep every module alive until the interpreter is gone

    class Explains(Protocol[CallParams]):
        """A function that takes the call of a question, with its source or without."""

        __name__: str

        @overload
        def __call__(
            self, source: object, /, *args: CallParams.args, **arguments: CallParams.kwargs
        ) -> Explanation[Any]: ...

        @overload
        def __call__(
            self, *args: CallParams.args, **arguments: CallParams.kwargs
        ) -> Explanation[Any]: ...

        @overload  # nothing can be added to a ParamSpec
        def __call__(
            self, *args: Any, error: float | Mapping[str, float], **arguments: Any
        ) -> Explanation[Any]: ...

    class ExplainsFrame(Protocol[CallParams]):
        """An ``Explains`` that is a method of a frame, which is the source."""

        @overload
        def __call__(
            self, *args: CallParams.args, **arguments: CallParams.kwargs
        ) -> Explanation[Any]: ...

        @overload
        def __call__(
            self, *args: Any, error: float | Mapping[str, float], **arguments: Any
        ) -> Explanation[Any]: ...


def make_explain(
    name: str,
    question: Question[Any, Any],
    ask: Callable[Concatenate[Any, CallParams], object],
    example: str,
) -> Explains[CallParams]:
    """Make ``dp.explain`` or another explaining function from the declaration of a question."""
    source, about, *_ = question.parameters
    placed = [
        p.name
        for p in question.parameters.values()
        if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != source
    ]
    signature = _signature_with_error(question.call)

    @shorten_errors
    def explain(*args: object, **given: object) -> Explanation[Any]:
        first = list(args)
        if about not in given and len(first) + sum(n in given for n in placed) == len(placed):
            first.insert(0, given.pop(source, None))  # the source comes by name, or is left out
        elif not first:
            given.setdefault(source, None)
        arguments = bind_arguments(explain, signature, first, given)
        if about not in arguments and question.parameters[about].default is inspect.Parameter.empty:
            raise ParameterTypeError(lacks_message(name, [about], [explain.__doc__]))
        kept = _checked_ledger_name(arguments)
        with step("planning the noise", arguments.get("progress") is not False):
            return explained(arguments, *kept)

    def explained(arguments: dict[str, Any], *kept: Any) -> Explanation[Any]:
        asked, found = plan_within_error(question, arguments, arguments.pop("error", None))
        plan = question.declared(asked)
        if arguments.get(source) is not None:
            question.checked(plan, without_rows(arguments[source]))
        about_it = _explained_scope(arguments, arguments.get(source))
        return explain_plan(question, plan, found, about_it, *kept)

    explain.__name__ = explain.__qualname__ = name
    explain.__module__ = question.ask.__module__
    explain.__doc__ = DOC.format(asked=question.name, example=example)
    explain.__signature__ = signature  # type: ignore[attr-defined]
    return explain


def explain_plan(
    question: Question[Any, Any],
    plan: Any,
    found: Line | None,
    about: DataScope,
    ledger: Ledger | None,
    name: str | None = None,
) -> Explanation[Any]:
    """Return a plan for people, with what its release would find in the ledger; ``found`` is the
    line of ``plan_within_error``."""
    from dpframe.asking.series_plan import ledger_fit_lines

    afforded = tuple(ledger_fit_lines(plan, about, ledger, name))
    return Explanation(plan, found, about, afforded, tuple(question.advice(plan)))


def plan_within_error(
    question: Question[Any, Any], arguments: Mapping[str, object], error: object
) -> tuple[Any, Line | None]:
    """Return what is asked for, and a line on the epsilon that was found for ``error``.

    With ``error`` the smallest epsilon that keeps it is taken; without, the line is None.
    """
    if error is None:
        return question.plan(arguments), None

    from dpframe.asking.call_arguments import found_epsilon_line, smallest_epsilon_plan

    def planned(epsilon: float) -> Any:
        return question.declared(question.plan({**arguments, "epsilon": epsilon}))

    plan = smallest_epsilon_plan(error, arguments, planned)
    found = found_epsilon_line(error, plan)
    return question.plan({**arguments, "epsilon": plan.budget.epsilon}), found


def _explained_scope(arguments: dict[str, Any], source: object) -> DataScope:
    """Return what a call says of its data; if there is a source, its column of times is checked."""
    about = DataScope.of(arguments)
    if about.period is None or source is None:
        return about
    return replace(about, reading=period_reading(source, about.period))


def _signature_with_error(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature with a keyword ``error``, which can take the place of ``epsilon``."""
    kind = "float | Mapping[str, float] | None"
    error = inspect.Parameter(
        "error", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
    )
    return signature.replace(parameters=[*signature.parameters.values(), error])


def _checked_ledger_name(arguments: dict[str, object]) -> tuple[Ledger | None, str | None]:
    """Return the ledger and the name of a release, checked as a release would check them."""
    ledger, name = chosen_ledger(arguments.get("ledger")), release_name(arguments.get("release"))
    flag("progress", arguments.get("progress", False))
    if name is not None:
        require_ledger(ledger, name)
    return ledger, name
