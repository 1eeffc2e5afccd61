"""``dp.tree_counts``: arguments, the private step, and one function for every source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpframe.asking.answer import answer_call
from dpframe.asking.call_arguments import (
    DELTA,
    DELTA_ADVICE,
    CallArguments,
    Constraint,
    budget_amount,
    choice,
    column_name,
    level_numbers,
    optional_whole,
)
from dpframe.asking.level_plan import (
    MechanismInput,
    RemoteSource,
    nodes_unit_from,
    with_contribution_bound,
)
from dpframe.asking.question import Question, make_explain
from dpframe.budget import LARGEST_WEIGHT, Budget, PrivacyUnit, as_float
from dpframe.common.calls import known_arguments
from dpframe.counts import ListedNodes
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.questions.hhh.ask import nodes_of_users
from dpframe.questions.hhh.rounds_plan import RoundsPlan, rounds_plan
from dpframe.questions.tree_counts.base_tree_plan import TreePlan
from dpframe.questions.tree_counts.plan import (
    ADDITIVE,
    GOES_WITH,
    TREE_MECHANISMS,
    make_tree_plan,
    needed_delta,
)
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.keys import listed_nodes
from dpframe.sources.source_relations import only_text

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period

CONSTRAINTS: Mapping[str, Constraint] = {
    "mechanism": choice(TREE_MECHANISMS),
    "threshold": optional_whole(1, 2**53),
}


def tree_plan(given: CallArguments) -> TreePlan[Any] | RoundsPlan:
    """A plan from arguments that ``CONSTRAINTS`` checked; of rounds for different users at nodes
    that nobody lists."""
    levels, kind = given.hierarchy, given["mechanism"]
    given.goes(GOES_WITH, kind)
    by_items = given["contribution"] == "items" and given["user"] is not None
    if by_items and given["keys"] is None and kind in ADDITIVE:
        return _rounds_of_tree(given)
    return make_tree_plan(
        hierarchy=levels,
        unit=_tree_unit(given),
        budget=Budget(epsilon=given["epsilon"], delta=_tree_delta(given["delta"], given["keys"])),
        mechanism=kind,
        listed=_listed_tree_nodes(given["keys"], levels),
        level_weights=level_numbers("level_weights", given["level_weights"], levels),
        threshold=given["threshold"],
        consistent=given["consistent"],
        confidence=given["confidence"],
        alpha=given["alpha"],
        largest=given["largest"],
    )


def _rounds_of_tree(given: CallArguments) -> RoundsPlan:
    for name, default in (("mechanism", "additive"), ("level_weights", None)):
        if given[name] != default:
            raise ParameterError(
                f"{name} ({given[name]!r}) does not go with contribution='items' without keys, "
                f"which finds nodes by rounds. Leave {name} out."
            )
    return rounds_plan(given.but(delta=needed_delta(_tree_delta(given["delta"], None))))


def _listed_tree_nodes(keys: object, hierarchy: Hierarchy) -> ListedNodes | None:
    if keys is None or isinstance(keys, ListedNodes):
        return keys
    return listed_nodes(keys, hierarchy)


def _tree_delta(delta: object, keys: object) -> float:
    """Delta, 0 for a pure release. Without keys the plan refuses 0 and says what to do."""
    if delta is None or as_float(delta) == 0:
        return 0.0
    return budget_amount(
        "delta", delta, *DELTA, DELTA_ADVICE if keys is None else f"{DELTA_ADVICE}, or left out"
    )


def _tree_unit(given: CallArguments) -> PrivacyUnit:
    user, weight, max_weight = given["user"], given["weight"], given["max_weight"]
    if (by_nodes := nodes_unit_from(given, exact=given["mechanism"] in ADDITIVE)) is not None:
        return by_nodes
    if weight is None:
        if max_weight is not None:
            raise ParameterError(
                f"max_weight ({max_weight!r}) needs weight=. Name the column that says for how "
                "many records a row stands, or leave max_weight out."
            )
        refused = given["contribution"] == "items" and user is not None
        return with_contribution_bound(given).unit if refused else given.unit
    weight = column_name("weight", weight)
    if user is not None:
        # a row stands either for several records or for a part of a user
        raise ParameterError(f"weight ({weight!r}) excludes user ({user!r}). Leave one out.")
    given.unit  # noqa: B018  # what needs user= is refused
    bound = optional_whole(1, LARGEST_WEIGHT)("max_weight", max_weight)
    return PrivacyUnit(weight=weight, max_weight=bound)


def fit_tree_plan(plan: Any, source: object) -> Any:
    """Complete the plan by a fact of the source: whether all its columns are text, so that weights
    are read from texts."""
    if plan.mechanism == "rounds":
        return plan
    if isinstance(source, RemoteSource):
        return replace(plan, text_weights=source.weights_are_text)
    return replace(plan, text_weights=only_text(source))


def tree_rollup_plan(plan: Any) -> TreePlan[Any] | None:
    """The plan if it can start from the counts of a tree; None for counts of different users, which
    do not add up."""
    return None if columns(plan) else plan


def columns(plan: TreePlan[Any] | RoundsPlan) -> Sequence[str] | None:
    """The columns that the count reads from rows, if it counts different users; else None."""
    unit = plan.unit
    if unit.nodes is None and plan.mechanism != "rounds":
        return None
    return list(dict.fromkeys([*plan.hierarchy.source_columns, str(unit.user)]))


def count(source: object, plan: Any, progress: bool) -> MechanismInput[Any]:
    """True counts of the nodes that can be shown, or users and their nodes."""
    if plan.mechanism == "rounds":
        return nodes_of_users(source, plan, progress)
    if plan.unit.nodes is not None:
        from dpframe.sources.exact_trees import node_users

        users = node_users(
            source, plan.hierarchy, plan.unit, plan.band, listed=plan.listed_keys, progress=progress
        )
        return MechanismInput(users, users.types)
    counts = exact_counts(
        source, plan.hierarchy, plan.unit, plan.band, listed=plan.listed_keys, progress=progress
    )
    return MechanismInput(counts.axes[0], counts.types)


@known_arguments
def tree_counts(
    source: object = None,
    hierarchy: str | Sequence[str] | Hierarchy | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    keys: object = None,
    user: str | None = None,
    contribution: str | None = None,
    max_contributions: int | None = None,
    weight: str | None = None,
    max_weight: int | None = None,
    mechanism: str = "additive",
    level_weights: Sequence[float] | None = None,
    threshold: int | None = None,
    consistent: bool = True,
    confidence: float = 0.95,
    alpha: float | None = None,
    largest: int | None = None,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
    candidates: object = None,
    plan: object = None,
    at_most: int | None = None,
) -> pd.DataFrame:
    """Counts of all nodes of a hierarchy, differentially private, that add up.

    Parameters
    ----------
    source, hierarchy
        As for :func:`hhh`.
    epsilon
        1e-4 to 50. No default.
    delta
        1e-12 to 0.1. Needed unless ``keys`` are listed; with keys and without delta the release is
        pure (delta = 0).
    keys
        The keys whose counts are wanted, known publicly: a list of values of the column (of tuples
        for several columns), a frame with the columns of the hierarchy, or "domain" for all values
        that a number or a coarse IP hierarchy can have. Every key is released, empty keys too, and
        so are their ancestors; what no key covers is in ``<other>`` rows. By default keys are found
        in the data: a node is shown if its noisy count reaches a threshold, or a node below it is
        shown. Keys must not come from the data.
    user, contribution, max_contributions
        As for :func:`hhh` ("share" or "records"). "items": how many different users each node has;
        these counts do not add up. Without ``keys`` rounds find the nodes, as for :func:`hhh`.
    weight
        Column of whole numbers: how many records a row stands for. Floating-point numbers are
        refused: round them to whole units first. Missing and negative numbers count 0, and so does
        text of a CSV file that is no whole number. Without ``max_weight`` one of these records is
        protected, and a row counts as at most 1e9 records.
    max_weight
        The most records that a row stands for (1 to 1e9; larger weights are cut). Whole rows are
        then protected.
    mechanism
        "additive" (default): a noisy histogram for each level, by "laplace" or "gaussian",
        whichever has less noise on its noisiest level. "hhh": heavy hitters (:func:`hhh`), added
        up. "relative": an error relative to the count (docs/tree_counts.md).
    level_weights
        How the budget is divided: one positive number for each level, level 0 first. By default the
        division with the smallest largest error.
    threshold
        Noisy count from which a node is shown; with "hhh", residual count from which a node is
        reported. By default the smallest private threshold. Not with ``keys`` or "relative".
    consistent
        True (default): counts are whole and not negative, and every node is the sum of its children
        and an ``<other>`` row. False: counts as they were drawn; they may be negative, and are
        unbiased before anything is hidden.
    confidence
        Confidence of the intervals, 0.5 to 0.999999.
    alpha, largest
        With "relative": the accepted relative error, 0.01 to 0.99, and the largest number of
        records that the data could have.
    period
        Only the records of a period, such as ``("when", "2026-W47")``; as for :func:`hhh`.
    ledger, release, data, progress
        As for :func:`hhh`.
    candidates, plan
        Instead of everything else: the result of a statement of :func:`tree_rollup_sql`, and its
        plan.
    at_most
        With ``contribution="items"`` and ``keys``: nodes of a level that a user counts at, 1 to
        1000; 16 by default. A user with more nodes counts at a uniform sample of them. Noise grows
        with the square root of ``at_most``. Without ``keys`` as for rounds of :func:`hhh`.

    Returns
    -------
    pandas.DataFrame
        ``level`` (int64, 0 = everything), ``prefix`` (label), for ``columns`` hierarchies one
        column a level, in the type of the source, ``residual`` (what no row below covers),
        ``count``, ``lower`` and ``upper`` (int64; interval for the true count, given what is
        shown). Sorted by level and value, ``<invalid>`` and ``<other>`` after their siblings
        (docs/sql.md, "Order and types"). The receipt is in ``attrs["dp"]`` and
        ``result.dp.receipt``.

    Raises
    ------
    ParameterError, ParameterTypeError, SourceError, LedgerError
        As :func:`hhh`.

    Privacy
    -------
    (epsilon, delta)-differential privacy for adding or removing one record, or one user with all
    their records, or one row of at most ``max_weight`` records. Assumed public: every argument,
    the keys too. Adjusting counts is post-processing.

    References
    ----------
    Ghazi, Kamath, Kumar, Manurangsi, Wu, "On Differentially Private Counting on Trees" (ICALP
    2023), Corollary 15, Algorithms 1 and 2. Bun, Nissim, Stemmer, "Simultaneous Private Learning of
    Multiple Concepts" (2019), for unknown keys. Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy
    of Differentially Private Histograms Through Consistency" (2010), for adding up.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> trips = pd.DataFrame({"origin": ["JFK"] * 600 + ["LGA"] * 400})
    >>> result = dp.tree_counts(trips, ["origin"], epsilon=1.0, keys=["JFK", "LGA", "EWR"])
    >>> result["prefix"].tolist()
    ['*', 'EWR', 'JFK', 'LGA', '<other>']
    >>> bool(result["count"][0] == result["count"][1:].sum())
    True
    """
    return answer_call(
        TREE_COUNTS,
        source,
        hierarchy=hierarchy,
        epsilon=epsilon,
        delta=delta,
        keys=keys,
        user=user,
        contribution=contribution,
        max_contributions=max_contributions,
        weight=weight,
        max_weight=max_weight,
        mechanism=mechanism,
        level_weights=level_weights,
        threshold=threshold,
        consistent=consistent,
        confidence=confidence,
        alpha=alpha,
        largest=largest,
        period=period,
        ledger=ledger,
        release=release,
        data=data,
        progress=progress,
        candidates=candidates,
        plan=plan,
        at_most=at_most,
    ).to_frame()


TREE_COUNTS = Question(
    ask=tree_counts,
    planned=tree_plan,
    constraints=CONSTRAINTS,
    fitted=fit_tree_plan,
    count=count,
    rollup="tree_rollup_sql",
    rolled_up=tree_rollup_plan,
    columns=columns,
)

explain_tree_counts = make_explain(
    "explain_tree_counts",
    TREE_COUNTS,
    tree_counts,
    """>>> import dpframe as dp
>>> plan = dp.explain_tree_counts(["country", "city"], epsilon=1.0, delta=1e-6).plan
>>> plan.hierarchy.level_names, max(plan.thresholds) < 50
(('country', 'city'), True)""",
)
