"""What the Kubernetes backend asks a cluster for; with a cluster the conformance suite runs, see conftest."""

from pathlib import Path

import pytest

from assay.errors import SandboxUnavailable, SandboxUnsupported
from environments.sandboxes import _pod
from environments.sandboxes.base import Limits, SandboxSpec
from environments.sandboxes.kubernetes import Kubernetes


def test_the_digest_is_read_from_what_nodes_call_an_image() -> None:
    assert _pod.image_digest("docker.io/library/python@sha256:ab12") == "ab12"
    assert _pod.image_digest("docker.io/library/python:3.11") == ""


async def test_without_client_or_cluster_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    report = await Kubernetes(Kubernetes.Config(context="nowhere")).probe()
    assert not report.works
    assert "assay[kubernetes]" in report.detail or "KUBECONFIG" in report.detail
    with pytest.raises(SandboxUnavailable):
        await Kubernetes(Kubernetes.Config(context="nowhere")).create(SandboxSpec())


def test_the_pod_is_restricted_and_limited() -> None:
    client = pytest.importorskip("kubernetes.client", reason="needs the extra `kubernetes`")
    spec = SandboxSpec(limits=Limits(memory_bytes=100, disk_bytes=10), labels={"run": "r 1"})
    config = Kubernetes.Config(runtime_class="gvisor", max_life_s=60)
    pod = client.ApiClient().sanitize_for_serialization(_pod.manifest(config, spec, "box"))
    inside, container = pod["spec"], pod["spec"]["containers"][0]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (inside["securityContext"]["runAsNonRoot"], inside["automountServiceAccountToken"]) == (True, False)
    assert (inside["runtimeClassName"], inside["activeDeadlineSeconds"], inside["restartPolicy"]) == (
        "gvisor",
        60,
        "Never",
    )
    assert container["resources"]["limits"]["memory"] == "130"
    assert {volume["emptyDir"]["sizeLimit"] for volume in inside["volumes"]} == {"10"}
    assert pod["metadata"]["labels"][_pod.NETWORK_LABEL] == "none"
    assert pod["metadata"]["labels"]["assay.sandbox/run"] == "r_1"


def test_only_a_policy_that_lets_nothing_through_counts() -> None:
    client = pytest.importorskip("kubernetes.client", reason="needs the extra `kubernetes`")
    selector = client.V1LabelSelector(match_labels={_pod.NETWORK_LABEL: "none"})
    both = ["Ingress", "Egress"]
    assert _pod.denies_all(client.V1NetworkPolicySpec(pod_selector=selector, policy_types=both))
    assert not _pod.denies_all(client.V1NetworkPolicySpec(pod_selector=selector, policy_types=["Ingress"]))
    rule = client.V1NetworkPolicyEgressRule()
    assert not _pod.denies_all(client.V1NetworkPolicySpec(pod_selector=selector, policy_types=both, egress=[rule]))
    other = client.V1LabelSelector(match_labels={"app": "web"})
    assert not _pod.denies_all(client.V1NetworkPolicySpec(pod_selector=other, policy_types=both))


def test_a_path_as_image_is_refused_with_what_to_do() -> None:
    with pytest.raises(SandboxUnsupported, match="registry"):
        _pod._image_name("/srv/image")
