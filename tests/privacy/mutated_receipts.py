"""Receipts and proofs with one leaf changed, at random, and what a verdict may be then.

The rule is written here from what fields mean, and asks nothing of the verifier: ``forged`` says
that a change makes a claim stronger, or another one.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
from collections.abc import Iterator
from math import isqrt
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


def _has(value: Any, path: Path) -> bool:
    try:
        at(value, path)
    except (LookupError, TypeError):
        return False
    return True


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


FREE = {
    *("release", "release_id", "time", "version", "replayed", "data", "paper", "counts"),
    *("hierarchy", "confidence", "released_confidence", "intervals", "budget", "notices", "card"),
    *("frame", "order", "dimensions", "ledger", "period", "proof", "family", "level_weights"),
    "level_importance",
    *("consistent", "columns", "width", "split", "accountant", "encoding", "length", "limit"),
    *("false_positives", "selection", "conditioned", "left_out", "denied", "sketches"),
    *("sensitivity", "records", "sketch_error", "unpublished_at_most", "release_number"),
    *("levels_measured", "computed_delta", "not_shown", "running"),
}
"""Names, sentences, times, versions, arguments without noise, and what was released. What was
computed of delta is between 0 and what is promised."""

FREE_OF: dict[str, set[str]] = {
    "prefix-": {"segments"},
    "prefix-reports": set(),
    "streaming": {"counters", "threshold", "method"},
    "offline-gaussian": {"remainder"},
    "tree-": {"keys"},
    "rollup": {"keys", "listed"},
}
"""The same of some mechanisms. The name of a list of keys is free, and that there is one is not."""

LARGER_IS_WEAKER: dict[str, set[str]] = {
    "": {"epsilon", "delta"},
    "tree-": {"threshold"},
    "rounds": {"threshold"},
}
"""Who promises more epsilon promises less. Of tree counts and rounds a caller may ask for a larger
threshold than the smallest private one, and noise is that of the smallest."""


def _names(table: dict[str, set[str]], mechanism: str) -> set[str]:
    return {name for of, names in table.items() if mechanism.startswith(of) for name in names}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def same(one: Any, two: Any) -> bool:
    """Whether two leaves are one value, true being no number, but for the last bits of a double."""
    if _is_number(one) and _is_number(two):
        return math.isclose(one, two, rel_tol=1e-12)
    return type(one) is type(two) and bool(one == two)


MISSING = object()


def changes(before: Any, after: Any) -> Iterator[tuple[Path, Any, Any]]:
    """Leaves that are not the same, in either. What is None may as well be missing."""
    old = {path: at(before, path) for path in leaves(before)}
    new = {path: at(after, path) for path in leaves(after)}
    for path in old | new:
        pair = old.get(path, MISSING), new.get(path, MISSING)
        nothing = all(each is None or each is MISSING for each in pair)
        if not nothing and not same(*pair):
            yield path, *pair


def forged(before: Any, after: Any) -> list[Path]:
    """Leaves of a receipt that claim something else after a change, and nothing weaker."""
    mechanism = before["mechanism"]
    free, larger = FREE | _names(FREE_OF, mechanism), _names(LARGER_IS_WEAKER, mechanism)
    found = []
    for path, old, new in changes(before, after):
        top, name = path[0], next(str(key) for key in reversed(path) if isinstance(key, str))
        new_one, gone = old is MISSING, new is MISSING
        if top == "not_shown" or name == "beyond":
            weaker = True  # what was released says so
        elif name == "bound":
            found_one = "auto" in before["measures"][path[1]]["spec"]
            weaker = found_one and _is_number(new) and new > 0
        elif path[0] == "measures" and name in ("edges", "at", "value"):
            place = path[:3]
            weaker = name != "edges" or (_has(after, place) and _rises(at(after, place)))
        elif path == ("at_most",) and mechanism == "rollup":
            weaker = old in (None, MISSING) and not _has_noise(before)
        elif name == "hidden_below":  # an earlier version told one number for both
            weaker = gone and after["threshold"] == old
        elif name == "halves":
            place = path[: path.index("halves")]
            law = at(before, place) if _has(before, place) else None
            other_law = at(after, place) if _has(after, place) else None
            weaker = isinstance(law, dict) and _is_one_table(law, other_law)
        elif name == "scale":
            weaker = gone or new is None
        elif name == "keys":
            weaker = name in free and None not in (old, new) and not new_one and not gone
        elif name == "levels":
            told = after.get(name)
            weaker = isinstance(told, list) and len(told) == len(before[name])
        elif name in ("at_most", "listed") and before.get("listed"):
            weaker = _moved(after) == _moved(before)  # nobody counts at more nodes than are listed
        elif name == "at_most" and mechanism == "rounds":
            weaker = gone or _is_one_share(before, old, new)  # not said before it is found
        elif name == "k":
            whole = type(old) is type(new) is int
            weaker = whole and new.bit_length() == old.bit_length()  # exact levels
        elif name in ("lower", "upper") and "auto" in before["measures"][path[1]]["spec"]:
            by_rounds = before["measures"][path[1]].get("adds_up") is False  # bounds are elsewhere
            weaker = _is_number(new) or by_rounds  # no scale may lose more within what was found
        elif name == "threshold" and before.get("max_weight") is not None and name not in larger:
            weaker = _nearly(new, old)  # earlier versions rounded it
        elif name == "universe":
            weaker = type(old) is type(new) is int and new > 0  # how many keys, and that they are
        elif name == "counters" and mechanism == "misra-gries":  # zeros stay: none depends on them
            weaker = type(new) is int and new > 0
        elif name in ("iterations", "rounds") and mechanism.startswith("prefix-"):
            both = [[each.get(one) for one in ("iterations", "rounds")] for each in (before, after)]
            weaker = both[0] == both[1][::-1]  # so many reports in all
        elif name == "computed_delta":
            weaker = _is_number(new) and 0 <= new <= before["delta"]
        elif path[:1] == ("card",) and len(path) == 3 and path[2] == 1 and not new_one:
            weaker = before["card"][path[1]][0] != "guarantee" or gone
        elif top in ("ledger", "period", "proof"):
            weaker = (
                len(path) == 1 or not new_one or (len(path) > 2 and path[1] in (before[top] or {}))
            )
        elif top in free or name in free:
            weaker = True
        else:
            weaker = name in larger and _is_number(old) and _is_number(new) and new >= old
        if not weaker:
            found.append(path)
    return found


def _rises(edges: Any) -> bool:
    """Whether edges of bins are numbers in rising order. No noise depends on where bins lie."""
    if not isinstance(edges, list) or not all(map(_is_number, edges)):
        return False
    return all(a < b for a, b in itertools.pairwise(edges))


def _has_noise(receipt: Any) -> bool:
    """Whether a receipt tells the noise of measures, as those of releases do."""
    return any("noise" in told for told in receipt["measures"].values())


def _is_one_share(receipt: Any, old: Any, new: Any) -> bool:
    """Whether a user who counts at one more value counts as much at each, in whole units."""
    norm = json.loads(receipt["proof"]["text"])["game"]["norm"]
    shares = [isqrt(norm**2 // n) for n in (old, new) if type(n) is int and n > 0]
    return len(shares) == 2 and shares[0] == shares[1]


def _is_one_table(law: Any, other: Any) -> bool:
    """Whether other halves, or none as in older receipts, make the same table: where weights of 0
    are cut off, no half says where it would end."""
    told = other.get("halves") if isinstance(other, dict) else None
    if told is None:
        return True
    if not isinstance(told, list) or not all(isinstance(half, list) and half for half in told):
        return False
    ends = [half[-1] for half in told]
    if {*map(type, ends)} != {int} or [half[:-1] for half in told] != [
        h[:-1] for h in law["halves"]
    ]:
        return False
    values = (law["highest"] - law["lowest"]) * law["grid"] + 1
    return min(sum(ends), sum(half[-1] for half in law["halves"])) >= values


def _moved(receipt: Any) -> list[int] | None:
    """Nodes of each level that one user counts at, most first: all have noise of one law."""
    most, listed = receipt.get("at_most"), receipt.get("listed")
    if not isinstance(listed, list) or {*map(type, [most, *listed])} != {int} or len(listed) < 2:
        return None
    return sorted(min(most, number) for number in listed)


WITNESS = {
    *("left", "right", "release_scale", "test_sigma", "release_sigma", "spared", "scale"),
    *("thresholds", "queries", "cut", "norm", "part", "low", "high"),
}
"""Of a proof: numbers that a bound is found with, and of which its receipt says nothing. The
verifier may find one with others."""

WITNESS_OF: dict[str, set[str]] = {
    "rollup": {"remainder", "release", "unit"},
    "rounds": {"threshold"},
    "tree-": {"least"},
}


def other_proof(receipt: Any, before: Any, after: Any) -> list[Path]:
    """Leaves of a proof that prove another thing after a change than its receipt says."""
    names = WITNESS | _names(WITNESS_OF, receipt["mechanism"])
    return [
        path
        for path, old, new in changes(before, after)
        if path[-1] not in names
        and not (path[-1] in ("epsilon", "delta") and "steps" in path)
        and not _is_untold(receipt, path)
        and not (path[-1] == "moves" and old == 1 and new is MISSING)
        and not (path[-1] == "threshold" and receipt.get("max_weight") and _nearly(old, new))
    ]


LAST_ROUND = 3


def _is_untold(receipt: Any, path: Path) -> bool:
    """Of rounds of a rollup a receipt tells the last one, and the noise of what a release measured
    along with them."""
    if receipt["mechanism"] != "rollup" or receipt.get("contribution") != "items":
        return False
    if "measured" in path:
        return path[-1] == "values" or (
            not _has_noise(receipt) and ({"sigma", "end", "norms"} & {*path[-2:]}) != set()
        )
    if "rounds" in path and path[path.index("rounds") + 1 :][:1] == (LAST_ROUND,):
        return False
    return "sizes" in path or path[-1] in ("threshold", "end", "sigma")


def _nearly(old: Any, new: Any) -> bool:
    """Whether a threshold is that of a receipt that rounded it to four digits."""
    return _is_number(old) and _is_number(new) and 0 <= old - new <= old / 1000


def twice(r: random.Random, whole: dict[str, Any]) -> str:
    """The text of an object one of whose fields is told twice, with two values."""
    whole, mark = copy.deepcopy(whole), "told twice"
    *above, last = r.choice([path for path in leaves(whole) if isinstance(path[-1], str)])
    parent = at(whole, tuple(above))
    value = parent.pop(last)
    first, second = r.sample([(last, value), (mark, other(r, value))], 2)
    parent.update([first, second])
    return json.dumps(whole).replace(f'"{mark}":', f"{json.dumps(last)}:")
