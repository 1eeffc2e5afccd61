"""``dp.PrivHP``: a generator of synthetic rows for a stream that arrives in pieces."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from dpframe._known_arguments import known_arguments
from dpframe.asking.call_arguments import CallArguments, flag
from dpframe.asking.plan_protocols import MechanismInput
from dpframe.asking.release import make_release
from dpframe.domains import IpAxis, ListedAxis, NumberAxis, TimeAxis
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.ledger import chosen_ledger
from dpframe.noise import random_seed
from dpframe.questions.synthesize.ask import DEFAULT_SPLIT
from dpframe.questions.synthesize.checks import (
    CONSTRAINTS,
    RowDomain,
    common_schema,
    read_schema,
    row_domain,
    schema_text,
    shape_from,
    synthetic_plan,
)
from dpframe.questions.synthesize.count import dtypes_of
from dpframe.questions.synthesize.generator import Generator
from dpframe.sketches import sketch_files, streams
from dpframe.sketches.hot_partition import HotPartition, Shape
from dpframe.sources.codes import counted_codes, schema_of

if TYPE_CHECKING:
    from dpframe.ledger import Ledger

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
        sketch_files.write_counts(path, facts, [self._state.cells, self._state.tables])

    @classmethod
    def load(cls, path: str | Path) -> PrivHP:
        """Read a file that ``save`` wrote. Raises SourceError if the file is something else."""
        return sketch_files.read_file(
            path, NAME, lambda facts, body: cls._restore(facts, sketch_files.read_counts(body))
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
