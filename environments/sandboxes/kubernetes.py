"""Sandboxes as pods of a Kubernetes cluster: one pod per sandbox, commands through the exec API.

    Kubernetes --create--> a pod whose first process only waits --exec--> the guard, over a websocket

The image needs python3, sh and tar. The pod is restricted: no capability, no privilege gain, RuntimeDefault seccomp, a
read-only root, a user of its own, no service account; work dir, /tmp and /dev/shm are memory of limited size; it ends
by itself after `max_life_s`. The guard runs as the command's user: a command that kills or stops it makes us kill
everything of that user in the pod. Kubernetes limits processes per node only, so `max_processes` is an rlimit.

Pods carry the label assay.sandbox/network: none or full. Keeping `none` off the network is a NetworkPolicy's work, and
needs a network plugin that enforces policies; without the policy nothing is launched:

    apiVersion: networking.k8s.io/v1
    kind: NetworkPolicy
    metadata: {name: assay-no-network}
    spec: {podSelector: {matchLabels: {assay.sandbox/network: none}}, policyTypes: [Ingress, Egress]}

Needs the extra `kubernetes`: pip install 'assay[kubernetes]'.
"""

import asyncio
import functools
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from assay.errors import AssayError, SandboxError, SandboxLaunchError, SandboxUnavailable
from assay.registry import PluginConfig
from environments.sandboxes import _pod
from environments.sandboxes._guarded import (
    GUARD,
    GuardedSandbox,
    Slots,
    check_sizes,
    place_files,
    spec_hash,
)
from environments.sandboxes._pod_stream import PodStream
from environments.sandboxes._streams import converse
from environments.sandboxes.base import BackendReport, Provenance, SandboxSpec, needed, require

_OWN_KERNELS = ("gvisor", "runsc", "kata")
_POLL_S = 0.2
_HOPELESS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
)
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


class KubernetesSandbox(GuardedSandbox):
    """One sandbox; made by `Kubernetes.create`."""

    def __init__(self, backend: "Kubernetes", box: str, spec: SandboxSpec, made: Provenance) -> None:
        super().__init__(box, spec, made, backend.capabilities, _LIMITS)
        self._backend = backend

    async def _converse(self, request: bytes, timeout_s: float, max_reply: int) -> bytes:
        async with self._backend.slots.one():
            return await converse(self._guard, request, timeout_s, max_reply)

    def _guard(self) -> "PodStream":
        return self._backend.open(self.id, ["python3", "-I", "-S", "-c", GUARD])

    async def _clean_up(self) -> bool:
        """Kill everything in the pod but its first process, which the kernel protects."""
        await asyncio.to_thread(self._kill_all)
        return False

    def _kill_all(self) -> None:
        stream = self._backend.open(self.id, ["/bin/sh", "-c", "kill -9 -1"])
        while stream.receive():
            pass
        stream.close()

    async def _end(self) -> None:
        await asyncio.to_thread(self._backend.remove, self.id)


