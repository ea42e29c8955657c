"""The gate passes sound data, names what is wrong with unsound data, and never passes when it could not look."""

import math
from typing import Any

import polars as pl
import pytest

from assay.errors import ConfigurationError, DataGateError
from assay.progress import Event, listening
from quality.data_rules import Checked, Rule, reward_checks, trajectory_checks, turn_checks
from quality.expectations import GateBroken, evaluate, gate
from storage.tables import TABLES

Frames = dict[str, pl.DataFrame]


def a_row(table: str, **values: Any) -> dict[str, Any]:
    blank = {pl.String(): "", pl.Int64(): 0, pl.Float64(): 0.0, pl.Boolean(): True}
    return {name: blank.get(type_) for name, type_ in TABLES[table].schema.items()} | values


def frames() -> Frames:
    """Four trajectories of two turns of two tokens: passed, failed to solve, invalid, and failed without a turn."""
    rows = [("t0", 1.0, None), ("t1", 0.0, None), ("t2", None, "verifier"), ("t3", None, "sandbox")]
    trajectories = [
        a_row(
            "trajectories",
            trajectory_id=name,
            task_hash="h",
            first_policy="p",
            last_policy="p",
            num_turns=0 if name == "t3" else 2,
            num_tokens=0 if name == "t3" else 4,
            end_reason="failed" if name == "t3" else "done",
            failure_cause="sandbox" if name == "t3" else None,
            failure_detail=None,
        )
        for name, _, _ in rows
    ]
    rewards = [
        a_row("rewards", trajectory_id=n, valid=cause is None, reward=reward, passed=reward == 1.0, cause=cause)
        for n, reward, cause in rows
    ]
    turns = [
        a_row(
            "turns",
            trajectory_id=name,
            turn_index=index,
            prompt_ids=[1],
            completion_ids=[2, 3],
            logprobs=[-0.5, 0.0],
            policy_version="p",
        )
        for name in ("t0", "t1", "t2")
        for index in (0, 1)
    ]
    made = {"trajectories": trajectories, "rewards": rewards, "turns": turns}
    return {name: pl.DataFrame(made[name], schema=TABLES[name].schema) for name in made}


def checked(data: Frames, **options: Any) -> list[str]:
    options = dict[str, Any](policies={"p"}, trusted={"h"}, max_invalid_rate=0.5) | options
    return gate(data["trajectories"], data["rewards"], data["turns"], **options)


def spoiled(table: str, row: int, **values: Any) -> Frames:
    """Sound data with one row changed."""
    data = frames()
    rows = data[table].to_dicts()
    rows[row] |= values
    return data | {table: pl.DataFrame(rows, schema=TABLES[table].schema)}


def test_sound_data_pass_with_a_sentence_per_rule() -> None:
    held = checked(frames())
    assert "rewards: every reward lies in 0..1" in held
    assert "turns: no log-probability is above 0" in held
    assert "rewards: at most 50% of the trajectories are invalid" in held
    assert len(held) > 30


