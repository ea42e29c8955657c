"""A side of a comparison in a process of its own: one line of JSON for every order, one for every answer."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import SandboxError

MARK = "@@ "  # libraries print lines of their own


class Worker:
    """Starts `command`, whose first answer says that it is ready (`greeting`); its errors go to the file `log`."""

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> None:
        self._log, self._name = log, log.stem
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env
            )
        self.greeting = self.answer()

    def ask(self, **order: Any) -> dict[str, Any]:
        """The answer to an order. Raises SandboxError when it tells of an error or the process has ended."""
        self.send(**order)
        return self.answer()

    def send(self, **order: Any) -> None:
        """Give an order; `answer` waits for it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def answer(self) -> dict[str, Any]:
        """The next answer. Raises SandboxError when it tells of an error or the process has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                answer: dict[str, Any] = json.loads(line.removeprefix(MARK))
                if "error" in answer:
                    raise SandboxError(answer["error"])
                return answer
        raise self._ended()

    def close(self) -> None:
        """End the process. Idempotent."""
        self._process.kill()
        self._process.communicate()

    def _ended(self) -> SandboxError:
        self.close()
        words = self._log.read_text(errors="replace")[-2000:]
        return SandboxError(f"{self._name} ended unexpectedly: {words}")
