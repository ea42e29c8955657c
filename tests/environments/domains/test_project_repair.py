"""Project repair: kinds of projects, mistakes that show, upgrades that keep behaviour, honest judging."""

import ast
import json
from collections.abc import Mapping
from itertools import count
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import SandboxLaunchError
from assay.records import Cause, TaskSpec
from assay.registry import build_plugin
from environments import artifacts
from environments.artifacts import Artifacts
from environments.base import Outcome, play, take
from environments.domains import _project_problem as problems
from environments.domains._project_kind import Files, Kind, fill, holds
from environments.domains._project_mutations import CONTRACT_KINDS, Mutator
from environments.domains._project_rewrite import hunks, rewritten
from environments.domains._project_run import ENDLESS, Loaded, failures, results
from environments.domains._project_upgrade import candidates, upgraded
from environments.domains.project_repair import ProjectRepair
from environments.sandboxes.base import Backend, Sandbox, SandboxSpec
from environments.tools import say_call
from tests.environments.domains.conftest import NoPlace

TIDY = {"num_turns": 3.0, "valid_actions": 1.0, "recovery": 1.0}
KINDS = [pytest.param(kind, id=kind.id) for kind in problems.KINDS]


@pytest.fixture
def domain() -> ProjectRepair:
    return cast(ProjectRepair, build_plugin("domain", "project_repair"))


def only(task_kind: str, level: int) -> ProjectRepair:
    options = {"task_kinds": [task_kind], "levels": [level]}
    return cast(ProjectRepair, build_plugin("domain", "project_repair", options))


def sources(task: TaskSpec, **changed: str) -> dict[str, bytes]:
    """The files of the task's package, some of them replaced."""
    package = f"{task.public['package']}/"
    files = {path: text for path, text in task.public["files"].items() if path.startswith(package)}
    return {path: text.encode() for path, text in {**files, **changed}.items()}


def left(files: Mapping[str, bytes]) -> Outcome:
    return Outcome(submission=artifacts.write(Artifacts(files=files)), metrics=TIDY)


def a_project(kind: Kind, split: Any = "train", vendored: bool = False) -> tuple[Files, list[Any]]:
    """A right project with cases."""
    rng = Random(5)
    values = kind.draw(rng, kind.variants(split)[0])
    return kind.files(values, vendored=vendored), [kind.cases(rng, values) for _ in range(25)]


# Kinds of projects


def test_there_are_many_kinds_of_projects_with_several_modules() -> None:
    assert len(problems.KINDS) >= 8
    for kind in problems.KINDS:
        assert 3 <= len(kind.modules) <= 6, kind.id
        assert kind.library in kind.modules
    names = [name for kind in problems.KINDS for name in kind.constants["pkg"]]
    assert len(set(names)) == len(names), "a package name of two kinds would let one task's answer fit another"


@pytest.mark.parametrize("kind", KINDS)
def test_features_differ_in_code_and_in_words_and_splits_share_none(kind: Kind) -> None:
    train, heldout = kind.variants("train"), kind.variants("heldout")
    assert len(train) >= 12
    assert heldout
    every = [kind.canonical(variant) for variant in (*train, *heldout)]
    assert len({json.dumps(kind.files(values)) for values in every}) == len(every)
    assert len({kind.specification(values) for values in every}) == len(every)


@pytest.mark.parametrize("kind", KINDS)
def test_right_projects_answer_all_their_cases_again_and_again(kind: Kind) -> None:
    for split in ("train", "heldout"):
        files, cases = a_project(kind, split)
        once = results(files, cases)
        assert [kind for kind, _ in once] == ["value"] * len(cases)
        assert results(files, cases) == once
        assert all(ast.unparse(ast.parse(text)).strip() == text.strip() for text in files.values())


def test_a_template_keeps_the_lines_whose_conditions_hold() -> None:
    template = "a\nb  #? x\nc  #? !x\nd  #? y=2\ne  #? !y=2&!x\n$y"
    assert fill(template, {"x": True, "y": 2}) == "a\nb\nd\n2\n"
    assert fill(template, {"x": False, "y": 3}) == "a\nc\ne\n3\n"
    assert holds("", {})


# Mistakes