@pytest.mark.parametrize(
    ("table", "row", "values", "told"),
    [
        ("trajectories", 0, {"trajectory_id": "t1"}, "no trajectory is there twice: 2 rows, such as t1 (t1)"),
        ("trajectories", 0, {"task_hash": "x"}, "every task has a trusted certificate: 1 rows, such as t0 (x)"),
        ("trajectories", 0, {"task_hash": None}, "no needed value is null: 1 rows, such as t0 (task_hash)"),
        ("trajectories", 0, {"first_policy": "q"}, "every first turn is of an expected policy: 1 rows, such as t0 (q)"),
        ("trajectories", 0, {"last_policy": "q"}, "every last turn is of an expected policy"),
        ("trajectories", 0, {"end_reason": "bored"}, "every end is a known one: 1 rows, such as t0 (bored)"),
        ("trajectories", 3, {"failure_cause": "mood"}, "every cause of failure is a known one"),
        ("trajectories", 3, {"failure_cause": None}, "a cause of failure is set exactly on failed trajectories"),
        ("trajectories", 0, {"num_turns": 0}, "every trajectory that did not fail has a turn"),
        ("trajectories", 0, {"num_turns": 3}, "every trajectory has all its turns"),
        ("trajectories", 0, {"num_tokens": 5}, "every trajectory has all its tokens"),
        ("trajectories", 0, {"trajectory_id": "t9"}, "every trajectory has a reward row: 1 rows, such as t9 (False)"),
        ("trajectories", 0, {"wall_s": -1.0}, "times are not negative"),
        ("trajectories", 0, {"end_reason": "failed", "failure_cause": "engine"}, "no failed trajectory has a reward"),
        ("rewards", 0, {"trajectory_id": "t1"}, "no reward is there twice"),
        ("rewards", 0, {"trajectory_id": "t9"}, "every reward's trajectory exists: 1 rows, such as t9 (False)"),
        ("rewards", 0, {"reward": 1.5}, "every reward lies in 0..1: 1 rows, such as t0 (1.5)"),
        ("rewards", 0, {"reward": math.nan}, "every reward is a finite number"),
        ("rewards", 0, {"reward": None}, "a reward is null exactly on invalid trajectories"),
        ("rewards", 2, {"reward": 0.0}, "a reward is null exactly on invalid trajectories"),
        ("rewards", 2, {"cause": "mood"}, "every cause is a known one"),
        ("rewards", 2, {"cause": None}, "a cause is set exactly on invalid trajectories"),
        ("rewards", 2, {"passed": True}, "only valid trajectories pass"),
        (
            "rewards",
            0,
            {"passed": None, "verify_s": None},
            "no needed value is null: 1 rows, such as t0 (passed verify_s)",
        ),
        ("turns", 0, {"logprobs": None}, "every log-probability is a finite number"),
        ("rewards", 0, {"valid": None}, "a reward is null exactly on invalid trajectories"),
        ("turns", 0, {"turn_index": 1}, "no turn is there twice: 2 rows, such as t0#1 (t0#1)"),
        ("turns", 0, {"trajectory_id": "t9"}, "every turn's trajectory exists"),
        ("turns", 0, {"policy_version": "q"}, "every turn is of an expected policy"),
        ("turns", 0, {"prompt_ids": []}, "every prompt has a token"),
        ("turns", 0, {"completion_ids": [], "logprobs": []}, "every completion has a token"),
        ("turns", 0, {"logprobs": [-0.5]}, "every sampled token has a log-probability"),
        ("turns", 0, {"logprobs": [-0.5, math.nan]}, "every log-probability is a finite number"),
        ("turns", 0, {"logprobs": [-0.5, -math.inf]}, "every log-probability is a finite number"),
        ("turns", 0, {"logprobs": [-0.5, None]}, "every log-probability is a finite number"),
        ("turns", 0, {"logprobs": [-0.5, 0.1]}, "no log-probability is above 0: 1 rows, such as t0#0 (0.1"),
    ],
)
def test_every_rule_names_the_rows_that_break_it(table: str, row: int, values: dict[str, Any], told: str) -> None:
    data = spoiled(table, row, **values)
    trajectories, rewards, turns = data["trajectories"], data["rewards"], data["turns"]
    checks = [
        trajectory_checks(trajectories, rewards, turns, policies={"p"}, trusted={"h"}),
        reward_checks(rewards, trajectories, max_invalid_rate=0.5),
        turn_checks(turns, trajectories, policies={"p"}),
    ]
    # The table's own check first: some sentences are in several.
    checks.sort(key=lambda check: check.name != table)
    check = next(c for c in checks if any(told.startswith(rule.sentence) for rule in c.rules))
    assert any(reason.startswith(f"not true that {told}") for _, reason in evaluate(check))


def test_broken_rules_close_the_gate_and_are_told_together() -> None:
    with pytest.raises(DataGateError) as error:
        checked(spoiled("rewards", 0, reward=1.5, cause="mood"))
    assert not isinstance(error.value, GateBroken)
    assert "rewards: not true that every reward lies in 0..1: 1 rows, such as t0 (1.5)" in str(error.value)
    assert "rewards: not true that every cause is a known one: 1 rows, such as t0 (mood)" in str(error.value)
    assert "rules are broken" in str(error.value)


def test_too_many_invalid_trajectories_close_the_gate() -> None:
    with pytest.raises(DataGateError, match=r"at most 40% of the trajectories are invalid: it is 0\.5"):
        checked(frames(), max_invalid_rate=0.4)


def test_no_trajectories_at_all_close_the_gate() -> None:
    empty = {name: frame.clear() for name, frame in frames().items()}
    with pytest.raises(DataGateError, match=r"there is a trajectory: it is 0"):
        checked(empty)


def test_rounding_above_zero_is_forgiven() -> None:
    assert checked(spoiled("turns", 0, logprobs=[-0.5, 1e-6]))


def test_a_lost_turn_is_noticed() -> None:
    data = frames()
    with pytest.raises(DataGateError, match="every trajectory has all its turns: 1 rows, such as t0"):
        checked(data | {"turns": data["turns"][1:]})


def test_an_expectation_that_raises_is_an_error_of_the_gate_and_not_of_the_data() -> None:
    rule = Rule(
        sentence="x is 1", expectation="ExpectColumnValuesToBeInSet", arguments={"column": "x", "value_set": [1]}
    )
    check = Checked(name="things", facts=pl.DataFrame({"y": [1]}), row_id="y", rules=[rule])
    with pytest.raises(GateBroken, match=r"things: 'x is 1' could not be evaluated: .*x"):
        evaluate(check)


def test_frames_without_the_columns_are_refused_by_name() -> None:
    data = frames()
    with pytest.raises(DataGateError, match="The rewards lack the columns valid, cause"):
        checked(data | {"rewards": data["rewards"].drop("valid", "cause")})


def test_an_impossible_limit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"max_invalid_rate is 1\.5"):
        checked(frames(), max_invalid_rate=1.5)


def test_the_gate_tells_what_it_did() -> None:
    events: list[Event] = []
    with listening(events.append), pytest.raises(DataGateError):
        checked(spoiled("rewards", 0, reward=1.5))
    assert (events[-1].stage, events[-1].data["num_broken"]) == ("gate", 1)
    assert "every reward lies in 0..1" in events[-1].data["broken"][0]
