"""Halves of tables: what a receipt says that noise is made of is compared with the weights."""

from __future__ import annotations

import time
from array import array
from fractions import Fraction
from typing import Any

import pytest

from dpframe.noise import (
    NoiseTable,
    gaussian_table,
    halves,
    laplace_gaussian_table,
    laplace_table,
    rounded_normal,
)
from dpframe.verifier.facts import are_cut_gaussian, has_halves
from dpframe.verifier.verdict import BrokenProofError, Law
from tests.members import some

Half = list[Any]


def law_of(table: NoiseTable) -> Law:
    return Law(table.lowest, array("Q", table.weights.tolist()))


def sides(left: Half, right: Half, *, recentre: bool) -> tuple[NoiseTable, list[Half]]:
    table = halves(left=tuple(left), right=tuple(right), recentre=recentre)  # type: ignore[arg-type]
    return table, [left, right]


def alike(table: NoiseTable, *half: Any) -> tuple[NoiseTable, list[Half]]:
    return table, [[*half], [*half]]


TABLES = {
    "narrow": alike(laplace_table(0.3, 5), "geometric", 0.3, 5),
    "usual": alike(laplace_table(5.0, 66), "geometric", 5.0, 66),
    "cut off": alike(laplace_table(5.0, 400), "geometric", 5.0, 400),
    "wide": alike(laplace_table(2e4, 100_000), "geometric", 2e4, 100_000),
    "gaussian": alike(gaussian_table(9.5, 51), "gaussian", 9.5, 51),
    "wide and cut off": alike(gaussian_table(1e4, 120_000), "gaussian", 1e4, 120_000),
    "between": alike(laplace_gaussian_table(5.0, 9.0, 51), "laplace-gaussian", 5.0, 9.0, 51),
    "rounded": alike(rounded_normal(0.4, 2), "rounded gaussian", 0.4, 2),
    "rounded, usual": alike(rounded_normal(10.7, 54), "rounded gaussian", 10.7, 54),
    "rounded, wide": alike(rounded_normal(5e3, 30_000), "rounded gaussian", 5e3, 30_000),
    "two sides": sides(["geometric", 8.0, 74], ["geometric", 3.0, 20], recentre=True),
    "two shapes": sides(["gaussian", 8.0, 60], ["geometric", 3.0, 90], recentre=False),
}


@some("narrow", "usual", "cut off", "gaussian", "between", "rounded", "two sides", "two shapes")
@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_halves_that_it_is_made_of(name: str) -> None:
    """Law: and no scale that is a millionth off, no other shape, and no other end unless weights
    of 0 are cut off there."""
    table, told = TABLES[name]
    law = law_of(table)
    assert has_halves(law, told)
    assert has_halves(law, None)
    cut = sum(half[-1] for half in told) > len(law.weights) - 1
    for side, half in enumerate(told):
        changes: list[Half] = []
        for place in range(1, len(half) - 1):
            for factor in (1 + 1e-6, 1 - 1e-6, 2.0, 0.5):
                changes.append([*half[:place], half[place] * factor, *half[place + 1 :]])
        if half[0] != "laplace-gaussian":
            shapes = {"geometric", "gaussian", "rounded gaussian"} - {half[0]}
            alike = "gaussian" in half[0] and half[1] > 1000  # the same but for 1e-8 / 12
            changes += [[shape, *half[1:]] for shape in shapes if not alike or "ge" in shape]
        if not cut:
            changes += [[*half[:-1], half[-1] + more] for more in (-1, 1, 7)]
        changes.append([*half[:-1], 1])
        for change in changes:
            assert not has_halves(law, [change, told[1]] if side == 0 else [told[0], change])


@pytest.mark.parametrize(
    "half",
    [
        *(["round", 5.0, 66], ["geometric", 66], ["geometric", 5.0, 5.0, 66]),
        *(["geometric", scale, 66] for scale in (True, 0.0, float("nan"), -5.0)),
        *(["geometric", 5.0, 66.0], ["geometric", 5.0, -1], [["geometric"], 5.0, 66]),
        *({"shape": "geometric"}, [], None),
    ],
)
def test_a_half_that_is_none_is_refused(half: object) -> None:
    law = law_of(laplace_table(5.0, 66))
    for told in ([half, half], [half], half or 5):
        with pytest.raises(BrokenProofError):
            has_halves(law, told)


@pytest.mark.parametrize("scale", [1e-90, 0.05, 1.0, 1e90])
def test_a_forged_scale_takes_no_time(scale: float) -> None:
    """Law: a density far below the weights is not computed."""
    law, half = law_of(rounded_normal(5e3, 30_000)), ["rounded gaussian", scale, 10**40]
    before = time.thread_time()
    assert not has_halves(law, [half, half])
    assert not are_cut_gaussian([half, half], Fraction(5000), 30_000)
    assert time.thread_time() - before < 2
