"""Sandboxes created ahead, for backends whose sandboxes start slowly: whoever asks gets one that nobody has used.

    Pool.create(spec) ── one is ready ──► its files are placed, it is handed out ──► destroyed after use, never reused
                      └─ none is ready ─► one is made on the spot, and more are kept from now on

A pool is a backend itself. Ready sandboxes are kept per spec without files and labels, as many
as are asked for at once.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from assay.errors import SandboxError
from assay.ids import content_hash
from assay.registry import PluginConfig
from environments.sandboxes._stock import Stock
from environments.sandboxes.base import INITIAL, Backend, BackendReport, Sandbox, SandboxSpec


class Pool:
    """Keeps at most `most` sandboxes of `backend` ready; a kind that nobody asked for in `idle_s` seconds is dropped.

    With `session` that shell is started ahead as well. Use it within one event loop.
    """

    id: ClassVar[str] = "pool"
    Config: ClassVar[type[Any]] = PluginConfig

    def __init__(self, backend: Backend, *, most: int = 8, idle_s: float = 60.0, session: str | None = None) -> None:
        self._backend, self._session = backend, session
        self._stock = Stock[str, Sandbox](most, idle_s, time.monotonic)
        self._specs: dict[str, SandboxSpec] = {}
        self._filling: asyncio.Task[None] | None = None

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """See `base.Backend`: one that is ready, else a new one."""
        bare = replace(spec, files={}, labels={})
        kind = content_hash([repr(bare)])
        self._specs[kind] = bare
        sandbox = self._stock.take(kind)
        self._fill()
        if sandbox is None:
            return await self._backend.create(spec)
        return await self._handed_out(sandbox, spec)

    async def probe(self) -> BackendReport:
        return await self._backend.probe()

    async def drain(self) -> None:
        """Destroy what is ready and make no more."""
        if self._filling is not None:
            self._filling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._filling
        await asyncio.gather(*(sandbox.destroy() for sandbox in self._stock.all()))

    def close(self) -> None:
        if self._filling is not None:
            self._filling.cancel()
        self._backend.close()

    async def _handed_out(self, sandbox: Sandbox, spec: SandboxSpec) -> Sandbox:
        try:
            await place(sandbox, spec.files)
        except SandboxError:
            await sandbox.destroy()
            raise
        if not spec.files:
            return sandbox
        made: Sandbox = _Filled(sandbox, spec.files)
        return made

    def _fill(self) -> None:
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._make_until_enough())

    async def _make_until_enough(self) -> None:
        for sandbox in self._stock.forgotten():
            await sandbox.destroy()
        while (kind := self._stock.lacking()) is not None:
            try:
                self._stock.add(kind, await self._made(self._specs[kind]))
            except SandboxError:
                return  # whoever asks next makes one, and is told what is wrong

    async def _made(self, spec: SandboxSpec) -> Sandbox:
        sandbox = await self._backend.create(spec)
        try:
            if self._session is not None:
                await sandbox.exec("true", session=self._session)
        except BaseException:
            await sandbox.destroy()
            raise
        return sandbox


class _Filled:
    """A sandbox whose initial state includes files placed after it was made."""

    def __init__(self, sandbox: Sandbox, files: Mapping[str, str | bytes]) -> None:
        self._sandbox, self._files = sandbox, files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    async def restore(self, snapshot: str = INITIAL) -> None:
        await self._sandbox.restore(snapshot)
        if snapshot == INITIAL:
            await place(self._sandbox, self._files)


async def place(sandbox: Sandbox, files: Mapping[str, str | bytes]) -> None:
    """Write a spec's files. Raises SandboxError."""
    for path, content in files.items():
        await sandbox.write(path, content.encode() if isinstance(content, str) else content)
