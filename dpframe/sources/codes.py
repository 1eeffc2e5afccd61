"""Count the rows of a source as codes of a domain, in one pass. Private."""

from __future__ import annotations

import pyarrow as pa

from dpframe import _duck
from dpframe._sql import ascending_order, identifier
from dpframe.budget import PrivacyUnit
from dpframe.domains import Domain
from dpframe.hierarchy._base import check_writable
from dpframe.noise import random_seed
from dpframe.sketches.hot_partition import HotPartition
from dpframe.sources.record_stream import report_progress
from dpframe.sources.rollup_statement import exact_column_sql
from dpframe.sources.source_relations import open_source, relation_types
from dpframe.sources.user_shares import row_hash

RECORD = PrivacyUnit()


def schema_of(source: object, domain: Domain) -> pa.Schema:
    """The checked types that a source has for the columns of a domain. Public: no row is read."""
    with open_source(source, domain.columns) as relation:
        return _domain_schema(relation, domain)


def counted_codes(
    source: object,
    domain: Domain,
    sketch: HotPartition,
    unit: PrivacyUnit = RECORD,
    *,
    progress: bool = False,
) -> HotPartition:
    """Count the rows of a source into the sketch, and return the sketch. With ``unit.user``, a
    uniform sample of at most ``unit.max_contributions`` rows per user counts."""
    user = [unit.user] if unit.user is not None else []
    with open_source(source, [*domain.columns, *user]) as relation:
        _domain_schema(relation, domain)
        statement = _domain_rows_sql(domain)
        if unit.user is not None:
            types = relation_types(relation)
            check_writable(unit.user, types[unit.user])
            statement = _user_sample_sql(domain, unit, types, random_seed())
        for batch in report_progress(relation.batches(statement), progress):
            sketch.update(domain.codes(batch))
    return sketch


def _domain_schema(relation: _duck.Relation, domain: Domain) -> pa.Schema:
    types = dict(zip(relation.columns, relation.types, strict=True))
    domain.check_types({name: types[name] for name in domain.columns})
    return relation.query(_domain_rows_sql(domain) + " LIMIT 0", False).schema


def _domain_rows_sql(domain: Domain) -> str:
    return f"SELECT {', '.join(map(identifier, domain.columns))} FROM {_duck.VIEW}"


def _user_sample_sql(domain: Domain, unit: PrivacyUnit, types: dict[str, str], seed: int) -> str:
    """A query of at most ``unit.max_contributions`` rows of each user.

    Rows of a user are ranked by a hash of the user, the row, its number among equal rows and the
    seed: a uniform sample that depends on no other user. NULL ids are one user.
    """
    assert unit.user is not None
    chosen = [f"{exact_column_sql(c, types[c])} AS c{i}" for i, c in enumerate(domain.columns)]
    names = ", ".join(f"c{i}" for i in range(len(chosen)))
    back = ", ".join(f"c{i} AS {identifier(c)}" for i, c in enumerate(domain.columns))
    order = ascending_order(row_hash(f"u, {names}, i", seed), *names.split(", "), "i")
    return (
        f"WITH named AS (SELECT {', '.join(chosen)}, "
        f"{exact_column_sql(unit.user, types[unit.user])} AS u "
        f"FROM {_duck.VIEW}), "
        f"numbered AS (SELECT *, row_number() OVER (PARTITION BY u, {names}) AS i FROM named), "
        f"ranked AS (SELECT *, row_number() OVER (PARTITION BY u ORDER BY {order}) "
        "AS place FROM numbered) "
        f"SELECT {back} FROM ranked WHERE place <= {unit.max_contributions}"
    )
