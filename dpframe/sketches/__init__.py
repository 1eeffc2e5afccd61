"""Count the keys of a stream in bounded memory. Sketches are raw data; nothing here draws noise."""

from dpframe.sketches._sketch import DEFAULT_COUNTERS, LARGEST
from dpframe.sketches._state import SketchState
from dpframe.sketches.merged_sketch import MergedSketch, merge_raw_sketches
from dpframe.sketches.misra_gries import MisraGries
from dpframe.sketches.privacy_aware import PrivacyAwareMisraGries

__all__ = [
    "DEFAULT_COUNTERS",
    "LARGEST",
    "MergedSketch",
    "MisraGries",
    "PrivacyAwareMisraGries",
    "SketchState",
    "merge_raw_sketches",
]
