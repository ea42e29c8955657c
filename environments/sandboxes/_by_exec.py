"""Files in and out of a place that can only run commands: with `sh`, `ls`, `head`, `cat` and `tar` inside.

    run(argv, stdin, timeout_s, max_output) -> exit code, stdout, stderr, truncated

What comes out is the agent's and is trusted with nothing: sizes are capped twice and archives are read by `_collect`.
"""

import hashlib
import io
import re
import secrets
import tarfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from assay.errors import SandboxError
from environments.sandboxes import _collect, _files, _tree_hash
from environments.sandboxes._archive import Archive
from environments.sandboxes.base import Collected, CollectLimits

# Raises SandboxError when a command cannot be run or exceeds its time.
Run = Callable[[Sequence[str], bytes, float, int], Awaitable[tuple[int, bytes, bytes, bool]]]

_FILE_S, _FOLDER_S = 60.0, 600.0
_REFUSED = 81  # the scripts' own exit code; the reason is on stderr
_EMPTY = bytes(tarfile.RECORDSIZE)
_STDERR = 1 << 16
_HEADERS = 2048  # bytes that tar adds per entry, generously

# Links are looked for in each folder on the way; `./` keeps names with a dash from being options.
_WALK = """
LC_ALL=C; export LC_ALL; set -fu
no() { echo "$1" >&2; exit 81; }
enter() {
    [ -L "./$1" ] && no "Not a directory"
    [ -e "./$1" ] || if [ "$make" ]; then mkdir "./$1" || exit 81; else no "No such file or directory"; fi
    [ -d "./$1" ] || no "Not a directory"
    cd -P "./$1" || exit 81
}
make=$1 extra=$2; cd -P "$3" || exit 82; shift 3
"""
_READ = """
while [ $# -gt 1 ]; do enter "$1"; shift; done
name=./$1
[ -L "$name" ] && no "Too many levels of symbolic links"
[ -e "$name" ] || no "No such file or directory"
set -- $(ls -ldn "$name")
echo "$1 $2 $5"
case $1 in -*) exec head -c "$extra" "$name";; esac
"""
_WRITE = """
umask 022
while [ $# -gt 1 ]; do enter "$1"; shift; done
[ -d "./$1" ] && [ ! -L "./$1" ] && no "Is a directory"
mode=${extra%,*} new=./.${extra#*,}
trap 'rm -f "$new"' EXIT
set -C; cat > "$new" || exit 81; chmod "$mode" "$new" || exit 81
if [ -L "./$1" ]; then rm -f "./$1" || exit 81; fi
mv -f "$new" "./$1" || exit 81
trap - EXIT
"""
_ENTER = '\nwhile [ $# -gt 0 ]; do enter "$1"; shift; done\n'
_UNPACK = "umask 022" + _ENTER + "umask 0; exec tar -xmof -"
_PACK = _ENTER + 'tar -cf - . | head -c "$extra"'


class _NoFolder(Exception):
    """The way leads to no folder, for the reason that is the text."""


async def read(run: Run, work_dir: str, path: str, max_bytes: int) -> bytes:
    """A regular file's bytes; no link is followed. Raises SandboxError if missing, too large or not regular."""
    argv = _argv(_READ, "", max_bytes + 1, work_dir, _files.parts(path))
    output = await _checked(run, argv, b"", _FILE_S, max_bytes + 4096, f"read {path!r}")
    status, _, data = output.partition(b"\n")
    mode, links, size = _status(status, path)
    if not mode.startswith("-"):
        raise SandboxError(
            f"Cannot read {path!r} in the sandbox: it is not a regular file (mode {mode}); only those are read."
        )
    _files.check_links_and_size(path, links, max(size, len(data)), max_bytes)
    return data


async def write(run: Run, work_dir: str, path: str, data: bytes, mode: int) -> None:
    """Create or replace a regular file in one step; missing folders are made, links on the way are an error."""
    extra = f"{_files.checked_mode(mode):o},{secrets.token_hex(8)}"
    argv = _argv(_WRITE, "make", extra, work_dir, _files.parts(path))
    await _checked(run, argv, data, _FILE_S, _STDERR, f"write {path!r}")


async def upload(run: Run, work_dir: str, source: Path, path: str) -> None:
    """Copy a folder of this machine into folder `path` (empty: the work dir): its files and folders, no links."""
    argv = _argv(_UNPACK, "make", "", work_dir, _folders(path))
    await _checked(run, argv, _collect.pack(source), _FOLDER_S, _STDERR, f"upload to {path!r}")


