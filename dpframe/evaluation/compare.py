"""``dp.compare``: the error of every estimator of tree counts, on data that are public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._known_arguments import check_known, known_arguments
from dpframe._progress import Step, step
from dpframe.asking.call_arguments import bounded_number, known_choice, whole_number
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.postprocess.consistent_trees import consistent_tree, tree_in_records
from dpframe.postprocess.relative_error import alpha_rmse
from dpframe.questions.tree_counts.ask import TREE_COUNTS
from dpframe.questions.tree_counts.base_tree_plan import TreePlan
from dpframe.questions.tree_counts.plan import TREE_MECHANISMS
from dpframe.sources.exact_trees import exact_counts
from dpframe.tree import CountTree

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.hierarchy import Hierarchy


@known_arguments
def compare(
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    public: object,
    epsilon: float | None = None,
    delta: float | None = None,
    mechanisms: Sequence[str] = ("additive", "hhh"),
    repeats: int = 20,
    at_least: int = 1,
    alpha: float | None = None,
    largest: int | None = None,
    **arguments: Any,
) -> pd.DataFrame:
    """Measure the error of estimators of the counts of all nodes, on a public copy of the data.

    Draws every release ``repeats`` times and compares it with the true counts. The result tells the
    truth about ``public``: pass data that may be published, such as last year's report, a public
    sample or synthetic rows of about the same size, never the private data.

    Parameters
    ----------
    hierarchy
        As for :func:`tree_counts`.
    public
        Frame, table, relation or file, as for :func:`tree_counts`, that is not private.
    epsilon, delta
        Budget of one release.
    mechanisms
        Mechanisms of :func:`tree_counts`: "additive", "laplace", "gaussian", "hhh", "relative".
    repeats
        Releases drawn of each mechanism, 1 to 10,000.
    at_least
        Only nodes with at least so many records are compared, 1 or more.
    alpha, largest
        For "relative", as for :func:`tree_counts`; with ``alpha`` errors are also given relative to
        the count. Without ``largest`` the number of records in ``public`` is taken.
    **arguments
        Other arguments of :func:`tree_counts`: keys, user, consistent, level_weights, ...

    Returns
    -------
    pandas.DataFrame
        One row an estimator and level: ``estimator``, ``level``, ``nodes`` compared, ``shown``
        (mean part of these nodes that a release shows), ``mean_error`` (mean absolute error of a
        count), ``rmse`` (root mean squared error), ``worst_rmse`` (of the worst node) and, with
        ``alpha``, ``alpha_rmse`` (its alpha-RMSE). A node that is not shown is estimated as 0.

    Privacy
    -------
    None: everything is computed from ``public`` exactly.

    References
    ----------
    Ghazi, Kamath, Kumar, Manurangsi, Wu, "On Differentially Private Counting on Trees" (ICALP
    2023), Definition 4.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> sample = pd.DataFrame({"a": ["x"] * 500 + ["y"] * 300})
    >>> errors = dp.compare(["a"], public=sample, epsilon=1.0, delta=1e-6, repeats=3)
    >>> errors["estimator"].tolist(), errors["level"].tolist()
    (['additive', 'additive', 'hhh', 'hhh'], [0, 1, 0, 1])
    """
    times = whole_number("repeats", repeats, 1, 10_000)
    least = whole_number("at_least", at_least, 1, 2**53)
    scale = None if alpha is None else bounded_number("alpha", alpha, 0.01, 0.99)
    if isinstance(mechanisms, str) or not isinstance(mechanisms, Sequence):
        raise ParameterTypeError(
            f"mechanisms must be a list of {', '.join(TREE_MECHANISMS)}; got {mechanisms!r}."
        )
    if not mechanisms:
        raise ParameterError("mechanisms is empty: name at least one.")
    if public is None:
        raise ParameterError("public is missing. Pass a public or synthetic copy of the data.")
    for name in mechanisms:
        known_choice("mechanisms", name, TREE_MECHANISMS)
    given = {**DEFAULTS, **arguments, "epsilon": epsilon, "delta": delta}
    given["hierarchy"] = hierarchy
    own = ("hierarchy", "public", "epsilon", "delta", "mechanisms", "repeats", "at_least")
    check_known("compare", arguments, (*own, *DEFAULTS))
    with step("comparing") as shown:
        return _compare_mechanisms(mechanisms, public, given, times, least, scale, largest, shown)


def _compare_mechanisms(
    mechanisms: Sequence[str],
    public: object,
    given: dict[str, object],
    times: int,
    least: int,
    scale: float | None,
    largest: int | None,
    shown: Step,
) -> pd.DataFrame:
    import pandas as pd

    frames: list[pd.DataFrame] = []
    shown.done = lambda: 100 * len(frames) / len(mechanisms)
    truth = None
    for name in mechanisms:
        relative = {"alpha": scale, "largest": largest} if name == "relative" else {}
        if name == "relative" and largest is None:
            relative["largest"] = _records(public, given)
        plan = TREE_COUNTS.plan({**given, **relative, "mechanism": name})
        if truth is None:
            truth = exact_counts(public, plan.hierarchy, plan.unit, 1, listed=plan.listed_keys)
        frames.append(_errors(name, plan, truth, times, least, scale))
    return pd.concat(frames, ignore_index=True)


DEFAULTS = {
    name: value
    for name, value in TREE_COUNTS.plan_arguments.items()
    if name not in ("hierarchy", "epsilon", "delta", "mechanism")
}


def _records(public: object, given: dict[str, object]) -> int:
    plan = TREE_COUNTS.plan({**given, "mechanism": "hhh"})
    return max(1, int(exact_counts(public, plan.hierarchy, plan.unit, 1).count[0]))


def _errors(
    name: str, plan: TreePlan[Any], truth: CountTree, times: int, least: int, alpha: float | None
) -> pd.DataFrame:
    import pandas as pd

    counts = truth.count / plan.grid
    sums = {what: np.zeros(len(counts)) for what in ("shown", "error", "square", "relative")}
    private = _tree_at_band(truth, plan.band)
    for _ in range(times):
        estimate, shown = _estimate(plan, private, len(counts))
        error = np.abs(estimate - counts)
        sums["shown"] += shown
        sums["error"] += error
        sums["square"] += error**2
        if alpha is not None:
            sums["relative"] += alpha_rmse(estimate[None, :], counts, alpha) ** 2
    rows = []
    for level in range(plan.height + 1):
        here = (truth.level == level) & (counts >= least)
        mean = {
            what: float(s[here].mean() / times) if here.any() else None for what, s in sums.items()
        }
        square = mean["square"]
        row: dict[str, object] = {
            "estimator": name,
            "level": level,
            "nodes": int(here.sum()),
            "shown": mean["shown"],
            "mean_error": mean["error"],
            "rmse": None if square is None else square**0.5,
            "worst_rmse": _worst(sums["square"][here] / times),
        }
        if alpha is not None:
            row["alpha_rmse"] = _worst(sums["relative"][here] / times)
        rows.append(row)
    return pd.DataFrame(rows)


def _worst(squares: NDArray[np.float64]) -> float | None:
    return float(np.sqrt(squares.max())) if len(squares) else None


def _tree_at_band(tree: CountTree, band: int) -> CountTree:
    """Return the tree that a rollup with this band fetches. Its last column of keys has the places
    of its nodes in ``tree``."""
    kept = np.flatnonzero((tree.count >= band) | (tree.level == 0) | (band <= 1))
    places = pa.array(kept)
    taken = CountTree.from_preorder(
        tree.level[kept], tree.count[kept], tuple(column.take(places) for column in tree.keys)
    )
    return replace(taken, keys=(*taken.keys, pa.chunked_array([places])))


def _estimate(
    plan: TreePlan[Any], private: CountTree, nodes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw one release: return the estimate for every true node, and which nodes are shown."""
    noisy = plan.run(private)
    where = noisy.keys[-1].to_numpy() if plan.listed_keys is None else None
    tree = (
        consistent_tree(noisy, plan.grid) if plan.consistent else tree_in_records(noisy, plan.grid)
    )
    own = ~tree.other
    places = tree.keys[-1].to_numpy()[own] if where is not None else np.arange(int(own.sum()))
    estimate, shown = np.zeros(nodes), np.zeros(nodes)
    estimate[places] = tree.count[own]
    shown[places] = 1
    return estimate, shown
