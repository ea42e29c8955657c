"""Whatever stands in the files of others, readers answer with a line of what is wrong, never with a crash."""

import contextlib
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from environments.base import Domain, LeftOut, take
from environments.catalogue import build_domain
from environments.formats._commands import Need, first_need, without_installs
from environments.formats._dockerfile import is_plain, read_dockerfile
from environments.formats._faults import Unusable
from environments.formats._folder import parse_yaml
from environments.formats._harbor_models import Assay, TaskToml, TaskYaml
from environments.formats._harbor_parts import checked, parse_toml
from environments.formats._rewards import BadReward, read_pytest, read_reward
from environments.formats._swe_rows import Row
from tests.environments.formats.harbor_tasks import harbor, terminal_bench

FEW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = """
task verifier environment agent solution steps assay metadata schema_version version source name timeout_sec env memory
storage memory_mb cpus gpus tpu allow_internet network_mode docker_image workdir mcp_servers healthcheck level split
cases artifacts instruction parser_name instance_id repo base_commit patch test_patch FAIL_TO_PASS PASS_TO_PASS
difficulty problem_statement
"""
KEYS = st.sampled_from(NAMES.split())
TABLES = st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=4), max_size=6)


def fault_of(call: Callable[[], object]) -> Exception | None:
    """The fault that a reader finds, None when it finds none; anything else it raises fails the test."""
    try:
        call()
    except (Unusable, Need, BadReward) as fault:
        return fault
    return None


@FEW
@given(TABLES)
def test_any_values_make_a_model_or_one_clear_fault(values: dict[str, Any]) -> None:
    for model in (TaskToml, TaskYaml, Assay, Row):
        fault = fault_of(lambda model=model: checked(model, values))  # type: ignore[misc]
        if isinstance(fault, Unusable):
            assert fault.key
            assert fault.why
            assert len(fault.value) <= 80


@FEW
@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda data: data.decode("latin-1")))
def test_any_text_is_toml_or_yaml_or_a_fault(text: str) -> None:
    for parse in (parse_toml, parse_yaml):
        fault = fault_of(lambda parse=parse: parse(text, "file"))  # type: ignore[misc]
        assert fault is None or isinstance(fault, Unusable)


@pytest.mark.parametrize("text", ["[" * 50_000, "a: &x [1]\nb: *x\n", "2001-99-99", "!!python/object:os.x", "{"])
def test_yaml_that_is_a_trap_is_a_fault(text: str) -> None:
    with pytest.raises(Unusable, match="is not valid YAML"):
        parse_yaml(text, "file")


PARTS = """FROM RUN COPY ADD WORKDIR ENV ARG python:3.12 debian . .. / /app a.txt $X ${Y:-z} && ; | ' " \\ [ ] , =
--from=x --chown=a apt-get install -y pip curl # << é USER CMD"""
WORDS = st.sampled_from([*PARTS.split(), "\n", "\x00", ""])


@FEW
@given(st.lists(WORDS, max_size=30).map(" ".join))
def test_any_dockerfile_is_a_recipe_or_a_fault(text: str) -> None:
    for whole in (text, f"FROM debian\n{text}"):
        try:
            recipe = read_dockerfile(whole, ["a.txt", "b/c.txt"])
        except Unusable:
            continue
        assert all(inside.startswith("/") and ".." not in inside.split("/") for inside in recipe.copies)
        assert set(recipe.copies.values()) <= {"a.txt", "b/c.txt"}


@FEW
@given(st.lists(WORDS, max_size=30).map(" ".join))
def test_any_script_is_searched_for_what_it_needs(text: str) -> None:
    assert isinstance(first_need(text), str)
    fault_of(lambda: without_installs(text, writable=("/app",), shown=()))


@FEW
@given(st.text(max_size=100), st.text(max_size=100))
def test_any_reward_is_in_range_or_a_fault(of_json: str, of_text: str) -> None:
    for given_json in (None, of_json):
        with contextlib.suppress(BadReward):
            assert 0.0 <= read_reward(given_json, of_text).value <= 1.0
    with contextlib.suppress(BadReward):
        assert read_pytest(of_text)


def every(domain: Domain) -> int:
    return len(take(domain, "train", 100, 0)) + len(take(domain, "heldout", 100, 0))


