"""Reading a policy: every mistake is noted with its line, its value, and what to write."""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpframe.common.calls import argument_hint, shown_value
from dpframe.doors.gateway.policy import (
    QUESTIONS_SERVED,
    Analyst,
    DataSet,
    Policy,
    hash_token,
    make_token,
)
from dpframe.doors.series.declaration import SOURCE_KEYS, Source, as_source
from dpframe.doors.sql.query import Tables, checked_bounds, table_columns
from dpframe.errors import DpframeError, ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.ledger.store import checked_total

HASHED = re.compile(r"sha256:[0-9a-f]{64}")
NAME = re.compile(r"[^\W\d]\w{0,62}")
ANALYST = re.compile(r"[\w.@+-]{1,100}")

OF_FILE = ("gateway", "data", "analyst", "group")
OF_GATEWAY = (
    *("address", "behind_proxy", "certificate", "failures", "floor", "folder", "identity", "key"),
    *("longest", "memory", "rate"),
)
OF_DATA = (
    *("source", "user", "levels", "bounds", "filters", "period", "zone", "public", "keys"),
    *("epsilon", "delta", "accountant", "largest", "default", "state", "questions", "about"),
)
OF_ANALYST = ("token", "group", "shares", "owner")
OF_GROUP = ("shares",)
OF_IDENTITY = ("header", "key", "algorithm", "claim", "audience", "issuer")


class PolicyError(ParameterError):
    """A policy with mistakes; the message has a line for each."""


Place = tuple[str, ...]


