"""The place a sandboxed program sees, and the bwrap command line that shows it.

    supervisor's private mounts                     inside a sandbox
    /tmp (a tmpfs nobody else sees)
    ├── bwrap/          a copy of the binary        (not visible)
    ├── root/           /usr, a bare /etc, Python   /  (read-only)
    └── boxes/ID/       a sized tmpfs per sandbox
        ├── workspace/                              /workspace
        ├── tmp/                                    /tmp
        └── shm/                                    /dev/shm

The root is put together once; a command only adds /proc, /dev and its box to it.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from environments.sandboxes import _kernel

_INSIDE_ID = 1000  # uid and gid a program sees itself as
_STAGE = "/tmp"  # exists everywhere; only the supervisor sees what is mounted here
_ROOT = f"{_STAGE}/root"
_PYTHON = "/opt/python"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PASSWD = f"root:x:0:0::/root:/bin/sh\nagent:x:{_INSIDE_ID}:{_INSIDE_ID}::/workspace:/bin/sh\n"
_GROUP = f"root:x:0:\nagent:x:{_INSIDE_ID}:\n"
_ISOLATION = (
    "--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try --disable-userns "
    f"--uid {_INSIDE_ID} --gid {_INSIDE_ID} --hostname sandbox --die-with-parent --new-session --cap-drop ALL "
    f"--clearenv --ro-bind {_ROOT} / --proc /proc --ro-bind /proc/sys /proc/sys --dev /dev"
).split()


class Jail:
    """Prepares the stage once (in namespaces of its own), then makes boxes and their command lines."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """`options` is what `_locate.tools` returns. Raises OSError when something cannot be mounted."""
        # Opened before the stage hides what may itself lie below /tmp.
        python = os.open(options["python"], os.O_PATH | os.O_CLOEXEC)
        binary = _contents(options["bwrap_files"])
        _kernel.mount_tmpfs(_STAGE, "size=33554432,mode=0711")
        self._bwrap = _place(binary, options["bwrap"])
        os.mkdir(f"{_STAGE}/boxes", 0o711)
        _build_root()
        self._env = {"HOME": "/workspace", "LANG": "C.UTF-8", **_show_python(python, options)}
        os.close(python)

    def make_box(self, box: str, uid: int, gid: int, disk_bytes: int) -> int:
        """Mount a box of `disk_bytes` that belongs to `uid`; returns its open work dir."""
        inodes = max(1024, disk_bytes // 4096)
        home = f"{_STAGE}/boxes/{box}"
        os.mkdir(home, 0o711)
        _kernel.mount_tmpfs(home, f"size={disk_bytes},nr_inodes={inodes},mode=0700,uid={uid},gid={gid}")
        for name in ("workspace", "tmp", "shm"):
            os.mkdir(f"{home}/{name}", 0o700)
            os.chown(f"{home}/{name}", uid, gid)
        return os.open(f"{home}/workspace", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def remove_box(self, box: str) -> None:
        """Drop the box with everything in it."""
        home = f"{_STAGE}/boxes/{box}"
        _kernel.unmount(home)
        os.rmdir(home)

    def command(
        self, box: str, argv: Sequence[str], env: Mapping[str, str], *, seccomp: int, status: int, block: int
    ) -> list[str]:
        """bwrap's argv: run `argv` in the box once a byte arrives on `block`, reporting on `status`."""
        home = f"{_STAGE}/boxes/{box}"
        return [
            self._bwrap,
            *_ISOLATION,
            *("--bind", f"{home}/shm", "/dev/shm", "--remount-ro", "/dev"),
            *("--bind", f"{home}/tmp", "/tmp", "--bind", f"{home}/workspace", "/workspace", "--chdir", "/workspace"),
            *(word for name, value in {**self._env, **env}.items() for word in ("--setenv", name, value)),
            *("--seccomp", str(seccomp), "--json-status-fd", str(status), "--block-fd", str(block), "--", *argv),
        ]


def _contents(files: Mapping[str, str]) -> dict[str, bytes]:
    contents = {}
    for name, path in files.items():
        with open(path, "rb") as file:
            contents[name] = file.read()
    return contents


def _place(files: Mapping[str, bytes], path: str) -> str:
    """Copy a bundled binary to where an unprivileged user reaches it; a system-wide one stays where it is."""
    for name, data in files.items():
        target = f"{_STAGE}/bwrap/{name}"
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
        os.chmod(target, 0o755)
    return f"{_STAGE}/bwrap/{path}" if files else path


def _build_root() -> None:
    """/usr and what programs need of /etc; nothing else of this machine's files is there to be found."""
    for name in ("", "proc", "dev", "tmp", "workspace", "opt", "opt/python", "etc", "usr"):
        os.mkdir(f"{_ROOT}/{name}", 0o755)
    _kernel.bind("/usr", f"{_ROOT}/usr")
    for name in _SYSTEM:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{_ROOT}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{_ROOT}/{name}", 0o755)
            _kernel.bind(f"/{name}", f"{_ROOT}/{name}")
    for name, text in (("passwd", _PASSWD), ("group", _GROUP)):
        with open(f"{_ROOT}/etc/{name}", "w") as file:
            file.write(text)
    if os.path.exists("/etc/ld.so.cache"):
        shutil.copy("/etc/ld.so.cache", f"{_ROOT}/etc/ld.so.cache")
    if os.path.isdir("/etc/alternatives"):
        shutil.copytree("/etc/alternatives", f"{_ROOT}/etc/alternatives", symlinks=True)


def _show_python(prefix: int, options: Mapping[str, Any]) -> dict[str, str]:
    """Make the interpreter visible; returns the variables that lead to it."""
    home, env = options["python"], {}
    if not options["python_in_usr"]:
        home = _PYTHON
        _kernel.bind(f"/proc/self/fd/{prefix}", f"{_ROOT}{home}")
        if options["python_shared"]:
            env["LD_LIBRARY_PATH"] = f"{home}/lib"
    for mask in options["masks"]:
        if os.path.isdir(f"{_ROOT}{home}/{mask}"):
            _kernel.mount_tmpfs(f"{_ROOT}{home}/{mask}", "size=4096,mode=0755", read_only=True)
    return {**env, "PATH": f"{home}/bin:/usr/local/bin:/usr/bin:/bin"}
