"""The whole chain on a real Prefect server: a model learns, every row is there, faults and kills lose nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.settings import settings
from flows.post_train import post_train
from storage.store import Store
from tests.flows.conftest import ROOT, SORT, rows, sort_config, write_config

# Steep enough for the tiny model to learn in seconds. That GRPO by itself lifts the pass rate: tests/training.
TRAINER = {
    "id": "embedded",
    "options": {"sft_learning_rate": 1e-3, "sft_epochs": 12, "learning_rate": 3e-4},
}

pytestmark = pytest.mark.usefixtures("prefect_server")


async def test_a_run_makes_the_policy_better_and_every_reward_traceable(tiny_model: str) -> None:
    config = sort_config(tiny_model, iterations=3, evaluate_every=3, trainer=TRAINER)

    run_id = await post_train(config)

    rates = {row["policy_kind"]: row["mean_reward"] for row in rows("FROM evaluations ORDER BY iteration")}
    assert rates["base"] < 0.1
    assert rates["sft"] > rates["base"] + 0.2
    assert rates["grpo"] > rates["base"] + 0.4
    assert rows("SELECT task_id, state FROM certificates WHERE state <> 'trusted'") == [
        {"task_id": "sort_letters/train/defect-wrong-gold", "state": "quarantined"}
    ]
    assert rows("FROM trajectories WHERE task_id LIKE '%defect%'") == []
    # Every trained sample leads to a verdict, and from there to the evidence its task was proven with.
    unproven = rows(
        "SELECT b.trajectory_id FROM batches b JOIN trajectories t USING (trajectory_id) "
        "LEFT JOIN certificates c ON c.task_hash = t.task_hash AND c.state = 'trusted' "
        "WHERE b.used AND (c.certificate_id IS NULL OR len(c.evidence_ids) = 0 OR NOT t.valid)"
    )
    assert unproven == []
    # 24 groups of 64 tasks: none needs to come twice.
    again = rows(
        "SELECT t.task_id FROM batches b JOIN trajectories t USING (trajectory_id) WHERE b.kind = 'grpo' "
        "GROUP BY t.task_id HAVING count(DISTINCT b.iteration) > 1"
    )
    assert again == []
    assert rows("SELECT count(DISTINCT group_id) AS n FROM batches WHERE kind = 'grpo'")[0]["n"] == 24
    versions = rows(f"SELECT name, kind FROM policies WHERE run_id = '{run_id}' ORDER BY num_updates")
    assert [v["name"] for v in versions] == [f"v{i}" for i in range(len(versions))]
    assert rows("FROM runs WHERE event = 'finished'")[0]["run_id"] == run_id


async def test_a_finished_config_starts_its_next_run_and_an_unfinished_one_goes_on(tiny_model: str) -> None:
    config = sort_config(tiny_model, iterations=1, evaluate_every=1)

    first = await post_train(config)
    second = await post_train(config)

    assert first != second
    starts = rows(
        "SELECT run_id, attempt FROM runs WHERE stage = 'run' AND event IN ('started', 'resumed') ORDER BY ended_at"
    )
    assert starts == [{"run_id": first, "attempt": 1}, {"run_id": second, "attempt": 1}]


async def test_sandbox_failures_are_counted_by_cause_and_never_vote(tiny_model: str) -> None:
    domains = sort_config(tiny_model).model_dump()["domains"]
    domains[SORT]["options"] = {"use_sandbox": True}
    config = sort_config(
        tiny_model,
        domains=domains,
        iterations=1,
        sandbox={"id": "bubblewrap", "options": {"fault_rate": 0.3}},
        rollout={"group_size": 8, "temperature": 1.0, "max_invalid_rate": 0.9},
    )

    await post_train(config)

    causes = rows("SELECT cause, count(*) AS num FROM rewards WHERE NOT valid GROUP BY cause")
    assert [row["cause"] for row in causes] == ["sandbox"]
    assert causes[0]["num"] > 20
    voting = rows("FROM batches JOIN rewards USING (trajectory_id) WHERE NOT valid AND (used OR in_baseline)")
    assert voting == []
    dropped = rows("SELECT count(*) AS num FROM batches WHERE drop_reason = 'invalid' AND kind = 'grpo'")
    assert dropped[0]["num"] > 0


def test_killed_in_the_middle_of_rollouts_a_run_goes_on_without_loss_or_repeat(
    tiny_model: str, prefect_server: str, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "config.yaml", sort_config(tiny_model, iterations=1, evaluate_every=1))
    command = [sys.executable, "-m", "console.cli", "run", "--config", str(config)]
    env = os.environ | {"ASSAY_HOME": str(settings().home_dir), "PREFECT_API_URL": prefect_server}

    first = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    committed = _wait_for_training_rollouts(first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=240, check=False)

    assert second.returncode == 0, second.stderr[-3000:]
    starts = rows("SELECT event, attempt FROM runs WHERE stage = 'run' ORDER BY ended_at")
    assert starts == [
        {"event": "started", "attempt": 1},
        {"event": "resumed", "attempt": 2},
        {"event": "finished", "attempt": 2},
    ]
    store = Store.open(settings().store_uri)
    written = [i for ref in store.refs("trajectories") for i in store.read(ref)["trajectory_id"]]
    assert len(written) == len(set(written))
    assert committed <= set(written)
    num_groups = rows(
        "SELECT count(*) AS n FROM trajectories WHERE purpose IN ('train', 'solvability') GROUP BY group_id"
    )
    assert all(row["n"] in (4, 8) for row in num_groups)


def _wait_for_training_rollouts(process: subprocess.Popen[bytes], timeout_s: float = 180) -> set[str]:
    """Trajectory ids committed at the moment when the first group's rollouts appear."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        assert process.poll() is None, "the run ended before it could be killed"
        frame = Store.open(settings().store_uri).frame("trajectories")
        if (frame["purpose"] == "solvability").any():
            return set(frame["trajectory_id"])
        time.sleep(0.05)
    raise AssertionError("no rollouts appeared")
