"""Values that many users have, and how many: what ``heavy_hitters`` with ``user`` answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import columns
from dpframe.sources.user_nodes import user_nodes
from dpframe.testing import seeded_noise
from tests.members import some
from tests.unit.refusals import Wrong, assert_refused, refusals

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
USER: dict[str, Any] = {"user": "who"}
SHARE: dict[str, Any] = {**USER, "contribution": "share"}
USERS = {"fix": 900, "add": 500, "é": 300, "seldom": 5}

TYPED = [(word, u) for word, n in USERS.items() for u in range(n) for _ in range(1 + u % 3)]
TYPED += [(None, u) for u in range(400)]
WORDS = pd.DataFrame([{"word": word, "who": f"u{u % 1000}"} for word, u in TYPED])


def test_users_are_counted_once_a_value() -> None:
    """Law: numbers are near the truth, the largest first; what few have does not come."""
    with seeded_noise(1):
        found = WORDS.dp.heavy_hitters("word", user="who", **BUDGET)
    assert found["word"].tolist() == ["fix", "add", "<invalid>", "é"]
    truth = np.array([900, 500, 400, 300])
    assert (np.abs(found["count"] - truth) < 150).all()
    assert (found["lower"] <= found["count"]).all()
    assert (found["count"] <= found["upper"]).all()
    receipt = found.dp.receipt
    assert receipt["mechanism"] == "rounds"
    assert receipt["neighbours"] == "adding or removing one user ('who') with all their records"
    assert receipt["at_most"] in (1, 2, 3, 4)
    assert receipt["computed_delta"] <= 1e-6
    assert "different users" in str(receipt)


def test_many_items_of_a_user_find_more_than_shares_do() -> None:
    """Law: where users hold many values each, weights find them and shares do not."""
    rng = np.random.default_rng(5)
    many = [rng.choice(200, size=60, replace=False) for _ in range(600)]
    frame = pd.DataFrame({"who": np.repeat(np.arange(600), 60), "item": np.concatenate(many)})
    with seeded_noise(2):
        shares = frame.dp.heavy_hitters("item", user="who", contribution="share", **BUDGET)
        weights = frame.dp.heavy_hitters("item", user="who", **BUDGET)
    assert len(shares) == 0
    assert len(weights) > 20
    assert frame["item"].isin(weights["item"]).any()


@pytest.mark.parametrize("rows", [0, 1, 30])
@pytest.mark.parametrize("at_most", [None, 5])
def test_nothing_is_found_where_few_users_are(rows: int, at_most: int | None) -> None:
    some = WORDS.head(rows)
    found = some.dp.heavy_hitters("word", user="who", at_most=at_most, **BUDGET)
    assert len(found) == 0
    assert list(found.columns) == ["word", "count", "lower", "upper"]
    assert "no node reached the threshold of 31 users" in str(found.dp.receipt)


def test_the_order_of_the_rows_and_their_number_change_nothing() -> None:
    answers = []
    for rows in (WORDS, WORDS.sample(frac=1, random_state=1), pd.concat([WORDS, WORDS])):
        with seeded_noise(6):
            answers.append(rows.dp.heavy_hitters("word", user="who", **BUDGET))
    pd.testing.assert_frame_equal(answers[0], answers[1])
    pd.testing.assert_frame_equal(answers[0], answers[2])


def test_users_as_values_and_users_without_a_name() -> None:
    """Law: a column can be user and value at once; all rows without a user are one user's."""
    same = WORDS.dp.heavy_hitters("who", user="who", **BUDGET)
    assert len(same) == 0
    nobody = pd.DataFrame({"word": ["fix"] * 5000, "who": [None] * 5000})
    assert len(nobody.dp.heavy_hitters("word", user="who", **BUDGET)) == 0


def test_a_threshold_hides_what_fewer_users_have() -> None:
    """Law: with ``threshold`` no shown count is below it; one that is too small is refused."""
    with seeded_noise(1):
        found = WORDS.dp.heavy_hitters("word", user="who", threshold=450, **BUDGET)
    assert set(found["word"]) >= {"fix"}
    assert (found["count"] >= 450).all()
    assert "are left out" in found.dp.receipt["intervals"]
    with pytest.raises(dp.ThresholdError, match="smallest private threshold"):
        WORDS.dp.heavy_hitters("word", user="who", threshold=5, **BUDGET)


