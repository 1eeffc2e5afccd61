"""``dp.wasserstein``: closed forms, laws of a distance, a slow twin, and clear errors."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.evaluation import wasserstein

samples = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=1, max_size=30)


def slow(real: list[float], synthetic: list[float]) -> float:
    """Both samples repeated to one length and sorted: the mean distance of partners."""
    length = math.lcm(len(real), len(synthetic))
    a = np.sort(np.repeat(real, length // len(real)))
    b = np.sort(np.repeat(synthetic, length // len(synthetic)))
    return float(np.abs(a - b).mean())


def test_two_atoms() -> None:
    """Masses p and q on 0 and 1 differ by |p - q|; a stretched uniform by a quarter of its gain."""
    assert wasserstein([0.0] * 7 + [1.0] * 3, [0.0, 1.0]) == pytest.approx(0.2)
    assert wasserstein([0.0] * 5, [1.0]) == pytest.approx(1.0)
    x = (np.arange(10_000) + 0.5) / 10_000
    assert wasserstein(x, 2 * x) == pytest.approx(0.5)
    assert wasserstein(x, np.array([0.5])) == pytest.approx(0.25)


@given(samples, samples)
def test_one_column_equals_the_slow_twin(a: list[float], b: list[float]) -> None:
    assert wasserstein(a, b) == pytest.approx(slow(a, b), rel=1e-9, abs=1e-6)


def test_one_column_keeps_its_unit_unless_bounds_are_given() -> None:
    assert wasserstein([0.0, 10.0], [5.0, 15.0]) == pytest.approx(5.0)
    frames = (pd.DataFrame({"x": [0, 10]}), pd.DataFrame({"x": [5, 15]}))
    assert wasserstein(*frames) == pytest.approx(5.0)
    assert wasserstein(*frames, bounds={"x": (0, 50)}) == pytest.approx(0.1)


def test_times_are_compared_in_seconds() -> None:
    """Time zones are one line of time; dates are midnights; bounds may be times."""
    day = pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"]))
    assert wasserstein(day, day + pd.Timedelta(hours=1)) == pytest.approx(3600)
    assert wasserstein(day, day.dt.tz_localize("UTC")) == 0
    dates = pd.Series([dt.date(2020, 1, 1), dt.date(2020, 1, 2)])
    assert wasserstein(dates, day) == 0
    scaled = wasserstein(
        pd.DataFrame({"t": day}),
        pd.DataFrame({"t": day + pd.Timedelta(days=1)}),
        bounds={"t": ("2020-01-01", dt.datetime(2020, 1, 11))},
    )
    assert scaled == pytest.approx(0.1)


def test_a_shift_in_the_plane_costs_two_over_pi_of_its_length() -> None:
    """The mean of |cos| over all directions is 2 / pi; 1 / 2 in space."""
    rng = np.random.default_rng(1)
    for dimensions, mean in ((2, 2 / math.pi), (3, 0.5)):
        x = rng.random((50, dimensions))
        shift = np.full(dimensions, 0.3)
        bounds = {str(i): (0, 1) for i in range(dimensions)}
        found = wasserstein(x, x + shift, bounds=bounds, projections=20_000)
        assert found == pytest.approx(mean * float(np.linalg.norm(shift)), rel=0.01)


def test_the_range_of_real_scales_several_columns() -> None:
    """So a unit does not matter: the same rows in metres and kilometres."""
    rng = np.random.default_rng(2)
    a, b = (pd.DataFrame(rng.random((40, 2)), columns=["x", "y"]) for _ in range(2))
    in_km = [frame.assign(x=frame["x"] * 1000) for frame in (a, b)]
    assert wasserstein(a, b) == pytest.approx(wasserstein(*in_km))
    bounds = {c: (a[c].min(), a[c].max()) for c in a}
    assert wasserstein(a, b) == pytest.approx(wasserstein(a, b, bounds=bounds))


def test_a_correlation_is_seen() -> None:
    """Equal marginals, another joint law: not zero (a planted error of marginals alone)."""
    x = np.linspace(0, 1, 500)
    together, apart = np.column_stack([x, x]), np.column_stack([x, x[::-1]])
    assert wasserstein(together[:, 0], apart[:, 0]) == 0
    assert wasserstein(together[:, 1], apart[:, 1]) == pytest.approx(0, abs=1e-12)
    assert wasserstein(together, apart) > 0.1


def test_the_seed_settles_the_directions() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((2, 30, 2))
    assert wasserstein(a, b, seed=4) == wasserstein(a, b, seed=4)
    assert wasserstein(a, b, seed=4) != wasserstein(a, b, seed=5)


def test_every_kind_of_frame_is_read_alike() -> None:
    a, b = (
        pd.DataFrame({"x": [1.0, 2.0], "y": [0.0, 1.0]}),
        pd.DataFrame({"y": [0, 3], "x": [1, 4]}),
    )
    found = wasserstein(a, b)
    kinds = (pa.Table.from_pandas, pa.RecordBatch.from_pandas, pl.from_pandas, pd.DataFrame)
    for kind in kinds:
        assert wasserstein(kind(a), kind(b)) == pytest.approx(found)
    one = wasserstein(a["x"], b["x"])
    for real, synthetic in (
        (a["x"].to_numpy(), b[["x"]]),
        (a["x"], pa.table(b[["x"]])),
        (list(a["x"]), pl.from_pandas(b)["x"]),
        (a["x"].astype(str).map(Decimal), b["x"]),
        (a["x"].astype("Float64"), b["x"].astype("int8")),
    ):
        assert wasserstein(real, synthetic) == pytest.approx(one)
    assert wasserstein(a, b, columns="x") == wasserstein(a, b, columns=["x"]) == one
    assert wasserstein(a["x"].to_numpy(), b, columns="x") == one


def test_missing_values_are_dropped_a_row_at_a_time() -> None:
    a = pd.DataFrame({"x": [0.0, None, 1.0], "y": [0.0, 5.0, 1.0]})
    assert wasserstein(a, a.dropna()) == pytest.approx(0)
    assert wasserstein([1.0, math.nan], [1.0]) == 0


def test_text_and_truth_values_are_left_out() -> None:
    a = pd.DataFrame({"x": [0.0, 1.0], "name": ["a", "b"], "flag": [True, False]})
    b = a.assign(x=[1.0, 2.0])
    assert wasserstein(a, b) == pytest.approx(1.0)


def test_frames_stay_as_they_are() -> None:
    a = pd.DataFrame({0: [0.0, 1.0]})
    wasserstein(a, np.array([0.0, 2.0]))
    assert list(a.columns) == [0]
    assert list(a[0]) == [0.0, 1.0]
    x = np.array([[0.0, 4.0], [2.0, 8.0]])
    wasserstein(x, x)
    assert x.tolist() == [[0.0, 4.0], [2.0, 8.0]]


X = pd.DataFrame({"x": [0.0, 1.0], "s": ["private", "text"]})


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ((X, X[["s"]]), ColumnError, "no column of numbers or times"),
        ((X, X, "z"), ColumnError, "'z' does not exist in real"),
        ((X, X[["s"]], "x"), ColumnError, "'x' does not exist in synthetic"),
        ((X, X, "s"), ColumnError, "must hold numbers, or times"),
        ((X, X, []), ParameterError, "at least one"),
        ((X, X, ["x", "x"]), ParameterError, "different columns"),
        ((X, X.iloc[:0]), ParameterError, "synthetic has no row"),
        (([], [1.0]), ParameterError, "real has no row"),
        (([math.inf], [1.0]), ParameterError, "real has infinite values"),
        ((X, X, "x", {"x": (0, math.inf)}), ParameterError, "finite and lower < upper"),
        ((X, X, "x", {"x": (1, 1)}), ParameterError, "lower < upper"),
        ((X, X, "x", {"x": 3}), ParameterError, "lower < upper"),
        ((X, X, "x", {"x": ("a", "b")}), ParameterError, "lower < upper"),
        ((X, X, "x", {"y": (0, 1)}), ColumnError, "not among the columns"),
        ((X, X, "x", [0, 1]), ParameterTypeError, "bounds must map"),
        ((3, X), ParameterTypeError, "real must be a frame"),
        ((X, np.zeros((2, 2, 2))), ParameterTypeError, "synthetic must be a frame"),
        ((np.ones((3, 2)), np.ones((3, 2))), ParameterError, "one value only"),
        ((pd.concat([X, X], axis=1), X), ColumnError, "two columns of the same name"),
    ],
)
def test_errors_quote_no_data(
    arguments: tuple[object, ...], kind: type[Exception], words: str
) -> None:
    names = ("real", "synthetic", "columns", "bounds")
    with pytest.raises(kind, match=words) as raised:
        wasserstein(**dict(zip(names, arguments, strict=False)))  # type: ignore[arg-type]
    assert "private" not in str(raised.value)


@pytest.mark.parametrize("projections", [0, -1, 1.5, True, 10**6])
def test_projections_are_checked(projections: object) -> None:
    with pytest.raises((ParameterError, ParameterTypeError), match="projections"):
        wasserstein(X, X, projections=projections)  # type: ignore[arg-type]
