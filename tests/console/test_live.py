"""The live screen says what the events said, in plain words, and nothing a terminal would act on."""

from hypothesis import given
from hypothesis import strategies as st

from assay.progress import Event, emit
from console.live import PlainLines, shown
from console.picture import LINES, Picture


def picture_of(*events: Event, title: str = "post_train smoke") -> Picture:
    picture = Picture(title, begin_s=0.0)
    for event in events:
        picture.apply(event)
    return picture


def test_each_stage_has_one_line_in_the_order_of_the_pipeline() -> None:
    picture = picture_of(
        Event("run", {"run_id": "r_1", "name": "smoke #3", "policy_name": "v0"}),
        Event("inspect", {"done": 24, "total": 24, "trusted": 21, "quarantined": 3, "reasons": {"oracle_accepted": 3}}),
        Event("solvability", {"done": 20, "total": 20, "trainable": 12, "saturated": 3, "too_hard": 5}),
        Event("rollout", {"iteration": 2, "done": 192, "total": 320, "failed": {"sandbox": 6}, "running": 12}),
        Event(
            "verify", {"iteration": 2, "done": 64, "total": 64, "valid": 58, "passed": 20, "invalid": {"sandbox": 6}}
        ),
        Event("gate", {"ok": True, "detail": "11 expectations"}),
        Event("evaluate", {"policy_name": "v0", "domain": "d", "pass_rate": 0.25, "low": 0.18, "high": 0.33}),
        at_134(),
    )
    assert picture.lines(134.0) == [
        "smoke #3  policy v1" + " " * 43 + "2:14",
        "inspect   24 tasks  21 trusted  3 quarantined (oracle_accepted 3)",
        "solvable  20 tasks  12 trainable  3 saturated  5 too hard",
        "rollout   #2  192/320  failed 6 (sandbox 6)  running 12",
        "verify    #2  64  valid 58  passed 20  invalid 6 (sandbox 6)",
        "gate      passed  11 expectations",
        "train     step 3/8  reward 0.31  groups with signal 71%  loss 0.02",
        "held-out  d  v0 0.25 [0.18, 0.33]",
    ]


def at_134() -> Event:
    figures = {"reward_mean": 0.31, "groups_with_signal_rate": 0.71, "loss": 0.02}
    return Event("train", {"iteration": 3, "iterations": 8, "kind": "grpo", "policy_name": "v1", **figures}, 134.0)


def test_the_last_trajectory_comes_with_the_command_that_shows_it() -> None:
    last = {"trajectory_id": "t_8f2c", "task_id": "record_extraction/train/017", "reward": 0.67, "note": "total wrong"}
    lines = picture_of(Event("verify", {"done": 1, "total": 1, "last": last})).lines(1.0)
    assert lines[-1] == "last      record_extraction/train/017  0.67  total wrong   assay show t_8f2c"


def test_reasons_told_task_by_task_are_counted_by_probe() -> None:
    told = [("quarantined", ("noop_rejected: scored 1.0",)), ("trusted", ()), ("quarantined", ("noop_rejected: x",))]
    events = [
        Event("inspect", {"done": i, "total": 3, "trusted": 1, "quarantined": 2, "state": state, "reasons": reasons})
        for i, (state, reasons) in enumerate(told, start=1)
    ]
    assert picture_of(*events).line("inspect") == "inspect   3 tasks  1 trusted  2 quarantined (noop_rejected 2)"


def test_the_link_to_the_run_and_what_is_starting_are_shown() -> None:
    picture = picture_of(Event("run", {"flow_run_url": "http://127.0.0.1:4200/runs/flow-run/1"}))
    picture.apply(Event("run", {"policy_name": "v1"}))
    assert picture.lines(0.0)[1] == "prefect   http://127.0.0.1:4200/runs/flow-run/1"
    picture.apply(Event("run", {"message": "starting vLLM"}))
    assert picture.line("run") == "prefect   http://127.0.0.1:4200/runs/flow-run/1  starting vLLM"


def test_an_invalid_last_trajectory_has_no_number() -> None:
    last = {"trajectory_id": "t_1", "task_id": "a/b", "reward": None, "note": "\x1b[31mno\nroom"}
    lines = picture_of(Event("verify", {"last": last})).lines(1.0)
    assert lines[-1] == "last      a/b  invalid  no room   assay show t_1"


def test_the_expected_end_follows_the_pace_of_the_training_steps() -> None:
    picture = Picture("x", begin_s=0.0, expected_s=1000.0)
    picture.apply(Event("train", {"kind": "sft", "iteration": 0, "iterations": 5}, 90.0))
    picture.apply(Event("train", {"kind": "grpo", "iteration": 1, "iterations": 5}, 100.0))
    assert picture.expected_s == 1000.0
    picture.apply(Event("train", {"kind": "grpo", "iteration": 3, "iterations": 5}, 140.0))
    assert picture.expected_s == 180.0


def test_a_step_that_begins_does_not_show_the_figures_of_the_one_before() -> None:
    begins = {"kind": "grpo", "iteration": 4, "iterations": 8, "policy_name": "v2", "state": "updating"}
    picture = picture_of(at_134(), Event("train", begins, 140.0))
    assert picture.line("train") == "train     step 4/8  updating"
    picture.apply(Event("train", {**begins, "state": None, "reward_mean": 0.5}, 150.0))
    assert picture.line("train").startswith("train     step 4/8  reward 0.31 -> 0.50")


