"""How much memory a process and all its descendants hold, for machines where no cgroup counts it."""

import contextlib
import os

_PAGE = os.sysconf("SC_PAGE_SIZE")


def exceeds(first: int, limit: int) -> bool:
    """Whether the tree below process `first` holds more than `limit` bytes, counting shared pages once.

    Resident sizes are cheap but count shared pages for everybody; only when they exceed are true shares read.
    """
    tree = _tree(first)
    return sum(map(_resident, tree)) > limit and sum(map(_proportional, tree)) > limit


def _tree(first: int) -> list[int]:
    tree = [first]
    for pid in tree:  # grows while it is walked
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                tree += map(int, _content(f"/proc/{pid}/task/{task}/children").split())
    return tree


def _resident(pid: int) -> int:
    fields = _content(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _proportional(pid: int) -> int:
    lines = _content(f"/proc/{pid}/smaps_rollup").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _content(path: str) -> str:
    """The file's text; empty when the process has gone."""
    try:
        with open(path) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""