MISTAKES = {
    "boundary": ("return a < b", "return a <= b"),
    "comparison_flip": ("return a == b", "return a != b"),
    "wrong_operator": ("return a + b", "return a - b"),
    "off_by_one": ("return a[2]", "return a[3]"),
    "swapped_arguments": ("return f(a, b)", "return f(b, a)"),
    "dropped_branch": ("if a:\n    b = 1\nreturn b", "return b"),
    "missing_return": ("return f(a)", "f(a)"),
    "negated_condition": ("return 1 if a else b", "return 1 if not a else b"),
    "wrong_variable": ("return f(a)", "return f(b)"),
    "wrong_exception": ("raise Bad(a)", "raise ValueError(a)"),
    "stale_cache": ("self._cached_sum = None\nreturn a", "return a"),
    "dropped_call": ("a.append(b)\nreturn a", "return a"),
    "dropped_update": ("a += b\nreturn a", "return a"),
    "lost_yield": ("yield a", "return [a]"),
    "slice_boundary": ("return a[:b]", "return a[1:b]"),
    "unit_change": ("return a * 60", "return a * 24"),
    "wrong_logic": ("return a and b", "return a or b"),
    "lost_condition": ("return a and b", "return a"),
    "lost_sign": ("return -a", "return +a"),
    "lost_order": ("return sorted(a, key=b)", "return sorted(a)"),
    "wrong_function": ("return min(a)", "return max(a)"),
    "wrong_key": ("return a['name']", "return a['names']"),
    "wrong_exit": ("for b in a:\n    continue", "for b in a:\n    break"),
    "wrong_constant": ("return f(True)", "return f(False)"),
    "swapped_result": ("return (a, b)", "return (b, a)"),
}


@pytest.mark.parametrize(("kind", "before", "after"), [(kind, *texts) for kind, texts in MISTAKES.items()])
def test_each_kind_of_mistake_does_what_its_name_says(kind: str, before: str, after: str) -> None:
    def function(body: str) -> str:
        return ast.unparse(ast.parse("def do(a, b):\n    " + body.replace("\n", "\n    "))) + "\n"

    mutator = Mutator({"m.py": function(before)}, "m.py")
    made = [mutator.mutant(site) for site in mutator.sites if site.kind == kind]
    assert function(after) in made


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("wrong_default", "def do(a, b=2):\n    pass", "def do(a, b=3):\n    pass"),
        ("parameter_order", "def do(a, b):\n    pass", "def do(b, a):\n    pass"),
        ("renamed_attribute", "def do(a):\n    pass", "def do_now(a):\n    pass"),
        ("mutable_default", "def do(a=None):\n    if a is None:\n        a = []\n    f(a)", "def do(a=[]):\n    f(a)"),
        ("wrong_import", "from p.n import one", "from p.n import two as one"),
        ("broken_import", "from p.n import one", "from p.m import one"),
    ],
)
def test_mistakes_in_heads_and_imports(kind: str, before: str, after: str) -> None:
    other = "def one():\n    pass\n\ndef two():\n    pass\n"
    mutator = Mutator({"p/m.py": before, "p/n.py": other}, "p/m.py")
    made = [mutator.mutant(site).strip() for site in mutator.sites if site.kind == kind]
    assert ast.unparse(ast.parse(after)) in made


def test_making_mutants_leaves_the_file_as_it_was() -> None:
    files, _ = a_project(problems.KINDS[1])
    for path in files:
        mutator = Mutator(files, path)
        made = [mutator.mutant(site) for site in mutator.sites]
        assert [mutator.mutant(site) for site in mutator.sites] == made
        assert all(text != files[path] for text in made)
        assert [Mutator(files, path).mutant(site) for site in mutator.sites[:9]] == made[:9]


def test_a_mutant_that_never_ends_is_stopped_even_when_it_swallows_exceptions() -> None:
    text = "def f(a):\n    while a:\n        try:\n            g()\n        except Exception:\n            pass\n"
    text += "\ndef g():\n    pass\n"
    assert Loaded({"m.py": text})("m:f", [1]) == ENDLESS
    assert Loaded({"m.py": text})("m:f", [0]) == ("value", None)
    assert failures({"m.py": text}, [("m:f", [1])], [("value", None)]) is None


def test_what_calls_leave_behind_is_seen_by_later_calls() -> None:
    text = "def f(a, b=[]):\n    b.append(a)\n    return len(b)\n"
    assert results({"m.py": text}, [("m:f", [1]), ("m:f", [1])]) == [("value", 1), ("value", 2)]
    assert failures({"m.py": text}, [("m:f", [1])] * 3, [("value", 1)] * 3) == [1, 2]


