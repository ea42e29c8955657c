"""What one process keeps open between Prefect tasks: store, domains, sandboxes, engine, trainer.

Prefect tasks receive references only; the heavy things behind them (weights, servers, connections) live here, once
per process and config, and are closed at the end of the outermost flow.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

from assay.config import PostTrainConfig
from assay.errors import ConfigurationError
from assay.records import PolicyVersion
from assay.registry import build_plugin
from assay.settings import settings
from environments.base import Domain
from environments.catalogue import build_domain
from environments.pool import Pool
from environments.sandboxes.base import Backend
from rollouts.engines.base import Engine
from storage.catalog import Catalog
from storage.ledger import Ledger
from storage.store import Store
from training.backends.base import Trainer


class Workshop:
    """The open parts of one config. Engine and trainer are made on first use."""

    def __init__(self, config: PostTrainConfig) -> None:
        self.config = config
        self.store = Store.open(settings().store_uri)
        self.ledger = Ledger(self.store)
        self._served: str | None = None
        self._trained: str | None = None
        self._engine_lock = asyncio.Lock()
        self.users = 0

    @cached_property
    def _catalog(self) -> Catalog:
        return Catalog(self.store)

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """By domain id."""
        return {name: build_domain(name, c.options) for name, c in self.config.domains.items()}

    @cached_property
    def sandboxes(self) -> Backend:
        """The configured backend; behind a pool where a sandbox takes long to start."""
        backend: Backend = build_plugin("sandbox", self.config.sandbox.id, dict(self.config.sandbox.options))
        return Pool(backend) if backend.starts_slowly else backend

    @cached_property
    def engine(self) -> Engine:
        engine: Engine = build_plugin("engine", self.config.engine.id, dict(self.config.engine.options))
        return engine

    @cached_property
    def trainer(self) -> Trainer:
        trainer: Trainer = build_plugin("trainer", self.config.trainer.id, dict(self.config.trainer.options))
        return trainer

    def catalog(self) -> Catalog:
        """The catalogue, showing what is committed now."""
        self._catalog.refresh()
        return self._catalog

    async def serving(self, policy: PolicyVersion) -> Engine:
        """The engine with this policy loaded, its weights taken from the trainer's memory when they are there."""
        async with self._engine_lock:
            if self._served != policy.id:
                live = self.trainer.live if self._trained == policy.id else None
                if live is None:
                    require_weights(policy)
                await self.engine.load(policy, live)
                self._served = policy.id
        return self.engine

    async def training(self, policy: PolicyVersion, run_dir: Path) -> Trainer:
        """The trainer with this policy's weights and optimiser state."""
        if self._trained != policy.id:
            require_weights(policy)
            await asyncio.to_thread(self.trainer.load, policy, run_dir)
            self._trained = policy.id
        return self.trainer

    def trained_to(self, policy: PolicyVersion | None) -> None:
        """The weights in the trainer's memory are now this version's; None while they change."""
        self._trained = policy.id if policy else None

    async def close(self) -> None:
        """Close what was opened."""
        if "engine" in self.__dict__:
            await self.engine.close()
        if "trainer" in self.__dict__:
            self.trainer.close()
        if "_catalog" in self.__dict__:
            self._catalog.close()
        if "sandboxes" in self.__dict__:
            if isinstance(self.sandboxes, Pool):
                await self.sandboxes.drain()
            self.sandboxes.close()


def require_weights(policy: PolicyVersion) -> None:
    """ConfigurationError when the policy's weights were a local directory that is gone."""
    if Path(policy.uri).is_absolute() and not Path(policy.uri).is_dir():
        raise ConfigurationError(
            f"The weights of policy {policy.name} ({policy.id}) are not at {policy.uri}. Only the newest versions are "
            "kept: raise keep_versions, restore the directory, or start from another policy."
        )


_open: dict[str, Workshop] = {}


def workshop(config: PostTrainConfig) -> Workshop:
    """This process's workshop for a config; it must be open."""
    return _open[config.digest()]


@asynccontextmanager
async def opened(config: PostTrainConfig) -> AsyncIterator[Workshop]:
    """Open the workshop, or share the one an outer flow opened; the outermost closes it."""
    shop = _open.setdefault(config.digest(), Workshop(config))
    shop.users += 1
    try:
        yield shop
    finally:
        shop.users -= 1
        if shop.users == 0:
            del _open[config.digest()]
            await shop.close()
