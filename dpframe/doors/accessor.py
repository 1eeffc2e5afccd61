"""``df.dp``: the functions of dpframe on a pandas frame, and pages of a result."""

from __future__ import annotations

import inspect
import re
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast

import pandas as pd

from dpframe._known_arguments import known_arguments
from dpframe.asking.question import OF_WAREHOUSE
from dpframe.doors.of_results import OfResults
from dpframe.questions.hhh import ask as hhh_ask
from dpframe.questions.hhh import heavy_hitters as flat_ask
from dpframe.questions.prefix_tree import ask as prefix_ask
from dpframe.questions.rollup import ask as rollup_ask
from dpframe.questions.synthesize import ask as synthetic_ask
from dpframe.questions.tree_counts import ask as tree_ask

if TYPE_CHECKING:
    from pathlib import Path

    from dpframe.asking.explain import Explains, ExplainsFrame

P = ParamSpec("P")
T = TypeVar("T")

ENTRY = re.compile(r"^(\w+(?:, \w+)*)\n(?: .*\n)+", re.MULTILINE)
"""Arguments in a docstring, and what is said of them."""


def of_frame(
    asked: Callable[Concatenate[Any, P], T], example: str
) -> Callable[Concatenate[DpAccessor, P], T]:
    """A function as a method that asks the frame: the same call without a source, and what it is
    about must be said, since nobody else has counted it."""
    source, about, *rest = inspect.signature(asked).parameters.values()
    unknown = (source.name, *OF_WAREHOUSE)
    reached = weakref.ref(asked)  # what pandas holds would outlive the interpreter

    def method(self: DpAccessor, /, *args: P.args, **arguments: P.kwargs) -> T:
        function = reached()
        assert function is not None
        return function(self._frame, *args, **arguments)

    def kept(entry: re.Match[str]) -> str:
        names = entry[1].split(", ")
        left = [name for name in names if name not in unknown]
        return entry[0].replace(entry[1], ", ".join(left), 1) if left else ""

    head, _, _ = inspect.cleandoc(asked.__doc__ or "").partition("Examples\n--------\n")
    method.__doc__ = f"{ENTRY.sub(kept, head)}Examples\n--------\n{inspect.cleandoc(example)}\n"
    method.__name__ = asked.__name__
    method.__qualname__ = f"DpAccessor.{asked.__name__}"
    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            about.replace(default=inspect.Parameter.empty),
            *(p for p in rest if p.name not in unknown),
        ],
        return_annotation=inspect.signature(asked).return_annotation,
    )
    return method


def explaining_frame(asked: Explains[P], example: str) -> ExplainsFrame[P]:
    """As ``of_frame``, of a function that explains."""
    return cast("ExplainsFrame[P]", of_frame(asked, example))


