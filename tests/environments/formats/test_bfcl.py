"""BFCL: rows read one by one, calls compared by the published rules, nothing to earn by doing nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import ConfigurationError
from assay.records import Verdict
from environments.base import Domain, play, take
from environments.catalogue import build_domain
from environments.formats import _bfcl_rows
from environments.formats._bfcl_match import example, matches, num_matched
from environments.tools import Call, say_call
from tests.environments.domains.conftest import NoPlace

BOOK = {"type": "dict", "required": ["city"], "properties": {
    "city": {"type": "string"}, "nights": {"type": "integer"}, "pay": {"type": "float"}, "tags": {"type": "array"},
    "who": {"type": "dict", "properties": {"name": {"type": "string"}}}, "view": {"type": "any"},
}}  # fmt: skip


def question(row: int, text: str) -> dict[str, Any]:
    function = {"name": "hotel.book", "description": "Book a room.", "parameters": BOOK}
    return {"id": f"q_{row}", "question": [[{"role": "user", "content": text}]], "function": [function]}


def answer(row: int, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"q_{row}", "ground_truth": [{"hotel.book": call} for call in calls]}


def lines(*rows: Any) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three categories: parallel (two calls), irrelevance, live_relevance."""
    (tmp_path / "possible_answer").mkdir()
    texts = [question(row, f"Book rooms in Oslo and Rome, request {row}.") for row in range(12)]
    oslo = {"city": ["Oslo"], "nights": [2, ""]}
    both = [answer(row, oslo, {"city": ["Rome"], "nights": [row]}) for row in range(12)]
    (tmp_path / "BFCL_v4_parallel.json").write_text(lines(*texts))
    (tmp_path / "possible_answer/BFCL_v4_parallel.json").write_text(lines(*both))
    for name in ("irrelevance", "live_relevance"):
        (tmp_path / f"BFCL_v4_{name}.json").write_text(lines(*texts))
    return tmp_path


async def judged(domain: Domain, completion: str, index: int = 0) -> Verdict:
    task = domain.make_task("train", index, 0)
    return await domain.verify(task, await play(domain, task, (completion,), NoPlace()), NoPlace())


def domain_of(folder: Path, name: str) -> Domain:
    return build_domain(f"bfcl/{name}", {"path": str(folder)})


@pytest.mark.parametrize("name", ["parallel", "irrelevance", "live_relevance"])
async def test_known_scripts_are_judged_as_they_should_be(folder: Path, name: str) -> None:
    domain = domain_of(folder, name)
    tasks = [*take(domain, "train", 20, 0), *take(domain, "heldout", 20, 0)]
    assert len(tasks) == 12
    for task in tasks:
        known = domain.solutions(task)
        assert domain.check(task) == []
        for script, passes in [(known.oracle, True), (known.noop, False)]:
            assert (await domain.verify(task, await play(domain, task, script, NoPlace()), NoPlace())).passed is passes
        for script in known.equivalent:
            assert (await domain.verify(task, await play(domain, task, script, NoPlace()), NoPlace())).passed
        for script in known.wrong:
            assert not (await domain.verify(task, await play(domain, task, script, NoPlace()), NoPlace())).passed


async def test_calls_in_any_order_pass_and_one_of_two_earns_half(folder: Path) -> None:
    domain = domain_of(folder, "parallel")
    nights = domain.make_task("train", 0, 0).hidden["wanted"][1]["hotel.book"]["nights"][0]
    oslo, rome = say_call("hotel.book", city="oslo"), say_call("hotel.book", city="Rome", nights=nights)
    assert (await judged(domain, f"{rome}\n{oslo}")).reward == 1.0
    assert (await judged(domain, oslo)).reward == 0.5
    assert (await judged(domain, f"{oslo}\n{oslo}\n{rome}\n{rome}")).reward == 0.5
    assert (await judged(domain, f"{oslo}\n{rome}\n{say_call('no_function_fits')}")).reward == 0.0


async def test_where_nothing_fits_silence_and_prose_earn_nothing(folder: Path) -> None:
    domain = domain_of(folder, "irrelevance")
    assert (await judged(domain, say_call("no_function_fits"))).reward == 1.0
    for said in ("", "No function fits.", say_call("hotel.book", city="Oslo")):
        assert (await judged(domain, said)).reward == 0.0


