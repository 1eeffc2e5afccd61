"""The stream names the nodes that the rollup counts."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest

from dpframe.hierarchy import as_hierarchy
from dpframe.hierarchy._base import unpack_key
from dpframe.sources import source_relations
from dpframe.sources.packed_keys import stream_sql
from tests.rollups import exact_tree

ROWS = pd.DataFrame(
    {
        "ip": ["10.0.0.1", "10.0.0.1", "10.2.0.9", "2001:db8::1", "no", None, ""],
        "path": ["a/b/c", "/a", "a//c", "//", "", None, "x/" * 12],
        "host": ["www.a.org", "a.org", "org", "b.a.org", "", None, "a..org"],
        "when": ["2020-01-02 03:04:05", "2020-01-02", "2020", "no", "", None, "2021-05-01"],
        "code": ["12345", "12", "1", "99999", "", None, "abc"],
        "number": ["1", "99.5", "50", "101", "nan", None, "x"],
        "a": ["[1]", "=", "!", '"', "\u00e9", None, ""],
        "b": ["x", "x", None, "", "[", "]", "x"],
        "i": [1, 2, 2, 3, 3, 3, -4],
    }
)

SPECS = [
    *("ip:ip", "ip:ip?version=4", "path:path", "path:path?depth=2", "domain:host", "date:when"),
    *("code:code?lengths=1,3", "number:number?lower=0&upper=100&depth=5", "columns:a"),
    *("columns:a,b", "columns:i,a,b", "columns:a,b?invalid=drop", "path:path?invalid=drop"),
]


@pytest.mark.parametrize("spec", SPECS)
def test_the_stream_has_the_nodes_and_counts_of_the_rollup(spec: str) -> None:
    """Counting the keys of a level gives the counts of its nodes, for every kind."""
    hierarchy = as_hierarchy(spec)
    tree = exact_tree(ROWS, hierarchy)
    keys = list(zip(*(k.cast("string").to_pylist() for k in tree.keys), strict=True))
    exact = {
        (level, texts): count
        for level, texts, count in zip(tree.level.tolist(), keys, tree.count.tolist(), strict=True)
        if level
    }
    with source_relations.open_source(ROWS, hierarchy.source_columns) as relation:
        types = dict(zip(relation.columns, relation.types, strict=True))
        read = tuple(types[c] for c in hierarchy.source_columns)
        found = relation.query(stream_sql(hierarchy, types=read), False)
    counted: Counter[tuple[int, tuple[str | None, ...]]] = Counter()
    for level, column in enumerate(found.columns, 1):
        values = [v for v in column.to_pylist() if v is not None]
        counted.update((level, unpack_key(v, hierarchy.key_width)) for v in values)
    assert counted == exact
