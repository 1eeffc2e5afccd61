"""``use_ledger``: a call charges the ledger of its own context or none, never another's."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.ledger import Ledger, chosen_ledger, current_ledger

FRAME = pd.DataFrame({"a": ["x"] * 900})


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(tmp_path_factory.mktemp("one") / "one.db", epsilon=9.0, delta=1e-4)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(tmp_path_factory.mktemp("two") / "two.db", epsilon=9.0, delta=1e-4)


def refused(why: str = "a generator cannot choose a ledger") -> Any:
    return pytest.raises(dp.LedgerError, match=rf"{why}.*Pass ledger=")


def in_thread(work: Callable[[], Any]) -> Any:
    """What a plain thread, which inherits no context, makes of it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def released() -> str:
    """The ledger that a release of here charged."""
    held = dp.hhh(FRAME, ["a"], epsilon=0.1, delta=1e-8).dp.receipt["ledger"]
    return "untracked" if held is None else str(held["id"])


# -- tasks, threads and executors ------------------------------------------------------------------


def test_tasks_that_work_through_executors(one: Ledger, two: Ledger) -> None:
    """Law: a worker without a context is untracked; with one it charges the ledger of its task."""

    async def tenant(ledger: Ledger, met: asyncio.Barrier) -> list[str]:
        loop = asyncio.get_running_loop()
        with dp.use_ledger(ledger):
            await met.wait()  # both have chosen
            assert await loop.run_in_executor(None, released) == "untracked"
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


@pytest.mark.parametrize("way", ["block", "statement"])
def test_who_chose_nothing_is_untracked_while_another_chose(one: Ledger, way: str) -> None:
    """Law: one tenant is not taken for everybody, as the receipt says; an own choice counts."""
    before = one.spent.epsilon

    def other() -> None:
        assert released() == "untracked"
        with dp.use_ledger(None):
            assert current_ledger() is None
        with dp.use_ledger(one):
            assert current_ledger() is one

    def tenant() -> None:
        if way == "statement":
            dp.use_ledger(one)
            in_thread(other)
            return
        with dp.use_ledger(one):
            in_thread(other)

    contextvars.Context().run(tenant)
    assert in_thread(current_ledger) is None
    assert one.spent.epsilon == before


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
def no_program() -> Iterator[None]:
    """The program has chosen nothing before and after."""
    dp.default_ledger(None)
    yield
    dp.default_ledger(None)


def test_a_statement_at_the_top_level_is_the_choice_of_the_program(
    one: Ledger, two: Ledger, no_program: None
) -> None:
    """Law: later cells and plain threads use it, the last one counts, also of ``default_ledger``;
    a context that chose has its own."""
    for ledger in (one, two):
        at_top_level("dp.use_ledger(ledger)", ledger=ledger)
        assert contextvars.Context().run(current_ledger) is ledger
        assert in_thread(current_ledger) is ledger
    with dp.use_ledger(one):
        assert current_ledger() is one
        assert in_thread(current_ledger) is two
    with dp.use_ledger(None):
        assert current_ledger() is None
    at_top_level("with dp.use_ledger(ledger): dp.use_ledger(None)", ledger=one)
    assert in_thread(current_ledger) is two
    shell = contextvars.Context()  # some kernels run cells in one context, and those that await not
    shell.run(exec, "dp.use_ledger(ledger)", {"__name__": "__main__", "dp": dp, "ledger": one})
    at_top_level("dp.use_ledger(ledger)", ledger=two)
    assert shell.run(current_ledger) is two
    contextvars.Context().run(lambda: dp.use_ledger(one))  # in a function: not the program
    assert in_thread(current_ledger) is two
    dp.default_ledger(one.path)
    found = in_thread(current_ledger)
    assert found is not None
    assert found.path == one.path
    assert shell.run(current_ledger) is found
    at_top_level("use = dp.use_ledger(ledger)\ndp.use_ledger(None)\nwith use: pass", ledger=two)
    assert in_thread(current_ledger) is None  # the second statement stands


# -- generators ------------------------------------------------------------------------------------


