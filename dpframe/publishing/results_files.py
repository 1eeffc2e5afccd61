"""Results files: which ledger they are from, and how new files replace old ones in one step."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dpframe import _duck
from dpframe.common.files import file_of_path
from dpframe.errors import LedgerError, ParameterError, ParameterTypeError
from dpframe.ledger import Ledger
from dpframe.publishing.results_tables import BUDGET, LEDGER_KEY, MARK, MEASURES, RELEASES

ENDINGS = (".duckdb", ".ddb", ".db")

OPENED = "published"
"""Name under which DuckDB attaches an old results file to check it."""

RELATIONS = f"""
SELECT if(schema_name = 'main', '', schema_name || '.') || table_name, comment
FROM system.main.duckdb_tables() WHERE database_name = '{OPENED}'
UNION ALL
SELECT if(schema_name = 'main', '', schema_name || '.') || view_name, comment
FROM system.main.duckdb_views() WHERE database_name = '{OPENED}' AND NOT internal
"""

NAMES = f"SELECT COLUMNS('^(table_name|latest_view|all_table)$') FROM {OPENED}.{RELEASES}"
"""SQL for the names of tables and views that publishing made; older files have no all_table."""

WAITING = 60.0
"""Seconds to wait for another process that publishes to the same file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The results file, the folder of its Parquet twin, the folder for new files, and the lock."""

    asked: str
    file: Path
    folder: Path
    work: Path
    lock: Path


def target_of(to: object, ledger: Ledger) -> Target:
    """Check ``to`` and return the files that it stands for, without opening any."""
    if not isinstance(to, str | Path):
        raise ParameterTypeError(f"to must be a file name; got {type(to).__name__}.")
    file = file_of_path(to).resolve()  # a link stays a link, to the new file
    if not file.name.lower().endswith(ENDINGS):
        raise ParameterError(f"to ({str(to)!r}) must end in one of {', '.join(ENDINGS)}.")
    if not file.parent.is_dir():
        raise ParameterError(f"to ({str(to)!r}) is in a folder that does not exist. Make it first.")
    if file == ledger.path.resolve() or (file.exists() and file.samefile(ledger.path)):
        raise ParameterError(
            f"to ({str(to)!r}) is the ledger itself. Name another file for the results."
        )
    return Target(
        asked=str(to),
        file=file,
        folder=file.with_name(f"{file.stem}_parquet"),
        work=file.with_name(f".{file.name}.new"),
        lock=file.with_name(f".{file.name}.lock"),
    )


@contextmanager
def publishing_lock(target: Target) -> Iterator[None]:
    """Hold the lock of the only publisher, with an empty folder to work in.

    The operating system releases the lock of a process that dies, so files in the folder were left
    by such a process.
    """
    try:
        with closing(sqlite3.connect(target.lock, timeout=WAITING, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            shutil.rmtree(target.work, ignore_errors=True)
            target.work.mkdir()
            try:
                yield
            finally:
                shutil.rmtree(target.work, ignore_errors=True)
    except sqlite3.Error as error:
        if "locked" in str(error):
            why = "is being published by another process. Try again when it is done."
        else:
            why = f"cannot be written ({error}). Check the rights on its folder."
        raise ParameterError(f"to ({target.asked!r}) {why}") from error
    except OSError as error:
        raise ParameterError(
            f"to ({target.asked!r}) cannot be written ({error}). Make room, close programs that "
            "hold the file, or check the rights on its folder."
        ) from error


def check_owner(target: Target, ledger: Ledger) -> set[Path]:
    """Refuse files at the target that are not results of this ledger; return the Parquet files
    there."""
    _check_file(target, ledger)
    return _check_folder(target, ledger)


def _check_file(target: Target, ledger: Ledger) -> None:
    left = target.file.with_name(f"{target.file.name}.wal")
    if left.exists():
        raise ParameterError(
            f"to ({target.asked!r}) has unsaved changes in {left.name}. Publish to another file, "
            "or close the program that writes to it."
        )
    if not target.file.exists():
        return
    try:
        with _duck.open_database(target.file, OPENED) as rows:
            found = dict(rows(RELATIONS))
            if not (found.get(RELEASES) or "").startswith(MARK) or BUDGET not in found:
                raise _not_published_error(target, target.file)
            owner = rows(f"SELECT ledger_id FROM {OPENED}.{BUDGET}")[0][0]
            names = rows(NAMES)
    except BlockingIOError as error:
        raise ParameterError(
            f"to ({target.asked!r}) is open for writing. Close it there: readers must open it "
            "read-only."
        ) from error
    except OSError as error:
        raise _not_published_error(target, target.file, error) from error
    if owner != ledger.ledger_id:
        raise _other_ledger_error(target, ledger, target.file)
    extra = sorted(
        set(found) - {RELEASES, BUDGET, MEASURES} - {name for row in names for name in row}
    )
    if extra:
        raise ParameterError(
            f"to ({target.asked!r}) also holds {', '.join(map(repr, extra[:3]))}, which publishing "
            "would remove. Move it to your own database and drop it here."
        )


def _check_folder(target: Target, ledger: Ledger) -> set[Path]:
    if target.folder.exists() and not target.folder.is_dir():
        raise _not_published_error(target, target.folder)
    found = set(target.folder.glob("*.parquet"))
    for path in sorted(found):
        owner = _ledger_id_in_file(path)
        if owner is None:
            raise _not_published_error(target, path)
        if owner != ledger.ledger_id:
            raise _other_ledger_error(target, ledger, path)
    return found


def _ledger_id_in_file(path: Path) -> str | None:
    """Return the id of the ledger that a Parquet file was published from, or None."""
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as stream:
            mark = (pq.read_schema(stream).metadata or {}).get(LEDGER_KEY)
    except (OSError, pa.ArrowException):
        return None
    return None if mark is None else str(mark, "utf-8", "replace")


def _not_published_error(target: Target, path: Path, why: object = "") -> ParameterError:
    return ParameterError(
        f"to ({target.asked!r}) would replace {path.name!r}, which publishing did not make"
        f"{f' ({why})' if why else ''}. Choose another name."
    )


def _other_ledger_error(target: Target, ledger: Ledger, path: Path) -> LedgerError:
    return LedgerError(
        f"to ({target.asked!r}) would replace {path.name!r}, published from another ledger than "
        f"{str(ledger.path)!r}. Choose another name, or remove the old files first."
    )


def replace_files(target: Target, parquet: list[Path], database: Path, old: set[Path]) -> None:
    """Replace the old files by new ones, each in one step: the database, then Parquet files in the
    given order.

    Then remove the old Parquet files that are no longer published.
    """
    _replace_file(database, target.file)
    target.folder.mkdir(exist_ok=True)
    for new in parquet:
        _replace_file(new, target.folder / new.name)
    for path in old - {target.folder / new.name for new in parquet}:
        path.unlink()


def _replace_file(new: Path, old: Path) -> None:
    if old.exists():
        shutil.copymode(old, new)  # users who could read the old file can read the new one
    with new.open("r+b") as stream:
        os.fsync(stream.fileno())  # else a power failure could leave an empty file under the name
    os.replace(new, old)
