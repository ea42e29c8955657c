"""The sandbox benchmark: what its table says, that bwrap is measured with our isolation, and that leftovers count."""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.errors import SandboxError, SandboxUnsupported
from assay.registry import build_plugin
from benchmarks import _bwrap_side, _sandbox_ours, _sandbox_soak
from benchmarks._sandbox_rows import Samples
from benchmarks._sandbox_table import Row, SandboxReport
from benchmarks._worker import Worker
from benchmarks.sandbox import temporary_folder
from environments.sandboxes.base import Backend, SandboxSpec

TWO_ROUNDS = Row("a", "ms", ((1.0, 2.0, 9.0), (4.0, 4.0, 4.0)), "bwrap", ((1.0, 1.0, 1.0), (4.0, 4.0, 8.0)))


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder() as path:
        yield path


@pytest.fixture
def backend() -> Iterator[Backend]:
    made: Backend = build_plugin("sandbox", "bubblewrap")
    yield made
    made.close()


def test_a_ratio_is_the_median_over_rounds_of_how_the_medians_compare() -> None:
    assert TWO_ROUNDS.ratio == pytest.approx((2.0 / 1.0 + 4.0 / 4.0) / 2)


def test_a_side_measured_once_is_compared_with_all_rounds_of_the_other() -> None:
    assert Row("a", ours=((1.0,), (2.0,), (6.0,)), theirs=((4.0,),)).ratio == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("a", ours=((1.0,),), theirs=((1.0,),), max_ratio=1.0), True),
        (Row("a", ours=((1.1,),), theirs=((1.0,),), max_ratio=1.0), False),
        (Row("a", ours=((3.0,),), max_p50=3.0), True),
        (Row("a", ours=((1.0,),), max_p50=0.0), False),
        (Row("a", ours=((-1.0,),), max_p50=0.0), False),
        (Row("a", ours=((1.0,),)), None),
        (Row("a", max_p50=3.0, missing="no session"), None),
    ],
)
def test_a_limit_holds_up_to_its_value_and_says_nothing_without_a_measurement(row: Row, met: bool | None) -> None:
    assert row.met is met


def test_the_table_shows_both_sides_the_ratio_and_the_verdict() -> None:
    slow = Row("slow", "ms", ((6.0, 8.0),), "bwrap", ((4.0, 3.0),), max_ratio=1.15)
    text = SandboxReport("Sandboxes", (slow, Row("pool", missing="none here"))).as_text()
    assert "slow ms 7.00 6.00 bwrap 3.50 3.00 2.00x 1.15x NO" in re.sub(" +", " ", text)
    assert "pool not available: none here" in re.sub(" +", " ", text)
    assert "cores" in text


def test_json_keeps_every_value_and_where_it_was_measured() -> None:
    told = SandboxReport("Sandboxes", (TWO_ROUNDS,), {"tool": "1"}).as_json()
    assert (told["rows"][0]["ours"]["p50"], told["rows"][0]["bwrap"]["min"]) == (4.0, 1.0)
    assert told["rows"][0]["ours"]["rounds"] == TWO_ROUNDS.ours
    assert {"date", "processor", "cores", "notes"} <= told.keys()


async def test_what_a_backend_cannot_do_is_asked_once_and_told_in_its_rows() -> None:
    samples, asked = Samples(), []

    async def measure() -> dict[str, list[float]]:
        asked.append(1)
        raise SandboxUnsupported("no session here")

    for _ in range(2):
        await samples.take("session,session first", measure)
    told = {row.name: row.missing for row in samples.rows()}
    assert told["a session's next command"] == told["create, first command of a session"] == "no session here"
    assert len(asked) == 1


async def test_seconds_become_milliseconds_and_a_round_of_warming_up_is_dropped() -> None:
    samples = Samples()

    async def measure() -> dict[str, list[float]]:
        return {"take": [0.002, 0.004]}

    await samples.take("take", measure, keep=False)
    await samples.take("take", measure)
    row = next(row for row in samples.rows() if "is ready" in row.name)
    assert row.ours == ((2.0, 4.0),)
    assert row.met is True


def test_bwrap_by_itself_isolates_as_the_sandbox_does(folder: Path) -> None:
    """The agent of both sides sees the same user, no network, one process tree, a filter and sized places to write."""
    worker = _bwrap_side.start(folder)
    try:
        assert worker.ask(do="bwrap", payload=["true"], times=2)["seconds"][1] > 0
        checks = [
            "test $(id -u) = 1000",
            "grep -q 'Seccomp:.2' /proc/self/status",
            "grep -q 'CapEff:.0000000000000000' /proc/self/status",
            "test $(wc -l < /proc/net/dev) = 3",
            "test $(ls -d /proc/[0-9]* | wc -l) -lt 8",
            "! touch /usr/x && ! touch /x && touch /tmp/x /workspace/x /dev/shm/x",
        ]
        for check in checks:
            worker.ask(do="bwrap", payload=["sh", "-c", f"({check}) 2>/dev/null"], times=1)
        with pytest.raises(SandboxError, match="failed: 3"):
            worker.ask(do="bwrap", payload=["sh", "-c", "exit 3"], times=1)
    finally:
        worker.close()


def test_a_worker_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    words = "import sys; print('@@ {}', flush=True); input(); sys.exit('no more')"
    worker = Worker([sys.executable, "-c", words], tmp_path / "side.log", {})
    with pytest.raises(SandboxError, match=r"side ended unexpectedly: no more"):
        worker.ask(do="anything")


async def test_lifecycles_leave_nothing_and_a_sandbox_that_stays_is_counted(backend: Backend, folder: Path) -> None:
    left = await _sandbox_soak.soak(backend, 3)
    assert left == dict.fromkeys(_sandbox_soak.COUNTED, 0)
    before = await _sandbox_soak.census()
    sandbox = await backend.create(SandboxSpec(files={"a.txt": "a"}))
    (folder / "tmp" / "left").touch()
    process = await asyncio.create_subprocess_exec("sleep", "60")
    after = await _sandbox_soak.census()
    process.kill()
    await process.wait()
    await sandbox.destroy()
    for name in ("descriptors", "mounts", "processes", "temporary files"):
        assert after[name] > before[name], name


async def test_a_lifecycle_whose_command_fails_is_no_measurement(backend: Backend) -> None:
    with pytest.raises(SandboxError, match="ended with 3"):
        await _sandbox_ours.lifecycle(backend, ["sh", "-c", "exit 3"])


def test_a_project_has_as_many_files_as_the_table_says(tmp_path: Path) -> None:
    _sandbox_ours.make_project(tmp_path)
    assert sum(1 for path in tmp_path.rglob("*") if path.is_file()) == 20_000
