"""From the supervisor to bwrap: the fork, and what the child gives up before it becomes bwrap.

pipes: stdout, stderr (its output), status (bwrap's report), block (PID 1 waits on it), seccomp (the filter)
"""

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Mapping

from environments.sandboxes import _kernel

NOT_EXECUTED = "bwrap: execvp "  # how bwrap begins to say that it could not start the command
_FROM_CHILD, _TO_CHILD = ("stdout", "stderr", "status"), ("block", "seccomp")

CommandLine = Callable[[Mapping[str, int]], list[str]]


def launch(
    command: CommandLine, stdin: int, seccomp: bytes, user: tuple[int, int] | None, limits: Mapping[str, int]
) -> tuple[int, dict[str, int]]:
    """Fork bwrap under `limits`, as `user` (uid, gid) if given; its pid and our ends of its pipes, by name.

    `command` gives bwrap's argv for the child's descriptors by name. Raises OSError when the machine has no process or
    descriptor left.
    """
    ours, theirs = dict[str, int](), dict[str, int]()
    with contextlib.ExitStack() as on_failure:
        with contextlib.ExitStack() as always:
            for name in (*_FROM_CHILD, *_TO_CHILD):
                reader, writer = os.pipe()
                ours[name], theirs[name] = (writer, reader) if name in _TO_CHILD else (reader, writer)
                on_failure.callback(os.close, ours[name])
                always.callback(os.close, theirs[name])
            os.write(ours["seccomp"], seccomp)
            words = [encoded(word) for word in command(theirs)]
            pid = os.fork()
            if pid == 0:
                _become_bwrap(words, stdin, theirs, user, limits)
        on_failure.pop_all()
    os.close(ours.pop("seccomp"))
    for name in _FROM_CHILD:
        os.set_blocking(ours[name], False)
    return pid, ours


def encoded(word: str) -> bytes:
    """What is passed to the kernel for `word`; what UTF-8 cannot express becomes a question mark."""
    return word.encode("utf-8", "replace")


def _become_bwrap(
    words: list[bytes],
    stdin: int,
    fds: Mapping[str, int],
    user: tuple[int, int] | None,
    limits: Mapping[str, int],
) -> None:
    """In the child; does not return."""
    try:
        for source, target in ((stdin, 0), (fds["stdout"], 1), (fds["stderr"], 2)):
            os.dup2(source, target)
        _keep_only({fds[name] for name in ("status", "block", "seccomp")})
        _offer_to_oom_killer()
        if user:
            os.setgroups([])
            os.setresgid(user[1], user[1], user[1])
            os.setresuid(user[0], user[0], user[0])
        _limit(limits, own_user=user is not None)
        os.execve(words[0], words, {})
    except OSError as error:
        who = f"{NOT_EXECUTED}it" if error.errno == errno.E2BIG else "Cannot start bwrap"
        os.write(2, encoded(f"{who}: {error.strerror}"))
    finally:
        os._exit(1)


def _keep_only(fds: set[int]) -> None:
    """Close every descriptor above 2 but `fds`, which bwrap is to inherit and closes itself."""
    below = 2
    for fd in sorted(fds):
        os.closerange(below + 1, fd)
        os.set_inheritable(fd, True)
        below = fd
    os.closerange(below + 1, 1 << 30)


def _offer_to_oom_killer() -> None:
    """When the machine runs out of memory, sandboxes go first."""
    _kernel.set_dumpable(True)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _limit(limits: Mapping[str, int], *, own_user: bool) -> None:
    """The limits that processes inherit; of processes only where the sandbox's user has no others (see `confine`)."""
    wanted = {
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["max_file_bytes"],
        resource.RLIMIT_NOFILE: limits["max_open_files"],
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_CORE: 0,
    }
    if own_user:
        wanted[resource.RLIMIT_NPROC] = limits["max_processes"]
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
