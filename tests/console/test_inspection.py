"""`assay inspect` shows the ladder, catches the planted defects and says what was tried."""

import json

import pytest

from console.inspection import fault_lines, inspect, ladder_table, wrong
from console.runs import Row

Capsys = pytest.CaptureFixture[str]


def task(task_id: str, state: str, *probes: tuple[str, str]) -> Row:
    evidence = [{"probe": p, "finding": f, "summary": "s", "tried": {"input": "x"}, "wall_s": 0.1} for p, f in probes]
    return {
        "task_id": task_id,
        "domain": "d",
        "task_hash": "h",
        "planted": "defect" in task_id,
        "state": state,
        "reasons": [] if state == "trusted" else ["noop_rejected: it scored 1.0"],
        "evidence": evidence,
    }


SOUND = task("d/train/0", "trusted", ("oracle_accepted", "clear"), ("noop_rejected", "clear"))
CAUGHT = task("d/defect/0", "quarantined", ("oracle_accepted", "found"))
MISSED = task("d/defect/1", "trusted", ("oracle_accepted", "clear"), ("noop_rejected", "clear"))
BROKEN = task("d/train/1", "quarantined", ("oracle_accepted", "clear"), ("noop_rejected", "found"))
UNPROVEN = task("d/train/2", "draft", ("oracle_accepted", "clear"), ("noop_rejected", "unknown"))


def test_a_task_needs_somebody_unless_it_is_sound_or_a_planted_defect_that_was_caught() -> None:
    assert [wrong(each) for each in (SOUND, CAUGHT, MISSED, BROKEN, UNPROVEN)] == [False, False, True, True, True]


def test_the_ladder_is_a_table_with_a_column_per_probe() -> None:
    assert ladder_table([SOUND, CAUGHT, BROKEN]).splitlines() == [
        "task        oracle_accepted  noop_rejected  state",
        "----------  ---------------  -------------  -----------  -------",
        "d/train/0   ok               ok             trusted",
        "d/defect/0  DEFECT           -              quarantined  planted",
        "d/train/1   ok               DEFECT         quarantined",
    ]


def test_faults_come_with_what_was_found_and_tried() -> None:
    lines = fault_lines([SOUND, CAUGHT, BROKEN])
    assert "d/train/1: noop_rejected: it scored 1.0" in lines
    assert "  tried: {'input': 'x'}" in lines
    assert lines[-1] == "3 tasks, 1 planted defects caught, 1 tasks need somebody to act"


def test_a_real_domain_is_proven_and_its_planted_defects_are_caught(capsys: Capsys) -> None:
    code = inspect(["record_extraction"], num=2, seed=0, sandbox="bubblewrap", as_json=True)
    captured = capsys.readouterr()
    views = json.loads(captured.out)
    assert [each["state"] for each in views if not each["planted"]] == ["trusted"] * 4, views
    assert {each["state"] for each in views if each["planted"]} == {"quarantined"}
    assert all(each["reasons"] for each in views if each["planted"])
    assert code == 0
    assert captured.err.startswith("inspecting ")
