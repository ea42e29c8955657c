"""The ledger answers what a policy was made from, and what a trajectory touched."""

import pytest

from assay.errors import CommitConflict, StoreError
from storage.ledger import Ledger
from storage.store import Store
from tests.storage.samples import batch_row, policy

V0 = policy("v0")
V1 = policy("v1", "p_v0", ("b_1",), kind="sft")
V2 = policy("v2", "p_v1", ("b_2", "b_3"))
SIDE = policy("v3", "p_v0", ("b_4",), run_id="other")


@pytest.fixture
def ledger(local: Store) -> Ledger:
    """v0 -> v1 -> v2, and v0 -> v3 in another run; t_2 was only in a baseline, t_3 was dropped."""
    rows = [
        batch_row("b_1", "t_1"),
        batch_row("b_2", "t_2", used=False, drop_reason="no_signal"),
        batch_row("b_2", "t_3", used=False, in_baseline=False, drop_reason="invalid"),
        batch_row("b_2", "t_5"),
        batch_row("b_3", "t_4"),
        batch_row("b_3", "t_0"),
        batch_row("b_4", "t_1"),
    ]
    local.commit("batches", rows, key="k", run_id="r")
    ledger = Ledger(local)
    for version in (V0, V1, V2, SIDE):
        ledger.record(version)
    return ledger


def test_versions_are_found_by_id_and_by_run(ledger: Ledger) -> None:
    assert ledger.get("p_v1") == V1
    assert ledger.find("p_none") is None
    assert ledger.of_run("r") == [V0, V1, V2]
    assert ledger.latest("r") == V2
    assert ledger.latest("nobody") is None
    with pytest.raises(StoreError, match="has no policy 'p_none'"):
        ledger.get("p_none")


def test_recording_twice_changes_nothing(ledger: Ledger) -> None:
    first = ledger.record(V1)
    assert ledger.record(policy("v1", "p_v0", ("b_1",), kind="sft", created_at="later")) == first
    assert ledger.get("p_v1") == V1
    assert len(ledger.all()) == 4


def test_one_id_with_two_lineages_is_a_conflict(ledger: Ledger) -> None:
    with pytest.raises(CommitConflict, match="p_v1 is in the ledger"):
        ledger.record(policy("v1", "p_v0", ("b_9",), kind="sft"))


def test_ancestors_lead_to_the_base(ledger: Ledger) -> None:
    assert ledger.ancestors("p_v2") == [V2, V1, V0]
    assert ledger.ancestors("p_v0") == [V0]
    with pytest.raises(StoreError, match="has no policy"):
        ledger.ancestors("p_none")


def test_a_lineage_names_batches_and_the_trajectories_in_their_loss(ledger: Ledger) -> None:
    lineage = ledger.lineage("p_v2")
    assert [ancestor.policy for ancestor in lineage] == [V0, V1, V2]
    assert [ancestor.batches for ancestor in lineage] == [
        {},
        {"b_1": ("t_1",)},
        {"b_2": ("t_5",), "b_3": ("t_0", "t_4")},
    ]
    assert ledger.batches_of("p_v2") == ("b_2", "b_3")
    assert ledger.trajectories_of("b_3") == ("t_0", "t_4")
    assert ledger.trajectories_of("b_none") == ()


@pytest.mark.parametrize(
    ("trajectory", "touched"),
    [("t_1", [V1, V2, SIDE]), ("t_4", [V2]), ("t_2", [V2]), ("t_3", []), ("t_none", [])],
)
def test_a_trajectory_touches_what_learned_from_it_and_all_descendants(
    ledger: Ledger, trajectory: str, touched: list[object]
) -> None:
    assert ledger.policies_touched_by([trajectory]) == touched


def test_a_circle_is_told_and_not_walked_forever(local: Store) -> None:
    ledger = Ledger(local)
    ledger.record(policy("v1", "p_v2"))
    ledger.record(policy("v2", "p_v1"))
    with pytest.raises(StoreError, match="runs in a circle"):
        ledger.ancestors("p_v2")
