"""Slow, obvious twins: what the fast routines must agree with.

A node is its *path*: the tuple of its own key and those of its ancestors, coarse to fine, the
root being ``()``. A key is what people read, and None where the value is NULL or malformed.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
import re
import zoneinfo
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.federated.encoding import Encoding
from dpframe.hierarchy import Cells, Hierarchy
from dpframe.hierarchy._cells import Columns
from dpframe.hierarchy._date import Date
from dpframe.hierarchy._plain_values import Code, HostNames, Ip, Number
from dpframe.hierarchy._plain_values import Path as PathHierarchy

Key = str | None
Path = tuple[Key, ...]


def text(value: Any) -> str | None:
    """A single value the way SQL writes it; None for everything that means missing."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < 2.0**127 else repr(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(int(value)) if value == int(value) else format(value, "f").rstrip("0")
    return "".join(c if c < "\ud800" or c > "\udfff" else surrogate(c) for c in str(value))


def surrogate(char: str) -> str:
    """A lone surrogate as DuckDB would write its bytes."""
    return "".join(f"\\x{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


SPACES = " \xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What DuckDB's trim takes off: Unicode's space separators, no tabs and no line ends."""


# -- one row -------------------------------------------------------------------------------------


def ip_path(value: Any, *, prefixes: Sequence[int], prefixes6: Sequence[int], version: Any) -> Path:
    written = text(value)
    try:
        address = ipaddress.ip_address((written or "").strip(SPACES))
    except ValueError:
        return (None,)
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return (None,)
        address = address.ipv4_mapped or address
    if version not in (None, address.version):
        return (None,)
    lengths = prefixes if address.version == 4 else prefixes6
    return tuple(str(ipaddress.ip_network((address, n), strict=False)) for n in lengths)


def path_path(value: Any, *, separator: str, depth: int) -> Path:
    if not (written := text(value)):
        return (None,)
    parts = [part for part in written.split(separator) if part][:depth]
    return tuple(separator.join(parts[:n]) for n in range(1, len(parts) + 1))


def columns_path(values: Sequence[Any]) -> Path:
    return tuple(text(value) or None for value in values)


def domain_path(value: Any, *, depth: int) -> Path:
    name = "".join(c.lower() for c in (text(value) or "").strip(SPACES))
    labels = (name[:-1] if name.endswith(".") else name).split(".")
    if any(not label or re.search(r"[\t\n\f\r /:@]", label) for label in labels):
        return (None,)
    if re.fullmatch("[0-9]+", labels[-1]):
        return (None,)
    return tuple(".".join(labels[-n:]) for n in range(1, min(depth, len(labels)) + 1))


def date_path(value: Any, *, levels: Sequence[str]) -> Path:
    if value is None or value is pd.NaT or value is pd.NA or isinstance(value, float):
        return (None,)
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            return (None,)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC)
    hour = value.hour if isinstance(value, dt.datetime) else 0
    day = f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    names = {"year": day[:4], "month": day[:7], "day": day, "hour": f"{day} {hour:02d}:00"}
    names["quarter"] = f"{day[:4]}-Q{(value.month - 1) // 3 + 1}"
    year, week, _ = value.isocalendar()
    names["week"] = f"{year:04d}-W{week:02d}"
    return tuple(names[level] for level in levels)


def code_path(value: Any, *, lengths: Sequence[int]) -> Path:
    code = (text(value) or "").strip(SPACES)
    return tuple(code[:n] for n in lengths if len(code) >= n) or (None,)


def number_path(value: Any, *, lower: float, upper: float, depth: int) -> Path:
    if isinstance(value, str) and not value.isascii():
        return (None,)
    try:
        x = float(value)
    except (TypeError, ValueError):
        return (None,)
    if math.isnan(x):
        return (None,)
    bins = 2**depth
    if x <= lower:
        bin_ = 0
    elif x >= upper:
        bin_ = bins - 1
    else:
        bin_ = min(math.floor((x - lower) / (upper - lower) * bins), bins - 1)
    return tuple(_interval(bin_ >> (depth - n), n, lower, upper) for n in range(1, depth + 1))


