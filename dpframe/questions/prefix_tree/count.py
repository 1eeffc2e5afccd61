"""The private step of a prefix tree: read the users of a source as devices with items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpframe._progress import rename_step
from dpframe.asking.plan_protocols import MechanismInput
from dpframe.errors import ParameterError, SourceError
from dpframe.federated.encoding import LETTERS, BinaryEncoding
from dpframe.federated.population import Population
from dpframe.questions.prefix_tree.plan import PrefixPlan, discard_progress
from dpframe.questions.prefix_tree.prefix_numbers import PrefixRequest
from dpframe.sources.devices import count_devices, population
from dpframe.sources.sql_tables import check_stored


def opens(asked: PrefixRequest) -> list[str]:
    """The columns of the source, which is opened once: to count users, then to read their items."""
    return [*asked.hierarchy.source_columns, asked.user]


def source_prefix_plan(asked: PrefixRequest, source: object, progress: bool) -> PrefixPlan:
    """The plan for the users of a source, whose number is public."""
    users = count_devices(source, asked.hierarchy, asked.user)
    return replace(
        PrefixPlan.for_devices(asked, users), say=rename_step if progress else discard_progress
    )


def declared_prefix_plan(asked: PrefixRequest) -> PrefixPlan:
    """The plan for the number of devices that the caller declares; no data are read for it."""
    if asked.declared is None:
        raise ParameterError(
            "devices is missing. Pass the number of users, for example devices=100000."
        )
    return PrefixPlan.for_devices(asked, asked.declared)


def count(source: object, plan: PrefixPlan, progress: bool) -> MechanismInput[Population]:
    """The devices of a source and their items."""
    search = plan.asked.search
    found = population(
        source,
        plan.hierarchy,
        plan.asked.user,
        search.encoding,
        search.segments.length,
        progress=progress,
    )
    return MechanismInput(checked_population(found, plan))


def item_types(asked: PrefixRequest, columns: list[tuple[str, str]]) -> tuple[str, ...]:
    """No types: devices send texts. Raises ColumnError for columns that cannot be read."""
    check_stored(asked.hierarchy, asked.unit, columns)
    return ()


def checked_population(found: Population, plan: PrefixPlan) -> Population:
    """The population; SourceError if the source has lost users since they were counted."""
    if found.devices < plan.devices:
        raise SourceError("the source changed while it was read. Call again.")
    return found


FORMER = BinaryEncoding(LETTERS).spec
"""The encoding in requests that were stored when ``LETTERS`` was the default alphabet."""


def former_prefix_request(asked: PrefixRequest) -> Mapping[str, object] | None:
    """The request under the earlier default alphabet; None if the call chose another encoding."""
    if asked.search.encoding.spec != BinaryEncoding().spec:
        return None
    return {**asked.request, "encoding": FORMER}
