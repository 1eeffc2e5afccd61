"""What is made of declarations beside SQL: references in the docs, signatures for type checkers.

The site shows long signatures short, with parameters in groups (``docs/conf.py``).

``python -m tests.references`` writes them.
"""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import duckdb

import dpframe as dp
from dpframe.doors.cli.main import command_parser
from dpframe.doors.gateway import client
from tests.sql.written_queries import written

HERE = Path(__file__).resolve().parents[1]
MADE = "<!-- made by python -m tests.references -->"


def sql_reference() -> str:
    """Every table function, as ``dp_functions()`` tells."""
    with duckdb.connect() as con:
        dp.register(con)
        told = con.execute("FROM dp_functions()").fetchall()
    lines = [
        "# SQL functions",
        MADE,
        "After `dp.register(con)`. Parameters are given by name, `epsilon := 1.0`, or in this "
        "order; [SQL in DuckDB](sql.md) explains them, and the [Python reference](api.md) each "
        "question.",
    ]
    for name, parameters, about in told:
        lines += [f"## {name}", f"`{name}({', '.join(parameters)})`", f"{_plain(about)}."]
    return "\n\n".join(lines) + "\n"


def command_reference() -> str:
    """Every command with its options, as its parser tells."""
    lines = ["# Commands", MADE, "[On the command line](command_line.md) says what goes where."]
    for name, parser, about in commands(command_parser()):
        lines += [f"## dpframe {name}", f"{_plain(about)}."] if about else [f"## dpframe {name}"]
        rows = [
            f"| {_named(action)} | {_plain(parser_help(parser, action))} |"
            for action in parser._actions
            if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        ]
        if rows:
            lines.append("\n".join(["| option | what it is |", "| --- | --- |", *rows]))
    return "\n\n".join(lines) + "\n"


