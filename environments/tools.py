"""Tools in text: how they are told to a model, and how its calls are read.

    completion:  I look first. <tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>
    read_calls   -> [Call(name="read", arguments={"path": "a.txt"})]      or what is wrong, in words for the model

The form is the one Qwen and Hermes models are trained on. Others are understood too: fenced JSON, bare JSON,
`parameters` for `arguments`, arguments as text, several calls in a list or one after the other. What a model thinks
aloud at the start (`<think>...</think>`) calls nothing. What is read is safe to store: no lone surrogates, no infinite
numbers, no deep nesting.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from assay.ids import canonical_json
from assay.records import Message, Tool, record

MAX_CHARS = 200_000
MAX_CALLS = 16
MAX_DEPTH = 32
SHOWN_CHARS = 300
_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_TAG = re.compile(r"<tool_call>")
_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\r?\n")
_CALL_LANGUAGES = ("", "json", "tool_call")
_BARE = re.compile(r'(?:\[\s*)?\{\s*["}]')
_BRACE = re.compile(r"\{")
_NEXT = re.compile(r'[\s,]*(?=(?:\[\s*)?\{\s*")')
_SPACE = re.compile(r"\s*")


@record
class Call:
    """One call of a tool, its arguments as the schema wants them."""

    name: str
    arguments: Mapping[str, Any]


class BadCall(Exception):
    """The completion calls nothing that can be carried out; the message says why, for the model to read."""


def say_call(name: str, /, **arguments: Any) -> str:
    """A completion that calls one tool, as `read_calls` reads it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def read_calls(completion: str, tools: Sequence[Tool]) -> list[Call]:
    """The calls in order, at least one. Raises BadCall when there is none, or when any cannot be carried out."""
    if len(completion) > MAX_CHARS:
        raise BadCall(f"The message is longer than {MAX_CHARS:,} characters.")
    found = _found(completion[thought.end() :] if (thought := _THOUGHT.match(completion)) else completion)
    if not found:
        raise BadCall(f"No tool was called. Call one of {_names(tools)} like this: {_example(tools)}")
    if len(found) > MAX_CALLS:
        raise BadCall(f"{len(found)} calls in one message; at most {MAX_CALLS} are allowed.")
    return [_checked(call, tools) for call in found]


