"""Streaming heavy hitters, enumerated: for all neighbours, divergence <= the claimed delta.

Streams of a few paths go through the shipped SQL of keys and the shipped sketches, one a level.
``single_stream`` is run once for every combination of draws. An outcome is all that is published:
alpha_hat of every level, released keys and their U. Planted bugs are rejected by the same check.

The second half is about what enters: the state of the sketches must not depend on how rows are cut
into batches or where they are stored, and sources that can reorder records are refused.
"""

from __future__ import annotations

import itertools
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe._duck import relations as duck_relations
from dpframe.accounting.sketch_stream import SketchLaws, sketch_delta, sketch_laws, variant_unshared
from dpframe.errors import SourceError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.mechanisms import streaming_hhh
from dpframe.mechanisms.streaming_hhh import single_stream
from dpframe.noise import gaussian_table, laplace_table
from dpframe.sketches import MisraGries, SketchState
from dpframe.sources import source_relations
from dpframe.sources.packed_keys import stream_sql
from dpframe.sources.stream_batches import sketch_source, updated_sketches
from tests import naive
from tests.members import few, some

from .enumerate_outputs import ScriptedValues, every_script
from .sketch_outputs import (
    Law,
    Profile,
    Sketch,
    both_ways,
    counters_law,
    different,
    furthest,
    misra_gries,
    neighbours,
    product,
    profile,
    release_law,
    released,
    streams,
)

HIERARCHY = as_hierarchy("path:p?depth=2")
RECORDS = ("a/x", "a/y", "b", "c/x")
"""Three nodes a level; one record ends at level 1."""

K, LONGEST = 2, 4
EPSILONS = (0.5, 1.0, 2.0)

Stream = tuple[int, ...]
Levels = tuple[Sketch, ...]
"""One naive sketch a level; keys are positions in ``NODES``, negative ones dummies."""

TABLES = [("laplace", 1.2, 2, 2), ("laplace", 1.0, 2, 4), ("gaussian", 1.2, 3, 4)]
LARGER = [("laplace", 1.2, 3, 3), ("laplace", 1.0, 4, 6)]
"""Family, scale, bound and theta of tables of a few atoms: their cut ends cost a lot."""


def laws_of(family: str, scale: float, bound: int, theta: int) -> SketchLaws:
    noise = (laplace_table if family == "laplace" else gaussian_table)(scale, bound)
    known: Any = {"sketches": 2, "unshared": variant_unshared(), "delta": 1.0, "family": family}
    return SketchLaws(noise=noise, shared=noise, scale=scale, theta=theta, **known)


def claimed(laws: SketchLaws, epsilon: float, sketches: int = 2) -> float:
    known: Any = {name: getattr(laws, name) for name in ("family", "scale", "theta")}
    return sketch_delta(laws.noise, **known, sketches=sketches, epsilon=epsilon)


# -- the shipped pipeline ------------------------------------------------------------------------


@cache
def keys_of_records() -> tuple[pa.Array, ...]:
    """The key of every record of ``RECORDS``, an array a level, by the shipped SQL."""
    with source_relations.open_source(pd.DataFrame({"p": RECORDS}), ("p",)) as relation:
        found = relation.query(stream_sql(HIERARCHY, types=("VARCHAR",)), False)
    return tuple(column.combine_chunks() for column in found.columns)


def shipped(stream: Stream) -> tuple[SketchState, ...]:
    """What the shipped sketches of both levels hold after a stream."""
    sketches = [MisraGries(K) for _ in range(HIERARCHY.height)]
    for sketch, keys in zip(sketches, keys_of_records(), strict=True):
        sketch.update(keys.take(pa.array(stream, pa.int64())).drop_null())
    return tuple(sketch._state() for sketch in sketches)


def content(state: SketchState) -> tuple[Any, ...]:
    """All that is in a sketch, as plain values."""
    return state.decrements, state.dummies, tuple(state.keys.to_pylist()), tuple(state.counts)


Released = tuple[int, tuple[tuple[str, int], ...]]


