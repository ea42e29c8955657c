"""A process that answers one JSON line with another, for packages that are slow to import, may hang, or need another
Python. It ends with this one, and is started anew after a time-out."""

import atexit
import contextlib
import json
import os
import select
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

from assay.errors import VerifierError


class LineWorker:
    """Started with its first order; one order at a time, from any thread."""

    def __init__(self, command: Sequence[str], what: str) -> None:
        self._command, self._what = list(command), what
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, order: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The answer. Raises VerifierError when the worker fails, refuses the order or takes too long."""
        with self._lock:
            process = self._running()
            try:
                line = self._exchange(process, json.dumps(order).encode() + b"\n", timeout_s)
                answer: dict[str, Any] = json.loads(line)
            except (OSError, ValueError) as error:
                self._end()
                raise VerifierError(f"{self._what}: {error} (order {str(order)[:200]})") from error
        if "error" in answer:
            raise VerifierError(f"{self._what}: {answer['error']} (order {str(order)[:200]})")
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            # Its talk is thrown away: a full pipe would stop it.
            # Sets of texts have the same order in every worker.
            env = {**os.environ, "PYTHONHASHSEED": "0"}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen(self._command, env=env, **pipes)  # type: ignore[call-overload]
            atexit.register(self._end)
        assert self._process is not None
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], data: bytes, timeout_s: float) -> bytes:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data)
        process.stdin.flush()
        if not select.select([process.stdout], [], [], timeout_s)[0]:
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        if not (line := process.stdout.readline()):
            raise OSError("the worker ended")
        return line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was not yet written to it
                        pipe.close()
            self._process = None
            atexit.unregister(self._end)
