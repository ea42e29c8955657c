"""The real sandbox with a state hash of its own: digests of the work dir's files, taken inside."""

from typing import Any, ClassVar

from assay.ids import content_hash
from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap

_LISTING = """
import hashlib, os
for folder, _, names in sorted(os.walk(".")):
    for name in sorted(names):
        path = os.path.join(folder, name)
        print(path, hashlib.sha256(open(path, "rb").read()).hexdigest())
"""


class HashingSandbox:
    """Everything but the state hash is the sandbox's."""

    def __init__(self, sandbox: Any) -> None:
        self._sandbox = sandbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    async def state_hash(self) -> str:
        result = await self._sandbox.exec(["python3", "-I", "-S", "-B", "-c", _LISTING])
        assert result.exit_code == 0, result.stderr
        return content_hash(result.stdout)


class Hashing(Bubblewrap):
    """Used as `tests.console.hashing:Hashing`."""

    id: ClassVar[str] = "hashing"

    async def create(self, spec: SandboxSpec) -> Any:
        return HashingSandbox(await super().create(spec))
