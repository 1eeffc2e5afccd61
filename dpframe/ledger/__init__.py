"""A budget that cannot be overspent: kept in a file, charged before noise is drawn."""

from dpframe.ledger.blocks import Blocks
from dpframe.ledger.book import Ledger
from dpframe.ledger.current import as_ledger, chosen_ledger, current_ledger, use_ledger
from dpframe.ledger.entries import Charge
from dpframe.ledger.reservations import Reservation
from dpframe.ledger.results import Stored
from dpframe.ledger.standing import Paid
from dpframe.ledger.totals import Spending

__all__ = [
    "Blocks",
    "Charge",
    "Ledger",
    "Paid",
    "Reservation",
    "Spending",
    "Stored",
    "as_ledger",
    "chosen_ledger",
    "current_ledger",
    "use_ledger",
]
