"""Memory and process limits for a whole sandbox through cgroups, where this process may create them (v1 or v2).

Without them limits hold per process only. Nothing is assumed: a trial group takes a trial process before use.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

_ROOT = "/sys/fs/cgroup"
_V1 = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}
_V2 = {"memory": "memory.max", "pids": "pids.max"}
_V1_COUNTS = {"peak": "memory.max_usage_in_bytes", "oom": "memory.oom_control"}
_V2_COUNTS = {"peak": "memory.peak", "oom": "memory.events"}


@dataclass(frozen=True)
class Usage:
    """Memory figures of a group; the peak in bytes, None where the kernel keeps none."""

    peak_memory_bytes: int | None
    num_oom_kills: int


class Cgroups:
    """Makes one group per sandbox below `assay-PID`. `parents` are the directories, one per controller (v1) or one."""

    def __init__(self, parents: Mapping[str, str], files: Mapping[str, str]) -> None:
        self._parents, self._files = parents, files

    def create(self, name: str, *, memory: int, pids: int) -> None:
        """A group with at most `memory` bytes and `pids` processes. Raises OSError."""
        for controller, limit in (("memory", memory), ("pids", pids)):
            group = os.path.join(self._parents[controller], name)
            os.makedirs(group, exist_ok=True)
            _write(os.path.join(group, self._files[controller]), limit)
            if controller == "memory":
                _forbid_swap(group, memory)

    def add(self, name: str, pid: int) -> None:
        """Put a process, and so all its later children, into the group."""
        for parent in set(self._parents.values()):
            _write(os.path.join(parent, name, "cgroup.procs"), pid)

    def doors(self, name: str) -> list[str]:
        """The files through which a process enters the group: it writes "0" there."""
        return [os.path.join(parent, name, "cgroup.procs") for parent in dict.fromkeys(self._parents.values())]

    def usage(self, name: str) -> Usage:
        """What the group's processes used so far."""
        group = os.path.join(self._parents["memory"], name)
        counts = _read(group, self._files["oom"]).splitlines()
        kills = [line.split()[1] for line in counts if line.startswith("oom_kill ")]
        peak = _read(group, self._files["peak"])
        return Usage(peak_memory_bytes=int(peak) if peak else None, num_oom_kills=int(kills[0]) if kills else 0)

    def forget_peak(self, name: str) -> None:
        """Let the peak be measured anew, where the kernel can (v1, and v2 of newer kernels)."""
        with contextlib.suppress(OSError):
            _write(os.path.join(self._parents["memory"], name, self._files["peak"]), 0)

    def remove(self, name: str) -> None:
        """Remove an empty group; the kernel may need a moment after the last process."""
        for parent in set(self._parents.values()):
            _remove(os.path.join(parent, name))

    def close(self) -> None:
        """Remove the parent directories with every group left in them."""
        for parent in set(self._parents.values()):
            with contextlib.suppress(FileNotFoundError):
                for entry in os.scandir(parent):
                    if entry.is_dir():
                        _remove(entry.path)
            _remove(parent)


def delegated() -> Cgroups | None:
    """Cgroups that were seen to work just now, or None where this process may not create any."""
    for build in (_version_1, _version_2):
        try:
            groups = build(f"assay-{os.getpid()}")
        except OSError:
            continue
        if _works(groups):
            return groups
        groups.close()
    return None


def _version_1(name: str) -> Cgroups:
    groups = Cgroups({controller: os.path.join(_ROOT, controller, name) for controller in _V1}, _V1 | _V1_COUNTS)
    try:
        for controller in _V1:
            _sweep(os.path.join(_ROOT, controller))
            os.mkdir(os.path.join(_ROOT, controller, name))
    except OSError:
        groups.close()
        raise
    return groups


def _version_2(name: str) -> Cgroups:
    _sweep(_ROOT)
    parent = os.path.join(_ROOT, name)
    os.mkdir(parent)
    groups = Cgroups(dict.fromkeys(_V2, parent), _V2 | _V2_COUNTS)
    try:
        _write(os.path.join(parent, "cgroup.subtree_control"), "+memory +pids")
    except OSError:
        groups.close()
        raise
    return groups


def _works(groups: Cgroups) -> bool:
    trial = os.fork()
    if trial == 0:
        time.sleep(5)
        os._exit(0)
    try:
        groups.create("trial", memory=1 << 26, pids=8)
        groups.add("trial", trial)
    except OSError:
        return False
    finally:
        os.kill(trial, 9)
        os.waitpid(trial, 0)
    groups.remove("trial")
    return True


def _sweep(root: str) -> None:
    """Remove groups whose supervisor was killed before it could."""
    for entry in os.scandir(root):
        prefix, _, pid = entry.name.partition("-")
        if prefix == "assay" and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            Cgroups({"all": entry.path}, {}).close()


def _forbid_swap(group: str, memory: int) -> None:
    # Absent or refused where the kernel does not account swap; memory itself stays limited.
    for name, value in (("memory.memsw.limit_in_bytes", memory), ("memory.swap.max", 0)):
        with contextlib.suppress(OSError):
            _write(os.path.join(group, name), value)


def _remove(path: str) -> None:
    for _ in range(50):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.002)
        else:
            return


def _read(group: str, file: str) -> str:
    """Empty where this version has no such file."""
    try:
        with open(os.path.join(group, file)) as opened:
            return opened.read()
    except OSError:
        return ""


def _write(path: str, value: int | str) -> None:
    with open(path, "w") as file:
        file.write(str(value))
