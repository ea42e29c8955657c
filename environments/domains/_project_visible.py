"""What an agent finds in its sandbox besides sources: a README, visible tests, a changelog; and what it is asked."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from environments.domains._project_kind import Files, Kind
from environments.domains._project_problem import Problem

RUN_TESTS = "python3 -m unittest discover -s tests -t ."
_PLAIN = '''
def plain(value):
    """The value as JSON data, so tuples are lists."""
    return json.loads(json.dumps(value))
'''
_SYSTEM = "You work on small Python projects in a sandbox, with tools. Python's standard library is all there is."


def as_tests(cases: Sequence[Mapping[str, Any]], *, table: bool = False) -> str:
    """A test file that checks cases, each in a test of its own or all in one table."""
    names: dict[str, list[str]] = {}
    for case in cases:
        module, _, name = case["target"].partition(":")
        names.setdefault(module, []).append(name)
    imports = [f"from {module} import {', '.join(sorted(set(found)))}" for module, found in sorted(names.items())]
    body = _table(cases) if table else [line for number, case in enumerate(cases, 1) for line in _test(number, case)]
    head = ["import json", "import unittest", "", *imports, "", _PLAIN, "", "class Tests(unittest.TestCase):"]
    return "\n".join([*head, *body, ""])


def _test(number: int, case: Mapping[str, Any]) -> list[str]:
    name = case["target"].partition(":")[2]
    call = f"{name}({', '.join(map(repr, case['args']))})"
    check = f"        self.assertEqual(plain({call}), {case['expected']!r})"
    return ["", f"    def test_{number}_{name}(self):", check]


def _table(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [f"        ({case['target'].partition(':')[2]}, {case['args']!r}, {case['expected']!r})," for case in cases]
    loop = ["        for function, args, expected in self.CASES:", "            with self.subTest(args=args):"]
    check = "                self.assertEqual(plain(function(*args)), expected)"
    return ["    CASES = [", *rows, "    ]", "", "    def test_cases(self):", *loop, check]


def project_files(kind: Kind, task_kind: str, problem: Problem) -> Files:
    """Everything in the sandbox."""
    shown = {"README.md": f"# {problem.values['pkg']}\n\n{kind.summary}\n\n{kind.specification(problem.values)}"}
    if problem.notes:
        library = problem.where.removesuffix(".py").replace("/", ".")
        lines = [f"# Changes of {library}", "", "## 2.0.0", "", *(f"- {note}" for note in problem.notes), ""]
        shown["vendor/CHANGELOG.md"] = "\n".join(lines)
    tests = {"tests/__init__.py": ""}
    if task_kind != "tests":
        tests["tests/test_project.py"] = as_tests(problem.visible)
    return {**shown, **problem.broken, **tests}


def question(kind: Kind, task_kind: str, level: int, problem: Problem, tests: str) -> tuple[str, str]:
    """What the system and the user say."""
    package = problem.values["pkg"]
    asked = {"bug": _asked_bug, "upgrade": _asked_upgrade, "tests": _asked_tests}[task_kind](level, problem, tests)
    modules = ", ".join(sorted(path for path in problem.broken if not path.endswith("__init__.py")))
    user = (
        f"The project `{package}`: {kind.summary}\nFiles: {modules}, README.md\n\n{asked}\n"
        f"Run the tests with `{RUN_TESTS}`. Call `finish` when you are done.\n\n"
        f"What `{package}` does (README.md):\n{kind.specification(problem.values)}"
    )
    return _SYSTEM, user


def _asked_bug(level: int, problem: Problem, tests: str) -> str:
    package = problem.values["pkg"]
    what = {
        1: f"There is a mistake in `{problem.where}`, in one place.",
        2: "There is a mistake in one place, somewhere in the project.",
        3: "There are two mistakes, in different files.",
    }[level]
    return (
        f"{what} Some of the visible tests fail, but they do not cover everything; the README says what is right. "
        f"Repair the code in `{package}/`. Only the files there count; they are checked with other tests."
    )


def _asked_upgrade(level: int, problem: Problem, tests: str) -> str:
    package, library = problem.values["pkg"], problem.where
    return (
        f"The vendored library `{library}` was replaced by version 2.0.0, with {level} change(s) of its API; "
        "vendor/CHANGELOG.md lists them. The project was written for version 1. "
        f"Move the code in `{package}/` to version 2.0.0, so that it does what it did before. The library must stay as "
        f"it is. Only the files in `{package}/` count; they are checked with other tests."
    )


def _asked_tests(level: int, problem: Problem, tests: str) -> str:
    return (
        f"The code is right. Write tests for `{problem.where}` with unittest into `{tests}`. They must pass on this "
        f"code, however it is written, and fail when the module has a mistake: they will be run on "
        f"{len(problem.mutants)} versions of the module that have one each. "
        f"Only `{tests}` and other files in `tests/` count."
    )


def examples(problem: Problem) -> list[dict[str, Any]]:
    """The visible cases as data."""
    return json.loads(json.dumps([dict(case) for case in problem.visible]))
