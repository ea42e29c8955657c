"""The `assay` command. stdout is data, stderr is talk; `--json` is on everything that reads.

Commands import what they need when they run, so `assay --help` answers at once. Exit codes: 0 all is well, 1 a fault
or a bad finding, 2 the command line or configuration, 3 the store, 4 the sandbox, 5 the engine, 130 Ctrl-C.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from assay.errors import AssayError, ConfigurationError, EngineError, SandboxError, StoreError

CODES = {ConfigurationError: 2, StoreError: 3, SandboxError: 4, EngineError: 5}

app = typer.Typer(
    name="assay",
    help="Post-training for language models that learns only from environments it has proven.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
server_app = typer.Typer(
    help="The local Prefect server, its deployments and a worker.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(server_app, name="server")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
StoreUri = Annotated[str | None, typer.Option("--store", help="Folder or s3://bucket/prefix instead of ASSAY_STORE.")]
Run = Annotated[str | None, typer.Option("--run", help="Run id or unique prefix; the newest run otherwise.")]
Preset = Annotated[str, typer.Option("--preset", help="Preset of prefect.yaml.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file instead of a preset.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Override a key: rollout.temperature=1.0. Repeatable.")]
Domains = Annotated[str, typer.Option("--domains", help="Only these, separated by commas.")]
Sandbox = Annotated[str | None, typer.Option("--sandbox", help="Sandbox plugin.")]


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks: assay --debug COMMAND.")] = False,
) -> None:
    if debug:
        os.environ["ASSAY_DEBUG"] = "1"


@app.command()
def run(
    preset: Preset = "embedded",
    config: ConfigFile = None,
    sets: Sets = None,
    domains: Domains = "",
    engine: Annotated[str | None, typer.Option(help="Engine plugin: transformers, vllm, ...")] = None,
    sandbox: Sandbox = None,
    trainer: Annotated[str | None, typer.Option(help="Trainer plugin.")] = None,
    model: Annotated[str | None, typer.Option(help="Base model: hub id or folder.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of tasks and sampling.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Training iterations.")] = None,
    store: StoreUri = None,
    as_json: Json = False,
) -> None:
    """Post-train: inspect, filter, roll out, verify, train, evaluate. Resumes an unfinished run."""
    from console.configure import Wishes
    from console.run import run as start

    _use_store(store)
    plugins = {"engine": engine, "sandbox": sandbox, "trainer": trainer}
    wishes = Wishes(preset, config, tuple(sets or ()), domains, plugins, model, seed, iterations)
    raise typer.Exit(start(wishes, as_json=as_json))


@app.command()
def inspect(
    domains: Annotated[
        list[str] | None, typer.Argument(help="Domains, or folders of task directories; our own families otherwise.")
    ] = None,
    num: Annotated[int, typer.Option("--num", min=1, help="Tasks per domain and split.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the tasks.")] = 0,
    sandbox: Annotated[str, typer.Option(help="Sandbox plugin.")] = "bubblewrap",
    watch: Annotated[bool, typer.Option("--watch", help="Again whenever a file is saved, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Prove tasks: the ladder of probes as a table. Exit code 1 when a task that should be sound is not."""
    if watch:
        from console.watching import watch as again

        again(domains or [], num=num, seed=seed, sandbox=sandbox)
        return
    from console.inspection import inspect as start

    raise typer.Exit(start(domains or [], num=num, seed=seed, sandbox=sandbox, as_json=as_json))


@app.command()
def domains(
    name: Annotated[str | None, typer.Argument(help="One domain's card.")] = None,
    store: StoreUri = None,
    as_json: Json = False,
) -> None:
    """The catalogue: every domain there is, what it is worth, what it takes, and whether it is proven."""
    from console import domains as catalogue

    _use_store(store)
    raise typer.Exit(catalogue.one(name, as_json=as_json) if name else catalogue.every(as_json=as_json))


@app.command("new-domain")
def new_domain(
    name: Annotated[str, typer.Argument(help="A Python name, for example invoice_totals.")],
    kind: Annotated[str, typer.Option(help="qa, tool, repair or harbor.")] = "qa",
    folder: Annotated[Path, typer.Option("--in", help="Where to write it.")] = Path(),
) -> None:
    """Write a domain that works, with its test, to start from."""
    from console.new_domain import write as write_domain

    write_domain(name, kind, folder)


@app.command("try")
def try_task(
    task: Annotated[str, typer.Argument(help="DOMAIN/INDEX, DOMAIN/heldout/INDEX or FOLDER/NAME.")],
    policy: Annotated[str, typer.Option(help="Let a policy act: a model folder, a hub id, or base.")] = "",
    num: Annotated[int, typer.Option("-n", "--num", min=1, max=256, help="Rollouts of the policy.")] = 8,
    temperature: Annotated[float, typer.Option(min=0.01, max=5.0, help="Temperature of the policy.")] = 1.0,
    engine: Annotated[str, typer.Option(help="Engine plugin of the policy.")] = "transformers",
    seed: Annotated[int, typer.Option(help="Seed of the tasks.")] = 0,
    sandbox: Annotated[str, typer.Option(help="Sandbox plugin.")] = "bubblewrap",
    as_json: Json = False,
) -> None:
    """Be the agent on one task, or watch a policy be it. Exit code 1 when nothing passed."""
    if policy:
        from console.siblings import Rolling, by_policy

        how = Rolling(num=num, temperature=temperature, engine=engine, sandbox=sandbox)
        raise typer.Exit(by_policy(task, policy, how, seed=seed, as_json=as_json))
    from console.trying import by_hand

    raise typer.Exit(by_hand(task, seed=seed, sandbox=sandbox, as_json=as_json))


