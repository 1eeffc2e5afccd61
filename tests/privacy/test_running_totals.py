"""Running totals keep their promise over all periods together.

All outcomes of tiny series are enumerated through the shipped step, with rows of later periods that
follow from earlier results. Next to each check stand planted bugs that it must reject.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.accounting.losses import normal_delta
from dpframe.ledger import Ledger
from dpframe.ledger.unfinished_draws import NoiseFile
from dpframe.mechanisms import running_totals
from dpframe.mechanisms.running_totals import (
    LOOKS,
    Memory,
    SeriesLaw,
    Spread,
    gaussian_cost,
    gaussian_law,
    laplace_law,
    powers,
    run_period,
    tree,
    trees,
)
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.postprocess.strategy import PARTS
from dpframe.postprocess.weighted_laplace import whole_half_width
from dpframe.testing import seeded_noise
from dpframe.verifier import verify_proof
from tests.privacy.ledger_worker import ended, forked

WHOLE = {PARTS: Fraction(1)}


class Grid:
    """A law whose draws are all outcomes, one beside the other."""

    def __init__(self, columns: list[np.ndarray]) -> None:
        self.columns, self.asked = columns, 0

    def draw(self, n: int) -> np.ndarray:
        self.asked += 1
        return self.columns[self.asked - 1]


Rows = Callable[[list[np.ndarray]], Any]
"""The records of a period, which may follow from what was released before."""


def adaptive(released: list[np.ndarray]) -> Any:
    return 3 + (released[-1] > 2) * 2 if released else np.int64(1)


Run = Callable[[dict[int, Any], SeriesLaw, Memory], None]


def law_of_results(
    law: SeriesLaw, periods: int, more: int | None, run: Run = run_period, draws: int = 0
) -> dict[tuple[int, ...], float]:
    """The law of all numbers that a series releases, with one record more in period ``more``."""
    table = law.laws[PARTS][0]
    assert isinstance(table, NoiseTable)
    number = draws or periods
    values = np.arange(table.lowest, table.highest + 1)
    columns = [each.ravel() for each in np.meshgrid(*[values] * number, indexing="ij")]
    chance = np.prod([table.pmf[each - table.lowest] for each in columns], axis=0)
    told = replace(law, laws={PARTS: (Grid(columns),)})  # type: ignore[dict-item]
    memory, released = Memory(), list[np.ndarray]()
    for period in range(periods):
        rows = adaptive(released) + (period == more) + np.zeros(len(chance), dtype=np.int64)
        run({PARTS: rows}, told, memory)
        released.append(np.array(memory.released[-1], dtype=np.int64))
    seen, where = np.unique(np.stack(released, axis=1), axis=0, return_inverse=True)
    mass = np.bincount(where.reshape(-1), weights=chance)
    return {tuple(row): float(p) for row, p in zip(seen.tolist(), mass, strict=True)}


def divergence(one: dict[Any, float], other: dict[Any, float], epsilon: float) -> float:
    t = math.exp(epsilon)
    return max(
        sum(max(0.0, p - t * b.get(seen, 0.0)) for seen, p in a.items())
        for a, b in ((one, other), (other, one))
    )


def exact_delta(law: SeriesLaw, periods: int, epsilon: float, **bug: Any) -> float:
    """The worst delta of one record in any period."""
    usual = law_of_results(law, periods, None, **bug)
    several = (law_of_results(law, periods, at, **bug) for at in range(periods))
    return max(divergence(usual, each, epsilon) for each in several)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients in halves, so that tables are short."""
    monkeypatch.setattr(running_totals, "FINE_POWERS", {1000: 2})
    powers.cache_clear()


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    yield
    powers.cache_clear()
    trees.cache_clear()


EPSILON, DELTA = 3.0, 0.02


def tiny(periods: int) -> SeriesLaw:
    told: Any = {"epsilon": Fraction(EPSILON), "delta": DELTA, "most": 1, "weights": WHOLE}
    return gaussian_law("totals", periods=periods, **told)


def forgetful(exact: dict[int, Any], law: SeriesLaw, memory: Memory) -> None:
    """Planted: fresh noise in the place of what is kept."""
    memory.draws.clear()
    run_period(exact, law, memory)


def test_all_periods_together_keep_epsilon_and_delta(coarse: None) -> None:
    """Law: whatever later rows follow from, delta of everything that is released is at most what
    the receipt says; it is not much less, so that the check can fail."""
    law = tiny(3)
    assert law.spread.column[:2] == (2, 1)
    found = exact_delta(law, 3, EPSILON)
    assert 0.5 * law.delta < found <= law.delta <= DELTA


def test_fresh_noise_breaks_the_promise(coarse: None) -> None:
    law = tiny(2)
    assert exact_delta(law, 2, EPSILON) <= law.delta
    assert exact_delta(law, 2, EPSILON, run=forgetful, draws=3) > 1.5 * law.delta