class Kubernetes:
    """Makes sandboxes in one namespace of the cluster that kubeconfig, or the pod we run in, leads to."""

    id: ClassVar[str] = "kubernetes"

    class Config(PluginConfig):
        """Options of the Kubernetes backend."""

        context: str = Field("", description="Context of kubeconfig; empty means the current one, or the pod's own")
        namespace: str = Field("default", description="Where pods are made")
        image: str = Field("python:3.11-slim", description="Image of sandboxes whose spec names none")
        runtime_class: str = Field("", description="RuntimeClass of the pods, such as gvisor; empty means the default")
        network_policy: str = Field("assay-no-network", description="The NetworkPolicy that must exist")
        node_selector: dict[str, str] = Field(default_factory=dict, description="Labels of the nodes to run on")
        cpu: str = Field("1", description="Processors a sandbox may use, as a Kubernetes quantity")
        start_timeout_s: float = Field(120.0, gt=0, description="How long a pod may take to run, seconds")
        max_life_s: int = Field(3600, ge=60, description="A pod ends by itself after this, seconds")
        max_concurrency: int = Field(16, ge=1, le=4096, description="Commands at once")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._client: Any = None
        self._version = ""
        self._pods: set[str] = set()
        self.slots = Slots(config.max_concurrency)

    @property
    def capabilities(self) -> frozenset[str]:
        """What its sandboxes can."""
        own_kernel = {"own_kernel"} if self._config.runtime_class.startswith(_OWN_KERNELS) else set()
        return frozenset({"image_name", "network", "cgroup", "own_pids"} | own_kernel)

    async def create(self, spec: SandboxSpec) -> KubernetesSandbox:
        """See `base.Backend`. `spec.image` is a name the cluster can pull, or empty for the option's."""
        require(self.id, self.capabilities, needed(spec))
        check_sizes(spec)
        box = f"assay-{secrets.token_hex(8)}"
        launching = asyncio.ensure_future(asyncio.to_thread(self._launch, spec, box))
        try:
            sandbox = await asyncio.shield(launching)
        except asyncio.CancelledError:
            launching.add_done_callback(functools.partial(_removed, self, box))
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
        for box in list(self._pods):
            self.remove(box)
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def open(self, box: str, command: list[str]) -> PodStream:
        """Start a command in a pod. Blocks; raises SandboxLaunchError."""
        from kubernetes.client import ApiClient, CoreV1Api
        from kubernetes.stream import stream

        # A client of its own, for `stream` changes the one it is given while it connects.
        api = CoreV1Api(ApiClient(self._client.configuration))
        options = {"stdin": True, "stdout": True, "stderr": True, "tty": False, "_preload_content": False}
        connection = self._asked(
            "run a command in the pod",
            functools.partial(
                stream,
                api.connect_get_namespaced_pod_exec,
                box,
                self._config.namespace,
                command=command,
                container=_pod.CONTAINER,
                binary=True,
                **options,
            ),
        )
        return PodStream(connection)

    def remove(self, box: str) -> None:
        """Delete a pod and wait until the cluster has forgotten it. Blocks; raises SandboxError."""
        from kubernetes.client.exceptions import ApiException

        if box not in self._pods:
            return
        api, namespace = self._core(), self._config.namespace
        end = time.monotonic() + self._config.start_timeout_s
        try:
            api.delete_namespaced_pod(box, namespace, grace_period_seconds=0)
            while time.monotonic() < end:
                api.read_namespaced_pod_status(box, namespace)
                time.sleep(_POLL_S)
        except ApiException as error:
            if error.status == 404:
                self._pods.discard(box)
                return
            raise SandboxError(f"Pod {namespace}/{box} cannot be deleted: {error.reason}.") from error
        raise SandboxError(f"Pod {namespace}/{box} is still there {self._config.start_timeout_s} s after its deletion.")

    def _report(self, works: bool, detail: str) -> BackendReport:
        return BackendReport(
            backend=self.id,
            version=self._version or "none",
            works=works,
            detail=detail,
            limits_enforced=_LIMITS if works else (),
            capabilities=tuple(sorted(self.capabilities)) if works else (),
        )

    def _launch(self, spec: SandboxSpec, box: str) -> KubernetesSandbox:
        self._started()
        namespace = self._config.namespace
        pod = _pod.manifest(self._config, spec, box)
        self._pods.add(box)
        try:
            make = functools.partial(self._core().create_namespaced_pod, namespace, pod)
            self._asked("make a pod", make)
            digest = self._wait_until_running(box)
        except SandboxError:
            self.remove(box)
            raise
        made = Provenance(
            backend=self.id,
            version=self._version,
            image_digest=digest,
            layer_digests=(),
            spec_hash=spec_hash(spec, digest),
        )
        return KubernetesSandbox(self, box, spec, made)

    def _wait_until_running(self, box: str) -> str:
        """The digest of the image that runs."""
        end = time.monotonic() + self._config.start_timeout_s
        look = functools.partial(self._core().read_namespaced_pod_status, box, self._config.namespace)
        while time.monotonic() < end:
            status = self._asked("look at the pod", look).status
            containers = status.container_statuses or []
            if containers and containers[0].state.running:
                return _pod.image_digest(containers[0].image_id or "")
            waiting = containers[0].state.waiting if containers else None
            if waiting and waiting.reason in _HOPELESS:
                raise SandboxUnavailable(f"Pod {box} cannot start: {waiting.reason}: {waiting.message}")
            if status.phase in ("Failed", "Succeeded"):
                raise SandboxLaunchError(f"Pod {box} ended at once: {status.reason or status.phase}; try again.")
            time.sleep(_POLL_S)
        raise SandboxLaunchError(
            f"Pod {box} did not run within start_timeout_s = {self._config.start_timeout_s} s; is there room for it? "
            f"`kubectl describe pod {box}` says what it waits for."
        )

    def _started(self) -> None:
        with self._lock:
            if self._client is None:
                self._client, self._version = _connected(self._config.context)
                try:
                    self._check_policy()
                except AssayError:
                    self._client = None
                    raise

    def _check_policy(self) -> None:
        from kubernetes.client import NetworkingV1Api
        from kubernetes.client.exceptions import ApiException

        name, namespace = self._config.network_policy, self._config.namespace
        try:
            policy = NetworkingV1Api(self._client).read_namespaced_network_policy(name, namespace)
        except ApiException as error:
            raise SandboxUnavailable(
                f"NetworkPolicy {namespace}/{name} cannot be read ({error.reason}), so nothing keeps sandboxes off the "
                f"network. Apply the one of the documentation of {__name__}, or name yours in network_policy."
            ) from error
        if not _pod.denies_all(policy.spec):
            raise SandboxUnavailable(
                f"NetworkPolicy {namespace}/{name} does not deny all traffic of pods with {_pod.NETWORK_LABEL}=none: "
                "it must select them, have both policy types, and no rule."
            )

    def _core(self) -> Any:
        from kubernetes.client import CoreV1Api

        return CoreV1Api(self._client)

    def _asked(self, action: str, call: Callable[[], Any]) -> Any:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return call()
        except (ApiException, HTTPError) as error:
            said = getattr(error, "body", None) or getattr(error, "reason", None) or error
            raise SandboxLaunchError(f"The cluster could not {action}: {said}; try again.") from error


def _connected(context: str) -> tuple[Any, str]:
    try:
        from kubernetes import client, config
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError
    except ImportError as error:
        raise SandboxUnavailable(
            "Kubernetes sandboxes need the Python package kubernetes: `pip install 'assay[kubernetes]'`."
        ) from error
    try:
        api = _configured(config, context)
        told: Any = client.VersionApi(api).get_code()
    except (config.ConfigException, ApiException, HTTPError, OSError) as error:
        raise SandboxUnavailable(
            f"No Kubernetes cluster answers (context {context or 'current'!r}): {error}. Set KUBECONFIG and the option "
            "context, or run in a pod of the cluster."
        ) from error
    return api, f"kubernetes {told.git_version}"


def _configured(config: Any, context: str) -> Any:
    if context:
        return config.new_client_from_config(context=context)
    try:
        return config.new_client_from_config()
    except config.ConfigException:
        from kubernetes import client

        config.load_incluster_config()
        return client.ApiClient()


def _removed(backend: Kubernetes, box: str, launching: "asyncio.Future[Mapping[str, Any]]") -> None:
    """A creation nobody waits for any more."""
    if not launching.cancelled() and launching.exception() is None:
        threading.Thread(target=backend.remove, args=[box], daemon=True).start()
