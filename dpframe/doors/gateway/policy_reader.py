"""Reading a policy: every mistake is noted with its line, its value, and what to write."""

from __future__ import annotations

import math
import os
import re
import ssl
import stat
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpframe import _duck
from dpframe.asking.measure_texts import TAKES, Bounds, measures_from
from dpframe.common.calls import argument_hint
from dpframe.common.files import Place, TomlReader, key_lines, reason_of
from dpframe.common.texts import identifier
from dpframe.doors.gateway.policy import (
    ANALYST,
    QUESTIONS_SERVED,
    TOKEN,
    Analyst,
    DataSet,
    Identity,
    Policy,
    bounded_column,
)
from dpframe.doors.gateway.views import read_views
from dpframe.doors.series.declaration import SOURCE_KEYS, Source, as_source
from dpframe.doors.sql.query import Tables, table_columns
from dpframe.errors import DpframeError, ParameterError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.ledger.store import checked_total
from dpframe.measures.measure import quote_column
from dpframe.periods import as_period
from dpframe.questions.question_list import QUESTIONS
from dpframe.sources.frames import without_rows
from dpframe.sources.source_relations import period_reading

HASHED = re.compile(r"sha256:[0-9a-f]{64}")
NAME = re.compile(r"[^\W\d]\w{0,62}")
SECRET = re.compile(rf"(?<={TOKEN})[\w-]+|(?<=://)[^\s/]*@")  # tokens, passwords in addresses

OF_FILE = ("gateway", "data", "analyst", "group", "view")
OF_GATEWAY = (
    *("address", "behind_proxy", "certificate", "failures", "floor", "folder", "identity", "key"),
    *("longest", "memory", "publish", "rate"),
)
OF_DATA = (
    *("source", "user", "levels", "bounds", "filters", "period", "zone", "public", "keys"),
    *("epsilon", "delta", "accountant", "largest", "default", "state", "questions", "about"),
)
OF_ANALYST = ("token", "group", "shares", "owner", "speaks_for")
OF_GROUP = ("shares",)
OF_IDENTITY = ("header", "key", "algorithm", "audience", "issuer", "claim")
ALGORITHMS = ("ES256", "RS256", "EdDSA")
ACCOUNTANTS = ("sum", "pld")
TEXTS = {"state": "1", "about": ""}
NO_TOTAL = 1e6  # in the place of a total that is wrong, so that reading can go on


class PolicyError(ParameterError):
    """A policy with mistakes; the message has a line for each."""


