"""A command on its way into a sandbox, and the script by which a waiting shell becomes it."""

import re
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass

UNKNOWN_COMMAND, UNUSABLE_COMMAND = 127, 126  # as shells answer
_MAX_SCRIPT_CHARS = 15_000  # fits into a pipe at once whatever its characters
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Request:
    """A command and who waits for its result. `stdin` is an open file at its start."""

    connection: socket.socket
    argv: list[str]
    env: Mapping[str, str]
    cwd: str
    stdin: int
    timeout_s: float
    max_output: int

    def script(self, fd: int) -> str | None:
        """What makes the waiting shell become the command; None where a shell cannot do it faithfully."""
        if not all(map(_NAME.fullmatch, self.env)) or self.argv[0].startswith("-"):
            return None
        lines = [f"exec {fd}<&-", *(f"export {name}={shlex.quote(value)}" for name, value in self.env.items())]
        lines += [f"cd {shlex.quote(self.cwd)} || exit {UNUSABLE_COMMAND}"] if self.cwd else []
        text = "\n".join([*lines, f"exec {shlex.join(self.argv)}\n"])
        return text if len(text) < _MAX_SCRIPT_CHARS else None
