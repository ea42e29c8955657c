"""The place a sandboxed program sees, and the bwrap command line that shows it.

    supervisor's private mounts                     inside a sandbox
    /tmp (a tmpfs nobody else sees)
    ├── bwrap/          a copy of the binary        (not visible)
    ├── roots/N/        /usr or an image, Python    /  (read-only)
    ├── shown/N         a layer or mount, bound     (below an overlay, or where the spec wants it)
    └── boxes/ID/       a sized tmpfs per sandbox   /workspace, /tmp, /dev/shm

A root is put together once per image and set of mount points; a command only adds /proc, /dev and its box to it.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from environments.sandboxes import _kernel
from environments.sandboxes._users import of_layers

INSIDE_ID = 1000  # uid and gid a program sees itself as
STAGE = "/tmp"  # exists everywhere; only the supervisor sees what is mounted here
_PYTHON = "/opt/python"
_IMAGE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_OWN = ("proc", "dev", "tmp")  # bwrap mounts these itself
_KERNEL_INTERFACES = frozenset(
    [
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "pstore",
        "securityfs",
        "tracefs",
    ]
)
_PASSWD = f"root:x:0:0::/root:/bin/sh\nagent:x:{INSIDE_ID}:{INSIDE_ID}::/workspace:/bin/sh\n"
_GROUP = f"root:x:0:\nagent:x:{INSIDE_ID}:\n"
ISOLATION = (
    "--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try --disable-userns "
    f"--uid {INSIDE_ID} --gid {INSIDE_ID} --hostname sandbox --die-with-parent --new-session --cap-drop ALL --clearenv"
).split()
VIEW = ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]


class Jail:
    """Prepares the stage once (in namespaces of its own), then roots, layers and command lines."""

    def __init__(self, options: Mapping[str, Any], *, as_root: bool) -> None:
        """`options` is what `_locate.tools` returns. Raises OSError when something cannot be mounted."""
        # Opened before the stage hides what may itself lie below /tmp.
        self._hidden = os.open(STAGE, os.O_PATH | os.O_CLOEXEC)
        self._options, self._as_root = options, as_root
        binary = _contents(options["bwrap_files"])
        if as_root:
            _drop_unneeded_mounts(options["kept_mounts"])
        _kernel.mount_tmpfs(STAGE, "size=33554432,mode=0711")
        self._bwrap = _place(binary, options["bwrap"])
        for name in ("boxes", "roots", "shown"):
            os.mkdir(f"{STAGE}/{name}", 0o711)
        self._roots: dict[tuple[Any, ...], str] = {}
        self._shown: dict[str, str] = {}
        self._python = options["python"] if options["python_in_usr"] else _PYTHON
        self.overlays = self._try_overlay()

    def keep(self, name: str, data: bytes) -> str:
        """A file of the supervisor's on the stage, which no sandbox sees; its path."""
        path = f"{STAGE}/{name}"
        with open(path, "wb") as file:
            file.write(data)
        return path

    def root(self, image: str, places: Sequence[str]) -> str:
        """A root file system with empty folders at `places` (absolute paths inside) to mount on."""
        key = (image, *sorted(places))
        if key not in self._roots:
            path = f"{STAGE}/roots/{len(self._roots)}"
            if image:
                self._show_image(path, image, places)
            else:
                self._show_system(path, places)
            self._roots[key] = path
        return self._roots[key]

    def layer(self, source: str) -> str:
        """The folder `source`, read-only, its files belonging to the sandbox's user as far as they were its owner's."""
        if source not in self._shown:
            target = f"{STAGE}/shown/{len(self._shown)}"
            os.mkdir(target)
            path = self._path(source)
            status = os.stat(path)
            if self._as_root:
                _kernel.bind_as(path, target, (status.st_uid, status.st_gid), of_layers())
            else:
                _kernel.bind(path, target)
            self._shown[source] = target
        return self._shown[source]

    def has(self, source: str) -> bool:
        """Whether there is such a folder on this machine."""
        return os.path.isdir(self._path(source))

    def command(
        self, root: str, binds: Sequence[str], work_dir: str, env: Mapping[str, str], image: str
    ) -> tuple[list[str], dict[str, str]]:
        """bwrap's argv up to its descriptors, and the variables of the program inside."""
        view = ["--ro-bind", root, "/", *VIEW]
        variables = {"HOME": work_dir, "LANG": "C.UTF-8", **self._leading(image), **env}
        return [self._bwrap, *ISOLATION, *view, *binds, "--remount-ro", "/dev"], variables

    def python(self, image: str) -> str | None:
        """The interpreter inside, if there is one."""
        if not image:
            return f"{self._python}/bin/python3"
        found = (f"/{folder}/python3" for folder in ("usr/local/bin", "usr/bin", "bin"))
        return next((path for path in found if os.path.exists(self._path(image) + path)), None)

    def _leading(self, image: str) -> dict[str, str]:
        """Variables that lead to the interpreter."""
        if image:
            return {"PATH": _IMAGE_PATH}
        shared = self._options["python_shared"] and not self._options["python_in_usr"]
        library = {"LD_LIBRARY_PATH": f"{self._python}/lib"} if shared else {}
        return {**library, "PATH": f"{self._python}/bin:/usr/local/bin:/usr/bin:/bin"}

    def _path(self, source: str) -> str:
        """`source` as it is reached now: the stage covers /tmp."""
        below = os.path.relpath(os.path.realpath(source), STAGE)
        if source.startswith(f"{STAGE}/") and not below.startswith(".."):
            return f"/proc/self/fd/{self._hidden}/{below}"
        return source

    def _show_system(self, path: str, places: Sequence[str]) -> None:
        """/usr and what programs need of /etc; nothing else of this machine's files is there to be found."""
        for name in ("", "etc", "usr", *_OWN, *(place.strip("/") for place in places)):
            os.makedirs(f"{path}/{name}", 0o755, exist_ok=True)
        _kernel.bind("/usr", f"{path}/usr")
        for name in SYSTEM:
            if os.path.islink(f"/{name}"):
                os.symlink(os.readlink(f"/{name}"), f"{path}/{name}")
            elif os.path.isdir(f"/{name}"):
                os.mkdir(f"{path}/{name}", 0o755)
                _kernel.bind(f"/{name}", f"{path}/{name}")
        for name, text in (("passwd", _PASSWD), ("group", _GROUP)):
            with open(f"{path}/etc/{name}", "w") as file:
                file.write(text)
        if os.path.exists("/etc/ld.so.cache"):
            shutil.copy("/etc/ld.so.cache", f"{path}/etc/ld.so.cache")
        if os.path.isdir("/etc/alternatives"):
            shutil.copytree("/etc/alternatives", f"{path}/etc/alternatives", symlinks=True)
        self._show_python(path)

    def _show_python(self, path: str) -> None:
        home = f"{path}{self._python}"
        if not self._options["python_in_usr"]:
            os.makedirs(home, 0o755)
            _kernel.bind(self._path(self._options["python"]), home)
        for mask in self._options["masks"]:
            if os.path.isdir(f"{home}/{mask}"):
                _kernel.mount_tmpfs(f"{home}/{mask}", "size=4096,mode=0755", read_only=True)

    def _show_image(self, path: str, image: str, places: Sequence[str]) -> None:
        """The image with mount points added: bwrap could not make any in a read-only root."""
        extra = f"{path}.places"
        for name in ("", *_OWN, *(place.strip("/") for place in places)):
            os.makedirs(f"{extra}/{name}", 0o755, exist_ok=True)
        os.mkdir(path)
        _kernel.mount_overlay(path, [extra, self.layer(image)], as_root=self._as_root)

    def _try_overlay(self) -> str:
        """Empty when layered work dirs work here, else why not."""
        home = f"{STAGE}/boxes/trial"
        for name in ("lower", "upper", "work", "merged"):
            os.makedirs(f"{home}/{name}")
        try:
            _kernel.mount_overlay(
                f"{home}/merged", [f"{home}/lower"], f"{home}/upper", f"{home}/work", as_root=self._as_root
            )
            _kernel.unmount(f"{home}/merged")
            return ""
        except OSError as error:
            return str(error)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _drop_unneeded_mounts(kept: Sequence[str]) -> None:
    """Detach kernel interfaces that no sandbox shows: every bwrap copies all mounts of this process and drops them."""
    with open("/proc/self/mounts") as file:
        mounts = [line.split()[1:3] for line in file]
    for path, kind in reversed(mounts):
        if kind in _KERNEL_INTERFACES and path not in kept:
            with contextlib.suppress(OSError):
                _kernel.unmount(path)


def _contents(files: Mapping[str, str]) -> dict[str, bytes]:
    contents = {}
    for name, path in files.items():
        with open(path, "rb") as file:
            contents[name] = file.read()
    return contents


def _place(files: Mapping[str, bytes], path: str) -> str:
    """Copy a bundled binary to where an unprivileged user reaches it; a system-wide one stays where it is.

    The copy may belong to the very user that runs inside, who finds it through /proc: its mount is read-only.
    """
    if not files:
        return path
    os.mkdir(f"{STAGE}/bwrap", 0o755)
    _kernel.mount_tmpfs(f"{STAGE}/bwrap", "size=4194304,mode=0755")
    for name, data in files.items():
        target = f"{STAGE}/bwrap/{name}"
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
        os.chmod(target, 0o755)
    _kernel.make_read_only(f"{STAGE}/bwrap")
    return f"{STAGE}/bwrap/{path}"
