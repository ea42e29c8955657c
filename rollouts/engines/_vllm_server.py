"""A vLLM server on this machine, started from the environment that `make vllm` builds and ended with this process.

engine ── stdin pipe ──► _vllm_watchdog.py ──► vllm api_server ──► its engine core and workers
                          (own session)         (own group, on 127.0.0.1)
"""

import asyncio
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from assay.errors import ConfigurationError, EngineError
from assay.processor import fast_dtype
from assay.progress import emit
from assay.records import record
from assay.settings import settings
from rollouts.engines._vllm_http import Client

log = logging.getLogger("assay")

WATCHDOG = Path(__file__).with_name("_vllm_watchdog.py")
# The one folder of ours on the server's path; beside it lie files named like the libraries the server needs.
EXTENSION_FOLDER = Path(__file__).with_name("_vllm_server_side")
EXTENSION = "assay_vllm_worker.PolicyReload"
RELOAD_METHOD = "reload_policy"
POLL_S = 0.25
SAY_EVERY_S = 15.0
# The watchdog itself gives the server 10 s before it kills it.
STOP_S = 20.0
KEPT_LOGS = 5
TAIL_LINES = 25
CPU_ARGUMENTS = (
    "--enforce-eager",
    # A group shares whole blocks of its prompt only; with the default of 128 tokens most prompts have none.
    "--block-size=32",
    # vLLM 0.32 dies on CPU when it splits the prompt of a seeded request.
    "--no-enable-chunked-prefill",
    # One process less to start, and 0.6 GB less memory.
    "--distributed-executor-backend=uni",
)


@record
class ServerOptions:
    """How a local server runs. `kv_cache_gib` counts on CPU only; a GPU server takes what is free."""

    python: str
    start_timeout_s: float
    request_timeout_s: float
    max_num_seqs: int
    max_model_len: int | None
    kv_cache_gib: int
    extra_args: tuple[str, ...]


class LocalServer:
    """One server process; `start` once, `stop` any number of times."""

    def __init__(self, options: ServerOptions) -> None:
        check_executable(options.python)
        self.options = options
        self.log_path = _new_log()
        self.name = f"assay-{secrets.token_hex(4)}"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, model: str) -> Client:
        """Serve `model` (hub id or directory) and wait until it answers.

        Raises EngineError with the end of the server's log when it dies, or is not ready after `start_timeout_s`.
        """
        port = _free_port()
        say(f"Starting a vLLM server for {model} (log: {self.log_path}) ...")
        self._process = self._spawn(model, port)
        client = Client(
            f"http://127.0.0.1:{port}",
            timeout_s=self.options.request_timeout_s,
            advice=self.advice,
            api_key=self._key,
            use_proxies=False,
        )
        try:
            await self._wait(client)
        except BaseException:
            await client.close()
            await self.stop()
            raise
        return client

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def advice(self) -> str:
        """For error messages: whether the server lives, and where to look."""
        if self.running:
            return f"The server runs; see its log: {self.log_path}"
        return f"The server has ended. Its log ends:\n{self.tail()}\nThe whole log: {self.log_path}"

    def tail(self) -> str:
        """The last lines of the server's log."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    async def stop(self) -> None:
        """End the server and everything it started. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(_end, process)

    def _spawn(self, model: str, port: int) -> subprocess.Popen[bytes]:
        self._key = secrets.token_hex(16)
        command = [sys.executable, "-I", str(WATCHDOG), *server_command(self.options, model, self.name, port)]
        with self.log_path.open("ab") as out:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.log_path.parent,
                env=server_environment(model, self._key, self.options.kv_cache_gib),
            )

    async def _wait(self, client: Client) -> None:
        started = said = time.monotonic()
        while not await client.is_healthy():
            now = time.monotonic()
            if not self.running:
                raise EngineError(f"The vLLM server ended while it was starting. {self.advice()}")
            if now - started > self.options.start_timeout_s:
                raise EngineError(
                    f"The vLLM server was not ready after start_timeout_s={self.options.start_timeout_s:g} s. Its log "
                    f"ends:\n{self.tail()}\nRaise start_timeout_s, or read the whole log: {self.log_path}"
                )
            if now - said > SAY_EVERY_S:
                said = now
                say(f"The vLLM server is still starting ({now - started:.0f} s; log: {self.log_path}) ...")
            await asyncio.sleep(POLL_S)
        say(f"The vLLM server is ready ({time.monotonic() - started:.0f} s).")


def check_executable(python: str) -> None:
    """Raises ConfigurationError unless `python` is there."""
    if shutil.which(python) is None:
        raise ConfigurationError(
            f"{python} is not there, so no vLLM server can be started. Run `make vllm`, set ASSAY_VLLM_PYTHON to a "
            "Python that has vLLM, or give the engine the url of a running server."
        )


def server_command(options: ServerOptions, model: str, name: str, port: int) -> list[str]:
    """The server's command line. `extra_args` come last, so they win."""
    command = [options.python, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    command += ["--served-model-name", name, "--host", "127.0.0.1", "--port", str(port), "--dtype", served_dtype()]
    command += ["--max-num-seqs", str(options.max_num_seqs), "--logprobs-mode", "processed_logprobs"]
    # The model's own generation_config.json may ask for top_k and the like.
    command += ["--generation-config", "vllm", "--disable-log-stats"]
    command += ["--worker-extension-cls", EXTENSION]
    if options.max_model_len is not None:
        command += ["--max-model-len", str(options.max_model_len)]
    if not on_cuda():
        command += CPU_ARGUMENTS
    return [*command, *options.extra_args]


def server_environment(model: str, api_key: str, kv_cache_gib: int) -> dict[str, str]:
    """This process's environment without what would lead another Python astray, and with vLLM's settings."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "VIRTUAL_ENV")}
    environment["PYTHONPATH"] = str(EXTENSION_FOLDER)
    # Weights are reloaded through the development endpoints; the server listens on this machine only.
    environment |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_API_KEY": api_key}
    environment |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if Path(model).is_dir():
        environment["HF_HUB_OFFLINE"] = "1"
    if not on_cuda():
        environment["VLLM_CPU_KVCACHE_SPACE"] = str(kv_cache_gib)
        # Left to itself vLLM pins one thread to every core, where the trainer and the sandboxes work too.
        environment["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        environment["OMP_NUM_THREADS"] = str(settings().num_threads)
        # Threads that spin for each other take the cores from everybody: half the speed on a busy machine.
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # Without this the uni executor is replaced.
        environment["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    return environment


def served_dtype() -> str:
    """What the local server computes in: bfloat16 on a GPU, else what this processor multiplies faster."""
    return "bfloat16" if on_cuda() else str(fast_dtype()).removeprefix("torch.")


def on_cuda() -> bool:
    """Whether this machine has an NVIDIA driver, for which `make vllm` installs the CUDA build."""
    return shutil.which("nvidia-smi") is not None


def say(line: str) -> None:
    """One visible line: to the log and to whoever listens for progress."""
    log.info(line)
    emit("run", message=line)


def _new_log() -> Path:
    folder = settings().home_dir / "vllm"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("server-*.log"), key=lambda path: path.stat().st_mtime)[: -KEPT_LOGS + 1]:
        old.unlink(missing_ok=True)
    path = folder / f"server-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}.log"
    path.touch()
    return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
