"""Explain a call: answer it with its plan. Spends nothing and reads no data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, overload

from dpframe._known_arguments import bind_arguments, lacks_message, shorten_errors
from dpframe._progress import step
from dpframe.asking.call_arguments import flag, release_name
from dpframe.asking.card import Line
from dpframe.asking.data_scope import DataScope
from dpframe.asking.question import Question
from dpframe.asking.release import require_ledger
from dpframe.errors import ParameterTypeError
from dpframe.ledger import chosen_ledger
from dpframe.sources.frames import without_rows
from dpframe.sources.source_relations import period_reading

if TYPE_CHECKING:
    from dpframe.asking.explanation import Explanation
    from dpframe.ledger import Ledger

P = ParamSpec("P")


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

    class Explains(Protocol[P]):
        """A function that takes the call of a question, with its source or without."""

        __name__: str

        @overload
        def __call__(
            self, source: object, /, *args: P.args, **arguments: P.kwargs
        ) -> Explanation[Any]: ...

        @overload
        def __call__(self, *args: P.args, **arguments: P.kwargs) -> Explanation[Any]: ...

        @overload  # nothing can be added to a ParamSpec
        def __call__(
            self, *args: Any, error: float | Mapping[str, float], **arguments: Any
        ) -> Explanation[Any]: ...

    class ExplainsFrame(Protocol[P]):
        """An ``Explains`` that is a method of a frame, which is the source."""

        @overload
        def __call__(self, *args: P.args, **arguments: P.kwargs) -> Explanation[Any]: ...

        @overload
        def __call__(
            self, *args: Any, error: float | Mapping[str, float], **arguments: Any
        ) -> Explanation[Any]: ...


def make_explain(
    name: str,
    question: Question[Any, Any],
    ask: Callable[Concatenate[Any, P], object],
    example: str,
) -> Explains[P]:
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
    from dpframe.asking.explanation import Explanation
    from dpframe.asking.ledger_fit import ledger_fit_lines

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

    from dpframe.asking.error_search import found_epsilon_line, smallest_epsilon_plan

    def planned(epsilon: float) -> Any:
        return question.declared(question.plan({**arguments, "epsilon": epsilon}))

    plan = smallest_epsilon_plan(error, arguments, planned)
    epsilon = plan.budget.epsilon
    found = found_epsilon_line(epsilon, error, plan.errors)
    return question.plan({**arguments, "epsilon": epsilon}), found


def _explained_scope(arguments: dict[str, Any], source: object) -> DataScope:
    """Return what a call says of its data; if there is a source, its column of times is checked."""
    about = DataScope.of(arguments)
    if about.period is None or source is None:
        return about
    return replace(about, reading=period_reading(source, about.period))


def _signature_with_error(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature with a keyword ``error``, which can take the place of ``epsilon``."""
    error = inspect.Parameter("error", inspect.Parameter.KEYWORD_ONLY, default=None)
    return signature.replace(parameters=[*signature.parameters.values(), error])


def _checked_ledger_name(arguments: dict[str, object]) -> tuple[Ledger | None, str | None]:
    """Return the ledger and the name of a release, checked as a release would check them."""
    ledger, name = chosen_ledger(arguments.get("ledger")), release_name(arguments.get("release"))
    flag("progress", arguments.get("progress", False))
    if name is not None:
        require_ledger(ledger, name)
    return ledger, name
