"""Sandboxes by gVisor's runsc: system calls go to a kernel of their own, at about 0.2 s per sandbox; for root.

    GVisor --create--> runsc create, start (a sleeping init) --exec--> runsc exec: the guard, in a process namespace

The root is read-only: this machine's /usr, or a folder given as image (which needs python3 in it). Never `runsc do`,
which shows the whole host. The state of runsc lives in a folder of the backend's own; a process beside us deletes
what is left there, also when we are killed.
"""

import asyncio
import functools
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from assay.errors import AssayError, SandboxLaunchError, SandboxUnavailable
from assay.registry import PluginConfig
from environments.sandboxes import _bundle, _locate
from environments.sandboxes._guarded import (
    GUARD,
    GuardedSandbox,
    Slots,
    check_sizes,
    place_files,
    spec_hash,
    talk,
)
from environments.sandboxes._leftovers import Leftovers
from environments.sandboxes._tree_hash import TreeHash
from environments.sandboxes.base import BackendReport, Provenance, SandboxSpec, needed, require

_INSTALL = (
    "Install it: `apt-get install runsc` on Debian, or https://gvisor.dev/docs/user_guide/install elsewhere; "
    "runsc must be on PATH."
)
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
# What the guard needs to make a process namespace and to become the command's user; the command has none of it.
_GUARDS_RIGHTS = ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL")
_START_S = 60.0
_CAPABILITIES = frozenset({"image", "mounts", "own_pids", "own_kernel"})
_LIMITS = (
    "cpu_s_per_process",
    "disk_bytes_per_place",
    "max_file_bytes",
    "max_open_files",
    "max_processes",
    "memory_bytes_per_process",
    "output",
    "wall_time",
)


class GVisorSandbox(GuardedSandbox):
    """One sandbox; made by `GVisor.create`."""

    own_pids = True
    user = (_bundle.INSIDE_ID, _bundle.INSIDE_ID)

    def __init__(self, backend: "GVisor", box: str, spec: SandboxSpec) -> None:
        image = folder_digest(spec.image) if spec.image else ""
        mounts = {inside: folder_digest(source) for inside, source in spec.mounts.items()}
        made = Provenance(
            backend=backend.id,
            version=backend.version,
            image_digest=image,
            layer_digests=(),
            spec_hash=spec_hash(spec, image, mounts),
        )
        super().__init__(box, spec, made, backend.capabilities, backend.limits)
        self._backend = backend
        self._execs: set[int] = set()

    async def _converse(self, request: bytes, timeout_s: float, max_reply: int) -> bytes:
        environment = self._environment()
        options = [word for right in _GUARDS_RIGHTS for word in ("-cap", right)]
        options += [word for name in environment for word in ("-env", f"{name}={environment[name]}")]
        command = ["exec", "-user", "0:0", "-cwd", "/", *options, self.id, "python3", "-I", "-S", "-c", GUARD]
        async with self._backend.slots.one():
            return await talk(self._backend.runsc(*command), _ENV, request, timeout_s, max_reply, self._execs)

    def _rlimits(self) -> dict[str, int]:
        wanted = super()._rlimits()
        # gVisor counts a process only after it is there, so one more would pass.
        return {**wanted, "RLIMIT_NPROC": max(1, wanted["RLIMIT_NPROC"] - 1)}

    async def _clean_up(self) -> bool:
        return await asyncio.to_thread(_met_memory_limit, self.id)

    async def _end(self) -> None:
        await asyncio.to_thread(self._backend.remove, self.id)

    def _environment(self) -> dict[str, str]:
        return super()._environment() | ({} if self._spec.image else self._backend.python_variables)


