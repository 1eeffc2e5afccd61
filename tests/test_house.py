"""What the house costs whoever adds to it, counted by ``python -m tests.house``."""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path

import pytest

from tests.house import QUESTIONS, House
from tests.members import some

ROOT = Path(__file__).resolve().parents[1]
HERE = House(ROOT)


def test_an_argument_of_hhh_is_spelt_out_in_two_files() -> None:
    """Its signature and the call that hands it on; its field and its check. Macros, methods,
    options and statements for warehouses are made of the first."""
    assert len(HERE.lists) <= 4, HERE.lists
    assert HERE.for_an_argument == ["questions/hhh/ask.py", "questions/hhh/checks.py"]


@some("tree_counts", "synthesize")
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_known_where_it_is_listed_and_by_the_accessor(question: str) -> None:
    """Others name some of them for what is special about those; none of them has to be touched."""
    named = set(HERE.for_a_question(question))
    assert {"questions/question_list.py", "doors/accessor.py"} <= named
    assert named - {"questions/question_list.py", "doors/accessor.py"} <= SPECIAL.keys()


SPECIAL = {
    "common/calls.py": "what takes an argument that another question lacks",
    "asking/measure_texts.py": "what answers a question that no measure does",
    "__init__.py": "compare_prefix_trees, tree_rollup_sql, Generator",
    "doors/warehouse.py": "tree_rollup_sql",
    "doors/gateway/policy.py": "which questions a gateway answers",
    "doors/gateway/client.py": "which questions a gateway answers",
    "doors/cli/questions.py": "short helps, options that are files, rows of a generator, and the "
    "command prefix-tree without a report",
    "doors/sql/statements.py": "rows of a generator",
    "doors/sql/calls.py": "rows of a generator",
    "hierarchy/_types.py": "advice to whoever has numbers",
    "sources/frames.py": "what a mistaken source is told",
    "ledger/book.py": "what reserve() takes",
    "ledger/reservations.py": "what reserve() takes",
    "verifier/__init__.py": "the section of the guarantees that it cites",
    "verifier/reports.py": "the section of the guarantees that it cites",
}
"""Files that name a question beside those two, and what for."""


def test_types_are_asked_for_in_one_place_a_room() -> None:
    """Plans, laws and counted values answer for themselves."""
    assert {room: n for room, n in HERE.places_of_types.items() if n > 1} == {}


def test_methods_of_the_accessor_say_what_they_take_and_unions_have_no_name() -> None:
    assert HERE.untyped_methods == 0
    assert HERE.unions == []


def test_names_are_nouns_and_verbs_and_say_one_thing() -> None:
    """Law: nobody has to open a file to learn what is found, told or kept in it."""
    assert HERE.poor_names == []
    assert HERE.poor_methods == []
    assert HERE.distinct_names >= 0.95


def test_the_house_stays_small() -> None:
    """Law: the numbers may fall."""
    assert len(HERE.trees) <= 223
    assert len(HERE.root_modules) <= 10
    for name, (files, stack) in ENTERED.items():
        entered = HERE.entered[name]
        assert entered[0] <= files, (name, entered)
        assert entered[1] <= stack, (name, entered)


TOP = """
    .ci .gitignore CHANGELOG.md CITATION.cff CONTRIBUTING.md LICENSE README.md SECURITY.md docs
    dpframe pyproject.toml sql tests
"""


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository")
def test_what_a_run_leaves_behind_is_not_committed() -> None:
    """Law: ledgers, wheels and tables that a document's example writes stay out."""
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {file.split("/")[0] for file in files.stdout.splitlines()} == set(TOP.split())


ENTERED = {"hhh": (38, 15), "rollup": (44, 19), "cube": (45, 20)}
"""Files that a warm call of a question enters at most, and its deepest stack."""


def test_messages_are_short_and_files_stand_in_no_circle() -> None:
    assert statistics.median(HERE.words_of_messages) <= 10
    assert max(HERE.words_of_messages) <= 30
    assert HERE.circles == []


def test_what_is_drawn_is_told_once() -> None:
    """Law: receipt, card, curve and proof follow from one list; the number may fall."""
    assert HERE.lines_on_draws <= LINES_ON_DRAWS


LINES_ON_DRAWS = 3_210
"""Lines that tell draws: of the questions' plans, and of the verifier's comparison."""


def test_no_code_reads_or_patches_english() -> None:
    """Law: facts are data, and texts are made when they are shown."""
    assert [place for place in HERE.texts_as_data if place[0] not in READERS] == []
    assert {file for file, _ in HERE.texts_as_data} == READERS.keys()


READERS = {
    "_duck/connections.py": "what DuckDB says of a function that is there already",
    "_duck/relations.py": "what DuckDB says of a file that is locked, or of nesting",
    "publishing/publish.py": "what DuckDB says of a file that is locked",
    "sources/spark.py": "what a worker of Spark says that lacks dpframe",
    "doors/cli/__init__.py": "what argparse says of an argument",
    "doors/gateway/policy_questions.py": "docstrings of questions, for whoever reads no Python",
    "ledger/entries.py": "the sentences by which stored receipts name whom they protect",
    "verifier/ledger.py": "the same, by the verifier itself",
}
"""Files that read a text, and which one."""


def test_the_counts_see_what_they_are_to_see(tmp_path: Path) -> None:
    """Negative control: a house with one of each fault."""
    package = tmp_path / "dpframe"
    (package / "doors").mkdir(parents=True)
    (package / "plan.py").write_text("from dpframe.doors import accessor\nAnyLaws = A | B\n")
    spelt = "epsilon delta threshold user contribution max_contributions mechanism remainder"
    (package / "doors" / "accessor.py").write_text(
        f"import dpframe.plan\ndef f(self, **arguments: Any): g({spelt.replace(' ', '=1, ')}=1)\n"
        "isinstance(p, dpframe.plan.TreePlan)\n"
    )
    house = House(tmp_path)
    assert [(s.file, s.line) for s in house.lists] == [("doors/accessor.py", 2)]
    assert house.asked_for_types == {"doors/accessor.py": 1}
    assert (house.untyped_methods, house.unions) == (1, ["AnyLaws"])
    assert house.circles == [("doors/accessor.py", "plan.py")]


def test_poor_names_and_long_messages_are_seen(tmp_path: Path) -> None:
    """Negative control."""
    (tmp_path / "dpframe").mkdir()
    words = " ".join(["word"] * 31)
    code = f"def _told(): raise E(f'{words} {{x}}')\nclass Held: ...\ndef count(): ...\n"
    (tmp_path / "dpframe" / "sweep.py").write_text(code)
    (tmp_path / "dpframe" / "node.py").write_text("def count(): ...\n")
    house = House(tmp_path)
    assert {name for _, name in house.poor_names} == {"_told", "Held", "sweep"}
    assert (house.distinct_names, house.words_of_messages) == (2 / 3, [32])


@pytest.mark.parametrize(
    "planted",
    [
        "interval = line.meaning.partition(',')[0]",
        "what = receipt['counts'].split('s')[0]",
        "raise E(str(error).replace('epsilon', 'eps'))",
        "wide = 'no wider' in line.meaning_text",
        "kind = re.match('adding (.*)', sentence)",
    ],
)
def test_a_text_that_is_read_is_seen(planted: str, tmp_path: Path) -> None:
    """Negative control: each of the ways in which code has read prose."""
    (tmp_path / "dpframe").mkdir()
    (tmp_path / "dpframe" / "plan.py").write_text(f"{planted}\ntext.replace('a', 'b')\n")
    assert [file for file, _ in House(tmp_path).texts_as_data] == ["plan.py"]
