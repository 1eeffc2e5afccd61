"""Values that many users have: what is found, how well it is counted, and how long it takes.

Run with ``python -m tests.benchmarks.many_items [--releases 10] [--only words]``.
Others are implemented here for the comparison only, with continuous noise, by the analytic Gaussian
mechanism (theirs or better) for three quarters of delta and thresholds for the rest; all have the
same bound of 500 values a user, and spend the whole budget on finding, where ours keeps a fifth for
counts:

* shares: ``contribution="share"``, as it stands;
* one round: weights 1/sqrt(n), threshold max over k of 1/sqrt(k) + sigma q(k) (Gopi and others);
* DP-SIPS: three rounds whose parts of mu are as 1 : 3 : 9, each with a threshold of its own, found
  values leave;
* MAD2R: two rounds, a tenth of the budget first, in each of which weight above the threshold is
  given to other values of users with up to 50 (maximum adaptive degree); values that were found,
  or whose weight is 2 deviations below the threshold of the second round, leave; as we read it.

"Truly" is the part of what ours reports that as many users have as the threshold says. Errors of
counts are root mean squares over what ours finds, beside a sample of at most A values of a user,
whose best A of all powers of two is told for free, at the same budget.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpframe as dp
from dpframe.accounting.weighted_round_noise import gaussian_tail_bound, largest_mu, round_laws
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import columns
from dpframe.mechanisms import weighted_rounds
from dpframe.sources.user_nodes import UserNodes, user_nodes
from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, SHARED

SETS = {
    "words": ("git_words_rails", "word"),
    "paths": ("git_paths_rails", "path"),
    "products": ("retail_completejourney", "product_id"),
    "product types": ("retail_completejourney", "product_type"),
    "flights": ("flights_nyc13", "flight"),
    "destinations": ("flights_nyc13", "dest"),
    "pages": ("weblog_apache_elastic", "path"),
    "queries": ("dns_zeek_wrccdc", "query"),
}
ITEMS, DELTA, SHARE = 500, 1e-6, 0.2
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

Real = NDArray[np.float64]
Pairs = tuple[NDArray[Any], NDArray[Any], int, int]


@cache
def held(name: str) -> UserNodes:
    file, column = SETS[name]
    source = str(SHARED / f"{file}.parquet")
    return user_nodes(source, columns(column), PrivacyUnit(user="user_id"), ITEMS, (1,))


def users_of(items: UserNodes) -> NDArray[np.int64]:
    """The user of every pair."""
    return np.repeat(np.arange(items.users), np.diff(items.starts))


def taking_part(items: UserNodes) -> Pairs:
    part = items.taking_part
    return users_of(items)[part], items.node[part], items.users, items.size


# -- others ----------------------------------------------------------------------------------------


def threshold(sigma: float, delta: float) -> float:
    """The least at which no new value of a user is found but for delta, whatever their number."""
    number = np.unique(np.geomspace(1, ITEMS, 40).astype(int))
    low, high = 0.0, 1 + 40 * sigma
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        chance = max(n * gaussian_tail_bound(middle - n**-0.5, sigma) for n in number.tolist())
        low, high = (low, middle) if chance <= delta else (middle, high)
    return high


def even(pairs: Pairs) -> Real:
    """Weights 1/sqrt(n) of the values that are left."""
    user, _, users, _ = pairs
    return np.asarray(1 / np.sqrt(np.bincount(user, minlength=users))[user])


def adaptive(pairs: Pairs, least: float, sigma: float) -> Real:
    """Weights of MAD: what users with up to 50 values give a value beyond need goes to others."""
    user, value, users, values = pairs
    number = np.bincount(user, minlength=users)[user]
    few = number <= MOST_DEGREE
    first = np.where(few, 1 / number, 0.0)
    total = np.bincount(value, weights=first, minlength=values)
    enough = least + MARGIN * sigma
    spare = np.where(total > enough, 1 - enough / np.maximum(total, 1e-9), 0.0)[value]
    kept = first * (1 - spare)
    given = np.bincount(user, weights=np.where(few, spare, 0.0), minlength=users) / MOST_DEGREE
    again = np.where(few, given[user] / number, 0.0)
    rest = np.where(few, 1 / np.sqrt(number) - 1 / number, 1 / np.sqrt(number))
    return np.asarray(kept + again + rest)


MOST_DEGREE, MARGIN = 50, 2.0


def in_turns(
    pairs: Pairs, parts: tuple[float, ...], epsilon: float, rng: np.random.Generator, mad: bool
) -> NDArray[np.bool_]:
    """What rounds find, each with its part of mu and of delta, and a threshold of its own."""
    user, value, users, values = pairs
    mu = largest_mu(epsilon, 0.75 * DELTA) / np.linalg.norm(parts)
    found = np.zeros(values, dtype=bool)
    left = np.ones(values, dtype=bool)
    later = threshold(1 / (mu * parts[-1]), 0.25 * DELTA / len(parts))
    for turn, part in enumerate(parts):
        kept = left[value]
        now = (user[kept], value[kept], users, values)
        sigma = 1 / (mu * part)
        least = threshold(sigma, 0.25 * DELTA / len(parts))
        weights = adaptive(now, least, sigma) if mad else even(now)
        noisy = np.bincount(now[1], weights=weights, minlength=values)
        noisy += rng.normal(0, sigma, values)
        found |= left & (noisy >= least)
        left &= ~found
        if mad and turn == 0:
            left &= noisy + MARGIN * sigma >= later
    held_by = np.bincount(value, minlength=values) > 0
    return found & held_by


OTHERS: dict[str, tuple[tuple[float, ...], bool]] = {
    "one round": ((1.0,), False),
    "DP-SIPS": ((1.0, 3.0, 9.0), False),
    "MAD2R": ((0.1, 0.9), True),
}


# -- tables ----------------------------------------------------------------------------------------


def words(releases: int) -> None:
    """Numbers of values found, means."""
    bench.head("set", "epsilon", "shares", *OTHERS, "ours", "truly")
    rng = np.random.default_rng(1)
    for name in SETS:
        items = held(name)
        users = np.bincount(items.node, minlength=items.size)
        for epsilon in EPSILONS:
            others = [
                np.mean([in_turns(taking_part(items), p, epsilon, rng, m).sum() for _ in runs])
                for runs in [range(releases)]
                for p, m in OTHERS.values()
            ]
            laws = round_laws(
                epsilon=epsilon, delta=DELTA, release_share=SHARE, items=ITEMS, histograms=1
            )
            found = [weighted_rounds.find_nodes(items, laws) for _ in range(releases)]
            true = np.concatenate([users[f] >= laws.users for f in found])
            mean = np.mean([f.sum() for f in found])
            row = [shares(name, epsilon), *others, mean]
            said = f"{100 * true.mean():.0f} %" if len(true) else ""
            bench.row(name, f"{epsilon:g}", *(f"{n:.0f}" for n in row), said)


def shares(name: str, epsilon: float) -> float:
    """One release of what shares find."""
    file, column = SETS[name]
    asked: dict[str, Any] = {"user": "user_id", "contribution": "share", "delta": DELTA}
    source = str(SHARED / f"{file}.parquet")
    return len(dp.heavy_hitters(source, column, epsilon=epsilon, **asked))


def counts(releases: int) -> None:
    """Errors of counts of users, of what is found."""
    names = ("users, median", "at_most", "ours", "sample, best A", "same A")
    bench.head("set", "found", *names)
    rng = np.random.default_rng(2)
    laws = round_laws(epsilon=1.0, delta=DELTA, release_share=SHARE, items=ITEMS, histograms=1)
    unsearched = round_laws(
        epsilon=1.0, delta=DELTA, release_share=SHARE, items=ITEMS, histograms=0
    )
    for name in SETS:
        items = held(name)
        users = np.bincount(items.node, minlength=items.size)
        rows = []
        for _ in range(releases):
            released = weighted_rounds.run(items, laws=laws, at_most=None)
            if not len(released.shown):
                continue
            truth = users[released.shown]
            noise = laws.count.sigma / released.grid  # its spread, for both: draws vary more
            exact = items.count_users(
                np.isin(np.arange(items.size), released.shown), laws.count.norm, released.at_most[0]
            )
            error = np.sqrt(np.mean((exact / released.grid - truth) ** 2) + noise**2)
            one = unsearched.count.sigma / unsearched.count.norm
            sampled = {
                a: np.sqrt(np.mean(lost(items, released.shown, a, rng) ** 2) + a * one**2)
                for a in (1, 2, 4, 8, 16, 32, 64, 128, 256)
            }
            best = min(sampled, key=sampled.__getitem__)
            same = np.sqrt(
                np.mean(lost(items, released.shown, released.at_most[0], rng) ** 2)
                + released.at_most[0] * one**2
            )
            at = released.at_most[0]
            rows.append((len(truth), np.median(truth), at, error, sampled[best], best, same))
        if rows:
            n, half, at, error, best, a, same = np.mean(rows, axis=0)
            cells = (f"{n:.0f}", f"{half:.0f}", f"{at:.0f}", f"{error:.1f}")
            bench.row(name, *cells, f"{best:.1f} (A = {a:.0f})", f"{same:.1f}")


def lost(
    items: UserNodes, found: NDArray[np.int64], at_most: int, rng: np.random.Generator
) -> Real:
    """What a sample of at most so many found values of every user leaves out of the counts."""
    chosen = np.isin(items.node, found)
    user, value = users_of(items)[chosen], items.node[chosen]
    order = np.lexsort((rng.random(len(user)), user))
    user, value = user[order], value[order]
    place = np.arange(len(user)) - np.searchsorted(user, user)
    out = np.bincount(value[place >= at_most], minlength=items.size)[found]
    return np.asarray(out, dtype=np.float64)


WAYS: dict[str, dict[str, Any]] = {
    "shares": {},
    "items": {"contribution": "items"},
    "rounds": {"mechanism": "rounds"},
}

TREES: dict[str, tuple[str, list[str]]] = {
    "products": ("retail_completejourney", ["department", "product_category", "product_type"]),
    "flights": ("flights_nyc13", ["carrier", "dest", "flight"]),
    "paths": ("git_paths_rails", ["path"]),
    "pages": ("weblog_apache_elastic", ["path"]),
}
"""Files, and their columns from coarse to fine, or one of paths."""


def leaves(releases: int) -> None:
    """Finest nodes and others that each way finds in a hierarchy; and rounds in the finest keys."""
    of_ways = [f"{way}: {what}" for way in WAYS for what in ("finest", "above")]
    bench.head("set", "epsilon", *of_ways, "heavy_hitters", "error of rounds", "flat")
    for name, (file, named) in TREES.items():
        keys = ", ".join(f"ltrim(coalesce({column}::VARCHAR, chr(0)), '/')" for column in named)
        source = duckdb.sql(
            f"SELECT *, concat_ws(' / ', {keys}) AS leaf FROM '{SHARED / file}.parquet' "
            "WHERE user_id IS NOT NULL"
        ).to_arrow_table()
        users = users_by("leaf", source)
        at_nodes = users if len(named) > 1 else users_by(NODES_OF_PATHS, source)
        hierarchy = f"path:{named[0]}" if len(named) == 1 else f"columns:{','.join(named)}"
        for epsilon in EPSILONS[1:]:
            cells, errors = list[str](), list[str]()
            given: dict[str, Any] = {"user": "user_id", "epsilon": epsilon, "delta": DELTA}
            for way in WAYS.values():
                found = [dp.hhh(source, hierarchy, **given, **way) for _ in range(releases)]
                texts = [leaf_texts(frame, named) for frame in found]
                finest = [np.array([text in users for text in each]) for each in texts]
                cells.append(f"{np.mean([rows.sum() for rows in finest]):.0f}")
                cells.append(f"{np.mean([(~rows).sum() - 1 for rows in finest]):.0f}")
            count, here = found[-1]["count"].to_numpy(), finest[-1]
            errors.append(median_error(count[here], texts[-1][here], at_nodes))
            flat = [dp.heavy_hitters(source, "leaf", **given) for _ in range(releases)]
            errors.append(median_error(flat[-1]["count"], flat[-1]["leaf"].to_numpy(), users))
            bench.row(name, f"{epsilon:g}", *cells, f"{np.mean([*map(len, flat)]):.0f}", *errors)


NODES_OF_PATHS = """unnest([array_to_string(string_split(leaf, '/')[:n], '/')
    for n in range(1, 1 + least(8, len(string_split(leaf, '/'))))])"""
"""The nodes of the usual eight levels of a path."""


def users_by(key: str, source: pa.Table) -> dict[str, int]:
    """How many different users every key has."""
    keyed = f"SELECT user_id, {key} AS node FROM source"
    counted = f"SELECT node, count(DISTINCT user_id) FROM ({keyed}) GROUP BY node"
    return dict(duckdb.sql(counted).fetchall())


def leaf_texts(frame: Any, named: list[str]) -> NDArray[np.object_]:
    """The text of every row's node as ``leaf`` has it; None above the finest level of columns."""
    if len(named) == 1:
        return np.asarray(frame["prefix"].astype(object))
    rows = frame[named].astype(object).where(frame[named].notna(), "\0").to_numpy()
    texts = [" / ".join(map(str, row)) for row in rows]
    return np.where(frame["level"] == len(named), texts, None)


