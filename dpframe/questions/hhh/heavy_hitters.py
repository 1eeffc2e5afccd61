"""``dp.heavy_hitters``: the frequent values of a column without a hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.asking.digest import RECEIPT, seal
from dpframe.asking.given import (
    chosen,
    chosen_ledger,
    data_name,
    flag,
    plan_from,
    release_name,
    whole,
)
from dpframe.asking.known_arguments import known_arguments
from dpframe.asking.release import release as run
from dpframe.asking.replays import told
from dpframe.errors import ParameterTypeError
from dpframe.hierarchy import Hierarchy, columns
from dpframe.questions.hhh.plan import MECHANISMS

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger


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
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = False,
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
confidence, ledger, release, data, progress
        As for :func:`hhh`.
    mechanism
        "offline" (default: exact counts before noise), "streaming" (one Misra-Gries sketch of
        ``counters`` counters, in one pass), or the baselines "laplace" and "gaussian".

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
    from dpframe.postprocess.flat import flat

    most = None if k is None else whole("k", k, 1, 2**53)
    hierarchy = flat_hierarchy(column)
    chosen("mechanism", mechanism, FLAT_MECHANISMS)
    plan = plan_from(
        hierarchy,
        epsilon=epsilon,
        delta=delta,
        threshold=threshold,
        user=user,
        contribution=contribution,
        max_contributions=max_contributions,
        mechanism=mechanism,
        remainder=False,
        release_share=release_share,
        confidence=confidence,
        acknowledge=False,
        counters=counters,
    )
    drawn = run(
        source,
        plan,
        ledger=chosen_ledger(ledger),
        name=release_name(release),
        data=data_name(data),
        progress=flag("progress", progress),
    )
    result = told(drawn).to_frame()
    frame = flat(result, hierarchy.label_columns[0], most)
    return seal(frame, result.attrs[RECEIPT])


def flat_hierarchy(column: object) -> Hierarchy:
    """One level: the values of a column."""
    if not isinstance(column, str):
        raise ParameterTypeError(
            f"column must be the name of one column, as text; got {type(column).__name__}. "
            "For several levels use hhh."
        )
    return columns(column)
