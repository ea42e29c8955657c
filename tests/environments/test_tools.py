"""Calls in text: every form that is understood, every fault with its words, and nothing unsafe gets through."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.ids import canonical_json
from assay.records import Message, Tool
from environments.tools import (
    MAX_CALLS,
    MAX_CHARS,
    MAX_DEPTH,
    BadCall,
    Call,
    describe,
    read_calls,
    say_call,
    with_tools,
)

READ = Tool(
    name="read",
    description="Show a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string", "maxLength": 400}, "first": {"type": "integer", "minimum": 1}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
STOP = Tool(name="stop", description="End.", parameters={"type": "object"})
TOOLS = (READ, STOP)
A, B = Call(name="read", arguments={"path": "a"}), Call(name="read", arguments={"path": "b"})
A_TEXT, B_TEXT = '{"name": "read", "arguments": {"path": "a"}}', '{"name": "read", "arguments": {"path": "b"}}'


def fault(completion: str) -> str:
    with pytest.raises(BadCall) as caught:
        read_calls(completion, TOOLS)
    return str(caught.value)


@pytest.mark.parametrize(
    "completion",
    [
        f"<tool_call>\n{A_TEXT}\n</tool_call>",
        f"I look first. <tool_call>{A_TEXT}</tool_call> Then I tell.",
        f"<tool_call>{A_TEXT}",
        f"```json\n{A_TEXT}\n```",
        f"```\n{A_TEXT}\n```",
        f"```tool_call\r\n{A_TEXT}\r\n```",
        f"```JSON\n{A_TEXT}",
        A_TEXT,
        f"Let me see: {A_TEXT} That is all.",
        f"For {{this}} I call {A_TEXT}",
        '{"name": "read", "parameters": {"path": "a"}}',
        '{"name": "read", "arguments": "{\\"path\\": \\"a\\"}"}',
        f"[{A_TEXT}]",
        f"```python\nprint(1)\n```\nNow the call:\n```json\n{A_TEXT}\n```",
        f"```python\nprint({{1}})\n```\n<tool_call>{A_TEXT}</tool_call>",
        f"<think>Maybe <tool_call>{B_TEXT}</tool_call>? No.</think>\n<tool_call>{A_TEXT}</tool_call>",
    ],
)
def test_one_call_is_read_in_every_form(completion: str) -> None:
    assert read_calls(completion, TOOLS) == [A]


@pytest.mark.parametrize(
    "completion",
    [
        f"<tool_call>{A_TEXT}</tool_call><tool_call>{B_TEXT}</tool_call>",
        f"<tool_call>{A_TEXT}\n{B_TEXT}</tool_call>",
        f"<tool_call>[{A_TEXT}, {B_TEXT}]</tool_call>",
        f"```json\n{A_TEXT}\n```\nand\n```json\n{B_TEXT}\n```",
        f"```json\n[{A_TEXT}, {B_TEXT}]\n```",
        f"[{A_TEXT}, {B_TEXT}]",
        f"Both: [ {A_TEXT},\n{B_TEXT} ]",
        f"{A_TEXT}\n{B_TEXT}",
        f"{A_TEXT}, {B_TEXT}",
    ],
)
def test_several_calls_are_read_in_order(completion: str) -> None:
    assert read_calls(completion, TOOLS) == [A, B]


def test_a_tool_without_arguments_needs_none() -> None:
    for completion in ('{"name": "stop"}', '{"name": "stop", "arguments": {}}', '{"name": "stop", "arguments": " "}'):
        assert read_calls(completion, TOOLS) == [Call(name="stop", arguments={})]


def test_tags_count_before_fences_and_fences_before_bare_text() -> None:
    assert read_calls(f"{B_TEXT}\n```json\n{B_TEXT}\n```\n<tool_call>{A_TEXT}</tool_call>", TOOLS) == [A]
    assert read_calls(f"{B_TEXT}\n```json\n{A_TEXT}\n```", TOOLS) == [A]


@pytest.mark.parametrize("completion", ["", "I am done.", "```python\nprint(1)\n```\nThat is it.", "<think>{}"])
def test_a_message_without_a_call_says_how_one_looks(completion: str) -> None:
    said = fault(completion)
    assert said.startswith("No tool was called. Call one of read, stop like this:")
    assert '{"name": "read", "arguments": {"path": "..."}}' in said


@pytest.mark.parametrize(
    ("completion", "words"),
    [
        ('<tool_call>{"name": "read", "arguments": {"path": "a"}</tool_call>', "not valid JSON"),
        ("<tool_call></tool_call>", "not valid JSON"),
        ("```json\n{name: read}\n```", "not valid JSON"),
        ("{name: read}", "not valid JSON"),
        (f"<tool_call>{A_TEXT}</tool_call><tool_call>{{</tool_call>", "not valid JSON"),
        ('{"name": "read", "name": "stop"}', "a key occurs twice"),
        ('{"name": "read", "arguments": {"path": "a", "first": NaN}}', "NaN is not JSON"),
        ('{"name": "read", "arguments": {"path": "a", "first": 1e999}}', "1e999 is too large a number"),
        ('<tool_call>"read"</tool_call>', 'A call is an object with "name" and "arguments".'),
        ('<tool_call>[{"name": "stop"}, 1]</tool_call>', 'A call is an object with "name" and "arguments".'),
        ('{"arguments": {"path": "a"}}', 'A call needs "name", one of read, stop, and "arguments".'),
        ('{"name": "erase"}', "There is no tool 'erase'; the tools are read, stop."),
        ('{"name": ["read"]}', "There is no tool \"['read']\""),
        ('{"name": "read"}', "read: arguments: 'path' is a required property"),
        ('{"name": "read", "arguments": null}', "read: arguments: None is not of type 'object'"),
        ('{"name": "read", "arguments": "[]"}', "read: arguments: [] is not of type 'object'"),
        ('{"name": "read", "arguments": "{} {}"}', "Arguments are one JSON object"),
        ('{"name": "read", "arguments": "path"}', "not valid JSON"),
        ('{"name": "read", "arguments": {"path": 1}}', "read: path: 1 is not of type 'string'"),
        ('{"name": "read", "arguments": {"path": "a", "first": 0}}', "read: first: 0 is less than the minimum of 1"),
        ('{"name": "read", "arguments": {"path": "a", "last": 2}}', "'last' was unexpected"),
        ('{"name": "read", "arguments": {"path": "\\ud800"}}', "half of a surrogate pair"),
        ('{"name": "read", "arguments": {"\\ud800": "a"}}', "half of a surrogate pair"),
    ],
)
def test_a_faulty_call_is_explained(completion: str, words: str) -> None:
    assert words in fault(completion)


def test_a_long_value_does_not_hide_what_is_wrong() -> None:
    said = fault(say_call("read", path="x" * 5000))
    assert said.endswith("breaks maxLength: 400")
    assert len(said) < 300
    assert len(fault(json.dumps({"name": "y" * 5000}))) < 200


def test_one_faulty_call_spoils_the_message() -> None:
    assert "There is no tool 'erase'" in fault(say_call("read", path="a") + say_call("erase"))


def test_a_message_may_hold_so_many_calls_and_no_more() -> None:
    assert len(read_calls(say_call("stop") * MAX_CALLS, TOOLS)) == 16
    assert fault(say_call("stop") * (MAX_CALLS + 1)) == "17 calls in one message; at most 16 are allowed."


def test_a_message_may_be_so_long_and_no_longer() -> None:
    call = say_call("stop")
    assert read_calls(call + " " * (MAX_CHARS - len(call)), TOOLS) == [Call(name="stop", arguments={})]
    assert fault(call + " " * MAX_CHARS) == "The message is longer than 200,000 characters."


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 500, 50_000])
def test_deep_nesting_is_refused(levels: int) -> None:
    deep = "[" * levels + "]" * levels
    assert "nested too deeply" in fault(f'<tool_call>{{"name": "stop", "arguments": {{"x": {deep}}}}}</tool_call>')
    assert "nested too deeply" in fault(f"<tool_call>{deep}</tool_call>")


def test_what_is_nested_less_deeply_is_read() -> None:
    value = nested(MAX_DEPTH - 3)
    assert read_calls(say_call("stop", x=value), TOOLS) == [Call(name="stop", arguments={"x": value})]


def test_an_argument_may_hold_what_looks_like_a_call() -> None:
    for text in ("</tool_call>", f"<tool_call>{B_TEXT}</tool_call>", f"```json\n{B_TEXT}\n```", "<think>", "</think>"):
        assert read_calls(say_call("read", path=text), TOOLS) == [Call(name="read", arguments={"path": text})]
        fenced = f"```json\n{json.dumps({'name': 'read', 'arguments': {'path': text}})}\n```"
        if "tool_call" not in text:
            assert read_calls(fenced, TOOLS) == [Call(name="read", arguments={"path": text})]


def read_or_refused(completion: str) -> list[Call] | str:
    try:
        return read_calls(completion, TOOLS)
    except BadCall as bad:
        return str(bad)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_said_is_read(arguments: dict[str, Any]) -> None:
    assert read_calls(say_call("stop", **arguments), TOOLS) == [Call(name="stop", arguments=arguments)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=2), min_size=1, max_size=4), TEXTS)
def test_several_calls_amid_prose_are_read(each: list[dict[str, Any]], prose: str) -> None:
    said = f"\n{prose}\n".join(say_call("stop", **arguments) for arguments in each)
    if "<tool_call>" not in prose:
        assert [dict(call.arguments) for call in read_calls(f"Now:{said}", TOOLS)] == each


@settings(deadline=None)
@given(st.text(max_size=60) | st.text('{}[]",:`<>/_tolcank \n1e9', max_size=60))
def test_any_text_is_read_or_refused_and_what_is_read_can_be_stored(text: str) -> None:
    for completion in (text, f"<tool_call>{text}", f"```json\n{text}", f'{{"name": "stop", "arguments": {text}}}'):
        found = read_or_refused(completion)
        assert len(found) < 1000 if isinstance(found, str) else canonical_json([c.arguments for c in found]).encode()


def test_tools_are_told_in_the_system_message() -> None:
    asked = (Message(role="system", content="Be brief."), Message(role="user", content="Go."))
    first, last = with_tools(asked, TOOLS)
    assert first.content == f"Be brief.\n\n{describe(TOOLS)}"
    assert last == asked[1]
    assert [m.role for m in with_tools(asked[1:], TOOLS)] == ["system", "user"]
    assert with_tools(asked, ()) == asked


def test_the_description_holds_every_tool_and_an_example_that_is_read() -> None:
    told = describe(TOOLS)
    assert '"description":"Show a file."' in told
    assert '"name":"stop"' in told
    assert read_calls(told.split("exactly:\n")[1], TOOLS) == [Call(name="read", arguments={"path": "..."})]
