"""Names of objects in the store, and what they tell: the commit a file belongs to and when it was written.

commits/<table>/<part>.json                          one per commit; the part follows from the commit's key
data/<table>/<part>-<time>-<random>.parquet          rows; visible only when a commit names the file
compactions/<table>/<number>.json                    which files replace which commits' files
"""

import re
from datetime import UTC, datetime

from assay.ids import content_hash

COMMITS, DATA, COMPACTIONS = "commits/", "data/", "compactions/"
_TIME = "%Y%m%dT%H%M%S"
_STAMP = re.compile(r"-(\d{8}T\d{6})-[0-9a-f]{8}(?:\.|$)")


def part_of(key: str) -> str:
    """The object name for a commit's key: its readable start and a hash, safe in paths and URLs.

    >>> part_of("rollouts/it 3")
    'rollouts-it-3-36d247aa11fc'
    """
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", key).strip("-.")[:60]
    return f"{readable}-{content_hash(key, length=12)}".lstrip("-")


def commit_key(table: str, part: str) -> str:
    return f"{COMMITS}{table}/{part}.json"


def compaction_key(table: str, number: int) -> str:
    return f"{COMPACTIONS}{table}/{number:08d}.json"


def stamped(name: str, unique: str, at: datetime | None = None) -> str:
    """`name-<UTC time>-<unique>`: a name that tells its age; `unique` is 8 hex digits."""
    return f"{name}-{(at or datetime.now(UTC)).strftime(_TIME)}-{unique}"


def age_s(key: str, now: datetime) -> float | None:
    """Seconds since a stamped name was made; None when the name has no stamp."""
    found = _STAMP.search(key)
    if found is None:
        return None
    return (now - datetime.strptime(found[1], _TIME).replace(tzinfo=UTC)).total_seconds()
