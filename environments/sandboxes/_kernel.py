"""The few kernel calls the supervisor needs that Python 3.11 does not offer: namespaces, mounts, process flags.

Every function raises OSError with the errno and what was attempted.
"""

import contextlib
import ctypes
import errno
import os
import select
import signal
import struct
from collections.abc import Iterator

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
# Numbers of these calls are the same on x86_64 and aarch64.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV, _MOUNT_ATTR_IDMAP = 1, 2, 4, 0x00100000

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


def mount_overlay(target: str, lower: list[str], upper: str = "", work: str = "", *, as_root: bool) -> None:
    """Show folders `lower` (first on top) as one; changes go to `upper`. Without one it cannot be changed.

    Paths must hold neither colon nor comma.
    """
    options = [f"lowerdir={':'.join(lower)}", *([f"upperdir={upper},workdir={work}"] if upper else [])]
    options += [] if as_root else ["userxattr"]
    _mount("overlay", target, "overlay", _MS_NOSUID | _MS_NODEV, ",".join(options))


def bind_as(source: str, target: str, owner: tuple[int, int], shown: tuple[int, int]) -> None:
    """Show `source` read-only at `target`, with files of `owner` (uid, gid) belonging to `shown` instead."""
    with _user_namespace(owner, shown) as namespace:
        path = os.fsencode(source)
        flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
        tree = _libc.syscall(ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_int(_AT_FDCWD), path, ctypes.c_uint(flags))
        _check(min(tree, 0), f"open the tree {source}")
        try:
            what = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV | _MOUNT_ATTR_IDMAP
            attributes = struct.pack("=QQQQ", what, 0, 0, namespace)
            number, place = ctypes.c_long(_SYS_MOUNT_SETATTR), (ctypes.c_int(tree), b"")
            size = ctypes.c_size_t(len(attributes))
            result = _libc.syscall(number, *place, ctypes.c_uint(_AT_EMPTY_PATH), attributes, size)
            _check(result, f"show the files of {source} as another user's")
            number, to = ctypes.c_long(_SYS_MOVE_MOUNT), (ctypes.c_int(_AT_FDCWD), os.fsencode(target))
            _check(_libc.syscall(number, *place, *to, ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)), f"mount on {target}")
        finally:
            os.close(tree)


@contextlib.contextmanager
def _user_namespace(inside: tuple[int, int], outside: tuple[int, int]) -> Iterator[int]:
    """A descriptor of a user namespace that maps one uid and gid; it exists through a child that only waits."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if _libc.unshare(_CLONE_NEWUSER) == 0:
                os.write(ready[1], b"1")
            os.close(ready[1])
            os.close(go[1])
            os.read(go[0], 1)
        finally:
            os._exit(0)
    try:
        os.close(ready[1])
        if os.read(ready[0], 1) != b"1":
            raise OSError(errno.EPERM, "A user namespace could not be made")
        for name, index in (("uid_map", 0), ("gid_map", 1)):
            _write(f"/proc/{child}/{name}", f"{inside[index]} {outside[index]} 1")
        namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield namespace
        finally:
            os.close(namespace)
    finally:
        for fd in (ready[0], go[0], go[1]):
            os.close(fd)
        os.waitpid(child, 0)


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
