"""A small git repository with a history, and rows of the SWE-bench family about it."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CALC = '''"""Sums."""


def total(items):
    result = 0
    for item in items[1:]:
        result += item
    return result


def mean(items):
    return sum(items) / len(items)
'''
RIGHT = CALC.replace("items[1:]", "items")
TESTS = "from shop import calc\n\n\ndef test_mean():\n    assert calc.mean([1, 3]) == 2\n"
HIDDEN = TESTS + "\n\ndef test_total():\n    assert calc.total([1, 2, 3]) == 6\n"
STATEMENT = "`total` forgets the first item"


def git(repo: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(repo), "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "A", f"GIT_{who}_EMAIL": "a@b.c", f"GIT_{who}_DATE": "2026-01-01T00:00:00Z"}
    done = subprocess.run(["git", "-C", str(repo), *words], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def commit(repo: Path, files: Mapping[str, str]) -> str:
    """The hash of a commit with these files on top of what is there."""
    for path, text in files.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "a change")
    return git(repo, "rev-parse", "HEAD").strip()


def diff(repo: Path, base: str, path: str, text: str) -> str:
    """The patch that makes `path` at `base` hold `text`."""
    git(repo, "checkout", "-q", base)
    (repo / path).parent.mkdir(parents=True, exist_ok=True)
    (repo / path).write_text(text)
    git(repo, "add", "-A")
    made = git(repo, "diff", "--cached")
    git(repo, "reset", "-q", "--hard")
    return made


def clone(folder: Path) -> tuple[Path, str, str]:
    """A repository, its commit with the bug and its commit without."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    files = {"shop/__init__.py": "", "shop/calc.py": CALC, "tests/test_calc.py": TESTS, "pytest.ini": "[pytest]\n"}
    broken = commit(folder, files)
    return folder, broken, commit(folder, {"shop/calc.py": RIGHT, "tests/test_calc.py": HIDDEN})


def bench_row(repo: Path, base: str, /, **changed: Any) -> dict[str, Any]:
    """As SWE-bench has it."""
    row = {
        "instance_id": "shop__shop-1",
        "repo": "shop/shop",
        "base_commit": base,
        "environment_setup_commit": base,
        "version": "1.0",
        "problem_statement": STATEMENT,
        "hints_text": "",
        "created_at": "2026-01-01",
        "patch": diff(repo, base, "shop/calc.py", RIGHT),
        "test_patch": diff(repo, base, "tests/test_calc.py", HIDDEN),
        "FAIL_TO_PASS": json.dumps(["tests/test_calc.py::test_total"]),
        "PASS_TO_PASS": json.dumps(["tests/test_calc.py::test_mean"]),
    }
    return {**row, **changed}


def smith_row(repo: Path, base: str, /, **changed: Any) -> dict[str, Any]:
    """As SWE-smith has it: `patch` is the bug."""
    row = {
        "instance_id": "shop__shop.abc.func_1",
        "repo": "shop/shop",
        "base_commit": base,
        "image_name": "x86_64.shop",
        "created_at": "2026-01-01",
        "problem_statement": "The mean is wrong.",
        "patch": diff(repo, base, "shop/calc.py", RIGHT.replace("/ len(items)", "// 2 + 1")),
        "FAIL_TO_PASS": ["tests/test_calc.py::test_mean"],
        "PASS_TO_PASS": ["tests/test_calc.py::test_total"],
    }
    return {**row, **changed}


def write_rows(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