@pytest.mark.parametrize(
    ("arguments", "accepted", "right"),
    [
        ({"city": "new york, NY"}, {"city": ["New York NY"]}, True),
        ({"city": "New Jersey"}, {"city": ["New York"]}, False),
        ({"city": "it's"}, {"city": ['it"s']}, True),
        ({"nights": 2}, {"nights": [2.0]}, True),
        ({"nights": True}, {"nights": [1]}, False),
        ({"nights": "2"}, {"nights": [2]}, False),
        ({}, {"nights": [2, ""]}, True),
        ({}, {"nights": [2]}, False),
        ({"city": "a", "more": 1}, {"city": ["a"]}, False),
        ({"tags": ["A b", "c"]}, {"tags": [["ab", "c"]]}, True),
        ({"tags": ["c", "ab"]}, {"tags": [["ab", "c"]]}, False),
        ({"who": {"name": "Ann"}}, {"who": [{"name": ["ann", "Anna"]}]}, True),
        ({"who": {}}, {"who": [{"name": ["ann", ""]}]}, True),
        ({"who": {"name": "Ann", "age": 3}}, {"who": [{"name": ["ann"]}]}, False),
        ({"view": None}, {"view": [None]}, True),
    ],
)
def test_arguments_match_by_the_published_rules(
    arguments: dict[str, Any], accepted: dict[str, list[Any]], right: bool
) -> None:
    assert matches(Call(name="f", arguments=arguments), {"f": accepted}) is right


values = st.one_of(st.integers(-99, 99), st.text("abc XYZ,.", min_size=1, max_size=6), st.booleans())
accepted = st.dictionaries(st.sampled_from("uvwxyz"), st.lists(values, min_size=1, max_size=3), max_size=4)


@given(st.lists(accepted, max_size=4))
def test_the_example_of_what_is_accepted_is_accepted(wanted: list[dict[str, list[Any]]]) -> None:
    named = [{f"f{i}": each} for i, each in enumerate(wanted)]
    calls = [example(each) for each in named]
    assert num_matched(calls[::-1], named) == len(named)


def test_bad_rows_are_left_out_with_place_key_and_reason_and_the_rest_loads(tmp_path: Path) -> None:
    questions, answers = tmp_path / "q.json", tmp_path / "a.json"
    broken = question(3, "x") | {"function": [{"name": "f", "description": "d", "parameters": {"type": "dict",
        "properties": {"a": {"type": "integer", "enum": 3}}}}]}  # fmt: skip
    rows = [question(0, "a"), "{not json", question(0, "b"), {"id": "q_1"}, question(2, "c"), broken, question(4, "d")]
    questions.write_bytes(lines(*rows).encode() + b'{"id": "\xff"}\n')
    answers.write_text(lines(*(answer(row, {"city": ["a"]}) for row in (0, 3, 4)), {"id": "q_9", "ground_truth": []}))
    read, left_out = _bfcl_rows.read(questions, answers)
    assert [row.id for row in read] == ["q_0", "q_4"]
    told = {(each.where, each.key) for each in left_out}
    assert told == {
        ("q.json:2", ""),
        ("q.json:3", "id"),
        ("q.json:4", "question"),
        ("q.json:5", "id"),
        ("q.json:6", "function.parameters"),
        ("q.json:8", ""),
        ("a.json:4", "ground_truth"),
    }
    assert all(each.why for each in left_out)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.one_of(st.binary(max_size=200), st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["id", "question", "function", "role", "content", "name", "parameters"]), inner, max_size=4),
    max_leaves=12).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_whatever_a_file_holds_reading_it_names_what_is_wrong(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "q.json"
    path.write_bytes(data)
    rows, left_out = _bfcl_rows.read(path, None)
    assert not rows
    assert all(each.where.startswith("q.json:") for each in left_out)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="option path"):
        build_domain("bfcl/parallel", {"path": str(tmp_path / "nowhere")})
    with pytest.raises(ConfigurationError, match="bfcl/parallel"):
        build_domain("bfcl/parallel", {"path": str(tmp_path)})
