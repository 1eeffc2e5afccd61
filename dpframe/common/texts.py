"""Texts: quoted for SQL, as HTML, visible on terminals; files that callers name; and progress.

**A notebook** shows a few plain lines of an object, and folds the rest below them.

Colours are the page's own, so that it can be read on a light and on a dark page.

Files that callers name, new files that take the place of old ones, and progress while a person
waits.

A path that exists is that file. Only where nothing has the name is ``~`` somebody's home, and
``*``, ``?`` and ``[...]`` a pattern. Every door asks here, so that what is checked, read and told
is one and the same file.

**Progress** says what is being done, and for how long, in notebooks and on terminals.

Nothing is shown in the first two seconds, in a pipe, in tests, or after the end. Shown are the name
of a step and its time; for a query that reads data also its percentage, and for steps whose number
is public how many are done. No number of rows is shown.
"""

from __future__ import annotations

import errno
import glob
import html
import os
import re
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dpframe.errors import ParameterError, ParameterTypeError, SourceError


def identifier(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted string."""
    return "'" + text.replace("'", "''") + "'"


def is_nan(number: str) -> str:
    """SQL of whether a floating-point number is NaN.

    ``isnan`` and comparisons are not enough: DuckDB answers them from the statistics of a Parquet
    file, in which NaN is left out, so that a NaN seems to lie between the other numbers.
    """
    return f"NOT (isfinite({number}) OR isinf({number}))"


def ascending_order(*columns: str, nulls: str = "LAST") -> str:
    """Columns for ORDER BY, with all said: a connection can have other defaults than DuckDB."""
    return ", ".join(f"{column} ASC NULLS {nulls}" for column in columns)


CELL = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0;white-space:normal"


def folded_html(title: str, lines: Iterable[str], more: str, rows: Iterable[Sequence[str]]) -> str:
    """HTML of a title, lines, and a table that opens below ``more``.

    All arguments are text, and are escaped here. The first cell of a row is its heading.
    """
    shown = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    table = "".join(_html_row(row) for row in rows)
    if table:
        table = (
            f"<details><summary style='cursor:pointer'>{html.escape(more)}</summary>"
            "<table style='color:inherit;background:transparent;border-collapse:collapse'>"
            f"<tbody>{table}</tbody></table></details>"
        )
    return (
        "<div style='color:inherit;background:transparent;border-left:.2em solid currentColor;"
        f"padding-left:.8em'><div><strong>{html.escape(title)}</strong></div>{shown}{table}</div>"
    )


def _html_row(cells: Sequence[str]) -> str:
    first, *others = map(html.escape, cells)
    style = "color:inherit;background:transparent"
    return (
        f"<tr style='{style}'><th scope='row' style='{CELL}'>{first}</th>"
        + "".join(f"<td style='{CELL}'>{cell}</td>" for cell in others)
        + "</tr>"
    )


OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: escape sequences begin with one
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text around it
    "\u2028\u2029\ud800-\udfff]"  # ends of lines, and halves of characters
)


def visible(text: str) -> str:
    r"""The text with what a terminal would obey written out.

    >>> print(visible("\x1b[31mred"))
    \x1b[31mred
    """
    return OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


STYLES = {"strong": "1", "faint": "2", "wrong": "1;31"}
"""How a terminal shall write text: codes of SGR, ECMA-48."""


def style_text(text: str, style: str | None, out: IO[str]) -> str:
    """Text that is visible already, in a style where it may have one: on a terminal that has
    colours, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if not style or not text or plain or not out.isatty():
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


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


# -- writing -------------------------------------------------------------------------------------


def check_target(name: str, path: str | os.PathLike[str], endings: tuple[str, ...] = ("",)) -> None:
    """Raise ParameterError for a file that could not be written; ``name`` is the argument's.

    Makes a file beside it and removes it again: rights alone do not tell.
    """
    file = file_of_path(path)
    shown = f"{name} ({str(path)!r})"
    if not file.name.lower().endswith(endings):
        raise ParameterError(f"{shown} must end in {' or '.join(endings)}.")
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


AFTER, EVERY = 2.0, 0.5
"""Seconds before anything is shown, and between two looks."""

IN_A_TEST = "PYTEST_CURRENT_TEST"
"""The variable that pytest sets while a test runs; processes that the test starts inherit it."""

UNKNOWN = 79, 23
"""Columns and rows of a terminal that does not say how many it has."""

Done = Callable[[], float]
"""Tells how much of a step is done, in percent."""

TIME = "{desc}: {elapsed}"
PART = "{desc}: {percentage:3.0f}% |{bar}| {elapsed}"


@dataclass(eq=False, slots=True)
class Step:
    """A step that is going on."""

    name: str
    done: Done | None


class _Steps(threading.local):
    """The steps of this thread, the innermost last."""

    def __init__(self) -> None:
        self.inner: list[Step] = []


_steps = _Steps()


@contextmanager
def step(name: str, wanted: bool = True, done: Done | None = None) -> Iterator[Step]:
    """Show a step that can take long. Within another step it takes the outer step's place until it
    ends; otherwise it is shown if it is ``wanted`` and somebody looks."""
    here, inner = Step(name, done), _steps.inner
    if not inner and not (wanted and is_watched()):
        yield here
        return
    inner.append(here)
    try:
        if len(inner) == 1:
            with _show_steps(inner):
                yield here
        else:
            yield here
    finally:
        inner.remove(here)


@contextmanager
def part(name: str, done: Done | None = None) -> Iterator[Step]:
    """A step that is shown only within another."""
    with step(name, wanted=False, done=done) as here:
        yield here


def goes_on() -> bool:
    """Whether a step of this thread is shown."""
    return bool(_steps.inner)


def rename_step(name: str) -> None:
    """Rename the step of this thread, for instance to show its public number."""
    if _steps.inner:
        _steps.inner[-1].name = name


def is_watched() -> bool:
    """Whether standard error is a terminal or a notebook, and this is no test."""
    if sys.stderr is None or os.environ.get(IN_A_TEST):
        return False
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return False
    return hasattr(sys.modules["IPython"].get_ipython(), "kernel")


@contextmanager
def _show_steps(inner: list[Step]) -> Iterator[None]:
    over, start = threading.Event(), time.time()
    watcher = threading.Thread(target=_watch, args=(inner, over, start), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(inner: list[Step], over: threading.Event, start: float) -> None:
    if over.wait(AFTER):
        return
    with _bar(inner, start) as bar:
        while True:
            for now in inner[-1:]:  # none between two looks
                bar.total = None if now.done is None else 100
                bar.n = _step_percent(now)
                bar.bar_format = TIME if now.done is None else PART
                bar.set_description_str(now.name)
            if over.wait(EVERY):
                return


def _step_percent(now: Step) -> float:
    try:
        return 0.0 if now.done is None else min(100.0, max(0.0, now.done()))
    except Exception:  # the step has just ended, and its connection is closed
        return 0.0


def _bar(inner: list[Step], start: float) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # we look ourselves: no further thread

    name = next((now.name for now in inner[-1:]), "")
    bar = Bar(file=sys.stderr, leave=False, bar_format=TIME, desc=name, delay=1e-3)  # not yet
    bar.start_t = start
    if (bar.ncols or 0) <= 0 or (bar.nrows or 0) <= 0:
        bar.ncols, bar.nrows = UNKNOWN
    return bar
