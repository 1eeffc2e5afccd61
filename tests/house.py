"""How the house stands, counted: ``python -m tests.house [FOLDER]``, for any checkout.

Everything is read from the sources, but for the files that a call enters, which is run.
"""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

PLANNING = {
    *("hierarchy", "epsilon", "delta", "threshold", "user", "contribution", "max_contributions"),
    *("mechanism", "remainder", "release_share", "confidence", "acknowledge", "counters"),
}
"""The arguments that a plan of ``hhh`` is made of."""

OTHERS = {
    "alpha", "columns", "deny", "depth", "devices", "encoding", "iterations", "keys", "largest",
    "level_weights", "max_weight", "rounds", "segments", "weight", "width",
}  # fmt: skip
"""Arguments of other questions alone."""

SPELT_OUT = 8
"""Of them in one place are a list that whoever adds an argument has to find."""

HELD = re.compile(
    r"(?<!Warehouse)(Plan|Laws|Law|NoiseTable|UnboundedNoise|Asked|(Hhh|Heavy\w*)Arguments|"
    r"(Rollup|Sketch|Tree|Prefix|Synthesis)Request)$"
)
"""Names of plans and laws; that of a warehouse is an argument, and arguments are checked."""

COUNTED = {"CountTree", "Sketched", "NoisyNodes", "NoisyTree", "NoisySketch", "Population"} | {
    "Partition",
    "HotPartition",
    "UserSketches",
}
"""Names of what is counted, and of what is drawn from it."""

GENERATED = re.compile(r"\A(--.*\n)*-- Written by `python")
"""How SQL begins that nobody writes."""

QUESTIONS = ("tree_counts", "prefix_tree", "synthesize")
"""Those by which the cost of another one is measured."""

ENTERED = """
import os, sys
import pandas as pd, dpframe as dp
home, seen, deepest = os.path.dirname(dp.__file__) + os.sep, set(), 0
trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300, "ip": ["10.0.0.1"] * 300})
given = {"epsilon": 1.0, "delta": 1e-6}
calls = {
    "hhh": lambda: trips.dp.hhh("ip:ip", **given),
    "rollup": lambda: trips.dp.rollup(["origin", "dest"], dp.count(), **given),
    "cube": lambda: trips.dp.hhh(["ip:ip", "origin"], **given),
}
def enter(frame, event, _):
    global deepest
    if event == "call" and frame.f_code.co_filename.startswith(home):
        seen.add(frame.f_code.co_filename)
        stack = 0
        while frame is not None:
            stack += frame.f_code.co_filename.startswith(home)
            frame = frame.f_back
        deepest = max(deepest, stack)
for name, call in calls.items():
    call()  # what is kept is there
    seen, deepest = set(), 0
    sys.setprofile(enter)
    call()
    sys.setprofile(None)
    print(name, len(seen), deepest)
"""


