"""Sandboxes as containers of a Docker or Podman engine, here or on another machine: one per sandbox, by image name.

    Container --create--> a container whose first process only waits --exec--> the guard, through the exec API

The image needs python3, sh and tar. What holds: no capability, no privilege gain, a read-only root, a user of its own,
memory of limited size for work dir, /tmp and /dev/shm, limits of memory and processes, no network. The exec API cannot
kill, so the guard does. It runs as the command's user: a command that kills or stops it makes us kill everything of
that user in the container, other commands included. Containers carry labels; those of a dead owner are swept away,
and each ends by itself after `max_life_s`. Needs the extra `container`: pip install 'assay[container]'.
"""

import asyncio
import functools
import os
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from assay.errors import AssayError, SandboxError, SandboxLaunchError, SandboxUnavailable, SandboxUnsupported
from assay.registry import PluginConfig
from environments.sandboxes._guarded import (
    GUARD,
    INIT,
    GuardedSandbox,
    Slots,
    check_sizes,
    place_files,
    some_user,
    spec_hash,
)
from environments.sandboxes._streams import converse
from environments.sandboxes.base import BackendReport, Provenance, SandboxSpec, needed, require

_INSTALL = "Install the client with `pip install 'assay[container]'`."
_NO_ENGINE = (
    "Start Docker or Podman (`podman system service -t 0`), and name its socket in the option base_url or in DOCKER_HOST."
)
OWNER = "assay.owner"
_OWN_KERNELS = ("runsc", "kata")  # how runtimes with a kernel per container are called
_SPARE_TASKS = 16  # first process and guards
_CLOSED = "size=4096,mode=0555"
_STDOUT, _STDERR = 1, 2
_LIMITS = (
    "cpu_s_per_process",
    "disk_bytes_per_place",
    "max_file_bytes",
    "max_open_files",
    "max_processes",
    "memory_bytes",
    "memory_bytes_per_process",
    "output",
    "wall_time",
)


class ContainerSandbox(GuardedSandbox):
    """One sandbox; made by `Container.create`."""

    def __init__(self, backend: "Container", box: str, spec: SandboxSpec, container: Any, made: Provenance) -> None:
        super().__init__(box, spec, made, backend.capabilities, _LIMITS)
        self._backend, self._container = backend, container

    async def _converse(self, request: bytes, timeout_s: float, max_reply: int) -> bytes:
        async with self._backend.slots.one():
            return await converse(self._guard, request, timeout_s, max_reply)

    def _guard(self) -> "ExecStream":
        api = self._container.client.api
        command = ["python3", "-I", "-S", "-c", GUARD]
        made = api.exec_create(self._container.id, command, stdin=True, stdout=True, stderr=True, workdir="/")
        return ExecStream(api.exec_start(made["Id"], socket=True))

    async def _clean_up(self) -> bool:
        """Kill everything in the container but its first process, which the kernel protects."""
        with _explained("clean up"):
            await asyncio.to_thread(self._container.exec_run, ["/bin/sh", "-c", "kill -9 -1"], detach=False)
        return False

    async def _end(self) -> None:
        await asyncio.to_thread(_remove, self._container)


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
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the engine was first
        self._connection.close()