def median_error(count: Any, texts: NDArray[np.object_], users: dict[str, int]) -> str:
    """The median relative error of counts."""
    true = np.array([users.get(text, np.nan) for text in texts])
    return f"{np.nanmedian(np.abs(np.asarray(count) - true) / true):.2f}" if len(true) else ""


def speed(releases: int) -> None:
    """1e7 pairs of 1e6 users, of a table in DuckDB, beside its exact numbers of users."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE pairs AS SELECT range % 1000000 AS who, "
        "'item' || CAST(floor(300000 * pow(random(), 4)) AS INT) AS item FROM range(10000000)"
    )
    exact = "SELECT item, count(DISTINCT who) FROM pairs GROUP BY item"
    sides = {
        "exact": lambda: con.sql(exact).to_arrow_table(),
        "ours": lambda: dp.heavy_hitters(con.table("pairs"), "item", user="who", **BUDGET),
    }
    bench.compared_head()
    bench.compared("numbers of users", bench.in_turns(sides, min(3, releases)), "exact")


def levels(releases: int) -> None:
    """1e7 rows of 1e6 users in three columns of 20, 50 and 100 values: questions of several levels
    beside ``heavy_hitters`` of the three columns as one number."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE rows AS SELECT who, a, b, c, v, a * 5000 + b * 100 + c AS leaf FROM (SELECT "
        "range % 1000000 AS who, floor(20 * pow(random(), 2))::INT AS a, floor(50 * "
        "pow(random(), 2))::INT AS b, floor(100 * pow(random(), 2))::INT AS c, random() AS v "
        "FROM range(10000000))"
    )
    rows, given = con.table("rows"), {"user": "who", "progress": False, **BUDGET}
    sums = {"users": "count", "total": "sum(v, 0, auto)"}
    sides = {
        "heavy_hitters": lambda: dp.heavy_hitters(rows, "leaf", **given),
        "hhh": lambda: dp.hhh(rows, ["a", "b", "c"], **given),
        "rollup, users and a sum": lambda: dp.rollup(rows, ["a", "b", "c"], sums, **given),
        "hhh of a cube": lambda: dp.hhh(rows, dp.cube(["a", "b", "c"]), **given),
    }
    bench.compared_head()
    bench.compared("levels", bench.in_turns(sides, releases), "heavy_hitters")


TABLES = {"words": words, "counts": counts, "leaves": leaves, "speed": speed, "levels": levels}


def main() -> None:
    given = bench.options(releases=10, only=tuple(TABLES))
    for name in [given.only] if given.only else TABLES:
        print(f"\n{name}\n")
        TABLES[name](given.releases)


if __name__ == "__main__":
    main()
