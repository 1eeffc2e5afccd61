"""Make a release: count, charge, draw, tidy; what a call says of its data, and what is left in its
ledger or in files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from dpframe.asking.call_arguments import data_name
from dpframe.asking.card import Line
from dpframe.asking.level_plan import Draws, MechanismInput, Plan, Spends
from dpframe.asking.privacy_receipt import Receipt
from dpframe.common.digest import DIGEST, RECEIPT, seal_frame
from dpframe.common.progress import part
from dpframe.errors import (
    OverBudgetError,
    ParameterError,
    ParameterTypeError,
    SourceError,
)
from dpframe.periods import USERS, Period, as_period
from dpframe.sources.source_relations import (
    PeriodReading,
    csv_reading,
    period_reading,
    restrict_to_period,
)

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.ledger import Blocks, Ledger, StoredResult
    from dpframe.ledger.entries import Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class DataScope:
    """What a call says of its data, besides the source.

    Parameters
    ----------
    data
        The caller's name for the state of the data.
    period
        The records that are read, by a column of times.
    reading
        How the column of times is read; None until the types of the source are known.
    csv
        How CSV files are read; None for other sources.
    """

    data: str | None = None
    period: Period | None = None
    reading: PeriodReading | None = None
    csv: str | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> DataScope:
        """Check the arguments of a call that say what its data are."""
        given = arguments.get("period")
        period = None if given is None else as_period(given)
        return cls(data=data_name(arguments.get("data")), period=period)

    @property
    def request(self) -> dict[str, object]:
        """The part of a stored request that names the data.

        Arguments that were left out are missing, so that older requests stay equal.
        """
        data: dict[str, object] = {} if self.data is None else {"data": self.data}
        return data if self.period is None else {**data, "period": self.period.request}

    def read_in(self, source: object) -> DataScope:
        """Return a copy that knows how this source's column of times is read. Reads no row.

        Raises ColumnError for a column that is not there or holds no times, and ParameterError for
        a period that is not over: its release would be stored and replayed for good, without the
        records that come later. A caller who gives ``data`` says which state is meant.
        """
        about = replace(self, csv=csv_reading(source))
        return about if self.period is None else about.read_as(period_reading(source, self.period))

    def read_as(self, reading: PeriodReading) -> DataScope:
        """Return a copy with this reading of the column, after a check that the period is over."""
        if self.data is None:
            reading.check_ended()
        return replace(self, reading=reading)

    def restrict(self, source: object) -> object:
        """The source, restricted to the period."""
        return source if self.reading is None else restrict_to_period(source, self.reading)

    @property
    def blocks(self) -> Blocks | None:
        """The period as a ledger charges it; its axis is the column and how it is read."""
        reading = self.reading
        if reading is None:
            return None
        from dpframe.ledger.blocks import Blocks

        if reading.period.text is None:
            return Blocks.of_null(reading.axis)
        first, last = reading.seconds
        return Blocks(axis=reading.axis, first=first, last=last)

    def facts(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return the facts that a receipt gets in addition to what it ``said`` before."""
        out: dict[str, Any] = {} if self.data is None else {"data": self.data}
        if self.csv is not None:
            text = CSV_TEXT_ONLY.format(others="other " if " as " in self.csv else "")
            out["card"] = [*said["card"], ["source", f"CSV{self.csv}", text]]
        if self.period is None:
            return out
        out["period"] = self._period_facts()
        if said.get("user") is not None:
            out |= {name: f"{said[name]}{USERS}" for name in ("guarantee", "neighbours")}
        lines = self.on([Line(*line) for line in {**said, **out}["card"]], said.get("user"))
        out["card"] = [line.row for line in lines]
        return out

    def _period_facts(self) -> dict[str, Any]:
        assert self.period is not None
        zoned = self.reading is not None and self.reading.how == "instants"
        start, end = self.period.start, self.period.end
        return {
            "column": self.period.column,
            "text": self.period.text,
            "zone": self.period.zone or ("UTC" if zoned and start is not None else None),
            "start": None if start is None else start.isoformat(),
            "end": None if end is None else end.isoformat(),
            "read": None if self.reading is None else self.reading.how,
        }

    def on(self, lines: Sequence[Line], user: str | None) -> list[Line]:
        """Return the lines of a card and a line on the period, if there is one; a promise to users
        then names the period, too."""
        if self.period is None:
            return [*lines]
        if user is not None:
            lines = [
                replace(line, value=f"{line.value}{USERS}") if line.name == "guarantee" else line
                for line in lines
            ]
        return [*lines, self._line(user)]

    def _line(self, user: str | None) -> Line:
        assert self.period is not None
        period, how = self.period, ""
        value = f"{period.column} {'NULL' if period.text is None else period.text}"
        if period.start is None:
            meaning = "only records without a time are read"
        else:
            meaning = f"only records from {period.start} to before {period.end} are read"
            if self.reading is not None:
                how = f"; {self.reading.description}"
            elif period.zone is not None:
                how = f"; by the clock of {period.zone}"
        whose = (
            ""
            if user is None
            else "; of a user who is in d disjoint periods, releases of all of them tell up to d "
            "times as much"
        )
        return Line.of(
            "period",
            value,
            "{meaning}{how}{whose}",
            meaning=meaning,
            how=how,
            whose=whose,
        )


