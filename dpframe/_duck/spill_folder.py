"""The folder that our own database spills to: raw keys, for the user of the process alone."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from dpframe.errors import SourceError

try:
    import fcntl
except ImportError:  # Windows: folders of killed processes stay
    fcntl = None  # type: ignore[assignment]

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
        from multiprocessing.util import Finalize  # which takes long to load

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
