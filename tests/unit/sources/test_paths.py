"""Which file a path is, at every door; and files that are written as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main
from dpframe.sources.source_relations import describe_source, read_public_file
from tests.members import few, some

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-2}


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with ``a[1]`` and ``a1`` in it, and a home with files of its own."""
    home, here = tmp_path / "home", tmp_path / "here"
    for folder in (home, here):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    for name, label in (("a[1]", "bracket"), ("a1", "plain"), ("b?", "sign"), ("bx", "letter")):
        frame = pd.DataFrame(
            {"p": [label] * 999, f"only_in_{label}": 1, "x": 1.0, "who": range(999)}
        )
        frame.to_parquet(f"{name}.parquet")
        frame.to_csv(f"{name}.csv", index=False)
    for ending in ("parquet", "csv"):
        (home / f"t.{ending}").write_bytes(Path(f"a1.{ending}").read_bytes())
    return here


DOORS: dict[str, Callable[[str], Any]] = {
    "hhh": lambda p: dp.hhh(p, ["p"], **BUDGET)["p"].dropna().tolist(),
    "streaming": lambda p: dp.hhh(p, ["p"], mechanism="streaming", **BUDGET)["p"].dropna().tolist(),
    "tree_counts": lambda p: dp.tree_counts(p, ["p"], **BUDGET)["p"].dropna().tolist()[:1],
    "heavy_hitters": lambda p: dp.heavy_hitters(p, "p", k=1, **BUDGET)["p"].tolist(),
    "keys": lambda p: read_public_file(p, ["p"])["p"].to_pylist()[:1],
}


@some("hhh-parquet", "streaming-parquet", "tree_counts-csv", "heavy_hitters-csv")
@few(4, "ending", ["parquet", "csv"])
@pytest.mark.parametrize("door", DOORS)
def test_a_path_that_exists_is_that_file(twins: Path, door: str, ending: str) -> None:
    """Patterns begin where nothing has the name; also the header of a CSV is that of the file."""
    read = DOORS[door]
    assert read(f"a[1].{ending}") == ["bracket"]
    assert read(f"b?.{ending}") == ["sign"]
    assert read(f"~/t.{ending}") == ["plain"]
    Path(f"a[1].{ending}").unlink()
    assert read(f"a[1].{ending}") == ["plain"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_columns_are_those_of_the_file(twins: Path, ending: str) -> None:
    """A column of the other file is none of this one, for streams and generators too."""
    stream = dp.StreamingHHH(["p"])
    stream.update(f"a[1].{ending}")
    assert stream.top(1) == [(1, "bracket", 999)]
    dp.synthesize(f"a[1].{ending}", {"only_in_bracket": (0, 9)}, epsilon=1.0)
    with pytest.raises(dp.ColumnError, match="only_in_plain"):
        dp.synthesize(f"a[1].{ending}", {"only_in_plain": (0, 9)}, epsilon=1.0)


def test_a_folder_that_is_called_so_is_no_home(twins: Path) -> None:
    """What exists goes first, and is what the source is called."""
    Path("~").mkdir()
    Path("~/t.parquet").write_bytes(Path("a[1].parquet").read_bytes())
    assert read_public_file("~/t.parquet", ["p"])["p"][0].as_py() == "bracket"
    assert describe_source("~/t.parquet") == f"file {twins / '~' / 't.parquet'}"


def test_files_that_are_read_together_name_the_same_columns(twins: Path) -> None:
    """Columns of a CSV go by place: another header would put values under the wrong name."""
    Path("m1.csv").write_text("p,q\na,b\n")
    Path("m2.csv").write_text("q,p\nb,a\n")
    with pytest.raises(dp.SourceError, match=r"'m2\.csv' and 'm1\.csv' have different first lines"):
        read_public_file("m*.csv", ["p"])


@pytest.fixture
def result() -> pd.DataFrame:
    return dp.hhh(pd.DataFrame({"p": ["a"] * 99}), ["p"], **BUDGET)


def writers(result: pd.DataFrame) -> dict[str, Callable[[str], None]]:
    generator = dp.synthesize(pd.DataFrame({"x": [1.0]}), {"x": (0, 2)}, epsilon=1.0)
    return {
        "report": result.dp.report,
        "generator": generator.save,
        "marginals": lambda path: generator.report(path, public=pd.DataFrame({"x": [1.0]}), n=9),
        "sketch": dp.MisraGries(9).save,
        "stream": dp.StreamingHHH(["p"]).save,
        "counts": dp.PrivHP({"x": (0, 2)}, k=4, width=8).save,
    }


def test_a_file_is_whole_or_the_old_one(result: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Nothing is seen half written: the old file stays, and nothing lies beside it."""

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "old.html"
    path.write_text("old")
    for name, write in writers(result).items():
        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", full)
            with pytest.raises(dp.DpframeError, match="No space left"):
                write(str(path))
        assert path.read_text() == "old", name
        assert os.listdir(tmp_path) == ["old.html"]


def test_links_and_rights_outlive_a_new_file(result: pd.DataFrame, tmp_path: Path) -> None:
    """A link still leads to the file, and who could read it still can; raw data are the owner's."""
    file, link = tmp_path / "file.html", tmp_path / "link.html"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    result.dp.report(link)
    assert link.is_symlink()
    assert "<html" in file.read_text("utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    for path in (file, tmp_path / "new.sketch"):
        dp.MisraGries(9).save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("option", "path", "words"),
    [
        ("-o", "folder.csv", "output ('folder.csv') is a folder"),
        ("-o", "no/x.csv", "folder that does not exist"),
        ("-o", "a1.parquet/x.csv", "folder that does not exist"),
        ("-o", "x.pdf", "must end in"),
        ("-o", f"{'x' * 300}.csv", "cannot be written (File name too long)"),
        ("-o", "a1.parquet", "output ('a1.parquet') is the file that is counted"),
        ("-o", "b.db.csv", "output ('b.db.csv') is the ledger"),
        ("--report", "folder.html", "report ('folder.html') is a folder"),
        ("--report", "x.csv", "must end in .html"),
        ("--report", "out.html", "report ('out.html') is the output"),
    ],
)
def test_files_are_checked_before_anything_is_spent(
    twins: Path, capsys: pytest.CaptureFixture[str], option: str, path: str, words: str
) -> None:
    """A path that cannot be written, or must not be, costs nothing."""
    for name in ("folder.csv", "folder.html"):
        Path(name).mkdir()
    ledger = dp.Ledger("b.db.csv", epsilon=99.0, delta=0.9)
    spend = ["--epsilon", "4", "--delta", "0.01", "--ledger", "b.db.csv"]
    more = ["-o", "out.html"] if option == "--report" else []
    code = main(["hhh", "a1.parquet", "columns:p", *spend, option, path, *more])
    assert code == 2
    assert words in capsys.readouterr().err
    assert ledger.spent.epsilon == 0
    assert not Path("out.html").exists()
