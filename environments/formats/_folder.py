"""Folders and files that others wrote, read without being led elsewhere: no links, no giants, no special files.

read_folder(root)       every file below with its size and fingerprint
read_text(root, path)   one text
keep(files)             the files again, in a folder named by their content that never changes
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from assay.ids import content_hash
from assay.records import record
from assay.settings import settings
from environments.formats._faults import Unusable

MAX_TEXT = 1 << 20
MAX_FILE = 64 << 20
MAX_FILES = 20_000
MAX_TOTAL = 512 << 20


@record
class Entry:
    """A regular file of this machine; `mark` is its fingerprint as in `artifacts`."""

    source: Path
    size: int
    mark: str

    @property
    def executable(self) -> bool:
        return self.mark.endswith("+x")


Files = Mapping[str, Entry]


def read_folder(root: Path) -> dict[str, Entry]:
    """The files below a folder by path in it, sorted; nothing when there is no such folder. Raises Unusable."""
    if not os.path.lexists(root):
        return {}
    status = os.lstat(root)
    if not stat.S_ISDIR(status.st_mode):
        raise Unusable(
            "a folder is needed here, not a link or another kind of file", key=root.name, value=_kind(status)
        )
    files: dict[str, Entry] = {}
    left = MAX_TOTAL
    for path, found in _walk(root, ""):
        left -= found.st_size
        if found.st_size > MAX_FILE or left < 0 or len(files) >= MAX_FILES:
            rule = f"at most {MAX_FILE >> 20} MiB a file, {MAX_TOTAL >> 20} MiB and {MAX_FILES:,} files in all"
            raise Unusable(f"too large: {rule}", key=f"{root.name}/{path}", value=f"{found.st_size:,} bytes")
        files[path] = entry(root / path)
    return dict(sorted(files.items()))


def entry(path: Path) -> Entry:
    """One file. Raises Unusable when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            runs = os.fstat(file.fileno()).st_mode & 0o100
            while chunk := file.read(1 << 20):
                digest.update(chunk)
            size = file.tell()
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}", key=path.name, value=str(path)) from error
    return Entry(source=path, size=size, mark=digest.hexdigest() + ("+x" if runs else ""))


def read_text(root: Path, path: str) -> str:
    """A text below a folder. Raises Unusable when it is missing, too large, a link or not UTF-8."""
    full = root / path
    if not os.path.lexists(full):
        raise Unusable("this file is required", key=path, value="nothing")
    status = os.lstat(full)
    if not stat.S_ISREG(status.st_mode):
        raise Unusable("a regular file is needed here", key=path, value=_kind(status))
    if status.st_size > MAX_TEXT:
        raise Unusable(f"at most {MAX_TEXT:,} bytes are read", key=path, value=f"{status.st_size:,} bytes")
    try:
        return full.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise Unusable(f"it must be UTF-8, but byte {error.start} is not", key=path, value="not UTF-8") from error
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}", key=path, value=str(full)) from error


def marks(files: Files) -> dict[str, str]:
    """Fingerprint by path."""
    return {path: found.mark for path, found in files.items()}


def total_digest(*folders: Files) -> str:
    """One digest of all contents."""
    return content_hash([marks(files) for files in folders])


def keep(files: Mapping[str, Entry | bytes], *, executable: tuple[str, ...] = ()) -> Path:
    """A folder with these files that is named by their content, made once below Assay's home, and never changes.

    Files given as bytes and the paths in `executable` may be executed.
    """
    content = [
        [path, found.mark if isinstance(found, Entry) else hashlib.sha256(found).hexdigest(), path in executable]
        for path, found in files.items()
    ]
    home = settings().home_dir / "formats"
    target = home / content_hash(content)[:32]
    if target.is_dir():
        return target
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=".new-") as scratch:
        made = Path(scratch, "files")
        made.mkdir(0o755)
        for path, found in files.items():
            _write(made / path, found, runs=path in executable or isinstance(found, bytes) or found.executable)
        if not target.is_dir():
            move_into_place(made, target)
    return target


def move_into_place(made: Path, target: Path) -> None:
    """Rename a finished folder, unless another process was faster."""
    made.chmod(0o755)
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _write(target: Path, found: Entry | bytes, *, runs: bool) -> None:
    for folder in reversed([parent for parent in target.parents if not parent.exists()]):
        folder.mkdir(0o755)
    if isinstance(found, bytes):
        target.write_bytes(found)
    else:
        shutil.copyfile(found.source, target)
        if entry(target).mark != found.mark.removesuffix("+x"):
            raise Unusable("it has changed since the set was read", key=found.source.name, value=str(found.source))
    target.chmod(0o755 if runs else 0o644)


def _walk(root: Path, below: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(root / below) as entries:
        for found in sorted(entries, key=lambda each: each.name):
            path = f"{below}{found.name}"
            status = found.stat(follow_symlinks=False)
            if path.encode("utf-8", "replace").decode() != path:
                raise Unusable("names must be UTF-8", key=root.name, value=path)
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(root, f"{path}/")
            elif stat.S_ISREG(status.st_mode):
                yield path, status
            else:
                raise Unusable("only regular files and folders; links are not followed", key=path, value=_kind(status))


def _kind(status: os.stat_result) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFREG: "a file", stat.S_IFIFO: "a pipe"}
    return kinds.get(stat.S_IFMT(status.st_mode), "a special file")


class _Loader(yaml.SafeLoader):
    """Plain YAML: references could make a small file a value of any size."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references (*name) are not allowed")
        return super().compose_node(parent, index)


def parse_yaml(text: str, name: str) -> Any:
    """A YAML document as plain values. Raises Unusable."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, AttributeError, KeyError, RecursionError) as error:
        raise Unusable(f"is not valid YAML: {str(error)[:200]}", key=name, value=text[:40]) from error
