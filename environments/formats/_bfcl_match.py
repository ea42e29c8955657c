"""When a call is what a BFCL row accepts.

    {"book": {"city": ["Oslo"], "nights": [2, 3], "view": ["sea", ""]}}      "" : the argument may be left out

A text matches whatever its case, spaces and , . / - _ * ^ are, and whichever quotes it uses; numbers match by value;
a list matches element by element, in order; an object key by key, each with accepted values of its own. Several calls
match in any order, each one once.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from environments.tools import Call

Accepted = Mapping[str, Mapping[str, Sequence[Any]]]
_IGNORED = re.compile(r"[ ,./\-_*^]")


def num_matched(calls: Sequence[Call], wanted: Sequence[Accepted]) -> int:
    """How many of the wanted calls were made, each call counting once."""
    left = list(calls)
    count = 0
    for accepted in wanted:
        found = next((call for call in left if matches(call, accepted)), None)
        if found is not None:
            left.remove(found)
            count += 1
    return count


def matches(call: Call, accepted: Accepted) -> bool:
    """Whether this is the function, with accepted arguments, nothing missing and nothing else."""
    ((name, arguments),) = accepted.items()
    return call.name == name and _fields(call.arguments, arguments)


def _fields(given: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]]) -> bool:
    if set(given) - set(accepted):
        return False
    return all(
        _one_of(given[name], values) if name in given else "" in values
        for name, values in ((name, _as_list(values)) for name, values in accepted.items())
    )


def _one_of(value: Any, accepted: Sequence[Any]) -> bool:
    return any(_same(value, each) for each in accepted if each != "" or value == "")


def _same(value: Any, accepted: Any) -> bool:
    if isinstance(accepted, Mapping):
        return isinstance(value, Mapping) and _fields(value, accepted)
    if isinstance(accepted, list):
        return (
            isinstance(value, list)
            and len(value) == len(accepted)
            and all(_same(v, a) for v, a in zip(value, accepted, strict=True))
        )
    if isinstance(accepted, str):
        return isinstance(value, str) and _plain(value) == _plain(accepted)
    if accepted is None or isinstance(accepted, bool) or isinstance(value, bool):
        return value is accepted
    return isinstance(value, (int, float)) and value == accepted


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _as_list(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list) else [values]


def example(accepted: Accepted) -> Call:
    """A call that is accepted, without the arguments that may be left out."""
    ((name, arguments),) = accepted.items()
    return Call(name=name, arguments=_example_fields(arguments))


def _example_fields(accepted: Mapping[str, Any]) -> dict[str, Any]:
    needed = {name: _as_list(values) for name, values in accepted.items() if "" not in _as_list(values)}
    return {name: _example_value(values[0]) if values else None for name, values in needed.items()}


def _example_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _example_fields(value)
    return [_example_value(each) for each in value] if isinstance(value, list) else value
