"""Files of our own: names of files on this machine, and contents that appear as a whole."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

from dpframe.errors import ParameterError, ParameterTypeError, SourceError


def local_path(path: object, name: str = "path") -> Path:
    """A file of this machine by its name, with ``~`` for the home of the user.

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
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text):
        raise ParameterError(
            f"{name} ({text!r}) is an address, and only files of this machine are read and "
            "written: copy the file, and pass the name of the copy."
        )
    if "\0" in text or not text:
        raise ParameterError(f"{name} ({text!r}) is no name of a file.")
    return Path(os.path.expanduser(text))


def content_of(path: Path, start: bytes, what: str) -> bytes:
    """All of a file that starts with ``start``, or with as much of it as it has.

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
            f"{str(path)!r} is no {what} of dpframe: choose a file that save() wrote."
        )
    return content


def put(path: Path, content: bytes, what: str, *, private: bool) -> None:
    """Write a new file beside an old one, which it then replaces.

    ``private`` files are readable by the owner only, others by whom the process lets read.
    """
    name = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise SourceError(
            f"the {what} was not written to {str(path)!r}: {error.strerror or error}."
        ) from error
