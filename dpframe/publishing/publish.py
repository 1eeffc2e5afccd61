"""``publish``: write the releases of a ledger as flat tables into a results file, for BI tools."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpframe import _duck
from dpframe.common.calls import known_arguments
from dpframe.common.files import step
from dpframe.errors import LedgerError, ParameterError, ParameterTypeError, ReleaseNameError
from dpframe.ledger import Ledger, chosen_ledger, history, store
from dpframe.ledger.forecast import BUSY
from dpframe.publishing.results_files import (
    Target,
    check_owner,
    publishing_lock,
    replace_files,
    target_of,
)
from dpframe.publishing.results_tables import (
    LEDGER_KEY,
    Table,
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

    Parameters
    ----------
    ledger
        A :class:`Ledger` or its path; None for the ledger of :class:`use_ledger`.
    to
        The DuckDB file, ending in ``.duckdb``, ``.ddb`` or ``.db``. If it exists it must have been
        published from the same ledger, and hold nothing else.
    releases
        Names to publish; afterwards the file holds no other releases. Default: all stored releases.

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
        is open for writing, or cannot be written. Old files are kept.
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
    target = target_of(to, book)
    wanted = _names_to_publish(releases)
    with publishing_lock(target):
        old = check_owner(target, book)
        tables, latest = _tables_to_publish(book, wanted)
        files, database = _write_new_files(tables, latest, target, book)
        replace_files(target, files, database, old)
    shown: pd.DataFrame = tables[-1].rows.to_pandas()
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


def _tables_to_publish(
    ledger: Ledger, wanted: list[str] | None
) -> tuple[list[Table], dict[str, Table]]:
    """Return all tables, ``dp_budget`` and ``dp_releases`` last, and the table of each view."""
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
    for name in name_tables(stored):  # all names, so that a choice of releases does not change them
        if wanted is None or name.release in wanted:
            found = ledger.find(name.release)
            assert found is not None  # nothing is ever removed from a ledger
            published.append(published_release(found, name))
    tables = [one.table for one in published]
    latest = {one.names.view: one.table for one in published}  # oldest first: the newest stays
    tables += family_tables(published)
    measures = measures_table(published)
    tables += [] if measures is None else [measures]
    tables += [budget_table(summary, ledger.ledger_id), releases_table(published, charges)]
    return tables, latest


def _write_new_files(
    tables: list[Table], latest: dict[str, Table], target: Target, ledger: Ledger
) -> tuple[list[Path], Path]:
    """Write the new files into the folder for new files: first Parquet, then DuckDB."""
    import pyarrow.parquet as pq  # not for `import dpframe`

    files = []
    for table in tables:
        metadata = {**(table.rows.schema.metadata or {}), LEDGER_KEY: ledger.ledger_id.encode()}
        files.append(target.work / f"{table.name}.parquet")
        pq.write_table(table.rows.replace_schema_metadata(metadata), files[-1])
    database = target.work / "results.duckdb"
    rows = {table.name: table.rows for table in tables}
    _duck.create_database(database, rows, results_script(tables, latest))
    return files, database
