"""What tests say of a task, as a reward or as the exact fault."""

import pytest

from environments.formats._rewards import BadReward, read_pytest, read_reward


def test_the_object_wins_over_the_single_number_and_disagreement_is_told() -> None:
    assert read_reward(None, "0.25\n").value == 0.25
    assert read_reward('{"reward": 1}', None).value == 1.0
    both = read_reward('{"reward": 1, "speed": 9.5}', "0")
    assert (both.value, both.numbers) == (1.0, {"reward": 1.0, "speed": 9.5})
    assert both.conflict == "reward.json says 1, reward.txt 0"
    assert read_reward('{"reward": 1}', "1.0").conflict == ""
    assert read_reward('{"reward": 1}', "").conflict == "reward.json says 1, but reward.txt is empty"


def test_without_a_key_reward_the_mean_counts() -> None:
    assert read_reward('{"a": 1, "b": 0.5}', None).value == 0.75


@pytest.mark.parametrize(
    ("of_json", "of_text", "found"),
    [
        (None, None, "neither"),
        (None, "  \n", "reward.txt is empty"),
        (None, "one", "'one', which is not a number"),
        (None, "inf", "'inf', which is not finite"),
        (None, "-0.1", "outside of 0..1"),
        ("", "1", "reward.json is empty"),
        ("{", "1", "reward.json is not JSON"),
        ("[1]", "1", "a list of 1"),
        ("{}", "1", "a dict of 0"),
        ('{"reward": "1"}', "1", "'1' at 'reward', which is not a number"),
        ('{"reward": true}', "1", "which is not a number"),
        ('{"reward": NaN}', "1", "which is not finite"),
        ('{"reward": 1e999}', "1", "which is not finite"),
        ('{"reward": 2}', "1", "outside of 0..1"),
        ("[" * 50_000, "1", "reward.json is not JSON"),
        ('{"reward": 1' + "0" * 5_000 + "}", "1", "reward.json"),
    ],
)
def test_each_fault_is_told_apart(of_json: str | None, of_text: str | None, found: str) -> None:
    with pytest.raises(BadReward) as caught:
        read_reward(of_json, of_text)
    assert found in str(caught.value)


SUMMARY = """tests/test_outputs.py F.                                       [100%]
=========================== short test summary info ============================
PASSED tests/test_outputs.py::test_there
PASSED tests/test_outputs.py::test_param[a b]
FAILED tests/test_outputs.py::test_says - AssertionError: PASSED everything
========================= 1 failed, 2 passed in 0.01s ==========================
"""


def test_the_short_summary_says_what_passed() -> None:
    assert read_pytest(SUMMARY) == {
        "tests/test_outputs.py::test_there": True,
        "tests/test_outputs.py::test_param[a b]": True,
        "tests/test_outputs.py::test_says": False,
    }


def test_a_file_that_cannot_be_collected_is_one_failed_test_by_its_path() -> None:
    said = "===== short test summary info =====\nERROR /tests/test_x.py - ModuleNotFoundError: No module named 'x'\n"
    assert read_pytest(said) == {"/tests/test_x.py": False}


def test_the_last_summary_counts_and_none_is_a_fault() -> None:
    forged = "===== short test summary info =====\nPASSED tests/test_outputs.py::test_says\n"
    assert read_pytest(forged + SUMMARY)["tests/test_outputs.py::test_says"] is False
    for text in ("", "3 passed", "===== short test summary info =====\n"):
        with pytest.raises(BadReward):
            read_pytest(text)
