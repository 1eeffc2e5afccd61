"""``dp.Generator``: draw synthetic rows from released counts; what rows can be; both in files.

**Files** of generators are Parquet, with the domain of rows and a seal in the metadata. They are
public.

The seal is the SHA-256 of the file with zeros in place of the seal. It is checked before anything
else is read. Older files, from before there were seals, are read without a check. The size of the
file bounds the number of rows before memory is taken for them: Parquet can hold billions of equal
rows in a few bytes, but no generator has such rows.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from dpframe.asking.call_arguments import whole_number
from dpframe.asking.card import card_summary, html_card
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import Release
from dpframe.common.calls import known_arguments
from dpframe.common.digest import seal_frame
from dpframe.common.files import content_of, local_file, replace_file
from dpframe.common.progress import step
from dpframe.common.texts import arrow_texts
from dpframe.domains import Domain, ListedAxis, NumberAxis, TimeAxis, as_domain
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError, SourceError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.mechanisms.privhp_partition import Partition, sample_leaves
from dpframe.noise import public_generator
from dpframe.sources.frames import key_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.parquet as pq


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


MAGIC = b"PAR1"
KEY = b"dpframe_generator"
RECEIPT = b"dpframe"
SEAL = "dpframe_seal"
OPEN = b"0" * 64
"""The placeholder in a file whose seal is not computed yet."""

COLUMNS = {"level": "<i8", "code": "<u8", "count": "<f8", "leaf": "?"}
"""The columns of the released tree, with their numpy types."""

ROOM = 2_000_000
"""Rows (25 bytes each) that a file of any size can have. Up to this number, the codes of a level
can repeat the codes of the level above within the 64 KiB that Snappy looks back, and take next to
no bytes."""

LEAST = 1
"""The fewest bytes for each row of a file that has more rows than ``ROOM``."""

PARTS = 1000
"""The most columns, row groups and metadata keys of a file. A generator has four columns, and one
row group for each million rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """The parts of a generator."""

    release: Release
    asked: RowDomain
    schema: pa.Schema
    dtypes: dict[str, str]


def generator_bytes(content: Content) -> bytes:
    """The file of a generator, with its seal."""
    import pyarrow.parquet as pq

    facts = {
        "asked": content.asked.to_dict(),
        "schema": schema_text(content.schema),
        "dtypes": content.dtypes,
        "sealed": True,
    }
    table = content.release.to_arrow()
    metadata = {**table.schema.metadata, KEY: json.dumps(facts).encode()}
    table = table.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEAL: OPEN})
    whole: bytes = sink.getvalue().to_pybytes()
    at = _seal_in(whole)
    seal = hashlib.sha256(whole).hexdigest().encode()
    return whole[:at] + seal + whole[at + len(OPEN) :]


def read_generator(path: str | os.PathLike[str]) -> Content:
    """Read what ``generator_bytes`` made; SourceError if the file is something else or damaged."""
    file = local_file(path)
    content = content_of(file, MAGIC, "generator")
    why = SourceError(
        f"{str(file)!r} is no generator, or truncated or damaged: pass a file that Generator.save "
        "wrote, restore it from a copy, or make another generator."
    )
    try:
        return _read_sealed(content)
    except MemoryError:
        why = SourceError(f"{str(file)!r} needs more memory than there is, or is damaged.")
    except Exception:  # damaged content can raise anything
        pass
    raise why


def _read_sealed(content: bytes) -> Content:
    import pandas as pd
    import pyarrow.parquet as pq

    at = _seal_in(content)
    if at > 0:
        end = at + len(OPEN)
        found = hashlib.sha256(b"".join([content[:at], OPEN, content[end:]])).hexdigest()
        if found.encode() != content[at:end]:
            raise ValueError("its content is not what was saved")
    file = pq.ParquetFile(
        pa.BufferReader(content),
        thrift_string_size_limit=len(content),
        thrift_container_size_limit=PARTS,
    )
    _check_size(file.metadata, len(content))
    metadata = file.schema_arrow.metadata
    facts, receipt = json.loads(metadata[KEY]), Receipt(dict(json.loads(metadata[RECEIPT])))
    if facts.get("sealed") and at < 0:
        raise ValueError("the seal is missing")
    asked, schema = RowDomain.from_dict(facts["asked"]), read_schema(facts["schema"])
    arrays = _arrays(file.read(columns=list(COLUMNS), use_threads=False))
    _check_tree(arrays, asked.domain.depth)
    dtypes = {str(name): str(kind) for name, kind in facts["dtypes"].items()}
    return Content(Release(pd.DataFrame(arrays), receipt), asked, schema, dtypes)


def _seal_in(content: bytes) -> int:
    """The position of the seal in the bytes of a file (it is in the footer); -1 without a seal."""
    name = content.rfind(SEAL.encode())
    return -1 if name < 0 else name + len(SEAL) + 2  # after a type and a length


