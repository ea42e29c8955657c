"""The rubric: what a verdict is worth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.rubric import score

UNIT = st.floats(0, 1)
PROCESS = st.dictionaries(st.sampled_from(["steps", "valid_actions", "recovery", "artifacts"]), UNIT, max_size=4)


def test_a_tidy_solution_is_worth_exactly_one() -> None:
    process = {"steps": 1.0, "valid_actions": 1.0, "recovery": 1.0}
    assert score(1.0, process, passed=True, judged="out_of_process").reward == 1.0


def test_outcome_and_process_share_seven_to_three() -> None:
    verdict = score(1.0, {"steps": 0.5, "valid_actions": 1.0}, passed=True, judged="out_of_process")
    assert verdict.reward == pytest.approx(0.7 + 0.3 * 0.75)
    assert sum(term.weight for term in verdict.terms) == pytest.approx(1.0)


def test_process_is_kept_on_record_but_not_paid_without_a_solution() -> None:
    verdict = score(0.5, {"steps": 0.25}, passed=False, judged="out_of_process")
    assert verdict.reward == pytest.approx(0.35)
    assert verdict.terms[0].value == 0.0
    assert "0.25" in verdict.terms[0].note


def test_without_process_terms_the_outcome_carries_everything() -> None:
    assert score(0.4, {}, passed=False, judged="out_of_process").reward == pytest.approx(0.4)
    assert score(1.0, {}, passed=True, judged="out_of_process").reward == 1.0


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf")])
def test_values_outside_the_unit_range_are_errors_that_name_them(bad: float) -> None:
    with pytest.raises(ValueError, match="outcome"):
        score(bad, {}, passed=False, judged="out_of_process")
    with pytest.raises(ValueError, match="steps"):
        score(0.5, {"steps": bad}, passed=False, judged="out_of_process")


@given(UNIT, PROCESS, UNIT, PROCESS)
def test_no_failure_ever_beats_or_equals_a_solution(
    failed: float, its_process: dict[str, float], solved: float, other_process: dict[str, float]
) -> None:
    loser = score(failed, its_process, passed=False, judged="out_of_process")
    winner = score(solved, other_process, passed=True, judged="out_of_process")
    assert loser.reward is not None
    assert winner.reward is not None
    if its_process and other_process:
        assert loser.reward < 0.7 <= winner.reward + 1e-9
    assert loser.reward < winner.reward or (not its_process and other_process)


@given(PROCESS)
def test_process_alone_is_worth_nothing(process: dict[str, float]) -> None:
    assert score(0.0, process, passed=False, judged="out_of_process").reward == 0.0
