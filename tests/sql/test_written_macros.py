"""Files of macros are written from the declarations of questions."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import Any

import pytest

from dpframe.asking.question import RELEASE_ARGUMENTS, WAREHOUSE_ARGUMENTS, Question
from dpframe.doors.sql.macros import EXPLAINS, PYTHON_ONLY, SAMPLED, macro_file_text
from dpframe.doors.sql.register import macro_folder
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.question_list import QUESTIONS

NAMES = [question.name for question in QUESTIONS]


def of(macro: str, text: str) -> list[str]:
    found = re.search(rf"MACRO {macro}\((.*?)\) AS TABLE", text, re.DOTALL)
    assert found is not None
    return re.findall(r'"(\w+)" := NULL', found[1])


@pytest.mark.parametrize("question", QUESTIONS, ids=NAMES)
def test_a_file_is_what_its_declaration_says(question: Question[Any, Any]) -> None:
    """Law: ``python -m dpframe.doors.sql.macros`` changes nothing; every argument of the
    declaration is there, but for objects of Python; and a plan takes those of the call."""
    text = (macro_folder() / f"{question.name}.sql").read_text("utf-8")
    assert macro_file_text(question, text) == text
    asked = of(f"dp_{question.name}", text)
    own = ["tbl", "query", *SAMPLED.get(question.subject, ())]
    elsewhere = ["source", "ledger", "progress", *WAREHOUSE_ARGUMENTS, *PYTHON_ONLY]
    assert {*asked} == {*question.parameters, *own} - {*elsewhere}
    explained = of(EXPLAINS.get(question.name, f"dp_explain_{question.name}"), text)
    beside = {*RELEASE_ARGUMENTS, *own} - {"tbl", "query"}
    assert [name for name in explained if name != "error"] == [
        name for name in asked if name not in beside
    ]
    assert explained.count("error") == 1


def test_a_new_argument_takes_the_last_place() -> None:
    """Law: wherever a declaration has it, what calls by place mean stays; a question that has no
    file yet has the order of its declaration."""

    def hhh(*_: object) -> None:
        """As ever."""

    source, about, *rest = HHH.parameters.values()
    new = inspect.Parameter("measure", inspect.Parameter.KEYWORD_ONLY, default=None)
    hhh.__signature__ = inspect.Signature([source, about, new, *rest])  # type: ignore[attr-defined]
    text = (macro_folder() / "hhh.sql").read_text("utf-8")
    question = replace(HHH, ask=hhh)
    for macro in ("dp_hhh", "dp_explain"):
        assert of(macro, macro_file_text(question, text)) == [*of(macro, text), "measure"]
    before = text.replace(', "error" := NULL', "").replace('\n    "error" := NULL', "")
    assert of("dp_explain", macro_file_text(HHH, before))[-1] == "error"
    assert of("dp_hhh", macro_file_text(question))[:4] == ["tbl", "hierarchy", "measure", "epsilon"]
