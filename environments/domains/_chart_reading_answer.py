"""What a completion answers, and how good that is. Completions are data: nothing here runs or raises on them.

    {"answer": 47.5}   {"answer": "1,250 GWh"}   Answer: about 47.5 GWh   **Answer:** Norway

The last answer counts, of a line "Answer: ..." its last number. A scale word that is not part of the unit on the axis
(`12 thousand`) makes a number unreadable: it would mean another value.
"""

import json
import math
import re
import unicodedata
from typing import Any

from environments.domains._chart_reading_ask import WORTHLESS
from environments.domains._common import MAX_SUBMISSION_CHARS

_OBJECT = re.compile(r'\{\s*"answer"\s*:')
_LINE = re.compile(r"^[ \t>*_#-]{0,8}(?:the |final |my ){0,2}answer[ \t*_]{0,4}(?:is)?[ \t]?:(.{0,400})$", re.I | re.M)
_NUMBER = re.compile(r"(?<![\w.,])[-+−]?(?:\d{1,3}(?:[,  ]\d{3})+|\d{1,30})(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?")
_SCALES = frozenset(("hundred", "thousand", "k", "million", "mn", "m", "billion", "bn", "b", "trillion", "dozen"))
_HALF = 0.5


def read_answer(completion: str) -> Any:
    """The value of the last answer, a number or a text; None when there is none.

    Not an answer: text that is too long, repeated keys, NaN and infinities, true and false.
    """
    if len(completion) > MAX_SUBMISSION_CHARS:
        return None
    found = [(match.start(), _value_at(completion, match.start())) for match in _OBJECT.finditer(completion)][-3:]
    found += [(match.start(), match[1].strip(" \t*_`")) for match in _LINE.finditer(completion)]
    read = [(start, value) for start, value in found if value not in (None, "")]
    return max(read, key=lambda each: each[0])[1] if read else None


def is_right(found: Any, expected: Any, tolerance: float | None, unit: str) -> bool:
    """Within the tolerance, or the same label whatever its case, spacing and closing mark."""
    if isinstance(expected, str):
        return isinstance(found, (str, int)) and _plain(str(found)) == _plain(expected)
    value = as_number(found, unit)
    return value is not None and abs(value - expected) <= (tolerance or 0.0) * (1 + 1e-9)


def credit(found: Any, expected: Any, tolerance: float | None, unit: str) -> float:
    """What a miss is worth, below 0.5: it falls with the error to nothing at five tolerances; a count that is one off
    gets 0.25, another label nothing.

    >>> credit(53, 50, 1.0, ""), credit(4, 5, 0.0, ""), credit("Peru", "Chile", None, "")
    (0.25, 0.25, 0.0)
    """
    value = None if isinstance(expected, str) else as_number(found, unit)
    if value is None:
        return 0.0
    if not tolerance:
        return _HALF / 2 if abs(value - expected) == 1 else 0.0
    off = abs(value - expected) / tolerance
    return max(0.0, _HALF * (WORTHLESS - off) / (WORTHLESS - 1))


def as_number(found: Any, unit: str) -> float | None:
    """The number of an answer; of a text the last one in it."""
    if isinstance(found, bool) or not isinstance(found, (int, float, str)):
        return None
    if not isinstance(found, str):
        return _finite(found)
    match = next(reversed(list(_NUMBER.finditer(found[:400]))), None)
    if match is None:
        return None
    after = re.match(r"\s*([^\W\d_]+)", found[match.end() :])
    if after and after[1].casefold() in _SCALES and after[1].casefold() not in unit.casefold().split():
        return None
    return _finite(re.sub(r"[,  ]", "", match[0]).replace("−", "-"))


def _finite(value: Any) -> float | None:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _value_at(text: str, start: int) -> Any:
    decoder = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)
    try:
        found, _ = decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    value = found["answer"]
    known = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    return value.strip() if isinstance(value, str) else value if known and _finite(value) is not None else None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().strip(" \t\r\n.!*_`\"'").split())


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
