"""The out-of-process judge: what it says of calls, of projects and of code that speaks its protocol."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from assay.registry import build_plugin
from environments.sandboxes.base import Backend, SandboxSpec
from environments.verifying.judge import Call, CaseResult, Project, run_cases, run_project, same
from tests.environments.verifying.attacks import GUARD


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[Backend]:
    made = build_plugin("sandbox", "bubblewrap")
    yield made
    made.close()


async def ran(sandboxes: Backend, code: str, inputs: Sequence[Sequence[Any]], timeout_s: float = 10) -> list[str]:
    sandbox = await sandboxes.create(SandboxSpec())
    try:
        return [r.shown() for r in await run_cases(sandbox, code, "f", inputs, timeout_s=timeout_s)]
    finally:
        await sandbox.destroy()


async def test_results_errors_and_time_are_reported_per_call(sandboxes: Backend) -> None:
    code = "def f(x):\n    if x == 2:\n        raise KeyError('b')\n    print('noise')\n    return [x, (1, 2)]"
    assert await ran(sandboxes, code, [[1], [2], [3]]) == [
        "returned [1, [1, 2]]",
        "raised KeyError: 'b'",
        "returned [3, [1, 2]]",
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(x:\n    return x", "SyntaxError"),
        ("x = 1", "no function named f"),
        ("f = 3", "TypeError"),
        ("{}['b']", "KeyError: 'b'"),
        ("def f(x):\n    while True: pass", "TimeoutError"),
        ("while True: pass", "TimeoutError"),
        ("def f(x):\n    return {1, 2}", "not JSON serializable"),
        ("def f(x):\n    return float('nan')", "ValueError"),
        ("def f(x):\n    return 'y' * 100000", "returned too much"),
        ("def f(x):\n    return f(x)", "RecursionError"),
        ("def f(x):\n    raise SystemExit", "SystemExit"),
        ("import os\ndef f(x):\n    os._exit(0)", "ended before it returned"),
        ("import os\ndef f(x):\n    os.kill(os.getpid(), 9)", "ended before it returned"),
        ("def f(x):\n    y = []\n    for _ in range(10**5): y = [y]\n    return y", "RecursionError"),
        ("class E(Exception):\n    def __str__(self): raise self\ndef f(x):\n    raise E", "cannot be shown"),
    ],
)
async def test_what_breaks_is_the_codes_own_failure(sandboxes: Backend, code: str, said: str) -> None:
    (shown,) = await ran(sandboxes, code, [[1]])
    assert said in shown


async def test_sleeping_is_stopped_by_the_wall_clock(sandboxes: Backend) -> None:
    (shown,) = await ran(sandboxes, "import time\ndef f(x):\n    time.sleep(60)", [[1]], timeout_s=2)
    assert "no result within 2 s" in shown


async def tried(sandboxes: Backend, project: Project, *calls: Call, **options: Any) -> list[CaseResult]:
    sandbox = await sandboxes.create(SandboxSpec())
    try:
        return await run_project(sandbox, project, calls, timeout_s=10, **options)
    finally:
        await sandbox.destroy()


SHOP = Project(
    files={
        "shop/__init__.py": "",
        "shop/prices.py": "PRICES = {'tea': 3}\n",
        "shop/cart.py": "from shop.prices import PRICES\n\n\nclass Cart:\n    def __init__(self, owner, gift=False):\n"
        "        self.items = []\n\n    def add(self, item, count):\n        self.items += [item] * count\n\n"
        "    def total(self):\n        return sum(PRICES[item] for item in self.items)\n",
    },
    module="shop.cart",
    entry="Cart",
)


async def test_a_project_is_imported_and_methods_are_called_in_turn(sandboxes: Backend) -> None:
    steps = [("total", []), ("add", ["tea", 2]), ("total", [])]
    good = Call(args=["Ann"], kwargs={"gift": True}, then=steps)
    bad = Call(args=["Ann"], then=[("add", ["gold", 1]), ("total", [])])
    first, second, third = await tried(sandboxes, SHOP, good, bad, Call(args=["Ann"], then=[("pay", [])]))
    assert first.gives([0, None, 6])
    assert second.shown() == "raised KeyError: 'gold'"
    assert third.error is not None
    assert "no attribute 'pay'" in third.error


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"other.py": ""}, "ModuleNotFoundError"),
        ({"answer.py": "x = 1"}, "no function named f"),
        ({"answer.py": "import missing"}, "ModuleNotFoundError"),
        ({"answer.py": "x = '\ud800'"}, "SyntaxError"),
    ],
)
async def test_a_project_that_cannot_be_imported_fails_by_itself(
    sandboxes: Backend, files: dict[str, str], said: str
) -> None:
    (result,) = await tried(sandboxes, Project(files=files, module="answer", entry="f"), Call(args=[1]))
    assert said in result.shown()


async def test_a_file_named_like_a_module_of_the_harness_changes_nothing_but_the_projects_own_imports(
    sandboxes: Backend,
) -> None:
    files = {
        "json.py": "raise SystemExit",
        "random.py": "x = 5",
        "answer.py": "import random\ndef f(): return random.x",
    }
    (result,) = await tried(sandboxes, Project(files=files, module="answer", entry="f"), Call())
    assert result.gives(5)


async def test_the_time_of_a_call_can_be_raised(sandboxes: Backend) -> None:
    busy = "import time\ndef f():\n    while time.process_time() < 0.9: pass\n    return 1"
    project = Project(files={"answer.py": busy}, module="answer", entry="f")
    assert "TimeoutError" in (await tried(sandboxes, project, Call()))[0].shown()
    assert (await tried(sandboxes, project, Call(), case_cpu_s=3.0))[0].gives(1)


# Finds the nonce in the harness and says `VALUES` for the calls in its stead, `TIMES` for each.
FORGER = (
    GUARD
    + "import json, sys\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back\nnames = frame.f_globals\n"
    "for number, value in enumerate(VALUES * TIMES):\n"
    "    line = '\\n' + names['job']['nonce'] + json.dumps({'case': number % 3, 'value': value}) + '\\n'\n"
    "    os.write(names['out'], line.encode())\n"
)


async def test_forging_the_protocol_gives_exactly_what_returning_these_values_gives(sandboxes: Backend) -> None:
    forged = FORGER.replace("VALUES", "[1, 2, 'x']").replace("TIMES", "1") + "os._exit(0)"
    honest = "known = {1: 1, 2: 2, 3: 'x'}\ndef f(n): return known[n]"
    inputs = [[1], [2], [3]]
    assert await ran(sandboxes, forged, inputs) == await ran(sandboxes, honest, inputs) != []


async def test_a_second_result_for_a_call_makes_it_none(sandboxes: Backend) -> None:
    twice = FORGER.replace("VALUES", "[1, 2, 3]").replace("TIMES", "2") + "os._exit(0)"
    beside = FORGER.replace("VALUES", "[1, 2, 3]").replace("TIMES", "1") + "def f(n): return n"
    for code in (twice, beside):
        assert await ran(sandboxes, code, [[1], [2], [3]]) == ["raised several results for one call"] * 3


async def test_constants_that_are_not_json_are_no_result(sandboxes: Backend) -> None:
    forged = FORGER.replace("VALUES", "[float('nan'), float('inf'), 3]").replace("TIMES", "1") + "os._exit(0)"
    shown = await ran(sandboxes, forged, [[1], [2], [3]])
    assert shown == ["raised the process ended before it returned"] * 2 + ["returned 3"]


async def test_the_text_of_an_error_can_be_stored(sandboxes: Backend) -> None:
    (shown,) = await ran(sandboxes, "def f(): raise KeyError(chr(0xD800) + '?')", [[]])
    assert shown.encode()


@pytest.mark.parametrize(
    ("found", "expected", "equal"),
    [
        (2.0, 2, True),
        (0.1 + 0.2, 0.3, True),
        (0.3001, 0.3, False),
        (True, 1, False),
        (1, True, False),
        (False, False, True),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ("a", "a", True),
        ("1", 1, False),
        (None, None, True),
        (None, 0, False),
        ({"a": 1}, {"a": 1.0}, True),
        (10**400, 1.5, False),
        (10**400, 10**400, True),
    ],
)
def test_results_are_compared_by_value(found: Any, expected: Any, equal: bool) -> None:
    assert same(found, expected) is equal
