"""Arguments of the macros: by name and by place, NULL, parameters, and mistakes."""

from __future__ import annotations

import inspect
import itertools
import json
import re
from dataclasses import replace
from typing import Any

import pytest

import dpframe as dp
from dpframe.asking.question import RELEASE_ARGUMENTS, WAREHOUSE_ARGUMENTS, Question
from dpframe.doors.sql.calls import as_parameters
from dpframe.doors.sql.macros import EXPLAINS, PYTHON_ONLY, SAMPLED, macro_file_text, macro_folder
from dpframe.questions.hhh import ask
from dpframe.questions.question_list import QUESTIONS
from tests.sql.visits import (
    BUDGET,
    HHH,
    LABELS,
    Con,
    Lasting,
    charges,
    hhh,
    literal,
    said,
    said_by_python,
)

pytestmark = pytest.mark.usefixtures("registered")


def newest(con: Con) -> dict[str, Any]:
    return dict(json.loads(con.execute("SELECT receipt FROM dp_releases()").fetchall()[-1][0]))


def test_named_arguments_come_in_any_order(con: Con) -> None:
    named = {
        "tbl": "visits",
        "hierarchy": "columns:k",
        "epsilon": 1.0,
        "delta": 1e-6,
        "user": "who",
        "threshold": 40,
    }
    calls = [list(named.items())[i:] + list(named.items())[:i] for i in range(len(named))]
    for call in calls:
        text = ", ".join(f"{name} := {literal(value)}" for name, value in call)
        con.execute(f"FROM dp_hhh({text})").fetchall()
        receipt = newest(con)
        assert {name: receipt[name] for name in ("hierarchy", "user", "threshold")} == {
            "hierarchy": "columns:k",
            "user": "who",
            "threshold": 40,
        }


def test_arguments_by_place_are_those_of_the_documentation(con: Con) -> None:
    """Law: table, hierarchy, epsilon, delta, threshold, user, contribution, max_contributions."""
    call = "dp_hhh('visits', 'columns:k', 1.0, 1e-6, 300, 'who', 'records', 3)"
    con.execute(f"FROM {call}").fetchall()
    receipt = newest(con)
    assert (receipt["threshold"], receipt["max_contributions"]) == (300, 3)


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("dp_hhh('visits', 'columns:k', epsilon := ?, delta := ?)", [1.0, 1e-6]),
        (
            "dp_hhh($t, $h, epsilon := $e, delta := $d)",
            {"t": "visits", "h": "columns:k", "e": 1, "d": 1e-6},
        ),
        (
            "dp_hhh('visits', $columns, epsilon := 1, delta := 1e-6, remainder := $r)",
            {"columns": ["k"], "r": True},
        ),
        (f"dp_hhh('visits', ['k'], {BUDGET})", None),
        (f"dp_hhh('visits', 'columns:k', {BUDGET}, threshold := 50::HUGEINT)", None),
        ("dp_hhh('visits', 'columns:k', epsilon := 1, delta := 0.000001::DECIMAL(9, 6))", None),
        ("dp_hhh('visits', 'columns:' || lower('K'), epsilon := 2.0 / 2, delta := 1e-6)", None),
        (f"dp_hhh(visits, 'columns:k', {BUDGET})", None),
    ],
)
def test_arguments_may_be_parameters_constants_and_lists(
    con: Con, statement: str, parameters: Any
) -> None:
    rows = con.execute(f"SELECT prefix FROM {statement}", parameters).fetchall()
    assert [row[0] for row in rows] == LABELS
    assert (newest(con)["epsilon"], newest(con)["delta"]) == (1.0, 1e-6)


def test_a_prepared_statement_takes_its_parameters_at_each_run(con: Con, ledger: dp.Ledger) -> None:
    con.execute("PREPARE p AS FROM dp_hhh('visits', 'columns:k', epsilon := ?, delta := 1e-6)")
    assert charges(ledger) == 0
    for epsilon in (1.0, 0.5, 2.0):
        con.execute(f"EXECUTE p({epsilon})").fetchall()
    assert ledger.releases()["epsilon"].tolist() == [1.0, 0.5, 2.0]


@pytest.mark.parametrize(
    "argument", ["epsilon := (SELECT 1.0)", "epsilon := n", "epsilon := n + 0.5, threshold := n"]
)
def test_no_argument_can_come_from_a_table(con: Con, ledger: dp.Ledger, argument: str) -> None:
    """Law: budgets and thresholds cannot depend on data; DuckDB refuses to bind such a call."""
    call = f"dp_hhh('visits', 'columns:k', delta := 1e-6, {argument})"
    error = said(con, f"FROM visits, LATERAL (FROM {call})")
    assert "Binder Error" in error
    assert charges(ledger) == 0


# -- mistakes ------------------------------------------------------------------------------------

