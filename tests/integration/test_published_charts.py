"""Columns of published tables that charts need: labels, rows above, rests, shares, periods."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpframe as dp
from dpframe.asking.release import receipt_in_metadata
from dpframe.postprocess.shown_nodes import shown_nodes
from dpframe.publishing import chart_columns as charts
from dpframe.testing import seeded_noise
from tests.members import some
from tests.published import content, rows

B: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-6}
SALES = pd.DataFrame(
    {
        "country": ["FR"] * 600 + ["DE"] * 300 + [None] * 150,
        "city": (["Paris", "Lyon"] * 300 + ["Bonn", "Köln"] * 150 + ["Oslo"] * 150),
        "amount": [10.0, 30.0] * 525,
        "who": range(1050),
        "when": pd.to_datetime(["2026-11-22 13:30"] * 1050),
    }
)
WORDS = [
    "",
    "(all)",
    '"(all)"',
    "(the rest)",
    "(missing)",
    "<invalid>",
    "<other>",
    "*",
    "a / b",
    None,
]
HOSTILE = pd.DataFrame(
    {"value": [v for v in WORDS for _ in range(200)], "of": ["x", "y / z"] * 100 * len(WORDS)}
)

Ask = Callable[..., pd.DataFrame]


def drawn(folder: Path, *asked: tuple[str, Ask]) -> dict[str, pd.DataFrame]:
    """Named releases, published: every table by its name."""
    with seeded_noise(7):
        for name, ask in asked:
            ask(ledger=book(folder), release=name)
    dp.publish(book(folder), folder / "results.duckdb")
    return content(folder / "results.duckdb")


def book(folder: Path) -> dp.Ledger:
    path = folder / "b.db"
    return dp.Ledger(path) if path.exists() else dp.Ledger(path, epsilon=1e3, delta=0.1)


def comments(folder: Path, table: str) -> dict[str, str]:
    asked = f"SELECT column_name, comment FROM duckdb_columns() WHERE table_name = '{table}'"
    return dict(rows(folder / "results.duckdb", asked))


def columns(frame: pd.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Rows as tuples, None for what is missing, shares with three digits."""

    def plain(value: Any) -> Any:
        return round(value, 3) if isinstance(value, float) else value

    held = frame[list(names)].astype(object)
    return [tuple(map(plain, row)) for row in held.where(held.notna(), None).to_numpy().tolist()]


def test_a_published_tree_is_what_it_was(tmp_path: Path) -> None:
    """Golden: every column of ours, of a tree with rests, missing values and an empty branch."""
    ask: Ask = lambda **a: dp.tree_counts(SALES, ["country", "city"], **B, **a)  # noqa: E731
    found = drawn(tmp_path, ("tree-1", ask))["tree_1"]
    assert list(found.columns[-6:]) == list(charts.CHART_COLUMNS)
    assert columns(found, "level", "prefix", *charts.CHART_COLUMNS) == [
        (0, "*", "(all)", None, False, 1.0, 1.0, 1.0),
        (1, "DE", "DE", "*", False, 0.286, 0.284, 0.287),
        (1, "FR", "FR", "*", False, 0.571, 0.57, 0.573),
        (1, "<invalid>", "(missing)", "*", False, 0.143, 0.142, 0.144),
        (1, "<other>", "(the rest)", "*", True, 0.0, 0.0, 0.002),
        (2, "DE / Bonn", "Bonn", "DE", False, 0.143, 0.142, 0.144),
        (2, "DE / Köln", "Köln", "DE", False, 0.143, 0.142, 0.144),
        (2, "DE / <other>", "(the rest)", "DE", True, 0.0, 0.0, 0.003),
        (2, "FR / Lyon", "Lyon", "FR", False, 0.286, 0.284, 0.287),
        (2, "FR / Paris", "Paris", "FR", False, 0.286, 0.284, 0.287),
        (2, "FR / <other>", "(the rest)", "FR", True, 0.0, 0.0, 0.003),
        (2, "<invalid> / Oslo", "Oslo", "<invalid>", False, 0.143, 0.142, 0.144),
        (2, "<invalid> / <other>", "(the rest)", "<invalid>", True, 0.0, 0.0, 0.003),
    ]
    for _, level in found.groupby("level"):  # counts of this tree add up
        assert level["share"].sum() == pytest.approx(1)


