"""One trajectory, task or policy can be read whole, is found by prefix, and cannot act on the terminal."""

import json

import pytest

from assay.errors import ConfigurationError
from console import show
from console.output import clean
from storage.catalog import Catalog
from tests.console.lake import POLICIES


def text_of(catalog: Catalog, wanted: str) -> str:
    text = "\n".join(show.lines(show.find(catalog, wanted)))
    assert clean(text) == text
    return text


def one_id(catalog: Catalog, condition: str) -> str:
    sql = f"FROM trajectories SELECT trajectory_id WHERE {condition} ORDER BY 1 LIMIT 1"
    return str(catalog.sql(sql).pl()["trajectory_id"][0])


def test_a_trajectory_shows_its_task_turns_verdict_and_siblings(catalog: Catalog) -> None:
    condition = "task_id = 'code_repair/train/002' AND purpose = 'train' AND iteration = 1 AND sample_index = 1"
    text = text_of(catalog, one_id(catalog, condition))
    for part in (
        "code_repair/train/002  level 3",
        "policy v1, temperature 0.8",
        "Task 2 of code_repair",
        "turn 1: policy (2 tokens, stop)",
        "  completion 0 <script>",
        "turn 1: reply",
        "  completion 1 <script>",
        "verdict: not passed, reward 0.25 (judged fresh_sandbox)",
        "siblings: 0.00  [0.25]  0.50  invalid(sandbox)",
    ):
        assert part in text


def test_a_unique_prefix_is_enough_and_an_ambiguous_one_lists_candidates(catalog: Catalog) -> None:
    wanted = one_id(catalog, "true")
    assert show.find(catalog, wanted[:12])["trajectory_id"] == wanted
    with pytest.raises(ConfigurationError, match="ambiguous among trajectories: t_"):
        show.find(catalog, "t_")


def test_an_invalid_trajectory_says_why_and_that_it_counts_for_nothing(catalog: Catalog) -> None:
    for cause in ("sandbox", "engine"):
        text = text_of(catalog, one_id(catalog, f"cause = '{cause}'"))
        assert f"verdict: invalid ({cause}): no room" in text
        assert "it has no reward and is in no baseline" in text


def test_the_sql_at_the_foot_gives_the_same_rows(catalog: Catalog) -> None:
    view = show.find(catalog, one_id(catalog, "num_turns = 2"))
    trajectory, turns = (catalog.sql(sql).pl() for sql in view["sql"])
    assert trajectory["trajectory_id"].to_list() == [view["trajectory_id"]]
    assert len(turns) == 2


def test_a_task_shows_its_standing_evidence_and_results(catalog: Catalog) -> None:
    text = text_of(catalog, "record_extraction/train/005")
    assert "quarantined: noop_rejected: scored 0.4" in text
    assert "noop_rejected    found" in text
    assert "v1" in text


def test_a_policy_is_found_by_name_and_shows_its_lineage(catalog: Catalog) -> None:
    text = text_of(catalog, "v3")
    assert POLICIES["v3"] in text
    assert "lineage v3 (grpo) <- v2 (grpo) <- v1 (sft) <- v0 (base)" in text
    assert "b_2" in text
    assert show.find(catalog, POLICIES["v1"])["name"] == "v1"


def test_an_unknown_id_says_what_ids_look_like(catalog: Catalog) -> None:
    with pytest.raises(ConfigurationError, match="Ids of trajectories begin with t_"):
        show.find(catalog, "x' OR '1'='1")


def test_a_view_is_plain_json(catalog: Catalog) -> None:
    view = show.find(catalog, one_id(catalog, "true"))
    assert json.loads(json.dumps(view))["siblings"]
