"""The summary's figures are those of the lake, counted by hand, and its books balance."""

from pathlib import Path

import pytest

from assay.errors import ConfigurationError
from console.ending import next_lines, summary_lines
from console.output import clean
from console.runs import all_runs
from console.summary import QUERIES, summarise
from storage.catalog import Catalog
from storage.store import Store
from tests.console.lake import POLICIES, RUN, make_lake


def test_held_out_rates_are_told_before_after_the_warm_start_and_after_training(catalog: Catalog) -> None:
    repair, extraction = summarise(catalog, RUN).held_out
    rates = [rate for rate in (repair.before, repair.warm_start, repair.after) if rate]
    assert [(rate.policy_name, rate.num_passed) for rate in rates] == [("v0", 0), ("v1", 2), ("v3", 5)]
    assert extraction.difference is not None
    by, low, high = extraction.difference
    assert by == pytest.approx(5 / 8)
    assert 0 < low < by < high <= 1


def test_each_stage_s_books_balance(catalog: Catalog) -> None:
    counts = {count.stage: count for count in summarise(catalog).counts}
    assert {stage: (c.num_in, c.num_kept, dict(c.dropped)) for stage, c in counts.items()} == {
        "inspect": (32, 28, {"oracle_accepted": 3, "noop_rejected": 1}),
        "solvability": (12, 8, {"too_hard": 2, "saturated": 2}),
        "rollout": (112, 108, {"sandbox": 2, "engine": 2}),
        "train": (48, 28, {"no_signal": 16, "invalid": 4}),
    }
    assert all(c.num_in == c.num_kept + sum(c.dropped.values()) for c in counts.values())


def test_defects_come_with_evidence_and_planted_ones_are_told_apart(catalog: Catalog) -> None:
    summary = summarise(catalog)
    assert [(d.task_id, d.probe, d.planted) for d in summary.defects] == [
        ("record_extraction/train/005", "noop_rejected", False),
        ("code_repair/defect/000", "oracle_accepted", True),
        ("record_extraction/defect/000", "oracle_accepted", True),
        ("record_extraction/defect/001", "oracle_accepted", True),
    ]
    assert all(defect.evidence.startswith("scored 0.4") for defect in summary.defects)
    assert summary.planted_missed == ("code_repair/defect/001",)


def test_invalid_trajectories_are_counted_by_cause_and_none_is_in_a_baseline(catalog: Catalog) -> None:
    summary = summarise(catalog)
    assert summary.failures == {"engine": 2, "sandbox": 2}
    assert summary.failures_in_baseline == 0


def test_an_invalid_trajectory_in_a_baseline_would_be_seen(tmp_path: Path) -> None:
    store = make_lake(str(tmp_path))
    broken = Catalog(store).sql("FROM batches WHERE drop_reason = 'invalid' LIMIT 1").pl().to_dicts()[0]
    row = broken | {"batch_id": "b_impure", "in_baseline": True}
    store.commit("batches", [row], key="impure", run_id=RUN)
    assert summarise(Catalog(store)).failures_in_baseline == 1


def test_times_are_sums_per_stage_and_the_total_is_the_run_s(catalog: Catalog) -> None:
    summary = summarise(catalog)
    assert summary.seconds == {"rollout": 55.0, "train": 35.0, "inspect": 5.0}
    assert summary.total_s == 100.0


def test_the_end_fits_on_a_screen_and_every_line_is_harmless(catalog: Catalog) -> None:
    summary = summarise(catalog, store="/store", report="/report.html")
    lines = summary_lines(summary)
    assert len(lines) <= 18
    assert all(clean(line) == line and "\n" not in line for line in lines)
    assert lines[0] == f"smoke #3  finished after 1:40  policy v3  run {RUN}"
    assert "invalid     4 trajectories (engine 2, sandbox 2), 0 in any baseline" in lines
    assert any(line.startswith("MISSED") for line in lines)


def test_an_unfinished_run_says_where_it_stands(tmp_path: Path) -> None:
    catalog = Catalog(make_lake(str(tmp_path), finished=False))
    summary = summarise(catalog)
    assert (summary.state, summary.stage, summary.number, summary.policy_name) == ("unfinished", "rollout", 3, "v3")
    assert summary_lines(summary)[0].startswith("smoke #3  unfinished at rollout after 1:20")


def test_a_run_is_found_by_prefix_and_an_unknown_one_is_an_error(catalog: Catalog) -> None:
    assert summarise(catalog, RUN[:6]).run_id == RUN
    with pytest.raises(ConfigurationError, match="no run 'r_ff'"):
        summarise(catalog, "r_ff")
    assert [run["run_id"] for run in all_runs(catalog)] == [RUN]


def test_an_empty_store_says_how_to_start_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="`assay run` starts one"):
        summarise(Catalog(Store.open(str(tmp_path))))


def test_the_suggested_queries_run(catalog: Catalog) -> None:
    for _, sql in QUERIES:
        assert not catalog.sql(sql).pl().is_empty()
    assert sum(line.startswith("  assay ") for line in next_lines(summarise(catalog))) == 6


def test_the_newest_policy_of_each_kind_is_the_one_that_is_compared(catalog: Catalog) -> None:
    for held_out in summarise(catalog).held_out:
        assert held_out.after
        assert held_out.after.policy_id == POLICIES["v3"]
