"""Heavy hitters of users' devices: the parts of a prefix tree, as a deployment would call them.

A *device* holds items of one user. In every iteration the server asks for the next bits of one item
below prefixes that it has found. Every device answers with a randomised report, and the server sees
the sum of the reports only. :func:`dpframe.prefix_tree` runs all of it over a frame.

Device: :func:`select_data`, :func:`randomize`, :class:`PiRappor`. Server: :func:`aggregate`,
:func:`estimate`, :func:`standard_error`, :func:`prune`, :func:`largest`, :func:`segment_length`.
Both: :class:`BinaryEncoding`, :class:`HuffmanEncoding`. What it costs: :func:`local_epsilon`.

Source: Chadha, Chen, Duchi, Feldman, Hashemi, Javidbakht, McMillan, Talwar, "Differentially Private
Heavy Hitter Detection using Federated Analytics" (2023).
"""

from dpframe.federated.encoding import (
    BinaryEncoding,
    Encoding,
    HuffmanEncoding,
    PiRappor,
    randomize,
    select_data,
)
from dpframe.federated.server import (
    aggregate,
    estimate,
    largest,
    local_epsilon,
    prune,
    segment_length,
    standard_error,
)

__all__ = [
    "BinaryEncoding",
    "Encoding",
    "HuffmanEncoding",
    "PiRappor",
    "aggregate",
    "estimate",
    "largest",
    "local_epsilon",
    "prune",
    "randomize",
    "segment_length",
    "select_data",
    "standard_error",
]