@app.command()
def sql(
    query: Annotated[str | None, typer.Argument(help="SQL; a prompt opens without it.")] = None,
    name: Annotated[
        str | None, typer.Option("--query", help="A named query; .queries at the prompt lists them.")
    ] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="Read the SQL from a file.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Json = False,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="Write Parquet.")] = None,
    store: StoreUri = None,
) -> None:
    """Ask the store a question."""
    from console import sql as asking

    _use_store(store)
    answer = asking.Answer(csv, as_json, parquet)
    text = asking.question(query, name, file)
    if text is None and sys.stdin.isatty():
        from console.prompt import converse

        converse(asking.open_catalog)
    else:
        asking.ask(asking.open_catalog(), text if text is not None else sys.stdin.read(), answer)


@app.command()
def show(
    wanted: Annotated[str, typer.Argument(metavar="ID", help="Trajectory, task or policy; a unique prefix will do.")],
    store: StoreUri = None,
    as_json: Json = False,
) -> None:
    """Read one trajectory, task or policy."""
    from console import show as reading
    from console.output import put, put_json
    from console.sql import open_catalog

    _use_store(store)
    view = reading.find(open_catalog(), wanted)
    if as_json:
        put_json(view)
    else:
        put("\n".join(reading.lines(view)))


@app.command()
def replay(
    wanted: Annotated[str, typer.Argument(metavar="TRAJECTORY_ID", help="A unique prefix will do.")],
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="Other sandbox than recorded: sandbox.options.max_concurrency=1. Repeatable."),
    ] = None,
    store: StoreUri = None,
    as_json: Json = False,
) -> None:
    """Play a trajectory again and compare each turn. Exit code 1 when one diverges, with its difference."""
    from console.replay import replay as start

    _use_store(store)
    raise typer.Exit(start(wanted, sets=sets or [], as_json=as_json))


@app.command()
def report(
    run_id: Run = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where to write it.")] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    store: StoreUri = None,
    as_json: Json = False,
) -> None:
    """Write the run's report: one HTML page that needs nothing else."""
    from console.status import write

    _use_store(store)
    write(run_id, out, open_it=open_it, as_json=as_json)


@app.command()
def status(
    run_id: Run = None,
    last: Annotated[bool, typer.Option("--last", help="The newest run in full.")] = False,
    store: StoreUri = None,
    as_json: Json = False,
) -> None:
    """Runs and where they stand; one in full with --last or --run."""
    from console import status as standing

    _use_store(store)
    if last or run_id:
        standing.one(run_id, as_json=as_json)
    else:
        standing.every(as_json=as_json)


@app.command()
def doctor(
    preset: Preset = "embedded",
    config: ConfigFile = None,
    sets: Sets = None,
    store: StoreUri = None,
    as_json: Json = False,
) -> None:
    """Check this machine. Exit code 1 when something has to be done, and what."""
    from console.configure import Wishes, build_config
    from console.doctor import CHECKS, examine
    from console.output import put, put_json

    _use_store(store)
    findings = []
    for finding in examine(tuple(CHECKS), build_config(Wishes(preset, config, tuple(sets or ())))):
        findings.append(finding)
        if not as_json:
            put(finding.line())
    if as_json:
        put_json([{"check": f.name, "ok": f.fault is None, "detail": f.detail} for f in findings])
    raise typer.Exit(1 if any(finding.fault for finding in findings) else 0)


@server_app.command("start")
def server_start() -> None:
    """Start it, or say where it is."""
    from console.output import put, say
    from console.server import ensure_server

    put(ensure_server(say).ui_url)


@server_app.command("stop")
def server_stop() -> None:
    """Stop the server that was started here. Its history stays."""
    from console.output import say
    from console.server import stop

    stopped = stop()
    say(f"stopped {stopped.ui_url}" if stopped else "no server was running")


@server_app.command("status")
def server_status(as_json: Json = False) -> None:
    """Where it answers. Exit code 1 when none does."""
    from console.output import put, put_json
    from console.server import check_answers, configured_url, running

    url = configured_url()
    if url:
        check_answers(url)
    local = running() if not url else None
    found = url or (local.api_url if local else "")
    if as_json:
        put_json({"api_url": found or None, "configured": bool(url), "pid": local.pid if local else None})
    else:
        put(found or "no server is running; `assay server start` starts one")
    raise typer.Exit(0 if found else 1)


@server_app.command("deploy")
def server_deploy() -> None:
    """Create the work pool and every deployment of prefect.yaml."""
    from console.deployments import deploy
    from console.output import say

    deploy(say)


@server_app.command("worker")
def server_worker() -> None:
    """Run deployments on this machine until stopped."""
    from console.deployments import worker
    from console.output import say

    worker(say)


def main() -> None:
    """The entry point: runs the command and turns errors into one line and an exit code."""
    # Plugins of a person's own lie where the command is typed; what is installed goes first.
    sys.path.append(str(Path.cwd()))
    try:
        app()
    except AssayError as error:
        _fail(error, str(error), next((code for kind, code in CODES.items() if isinstance(error, kind)), 1))
    except BrokenPipeError:
        # The reader of our output went away (`| head`); nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        _fail(error, f"unexpected {type(error).__name__}: {error} (assay --debug ... shows where)", 1)


def _fail(error: Exception, message: str, code: int) -> None:
    if os.environ.get("ASSAY_DEBUG"):
        raise error
    from console.output import one_line, say

    say(f"error: {one_line(message)}")
    sys.exit(code)


def _use_store(uri: str | None) -> None:
    """The settings are read from the environment, here and in every process that is started."""
    if uri is not None:
        os.environ["ASSAY_STORE"] = uri


if __name__ == "__main__":
    main()
