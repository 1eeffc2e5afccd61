"""What notebooks show of objects: a few plain lines, the rest folded; and facts by their names."""

from __future__ import annotations

import copy
import html
import pickle
import re
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import dpframe as dp
from dpframe.common.texts import folded_html

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
NAME = "<script>alert('x')</script>&"
ROWS = pd.DataFrame({NAME: ["a"] * 400, "n": range(400)})


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ledger = dp.Ledger(tmp_path_factory.mktemp("shown") / "b<i>.db", epsilon=9.0, delta=1e-3)
    result = dp.hhh(ROWS, [NAME], ledger=ledger, release=f"of {NAME}", **BUDGET)
    return {
        "receipt": result.dp.receipt,
        "accessor": result.dp,
        "Polars accessor": pl.from_pandas(ROWS).dp.hhh([NAME], **BUDGET).dp,
        "explanation": dp.explain([NAME], **BUDGET, ledger=ledger),
        "ledger": ledger,
        "generator": dp.synthesize(ROWS, {"n": (0, 400)}, epsilon=1.0, depth=4, k=4),
    }


NAMES = ("receipt", "accessor", "Polars accessor", "explanation", "ledger", "generator")


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_a_few_lines_and_folds_the_rest(objects: Any, name: str) -> None:
    """Law: the promise or the budget before the fold, no colour but those of the page."""
    shown = objects[name]._repr_html_()
    first, fold, rest = shown.partition("<details>")
    lines = re.findall(r"<div>(?!<)(.+?)</div>", first)
    assert 2 <= len(lines) <= 6
    assert "differential privacy" in first or "left (" in first
    assert fold
    assert rest.count("<tr ") > 1
    assert not re.search(r"#[0-9a-f]{3}|rgb|white(?!-space)|black", shown.replace("&#x27;", ""))
    for tag in ("div", "details", "table", "tr", "td", "th", "summary"):
        assert len(re.findall(rf"<{tag}[ >]", shown)) == shown.count(f"</{tag}>")


@pytest.mark.parametrize("name", NAMES)
def test_what_users_wrote_is_text_in_a_notebook(objects: dict[str, Any], name: str) -> None:
    shown = objects[name]._repr_html_()
    assert "<script" not in shown
    if name in ("accessor", "receipt", "explanation", "ledger"):
        assert html.escape("<script>") in shown
    if name == "ledger":
        assert "b&lt;i&gt;.db" in shown


def test_a_frame_that_was_changed_says_so_first(objects: dict[str, Any]) -> None:
    result = dp.hhh(ROWS, [NAME], **BUDGET)
    first = result.assign(count=1).dp._repr_html_().partition("<details>")[0]
    assert first.index("this frame is not the release") < first.index("differential privacy")
    assert "this frame" not in result.dp._repr_html_()


def test_a_frame_without_a_receipt_lists_what_it_can_be_asked() -> None:
    """Law: looking at an accessor raises nothing, whatever it is of."""
    for frame in (ROWS, pl.from_pandas(ROWS), pl.from_pandas(ROWS).lazy()):
        assert "tree_counts" in frame.dp._repr_html_()
    assert folded_html("a", (), "more", ()).count("<details>") == 0


def test_a_ledger_that_is_gone_is_shown_too(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=1.0, delta=1e-6)
    assert "0 releases" in ledger._repr_html_()
    ledger.path.unlink()
    assert "cannot be read" in ledger._repr_html_()


def test_a_receipt_has_its_facts_as_attributes(objects: dict[str, Any]) -> None:
    """Law: an unknown one names what was meant; a receipt travels as before."""
    receipt = objects["receipt"]
    for name in ("epsilon", "delta", "threshold", "mechanism", "release", "noise", "ledger"):
        assert getattr(receipt, name) == receipt[name]
        assert name in dir(receipt)
    assert (receipt.epsilon, "epsilon" in list(receipt.keys())) == (1.0, True)
    with pytest.raises(AttributeError, match=r"receipt has no 'epsilom'\. Did you mean 'epsilon'"):
        _ = receipt.epsilom
    with pytest.raises(KeyError, match="Did you mean 'epsilon'"):
        _ = receipt["epsilom"]
    assert receipt.get("epsilom") is None
    for again in (pickle.loads(pickle.dumps(receipt)), copy.deepcopy(receipt), copy.copy(receipt)):
        assert dict(again) == dict(receipt)
    assert not hasattr(receipt, "_repr_mimebundle_")


def test_an_explanation_is_a_mapping_of_its_lines(objects: dict[str, Any]) -> None:
    explained = objects["explanation"]
    assert explained["threshold"] == explained.threshold == explained.plan.threshold
    assert explained["standard error"] == explained.standard_error
    assert (explained.epsilon, explained["delta"]) == (1.0, 1e-6)
    assert list(explained.keys())[:3] == ["epsilon", "delta", "guarantee"]
    named = set(explained.to_frame()["quantity"])
    assert named <= {*explained}
    assert len(explained) == len({*named, "epsilon", "delta"})
    assert "threshold" in explained
    assert "standard_error" in dir(explained)
    with pytest.raises(KeyError, match="Did you mean 'threshold'"):
        _ = explained["treshold"]
    with pytest.raises(AttributeError, match="Did you mean 'threshold'"):
        _ = explained.treshold
    again = pickle.loads(pickle.dumps(dp.explain(["a"], **BUDGET)))
    assert again["threshold"] == dp.explain(["a"], **BUDGET).threshold
