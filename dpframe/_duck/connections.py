"""Connections to DuckDB: our own database, the caller's, their settings, Ctrl-C and errors.

The folder that our own database spills to holds raw keys, and is for the user of the process alone.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection
from duckdb.func import ARROW, SPECIAL
from duckdb.sqltypes import DuckDBPyType

from dpframe.common.calls import renew_in_child
from dpframe.common.progress import guard_time
from dpframe.common.texts import identifier, literal
from dpframe.errors import DpframeError, ParameterError, SourceError

try:
    import fcntl
except ImportError:  # Windows: folders of killed processes stay
    fcntl = None  # type: ignore[assignment]

LIMITS = {"DPFRAME_MEMORY_LIMIT": "memory_limit", "DPFRAME_THREADS": "threads"}
"""Names in the environment, and the names of DuckDB's settings."""

EXAMPLES = {"DPFRAME_MEMORY_LIMIT": "a size such as 4GB", "DPFRAME_THREADS": "a number such as 2"}


def read_limits() -> dict[str, str]:
    """The limits that the environment sets now; an empty value sets none."""
    return {name: os.environ[name] for name in LIMITS if os.environ.get(name)}


def set_limits(connection: DuckDBPyConnection, now: Mapping[str, str]) -> None:
    """Set the limits of the environment, and DuckDB's own where it has none.

    Raises:
        ParameterError: for a value that DuckDB does not take.
    """
    for name, setting in LIMITS.items():
        statement = f"SET {setting} = {literal(now[name])}" if name in now else f"RESET {setting}"
        try:
            run_interruptibly(partial(connection.execute, statement))
        except duckdb.Error:
            raise ParameterError(
                f"{name} in the environment is {now.get(name)!r}. "
                f"Give {EXAMPLES[name]}, or unset it."
            ) from None


T = TypeVar("T")


