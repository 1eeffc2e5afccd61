"""The card lines of a prefix tree, all known before devices are asked."""

from __future__ import annotations

from dpframe.asking.card import Line, Text, four_digits_up
from dpframe.questions.prefix_tree.prefix_numbers import PrefixNumbers

PAPERS = {
    "reports": "Chadha et al. (2023), OptPrefixTree, Algorithms 2 to 5",
    "laplace": "Chadha et al. (2023), prefix tree with central Laplace noise, a baseline",
    "gaussian": "Chadha et al. (2023), prefix tree with central Gaussian noise, a baseline",
}

MOST_SHOWN = 80
"""The most characters of an alphabet that a card shows."""


def local_guarantee(plan: PrefixNumbers) -> str | None:
    """The privacy claim against whoever sees single reports; None without reports."""
    if plan.local_epsilon is None:
        return None
    total = plan.asked.reports * plan.local_epsilon
    return (
        f"{plan.local_epsilon:g}-differential privacy in the local model for a report, {total:g} "
        f"for all {plan.asked.reports} of a device"
    )


def prefix_lines(plan: PrefixNumbers) -> list[Line]:
    """The lines of the plan and of the card."""
    asked, search = plan.asked, plan.asked.search
    segments, local = search.segments, local_guarantee(plan)
    how = (
        ", ".join(map(str, segments.fixed))
        if segments.fixed
        else f"as many as {segments.limit:,} cells hold"
    )
    out = [
        plan.guarantee_line,
        Line(
            "local guarantee",
            local or "none: a trusted server counts",
            "against whoever sees the reports of a device",
        ),
        Line.of(
            "mechanism",
            Text("prefix tree, {mechanism}"),
            PAPERS[asked.mechanism],
            mechanism=asked.mechanism,
        ),
        Line.of(
            "items",
            asked.hierarchy.spec,
            "as bits: {encoding}",
            encoding=search.encoding.spec,
        ),
        Line("left out", left_out(plan), "by rule, never reported; a user's other items are"),
        Line("counts", plan.unit.counts, "what the numbers count"),
        Line("devices", plan.devices, "users of the source, public"),
        Line("rounds", search.rounds, "each without what earlier ones found"),
        Line("iterations", segments.iterations, "of a round: reports of every device"),
        Line.of(
            "bits of an iteration",
            how,
            "of {length} bits of an item",
            length=segments.length,
        ),
        Line("selection", _selection_text(plan), "which of their items users report"),
    ]
    if search.deny:
        out.append(Line("deny list", len(search.deny), "items that nobody reports, public"))
    if search.taking_part < 1:
        out.append(
            Line(
                "participation",
                search.taking_part,
                "chance of a device in an iteration",
            )
        )
    if plan.reporting < plan.devices:
        out.append(Line("devices counted on", plan.reporting, "reports of an iteration, at least"))
    out += plan.draws.lines
    out += [
        Line(
            "standard error", round(plan.standard_error, 3), "of the count of a rare item, in users"
        ),
        Line(
            "false positives",
            search.false_positives,
            "expected cells that nobody holds, at most, in parts of those that an iteration keeps",
        ),
        Line("accountant", asked.accountant if local else "exact", _accountant_text(plan)),
        Line("computed delta", four_digits_up(plan.delta_spent), "upper bound"),
    ]
    return out


def left_out(plan: PrefixNumbers) -> str:
    """A text on items that nobody can find, whoever holds them, and on items that are cut."""
    encoding, length = plan.asked.search.encoding, plan.asked.search.segments.length
    letters = encoding.alphabet
    if len(letters) > MOST_SHOWN:
        letters = f"{letters[:MOST_SHOWN]}\u2026 ({len(letters):,} in all)"
    capitals = "capitals are read as small letters; " if encoding.folds else ""
    return (
        f"items with characters other than {letters!r}; {capitals}"
        f"items of more than {length} bits are cut, and end in an ellipsis"
    )


def _selection_text(plan: PrefixNumbers) -> str:
    search = plan.asked.search
    kind = "as frequent as it is" if search.weighted else "each different one as likely"
    return f"one at random, {kind}" + (", below the prefixes" if search.conditioned else "")


def _accountant_text(plan: PrefixNumbers) -> str:
    if plan.central is not None:
        return "exact laws of bounded noise, composed by privacy loss distributions"
    if plan.asked.accountant == "aggregate":
        return "exact laws of sums of reports, composed by privacy loss distributions"
    return "amplification by shuffling for any local randomiser, Renyi composition"
