"""Calls into DuckDB whose errors are ours: what DuckDB says about a row never leaves this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import duckdb

from dpframe._duck.ctrl_c import catch_ctrl_c
from dpframe._duck.process_database import forget
from dpframe.errors import DpframeError, SourceError

T = TypeVar("T")

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
    with catch_ctrl_c(stop) as raised:
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
