"""What a generator will do and cost, its arguments, and what rows can be.

This module sees no data. It needs only the shape of the domain.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from dpframe.accounting.privhp_scales import PartitionLaws, Split, partition_laws
from dpframe.asking.call_arguments import (
    CallArguments,
    Constraint,
    choice,
    optional_whole,
    user_unit,
    whole_number,
)
from dpframe.asking.card import Draw, DrawList, Line, Text, counts_game
from dpframe.asking.level_plan import ReleasePlan
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.common.texts import is_arrow_text
from dpframe.domains import Domain, ListedAxis, as_domain
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.mechanisms import privhp_partition as hot_partition
from dpframe.mechanisms.privhp_partition import Partition
from dpframe.noise import UnboundedNoise
from dpframe.sketches.hot_partition import LARGEST, HotPartition, Shape
from dpframe.sources.frames import key_table

if TYPE_CHECKING:
    import pandas as pd

PAPER = "Holland, Camtepe, Thapa, Xue, Private Synthetic Data Generation in Small Memory (PrivHP)"

DEFAULT_HOT = 1024
"""The default number of cells of a level that are refined."""

DEFAULT_WIDTH = 4096
"""The default number of cells of a row of a sketch."""


class DomainFacts(Protocol):
    """The facts of a domain that a plan needs."""

    @property
    def spec(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def diameters(self) -> tuple[float, ...]: ...


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan(ReleasePlan):
    """Everything about a generator except the data and the draw.

    ``rows`` describes what rows can be, and ``digest`` is a hash of the whole domain. ``schema``
    holds the types of the columns, as text. ``shape`` holds k (refined cells of a level), the width
    and rows of a sketch, the depth and the hash seed.
    """

    rows: DomainFacts
    digest: str
    schema: str
    shape: Shape
    split: Split
    epsilon: float
    laws: PartitionLaws
    protected: PrivacyUnit

    question = "synthesize"
    audience = "against anybody who sees the generator"
    mechanism_name = "synthetic-privhp"
    paper = PAPER
    intervals = "no intervals"

    @property
    def budget(self) -> Budget:
        """The budget, with delta 0: the release is pure."""
        return Budget(epsilon=self.epsilon, delta=0.0)

    @property
    def unit(self) -> PrivacyUnit:
        return self.protected

    @property
    def domain(self) -> str:
        """The canonical text of the domain, in which a short hash stands for the keys."""
        return self.rows.spec

    @property
    def columns(self) -> tuple[str, ...]:
        return self.rows.columns

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types."""
        return {
            "counts": "synthetic",
            "domain": self.domain,
            "digest": self.digest,
            "schema": self.schema,
            "epsilon": self.budget.epsilon,
            "user": self.unit.user,
            "max_contributions": self.unit.max_contributions,
            "k": self.shape.hot,
            "width": self.shape.width,
            "rows": self.shape.rows,
            "split": self.split,
        }

    @property
    def draws(self) -> DrawList:
        """One count moves on every exact level, and one cell in every row of each sketch below.

        The release is pure, so that delta is 0 at epsilon.
        """
        laws = self.laws
        moved = [1 if level <= laws.exact else laws.rows for level in range(laws.depth + 1)]
        counts = [
            Draw(law=UnboundedNoise(scale), moves=m)
            for m, scale in zip(moved, laws.scales, strict=True)
        ]
        return counts_game(counts, delta=0.0, group=self.unit.moves)

    @property
    def noise(self) -> dict[str, Any]:
        return {"scales": [float(scale) for scale in self.laws.scales]}

    @property
    def facts(self) -> dict[str, object]:
        return {
            "hierarchy": self.domain,
            "columns": list(self.columns),
            "height": self.shape.depth,
            "levels": [f"1/{2**level}" for level in range(1, self.shape.depth + 1)],
            "threshold": None,
            "remainder": None,
            "confidence": None,
            "k": self.shape.hot,
            "width": self.shape.width,
            "rows": self.shape.rows,
            "split": self.split,
        }

    def sketch(self) -> HotPartition:
        """An empty sketch of this shape."""
        s = self.shape
        return HotPartition(s.depth, s.hot, s.width, s.rows, seed=s.seed)

    def run(self, counted: HotPartition, /) -> Partition:
        """The only noisy step."""
        return hot_partition.run(counted, self.laws)

    def lines(self) -> list[Line]:
        """The card lines, all known before the data are read."""
        shape, scales = self.shape, self.laws.scales
        exact = [float(scale) * 2**0.5 for scale in scales[: shape.exact + 1]]
        hashed = [float(scale) * 2**0.5 for scale in scales[shape.exact + 1 :]]
        out = [
            self.guarantee_line,
            Line("mechanism", "synthetic, PrivHP", PAPER),
            Line("domain", self.domain, "what rows can be, declared by the caller"),
            Line(
                "counts",
                self.unit.counts,
                "rows with a missing value in these columns are left out",
            ),
            Line("k", shape.hot, "cells of a level that are divided further"),
            Line("depth", shape.depth, "halvings of the domain"),
            Line("exact levels", shape.exact, "levels that are counted cell by cell"),
            Line.of(
                "noise, exact levels",
                Text("sd {first:.3g} to {last:.3g}"),
                "discrete Laplace, unbounded, added to every cell there",
                first=min(exact),
                last=max(exact),
            ),
        ]
        if hashed:
            kind = "count-min" if shape.rows == 1 else "count sketch"
            out += [
                Line.of(
                    "sketch",
                    Text("{kind}, {rows} x {width}"),
                    "of each of the {levels} levels below",
                    kind=kind,
                    rows=shape.rows,
                    width=shape.width,
                    levels=len(hashed),
                ),
                Line.of(
                    "noise, sketched levels",
                    Text("sd {first:.3g} to {last:.3g}"),
                    "discrete Laplace, unbounded, added to every cell of the sketches",
                    first=min(hashed),
                    last=max(hashed),
                ),
            ]
        out += [
            Line("split", self.split, "how epsilon is divided over levels"),
            Line.of(
                "memory",
                Text("{megabytes:.3g} MB"),
                "of the counts, whatever the data",
                megabytes=8 * shape.cells / 1000000.0,
            ),
            Line.of(
                "computed epsilon",
                Text("{epsilon:.6g}"),
                "sum over levels, exact",
                epsilon=self.unit.moves * float(self.laws.epsilon),
            ),
            self.delta_line,
        ]
        return out

    def frame(self, noisy: Partition, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The cells and their counts, from which rows are sampled."""
        import pandas as pd  # late: `import dpframe` does not load it

        parts = {"level": noisy.level, "code": noisy.code, "count": noisy.count}
        return pd.DataFrame({**parts, "leaf": noisy.leaf})

    def finish_receipt(self, facts: Receipt, noisy: Partition, frame: pd.DataFrame, /) -> Receipt:
        """The receipt, unchanged: no notice applies to cells."""
        return facts


def make_synthetic_plan(
    *,
    domain: DomainFacts,
    digest: str,
    schema: str,
    shape: Shape,
    split: Split,
    epsilon: float,
    unit: PrivacyUnit,
) -> SyntheticPlan:
    """Choose the noise of a generator. Pure: no data, no randomness."""
    budget = Budget(epsilon=epsilon, delta=0.0)
    laws = partition_laws(
        depth=shape.depth,
        hot=shape.hot,
        rows=shape.rows,
        epsilon=per_record(budget, unit.moves).epsilon,
        diameters=domain.diameters,
        split=split,
    )
    return SyntheticPlan(
        rows=domain,
        digest=digest,
        schema=schema,
        shape=shape,
        split=split,
        epsilon=epsilon,
        laws=laws,
        protected=unit,
    )


SPLITS: tuple[Split, ...] = ("optimal", "uniform")


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


CONSTRAINTS: Mapping[str, Constraint] = {
    "depth": optional_whole(1, 60),
    "k": optional_whole(1, LARGEST),
    "width": optional_whole(1, LARGEST),
    "rows": partial(whole_number, low=1, high=99),
    "split": choice(SPLITS),
}


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
    if pa.types.is_boolean(kind) or is_arrow_text(kind):
        return "text"
    if pa.types.is_timestamp(kind):
        return "times" if kind.tz is None else "times with a zone"
    return str(kind)


def check_sample(n: object) -> int:
    """The checked number of rows to draw."""
    if n is None:
        raise ParameterTypeError("n is missing. Pass a number of rows, like n=1000.")
    return whole_number("n", n, 0, 10**9)
