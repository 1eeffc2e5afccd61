"""The error that is left when a relative error is forgiven. For evaluation on public data only.

Source: Ghazi, Kamath, Kumar, Manurangsi and Wu, "On Differentially Private Counting on Trees"
(2023), Definition 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def alpha_rmse(
    estimates: NDArray[np.float64], truth: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]:
    """Root of the mean of max(|estimate - truth| - alpha truth, 0)^2 over repeats.

    It reads the true counts: neither it nor a choice made by it may leave the data's owner.

    Parameters
    ----------
    estimates
        Shape (repeats, n), in records.
    truth
        Shape (n,), at least 0, in records.
    alpha
        Relative error that is free, at least 0; 0 gives the ordinary root mean squared error.

    Returns
    -------
    Shape (n,), in records. Its maximum over nodes and data sets is the alpha-mRMSE of the paper.
    """
    beyond = np.maximum(np.abs(estimates - truth) - alpha * truth, 0.0)
    return np.asarray(np.sqrt((beyond * beyond).mean(axis=0)), dtype=np.float64)
