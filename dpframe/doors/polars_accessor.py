"""``.dp`` of Polars frames: the same methods as for pandas frames, with answers in Polars.

A Polars frame cannot carry a receipt. Therefore the pandas result from which it was made is kept
as long as the Polars frame lives, and answers the calls on it.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import pandas as pd
import polars as pl

from dpframe.common.calls import shorten_errors
from dpframe.common.texts import folded_html
from dpframe.doors.accessor import DpAccessor, hint_of_name
from dpframe.doors.result_methods import ResultMethods
from dpframe.errors import ParameterError

if TYPE_CHECKING:
    pass

P = ParamSpec("P")


_released: dict[int, tuple[weakref.ref[pl.DataFrame], pd.DataFrame]] = {}
"""Results as pandas frames, by the ``id()`` of the Polars frame made from each."""


OF_FRAMES = tuple(name for name in vars(DpAccessor) if not name.startswith("_"))


OF_RELEASES = (
    *(name for name in vars(ResultMethods) if not name.startswith("_")),
    *("report", "plot"),
)


class PolarsAccessor:
    """Private rollups of a Polars frame, eager or lazy; the answers are Polars frames.

    Has all methods of ``df.dp`` of pandas, with the same arguments, and ``to_pandas()``.
    """

    def __init__(self, frame: pl.DataFrame | pl.LazyFrame) -> None:
        self._frame = frame

    def to_pandas(self) -> pd.DataFrame:
        """Return the result as a pandas frame, which keeps its receipt when filtered or sorted.

        Raises ParameterError for a frame that dpframe did not return, or that was changed.
        """
        ref, kept = _released.get(id(self._frame), (None, None))
        if ref is None or kept is None or ref() is not self._frame:
            raise ParameterError(
                "this Polars frame is none that dpframe returned. Ask the result before it is "
                "filtered or sorted, or result.dp.to_pandas(), which keeps its receipt."
            )
        if not _as_polars(kept).equals(self._frame):
            raise ParameterError(
                "this Polars frame was changed after the release. Ask the frame that dpframe "
                "returned."
            )
        return kept

    def __getattr__(self, name: str) -> Any:
        if name in OF_RELEASES:
            found = getattr(DpAccessor(self.to_pandas()), name)
        elif name in OF_FRAMES:
            found = getattr(DpAccessor(self._frame), name)  # type: ignore[arg-type]
        else:
            hint = hint_of_name(name, dir(self)) or f" It has: {', '.join(dir(self))}."
            raise AttributeError(f"the accessor dp has no {name!r}.{hint}")
        return _answer_in_polars(found) if callable(found) and inspect.isroutine(found) else found

    def __dir__(self) -> list[str]:
        return sorted({*OF_FRAMES, *OF_RELEASES, "to_pandas"})

    @staticmethod
    def _released_html(frame: pl.DataFrame) -> str | None:
        """Return a result that is as it was released as a table for notebooks, else None."""
        try:
            return DpAccessor._released_html(PolarsAccessor(frame).to_pandas())
        except ParameterError:
            return None

    def _repr_html_(self) -> str:
        try:
            return DpAccessor(self.to_pandas())._repr_html_()
        except ParameterError as error:
            return folded_html("dpframe", [repr(self)[1:-1], str(error)], "", ())

    def __repr__(self) -> str:
        return f"<dpframe accessor: {', '.join(dir(self))}>"


def _answer_in_polars(method: Callable[P, Any]) -> Callable[P, Any]:
    """Wrap a method so that it returns Polars frames in place of pandas frames."""

    @wraps(method)
    @shorten_errors
    def call(*args: P.args, **arguments: P.kwargs) -> Any:
        answer = method(*map(released_frame, args), **arguments)
        return polars_result(answer) if isinstance(answer, pd.DataFrame) else answer

    return call


def polars_result(answer: pd.DataFrame) -> pl.DataFrame:
    """Return a result as a Polars frame, whose accessor finds the pandas frame and its receipt."""
    made = _as_polars(answer)
    place = id(made)
    _released[place] = weakref.ref(made, lambda _: _released.pop(place, None)), answer
    return made


def released_frame(value: Any) -> Any:
    """Return the pandas result behind a Polars argument, such as the other release of
    ``change``."""
    return PolarsAccessor(value).to_pandas() if id(value) in _released else value


def _as_polars(result: pd.DataFrame) -> pl.DataFrame:
    return pl.from_pandas(result)