def describe(tools: Sequence[Tool]) -> str:
    """What a model whose template knows no tools is told about them."""
    lines = [
        canonical_json({"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)})
        for tool in tools
    ]
    told = "\n".join(lines)
    return f"You can call these tools, described in JSON:\n{told}\nCall a tool by writing exactly:\n{_example(tools)}"


def with_tools(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[Message, ...]:
    """The messages with the tools described in the system message, which is made where there is none."""
    if not tools:
        return tuple(messages)
    first, rest = Message(role="system", content=""), tuple(messages)
    if messages and messages[0].role == "system":
        first, rest = messages[0], tuple(messages[1:])
    text = f"{first.content}\n\n{describe(tools)}".strip()
    return (Message(role="system", content=text, images=first.images), *rest)


def _found(text: str) -> list[dict[str, Any]]:
    """The calls of the tags if there are any, else those of the fences, else those of the bare text."""
    if _TAG.search(text):
        return _tagged(text)
    if any(fence.group(1).lower() in _CALL_LANGUAGES for fence in _fences(text)):
        return [call for fence in _fences(text) for call in _in_fence(text, fence)]
    start = _BARE.search(text) or _BRACE.search(text)
    return _parsed(text, start.start())[0] if start else []


def _tagged(text: str) -> list[dict[str, Any]]:
    """A tag ends where its JSON does, so an argument may hold the text of a tag."""
    found, tag = list[dict[str, Any]](), _TAG.search(text)
    while tag:
        calls, end = _parsed(text, tag.end())
        found, tag = [*found, *calls], _TAG.search(text, end)
    return found


def _fences(text: str) -> Iterator[re.Match[str]]:
    """The openings of fenced blocks; a block ends at the next fence."""
    fence = _FENCE.search(text)
    while fence:
        yield fence
        close = text.find("```", fence.end())
        fence = _FENCE.search(text, close + 3) if close >= 0 else None


def _in_fence(text: str, fence: re.Match[str]) -> list[dict[str, Any]]:
    return _parsed(text, fence.end())[0] if fence.group(1).lower() in _CALL_LANGUAGES else []


def _parsed(text: str, place: int) -> tuple[list[dict[str, Any]], int]:
    """The calls that stand there one after the other, at least one, and where their JSON ends."""
    value, end = _decoded(text, place)
    found = value if isinstance(value, list) else [value]
    while following := _NEXT.match(text, end):
        value, end = _decoded(text, following.end())
        found += value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in found):
        raise BadCall('A call is an object with "name" and "arguments".')
    return found, end


def _decoded(text: str, place: int) -> tuple[Any, int]:
    """The JSON value that stands there, and where it ends."""
    start = _SPACE.match(text, place)
    decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unique)
    try:
        value, end = decoder.raw_decode(text, start.end() if start else place)
    except RecursionError as error:
        raise BadCall("The call is nested too deeply.") from error
    except ValueError as error:
        raise BadCall(f"The call is not valid JSON: {error}.") from error
    _check_sane(value)
    return value, end


def _check_sane(value: Any) -> None:
    """Raises BadCall for what could not be stored or walked through later."""
    level = [value]
    for _ in range(MAX_DEPTH):
        texts = [each for each in level if isinstance(each, str)]
        level = [inner for each in level for inner in _inside(each)]
        if any("\ud800" <= char <= "\udfff" for each in texts for char in each):
            raise BadCall("The call holds half of a surrogate pair, which is no text.")
        if not level:
            return
    raise BadCall(f"The call is nested too deeply; at most {MAX_DEPTH} levels are allowed.")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _checked(call: Mapping[str, Any], tools: Sequence[Tool]) -> Call:
    name = call.get("name")
    tool = next((tool for tool in tools if tool.name == name), None)
    if name is None:
        raise BadCall(f'A call needs "name", one of {_names(tools)}, and "arguments".')
    if tool is None:
        raise BadCall(f"There is no tool {str(name)[:80]!r}; the tools are {_names(tools)}.")
    arguments = _object(call.get("arguments", call.get("parameters", {})))
    faults = _validator(canonical_json(dict(tool.parameters))).iter_errors(arguments)
    fault = min(faults, key=lambda each: (list(map(str, each.absolute_path)), str(each.validator)), default=None)
    if fault is not None:
        raise BadCall(f"{tool.name}: {_where(fault)}: {_what(fault)}")
    return Call(name=tool.name, arguments=arguments)


def _object(arguments: Any) -> Any:
    """The arguments; some models write them as text, and some write nothing where there are none."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return {}
    value, end = _decoded(arguments, 0)
    if arguments[end:].strip():
        raise BadCall("Arguments are one JSON object, with nothing after it.")
    return value


def _where(fault: Any) -> str:
    return ".".join(map(str, fault.absolute_path))[:SHOWN_CHARS] or "arguments"


def _what(fault: Any) -> str:
    """What is wrong, without a long value that would hide it."""
    if len(fault.message) <= SHOWN_CHARS:
        return fault.message
    start, rule = fault.message[: SHOWN_CHARS // 2], str(fault.validator_value)[:SHOWN_CHARS]
    return f"{start}... breaks {fault.validator}: {rule}"


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(schema))


def _names(tools: Sequence[Tool]) -> str:
    return ", ".join(tool.name for tool in tools)


def _example(tools: Sequence[Tool]) -> str:
    first = next(iter(tools), None)
    arguments = dict.fromkeys(first.parameters.get("required", ()) if first else (), "...")
    return say_call(first.name if first else "name", **arguments)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
