"""The few kernel calls the supervisor needs that Python 3.11 does not offer: namespaces, mounts, subreaper.

Every function raises OSError with the errno and what was attempted.
"""

import ctypes
import os

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, action: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def enter_namespaces(*, as_root: bool) -> None:
    """Move this process into a mount namespace of its own whose mounts no other process sees.

    A plain user gets a user namespace first, in which only that user exists and may mount.
    """
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(_CLONE_NEWNS if as_root else _CLONE_NEWNS | _CLONE_NEWUSER), "unshare")
    if not as_root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            _write(f"/proc/self/{name}", text)
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)


def mount_tmpfs(target: str, options: str, *, read_only: bool = False) -> None:
    """A fresh tmpfs; `options` as in mount(8), for example `size=65536,mode=0700`."""
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV | (_MS_RDONLY if read_only else 0), options)


def bind(source: str, target: str) -> None:
    """Show the directory `source` at `target` as well."""
    _mount(source, target, None, _MS_BIND | _MS_REC, None)


def unmount(target: str) -> None:
    """Detach a mount; its memory is freed with the last user."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmount {target}")


def become_supervisor() -> None:
    """Orphaned descendants become children of this process, and no process of the same user may read its memory."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "become subreaper")
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "become non-dumpable")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    result = _libc.mount(*arguments[:3], ctypes.c_ulong(flags), arguments[3])
    _check(result, f"mount {kind or source} on {target}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
