"""``dp.change``: the differences between two releases, with intervals; free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe._known_arguments import known_arguments
from dpframe.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpframe.asking.release import Release
    from dpframe.ledger import Ledger
    from dpframe.postprocess.release_changes import ReleaseGiven


@known_arguments
def change(
    before: pd.DataFrame | Release | str,
    after: pd.DataFrame | Release | str,
    *,
    measure: str | None = None,
    confidence: float | None = None,
    simultaneous: bool = True,
    ledger: Ledger | str | Path | None = None,
) -> pd.DataFrame:
    """Compare two releases: differences and ratios of nodes, with intervals.

    Compares the numbers over all records under a node (``count``, a sum, a mean), which cover the
    same set of records in both releases. ``residual`` is not compared: it depends on what else is
    reported. Free: made of released numbers.

    Parameters
    ----------
    before, after
        Two releases of one hierarchy, unit and measure: frames that dpframe returned, whole, or
        names of results in the ledger.
    measure
        The measure of rollups that is compared; by default the first.
    confidence
        0.5 to 0.999999; by default the confidence of the releases.
    simultaneous
        Whether all intervals of ``change`` hold at once with that confidence (default), and all
        intervals of ``ratio`` likewise; or each interval on its own.
    ledger
        Where names are looked up: a :class:`Ledger` or its path; by default the ledger of
        :class:`use_ledger`.

    Returns
    -------
    pandas.DataFrame
        One row for every node that either release reports: level, prefix, label columns; ``before``
        and ``after`` with ``_lower`` and ``_upper`` as released; ``change`` = after - before,
        ``change_lower``, ``change_upper``; ``ratio`` = after / before, ``ratio_lower``,
        ``ratio_upper``, from 0 to infinity where ``before`` is not clearly above 0, missing for
        measures that can be negative; ``more_than_noise`` (boolean): whether the interval of the
        change leaves 0 out. Where a release does not report a node, its number is missing, and its
        ends are bounds that its threshold and noise prove (missing where they prove none).
        ``attrs["dp_change"]`` has the ``confidence``, ``how`` ends were made, and the releases.

    Raises
    ------
    ParameterError
        The releases count different things, or samples of users that each release drew anew; are
        one release, or a release and its replay; are not whole; are of a later and then an earlier
        period; or their intervals cannot have the confidence asked for. The message says what to
        do.
    ParameterTypeError
        ``before`` or ``after`` is neither a frame nor a name.
    ReleaseNameError, LedgerError
        A name is not in the ledger, or the ledger cannot be used.

    Notes
    -----
    Where the receipts tell the laws of both noises, which are independent, intervals follow from
    their joint law (``how`` is "joint"); for means from new intervals of both releases ("widened");
    otherwise from the ends in both frames ("as shown").
    docs/afterwards.md says when. No interval includes what clipping to bounds takes away, or the
    rounding of shares to 1/256.

    References
    ----------
    Fieller, "Some Problems in Interval Estimation" (1954), for ratios.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> budget = {"epsilon": 4.0, "keys": ["JFK", "LGA"]}
    >>> first = pd.DataFrame({"origin": ["JFK"] * 400 + ["LGA"] * 100}).dp.tree_counts(
    ...     ["origin"], **budget)
    >>> second = pd.DataFrame({"origin": ["JFK"] * 200 + ["LGA"] * 100}).dp.tree_counts(
    ...     ["origin"], **budget)
    >>> found = dp.change(first, second)
    >>> found.loc[found["more_than_noise"], "prefix"].tolist()
    ['*', 'JFK']
    """
    from dpframe.postprocess.release_changes import change_frame
    from dpframe.questions.hhh.ask import HHH

    sides = [
        _change_side(role, given, ledger) for role, given in (("before", before), ("after", after))
    ]
    return change_frame(
        *sides,
        measure=measure,
        confidence=confidence,
        simultaneous=simultaneous,
        plan_again=HHH.plan,
    )


def _change_side(role: str, given: Any, ledger: object) -> ReleaseGiven:
    """Return one side of a change: a frame and its receipt."""
    from dpframe.asking.privacy_receipt import Receipt
    from dpframe.asking.release import Release
    from dpframe.digest import RECEIPT
    from dpframe.ledger import chosen_ledger

    if isinstance(given, str):
        book = chosen_ledger(ledger)
        if book is None:
            raise ParameterError(
                f"{role} ({given!r}) needs a ledger. Pass ledger=, or call dp.use_ledger first."
            )
        given = book.recall(given)
    if isinstance(given, Release):
        given = given.to_frame()
    facts = getattr(given, "attrs", {}).get(RECEIPT)
    if facts is None and not hasattr(given, "attrs"):
        raise ParameterTypeError(
            f"{role} must be a released frame or name; got {type(given).__name__}."
        )
    if not isinstance(facts, dict):
        raise ParameterError(
            f"{role} carries no receipt. Pass the frame that dpframe returned: some operations "
            "drop its attrs."
        )
    return given, Receipt(facts)
