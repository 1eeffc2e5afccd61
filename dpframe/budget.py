"""What is promised, and for whom: the budget of a release and its unit of privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Literal

Contribution = Literal["share", "records", "items"]

SHARE_GRID = 256
"""Units that the weight 1 of a user is divided into; counts of shares are exact to 1/256."""

LARGEST_EPSILON = 50.0
"""The largest epsilon of a release."""

LARGEST_WEIGHT = 10**9
"""Records that a row stands for at most: sums of as many rows as there are fit 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """(epsilon, delta) of one release: epsilon > 0 and 0 <= delta < 1, with 0 where it is pure."""

    epsilon: float
    delta: float

    @property
    def request(self) -> dict[str, object]:
        """As stored requests hold it."""
        return {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyUnit:
    """Who is protected: neighbouring tables differ by adding or removing one of these.

    Without ``user`` the unit is one record. With ``user`` it is everything that one user has: as
    shares (each user weighs 1), as at most ``max_contributions`` records, or as at most
    ``max_contributions`` different items, each counted once. With ``weight``, a column of whole
    numbers, a row stands for that many records. Then ``max_weight`` protects whole rows, each of
    which stands for at most ``max_weight`` records.

    With ``measured`` the weight is a measure, such as bytes or revenue. A row, or with ``user`` all
    rows of a user together, counts for at most ``max_weight`` of it, which is any positive number.
    So it counts as a part of one record, in units of ``max_weight / grid``.
    """

    user: str | None = None
    contribution: Contribution = "share"
    max_contributions: int = 1
    weight: str | None = None
    max_weight: float | None = None
    measured: bool = False

    @property
    def grid(self) -> int:
        """Units that a record or user weighs in the counts; with ``measured``, at most."""
        shared = self.user is not None and self.contribution == "share"
        return SHARE_GRID if shared or self.measured else 1

    @property
    def worth(self) -> float:
        """What ``grid`` units are in the numbers of a release; 1 where these are counts."""
        return 1 if not self.measured or self.max_weight is None else self.max_weight

    @property
    def moves(self) -> int:
        """Whole records by which one unit of privacy moves the counts."""
        if self.measured:
            return 1
        if self.max_weight is not None:
            return int(self.max_weight)
        return self.max_contributions if self.user is not None and self.grid == 1 else 1

    @property
    def most(self) -> int:
        """Records that a row of a unit with weights stands for at most."""
        return LARGEST_WEIGHT if self.max_weight is None else min(self.moves, LARGEST_WEIGHT)

    @property
    def nodes(self) -> int | None:
        """Nodes of a level that a user counts at, once each, where different users are counted."""
        return None

    @property
    def request(self) -> dict[str, object]:
        """The arguments that say who is protected, but for weights that are numbers of records, as
        stored requests hold them."""
        measure = {"weight": self.weight, "max_weight": self.max_weight} if self.measured else {}
        return {
            "user": self.user,
            "contribution": self.contribution if self.user is not None else None,
            "max_contributions": self.max_contributions,
            **measure,
        }

    @property
    def facts(self) -> dict[str, object]:
        """Who is protected and what is counted, as receipts hold it."""
        measure = {"weight": self.weight, "max_weight": self.max_weight} if self.measured else {}
        return {
            "neighbours": self.sentence,
            "counts": self.counts,
            "user": self.user,
            "contribution": self.contribution if self.user is not None else None,
            "max_contributions": self.moves if self.user is not None and self.grid == 1 else None,
            **measure,
        }

    @property
    def sentence(self) -> str:
        if self.measured and self.user is None:
            return (
                f"adding or removing one row, which counts for at most {as_written(self.worth)} "
                f"of column {self.weight!r}"
            )
        if self.max_weight is not None and not self.measured:
            return (
                f"adding or removing one row, which stands for at most {self.max_weight} records "
                f"(column {self.weight!r})"
            )
        if self.weight is not None and not self.measured:
            return (
                "adding or removing one record, of which a row stands for as many as column "
                f"{self.weight!r} says"
            )
        if self.user is None:
            return "adding or removing one record"
        if self.contribution == "share":
            return f"adding or removing one user ({self.user!r}) with all their records"
        what = "of whose different values" if self.contribution == "items" else "of which"
        return (
            f"adding or removing one user ({self.user!r}) with all their records, "
            f"{what} at most {self.max_contributions} are counted"
        )

    @property
    def what_counts(self) -> str:
        """The label of ``counts``; for shares also what they do not say."""
        if self.grid > 1 and not self.measured and self.weight is None:  # divided over records
            return (
                "what the numbers count: who has records at several nodes is a part of one at "
                "each, and how many different users a node has is dp.distinct in a rollup"
            )
        return "what the numbers count"

    @property
    def count_noun(self) -> str:
        """A word for what is counted: records, users, or the column of a measure."""
        if self.measured:
            return repr(self.weight)
        return "users" if self.grid > 1 else "records"

    @property
    def counts(self) -> str:
        """What the counts of the release count."""
        if self.measured:
            whose = "row" if self.user is None else "user"
            return (
                f"{self.weight}, the sum of column {self.weight!r}, of which each {whose} counts "
                f"at most {as_written(self.worth)}"
            )
        if self.weight is not None:
            return f"records, of which a row stands for as many as column {self.weight!r} says"
        if self.user is None:
            return "records"
        if self.contribution == "share":
            return "users, each weighing 1 in total, divided evenly over their records"
        if self.contribution == "items":
            return (
                "users, each once at every node above a uniform sample of at most "
                f"{self.max_contributions} of their different values"
            )
        return f"records, a uniform sample of at most {self.max_contributions} of each user"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeUser(PrivacyUnit):
    """A user with all their records, whose different items are counted once each."""

    @property
    def moves(self) -> int:
        """A user is the unit of the accountant."""
        return 1

    @property
    def count_noun(self) -> str:
        return "users"

    @property
    def sentence(self) -> str:
        return f"adding or removing one user ({self.user!r}) with all their records"


def as_float(value: object) -> float | None:
    """A number of Python or NumPy as a float; None for what is no number.

    A ``Decimal`` or a ``Fraction`` is the float that is written like it. Where there is none it is
    the next one below, so that nobody gets a larger budget than was asked for.
    """
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except ValueError:  # a signalling NaN
        return math.nan
    if isinstance(value, float | Integral) or not math.isfinite(near):
        return near
    exact = Fraction(*value.as_integer_ratio()) if hasattr(value, "as_integer_ratio") else near
    if Fraction(repr(near)) == exact or near <= exact:
        return near
    return math.nextafter(near, -math.inf)


def as_written(number: float) -> str:
    """A number as people write it, to its last digit: 1000000 and 0.1, not 1e+06."""
    if float(number).is_integer() and abs(number) < 1e16:
        return str(int(number))
    return repr(number)


def per_record(budget: Budget, moves: int) -> Budget:
    """The budget for one record that gives ``budget`` to a group of ``moves`` records.

    Group privacy: an (e, d)-DP mechanism is (m e, d (exp(m e) - 1)/(exp(e) - 1))-DP for m
    records (Vadhan, The Complexity of Differential Privacy, Lemma 2.2, summed exactly). Rounded
    down: m times the epsilon of a record is at most epsilon, in exact fractions.
    """
    if moves == 1:
        return budget
    epsilon = budget.epsilon / moves
    while Fraction(epsilon) * moves > Fraction(budget.epsilon):
        epsilon = math.nextafter(epsilon, 0.0)
    delta = budget.delta * math.expm1(epsilon) / math.expm1(budget.epsilon)
    return Budget(epsilon=epsilon, delta=delta * (1 - 1e-12))


def group_delta(budget: Budget, moves: int, delta: float) -> float:
    """Delta of a group whose records cost ``delta`` each, at most the delta of the budget."""
    if budget.delta == 0:
        return 0.0
    return budget.delta * min(1.0, delta / per_record(budget, moves).delta)


AT_MOST = 16
"""Nodes of a level that a user counts at, where nobody says how many."""

MOST = 1000
"""Nodes of a level that can be asked for, at most."""


@dataclass(frozen=True, kw_only=True)
class ItemsUnit(WholeUser):
    """A user with all their records, who counts at each of their different values."""

    at_most: int | None = None
    given: int | None = None
    """``max_contributions`` of the call; None if it was left out."""
    above: int | tuple[int, ...] | None = None
    """``at_most`` of nodes above the lowest ones, of cells of the total and of every band of kinds;
    None where a release has to find it."""
    height: int = 1
    """How many levels are searched."""

    @property
    def request(self) -> dict[str, object]:
        return {
            "user": self.user,
            "contribution": self.contribution,
            "max_contributions": self.given,
        }

    @property
    def facts(self) -> dict[str, object]:
        own = {"max_contributions": self.max_contributions, "at_most": self.at_most}
        several = (
            {} if self.height == 1 else {"at_most_above": self._at_most_above, "adds_up": False}
        )
        return {**super().facts, **own, **several}

    @property
    def _at_most_above(self) -> object:
        """``above`` as plain JSON types."""
        return [*self.above] if isinstance(self.above, tuple) else self.above

    @property
    def counts(self) -> str:
        few, above = (
            "a number that is found privately" if most is None else str(most).strip("[]")
            for most in (self.at_most, self._at_most_above)
        )
        if self.height == 1:
            return (
                "different users; one who has more of the released values than at_most "
                f"({few}) counts less than 1 at each"
            )
        return (
            f"different users; one who has more of the lowest released nodes than at_most ({few}), "
            f"or more of the nodes above these than at_most_above ({above}), counts less than 1 at "
            "each of them"
        )

    @property
    def what_counts(self) -> str:
        at = "value" if self.height == 1 else "node"
        return f"what the numbers count: a user once at every {at}, so that they do not add up"


@dataclass(frozen=True, kw_only=True)
class NodesUnit(WholeUser):
    """A user with all their records, counted once at each of at most ``at_most`` nodes a level."""

    at_most: int

    @property
    def nodes(self) -> int:
        return self.at_most

    @property
    def request(self) -> dict[str, object]:
        return {
            "user": self.user,
            "contribution": self.contribution,
            "max_contributions": None,
            "at_most": self.at_most,
        }

    @property
    def facts(self) -> dict[str, object]:
        own = {"max_contributions": None, "at_most": self.at_most, "adds_up": False}
        return {**super().facts, **own}

    @property
    def counts(self) -> str:
        return (
            f"different users, of whom one with more than {self.at_most} nodes of a level counts "
            "at a uniform sample of so many there"
        )

    @property
    def what_counts(self) -> str:
        return (
            "what the numbers count: a user once at each of their nodes, so that they do not add up"
        )
