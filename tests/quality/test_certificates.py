"""Standing follows from evidence at the present content; only trusted tasks pass the gate."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import DataGateError
from assay.records import Certificate, Evidence, Finding, TaskSpec, TaskState
from quality.certificates import certify, require_trusted, standing
from tests.builders import a_task

REQUIRED = {"p": "1", "q": "1"}
NOW = "2026-01-01T00:00:00+00:00"


def evidence(probe: str, finding: Finding, task: TaskSpec | None = None, version: str = "1") -> Evidence:
    task = task or a_task()
    return Evidence(
        task_id=task.id,
        task_hash=task.content_hash,
        domain=task.domain,
        environment_version=task.environment_version,
        probe=probe,
        probe_version=version,
        finding=finding,
        summary=f"it is {finding}",
        tried={},
        seed=0,
        wall_s=0.0,
        num_sandboxes=0,
    )


def state(*given_: Evidence) -> TaskState:
    return certify(a_task(), given_, REQUIRED, NOW).state


P_CLEAR, Q_CLEAR = evidence("p", Finding.CLEAR), evidence("q", Finding.CLEAR)


def test_all_clear_is_trusted() -> None:
    certificate = certify(a_task(), [P_CLEAR, Q_CLEAR], REQUIRED, NOW)
    assert (certificate.state, certificate.reasons) == (TaskState.TRUSTED, ())


def test_missing_and_unknown_are_drafts_with_the_reason() -> None:
    certificate = certify(a_task(), [evidence("q", Finding.UNKNOWN)], REQUIRED, NOW)
    assert certificate.state is TaskState.DRAFT
    assert certificate.reasons == ("p: never ran on this content", "q: it is unknown")


@pytest.mark.parametrize("order", list(permutations([Finding.FOUND, Finding.CLEAR, Finding.UNKNOWN])))
def test_a_finding_outweighs_whatever_else_a_probe_said(order: tuple[Finding, ...]) -> None:
    assert state(Q_CLEAR, *(evidence("p", finding) for finding in order)) is TaskState.QUARANTINED


def test_a_later_look_settles_an_unknown() -> None:
    assert state(evidence("p", Finding.UNKNOWN), P_CLEAR, Q_CLEAR) is TaskState.TRUSTED


def test_evidence_of_other_content_or_of_an_older_probe_does_not_count() -> None:
    changed = a_task(answer="another")
    assert state(P_CLEAR, evidence("q", Finding.CLEAR, changed)) is TaskState.DRAFT
    assert state(P_CLEAR, evidence("q", Finding.CLEAR, version="0")) is TaskState.DRAFT
    assert state(P_CLEAR, Q_CLEAR, evidence("q", Finding.FOUND, changed)) is TaskState.TRUSTED


def test_what_others_found_quarantines_but_their_clear_replaces_no_probe() -> None:
    assert state(P_CLEAR, Q_CLEAR, evidence("a person", Finding.FOUND)) is TaskState.QUARANTINED
    assert state(P_CLEAR, evidence("a person", Finding.CLEAR)) is TaskState.DRAFT


@given(st.lists(st.tuples(st.sampled_from(["p", "q", "r"]), st.sampled_from(list(Finding))), max_size=6))
def test_trusted_means_every_required_probe_is_clear_and_nothing_was_found(results: list[tuple[str, Finding]]) -> None:
    got = state(*(evidence(probe, finding) for probe, finding in results))
    clear = {probe for probe, finding in results if finding is Finding.CLEAR}
    found = any(finding is Finding.FOUND for _, finding in results)
    assert (got is TaskState.TRUSTED) == (clear >= {"p", "q"} and not found)
    assert (got is TaskState.QUARANTINED) == found


def a_certificate(task: TaskSpec, standing_: TaskState, issued_at: str = NOW) -> Certificate:
    return replace(certify(task, [], REQUIRED, issued_at), state=standing_)


def test_the_gate_lets_trusted_tasks_through_and_names_the_others() -> None:
    good, bad, new = a_task("good"), a_task("bad"), a_task("new")
    certificates = [a_certificate(good, TaskState.TRUSTED), a_certificate(bad, TaskState.QUARANTINED)]
    require_trusted([good], certificates)
    assert standing([good, bad, new], certificates).trusted == (good,)
    with pytest.raises(DataGateError, match=r"2 of 3 tasks.*toy/train/bad: quarantined.*toy/train/new: no certificate"):
        require_trusted([good, bad, new], certificates)


def test_a_certificate_of_other_content_opens_nothing() -> None:
    certificate = a_certificate(a_task(), TaskState.TRUSTED)
    with pytest.raises(DataGateError, match="no certificate for this content"):
        require_trusted([a_task(answer="changed")], [certificate])


def test_the_latest_certificate_counts_and_of_equally_late_ones_the_worst() -> None:
    early, late = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
    reopened = [a_certificate(a_task(), TaskState.QUARANTINED, late), a_certificate(a_task(), TaskState.TRUSTED, early)]
    cleared = [a_certificate(a_task(), TaskState.TRUSTED, late), a_certificate(a_task(), TaskState.QUARANTINED, early)]
    both = [a_certificate(a_task(), TaskState.QUARANTINED), a_certificate(a_task(), TaskState.TRUSTED)]
    assert standing([a_task()], reopened).refused
    assert not standing([a_task()], cleared).refused
    assert standing([a_task()], both).refused
