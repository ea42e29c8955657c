"""Assay's side of a session: a socket to the program that is PID 1 inside (`_session_program`)."""

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any

from assay.errors import SandboxError, SandboxLaunchError
from environments.sandboxes._client import Client, explained, readable, reply_of

_START_S = 30.0
_GRACE_S = 10.0  # beyond a command's own time-out, for a machine that is busy
_MAX_HEADER = 1 << 16

Answer = tuple[dict[str, Any], bytes]


class Session:
    """One shell of a sandbox. Commands run one after the other, in the order they are asked for."""

    def __init__(self, client: Client, box: str, name: str) -> None:
        self._client, self._box, self.name = client, box, name
        self._lock = asyncio.Lock()
        self._control: socket.socket | None = None
        self._ending: socket.socket | None = None

    @property
    def open(self) -> bool:
        return self._control is not None

    async def start(self, env: Mapping[str, str]) -> None:
        """Raises SandboxLaunchError with the reason when it does not come up."""
        with explained():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        with theirs:
            header = {"do": "session", "box": self._box, "name": self.name, "env": dict(env)}
            self._ending = self._client.ask(header, theirs.fileno())
        self._control = ours
        try:
            async with asyncio.timeout(_START_S):
                await self._receive(_MAX_HEADER)
        except (TimeoutError, SandboxError) as error:
            reason = await self._why()
            raise SandboxLaunchError(f"The session {self.name!r} did not start: {reason or error}.") from error

    async def run(self, order: Mapping[str, Any], stdin: bytes) -> Answer | None:
        """Result header and output of one command; None when the session ended with it (its PID 1 was killed)."""
        async with self._lock:
            if self._control is None:
                return None
            try:
                async with asyncio.timeout(order["timeout_s"] + _GRACE_S):
                    await self._send({**order, "size": len(stdin)}, stdin)
                    return await self._receive(2 * order["max_output"])
            except (SandboxError, TimeoutError):
                self.end()
                return None
            except BaseException:
                # Whoever stops waiting must not leave a command behind that still runs.
                self.end()
                raise

    def end(self) -> None:
        """End it with everything it started. Idempotent."""
        if self._control is not None:
            self._control.close()
            self._control = None
            self._client.post({"do": "end_session", "box": self._box, "name": self.name})
        if self._ending is not None:
            self._ending.close()
            self._ending = None

    async def _why(self) -> str:
        """What the supervisor says of a session that has ended."""
        ending, self._ending = self._ending, None
        self.end()
        if ending is None:
            return ""
        with ending:
            try:
                async with asyncio.timeout(1.0):
                    await readable(ending)
                    header, output, _ = reply_of(ending)
            except (TimeoutError, SandboxError):
                return ""
        return (
            header.get("error") or output.decode(errors="replace").strip()[-300:] or f"exit {header.get('exit_code')}"
        )

    async def _send(self, header: Mapping[str, Any], payload: bytes) -> None:
        data = json.dumps(header).encode()
        assert self._control is not None
        await self._guarded(
            asyncio.get_running_loop().sock_sendall(self._control, len(data).to_bytes(4, "big") + data + payload)
        )

    async def _receive(self, max_payload: int) -> Answer:
        size = int.from_bytes(await self._exactly(4, 4), "big")
        header = json.loads(await self._exactly(size, _MAX_HEADER))
        return header, await self._exactly(int(header.get("size", 0)), max_payload)

    async def _exactly(self, size: int, most: int) -> bytes:
        # The other side runs where the agent does: nothing it says may cost more than was asked for.
        if size > most:
            raise SandboxError(f"The session {self.name!r} answered with {size} bytes where at most {most} may come.")
        data = bytearray()
        assert self._control is not None
        while len(data) < size:
            chunk = await self._guarded(asyncio.get_running_loop().sock_recv(self._control, size - len(data)))
            if not chunk:
                raise SandboxError(f"The session {self.name!r} ended; its processes were killed or ran out of memory.")
            data += chunk
        return bytes(data)

    async def _guarded(self, operation: Any) -> Any:
        try:
            return await operation
        except OSError as error:
            raise SandboxError(f"The session {self.name!r} ended: {error.strerror}.") from error
