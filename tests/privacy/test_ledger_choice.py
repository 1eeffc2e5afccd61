"""``use_ledger``: a call charges the ledger of its own context, or is refused; never another's."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import pickle
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.ledger import Ledger, current, current_ledger

FRAME = pd.DataFrame({"a": ["x"] * 900})


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(tmp_path_factory.mktemp("one") / "one.db", epsilon=9.0, delta=1e-4)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(tmp_path_factory.mktemp("two") / "two.db", epsilon=9.0, delta=1e-4)


def refused() -> Any:
    return pytest.raises(dp.LedgerError, match=r"the ledger to charge is unclear.*Pass ledger=")


def in_thread(work: Callable[[], Any]) -> Any:
    """What a plain thread, which inherits no context, makes of it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def released() -> str:
    """The ledger that a release of here charged."""
    held = dp.hhh(FRAME, ["a"], epsilon=0.1, delta=1e-8).dp.receipt["ledger"]
    return str(held["id"])


# -- tasks, threads and executors ------------------------------------------------------------------


def test_tasks_that_work_through_executors(one: Ledger, two: Ledger) -> None:
    """Law: a worker without a context is refused; with one it charges the ledger of its task."""

    async def tenant(ledger: Ledger, met: asyncio.Barrier) -> list[str]:
        loop = asyncio.get_running_loop()
        with dp.use_ledger(ledger):
            await met.wait()  # both have chosen
            with refused():
                await loop.run_in_executor(None, released)
            handed = contextvars.copy_context().run
            ids = [
                await loop.run_in_executor(None, handed, released),
                await asyncio.to_thread(released),
                await asyncio.create_task(asyncio.to_thread(released)),
                released(),
            ]
            await met.wait()
            return ids

    async def both() -> list[list[str]]:
        met = asyncio.Barrier(2)
        return await asyncio.gather(tenant(one, met), tenant(two, met))

    before = one.spent.epsilon, two.spent.epsilon
    assert asyncio.run(both()) == [[one.ledger_id] * 4, [two.ledger_id] * 4]
    assert one.spent.epsilon == pytest.approx(before[0] + 0.4)
    assert two.spent.epsilon == pytest.approx(before[1] + 0.4)
    assert in_thread(current_ledger) is None  # when nobody uses one any more


@pytest.mark.parametrize("way", ["block", "statement", "block of none"])
def test_who_chose_nothing_is_refused_while_another_chose(one: Ledger, way: str) -> None:
    """Law: one tenant alone is not taken for everybody; ledger= and an own choice go before."""

    def other() -> None:
        if way == "block of none":
            assert in_thread(current_ledger) is None  # none is what everybody has
            return
        with refused():
            in_thread(current_ledger)
        with dp.use_ledger(None):
            assert current_ledger() is None
        with dp.use_ledger(one):
            assert current_ledger() is one

    def tenant() -> None:
        if way == "statement":
            dp.use_ledger(one)
            in_thread(other)
            return
        with dp.use_ledger(None if way == "block of none" else one):
            in_thread(other)

    contextvars.Context().run(tenant)
    assert in_thread(current_ledger) is None


def test_a_task_keeps_the_ledger_it_was_started_with(one: Ledger) -> None:
    """Law: what a block started goes on charging its ledger when the block has ended."""

    async def later(over: asyncio.Event) -> Ledger | None:
        await over.wait()
        return current_ledger()

    async def main() -> Ledger | None:
        over = asyncio.Event()
        with dp.use_ledger(one):
            task = asyncio.create_task(later(over))
        over.set()
        return await task

    assert asyncio.run(main()) is one


def at_top_level(statement: str, **names: object) -> None:
    """Run a statement as a script or a cell does: in a context that nobody sees again."""
    contextvars.Context().run(exec, statement, {"__name__": "__main__", "dp": dp, **names})


