"""Arguments of random rollups, over the whole range of parameters."""

from __future__ import annotations

import math
import random
from typing import Any

import dpframe as dp
from dpframe.measures import Measure


def drawn_rollup(generator: random.Random) -> dict[str, Any]:
    """Arguments of one plan: by record and by user, selected or listed, one to five measures."""
    height = round(math.exp(generator.uniform(0, math.log(32))))
    user = generator.choice((None, "u"))
    arguments: dict[str, Any] = {
        "hierarchy": f"path:p?depth={height}",
        "epsilon": float(f"{math.exp(generator.uniform(math.log(0.05), math.log(20))):.3g}"),
        "user": user,
    }
    if generator.random() < 0.25:
        arguments["keys"] = ["a/b/c"]
    else:
        delta = math.exp(generator.uniform(math.log(1e-12), math.log(1e-2)))
        arguments["delta"] = float(f"{delta:.3g}")
        if generator.random() < 0.3:
            arguments["selection_share"] = round(generator.uniform(0.05, 0.9), 2)
    measures = {f"m{n}": drawn_measure(generator, user) for n in range(generator.randint(1, 5))}
    if generator.random() < 0.3:  # a sum and a mean of the same values share what is drawn
        upper = generator.choice((1.0, 0.3, 12345.6789))
        measures |= {
            "revenue": dp.sum("y", lower=0, upper=upper),
            "average": dp.mean("y", lower=0, upper=upper),
        }
    sums = [n for n, m in measures.items() if (m.kind, m.lower) == ("sum", 0) and m.upper != "auto"]
    if sums and "keys" not in arguments and generator.random() < 0.3:
        arguments["heavy"] = generator.choice(sums)
    return {"question": "rollup", **arguments, "measures": measures}


def drawn_measure(generator: random.Random, user: str | None) -> Measure:
    """One measure."""
    share = round(math.exp(generator.uniform(-2, 2)), 3)
    kind = generator.choice(("count", "sum", "mean", "distinct", "auto"))
    if kind == "count":
        rows = generator.choice((None, 1, 20)) if user is not None else None
        return dp.count(at_most=rows, share=share)
    if kind == "distinct":
        column = generator.choice(("u", "c", 'a "q" b'))
        most = None if user is None else generator.choice((1, 3, 50))
        return dp.distinct(column, at_most=most, share=share)
    lower = generator.choice((0.0, 0.0, -generator.uniform(0, 100)))
    upper = 10 ** generator.uniform(-6, 12)
    if kind == "auto":
        either: tuple[Any, Any] = generator.choice((("auto", 7.0), (0.0, "auto"), ("auto", "auto")))
        if generator.random() < 0.5:
            return dp.mean("x", lower=either[0], upper=either[1], share=share)
        cut = generator.random() < 0.3
        return dp.sum("x", lower=either[0], upper=either[1], clipped=cut, share=share)
    if kind == "mean":
        return dp.mean("x, y", lower=lower, upper=upper, share=share)
    return dp.sum("x", lower=lower, upper=upper, clipped=generator.random() < 0.3, share=share)
