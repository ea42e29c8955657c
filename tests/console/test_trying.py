"""`assay try`: a person as the agent, from a pipe; siblings of a policy; and `assay domains`, `--watch`."""

import io
import json
from pathlib import Path

import pytest

from assay.errors import ConfigurationError
from console import domains as catalogue
from console.siblings import Rolling, by_policy
from console.trying import by_hand, find_task
from console.watching import stamps

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.settings import settings

    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    settings.cache_clear()


def play(monkeypatch: pytest.MonkeyPatch, capsys: Capsys, task: str, typed: str) -> tuple[int, dict[str, object], str]:
    """Exit code, the verdict as JSON, and what was said."""
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    code = by_hand(task, seed=0, sandbox="bubblewrap", as_json=True)
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def test_the_right_answer_by_hand_passes_and_the_prompt_was_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    _, task = find_task("record_extraction/heldout/1", 0)
    code, verdict, said = play(monkeypatch, capsys, task.id, json.dumps(task.hidden["record"]) + "\n.\n")
    assert (code, verdict["passed"], verdict["reward"]) == (0, True, 1.0)
    assert task.prompt[-1].content in said


def test_saying_nothing_is_graded_with_its_terms(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    code, verdict, _ = play(monkeypatch, capsys, "record_extraction/2", "")
    assert (code, verdict["passed"], verdict["invalid"]) == (1, False, None)
    assert [term["name"] for term in verdict["terms"]] == ["keys", "fields"]  # type: ignore[attr-defined]


def test_a_wrong_first_attempt_shows_what_failed_and_the_second_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    domain, task = find_task("code_repair/0", 0)
    known = domain.solutions(task)
    code, verdict, said = play(monkeypatch, capsys, "code_repair/0", f"{known.noop[0]}\n.\n{known.oracle[0]}\n.\n")
    assert (code, verdict["passed"]) == (0, True)
    assert "Correct the function." in said


@pytest.mark.parametrize("wanted", ["record_extraction", "record_extraction/train", "nowhere/3", ""])
def test_what_names_no_task_is_told_how_tasks_are_named(wanted: str) -> None:
    with pytest.raises(ConfigurationError, match="record_extraction"):
        find_task(wanted, 0)


def test_siblings_of_a_policy_come_with_a_pass_rate_and_a_band(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    how = Rolling(num=4, temperature=1.0, engine="scripted", sandbox="bubblewrap")
    code = by_policy("record_extraction/1", "anything", how, seed=0, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert code == 1
    assert [each["reward"] for each in told["siblings"]] == [0.0] * 4
    assert (told["num_valid"], told["num_passed"], told["band"]) == (4, 0, "too_hard")
    assert told["agreed"] == "I do not know."


def test_the_catalogue_lists_every_domain_with_its_state(capsys: Capsys) -> None:
    assert catalogue.every(as_json=True) == 0
    listed = {view["domain"]: view for view in json.loads(capsys.readouterr().out)}
    assert listed["record_extraction"]["state"] == "not inspected"
    assert listed["record_extraction"]["num_train"] is None
    assert listed["code_repair"]["kind"] == "code"


def test_one_domain_is_shown_in_full_and_an_unknown_one_exits_with_its_fault(capsys: Capsys) -> None:
    assert catalogue.one("code_repair", as_json=False) == 0
    assert "Finds and corrects a fault" in capsys.readouterr().out
    assert catalogue.one("nowhere", as_json=True) == 1
    assert "nowhere" in json.loads(capsys.readouterr().out)["fault"]


def test_watching_sees_a_saved_file(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text("a")
    before = stamps([str(tmp_path)])
    (tmp_path / "more.sh").write_text("b")
    assert set(stamps([str(tmp_path)])) - set(before) == {tmp_path / "more.sh"}
    assert stamps(["record_extraction"]) == stamps(["record_extraction"])
