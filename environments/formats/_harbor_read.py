"""A task directory, in Harbor's layout or in the older one of Terminal-Bench, as what is needed to run it here.

task.toml  instruction.md  environment/  tests/test.sh   solution/solve.sh          Harbor
task.yaml  Dockerfile  docker-compose.yaml  run-tests.sh  tests/  solution.sh       Terminal-Bench
assay/wrong/*.sh  assay/equivalent/*.sh  assay/cases.jsonl                          ours, beside either
"""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from assay.records import record
from environments.formats import _folder
from environments.formats._commands import first_need
from environments.formats._dockerfile import DEFAULT_DIR, Recipe, check_base, read_dockerfile
from environments.formats._faults import Unusable, unsupported
from environments.formats._folder import Entry, Files, read_folder, read_text
from environments.formats._harbor_models import Assay, TaskToml, TaskYaml
from environments.formats._harbor_parts import checked, ours_beside, parse_toml, variables

Layout = Literal["harbor", "terminal_bench"]
_OURS = ("/tests", "/solution", "/logs", "/tmp", "/proc", "/dev")
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64")
_NOT_SHOWN = {"tests", "run-tests.sh", "solution.sh", "solution.yaml", "task.yaml", "assay", "assay.toml"}
_LEVELS = {"easy": 1, "medium": 2, "hard": 3}
_COMPOSE_KEYS = {
    "build",
    "image",
    "container_name",
    "command",
    "environment",
    "volumes",
    "working_dir",
    "tty",
    "stdin_open",
}


@record
class Work:
    """One task. `base` are the files of the work dir before the agent, `shown` those elsewhere (by folder, read-only);
    `tests` lie below /tests, `runner` is the one that is started. `image` is a tar or empty. Times in seconds.
    """

    name: str
    layout: Layout
    folder: Path
    instruction: str
    image: str
    base_image: str
    work_dir: str
    env: Mapping[str, str]
    base: Files
    shown: Mapping[str, Files]
    commands: tuple[str, ...]
    tests: Files
    runner: str
    tests_env: Mapping[str, str]
    solution: Files
    solver: str
    solution_env: Mapping[str, str]
    wrong: Mapping[str, str]
    equivalent: Mapping[str, str]
    agent_timeout_s: float | None
    tests_timeout_s: float
    memory_mb: int | None
    level: int
    version: str
    assay: Assay = field(default_factory=Assay)
    cases: tuple[Mapping[str, Any], ...] = ()


def read_task(folder: Path, images: Mapping[str, str], *, stand_ins: bool) -> Work:
    """Raises Unusable, naming key and value, for what is broken and for what cannot be done here."""
    if (folder / "task.toml").exists():
        work = _read_harbor(folder, images)
    elif (folder / "task.yaml").exists():
        work = _read_terminal_bench(folder, images)
    else:
        raise Unusable("a task has task.toml (Harbor) or task.yaml (Terminal-Bench)", key="task.toml", value="nothing")
    _check_scripts(work, stand_ins=stand_ins)
    return work


# --- Harbor -----------------------------------------------------------------------------------------------------------


def _read_harbor(folder: Path, images: Mapping[str, str]) -> Work:
    said = checked(TaskToml, parse_toml(read_text(folder, "task.toml"), "task.toml"))
    _check_possible(said, folder)
    name = said.task.name or folder.name
    image = images.get(name, images.get(folder.name, ""))
    context = read_folder(folder / "environment")
    recipe = _recipe(folder, context, said, image)
    work_dir = said.environment.workdir or recipe.work_dir
    base, shown = _placed(recipe, context, work_dir, given=bool(image))
    tests, solution = read_folder(folder / "tests"), read_folder(folder / "solution")
    return Work(
        name=name,
        layout="harbor",
        folder=folder,
        instruction=_instruction(folder),
        image=image,
        base_image=recipe.base,
        work_dir=work_dir,
        env={**recipe.env, **variables("environment.env", said.environment.env)},
        base=base,
        shown=shown,
        commands=recipe.commands,
        tests=tests,
        runner="test.sh",
        tests_env=variables("verifier.env", said.verifier.env),
        solution=solution,
        solver="solve.sh" if "solve.sh" in solution else "",
        solution_env=variables("solution.env", said.solution.env),
        **ours_beside(folder, said.assay),
        agent_timeout_s=said.agent.timeout_sec,
        tests_timeout_s=said.verifier.timeout_sec,
        memory_mb=said.environment.memory_mb,
        level=said.assay.level or _LEVELS.get(str(said.metadata.difficulty).lower(), 1),
        version=str(said.task.version),
    )


