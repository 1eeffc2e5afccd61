"""The card lines of a rollup, all known before the data are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dpframe.asking.card import Line, Text, hierarchy_lines
from dpframe.measures import Measure
from dpframe.postprocess.strategy import PARTS, level_strategy
from dpframe.questions.rollup.rollup_numbers import MANY, RollupNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupWords:
    """The words of card lines for what is shown: nodes of one hierarchy, or cells of several."""

    mechanism: str
    nodes: str
    threshold: str
    everywhere: str
    own: str
    pairs: str


NODE_WORDS = RollupWords(
    mechanism="measures on what each shown node has of its own; a node is what is below it and its "
    "own rest",
    nodes="nodes",
    threshold="of its own from which a node is shown, and all nodes above it",
    everywhere="at every node",
    own="one node has of its own",
    pairs="pairs of node and value of a user a level",
)


CELL_WORDS = RollupWords(
    mechanism="measures on the segment of each shown cell: what no cell asked before it has",
    nodes="cells",
    threshold="of its own segment from which a cell is shown",
    everywhere="in every segment",
    own="one segment has",
    pairs="pairs of segment and value of a user",
)


def rollup_lines(plan: RollupNumbers) -> list[Line]:
    """The lines of the plan and of the card, all known before the data are read."""
    words = CELL_WORDS if plan.hierarchy.has_cells else NODE_WORDS
    return [
        plan.guarantee_line,
        Line("mechanism", "rollup", words.mechanism),
        *hierarchy_lines(plan.hierarchy),
        *_selection_lines(plan, words),
        *_level_lines(plan),
        *(
            line
            for name in plan.asked.measures
            for line in _rollup_measure_lines(plan, name, words)
        ),
        plan.delta_line,
    ]


def _selection_lines(plan: RollupNumbers, words: RollupWords) -> list[Line]:
    selection = plan.selection
    if selection is None:
        return [Line("keys", "listed", "every listed node is shown, whatever is below it")]
    what = plan.decides
    share = selection.budget.epsilon / plan.budget.epsilon
    return [
        Line.of(
            "selection",
            selection.budget.epsilon,
            "epsilon that decides which {nodes} are shown, {share:.2g} of all",
            nodes=words.nodes,
            share=share,
        ),
        Line.of(
            "threshold",
            selection.threshold,
            "{counted} {threshold}",
            counted=what,
            threshold=words.threshold,
        ),
        *plan.draws.lines,
    ]


def _level_lines(plan: RollupNumbers) -> list[Line]:
    """The line on measured levels; if nodes are not listed, on when these levels are decided. No
    line for cells, or if no measure adds up."""
    if plan.hierarchy.has_cells or not (plan.paid or plan.searching):
        return []  # each segment of cells is measured, and nothing above it
    if plan.listed_keys is None:
        told = "by what is shown: what each node has of its own, and upper levels where that pays"
        return [Line("measured", "decided when nodes are shown", told)]
    by_user = plan.unit.user is not None
    weights = level_strategy(plan.listed_keys.level, plan.listed_keys.parent, by_user=by_user)
    return [measured_line(weights)]


def measured_line(weights: Mapping[int, Fraction]) -> Line:
    """The line that says which levels are measured, and with which part of a measure's epsilon."""
    parts = [f"{float(weights[PARTS]):.3g} on what each node has of its own"]
    parts += [f"{float(w):.3g} on level {at}" for at, w in sorted(weights.items()) if at != PARTS]
    return Line(
        "measured",
        ", ".join(parts),
        "of the epsilon of each measure that adds up; made consistent by least squares",
    )


def _rollup_measure_lines(plan: RollupNumbers, name: str, words: RollupWords) -> list[Line]:
    """The lines on one measure: what it is, what it costs, and its expected error."""
    measure = plan.asked.measures[name]
    epsilon = float(plan.epsilon_of(name))
    drawn = f"; read from what {plan.read[name].of} draws for both" if name in plan.read else ""
    said = [
        Line.of(
            "{name}",
            measure.spec,
            "epsilon {epsilon:.4g}; {counts}{drawn}",
            epsilon=epsilon,
            counts=_measure_text(measure, plan, words),
            drawn=drawn,
            name=name,
        )
    ]
    error = plan.errors.get(name)
    if measure.needs_search:
        said.append(
            Line.of(
                "error of {name}",
                "not known yet",
                "bounds are found first, privately; the receipt says which",
                name=name,
            )
        )
    elif error is not None:
        confidence = f"with confidence {plan.confidence:g}"
        of = "{everywhere}" if name in plan.counts else "of what {own}"
        if measure.kind == "mean":
            of = "over {many} values that {own}, at most"
        said.append(
            Line.of(
                "error of {name}",
                Text("+-{error:.4g} {confidence}"),
                of,
                name=name,
                error=error,
                everywhere=words.everywhere,
                own=words.own,
                many=MANY,
                confidence=confidence,
            )
        )
    if measure.lower is not None:
        said.append(
            Line.of(
                "bounds of {name}",
                _measure_bounds_text(measure),
                _clipping_text(measure, plan),
                name=name,
            )
        )
    return said


def _measure_bounds_text(measure: Measure) -> str:
    ends = (measure.lower, measure.upper)
    return " to ".join(
        end if isinstance(end, str) else f"{end:g}" for end in ends if end is not None
    )


def _clipping_text(measure: Measure, plan: RollupNumbers) -> str:
    whose = "one value"
    if plan.unit.user is not None and measure.kind == "sum":
        whose = "everything that one user adds up to"
    return f"of {whose}; what is beyond is cut, a bias that no interval covers"


def _measure_text(measure: Measure, plan: RollupNumbers, words: RollupWords) -> str:
    """What a measure counts or adds up."""
    by_user = plan.unit.user is not None
    if measure.kind == "count":
        if not by_user:
            return "counts records"
        if measure.at_most is None:
            return "counts users, each weighing 1 in total, divided evenly over their records"
        return f"counts records, at most {measure.at_most} of each user"
    if measure.kind == "distinct":
        of = f", at most {measure.at_most} {words.pairs}"
        return f"different values {words.everywhere}{of if by_user else ''}; they do not add up"
    if measure.kind == "mean":
        each = ", in which every user weighs 1" if by_user else ""
        return f"mean of the values that are not NULL{each}"
    if measure.kind == "sum":
        return "adds up"
    assert_never(measure.kind)
