"""What the backends share whose only primitive is "run a program in there": all of `base.Sandbox` on top of the guard.

    exec -> request -> converse() [the backend's: start `_guard.py` inside, hand over the bytes, return what it says]
         -> ExecResult

Files go through programs run the same way (`_by_exec`).
"""

import asyncio
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

from assay.errors import SandboxError, SandboxLaunchError
from assay.ids import content_hash
from environments.sandboxes import _by_exec
from environments.sandboxes.base import (
    DEFAULT_OUTPUT,
    DEFAULT_READ,
    DEFAULT_TIMEOUT_S,
    INITIAL,
    Collected,
    CollectLimits,
    ExecResult,
    Provenance,
    SandboxSpec,
    require,
)

GUARD = Path(__file__).with_name("_guard.py").read_text()
# The first process of a sandbox that others made: it reaps orphans and ends by itself when forgotten.
INIT = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for number in (signal.SIGALRM, signal.SIGTERM): signal.signal(number, lambda *_: sys.exit())
signal.alarm({life_s})
while True: signal.pause()
"""
READY = b"ready\n"
START_S, GRACE_S = 60.0, 5.0  # until the guard is there; beyond the time-out, for a guard that the command stopped
_UNUSABLE_COMMAND = 126


class OutOfTime(Exception):
    """The guard did not answer although the command's time is over."""