def _interval(index: int, level: int, lower: float, upper: float) -> str:
    ends = (lower + (upper - lower) * (i / 2**level) for i in (index, index + 1))
    low, high = (str(int(e)) if e.is_integer() and abs(e) < 1e15 else repr(e) for e in ends)
    return f"[{low}, {high}{']' if index == 2**level - 1 else ')'}"


def row_path(hierarchy: Hierarchy, values: Sequence[Any]) -> Path:
    """The nodes of one row, coarse to fine; ``values`` are those of the source columns."""
    h: Any = hierarchy
    if isinstance(h, Ip):
        return ip_path(values[0], prefixes=h.prefixes, prefixes6=h.prefixes6, version=h.version)
    if isinstance(h, PathHierarchy):
        return path_path(values[0], separator=h.separator, depth=h.depth_limit)
    if isinstance(h, HostNames):
        return domain_path(values[0], depth=h.depth_limit)
    if isinstance(h, Date):
        return date_path(values[0], levels=h.levels)
    if isinstance(h, Code):
        return code_path(values[0], lengths=h.lengths)
    if isinstance(h, Number):
        return number_path(values[0], lower=h.lower, upper=h.upper, depth=h.depth_limit)
    assert isinstance(h, Columns)
    return columns_path(values)


# -- periods -------------------------------------------------------------------------------------

CLOCK = {
    "year": "%Y",
    "month": "%Y-%m",
    "week": "%G-W%V",
    "day": "%Y-%m-%d",
    "hour": "%Y-%m-%dT%H",
}


def period_name(value: dt.datetime | dt.date, unit: str, zone: str | None = None) -> str:
    """The period of a unit that holds a time: what the clock of the zone shows then, with no bound
    computed. Times without a zone as they are written."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(zoneinfo.ZoneInfo(zone or "UTC"))
    if unit == "quarter":
        return f"{value.year:04d}-Q{(value.month - 1) // 3 + 1}"
    return value.strftime(CLOCK[unit])


def in_period(
    value: dt.datetime | dt.date | None, unit: str, text: str | None, zone: str | None = None
) -> bool:
    """Whether a time is of a period, or of a range of periods of one unit."""
    if value is None or text is None:
        return value is text
    first, _, last = text.partition("..")
    return first <= period_name(value, unit, zone) <= (last or first)


# -- all rows ------------------------------------------------------------------------------------


def leaf_paths(hierarchy: Hierarchy, rows: Iterable[Sequence[Any]]) -> list[Path | None]:
    """The finest node of every row; None for a row that is dropped."""
    drop = hierarchy.on_invalid == "drop"
    paths = (row_path(hierarchy, row) for row in rows)
    return [None if drop and None in path else path for path in paths]


def rollup(paths: Iterable[Path | None]) -> dict[Path, int]:
    """Rows at or below every node, the root included."""
    counts: Counter[Path] = Counter({(): 0})
    for path in paths:
        if path is not None:
            counts.update(path[:n] for n in range(len(path) + 1))
    return dict(counts)


def shares(users: Iterable[Any], paths: Iterable[Path | None]) -> dict[Path, Fraction]:
    """Expected weight at or below every node when each user's rows weigh 1 together."""
    rows: dict[Any, list[Path]] = defaultdict(list)
    for user, path in zip(users, paths, strict=True):
        if path is not None:
            rows[text(user)].append(path)
    weight: dict[Path, Fraction] = defaultdict(Fraction, {(): Fraction(0)})
    for own in rows.values():
        for path in own:
            for n in range(len(path) + 1):
                weight[path[:n]] += Fraction(1, len(own))
    return dict(weight)


