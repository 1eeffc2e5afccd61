"""``dp.prefix_tree``: frequent items of users' devices, from sums of randomised reports."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.asking.digest import RECEIPT, seal
from dpframe.asking.given import chosen_ledger, data_name, flag, release_name
from dpframe.asking.known_arguments import check_known, known_arguments
from dpframe.asking.receipt import Explanation
from dpframe.asking.release import Release, already, asked_for, released, replayed
from dpframe.asking.replays import told
from dpframe.errors import ParameterError, ReleaseNameError, SourceError
from dpframe.federated.encoding import LETTERS, BinaryEncoding, Encoding
from dpframe.federated.population import Population
from dpframe.ledger import Ledger
from dpframe.questions.prefix_tree.checks import prefix_asked
from dpframe.questions.prefix_tree.plan import PrefixAsked, PrefixPlan, make_prefix_plan, to_nobody
from dpframe.sources.devices import count_devices, population
from dpframe.sources.relations import describe

if TYPE_CHECKING:
    import pandas as pd

DEFAULTS: dict[str, Any] = {
    "devices": None,
    "iterations": 4,
    "rounds": 1,
    "length": 60,
    "limit": 10_000_000,
    "segments": "adaptive",
    "false_positives": 0.5,
    "selection": "unweighted",
    "conditioned": True,
    "encoding": "binary",
    "alphabet": None,
    "public": None,
    "deny": None,
    "participation": 1.0,
    "mechanism": "reports",
    "accountant": "aggregate",
    "neighbours": "replace",
    "confidence": 0.95,
}
"""Of the arguments that have one; every front door takes them from here."""


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
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Frequent items of users who each hold many, found without collecting them.

    A simulation of a federated deployment over a frame: every user is a device, which answers each
    question with a randomised report, and the server sees sums of reports only. Items are found
    prefix by prefix, so that they need not be listed anywhere.

    Parameters
    ----------
    source
        As for :func:`hhh`.
    column
        The items: words, URLs, paths. Read as text; missing and empty ones are no items.
    user
        Column that identifies a person; each is a device, also with no items. As for :func:`hhh`,
        ids beyond 2^53 must not be floating-point numbers.
    epsilon, delta
        The privacy budget of all reports together, towards whoever sees their sums: 1e-4 to 50 and
        1e-12 to 0.1. No defaults.
    devices
        A number of users that the source is certain to have, to plan the noise for; fewer are an
        error. By default all of them. Their number is public: neighbours have the same.
    iterations
        T, questions of a round, 1 to 100. More follow longer items with more noise.
    rounds
        Searches one after the other, 1 to 20; later ones leave out what earlier ones found.
    length
        r, bits of an item, 1 to 4096: ten characters in 60. Longer items are cut after the last
        character that fits, and shown with an ellipsis.
    limit
        P, cells of a question, 2 to 2^28: what a device sends and the server adds up.
    segments
        "adaptive" (as many bits a question as ``limit`` allows below the prefixes found), "even",
        or a list with the bits of every question, which add up to ``length``.
    false_positives
        Expected items that nobody has, at most, in parts of what is kept; 0.001 to 10.
    selection
        Which item of a user is reported: "unweighted" (each different one as likely) or "weighted"
        (as frequent as it is).
    conditioned
        True: among the items below the prefixes found. False: among all.
    encoding, alphabet, public
        "binary" (six bits a character of the default alphabet), or "huffman", fitted on ``public``
        items; ``alphabet`` are the characters that items are made of, by default small letters
        (which stand for capitals, too), digits, space and the punctuation of words, hosts and
        paths. Items with other characters are left out: nobody reports them, and no label stands
        for them. Or an object of :mod:`dpframe.federated`.
    deny
        Items that are public already and that nobody shall report.
    participation
        Chance with which a device takes part in a question, 0.001 to 1. No amplification is
        claimed for it.
    mechanism
        "reports" (devices randomise), or the baselines "laplace" and "gaussian": a trusted server
        adds noise to exact counts.
    accountant
        "aggregate" (the exact law of the sums) or "shuffle" (a bound for any randomiser).
    neighbours
        "replace": all records of one user are replaced. "remove": they are removed, or added, and
        the device still reports, as one without items.
    confidence
        Of the intervals, 0.5 to 0.999999.
    ledger, release, data, progress
        As for :func:`hhh`.

    Returns
    -------
    pandas.DataFrame
        The column (text), ``count`` (int64, estimated number of users who reported the item when it
        was found), ``lower`` and ``upper`` (int64, interval for that number, given that the item is
        shown), largest count first. The receipt is in ``attrs["dp"]`` and ``result.dp.receipt``.

    Raises
    ------
    ParameterError, ParameterTypeError, SourceError, LedgerError
        As :func:`hhh`.
    BudgetError
        So few users cannot hide each other within the budget.

    Privacy
    -------
    (epsilon, delta)-differential privacy for one user with all their records, towards whoever sees
    the sums of all iterations and what follows from them; every report by itself is
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
    from dpframe.postprocess.flat import flat

    asked = prefix_asked(
        column,
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
    )
    drawn = asked_of(
        source,
        asked,
        ledger=chosen_ledger(ledger),
        name=release_name(release),
        data=data_name(data),
        progress=flag("progress", progress),
    )
    result = told(drawn).to_frame()
    frame = flat(result, asked.hierarchy.label_columns[0], None)
    return seal(frame, result.attrs[RECEIPT])


def asked_of(
    source: object,
    asked: PrefixAsked,
    *,
    ledger: Ledger | None,
    name: str | None,
    data: str | None,
    progress: bool,
) -> Release:
    """The release of what was asked for, or its replay."""
    what, segments = describe(source), asked.search.segments
    known = answered(asked, what, ledger, name, data)
    if known is not None:
        return known
    users = count_devices(source, asked.hierarchy, asked.user)
    plan = replace(make_prefix_plan(asked, users), say=_shown if progress else to_nobody)

    def counted() -> Population:
        found = population(
            source,
            asked.hierarchy,
            asked.user,
            asked.search.encoding,
            segments.length,
            progress=progress,
        )
        return checked_population(found, plan)

    result = released(counted, plan, source=what, ledger=ledger, name=name, data=data)
    if progress:
        _shown("", end="\r")
    return result


def answered(
    asked: PrefixAsked, source: str, ledger: Ledger | None, name: str | None, data: str | None
) -> Release | None:
    """What a name already answered, also with the default alphabet of before this one."""
    request = asked_for(asked.request, source, data)
    try:
        return already(request, ledger, name)
    except ReleaseNameError:
        stored = None
        if asked.search.encoding.spec == BinaryEncoding().spec and ledger is not None:
            stored = ledger.find(str(name))
        if stored is None or stored.request != {**request, "encoding": FORMER}:
            raise
        return replayed(stored)


FORMER = BinaryEncoding(LETTERS).spec
"""What requests hold that were stored when letters were the default."""


def checked_population(found: Population, plan: PrefixPlan) -> Population:
    """Raise SourceError if the source has lost users since they were counted."""
    if found.devices < plan.devices:
        raise SourceError("the source changed while it was read: call again.")
    return found


def _shown(line: str, end: str = "") -> None:
    """What is asked, on stderr, if that is a terminal."""
    if sys.stderr.isatty():
        print(f"\r{line:<78}", end=end, file=sys.stderr, flush=True)


def explain_prefix_tree(
    column: str, *, devices: int | None = None, **arguments: Any
) -> Explanation:
    """What :func:`prefix_tree` with these arguments would do. Spends nothing and reads no data.

    ``devices`` is the number of users to plan for; the other arguments are those of
    :func:`prefix_tree`.

    Examples
    --------
    >>> import dpframe as dp
    >>> plan = dp.explain_prefix_tree(
    ...     "word", user="who", devices=1_600_000, epsilon=1.0, delta=1e-6).plan
    >>> plan.local_epsilon, plan.asked.reports
    (10.71, 4)
    """
    given = {"user": None, "epsilon": None, "delta": None, **DEFAULTS}
    check_known("explain_prefix_tree", arguments, ("column", *given))
    given |= arguments
    return Explanation(declared_plan(prefix_asked(column, **{**given, "devices": devices})))


def declared_plan(asked: PrefixAsked) -> PrefixPlan:
    """The plan for the number of devices that the caller declares; no data are read for it."""
    if asked.declared is None:
        raise ParameterError(
            "devices is missing: the noise depends on the number of users, pass devices=, for "
            "example 100000."
        )
    return make_prefix_plan(asked, asked.declared)