@dataclass(frozen=True)
class Spelt:
    """One place that spells planning arguments out."""

    file: str
    line: int
    kind: str
    others: int = 0
    """Arguments that only other questions have."""
    declares: str | None = None
    """The question whose public signature it is, or that it answers."""


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a module, walked once: most laws look at each."""
    return tuple(ast.walk(tree))


@dataclass(frozen=True)
class House:
    """A checkout of the package."""

    root: Path

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The modules, by their path in the package."""
        package = self.root / "dpframe"
        return {
            path.relative_to(package).as_posix(): ast.parse(path.read_text("utf-8"))
            for path in sorted(package.rglob("*.py"))
        }

    # -- lists of arguments ---------------------------------------------------------------------

    @cached_property
    def spelt(self) -> list[Spelt]:
        """Signatures, calls, dicts, tuples and classes that name enough planning arguments."""
        return [
            Spelt(file, n.lineno, type(n).__name__, len(OTHERS & _named(n)), _declares(n))
            for file, tree in self.trees.items()
            for n in nodes_of(tree)
            if isinstance(n, ast.stmt | ast.expr) and len(PLANNING & _named(n)) >= SPELT_OUT
        ]

    @property
    def lists(self) -> list[Spelt]:
        """Those of ``hhh``: a question's own signature, call and room say what is that question's,
        and the table of short helps has those of all questions."""
        return [
            s
            for s in self.spelt
            if s.declares in (None, "hhh")
            and s.others < SPELT_OUT
            and (not s.file.startswith("questions/") or s.file.startswith("questions/hhh/"))
        ]

    def _written_sql(self) -> list[Path]:
        files = {p: p.read_text("utf-8") for p in sorted((self.root / "sql").glob("*.sql"))}
        return [path for path, text in files.items() if not GENERATED.search(text)]

    @property
    def for_an_argument(self) -> list[str]:
        """Files to touch for a new argument of ``hhh``: those that list its arguments."""
        written = [
            path.name
            for path in self._written_sql()
            if len(PLANNING & set(re.findall(r"\w+", path.read_text("utf-8")))) >= SPELT_OUT
        ]
        return sorted({s.file for s in self.lists}) + written

    # -- what is found out by asking for the type ---------------------------------------------

    @cached_property
    def asked_for_types(self) -> dict[str, int]:
        """``isinstance`` on plans, laws, counted and drawn values, by file."""
        found: Counter[str] = Counter()
        for file, tree in self.trees.items():
            for node in nodes_of(tree):
                if isinstance(node, ast.Call) and _is_name(node.func, "isinstance"):
                    names = _names(node.args[1])
                    found[file] += any(HELD.search(n) or n in COUNTED for n in names)
        return {file: count for file, count in found.most_common() if count}

    @property
    def places_of_types(self) -> dict[str, int]:
        """In how many files of a room that is asked."""
        return Counter(map(_narrow_room, self.asked_for_types))

    @property
    def untyped_methods(self) -> int:
        """Methods of the accessor that take ``**arguments: Any``."""
        return sum(
            isinstance(node, ast.FunctionDef)
            and [one.arg for one in node.args.args[:1]] == ["self"]
            and node.args.kwarg is not None
            and (kind := node.args.kwarg.annotation) is not None
            and ast.unparse(kind) in ("Any", "object")
            for file, tree in self.trees.items()
            if file.endswith("accessor.py")
            for node in nodes_of(tree)
        )

    @property
    def unions(self) -> list[str]:
        """Names for any of several types."""
        return [
            target.id
            for tree in self.trees.values()
            for node in nodes_of(tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)
            for target in node.targets
            if isinstance(target, ast.Name) and re.match(r"Any[A-Z]", target.id)
        ]

    # -- texts that are read ----------------------------------------------------------------------

    @cached_property
    def texts_as_data(self) -> list[tuple[str, str]]:
        """File and source of each expression that reads or patches an English text."""
        return [
            (file, ast.unparse(node))
            for file, tree in self.trees.items()
            for node in nodes_of(tree)
            if _reads_text(node)
        ]

    # -- names and messages -----------------------------------------------------------------------

    @cached_property
    def functions(self) -> list[tuple[str, str]]:
        """File and name of every function that stands at the top of a file."""
        return [
            (file, node.name)
            for file, tree in self.trees.items()
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
        ]

    @property
    def distinct_names(self) -> float:
        """How many names there are for every function."""
        return len({name for _, name in self.functions}) / len(self.functions)

    @property
    def poor_names(self) -> list[tuple[str, str]]:
        """File and name of functions, classes and files that are called by no noun or verb."""
        classes = [
            (file, node.name)
            for file, tree in self.trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        ]
        files = [(file, Path(file).stem) for file in self.trees]
        return [(f, n) for f, n in (*self.functions, *classes, *files) if is_poor(n)]

    @cached_property
    def messages(self) -> list[str]:
        """Texts of the errors that are raised, with X for each value in them."""
        return [
            text
            for tree in self.trees.values()
            for node in nodes_of(tree)
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args
            if (text := _text_of(node.exc.args[0])) is not None
        ]

    @property
    def words_of_messages(self) -> list[int]:
        return [len(text.split()) for text in self.messages]

    @cached_property
    def circles(self) -> list[list[str]]:
        """Files that import from each other, directly or not."""
        arrows: dict[str, set[str]] = {file: set() for file in self.trees}
        for file, tree in self.trees.items():
            for node in nodes_of(tree):
                arrows[file] |= self._files_of(node)
            arrows[file].discard(file)
        reached = {file: set(targets) for file, targets in arrows.items()}
        for middle in reached:
            for targets in reached.values():
                if middle in targets:
                    targets |= reached[middle]
        in_circle = [file for file in reached if file in reached[file]]
        return sorted(
            {tuple(g for g in in_circle if g in reached[f] and f in reached[g]) for f in in_circle}
        )  # type: ignore[return-value]

    def _files_of(self, node: ast.AST) -> set[str]:
        """The files that a statement imports from."""
        if isinstance(node, ast.Import):
            names = [alias.name.removeprefix("dpframe.") for alias in node.names]
            return {f"{name.replace('.', '/')}.py" for name in names} & self.trees.keys()
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("dpframe"):
            return set()
        base = (node.module or "").removeprefix("dpframe").strip(".").replace(".", "/")
        within = {f"{base}/{alias.name}.py".lstrip("/") for alias in node.names} & self.trees.keys()
        return within or {f"{base}.py"} & self.trees.keys()

    # -- a new question --------------------------------------------------------------------------

    def for_a_question(self, name: str) -> list[str]:
        """Files that name a question, its plan or its parts: other than its room and mechanism."""
        own = re.compile(
            {
                "tree_counts": r"tree_?counts|tree_(plan|receipt|frame|lines)|TreePlan",
                "prefix_tree": r"prefix_?tree|prefix_(plan|receipt|frame|lines)|PrefixPlan",
                "synthesize": r"synthesize|synthetic_|SyntheticPlan",
            }[name],
            re.IGNORECASE,
        )
        home = ("mechanisms/", "accounting/", "federated/", "papers.py", "evaluation/")
        inside = (f"questions/{name}/", *home)
        named = [
            file
            for file, tree in self.trees.items()
            if not file.startswith(inside) and any(own.search(text) for text in _words(tree))
        ]
        return named + [p.name for p in self._written_sql() if own.search(p.read_text("utf-8"))]

    @property
    def lines_on_draws(self) -> int:
        """Lines of questions that tell receipt, card, curve and proof, and of the verifier's
        comparison of receipt and proof."""
        telling = sum(
            (node.end_lineno or 0) + 1 - min([node, *node.decorator_list], key=_line).lineno
            for file, tree in self.trees.items()
            if file.startswith("questions/")
            for node in nodes_of(tree)
            if isinstance(node, ast.FunctionDef) and _tells_draws(node)
        )
        files = [self.root / "dpframe" / "verifier" / f"{name}.py" for name in COMPARISON]
        compared = sum(lines_in(f) for f in files if f.exists())
        return telling + compared

    @cached_property
    def entered(self) -> dict[str, tuple[int, int]]:
        """By question: files of the package that a warm call enters, and the most calls of them in
        a stack."""
        done = subprocess.run(
            [sys.executable, "-c", ENTERED],
            cwd=self.root,
            env={"PYTHONPATH": str(self.root), "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        told = (line.split() for line in done.stdout.splitlines())
        return {name: (int(files), int(stack)) for name, files, stack in told}

    @property
    def lines(self) -> int:
        """Lines of the library."""
        return sum(lines_in(self.root / "dpframe" / file) for file in self.trees)

    @property
    def lines_of_tests(self) -> int:
        return sum(map(lines_in, (self.root / "tests").rglob("*.py")))

    @property
    def root_modules(self) -> list[str]:
        """Files of the package that are in no room."""
        return [file for file in self.trees if "/" not in file]

    @property
    def poor_methods(self) -> list[tuple[str, str]]:
        """File and name of methods that are called by no noun or verb, but for public ones."""
        return [
            (file, method.name)
            for file, tree in self.trees.items()
            for node in nodes_of(tree)
            if isinstance(node, ast.ClassDef)
            for method in node.body
            if isinstance(method, ast.FunctionDef)
            and is_poor(method.name)
            and not method.name.startswith("__")
            and (node.name, method.name) not in PUBLIC_METHODS
        ]

    def rows(self) -> list[tuple[str, object]]:
        types = self.asked_for_types
        return [
            ("places that spell planning arguments of hhh out", len(self.spelt)),
            ("  of them of hhh alone", len(self.lists)),
            ("files to touch for a new argument of hhh", len(self.for_an_argument)),
            *(
                (f"files elsewhere that name {name}", len(self.for_a_question(name)))
                for name in QUESTIONS
            ),
            ("isinstance on plans, laws, counted values", sum(types.values())),
            ("  most in one file", max(types.values(), default=0)),
            ("  rooms with several such files", sum(n > 1 for n in self.places_of_types.values())),
            ("methods of df.dp with **arguments", self.untyped_methods),
            ("unions Any*", len(self.unions)),
            ("functions at the top of a file", len(self.functions)),
            ("  distinct names of them, a hundred", round(100 * self.distinct_names, 1)),
            ("names that are no noun or verb", len(self.poor_names)),
            ("words of a message, median", statistics.median(self.words_of_messages)),
            ("  longest", max(self.words_of_messages)),
            ("circles of files", len(self.circles)),
            ("places that read English texts as data", len(self.texts_as_data)),
            ("lines on draws: receipt, card, curve, proof, comparison", self.lines_on_draws),
            ("lines of the library", self.lines),
            ("  files", len(self.trees)),
            ("  files in no room", len(self.root_modules)),
            ("lines of tests", self.lines_of_tests),
            *(
                (f"files that a warm {name} enters, and its deepest stack", entered)
                for name, entered in self.entered.items()
            ),
        ]


PUBLIC_METHODS = {
    ("Ledger", "spent"), ("Ledger", "left"), ("Ledger", "within"), ("Ledger", "drawing"),
    ("ResultMethods", "above"), ("ResultMethods", "below"),
    ("ResumingLedger", "drawing"), ("PromptLedger", "drawing"),
}  # fmt: skip
"""Methods that users call, whose names stay."""


COMPARISON = ("receipt_facts", "facts")
"""Files of the verifier that compare a receipt with its proof."""

TELLING = re.compile(r"_(facts|text|words|line|lines|notices|draws?)$|^(noise|draws|errors|facts)$")


def lines_in(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


def _line(node: ast.expr | ast.stmt) -> int:
    return node.lineno


def _tells_draws(node: ast.FunctionDef) -> bool:
    """Whether a function makes a line, a receipt, a list of draws or a curve, by type or name."""
    types = {"Line", "Receipt", "Draw", "DrawList", "Profile"}
    returned = _names(node.returns) if node.returns is not None else set()
    return bool(types & returned) or TELLING.search(node.name) is not None


def _named(node: ast.AST) -> set[str]:
    """Parameters, arguments, keys, entries or fields that a node lists."""
    match node:
        case ast.FunctionDef(args=a) | ast.Lambda(args=a):
            return {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
        case ast.Call():
            return {k.arg or "" for k in node.keywords} | _entries(node.args)
        case ast.Dict():
            return _entries([key for key in node.keys if key is not None])
        case ast.Tuple() | ast.List() | ast.Set():
            return _entries(node.elts)
        case ast.ClassDef():
            return {s.target.id for s in node.body if isinstance(s, ast.AnnAssign)
                    and isinstance(s.target, ast.Name)}  # fmt: skip
    return set()


def _entries(nodes: list[ast.expr]) -> set[str]:
    values = [getattr(n, "id", getattr(n, "attr", getattr(n, "value", None))) for n in nodes]
    return {value for value in values if isinstance(value, str)}


def _declares(node: ast.AST) -> str | None:
    match node:
        case ast.FunctionDef(name=name) | ast.Call(args=[ast.Name(id=name), *_]):
            if {"source", "ledger", "release"} <= _named(node):
                return name.lower()
    return None


def is_poor(name: str) -> bool:
    """Whether a name is a single word that says what was done, or where, and not to what."""
    words = re.findall("[A-Za-z][a-z]*", name)
    word = name.strip("_").lower()
    ends_like_one = re.fullmatch("[a-z]+(ed|ing)", word) and word not in NOUNS
    return len(words) == 1 and (word in NO_NAMES or bool(ends_like_one))


PARTICIPLES = """
found shown told kept said given written standing remade located made held left known drawn taken
seen sent built lost gone done begun chosen hidden meant sold spent thrown
"""
OTHER_WORDS = """
own sweep above within alone apart both each either every few many none other others same some such
that these this those together whole again also them they it which who what here there where when
then now beside besides between beyond about after before below
"""
NO_NAMES = frozenset(f"{PARTICIPLES} {OTHER_WORDS}".split())
"""Words that may not be the name of a function, a class or a file."""

NOUNS = frozenset(("encoding", "reading", "rounding", "spending", "testing", "timing"))
"""Nouns that end like participles."""


def _text_of(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(p.value if isinstance(p, ast.Constant) else "X" for p in parts)
    return None


def _reads_text(node: ast.AST) -> bool:
    """Whether words are looked for in, or taken out of, something whose name says that it is prose.
    Ends of lines and sentences may be, and the sign that argparse fills."""
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=value), args=arguments):
            if method not in READING:
                return False
            of = arguments if ast.unparse(value) == "re" else [value]
            words = [n.value for a in arguments for n in ast.walk(a) if isinstance(n, ast.Constant)]
            plain = words and all(word in ("\n", ".", "?", "%", "%%", "-", "_") for word in words)
            return not plain and any(PROSE.search(ast.unparse(one)) for one in of)
        case ast.Compare(left=ast.Constant(value=str(word)), ops=[ast.In() | ast.NotIn()]):
            of = ast.unparse(node.comparators[0])
            return bool(PROSE.search(of)) and (" " in word or of.startswith("str("))
    return False


READING = {
    *("replace", "removesuffix", "removeprefix", "partition", "rpartition", "startswith", "find"),
    *("endswith", "rstrip", "lstrip", "strip", "split", "match", "fullmatch", "search", "sub"),
}
"""Methods by which texts are read or patched."""

PROSE = re.compile(
    r"\b(meaning|meaning_text|said|sentence|neighbours|guarantee|told|words|__doc__|message|reason|notices?|why)\b"
    r"|str\((error|raised)\)|\['(card|intervals|guarantee|neighbours|counts|notices|frame|budget)'\]"
)
"""What expressions that hold prose are called."""


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _names(node: ast.AST) -> set[str]:
    return {n.id if isinstance(n, ast.Name) else n.attr
            for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)}  # fmt: skip


def _words(tree: ast.Module) -> Iterator[str]:
    """Names, imports and texts of a module; no docstrings."""
    for node in nodes_of(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.alias(name=word):
                yield word
            case ast.FunctionDef(name=word) | ast.ClassDef(name=word) | ast.keyword(arg=str(word)):
                yield word
            case ast.ImportFrom(module=str(word)):
                yield word
            case ast.Constant(value=str(word)) if "\n" not in word:
                yield word


def _narrow_room(file: str) -> str:
    """A question's own, and a mechanism's file: each stands by itself."""
    parts = file.split("/")
    return "/".join(parts[:2]) if parts[0] in ("questions", "mechanisms") else parts[0]


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    house = House(root.resolve())
    for what, value in house.rows():
        print(f"{what:52} {value!s:>6}")
    for spelt in house.lists:
        print(f"  {spelt.file}:{spelt.line}  {spelt.kind}")
    for file, count in house.asked_for_types.items():
        print(f"  isinstance {count:3}  {file}")


if __name__ == "__main__":
    main()
