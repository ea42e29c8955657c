"""Sandboxes by Landlock, seccomp and rlimits: weaker, for machines that forbid namespaces, and only by opt-in.

    Landlock --create--> LandlockSandbox --exec--> a guard per command, which confines and then ends it

What holds: only the work dir, a temporary folder, the system's programs and Python are reachable; no socket to other
machines; the system-call filter of bubblewrap; limits per process; nothing of a command outlives its guard.
What does not: host processes can be listed and names of files be tested for; memory in sum is only watched and disk
is not limited; files live in the temporary folder of this machine, whatever `work_dir` says; /proc is closed. Below
Landlock 6 (Linux 6.12) the command of a plain user may signal that user's processes, its guard among them.
"""

import asyncio
import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from assay.errors import AssayError, SandboxLaunchError, SandboxUnavailable
from assay.registry import PluginConfig
from environments.sandboxes import _landlock, _locate, _seccomp
from environments.sandboxes._guarded import (
    GRACE_S,
    GuardedSandbox,
    Slots,
    check_sizes,
    place_files,
    rlimits,
    spec_hash,
    talk,
)
from environments.sandboxes._leftovers import Leftovers
from environments.sandboxes.base import BackendReport, Provenance, SandboxSpec, needed, require

_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from environments.sandboxes._landlock_guard import main; main()"
_ROOT = str(Path(__file__).resolve().parents[2])
_SIGNALS_STAY_INSIDE = 6
_READABLE = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
_READABLE += ["/etc/ld.so.cache", "/etc/alternatives", "/etc/passwd", "/etc/group"]
_DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
_MISSING = (
    "no process namespace (host processes are visible), no private files or host name, no limit of memory in sum or of "
    "disk, and only what the guard finds is killed at the end"
)
_LIMITS = (
    "cpu_s_per_process",
    "max_file_bytes",
    "max_open_files",
    "memory_bytes_per_process",
    "memory_bytes_watched",
    "output",
    "wall_time",
)


class LandlockSandbox(GuardedSandbox):
    """One sandbox; made by `Landlock.create`."""

    def __init__(self, backend: "Landlock", box: str, spec: SandboxSpec, home: Path, python: str) -> None:
        made = Provenance(
            backend=backend.id, version=version(), image_digest="", layer_digests=(), spec_hash=spec_hash(spec)
        )
        super().__init__(box, spec, made, frozenset(), limits_enforced())
        self.work_dir = str(home / "workspace")
        self._backend, self._home, self._python = backend, home, python
        self._guards: set[int] = set()
        if os.getuid() == 0:
            self.user = _own(home)

    async def _converse(self, request: bytes, timeout_s: float, max_reply: int) -> bytes:
        options = {
            "readable": [*_READABLE, self._python],
            "writable": [self.work_dir, str(self._home / "tmp")],
            "devices": _DEVICES,
            "memory_bytes": self._spec.limits.memory_bytes,
        }
        argv = [sys.executable, "-I", "-S", "-c", _CODE, _ROOT, json.dumps(options)]
        env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        async with self._backend.slots.one():
            return await talk(argv, env, request, timeout_s, max_reply, self._guards)

    async def _clean_up(self) -> bool:
        if self.user:
            await asyncio.to_thread(_kill_all_of, *self.user)
        return False

    async def _end(self) -> None:
        end = time.monotonic() + GRACE_S
        while self._guards:
            for guard in list(self._guards):
                _signal(guard, signal.SIGTERM if time.monotonic() < end else signal.SIGKILL)
            await asyncio.sleep(0.01)
        if self._home.exists():
            await self._clean_up()
            await asyncio.to_thread(self._backend.leftovers.remove, self.id)

    def _environment(self) -> dict[str, str]:
        path = f"{self._python}/bin:/usr/local/bin:/usr/bin:/bin"
        return {**super()._environment(), "PATH": path, "TMPDIR": str(self._home / "tmp")}

    def _rlimits(self) -> dict[str, int]:
        wanted = rlimits(self._spec)
        # A plain user's other processes count as well.
        others = 0 if self.user else _num_tasks_of(os.getuid())
        return {**wanted, "RLIMIT_NPROC": wanted["RLIMIT_NPROC"] + others}


