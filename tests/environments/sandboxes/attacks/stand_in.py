"""The stand-in machine: the program of the outer sandbox, which sets up targets and starts the weaker sandbox.

It is read as text and run by `weaker.py`. The code of a test sees the names below and may set `env` (what bwrap is
started with), `pass_fds` (what it inherits), `plus` (more flags) and `facts` (what the attack is told); afterwards it
sees `exit_code`, `stdout` and `stderr` of the sandbox and may set `answer`.
"""

import base64
import ctypes
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

LIMITS = {
    "memory": (resource.RLIMIT_AS, 1 << 30),
    "file_size": (resource.RLIMIT_FSIZE, 16 << 20),
    "open_files": (resource.RLIMIT_NOFILE, 256),
    "cpu": (resource.RLIMIT_CPU, 10),
    "processes": (resource.RLIMIT_NPROC, 64),
    "core": (resource.RLIMIT_CORE, 0),
}
_PR_SET_SECUREBITS, _SECBIT_NOROOT, _PR_CAP_AMBIENT, _CLEAR_ALL = 28, 1, 47, 4


def without_privileges() -> None:
    """For `preexec_fn`: root, too, has no capabilities after it executes a program."""
    ctypes.CDLL(None).prctl(_PR_SET_SECUREBITS, _SECBIT_NOROOT, 0, 0, 0)
    ctypes.CDLL(None).prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)


def victim(code: str = "", env: Mapping[str, str] | None = None) -> int:
    """A process of the machine without privileges, as a trainer would be, that lives until the machine ends."""
    program = f"{code}\nprint(flush=True)\nimport time\nfor _ in range(300): time.sleep(0.1)"
    command = [sys.executable, "-I", "-S", "-c", program]
    process = subprocess.Popen(command, env=env or {}, stdout=subprocess.PIPE, preexec_fn=without_privileges)
    assert process.stdout
    process.stdout.readline()
    return process.pid


def alive(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"


def processes_with(marker: str) -> int:
    """How many processes have the marker on their command line."""
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as file:
                found += marker in file.read() and int(name) != os.getpid()
        except OSError:
            continue
    return found


def start(plan: Mapping[str, Any], scope: Mapping[str, Any]) -> "subprocess.Popen[str]":
    """Start the weaker sandbox with the attack."""
    with open("/srv/filter", "wb") as file:
        file.write(base64.b64decode(plan["filter"]))
    seccomp = os.open("/srv/filter", os.O_RDONLY)
    program = plan["program"].replace("FACTS", repr(scope["facts"]), 1)
    *command, dashes, python = [str(seccomp) if word == "{seccomp}" else word for word in plan["command"]]
    words = [*command, *scope["plus"], dashes, python, "-I", "-S", "-c", program]

    def limit() -> None:
        for name, (kind, value) in LIMITS.items():
            if name not in plan["unlimited"]:
                resource.setrlimit(kind, (value, value))

    return subprocess.Popen(
        words,
        env=scope["env"],
        pass_fds=[seccomp, *scope["pass_fds"]],
        preexec_fn=limit,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    """Run the plan that stands on standard input; the last line of output is the answer as JSON."""
    assert socket.gethostname() == "sandbox"
    assert os.getcwd() == "/workspace"
    resource.setrlimit(resource.RLIMIT_NPROC, (200, 200))
    plan = json.load(sys.stdin)
    for name in ("workspace", "tmp"):
        os.mkdir(f"/srv/{name}", 0o700)
    scope = {**globals(), "env": {}, "pass_fds": [], "plus": [], "facts": plan["facts"]}
    exec(plan["machine"], scope)
    process = start(plan, scope)
    scope["process"] = process
    exec(scope.get("meanwhile", ""), scope)
    scope["stdout"], scope["stderr"] = process.communicate()
    scope["exit_code"] = process.returncode
    if process.returncode == 0 and scope["stdout"]:
        scope["answer"] = json.loads(scope["stdout"].splitlines()[-1])
    exec(plan["afterwards"], scope)
    assert "answer" in scope, f"the attack ended with {process.returncode}: {scope['stdout']}{scope['stderr']}"
    sys.stdout.write(json.dumps(scope["answer"]) + "\n")


if __name__ == "__main__":
    main()