@dataclass(slots=True)
class PolicyReader:
    """Reads the tables of a policy, and collects its mistakes."""

    path: Path
    lines: Mapping[Place, int]
    errors: list[tuple[int, str]] = field(default_factory=list)

    def mistake(self, place: Place, message: str) -> None:
        """Note a mistake at the line of a key, or of the nearest table around it."""
        known = place
        while known and known not in self.lines:
            known = known[:-1]
        self.errors.append((self.lines.get(known, 1), message))

    def attempt(self, place: Place, make: Callable[[], Any], default: Any = None) -> Any:
        """What ``make`` returns; ``default``, with a mistake noted, if it raises."""
        try:
            return make()
        except DpframeError as error:
            self.mistake(place, f"{'.'.join(place)}: {error}")
        except OSError as error:
            why = error.strerror or "it cannot be read"
            self.mistake(place, f"{'.'.join(place)}: {why}. Check the path.")
        return default

    def table(self, given: Any, place: Place, known: Sequence[str] | None) -> dict[str, Any]:
        """A table of keys, without unknown ones."""
        if not isinstance(given, Mapping):
            self.mistake(place, f"{'.'.join(place)} must be a table; got {shown_value(given)}.")
            return {}
        if known is None:
            return dict(given)
        for key in given:
            if key not in known:
                hint = argument_hint(key, known)
                self.mistake(
                    (*place, key), f"{'.'.join(place) or 'a policy'} has no {key!r}.{hint}"
                )
        return {key: value for key, value in given.items() if key in known}

    def text(self, table: Mapping[str, Any], place: Place, key: str, default: Any = None) -> Any:
        """A text, or ``default``."""
        value = table.get(key, default)
        if value is not default and not (isinstance(value, str) and value):
            self.mistake((*place, key), f"{key} must be text; got {shown_value(value)}.")
            return default
        return value

    def number(
        self,
        table: Mapping[str, Any],
        place: Place,
        key: str,
        default: Any,
        low: float,
        high: float,
        whole: bool = False,
    ) -> Any:
        """A number from ``low`` to ``high``, or ``default``."""
        value = table.get(key, default)
        if value is default:
            return default
        kinds = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            what = "a whole number" if whole else "a number"
            self.mistake(
                (*place, key),
                f"{key} ({shown_value(value)}) must be {what} from {low:g} to {high:g}.",
            )
            return default
        return value

    def flag(self, table: Mapping[str, Any], place: Place, key: str) -> bool:
        """True or false; false where it is missing."""
        value = table.get(key, False)
        if not isinstance(value, bool):
            self.mistake((*place, key), f"{key} must be true or false; got {shown_value(value)}.")
        return value is True

    def names(self, table: Mapping[str, Any], place: Place, key: str) -> list[str]:
        """A list of texts."""
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.mistake((*place, key), f"{key} must be a list of texts; got {shown_value(value)}.")
            return []
        return value


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read and check a policy.

    Raises
    ------
    PolicyError
        With a line for each mistake: file, line, value, remedy.
    """
    file = Path(os.path.abspath(path))
    try:
        text = file.read_text(encoding="utf-8")
        given = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise PolicyError(f"{path}: {why}. Write a policy in TOML.") from None
    reader = PolicyReader(file, key_lines(text))
    policy = _policy_of(reader, given)
    if reader.errors:
        noted = sorted(dict.fromkeys(reader.errors))
        raise PolicyError("\n".join(f"{path}, line {line}: {message}" for line, message in noted))
    return policy


HEAD = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?")
KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def key_lines(text: str) -> dict[Place, int]:
    """The number of the line on which each table and key of a TOML file begins.

    Examples
    --------
    >>> key_lines('[data.sales]' + chr(10) + 'epsilon = 1')[("data", "sales", "epsilon")]
    2
    """
    out: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        head = HEAD.match(line)
        found = head or KEY.match(line)
        if found is None:
            continue
        parts = tuple(part.strip("\"'") for part in PART.findall(found[1]))
        if head is not None:
            table, parts = parts, ()
        for end in range(len(parts) + 1):
            out.setdefault((*table, *parts[:end]), number)
    return out


def _policy_of(reader: PolicyReader, given: Mapping[str, Any]) -> Policy:
    given = reader.table(given, (), OF_FILE)
    place: Place = ("gateway",)
    settings = reader.table(given.get("gateway", {}), place, OF_GATEWAY)
    declared = reader.table(given.get("data", {}), ("data",), None)
    if not declared:
        reader.mistake((), "a policy needs a data set. Write [data.NAME] and its source.")
    data = {name: _data_set(reader, name, table) for name, table in declared.items()}
    known = {name: one for name, one in data.items() if one is not None}
    totals = {name: one.epsilon for name, one in known.items()}
    groups = {}
    for name, table in reader.table(given.get("group", {}), ("group",), None).items():
        own = reader.table(table, ("group", name), OF_GROUP)
        groups[name] = _shares(reader, own, ("group", name), totals, [*declared])
    analysts: dict[str, Analyst] = {}
    for name, table in reader.table(given.get("analyst", {}), ("analyst",), None).items():
        _add_analyst(reader, analysts, name, table, groups, totals, [*declared])
    base = reader.path.parent
    folder = reader.text(settings, place, "folder", f"{reader.path.stem}.ledgers")
    files = [reader.text(settings, place, name) for name in ("certificate", "key")]
    certificate, key = (None if name is None else base / name for name in files)
    for name, file in (("certificate", certificate), ("key", key)):
        if file is not None and not file.is_file():
            reader.mistake((*place, name), f"{name} ({str(file)!r}) is no file. Check the path.")
    if (certificate is None) != (key is None):
        reader.mistake(place, "certificate and key go together. Name both files, or none.")
    behind = reader.flag(settings, place, "behind_proxy")
    address = _address(reader, settings, place, certificate is not None or behind)
    memory = reader.number(settings, place, "memory", None, 2**26, 2**50, whole=True)
    return Policy(
        path=reader.path,
        folder=base / folder,
        data=known,
        analysts=analysts,
        floor=reader.number(settings, place, "floor", 0.25, 0.01, 60),
        failures=reader.number(settings, place, "failures", 3, 1, 1000, whole=True),
        rate=reader.number(settings, place, "rate", 6000, 1, 10**9, whole=True),
        longest=reader.number(settings, place, "longest", 60.0, 1, 86_400),
        memory=memory,
        address=address,
        certificate=certificate,
        key=key,
        behind_proxy=behind,
        identity=_identity(reader, settings, place, behind),
    )


LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


def _address(
    reader: PolicyReader, settings: Mapping[str, Any], place: Place, safe: bool
) -> tuple[str, int]:
    text = reader.text(settings, place, "address", "127.0.0.1:8722")
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) < 2**16:
        reader.mistake(
            (*place, "address"), f"address ({text!r}) must be HOST:PORT, such as 127.0.0.1:8722."
        )
        return "127.0.0.1", 0
    if host not in LOOPBACK and not safe:
        reader.mistake(
            (*place, "address"),
            f"address ({text!r}) can be reached from outside. Name certificate and key, or write "
            "behind_proxy = true.",
        )
    return host.strip("[]"), int(port)


def _identity(
    reader: PolicyReader, settings: Mapping[str, Any], place: Place, behind: bool
) -> Mapping[str, str] | None:
    if "identity" not in settings:
        return None
    place = (*place, "identity")
    table = reader.table(settings["identity"], place, OF_IDENTITY)
    found = {key: reader.text(table, place, key) for key in table}
    missing = [key for key in ("header", "key", "algorithm", "audience") if not found.get(key)]
    if missing:
        reader.mistake(place, f"identity lacks {', '.join(missing)}.")
    if found.get("algorithm") not in (None, "ES256", "RS256", "EdDSA"):
        reader.mistake((*place, "algorithm"), "algorithm must be ES256, RS256 or EdDSA.")
    if not behind:
        reader.mistake(place, "identity needs behind_proxy = true: a proxy sets its header.")
    if found.get("key"):
        file = reader.path.parent / found["key"]
        found["key"] = reader.attempt((*place, "key"), lambda: file.read_text("ascii"), "")
    return found


def _shares(
    reader: PolicyReader,
    table: Mapping[str, Any],
    place: Place,
    totals: Mapping[str, float],
    declared: Sequence[str],
) -> dict[str, float]:
    """Shares of epsilon by data set."""
    place = (*place, "shares")
    out = {}
    for name, share in reader.table(table.get("shares", {}), place, None).items():
        where = (*place, name)
        if name not in declared:
            reader.mistake(where, f"{name!r} is no data set.{argument_hint(name, declared)}")
        elif not _is_number(share) or not 0 < share < math.inf:
            reader.mistake(where, f"share ({shown_value(share)}) of {name!r} must be an epsilon.")
        elif share > totals.get(name, math.inf):
            reader.mistake(
                where,
                f"share ({share:g}) of {name!r} is above its total epsilon, {totals[name]:g}. "
                "Write at most that.",
            )
        else:
            out[name] = float(share)
    return out


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _add_analyst(
    reader: PolicyReader,
    analysts: dict[str, Analyst],
    name: str,
    given: Any,
    groups: Mapping[str, Mapping[str, float]],
    totals: Mapping[str, float],
    declared: Sequence[str],
) -> None:
    place: Place = ("analyst", name)
    table = reader.table(given, place, OF_ANALYST)
    if not ANALYST.fullmatch(name):
        reader.mistake(place, f"analyst {name!r} must have a name of letters, digits and .@+-_")
    if name.casefold() in map(str.casefold, analysts):
        reader.mistake(place, f"analyst {name!r} is there twice. Case does not tell names apart.")
    token = reader.text(table, place, "token", "")
    if not HASHED.fullmatch(token):
        reader.mistake(
            (*place, "token"),
            f"token of {name!r} is no hash. Run 'dpframe token {name}', and write the hash that it "
            "prints.",
        )
    elif token in [one.token for one in analysts.values()]:
        reader.mistake((*place, "token"), f"token of {name!r} is another analyst's, too. Make one.")
    group = reader.text(table, place, "group")
    if group is not None and group not in groups:
        reader.mistake(
            (*place, "group"), f"{group!r} is no group.{argument_hint(group, [*groups])}"
        )
    analysts[name] = Analyst(
        name=name,
        token=token,
        group=group,
        shares=_shares(reader, table, place, totals, declared),
        group_shares=groups.get(group or "", {}),
        owner=reader.flag(table, place, "owner"),
    )


# -- data sets -------------------------------------------------------------------------------------


def _data_set(reader: PolicyReader, name: str, given: Any) -> DataSet | None:
    place: Place = ("data", name)
    table = reader.table(given, place, OF_DATA)
    if not NAME.fullmatch(name):
        reader.mistake(place, f"data set {name!r} must have a name that SQL can read, as sales_2.")
    if "source" not in table:
        reader.mistake(place, f"data set {name!r} has no source. Write source = 'sales.parquet'.")
        return None
    source = _source(reader, table["source"], (*place, "source"))
    types = None if source is None else _column_types(reader, source, (*place, "source"), name)
    totals = reader.attempt(place, lambda: checked_total(table.get("epsilon"), table.get("delta")))
    if types is None or source is None or totals is None:
        return None
    columns = {column.casefold(): column for column in types}

    def column(key: str, value: str) -> str | None:
        if value not in types:
            near = argument_hint(value, [*types])
            reader.mistake((*place, key), f"{key} names {value!r}, which no column has.{near}")
            return None
        return value

    user = reader.text(table, place, "user")
    user = None if user is None else column("user", user)
    period = reader.text(table, place, "period")
    period = None if period is None else column("period", period)
    filters = [one for one in reader.names(table, place, "filters") if column("filters", one)]
    levels = []
    for text in reader.names(table, place, "levels"):
        level = reader.attempt((*place, "levels"), lambda text=text: as_hierarchy(text, "levels"))
        if level is None or None in [column("levels", one) for one in level.source_columns]:
            continue
        kinds = tuple(types[one] for one in level.source_columns)
        reader.attempt(
            (*place, "levels"), lambda level=level, kinds=kinds: level.check_types(kinds)
        )
        levels.append(level)
    bounds = _bounds(reader, table, place)
    measured = [one for text in bounds for one in _bounded_columns(text) if column("bounds", one)]
    epsilon, delta = totals
    largest = reader.number(table, place, "largest", min(epsilon, 1.0), 1e-6, epsilon)
    default = reader.number(table, place, "default", min(largest, 0.1), 1e-6, largest)
    questions = reader.names(table, place, "questions") or list(QUESTIONS_SERVED)
    for one in questions:
        if one not in QUESTIONS_SERVED:
            hint = argument_hint(one, QUESTIONS_SERVED)
            reader.mistake((*place, "questions"), f"{one!r} is no question here.{hint}")
    named = [one for level in levels for one in level.source_columns]
    named += [*measured, *filters, *[one for one in (user, period) if one is not None]]
    if not levels:
        reader.mistake(place, f"data set {name!r} has no levels. Write levels = ['country'].")
    accountant = reader.text(table, place, "accountant", "sum")
    if accountant not in ("sum", "pld"):
        reader.mistake((*place, "accountant"), f"accountant ({accountant!r}) must be sum or pld.")
    return DataSet(
        name=name,
        source=source,
        columns={one: types[one] for one in columns.values() if one in named},
        user=user,
        levels=tuple(levels),
        bounds=bounds,
        filters=tuple(filters),
        period=period,
        zone=reader.text(table, place, "zone"),
        public=_public_tables(reader, table, place),
        keys=_key_lists(reader, table, place),
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        largest=largest,
        default=default,
        state=reader.text(table, place, "state", "1"),
        questions=tuple(questions),
        about=reader.text(table, place, "about", ""),
    )


def _source(reader: PolicyReader, given: Any, place: Place) -> Source | None:
    if isinstance(given, Mapping):
        given = reader.table(given, place, SOURCE_KEYS)
    elif not isinstance(given, str):
        reader.mistake(place, f"source must be a file or a table; got {shown_value(given)}.")
        return None
    found: Source | None = reader.attempt(
        place, lambda: as_source(given, reader.path.parent, "the source")
    )
    return found


def _column_types(
    reader: PolicyReader, source: Source, place: Place, name: str
) -> dict[str, str] | None:
    """Columns and types of a source. No row is read."""

    def read() -> dict[str, str]:
        with source.open("") as opened:
            return dict(table_columns({name: opened})[name.casefold()].types)

    found: dict[str, str] | None = reader.attempt(place, read)
    return found


def _bounds(
    reader: PolicyReader, table: Mapping[str, Any], place: Place
) -> dict[str, tuple[Any, Any]]:
    where = (*place, "bounds")
    given = reader.table(table.get("bounds", {}), where, None)
    bounds: dict[str, tuple[Any, Any]] = reader.attempt(where, lambda: checked_bounds(given), {})
    for name, (lower, upper) in bounds.items():
        plain = _is_number(lower) and _is_number(upper)
        if plain and not -math.inf < lower < upper < math.inf:
            reader.mistake(
                (*where, name), f"bounds of {name!r} ({lower}, {upper}) must be two rising numbers."
            )
    return bounds


BOUNDED = re.compile(r"\s*[a-z_]+\s*\(\s*(.*?)\s*\)\s*")


def _bounded_columns(text: str) -> list[str]:
    """The column of a key of ``bounds``: ``amount``, ``sum(amount)``; none of ``*``."""
    found = BOUNDED.fullmatch(text)
    column = text if found is None else found[1]
    return [] if column in ("*", "") else [column.strip('"')]


def _public_tables(
    reader: PolicyReader, table: Mapping[str, Any], place: Place
) -> dict[str, pa.Table]:
    """Public tables, which stay in memory."""
    where = (*place, "public")
    out = {}
    for name, given in reader.table(table.get("public", {}), where, None).items():
        source = _source(reader, given, (*where, name))
        rows = source and reader.attempt((*where, name), lambda source=source: _rows_of(source))
        if rows is not None:
            out[name] = rows
    return out


def _key_lists(reader: PolicyReader, table: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Public lists of keys: lists in the policy, or the rows of a file."""
    where = (*place, "keys")
    out: dict[str, Any] = {}
    for name, given in reader.table(table.get("keys", {}), where, None).items():
        if isinstance(given, list):
            out[name] = given
            continue
        source = _source(reader, given, (*where, name))
        if source is None:
            continue
        rows = reader.attempt((*where, name), lambda source=source: _rows_of(source))
        if rows is not None:
            out[name] = rows.to_pandas()
    return out


