"""Members of a law: a few of them in the suite, the others as evidence (``-m evidence``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import settings

EVIDENCE = False
"""Whether the long versions were asked for (``tests/conftest.py``)."""

Ids = Callable[[Any], str | None] | Iterable[Any] | None


def few(most: int, names: Any, members: Iterable[Any], ids: Ids = None) -> pytest.MarkDecorator:
    """``parametrize``, of which the suite has so many members, evenly spread, with both ends.

    What the members have in common is in the suite; where one alone could be wrong, keep them all.
    """
    given = _listed(names, members)
    kept = {round(i * (len(given) - 1) / max(1, most - 1)) for i in range(most)}
    chosen = [one if i in kept else _evidence(one) for i, one in enumerate(given)]
    return pytest.mark.parametrize(names, chosen, ids=ids)


def in_turn(*axes: tuple[Any, ...]) -> pytest.MarkDecorator:
    """``parametrize`` by a product, of which the suite has every member that has no mark, each with
    some of the other axes in turn.

    An axis is (names, members) or (names, members, ids).
    """
    names: list[str] = []
    every: list[list[tuple[str, Any]]] = []
    for name, members, *ids in axes:
        names += _names(name)
        given = _listed(name, members)
        every.append(list(zip(_ids(name, given, *ids), given, strict=True)))
    short = [[i for i, (_, one) in enumerate(axis) if not one.marks] for axis in every]
    steps = _diagonal([len(axis) for axis in short])
    kept = {tuple(axis[i] for axis, i in zip(short, at, strict=True)) for at in steps}
    chosen = []
    for at in product(*(range(len(axis)) for axis in every)):
        some = [axis[i] for axis, i in zip(every, at, strict=True)]
        marks = [mark for _, one in some for mark in one.marks]
        one = pytest.param(
            *(value for _, one in some for value in one.values),
            id="-".join(word for word, _ in some),
            marks=marks,
        )
        chosen.append(one if at in kept else _evidence(one))
    return pytest.mark.parametrize(names, chosen)


def some(*chosen: str | int) -> pytest.MarkDecorator:
    """Of all members of a test, however many axes it has, the suite has these: names or places."""
    return pytest.mark.some(*chosen)


def leave_out(items: Sequence[pytest.Item]) -> None:
    """Make evidence of the members of one test that ``some`` does not name.

    A name or place that no member has is an error: the suite would be smaller than it says.
    """
    mark = items[0].get_closest_marker("some") if items else None
    if mark is None:
        return
    names = [item.name.partition("[")[2][:-1] for item in items]
    chosen = {names.index(one) if one in names else one for one in mark.args}
    wrong = [one for one in chosen if one not in range(len(names))]
    if wrong or len(chosen) < len(mark.args):
        raise pytest.Collector.CollectError(
            f"{items[0].nodeid}: some{mark.args} must name different members of: {names}"
        )
    for place, item in enumerate(items):
        if place not in chosen:
            item.add_marker(pytest.mark.evidence)


def often(suite: int, evidence: int, name: str = "runs") -> pytest.MarkDecorator:
    """``parametrize`` by a number: so many in the suite; as evidence, more."""
    return pytest.mark.parametrize(
        name, [suite, pytest.param(evidence, marks=pytest.mark.evidence)]
    )


def tries(suite: int, evidence: int, **options: Any) -> Callable[[Any], Any]:
    """``settings`` of hypothesis with so many examples in the suite; as evidence, with more."""

    def of(test: Any) -> Any:
        if EVIDENCE:
            return pytest.mark.evidence(settings(max_examples=evidence, **options)(test))
        return settings(max_examples=suite, **options)(test)

    return of


def _diagonal(lengths: Sequence[int]) -> set[tuple[int, ...]]:
    """Places that meet every member: the longest axis goes on by each step, the others slower."""
    longest = max(range(len(lengths)), key=lambda axis: lengths[axis])
    strides, steps, stride = [1] * len(lengths), lengths[longest], 1
    for axis, length in enumerate(lengths):
        if axis != longest:
            strides[axis] = stride
            stride *= length
            steps = max(steps, strides[axis] * (length - 1) + 1)
    return {
        tuple(step // stride % length for stride, length in zip(strides, lengths, strict=True))
        for step in range(steps)
    }


def _names(names: Any) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _listed(names: Any, members: Iterable[Any]) -> list[Any]:
    """As ``pytest.param``."""
    alone, kind = len(_names(names)) == 1, type(pytest.param())
    return [
        one if isinstance(one, kind) else pytest.param(*((one,) if alone else one))
        for one in members
    ]


def _ids(names: Any, members: list[Any], ids: Ids = None) -> list[str]:
    words = [ids(one.values[0]) if callable(ids) else None for one in members]
    if ids is not None and not callable(ids):
        words = [str(word) for word in ids]
    plain = (str, int, float, bool, type(None))
    out = []
    for i, (one, word) in enumerate(zip(members, words, strict=True)):
        told = [
            str(value) if isinstance(value, plain) else f"{name}{i}"
            for name, value in zip(_names(names), one.values, strict=True)
        ]
        out.append(one.id or word or "-".join(told))
    return out


def _evidence(one: Any) -> Any:
    return pytest.param(*one.values, id=one.id, marks=[*one.marks, pytest.mark.evidence])
