"""Every named query on a small store, against figures computed by hand."""

from typing import Any

import pytest

from assay.errors import ConfigurationError
from storage import named
from storage.catalog import Catalog
from storage.rows import reward_rows
from storage.store import Store
from tests.builders import POLICY, a_verified, an_invalid
from tests.storage.samples import fill


@pytest.fixture
def filled(local: Store) -> tuple[Catalog, Store, list[str]]:
    """A catalogue on the sample store, the store, and the ids of its four rollouts: right, wrong, half, broken."""
    ids = [v.trajectory.id for v in fill(local)]
    return Catalog(local), local, ids


Filled = tuple[Catalog, Store, list[str]]


def answer(catalog: Catalog, name: str) -> list[dict[str, Any]]:
    return catalog.sql(named.load(name).sql).pl().to_dicts()


def test_every_query_has_a_title_and_a_test_here() -> None:
    tested = set(globals())
    for query in named.queries():
        assert query.title
        assert query.title[0].isupper(), query.name
        assert any(name.startswith(f"test_{query.name}_") for name in tested), query.name


def test_every_query_runs_on_an_empty_store(store: Store) -> None:
    catalog = Catalog(store)
    for query in named.queries():
        assert len(catalog.sql(query.sql)) == 0, query.name


def test_every_query_runs_on_a_filled_store(store: Store) -> None:
    fill(store)
    catalog = Catalog(store)
    without_rows = {query.name for query in named.queries() if len(catalog.sql(query.sql)) == 0}
    assert without_rows == {"baseline_purity"}


def test_an_unknown_query_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"Unknown query 'why'.*why_zero"):
        named.load("why")


def test_why_zero_tells_wrong_from_broken(filled: Filled) -> None:
    catalog, _, (_, wrong, _, broken) = filled
    assert answer(catalog, "why_zero") == [
        {"domain": "toy", "why": "invalid: sandbox", "num_rollouts": 1, "share_rate": 0.5, "example": broken},
        {"domain": "toy", "why": "wrong: answer", "num_rollouts": 1, "share_rate": 0.5, "example": wrong},
    ]


def test_funnel_adds_up(filled: Filled) -> None:
    rows = [(r["stage"], r["what"], r["num"], r["num_in"]) for r in answer(filled[0], "funnel")]
    assert rows == [
        ("tasks", "quarantined", 1, 2),
        ("tasks", "trusted", 1, 2),
        ("solvability", "trainable", 1, 1),
        ("rollouts", "trained", 3, 4),
        ("rollouts", "sandbox", 1, 4),
    ]


def test_pass_rate_by_domain_counts_invalid_ones_apart(filled: Filled) -> None:
    (row,) = answer(filled[0], "pass_rate_by_domain")
    assert row["num_rollouts"] == 4
    assert (row["num_valid"], row["num_passed"], row["num_invalid"]) == (3, 1, 1)
    assert (row["pass_rate"], row["mean_reward"]) == (0.333, 0.5)


def test_learning_curve_shows_evaluations_in_order(filled: Filled) -> None:
    (row,) = answer(filled[0], "learning_curve")
    assert (row["policy_name"], row["pass_rate"], row["low_rate"], row["high_rate"]) == ("v1", 0.75, 0.3, 0.95)


def test_waste_by_cause_gives_cost_and_an_example(filled: Filled) -> None:
    catalog, _, ids = filled
    (row,) = answer(catalog, "waste_by_cause")
    assert (row["cause"], row["num_rollouts"], row["share_rate"], row["wall_s"]) == ("sandbox", 1, 0.25, 0.1)
    assert (row["num_tokens"], row["example"], row["detail"]) == (4, ids[3], "it broke")


def test_time_by_phase_shares_add_up(filled: Filled) -> None:
    rows = answer(filled[0], "time_by_phase")
    assert [(r["stage"], r["wall_s"], r["share_rate"]) for r in rows] == [("rollout", 6.0, 0.75), ("train", 2.0, 0.25)]


