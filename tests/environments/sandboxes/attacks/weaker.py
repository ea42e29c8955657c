"""Controls: the same attack in a sandbox that lacks one defence, to show that it is this defence that stops it.

    test --bwrap--> stand-in machine (own users, processes, network, files) --bwrap--> weaker sandbox --> attack

The weaker sandbox never stands on the real machine. An outer sandbox, always started as a user without rights, plays
the machine: `stand_in.py` is root there and nowhere else, owns the secrets, listeners and victims that the attack goes
for, and starts the weaker sandbox with the flags of the real one, less the named ones. All ends with the outer one.
"""

import atexit
import base64
import functools
import json
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from environments.sandboxes import _jail, _locate, _seccomp
from tests.environments.sandboxes.probing import GUARD

_OUTER = [
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--uid", "0", "--gid", "0", "--cap-add", "ALL", "--hostname", "sandbox"),
    *("--die-with-parent", "--new-session", "--clearenv"),
]
_PLACES = ("/tmp", "/srv", "/workspace")
_SIZE = str(64 << 20)


def weaker(
    code: str,
    *,
    without: Sequence[str] = (),
    plus: Sequence[str] = (),
    machine: str = "",
    afterwards: str = "",
    facts: Mapping[str, Any] | None = None,
    unlimited: Sequence[str] = (),
    timeout_s: float = 30.0,
) -> Any:
    """The `answer` that attack `code` computes in a sandbox `without` some of the real one's flags and `plus` others.

    `without` names flags by their beginning (`--unshare-net`, `--ro-bind /proc/sys`, `--seccomp`); `unlimited` names
    limits of `stand_in.LIMITS`. `machine` is Python run by the stand-in machine before, `afterwards` after the sandbox
    has ended (see `stand_in.py` for their names); `facts` is known to all three. Fails when the program cannot run.
    """
    plan = {
        "command": _command(_flags(without), plus),
        "program": GUARD + "facts = FACTS\n" + code + "\nprint(json.dumps(answer))",
        "filter": base64.b64encode(_seccomp.program(platform.machine())).decode(),
        "machine": machine,
        "afterwards": afterwards,
        "facts": dict(facts or {}),
        "unlimited": list(unlimited),
    }
    stdout = _run(Path(__file__).with_name("stand_in.py").read_text(), json.dumps(plan), timeout_s)
    return json.loads(stdout.splitlines()[-1])


def _flags(without: Sequence[str]) -> list[str]:
    """The real sandbox's flags in front of the root and the program, less those that begin like one of `without`."""
    groups: list[list[str]] = []
    for word in [*_jail.ISOLATION, *_jail.VIEW, "--seccomp", "{seccomp}"]:
        if word.startswith("--"):
            groups.append([])
        groups[-1].append(word)
    for name in without:
        assert any(_matches(group, name) for group in groups), f"the real sandbox has no flag {name}"
    kept = [group for group in groups if not any(_matches(group, name) for name in without)]
    return [word for group in kept for word in group]


def _matches(group: Sequence[str], name: str) -> bool:
    return f"{' '.join(group)} ".startswith(f"{name} ")


def _command(flags: Sequence[str], plus: Sequence[str]) -> list[str]:
    binds = [word for place in ("workspace", "tmp") for word in ("--bind", f"/srv/{place}", f"/{place}")]
    path = ["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--chdir", "/workspace"]
    seal = [] if "no-seal" in plus else ["--remount-ro", "/"]
    more = [word for word in plus if word != "no-seal"]
    return ["/opt/bwrap/" + _binary()[1], *_root(), *flags, *binds, *path, *more, *seal, "--", _python()]


def _run(program: str, plan: str, timeout_s: float) -> str:
    folder, name = _binary()
    places = [word for place in _PLACES for word in ("--size", _SIZE, "--perms", "0755", "--tmpfs", place)]
    command = [f"{folder}/{name}", *_OUTER, *_root(), "--ro-bind", folder, "/opt/bwrap", "--proc", "/proc"]
    command += ["--dev", "/dev", *places, "--remount-ro", "/", "--chdir", "/workspace", "--", _python()]
    user = {"user": _throwaway(), "group": _throwaway(), "extra_groups": []} if os.getuid() == 0 else {}
    process = subprocess.Popen(
        [*command, "-I", "-S", "-c", program],
        env={},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **user,  # type: ignore[call-overload]
    )
    try:
        stdout, stderr = process.communicate(plan, timeout_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, f"the weaker sandbox did not run: {stderr}"
    return stdout


@functools.cache
def _throwaway() -> int:
    """A user that nobody is, another one in each run of the tests."""
    return 61_184 + secrets.randbelow(3_000)


@functools.cache
def _binary() -> tuple[str, str]:
    """A folder that every user reaches, and the name of bwrap below it."""
    tools = _locate.tools()
    folder = tempfile.mkdtemp(prefix="assay-bwrap-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    for name, source in (tools["bwrap_files"] or {"bwrap": tools["bwrap"]}).items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), 0o755, exist_ok=True)
        shutil.copy(source, f"{folder}/{name}")
        os.chmod(f"{folder}/{name}", 0o755)
    return folder, tools["bwrap"] if tools["bwrap_files"] else "bwrap"


def _python() -> str:
    for python in (f"{sys.base_prefix}/bin/python3", "/usr/bin/python3"):
        if python.startswith("/usr/") and os.path.exists(python):
            return python
    pytest.skip("the stand-in machine shows /usr alone, and there is no Python in it")


def _root() -> list[str]:
    """Flags that show the programs of this machine, read-only, and nothing else."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in _jail.SYSTEM:
        if os.path.islink(f"/{name}"):
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    cache = "/etc/ld.so.cache"
    return [*words, "--ro-bind-try", cache, cache]
