"""``dp.synthesize`` and ``dp.PrivHP``: generators of synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import pyarrow as pa

from dpframe.asking.answer import answer_call
from dpframe.asking.call_arguments import (
    CallArguments,
    Constraint,
    choice,
    flag,
    optional_whole,
    user_unit,
    whole_number,
)
from dpframe.asking.level_plan import MechanismInput
from dpframe.asking.question import Question, make_explain
from dpframe.asking.release import make_release
from dpframe.budget import Budget
from dpframe.common.calls import known_arguments
from dpframe.domains import Domain, IpAxis, ListedAxis, NumberAxis, TimeAxis
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.ledger import chosen_ledger
from dpframe.mechanisms.privhp_partition import Split
from dpframe.noise import random_seed
from dpframe.questions.synthesize.generator import (
    Generator,
    RowDomain,
    check_dtypes,
    common_schema,
    read_schema,
    row_domain,
    schema_text,
)
from dpframe.questions.synthesize.plan import (
    DEFAULT_HOT,
    DEFAULT_WIDTH,
    SyntheticPlan,
    make_synthetic_plan,
)
from dpframe.sketches import _counters
from dpframe.sketches import _sketch as streams
from dpframe.sketches.hot_partition import LARGEST, HotPartition, Shape
from dpframe.sources.codes import counted_codes, schema_of
from dpframe.sources.frames import require_columns, without_rows
from dpframe.sources.source_relations import open_source

if TYPE_CHECKING:
    from datetime import date

    import pandas as pd

    from dpframe.ledger import Ledger
    from dpframe.periods import Period


SPLITS: tuple[Split, ...] = ("optimal", "uniform")

CONSTRAINTS: Mapping[str, Constraint] = {
    "depth": optional_whole(1, 60),
    "k": optional_whole(1, LARGEST),
    "width": optional_whole(1, LARGEST),
    "rows": partial(whole_number, low=1, high=99),
    "split": choice(SPLITS),
}


def shape_from(domain: Domain, given: CallArguments, seed: int) -> Shape:
    """Sizes and hash seed of the sketch, from checked arguments."""
    hot = DEFAULT_HOT if given["k"] is None else given["k"]
    wide = DEFAULT_WIDTH if given["width"] is None else given["width"]
    return Shape(domain.depth, hot, wide, given["rows"], seed)


@dataclass(frozen=True, kw_only=True)
class SynthesisRequest:
    """The request: a plan, and what rows can be.

    ``seed`` is the seed of the hash functions, None for a random seed. ``schema`` and ``dtypes``,
    the Arrow and pandas types of the columns, are set once a source is known.
    """

    wanted: RowDomain
    plan: SyntheticPlan
    seed: int | None = None
    schema: pa.Schema | None = None
    dtypes: Mapping[str, str] = field(default_factory=dict)

    @property
    def request(self) -> dict[str, object]:
        return self.plan.request

    @property
    def budget(self) -> Budget:
        return self.plan.budget


def synthesis_request(given: CallArguments) -> SynthesisRequest:
    """The request from checked arguments. Its plan has no schema, so the plan can only be
    explained."""
    wanted = row_domain(given["columns"], depth=given["depth"], keys=given["keys"])
    seed = given["seed"]
    shape = shape_from(wanted.domain, given, 0 if seed is None else seed)
    return SynthesisRequest(
        wanted=wanted, plan=synthetic_plan(wanted, shape, None, given), seed=seed
    )


def synthetic_plan(
    wanted: RowDomain, shape: Shape, schema: pa.Schema | None, given: CallArguments
) -> SyntheticPlan:
    """The plan from checked arguments. Without a schema the plan can only be explained."""
    user, most = given.get("user"), given.get("max_contributions")
    if user is not None and most is None:
        raise ParameterError(
            f"max_contributions is missing for user ({user!r}). Say how many rows of each user "
            "are counted; it must not be learned from the data."
        )
    return make_synthetic_plan(
        domain=wanted.domain,
        digest=wanted.digest,
        schema="" if schema is None else schema_text(schema),
        shape=shape,
        split=given["split"],
        epsilon=given["epsilon"],
        unit=user_unit(user, None if user is None else "records", most),
    )


def fit_synthesis(asked: SynthesisRequest, source: object) -> SynthesisRequest:
    """Complete the request by the types of the source's columns and, if unset, a hash seed."""
    schema = schema_of(without_rows(source), asked.wanted.domain)
    seeded = with_schema(asked, schema)
    return replace(seeded, dtypes=dtypes_of(source, asked.wanted))


