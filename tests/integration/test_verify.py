"""``dpframe verify`` and ``dp.verify``, as they are typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main
from dpframe.errors import ParameterError, ParameterTypeError, SourceError
from dpframe.testing import seeded_noise

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def trips() -> pd.DataFrame:
    return pd.DataFrame(
        {"origin": ["JFK"] * 500 + ["LGA"] * 300, "dest": ["LAX", "SFO"] * 400, "u": range(800)}
    )


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpframe", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def code(*arguments: object) -> int:
    return main([str(a) for a in arguments])


@pytest.mark.engines
def test_from_a_release_to_its_proof(trips: pd.DataFrame, tmp_path: Path) -> None:
    """Law: what the command line releases it proves; and what was changed it refuses."""
    file, out = tmp_path / "trips.csv", tmp_path / "out.json"
    trips.to_csv(file, index=False)
    asked = ("columns:origin,dest", "--epsilon", 1, "--delta", 1e-6, "-o", out, "--quiet")
    assert run("hhh", file, *asked).returncode == 0
    proved = run("verify", out)
    assert proved.returncode == 0, proved.stderr
    assert proved.stdout.startswith("proved: delta <= 9.866e-07 at epsilon 1\n")
    assert "not proved, here or by any receipt:" in proved.stdout
    told = json.loads(out.read_text())
    told["receipt"]["epsilon"] = 0.5
    out.write_text(json.dumps(told))
    failed = run("verify", out, "--quiet")
    assert (failed.returncode, failed.stdout.partition(":")[0]) == (1, "failed")


@pytest.mark.engines
def test_a_rollup_from_the_command_line_is_proved(trips: pd.DataFrame, tmp_path: Path) -> None:
    """Law: what the command line measures it proves; a scale that is too small it refuses."""
    file, out = tmp_path / "trips.csv", tmp_path / "out.json"
    trips.to_csv(file, index=False)
    asked = ("columns:origin,dest", "--measure", "count", "--measure", "mean(u, 0, 800) AS mean")
    released = run("rollup", file, *asked, "--epsilon", 1, "--delta", 1e-6, "-o", out, "--quiet")
    assert released.returncode == 0, released.stderr
    proved = run("verify", out)
    assert (proved.returncode, proved.stdout.partition(":")[0]) == (0, "proved"), proved
    assert "mean, mean: loses 0.42, moves by 8000000000 at scale" in proved.stdout
    told = json.loads(out.read_text())
    told["receipt"]["measures"]["mean"]["noise"][0]["scales"]["parts"] *= 0.9
    out.write_text(json.dumps(told))
    failed = run("verify", out, "--quiet")
    assert failed.returncode == 1
    assert "scales in the receipt lose" in failed.stdout


def test_rollups_in_files_and_ledgers_are_proved(trips: pd.DataFrame, tmp_path: Path) -> None:
    """Law: also of users, whose proof is made again from the arguments, and together."""
    measures = {"users": "count", "total": dp.sum("u", lower=0, upper="auto")}
    for way in (None, "share", "items"):
        book = dp.Ledger(tmp_path / f"{way}.db", epsilon=5.0, delta=1e-5)
        given: dict[str, Any] = {"contribution": way, "user": way and "u", "ledger": book}
        result = dp.rollup(trips, ["origin"], measures, epsilon=2.0, delta=1e-6, **given)
        parquet = tmp_path / "r.parquet"
        result.to_parquet(parquet)
        assert dp.verify(parquet), dp.verify(parquet)
        assert dp.verify(result) == dp.verify(parquet)
        assert (result.dp.receipt["proof"]["text"] is None) is (way == "share")
        assert dp.verify(book), dp.verify(book)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"user": "u"},
        {"user": "u", "contribution": "share"},
        {"user": "u", "contribution": "share", "remainder": False, "release_share": 0.4},
    ],
)
def test_every_way_to_hand_over_a_result(
    trips: pd.DataFrame, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    """Law: a frame, its receipt, its files and its proof beside have one verdict."""
    result = trips.dp.hhh(["origin", "dest"], **BUDGET, **arguments)
    parquet, receipt, proof = (tmp_path / n for n in ("r.parquet", "r.json", "p.json"))
    result.to_parquet(parquet)
    receipt.write_text(result.dp.receipt.to_json())
    proof.write_text(dp.explain(["origin", "dest"], **BUDGET, **arguments).proof())
    found = dp.verify(result)
    assert found.outcome == "proved"
    for other in (result.dp.receipt, parquet, str(receipt), proof, result.dp.receipt.to_dict()):
        assert dp.verify(other) == found
    old = result.dp.receipt.to_dict()
    del old["proof"]
    receipt.write_text(json.dumps(old))
    assert code("verify", receipt, "--quiet") == 3
    assert code("verify", receipt, "--proof", proof, "--quiet") == 0


@pytest.mark.engines
def test_devices_and_users_are_proved_from_files(tmp_path: Path) -> None:
    words = pd.DataFrame({"who": range(4000), "word": ["selfie"] * 3000 + ["brunch"] * 1000})
    file, out = tmp_path / "words.csv", tmp_path / "out.json"
    words.to_csv(file, index=False)
    for question, *asked in (
        ("prefix-tree", file, "word", "--user", "who", "--epsilon", 4, "--delta", 1e-6),
        ("heavy-hitters", file, "word", "--user", "who", "--epsilon", 1, "--delta", 1e-6),
    ):
        made = run(question, *asked, "-o", out, "--quiet")
        assert made.returncode == 0, made.stderr
        told = run("verify", out, "--quiet")
        assert told.returncode == 0, told.stdout + told.stderr
        assert told.stdout.startswith("proved: delta <= ")


def test_a_ledger_is_proved_as_a_whole(trips: pd.DataFrame, tmp_path: Path) -> None:
    """Law: proved releases that add up to less than the totals are proved together; one without a
    proof leaves all of it unverified."""
    book = dp.Ledger(tmp_path / "budget.db", epsilon=1.0, delta=1e-5)
    for n in range(3):
        trips.dp.hhh(["origin"], epsilon=0.1, delta=1e-6, ledger=book, release=f"r{n}")
    found = dp.verify(book)
    assert found.outcome == "proved"
    assert found.bound == sum(part.bound for _, part in found.parts)
    assert code("verify", tmp_path / "budget.db", "--quiet") == 0
    trips.dp.hhh(
        ["origin"],
        epsilon=0.4,
        delta=1e-6,
        mechanism="paper",
        acknowledge=True,
        remainder=False,
        ledger=book,
    )
    found = dp.verify(book)
    assert (found.outcome, found.code) == ("not verified", 3)
    assert "1 of 4 releases" in found.reason


def test_what_is_no_result_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: other files and objects are mistakes, with what is taken."""
    text = tmp_path / "x.json"
    text.write_text("[1]")
    with pytest.raises(ParameterError, match=r"x.json. is no JSON object"):
        dp.verify(text)
    text.write_text("{}")
    with pytest.raises(ParameterError, match="no receipt"):
        dp.verify(text)
    text.write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match=r"x.json. is no text"):
        dp.verify(text)
    with pytest.raises(SourceError, match="cannot be read"):
        dp.verify(tmp_path / "missing.json")
    with pytest.raises(ParameterTypeError, match="got int"):
        dp.verify(7)
    with pytest.raises(ParameterError, match="carries no receipt"):
        dp.verify(pd.DataFrame())
    assert code("verify", tmp_path / "missing.json") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_rows_that_were_changed_are_not_proved(trips: pd.DataFrame, tmp_path: Path) -> None:
    """Law: the verdict on a frame is on its rows; extracts and other columns are told."""
    result = dp.hhh(trips, ["origin", "dest"], **BUDGET)
    assert dp.verify(result)
    assert "2 of" in dp.verify(result.head(2)).reason
    truth = result.assign(count=trips.groupby("origin").size().iloc[0])
    verdict = dp.verify(truth)
    assert (verdict.outcome, verdict.bound) == ("failed", None)
    assert "not the release that the receipt is of" in verdict.sentence
    assert dp.verify(truth.dp.receipt).outcome == "failed"
    other = dp.hhh(trips, ["origin"], **BUDGET)
    other.attrs.update(result.attrs)  # the receipt of another release
    assert dp.verify(other).outcome == "failed"
    bare = result.copy()
    del bare.attrs["dp_digest"]
    assert dp.verify(bare).sentence.startswith("not verified: the frame holds no digest")
    assert dp.verify(truth["count"]).outcome == "not verified"  # a column has no digest
    for frame, outcome in ((result, "proved"), (truth, "failed")):
        frame.to_parquet(tmp_path / "result.parquet")
        assert dp.verify(tmp_path / "result.parquet").outcome == outcome
    assert "that rows are those of the receipt" in str(dp.verify(result))