class PolicyReader(TomlReader):
    """Reads the tables of a policy, and collects its mistakes."""

    def mistake(self, place: Place, message: str) -> None:
        """Note a mistake, without tokens and without passwords in addresses."""
        super().mistake(place, SECRET.sub("...", message))

    def show_value(self, value: Any, place: Place) -> str:
        """A value as a message may show it: of analysts numbers alone."""
        hidden = place[:1] == ("analyst",) and not isinstance(value, int | float)
        return "a value that is not shown" if hidden else super().show_value(value, place)


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read and check a policy.

    Raises
    ------
    PolicyError
        With a line for each mistake, in their order: file, line, value, remedy.
    """
    file = Path(os.path.abspath(path))
    try:
        text = file.read_text(encoding="utf-8")
        _check_rights(path, file)
        given = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        why = reason_of(error) if isinstance(error, OSError) else str(error).rstrip(".")
        raise PolicyError(f"{path}: {why}. Correct the file, or its path or rights.") from None
    reader = PolicyReader(file, key_lines(text))
    policy = _policy_of(reader, given)
    if reader.errors:
        noted = sorted(dict.fromkeys(reader.errors))
        raise PolicyError("\n".join(f"{path}, line {line}: {message}" for line, message in noted))
    return policy


def _check_rights(path: str | os.PathLike[str], file: Path) -> None:
    """Raise PolicyError if somebody else can change a policy, as OpenSSH does for its files.

    Others may read it: it holds hashes.
    """
    for place, words in ((file, "it"), (file.parent, "its folder")):
        about = place.stat()
        if about.st_uid not in (0, os.geteuid()):
            raise PolicyError(f"{path}: {words} belongs to another user. Use a file of your own.")
        if about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX:
            raise PolicyError(
                f"{path}: others can change {words}. Run chmod go-w, and look who has changed it."
            )


def _policy_of(reader: PolicyReader, given: Mapping[str, Any]) -> Policy:
    given = reader.table(given, (), OF_FILE)
    place: Place = ("gateway",)
    settings = reader.table(given.get("gateway", {}), place, OF_GATEWAY)
    declared = reader.table(given.get("data", {}), ("data",), None)
    known: dict[str, DataSet] = {}
    if not declared:
        reader.mistake((), "a policy needs a data set. Write [data.NAME] and its source.")
    for name, table in declared.items():
        if name.casefold() in map(str.casefold, known):
            reader.mistake(("data", name), f"data set {name!r} is there twice. Rename one.")
        found = _data_set(reader, name, table)
        known |= {} if found is None else {name: found}
    totals = {name: one.epsilon for name, one in known.items()}
    groups = {}
    for name, table in reader.table(given.get("group", {}), ("group",), None).items():
        own = reader.table(table, ("group", name), OF_GROUP)
        groups[name] = _shares(reader, own, ("group", name), totals, [*declared])
    analysts: dict[str, Analyst] = {}
    for name, table in reader.table(given.get("analyst", {}), ("analyst",), None).items():
        _add_analyst(
            reader, analysts, name, table, groups, totals, [*declared], "identity" in settings
        )
    _check_deputies(reader, analysts)
    if not analysts:
        reader.mistake((), "a policy needs an analyst. Run 'dpframe token NAME', and paste it.")
    base = reader.path.parent
    folder = reader.text(settings, place, "folder", f"{reader.path.stem}.ledgers")
    files = [reader.text(settings, place, name) for name in ("certificate", "key")]
    certificate, key = (None if name is None else base / name for name in files)
    if (certificate is None) != (key is None):
        reader.mistake(place, "certificate and key go together. Name both files, or none.")
    elif certificate is not None and key is not None:
        _check_certificate(reader, place, certificate, key)
    behind = reader.flag(settings, place, "behind_proxy")
    address = _address(reader, settings, place, certificate is not None or behind)
    memory = reader.number(settings, place, "memory", None, 2**26, 2**50, whole=True)
    tables = given.get("view", {})
    views, publish = read_views(reader, tables, settings, known, [*declared], base / folder)
    return Policy(
        path=reader.path,
        folder=base / folder,
        views=views,
        publish=publish,
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


def _check_certificate(reader: PolicyReader, place: Place, certificate: Path, key: Path) -> None:
    """Note files that cannot serve TLS."""
    for name, file in (("certificate", certificate), ("key", key)):
        where = (*place, name)
        if reader.attempt(where, file.read_bytes) is None:
            return
        if name == "key" and file.stat().st_mode & 0o007:
            reader.mistake(where, "key can be used by others. Run chmod o= on it.")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError):
        reader.mistake(
            (*place, "certificate"),
            "certificate and key must be PEM files of each other, the key without a password. "
            "Check both.",
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
) -> Identity | None:
    if "identity" not in settings:
        return None
    place = (*place, "identity")
    table = reader.table(settings["identity"], place, OF_IDENTITY)
    missing = ", ".join(one for one in OF_IDENTITY[:4] if one not in table)
    if missing:
        reader.mistake(place, f"identity lacks {missing}. Write what the proxy's is.")
    if not behind:
        reader.mistake(place, "identity needs behind_proxy = true: a proxy sets its header.")
    given = {one: reader.text(table, place, one) for one in OF_IDENTITY}
    given["algorithm"] = reader.choice(table, place, "algorithm", ALGORITHMS)
    given["claim"] = given["claim"] or "email"
    where = (*place, "key")
    if given["key"]:
        read = (reader.path.parent / given["key"]).read_text
        given["key"] = reader.attempt(where, partial(read, "utf-8", "replace"))
    identity = Identity(**given)
    if identity.key:
        reader.attempt(where, lambda: identity.keys)
    return identity


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
            said = reader.show_value(share, where)
            reader.mistake(where, f"share ({said}) of {name!r} must be a number above 0.")
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
    has_identity: bool,
) -> None:
    place: Place = ("analyst", name)
    table = reader.table(given, place, OF_ANALYST)
    if not isinstance(given, Mapping):
        return
    if TOKEN in name or not ANALYST.fullmatch(name):
        reader.mistake(
            place, f"an analyst cannot be called {name[:100]!r}. Use letters, digits and .@+-_"
        )
        return
    if name.casefold() in map(str.casefold, analysts):
        reader.mistake(place, f"analyst {name!r} is there twice. Case does not tell names apart.")
    token = table.get("token", "")
    _check_token(reader, place, token, has_identity)
    if token and token in [one.token for one in analysts.values()]:
        reader.mistake((*place, "token"), f"token of {name!r} is another analyst's, too. Make one.")
    group = reader.text(table, place, "group")
    if group is not None and group not in groups:
        reader.mistake(
            (*place, "group"), f"{group!r} is no group. Write [group.{group}], or leave it out."
        )
    owner = reader.flag(table, place, "owner")
    if not {"owner", "shares", "group", "speaks_for"} & {*table}:
        reader.mistake(place, f"analyst {name!r} has no share. Write shares = {{ NAME = 1.0 }}.")
    analysts[name] = Analyst(
        name=name,
        token=token if isinstance(token, str) else "",
        group=group,
        shares=_shares(reader, table, place, totals, declared),
        group_shares=groups.get(group or "", {}),
        owner=owner,
        speaks_for=tuple(reader.names(table, place, "speaks_for")),
    )


def _check_deputies(reader: PolicyReader, analysts: Mapping[str, Analyst]) -> None:
    """Note names for whom a token speaks that are no analyst's."""
    for analyst in analysts.values():
        for i, name in enumerate(analyst.speaks_for):
            if name not in analysts:
                place = ("analyst", analyst.name, "speaks_for", str(i))
                reader.mistake(place, f"{name!r} is no analyst.{argument_hint(name, [*analysts])}")