def opened(files: Mapping[str, bytes], *, old: bool) -> tuple[int, list[LeftOut]]:
    """How many tasks came of a sound one and one whose files were replaced, and what was left out."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        harbor(root, "sound")
        target = terminal_bench(root, "odd", tests="x = 1\n", solve="true\n") if old else harbor(root, "odd")
        for path, data in files.items():
            (target / path).write_bytes(data)
        domain = build_domain("harbor/set", {"path": folder})
        return every(domain), list(domain.left_out())


FILES = ["task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh", "solution/solve.sh"]
OLD_FILES = ["task.yaml", "Dockerfile", "docker-compose.yaml", "run-tests.sh", "solution.sh"]


@settings(FEW, max_examples=12)
@given(st.sampled_from([*FILES, *OLD_FILES]), st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_a_file_of_any_bytes_leaves_its_task_out_or_in_and_the_other_one_loads(path: str, data: bytes) -> None:
    num, left_out = opened({path: data}, old=path in OLD_FILES)
    assert num + len(left_out) == 2
    assert all(left.where == "odd" for left in left_out)


@settings(FEW, max_examples=12)
@given(TABLES)
def test_a_task_yaml_of_any_values_leaves_its_task_out_or_in(values: dict[str, Any]) -> None:
    num, left_out = opened(
        {"task.yaml": yaml.safe_dump(values, allow_unicode=True).encode("utf-8", "replace")}, old=True
    )
    assert num + len(left_out) == 2


@settings(FEW, max_examples=12)
@given(st.lists(TABLES, max_size=3), st.binary(max_size=60))
def test_lines_of_any_values_are_left_out(rows: list[dict[str, Any]], tail: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.jsonl")
        path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows) + tail)
        domain = build_domain("swe/set", {"path": str(path)})
        assert every(domain) == 0
        assert len(domain.left_out()) >= len(rows)


def test_plain_images_are_told_from_others() -> None:
    plain = [
        "debian",
        "debian:bookworm-slim",
        "ubuntu:24.04",
        "python:3.13-slim-bookworm",
        "docker.io/library/python:3",
    ]
    plain += ["ghcr.io/laude-institute/t-bench/ubuntu-24-04:20250624", f"ubuntu@sha256:{'a' * 64}"]
    other = ["node:22", "python:2.7", "python:3-alpine", "me/python", "alexgshaw/x:1", "nvidia/cuda:12", "", "scratch"]
    assert all(map(is_plain, plain))
    assert not any(map(is_plain, other))


def test_run_lines_keep_what_is_left_to_do() -> None:
    def left(text: str) -> str:
        return without_installs(text, writable=("/app",), shown=("/data/a",))

    assert (
        left("apt-get update && apt-get install -y --no-install-recommends bash && rm -rf /var/lib/apt/lists/*") == ""
    )
    assert left("pip install --no-cache-dir pytest==8.4.1") == ""
    assert left("apt-get update; mkdir -p out && echo 'a && b' > out/x | tee /app/y") == (
        "mkdir -p out && echo 'a && b' > out/x | tee /app/y"
    )
    assert left("cp /data/a .") == "cp /data/a ."
    for text in ("npm ci", "mkdir /data", "echo x >/etc/y", "useradd me", "cat <<EOF\nx\nEOF", "wget http://x.y/z"):
        with pytest.raises(Need):
            left(text)


def test_copies_land_where_docker_would_put_them() -> None:
    def copies(line: str) -> dict[str, str]:
        return dict(read_dockerfile(f"FROM debian\nWORKDIR /app\n{line}\n", ["a.txt", "b/c.txt", "b/d/e.txt"]).copies)

    assert copies("COPY a.txt .") == {"/app/a.txt": "a.txt"}
    assert copies("COPY a.txt ./z.txt") == {"/app/z.txt": "a.txt"}
    assert copies("COPY b /data/") == {"/data/c.txt": "b/c.txt", "/data/d/e.txt": "b/d/e.txt"}
    assert copies("COPY b/*.txt a.txt in/") == {"/app/in/c.txt": "b/c.txt", "/app/in/a.txt": "a.txt"}
    assert copies('COPY ["a.txt", "/app/x"]') == {"/app/x": "a.txt"}
    assert copies("ARG D=deep\nCOPY --chown=me:me b/c.txt ${D}/") == {"/app/deep/c.txt": "b/c.txt"}
    assert len(copies("COPY . .")) == 3
