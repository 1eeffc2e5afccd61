"""Files of sketches, streams and generators: local, whole, and refused if a bit is different."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli.main import main
from dpframe.questions.synthesize import generator as generator_files
from tests.fuzzed_files import unsealed

ROWS = pd.DataFrame({"x": [1, 2, 6] * 10})


NAMES = (
    *("MisraGries", "MergedSketch", "PrivacyAwareMisraGries"),
    *("StreamingHHH", "PrivHP", "Generator"),
)


@cache  # the first use compiles loops: not where tests are only collected
def savers() -> dict[str, Any]:
    stream = dp.StreamingHHH(["x"], counters=4)
    stream.update(ROWS.astype("str"))
    rows = dp.PrivHP({"x": (0, 8)}, k=4, depth=3)
    rows.update(ROWS)
    users, one = dp.PrivacyAwareMisraGries(4, 2), dp.MisraGries(4)
    one.update([1, 2, 1])
    made = [one, one.merge(dp.MisraGries(4)), users, stream, rows, rows.finish(epsilon=1.0)]
    return {type(saved).__name__: saved for saved in made}


@pytest.mark.parametrize("name", NAMES)
def test_paths_are_local_files_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: addresses, bytes and open files are refused, and nothing asks a network."""
    assert tuple(savers()) == NAMES
    saved, load = savers()[name], type(savers()[name]).load
    monkeypatch.setenv("HOME", str(tmp_path))
    saved.save("~/file")
    for path in ("~/file", Path("~/file"), str(tmp_path / "file"), tmp_path / "file"):
        assert repr(load(path)) == repr(saved)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    for address in ("s3://bucket/file", "gs://bucket/file", "https://host/file", "file:///file"):
        for call in (load, saved.save):
            with pytest.raises(dp.ParameterError, match="not a file of this machine"):
                call(address)
    with (tmp_path / "file").open("rb") as stream:
        for other in (stream, b"file", 3, None):
            for call in (load, saved.save):
                with pytest.raises(dp.ParameterTypeError, match="name of a file"):
                    call(other)
    for none in ("", "a\0b"):
        with pytest.raises(dp.ParameterError, match="no name of a file"):
            load(none)
    with pytest.raises(dp.SourceError, match="not written"):
        saved.save(tmp_path / "none" / "file")


def test_a_file_takes_the_memory_of_what_is_in_it(tmp_path: Path) -> None:
    """Law: ten million counters with two keys are small until they count on."""
    one = dp.MisraGries(3)
    one.update(["a", "b", "a"])
    one._counters = 10_000_000
    one.save(tmp_path / "sketch")
    assert dp.MisraGries.load(tmp_path / "sketch").memory < 200


def test_a_generator_with_another_bit_is_refused(tmp_path: Path) -> None:
    """Law: the seal finds any changed bit, in counts, card, schema and in the seal itself."""
    path = tmp_path / "generator"
    savers()["Generator"].save(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        )
        with pytest.raises(dp.SourceError, match="is no generator") as told:
            dp.Generator.load(path)
        assert told.value.__context__ is None
    assert generator_files.SEAL.encode() in whole


def test_generators_of_before_the_seal_are_read(tmp_path: Path) -> None:
    """Law: what says it is sealed needs its seal; too many rows are refused unmade."""
    path = tmp_path / "generator"
    saved = savers()["Generator"]
    saved.save(path)
    sealed = pq.read_table(path)
    pq.write_table(sealed, path)
    with pytest.raises(dp.SourceError, match="is no generator"):
        dp.Generator.load(path)
    old = unsealed(sealed)
    pq.write_table(old, path)
    assert dp.Generator.load(path).counts().equals(saved.counts())
    many = old.take(pa.array([0] * (generator_files.ROOM + 1)))
    pq.write_table(many, path)
    before = pa.total_allocated_bytes()
    with pytest.raises(dp.SourceError, match="is no generator"):
        dp.Generator.load(path)
    assert pa.total_allocated_bytes() - before < path.stat().st_size


def test_streams_of_other_types_and_keys_do_not_merge() -> None:
    """Law: what comes back has one type, and equal labels mean equal cells."""
    reals, texts = (dp.PrivHP({"x": (0, 8)}, k=4, depth=3, seed=5) for _ in range(2))
    reals.update(ROWS.astype("float64"))
    texts.update(ROWS.astype("str"))
    with pytest.raises(dp.ParameterTypeError, match="types"):
        reals.merge(texts)
    a, b = (dp.PrivHP("columns:x", keys=keys, seed=1) for keys in (["a", "b"], ["b", "a"]))
    with pytest.raises(dp.ParameterError, match="different domain"):
        a.merge(b)


def test_metadata_that_is_no_receipt_is_refused() -> None:
    assert receipt_in_metadata(None) is receipt_in_metadata({}) is None
    assert receipt_in_metadata({b"dpframe": json.dumps({"a": 1}).encode()}) == {"a": 1}
    for text in (b"", b"{", b"[1]", b"null", b"\xff", b"[" * 10**5):
        with pytest.raises(dp.SourceError, match="no receipt"):
            receipt_in_metadata({b"dpframe": text})


def test_the_home_folder_is_the_same_at_every_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: ``~`` names one place for sources, ledgers, results, reports and the command line."""
    monkeypatch.setenv("HOME", str(tmp_path))
    pd.DataFrame({"x": ["a"] * 900}).to_csv(tmp_path / "rows.csv", index=False)
    ledger = dp.Ledger("~/budget.db", epsilon=10.0, delta=1e-3)
    asked = {"epsilon": 1.0, "delta": 1e-6, "release": "r", "ledger": ledger}
    result = dp.hhh("~/rows.csv", ["x"], **asked)
    assert dp.hhh(tmp_path / "rows.csv", ["x"], **asked).equals(result)  # replayed: one source
    result.dp.report("~/page.html")
    dp.publish(ledger, "~/results.duckdb")
    command = ["hhh", "~/rows.csv", "columns:x", "--epsilon=1", "--delta=1e-6"]
    command += ["--ledger=~/budget.db"]
    assert main([*command, "--quiet", "--output=~/out.parquet"]) == 0
    made = {"budget.db", "out.parquet", "page.html", "results.duckdb", "results_parquet"}
    assert made <= {file.name for file in tmp_path.iterdir()}
    assert len(ledger.releases()) == 2
    shutil.copy(tmp_path / "budget.db", tmp_path / "budget.html")
    kept = [word.replace("budget.db", "budget.html") for word in command]
    over = [*kept, "--report", str(tmp_path / "budget.html")]
    assert main([*over, "--quiet"]) == 2
