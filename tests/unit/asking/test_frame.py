"""What a result looks like, what it carries, and how wide its intervals are."""

from __future__ import annotations

import html
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.release import Release
from dpframe.noise import NoiseTable, gaussian_table, laplace_table
from dpframe.postprocess.joint_noise import half_width
from dpframe.postprocess.level_values import TEXT
from dpframe.questions.hhh.ask import HHH
from dpframe.testing import seeded_noise
from tests.members import some
from tests.releases import release

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
CITIES = ["Paris"] * 300 + ["Lyon"] * 100 + ["Paris"] * 800 + [f"c{i}" for i in range(400)]
COUNTRIES = ["France"] * 400 + ["Texas"] * 400 + [None] * 400 + ["Chile"] * 400
SALES = pd.DataFrame({"country": COUNTRIES, "city": CITIES, "who": np.arange(1600)})


def released(
    source: object = SALES, hierarchy: Any = ("country", "city"), **arguments: Any
) -> Release:
    asked = {"hierarchy": hierarchy, **BUDGET, **arguments}
    return release(source, HHH.plan(asked))


def result(**arguments: Any) -> pd.DataFrame:
    with seeded_noise(7):
        return released(**arguments).to_frame()


@some("True-offline", "True-gaussian", "False-gaussian")
@pytest.mark.parametrize("mechanism", ["offline", "laplace", "gaussian"])
@pytest.mark.parametrize("remainder", [True, False])
def test_columns_and_types_never_change(mechanism: str, remainder: bool) -> None:
    found = result(mechanism=mechanism, remainder=remainder)
    columns = "level prefix country city residual count lower upper"
    assert list(found.columns) == columns.split()
    kinds = ["int64", TEXT, TEXT, TEXT, "int64", "int64", "int64", "int64"]
    assert [str(t) for t in found.dtypes] == kinds
    assert isinstance(found.index, pd.RangeIndex)
    assert (0 in found["level"].to_list()) is remainder


def test_labels_and_level_columns_agree() -> None:
    """A missing value reads <invalid> and stands behind its siblings."""
    found = result()
    for row in found[found["level"] > 0].to_dict("records"):
        cells = [row["country"], row["city"]]
        assert " / ".join(cells[: row["level"]]) == row["prefix"]
        assert all(pd.isna(cell) for cell in cells[row["level"] :])
    rows = list(zip(found["level"], found["prefix"], strict=True))
    assert rows == sorted(rows, key=lambda row: (row[0], row[1].replace("<invalid>", "~")))
    assert "<invalid> / Paris" in set(found["prefix"])
    assert found.loc[0, ["country", "city"]].isna().all()


def test_intervals_hold_their_counts() -> None:
    """lower <= count <= upper, as wide for a sum of more released residuals."""
    by_shares = {"user": "who", "contribution": "share"}
    for arguments in ({}, {"user": "who"}, by_shares, {"mechanism": "laplace"}):
        found = result(**arguments)
        assert ((found["lower"] <= found["count"]) & (found["count"] <= found["upper"])).all()
    found = result()
    width = (found["upper"] - found["lower"]).groupby(found["level"]).max()
    assert width[0] > width[2]


@some("path:country", "date:city")
@pytest.mark.parametrize("spec", ["path:country", "columns:country,city", "date:city", "ip:city"])
def test_an_empty_frame_gives_an_ordinary_result(spec: str) -> None:
    """A noisy root and a receipt; without remainder no rows, but all columns and types."""
    empty = SALES.iloc[:0]
    with_root = result(source=empty, hierarchy=spec)
    assert with_root["prefix"].to_list() == ["*"]
    drawn = {released(empty, spec).frame["count"].item() for _ in range(8)}
    assert len(drawn) > 1
    without = result(source=empty, hierarchy=spec, remainder=False)
    assert len(without) == 0
    assert without.dtypes.to_dict() == with_root.dtypes.to_dict()
    assert with_root.dp.receipt["epsilon"] == without.dp.receipt["epsilon"] == 1.0


ASKED: list[dict[str, Any]] = [
    *({}, {"user": "who"}, {"mechanism": "gaussian"}),
    {"user": "who", "contribution": "share"},
    {"user": "who", "contribution": "records", "max_contributions": 3},
    {"mechanism": "paper", "remainder": False, "acknowledge": True},
]


