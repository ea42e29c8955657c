"""The pod that a sandbox spec becomes, and what must be true of the cluster's network before one is made."""

import re
from typing import Any

from assay.errors import SandboxUnsupported
from environments.sandboxes._guarded import INIT, some_user
from environments.sandboxes.base import SandboxSpec

NETWORK_LABEL = "assay.sandbox/network"
CONTAINER = "sandbox"


def manifest(config: Any, spec: SandboxSpec, box: str) -> Any:
    """The pod (`V1Pod`) for a spec."""
    from kubernetes import client

    user = some_user()
    volumes = {"work": spec.work_dir, "tmp": "/tmp", "shm": "/dev/shm"}
    memory = str(spec.limits.memory_bytes + len(volumes) * spec.limits.disk_bytes)
    amounts = {"memory": memory, "cpu": config.cpu, "ephemeral-storage": "64Mi"}
    container = client.V1Container(
        name=CONTAINER,
        image=_image_name(spec.image or config.image),
        command=["python3", "-I", "-S", "-c", INIT.format(life_s=config.max_life_s)],
        working_dir="/",
        resources=client.V1ResourceRequirements(limits=amounts, requests=amounts),
        volume_mounts=[client.V1VolumeMount(name=name, mount_path=path) for name, path in volumes.items()],
        security_context=client.V1SecurityContext(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            privileged=False,
            capabilities=client.V1Capabilities(drop=["ALL"]),
        ),
    )
    in_memory = client.V1EmptyDirVolumeSource(medium="Memory", size_limit=str(spec.limits.disk_bytes))
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=box, labels=_labels(spec)),
        spec=client.V1PodSpec(
            containers=[container],
            volumes=[client.V1Volume(name=name, empty_dir=in_memory) for name in volumes],
            hostname="sandbox",
            restart_policy="Never",
            active_deadline_seconds=config.max_life_s,
            termination_grace_period_seconds=0,
            automount_service_account_token=False,
            enable_service_links=False,
            runtime_class_name=config.runtime_class or None,
            node_selector=config.node_selector or None,
            security_context=client.V1PodSecurityContext(
                run_as_non_root=True,
                run_as_user=user,
                run_as_group=user,
                fs_group=user,
                seccomp_profile=client.V1SeccompProfile(type="RuntimeDefault"),
            ),
        ),
    )


def denies_all(spec: Any) -> bool:
    """Whether a policy (`V1NetworkPolicySpec`) selects our pods without network and lets nothing through."""
    labels = spec.pod_selector.match_labels or {}
    selects = labels in ({}, {NETWORK_LABEL: "none"}) and not spec.pod_selector.match_expressions
    return selects and not spec.ingress and not spec.egress and set(spec.policy_types or ()) == {"Ingress", "Egress"}


def image_digest(image_id: str) -> str:
    """The hex SHA-256 in what a node calls the image: `docker.io/library/python@sha256:ab…` or `sha256:ab…`."""
    return image_id.rpartition("sha256:")[2] if "sha256:" in image_id else ""


def _labels(spec: SandboxSpec) -> dict[str, str]:
    """Ours, and the spec's with what Kubernetes does not allow in a value replaced."""
    given = {f"assay.sandbox/{_word(name)}": _word(value) for name, value in spec.labels.items()}
    return {**given, "app.kubernetes.io/managed-by": "assay", NETWORK_LABEL: spec.network}


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:63].strip("_.-")


def _image_name(name: str) -> str:
    if name.startswith(("/", ".")):
        raise SandboxUnsupported(
            f"The image {name!r} is a path; the sandbox backend 'kubernetes' takes names only. Push it to a registry "
            "the cluster can reach and give its name, or choose a backend that takes folders."
        )
    return name
