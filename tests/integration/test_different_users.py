"""Different users at nodes, at every door: typed as people type it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.errors import ParameterError
from dpframe.testing import seeded_noise

ROWS = pd.DataFrame(
    [(f"u{i}", line, f"{line}{i % 2}") for i in range(600) for line in "ab"] * 2
    + [(None, "a", "a0")] * 5,
    columns=["rider", "line", "stop"],
)
BUDGET: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-6, "progress": False}
USERS: dict[str, Any] = {"user": "rider", "contribution": "items"}
TRUTH = {"*": 601, "a": 601, "b": 600, "a / a0": 301, "a / a1": 300, "b / b0": 300, "b / b1": 300}
KEYS = [("a", "a0"), ("a", "a1"), ("b", "b1"), ("c", "c0")]


def near(frame: pd.DataFrame, truth: dict[str, int], most: int = 40) -> None:
    """All nodes, and counts that are off by no more than noise can be."""
    found = dict(zip(frame["prefix"], frame["count"], strict=True))
    assert list(found) == list(truth)
    for prefix, count in found.items():
        assert abs(count - truth[prefix]) <= most


def test_nodes_are_found_with_how_many_users_they_have() -> None:
    frame = ROWS.dp.hhh(["line", "stop"], **USERS, **BUDGET)
    near(frame, TRUTH)
    assert (frame["residual"] == frame["count"]).all()
    receipt = frame.dp.receipt
    assert (receipt["adds_up"], receipt["at_most"], receipt["mechanism"]) == (False, 16, "items")
    assert "adds up" in str(receipt)
    assert receipt["max_contributions"] is None


def test_listed_nodes_are_all_counted_and_nothing_beside_them() -> None:
    frame = dp.tree_counts(ROWS, ["line", "stop"], keys=KEYS, **USERS, **BUDGET)
    listed = ("*", "a", "b", "c", "a / a0", "a / a1", "b / b1", "c / c0")
    near(frame, {prefix: TRUTH.get(prefix, 0) for prefix in listed})
    assert (frame["residual"] == frame["count"]).all()
    receipt = frame.dp.receipt
    assert (receipt["adds_up"], receipt["consistent"]) == (False, False)
    card = {line[0]: line[1] for line in receipt["card"]}
    assert card["at_most"] == 16
    assert card["moved"] == 1 + 3 + 4  # the total, three listed lines, four listed stops
    pure = dp.tree_counts(ROWS, ["line"], epsilon=9.0, keys=["a"], **USERS, progress=False)
    assert pure.dp.receipt["delta"] == 0


def test_nodes_that_nobody_lists_are_found_by_rounds() -> None:
    """Law: the rows, numbers and receipt are those of ``hhh`` by rounds under the same seed."""
    shown, budget = [], {**BUDGET, "epsilon": 8.0}
    for call in (
        lambda: dp.tree_counts(ROWS, ["line", "stop"], **USERS, **budget),
        lambda: dp.hhh(ROWS, ["line", "stop"], user=USERS["user"], **budget),
    ):
        with seeded_noise(2):
            shown.append(call())
    pd.testing.assert_frame_equal(*shown)
    near(shown[0], {prefix: TRUTH[prefix] for prefix in shown[0]["prefix"]})
    assert shown[0].dp.receipt["mechanism"] == "rounds"
    assert dp.verify(dp.tree_counts(ROWS, ["line", "stop"], **USERS, **budget))


def test_a_user_counts_at_no_more_nodes_of_a_level_than_at_most_says() -> None:
    """Of two lines each rider counts at one: about half of them, and at one stop of two."""
    frame = dp.hhh(ROWS, ["line", "stop"], at_most=1, **USERS, **BUDGET)
    found = dict(zip(frame["prefix"], frame["count"], strict=True))
    assert abs(found["a"] + found["b"] - 601) <= 40
    assert 150 <= found["a"] <= 450


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (dp.explain, {"hierarchy": "ip:a * ip:b"}, "one hierarchy"),
    (dp.explain, {"max_contributions": 3}, "Pass at_most= instead"),
    (dp.explain, {"remainder": True}, "remainder .* does not go with contribution='items'"),
    (dp.explain, {"release_share": 0.3}, "release_share .* does not go with contribution='items'"),
    (dp.explain, {"weight": "w", "max_weight": 2}, "weight .* Leave it out"),
    (dp.explain, {"mechanism": "laplace"}, "mechanism='offline'"),
    (dp.explain, {"at_most": 1001}, "from 1 to 1000"),
    (dp.explain, {"threshold": 3}, "smallest private threshold"),
    (dp.explain, {"contribution": "share", "at_most": 2}, "contribution='items'"),
    (dp.explain_tree_counts, {"level_weights": [1.0] * 3}, "contribution='items' without keys"),
    (dp.explain_tree_counts, {"mechanism": "relative", "keys": ["a"]}, "finds keys by itself"),
]


@pytest.mark.parametrize(("ask", "arguments", "said"), REFUSED)
def test_what_it_does_not_do_is_refused_with_a_reason(
    ask: Any, arguments: dict[str, Any], said: str
) -> None:
    call = {"hierarchy": ["line"], "epsilon": 1.0, "delta": 1e-6, **USERS, **arguments}
    with pytest.raises(ParameterError, match=said):
        ask(**call)


def test_statements_and_shares_say_what_they_lack() -> None:
    with pytest.raises(ParameterError, match="contribution='items'"):
        dp.rollup_sql(["line"], table="t", dialect="postgres", epsilon=1.0, delta=1e-6, **USERS)
    frame = dp.hhh(ROWS, ["line"], **USERS, **BUDGET)
    with pytest.raises(ParameterError, match="no part of the one above"):
        frame.dp.share()
    values = [dp.heavy_hitters(ROWS, "line", user="rider", epsilon=5.0, delta=1e-6) for _ in "ab"]
    with pytest.raises(ParameterError, match="parts of nothing"):
        values[0].dp.share()
    with pytest.raises(ParameterError, match="counts less at each"):
        dp.change(*values)
    assert dp.verify(frame).outcome == "proved"


def test_a_page_and_a_plot_draw_no_parts_of_a_whole(tmp_path: Path) -> None:
    """Law: what does not add up is no whole with parts, and nothing is called residual."""
    frame = dp.hhh(ROWS, ["line", "stop"], **USERS, **BUDGET)
    frame.dp.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Parts of the whole" not in page
    assert "a residual of" not in page
    with pytest.raises(ParameterError, match="do not add up to a whole"):
        frame.dp.report(tmp_path / "page.html", kind="icicle")


def test_more_counts_than_can_be_paid_for_are_refused() -> None:
    with pytest.raises(ParameterError, match="Lower at_most, or ask for fewer levels"):
        dp.explain("path:p?depth=8", epsilon=1.0, delta=1e-6, at_most=1000, **USERS)
