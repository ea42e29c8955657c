"""`assay run` speaks first, checks before it works, shows what happens, and ends with what came out or how to go on."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from assay.config import PostTrainConfig
from assay.errors import ConfigurationError, DataGateError
from assay.progress import emit
from console import run as running
from console.configure import Wishes, build_config
from console.server import Server
from tests.console.lake import RUN

Capsys = pytest.CaptureFixture[str]
SMOKE = Wishes(preset="smoke")


@pytest.fixture
def flow(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Put another flow in the place of `post_train`, a server that is there, and only the checks of this machine."""
    monkeypatch.setenv("PREFECT_API_URL", "before")
    monkeypatch.setenv("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "ERROR")
    monkeypatch.setattr(running, "ensure_server", lambda say: Server("http://127.0.0.1:1/api"))
    monkeypatch.setattr(running, "BEFORE_WORK", ("sandbox", "store"))

    def install(body: Callable[[PostTrainConfig], Coroutine[Any, Any, str]]) -> None:
        module = types.ModuleType("flows.post_train")
        module.post_train = body  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "flows.post_train", module)

    return install


def test_the_first_line_says_what_how_long_and_where(home: Path) -> None:
    line = running.first_line(build_config(SMOKE))
    assert line.startswith("smoke: post-train the embedded SmolLM2-135M on record_extraction, 1 iterations, seed 0;")
    assert "min on two CPU cores; kept in /" in line


def test_a_run_tells_its_checks_its_progress_and_its_end(flow: Callable[[Any], None], capsys: Capsys) -> None:
    async def body(config: PostTrainConfig) -> str:
        assert os.environ["PREFECT_API_URL"] == "http://127.0.0.1:1/api"
        emit("run", run_id=RUN, name="smoke #3", flow_run_url="http://127.0.0.1:1/runs/flow-run/x")
        emit("rollout", iteration=1, done=8, total=8, failed={"sandbox": 1})
        return RUN

    flow(body)
    assert running.run(SMOKE, as_json=True) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["run_id"] == RUN
    told = captured.err.splitlines()
    assert told[0].startswith("smoke: post-train")
    assert [line.split()[:2] for line in told[1:4]] == [["ok", "sandbox"], ["ok", "store"], ["ok", "Prefect"]]
    assert "prefect   http://127.0.0.1:1/runs/flow-run/x" in told[4]
    assert "rollout   #1  8  failed 1 (sandbox 1)" in told[5]
    assert "  assay sql --query why_zero" in told
    assert Path(json.loads(captured.out)["report"]).is_file()


def test_nothing_starts_when_a_check_fails(flow: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(config: PostTrainConfig) -> str:
        pytest.fail("the flow was started")

    flow(body)
    monkeypatch.setattr(running, "BEFORE_WORK", ("model",))
    with pytest.raises(ConfigurationError, match="run `make model`"):
        running.run(SMOKE)


def test_a_fault_in_the_flow_says_how_to_go_on(
    flow: Callable[[Any], None], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(config: PostTrainConfig) -> str:
        raise DataGateError("too many invalid")

    flow(body)
    monkeypatch.setattr(sys, "argv", ["assay", "run", "--preset", "smoke"])
    with pytest.raises(DataGateError):
        running.run(SMOKE)
    assert "to go on once it is mended: assay run --preset smoke" in capsys.readouterr().err


def test_ctrl_c_cancels_the_flow_and_tells_what_is_kept_and_how_to_resume(
    flow: Callable[[Any], None], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    async def body(config: PostTrainConfig) -> str:
        emit("run", run_id=RUN, name="smoke #3")
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(30)
        finally:
            closed.append(True)
        return RUN

    flow(body)
    monkeypatch.setattr(sys, "argv", ["assay", "run", "--preset", "smoke", "--set", "name=a b"])
    before = signal.getsignal(signal.SIGINT)
    assert running.run(SMOKE) == 130
    told = capsys.readouterr().err
    assert closed
    assert "stopping: what is being written is finished first" in told
    assert "committed: 32 tasks (inspect), 12 tasks (solvability), 112 trajectories (rollout)" in told
    assert "newest policy v3" in told
    assert "resume: assay run --preset smoke --set 'name=a b'" in told
    assert signal.getsignal(signal.SIGINT) is before


SLOW = """
import asyncio, sys, time, types
from console import cli, run
run.check_plugins = lambda c: None
from console.server import Server
async def post_train(config):
    print("begun", flush=True)
    time.sleep(60)
module = types.ModuleType("flows.post_train"); module.post_train = post_train
sys.modules["flows.post_train"] = module
run.ensure_server = lambda say: Server("http://127.0.0.1:1/api"); run.BEFORE_WORK = ()
sys.argv = ["assay", "run", "--preset", "smoke"]
cli.main()
"""


def test_a_second_ctrl_c_ends_at_once(home: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    while "stopping" not in process.stderr.readline():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == -signal.SIGINT
    process.communicate()
