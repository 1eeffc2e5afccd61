"""``dp.Generator``: draw synthetic rows from released counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpframe._known_arguments import known_arguments
from dpframe._paths import local_file, replace_file
from dpframe._progress import step
from dpframe.asking.call_arguments import whole_number
from dpframe.asking.card import card_summary, html_card
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import Release
from dpframe.digest import seal_frame
from dpframe.domains import ListedAxis, NumberAxis, TimeAxis
from dpframe.errors import ColumnError
from dpframe.mechanisms.privhp_partition import Partition, sample_leaves
from dpframe.noise import public_generator
from dpframe.questions.synthesize.checks import RowDomain, check_sample
from dpframe.questions.synthesize.generator_files import Content, generator_bytes, read_generator

if TYPE_CHECKING:
    import pandas as pd


@known_arguments
class Generator:
    """Any number of synthetic rows, from released counts. Public.

    :func:`dpframe.synthesize` and :meth:`dpframe.PrivHP.finish` return it. Nothing here reads
    private data or costs anything.

    Examples
    --------
    >>> import pathlib, tempfile, pandas as pd, dpframe as dp
    >>> trips = pd.DataFrame({"distance": [200, 1000, 2500] * 300})
    >>> generator = dp.synthesize(trips, {"distance": (0, 5000)}, epsilon=1.0)
    >>> len(generator.sample(100, seed=1))
    100
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> generator.save(folder / "trips.parquet")
    >>> dp.Generator.load(folder / "trips.parquet").columns
    ('distance',)
    >>> generator.report(folder / "trips.html", public=pd.DataFrame({"distance": [900, 1100]}))
    """

    def __init__(
        self, release: Release, wanted: RowDomain, schema: pa.Schema, dtypes: dict[str, str]
    ) -> None:
        self._release, self._asked, self._schema, self._dtypes = release, wanted, schema, dtypes
        frame = release.frame
        self._partition = Partition(
            level=frame["level"].to_numpy(dtype=np.int64),
            code=frame["code"].to_numpy(dtype=np.uint64),
            count=frame["count"].to_numpy(dtype=np.float64),
            leaf=frame["leaf"].to_numpy(dtype=np.bool_),
            depth=wanted.domain.depth,
        )

    def __repr__(self) -> str:
        return f"Generator({self._asked.domain.spec!r}, {int(self._partition.leaf.sum())} cells)"

    def _repr_html_(self) -> str:
        lines = self.receipt.card_lines
        rows = f"rows of {', '.join(self.columns)}: sample(n) draws as many as you like, for free"
        return html_card("Generator of synthetic rows", lines, [rows, *card_summary(lines)])

    @property
    def receipt(self) -> Receipt:
        """The promise and the cost; prints as a privacy card."""
        return self._release.receipt

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of synthetic rows."""
        return self._asked.domain.columns

    def sample(self, n: int, *, seed: int | None = None) -> pd.DataFrame:
        """Draw n independent rows.

        Parameters
        ----------
        n
            Rows, 0 to 1e9.
        seed
            A seed to draw the same rows again; by default rows differ every time. A seed protects
            nobody.

        Returns
        -------
        pandas.DataFrame
            The columns of the source, with their names and types, n rows. Exceptions: columns of
            Python objects and categoricals become text or the type of the categories; intervals
            and periods that are categories become text; whole numbers and truth values that can be
            ``<other>`` get a type with missing values (``Int64``, ``boolean``); times with a zone
            are in UTC unless the source was pandas. The receipt is in ``attrs["dp"]``.
        """
        table = self.sample_arrow(n, seed=seed)
        kept = {name: self._dtypes[name] for name in restorable_columns(self._asked, self._dtypes)}
        dtypes: dict[str, Any] = {**kept, **nullable(self._asked, self._schema)}
        frame: pd.DataFrame = table.to_pandas(integer_object_nulls=True)
        for name, kind in dtypes.items():
            if kind.endswith("[pyarrow]"):
                frame[name] = arrow_series(table[name])
            elif str(frame[name].dtype) != kind:
                frame[name] = frame[name].astype(kind)
        return seal_frame(frame, self.receipt.to_dict(), rows=False)

    @step("sampling")
    def sample_arrow(self, n: int, *, seed: int | None = None) -> pa.Table:
        """Draw n independent rows as an Arrow table; arguments as for :meth:`sample`."""
        rows = check_sample(n)
        start = None if seed is None else whole_number("seed", seed, 0, 2**63 - 1)
        random = public_generator(start)
        level, code = sample_leaves(self._partition, rows, random)
        types = {field.name: field.type for field in self._schema}
        return self._asked.domain.rows(level, code, random, types)

    def counts(self) -> pd.DataFrame:
        """The released tree: ``level`` (0 = everything), ``cell`` (label), ``count`` (records,
        float64, at least 0; children add up to their parent), ``leaf`` (whether the cell has no
        children). Sorted by level and cell.
        """
        import pandas as pd

        tree = self._partition
        labels = self._asked.domain.labels(tree.level, tree.code)
        frame = pd.DataFrame(
            {
                "level": tree.level,
                "cell": labels.to_pandas(),
                "count": tree.count,
                "leaf": tree.leaf,
            }
        )
        return seal_frame(frame, self.receipt.to_dict())

    def report(self, path: str | Path, *, public: pd.DataFrame, n: int = 10_000) -> None:
        """Write a page that compares marginals of synthetic rows with a public sample.

        Parameters
        ----------
        path
            A file to write, .html or .htm.
        public
            A frame that is not private, with some of the columns: the page shows its marginals in
            full.
        n
            Synthetic rows to draw for the page.
        """
        from dpframe.pages.marginals import write_marginals

        write_marginals(
            public,
            self.sample(n),
            path,
            title=f"Synthetic rows of {', '.join(self.columns)}",
            receipt=self.receipt,
        )

    def save(self, path: str | Path) -> None:
        """Write the generator to a Parquet file, which is public: it holds released counts.

        The file appears as a whole or not at all, and replaces a file of its name. ``path`` is a
        file of this machine; ``~`` is the user's home. SourceError if the file cannot be written.
        """
        with replace_file(local_file(path), "the generator") as file:
            file.write(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The bytes that ``save`` writes."""
        content = Content(self._release, self._asked, self._schema, self._dtypes)
        return generator_bytes(content)

    @classmethod
    def load(cls, path: str | Path) -> Generator:
        """Read a generator that ``save`` wrote, from a file of this machine.

        SourceError if there is no such file, or if it is truncated, damaged or no generator.
        """
        found = read_generator(path)
        return cls(found.release, found.asked, found.schema, found.dtypes)


def arrow_series(column: pa.ChunkedArray) -> pd.Series[Any]:
    """A pandas column that keeps its Arrow type."""
    import pandas as pd

    return pd.Series(pd.array(column, dtype=pd.ArrowDtype(column.type)))


def restorable_columns(wanted: RowDomain, dtypes: dict[str, str]) -> list[str]:
    """The columns whose drawn values fit the type that pandas had for the column."""
    out = []
    for axis in wanted.domain.axes:
        for name in set(axis.columns) & set(dtypes):
            kind = dtypes[name]
            if kind.startswith("Sparse["):  # read as text
                fits = kind.startswith("Sparse[float") and isinstance(axis, NumberAxis)
            elif kind.startswith("period"):
                fits = isinstance(axis, TimeAxis)
            else:
                fits = not kind.startswith("interval")
            if fits:
                out.append(name)
    return out


UNDRAWABLE_TYPES: dict[type, tuple[str, ...]] = {
    NumberAxis: ("interval", "complex", "period", "Sparse[int", "Sparse[uint"),
    TimeAxis: ("interval", "complex"),
}
"""For numbers and times: the prefixes of pandas types that are read as text, so that no such values
can be drawn."""


def check_dtypes(wanted: RowDomain, dtypes: dict[str, str]) -> None:
    """Raise ColumnError for a column of numbers or times whose values could not be drawn."""
    for axis in wanted.domain.axes:
        for name in axis.columns:
            kind = dtypes.get(name, "")
            if kind.startswith(UNDRAWABLE_TYPES.get(type(axis), ())):
                dense = f"source[{name!r}].sparse.to_dense() in its place"
                raise ColumnError(
                    f"column {name!r} has type {kind}, of which no rows can be drawn. Pass "
                    f"{dense if kind.startswith('Sparse') else 'it as numbers or times'}."
                )


def nullable(wanted: RowDomain, schema: pa.Schema) -> dict[str, str]:
    """By column, the pandas types with missing values, for whole numbers and truth values that are
    categories and can be ``<other>``.

    The types do not depend on the drawn rows, so that a column has the same type in every sample.
    """
    out: dict[str, str] = {}
    for axis in wanted.domain.axes:
        if isinstance(axis, ListedAxis) and axis.categories.other:
            kinds = {name: schema.field(name).type for name in axis.columns}
            kinds = {n: k.value_type if pa.types.is_dictionary(k) else k for n, k in kinds.items()}
            out |= {n: "boolean" for n, k in kinds.items() if pa.types.is_boolean(k)}
            whole_numbers = {n: str(k) for n, k in kinds.items() if pa.types.is_integer(k)}
            out |= {
                n: k.replace("int", "Int").replace("uI", "UI") for n, k in whole_numbers.items()
            }
    return out
