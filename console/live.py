"""The live screen of a run: progress events in, a few lines out.

assay.progress.emit -> Picture.apply -> Picture.lines -> rich Live on a terminal, plain lines elsewhere
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from assay.progress import Event, listening
from console.output import clock, say
from console.picture import Picture

PLAIN_EVERY_S = 5.0


class PlainLines:
    """Says a stage's line when it changed: at once when the stage is complete, else every few seconds."""

    def __init__(self, picture: Picture, write: Callable[[str], None] = say) -> None:
        self._picture = picture
        self._write = write
        self._said: dict[str, tuple[float, str]] = {}

    def __call__(self, event: Event) -> None:
        self._picture.apply(event)
        line = self._picture.line(event.stage)
        at_s, before = self._said.get(event.stage, (-PLAIN_EVERY_S, ""))
        complete = event.data.get("done") == event.data.get("total")
        if line and line != before and (complete or event.at_s - at_s >= PLAIN_EVERY_S):
            self._said[event.stage] = (event.at_s, line)
            self._write(f"{clock(event.at_s - self._picture.begin_s):>6}  {line}")


@contextmanager
def shown(picture: Picture) -> Iterator[None]:
    """Show `picture` on stderr while the block runs: a live screen on a terminal, plain lines elsewhere."""
    if not sys.stderr.isatty():
        with listening(PlainLines(picture)):
            yield
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    def screen() -> Group:
        lines = picture.lines(time.monotonic())
        return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))

    live = Live(get_renderable=screen, console=Console(stderr=True), refresh_per_second=4)
    with listening(picture.apply), live:
        yield