def _check_possible(said: TaskToml, folder: Path) -> None:
    """Raises Unusable for the first thing that needs more than a sandbox has."""
    place, tests = said.environment, said.verifier
    asked: list[tuple[bool, str, Any, str]] = [
        (bool(said.steps) or (folder / "steps").exists(), "steps", len(said.steps), "tasks of several steps"),
        (place.os != "linux", "environment.os", place.os, "another system than Linux"),
        (place.gpus > 0, "environment.gpus", place.gpus, "a GPU"),
        (bool(place.tpu), "environment.tpu", place.tpu, "a TPU"),
        (bool(place.mcp_servers), "environment.mcp_servers", place.mcp_servers, "MCP servers"),
        (place.healthcheck is not None, "environment.healthcheck", place.healthcheck, "services with a health check"),
        (bool(place.skills_dir), "environment.skills_dir", place.skills_dir, "a folder of skills"),
        (place.network_mode == "allowlist", "environment.network_mode", place.network_mode, "a network"),
        (said.agent.network_mode == "allowlist", "agent.network_mode", said.agent.network_mode, "a network"),
        (tests.network_mode == "allowlist", "verifier.network_mode", tests.network_mode, "a network"),
        (
            tests.environment_mode == "separate" or tests.environment is not None,
            "verifier.environment_mode",
            "separate",
            "tests in an environment of their own",
        ),
        (bool(tests.collect), "verifier.collect", tests.collect, "commands that collect before the tests"),
    ]
    for holds, key, value, what in asked:
        if holds:
            raise unsupported(f"{what} cannot be had in a sandbox here", key, value)
    for name in ("docker-compose.yaml", "docker-compose.yml", "singularity-compose.yaml"):
        if (folder / "environment" / name).exists():
            raise unsupported("several containers cannot be had here", f"environment/{name}", "a compose file")


def _recipe(folder: Path, context: Files, said: TaskToml, image: str) -> Recipe:
    if "Dockerfile" in context:
        text = read_text(folder / "environment", "Dockerfile")
        return read_dockerfile(text, list(context), bare=not image)
    if said.environment.docker_image:
        if not image:
            check_base(said.environment.docker_image, "environment.docker_image")
        # Without a Dockerfile the folder's files go into the work dir.
        copies = {f"{said.environment.workdir or DEFAULT_DIR}/{path}": path for path in context}
        return Recipe(base=said.environment.docker_image, copies=copies)
    raise Unusable("a task has environment/Dockerfile or docker_image", key="environment", value="neither")


def _instruction(folder: Path) -> str:
    text = read_text(folder, "instruction.md")
    if not text.strip():
        raise Unusable("the instruction is blank", key="instruction.md", value=text)
    return text


# --- Terminal-Bench ---------------------------------------------------------------------------------------------------


def _read_terminal_bench(folder: Path, images: Mapping[str, str]) -> Work:
    said = checked(TaskYaml, _folder.parse_yaml(read_text(folder, "task.yaml"), "task.yaml"))
    if said.parser_name != "pytest":
        raise unsupported("only pytest's output is read here", "parser_name", said.parser_name)
    if said.run_tests_in_same_shell:
        raise unsupported("tests run in a new sandbox", "run_tests_in_same_shell", said.run_tests_in_same_shell)
    _check_compose(folder)
    image = images.get(folder.name, "")
    everything = read_folder(folder)
    recipe = read_dockerfile(read_text(folder, "Dockerfile"), list(everything), bare=not image)
    if leaked := [path for path in recipe.copies.values() if path.split("/")[0] in _NOT_SHOWN]:
        raise Unusable("it would show the agent what is hidden", key="Dockerfile: COPY", value=leaked[0])
    base, shown = _placed(recipe, everything, recipe.work_dir, given=bool(image))
    tests = read_folder(folder / "tests")
    if "run-tests.sh" not in everything:
        raise Unusable("this file is required", key="run-tests.sh", value="nothing")
    solution = {"solution.sh": everything["solution.sh"]} if "solution.sh" in everything else {}
    ours = checked(
        Assay, parse_toml(read_text(folder, "assay.toml"), "assay.toml") if (folder / "assay.toml").exists() else {}
    )
    return Work(
        name=folder.name,
        layout="terminal_bench",
        folder=folder,
        instruction=said.instruction,
        image=image,
        base_image=recipe.base,
        work_dir=recipe.work_dir,
        env=recipe.env,
        base=base,
        shown=shown,
        commands=recipe.commands,
        tests={**tests, "run-tests.sh": everything["run-tests.sh"]} if tests else {},
        runner="run-tests.sh",
        tests_env={"TEST_DIR": "/tests"},
        solution=solution,
        solver="solution.sh" if solution else "",
        solution_env={},
        **ours_beside(folder, ours),
        agent_timeout_s=said.max_agent_timeout_sec,
        tests_timeout_s=said.max_test_timeout_sec,
        memory_mb=None,
        level=ours.level or _LEVELS.get(str(said.difficulty).lower(), 1),
        version="",
    )


