"""Keys and values of contexts already computed, so that a prompt which begins like one of them starts from there.

A causal model's keys and values of the first n tokens do not depend on what follows: any stored context serves every
prompt it shares a beginning with (a common instruction, an earlier turn).
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class Context:
    """A shared `segment` [L, 2, Hkv, S, D] and what one row added to it, `tail` [L, 2, Hkv, T, D] (T may be 0)."""

    token_ids: tuple[int, ...]
    segment: torch.Tensor
    tail: torch.Tensor

    @property
    def num_bytes(self) -> int:
        """What it adds to memory: a segment is counted with the context that is nothing but it."""
        return self.tail.nbytes or self.segment.nbytes


class PrefixCache:
    """Least recently used contexts are dropped beyond `max_bytes`. Safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._contexts: OrderedDict[tuple[int, ...], tuple[Context, np.ndarray]] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def put(self, context: Context) -> None:
        with self._lock:
            self._forget(context.token_ids)
            self._contexts[context.token_ids] = (context, np.asarray(context.token_ids))
            self._num_bytes += context.num_bytes
            while self._num_bytes > self.max_bytes:
                self._forget(next(iter(self._contexts)))

    def longest(self, prompt_ids: tuple[int, ...]) -> tuple[Context | None, int]:
        """The context that shares most first tokens with the prompt, and how many (0 when None)."""
        wanted = np.asarray(prompt_ids)
        best, best_length = None, 0
        with self._lock:
            for context, ids in self._contexts.values():
                length = _common_length(wanted, ids)
                if length > best_length:
                    best, best_length = context, length
            if best is not None:
                self._contexts.move_to_end(best.token_ids)
        return best, best_length

    def clear(self) -> None:
        """Forget all: other weights were loaded."""
        with self._lock:
            self._contexts.clear()
            self._num_bytes = 0

    def _forget(self, token_ids: tuple[int, ...]) -> None:
        old = self._contexts.pop(token_ids, None)
        if old is not None:
            self._num_bytes -= old[0].num_bytes


def _common_length(a: np.ndarray, b: np.ndarray) -> int:
    shorter = min(len(a), len(b))
    differs = a[:shorter] != b[:shorter]
    return int(differs.argmax()) if differs.any() else shorter
