"""``dp.rollup``: arguments, the private step, and one function for every source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpframe.asking.answer import answer_call
from dpframe.asking.call_arguments import (
    DELTA,
    DELTA_ADVICE,
    CallArguments,
    budget_amount,
    column_name,
    known_choice,
    level_numbers,
    optional_number,
    optional_whole,
)
from dpframe.asking.level_plan import MechanismInput
from dpframe.asking.measure_texts import measures_from
from dpframe.asking.question import Question, make_explain
from dpframe.budget import AT_MOST, Budget, ItemsUnit, PrivacyUnit, as_float
from dpframe.common.calls import known_arguments, shown_value
from dpframe.counts import ListedCells, ListedNodes
from dpframe.errors import BudgetError, ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, as_hierarchies
from dpframe.measures.measure import AUTO, Measure
from dpframe.mechanisms.rollup import Measurable
from dpframe.postprocess.strategy import Importance
from dpframe.questions.rollup.plan import RollupPlan, make_rollup_plan
from dpframe.questions.rollup.rollup_numbers import RollupRequest
from dpframe.questions.rollup.rounds import RoundsSelection, by_rounds, rounds_unit
from dpframe.sources.exact_trees import check_readable
from dpframe.sources.frames import is_spark, require_columns
from dpframe.sources.keys import listed_keys
from dpframe.sources.rollup_parts import (
    check_value_columns,
    column_types,
    measure_parts,
    user_parts,
)
from dpframe.sources.source_relations import canonical, collect_lazy, only_text

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period

NODE_COLUMNS = ("level", "prefix")


def rollup_plan(given: CallArguments) -> RollupPlan:
    """A plan from arguments that the question checked one by one.

    Where the budget has no noise for rounds, and nobody asked for them, shares select.
    """
    asked = rollup_request(given)
    try:
        return make_rollup_plan(asked)
    except BudgetError:
        if not (asked.usual and asked.by_rounds):
            raise
        return make_rollup_plan(_take_shares(asked, "no noise of rounds keeps this budget"))


def _take_shares(asked: RollupRequest, why: str) -> RollupRequest:
    return replace(asked, unit=PrivacyUnit(user=asked.unit.user), why_shares=why)


def _plan_by_shares(plan: RollupPlan, why: str) -> RollupPlan:
    """The plan of shares in the place of rounds that nobody asked for; any other plan as it is."""
    if not (plan.asked.usual and plan.asked.by_rounds):
        return plan
    return make_rollup_plan(_take_shares(plan.asked, why))


def rollup_request(given: CallArguments) -> RollupRequest:
    """Check the arguments, and return the request."""
    hierarchy = as_hierarchies(given["by"], "by")
    user = None if given["user"] is None else column_name("user", given["user"])
    way = given["contribution"]
    if way is not None and known_choice("contribution", way, CONTRIBUTIONS) and user is None:
        raise ParameterError(
            f"contribution={way!r} needs user=. Name the column that identifies a person, or "
            "leave contribution out."
        )
    keys = given["keys"]
    known = keys is None or isinstance(keys, ListedNodes | ListedCells)
    listed = keys if known else listed_keys(keys, hierarchy)
    if listed is not None:
        _refuse_selection_arguments(given)
    measures = _rollup_measures(given["measures"], hierarchy, user)
    if isinstance(listed, ListedCells):
        _refuse_uncounted_measures(measures)
    heavy = None if given["heavy"] is None else _selecting_measure(given["heavy"], measures)
    unit, against = PrivacyUnit(user=user), _need_of_shares(given, hierarchy, listed, measures)
    if user is not None and way != "share" and not against:
        unit = rounds_unit(user, hierarchy.height)
        counts = [name for name, m in measures.items() if m.kind == "count" and by_rounds(m)]
        if len(counts) > 1:
            raise ParameterError(
                f"measures {counts[0]!r} and {counts[1]!r} both count users. Leave one out."
            )
    importance = _level_importance(given["level_importance"], hierarchy, unit)
    return RollupRequest(
        hierarchy=hierarchy,
        measures=measures,
        unit=unit,
        usual=way in (None, "auto"),
        why_shares=f"rounds do not go with {against}" if user is not None and against else "",
        budget=Budget(epsilon=given["epsilon"], delta=_rollup_delta(given["delta"], listed)),
        threshold=(optional_whole(1, 2**53) if heavy is None else optional_number(0, 1e300))(
            "threshold", given["threshold"]
        ),
        heavy=heavy,
        listed=listed,
        selection_share=given["selection_share"],
        confidence=given["confidence"],
        level_importance=importance,
    )


def _level_importance(value: object, hierarchy: Hierarchy, unit: PrivacyUnit) -> Importance:
    """Return how important each level is; nothing if the caller did not say."""
    if value is None:
        return ()
    if hierarchy.has_cells:
        raise ParameterError(
            "level_importance does not go with several hierarchies, whose rows are no levels. "
            "Leave it out."
        )
    if isinstance(unit, ItemsUnit):
        raise ParameterError(
            "level_importance does not go with rounds, which measure every node on its own. Pass "
            "contribution='share' or keys, or leave level_importance out."
        )
    if isinstance(value, str):
        if value != "even":
            example = f"{{{hierarchy.level_names[0]!r}: 1}}"
            raise ParameterError(
                f"level_importance ({value!r}) must be 'even', or numbers of levels such as "
                f"{example}."
            )
        return "even"
    return level_numbers("level_importance", value, hierarchy, by_name=True) or ()


CONTRIBUTIONS = ("auto", "share", "items")

SHARES_ONLY = ("threshold", "heavy")
"""Arguments that only go with shares."""


def _need_of_shares(
    given: CallArguments,
    hierarchy: Hierarchy,
    listed: ListedNodes | ListedCells | None,
    measures: Mapping[str, Measure],
) -> str:
    """Return what in a call needs shares, empty if nothing does; ParameterError with "items".

    Measures that rounds do not take along are of parts that add up; parts of cells are segments,
    and next to numbers of whole cells they would be read as whole, too.
    """
    names = [name for name in SHARES_ONLY if given[name] is not None]
    names += ["keys"] * (listed is not None)
    if hierarchy.has_cells and listed is None:
        names += [f"{m.spec} of cells" for m in measures.values() if not by_rounds(m)]
    if given["contribution"] == "items" and names:
        raise ParameterError(
            f"contribution='items' does not go with {names[0]}. Leave one of them out, or pass "
            "contribution='share'."
        )
    return names[0] if names else ""


def _refuse_uncounted_measures(measures: Mapping[str, Measure]) -> None:
    """Refuse the measures that have no numbers for listed cells."""
    for name, measure in measures.items():
        if measure.kind == "distinct" or measure.is_binned:
            raise ParameterError(
                f"measure {name!r} does not add up over listed cells. Take counts, sums and means."
            )


def _refuse_selection_arguments(given: CallArguments) -> None:
    """Refuse the arguments of a selection, because listed keys are all shown."""
    for name in ("threshold", "selection_share", "heavy"):
        if given[name] is not None:
            raise ParameterError(
                f"{name} ({given[name]!r}) does not go with keys, which are all shown. "
                f"Leave {name} or keys out."
            )


def _rollup_delta(delta: object, listed: ListedNodes | ListedCells | None) -> float:
    """Delta: 0 with listed keys, whatever is passed, else above 0, because it is private which keys
    occur."""
    nothing = delta is None or as_float(delta) == 0
    if isinstance(listed, ListedCells):
        return 0.0 if nothing else budget_amount("delta", delta, *DELTA, DELTA_ADVICE)
    if listed is not None:
        if not nothing:
            budget_amount("delta", delta, *DELTA, DELTA_ADVICE)
        return 0.0
    if nothing:
        raise BudgetError(
            "delta is missing, and showing unknown keys needs delta > 0. Pass delta, "
            f"{DELTA_ADVICE}, or "
            "list the keys: keys=[...] or keys='domain'."
        )
    return budget_amount("delta", delta, *DELTA, DELTA_ADVICE)


def _rollup_measures(value: object, hierarchy: Hierarchy, user: str | None) -> dict[str, Measure]:
    measures = {name: _with_bound(measure, user) for name, measure in measures_from(value).items()}
    shown = (f"{name}{end}" for name in hierarchy.names for end in ("", "_level"))
    taken = {name.lower() for name in (*NODE_COLUMNS, *hierarchy.label_columns, *shown)}
    for name, measure in measures.items():
        for column in (f"{name}{end}" for end in measure.columns):
            if column.lower() in taken:
                raise ParameterError(
                    f"measure {name!r} would overwrite column {column!r}. Rename the measure."
                )
            taken.add(column.lower())
        _check_measure_user(name, measure, user)
    return measures


def _selecting_measure(value: object, measures: Mapping[str, Measure]) -> str:
    """The name of the measure that selects: a sum from 0 to a known upper bound."""
    if not isinstance(value, str):
        raise ParameterTypeError(f"heavy must name a measure, as text; got {shown_value(value)}.")
    sums = [name for name, m in measures.items() if m.kind == "sum"]
    name = known_choice("heavy", value, sums) if sums else ""
    measure = measures.get(name)
    if measure is None or measure.lower != 0 or measure.needs_search:
        raise ParameterError(
            f"heavy ({value!r}) must name a sum from lower=0 to a known upper bound. For values "
            "below 0 or searched bounds leave heavy out: records, or users, decide then."
        )
    return name


def _with_bound(measure: Measure, user: str | None) -> Measure:
    """The measure, with the usual bound for different values of users where none is named."""
    if measure.kind != "distinct" or user is None or measure.at_most is not None:
        return measure
    return replace(measure, at_most=AT_MOST)


def _check_measure_user(name: str, measure: Measure, user: str | None) -> None:
    if measure.at_most is not None and user is None:
        raise ParameterError(
            f"measure {name!r} has at_most={measure.at_most} without user=. "
            "Pass user=, or leave at_most out."
        )
    if measure.each != "row" and user is None:
        raise ParameterError(
            f"measure {name!r} has each={measure.each!r} without user=. Pass user=, or leave each "
            "out to count the values of rows."
        )
    if measure.is_binned and measure.column == user:
        raise ParameterError(
            f"measure {name!r} is of {user!r}, the column of users, whose values identify them. "
            "Name a column of amounts, times or durations."
        )
    if measure.kind == "sum" and user is not None:
        low, high = (0.0 if b == AUTO else b for b in (measure.lower, measure.upper))
        assert isinstance(low, float)
        assert isinstance(high, float)
        if low > 0 or high < 0:
            raise ParameterError(
                f"measure {name!r} has bounds {low:g} and {high:g}, without 0 between them. "
                "With user= they bound a user's sum: pass lower at most 0 and upper at least 0."
            )


def count(source: object, plan: RollupPlan, progress: bool) -> MechanismInput[Measurable]:
    """True counts and sums. Measures bounded by user are counted later, once parts are known."""
    source = collect_lazy(source, columns(plan))
    read = _check_rollup_values(source, plan)
    chosen = plan.selection
    if isinstance(chosen, RoundsSelection):
        private = user_parts(
            source,
            plan.hierarchy,
            plan.unit,
            chosen.laws.items,
            chosen.shares,
            chosen.columns,
            progress=progress,
        )
        return MechanismInput(private, (*private.counts.types, *read))
    private = measure_parts(
        source,
        plan.hierarchy,
        plan.asked.selection_unit,
        plan.band,
        plan.vectors,
        listed=plan.asked.listed,
        progress=progress,
    )
    return MechanismInput(private, (*private.counts.types, *read))


def columns(plan: RollupPlan) -> list[str]:
    """The columns that the rollup reads from a source."""
    users = [] if plan.unit.user is None else [plan.unit.user]
    named = [m.column for m in plan.asked.measures.values() if m.column is not None]
    return list(dict.fromkeys([*plan.hierarchy.source_columns, *users, *named]))


def check_rollup_source(plan: RollupPlan, source: object) -> None:
    """Raise ColumnError for a column that a source lacks or that cannot be read, and ParameterError
    for ``heavy`` on Spark."""
    check_readable(source, plan.hierarchy, plan.unit)
    _check_rollup_values(source, plan)


def rollup_result_types(plan: RollupPlan, stored: list[tuple[str, str]]) -> tuple[str, ...]:
    """The types of the level columns, and of the columns of values in bins.

    Raises ColumnError for a column that the table lacks or whose type cannot be read.
    """
    from dpframe.sources.sql_tables import check_stored, level_types

    check_stored(plan.hierarchy, plan.unit, stored)
    named = [m for m in plan.asked.measures.values() if m.column is not None]
    require_columns([str(m.column) for m in named], tuple(name for name, _ in stored))
    read = check_value_columns({c: canonical(kind) for c, kind in stored}, named)
    return (*level_types(plan.hierarchy, stored), *read)


def _check_rollup_values(source: object, plan: RollupPlan) -> tuple[str, ...]:
    """Check the columns of measures; return the types of those whose values are put in bins."""
    heavy = plan.asked.heavy
    if heavy is not None and is_spark(source):
        raise ParameterError(
            f"heavy ({heavy!r}) needs whole numbers of 128 bits, which Spark lacks. Leave heavy "
            "out, or pass frame.toArrow(), if it fits into memory."
        )
    named = [m for m in plan.asked.measures.values() if m.column is not None]
    if not named:
        return ()  # a frame without columns is no source
    types = column_types(source, list(dict.fromkeys(str(m.column) for m in named)))
    return check_value_columns(types, named, text=only_text(source))


@known_arguments
def rollup(
    source: object = None,
    by: str | Sequence[str] | Hierarchy | None = None,
    measures: Mapping[str, Measure | str] | Sequence[Measure | str] | str | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    user: str | None = None,
    threshold: float | None = None,
    heavy: str | None = None,
    keys: object = None,
    selection_share: float | None = None,
    confidence: float = 0.95,
    contribution: str | None = None,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
    candidates: object = None,
    plan: object = None,
    level_importance: Mapping[str, float] | Sequence[float] | str | None = None,
) -> pd.DataFrame:
    """Counts, sums and means at every level of a hierarchy, differentially private.

    One selection finds the nodes to show, or the caller lists them. Every measure is then taken on
    parts: the records that have the same finest shown node. So measures add up: a node is the sum
    of its own part and the parts of the shown nodes below it.

    With ``user`` rounds of weights find the nodes (``contribution``). Different users are counted,
    and sums are taken, at every shown node on its own. They do not add up then.

    Parameters
    ----------
    source
        As for :func:`hhh`.
    by
        The hierarchy: ``"ip:src"``, a list of columns from coarse to fine, or an object, as for
        :func:`hhh`. Several hierarchies can be asked at once: rows are then segments of cells,
        which are disjoint and add up to everything.
    measures
        What to measure, by the name of the column in the result: ``"count"``,
        ``dp.sum("amount", lower=0, upper=500)``, ``dp.mean(...)``, ``dp.distinct(...)``,
        ``dp.count(at_most=10)``, or measures as texts, ``"sum(amount, 0, 500)"``.
    epsilon
        1e-4 to 50, for everything together. No default.
    delta
        1e-12 to 0.1; with ``keys`` nothing of it is used or charged, but for counts of records of
        several hierarchies where Gaussian noise is less.
    user
        Column that identifies a person; all rows of one person are protected together. Counts then
        count users. By rounds they are different users; bounds of a sum bound what a user has at
        one node, and the root of the sum of the squares of that over nodes. By shares each user
        weighs 1, divided over their rows, and bounds of sums bound a user's total.
    threshold
        Number of records, or users, in a node's part from which the node is shown, and all nodes
        above it. By default the smallest private threshold.
    heavy
        The name of a measure that decides which nodes are shown, instead of records or users: a sum
        from 0 to an upper bound. ``threshold`` is then in the unit of this measure.
    keys
        The keys to show, known publicly, as for :func:`tree_counts`. Every key is shown, and all
        nodes above it. Nothing is selected then. For several hierarchies of one level each a
        mapping from column to keys, a list of lists, or a frame with these columns: every cell of
        every kind is shown, at most a million, and rows of one kind add up to those of coarser
        kinds; records with other values are in no row.
    selection_share
        Part of epsilon (0.01 to 0.99) for the selection. Default 0.16, by user a third.
        By rounds a half, and of their mu^2 for what is measured along with them.
    confidence
        Confidence of the intervals, 0.5 to 0.999999.
    contribution
        With ``user``: "items" for rounds of weights, "share" for shares of users. "auto", the
        default, takes rounds, and shares where ``keys``, ``threshold``, ``heavy`` or several
        hierarchies need them, or where rounds have no noise for epsilon and delta.
    period
        Only the records of a period, such as ``("when", "2026-W47")``; as for :func:`hhh`.
    ledger, release, data, progress
        As for :func:`hhh`.
    candidates, plan
        Instead of everything else: the result of a statement of :func:`measures_sql`, and its plan.
    level_importance
        How much the squared error of each level counts where the epsilon of a measure is divided
        over levels: ``{"country": 3, "city": 1}``, with "*" for the total, or one number a level,
        level 0 first. Levels that are left out, or have 0, do not count: they can be far off.
        "even" makes the error of the worst level as small as possible. By default all nodes count
        alike, within limits. Not for cells or rounds.

    Returns
    -------
    pandas.DataFrame
        ``level`` (int64, 0 = everything), ``prefix`` (label), for ``columns`` hierarchies one
        column a level, in the type of the source; then for every measure ``NAME``, ``NAME_lower``
        and ``NAME_upper``: int64 for counts and different values, float64 for sums and means.
        Sorted by level and value. The receipt is in ``attrs["dp"]`` and ``result.dp.receipt``.

    Raises
    ------
    ParameterError, ParameterTypeError, SourceError, LedgerError
        As :func:`hhh`.

    Privacy
    -------
    (epsilon, delta)-differential privacy for adding or removing one record, or one user with all
    their records. Assumed public: every argument, names and types of the columns. Values beyond
    bounds are cut, which intervals do not cover.

    References
    ----------
    Biswas, Cormode, Kanza, Srivastava, Zhou, "Differentially Private Hierarchical Heavy Hitters"
    (2024), Algorithm 1, corrected, for the selection. McSherry, "Privacy Integrated Queries"
    (2009), Theorem 4, for the parts. Gopi and others, "Differentially Private Set Union" (2020),
    with later rounds, and Smith, Thakurta, "Fully Adaptive Composition for Gaussian Differential
    Privacy" (2022), for users. Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy of
    Differentially Private Histograms Through Consistency" (2010), for adding up. Xiao, He, Zhang,
    Kifer, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss
    Functions" (2023), for keys of several hierarchies.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> sales = pd.DataFrame({"country": ["FR"] * 600 + ["DE"] * 400, "amount": 10.0})
    >>> measures = {"orders": "count", "revenue": dp.sum("amount", lower=0, upper=500)}
    >>> result = dp.rollup(sales, ["country"], measures, epsilon=1.0, delta=1e-6)
    >>> list(result.columns)[3:6]
    ['orders', 'orders_lower', 'orders_upper']
    """
    return answer_call(
        ROLLUP,
        source,
        by=by,
        measures=measures,
        epsilon=epsilon,
        delta=delta,
        user=user,
        threshold=threshold,
        heavy=heavy,
        keys=keys,
        selection_share=selection_share,
        confidence=confidence,
        contribution=contribution,
        period=period,
        ledger=ledger,
        release=release,
        data=data,
        progress=progress,
        candidates=candidates,
        plan=plan,
        level_importance=level_importance,
    ).to_frame()


def _former_request(plan: RollupPlan) -> Mapping[str, object] | None:
    """The request of the same call in versions that took shares; None if there is no such one."""
    asked = plan.asked
    if not (asked.usual and asked.by_rounds):
        return None
    return _take_shares(asked, "").request


ROLLUP = Question(
    ask=rollup,
    planned=rollup_plan,
    count=count,
    former=_former_request,
    by_shares=_plan_by_shares,
    checked=check_rollup_source,
    rollup="measures_sql",
    rolled_up=lambda _: None,
    result_types=rollup_result_types,
    columns=columns,
)

explain_rollup = make_explain(
    "explain_rollup",
    ROLLUP,
    rollup,
    """>>> import dpframe as dp
>>> plan = dp.explain_rollup(["country"], "count", epsilon=1.0, delta=1e-6).plan
>>> plan.selection.threshold
70""",
)
