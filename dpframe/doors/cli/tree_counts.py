"""The commands ``dpframe tree-counts`` and ``dpframe explain-tree-counts``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dpframe.doors.cli.output import add_release_arguments, run_explain, run_release
from dpframe.errors import ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.questions.tree_counts.ask import TREE_COUNTS
from dpframe.questions.tree_counts.plan import TREE_MECHANISMS
from dpframe.sources.relations import rows_of

if TYPE_CHECKING:
    import pyarrow as pa


def add_tree_commands(commands: Any) -> None:
    """Add both to the subcommands of a parser."""
    run = commands.add_parser("tree-counts", help="noisy counts of all nodes of a hierarchy")
    run.add_argument("file", help="a parquet or CSV file, or several: 'logs/*.parquet'")
    _arguments(run)
    add_release_arguments(run)
    run.set_defaults(run=_tree_counts)
    explain = commands.add_parser(
        "explain-tree-counts", help="what tree-counts would do; reads no data, spends nothing"
    )
    _arguments(explain)
    explain.set_defaults(run=_explain)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hierarchy", help="for example columns:country,city")
    parser.add_argument("--epsilon", type=float, help="privacy budget; no default")
    parser.add_argument("--delta", type=float, help="privacy budget; needed without --keys")
    parser.add_argument("--keys", help="a parquet or CSV file that lists all keys, or 'domain'")
    parser.add_argument("--user", help="column that identifies a person")
    parser.add_argument("--contribution", help="share (default) or records; with --user")
    parser.add_argument("--max-contributions", type=int, help="with records")
    parser.add_argument("--weight", help="column that says for how many records a row stands")
    parser.add_argument("--max-weight", type=int, help="protect rows of at most so many records")
    parser.add_argument("--mechanism", default="additive", help=", ".join(TREE_MECHANISMS))
    parser.add_argument("--level-weights", help="parts of the budget, level 0 first: 1,2,2")
    parser.add_argument("--threshold", type=int, help="default: the smallest private one")
    parser.add_argument("--raw", action="store_true", help="counts as drawn, which do not add up")
    parser.add_argument("--confidence", type=float, default=0.95, help="default: %(default)s")
    parser.add_argument("--alpha", type=float, help="relative error; --mechanism relative")
    parser.add_argument("--largest", type=int, help="most records there can be; with relative")


def _given(options: argparse.Namespace) -> dict[str, object]:
    own = ("keys", "level_weights", "consistent")
    return {
        **{name: getattr(options, name) for name in TREE_COUNTS.planning if name not in own},
        "keys": _keys(options.keys, options.hierarchy),
        "level_weights": _numbers(options.level_weights),
        "consistent": not options.raw,
    }


def _keys(given: str | None, hierarchy: str) -> pa.Table | str | None:
    """The keys in a file, as values of the hierarchy's columns."""
    if given is None or given == "domain":
        return given
    return rows_of(given, as_hierarchy(hierarchy).source_columns)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            f"level-weights ({text!r}) must be numbers with commas between, as 1,2,2."
        ) from None


def _tree_counts(options: argparse.Namespace) -> int:
    return run_release(options, TREE_COUNTS, _given)


def _explain(options: argparse.Namespace) -> int:
    return run_explain(TREE_COUNTS, _given, options)
