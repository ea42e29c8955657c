"""`assay run`: say what will happen, check everything, run the flow under a live screen, say what came out.

config -> first line -> plugins, sandbox, disk, model, store | Prefect server -> flow -> summary, report, next steps
"""

import asyncio
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from assay.config import PostTrainConfig
from assay.errors import AssayError
from assay.settings import settings
from console.configure import Wishes, build_config, check_plugins, expected_s
from console.live import shown
from console.output import clock, put_json, say
from console.picture import Picture
from console.server import Server, ensure_server

INTERRUPTED = 130
BEFORE_WORK = ("sandbox", "disk", "memory", "model", "store", "vLLM")


def run(wishes: Wishes, *, as_json: bool = False) -> int:
    """Run to the end or to Ctrl-C; returns the exit code. Raises AssayError for what is wrong before or during."""
    config = build_config(wishes)
    say(first_line(config))
    picture = Picture(f"post_train {config.name}", time.monotonic(), expected_s(config))
    try:
        check_plugins(config)
        use_server(prepare(config))
        run_id = _shown_flow(config, picture)
    except (KeyboardInterrupt, asyncio.CancelledError):
        tell_interrupted(picture)
        return INTERRUPTED
    tell_end(run_id, as_json=as_json)
    return 0


def first_line(config: PostTrainConfig) -> str:
    """What will happen, how long it takes, where it is kept."""
    seconds = expected_s(config)
    takes = f"about {max(1, round(seconds / 60))} min on two CPU cores" if seconds else "time shown once it is known"
    domains = ", ".join(config.domains)
    return (
        f"{config.name}: post-train {config.model or 'the embedded SmolLM2-135M'} on {domains}, "
        f"{config.iterations} iterations, seed {config.seed}; {takes}; kept in {settings().store_uri}"
    )


def prepare(config: PostTrainConfig) -> Server:
    """Every check, while the Prefect server starts beside them. Raises the first fault."""
    from console.doctor import examine

    starting = _beside(lambda: ensure_server(say))
    for finding in examine(BEFORE_WORK, config):
        if finding.fault:
            raise finding.fault
        say(finding.line())
    server = starting.result()
    say(f"ok    Prefect   {server.ui_url}")
    return server


def use_server(server: Server) -> None:
    """Point Prefect, which is not imported yet, at the server; its own log lines stay out of the live screen."""
    os.environ["PREFECT_API_URL"] = server.api_url
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "ERROR")


def _shown_flow(config: PostTrainConfig, picture: Picture) -> str:
    try:
        with shown(picture):
            return asyncio.run(_flow(config))
    except AssayError:
        say(f"to go on once it is mended: {resume_command()}")
        raise


async def _flow(config: PostTrainConfig) -> str:
    from flows.post_train import post_train

    task = asyncio.current_task()
    assert task is not None
    with _stopped_by_ctrl_c(task):
        return str(await post_train(config))


@contextmanager
def _stopped_by_ctrl_c(task: "asyncio.Task[object]") -> Iterator[None]:
    """The first Ctrl-C cancels `task`, so that everything is closed; the second ends the process.

    Nothing is lost but what was in flight: rows become visible only by a finished commit.
    """
    loop = task.get_loop()

    def pressed(signum: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        say("stopping: what is being written is finished first; Ctrl-C again ends at once")
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _beside(work: Callable[[], Server]) -> "Future[Server]":
    """Do `work` in a thread that nobody has to wait for: a server that is starting outlives this process."""
    future: Future[Server] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=do, daemon=True).start()
    return future


def tell_interrupted(picture: Picture) -> None:
    from console.sql import open_catalog
    from console.summary import summarise

    say(f"\ninterrupted after {clock(time.monotonic() - picture.begin_s)}")
    run_id = picture.run("run_id")
    if run_id:
        summary = summarise(open_catalog(), run_id)
        done = ", ".join(f"{count.num_in} {count.what} ({count.stage})" for count in summary.counts) or "nothing yet"
        say(f"committed: {done}; newest policy {summary.policy_name or 'none'}; store {settings().store_uri}")
    say(f"resume: {resume_command()}   (what is committed is not repeated)")


def resume_command() -> str:
    """The command that goes on: the same one."""
    return shlex.join(["assay", *sys.argv[1:]])


def tell_end(run_id: str, *, as_json: bool) -> None:
    from console.ending import next_lines, summary_lines
    from console.report import write_report
    from console.sql import open_catalog
    from console.summary import summarise

    catalog = open_catalog()
    path = report_path(run_id)
    summary = summarise(catalog, run_id, store=settings().store_uri, report=str(path))
    write_report(catalog, summary, path)
    say()
    for line in [*summary_lines(summary), *next_lines(summary)]:
        say(line)
    if as_json:
        put_json(summary.as_json())


def report_path(run_id: str) -> Path:
    """Where a run's report lies unless told otherwise."""
    return settings().home_dir / "reports" / f"{run_id}.html"
