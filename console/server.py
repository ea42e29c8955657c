"""The Prefect server a run reports to: the one that is configured, or a local one that outlives the run.

    PREFECT_API_URL (environment or profile)   -> must answer, is never replaced
    a server started here before, healthy      -> reused
    otherwise                                  -> started: SQLite under HOME/prefect, port 4200 or a free one

Prefect itself is not imported here; the server is a process of its own and HTTP tells how it is.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from assay.errors import AssayError
from assay.settings import settings

PORT = 4200
START_TIMEOUT_S, TELL_EVERY_S = 180.0, 5.0
Say = Callable[[str], None]


class ServerError(AssayError):
    """The Prefect server does not answer, or a local one did not start; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a Prefect server answers. `pid` is 0 for one that was not started here."""

    api_url: str
    pid: int = 0
    created_s: float = 0.0

    @property
    def ui_url(self) -> str:
        return self.api_url.removesuffix("/").removesuffix("/api")


def ensure_server(say: Say) -> Server:
    """The server to use, started if need be. Raises ServerError; `say` hears what takes time."""
    configured = configured_url()
    if configured:
        check_answers(configured)
        return Server(configured)
    with _only_one():
        # One that lives but does not answer yet is still starting: another run began it and was interrupted.
        server = _recorded() or _launch(say)
        _wait_healthy(server, say)
        return server


def configured_url() -> str:
    """The API a person configured, from PREFECT_API_URL or the active Prefect profile; empty when none is."""
    if os.environ.get("PREFECT_API_URL"):
        return os.environ["PREFECT_API_URL"]
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    path = Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml"))
    if not path.is_file():
        return ""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ServerError(f"The Prefect profiles {path} are not TOML: {error}. Repair or remove the file.") from error
    name = os.environ.get("PREFECT_PROFILE") or document.get("active", "")
    return str(document.get("profiles", {}).get(name, {}).get("PREFECT_API_URL", ""))


def check_answers(api_url: str, timeout_s: float = 5.0) -> None:
    """Raise ServerError unless a Prefect API answers at `api_url`."""
    advice = "Start it, correct PREFECT_API_URL, or unset it and a local server is started for you."
    try:
        status, body = _get(f"{api_url.rstrip('/')}/health", timeout_s)
    except (OSError, ValueError) as error:
        raise ServerError(f"The Prefect server at {api_url} does not answer: {error}. {advice}") from error
    if status in (401, 403):
        raise ServerError(
            f"The Prefect server at {api_url} refused the credentials (HTTP {status}). "
            "Set PREFECT_API_KEY or PREFECT_API_AUTH_STRING."
        )
    if "prefect.cloud" not in api_url and (status != 200 or body.strip() != b"true"):
        raise ServerError(
            f"What answers at {api_url} is not a Prefect API (HTTP {status}); its URL ends with /api. {advice}"
        )


def running() -> Server | None:
    """The local server started here before, if its process lives and it answers."""
    server = _recorded()
    try:
        if server is not None:
            check_answers(server.api_url, timeout_s=10.0)
    except ServerError:
        return None
    return server


def stop() -> Server | None:
    """Stop the local server with everything it started; None when there was none."""
    with _only_one():
        server = _recorded()
        if server is not None:
            _end_group(server.pid)
        _state_file().unlink(missing_ok=True)
        return server


def server_env(home: Path, port: int) -> dict[str, str]:
    """What a local server needs: history on disk under `home`, a UI that calls the right port, no reports outside.

    The default batch sizes record 1000 task runs in 40 s, these in 12 s.
    """
    api_url = f"http://127.0.0.1:{port}/api"
    ours = {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home / 'prefect.db'}",
        "PREFECT_API_URL": api_url,
        "PREFECT_UI_API_URL": api_url,
        "PREFECT_UI_STATIC_DIRECTORY": str(home / "ui"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    for service in ("TASK_RUN_RECORDER", "EVENT_PERSISTER"):
        prefix = f"PREFECT_SERVER_SERVICES_{service}_"
        ours |= {prefix + "BATCH_SIZE": "200", prefix + "READ_BATCH_SIZE": "200", prefix + "FLUSH_INTERVAL": "1"}
    # The person's own Prefect settings are for the server they configured, which this one is not.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    return inherited | ours


def _launch(say: Say) -> Server:
    port = free_port(PORT)
    say(f"starting a Prefect server on port {port}; its history stays in {_home()}")
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with _log().open("ab") as out:
        process = subprocess.Popen(
            argv,
            env=server_env(_home(), port),
            cwd=_home(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    server = Server(f"http://127.0.0.1:{port}/api", process.pid, psutil.Process(process.pid).create_time())
    _write_state(server)
    return server


def _wait_healthy(server: Server, say: Say) -> None:
    """Return when the server answers; tell that it takes time. Raises ServerError if it ends or takes too long."""
    begin = told = time.monotonic()
    while True:
        try:
            return check_answers(server.api_url, timeout_s=2.0)
        except ServerError as error:
            waited = time.monotonic() - begin
            if not _alive(server):
                _state_file().unlink(missing_ok=True)
                raise ServerError(f"The local Prefect server ended: {_tail(_log())}") from error
            if waited > START_TIMEOUT_S:
                raise ServerError(
                    f"The local Prefect server at {server.api_url} did not answer in {waited:.0f} s; see {_log()}. "
                    "`assay server stop` ends it."
                ) from error
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            say(f"waiting for {server.api_url}/health ({told - begin:.0f} s)")
        time.sleep(0.25)


def free_port(preferred: int) -> int:
    """`preferred` on the loopback address when nothing listens there, else any free port."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerError("No free port on 127.0.0.1 for the Prefect server; close some servers.")


def _get(url: str, timeout_s: float) -> tuple[int, bytes]:
    headers = {}
    if os.environ.get("PREFECT_API_KEY"):
        headers["Authorization"] = f"Bearer {os.environ['PREFECT_API_KEY']}"
    # A proxy is for hosts outside; it cannot reach this machine's own ports.
    local = "//127.0.0.1" in url or "//localhost" in url
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=timeout_s) as response:
            return response.status, response.read(4096)
    except urllib.error.HTTPError as error:
        return error.code, b""


def _recorded() -> Server | None:
    """The server of the state file, if its process lives."""
    try:
        server = Server(**json.loads(_state_file().read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return server if _alive(server) else None


def _alive(server: Server) -> bool:
    """The process that was started, not another one that got its number."""
    try:
        process = psutil.Process(server.pid)
        return abs(process.create_time() - server.created_s) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _end_group(pid: int) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(pid, sent)
            psutil.Process(pid).wait(timeout=10)
        except (ProcessLookupError, psutil.NoSuchProcess):
            return
        except psutil.TimeoutExpired:
            continue


def _home() -> Path:
    home = settings().home_dir / "prefect"
    home.mkdir(parents=True, exist_ok=True)
    return home


def _log() -> Path:
    return _home() / "server.log"


def _state_file() -> Path:
    return _home() / "server.json"


def _write_state(server: Server) -> None:
    fresh = _state_file().with_suffix(".new")
    fresh.write_text(json.dumps(asdict(server)))
    fresh.replace(_state_file())


@contextmanager
def _only_one() -> Iterator[None]:
    """Two runs that begin at once share one server."""
    with (_home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"{lines[-1] if lines else 'no output'} (all of it in {log})"