@cache
def law_of(held: tuple[Any, ...], options: tuple[Any, ...]) -> Law:
    """Every outcome of the shipped release of a sketch, with its weight in units of 2**-64 a draw.

    A sketch with more keys draws more often: all weights are brought to K draws and one.
    """
    decrements, dummies, names, counts = held
    keys, whole = pa.array(names, pa.large_string()), np.array(counts, dtype=np.int64)
    known: Any = {"counters": K, "kind": "text", "total": 0, "keys": keys, "counts": whole}
    state = SketchState(**known, dummies=dummies, decrements=decrements)
    laws = laws_of(*options)
    law: Law = {}
    for script, noisy in every_script(lambda script: single_stream(state, scripted(laws, script))):
        out = noisy.decrements, tuple(zip(noisy.keys.to_pylist(), noisy.values, strict=True))
        weight = script.weight * 2 ** (64 * (K + 1 - len(script.sizes)))
        law[out] = law.get(out, 0) + weight
    assert sum(law.values()) == 2 ** (64 * (K + 1))
    return law


def scripted(laws: SketchLaws, script: Any) -> Any:
    """The laws, with draws from a script."""
    noise, shared = (ScriptedValues(law, script) for law in (laws.noise, laws.shared))
    return SimpleNamespace(noise=noise, shared=shared, least=laws.theta)


@cache
def shipped_pairs() -> frozenset[tuple[Any, ...]]:
    """Different pairs of neighbouring states of both levels; a level starts at its fewer alphas."""
    state = cache(lambda stream: tuple(content(level) for level in shipped(stream)))
    pairs = set()
    for stream in streams(len(RECORDS), LONGEST):
        for fewer in neighbours(stream):
            both = zip(state(stream), state(fewer), strict=True)
            pairs.add(tuple(_lowered(more, less) for more, less in both))
    return frozenset(pairs)


def _lowered(more: tuple[Any, ...], less: tuple[Any, ...]) -> tuple[Any, ...]:
    """alpha enters all outputs of a level as a shift: only the difference matters."""
    return (more[0] - less[0], *more[1:]), (0, *less[1:])


def composed(pairs: Iterable[tuple[Any, ...]], law: Callable[[Any], Law]) -> list[Profile]:
    """Different profiles of whole releases: levels draw independently, so profiles multiply."""
    known: dict[tuple[Any, ...], Profile] = {}

    @cache
    def kind(more: Any, less: Any) -> tuple[Any, ...]:
        one = profile(law(more), law(less))
        known[one.total, *one.masses] = one
        return one.total, *one.masses

    kinds = {tuple(kind(*pair) for pair in levels) for levels in pairs}
    return different(product(known[a], known[b]) for a, b in kinds)


@some(0, 2)
@pytest.mark.parametrize(
    "options", [*TABLES, *(pytest.param(o, marks=pytest.mark.evidence) for o in LARGER)]
)
def test_no_neighbouring_stream_is_further_than_claimed(options: tuple[Any, ...]) -> None:
    """Law: D(M(S) || M(S')) <= delta in both directions, over every value of every draw."""
    laws = laws_of(*options)
    found = composed(shipped_pairs(), lambda held: law_of(held, options))
    for epsilon in EPSILONS:
        exact = furthest(found, epsilon)
        assert claimed(laws, epsilon) / 4 < exact <= claimed(laws, epsilon)


def test_levels_that_pay_for_one_are_rejected() -> None:
    """Planted bug: the noise of one level is forgotten in the composition."""
    for options in TABLES[:2]:
        laws = laws_of(*options)
        found = composed(shipped_pairs(), lambda held, o=options: law_of(held, o))
        assert furthest(found, 1.0) > claimed(laws, 1.0, sketches=1)


def test_the_keys_are_those_of_the_pipeline() -> None:
    """Law: whole runs of the source, in text and in the fast way, give the enumerated states."""
    chosen = np.random.default_rng(5)
    for _ in range(25):
        stream = tuple(chosen.integers(0, len(RECORDS), chosen.integers(0, 12)).tolist())
        frame = pd.DataFrame({"p": pd.Series([RECORDS[i] for i in stream], dtype="str")})
        expected = [content(state)[0:1] + content(state)[2:] for state in shipped(stream)]
        for source in (frame, frame.astype("category")):
            found = [content(s)[0:1] + content(s)[2:] for s in sketch_source(source, HIERARCHY, K)]
            assert found == expected