TYPICAL = dp.mean("amount", lower=0, upper=50)

CASES: dict[str, tuple[Ask, str | None]] = {
    "hhh": (lambda **a: dp.hhh(SALES, ["country", "city"], **B, **a), "count"),
    "hhh of shares": (
        lambda **a: dp.hhh(SALES, ["city"], **B, user="who", contribution="share", **a),
        "count",
    ),
    "laplace": (lambda **a: dp.hhh(SALES, ["country"], **B, mechanism="laplace", **a), "count"),
    "alike": (lambda **a: dp.hhh(HOSTILE, ["value"], **B, **a), "count"),
    "weight": (
        lambda **a: dp.hhh(SALES, ["city"], **B, weight="amount", max_weight=30, **a),
        "count",
    ),
    "keys": (lambda **a: dp.tree_counts(SALES, ["city"], epsilon=8.0, keys=["Bonn"], **a), "count"),
    "found": (lambda **a: dp.tree_counts(SALES, ["city"], **B, **a), "count"),
    "rollup": (
        lambda **a: dp.rollup(
            SALES,
            ["country", "city"],
            {
                "typical": TYPICAL,
                "signed": dp.sum("amount", lower=-50, upper=50),
                "paid": dp.sum("amount", lower=0, upper=50),
                "orders": "count",
            },
            **B,
            **a,
        ),
        "paid",
    ),
    "no total": (lambda **a: dp.hhh(SALES, ["city"], **B, remainder=False, **a), None),
    "flat": (lambda **a: dp.heavy_hitters(SALES, "city", **B, **a), None),
    "users": (lambda **a: dp.hhh(SALES, ["city"], **B, user="who", **a), None),
    "cells": (lambda **a: dp.hhh(SALES, "country * city", **B, **a), None),
    "totals": (lambda **a: dp.hhh(SALES, "country * city", **B, totals=True, **a), None),
    "mean": (
        lambda **a: dp.rollup(
            SALES, ["city"], {"m": dp.mean("amount", lower=0, upper=50)}, **B, **a
        ),
        None,
    ),
}


def shares_mean_what_they_say(folder: Path, case: str) -> None:
    """The numbers of ``result.dp.share("total")``, with its confidence in the comments."""
    ask, measure = CASES[case]
    found = drawn(folder, ("it-1", ask))["it_1"]
    said = comments(folder, "it_1")
    assert list(found.columns[-3:] if measure is None else found.columns[-6:-3]) == [
        "label", "parent", "is_rest"
    ]  # fmt: skip
    assert all(said.values())
    if measure is None:
        assert "share" not in found
        return
    frame = book(folder).recall("it-1")
    named = {"measure": measure} if case == "rollup" else {}
    share = frame.dp.share("total", **named)
    for name in charts.SHARES:
        np.testing.assert_array_equal(found[name], share[name])
    told = share.attrs["dp_share"]
    for end in ("share_lower", "share_upper"):
        assert f"at confidence {told['confidence']:g}, each on its own" in said[end]
        assert frame.attrs["dp"]["intervals"] in said[end]
    assert f"its row of level 0, that {measure!r} of this row is" in said["share"]
    total = found["level"] == 0
    assert found.loc[total, list(charts.SHARES)].to_numpy().tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize("case", CASES)
def test_shares_mean_what_their_comments_say(case: str, tmp_path: Path) -> None:
    """Law: shares follow from released numbers, as ``result.dp.share`` computes them, whose
    intervals are tested for their confidence there; where it refuses, there are none."""
    shares_mean_what_they_say(tmp_path, case)


