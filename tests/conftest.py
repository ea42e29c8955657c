"""Shared by all tests: settings that never touch a person's own, and real services, started once."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import s3_server

__all__ = ["s3_server"]
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def fresh_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Every test has its own home and store; settings are read anew."""
    from assay.settings import settings

    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for name in [n for n in os.environ if n.startswith("ASSAY_") and n != "ASSAY_HOME"]:
        monkeypatch.delenv(name)
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prefect server with a fresh database, which this process and its children use while tests run."""
    from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    api = f"http://127.0.0.1:{port}/api"
    env = {"PREFECT_HOME": str(home), "PREFECT_API_URL": api, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port), "--no-ui"]
    log = (home / "server.log").open("wb")
    server = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
    try:
        _wait_for(f"{api}/health", server, home / "server.log")
        # Logs still on their way when the server ends would be retried for a minute.
        with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: False}):
            yield api
    finally:
        server.terminate()
        server.wait(20)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path, timeout_s: float = 120) -> None:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"{url} did not answer within {timeout_s} s:\n{log.read_text()[-2000:]}")
