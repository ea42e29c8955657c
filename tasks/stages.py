"""Where a run stands, and the plans of its stages: what flows ask before they start Prefect tasks."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import polars as pl
from prefect.runtime import flow_run

from assay.config import PostTrainConfig, StageConfig
from assay.errors import ConfigurationError
from assay.progress import emit
from assay.records import DatasetRef, PolicyVersion, SamplingParams
from tasks.load_tasks import check_images, load_tasks
from tasks.policies import base_policy, newest_policy
from tasks.run import RunRef, begin_run, find_run
from tasks.workshop import Workshop, opened, workshop

# Each task's own limit applies on top.
MAX_NEW_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of one run, resolved: which policy acts, in which iteration (0 is the warm start), on which tasks."""

    run: RunRef
    policy: PolicyVersion
    iteration: int
    tasks: DatasetRef

    @property
    def config(self) -> PostTrainConfig:
        return self.run.config

    def sampling(self) -> SamplingParams:
        """Sampling for training and solvability: equal, so that a task's first estimate is the start of its group."""
        return SamplingParams(
            temperature=self.config.rollout.temperature, max_new_tokens=MAX_NEW_TOKENS, seed=self.run.sampling_seed
        )


@asynccontextmanager
async def opened_run(config: PostTrainConfig) -> AsyncIterator[RunRef]:
    """The config's run, begun or resumed, with its workshop open."""
    async with opened(config) as shop:
        check_images(shop)
        run = begin_run(shop.store, config)
        emit(
            "run",
            run_id=run.run_id,
            name=run.name,
            state="running",
            store=shop.store.uri,
            attempt=run.attempt,
            flow_run_url=flow_run.ui_url,
        )
        yield run


@asynccontextmanager
async def opened_stage(stage: StageConfig) -> AsyncIterator[Stage]:
    """A stage with empty fields filled in: the newest run, its newest policy, the iteration after it."""
    async with opened(stage.run) as shop:
        run = find_run(shop.store, stage)
        policy = _policy(shop, run, stage.policy)
        iteration = stage.iteration if stage.iteration >= 0 else newest_iteration(shop, run) + 1
        yield Stage(run, policy, iteration, load_tasks.fn(run))


def base_of(run: RunRef) -> str:
    """Id of the untrained policy."""
    return base_policy(workshop(run.config), run).id


def iterations_to_do(run: RunRef) -> range:
    """From the last iteration whose training ended (its evaluation may be missing) to the config's last; 0 is the warm
    start, where a domain has demonstrations."""
    shop = workshop(run.config)
    first = 0 if demonstrated_domains(run.config) else 1
    return range(max(first, newest_iteration(shop, run)), run.config.iterations + 1)


def is_trained(run: RunRef, iteration: int) -> bool:
    """Whether an iteration's training ended."""
    return iteration in trained_iterations(workshop(run.config), run)


def policy_after(run: RunRef, iteration: int) -> str:
    """Id of the policy that an iteration ended with; the base model before any."""
    done = trained_iterations(workshop(run.config), run)
    return done.get(iteration) or base_of(run)


def due_for_evaluation(run: RunRef, iteration: int) -> bool:
    """After the warm start, every `evaluate_every` iterations, and after the last."""
    return iteration % run.config.evaluate_every == 0 or iteration == run.config.iterations


def _policy(shop: Workshop, run: RunRef, policy_id: str) -> PolicyVersion:
    if not policy_id:
        return newest_policy(shop, run)
    policy = shop.ledger.find(policy_id)
    if policy is None:
        raise ConfigurationError(
            f"No policy {policy_id!r} in {shop.store.uri}. `assay sql 'FROM policies'` lists them."
        )
    return policy


def trained_iterations(shop: Workshop, run: RunRef) -> dict[int, str]:
    """Policy id that each finished iteration ended with; iteration 0 is the warm start."""
    runs = shop.store.frame("runs").filter((pl.col("run_id") == run.run_id) & (pl.col("event") == "stage"))
    rows = runs.filter(pl.col("stage").is_in(["train", "warm_start"])).sort("ended_at").iter_rows(named=True)
    return {row["iteration"]: json.loads(row["data_json"])["policy_id"] for row in rows}


def newest_iteration(shop: Workshop, run: RunRef) -> int:
    """The last iteration whose training ended; -1 before any (0 when there is no warm start to do)."""
    done = trained_iterations(shop, run)
    return max(done, default=-1 if demonstrated_domains(run.config) else 0)


def demonstrated_domains(config: PostTrainConfig) -> list[str]:
    """Domains that have a warm start."""
    return [name for name, domain in config.domains.items() if domain.demonstrations > 0]
