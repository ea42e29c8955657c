"""`assay status` and `assay report`: where runs stand, and the page that tells all about one."""

import webbrowser
from pathlib import Path

from assay.settings import settings
from console.ending import next_lines, summary_lines
from console.output import clock, one_line, put, put_json, say, table
from console.run import report_path
from console.runs import all_runs
from console.sql import open_catalog
from console.summary import summarise


def every(*, as_json: bool) -> None:
    """All runs, newest first."""
    runs = all_runs(open_catalog())
    if as_json:
        hidden = {"started_json", "config"}
        put_json([{key: value for key, value in run.items() if key not in hidden} for run in runs])
        return
    if not runs:
        say(f"no runs in {settings().store_uri}; `assay run` starts one")
        return
    columns = ["run", "name", "state", "at", "iteration", "attempt", "time in stages", "last event (UTC)"]
    put(
        table(
            columns,
            [
                [
                    run["run_id"],
                    f"{one_line(run['name'])} #{run['number']}",
                    run["state"],
                    run["last_stage"],
                    run["last_iteration"],
                    run["attempt"],
                    clock(run["stages_s"]),
                    run["last_at"][:19],
                ]
                for run in runs
            ],
        )
    )


def one(run_id: str | None, *, as_json: bool) -> None:
    """One run in full: what `assay run` says at its end."""
    catalog = open_catalog()
    summary = summarise(catalog, run_id, store=settings().store_uri)
    path = report_path(summary.run_id)
    if path.exists():
        summary = summarise(catalog, summary.run_id, store=settings().store_uri, report=str(path))
    if as_json:
        put_json(summary.as_json())
    else:
        put("\n".join([*summary_lines(summary), *next_lines(summary)]))


def write(run_id: str | None, out: Path | None, *, open_it: bool, as_json: bool) -> None:
    """Write the report and print its path."""
    from console.report import write_report

    catalog = open_catalog()
    summary = summarise(catalog, run_id, store=settings().store_uri)
    path = (out or report_path(summary.run_id)).absolute()
    write_report(catalog, summary, path)
    if as_json:
        put_json({"run_id": summary.run_id, "report": str(path), "bytes": path.stat().st_size})
    else:
        put(str(path))
    if open_it and not webbrowser.open(path.as_uri()):
        say("no browser could be started; open the file yourself")
