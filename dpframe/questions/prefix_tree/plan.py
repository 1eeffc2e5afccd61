"""What a federated prefix tree will do and cost, from public parameters alone. Sees no data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dpframe.asking.card import Line
from dpframe.asking.privacy_receipt import Receipt
from dpframe.federated.channels import CentralNoise, Channel, ReportSums
from dpframe.federated.population import Population
from dpframe.mechanisms import prefix_tree
from dpframe.mechanisms.prefix_tree import FoundItems
from dpframe.questions.prefix_tree.lines import (
    PAPERS,
    left_out,
    local_guarantee,
    prefix_lines,
)
from dpframe.questions.prefix_tree.prefix_numbers import PrefixNumbers

if TYPE_CHECKING:
    import pandas as pd

INTERVALS = (
    "lower and upper hold the number of users who reported the item when it was found, with the "
    "stated confidence, given that it is shown; not the number of users who have it"
)


def discard_progress(_: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, kw_only=True)
class PrefixPlan(PrefixNumbers):
    """Everything about a prefix tree except the devices and the draw. ``say`` shows progress: it is
    called with a text on the question that devices are asked."""

    question = "prefix_tree"
    audience = "against whoever sees sums and result"
    intervals = INTERVALS

    say: Callable[[str], None] = field(default=discard_progress, repr=False, compare=False)

    @property
    def mechanism_name(self) -> str:
        return f"prefix-{self.asked.mechanism}"

    @property
    def paper(self) -> str:
        return PAPERS[self.asked.mechanism]

    @property
    def channel(self) -> Channel:
        if self.local_epsilon is not None:
            return ReportSums(self.local_epsilon)
        assert self.central is not None
        return CentralNoise(self.central)

    def run(self, devices: Population, /) -> FoundItems:
        """The only noisy step."""
        return prefix_tree.run(devices, self.channel, self.asked.search, say=self.say)

    def lines(self) -> list[Line]:
        """The card lines, all known before devices are asked."""
        return prefix_lines(self)

    @property
    def facts(self) -> dict[str, object]:
        """The request, and what follows from it and the public number of devices."""
        asked = self.asked
        others = ("counts", "deny", "devices", "mechanism", "neighbours")  # in other fields
        return {
            **{name: value for name, value in asked.request.items() if name not in others},
            "local_guarantee": local_guarantee(self),
            "devices": self.devices,
            "reporting": self.reporting,
            "reports": asked.reports,
            "local_epsilon": self.local_epsilon,
            "left_out": left_out(self),
            "denied": len(asked.search.deny),
            "height": 1,
            "levels": list(self.hierarchy.level_names),
            "threshold": None,
            "remainder": False,
            "standard_error": self.standard_error,
        }

    def frame(self, noisy: FoundItems, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Items as nodes of one level, sorted by text, in the columns of every release."""
        import pandas as pd  # late: `import dpframe` does not load it

        order = sorted(range(len(noisy.text)), key=noisy.text.__getitem__)
        texts = pd.Series([noisy.text[i] for i in order], dtype="str")
        count = np.rint(noisy.count[order]).astype(np.int64).clip(None, self.devices)
        return pd.DataFrame(
            {
                "level": np.ones(len(order), dtype=np.int64),
                "prefix": texts,
                self.hierarchy.label_columns[0]: texts,
                "residual": count,
                "count": count,
                "lower": np.minimum(noisy.lower[order], count),
                "upper": np.maximum(noisy.upper[order], count),
            }
        )

    def finish_receipt(self, facts: Receipt, noisy: FoundItems, frame: pd.DataFrame, /) -> Receipt:
        """The receipt, unchanged: no notice applies to these columns."""
        return facts
