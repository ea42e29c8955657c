"""What the container backend asks an engine for: connection, options of a container, streams, strays, removal."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.errors import SandboxError, SandboxLaunchError, SandboxUnavailable, SandboxUnsupported
from environments.sandboxes._guarded import INIT, some_user
from environments.sandboxes.base import SandboxSpec

_INSTALL = "Install the client with `pip install 'assay[container]'`."
_NO_ENGINE = (
    "Start Docker or Podman (`podman system service -t 0`), and name its socket in the option base_url or DOCKER_HOST."
)
OWNER = "assay.owner"
_SPARE_TASKS = 16  # first process and guards
_CLOSED = "size=4096,mode=0555"
_STDOUT, _STDERR = 1, 2


def options(config: Any, spec: SandboxSpec, box: str, image: str) -> dict[str, Any]:
    """What the engine is asked for, as arguments of `docker.DockerClient.containers.create`."""
    limits, user = spec.limits, some_user()
    # Podman knows no owner here, and only this sandbox is in there.
    disk = f"size={limits.disk_bytes},mode=1777,exec,nosuid,nodev"
    memory = limits.memory_bytes + 3 * limits.disk_bytes
    return {
        "image": image,
        "command": ["python3", "-I", "-S", "-c", INIT.format(life_s=config.max_life_s)],
        "entrypoint": [],
        "name": box,
        "hostname": "sandbox",
        "user": f"{user}:{user}",
        "working_dir": "/",
        "network_mode": "none" if spec.network == "none" else "bridge",
        "read_only": True,
        # Podman would make the last two writable, without a limit of size.
        "tmpfs": {spec.work_dir: disk, "/tmp": disk, "/run": _CLOSED, "/var/tmp": _CLOSED},
        "shm_size": limits.disk_bytes,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": limits.max_processes + _SPARE_TASKS,
        "mem_limit": memory,
        "memswap_limit": memory,
        "auto_remove": True,
        "labels": {**{f"assay.{name}": value for name, value in spec.labels.items()}, OWNER: owner()},
        **({"runtime": config.runtime} if config.runtime else {}),
    }


def owner() -> str:
    """This process, as a label: machine, pid and start, so that a later process with its pid is not taken for it."""
    return f"{socket.gethostname()}/{os.getpid()}/{_start_of(os.getpid())}"


def is_stray(label: str) -> bool:
    """Whether the owner a label names was a process of this machine that has ended."""
    host, _, process = label.partition("/")
    pid, _, start = process.partition("/")
    return host == socket.gethostname() and pid.isdigit() and _start_of(int(pid)) != start


def _start_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def connected(base_url: str) -> tuple[Any, str]:
    try:
        import docker
        from docker.errors import DockerException
    except ImportError as error:
        raise SandboxUnavailable(f"Containers need the Python package docker. {_INSTALL}") from error
    try:
        client = docker.DockerClient(base_url=base_url) if base_url else docker.from_env()
        told: Mapping[str, Any] = client.version()
    except DockerException as error:
        raise SandboxUnavailable(
            f"No container engine answers at {base_url or 'DOCKER_HOST'}: {error}. {_NO_ENGINE}"
        ) from error
    engine = (told.get("Components") or [{"Name": "Engine"}])[0]["Name"]
    return client, f"{engine} {told.get('Version')}"


def sweep(client: Any) -> None:
    with explained("look for strays"):
        for container in client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True):
            if is_stray(container.labels.get(OWNER, "")):
                remove(container)


def remove(container: Any) -> None:
    """Kill and remove; returns when it is gone. Idempotent."""
    from docker.errors import APIError, NotFound

    try:
        container.remove(force=True, v=True)
        container.wait(condition="removed")
    except NotFound:
        return
    except APIError as error:
        if error.response is None or error.response.status_code != 409:  # 409: it is on its way already
            raise SandboxError(f"Container {container.name} cannot be removed: {error}.") from error
        _wait_until_gone(container)


def _wait_until_gone(container: Any) -> None:
    from docker.errors import NotFound

    try:
        container.wait(condition="removed")
    except NotFound:
        return


def removed(launching: "asyncio.Future[Any]") -> None:
    """A creation nobody waits for any more."""
    if not launching.cancelled() and launching.exception() is None:
        threading.Thread(target=remove, args=[launching.result().container], daemon=True).start()


def image_name(name: str) -> str:
    if os.path.exists(name) and os.sep in name:
        raise SandboxUnsupported(
            f"The image {name!r} is a file or folder; the sandbox backend 'container' takes names only. Load it with "
            "`docker load` or `docker import` and give its name, or choose a backend that takes folders."
        )
    return name


@contextlib.contextmanager
def explained(action: str) -> Iterator[None]:
    """Errors of the engine as SandboxLaunchError."""
    from docker.errors import DockerException

    try:
        yield
    except DockerException as error:
        raise SandboxLaunchError(f"The container engine could not {action}: {error}; try again.") from error


class ExecStream:
    """The streams of a command in a container, as the engine's API carries them over one socket."""

    def __init__(self, connection: Any) -> None:
        from docker.utils.socket import frames_iter

        self.complaint = ""
        self._connection = connection
        self._socket: socket.socket = getattr(connection, "_sock", connection)
        self._frames: Iterator[tuple[int, bytes]] = frames_iter(connection, tty=False)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        for stream, data in self._frames:
            if stream == _STDOUT and data:
                return data
            if stream == _STDERR:
                self.complaint = (self.complaint + data.decode(errors="replace"))[-4000:]
        return b""

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the engine may have been first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()
