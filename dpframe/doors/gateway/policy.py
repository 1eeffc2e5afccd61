"""The policy of a gateway: who may ask what, of which data, within which budget.

A policy is a TOML file. It is checked as a whole: every error names its line, the value, and what
to write. What a policy does not allow does not exist for an analyst.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpframe.doors.series.declaration import FileSource, Source
from dpframe.doors.sql.query_expressions import Columns
from dpframe.hierarchy import Hierarchy

QUESTIONS_SERVED = ("hhh", "rollup", "tree_counts", "heavy_hitters", "sql")
"""The questions that a gateway answers."""

TOKEN = "dpf_"
"""How tokens begin, so that scanners of secrets find those that leak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """What analysts may ask of one private table.

    Parameters
    ----------
    name
        Its name, which is a table's name in SQL.
    source
        Where its rows are.
    columns
        The columns that questions may name, with their types in DuckDB.
    user
        The column that identifies a person; None protects single records.
    levels
        Hierarchies that may be asked. Columns go together in any order; another hierarchy without
        options allows every option of its kind.
    bounds
        Bounds of values, by column or by aggregate, as ``dpframe.sql`` takes them.
    filters
        Columns that WHERE may read.
    period, zone
        The column of times of ``period``, and the zone of its clock.
    public
        Public tables by name.
    keys
        Public lists of keys by name.
    epsilon, delta, accountant
        The totals of its ledger, and how releases compose.
    largest, default
        The largest epsilon of a question, and the one of a question that names none.
    state
        The owner's name for the state of the rows. It is a part of every release's name.
    questions
        Names of the questions that may be asked.
    about
        The owner's description.
    """

    name: str
    source: Source
    columns: Mapping[str, str]
    user: str | None
    levels: tuple[Hierarchy, ...]
    bounds: Mapping[str, tuple[Any, Any]]
    filters: tuple[str, ...]
    period: str | None
    zone: str | None
    public: Mapping[str, pa.Table]
    keys: Mapping[str, Any]
    epsilon: float
    delta: float
    accountant: str
    largest: float
    default: float
    state: str
    questions: tuple[str, ...]
    about: str

    def share_of_delta(self, epsilon: float) -> float:
        """The part of the total delta that goes with an epsilon."""
        return self.delta * epsilon / self.epsilon

    def allows(self, hierarchy: Hierarchy) -> bool:
        """Whether each dimension of a hierarchy is one of ``levels``, or made of such columns."""
        return all(map(self._allows_one, hierarchy.dimensions))

    def _allows_one(self, one: Hierarchy) -> bool:
        if one.kind == "columns":
            listed = {
                c for level in self.levels if level.kind == "columns" for c in level.source_columns
            }
            return listed.issuperset(one.source_columns)
        return any(level.spec in (one.spec, one.spec.partition("?")[0]) for level in self.levels)

    @contextmanager
    def rows(self) -> Iterator[Any]:
        """The private source, open."""
        with self.source.open("") as opened:
            yield opened

    def fingerprint(self) -> str:
        """A digest of names, sizes and times of the source's files; empty for a database server.

        It is never shown: sizes follow from rows.
        """
        digest = hashlib.sha256()
        for path in sorted(source_files(self.source)):
            about = path.stat()
            digest.update(f"{path}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
        return digest.hexdigest()


def source_files(source: Source) -> list[Path]:
    """The local files of a source."""
    from dpframe.common.files import file_of_path, matching_files

    place = source.file if isinstance(source, FileSource) else getattr(source, "database", "")
    if "://" in place or not place:
        return []
    if isinstance(source, FileSource):
        return matching_files(place)
    return [file_of_path(place)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyst:
    """Somebody who may ask: shares of epsilon by data set, of their own and of their group."""

    name: str
    token: str
    group: str | None
    shares: Mapping[str, float]
    group_shares: Mapping[str, float]
    owner: bool

    def may_ask(self, data: str) -> bool:
        """Whether there is a share of a data set."""
        return data in self.shares or data in self.group_shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy that was checked.

    Parameters
    ----------
    path
        Its file.
    folder
        The folder of ledgers, 0700.
    data, analysts
        Data sets and analysts by name.
    floor
        Answers come after a multiple of this many seconds.
    failures
        How many questions of an analyst may fail after rows were read, until a data set is closed
        for the analyst.
    rate
        How many requests an analyst may send in a minute.
    longest
        How many seconds a question may take.
    memory
        The most memory that counting may take, in bytes.
    address
        Host and port.
    certificate, key
        The files of TLS; None without.
    behind_proxy
        Whether a proxy in front ends TLS.
    identity
        How a proxy names the analyst: a header with a signed token; None without.
    """

    path: Path
    folder: Path
    data: Mapping[str, DataSet]
    analysts: Mapping[str, Analyst]
    floor: float = 0.25
    failures: int = 3
    rate: int = 6000
    longest: float = 60.0
    memory: int | None = None
    address: tuple[str, int] = ("127.0.0.1", 8722)
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    identity: Mapping[str, str] | None = None

    def analyst_of(self, token: str) -> Analyst | None:
        """The analyst of a token. Every hash is compared, in constant time."""
        given, found = hash_token(token), None
        for analyst in self.analysts.values():
            if hmac.compare_digest(analyst.token.encode(), given.encode()):
                found = analyst
        return found


def hash_token(token: str) -> str:
    """What a policy holds of a token. A token has 256 random bits, so that a plain hash hides it.

    Examples
    --------
    >>> hash_token("dpf_x")[:14]
    'sha256:5c5a35f'
    """
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def make_token() -> str:
    """A new token."""
    return TOKEN + secrets.token_urlsafe(32)


def columns_of(data: DataSet) -> Columns:
    """A data set as a table that a query may name."""
    return Columns(data.name, data.columns)
