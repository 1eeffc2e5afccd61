"""Users as devices with items, and what each of them chooses."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from scipy import stats

import dpframe.federated as choosing
from dpframe.asking.call_arguments import flat_hierarchy
from dpframe.federated import BinaryEncoding, Population, select_data
from dpframe.sources.codes import count_devices, population
from tests.members import tries

anywhere = tries(25, 100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Also on a machine that is busy."""

LEVEL = 1e-6
ABC = BinaryEncoding("abc")
ONE = BinaryEncoding("a0123456789-.")


def fleet(*devices: Mapping[int, int], items: int = 8) -> Population:
    """Devices by numbers of items, and how often each occurs."""
    packed = np.zeros((items, 2), dtype=np.uint64)
    packed[:, 0] = np.arange(items, dtype=np.uint64) << np.uint64(61)
    return Population(
        packed=packed,
        starts=np.cumsum([0, *map(len, devices)]).astype(np.int64),
        items=np.array([i for d in devices for i in d], dtype=np.int32),
        times=np.array([n for d in devices for n in d.values()], dtype=np.uint32),
    )


def choices(devices: Population, eligible: Sequence[int], **more: Any) -> np.ndarray:
    allowed = np.isin(np.arange(len(devices.packed)), eligible)
    told = {"taking_part": None, "weighted": False, "random": np.random.default_rng(1), **more}
    return devices.choices(allowed, **told)


@pytest.mark.parametrize(("weighted", "law"), [(False, [1, 1, 1]), (True, [5, 1, 2])])
@pytest.mark.parametrize("at_once", [1, 7, 1 << 22])
def test_devices_choose_by_law(
    weighted: bool, law: list[int], at_once: int, monkeypatch: Any
) -> None:
    """Chi-square of equal devices, at level 1e-6, in any chunks; the other law is rejected."""
    monkeypatch.setattr(choosing, "ITEMS_AT_ONCE", at_once)
    devices = fleet(*[{0: 5, 3: 9, 4: 1, 7: 2}] * 3000)
    found = Counter(choices(devices, [0, 4, 7], weighted=weighted).tolist())
    counts = [found[i] for i in (0, 4, 7)]
    assert sum(counts) == 3000
    other = [1, 1, 1] if weighted else [5, 1, 2]
    for shares, right in ((law, True), (other, False)):
        expected = np.array(shares) / sum(shares) * 3000
        assert (stats.chisquare(counts, expected).pvalue > LEVEL) == right


@anywhere
@given(
    st.lists(st.dictionaries(st.integers(0, 7), st.integers(1, 9), max_size=5), max_size=30),
    st.sets(st.integers(0, 7)), st.integers(1, 20), st.booleans(),
    st.none() | st.lists(st.booleans(), min_size=30, max_size=30),
)  # fmt: skip
def test_each_device_that_takes_part_chooses_one_of_its_own(
    held: list[dict[int, int]], eligible: set[int], at_once: int, weighted: bool, here: Any
) -> None:
    """Law: in any chunks, one choice of each device with an eligible item, in order."""
    part = None if here is None else np.array(here[: len(held)], dtype=np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "ITEMS_AT_ONCE", at_once)
        found = choices(fleet(*held), sorted(eligible), weighted=weighted, taking_part=part)
    present = [d for i, d in enumerate(held) if part is None or part[i]]
    asked = [eligible & d.keys() for d in present if eligible & d.keys()]
    assert len(found) == len(asked)
    assert all(item in own for item, own in zip(found.tolist(), asked, strict=True))


def test_the_largest_number_is_a_choice(monkeypatch: Any) -> None:
    """Law: numbers up to the end of their range choose the last item, never one beyond."""

    class Last:
        def random(self, n: int) -> np.ndarray:
            return np.full(n, np.nextafter(1.0, 0.0))

    devices = fleet({0: 2**32 - 1, 1: 2**32 - 1}, {2: 1}, {}, {3: 1, 4: 1})
    found = choices(devices, range(8), weighted=True, random=Last())
    assert found.tolist() == [1, 2, 4]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_device_by_itself_has_the_same_law(weighted: bool) -> None:
    """Law: what runs on a device and what a simulation draws are one law; the other is rejected."""
    words = {"a": 1, "b": 6, "ab": 2, "c": 3}
    frame = pd.DataFrame({"u": 1, "w": [w for w, n in words.items() for _ in range(n)]})
    one = population(frame, flat_hierarchy("w"), "u", ABC, 12)
    random = np.random.default_rng(2)
    whole = np.ones(len(one.packed), dtype=np.bool_)

    def simulated(weighted: bool) -> str:
        chosen = one.choices(whole, taking_part=None, weighted=weighted, random=random)
        return format(int(one.packed[chosen[0], 0] >> np.uint64(52)), "012b")

    def alone() -> str:
        kind: Any = "weighted" if weighted else "unweighted"
        said = select_data(
            words, encoding=ABC, prefixes=[""], segment=12, selection=kind, random=random
        )
        return said or ""

    here, there = Counter(alone() for _ in range(3000)), Counter()
    there.update(simulated(weighted) for _ in range(3000))
    other = Counter(simulated(not weighted) for _ in range(3000))
    order = [ABC.encode(w, 12) for w in words]
    for found, right in ((there, True), (other, False)):
        table = [[found[b] for b in order], [here[b] for b in order]]
        assert (stats.chi2_contingency(table).pvalue > LEVEL) == right


