"""``dp.synthesize``: a private generator of synthetic rows (PrivHP), and what it generates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.asking.given import chosen_ledger, data_name, flag, release_name
from dpframe.asking.known_arguments import known_arguments
from dpframe.asking.receipt import Explanation
from dpframe.asking.release import released
from dpframe.asking.replays import told
from dpframe.questions.synthesize.checks import (
    Asked,
    asked,
    shape_from,
    synthetic_plan_from,
)
from dpframe.questions.synthesize.generator import Generator, check_dtypes
from dpframe.sources.codes import counted_codes, schema_of
from dpframe.sources.relations import describe

if TYPE_CHECKING:
    from dpframe.ledger import Ledger

DEFAULT_SPLIT = "optimal"


@known_arguments
def synthesize(
    source: object,
    columns: object,
    *,
    epsilon: float | None = None,
    k: int | None = None,
    width: int | None = None,
    rows: int = 1,
    depth: int | None = None,
    keys: object = None,
    split: str = DEFAULT_SPLIT,
    user: str | None = None,
    max_contributions: int | None = None,
    seed: int | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = False,
) -> Generator:
    """A differentially private generator of synthetic rows, fitted in one pass and small memory.

    The domain of the columns is halved again and again. Cells near the root are counted exactly,
    deeper ones in sketches; noise is added to both, and cells that seem to hold many records are
    refined. Rows are drawn from the cells that result.

    Parameters
    ----------
    source
        As for :func:`hhh`.
    columns
        What rows can be: ``"number:distance?lower=0&upper=5000"``,
        ``"time:ts?lower=2017-01-01&upper=2018-01-01"``, ``"ip:src?version=4"``, any hierarchy with
        ``keys``, a list of these, or a dict from column to (lower, upper). Bounds are public:
        values beyond are counted at the bound. They must not come from the data.
    epsilon
        The privacy budget: 1e-4 to 50; delta is 0.
    k
        Cells of a level that are refined, from 1; default 1024.
    width, rows
        Cells of a row of a sketch (default 4096), and rows (1: count-min; odd: count sketch).
    depth
        Halvings of the domain, 1 to 60. By default all that the columns have, 20 a number or time,
        at most 32. About log2(epsilon times the number of records) is enough.
    keys
        Public values of categories: a list, or a dict from column to lists. What is not listed is
        counted as ``<other>``. Unknown categories: release them first with :func:`tree_counts`.
    split
        How epsilon is divided over levels: "optimal" (equation 23 of the paper) or "uniform".
    user, max_contributions
        Column that identifies a person, and how many of their rows are counted, a uniform sample:
        all rows of one are protected together, at so many times the noise. As for :func:`hhh`,
        ids beyond 2^53 must not be floating-point numbers.
    seed
        Of the hash functions, which are public; by default chosen at random.
    ledger, release, data, progress
        As for :func:`hhh`. A named generator is stored and replayed, identical and free.

    Returns
    -------
    Generator
        ``sample(n)`` draws rows with the names and types of the columns, ``counts()`` is the noisy
        tree, ``receipt``, ``save(path)``.

    Raises
    ------
    ParameterError, ParameterTypeError, SourceError, LedgerError
        As :func:`hhh`.

    Privacy
    -------
    epsilon-differential privacy for adding or removing one record, or one user with all their rows.
    Rows that lack a value in one of the columns are left out. Drawing rows is post-processing.
    Assumed public: every argument, names and types of the columns.

    References
    ----------
    Holland, Camtepe, Thapa, Xue, "Private Synthetic Data Generation in Small Memory", Algorithms 1
    to 4, equation 23; see mechanisms/hot_partition.py for what differs.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> trips = pd.DataFrame({"distance": [200, 250, 1000, 1050, 2500] * 200})
    >>> generator = dp.synthesize(trips, {"distance": (0, 5000)}, epsilon=1.0)
    >>> rows = generator.sample(100)
    >>> list(rows.columns), str(rows["distance"].dtype), len(rows)
    (['distance'], 'int64', 100)
    """
    wanted = asked(columns, depth=depth, keys=keys)
    shape = shape_from(wanted.domain, k=k, width=width, rows=rows, seed=seed)
    # budgets and names are checked before a source is opened
    given: dict[str, object] = {"epsilon": epsilon, "split": split, "user": user}
    given["max_contributions"] = max_contributions
    synthetic_plan_from(wanted, shape, None, **given)
    book, name, about = chosen_ledger(ledger), release_name(release), data_name(data)
    showing = flag("progress", progress)
    schema = schema_of(source, wanted.domain)
    dtypes = dtypes_of(source, wanted)
    plan = synthetic_plan_from(wanted, shape, schema, **given)
    result = released(
        lambda: counted_codes(source, wanted.domain, plan.sketch(), plan.unit, progress=showing),
        plan,
        source=describe(source),
        ledger=book,
        name=name,
        data=about,
    )
    return Generator(told(result), wanted, schema, dtypes)


def dtypes_of(source: object, wanted: Asked) -> dict[str, str]:
    """What pandas calls the types of the columns, if the source is a frame of pandas.

    Raises ColumnError for a type of which no rows can be drawn.
    """
    if type(source).__module__.split(".")[0] != "pandas":
        return {}
    kinds: Any = getattr(source, "dtypes", {})
    names = {name: str(kinds[name]) for name in wanted.domain.columns}
    check_dtypes(wanted, names)
    return {name: kind for name, kind in names.items() if _kept(kinds[name])}


def _kept(kind: Any) -> bool:
    """Whether pandas makes a column of this type of what Arrow reads in it; others are text."""
    name = str(kind)
    if name.endswith("[pyarrow]") or name.startswith(("str", "string")):
        return True
    return kind.kind in "biufM" or name.startswith(("Sparse[", "period["))


@known_arguments
def explain_synthesize(
    columns: object,
    *,
    epsilon: float | None = None,
    k: int | None = None,
    width: int | None = None,
    rows: int = 1,
    depth: int | None = None,
    keys: object = None,
    split: str = DEFAULT_SPLIT,
    user: str | None = None,
    max_contributions: int | None = None,
) -> Explanation:
    """What :func:`synthesize` with these arguments would do. Spends nothing and reads no data.

    Examples
    --------
    >>> import dpframe as dp
    >>> plan = dp.explain_synthesize({"distance": (0, 5000)}, epsilon=1.0).plan
    >>> plan.shape.depth, plan.budget.delta
    (20, 0.0)
    """
    wanted = asked(columns, depth=depth, keys=keys)
    shape = shape_from(wanted.domain, k=k, width=width, rows=rows, seed=0)
    plan = synthetic_plan_from(
        wanted,
        shape,
        None,
        epsilon=epsilon,
        split=split,
        user=user,
        max_contributions=max_contributions,
    )
    return Explanation(plan)
