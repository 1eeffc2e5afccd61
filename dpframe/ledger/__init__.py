"""A budget that cannot be overspent: kept in a file, charged before noise is drawn.

The modules of a ledger are loaded when a ledger is opened: most first calls use no ledger.
"""

from typing import TYPE_CHECKING, Any

from dpframe.common.calls import load_name as _loaded
from dpframe.ledger.current import (
    as_ledger,
    chosen_ledger,
    current_ledger,
    default_ledger,
    use_ledger,
)

_HOMES = {
    "Blocks": "dpframe.ledger.blocks",
    "Charge": "dpframe.ledger.entries",
    "Ledger": "dpframe.ledger.book",
    "PaidCharge": "dpframe.ledger.state",
    "Reservation": "dpframe.ledger.reservations",
    "Spending": "dpframe.ledger.store",
    "StoredResult": "dpframe.ledger.book",
}
"""For each name that is loaded on first use: its module."""

__all__ = [
    "Blocks",
    "Charge",
    "Ledger",
    "PaidCharge",
    "Reservation",
    "Spending",
    "StoredResult",
    "as_ledger",
    "chosen_ledger",
    "current_ledger",
    "default_ledger",
    "use_ledger",
]

if not TYPE_CHECKING:  # a type checker would take any name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = _loaded(_HOMES[name], name)
        return value

else:
    from dpframe.ledger.blocks import Blocks
    from dpframe.ledger.book import Ledger, StoredResult
    from dpframe.ledger.entries import Charge
    from dpframe.ledger.reservations import Reservation
    from dpframe.ledger.state import PaidCharge
    from dpframe.ledger.store import Spending
