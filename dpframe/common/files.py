"""Files and addresses that callers name, new files in the place of old ones, and lines of TOML.

A path that exists is that file. Only where nothing has the name is ``~`` somebody's home, and
``*``, ``?`` and ``[...]`` a pattern. Every door asks here, so that what is checked, read and told
is one and the same file.
"""

from __future__ import annotations

import bisect
import errno
import glob
import os
import re
import shutil
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeGuard
from urllib.parse import unquote

from dpframe.common.calls import argument_hint, import_extra, shown_value
from dpframe.common.texts import LONGEST_IN_POSTGRES
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError, SourceError

LEFT = 24 * 3600.0
"""Seconds after which an unfinished file counts as left by a dead process."""

PAGES = (".html", ".htm")
"""How the name of a page ends. Another ending would promise what is not in the file."""

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How an address begins, such as ``https://`` or ``s3://``."""

LONG = 200
"""Characters of a path in a message, at most."""


def quoted_path(path: str | os.PathLike[str]) -> str:
    """A path as messages quote it."""
    text = os.fspath(path)
    return repr(text) if len(text) <= LONG else f"{text[:LONG]!r}..."


def file_of_path(path: str | os.PathLike[str]) -> Path:
    """The file that a path names, whether it exists or not."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise ParameterTypeError(f"path must be a file name; got {type(path).__name__}.")
    if "\0" in os.fspath(path):
        raise ParameterError(
            f"path ({quoted_path(path)}) is no name of a file: it holds a zero byte."
        )
    return Path(path) if os.path.lexists(path) else Path(os.path.expanduser(path))


def local_file(path: object, name: str = "path") -> Path:
    """The file that a path names, for files of our own: sketches, streams, generators, pages.

    Raises
    ------
    ParameterTypeError
        If it is neither text nor a ``pathlib.Path``: bytes, an open file.
    ParameterError
        If it is an address such as ``s3://...``: nothing here reads or writes over a network.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise ParameterTypeError(
            f"{name} must be the name of a file, as text or a pathlib.Path; "
            f"got {type(path).__name__}."
        )
    if ADDRESS.match(text):
        raise ParameterError(
            f"{name} ({text!r}) is an address, not a file of this machine. Copy the file, and pass "
            "the name of the copy."
        )
    in_memory = os.path.basename(text).startswith((":memory:", "file:"))
    if "\0" in text or not text or (in_memory and not os.path.lexists(text)):
        raise ParameterError(
            f"{name} ({text!r}) is no name of a file. Name one that outlasts this process, such as "
            "'budget.db'."
        )
    return file_of_path(text)


def content_of(path: Path, start: bytes, what: str) -> bytes:
    """The content of a file that starts with ``start``, or with as much of it as the file has.

    Raises SourceError if it cannot be read, or starts in another way: it is not ``what`` then.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(start))
            content = head + file.read() if head == start else head
    except OSError as error:
        raise SourceError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error
    if not start.startswith(head) or not head:
        raise SourceError(
            f"{str(path)!r} is no {what} of dpframe. Choose a file that save() wrote."
        )
    return content


def matching_files(path: str | os.PathLike[str]) -> list[Path]:
    """The file or folder of a path, otherwise the files that match it, in the order of their names.

    Raises SourceError if there is none.
    """
    file = file_of_path(path)
    if os.path.exists(file):
        return [file]
    pattern = str(file)
    found = glob.glob(pattern, recursive=True, include_hidden=True)
    files = sorted(filter(os.path.isfile, found))
    if not files:
        raise SourceError(f"{quoted_path(path)} does not exist. Check the path.")
    return [Path(name) for name in files]


def check_target(
    name: str,
    path: str | os.PathLike[str],
    endings: tuple[str, ...] = ("",),
    instead: str = "",
) -> None:
    """Raise ParameterError for a file that could not be written; ``name`` is the argument's, and
    ``instead`` a sentence on what writes files with other endings.

    Makes a file beside it and removes it again: rights alone do not tell.
    """
    file = file_of_path(path)
    shown = f"{name} ({str(path)!r})"
    if not file.name.lower().endswith(endings):
        raise ParameterError(f"{shown} must end in {' or '.join(endings)}. {instead}".rstrip())
    file = Path(os.path.realpath(file))
    if not os.path.isdir(file.parent):
        raise ParameterError(f"{shown} is in a folder that does not exist.")
    if os.path.isdir(file):
        raise ParameterError(f"{shown} is a folder. Name a file in it.")
    try:
        if _name_exists(file) and not os.access(file, os.W_OK):
            raise PermissionError(errno.EACCES, "it may not be written")
        if _takes_place(file):
            handle, beside = _new_file_beside(file, private=True)
            os.close(handle)
            os.unlink(beside)
    except OSError as error:
        raise ParameterError(
            f"{shown} cannot be written ({error.strerror}). Check the rights on its folder, or "
            "name another."
        ) from error


@contextmanager
def replace_file(
    path: str | os.PathLike[str], what: str, *, private: bool = False
) -> Iterator[IO[bytes]]:
    """A new file beside the old one, which it replaces when the block has ended without an error.

    Whoever opens the path sees the old file or the whole new one, also after a power failure. A
    link stays a link. Only the owner may read the new file if it is ``private``; otherwise whoever
    could read the old one.

    Raises SourceError if the file cannot be written; ``what`` was to be in it.
    """
    file = Path(os.path.realpath(file_of_path(path)))
    try:
        if not _takes_place(file):  # a device or a pipe
            with file.open("wb") as stream:
                yield stream
            return
        handle, beside = _new_file_beside(file, private=private)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, file)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise
        _keep_name(file.parent)
    except OSError as error:
        raise SourceError(
            f"{what} was not written to {str(path)!r}: {error.strerror or error}."
        ) from error


def _name_exists(file: Path) -> bool:
    """Whether a file has the name; OSError where none can have it."""
    try:
        os.lstat(file)
    except FileNotFoundError:
        return False
    return True


def _takes_place(file: Path) -> bool:
    """Whether a new file may take the place of this one: not if it is a device or a pipe."""
    return not _name_exists(file) or file.is_file()


def _new_file_beside(file: Path, *, private: bool) -> tuple[int, Path]:
    """An empty file in the same folder, under a name that no pattern for data matches."""
    _forget(file.parent)
    beside = file.with_name(f".dpframe-{uuid.uuid4().hex}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    if not private and _name_exists(file):
        shutil.copymode(file, beside)
    return handle, beside


def _forget(folder: Path) -> None:
    """Remove what processes left that died over a file: nobody has written to it for a day."""
    for left in folder.glob(".dpframe-*.new"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > LEFT:
                left.unlink()


def _keep_name(folder: Path) -> None:
    """Write the folder to disk too, where the system allows it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -- files of TOML ---------------------------------------------------------------------------------

