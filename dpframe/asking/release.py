"""A release, in five verbs: plan, count, charge, perturb, tidy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from dpframe.accounting.compose import Profile
from dpframe.asking.digest import seal
from dpframe.asking.receipt import Explainable, Receipt, receipt
from dpframe.budget import Budget
from dpframe.errors import ParameterError, SourceError
from dpframe.federated.population import Population
from dpframe.ledger import Charge, Ledger, Stored
from dpframe.mechanisms.hot_partition import Partition
from dpframe.mechanisms.prefix_tree import FoundItems
from dpframe.questions.hhh.partitioned import PartitionPlan, partition_plan
from dpframe.questions.hhh.plan import Plan
from dpframe.questions.prefix_tree.plan import PrefixPlan
from dpframe.questions.prefix_tree.receipt import prefix_frame, prefix_receipt
from dpframe.questions.sketches.frame import merged_stream_frame
from dpframe.questions.sketches.receipt import partition_receipt
from dpframe.questions.synthesize.plan import SyntheticPlan
from dpframe.questions.synthesize.receipt import synthetic_receipt
from dpframe.questions.tree_counts.plan import TreePlan
from dpframe.questions.tree_counts.receipt import tree_receipt
from dpframe.sketches.hot_partition import HotPartition
from dpframe.sources.relations import describe, only_text
from dpframe.sources.sketch_states import Sketched
from dpframe.sources.spark import SparkFrame, is_spark, shuffle_partitions
from dpframe.sources.spark_stream import partitioned_states
from dpframe.sources.tables import count, exact_counts
from dpframe.tree import CountTree, NoisyNodes, NoisyTree

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

AnyPlan = Explainable | PartitionPlan

AnyCounted = CountTree | Sketched | HotPartition | Population
"""True counts that one of these plans starts from. Private."""

LEAST_CHARGE = 1e-18
"""Delta that a release with delta = 0 is charged: no ledger takes a charge of nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A noisy frame and its receipt. Public: everything from here on is free."""

    frame: pd.DataFrame
    receipt: Receipt

    def to_frame(self) -> pd.DataFrame:
        """The frame with the receipt in ``attrs["dp"]``, and what tells whether it was changed."""
        return seal(self.frame.copy(), self.receipt.to_dict())

    def to_arrow(self) -> pa.Table:
        """An Arrow table with the receipt in its schema metadata under ``dpframe``."""
        table = pa.Table.from_pandas(self.frame, preserve_index=False)
        metadata = {**(table.schema.metadata or {}), b"dpframe": self.receipt.to_json().encode()}
        return table.replace_schema_metadata(metadata)


def release(
    source: object,
    plan: Plan | TreePlan,
    *,
    ledger: Ledger | None = None,
    name: str | None = None,
    data: str | None = None,
    progress: bool = False,
) -> Release:
    """Run a plan, made without data, on a source; or replay what its name already answered."""
    chosen: Plan | TreePlan | PartitionPlan = plan
    if isinstance(plan, Plan) and plan.counters is not None and is_spark(source):
        chosen = partition_plan(plan, shuffle_partitions(source))
    return released(
        lambda: _counted(source, chosen, progress),
        chosen,
        source=describe(source),
        ledger=ledger,
        name=name,
        data=data,
        text=only_text(source),
    )


def _counted(
    source: object, plan: Plan | TreePlan | PartitionPlan, progress: bool
) -> CountTree | Sketched:
    if isinstance(plan, PartitionPlan):
        types = SparkFrame(source, plan.hierarchy.source_columns).types
        return Sketched(partitioned_states(source, plan), tuple(types.values()))
    if isinstance(plan, Plan):
        return count(source, plan, progress=progress)
    return exact_counts(
        source, plan.hierarchy, plan.unit, plan.band, listed=plan.listed, progress=progress
    )


def released(
    counted: Callable[[], AnyCounted],
    plan: AnyPlan,
    *,
    source: str,
    ledger: Ledger | None,
    name: str | None,
    data: str | None = None,
    text: bool = False,
) -> Release:
    """As :func:`release`, for true counts that are fetched when they are needed.

    ``text`` says that weights are read from texts.
    """
    if name is None:
        return _drawn(counted, plan, source, ledger, None, data, text)
    request = asked_for(plan.request, source, data)
    known = already(request, ledger, name)
    if known is not None:
        return known
    assert ledger is not None  # or `already` raises
    with ledger.drawing():  # whoever comes second replays
        known = already(request, ledger, name)
        if known is not None:
            return known
        new = _drawn(counted, plan, source, ledger, name, data, text)
        with stays_charged(new.receipt, ledger):
            ledger.keep(_stored(new, name, request))
        return new


def asked_for(request: dict[str, object], source: str, data: str | None) -> dict[str, object]:
    """What a name answers; ``data`` only where it is given, as in what was stored before it was."""
    about = {} if data is None else {"data": data}
    return {**request, "source": source, **about}


def already(request: dict[str, object], ledger: Ledger | None, name: str | None) -> Release | None:
    """What a name already answered, None if it is new or there is no name. Nothing is read."""
    if name is None:
        return None
    if ledger is None:
        raise ParameterError(
            f"release={name!r} needs a ledger, which keeps the result: pass ledger=, or "
            "call dp.use_ledger first."
        )
    stored = ledger.find(name, request)
    return None if stored is None else replayed(stored)


def _drawn(
    counted: Callable[[], AnyCounted],
    plan: AnyPlan,
    source: str,
    ledger: Ledger | None,
    name: str | None,
    data: str | None,
    text: bool,
) -> Release:
    import pandas  # noqa: F401  # before anything is charged; `import dpframe` does not load it

    facts = _receipt(plan, name, text).about(
        data
    )  # what is spent is fixed before the data are read
    private, facts = charged(counted, plan, facts, source, ledger, name)
    held = private.states if isinstance(private, Sketched) else private
    types = private.types if isinstance(private, CountTree | Sketched) else ()  # public
    with stays_charged(facts, ledger):
        noisy = plan.run(held)  # the only noisy step
        if isinstance(noisy, NoisyNodes):
            facts = facts.with_sketch_error(noisy.sketch_error)
        frame = _frame(noisy, plan, types)  # public from here on
        if not isinstance(plan, SyntheticPlan | PrefixPlan):  # whose rows are of other columns
            weight = plan.unit.weight if text and isinstance(plan, TreePlan) else None
            facts = facts.with_notices(frame, plan.hierarchy, weight)
        return Release(frame, facts)


def _receipt(plan: AnyPlan, name: str | None, text: bool) -> Receipt:
    if isinstance(plan, TreePlan):
        return tree_receipt(plan, name=name, text_weights=text)
    if isinstance(plan, SyntheticPlan):
        return synthetic_receipt(plan, name=name)
    if isinstance(plan, PrefixPlan):
        return prefix_receipt(plan, name=name)
    if isinstance(plan, PartitionPlan):
        return partition_receipt(plan, name=name)
    return receipt(plan, name=name)


def _frame(
    noisy: NoisyNodes | NoisyTree | Partition | FoundItems, plan: AnyPlan, types: tuple[str, ...]
) -> pd.DataFrame:
    import pandas as pd

    from dpframe.questions.hhh.frame import tidy
    from dpframe.questions.tree_counts.frame import tree_frame

    if isinstance(plan, TreePlan):
        assert isinstance(noisy, NoisyTree)
        return tree_frame(noisy, plan, types)
    if isinstance(plan, PrefixPlan):
        assert isinstance(noisy, FoundItems)
        return prefix_frame(noisy, plan)
    if isinstance(plan, SyntheticPlan):
        assert isinstance(noisy, Partition)
        parts = {"level": noisy.level, "code": noisy.code, "count": noisy.count}
        return pd.DataFrame({**parts, "leaf": noisy.leaf})
    assert isinstance(noisy, NoisyNodes)
    if isinstance(plan, PartitionPlan):
        return merged_stream_frame(noisy, plan.merged, types)
    return tidy(noisy, plan, types)


class Spends(Protocol):
    """What a release costs, decided before data are read."""

    @property
    def budget(self) -> Budget: ...

    @property
    def profile(self) -> Profile: ...


def charged(
    counted: Callable[[], T],
    plan: Spends,
    facts: Receipt,
    source: str,
    ledger: Ledger | None,
    name: str | None = None,
) -> tuple[T, Receipt]:
    """True counts that are paid for, and the receipt of that; whoever draws calls this first.

    What is spent is fixed before ``counted`` reads the data, and on disk when this returns.
    """
    if ledger is None:
        return counted(), facts
    cost = Charge(
        release_id=facts["release_id"],
        time=facts["time"],
        epsilon=plan.budget.epsilon,
        delta=plan.budget.delta or LEAST_CHARGE,
        profile=lambda: plan.profile,
        source=source,
        receipt=facts.to_json(),
        name=name,
    )
    ledger.check(cost)  # nothing is read for a release that cannot be paid
    private = counted()
    with stays_charged(facts, ledger):
        return private, facts.paid(ledger, ledger.charge(cost))


@contextmanager
def stays_charged(facts: Receipt, ledger: Ledger | None) -> Iterator[None]:
    """Where a release is charged, drawn and stored: who stops it is told what may be spent."""
    try:
        yield
    except KeyboardInterrupt as error:
        if ledger is not None:
            error.add_note(
                f"Release {facts['release_id']} can be charged already, and what is charged stays "
                "charged: ledger.releases() lists it then."
            )
        raise


def _stored(release: Release, name: str, request: dict[str, object]) -> Stored:
    table = release.to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return Stored(
        name=name,
        release_id=release.receipt["release_id"],
        request=request,
        receipt=release.receipt.to_json(),
        frame=sink.getvalue().to_pybytes(),
    )


def replayed(stored: Stored) -> Release:
    """A stored result as it was released; its receipt says that it is one."""
    facts = {**json.loads(stored.receipt), "replayed": True}
    return Release(stored.to_arrow().to_pandas(), Receipt(facts))


def receipt_of(metadata: dict[bytes, bytes] | None) -> Receipt | None:
    """The receipt in Arrow or Parquet schema metadata, if any; SourceError if it is damaged."""
    text, facts = (metadata or {}).get(b"dpframe"), None
    if text is None:
        return None
    with suppress(ValueError, RecursionError):
        facts = json.loads(text)
    if not isinstance(facts, dict):
        raise SourceError(
            "what the schema metadata holds under 'dpframe' is no receipt: the file is damaged, or "
            "another program wrote it."
        )
    return Receipt(facts)
