"""A configured Prefect server is used or complained about; a local one is started once, reused, and stopped."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest

from assay.settings import settings
from console import server
from console.server import Server, ServerError

ANSWERS = {"/api/health": (200, b"true"), "/ui/health": (200, b"<html>"), "/secret/health": (401, b"")}


class Handler(BaseHTTPRequestHandler):
    """Answers as a Prefect server, its UI and one that wants credentials do."""

    def do_GET(self) -> None:
        status, body = ANSWERS.get(self.path, (404, b""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the library's name)
        pass


@pytest.fixture(autouse=True)
def clean_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    settings.cache_clear()
    yield tmp_path
    settings.cache_clear()


@pytest.fixture
def answering() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_configured_server_that_answers_is_used(answering: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"{answering}/api")
    found = server.ensure_server(pytest.fail)
    assert found == Server(f"{answering}/api")
    assert found.ui_url == answering


def test_a_configured_server_that_does_not_answer_is_an_error_and_none_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"http://127.0.0.1:{closed_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", url)
    with pytest.raises(ServerError, match=f"{url} does not answer: .*unset it and a local server is started"):
        server.ensure_server(pytest.fail)


def test_what_answers_but_is_no_prefect_api_is_named(answering: str) -> None:
    with pytest.raises(ServerError, match=r"is not a Prefect API .* its URL ends with /api"):
        server.check_answers(f"{answering}/ui")
    with pytest.raises(ServerError, match=r"refused the credentials \(HTTP 401\)"):
        server.check_answers(f"{answering}/secret")
    with pytest.raises(ServerError, match="does not answer"):
        server.check_answers("nonsense")


def test_the_active_profile_counts_as_configured(clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.configured_url() == ""
    profiles = clean_home / "prefect" / "profiles.toml"
    profiles.parent.mkdir()
    profiles.write_text('active = "a"\n[profiles.a]\nPREFECT_API_URL = "http://a/api"\n[profiles.b]\n')
    assert server.configured_url() == "http://a/api"
    monkeypatch.setenv("PREFECT_PROFILE", "b")
    assert server.configured_url() == ""
    profiles.write_text("active = ")
    with pytest.raises(ServerError, match="are not TOML"):
        server.configured_url()


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert server.free_port(port) != port
    assert server.free_port(port) == port


def test_the_process_of_another_program_is_never_taken_for_ours() -> None:
    server._write_state(Server("http://127.0.0.1:1/api", pid=psutil.Process().pid, created_s=1.0))
    assert server.running() is None
    assert server.stop() is None
    assert psutil.Process().is_running()


def test_nothing_to_stop_is_no_error() -> None:
    assert server.running() is None
    assert server.stop() is None


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(
    clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "server_env", lambda home, port: {"PYTHONHOME": "/nonexistent"})
    with pytest.raises(ServerError, match=r"The local Prefect server ended: .*server\.log"):
        server.ensure_server(lambda line: None)
    assert not (clean_home / "home" / "prefect" / "server.json").exists()


def test_a_local_server_is_started_once_found_again_and_stopped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PORT", closed_port())
    said: list[str] = []
    started = server.ensure_server(said.append)
    try:
        assert "starting a Prefect server" in said[0]
        assert server.ensure_server(pytest.fail) == started
        assert server.running() == started
        status, settings_json = server._get(f"{started.ui_url}/ui-settings", 5)
        assert (status, started.api_url.encode() in settings_json) == (200, True)
        assert (settings().home_dir / "prefect" / "prefect.db").exists()
    finally:
        assert server.stop() == started
    assert not psutil.pid_exists(started.pid) or psutil.Process(started.pid).status() == psutil.STATUS_ZOMBIE
    assert server.running() is None
    with pytest.raises(ServerError):
        server.check_answers(started.api_url, timeout_s=1)
