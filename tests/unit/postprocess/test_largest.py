"""The largest rows of a release, and a node with what is below it."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.common.digest import seal_frame
from dpframe.questions.rollup.ask import rollup
from dpframe.testing import seeded_noise

TRIPS = pd.DataFrame(
    {
        "origin": ["JFK"] * 900 + ["LGA"] * 300 + [None] * 200,
        "dest": ["LAX"] * 600 + ["SFO"] * 300 + ["LAX"] * 300 + ["LGA"] * 200,
    }
)


def released() -> pd.DataFrame:
    with seeded_noise(4):
        return TRIPS.dp.tree_counts(["origin", "dest"], epsilon=2.0, delta=1e-6)


FACTS = dict(released().dp.receipt)


@pytest.mark.parametrize("rows", [0, 1])
def test_of_a_quiet_week_there_is_no_largest(rows: int) -> None:
    """Law: no row or one is an answer, with the columns that there always are."""
    found = dp.hhh(TRIPS.head(rows), ["origin"], epsilon=1.0, delta=1e-6, remainder=False)
    assert len(found) == 0
    for frame in (found, released().head(0), released().head(2)):
        top = frame.dp.top(3)
        assert len(top) == (frame["level"] > 0).sum()
        assert top["above_next"].dtype == "boolean"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=12))
def test_the_largest_come_first(rows: list[tuple[int, int]]) -> None:
    """Law: of any released numbers, the n that a stable sort puts first, with all their columns;
    ``above_next`` is exactly that intervals do not touch."""
    count, half = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    frame = pd.DataFrame(
        {
            "level": 1,
            "prefix": [f"p{i}" for i in range(len(rows))],
            "p": [f"p{i}" for i in range(len(rows))],
            "residual": count,
            "count": count,
            "lower": count - half,
            "upper": count + half,
        }
    )
    seal_frame(frame, {**FACTS, "hierarchy": "columns:p", "levels": ["p"]})
    order = sorted(range(len(rows)), key=lambda i: -rows[i][0])
    for n in (1, 3, 20):
        top = frame.dp.top(n)
        assert list(top.index) == order[:n]
        assert list(top.columns) == [*frame.columns, "above_next"]
        for i, (this, following) in enumerate(itertools.pairwise(order)):
            if i < n:
                sure = frame.loc[this, "lower"] > frame.loc[following, "upper"]
                assert top["above_next"].iloc[i] == sure
        assert top["above_next"].isna().sum() == (n >= len(rows))


def test_the_largest_of_a_level_and_by_a_measure() -> None:
    """Law: the total is left out unless it is asked for; names of levels are numbers; a rollup is
    ranked by the measure that is named; the result is an extract."""
    frame = released()
    assert (frame.dp.top(99)["level"] > 0).all()
    assert frame.dp.top(99, level="origin").equals(frame.dp.top(99, level=1))
    assert frame.dp.top(9, level=0)["prefix"].tolist() == ["*"]
    assert frame.dp.top(1, level="dest")["prefix"].tolist() == ["JFK / LAX"]
    assert "not part of the release" in frame.dp.top(1).dp.receipt["frame"]
    measures = {"trips": "count", "km": "sum(km, 0, 10)"}
    source = TRIPS.assign(km=np.where(TRIPS["origin"] == "LGA", 10.0, 1.0))
    with seeded_noise(2):
        measured = rollup(source, ["origin", "dest"], measures, epsilon=20.0, delta=1e-6)
    assert measured.dp.top(1, level=1)["prefix"].tolist() == ["JFK"]
    assert measured.dp.top(1, "km", level=1)["prefix"].tolist() == ["LGA"]
    for wrong in ({"n": 0}, {"n": 1, "level": 3}, {"n": 1, "level": "city"}, {"n": 1, "by": "x"}):
        with pytest.raises(dp.ParameterError):
            frame.dp.top(**wrong)
    with pytest.raises(dp.ParameterTypeError, match="n must be a whole number"):
        frame.dp.top(2.5)


def test_a_node_and_everything_below_it() -> None:
    """Law: rows whose columns start with those of the node, in the order of the frame."""
    frame = released()
    below = frame.dp.below("JFK")
    assert below["prefix"].tolist() == [p for p in frame["prefix"] if p.startswith("JFK")]
    assert below.dp.receipt["frame"].startswith("an extract")
    assert frame.dp.below("*").equals(frame)
    assert frame.dp.below("SFO")["prefix"].tolist() == ["JFK / SFO"]
    assert frame.dp.below("LGA")["prefix"].iloc[0] == "LGA"  # a prefix before a value below
    assert frame.dp.below("<invalid>")["prefix"].iloc[0] == "<invalid>"


def test_a_label_that_is_no_node_or_several() -> None:
    """Law: an error names the prefixes that it could be, or the label that is near it."""
    frame = released()
    with pytest.raises(dp.ParameterError, match="'JFK / LAX', 'LGA / LAX'"):
        frame.dp.below("LAX")
    with pytest.raises(dp.ParameterError, match="Did you mean 'JFK / LAX'"):
        frame.dp.below("JFK/LAX")
    with pytest.raises(dp.ParameterError, match="no label that this frame shows"):
        frame.dp.below("zzzzzzzz")


def test_below_in_every_kind_of_hierarchy() -> None:
    """Law: a node that is not shown has what is below it by the value of its level; addresses and
    paths by their prefix."""
    heavy = TRIPS.dp.hhh(["origin", "dest"], epsilon=4.0, delta=1e-6)
    assert "JFK" not in set(heavy["prefix"])
    assert heavy.dp.below("JFK")["prefix"].tolist() == ["JFK / LAX", "JFK / SFO"]
    visits = pd.DataFrame({"src": ["10.0.0.1"] * 300 + ["10.9.0.1"] * 300 + ["11.0.0.1"] * 300})
    with seeded_noise(1):
        nodes = visits.dp.tree_counts("ip:src?version=4", epsilon=4.0, delta=1e-6)
    below = nodes.dp.below("10.0.0.0/8")
    assert "10.9.0.1" in set(below["prefix"]) | {p.removesuffix("/32") for p in below["prefix"]}
    assert not below["prefix"].str.startswith("11.").any()
    flat = TRIPS.dp.heavy_hitters("dest", epsilon=4.0, delta=1e-6)
    assert flat.dp.below("SFO")["dest"].tolist() == ["SFO"]
    assert flat.dp.top(1)["dest"].tolist() == ["LAX"]
