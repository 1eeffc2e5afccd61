"""Settings of a connection change no release: each is drawn with the same noise as by default."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.members import few, some
from tests.sql.visits import said

TABLE = """
CREATE TABLE main.rows_ AS SELECT
    (i * 7919) % 211 AS u, 'A' || i % 3 AS a,
    CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN 'x' ELSE 'X' END AS b,
    i % 4 AS n, CASE i % 7 WHEN 0 THEN NULL ELSE i % 4 END::DOUBLE AS d,
    TIMESTAMPTZ '2024-01-31 23:30:00+00' + to_days((i % 2)::INTEGER) AS at,
    '2024-01-31 23:30:00+0' || i % 2 AS written
FROM range(1500) AS t(i)
"""

SETTINGS = {
    "descending": ("default_order = 'DESC'", "default_null_order = 'NULLS_FIRST'"),
    "nulls": (
        *("default_null_order = 'NULLS_FIRST_ON_ASC_LAST_ON_DESC'", "memory_limit = '50MB'"),
        *("preserve_insertion_order = false", "debug_force_external = true"),
        "disabled_optimizers = 'expression_rewriter,statistics_propagation'",
    ),
    "names": ("preserve_identifier_case = 'uppercase'", "enable_macro_dependencies = true"),
    "arithmetic": (
        *("ieee_floating_point_ops = false", "integer_division = true"),
        *("error_on_division_by_zero = false", "order_by_non_integer_literal = true"),
        *("scalar_subquery_error_on_multiple_rows = false", "old_implicit_casting = true"),
        *("regex_match_operator_semantics = 'full'", "preserve_identifier_case = 'lowercase'"),
    ),
    "time": ("TimeZone = 'America/New_York'", "Calendar = 'japanese'", "VARIABLE n = 9"),
    "casts": (
        *("TimeZone = 'Asia/Kolkata'", "Calendar = 'buddhist'"),
        "disable_timestamptz_casts = true",
    ),
    "arrow": (
        *("arrow_large_buffer_size = true", "arrow_output_list_view = true", "threads = 1"),
        *("arrow_lossless_conversion = true", "arrow_output_version = '1.4'"),
        *("produce_arrow_string_view = true", "lambda_syntax = 'ENABLE_SINGLE_ARROW'"),
    ),
    "place": (
        *("search_path = 'other,main'", "enable_optimizer = false", "threads = 4"),
        *("explain_output = 'all'", "enable_external_access = false", "max_expression_depth = 100"),
    ),
}  # fmt: skip
"""What changes the meaning of SQL, or how it runs, in groups that do not hide each other."""

REASONS = {
    "preserve_insertion_order = false": "sketch needs the table's order",
    "disable_timestamptz_casts = true": "without an explicit time zone has been disabled",
}
"""Settings with which some releases are refused: of sketches, which read rows in their order; and,
by DuckDB, of times with a zone in a table whose types only this connection knows."""

REFUSED = {
    "default_collation = 'NOCASE'": "RESET default_collation",
    "default_collation = 'de'": "RESET default_collation",
}

STREAM = {"mechanism": "streaming", "counters": 64}
HHH: dict[str, tuple[str, dict[str, object]]] = {
    "shares": ("columns:a,b", {"user": "u", "contribution": "share"}),
    "rounds": ("columns:a,b", {"user": "u"}),
    "records": ("columns:a,b,d", {"user": "u", "contribution": "records", "max_contributions": 3}),
    "times": ("date:at?levels=year,month", {}),
    "written": ("date:written?levels=month,day", {}),
    "stream": ("columns:n,b", STREAM),
    "items": (
        "columns:b,n",
        {**STREAM, "user": "u", "contribution": "items", "max_contributions": 2},
    ),
}
BUDGET: dict[str, float] = {"epsilon": 8.0, "delta": 1e-2}


def _releases(con: duckdb.DuckDBPyConnection) -> dict[str, Callable[[], pd.DataFrame]]:
    """Releases by every kind of statement, through a relation and through the macros."""
    rows = con.table("main.rows_")
    limit = {"user": "u", "max_contributions": 3}
    out: dict[str, Callable[[], pd.DataFrame]] = {
        "tree": lambda: dp.tree_counts(rows, "columns:n,b", **BUDGET),
        "generator": lambda: (
            dp.synthesize(
                rows, "number:d?lower=0&upper=4", epsilon=2.0, k=4, width=16, **limit
            )._release.frame
        ),
        "devices": lambda: dp.prefix_tree(
            rows, "a", user="u", neighbours="remove", mechanism="laplace", length=10, **BUDGET
        ),
        "macro, unseen": lambda: con.sql(_macro("dp_hhh", "date:at", BUDGET, "unseen")).df(),
        "macro heavy": lambda: con.sql(_macro("dp_heavy_hitters", "b", BUDGET)).df(),
        "macro tree": lambda: con.sql(_macro("dp_tree_counts", "columns:n,b", BUDGET)).df(),
    }
    for name, (spec, more) in HHH.items():
        given = {**BUDGET, **more}
        out[name] = lambda spec=spec, given=given: dp.hhh(rows, spec, **given)
        out[f"macro {name}"] = lambda spec=spec, given=given: con.sql(
            _macro("dp_hhh", spec, given)
        ).df()
    return out  # fmt: skip


def _macro(name: str, what: str, given: dict[str, object], table: str = "memory.main.rows_") -> str:
    named = ", ".join(f'"{k}" := {v!r}' for k, v in given.items())
    return f"FROM {name}('{table}', '{what}', {named})"


def _frames(*settings: str) -> dict[str, pd.DataFrame]:
    """A frame a release, on a connection of their own with these settings."""
    with duckdb.connect() as con:
        con.execute("CREATE SCHEMA other")
        con.execute(TABLE)
        con.execute("CREATE TEMP VIEW unseen AS FROM memory.main.rows_")
        for setting in settings:
            con.execute(f"SET {setting}")
        frames = {}
        with seeded_noise(3):
            dp.register(con)
            every = _releases(con)
        for name, released in every.items():
            try:
                with seeded_noise(3):
                    frames[name] = released()
            except (dp.errors.SourceError, duckdb.Error) as error:
                if not any(one in settings and why in str(error) for one, why in REASONS.items()):
                    raise
        return frames


@pytest.fixture(scope="module")
def by_default() -> dict[str, pd.DataFrame]:
    return _frames()


def test_a_release_here_shows_something(by_default: dict[str, pd.DataFrame]) -> None:
    assert [
        name for name, frame in by_default.items() if len(frame) < 2 - (name == "devices")
    ] == []


@some("descending", "nulls", "place")
@few(3, "settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_change_no_release(
    by_default: dict[str, pd.DataFrame], settings: tuple[str, ...]
) -> None:
    """Law: under every setting that SQL's meaning depends on, the frames are equal, names too."""
    for name, frame in _frames(*settings).items():
        pd.testing.assert_frame_equal(frame, by_default[name], obj=name)


