"""`assay run`: say what will happen, check everything, run the flow under a live screen, say what came out.

config -> first line -> plugins, sandbox, disk, model, store | Prefect server -> flow -> summary, report, next steps
"""

import asyncio
import os
import shlex
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from assay.config import PostTrainConfig
from assay.errors import AssayError
from assay.settings import settings
from console.configure import Wishes, build_config, check_plugins, expected_s
from console.live import Picture, shown
from console.output import clock, put_json, say
from console.server import Server, ensure_server

INTERRUPTED = 130
BEFORE_WORK = ("sandbox", "disk", "memory", "model", "store", "vLLM")


def run(wishes: Wishes, *, as_json: bool = False) -> int:
    """Run to the end or to Ctrl-C; returns the exit code. Raises AssayError for what is wrong before or during."""
    config = build_config(wishes)
    say(first_line(config))
    check_plugins(config)
    server = prepare(config)
    use_server(server)
    picture = Picture(f"post_train {config.name}", time.monotonic(), expected_s(config))
    try:
        with shown(picture):
            run_id = asyncio.run(_flow(config))
    except (KeyboardInterrupt, asyncio.CancelledError):
        _tell_interrupted(picture)
        return INTERRUPTED
    _tell_end(run_id, as_json=as_json)
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

    with ThreadPoolExecutor(1) as beside:
        starting = beside.submit(ensure_server, say)
        for finding in examine(BEFORE_WORK, config):
            if finding.fault:
                _settle(starting)
                raise finding.fault
            say(finding.line())
        server = starting.result()
    say(f"ok    Prefect   {server.ui_url}")
    return server


def use_server(server: Server) -> None:
    """Point Prefect, which is not imported yet, at the server; its own log lines stay out of the live screen."""
    os.environ["PREFECT_API_URL"] = server.api_url
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "ERROR")


async def _flow(config: PostTrainConfig) -> str:
    from flows.post_train import post_train

    task = asyncio.current_task()
    assert task is not None
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            say("stopping: what is being written is finished first; Ctrl-C again ends at once")
            task.cancel()
        else:
            # Nothing is lost but what was in flight: rows become visible only by a finished commit.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, pressed)
    return str(await post_train(config))


def _settle(starting: "Future[Server]") -> None:
    """A fault was found: leave no half-started server, and let the fault be what is reported."""
    with suppress(AssayError):
        starting.result()


def _tell_interrupted(picture: Picture) -> None:
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


def _tell_end(run_id: str, *, as_json: bool) -> None:
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
