"""bwrap by itself with what Assay asks of it: the same namespaces, as many mounts, the same system-call filter.

    bwrap       a fresh work dir of this machine bound to /workspace and removed afterwards, output captured
    bwrap_bare  no work dir and nothing captured: less than any sandbox does

Sizes are limited by sized tmpfs; cgroups and rlimits are left out, in bwrap's favour.
"""

import json
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks._worker import Worker
from environments.sandboxes import _locate, _seccomp
from environments.sandboxes._jail import ISOLATION, SYSTEM, VIEW
from environments.sandboxes.base import Limits

WORKER = Path(__file__).with_name("_bwrap_worker.py")
USER = 900_001  # nobody's; bwrap started by root would leave the agent with root's user id
PLUMBING = ("--chdir", "/workspace", "--seccomp", "@seccomp", "--json-status-fd", "@status", "--")


def start(folder: Path) -> Worker:
    """A worker that keeps its files in `folder`. Raises SandboxUnavailable without a usable bwrap."""
    tools = _locate.tools()
    folder.chmod(0o711)  # another user starts the binary
    (folder / "seccomp").write_bytes(_seccomp.program(platform.machine()))
    (folder / "seccomp").chmod(0o644)
    as_root = os.getuid() == 0
    python = Path(tools["python"])
    # The other user may not reach the interpreter: show it where that user does, for the worker alone.
    hidden = as_root and not tools["python_in_usr"]
    shown = folder / "python" if hidden else python
    binary = [_binary(tools, folder), *ISOLATION]
    commands = {
        name: [*binary, *places(tools, shown, work=name == "bwrap"), *PLUMBING] for name in ("bwrap", "bwrap_bare")
    }
    plan = {"commands": commands, "seccomp": str(folder / "seccomp"), "user": [USER, USER] if as_root else None}
    (folder / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-I", "-S", str(WORKER), str(folder / "plan.json")]
    if hidden:
        shown.mkdir()
        bind = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", bind, "sh", str(python), str(shown), *command]
    return Worker(command, folder / "bwrap.log", {"PATH": os.environ.get("PATH", "/usr/bin:/bin")})


def places(tools: dict[str, Any], python: Path, *, work: bool) -> list[str]:
    """The file system inside: /usr, Python without packages, /proc, /dev and three places to write."""
    home = tools["python"] if tools["python_in_usr"] else "/opt/python"
    words = ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM:
        if os.path.islink(f"/{name}"):
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    words += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    if not tools["python_in_usr"]:
        words += ["--ro-bind", str(python), home]
    for mask in tools["masks"]:
        if os.path.isdir(f"{tools['python']}/{mask}"):
            words += ["--size", "4096", "--tmpfs", f"{home}/{mask}", "--remount-ro", f"{home}/{mask}"]
    words += VIEW
    size = str(Limits().disk_bytes)
    words += ["--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--size", size, "--tmpfs", "/tmp"]
    words += ["--bind", "@work", "/workspace"] if work else ["--size", size, "--tmpfs", "/workspace"]
    env = {"HOME": "/workspace", "LANG": "C.UTF-8", "PATH": f"{home}/bin:/usr/local/bin:/usr/bin:/bin"}
    if tools["python_shared"] and not tools["python_in_usr"]:
        env["LD_LIBRARY_PATH"] = f"{home}/lib"
    return [*words, "--remount-ro", "/", *(w for name, text in env.items() for w in ("--setenv", name, text))]


def _binary(tools: dict[str, Any], folder: Path) -> str:
    """The same bwrap as the sandbox's, where the other user reaches it."""
    for source, name in {path: name for name, path in tools["bwrap_files"].items()}.items():
        target = folder / "bwrap" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        target.chmod(0o755)
    return str(folder / "bwrap" / tools["bwrap"]) if tools["bwrap_files"] else str(tools["bwrap"])
