"""The local epsilon of a device's report, from the guarantee for the sums of all reports."""

from __future__ import annotations

from dpframe.accounting import aggregate
from dpframe.accounting import aggregate as shuffle
from dpframe.accounting.aggregate import Neighbours
from dpframe.errors import ParameterError


def local_epsilon(
    *,
    devices: int,
    reports: int,
    epsilon: float,
    delta: float,
    accountant: str = "aggregate",
    neighbours: Neighbours = "replace",
) -> float:
    """Return the largest local epsilon with which the sums of all reports are (epsilon, delta)-DP.

    Parameters
    ----------
    devices
        N, public: every device sends every report.
    reports
        Number of reports of every device.
    epsilon, delta
        The guarantee towards whoever sees the sums.
    accountant
        "aggregate": exact laws of sums of one-hot reports, composed by privacy loss distributions.
        "shuffle": any local randomiser, by amplification by shuffling and Renyi composition.
    neighbours
        "replace": the data of one device are replaced. "remove" (only "aggregate"): they are
        removed, or added, and the device still reports.

    Returns
    -------
    float
        Local epsilon to 0.001, rounded down; 0 if none is small enough.

    References
    ----------
    Chadha et al. (2023), Algorithm 1; dpframe/accounting/aggregate.py.

    Examples
    --------
    >>> from dpframe.federated import local_epsilon
    >>> local_epsilon(devices=1_600_000, reports=4, epsilon=1.0, delta=1e-6)
    10.71
    """
    if accountant not in ("aggregate", "shuffle"):
        raise ParameterError(f"accountant must be 'aggregate' or 'shuffle'; got {accountant!r}.")
    if neighbours not in ("replace", "remove"):
        raise ParameterError(f"neighbours must be 'replace' or 'remove'; got {neighbours!r}.")
    if accountant == "shuffle":
        return shuffle.shuffle_local_epsilon(
            devices=devices, reports=reports, epsilon=epsilon, delta=delta
        )
    return aggregate.local_epsilon(
        devices=devices, reports=reports, epsilon=epsilon, delta=delta, neighbours=neighbours
    )
