"""Runs a command and takes its whole process group down when the process that started this one is gone.

    python -I _vllm_watchdog.py COMMAND...        stdin: a pipe whose other end the starter keeps open

The starter's death, by whatever signal, closes the pipe: no server outlives the run that needed it. Standard library
only.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

# vLLM frees its shared memory on SIGTERM; what has not ended after this long is killed.
GRACE_S = 10.0
PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> int:
    """The command's exit code, or 128 plus the signal that ended it."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_end_with_parent)
    stop = threading.Event()
    threading.Thread(target=_wait_for_starter, args=(child, stop), daemon=True).start()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
    while child.poll() is None:
        if stop.wait(0.2):
            _terminate(child)
    _signal_group(child.pid, signal.SIGKILL)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _end_with_parent() -> None:
    # The last resort, for when this watchdog itself is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_for_starter(child: subprocess.Popen[bytes], stop: threading.Event) -> None:
    while os.read(0, 1024):
        pass
    stop.set()


def _terminate(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        _signal_group(child.pid, signal.SIGKILL)
        child.wait()


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
