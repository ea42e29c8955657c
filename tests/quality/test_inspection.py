"""Inspection finds planted defects, keeps the evidence, and never takes silence for proof."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from assay.config import InspectionConfig
from assay.errors import ConfigurationError, SandboxLaunchError
from assay.progress import Event, listening
from assay.records import Finding, TaskSpec, TaskState, Verdict
from environments.base import Outcome, Solutions
from environments.sandboxes.base import Backend
from quality.inspection import Inspected, inspect, ladder
from quality.probes.base import LAUNCHES
from tests.builders import ToyBackend, ToyDomain, a_task

CONFIG = InspectionConfig.model_validate({"repetitions": 3})


async def inspected(domain: ToyDomain, task: TaskSpec | None = None, sandboxes: ToyBackend | None = None) -> Inspected:
    (result,) = await inspect([task or a_task()], {"toy": domain}, sandboxes or ToyBackend(), CONFIG)
    return result


async def test_a_sound_task_is_trusted_on_the_evidence_of_every_probe() -> None:
    sandboxes = ToyBackend()
    result = await inspected(ToyDomain(), sandboxes=sandboxes)
    assert result.certificate.state is TaskState.TRUSTED
    assert [e.probe for e in result.evidence] == [p.id for p in ladder(CONFIG)]
    assert {e.finding for e in result.evidence} == {Finding.CLEAR}
    assert set(result.certificate.evidence_ids) == {e.id for e in result.evidence}
    assert sum(e.num_sandboxes for e in result.evidence) == sandboxes.num_created
    assert not sandboxes.alive


def counting() -> Callable[[TaskSpec, str], bool]:
    seen: list[str] = []

    def accepts(task: TaskSpec, text: str) -> bool:
        seen.append(text)
        return text.strip() == task.hidden["answer"] and len([s for s in seen if s == text]) % 3 != 0

    return accepts


@pytest.mark.parametrize(
    ("accepts", "probe", "told"),
    [
        (lambda task, text: False, "oracle_accepted", "oracle rejected (reward 0)"),
        (lambda task, text: True, "noop_rejected", "no-op accepted (reward 1)"),
        (lambda task, text: text in ("a", "wrong"), "equivalent_accepted", "equivalent 0 rejected"),
        (lambda task, text: text.strip() in ("a", "wrong"), "wrong_rejected", "wrong 0 accepted"),
        (lambda task, text: text.strip() in ("a", ""), "junk_rejected", "empty accepted (reward 1); whitespace"),
        (lambda task, text: text.strip() == "a" or "train-" in text, "junk_rejected", "another task's answer accepted"),
        (counting(), "repetitions_agree", "oracle got rewards [1.0, 0.0, 1.0]"),
    ],
)
async def test_each_defect_is_found_by_its_probe_with_the_input_that_shows_it(
    accepts: Callable[[TaskSpec, str], bool], probe: str, told: str
) -> None:
    result = await inspected(ToyDomain(accepts))
    assert result.certificate.state is TaskState.QUARANTINED
    last = result.evidence[-1]
    assert (last.probe, last.finding) == (probe, Finding.FOUND)
    assert told in last.summary
    assert result.certificate.reasons == (f"{probe}: {last.summary}",)
    assert all(set(s) >= {"completions", "passed"} for s in last.tried["submissions"])


async def test_a_broken_contract_is_found_without_a_sandbox_and_ends_the_climb() -> None:
    domain, sandboxes = ToyDomain(), ToyBackend()
    domain.problems = ["hidden.answer is empty"]
    result = await inspected(domain, sandboxes=sandboxes)
    assert [e.probe for e in result.evidence] == ["static_contract"]
    assert result.certificate.reasons == ("static_contract: hidden.answer is empty",)
    assert sandboxes.num_created == 0


async def test_a_task_of_another_version_of_its_domain_is_found() -> None:
    result = await inspected(ToyDomain(), replace(a_task(), environment_version="0"))
    assert "made by version 0 of toy, which is now 1" in result.certificate.reasons[0]


async def test_a_verifier_that_breaks_on_odd_input_is_a_defect() -> None:
    def accepts(task: TaskSpec, text: str) -> bool:
        return text.encode("utf-8").decode("ascii" if "漢" in text else "utf-8").strip() == "a"

    result = await inspected(ToyDomain(accepts))
    assert result.evidence[-1].probe == "junk_rejected"
    assert "unicode: the verifier broke" in result.certificate.reasons[0]
    assert "UnicodeDecodeError" in result.certificate.reasons[0]


async def test_a_sandbox_that_fails_leaves_the_task_unknown_not_guilty_and_not_trusted() -> None:
    result = await inspected(ToyDomain(), sandboxes=ToyBackend(fails=lambda n: 1 <= n <= LAUNCHES))
    assert result.certificate.state is TaskState.DRAFT
    unknown = [e for e in result.evidence if e.finding is Finding.UNKNOWN]
    assert [e.probe for e in unknown] == ["noop_rejected"]
    assert f"could not look: no-op: sandbox: launch {LAUNCHES} failed" in unknown[0].summary
    assert result.certificate.reasons == (f"noop_rejected: {unknown[0].summary}",)


async def test_launches_that_fail_for_a_moment_are_tried_again() -> None:
    result = await inspected(ToyDomain(), sandboxes=ToyBackend(fails=lambda n: n % 3 == 0))
    assert result.certificate.state is TaskState.TRUSTED


async def test_a_second_inspection_looks_only_at_what_the_first_left_open() -> None:
    first = await inspected(ToyDomain(), sandboxes=ToyBackend(fails=lambda n: 1 <= n <= LAUNCHES))
    (second,) = await inspect([a_task()], {"toy": ToyDomain()}, ToyBackend(), CONFIG, known=first.evidence)
    assert [e.probe for e in second.evidence] == ["noop_rejected"]
    assert second.certificate.state is TaskState.TRUSTED
    assert len(second.certificate.evidence_ids) == len(ladder(CONFIG)) + 1


async def test_known_evidence_of_other_content_or_of_fewer_repetitions_settles_nothing() -> None:
    sandboxes, sound = ToyBackend(), await inspected(ToyDomain())
    more = InspectionConfig.model_validate({"repetitions": 5})
    (again,) = await inspect([a_task()], {"toy": ToyDomain()}, sandboxes, more, known=sound.evidence)
    assert [(e.probe, e.num_sandboxes) for e in again.evidence] == [("repetitions_agree", 20)]
    (changed,) = await inspect([a_task("b")], {"toy": ToyDomain()}, sandboxes, CONFIG, known=sound.evidence)
    assert len(changed.evidence) == len(ladder(CONFIG))


async def test_a_proven_defect_is_not_looked_at_again() -> None:
    first = await inspected(ToyDomain(lambda task, text: False))
    (second,) = await inspect([a_task()], {"toy": ToyDomain()}, ToyBackend(), CONFIG, known=first.evidence)
    assert (second.evidence, second.certificate.state) == ([], TaskState.QUARANTINED)
    assert second.certificate.reasons == first.certificate.reasons


async def test_a_probe_that_crashes_leaves_unknown_with_its_traceback() -> None:
    class NoSolutions(ToyDomain):
        def solutions(self, task: TaskSpec) -> Solutions:
            raise NotImplementedError("no oracle yet")

    result = await inspected(NoSolutions())
    assert result.certificate.state is TaskState.DRAFT
    assert len(result.certificate.reasons) == 6
    assert all("NotImplementedError: no oracle yet" in reason for reason in result.certificate.reasons)


async def test_a_domain_without_wrong_submissions_proves_too_little() -> None:
    domain = ToyDomain()
    domain.wrong = ()
    result = await inspected(domain)
    assert result.certificate.state is TaskState.DRAFT
    assert result.certificate.reasons == ("wrong_rejected: toy.solutions names no wrong submission; give at least one",)


async def test_over_many_tasks_every_wrong_submission_is_tried_though_only_a_few_per_task() -> None:
    domain = ToyDomain(lambda task, text: text.strip() == task.hidden["answer"] or text == "sly")
    domain.wrong = (*(f"wrong {i}" for i in range(9)), "sly")
    results = await inspect([a_task(str(i)) for i in range(40)], {"toy": domain}, ToyBackend(), CONFIG)
    tried = [e for r in results for e in r.evidence if e.probe == "wrong_rejected"]
    assert all(len(e.tried["submissions"]) == 2 for e in tried)
    assert {s["name"] for e in tried for s in e.tried["submissions"]} == {f"wrong {i}" for i in range(10)}
    assert "2 of 10 wrong submissions rejected" in {e.summary for e in tried}
    assert "wrong 9 accepted (reward 1)" in {e.summary for e in tried}


async def test_an_environment_that_breaks_under_the_oracle_is_a_defect() -> None:
    result = await inspected(ToyDomain(), a_task("crash"))
    assert result.certificate.state is TaskState.QUARANTINED
    assert "oracle: the environment broke" in result.certificate.reasons[0]


async def test_tasks_are_inspected_at_once_within_the_limit_and_told_as_they_end() -> None:
    class Slow(ToyDomain):
        async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
            sandbox = await sandboxes.create(None)  # type: ignore[arg-type]
            await asyncio.sleep(0.002)
            await sandbox.destroy()
            return await super().verify(task, outcome, ToyBackend())

    sandboxes, events, told = ToyBackend(), list[Event](), list[str]()
    tasks = [a_task(name) for name in "abcdef"]
    with listening(events.append):
        results = await inspect(
            tasks, {"toy": Slow()}, sandboxes, CONFIG, max_concurrency=3, on_done=lambda r: told.append(r.task.id)
        )
    assert [r.task for r in results] == tasks
    assert sorted(told) == [t.id for t in tasks]
    assert sandboxes.most_alive == 3
    assert (events[-1].data["done"], events[-1].data["total"], events[-1].data["trusted"]) == (6, 6, 6)


async def test_the_same_inspection_gives_the_same_evidence() -> None:
    first, again = await inspected(ToyDomain()), await inspected(ToyDomain())
    assert [e.id for e in first.evidence] == [e.id for e in again.evidence]


async def test_an_unknown_domain_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Unknown domain 'toy'\. Known: none"):
        await inspect([a_task()], {}, ToyBackend(), CONFIG)


async def test_a_sandbox_error_raised_by_a_verifier_is_not_the_tasks_fault() -> None:
    def accepts(task: TaskSpec, text: str) -> bool:
        raise SandboxLaunchError("out of room")

    result = await inspected(ToyDomain(accepts))
    assert result.certificate.state is TaskState.DRAFT
    assert not [e for e in result.evidence if e.finding is Finding.FOUND]
