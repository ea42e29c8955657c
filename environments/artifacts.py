"""Files as a submission: what an agent left, as one text that is stored with its trajectory and verified from there.

sandbox --collect(patterns)--> Artifacts --write--> {"answer": "", "files": {"out.txt": "42"}} --read--> Artifacts
"""

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path

from assay.ids import canonical_json
from assay.records import record
from environments.sandboxes.base import CollectLimits, Sandbox

MAX_BYTES = 1 << 20
MAX_FILES = 500


@record
class Artifacts:
    """Files by path relative to the work dir, an answer in words, and what stayed behind with the reason."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    answer: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str | None:
        """A file as UTF-8 text (what is not becomes U+FFFD); None when it is not there."""
        return self.files[path].decode("utf-8", "replace") if path in self.files else None


async def collect(sandbox: Sandbox, patterns: Sequence[str], *, max_bytes: int = MAX_BYTES) -> Artifacts:
    """The regular files of the work dir whose path matches a pattern (`fnmatch`), `max_bytes` in all, in path order.

    Raises SandboxError when the place failed.
    """
    limits = CollectLimits(max_file_bytes=max_bytes)
    with tempfile.TemporaryDirectory(prefix="assay-artifacts-") as folder:
        target = Path(folder) / "work"
        collected = await sandbox.download("", target, limits=limits)
        wanted = [path for path in sorted(collected.files) if any(fnmatchcase(path, pattern) for pattern in patterns)]
        files: dict[str, bytes] = {}
        refused, left = dict(collected.refused), max_bytes
        for path in wanted:
            data = (target / path).read_bytes()
            if len(data) > left or len(files) >= MAX_FILES:
                refused[path] = f"more than {max_bytes:,} bytes or {MAX_FILES} files in all"
                continue
            files[path], left = data, left - len(data)
    return Artifacts(files=files, refused=refused)


def write(artifacts: Artifacts) -> str:
    """The submission's text; equal artifacts give equal texts."""
    files = {_clean(path): _written(data) for path, data in artifacts.files.items()}
    refused = {_clean(path): reason for path, reason in artifacts.refused.items()}
    left = {"refused": refused} if refused else {}
    return canonical_json({"answer": _clean(artifacts.answer), "files": files, **left})


def read(submission: str) -> Artifacts:
    """What `write` wrote; empty artifacts for anything else."""
    try:
        value = json.loads(submission)
        files = dict(_read(value["files"]))
        return Artifacts(files=files, answer=str(value["answer"]), refused=dict(value.get("refused", {})))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Artifacts()


def _written(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _read(files: Mapping[str, str | Mapping[str, str]]) -> Iterator[tuple[str, bytes]]:
    for path, value in files.items():
        yield path, value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)


def _clean(text: str) -> str:
    """Names come from the agent and may hold what UTF-8 cannot express."""
    return text.encode("utf-8", "replace").decode()