def _check_size(metadata: pq.FileMetaData, size: int) -> None:
    """Raise ValueError unless ``size`` bytes can hold the rows that the metadata state."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [(g.num_rows, g.column(i).num_values) for g in groups for i in range(g.num_columns)]
    rows = sum(group.num_rows for group in groups)
    if rows != metadata.num_rows or any(n != values for n, values in chunks):
        raise ValueError("row groups and columns have different numbers of rows")
    if metadata.num_columns != len(COLUMNS) or not 0 < rows <= max(ROOM, size // LEAST):
        raise ValueError("a file of this size cannot have these columns and so many rows")


def _arrays(table: pa.Table) -> dict[str, Any]:
    """The columns by name. Raises ValueError for NULLs, or a type other than in ``COLUMNS``."""
    found = {}
    for name, kind in COLUMNS.items():
        column = table[name].combine_chunks()
        if column.type != pa.from_numpy_dtype(np.dtype(kind)) or column.null_count:
            raise ValueError("a column has another type, or missing values")
        found[name] = column.to_numpy(zero_copy_only=False)
    return found


def _check_tree(arrays: dict[str, Any], depth: int) -> None:
    level, code, count = arrays["level"], arrays["code"], arrays["count"]
    if level.min() != 0 or level.max() > depth or (code >> level.astype(np.uint64)).any():
        raise ValueError("a level or code is no node of the tree")
    if not np.isfinite(count).all() or count.min() < 0 or not arrays["leaf"].any():
        raise ValueError("counts must be finite numbers from 0 on, with a leaf among them")


@dataclass(frozen=True, eq=False)
class RowDomain:
    """A domain, and how to write it: texts of its axes, and the keys of its categories."""

    specs: tuple[str, ...]
    keys: dict[str, pa.Table]
    domain: Domain

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain JSON types."""
        keys = {name: _key_rows(table) for name, table in self.keys.items()}
        return {"columns": list(self.specs), "depth": self.domain.depth, "keys": keys}

    @property
    def digest(self) -> str:
        """A hash that differs between domains, also if only their lists of keys differ."""
        text = json.dumps(self.to_dict(), ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> RowDomain:
        keys = {name: [tuple(row) for row in rows] for name, rows in facts["keys"].items()}
        return row_domain(facts["columns"], depth=facts["depth"], keys=keys or None)


def _key_rows(table: pa.Table) -> list[list[str | None]]:
    columns = [column.cast(pa.string()).to_pylist() for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def row_domain(columns: object, *, depth: int | None, keys: object) -> RowDomain:
    """The domain of rows, from unchecked columns and keys."""
    if columns is None:
        raise ParameterTypeError(
            "columns is missing. Declare them, for example 'number:distance?lower=0&upper=5000'."
        )
    hierarchies = {",".join(h.source_columns): h for h in _category_hierarchies(columns)}
    if keys is None or not hierarchies:
        domain = as_domain(columns, depth=depth, keys=keys)
        return RowDomain(_axis_specs(domain), {}, domain)
    if isinstance(keys, Mapping):
        named = {_keys_column(name): listed for name, listed in keys.items()}
    elif len(hierarchies) == 1:
        named = {next(iter(hierarchies)): keys}
    else:
        named = {"": keys}
    unknown = [name for name in named if name not in hierarchies]
    if unknown or len(named) < len(hierarchies):
        expected = ", ".join(map(repr, hierarchies))
        raise ParameterError(
            f"keys must be a dict with a list for each of {expected}; got {list(named)}."
        )
    tables = {
        name: key_table(_single_values(listed), hierarchies[name]) for name, listed in named.items()
    }
    domain = as_domain(columns, depth=depth, keys=tables)
    return RowDomain(_axis_specs(domain), tables, domain)


def _single_values(listed: object) -> object:
    """The listed keys, with tuples of one value replaced by the value: keys of files are tuples."""
    if isinstance(listed, list) and all(isinstance(k, tuple) and len(k) == 1 for k in listed):
        return [key[0] for key in listed]
    return listed


def _keys_column(name: object) -> str:
    return ",".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _category_hierarchies(columns: object) -> list[Hierarchy]:
    """The hierarchies of the columns that are categories."""
    if isinstance(columns, Mapping):
        return []
    several = isinstance(columns, Sequence) and not isinstance(columns, str)
    out = []
    for value in cast(Sequence[object], columns) if several else [columns]:
        if isinstance(value, str):
            kind = value.partition(":")[0]
            if kind in ("number", "time", "ip") or ":" not in value:
                continue
            value = as_hierarchy(value)
        if isinstance(value, Hierarchy) and value.kind not in ("number", "ip"):
            out.append(value)
    return out


def _axis_specs(domain: Domain) -> tuple[str, ...]:
    return tuple(
        axis.hierarchy.spec if isinstance(axis, ListedAxis) else axis.spec for axis in domain.axes
    )


def schema_text(schema: pa.Schema) -> str:
    """A schema as text, without metadata."""
    plain = schema.remove_metadata()
    return base64.b64encode(plain.serialize().to_pybytes()).decode("ascii")


def read_schema(text: str) -> pa.Schema:
    """The schema that ``schema_text`` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def common_schema(first: pa.Schema, later: pa.Schema) -> pa.Schema | None:
    """The common schema of batches with these two schemas; None if kinds of values differ.

    It is the first schema, but columns without a type take the type of the later schema. Kinds are
    coarse, because a single record can change a type: in pandas one NULL makes floats of integers
    and text of booleans, one time can change the unit of all times, one decimal the scale of all.
    """
    fields = []
    for one, other in zip(first, later, strict=True):
        kinds = {_value_kind(one.type), _value_kind(other.type)} - {"none"}
        if len(kinds) > 1:
            return None
        fields.append(other if pa.types.is_null(one.type) else one)
    return pa.schema(fields)


def _value_kind(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return "none"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_boolean(kind) or kind in arrow_texts():
        return "text"
    if pa.types.is_timestamp(kind):
        return "times" if kind.tz is None else "times with a zone"
    return str(kind)


def check_sample(n: object) -> int:
    """The checked number of rows to draw."""
    if n is None:
        raise ParameterTypeError("n is missing. Pass a number of rows, like n=1000.")
    return whole_number("n", n, 0, 10**9)