def test_the_shipped_release_is_the_naive_one() -> None:
    """Law: enumerating the shipped code gives the law that ``sketch_outputs`` writes down."""
    options = TABLES[0]
    laws = laws_of(*options)
    for stream in itertools.islice(streams(len(RECORDS), LONGEST), 20, None, 97):
        for i, (state, plain) in enumerate(zip(shipped(stream), sound(stream), strict=True)):
            named = release_law(plain, laws.noise, laws.shared, laws.theta)
            expected: Law = {}
            for (alpha, out), w in named.items():
                key = alpha, tuple(("=" + NODES[i][x], u) for x, u in out)
                expected[key] = expected.get(key, 0) + w
            assert law_of(content(state), options) == expected


def test_levels_are_drawn_independently_and_the_rest_is_post_processing() -> None:
    """Law: the law of a whole run is the product of its levels', and what is reported is a function
    of what is published of the sketches."""
    laws = laws_of("laplace", 1.0, 1, 0)
    seen: dict[Any, Any] = {}
    for stream in ((0, 0, 3), (0, 1, 1, 3), (0, 1, 3, 0, 1, 2), (2,)):
        states = shipped(stream)
        joint: dict[Any, int] = {}

        def run(script: Any, states: Any = states) -> tuple[Any, Any]:
            published: list[Released] = []

            def recorded(state: SketchState, given: Any) -> Any:
                noisy = single_stream(state, scripted(given, script))
                pairs = zip(noisy.keys.to_pylist(), noisy.values.tolist(), strict=True)
                published.append((noisy.decrements, tuple(pairs)))
                return noisy

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(streaming_hhh, "release_sketch", recorded)
                nodes = streaming_hhh.run(
                    states, laws=laws, threshold=1, confidence=0.9, hierarchy=HIERARCHY
                )
            return tuple(published), nodes

        draws = 0
        for script, (published, nodes) in every_script(run):
            draws = len(script.sizes)
            joint[published] = joint.get(published, 0) + script.weight
            rest = [
                *(x.tolist() for x in (nodes.level, nodes.ancestor, nodes.residual, nodes.count)),
                *(k.to_pylist() for k in nodes.keys),
                *(ends.tolist() for ends in nodes.bounds or ()),
                nodes.sketch_error,
            ]
            assert seen.setdefault(published, rest) == rest
        assert draws == sum(1 + len(s.counts) - s.dummies for s in states)
        one, two = (law_of(content(s), ("laplace", 1.0, 1, 0)) for s in states)
        scale = 2 ** (64 * (2 * (K + 1) - draws))
        expected = {(a, b): v * w for a, v in one.items() for b, w in two.items()}
        assert {out: w * scale for out, w in joint.items()} == expected


# -- planted bugs --------------------------------------------------------------------------------

NAMES = (*RECORDS, "d")
NODES = tuple("abcd"), tuple(sorted(n for n in NAMES if "/" in n))
"""Nodes of each level, in the order of their keys; one record more than is enumerated."""

EPSILON, DELTA = 2.0, 0.02
TESTED = sketch_laws(sketches=2, epsilon=EPSILON, delta=DELTA, family="laplace")


def at_level(stream: Stream, level: int) -> Stream:
    """The keys of the records that reach a level, as positions in ``NODES``."""
    parts = (NAMES[record].split("/") for record in stream)
    return tuple(NODES[level].index("/".join(p[: level + 1])) for p in parts if len(p) > level)


def sound(stream: Stream) -> Levels:
    return tuple(misra_gries(at_level(stream, level), K) for level in range(2))


FALL = (0,) * 60 + (1,) * 60 + (2,) * 60 + (3,)
"""Two keys a level far above every threshold, and a record at which both levels fall."""
SHORT = 3
"""All streams up to here are compared with their neighbours, and those given by name."""


def exact(
    build: Callable[[Stream], Levels],
    release: Callable[[Sketch], Law],
    more: Sequence[Stream] = (FALL,),
) -> float:
    """The largest divergence of any two neighbouring streams, both levels together."""
    pairs = set()
    built = cache(lambda stream: tuple((a, tuple(sorted(c.items()))) for a, c in build(stream)))
    for stream in itertools.chain(streams(len(RECORDS), SHORT), more):
        for fewer in set(neighbours(stream)):
            both = zip(built(stream), built(fewer), strict=True)
            pairs.add(tuple(((a - b, p), (0, q)) for (a, p), (b, q) in both))
    law = cache(lambda held: release((held[0], dict(held[1]))))
    return furthest(composed(pairs, law), EPSILON)