@contextmanager
def catch_ctrl_c(stop: Callable[[], None] | None = None) -> Iterator[list[BaseException]]:
    """Collect what the handler of Ctrl-C raises in the block, usually KeyboardInterrupt: DuckDB
    turns whatever a handler raises into a RuntimeError.

    ``stop`` interrupts the connection that works: DuckDB's other threads hear no signal, and
    without it the end of the statement waits until each has read its part.
    """
    raised: list[BaseException] = []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield raised  # Python runs handlers in the main thread only
        return

    def listen(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            if stop is not None:
                stop()
            raise

    signal.signal(signal.SIGINT, listen)
    try:
        yield raised
    finally:
        if signal.getsignal(signal.SIGINT) is listen:
            signal.signal(signal.SIGINT, handler)


def run_interruptibly(call: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """Run a call of DuckDB, and raise what the handler of Ctrl-C raised."""
    with catch_ctrl_c(stop) as raised:
        try:
            result = call()
        except Exception:
            if not raised:
                raise
    if raised:  # outside of the except: DuckDB's own error can quote the data
        raise raised[0].with_traceback(None) from None
    return result


MEMORY = (
    "ran out of memory. Free memory or disk space, or raise DPFRAME_MEMORY_LIMIT (for a relation, "
    "SET threads = 1 or a larger memory_limit on its connection), or use mechanism='streaming'"
)


def withhold_errors(
    what: str,
    call: Callable[[], T],
    less: Callable[[], T] | None = None,
    stop: Callable[[], None] | None = None,
) -> T:
    """Run a call, and if memory does not suffice the call that needs ``less``. DuckDB's errors
    become an error that names the source and quotes nothing. ``stop`` interrupts the connection."""
    failed = None
    with catch_ctrl_c(stop) as raised, guard_time(stop):
        try:
            result = call()
        except duckdb.InterruptException:
            failed = "was interrupted"
        except duckdb.OutOfMemoryException:
            failed = MEMORY
        except duckdb.ConnectionException:
            failed = "failed: its connection is closed. Open one, and make the relation again"
        except DpframeError:
            raise
        except Exception as error:  # in a stream Arrow passes on what DuckDB says
            failed = f"failed ({type(error).__name__}; its text is withheld, it can quote the data)"
            if type(error).__name__ == "ResourceInUseException":
                failed = "failed: its connection has an unfinished result. Fetch all of that first"
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                forget()  # that database answers no more
    # outside of every handler: no traceback or context holds the original
    if raised:
        raise raised[0].with_traceback(None) from None
    if failed is None:
        return result
    if failed == MEMORY and less is not None:
        return withhold_errors(what, less, stop=stop)
    raise SourceError(f"reading {what} {failed}.")


def readable_columns(columns: Sequence[str], kinds: Sequence[DuckDBPyType]) -> str:
    """SQL of all columns for a SELECT, with values that DuckDB can compute with, by type alone.

    Columns of type JSON become texts: ``TRY_CAST`` of JSON to a number raises for a text that is no
    JSON. Inside of other types JSON stays, because DuckDB would parse it when it casts back.
    """
    given = zip(map(identifier, columns), kinds, strict=True)
    values = [
        (name, f"CAST({name} AS VARCHAR)" if kind == "JSON" else guard_value(name, kind))
        for name, kind in given
    ]
    changed = ", ".join(f"{value} AS {name}" for name, value in values if value != name)
    return f"* REPLACE ({changed})" if changed else "*"


def guard_value(value: str, kind: DuckDBPyType, depth: int = 0) -> str:
    """SQL of a value on which no cast fails: DuckDB does not check values that Arrow gives it.

    A time becomes the nearest time within the day; other malformed values become NULL.
    """
    if kind.id in ("time", "time_ns"):
        first, last = (f"{kind} '{time}'" for time in ("00:00:00", "24:00:00"))
        near = f"WHEN {value} > {last} THEN {last} WHEN {value} < {first} THEN {first}"
        return f"CASE {near} ELSE {value} END"
    if kind.id in VALID:
        return f"CASE WHEN {VALID[kind.id].format(value)} THEN {value} END"
    if kind.id == "decimal":
        (_, precision), (_, scale) = _type_parts(kind)
        digits = f"{'9' * (precision - scale)}.{'9' * scale}"
        most = f"CAST('0{digits}' AS {kind})"
        return f"CASE WHEN {value} BETWEEN -{most} AND {most} THEN {value} END"
    if kind.id in ("list", "array"):
        items = _guard_items(value, _type_parts(kind)[0][1], depth)
        return value if items == value else f"CAST({items} AS {kind})"
    if kind.id == "map":  # a changed key could be there twice, which no map allows
        own, others = f"map_keys({value})", f"map_values({value})"
        (_, key), (_, other) = _type_parts(kind)
        keys, values = _guard_items(own, key, depth), _guard_items(others, other, depth)
        guard = f"CASE WHEN {keys} IS NOT DISTINCT FROM {own} THEN map({own}, {values}) END"
        return value if (keys, values) == (own, others) else guard
    if kind.id == "struct":
        fields = [
            (name, f"struct_extract({value}, {literal(name)})") for name, _ in _type_parts(kind)
        ]
        inner = [
            (name, field, guard_value(field, inside, depth))
            for (name, field), (_, inside) in zip(fields, _type_parts(kind), strict=True)
        ]
        packed = ", ".join(f"{identifier(name)} := {one}" for name, _, one in inner)
        guard = f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"
        return value if all(field == one for _, field, one in inner) else guard
    return value


def _guard_items(value: str, kind: DuckDBPyType, depth: int) -> str:
    """SQL of a list whose items have a type."""
    item = f"x{depth}"
    inside = guard_value(item, kind, depth + 1)
    return value if inside == item else f"list_transform({value}, lambda {item}: {inside})"


def guard_named_type(value: str, name: str) -> str:
    """``guard_value`` for a value whose type is known by name; NULL where it has another type.

    An ENUM, whose name has no values here, needs no guard: DuckDB writes each of its values.
    """
    if name == "ENUM":
        return value
    with process_database().connection.cursor() as cursor:
        cast = f"TRY_CAST({value} AS {name})"
        safe = guard_value(cast, cursor.sqltype(name))
    return value if safe == cast else safe


def _type_parts(kind: DuckDBPyType) -> list[tuple[str, Any]]:
    """What a type is made of, by name: types, and the numbers of a decimal."""
    return kind.children


VALID = {
    "bit": "octet_length({0}) > 0 AND 8 * octet_length({0}) - bit_length({0}) BETWEEN 0 AND 7",
    "time with time zone": (
        "CAST({0} AS TIME) BETWEEN TIME '00:00:00' AND TIME '24:00:00' "
        "AND date_part('timezone', {0}) BETWEEN -57599 AND 57599"
    ),
}
"""SQL by type: whether a value can be written as text. It fails on no value of the type."""


@dataclass(frozen=True, slots=True)
class ProcessDatabase:
    """A connection to the database of this process, and the folder that this database spills to."""

    connection: DuckDBPyConnection
    folder: SpillFolder
    name: str
    limits: dict[str, str] = field(default_factory=dict)
    """Limits of the environment that are in force."""

    def ready(self) -> str:
        """Make the spill folder if a cleaner has removed it. To be called before each statement."""
        return self.folder.ready(self.name)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Run the block with one thread: each thread needs memory before it spills."""
        with self.connection.cursor() as cursor:
            found = cursor.execute("SELECT current_setting('threads')").fetchone()
            assert found is not None
            cursor.execute("SET threads = 1")
            try:
                yield
            finally:
                cursor.execute(f"SET threads = {found[0]}")


IN_DOUBT = "in doubt"

_databases: dict[int, ProcessDatabase] = {}
"""Databases by process: one inherited from a parent is never used, nor destroyed."""

_folders: dict[int, SpillFolder] = {}

_names = map(str, itertools.count())

_opening = threading.Lock()
"""Held while a database is opened or closed, and while a process forks."""


def process_database() -> ProcessDatabase:
    """The database of this process, made if there is none yet."""
    process = os.getpid()
    with _opening:
        if process not in _databases:
            if process not in _folders:
                _folders[process] = SpillFolder()
            new = ProcessDatabase(duckdb.connect(":memory:"), _folders[process], next(_names))
            setting = f"SET temp_directory = {literal(new.ready())}"
            run_interruptibly(lambda: new.connection.execute(setting))
            _databases[process] = new
        found, limits = _databases[process], read_limits()
        if limits != found.limits:
            found.limits[IN_DOUBT] = ""  # until all are set
            set_limits(found.connection, limits)
            found.limits.clear()
            found.limits.update(limits)
        return found


def forget() -> None:
    """The next use opens another database; this one closes with its last cursor."""
    _databases.pop(os.getpid(), None)
    _shut.pop(os.getpid(), None)


SHUT = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "lock_configuration": "true",
}
"""Settings of a database that reaches no file, network, extension, setting or variable of Python's.
"""

_shut: dict[int, tuple[dict[str, str], DuckDBPyConnection]] = {}
"""Databases of that kind by process, and the limits of the environment that are in force."""


def released_database() -> DuckDBPyConnection:
    """The database of this process where what people write runs, beside no private row."""
    limits = {LIMITS[name]: value for name, value in read_limits().items()}
    with _opening:
        if _shut.get(os.getpid(), ({"": ""}, None))[0] != limits:
            settings: Any = {**SHUT, **limits}
            opened = run_interruptibly(lambda: duckdb.connect(":memory:", config=settings))
            _shut[os.getpid()] = limits, opened
        return _shut[os.getpid()][1]


@contextmanager
def one_task() -> Iterator[None]:
    """Run a task in a process that works beside others and may end without its exit: with one
    thread, and leaving no files."""
    connection = process_database().connection
    connection.execute("SET threads = 1")
    try:
        yield
    finally:
        forget()
        connection.close()
        _folders.pop(os.getpid()).remove()


# DuckDB's threads do not exist in a forked child, where the end of a database waits for them.
# So a process forks without a database of ours, unless another thread is using it: that thread
# does not exist in the child either, and what it uses is never destroyed there.


def _close_before_fork() -> None:
    _opening.acquire()
    forget()


def _start_child() -> None:
    global _opening
    _opening = threading.Lock()
    for folder in _folders.values():
        folder.let_go()


renew_in_child(_start_child, before=_close_before_fork, in_parent=lambda: _opening.release())


def add_functions(
    con: DuckDBPyConnection,
    texts: dict[str, Callable[..., str]],
    arrows: dict[str, tuple[Callable[..., pa.Array], str]],
) -> None:
    """Add scalar functions of any arguments, unless the database has them: ``texts`` return text,
    foldable while a statement is bound; ``arrows`` take and return Arrow arrays, run once a row.

    A cursor adds them, so that no transaction of the caller takes them back. It looks in the system
    schema, where no macro of the caller has one of their names.
    """
    with _functions_lock, con.cursor() as cursor:
        with suppress(duckdb.InvalidInputException):  # the configuration may be locked
            cursor.execute("SET search_path = 'system.main'")
        for name, text in texts.items():
            with _unless_there():
                cursor.create_function(name, text, None, "VARCHAR", null_handling=SPECIAL)
        for name, (arrow, kind) in arrows.items():
            with _unless_there():
                cursor.create_function(
                    name,
                    arrow,
                    None,
                    kind,
                    type=ARROW,
                    null_handling=SPECIAL,
                    side_effects=True,
                )


def sees_function(con: DuckDBPyConnection, name: str) -> bool:
    """Whether a connection sees a function that another cursor added.

    A transaction sees only what was there when it first used a function. A statement that calls
    one it does not see aborts it.
    """
    try:
        first, second = (con.execute("SELECT txid_current()").fetchone() for _ in range(2))
    except duckdb.TransactionException:  # it was aborted before
        return False
    if first != second:  # each statement is a transaction of its own
        return True
    listed = f"SELECT count(*) FROM duckdb_functions() WHERE function_name = {literal(name)}"
    (count,) = con.execute(listed).fetchone() or (0,)
    return bool(count)


@contextmanager
def _unless_there() -> Iterator[None]:
    """Ignore that a name exists already: trying it is far faster than listing what there is."""
    try:
        yield
    except duckdb.CatalogException as error:
        if "already exists" not in str(error):
            raise


_functions_lock = threading.Lock()
"""Held while functions are looked for and added: a database takes each name once."""


def _renew_lock() -> None:
    global _functions_lock
    _functions_lock = threading.Lock()


renew_in_child(_renew_lock)


_INSIDE = {
    "duckdb_engine": ("_ConnectionWrapper__c",),
    "ibis": ("con",),
    "sql": ("_connection_sqlalchemy",),  # jupysql
    "sqlalchemy": ("driver_connection", "connection"),
}
"""Where objects of other packages, which dpframe does not import, keep a connection."""


def connection_in(given: object) -> DuckDBPyConnection | None:
    """A connection itself, the default one of the module, or the one that an object holds."""
    if given is duckdb:
        return duckdb.default_connection()
    for _ in range(4):  # jupysql holds one of SQLAlchemy, which holds one of duckdb_engine
        if isinstance(given, DuckDBPyConnection):
            return given
        names = _INSIDE.get(type(given).__module__.split(".")[0], ())
        try:
            given = next((getattr(given, name) for name in names if hasattr(given, name)), None)
        except Exception:  # a closed connection of SQLAlchemy
            return None
    return given if isinstance(given, DuckDBPyConnection) else None


def is_open(con: DuckDBPyConnection) -> bool:
    """Whether a connection takes statements."""
    try:
        con.cursor().close()
    except duckdb.ConnectionException:
        return False
    return True


def is_default(con: DuckDBPyConnection) -> bool:
    """Whether a connection is the one of ``duckdb.sql``, which lives on when its object is gone.

    This call starts that connection with its threads if nothing has: a fork then meets them.
    """
    return con is duckdb.default_connection()


def type_name(text: str) -> str | None:
    """DuckDB's own name of a type; None if it has none."""
    try:
        return str(process_database().connection.sqltype(text))
    except duckdb.Error:
        return None


def run_script(con: DuckDBPyConnection, script: str) -> None:
    """Run statements of ours."""
    run_interruptibly(lambda: con.execute(script))


def describe_relation(
    con: DuckDBPyConnection, relation: str, search_path: str
) -> list[tuple[object, ...]] | None:
    """Rows of DESCRIBE from a second connection to the same database; None if it cannot say."""
    try:
        with con.cursor() as cursor:
            if search_path:
                cursor.execute(f"SET search_path = {literal(search_path)}")
            wanted = f"DESCRIBE SELECT * FROM {relation}"
            return run_interruptibly(lambda: cursor.execute(wanted).fetchall())
    except duckdb.Error:
        return None


def is_one_select(text: str) -> bool:
    """Whether DuckDB parses a text as one SELECT statement without parameters."""
    try:
        found = process_database().connection.extract_statements(text)
    except duckdb.Error:
        return False
    select = duckdb.StatementType.SELECT
    return len(found) == 1 and found[0].type == select and not found[0].named_parameters


# -- the folder that our own database spills to --------------------------------------------------

PREFIX = "dpframe-spill-"


class SpillFolder:
    """A folder that nobody else can enter, with the folders of DuckDB in it.

    The folder that DuckDB makes is readable for all, but DuckDB does not make the folder above it:
    if this one vanishes while a statement runs, the statement fails. A lock on the folder, which
    ends with the process, tells later processes, and the cleaner of systemd, that it is in use.
    """

    def __init__(self) -> None:
        _remove_dead_folders()
        self._lock: int | None = None
        self._made = 0, 0
        while True:
            try:
                self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            except OSError:
                raise SourceError(
                    "there is no temporary folder that can be written to. Set TMPDIR to one."
                ) from None
            if self._lock_folder():
                break  # or a process that starts now has removed it
        self._end = Finalize(None, self._remove, exitpriority=0)  # of this process, of no child

    def ready(self, name: str) -> str:
        """Return the folder ``name`` in this one; make again what was removed meanwhile."""
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
            self._lock_folder()
        found = self.path.lstat()
        if not (
            _is_private_folder(found) or (found.st_dev, found.st_ino) == self._made
        ):  # or as another user
            raise SourceError(
                f"the temporary folder {str(self.path)!r} was removed and made again by somebody "
                "else. Start a new process, and find out who."
            )
        with suppress(OSError):  # if it is not there, DuckDB says so once it needs it
            (self.path / name).mkdir(mode=0o700)
        return str(self.path / name)

    def remove(self) -> None:
        """Remove the folder now and not at the exit of the process; in a child do nothing."""
        self._end()

    def _remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self.let_go()

    def let_go(self) -> None:
        """Give up the lock; a forked child does not hold the lock of its parent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _lock_folder(self) -> bool:
        """Lock the folder where there are locks; return whether it is there."""
        self.let_go()
        with suppress(FileNotFoundError):
            made = self.path.lstat()
            self._made = made.st_dev, made.st_ino  # no other folder's, while it is open below
        if fcntl is None:
            return True
        try:
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (FileNotFoundError, BlockingIOError):
            return False
        except OSError:
            return True  # no locks on this disk, so nobody removes what is not locked
        return self.path.exists()


def _is_private_folder(found: os.stat_result) -> bool:
    """Whether it is a folder of this user that no other user can enter."""
    if fcntl is None:
        return stat.S_ISDIR(found.st_mode)
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    return private and found.st_uid == os.geteuid()


def _remove_dead_folders() -> None:
    """Remove folders of processes that were killed; links are not followed."""
    if fcntl is None:
        return
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if _is_private_folder(os.fstat(folder)):
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: it is in use
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(folder)
