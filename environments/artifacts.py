"""Files as a submission: what an agent left, as one text that is stored with its trajectory and verified from there.

sandbox --collect(patterns)--> Artifacts --write--> {"answer": "", "files": {"out.txt": "42"}} --read--> Artifacts
"""

import base64
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from assay.ids import canonical_json
from assay.records import record
from environments.sandboxes.base import CollectLimits, Sandbox

MAX_BYTES = 1 << 20
MAX_FILES = 500


@record
class Artifacts:
    """Files by path relative to the work dir, an answer in words, and what stayed behind with the reason.

    `executable` are paths among the files; `removed` are paths of files that were known before and are gone.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    answer: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    executable: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def text(self, path: str) -> str | None:
        """A file as UTF-8 text (what is not becomes U+FFFD); None when it is not there."""
        return self.files[path].decode("utf-8", "replace") if path in self.files else None


def fingerprint(data: bytes, *, executable: bool) -> str:
    """What tells two files apart: SHA-256 of the content, and whether it may be executed."""
    return hashlib.sha256(data).hexdigest() + ("+x" if executable else "")


async def collect(
    sandbox: Sandbox,
    patterns: Sequence[str],
    *,
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
    known: Mapping[str, str] | None = None,
) -> Artifacts:
    """The regular files of the work dir whose path matches a pattern (`fnmatch`), `max_bytes` in all, in path order.

    `known` are fingerprints of files that were there before: those that are still the same stay behind, and those that
    are gone are named. Raises SandboxError when the place failed.
    """
    known = known or {}
    limits = CollectLimits(max_file_bytes=max_bytes)
    with tempfile.TemporaryDirectory(prefix="assay-artifacts-") as folder:
        target = Path(folder) / "work"
        collected = await sandbox.download("", target, limits=limits)
        wanted = [path for path in sorted(collected.files) if any(fnmatchcase(path, pattern) for pattern in patterns)]
        files: dict[str, bytes] = {}
        executable: list[str] = []
        refused, left = dict(collected.refused), max_bytes
        for path in wanted:
            data = (target / path).read_bytes()
            runs = bool((target / path).stat().st_mode & 0o100)
            if known.get(path) == fingerprint(data, executable=runs):
                continue
            if len(data) > left or len(files) >= max_files:
                refused[path] = f"more than {max_bytes:,} bytes or {max_files} files in all"
                continue
            files[path], left = data, left - len(data)
            executable += [path] if runs else []
    removed = tuple(sorted(known.keys() - set(collected.files)))
    return Artifacts(files=files, refused=refused, executable=tuple(executable), removed=removed)


def write(artifacts: Artifacts) -> str:
    """The submission's text; equal artifacts give equal texts."""
    files = {_clean(path): _written(data) for path, data in artifacts.files.items()}
    refused = {_clean(path): reason for path, reason in artifacts.refused.items()}
    lists = {"executable": artifacts.executable, "removed": artifacts.removed}
    left: dict[str, Any] = {name: sorted(map(_clean, paths)) for name, paths in lists.items() if paths}
    left |= {"refused": refused} if refused else {}
    return canonical_json({"answer": _clean(artifacts.answer), "files": files, **left})


def read(submission: str) -> Artifacts:
    """What `write` wrote; empty artifacts for anything else."""
    try:
        value = json.loads(submission)
        files = dict(_read(value["files"]))
        lists = {name: tuple(map(str, value.get(name, ()))) for name in ("executable", "removed")}
        return Artifacts(files=files, answer=str(value["answer"]), refused=dict(value.get("refused", {})), **lists)
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
