"""The real sandbox and every domain that ships."""

from typing import Any, ClassVar

import pytest

from assay.registry import build_plugin, known_plugins
from environments.base import Domain
from environments.sandboxes.base import Backend, BackendReport, Sandbox, SandboxSpec

DOMAINS = known_plugins("domain")


@pytest.fixture
def sandboxes() -> Backend:
    """The bubblewrap backend; tests that run code need it to work."""
    return build_plugin("sandbox", "bubblewrap")


@pytest.fixture(params=DOMAINS)
def domain(request: pytest.FixtureRequest) -> Domain:
    return build_plugin("domain", request.param)


class NoPlace:
    """A backend whose place cannot be made: proves what is judged without one."""

    id: ClassVar[str] = "none"
    Config: ClassVar[type[Any]] = object

    async def create(self, spec: SandboxSpec) -> Sandbox:
        raise AssertionError("a sandbox was asked for")

    async def probe(self) -> BackendReport:
        raise AssertionError("not probed")

    def close(self) -> None:
        pass
