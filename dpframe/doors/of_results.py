"""``result.dp``: what a frame that dpframe returned is asked afterwards, and its receipt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from dpframe._forking import no_fork
from dpframe._known_arguments import known_arguments
from dpframe.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from dpframe.asking.receipt import Receipt
    from dpframe.asking.release import Release
    from dpframe.ledger import Ledger


@known_arguments
class OfResults:
    """Questions about a release, answered from its numbers: free."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def share(
        self, of: Literal["parent", "total"] = "parent", measure: str | None = None
    ) -> pd.DataFrame:
        """What part of the node above, or of everything, each node of a result is.

        For a frame that dpframe returned, or some of its rows. Free: made of released numbers.

        Parameters
        ----------
        of
            "parent" (default): the nearest row above in the frame; "total": the row of level 0.
        measure
            Of a rollup, which count or sum; by default the first one.

        Returns
        -------
        pandas.DataFrame
            One row a row, with its index: level, prefix, label columns, the measure, ``of`` (the
            prefix of the row above, missing where there is none), ``share``, ``share_lower`` and
            ``share_upper`` (float64). NaN without a row above. Where that is not clearly above 0
            ``share`` is NaN and its interval everything that a share can be: 0 to 1, of sums that
            can be negative any number. ``attrs["dp_share"]`` says with which ``confidence`` an
            interval holds, and ``how`` it was made: that of the release, where its receipt tells
            the law of the noise ("parts", "widened") or intervals hold together ("together"); else
            ("as shown") 1 - 2 (1 - confidence), as two intervals must hold at once.

        Raises
        ------
        ParameterError
            The frame holds other numbers than were released, or has no such measure or total.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 400 + ["LGA"] * 100})
        >>> result = trips.dp.tree_counts(["origin"], epsilon=9.0, keys=["JFK", "LGA"])
        >>> round(float(result.dp.share()["share"][1]), 1)
        0.8
        """
        with no_fork():
            from dpframe.postprocess.shares import shares

        return shares(self._frame, self.receipt, of=of, measure=measure)

    def top(self, n: int, by: str | None = None, level: int | str | None = None) -> pd.DataFrame:
        """The ``n`` largest rows of a result, largest first; ties stay in their order.

        For a frame that dpframe returned, or some of its rows. Free: made of released numbers.

        Parameters
        ----------
        n
            How many rows, at least 1.
        by
            Of a rollup, the measure; by default the first one. Of cells of several hierarchies
            "residual", or "count" where whole counts were released.
        level
            Number or name of a level, of cells of a kind; by default all but the total.

        Returns
        -------
        pandas.DataFrame
            The rows with all their columns, and ``above_next`` (boolean): whether the interval of
            a row lies above that of the next one, so that their order is certain as far as both
            intervals hold; missing for the last row of all. Who is largest is chosen by its noise
            too: intervals of the rows that were chosen hold with the stated confidence where all
            of them hold together, ``result.dp.intervals(simultaneous=True).dp.top(...)``.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300 + ["LGA"] * 100})
        >>> result = trips.dp.tree_counts(["origin"], epsilon=9.0, keys=["JFK", "LGA"])
        >>> result.dp.top(1)[["prefix", "above_next"]].values.tolist()
        [['JFK', True]]
        """
        with no_fork():
            from dpframe.postprocess.largest import largest

        return largest(self._frame, self.receipt, n, by=by, level=level)

    def below(self, label: object) -> pd.DataFrame:
        """The rows of one node and of everything that is shown below it, in their order.

        Parameters
        ----------
        label
            A prefix, such as "FR / Paris", or where none is, a value of a column of a level,
            "Paris"; of several such nodes the error names the prefixes.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> result.dp.below("JFK")["prefix"].tolist()
        ['JFK / LAX']
        """
        with no_fork():
            from dpframe.postprocess.subtree import subtree

        return subtree(self._frame, self.receipt, label)

    def intervals(
        self,
        confidence: float | None = None,
        simultaneous: bool = False,
        measures: str | Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """A result with ``lower`` and ``upper`` for another confidence, or holding all together.

        For a whole frame that dpframe returned, by ``hhh`` with exact counts or a baseline, by
        ``tree_counts`` with listed keys, or by ``rollup``: of these the law of every number is
        known. Free.

        Parameters
        ----------
        confidence
            0.5 to 0.999999; by default that of the frame.
        simultaneous
            Whether all intervals of the frame hold at once with that confidence (Bonferroni, over
            all rows and measures), and not each on its own. Not for counts that were selected upon.
        measures
            Of a rollup, the names of those that get new intervals; others are left out of the
            result. By default all.

        Returns
        -------
        pandas.DataFrame
            The same rows with other ends, and a receipt that says which. Where counts were made to
            add up, or are shares of users, the numbers that were drawn are not shown: intervals are
            then at least as wide as those that a release of that confidence would have had; so are
            those of means at a bound, or with an interval up to both.

        Raises
        ------
        ParameterError
            The frame is not all of a release, or its receipt does not tell the law of its noise:
            release with another ``confidence=`` then.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> wide = result.dp.intervals(0.999)
        >>> bool((wide["upper"] > result["upper"]).all()), wide.dp.receipt["confidence"]
        (True, 0.999)
        """
        with no_fork():
            from dpframe.postprocess.other_confidence import other_confidence

        return other_confidence(
            self._frame, self.receipt, confidence, simultaneous=simultaneous, measures=measures
        )

    def change(
        self,
        before: pd.DataFrame | Release | str,
        *,
        measure: str | None = None,
        confidence: float | None = None,
        simultaneous: bool = True,
        ledger: Ledger | str | Path | None = None,
    ) -> pd.DataFrame:
        """What changed since an earlier release: ``dp.change(before, result)``.

        For a whole frame that dpframe returned. Free: made of released numbers.

        Parameters
        ----------
        before
            The earlier release: a frame, or the name of a result in the ledger.
        measure, confidence, simultaneous, ledger
            As for :func:`dpframe.change`.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> budget = {"epsilon": 4.0, "keys": ["JFK"]}
        >>> first = pd.DataFrame({"origin": ["JFK"] * 400}).dp.tree_counts(["origin"], **budget)
        >>> second = pd.DataFrame({"origin": ["JFK"] * 200}).dp.tree_counts(["origin"], **budget)
        >>> found = second.dp.change(first)
        >>> bool((found["change_upper"][:2] < 0).all())
        True
        """
        with no_fork():
            from dpframe.doors.changes import change

        return change(
            before,
            self._frame,
            measure=measure,
            confidence=confidence,
            simultaneous=simultaneous,
            ledger=ledger,
        )

    def to_arrow(self) -> pa.Table:
        """A result as an Arrow table that carries its receipt on.

        Its metadata has the receipt where pandas looks for it: a Parquet file of the table, read by
        ``pandas.read_parquet``, has ``.dp.receipt``.

        Returns
        -------
        pyarrow.Table
            The columns and rows of the frame, without its index.

        Raises
        ------
        ParameterError
            The frame carries no receipt.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 400})
        >>> trips.dp.hhh("origin", epsilon=1.0, delta=1e-6).dp.to_arrow().column_names[:2]
        ['level', 'prefix']
        """
        import pyarrow as pa

        _ = self.receipt  # there is one
        table = pa.Table.from_pandas(self._frame, preserve_index=False)
        attrs = json.dumps(self._frame.attrs).encode()
        said = {**(table.schema.metadata or {}), b"PANDAS_ATTRS": attrs}
        return table.replace_schema_metadata(said)

    @property
    def receipt(self) -> Receipt:
        """The receipt of a result of dpframe; prints as a privacy card.

        Of a frame that is not as it was released, also under ``frame`` what it is.
        """
        with no_fork():
            from dpframe.asking.receipt import Receipt
            from dpframe.digest import RECEIPT, standing

        facts = self._frame.attrs.get(RECEIPT)
        if not isinstance(facts, dict):
            raise ParameterError(
                "this frame carries no receipt: it is no result of dpframe, or an operation "
                "dropped its attrs. Keep result.dp.receipt of the frame that dpframe returned."
            )
        return Receipt(facts).of_frame(standing(self._frame))