class GuardedSandbox:
    """One sandbox. A subclass offers `_converse`, `_clean_up` and `_end`."""

    own_pids = False  # the guard makes a process namespace, for which it needs rights
    user: tuple[int, int] | None = None  # whom the guard runs commands as, where it has the right to choose

    def __init__(self, box: str, spec: SandboxSpec, made: Provenance, capabilities: Set[str], limits: Sequence[str]):
        self.id, self.capabilities = box, capabilities
        self.work_dir = spec.work_dir
        self._spec, self._provenance, self._limits = spec, made, tuple(limits)
        self._destroyed = False

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
        """See `base.Sandbox`. Commands wait for a free slot first; `timeout_s` counts from the start."""
        if session is not None:
            require(self._provenance.backend, self.capabilities, {"session"})
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        variables = {**self._environment(), **self._spec.env, **(env or {})}
        _check(argv, variables, timeout_s, max_output)
        if any("\0" in word for word in argv):
            return self._result({**_KILLED, "exit_code": _UNUSABLE_COMMAND, "signal": None}, b"")
        request = {"argv": argv, "env": variables, "cwd": self._folder(cwd), "num_stdin": len(stdin)}
        header, output = await self._asked(request, stdin, timeout_s, max_output)
        return self._result(header, output)

    async def read(self, path: str, *, max_bytes: int = DEFAULT_READ) -> bytes:
        return await _by_exec.read(self._run, self.work_dir, path, max_bytes)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await _by_exec.write(self._run, self.work_dir, path, data, mode)

    async def upload(self, source: Path, path: str = "") -> None:
        await _by_exec.upload(self._run, self.work_dir, source, path)

    async def download(self, path: str, target: Path, *, limits: CollectLimits | None = None) -> Collected:
        return await _by_exec.download(self._run, self.work_dir, path, target, limits or CollectLimits())

    async def state_hash(self) -> str:
        return await _by_exec.state_hash(self._run, self.work_dir)

    async def snapshot(self) -> str:
        self._cannot("snapshot")

    async def restore(self, snapshot: str = INITIAL) -> None:
        self._cannot("snapshot")

    async def fork(self) -> "GuardedSandbox":
        self._cannot("fork")

    async def destroy(self) -> None:
        self._destroyed = True
        await self._end()

    async def _converse(self, request: bytes, timeout_s: float, max_reply: int) -> bytes:
        """Start the guard, hand it `request`; what it said after READY, empty if it was killed.

        Raises OutOfTime GRACE_S after `timeout_s`, SandboxLaunchError when it did not start. The request stays open
        while the command runs: its end makes the guard give up.
        """
        raise NotImplementedError

    async def _clean_up(self) -> bool:
        """A guard is gone or stopped: end what it left behind, other commands of the sandbox maybe included.

        Returns whether the sandbox met its memory limit.
        """
        raise NotImplementedError

    async def _end(self) -> None:
        """Idempotent; returns when nothing of the sandbox is left."""
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        """The variables every command has."""
        return {"HOME": self.work_dir, "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}

    def _rlimits(self) -> dict[str, int]:
        """By name in Python's `resource`; values in bytes, seconds or counts."""
        return rlimits(self._spec)

    async def _asked(
        self, request: dict[str, Any], stdin: bytes, timeout_s: float, max_output: int
    ) -> tuple[dict[str, Any], bytes]:
        if self._destroyed:
            raise SandboxError(f"Sandbox {self.id} is destroyed; create a new one.")
        rights = {"user": self.user, "own_pids": self.own_pids, "rlimits": self._rlimits()}
        limits = {"timeout_s": timeout_s, "max_output": max_output}
        words = json.dumps({**request, **rights, **limits}).encode()
        began = time.monotonic()
        try:
            reply = await self._converse(b"%016d" % len(words) + words + stdin, timeout_s, 2 * max_output + (1 << 16))
        except OutOfTime:
            await self._clean_up()
            return {**_KILLED, "signal": None, "timed_out": True, "wall_s": time.monotonic() - began}, b""
        first, newline, output = reply.partition(b"\n")
        if not newline:
            oom_killed = not self._destroyed and await self._clean_up()
            return {**_KILLED, "oom_killed": oom_killed, "wall_s": time.monotonic() - began}, b""
        return json.loads(first), output

    async def _run(
        self, argv: Sequence[str], stdin: bytes, timeout_s: float, max_output: int
    ) -> tuple[int, bytes, bytes, bool]:
        """`_by_exec.Run`: a program of ours inside."""
        request = {"argv": list(argv), "env": self._environment(), "cwd": self.work_dir, "num_stdin": len(stdin)}
        header, output = await self._asked(request, stdin, timeout_s, max_output)
        if header["exit_code"] is None:
            what = "took too long" if header["timed_out"] else f"was ended by signal {header['signal']}"
            raise SandboxError(f"Handling files in sandbox {self.id} {what}; nothing is known about their state.")
        split = header["num_stdout"]
        return header["exit_code"], output[:split], output[split:], header["truncated"]

    def _folder(self, cwd: str | None) -> str:
        if cwd is None:
            return self.work_dir
        return cwd if cwd.startswith("/") else f"{self.work_dir}/{cwd}"

    def _result(self, header: Mapping[str, Any], output: bytes) -> ExecResult:
        fields = dict(header)
        split = fields.pop("num_stdout")
        return ExecResult(
            stdout=output[:split].decode(errors="replace"),
            stderr=output[split:].decode(errors="replace"),
            limits_enforced=self._limits,
            provenance=self._provenance,
            **fields,
        )

    def _cannot(self, what: str) -> NoReturn:
        require(self._provenance.backend, self.capabilities - {what}, {what})
        raise AssertionError(what)


_KILLED: dict[str, Any] = {
    "exit_code": None,
    "signal": 9,
    "num_stdout": 0,
    "truncated": False,
    "timed_out": False,
    "oom_killed": False,
    "wall_s": 0.0,
    "cpu_s": None,
    "peak_memory_bytes": None,
}


class Slots:
    """At most `count` commands at once, whichever event loops and threads they come from."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        # No event of one loop can be awaited in another.
        while not self._free.acquire(blocking=False):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        try:
            yield
        finally:
            self._free.release()


def rlimits(spec: SandboxSpec) -> dict[str, int]:
    """What the spec's limits are for each process."""
    limits = spec.limits
    return {
        "RLIMIT_AS": limits.memory_bytes,
        "RLIMIT_FSIZE": limits.max_file_bytes,
        "RLIMIT_NOFILE": limits.max_open_files,
        "RLIMIT_CPU": limits.cpu_s,
        "RLIMIT_NPROC": limits.max_processes,
        "RLIMIT_CORE": 0,
    }


def spec_hash(spec: SandboxSpec, image: str = "", mounts: Mapping[str, str] | None = None) -> str:
    """Identity of what was asked for: all but labels, with digests in place of contents and paths."""
    fields = asdict(replace(spec, labels={}, files={}))
    files = {path: content_hash(_text(data)) for path, data in spec.files.items()}
    return content_hash({**fields, "files": files, "image": image, "mounts": dict(mounts or {})})


def check_sizes(spec: SandboxSpec) -> None:
    """Raise SandboxError for limits that no sandbox can have."""
    wrong = {name: value for name, value in asdict(spec.limits).items() if value <= 0}
    if wrong:
        raise SandboxError(f"The limits {wrong} are not possible: every limit must be above 0.")


async def place_files(sandbox: GuardedSandbox, spec: SandboxSpec) -> None:
    """Write the spec's files; the sandbox is destroyed when that fails."""
    try:
        for path, data in spec.files.items():
            await sandbox.write(path, data.encode() if isinstance(data, str) else data)
    except BaseException:
        await sandbox.destroy()
        raise


def some_user() -> int:
    """A uid for one sandbox, so that limits of a user's processes are its own. Small, for maps with few numbers."""
    return 20_000 + secrets.randbelow(40_000)


async def talk(
    argv: Sequence[str],
    env: Mapping[str, str],
    request: bytes,
    timeout_s: float,
    max_reply: int,
    running: set[int],
) -> bytes:
    """`_converse` through the standard streams of a program of this machine that becomes or carries the guard.

    Its pid is in `running` while it runs.
    """
    pipe = asyncio.subprocess.PIPE
    with _explained(argv[0]):
        guard = await asyncio.create_subprocess_exec(
            *argv, env=env, cwd="/", stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
    assert guard.stdin
    assert guard.stdout
    running.add(guard.pid)
    try:
        said = await asyncio.wait_for(_begin(guard, request), START_S)
        if said != READY:
            raise await _not_started(guard)
        return await asyncio.wait_for(_limited(guard.stdout, max_reply), timeout_s + GRACE_S)
    except TimeoutError as error:
        raise OutOfTime from error
    finally:
        guard.stdin.close()
        await asyncio.shield(_gone(guard, running))


async def _begin(guard: asyncio.subprocess.Process, request: bytes) -> bytes:
    assert guard.stdin
    assert guard.stdout
    try:
        guard.stdin.write(request)
        await guard.stdin.drain()
        return await guard.stdout.readexactly(len(READY))
    except (BrokenPipeError, ConnectionResetError, asyncio.IncompleteReadError):
        return b""


async def _not_started(guard: asyncio.subprocess.Process) -> SandboxLaunchError:
    assert guard.stderr
    said = (await guard.stderr.read(4000)).decode(errors="replace").strip()
    return SandboxLaunchError(f"The command could not be run: {said[-1500:] or 'its guard was killed at the start'}.")


async def _limited(stream: asyncio.StreamReader, most: int) -> bytes:
    data = bytearray()
    while len(data) < most and (chunk := await stream.read(1 << 16)):
        data += chunk
    return bytes(data)


async def _gone(guard: asyncio.subprocess.Process, running: set[int]) -> None:
    try:
        await asyncio.wait_for(guard.wait(), GRACE_S)
    except TimeoutError:
        guard.kill()
        await guard.wait()
    finally:
        running.discard(guard.pid)


@contextmanager
def _explained(program: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxLaunchError(f"{program} could not be started: {error}; try again.") from error


def _text(data: str | bytes) -> str:
    return data if isinstance(data, str) else data.decode("latin-1")


def _check(argv: Sequence[str], env: Mapping[str, Any], timeout_s: float, max_output: int) -> None:
    if not argv:
        raise SandboxError("argv is empty; give a list of at least one word, such as ['python3', 'main.py'].")
    if not (0 < timeout_s < float("inf") and max_output > 0):
        raise SandboxError(f"timeout_s {timeout_s} and max_output {max_output} must be finite and positive.")
    wrong = [name for name in env if not name or "=" in name or "\0" in name + env[name]]
    if wrong:
        raise SandboxError(f"Environment variables {wrong} are not valid: no empty name, no '=' in it, no NUL byte.")
