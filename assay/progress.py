"""What is going on, told as it happens: stages emit, screens and Prefect artifacts listen.

Emitting never fails and costs nothing when nobody listens.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("assay")


@dataclass(frozen=True, slots=True)
class Event:
    """`stage` is one of inspect, solvability, rollout, verify, gate, train, evaluate, run; `data` its figures."""

    stage: str
    data: dict[str, Any] = field(default_factory=dict)
    at_s: float = field(default_factory=time.monotonic)


Listener = Callable[[Event], None]
_listeners: list[Listener] = []


def emit(stage: str, **data: Any) -> None:
    """Tell every listener; a listener that raises is logged and skipped."""
    event = Event(stage, data)
    for listener in _listeners:
        try:
            listener(event)
        except Exception:
            log.exception("progress listener failed")


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Deliver events to `listener` inside the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
