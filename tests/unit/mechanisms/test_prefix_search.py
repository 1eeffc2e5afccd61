"""The search itself: with a channel that tells exact counts, it finds what a slow twin finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from dpframe.federated import (
    BinaryEncoding,
    Encoding,
    HuffmanEncoding,
    Population,
    Segments,
    largest,
)
from dpframe.mechanisms import prefix_tree
from dpframe.mechanisms.prefix_tree import FoundItems, Search, run
from dpframe.papers import SampledVotes
from dpframe.sources.codes import population_of
from tests.members import tries
from tests.naive import Fleet, heavy

anywhere = tries(25, 100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Also on a machine that is busy."""

ABC = BinaryEncoding("abc")
HUFFMAN = HuffmanEncoding(["aab", "abc", "aaaa"], "abc")
words = st.text("abcd", max_size=5)


def fleet_of(fleet: Fleet, encoding: Encoding, length: int) -> Population:
    """Devices as the source makes them."""
    texts = [item for items in fleet for item in items]
    device = np.array([i for i, items in enumerate(fleet) for _ in items], dtype=np.int64)
    times = np.array([n for items in fleet for n in items.values()], dtype=np.int64)
    return population_of(encoding, texts, length, device, np.arange(len(texts)), times, len(fleet))


@dataclass(frozen=True)
class Exact(SampledVotes):
    """Exact counts of all devices; remembers what it was asked."""

    votes: int
    asked: list[tuple[list[int], int, int]] = field(default_factory=list)

    def sums(self, cells: Any, size: int, devices: int) -> Any:
        self.asked.append((sorted(cells.tolist()), size, devices))
        return super().sums(cells, size, devices)


def search(segments: Segments, encoding: Encoding, **more: Any) -> Search:
    told: dict[str, Any] = {
        "rounds": 1,
        "false_positives": 0.5,
        "weighted": False,
        "conditioned": True,
        "deny": (),
        "taking_part": 1.0,
        "confidence": 0.9,
    }
    return Search(encoding=encoding, segments=segments, **{**told, **more})


def found_in(
    fleet: Fleet,
    encoding: Encoding = ABC,
    *,
    length: int = 15,
    bits: Sequence[int] = (3, 3, 3, 3, 3),
    votes: int = 2,
    channel: Exact | None = None,
    **more: Any,
) -> FoundItems:
    segments = Segments.of(tuple(bits), length=length, limit=2**20)
    how = search(segments, encoding, **more)
    return run(fleet_of(fleet, encoding, length), channel or Exact(votes), how)


def counts(found: FoundItems) -> dict[str, float]:
    assert len(set(found.text)) == len(found.text)  # no item is found twice
    return dict(zip(found.text, found.count.tolist(), strict=True))


@anywhere
@given(
    st.lists(words, max_size=25), st.sampled_from([ABC, HUFFMAN]), st.integers(1, 3),
    st.sampled_from([(15,), (3, 3, 3, 3, 3), (1, 4, 5, 5), (7, 8)]), st.booleans(),
)  # fmt: skip
def test_it_finds_what_the_slow_twin_finds(
    items: list[str], encoding: Encoding, votes: int, bits: tuple[int, ...], conditioned: bool
) -> None:
    """Law: for devices with one item each, the items above the threshold, with their holders."""
    fleet = [{item: 1} for item in items]
    found = found_in(fleet, encoding, bits=bits, votes=votes, conditioned=conditioned)
    assert counts(found) == heavy(fleet, encoding, length=15, segments=bits, threshold=votes)


@anywhere
@given(
    st.lists(
        st.dictionaries(st.text("abcd", max_size=3), st.integers(1, 3), max_size=4), max_size=20
    )
)
def test_all_items_of_all_devices_are_found_in_the_end(fleet: Fleet) -> None:
    """Law: with threshold 1 and enough rounds everything is found, by either code, once."""
    every = {item for d in fleet for item in d if set(item) <= set("abc")}
    for encoding in (ABC, HUFFMAN):
        found = found_in(fleet, encoding, length=18, bits=(6, 6, 6), votes=1, rounds=8)
        assert counts(found).keys() == every