def _check_token(reader: PolicyReader, place: Place, token: Any, has_identity: bool) -> None:
    """Note what is no hash of a token, and show no token. Without one a proxy says who asks."""
    name, where = place[1], (*place, "token")
    if (token == "" and has_identity) or (isinstance(token, str) and HASHED.fullmatch(token)):
        return
    advice = f"Run 'dpframe token {name}', and write the hash that it prints."
    if isinstance(token, str) and token.startswith(TOKEN):
        advice = f"Whoever read this file has it. {advice}"
        reader.mistake(where, f"token of {name!r} looks like the token itself, no hash. {advice}")
    else:
        said = "is missing" if token == "" else "is no hash of a token"
        reader.mistake(where, f"token of {name!r} {said}. {advice}")


def _data_set(reader: PolicyReader, name: str, given: Any) -> DataSet | None:
    """A data set; None, with a mistake noted, without a source or totals."""
    place: Place = ("data", name)
    table = reader.table(given, place, OF_DATA)
    if not NAME.fullmatch(name):
        reader.mistake(place, f"data set {name!r} must have a name that SQL can read, as sales_2.")
    with ExitStack() as opening:
        source, rows = None, None
        if "source" not in table:
            reader.mistake(place, f"data set {name!r} has no source. Write source = 'FILE'.")
        elif (source := _source(reader, table["source"], (*place, "source"))) is not None:
            opened = source.open("")
            rows = reader.attempt((*place, "source"), lambda: opening.enter_context(opened))
        return _data_set_of(reader, name, table, source, rows)


