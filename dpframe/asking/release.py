"""Make a release, in five verbs: plan, count, charge, perturb, tidy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from dpframe._progress import part
from dpframe.asking.data_scope import ALL_DATA, DataScope
from dpframe.asking.plan_protocols import Draws, MechanismInput, Plan, Spends
from dpframe.asking.privacy_receipt import Receipt
from dpframe.digest import seal_frame
from dpframe.errors import ParameterError, SourceError

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.ledger import Blocks, Ledger, StoredResult

C = TypeVar("C")
N = TypeVar("N")
T = TypeVar("T")

LEAST_CHARGE = 1e-18
"""The delta charged for a release with delta = 0: no ledger takes a charge of nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A noisy frame and its receipt. Public: everything from here on is free."""

    frame: pd.DataFrame
    receipt: Receipt

    def to_frame(self) -> pd.DataFrame:
        """The frame with the receipt in ``attrs["dp"]``, and a digest that shows later changes."""
        return seal_frame(self.frame.copy(), self.receipt.to_dict())

    def to_arrow(self) -> pa.Table:
        """An Arrow table with the receipt in its schema metadata under ``dpframe``."""
        table = pa.Table.from_pandas(self.frame, preserve_index=False)
        metadata = {**(table.schema.metadata or {}), b"dpframe": self.receipt.to_json().encode()}
        return table.replace_schema_metadata(metadata)


def make_release(
    counted: Callable[[], MechanismInput[C]],
    plan: Plan[C, N],
    *,
    source: str,
    ledger: Ledger | None,
    name: str | None,
    about: DataScope = ALL_DATA,
) -> Release:
    """Run a plan, or replay the release that ``name`` already has.

    The plan was made without data; ``counted`` fetches the mechanism's input only if it is needed.
    """
    request = named_request(plan.request, source, about)
    known = find_replay(request, ledger, name)
    if known is not None:
        return known
    keeps = None if name is None else ledger  # find_replay raises for a name without one
    with nullcontext() if keeps is None else keeps.drawing():
        known = find_replay(request, ledger, name)  # of two calls at once the second replays
        if known is not None:
            return known
        facts = plan.receipt(name)  # what is spent is fixed before the data are read
        facts = facts.with_facts(about.facts(facts))
        new = count_charge_draw(
            counted, plan, facts, source=source, ledger=ledger, name=name, blocks=about.blocks
        )
        if keeps is not None and name is not None:
            with note_charge_on_interrupt(new.receipt, keeps):
                keeps.keep(_release_to_stored(new, name, request))
        return new


def named_request(
    request: Mapping[str, object], source: str, about: DataScope
) -> dict[str, object]:
    """Return the request of a named release: arguments, source, and what the data are."""
    return {**request, "source": source, **about.request}


def find_replay(
    request: dict[str, object], ledger: Ledger | None, name: str | None
) -> Release | None:
    """Return the release that a name already has; None for a new name, or without a name.

    Reads no data. Raises ParameterError for a name without a ledger, and ReleaseNameError for the
    name of another request.
    """
    if name is None:
        return None
    stored = require_ledger(ledger, name).find(name, request)
    return None if stored is None else replay_of_stored(stored)


def require_ledger(ledger: Ledger | None, name: str) -> Ledger:
    """Return the ledger, which is to keep a named release; ParameterError if there is none."""
    if ledger is None:
        raise ParameterError(
            f"release={name!r} needs a ledger. Pass ledger=, or call dp.use_ledger first."
        )
    return ledger


def count_charge_draw(
    counted: Callable[[], MechanismInput[C]],
    plan: Draws[C, N],
    facts: Receipt,
    *,
    source: str,
    ledger: Ledger | None,
    name: str | None = None,
    blocks: Blocks | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Release:
    """Count, charge, perturb, tidy. ``begun`` is called between the charge and the first draw."""
    import pandas  # noqa: F401  # before anything is charged

    counts, facts = count_and_charge(counted, plan, facts, source, ledger, name, blocks)
    with note_charge_on_interrupt(facts, ledger):
        begun()
        with part("drawing noise"):
            noisy = plan.run(counts.private)  # the only noisy step
            frame = plan.frame(noisy, counts.types)  # public from here on
        return Release(frame, plan.finish_receipt(facts, noisy, frame))


def count_and_charge(
    counted: Callable[[], T],
    plan: Spends,
    facts: Receipt,
    source: str,
    ledger: Ledger | None,
    name: str | None = None,
    blocks: Blocks | None = None,
) -> tuple[T, Receipt]:
    """Return true counts that are paid for, and the receipt, which then tells of the charge.

    Every draw starts here: the cost is fixed before ``counted`` reads the data, and with a ledger
    the charge is on disk when this function returns.
    """
    if ledger is None:
        return counted(), facts
    from dpframe.ledger.charge import Charge
    from dpframe.ledger.reservations import plan_gaussian_cost

    cost = Charge(
        release_id=facts["release_id"],
        time=facts["time"],
        epsilon=plan.budget.epsilon,
        delta=plan.budget.delta or LEAST_CHARGE,
        profile=lambda: plan.profile,
        source=source,
        receipt=facts.to_json(),
        name=name,
        blocks=blocks,
        told=lambda: plan_gaussian_cost(plan),
    )
    ledger.check(cost)  # nothing is read for a release that cannot be paid
    private = counted()
    with note_charge_on_interrupt(facts, ledger):
        return private, facts.paid(ledger, ledger.charge(cost))


@contextmanager
def note_charge_on_interrupt(facts: Receipt, ledger: Ledger | None) -> Iterator[None]:
    """Tell a user who stops the block, which charges, draws or stores, what may be spent."""
    try:
        yield
    except KeyboardInterrupt as error:
        if ledger is not None:
            error.add_note(
                f"Release {facts['release_id']} can be charged already, and what is charged stays "
                "charged: ledger.releases() lists it then."
            )
        raise


def _release_to_stored(release: Release, name: str, request: dict[str, object]) -> StoredResult:
    table = release.to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    from dpframe.ledger.results import StoredResult

    return StoredResult(
        name=name,
        release_id=release.receipt["release_id"],
        request=request,
        receipt=release.receipt.to_json(),
        frame=sink.getvalue().to_pybytes(),
    )


def replay_of_stored(stored: StoredResult) -> Release:
    """Return a stored result as it was released, with a receipt that says so."""
    facts = {**json.loads(stored.receipt), "replayed": True}
    return Release(stored.to_arrow().to_pandas(), Receipt(facts))


def receipt_in_metadata(metadata: dict[bytes, bytes] | None) -> Receipt | None:
    """Return the receipt in Arrow or Parquet schema metadata, if any; SourceError if damaged."""
    text, facts = (metadata or {}).get(b"dpframe"), None
    if text is None:
        return None
    with suppress(ValueError, RecursionError):
        facts = json.loads(text)
    if not isinstance(facts, dict):
        raise SourceError(
            "the schema metadata holds no receipt under 'dpframe'. The file is damaged, or another "
            "program wrote it."
        )
    return Receipt(facts)
