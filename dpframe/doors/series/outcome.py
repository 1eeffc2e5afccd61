"""The outcome of a run of a series, or of a rehearsal: as text, as JSON and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from dpframe._terminal import visible

if TYPE_CHECKING:
    import pandas as pd

State = Literal["drawn", "stored", "due", "gap"]
"""State of a period: drawn by this run; stored before; due, to be drawn by a real run; or a gap,
neither drawn nor stored."""

DONE, FAILED, MISTAKEN, OVER = 0, 1, 2, 3
"""Exit codes: all is done; something failed; the declaration is wrong and nothing was done; only
the budget did not suffice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One period of one report, with the budget of its release; ``why`` is the reason of a gap."""

    report: str
    period: str
    release: str
    state: State
    epsilon: float
    delta: float
    why: str | None = None
    over_budget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of ``Series.run``. ``code`` is its exit code, ``str()`` a summary for people.

    ``spent`` and ``left`` are (epsilon, delta) of the ledger after the run, ``cost`` is what the
    run spent; with ``dry_run``, all three are what a real run would give.
    """

    dry_run: bool
    steps: tuple[Step, ...]
    cost: tuple[float, float]
    spent: tuple[float, float]
    left: tuple[float, float]
    published: str | None = None
    pages: tuple[str, ...] = ()
    failures: tuple[str, ...] = field(default=())

    @property
    def code(self) -> int:
        """0: all is done. 1: something failed. 3: only the budget did not suffice."""
        if self.failures or any(not step.over_budget for step in self.gaps):
            return FAILED
        return OVER if self.gaps else DONE

    @property
    def gaps(self) -> tuple[Step, ...]:
        """The steps whose periods are neither drawn nor stored."""
        return tuple(step for step in self.steps if step.state == "gap")

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each period of each report."""
        import pandas as pd

        names = ["report", "period", "release", "state", "epsilon", "delta", "why"]
        return pd.DataFrame([asdict(step) for step in self.steps], columns=names)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON types."""
        return {
            "code": self.code,
            "dry_run": self.dry_run,
            "cost": _budget_pair(self.cost),
            "spent": _budget_pair(self.spent),
            "left": _budget_pair(self.left),
            "releases": [asdict(step) for step in self.steps],
            "published": self.published,
            "pages": list(self.pages),
            "failures": list(self.failures),
        }

    def to_json(self) -> str:
        """Return the outcome as one line of JSON."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        return "\n".join(map(visible, self._lines()))

    __repr__ = __str__

    def _lines(self) -> list[str]:
        by_report: dict[str, list[Step]] = {}
        for step in self.steps:
            by_report.setdefault(step.report, []).append(step)
        lines, gaps = [], []
        for name, steps in by_report.items():
            counts = {state: sum(s.state == state for s in steps) for state in WORDS}
            said = [f"{n} {WORDS[state]}" for state, n in counts.items() if n]
            lines.append(f"{name}: {steps[0].period} to {steps[-1].period}, {', '.join(said)}")
            for why, alike in groupby(steps, lambda step: step.why):  # one line for gaps in a row
                releases = [step.release for step in alike if step.state == "gap"]
                more = f" to {releases[-1]} ({len(releases)})" if len(releases) > 1 else ""
                gaps += [f"gap: {releases[0]}{more}: {why}"] if releases else []
        if not lines:
            lines.append("nothing is due yet: no first period is over, or until= is before it")
        lines += gaps
        lines += [f"failed: {why}" for why in self.failures]
        verb, then = ("would cost", "then ") if self.dry_run else ("cost", "")
        lines.append(
            f"budget: this run {verb} {_budget_text(self.cost)}; {then}spent "
            f"{_budget_text(self.spent)}, "
            f"left {_budget_text(self.left)}"
        )
        if self.published is not None:
            lines.append(f"published to {self.published}")
        if self.pages:
            lines.append(f"pages: {', '.join(self.pages)}")
        return lines


WORDS: Mapping[State, str] = {
    "drawn": "drawn",
    "due": "to be drawn",
    "stored": "there already",
    "gap": "missing",
}


def _budget_pair(amounts: tuple[float, float]) -> dict[str, float]:
    return {"epsilon": amounts[0], "delta": amounts[1]}


def _budget_text(amounts: tuple[float, float]) -> str:
    return f"({amounts[0]:.6g}, {amounts[1]:.6g})"