def test_at_most_is_what_was_asked_for_and_intervals_follow() -> None:
    """Law: a bound of the caller is not searched; the error grows with its root."""
    few, more = (
        dp.explain_heavy_hitters("word", user="who", at_most=n, **BUDGET).plan for n in (4, 64)
    )
    assert more.errors["count"] == pytest.approx(4 * few.errors["count"], rel=0.01)
    with seeded_noise(1):
        found = WORDS.dp.heavy_hitters("word", user="who", at_most=4, **BUDGET)
    assert found.dp.receipt["at_most"] == 4
    wider = found.dp.intervals(0.999)
    assert (wider["upper"] - wider["lower"] > found["upper"] - found["lower"]).all()


def test_explain_says_what_each_way_needs() -> None:
    """Law: how many users find a value; the same from both ways, of hierarchies of finest nodes."""
    told = dp.explain_heavy_hitters("word", user="who", **BUDGET)
    lines = {line.name: line.value for line in told.lines}
    assert lines["by shares"] == "27, 270, 2700 users find a value, if each has 1, 10, 100 values"
    assert lines["by rounds"] == "31, 96, 303 users find a value, if each has 1, 10, 100 values"
    other = dp.explain_heavy_hitters("word", user="who", contribution="share", **BUDGET)
    assert {line.name: line.value for line in other.lines}["by rounds"] == lines["by rounds"]
    deep = dp.explain(["word", "who"], user="who", **BUDGET)
    told_deep = {line.name: line.value for line in deep.lines}
    assert told_deep["by rounds"].endswith("if each has 1, 10, 100 finest nodes")


def test_old_names_replay_what_shares_answered(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-4)
    named: dict[str, Any] = {**BUDGET, "user": "who", "ledger": ledger, "release": "words"}
    stored = dp.heavy_hitters(WORDS, "word", mechanism="offline", **named)
    again = dp.heavy_hitters(WORDS, "word", **named)
    assert again.dp.receipt["replayed"]
    assert again["count"].tolist() == stored["count"].tolist()
    assert ledger.spent.epsilon == pytest.approx(1.0)
    new = dp.heavy_hitters(WORDS, "word", **{**named, "release": "other"})
    assert new.dp.receipt["mechanism"] == "rounds"
    same = dp.heavy_hitters(WORDS, "word", **{**named, "release": "other"})
    assert same["count"].tolist() == new["count"].tolist()
    with pytest.raises(dp.ReleaseNameError):
        dp.heavy_hitters(WORDS, "word", **{**named, "release": "other", "at_most": 3})


def test_sql_gives_the_same_rows_of_a_temporary_table() -> None:
    with seeded_noise(3), duckdb.connect() as con:
        con.register("frame", WORDS)
        con.execute("CREATE TEMP TABLE words AS FROM frame")
        dp.register(con)
        asked = "'words', \"user\" := 'who', epsilon := 1.0, delta := 1e-6, at_most := 3"
        found = con.execute(f"FROM dp_heavy_hitters({asked}, \"column\" := 'word')").df()
    with seeded_noise(3):
        expected = dp.heavy_hitters(WORDS, "word", user="who", at_most=3, **BUDGET)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


@refusals(
    [
        ({"mechanism": "rounds"}, dp.ParameterError, ("needs user=",)),
        ({"at_most": 3}, dp.ParameterError, ("at_most (3) needs user=",)),
        ({"contribution": "items"}, dp.ParameterError, ("contribution ('items') needs user=",)),
        ({**USER, "at_most": 0}, dp.ParameterError, ("at_most (0)",)),
        ({**SHARE, "at_most": 3}, dp.ParameterError, ("mechanism='rounds'",)),
        ({**SHARE, "mechanism": "rounds"}, dp.ParameterError, ("contribution='share'",)),
        ({**USER, "counters": 9}, dp.ParameterError, ("mechanism='streaming'",)),
        ({**USER, "max_contributions": 0}, dp.ParameterError, ("max_contributions (0)",)),
        ({**USER, "delta": 1e-12}, dp.BudgetError, ("contribution='share'",)),
    ]
)
def test_wrong_arguments(case: Wrong) -> None:
    assert_refused(WORDS.dp.heavy_hitters, case, column="word", **BUDGET)


