"""Every kind of measure is known wherever kinds are read: no place takes one for another."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, get_args

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.measure_texts import (
    MADE,
    TAKES,
    ReleasedKind,
    ReleasedMeasure,
    parse_measure,
    receipt_measures,
)
from dpframe.measures.measure import BINNED, Kind, Measure, VectorKind, vectors_of
from dpframe.questions.rollup.rollup_numbers import BIN_DRAWS
from dpframe.verifier.facts import NOISE_KINDS, MeasureText
from dpframe.verifier.path_game import COUNTED, DRAW_FIELDS, VALUED
from tests.integration import test_measures_elsewhere as elsewhere
from tests.members import some
from tests.privacy import test_rollup_bounding as bounding
from tests.privacy import test_verified_measures as verified

KINDS = set(get_args(Kind))

EXAMPLES: dict[str, tuple[str, str]] = {
    "count": ("count", "count(at_most=3)"),
    "sum": ("sum(x, 0, 9)", "sum(x, -9, 9)"),
    "mean": ("mean(x, 0, 9)", "mean(x, 0, 9)"),
    "distinct": ("distinct(x)", "distinct(x, at_most=5)"),
    "quantile": ("quantile(x, 0.9, 0, 9)", "median(x, 0, 9)"),
    "quantiles": ("quantiles(x, 0, 9, at=[0.25])", "quantiles(x, 0, 9, at=[0.25])"),
    "histogram": ("histogram(x, 0, 9)", "histogram(x, 0, 9, bins=[2, 5])"),
}
"""A measure of each kind, by record and by user."""

FRAME = pd.DataFrame({"a": ["p"] * 400 + ["q"] * 400})
FRAME = FRAME.assign(x=FRAME.index % 7, u=FRAME.index % 300)


def kinds_of(measures: Any) -> set[str]:
    """The kinds among measures, which may be texts."""
    read = (m if isinstance(m, Measure) else parse_measure(m)[1] for m in measures)
    return {measure.kind for measure in read}


def test_every_list_of_kinds_has_every_kind() -> None:
    """Law: the lists of texts, of released measures, and of the tests that try all of them."""
    assert KINDS == {*EXAMPLES} == {*TAKES} - {"median"} == {*MADE} - {"median"}
    assert {*dp.__all__} >= KINDS
    assert {*get_args(ReleasedKind)} == {*KINDS, "clipped"} - {"quantiles"}
    adds_up = KINDS - {"distinct", *BINNED}
    tried = [m for own, _ in verified.ROLLUPS.values() for m in own.values()]
    assert kinds_of(tried) == KINDS
    assert kinds_of(elsewhere.MEASURES.values()) == kinds_of(bounding.MEASURES) == adds_up


def test_the_verifier_and_its_schema_know_every_vector() -> None:
    """Law: what adds up is one of the draws of the game, in the words of receipts."""
    own = {kind for each in VALUED for kind in NOISE_KINDS.get(each, (each,))}
    assert {*COUNTED, *own} == {*get_args(VectorKind), *BIN_DRAWS}
    schema = json.loads(files("dpframe.verifier").joinpath("proof.schema.json").read_text("utf-8"))
    known = [one["properties"]["of"] for one in schema["$defs"]["drawn"]["oneOf"]]
    assert {name for of in known for name in of.get("enum", [of.get("const")])} == {*DRAW_FIELDS}


def check_release(kind: str, user: str | None) -> None:
    """Assert that text, proof, receipt, columns and card of a measure are of its kind."""
    text = EXAMPLES[kind][user is not None]
    assert parse_measure(text)[1].spec == text
    assert MeasureText.read(text).kind == kind
    shown = dp.rollup(FRAME, ["a"], {"m": text}, epsilon=20.0, delta=1e-4, user=user)
    receipt = shown.attrs["dp"]
    assert dp.verify(shown), dp.verify(shown)
    (told,) = receipt_measures(receipt)
    assert (told.kind, told.spec) == ("quantile" if kind == "quantiles" else kind, text)
    columns = [*told.columns]
    in_bins = parse_measure(text)[1].is_binned  # whole numbers of nodes with few values are missing
    whole = ["int64", "Int64"] if in_bins else ["int64"]
    values = told.has_whole_values or told.kind == "quantile"  # of whole numbers
    assert all((str(shown[name].dtype) in whole) == values for name in columns)
    plan = dp.explain_rollup(["a"], {"m": text}, epsilon=20.0, delta=1e-4, user=user).plan
    types = {name: kind == "BIGINT" for name, kind in plan.types.items() if name in columns}
    assert types == dict.fromkeys(columns, told.has_whole_values)  # a plan sees no column
    assert bool(vectors_of(parse_measure(text)[1], by_user=user is not None)) == (
        kind not in ("distinct", *BINNED)
    )
    total, *parts = shown[told.name].tolist()
    near = abs(total - sum(parts)) <= 0.1 * abs(total)
    assert near == (told.adds_up or kind == "histogram")  # which pooled nodes keep from adding up
    value, lower, upper = (shown[name] for name in columns)
    assert (lower <= value).all()
    assert (value <= upper).all()
    assert any("error of m" in str(line) for line in receipt["card"])


@some(
    "count-u", "distinct-None", "histogram-u", "mean-None", "quantile-u", "quantiles-None", "sum-u"
)
@pytest.mark.parametrize("user", [None, "u"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_measure_of_each_kind_is_released_and_proved(kind: str, user: str | None) -> None:
    """Law: a receipt says what is released: the text, the types and whether numbers add up."""
    check_release(kind, user)


@pytest.mark.parametrize(("name", "kind"), [("has_whole_values", "mean"), ("adds_up", "distinct")])
def test_a_kind_that_is_taken_for_another_is_noticed(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: means as whole numbers, different values as what adds up."""
    monkeypatch.setattr(ReleasedMeasure, name, True)
    with pytest.raises(AssertionError):
        check_release(kind, None)
