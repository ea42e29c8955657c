"""The local server's process: how it is started and watched, and that it never outlives whoever needed it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from assay.errors import EngineError
from rollouts.engines._vllm_server import WATCHDOG, LocalServer, ServerOptions, server_command, server_environment

# A server with a child of its own, as vLLM has; both only sleep. It writes both process ids into the file it is given.
TREE = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1] + ".tmp", "w").write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
time.sleep(600)
"""


def options(python: Path | str, **changes: object) -> ServerOptions:
    values = {
        "python": str(python),
        "start_timeout_s": 30.0,
        "request_timeout_s": 5.0,
        "max_num_seqs": 8,
        "max_model_len": None,
        "kv_cache_gib": 1,
        "extra_args": (),
    }
    return ServerOptions(**(values | changes))  # type: ignore[arg-type]


def a_program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def eventually(true: Callable[[], bool], within_s: float = 20.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False


def process_ids(file: Path) -> list[int]:
    assert eventually(file.exists), "the server did not start"
    return [int(word) for word in file.read_text().split()]


def all_gone(ids: list[int]) -> bool:
    return all(not psutil.pid_exists(i) or psutil.Process(i).status() == psutil.STATUS_ZOMBIE for i in ids)


STARTER = """
import subprocess, sys, time
kept = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True)
time.sleep(600)
"""


def watched(file: Path) -> list[str]:
    return [sys.executable, "-I", str(WATCHDOG), sys.executable, "-c", TREE, str(file)]


def test_closing_the_pipe_ends_the_server_and_its_children(tmp_path: Path) -> None:
    watchdog = subprocess.Popen(watched(tmp_path / "ids"), stdin=subprocess.PIPE, start_new_session=True)
    ids = process_ids(tmp_path / "ids")
    assert watchdog.stdin is not None
    watchdog.stdin.close()
    assert watchdog.wait(20) == 128 + signal.SIGTERM
    assert eventually(lambda: all_gone(ids))


def test_a_killed_starter_takes_the_server_and_its_children_along(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, *watched(tmp_path / "ids")])
    ids = process_ids(tmp_path / "ids")
    starter.kill()
    starter.wait()
    assert eventually(lambda: all_gone(ids))


def test_a_killed_watchdog_takes_the_server_along(tmp_path: Path) -> None:
    watchdog = subprocess.Popen(watched(tmp_path / "ids"), stdin=subprocess.PIPE, start_new_session=True)
    server, child = process_ids(tmp_path / "ids")
    watchdog.kill()
    watchdog.wait()
    assert eventually(lambda: all_gone([server]))
    os.kill(child, signal.SIGKILL)


def test_the_watchdog_hands_on_how_its_command_ended() -> None:
    command = [sys.executable, "-I", str(WATCHDOG), sys.executable, "-c", "raise SystemExit(7)"]
    assert subprocess.Popen(command, stdin=subprocess.PIPE).wait(20) == 7


async def test_a_server_that_dies_while_starting_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    server = LocalServer(options(a_program(tmp_path / "python", "echo no such model; exit 3")))
    with pytest.raises(EngineError, match=r"ended while it was starting(.|\n)*no such model(.|\n)*server-.*\.log"):
        await server.start("org/model")
    assert not server.running


async def test_a_server_that_is_never_ready_is_ended_and_the_limit_named(tmp_path: Path) -> None:
    program = a_program(tmp_path / "python", f"echo $$ > {tmp_path}/id; echo thinking; sleep 600")
    server = LocalServer(options(program, start_timeout_s=1.0))
    with pytest.raises(EngineError, match=r"start_timeout_s=1 s(.|\n)*thinking"):
        await server.start("org/model")
    assert eventually(lambda: all_gone([int((tmp_path / "id").read_text())]))


async def test_stopping_a_server_that_never_ran_is_nothing(tmp_path: Path) -> None:
    await LocalServer(options(a_program(tmp_path / "python", "exit 0"))).stop()


def test_extra_arguments_come_last_so_that_they_win() -> None:
    command = server_command(options("python", extra_args=("--dtype", "float16")), "m", "name", 80)
    assert command[-2:] == ["--dtype", "float16"]
    assert command[command.index("--logprobs-mode") + 1] == "processed_logprobs"


def test_the_servers_environment_leads_no_other_python_astray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    environment = server_environment(str(tmp_path), "key", 1)
    assert sorted(p.suffix for p in Path(environment["PYTHONPATH"]).iterdir() if p.is_file()) == [".py"]
    assert environment["VLLM_SERVER_DEV_MODE"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1", "a directory needs no hub"
    assert "HF_HUB_OFFLINE" not in server_environment("org/model", "key", 1)


def test_only_the_newest_logs_are_kept(tmp_path: Path) -> None:
    program = a_program(tmp_path / "python", "exit 0")
    logs = [LocalServer(options(program)).log_path for _ in range(8)]
    kept = [log.exists() for log in logs]
    assert kept.count(True) == 5
    assert kept[-1]