def test_pairs_are_those_of_the_rows_and_a_sample_is_of_its_user() -> None:
    """Law: every pair once; what of a user takes part does not depend on others."""
    items = [*range(30), *range(10), 1, 1, 2, 5, 5]
    frame = pd.DataFrame({"who": ["a"] * 40 + ["b"] * 3 + [None] * 2, "item": items})
    for _ in range(3):
        with seeded_noise(8):
            both = user_nodes(frame, columns("item"), PrivacyUnit(user="who"), 7, (1,))
        with seeded_noise(8):
            alone = user_nodes(frame[:40], columns("item"), PrivacyUnit(user="who"), 7, (1,))
        assert (both.size, len(both.node), both.taking_part.sum()) == (31, 33, 10)
        assert both.taking_part.sum() - 3 == alone.taking_part.sum() == 7
        kept = [
            {held.nodes.keys[0][int(v)].as_py() for v in held.node[held.taking_part & heavy]}
            for held in (both, alone)
            for many in [np.diff(held.starts)]
            for heavy in [np.repeat(many > 7, many)]
        ]
        assert kept[0] == kept[1]
    assert repr(both) == "UserNodes(<private>)"


ITEMS = "\"user\" := 'u', contribution := 'items', "
CALLS = [
    "dp_heavy_hitters({}, \"column\" := 'k', \"user\" := 'u', ",
    "dp_hhh({}, hierarchy := ['k'], " + ITEMS,
    "dp_tree_counts({}, hierarchy := ['k'], keys := ['k1'], " + ITEMS,
]


@pytest.mark.parametrize("call", CALLS)
def test_a_source_that_is_different_at_every_read_is_read_once(call: str) -> None:
    """Law: what bounds a user and what is counted are one read."""
    with duckdb.connect() as con:
        con.execute("CREATE SEQUENCE rows_read")
        con.execute(
            "CREATE VIEW moving AS SELECT range // 10 AS u, "
            "'k' || (nextval('rows_read') % 50) AS k FROM range(5000)"
        )
        dp.register(con)
        asked = call.format("tbl := 'moving'") + "at_most := 2, epsilon := 5.0, delta := 1e-6)"
        assert con.execute(f"SELECT * FROM {asked}").fetchall()
        assert con.execute("SELECT nextval('rows_read')").fetchall() == [(5001,)]


def test_how_a_connection_writes_arrow_changes_nothing() -> None:
    """Law: lists and texts as views, large or in any order are the same lists and texts."""
    answers = []
    for settings in (
        (),
        ("arrow_output_list_view = true", "produce_arrow_string_view = true"),
        ("arrow_large_buffer_size = true", "preserve_insertion_order = false"),
        ("default_null_order = 'nulls_first'", "default_order = 'desc'"),
    ):
        with duckdb.connect() as con, seeded_noise(4):
            for setting in settings:
                con.execute(f"SET {setting}")
            con.register("frame", WORDS)
            found = dp.heavy_hitters(con.table("frame"), "word", user="who", **BUDGET)
            answers.append(found.to_dict("list"))
    assert answers == [answers[0]] * 4


# -- nodes of several levels -----------------------------------------------------------------------

CITIES = {"FR": {"Paris": 500, "Lyon": 300, "Albi": 3}, "DE": {"Bonn": 150}, "IS": {"Vik": 2}}
VISITS = pd.DataFrame(
    [
        {"country": country, "city": city, "who": f"{country}{u % 600}", "n": u % 7}
        for country, cities in CITIES.items()
        for city, users in cities.items()
        for u in range(users)
        for _ in range(1 + u % 2)
    ]
)
LEVELS: dict[str, Any] = {**USER, **BUDGET, "mechanism": "rounds"}
PLACES = ["country", "city"]


def test_nodes_of_all_levels_are_found_and_their_users_counted() -> None:
    """Law: numbers are near the truth at every level, the root has all users, and what few users
    have does not come."""
    with seeded_noise(3):
        found = VISITS.dp.hhh(PLACES, **LEVELS)
    shown = dict(zip(found["prefix"], found["count"], strict=True))
    true = {"*": 500 + 150 + 2, "FR": 500, "DE": 150}
    true |= {"FR / Paris": 500, "FR / Lyon": 300, "DE / Bonn": 150}
    assert shown.keys() == true.keys()
    assert all(abs(shown[node] - users) < 120 for node, users in true.items())
    assert (found["residual"] == found["count"]).all()
    receipt = found.dp.receipt
    assert (receipt["mechanism"], receipt["height"], receipt["adds_up"]) == ("rounds", 2, False)
    assert "more of the nodes above these than at_most_above" in receipt["counts"]
    card = {name: value for name, value, _ in receipt["card"]}
    errors = re.fullmatch(r"(\S+) at lowest nodes, (\S+) at nodes above", card["standard error"])
    told = [receipt["noise"][part]["sd"] for part in ("release", "above")]
    assert errors is not None
    assert list(map(float, errors.groups())) == pytest.approx(told, rel=0.01)
    assert dp.verify(VISITS.dp.hhh(PLACES, **LEVELS))


