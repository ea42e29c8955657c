"""Tools in text: how they are told to a model, and how its calls are read.

    completion:  I look first. <tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>
    read_calls   -> [Call(name="read", arguments={"path": "a.txt"})]      or what is wrong, in words for the model

The form is the one Qwen and Hermes models are trained on. Others are understood too: fenced JSON, bare JSON,
`parameters` for `arguments`, several calls in a list.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from assay.ids import canonical_json
from assay.records import Message, Tool, record

MAX_CHARS = 200_000
MAX_CALLS = 16
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FENCED = re.compile(r"```(?:json|tool_call)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)


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
    found = [call for text in _candidates(completion) for call in _parsed(text)]
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


def _candidates(completion: str) -> list[str]:
    """Texts that may be calls: tagged ones if there are any, else fenced ones, else the whole message."""
    for pattern in (_TAGGED, _FENCED):
        if found := pattern.findall(completion):
            return found
    start = completion.find("{")
    return [completion[start:]] if start >= 0 else []


def _parsed(text: str) -> list[dict[str, Any]]:
    try:
        value, _ = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique).raw_decode(text.strip())
    except RecursionError as error:
        raise BadCall("The call is nested too deeply.") from error
    except ValueError as error:
        raise BadCall(f"The call is not valid JSON: {error}.") from error
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in values):
        raise BadCall('A call is an object with "name" and "arguments".')
    return values


def _checked(call: Mapping[str, Any], tools: Sequence[Tool]) -> Call:
    name = call.get("name")
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        raise BadCall(f"There is no tool {str(name)[:80]!r}; the tools are {_names(tools)}.")
    arguments = call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):  # some models write the arguments as text
        arguments = next(iter(_parsed(arguments)), None)
    fault = next(iter(sorted(_validator(canonical_json(dict(tool.parameters))).iter_errors(arguments), key=str)), None)
    if fault is not None:
        where = ".".join(map(str, fault.absolute_path)) or "arguments"
        raise BadCall(f"{tool.name}: {where}: {fault.message[:300]}")
    return Call(name=tool.name, arguments=arguments)


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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
