"""Private rollups for DataFrames and SQL.

>>> import pandas as pd, dpframe as dp
>>> plan = dp.explain(["country", "city"], epsilon=1.0, delta=1e-6)

``import dpframe`` also gives every pandas frame the accessor ``.dp``. It loads little: what a name
needs is loaded when the name is first used.
"""

from typing import TYPE_CHECKING, Any

from dpframe import errors as errors
from dpframe._version import __version__
from dpframe.common.calls import load_name as _loaded
from dpframe.common.calls import register_accessors as _register_accessors
from dpframe.questions import question_list as _listed

_HOMES = {
    "dpframe.asking.question": ("Explanation",),
    "dpframe.asking.privacy_receipt": ("Receipt",),
    "dpframe.doors.gateway.client": ("connect",),
    "dpframe.doors.result_methods": ("change",),
    "dpframe.doors.warehouse": (
        "measures_sql",
        "plan_series",
        "rollup_sql",
        "tree_rollup_sql",
    ),
    "dpframe.doors.series.series": ("Series",),
    "dpframe.doors.sql.macros": ("register",),
    "dpframe.doors.sql.query": ("explain_sql", "sql"),
    "dpframe.doors.verify": ("verify",),
    "dpframe.errors": (
        "BudgetError",
        "ColumnError",
        "DpframeError",
        "HierarchyError",
        "LedgerError",
        "OverBudgetError",
        "ParameterError",
        "ParameterTypeError",
        "ReleaseNameError",
        "ReplayedNotice",
        "SourceError",
        "ThresholdError",
    ),
    "dpframe.evaluation.compare": (
        "PrefixComparison",
        "compare",
        "compare_prefix_trees",
    ),
    "dpframe.evaluation": ("wasserstein",),
    "dpframe.hierarchy": (
        *("code", "columns", "cube", "date", "domain", "grouping_sets", "ip", "number", "path"),
        "product",
    ),
    "dpframe.ledger": (
        "Ledger",
        "Spending",
        "default_ledger",
        "use_ledger",
    ),
    "dpframe.measures.measure": (
        "count",
        "distinct",
        "mean",
        "sum",
    ),
    "dpframe.measures.quantile_measures": (
        "histogram",
        "median",
        "quantile",
        "quantiles",
    ),
    "dpframe.publishing.publish": ("publish",),
    "dpframe.sources.row_files": ("csv_file",),
    "dpframe.questions.hhh.ask": ("StreamingHHH",),
    "dpframe.questions.sketches.ask": (
        "MergedSketch",
        "MisraGries",
        "PrivacyAwareMisraGries",
        "merge_sketches",
    ),
    "dpframe.questions.synthesize.generator": ("Generator",),
    "dpframe.questions.synthesize.ask": ("PrivHP",),
}
"""Modules of the public names that are loaded on first use, except the questions."""

_HOME = {name: home for home, names in _HOMES.items() for name in names} | _listed.HOMES

__all__ = [
    "BudgetError",
    "ColumnError",
    "DpframeError",
    "Explanation",
    "Generator",
    "HierarchyError",
    "Ledger",
    "LedgerError",
    "MergedSketch",
    "MisraGries",
    "OverBudgetError",
    "ParameterError",
    "ParameterTypeError",
    "PrefixComparison",
    "PrivHP",
    "PrivacyAwareMisraGries",
    "Receipt",
    "ReleaseNameError",
    "ReplayedNotice",
    "Series",
    "SourceError",
    "Spending",
    "StreamingHHH",
    "ThresholdError",
    "__version__",
    "change",
    "code",
    "columns",
    "compare",
    "compare_prefix_trees",
    "connect",
    "count",
    "csv_file",
    "cube",
    "date",
    "default_ledger",
    "distinct",
    "domain",
    "explain_sql",
    "grouping_sets",
    "histogram",
    "ip",
    "mean",
    "measures_sql",
    "median",
    "merge_sketches",
    "number",
    "path",
    "plan_series",
    "product",
    "publish",
    "quantile",
    "quantiles",
    "register",
    "rollup_sql",
    "sql",
    "sum",
    "tree_rollup_sql",
    "use_ledger",
    "verify",
    "wasserstein",
]
__all__ += _listed.__all__

if not TYPE_CHECKING:  # a type checker would take any name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            hint = ""
            if not name.startswith("_"):
                hint = _loaded("dpframe.asking.measure_texts", "instead_of")(name)
                near = _loaded("dpframe.doors.accessor", "hint_of_name")
                hint = hint or near(name, __all__)
            raise AttributeError(f"module 'dpframe' has no attribute {name!r}.{hint}".rstrip("."))
        value = globals()[name] = _loaded(_HOME[name], name)
        return value

else:
    from dpframe.asking.privacy_receipt import Receipt
    from dpframe.asking.question import Explanation
    from dpframe.doors.gateway.client import connect
    from dpframe.doors.result_methods import change
    from dpframe.doors.series.series import Series
    from dpframe.doors.sql.macros import register
    from dpframe.doors.sql.query import explain_sql, sql
    from dpframe.doors.statements import measures_sql, rollup_sql, tree_rollup_sql
    from dpframe.doors.verify import verify
    from dpframe.doors.warehouse import plan_series
    from dpframe.errors import (
        BudgetError,
        ColumnError,
        DpframeError,
        HierarchyError,
        LedgerError,
        OverBudgetError,
        ParameterError,
        ParameterTypeError,
        ReleaseNameError,
        ReplayedNotice,
        SourceError,
        ThresholdError,
    )
    from dpframe.evaluation import wasserstein
    from dpframe.evaluation.compare import PrefixComparison, compare, compare_prefix_trees
    from dpframe.hierarchy import (
        code,
        columns,
        cube,
        date,
        domain,
        grouping_sets,
        ip,
        number,
        path,
        product,
    )
    from dpframe.ledger import Ledger, Spending, default_ledger, use_ledger
    from dpframe.measures.measure import count, distinct, mean, sum
    from dpframe.measures.quantile_measures import histogram, median, quantile, quantiles
    from dpframe.publishing.publish import publish
    from dpframe.questions.hhh.ask import StreamingHHH
    from dpframe.questions.question_list import *  # noqa: F403
    from dpframe.questions.sketches.ask import (
        MergedSketch,
        MisraGries,
        PrivacyAwareMisraGries,
        merge_sketches,
    )
    from dpframe.questions.synthesize.ask import PrivHP
    from dpframe.questions.synthesize.generator import Generator
    from dpframe.sources.row_files import csv_file


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


_register_accessors(
    {
        "pandas": ("dpframe.doors.accessor", "DpAccessor"),
        "polars": ("dpframe.doors.accessor", "PolarsAccessor"),
    }
)
