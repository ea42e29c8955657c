"""Record extraction: what is asked, and which values count as equal."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import EnvironmentAuthorError
from assay.records import Verdict
from assay.registry import build_plugin
from environments.base import Outcome
from environments.domains._common import parse_object
from environments.domains.record_extraction import same_value
from tests.environments.domains.conftest import NoPlace


async def judged(text: str, index: int = 0) -> Verdict:
    domain = build_plugin("domain", "record_extraction")
    task = domain.make_task("train", index, 0)
    return await domain.verify(task, Outcome(submission=text), NoPlace())


@pytest.mark.parametrize(
    ("found", "expected", "equal"),
    [
        ("Oslo", "Oslo", True),
        ("  oslo ", "Oslo", True),
        ("ana  ruiz", "Ana Ruiz", True),
        ("Ｏｓｌｏ", "Oslo", True),
        ("Oslo.", "Oslo", False),
        ("", "Oslo", False),
        (None, "Oslo", False),
        (["Oslo"], "Oslo", False),
        (1250, 1250, True),
        (1250.0, 1250, True),
        ("1,250", 1250, True),
        ("1250.00", 1250, True),
        ("12,50", 1250, False),
        ("$1250", 1250, False),
        (1251, 1250, False),
        (True, 1, False),
        ("one", 1, False),
        (float("nan"), 1, False),
        ("١٢", 12, True),
    ],
)
def test_values_are_compared_as_documented(found: Any, expected: Any, equal: bool) -> None:
    assert same_value(found, expected) is equal


@pytest.mark.parametrize(
    ("completion", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure!\n```json\n{"a": 1}\n```\nDone.', {"a": 1}),
        ('{"a": 1} and then {"a": 2}', {"a": 1}),
        ('{"a": 1, "a": 2}', None),
        ('{"a": NaN}', None),
        ("{'a': 1}", None),
        ('{"a": 1', None),
        ("[1]", None),
    ],
)
def test_the_first_json_object_counts(completion: str, found: Any) -> None:
    assert parse_object(completion) == found


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80) | st.text('{}[]":,0eNaI`\n\\', max_size=80))
def test_parsing_never_raises(completion: str) -> None:
    assert parse_object(completion) is None or isinstance(parse_object("{" + completion), dict | None)


@given(st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.lists(st.integers()))
def test_comparing_never_raises_and_is_false_across_kinds(found: Any) -> None:
    assert same_value(found, 3) in (True, False)
    assert same_value(found, "three") in (True, False)


async def test_each_right_field_earns_its_share() -> None:
    domain = build_plugin("domain", "record_extraction")
    record = dict(domain.make_task("train", 0, 0).hidden["expected"])
    names = list(record)
    for num_right in range(5):
        answer = {name: value if i < num_right else "?" for i, (name, value) in enumerate(record.items())}
        verdict = await judged(json.dumps(answer))
        assert verdict.reward == pytest.approx(0.1 + 0.9 * num_right / 4)
        assert verdict.passed is (num_right == len(names))


async def test_right_values_under_extra_keys_do_not_pass() -> None:
    domain = build_plugin("domain", "record_extraction")
    record = dict(domain.make_task("train", 0, 0).hidden["expected"])
    verdict = await judged(json.dumps({**record, "more": 1}))
    assert not verdict.passed
    assert verdict.reward == pytest.approx(0.9)


def test_prompts_hold_one_worked_example_and_differ_by_level() -> None:
    domain = build_plugin("domain", "record_extraction")
    made = [domain.make_task("train", i, 0) for i in range(100)]
    assert [m.role for m in made[0].prompt] == ["system", "user", "assistant", "user"]
    assert {t.level for t in made} == {1, 2, 3}
    assert all("\n" in t.prompt[-1].content for t in made if t.level == 3)
    assert sum(t.level < 3 for t in made) == 80


def test_distractors_never_carry_a_value_of_the_answer() -> None:
    domain = build_plugin("domain", "record_extraction")
    for task in (domain.make_task("train", i, 9) for i in range(200)):
        said = task.prompt[-1].content.replace(",", "") + " "
        for value in task.hidden["expected"].values():
            assert said.count(f"{value} ") + said.count(f"{value}.") + said.count(f"{value}\n") <= 1


def test_only_the_levels_that_were_asked_for_are_made() -> None:
    domain = build_plugin("domain", "record_extraction", {"levels": [3]})
    assert {domain.make_task("train", i, 0).level for i in range(10)} == {3}
    with pytest.raises(EnvironmentAuthorError, match=r"\[4\]"):
        build_plugin("domain", "record_extraction", {"levels": [4]})
