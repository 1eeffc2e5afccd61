"""What a call would do: the same call, answered by its plan. Spends nothing and reads no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, overload

from dpframe.asking.explanation import Explanation
from dpframe.asking.given import chosen_ledger, data_name, flag, release_name
from dpframe.asking.known_arguments import check_known
from dpframe.asking.question import OF_RELEASE, OF_WAREHOUSE, Question
from dpframe.errors import ParameterTypeError

P = ParamSpec("P")


DOC = """What :func:`{asked}` with these arguments would do: noise, thresholds, error.

Takes the call of :func:`{asked}`, with its source or without: of a source, names and types of the
columns are checked. Spends nothing and reads no data.

Returns
-------
Explanation
    Prints as a card; ``to_frame()`` has the columns quantity, value and meaning, ``plan`` is the
    plan.

Examples
--------
{example}
"""


class Explains(Protocol[P]):
    """A function that takes the call of a question, with its source or without."""

    __name__: str

    @overload
    def __call__(
        self, source: object, about: Any, /, *args: P.args, **keywords: P.kwargs
    ) -> Explanation[Any]: ...

    @overload
    def __call__(self, about: Any, /, *args: P.args, **keywords: P.kwargs) -> Explanation[Any]: ...


def explaining(
    name: str,
    question: Question[Any, Any],
    ask: Callable[Concatenate[Any, Any, P], object],
    example: str,
) -> Explains[P]:
    """``dp.explain`` and its like, from the declaration of a question."""
    source, about, *_ = question.parameters

    def explain(*given: object, **arguments: object) -> Explanation[Any]:
        known = tuple(n for n in question.parameters if n not in OF_WAREHOUSE)
        check_known(name, arguments, known)
        if len(given) > 2:
            raise ParameterTypeError(
                f"{name} takes what it is about, or a source and that; the rest by name."
            )
        if len(given) == 1 and about not in arguments:
            arguments[about] = given[0]
        else:
            arguments.update(zip((source, about), given, strict=False))
        plan = question.declared(question.plan(arguments))
        _check_release(arguments)
        if arguments.get(source) is not None:
            question.checked(plan, arguments[source])
        return Explanation(plan)

    explain.__name__ = explain.__qualname__ = name
    explain.__module__ = question.ask.__module__
    explain.__doc__ = DOC.format(asked=question.name, example=example)
    explain.__signature__ = question.signature_without(OF_WAREHOUSE)  # type: ignore[attr-defined]
    return explain


def _check_release(arguments: dict[str, object]) -> None:
    """What says how a release is kept, checked as it would be."""
    checks = dict(zip(OF_RELEASE, (chosen_ledger, release_name, data_name), strict=False))
    for argument, check in checks.items():
        if argument in arguments:
            check(arguments[argument])
    if "progress" in arguments:
        flag("progress", arguments["progress"])
