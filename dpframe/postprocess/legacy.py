"""What some receipts say on their card alone, most of them of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe.budget import as_float


def selection_epsilon(receipt: Mapping[str, Any]) -> float | None:
    """The part of epsilon that selects the nodes of a rollup."""
    chosen = receipt.get("selection")
    if isinstance(chosen, Mapping):
        return as_float(chosen.get("epsilon"))
    return as_float(_line(receipt, "selection")[1])


def selects_by_number(receipt: Mapping[str, Any]) -> bool:
    """Whether the number of records or users selects the nodes of a rollup, and no measure."""
    chosen = receipt.get("selection")
    if isinstance(chosen, Mapping):
        return chosen.get("measure", "") is None
    counted = "records" if receipt.get("user") is None else "users"
    return str(_line(receipt, "test noise")[2]) == f"in units of {counted}"


def certain_of_printed(receipt: Mapping[str, Any]) -> int | None:
    """From which residual on the printed algorithm reports every node; its receipts have the law of
    one of the two draws in a test, and this number on the card."""
    certain = _line(receipt, "certainly reported")[1]
    return None if certain is None else int(certain)


def _line(receipt: Mapping[str, Any], name: str) -> tuple[Any, Any, Any]:
    """Name, value and meaning of a line of the card."""
    return next(((*line,) for line in receipt["card"] if line[0] == name), (name, None, None))
