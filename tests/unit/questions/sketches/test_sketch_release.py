"""Public releases of sketches: arguments, shape of results, memory of releases, ledgers, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.noise import replaced_bits
from dpframe.sketches import merge_raw_sketches as raw_merged
from dpframe.testing import seeded_noise
from tests.unit.refusals import SECRET, Wrong, assert_refused, refusals

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
PURE = {"delta": None}
STREAM = ["sEcReT-4711 a"] * 900 + ["sEcReT-4711 b"] * 700 + ["sEcReT-4711 c"] * 3
KINDS = ["variant", "standard", "users", "sum", "bounded", "users merged"]


def made(kind: str, stream: Any = STREAM, counters: int = 8) -> Any:
    if kind.startswith("users"):
        users = dp.PrivacyAwareMisraGries(counters, 3)
        users.update_users(np.arange(len(stream)), stream)
        return users if kind == "users" else users.merge(dp.PrivacyAwareMisraGries(counters, 2))
    if kind.startswith("stream"):
        streams = dp.StreamingHHH(["a"], counters=counters)
        streams.update(pd.DataFrame({"a": stream}))
        empty = dp.StreamingHHH(["a"], counters=counters)
        return streams if kind == "stream" else dp.merge_sketches([streams, empty])
    sketch = dp.MisraGries(counters, standard=kind == "standard")
    sketch.update(stream)
    if kind in ("sum", "bounded"):
        return dp.merge_sketches([sketch, dp.MisraGries(counters)], method=kind)
    return sketch


def no_bits(n: int) -> Any:
    raise AssertionError("noise was drawn")


every_kind = pytest.mark.parametrize("kind", KINDS)
every_class = pytest.mark.parametrize("kind", [*KINDS, "stream", "streams"])


# -- what a release is ---------------------------------------------------------------------------


@every_kind
def test_a_release_has_the_same_shape_for_every_sketch(kind: str) -> None:
    """Law: key, count, lower, upper, by key; large keys are in it, intervals hold the truth."""
    with seeded_noise(1):
        frame = made(kind).release(**BUDGET, confidence=0.999)
    assert list(frame.columns) == ["key", "count", "lower", "upper"]
    assert [str(t) for t in frame.dtypes][1:] == ["int64", "int64", "Int64"]
    assert frame["key"].tolist() == ["sEcReT-4711 a", "sEcReT-4711 b"]
    true = np.array([900, 700])
    assert (frame["lower"] <= true).all()
    known = kind in ("variant", "standard")
    assert frame["upper"].notna().all() == known
    assert not known or (true <= frame["upper"]).all()
    assert frame.dp.receipt["sketch_error"] is not None if known else True


@every_kind
def test_a_declared_number_of_records_gives_the_upper_bound(kind: str) -> None:
    sketch = made(kind)
    if kind in ("variant", "standard"):
        with pytest.raises(dp.ParameterError, match="records is not needed"):
            sketch.release(**BUDGET, records=2000)
        return
    with seeded_noise(2):
        frame = sketch.release(**BUDGET, records=len(STREAM), confidence=0.999)
    assert (np.array([900, 700]) <= frame["upper"]).all()
    assert frame.dp.receipt["unpublished_at_most"] >= 3


@pytest.mark.parametrize("kind", ["variant", "standard", "sum", "bounded", "users"])
def test_a_universe_needs_no_delta(kind: str) -> None:
    """Law: noise on every listed key, the k largest, delta 0 in receipt and claim."""
    sketch = made(kind, counters=2)
    universe = ["z", "sEcReT-4711 b", "never seen", "sEcReT-4711 a"]
    with seeded_noise(3):
        frame = sketch.release(epsilon=1.0, universe=universe, records=len(STREAM))
    receipt = frame.dp.receipt
    assert frame["key"].tolist() == ["sEcReT-4711 a", "sEcReT-4711 b"]
    assert (receipt["delta"], receipt["computed_delta"], receipt["universe"]) == (0.0, 0.0, 4)
    assert receipt["guarantee"].startswith("1-differential privacy for")
    assert (frame["lower"] <= [900, 700]).all()
    assert (frame["upper"] >= [900, 700]).all()


TYPES: list[tuple[Any, str, Any]] = [
    *(([5] * 900, "int64", 5), (np.full(900, 7, np.uint64), "int64", 7), ([], "object", None)),
    *(([2**63 + 1] * 900, "uint64", 2**63 + 1), (["é"] * 900, str(pd.Series(["é"]).dtype), "é")),
    *(([b"\xff\0"] * 900, "object", b"\xff\0"), ([5], "object", None), ([b"x"], "object", None)),
]


@pytest.mark.parametrize(("stream", "dtype", "first"), TYPES)
def test_keys_come_out_as_what_they_are(stream: Any, dtype: str, first: object) -> None:
    """Law: types of keys follow the published ones; without rows nothing tells what was seen."""
    frame = made("variant", stream).release(**BUDGET)
    assert str(frame["key"].dtype) == dtype
    assert frame["key"].tolist() == ([] if first is None else [first])


def test_a_universe_of_signed_keys_meets_a_sketch_of_unsigned_ones() -> None:
    for stream, universe in (
        ([2**63 + 1] * 900 + [3] * 800, [-1, 3]),
        ([-1] * 900 + [3] * 800, np.array([3, 2**63 + 1], np.uint64)),
    ):
        with seeded_noise(1):
            frame = made("variant", stream).release(epsilon=1.0, universe=universe)
        assert dict(zip(frame["key"], frame["count"] > 400, strict=True)) == {
            universe[0]: int(universe[0]) == 3,
            universe[1]: int(universe[1]) == 3,
        }


@every_kind
def test_receipts_speak_as_all_others_do(kind: str) -> None:
    """Law: every key of a receipt of ``hhh`` that is not about levels and nodes; JSON; a card."""
    receipt = made(kind).release(**BUDGET).dp.receipt
    other = pd.DataFrame({"a": ["x"] * 400}).dp.hhh(["a"], **BUDGET).dp.receipt
    assert set(other) - set(receipt) <= {"height", "levels", "remainder", "not_shown"}
    assert json.loads(receipt.to_json()) == receipt.to_dict()
    assert receipt["guarantee"] in str(receipt)
    assert 0 < receipt["computed_delta"] <= receipt["delta"] == 1e-6
    assert SECRET not in str(receipt) + receipt.to_json() + receipt._repr_html_()
    protected = "user" if "users" in kind else "record"
    assert f"removing one {protected}" in receipt["neighbours"]


def test_groups_of_records_are_told_and_paid_for() -> None:
    one, many = (made("variant").release(**BUDGET, max_contributions=m).dp.receipt for m in (1, 4))
    assert many["noise"]["count"]["sd"] > 3 * one["noise"]["count"]["sd"]
    assert "at most 4 (promised by the caller)" in many["guarantee"]
    pure = (
        made("sum").release(epsilon=1.0, universe=["sEcReT-4711 a"], max_contributions=4).dp.receipt
    )
    assert "at most 4" in pure["guarantee"]
    with pytest.raises(dp.ParameterError, match="single records"):
        made("users").release(**BUDGET, max_contributions=4)


# -- a sketch remembers --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["variant", "standard", "users", "stream"])
def test_a_released_sketch_takes_no_records_unless_asked(kind: str, tmp_path: Path) -> None:
    """Law: update raises and changes nothing, also after a file; ``resume`` lifts it once."""
    sketch = made(kind)
    new: Any = pd.DataFrame({"a": ["new"]}) if kind == "stream" else ["new"]
    sketch.release(**BUDGET)
    before = sketch.top(5), sketch.total, sketch.decrements
    said = "call " if kind == "stream" else r"sketch\."
    sketch.save(tmp_path / "sketch")
    for one in (sketch, type(sketch).load(tmp_path / "sketch")):
        with pytest.raises(dp.ParameterError, match=rf"{said}resume\(\)"):
            one.update(new)
        assert (one.top(5), one.total, one.decrements) == before
        one.resume()
        one.update(new)
        assert one.total == before[1] + 1
        assert one.release(**BUDGET).dp.receipt["release_number"] == 2
        with pytest.raises(dp.ParameterError, match="resume"):
            one.update(new)
    if kind == "users":
        with pytest.raises(dp.ParameterError, match="resume"):
            sketch.update_users([10**6], ["new"])


def test_a_resumed_sketch_stays_so_over_a_file(tmp_path: Path) -> None:
    sketch = made("variant")
    sketch.release(**BUDGET)
    sketch.resume()
    sketch.save(tmp_path / "sketch")
    loaded = dp.MisraGries.load(tmp_path / "sketch")
    loaded.update(["x"])
    assert loaded.releases == 1


@every_class
def test_releases_are_counted_and_told(kind: str, tmp_path: Path) -> None:
    """Law: each release is new noise with a name of its own; the receipt says what adds up."""
    sketch = made(kind)
    receipts = [sketch.release(**BUDGET).dp.receipt for _ in range(3)]
    assert [r["release_number"] for r in receipts] == [1, 2, 3]
    assert len({r["release_id"] for r in receipts}) == 3
    assert "of this sketch" not in str(receipts[0])
    assert "release 2 of this sketch; both count" in str(receipts[1])
    assert "release 3 of this sketch; all count" in str(receipts[2])
    sketch.save(tmp_path / "sketch")
    assert type(sketch).load(tmp_path / "sketch").releases == sketch.releases == 3


def test_a_merge_of_released_sketches_remembers() -> None:
    """Law: a record is in one of the sketches, so the largest number of releases counts."""
    one, other = made("variant"), made("variant")
    one.release(**BUDGET)
    one.release(**BUDGET)
    week = one.merge(other)
    assert (week.releases, other.releases) == (2, 0)
    assert week.release(**BUDGET).dp.receipt["release_number"] == 3
    assert one.releases == 2


# -- merging -------------------------------------------------------------------------------------


def test_merges_of_public_sketches_are_public_sketches(tmp_path: Path) -> None:
    one = made("variant")
    for week in (
        one.merge(made("standard")),
        dp.merge_sketches([one, made("bounded")]),
        one.merge(made("variant")).merge(made("variant")),
        made("users").merge(made("users merged")),
    ):
        assert type(week) is dp.MergedSketch
        week.save(tmp_path / "week")
        assert type(dp.MergedSketch.load(tmp_path / "week")) is dp.MergedSketch
        with pytest.raises(dp.ParameterTypeError, match="takes no records"):
            week.update(["x"])
    assert type(raw_merged([one, made("variant")])) is not dp.MergedSketch


def test_the_method_of_a_merge_follows_public_facts_only() -> None:
    """Law: merged sketches decide, then a declared number of records; users are always bounded."""
    pair = [made("variant", counters=100), made("variant", counters=100)]
    assert dp.merge_sketches(pair).method == "bounded"
    assert dp.merge_sketches(pair, records=50_000).method == "sum"
    assert dp.merge_sketches(pair, records=50_001).method == "bounded"
    assert dp.merge_sketches(iter(pair), records=10).method == "sum"
    assert dp.merge_sketches([made("variant"), made("sum")]).method == "sum"
    assert made("sum").merge(made("variant")).method == "sum"
    assert dp.merge_sketches([made("users"), made("users")], records=1).method == "bounded"
    for wrong, words in (
        (lambda: dp.merge_sketches(pair, method="sum", records=10), "records and method"),
        (lambda: dp.merge_sketches([]), "is empty"),
        (lambda: dp.merge_sketches(pair[0]), "sketches must"),  # type: ignore[arg-type]
        (lambda: dp.merge_sketches([1, 2]), "must be sketches"),  # type: ignore[list-item]
        (lambda: dp.merge_sketches([made("variant"), made("variant", counters=9)]), "counters"),
        (lambda: dp.merge_sketches([made("variant"), made("variant", [1, 2])]), "different kinds"),
    ):
        with pytest.raises(dp.DpframeError, match=words):
            wrong()


# -- ledgers -------------------------------------------------------------------------------------


@every_class
@pytest.mark.parametrize("accountant", ["sum", "pld"])
def test_every_release_is_charged(kind: str, accountant: Any, tmp_path: Path) -> None:
    """Law: on disk before the draw, under the id of the receipt; pld never costs more than sum."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5, accountant=accountant)
    sketch = made(kind)
    with dp.use_ledger(ledger):
        receipts = [sketch.release(**BUDGET).dp.receipt for _ in range(2)]
    ids = ledger.releases()["release_id"].tolist()
    assert [r["release_id"] for r in receipts] == ids
    assert receipts[1]["ledger"]["left_epsilon"] == pytest.approx(ledger.left.epsilon)
    assert "in the ledger" in receipts[1]["budget"]
    assert ledger.spent.epsilon <= 2.0
    if accountant == "sum":
        assert (ledger.spent.epsilon, ledger.spent.delta) == (2.0, 2e-6)


