"""The place a sandboxed program sees, and the bwrap command line that shows it.

supervisor's private mounts                     inside a sandbox
/tmp (a tmpfs nobody else sees)
├── bwrap/          a copy of the binary        (not visible)
├── etc/            passwd, group               /etc
├── python/         the interpreter's prefix    /opt/python  (read-only)
└── boxes/ID/       a sized tmpfs per sandbox
    ├── workspace/                              /workspace
    ├── tmp/                                    /tmp
    └── shm/                                    /dev/shm
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from environments.sandboxes import _kernel

INSIDE_ID = 1000  # uid and gid a program sees itself as
_STAGE = "/tmp"  # exists everywhere; only the supervisor sees what is mounted here
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SHOWN = ("/etc/ld.so.cache", "/etc/alternatives")
_PASSWD = f"root:x:0:0::/root:/bin/sh\nagent:x:{INSIDE_ID}:{INSIDE_ID}::/workspace:/bin/sh\n"
_GROUP = f"root:x:0:\nagent:x:{INSIDE_ID}:\n"
_ISOLATION = (
    "--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try --disable-userns "
    f"--uid {INSIDE_ID} --gid {INSIDE_ID} --hostname sandbox --die-with-parent --new-session --cap-drop ALL --clearenv"
).split()


class Jail:
    """Prepares the stage once (in namespaces of its own), then makes boxes and their command lines."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """`options` is what `_locate.tools` returns. Raises OSError when something cannot be mounted."""
        # Opened before the stage hides what may itself lie below /tmp.
        python = os.open(options["python"], os.O_PATH | os.O_CLOEXEC)
        binary = _contents(options["bwrap_files"])
        _kernel.mount_tmpfs(_STAGE, "size=33554432,mode=0711")
        for name in ("boxes", "etc", "python"):
            os.mkdir(f"{_STAGE}/{name}", 0o711)
        self._bwrap = _place(binary, options["bwrap"])
        self._etc = _etc()
        self._path, self._mounts, self._env = _show_python(python, options)
        os.close(python)

    def make_box(self, box: str, uid: int, gid: int, disk_bytes: int) -> int:
        """Mount a box of `disk_bytes` that belongs to `uid`; returns its open work dir."""
        inodes = max(1024, disk_bytes // 4096)
        root = f"{_STAGE}/boxes/{box}"
        os.mkdir(root, 0o711)
        _kernel.mount_tmpfs(root, f"size={disk_bytes},nr_inodes={inodes},mode=0700,uid={uid},gid={gid}")
        for name in ("workspace", "tmp", "shm"):
            os.mkdir(f"{root}/{name}", 0o700)
            os.chown(f"{root}/{name}", uid, gid)
        return os.open(f"{root}/workspace", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def remove_box(self, box: str) -> None:
        """Drop the box with everything in it."""
        root = f"{_STAGE}/boxes/{box}"
        _kernel.unmount(root)
        os.rmdir(root)

    def command(
        self, box: str, argv: Sequence[str], env: Mapping[str, str], *, seccomp: int, status: int, block: int
    ) -> list[str]:
        """bwrap's argv: run `argv` in the box once a byte arrives on `block`, reporting on `status`."""
        root = f"{_STAGE}/boxes/{box}"
        variables = {"PATH": self._path, "HOME": "/workspace", "LANG": "C.UTF-8", **self._env, **env}
        return [
            self._bwrap,
            *_ISOLATION,
            *(word for name, value in variables.items() for word in ("--setenv", name, value)),
            *self._mounts,
            *self._etc,
            *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"),
            *("--bind", f"{root}/shm", "/dev/shm", "--remount-ro", "/dev"),
            *("--bind", f"{root}/tmp", "/tmp", "--bind", f"{root}/workspace", "/workspace", "--remount-ro", "/"),
            *("--chdir", "/workspace", "--seccomp", str(seccomp), "--json-status-fd", str(status)),
            *("--block-fd", str(block), "--", *argv),
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


def _etc() -> list[str]:
    words = []
    for name, text in (("passwd", _PASSWD), ("group", _GROUP)):
        with open(f"{_STAGE}/etc/{name}", "w") as file:
            file.write(text)
        words += ["--ro-bind", f"{_STAGE}/etc/{name}", f"/etc/{name}"]
    for path in _SHOWN:
        words += ["--ro-bind-try", path, path]
    return words


def _show_python(prefix: int, options: Mapping[str, Any]) -> tuple[str, list[str], dict[str, str]]:
    """PATH, mounts and variables that make the system and the interpreter usable; see `_locate`."""
    mounts = ["--ro-bind", "/usr", "/usr", *_system_folders()]
    home, stage, env = options["python"], options["python"], {}
    if not options["python_in_usr"]:
        home, stage = "/opt/python", f"{_STAGE}/python"
        _kernel.bind(f"/proc/self/fd/{prefix}", stage)
        mounts += ["--ro-bind", stage, home]
        if options["python_shared"]:
            env["LD_LIBRARY_PATH"] = f"{home}/lib"
    for mask in options["masks"]:
        if os.path.isdir(f"{stage}/{mask}"):
            _kernel.mount_tmpfs(f"{stage}/{mask}", "size=4096,mode=0755", read_only=True)
    return f"{home}/bin:/usr/local/bin:/usr/bin:/bin", mounts, env


def _system_folders() -> list[str]:
    """/bin and its like as on this machine: links into /usr, or folders of their own."""
    words = []
    for name in _SYSTEM:
        if os.path.islink(f"/{name}"):
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    return words