@pytest.fixture
def no_program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has chosen: neither a context of another test that something keeps, nor a statement of
    another test in this very context, which a block would make anew when it ends."""
    monkeypatch.setattr(current, "_choices", weakref.WeakSet())
    monkeypatch.setattr(current, "_here", contextvars.ContextVar("dpframe_ledger", default=()))
    yield
    at_top_level("dp.use_ledger(None)")


def test_a_statement_at_the_top_level_is_the_choice_of_the_program(
    one: Ledger, two: Ledger, no_program: None
) -> None:
    """Law: later cells and plain threads use it, the last one counts, other choices contest it."""
    for ledger in (one, two):
        at_top_level("dp.use_ledger(ledger)", ledger=ledger)
        assert contextvars.Context().run(current_ledger) is ledger
        assert in_thread(current_ledger) is ledger
    with dp.use_ledger(one):
        assert current_ledger() is one
        with refused():
            in_thread(current_ledger)
    at_top_level("with dp.use_ledger(ledger): pass", ledger=one)
    assert in_thread(current_ledger) is two
    shell = contextvars.Context()  # some kernels run cells in one context, and those that await not
    shell.run(exec, "dp.use_ledger(ledger)", {"__name__": "__main__", "dp": dp, "ledger": one})
    at_top_level("dp.use_ledger(ledger)", ledger=two)
    assert shell.run(current_ledger) is two
    contextvars.Context().run(lambda: dp.use_ledger(one))  # in a function: not the program
    assert in_thread(current_ledger) is two


def test_a_context_that_is_over_contests_nothing(one: Ledger) -> None:
    """Not even while the garbage of a failed call, a cycle with its traceback, holds it."""

    def fails() -> None:
        dp.use_ledger(one)
        raise KeyError

    context = contextvars.Context()
    gc.disable()
    try:
        try:
            context.run(fails)
        except KeyError as error:
            cycle: list[object] = [error, context]
            cycle.append(cycle)
        with refused():
            in_thread(current_ledger)  # it could still run
        del cycle, context
        assert in_thread(current_ledger) is None
    finally:
        gc.enable()


# -- generators ------------------------------------------------------------------------------------


def charging(ledger: Ledger | None) -> Iterator[Ledger | None]:
    with dp.use_ledger(ledger):
        while True:
            yield current_ledger()


def test_interleaved_generators_never_charge_each_other(one: Ledger, two: Ledger) -> None:
    """Law: a generator in whose block another one has entered its own is refused, until it left."""
    first, second = charging(one), charging(two)
    assert next(first) is next(first) is one
    assert next(second) is two
    other = charging(one)
    assert next(other) is one
    with refused():
        next(second)  # `other` entered later
    other.close()
    with refused():
        current_ledger()  # of whom it is, between them, nobody can say
    del first, second
    assert current_ledger() is None


@pytest.mark.parametrize("order", [1, -1])
def test_generators_may_end_in_any_order(one: Ledger, two: Ledger, order: int) -> None:
    """Law: whoever ends takes along its own choice and no other one."""
    with dp.use_ledger(one):
        first, second = [charging(one), charging(two)][::order]
        next(first), next(second)
        first.close()
        assert next(second) is (two if order == 1 else one)
        second.close()
        assert current_ledger() is one
    assert current_ledger() is None


def test_a_suspended_generator_does_not_switch_the_ledger_off(one: Ledger) -> None:
    """Law: beside a suspended ``use_ledger(None)`` no release goes untracked."""
    with dp.use_ledger(one):
        untracked = charging(None)
        next(untracked)
        with refused():
            released()
        with dp.use_ledger(one):
            assert current_ledger() is one
        untracked.close()
        assert current_ledger() is one


def test_a_generator_read_in_a_block_of_another(one: Ledger, two: Ledger) -> None:
    """Law: the text of the generator says one ledger, the context another: refused."""
    rows = charging(one)
    assert next(rows) is one
    with dp.use_ledger(two), refused():
        next(rows)
    assert current_ledger() is None


async def charging_slowly(ledger: Ledger) -> AsyncIterator[Ledger | None]:
    with dp.use_ledger(ledger):
        while True:
            await asyncio.sleep(0)
            yield current_ledger()


@pytest.mark.parametrize("outer", [False, True])
def test_an_async_generator_closed_by_another_task(one: Ledger, two: Ledger, outer: bool) -> None:
    """Law: it ends without an error, its choice is gone, and no other one is."""

    async def close(rows: Any) -> Ledger | None:
        with dp.use_ledger(two):
            await rows.aclose()
            return current_ledger()

    async def main() -> None:
        rows = charging_slowly(one)
        assert await anext(rows) is one
        with refused():
            current_ledger()
        copied = contextvars.copy_context()
        assert await asyncio.create_task(close(rows)) is two
        assert current_ledger() is (two if outer else None)
        with refused():
            copied.run(current_ledger)  # a copy of the time when it was open

    async def within() -> None:
        if not outer:
            return await main()
        with dp.use_ledger(two):
            await main()
        return None

    asyncio.run(within())
    assert current_ledger() is None


def test_an_async_generator_read_by_another_task(one: Ledger, two: Ledger) -> None:
    """Law: with nothing chosen there, its own block counts; beside another choice it is refused."""

    async def read(rows: Any, ledger: Ledger | None) -> Ledger | None:
        if ledger is not None:
            dp.use_ledger(ledger)
        found: Ledger | None = await anext(rows)
        return found

    async def main() -> None:
        rows = charging_slowly(one)
        fresh = contextvars.Context()
        assert await asyncio.create_task(read(rows, None), context=fresh) is one
        assert await asyncio.create_task(read(rows, None), context=contextvars.Context()) is one
        with refused():
            await asyncio.create_task(read(rows, two), context=contextvars.Context())

    asyncio.run(main())


def test_context_managers_made_of_generators_nest(one: Ledger, two: Ledger) -> None:
    """Law: what contextlib makes of a generator is a block like any other."""

    @contextmanager
    def tenant(ledger: Ledger) -> Iterator[None]:
        with dp.use_ledger(ledger):
            yield

    @asynccontextmanager
    async def guest(ledger: Ledger) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        with dp.use_ledger(ledger):
            yield
        await asyncio.sleep(0)

    def rows() -> Iterator[Ledger | None]:
        with tenant(two):
            yield current_ledger()

    async def main() -> None:
        async with guest(one):
            assert await asyncio.to_thread(current_ledger) is one
            async with guest(two):
                assert current_ledger() is two
            assert current_ledger() is one

    with tenant(one):
        assert current_ledger() is one
        with tenant(two):
            assert current_ledger() is two
        assert current_ledger() is one
        waiting = rows()
        assert next(waiting) is two
        with refused():
            current_ledger()
    assert list(waiting) == []
    assert current_ledger() is None
    asyncio.run(main())


# -- statements ------------------------------------------------------------------------------------


def test_a_statement_in_a_block_ends_with_it(one: Ledger, two: Ledger) -> None:
    """Law: also when it is made in a function that the block calls, and in one that it nests in."""
    with dp.use_ledger(one):
        dp.use_ledger(None)
        assert current_ledger() is None
        (lambda: dp.use_ledger(two))()
        assert current_ledger() is two
        with dp.use_ledger(one):
            dp.use_ledger(None)
        assert current_ledger() is two
    assert current_ledger() is None


def test_one_object_in_several_tasks(one: Ledger) -> None:
    """Law: a task that leaves its block takes no other one's choice along."""

    async def work(use: dp.use_ledger, first: bool, met: asyncio.Barrier) -> Ledger | None:
        with use:
            await met.wait()
            if first:
                return current_ledger()
        with use:
            await asyncio.sleep(0.01)
            return current_ledger()

    async def main() -> list[Ledger | None]:
        use, met = dp.use_ledger(one), asyncio.Barrier(2)
        return await asyncio.gather(work(use, True, met), work(use, False, met))

    assert asyncio.run(main()) == [one, one]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_choice_does_not_travel(one: Ledger, way: Callable[[object], object]) -> None:
    """Law: a copy would choose somewhere without being asked; the error says what to send."""
    with dp.use_ledger(one):
        use = dp.use_ledger(one)
        with pytest.raises(dp.ParameterTypeError, match=r"Pass the ledger on"):
            way(use)
    assert current_ledger() is None
