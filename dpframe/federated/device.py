"""What runs on a device: choose one item, and report it in disguise.

Chadha et al. (2023), Algorithm 3 (DeviceSide): data selection, then one-hot encoding with
asymmetric binary randomised response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.federated.encoding import Encoding, checked_items
from dpframe.noise import PublicRandom, biased_flips, device_choices

Selection = Literal["unweighted", "weighted"]


def select_data(
    items: Mapping[str, int],
    *,
    encoding: Encoding,
    prefixes: Sequence[str],
    segment: int,
    deny: Sequence[str] = (),
    selection: Selection = "unweighted",
    conditioned: bool = True,
    random: PublicRandom | None = None,
) -> str | None:
    """Choose the bits that a device reports in an iteration; None if it has nothing to report.

    Parameters
    ----------
    items
        The user's items, and how often each occurs. Items with characters outside of the alphabet
        are left out.
    encoding
        Items as bits; see :class:`BinaryEncoding`.
    prefixes
        The prefixes of the iteration, bits of one length; [""] in the first.
    segment
        Bits that are asked for below a prefix, from 1.
    deny
        Items that are known already and must not be reported.
    selection
        "unweighted": all different items are equally likely; "weighted": by frequency.
    conditioned
        True: one of the items below a prefix. False: one of all items; nothing if it is below no
        prefix.

    Notes
    -----
    How an item is chosen does not matter for privacy: a report hides all of them.

    Examples
    --------
    >>> from dpframe.federated import BinaryEncoding, select_data
    >>> abc = BinaryEncoding("abc")
    >>> select_data({"ab": 3, "b": 1}, encoding=abc, prefixes=["001"], segment=3)
    '001010'
    """
    length = len(prefixes[0]) + segment if prefixes else segment
    known = checked_items("deny", deny)
    widest = max(map(len, encoding.codes.values()))
    ends = [widest * (len(encoding.fold(item)) + 1) for item in (*items, *known)]
    whole = max([length, *ends])  # nothing is cut: bits differ as items do
    denied = {encoding.encode(item, whole) for item in known if encoding.reads(item, whole)}
    live = set(prefixes)
    coded: dict[str, int] = {}
    for item, times in items.items():
        if not encoding.reads(item, whole):
            continue
        bits = encoding.encode(item, whole)
        if bits not in denied and times > 0:
            coded[bits] = coded.get(bits, 0) + times
    if conditioned:
        coded = {
            bits: n for bits, n in coded.items() if _prefix_bits(bits, length, segment) in live
        }
    if not coded:
        return None
    weights = np.array([1 if selection == "unweighted" else n for n in coded.values()], dtype=float)
    generator = random if random is not None else device_choices()
    bits = list(coded)[int(generator.choice(len(coded), p=weights / weights.sum()))]
    return bits[:length] if _prefix_bits(bits, length, segment) in live else None


def _prefix_bits(bits: str, length: int, segment: int) -> str:
    return bits[: length - segment]


def randomize(cell: int | None, cells: int, local_epsilon: float) -> NDArray[np.bool_]:
    """Return a one-hot vector in disguise: what a device sends.

    The held cell reports 1 with probability 1/2, every other cell with 1/(e^el + 1), rounded up to
    a multiple of 2^-64. A device without anything to report sends a randomised vector of zeros.

    Parameters
    ----------
    cell
        The cell of the chosen item, 0 to cells - 1, or None.
    cells
        The number of cells.
    local_epsilon
        el, above 0.

    Returns
    -------
    numpy.ndarray
        bool, shape (cells,).

    Privacy
    -------
    el-differential privacy in the local model, for replacing the cell or removing it: two cells
    differ, with likelihood ratios of at most (1 - a0)/(1/2) times (1/2)/a0 = e^el.

    References
    ----------
    Erlingsson, Pihur, Korolova, "RAPPOR" (2014); Chadha et al. (2023), Section IV.B.
    """
    if cell is not None and not 0 <= cell < cells:
        raise ParameterError(f"cell ({cell}) must be from 0 to {cells - 1}.")
    report = biased_flips(cells, local_epsilon)
    if cell is not None:
        report[cell] = biased_flips(1, 0.0)[0]
    return report