class Container:
    """Makes sandboxes through an engine. Images are never pulled unless `pull` is set."""

    id: ClassVar[str] = "container"

    class Config(PluginConfig):
        """Options of the container backend."""

        base_url: str = Field("", description="The engine, as unix:///run/docker.sock; empty means DOCKER_HOST")
        image: str = Field("python:3.11-slim", description="Image of sandboxes whose spec names none")
        pull: bool = Field(False, description="Pull images that the engine does not have")
        runtime: str = Field("", description="Runtime of the engine, such as runsc; empty means its default")
        max_life_s: int = Field(86_400, ge=60, description="A sandbox ends by itself after this, seconds")
        max_concurrency: int = Field(16, ge=1, le=4096, description="Commands at once")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._client: Any = None
        self._version = ""
        self.slots = Slots(config.max_concurrency)

    @property
    def capabilities(self) -> frozenset[str]:
        """What its sandboxes can."""
        own_kernel = {"own_kernel"} if self._config.runtime.startswith(_OWN_KERNELS) else set()
        return frozenset({"image_name", "network", "cgroup", "own_pids"} | own_kernel)

    async def create(self, spec: SandboxSpec) -> ContainerSandbox:
        """See `base.Backend`. `spec.image` is a name the engine knows, or empty for the option's."""
        require(self.id, self.capabilities, needed(spec))
        check_sizes(spec)
        image = _image_name(spec.image or self._config.image)
        box = f"assay-{secrets.token_hex(8)}"
        launching = asyncio.ensure_future(asyncio.to_thread(self._launch, spec, box, image))
        try:
            sandbox = await asyncio.shield(launching)
        except asyncio.CancelledError:
            launching.add_done_callback(functools.partial(_removed))
            raise
        await place_files(sandbox, spec)
        return sandbox

    async def probe(self) -> BackendReport:
        """Launch one for real and report. Never raises."""
        try:
            sandbox = await self.create(SandboxSpec())
            try:
                result = await sandbox.exec("exit 0")
            finally:
                await sandbox.destroy()
        except (AssayError, OSError) as error:
            return self._report(False, str(error))
        works = result.exit_code == 0
        detail = f"image {self._config.image}" if works else f"/bin/sh does not run: {result.stderr.strip() or result}"
        return self._report(works, detail)

    def close(self) -> None:
        """End every sandbox that is left. Idempotent."""
        with self._lock:
            if self._client is not None:
                for container in self._client.containers.list(all=True, filters={"label": f"{OWNER}={owner()}"}):
                    _remove(container)
                self._client.close()
                self._client = None

    def _report(self, works: bool, detail: str) -> BackendReport:
        return BackendReport(
            backend=self.id,
            version=self._version or "none",
            works=works,
            detail=detail,
            limits_enforced=_LIMITS if works else (),
            capabilities=tuple(sorted(self.capabilities)) if works else (),
        )

    def _launch(self, spec: SandboxSpec, box: str, name: str) -> ContainerSandbox:
        client = self._started()
        image = self._image(client, name)
        with _explained("make a container"):
            container = client.containers.create(**options(self._config, spec, box, image.id))
        try:
            with _explained("start the container"):
                container.start()
        except SandboxLaunchError:
            _remove(container)
            raise
        digest = image.id.removeprefix("sha256:")
        made = Provenance(
            backend=self.id,
            version=self._version,
            image_digest=digest,
            layer_digests=(),
            spec_hash=spec_hash(spec, digest),
        )
        return ContainerSandbox(self, box, spec, container, made)

    def _image(self, client: Any, name: str) -> Any:
        from docker.errors import DockerException, ImageNotFound

        try:
            return client.images.get(name)
        except ImageNotFound as error:
            if not self._config.pull:
                raise SandboxUnavailable(
                    f"The engine has no image {name!r}. Get it with `docker pull {name}`, or set the option pull=true."
                ) from error
        except DockerException as error:
            raise SandboxLaunchError(f"The engine cannot be asked for image {name!r}: {error}; try again.") from error
        with _explained(f"pull image {name}"):
            return client.images.pull(name)

    def _started(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client, self._version = _connected(self._config.base_url)
                _sweep(self._client)
            return self._client


def options(config: Container.Config, spec: SandboxSpec, box: str, image: str) -> dict[str, Any]:
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


def _connected(base_url: str) -> tuple[Any, str]:
    try:
        import docker
        from docker.errors import DockerException
    except ImportError as error:
        raise SandboxUnavailable(f"Containers need the Python package docker. {_INSTALL}") from error
    try:
        client = docker.DockerClient(base_url=base_url) if base_url else docker.from_env()
        told: Mapping[str, Any] = client.version()
    except DockerException as error:
        raise SandboxUnavailable(f"No container engine answers at {base_url or 'DOCKER_HOST'}: {error}. {_NO_ENGINE}") from error
    engine = (told.get("Components") or [{"Name": "Engine"}])[0]["Name"]
    return client, f"{engine} {told.get('Version')}"


def _sweep(client: Any) -> None:
    with _explained("look for strays"):
        for container in client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True):
            if is_stray(container.labels.get(OWNER, "")):
                _remove(container)


def _remove(container: Any) -> None:
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


def _removed(launching: "asyncio.Future[ContainerSandbox]") -> None:
    """A creation nobody waits for any more."""
    if not launching.cancelled() and launching.exception() is None:
        threading.Thread(target=_remove, args=[launching.result()._container], daemon=True).start()


def _image_name(name: str) -> str:
    if os.path.exists(name) and os.sep in name:
        raise SandboxUnsupported(
            f"The image {name!r} is a file or folder; the sandbox backend 'container' takes names only. Load it with "
            "`docker load` or `docker import` and give its name, or choose a backend that takes folders."
        )
    return name


class _explained:
    """Errors of the engine as SandboxLaunchError."""

    def __init__(self, action: str) -> None:
        self._action = action

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        from docker.errors import DockerException

        if isinstance(error, DockerException):
            raise SandboxLaunchError(f"The container engine could not {self._action}: {error}; try again.") from error


__all__ = ["OWNER", "Container", "ContainerSandbox", "ExecStream", "is_stray", "options", "owner"]
