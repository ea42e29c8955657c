"""Makes and removes the supervisor's boxes: users, files, cgroups, and what this machine can do with them."""

import itertools
import os
from typing import Literal

from environments.sandboxes._boxes import Files, Place
from environments.sandboxes._cell import Box
from environments.sandboxes._cgroups import Cgroups
from environments.sandboxes._jail import Jail
from environments.sandboxes._users import of_layers, throwaway

_LIMITS = (
    "cpu_s_per_process",
    "disk_bytes",
    "max_file_bytes",
    "max_open_files",
    "max_processes",
    "output",
    "wall_time",
)


class Keeper:
    """Knows what a box is made of; `first_uid` begins the series of throw-away users."""

    def __init__(self, jail: Jail, cgroups: Cgroups | None, first_uid: int) -> None:
        self._jail, self._cgroups = jail, cgroups
        self._as_root = os.getuid() == 0
        self._uids, self._numbers = itertools.count(first_uid), itertools.count()

    def greeting(self) -> dict[str, list[str]]:
        """Limits that hold here and what can be done. Without cgroups memory is limited per process, watched in sum."""
        memory = ["memory_bytes"] if self._cgroups else ["memory_bytes_per_process", "memory_bytes_watched"]
        can = ["session", "mounts", "writable", "own_pids", *(["cgroup"] if self._cgroups else [])]
        if not self._jail.overlays and (not self._as_root or self._cgroups or _may_limit_others()):
            can += ["layers", "snapshot", "fork", "image"]
        return {"limits": sorted([*_LIMITS, *memory]), "capabilities": sorted(can)}

    def make(self, place: Place, parent: Box | None) -> Box:
        """A box at `place`, going on from the frozen files of `parent` if given. Raises OSError."""
        shared = of_layers()
        if parent:
            owner = parent.files.owner
        else:
            owner = throwaway(next(self._uids)) if self._as_root and not (place.layers or place.image) else shared
        count = self._count(owned=parent is None and owner != shared)
        limits, group = dict(place.limits), f"box{next(self._numbers)}"
        files = Files(group, place, self._jail, owner, parent.files if parent else None)
        try:
            if self._cgroups:
                memory = limits["memory_bytes"] + limits["disk_bytes"]
                self._cgroups.create(group, memory=memory, pids=limits["max_processes"])
        except OSError:
            files.remove()
            raise
        return Box(group=group, files=files, limits=limits, count=count)

    def _count(self, *, owned: bool) -> Literal["before", "after", "group"]:
        """How a box's processes are limited, see `Box`."""
        if owned:
            return "before"
        return "group" if self._as_root and self._cgroups else "after"

    def remove(self, box: Box) -> None:
        """Its processes are gone; now its files and its group."""
        box.files.remove()
        if self._cgroups:
            self._cgroups.remove(box.group)


def _may_limit_others() -> bool:
    """Whether this root may set limits of another user's processes (CAP_SYS_RESOURCE, number 24)."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 24 & 1)