def test_the_plain_line_of_an_evaluation_is_of_the_domain_it_tells() -> None:
    told = [
        Event("evaluate", {"domain": domain, "policy_name": name, "pass_rate": rate})
        for name, rate in (("v0", 0.25), ("v1", 0.5))
        for domain in ("one", "two")
    ]
    said: list[str] = []
    plain = PlainLines(Picture("x", begin_s=0.0), said.append)
    for event in told:
        plain(event)
    assert [line.split("  ", 2)[-1] for line in said] == [
        "one  v0 0.25",
        "two  v0 0.25",
        "one  v0 0.25 -> v1 0.50",
        "two  v0 0.25 -> v1 0.50",
    ]


def test_counts_of_one_pass_do_not_leak_into_the_next() -> None:
    picture = picture_of(
        Event("rollout", {"purpose": "train", "done": 1, "total": 2, "failed": 0, "cause": None}),
        Event("rollout", {"purpose": "train", "done": 2, "total": 2, "failed": 1, "cause": "sandbox"}),
    )
    assert picture.line("rollout") == "rollout   train  2  failed 1 (sandbox 1)"
    picture.apply(Event("rollout", {"purpose": "evaluation", "done": 3, "total": 8, "cause": None}))
    assert picture.line("rollout") == "rollout   evaluation  3/8"
    picture.apply(Event("rollout", {"purpose": "evaluation", "done": 4, "total": 8, "cause": "engine"}))
    picture.apply(Event("rollout", {"purpose": "evaluation", "done": 1, "total": 8, "cause": None}))
    assert picture.line("rollout") == "rollout   evaluation  1/8"


def test_causes_and_domains_told_one_by_one_are_counted() -> None:
    causes = [None, "sandbox", "engine", "sandbox"]
    verify = [
        Event("verify", {"done": i, "total": 9, "valid": 1, "cause": cause, "trajectory_id": f"t_{i}", "domain": "d"})
        for i, cause in enumerate(causes, start=1)
    ]
    bands = [
        Event("solvability", {"domain": d, "done": 6, "total": 6, "trainable": 4, "unknown": 1, "too_hard": 1})
        for d in ("a", "b")
    ]
    picture = picture_of(*verify, *bands)
    assert picture.line("verify") == "verify    4/9  valid 1  invalid 3 (sandbox 2, engine 1)"
    assert picture.line("solvability") == "solvable  12 tasks  8 trainable  2 too hard  2 unknown"
    assert picture.lines(0.0)[-1] == "last      d  invalid   assay show t_4"


def test_the_gate_says_what_is_broken() -> None:
    gate = {"num_rules": 38, "num_broken": 1, "broken": ("reward: 3 rows are above 1",)}
    assert picture_of(Event("gate", gate)).line("gate") == "gate      BLOCKED  38 rules  reward: 3 rows are above 1"
    gate = {"num_rules": 38, "num_broken": 0, "broken": ()}
    assert picture_of(Event("gate", gate)).line("gate") == "gate      passed  38 rules"


def test_held_out_shows_the_start_the_warm_start_and_the_newest() -> None:
    rates = [(f"v{i}", i / 10) for i in range(6)]
    events = [Event("evaluate", {"policy_name": n, "domain": "d", "pass_rate": r}) for n, r in rates]
    assert picture_of(*events).lines(0.0)[-1] == "held-out  d  v0 0.00 -> v1 0.10 -> v5 0.50"


VALUES = st.one_of(st.none(), st.integers(0, 9), st.floats(0, 1), st.text(max_size=5))


@given(st.sampled_from(["inspect", "solvability", "rollout", "verify", "run", "novel"]), st.text(), VALUES)
def test_unknown_stages_and_keys_are_ignored(stage: str, key: str, value: object) -> None:
    known = {"failed", "invalid", "reasons", "last"}
    picture = picture_of(Event(stage, {key: value} if key not in known else {}))
    assert all("\n" not in line and "\x1b" not in line for line in picture.lines(1.0))
    assert set(LINES) == {"run", "inspect", "solvability", "rollout", "verify", "gate", "train"}


def test_plain_lines_come_when_a_stage_is_complete_and_otherwise_seldom() -> None:
    said: list[str] = []
    plain = PlainLines(Picture("x", begin_s=0.0), said.append)
    for done in range(1, 11):
        plain(Event("rollout", {"iteration": 1, "done": done, "total": 10}, at_s=float(done)))
    assert said == ["  0:01  rollout   #1  1/10", "  0:06  rollout   #1  6/10", "  0:10  rollout   #1  10"]


def test_without_a_terminal_the_lines_go_to_stderr(capsys: object) -> None:
    picture = Picture("x", begin_s=0.0)
    with shown(picture):
        emit("inspect", done=2, total=2, trusted=2)
    emit("inspect", done=3, total=3)
    captured = capsys.readouterr()  # type: ignore[attr-defined]
    assert "inspect   2 tasks  2 trusted" in captured.err
    assert captured.out == ""
    assert picture.newest["inspect"]["done"] == 2
