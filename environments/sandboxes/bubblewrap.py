"""Sandboxes by bubblewrap: namespaces, a system-call allow-list and hard limits, for root and plain users alike.

    Bubblewrap --create--> BubblewrapSandbox --exec--> a fresh bwrap per command in the same work dir

A command ends with everything it started: nothing survives into the next one but files in /workspace and /tmp, which
live on a tmpfs of `disk_bytes` that vanishes with the sandbox.
"""

import asyncio
import itertools
import os
import platform
import secrets
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from pydantic import Field

from assay.errors import AssayError, SandboxError, SandboxLaunchError, SandboxUnavailable
from assay.ids import derive_seed
from assay.registry import PluginConfig
from environments.sandboxes import _files, _locate, _seccomp, _wire
from environments.sandboxes._client import ADVICE, Client, explained
from environments.sandboxes.base import BackendReport, ExecResult, Limits, Provenance, SandboxSpec

NOWHERE = Provenance(backend="bubblewrap", version="", image_digest="", layer_digests=(), spec_hash="")
_UNUSABLE_COMMAND = 126
_TRIAL = ["python3", "-I", "-S", "-c", "import platform; print(platform.python_version())"]


class BubblewrapSandbox:
    """One sandbox; made by `Bubblewrap.create`."""

    def __init__(self, client: Client, box: str, spec: SandboxSpec, work_dir: int, owner: tuple[int, int]) -> None:
        self.id = box
        self._client, self._env, self._owner = client, dict(spec.env), owner
        self._work_dir: int | None = work_dir

    async def exec(
        self,
        command: Sequence[str] | str,
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        max_output: int = 65536,
    ) -> ExecResult:
        """See `base.Sandbox`. Commands wait for a free slot first; `timeout_s` counts from the start.

        A command that is not there answers 127, one that cannot be executed 126, as shells do. Exit codes above 128
        are read as signals, which is how bwrap reports them. Output beyond `max_output` is dropped; a command that
        floods (16 times as much) is killed and reads as SIGKILL.
        """
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        variables = {**self._env, **(env or {})}
        _check_request(argv, variables, timeout_s, max_output)
        if any("\0" in word for word in argv):
            return self._unusable("The command contains a NUL byte.")
        header = {"do": "exec", "box": self.id, "argv": argv, "env": variables}
        with explained():
            source = _wire.memory_file(stdin) if stdin else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            limits = {"timeout_s": timeout_s, "max_output": max_output}
            reply, output, _ = await self._client.request({**header, **limits}, source)
        finally:
            os.close(source)
        return self._result(reply, output)

    async def read(self, path: str, *, max_bytes: int = 1 << 20) -> bytes:
        return _files.read_file(self._opened(), path, max_bytes)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        _files.write_file(self._opened(), path, data, self._owner)

    async def destroy(self) -> None:
        if self._work_dir is not None:
            os.close(self._work_dir)
            self._work_dir = None
        try:
            await self._client.request({"do": "destroy", "box": self.id})
        except SandboxLaunchError:
            return  # the supervisor is gone, and everything with it

    def _opened(self) -> int:
        if self._work_dir is None:
            raise SandboxError(f"Sandbox {self.id} is destroyed; create a new one.")
        return self._work_dir

    def _result(self, reply: _wire.Header, output: bytes) -> ExecResult:
        if reply.get("error"):
            raise SandboxLaunchError(f"The command could not be run in sandbox {self.id}: {reply['error']}")
        split = reply["num_stdout"]
        return ExecResult(
            exit_code=reply["exit_code"],
            signal=reply["signal"],
            stdout=output[:split].decode(errors="replace"),
            stderr=output[split:].decode(errors="replace"),
            truncated=reply["truncated"],
            timed_out=reply["timed_out"],
            oom_killed=False,
            wall_s=reply["wall_s"],
            cpu_s=None,
            peak_memory_bytes=None,
            limits_enforced=self._client.limits,
            provenance=NOWHERE,
        )

    def _unusable(self, message: str) -> ExecResult:
        return ExecResult(
            exit_code=_UNUSABLE_COMMAND,
            signal=None,
            stdout="",
            stderr=message,
            truncated=False,
            timed_out=False,
            oom_killed=False,
            wall_s=0.0,
            cpu_s=None,
            peak_memory_bytes=None,
            limits_enforced=self._client.limits,
            provenance=NOWHERE,
        )


