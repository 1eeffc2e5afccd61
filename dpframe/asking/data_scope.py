"""What the caller says of the data of a release: the name of their state, and a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpframe.asking.call_arguments import data_name
from dpframe.asking.card import Line
from dpframe.periods import USERS, Period, as_period
from dpframe.sources.period_source import PeriodReading, restrict_to_period
from dpframe.sources.source_relations import csv_reading, period_reading

if TYPE_CHECKING:
    from dpframe.ledger import Blocks


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
        return cls(data=data_name(arguments.get("data")), period=as_period(arguments.get("period")))

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
            out["card"] = [*said["card"], ["source", f"CSV{self.csv}", CSV_TEXT_ONLY]]
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
    "every column is text; numbers are texts such as 1250.5: 1,250.00, $5 and 3,50 count nothing; "
    r"bytes that are no text of the encoding read as \xE9"
)

ALL_DATA = DataScope()
"""No state of the data is named, and no period."""