def _check_compose(folder: Path) -> None:
    """The usual file with one plain service says nothing more than the Dockerfile."""
    if not (folder / "docker-compose.yaml").exists():
        return
    said = _folder.parse_yaml(read_text(folder, "docker-compose.yaml"), "docker-compose.yaml")
    services = said.get("services") if isinstance(said, dict) else None
    if not isinstance(services, dict) or not all(isinstance(each, dict) for each in services.values()):
        raise Unusable("it must have a table of services", key="docker-compose.yaml", value=services)
    if len(services) != 1:
        raise unsupported("several containers cannot be had here", "docker-compose.yaml: services", list(services))
    (service,) = services.values()
    if more := sorted(set(map(str, service)) - _COMPOSE_KEYS):
        raise unsupported(f"{', '.join(more)} cannot be had here", "docker-compose.yaml", ", ".join(more))


# --- both -------------------------------------------------------------------------------------------------------------


def _top(path: str) -> str:
    return "/" + path.lstrip("/").split("/")[0]


def _placed(
    recipe: Recipe, context: Files, work_dir: str, *, given: bool
) -> tuple[dict[str, Entry], dict[str, dict[str, Entry]]]:
    """Copied files below the work dir, and those elsewhere by the folder that shows them."""
    taken = _OURS if given else (*_OURS, *_SYSTEM)
    if _top(work_dir) in taken or posixpath.normpath(work_dir) != work_dir or "\0" in work_dir:
        raise unsupported(f"a work dir must be a folder of its own, not below {', '.join(taken)}", "WORKDIR", work_dir)
    base: dict[str, Entry] = {}
    shown: dict[str, dict[str, Entry]] = {}
    for inside, path in recipe.copies.items():
        if inside.startswith(f"{work_dir}/"):
            base[inside.removeprefix(f"{work_dir}/")] = context[path]
            continue
        top, _, rest = inside.lstrip("/").partition("/")
        if not rest or f"/{top}" in (*_OURS, *_SYSTEM, "/opt", "/root") or _top(work_dir) == f"/{top}":
            raise unsupported(
                "nothing can be placed there: only the work dir and new folders", "Dockerfile: COPY", inside
            )
        shown.setdefault(f"/{top}", {})[rest] = context[path]
    return base, shown


def _check_scripts(work: Work, *, stand_ins: bool) -> None:
    """Tests must be there, and neither they nor the reference may need what is not here."""
    if work.runner not in work.tests and not work.cases:
        where = f"tests/{work.runner}" if work.layout == "harbor" else "tests"
        raise Unusable("a task without tests cannot be verified", key=where, value="nothing")
    scripts = {
        f"tests/{work.runner}": work.tests.get(work.runner),
        f"the solution's {work.solver}": work.solution.get(work.solver),
    }
    for name, found in scripts.items():
        if found is None:
            continue
        text = read_text(found.source.parent, found.source.name)
        if not text.strip():
            raise Unusable("it is empty", key=name, value="nothing")
        if need := first_need(text):
            raise unsupported(f"it needs what is not here: {need}", name, "a command that fetches")
    if not stand_ins and first_installer(work):
        raise unsupported(
            "its tests call installers, for which the option `stand_ins` has replacements",
            f"tests/{work.runner}",
            first_installer(work),
        )


def first_installer(work: Work) -> str:
    """The first installer that the tests' script calls, empty when there is none."""
    found = work.tests.get(work.runner)
    text = read_text(found.source.parent, found.source.name) if found else ""
    match = re.search(r"(?m)^(?!\s*#).*?\b(apt-get|uvx?|pip3?|curl)\s", text)
    return match[1] if match else ""
