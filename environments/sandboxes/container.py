"""Sandboxes as containers of a Docker or Podman engine, here or on another machine: one per sandbox, by image name.

    Container --create--> a container whose first process only waits --exec--> the guard, through the exec API

The image needs python3, sh and tar. What holds: no capability, no privilege gain, a read-only root, a user of its own,
memory of limited size for work dir, /tmp and /dev/shm, limits of memory and processes, no network. The exec API cannot
kill, so the guard does. It runs as the command's user: a command that kills or stops it makes us kill everything of
that user in the container, other commands included. Containers carry labels; those of a dead owner are swept away,
and each ends by itself after `max_life_s`. Needs the extra `container`: pip install 'assay[container]'.
"""

import asyncio
import secrets
import threading
from typing import Any, ClassVar

from pydantic import Field

from assay.errors import AssayError, SandboxLaunchError, SandboxUnavailable
from assay.registry import PluginConfig
from environments.sandboxes import _engine
from environments.sandboxes._guarded import (
    GUARD,
    GuardedSandbox,
    Slots,
    check_sizes,
    place_files,
    spec_hash,
)
from environments.sandboxes._streams import converse
from environments.sandboxes.base import BackendReport, Provenance, SandboxSpec, needed, require

_OWN_KERNELS = ("runsc", "kata")  # how runtimes with a kernel per container are called
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
        self._backend, self.container = backend, container

    async def _converse(self, request: bytes, timeout_s: float, max_reply: int) -> bytes:
        async with self._backend.slots.one():
            return await converse(self._guard, request, timeout_s, max_reply)

    def _guard(self) -> "_engine.ExecStream":
        api = self.container.client.api
        command = ["python3", "-I", "-S", "-c", GUARD]
        made = api.exec_create(self.container.id, command, stdin=True, stdout=True, stderr=True, workdir="/")
        return _engine.ExecStream(api.exec_start(made["Id"], socket=True))

    async def _clean_up(self) -> bool:
        """Kill everything in the container but its first process, which the kernel protects."""
        with _engine.explained("clean up"):
            await asyncio.to_thread(self.container.exec_run, ["/bin/sh", "-c", "kill -9 -1"], detach=False)
        return False

    async def _end(self) -> None:
        await asyncio.to_thread(_engine.remove, self.container)


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
        image = _engine.image_name(spec.image or self._config.image)
        box = f"assay-{secrets.token_hex(8)}"
        launching = asyncio.ensure_future(asyncio.to_thread(self._launch, spec, box, image))
        try:
            sandbox = await asyncio.shield(launching)
        except asyncio.CancelledError:
            launching.add_done_callback(_engine.removed)
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
                for container in self._client.containers.list(
                    all=True, filters={"label": f"{_engine.OWNER}={_engine.owner()}"}
                ):
                    _engine.remove(container)
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
        with _engine.explained("make a container"):
            container = client.containers.create(**_engine.options(self._config, spec, box, image.id))
        try:
            with _engine.explained("start the container"):
                container.start()
        except SandboxLaunchError:
            _engine.remove(container)
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
        with _engine.explained(f"pull image {name}"):
            return client.images.pull(name)

    def _started(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client, self._version = _engine.connected(self._config.base_url)
                _engine.sweep(self._client)
            return self._client
