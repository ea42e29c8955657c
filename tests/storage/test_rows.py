"""Records survive the tables: what goes in as a record comes back equal."""

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.records import (
    Band,
    Cause,
    Certificate,
    Evidence,
    Failure,
    Finding,
    Image,
    Message,
    PolicyVersion,
    RewardTerm,
    SamplingParams,
    SolvabilityEstimate,
    TaskSpec,
    TaskState,
    Trajectory,
    Turn,
    Verdict,
    VerifiedTrajectory,
)
from storage.catalog import Catalog
from storage.rows import (
    certificate_rows,
    certificates_from,
    estimates_from,
    evidence_from,
    evidence_rows,
    policies_from,
    policy_rows,
    reward_rows,
    solvability_rows,
    task_rows,
    tasks_from,
    trajectories_from,
    trajectory_rows,
    turn_rows,
    verified_from,
)
from storage.store import Store
from storage.tables import TABLES
from storage.typed import from_parquet, to_parquet, typed_frame
from tests.builders import a_request, a_task, a_trajectory

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
REAL = st.floats(allow_nan=False, allow_infinity=False, width=64)
RATE = st.floats(0, 1)
WHOLE = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 1000)
TOKENS = st.lists(st.integers(0, 2**31 - 1), max_size=6).map(tuple)
METRICS = st.dictionaries(TEXT, REAL, max_size=3)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), REAL, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=5,
)
MAPPING = st.dictionaries(TEXT, JSON, max_size=3)
FAILURES = st.builds(Failure, cause=st.sampled_from(Cause), detail=TEXT)


def stored(table: str, rows: list[dict[str, Any]], run_id: str = "r") -> pl.DataFrame:
    """The rows after a way through Parquet."""
    return from_parquet(table, to_parquet(typed_frame(table, rows, run_id=run_id)))


@st.composite
def tasks(draw: st.DrawFn) -> TaskSpec:
    return TaskSpec(
        id=draw(TEXT),
        domain=draw(TEXT),
        environment_version=draw(TEXT),
        split=draw(st.sampled_from(["train", "heldout"])),
        level=draw(COUNT),
        template=draw(TEXT),
        answer_digest=draw(TEXT),
        prompt=tuple(draw(st.lists(st.builds(Message, role=TEXT, content=TEXT), max_size=3))),
        public=draw(MAPPING),
        hidden=draw(MAPPING),
        max_turns=draw(COUNT),
        max_new_tokens=draw(COUNT),
    )


