"""Instances of the SWE-bench family: both meanings of a patch, what is left out, and how tests decide."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.errors import ConfigurationError
from assay.records import Cause, TaskSpec
from environments.artifacts import read
from environments.base import Domain, Outcome, play, take
from environments.catalogue import build_domain
from environments.formats._swe_run import read_report
from environments.sandboxes.base import Backend
from environments.tools import say_call
from tests.environments.domains.promises import OPTIONS
from tests.environments.formats.conftest import made
from tests.environments.formats.swe_rows import RIGHT, bench_row, clone, commit, git, smith_row, write_rows


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    return clone(tmp_path_factory.mktemp("clones") / "shop")


def opened(path: Path, repo: Path, **options: Any) -> Domain:
    return build_domain("swe/set", {"path": str(path), "repos": {"shop/shop": str(repo)}, **options})


def every(domain: Domain) -> dict[str, TaskSpec]:
    both = [*take(domain, "train", 100, 0), *take(domain, "heldout", 100, 0)]
    return {str(task.public["instance_id"]): task for task in both}


async def look(domain: Domain, task: TaskSpec, sandboxes: Backend, command: str) -> str:
    episode = await domain.open(task, sandboxes)
    try:
        return (await episode.reply(say_call("run", command=command))).observation
    finally:
        await episode.close()


async def test_in_swe_bench_the_patch_repairs_and_hidden_tests_come_after_the_agent(
    tmp_path: Path, shop: tuple[Path, str, str], sandboxes: Backend
) -> None:
    repo, broken, _ = shop
    domain = opened(write_rows(tmp_path / "rows.jsonl", [bench_row(repo, broken)]), repo)
    (task,) = every(domain).values()
    assert task.public["kind"] == "repair"
    shown = await look(domain, task, sandboxes, "pwd; cat shop/calc.py; cat tests/test_calc.py")
    assert "/testbed" in shown
    assert "items[1:]" in shown
    assert "test_total" not in shown
    outcome = await play(domain, task, domain.solutions(task).oracle, sandboxes)
    assert read(outcome.submission).files == {"shop/calc.py": RIGHT.encode()}
    verdict = await domain.verify(task, outcome, sandboxes)
    assert (verdict.passed, verdict.reward, verdict.judged) == (True, 1.0, "in_process")


async def test_in_swe_smith_the_patch_is_the_bug_and_its_reverse_repairs(
    tmp_path: Path, shop: tuple[Path, str, str], sandboxes: Backend
) -> None:
    repo, _, right = shop
    domain = opened(write_rows(tmp_path / "rows.jsonl", [smith_row(repo, right)]), repo)
    (task,) = every(domain).values()
    assert task.public["kind"] == "bug"
    assert "// 2 + 1" in await look(domain, task, sandboxes, "cat shop/calc.py; ls tests")
    assert "test_calc" not in await look(domain, task, sandboxes, "ls tests")
    nothing = await domain.verify(task, Outcome(submission="{}"), sandboxes)
    assert (nothing.valid, nothing.reward) == (True, 0.0)
    outcome = await play(domain, task, domain.solutions(task).oracle, sandboxes)
    assert read(outcome.submission).files == {"shop/calc.py": RIGHT.encode()}
    assert (await domain.verify(task, outcome, sandboxes)).reward == 1.0


async def test_breaking_what_worked_costs_its_share(
    tmp_path: Path, shop: tuple[Path, str, str], sandboxes: Backend
) -> None:
    repo, broken, _ = shop
    domain = opened(write_rows(tmp_path / "rows.jsonl", [bench_row(repo, broken)]), repo)
    (task,) = every(domain).values()
    script = say_call("run", command="sed -i 's/items.1:./items/; s/len(items)/3/' shop/calc.py")
    verdict = await domain.verify(task, await play(domain, task, (script,), sandboxes), sandboxes)
    terms = {term.name: term.value for term in verdict.terms}
    assert (terms["fail_to_pass"], terms["pass_to_pass"], verdict.reward, verdict.passed) == (1.0, 0.0, 0.0, False)


@pytest.mark.slow
async def test_settings_and_names_that_would_lead_the_tests_astray_do_not_enter(
    tmp_path: Path, shop: tuple[Path, str, str], sandboxes: Backend
) -> None:
    repo, broken, _ = shop
    domain = opened(write_rows(tmp_path / "rows.jsonl", [bench_row(repo, broken)]), repo)
    (task,) = every(domain).values()
    for script in domain.solutions(task).wrong:
        verdict = await domain.verify(task, await play(domain, task, script, sandboxes), sandboxes)
        assert (verdict.valid, verdict.passed) == (True, False), script


LEFT_OUT: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "no repo": ({"repo": "other/other"}, "repo", "names no clone", True),
    "no commit": ({"base_commit": "0" * 40}, "base_commit", "no such commit", True),
    "not pytest's": ({"FAIL_TO_PASS": ["test_x (a.B)"]}, "FAIL_TO_PASS", "pytest's ids", True),
    "escaping id": ({"FAIL_TO_PASS": ["../x.py::test"]}, "FAIL_TO_PASS", "pytest's ids", True),
    "no ids": ({"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS", "at least 1", False),
    "ids no JSON": ({"FAIL_TO_PASS": "test_a"}, "FAIL_TO_PASS", "list of test ids", False),
    "ids no list": ({"FAIL_TO_PASS": 3}, "FAIL_TO_PASS", "valid tuple", False),
    "both": ({"PASS_TO_PASS": ["tests/test_calc.py::test_total"]}, "whole", "in FAIL_TO_PASS and in PASS", False),
    "no patch": ({"patch": None}, "patch", "required", False),
    "not a patch": ({"patch": "hello"}, "patch", "is not a patch", False),
    "escaping patch": (
        {"patch": "--- a/../../x\n+++ b/../../x\n@@ -1 +1 @@\n-a\n+b\n"}, "patch", "", False,
    ),
    "odd commit": ({"base_commit": "--output=/x"}, "base_commit", "match pattern", False),
    "blank": ({"problem_statement": " "}, "whole", "blank", False),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_cannot_be_used_is_left_out_with_the_reason_and_the_rest_loads(
    tmp_path: Path, shop: tuple[Path, str, str], name: str
) -> None:
    repo, broken, _ = shop
    changed, key, why, unsupported = LEFT_OUT[name]
    rows = [bench_row(repo, broken, instance_id="bad", **changed), bench_row(repo, broken, instance_id="good")]
    domain = opened(write_rows(tmp_path / "rows.jsonl", rows), repo)
    (left,) = domain.left_out()
    assert left.where.startswith("rows.jsonl line 1")
    assert key in left.key
    assert why in left.why
    assert left.unsupported == unsupported
    assert list(every(domain)) == ["good"]


def test_lines_that_are_no_rows_and_ids_that_come_twice_are_left_out(
    tmp_path: Path, shop: tuple[Path, str, str]
) -> None:
    repo, broken, _ = shop
    path = write_rows(tmp_path / "rows.jsonl", [bench_row(repo, broken), bench_row(repo, broken), [1], None])
    path.write_bytes(path.read_bytes() + b"{\n\xff\xfe\n" + b"[" * 50_000 + b"\n")
    reasons = [left.why for left in opened(path, repo).left_out()]
    assert reasons[:3] == ["this id was there before", "an instance is an object", "an instance is an object"]
    assert reasons[3].startswith("is not JSON")
    assert reasons[4] == "must be UTF-8"
    assert reasons[5].startswith("is not JSON")


def test_a_project_that_needs_packages_is_left_out_unless_they_are_given(tmp_path: Path) -> None:
    repo, broken, _ = clone(tmp_path / "shop")
    wants: Mapping[str, str] = {
        "pyproject.toml": '[project]\nname = "shop"\ndependencies = ["numpy>=2"]\n',
        "requirements.txt": "# these\nrequests\n",
        "setup.cfg": "[options]\ninstall_requires =\n    attrs\n",
        "setup.py": 'setup(install_requires=["six"])\n',
    }
    for name, text in wants.items():
        git(repo, "checkout", "-q", broken)
        base = commit(repo, {name: text})
        path = write_rows(tmp_path / "rows.jsonl", [bench_row(repo, base)])
        (left,) = opened(path, repo).left_out()
        assert left.unsupported
        assert "`packages` or `images`" in left.why
        assert len(every(opened(path, repo, packages={"shop/shop": "/usr/share"}))) == 1


def test_parquet_holds_the_same_rows_and_bare_clones_do(tmp_path: Path, shop: tuple[Path, str, str]) -> None:
    repo, broken, _ = shop
    rows = [bench_row(repo, broken), bench_row(repo, broken, instance_id="two", problem_statement="Another.")]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "bare.git"))
    from_parquet = every(opened(tmp_path / "rows.parquet", tmp_path / "bare.git"))
    from_lines = every(opened(write_rows(tmp_path / "rows.jsonl", rows), repo))
    assert from_parquet == from_lines


@pytest.mark.parametrize("content", [None, b"PAR1 no"])
def test_a_file_that_is_not_there_or_not_parquet_is_an_error_of_the_configuration(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "rows.parquet").write_bytes(content)
    with pytest.raises(ConfigurationError, match="Parquet"):
        opened(tmp_path / "rows.parquet", tmp_path)


def test_a_giant_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "rows.jsonl").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigurationError, match="1,073,741,824 bytes"):
        opened(tmp_path / "rows.jsonl", tmp_path)


async def test_a_patch_that_does_not_apply_is_the_environments_fault(
    tmp_path: Path, shop: tuple[Path, str, str], sandboxes: Backend
) -> None:
    repo, broken, right = shop
    row = bench_row(repo, broken) | {"base_commit": right}
    domain = opened(write_rows(tmp_path / "rows.jsonl", [row]), repo)
    (task,) = every(domain).values()
    verdict = await domain.verify(task, Outcome(submission="{}"), sandboxes)
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.ENVIRONMENT
    assert "does not apply" in verdict.failure.detail


def test_repositories_can_be_held_out_as_a_whole(swe_set: str) -> None:
    options = {**OPTIONS[swe_set], "split_by": "repo"}
    domain = build_domain(swe_set, options)
    assert {domain.num_tasks("train"), domain.num_tasks("heldout")} == {0, 8}
    assert made(swe_set).num_tasks("heldout") not in (0, 8)


def test_a_report_without_a_beginning_is_none_and_one_bad_line_spoils_its_test() -> None:
    assert read_report("") is None
    assert read_report('{"id": "a", "outcome": "passed"}\n') is None
    text = '{"ready": true}\n{"id": "a", "outcome": "passed"}\nrubbish\n[1]\n{"id": "a", "outcome": "failed"}\n'
    assert read_report(text + '{"id": "b", "outcome": "passed"}\n') == {"a": False, "b": True}
