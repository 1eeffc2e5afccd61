"""The layout is the architecture: imports point one way, plans cannot reach data."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.house import nodes_of

PACKAGE = Path(__file__).resolve().parent.parent / "dpframe"
ROOT = len(PACKAGE.parts) + 1

FLOORS = [
    {"errors", "_version", "budget", "verifier"},
    {"common"},
    {"periods", "_duck", "noise", "counts", "dialects", "measures"},
    {"hierarchy", "sketches", "testing"},
    {"domains", "accounting", "postprocess"},
    {"federated", "ledger"},
    {"mechanisms", "sources"},
    {"asking", "papers"},
    {"pages", "publishing"},
    {"questions"},
    {"doors", "evaluation"},
    {"__init__", "__main__"},
]
"""Rooms, lowest first. A module may import its own room and what lies below, nothing above or
beside."""

NEIGHBOURS = {
    "sketches": set(),
    "hhh": {"sketches"},
    "tree_counts": {"hhh"},
    "rollup": {"hhh"},
    "synthesize": set(),
    "prefix_tree": set(),
}
"""Rooms of questions, and the others that each may use."""

LIST = "questions.question_list"
"""The one module that knows all of them."""


@cache
def _modules() -> dict[str, Path]:
    out = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        out[".".join(p for p in parts if p != "__init__") or "__init__"] = path
    return out


@cache
def _parsed(text: str) -> ast.Module:
    """Read once, for all of the rules."""
    return ast.parse(text)


def _room(module: str) -> str:
    return module.split(".")[0]


def _floor(module: str) -> int:
    for height, rooms in enumerate(FLOORS):
        if _room(module) in rooms:
            return height
    raise AssertionError(f"{module} has no place in the architecture")


def _imports(path: Path) -> set[str]:
    """dpframe modules that a file imports, at any depth of nesting, or names in a text, to load
    them later."""
    found: set[str] = set()
    modules = _modules()
    for node in nodes_of(_parsed(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            if (node.module or "").split(".")[0] == "dpframe":
                inside = (node.module or "").removeprefix("dpframe").removeprefix(".")
                for alias in node.names:
                    deeper = f"{inside}.{alias.name}".removeprefix(".")
                    found.add(deeper if deeper in modules else inside or alias.name)
        elif isinstance(node, ast.Import):
            found.update(
                a.name.removeprefix("dpframe.") for a in node.names if a.name.startswith("dpframe.")
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update({node.value.removeprefix("dpframe.")} & modules.keys() - {node.value})
    return found


Imports = dict[str, set[str]]
"""What every module imports of the package."""


@cache
def _imports_as_they_are() -> Imports:
    return {name: _imports(path) for name, path in _modules().items()}


def _all_imports() -> Imports:
    """To be changed by whoever asks."""
    return {name: {*targets} for name, targets in _imports_as_they_are().items()}


def _upward(imports: Imports) -> list[tuple[str, str]]:
    """Imports of a module that lies above or beside the one that imports it."""
    out = []
    for module, targets in imports.items():
        for target in targets:
            if _room(module) != _room(target) and _floor(target) >= _floor(module):
                out.append((module, target))
            elif _room(module) == _room(target) == "questions" and module != LIST:
                here, there = module.split(".")[1], target.split(".")[1]
                if there not in {here, *NEIGHBOURS.get(here, ())}:
                    out.append((module, target))
    return out


RELEASED_LABELS = "postprocess.level_values"
"""Gives labels their types by DuckDB: those of released nodes, in a database of our own."""


def _reached(imports: Imports, module: str) -> set[str]:
    """What a module imports, directly or not."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            if name != RELEASED_LABELS:
                waiting.extend(imports.get(name, ()))
    return seen


def _data(modules: set[str]) -> set[str]:
    """Modules that read data, or open what does."""
    rooms = ("sources", "doors", "_duck")
    return {
        m
        for m in modules
        if _room(m) in rooms or m in ("asking.release", "asking.answer") or m.endswith(".count")
    }


def _plans() -> list[str]:
    """Modules that decide what a release does, or draw it: those with a class that has ``run``. A
    warehouse's is the statement to one of them."""
    found = []
    for module, path in _modules().items():
        classes = [n for n in nodes_of(_parsed(path.read_text("utf-8"))) if type(n) is ast.ClassDef]
        draws = any(getattr(n, "name", "") == "run" for c in classes for n in c.body)
        if module.startswith("questions.") and (draws or module.endswith(".plan")):
            found.append(module)
    return found


