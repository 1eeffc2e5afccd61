"""``dp.heavy_hitters``: the frequent values of a column without a hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe._forking import no_fork
from dpframe._known_arguments import known_arguments
from dpframe.asking.answer import answered
from dpframe.asking.explain import explaining
from dpframe.asking.given import Given
from dpframe.asking.question import Question
from dpframe.digest import RECEIPT, seal
from dpframe.questions.hhh.base import HhhPlan
from dpframe.questions.hhh.count import SKETCHES, count, fitted, rolled_up
from dpframe.questions.hhh.plan import MECHANISMS, hhh_plan

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period


FLAT_MECHANISMS = tuple(name for name in MECHANISMS if name != "paper")
"""The algorithm as printed is there to be compared, and has arguments that are not here."""


@known_arguments
def heavy_hitters(
    source: object,
    column: str,
    *,
    k: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    threshold: int | None = None,
    user: str | None = None,
    contribution: str | None = None,
    max_contributions: int | None = None,
    mechanism: str = "offline",
    counters: int | None = None,
    release_share: float | None = None,
    confidence: float = 0.95,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """The frequent values of one column, with noisy counts, differentially private.

    :func:`hhh` for a hierarchy of one level: values whose count reaches a threshold.

    Parameters
    ----------
    source
        As for :func:`hhh`: a frame, Arrow table, DuckDB relation, or path of files.
    column
        The column.
    k
        At most so many values, those with the largest noisy counts; by default all that are
        released. Choosing among released values costs nothing.
    epsilon, delta, threshold, user, contribution, max_contributions, counters, release_share, \
confidence, period, ledger, release, data, progress
        As for :func:`hhh`.
    mechanism
        "offline" (default: exact counts before noise), "offline-gaussian" (for many releases that
        are reserved together), "streaming" (one Misra-Gries sketch of ``counters`` counters, in one
        pass), or the baselines "laplace" and "gaussian".

    Returns
    -------
    pandas.DataFrame
        The column (as text; missing values are ``<invalid>``), ``count``, ``lower`` and ``upper``
        (int64), largest count first. The receipt is in ``attrs["dp"]`` and ``result.dp.receipt``.

    Raises
    ------
    ParameterError, ParameterTypeError, SourceError, LedgerError
        As :func:`hhh`.

    Privacy
    -------
    As :func:`hhh`.

    References
    ----------
    As :func:`hhh`; "streaming" is Lebeda, Tetek, "Better Differentially Private Approximate
    Histograms and Heavy Hitters using the Misra-Gries Sketch" (PODS 2023), Algorithms 1 and 2.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> words = pd.DataFrame({"word": ["fix"] * 900 + ["add"] * 500 + ["rare"]})
    >>> dp.heavy_hitters(words, "word", k=2, epsilon=1.0, delta=1e-6)["word"].tolist()
    ['fix', 'add']
    """
    with no_fork():
        from dpframe.postprocess.flat import cut_facts, flat

    result = answered(HEAVY_HITTERS, locals()).to_frame()
    every = flat(result, str(result.columns[2]), None)
    shown = every if k is None else every.head(int(k))
    return seal(shown, cut_facts(result.attrs[RECEIPT], len(shown), len(every)))


def _plan(given: Given) -> HhhPlan[Any, Any]:
    """That of heavy hitters of one level, without the rest."""
    hierarchy = given.column
    given.whole("k", 1, 2**53)
    given.chosen("mechanism", FLAT_MECHANISMS)
    given.whole("k", 1, 2**53)
    return hhh_plan(
        given.but(hierarchy=hierarchy, remainder=False, acknowledge=False, totals=False)
    )


HEAVY_HITTERS = Question(
    ask=heavy_hitters,
    planned=_plan,
    fitted=fitted,
    count=count,
    rolled_up=rolled_up,
    laws=({"mechanism": "offline"}, {"mechanism": "offline-gaussian"}),
    instead=SKETCHES,
)

explain_heavy_hitters = explaining(
    "explain_heavy_hitters",
    HEAVY_HITTERS,
    heavy_hitters,
    """>>> import dpframe as dp
>>> dp.explain_heavy_hitters("word", epsilon=1.0, delta=1e-6).plan.height
1""",
)