Place = tuple[str, ...]


def reason_of(error: Exception) -> str:
    """Why a file cannot be used, as the system says it."""
    return str(getattr(error, "strerror", None) or "it cannot be a path").lower()


@dataclass(slots=True)
class TomlReader:
    """Reads the tables of a TOML file, and collects its mistakes with their lines."""

    path: Path
    lines: Mapping[Place, int]
    errors: list[tuple[int, str]] = field(default_factory=list)

    def mistake(self, place: Place, message: str) -> None:
        """Note a mistake at the line of a key, or of the nearest table around it."""
        known = place
        while known and known not in self.lines:
            known = known[:-1]
        self.errors.append((self.lines.get(known, 1), message))

    def attempt(self, place: Place, make: Callable[[], Any], default: Any = None) -> Any:
        """What ``make`` returns; ``default``, with a mistake noted, if it raises."""
        where = ".".join(one for one in place if not one.isdigit())
        try:
            return make()
        except DpframeError as error:
            self.mistake(place, f"{where}: {error}")
        except (OSError, ValueError) as error:
            self.mistake(place, f"{where}: {reason_of(error)}. Check the path and its rights.")
        return default

    def show_value(self, value: Any, place: Place) -> str:
        """A value as a message may show it."""
        return shown_value(value)

    def table(self, given: Any, place: Place, known: Sequence[str] | None) -> dict[str, Any]:
        """A table of keys, without unknown ones."""
        if not isinstance(given, Mapping):
            self.mistake(
                place, f"{'.'.join(place)} must be a table; got {self.show_value(given, place)}."
            )
            return {}
        if known is None:
            return dict(given)
        for key in given:
            if key not in known:
                hint = argument_hint(key, known)
                self.mistake(
                    (*place, key), f"{'.'.join(place) or 'the file'} has no {key!r}.{hint}"
                )
        return {key: value for key, value in given.items() if key in known}

    def text(self, table: Mapping[str, Any], place: Place, key: str, default: Any = None) -> Any:
        """A text, or ``default``."""
        value = table.get(key, default)
        if value is not default and not (isinstance(value, str) and value):
            self.mistake((*place, key), f"{key} must be text; got {self.show_value(value, place)}.")
            return default
        return value

    def number(
        self,
        table: Mapping[str, Any],
        place: Place,
        key: str,
        default: Any,
        low: float,
        high: float,
        whole: bool = False,
        whose: str = "",
    ) -> Any:
        """A number from ``low`` to ``high``, or ``default``; ``whose`` says what sets ``high``."""
        value = table.get(key, default)
        if value is default:
            return default
        kinds = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            what = "a whole number" if whole else "a number"
            self.mistake(
                (*place, key),
                f"{key} ({self.show_value(value, place)}) must be {what} from {low:g} to {high:g}"
                f"{whose}.",
            )
            return default
        return value

    def flag(self, table: Mapping[str, Any], place: Place, key: str) -> bool:
        """True or false; false where it is missing."""
        value = table.get(key, False)
        if not isinstance(value, bool):
            self.mistake(
                (*place, key), f"{key} must be true or false; got {self.show_value(value, place)}."
            )
        return value is True

    def names(self, table: Mapping[str, Any], place: Place, key: str) -> list[str]:
        """A list of texts."""
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            said = self.show_value(value, place)
            self.mistake((*place, key), f"{key} must be a list of texts, as ['a']; got {said}.")
            return []
        return value

    def choice(self, table: Mapping[str, Any], place: Place, key: str, known: Sequence[str]) -> Any:
        """One of several texts; the first one where it is missing."""
        value = self.text(table, place, key, known[0])
        if value not in known:
            self.mistake((*place, key), f"{key} has no {value!r}.{argument_hint(value, known)}")
            return known[0]
        return value