def picture() -> str:
    """The floors as ``docs/how_it_works.md`` shows them, highest first."""
    return "\n".join("  " + "    ".join(sorted(rooms)) for rooms in reversed(FLOORS))


def _sentence(path: Path) -> str:
    """The first sentence of a file."""
    doc = ast.get_docstring(_parsed(path.read_text("utf-8"))) or ""
    return " ".join(doc.split("\n\n")[0].split()).removesuffix(".")


def rooms() -> str:
    """The rooms as ``docs/modules.md`` lists them: the first sentence of each."""
    lines = []
    for path in sorted(_modules().values(), key=lambda p: (len(p.parts) > ROOT, p.parent, p.name)):
        where = path.relative_to(PACKAGE).as_posix()
        if path.name == "__init__.py" or path.parent == PACKAGE:
            room = where if path.parent == PACKAGE else where.removesuffix("__init__.py")
            lines.append(f"* `{room}`: {_sentence(path)}")
    return "\n".join(lines)


def test_the_picture_in_the_documents_is_what_is_checked() -> None:
    """``python -m tests.test_architecture`` writes them, and every room in it is there."""
    docs = PACKAGE.parent / "docs"
    assert f"```text\n{picture()}\n```" in (docs / "how_it_works.md").read_text("utf-8")
    assert rooms() in (docs / "modules.md").read_text("utf-8")
    assert {room for rooms in FLOORS for room in rooms} == set(map(_room, _modules()))


def test_imports_point_downward() -> None:
    """A module imports only what lies below it or beside it in its own package."""
    assert _upward(_all_imports()) == []
    assert len(FLOORS) <= 12


def test_the_import_rule_can_fail() -> None:
    """What points up, or into another question's room, is found; so is a plan's way to data, also
    by a detour that points downward."""
    for module, target in (
        ("sources.exact_trees", "questions.hhh.plan"),
        ("asking.release", "doors.accessor"),
        ("questions.hhh.plan", "questions.tree_counts.plan"),
    ):
        imports = _all_imports()
        imports[module] |= {target}
        assert _upward(imports) == [(module, target)]
    for module, target in (
        ("questions.tree_counts.plan", "sources.exact_trees"),
        ("accounting.path_recursion", "_duck.relations"),
    ):
        imports = _all_imports()
        imports[module] |= {target}
        assert _upward(imports) == []
        assert target in _data(_reached(imports, "questions.tree_counts.plan"))


def test_every_way_to_import_is_seen(tmp_path: Path) -> None:
    """A module by name, out of its room, and a room."""
    for written in (
        "import dpframe.sources.keys",
        "from dpframe.sources import keys as t",
        "from dpframe.sources.keys import key_rows",
        "def late():\n    from dpframe.sources import keys, parts",
        "loaded('dpframe.sources.keys', 'key_rows')",
    ):
        (tmp_path / "m.py").write_text(written)
        assert "sources.keys" in _imports(tmp_path / "m.py")
    (tmp_path / "m.py").write_text("from dpframe import _duck, sources")
    assert _data(_imports(tmp_path / "m.py")) == {"_duck", "sources"}
    (tmp_path / "m.py").write_text("from .sources import keys")
    with pytest.raises(AssertionError, match="relative"):
        _imports(tmp_path / "m.py")


def test_no_name_hides_a_room() -> None:
    """``import dpframe.questions.hhh.plan as p`` gives that module, though a function is called
    ``hhh``."""
    names = [f"dpframe.{name}" for name in _modules() if name.startswith("questions.")]
    assert {f"dpframe.questions.{room}.plan" for room in NEIGHBOURS} <= set(names)
    for name in names:
        found: dict[str, object] = {}
        exec(f"import {name} as p", found)
        assert found["p"] is sys.modules[name]


def test_a_plan_cannot_reach_data() -> None:
    """Nothing that any plan imports, directly or not, is a source, DuckDB, or a frame reader."""
    imports, plans = _all_imports(), _plans()
    assert len(plans) >= 11
    assert {"questions.hhh.sketch_plans", "questions.sketches.plan"} <= set(plans)
    for plan in plans:
        assert not _data(_reached(imports, plan)), plan