@st.composite
def turns(draw: st.DrawFn, index: int) -> Turn:
    ids = draw(TOKENS)
    narrow = st.floats(max_value=0, allow_nan=False, allow_infinity=False, width=32)
    return Turn(
        index=index,
        prompt_ids=draw(TOKENS),
        completion_ids=ids,
        logprobs=tuple(draw(st.lists(narrow, min_size=len(ids), max_size=len(ids)))),
        completion=draw(TEXT),
        finish_reason=draw(st.sampled_from(["stop", "length"])),
        policy_version=draw(TEXT),
        action=draw(TEXT),
        observation=draw(TEXT),
        sample_s=draw(REAL),
        act_s=draw(REAL),
        state_hash=draw(TEXT),
        images=tuple(Image(data=data) for data in draw(st.lists(st.binary(max_size=8), max_size=2))),
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    failure = draw(st.none() | FAILURES)
    ends = ["failed"] if failure else ["done", "max_turns", "truncated", "agent_timeout"]
    return Trajectory(
        id=draw(TEXT),
        group_id=draw(TEXT),
        run_id=draw(TEXT),
        task_id=draw(TEXT),
        task_hash=draw(TEXT),
        domain=draw(TEXT),
        level=draw(COUNT),
        environment_version=draw(TEXT),
        purpose=draw(st.sampled_from(["train", "solvability", "evaluation", "demonstration"])),
        sampling=SamplingParams(temperature=draw(REAL), max_new_tokens=draw(COUNT), seed=draw(WHOLE)),
        index=draw(COUNT),
        first_policy=draw(TEXT),
        last_policy=draw(TEXT),
        turns=tuple(draw(turns(i)) for i in range(draw(st.integers(0, 3)))),
        end=draw(st.sampled_from(ends)),
        submission=draw(TEXT),
        metrics=draw(METRICS),
        failure=failure,
        sandbox=draw(TEXT),
        started_at=draw(TEXT),
        wall_s=draw(REAL),
    )


@st.composite
def verified(draw: st.DrawFn) -> VerifiedTrajectory:
    failure = draw(st.none() | FAILURES)
    terms = st.lists(st.builds(RewardTerm, name=TEXT, value=RATE, weight=RATE, note=TEXT), max_size=3).map(tuple)
    verdict = Verdict(
        reward=None if failure else draw(RATE),
        passed=draw(st.booleans()),
        failure=failure,
        terms=draw(terms),
        judged=draw(st.sampled_from(["in_process", "out_of_process", "fresh_sandbox"])),
    )
    return VerifiedTrajectory(
        trajectory=draw(trajectories()), verdict=verdict, verifier_version=draw(TEXT), verify_s=draw(REAL)
    )


EVIDENCE = st.builds(
    Evidence,
    task_id=TEXT,
    task_hash=TEXT,
    domain=TEXT,
    environment_version=TEXT,
    probe=TEXT,
    probe_version=TEXT,
    finding=st.sampled_from(Finding),
    summary=TEXT,
    tried=MAPPING,
    seed=WHOLE,
    wall_s=REAL,
    num_sandboxes=COUNT,
)
CERTIFICATES = st.builds(
    Certificate,
    task_id=TEXT,
    task_hash=TEXT,
    domain=TEXT,
    environment_version=TEXT,
    state=st.sampled_from(TaskState),
    reasons=st.lists(TEXT, max_size=3).map(tuple),
    evidence_ids=st.lists(TEXT, max_size=3).map(tuple),
    issued_at=TEXT,
)
ESTIMATES = st.builds(
    SolvabilityEstimate,
    task_id=TEXT,
    task_hash=TEXT,
    domain=TEXT,
    policy_version=TEXT,
    num_valid=COUNT,
    num_passed=COUNT,
    pass_rate=RATE,
    low_rate=RATE,
    high_rate=RATE,
    band=st.sampled_from(Band),
)
POLICIES = st.builds(
    PolicyVersion,
    id=TEXT,
    name=TEXT,
    kind=st.sampled_from(["base", "sft", "grpo"]),
    parent=st.none() | TEXT,
    uri=TEXT,
    batch_ids=st.lists(TEXT, max_size=3).map(tuple),
    run_id=TEXT,
    num_updates=COUNT,
    metrics=METRICS,
    created_at=TEXT,
)


@settings(deadline=None, max_examples=25)
@given(st.lists(tasks(), max_size=3, unique_by=lambda t: (t.content_hash, t.environment_version, t.id)))
def test_tasks_come_back_equal(given_tasks: list[TaskSpec]) -> None:
    assert tasks_from(stored("tasks", task_rows(given_tasks, "r"))) == given_tasks


@settings(deadline=None, max_examples=25)
@given(st.lists(EVIDENCE, max_size=3, unique_by=lambda e: e.id))
def test_evidence_comes_back_equal(evidence: list[Evidence]) -> None:
    assert evidence_from(stored("evidence", evidence_rows(evidence, "r"))) == evidence


@settings(deadline=None, max_examples=25)
@given(st.lists(CERTIFICATES, max_size=3, unique_by=lambda c: c.id))
def test_certificates_come_back_equal(certificates: list[Certificate]) -> None:
    assert certificates_from(stored("certificates", certificate_rows(certificates, "r"))) == certificates


@settings(deadline=None, max_examples=25)
@given(ESTIMATES)
def test_estimates_come_back_equal(estimate: SolvabilityEstimate) -> None:
    rows = solvability_rows([estimate], "r", 3, {estimate.domain: "v7"})
    assert estimates_from(stored("solvability", rows)) == [estimate]
    assert (rows[0]["iteration"], rows[0]["environment_version"]) == (3, "v7")


@settings(deadline=None, max_examples=25)
@given(POLICIES)
def test_policies_come_back_equal(policy: PolicyVersion) -> None:
    assert policies_from(stored("policies", policy_rows([policy]))) == [policy]


@settings(deadline=None, max_examples=25)
@given(st.lists(trajectories(), max_size=3, unique_by=lambda t: t.id))
def test_trajectories_come_back_equal_with_their_turns(given_trajectories: list[Trajectory]) -> None:
    rows = stored("trajectories", trajectory_rows(given_trajectories, 1))
    turn_frame = stored("turns", turn_rows(given_trajectories)).reverse()
    assert trajectories_from(rows, turn_frame) == given_trajectories


@settings(deadline=None, max_examples=25)
@given(st.lists(verified(), max_size=3, unique_by=lambda v: v.trajectory.id))
def test_verdicts_come_back_equal(given_verified: list[VerifiedTrajectory]) -> None:
    rewards = stored("rewards", reward_rows(given_verified)).reverse()
    assert verified_from([v.trajectory for v in given_verified], rewards) == given_verified


def test_the_rows_have_the_columns_of_their_tables() -> None:
    trajectory = a_trajectory()
    assert set(trajectory_rows([trajectory], 0)[0]) == set(TABLES["trajectories"].columns)
    assert set(turn_rows([trajectory])[0]) == set(TABLES["turns"].columns)


def test_a_trajectory_without_all_its_turns_is_refused() -> None:
    trajectory = a_trajectory()
    rows = stored("trajectories", trajectory_rows([trajectory], 0))
    with pytest.raises(StoreError, match=f"{trajectory.id} has 1 turns by its row, but the turns given hold 0"):
        trajectories_from(rows, stored("turns", []))


def test_a_task_that_was_changed_in_the_store_is_refused() -> None:
    row = task_rows([a_task()], "r")[0] | {"hidden_json": json.dumps({"answer": "other"})}
    with pytest.raises(StoreError, match="stored with content hash"):
        tasks_from(stored("tasks", [row]))


def test_only_trajectories_with_a_verdict_are_verified() -> None:
    assert verified_from([a_trajectory()], stored("rewards", [])) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_metrics_that_json_cannot_hold_are_refused_with_the_owner(value: Any) -> None:
    policy = PolicyVersion(
        id="p_1",
        name="v1",
        kind="base",
        parent=None,
        uri="u",
        batch_ids=(),
        run_id="r",
        num_updates=0,
        metrics={"loss": value},
        created_at="now",
    )
    with pytest.raises(StoreError, match="Policy p_1: metrics cannot be stored"):
        policy_rows([policy])


def test_turns_committed_before_there_were_state_hashes_still_read(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TABLES["turns"]
    fewer = {name: column for name, column in table.columns.items() if name != "state_hash"}
    old, new = (a_trajectory(a_request(index=i)) for i in range(2))
    new = replace(new, turns=(replace(new.turns[0], state_hash="9f"),))
    with monkeypatch.context() as patch:
        patch.setitem(TABLES, "turns", type(table)(table.name, table.meaning, table.key, fewer))
        rows = [{name: value for name, value in row.items() if name in fewer} for row in turn_rows([old])]
        local.commit("turns", rows, key="old", run_id="r")
    local.commit("turns", turn_rows([new]), key="new", run_id="r")
    local.commit("trajectories", trajectory_rows([old, new], 0), key="k", run_id="r")
    for _ in range(2):
        for turns in (local.frame("turns"), Catalog(local).sql("FROM turns").pl()):
            assert trajectories_from(local.frame("trajectories"), turns) == [old, new]
        local.compact("turns")
