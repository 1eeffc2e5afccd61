"""Receipts as earlier versions wrote them: laws by family, standard deviation and ends alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

EXACT = {"halves", "scale"}


def earlier_facts(facts: Any) -> Any:
    """The same facts without what made a law exactly, and without the law of shared noise."""
    if isinstance(facts, Mapping):
        law = {"family", "sd", "lowest", "highest"} <= facts.keys()
        kept = {k: v for k, v in facts.items() if not (law and k in EXACT) and k != "shared"}
        return {name: earlier_facts(value) for name, value in kept.items()}
    return [earlier_facts(value) for value in facts] if isinstance(facts, list) else facts


def earlier_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """The same frame with the receipt that an earlier version would have given it."""
    out = frame.copy()
    out.attrs = {**frame.attrs, "dp": earlier_facts(frame.attrs["dp"])}
    return out