def test_the_sound_pipeline_passes_the_check_that_rejects_the_bugs() -> None:
    """Law: within delta, on the long streams too, and at a good part of it."""
    more = (FALL, GROUPED, SHIFTED)
    assert DELTA / 4 < exact(sound, released(TESTED), more=more) <= TESTED.delta <= DELTA


def test_noise_and_threshold_of_one_level_are_rejected() -> None:
    """Planted bug: two levels are released with what one of them needs."""
    one = sketch_laws(sketches=1, epsilon=EPSILON, delta=DELTA, family="laplace")
    assert exact(sound, released(one)) > 5 * DELTA


def test_the_printed_algorithm_is_rejected() -> None:
    """Planted bug (as printed, Algorithm 3): fresh noise for every counter and no eta."""

    def fresh(sketch: Sketch) -> Law:
        return counters_law(sketch[1], TESTED.noise, TESTED.theta)

    assert exact(sound, fresh) > 10 * DELTA


def test_alpha_without_noise_is_rejected() -> None:
    """Planted bug: the error of a level is published as it is."""

    def bare(sketch: Sketch) -> Law:
        alpha, counters = sketch
        raised = {x: c + alpha for x, c in counters.items()}
        least = alpha + TESTED.theta
        return {(alpha, out): w for out, w in counters_law(raised, TESTED.noise, least).items()}

    assert exact(sound, bare) == 1.0


def test_an_eta_for_every_counter_is_rejected() -> None:
    """Planted bug: C + eta_i + Z_i: the move of alpha is in every counter, and nobody shares it."""
    once = TESTED.noise.weights.astype(object)
    twice = np.convolve(once, once)  # in units of 2**-128
    both = SimpleNamespace(weights=twice, lowest=2 * TESTED.noise.lowest)

    def apart(sketch: Sketch) -> Law:
        return counters_law(sketch[1], both, TESTED.theta, 2**128)

    assert exact(sound, apart) > 2 * DELTA


def test_one_eta_for_all_levels_is_rejected() -> None:
    """Planted bug: the levels' alpha_hat differ by exactly what their alphas differ by."""

    def law(levels: Levels) -> Law:
        etas = enumerate(TESTED.shared.weights.tolist(), start=TESTED.shared.lowest)
        return {tuple(alpha + eta for alpha, _ in levels): w for eta, w in etas}

    more, less = sound((0, 2, 0, 3)), sound((0, 2, 0))
    assert [a - b for (a, _), (b, _) in zip(more, less, strict=True)] == [1, 0]
    assert both_ways(profile(law(more), law(less)), EPSILON) == 1.0


def counted_first(stream: Stream) -> Levels:
    """A batch is grouped, and the largest groups go in first."""

    def level(keys: Stream) -> Sketch:
        counts = Counter(keys)
        order = sorted(counts, key=lambda x: (-counts[x], x))
        return misra_gries([x for x in order for _ in range(counts[x])], K)

    return level(at_level(stream, 0)), level(at_level(stream, 1))


CHUNK = 6


def chunked(stream: Stream) -> Levels:
    """A sketch for every six rows, added up."""

    def level(depth: int) -> Sketch:
        chunks = (stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK))
        parts = [misra_gries(at_level(chunk, depth), K) for chunk in chunks]
        total: Counter[int] = Counter()
        for _, counters in parts:
            total.update({x: c for x, c in counters.items() if x >= 0})
        return sum(alpha for alpha, _ in parts), total

    return level(0), level(1)


GROUPED = (0,) * 50 + (2,) * 40 + (3,) * 30 + (4,) * 30
"""One record less of the third node, and the fourth one goes in before it."""
SHIFTED = ((0,) * 6 + (2,) * 3 + (3,) * 3) * 4
"""Chunks of at most two nodes a level, and of three if the first row is missing."""

BATCHES = {"grouped": (counted_first, GROUPED), "chunks": (chunked, SHIFTED)}


@pytest.mark.parametrize("bug", BATCHES)
def test_batches_that_are_not_one_record_after_the_other_are_rejected(bug: str) -> None:
    """Planted bugs: groups counted before they go in; chunks by position of rows, merged."""
    build, stream = BATCHES[bug]
    assert exact(build, released(TESTED), more=[stream]) > 10 * DELTA
    assert exact(sound, released(TESTED), more=[stream]) <= DELTA


