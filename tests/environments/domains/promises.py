"""What every domain promises. A module that imports these tests runs them on what its fixture `domain` gives.

Foreign sets add what makes them to OPTIONS, so that another process can make them too.
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from assay.records import Cause, Finding, Split, TaskSpec, Verdict
from assay.registry import build_plugin
from environments.base import Domain, Script, play, take
from environments.sandboxes.base import Backend

NUM_EACH = 200
NUM_COSTLY = 40  # of domains that draw images or check tasks by running code while they make them
ODD = {
    "empty": "",
    "blank": " \n\t",
    "prose": "I do not know.",
    "nul": "\x00",
    "surrogate": "\ud800",
    "unicode": "\u202e漢字 \N{DUCK} \u0000",
    "nan": '{"name": NaN, "city": Infinity}',
    "huge": "x" * 1_000_000,
    "huge json": '{"a": "' + "x" * 1_000_000 + '"}',
    "nested json": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "nested list": "[" * 10_000 + "]" * 10_000,
    "big number": '{"quantity": 1e999999999999999999999, "n": ' + "9" * 10_000 + "}",
    "fences": "```" * 5_000,
    "open fence": "```python\n",
    "nested code": "```python\n" + "(" * 10_000 + ")" * 10_000 + "\n```",
    "nul code": "```python\nx = 1\x00\n```",
    "surrogate code": "```python\nx = '\ud800'\n```",
    "json null": "null",
    "json true": "true",
    "pairs": '{"city": "a", "city": "b"}',
}


OPTIONS: dict[str, dict[str, Any]] = {}
_made: dict[tuple[str, Split, int], list[TaskSpec]] = {}


def tasks(domain: Domain, split: Split, num: int = NUM_EACH, seed: int = 0) -> list[TaskSpec]:
    """Made once; fewer where there are fewer."""
    key = (domain.id, split, seed)
    if key not in _made:
        _made[key] = take(domain, split, _num(domain), seed)
    return _made[key][:num]


def _num(domain: Domain) -> int:
    card = domain.card()
    return NUM_COSTLY if card.images or card.profile.num_sandboxes else NUM_EACH


async def verdict(domain: Domain, task: TaskSpec, script: Script, sandboxes: Backend) -> Verdict:
    return await domain.verify(task, await play(domain, task, script, sandboxes), sandboxes)


async def verdicts(domain: Domain, task: TaskSpec, scripts: Sequence[Script], sandboxes: Backend) -> list[Verdict]:
    return [await verdict(domain, task, script, sandboxes) for script in scripts]


def test_tasks_depend_on_their_arguments_only(domain: Domain) -> None:
    once = [task.content_hash for task in tasks(domain, "train", 12)]
    again = [domain.make_task("train", index, 0).content_hash for index in reversed(range(len(once)))]
    assert once == again[::-1]
    if domain.num_tasks("train") is None:
        assert once != [domain.make_task("train", index, 1).content_hash for index in range(12)]


def test_tasks_are_the_same_in_every_process(domain: Domain) -> None:
    script = (
        "import json, sys; from environments.base import take; from environments.catalogue import build_domain; "
        "d = build_domain(sys.argv[1], json.loads(sys.argv[2])); "
        "ts = [t for s in ('train', 'heldout') for t in take(d, s, 6, 3)] + list(d.defective_tasks(3)); "
        "print(json.dumps([[t.content_hash, *d.solutions(t).wrong] for t in ts]))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", script, domain.id, json.dumps(OPTIONS.get(domain.id, {}))],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert json.loads(said[0])[0][0] == domain.make_task("train", 0, 3).content_hash


def test_splits_share_no_answer_no_template_and_no_prompt(domain: Domain) -> None:
    train, heldout = tasks(domain, "train"), tasks(domain, "heldout")
    for what in ("answer_digest", "template", "prompt", "content_hash"):
        shared = {getattr(t, what) for t in train} & {getattr(t, what) for t in heldout}
        assert not shared, f"{what}: {sorted(map(str, shared))[:3]}"


def test_ids_and_contents_are_unique(domain: Domain) -> None:
    made = [*tasks(domain, "train"), *tasks(domain, "heldout"), *domain.defective_tasks(0)]
    assert len({task.id for task in made}) == len(made)
    assert len({task.content_hash for task in made}) == len(made)
    assert made[0].id.startswith(f"{domain.id}/")


def test_every_sound_task_keeps_the_static_contract(domain: Domain) -> None:
    for task in [*tasks(domain, "train"), *tasks(domain, "heldout")]:
        assert domain.check(task) == []
        assert task.domain == domain.id
        assert task.environment_version == domain.version
        assert task.level in domain.card().levels


def test_what_is_hidden_is_not_in_the_prompt_nor_public(domain: Domain) -> None:
    for task in tasks(domain, "train", 50):
        shown = "\n".join(m.content for m in task.prompt) + json.dumps(dict(task.public))
        assert not [text for text in domain.solutions(task).oracle if text in shown]
        for name, value in task.hidden.items():
            if isinstance(value, (list, dict)):
                assert json.dumps(value) not in shown, name


def test_tasks_survive_pickling_and_json(domain: Domain) -> None:
    for task in [*tasks(domain, "train", 5), *domain.defective_tasks(0)]:
        assert pickle.loads(pickle.dumps(task)) == task
        assert json.loads(json.dumps(dict(task.hidden))) == dict(task.hidden)
        assert json.loads(json.dumps(dict(task.public))) == dict(task.public)


async def test_oracles_get_the_full_reward_and_noops_fail(domain: Domain, sandboxes: Backend) -> None:
    splits: tuple[Split, ...] = ("train", "heldout")
    for split in splits:
        for task in tasks(domain, split, 8):
            known = domain.solutions(task)
            oracle, noop = await verdicts(domain, task, [known.oracle, known.noop], sandboxes)
            assert (oracle.passed, oracle.reward) == (True, 1.0), task.id
            assert noop.valid, task.id
            assert not noop.passed, task.id
            assert noop.reward is not None
            assert noop.reward <= 0.2, task.id


async def test_wrong_answers_fail_and_equivalent_ones_pass(domain: Domain, sandboxes: Backend) -> None:
    for task in tasks(domain, "heldout", 3):
        known = domain.solutions(task)
        assert len(known.wrong) >= 3
        assert len(known.equivalent) >= 2
        for script, found in zip(known.wrong, await verdicts(domain, task, known.wrong, sandboxes), strict=True):
            assert found.valid, script
            assert not found.passed, script
        right = await verdicts(domain, task, known.equivalent, sandboxes)
        for script, found in zip(known.equivalent, right, strict=True):
            assert found.passed, script


async def test_reward_never_rises_down_the_ladder(domain: Domain, sandboxes: Backend) -> None:
    for task in tasks(domain, "train", 3):
        known = domain.solutions(task)
        rungs = (known.oracle, *known.ladder, known.noop)
        rewards = [found.reward or 0.0 for found in await verdicts(domain, task, rungs, sandboxes)]
        assert rewards == sorted(rewards, reverse=True), task.id


async def test_odd_completions_are_graded_and_never_pass(domain: Domain, sandboxes: Backend) -> None:
    task = domain.make_task("train", 1, 0)
    other = domain.solutions(domain.make_task("train", 2, 0)).oracle
    given: dict[str, Script] = {**{name: (text,) for name, text in ODD.items()}, "another task's answer": other}
    for name, found in zip(given, await verdicts(domain, task, list(given.values()), sandboxes), strict=True):
        assert found.valid, name
        assert not found.passed, name


async def test_verdicts_repeat(domain: Domain, sandboxes: Backend) -> None:
    task = tasks(domain, "heldout", 4)[-1]
    known = domain.solutions(task)
    for script in (known.oracle, known.noop, known.wrong[0]):
        assert len({v.reward for v in await verdicts(domain, task, [script] * 3, sandboxes)}) == 1


async def test_an_episode_with_the_oracle_ends_at_once_and_passes(domain: Domain, sandboxes: Backend) -> None:
    task = domain.make_task("train", 0, 0)
    episode = await domain.open(task, sandboxes)
    before = await episode.outcome()
    replies = [await episode.reply(text) for text in domain.solutions(task).oracle]
    after = await episode.outcome()
    await episode.close()
    await episode.close()
    assert [reply.done for reply in replies] == [False] * (len(replies) - 1) + [True]
    assert all(reply.valid_action for reply in replies)
    assert not (await domain.verify(task, before, sandboxes)).passed
    assert (await domain.verify(task, after, sandboxes)).reward == 1.0


async def test_odd_completions_in_an_episode_never_raise(domain: Domain, sandboxes: Backend) -> None:
    task = domain.make_task("train", 0, 0)
    for name, text in ODD.items():
        episode = await domain.open(task, sandboxes)
        try:
            reply = await episode.reply(text)
            assert len(reply.observation) < 10_000, name
            assert not (await domain.verify(task, await episode.outcome(), sandboxes)).passed, name
        finally:
            await episode.close()


async def test_the_inspection_catches_every_defective_task(domain: Domain, sandboxes: Backend) -> None:
    if not (broken := domain.defective_tasks(0)):
        pytest.skip("nobody breaks a task of this domain on purpose")
    probes = ("static_contract", "oracle_accepted", "noop_rejected", "junk_rejected", "repetitions_agree")
    caught: dict[str, set[str]] = {}
    for task in broken:
        assert "defect" in task.id
        evidence = [await build_plugin("probe", name).run(task, domain, sandboxes, 0) for name in probes]
        caught[task.id] = {e.probe for e in evidence if e.finding is Finding.FOUND}
    assert all(caught.values()), caught
    found = set().union(*caught.values())
    # A reference that draws at random may pass once by luck; then its repetitions do not agree.
    assert {"static_contract", "noop_rejected"} <= found, caught
    assert found & {"oracle_accepted", "repetitions_agree"}, caught


async def test_a_task_without_its_hidden_part_is_blamed_on_the_environment(domain: Domain, sandboxes: Backend) -> None:
    whole = domain.make_task("train", 0, 0)
    empty = replace(whole, hidden={})
    outcome = await play(domain, whole, domain.solutions(whole).oracle, sandboxes)
    found = await domain.verify(empty, outcome, sandboxes)
    assert found.failure is not None
    assert found.failure.cause is Cause.ENVIRONMENT
    assert domain.check(empty)
