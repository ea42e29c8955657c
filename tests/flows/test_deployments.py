"""prefect.yaml: presets and deployments are valid, and a deployment runs through a real process worker."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.flows import Flow, load_flow_from_entrypoint

from assay.config import load_preset, presets
from assay.registry import check_options
from assay.settings import settings
from environments.catalogue import check_domain
from tests.flows.conftest import ROOT, rows, sort_config

DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_a_valid_config_whose_plugins_accept_their_options(name: str) -> None:
    config = load_preset(name)
    for kind in ("engine", "sandbox", "trainer"):
        choice = getattr(config, kind)
        check_options(kind, choice.id, choice.options)
    for domain, wanted in config.domains.items():
        check_domain(domain, wanted.options)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["name"])
def test_every_deployment_names_a_flow_that_accepts_its_parameters(deployment: dict[str, Any]) -> None:
    flow: Flow[Any, Any] = load_flow_from_entrypoint(deployment["entrypoint"])
    assert flow.validate_parameters(deployment["parameters"])


def test_nightly_and_hourly_have_schedules() -> None:
    crons = {d["name"]: d["schedules"][0]["cron"] for d in DEPLOYMENTS if d.get("schedules")}
    assert crons == {"nightly": "0 2 * * *", "hourly": "0 * * * *"}


def test_a_deployment_runs_through_a_process_worker(tiny_model: str, prefect_server: str, tmp_path: Path) -> None:
    env = os.environ | {
        "PREFECT_API_URL": prefect_server,
        "ASSAY_HOME": str(settings().home_dir),
        "PYTHONPATH": str(ROOT),
    }
    prefect = [sys.executable, "-m", "prefect", "--no-prompt"]

    def call(*arguments: str) -> None:
        done = subprocess.run([*prefect, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    call("work-pool", "create", "assay-local", "--type", "process", "--overwrite")
    call("deploy", "--all")
    parameters = {"config": sort_config(tiny_model, iterations=1, evaluate_every=1).model_dump(mode="json")}
    worker = subprocess.Popen(
        [*prefect, "worker", "start", "--pool", "assay-local", "--run-once"],
        cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        state = asyncio.run(_run("post_train/smoke", parameters))
    finally:
        worker.terminate()
        log = worker.communicate(timeout=60)[0].decode()
    assert state == "COMPLETED", log[-3000:]
    assert [row["event"] for row in rows("FROM runs WHERE stage = 'run' ORDER BY ended_at")] == ["started", "finished"]


async def _run(name: str, parameters: dict[str, Any], timeout_s: float = 240) -> str:
    """State type in which a run of the deployment ends."""
    async with get_client() as client:
        deployment = await client.read_deployment_by_name(name)
        run = await client.create_flow_run_from_deployment(deployment.id, parameters=parameters)
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            state = (await client.read_flow_run(run.id)).state
            if state is not None and state.is_final():
                return str(state.type.value)
            await asyncio.sleep(1)
    raise AssertionError(f"{name} did not end within {timeout_s} s")