def with_schema(asked: SynthesisRequest, schema: Any) -> SynthesisRequest:
    """Complete the request by the types of columns and, if none is set, a random hash seed. The
    release can then be drawn."""
    shape = asked.plan.shape
    if asked.seed is None:
        shape = replace(shape, seed=random_seed())
    plan = replace(asked.plan, schema=schema_text(schema), shape=shape)
    return replace(asked, schema=schema, plan=plan)


def source_synthetic_plan(asked: SynthesisRequest, source: object, progress: bool) -> SyntheticPlan:
    """The plan of a request; the plan does not depend on the size of the source."""
    return asked.plan


def declared_synthetic_plan(asked: SynthesisRequest) -> SyntheticPlan:
    """The plan of a request without a source."""
    return asked.plan


def check_synthesis_source(plan: SyntheticPlan, source: object) -> None:
    """Check that the source has the columns, of types that can be read and drawn."""
    user = [plan.unit.user] if plan.unit.user is not None else []
    with open_source(source, [*plan.columns, *user]):
        pass
    schema_of(source, cast(Domain, plan.rows))


def row_types(asked: SynthesisRequest, columns: list[tuple[str, str]]) -> dict[str, str]:
    """The types of the columns of rows, by name."""
    domain, found = asked.wanted.domain, dict(columns)
    require_columns(domain.columns, list(found))
    types = {name: found[name] for name in domain.columns}
    domain.check_types(types)
    return types


def count(source: object, plan: SyntheticPlan, progress: bool) -> MechanismInput[HotPartition]:
    """The sketch of a source."""
    domain = cast(Domain, plan.rows)
    counts = counted_codes(source, domain, plan.sketch(), plan.unit, progress=progress)
    return MechanismInput(counts)


def dtypes_of(source: object, wanted: RowDomain) -> dict[str, str]:
    """The pandas names of the types that pandas can restore, by column; empty for other sources.

    Raises ColumnError for a type of which no rows can be drawn.
    """
    if type(source).__module__.split(".")[0] != "pandas":
        return {}
    kinds: Any = getattr(source, "dtypes", {})
    names = {name: str(kinds[name]) for name in wanted.domain.columns}
    check_dtypes(wanted, names)
    return {name: kind for name, kind in names.items() if _pandas_restores(kinds[name])}


def _pandas_restores(kind: Any) -> bool:
    """Whether pandas can turn Arrow's values back into a column of this type."""
    name = str(kind)
    if name.endswith("[pyarrow]") or name.startswith(("str", "string")):
        return True
    return kind.kind in "biufM" or name.startswith(("Sparse[", "period["))


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


NAME = "privhp"
"""The name of the class in files."""


