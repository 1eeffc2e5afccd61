"""A release, in five verbs: plan, count, charge, perturb, tidy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from dpframe._forking import no_fork
from dpframe._progress import part
from dpframe.asking.about import ANY, About
from dpframe.asking.plan import Counted, Draws, Plan, Spends
from dpframe.asking.receipt import Receipt
from dpframe.digest import seal
from dpframe.errors import ParameterError, SourceError

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.ledger import Blocks, Ledger, Stored

C = TypeVar("C")
N = TypeVar("N")
T = TypeVar("T")

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


def released(
    counted: Callable[[], Counted[C]],
    plan: Plan[C, N],
    *,
    source: str,
    ledger: Ledger | None,
    name: str | None,
    about: About = ANY,
) -> Release:
    """Run a plan, made without data, on what ``counted`` fetches when it is needed; or replay what
    its name already answered."""
    if name is None:
        return _drawn(counted, plan, source, ledger, None, about)
    request = asked_for(plan.request, source, about)
    known = already(request, ledger, name)
    if known is not None:
        return known
    assert ledger is not None  # or `already` raises
    with ledger.drawing():  # whoever comes second replays
        known = already(request, ledger, name)
        if known is not None:
            return known
        new = _drawn(counted, plan, source, ledger, name, about)
        with stays_charged(new.receipt, ledger):
            ledger.keep(_stored(new, name, request))
        return new


def asked_for(request: Mapping[str, object], source: str, about: About) -> dict[str, object]:
    """What a name answers."""
    return {**request, "source": source, **about.request}


def already(
    request: dict[str, object],
    ledger: Ledger | None,
    name: str | None,
    former: dict[str, object] | None = None,
) -> Release | None:
    """What a name already answered, None if it is new or there is no name. Nothing is read."""
    if name is None:
        return None
    stored = kept(request, keeper(ledger, name), name, former)
    return None if stored is None else replayed(stored)


def keeper(ledger: Ledger | None, name: str) -> Ledger:
    """The ledger that keeps a release under a name; ParameterError if there is none."""
    if ledger is None:
        raise ParameterError(
            f"release={name!r} needs a ledger. Pass ledger=, or call dp.use_ledger first."
        )
    return ledger


def kept(
    request: dict[str, object],
    ledger: Ledger,
    name: str,
    former: dict[str, object] | None = None,
) -> Stored | None:
    """What a ledger keeps under a name, as it is stored.

    ``former`` is the request that an older version stored for the same call.
    """
    if former is not None:
        stored = ledger.find(name)
        if stored is not None and stored.request == former:
            return stored
    return ledger.find(name, request)


def _drawn(
    counted: Callable[[], Counted[C]],
    plan: Plan[C, N],
    source: str,
    ledger: Ledger | None,
    name: str | None,
    about: About,
) -> Release:
    facts = plan.receipt(name)  # what is spent is fixed before the data are read
    facts = facts.and_also(about.facts(facts))
    blocks = about.blocks
    return drawn(counted, plan, facts, source=source, ledger=ledger, name=name, blocks=blocks)


def drawn(
    counted: Callable[[], Counted[C]],
    plan: Draws[C, N],
    facts: Receipt,
    *,
    source: str,
    ledger: Ledger | None,
    name: str | None = None,
    blocks: Blocks | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Release:
    """Count, charge, perturb, tidy. ``begun`` is called when it is charged and nothing drawn."""
    with no_fork():
        import pandas  # noqa: F401  # before anything is charged

    counts, facts = charged(counted, plan, facts, source, ledger, name, blocks)
    with stays_charged(facts, ledger):
        begun()
        with part("drawing noise"):
            noisy = plan.run(counts.private)  # the only noisy step
            frame = plan.frame(noisy, counts.types)  # public from here on
        return Release(frame, plan.answered(facts, noisy, frame))


def charged(
    counted: Callable[[], T],
    plan: Spends,
    facts: Receipt,
    source: str,
    ledger: Ledger | None,
    name: str | None = None,
    blocks: Blocks | None = None,
) -> tuple[T, Receipt]:
    """True counts that are paid for, and the receipt of that; whoever draws calls this first.

    What is spent is fixed before ``counted`` reads the data, and on disk when this returns.
    """
    if ledger is None:
        return counted(), facts
    with no_fork():
        from dpframe.ledger.charge import Charge
        from dpframe.ledger.reservations import told_by

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
        told=lambda: told_by(plan),
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
    with no_fork():
        from dpframe.ledger.results import Stored

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
            "the schema metadata holds no receipt under 'dpframe'. The file is damaged, or another "
            "program wrote it."
        )
    return Receipt(facts)
