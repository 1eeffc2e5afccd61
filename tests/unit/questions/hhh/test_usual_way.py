"""``hhh`` with ``user`` and no named way: rounds, or shares with the reason on the card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.members import in_turn
from tests.unit.refusals import Wrong, assert_refused, refusals

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
USER: dict[str, Any] = {**BUDGET, "user": "who"}
SHARE: dict[str, Any] = {**USER, "contribution": "share"}
BY = ["line", "stop"]

TWO = pd.DataFrame(
    [(f"u{i}", line, f"{line}{i % 5}") for i in range(2000) for line in "ab"],
    columns=["who", *BY],
)
"""Users with two finest nodes each."""

ONE = pd.DataFrame(
    [(f"u{i}", "ab"[i % 2], f"{'ab'[i % 2]}{i % 10}") for i in range(4000)], columns=["who", *BY]
)
"""Users with one row each."""


# -- which way -----------------------------------------------------------------------------------

ROUNDS, SHARES = ("rounds", "items"), ("offline", "share")
TAKEN: list[tuple[dict[str, Any], tuple[str, str], str | None]] = [
    ({}, ROUNDS, "as they show most nodes"),
    ({"contribution": "auto"}, ROUNDS, "as they show most nodes"),
    ({"remainder": False, "threshold": 40, "release_share": 0.3}, ROUNDS, "as they show most"),
    ({"at_most": 3}, ROUNDS, "as they show most nodes"),
    ({"max_contributions": 20}, ROUNDS, "as they show most nodes"),
    ({"nodes_per_user": 2}, ROUNDS, "as they show most nodes"),
    ({"nodes_per_user": 1}, SHARES, "predicted to show more with nodes_per_user=1"),
    ({"nodes_per_user": 1, "epsilon": 10.0}, ROUNDS, "as they show most nodes"),
    ({"remainder": True}, SHARES, "remainder=True needs numbers that add up"),
    ({"weight": "n", "max_weight": 9.0}, SHARES, "weights are added up"),
    ({"hierarchy": "columns:line * columns:stop"}, ROUNDS, "as they show most nodes"),
    ({"threshold": 25}, SHARES, "threshold=25 is too small for rounds"),
    ({"delta": 1e-11}, SHARES, "no noise of rounds fits this epsilon and delta"),
    ({"mechanism": "rounds"}, ROUNDS, None),
    ({"mechanism": "rounds", "contribution": "auto"}, ROUNDS, None),
    ({"mechanism": "offline"}, SHARES, None),
    ({"mechanism": "offline", "contribution": "auto"}, SHARES, None),
    ({"mechanism": "offline-gaussian"}, ("offline-gaussian", "share"), None),
    ({"contribution": "share"}, SHARES, None),
    ({"contribution": "records", "max_contributions": 2}, ("offline", "records"), None),
    ({"contribution": "items"}, ("items", "items"), None),
]


@pytest.mark.parametrize(("given", "way", "why"), TAKEN, ids=[str(given) for given, *_ in TAKEN])
def test_the_way_follows_from_the_call(
    given: dict[str, Any], way: tuple[str, str], why: str | None
) -> None:
    """Law: the card says which way was taken and why, unless the call named it."""
    plan = dp.explain(**{"hierarchy": BY, **USER, **given}).plan
    assert (plan.mechanism, plan.unit.contribution) == way
    said = [line.meaning_text for line in plan.lines() if line.id == "way"]
    assert len(said) == (why is not None)
    assert all(why is not None and why in text for text in said)


def test_the_way_is_on_the_card_of_the_release() -> None:
    with seeded_noise(1):
        rounds, shares = TWO.dp.hhh(BY, **USER), TWO.dp.hhh(BY, remainder=True, **USER)
    assert "contribution='share' has numbers that add up" in str(rounds.dp.receipt)
    assert rounds.dp.receipt["adds_up"] is False
    assert "takes them here: remainder=True needs" in str(shares.dp.receipt)


def test_a_way_that_auto_takes_is_the_named_one() -> None:
    """Law: same request, draws and rows."""
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (USER, {**USER, "mechanism": "rounds"}),
        ({**USER, "contribution": "auto"}, {**USER, "mechanism": "rounds"}),
        ({**USER, "nodes_per_user": 1}, SHARE),
        ({**USER, "remainder": True}, {**SHARE, "remainder": True}),
        ({**USER, "threshold": 25}, {**SHARE, "threshold": 25}),
    ]
    for one, other in pairs:
        assert dp.explain(BY, **one).plan.request == dp.explain(BY, **other).plan.request
        frames = []
        for given in (one, other):
            with seeded_noise(4):
                frames.append(TWO.dp.hhh(BY, **given))
        pd.testing.assert_frame_equal(*frames)


def test_auto_shows_more_where_users_have_several_nodes() -> None:
    """Law: and where they have one, the declared number does."""
    rng = np.random.default_rng(3)
    stops = [rng.choice(300, size=20, replace=False) for _ in range(1500)]
    many = pd.DataFrame({"who": np.repeat(np.arange(1500), 20), "stop": np.concatenate(stops)})
    many["line"] = many["stop"] % 7
    with seeded_noise(1):
        assert len(many.dp.hhh(BY, **USER)) > 5 * len(many.dp.hhh(BY, **SHARE))
    few = pd.DataFrame({"who": range(9000), "stop": np.repeat(np.arange(300), 30)})
    few["line"] = few["stop"] % 7
    with seeded_noise(1):
        declared = few.dp.hhh(BY, nodes_per_user=1, **USER)
        assert len(declared) > 1.2 * len(few.dp.hhh(BY, **USER))


# -- declared nodes ------------------------------------------------------------------------------


def prefixes(step: int) -> str:
    """Addresses by every ``step``-th of their 128 bits."""
    return f"ip:i?version=6&prefixes6={','.join(map(str, range(step, 129, step)))}"


ADDRESSES = pytest.param(prefixes(8), id="every 8 bits")
LONGEST = pytest.param(prefixes(1), id="every bit", marks=pytest.mark.evidence)


@in_turn(
    ("hierarchy", [["a"], BY, "path:p?depth=8", ADDRESSES, LONGEST]),
    ("epsilon", [0.3, 1.0, 3.0, 10.0]),
)
def test_one_node_takes_shares_where_they_need_fewer_users(hierarchy: Any, epsilon: float) -> None:
    """Law: the way with the smaller number on the explanation, at every height."""
    given = {**USER, "epsilon": epsilon, "nodes_per_user": 1}
    plan = dp.explain(hierarchy, **given).plan
    rounds = dp.explain(hierarchy, **USER | {"epsilon": epsilon}).plan
    several = rounds.height > 1
    shares = dp.explain(hierarchy, **SHARE | {"epsilon": epsilon}, remainder=several).plan
    assert rounds.mechanism == "rounds"
    assert plan.mechanism == ("offline" if shares.threshold < rounds.users_needed(1) else "rounds")
    assert dp.explain(hierarchy, **given | {"nodes_per_user": 2}).plan.mechanism == "rounds"


def test_declared_nodes_bound_nothing() -> None:
    """Law: a wrong number costs accuracy alone; the promise and the request are those of shares."""
    wrong = TWO.dp.hhh(BY, nodes_per_user=1, **USER)
    receipt = wrong.dp.receipt
    assert receipt["neighbours"] == "adding or removing one user ('who') with all their records"
    assert "nodes_per_user" not in dp.explain(BY, nodes_per_user=1, **USER).plan.request
    assert dp.verify(wrong).outcome == "proved"


@pytest.mark.parametrize(("frame", "said"), [(ONE, True), (TWO, False)], ids=["one", "two"])
def test_a_release_says_if_users_seem_to_have_one_node(frame: pd.DataFrame, said: bool) -> None:
    """Law: in most releases where they have, and in none where they have two."""
    found = []
    for seed in range(8):
        with seeded_noise(seed):
            notices = frame.dp.hhh(BY, **USER).dp.receipt.get("notices", [])
        found.append(any("one finest node each" in text for text in notices))
    assert sum(found) > 4 if said else not any(found)


def test_nothing_is_said_of_one_node_where_shares_would_not_show_more() -> None:
    with seeded_noise(1):
        plain = ONE.dp.hhh(BY, **USER | {"epsilon": 10.0})
        bounded = ONE.dp.hhh(BY, at_most=1, **USER)
    for frame in (plain, bounded):
        assert not any("one finest" in text for text in frame.dp.receipt.get("notices", []))


# -- what was stored, and doors ------------------------------------------------------------------


def test_what_older_versions_stored_is_replayed(tmp_path: Path) -> None:
    """Law: the call that stored shares without naming them finds them, at every door; another
    call does not."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-4)
    with seeded_noise(1):
        old = TWO.dp.hhh(BY, ledger=ledger, release="old", **SHARE)
    spent = ledger.spent
    replays = [
        TWO.dp.hhh(BY, ledger=ledger, release="old", **USER, **more)
        for more in ({}, {"contribution": "auto"}, {"nodes_per_user": 1}, {"nodes_per_user": 2})
    ]
    with duckdb.connect() as con:
        con.register("two", TWO)
        con.execute("CREATE TABLE t AS FROM two")
        dp.register(con, ledger=ledger)
        call = "dp_hhh('t', 'columns:line,stop', epsilon := 1.0, delta := 1e-6, user := 'who'"
        with seeded_noise(1):
            con.execute(f"FROM {call}, contribution := 'share', release := 'sql')").df()
        first = con.execute(f"FROM {call}, release := 'sql')").df()
        assert first["count"].tolist() == old["count"].tolist()
    for again in replays:
        pd.testing.assert_frame_equal(again, old)
        assert again.dp.receipt["replayed"]
    assert ledger.spent.epsilon == spent.epsilon + 1.0
    for other in ({"at_most": 2}, {"mechanism": "rounds"}, {"epsilon": 2.0}, {"threshold": 60}):
        with pytest.raises(dp.ReleaseNameError):
            TWO.dp.hhh(BY, ledger=ledger, release="old", **USER | other)


