"""``result.dp`` and ``dp.change``: free computations on released frames."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from dpframe.common.calls import known_arguments
from dpframe.common.files import PAGES, check_target, replace_file
from dpframe.errors import ParameterError

if TYPE_CHECKING:
    from datetime import date, timedelta
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from dpframe.asking.privacy_receipt import Receipt
    from dpframe.asking.release import Release
    from dpframe.ledger import Ledger


@known_arguments
class ResultMethods:
    """Methods that compute only from the released numbers of a result; free."""

    _frame: pd.DataFrame

    def share(
        self, of: Literal["parent", "total"] = "parent", measure: str | None = None
    ) -> pd.DataFrame:
        """Compute the share of each node of a result in the node above it, or in everything.

        For a frame that dpframe returned, or some of its rows. Free: made of released numbers.

        Parameters
        ----------
        of
            "parent" (default): the nearest row above in the frame; "total": the row of level 0.
        measure
            The count or sum of a rollup; by default the first.

        Returns
        -------
        pandas.DataFrame
            A row for each row of the result, with its index: level, prefix, label columns, the
            measure, ``of`` (the prefix of the row above, missing where there is none), ``share``,
            ``share_lower`` and ``share_upper`` (float64; NaN without a row above). Where the row
            above is not clearly above 0, ``share`` is NaN and its interval holds every possible
            share: 0 to 1, or any number for sums that can be negative. ``attrs["dp_share"]`` says
            with which ``confidence`` an interval holds, and ``how`` it was made. The confidence is
            that of the release if its receipt tells the law of the noise ("parts", "widened") or
            its intervals hold together ("together"); otherwise ("as shown") it is
            1 - 2 (1 - confidence), because two intervals must hold at once.

        Raises
        ------
        ParameterError
            The numbers of the frame were changed, or it has no such measure or total.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 400 + ["LGA"] * 100})
        >>> result = trips.dp.tree_counts(["origin"], epsilon=9.0, keys=["JFK", "LGA"])
        >>> round(float(result.dp.share()["share"][1]), 1)
        0.8
        """
        from dpframe.postprocess.shown_rows import share_frame

        return share_frame(self._frame, self._receipt_of_nodes, of=of, measure=measure)

    def quantile(
        self, at: float, measure: str | None = None, confidence: float | None = None
    ) -> pd.DataFrame:
        """Return a quantile of every node, of a measure that counted values in bins.

        For a rollup with a median, quantiles or a histogram: any quantile follows from the numbers
        in bins. For a whole frame, or rows of its lowest level. Free: made of released numbers.

        Parameters
        ----------
        at
            Which part of the values, above 0 and below 1: 0.95 for the value that 5 % exceed.
        measure
            The measure in bins; by default the first.
        confidence
            0.5 to 0.999999; by default the confidence of the frame.

        Returns
        -------
        pandas.DataFrame
            A row for each row of the result: the columns of its node; ``value``, ``lower`` and
            ``upper``, in the type of the released quantiles (of a histogram: float64, or times and
            durations); ``at_bound``, whether the interval reaches beyond a bound. ``value`` is
            missing where the interval holds everything between the bounds. Each interval holds on
            its own. A measure that asked for this quantile has the same numbers.

        Raises
        ------
        ParameterError
            The frame has no such measure, or lacks rows that are needed; ParameterTypeError for
            ``at`` that is no number.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> sales = pd.DataFrame({"shop": ["a"] * 900, "paid": [float(i % 90) for i in range(900)]})
        >>> result = sales.dp.rollup(["shop"], "median(paid, 1, 100)", epsilon=9.0, delta=1e-6)
        >>> bool(result.dp.quantile(0.9)["lower"][0] <= 80 <= result.dp.quantile(0.9)["upper"][0])
        True
        """
        from dpframe.postprocess.shown_rows import quantile_frame

        return quantile_frame(
            self._frame, self._receipt_of_nodes, at, measure=measure, confidence=confidence
        )

    def above(
        self,
        value: float | str | date | timedelta,
        measure: str | None = None,
        confidence: float | None = None,
    ) -> pd.DataFrame:
        """Return which part of the values of every node is above a value.

        For a frame as for :meth:`quantile`. Free: made of released numbers.

        Parameters
        ----------
        value
            A number, a date or time, or a duration, as the values are. Bins tell it at an edge: a
            value between two edges is answered at the nearer one, in ``bins="whole"`` exactly.
        measure, confidence
            As for :meth:`quantile`.

        Returns
        -------
        pandas.DataFrame
            A row for each row of the result: the columns of its node; ``edge``, the edge that was
            used, which counts as above (but for the upper bound); ``share``, ``share_lower`` and
            ``share_upper`` (float64; NaN, from 0 to 1, where nothing is known).

        Raises
        ------
        ParameterError
            As for :meth:`quantile`; ParameterTypeError for a ``value`` of another kind.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> sales = pd.DataFrame({"shop": ["a"] * 900, "paid": [float(i % 90) for i in range(900)]})
        >>> result = sales.dp.rollup(["shop"], "median(paid, 1, 100)", epsilon=9.0, delta=1e-6)
        >>> result.dp.above(15)[["edge", "share"]].round(1).values.tolist()[0]
        [15.4, 0.8]
        """
        from dpframe.postprocess.shown_rows import above_frame

        return above_frame(
            self._frame, self._receipt_of_nodes, value, measure=measure, confidence=confidence
        )

    def histogram(
        self, measure: str | None = None, confidence: float | None = None
    ) -> pd.DataFrame:
        """Return the number of values in every bin, of every node, as a long frame.

        For a frame as for :meth:`quantile`. Free: made of released numbers.

        Parameters
        ----------
        measure, confidence
            As for :meth:`quantile`.

        Returns
        -------
        pandas.DataFrame
            A row for each bin of each row of the result that has numbers of its own, in their
            order: the columns of its node; ``bin_lower`` and ``bin_upper``, its edges, as numbers,
            times or durations, missing for what is beyond a bound; ``number``, ``number_lower`` and
            ``number_upper`` (int64), which can be below 0. A bin holds its lower edge, and not its
            upper one; the last holds the upper bound, too. Each interval holds on its own.

        Raises
        ------
        ParameterError
            As for :meth:`quantile`.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> sales = pd.DataFrame({"shop": ["a"] * 900, "paid": [float(i % 90) for i in range(900)]})
        >>> measure = dpframe.histogram("paid", lower=0, upper=90, bins=[30])
        >>> result = sales.dp.rollup(["shop"], measure, epsilon=9.0, delta=1e-6)
        >>> result.dp.histogram()["bin_lower"].tolist()[1:4]
        [0.0, 30.0, 90.0]
        """
        from dpframe.postprocess.shown_rows import histogram_frame

        return histogram_frame(
            self._frame, self._receipt_of_nodes, measure=measure, confidence=confidence
        )

    def save(self, path: str | Path, *, unescaped: bool = False) -> None:
        """Write a result to a file, in the format that the name of the file ends in.

        For a frame that dpframe returned, or some of its rows. Free: made of released numbers.

        Parameters
        ----------
        path
            .csv, .parquet, .xlsx (two sheets, rows and privacy card; needs ``dpframe[xlsx]``),
            .json (receipt and rows), .md, .txt, .arrow or .feather, or .html for the page of
            ``report``. An existing file is replaced, as a whole or not at all. Parquet and Arrow
            files hold the receipt. Changes of ``dp.change`` are saved as .csv, .parquet, .json or
            .html.
        unescaped
            True leaves texts in .csv as they are that a spreadsheet would run as formulas. By
            default they begin with an apostrophe.

        Raises
        ------
        ParameterError
            The path has another ending, or cannot be written, or a library is missing.

        Examples
        --------
        >>> import pathlib, tempfile, pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300})
        >>> result = trips.dp.tree_counts(["origin"], epsilon=9.0, keys=["JFK", "LGA"])
        >>> file = pathlib.Path(tempfile.mkdtemp(), "trips.csv")
        >>> result.dp.save(file)
        >>> pd.read_csv(file)["prefix"].tolist()
        ['*', 'JFK', 'LGA', '<other>']
        """
        from dpframe.common.digest import CHANGE

        if CHANGE in self._frame.attrs:
            save_change(self._frame, path, escaped=not unescaped)
            return
        from dpframe.asking.release import Release
        from dpframe.doors.cli.output import save_result

        save_result(Release(self._frame, self.receipt), path, escaped=not unescaped)

    def top(self, n: int, by: str | None = None, level: int | str | None = None) -> pd.DataFrame:
        """Return the ``n`` largest rows of a result, largest first; ties stay in their order.

        For a frame that dpframe returned, or some of its rows. Free: made of released numbers.

        Parameters
        ----------
        n
            How many rows, at least 1.
        by
            The measure of a rollup; by default the first. For cells of several hierarchies:
            "residual", or "count" where whole counts were released.
        level
            Number or name of a level, or of a kind of cells; by default all rows but the total.

        Returns
        -------
        pandas.DataFrame
            The rows with all their columns, and ``above_next`` (boolean): whether the interval of
            a row lies above the interval of the next row, so that their order is certain if both
            intervals hold; missing for the smallest row. Noise takes part in choosing the
            largest rows. Therefore the intervals of the chosen rows hold with the stated confidence
            only if all intervals hold together:
            ``result.dp.intervals(simultaneous=True).dp.top(...)``.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300 + ["LGA"] * 100})
        >>> result = trips.dp.tree_counts(["origin"], epsilon=9.0, keys=["JFK", "LGA"])
        >>> result.dp.top(1)[["prefix", "above_next"]].values.tolist()
        [['JFK', True]]
        """
        from dpframe.postprocess.shown_nodes import largest_rows

        return largest_rows(self._frame, self._receipt_of_nodes, n, by=by, level=level)

    def below(self, label: object) -> pd.DataFrame:
        """Return the rows of a node and of all nodes shown below it, in the order of the result.

        Parameters
        ----------
        label
            A prefix, such as "FR / Paris". If no prefix matches: a value in a level's column, such
            as "Paris". If several nodes have this value, ParameterError names their prefixes.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> result.dp.below("JFK")["prefix"].tolist()
        ['JFK / LAX']
        """
        from dpframe.postprocess.shown_nodes import subtree

        return subtree(self._frame, self._receipt_of_nodes, label)

    def intervals(
        self,
        confidence: float | None = None,
        simultaneous: bool = False,
        measures: str | Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return a result with intervals for another confidence, or that all hold together.

        For a whole frame that dpframe returned, by ``hhh`` with exact counts or a baseline, by
        ``tree_counts`` with listed keys, or by ``rollup``: there the law of every number is known.
        Free.

        Parameters
        ----------
        confidence
            0.5 to 0.999999; by default the confidence of the frame.
        simultaneous
            Whether all intervals of the frame hold at once with that confidence (Bonferroni, over
            all rows and measures), and not each on its own. Not possible for counts that decided
            about the selection themselves.
        measures
            The measures of a rollup that get new intervals, by name; the result leaves the other
            measures out. By default all.

        Returns
        -------
        pandas.DataFrame
            The same rows with other ends, and a receipt that says which. If the frame does not show
            the drawn number, an interval can be wider than a release with that confidence would
            have had, never narrower: for counts that were made to add up or are shares of users,
            and for means at a bound or whose interval reaches both bounds.

        Raises
        ------
        ParameterError
            The frame is not a whole release, or its receipt does not tell the law of its noise.
            Then pass another ``confidence=`` to the next release.

        Examples
        --------
        >>> import pandas as pd, dpframe
        >>> trips = pd.DataFrame({"origin": ["JFK"] * 300, "dest": ["LAX"] * 300})
        >>> result = trips.dp.hhh(["origin", "dest"], epsilon=1.0, delta=1e-6)
        >>> wide = result.dp.intervals(0.999)
        >>> bool((wide["upper"] > result["upper"]).all()), wide.dp.receipt["confidence"]
        (True, 0.999)
        """
        from dpframe.postprocess.shown_rows import other_confidence

        return other_confidence(
            self._frame,
            self._receipt_of_nodes,
            confidence,
            simultaneous=simultaneous,
            measures=measures,
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
        """Compare with an earlier release: ``dp.change(before, result)``.

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

        return change(
            before,
            self._frame,
            measure=measure,
            confidence=confidence,
            simultaneous=simultaneous,
            ledger=ledger,
        )

    def to_arrow(self) -> pa.Table:
        """Return the result as an Arrow table that carries its receipt on.

        The receipt is in the metadata where pandas looks for it: write the table to a Parquet file,
        and the frame that ``pandas.read_parquet`` returns has ``.dp.receipt``.

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

        _ = self.receipt  # raises if there is none
        table = pa.Table.from_pandas(self._frame, preserve_index=False)
        attrs = json.dumps(self._frame.attrs).encode()
        said = {**(table.schema.metadata or {}), b"PANDAS_ATTRS": attrs}
        return table.replace_schema_metadata(said)

    @property
    def receipt(self) -> Receipt:
        """The receipt of a result of dpframe; prints as a privacy card.

        If the frame is not as it was released, the key ``frame`` says what was changed. Raises
        ParameterError if the frame carries no receipt.
        """
        from dpframe.asking.privacy_receipt import Receipt
        from dpframe.common.digest import CHANGE, RECEIPT, frame_state

        facts = self._frame.attrs.get(RECEIPT)
        if not isinstance(facts, dict):
            if CHANGE in self._frame.attrs:
                raise ParameterError(
                    "a change has no receipt of its own. Ask both results for theirs; its facts "
                    f"are attrs[{CHANGE!r}]."
                )
            raise ParameterError(
                "this frame carries no receipt. Keep result.dp.receipt of the frame that dpframe "
                "returned: some operations drop its attrs. For rows of SQL name the release, and "
                "ask ledger.recall(name)."
            )
        return Receipt(facts).with_frame_state(frame_state(self._frame))

    @property
    def _receipt_of_nodes(self) -> Receipt:
        """The receipt; ParameterError if the rows answer a query, and are no nodes."""
        if "query" in self.receipt:
            raise ParameterError(
                "this is the answer to a query, whose rows are no nodes. Write what you want into "
                "the query, or ask dp.rollup."
            )
        return self.receipt


@known_arguments
def change(
    before: pd.DataFrame | Release | str,
    after: pd.DataFrame | Release | str,
    *,
    measure: str | None = None,
    confidence: float | None = None,
    simultaneous: bool = True,
    ledger: Ledger | str | Path | None = None,
) -> pd.DataFrame:
    """Compare two releases: differences and ratios of nodes, with intervals.

    Compares the numbers over all records under a node (a count, a sum, a quantile), which cover the
    same set of records in both releases. ``residual`` is not compared: it depends on what else is
    reported. Free: made of released numbers.

    Parameters
    ----------
    before, after
        Two releases of one hierarchy, unit and measure: frames that dpframe returned, whole, or
        names of results in the ledger; without ``ledger`` also files of results, .parquet.
    measure
        The measure of rollups that is compared, of several quantiles one, such as "spend_p95"; by
        default the first.
    confidence
        0.5 to 0.999999; by default the confidence of the releases.
    simultaneous
        Whether all intervals of ``change`` hold at once with that confidence (default), and all
        intervals of ``ratio`` likewise; or each interval on its own.
    ledger
        Where names are looked up: a :class:`Ledger` or its path; by default the ledger of
        :class:`use_ledger`.

    Returns
    -------
    pandas.DataFrame
        One row for every node that either release reports: level, prefix, label columns; ``before``
        and ``after`` with ``_lower`` and ``_upper`` as released; ``change`` = after - before,
        ``change_lower``, ``change_upper``; ``ratio`` = after / before, ``ratio_lower``,
        ``ratio_upper``, from 0 to infinity where ``before`` is not clearly above 0, missing for
        measures that can be negative; ``more_than_noise`` (boolean): whether the interval of the
        change leaves 0 out. Where a release does not report a node, its number is missing, and its
        ends are bounds that its threshold and noise prove (missing where they prove none).
        ``attrs["dp_change"]`` has the ``confidence``, ``how`` ends were made, and the releases.

    Raises
    ------
    ParameterError
        The releases count different things, or samples of users that each release drew anew; are
        one release, or a release and its replay; are not whole; are of a later and then an earlier
        period; or their intervals cannot have the confidence asked for. The message says what to
        do.
    ParameterTypeError
        ``before`` or ``after`` is neither a frame nor a name.
    ReleaseNameError, LedgerError
        A name is not in the ledger, or the ledger cannot be used.

    Notes
    -----
    Where the receipts tell the laws of both noises, which are independent, intervals follow from
    their joint law (``how`` is "joint"); for means, quantiles and histograms from new intervals of
    both releases ("widened"); otherwise from the ends in both frames ("as shown"). Changes of times
    are durations, without ratios; a quantile that can lie beyond a bound has a change without an
    end there.
    docs/afterwards.md says when. No interval includes what clipping to bounds takes away, or the
    rounding of shares to 1/256.

    References
    ----------
    Fieller, "Some Problems in Interval Estimation" (1954), for ratios.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> budget = {"epsilon": 4.0, "keys": ["JFK", "LGA"]}
    >>> first = pd.DataFrame({"origin": ["JFK"] * 400 + ["LGA"] * 100}).dp.tree_counts(
    ...     ["origin"], **budget)
    >>> second = pd.DataFrame({"origin": ["JFK"] * 200 + ["LGA"] * 100}).dp.tree_counts(
    ...     ["origin"], **budget)
    >>> found = dp.change(first, second)
    >>> found.loc[found["more_than_noise"], "prefix"].tolist()
    ['*', 'JFK']
    """
    from dpframe.asking.measure_texts import cut_words
    from dpframe.asking.release import released_side
    from dpframe.common.digest import CHANGE
    from dpframe.postprocess.release_changes import change_frame
    from dpframe.questions.hhh.ask import HHH

    sides = [
        released_side(role, given, ledger) for role, given in (("before", before), ("after", after))
    ]
    found = change_frame(
        *sides,
        measure=measure,
        confidence=confidence,
        simultaneous=simultaneous,
        plan_again=HHH.plan,
    )
    facts = found.attrs[CHANGE]
    if cut := cut_words(sides[0][1], facts["measure"] or "count", total=True):
        facts["means"] += f". The intervals hold {cut}"
    return found


CHANGE_FILES = (".parquet", ".csv", ".json", *PAGES)
"""Endings of files of changes."""


def save_change(found: pd.DataFrame, path: str | Path, *, escaped: bool) -> None:
    """Write the result of :func:`change` in the format that the path ends in."""
    from dpframe.common.digest import CHANGE
    from dpframe.doors.cli.output import table_rows, write_csv

    check_target("path", path, CHANGE_FILES)
    ending = os.fspath(path).lower().rpartition(".")[2]
    if ending in ("html", "htm"):
        from dpframe.pages.series_page import write_change_page

        write_change_page(found, path)
        return
    with replace_file(path, "the change") as file:
        if ending == "parquet":
            found.to_parquet(file, index=False)
        elif ending == "csv":
            write_csv(found, file, escaped)
        else:
            whole = {"change": found.attrs[CHANGE], "rows": table_rows(found)}
            text = json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False)
            file.write(text.encode())
