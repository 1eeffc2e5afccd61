"""``dp.heavy_hitters``: the frequent values of a column without a hierarchy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpframe.asking.answer import answer_call
from dpframe.asking.call_arguments import (
    CallArguments,
    MechanismArguments,
    choice,
    none_or,
    optional_whole,
)
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.question import Question, make_explain
from dpframe.asking.release import Release
from dpframe.common.calls import known_arguments, shown_value
from dpframe.errors import ParameterError
from dpframe.questions.hhh.ask import (
    HHH,
    SKETCH_MECHANISM,
    count,
    hhh_columns,
    hhh_for_source,
    hhh_rollup_plan,
)
from dpframe.questions.hhh.checks import check_hhh_arguments, without_auto
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.plan import GOES_WITH, MECHANISMS, advice, former_request, hhh_plan
from dpframe.questions.hhh.rounds_plan import rounds_by_default, rounds_plan

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period


FLAT_MECHANISMS = tuple(name for name in MECHANISMS if name != "paper")
"""All mechanisms but "paper", which serves comparisons and needs ``acknowledge``: heavy hitters do
not take this argument."""

ROUNDS_ARGUMENTS: MechanismArguments = {
    "at_most": (("rounds",), "says at how many released values a user counts fully"),
    "counters": GOES_WITH["counters"],
}
"""Two arguments with the mechanisms that take them: ``at_most`` goes with rounds only, ``counters``
with sketches only."""


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
    mechanism: str | None = None,
    counters: int | None = None,
    release_share: float | None = None,
    confidence: float = 0.95,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
    at_most: int | None = None,
) -> pd.DataFrame:
    """The frequent values of one column, with noisy counts, differentially private.

    This is :func:`hhh` for a hierarchy of one level: it returns the values whose count reaches a
    threshold. With ``user``, it returns the values that many different users have, and the numbers
    of users: a user counts at every value, so that counts do not add up.

    Parameters
    ----------
    source
        As for :func:`hhh`: a frame, Arrow table, DuckDB relation, or path of files.
    column
        The column.
    k
        Return at most ``k`` values, those with the largest noisy counts; by default all that are
        released. Choosing among released values costs nothing.
    epsilon, delta, threshold, user, counters, confidence, period, ledger, release, data, progress
        As for :func:`hhh`.
    mechanism
        "rounds" (default with ``user``, unless ``contribution`` is "share" or "records": users give
        weights to their values, in rounds, and the values found are counted), "offline" (default
        else: exact counts before noise), "offline-gaussian" (for many releases that are reserved
        together), "streaming" (one Misra-Gries sketch of ``counters`` counters, in one pass), or
        the baselines "laplace" and "gaussian".
    contribution
        With ``user`` "items" (default, as is "auto": different users are counted), "share" (a user
        weighs 1 in total, divided evenly over their records, so that counts add up) or "records".
    max_contributions
        Most different values of a user that take part when values are searched, by default 500.
        With "records", or "items" of "streaming": how many records or values of each user count.
    release_share
        Part of the budget for the counts, by default 0.2 in rounds; else as for :func:`hhh`.
    at_most
        In rounds: how many of the released values of one user count fully. A user with n values,
        more than ``at_most``, counts the root of at_most / n at each. This keeps noise small, but
        makes counts too low, which intervals do not cover. By default, found privately.

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
    As :func:`hhh`; "rounds" adds up the evidence of rounds of weights (Gopi and others,
    "Differentially Private Set Union", 2020; "DP-SIPS", 2023; MAD2R, 2025): see
    docs/decisions/0029-users-who-hold-many-items.md. "streaming" is Lebeda, Tetek, "Better
    Differentially Private Approximate Histograms and Heavy Hitters using the Misra-Gries Sketch"
    (PODS 2023), Algorithms 1 and 2.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> words = pd.DataFrame({"word": ["fix"] * 900 + ["add"] * 500 + ["rare"]})
    >>> dp.heavy_hitters(words, "word", k=2, epsilon=1.0, delta=1e-6)["word"].tolist()
    ['fix', 'add']
    """
    answer = answer_call(
        HEAVY_HITTERS,
        source,
        column=column,
        k=k,
        epsilon=epsilon,
        delta=delta,
        threshold=threshold,
        user=user,
        contribution=contribution,
        max_contributions=max_contributions,
        mechanism=mechanism,
        counters=counters,
        release_share=release_share,
        confidence=confidence,
        period=period,
        ledger=ledger,
        release=release,
        data=data,
        progress=progress,
        at_most=at_most,
    )
    return largest_values(answer.release, k).to_frame()


def largest_values(released: Release, k: int | None) -> Release:
    """Return the released values without their tree, the ``k`` with the largest counts; free."""
    from dpframe.postprocess.shown_nodes import cut_facts, flat_frame

    every = flat_frame(released.frame, str(released.frame.columns[2]), None)
    shown = every if k is None else every.head(int(k))
    return Release(shown, Receipt(cut_facts(released.receipt.to_dict(), len(shown), len(every))))


def _heavy_hitters_plan(given: CallArguments) -> HhhPlan[Any, Any]:
    """Return the plan of heavy hitters of one level, without a remainder."""
    if given["user"] is None:
        given.unit  # noqa: B018  # refuses arguments that need user=
        if given["at_most"] is not None:
            raise ParameterError(
                f"at_most ({shown_value(given['at_most'])}) needs user=. Name the column that "
                "identifies "
                "a person, or leave at_most out."
            )
    given = without_auto(given)
    usual = given["mechanism"] is None
    if usual:
        given = given.but(mechanism="rounds" if rounds_by_default(given) else "offline")
    mechanism = given["mechanism"]
    given.goes(ROUNDS_ARGUMENTS, mechanism)
    way = "offline" if mechanism == "rounds" else mechanism
    flat = HHH.call_arguments(
        {**given, "hierarchy": given.column, "remainder": False, "mechanism": way}
    )
    if mechanism == "offline" and given["contribution"] == "items":
        raise ParameterError(
            "contribution='items' of one column needs mechanism='rounds'. Leave mechanism out."
        )
    if mechanism != "rounds":
        return hhh_plan(flat)
    plan = rounds_plan(flat)
    if not usual or given["contribution"] is not None or given["max_contributions"] is not None:
        return plan
    shares = flat.but(contribution="share", at_most=None)
    return replace(plan, former=check_hhh_arguments(shares, "offline"))


HEAVY_HITTERS = Question(
    ask=heavy_hitters,
    planned=_heavy_hitters_plan,
    constraints={
        "k": optional_whole(1, 2**53),
        "at_most": optional_whole(1, 2**53),
        "mechanism": none_or(choice(FLAT_MECHANISMS)),
    },
    fitted=hhh_for_source,
    count=count,
    advice=advice,
    former=former_request,
    rolled_up=hhh_rollup_plan,
    laws=({"mechanism": "offline"}, {"mechanism": "offline-gaussian"}),
    columns=hhh_columns,
    instead=SKETCH_MECHANISM,
)

explain_heavy_hitters = make_explain(
    "explain_heavy_hitters",
    HEAVY_HITTERS,
    heavy_hitters,
    """>>> import dpframe as dp
>>> dp.explain_heavy_hitters("word", epsilon=1.0, delta=1e-6).plan.height
1""",
)