def units_of_pairs(
    users: Iterable[Any],
    keys: Iterable[Path],
    *,
    grid: int,
    offset: Callable[[Any], int],
) -> dict[Path, int]:
    """Units at or below every node: of every user ``grid``, cumulated over their keys in ascending
    order and cut with one offset of the user, a whole number of at least 0."""
    rows: dict[Any, Counter[Path]] = defaultdict(Counter)
    for user, key in zip(users, keys, strict=True):
        rows[user][key] += 1
    units: Counter[Path] = Counter({(): 0})
    for user, own in rows.items():
        total, before = own.total(), 0
        moved = offset(user) % total
        for key in sorted(own):
            upto = before + own[key]
            n = (grid * upto + moved) // total - (grid * before + moved) // total
            units.update({key[:depth]: n for depth in range(len(key) + 1)})
            before = upto
    return dict(units)


# -- measures ------


def parts(weight: Any, most: float) -> int:
    """A weight in parts of 2^-40 of ``most``, at most all of it; what is not positive is 0."""
    if weight is None or math.isnan(weight) or not weight > 0:
        return 0
    return round(min(float(weight), most) / most * 2**40)


def units_of_keys(
    keys: Iterable[Path | None],
    weights: Iterable[Any],
    *,
    most: float,
    grid: int,
    offset: Callable[[Path], int],
) -> dict[Path, int]:
    """Units of every finest key: the sum of its rows, rounded once."""
    sums: Counter[Path] = Counter()
    for key, weight in zip(keys, weights, strict=True):
        if key is not None and parts(weight, most):
            sums[key] += parts(weight, most)
    unit = 2**40 // grid
    return {key: (n + offset(key) % unit) // unit for key, n in sums.items()}


def units_of_users(
    users: Iterable[Any],
    keys: Iterable[Path | None],
    weights: Iterable[Any],
    *,
    most: float,
    grid: int,
    offset: Callable[[Any], int],
    order: Callable[[Path], Any] = lambda key: key,
) -> dict[Path, int]:
    """Units of every finest key: what users have there, at most ``grid`` each, cumulated over their
    keys in an order and rounded with one offset a user."""
    own: dict[Any, Counter[Path]] = defaultdict(Counter)
    for user, key, weight in zip(users, keys, weights, strict=True):
        if key is not None:
            own[user][key] += parts(weight, most)
    units: Counter[Path] = Counter()
    for user, sums in own.items():
        whole = max(sum(sums.values()), 2**40)
        before, done = offset(user) % whole, 0
        for key in sorted(sums, key=order):
            done += grid * sums[key]
            units[key] += (done + before) // whole - (done - grid * sums[key] + before) // whole
    return dict(units)


# -- heavy hitters -------------------------------------------------------------------------------


def residuals(counts: Mapping[Path, int], selected: set[Path]) -> dict[Path, int]:
    """Count of every node minus those of its topmost selected descendants."""
    covered: dict[Path, int] = dict.fromkeys(counts, 0)
    for path in sorted(counts, key=len, reverse=True):
        if path:
            covered[path[:-1]] += counts[path] if path in selected else covered[path]
    return {path: counts[path] - covered[path] for path in counts}


def heavy_hitters(
    counts: Mapping[Path, int],
    *,
    test: Mapping[Path, int],
    release: Mapping[Path, int],
    threshold: int,
    remainder: bool,
) -> dict[Path, tuple[int, int]]:
    """Noisy (residual, count) of every reported node, with the noise of each node given."""
    chosen: set[Path] = set()
    for depth in range(max(map(len, counts)), 0, -1):
        left = residuals(counts, chosen)
        for path in (p for p in counts if len(p) == depth):
            if left[path] > 0 and left[path] + test[path] >= threshold:
                chosen.add(path)
    if remainder:
        chosen.add(())
    exact = residuals(counts, chosen)
    noisy = {path: exact[path] + release[path] for path in chosen}
    return {
        path: (noisy[path], sum(n for below, n in noisy.items() if below[: len(path)] == path))
        for path in chosen
    }


# -- sketches ------------------------------------------------------------------------------------

Entry = tuple[int, Any]
"""A dummy ``(0, number)`` or a key ``(1, key)``: sorts with the dummies first."""


def misra_gries(records: Iterable[Any], k: int) -> tuple[dict[Entry, int], int]:
    """Algorithm 1 of Lebeda and Tetek: all k counters, and the number of decrements."""
    counters: dict[Entry, int] = {(0, i): 0 for i in range(k)}
    decrements = 0
    for record in records:
        key = (1, record)
        if key in counters:
            counters[key] += 1
        elif min(counters.values()) >= 1:
            counters = {stored: count - 1 for stored, count in counters.items()}
            decrements += 1
        else:
            del counters[min(stored for stored, count in counters.items() if count == 0)]
            counters[key] = 1
    return counters, decrements


def standard_misra_gries(records: Iterable[Any], k: int) -> tuple[dict[Any, int], int]:
    """The classical sketch: a key whose counter falls to zero goes at once."""
    counters: dict[Any, int] = {}
    decrements = 0
    for key in records:
        if key in counters or len(counters) < k:
            counters[key] = counters.get(key, 0) + 1
        else:
            counters = {stored: count - 1 for stored, count in counters.items() if count > 1}
            decrements += 1
    return counters, decrements


def privacy_aware(users: Iterable[Iterable[Any]], k: int, most: int) -> tuple[dict[Any, int], int]:
    """Algorithm 4 of Lebeda and Tetek; of more than ``most`` items a user has the smallest."""
    counters: dict[Any, int] = {}
    decrements = 0
    for items in users:
        for key in sorted(set(items))[:most]:
            counters[key] = counters.get(key, 0) + 1
        if len(counters) > k:
            counters = {stored: count - 1 for stored, count in counters.items() if count > 1}
            decrements += 1
    return counters, decrements


def merged_bounded(sketches: Sequence[Mapping[Any, int]], k: int) -> dict[Any, int]:
    """Agarwal et al., one sketch after the other: add, subtract the (k+1)-th largest, drop."""
    total: dict[Any, int] = {}
    for sketch in sketches:
        for key, count in sketch.items():
            total[key] = total.get(key, 0) + count
        cut = sorted(total.values(), reverse=True)[k] if len(total) > k else 0
        total = {key: count - cut for key, count in total.items() if count > cut}
    return total


def post_processed(sketch: Mapping[Any, int], k: int) -> dict[Any, Fraction]:
    """Algorithm 3 of Lebeda and Tetek, before the noise."""
    mean = Fraction(sum(sketch.values()), k + 1)
    return {key: count - mean for key, count in sketch.items() if count > mean}


def merged_sum(sketches: Sequence[Mapping[Any, int]], k: int) -> dict[Any, Fraction]:
    """Post-processed sketches, added."""
    total: dict[Any, Fraction] = {}
    for sketch in sketches:
        for key, count in post_processed(sketch, k).items():
            total[key] = total.get(key, Fraction(0)) + count
    return total


# -- streaming -----------------------------------------------------------------------------------


def streamed_hitters(
    released: Mapping[Path, int], errors: Sequence[int], *, threshold: int
) -> dict[Path, tuple[int, int]]:
    """(residual, count) of every selected node, from U of released ones and alpha_hat of levels.

    The count is U. From the finest level up, a node is selected if U less that of the topmost
    selected nodes below it, whether or not what lies between was released, reaches the threshold;
    where twice the alpha_hat of its level does so, U - alpha_hat must reach it too.
    """
    chosen: dict[Path, tuple[int, int]] = {}
    for path in sorted(released, key=len, reverse=True):
        error = errors[len(path) - 1]
        below = [p for p in chosen if p != path and p[: len(path)] == path]
        topmost = [p for p in below if not any(p[:n] in below for n in range(1, len(p)))]
        residual = released[path] - sum(chosen[p][1] for p in topmost)
        sure = 2 * error < threshold or released[path] - error >= threshold
        if sure and residual >= threshold:
            chosen[path] = residual, released[path]
    return chosen


# -- sums on the parts of a selection -----------------------------------------------------------


def in_steps(value: Any, decimals: int, low: int, high: int) -> int | None:
    """A value as a multiple of 10**-decimals, between two such multiples; None if it is none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return min(max(round(Fraction(value) * Fraction(10) ** decimals), low), high)


def part_of(path: Path, shown: Sequence[Path]) -> Path:
    """The longest shown prefix of a path; the root is always shown."""
    return max((node for node in (*shown, ()) if path[: len(node)] == node), key=len)


def toward_zero(number: int, divisor: int) -> int:
    return abs(number) // divisor * (1 if number >= 0 else -1)


def user_counts(rows: Mapping[Path, int], units: int, at_most: int | None) -> dict[Path, int]:
    """A user's rows by part: 1 divided over them, or at most so many rows, in units."""
    total = sum(rows.values())
    return {
        part: units * n // total if at_most is None else units * n * at_most // max(total, at_most)
        for part, n in rows.items()
    }


def user_total(sums: Mapping[Path, int], low: int, high: int) -> dict[Path, int]:
    """A user's sums by part: those above 0 scaled down to ``high`` together, those below to
    ``low``, and all of them to the larger of the two; in whole numbers, towards 0."""
    ups = sum(max(value, 0) for value in sums.values())
    downs = sum(max(-value, 0) for value in sums.values())
    most = max(abs(low), abs(high))
    both = min(ups, max(high, 0)) + min(downs, max(-low, 0))
    out = {}
    for part, value in sums.items():
        limit, total = (max(high, 0), ups) if value > 0 else (max(-low, 0), downs)
        cut = toward_zero(value * limit, max(total, limit, 1))
        out[part] = toward_zero(cut * most, max(both, most))
    return out


# -- a ledger's totals by block --------------------------------------------------------------------

Reads = tuple[str, frozenset[int]] | None
"""An axis and the moments on it that a release reads; None for all of every axis."""


def touching(charges: Sequence[tuple[Reads, int]], axis: str, moments: Iterable[int]) -> int:
    """What the releases cost that read one of these moments of an axis, without those of all."""
    window = set(moments)
    return sum(
        cost
        for reads, cost in charges
        if reads is not None and reads[0] == axis and window & reads[1]
    )


def fullest(charges: Sequence[tuple[Reads, int]], axis: str, moments: Iterable[int]) -> int:
    """What the dearest of these moments has cost."""
    return max((touching(charges, axis, [moment]) for moment in moments), default=0)


def spent_by_block(charges: Sequence[tuple[Reads, int]]) -> int:
    """What any one record may have cost: all that reads everything, and of every axis its dearest
    moment."""
    moments: dict[str, set[int]] = defaultdict(set)
    for reads, _ in charges:
        if reads is not None:
            moments[reads[0]] |= reads[1]
    everywhere = sum(cost for reads, cost in charges if reads is None)
    return everywhere + sum(fullest(charges, axis, seen) for axis, seen in moments.items())


def fits(
    charges: Sequence[tuple[Reads, int]], axis: str | None, moments: Iterable[int], total: int
) -> int:
    """The most that one more release of these moments (or of all) may cost, by trying."""
    cost, reads = 0, None if axis is None else (axis, frozenset(moments))
    while spent_by_block([*charges, (reads, cost + 1)]) <= total:
        cost += 1
    return cost


# -- cells of several hierarchies: every record by itself, every cell by its labels ----------------

Cell = tuple[Path, ...]
"""The node of every dimension, ``()`` where it is rolled up."""


def paths_of(cells: Cells, row: Sequence[Any]) -> tuple[Path, ...] | None:
    """The nodes of a record in every dimension; None for one that is dropped."""
    found, start = [], 0
    for one in cells.of:
        width = len(one.source_columns)
        path = row_path(one, row[start : start + width])
        if one.on_invalid == "drop" and None in path:
            return None
        found.append(path)
        start += width
    return tuple(found)


def cell_of(paths: tuple[Path, ...], kind: Sequence[int]) -> Cell | None:
    """The cell of a kind above a record; None where the record has not so many levels."""
    if any(len(path) < level for path, level in zip(paths, kind, strict=True)):
        return None
    return tuple(path[:level] for path, level in zip(paths, kind, strict=True))


def whole_counts(cells: Cells, rows: Iterable[Sequence[Any]]) -> dict[int, dict[Cell, int]]:
    """Records in every cell of every kind, by the place of the kind."""
    counts: dict[int, Counter[Cell]] = {place: Counter() for place in range(len(cells.kinds))}
    for row in rows:
        paths = paths_of(cells, row)
        for place, kind in enumerate(cells.kinds):
            cell = None if paths is None else cell_of(paths, kind)
            if cell is not None:
                counts[place][cell] += 1
    return {place: dict(found) for place, found in counts.items()}


def segments(
    kinds: Sequence[Sequence[int]],
    records: Mapping[tuple[Path, ...], int | Fraction],
    selected: Callable[[int, Cell, Any], bool],
) -> dict[tuple[int, Cell], Any]:
    """What every selected cell takes, kind by kind, and what is left for the total: ``selected`` is
    asked for every cell with something left."""
    free, found = dict(records), {}
    for place, kind in enumerate(kinds):
        left: dict[Cell, Any] = {}
        for paths, n in free.items():
            cell = cell_of(paths, kind)
            if cell is not None:
                left[cell] = left.get(cell, 0) + n
        taken = {cell for cell, n in left.items() if n > 0 and selected(place, cell, n)}
        found |= {(place, cell): left[cell] for cell in taken}
        free = {paths: n for paths, n in free.items() if cell_of(paths, kind) not in taken}
    found[len(kinds), ((),) * len(kinds[0])] = sum(free.values())
    return found


# -- prefix trees: every device, every prefix, nothing is packed -----------------------------------

Fleet = Sequence[Mapping[str, int]]
"""The items of every device, and how often each occurs."""


def bits_needed(prefixes: int, limit: int, left: int) -> int:
    """The most bits that all prefixes together can be asked for within the limit."""
    return max(b for b in range(left + 1) if b == 0 or prefixes * 2**b <= limit)


def heavy(
    fleet: Fleet, encoding: Encoding, *, length: int, segments: Sequence[int], threshold: int
) -> dict[str, int]:
    """Items that so many devices hold at every depth, with the number of their holders.

    Every device holds one item, so that nothing depends on which it chooses. An item is found when
    the end symbol is read, or at the full length; prefixes below the threshold are not followed.
    """
    every = [item for items in fleet for item in items]
    held = [encoding.encode(item, length) for item in every if encoding.reads(item, length)]
    found: dict[str, int] = {}
    prefixes, depth = [""], 0
    for bits in segments:
        depth += bits
        holders = Counter(code[:depth] for code in held if code[: depth - bits] in prefixes)
        prefixes = []
        for prefix, n in sorted(holders.items()):
            said = encoding.decode(prefix, length)
            if n < threshold:
                continue
            if said.ended:
                found[said.label] = n
            else:
                prefixes.append(prefix)
    return found


# -- least squares on a tree: the normal equations, with pseudoinverses ----------------------------

Reals = NDArray[np.float64]


def covered_matrix(ancestor: NDArray[np.int64]) -> Reals:
    """1 where the total of the row's node covers the part of the column's."""
    n = len(ancestor)
    covers = np.zeros((n, n))
    for v in range(n):
        above = v
        while above >= 0:
            covers[above, v] = 1
            above = int(ancestor[above])
    return covers


def normal_equations(
    ancestor: NDArray[np.int64], part: Reals, vp: Reals, total: Reals, vt: Reals
) -> tuple[Reals, Reals]:
    """Estimates of all parts, then all totals, and variances: inf for what is not estimable."""
    wanted = np.vstack([np.eye(len(ancestor)), covered_matrix(ancestor)])
    variance = np.concatenate([vp, vt])
    seen = np.isfinite(variance)
    root = 1 / np.sqrt(variance[seen])
    design = wanted[seen] * root[:, None]
    answers = np.concatenate([part, total])[seen] * root
    parts, *_ = np.linalg.lstsq(design, answers, rcond=1e-11)
    inverse = np.linalg.pinv(design, rcond=1e-11)
    estimable = np.abs(wanted @ (inverse @ design) - wanted).max(axis=1, initial=0) < 1e-6
    spread = ((wanted @ inverse) ** 2).sum(axis=1)
    return wanted @ parts, np.where(estimable, spread, np.inf)