def _data_set_of(
    reader: PolicyReader, name: str, table: dict[str, Any], source: Source | None, rows: Any
) -> DataSet | None:
    place: Place = ("data", name)
    where = (*place, "source")
    types = None if rows is None else reader.attempt(where, partial(_types_of, rows))
    epsilon, delta = _totals(reader, table, place)

    def column(where: Place, value: str) -> bool:
        """Whether a column exists, or nothing is known of any."""
        if types is None or value in types:
            return True
        near = argument_hint(value, [*types])
        reader.mistake(where, f"{place[-1]} has no column {value!r} for {where[2]}.{near}")
        return False

    def one_column(key: str) -> str | None:
        value = reader.text(table, place, key)
        return value if value is None or column((*place, key), value) else None

    user, period = one_column("user"), one_column("period")
    zone = reader.text(table, place, "zone")
    filters = [
        one
        for i, one in enumerate(reader.names(table, place, "filters"))
        if column((*place, "filters", str(i)), one)
    ]
    levels = []
    for i, text in enumerate(reader.names(table, place, "levels")):
        where = (*place, "levels", str(i))
        level = reader.attempt(where, partial(as_hierarchy, text, "levels"))
        if level is None or not all(column(where, one) for one in level.source_columns):
            continue
        if user in level.source_columns:
            reader.mistake(
                where,
                f"level {text!r} names users, and a group of one is never shown. Leave it out.",
            )
        if types is not None:
            kinds = tuple(types[one] for one in level.source_columns)
            reader.attempt(where, partial(level.check_types, kinds))
        levels.append(level)
    if not table.get("levels"):
        reader.mistake(place, f"data set {name!r} has no levels. Write levels = ['COLUMN'].")
    bounds = {
        text: pair
        for text, pair in _bounds(reader, table, place).items()
        if not (one := bounded_column(text)) or column((*place, "bounds", text), one)
    }
    largest = reader.number(
        table, place, "largest", min(epsilon, 1.0), 1e-6, epsilon, whose=", the total epsilon"
    )
    default = reader.number(
        table, place, "default", min(largest, 0.1), 1e-6, largest, whose=", its largest"
    )
    questions = reader.names(table, place, "questions") or [*QUESTIONS_SERVED]
    for i, one in enumerate(questions):
        if one not in QUESTIONS_SERVED:
            hint = argument_hint(one, QUESTIONS_SERVED)
            reader.mistake((*place, "questions", str(i)), f"{one!r} is no question here.{hint}")
    if zone is not None and period is None:
        reader.mistake((*place, "zone"), "zone is of the column of periods. Write period, too.")
    keys = _key_lists(reader, table, place, levels)
    public = _public_tables(reader, table, place)
    if types is not None:
        _try_period(reader, place, rows, period, zone)
        if levels and user == table.get("user"):
            _try_bounds(reader, place, rows, {"by": levels[0].spec, "user": user}, bounds)
    named = [*(one for level in levels for one in level.source_columns), *filters, user, period]
    named += map(bounded_column, bounds)
    texts = {key: reader.text(table, place, key, default) for key, default in TEXTS.items()}
    texts["accountant"] = reader.choice(table, place, "accountant", ACCOUNTANTS)
    if types is None or source is None or not {"epsilon", "delta"} <= {*table}:
        return None
    return DataSet(
        name=name,
        source=source,
        columns={one: kind for one, kind in types.items() if one in named},
        user=user,
        levels=tuple(levels),
        bounds=bounds,
        filters=tuple(filters),
        period=period,
        zone=zone,
        public=public,
        keys=keys,
        epsilon=epsilon,
        delta=delta,
        largest=largest,
        default=default,
        questions=tuple(questions),
        **texts,
    )


def _types_of(rows: Any) -> dict[str, str]:
    return dict(table_columns({"rows": rows})["rows"].types)


def _totals(reader: PolicyReader, table: Mapping[str, Any], place: Place) -> tuple[float, float]:
    """Epsilon and delta of the ledger; NO_TOTAL where they are wrong."""
    found = []
    for key, example in (("epsilon", 1.0), ("delta", 1e-5)):
        if key not in table:
            why = "the total of all its answers"
            reader.mistake(place, f"{place[1]} has no {key}, {why}. Write {key} = {example:g}.")
            found.append(NO_TOTAL)
            continue
        one: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, key: table[key]}
        total = reader.attempt((*place, key), partial(checked_total, **one))
        found.append(NO_TOTAL if total is None else total[key == "delta"])
    return found[0], found[1]


def _try_period(
    reader: PolicyReader, place: Place, rows: Any, period: str | None, zone: str | None
) -> None:
    """Note a column that no period can be read from. No row is read."""
    if period is not None:
        where, parts = (*place, "zone" if zone else "period"), (period, "2026-01", zone)
        reader.attempt(where, lambda: period_reading(rows, as_period(parts)))


def _source(reader: PolicyReader, given: Any, place: Place) -> Source | None:
    if isinstance(given, Mapping):
        given = reader.table(given, place, SOURCE_KEYS)
    elif not isinstance(given, str):
        reader.mistake(
            place,
            f"{place[-1]} must be a file or a table, such as 'sales.parquet'; got "
            f"{reader.show_value(given, place)}.",
        )
        return None
    read = partial(as_source, given, reader.path.parent, place[-1])
    found: Source | None = reader.attempt(place, read)
    return found


def _bounds(
    reader: PolicyReader, table: Mapping[str, Any], place: Place
) -> dict[str, tuple[Any, Any]]:
    """Bounds by what they are of; those of numbers rise."""
    where, out = (*place, "bounds"), {}
    for name, given in reader.table(table.get("bounds", {}), where, None).items():
        pair: list[Any] = given if isinstance(given, list) and len(given) == 2 else [True]
        if any(
            isinstance(end, bool) or not isinstance(end, str | date | int | float) for end in pair
        ):
            reader.mistake(
                (*where, name), f"bounds of {name!r} must be two values, such as [0, 500]."
            )
        elif all(map(_is_number, pair)) and not -math.inf < pair[0] < pair[1] < math.inf:
            said = f"bounds of {name!r} ({pair[0]}, {pair[1]})"
            reader.mistake((*where, name), f"{said} must be two numbers, the lower one first.")
        else:
            ends = [str(end) if isinstance(end, date) else end for end in pair]
            out[name] = (ends[0], ends[1])
    return out