def test_a_norm_of_the_first_entry_breaks_the_promise(coarse: None) -> None:
    """Planted: only what a record moves in its own period is paid for."""
    law = tiny(3)
    table, sigmas = law.laws[PARTS][0], law.sigmas
    assert isinstance(table, NoiseTable)
    assert sigmas is not None
    wrong = gaussian_cost(table, sigmas[PARTS], law.spread.column[:1], 1).delta(EPSILON)
    assert exact_delta(law, 3, EPSILON) > 1.5 * wrong


def law_of_nodes(law: SeriesLaw, more: int, shared: bool) -> dict[Any, float]:
    """The law of the numbers of two nodes in a first period, the first with ``more`` records;
    planted if ``shared``: one draw serves both."""
    table = law.laws[PARTS][0]
    assert isinstance(table, NoiseTable)
    values = np.arange(table.lowest, table.highest + 1)
    one, other = (each.ravel() for each in np.meshgrid(values, values))
    chance = table.pmf[one - table.lowest] * table.pmf[other - table.lowest]
    grid = Grid([np.concatenate([one, one if shared else other])])
    memory, rows = Memory(), np.repeat([5 + more, 7], len(one))
    run_period({PARTS: rows}, replace(law, laws={PARTS: (grid,)}), memory)  # type: ignore[dict-item]
    released = np.array(memory.released[0]).reshape(2, -1)
    seen, where = np.unique(released, axis=1, return_inverse=True)
    mass = np.bincount(where.reshape(-1), weights=chance)
    return {tuple(row): float(p) for row, p in zip(seen.T.tolist(), mass, strict=True)}


def test_noise_of_another_node_breaks_the_promise(coarse: None) -> None:
    law = tiny(2)
    own, same = ([law_of_nodes(law, more, shared) for more in (0, 1)] for shared in (False, True))
    assert divergence(own[0], own[1], EPSILON) <= law.delta
    assert divergence(same[0], same[1], EPSILON) > 0.5


SPREADS = [
    *(powers(g, 52) for g in (0, 30, 45, 50)),
    *(tree(14, 2, Fraction(9, 20), 52), tree(4, 3, Fraction(3, 5), 20)),
    *trees(13),
]


@pytest.mark.parametrize("spread", SPREADS, ids=lambda one: f"{one.name}, {one.periods}")
def test_a_record_is_noise_that_is_moved(spread: Spread) -> None:
    """Law: one record in a period changes results exactly as draws moved by its column do, and no
    period moves them more than the first. So a bound on moved draws bounds everything."""
    periods, draws = spread.periods, len(spread.level)
    weights = []
    for period in range(periods):
        own, divisor = spread.row(period)
        padded = [*own, *[0] * (draws - len(own))]
        weights.append([Fraction(each, divisor) for each in padded])
    columns = columns_of(spread)
    for at, column in enumerate(columns):
        told = [sum(w * c for w, c in zip(row, column, strict=True) if c) for row in weights]
        assert told == [0] * at + [1] * (periods - at)
        assert sorted(column, reverse=True)[: len(spread.column)] <= sorted(
            spread.column, reverse=True
        )


def columns_of(spread: Spread) -> list[list[int]]:
    """By how much a record in each period moves every draw: solved from the weights alone."""
    if spread.name.startswith("(1"):
        n = spread.periods
        return [[0] * at + list(spread.column[: n - at]) for at in range(n)]
    own = np.zeros((spread.periods, len(spread.level)), dtype=np.int64)
    own[:, : spread.periods] = np.eye(spread.periods)
    words = spread.name.split()
    width, size, done = int(words[2].strip(",")) if len(words) > 2 else 1, 1, spread.periods
    for number in range(1, max(spread.level) + 1):
        size *= width
        for block in range(spread.level.count(number)):
            own[block * size : (block + 1) * size, done] = 1
            done += 1
    return own.tolist()


@pytest.mark.parametrize("look", LOOKS)
def test_trees_lose_epsilon_at_most(look: str) -> None:
    """Law: a record is in one draw of each law of parts and of each measured level."""
    weights = {PARTS: Fraction(1, 2), 0: Fraction(1, 3), 1: Fraction(1, 6)}
    law = laplace_law(look, periods=52, epsilon=Fraction(1, 3), most=256, weights=weights)
    assert all(sum(column) == len(law.spread.column) for column in columns_of(law.spread))
    scales = [one.scale for each in law.laws.values() for one in each]  # type: ignore[union-attr]
    assert sum(256 / scale for scale in scales) <= law.epsilon


def simulated(law: SeriesLaw, parts: int, seed: int) -> np.ndarray:
    """What periods of zeros release, of shape (periods, parts), through the shipped step."""
    memory = Memory()
    with seeded_noise(seed):
        for _ in range(law.spread.periods):
            run_period({PARTS: np.zeros(parts, dtype=np.int64)}, law, memory)
    return np.array(memory.released, dtype=float)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt((values * values).mean()))