@pytest.mark.parametrize("arguments", ASKED, ids=str)
def test_the_receipt_is_plain_json(arguments: dict[str, Any]) -> None:
    """It survives JSON unchanged and says what was promised."""
    found = result(**arguments)
    facts = found.attrs["dp"]
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["guarantee"] == plan_of(**arguments).guarantee
    assert facts["computed_delta"] <= facts["delta"] == 1e-6
    assert facts["height"] == 2
    assert facts["hierarchy"] == "columns:country,city"
    assert dict(found.dp.receipt) == facts


def plan_of(**arguments: Any) -> Any:
    return dp.explain(["country", "city"], **{**BUDGET, **arguments}).plan


def test_every_release_has_its_own_id() -> None:
    assert released().receipt["release_id"] != released().receipt["release_id"]


def test_a_frame_without_receipt_says_so() -> None:
    found = result()
    found.attrs = {}
    for frame in (found, SALES):
        with pytest.raises(dp.ParameterError, match="this frame carries no receipt"):
            _ = frame.dp.receipt
    found.attrs = {"dp": "not ours"}
    with pytest.raises(dp.ParameterError, match="this frame carries no receipt"):
        _ = found.dp.receipt


def test_changing_a_copy_of_the_receipt_changes_nothing() -> None:
    made = released()
    made.to_frame().attrs["dp"]["epsilon"] = 99
    made.receipt.to_dict()["card"].clear()
    assert made.to_frame().attrs["dp"]["epsilon"] == 1.0
    assert made.receipt["card"]
    with pytest.raises(TypeError):
        made.receipt["epsilon"] = 2  # type: ignore[index]


def test_the_card_prints_for_people() -> None:
    receipt = result().dp.receipt
    assert str(receipt).startswith("Privacy card\n")
    assert receipt["guarantee"] in str(receipt)
    assert html.escape(receipt["guarantee"]) in receipt._repr_html_()


def width_by_convolution(noise: NoiseTable, terms: int, confidence: float) -> int:
    """The definition: convolve, then take the least half width that holds enough."""
    law = noise.pmf
    for _ in range(terms - 1):
        law = np.convolve(law, noise.pmf)
    middle = len(law) // 2
    return next(
        w for w in range(middle + 1) if law[middle - w : middle + w + 1].sum() >= confidence - 1e-12
    )


LAWS = {
    "laplace": laplace_table(3.0, 60),
    "wide laplace": laplace_table(40.0, 500),
    "gaussian": gaussian_table(5.0, 40),
    "tight": laplace_table(0.3, 2),
    "flat": NoiseTable("flat", -2, np.array([2**62, 2**61, 2**62, 2**61, 2**62], dtype=np.uint64)),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("terms", [1, 2, 3, 10, 25])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999999])
def test_half_widths_are_those_of_the_convolution(law: str, terms: int, confidence: float) -> None:
    expected = width_by_convolution(LAWS[law], terms, confidence)
    assert half_width(LAWS[law], terms, confidence) == expected


def test_half_widths_of_many_terms_follow_the_normal_law() -> None:
    """Thousands of residuals: within 1 % of the normal quantile, and it returns at once."""
    noise = laplace_table(4.0, 80)
    assert half_width(noise, 5_000, 0.95) == pytest.approx(1.96 * noise.sd * 5_000**0.5, rel=0.01)


REPORTED = "users who reported an item when it was found"
USERS: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "user": "who"}
SAMPLED: dict[str, Any] = {**USERS, "contribution": "records", "max_contributions": 3}


@pytest.mark.parametrize(
    ("word", "explained"),
    [
        ("records", lambda: dp.explain(["a"], epsilon=1.0, delta=1e-6)),
        ("records", lambda: dp.explain(["a"], **SAMPLED)),
        ("records", lambda: dp.explain_tree_counts(["a"], **SAMPLED)),
        ("users", lambda: dp.explain(["a"], **USERS, contribution="share")),
        ("different users", lambda: dp.explain(["a"], **USERS)),
        ("different users", lambda: dp.explain(["a"], **USERS, contribution="items")),
        ("different users", lambda: dp.explain_heavy_hitters("a", **USERS)),
        ("paid", lambda: dp.explain(["a"], weight="paid", max_weight=9, epsilon=1.0, delta=1e-6)),
        (REPORTED, lambda: dp.explain_prefix_tree("a", devices=100_000, **USERS)),
    ],
)
def test_what_is_counted_is_named_as_the_card_begins(word: str, explained: Any) -> None:
    """Law: pages name what the receipt says that the numbers count."""
    receipt = explained().plan.receipt()
    assert receipt.count_noun == word
    assert receipt["counts"].replace(";", ",").split(",")[0] == word
