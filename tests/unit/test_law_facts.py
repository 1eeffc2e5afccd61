"""A receipt holds the law of its noise exactly: the table that was drawn from comes back."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpframe.accounting.path_recursion import Laws
from dpframe.errors import ParameterError
from dpframe.noise import (
    NoiseTable,
    UnboundedNoise,
    gaussian_table,
    halves,
    laplace_gaussian_table,
    laplace_table,
    law_facts,
    law_of_facts,
    rounded_normal,
    table_from_density,
)

SKEWED = halves(left=("gaussian", 17.3, 110), right=("geometric", 1.7, 28), recentre=False)
LAWS = [
    laplace_table(0.3, 9),
    laplace_table(2.5 * 2**8, 400 * 2**8),
    gaussian_table(30.1, 200),
    laplace_gaussian_table(4.0, 9.1, 50),
    rounded_normal(7.7, 60),
    rounded_normal(123.4, 900),
    SKEWED,
    halves(left=("geometric", 9.2, 90), right=("gaussian", 2.9, 20), recentre=True),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.family} {law.sd:.3g}")
@pytest.mark.parametrize(("grid", "worth"), [(1, 1.0), (256, 1.0), (256, 1500.0), (256, 0.3)])
def test_the_table_comes_back_to_the_last_weight(law: NoiseTable, grid: int, worth: float) -> None:
    """Law: through JSON, on a grid, and where units are worth a part of a measure."""
    facts = json.loads(json.dumps(law_facts(law, grid, worth)))
    found = law_of_facts(facts, worth)
    assert isinstance(found, NoiseTable)
    assert (found.family, found.lowest) == (law.family, law.lowest)
    assert np.array_equal(found.weights, law.weights)
    assert law_facts(found, grid, worth) == law_facts(law, grid, worth)


def test_a_law_that_was_centred_comes_back_where_it_is() -> None:
    """Law: a shift is in the lowest value alone."""
    scales: dict[str, Any] = {"left": 17.3, "right": 1.7, "release_scale": 0.3, "delta": 1e-6}
    laws = Laws(shape="gaussian-left", test=SKEWED, release=LAWS[0], grid=1, **scales)
    law = laws.median_test(200)
    assert law.lowest != SKEWED.lowest
    found = law_of_facts(law_facts(law, 1))
    assert isinstance(found, NoiseTable)
    assert (found.lowest, found.weights.tolist()) == (law.lowest, law.weights.tolist())


@pytest.mark.parametrize("scale", [Fraction(25, 2), Fraction(3), Fraction(10**15, 7)])
def test_noise_without_bounds_has_an_exact_scale(scale: Fraction) -> None:
    facts = json.loads(json.dumps(law_facts(UnboundedNoise(scale), 256)))
    assert facts["scale"] == str(scale)
    assert law_of_facts(facts) == UnboundedNoise(scale)


FACTS = law_facts(SKEWED, 1)
UNBOUNDED = law_facts(UnboundedNoise(Fraction(25, 2)), 1)
DISAGREE: dict[str, dict[str, Any]] = {
    "sd": {**FACTS, "sd": FACTS["sd"] * 1.0001},
    "no sd": {**FACTS, "sd": None},
    "lowest": {**FACTS, "lowest": FACTS["lowest"] - 1},
    "highest": {**FACTS, "highest": FACTS["highest"] + 1},
    "no end": {**FACTS, "highest": None},
    "another scale": {**FACTS, "halves": [["gaussian", 17.4, 110], ["geometric", 1.7, 28]]},
    "sd without bounds": {**UNBOUNDED, "scale": "13"},
    "an end without bounds": {**UNBOUNDED, "highest": 3.0},
}


@pytest.mark.parametrize("why", DISAGREE)
def test_ends_and_spread_that_disagree_are_refused(why: str) -> None:
    with pytest.raises(ParameterError, match="the noise in the receipt has"):
        law_of_facts(DISAGREE[why])


LEFT = ("gaussian", 17.3)
RIGHTS: list[tuple[Any, ...]] = [
    *(("cauchy", 1.7, 28), ("geometric", 1.7, 2.0, 28), ("geometric", 0.0, 28)),
    *(("geometric", float("nan"), 28), ("geometric", 1.7, 2.5)),
]
NONE = [
    {key: value for key, value in FACTS.items() if key != "halves"},
    {**FACTS, "grid": 0},
    {**FACTS, "lowest": None},
    {**UNBOUNDED, "scale": "1e999999999"},
    {**UNBOUNDED, "scale": "0"},
    {**UNBOUNDED, "scale": 12.5},
    *({**FACTS, "halves": value} for value in (None, [FACTS["halves"][0]])),
    *({**FACTS, "halves": [[*LEFT, 110], [*right]]} for right in RIGHTS),
    {**FACTS, "halves": [[*LEFT, 0], ["geometric", 1.7, 0]]},
    {**FACTS, "halves": [[["gaussian"], 17.3, 110], ["geometric", 1.7, 28]]},
]


@pytest.mark.parametrize("facts", NONE, ids=str)
def test_facts_of_no_law_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="does not say exactly"):
        law_of_facts(facts)


def test_a_table_that_is_made_otherwise_has_no_exact_fields() -> None:
    law = table_from_density("bumps", -2, np.array([1.0, 4.0, 2.0, 4.0, 1.0]))
    assert not {"halves", "scale"} & law_facts(law, 1).keys()