def test_what_was_stored_as_rounds_is_no_answer_to_shares(tmp_path: Path) -> None:
    """Negative control."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-4)
    new = TWO.dp.hhh(BY, ledger=ledger, release="new", **USER)
    again = TWO.dp.hhh(BY, ledger=ledger, release="new", mechanism="rounds", **USER)
    pd.testing.assert_frame_equal(again, new)
    with pytest.raises(dp.ReleaseNameError):
        TWO.dp.hhh(BY, ledger=ledger, release="new", **SHARE)


def test_doors_take_the_same_way(tmp_path: Path) -> None:
    file = tmp_path / "two.parquet"
    TWO.to_parquet(file)
    with duckdb.connect() as con:
        con.register("two", TWO)
        dp.register(con)
        call = "'two', 'columns:line,stop', epsilon := 1.0, delta := 1e-6, user := 'who'"
        sql = con.execute(f"FROM dp_hhh({call})").df()
        told = con.execute(f"FROM dp_explain({call}, nodes_per_user := 1)").df()
        relation = dp.hhh(con.table("two"), BY, **USER)
    assert "they are predicted to show more" in " ".join(told["meaning"])
    frames = [TWO.dp.hhh(BY, **USER), dp.hhh(file, BY, **USER), relation, sql]
    assert all(len(frame) == 13 for frame in frames)
    polars = pl.from_pandas(TWO).dp.hhh(BY, **USER)
    assert len(polars) == 13


@pytest.mark.parametrize("more", [{}, {"nodes_per_user": 1}, {"nodes_per_user": 5}])
def test_a_warehouse_counts_shares_and_says_why(more: dict[str, Any]) -> None:
    """Law: its statement belongs to the plan that shares had."""
    asked = {"table": "t", "dialect": "postgres"}
    made = dp.rollup_sql(BY, **asked, **USER, **more)
    named = dp.rollup_sql(BY, **asked, **SHARE)
    assert made.plan.fingerprint == named.plan.fingerprint
    said = "show more" if more == {"nodes_per_user": 1} else "one statement of a warehouse"
    assert said in " ".join(line.meaning_text for line in made.plan.plan.lines())


@pytest.mark.parametrize("more", [{"at_most": 3}, {"mechanism": "rounds"}])
def test_a_warehouse_refuses_what_only_rounds_do(more: dict[str, Any]) -> None:
    with pytest.raises(dp.ParameterError, match="a warehouse cannot answer rounds"):
        dp.rollup_sql(BY, table="t", dialect="duckdb", **USER, **more)


def test_explain_compares_the_ways_of_a_hierarchy() -> None:
    """Law: the same numbers whichever way is explained; none for records and weights."""
    told = {line.name: line.value for line in dp.explain(BY, **USER).lines}
    each = "if each has 1, 10, 100 finest nodes"
    assert told["way"] == "rounds"
    assert told["by shares"] == f"22, 220, 2200 users find a node, {each}"
    assert told["by rounds"] == f"32, 99, 311 users find a node, {each}"
    assert told["by items"] == f"138, 138, 863 users find a node, {each}"
    others: list[dict[str, Any]] = [{"contribution": "share"}, {"contribution": "items"}]
    for more in others:
        lines = {line.name: line.value for line in dp.explain(BY, **USER, **more).lines}
        assert all(lines[name] == told[name] for name in ("by shares", "by rounds", "by items"))
    silent: list[dict[str, Any]] = [
        {"weight": "n", "max_weight": 2.0},
        {"contribution": "records", "max_contributions": 2},
        {"hierarchy": "columns:line * columns:stop"},
    ]
    for more in silent:
        assert "by rounds" not in dict(dp.explain(**{"hierarchy": BY, **USER, **more}))


# -- bad input -----------------------------------------------------------------------------------


def test_extreme_users() -> None:
    """Law: nothing that users are like stops a call, and what one has alone is not shown."""
    small = TWO.head(2000)
    nodes = np.arange(100_000)
    big = pd.DataFrame({"who": "big", "line": nodes % 7, "stop": nodes}).astype(str)
    with seeded_noise(1):
        with_big = pd.concat([small, big]).dp.hhh(BY, **USER)
        alone = small.assign(who="x").dp.hhh(BY, **USER)
        unique = small.assign(who=range(len(small))).dp.hhh(BY, **USER)
    assert not set(with_big["stop"].dropna()) - set(small["stop"])
    assert with_big["level"].max() == 2
    assert alone["level"].tolist() == [0]
    assert any("nothing was shown" in text for text in alone.dp.receipt["notices"])
    assert any("one finest node each" in text for text in unique.dp.receipt["notices"])


WITHOUT: dict[str, Any] = {"user": None}
WHOLE = "must be a whole number"

WRONG: list[Wrong] = [
    (WITHOUT | {"contribution": "auto"}, dp.ParameterError, ("contribution ('auto') needs user=",)),
    (WITHOUT | {"nodes_per_user": 1}, dp.ParameterError, ("nodes_per_user (1) needs user=",)),
    ({"nodes_per_user": 0}, dp.ParameterError, ("nodes_per_user (0)", WHOLE)),
    ({"nodes_per_user": 1.5}, dp.ParameterTypeError, (WHOLE,)),
    ({"nodes_per_user": "few"}, dp.ParameterTypeError, (WHOLE,)),
    ({"nodes_per_user": True}, dp.ParameterTypeError, (WHOLE,)),
    (
        {"nodes_per_user": 1, "contribution": "share"},
        dp.ParameterError,
        ("contribution='share' has chosen",),
    ),
    (
        {"nodes_per_user": 1, "mechanism": "rounds"},
        dp.ParameterError,
        ("mechanism='rounds' has chosen",),
    ),
    (
        {"at_most": 3, "nodes_per_user": 1},
        dp.ParameterError,
        ("at_most (3) is for rounds", "Leave at_most out"),
    ),
    (
        {"at_most": 3, "remainder": True},
        dp.ParameterError,
        ("at_most (3) is for rounds", "remainder=True needs numbers that add up"),
    ),
    ({"at_most": 0, "contribution": "auto"}, dp.ParameterError, ("at_most (0)", WHOLE)),
    (
        {"max_contributions": 9, "weight": "n", "max_weight": 1.0},
        dp.ParameterError,
        ("max_contributions (9) is for rounds", "weights are added up"),
    ),
    ({"max_contributions": 1}, dp.ParameterError, ("max_contributions (1)", WHOLE)),
    ({"contribution": "autos"}, dp.ParameterError, ("one of auto, share, records, items",)),
    (
        {"contribution": "auto", "mechanism": "streaming"},
        dp.ParameterError,
        ("mechanism='streaming' has neither",),
    ),
    ({"counters": 9}, dp.ParameterError, ("counters (9) is the size of a sketch",)),
    ({"epsilon": None, "at_most": 3}, dp.BudgetError, ("epsilon is missing",)),
    ({"epsilon": None, "error": 5}, dp.ParameterError, ("or at_most=, or contribution='share'",)),
]


@refusals(WRONG)
def test_what_is_wrong_is_refused(case: Wrong) -> None:
    assert_refused(dp.explain, case, hierarchy=BY, **USER)
