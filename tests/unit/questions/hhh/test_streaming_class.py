"""``dp.StreamingHHH``: pieces, merges, files, memory of releases, ledgers, bad input."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import stat
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.noise import replaced_bits
from dpframe.testing import seeded_noise
from tests.doors import public
from tests.members import in_turn, some

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
LEVELS = ["country", "city"]
K = 20


def visits(n: int = 4000, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    city = np.minimum(rng.zipf(1.6, n), 300)
    country = np.array(["DE", "FR", "NO", "PL"])[city % 4]
    names = np.where(rng.random(n) < 0.05, None, np.char.add("c", city.astype(str)))
    ips = [f"10.{c % 7}.{c % 11}.{c}" if c < 256 else "none" for c in city]
    return pd.DataFrame({"row": np.arange(n), "country": country, "city": names, "ip": ips})


FRAME = visits()


def streaming(frame: Any = FRAME, hierarchy: Any = LEVELS, counters: int = K) -> dp.StreamingHHH:
    sketch = dp.StreamingHHH(hierarchy, counters=counters)
    sketch.update(frame)
    return sketch


def split(pieces: int, hierarchy: Any = LEVELS) -> list[dp.StreamingHHH]:
    """By a hash of each record."""
    part = pd.util.hash_pandas_object(FRAME, index=False).to_numpy() % pieces
    return [streaming(FRAME[part == i], hierarchy) for i in range(pieces)]


def content(sketch: dp.StreamingHHH) -> Any:
    states = [
        (s.kind, s.keys.to_pylist(), s.counts.tolist(), s.decrements, s.total, s.lattice)
        for s in sketch._states()
    ]
    return states, repr(sketch), sketch.releases


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, other)
    ours, theirs = ({**public(frame.attrs["dp"]), "release_number": 0} for frame in (one, other))
    assert ours == theirs


def no_bits(n: int) -> Any:
    raise AssertionError("noise was drawn")


# -- one stream ----------------------------------------------------------------------------------


def pieces(form: str, folder: Path) -> list[Any]:
    """The records in order, in pieces of different kinds."""
    parts = [FRAME.iloc[:1], FRAME.iloc[1:1500], FRAME.iloc[1500:1500], FRAME.iloc[1500:]]
    tables = [pa.Table.from_pandas(part, preserve_index=False) for part in parts]
    for i, part in enumerate(parts):
        part.to_csv(folder / f"part{i}.csv", index=False)
        part.to_parquet(folder / f"part{i}.parquet")
    return {
        "frames": parts,
        "polars": [pl.from_pandas(part) for part in parts],
        "arrow": [*tables[:3], *tables[3].combine_chunks().to_batches()],
        "relations": [duckdb.from_arrow(table) for table in tables],
        "parquet": [folder / f"part{i}.parquet" for i in range(4)],
        "csv": [folder / f"part{i}.csv" for i in range(4)],
        "glob": [str(folder / "part*.csv")],
    }[form]


@some(
    "frames-hierarchy0", "arrow-path:city?separator=1&depth=3", "csv-path:city?separator=1&depth=3"
)
@in_turn(
    ("form", ["frames", "polars", "arrow", "relations", "parquet", "csv", "glob"]),
    ("hierarchy", [LEVELS, "ip:ip?version=4", "path:city?separator=1&depth=3"]),
)
def test_pieces_release_what_one_pass_does(form: str, hierarchy: Any, tmp_path: Path) -> None:
    """Law: fed in pieces, same noise: the frame and receipt of ``hhh(mechanism="streaming")``."""
    sketch = dp.StreamingHHH(hierarchy, counters=K)
    for piece in pieces(form, tmp_path):
        sketch.update(piece)
    assert sketch.total == len(FRAME)
    with seeded_noise(5):
        own = sketch.release(**BUDGET, threshold=60, confidence=0.9)
    asked = {**BUDGET, "threshold": 60, "confidence": 0.9, "mechanism": "streaming", "counters": K}
    with seeded_noise(5):
        other = dp.hhh(FRAME, hierarchy, **asked)
    assert len(own) > 3
    same(own, other)
    assert own.dp.receipt["release_number"] == 1


def test_estimates_and_tops_are_of_the_sketches() -> None:
    """Law: estimates are within the decrements of their level; tops are sorted estimates."""
    sketch = streaming(counters=30)
    true = FRAME.groupby(LEVELS).size()
    for (country, city), count in true.items():
        low = sketch.estimate(2, f"{country} / {city}")
        assert low == sketch.estimate(2, (country, city))
        assert low <= count <= low + sketch.decrements[1]
    assert sketch.decrements[0] == 0
    assert sketch.estimate(1, "FR") == (FRAME["country"] == "FR").sum()
    assert sketch.estimate(2, ("FR", "<invalid>")) > 0
    assert sketch.estimate(1, "XX") == 0
    top = sketch.top(5)
    assert top == sorted(top, key=lambda node: -node[2])
    assert all(sketch.estimate(level, label) == count for level, label, count in top)
    assert {level for level, _, _ in sketch.top(10, level=2)} == {2}
    assert sketch.memory > 0
    assert dp.StreamingHHH(LEVELS).counters == 2000
    assert sketch.hierarchy == dp.columns(*LEVELS)


def test_a_repr_shows_parameters_only() -> None:
    assert repr(streaming()) == "StreamingHHH('columns:country,city', counters=20, <private>)"
    merged = dp.merge_sketches(split(2))
    assert repr(merged) == (
        "StreamingHHH('columns:country,city', counters=20, sketches=2, method='bounded', <private>)"
    )


def test_an_empty_stream_releases_nothing() -> None:
    empty = dp.StreamingHHH(LEVELS, counters=2)
    other = dp.hhh(FRAME, LEVELS, **BUDGET, mechanism="streaming")
    for one in (empty, empty.merge(dp.StreamingHHH(LEVELS, counters=2))):
        frame = one.release(**BUDGET)
        assert list(frame.columns) == list(other.columns)
        assert len(frame) == 0


# -- errors leave no trace -----------------------------------------------------------------------


def test_a_failed_update_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = streaming()
    before = content(sketch)
    real, calls = dp.sources.stream_batches.MisraGries.update, 0  # type: ignore[attr-defined]

    def failing(self: Any, batch: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:  # the second level
            raise dp.SourceError("the disk is gone")
        real(self, batch)

    monkeypatch.setattr("dpframe.sources.stream_batches.MisraGries.update", failing)
    with pytest.raises(dp.SourceError, match="disk"):
        sketch.update(FRAME)
    monkeypatch.undo()
    assert calls == 2
    assert content(sketch) == before


SPARK = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        (FRAME[["row", "country"]].assign(citi="x"), dp.ColumnError, "Did you mean 'citi'"),
        ("nowhere.parquet", dp.SourceError, "does not exist"),
        ("table.xlsx", dp.SourceError, "no known ending"),
        ([1, 2], dp.ParameterTypeError, "source cannot be list"),
        (SPARK, dp.SourceError, "a Spark DataFrame has no order"),
    ],
)
def test_bad_sources_are_named_and_change_nothing(source: Any, kind: Any, text: str) -> None:
    sketch = streaming()
    before = content(sketch)
    with pytest.raises(kind, match=text):
        sketch.update(source)
    assert content(sketch) == before


@pytest.mark.parametrize("counters", [1, "many", 2.5, True, None, 10**9])
def test_counters_are_whole_numbers_from_two(counters: Any) -> None:
    with pytest.raises(dp.DpframeError, match="counters"):
        dp.StreamingHHH(LEVELS, counters=counters)


def test_wrong_arguments_of_looking_up_are_refused() -> None:
    sketch: Any = streaming()

    def level_top(level: int) -> Any:
        return sketch.top(1, level=level)

    for call, given, text in (
        *((sketch.estimate, (0, "DE"), r"level \(0\)"), (sketch.top, (0,), r"n \(0\)")),
        *((sketch.estimate, ("a", "DE"), "level must be"), (level_top, (9,), r"level \(9\)")),
        (sketch.estimate, (1, 7), "label must be text"),
    ):
        with pytest.raises(dp.DpframeError, match=text):
            call(*given)


# -- merging -------------------------------------------------------------------------------------


@in_turn(("number", [2, 50]), ("method", ["bounded", "sum"]))
def test_merged_pieces_hold_all_records(method: str, number: int) -> None:
    """Law: level by level the flat merge; large nodes are released, their intervals hold."""
    parts = split(number)
    merged = dp.merge_sketches(parts, method=method)
    assert (merged.sketches, merged.method, merged.total) == (number, method, len(FRAME))
    level = dp.merge_sketches([part._levels[1] for part in parts], method=method)
    flat = level._state()
    assert content(merged)[0][1][1:3] == (flat.keys.to_pylist(), flat.counts.tolist())
    with seeded_noise(2):
        frame = merged.release(**BUDGET, threshold=100, records=len(FRAME), confidence=0.999)
    true = FRAME.groupby("country").size()
    found = frame[frame["level"] == 1].set_index("country")
    assert len(found) >= 2
    assert (found["lower"] <= true[found.index]).all()
    assert (true[found.index] <= found["upper"]).all()
    receipt = frame.dp.receipt
    assert receipt["mechanism"] == f"streaming-merged-{method}"
    assert (receipt["method"], receipt["sketches"]) == (method, number)
    assert "on each of 2 levels one record moves" in receipt["sensitivity"]
    assert receipt["sketch_error"] is None
    assert receipt["computed_delta"] <= 1e-6
    with seeded_noise(2):
        without = merged.release(**BUDGET, threshold=100, confidence=0.999)
    assert without["upper"].isna().all()
    kept = ["level", "prefix", "residual", "count", "lower"]
    pd.testing.assert_frame_equal(frame[kept], without[kept])
    assert without.dp.receipt["release_number"] == 2
    assert "release 2 of this sketch" in str(without.dp.receipt)


def test_merging_in_steps_is_merging_at_once() -> None:
    parts = split(3)
    before = [content(part) for part in parts]
    with pytest.raises(dp.ParameterTypeError, match="take no records"):
        dp.merge_sketches(parts).update(FRAME)
    for method in ("bounded", "sum"):
        once = dp.merge_sketches(parts, method=method)
        steps = dp.merge_sketches(
            [dp.merge_sketches(parts[:2], method=method), parts[2]], method=method
        )
        given = dp.merge_sketches((part for part in parts), method=method)
        assert content(once) == content(steps) == content(given)
        assert content(once.merge(split(1)[0]))[1].count(f"method={method!r}") == 1
    assert parts[0].merge(parts[1]).method == "bounded"
    assert [content(part) for part in parts] == before


def test_records_choose_the_method() -> None:
    """Law: a public guess decides; levels move the border by the root of their number."""
    parts = split(2)
    border = int(50 * 2**0.5 * K**1.5)
    assert dp.merge_sketches(parts, records=border - 1).method == "sum"
    assert dp.merge_sketches(parts, records=border + 1).method == "bounded"
    assert dp.merge_sketches(parts).method == "bounded"


def test_streams_that_do_not_fit_do_not_merge() -> None:
    one, other = split(2)
    summed = dp.merge_sketches(split(2), method="sum")
    flat = dp.MisraGries(K)
    wrong: list[tuple[list[Any], str]] = [
        ([one, streaming(counters=K + 1)], "counters of the sketches differ"),
        ([one, streaming(hierarchy=["country"])], "hierarchies of the streams differ"),
        ([one, streaming(hierarchy=["city", "country"])], "hierarchies of the streams differ"),
        *(([one, flat], "MisraGries"), ([flat, one], "StreamingHHH"), ([one, None], "NoneType")),
        *(([one, one], "twice"), ([], "empty")),
    ]
    for streams, text in wrong:
        with pytest.raises(dp.DpframeError, match=text):
            dp.merge_sketches(streams)
    with pytest.raises(dp.ParameterError, match="merged by 'sum'"):
        dp.merge_sketches([summed, other], method="bounded")
    with pytest.raises(dp.ParameterError, match="must be one of bounded, sum"):
        dp.merge_sketches([one, other], method="mean")
    with pytest.raises(dp.ParameterTypeError, match="sketches must"):
        dp.merge_sketches(one)  # type: ignore[call-overload]
    for bad in (flat, None, 3):
        with pytest.raises(dp.DpframeError):
            one.merge(bad)  # type: ignore[arg-type]


# -- releases are remembered ---------------------------------------------------------------------


@pytest.mark.parametrize("merge", [False, True])
def test_wrong_arguments_of_a_release_draw_and_count_nothing(merge: bool) -> None:
    sketch = dp.merge_sketches(split(2)) if merge else streaming()
    for wrong, kind, text in (
        ({"epsilon": None}, dp.BudgetError, "epsilon is missing"),
        ({"delta": None}, dp.BudgetError, "delta is missing"),
        ({"delta": 0.5}, dp.BudgetError, "delta"),
        ({"threshold": "low"}, dp.ParameterTypeError, "threshold"),
        ({"confidence": 1.5}, dp.ParameterError, "confidence"),
        ({"records": -1 if merge else 10}, dp.ParameterError, "records"),
    ):
        with replaced_bits(no_bits), pytest.raises(kind, match=text):
            sketch.release(**{**BUDGET, **wrong})
    assert sketch.releases == 0


# -- files and copies ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stream", "empty", "bounded", "sum"])
def test_a_saved_stream_is_the_stream(how: str, tmp_path: Path) -> None:
    """Law: content, parameters and memory of releases; same noise, same release."""
    path = tmp_path / "sketch"
    if how in ("bounded", "sum"):
        sketch = dp.merge_sketches(split(3), method=how)
    else:
        sketch = dp.StreamingHHH(LEVELS, counters=K)
        if how == "stream":
            sketch.update(FRAME)
    sketch.release(**BUDGET)
    sketch.save(path)
    loaded = dp.StreamingHHH.load(path)
    assert content(loaded) == content(sketch)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded.save(str(path) + "2")
    assert path.read_bytes() == Path(str(path) + "2").read_bytes()
    if sketch.method is None:
        with pytest.raises(dp.ParameterError, match="resume"):
            loaded.update(FRAME)
        for one in (sketch, loaded):
            one.resume()
            one.update(FRAME)
        assert content(loaded) == content(sketch)
    frames = []
    for one in (sketch, loaded):
        with seeded_noise(3):
            frames.append(one.release(**BUDGET))
    same(*frames)
    assert frames[1].dp.receipt["release_number"] == 2


def test_files_that_are_no_streams_are_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "sketch", tmp_path / "other"
    streaming().save(path)
    good = path.read_bytes()
    dp.MisraGries(K).save(other)
    for load, file in ((dp.StreamingHHH.load, other), (dp.MisraGries.load, path)):
        with pytest.raises(dp.SourceError, match="read it with"):
            load(file)
    with pytest.raises(dp.SourceError, match="cannot be read"):
        dp.StreamingHHH.load(tmp_path / "nothing")
    other.write_bytes(good[:16] + (9).to_bytes(4, "little") + good[20:])
    with pytest.raises(dp.SourceError, match="newer version"):
        dp.StreamingHHH.load(other)
    with pytest.raises(dp.SourceError, match="not written"):
        streaming().save(tmp_path / "no folder" / "sketch")


CHANGES: list[dict[str, Any]] = [
    *({"hierarchy": "columns:country"}, {"hierarchy": "nothing"}, {"counters": 3}),
    *({"method": "mean"}, {"method": 7}, {"levels": []}, {"levels": 4}, {"released": -1}),
    {"resumed": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_sealed_files_of_no_possible_stream_are_damaged(change: Any, tmp_path: Path) -> None:
    """Law: a header that contradicts the content is not believed, whatever its checksum."""
    path = tmp_path / "sketch"
    streaming().save(path)
    good = path.read_bytes()
    size = int.from_bytes(good[20:24], "little")
    header = json.dumps({**json.loads(good[24 : 24 + size]), **change}).encode()
    sealed = good[:20] + len(header).to_bytes(4, "little") + header + good[24 + size : -32]
    path.write_bytes(sealed + hashlib.sha256(sealed).digest())
    with pytest.raises(dp.SourceError, match="truncated or damaged"):
        dp.StreamingHHH.load(path)


@pytest.mark.parametrize(
    "way", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_copies_count_on_their_own(way: Any) -> None:
    sketch = streaming()
    before = content(sketch)
    twin = way(sketch)
    assert content(twin) == before
    twin.update(FRAME)
    assert content(sketch) == before
    assert twin.total == 2 * len(FRAME)