# Other words, edits, upgrades


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_program_in_other_words_does_the_same(kind: Kind) -> None:
    files, cases = a_project(kind)
    other = rewritten(files)
    assert sum(other[path] != files[path] for path in files) >= 4
    assert results(other, cases) == results(files, cases)


@settings(max_examples=200, deadline=None)
@given(*[st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), min_size=1, max_size=12).map("".join)] * 2)
def test_edits_replace_what_occurs_once_and_lead_to_the_new_text(old: str, new: str) -> None:
    text = old
    for piece, put in hunks(old, new):
        assert text.find(piece) == text.rfind(piece) >= 0
        text = text.replace(piece, put)
    assert text == new


@pytest.mark.parametrize("kind", KINDS)
def test_every_upgrade_keeps_what_a_project_does(kind: Kind) -> None:
    files, cases = a_project(kind, vendored=True)
    library = f"vendor/{kind.library}.py"
    right, changes = results(files, cases), candidates(files, library)
    assert len({change.name for change in changes}) >= 3
    assert len({change.kind for change in changes}) >= 3
    for change in changes:
        new = upgraded(files, library, [change])
        assert results(dict(new.files), cases) == right, change
        assert change.name in new.notes[0]
        assert new.files[library] != files[library]


def test_an_upgrade_by_hand() -> None:
    files = {
        "vendor/lib.py": '"""Lib."""\n\ndef put(a, b, c=1):\n    return a + b * c\n',
        "p/app.py": "from vendor.lib import put\n\ndef run(x):\n    return put(x, 2)\n",
    }
    found = {
        change.kind: upgraded(files, "vendor/lib.py", [change]).files["p/app.py"]
        for change in candidates(files, "vendor/lib.py")
    }
    body = {kind: text.splitlines()[-1].strip() for kind, text in found.items()}
    assert body == {
        "renamed": "return make_put(x, 2)",
        "reordered": "return put(2, x)",
        "keyword_only": "return put(x, b=2)",
        "wrapped_result": "return put(x, 2)['value']",
        "required_parameter": "return put(x, 2, c=1)",
        "moved": "return put(x, 2)",
    }
    assert found["moved"].startswith("from vendor.lib_extra import put\n")


# Tasks


def test_all_kinds_of_tasks_levels_projects_and_many_mistakes_occur(domain: ProjectRepair) -> None:
    made = take(domain, "train", 32, 3)
    assert {(t.public["task_kind"], t.level) for t in made} == {
        (kind, level) for kind in ("bug", "upgrade", "tests") for level in (1, 2, 3)
    }
    assert {t.template.split("/")[1] for t in made} == {kind.id for kind in problems.KINDS}
    assert len({mistake for t in made for mistake in t.template.split("/")[3].split("+")}) >= 20