async def download(run: Run, work_dir: str, path: str, target: Path, limits: CollectLimits) -> Collected:
    """Copy folder `path` (empty: the work dir) to the new folder `target`, trusting nothing in it.

    What lies beyond the first `max_total_bytes` of the folder, too large files included, is not looked at.
    """
    try:
        stream, complaints = await _packed(run, work_dir, path, limits)
    except _NoFolder as reason:
        stream, complaints = _EMPTY, {".": str(reason)}
    collected = _collect.collect_tar(io.BytesIO(stream), target, limits)
    refused = {**collected.refused, **complaints}
    return Collected(files=collected.files, refused=refused, num_bytes=collected.num_bytes)


async def state_hash(run: Run, work_dir: str) -> str:
    """Digest of the work dir as `_tree_hash` makes it; raises SandboxError when it is too large to bring out."""
    limits = CollectLimits()
    stream, complaints = await _packed(run, work_dir, "", limits)
    if len(stream) >= _room(limits):
        raise SandboxError(f"The work dir has more than {limits.max_total_bytes} bytes, too much to hash by commands.")
    archive = Archive(io.BytesIO(stream), len(stream))
    listing = {name: f"unread: {reason}" for name, reason in complaints.items()}
    for entry in archive:
        if (name := _collect.entry_path(entry.name)) and not _tree_hash.ignored(name):
            listing[name] = _described(archive, entry, listing)
    return _tree_hash.digest_of(listing)


def _described(archive: Archive, entry: tarfile.TarInfo, listing: dict[str, str]) -> str:
    if entry.islnk():  # a further name of a file that came before
        return listing.get(_collect.entry_path(entry.linkname), "file of another name")
    content = hashlib.sha256()
    if entry.isreg():
        for chunk in archive.chunks(entry):
            content.update(chunk)
    kind = next((kind for of, kind in _KINDS if of(entry)), "other")
    about = {"file": content.hexdigest(), "link": entry.linkname}
    return _tree_hash.describe(kind, entry.mode, about.get(kind, ""))


_KINDS: tuple[tuple[Callable[[tarfile.TarInfo], bool], str], ...] = (
    (tarfile.TarInfo.isreg, "file"),
    (tarfile.TarInfo.isdir, "folder"),
    (tarfile.TarInfo.issym, "link"),
    (tarfile.TarInfo.isfifo, "fifo"),
    (tarfile.TarInfo.isdev, "device"),
)


async def _packed(run: Run, work_dir: str, path: str, limits: CollectLimits) -> tuple[bytes, dict[str, str]]:
    """A tar of the folder, cut at what the limits can need, and what tar left out with its reasons."""
    room = _room(limits)
    argv = _argv(_PACK, "", room, work_dir, _folders(path))
    code, stdout, stderr, _ = await run(argv, b"", _FOLDER_S, room + 1)
    if code == _REFUSED:
        raise _NoFolder(_last_words(stderr))
    if code != 0 or not stdout:
        raise _failed(f"download {path!r}", stderr)
    return stdout, _complaints(stderr)


def _room(limits: CollectLimits) -> int:
    return limits.max_total_bytes + limits.max_files * _HEADERS + (1 << 16)


def _complaints(stderr: bytes) -> dict[str, str]:
    """Entries that tar left out, and why."""
    found = re.findall(
        r"^tar: (?:\./)?(.+?): (.*(?:Permission denied|socket ignored))$", stderr.decode(errors="replace"), re.M
    )
    return dict(found)


def _folders(path: str) -> list[str]:
    return _files.parts(path) if path else []


def _argv(script: str, make: str, extra: object, work_dir: str, parts: Sequence[str]) -> list[str]:
    return ["/bin/sh", "-c", _WALK + script, "sh", make, str(extra), work_dir, *parts]


async def _checked(
    run: Run, argv: Sequence[str], stdin: bytes, timeout_s: float, max_output: int, action: str
) -> bytes:
    code, stdout, stderr, _ = await run(argv, stdin, timeout_s, max_output)
    if code != 0:
        raise _failed(action, stderr)
    return stdout


def _failed(action: str, stderr: bytes) -> SandboxError:
    return SandboxError(f"Cannot {action} in the sandbox: {_last_words(stderr)}.")


def _last_words(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines() or ["the command failed without a word"]
    return lines[-1][-200:].rsplit(": ", 1)[-1]


def _status(line: bytes, path: str) -> tuple[str, int, int]:
    """Mode, names and size as `ls -l` tells them; a device has no size."""
    words = line.decode(errors="replace").split(" ")
    if len(words) != 3 or not words[1].isdecimal():
        raise SandboxError(f"Cannot read {path!r} in the sandbox: `ls -ldn` answers {line[:100]!r} there.")
    return words[0], int(words[1]), int(words[2]) if words[2].isdecimal() else 0