TOML_PART = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\])*"|'[^']*'|\#[^\n]*'''
    r"""|[\[\]{}=,.\n]|[^\s\[\]{}=,."'\#]+""",
    re.S,
)
"""A part of a TOML file: a text, a comment, a sign, or a bare word."""


def key_lines(text: str) -> dict[Place, int]:
    """The number of the line on which each table, key and item of a list begins in a TOML file that
    can be read.

    Examples
    --------
    >>> key_lines("a = 1\\n[t.'x y']\\nb = [\\n  {c = 2}]")[("t", "x y", "b", "0", "c")]
    4
    """
    return LineScanner(text).lines


class LineScanner:
    """Reads where keys are in a text that is known to be TOML."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {(): 1}
        self._parts = [(found[0], found.start()) for found in TOML_PART.finditer(text)]
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._at = 0
        table: Place = ()
        while self._skip("\n"):
            if self._peek() == "[":
                self._skip("[")
                table = self._key(())
                self._skip("]")
            else:
                self._pair(table)

    def _peek(self) -> str:
        return self._parts[self._at][0] if self._at < len(self._parts) else ""

    def _next(self) -> str:
        self._at += 1
        return self._parts[self._at - 1][0]

    def _skip(self, signs: str) -> bool:
        """Pass signs and comments; whether anything follows."""
        while (part := self._peek()) and (part in signs or part[0] == "#"):
            self._at += 1
        return bool(part)

    def _note(self, place: Place) -> None:
        line = bisect.bisect_right(self._starts, self._parts[self._at][1])
        self.lines.setdefault(place, line)

    def _key(self, place: Place) -> Place:
        """A dotted key; each part of it is noted."""
        while True:
            part = self._peek()
            place = (*place, tomllib.loads(f"k={part}")["k"] if part[0] in "'\"" else part)
            self._note(place)
            self._at += 1
            if self._peek() != ".":
                return place
            self._at += 1

    def _pair(self, table: Place) -> None:
        place = self._key(table)
        self._skip("=")
        self._value(place)

    def _value(self, place: Place) -> None:
        first, count = self._next(), 0
        if first == "{":
            while self._skip(",\n") and self._peek() != "}":
                self._pair(place)
            self._at += 1
        elif first == "[":
            while self._skip(",\n") and self._peek() != "]":
                self._note((*place, str(count)))
                self._value((*place, str(count)))
                count += 1
            self._at += 1
        else:
            while self._peek() not in (",", "]", "}", "\n", "") and self._peek()[0] != "#":
                self._at += 1


# -- PostgreSQL: addresses and connections ---------------------------------------------------------

OF_POSTGRES = ("postgresql://", "postgres://")

SCHEMA = "dp_results"
"""The schema of results, unless the address names another."""


def is_postgres(to: object) -> TypeGuard[str]:
    """Whether results go to the address of a PostgreSQL server."""
    return isinstance(to, str) and to.startswith(OF_POSTGRES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsSchema:
    """Where results go: the address for the driver, the schema, and the address as it is shown,
    without user and password."""

    address: str = field(repr=False)
    schema: str
    shown: str


def schema_of(to: str) -> ResultsSchema:
    """Check an address and take the schema off it, without any connection."""
    kind, _, rest = to.partition("://")
    rest, _, query = rest.partition("?")
    hosts, slash, name = rest.partition("/")
    user, at, hosts = hosts.rpartition("@")
    if "@" in f"{user}{name}{query}" or "#" in to or any(c.isspace() or c < " " for c in to):
        raise ParameterError(
            "to is an address that cannot be read. Write @, /, ?, # and spaces in a password as "
            "%40, %2F, %3F, %23 and %20."
        )
    words = query.split("&") if query else []
    schemas = [unquote(w.partition("=")[2]) for w in words if w.partition("=")[0] == "schema"]
    schema = schemas[-1] if schemas else SCHEMA
    shown = f"{kind}://{hosts}{slash}{name}?schema={schema}"
    fits = 0 < len(schema.encode()) <= LONGEST_IN_POSTGRES and "\0" not in schema
    if not fits or schema.startswith("pg_"):
        raise ParameterError(
            f"to ({shown!r}) names no schema that can be made. Take a name of 1 to "
            f"{LONGEST_IN_POSTGRES} bytes that does not begin with pg_."
        )
    left = [word for word in words if word.partition("=")[0] != "schema"]
    address = f"{kind}://{user}{at}{hosts}{slash}{name}{'?' if left else ''}{'&'.join(left)}"
    return ResultsSchema(address=address, schema=schema, shown=shown)


def shown_target(to: str) -> str:
    """Where results go, without user and password."""
    return schema_of(to).shown if is_postgres(to) else to


def postgres_driver(what: str) -> Any:
    """psycopg; ParameterError that says what needs it if it is not installed."""
    missing = f"{what} needs psycopg. Run pip install 'dpframe[postgres]'."
    return import_extra("psycopg", missing, ParameterError)


def connect_to_schema(driver: Any, database: ResultsSchema) -> Any:
    """A connection to the server, or a sentence why there is none."""
    how = {"autocommit": True, "client_encoding": "UTF8", "prepare_threshold": None}
    try:
        told = driver.conninfo.conninfo_to_dict(database.address)
        how |= {"connect_timeout": 10} if "connect_timeout" not in told else {}
        return driver.connect(database.address, **how, fallback_application_name="dpframe")
    except driver.Error as raised:
        link, error = getattr(raised, "pgconn", None), raised
    # outside of the handler: no context holds the password
    if isinstance(error, driver.ProgrammingError):
        raise ParameterError(
            "to is an address that PostgreSQL's library cannot read. Write it as "
            "postgresql://user@host:port/database?schema=name."
        )
    state = driver.pq.PGconn.ping(database.address.encode())
    secret = (getattr(link, "password", None) or b"").decode("utf-8", "replace")
    line = str(error).partition("\n")[0]
    why = line.replace(secret, "***") if secret else line
    shown = f"to ({database.shown!r})"
    if state == driver.pq.Ping.NO_RESPONSE:
        raise ParameterError(
            f"{shown}: no PostgreSQL server answers ({why}). Check host and port, or start it."
        )
    if state == driver.pq.Ping.REJECT:
        raise ParameterError(
            f"{shown}: the server is starting or stopping ({why}). Publish again in a moment."
        )
    if getattr(link, "needs_password", False):
        raise ParameterError(
            f"{shown}: the server asks for a password. Put it into ~/.pgpass or PGPASSWORD."
        )
    raise ParameterError(
        f"{shown}: the server does not let this user in ({why}). A password may be wrong or "
        "expired: check user, password and database."
    )


def errors_of_others(driver: Any) -> tuple[type[Exception], ...]:
    """Errors after which the same publication can succeed: somebody made the same things, or
    changed their rights, at the same moment."""
    e = driver.errors
    made = (e.UniqueViolation, e.DuplicateSchema, e.DuplicateTable, e.DuplicateObject)
    return (*made, e.DeadlockDetected, e.SerializationFailure, e.InternalError_)


def refusal_text(driver: Any, database: ResultsSchema, error: Any, broken: bool) -> str:
    """A sentence of what the server said, and what to do."""
    shown, e = f"to ({database.shown!r})", driver.errors
    said = error.diag.message_primary or str(error).partition("\n")[0]
    if isinstance(error, e.LockNotAvailable):
        return f"{shown} is being published by another process. Try again when it is done."
    if isinstance(error, e.InsufficientPrivilege):
        return f"{shown}: the role may not do this ({said}). Publish as the owner of the schema."
    if isinstance(error, e.ReadOnlySqlTransaction):
        return f"{shown} is read-only ({said}). Publish to the primary, by a role that writes."
    if (error.sqlstate or "").startswith(("53", "58")):
        return f"{shown}: the server has no room ({said}). Make room there and publish again."
    if isinstance(error, e.DependentObjectsStillExist):
        return f"{shown}: views of yours show what would go away ({said}). Drop them first."
    if broken or error.sqlstate is None or error.sqlstate.startswith(("08", "57")):
        return f"{shown}: the connection ended ({said}). Publish again: nothing is half done."
    return f"{shown}: the server refuses ({error.sqlstate}: {said}). The old results are kept."
