"""What the generators of tasks share: seeded randomness, the split of a space of instances, fenced and JSON answers.

An instance belongs to a split by the hash of what makes it one, never by the run's seed: whatever is drawn,
in whatever run, a held-out instance is never trained on.
"""

import json
import random
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeVar

from assay.ids import content_hash, derive_seed
from assay.records import Split

T = TypeVar("T")

MAX_SUBMISSION_CHARS = 20_000
_FENCE = re.compile(r"```[ \t]*([A-Za-z]*)[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)


def task_rng(domain: str, split: Split, index: int, seed: int) -> random.Random:
    """Randomness of one task; equal arguments give equal draws in every process."""
    return random.Random(derive_seed(domain, split, index, seed))


def side(options: Sequence[T], split: Split, key: str, *, one_in: int = 4) -> list[T]:
    """The options that belong to a split: one in `one_in`, and at least one, is held out; `key` salts the choice."""
    ordered = sorted(options, key=lambda option: content_hash([key, repr(option)]))
    num_heldout = max(1, len(ordered) // one_in)
    return ordered[:num_heldout] if split == "heldout" else ordered[num_heldout:]


def task_id(domain: str, split: str, index: int) -> str:
    """For example `code_repair/train/0017`."""
    return f"{domain}/{split}/{index:04d}"


def fenced_block(text: str, languages: Sequence[str]) -> str | None:
    """The first fenced block in one of the languages (or in none), closed or cut off; None if there is none."""
    for match in _FENCE.finditer(text[: 2 * MAX_SUBMISSION_CHARS]):
        if match.group(1).lower() in ("", *languages):
            return match.group(2)
    return None


def parse_object(completion: str) -> dict[str, Any] | None:
    """The first JSON object of a completion, or None. Fractions come as Decimal.

    Not an object: text that is too long, repeated keys (which value would count?), NaN and infinities.
    """
    body = fenced_block(completion, ("json",)) or completion
    start = body.find("{")
    if start < 0 or len(completion) > MAX_SUBMISSION_CHARS:
        return None
    decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_unique)
    try:
        found, _ = decoder.raw_decode(body, start)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def plain(value: str) -> str:
    """Text as it is compared: Unicode compatibility normalisation, no case, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", value).casefold().split())


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
