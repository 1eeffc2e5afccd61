"""Whether a frame still is what was released: a digest of released numbers, beside the receipt.

pandas keeps ``attrs`` where they no longer fit, for instance after ``assign`` or ``concat``. The
digest knows every row of the release, and of all but very long ones every cell, so that rows and
columns that were left out or put in another order are told from numbers that were changed. It is
a function of released values alone, and the same whatever types hold them. It finds mistakes, not
forgeries: anybody can make another digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

RECEIPT, DIGEST, CHANGE = "dp", "dp_digest", "dp_change"
"""Keys of ``attrs``: facts of a release, a digest of its rows, and facts of a change."""

EXTRACT = "an extract of the release"

Codes: TypeAlias = NDArray[np.uint64]

CELLS = 200_000
"""Cells up to which each has two bytes: for longer releases only whole rows are known."""

MISSING, FRACTION = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
"""The code of a missing value, and what tells other numbers from whole ones: any two of 64 bits."""


@dataclass(frozen=True, slots=True)
class FrameState:
    """How a frame stands to the release whose receipt it carries. Public."""

    rows: int
    of: int
    more: tuple[str, ...] = ()
    changed: str = ""
    lacks: tuple[str, ...] = ()
    """Columns that were left out."""

    @property
    def needs(self) -> str:
        """The message where all columns are needed and some were left out."""
        return (
            "all columns of the release are needed, and this frame has no "
            f"{_column_words(self.lacks)}"
        )

    @property
    def is_extract(self) -> bool:
        """Whether the frame is a part of the release, and nothing was changed."""
        return not self.changed and (self.rows < self.of or bool(self.lacks))

    @property
    def sentence(self) -> str:
        """What has to be said with the receipt; nothing if the frame is the release."""
        if self.changed:
            return f"this frame is not the release that the receipt is of: {self.changed}"
        said = []
        if self.rows < self.of:
            said.append(f"{EXTRACT}: {self.rows:,} of {self.of:,} rows")
        if self.lacks:
            said.append(f"{EXTRACT}, without {_column_words(self.lacks)}")
        if self.more:
            said.append(f"not part of the release: {_column_words(self.more)}")
        return "; ".join(said)


def seal_frame(
    frame: pd.DataFrame, facts: Mapping[str, Any], *, rows: bool = True, key: str = RECEIPT
) -> pd.DataFrame:
    """Put facts, a receipt, and a digest into the attrs of a frame, and return the frame.

    Without ``rows``, for synthetic rows, the digest is of all rows together: fewer rows are no
    extract then.
    """
    columns = [str(name) for name in frame.columns]
    cells = _codes_of_cells(frame, columns)
    codes = _row_codes(cells)
    digest: dict[str, Any] = {"columns": columns, "count": len(frame)}
    if rows:
        known = np.sort(_short_codes(codes)).tobytes()
        digest["rows"] = base64.b64encode(known).decode("ascii")
        if cells.size <= CELLS:
            digest["cells"] = base64.b64encode(_two_bytes(cells).tobytes()).decode("ascii")
    else:
        digest["sum"] = _code_sum(codes)
    frame.attrs.update({key: dict(facts), DIGEST: digest})
    return frame


def frame_state(frame: pd.DataFrame) -> FrameState | None:
    """How a frame stands to what was released; None where its attrs do not say what that was."""
    digest = frame.attrs.get(DIGEST)
    if not isinstance(digest, Mapping) or not {"columns", "count"} <= digest.keys():
        return None
    columns, of = list(digest["columns"]), int(digest["count"])
    names = list(frame.columns)
    unclear = tuple(name for name in columns if names.count(name) != 1)
    more = tuple(str(name) for name in names if name not in columns)
    if unclear:
        chosen = [name for name in columns if name in names]
        if more or not chosen or len(chosen) + len(unclear) > len(columns) or "cells" not in digest:
            return FrameState(len(frame), of, changed=f"it has no {_column_words(unclear)}")
        return _state_of_columns(frame, digest, chosen, unclear)
    codes = _row_codes(_codes_of_cells(frame, columns))
    if "rows" not in digest:
        same = len(frame) == of and _code_sum(codes) == digest["sum"]
        return FrameState(len(frame), of, more, "" if same else "rows were changed or left out")
    known = np.frombuffer(base64.b64decode(digest["rows"]), "<u4")
    changed = "" if _occur_among(_short_codes(codes), known) else OTHERS
    return FrameState(len(frame), of, more, changed)


OTHERS = "rows hold other values, or are there twice"


def _state_of_columns(
    frame: pd.DataFrame, digest: Mapping[str, Any], chosen: Sequence[str], lacks: tuple[str, ...]
) -> FrameState:
    """How a frame of some columns stands to the release."""
    names, of = list(digest["columns"]), int(digest["count"])
    places = [names.index(name) for name in chosen]
    known = np.frombuffer(base64.b64decode(digest["cells"]), "<u2").reshape(len(names), of)
    released = _row_codes(known[places].astype(np.uint64))
    here = _row_codes(_two_bytes(_codes_of_cells(frame, chosen)).astype(np.uint64))
    changed = "" if _occur_among(here, np.sort(released)) else OTHERS
    return FrameState(len(frame), of, (), changed, () if changed else lacks)


def _occur_among(rows: NDArray[Any], known: NDArray[Any]) -> bool:
    """Whether each of some numbers is there at most as often as in a sorted list."""
    found, times = np.unique(rows, return_counts=True)
    there = np.searchsorted(known, found, "right") - np.searchsorted(known, found, "left")
    return bool((times <= there).all())


def released_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame without columns that are not of the release."""
    digest = frame.attrs.get(DIGEST)
    return frame if digest is None else frame[list(digest["columns"])]


