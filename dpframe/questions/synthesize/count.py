"""The private step of synthetic rows: count the codes of a source in one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from dpframe.asking.plan_protocols import MechanismInput
from dpframe.domains import Domain
from dpframe.noise import random_seed
from dpframe.questions.synthesize.checks import RowDomain, SynthesisRequest, schema_text
from dpframe.questions.synthesize.generator import check_dtypes
from dpframe.questions.synthesize.plan import SyntheticPlan
from dpframe.sketches.hot_partition import HotPartition
from dpframe.sources.codes import counted_codes, schema_of
from dpframe.sources.columns import require_columns
from dpframe.sources.frames import without_rows
from dpframe.sources.source_relations import open_source


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
