"""``dp.prefix_tree``: frequent items of users' devices, from sums of randomised reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpframe._known_arguments import known_arguments
from dpframe.asking.answer import answer_call
from dpframe.asking.explain import make_explain
from dpframe.asking.question import Question
from dpframe.digest import RECEIPT, seal_frame
from dpframe.federated.encoding import Encoding
from dpframe.questions.prefix_tree.checks import CONSTRAINTS, prefix_request
from dpframe.questions.prefix_tree.count import (
    count,
    declared_prefix_plan,
    former_prefix_request,
    item_types,
    opens,
    source_prefix_plan,
)

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period


@known_arguments
def prefix_tree(
    source: object,
    column: str,
    *,
    user: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    devices: int | None = None,
    iterations: int = 4,
    rounds: int = 1,
    length: int = 60,
    limit: int = 10_000_000,
    segments: str | Sequence[int] = "adaptive",
    false_positives: float = 0.5,
    selection: str = "unweighted",
    conditioned: bool = True,
    encoding: str | Encoding = "binary",
    alphabet: str | None = None,
    public: Sequence[str] | None = None,
    deny: Sequence[str] | None = None,
    participation: float = 1.0,
    mechanism: str = "reports",
    accountant: str = "aggregate",
    neighbours: str = "replace",
    confidence: float = 0.95,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Frequent items of users who each hold many, found without collecting them.

    The call simulates a federated deployment over a frame: every user is a device, which answers
    each question with a randomised report, and the server sees sums of reports only. Items are
    found prefix by prefix, so that nobody has to list them.

    Parameters
    ----------
    source
        As for :func:`hhh`.
    column
        The items: words, URLs, paths. They are read as text; missing and empty values are no items.
    user
        Column that identifies a person. Each person is a device, a person without items too. As for
        :func:`hhh`, ids beyond 2^53 must not be floating-point numbers.
    epsilon, delta
        The privacy budget of all reports together, against whoever sees their sums: 1e-4 to 50 and
        1e-12 to 0.1. No defaults.
    devices
        A number of users that the source is certain to have; the noise is planned for it. Fewer
        users are an error. By default the number of all users. This number is public: neighbours
        have the same number.
    iterations
        T, questions of a round, 1 to 100. More questions reach longer items, with more noise.
    rounds
        Searches one after the other, 1 to 20; later searches leave out what earlier searches found.
    length
        r, bits of an item, 1 to 4096: ten characters in 60. Longer items are cut after the last
        character that fits, and shown with an ellipsis.
    limit
        P, cells of a question, 2 to 2^28: what a device sends and the server adds up.
    segments
        "adaptive" (as many bits a question as ``limit`` allows below the prefixes found), "even",
        or a list with the bits of every question, which add up to ``length``.
    false_positives
        The largest expected number of cells that nobody holds, per cell that a question keeps;
        0.001 to 10.
    selection
        Which item of a user is reported: "unweighted" (each different item with equal chance) or
        "weighted" (with a chance in proportion to its frequency).
    conditioned
        True: a device reports an item below the found prefixes. False: any of its items.
    encoding, alphabet, public
        "binary" (six bits a character of the default alphabet), or "huffman", fitted on ``public``
        items; or an encoding of :mod:`dpframe.federated`. ``alphabet`` are the characters that
        items are made of, by default small letters (which stand for capitals, too), digits, space
        and the punctuation of words, hosts and paths. Items with other characters are left out:
        nobody reports them, and no label stands for them.
    deny
        Items that are public already and that nobody shall report.
    participation
        The chance that a device takes part in a question, 0.001 to 1. No amplification by sampling
        is claimed.
    mechanism
        "reports" (devices randomise), or the baselines "laplace" and "gaussian": a trusted server
        adds noise to exact counts.
    accountant
        "aggregate" (the exact law of the sums) or "shuffle" (a bound for any randomiser).
    neighbours
        "replace": all records of one user are replaced. "remove": all records of one user are
        removed, or added, and the device still reports, like a device without items.
    confidence
        Confidence of the intervals, 0.5 to 0.999999.
    period
        Only the records of a period, such as ``("when", "2026-W47")``; as for :func:`hhh`.
    ledger, release, data, progress
        As for :func:`hhh`.

    Returns
    -------
    pandas.DataFrame
        The column (text), ``count`` (int64, estimated number of users who reported the item when it
        was found), ``lower`` and ``upper`` (int64, interval for this number, given that the item is
        shown), largest count first. The receipt is in ``attrs["dp"]`` and ``result.dp.receipt``.

    Raises
    ------
    ParameterError, ParameterTypeError, SourceError, LedgerError
        As :func:`hhh`.
    BudgetError
        Too few users to hide each other within the budget.

    Privacy
    -------
    (epsilon, delta)-differential privacy for one user with all their records, against whoever sees
    the sums of all iterations and what follows from them; every single report is
    ``receipt["local_epsilon"]``-differentially private. Assumed public: every argument, and the
    number of users.

    References
    ----------
    Chadha, Chen, Duchi, Feldman, Hashemi, Javidbakht, McMillan, Talwar, "Differentially Private
    Heavy Hitter Detection using Federated Analytics" (2023), Algorithms 2 to 5.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> typed = pd.DataFrame({"who": range(3000), "word": ["selfie"] * 2000 + ["brunch"] * 1000})
    >>> found = dp.prefix_tree(typed, "word", user="who", epsilon=4.0, delta=1e-6)
    >>> found["word"].tolist()[:2]
    ['selfie', 'brunch']
    """
    from dpframe.postprocess.shown_nodes import flat_frame

    result = answer_call(
        PREFIX_TREE,
        source,
        column=column,
        user=user,
        epsilon=epsilon,
        delta=delta,
        devices=devices,
        iterations=iterations,
        rounds=rounds,
        length=length,
        limit=limit,
        segments=segments,
        false_positives=false_positives,
        selection=selection,
        conditioned=conditioned,
        encoding=encoding,
        alphabet=alphabet,
        public=public,
        deny=deny,
        participation=participation,
        mechanism=mechanism,
        accountant=accountant,
        neighbours=neighbours,
        confidence=confidence,
        period=period,
        ledger=ledger,
        release=release,
        data=data,
        progress=progress,
    ).to_frame()
    frame = flat_frame(result, str(result.columns[2]), None)
    return seal_frame(frame, result.attrs[RECEIPT])


PREFIX_TREE = Question(
    ask=prefix_tree,
    planned=prefix_request,
    constraints=CONSTRAINTS,
    opens=opens,
    sized=source_prefix_plan,
    count=count,
    declared=declared_prefix_plan,
    former=former_prefix_request,
    rolled_up=lambda _: None,
    result_types=item_types,
)

explain_prefix_tree = make_explain(
    "explain_prefix_tree",
    PREFIX_TREE,
    prefix_tree,
    """>>> import dpframe as dp
>>> plan = dp.explain_prefix_tree(
...     "word", user="who", devices=1_600_000, epsilon=1.0, delta=1e-6).plan
>>> plan.local_epsilon, plan.asked.reports
(10.71, 4)""",
)
