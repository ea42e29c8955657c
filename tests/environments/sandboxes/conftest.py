"""Sandboxes of every backend."""

from collections.abc import AsyncIterator, Iterator

import pytest

from assay.registry import build_plugin, known_plugins
from environments.sandboxes.base import Backend, Sandbox, SandboxSpec
from tests.environments.sandboxes.probing import Attack, run_attack


@pytest.fixture(scope="module", params=known_plugins("sandbox"))
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made = build_plugin("sandbox", request.param)
    yield made
    made.close()


@pytest.fixture
async def sandbox(backend: Backend) -> AsyncIterator[Sandbox]:
    made = await backend.create(SandboxSpec())
    yield made
    await made.destroy()


@pytest.fixture
def attack(sandbox: Sandbox) -> Attack:
    return lambda code, **options: run_attack(sandbox, code, **options)
