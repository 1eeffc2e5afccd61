"""A poor answer says so, and what to change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.card import reported_node_rows, wide_interval_notices
from dpframe.asking.privacy_receipt import Sight, empty_result_notices
from dpframe.testing import seeded_noise
from tests.members import some

FEW = pd.DataFrame({"a": list("abcdefghij") * 3, "who": range(30), "v": 1.0})
MANY = pd.DataFrame({"a": ["x"] * 4000 + ["y"] * 3000, "who": range(7000), "v": 1.0})
BUDGET: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6}
SUM = {"n": "count", "s": dp.sum("v", lower=0, upper=9)}

ASKED: dict[str, Callable[..., pd.DataFrame]] = {
    "hhh": lambda rows, **more: rows.dp.hhh(["a"], **BUDGET, **more),
    "users": lambda rows, **more: rows.dp.hhh(["a"], user="who", **BUDGET, **more),
    "shares": lambda rows, **more: rows.dp.hhh(
        ["a"], user="who", contribution="share", **BUDGET, **more
    ),
    "laplace": lambda rows, **more: rows.dp.hhh(["a"], mechanism="laplace", **BUDGET, **more),
    "streaming": lambda rows, **more: rows.dp.hhh(["a"], mechanism="streaming", **BUDGET, **more),
    "flat": lambda rows, **more: rows.dp.heavy_hitters("a", k=3, **BUDGET, **more),
    "tree": lambda rows, **more: rows.dp.tree_counts(["a"], **BUDGET, **more),
    "rollup": lambda rows, **more: rows.dp.rollup(["a"], SUM, **BUDGET, **more),
}


def notices(frame: pd.DataFrame) -> list[str]:
    return list(frame.dp.receipt.get("notices", []))


@some("hhh", "laplace", "tree")
@pytest.mark.parametrize("asked", ASKED)
def test_where_nothing_is_shown_the_receipt_says_what_to_change(asked: str, tmp_path: Path) -> None:
    """Law: the threshold and the smallest one allowed, which is taken; on the page, too."""
    with seeded_noise(3):
        poor, good = ASKED[asked](FEW), ASKED[asked](MANY)
        raised = ASKED[asked](FEW, threshold=5000)
    smallest = poor.dp.receipt["threshold"]
    (said,) = [one for one in notices(poor) if one.startswith("nothing was shown: ")]
    assert f"the threshold of {smallest:g} " in said
    assert "the smallest allowed here" in said
    assert "threshold=" not in said
    (told,) = [one for one in notices(raised) if one.startswith("nothing was shown: ")]
    assert f"pass threshold={smallest:g}, the smallest allowed here" in told
    assert not any("shown" in one for one in notices(good))
    with seeded_noise(3):
        again = ASKED[asked](FEW, threshold=smallest)
    assert "threshold=" not in notices(again)[0]
    assert "nothing was shown" in str(poor.dp.receipt)
    poor.dp.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.index("Nothing was shown") < page.index("This release")


def test_the_largest_possible_node_is_one_that_can_stay_out_of_sight() -> None:
    receipt = FEW.dp.hhh(["a"], **BUDGET).dp.receipt
    certain = {name: value for name, value, _ in receipt["card"]}["certainly reported"]
    assert f"the largest possible one has less than {certain:g}" in receipt["notices"][0]
    assert "largest possible" not in ASKED["streaming"](FEW).dp.receipt["notices"][0]


def frame_of(rows: list[tuple[int, str, float, float, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["level", "prefix", "count", "lower", "upper"])


def test_intervals_that_are_wider_than_their_numbers_are_counted() -> None:
    """Law: of more than half of the nodes, or of the total; a rest is no node."""
    total = (0, "*", 100.0, 90.0, 110.0)
    wide, narrow = (1, "a", 10.0, 0.0, 30.0), (1, "b", 60.0, 50.0, 70.0)
    rest = (1, "<other>", 5.0, 0.0, 30.0)
    assert wide_interval_notices(frame_of([total, wide, narrow, rest])) == []
    assert wide_interval_notices(frame_of([total, narrow])) == []
    assert wide_interval_notices(frame_of([])) == []
    (line,) = wide_interval_notices(frame_of([total, wide, wide, narrow]))
    assert "the interval of 2 of 3 nodes is wider" in line.meaning_text
    (line,) = wide_interval_notices(frame_of([(0, "*", 5.0, -10.0, 20.0), narrow]))
    assert "the interval of the total is wider" in line.meaning_text


def test_a_release_of_little_data_says_that_noise_is_most_of_it(tmp_path: Path) -> None:
    """Law: on the receipt and the page; and not of a release that is precise."""
    keys = list("abc")
    with seeded_noise(3):
        poor = FEW.dp.tree_counts(["a"], keys=keys, epsilon=0.05)
        good = FEW.dp.tree_counts(["a"], keys=keys, epsilon=50.0)
        sums = FEW.dp.rollup(["a"], SUM, epsilon=0.1, delta=1e-6)
    assert any(one.startswith("noise is most of the numbers: ") for one in notices(poor))
    assert notices(good) == []
    assert any(one.startswith("noise is most of the numbers of n: ") for one in notices(sums))
    poor.dp.report(tmp_path / "page.html")
    assert "Noise is most of the numbers" in (tmp_path / "page.html").read_text("utf-8")


def test_what_is_only_a_rest_is_nothing_shown() -> None:
    rest = frame_of([(0, "*", 10.0, 0.0, 20.0), (1, "<other>", 10.0, 0.0, 20.0)])
    sight = Sight(below=47, counted="records", epsilon=1.0, planned=lambda epsilon: 24, allowed=47)
    assert reported_node_rows(rest).tolist() == [False, False]
    (line,) = empty_result_notices(np.array([], dtype=np.int64), sight)
    assert line.meaning_text == (
        "no node reached the threshold of 47 records, the smallest allowed here: ask for coarser "
        "or fewer levels, with a larger epsilon (epsilon=2 shows from about 24) or delta, or of "
        "more data, such as a longer period"
    )
    assert empty_result_notices(np.array([0, 1]), sight) == []


def test_a_name_on_a_card_is_no_template(tmp_path: Path) -> None:
    """Law: braces in the name of a column are shown as they are, and fill in nothing."""
    column = "t{left.__class__}{"
    frame = pd.DataFrame({"a": ["x"] * 9, column: pd.to_datetime(["2024-01-01"] * 9)})
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=0.1)
    period = (column, "2024-01-01")
    card = str(dp.explain(frame, ["a"], epsilon=1.0, delta=1e-6, period=period, ledger=ledger))
    assert f"for {column} 2024-01-01" in card
    named = dp.rollup(frame, [column], ["count AS notice"], epsilon=1.0, delta=1e-6)
    assert column in str(named.dp.receipt)
