"""Images reach the policy, stay in the record, and are missed by nobody: refused up front, or noted and counted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from assay.errors import ConfigurationError, EngineError
from assay.records import Image, Message, PolicyVersion, SamplingParams, TaskSpec, Trajectory
from assay.registry import build_plugin
from console import show
from console.images import data_uri
from environments.base import Reply
from environments.sandboxes.base import Backend
from rollouts.collect import collect
from rollouts.engines.base import SampleRequest
from rollouts.images import LEFT_OUT
from rollouts.plan import plan_groups
from rollouts.replay import replay
from rollouts.verify import verify
from storage.catalog import Catalog
from storage.rows import (
    reward_rows,
    task_rows,
    tasks_from,
    trajectories_from,
    trajectory_rows,
    turn_rows,
)
from storage.store import Store
from tests.builders import POLICY, ToyBackend, ToyDomain, ToyEngine, ToyEpisode, a_request, a_task
from tests.console.lake import PIXEL

OTHER = Image(data=b"\xff\xd8\xffa photograph", media_type="image/jpeg")


class Window(ToyEpisode):
    """Shows a picture after every turn."""

    async def reply(self, completion: str) -> Reply:
        return replace(await super().reply(completion), images=(OTHER,))


class Views(ToyDomain):
    async def open(self, task: TaskSpec, sandboxes: Backend) -> ToyEpisode:
        sandbox: Any = await sandboxes.create(None)  # type: ignore[arg-type]
        return Window(sandbox)


def with_image(task: TaskSpec) -> TaskSpec:
    return replace(task, prompt=(Message(role="user", content="look", images=(PIXEL,)),))


async def played(task: TaskSpec, engine: ToyEngine, domain: Any = None) -> Trajectory:
    request = a_request(task)
    domain_of = {"toy": domain or ToyDomain()}
    (trajectory,) = await collect([request], domain_of, engine, ToyBackend(), max_concurrency=1, deadline_s=10)
    return trajectory


def more_then_end(prompt: str, index: int) -> str:
    return "a" if "go on" in prompt else "more"


async def test_every_request_carries_the_images_of_its_whole_context() -> None:
    engine = ToyEngine(more_then_end)
    trajectory = await played(with_image(a_task()), engine, Views())
    assert [request.images for request in engine.asked] == [(PIXEL,), (PIXEL, OTHER)]
    # No completion saw what the last turn showed.
    assert [turn.images for turn in trajectory.turns] == [(OTHER,), ()]


async def test_prompt_images_are_refused_before_any_work_where_the_engine_takes_none() -> None:
    engine = ToyEngine()
    engine.takes_images = False
    with pytest.raises(ConfigurationError, match=r"tasks of toy hold images, but the engine 'toy' .* takes no images"):
        await played(with_image(a_task()), engine)
    assert engine.asked == []


async def test_images_of_replies_become_a_note_and_are_counted_where_the_engine_takes_none() -> None:
    engine, task = ToyEngine(more_then_end), a_task()
    engine.takes_images = False
    trajectory = await played(task, engine, Views())
    assert trajectory.turns[0].observation == f"go on\n{LEFT_OUT}"
    assert [turn.images for turn in trajectory.turns] == [(), ()]
    assert trajectory.metrics["num_images_left_out"] == 2.0
    assert (await replay(trajectory, task, Views(), ToyBackend())).standing == "equal"


async def test_a_replay_compares_images() -> None:
    task = a_task()
    trajectory = await played(task, ToyEngine(more_then_end), Views())
    assert (await replay(trajectory, task, Views(), ToyBackend())).standing == "equal"
    first = replace(trajectory.turns[0], images=(PIXEL,))
    changed = replace(trajectory, turns=(first, *trajectory.turns[1:]))
    found = await replay(changed, task, Views(), ToyBackend())
    assert [difference.name for difference in found.differences] == ["images"]


async def test_the_scripted_engine_tells_images_by_their_digest() -> None:
    options = {"script": {f"[image {PIXEL.digest}]": ["a pixel"]}}
    engine = build_plugin("engine", "scripted", options)
    await engine.load(a_policy())
    seen = engine.encode_chat([Message(role="user", content="look", images=(PIXEL,))])
    (said,) = await engine.sample(asking(seen, [PIXEL]))
    assert engine.decode(said.token_ids) == "a pixel"
    assert f"[image {OTHER.digest}]\nthere" in engine.decode(engine.encode_reply(said, "there", [OTHER]))


def asking(prompt_ids: tuple[int, ...], images: Sequence[Image]) -> SampleRequest:
    sampling = SamplingParams(temperature=1.0, max_new_tokens=64)
    return SampleRequest(prompt_ids=prompt_ids, num_samples=1, sampling=sampling, seed=1, images=tuple(images))


def a_policy() -> PolicyVersion:
    return PolicyVersion(
        id=POLICY,
        name="v0",
        kind="base",
        parent=None,
        uri="",
        batch_ids=(),
        run_id="r",
        num_updates=0,
        metrics={},
        created_at="2026-01-01T00:00:00+00:00",
    )


async def test_charts_go_the_whole_way_and_come_back(tmp_path: Any) -> None:
    domain = build_plugin("domain", "chart_reading", {"max_new_tokens": 400})
    tasks = [domain.make_task("train", index, 0) for index in range(3)]
    answers = {task.prompt[-1].images[0].digest: list(domain.solutions(task).oracle) for task in tasks[:2]}
    engine = build_plugin("engine", "scripted", {"script": answers, "default": ['{"answer": 0}']})
    await engine.load(a_policy())
    sampling = SamplingParams(temperature=1.0, max_new_tokens=400)
    requests = plan_groups(tasks, POLICY, sampling, 2, "train", "r")
    domain_of, sandboxes = {domain.id: domain}, ToyBackend()
    done = await collect(requests, domain_of, engine, sandboxes, max_concurrency=4, deadline_s=60)
    judged = await verify(done, tasks, domain_of, sandboxes, max_concurrency=4)
    assert [v.verdict.passed for v in judged] == [True, True, True, True, False, False]

    store = Store.open(str(tmp_path / "store"))
    for table, rows in {
        "tasks": task_rows(tasks, "r"),
        "turns": turn_rows(done),
        "trajectories": trajectory_rows(done, 1),
        "rewards": reward_rows(judged),
    }.items():
        store.commit(table, rows, key=table, run_id="r")
    assert tasks_from(store.frame("tasks")) == tasks
    assert [t.submission for t in trajectories_from(store.frame("trajectories"), store.frame("turns"))] == [
        t.submission for t in done
    ]
    catalog = Catalog(store)
    try:
        view = show.find(catalog, done[0].id)
    finally:
        catalog.close()
    (image,) = tasks[0].prompt[-1].images
    assert f"[image 1: image/png, {len(image.data):,} bytes, sha256 {image.digest}]" in "\n".join(show.lines(view))
    assert data_uri(view["prompt"][-1]["images"][0]).startswith("data:image/png;base64,iVBOR")


async def test_images_of_turns_come_back_equal_and_are_found_by_sql(tmp_path: Any) -> None:
    trajectory = await played(a_task(), ToyEngine(more_then_end), Views())
    store = Store.open(str(tmp_path / "store"))
    store.commit("turns", turn_rows([trajectory]), key="k", run_id="r")
    store.commit("trajectories", trajectory_rows([trajectory], 1), key="k", run_id="r")
    (back,) = trajectories_from(store.frame("trajectories"), store.frame("turns"))
    assert [turn.images for turn in back.turns] == [(OTHER,), ()]
    catalog = Catalog(store)
    try:
        found = catalog.sql("FROM turns SELECT turn_index, images[1].sha256 AS sha256 WHERE len(images) > 0").pl()
        assert found.to_dicts() == [{"turn_index": 0, "sha256": OTHER.digest}]
        assert '"sha256": "' + OTHER.digest in str(show.find(catalog, trajectory.id)["turns"][0]).replace("'", '"')
    finally:
        catalog.close()


async def test_a_tokenizer_without_images_refuses_to_drop_them_silently(tmp_path: Any) -> None:
    from rollouts.chat import ChatTokenizer
    from training.tiny_model import tiny_tokenizer

    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(EngineError, match="takes none here"):
        ChatTokenizer(str(tmp_path)).encode_chat(with_image(a_task()).prompt)


def test_what_is_no_picture_is_not_put_into_a_page() -> None:
    from console.images import image_view

    assert data_uri(image_view("image/svg+xml", b"<svg onload=alert(1)>")) == ""
    assert data_uri(image_view("image/png", b"<script>")) == ""
