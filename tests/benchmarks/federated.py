"""Prefix trees over 1.6 million users: the paper's tables, its findings, time and memory.

Run: python -m tests.benchmarks.federated [--only NAME] [--repeats 3]; names: tables, findings,
baselines, real, speed.

Words are drawn from the distribution of those in commit messages (git_words_rails, public): every
user draws a number of words, geometric with a mean of 100, and keeps the different ones with how
often each came; or one draw. ``real`` are the users of that data set themselves.
"""

from __future__ import annotations

import tempfile
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpframe.accounting.aggregate import local_epsilon, shuffle_local_epsilon, silence
from dpframe.evaluation.compare import _plan_method, compare_methods
from dpframe.federated import Population
from dpframe.federated.encoding import LETTERS, BinaryEncoding, Encoding, HuffmanEncoding
from dpframe.papers import triehh_rate, triehhpp_rate
from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, SHARED

USERS, DELTA = 1_600_000, 1e-6

TABLE_I = {
    0.25: [6.36, 6.05, 5.79, 5.63, 5.35, 5.31],
    0.5: [7.18, 6.96, 6.73, 6.48, 6.33, 6.26],
    1.0: [8.03, 7.73, 7.58, 7.39, 7.03, 7.018],
}


def tables(_: int) -> None:
    """Local epsilon: Table I, ours by both accountants, and how much less noise."""
    print("eps  T  Table I  shuffle  aggregate  remove  noise of Table I / aggregate")
    for epsilon, row in TABLE_I.items():
        for reports, printed in enumerate(row, 1):
            given = {"devices": USERS, "reports": reports, "epsilon": epsilon, "delta": DELTA}
            sums, gone = local_epsilon(**given), local_epsilon(**given, neighbours="remove")
            ratio = noise(printed) / noise(sums)
            shuffled = shuffle_local_epsilon(**given)
            print(
                f"{epsilon:<5}{reports}  {printed:<7}  {shuffled:<7.2f}  {sums:<9.2f}  {gone:<6.2f}"
                f"  {ratio:.2f}"
            )
    for votes in (10, 20):
        for epsilon in (1.0, 0.5, 0.25):
            rounds = (12, 6, 4, 3)
            plain = [triehh_rate(epsilon=epsilon, rounds=r, votes=votes) for r in rounds]
            more = [
                triehhpp_rate(epsilon=epsilon, delta=DELTA, rounds=r, votes=votes) for r in rounds
            ]
            print(votes, epsilon, "TrieHH", np.round(plain, 5), "TrieHH++", np.round(more, 5))


def noise(el: float) -> float:
    """Standard error of the estimate for a rare item, up to a factor."""
    a0 = silence(el)
    return float(np.sqrt(a0 * (1 - a0)) / (0.5 - a0))


