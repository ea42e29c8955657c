"""From the supervisor to bwrap: the fork, and what the child gives up before it becomes bwrap.

pipes: stdout, stderr (its output), status (bwrap's report), block (PID 1 waits on it), script (what to run)
"""

import contextlib
import errno
import os
import resource
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from environments.sandboxes import _kernel

NOT_EXECUTED = "bwrap: execvp "  # how bwrap begins to say that it could not start the command
SCRIPT = 9  # the child's descriptor of its script: shells redirect one-digit descriptors only
_FROM_CHILD, _TO_CHILD = ("stdout", "stderr", "status"), ("block", "script")

CommandLine = Callable[[Mapping[str, int]], list[str]]


@dataclass(frozen=True)
class Restraint:
    """What the child submits to. `user` is (uid, gid), None for this user; `groups` are cgroup.procs files to enter.

    Processes are counted per user: only one that nobody else has (`own_user`) can be limited before bwrap starts.
    """

    user: tuple[int, int] | None
    own_user: bool
    limits: Mapping[str, int]
    groups: Sequence[str]


def launch(
    command: CommandLine, restraint: Restraint, *, stdin: int, passed: Mapping[str, int], pipes: Sequence[str] = ()
) -> tuple[int, dict[str, int]]:
    """Fork bwrap; its pid and our ends of its pipes, by name: stdout, stderr, status, and those of `pipes` too.

    `command` gives bwrap's argv for the child's descriptors by name, `passed` among them. Raises OSError when the
    machine has no process or descriptor left.
    """
    ours, theirs = dict[str, int](), dict[str, int]()
    with contextlib.ExitStack() as on_failure:
        with contextlib.ExitStack() as always:
            for name in (*_FROM_CHILD, *pipes):
                reader, writer = os.pipe()
                ours[name], theirs[name] = (writer, reader) if name in _TO_CHILD else (reader, writer)
                on_failure.callback(os.close, ours[name])
                always.callback(os.close, theirs[name])
            if restraint.user:
                # Or /dev/stdout and its like, which open these anew, would be forbidden inside.
                for fd in (*(theirs[name] for name in ("stdout", "stderr", *pipes)), *_memory_files(stdin)):
                    os.fchown(fd, *restraint.user)
            words = [encoded(word) for word in command({**theirs, **passed})]
            pid = os.fork()
            if pid == 0:
                kept = [fd for name, fd in {**theirs, **passed}.items() if name not in ("stdout", "stderr", "script")]
                if "script" in theirs:
                    os.dup2(theirs["script"], SCRIPT)
                    kept.append(SCRIPT)
                _become_bwrap(words, (stdin, theirs["stdout"], theirs["stderr"]), kept, restraint)
        on_failure.pop_all()
    for name in _FROM_CHILD:
        os.set_blocking(ours[name], False)
    return pid, ours


def reserve_descriptors() -> None:
    """Occupy every free descriptor up to SCRIPT, so that no other one of this process ever has its number."""
    while (fd := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) <= SCRIPT:
        pass
    os.close(fd)


def encoded(word: str) -> bytes:
    """What is passed to the kernel for `word`; what UTF-8 cannot express becomes a question mark."""
    return word.encode("utf-8", "replace")


def _memory_files(fd: int) -> list[int]:
    """`fd` if it has no name in any folder: what has one is not ours to give away."""
    status = os.fstat(fd)
    return [fd] if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 else []


def _become_bwrap(
    words: list[bytes], standard: tuple[int, int, int], kept: Sequence[int], restraint: Restraint
) -> None:
    """In the child; does not return."""
    try:
        for target, source in enumerate(standard):
            os.dup2(source, target)
        _keep_only(kept)
        _offer_to_oom_killer()
        for group in restraint.groups:
            _enter(group)
        if restraint.user:
            uid, gid = restraint.user
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        _limit(restraint.limits, own_user=restraint.own_user)
        os.execve(words[0], words, {})
    except OSError as error:
        who = f"{NOT_EXECUTED}it" if error.errno == errno.E2BIG else "Cannot start bwrap"
        os.write(2, encoded(f"{who}: {error.strerror}"))
    finally:
        os._exit(1)


def _keep_only(fds: Sequence[int]) -> None:
    """Close every descriptor above 2 but `fds`, which bwrap is to inherit."""
    below = 2
    for fd in sorted(fds):
        os.closerange(below + 1, fd)
        os.set_inheritable(fd, True)
        below = fd
    os.closerange(below + 1, 1 << 30)


def _offer_to_oom_killer() -> None:
    """When the machine runs out of memory, sandboxes go first."""
    _kernel.set_dumpable(True)
    _write("/proc/self/oom_score_adj", b"1000")


def _enter(group: str) -> None:
    _write(group, b"0")


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _limit(limits: Mapping[str, int], *, own_user: bool) -> None:
    """The limits that processes inherit."""
    wanted = {
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["max_file_bytes"],
        resource.RLIMIT_NOFILE: limits["max_open_files"],
        resource.RLIMIT_CORE: 0,
    }
    if "cpu_s" in limits:
        wanted[resource.RLIMIT_CPU] = limits["cpu_s"]
    if own_user:
        wanted[resource.RLIMIT_NPROC] = limits["max_processes"]
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
