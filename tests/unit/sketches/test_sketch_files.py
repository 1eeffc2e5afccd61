"""Sketches in files: whole or not at all, and nothing else is taken for one."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpframe.errors import SourceError
from dpframe.sketches import MergedSketch, MisraGries, PrivacyAwareMisraGries, merge_raw_sketches
from dpframe.sketches._sketch import Sketch
from tests.members import some

SPELLINGS: list[Callable[[int], Any]] = [
    lambda x: x - 2**40,
    lambda x: x + 2**63,
    lambda x: f"é{x}" + "long" * x,
    lambda x: bytes([x, 0, 255]) * x,
]
KINDS = ["variant", "standard", "users", "bounded", "sum"]


def made(kind: str, stream: list[Any]) -> Sketch:
    if kind == "users":
        users = PrivacyAwareMisraGries(4, 3)
        users.update_users([f"user {i:03}" for i in range(len(stream))], stream)
        return users
    sketch = MisraGries(4, standard=kind == "standard")
    sketch.update(stream)
    if kind in ("bounded", "sum"):
        return merge_raw_sketches([sketch, MisraGries(4)], method=kind)
    return sketch


def content(sketch: Sketch) -> tuple[Any, ...]:
    state = sketch._state()
    keys = (state.kind, str(state.keys.type), state.keys.to_pylist(), state.counts.tolist())
    return *keys, state.dummies, state.lattice, state.decrements, state.total, repr(sketch)


@some("variant", "users")
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(
    stream=st.lists(st.integers(0, 12), max_size=60),
    spelling=st.sampled_from(SPELLINGS),
    later=st.lists(st.integers(0, 12), max_size=60),
)
def test_a_saved_sketch_is_the_sketch(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    stream: list[int],
    spelling: Callable[[int], Any],
    later: list[int],
) -> None:
    """Law: what is read is what was written, and counts on as if nothing had happened."""
    path = tmp_path_factory.getbasetemp() / f"sketch-{kind}"
    sketch = made(kind, [spelling(x) for x in stream])
    sketch.save(path)
    loaded = type(sketch).load(path)
    assert content(loaded) == content(sketch)
    more = [spelling(x) for x in later]
    for one in (sketch, loaded):
        if isinstance(one, MisraGries):
            one.update(more)
        elif isinstance(one, PrivacyAwareMisraGries):
            one.update_users([f"user {500 + i}" for i in range(len(more))], more)
    assert content(loaded) == content(sketch)


def test_equal_states_give_equal_files(tmp_path: Path) -> None:
    """Law: a file tells the stream and the state, not the way to it."""
    one = MisraGries(3)
    other = copy.copy(one)
    one.update([1, 2, 3, 4, 5, 4])
    for key in (1, 2, 3, 4, 5, 4):
        other.update([key])
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    MisraGries.load(tmp_path / "one").save(tmp_path / "again")
    contents = {(tmp_path / name).read_bytes() for name in ("one", "other", "again")}
    assert len(contents) == 1


def test_a_user_is_remembered_over_a_file(tmp_path: Path) -> None:
    """Law: loading is no way to count a user twice."""
    for users, again in (([3], [3]), (["b"], ["a"]), ([b"\xff"], [b"\xfe"])):
        sketch = PrivacyAwareMisraGries(3, 2)
        sketch.update_users(users, [1])
        sketch.save(tmp_path / "users")
        with pytest.raises(ValueError, match="users must"):
            PrivacyAwareMisraGries.load(tmp_path / "users").update_users(again, [1])


@some(0, 2)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_truncated_or_changed_file(tmp_path: Path, spelling: Callable[[int], Any]) -> None:
    """Law: every cut and every changed byte is noticed, and the message quotes no key."""
    path = tmp_path / "sketch"
    made("variant", [spelling(x) for x in (1, 2, 3, 1)]).save(path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(SourceError, match=r"truncated|is no sketch"):
            MisraGries.load(path)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        with pytest.raises(SourceError, match=r"truncated|is no sketch|newer version"):
            MisraGries.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(SourceError, match="truncated or damaged"):
        MisraGries.load(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Law: a file of something else, of another class or of a newer version says so."""
    path = tmp_path / "sketch"
    for other in (b"", b"PAR1 and more", b"\x80\x04pickle", b"dpframe Sketch" + bytes(60)):
        path.write_bytes(other)
        with pytest.raises(SourceError, match="is no sketch of dpframe"):
            MisraGries.load(path)
    with pytest.raises(SourceError, match="cannot be read"):
        MisraGries.load(tmp_path / "missing")
    with pytest.raises(SourceError, match="cannot be read"):
        MisraGries.load(tmp_path)
    sketch = made("users", [1])
    sketch.save(path)
    for reader in (MisraGries, MergedSketch):
        with pytest.raises(SourceError, match="read it with"):
            reader.load(path)
    content = bytearray(path.read_bytes())
    content[16:20] = (2).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(SourceError, match="newer version of dpframe"):
        PrivacyAwareMisraGries.load(path)


def forged(path: Path, **changes: Any) -> None:
    """The file with another header and a checksum that fits."""
    content = path.read_bytes()
    size = int.from_bytes(content[20:24], "little")
    facts = json.loads(content[24 : 24 + size])
    body = content[24 + size : -32]
    if "body" in changes:
        body = changes.pop("body")
        facts["bytes"] = len(body)
    facts.update(changes)
    header = json.dumps({k: v for k, v in facts.items() if v != "left out"}).encode()
    whole = content[:20] + len(header).to_bytes(4, "little") + header + body
    path.write_bytes(whole + hashlib.sha256(whole).digest())


@pytest.mark.parametrize(
    "changes",
    [
        *({"counters": wrong} for wrong in (1, 10**12, 3, "4", "left out")),
        *({"kind": wrong} for wrong in ("float64", None, "text")),
        *({"entries": wrong} for wrong in (5, -1, 2.0, 10**18)),
        *({"decrements": 9}, {"decrements": -1}, {"total": 7}, {"total": None}),
        *({"standard": "no"}, {"bytes": 1}, {"body": b""}),
        {"body": bytes(64)},  # keys twice, counters 0
    ],
    ids=str,
)
def test_a_header_that_describes_no_sketch(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Law: a fitting checksum does not make a state that no stream leads to."""
    path = tmp_path / "sketch"
    sketch = MisraGries(4)
    sketch.update([5, 6, 7, 8, 9, 5])
    sketch.save(path)
    forged(path)
    assert MisraGries.load(path).total == 6
    forged(path, **changes)
    with pytest.raises(SourceError, match="truncated or damaged"):
        MisraGries.load(path)


def test_text_in_a_file_is_checked(tmp_path: Path) -> None:
    """Law: offsets and UTF-8 of keys are checked before anything uses them."""
    path = tmp_path / "sketch"
    made("variant", ["a", "b"]).save(path)
    counts = b"".join(n.to_bytes(8, "little") for n in (1, 1))
    sorted_, falling = (0, 1, 2), (0, 2, 1)
    for offsets, text in (
        *(((0, 1, 9), b"ab"), ((1, 1, 2), b"ab"), (falling, b"ab"), (sorted_, b"ba")),
        *((sorted_, b"aa"), (sorted_, b"a\xff")),
    ):
        body = counts + b"".join(n.to_bytes(8, "little") for n in offsets) + text
        forged(path, body=body)
        with pytest.raises(SourceError, match="truncated or damaged"):
            MisraGries.load(path)
