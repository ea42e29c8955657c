"""Is this machine fit to run? Each check looks for itself and either says what it found or raises what is wrong.

`assay run` makes the checks that matter to it before any work and stops at the first fault; `assay doctor` makes all.
"""

import asyncio
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.config import PostTrainConfig
from assay.errors import AssayError, ConfigurationError, SandboxUnavailable, StoreError
from assay.registry import build_plugin
from assay.settings import settings
from environments.sandboxes.base import BackendReport

GIB = 1 << 30
# Weights, optimiser state and the versions that are kept, of the embedded model.
NEEDED_DISK = 4 * GIB
# Full fine-tuning of the embedded model peaks at 5.5 GB; below the lower figure it cannot end well.
WANTED_MEMORY, NEEDED_MEMORY = 6 * GIB, 3 * GIB
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result; `fault` is the error that stops a run, None when all is well."""

    name: str
    detail: str
    fault: AssayError | None = None

    def line(self) -> str:
        return f"{'FAIL' if self.fault else 'ok':<4}  {self.name:<9}  {self.detail}"


def examine(names: tuple[str, ...], config: PostTrainConfig) -> Iterator[Finding]:
    """Each named check's result, as it is found."""
    for name in names:
        try:
            yield Finding(name, CHECKS[name](config))
        except AssayError as error:
            yield Finding(name, str(error), error)


def check_python(config: PostTrainConfig) -> str:
    """Which interpreter this is; an older one than Assay needs could not have been installed into."""
    return f"{platform.python_version()} at {sys.executable}"


def check_sandbox(config: PostTrainConfig) -> str:
    """The configured sandbox isolates here: one is launched."""
    backend = build_plugin("sandbox", config.sandbox.id, dict(config.sandbox.options))
    report = asyncio.run(backend.probe())
    if not report.works:
        raise SandboxUnavailable(f"The sandbox {config.sandbox.id} does not work here: {report.detail}")
    return f"{report.version}, holds {', '.join(report.limits_enforced)}"


def check_isolation(config: PostTrainConfig) -> str:
    """Some backend isolates here: one sandbox of each is launched, and what holds is told."""
    from assay.registry import known_plugins

    reports = asyncio.run(_probe_all(known_plugins("sandbox")))
    lines = [_isolation_line(report) for report in reports]
    if not any(report.works for report in reports):
        raise SandboxUnavailable("\n".join(["No sandbox backend works here.", *lines]))
    return "\n".join(["one sandbox of each kind was launched:", *lines])


def check_disk(config: PostTrainConfig) -> str:
    """There is room for weights and history."""
    home = _existing(settings().home_dir)
    free = shutil.disk_usage(home).free
    if free < NEEDED_DISK:
        raise ConfigurationError(
            f"Only {free / GIB:.1f} GiB are free in {home}; {NEEDED_DISK / GIB:.0f} are needed. "
            "Make room, or set ASSAY_HOME to a larger disk."
        )
    return f"{free / GIB:.0f} GiB free in {settings().home_dir}"


def check_memory(config: PostTrainConfig) -> str:
    """There is memory to train the embedded model; other trainers use other machines."""
    import psutil

    available = psutil.virtual_memory().available
    found = f"{available / GIB:.1f} GiB of memory available"
    if config.trainer.id != "embedded" or config.model or available >= WANTED_MEMORY:
        return found
    short = f"{found}; training the embedded model takes up to {WANTED_MEMORY / GIB:.0f}"
    if available < NEEDED_MEMORY:
        raise ConfigurationError(f"{short}. Close programs, or choose a smaller model with --model.")
    return f"{short}: expect swapping"


def check_model(config: PostTrainConfig) -> str:
    """The base model is here, or the hub has it."""
    model = config.model or settings().model_uri
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ConfigurationError(f"The model folder {path} has no config.json, so it holds no Hugging Face model.")
        return f"{path.name} (local)"
    if path.is_absolute() or model.startswith(".") or not _HUB_ID.fullmatch(model):
        advice = "run `make model`" if not config.model and not settings().model else "correct --model or ASSAY_MODEL"
        raise ConfigurationError(f"There is no model at {model}; {advice}.")
    return _check_hub(model)


def check_store(config: PostTrainConfig) -> str:
    """The store can be written and read back."""
    from storage.store import Store

    uri = settings().store_uri
    try:
        store = Store.open(uri)
        store.check()
    except OSError as error:
        raise StoreError(f"The store {uri} cannot be used: {error}. Set ASSAY_STORE or --store to another.") from error
    return store.uri


def check_prefect(config: PostTrainConfig) -> str:
    """The configured Prefect server answers; without one there is nothing to go wrong."""
    from console.server import check_answers, configured_url, running

    url = configured_url()
    if url:
        check_answers(url)
        return f"{url} (configured)"
    server = running()
    return server.ui_url if server else "no server yet; `assay run` starts one and leaves it running"


def check_vllm(config: PostTrainConfig) -> str:
    """vLLM has its own environment; it must exist only when it is asked for."""
    python = settings().vllm_executable
    if os.access(python, os.X_OK):
        return python
    if config.engine.id == "vllm" and not config.engine.options.get("url"):
        raise ConfigurationError(f"The vLLM environment {python} does not exist; run `make vllm`.")
    return "not installed; `make vllm` makes it, --engine vllm uses it"


CHECKS: dict[str, Callable[[PostTrainConfig], str]] = {
    "python": check_python,
    "sandbox": check_sandbox,
    "isolation": check_isolation,
    "disk": check_disk,
    "memory": check_memory,
    "model": check_model,
    "store": check_store,
    "Prefect": check_prefect,
    "vLLM": check_vllm,
}


async def _probe_all(names: list[str]) -> list[BackendReport]:
    backends = [build_plugin("sandbox", name) for name in names]
    try:
        return list(await asyncio.gather(*(backend.probe() for backend in backends)))
    finally:
        for backend in backends:
            await asyncio.to_thread(backend.close)


def _isolation_line(report: BackendReport) -> str:
    if not report.works:
        return f"      -   {report.backend:<10}  {report.detail}"
    can = f"; can {', '.join(report.capabilities)}" if report.capabilities else ""
    return f"      ok  {report.backend:<10}  {report.version}; holds {', '.join(report.limits_enforced)}{can}"


def _check_hub(model: str) -> str:
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        if isinstance(try_to_load_from_cache(model, "config.json"), str):
            return f"{model} (cached)"
        HfApi().model_info(model, timeout=10)
    except (OSError, ValueError, HFValidationError) as error:
        # Everything the hub client raises (no such repository, no access, offline) is one of these.
        raise ConfigurationError(
            f"The model {model!r} is neither a folder nor cached, and the hub did not offer it: "
            f"{str(error).splitlines()[0]}. Give a folder, log in, or leave --model out for the embedded one."
        ) from error
    return f"{model} (hub; downloaded on first use)"


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
