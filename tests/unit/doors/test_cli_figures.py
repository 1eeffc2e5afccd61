"""Numbers of a table for people have the figures that their intervals leave."""

from __future__ import annotations

import pandas as pd

from dpframe.pages.tables import readable_numbers


def test_measures_have_two_figures_of_their_narrowest_interval() -> None:
    """Law: rows and columns stay, counts and texts too; a number that is missing is empty."""
    frame = pd.DataFrame({"prefix": ["*", "a"], "count": [10, 5], "alone": [0.123456, 1.0]})
    for name, *ends in (
        ("count", [8, 3], [12, 7]),
        ("revenue", [1000.0, 40.0], [1469.13578, 158.246912]),
        ("price", [2.30, float("nan")], [2.39, float("nan")]),
        ("flat", [0.125, 0.25], [0.125, 0.25]),
    ):
        known = {"count": [10, 5], "revenue": [1234.56789, 99.123456], "flat": [0.125, 0.25]}
        frame[name] = known.get(name, [2.345678, float("nan")])
        frame[f"{name}_lower"], frame[f"{name}_upper"] = ends
    shown = readable_numbers(frame)
    assert shown["revenue"].tolist() == ["1235", "99"]
    assert shown["revenue_upper"].tolist() == ["1469", "158"]
    assert shown["price"].tolist() == ["2.346", ""]
    assert shown["price_lower"].tolist() == ["2.300", ""]
    same = ["prefix", "count", "count_lower", "flat", "flat_upper", "alone"]
    pd.testing.assert_frame_equal(shown[same], frame[same])
    assert frame["revenue"].tolist() == [1234.56789, 99.123456]
