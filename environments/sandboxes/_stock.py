"""How many sandboxes of which kind to have ready before anybody asks: as many as were lately asked for at once.

taken(kind)    somebody got one: ready, or made on the spot because none was
lacking()      the kind of which one should be made now
forgotten()    the kinds nobody asks for any more
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Stock(Generic[K, T]):
    """Ready things by kind, at most `most` in all, each kind dropped when nobody took one for `idle_s` seconds."""

    def __init__(self, most: int, idle_s: float, clock: Callable[[], float]) -> None:
        self._most, self._idle_s, self._clock = most, idle_s, clock
        self._ready: dict[K, deque[T]] = {}
        self._target: dict[K, int] = {}
        self._taken_at: dict[K, float] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ready.values()))

    def take(self, kind: K) -> T | None:
        """A ready one, never given out before; None when there is none, whereupon more are kept of this kind."""
        self._taken_at[kind] = self._clock()
        ready = self._ready.setdefault(kind, deque())
        self._target.setdefault(kind, 1)
        if ready:
            return ready.popleft()
        self._target[kind] = min(self._most, self._target[kind] + 1)
        return None

    def add(self, kind: K, thing: T) -> None:
        """One more is ready."""
        self._ready.setdefault(kind, deque()).append(thing)

    def all(self) -> list[T]:
        """Everything that is ready; the stock holds nothing any more."""
        everything = [thing for ready in self._ready.values() for thing in ready]
        for ready in self._ready.values():
            ready.clear()
        return everything

    def discard(self, thing: T) -> None:
        """It is no longer fit to be given out."""
        for ready in self._ready.values():
            if thing in ready:
                ready.remove(thing)

    def lacking(self) -> K | None:
        """The kind asked for last that has fewer ready than wanted, while there is room."""
        if len(self) >= self._most:
            return None
        for kind in sorted(self._target, key=lambda k: -self._taken_at[k]):
            if len(self._ready[kind]) < self._target[kind]:
                return kind
        return None

    def forgotten(self) -> list[T]:
        """What is ready of kinds that nobody takes any more; the stock no longer holds it."""
        now = self._clock()
        old = [kind for kind, at in self._taken_at.items() if now - at > self._idle_s]
        for kind in old:
            del self._target[kind], self._taken_at[kind]
        return [thing for kind in old for thing in self._ready.pop(kind)]
