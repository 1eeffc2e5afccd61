"""The policy of a gateway: who may ask what, of which data, within which budget.

A policy is a TOML file. It is checked as a whole: every error names its line, the value, and what
to write. What a policy does not allow does not exist for an analyst.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpframe.common.calls import import_extra
from dpframe.common.files import is_postgres, replace_file
from dpframe.doors.series.declaration import FileSource, Report, Source
from dpframe.doors.sql.query_expressions import Columns, Roles
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy

QUESTIONS_SERVED = ("hhh", "rollup", "tree_counts", "heavy_hitters", "sql")
"""The questions that a gateway answers."""

SET_BY_POLICY = ("user", "source", "seed", "acknowledge")
"""Arguments of questions that no analyst gives."""

TOKEN = "dpf_"
"""How tokens begin, so that scanners of secrets find those that leak."""


DATA = "{data}"
"""Placeholder for the name of a data set, where views are published."""

ANALYST = re.compile(r"[\w.@+-]{1,100}")
"""Names of analysts."""


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

    @property
    def bounded_columns(self) -> frozenset[str]:
        """The columns that ``bounds`` name, which may be measured."""
        return frozenset(filter(None, map(bounded_column, self.bounds)))

    @property
    def roles(self) -> Roles:
        """What each column may do in a query."""
        times = [] if self.period is None else [self.period]
        grouped = [one for level in self.levels for one in level.source_columns]
        return Roles.of(
            group=[*grouped, *times], measure=self.bounded_columns, filter=[*self.filters, *times]
        )

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


BOUNDED = re.compile(
    r"\s*[A-Za-z_]+\s*\(\s*(?:DISTINCT\s+)?(?P<column>[^,]*?)\s*(?:,.*)?\)\s*", re.I
)


def bounded_column(text: str) -> str:
    """The column of a key of ``bounds``: ``amount``, ``sum(amount)``; empty for rows, ``*``.

    Examples
    --------
    >>> bounded_column("sum(amount)"), bounded_column("amount"), bounded_column("count(*)")
    ('amount', 'amount', '')
    """
    found = BOUNDED.fullmatch(text)
    column = text if found is None else found["column"]
    return "" if column == "*" else column.strip('"')


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
    """Somebody who may ask: shares of epsilon by data set, of their own and of their group.

    ``speaks_for`` names the analysts for whom a token may ask as well: that of a server which signs
    them in, such as PostgreSQL.
    """

    name: str
    token: str
    group: str | None
    shares: Mapping[str, float]
    group_shares: Mapping[str, float]
    owner: bool
    speaks_for: tuple[str, ...] = ()

    def may_ask(self, data: str) -> bool:
        """Whether a data set is there for the analyst: there is a share of it, or it is owned."""
        return self.owner or data in self.shares or data in self.group_shares


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A question that the gateway asks every period, and publishes for tools that read tables.

    Parameters
    ----------
    data
        The data set.
    given
        The arguments, as an analyst would give them.
    report
        The question as a report of a series; its name is the view's.
    refresh
        How often the gateway looks for periods that are due.
    """

    data: DataSet
    given: Mapping[str, Any]
    report: Report
    refresh: timedelta

    @property
    def name(self) -> str:
        """The beginning of the names of its releases."""
        return self.report.name

    @property
    def holder(self) -> str:
        """Whose failures the memory counts; no analyst has such a name."""
        return f"view {self.name}"

    def call_of(self, report: Report, period: str) -> dict[str, Any]:
        """What is asked for a period, as an analyst would ask it. The law is that of ``report``,
        which a ledger may have kept."""
        law = {} if report.whole is None else report.whole.law
        arguments = {**self.given, **law, "period": period}
        return {"question": report.question.name, "arguments": arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource(Source):
    """The rows of a data set, as they are now; receipts name the data set and no path."""

    data: DataSet

    def object_for(self, period: str) -> Any:
        return self.data.source.object_for("")

    def describe(self, period: str) -> str:
        return self.data.name

    @contextmanager
    def open(self, period: str) -> Iterator[object]:
        with self.data.rows() as rows:
            yield rows


def place_of_views(to: str | None, data: str) -> str:
    """Where the views of a data set are published: of PostgreSQL by default the schema of its name.

    Examples
    --------
    >>> place_of_views("views.duckdb", "sales"), place_of_views("postgresql://host/db", "sales")
    ('views.duckdb', 'postgresql://host/db?schema=sales')
    """
    place = str(to)
    words = place.partition("?")[2].split("&")
    if is_postgres(place) and not any(word.startswith("schema=") for word in words):
        place += f"{'&' if '?' in place else '?'}schema={DATA}"
    return place.replace(DATA, data)


LEEWAY = 10
"""Seconds by which the clocks of a proxy and of the gateway may differ."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """How a proxy names the analyst: a signed token (JWT, RFC 7519) in a header, as identity-aware
    proxies set it.

    Parameters
    ----------
    header
        The header.
    key
        The proxy's public key as PEM, or its public keys as a JSON Web Key Set.
    algorithm
        The one algorithm of signatures that counts, whatever a token says.
    audience, issuer
        For whom and by whom tokens must be; an issuer of None is not compared.
    claim
        The part of a token that is an analyst's name.
    """

    header: str
    key: str
    algorithm: str
    audience: str
    issuer: str | None = None
    claim: str = "email"

    @cached_property
    def keys(self) -> dict[str | None, Any]:
        """The public keys by their names; of PEM one that has none.

        Raises ParameterError if there is no key of the algorithm, or one that is private.
        """
        jwt = import_extra("jwt", NO_JWT, ParameterError)
        method = jwt.get_algorithm_by_name(self.algorithm)
        found: dict[str | None, Any] = {}
        try:
            if self.key.lstrip().startswith("{"):
                for one in jwt.PyJWKSet.from_json(self.key).keys:
                    if one.algorithm_name == self.algorithm:
                        found[one.key_id] = one.key
            else:
                found[None] = method.prepare_key(self.key)
        except (jwt.PyJWTError, ValueError, TypeError, LookupError):
            found = {}
        if not found or any(hasattr(key, "private_bytes") for key in found.values()):
            raise ParameterError(
                f"the file has no public key for {self.algorithm}. Name a PEM file or a JSON Web "
                "Key Set of the proxy."
            )
        return found

    def name_in(self, given: str) -> str | None:
        """The name in a header's value; None unless its token is signed, meant for us and valid
        now."""
        jwt = import_extra("jwt", NO_JWT, ParameterError)
        token = given.removeprefix("Bearer ").strip()
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = self.keys.get(kid, self.keys.get(None))
            claims = jwt.decode(
                token,
                key,
                algorithms=[self.algorithm],
                audience=self.audience,
                issuer=self.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "aud", *(["iss"] if self.issuer else [])]},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        name = claims.get(self.claim)
        unsure = self.claim == "email" and claims.get("email_verified", True) is not True
        return name if isinstance(name, str) and not unsure else None


NO_JWT = "identity needs PyJWT. Run pip install 'dpframe[serve]'."


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
        How many seconds the statements of a question may take.
    memory
        The most memory that counting may take, in bytes, before it goes on in files.
    address
        Host and port.
    certificate, key
        The files of TLS; None without.
    behind_proxy
        Whether a proxy in front ends TLS.
    identity
        How a proxy names the analyst; None without.
    views
        Views by name.
    publish
        Where they are published: a file of DuckDB or a database of PostgreSQL, in which ``{data}``
        stands for the name of a data set; None without.
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
    identity: Identity | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    publish: str | None = None

    def analyst_of(self, token: str) -> Analyst | None:
        """The analyst of a token. Every hash is compared, in constant time."""
        given, found = hash_token(token), None
        for analyst in self.analysts.values():
            if hmac.compare_digest(analyst.token.encode(), given.encode()):
                found = analyst
        return found

    def analyst_of_proxy(self, headers: Mapping[str, str]) -> Analyst | None:
        """The analyst whom the proxy in front names in a request's headers.

        Without ``behind_proxy`` no header counts. Case does not tell names apart.
        """
        if self.identity is None or not self.behind_proxy:
            return None
        given = headers.get(self.identity.header)
        name = None if given is None else self.identity.name_in(given)
        known = {one.name.casefold(): one for one in self.analysts.values()}
        return None if name is None else known.get(name.casefold())


def hash_token(token: str) -> str:
    """What a policy holds of a token. A token has 256 random bits, so that a plain hash hides it.

    Examples
    --------
    >>> hash_token("dpf_x")[:14]
    'sha256:c3bb776'
    """
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def make_token() -> str:
    """A new token."""
    return TOKEN + secrets.token_urlsafe(32)


def columns_of(data: DataSet) -> Columns:
    """A data set as a table that a query may name."""
    return Columns(data.name, data.columns)


# -- the demonstration -----------------------------------------------------------------------------

DEMO = """\
# Flights from New York in 2013, which ship with dpframe. An aircraft is a user.
# Made by dpframe serve --demo, which makes a new token each time.
[data.flights]
source = "flights.parquet"
about = "Flights from New York City in 2013."
user = "aircraft"
levels = ["columns:origin,dest,carrier", "columns:carrier", "columns:dest", "date:date"]
bounds = { hour = [0, 24], "distinct(dest)" = [0, 20] }
filters = ["hour", "date"]
period = "date"
epsilon = 10.0
delta = 1e-5
largest = 2.0
default = 0.5

[analyst.demo]
token = "TOKEN"
owner = true
shares = { flights = 10.0 }
"""


def write_demo(folder: str) -> tuple[Path, str]:
    """Write the policy of the demonstration and its rows into a folder; return the policy's path
    and a new token. What a demonstration has spent there stays in its ledger.

    Raises ParameterError if the folder has another policy, or cannot be written to.
    """
    place, token = Path(folder), make_token()
    path, rows = place / "policy.toml", place / "flights.parquet"
    text = DEMO.replace("TOKEN", hash_token(token))
    first = text.partition("\n")[0]
    try:
        if path.exists() and not path.read_text("utf-8").startswith(first):
            raise ParameterError(
                f"{str(path)!r} is no demonstration. Leave --demo out, or name another folder."
            )
        place.mkdir(mode=0o700, exist_ok=True)
        if not rows.exists():
            with resources.as_file(resources.files("dpframe") / "data" / rows.name) as flights:
                shutil.copyfile(flights, rows)
        with replace_file(path, "the policy", private=True) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise ParameterError(
            f"{folder!r} cannot be used: {error.strerror}. Name another."
        ) from None
    return path, token