@known_arguments
class PrivHP:
    """Counts for a private generator of synthetic rows, in memory independent of the data.

    It does what :func:`dpframe.synthesize` does with one source, for rows that arrive in pieces,
    over time, or in several places.

    Parameters
    ----------
    columns, k, width, rows, depth, keys, seed
        As for :func:`dpframe.synthesize`. Sketches can be merged only if all these arguments are
        equal, also the seed of the hash functions.

    Privacy
    -------
    Only the result of ``finish`` is private. The object itself is raw data, and so are its files.
    ``repr`` shows parameters only. Neither the order of rows nor their batches matter.

    References
    ----------
    Holland, Camtepe, Thapa, Xue, "Private Synthetic Data Generation in Small Memory", Algorithm 2.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> stream = dp.PrivHP({"distance": (0, 5000)}, k=64)
    >>> stream.update(pd.DataFrame({"distance": [200, 1000, 2500] * 100}))
    >>> stream.update(pd.DataFrame({"distance": [210, 990] * 100}))
    >>> len(stream.finish(epsilon=1.0).sample(5))
    5
    """

    def __init__(
        self,
        columns: object,
        *,
        k: int | None = None,
        width: int | None = None,
        rows: int = 1,
        depth: int | None = None,
        keys: object = None,
        seed: int | None = None,
    ) -> None:
        sizes = {"depth": depth, "k": k, "width": width, "rows": rows, "seed": seed}
        given = CallArguments(sizes, CONSTRAINTS)
        self._asked = row_domain(columns, depth=given["depth"], keys=keys)
        start = random_seed() if seed is None else given["seed"]
        shape = shape_from(self._asked.domain, given, start)
        self._state = _empty(shape)
        self._schema: pa.Schema | None = None
        self._dtypes: dict[str, str] = {}
        self._released = self._resumed = 0
        self._streams = streams.new_stream_ids()

    def __repr__(self) -> str:
        s = self._state.shape
        return (
            f"PrivHP({self._asked.domain.spec!r}, k={s.hot}, width={s.width}, rows={s.rows}, "
            "<private>)"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns. Public."""
        return self._asked.domain.columns

    @property
    def memory(self) -> int:
        """Bytes of the counts. Public: it does not depend on the data."""
        return self._state.memory

    def update(self, batch: object, *, progress: bool = True) -> None:
        """Count the rows of a frame, Arrow table, DuckDB relation or file: all of them or none.

        The columns must hold the kinds of values of the first batch (numbers, text, dates or
        times), else ParameterTypeError. Synthetic rows have the types of the first batch. Rows that
        lack a value are left out. ParameterError after ``finish``, unless ``resume`` was called.
        """
        self._check_open("update")
        schema = both = schema_of(batch, self._asked.domain)
        if self._schema is not None and (both := common_schema(self._schema, schema)) is None:
            raise ParameterTypeError(
                "the columns have other types than in the first batch. Cast them to "
                f"{[str(t) for t in self._schema.types]}."
            )
        dtypes = dtypes_of(batch, self._asked)
        new = counted_codes(
            batch,
            self._asked.domain,
            _empty(self._state.shape),
            progress=flag("progress", progress),
        )
        self._state = self._state.merge(new)
        if self._schema is None or both != self._schema:  # until now a column had no type
            self._dtypes = dtypes | self._dtypes
        self._schema = both

    def merge(self, other: PrivHP) -> PrivHP:
        """A new stream with the rows of this and another stream. No row may be in both streams.

        Raises ParameterError if ``other`` has different columns, bounds, keys, sizes or another
        seed, or holds a stream that this one holds too (itself, a copy, the same file), and
        ParameterTypeError if its columns hold other kinds of values.
        """
        if not isinstance(other, PrivHP):
            raise ParameterTypeError(f"other must be a PrivHP; got {type(other).__name__}.")
        self._check_open("merge")
        other._check_open("merge")
        if other._asked.digest != self._asked.digest:
            raise ParameterError("other counts a different domain. Give both the same columns.")
        seen = streams.join_streams(self._streams, other._streams)
        schema = other._schema if self._schema is None else self._schema
        if schema is not None and other._schema is not None:
            schema = common_schema(schema, other._schema)
            if schema is None:
                raise ParameterTypeError(
                    "other has columns of other types. Cast them as in this stream, and count its "
                    "rows again."
                )
        both = object.__new__(PrivHP)
        both._asked, both._state = self._asked, self._state.merge(other._state)
        both._schema = schema
        both._dtypes = self._dtypes or other._dtypes
        both._released = both._resumed = 0
        both._streams = seen
        return both

    def finish(
        self,
        *,
        epsilon: float | None = None,
        split: str = DEFAULT_SPLIT,
        ledger: Ledger | str | Path | None = None,
    ) -> Generator:
        """The generator, differentially private: noise is drawn here, after the charge.

        Every call draws new noise and makes a new charge; the charges of a row add up. After a call
        the stream takes no rows unless ``resume`` is called. Raises ParameterError if an argument
        breaks its rule, and LedgerError if the ledger cannot be used; nothing is drawn then.
        """
        schema = self._schema or _usual_schema(self._asked)
        given = CallArguments({"epsilon": epsilon, "split": split}, CONSTRAINTS)
        plan = synthetic_plan(self._asked, self._state.shape, schema, given)
        result = make_release(
            lambda: MechanismInput(self._state),
            plan,
            source="stream",
            ledger=chosen_ledger(ledger),
            name=None,
        )
        self._released += 1
        return Generator(result, self._asked, schema, self._dtypes)

    def resume(self) -> None:
        """Let a finished stream take rows again; its next generator holds the earlier rows too."""
        self._resumed = self._released

    def sample(self, n: int) -> NoReturn:
        """Raise ParameterError: only the result of ``finish`` draws rows."""
        raise ParameterError(
            f"sample({n!r}) before finish is not private. Call finish(epsilon=...).sample(n)."
        )

    def save(self, path: str | Path) -> None:
        """Write the counts to a file, which then holds raw data, readable by the owner only."""
        facts = {
            "sketch": NAME,
            **asdict(self._state.shape),
            "asked": self._asked.to_dict(),
            "schema": None if self._schema is None else schema_text(self._schema),
            "dtypes": self._dtypes,
            "released": self._released,
            "resumed": self._resumed,
            **streams.stream_field(self._streams),
        }
        _counters.write_counts(path, facts, [self._state.cells, self._state.tables])

    @classmethod
    def load(cls, path: str | Path) -> PrivHP:
        """Read a file that ``save`` wrote. Raises SourceError if the file is something else."""
        return _counters.read_file(
            path, NAME, lambda facts, body: cls._restore(facts, _counters.read_counts(body))
        )

    @classmethod
    def _restore(cls, facts: dict[str, Any], counts: np.ndarray) -> PrivHP:
        stream = object.__new__(cls)
        stream._state = HotPartition._restore(facts, counts)
        stream._asked = RowDomain.from_dict(facts["asked"])
        stream._schema = None if facts["schema"] is None else read_schema(facts["schema"])
        stream._dtypes = {str(k): str(v) for k, v in facts["dtypes"].items()}
        stream._released, stream._resumed = int(facts["released"]), int(facts["resumed"])
        stream._streams = streams.read_streams(facts)
        if stream._asked.domain.depth != stream._state.shape.depth:
            raise ValueError("the domain and the counts have different depths")
        return stream

    def _check_open(self, what: str) -> None:
        if self._released > self._resumed:
            raise ParameterError(
                f"{what} after finish needs resume(). Call it first if further rows may be counted "
                "with the earlier ones."
            )


def _empty(shape: Shape) -> HotPartition:
    return HotPartition(shape.depth, shape.hot, shape.width, shape.rows, seed=shape.seed)


def _usual_schema(wanted: RowDomain) -> pa.Schema:
    """The schema of rows for a stream that saw no batch."""
    fields = []
    for axis in wanted.domain.axes:
        kind = pa.string()
        if isinstance(axis, NumberAxis):
            kind = pa.float64()
        elif isinstance(axis, TimeAxis):
            kind = pa.timestamp("us")
        assert isinstance(axis, NumberAxis | TimeAxis | IpAxis | ListedAxis)
        fields += [pa.field(name, kind) for name in axis.columns]
    return pa.schema(fields)
