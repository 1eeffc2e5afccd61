"""Files of results: whose they are, and how new ones take their place as a whole."""

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
from dpframe._paths import named
from dpframe.errors import LedgerError, ParameterError, ParameterTypeError
from dpframe.ledger import Ledger
from dpframe.publishing.tables import BUDGET, LEDGER_KEY, MARK, MEASURES, RELEASES

ENDINGS = (".duckdb", ".ddb", ".db")

OPENED = "published"
"""Under which name an old results file is looked at."""

RELATIONS = f"""
SELECT if(schema_name = 'main', '', schema_name || '.') || table_name, comment
FROM system.main.duckdb_tables() WHERE database_name = '{OPENED}'
UNION ALL
SELECT if(schema_name = 'main', '', schema_name || '.') || view_name, comment
FROM system.main.duckdb_views() WHERE database_name = '{OPENED}' AND NOT internal
"""

NAMES = f"SELECT COLUMNS('^(table_name|latest_view|all_table)$') FROM {OPENED}.{RELEASES}"
"""What publishing made; older files have no table of a family."""

WAITING = 60.0
"""Seconds to wait for another process that publishes to the same file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The results file, the folder of its Parquet twin, and where new files are made."""

    asked: str
    file: Path
    folder: Path
    work: Path
    lock: Path


def target_of(to: object, ledger: Ledger) -> Target:
    """The files that ``to`` stands for, checked without opening any."""
    if not isinstance(to, str | Path):
        raise ParameterTypeError(f"to must be a file name; got {type(to).__name__}.")
    file = named(to).resolve()  # a link stays a link, to the new file
    if not file.name.lower().endswith(ENDINGS):
        raise ParameterError(
            f"to ({str(to)!r}) must end in one of {', '.join(ENDINGS)}: for example results.duckdb."
        )
    if not file.parent.is_dir():
        raise ParameterError(f"to ({str(to)!r}) is in a folder that does not exist.")
    if file == ledger.path.resolve() or (file.exists() and file.samefile(ledger.path)):
        raise ParameterError(
            f"to ({str(to)!r}) is the ledger itself: results go into a file of their own."
        )
    return Target(
        asked=str(to),
        file=file,
        folder=file.with_name(f"{file.stem}_parquet"),
        work=file.with_name(f".{file.name}.new"),
        lock=file.with_name(f".{file.name}.lock"),
    )


@contextmanager
def alone(target: Target) -> Iterator[None]:
    """One publisher at a time, with an empty folder to work in.

    The operating system lets go of the lock with the process, so what lies in the folder was left
    by one that died.
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
            why = "is being published by another process: try again when it is done."
        else:
            why = f"cannot be written ({error}): check the rights on its folder."
        raise ParameterError(f"to ({target.asked!r}) {why}") from error
    except OSError as error:
        raise ParameterError(
            f"to ({target.asked!r}) cannot be written ({error}): make room, close programs that "
            "hold the file, or check the rights on its folder."
        ) from error


def check_owner(target: Target, ledger: Ledger) -> set[Path]:
    """Refuse whatever is at the target and is not results of this ledger; its old Parquet files."""
    _check_file(target, ledger)
    return _check_folder(target, ledger)


def _check_file(target: Target, ledger: Ledger) -> None:
    left = target.file.with_name(f"{target.file.name}.wal")
    if left.exists():
        raise ParameterError(
            f"to ({target.asked!r}) has changes beside it that are not in it ({left.name}): "
            "somebody writes to it, or died doing so. Publish to another file."
        )
    if not target.file.exists():
        return
    try:
        with _duck.opened(target.file, OPENED) as rows:
            found = dict(rows(RELATIONS))
            if not (found.get(RELEASES) or "").startswith(MARK) or BUDGET not in found:
                raise _not_ours(target, target.file)
            owner = rows(f"SELECT ledger_id FROM {OPENED}.{BUDGET}")[0][0]
            names = rows(NAMES)
    except BlockingIOError as error:
        raise ParameterError(
            f"to ({target.asked!r}) is open for writing: close it there. Readers must open it "
            "read-only."
        ) from error
    except OSError as error:
        raise _not_ours(target, target.file, error) from error
    if owner != ledger.ledger_id:
        raise _another(target, ledger, target.file)
    extra = sorted(
        set(found) - {RELEASES, BUDGET, MEASURES} - {name for row in names for name in row}
    )
    if extra:
        raise ParameterError(
            f"to ({target.asked!r}) also holds {', '.join(map(repr, extra[:3]))}, which publishing "
            "would remove: move that to a database of your own and drop it here."
        )


def _check_folder(target: Target, ledger: Ledger) -> set[Path]:
    if target.folder.exists() and not target.folder.is_dir():
        raise _not_ours(target, target.folder)
    found = set(target.folder.glob("*.parquet"))
    for path in sorted(found):
        owner = _owner(path)
        if owner is None:
            raise _not_ours(target, path)
        if owner != ledger.ledger_id:
            raise _another(target, ledger, path)
    return found


def _owner(path: Path) -> str | None:
    """Id of the ledger that a Parquet file was published from."""
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as stream:
            mark = (pq.read_schema(stream).metadata or {}).get(LEDGER_KEY)
    except (OSError, pa.ArrowException):
        return None
    return None if mark is None else str(mark, "utf-8", "replace")


def _not_ours(target: Target, path: Path, why: object = "") -> ParameterError:
    return ParameterError(
        f"to ({target.asked!r}) would replace {path.name!r}, which is no file of published "
        f"results{f' ({why})' if why else ''}: choose another name, results need their own files."
    )


def _another(target: Target, ledger: Ledger, path: Path) -> LedgerError:
    return LedgerError(
        f"to ({target.asked!r}) would replace {path.name!r}, which was published from another "
        f"ledger than {str(ledger.path)!r}: choose another name, or remove the old files first."
    )


def take_place(target: Target, parquet: list[Path], database: Path, old: set[Path]) -> None:
    """Replace the old files by new ones, each at once: the database, then Parquet in this order.

    Then drop the old Parquet files that are no longer published.
    """
    _replace(database, target.file)
    target.folder.mkdir(exist_ok=True)
    for new in parquet:
        _replace(new, target.folder / new.name)
    for path in old - {target.folder / new.name for new in parquet}:
        path.unlink()


def _replace(new: Path, old: Path) -> None:
    if old.exists():
        shutil.copymode(old, new)  # who could read the old file can read the new one
    with new.open("r+b") as stream:
        os.fsync(stream.fileno())  # else a power failure could leave the name on an empty file
    os.replace(new, old)
