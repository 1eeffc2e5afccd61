"""Count the keys of a stream in bounded memory. Sketches are raw data; nothing here draws noise."""

from dpframe.sketches._batches import SketchState
from dpframe.sketches._sketch import DEFAULT_COUNTERS, LARGEST, MergedSketch, merge_raw_sketches
from dpframe.sketches.misra_gries import MisraGries, PrivacyAwareMisraGries

__all__ = [
    "DEFAULT_COUNTERS",
    "LARGEST",
    "MergedSketch",
    "MisraGries",
    "PrivacyAwareMisraGries",
    "SketchState",
    "merge_raw_sketches",
]
