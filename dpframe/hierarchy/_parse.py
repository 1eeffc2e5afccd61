"""Parse a hierarchy from what people write: ``"ip:src"``, ``["country", "city"]``, or an object."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl, unquote

from dpframe._known_arguments import shown_value
from dpframe.errors import HierarchyError, ParameterTypeError, class_name
from dpframe.hierarchy._base import Hierarchy
from dpframe.hierarchy._cells import BETWEEN, SETS, UNDER, Cells
from dpframe.hierarchy._code import Code
from dpframe.hierarchy._columns import Columns
from dpframe.hierarchy._date import Date
from dpframe.hierarchy._host_names import HostNames
from dpframe.hierarchy._ip import Ip
from dpframe.hierarchy._number import Number
from dpframe.hierarchy._path import Path

Convert = Callable[[str, str], object]


def _parse_integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise HierarchyError(f"{name} must be a whole number; got {text!r}.") from None


def _parse_real(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise HierarchyError(f"{name} must be a number; got {text!r}.") from None


def _parse_integers(name: str, text: str) -> tuple[int, ...]:
    return tuple(_parse_integer(name, part) for part in text.split(","))


def _parse_words(name: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _parse_text(name: str, text: str) -> str:
    return text


KINDS: dict[str, tuple[type[Hierarchy], dict[str, tuple[str, Convert]]]] = {
    "ip": (
        Ip,
        {
            "prefixes": ("prefixes", _parse_integers),
            "prefixes6": ("prefixes6", _parse_integers),
            "version": ("version", _parse_integer),
        },
    ),
    "path": (
        Path,
        {"separator": ("separator", _parse_text), "depth": ("depth_limit", _parse_integer)},
    ),
    "columns": (Columns, {}),
    "domain": (HostNames, {"depth": ("depth_limit", _parse_integer)}),
    "date": (Date, {"levels": ("levels", _parse_words), "zone": ("zone", _parse_text)}),
    "code": (Code, {"lengths": ("lengths", _parse_integers)}),
    "number": (
        Number,
        {
            "lower": ("lower", _parse_real),
            "upper": ("upper", _parse_real),
            "depth": ("depth_limit", _parse_integer),
        },
    ),
}
"""For each kind its class and, for each option in a string, its field and its parser."""

REQUIRED = {"code": ("lengths",), "number": ("lower", "upper")}

EXAMPLE = (
    "'ip:src', 'path:category', 'columns:country,city', 'domain:host', 'date:when', "
    "'code:zip?lengths=1,3,5', 'number:age?lower=0&upper=100'"
)


def as_hierarchy(value: object, name: str = "hierarchy") -> Hierarchy:
    """Return the hierarchy of a string, a list of column names or a hierarchy object. ``name`` is
    the argument's name, for messages. Raises HierarchyError or ParameterTypeError."""
    if not is_one_hierarchy(value):
        raise HierarchyError(
            f"{name} ({shown_value(value)}) is several hierarchies, for hhh and rollup only: "
            "pass one, "
            "such as 'ip:src', or columns:... for a column of that name, with %20 for a blank."
        )
    if isinstance(value, Hierarchy):
        return value
    if isinstance(value, str):
        return _parse_string(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return Columns(tuple(value))
    if type(value).__name__ == "Series":
        column = getattr(value, "name", None)
        raise ParameterTypeError(
            f"{name} must be the name of a column, and is the column itself. Pass {column!r}."
        )
    if hasattr(value, "tolist") and not hasattr(value, "columns"):  # df.columns[:2], an array
        return Columns(tuple(value.tolist()))
    raise ParameterTypeError(
        f"{name} must be the name of a column, text such as {EXAMPLE}, a list of column names, or "
        f"a hierarchy; got {class_name(value)}."
    )


def is_one_hierarchy(value: object) -> bool:
    """Whether a value means one hierarchy, and not several at once."""
    if isinstance(value, Cells):
        return False
    if isinstance(value, str):
        return not value.startswith(f"{SETS}:") and not any(
            split_hierarchies(value, sign) for sign in (BETWEEN, UNDER)
        )
    listed = isinstance(value, Sequence) and not isinstance(value, bytes)
    return not listed or not any(_is_kind(part) for part in value)  # type: ignore[attr-defined]


def split_hierarchies(text: str, sign: str) -> list[str]:
    """Return the texts of the hierarchies that a sign joins; an empty list if the sign is absent or
    part of an option, as in ``path:category?separator= > ``."""
    parts = [part.lstrip() for part in text.split(sign)]
    several = len(parts) > 1 and all(part and not part.startswith("&") for part in parts)
    return parts if several else []


def _is_kind(part: object) -> bool:
    if isinstance(part, Hierarchy):
        return True
    kind, colon, rest = part.partition(":") if isinstance(part, str) else ("", "", "")
    return kind in KINDS and bool(colon and rest)


def _parse_string(text: str) -> Hierarchy:
    kind, colon, rest = text.partition(":")
    if not colon and "," in text:
        several = f"columns:{','.join(name.strip() for name in text.split(','))}"
        raise HierarchyError(
            f"hierarchy {text!r} would be one column: write {several!r} for several levels."
        )
    if not colon and text and kind not in KINDS:
        return Columns((text,))
    if text in KINDS:
        raise HierarchyError(
            f"hierarchy {text!r} has no column: write {text}:COLUMN, or columns:{text} for a "
            "column of that name."
        )
    if not colon or kind not in KINDS:
        near = difflib.get_close_matches(kind.lower(), KINDS, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near and colon else ""
        raise HierarchyError(
            f"hierarchy {text!r} names no known kind.{hint} Write KIND:COLUMN with one of "
            f"{', '.join(KINDS)}, for example {EXAMPLE}."
        )
    columns_text, _, query = rest.partition("?")
    names = tuple(unquote(c.strip()) for c in columns_text.split(","))
    if not all(names):
        raise HierarchyError(f"hierarchy {text!r} has an empty column name: write {kind}:COLUMN.")
    if kind != "columns" and len(names) > 1:
        raise HierarchyError(
            f"{kind} reads one column; {text!r} names {len(names)}: use columns:..., or %2C for a "
            "comma in a name."
        )
    cls, known = KINDS[kind]
    fields: dict[str, object] = {"columns": names} if kind == "columns" else {"column": names[0]}
    given = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    for name, value in given:
        if sum(other == name for other, _ in given) > 1:
            raise HierarchyError(f"{kind}: option {name!r} appears twice in {text!r}; keep one.")
        if name == "invalid":
            fields["invalid"] = value
        elif name in known:
            field, read = known[name]
            fields[field] = read(f"{kind}: {name}", value)
        else:
            options = [*known, "invalid"]
            near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise HierarchyError(
                f"{kind} has no option {name!r}.{hint} It has: {', '.join(options)}."
            )
    missing = [name for name in REQUIRED.get(kind, ()) if known[name][0] not in fields]
    if missing:
        raise HierarchyError(
            f"{kind} needs {' and '.join(missing)}: write {_EXAMPLES[kind]} with public values, "
            "never from the data."
        )
    return cls(**fields)


_EXAMPLES = {
    "code": "'code:COLUMN?lengths=1,3,5'",
    "number": "'number:COLUMN?lower=0&upper=100&depth=10'",
}