def test_a_year_of_weeks_has_the_promised_errors() -> None:
    """Law: in units of a week that is released alone with the same privacy and the same law, totals
    have 2.15 with Gaussian noise and 3.88 with Laplace noise, where sums of weeks have 5.15."""
    told: Any = {"periods": 52, "epsilon": Fraction(1), "most": 1, "weights": WHOLE}
    gauss = gaussian_law("totals", delta=1e-6, **told)
    alone = gaussian_law("weeks", delta=1e-6, **told)
    sums = rms(np.cumsum(simulated(alone, 1500, 1), axis=0))
    unit = alone.sds(PARTS)[0]
    weeks = simulated(gauss, 1500, 2)
    assert abs(sums / unit - 5.148) < 0.2
    assert rms(np.cumsum(weeks, axis=0)) / unit <= 2.3
    assert rms(weeks) / unit <= 1.75
    laplace = laplace_law("totals", **told)
    weeks, unit = simulated(laplace, 1500, 3), math.sqrt(2)
    assert rms(np.cumsum(weeks, axis=0)) / unit <= 4.1
    assert rms(weeks) / unit <= 1.85


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_hold(kind: str, confidence: float) -> None:
    """Law: intervals of periods, of totals and of differences hold with their confidence, and those
    of a plan without shared noise would not."""
    told: Any = {"periods": 20, "epsilon": Fraction(1, 4), "most": 1, "weights": WHOLE}
    law = laplace_law("totals", **told)
    if kind == "gaussian":
        law = gaussian_law("totals", delta=1e-5, **told)
    weeks = simulated(law, 4000, 4)
    totals = np.cumsum(weeks, axis=0)

    def held(errors: np.ndarray, before: int, last: int, part: float = 1.0) -> float:
        square = np.array([2 * float(law.scales(before, last)[PARTS]) ** 2 * part])
        share = np.array([law.share(before, last)])
        half = int(whole_half_width(square, confidence, share)[0])
        return float((np.abs(errors) <= half).mean())

    least = confidence - 0.02
    for last in (3, 9, 19):
        assert held(weeks[last], last - 1, last) >= least
        assert held(totals[last], -1, last) >= least
        rows = law.correlations(last, so_far=True)
        both = [2 * float(law.scales(-1, at)[PARTS]) ** 2 for at in (1, last)]
        joint = sum(both) - 2 * rows[1] * math.sqrt(both[0] * both[1])
        change = totals[last] - totals[1]
        assert held(change, -1, last, joint / both[1]) >= least
        assert abs(float(change.var()) / joint - 1) < 0.1
    assert held(totals[19], -1, 19, 0.6) < confidence - 0.02  # planted: less variance


def enumerated(
    law: SeriesLaw, periods: int, far: int, rows: Rows = lambda _: np.int64(0)
) -> tuple[np.ndarray, np.ndarray]:
    """All outcomes of what periods release, of shape (periods, outcomes), and their chances."""
    values = np.arange(-far, far + 1)
    grid = [each.ravel() for each in np.meshgrid(*[values] * len(law.spread.level), indexing="ij")]
    chance = np.ones(len(grid[0]))
    for level, each in zip(law.spread.level, grid, strict=True):
        chance = chance * mass_of(law.laws[PARTS][level], values)[each + far]
    memory, released = Memory(draws=dict(enumerate(grid))), list[np.ndarray]()  # type: ignore[arg-type]
    for _ in range(periods):
        run_period({PARTS: rows(released) + np.zeros(len(chance), dtype=np.int64)}, law, memory)
        released.append(np.array(memory.released[-1], dtype=np.int64))
    return np.stack(released), chance


def tiny_tree() -> SeriesLaw:
    spread = tree(2, 2, Fraction(1, 2), 2)
    laws = (UnboundedNoise(Fraction(1)), UnboundedNoise(Fraction(1)))
    return SeriesLaw(spread=spread, laws={PARTS: laws}, most=1, epsilon=Fraction(2))


def largest_loss(law: SeriesLaw, far: int, once: bool) -> float:
    """The largest loss of one record in either period, but for outcomes at the ends of the grid.
    Planted if not ``once``: the record is in the period's own draw and in both of its rows."""
    told = []
    for more in (None, 0, 1):

        def rows(released: list[np.ndarray], more: int | None = more) -> Any:
            here = more is not None and (more == len(released) or not once)
            return adaptive(released) + here

        seen, chance = enumerated(law, 2, far, rows)
        keys, where = np.unique(seen, axis=1, return_inverse=True)
        mass = np.bincount(where.reshape(-1), weights=chance)
        told.append(dict(zip(map(tuple, keys.T.tolist()), mass.tolist(), strict=True)))
    losses = [
        abs(math.log(p / told[0][seen]))
        for other in told[1:]
        for seen, p in other.items()
        if p > 1e-6 and seen in told[0]
    ]
    return max(losses)


def test_a_tree_loses_epsilon_at_most() -> None:
    """Law: whatever second rows follow from, no outcome is more than e^epsilon times as likely with
    a record more; a record in two periods loses more."""
    law = tiny_tree()
    assert 0.5 * float(law.epsilon) < largest_loss(law, 22, True) <= float(law.epsilon) + 1e-3
    assert largest_loss(law, 22, False) > float(law.epsilon) + 0.2


