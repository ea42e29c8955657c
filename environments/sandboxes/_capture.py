"""What a command prints, up to a cap, and how its end is read from what bwrap reports."""

import contextlib
import json
import os
import re
import signal

from environments.sandboxes._launch import NOT_EXECUTED, encoded
from environments.sandboxes._request import UNKNOWN_COMMAND, UNUSABLE_COMMAND

CHUNK = 65536
# Output beyond the cap is thrown away for a while (`cat big.log` may end well); a flood is ended.
_FLOOD_FACTOR = 16
_NO_FOLDER = "bwrap: Can't chdir to "
_SAID_BY_SHELL = re.compile(r"/dev/fd/\d+: (line )?\d+: (exec: )?")


class Capture:
    """stdout and stderr, each kept up to `cap` bytes; more is counted and dropped."""

    def __init__(self) -> None:
        self.cap = CHUNK
        self.kept = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False
        self._num_seen = 0

    @property
    def flooded(self) -> bool:
        return self._num_seen > _FLOOD_FACTOR * (self.cap + CHUNK)

    def read(self, name: str, fd: int) -> bool:
        """Take what is there now; False at the end."""
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            return True
        self._keep(name, chunk)
        return bool(chunk)

    def drain(self, name: str, fd: int) -> None:
        """Take everything: every writer is dead."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(fd, CHUNK):
                self._keep(name, chunk)

    def content(self) -> bytes:
        return bytes(self.kept["stdout"] + self.kept["stderr"])

    def ending(self, status: bytes) -> tuple[int | None, str]:
        """Exit code, or minus a signal, or None; and what kept the command from running, if anything did.

        `status` is bwrap's report. What shell or bwrap say of a command that cannot be run is put as the command's own.
        """
        codes = [line["exit-code"] for line in map(json.loads, status.splitlines()) if "exit-code" in line]
        said = self.kept["stderr"].decode(errors="replace")
        if codes:
            if codes[0] in (UNKNOWN_COMMAND, UNUSABLE_COMMAND):
                self._say(_SAID_BY_SHELL.sub("", said, count=1))
            # bwrap reports a signal as shells do, so a plain `exit 137` reads as SIGKILL too.
            return (128 - codes[0] if 128 < codes[0] <= 128 + signal.NSIG else codes[0]), ""
        said = said.strip()
        if said.startswith((NOT_EXECUTED, _NO_FOLDER)):
            self._say(said.removeprefix(NOT_EXECUTED).removeprefix("bwrap: ") + "\n")
            missing = said.startswith(NOT_EXECUTED) and "No such file" in said
            return (UNKNOWN_COMMAND if missing else UNUSABLE_COMMAND), ""
        return None, said or "bwrap ended before the command ran"

    def _say(self, text: str) -> None:
        self.kept["stderr"] = bytearray(encoded(text))

    def _keep(self, name: str, chunk: bytes) -> None:
        room = self.cap - len(self.kept[name])
        self.kept[name] += chunk[:room]
        self._num_seen += len(chunk)
        self.truncated = self.truncated or len(chunk) > room