def words() -> tuple[list[str], np.ndarray]:
    """Different words of the data set, and how frequent each is."""
    counted = duckdb.sql(
        f"SELECT lower(word) AS w, count(*) AS n FROM '{SHARED}/git_words_rails.parquet' "
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchnumpy()
    return counted["w"].tolist(), counted["n"] / counted["n"].sum()


def drawn(seed: int, *, mean: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """(user, word, times) of different words, sorted, and the texts; ``mean`` 1: one word each."""
    texts, chance = words()
    random = np.random.default_rng(seed)
    many = np.ones(USERS, np.int64) if mean == 1 else random.geometric(1 / mean, USERS)
    user = np.repeat(np.arange(USERS), many)
    word = random.choice(len(chance), size=len(user), p=chance)
    key = user * len(texts) + word
    key.sort()
    first = np.flatnonzero(np.diff(key, prepend=-1))
    times = np.diff(np.append(first, len(key)))
    return key[first] // len(texts), key[first] % len(texts), times, texts


def fleet(
    data: tuple[np.ndarray, np.ndarray, np.ndarray, list[str]], encoding: Encoding, length: int
) -> Population:
    from dpframe.sources.codes import population_of

    user, word, times, texts = data
    return population_of(encoding, texts, length, user, word, times, USERS)


def findings(repeats: int) -> None:
    """What the paper finds, with the shuffle bound that it prints and with the exact accountant."""
    one, many = drawn(1, mean=1), drawn(2, mean=100)
    public = words()[0][:2000]
    codes = {"binary": BinaryEncoding(LETTERS), "huffman": HuffmanEncoding(public, LETTERS)}
    fleets = {
        (n, c): fleet(d, codes[c], 60) for n, d in (("one", one), ("many", many)) for c in codes
    }
    base: dict[str, Any] = {"user": "u", "epsilon": 1.0, "delta": DELTA}
    deny = {"deny": public}
    cases = [
        ("one, adaptive (Huffman)", "one", "huffman", {}),
        ("one, even segments (Huffman)", "one", "huffman", {"segments": "even"}),
        ("one, adaptive", "one", "binary", {}),
        ("one, even segments", "one", "binary", {"segments": "even"}),
        ("many, unweighted, prefix list", "many", "huffman", {}),
        ("many, weighted, prefix list", "many", "huffman", {"selection": "weighted"}),
        ("many, unweighted", "many", "huffman", {"conditioned": False}),
        (
            "many, weighted",
            "many",
            "huffman",
            {"selection": "weighted", "conditioned": False},
        ),
        ("many, 2 rounds", "many", "huffman", {"rounds": 2}),
        ("many, deny list of 2,000", "many", "huffman", deny),
        ("many, 12 iterations", "many", "binary", {"iterations": 12, "segments": "even"}),
    ]
    for accountant in ("shuffle", "aggregate"):
        listed = []
        for name, data, code, differing in cases:
            given = {**base, **differing, "encoding": codes[code], "accountant": accountant}
            listed.append((name, None, _plan_method("w", given)[1], fleets[data, code]))
        _print(accountant, listed, repeats)


def baselines(repeats: int) -> None:
    """Figure 4: OptPrefixTree, central noise and sampling, the same code and segments for all."""
    base: dict[str, Any] = {"user": "u", "epsilon": 1.0, "delta": DELTA, "alphabet": LETTERS}
    many = fleet(drawn(2, mean=100), BinaryEncoding(LETTERS), 60)
    against = []
    for mechanism in ("gaussian", "laplace", "reports", "triehh", "triehh++"):
        for iterations, segments in ((12, "even"), (4, "adaptive")):
            given = {**base, "mechanism": mechanism, "iterations": iterations, "segments": segments}
            trie, asked = _plan_method("w", given)
            name = f"many, {mechanism}, {iterations} {segments}"
            against.append((name, trie, asked, many))
    _print("baselines, five bits a character", against, repeats)


def real(repeats: int) -> None:
    """The users of git_words_rails themselves."""
    from dpframe.evaluation.compare import METHODS, compare_prefix_trees

    frame = pd.read_parquet(SHARED / "git_words_rails.parquet", columns=["user_id", "word"])
    methods = {
        **METHODS,
        "weighted": {"selection": "weighted"},
        "without prefix list": {"conditioned": False},
        "2 rounds": {"rounds": 2},
        "12 iterations": {"iterations": 12, "segments": "even"},
    }
    for epsilon in (1.0, 4.0):
        seen = compare_prefix_trees(
            "word",
            public=frame,
            user="user_id",
            epsilon=epsilon,
            delta=DELTA,
            methods=methods,
            repeats=repeats,
            top=100,
            alphabet=LETTERS,
        )
        _show(f"6,817 users of git_words_rails, epsilon {epsilon:g}", seen.frame)


def _print(title: str, listed: list[Any], repeats: int) -> None:
    seen = compare_methods(listed, repeats, 1000, weighted=True, votes=10)
    _show(title, seen.frame)


def _show(title: str, frame: pd.DataFrame) -> None:
    mean = frame.drop(columns="repeat").groupby("method", sort=False).mean()
    print(f"\n{title}\n{mean.round(3).to_string()}")


def speed(_: int) -> None:
    """A Parquet file of 1.6 million users from the front door, in a process of its own: seconds,
    planning included, and peak memory."""
    user, word, times, texts = drawn(2, mean=20)
    del times
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/typed.parquet"
        coded = pa.DictionaryArray.from_arrays(pa.array(word, pa.int32()), texts)
        pq.write_table(pa.table({"u": user, "w": coded}), path)
        found = bench.alone(measure, path)
    taken = f"{found['seconds']:.1f} s, peak {found['mb'] / 1e3:.2f} GB, {found['rows']} items"
    print(f"{len(user):,} rows of {USERS:,} users, P = 1e7, T = 4, r = 60: {taken}")


def measure(path: str) -> dict[str, Any]:
    import dpframe as dp

    asked = {"user": "u", "alphabet": LETTERS, **BUDGET}
    return bench.timed(lambda: dp.prefix_tree(path, "w", **asked))


PARTS = {
    "tables": tables,
    "real": real,
    "speed": speed,
    "findings": findings,
    "baselines": baselines,
}


def main() -> None:
    given = bench.options(only=tuple(PARTS), repeats=3)
    for name in [given.only] if given.only else PARTS:
        PARTS[name](given.repeats)


if __name__ == "__main__":
    main()
