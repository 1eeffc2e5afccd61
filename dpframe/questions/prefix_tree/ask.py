"""``dp.prefix_tree``: heavy hitters of devices, one function for every source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

from dpframe.accounting.aggregate import FEWEST, Neighbours
from dpframe.asking.answer import answer_call
from dpframe.asking.call_arguments import (
    CallArguments,
    Constraint,
    bounded_number,
    choice,
    column_name,
    delta_amount,
    known_choice,
    optional_whole,
    whole_number,
)
from dpframe.asking.level_plan import MechanismInput
from dpframe.asking.question import Question, make_explain
from dpframe.common.calls import known_arguments
from dpframe.common.digest import RECEIPT, seal_frame
from dpframe.common.progress import rename_step
from dpframe.errors import ParameterError, ParameterTypeError, SourceError
from dpframe.federated import Population, Segments
from dpframe.federated.encoding import (
    CHARACTERS,
    LETTERS,
    BinaryEncoding,
    Encoding,
    HuffmanEncoding,
    checked_items,
)
from dpframe.mechanisms.prefix_tree import Search
from dpframe.questions.prefix_tree.plan import (
    PREFIX_MECHANISMS,
    Accountant,
    PrefixPlan,
    PrefixRequest,
    discard_progress,
)
from dpframe.sources.codes import count_devices, population
from dpframe.sources.sql_tables import check_stored

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period

LONGEST_ITEM = 4096
"""The most bits of an item."""

LARGEST_LIMIT = 2**28
"""The most cells of an iteration: 1 GiB of sums."""


CONSTRAINTS: Mapping[str, Constraint] = {
    "mechanism": choice(PREFIX_MECHANISMS),
    "neighbours": choice(("replace", "remove")),
    "accountant": choice(("aggregate", "shuffle")),
    "selection": choice(("unweighted", "weighted")),
    "participation": partial(bounded_number, low=0.001, high=1.0),
    "false_positives": partial(bounded_number, low=0.001, high=10.0),
    "rounds": partial(whole_number, low=1, high=20),
    "length": partial(whole_number, low=1, high=LONGEST_ITEM),
    "limit": partial(whole_number, low=2, high=LARGEST_LIMIT),
    "delta": delta_amount,
}


def prefix_request(given: CallArguments) -> PrefixRequest:
    """Check the arguments, and return the request."""
    kind = given["mechanism"]
    near: Neighbours = given["neighbours"]
    book: Accountant = given["accountant"]
    if book == "shuffle" and (near != "replace" or kind != "reports"):
        raise ParameterError(
            "accountant='shuffle' needs neighbours='replace' and mechanism='reports'. Leave "
            "accountant out."
        )
    part = given["participation"]
    if part < 1 and kind != "reports":
        # central noise claims nothing for sampling
        raise ParameterError(
            f"participation ({part:g}) is for mechanism='reports'. Leave participation out."
        )
    deny = given["deny"]
    return PrefixRequest(
        hierarchy=given.column,
        user=_device_user(given["user"]),
        budget=given.budget,
        search=Search(
            encoding=encoding_from(given["encoding"], given["alphabet"], given["public"]),
            segments=_item_segments(given),
            rounds=given["rounds"],
            false_positives=given["false_positives"],
            weighted=given["selection"] == "weighted",
            conditioned=given["conditioned"],
            deny=() if deny is None else tuple(sorted(set(checked_items("deny", deny)))),
            taking_part=part,
            confidence=given["confidence"],
        ),
        mechanism=kind,
        accountant=book,
        neighbours=near,
        declared=optional_whole(FEWEST if kind == "reports" else 1, 10**10)(
            "devices", given["devices"]
        ),
    )


def encoding_from(encoding: object, alphabet: object, public: object) -> Encoding:
    """The encoding: the caller's object, or made from the caller's name, alphabet and public
    items."""
    if isinstance(encoding, Encoding):
        if alphabet is not None or public is not None:
            raise ParameterError(
                "alphabet and public are part of an encoding. Pass them to BinaryEncoding or "
                "HuffmanEncoding, or name the encoding."
            )
        return encoding
    kind = known_choice("encoding", encoding, ("binary", "huffman"))
    letters: Any = CHARACTERS if alphabet is None else alphabet
    if kind == "huffman":
        if public is None:
            raise ParameterError(
                "encoding='huffman' needs public=, to fit the code. Pass a list of public items, "
                "never the private data."
            )
        return HuffmanEncoding(checked_items("public", public), letters)
    if public is not None:
        raise ParameterError("public goes with encoding='huffman'. Leave it out for 'binary'.")
    return BinaryEncoding(letters)


def _device_user(user: object) -> str:
    if user is None:
        raise ParameterError("user is missing. Name the column that identifies a person.")
    return column_name("user", user)


def _item_segments(given: CallArguments) -> Segments:
    segments = given["segments"]
    bits, cells = given["length"], given["limit"]
    if isinstance(segments, str):
        kind = known_choice("segments", segments, ("adaptive", "even"))
        times = whole_number("iterations", given["iterations"], 1, min(bits, 100))
        make = Segments.adaptive if kind == "adaptive" else Segments.even
        return make(length=bits, iterations=times, limit=cells)
    if not isinstance(segments, Sequence) or isinstance(segments, bytes) or not segments:
        raise ParameterTypeError(
            f"segments must be 'adaptive', 'even' or a list; got {type(segments).__name__}."
        )
    for part in segments:
        if isinstance(part, bool) or not isinstance(part, Integral):
            raise ParameterTypeError(f"segments must be whole numbers of bits; one is {part!r}.")
    return Segments.of(tuple(int(part) for part in segments), length=bits, limit=cells)


def opens(asked: PrefixRequest) -> list[str]:
    """The columns of the source, which is opened once: to count users, then to read their items."""
    return [*asked.hierarchy.source_columns, asked.user]


def source_prefix_plan(asked: PrefixRequest, source: object, progress: bool) -> PrefixPlan:
    """The plan for the users of a source, whose number is public."""
    users = count_devices(source, asked.hierarchy, asked.user)
    return replace(
        PrefixPlan.for_devices(asked, users), say=rename_step if progress else discard_progress
    )


def declared_prefix_plan(asked: PrefixRequest) -> PrefixPlan:
    """The plan for the number of devices that the caller declares; no data are read for it."""
    if asked.declared is None:
        raise ParameterError(
            "devices is missing. Pass the number of users, for example devices=100000."
        )
    return PrefixPlan.for_devices(asked, asked.declared)


def count(source: object, plan: PrefixPlan, progress: bool) -> MechanismInput[Population]:
    """The devices of a source and their items."""
    search = plan.asked.search
    found = population(
        source,
        plan.hierarchy,
        plan.asked.user,
        search.encoding,
        search.segments.length,
        progress=progress,
    )
    return MechanismInput(checked_population(found, plan))


def item_types(asked: PrefixRequest, columns: list[tuple[str, str]]) -> tuple[str, ...]:
    """No types: devices send texts. Raises ColumnError for columns that cannot be read."""
    check_stored(asked.hierarchy, asked.unit, columns)
    return ()


def checked_population(found: Population, plan: PrefixPlan) -> Population:
    """The population; SourceError if the source has lost users since they were counted."""
    if found.devices < plan.devices:
        raise SourceError("the source changed while it was read. Call again.")
    return found


FORMER = BinaryEncoding(LETTERS).spec
"""The encoding in requests that were stored when ``LETTERS`` was the default alphabet."""


def former_prefix_request(asked: PrefixRequest) -> Mapping[str, object] | None:
    """The request under the earlier default alphabet; None if the call chose another encoding."""
    if asked.search.encoding.spec != BinaryEncoding().spec:
        return None
    return {**asked.request, "encoding": FORMER}


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
...     "word", user="who", devices=20_000, epsilon=1.0, delta=1e-6).plan
>>> plan.local_epsilon, plan.asked.reports
(6.311, 4)""",
)
