"""The ladder on the real domains, in the real sandbox: sound tasks are trusted, planted defects are caught."""

from typing import Any

import pytest

from assay.config import InspectionConfig
from assay.records import TaskState
from assay.registry import build_plugin, known_plugins
from quality.inspection import inspect
from quality.splits import check_splits


@pytest.mark.parametrize("name", known_plugins("domain"))
async def test_sound_tasks_are_trusted_and_every_planted_defect_is_caught(name: str) -> None:
    domain: Any = build_plugin("domain", name)
    sound = [domain.make_task("train", 0, 0), domain.make_task("heldout", 0, 0)]
    planted = list(domain.defective_tasks(0))
    sandboxes = build_plugin("sandbox", "bubblewrap")
    results = await inspect([*sound, *planted], {name: domain}, sandboxes, InspectionConfig())
    states = {result.task.id: (result.certificate.state, result.certificate.reasons) for result in results}
    assert {states[task.id] for task in sound} == {(TaskState.TRUSTED, ())}
    assert planted
    assert {states[task.id][0] for task in planted} == {TaskState.QUARANTINED}


@pytest.mark.parametrize("name", known_plugins("domain"))
@pytest.mark.parametrize("seed", [0, 1])
def test_the_splits_of_every_domain_share_nothing(name: str, seed: int) -> None:
    domain: Any = build_plugin("domain", name)
    num = 16 if domain.card().images else 96  # drawing an image takes 50 to 100 ms
    check_splits(domain.make_task(split, i, seed) for split in ("train", "heldout") for i in range(num))
