"""The few kernel calls the supervisor needs that Python 3.11 does not offer: namespaces, mounts, process flags.

Every function raises OSError with the errno and what was attempted.
"""

import ctypes
import os
import select
import signal

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, action: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def enter_namespaces(*, as_root: bool) -> None:
    """Mounts of this process become its own, and its future children the first of a process namespace.

    A plain user gets a user namespace first, in which only that user exists and may mount.
    """
    uid, gid = os.getuid(), os.getgid()
    flags = _CLONE_NEWNS | _CLONE_NEWPID | (0 if as_root else _CLONE_NEWUSER)
    _check(_libc.unshare(flags), "unshare")
    if not as_root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            _write(f"/proc/self/{name}", text)
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)


def settle_as_first_process(parent: int) -> None:
    """In the child of `enter_namespaces`: see the new process namespace in /proc, and die with the parent.

    `parent` is a pidfd of it. When this process dies, the kernel kills every process below it, whatever they did.
    """
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "set the parent-death signal")
    if select.select([parent], [], [], 0)[0]:
        os._exit(1)  # it died before the signal was set
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)
    set_dumpable(False)


def set_dumpable(on: bool) -> None:
    """Whether others of the same user may look into this process, and it may write its own /proc files."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(on), 0, 0, 0), "set dumpable")


def mount_tmpfs(target: str, options: str, *, read_only: bool = False) -> None:
    """A fresh tmpfs; `options` as in mount(8), for example `size=65536,mode=0700`."""
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV | (_MS_RDONLY if read_only else 0), options)


def bind(source: str, target: str) -> None:
    """Show the directory `source` at `target` as well."""
    _mount(source, target, None, _MS_BIND | _MS_REC, None)


def unmount(target: str) -> None:
    """Detach a mount; its memory is freed with the last user."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmount {target}")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    result = _libc.mount(*arguments[:3], ctypes.c_ulong(flags), arguments[3])
    _check(result, f"mount {kind or source} on {target}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