class Bubblewrap:
    """Makes sandboxes through one supervisor process, which starts with the first sandbox and ends with the backend."""

    id: ClassVar[str] = "bubblewrap"

    class Config(PluginConfig):
        """`fault_rate` is a drill: it shows that failures of the machine never reach a reward or a baseline."""

        max_concurrency: int = Field(0, ge=0, le=4096, description="Commands at once; 0 means two per core")
        python: str = Field("", description="Prefix of the Python inside; empty means the one that runs Assay, bare")
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
        box = f"sb_{secrets.token_hex(8)}"
        try:
            sandbox = await self._create(client, box, spec)
        except asyncio.CancelledError:
            client.post({"do": "destroy", "box": box})
            raise
        try:
            for path, text in spec.files.items():
                await sandbox.write(path, text.encode() if isinstance(text, str) else text)
        except SandboxError:
            await sandbox.destroy()
            raise
        return sandbox

    async def probe(self) -> BackendReport:
        """Launch one for real and report. Never raises."""
        try:
            client = await self._started()
            sandbox = await self._create(client, f"sb_{secrets.token_hex(8)}", SandboxSpec())
            try:
                result = await sandbox.exec(["/bin/sh", "-c", "exit 0"])
            finally:
                await sandbox.destroy()
        except AssayError as error:
            return self._report(False, str(error), ())
        works = result.exit_code == 0
        detail = f"Python {self._python_version} inside" if works else f"/bin/sh does not run: {result.stderr.strip()}"
        return self._report(works, detail, client.limits)

    def close(self) -> None:
        """End the supervisor and with it every sandbox of this backend. Idempotent; garbage collection does it too."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _report(self, works: bool, detail: str, limits: tuple[str, ...]) -> BackendReport:
        return BackendReport(
            backend=self.id, version=self._version or "none", works=works, detail=detail, limits_enforced=limits
        )

    async def _create(self, client: Client, box: str, spec: SandboxSpec) -> BubblewrapSandbox:
        reply, _, descriptors = await client.request({"do": "create", "box": box, "limits": asdict(spec.limits)})
        if "error" in reply:
            raise SandboxLaunchError(f"No sandbox could be made: {reply['error']}.")
        return BubblewrapSandbox(client, box, spec, descriptors[0], (reply["uid"], reply["gid"]))

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
            slots = self._config.max_concurrency or 2 * (os.cpu_count() or 1)
            client = Client({**tools, "max_concurrency": slots})
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
    limits = asdict(Limits())
    created, _, descriptors = client.request_now({"do": "create", "box": "trial", "limits": limits})
    for descriptor in descriptors:
        os.close(descriptor)
    header = {"do": "exec", "box": "trial", "argv": _TRIAL, "env": {}, "timeout_s": 25.0, "max_output": 4096}
    with open(os.devnull, "rb") as nothing:
        reply, output, _ = client.request_now(header, nothing.fileno())
    client.request_now({"do": "destroy", "box": "trial"})
    if created.get("error") or reply.get("error") or reply.get("exit_code") != 0:
        client.close()
        reason = created.get("error") or reply.get("error") or f"Python does not run inside: {output.decode()}"
        raise SandboxUnavailable(f"This machine does not let Assay isolate: {reason}. {ADVICE}")
    return output.decode().strip()


def _check_request(argv: Sequence[str], env: Mapping[str, Any], timeout_s: float, max_output: int) -> None:
    if not argv or isinstance(argv, str):
        raise SandboxError(f"argv is {argv!r}; give a list of at least one word, such as ['python3', 'main.py'].")
    if not (0 < timeout_s < float("inf") and max_output > 0):
        raise SandboxError(f"timeout_s {timeout_s} and max_output {max_output} must be finite and positive.")
    wrong = [name for name in env if not name or "=" in name or "\0" in name + env[name]]
    if wrong:
        raise SandboxError(f"Environment variables {wrong} are not valid: no empty name, no '=' in it, no NUL byte.")