def test_rounds_show_nodes_that_shares_hide() -> None:
    """Law: where users have many finest nodes each, rounds find them and shares do not."""
    rng = np.random.default_rng(5)
    many = np.concatenate([rng.choice(200, size=60, replace=False) for _ in range(600)])
    frame = pd.DataFrame({"who": np.repeat(np.arange(600), 60), "top": many % 7, "item": many})
    with seeded_noise(2):
        ways = [frame.dp.hhh(["top", "item"], **{**LEVELS, "mechanism": m}) for m in MECHANISMS]
    shares, rounds = ((way["level"] == 2).sum() for way in ways)
    assert (shares, rounds > 20) == (0, True)


MECHANISMS = ("offline", "rounds")


def test_intervals_of_any_confidence_are_those_of_a_release_with_it() -> None:
    """Law: the receipt tells the units of the lowest rows and of those above them; a drawn count is
    known up to a whole user."""
    with seeded_noise(4):
        found = VISITS.dp.hhh(PLACES, **LEVELS)
    with seeded_noise(4):
        want = VISITS.dp.hhh(PLACES, confidence=0.5, **LEVELS)
    narrow = found.dp.intervals(0.5)
    assert (want["lower"] - narrow["lower"]).isin([0, 1]).all()
    assert (narrow["upper"] - want["upper"]).isin([0, 1]).all()
    assert (found["upper"] - found["lower"] > want["upper"] - want["lower"]).all()


@some("0.95")
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_intervals_cover_as_often_as_they_say(confidence: float) -> None:
    """Law: given what is counted, at the lowest nodes and above them; a narrower one does not."""
    covered, narrow = [], []
    for seed in range(60):
        with seeded_noise(seed):
            found = VISITS.dp.hhh(PLACES, at_most=3, confidence=confidence, **LEVELS)
        true = found["prefix"].map({"*": 652, "FR": 500, "DE": 150, "FR / Paris": 500})
        known = true.notna()
        off = (found["count"] - true).abs()[known]
        covered += ((found["lower"] <= true) & (true <= found["upper"]))[known].tolist()
        narrow += (off <= (found["upper"] - found["count"])[known] * 0.6).tolist()
    spread = 3 * (confidence * (1 - confidence) / len(covered)) ** 0.5
    assert np.mean(covered) >= confidence - spread > np.mean(narrow)


def test_a_threshold_hides_rows_and_keeps_what_is_above_others() -> None:
    """Law: a node above a shown one is shown, whatever its own number."""
    with seeded_noise(3):
        some = VISITS.dp.hhh(PLACES, threshold=250, **LEVELS)
    assert some["prefix"].tolist() == ["*", "FR", "FR / Lyon", "FR / Paris"]
    alone = VISITS.dp.hhh(PLACES, threshold=470, at_most=1, **{**LEVELS, "epsilon": 9.0})
    same = alone.dp.intervals(0.95)
    assert (alone["upper"] - same["upper"]).abs().max() <= 1


@refusals(
    [
        ({"user": None}, dp.ParameterError, ("mechanism='rounds' needs user=",)),
        ({"contribution": "share"}, dp.ParameterError, ("contribution='share'", "Leave")),
        ({"max_contributions": 1}, dp.ParameterError, ("max_contributions (1)", "2")),
        ({"weight": "n", "max_weight": 3}, dp.ParameterError, ("weight",)),
        ({"counters": 9}, dp.ParameterError, ("counters",)),
        ({"totals": True}, dp.ParameterError, ("totals",)),
        ({"remainder": True}, dp.ParameterError, ("remainder",)),
        ({"at_most": 3000}, dp.ParameterError, ("at_most (3000)", "2000")),
        ({"hierarchy": ["country", "city"], "keys": 1}, dp.ParameterTypeError, ("keys",)),
    ]
)
def test_wrong_arguments_of_levels(case: Wrong) -> None:
    assert_refused(VISITS.dp.hhh, case, hierarchy=PLACES, **LEVELS)