def test_only_two_modules_load_duckdb_or_touch_randomness() -> None:
    """``import duckdb`` stands in ``_duck`` alone, ``os.urandom`` in ``noise`` alone; tokens of
    analysts are ``secrets``."""
    duck, random = set(), set()
    for name, path in _modules().items():
        text = path.read_text(encoding="utf-8")
        for node in nodes_of(_parsed(text)):
            if isinstance(node, ast.Import) and any(a.name == "duckdb" for a in node.names):
                duck.add(name)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "duckdb":
                duck.add(name)
            assert not (isinstance(node, ast.Name) and node.id == "__import__"), name
        if "urandom" in text or "secrets." in text or "default_rng" in text:
            random.add(name)
    assert {name.split(".")[0] for name in duck} == {"_duck"}
    assert random == {"noise", "doors.gateway.policy"}


def test_the_verifier_shares_no_code() -> None:
    """Law: what checks proofs imports itself and the standard library, and nothing of what made
    them; no float and no number of numpy can decide."""
    for name, path in _modules().items():
        for node in nodes_of(_parsed(path.read_text("utf-8"))):
            if _room(name) != "verifier" or not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            named = (
                [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
            for module in map(str, named):
                own = f"{module}.".startswith("dpframe.verifier.")
                assert own or module.split(".")[0] in sys.stdlib_module_names, (name, module)


SIGNATURES = {"dpframe.doors.statements": "dpframe.doors.warehouse"}
"""Modules of signatures alone, made of declarations, and what they are the signatures of."""


def test_what_loads_late_is_what_type_checkers_read() -> None:
    """Law: the tables by which public names are loaded, ``__all__`` and the imports that nobody
    runs name the same things in the same modules."""
    import dpframe
    from dpframe.questions import question_list

    for module, homes in (
        ("__init__", dpframe._HOME),
        ("questions.question_list", question_list.HOMES),
    ):
        tree = _parsed(_modules()[module].read_text("utf-8"))
        (read,) = [
            node.body if ast.unparse(node.test) == "READ" else node.orelse
            for node in tree.body
            if isinstance(node, ast.If) and ast.unparse(node.test) in ("READ", "not TYPE_CHECKING")
            if node.orelse or ast.unparse(node.test) == "READ"
        ]
        read = {
            alias.name: SIGNATURES.get(str(node.module), node.module)
            for node in read
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        read.pop("Question", None)
        if read.pop("*", None):
            read |= question_list.HOMES
        assert read == homes
    assert {*dpframe.__all__} == {"__version__", *dpframe._HOME} == {*dir(dpframe)}
    assert sorted(question_list.__all__) == sorted(question_list.HOMES)


TOLD_APART = re.compile(r"(Plan|Laws)$|^(Noisy|Counted|MechanismInput)")
"""Types whose values answer for themselves."""


def _told_apart(text: str) -> int:
    """Calls of ``isinstance`` that ask which plan, law or outcome something is."""
    calls = [
        node
        for node in nodes_of(_parsed(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
    ]
    names = [{n.id for n in ast.walk(c.args[1]) if isinstance(n, ast.Name)} for c in calls]
    return sum(any(TOLD_APART.search(name) for name in each) for each in names)


def test_plans_and_laws_are_not_told_apart() -> None:
    """What differs between mechanisms stands in their plans: a room tells types apart once at most,
    where the accountant chose between two laws or a caller may pass anything."""
    found: dict[str, int] = {}
    for name, path in _modules().items():
        room = ".".join(name.split(".")[: 2 if _room(name) == "questions" else 1])
        found[room] = found.get(room, 0) + _told_apart(path.read_text("utf-8"))
    assert {room: n for room, n in found.items() if n > 1} == {}
    assert _told_apart("isinstance(plan.laws, GshmLaws | TreeLaws)") == 1


def test_the_package_says_that_it_is_typed() -> None:
    """The marker of PEP 561 ships, as ``Typing :: Typed`` claims."""
    assert (PACKAGE / "py.typed").exists()


def _bound_twice(tree: ast.Module) -> set[str]:
    """Names that a module gives to two things."""
    names = Counter(
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    )
    names.update(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list
    )
    return {name for name, times in names.items() if times > 1}


def test_a_module_gives_a_name_to_one_thing() -> None:
    """Law: the second of two constants of a name would be read where the first is meant."""
    twice = {n: _bound_twice(_parsed(p.read_text("utf-8"))) for n, p in _modules().items()}
    assert {name: names for name, names in twice.items() if names} == {}


def test_a_name_of_two_things_is_seen() -> None:
    """Negative control."""
    assert _bound_twice(_parsed("LONGEST = 1\nLONGEST: int = 2\na, b = 1, 2\n")) == {"LONGEST"}
    assert _bound_twice(_parsed("def f(): ...\nf = 1\nx: int\nx = 1\n")) == {"f"}


def test_public_names_are_documented() -> None:
    """Every public name has a docstring; functions name their guarantee and source."""
    import dpframe

    assert (
        len({*dpframe.__all__}) == len(dpframe.__all__) == len({*dir(dpframe)} & {*dpframe.__all__})
    )
    for name in dpframe.__all__:
        if not name.startswith("__"):
            assert getattr(dpframe, name).__doc__, name
    for word in ("Parameters", "Returns", "Raises", "Privacy", "References", "Examples"):
        assert word in (dpframe.hhh.__doc__ or "")


TERM = re.compile(r"(ASC|DESC) NULLS (FIRST|LAST)$")


def _statements(path: Path) -> list[str]:
    """Texts of a module other than docstrings; what an f-string puts in stands as {}."""
    tree = _parsed(path.read_text(encoding="utf-8"))
    inside, out = set(), []
    for node in nodes_of(tree):
        if isinstance(node, ast.Expr):  # a docstring
            inside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inside.update(map(id, node.values))
            out.append(
                "".join(
                    str(getattr(part, "value", None)) if isinstance(part, ast.Constant) else "{}"
                    for part in node.values
                )
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            out.append(node.value)
    return out  # fmt: skip


def unordered(sql: str) -> list[str]:
    """Terms of ORDER BY that leave a direction or the place of NULLs to the connection.

    A placeholder alone stands for ``texts.ascending_order``, which names both.
    """
    found = []
    for clause in re.split(r"ORDER BY", sql)[1:]:
        depth, term = 0, ""
        for c in re.split(r"\b(?:LIMIT|ROWS|WHERE|FROM)\b|;", clause)[0] + ",":
            depth += (c == "(") - (c == ")")
            if depth < 0 or (c == "," and depth == 0):
                term = term.strip()
                if not TERM.search(term) and not re.fullmatch(r"({}|LIMIT|\s)*", term):
                    found.append(term)
                term = ""
                if depth < 0:
                    break
            else:
                term += c
    return found


def test_every_order_names_its_direction_and_where_nulls_stand() -> None:
    """A connection can have other defaults than ours: ``SET default_order = 'DESC'``."""
    written = {name: _statements(path) for name, path in _modules().items()}
    for path in PACKAGE.parent.glob("sql/*.sql"):
        written[path.name] = [re.sub("--.*", "", path.read_text(encoding="utf-8"))]
    assert sum("ORDER BY" in text for texts in written.values() for text in texts) > 10
    assert {
        name: bad for name, texts in written.items() for t in texts if (bad := unordered(t))
    } == {}


def test_the_rule_of_order_can_fail() -> None:
    for bad in ("ORDER BY a", "ORDER BY a ASC, b DESC", "f(ORDER BY a ASC NULLS LAST, {}, i)"):
        assert unordered(bad)
    assert not unordered("f(ORDER BY h(a, b) DESC NULLS LAST, c ASC NULLS FIRST) ORDER BY {}")


def write() -> None:
    """Put the picture and the table into the documents, and print what is in every file."""
    docs = PACKAGE.parent / "docs"
    text = (docs / "modules.md").read_text("utf-8")
    text = re.sub(r"(\* `\S+`: .*\n)+", lambda _: rooms() + "\n", text, count=1)
    (docs / "modules.md").write_text(text, "utf-8")
    text = (docs / "how_it_works.md").read_text("utf-8")
    at = text.index("```text\n  __init__")
    end = text.index("```", at + 7)
    (docs / "how_it_works.md").write_text(f"{text[:at]}```text\n{picture()}\n{text[end:]}", "utf-8")
    for path in _modules().values():
        print(f"{path.relative_to(PACKAGE).as_posix()}: {_sentence(path)}")


if __name__ == "__main__":
    write()
