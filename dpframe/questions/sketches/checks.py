"""Check the arguments of a sketch's release once: name, value, rule, next step."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dpframe.asking.call_arguments import (
    DELTA,
    EPSILON,
    bounded_number,
    budget_amount,
    whole_number,
)
from dpframe.budget import Budget
from dpframe.errors import BudgetError, DpframeError, ParameterError, ParameterTypeError
from dpframe.questions.sketches.plan import SketchPlan, SketchRequest, Structure, sketch_plan
from dpframe.sketches._batches import key_order
from dpframe.sketches._batches import single_column as as_column
from dpframe.sketches._sketch import LARGEST, MergedSketch, Sketch
from dpframe.sketches.misra_gries import MisraGries


def sketch_plan_from(
    sketch: Sketch,
    *,
    epsilon: object,
    delta: object,
    universe: object,
    records: object,
    max_contributions: object,
    confidence: object,
) -> SketchPlan:
    """A plan from unchecked arguments and the public parameters of a sketch."""
    structure = _sketch_structure(sketch)
    checked_epsilon = budget_amount("epsilon", epsilon, *EPSILON, "for example 1.0")
    return sketch_plan(
        SketchRequest(
            structure=structure,
            unit=sketch._unit,
            counters=sketch.counters,
            sketches=sketch.sketches if isinstance(sketch, MergedSketch) else 1,
            max_contributions=_sketch_contributions(max_contributions, sketch._unit),
            budget=Budget(epsilon=checked_epsilon, delta=_sketch_delta(delta, universe)),
            universe=None if universe is None else _universe_keys(universe),
            records=known_records(records, structure, universe),
            confidence=bounded_number("confidence", confidence, 0.5, 0.999999),
        )
    )


def expected_records(value: object) -> int | None:
    """The checked hint of a merge: about how many records there are, a public number, or None."""
    return None if value is None else whole_number("records", value, 0, 2**53)


def _sketch_structure(sketch: Sketch) -> Structure:
    if isinstance(sketch, MergedSketch):
        return sketch.method
    if isinstance(sketch, MisraGries):
        return "standard" if sketch.standard else "variant"
    return "users"


def _sketch_delta(delta: object, universe: object) -> float:
    if universe is None:
        if delta is None:
            raise BudgetError(
                "delta is missing. Pass delta=, well below one over the number of people, or "
                "universe=, a public list of all keys."
            )
        return budget_amount("delta", delta, *DELTA, "well below one over the number of people")
    if delta is not None:
        raise ParameterError(f"delta ({delta!r}) does not go with universe=. Leave one out.")
    return 0.0


def _sketch_contributions(value: object, unit: str) -> int:
    if value is None:
        return 1
    if unit == "user":
        raise ParameterError(
            f"max_contributions ({value!r}) is for sketches of single records. Leave it out: "
            "this sketch counts whole users, with at most max_items items each."
        )
    return whole_number("max_contributions", value, 1, 1_000_000)


def known_records(value: object, structure: Structure, universe: object) -> int | None:
    """The declared upper bound on records, or None. ParameterError where the release tells the
    sketch error."""
    if value is None:
        return None
    if universe is None and structure in ("variant", "standard"):
        raise ParameterError(
            "records is not needed for the sketch of one stream. Leave it out: the released "
            "sketch error gives upper."
        )
    return whole_number("records", value, 0, 2**53)


def _universe_keys(universe: object) -> pa.Array:
    """The public keys, sorted."""
    if isinstance(universe, str | bytes | bytearray | int):
        raise ParameterTypeError(f"universe must be a list of keys; got {type(universe).__name__}.")
    told: DpframeError | None = None
    column = None
    try:
        column = as_column(universe, None)
    except (ParameterError, ParameterTypeError) as error:
        told = type(error)(f"universe does not hold keys: {error}")
    if told is not None:
        raise told
    if column is None:
        raise ParameterError("universe is empty. List the keys that could occur.")
    if len(column) > LARGEST:
        raise ParameterError(f"universe ({len(column)} keys) must hold at most {LARGEST} keys.")
    keys = column.to_arrow()
    if len(keys.unique()) < len(keys):
        raise ParameterError("universe holds a key twice. List each key once.")
    return keys.take(pa.array(key_order(keys).astype(np.int64)))
