"""``dp.synthesize``: a private generator of synthetic rows (PrivHP), for every source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpframe._known_arguments import known_arguments
from dpframe.asking.answer import answer_call
from dpframe.asking.explain import make_explain
from dpframe.asking.question import Question
from dpframe.questions.synthesize.checks import CONSTRAINTS, SynthesisRequest, synthesis_request
from dpframe.questions.synthesize.count import (
    check_synthesis_source,
    count,
    declared_synthetic_plan,
    fit_synthesis,
    row_types,
    source_synthetic_plan,
)
from dpframe.questions.synthesize.generator import Generator

if TYPE_CHECKING:
    from datetime import date

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period

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
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = True,
) -> Generator:
    """A differentially private generator of synthetic rows, fitted in one pass and small memory.

    The domain of the columns is halved again and again. Cells near the root are counted exactly,
    deeper cells in sketches. Noise is added to both, and cells that seem to hold many records are
    refined. Rows are drawn from the resulting cells.

    Parameters
    ----------
    source
        As for :func:`hhh`.
    columns
        What rows can be: ``"number:distance?lower=0&upper=5000"``,
        ``"time:ts?lower=2017-01-01&upper=2018-01-01"``, ``"ip:src?version=4"``, any hierarchy with
        ``keys``, a list of such texts and objects, or a dict from column to (lower, upper). Bounds
        are public: values beyond a bound are counted at it. Bounds must not come from the data.
    epsilon
        The privacy budget: 1e-4 to 50; delta is 0.
    k
        Cells of a level that are refined, at least 1; default 1024.
    width, rows
        Cells of a row of a sketch (default 4096), and rows of a sketch: 1 makes a count-min sketch,
        larger odd numbers make a count sketch.
    depth
        Halvings of the domain, 1 to 60. By default all that the columns allow (20 for a number or
        time), at most 32. About log2(epsilon times the number of records) is enough.
    keys
        Public values of categories: a list, or a dict from column to list. Unlisted values are
        counted as ``<other>``. If categories are unknown, release them first with
        :func:`tree_counts`.
    split
        How epsilon is divided over levels: "optimal" (equation 23 of the paper) or "uniform".
    user, max_contributions
        Column that identifies a person, and how many of a person's rows are counted, a uniform
        sample. All rows of one person are protected together, with ``max_contributions`` times the
        noise. As for :func:`hhh`, ids beyond 2^53 must not be floating-point numbers.
    seed
        Seed of the hash functions, which are public; by default chosen at random.
    period
        Only the records of a period, such as ``("when", "2026-W47")``; as for :func:`hhh`.
    ledger, release, data, progress
        As for :func:`hhh`. A named generator is stored and replayed, identical and free.

    Returns
    -------
    Generator
        ``sample(n)`` draws rows with the names and types of the columns, ``counts()`` is the noisy
        tree, ``receipt`` the promise and the cost, and ``save(path)`` writes a file.

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
    to 4, equation 23; see mechanisms/privhp_partition.py for what differs.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> trips = pd.DataFrame({"distance": [200, 250, 1000, 1050, 2500] * 200})
    >>> generator = dp.synthesize(trips, {"distance": (0, 5000)}, epsilon=1.0)
    >>> rows = generator.sample(100)
    >>> list(rows.columns), str(rows["distance"].dtype), len(rows)
    (['distance'], 'int64', 100)
    """
    made = answer_call(
        SYNTHESIZE,
        source,
        columns=columns,
        epsilon=epsilon,
        k=k,
        width=width,
        rows=rows,
        depth=depth,
        keys=keys,
        split=split,
        user=user,
        max_contributions=max_contributions,
        seed=seed,
        period=period,
        ledger=ledger,
        release=release,
        data=data,
        progress=progress,
    )
    asked: SynthesisRequest = made.asked
    return Generator(made.release, asked.wanted, asked.schema, dict(asked.dtypes))


SYNTHESIZE = Question(
    ask=synthesize,
    planned=synthesis_request,
    constraints=CONSTRAINTS,
    fitted=fit_synthesis,
    sized=source_synthetic_plan,
    count=count,
    declared=declared_synthetic_plan,
    checked=check_synthesis_source,
    rolled_up=lambda _: None,
    result_types=row_types,
)

explain_synthesize = make_explain(
    "explain_synthesize",
    SYNTHESIZE,
    synthesize,
    """>>> import dpframe as dp
>>> plan = dp.explain_synthesize({"distance": (0, 5000)}, epsilon=1.0).plan
>>> plan.shape.depth, plan.budget.delta
(20, 0.0)""",
)
