"""Running many episodes at once: all or nothing on a fault of ours, nothing left behind on cancellation."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")

Clock = Callable[[], float]


def utc_now() -> str:
    """The time of day in UTC, ISO-8601 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


async def run_all(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in the order of `jobs`. The first exception cancels the rest, waits for them and is raised as it is."""
    running = [asyncio.ensure_future(job) for job in jobs]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Slots:
    """A semaphore that hands out several slots at once, first come first served, so that no group starves."""

    def __init__(self, num: int) -> None:
        if num < 1:
            raise ValueError(f"max_concurrency is {num}; at least 1 is needed")
        self.num = num
        self._free = asyncio.Semaphore(num)
        self._turn = asyncio.Lock()

    async def take(self, num: int) -> None:
        """Wait for `num` slots, 1..self.num; on cancellation none of them is kept."""
        taken = 0
        async with self._turn:
            try:
                for _ in range(num):
                    await self._free.acquire()
                    taken += 1
            except asyncio.CancelledError:
                self.give_back(taken)
                raise

    def give_back(self, num: int = 1) -> None:
        for _ in range(num):
            self._free.release()
