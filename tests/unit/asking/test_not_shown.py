"""A release says what it does not show, from released numbers and public parameters alone."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt, not_shown_lines, unseen_shares
from dpframe.mechanisms.weighted_rounds import likely_weight
from dpframe.testing import seeded_noise
from tests.members import some

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def sales() -> pd.DataFrame:
    """A table of purchases in which most products have few buyers."""
    draws = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "country": draws.choice(["UK", "FR", "DE"], 6000, p=[0.7, 0.2, 0.1]),
            "product": draws.zipf(1.4, 6000) % 200,
            "who": draws.integers(0, 2000, 6000),
            "amount": draws.integers(1, 20, 6000) * 1.0,
        }
    )


SALES, BY = sales(), ["country", "product"]
MEASURES = {"n": "count", "s": dp.sum("amount", lower=0, upper=20)}

ASKED: dict[str, Callable[..., pd.DataFrame]] = {
    "records": lambda rows, **more: rows.dp.hhh(BY, **BUDGET, **more),
    "shares": lambda rows, **more: rows.dp.hhh(
        BY, user="who", contribution="share", **BUDGET, **more
    ),
    "items": lambda rows, **more: rows.dp.hhh(
        BY, user="who", contribution="items", mechanism="offline", **BUDGET, **more
    ),
    "rounds": lambda rows, **more: rows.dp.hhh(
        BY, user="who", mechanism="rounds", **BUDGET, **more
    ),
    "values": lambda rows, **more: rows.dp.heavy_hitters("product", user="who", **BUDGET, **more),
    "weights": lambda rows, **more: rows.dp.hhh(
        BY, weight="amount", max_weight=20, **BUDGET, **more
    ),
    "streaming": lambda rows, **more: rows.dp.hhh(BY, mechanism="streaming", **BUDGET, **more),
    "laplace": lambda rows, **more: rows.dp.hhh(BY, mechanism="laplace", **BUDGET, **more),
    "normal": lambda rows, **more: rows.dp.hhh(BY, mechanism="offline-gaussian", **BUDGET, **more),
    "cells": lambda rows, **more: rows.dp.hhh(dp.cube(BY), **BUDGET, **more),
    "rollup": lambda rows, **more: rows.dp.rollup(BY, MEASURES, **BUDGET, **more),
    "segments": lambda rows, **more: rows.dp.rollup(dp.cube(BY), MEASURES, **BUDGET, **more),
    "tree": lambda rows, **more: rows.dp.tree_counts(BY, **BUDGET, **more),
    "tree by hhh": lambda rows, **more: rows.dp.tree_counts(BY, mechanism="hhh", **BUDGET, **more),
}

EXPLAINED: dict[str, Callable[..., Any]] = {
    "records": lambda **more: dp.explain(BY, **more),
    "shares": lambda **more: dp.explain(BY, user="who", contribution="share", **more),
    "items": lambda **more: dp.explain(
        BY, user="who", contribution="items", mechanism="offline", **more
    ),
    "rounds": lambda **more: dp.explain(BY, user="who", mechanism="rounds", **more),
    "values": lambda **more: dp.explain_heavy_hitters("product", user="who", **more),
    "weights": lambda **more: dp.explain(BY, weight="amount", max_weight=20, **more),
    "streaming": lambda **more: dp.explain(BY, mechanism="streaming", **more),
    "laplace": lambda **more: dp.explain(BY, mechanism="laplace", **more),
    "normal": lambda **more: dp.explain(BY, mechanism="offline-gaussian", **more),
    "cells": lambda **more: dp.explain(dp.cube(BY), **more),
    "rollup": lambda **more: dp.explain_rollup(BY, MEASURES, **more),
    "segments": lambda **more: dp.explain_rollup(dp.cube(BY), MEASURES, **more),
    "tree": lambda **more: dp.explain_tree_counts(BY, **more),
    "tree by hhh": lambda **more: dp.explain_tree_counts(BY, mechanism="hhh", **more),
}


def said(facts: Any) -> dict[str, str]:
    """The lines on what is not shown, by name."""
    return {
        line.name: f"{line.value_text} ({line.meaning_text})" for line in not_shown_lines(facts)
    }


COARSER = "or ask for coarser levels, or more data, such as a longer period"

TEXTS = {
    "records": (
        "nodes of under about 22 records (a node with 59 of its own is shown for sure)",
        f"epsilon=2 (nodes from about 13 records on; {COARSER})",
    ),
    "shares": (
        "nodes of under about 22 users (a node with 63 of its own is shown for sure; a user with "
        "10 nodes counts a tenth at each)",
        "epsilon=2 (nodes from about 13 users on; or ask for contribution='items' with "
        "mechanism='rounds' (where users have many nodes), or coarser levels, or more data, such "
        "as a longer period)",
    ),
    "items": (
        "nodes of under about 138 users (a node with 274, as they are counted, is shown for sure)",
        f"epsilon=2 (nodes from about 75 users on; {COARSER})",
    ),
    "rounds": (
        "nodes of under about 31 users (no number is certain: a node of 42 users is shown 19 times "
        "of 20 if each has 1, of 133 if each has 10)",
        f"epsilon=2 (nodes from about 17 users on; {COARSER})",
    ),
    "values": (
        "values of under about 31 users (no number is certain: a value of 41 users is shown 19 "
        "times of 20 if each has 1, of 130 if each has 10)",
        "epsilon=2 (values from about 17 users on; or ask for more data, such as a longer period)",
    ),
    "weights": (
        "nodes of under about 440 of 'amount' (a node with 1247 of its own, as they are counted, "
        "is shown for sure)",
        f"epsilon=2 (nodes from about 260 of 'amount' on; {COARSER})",
    ),
    "cells": (
        "cells of under about 22 records (a cell with 77 of its own is shown for sure)",
        f"epsilon=2 (cells from about 13 records on; {COARSER})",
    ),
    "tree": (
        "nodes of under about 40 records (a node with 78 is shown for sure)",
        f"epsilon=2 (nodes from about 22 records on; {COARSER})",
    ),
}


@pytest.mark.parametrize("asked", TEXTS)
def test_a_plan_says_what_it_will_not_show(asked: str) -> None:
    """Law: one line says from which number on nodes are shown, one line what shows more."""
    explained = EXPLAINED[asked](**BUDGET)
    lines = {line.name: f"{line.value_text} ({line.meaning_text})" for line in explained.lines}
    assert (lines["not shown"], lines["shows more"]) == TEXTS[asked]


@some("records", "rounds", "tree")
@pytest.mark.parametrize("asked", EXPLAINED)
def test_the_figure_of_a_change_is_what_the_plan_of_that_change_says(asked: str) -> None:
    """Law: at the epsilon that is named, the threshold is the one that is named; of a threshold
    that is larger than needed, the smallest one is named, which the plan takes."""
    own = EXPLAINED[asked](**BUDGET).plan.sight
    changed = EXPLAINED[asked](**{**BUDGET, "epsilon": own.change["epsilon"]}).plan.sight
    assert own.change == {"epsilon": 2.0, "threshold": changed.below}
    raised = EXPLAINED[asked](**BUDGET, threshold=int(3 * own.below)).plan.sight
    assert raised.change == {"threshold": own.below}


@some("records", "rounds", "rollup")
@pytest.mark.parametrize("asked", ASKED)
def test_what_is_said_follows_from_frame_and_receipt_alone(asked: str, tmp_path: Path) -> None:
    """Law: of a frame that was written to a file and read back, and of a receipt in JSON, the lines
    are the same, and so is the share that is not shown when it is computed anew."""
    with seeded_noise(4):
        result = ASKED[asked](SALES)
    result.to_parquet(tmp_path / "result.parquet")
    back = pd.read_parquet(tmp_path / "result.parquet")
    receipt = back.dp.receipt
    assert receipt["not_shown"] == result.dp.receipt["not_shown"]
    plain = Receipt(json.load(io.StringIO(result.dp.receipt.to_json())))
    told = [f"{line.name}  " for line in plain.not_shown_lines]
    assert told[0] == "not shown  "
    assert all(name in str(result.dp.receipt) for name in told)
    assert str(plain) == str(result.dp.receipt)
    assert [line.row for line in plain.not_shown_lines] == [
        line.row for line in not_shown_lines(receipt["not_shown"])
    ]
    assert receipt["not_shown"]["shares"] == shares_of(back, receipt)
    explained = EXPLAINED[asked](**BUDGET).plan.sight.facts({}, None)
    for name in ("below", "certain", "likely", "counted", "finest"):
        assert explained[name] == receipt["not_shown"][name]


def shares_of(frame: pd.DataFrame, receipt: Receipt) -> dict[str, list[float]]:
    """What is not shown, written down once more as naively as possible."""
    if not receipt.get("remainder") or receipt.get("adds_up") is False or "level" not in frame:
        return {}
    finest, found = len(receipt["levels"]), {}
    for name in list(receipt.get("measures", ["residual"]))[:2]:
        number = frame.set_index("prefix")[name].astype(float)
        level = frame["level"].to_numpy()
        if "measures" in receipt and not receipt.get("segments"):
            total, top = number["*"], number[level == 1].sum()
            none, coarse = total - top, total - number[level == finest].sum()
        else:
            rest = number.index.str.endswith("<other>")
            total = number.sum()
            none = number[(level == 0) | (rest & (level == 1))].sum()
            coarse = number[(level < finest) | rest].sum()
        shares = [min(1.0, max(0.0, round(part / total, 3))) for part in (none, coarse)]
        found[receipt.count_noun if name == "residual" else name] = shares
    return found


def test_shares_are_of_the_released_total_and_left_out_where_noise_is_most() -> None:
    level = np.array([0, 1, 2, 2])
    own = np.array([30.0, 20.0, 40.0, 10.0])
    assert unseen_shares(level, own, height=2, width=10.0) == [0.3, 0.5]
    assert unseen_shares(level, own, height=1, width=10.0) == [0.3]
    nodes = np.array([True, False, True, False])
    assert unseen_shares(level, own, height=2, width=10.0, nodes=nodes) == [0.5, 0.6]
    assert unseen_shares(level, own, height=2, width=101.0) == []
    assert unseen_shares(level, own, height=2, width=math.nan) == []
    assert unseen_shares(level, own - 100, height=2, width=10.0) == []
    assert unseen_shares(level, own * [-1, 1, 1, 1], height=2, width=1.0) == [0.0, 0.0]


def facts_of(**changed: Any) -> dict[str, Any]:
    facts = {
        "below": 70,
        "counted": "users",
        "node": "node",
        "own": True,
        "divided": False,
        "bounded": False,
        "certain": 92,
        "likely": {},
        "finest": "product",
        "shares": {},
        "change": {"epsilon": 2.0, "threshold": 36},
        "instead": "",
        "nodes": 5,
    }
    return {**facts, **changed}


def test_shares_of_one_and_of_two_measures_are_told_in_a_line() -> None:
    def told(**changed: Any) -> str:
        return said(facts_of(**changed))["not shown"]

    sure = "a node with 92 of its own is shown for sure"
    start = "nodes of under about 70 users"
    assert told() == f"{start} ({sure})"
    assert told(shares={"users": [0.38, 0.97]}) == (
        f"{start} (about 38 % of users in no shown node, 97 % in none of level product; {sure})"
    )
    assert told(shares={"users": [0.0, 0.97]}) == (
        f"{start} (about 97 % of users in no shown node of level product; {sure})"
    )
    assert (
        told(shares={"users": [0.38]}) == f"{start} (about 38 % of users in no shown node; {sure})"
    )
    assert told(shares={"n": [0.38, 0.97], "s": [0.2, 0.5]}) == (
        f"{start} (about 38 % of n and 20 % of s in no shown node, 97 % and 50 % in none of level "
        f"product; {sure})"
    )
    assert told(certain=None) == f"{start} (no number is certain)"


def test_a_smaller_threshold_is_advised_before_more_budget() -> None:
    assert said(facts_of(change={"threshold": 22}))["shows more"] == (
        f"threshold=22 (the smallest allowed here; {COARSER})"
    )
    assert said(facts_of(change={})).keys() == {"not shown"}


def test_more_than_the_largest_epsilon_is_not_advised() -> None:
    """Law: nor an epsilon for which there is no noise."""
    assert dp.explain(BY, epsilon=50.0, delta=1e-6).plan.sight.change == {}
    by_rounds = dp.explain(BY, user="who", mechanism="rounds", epsilon=10.0, delta=1e-6)
    assert by_rounds.plan.sight.change == {}


def test_a_baseline_is_certain_where_it_has_one_level() -> None:
    """Law: of several, what is shown below is taken off with its noise; and a table that is drawn
    from ends, so that a node at the certain count is shown whatever is drawn."""
    assert dp.explain(BY, mechanism="laplace", **BUDGET).plan.sight.certain is None
    plan = dp.explain("product", mechanism="laplace", **BUDGET).plan
    assert plan.sight.certain == plan.threshold - plan.test_noise.lowest


def test_where_all_is_shown_nothing_is_advised() -> None:
    rows = pd.DataFrame({"a": ["x"] * 4000 + ["y"] * 3000})
    card = str(rows.dp.hhh(["a"], **BUDGET).dp.receipt)
    assert "about 0 % of records in no shown node" in card
    assert "shows more" not in card


@pytest.mark.parametrize("asked", ["records", "cells", "rollup"])
def test_the_page_says_it_before_the_numbers(asked: str, tmp_path: Path) -> None:
    with seeded_noise(4):
        result = ASKED[asked](SALES)
    result.dp.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.index('<p class="lead">Not shown: ') < page.index("All ")
    assert "More is shown with epsilon=2: " in page
    assert "is shown for sure." in page
    assert "Not shown" in result.dp.receipt._repr_html_().title().replace("Not Shown", "Not shown")


def test_a_measure_may_have_the_name_of_a_line() -> None:
    with seeded_noise(4):
        result = SALES.dp.rollup(BY, {"not shown": "count"}, **BUDGET)
    receipt = result.dp.receipt
    assert [line.name for line in receipt.card_lines].count("not shown") == 2
    assert "shows more" in receipt._repr_html_()


def test_with_k_the_receipt_says_that_more_was_found() -> None:
    with seeded_noise(4):
        result = SALES.dp.heavy_hitters("product", k=2, user="who", **BUDGET)
    assert result.dp.receipt["not_shown"]["cut"] > 0
    assert "smaller ones that were found, as k is 2" in str(result.dp.receipt)


def test_verify_still_proves_a_receipt_that_says_so() -> None:
    for asked in ("records", "rounds", "rollup"):
        result = ASKED[asked](SALES)
        assert "not_shown" in result.dp.receipt
        assert dp.verify(result), asked


def test_users_with_one_value_each_find_it_as_often_as_is_said() -> None:
    """Law: with 95 %; and negative control: with a tenth less users, less often."""
    plan = dp.explain_heavy_hitters("v", user="u", **BUDGET).plan
    users, values = plan.sight.likely[1], 400
    found = []
    for many in (users, math.ceil(0.8 * users)):
        rows = pd.DataFrame({"v": np.repeat(np.arange(values), many).astype(str)})
        rows["u"] = np.arange(len(rows))
        with seeded_noise(8):
            found.append(len(rows.dp.heavy_hitters("v", user="u", **BUDGET)) / values)
    assert found[0] > 0.95 - 3 * math.sqrt(0.05 * 0.95 / values)
    assert found[1] < 0.9
    assert likely_weight(plan.laws) <= users