def test_noise_that_is_seeded_is_never_proved(trips: pd.DataFrame) -> None:
    with seeded_noise(1):
        result = dp.hhh(trips, ["origin"], **BUDGET)
    assert dp.verify(result).sentence.startswith("failed: the noise was drawn by a seeded")


def test_a_receipt_that_names_a_key_twice_fails(trips: pd.DataFrame, tmp_path: Path) -> None:
    """Law: as in proofs, since another reader could take the other one."""
    receipt = dp.hhh(trips, ["origin"], **BUDGET).dp.receipt.to_dict()
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt))
    assert dp.verify(file)
    file.write_text(json.dumps(receipt).replace('{"', '{"epsilon": 0.1, "', 1))
    assert dp.verify(file).sentence == "failed: the receipt names a key twice"


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("counters", [10, 100])
def test_streams_of_different_values_are_proved(
    trips: pd.DataFrame, most: int, counters: int, tmp_path: Path
) -> None:
    """Law: whichever game the plan chose, also in a ledger that holds it."""
    users = trips.assign(u=trips["u"] // 3)
    asked = {"user": "u", "contribution": "items", "max_contributions": most, "counters": counters}
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=1.0, delta=1e-5)
    result = dp.hhh(
        users, ["origin"], mechanism="streaming", ledger=ledger, release="one", **asked, **BUDGET
    )
    assert dp.verify(result)
    assert dp.verify(ledger)
    larger = dp.verify(result.dp.receipt.with_facts({"max_contributions": most + 1}))
    assert larger.outcome == "failed"
