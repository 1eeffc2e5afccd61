"""``dp.publish``: released results as files and tables of their own."""

from __future__ import annotations

import difflib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dpframe import _duck
from dpframe.common.calls import known_arguments
from dpframe.common.files import file_of_path, is_postgres, schema_of
from dpframe.common.progress import step
from dpframe.errors import LedgerError, ParameterError, ParameterTypeError, ReleaseNameError
from dpframe.ledger import Ledger, chosen_ledger, history, store
from dpframe.ledger.forecast import BUSY
from dpframe.publishing.postgres import replace_rows
from dpframe.publishing.results_tables import (
    BUDGET,
    LEDGER_KEY,
    MARK,
    MEASURES,
    RELEASES,
    Publication,
    budget_table,
    family_tables,
    measures_table,
    name_tables,
    published_release,
    releases_table,
    results_script,
)

if TYPE_CHECKING:
    import pandas as pd

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


@known_arguments
@step("publishing")
def publish(
    ledger: Ledger | str | Path | None,
    to: str | Path,
    *,
    releases: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Write the named releases of a ledger as flat tables for BI tools and SQL.

    Makes a DuckDB file and, beside it, a folder with the same tables as Parquet files
    (``results.duckdb`` and ``results_parquet/``). Both hold ``dp_releases``, ``dp_budget``, a table
    for each release, such as ``ips_2026_11``, and a table for each family of releases with their
    period as a column, such as ``ips_all``; and if any release is a rollup, ``dp_measures`` with
    its measures in rows. The DuckDB file has a view of the newest release of every family, such as
    ``ips_latest``, and a comment on every table, view and column.

    New files are made in a folder beside the old ones and then replace them, each in one step: a
    reader of the DuckDB file sees the old or the new state, even if publishing fails or is killed.

    In PostgreSQL the same tables are in a schema. All rows change in one transaction: every query
    sees the old or the new state. Measured numbers are ``double precision``. New columns are added
    before, empty, and last. Whoever may select ``dp_releases`` may select everything.

    Parameters
    ----------
    ledger
        A :class:`Ledger` or its path; None for the ledger of :class:`use_ledger`.
    to
        The DuckDB file, ending in ``.duckdb``, ``.ddb`` or ``.db``; or a database of PostgreSQL,
        ``postgresql://user@host/name?schema=dp_results``, which needs ``dpframe[postgres]``. What
        is there must have been published from the same ledger, and hold nothing else.
    releases
        Names to publish; afterwards no others are there. Default: all stored releases.

    Returns
    -------
    pandas.DataFrame
        ``dp_releases``: a row for each published release, oldest first, with the columns
        ``release``, ``family``, ``table_name``, ``latest_view``, ``all_table`` and the facts of its
        receipt.

    Raises
    ------
    ParameterError, ParameterTypeError
        ``to`` is in no folder, is the ledger, holds anything that was not published from a ledger,
        is open for writing, or cannot be written; a server is away or refuses, readers do not let
        go of what gets new columns for 60 s, or a column would need another type. What was there is
        kept.
    LedgerError
        The ledger cannot be used, stores no release under a name, does not store one of
        ``releases`` (ReleaseNameError), or is not the ledger that ``to`` was published from.

    Privacy
    -------
    Free: the file holds released results only, never raw data or the path of the ledger. The names
    of releases and sources become public with the file.

    Examples
    --------
    >>> import pathlib, tempfile, pandas as pd, dpframe as dp
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> ledger = dp.Ledger(folder / "budget.db", epsilon=3.0, delta=1e-5)
    >>> visits = pd.DataFrame({"src": ["10.0.0.1"] * 500})
    >>> for month in ("ips-2026-10", "ips-2026-11"):
    ...     _ = visits.dp.hhh("ip:src", epsilon=1.0, delta=1e-6, ledger=ledger, release=month)
    >>> done = dp.publish(ledger, folder / "results.duckdb")
    >>> list(done["table_name"]), set(done["latest_view"])
    (['ips_2026_10', 'ips_2026_11'], {'ips_latest'})
    """
    book = chosen_ledger(ledger)
    if book is None:
        raise ParameterError("ledger is missing. Pass a dp.Ledger or its path.")
    wanted = _names_to_publish(releases)
    if is_postgres(to):
        read = partial(_publication, book, wanted, in_bytes=True)
        made = replace_rows(schema_of(to), book, read)
    else:
        target = target_of(to, book)
        with publishing_lock(target):
            old = check_owner(target, book)
            made = _publication(book, wanted, in_bytes=False)
            replace_files(target, *_write_new_files(made, target, book), old)
    shown: pd.DataFrame = made.releases.rows.to_pandas()
    return shown


def _names_to_publish(releases: object) -> list[str] | None:
    if releases is None:
        return None
    names = [releases] if isinstance(releases, str) else releases
    if not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise ParameterTypeError(f"releases must be a list of names; got {releases!r}.")
    if not names:
        raise ParameterError("releases is empty. Name one or more, or leave it out for all.")
    return list(names)


def _publication(ledger: Ledger, wanted: list[str] | None, *, in_bytes: bool) -> Publication:
    """Read what is to be published; ``in_bytes``: names have bytes to fit in."""
    with store.read_transaction(ledger.path, BUSY) as db:  # one state of the ledger
        summary, charges = history.summary_frame(db, ""), history.releases_frame(db)
    stored = [str(name) for name in charges.loc[charges["stored"], "release"]]
    if not stored:
        raise LedgerError(
            f"ledger {str(ledger.path)!r} stores no named release. Pass release= (in SQL "
            "release :=) when you draw one."
        )
    for asked in wanted or ():
        if asked not in stored:
            near = difflib.get_close_matches(asked, stored, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ReleaseNameError(
                f"releases ({asked!r}) names no release stored in the ledger.{hint}"
            )
    published = []
    # all names, so that a choice of releases does not change them
    for name in name_tables(stored, in_bytes=in_bytes):
        if wanted is None or name.release in wanted:
            found = ledger.find(name.release)
            assert found is not None  # nothing is ever removed from a ledger
            published.append(published_release(found, name))
    return Publication(
        published=published,
        families=family_tables(published),
        measures=measures_table(published),
        budget=budget_table(summary, ledger.ledger_id),
        releases=releases_table(published, charges),
    )


def _write_new_files(made: Publication, target: Target, ledger: Ledger) -> tuple[list[Path], Path]:
    """Write the new files into the folder for new files: first Parquet, then DuckDB."""
    import pyarrow.parquet as pq  # not for `import dpframe`

    tables = [*(one.table for one in made.published), *made.families, *made.common_tables]
    latest = {view: one.table for view, one in made.latest.items()}
    files = []
    for table in tables:
        metadata = {**(table.rows.schema.metadata or {}), LEDGER_KEY: ledger.ledger_id.encode()}
        files.append(target.work / f"{table.name}.parquet")
        pq.write_table(table.rows.replace_schema_metadata(metadata), files[-1])
    database = target.work / "results.duckdb"
    rows = {table.name: table.rows for table in tables}
    _duck.create_database(database, rows, results_script(tables, latest))
    return files, database
