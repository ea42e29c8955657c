"""Rows of BFCL files: read, checked one by one, functions as tools. What cannot be read is left out with the reason."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assay.errors import ConfigurationError
from assay.ids import content_hash
from assay.records import Message, Tool, record
from environments.base import LeftOut

MAX_FILE_BYTES = 200 << 20
_TYPES = {
    "array": "array ArrayList Array list tuple Queue Stack",
    "boolean": "boolean Boolean bool",
    "integer": "integer long byte short Bigint",
    "number": "number float double",
    "object": "object dict HashMap Hashtable",
    "string": "string String char",
}
_TYPE_OF = {name: ours for ours, names in _TYPES.items() for name in names.split()}  # any: no type


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Function(_Strict):
    name: str = Field(min_length=1)
    description: str
    parameters: dict[str, Any]


class _Message(_Strict):
    role: str = Field(pattern="^(system|user|assistant)$")
    content: str


class _Question(_Strict):
    id: str = Field(min_length=1)
    question: list[list[_Message]] = Field(min_length=1, max_length=1)
    function: list[_Function] = Field(min_length=1)


class _Answer(_Strict):
    id: str
    ground_truth: list[dict[str, dict[str, Any]]] = Field(min_length=1)


@record
class Row:
    """One question; `wanted` is empty where the set gives no answers."""

    id: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    wanted: tuple[Mapping[str, Any], ...]

    @property
    def question_digest(self) -> str:
        return content_hash([[m.role, m.content] for m in self.messages])


def read(questions: Path, answers: Path | None, *, variables: bool = False) -> tuple[list[Row], list[LeftOut]]:
    """The rows of a category in file order, and what was left out. Raises ConfigurationError without the files.

    With `variables` any argument may also be a text: the name of a variable, or an expression.
    """
    wanted, faults = _answers(answers) if answers else ({}, [])
    rows: list[Row] = []
    seen: set[str] = set()
    for where, value in _lines(questions, faults):
        try:
            asked = _Question.model_validate(value)
            if asked.id in seen:
                faults.append(LeftOut(where=where, key="id", value=asked.id, why="this id occurs before"))
                continue
            if answers and asked.id not in wanted:
                faults.append(LeftOut(where=where, key="id", value=asked.id, why=f"{answers.name} has no answer to it"))
                continue
            rows.append(_row(asked, wanted.get(asked.id, ()), variables))
            seen.add(asked.id)
        except ValidationError as error:
            faults.append(_fault(where, error))
        except SchemaError as error:
            faults.append(LeftOut(where=where, key="function.parameters", why=f"no JSON schema: {error.message[:200]}"))
    return rows, faults


def _row(asked: _Question, wanted: Sequence[Mapping[str, Any]], variables: bool) -> Row:
    return Row(
        id=asked.id,
        messages=tuple(Message(role=m.role, content=m.content) for m in asked.question[0]),
        tools=tuple(_tool(function, variables) for function in asked.function),
        wanted=tuple(wanted),
    )


def _tool(function: _Function, variables: bool) -> Tool:
    schema = _schema(function.parameters)
    for argument in schema.get("properties", {}).values() if variables else ():
        if isinstance(argument.get("type"), str) and argument["type"] != "string":
            argument["type"] = [argument["type"], "string"]
    Draft202012Validator.check_schema(schema)
    return Tool(name=function.name, description=function.description, parameters=schema)


def _schema(value: Any) -> Any:
    """The parameters as JSON schema: types by their standard names; a type that can be anything is left away."""
    if isinstance(value, list):
        return [_schema(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _schema(each) for key, each in value.items()}
    if isinstance(value.get("type"), str):
        ours = _TYPE_OF.get(value["type"])
        made.pop("type")
        made |= {"type": ours} if ours else {}
    if isinstance(made.get("required"), bool):  # of some nested fields, where JSON schema has a list
        made.pop("required")
    return made


def _answers(path: Path) -> tuple[dict[str, list[dict[str, dict[str, Any]]]], list[LeftOut]]:
    faults: list[LeftOut] = []
    found: dict[str, list[dict[str, dict[str, Any]]]] = {}
    for where, value in _lines(path, faults):
        try:
            answer = _Answer.model_validate(value)
            found[answer.id] = answer.ground_truth
        except ValidationError as error:
            faults.append(_fault(where, error))
    return found, faults


def _lines(path: Path, faults: list[LeftOut]) -> list[tuple[str, Any]]:
    """(place, value) of each line that is JSON."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigurationError(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB, more than any BFCL file.")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"Cannot read {path}: {error.strerror}. It belongs to BFCL's data folder.") from error
    lines = []
    for number, line in enumerate(data.splitlines(), 1):
        where = f"{path.name}:{number}"
        try:
            if line.strip():
                lines.append((where, json.loads(line.decode("utf-8"))))
        except (ValueError, RecursionError) as error:
            faults.append(LeftOut(where=where, why=f"not a line of JSON in UTF-8: {str(error)[:200]}"))
    return lines


def _fault(where: str, error: ValidationError) -> LeftOut:
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    return LeftOut(where=where, key=key, value=str(first.get("input"))[:80], why=first["msg"])
