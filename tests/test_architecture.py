"""The layout is the architecture: imports point one way, plans cannot reach data."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "dpframe"

LAYERS = [
    {"errors", "_version", "_sql", "_forking"},
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
    {"plan_laws"},
    {"plan", "sketch_plan", "tree_plan", "synthetic_plan", "prefix_plan", "ledger"},
    {"partition_plan"},
    {"quantities"},
    {"advice", "tree_quantities", "synthetic_quantities", "prefix_quantities"},
    {"receipt", "sources", "postprocess.tidy", "postprocess.nesting"},
    {"tree_frame", "tree_receipt", "synthetic_receipt", "prefix_receipt"},
    {"sketch_receipt", "sketch_frame"},
    {"release"},
    {"frontends"},
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
    if module == "postprocess":
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


@pytest.mark.parametrize("module", sorted(_modules()))
def test_imports_point_downward(module: str) -> None:
    """A module imports only what lies below it or beside it in its own package."""
    here = _layer(module)
    for target in _imports(_modules()[module]):
        same_package = target.split(".")[0] == module.split(".")[0] and here == _layer(target)
        assert _layer(target) < here or same_package, f"{module} must not import {target}"


def test_the_import_rule_can_fail() -> None:
    """The rule rejects a plan that reaches for a source (a planted violation)."""
    assert _layer("sources.tables") > _layer("plan")
    assert _layer("plan") > _layer("accounting.path")


def test_a_plan_cannot_reach_data() -> None:
    """Nothing that ``plan`` imports, directly or not, is a source, DuckDB, or a frame reader."""
    modules = _modules()
    seen: set[str] = set()
    waiting = ["plan"]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in modules:
            continue
        seen.add(name)
        waiting.extend(_imports(modules[name]))
    assert not {m for m in seen if m.startswith(("sources", "release", "frontends", "_duck"))}


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
