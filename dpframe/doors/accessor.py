"""``df.dp``: the functions of dpframe on a frame of pandas or Polars, and pages of a result.

**Polars**: the same methods as for pandas frames, with answers in Polars.

A Polars frame cannot carry a receipt. Therefore the pandas result from which it was made is kept
as long as the Polars frame lives, and answers the calls on it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import weakref
from collections.abc import Callable, Collection
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast

import pandas as pd

from dpframe.asking.question import WAREHOUSE_ARGUMENTS
from dpframe.common.calls import known_arguments, shorten_errors
from dpframe.common.digest import CHANGE, RECEIPT
from dpframe.common.texts import folded_html
from dpframe.doors.result_methods import ResultMethods
from dpframe.errors import ParameterError
from dpframe.questions import question_list as asks

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from dpframe.asking.question import Explains, ExplainsFrame

P = ParamSpec("P")
T = TypeVar("T")

PARAMETERS, EXAMPLES = (f"{title}\n{'-' * len(title)}\n" for title in ("Parameters", "Examples"))


def frame_method(
    asked: Callable[Concatenate[Any, P], T], example: str
) -> Callable[Concatenate[DpAccessor, P], T]:
    """Return a method of a frame that calls a question's function with the frame as its source.

    The method takes no counts of a warehouse. Therefore what the question is about, such as the
    hierarchy, has no default.
    """
    _, about, *rest = inspect.signature(asked).parameters.values()
    taken = [
        about.replace(default=about.empty),
        *(p for p in rest if p.name not in WAREHOUSE_ARGUMENTS),
    ]
    function = inspect.unwrap(asked)  # the method checks its call itself
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def method(self: DpAccessor, /, *args: P.args, **arguments: P.kwargs) -> T:
        return function(self._frame, *args, **arguments)  # type: ignore[no-any-return]

    method.__name__ = asked.__name__
    method.__qualname__ = f"DpAccessor.{asked.__name__}"
    end = f"{EXAMPLES}{inspect.cleandoc(example)}"
    method.__doc__ = method_doc(asked.__doc__ or "", [p.name for p in taken], end)
    method.__signature__ = inspect.signature(asked).replace(  # type: ignore[attr-defined]
        parameters=[own, *taken]
    )
    return method


def method_doc(doc: str, taken: Collection[str], end: str) -> str:
    """The docstring of a function, for a method that takes only the arguments ``taken``. ``end`` is
    in the place of its examples."""
    before, _, _ = inspect.cleandoc(doc).partition(EXAMPLES)
    head, title, body = before.partition(PARAMETERS)
    entries, gap, rest = body.partition("\n\n")
    return f"{head}{title}{_entries(entries, taken)}{gap}{rest}{end}\n"


def _entries(section: str, taken: Collection[str]) -> str:
    """A section of arguments, with the entries of the arguments ``taken`` only."""
    lines: list[str] = []
    names: list[str] = []
    for line in section.splitlines():
        if not line.startswith(" "):  # the names of an entry; its text is indented
            names = [name for name in line.split(", ") if name in taken]
            line = ", ".join(names)
        if names:
            lines.append(line)
    return "\n".join(lines)


def explain_method(asked: Explains[P], example: str) -> ExplainsFrame[P]:
    """Do as ``frame_method``, for a function that explains.

    The returned type has the argument ``error=``, which no ParamSpec can add.
    """
    return cast("ExplainsFrame[P]", frame_method(asked, example))


def hint_of_name(name: str, known: Collection[str]) -> str:
    """Return what to write for a name that is not there; nothing if no name is near."""
    if name not in known and hasattr(DpAccessor, name):
        return f" It is a method of a result: result.dp.{name}."
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    return f" Did you mean {near[0]!r}?" if near else ""


@known_arguments
class DpAccessor(ResultMethods):
    """Private rollups of a pandas frame. Accessors have no state: each ``.dp`` makes one."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        return f"<dpframe accessor: {', '.join(self._names())}>"

    @staticmethod
    def _names() -> list[str]:
        members = (*vars(DpAccessor), *vars(ResultMethods))
        return [name for name in members if not name.startswith("_")]

    if not TYPE_CHECKING:  # a type checker would take any name for one that exists

        def __getattr__(self, name: str) -> Any:
            known = self._names()
            hint = "" if name.startswith("_") else hint_of_name(name, known)
            hint = hint or f" It has: {', '.join(known)}."
            raise AttributeError(f"the accessor dp has no {name!r}.{hint}")

    @staticmethod
    def _released_html(frame: pd.DataFrame) -> str | None:
        """Return a result that is as it was released as a table for notebooks, else None."""
        if not {RECEIPT, CHANGE} & frame.attrs.keys():
            return None
        from dpframe.pages.tables import released_html

        return released_html(frame)

    def _repr_html_(self) -> str:
        if not isinstance(self._frame.attrs.get(RECEIPT), dict):
            return folded_html("dpframe", [repr(self)[1:-1]], "", ())
        return self.receipt._repr_html_()

    hhh = frame_method(
        asks.hhh,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> result.dp.receipt["epsilon"]
        1.0
        """,
    )
    rollup = frame_method(
        asks.rollup,
        """
        >>> import pandas as pd, dpframe as dp
        >>> sales = pd.DataFrame({"country": ["FR"] * 600 + ["DE"] * 400, "amount": 10.0})
        >>> measures = {"orders": "count", "revenue": dp.sum("amount", lower=0, upper=500)}
        >>> result = sales.dp.rollup(["country"], measures, epsilon=1.0, delta=1e-6)
        >>> result["prefix"].tolist()
        ['*', 'DE', 'FR']
        """,
    )
    tree_counts = frame_method(
        asks.tree_counts,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> trips.dp.tree_counts(["origin"], epsilon=1.0, keys=["JFK"])["prefix"].tolist()
        ['*', 'JFK', '<other>']
        """,
    )
    heavy_hitters = frame_method(
        asks.heavy_hitters,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300 + ["LGA"] * 200})
        >>> trips.dp.heavy_hitters("origin", k=1, epsilon=1.0, delta=1e-6)["origin"].tolist()
        ['JFK']
        """,
    )
    synthesize = frame_method(
        asks.synthesize,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"distance": [200, 1000, 2500] * 300})
        >>> len(trips.dp.synthesize({"distance": (0, 5000)}, epsilon=1.0).sample(10))
        10
        """,
    )
    prefix_tree = frame_method(
        asks.prefix_tree,
        """
        >>> import pandas as pd, dpframe
        >>> typed = pd.DataFrame({"who": range(3000), "word": ["selfie"] * 3000})
        >>> typed.dp.prefix_tree("word", user="who", epsilon=4.0, delta=1e-6)["word"][0]
        'selfie'
        """,
    )
    explain = explain_method(
        asks.explain,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> trips.dp.explain(["origin", "dest"], epsilon=1.0, delta=1e-6).plan.height
        2
        """,
    )
    explain_rollup = explain_method(
        asks.explain_rollup,
        """
        >>> import pandas as pd, dpframe as dp
        >>> sales = pd.DataFrame({"country": ["FR"] * 600 + ["DE"] * 400, "amount": 10.0})
        >>> measures = ["count", "sum(amount, 0, 500)"]
        >>> sales.dp.explain_rollup(["country"], measures, epsilon=1.0, delta=1e-6).plan.height
        1
        """,
    )
    explain_tree_counts = explain_method(
        asks.explain_tree_counts,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300})
        >>> trips.dp.explain_tree_counts(["origin"], epsilon=1.0, keys=["JFK"]).plan.budget.delta
        0.0
        """,
    )
    explain_heavy_hitters = explain_method(
        asks.explain_heavy_hitters,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300})
        >>> trips.dp.explain_heavy_hitters("origin", epsilon=1.0, delta=1e-6).plan.height
        1
        """,
    )
    explain_synthesize = explain_method(
        asks.explain_synthesize,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"distance": [200, 1000, 2500]})
        >>> trips.dp.explain_synthesize({"distance": (0, 5000)}, epsilon=1.0).plan.shape.depth
        20
        """,
    )
    explain_prefix_tree = explain_method(
        asks.explain_prefix_tree,
        """
        >>> import pandas as pd, dpframe
        >>> typed = pd.DataFrame({"who": range(3000), "word": ["selfie"] * 3000})
        >>> typed.dp.explain_prefix_tree(
        ...     "word", user="who", devices=3000, epsilon=4.0, delta=1e-6).plan.asked.reports
        4
        """,
    )

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        kind: Literal["bar", "line", "icicle", "heatmap"] | None = None,
        measure: str | None = None,
    ) -> None:
        """Write a result as one HTML page that works offline, for readers who know only the page.

        The page has the answer in two sentences, the largest nodes with intervals and shares, a
        drawing, the table, what the numbers mean, and the privacy card; of ``dp.change``, the
        clearest changes first. For a frame that dpframe returned. Rows may have been sorted or
        filtered; the page says so. A frame whose numbers were changed is refused. Free: everything
        on the page is released already.

        Parameters
        ----------
        path
            The file, .html or .htm; an existing file is replaced. ``save`` writes other files.
        title
            Heading; by default what was counted and the columns.
        kind
            The drawing, as for ``plot``; by default one that fits the result.
        measure
            The measure of a rollup that the answer is about; by default the first.

        Examples
        --------
        >>> import pathlib, tempfile, pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> page = pathlib.Path(tempfile.mkdtemp(), "trips.html")
        >>> result.dp.report(page)
        """
        if self._is_change(kind, measure):
            from dpframe.pages.series_page import write_change_page

            write_change_page(self._frame, path, title=title)
            return
        from dpframe.pages.report import write_report

        write_report(
            self._frame, self._receipt_of_nodes, path, title=title, kind=kind, measure=measure
        )

    def plot(
        self,
        *,
        kind: Literal["bar", "line", "icicle", "treemap", "heatmap"] | None = None,
        measure: str | None = None,
    ) -> Any:
        """Draw a result as a plotly figure; needs ``pip install 'dpframe[plots]'``.

        For a frame that dpframe returned, or some of its rows; free.

        Parameters
        ----------
        kind
            By default one that fits: "bar" with intervals for lists, "line" with a band for dates,
            "heatmap" for two columns of which most combinations are reported, "icicle" for other
            trees. "treemap" is possible too. A kind that cannot show the result is refused, and the
            error names the kinds that can. Changes of ``dp.change`` are bars, the clearest first.
        measure
            The measure of a rollup that is drawn. By default bars and lines show all measures
            beside each other, and other drawings the first that they can show.

        Returns
        -------
        plotly.graph_objects.Figure
            ``write_html`` writes it; ``write_image("x.png")``, .svg or .pdf need
            ``pip install 'kaleido>=1'`` and Chrome.
        """
        from dpframe.pages.plot import change_plot, plot

        if self._is_change(kind, measure):
            return change_plot(self._frame)
        return plot(self._frame, self._receipt_of_nodes, kind=kind, measure=measure)

    def _is_change(self, kind: object, measure: object) -> bool:
        """Return whether the frame is of ``dp.change``; ParameterError for what it does not
        take."""
        if CHANGE not in self._frame.attrs:
            return False
        for name, value in (("kind", kind), ("measure", measure)):
            if value is not None:
                raise ParameterError(
                    f"{name} ({value!r}) does not fit a change, which has one drawing. Leave it "
                    "out."
                )
        return True


AS_FRAMES = (
    "dpframe.asking.node_frame",
    "dpframe.postprocess.level_values",
    "dpframe.questions.rollup.frame",
    "dpframe.questions.tree_counts.plan",
)
"""Modules that questions with their default mechanisms need for a first answer. They are loaded
here, together with pandas, so that a first answer is as fast as a second one."""

for _name in AS_FRAMES:
    importlib.import_module(_name)


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
    import polars as pl

    return pl.from_pandas(result)
