"""Files that nobody wrote, given to every loader: ``python -m tests.fuzzed_files CASES SEED``.

Flipped bits, cuts, splices of two files, and files made up with a fitting checksum. A loader raises
SourceError, which names the file and quotes nothing, or gives what was saved (of made-up files,
anything); and takes at most ``MULTIPLE`` times the bytes of the file and ``ROOM`` more. Prints what
broke this, with the seed; the process has a limit of memory of its own.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import dpframe as dp
from dpframe.errors import SourceError
from dpframe.questions.sketches.ask import MergedSketch

MULTIPLE, ROOM = 64, 64 * 2**20
LIMIT = 2**30
"""Bytes of address space beyond those at the start."""

SECRET = "Ann-7770001"
KEYS: list[list[Any]] = [
    [SECRET, SECRET * 3, "b"], [SECRET.encode(), b"\xff"], [7770001, -5], [2**63 + 7770001, 3],
]  # fmt: skip
POOL: list[Any] = [
    *(None, True, -1, 0, 1, 3, 10**7, 2**27, 2**62, 10**30, 0.5, 1e308, "", "x", SECRET, [], {}),
    *([SECRET], {SECRET: SECRET}, "path:x?depth=128", "number:x?lower=0&upper=1&depth=48"),
]


class Seed:
    """A saved file, its loader, and what it holds."""

    def __init__(
        self, folder: Path, number: int, saved: Any, content: Callable[[Any], Any]
    ) -> None:
        path = folder / f"seed {number}"
        saved.save(path)
        self.bytes, self.load, self.content = path.read_bytes(), type(saved).load, content
        self.holds = content(saved)


def of_sketch(sketch: Any) -> Any:
    return states([sketch._state()]), repr(sketch), sorted(sketch._streams), sketch._released


def of_hierarchy(sketch: Any) -> Any:
    return states(sketch._states()), repr(sketch), sorted(sketch._streams), sketch._released


def states(found: Any) -> Any:
    return [
        (s.kind, s.keys.to_pylist(), s.counts.tolist(), s.dummies, s.decrements, s.total)
        for s in found
    ]


def of_rows(stream: Any) -> Any:
    counts = stream._state.cells.tolist(), stream._state.tables.tolist()
    return counts, repr(stream), str(stream._schema), stream._dtypes, sorted(stream._streams)


def of_generator(generator: Any) -> Any:
    rows = {name: c.tolist() for name, c in generator.counts().items()}
    return rows, repr(generator), generator.receipt.to_dict(), generator._dtypes


def seeds(folder: Path) -> list[Seed]:
    made: list[tuple[Any, Callable[[Any], Any]]] = []
    for keys in KEYS:
        one, other = dp.MisraGries(4), dp.MisraGries(4, standard=True)
        for sketch in (one, other):
            sketch.update(keys * 3 + keys[:1] * 5)
        users = dp.PrivacyAwareMisraGries(4, 2)
        users.update_users([keys[0]] * len(keys), keys)
        both = [dp.merge_sketches([one, other], method=m) for m in ("bounded", "sum")]
        made += [(sketch, of_sketch) for sketch in (one, other, users, *both)]
    frame = pd.DataFrame({"a": [SECRET, "b"] * 5, "b": ["x", SECRET] * 5, "n": range(10)})
    for hierarchy in (["a", "b"], "path:a?depth=3"):
        stream = dp.StreamingHHH(hierarchy, counters=8)
        stream.update(frame)
        again = dp.StreamingHHH(hierarchy, counters=8)
        made += [(stream, of_hierarchy), (stream.merge(again), of_hierarchy)]
    rows = dp.PrivHP(["number:n?lower=0&upper=9", "columns:a"], k=4, keys=["b", "c"], seed=1)
    rows.update(frame)
    made += [(rows, of_rows), (rows.finish(epsilon=1.0), of_generator)]
    made.append((dp.synthesize(frame, {"n": (0, 9)}, epsilon=1.0, k=8), of_generator))
    return [Seed(folder, i, *each) for i, each in enumerate(made)]


# -- cases --------------------------------------------------------------------------------------


def cases(found: list[Seed], rng: random.Random) -> Iterator[tuple[str, Seed, bytes]]:
    """What was done, the seed whose loader reads, the file."""
    kinds = [flipped, cut, spliced, noise, forged, earlier]
    while True:
        seed, kind = rng.choice(found), rng.choice(kinds)
        yield kind.__name__, seed, kind(seed.bytes, rng.choice(found).bytes, rng)


def flipped(content: bytes, _: bytes, rng: random.Random) -> bytes:
    bit = rng.randrange(8 * len(content))
    out = bytearray(content)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def cut(content: bytes, _: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def spliced(content: bytes, other: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randrange(len(other)) for _ in range(2))
    start = rng.choice([a, rng.randrange(len(content)), len(content) - len(other) + a])
    end = rng.choice([start, start + b - a])
    return content[: max(start, 0)] + other[a:b] + content[max(end, 0) :]


def noise(content: bytes, _: bytes, rng: random.Random) -> bytes:
    start = content[: rng.choice([4, 16, 20, 24, 60])]
    return start + rng.randbytes(rng.randrange(400)) + rng.choice([b"", content[-8:]])


def forged(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """With facts that were changed, under a checksum that fits, or without a seal."""
    if content[:4] == b"PAR1":
        return forged_generator(content, rng)
    size = int.from_bytes(content[20:24], "little")
    facts, body = json.loads(content[24 : 24 + size]), content[24 + size : -32]
    if rng.random() < 0.2:
        body = flipped(body + bytes(8), b"", rng)[: len(body)]
    if rng.random() < 0.1:
        body = other[-len(body) :]
        facts["bytes"] = len(body)
    facts = changed(facts, rng)
    header = json.dumps(facts).encode()
    if rng.random() < 0.02:
        header = b'{"sketch":' + b"[" * 10**5
    whole = content[:20] + len(header).to_bytes(4, "little") + header + body
    return whole + hashlib.sha256(whole).digest()


def earlier(content: bytes, _: bytes, rng: random.Random) -> bytes:
    """A damaged file of before generators had a seal; others as they are."""
    if content[:4] != b"PAR1":
        return content
    sink = pa.BufferOutputStream()
    pq.write_table(unsealed(pq.read_table(pa.BufferReader(content))), sink)
    return flipped(sink.getvalue().to_pybytes(), b"", rng)


def unsealed(table: pa.Table) -> pa.Table:
    facts = json.loads(table.schema.metadata[b"dpframe_generator"])
    del facts["sealed"]
    text = json.dumps(facts).encode()
    return table.replace_schema_metadata({**table.schema.metadata, b"dpframe_generator": text})


def forged_generator(content: bytes, rng: random.Random) -> bytes:
    table = unsealed(pq.read_table(pa.BufferReader(content)))
    metadata = dict(table.schema.metadata)
    key = rng.choice([b"dpframe_generator", b"dpframe"])
    text = json.dumps(changed(json.loads(metadata[key]), rng)).encode()
    metadata[key] = b"[" * 10**5 if rng.random() < 0.05 else text
    if rng.random() < 0.3:
        name = rng.choice(table.column_names)
        value = pa.scalar(rng.choice([0, -1, 2**40, float("nan"), SECRET, None]))
        column = pa.repeat(value, len(table))
        table = table.set_column(table.column_names.index(name), name, column)
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return sink.getvalue().to_pybytes()


def changed(facts: Any, rng: random.Random) -> Any:
    """With one value or key in it replaced, dropped or put in."""
    if isinstance(facts, dict) and facts and rng.random() < 0.95:
        key = rng.choice(list(facts))
        if isinstance(facts[key], dict | list) and rng.random() < 0.7:
            return {**facts, key: changed(facts[key], rng)}
        rest = {k: v for k, v in facts.items() if k != key}
        return rest if rng.random() < 0.2 else {**facts, key: rng.choice(POOL)}
    if isinstance(facts, list) and facts and rng.random() < 0.8:
        i = rng.randrange(len(facts))
        return [*facts[:i], changed(facts[i], rng), *facts[i + 1 :]]
    return rng.choice(POOL)


def bombs(found: list[Seed]) -> Iterator[tuple[str, Seed, bytes]]:
    """Small files that say that they are large."""
    for seed in found:
        if seed.bytes[:4] == b"PAR1":
            table = unsealed(pq.read_table(pa.BufferReader(seed.bytes)))
            many, sink = table.take(pa.array(np.zeros(2**20, np.int64))), pa.BufferOutputStream()
            with pq.ParquetWriter(sink, many.schema) as writer:
                for _ in range(40):
                    writer.write_table(many)
            yield "bomb", seed, sink.getvalue().to_pybytes()
            continue
        size = int.from_bytes(seed.bytes[20:24], "little")
        facts, body = json.loads(seed.bytes[24 : 24 + size]), seed.bytes[24 + size : -32]
        large = {"counters": 10**7, "max_items": 10**7, "hot": 2**26, "width": 2**26}
        facts |= {key: value for key, value in large.items() if key in facts}
        header = json.dumps(facts).encode()
        whole = seed.bytes[:20] + len(header).to_bytes(4, "little") + header + body
        yield "bomb", seed, whole + hashlib.sha256(whole).digest()


# -- what is checked ----------------------------------------------------------------------------


def fault(kind: str, seed: Seed, content: bytes, path: Path) -> str:
    """What is wrong with how a file is read; '' if nothing."""
    made_up = kind in ("forged", "bomb") or (kind == "earlier" and content[:4] == b"PAR1")
    path.write_bytes(content)
    before = peak(reset=True)
    try:
        loaded = seed.load(path)
    except SourceError as error:
        text = "".join(traceback.format_exception(error))
        if str(path) not in str(error) or "7770001" in text or error.__cause__ is not None:
            return f"says {error}"
        if "more memory" in str(error) and not (kind != "bomb" and content[:4] == b"PAR1"):
            return "asks for memory"  # Arrow does before it unpacks what has no seal
    except BaseException as error:
        return f"raises {type(error).__name__}: {error}"
    else:
        if not made_up and seed.content(loaded) != seed.holds:
            return "loads other contents"
    used = peak() - before
    return f"takes {used} bytes" if used > MULTIPLE * len(content) + ROOM else ""


def peak(*, reset: bool = False) -> int:
    """The largest resident size since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (s for s in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in s)
    return int(line.split()[1]) * 1024


def main(number: int, start: int) -> list[str]:
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = seeds(folder)
        for seed in given:  # loads all code
            (folder / "file").write_bytes(seed.bytes)
            assert seed.content(seed.load(folder / "file")) == seed.holds
        made = list(bombs(given))
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + LIMIT, size + LIMIT))
        source = cases(given, random.Random(start))
        for i in range(number):
            kind, seed, content = made[i] if i < len(made) else next(source)
            if wrong := fault(kind, seed, content, folder / "file"):
                loader = getattr(seed.load, "__self__", MergedSketch).__name__
                found.append(f"case {i}, {kind}, {loader}: {wrong}")
    return found


if __name__ == "__main__":
    faults = main(int(sys.argv[1]), int(sys.argv[2]))
    print(*faults, sep="\n")
    sys.exit(bool(faults))