def test_a_generator_cannot_choose(one: Ledger, two: Ledger) -> None:
    """Law: code of others runs while a generator waits, and would charge its ledger; so neither a
    block nor a statement nor an object from elsewhere chooses there, and nothing changes."""
    use = contextvars.Context().run(dp.use_ledger, two)

    def block(ledger: Ledger) -> Iterator[Ledger | None]:
        with dp.use_ledger(ledger):
            yield current_ledger()

    def statement(ledger: Ledger) -> Iterator[Ledger | None]:
        dp.use_ledger(ledger)
        yield current_ledger()

    def elsewhere(ledger: Ledger) -> Iterator[Ledger | None]:
        with use:
            yield current_ledger()

    def stacked(ledger: Ledger) -> Iterator[Ledger | None]:
        with ExitStack() as stack:
            stack.enter_context(dp.use_ledger(ledger))
            yield current_ledger()

    def nested(ledger: Ledger) -> Iterator[Ledger | None]:
        with tenant(ledger):
            yield current_ledger()

    async def slowly(ledger: Ledger) -> AsyncIterator[Ledger | None]:
        with dp.use_ledger(ledger):
            yield current_ledger()

    async def read() -> Ledger | None:
        return await anext(slowly(one))

    with dp.use_ledger(two):
        for rows in (block, statement, elsewhere, stacked, nested):
            with refused():
                next(rows(one))
            assert current_ledger() is two
        with refused():
            asyncio.run(read())
        with refused():
            next(dp.use_ledger(one) for _ in range(1))
        assert current_ledger() is two


@contextmanager
def tenant(ledger: Ledger | None) -> Iterator[None]:
    with dp.use_ledger(ledger):
        yield


def test_generators_charge_the_ledger_of_who_reads_them(one: Ledger, two: Ledger) -> None:
    """Law: what is read in turns charges the reader, or the ledger that the generator passes."""

    def rows(ledger: Ledger | None) -> Iterator[Ledger | None]:
        while True:
            yield chosen_ledger(ledger)

    def here() -> Iterator[Ledger | None]:
        return rows(None)

    fixed, free = rows(two), here()
    with dp.use_ledger(one):
        assert [next(fixed), next(free), next(fixed)] == [two, one, two]
        with dp.use_ledger(two):
            assert [next(fixed), next(free)] == [two, two]
        with dp.use_ledger(None):
            assert [next(fixed), next(free)] == [two, None]
    assert next(free) is None


def test_context_managers_made_of_generators_nest(one: Ledger, two: Ledger) -> None:
    """Law: what contextlib makes of a generator is a block like any other."""

    @asynccontextmanager
    async def guest(ledger: Ledger) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        with dp.use_ledger(ledger):
            yield
        await asyncio.sleep(0)

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
    with suppress(ZeroDivisionError), dp.use_ledger(one.path) as given:
        assert current_ledger() is given
        raise ZeroDivisionError
    assert current_ledger() is None
    asyncio.run(main())


@pytest.mark.parametrize("order", [1, -1])
def test_blocks_may_end_in_any_order(one: Ledger, two: Ledger, order: int) -> None:
    """Law: whoever ends takes along its own choice and no other one."""
    with dp.use_ledger(None):
        ledgers = [one, two][::order]
        first = dp.use_ledger(ledgers[0])
        first.__enter__()
        second = dp.use_ledger(ledgers[1])
        second.__enter__()
        first.__exit__()
        assert current_ledger() is (two if order == 1 else one)
        second.__exit__()
        assert current_ledger() is None


def test_a_block_that_another_context_leaves(one: Ledger, two: Ledger) -> None:
    """Law: a context whose block was left elsewhere is refused until it chooses; no other one."""
    block = contextvars.Context().run(dp.use_ledger, one)

    def tenant() -> None:
        block.__enter__()

    left, entered = contextvars.Context(), contextvars.Context()
    entered.run(tenant)
    assert entered.run(current_ledger) is one
    with dp.use_ledger(two):
        left.run(block.__exit__)
        left.run(block.__exit__)  # once more is no error, and changes nothing
        assert current_ledger() is two
        assert left.run(current_ledger) is None
        with refused("the ledger to charge is unclear"):
            entered.run(current_ledger)
        entered.run(lambda: dp.use_ledger(None))
        assert entered.run(current_ledger) is None


def test_a_block_that_a_task_of_it_leaves(one: Ledger) -> None:
    """Law: a task has a copy of the choice. Whoever entered the block is refused when the task
    leaves it, and the next block of the same object is charged as any other."""
    block = contextvars.Context().run(dp.use_ledger, one)

    def tenant() -> None:
        block.__enter__()
        contextvars.copy_context().run(block.__exit__)
        with refused("the ledger to charge is unclear"):
            current_ledger()

    contextvars.Context().run(tenant)
    with block:
        assert current_ledger() is one
    assert current_ledger() is None


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