def test_pass_at_k_is_unbiased_over_valid_siblings(filled: Filled) -> None:
    # Three valid siblings, one passes: pass@1 = 1/3; pass@2 = 1 - C(2,2)/C(3,2) = 2/3; all of two: C(1,2) = 0.
    rows = answer(filled[0], "pass_at_k")
    found = [(r["policy"], r["k"], r["num_groups"], r["pass_at_k_rate"], r["pass_hat_k_rate"]) for r in rows]
    assert found == [("v0", 1, 1, 0.333, 0.333), ("v0", 2, 1, 0.667, 0.0)]


def test_defects_come_with_evidence_and_standing(filled: Filled) -> None:
    (row,) = answer(filled[0], "defects")
    assert (row["task_id"], row["probe"], row["state"]) == ("toy/train/bad", "oracle_accepted", "quarantined")
    assert row["summary"] == "the oracle of bad is found"


def test_solvability_band_counts_tasks(filled: Filled) -> None:
    (row,) = answer(filled[0], "solvability_band")
    assert (row["band"], row["num_tasks"], row["mean_pass_rate"], row["num_rollouts"]) == ("trainable", 1, 0.4, 3)


def test_lineage_of_policy_starts_at_the_base(filled: Filled) -> None:
    rows = answer(filled[0], "lineage_of_policy")
    assert [(r["policy"], r["parent"], r["batch_id"], r["num_trajectories"], r["num_used"]) for r in rows] == [
        ("v0", None, None, 0, 0),
        ("v1", POLICY, "b_1", 4, 3),
    ]


def test_slowest_rollouts_split_the_time(filled: Filled) -> None:
    rows = answer(filled[0], "slowest_rollouts")
    assert len(rows) == 4
    assert {(r["wall_s"], r["sample_s"], r["act_s"]) for r in rows} == {(0.1, 0.1, 0.0)}


def test_reward_distribution_counts_tenths_of_valid_rollouts(filled: Filled) -> None:
    rows = answer(filled[0], "reward_distribution")
    assert [(r["reward_from"], r["num_rollouts"]) for r in rows] == [(0.0, 1), (0.5, 1), (1.0, 1)]
    assert {r["share_rate"] for r in rows} == {0.333}


def test_group_spread_finds_groups_with_signal(filled: Filled) -> None:
    (row,) = answer(filled[0], "group_spread")
    assert (row["num_groups"], row["num_with_signal"], row["signal_rate"], row["mean_spread"]) == (1, 1, 1.0, 0.408)
    assert (row["num_all_right"], row["num_all_wrong"], row["num_too_few_valid"]) == (0, 0, 0)


def test_baseline_purity_is_empty_until_an_invalid_rollout_voted(filled: Filled) -> None:
    catalog, store, ids = filled
    assert answer(catalog, "baseline_purity") == []
    trajectory = next(v for v in fill_group() if v.trajectory.id == ids[0]).trajectory
    row = reward_rows([a_verified(trajectory, an_invalid())])[0] | {"verifier_version": "2"}
    store.commit("rewards", [row], key="re-verified", run_id="r")
    catalog.refresh()
    (found,) = answer(catalog, "baseline_purity")
    assert (found["trajectory_id"], found["valid"], found["cause"]) == (ids[0], False, "sandbox")


def test_token_throughput_divides_tokens_by_sampling_seconds(filled: Filled) -> None:
    (row,) = answer(filled[0], "token_throughput")
    assert (row["num_rollouts"], row["num_tokens"], row["sample_s"], row["tokens_per_s"]) == (4, 10, 0.4, 25.0)


def fill_group() -> list[Any]:
    from tests.storage.samples import a_group

    return list(a_group())


def test_catalogue_counts_proven_and_quarantined_tasks(filled: Filled) -> None:
    (row,) = answer(filled[0], "catalogue")
    assert {name: row[name] for name in ("domain", "kind", "num_tasks", "num_trusted", "num_quarantined")} == {
        "domain": "toy",
        "kind": "answer",
        "num_tasks": 2,
        "num_trusted": 1,
        "num_quarantined": 1,
    }