def _rows_of(source: Source) -> pa.Table:
    """All rows of a public source."""
    with source.open("") as opened:
        return Tables(private={}, public={"rows": opened}).public_rows()["rows"]


DEMO = """# Flights from New York in 2013, which ship with dpframe. An aircraft is a user.
[data.flights]
source = {source}
about = "Flights from New York City in 2013."
user = "aircraft"
levels = ["columns:origin,dest,carrier", "columns:carrier", "columns:dest", "date:date"]
bounds = {{ hour = [0, 24], "distinct(dest)" = [0, 20] }}
filters = ["hour", "date"]
period = "date"
epsilon = 10.0
delta = 1e-5
largest = 2.0
default = 0.5

[analyst.demo]
token = "{token}"
owner = true
shares = {{ flights = 10.0 }}
"""


def write_demo(folder: str) -> tuple[Path, str]:
    """Write the policy of the demonstration into a folder; return its path and a new token."""
    place = Path(folder)
    place.mkdir(mode=0o700, exist_ok=True)
    token = make_token()
    path = place / "policy.toml"
    with resources.as_file(resources.files("dpframe") / "data" / "flights.parquet") as flights:
        text = DEMO.format(source=json.dumps(str(flights)), token=hash_token(token))
    path.write_text(text, encoding="utf-8")
    return path, token
