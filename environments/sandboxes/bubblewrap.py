"""Sandboxes by bubblewrap: namespaces, a system-call allow-list and hard limits, for root and plain users alike.

    Bubblewrap --create--> BubblewrapSandbox --exec--> a bwrap per command in the same work dir
                                             --exec(session=...)--> a shell in a bwrap that stays

A command outside of a session ends with everything it started: nothing survives into the next one but files in the
work dir and /tmp, which live on a tmpfs of `disk_bytes` that vanishes with the sandbox.
"""

import asyncio
import itertools
import os
import platform
import sys
import threading
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from assay.errors import AssayError, SandboxLaunchError, SandboxUnavailable
from assay.ids import derive_seed
from assay.registry import PluginConfig
from environments.sandboxes import _locate, _seccomp
from environments.sandboxes._bubblewrap import BubblewrapSandbox
from environments.sandboxes._client import ADVICE, Client
from environments.sandboxes._resolve import Resolved, resolve
from environments.sandboxes.base import BackendReport, SandboxSpec

_TRIAL = ["python3", "-I", "-S", "-c", "import platform; print(platform.python_version())"]


class Bubblewrap:
    """Makes sandboxes through one supervisor process, which starts with the first sandbox and ends with the backend."""

    id: ClassVar[str] = "bubblewrap"

    class Config(PluginConfig):
        """`fault_rate` is a drill: it shows that failures of the machine never reach a reward or a baseline."""

        max_concurrency: int = Field(0, ge=0, le=4096, description="Commands at once; 0 means two per core")
        num_ready: int = Field(-1, ge=-1, le=256, description="Most sandboxes to have ready; -1 means two per core")
        python: str = Field("", description="Prefix of the Python inside; empty means the one that runs Assay, bare")
        cache_dir: str = Field("", description="Where images are unpacked; empty means below Assay's home")
        fault_rate: float = Field(0.0, ge=0, le=1, description="Drill: share of creations that fail")
        fault_seed: int = Field(0, description="Drill: which creations fail")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._version = self._python_version = ""
        self._creations = itertools.count()

    async def create(self, spec: SandboxSpec) -> BubblewrapSandbox:
        """See `base.Backend`. The n-th creation fails on purpose as `fault_rate` and `fault_seed` decide."""
        client = await self._started()
        self._maybe_fail(next(self._creations))
        resolved = await resolve(spec, self.id, self._version, client.capabilities, self._cache_dir())
        return await BubblewrapSandbox.create(client, resolved)

    async def probe(self) -> BackendReport:
        """Launch one for real and report. Never raises."""
        try:
            client = await self._started()
            sandbox = await BubblewrapSandbox.create(client, Resolved.plain(self.id, self._version))
            try:
                result = await sandbox.exec(["/bin/sh", "-c", "exit 0"])
            finally:
                await sandbox.destroy()
        except AssayError as error:
            return self._report(False, str(error), (), ())
        works = result.exit_code == 0
        detail = f"Python {self._python_version} inside" if works else f"/bin/sh does not run: {result.stderr.strip()}"
        return self._report(works, detail, client.limits, tuple(sorted(client.capabilities)))

    def close(self) -> None:
        """End the supervisor and with it every sandbox of this backend. Idempotent; garbage collection does it too."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _report(self, works: bool, detail: str, limits: tuple[str, ...], can: tuple[str, ...]) -> BackendReport:
        return BackendReport(
            backend=self.id,
            version=self._version or "none",
            works=works,
            detail=detail,
            limits_enforced=limits,
            capabilities=can,
        )

    def _cache_dir(self) -> Path:
        from assay.settings import settings

        return Path(self._config.cache_dir) if self._config.cache_dir else settings().home_dir / "images"

    def _maybe_fail(self, creation: int) -> None:
        drawn = derive_seed("sandbox-fault", self._config.fault_seed, creation) / (1 << 63)
        if drawn < self._config.fault_rate:
            raise SandboxLaunchError(
                f"Drill: creation {creation} fails on purpose (fault_rate {self._config.fault_rate}, "
                f"fault_seed {self._config.fault_seed}); set fault_rate to 0 to stop."
            )

    async def _started(self) -> Client:
        if self._client is None or not self._client.alive:
            await asyncio.to_thread(self._start)
        assert self._client is not None
        return self._client

    def _start(self) -> None:
        with self._lock:
            if self._client is not None and self._client.alive:
                return
            _check_platform()
            tools = _locate.tools(self._config.python)
            self._version = tools["version"]
            twice = 2 * (os.cpu_count() or 1)
            ready = twice if self._config.num_ready < 0 else self._config.num_ready
            client = Client({**tools, "max_concurrency": self._config.max_concurrency or twice, "num_ready": ready})
            self._python_version = _try_out(client)
            self._client = client


def _check_platform() -> None:
    if sys.platform != "linux" or platform.machine() not in _seccomp.machines():
        raise SandboxUnavailable(
            f"Bubblewrap sandboxes need Linux on {' or '.join(_seccomp.machines())}; "
            f"this is {sys.platform} on {platform.machine()}."
        )


def _try_out(client: Client) -> str:
    """Python's version inside, asked in a throw-away sandbox; SandboxUnavailable with the reason when that fails."""
    place = Resolved.plain("bubblewrap", "").place
    created, _, descriptors = client.request_now({"do": "create", "box": "trial", **place})
    for descriptor in descriptors:
        os.close(descriptor)
    header = {"do": "exec", "box": "trial", "argv": _TRIAL, "env": {}, "cwd": "", "timeout_s": 25.0}
    with open(os.devnull, "rb") as nothing:
        reply, output, _ = client.request_now({**header, "max_output": 4096}, nothing.fileno())
    client.request_now({"do": "destroy", "box": "trial"})
    if created.get("error") or reply.get("error") or reply.get("exit_code") != 0:
        client.close()
        reason = created.get("error") or reply.get("error") or f"Python does not run inside: {output.decode()}"
        raise SandboxUnavailable(f"This machine does not let Assay isolate: {reason}. {ADVICE}")
    return output.decode().strip()
