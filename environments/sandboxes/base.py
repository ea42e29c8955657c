"""What a sandbox is: a place where untrusted code runs, isolated and limited, gone without a trace afterwards.

    Backend.create(SandboxSpec) -> Sandbox -> exec / read / write ... -> destroy

One file per backend; one conformance suite runs over all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Protocol

from assay.records import record


@record
class Limits:
    """What one sandbox may use. Sizes in bytes, times in seconds."""

    memory_bytes: int = 512 * 1024 * 1024
    disk_bytes: int = 64 * 1024 * 1024
    max_processes: int = 64
    cpu_s: int = 30
    max_file_bytes: int = 16 * 1024 * 1024
    max_open_files: int = 256


@record
class SandboxSpec:
    """What to create. `files` are placed in the work dir; `labels` (run, rollout, turn) attribute it."""

    files: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@record
class ExecResult:
    """What a command did. Exactly one of `exit_code` and `signal` is set unless it timed out.

    stdout and stderr are capped at `max_output` bytes each and decoded as UTF-8 with replacement;
    `truncated` says that a cap was hit. `limits_enforced` names the limits that held here.
    """

    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    wall_s: float
    limits_enforced: tuple[str, ...]


@record
class BackendReport:
    """The result of really launching one sandbox: does it work, which limits hold, what to do if not."""

    backend: str
    version: str
    works: bool
    detail: str
    limits_enforced: tuple[str, ...]


class Sandbox(Protocol):
    """One isolated place. All paths are relative to its work dir `/workspace`."""

    id: str

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        max_output: int = 65536,
    ) -> ExecResult:
        """Run a command; on time-out the whole process tree is killed. Raises SandboxError if it cannot be run."""
        ...

    async def read(self, path: str, *, max_bytes: int = 1 << 20) -> bytes:
        """A regular file's bytes, links not followed. Raises SandboxError if missing, too large or not regular."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Create or replace a regular file below the work dir."""
        ...

    async def destroy(self) -> None:
        """Idempotent; returns when every process and file of the sandbox is gone."""
        ...


class Backend(Protocol):
    """Makes sandboxes. `id` is the module's name; `Config` its options."""

    id: ClassVar[str]
    Config: ClassVar[type[Any]]

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A fresh sandbox. Raises SandboxLaunchError (transient) or SandboxUnavailable."""
        ...

    async def probe(self) -> BackendReport:
        """Launch one for real and report. Never raises."""
        ...
