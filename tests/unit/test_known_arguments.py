"""A call that does not fit is answered in the name of what was called, wherever it is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.accessor import DpAccessor
from dpframe.errors import ParameterTypeError

wrongly: Any = dp
"""For calls that a type checker would refuse."""

FRAME = pd.DataFrame({"place": ["a"] * 3, "n": [1, 2, 3]})

MADE_BY_US = (dp.Receipt, dp.Explanation, dp.Spending, dp.PrefixComparison)
"""Results: nobody calls their constructors, and their methods take next to nothing."""

FORWARDING: dict[str, dict[str, Any]] = {
    "compare": {"hierarchy": "path:place", "public": FRAME},
    "compare_prefix_trees": {"column": "place", "public": FRAME},
    "plan_series": {"releases": 52, "question": "hhh", "total": (3.0, 1e-6)},
}
"""Functions that hand further arguments on, and what they need to come so far."""


def called() -> dict[str, Callable[..., object]]:
    """Public functions, constructors and methods, by name."""
    out: dict[str, Callable[..., object]] = {}
    public = [getattr(dp, name) for name in dp.__all__ if not name.startswith("__")]
    for each in [*public, DpAccessor]:
        if not inspect.isclass(each):
            out[each.__name__] = each
        elif each not in MADE_BY_US and not issubclass(each, BaseException | Warning):
            if each is not dp.MergedSketch:  # made by merging
                out[each.__name__] = each
            for name in dir(each):
                if not name.startswith("_") and callable(getattr(each, name)):
                    out[f"{each.__name__}.{name}"] = getattr(each, name)
    return out


@pytest.mark.parametrize("name", called())
def test_an_argument_that_nobody_has_is_answered_by_name(name: str) -> None:
    """Law: in the name of what was called, constructors and methods too."""
    function = called()[name]
    first = [object()] if "." in name and not inspect.ismethod(function) else []
    with pytest.raises(TypeError) as raised:
        function(*first, zzzzzz=1, **FORWARDING.get(name, {}))
    assert isinstance(raised.value, ParameterTypeError), name
    assert str(raised.value).startswith(f"{name.split('.')[-1]} has no argument 'zzzzzz'.")


def test_what_lacks_a_keyword_is_not_told_of_places() -> None:
    with pytest.raises(ParameterTypeError, match=r"^plan_series lacks total"):
        wrongly.plan_series(52, "hhh", ["place"])


BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
FRAMES: list[Callable[[], object]] = [
    lambda: wrongly.plan_series(FRAME, "hhh", ["place"], total=(3.0, 1e-6)),
    lambda: wrongly.plan_series(52, FRAME, ["place"], total=(3.0, 1e-6)),
    lambda: wrongly.plan_series(52, "hhh", ["place"], total=FRAME),
    *(lambda x=x: FRAME.dp.hhh(["place"], **{**BUDGET, x: FRAME}) for x in ("epsilon", "release")),
    lambda: FRAME.dp.hhh(["place"], **BUDGET, threshold=FRAME),
    lambda: wrongly.Series(reports=[FRAME], ledger="b.db"),
    lambda: wrongly.Series(reports=[{"name": FRAME, "question": "hhh"}], ledger="b.db"),
    lambda: wrongly.Series(reports=[{"name": "a", "question": FRAME}], ledger="b.db"),
]


@pytest.mark.parametrize("call", FRAMES)
def test_a_frame_in_the_wrong_place_is_named_by_its_type(call: Callable[[], object]) -> None:
    """Law: no message prints the rows of a frame that was given where something else belongs."""
    with pytest.raises((ParameterTypeError, dp.errors.ParameterError)) as raised:
        call()
    assert "DataFrame" in str(raised.value)
    assert "[3 rows" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_signatures_stay_visible() -> None:
    for name, function in called().items():
        shown = set(inspect.signature(function).parameters)
        assert not {"args", "kwargs"} & shown, name
        if name not in FORWARDING:
            assert "arguments" not in shown, name


MEANT: dict[str, tuple[Callable[[], object], str]] = {
    "Ledger": (lambda: wrongly.Ledger("b.db", epsilonn=1), "epsilon"),
    "StreamingHHH": (lambda: wrongly.StreamingHHH("ip:a", counter=3), "counters"),
    "ip": (lambda: wrongly.ip("a", prefix=(8,)), "prefixes"),
    "date": (lambda: wrongly.date("a", level=("year",)), "levels"),
    "number": (lambda: wrongly.number("a", lower=0, uper=1), "upper"),
    "reserve": (lambda: wrongly.Ledger.reserve(None, None, release=3), "releases"),
    "MisraGries": (lambda: wrongly.MisraGries(countrs=3), "counters"),
    "PrivHP": (lambda: wrongly.PrivHP({}, dept=3), "depth"),
    "finish": (lambda: wrongly.PrivHP.finish(None, epsilom=3), "epsilon"),
    "use_ledger": (lambda: wrongly.use_ledger(leger=None), "ledger"),
    "sample": (lambda: wrongly.Generator.sample(None, 3, sed=3), "seed"),
    "report": (lambda: FRAME.dp.report("a.html", titel="a"), "title"),
    "hhh": (lambda: FRAME.dp.hhh("path:place", epsilom=1.0), "epsilon"),
    "compare": (lambda: wrongly.compare("path:place", public=FRAME, epsilom=1.0), "epsilon"),
    "register": (lambda: wrongly.register(None, leger="budget.db"), "ledger"),
    "rollup_sql": (lambda: wrongly.rollup_sql("ip:a", tabel="t"), "table"),
}


@pytest.mark.parametrize("name", MEANT)
def test_what_was_meant_is_said(name: str) -> None:
    """Law: in the name of what was called, with the argument that is nearest."""
    call, meant = MEANT[name]
    with pytest.raises(ParameterTypeError, match=rf"^{name} has no argument .* mean '{meant}'\?$"):
        call()


MISSING: dict[str, tuple[Callable[[], object], str, str]] = {
    "prefix_tree": (lambda: wrongly.prefix_tree(FRAME), "column", "dp.prefix_tree(typed, "),
    "heavy_hitters": (lambda: wrongly.heavy_hitters(), "source, column", "dp.heavy_hitters(words"),
    "synthesize": (lambda: FRAME.dp.synthesize(), "columns", 'trips.dp.synthesize({"distance": '),
    "hhh": (lambda: FRAME.dp.hhh(epsilon=1.0), "hierarchy", 'trips.dp.hhh(["origin", "dest"], '),
    "explain_prefix_tree": (wrongly.explain_prefix_tree, "column", "dp.explain_prefix_tree("),
    "Ledger": (lambda: wrongly.Ledger(), "path", "dp.Ledger(file, epsilon=3.0, delta=1e-5)"),
    "use_ledger": (wrongly.use_ledger, "ledger", "For example: dp.use_ledger(dp.Ledger(file, "),
    "number": (lambda: wrongly.number("a"), "lower, upper", 'number("age", lower=0, upper=128'),
    "MisraGries": (lambda: wrongly.MisraGries(), "counters", "MisraGries(counters=2)"),
    "PrivHP": (lambda: wrongly.PrivHP(), "columns", 'dp.PrivHP({"distance": (0, 5000)}'),
    "compare": (lambda: wrongly.compare("path:place"), "public", 'dp.compare(["a"], public='),
    "register": (lambda: wrongly.register(ledger="budget.db"), "con", "dp.register(con)"),
    "publish": (lambda: wrongly.publish(), "ledger, to", "dp.publish(ledger, folder"),
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_named_with_an_example(name: str) -> None:
    call, lacking, example = MISSING[name]
    with pytest.raises(ParameterTypeError) as raised:
        call()
    assert str(raised.value).startswith(f"{name} lacks {lacking}. For example: ")
    assert example in str(raised.value)


def test_results_say_what_they_lack() -> None:
    result = dp.hhh(FRAME, "path:place", epsilon=1.0, delta=1e-6)
    generator = dp.synthesize(FRAME, {"n": (0, 4)}, epsilon=1.0)
    for method, lacking in (
        (result.dp.report, "report lacks path. For example: result.dp.report(page)"),
        (generator.sample, "sample lacks n. For example: generator.sample(100, seed=1)"),
        (generator.save, "save lacks path. For example: generator.save("),
        (generator.report, "report lacks path, public. For example: generator.report("),
    ):
        with pytest.raises(ParameterTypeError) as raised:
            method()
        assert str(raised.value).startswith(lacking)


def test_too_many_and_doubled_arguments_are_answered() -> None:
    """Law: what has to be named is told, with an example; values of arguments are not repeated."""
    with pytest.raises(ParameterTypeError, match=r"^hhh takes hierarchy first .* by name; got 3"):
        FRAME.dp.hhh("path:place", 1.0, 1e-6)
    with pytest.raises(ParameterTypeError, match=r"^explain takes source and hierarchy first"):
        wrongly.explain(FRAME, "path:place", 1.0)
    with pytest.raises(ParameterTypeError, match=r"^hhh has 'hierarchy' by place and name"):
        FRAME.dp.hhh("path:place", hierarchy="path:n")
    with pytest.raises(ParameterTypeError, match=r"^hhh has no argument 'candidates'"):
        FRAME.dp.hhh("path:place", candidates=FRAME)


def test_an_error_inside_a_call_is_left_as_it_is() -> None:
    """Law: only calls that do not fit are answered, not TypeErrors of what they run."""

    class Odd(dict[Any, Any]):
        def items(self) -> Any:
            raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        dp.explain_synthesize(Odd(a=(0, 1)), epsilon=1.0)
