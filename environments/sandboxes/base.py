"""What a sandbox is: a place where untrusted code runs, isolated and limited, gone without a trace afterwards.

    Backend.create(SandboxSpec) -> Sandbox -> exec / read / write / upload / download -> destroy
                                          \\-> snapshot / restore / fork, where the backend can

One file per backend; one conformance suite runs over all of them. What not every backend can do is a capability:

    session     a shell that keeps directory, variables and background jobs from one command to the next
    layers      folders or archives shown in the work dir, copied only where they are changed
    snapshot    freeze the work dir and return to it
    fork        a second sandbox that goes on from the same work dir
    image       a root file system from a folder or archive instead of this machine's /usr
    image_name  a root file system by name from a registry
    mounts      folders or archives shown read-only outside of the work dir
    writable    further folders to write to, outside of the work dir
    network     reach other machines
    cgroup      memory and processor time are counted and limited for the sandbox as a whole
    own_pids    processes inside see and signal only each other, and all end with the sandbox
    own_kernel  system calls do not reach this machine's kernel
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from assay.errors import SandboxUnsupported
from assay.records import record

INITIAL = ""  # the snapshot every sandbox has: how it was created
DEFAULT_TIMEOUT_S = 10.0
DEFAULT_OUTPUT = 1 << 16
DEFAULT_READ = 1 << 20

Network = Literal["none", "full"]


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
    """What to create. `files` are placed in the work dir; `labels` (run, rollout, turn) attribute it.

    `image` is empty for this machine's /usr read-only, else a folder, a tar (OCI layer or `docker save`) or a name.
    `layers` (first on top) and `mounts` (path inside -> source) are folders or tars; none of them may change while a
    backend uses it. What a sandbox writes goes to the work dir, /tmp and the folders `writable`, which begin empty and
    are treated like /tmp: they share `disk_bytes`, are emptied by a restore and neither forked nor brought out.
    """

    files: Mapping[str, str | bytes] = field(default_factory=dict)
    image: str = ""
    layers: tuple[str, ...] = ()
    mounts: Mapping[str, str] = field(default_factory=dict)
    writable: tuple[str, ...] = ()
    work_dir: str = "/workspace"
    network: Network = "none"
    limits: Limits = field(default_factory=Limits)
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@record
class Provenance:
    """What exactly a command ran in. Digests are SHA-256 of the content; empty where there was none.

    `spec_hash` covers the spec without its labels, with digests in place of paths.
    """

    backend: str
    version: str
    image_digest: str
    layer_digests: tuple[str, ...]
    spec_hash: str


@record
class ExecResult:
    """What a command did. Exactly one of `exit_code` and `signal` is set unless it timed out.

    stdout and stderr are capped at `max_output` bytes each and decoded as UTF-8 with replacement; `truncated` says
    that a cap was hit. `oom_killed`: a process was ended for the sandbox's memory limit. `cpu_s` and
    `peak_memory_bytes` cover all processes of the command (the peak: the largest one where nothing counts them
    together) and are None where unknown. `limits_enforced` names the limits that held here.
    """

    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    oom_killed: bool
    wall_s: float
    cpu_s: float | None
    peak_memory_bytes: int | None
    limits_enforced: tuple[str, ...]
    provenance: Provenance


@record
class CollectLimits:
    """What may be brought out of a sandbox at once."""

    max_files: int = 10_000
    max_file_bytes: int = 64 * 1024 * 1024
    max_total_bytes: int = 256 * 1024 * 1024
    max_depth: int = 64


@record
class Collected:
    """What was brought out: paths relative to the collected folder, and what was left behind with the reason."""

    files: tuple[str, ...]
    refused: Mapping[str, str]
    num_bytes: int


@record
class BackendReport:
    """The result of really launching one sandbox: does it work, what holds and what it can, what to do if not."""

    backend: str
    version: str
    works: bool
    detail: str
    limits_enforced: tuple[str, ...]
    capabilities: tuple[str, ...] = ()


class Sandbox(Protocol):
    """One isolated place. Paths are relative to its work dir."""

    id: str

    @property
    def capabilities(self) -> Set[str]:
        """What of the optional things it can do."""
        ...

    async def exec(
        self,
        command: Sequence[str] | str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_output: int = DEFAULT_OUTPUT,
        session: str | None = None,
    ) -> ExecResult:
        """Run a command (words, or text for the shell); on time-out everything it started is killed.

        `cwd` is absolute inside, or relative to the work dir. With `session` the command runs in the shell of that
        name, which begins with its first command; commands of one session run one after the other. Raises
        SandboxError if it cannot be run, SandboxUnsupported for a session where the backend has none.
        """
        ...

    async def read(self, path: str, *, max_bytes: int = DEFAULT_READ) -> bytes:
        """A regular file's bytes, links not followed. Raises SandboxError if missing, too large or not regular."""
        ...

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace a regular file below the work dir; missing folders are made."""
        ...

    async def upload(self, source: Path, path: str = "") -> None:
        """Copy a folder of this machine into folder `path` of the work dir: its files and folders, no links."""
        ...

    async def download(self, path: str, target: Path, *, limits: CollectLimits | None = None) -> Collected:
        """Copy folder `path` (empty: the work dir) to the new folder `target`, trusting nothing in it.

        No link is followed; only regular files with one name come along; caps apply. What is refused is named.
        """
        ...

    async def state_hash(self) -> str:
        """Digest of the work dir: paths, kinds, modes and contents, without times and without Python's caches.

        Equal work dirs of sandboxes with equal specs have equal digests.
        """
        ...

    async def snapshot(self) -> str:
        """Freeze the work dir; sessions end. Raises SandboxError while a command runs."""
        ...

    async def restore(self, snapshot: str = INITIAL) -> None:
        """Return the work dir to a snapshot of this sandbox and empty /tmp; sessions and commands end."""
        ...

    async def fork(self) -> "Sandbox":
        """A new sandbox that goes on from this work dir; this one's sessions end."""
        ...

    async def destroy(self) -> None:
        """Idempotent; returns when every process and file of the sandbox is gone."""
        ...


