"""Everything dpframe raises, and the notice that it gives.

::

    DpframeError
    +-- ParameterError   (ValueError)   an argument has a wrong value
    |   +-- BudgetError                 epsilon or delta out of range or out of reach
    |   +-- ThresholdError              below the smallest private threshold
    |   +-- HierarchyError              a hierarchy that cannot be read or does not exist
    |   +-- ColumnError                 a column that does not exist or does not fit
    +-- ParameterTypeError (TypeError)  an argument has a wrong type
    +-- SourceError      (RuntimeError) the data cannot be read; never quotes the data
    +-- LedgerError      (RuntimeError) the ledger's file cannot be used; nothing was drawn
        +-- OverBudgetError             the release would cost more than is left
        +-- ReleaseNameError            the name is stored with other arguments

    ReplayedNotice     (UserWarning)    no error: a release by name was replayed

Messages say what was given, the rule, and the next step. No message contains a value from the
data: what a database says about a failing row is dropped, not forwarded.
"""

from __future__ import annotations


class DpframeError(Exception):
    """Base of all errors of this package."""


class ParameterError(DpframeError, ValueError):
    """An argument has a value outside its rule."""


class BudgetError(ParameterError):
    """Epsilon or delta is out of range, or no noise reaches it."""


class ThresholdError(ParameterError):
    """The threshold is below the smallest threshold that keeps the guarantee."""


class HierarchyError(ParameterError):
    """A hierarchy specification that names no known kind or breaks its kind's rules."""


class ColumnError(ParameterError):
    """A column that the source does not have, or whose type the hierarchy cannot read."""

    behind_type = ""
    """What the message says behind the type of the column, for SQL that finds the type itself."""


class ParameterTypeError(DpframeError, TypeError):
    """An argument has the wrong type."""


class SourceError(DpframeError, RuntimeError):
    """The data could not be read. Details are withheld because they can quote the data."""


class LedgerError(DpframeError, RuntimeError):
    """The ledger cannot be used: missing, locked, full, damaged, or made with other totals."""


class OverBudgetError(LedgerError):
    """A release would cost more than the ledger has left. Nothing was charged or drawn."""


class ReleaseNameError(LedgerError, ValueError):
    """A release is stored under this name and answered another request."""


class ReplayedNotice(UserWarning):
    """A release by name was replayed: as old as its first call, with nothing read or charged.

    ``warnings.filterwarnings("ignore", category=dpframe.ReplayedNotice)`` where that is meant.
    """


def class_name(value: object) -> str:
    """The class of an object as its library is imported: ``dask.DataFrame``, but ``list``."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"
