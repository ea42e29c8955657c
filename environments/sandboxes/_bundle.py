"""An OCI bundle for gVisor: the root a sandboxed program sees and the `config.json` that describes it.

    HOME/config.json   what runs, with which mounts and limits
    HOME/root/         this machine's /usr and what programs need of /etc, where no image is given

The root is never writable; work dir, /tmp and /dev/shm are memory of limited size inside gVisor.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import SandboxUnsupported
from environments.sandboxes.base import Limits, SandboxSpec

INSIDE_ID = 1000  # uid and gid of commands
PYTHON = "/opt/python"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PASSWD = f"root:x:0:0::/root:/bin/sh\nagent:x:{INSIDE_ID}:{INSIDE_ID}::/workspace:/bin/sh\n"
_GROUP = f"root:x:0:\nagent:x:{INSIDE_ID}:\n"
_OVERHEAD = 192 << 20  # of gVisor itself, bytes
_HOST_TASKS = 512  # of gVisor itself


def write_bundle(home: Path, spec: SandboxSpec, python: Mapping[str, Any], cgroup: str | None) -> None:
    """Write the bundle for `spec` to the empty folder `home`; `python` is what `_locate.python` says.

    Raises SandboxUnsupported for an image or mount that is no folder, OSError.
    """
    root = _folder(spec.image, "image") if spec.image else str(_host_root(home / "root", spec))
    mounts = [*_own_places(spec), *_shown(spec)]
    if not spec.image:
        mounts = [*_host_mounts(python), *mounts]
    config = {
        "ociVersion": "1.0.2",
        "process": _init(spec),
        "root": {"path": root, "readonly": True},
        "hostname": "sandbox",
        "mounts": mounts,
        "linux": _linux(spec.limits, cgroup),
    }
    (home / "config.json").write_text(json.dumps(config))


def _init(spec: SandboxSpec) -> dict[str, Any]:
    """The first process, which does nothing; commands come beside it."""
    return {
        "user": {"uid": 0, "gid": 0},
        "args": ["/bin/sleep", "2147483647"],
        "env": ["PATH=/usr/bin:/bin"],
        "cwd": "/",
        "noNewPrivileges": True,
        "capabilities": {},
    }


def _linux(limits: Limits, cgroup: str | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
    }
    if cgroup:
        memory = limits.memory_bytes + 3 * limits.disk_bytes + _OVERHEAD
        described["cgroupsPath"] = cgroup
        described["resources"] = {
            "memory": {"limit": memory},
            "pids": {"limit": _HOST_TASKS + 8 * limits.max_processes},
        }
    return described


def _own_places(spec: SandboxSpec) -> list[dict[str, Any]]:
    options = [f"size={spec.limits.disk_bytes}", "nosuid", "nodev", f"uid={INSIDE_ID}", f"gid={INSIDE_ID}"]
    memory = [
        {"destination": place, "type": "tmpfs", "source": "tmpfs", "options": [*options, "mode=0700"]}
        for place in ("/tmp", "/dev/shm", spec.work_dir)
    ]
    return [{"destination": "/proc", "type": "proc", "source": "proc"}, *memory]


def _host_mounts(python: Mapping[str, Any]) -> list[dict[str, Any]]:
    mounts = [_read_only("/usr", "/usr")]
    mounts += [_read_only(f"/{name}", f"/{name}") for name in _SYSTEM if _is_own_folder(f"/{name}")]
    home = python["python"]
    if not python["python_in_usr"]:
        mounts.append(_read_only(home, PYTHON))
        home = PYTHON
    for mask in python["masks"]:
        if os.path.isdir(f"{python['python']}/{mask}"):
            mounts.append(
                {"destination": f"{home}/{mask}", "type": "tmpfs", "source": "tmpfs", "options": ["ro", "size=4096"]}
            )
    return mounts


def _shown(spec: SandboxSpec) -> list[dict[str, Any]]:
    for inside in spec.mounts:
        # A missing place would be made in the image itself, which belongs to the person who gave it.
        if spec.image and not os.path.isdir(f"{spec.image}/{inside}"):
            raise SandboxUnsupported(
                f"The image {spec.image} has no folder {inside} to mount at; make it there (it may be empty)."
            )
    return [_read_only(_folder(source, "mount"), inside) for inside, source in spec.mounts.items()]


def _read_only(source: str, inside: str) -> dict[str, Any]:
    return {"destination": inside, "type": "bind", "source": source, "options": ["ro", "rbind", "nosuid", "nodev"]}


def _folder(source: str, what: str) -> str:
    if not os.path.isdir(source):
        raise SandboxUnsupported(
            f"The {what} {source!r} is not a folder; the sandbox backend 'gvisor' shows folders only. Unpack it first, "
            "or choose a backend that takes archives and names (`assay doctor` shows them)."
        )
    return os.path.realpath(source)


def _is_own_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _host_root(root: Path, spec: SandboxSpec) -> Path:
    names = [
        "etc",
        "usr",
        "proc",
        "dev",
        "tmp",
        "opt/python",
        *(name for name in _SYSTEM if _is_own_folder(f"/{name}")),
    ]
    for name in [*names, *(inside.strip("/") for inside in (spec.work_dir, *spec.mounts))]:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in _SYSTEM:
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(os.readlink(f"/{name}"))
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(_GROUP)
    if os.path.exists("/etc/ld.so.cache"):
        shutil.copy("/etc/ld.so.cache", root / "etc/ld.so.cache")
    if os.path.isdir("/etc/alternatives"):
        shutil.copytree("/etc/alternatives", root / "etc/alternatives", symlinks=True)
    return root
