"""What a task's tests said: Harbor's reward files, or pytest's own words for Terminal-Bench.

reward.json (an object of finite numbers) wins over reward.txt (one number); both are read, disagreement is told.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from assay.records import record
from environments.formats._faults import shown

MAX_BYTES = 1 << 16
_SUMMARY = re.compile(r"=+ short test summary info =+")
_LINE = re.compile(r"(PASSED|FAILED|ERROR|XPASS|XFAIL) (\S.*)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class BadReward(Exception):
    """The tests left no reward that can be used; the message says what was found."""


@record
class Reward:
    """`value` in 0..1, all numbers that were given, and a remark when the two files disagree."""

    value: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    conflict: str = ""


def read_reward(of_json: str | None, of_text: str | None) -> Reward:
    """The reward of the contents of both files, None for a missing one. Raises BadReward."""
    if of_json is None and of_text is None:
        raise BadReward("the tests left neither reward.json nor reward.txt")
    if of_json is None:
        value = _number(of_text or "", "reward.txt")
        return Reward(value=_in_range(value, "reward.txt"), numbers={"reward": value})
    numbers = _numbers(of_json)
    value = _in_range(numbers.get("reward", sum(numbers.values()) / len(numbers)), "reward.json")
    return Reward(value=value, numbers=numbers, conflict=_conflict(value, of_text))


def _conflict(value: float, of_text: str | None) -> str:
    if of_text is None:
        return ""
    try:
        other = _number(of_text, "reward.txt")
    except BadReward as error:
        return f"reward.json says {value:g}, but {error}"
    return "" if other == value else f"reward.json says {value:g}, reward.txt {other:g}"


def _number(text: str, name: str) -> float:
    if not text.strip():
        raise BadReward(f"{name} is empty")
    try:
        value = float(text)
    except ValueError as error:
        raise BadReward(f"{name} holds {shown(text)!r}, which is not a number") from error
    if not math.isfinite(value):
        raise BadReward(f"{name} holds {shown(text.strip())!r}, which is not finite")
    return value


def _numbers(text: str) -> dict[str, float]:
    if not text.strip():
        raise BadReward("reward.json is empty")
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadReward(f"reward.json is not JSON: {shown(text)!r}") from error
    if not isinstance(values, dict) or not values:
        raise BadReward(f"reward.json holds {shown(values)}, where an object of numbers is needed")
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadReward(f"reward.json has {shown(value)!r} at {shown(name)!r}, which is not a number")
        if (isinstance(value, float) and not math.isfinite(value)) or abs(value) > 1e300:
            raise BadReward(f"reward.json has {shown(value)!r} at {shown(name)!r}, which is not finite")
    return {str(name): float(value) for name, value in values.items()}


def _in_range(value: float, name: str) -> float:
    if not 0.0 <= value <= 1.0:
        raise BadReward(f"{name} gives {value:g}, outside of 0..1")
    return value


def read_pytest(output: str) -> dict[str, bool]:
    """Whether each test passed, from the short summary of `pytest -rA`; the last summary counts. Raises BadReward.

    A file that cannot be collected is a failed test by its path; the error's text is never taken for a name.
    """
    *_, summary = _SUMMARY.split(_ANSI.sub("", output))
    if not _SUMMARY.search(_ANSI.sub("", output)):
        raise BadReward("pytest's short test summary is not in the output (run it with -rA)")
    found: dict[str, bool] = {}
    for line in summary.splitlines():
        if match := _LINE.fullmatch(line.strip()):
            test = match[2].split(" - ")[0].strip()
            found[test] = match[1] in ("PASSED", "XFAIL") and found.get(test, True)
    if not found:
        raise BadReward("pytest's summary names no test")
    return found