def held(
    source: Any, encoding: Any = ABC, length: int = 40
) -> Counter[tuple[tuple[str, int], ...]]:
    """Items of every device as texts, with how often they occur."""
    found = population(source, flat_hierarchy("w"), "u", encoding, length)
    assert found.devices == count_devices(source, flat_hierarchy("w"), "u")
    texts = []
    for row in found.packed:
        bits = "".join(format(int(word), "064b") for word in row)[:length]
        texts.append(encoding.decode(bits, length).label)
    out = Counter()
    for i in range(found.devices):
        part = slice(found.starts[i], found.starts[i + 1])
        own = zip(found.items[part].tolist(), found.times[part].tolist(), strict=True)
        out[tuple(sorted((texts[item], n) for item, n in own))] += 1
    return out


def test_users_are_devices_and_missing_ones_are_one() -> None:
    """Law: a user is one device, NULL is another one, and a user of missing items has none."""
    frame = pd.DataFrame(
        {"u": [1, 1, 1, 2, None, None, 3, 3], "w": ["a", "b", "a", "a", "c", "c", None, None]}
    )
    expected = Counter([(("a", 2), ("b", 1)), (("a", 1),), (("c", 2),), ()])
    assert held(frame) == expected
    relation = duckdb.from_df(frame)
    assert held(relation) == expected
    assert held(frame.sample(frac=1, random_state=3)) == expected


def test_texts_that_fold_to_the_same_bits_are_one_item() -> None:
    """Law: neither spellings nor what is cut off count; other alphabets are left out."""
    frame = pd.DataFrame({"u": 1, "w": ["Ab", "aB", "aé", "aè", "a\0", "bbbb", "bbba"]})
    items = sorted([("ab", 2), ("bbb\u2026", 2)])
    assert held(frame, length=9) == Counter({tuple(items): 1})


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1, 10, -1], ["1", "10", "-1"]),
        ([dt.date(2024, 1, 31)], ["2024-01-31"]),
        ([1.5, 2.0, float("nan")], ["1.5", "2"]),
    ],
)
def test_other_types_are_read_as_text(values: list[Any], texts: list[str]) -> None:
    """Law: numbers and dates are their texts; what is no number is missing."""
    frame = pd.DataFrame({"u": range(len(values)), "w": values})
    found = held(frame, ONE, 80)
    expected = Counter([((t, 1),) for t in texts] + [()] * (len(values) - len(texts)))
    assert found == expected


@pytest.mark.parametrize("rows", [[], [(1, None)], [(None, None)]])
def test_sources_without_items(rows: list[tuple[Any, Any]]) -> None:
    """Law: users without items are devices; without rows there are none."""
    frame = pd.DataFrame(rows, columns=["u", "w"]).astype({"u": "Int64", "w": "string"})
    found = population(frame, flat_hierarchy("w"), "u", ABC, 12)
    assert (found.devices, len(found.items)) == (len(rows), 0)
    empty = np.zeros(len(found.packed), dtype=np.bool_)
    random = np.random.default_rng(1)
    assert len(found.choices(empty, taking_part=None, weighted=False, random=random)) == 0


@anywhere
@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 4), st.none() | st.text("abC\0é", max_size=4)),
        max_size=25,
    )
)
def test_sources_are_what_the_slow_twin_reads(rows: list[tuple[int | None, str | None]]) -> None:
    """Law: for any rows, devices hold their items, folded, as often as they occur."""
    frame = pd.DataFrame(rows, columns=["u", "w"]).astype({"u": "Int64", "w": "string"})
    expected: dict[int | None, Counter[str]] = {u: Counter() for u, _ in rows}
    for u, w in rows:
        if w and set(w.lower()) <= set("abc"):  # empty is missing, as everywhere
            expected[u][w.lower()] += 1
    assert held(frame) == Counter(tuple(sorted(own.items())) for own in expected.values())