CSV_TEXT_ONLY = (
    "every {others}column is text; numbers are texts such as 1250.5: 1,250.00, $5 and 3,50 count "
    r"nothing; bytes that are no text of the encoding read as \xE9"
)

ALL_DATA = DataScope()
"""No state of the data is named, and no period."""


C = TypeVar("C")
N = TypeVar("N")

LEAST_CHARGE = 1e-18
"""The delta charged for a release with delta = 0: no ledger takes a charge of nothing."""


@dataclass(frozen=True, eq=False)
class Release:
    """A noisy frame and its receipt, which nobody changes. Public: everything from here on is
    free."""

    frame: pd.DataFrame
    receipt: Receipt

    def to_frame(self) -> pd.DataFrame:
        """The frame with the receipt in ``attrs["dp"]``, and a digest that shows later changes."""
        out, known = self.frame.copy(), self._digest
        own = {**known, "columns": [*known["columns"]]}
        out.attrs.update({RECEIPT: self.receipt.to_dict(), DIGEST: own})
        return out

    @cached_property
    def _digest(self) -> dict[str, Any]:
        known: dict[str, Any] = seal_frame(self.frame.copy(deep=False), {}).attrs[DIGEST]
        return known

    @cached_property
    def _table(self) -> pa.Table:
        table = pa.Table.from_pandas(self.frame, preserve_index=False)
        metadata = {**(table.schema.metadata or {}), b"dpframe": self.receipt.to_json().encode()}
        return table.replace_schema_metadata(metadata)

    def to_arrow(self) -> pa.Table:
        """An Arrow table with the receipt in its schema metadata under ``dpframe``."""
        return self._table


def make_release(
    counted: Callable[[], MechanismInput[C]],
    plan: Plan[C, N],
    *,
    source: str,
    ledger: Ledger | None,
    name: str | None,
    about: DataScope = ALL_DATA,
    looked: bool = False,
) -> Release:
    """Run a plan, or replay the release that ``name`` already has.

    The plan was made without data; ``counted`` fetches the mechanism's input only if it is needed.
    Releases of one ledger are counted side by side, and drawn one after the other. ``looked`` says
    that the ledger had nothing under the name just now.
    """
    request = named_request(plan.request, source, about)
    known = None if looked else find_replay(request, ledger, name)
    if known is not None:
        return known
    facts = plan.receipt(name)  # what is spent is fixed before the data are read
    facts = facts.with_facts(about.facts(facts))
    paid_by = payment(ledger, plan, facts, source, name, about.blocks)
    if ledger is None or name is None:  # find_replay raises for a name without a ledger
        return charge_draw(count_affordable(counted, paid_by), plan, facts, paid_by)
    too_much: OverBudgetError | None = None
    try:
        counts = count_affordable(counted, paid_by)
    except OverBudgetError as error:  # by the same call of another process, perhaps
        too_much = error
    with ledger.drawing():
        known = find_replay(request, ledger, name)  # of two calls at once the second replays
        if known is not None:
            return known
        if too_much is not None:
            raise too_much
        new = charge_draw(counts, plan, facts, paid_by)
        with note_charge_on_interrupt(new.receipt, ledger):
            ledger.keep(_release_to_stored(new, name, request))
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


Payment = tuple["Ledger", "Charge"]
"""A ledger, and what a release is to be charged there."""


def payment(
    ledger: Ledger | None,
    plan: Spends,
    facts: Receipt,
    source: str,
    name: str | None = None,
    blocks: Blocks | None = None,
) -> Payment | None:
    """Who pays for a release, and what; None without a ledger."""
    return None if ledger is None else (ledger, charge_for(plan, facts, source, name, blocks))


