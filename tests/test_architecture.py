"""The layout is the architecture: imports point one way, plans cannot reach data."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "dpframe"
ROOT = len(PACKAGE.parts) + 1

LAYERS = [
    {"errors", "_version", "_sql", "_terminal", "_forking", "asking.digest"},
    {"_nested"},
    {"_paths", "_unicode"},
    {"budget", "noise", "_duck", "sketches", "dialects"},
    {"hierarchy", "tree", "testing"},
    {"domains"},
    {"accounting"},
    {
        "postprocess.intervals",
        "postprocess.conditional",
        "postprocess.consistency",
        "postprocess.forest",
        "postprocess.sums",
        "postprocess.flat",
        "postprocess.selected",
        "postprocess.adding_up",
        "postprocess.level_weights",
        "postprocess.relative_error",
        "postprocess.discovered",
        "postprocess.wasserstein",
    },
    {"federated"},
    {"mechanisms"},
    {"questions.hhh.laws"},
    {
        "questions.hhh.plan",
        "questions.sketches.plan",
        "questions.tree_counts.plan",
        "questions.synthesize.plan",
        "questions.prefix_tree.plan",
        "ledger",
    },
    {"questions.hhh.partitioned"},
    {"asking.quantities"},
    {
        "questions.hhh.advice",
        "asking.notices",
        "questions.tree_counts.lines",
        "questions.synthesize.lines",
        "questions.prefix_tree.lines",
    },
    {"postprocess.level_values"},
    {"asking.receipt", "sources", "questions.hhh.frame", "postprocess.nesting"},
    {
        "questions.tree_counts.frame",
        "questions.tree_counts.receipt",
        "questions.synthesize.receipt",
        "questions.prefix_tree.receipt",
    },
    {"questions.sketches.receipt", "questions.sketches.frame"},
    {"asking.release"},
    {"asking.replays"},
    {"asking.known_arguments", "asking.given"},
    {"asking.warehouse_plan"},
    {"evaluation.wasserstein"},
    {"pages"},
    {
        "questions.hhh.ask",
        "questions.hhh.heavy_hitters",
        "questions.tree_counts.checks",
        "questions.tree_counts.ask",
        "questions.prefix_tree.checks",
        "questions.prefix_tree.ask",
        "questions.synthesize.checks",
        "questions.synthesize.ask",
        "questions.synthesize.generator",
        "questions.synthesize.generator_files",
        "questions.synthesize.privhp",
        "questions.sketches.checks",
        "questions.sketches.ask",
        "questions.sketches.streaming_hhh",
    },
    {"publishing", "evaluation.compare", "evaluation.compare_prefix"},
    {"doors"},
    {"__init__", "__main__"},
]
"""Lowest first. A module may import its own package and anything below, nothing above or beside."""


def _modules() -> dict[str, Path]:
    out = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        out[".".join(p for p in parts if p != "__init__") or "__init__"] = path
    return out


def _layer(module: str) -> int:
    for height, names in enumerate(LAYERS):
        if any(module == n or module.startswith(n + ".") for n in names):
            return height
    if PACKAGE.joinpath(*module.split(".")).is_dir():
        return 0  # a docstring
    raise AssertionError(f"{module} has no place in the architecture")


def _imports(path: Path) -> set[str]:
    """dpframe modules that a file imports, at any depth of nesting."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpframe":
            inside = (node.module or "").removeprefix("dpframe").removeprefix(".")
            found.update([inside] if inside else [f"{alias.name}" for alias in node.names])
        elif isinstance(node, ast.Import):
            found.update(
                a.name.removeprefix("dpframe.") for a in node.names if a.name.startswith("dpframe.")
            )
    return found


Imports = dict[str, set[str]]
"""What every module imports of the package."""


def _all_imports() -> Imports:
    return {name: _imports(path) for name, path in _modules().items()}


def _upward(imports: Imports) -> list[tuple[str, str]]:
    """Imports of a module that lies above or beside the one that imports it."""
    out = []
    for module, targets in imports.items():
        here = _layer(module)
        for target in targets:
            same_package = target.split(".")[0] == module.split(".")[0] and here == _layer(target)
            if not (_layer(target) < here or same_package):
                out.append((module, target))
    return out


def _reached(imports: Imports, module: str) -> set[str]:
    """What a module imports, directly or not."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(imports.get(name, ()))
    return seen


def _data(modules: set[str]) -> set[str]:
    """Modules that read data, or open what does."""
    return {m for m in modules if m.startswith(("sources.", "asking.release", "doors.", "_duck."))}


def _plans() -> list[str]:
    """Modules that decide what a release does. A warehouse's is the statement to one of them."""
    return sorted(m for m in _modules() if m.startswith("questions.") and m.endswith(".plan"))


