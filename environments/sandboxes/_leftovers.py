"""Cleans up after a backend, also when its process is killed: a small process of its own that waits for our end.

    Leftovers(folder, [program, arguments]) ... close() or death -> `program arguments NAME` for every NAME in
    folder/names, one after the other -> folder is removed

The folder is the backend's own; a name is there from before its sandbox is made until after it is gone.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

_PROGRAM = """
import os, shutil, subprocess, sys
folder, *end = sys.argv[1:]
os.read(0, 1)
for name in os.listdir(f"{folder}/names") if end else ():
    for _ in range(3):
        if subprocess.run([*end, name], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            break
shutil.rmtree(folder, ignore_errors=True)
"""
_END_S = 30.0


class Leftovers:
    """A folder below the temporary folder, and the process that removes it. Raises OSError."""

    def __init__(self, prefix: str, end: Sequence[str] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"assay-{prefix}-"))
        self.folder.chmod(0o711)  # who runs a command as another user must reach what lies below
        (self.folder / "names").mkdir()
        command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(self.folder), *(w.format(self.folder) for w in end)]
        env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PATH") if name in os.environ}
        self._process = subprocess.Popen(
            command, env=env, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        self._finalizer = weakref.finalize(self, _end, self._process, self.folder)

    def add(self, name: str) -> Path:
        """A new folder for one sandbox, whose end is seen to from now on."""
        (self.folder / "names" / name).touch()
        home = self.folder / name
        home.mkdir(mode=0o711)
        return home

    def remove(self, name: str) -> None:
        """The sandbox is gone; its folder goes too."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "names" / name).unlink(missing_ok=True)

    def close(self) -> None:
        """End what is left and wait for it. Idempotent."""
        self._finalizer()


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    assert process.stdin
    process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
