"""Encode rows as paths in a binary tree of cells, and draw rows from cells.

===========  ==================================================  ===========================
axis         string                                              a bit of its path
===========  ==================================================  ===========================
numbers      ``number:distance?lower=0&upper=5000``              a half of the interval
times        ``time:ts?lower=2017-01-01&upper=2018-01-01``       a half of the interval
addresses    ``ip:src?version=4``                                a bit of the address
categories   any other hierarchy, with a list of keys            a bit of a child's number
===========  ==================================================  ===========================

Several axes are cut in turn. Bounds and categories are public and declared by the caller. A row has
no path, and is left out, if a value is missing or is no number, time or address.
"""

from __future__ import annotations

from dpframe.domains._axes import IpAxis, NumberAxis, TimeAxis
from dpframe.domains._axis import Axis
from dpframe.domains._domain import MAX_DEPTH, USUAL_DEPTH, Domain, as_domain
from dpframe.domains._listed_axis import ListedAxis

__all__ = [
    "MAX_DEPTH",
    "USUAL_DEPTH",
    "Axis",
    "Domain",
    "IpAxis",
    "ListedAxis",
    "NumberAxis",
    "TimeAxis",
    "as_domain",
]