@pytest.mark.parametrize("task_kind", ["bug", "upgrade"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_broken_project_fails_visible_and_hidden_cases_and_the_right_one_none(task_kind: str, level: int) -> None:
    for task in take(only(task_kind, level), "train", 6, 2):
        files, hidden = task.public["files"], task.hidden
        code = {path: text for path, text in files.items() if path.endswith(".py") and not path.startswith("tests/")}
        assert wrong(code, task.public["examples"])
        assert len(wrong(code, hidden["cases"])) == len(hidden["cases"]) - hidden["num_already_right"] >= 1
        assert wrong({**code, **hidden["solution"]}, hidden["cases"]) == []
        assert wrong({**code, **hidden["partly"]}, hidden["cases"])
        assert task_kind == "upgrade" or len(hidden["solution"]) == (2 if level == 3 else 1)


def wrong(files: Files, cases: Any) -> list[int]:
    """The numbers of the cases that a project gets wrong."""
    calls = [(case["target"], case["args"]) for case in cases]
    found = failures(files, calls, [("value", case["expected"]) for case in cases])
    assert found is not None
    return found


def test_half_of_the_hardest_bugs_break_an_agreement_between_files() -> None:
    made = take(only("bug", 3), "train", 20, 0)
    broken = [task for task in made if CONTRACT_KINDS & set(task.hidden["mistakes"])]
    assert 5 <= len(broken) <= 18


async def test_a_repair_of_one_of_two_bugs_earns_part_of_the_outcome_only(sandboxes: Backend) -> None:
    domain = only("bug", 3)
    every = (domain.make_task("train", index, 1) for index in count())
    task = next(task for task in every if not CONTRACT_KINDS & set(task.hidden["mistakes"][:-1]))
    half = await domain.verify(task, left(sources(task, **task.hidden["partly"])), sandboxes)
    whole = await domain.verify(task, left(sources(task, **task.hidden["solution"])), sandboxes)
    nothing = await domain.verify(task, left(sources(task)), sandboxes)
    assert (whole.reward, whole.passed, whole.judged) == (1.0, True, "out_of_process")
    assert not half.passed
    assert half.reward is not None
    assert half.reward < 0.7
    assert (nothing.reward, nothing.passed) == (0.0, False)
    num, base = len(task.hidden["cases"]), task.hidden["num_already_right"]
    assert nothing.terms[-1].note == f"{base} of {num} cases, {base} before"


async def test_turns_beyond_the_free_ones_cost_part_of_the_process_reward(sandboxes: Backend) -> None:
    domain = only("bug", 1)
    task = domain.make_task("train", 0, 0)
    files = sources(task, **task.hidden["solution"])
    slow = Outcome(submission=left(files).submission, metrics={**TIDY, "num_turns": 20.0})
    assert (await domain.verify(task, slow, sandboxes)).reward == pytest.approx(0.7 + 0.3 * (0.5 + 1 + 1) / 3)


async def test_changes_to_the_library_do_not_count_and_leaving_it_out_is_no_upgrade(sandboxes: Backend) -> None:
    domain = only("upgrade", 1)
    task = domain.make_task("train", 0, 0)
    right = sources(task, **task.hidden["solution"])
    ruined = {**right, f"vendor/{task.hidden['mistakes'][-1].split('/')[-1]}": b"raise SystemExit(1)\n"}
    assert (await domain.verify(task, left(ruined), sandboxes)).passed
    package = task.public["package"].encode()
    library = task.hidden["mistakes"][-1].removeprefix("vendor/").removesuffix(".py").encode()
    vendored = {path: data.replace(b"from vendor.", b"from " + package + b".") for path, data in right.items()}
    extra = {
        path.replace("vendor/", f"{task.public['package']}/"): text.encode().replace(b"vendor.", package + b".")
        for path, text in task.public["files"].items()
        if path.startswith("vendor/") and path.endswith(".py") and library in path.encode()
    }
    own = await domain.verify(task, left({**vendored, **extra}), sandboxes)
    assert (own.passed, own.reward) == (False, 0.0)


async def test_tests_are_worth_the_mutants_they_notice_if_they_pass_on_right_code(sandboxes: Backend) -> None:
    domain = only("tests", 1)
    task = domain.make_task("train", 0, 0)
    known = domain.solutions(task)
    full = await domain.verify(task, await play(domain, task, known.oracle, sandboxes), sandboxes)
    assert (full.reward, full.judged) == (1.0, "in_process")
    assert full.terms[-1].note == "4 of 4 mutants noticed"
    some = await domain.verify(task, await play(domain, task, known.ladder[0], sandboxes), sandboxes)
    assert some.reward is not None
    assert 0.0 < some.reward <= 1.0
    for script in known.wrong:
        found = await domain.verify(task, await play(domain, task, script, sandboxes), sandboxes)
        assert found.reward == 0.0, script


async def test_tests_that_look_at_the_text_of_the_code_fail_on_right_code_in_other_words(sandboxes: Backend) -> None:
    domain = only("tests", 1)
    task = domain.make_task("train", 2, 0)
    module = task.public["module"]
    looks = (
        f"import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        assert open({module!r}).read() == "
    )
    text = looks + repr(task.public["files"][module])
    verdict = await domain.verify(task, left({task.public["tests"]: text.encode()}), sandboxes)
    assert verdict.valid
    assert verdict.terms[0].name == "passes_on_right_code"
    assert (verdict.terms[0].value, verdict.reward) == (0.0, 0.0)


async def test_tests_that_never_end_are_graded(sandboxes: Backend) -> None:
    options = {"task_kinds": ["tests"], "levels": [1], "timeout_s": 2.0}
    domain = build_plugin("domain", "project_repair", options)
    task = domain.make_task("train", 0, 0)
    endless = left({task.public["tests"]: b"while True:\n    pass\n"})
    assert (await domain.verify(task, endless, sandboxes)).reward == 0.0


async def test_without_files_nothing_is_run() -> None:
    for task_kind in ("bug", "tests"):
        domain = only(task_kind, 1)
        task = domain.make_task("train", 0, 0)
        for submission in ("", "{}", left({"../x.py": b"1"}).submission, left({"tests/conftest.py": b""}).submission):
            verdict = await domain.verify(task, Outcome(submission=submission, metrics=TIDY), NoPlace())
            assert (verdict.reward, verdict.passed) == (0.0, False)


class Broken(NoPlace):
    async def create(self, spec: SandboxSpec) -> Sandbox:
        raise SandboxLaunchError("no room")


@pytest.mark.parametrize("task_kind", ["bug", "upgrade", "tests"])
async def test_a_broken_place_is_no_failure_of_the_agent(task_kind: str) -> None:
    domain = only(task_kind, 1)
    task = domain.make_task("train", 0, 0)
    files = {**sources(task), "tests/test_x.py": b"import unittest\n"}
    verdict = await domain.verify(task, left(files), Broken())
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.SANDBOX


async def test_an_agent_sees_the_failing_test_and_only_what_is_public(sandboxes: Backend) -> None:
    domain = only("bug", 1)
    task = domain.make_task("train", 3, 0)
    episode = await domain.open(task, sandboxes)
    try:
        seen = await episode.reply(say_call("run", command="python3 -m unittest discover -s tests -t ."))
        listed = await episode.reply(say_call("run", command="find . -type f | sort"))
    finally:
        await episode.close()
    assert "FAILED" in seen.observation
    assert listed.observation.splitlines()[:-1] == [f"./{path}" for path in sorted(task.public["files"])]
    assert task.hidden["mistakes"][-1] in task.prompt[-1].content


def test_only_the_kinds_and_levels_that_were_asked_for_are_made() -> None:
    made = take(only("upgrade", 2), "heldout", 6, 0)
    assert {(task.public["task_kind"], task.level) for task in made} == {("upgrade", 2)}
    assert all("vendor/CHANGELOG.md" in task.public["files"] for task in made)


async def _stand(domain: ProjectRepair, task: TaskSpec, sandboxes: Backend) -> None:
    """Oracle, no-op, wrong, equivalent and ladder as they must be."""

    seen: dict[tuple[str, ...], tuple[bool, float]] = {}

    async def earned(script: tuple[str, ...]) -> tuple[bool, float]:
        if script not in seen:
            verdict = await domain.verify(task, await play(domain, task, script, sandboxes), sandboxes)
            assert verdict.reward is not None, (task.template, verdict.failure)
            seen[script] = verdict.passed, verdict.reward
        return seen[script]

    known = domain.solutions(task)
    assert domain.check(task) == []
    if task.public["task_kind"] != "tests":
        nothing = await domain.verify(task, left(sources(task)), sandboxes)
        base, num = task.hidden["num_already_right"], len(task.hidden["cases"])
        assert nothing.terms[-1].note == f"{base} of {num} cases, {base} before", task.template
    assert await earned(known.oracle) == (True, 1.0), task.template
    assert await earned(known.noop) == (False, 0.0), task.template
    for number, script in enumerate(known.wrong):
        assert not (await earned(script))[0], (task.template, "wrong", number)
    for number, script in enumerate(known.equivalent):
        assert (await earned(script))[0], (task.template, "equivalent", number)
    ladder = [(await earned(script))[1] for script in known.ladder]
    assert ladder == sorted(ladder, reverse=True), task.template


@pytest.mark.parametrize("index", [3, 4, 6])
async def test_a_few_tasks_stand(domain: ProjectRepair, sandboxes: Backend, index: int) -> None:
    await _stand(domain, domain.make_task("train", index, 11), sandboxes)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(44))
async def test_many_tasks_stand(domain: ProjectRepair, sandboxes: Backend, part: int) -> None:
    """220 tasks of both splits: every kind of project, of task and of level, and nearly all kinds of mistakes."""
    for index in range(5 * part, 5 * part + 5):
        await _stand(domain, domain.make_task("heldout" if index % 4 == 3 else "train", index, 7), sandboxes)
