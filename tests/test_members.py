"""What is left out of the suite is evidence, and every member of a product stays in it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.members import few, in_turn, leave_out, some


def parts(mark: pytest.MarkDecorator) -> tuple[list[Any], list[Any]]:
    """Values in the suite, and those of the evidence."""
    _, given = mark.args
    suite = [one.values for one in given if not one.marks]
    return suite, [one.values for one in given if one.marks]


@pytest.mark.parametrize("lengths", list(product(range(1, 5), repeat=3)), ids=str)
def test_every_member_of_a_product_is_in_the_suite(lengths: tuple[int, ...]) -> None:
    """Law: suite and evidence are the product, and no axis has a member in the evidence alone."""
    axes = [(name, list(range(n))) for name, n in zip("abc", lengths, strict=True)]
    suite, evidence = parts(in_turn(*axes))
    assert sorted([*suite, *evidence]) == sorted(product(*(members for _, members in axes)))
    for at, (_, members) in enumerate(axes):
        assert {one[at] for one in suite} == set(members)


def test_members_that_are_marked_stay_evidence() -> None:
    """Law: they take nobody's place in the suite."""
    marked = [1, pytest.param(2, marks=pytest.mark.evidence), 3]
    suite, evidence = parts(in_turn(("a", marked), (("b", "c"), [(4, 5), (6, 7)])))
    assert suite == [(1, 4, 5), (3, 6, 7)]
    assert len(evidence) == 4


@pytest.mark.parametrize("most", [2, 3, 5])
def test_a_few_are_spread_from_end_to_end(most: int) -> None:
    """Law: as many as were asked for, both ends among them; none is lost."""
    suite, evidence = parts(few(most, "a", range(9)))
    assert len(suite) == most
    assert {(0,), (8,)} <= set(suite)
    assert sorted([*suite, *evidence]) == [(i,) for i in range(9)]


class Item:
    """What pytest makes of one member of a test."""

    def __init__(self, name: str, *chosen: str | int) -> None:
        self.name, self.nodeid, self.chosen = f"test[{name}]", "file::test", chosen
        self.marks: list[pytest.MarkDecorator] = []

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return some(*self.chosen).mark if name == "some" else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark)


def test_some_members_are_named() -> None:
    """Law: the others are evidence; a member that is not there, or twice, is an error."""
    items: list[Any] = [Item(name, "b", 0) for name in "abc"]
    leave_out(items)
    assert [len(item.marks) for item in items] == [0, 0, 1]
    for chosen in (("d",), (3,), ("a", 0)):
        with pytest.raises(pytest.Collector.CollectError, match="different members"):
            leave_out([Item(name, *chosen) for name in "abc"])  # type: ignore[arg-type]
