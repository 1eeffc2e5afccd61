"""Rollups of users by rounds: intervals hold as often as they say; what is refused, and what is
read from rows that are hostile."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpframe as dp
from dpframe.doors.verify import _remake_proof
from dpframe.testing import seeded_noise
from dpframe.verifier import verify_receipt
from tests.members import often

BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "user": "u"}
ROUNDS: dict[str, Any] = {**BUDGET, "contribution": "items"}
USERS = 900
_n = np.arange(USERS * 4)
TRIPS = pd.DataFrame(
    {
        "u": _n % USERS,
        "a": np.where(_n % 3 == 0, "p", "q"),
        "b": np.where(_n % 2 == 0, "x", "y"),
        "v": np.where(_n % 5 == 0, -1.0, 2.0),
    }
)
SUM = "sum(v, -8, 8)"


def assert_proved(frame: pd.DataFrame) -> None:
    """Of a release with seeded noise, as if it had been drawn from the operating system."""
    facts = {**frame.dp.receipt.to_dict(), "noise_source": "operating system"}
    assert verify_receipt(facts, _remake_proof(facts)), verify_receipt(facts, _remake_proof(facts))


LEAVES = 7 * np.arange(USERS) % 6
ONE_EACH = pd.DataFrame({"u": np.arange(USERS), "v": np.linspace(-12.0, 20.0, USERS)}).assign(
    a=np.where(LEAVES % 2 == 0, "p", "q"), b=LEAVES.astype(str)
)
"""Users with one finest node each, so that nothing is cut but at the bounds of a sum."""


def cut_truth(frame: pd.DataFrame, bound: float) -> dict[str, tuple[float, int]]:
    """Sums of what users have at nodes, cut to the bounds, and users, by label."""
    own = frame.assign(v=frame["v"].clip(-bound, bound), x=frame["a"] + " / " + frame["b"], all="*")
    return {
        key: (float(part["v"].sum()), part["u"].nunique())
        for by in ("all", "a", "x")
        for key, part in own.groupby(by)
    }


@often(10, 200)
def test_intervals_hold_what_is_left_of_sums_and_counts(runs: int) -> None:
    """Law: every interval holds, of what bounds cut, what is left, with its confidence (level
    1e-5) at 0.5, 0.8 and 0.95; one of half its width at 0.95 does not."""
    truth = cut_truth(ONE_EACH, 8.0)
    held: dict[tuple[str, float], list[bool]] = {}
    for seed in range(runs):
        with seeded_noise(seed):
            frame = dp.rollup(ONE_EACH, ["a", "b"], {"s": SUM, "n": "count"}, **ROUNDS)
        assert set(frame["prefix"]) == {*truth}
        for g in (0.5, 0.8, 0.95):
            shown = frame.dp.intervals(g)
            for name, place in (("s", 0), ("n", 1)):
                low, high = shown[f"{name}_lower"], shown[f"{name}_upper"]
                exact = shown["prefix"].map(lambda key, place=place: truth[key][place])
                held.setdefault((name, g), []).extend((low <= exact) & (exact <= high))
                off = (exact - (low + high) / 2).abs()
                held.setdefault((f"half of {name}", g), []).extend(off <= (high - low) / 4)
    for (name, g), several in held.items():
        enough = sum(several) >= binom.ppf(1e-5, len(several), g)
        if g == 0.95 or "half" not in name:
            assert bool(enough) is ("half" not in name), (name, g, np.mean(several))


@pytest.mark.parametrize("measure", ["sum(v, -8, 8)", "sum(v, auto, auto)", "count"])
def test_another_confidence_has_the_interval_of_the_release(measure: str) -> None:
    """Law: with the same noise, to the last bit for sums and for counts at most one user wider."""
    shown = []
    for confidence in (0.8, 0.95):
        with seeded_noise(3):
            given = {"m": measure}
            shown.append(dp.rollup(TRIPS, ["a", "b"], given, **ROUNDS, confidence=confidence))
    other = shown[0].dp.intervals(0.95)
    off = 1 if measure == "count" else 1e-9
    for end in ("m_lower", "m_upper"):
        assert np.allclose(other[end], shown[1][end], atol=off, rtol=1e-12)


# -- bad input -------------------------------------------------------------------------------------


def test_a_user_in_every_row_of_their_own_is_one_record() -> None:
    """Law: counts are counts of rows, nothing fails."""
    rows = TRIPS.assign(u=np.arange(len(TRIPS)))
    with seeded_noise(1):
        frame = dp.rollup(rows, ["a", "b"], {"n": "count", "s": SUM}, **ROUNDS)
    assert frame["n"][0] == pytest.approx(len(rows), abs=40)
    assert frame["s"][0] == pytest.approx(rows["v"].sum(), abs=200)
    assert len(frame) == 7
    assert_proved(frame)


@pytest.mark.parametrize("users", [1, 2])
def test_one_user_in_all_rows_shows_nothing_of_theirs(users: int) -> None:
    """Law: no node of so few is shown but the root, whose noise hides them."""
    rows = TRIPS.assign(u=np.arange(len(TRIPS)) % users)
    for seed in range(3):
        with seeded_noise(seed):
            frame = dp.rollup(rows, ["a", "b"], {"n": "count", "s": "sum(v, auto, auto)"}, **ROUNDS)
        assert frame["prefix"].tolist() == ["*"]
        assert (frame["n_lower"] <= users).all()
        assert (frame["n_upper"] >= users).all()
        assert_proved(frame)


def test_a_user_with_very_many_nodes_hides_nobody() -> None:
    """Law: others are found, counted and added up as if this user had few nodes."""
    many = pd.DataFrame({"u": -1, "a": np.arange(100_000).astype(str), "b": "z", "v": 1e12})
    with seeded_noise(1):
        frame = dp.rollup(
            pd.concat([TRIPS, many]), ["a", "b"], {"n": "count", "s": "sum(v, 0, auto)"}, **ROUNDS
        )
    assert {"p / x", "q / y"} <= {*frame["prefix"]}
    assert len(frame) == 7  # no node of one user
    assert frame["n"][0] == pytest.approx(USERS, abs=40)
    above = TRIPS.assign(v=TRIPS["v"].clip(lower=0))
    assert 0.3 * above["v"].sum() < frame["s"][0] < 2 * above["v"].sum()
    assert_proved(frame)


def test_a_hierarchy_of_128_levels_is_found_and_proved() -> None:
    """Law: deep paths have six parts, paid for; bands follow the declared height."""
    path = "/".join("abcdefgh" * 16)
    rows = pd.DataFrame({"u": np.arange(600), "p": [path, path[:40], path[:2] + "z"] * 200})
    with seeded_noise(1):
        frame = dp.rollup(
            rows.assign(v=1.0), "path:p?depth=128", {"n": "count", "s": "sum(v, 0, 4)"}, **ROUNDS
        )
    assert frame["level"].max() > 15
    assert_proved(frame)
    parts = frame.dp.receipt["measures"]["s"]["noise"]
    assert len(parts) == 6
    assert [each["levels"] and each["levels"][0] for each in parts[:3]] == [None, 0, 1]
    assert frame["n"][0] == pytest.approx(600, abs=100)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"keys": [("p", "x")], "delta": None}, "contribution='items' does not go with keys"),
    ({"threshold": 90}, "contribution='items' does not go with threshold"),
    ({"measures": {"s": "sum(v, 0, 8)"}, "heavy": "s"}, "does not go with heavy"),
    (
        {"by": "a * b", "measures": {"m": "mean(v, 0, 8)"}},
        r"does not go with mean\(v, 0, 8\) of cells",
    ),
    ({"user": None}, r"contribution='items' needs user="),
    ({"contribution": "records"}, "contribution"),
    ({"contribution": ["items"]}, "contribution"),
    ({"measures": {"n": "count", "m": "count"}}, "'n' and 'm' both count users"),
    ({"measures": {"s": "sum(v, 1, 8)"}}, "bounds 1 and 8, without 0 between"),
    ({"measures": {"s": "sum(v, auto, -1)"}}, "searches the other bound|without 0 between"),
    ({"measures": {"s": "sum(b, 0, 8)"}}, "numbers"),
    ({"measures": {"s": "sum(missing, 0, 8)"}}, "'missing'"),
    ({"epsilon": 30.0}, "no 64-bit noise reaches"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_rounds_cannot_do_is_refused(given: dict[str, Any], said: str) -> None:
    """Law: before the data are read, with what to do instead."""
    asked = {"by": ["a", "b"], "measures": {"n": "count"}, **ROUNDS, **given}
    with pytest.raises(dp.DpframeError, match=said):
        dp.rollup(TRIPS, **asked)


@pytest.mark.parametrize(
    "given",
    [
        {"keys": [("p", "x")], "delta": None},
        {"threshold": 90},
        {"measures": {"s": "sum(v, 0, 8)"}, "heavy": "s"},
        {"by": "a * b", "measures": {"n": "count", "m": "mean(v, 0, 8)"}},
        {"epsilon": 30.0},
    ],
    ids=["keys", "threshold", "heavy", "cells", "a large epsilon"],
)
@pytest.mark.parametrize("way", [{}, {"contribution": "auto"}], ids=["unsaid", "auto"])
def test_auto_takes_shares_where_rounds_cannot(given: dict[str, Any], way: Any) -> None:
    """Law: what was asked before rounds is answered as before; the receipt says how."""
    asked = {"by": ["a", "b"], "measures": {"n": "count"}, **BUDGET, **given}
    with seeded_noise(2):
        frame = dp.rollup(TRIPS, **asked, **way)
    with seeded_noise(2):
        as_shares = dp.rollup(TRIPS, **asked, contribution="share")
    pd.testing.assert_frame_equal(frame, as_shares)
    assert frame.dp.receipt["contribution"] == as_shares.dp.receipt["contribution"] == "share"
    assert_proved(frame)


@pytest.mark.parametrize("way", [{}, {"contribution": "auto"}, {"contribution": "items"}])
def test_auto_is_rounds_elsewhere(way: Any) -> None:
    with seeded_noise(2):
        frame = dp.rollup(TRIPS, ["a", "b"], {"n": "count"}, **BUDGET, **way)
    assert frame.dp.receipt["contribution"] == "items"
    assert_proved(frame)


ODD = [1e308, -1e308, np.nan, np.inf, -np.inf, None, -0.0, 5e-324]


@pytest.mark.parametrize("bounds", ["0, 8", "-8, 8", "auto, auto", "0, auto"])
def test_values_that_are_none_count_nothing(bounds: str) -> None:
    """Law: NULL, NaN and infinite values add nothing, huge ones are cut; numbers are finite."""
    odd = pd.DataFrame({"u": np.arange(80), "a": "p", "b": "x", "v": ODD * 10})
    with seeded_noise(1):
        frame = dp.rollup(
            pd.concat([TRIPS, odd]), ["a", "b"], {"n": "count", "s": f"sum(v, {bounds})"}, **ROUNDS
        )
    assert np.isfinite(frame[["s", "s_lower", "s_upper"]].to_numpy()).all()
    truth = TRIPS["v"].clip(lower=0 if bounds[0] == "0" else None).groupby(TRIPS["a"]).sum()
    shown = frame[frame["level"] == 1].set_index("prefix")["s"]
    for key, value in truth.items():
        assert shown[key] == pytest.approx(value, abs=0.5 * abs(value) + 400)
    assert_proved(frame)


@pytest.mark.parametrize("column", ["text", "nothing"])
def test_columns_that_hold_no_numbers(column: str) -> None:
    """Law: text is refused by its type; a column of NULL alone is 0 everywhere, and noticed."""
    rows = TRIPS.assign(text="seven", nothing=np.nan)
    measures = {"n": "count", "s": f"sum({column}, 0, auto)"}
    if column == "text":
        with pytest.raises(dp.ColumnError, match="numbers"):
            dp.rollup(rows, ["a", "b"], measures, **ROUNDS)
        return
    with seeded_noise(1):
        frame = dp.rollup(rows, ["a", "b"], measures, **ROUNDS)
    assert (frame["s_lower"] <= 0).mean() > 0.5
    assert np.isfinite(frame["s"]).all()


def test_an_empty_table_shows_the_root_alone() -> None:
    with seeded_noise(1):
        frame = dp.rollup(
            TRIPS.iloc[:0], ["a", "b"], {"n": "count", "s": "sum(v, 0, auto)"}, **ROUNDS
        )
    assert frame["prefix"].tolist() == ["*"]
    assert_proved(frame)


def test_rows_that_change_between_readings() -> None:
    """Law: users and sums are read once, with the nodes; a mean reads again, and finds out."""
    con = duckdb.connect()
    some = "CASE WHEN random() < 0.9 THEN 1 ELSE (random() * 1e9)::BIGINT END"
    query = f"SELECT range % 900 AS u, {some} AS a, random() AS b, 1 AS v"
    rows = con.sql(f"{query} FROM range(9000)")
    found = dp.rollup(rows, ["a", "b"], {"n": "count", "s": "sum(v, 0, 9)"}, **ROUNDS)
    assert found["level"].max() >= 1
    with pytest.raises(dp.SourceError, match="changed while it was read"):
        dp.rollup(rows, ["a", "b"], {"m": "mean(v, 0, 9)"}, **ROUNDS)
