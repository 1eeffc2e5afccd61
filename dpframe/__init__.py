"""Private rollups for DataFrames and SQL.

>>> import pandas as pd, dpframe as dp
>>> plan = dp.explain(["country", "city"], epsilon=1.0, delta=1e-6)

``import dpframe`` also gives every pandas frame the accessor ``.dp``.
"""

from dpframe import _forking as _forking
from dpframe._version import __version__
from dpframe.asking.explanation import Explanation
from dpframe.asking.receipt import Receipt
from dpframe.doors.changes import change
from dpframe.doors.planned_series import plan_series
from dpframe.doors.series.series import Series
from dpframe.doors.sql.register import register
from dpframe.doors.warehouse import measures_sql, rollup_sql, tree_rollup_sql
from dpframe.doors.when_pandas import register_accessor
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
from dpframe.evaluation.compare import compare
from dpframe.evaluation.compare_prefix import PrefixComparison, compare_prefix_trees
from dpframe.evaluation.wasserstein import wasserstein
from dpframe.hierarchy import code, columns, date, domain, ip, number, path
from dpframe.ledger import Ledger, Spending, use_ledger
from dpframe.measures import count, distinct, mean, sum
from dpframe.publishing.publish import publish
from dpframe.questions import listed as _listed
from dpframe.questions.hhh.stream import StreamingHHH
from dpframe.questions.listed import *  # noqa: F403
from dpframe.questions.sketches.ask import (
    MergedSketch,
    MisraGries,
    PrivacyAwareMisraGries,
    merge_sketches,
)
from dpframe.questions.synthesize.generator import Generator
from dpframe.questions.synthesize.privhp import PrivHP

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
    "count",
    "date",
    "distinct",
    "domain",
    "ip",
    "mean",
    "measures_sql",
    "merge_sketches",
    "number",
    "path",
    "plan_series",
    "publish",
    "register",
    "rollup_sql",
    "sum",
    "tree_rollup_sql",
    "use_ledger",
    "wasserstein",
]
__all__ += _listed.__all__

register_accessor()