def mass_of(law: Any, values: np.ndarray) -> np.ndarray:
    if isinstance(law, NoiseTable):
        inside = (values >= law.lowest) & (values <= law.highest)
        return np.where(inside, law.pmf[np.clip(values - law.lowest, 0, len(law.pmf) - 1)], 0.0)
    q = math.exp(-1 / float(law.scale))
    return np.asarray((1 - q) / (1 + q) * q ** np.abs(values))


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_intervals_hold_for_every_outcome(coarse: None, kind: str, confidence: float) -> None:
    """Law: intervals of periods, of totals and of differences hold with at least their confidence,
    summed over all outcomes of a tiny series."""
    law, periods, far = tiny_tree(), 2, 24
    if kind == "gaussian":
        law, periods = tiny(3), 3
        far = law.laws[PARTS][0].highest  # type: ignore[union-attr]
    weeks, chance = enumerated(law, periods, far)
    assert abs(chance.sum() - 1) < 1e-6
    totals = np.cumsum(weeks, axis=0)
    for last in range(periods):
        for before, errors in ((last - 1, weeks[last]), (-1, totals[last])):
            square = np.array([2 * float(law.scales(before, last)[PARTS]) ** 2])
            share = np.array([law.share(before, last)])
            half = int(whole_half_width(square, confidence, share)[0])
            assert chance[np.abs(errors) <= half].sum() >= confidence - 1e-6
    told = law.correlations(periods - 1, so_far=False)[0]
    both = [2 * float(law.scales(at - 1, at)[PARTS]) ** 2 for at in (0, periods - 1)]
    joint = sum(both) - 2 * told * math.sqrt(both[0] * both[1])
    half = int(whole_half_width(np.array([joint]), confidence)[0])
    moved = np.abs(weeks[-1] - weeks[0])
    assert chance[moved <= half].sum() >= confidence - 1e-6


# -- series ----------------------------------------------------------------------------------------

REPORT: dict[str, Any] = {
    "name": "visits",
    "question": "rollup",
    "by": ["country"],
    "keys": ["FR", "DE"],
    "measures": {"visits": "count"},
    "epsilon": 1.0,
    "cumulative": True,
    "periods": 4,
}
WEEKS = [f"2025-W{week}" for week in range(41, 46)]


