"""Write the files of ``sql/`` whose macros are made from the declarations of questions.

``python -m dpframe.doors.sql.macros`` writes these files anew. The order of parameters is public:
parameters keep their places in the file, and new parameters come last.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from dpframe.asking.question import Question
from dpframe.common.texts import identifier, literal
from dpframe.doors.sql.register import macro_folder
from dpframe.questions.question_list import QUESTIONS

EXPLAINS = {"hhh": "dp_explain"}
"""Macros that explain a question, by its name; by default ``dp_explain_`` and the name."""

ROWS = {
    "hierarchy": "level, prefix, residual, count, lower, upper",
    "by": "level, prefix, a column a level, and for every measure its name, name_lower, name_upper",
    "column": "the column, count, lower, upper, largest first",
    "columns": "n rows with the names and types of the columns, more of them free if release names "
    "it",
}
"""The rows that a macro returns, by what its question is about."""

SAMPLED = {"columns": ("n",)}
"""Further parameters of a macro, by what its question is about: ``n`` rows to sample."""

PYTHON_ONLY = ("seed",)
"""Parameters that no macro has. ``seed`` is for hash functions of generators whose cells are added
up later; in SQL no generator outlives its statement."""


def macro_file_text(question: Question[Any, Any], before: str = "") -> str:
    """Return the text of a question's file; ``before`` is the present text, whose order of
    parameters is kept."""
    name, about = question.name, question.subject
    planning = [name for name in question.plan_arguments if name not in PYTHON_ONLY]
    beside, (first, *rest) = SAMPLED.get(about, ()), planning
    macro, explain = f"dp_{name}", EXPLAINS.get(name, f"dp_explain_{name}")
    sentence = " ".join((inspect.getdoc(question.ask) or "").split("\n\n")[0].split())
    answer = (
        f"{sentence.removesuffix('.')}: {ROWS[about]}. Of a table (tbl) or of a query. Draws and "
        "charges each time it runs, unless release names it; data names the state of the data. "
        f"Arguments as for dp.{name} in Python"
    )
    plan = (
        f"What {macro} with these arguments would do: quantity, value, meaning. Spends nothing and "
        "reads no data. error in the place of epsilon finds the smallest one whose intervals are "
        "at most so wide to each side: a number, or numbers by the name of a measure"
    )
    asked = _in_place(macro, ["tbl", first, *beside, *rest, "release", "query", "data"], before)
    explained = _in_place(
        explain,
        [*(name for name in asked if name in ("tbl", *planning, "query")), "error"],
        before,
    )
    return (
        f"-- {sentence}\n"
        "-- dpframe.register(con) runs this file on a connection.\n"
        f"-- Written by `python -m dpframe.doors.sql.macros` from the declaration of dp.{name}.\n\n"
        f"{_macro(macro, 'ask', name, answer, asked)}\n"
        f"{_macro(explain, 'explain', name, plan, explained)}"
    )


def _macro(macro: str, function: str, question: str, comment: str, ordered: Sequence[str]) -> str:
    fields = (f"{literal(name)}: {identifier(name)}" for name in ordered)
    return (
        f"CREATE OR REPLACE TEMP MACRO {macro}(\n"
        f"{_wrap_parts(f'{identifier(name)} := NULL' for name in ordered)}\n"
        ") AS TABLE\n"
        f"FROM query(system.main.__dpframe_{function}(\n"
        f"    temp.__dpframe_here(), current_setting('search_path'), {literal(question)}, {{\n"
        f"{_wrap_parts(fields)}\n"
        "}));\n\n"
        f"COMMENT ON MACRO TABLE {macro} IS {literal(comment)};\n"
    )


def _in_place(macro: str, parameters: Sequence[str], before: str) -> list[str]:
    """Order parameters as the text of a file has them; parameters that it does not have follow."""
    found = re.search(rf"MACRO {macro}\((.*?)\) AS TABLE", before, re.DOTALL)
    named = re.findall(r'(\w+)"? := NULL', found[1]) if found is not None else []
    there = [name for name in named if name in parameters]
    return [*there, *(name for name in parameters if name not in there)]


def _wrap_parts(parts: Iterable[str]) -> str:
    """Join parts with commas into lines of at most a hundred characters; no part is divided."""
    joined = ", ".join(part.replace(" ", "\0") for part in parts)
    wrapped = textwrap.fill(
        joined, 100, initial_indent=" " * 4, subsequent_indent=" " * 4, break_long_words=False
    )
    return wrapped.replace("\0", " ")


def write_macro_files() -> None:
    """Write one file for every question."""
    for question in QUESTIONS:
        file = macro_folder() / f"{question.name}.sql"
        before = file.read_text("utf-8") if file.exists() else ""
        file.write_text(macro_file_text(question, before), "utf-8")


if __name__ == "__main__":
    write_macro_files()