class Landlock:
    """Makes sandboxes without namespaces. Refuses to unless the weaker isolation is accepted by name."""

    id: ClassVar[str] = "landlock"

    class Config(PluginConfig):
        """Options of the Landlock backend."""

        i_accept_weaker_isolation: bool = Field(False, description=f"Accept: {_MISSING}")
        max_concurrency: int = Field(0, ge=0, le=4096, description="Commands at once; 0 means two per core")
        python: str = Field("", description="Prefix of the Python inside; empty means one that sandboxes can reach")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._leftovers: Leftovers | None = None
        self.slots = Slots(config.max_concurrency or 2 * (os.cpu_count() or 1))

    @property
    def leftovers(self) -> Leftovers:
        with self._lock:
            if self._leftovers is None:
                self._leftovers = Leftovers("landlock")
            return self._leftovers

    async def create(self, spec: SandboxSpec) -> LandlockSandbox:
        """See `base.Backend`. Raises SandboxUnavailable without the opt-in or where the kernel cannot do it."""
        self._check()
        require(self.id, set(), needed(spec) | ({"image"} if spec.image else set()))
        check_sizes(spec)
        box, python = f"ll_{secrets.token_hex(8)}", _python(self._config.python)
        try:
            home = self.leftovers.add(box)
            sandbox = LandlockSandbox(self, box, spec, _prepared(home), python)
        except OSError as error:
            self.leftovers.remove(box)
            raise SandboxLaunchError(f"No sandbox could be made: {error}; try again.") from error
        await place_files(sandbox, spec)
        return sandbox

    async def probe(self) -> BackendReport:
        """Launch one for real and report. Never raises."""
        try:
            sandbox = await self.create(SandboxSpec())
            try:
                result = await sandbox.exec("exit 0")
            finally:
                await sandbox.destroy()
        except (AssayError, OSError) as error:
            return self._report(False, str(error))
        if result.exit_code != 0:
            return self._report(False, f"/bin/sh does not run: {result.stderr.strip() or result}")
        weak = (
            "" if _landlock.abi() >= _SIGNALS_STAY_INSIDE or os.getuid() == 0 else "; signals reach our own processes"
        )
        return self._report(True, f"weaker isolation: {_MISSING}{weak}")

    def close(self) -> None:
        """End every sandbox that is left. Idempotent."""
        with self._lock:
            if self._leftovers is not None:
                self._leftovers.close()
                self._leftovers = None

    def _check(self) -> None:
        if not self._config.i_accept_weaker_isolation:
            raise SandboxUnavailable(
                f"The sandbox backend 'landlock' isolates less than the others: {_MISSING}. Use another backend, or "
                "accept this with the option i_accept_weaker_isolation=true."
            )
        if sys.platform != "linux" or platform.machine() not in _seccomp.machines() or _landlock.abi() < 1:
            raise SandboxUnavailable(
                f"This kernel ({platform.system()} {platform.release()} on {platform.machine()}) offers no Landlock: "
                "it needs Linux 5.13 with `landlock` among the security modules (boot option lsm=). Nothing weaker is "
                "used instead; choose another backend."
            )

    def _report(self, works: bool, detail: str) -> BackendReport:
        limits = limits_enforced() if works else ()
        return BackendReport(backend=self.id, version=version(), works=works, detail=detail, limits_enforced=limits)


def version() -> str:
    """What confines: Landlock's ABI and the kernel."""
    return f"landlock {_landlock.abi()} (Linux {platform.release()})"


def limits_enforced() -> tuple[str, ...]:
    """Names of the limits that hold here; of processes only where each sandbox has a user of its own."""
    return tuple(sorted([*_LIMITS, *(["max_processes"] if os.getuid() == 0 else [])]))


def _prepared(home: Path) -> Path:
    for name in ("workspace", "tmp"):
        (home / name).mkdir(mode=0o700)
    return home


def _own(home: Path) -> tuple[int, int]:
    """Give the folders to a user that no person has; containers may know small numbers only."""
    for first, count in ((900_000_000, 1 << 24), (61_000, 3000)):
        uid = first + secrets.randbelow(count)
        try:
            for name in ("workspace", "tmp"):
                os.chown(home / name, uid, uid)
        except OSError as error:
            refused = error
        else:
            return uid, uid
    raise refused


def _python(prefix: str) -> str:
    """The prefix to show: the one that runs Assay where a sandbox's user can reach it, else the system's."""
    home = _locate.python_home(prefix)
    reachable = os.getuid() != 0 or all(part.stat().st_mode & 0o001 for part in [home, *home.parents])
    return str(home) if prefix or reachable else "/usr"


def _kill_all_of(uid: int, gid: int) -> None:
    """Kill what a user that no person has still runs. The signal goes to that user's processes only."""
    command = ["/bin/sh", "-c", "kill -9 -1"]
    subprocess.run(command, user=uid, group=gid, extra_groups=[], env={}, cwd="/", check=False, capture_output=True)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _num_tasks_of(uid: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return count