def test_a_pure_release_charges_no_delta(tmp_path: Path) -> None:
    for accountant in ("sum", "pld"):
        total: Any = {"epsilon": 3.0, "delta": 1e-5, "accountant": accountant}
        ledger = dp.Ledger(tmp_path / f"{accountant}.db", **total)
        made("variant").release(epsilon=1.0, universe=["sEcReT-4711 a"], ledger=ledger)
        assert ledger.spent.epsilon <= 1.0
        if accountant == "sum":
            assert ledger.spent.delta == 1e-18


@pytest.mark.parametrize("kind", ["variant", "stream", "streams"])
def test_over_budget_nothing_is_drawn_or_marked(kind: str, tmp_path: Path) -> None:
    """Law: refused before the data are read; a draw that fails was charged and counts."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=1.5, delta=1e-5)
    sketch, other = made(kind), made(kind)
    with replaced_bits(no_bits), pytest.raises(AssertionError, match="drawn"):
        sketch.release(**BUDGET, ledger=ledger)
    with replaced_bits(no_bits), pytest.raises(dp.OverBudgetError):
        other.release(**BUDGET, ledger=ledger)
    assert (sketch.releases, other.releases, ledger.spent.epsilon) == (1, 0, 1.0)


# -- wrong in every way --------------------------------------------------------------------------

WRONG: list[Wrong] = [
    ({"epsilon": None}, dp.BudgetError, ("epsilon is missing",)),
    ({"epsilon": 51}, dp.BudgetError, ("epsilon (51) must be a finite number",)),
    ({"delta": None}, dp.BudgetError, ("delta is missing", "universe=")),
    ({"delta": 0}, dp.BudgetError, ("delta",)),
    ({"universe": ["a"]}, dp.ParameterError, ("does not go with",)),
    ({**PURE, "universe": []}, dp.ParameterError, ("universe is empty",)),
    ({**PURE, "universe": ["a", "b", "a"]}, dp.ParameterError, ("holds a key twice",)),
    ({**PURE, "universe": ["a", None]}, dp.ParameterError, ("universe ", "NULL")),
    ({**PURE, "universe": [1.5]}, dp.ParameterTypeError, ("universe ", "floating")),
    ({**PURE, "universe": ["a", 1]}, dp.ParameterTypeError, ("universe ", "mixed")),
    ({**PURE, "universe": SECRET}, dp.ParameterTypeError, ("must be a list of keys",)),
    ({**PURE, "universe": {"a": 1}}, dp.ParameterTypeError, ("universe ", "mapping")),
    ({"confidence": 1.0}, dp.ParameterError, ("confidence",)),
    ({"confidence": "high"}, dp.ParameterTypeError, ("confidence",)),
    ({"records": -1}, dp.ParameterError, ("records",)),
    ({"records": "many"}, dp.ParameterTypeError, ("records",)),
    ({"max_contributions": 0}, dp.ParameterError, ("max_contributions",)),
    ({"max_contributions": 1.5}, dp.ParameterTypeError, ("max_contributions",)),
    ({"ledger": 3}, dp.ParameterTypeError, ("ledger must be",)),
]


@refusals(WRONG)
def test_wrong_arguments_draw_nothing(case: Wrong) -> None:
    sketch = made("bounded")
    with replaced_bits(no_bits):
        assert_refused(sketch.release, case, **BUDGET)
    assert sketch.releases == 0


def test_a_budget_out_of_reach_says_so() -> None:
    for arguments, match in (
        ({"epsilon": 1e-4, "delta": 1e-12}, "100000 counters.*lower the number"),
        ({**BUDGET, "max_contributions": 1_000_000}, "lower max_contributions"),
        ({"epsilon": 1.0, "universe": ["a"], "max_contributions": 1_000_000}, "max_contributions"),
    ):
        sketch = made("bounded", counters=100_000)
        with replaced_bits(no_bits), pytest.raises(dp.BudgetError, match=match):
            sketch.release(**arguments)  # type: ignore[arg-type]
        assert sketch.releases == 0


# -- the package ---------------------------------------------------------------------------------


def test_a_sketch_frame_is_no_hierarchy() -> None:
    frame = made("variant").release(**BUDGET)
    with pytest.raises(dp.DpframeError):
        frame.dp.report("page.html")
    with pytest.raises(dp.DpframeError):
        frame.dp.plot()


@pytest.mark.parametrize("universe", [[1, 2, 3], [b"a", b"b"], ["x", "y"]])
def test_a_universe_of_another_kind_tells_nothing(universe: list[Any]) -> None:
    """The kind of the stored keys is that of the first record: whether there is one is private."""
    with seeded_noise(1):
        empty = dp.MisraGries(4).release(epsilon=1.0, universe=universe)
    sketch = dp.MisraGries(4)
    sketch.update([7] if isinstance(universe[0], str) else ["a"])
    with seeded_noise(1):
        pd.testing.assert_frame_equal(sketch.release(epsilon=1.0, universe=universe), empty)