class GVisor:
    """Makes sandboxes through one runsc; `platform` is how it catches system calls."""

    id: ClassVar[str] = "gvisor"

    class Config(PluginConfig):
        """Options of the gVisor backend."""

        runsc: str = Field("runsc", description="Name on PATH or path of the runsc binary")
        platform: Literal["auto", "systrap", "ptrace", "kvm"] = Field(
            "auto", description="How system calls are caught; auto takes systrap where this runsc knows it, else ptrace"
        )
        max_concurrency: int = Field(0, ge=0, le=4096, description="Commands at once; 0 means two per core")
        python: str = Field("", description="Prefix of the Python inside; empty means the one that runs Assay, bare")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._leftovers: Leftovers | None = None
        self._binary = self._platform = self.version = ""
        self._cgroups = True
        self.python_variables: dict[str, str] = {}
        self._python: Mapping[str, Any] = {}
        self.slots = Slots(config.max_concurrency or 2 * (os.cpu_count() or 1))

    @property
    def capabilities(self) -> frozenset[str]:
        """What its sandboxes can; known after the first."""
        return _CAPABILITIES | ({"cgroup"} if self._cgroups else set())

    @property
    def limits(self) -> tuple[str, ...]:
        """Names of the limits that hold; known after the first sandbox. Each writable place has its own disk limit."""
        return tuple(sorted([*_LIMITS, *(["memory_bytes"] if self._cgroups else [])]))

    def runsc(self, *arguments: str) -> list[str]:
        """A command line of runsc with our state folder and without network."""
        assert self._leftovers is not None
        options = ["--root", f"{self._leftovers.folder}/state", "--network", "none", "--platform", self._platform]
        return [self._binary, *options, *([] if self._cgroups else ["--ignore-cgroups"]), *arguments]

    async def create(self, spec: SandboxSpec) -> GVisorSandbox:
        """See `base.Backend`."""
        await asyncio.to_thread(self._started)
        require(self.id, self.capabilities, needed(spec))
        check_sizes(spec)
        box = await self._launched(spec)
        sandbox = await asyncio.to_thread(GVisorSandbox, self, box, spec)
        await place_files(sandbox, spec)
        return sandbox

    async def probe(self) -> BackendReport:
        """Launch one for real and report. Never raises."""
        try:
            sandbox = await self.create(SandboxSpec())
            try:
                result = await sandbox.exec(["python3", "-I", "-S", "-c", _TRIAL])
            finally:
                await sandbox.destroy()
        except (AssayError, OSError) as error:
            return self._report(False, str(error))
        if result.exit_code != 0:
            return self._report(False, f"Python does not run inside: {result.stderr.strip() or result}")
        return self._report(True, f"platform {self._platform}, Python {result.stdout.strip()} inside")

    def remove(self, box: str) -> None:
        """Delete a sandbox with everything in it; it may be gone already. Raises SandboxLaunchError."""
        if self._leftovers is None or not (self._leftovers.folder / box).exists():
            return
        self._call("delete", "--force", box)
        self._leftovers.remove(box)

    def close(self) -> None:
        """End every sandbox that is left. Idempotent."""
        with self._lock:
            if self._leftovers is not None:
                self._leftovers.close()
                self._leftovers = None

    def _report(self, works: bool, detail: str) -> BackendReport:
        return BackendReport(
            backend=self.id,
            version=self.version or "none",
            works=works,
            detail=detail,
            limits_enforced=self.limits if works else (),
            capabilities=tuple(sorted(self.capabilities)) if works else (),
        )

    def _started(self) -> None:
        with self._lock:
            if self._leftovers is not None:
                return
            self._binary, self.version = _found(self._config.runsc)
            self._platform = _platform(self._binary, self._config.platform)
            self._python = _locate.shown_python(self._config.python)
            self.python_variables = _python_variables(self._python)
            end = [self._binary, "--root", "{}/state", "delete", "--force"]
            self._leftovers = Leftovers("gvisor", end)
            self._cgroups = self._trial(with_cgroups=True) or self._trial(with_cgroups=False)

    def _trial(self, *, with_cgroups: bool) -> bool:
        """Whether a sandbox can be launched so; the last try leaves its error to the first real one."""
        self._cgroups = with_cgroups
        if not with_cgroups:
            return False
        try:
            box = self._launch(SandboxSpec())
        except (SandboxLaunchError, OSError):
            return False
        self.remove(box)
        return True

    async def _launched(self, spec: SandboxSpec) -> str:
        launching = asyncio.ensure_future(asyncio.to_thread(self._launch, spec))
        try:
            return await asyncio.shield(launching)
        except asyncio.CancelledError:
            # The thread cannot be stopped; what it makes is removed when it is there.
            launching.add_done_callback(functools.partial(_removed, self))
            raise

    def _launch(self, spec: SandboxSpec) -> str:
        assert self._leftovers is not None
        box = f"gv_{secrets.token_hex(8)}"
        home = self._leftovers.add(box)
        try:
            cgroup = f"/assay-{box}" if self._cgroups else None
            _bundle.write_bundle(home, spec, self._python, cgroup)
            self._call("create", "--bundle", str(home), box)
            self._call("start", box)
        except (AssayError, OSError):
            self._discard(box)
            raise
        return box

    def _discard(self, box: str) -> None:
        try:
            self.remove(box)
        except SandboxLaunchError:
            assert self._leftovers is not None
            self._leftovers.remove(box)  # it was never made

    def _call(self, *arguments: str) -> None:
        command = self.runsc(*arguments)
        assert self._leftovers is not None
        # A file, for the sandbox keeps these streams open: a pipe would never end.
        with open(self._leftovers.folder / f"log-{secrets.token_hex(4)}", "w+b") as log:
            os.unlink(log.name)
            try:
                done = subprocess.run(
                    command, env=_ENV, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_START_S
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise SandboxLaunchError(f"runsc {arguments[0]} failed: {error}; try again.") from error
            log.seek(0)
            said = log.read().decode(errors="replace").strip()
        if done.returncode != 0:
            raise SandboxLaunchError(f"runsc {arguments[0]} failed ({done.returncode}): {said[-1000:]}; try again.")


_TRIAL = "import platform; print(platform.python_version())"


def _found(name: str) -> tuple[str, str]:
    """Path and version of runsc."""
    if os.getuid() != 0:
        raise SandboxUnavailable("gVisor sandboxes need root here: runsc makes mounts and namespaces without a helper.")
    path = shutil.which(name)
    if path is None:
        raise SandboxUnavailable(f"There is no runsc (sandbox option `runsc` is {name!r}). {_INSTALL}")
    return path, _said(path, "--version").split("\n")[0].replace("version ", "")


def _platform(binary: str, wanted: str) -> str:
    if wanted != "auto":
        return wanted
    return "systrap" if "systrap" in _said(binary, "flags") else "ptrace"


def _said(binary: str, argument: str) -> str:
    try:
        done = subprocess.run(
            [binary, argument], env=_ENV, capture_output=True, text=True, timeout=_START_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(f"{binary} does not run: {error}. {_INSTALL}") from error
    return done.stdout + done.stderr


def _python_variables(python: Mapping[str, Any]) -> dict[str, str]:
    home = python["python"] if python["python_in_usr"] else _bundle.PYTHON
    library = {"LD_LIBRARY_PATH": f"{home}/lib"} if python["python_shared"] and not python["python_in_usr"] else {}
    return {"PATH": f"{home}/bin:/usr/local/bin:/usr/bin:/bin", **library}


def _removed(backend: GVisor, launching: "asyncio.Future[str]") -> None:
    if not launching.cancelled() and launching.exception() is None:
        threading.Thread(target=backend.remove, args=[launching.result()], daemon=True).start()


@functools.cache
def folder_digest(path: str) -> str:
    """SHA-256 of what a folder holds, read once: folders of a spec do not change while they are used."""
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return TreeHash().digest(root, ignore=frozenset())
    finally:
        os.close(root)


def _met_memory_limit(box: str) -> bool:
    """Whether the kernel ended the sandbox's own kernel for its memory limit."""
    for path in (f"/sys/fs/cgroup/memory/assay-{box}/memory.oom_control", f"/sys/fs/cgroup/assay-{box}/memory.events"):
        if os.path.exists(path):
            lines = (line.split() for line in Path(path).read_text().splitlines())
            return any(line[0] == "oom_kill" and int(line[1]) > 0 for line in lines)
    return False