def picture() -> str:
    """The layers as ``docs/how_it_works.md`` shows them, highest first."""
    lines = []
    for names in reversed(LAYERS):
        shown = [name.replace(".", "/") for name in sorted(names)]
        for start in range(0, len(shown), 3):
            lines.append("  " + "    ".join(shown[start : start + 3]))
    return "\n".join(lines)


def table() -> str:
    """The modules as ``docs/how_it_works.md`` lists them: the first sentence of each."""
    lines = ["| file | what is in it |", "| --- | --- |"]
    by_room = sorted(_modules().values(), key=lambda p: (len(p.parts) > ROOT, p.parent, p.name))
    for path in by_room:
        doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        sentence = " ".join(doc.split("\n\n")[0].split()).removesuffix(".").replace("|", "\\|")
        where = path.relative_to(PACKAGE).as_posix()
        if path.name == "__init__.py" and path.parent != PACKAGE:
            lines.append(f"| **`{where.removesuffix('__init__.py')}`** | **{sentence}** |")
        else:
            lines.append(f"| `{where}` | {sentence} |")
    return "\n".join(lines)


def test_the_picture_in_the_documents_is_what_is_checked() -> None:
    """``python -m tests.test_architecture`` writes them, and every layer in it has modules."""
    text = (PACKAGE.parent / "docs" / "how_it_works.md").read_text("utf-8")
    assert f"```\n{picture()}\n```" in text
    assert table() in text
    modules = {"postprocess", *_modules()}
    assert all(name in modules for names in LAYERS for name in names)


def test_imports_point_downward() -> None:
    """A module imports only what lies below it or beside it in its own package."""
    assert _upward(_all_imports()) == []


def test_the_import_rule_can_fail() -> None:
    """A plan that reaches for a source is found, also by a detour that points downward."""
    direct = _all_imports()
    direct["questions.tree_counts.plan"] |= {"sources.tables"}
    assert _upward(direct) == [("questions.tree_counts.plan", "sources.tables")]
    detour = _all_imports()
    detour["accounting.path"] |= {"_duck.relations"}
    assert _upward(detour) == []
    assert "_duck.relations" in _data(_reached(detour, "questions.hhh.plan"))


def test_a_plan_cannot_reach_data() -> None:
    """Nothing that any plan imports, directly or not, is a source, DuckDB, or a frame reader."""
    imports, plans = _all_imports(), _plans()
    assert len(plans) >= 5
    for plan in plans:
        assert not _data(_reached(imports, plan)), plan


def test_only_two_modules_load_duckdb_or_touch_randomness() -> None:
    """``import duckdb`` stands in ``_duck`` alone, ``os.urandom`` in ``noise`` alone."""
    duck, random = set(), set()
    for name, path in _modules().items():
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import) and any(a.name == "duckdb" for a in node.names):
                duck.add(name)
        if "urandom" in text or "secrets." in text or "default_rng" in text:
            random.add(name)
    assert {name.split(".")[0] for name in duck} == {"_duck"}
    assert random == {"noise"}


def test_the_package_says_that_it_is_typed() -> None:
    """The marker of PEP 561 ships, as ``Typing :: Typed`` claims."""
    assert (PACKAGE / "py.typed").exists()


def test_files_fit_a_few_screens() -> None:
    """No file of the package is longer than 330 lines."""
    long = {n: len(p.read_text("utf-8").splitlines()) for n, p in _modules().items()}
    assert {n: k for n, k in long.items() if k > 330} == {}


def test_public_names_are_documented() -> None:
    """Every public name has a docstring; functions name their guarantee and source."""
    import dpframe

    assert sorted(dpframe.__all__) == dpframe.__all__
    for name in dpframe.__all__:
        if not name.startswith("__"):
            assert getattr(dpframe, name).__doc__, name
    for word in ("Parameters", "Returns", "Raises", "Privacy", "References", "Examples"):
        assert word in (dpframe.hhh.__doc__ or "")


TERM = re.compile(r"(ASC|DESC) NULLS (FIRST|LAST)$")


def _statements(path: Path) -> list[str]:
    """Texts of a module other than docstrings; what an f-string puts in stands as {}."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside, out = set(), []
    for node in ast.walk(tree):
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

    A placeholder alone stands for ``_sql.ascending``, which names both.
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
    """Put picture and table into the documents."""
    file = PACKAGE.parent / "docs" / "how_it_works.md"
    text = file.read_text("utf-8")
    text = re.sub(r"\| file \| what is in it \|\n(\|.*\n)+", lambda _: table() + "\n", text)
    at = text.index("```\n  __init__")
    end = text.index("```", at + 3)
    file.write_text(f"{text[:at]}```\n{picture()}\n{text[end:]}", "utf-8")


if __name__ == "__main__":
    write()
