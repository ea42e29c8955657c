"""Sandboxes of every backend that works here; each is held to what it promises, see `probing.PROMISES`.

bubblewrap must work; the others are skipped with the reason their probe gives. Two need something of yours:

    ASSAY_TEST_CONTAINER=unix:///run/docker.sock   an engine; ASSAY_TEST_IMAGE names an image it has (python:3.11-slim)
    ASSAY_TEST_KUBERNETES=CONTEXT                  a context of kubeconfig, with the NetworkPolicy in place
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from assay.registry import build_plugin, known_plugins
from environments.sandboxes.base import Backend, BackendReport, Sandbox, SandboxSpec
from tests.environments.sandboxes.probing import Attack, promises_of, run_attack

# Read at once: tests run without any variable of ours.
ENGINE, CONTEXT = os.environ.get("ASSAY_TEST_CONTAINER"), os.environ.get("ASSAY_TEST_KUBERNETES")
IMAGE = os.environ.get("ASSAY_TEST_IMAGE", "python:3.11-slim")
OPTIONS: dict[str, dict[str, Any] | None] = {
    "landlock": {"i_accept_weaker_isolation": True},
    "container": {"base_url": ENGINE, "image": IMAGE} if ENGINE else None,
    "kubernetes": {"context": CONTEXT, "image": IMAGE} if CONTEXT else None,
}
_reports: dict[str, BackendReport] = {}


SLOW = {"gvisor", "container", "kubernetes"}  # seconds per sandbox
PARAMS = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in known_plugins("sandbox")]


@pytest.fixture(scope="session", params=PARAMS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    options = OPTIONS.get(request.param, {})
    if options is None:
        pytest.skip(f"{request.param}: not named by ASSAY_TEST_{request.param.upper()}")
    made = build_plugin("sandbox", request.param, options)
    report = _reports[request.param] = asyncio.run(made.probe())
    if not report.works and request.param != "bubblewrap":
        made.close()
        pytest.skip(f"{request.param}: {report.detail}")
    assert report.works, report.detail
    yield made
    made.close()


@pytest.fixture
def report(backend: Backend) -> BackendReport:
    return _reports[backend.id]


@pytest.fixture(autouse=True)
def only_what_is_promised(request: pytest.FixtureRequest) -> None:
    """Skips a test that `needs` what its backend does not promise."""
    if marker := request.node.get_closest_marker("needs"):
        backend, report = request.getfixturevalue("backend"), request.getfixturevalue("report")
        promised = promises_of(backend) | {*report.capabilities, *report.limits_enforced}
        if missing := set(marker.args) - promised:
            pytest.skip(f"{backend.id} does not promise {', '.join(sorted(missing))} here")


@pytest.fixture
async def sandbox(backend: Backend) -> AsyncIterator[Sandbox]:
    made = await backend.create(SandboxSpec())
    yield made
    await made.destroy()


@pytest.fixture
def attack(sandbox: Sandbox) -> Attack:
    return lambda code, **options: run_attack(sandbox, code, **options)
