"""Content hashes and identities: equal content, equal id, on every machine and in every process."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and no NaN, so equal values give equal text.

    Raises ValueError for non-finite floats and TypeError for values JSON cannot carry.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_hash(value: Any, *, length: int = 32) -> str:
    """Hex digest (`length` characters, at most 64) of a JSON-able value.

    >>> content_hash({"b": 1, "a": [2]}) == content_hash({"a": [2], "b": 1})
    True
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def short_id(prefix: str, value: Any) -> str:
    """A readable identity such as `t_8f2c91d0a3b4c5d6`: prefix, underscore, 16 hex digits."""
    return f"{prefix}_{content_hash(value, length=16)}"


def combined_digest(digests: Iterable[str]) -> str:
    """One digest for a set of digests, whatever their order."""
    return content_hash(sorted(digests))


def derive_seed(*parts: Any) -> int:
    """A 63-bit seed that depends on the parts only: `derive_seed(run_seed, "tasks", i)`."""
    return int(content_hash(list(parts), length=16), 16) >> 1
