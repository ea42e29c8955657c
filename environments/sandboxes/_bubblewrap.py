"""One bubblewrap sandbox, as Assay holds it: files through open folders, commands through the supervisor."""

import asyncio
import os
import secrets
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import SandboxError, SandboxLaunchError
from environments.sandboxes import _collect, _files, _wire
from environments.sandboxes._client import Client, explained
from environments.sandboxes._pool import place
from environments.sandboxes._request import UNUSABLE_COMMAND
from environments.sandboxes._resolve import Resolved
from environments.sandboxes._session import Session
from environments.sandboxes._tree_hash import TreeHash, digest_of
from environments.sandboxes.base import (
    DEFAULT_OUTPUT,
    DEFAULT_READ,
    DEFAULT_TIMEOUT_S,
    INITIAL,
    Collected,
    CollectLimits,
    ExecResult,
    require,
)

_ENDED = {
    "exit_code": None,
    "signal": int(signal.SIGKILL),
    "truncated": False,
    "timed_out": False,
    "wall_s": 0.0,
    "cpu_s": None,
    "peak_memory_bytes": None,
    "num_stdout": 0,
}


class BubblewrapSandbox:
    """One sandbox; made by `Bubblewrap.create`."""

    def __init__(self, client: Client, box: str, resolved: Resolved) -> None:
        self.id = box
        self.capabilities = client.capabilities
        self._client, self._resolved = client, resolved
        self._folders: list[int] = []  # the work dir, then the folders that hold what was changed in it
        self._owner = (0, 0)
        self._sessions: dict[str, Session] = {}
        self._starting = asyncio.Lock()
        self._hashes: dict[tuple[int, int], TreeHash] = {}
        self._num_oom_kills = 0

    @classmethod
    async def create(cls, client: Client, resolved: Resolved, parent: str = "") -> "BubblewrapSandbox":
        """A new box. Raises SandboxLaunchError, or SandboxError for files that cannot be placed."""
        made = cls(client, f"sb_{secrets.token_hex(8)}", resolved)
        try:
            await made._ask({"do": "create", "parent": parent, **resolved.place}, "No sandbox could be made")
            if not parent:
                await place(made, resolved.spec.files)
        except asyncio.CancelledError:
            client.post({"do": "destroy", "box": made.id})
            made._forget()
            raise
        except SandboxError:
            await made.destroy()
            raise
        return made

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
        """See `base.Sandbox`. Commands wait for a free slot first; `timeout_s` counts from the start.

        A command that is not there answers 127, one that cannot be executed 126, as shells do. Exit codes above 128
        are read as signals, which is how shells report them. Output beyond `max_output` is dropped; a command that
        floods (16 times as much) is killed and reads as SIGKILL. In a session, `cwd` and `env` stay for the commands
        that follow, and so do `cd`, variables, functions and options; job numbers (`%1`) do not.
        """
        self._opened()
        _check_request(command, env or {}, timeout_s, max_output)
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        if "\0" in "".join([*argv, cwd or ""]):
            return self._result(
                {**_ENDED, "exit_code": UNUSABLE_COMMAND, "signal": None}, b"The command has a NUL byte."
            )
        folder = self._inside(cwd) if cwd else ""
        if session is not None:
            return await self._exec_in(session, command, folder, env or {}, stdin, timeout_s, max_output)
        header = {"do": "exec", "argv": argv, "env": {**self._resolved.spec.env, **(env or {})}, "cwd": folder}
        with explained():
            source = _wire.memory_file(stdin) if stdin else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            limits = {"timeout_s": timeout_s, "max_output": max_output}
            reply, output, _ = await self._client.request({**header, **limits, "box": self.id}, source)
        finally:
            os.close(source)
        return self._result(reply, output)

    async def read(self, path: str, *, max_bytes: int = DEFAULT_READ) -> bytes:
        return _files.read_file(self._opened(), path, max_bytes)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        _files.write_file(self._opened(), path, data, self._owner, mode=mode)

    async def upload(self, source: Path, path: str = "") -> None:
        await asyncio.to_thread(_collect.place, source, self._opened(), path, self._owner)

    async def download(self, path: str, target: Path, *, limits: CollectLimits | None = None) -> Collected:
        return await asyncio.to_thread(_collect.collect, self._opened(), path, target, limits or CollectLimits())

    async def state_hash(self) -> str:
        """See `base.Sandbox`. Only what was changed since creation is read, and only once while it stays the same."""
        self._opened()
        return await asyncio.to_thread(self._state)

    async def snapshot(self) -> str:
        require("bubblewrap", self.capabilities, {"snapshot"})
        name = f"snap_{secrets.token_hex(4)}"
        await self._ask({"do": "snapshot", "name": name}, "No snapshot could be made")
        return name

    async def restore(self, snapshot: str = INITIAL) -> None:
        require("bubblewrap", self.capabilities, {"snapshot"})
        await self._ask({"do": "restore", "name": snapshot}, "The sandbox could not be restored")
        if snapshot == INITIAL:
            await place(self, self._resolved.spec.files)

    async def fork(self) -> "BubblewrapSandbox":
        require("bubblewrap", self.capabilities, {"fork"})
        await self.snapshot()
        return await BubblewrapSandbox.create(self._client, self._resolved, parent=self.id)

    async def destroy(self) -> None:
        self._forget()
        try:
            await self._client.request({"do": "destroy", "box": self.id})
        except SandboxLaunchError:
            return  # the supervisor is gone, and everything with it

    def _state(self) -> str:
        """What was written, newer over older; each folder's digests are remembered for the next time."""
        written = dict[str, str]()
        for folder in reversed(self._folders[1:]):
            status = os.fstat(folder)
            hashes = self._hashes.setdefault((status.st_dev, status.st_ino), TreeHash())
            written |= hashes.listing(folder)
        return digest_of(written)

    async def _ask(self, header: _wire.Header, failed: str) -> None:
        """A request that shows the files anew; sessions do not outlive it."""
        for session in self._sessions.values():
            session.end()
        self._sessions = {}
        reply, _, descriptors = await self._client.request({**header, "box": self.id})
        if "error" in reply:
            raise SandboxLaunchError(f"{failed}: {reply['error']}.")
        self._forget()
        self._folders, self._owner = descriptors, (reply["uid"], reply["gid"])

    async def _exec_in(
        self,
        name: str,
        command: Sequence[str] | str,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout_s: float,
        max_output: int,
    ) -> ExecResult:
        session = await self._session(name)
        order = {
            "script": _script(command, cwd, env),
            "timeout_s": timeout_s,
            "max_output": max_output,
            "cpu_s": self._resolved.spec.limits.cpu_s,
        }
        answer = await session.run(order, stdin)
        header, output = answer or (_ENDED, b"The session ended: its processes were killed.\n")
        oom_killed = header["signal"] == signal.SIGKILL and await self._more_oom_kills()
        return self._result({**header, "oom_killed": oom_killed}, output)

    async def _session(self, name: str) -> Session:
        async with self._starting:
            session = self._sessions.get(name)
            if session is None or not session.open:
                session = self._sessions[name] = Session(self._client, self.id, name)
                await session.start(self._resolved.spec.env)
            return session

    async def _more_oom_kills(self) -> bool:
        """Whether the memory limit ended a process since this was last asked."""
        reply, _, _ = await self._client.request({"do": "usage", "box": self.id})
        before, self._num_oom_kills = self._num_oom_kills, int(reply.get("num_oom_kills", 0))
        return self._num_oom_kills > before

    def _inside(self, cwd: str) -> str:
        return cwd if cwd.startswith("/") else f"{self._resolved.spec.work_dir}/{cwd}"

    def _opened(self) -> int:
        if not self._folders:
            raise SandboxError(f"Sandbox {self.id} is destroyed; create a new one.")
        return self._folders[0]

    def _forget(self) -> None:
        for folder in self._folders:
            os.close(folder)
        self._folders = []

    def _result(self, reply: Mapping[str, Any], output: bytes) -> ExecResult:
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
            oom_killed=reply.get("oom_killed", False),
            wall_s=reply["wall_s"],
            cpu_s=reply["cpu_s"],
            peak_memory_bytes=reply["peak_memory_bytes"],
            limits_enforced=self._client.limits,
            provenance=self._resolved.provenance,
        )


def _script(command: Sequence[str] | str, cwd: str, env: Mapping[str, str]) -> str:
    """What the session's shell is to run."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    lines += [f"cd {shlex.quote(cwd)} || exit {UNUSABLE_COMMAND}"] if cwd else []
    return "\n".join([*lines, command if isinstance(command, str) else shlex.join(command)])


def _check_request(command: Sequence[str] | str, env: Mapping[str, str], timeout_s: float, max_output: int) -> None:
    if not command:
        raise SandboxError(f"The command is {command!r}; give at least one word, such as ['python3', 'main.py'].")
    if not (0 < timeout_s < float("inf") and max_output > 0):
        raise SandboxError(f"timeout_s {timeout_s} and max_output {max_output} must be finite and positive.")
    wrong = [name for name in env if not name or "=" in name or "\0" in name + env[name]]
    if wrong:
        raise SandboxError(f"Environment variables {wrong} are not valid: no empty name, no '=' in it, no NUL byte.")