def commands(
    parser: argparse.ArgumentParser, before: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Name, parser and help of each, those within others too."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            seen: set[int] = set()
            for name, command in action.choices.items():
                if id(command) not in seen and name in helps:
                    seen.add(id(command))
                    yield f"{before}{name}", command, helps[name]
                    yield from commands(command, f"{before}{name} ")


def parser_help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = action.help or ""
    return text % {**vars(action), "prog": parser.prog} if "%(" in text else text


def _named(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    if not names:
        return f"`{action.metavar or action.dest.upper()}`"
    choices = f" {' or '.join(f'`{c}`' for c in action.choices)}" if action.choices else ""
    return names + choices


def _plain(text: str) -> str:
    """Text of a page: no markup, and no end of a cell."""
    for mark in ("\\", "`", "*", "_", "<", ">", "|", "[", "]", "$"):
        text = text.replace(mark, f"\\{mark}")
    return text.rstrip(".")


def sql_queries() -> str:
    """What people write in SQL, by its origin, and what each query becomes."""
    queries = written()
    refused = sum("refused" in one.said for one in queries)
    page = (HERE / "docs/sql_queries.md").read_text("utf-8")
    lines = [
        page.partition(MADE)[0].strip(),  # the guide, which is written by hand
        MADE,
        "## What is answered",
        f"`dp.sql` is tested with {len(queries)} queries: {len(queries) - refused} are answered, "
        f"by record or by user, and {refused} are refused. Each answer is compared with that of "
        "its question, drawn alike, and with DuckDB's own answer to the query. We wrote queries in "
        "the forms that tools send (`tests/sql/written`). The table says what each becomes: the "
        "keys, then the "
        "measures. Everything else of a query runs on released rows.",
    ]
    for origin in dict.fromkeys(one.origin for one in queries):
        rows = [
            f"| {_plain(one.title)} | {_plain(becomes(one.said))} |"
            for one in queries
            if one.origin == origin
        ]
        lines += [f"### {origin}", "\n".join(["| query | becomes |", "| --- | --- |", *rows])]
    return "\n\n".join(lines) + "\n"


def becomes(said: Mapping[str, str]) -> str:
    """The question of a query in a few words, or why it is refused."""
    if "refused" in said:
        return "refused: " + re.sub(r"^.*\(line \d+, column \d+\): ", "", said["refused"])
    keys = ", ".join(one.split(" = ")[0] for one in said.get("by", "").split("; "))
    measures = [one.split(" if ") for one in said.get("of", "keys alone").split("; ")]
    asked = dict.fromkeys(
        (one[0] if one[0] == "keys alone" else one[0].split()[0]) + (" where" if one[1:] else "")
        for one in measures
    )
    level = {"rollup": "ROLLUP of ", None: "by "}.get(said.get("levels"), "sets of ")
    return f"{level + keys if keys else 'all rows'}: {', '.join(asked)}"


STATEMENTS = "measures_sql", "rollup_sql", "tree_rollup_sql"
HOMES = {
    "collections.abc": ("Mapping", "Sequence"),
    "datetime": ("date",),
    "typing": ("Any", "Generic", "TypeVar"),
    "dpframe.asking.question": ("Explanation",),
    "dpframe.asking.warehouse_plan": ("RollupSql",),
    "dpframe.hierarchy": ("Hierarchy",),
    "dpframe.measures.measure": ("Measure",),
    "dpframe.periods": ("Period",),
}
"""Where the types of arguments are."""


def statements() -> str:
    """The signatures of statements for warehouses, which are those of their questions and more."""
    signatures = {name: inspect.signature(getattr(dp, name)) for name in STATEMENTS}
    stubs = [_stub(name, signature) for name, signature in signatures.items()]
    return _stub_file("Statements for warehouses", [], stubs)


def remote_questions() -> str:
    """The methods of a data set of a gateway, which are those of the questions, without what a
    policy sets."""
    methods = []
    for functions in client.SERVED.values():
        for asked in functions:
            signature = client.remote_signature(asked)
            returned = "F" if signature.return_annotation == "pd.DataFrame" else "Explanation[Any]"
            signature = signature.replace(return_annotation=returned)
            first = (asked.__doc__ or "").strip().splitlines()[0]
            first = re.sub(r":func:`(\w+)`", r"\1", first)
            stub = _stub(asked.__name__, signature).removesuffix(" ...")
            methods += [textwrap.indent(f'{stub}\n    """{first}"""', "    ")]
    about = '"""The questions of a gateway; ``F`` is the kind of its frames."""'
    head = ['F = TypeVar("F")', "", f"class RemoteQuestions(Generic[F]):\n    {about}"]
    return _stub_file("Questions of a gateway", head, methods)


def _stub_file(what: str, head: Sequence[str], stubs: Sequence[str]) -> str:
    said = {*re.findall(r"\w+", " ".join([*head, *stubs]))}
    words = {home: [n for n in names if n in said] for home, names in HOMES.items()}
    imports = [f"from {home} import {', '.join(names)}" for home, names in words.items() if names]
    return "\n".join(
        [
            f'"""{what}, as type checkers read them.',
            "",
            "Made by ``python -m tests.references`` of the declarations of questions.",
            '"""',
            "",
            *(line for line in imports if "dpframe" not in line),
            "",
            "import pandas as pd",
            "",
            *(line for line in imports if "dpframe" in line),
            "",
            *head,
            *stubs,
            "",
        ]
    )


def _stub(name: str, signature: inspect.Signature) -> str:
    lines, by_name = [], False
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not by_name:
            lines, by_name = [*lines, "    *,"], True
        kind = "" if p.name == "self" else f": {p.annotation}"
        default = "" if p.default is p.empty else f" = {_written(p.default)}"
        lines.append(f"    {p.name}{kind}{default},")
    return "\n".join([f"def {name}(", *lines, f") -> {signature.return_annotation}: ..."])


def _written(default: object) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


LONG = 6
"""Parameters of a signature that is shown whole."""

GROUPS = {
    "Parameters": "source hierarchy by measures column columns k table dialect types epsilon delta",
    "Who is protected": "user contribution max_contributions at_most nodes_per_user devices "
    "participation neighbours",
    "What is shown": "threshold keys heavy remainder totals weight max_weight consistent "
    "confidence",
    "How it is computed": "",
    "Period, budget and name": "period ledger release data progress",
    "Counted elsewhere": "candidates plan",
}
"""Parameters of the questions by subject; those without one are of the computation."""

GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}
PARAMETERS = re.compile(
    r"^Parameters\n-+\n(.*?)\n(?=\n\S[^\n]*\n-{3,}\n|\Z)", re.DOTALL | re.MULTILINE
)
PAGE = re.compile(r"(?<!`)docs/([\w/-]+)\.md")


def _parameters(what: object) -> dict[str, inspect.Parameter]:
    try:
        found = dict(inspect.signature(what).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return {}
    found.pop("self", None)
    return found


def short_signature(what: object) -> str | None:
    """What a call must name, if there is much more."""
    parameters = _parameters(what)
    if len(parameters) <= LONG:
        return None
    shown: list[str] = []
    for p in parameters.values():
        if p.kind is p.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        if p.kind is not p.KEYWORD_ONLY or p.default is p.empty or p.name in ("epsilon", "delta"):
            shown.append(p.name)
    return f"({', '.join(shown)}, ...)"


def grouped_parameters(what: object, text: str) -> str:
    """A docstring with the parameters of a long signature by subject, and with links to pages."""
    parameters = _parameters(what)
    text = PAGE.sub(r":doc:`/\1`", text)
    section = PARAMETERS.search(text)
    if len(parameters) <= LONG or not section:
        return text
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    for entry in re.split(r"\n(?=\S)", section[1].rstrip()):
        head, _, about = entry.partition("\n")
        name = re.split("[,: ]", head)[0]
        typed = head if ":" in head else f"{head} : {_type(parameters.get(name))}".rstrip(" :")
        group = GROUP_OF.get(name, "How it is computed")
        groups[group].append(f"{typed}\n{about}" if about else typed)
    made = [f"{g}\n{'-' * len(g)}\n" + "\n".join(e) + "\n" for g, e in groups.items() if e]
    return text[: section.start()] + "\n".join(made) + text[section.end() :]


def _type(parameter: inspect.Parameter | None) -> str:
    if parameter is None or parameter.annotation is parameter.empty:
        return ""
    said = str(parameter.annotation).removesuffix(" | None")
    if parameter.default in (None, parameter.empty):
        return said
    return f"{said}, default {parameter.default!r}"


MADE_FILES: dict[str, Callable[[], str]] = {
    "docs/sql_reference.md": sql_reference,
    "docs/command_reference.md": command_reference,
    "docs/sql_queries.md": sql_queries,
    "dpframe/doors/statements.pyi": statements,
    "dpframe/doors/gateway/remote_questions.pyi": remote_questions,
}

if __name__ == "__main__":
    for name, made in MADE_FILES.items():
        (HERE / name).write_text(made(), "utf-8")