@pd.api.extensions.register_dataframe_accessor("dp")
@known_arguments
class DpAccessor(OfResults):
    """Private rollups of this frame. Stateless: pandas makes it anew on every access."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__(frame)

    def __repr__(self) -> str:
        members = (*vars(DpAccessor), *vars(OfResults))
        names = [name for name in members if not name.startswith("_")]
        return f"<dpframe accessor: {', '.join(names)}>"

    hhh = of_frame(
        hhh_ask.hhh,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> result.dp.receipt["epsilon"]
        1.0
        """,
    )
    rollup = of_frame(
        rollup_ask.rollup,
        """
        >>> import pandas as pd, dpframe as dp
        >>> sales = pd.DataFrame({"country": ["FR"] * 600 + ["DE"] * 400, "amount": 10.0})
        >>> measures = {"orders": "count", "revenue": dp.sum("amount", lower=0, upper=500)}
        >>> result = sales.dp.rollup(["country"], measures, epsilon=1.0, delta=1e-6)
        >>> result["prefix"].tolist()
        ['*', 'DE', 'FR']
        """,
    )
    tree_counts = of_frame(
        tree_ask.tree_counts,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> trips.dp.tree_counts(["origin"], epsilon=1.0, keys=["JFK"])["prefix"].tolist()
        ['*', 'JFK', '<other>']
        """,
    )
    heavy_hitters = of_frame(
        flat_ask.heavy_hitters,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300 + ["LGA"] * 200})
        >>> trips.dp.heavy_hitters("origin", k=1, epsilon=1.0, delta=1e-6)["origin"].tolist()
        ['JFK']
        """,
    )
    synthesize = of_frame(
        synthetic_ask.synthesize,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"distance": [200, 1000, 2500] * 300})
        >>> len(trips.dp.synthesize({"distance": (0, 5000)}, epsilon=1.0).sample(10))
        10
        """,
    )
    prefix_tree = of_frame(
        prefix_ask.prefix_tree,
        """
        >>> import pandas as pd, dpframe
        >>> typed = pd.DataFrame({"who": range(3000), "word": ["selfie"] * 3000})
        >>> typed.dp.prefix_tree("word", user="who", epsilon=4.0, delta=1e-6)["word"][0]
        'selfie'
        """,
    )
    explain = explaining_frame(
        hhh_ask.explain,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> trips.dp.explain(["origin", "dest"], epsilon=1.0, delta=1e-6).plan.height
        2
        """,
    )
    explain_rollup = explaining_frame(
        rollup_ask.explain_rollup,
        """
        >>> import pandas as pd, dpframe as dp
        >>> sales = pd.DataFrame({"country": ["FR"] * 600 + ["DE"] * 400, "amount": 10.0})
        >>> measures = ["count", "sum(amount, 0, 500)"]
        >>> sales.dp.explain_rollup(["country"], measures, epsilon=1.0, delta=1e-6).plan.height
        1
        """,
    )
    explain_tree_counts = explaining_frame(
        tree_ask.explain_tree_counts,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300})
        >>> trips.dp.explain_tree_counts(["origin"], epsilon=1.0, keys=["JFK"]).plan.budget.delta
        0.0
        """,
    )
    explain_heavy_hitters = explaining_frame(
        flat_ask.explain_heavy_hitters,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300})
        >>> trips.dp.explain_heavy_hitters("origin", epsilon=1.0, delta=1e-6).plan.height
        1
        """,
    )
    explain_synthesize = explaining_frame(
        synthetic_ask.explain_synthesize,
        """
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"distance": [200, 1000, 2500]})
        >>> trips.dp.explain_synthesize({"distance": (0, 5000)}, epsilon=1.0).plan.shape.depth
        20
        """,
    )
    explain_prefix_tree = explaining_frame(
        prefix_ask.explain_prefix_tree,
        """
        >>> import pandas as pd, dpframe
        >>> typed = pd.DataFrame({"who": range(3000), "word": ["selfie"] * 3000})
        >>> typed.dp.explain_prefix_tree(
        ...     "word", user="who", devices=3000, epsilon=4.0, delta=1e-6).plan.asked.reports
        4
        """,
    )

    def report(self, path: str | Path, *, title: str | None = None) -> None:
        """Write a result as one HTML page that works offline: hierarchy, table, privacy card.

        For a frame that dpframe returned. Rows may have been filtered, which the page says, or
        sorted; of other numbers than the released ones no page is made. Free: everything on the
        page is released already.

        Examples
        --------
        >>> import pathlib, tempfile, pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> page = pathlib.Path(tempfile.mkdtemp(), "trips.html")
        >>> result.dp.report(page)
        """
        from dpframe.pages.report import write_report

        write_report(self._frame, self.receipt, path, title=title)

    def plot(
        self, *, kind: Literal["icicle", "treemap"] = "icicle", measure: str | None = None
    ) -> Any:
        """A result as a plotly figure; needs ``pip install 'dpframe[plots]'``. Of a rollup
        ``measure`` has the area, by default the first one that areas can show."""
        from dpframe.pages.plot import plot

        return plot(self._frame, self.receipt, kind=kind, measure=measure)
