"""Rollouts and verdicts on the real domains, in the real sandbox, with an engine that says what the test wants."""

from dataclasses import replace
from typing import Any

import pytest

from assay.records import SamplingParams
from assay.registry import build_plugin, known_plugins
from rollouts.collect import collect
from rollouts.plan import plan_groups
from rollouts.verify import verify
from tests.builders import POLICY, ToyEngine


@pytest.mark.parametrize("name", known_plugins("domain"))
async def test_in_one_group_the_oracle_passes_and_doing_nothing_does_not(name: str) -> None:
    domain: Any = build_plugin("domain", name)
    sandboxes = build_plugin("sandbox", "bubblewrap")
    task = domain.make_task("train", 0, 0)
    known = domain.solutions(task)
    # Only the sibling that did nothing is asked for a second turn.
    engine = ToyEngine(
        lambda prompt, i: known.oracle if i == 0 and f"{known.noop}\nuser: " not in prompt else known.noop
    )
    sampling = SamplingParams(temperature=1.0, max_new_tokens=100_000)
    # Characters are the toy engine's tokens, so the task's limit, which is in a real model's tokens, is lifted.
    task = replace(task, max_new_tokens=100_000)
    requests = plan_groups([task], POLICY, sampling, 2, "train", "r")
    trajectories = await collect(requests, {name: domain}, engine, sandboxes, max_concurrency=2, deadline_s=120.0)
    assert [t.failure for t in trajectories] == [None, None]
    right, nothing = await verify(trajectories, [task], {name: domain}, sandboxes, max_concurrency=2)
    assert right.verdict.passed
    assert nothing.verdict.valid
    assert not nothing.verdict.passed
    assert right.verdict.reward is not None
    assert nothing.verdict.reward is not None
    assert right.verdict.reward > nothing.verdict.reward
