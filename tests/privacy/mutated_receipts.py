"""Receipts and proofs with one leaf changed, at random."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Paths to everything that is no object and no list, and to empty ones."""
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    if not pairs:
        yield path
    for key, inside in pairs:
        yield from leaves(inside, (*path, key))


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def other(r: random.Random, value: Any) -> Any:
    """Another value of the same type, or of another type."""
    if r.random() < 0.2:
        return r.choice([None, True, 5, -1, "x", [], {}, [None], float("nan"), 10**40, 1e-300])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return r.choice([value + 1, value - 1, 2 * value + 1, -value - 1, float(value) + 0.5])
    if isinstance(value, float):
        return r.choice([value * 2, value / 2, value * 1.01, value * 0.99, -value or 1.0])
    if isinstance(value, str):
        return r.choice([value + "x", value[1:], value.upper() + "!", value[::-1] + "1"])
    return r.choice([0, "x", [1], {"x": 1}])


def mutated(r: random.Random, whole: Any) -> tuple[Any, Path, str]:
    """A copy with one leaf changed, where it is, and how it was changed."""
    whole = copy.deepcopy(whole)
    path = r.choice(list(leaves(whole)))
    *above, last = path
    parent = at(whole, tuple(above))
    how = r.choice(("change", "change", "change", "delete", "add", "swap"))
    if how == "delete":
        del parent[last]
    elif how == "add":
        name = r.choice(("x", "max_contributions", "user", "keys", "period", "weight", "standard"))
        if isinstance(parent, list):
            parent.insert(int(last), other(r, parent[last]))
        elif name in parent:
            parent[name] = other(r, parent[name])
        else:
            parent[name] = r.choice([1, "x", None, [1]])
        path = (*above, name) if isinstance(parent, dict) else path
    elif how == "swap":
        sibling = r.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        parent[last], parent[sibling] = parent[sibling], parent[last]
    else:
        parent[last] = other(r, parent[last])
    return whole, path, how
