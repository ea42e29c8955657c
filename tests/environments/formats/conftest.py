"""The real sandbox, and sets of foreign tasks, written once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.registry import build_plugin
from environments.base import Domain
from environments.catalogue import build_domain
from environments.sandboxes.base import Backend
from tests.environments.domains.promises import OPTIONS
from tests.environments.formats.harbor_tasks import sound_set
from tests.environments.formats.swe_rows import bench_row, clone, commit, diff, git, smith_row, write_rows

LINE_TESTS = """from shop.line{k} import line


def test_one():
    assert line(1) == {one}


def test_kind():
    assert isinstance(line(0), int)
"""


@pytest.fixture(scope="session")
def sandboxes() -> Iterator[Backend]:
    """The bubblewrap backend, which must work here."""
    made = build_plugin("sandbox", "bubblewrap")
    yield made
    made.close()


@pytest.fixture(scope="session")
def harbor_set(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a set of ten directories; its options are in OPTIONS."""
    root = sound_set(tmp_path_factory.mktemp("harbor"))
    OPTIONS["harbor/sound"] = {"path": str(root), "heldout_share": 0.4}
    return "harbor/sound"


@pytest.fixture(scope="session")
def swe_set(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a set of eight instances of one repository."""
    folder = tmp_path_factory.mktemp("swe")
    repo, broken, _ = clone(folder / "shop")
    rows = swe_rows(repo, broken)
    path = write_rows(folder / "rows.jsonl", rows)
    OPTIONS["swe/shop"] = {"path": str(path), "repos": {"shop/shop": str(repo)}, "heldout_share": 0.4}
    return "swe/shop"


def swe_rows(repo: Path, broken: str) -> list[dict[str, object]]:
    """One of SWE-bench and seven of SWE-smith, each with a bug in a module of its own."""
    rows = [bench_row(repo, broken)]
    modules = {f"shop/line{k}.py": f"def line(x):\n    return {k} * x + 1\n" for k in range(7)}
    tests = {f"tests/test_line{k}.py": LINE_TESTS.format(k=k, one=k + 1) for k in range(7)}
    git(repo, "checkout", "-q", "main")
    base = commit(repo, {**modules, **tests})
    for k, (path, text) in enumerate(modules.items()):
        rows.append(
            smith_row(
                repo,
                base,
                instance_id=f"shop__shop.line{k}",
                problem_statement=f"Line {k} is too low.",
                patch=diff(repo, base, path, text.replace("+ 1", "- 1")),
                FAIL_TO_PASS=[f"tests/test_line{k}.py::test_one"],
                PASS_TO_PASS=[f"tests/test_line{k}.py::test_kind"],
            )
        )
    return rows


def made(domain_id: str) -> Domain:
    return build_domain(domain_id, OPTIONS[domain_id])
