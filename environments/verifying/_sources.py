"""What of an agent's files may enter a verifying sandbox: allowed source paths, and never anything that Python or
pytest would act on by itself.

The names are the agent's, so nothing here raises for them: what is refused is named with its reason.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from assay.records import record

MAX_FILES = 1000
MAX_BYTES = 4 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_NEVER = (
    *("conftest.py", "pytest.ini", "pytest.toml", "pyproject.toml", "setup.cfg", "tox.ini", "__pycache__"),
    *("sitecustomize.py", "usercustomize.py", "pyvenv.cfg", "*.pth", "*.pyc", "*.pyo", "*.so", "*.pyd", "*.egg-info"),
    *("*.dist-info", "*._pth"),
)


@record
class Taken:
    """The files that come along, and what stays behind with the reason. `excess` says that there is too much."""

    files: Mapping[str, bytes]
    refused: Mapping[str, str]
    excess: str = ""


def take_sources(collected: Path | Mapping[str, bytes], allowed: Sequence[str]) -> Taken:
    """The files of a folder (or of a mapping from path to content) that match a pattern of `allowed`.

    Patterns are those of `fnmatch` on the whole path, so `src/*.py` reaches sub-folders too. Links are not followed.
    """
    files: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    num_bytes = 0
    for path, source in _entries(collected):
        reason = _reason(path, source, allowed)
        if reason:
            refused[path] = reason
            continue
        num_bytes += source.stat().st_size if isinstance(source, Path) else len(source)
        if len(files) >= MAX_FILES or num_bytes > MAX_BYTES:
            return Taken(
                files={}, refused=refused, excess=f"more than {MAX_FILES} files or {MAX_BYTES} bytes of source"
            )
        files[path] = source.read_bytes() if isinstance(source, Path) else source
    return Taken(files=files, refused=refused)


def _entries(collected: Path | Mapping[str, bytes]) -> Iterator[tuple[str, Path | bytes]]:
    if not isinstance(collected, Path):
        yield from sorted(collected.items())
        return
    for folder, _, names in os.walk(collected, followlinks=False):
        for name in sorted(names):
            path = Path(folder, name)
            yield path.relative_to(collected).as_posix(), path


def _reason(path: str, source: Path | bytes, allowed: Sequence[str]) -> str:
    """Why a file stays behind; empty when it may come."""
    parts = PurePosixPath(path).parts
    if not _NAME.fullmatch(path) or len(path) > 200:
        return "not a plain relative path"
    if any(fnmatchcase(part.lower(), pattern) for part in parts for pattern in _NEVER):
        return "Python or pytest would act on it by itself"
    if not any(fnmatchcase(path, pattern) for pattern in allowed):
        return "not among the allowed sources"
    if isinstance(source, Path) and (source.is_symlink() or not source.is_file() or source.stat().st_nlink != 1):
        return "not a regular file with one name"
    return ""