class Backend(Protocol):
    """Makes sandboxes. `id` is the module's name; `Config` its options; one that `starts_slowly` is used in a pool."""

    id: ClassVar[str]
    Config: ClassVar[type[Any]]
    starts_slowly: ClassVar[bool]

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A fresh sandbox. Raises SandboxLaunchError (transient), SandboxUnsupported or SandboxUnavailable."""
        ...

    async def probe(self) -> BackendReport:
        """Launch one for real and report. Never raises."""
        ...

    def close(self) -> None:
        """End every sandbox that is left. Idempotent."""
        ...


async def place_files(sandbox: Sandbox, files: Mapping[str, str | bytes]) -> None:
    """Write a spec's files. Raises SandboxError."""
    for path, content in files.items():
        await sandbox.write(path, content.encode() if isinstance(content, str) else content)


def needed(spec: SandboxSpec) -> frozenset[str]:
    """The capabilities a spec asks for."""
    network = spec.network != "none"
    wanted = {"layers": spec.layers, "mounts": spec.mounts, "writable": spec.writable, "network": network}
    return frozenset(name for name, asked in wanted.items() if asked)


def require(backend: str, capabilities: Set[str], wanted: Set[str]) -> None:
    """Raise SandboxUnsupported, naming what is missing and what there is, unless every wanted capability is there."""
    if missing := sorted(wanted - capabilities):
        raise SandboxUnsupported(
            f"The sandbox backend {backend!r} cannot do {', '.join(missing)} here; "
            f"it can do {', '.join(sorted(capabilities)) or 'none of the optional things'}. "
            "Leave it out, or choose a backend that can (`assay doctor` shows them)."
        )