WRONG: list[dict[str, Any]] = [
    *({"epsilon": bad} for bad in (None, 0, -1.5, "one", True)),
    *({"delta": bad} for bad in (None, 1)),
    *({"threshold": bad} for bad in (3, 30.5, "30")),
    *({"hierarchy": bad} for bad in (None, "ip", "ipp:k", "code:k", "path:k?dpeth=3", 5)),
    {"contribution": "share"},
    {"user": 5},
    *({"user": "who", "contribution": bad} for bad in ("records", "rows")),
    {"user": "who", "contribution": "share", "max_contributions": 3},
    {"user": "who", "nodes_per_user": 0},
    {"user": "who", "at_most": 3, "remainder": True},
    *({"mechanism": bad} for bad in ("ofline", "paper")),
    {"remainder": "false"},
    {"release_share": 2},
    {"release_share": 0.3, "mechanism": "laplace"},
    {"counters": 9, "mechanism": "gaussian"},
    {"confidence": 0.1},
    {"acknowledge": 1},
    *({"release": bad} for bad in ("", "a\nb", 7)),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_mistake_is_answered_as_in_python(lasting: Lasting, wrong: dict[str, Any]) -> None:
    """Law: same class and same words as ``dp.hhh``, with arguments as SQL has them, when bound, and
    nothing is charged."""
    con, ledger = lasting
    arguments = {"hierarchy": "columns:k", "epsilon": 1.0, "delta": 1e-6, **wrong}
    named = ", ".join(f"{name} := {literal(value)}" for name, value in arguments.items())
    words = said_by_python(
        lambda: dp.hhh(con.table("visits"), arguments.pop("hierarchy"), ledger=ledger, **arguments)
    )
    for statement in ("FROM", "EXPLAIN FROM"):
        assert as_parameters(words) in said(con, f"{statement} dp_hhh('visits', {named})")
    assert charges(ledger) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (f"dp_hhh(NULL, 'columns:k', {BUDGET})", "tbl is missing"),
        (f"dp_hhh(7, 'columns:k', {BUDGET})", "tbl must be a table's name"),
        (f"dp_hhh('a.b.c.d', 'columns:k', {BUDGET})", "database.schema.name"),
        (f"dp_hhh('nowhere', 'columns:k', {BUDGET})", "Table with name nowhere does not exist"),
        (hhh(query="FROM visits"), "tbl and query are both given"),
        (hhh(None, query="FROM nowhere"), "Table with name nowhere does not exist"),
        (hhh(None, query="DROP TABLE visits"), "query must be one SELECT"),
        (hhh(None, query="FROM visits; FROM visits"), "query must be one SELECT"),
        (hhh(None, query="SELECT * FROM visits WHERE k = ?"), "without parameters"),
        (hhh(hierarchy="columns:kk"), "ColumnError: column 'kk' does not exist. Did you mean 'k'"),
        (hhh(hierarchy="date:n"), "has type BIGINT; date reads dates, timestamps"),
        (hhh(user="whom"), "column 'whom' does not exist. Did you mean 'who'"),
        (f"dp_hhh('visits', 'columns:k', {BUDGET}, eps := 1)", "Candidate macros: dp_hhh(tbl := "),
        (f"dp_explain('visits', 'columns:kk', {BUDGET})", "column 'kk' does not exist"),
    ],
)
def test_a_mistake_about_the_source_is_named(lasting: Lasting, call: str, words: str) -> None:
    con, ledger = lasting
    assert words in said(con, f"FROM {call}")
    assert charges(ledger) == 0


def test_a_release_needs_a_ledger(con: Con) -> None:
    dp.register(con)
    assert "release := 'x' needs a ledger" in said(con, f"FROM {hhh(release='x')}")


def test_dp_hhh_does_not_read_dp_hhh(con: Con, ledger: dp.Ledger) -> None:
    """Law: DuckDB expands no macro in itself; a release of releases takes a table in between."""
    assert "recursi" in said(con, f"FROM {hhh(None, query=f'FROM {HHH}')}")
    con.execute(f"CREATE VIEW heavy AS FROM {HHH}")
    assert "recursi" in said(con, f"FROM {hhh('heavy')}")
    assert charges(ledger) == 0


# -- what the macros say of themselves -----------------------------------------------------------


def test_every_function_is_described(con: Con) -> None:
    rows = con.execute("FROM dp_functions()").fetchall()
    for name, parameters, description in rows:
        assert len(description or "") > 20, name
        few = name in ("dp_budget", "dp_change", "dp_functions", "dp_plan_series", "dp_releases")
        assert (len(parameters) >= 10) == (not few)


def test_explaining_charges_and_reads_nothing(con: Con, ledger: dp.Ledger) -> None:
    """Law: a plan costs nothing, needs no table, and is the same for any data."""
    call = f"dp_explain('visits', 'columns:k', {BUDGET})"
    alone = f"dp_explain(hierarchy := 'columns:k', {BUDGET})"
    plans = [con.execute(f"FROM {c}").fetchall() for c in (call, alone)]
    con.execute("DELETE FROM visits")
    plans.append(con.execute(f"FROM {call}").fetchall())
    assert all(one == other for one, other in itertools.pairwise(plans))
    assert charges(ledger) == 0


# -- files of macros -------------------------------------------------------------------------------


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

    source, about, *rest = ask.HHH.parameters.values()
    new = inspect.Parameter("measure", inspect.Parameter.KEYWORD_ONLY, default=None)
    hhh.__signature__ = inspect.Signature([source, about, new, *rest])  # type: ignore[attr-defined]
    text = (macro_folder() / "hhh.sql").read_text("utf-8")
    question = replace(ask.HHH, ask=hhh)
    for macro in ("dp_hhh", "dp_explain"):
        assert of(macro, macro_file_text(question, text)) == [*of(macro, text), "measure"]
    before = text.replace(', "error" := NULL', "").replace('\n    "error" := NULL', "")
    assert of("dp_explain", macro_file_text(ask.HHH, before))[-1] == "error"
    assert of("dp_hhh", macro_file_text(question))[:4] == ["tbl", "hierarchy", "measure", "epsilon"]
