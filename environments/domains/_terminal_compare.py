"""Compares what was left with what is expected, outside of the sandbox; what was left may be any bytes."""

import configparser
import csv
import json
from collections.abc import Callable, Mapping
from typing import Any

from environments.artifacts import Artifacts
from environments.verifying.judge import same

Check = Mapping[str, Any]


def holds(check: Check, left: Artifacts, folder: str) -> bool:
    """Whether a check other than a run holds. Never raises for what was left; KeyError for an unknown kind."""
    if check["kind"] == "answer":
        return left.answer.strip() == check["expected"]
    compare = _COMPARE[check["kind"]]
    data = left.files.get(f"{folder}/{check['path']}")
    if data is None:
        return False
    try:
        return compare(data.decode(), check["expected"])
    except (ValueError, RecursionError, csv.Error, configparser.Error):
        return False


def printed_same(found: str, expected: str) -> bool:
    """Whether two outputs are equal but for spaces at the end of lines and newlines at the end."""
    return _without_ends(found) == _without_ends(expected)


def _text(found: str, expected: str) -> bool:
    return found.rstrip("\n") == expected.rstrip("\n")


def _line_set(found: str, expected: list[str]) -> bool:
    return sorted(found.rstrip("\n").split("\n")) == sorted(expected)


def _json(found: str, expected: Any) -> bool:
    return same(json.loads(found), expected)


def _csv(found: str, expected: list[list[str]]) -> bool:
    return [row for row in csv.reader(found.splitlines(), strict=True) if row] == expected


def _ini(found: str, expected: Mapping[str, Mapping[str, str]]) -> bool:
    parser = configparser.ConfigParser(interpolation=None, default_section="\0")
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(found)
    return {name: dict(parser[name]) for name in parser.sections()} == expected


def _without_ends(printed: str) -> list[str]:
    return [line.rstrip() for line in printed.rstrip().split("\n")]


_COMPARE: Mapping[str, Callable[[str, Any], bool]] = {
    "text": _text,
    "line_set": _line_set,
    "json": _json,
    "csv": _csv,
    "ini": _ini,
}
KINDS = ("answer", "run", *_COMPARE)
