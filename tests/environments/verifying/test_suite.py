"""Suites: what is run, what it gives, and how the runner keeps apart."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from assay.errors import EnvironmentAuthorError
from assay.records import Cause
from assay.registry import build_plugin
from environments.sandboxes.base import Backend
from environments.verifying._sources import MAX_FILES
from environments.verifying.suite import Suite, run_suite, verify_suite, with_known_ids
from tests.environments.verifying.attacks import GUARD, RIGHT, TEST, WRONG

SUITE = Suite(tests={"test_solution.py": TEST}, sources=("solution.py",), cpu_s=5)


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[Backend]:
    made = build_plugin("sandbox", "bubblewrap")
    yield made
    made.close()


def solution(code: str) -> dict[str, bytes]:
    return {"solution.py": code.encode()}


async def test_the_reference_run_shows_the_ids_and_the_share_of_them_is_the_outcome(sandboxes: Backend) -> None:
    extra = (
        "import pytest\n\n\n@pytest.mark.skip\ndef test_later():\n    pass\n\n\n"
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n, tmp_path):\n    assert n\n"
    )
    asked = replace(SUITE, tests={**SUITE.tests, "more/test_extra.py": extra, "data.txt": "not a test"})
    suite = await with_known_ids(sandboxes, asked, solution(RIGHT))
    assert suite.ids == (
        "more/test_extra.py::test_it[1]",
        "more/test_extra.py::test_it[2]",
        "test_solution.py::test_negative",
        "test_solution.py::test_none",
        "test_solution.py::test_some",
    )
    assert suite.skipped == ("more/test_extra.py::test_later",)
    tidy = await verify_suite(sandboxes, suite, solution(RIGHT), process={"steps": 0.5})
    assert (tidy.passed, tidy.judged) == (True, "in_process")
    assert tidy.reward == pytest.approx(0.85)
    wrong = await verify_suite(sandboxes, suite, solution(WRONG))
    assert wrong.reward == pytest.approx(2 / 5)


async def test_a_reference_that_fails_is_the_authors_error(sandboxes: Backend) -> None:
    with pytest.raises(EnvironmentAuthorError, match="::test_some"):
        await with_known_ids(sandboxes, SUITE, solution(WRONG))
    with pytest.raises(EnvironmentAuthorError, match="no test ran"):
        await with_known_ids(sandboxes, replace(SUITE, tests={}), solution(RIGHT))


async def test_a_suite_without_known_ids_gives_no_verdict(sandboxes: Backend) -> None:
    verdict = await verify_suite(sandboxes, SUITE, solution(RIGHT))
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.ENVIRONMENT


async def test_a_place_that_cannot_be_made_gives_no_verdict() -> None:
    faulty = build_plugin("sandbox", "bubblewrap", {"fault_rate": 1.0})
    verdict = await verify_suite(faulty, replace(SUITE, ids=("x",)), solution(RIGHT))
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.SANDBOX


@pytest.mark.parametrize("code", ["def total(", "import missing", "raise SystemExit(0)", "import time\ntime.sleep(60)"])
async def test_a_solution_that_cannot_be_imported_or_never_answers_is_graded(sandboxes: Backend, code: str) -> None:
    suite = replace(SUITE, ids=("test_solution.py::test_some",), wall_s=3.0)
    verdict = await verify_suite(sandboxes, suite, solution(code))
    assert (verdict.valid, verdict.reward) == (True, 0.0)


async def test_too_much_source_is_graded(sandboxes: Backend) -> None:
    many = {f"f{n}.py": b"" for n in range(MAX_FILES + 1)}
    verdict = await verify_suite(sandboxes, replace(SUITE, sources=("*",), ids=("x",)), many)
    assert (verdict.valid, verdict.reward) == (True, 0.0)


# Tries to reach the runner, whose child it is; what works is said in the message of a failing assertion.
REACHING = (
    GUARD
    + """
def tried():
    worked = []
    runner = os.getppid()
    for name in ('mem', 'environ', 'fd/1', 'fd/3', 'fd/4'):
        for mode in (os.O_RDONLY, os.O_RDWR):
            try:
                os.close(os.open(f'/proc/{runner}/{name}', mode))
                worked.append(name)
            except OSError:
                pass
    for fd in (0, 1, 2, *range(4, 64)):
        try:
            if os.readlink(f'/proc/self/fd/{fd}') != '/dev/null': worked.append(os.readlink(f'/proc/self/fd/{fd}'))
        except OSError:
            pass
    return worked
def total(items):
    return tried()
"""
)


async def test_the_code_under_test_cannot_reach_into_the_runner_nor_write_where_results_leave(
    sandboxes: Backend,
) -> None:
    test = (
        "from solution import total\n\n\ndef test_nothing_worked():\n"
        "    found = [w for w in total([]) if 'proc' not in w]\n    assert found == [], found\n"
    )
    run = await run_suite(sandboxes, replace(SUITE, tests={"test_a.py": test}), solution(REACHING))
    assert run.outcomes == {"test_a.py::test_nothing_worked": "passed"}, run.said


async def test_what_one_test_file_leaves_running_is_gone_before_the_next(sandboxes: Backend) -> None:
    code = GUARD + (
        "import time\ndef start():\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)\n"
        "def others():\n    return [p for p in os.listdir('/proc') if p.isdigit() and b'Z (zombie)' not in\n"
        "            open(f'/proc/{p}/status', 'rb').read() and int(p) not in (1, os.getpid(), os.getppid())]\n"
    )
    tests = {
        "test_a.py": "import solution\n\n\ndef test_start():\n    solution.start()\n"
        "    assert len(solution.others()) == 1\n",
        "test_b.py": "import solution\n\n\ndef test_none_left():\n    assert solution.others() == []\n",
    }
    run = await run_suite(sandboxes, replace(SUITE, tests=tests), solution(code))
    assert set(run.outcomes.values()) == {"passed"}, run.said