def count_affordable(
    counted: Callable[[], MechanismInput[C]], paid_by: Payment | None
) -> MechanismInput[C]:
    """The mechanism's input; OverBudgetError, with nothing read, if it cannot be paid now."""
    import pandas  # noqa: F401  # before anything is charged

    if paid_by is not None:
        ledger, charge = paid_by
        ledger.check(charge)
    with part("counting"):
        return counted()


def charge_draw(
    counts: MechanismInput[C],
    plan: Draws[C, N],
    facts: Receipt,
    paid_by: Payment | None,
    begun: Callable[[], None] = lambda: None,
) -> Release:
    """Charge, perturb, tidy. ``begun`` is called between the charge and the first draw.

    With a ledger the charge is on disk before the first draw.
    """
    ledger = None if paid_by is None else paid_by[0]
    with note_charge_on_interrupt(facts, ledger):
        if paid_by is not None:
            ledger, charge = paid_by
            facts = facts.paid(ledger, ledger.charge(charge))
        begun()
        with part("drawing noise"):
            noisy = plan.run(counts.private)  # the only noisy step
            frame = plan.frame(noisy, counts.types)  # public from here on
        return Release(frame, plan.finish_receipt(facts, noisy, frame))


def charge_for(
    plan: Spends, facts: Receipt, source: str, name: str | None = None, blocks: Blocks | None = None
) -> Charge:
    """Return what a release is to be charged; it follows from the plan and says nothing of data."""
    from dpframe.ledger.entries import Charge
    from dpframe.ledger.reservations import plan_gaussian_cost

    return Charge(
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
    from dpframe.ledger.book import StoredResult

    return StoredResult(
        name=name,
        release_id=release.receipt["release_id"],
        request=request,
        receipt=release.receipt.to_json(),
        frame=sink.getvalue().to_pybytes(),
    )


def replay_of_stored(stored: StoredResult) -> Release:
    """Return a stored result as it was released, with a receipt that says so."""
    few = len(stored.frame) <= REPLAYED
    return (_replay if few else _replay.__wrapped__)(stored.receipt, stored.frame)


REPLAYED = 2**18
"""The most bytes of a stored frame whose replay stays in memory, with a digest of its rows."""


@lru_cache(maxsize=16)
def _replay(receipt: str, frame: bytes) -> Release:
    table = pa.ipc.open_file(pa.BufferReader(frame)).read_all()
    return Release(table.to_pandas(), Receipt({**json.loads(receipt), "replayed": True}))


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


SAVED = ".parquet"
"""How files of results end that keep the digest of their rows."""


def _saved_frame(role: str, path: str) -> pd.DataFrame:
    """Return the frame of a saved result, with its receipt."""
    import pandas as pd

    from dpframe.common.files import file_of_path

    try:
        return pd.read_parquet(file_of_path(path))
    except OSError as error:
        why = error.strerror or "it is no such file"
        raise ParameterError(f"{role} ({path!r}) cannot be read ({why}). Check the path.") from None
    except ValueError:
        raise ParameterError(
            f"{role} ({path!r}) is no saved result. Pass a file that dpframe wrote."
        ) from None


def released_side(role: str, given: Any, ledger: object) -> tuple[pd.DataFrame, Receipt]:
    """A frame and its receipt, from a frame, a release, a name in a ledger, or a file."""
    from dpframe.ledger import chosen_ledger

    if isinstance(given, str) and ledger is None and given.lower().endswith(SAVED):
        given = _saved_frame(role, given)
    if isinstance(given, str):
        book = chosen_ledger(ledger)
        if book is None:
            raise ParameterError(
                f"{role} ({given!r}) needs a ledger. Pass ledger=, or call dp.use_ledger first; or "
                "pass two results that were saved as .parquet."
            )
        given = book.recall(given)
    if isinstance(given, Release):
        given = given.to_frame()
    facts = getattr(given, "attrs", {}).get(RECEIPT)
    if facts is None and not hasattr(given, "attrs"):
        raise ParameterTypeError(
            f"{role} must be a released frame or name; got {type(given).__name__}."
        )
    if not isinstance(facts, dict):
        raise ParameterError(
            f"{role} carries no receipt. Pass the frame that dpframe returned: some operations "
            "drop its attrs."
        )
    return given, Receipt(facts)
