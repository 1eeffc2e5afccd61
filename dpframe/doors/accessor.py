"""``df.dp``: the functions of dpframe on a pandas frame, and the receipt of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from dpframe.asking.known_arguments import known_arguments
from dpframe.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dpframe.asking.explanation import Explanation
    from dpframe.asking.receipt import Receipt
    from dpframe.hierarchy import Hierarchy
    from dpframe.questions.synthesize.generator import Generator


@pd.api.extensions.register_dataframe_accessor("dp")
class DpAccessor:
    """Private rollups of this frame. Stateless: pandas makes it anew on every access."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        names = "hhh, tree_counts, heavy_hitters, prefix_tree, synthesize, explain, receipt, report"
        return f"<dpframe accessor: {names}>"

    def hhh(self, hierarchy: str | Sequence[str] | Hierarchy, **arguments: Any) -> pd.DataFrame:
        """Hierarchical heavy hitters of this frame; arguments as in :func:`dpframe.hhh`.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> result.dp.receipt["epsilon"]
        1.0
        """
        from dpframe.questions.hhh.ask import hhh

        return hhh(self._frame, hierarchy, **arguments)

    def heavy_hitters(self, column: str, **arguments: Any) -> pd.DataFrame:
        """Frequent values of one column; arguments as in :func:`dpframe.heavy_hitters`.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300 + ["LGA"] * 200})
        >>> trips.dp.heavy_hitters("origin", k=1, epsilon=1.0, delta=1e-6)["origin"].tolist()
        ['JFK']
        """
        from dpframe.questions.hhh.heavy_hitters import heavy_hitters

        return heavy_hitters(self._frame, column, **arguments)

    def tree_counts(
        self, hierarchy: str | Sequence[str] | Hierarchy, **arguments: Any
    ) -> pd.DataFrame:
        """Counts of all nodes that add up; arguments as in :func:`dpframe.tree_counts`.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> trips.dp.tree_counts(["origin"], epsilon=1.0, keys=["JFK"])["prefix"].tolist()
        ['*', 'JFK', '<other>']
        """
        from dpframe.questions.tree_counts.ask import tree_counts

        return tree_counts(self._frame, hierarchy, **arguments)

    def explain_tree_counts(
        self, hierarchy: str | Sequence[str] | Hierarchy, **arguments: Any
    ) -> Explanation[Any]:
        """What :meth:`tree_counts` with these arguments would do; reads column names and types."""
        from dpframe.questions.tree_counts.ask import explain_tree_counts

        return explain_tree_counts(self._frame, hierarchy, **arguments)

    def synthesize(self, columns: object, **arguments: Any) -> Generator:
        """A private generator of synthetic rows; arguments as in :func:`dpframe.synthesize`.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"distance": [200, 1000, 2500] * 300})
        >>> len(trips.dp.synthesize({"distance": (0, 5000)}, epsilon=1.0).sample(10))
        10
        """
        from dpframe.questions.synthesize.ask import synthesize

        return synthesize(self._frame, columns, **arguments)

    def explain_synthesize(self, columns: object, **arguments: Any) -> Explanation[Any]:
        """What :meth:`synthesize` with these arguments would do; reads column names, no data."""
        from dpframe.questions.synthesize.ask import explain_synthesize

        return explain_synthesize(self._frame, columns, **arguments)

    def prefix_tree(self, column: str, **arguments: Any) -> pd.DataFrame:
        """Frequent items of users' devices; arguments as in :func:`dpframe.prefix_tree`.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> typed = pd.DataFrame({"who": range(3000), "word": ["selfie"] * 3000})
        >>> typed.dp.prefix_tree("word", user="who", epsilon=4.0, delta=1e-6)["word"][0]
        'selfie'
        """
        from dpframe.questions.prefix_tree.ask import prefix_tree

        return prefix_tree(self._frame, column, **arguments)

    def explain_prefix_tree(self, column: str, **arguments: Any) -> Explanation[Any]:
        """What :meth:`prefix_tree` with these arguments would do; ``devices`` is needed."""
        from dpframe.questions.prefix_tree.ask import explain_prefix_tree

        return explain_prefix_tree(self._frame, column, **arguments)

    def explain(
        self, hierarchy: str | Sequence[str] | Hierarchy, **arguments: Any
    ) -> Explanation[Any]:
        """What :meth:`hhh` with these arguments would do; reads column names and types."""
        from dpframe.questions.hhh.ask import explain

        return explain(self._frame, hierarchy, **arguments)

    @known_arguments
    def report(self, path: str | Path, *, title: str | None = None) -> None:
        """Write a result as one HTML page that works offline: hierarchy, table, privacy card.

        For a frame that dpframe returned. Rows may have been filtered, which the page says, or
        sorted; of other numbers than the released ones no page is made. Free: everything on the
        page is released already.
        """
        from dpframe.pages.report import write_report

        write_report(self._frame, self.receipt, path, title=title)

    @known_arguments
    def plot(self, *, kind: Literal["icicle", "treemap"] = "icicle") -> Any:
        """A result as a plotly figure; needs ``pip install 'dpframe[plots]'``."""
        from dpframe.pages.plot import plot

        return plot(self._frame, self.receipt, kind=kind)

    @property
    def receipt(self) -> Receipt:
        """The receipt of a result of dpframe; prints as a privacy card.

        Of a frame that is not as it was released, also under ``frame`` what it is.
        """
        from dpframe.asking.receipt import Receipt
        from dpframe.digest import RECEIPT, standing

        facts = self._frame.attrs.get(RECEIPT)
        if not isinstance(facts, dict):
            raise ParameterError(
                "this frame carries no receipt: it is no result of dpframe, or an operation "
                "dropped its attrs. Keep result.dp.receipt of the frame that dpframe returned."
            )
        return Receipt(facts).of_frame(standing(self._frame))
