"""Sandboxes created ahead: never used twice, as many as are asked for, gone when nobody asks."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import SandboxLaunchError
from environments.sandboxes._pool import Pool
from environments.sandboxes._stock import Stock
from environments.sandboxes.base import Backend, Limits, Sandbox, SandboxSpec
from tests.builders import ToyBackend
from tests.environments.sandboxes.probing import until


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def stock(most: int = 4) -> tuple[Stock[str, int], Clock]:
    clock = Clock()
    return Stock[str, int](most, 10.0, clock), clock


def refill(shelf: Stock[str, int], numbers: list[int]) -> None:
    while (kind := shelf.lacking()) is not None:
        numbers.append(len(numbers))
        shelf.add(kind, numbers[-1])


def test_nothing_is_kept_before_somebody_asked() -> None:
    assert stock()[0].lacking() is None


def test_more_are_kept_when_one_was_missing() -> None:
    shelf, _ = stock()
    numbers: list[int] = []
    assert shelf.take("a") is None
    refill(shelf, numbers)
    assert len(shelf) == 2
    assert [shelf.take("a"), shelf.take("a"), shelf.take("a")] == [0, 1, None]
    refill(shelf, numbers)
    assert len(shelf) == 3


def test_kinds_that_nobody_asks_for_are_let_go() -> None:
    shelf, clock = stock()
    shelf.take("old")
    refill(shelf, [])
    clock.now = 6
    shelf.take("new")
    clock.now = 11
    assert shelf.forgotten() == [0, 1]
    assert shelf.forgotten() == []
    assert shelf.lacking() == "new"


def test_the_last_asked_for_comes_first_when_there_is_no_room_for_all() -> None:
    shelf, clock = stock(most=2)
    shelf.take("a")
    clock.now = 1
    shelf.take("b")
    assert shelf.lacking() == "b"


@given(st.lists(st.sampled_from("abc|")), st.integers(0, 5))
def test_no_thing_is_given_out_twice_and_there_are_never_too_many(wishes: list[str], most: int) -> None:
    shelf, clock = stock(most)
    numbers, given_out = list[int](), list[int]()
    for wish in wishes:
        clock.now += 1
        if wish == "|":
            refill(shelf, numbers)
        elif (thing := shelf.take(wish)) is not None:
            given_out.append(thing)
        assert len(shelf) <= most
    assert len(set(given_out)) == len(given_out)


@pytest.fixture
async def pool(backend: Backend) -> AsyncIterator[Pool]:
    made = Pool(backend)
    yield made
    await made.drain()


async def test_a_sandbox_that_waited_is_as_fresh_as_a_new_one(pool: Pool) -> None:
    spec = SandboxSpec(files={"f": "x"}, env={"A": "1"}, limits=Limits(max_processes=20))
    seen = set()
    for _ in range(4):
        sandbox = await pool.create(spec)
        assert (await sandbox.exec("cat f; echo $A; ls -A /tmp | wc -l")).stdout == "x1\n0\n"
        await sandbox.exec("echo y > f; touch /tmp/left")
        seen.add(sandbox.id)
        await until(lambda: pool._stock.lacking() is None)
        await sandbox.destroy()
    assert len(seen) == 4


async def test_restoring_brings_back_the_files_that_were_asked_for(pool: Pool) -> None:
    await (await pool.create(SandboxSpec())).destroy()
    await until(lambda: pool._stock.lacking() is None)
    sandbox = await pool.create(SandboxSpec(files={"f": "x"}))
    if "snapshot" in sandbox.capabilities:
        await sandbox.exec("rm f")
        await sandbox.restore()
        assert await sandbox.read("f") == b"x"
    await sandbox.destroy()


async def test_draining_leaves_no_sandbox() -> None:
    backend = ToyBackend()
    pool = Pool(backend, most=3)
    made = [await pool.create(SandboxSpec()) for _ in range(5)]
    await until(lambda: pool._stock.lacking() is None)
    assert len(backend.alive) == 5 + 3
    await pool.drain()
    assert backend.alive == {sandbox.id for sandbox in made}


async def test_a_place_that_cannot_be_made_is_told_to_who_asks_and_not_tried_for_ever() -> None:
    backend = ToyBackend(fails=lambda n: n >= 1)
    pool = Pool(backend)
    first: Sandbox = await pool.create(SandboxSpec())
    with pytest.raises(SandboxLaunchError, match="failed"):
        await pool.create(SandboxSpec())
    await asyncio.sleep(0.01)
    assert backend.num_created < 8
    await pool.drain()
    assert backend.alive == {first.id}