def _try_bounds(
    reader: PolicyReader, place: Place, rows: Any, asked: Mapping[str, Any], bounds: Bounds
) -> None:
    """Note bounds that no measure of their column can have. No row is read."""
    for name in bounds:
        column = bounded_column(name)
        kind = name.partition("(")[0].strip().lower() if column and "(" in name else ""
        if not column or (kind and kind not in TAKES):
            continue  # of rows, or of an aggregate that only queries have
        kinds = [kind] if kind else ["sum", "median"]
        at = ", 0.5" * (kind == "quantile")
        texts = [f"{one}({quote_column(column)}{at})" for one in kinds]
        found = [_mistake_of(rows, {**asked, "measures": one}, bounds) for one in texts]
        if all(found):
            reader.mistake((*place, "bounds", name), f"bounds of {name!r}: {found[0]}")


def _mistake_of(rows: Any, asked: Mapping[str, Any], bounds: Bounds) -> str:
    """What a rollup of these arguments would say before it reads a row; empty if nothing."""
    rollup = next(one for one in QUESTIONS if one.name == "rollup")
    try:
        measures = measures_from(asked["measures"], bounds)
        plan = rollup.plan({"epsilon": 1.0, "delta": 1e-6, **asked, "measures": measures})
        if rows is not None:
            rollup.checked(rollup.declared(plan), without_rows(rows))
    except DpframeError as error:
        return str(error)
    return ""


def _public_tables(
    reader: PolicyReader, table: Mapping[str, Any], place: Place
) -> dict[str, pa.Table]:
    """Public tables, which stay in memory."""
    where = (*place, "public")
    out: dict[str, pa.Table] = {}
    for name, given in reader.table(table.get("public", {}), where, None).items():
        rows = _rows_of(reader, given, (*where, name))
        if rows is None:
            continue
        reader.attempt((*where, name), partial(Tables.of, {place[1]: rows}, {**out, name: rows}))
        reader.attempt((*where, name), partial(_types_of, rows))
        if reader.attempt((*where, name), partial(_has_twice, rows)):
            reader.mistake(
                (*where, name),
                f"public table {name!r} has a row twice, so that no key joins it. Drop one.",
            )
        out[name] = rows
    return out


def _has_twice(rows: pa.Table) -> bool:
    """Whether two rows of a public table are equal, and have no value missing."""
    named = [identifier(name) for name in rows.column_names]
    whole = " AND ".join(f"{one} IS NOT NULL" for one in named)
    statement = f"SELECT 1 FROM t WHERE {whole} GROUP BY {', '.join(named)} HAVING count(*) > 1"
    return bool(_duck.select_from_tables({"t": rows}, statement, "a public table").num_rows)


def _key_lists(
    reader: PolicyReader, table: Mapping[str, Any], place: Place, levels: Sequence[Hierarchy]
) -> dict[str, Any]:
    """Public lists of keys: lists in the policy, or the rows of a file. Each fits a level."""
    where = (*place, "keys")
    out: dict[str, Any] = {}
    for name, given in reader.table(table.get("keys", {}), where, None).items():
        rows = None if isinstance(given, list) else _rows_of(reader, given, (*where, name))
        if rows is None and not isinstance(given, list):
            continue
        keys = given if rows is None else reader.attempt((*where, name), rows.to_pandas)
        asked = {"measures": "count", "keys": keys}
        found = [_mistake_of(None, {**asked, "by": one.spec}, {}) for one in levels]
        if found and all(found):
            reader.mistake((*where, name), f"list {name!r} fits no level: {found[0]}")
        out[name] = keys
    return out


def _rows_of(reader: PolicyReader, given: Any, place: Place) -> pa.Table | None:
    """All rows of a public source."""
    source = _source(reader, given, place)
    if source is None:
        return None

    def read() -> pa.Table:
        with source.open("") as opened:
            return Tables(private={}, public={"rows": opened}).public_rows()["rows"]

    found: pa.Table | None = reader.attempt(place, read)
    return found