@pytest.mark.parametrize("planted", ["parent", "narrow", "sure"])
def test_planted_bugs_in_shares_are_seen(
    planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: another whole, narrower ends, a confidence that does not hold."""
    own = charts.node_shares

    def wrong(nodes: Any, *, of: str, measure: object) -> charts.NodeShares:
        found = own(nodes, of="parent" if planted == "parent" else of, measure=measure)
        share, low, high = found.numbers
        numbers = (share, share, share) if planted == "narrow" else (share, low, high)
        object.__setattr__(found, "numbers", numbers)
        if planted == "sure":
            object.__setattr__(found.ends, "confidence", 0.95)
        return found

    monkeypatch.setattr(charts, "node_shares", wrong)
    with pytest.raises(AssertionError):
        shares_mean_what_they_say(tmp_path, "alike" if planted == "sure" else "hhh")


MOST = pd.DataFrame({"city": ["Paris"] * 900 + ["Lyon"] * 100, "one": [1.0] * 1000})
SURE: dict[str, Any] = {"epsilon": 1.0, "confidence": 0.8}
DRAWN: dict[str, Callable[[], pd.DataFrame]] = {
    "parts": lambda: dp.hhh(MOST, ["city"], delta=1e-6, **SURE),
    "drawn": lambda: dp.tree_counts(MOST, ["city"], keys=["Paris"], consistent=False, **SURE),
    "sums": lambda: dp.rollup(
        MOST, ["city"], {"paid": dp.sum("one", lower=0, upper=1)}, delta=1e-6, **SURE
    ),
}


@some("parts", "drawn")
@pytest.mark.parametrize("case", DRAWN)
def test_a_share_of_everything_holds_the_true_share_as_often_as_it_says(case: str) -> None:
    """Law: with the confidence that the comment states, over independent releases (level 1e-6);
    ends divided by the same ends of the total, a planted bug, do not."""
    held, bug, tries = 0, 0, 80
    for seed in range(tries):
        with seeded_noise(seed):
            frame = DRAWN[case]()
        nodes = shown_nodes(frame, frame.attrs["dp"], "share")
        found = charts._total_shares(nodes)
        assert found is not None
        assert found.ends.confidence == 0.8
        at = frame["prefix"].tolist().index("Paris")
        _, low, high = (ends[at] for ends in found.numbers)
        held += low <= 0.9 <= high
        columns = nodes.measures[found.measure]
        lower, upper = (nodes.numbers(name) for name in (columns.lower, columns.upper))
        bug += lower[at] / lower[0] <= 0.9 <= upper[at] / upper[0]
    fewest = int(binom.ppf(1e-6, tries, 0.8))
    assert bug < fewest <= held


def test_shares_of_an_unknown_total_are_missing(tmp_path: Path) -> None:
    """Where everything may be 0 there is no share, and its interval is all that a share can be."""
    few = SALES.head(3)
    found = drawn(
        tmp_path,
        ("few-1", lambda **a: dp.tree_counts(few, ["city"], epsilon=0.01, keys=["Lyon"], **a)),
    )["few_1"]
    assert found["share"].isna().all()
    assert columns(found[found["level"] == 1], "share_lower", "share_upper") == [(0.0, 1.0)] * 2


def test_a_frame_without_a_digest_has_labels_and_no_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases of versions that wrote none: labels and rows above are read from the rows."""

    def refuse(*_: object) -> None:
        raise dp.ParameterError("no digest")

    whole = drawn(tmp_path, ("it-1", CASES["hhh"][0]))["it_1"]
    monkeypatch.setattr(charts, "shown_nodes", refuse)
    dp.publish(book(tmp_path), tmp_path / "results.duckdb")
    found = content(tmp_path / "results.duckdb")["it_1"]
    pd.testing.assert_frame_equal(found, whole.drop(columns=list(charts.SHARES)))
    assert all(comments(tmp_path, "it_1").values())


@pytest.mark.parametrize("way", ["hhh", "rollup", "tree_counts"])
def test_values_that_read_like_words_are_told_apart(way: str, tmp_path: Path) -> None:
    """Law: no two nodes of a level below one row have one label, whatever the data say."""
    measures = {"n": "count"} if way == "rollup" else {}
    arguments = {"measures": measures} if measures else {}
    found = drawn(
        tmp_path,
        ("words-1", lambda **a: getattr(dp, way)(HOSTILE, ["value"], **arguments, **B, **a)),
    )["words_1"]
    one = found[found["level"] == 1]
    labels = one["label"].tolist()
    assert len(set(labels)) == len(labels)
    expected = {'"(all)"', '""(all)""', '"(the rest)"', '"(missing)"', "<invalid>", "<other>", "*"}
    assert expected | {"a / b", "(missing)"} <= set(labels)
    assert ("(the rest)" in labels) == (way == "tree_counts")
    assert one["is_rest"].sum() == (way == "tree_counts")
    # the empty text is a missing value for this hierarchy
    assert found.loc[one.index[one["label"] == "(missing)"], "prefix"].tolist() == ["<invalid>"]


def test_every_parent_is_a_row_above(tmp_path: Path) -> None:
    """Law: of the same release, of a level before; NULL for the top row alone."""
    found = drawn(
        tmp_path,
        ("deep-1", lambda **a: dp.tree_counts(HOSTILE, ["value", "of"], **B, **a)),
        ("deep-2", lambda **a: dp.hhh(SALES, ["country", "city"], **B, threshold=200, **a)),
        ("path-1", lambda **a: dp.hhh(SALES.assign(p="/a/b"), "path:p", **B, **a)),
        ("host-1", lambda **a: dp.tree_counts(SALES.assign(h="www.a.org"), "domain:h", **B, **a)),
        ("time-1", lambda **a: dp.hhh(SALES, "date:when?levels=year,month,day", **B, **a)),
    )
    for name in ("deep_1", "deep_2", "path_1", "host_1", "time_1"):
        table = found[name]
        levels = table.groupby("prefix")["level"].min().to_dict()
        for row in table.itertuples():
            assert pd.isna(row.parent) == (row.level == 0)
            assert row.level == 0 or levels[row.parent] < row.level
    assert set(found["path_1"]["label"]) == {"(all)", "b"}
    assert {"www.a.org", "(the rest)"} <= set(found["host_1"]["label"])
    assert set(found["time_1"]["label"]) == {"(all)", "2026-11-22"}


def test_types_of_levels_have_the_labels_of_their_prefixes(tmp_path: Path) -> None:
    """Truth values, numbers, days and times read as in ``prefix``; no column is a DECIMAL or
    HUGEINT, whatever the source has."""
    from decimal import Decimal

    typed = pd.DataFrame(
        {
            "flag": [True, False] * 200,
            "day": [datetime.date(2026, 11, 22)] * 400,
            "cash": [Decimal("1.50")] * 400,
            "huge": [Decimal(2**70)] * 400,
            "real": [1.5, 2.0] * 200,
        }
    )
    asked = [(f"{c}-1", lambda c=c, **a: dp.hhh(typed, [c], **B, **a)) for c in typed]
    found = drawn(tmp_path, *asked)
    labels = {c: set(found[f"{c}_1"]["label"]) - {"(all)"} for c in typed}
    for c in typed:
        assert labels[c] == set(found[f"{c}_1"]["prefix"]) - {"*"}
    assert labels["flag"] == {"true", "false"}
    kinds = rows(tmp_path / "results.duckdb", "SELECT DISTINCT data_type FROM duckdb_columns()")
    assert not any(kind.startswith(("DECIMAL", "HUGEINT", "UHUGEINT")) for (kind,) in kinds)


def test_cells_say_what_they_are(tmp_path: Path) -> None:
    """A cell has the labels of its nodes; level 0 is a rest where rows add up, else everything."""
    found = drawn(tmp_path, ("cells-1", CASES["cells"][0]), ("all-1", CASES["totals"][0]))
    for table, top in (("cells_1", ("(the rest)", True)), ("all_1", ("(all)", False))):
        cells = found[table]
        assert columns(cells.head(1), "label", "is_rest") == [top]
        assert cells["parent"].isna().all()
        assert {"FR * Paris", "(missing) * Oslo"} <= set(cells["label"])
        assert cells["is_rest"].sum() == top[1]


def test_releases_of_queries_have_the_texts_of_the_query(tmp_path: Path) -> None:
    """``dp.sql`` marks texts and packs columns that are one level: labels do not show that."""
    tables = {"sales": HOSTILE}
    several = "SELECT value, of, count(*) AS n FROM sales GROUP BY "
    asked = {
        "rollup-1": f"{several} ROLLUP (value, of)",
        "plain-1": f"{several} value, of",
        "cube-1": f"{several} CUBE (value, of)",
    }
    found = drawn(
        tmp_path,
        *((name, lambda q=q, **a: dp.sql(q, tables, **B, **a)) for name, q in asked.items()),
    )
    first = found["rollup_1"]
    values = {"(empty)", '"(all)"', "<invalid>", "<other>", "*", "a / b", "(missing)"}
    assert values <= set(first.loc[first["level"] == 1, "label"])
    assert set(first.loc[first["level"] == 2, "label"]) == {"x", "y / z"}
    assert {"(empty) / x", "(missing) / y / z", "* / x"} <= set(found["plain_1"]["label"])
    assert {"(empty) * x", "(missing) * y / z", "(empty)", "x"} <= set(found["cube_1"]["label"])
    for table in ("rollup_1", "plain_1"):
        assert found[table]["share"].notna().all()


NAMED = pd.DataFrame({name: ["x"] * 300 for name in (*charts.CHART_COLUMNS, "period_start")})


def test_columns_of_the_data_give_way_to_ours(tmp_path: Path) -> None:
    """A column or a measure that is called like one of ours gets _ behind its name, as one that is
    called period does; its numbers, the receipt and what pandas reads stay."""
    measures = {"share": "count", "label": dp.sum("amount", lower=0, upper=50)}
    found = drawn(
        tmp_path,
        ("own-1", lambda **a: dp.hhh(NAMED, list(NAMED), **B, **a)),
        ("own-2", lambda **a: dp.hhh(NAMED, ["label"], **B, **a)),
        ("got-1", lambda **a: dp.rollup(SALES, ["city"], measures, **B, **a)),
    )
    deepest = found["own_1"].iloc[-1]
    for name in charts.CHART_COLUMNS:
        assert deepest[f"{name}_"] == "x"
    assert deepest["period_start"] == "x"  # ours in tables of families alone
    assert found["own_all"].iloc[len(found["own_1"]) - 1]["period_start_"] == "x"
    assert (deepest["label"], deepest["is_rest"]) == ("x", False)
    for table, release in (("own_1", "own-1"), ("got_1", "got-1")):
        file = tmp_path / "results_parquet" / f"{table}.parquet"
        pd.testing.assert_frame_equal(pd.read_parquet(file), found[table], check_dtype=False)
        import pyarrow.parquet as pq

        assert receipt_in_metadata(pq.read_schema(file).metadata) == json.loads(
            book(tmp_path).find(release).receipt
        )
    wide, long, recalled = found["got_1"], found["dp_measures"], book(tmp_path).recall("got-1")
    for name, column in (("share", "share_"), ("label", "label_")):
        own = long[long["measure"] == name]
        assert own["value"].tolist() == wide[column].tolist() == recalled[name].tolist()
        assert own["lower"].tolist() == recalled[f"{name}_lower"].tolist()
        assert own["label"].tolist() == wide["label"].tolist()
    assert all(comments(tmp_path, "own_1").values())
    assert "of 'label' at level 1" in comments(tmp_path, "own_1")["label_"]


def test_the_long_form_has_what_a_stacked_chart_needs(tmp_path: Path) -> None:
    """Family, period, label, row above and rest of the wide table, beside each number."""
    found = drawn(
        tmp_path,
        ("paid-2026-10", CASES["rollup"][0]),
        ("paid-2026-11", CASES["rollup"][0]),
        ("cells-1", lambda **a: dp.rollup(SALES, "country * city", {"n": "count"}, **B, **a)),
    )
    long = found["dp_measures"]
    ours = ["family", "period", "period_start", "label", "parent", "is_rest"]
    assert list(long.columns[-6:]) == ours
    assert set(long["family"]) == {"paid", "cells"}
    paid = long[(long["release"] == "paid-2026-11") & (long["measure"] == "paid")]
    assert set(paid["period"]) == {"2026-11"}
    assert set(paid["period_start"]) == {pd.Timestamp("2026-11-01")}
    wide = found["paid_2026_11"]
    for name in ("label", "parent", "is_rest"):
        assert columns(paid, name) == columns(wide, name)
    assert long.loc[long["release"] == "cells-1", "period_start"].isna().all()
    assert long.loc[long["release"] == "cells-1", "is_rest"].sum() == 1


def test_a_family_tells_the_least_confidence_of_its_shares(tmp_path: Path) -> None:
    """Comments are those of the newest release, but for what would not hold for the others."""
    drawn(tmp_path, ("two-1", CASES["alike"][0]), ("two-2", CASES["rollup"][0]))
    assert "at confidence 0.95" in comments(tmp_path, "two_2")["share_lower"]
    said = comments(tmp_path, "two_all")
    assert "at confidence 0.9," in said["share_lower"]
    assert "one measure of its release, 'count' or 'paid'," in said["share"]


@pytest.mark.parametrize(
    ("text", "start", "kind"),
    [
        ("2026", "2026-01-01", "DATE"),
        ("2026-Q4", "2026-10-01", "DATE"),
        ("2026-11", "2026-11-01", "DATE"),
        ("2026-W47", "2026-11-16", "DATE"),
        ("2026-11-22", "2026-11-22", "DATE"),
        ("2026-11-20..2026-11-22", "2026-11-20", "DATE"),
        ("2026-11-22T00", "2026-11-22 00:00:00", "TIMESTAMP"),
        ("2026-11-22T13", "2026-11-22 13:00:00", "TIMESTAMP"),
        (None, None, "DATE"),
    ],
)
def test_periods_that_were_counted_begin(
    text: str | None, start: str | None, kind: str, tmp_path: Path
) -> None:
    """A day, or a time where periods are hours; NULL for records without a time."""
    period = {"period": ("when", text), "data": "all"}
    drawn(tmp_path, ("of-1", lambda **a: dp.hhh(SALES, ["city"], **B, **period, **a)))
    asked = "SELECT DISTINCT period_start::VARCHAR, typeof(period_start) FROM of_all"
    assert rows(tmp_path / "results.duckdb", asked) == [(start, kind)]


@pytest.mark.parametrize(
    ("numbers", "start"),
    [
        ("2026-11", (2026, 11, 1)),
        ("2026_11", (2026, 11, 1)),
        ("2026/11/22", (2026, 11, 22)),
        ("2026.W47", (2026, 11, 16)),
        ("2026-Q3", (2026, 7, 1)),
        ("2026-11-22T13", (2026, 11, 22, 13)),
        ("2026", (2026, 1, 1)),
        *(("1234", None), ("7", None), ("2026-13", None), ("2026-11-22-3", None), (None, None)),
    ],
)
def test_names_tell_periods(numbers: str | None, start: tuple[int, ...] | None) -> None:
    """The end of a name is a period where it reads like one; a number alone must be a likely
    year."""
    found = charts.period_bounds({}, numbers)
    assert (None if found is None else found[0]) == (start and datetime.datetime(*start))


def test_a_family_of_days_and_hours_has_times(tmp_path: Path) -> None:
    """One type holds all periods of a family."""

    def ask(text: str) -> Ask:
        period = {"period": ("when", text), "data": "all"}
        return lambda **a: dp.hhh(SALES, ["city"], **B, **period, **a)

    drawn(tmp_path, ("mix-1", ask("2026-11-22")), ("mix-2", ask("2026-11-22T13")))
    asked = "SELECT DISTINCT release, period_start::VARCHAR FROM mix_all ORDER BY ALL"
    assert rows(tmp_path / "results.duckdb", asked) == [
        ("mix-1", "2026-11-22 00:00:00"),
        ("mix-2", "2026-11-22 13:00:00"),
    ]
