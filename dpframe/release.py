"""A release, in five verbs: plan, charge, count, perturb, tidy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from dpframe.plan import Plan
from dpframe.receipt import Receipt, receipt
from dpframe.sources.tables import count

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A noisy frame and its receipt. Public: everything from here on is free."""

    frame: pd.DataFrame
    receipt: Receipt

    def to_frame(self) -> pd.DataFrame:
        """The frame with the receipt in ``attrs["dp"]``."""
        frame = self.frame.copy()
        frame.attrs["dp"] = self.receipt.to_dict()
        return frame

    def to_arrow(self) -> pa.Table:
        """An Arrow table with the receipt in its schema metadata under ``dpframe``."""
        table = pa.Table.from_pandas(self.frame, preserve_index=False)
        metadata = {**(table.schema.metadata or {}), b"dpframe": self.receipt.to_json().encode()}
        return table.replace_schema_metadata(metadata)


def release(source: object, plan: Plan, *, progress: bool = False) -> Release:
    """Run a plan, made without data, on a source."""
    from dpframe.postprocess.tidy import tidy  # loads pandas, which `import dpframe` does not

    charged = receipt(plan)  # what is spent is fixed before the data are read
    tree = count(source, plan, progress=progress)  # bounded, above the band, private
    noisy = plan.run(tree)  # the only noisy step
    return Release(tidy(noisy, plan), charged)  # public from here on


def receipt_of(metadata: dict[bytes, bytes] | None) -> Receipt | None:
    """The receipt in Arrow or Parquet schema metadata, if any."""
    text = (metadata or {}).get(b"dpframe")
    return Receipt(json.loads(text)) if text is not None else None
