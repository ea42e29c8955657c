"""What a sandbox costs and leaves behind, against bwrap by itself and against local runtimes that isolate nothing.

    round:   true: ours, bwrap, bwrap | print: ours, bwrap, subprocess, peers | session: ours, swe-rex | take | reset
    totals:  lifecycles per second: ours, bwrap | memory of a session | what 1,000 lifecycles leave behind

All sides take turns round by round in one run, so that a busy machine hits all alike. The others work in processes of
their own and measure themselves.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from assay.errors import SandboxUnavailable
from assay.registry import build_plugin
from benchmarks import _bwrap_side, _sandbox_ours, _sandbox_soak
from benchmarks._sandbox_others import PEERS, PRINT, Others, bwrap_per_second
from benchmarks._sandbox_ours import Series, stopwatch
from benchmarks._sandbox_rows import Samples
from benchmarks._sandbox_soak import COUNTED
from benchmarks._sandbox_table import SandboxReport
from benchmarks.workload import Workload
from environments.sandboxes.base import Backend

BACKEND = "bubblewrap"
TIMES = 40  # repetitions per round
SLOW_TIMES = 6  # of what takes a tenth of a second
SOAK_TIMES, RATE_S, RATE_TIMES = 1000, 3.0, 3


async def run(_: Workload, steps: int) -> SandboxReport:
    """`steps` rounds after one that warms up, then the totals. Raises SandboxUnavailable where nothing isolates."""
    samples = Samples()
    backend: Backend = build_plugin("sandbox", BACKEND, {})
    with temporary_folder() as folder, contextlib.closing(backend):
        found = await backend.probe()
        if not found.works:
            raise SandboxUnavailable(found.detail)
        _sandbox_ours.make_project(folder / "project")
        with contextlib.closing(Others(folder / "others")) as others:
            for step in range(steps + 1):
                await take_round(samples, backend, others, folder, keep=step > 0)
            versions = others.versions
        await take_totals(samples, backend, folder)
        backend.close()
        await samples.take(COUNTED[0], _leftovers)
    who = "root" if os.getuid() == 0 else "a plain user"
    what = f"Sandboxes as {who}, {steps} rounds of {TIMES}. Only bwrap isolates as ours do. Ratios: median of rounds."
    return SandboxReport(what, tuple(samples.rows()), {"bubblewrap": found.version, **versions})


async def take_round(samples: Samples, backend: Backend, others: Others, folder: Path, *, keep: bool) -> None:
    """Everything that is compared, one side after the other."""
    take, project = partial(samples.take, keep=keep), folder / "project"
    await take("ours true", partial(_lifecycles, backend, "ours true", ["true"]))
    for name in ("bwrap", "bwrap_bare"):
        await take(f"{name} true", partial(others.true, name, TIMES))
    await take("ours print", partial(_lifecycles, backend, "ours print", ["python3", *PRINT]))
    for name in ("bwrap", "bare", *PEERS):
        await take(f"{name} print", partial(others.print, name, TIMES))
    await take("session,session first", partial(_sandbox_ours.session, backend, TIMES))
    await take("swe-rex session,swe-rex session first", partial(others.session, SLOW_TIMES))
    await take("take", partial(_sandbox_ours.takes, backend, TIMES))
    await take("pool", partial(_sandbox_ours.pool_takes, backend, TIMES))
    await take("reset", partial(_sandbox_ours.reset, backend, project, TIMES))
    await take("snapshot", partial(_sandbox_ours.snapshot, backend, project, SLOW_TIMES))


async def take_totals(samples: Samples, backend: Backend, folder: Path) -> None:
    """How many per second, how large, and how long a copy takes instead of a reset."""
    concurrency = 2 * (os.cpu_count() or 1)
    with contextlib.ExitStack() as stack:
        workers = []
        for number in range(concurrency):
            (folder / f"bwrap{number}").mkdir()
            workers.append(_bwrap_side.start(folder / f"bwrap{number}"))
            stack.callback(workers[-1].close)
        for _ in range(RATE_TIMES):
            ours = await _sandbox_soak.sustained(backend, RATE_S, concurrency)
            samples.rounds.setdefault("rate", []).append([ours])
            samples.rounds.setdefault("bwrap rate", []).append([bwrap_per_second(workers, RATE_S)])
    await samples.take("memory", partial(_sandbox_soak.idle_memory, backend))
    await samples.take("cp", partial(_copy, folder / "project", folder / "copy"))


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is this process's and its children's place for temporary files as well, so they can be counted."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # as root, bwrap starts as another user
        (folder / "tmp").mkdir()
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
        (folder / "tmp").chmod(0o711)
        try:
            yield folder
        finally:
            tempfile.tempdir = before[0]
            os.environ.pop("TMPDIR")
            if before[1] is not None:
                os.environ["TMPDIR"] = before[1]


async def _lifecycles(backend: Backend, name: str, argv: list[str]) -> Series:
    return {name: await _sandbox_ours.repeated(TIMES, partial(_sandbox_ours.lifecycle, backend, argv))}


async def _leftovers() -> Series:
    # A fresh backend: one that has worked may be letting go of what it had ready.
    with contextlib.closing(build_plugin("sandbox", BACKEND, {})) as fresh:
        left = await _sandbox_soak.soak(fresh, SOAK_TIMES)
    return {name: [float(number)] for name, number in left.items()}


async def _copy(source: Path, target: Path) -> Series:
    seconds: list[float] = []
    with stopwatch(seconds):
        copying = await asyncio.create_subprocess_exec("cp", "-r", source, target)
        await copying.wait()
    shutil.rmtree(target)
    return {"cp": seconds}