@pytest.mark.parametrize("setting", REFUSED)
def test_settings_that_merge_values_are_refused_before_the_charge(
    setting: str, ledger: dp.Ledger
) -> None:
    with duckdb.connect() as con:
        con.execute(TABLE)
        dp.register(con, ledger=ledger)
        con.execute(f"SET {setting}")
        for spec, more in HHH.values():
            with pytest.raises(dp.errors.SourceError, match=REFUSED[setting]):
                dp.hhh(con.table("rows_"), spec, **BUDGET, **more, ledger=ledger)
            assert REFUSED[setting] in said(con, _macro("dp_hhh", spec, {**BUDGET, **more}))
    assert ledger.releases().empty


def test_a_locked_configuration_is_named(ledger: dp.Ledger) -> None:
    """A sketch asks EXPLAIN for both plans; where it cannot, it says what to set, uncharged."""
    with duckdb.connect() as con:
        con.execute(TABLE)
        con.execute("SET lock_configuration = true")
        with pytest.raises(dp.errors.SourceError, match="SET explain_output = 'all' before"):
            dp.hhh(con.table("rows_"), HHH["stream"][0], **BUDGET, **STREAM, ledger=ledger)
    assert ledger.releases().empty


def test_a_locked_configuration_has_one_time_zone() -> None:
    """Law: a second connection that cannot be given the time zone of the first counts nothing: in a
    view that casts times it could read other days."""
    con = duckdb.connect()
    con.execute(TABLE)
    dp.register(con)
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    con.execute("SET lock_configuration = true")
    ask = "FROM dp_rollup('rows_', ['a'], ['count'], epsilon := 8.0, delta := 1e-2)"
    with pytest.raises(duckdb.Error, match="SET GLOBAL TimeZone = 'Asia/Tokyo' before"):
        con.execute(ask)