def by_codes_of_batches(keys: Stream, k: int, size: int) -> Sketch:
    """Ties go by the code that a key had in the dictionary of the batch in which it was stored."""
    counters, decrements = dict.fromkeys(range(-k, 0), 0), 0
    code = {x: x for x in counters}
    for at in range(0, len(keys), size):
        batch = keys[at : at + size]
        codes = {x: i for i, x in enumerate(dict.fromkeys(batch))}
        for x in batch:
            if x in counters:
                counters[x] += 1
            elif all(counters.values()):
                counters = {y: c - 1 for y, c in counters.items()}
                decrements += 1
            else:
                del counters[min((y for y, c in counters.items() if not c), key=lambda y: code[y])]
                counters[x], code[x] = 1, codes[x]
    return decrements, counters


def unshared(more: Sketch, less: Sketch) -> list[int]:
    """Counters of the keys that only the first of two sketches stores."""
    return sorted(c for x, c in more[1].items() if x not in less[1])


def test_codes_of_dictionaries_instead_of_keys_break_the_lemma() -> None:
    """Planted bug: order of arrival in a batch is no order of keys. Three keys are then unshared,
    where the threshold hides two; the sound sketch passes."""
    stream = (3, 5, 5, 4, 2, 1, 6, 4, 3, 1, 2, 0)
    fewer = stream[:1] + stream[2:]
    assert unshared(*(by_codes_of_batches(s, 4, 3) for s in (stream, fewer))) == [0, 0, 1]
    assert len(unshared(*(misra_gries(s, 4) for s in (stream, fewer)))) <= 2


# -- one state for all ways in -------------------------------------------------------------------


def some_rows(n: int = 400, seed: int = 2) -> list[str | None]:
    """Paths of three levels, ragged, with NULL, empty and far more nodes than counters."""
    draw = np.random.default_rng(seed)
    heavy = draw.zipf(1.3, n) % 50
    texts = [f"{i % 5}/{i % 11}/{i}"[: 3 + i % 6] for i in heavy.tolist()]
    return [None if i % 37 == 5 else "" if i % 41 == 7 else t for i, t in enumerate(texts)]


ROWS = some_rows()
DEEP = as_hierarchy("path:p?depth=3")
COUNTERS = 4


def one_at_a_time(rows: Sequence[str | None], hierarchy: Hierarchy = DEEP) -> list[Any]:
    """Naive sketches of the nodes of every row, in their order."""
    out = []
    paths = naive.leaf_paths(hierarchy, [(row,) for row in rows])
    for level in range(1, hierarchy.height + 1):
        nodes = [p[level - 1] for p in paths if p is not None and len(p) >= level]
        keys = ["!" if node is None else f"={node}" for node in nodes]
        counters, decrements = naive.misra_gries((k.encode() for k in keys), COUNTERS)
        out.append((decrements, sorted(counters.items())))
    return out


def held(states: Iterable[SketchState]) -> list[Any]:
    """The same of shipped sketches."""
    out = []
    for state in states:
        keys = [k.encode() for k in state.keys[state.dummies :].to_pylist()]
        named = zip(keys, state.counts[state.dummies :].tolist(), strict=True)
        dummies = [((0, COUNTERS - 1 - i), 0) for i in range(state.dummies)]
        out.append((state.decrements, sorted([*dummies, *(((1, k), c) for k, c in named)])))
    return out