def _column_words(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


# -- rows as numbers -----------------------------------------------------------------------------


def _short_codes(codes: Codes) -> NDArray[np.uint32]:
    return (codes & np.uint64(0xFFFFFFFF)).astype("<u4")


def _code_sum(codes: Codes) -> str:
    return f"{int(codes.sum(dtype=np.uint64)):016x}"


def _codes_of_cells(frame: pd.DataFrame, columns: Sequence[str]) -> Codes:
    """Shape (columns, rows): a number for every cell, the same for the same values."""
    from pandas import DataFrame  # the frame has loaded it

    frame = DataFrame(frame, copy=False)  # without attrs, which pandas copies with each column
    out = np.zeros((len(columns), len(frame)), dtype=np.uint64)
    for place, name in enumerate(columns):
        column = frame[name]
        whole = column.dtype == np.int64  # NumPy's, whose values are used as they are
        out[place] = _finalise_bits(
            column.to_numpy().view(np.uint64) if whole else _value_codes(_column_array(column))
        )
    return out


def _row_codes(cells: Codes) -> Codes:
    """A number for every row."""
    out = np.zeros(cells.shape[1], dtype=np.uint64)
    for column in cells:
        out = _finalise_bits(out * np.uint64(3) + column)
    return out


def _two_bytes(cells: Codes) -> NDArray[np.uint16]:
    return (cells & np.uint64(0xFFFF)).astype("<u2")


def _finalise_bits(bits: Codes) -> Codes:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _column_array(column: Any) -> pa.Array:
    try:
        array = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        array = pa.array([None if value is None else str(value) for value in column], pa.string())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _value_codes(array: pa.Array) -> Codes:
    """A number for every value: whole numbers are equal in every type, missing ones too."""
    kind, missing = array.type, array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        array = array.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        array = array.cast(pa.int64())
    elif pa.types.is_decimal(kind) or kind == pa.float16():
        array = array.cast(pa.float64())
    if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        numbers = array.cast(pa.int64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
        codes = numbers.astype(np.int64).view(np.uint64)
    elif pa.types.is_floating(array.type):
        reals = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        reals = np.where(missing, 0.0, reals)
        whole = (np.abs(reals) < 2.0**63) & (reals == np.floor(reals))
        numbers = np.where(whole, reals, 0.0).astype(np.int64).view(np.uint64)
        codes = np.where(whole, numbers, reals.view(np.uint64) ^ FRACTION)
    else:
        codes = _text_codes(array)
    return np.where(missing, MISSING, codes)


def _text_codes(array: pa.Array) -> Codes:
    if len(array) > AT_ONCE:  # long texts take memory in every form
        starts = range(0, len(array), AT_ONCE)
        return np.concatenate([_text_codes(array.slice(start, AT_ONCE)) for start in starts])
    if not pa.types.is_large_binary(array.type):
        try:
            array = array.cast(pa.large_string()).cast(pa.large_binary())
        except pa.ArrowException:
            array = pa.array([str(value).encode() for value in array.to_pylist()])
    coded = array.fill_null(b"").dictionary_encode()
    digests, begun = [], hashlib.blake2b(digest_size=8).copy  # faster than to begin anew
    for text in coded.dictionary.to_pylist():
        hashed = begun()
        hashed.update(text)
        digests.append(hashed.digest())
    known = np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
    where: NDArray[np.int64] = coded.indices.to_numpy(zero_copy_only=False)
    return known[where]


AT_ONCE = 2**14
"""Texts whose numbers are found at once."""
