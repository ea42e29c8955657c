"""Task directories: what is read, what is refused and why, and what becomes of an episode."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assay.errors import ConfigurationError, EnvironmentAuthorError
from assay.records import Cause, Finding, TaskSpec
from assay.registry import build_plugin
from environments.artifacts import Artifacts, read
from environments.artifacts import write as write_artifacts
from environments.base import Domain, LeftOut, Outcome, play, take
from environments.catalogue import build_domain
from environments.sandboxes.base import Backend
from environments.tools import say_call
from tests.environments.domains.promises import OPTIONS
from tests.environments.formats.conftest import made
from tests.environments.formats.harbor_tasks import DOCKERFILE, TOML, harbor, sound_set, terminal_bench, write


def opened(root: Path, **options: object) -> Domain:
    return build_domain("harbor/set", {"path": str(root), **options})


def every(domain: Domain) -> dict[str, TaskSpec]:
    both = [*take(domain, "train", 100, 0), *take(domain, "heldout", 100, 0)]
    return {str(task.public["name"]): task for task in both}


def only_left_out(root: Path, **options: object) -> LeftOut:
    domain = opened(root, **options)
    assert not every(domain)
    (left,) = domain.left_out()
    return left


def test_a_set_of_both_layouts_is_read_whole(harbor_set: str) -> None:
    domain = made(harbor_set)
    assert domain.left_out() == []
    tasks = every(domain)
    assert len(tasks) == 10
    assert {tasks[name].level for name in ("answer", "pytest-outputs", "remove-logs", "tb-hello")} == {1, 2, 3}
    assert tasks["answer"].agent_timeout_s == 300.0
    assert tasks["from-data"].public["shown"].keys() == {"/data"}
    assert tasks["from-data"].public["env"] == {"MODE": "fast"}
    assert tasks["old-spelling"].public["env"] == {"WHO": "me"}
    assert tasks["fix-code"].public["files"].keys() == {"Dockerfile", "calc.py"}
    assert domain.card().levels == (1, 2, 3)


def test_tasks_stay_in_their_split_when_others_come(tmp_path: Path, harbor_set: str) -> None:
    before = every(made(harbor_set))
    root = sound_set(tmp_path / "more")
    for k in range(5):
        harbor(root, f"more-{k}")
    after = every(build_domain("harbor/sound", {**OPTIONS[harbor_set], "path": str(root)}))
    assert {name: after[name].split for name in before} == {name: task.split for name, task in before.items()}


def test_tasks_that_share_a_prompt_or_an_answer_are_never_on_both_sides(tmp_path: Path) -> None:
    for k in range(12):
        harbor(tmp_path, f"same-prompt-{k}", instruction="Do it.")
        write(harbor(tmp_path, f"same-answer-{k}"), {"solution/solve.sh": "#!/bin/bash\necho 42 > answer.txt\n"})
    tasks = every(opened(tmp_path, heldout_share=0.5))
    for kind in ("same-prompt", "same-answer"):
        assert len({task.split for name, task in tasks.items() if name.startswith(kind)}) == 1


REFUSED: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "compose": (lambda r: harbor(r, "t", environment__docker_DASH_compose_DOT_yaml=""), "compose", "containers"),
    "gpu": (lambda r: harbor(r, "t", environment="gpus = 1"), "environment.gpus", "a GPU"),
    "tpu": (lambda r: harbor(r, "t", environment='tpu = {type = "v5e"}'), "environment.tpu", "a TPU"),
    "windows": (lambda r: harbor(r, "t", environment='os = "windows"'), "environment.os", "Linux"),
    "hosts": (lambda r: harbor(r, "t", environment='network_mode = "allowlist"'), "network_mode", "a network"),
    "mcp": (lambda r: harbor(r, "t", environment='mcp_servers = [{name = "x"}]'), "mcp_servers", "MCP servers"),
    "health": (lambda r: harbor(r, "t", environment='healthcheck = {command = "x"}'), "healthcheck", "health check"),
    "memory": (lambda r: harbor(r, "t", environment='memory = "64G"'), "memory_mb", "max_memory_mb"),
    "separate": (
        lambda r: harbor(r, "t", environment='[verifier.environment]\ndocker_image = "x"'), "environment_mode", "own",
    ),
    "steps": (lambda r: harbor(r, "t", steps__one__instruction_DOT_md="x"), "steps", "several steps"),
    "variable": (lambda r: harbor(r, "t", environment='env = {KEY = "${OPENAI_API_KEY}"}'), "env.KEY", "not passed on"),
    "base": (lambda r: harbor(r, "t", dockerfile="FROM node:22\n"), "FROM", "only plain debian"),
    "stages": (lambda r: harbor(r, "t", dockerfile="FROM debian AS a\nFROM debian\n"), "FROM", "one FROM"),
    "apt": (lambda r: harbor(r, "t", dockerfile=f"{DOCKERFILE}RUN apt install -y no-such-thing\n"), "RUN", "no-such-"),
    "pip": (lambda r: harbor(r, "t", dockerfile=f"{DOCKERFILE}RUN pip install numpy==2\n"), "RUN", "numpy"),
    "clone": (lambda r: harbor(r, "t", dockerfile=f"{DOCKERFILE}RUN git clone https://x.y/z\n"), "RUN", "no network"),
    "root": (lambda r: harbor(r, "t", dockerfile=f"{DOCKERFILE}RUN mkdir /data\n"), "RUN", "outside of the work dir"),
    "url": (lambda r: harbor(r, "t", dockerfile=f"{DOCKERFILE}ADD https://x.y/z /app/\n"), "ADD", "own folder"),
    "service": (lambda r: harbor(r, "t", dockerfile=f"{DOCKERFILE}ENTRYPOINT [\"run\"]\n"), "ENTRYPOINT", "honoured"),
    "test fetches": (lambda r: harbor(r, "t", test="#!/bin/bash\npip install requests\n"), "tests/test.sh", "requests"),
    "solution fetches": (lambda r: harbor(r, "t", solve="curl -O https://x.y/z\n"), "solve.sh", "no network"),
    "parser": (
        lambda r: terminal_bench(r, "t", tests="x", solve="x", **{"task.yaml": "instruction: x\nparser_name: a\n"}),
        "parser_name", "pytest",
    ),
    "services": (
        lambda r: terminal_bench(r, "t", tests="x", solve="x", **{"docker-compose.yaml": "services: {a: {}, b: {}}\n"}),
        "services", "several containers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_here_is_left_out_as_unsupported(tmp_path: Path, name: str) -> None:
    make, key, why = REFUSED[name]
    folder = make(tmp_path)
    for odd in folder.rglob("*_DASH_*"):
        odd.rename(odd.with_name(odd.name.replace("_DASH_", "-")))
    left = only_left_out(tmp_path)
    assert left.unsupported
    assert left.where == "t"
    assert key in left.key
    assert why in left.why


BROKEN: dict[str, tuple[dict[str, str], str, str]] = {
    "no key": ({"task.toml": "[verifier]\ntimeout_sec = 'soon'\n"}, "verifier.timeout_sec", "valid number"),
    "infinite": ({"task.toml": "[agent]\ntimeout_sec = inf\n"}, "agent.timeout_sec", "finite"),
    "negative": ({"task.toml": "[environment]\nmemory_mb = -1\n"}, "environment.memory_mb", "greater than 0"),
    "size": ({"task.toml": "[environment]\nmemory = 'lots'\n"}, "environment", "such as '4G'"),
    "version": ({"task.toml": 'schema_version = "7.0"\n'}, "schema_version", "match pattern"),
    "name": ({"task.toml": '[task]\nname = "../../x"\n'}, "task.name", "match pattern"),
    "bad toml": ({"task.toml": "[task\n"}, "task.toml", "not valid TOML"),
    "own table": ({"task.toml": "[assay]\nlevle = 1\n"}, "assay.levle", "not permitted"),
    "blank": ({"instruction.md": " \n"}, "instruction.md", "blank"),
    "empty tests": ({"tests/test.sh": "\n"}, "tests/test.sh", "empty"),
    "escape": ({"environment/Dockerfile": f"{DOCKERFILE}COPY ../../secret .\n"}, "COPY", "out of the task's folder"),
    "missing file": ({"environment/Dockerfile": f"{DOCKERFILE}COPY nothing .\n"}, "COPY", "no such file"),
    "no FROM": ({"environment/Dockerfile": "# nothing\n"}, "Dockerfile", "FROM"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_left_out_with_key_and_reason_and_the_rest_loads(tmp_path: Path, name: str) -> None:
    files, key, why = BROKEN[name]
    write(harbor(tmp_path, "t"), files)
    harbor(tmp_path, "sound")
    domain = opened(tmp_path)
    (left,) = domain.left_out()
    assert (left.where, left.unsupported) == ("t", False)
    assert key in left.key
    assert why in left.why
    assert list(every(domain)) == ["sound"]


def test_an_image_that_would_hold_the_hidden_tests_is_refused(tmp_path: Path) -> None:
    terminal_bench(tmp_path, "t", tests="x = 1\n", solve="true\n", Dockerfile=f"{DOCKERFILE}COPY . .\n")
    left = only_left_out(tmp_path)
    assert (left.key, left.why) == ("Dockerfile: COPY", "it would show the agent what is hidden")


@pytest.mark.parametrize("place", ["/usr/src/app", "/tests/x", "/tmp/x"])
def test_a_work_dir_that_is_taken_is_refused_unless_an_image_has_it(tmp_path: Path, place: str) -> None:
    harbor(tmp_path, "t", dockerfile=f"FROM debian\nWORKDIR {place}\n")
    assert only_left_out(tmp_path).key == "WORKDIR"
    assert len(every(opened(tmp_path, images={"t": "/some/image.tar"}))) == (place == "/usr/src/app")


def test_files_that_lead_elsewhere_or_are_giants_are_refused_without_reading_them(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    (harbor(tmp_path, "link") / "tests/more").symlink_to(tmp_path / "secret")
    (harbor(tmp_path, "said-by-link") / "instruction.md").unlink()
    (tmp_path / "said-by-link/instruction.md").symlink_to(tmp_path / "secret")
    with (harbor(tmp_path, "giant") / "environment/data.bin").open("wb") as file:
        file.truncate(1 << 30)
    with (harbor(tmp_path, "long-words") / "instruction.md").open("wb") as file:
        file.truncate(1 << 30)
    (harbor(tmp_path, "latin") / "instruction.md").write_bytes(b"caf\xe9")
    (tmp_path / "linked").symlink_to(harbor(tmp_path, "sound"))
    (tmp_path / "nothing").mkdir()
    domain = opened(tmp_path)
    reasons = {left.where: f"{left.key}: {left.why}: {left.value}" for left in domain.left_out()}
    assert list(every(domain)) == ["sound"]
    assert "links are not followed: a link" in reasons["link"]
    assert "instruction.md: a regular file is needed here: a link" in reasons["said-by-link"]
    assert "data.bin: too large" in reasons["giant"]
    assert "1,073,741,824 bytes" in reasons["giant"]
    assert "1,073,741,824 bytes" in reasons["long-words"]
    assert "byte 3" in reasons["latin"]
    assert "real folder" in reasons["linked"]
    assert "task.toml (Harbor) or task.yaml" in reasons["nothing"]


def test_a_second_task_of_the_same_name_is_left_out(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        harbor(tmp_path, folder, toml=TOML.format(name="one", environment="", difficulty="easy"))
    left = only_left_out_of_two(tmp_path)
    assert (left.where, left.key, left.value) == ("b", "name", "ours/one")


def only_left_out_of_two(root: Path) -> LeftOut:
    domain = opened(root)
    assert len(every(domain)) == 1
    (left,) = domain.left_out()
    return left


@pytest.mark.parametrize("path", ["", "/no/such/folder"])
def test_a_set_that_is_not_there_is_an_error_of_the_configuration(path: str) -> None:
    with pytest.raises(ConfigurationError, match="give the folder that holds the task directories"):
        build_domain("harbor/set", {"path": path})


async def test_the_usual_test_script_with_installers_runs_and_changes_travel_with_their_modes(
    harbor_set: str, sandboxes: Backend
) -> None:
    domain = made(harbor_set)
    tasks = every(domain)
    for name in ("pytest-outputs", "executable", "remove-logs", "tb-sorted"):
        known = domain.solutions(tasks[name])
        outcome = await play(domain, tasks[name], known.oracle, sandboxes)
        verdict = await domain.verify(tasks[name], outcome, sandboxes)
        assert (verdict.passed, verdict.reward, verdict.judged) == (True, 1.0, "in_process"), verdict
        left = read(outcome.submission)
        if name == "executable":
            assert left.executable == ("hello.sh",)
        if name == "pytest-outputs":
            assert set(left.files) == {"out/sum.txt"}  # what was there before and is still the same stays behind
            assert "1 passed" in next(term.note for term in verdict.terms if term.name == "tests")


REWARDS = {
    "no file": ("true", "neither reward.json nor reward.txt"),
    "not a number": ("echo yes > /logs/verifier/reward.txt", "'yes\\n', which is not a number"),
    "endless": ("sleep 60", "did not end within 1 s"),
}


@pytest.mark.parametrize("name", REWARDS)
async def test_tests_that_leave_no_reward_are_the_verifiers_failure(
    tmp_path: Path, name: str, sandboxes: Backend
) -> None:
    command, found = REWARDS[name]
    folder = harbor(tmp_path, "t", test=f"#!/bin/bash\necho said\n{command}\n")
    text = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(text.replace("timeout_sec = 60.0", "timeout_sec = 1.0"))
    domain = opened(tmp_path)
    verdict = await domain.verify(every(domain)["t"], Outcome(submission="{}"), sandboxes)
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.VERIFIER
    assert found in verdict.failure.detail
    assert "said" in verdict.failure.detail


async def test_the_agent_finds_neither_tests_nor_solution_and_what_it_forges_does_not_count(
    tmp_path: Path, sandboxes: Backend
) -> None:
    harbor(tmp_path, "t", test="grep -qx 42 /app/answer.txt")
    domain = opened(tmp_path)
    task = every(domain)["t"]
    episode = await domain.open(task, sandboxes)
    look = "ls -A /tests /solution /logs/verifier 2>&1; echo 1 > /logs/verifier/reward.txt; pwd"
    shown = (await episode.reply(say_call("run", command=look))).observation
    outcome = await episode.outcome()
    await episode.close()
    assert "/solution:\n" in shown
    assert "No such file" in shown
    assert "test.sh" not in shown
    assert "/app\n" in shown
    verdict = await domain.verify(task, outcome, sandboxes)
    assert (verdict.valid, verdict.reward) == (True, 0.0)


async def test_a_task_without_a_solution_is_unproven_and_not_an_error(tmp_path: Path, sandboxes: Backend) -> None:
    harbor(tmp_path, "t", solve=None)
    domain = opened(tmp_path)
    task = every(domain)["t"]
    assert domain.check(task) == []
    with pytest.raises(EnvironmentAuthorError, match="no reference solution"):
        domain.solutions(task)
    evidence = await build_plugin("probe", "oracle_accepted").run(task, domain, sandboxes, 0)
    assert evidence.finding is Finding.UNKNOWN
    assert evidence.summary.startswith("could not look: ours/t has no reference solution")


async def test_a_folder_that_changes_after_its_tasks_were_made_is_blamed_on_the_environment(
    tmp_path: Path, sandboxes: Backend
) -> None:
    folder = harbor(tmp_path, "t")
    before, task = opened(tmp_path), every(opened(tmp_path))["t"]
    write(folder, {"tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"})
    again = await opened(tmp_path).verify(task, Outcome(submission="{}"), sandboxes)
    assert again.failure is not None
    assert again.failure.cause is Cause.ENVIRONMENT
    assert "has changed" in again.failure.detail
    late = await before.verify(task, Outcome(submission="{}"), sandboxes)
    assert late.failure is not None
    assert late.failure.cause is Cause.ENVIRONMENT


async def test_a_dockerfile_command_that_fails_is_the_authors_error(tmp_path: Path, sandboxes: Backend) -> None:
    harbor(tmp_path, "t", dockerfile=f"{DOCKERFILE}RUN cp nothing here\n")
    domain = opened(tmp_path)
    with pytest.raises(EnvironmentAuthorError, match="RUN 'cd /app && cp nothing here'"):
        await domain.open(every(domain)["t"], sandboxes)


OWN = """schema_version = "1.4"
[environment]
docker_image = "python:3.12-slim"
[assay]
level = 4
split = "heldout"
value = "Adds"
artifacts = ["*.py"]
[assay.cases]
module = "calc"
entry = "add"
"""


async def test_our_own_table_gives_level_split_scripts_and_cases_judged_out_of_process(
    tmp_path: Path, sandboxes: Backend
) -> None:
    folder = harbor(tmp_path, "t", toml=OWN, solve="echo 'add = lambda a, b: a + b' > calc.py; echo x > notes.txt\n")
    (folder / "environment/Dockerfile").unlink()
    write(folder, {
        "assay/cases.jsonl": '{"args": [1, 2], "expected": 3}\n{"args": ["a", "b"], "expected": "ab"}\n',
        "assay/wrong/minus.sh": "echo 'add = lambda a, b: a - b' > calc.py\n",
        "assay/equivalent/def.sh": "printf 'def add(a, b):\\n    return a + b\\n' > calc.py\n",
    })  # fmt: skip
    domain = opened(tmp_path)
    task = every(domain)["t"]
    known = domain.solutions(task)
    assert (task.split, task.level, domain.card().value) == ("heldout", 4, "Adds")
    assert "expected" not in str(task.public)
    outcome = await play(domain, task, known.oracle, sandboxes)
    assert set(read(outcome.submission).files) == {"calc.py"}
    right = [await domain.verify(task, outcome, sandboxes)]
    right.append(await domain.verify(task, await play(domain, task, known.equivalent[-1], sandboxes), sandboxes))
    assert [(v.reward, v.judged) for v in right] == [(1.0, "out_of_process")] * 2
    wrong = await domain.verify(task, await play(domain, task, known.wrong[-1], sandboxes), sandboxes)
    assert (wrong.valid, wrong.passed) == (True, False)


async def test_an_image_is_used_where_the_base_is_not_plain(tmp_path: Path, sandboxes: Backend) -> None:
    harbor(tmp_path, "t", dockerfile="FROM node:22\nWORKDIR /app\nRUN npm ci\n")
    domain = opened(tmp_path, images={"t": "/no/such/image.tar"})
    task = every(domain)["t"]
    assert task.public["given"] is True
    verdict = await domain.verify(task, Outcome(submission="{}"), sandboxes)
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.SANDBOX


def test_a_task_of_another_set_is_not_opened(tmp_path: Path) -> None:
    harbor(tmp_path, "t")
    domain = opened(tmp_path)
    stranger = replace(every(domain)["t"], public={"name": "other"})
    assert domain.check(stranger) == ["the set has no task 'other'"]
    with pytest.raises(EnvironmentAuthorError, match="no such task"):
        domain.solutions(stranger)


async def test_another_task_without_a_reference_does_not_keep_a_sound_one_from_being_inspected(
    tmp_path: Path, sandboxes: Backend
) -> None:
    harbor(tmp_path, "a-bare", solve=None)
    harbor(tmp_path, "sound")
    domain = opened(tmp_path, heldout_share=0)
    evidence = await build_plugin("probe", "junk_rejected").run(every(domain)["sound"], domain, sandboxes, 0)
    assert evidence.finding is Finding.CLEAR, evidence.summary


async def test_equal_work_leaves_equal_states(tmp_path: Path, sandboxes: Backend) -> None:
    harbor(tmp_path, "t", dockerfile=f"{DOCKERFILE}RUN mkdir -p a/b && touch a/b/c\n")
    domain = opened(tmp_path)
    digests = []
    for text in ("one", "one", "two"):
        episode = await domain.open(every(domain)["t"], sandboxes)
        await episode.reply(say_call("run", command=f"echo {text} > f; chmod +x f"))
        digests.append(await episode.state_hash())
        await episode.close()
    assert digests[0] == digests[1] != digests[2]


async def test_a_submission_that_was_made_up_is_graded_and_leads_nowhere(tmp_path: Path, sandboxes: Backend) -> None:
    harbor(tmp_path, "t")
    domain = opened(tmp_path)
    files = {"answer.txt": b"42\n", "../x": b"1", "/tests/test.sh": b"1", "a": b"1", "a/b": b"2", "n\0": b"", "": b""}
    made_up = Artifacts(files=files, removed=("../..", "/", "gone"), executable=("nothing",))
    for submission, reward in ((write_artifacts(made_up), 1.0), ('{"answer": "", "files": {"a": {}}}', 0.0)):
        verdict = await domain.verify(every(domain)["t"], Outcome(submission=submission), sandboxes)
        assert (verdict.valid, verdict.reward) == (True, reward), verdict