@pytest.mark.parametrize(
    "size", [7, 399, 400, 1000, *(pytest.param(n, marks=pytest.mark.evidence) for n in (1, 2, 100))]
)
def test_where_batches_end_makes_no_difference(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: the state is that of one record after the other, whatever the batches."""
    expected = one_at_a_time(ROWS)
    assert all(decrements > 5 for decrements, _ in expected)
    monkeypatch.setattr(duck_relations, "BATCH_ROWS", size)
    frame = pd.DataFrame({"p": pd.Series(ROWS, dtype="str")})
    assert held(sketch_source(frame, DEEP, COUNTERS)) == expected
    halves = [MisraGries(COUNTERS) for _ in range(DEEP.height)]
    for part in (frame.iloc[:123], frame.iloc[123:]):
        halves = updated_sketches(halves, part, DEEP)
    assert held(tuple(sketch._state() for sketch in halves)) == expected


def test_forgotten_texts_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: how many texts are remembered makes no difference."""
    monkeypatch.setattr("dpframe.sources.stream_batches.REMEMBERED", 3)
    monkeypatch.setattr("dpframe.sources.stream_batches.splits_by_byte", lambda *_: False)
    monkeypatch.setattr(duck_relations, "BATCH_ROWS", 10)
    frame = pd.DataFrame({"p": pd.Series(ROWS, dtype="str")})
    assert held(sketch_source(frame, DEEP, COUNTERS)) == one_at_a_time(ROWS)


def test_the_order_of_rows_is_what_this_can_see() -> None:
    """Negative control: the same rows in another order give another state."""
    assert one_at_a_time(sorted(ROWS, key=str)) != one_at_a_time(ROWS)


def as_parquet(folder: Path, table: pa.Table) -> str:
    pq.write_table(table, folder / "rows.parquet", row_group_size=64)
    return str(folder / "rows.parquet")


def as_two_parquets(folder: Path, table: pa.Table) -> str:
    pq.write_table(table.slice(0, 150), folder / "part-1.parquet", row_group_size=50)
    pq.write_table(table.slice(150), folder / "part-2.parquet")
    return str(folder / "part-*.parquet")


def as_csv(folder: Path, table: pa.Table) -> str:
    table.to_pandas().to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


def as_table(folder: Path, table: pa.Table) -> Any:
    con = duckdb.connect(str(folder / "rows.db"))
    con.register("given", table)
    con.execute("CREATE TABLE stored AS FROM given")
    return con.table("stored")


def as_filtered_union(folder: Path, table: pa.Table) -> Any:
    stored = as_table(folder, table.append_column("i", pa.array(range(len(table)))))
    halves = "SELECT p FROM {0} WHERE i < 200 UNION ALL SELECT p FROM {0} WHERE i >= 200"
    return stored.query("s", halves.format("s"))


SOURCES: dict[str, Callable[[Path, pa.Table], Any]] = {
    "pandas": lambda _, table: table.to_pandas(),
    "pandas, categories": lambda _, table: table.to_pandas().astype("category"),
    "Arrow": lambda _, table: table,
    "Arrow, in chunks": lambda _, t: pa.concat_tables([t.slice(0, 33), t.slice(33)]),
    "Arrow, dictionary": lambda _, t: pa.table({"p": t["p"].dictionary_encode()}),
    "parquet": as_parquet,
    "two parquet files": as_two_parquets,
    "CSV": as_csv,
    "DuckDB table": as_table,
    "DuckDB union of filters": as_filtered_union,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_state_of_its_rows(kind: str, tmp_path: Path) -> None:
    """Law: the state depends on the rows and their order, not on what holds them."""
    source = SOURCES[kind](tmp_path, pa.table({"p": pa.array(ROWS, pa.string())}))
    assert held(sketch_source(source, DEEP, COUNTERS)) == one_at_a_time(ROWS)


def test_long_files_are_read_in_order(tmp_path: Path) -> None:
    """Law: threads that read row groups of several files do not change the order of rows."""
    count = 300_000
    rows = pa.array([f"{(i * i) % 9973 % 97}/{i % 7}" for i in range(count)])
    for at in range(3):
        part = pa.table({"p": rows.slice(at * 100_000, 100_000)})
        pq.write_table(part, tmp_path / f"{at}.parquet", row_group_size=20_000)
    found = sketch_source(str(tmp_path / "*.parquet"), HIERARCHY, 20)
    expected = sketch_source(pa.table({"p": rows}), HIERARCHY, 20)
    assert [content(s) for s in found] == [content(s) for s in expected]
    assert all(s.decrements > 100 for s in found)


# -- sources that can reorder records ------------------------------------------------------------

REFUSED = {
    "join": "SELECT t.p FROM t JOIN u USING (i)",
    "semi join": "SELECT p FROM t WHERE i IN (SELECT i FROM u)",
    "cross join": "SELECT t.p FROM t, u WHERE t.i > u.i",
    "positional join": "SELECT t.p FROM t POSITIONAL JOIN u",
    "asof join": "SELECT t.p FROM t ASOF JOIN u ON t.i >= u.i",
    "subquery": "SELECT p FROM t WHERE i > (SELECT avg(i) FROM u)",
    "group by": "SELECT p, count(*) FROM t GROUP BY p",
    "distinct": "SELECT DISTINCT p FROM t",
    "distinct on": "SELECT DISTINCT ON (i) p FROM t",
    "union": "SELECT p FROM t UNION SELECT p FROM u",
    "intersect": "SELECT p FROM t INTERSECT SELECT p FROM u",
    "except all": "SELECT p FROM t EXCEPT ALL SELECT p FROM u",
    "order by": "SELECT p FROM t ORDER BY i",
    "top": "SELECT p FROM t ORDER BY i LIMIT 5",
    "limit": "SELECT p FROM t LIMIT 5",
    "offset": "SELECT p FROM t OFFSET 5",
    "sample of rows": "SELECT p FROM t USING SAMPLE 10 ROWS",
    "bernoulli sample": "SELECT p FROM t TABLESAMPLE BERNOULLI(50%)",
    "system sample": "SELECT p FROM t TABLESAMPLE SYSTEM(50%)",
    "window": "SELECT p || rank() OVER (ORDER BY i) AS p FROM t",
    "lag": "SELECT lag(p) OVER (ORDER BY i) AS p FROM t",
    "qualify": "SELECT p FROM t QUALIFY row_number() OVER (PARTITION BY p) < 5",
    "unnest": "SELECT unnest([p, p]) AS p FROM t",
}


@pytest.fixture
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT (i % 7)::VARCHAR || '/x' AS p, i FROM range(5000) r(i)")
    con.execute("CREATE TABLE u AS FROM t WHERE i < 50")
    yield con
    con.close()


BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
OPTIONS: dict[str, Any] = {**BUDGET, "mechanism": "streaming"}


ANY_ORDER = "in any order"


def said_of(name: str, con: duckdb.DuckDBPyConnection) -> str:
    """What is said of the source; of a connection that reads in any order, whatever it is."""
    if name == ANY_ORDER:
        con.execute("SET preserve_insertion_order = false")
    return "preserve_insertion_order" if name == ANY_ORDER else "stored order"


@few(8, "name", [*REFUSED, ANY_ORDER])
def test_sources_that_can_reorder_records_are_refused(
    name: str, tables: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """Law: refused by every door before anything is drawn, and nothing is charged."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    dp.register(tables, ledger=ledger)
    said, query = said_of(name, tables), REFUSED.get(name, "FROM t")
    with pytest.raises(SourceError, match=said):
        dp.hhh(tables.sql(query), "path:p", ledger=ledger, **OPTIONS)
    with pytest.raises(SourceError, match=said):
        dp.heavy_hitters(tables.sql(query), "p", ledger=ledger, **OPTIONS)
    call = "FROM dp_hhh(query := $q, hierarchy := 'path:p', mechanism := 'streaming', "
    with pytest.raises(duckdb.Error, match=said):
        tables.execute(f"{call} epsilon := 1, delta := 1e-6)", {"q": query}).fetchall()
    assert len(ledger.releases()) == 0


def test_a_view_is_looked_through(tables: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Law: a name hides nothing: a view of a join is refused, a view of a filter is taken."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    dp.register(tables, ledger=ledger)
    tables.execute("CREATE VIEW joined AS SELECT t.p FROM t JOIN u USING (i)")
    tables.execute("CREATE VIEW filtered AS SELECT p FROM t WHERE i > 9")
    call = "FROM dp_hhh('{}', 'path:p', epsilon := 1, delta := 1e-6, mechanism := 'streaming')"
    with pytest.raises(duckdb.Error, match="stored order"):
        tables.execute(call.format("joined")).fetchall()
    with pytest.raises(SourceError, match="stored order"):
        dp.hhh(tables.view("joined"), "path:p", ledger=ledger, **OPTIONS)
    assert len(ledger.releases()) == 0
    assert tables.execute(call.format("filtered")).fetchall()
    assert len(ledger.releases()) == 1


TAKEN = {
    "table": "FROM t",
    "filter": "SELECT p FROM t WHERE i > 3 AND p LIKE '%x'",
    "projection": "SELECT upper(p) AS p FROM t",
    "union all": "SELECT p FROM t UNION ALL SELECT p FROM u",
}


@pytest.mark.parametrize("name", TAKEN)
def test_sources_that_are_read_as_stored_are_taken(name: str, tables: Any, tmp_path: Path) -> None:
    """Negative control: the check lets what keeps the order through, and charges once."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    found = dp.hhh(tables.sql(TAKEN[name]), "path:p", ledger=ledger, **OPTIONS)
    assert len(found) > 0
    assert len(ledger.releases()) == 1


# -- what an attacker tried ----------------------------------------------------------------------


def test_no_error_in_the_middle_of_a_stream_quotes_a_value(tmp_path: Path) -> None:
    """DuckDB's text comes through Arrow there, and is withheld as everywhere."""
    con = duckdb.connect()
    secret = "CASE WHEN i = 2999 THEN 'SECRET-alice' ELSE '1' END"
    con.execute(f"CREATE TABLE t AS SELECT {secret} AS c FROM range(3000) r(i)")
    con.execute(f"COPY t TO '{tmp_path / 'rows.parquet'}'")
    file = tmp_path / "rows.parquet"
    for statement in (
        "SELECT cast(c AS INT)::VARCHAR AS c FROM t",
        "SELECT c FROM t WHERE CASE WHEN c = '1' THEN true ELSE error(c) END",
        f"SELECT cast(c AS INT)::VARCHAR AS c FROM '{file}'",
    ):
        for hierarchy in ("path:c", ["c"]):
            with pytest.raises(dp.SourceError) as raised:
                dp.hhh(con.sql(statement), hierarchy, **OPTIONS)
            told = "".join(traceback.format_exception(raised.value))
            assert "alice" not in told
            assert "withheld" in str(raised.value)


def test_the_check_of_the_order_does_not_depend_on_the_data() -> None:
    """The plan is judged as it is written: an optimised one can be empty, or fold a window."""
    con = duckdb.connect()
    con.execute("CREATE TABLE p AS SELECT 'a' AS c, i AS salary FROM range(1000) r(i)")
    before = con.execute("SELECT current_setting('explain_output')").fetchall()
    for statement in (
        "SELECT c FROM p WHERE salary > 5 LIMIT 1",
        "SELECT c FROM p WHERE salary > 5000 LIMIT 1",
        "SELECT c FROM p QUALIFY row_number() OVER () % 2 = 0",
    ):
        with pytest.raises(dp.SourceError, match="stored order"):
            dp.hhh(con.sql(statement), ["c"], **OPTIONS)
    assert con.execute("SELECT current_setting('explain_output')").fetchall() == before


def test_text_that_is_no_unicode_stops_nothing() -> None:
    """It is repaired as for exact counts, and later calls work."""
    text = [None, pa.py_buffer(np.array([0, 1, 3, 4], np.int32)), pa.py_buffer(b"a\xff\xfeb")]
    bad = pa.table({"c": pa.Array.from_buffers(pa.string(), 3, text)})
    con = duckdb.connect()
    con.register("bad", bad)
    for hierarchy in ("code:c?lengths=1,2", "path:c", ["c"]):
        for source in (bad, con.sql("FROM bad")):
            assert len(dp.hhh(source, hierarchy, **OPTIONS)) == 0
    assert len(dp.hhh(pd.DataFrame({"c": ["x"] * 500}), "path:c", **BUDGET))


@few(10, "name", [*REFUSED, ANY_ORDER, *TAKEN])
def test_sketches_of_keys_take_the_relations_that_streams_take(name: str, tables: Any) -> None:
    """Law: one rule for every sketch that reads an order: who has which item, for users too."""
    rule, query = said_of(name, tables), {**REFUSED, **TAKEN}.get(name, "FROM t")
    rows = tables.sql(f"SELECT p FROM ({query}) WHERE p IS NOT NULL")
    keys, users = dp.MisraGries(20), dp.PrivacyAwareMisraGries(20, 5)
    if name in TAKEN:
        keys.update(rows)
        keys.update(["a/x"])
        assert keys.total > 1000
        with pytest.raises(TypeError, match="order is not checked"):
            MisraGries(20).update(rows)
        return
    for update in (
        lambda: keys.update(rows),
        lambda: users.update_users(rows, ["a"]),
        lambda: users.update_users(["a"], rows),
    ):
        with pytest.raises(SourceError, match=rule):
            update()
    assert keys.total == users.total == 0
    users.update(rows)  # all items of one user: a set
    assert users.total > 0 or "sample" in name  # which can be empty


def test_sets_pair_no_users_with_items() -> None:
    """Law: what is refused as a stream is refused as users and as their items."""
    users = dp.PrivacyAwareMisraGries(4, 2)
    for batch in (({1, 2}, ["a", "b"]), ([1, 2], {"a", "b"})):
        with pytest.raises(TypeError, match="are a set"):
            users.update_users(*batch)
