"""Run tests as a user without rights: `python -m tests.as_plain_user PYTEST_ARGUMENTS`, started by root.

Whatever root's files are hidden from others: this checkout, the interpreter and its packages are shown below a folder
that everybody reaches, in mounts of this process alone. Started by a plain user, it has nothing to do.
"""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from environments.sandboxes import _kernel

USER = 61_999
CHECKOUT = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    """pytest's exit code."""
    if os.getuid() != 0:
        sys.stdout.write("These tests ran as a plain user already.\n")
        return 0
    place = Path(f"/tmp/assay-plain-{secrets.token_hex(4)}")
    shown = {"checkout": CHECKOUT, "python": Path(sys.base_prefix), "packages": Path(pytest.__file__).parents[1]}
    for name in shown:
        (place / name).mkdir(parents=True)
    (place / "tmp").mkdir()
    os.chown(place / "tmp", USER, USER)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _run(place, shown, arguments)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(place, ignore_errors=True)
    return os.waitstatus_to_exitcode(status)


def _run(place: Path, shown: dict[str, Path], arguments: list[str]) -> int:
    """In a child with mounts of its own, which vanish with it."""
    _kernel.own_mounts()
    for name, source in shown.items():
        _kernel.bind(str(source), str(place / name))
    python = place / "python" / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    options = ["-p", "no:cacheprovider", "-W", "ignore", "--basetemp", str(place / "tmp" / "pytest")]
    done = subprocess.run(
        [str(python), "-m", "pytest", *options, *arguments],
        cwd=place / "checkout",
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "LD_LIBRARY_PATH": str(place / "python" / "lib"),
            "PYTHONPATH": str(place / "packages"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        user=USER,
        group=USER,
        extra_groups=[],
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
