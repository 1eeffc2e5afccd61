"""Released nodes, checked for what is asked of a release afterwards, and which is below which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpframe._known_arguments import shown_value
from dpframe.digest import FrameState, frame_state, released_columns
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, as_hierarchies, as_hierarchy, is_one_hierarchy
from dpframe.postprocess.flat import as_nodes
from dpframe.postprocess.lineages import lineages, nearest_ancestors

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureColumns:
    """The columns of one measure: its value, and the ends of its interval."""

    value: str
    lower: str
    upper: str
    kind: str = "count"


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownNodes:
    """Rows of a release whose numbers are the released ones. Public.

    ``frame`` has the columns of the release alone. ``whole`` says whether no row is missing.
    """

    frame: pd.DataFrame
    receipt: Mapping[str, Any]
    hierarchy: Hierarchy
    whole: bool

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """The frame with level and prefix, which the frame of a flat column does not have."""
        return as_nodes(self.frame, self.hierarchy.label_columns)

    @property
    def is_flat(self) -> bool:
        """Whether this is the frame of a flat column, which has no levels."""
        return "level" not in self.frame.columns

    @property
    def is_rollup(self) -> bool:
        """Whether this is a rollup, whose rows have named measures."""
        return str(self.receipt["mechanism"]) == "rollup"

    @cached_property
    def level(self) -> NDArray[np.int64]:
        return self.nodes["level"].to_numpy(dtype=np.int64)

    @cached_property
    def lineages(self) -> list[tuple[Hashable, ...]]:
        """The lineage of every row: the nodes above it and its own node, coarse to fine."""
        return lineages(self.nodes, self.hierarchy)

    @cached_property
    def ancestor(self) -> NDArray[np.int64]:
        """For every row the place of the nearest node above it in the frame, -1 for none: int64,
        shape (n,)."""
        return nearest_ancestors(self.lineages)

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """Whether a row reads like another row: then nobody can say which rows are below it."""
        times = Counter(self.lineages)
        return np.array([times[lineage] > 1 for lineage in self.lineages], dtype=np.bool_)

    @cached_property
    def measures(self) -> dict[str, MeasureColumns]:
        """The columns of measures by name, in the order of the frame. Releases without named
        measures have "count"; releases of cells "residual" and, if it is shown, "count"."""
        named = self.receipt.get("measures")
        if named is None and self.hierarchy.has_cells:
            found = {"residual": MeasureColumns(value="residual", lower="lower", upper="upper")}
            if "count" in self.frame.columns:
                ends = {"lower": "count_lower", "upper": "count_upper"}
                found["count"] = MeasureColumns(value="count", **ends)
            return found
        if named is None:
            return {"count": MeasureColumns(value="count", lower="lower", upper="upper")}
        return {
            name: MeasureColumns(
                value=name,
                lower=f"{name}_lower",
                upper=f"{name}_upper",
                kind=str(facts["spec"]).partition("(")[0],
            )
            for name, facts in named.items()
        }

    def measure(self, name: object) -> tuple[str, MeasureColumns]:
        """Name and columns of a measure, by default the first; ParameterTypeError for a name that
        is no text, ParameterError for an unknown one."""
        if name is None:
            return next(iter(self.measures.items()))
        if not isinstance(name, str):
            raise ParameterTypeError(f"measure must be a name; got {shown_value(name)}.")
        if name not in self.measures:
            raise ParameterError(
                f"measure ({name!r}) must be one of this release: {', '.join(self.measures)}."
            )
        return name, self.measures[name]

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column as float64, shape (n,), NaN for missing values."""
        return np.asarray(
            self.frame[column].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        )


def shown_nodes(
    frame: pd.DataFrame, receipt: Mapping[str, Any], what: str, *, cells: bool = False
) -> ShownNodes:
    """The nodes of a frame that a release returned, or of some of its rows. ``what`` is the name of
    the question, for messages. ``cells`` allows cells of several hierarchies, for questions that do
    not ask which node is below which.

    Raises
    ------
    ParameterError
        The release is of another kind than nodes, or the frame has no digest, other numbers than
        the release, or not all its columns.
    """
    if "hierarchy" not in receipt or str(receipt["mechanism"]).startswith(("synthetic", "prefix")):
        raise ParameterError(
            f"{what} needs nodes of a hierarchy, and this is a release of another kind."
        )
    found = frame_state(frame)
    if found is None:
        raise ParameterError(
            f"{what} needs released numbers, and this frame has no digest of them. Ask the frame "
            "that dpframe returned."
        )
    if found.changed:
        raise ParameterError(
            f"{found.sentence}. Ask for the {what} of the release itself, or of some of its rows."
        )
    check_complete_columns(found, what)
    hierarchy = as_hierarchies(receipt["hierarchy"]) if cells else tree_of_nodes(receipt, what)
    return ShownNodes(
        frame=released_columns(frame),
        receipt=receipt,
        hierarchy=hierarchy,
        whole=found.rows == found.of,
    )


def tree_of_nodes(receipt: Mapping[str, Any], what: str) -> Hierarchy:
    """The hierarchy of a release; ParameterError for cells of several hierarchies, which are no
    tree."""
    if not is_one_hierarchy(receipt["hierarchy"]):
        raise ParameterError(
            f"{what} does not take cells of several hierarchies ({receipt['hierarchy']}). Their "
            "rows are of disjoint records: filter and add them up, or take result.dp.top or "
            "result.dp.report."
        )
    return as_hierarchy(receipt["hierarchy"])


def check_complete_columns(found: FrameState, what: str) -> None:
    """Raise ParameterError if columns were left out: ``what`` needs all of them."""
    if found.lacks:
        raise ParameterError(f"{what}: {found.needs}. Leave out rows only, no columns.")


def check_column_clash(frame: pd.DataFrame, names: tuple[str, ...], what: str) -> None:
    """Raise ParameterError if a frame has a column that ``what`` would write."""
    taken = [name for name in names if name in frame.columns]
    if taken:
        raise ParameterError(
            f"{what} would write column {taken[0]!r}, which the frame has already. Release under "
            "other names of columns."
        )
