"""``dp.compare`` and ``dp.compare_prefix_trees``: what estimators miss, on data that are public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.asking.call_arguments import bounded_number, known_choice, whole_number
from dpframe.common.calls import check_known, known_arguments
from dpframe.common.progress import Step, step
from dpframe.counts import CountTree
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.federated import Population
from dpframe.federated.encoding import Encoding
from dpframe.mechanisms import prefix_tree
from dpframe.mechanisms.prefix_tree import FoundItems
from dpframe.papers import (
    SampledVotes,
    alpha_rmse,
    item_metrics,
    marginal_frequencies,
    triehh_rate,
    triehhpp_rate,
)
from dpframe.postprocess.consistency import consistent_tree, tree_in_records
from dpframe.questions.prefix_tree.ask import PREFIX_TREE
from dpframe.questions.prefix_tree.plan import PrefixPlan, PrefixRequest
from dpframe.questions.tree_counts.ask import TREE_COUNTS
from dpframe.questions.tree_counts.base_tree_plan import TreePlan
from dpframe.questions.tree_counts.plan import TREE_MECHANISMS
from dpframe.sources.codes import population
from dpframe.sources.exact_trees import exact_counts

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.hierarchy import Hierarchy

DEFAULTS = {
    name: value
    for name, value in TREE_COUNTS.plan_arguments.items()
    if name not in ("hierarchy", "epsilon", "delta", "mechanism")
}


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
        if not isinstance(plan, TreePlan):
            raise ParameterError(
                "contribution='items' without keys finds nodes by rounds, whose counts are of "
                "other nodes each time. Pass keys=, or leave contribution out."
            )
        if truth is None:
            truth = exact_counts(
                public, plan.hierarchy, plan.unit, 1, listed=plan.listed_keys
            ).axes[0]
        frames.append(_errors(name, plan, truth, times, least, scale))
    return pd.concat(frames, ignore_index=True)


def _records(public: object, given: dict[str, object]) -> int:
    plan = TREE_COUNTS.plan({**given, "mechanism": "hhh"})
    return max(1, int(exact_counts(public, plan.hierarchy, plan.unit, 1).own_counts.sum()))


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


# -- prefix trees ----------------------------------------------------------------------------------

METHODS: dict[str, dict[str, Any]] = {
    "reports": {},
    "even segments": {"segments": "even"},
    "shuffle accountant": {"accountant": "shuffle"},
    "laplace": {"mechanism": "laplace"},
    "gaussian": {"mechanism": "gaussian"},
    "triehh": {"mechanism": "triehh"},
    "triehh++": {"mechanism": "triehh++"},
}
"""Methods that are compared by default, and the arguments in which each differs."""

TRIES = {"triehh": triehh_rate, "triehh++": triehhpp_rate}


@dataclass(frozen=True)
class PrefixComparison:
    """The items that methods found on public data.

    ``frame`` has one row a method and repeat: ``method``, ``repeat``, ``found`` items, ``real``
    (how many of them anybody has), ``false_positives`` (part of found items nobody has), ``mass``
    (sum of their frequencies), ``weight_ratio`` (mass over the mass of as many most frequent
    items), ``precision`` and ``recall`` against the ``top`` most frequent, ``local_epsilon``,
    ``standard_error`` (users, of a rare item) and ``sampled`` (part of the devices asked).
    """

    frame: pd.DataFrame
    frequencies: Mapping[str, NDArray[np.float64]]
    true: NDArray[np.float64]

    def marginals(self, *, window: int = 50) -> pd.DataFrame:
        """Return marginal discovered frequencies: ``method``, ``rank`` and ``frequency``.

        They are the true frequencies of the items found in the first repeat, largest first, summed
        over a sliding window. Method "true" has the most frequent items themselves.
        """
        import pandas as pd

        size = whole_number("window", window, 1, 2**31)
        most = max([1, *map(len, self.frequencies.values())])
        lines = {"true": np.sort(self.true)[::-1][:most], **self.frequencies}
        parts = []
        for method, frequency in lines.items():
            sums = marginal_frequencies(frequency, size)
            rank = np.arange(1, len(sums) + 1)
            parts.append(pd.DataFrame({"method": method, "rank": rank, "frequency": sums}))
        return pd.concat(parts, ignore_index=True)

    def plot(self, *, window: int = 50) -> Any:
        """Return the marginals as a plotly figure; needs ``pip install 'dpframe[plots]'``."""
        from dpframe.pages.plot import plotly_objects

        figure = plotly_objects().Figure()
        for method, rows in self.marginals(window=window).groupby("method", sort=False):
            line = {"color": "black", "dash": "dot"} if method == "true" else {}
            figure.add_scatter(x=rows["rank"], y=rows["frequency"], name=str(method), line=line)
        figure.update_xaxes(title="items found, most frequent first")
        figure.update_yaxes(title=f"frequency of {window} neighbouring items", type="log")
        return figure


@known_arguments
@step("comparing")
def compare_prefix_trees(
    column: str,
    *,
    public: object,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] = tuple(METHODS),
    repeats: int = 1,
    top: int = 1000,
    metric: str = "weighted",
    votes: int = 10,
    **arguments: Any,
) -> PrefixComparison:
    """Measure what :func:`prefix_tree` and its baselines find, on a public copy of the data.

    The result tells the truth about ``public``: pass data that may be published, never the private
    data.

    Parameters
    ----------
    column, **arguments
        As for :func:`prefix_tree`: user, epsilon, delta, iterations, ... (not ledger, release).
    public
        Frame, table, relation or file that is not private.
    methods
        Names among "reports", "even segments", "shuffle accountant", "laplace", "gaussian",
        "triehh" and "triehh++"; or a dict from names to arguments of :func:`prefix_tree` in which
        they differ, where ``mechanism`` may also be "triehh" or "triehh++".
    repeats
        Draws of each method, 1 to 1000.
    top
        Number of most frequent items that precision and recall are about.
    metric
        How frequent an item is: "weighted" (its mean share of a user's items) or "unweighted" (the
        part of users who have it).
    votes
        theta: devices that make TrieHH and TrieHH++ keep a prefix, 2 to 1000.

    Returns
    -------
    PrefixComparison
        ``frame``, ``marginals()`` and ``plot()``.

    Privacy
    -------
    None: everything is computed from ``public`` exactly. For TrieHH and TrieHH++, which sample
    devices and add no noise, no guarantee is claimed; their rates are as in the papers.

    References
    ----------
    Chadha et al. (2023), Section VI, Appendices D to G; Zhu et al. (2020), Corollary 1; Cormode,
    Bharadwaj (2022), Lemma 3.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> typed = pd.DataFrame({"who": range(3000), "word": ["selfie"] * 3000})
    >>> seen = dp.compare_prefix_trees(
    ...     "word", public=typed, user="who", epsilon=4.0, delta=1e-6, methods=["gaussian"])
    >>> seen.frame[["method", "real", "recall"]].to_dict("records")
    [{'method': 'gaussian', 'real': 1, 'recall': 1.0}]
    """
    wanted = _methods(methods)
    how = known_choice("metric", metric, ("weighted", "unweighted"))
    times, most = whole_number("repeats", repeats, 1, 1000), whole_number("top", top, 1, 2**31)
    theta = whole_number("votes", votes, 2, 1000)
    of_search = tuple(name for name in PREFIX_TREE.plan_arguments if name != "column")
    own = ("column", "public", "methods", "repeats", "top", "metric", "votes")
    check_known("compare_prefix_trees", arguments, (*own, *of_search))
    for name, differing in wanted.items():
        check_known(f"methods[{name!r}]", differing, of_search)
    asked = {
        name: _plan_method(column, {**arguments, **differing}) for name, differing in wanted.items()
    }
    fleets: dict[tuple[str, int], Population] = {}
    for _, one in asked.values():
        search = one.search
        key = (search.encoding.spec, search.segments.length)
        if key not in fleets:
            fleets[key] = population(
                public, one.hierarchy, one.user, search.encoding, search.segments.length
            )
    drawn = [
        (name, trie, one, fleets[one.search.encoding.spec, one.search.segments.length])
        for name, (trie, one) in asked.items()
    ]
    return compare_methods(drawn, times, most, weighted=how == "weighted", votes=theta)


def compare_methods(
    drawn: Sequence[tuple[str, str | None, PrefixRequest, Population]],
    repeats: int,
    top: int,
    *,
    weighted: bool,
    votes: int,
) -> PrefixComparison:
    """Compare methods, each as (name, "triehh", "triehh++" or None, search, devices)."""
    import pandas as pd

    rows, true = [], np.zeros(0)
    frequencies: dict[str, NDArray[np.float64]] = {}
    for name, trie, asked, fleet in drawn:
        frequency = global_frequency(fleet, weighted=weighted)
        texts = item_texts(fleet, asked.search.encoding, asked.search.segments.length)
        true = frequency if not len(true) else true
        for repeat in range(1, repeats + 1):
            found, facts = _run_method(trie, asked, fleet, votes)
            items = np.array([texts[t] for t in found.text if t in texts], dtype=np.int64)
            metrics = item_metrics(frequency, items, len(found.text), top)
            rows.append({"method": name, "repeat": repeat, **asdict(metrics), **facts})
            frequencies.setdefault(name, np.sort(frequency[items])[::-1])
    return PrefixComparison(pd.DataFrame(rows), frequencies, true)


def _run_method(
    trie: str | None, asked: PrefixRequest, fleet: Population, votes: int
) -> tuple[FoundItems, dict[str, float]]:
    if trie is None:
        plan = PrefixPlan.for_devices(asked, fleet.devices)
        local = float("nan") if plan.local_epsilon is None else plan.local_epsilon
        facts = {"local_epsilon": local, "standard_error": plan.standard_error}
        return plan.run(fleet), {**facts, "sampled": asked.search.taking_part}
    epsilon, delta, rounds = asked.budget.epsilon, asked.budget.delta, asked.reports
    if trie == "triehh":
        rate = triehh_rate(epsilon=epsilon, rounds=rounds, votes=votes)
    else:
        rate = triehhpp_rate(epsilon=epsilon, delta=delta, rounds=rounds, votes=votes)
    found = prefix_tree.run(fleet, SampledVotes(votes), replace(asked.search, taking_part=rate))
    facts = {"local_epsilon": float("nan"), "standard_error": float("nan"), "sampled": rate}
    return found, facts


def global_frequency(fleet: Population, *, weighted: bool) -> NDArray[np.float64]:
    """Return how frequent each item is: float64, shape (K,).

    Frequency is the mean share of a device's items, or the part of the devices that have the item.
    """
    counts = np.diff(fleet.starts)
    weight = np.ones(len(fleet.items))
    if weighted and len(weight):
        has = counts > 0
        total = np.add.reduceat(fleet.times.astype(np.float64), fleet.starts[:-1][has])
        weight = fleet.times / np.repeat(total, counts[has])
    summed = np.bincount(fleet.items, weights=weight, minlength=len(fleet.packed))
    return np.asarray(summed / max(fleet.devices, 1))


def item_texts(fleet: Population, encoding: Encoding, length: int) -> dict[str, int]:
    """Return items as they are shown, with their numbers."""
    out = {}
    for number, row in enumerate(fleet.packed.tolist()):
        bits = "".join(f"{word:064b}" for word in row)[:length]
        out[encoding.decode(bits, length).label] = number
    return out


def _methods(methods: object) -> dict[str, Mapping[str, Any]]:
    if isinstance(methods, Mapping):
        wanted = {str(name): differing for name, differing in methods.items()}
    elif isinstance(methods, str) or not isinstance(methods, Sequence):
        raise ParameterTypeError(
            f"methods must be a list of names, or a dict of arguments; got {methods!r}."
        )
    else:
        wanted = {name: METHODS[known_choice("methods", name, tuple(METHODS))] for name in methods}
    if not wanted:
        raise ParameterError(f"methods is empty: name some of {', '.join(METHODS)}.")
    for name, differing in wanted.items():
        if not isinstance(differing, Mapping):
            raise ParameterTypeError(f"methods[{name!r}] must be a dict of arguments.")
    return wanted


def _plan_method(column: str, given: Mapping[str, Any]) -> tuple[str | None, PrefixRequest]:
    trie = given.get("mechanism") if given.get("mechanism") in TRIES else None
    own = {} if trie is None else {"mechanism": "reports"}
    return trie, PREFIX_TREE.plan({**given, **own, "column": column})