def test_items_that_are_cut_alike_are_one_row() -> None:
    """Law: an item that does not fit is the characters that do, in one round as in several."""
    fleet = [{"abaa": 1}] * 3 + [{"abb": 1}] * 4 + [{"cb": 1}] * 2
    for rounds in (1, 2):
        found = found_in(fleet, length=8, bits=(4, 4), rounds=rounds)
        assert counts(found) == {"ab\u2026": 7, "cb\u2026": 2}


def test_items_outside_of_the_alphabet_are_never_found() -> None:
    """Law: they are not reported, and no label stands for them; their devices report others."""
    fleet = [{"a1": 1}] * 9 + [{"22": 1, "ab": 1}] * 5 + [{"333333": 1}] * 9
    assert counts(found_in(fleet, rounds=3)) == {"ab": 5}


def test_found_items_leave_their_devices_to_others() -> None:
    """Law: in a second round devices report what the first did not find."""
    fleet = [{"a": 1, "bcb": 1}] * 4 + [{"a": 1}]
    assert counts(found_in(fleet, bits=(15,), votes=5)).keys() <= {"a"}
    found = found_in(fleet, votes=1, bits=(15,), rounds=2)
    assert set(counts(found)) == {"a", "bcb"}
    short = found_in([{"a": 1, "bcb": 1}] * 4, votes=4, bits=(6, 9), conditioned=True, rounds=4)
    assert len(short.text) == len(set(short.text))


def test_denied_items_are_not_reported_and_not_found() -> None:
    """Law: of a denied item no device says anything, whatever its spelling."""
    fleet = [{"A": 1}] * 3 + [{"a": 1, "b": 1}] * 3 + [{"c\u00e9": 1}] * 3
    channel = Exact(2)
    found = found_in(fleet, channel=channel, deny=("a", "c\ufffd"))
    assert counts(found) == {"b": 3}
    first, size, devices = channel.asked[0]
    assert (len(first), size, devices) == (3, 8, 9)


def test_impossible_and_denied_cells_are_dropped() -> None:
    """Law: cells that no item can have, and denied texts, are not found, however large."""

    @dataclass(frozen=True)
    class Everything(Exact):
        def least(self, *_: Any) -> int:
            return 0

    found = found_in([{"a": 1}], channel=Everything(0), length=6, bits=(3, 3), deny=("b",))
    ended = {t for t in found.text if not t.endswith("\u2026")}
    assert ended == {"", "a", "c"}
    assert len(found.text) == len(set(found.text)) == 3 + 9


@pytest.mark.parametrize("weighted", [False, True])
def test_devices_take_part_by_chance(weighted: bool) -> None:
    """Law: the channel is told how many take part, and no more of them hold anything."""
    channel = Exact(1)
    found_in(
        [{"a": 2, "b": 1}] * 500, channel=channel, bits=(15,), taking_part=0.5, rounds=6,
        weighted=weighted, votes=501,
    )  # fmt: skip
    here = [devices for _, _, devices in channel.asked]
    assert len(set(here)) > 1
    assert all(150 < n < 350 for n in here)
    assert all(len(cells) <= n for cells, _, n in channel.asked)
    first = Counter(channel.asked[0][0])
    assert sum(first.values()) == here[0]


def test_the_twin_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: a search that follows one prefix less is not the twin."""
    fleet = [{"ab": 1}] * 4 + [{"cb": 1}] * 3
    right = heavy(fleet, ABC, length=15, segments=(3, 12), threshold=2)
    assert counts(found_in(fleet, bits=(3, 12), channel=Exact(2))) == right
    monkeypatch.setattr(
        prefix_tree, "largest", lambda cells, sums, capacity: largest(cells, sums, 1)
    )
    assert counts(found_in(fleet, bits=(3, 12), channel=Exact(2))) != right