def visits() -> pd.DataFrame:
    when = pd.date_range("2025-10-06", periods=5 * 7 * 24, freq="h")
    return pd.DataFrame({"when": when, "country": ["FR", "FR", "DE"] * (len(when) // 3)})


def series(folder: Path, **changed: Any) -> dp.Series:
    return dp.Series(
        [{**REPORT, **changed}],
        source=visits(),
        period={"column": "when", "unit": "week", "first": WEEKS[0]},
        ledger={"path": folder / "b.db", "epsilon": 3.0, "delta": 1e-5},
        pages=folder / "pages",
    )


def kept(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "b.db-noise-visits").read_text())  # type: ignore[no-any-return]


def test_totals_are_sums_of_what_is_published(tmp_path: Path) -> None:
    """Law: a year costs what one period costs; totals are the sums of the periods' numbers; nothing
    but the file, which its owner alone may read, has a draw in it; and receipts are proved."""
    done = series(tmp_path).run(WEEKS[3])
    assert done.code == 0
    assert done.cost[0] == 1.0
    ledger = Ledger(tmp_path / "b.db")
    frames = [ledger.recall(f"visits-{week}") for week in WEEKS[:4]]
    shown = pd.concat(frames).groupby("prefix")["visits"].sum()
    last = frames[-1].set_index("prefix")["visits_so_far"]
    assert shown.to_dict() == last.to_dict()
    card = {row[0]: row[1:] for row in frames[-1].attrs["dp"]["card"]}
    for name in ("visits", "visits_so_far"):  # of the last of four periods, at every node
        told, of = card[f"error of {name}"]
        half = (frames[-1][f"{name}_upper"] - frames[-1][f"{name}_lower"]) / 2
        assert float(told.split()[0].removeprefix("+-")) == half.max()
        assert "in the last period" in of
    file = tmp_path / "b.db-noise-visits"
    assert file.stat().st_mode & 0o777 == 0o600
    for frame in frames:
        assert dp.verify(frame).outcome == "proved"
        text = json.dumps(frame.attrs["dp"])
        assert '"rounded"' not in text
        assert '"draws"' not in text
    noise = kept(tmp_path)["measures"]["visits"]
    page = (tmp_path / "pages" / "visits.html").read_text()
    assert str(noise["draws"]) not in page
    assert "visits_so_far" in page
    assert page.count("largest changes</h2>") == 1  # of the periods, and not of their totals
    assert "A line breaks" not in page  # every listed node is shown


def test_a_later_run_finds_what_was_drawn(tmp_path: Path) -> None:
    series(tmp_path).run(WEEKS[1])
    before = kept(tmp_path)
    assert {step.state for step in series(tmp_path).run(WEEKS[1]).steps} == {"stored"}
    assert kept(tmp_path) == before
    series(tmp_path).run(WEEKS[2])
    after = kept(tmp_path)
    assert after["id"] == before["id"]
    old, new = (each["measures"]["visits"] for each in (before, after))
    assert new["released"][:2] == old["released"]
    assert old["draws"].items() <= new["draws"].items()


def test_a_series_goes_on_with_the_spread_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: a later version that would choose otherwise draws the next period as before; another
    declaration is another report."""
    series(tmp_path, periods=52).run(WEEKS[1])
    before = Ledger(tmp_path / "b.db").find(f"visits-{WEEKS[0]}")
    monkeypatch.setattr(running_totals, "BLOCK_SHARES", (Fraction(1, 7),))
    trees.cache_clear()
    assert series(tmp_path, periods=52).run(WEEKS[2]).code == 0
    after = Ledger(tmp_path / "b.db").find(f"visits-{WEEKS[2]}")
    assert before is not None
    assert after is not None
    assert after.request["spreads"] == before.request["spreads"]
    for changed in ({"periods": 51}, {"measures": {"n": "count"}}, {"epsilon": 0.5}):
        with pytest.raises(dp.ReleaseNameError, match="another name"):
            series(tmp_path, **{"periods": 52, **changed}).run(WEEKS[3])


def lost(folder: Path) -> Any:
    return series(folder).run(WEEKS[2]).steps[-1]


def test_a_series_that_lost_its_noise_stops(tmp_path: Path) -> None:
    """Law: it says what still holds, and draws nothing; also with noise of another series, or older
    noise."""
    series(tmp_path).run(WEEKS[0])
    file = tmp_path / "b.db-noise-visits"
    older = file.read_bytes()
    series(tmp_path).run(WEEKS[1])
    current = file.read_bytes()
    damaged = [None, older, current[:50], json.dumps({**json.loads(current), "id": "x"}).encode()]
    for bad in damaged:
        file.unlink()
        if bad is not None:
            file.write_bytes(bad)
        step = lost(tmp_path)
        assert step.state == "gap"
        assert "What is published stays true and private." in str(step.why)
        assert (not file.exists()) if bad is None else file.read_bytes() == bad
        file.write_bytes(current)
    assert lost(tmp_path).state == "drawn"


@pytest.mark.parametrize("change", ["later", "earlier", "ledger", "source", "epsilon"])
def test_a_number_is_never_shown_for_other_rows(tmp_path: Path, change: str) -> None:
    """Law: what was drawn of one period, source and ledger is not released as that of another, as
    a receipt would then be false; and nothing is charged for it."""

    def changed(first: str) -> dp.Series:
        rows: Any = visits()
        if change == "source":
            rows.to_parquet(tmp_path / "other.parquet")
            rows = tmp_path / "other.parquet"
        return dp.Series(
            [REPORT if change != "epsilon" else {**REPORT, "epsilon": 0.5}],
            source=rows,
            period={"column": "when", "unit": "week", "first": first},
            ledger={"path": tmp_path / "b.db", "epsilon": 3.0, "delta": 1e-5},
        )

    assert series(tmp_path).run(WEEKS[1]).code == 0
    if change not in ("later", "earlier"):
        (tmp_path / "b.db").unlink()
    before, first = kept(tmp_path), {"later": WEEKS[1], "earlier": "2025-W40"}.get(change, WEEKS[0])
    done = changed(first).run(WEEKS[2])
    assert {step.state for step in done.steps} <= {"stored", "gap"}
    assert any("another declaration, ledger or source" in str(step.why) for step in done.steps)
    assert kept(tmp_path) == before
    entries = Ledger(tmp_path / "b.db").releases()
    assert len(entries) == (2 if change in ("later", "earlier") else 0)


def test_a_horizon_that_is_reached_is_said(tmp_path: Path) -> None:
    done = series(tmp_path).run(WEEKS[4])
    assert [step.state for step in done.steps] == ["drawn"] * 4 + ["gap"]
    assert "another name" in str(done.steps[-1].why)
    assert done.code == 1


def test_a_missing_period_stops_the_totals_after_it(tmp_path: Path) -> None:
    """Law: no total leaves a period out; with its file there all go on."""
    rows = visits()
    week = "2025-W" + rows["when"].dt.isocalendar().week.astype(str)
    for name in WEEKS:
        rows[week == name].to_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / f"{WEEKS[1]}.parquet").rename(tmp_path / "late")
    told: dict[str, Any] = {
        "source": str(tmp_path / "{period}.parquet"),
        "period": {"column": "when", "unit": "week", "first": WEEKS[0]},
        "ledger": {"path": tmp_path / "b.db", "epsilon": 3.0, "delta": 1e-5},
    }
    done = dp.Series([REPORT], **told).run(WEEKS[2])
    assert [step.state for step in done.steps] == ["drawn", "gap", "gap"]
    assert "every earlier period" in str(done.steps[-1].why)
    (tmp_path / "late").rename(tmp_path / f"{WEEKS[1]}.parquet")
    done = dp.Series([REPORT], **told).run(WEEKS[2])
    assert [step.state for step in done.steps] == ["stored", "drawn", "drawn"]


def test_two_runs_at_once_draw_each_period_once(tmp_path: Path) -> None:
    runs = [forked(lambda: series(tmp_path).run(WEEKS[3])) for _ in range(2)]
    assert [ended(run) for run in runs] == [0, 0]
    assert series(tmp_path).run(WEEKS[3]).code == 0
    ledger = Ledger(tmp_path / "b.db")
    assert len(kept(tmp_path)["measures"]["visits"]["released"]) == 4
    assert len(ledger.releases()) == 4
    shown = sum(int(ledger.recall(f"visits-{week}")["visits"].iloc[0]) for week in WEEKS[:4])
    assert shown == ledger.recall(f"visits-{WEEKS[3]}")["visits_so_far"].iloc[0]


def test_a_rehearsal_spends_nothing_and_keeps_no_noise(tmp_path: Path) -> None:
    done = series(tmp_path).run(WEEKS[3], dry_run=True)
    assert {step.state for step in done.steps} == {"due"}
    assert done.cost[0] == 1.0
    assert not list(tmp_path.glob("*noise*"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"question": "hhh", "hierarchy": ["country"], "by": None, "keys": None, "measures": None},
         "adds up numbers of a rollup"),
        ({"keys": None, "delta": 1e-6}, "needs keys"),
        ({"measures": {"m": "mean(x, 0, 5)"}}, "no count or sum"),
        ({"measures": {"m": "sum(x, 0, auto)"}}, "bounds 'auto'"),
        ({"measures": {"m": "sum(x, 0, 5, clipped=true)"}}, "clipped"),
        ({"epsilon": None, "total": [1.0, 1e-6]}, "same people"),
        ({"periods": None}, "periods"),
        ({"periods": 1}, "periods"),
        ({"cumulative": "days"}, "cumulative"),
        ({"cumulative": 3}, "cumulative must be true"),
        ({"law": "gaussian"}, "needs delta"),
        ({"law": "cauchy"}, "law"),
        ({"law": "gaussian", "delta": 1e-6, "user": "country"}, "protects records"),
        ({"cumulative": False, "law": "laplace"}, "law needs cumulative"),
    ],
)  # fmt: skip
def test_what_has_no_running_totals_is_refused(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    report = {**REPORT, **changed}
    report = {name: value for name, value in report.items() if value is not None}
    with pytest.raises(dp.DpframeError, match=why):
        dp.Series(
            [report],
            source=visits(),
            period={"column": "when", "unit": "week", "first": WEEKS[0]},
            ledger={"path": tmp_path / "b.db", "epsilon": 3.0, "delta": 1e-5},
        )


KILLS = ["before noise is kept", "after noise is kept", "before it is stored", "after it is stored"]


@pytest.mark.parametrize("kill", KILLS)
def test_a_kill_never_gives_a_period_a_second_noise(tmp_path: Path, kill: str) -> None:
    """Law: after a kill, the period has the noise that was kept, if any was, other periods have
    theirs, and it costs once."""
    series(tmp_path).run(WEEKS[0])
    first = kept(tmp_path)

    def work() -> None:
        write, keep = NoiseFile.write, Ledger.keep

        def writes(self: NoiseFile, told: Any) -> None:
            if kill == KILLS[0]:
                os._exit(9)
            write(self, told)
            if kill == KILLS[1]:
                os._exit(9)

        def keeps(self: Ledger, stored: Any) -> None:
            if kill == KILLS[2]:
                os._exit(9)
            keep(self, stored)
            os._exit(9)

        NoiseFile.write = writes  # type: ignore[assignment, method-assign]
        Ledger.keep = keeps  # type: ignore[method-assign]
        series(tmp_path).run(WEEKS[1])

    assert ended(forked(work)) == 9
    then = kept(tmp_path)
    assert series(tmp_path).run(WEEKS[1]).code == 0
    now = kept(tmp_path)
    assert now["measures"]["visits"]["released"][:1] == first["measures"]["visits"]["released"]
    if kill != KILLS[0]:
        assert now == then
    frame = Ledger(tmp_path / "b.db").recall(f"visits-{WEEKS[1]}")
    released = now["measures"]["visits"]["released"]
    whole = [sum(column[:3]) for column in released]  # the root, if parts alone are measured
    assert len(released) == 2
    if len(released[0]) == 3:
        assert frame["visits_so_far"].iloc[0] == sum(whole)
    assert Ledger(tmp_path / "b.db").spent.epsilon == 1.0


def test_intervals_of_another_confidence_follow_from_the_receipt(tmp_path: Path) -> None:
    """Law: they are what another release with the same noise would have said."""
    series(tmp_path).run(WEEKS[2])
    frame = Ledger(tmp_path / "b.db").recall(f"visits-{WEEKS[2]}")
    assert frame.dp.intervals(confidence=0.95).equals(frame)
    narrow = frame.dp.intervals(confidence=0.6)
    assert (narrow["visits_so_far_upper"] < frame["visits_so_far_upper"]).all()


def test_the_document_is_run(tmp_path: Path) -> None:
    """Law: the report of docs/series.md gives the columns that it promises, and costs what a week
    costs; its page shows totals first."""
    text = (Path(__file__).parents[2] / "docs" / "series.md").read_text("utf-8")
    declared = text.split("## So far this year")[1].split("```toml")[1].split("```")[0]
    flights = pd.read_parquet(str(files("dpframe") / "data/flights.parquet"))
    flights["date"] = pd.to_datetime(flights["date"])
    flights.to_parquet(tmp_path / "flights.parquet")
    (tmp_path / "reports.toml").write_text(
        'source = "flights.parquet"\npages = "pages"\npublish = "results.duckdb"\n'
        'ledger = { path = "b.db", epsilon = 2.0, delta = 1e-5 }\n'
        f'period = {{ column = "date", unit = "week", first = "2013-W02" }}\n{declared}'
    )
    done = dp.Series.read(tmp_path / "reports.toml").run("2013-W04")
    assert (done.code, done.cost[0]) == (0, 1.0)
    with duckdb.connect(str(tmp_path / "results.duckdb"), read_only=True) as con:
        rows = con.sql(
            "SELECT departures_so_far - sum(departures) OVER (PARTITION BY prefix ORDER BY period) "
            "FROM weekly_all"
        ).fetchall()
    assert rows == [(0,)] * 12
    page = (tmp_path / "pages" / "weekly.html").read_text()
    assert 0 < page.index("departures so far") < page.index(">departures<")


def test_ways_are_planned_at_every_door() -> None:
    """Law: the planner takes the least error for what is looked at, and takes Laplace noise where
    Gaussian noise is wider; Python and SQL say the same."""
    told: dict[str, Any] = {"measures": "count", "keys": ["a", "b"]}
    plans = {
        look: dp.plan_series(52, "rollup", ["x"], total=(1.0, 1e-6), cumulative=look, **told)
        for look in ("totals", "weeks", "both")
    }
    assert {look: plan.chosen.name for look, plan in plans.items()} == {
        "totals": "laplace",
        "weeks": "apart",
        "both": "laplace",
    }
    frame = plans["totals"].to_frame().set_index("way")["half_width_so_far"]
    assert frame["laplace"] < 0.8 * frame["apart"]
    assert frame["laplace"] < frame["gaussian"]
    assert plans["totals"].reserve() is None
    report = {"name": "r", "question": "rollup", **plans["totals"].arguments}
    dp.Series(
        [report],
        source=visits(),
        period={"column": "when", "unit": "week", "first": WEEKS[0]},
        ledger="unmade.db",
    )
    with duckdb.connect() as con:
        dp.register(con)
        rows = con.sql(
            "SELECT half_width_so_far FROM dp_plan_series(question := 'rollup', about := ['x'], "
            "releases := 52, epsilon := 1.0, delta := 1e-6, arguments := "
            "{'measures': 'count', 'keys': ['a', 'b'], 'cumulative': 'totals'})"
        ).fetchall()
    assert [row[0] for row in rows] == frame.tolist()
    for bad in ({"disjoint": True}, {"law": "cauchy"}):
        with pytest.raises(dp.DpframeError):
            dp.plan_series(52, "rollup", ["x"], total=(1.0, 1e-6), cumulative=True, **told, **bad)
    with pytest.raises(dp.DpframeError, match="rollup"):
        dp.plan_series(52, "hhh", ["x"], total=(1.0, 1e-6), cumulative=True)
    with pytest.raises(dp.DpframeError, match="law needs cumulative"):
        dp.plan_series(52, "hhh", ["x"], total=(1.0, 1e-6), law="laplace")


@pytest.mark.evidence
def test_intervals_of_released_nodes_hold(tmp_path: Path) -> None:
    """Law: intervals of every level hold the truth, of weeks and of totals, where levels are
    measured and made to agree."""
    rows = visits().assign(city=lambda one: (one.index % 12).astype(str))
    keys = [[country, str(city)] for country in ("FR", "DE") for city in range(12)]
    week = rows["when"].dt.isocalendar().week
    held: dict[tuple[int, str], list[bool]] = {}
    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        dp.Series(
            [{**REPORT, "by": ["country", "city"], "keys": keys, "epsilon": 0.4, "periods": 52}],
            source=rows,
            period={"column": "when", "unit": "week", "first": WEEKS[0]},
            ledger={"path": folder / "b.db", "epsilon": 3.0, "delta": 1e-5},
        ).run(WEEKS[4])
        ledger = Ledger(folder / "b.db")
        for at, name in enumerate(WEEKS):
            for told in ledger.recall(f"visits-{name}").to_dict("records"):
                below = pd.Series(True, index=rows.index)
                for column in ("country", "city")[: told["level"]]:
                    below &= rows[column] == told[column]
                for end, here in (("", week == 41 + at), ("_so_far", week <= 41 + at)):
                    ends = (told[f"visits{end}_{side}"] for side in ("lower", "upper"))
                    low, high = ends
                    truth = int((below & here).sum())
                    held.setdefault((told["level"], end), []).append(low <= truth <= high)
    assert {place for place, several in held.items() if np.mean(several) < 0.92} == set()


def test_changes_of_totals_follow_from_the_joint_law(tmp_path: Path) -> None:
    """Law: between two totals lies what a few periods add, so that an interval of their change is
    narrower than noises drawn apart would make it."""
    series(tmp_path, periods=52).run(WEEKS[4])
    names = [f"visits-{week}" for week in WEEKS[3:5]]
    told: Any = {"ledger": Ledger(tmp_path / "b.db"), "simultaneous": False}
    total = dp.change(*names, measure="visits_so_far", **told).iloc[0]
    after = [total[f"after_{end}"] for end in ("lower", "upper")]
    before = [total[f"before_{end}"] for end in ("lower", "upper")]
    apart = math.hypot(after[1] - after[0], before[1] - before[0])
    assert total["change_upper"] - total["change_lower"] < 0.9 * apart


def test_noise_that_is_not_shared_is_compared() -> None:
    """Planted: the receipt of a single release says that it is a period of a series, so that its
    noise would not be compared."""
    frame = dp.rollup(visits(), ["country"], "count", keys=["FR", "DE"], epsilon=1.0)
    receipt = dict(frame.attrs["dp"])
    assert dp.verify(frame).outcome == "proved"
    frame.attrs["dp"] = {**receipt, "running": {"periods": 4}}
    assert dp.verify(frame).outcome == "failed"


def test_a_gaussian_series_is_proved(tmp_path: Path) -> None:
    """Law: the verifier bounds delta of all periods from the column; a column that leaves later
    periods out is another claim, which the receipt's tables do not support."""
    series(tmp_path, law="gaussian", delta=1e-6).run(WEEKS[0])
    frame = Ledger(tmp_path / "b.db").recall(f"visits-{WEEKS[0]}")
    assert dp.verify(frame).outcome == "proved"
    proof = json.loads(frame.attrs["dp"]["proof"]["text"])
    (drawn,) = proof["game"]["drawn"]
    drawn["column"] = [2 * each for each in drawn["column"]]
    assert verify_proof(json.dumps(proof)).outcome == "failed"
    mu = math.hypot(*drawn["column"]) / 2 / drawn["periods"][0]["sigma"]
    assert normal_delta(mu, 1.0) <= frame.attrs["dp"]["computed_delta"] * 1.05


def test_other_claims_of_running_totals_are_not_proved(tmp_path: Path) -> None:
    """Law: without running totals the noise is compared with the proof, whatever a receipt says
    beside it; and Gaussian noise is for as many periods and levels as were paid for."""
    rows = pd.DataFrame({"k": ["a", "b"]})
    plain = dp.rollup(rows, ["k"], keys=["a"], measures={"n": "count"}, epsilon=1.0).attrs["dp"]
    assert dp.verify(plain).outcome == "proved"
    false = json.loads(json.dumps({**plain, "running": {}}))
    false["measures"]["n"]["noise"][0]["scales"] = {"parts": 0.3}
    assert dp.verify(false).outcome == "failed"
    series(tmp_path, law="gaussian", delta=1e-6).run(WEEKS[0])
    true = dict(Ledger(tmp_path / "b.db").recall(f"visits-{WEEKS[0]}").attrs["dp"])
    assert dp.verify(true).outcome == "proved"
    assert (
        dp.verify({key: own for key, own in true.items() if key != "running"}).outcome == "failed"
    )
    assert dp.verify({**true, "running": {**true["running"], "periods": 8}}).outcome == "failed"
    more = json.loads(json.dumps(true))
    more["measures"]["visits"]["noise"][0]["scales"]["0"] = 9.0
    assert dp.verify(more).outcome == "failed"


def test_wide_noise_is_shown(tmp_path: Path) -> None:
    """Law: noise that is too wide for least squares of levels is of parts alone, as in a rollup:
    no period is charged that cannot be shown."""
    keys = [[f"k{i}", f"c{j}"] for i in range(40) for j in range(50)]
    rows = visits().assign(city="c1", paid=1e15)
    wide = {"by": ["country", "city"], "keys": keys, "measures": {"s": "sum(paid, 0, 1e15)"}}
    done = dp.Series(
        [{**REPORT, **wide, "epsilon": 1e-4, "cumulative": "weeks"}],
        source=rows,
        period={"column": "when", "unit": "week", "first": WEEKS[0]},
        ledger={"path": tmp_path / "b.db", "epsilon": 3.0, "delta": 1e-5},
    ).run(WEEKS[3])
    assert [step.why for step in done.steps] == [None] * 4
    assert done.cost[0] == 1e-4
