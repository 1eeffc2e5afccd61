"""Check the arguments of generators once, and describe what rows can be, also in files."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from dpframe.asking.call_arguments import (
    CallArguments,
    Constraint,
    choice,
    optional_whole,
    user_unit,
    whole_number,
)
from dpframe.budget import Budget
from dpframe.common.texts import arrow_texts
from dpframe.domains import Domain, ListedAxis, as_domain
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.mechanisms.privhp_partition import Split
from dpframe.questions.synthesize.plan import (
    DEFAULT_HOT,
    DEFAULT_WIDTH,
    SyntheticPlan,
    make_synthetic_plan,
)
from dpframe.sketches.hot_partition import LARGEST, Shape
from dpframe.sources.frames import key_table

if TYPE_CHECKING:
    pass

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
