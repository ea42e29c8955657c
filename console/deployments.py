"""Deployments of `prefect.yaml` on the server in use, and a worker for them."""

import os
import subprocess
import sys
from pathlib import Path

from assay.config import prefect_yaml
from console.server import Say, ServerError, ensure_server

POOL = "assay-local"


def deploy(say: Say) -> None:
    """Create the work pool and every deployment of `prefect.yaml` on the server."""
    env = _client_env(ensure_server(say).api_url)
    pool = [sys.executable, "-m", "prefect", "work-pool", "create", POOL, "--type", "process", "--overwrite"]
    _must_run(pool, env, prefect_yaml().parent)
    _must_run([sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"], env, prefect_yaml().parent)


def worker(say: Say) -> None:
    """Become a worker of the pool; returns never."""
    env = _client_env(ensure_server(say).api_url)
    argv = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    os.execve(sys.executable, argv, env)


def _client_env(api_url: str) -> dict[str, str]:
    """The environment in which a program talks to this server."""
    return {**os.environ, "PREFECT_API_URL": api_url}


def _must_run(argv: list[str], env: dict[str, str], folder: Path) -> None:
    if subprocess.run(argv, env=env, cwd=folder, check=False).returncode:
        raise ServerError(f"`{' '.join(argv[1:])}` failed; its output is above.")
