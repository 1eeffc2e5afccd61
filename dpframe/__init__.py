"""Private rollups for DataFrames and SQL.

>>> import pandas as pd, dpframe as dp
>>> plan = dp.explain(["country", "city"], epsilon=1.0, delta=1e-6)

``import dpframe`` also gives every pandas frame the accessor ``.dp``.
"""

from dpframe import _forking as _forking
from dpframe._version import __version__
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
from dpframe.frontends.compare import compare
from dpframe.frontends.compare_prefix import PrefixComparison, compare_prefix_trees
from dpframe.frontends.duckdb_functions import register
from dpframe.frontends.functions import explain, hhh
from dpframe.frontends.generator import Generator
from dpframe.frontends.heavy_hitters import heavy_hitters
from dpframe.frontends.prefix_tree import explain_prefix_tree, prefix_tree
from dpframe.frontends.privhp import PrivHP
from dpframe.frontends.publish import publish
from dpframe.frontends.sketches import (
    MergedSketch,
    MisraGries,
    PrivacyAwareMisraGries,
    merge_sketches,
)
from dpframe.frontends.streaming import StreamingHHH
from dpframe.frontends.synthesize import explain_synthesize, synthesize
from dpframe.frontends.tree_counts import explain_tree_counts, tree_counts
from dpframe.frontends.warehouse import rollup_sql, tree_rollup_sql
from dpframe.frontends.wasserstein import wasserstein
from dpframe.frontends.when_pandas import register_accessor
from dpframe.hierarchy import code, columns, date, domain, ip, number, path
from dpframe.ledger import Ledger, Spending, use_ledger
from dpframe.receipt import Explanation, Receipt

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
    "SourceError",
    "Spending",
    "StreamingHHH",
    "ThresholdError",
    "__version__",
    "code",
    "columns",
    "compare",
    "compare_prefix_trees",
    "date",
    "domain",
    "explain",
    "explain_prefix_tree",
    "explain_synthesize",
    "explain_tree_counts",
    "heavy_hitters",
    "hhh",
    "ip",
    "merge_sketches",
    "number",
    "path",
    "prefix_tree",
    "publish",
    "register",
    "rollup_sql",
    "synthesize",
    "tree_counts",
    "tree_rollup_sql",
    "use_ledger",
    "wasserstein",
]

register_accessor()
