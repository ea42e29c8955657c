"""What a folder holds, as one digest and as a listing to compare: did anything change, and what?

    TreeHash.listing(root) -> {path: "file 644 <sha256>", ...}    differences(before, after) -> what a person reads
    TreeHash.digest(root)  =  digest_of(listing)

No times and no owners count. Contents are read once for as long as a file stays the same.
"""

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping

from environments.sandboxes import _files

DEFAULT_IGNORE = frozenset({"__pycache__", ".pytest_cache"})
_UNREADABLE = "unreadable"
_CLOCK_NS = 50_000_000  # within one tick of the file system's clock two versions can carry the same time
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
_Identity = tuple[int, int, int, int, int]
_Contents = dict[_Identity, str]


class TreeHash:
    """Listings and digests of one folder; an instance remembers the contents it has read.

    A file is taken as the same while device, inode, size, mtime and ctime are. A process that has held a writable
    memory map since before the last look can cheat that: take a new instance where it matters, after all have ended.
    Below 128 folders nothing is looked at. What cannot be read is listed as such; nothing is raised for it.
    """

    def __init__(self) -> None:
        self._known: _Contents = {}

    def digest(self, root: int, *, ignore: frozenset[str] = DEFAULT_IGNORE) -> str:
        """SHA-256 over all below the open folder `root`: equal exactly when the listings are. No link is followed."""
        return digest_of(self.listing(root, ignore=ignore))

    def listing(self, root: int, *, ignore: frozenset[str] = DEFAULT_IGNORE) -> dict[str, str]:
        """Path below `root` -> kind, mode, and digest or link target. Names in `ignore` are left out, at any depth."""
        found: dict[str, str] = {}
        seen: _Contents = {}
        self._walk(root, "", _files.MAX_DEPTH, ignore, found, seen)
        self._known = seen  # contents that are gone need no memory
        return found

    def _walk(
        self, folder: int, prefix: str, depth: int, ignore: frozenset[str], found: dict[str, str], seen: _Contents
    ) -> None:
        for name in sorted(set(os.listdir(folder)) - ignore):
            path = prefix + name
            if not self._describe(folder, name, path, found, seen):
                continue
            if depth == 0:
                found[path] += " too deep"
                continue
            try:
                below = os.open(name, _files.FOLDER, dir_fd=folder)
            except OSError:  # it may be seen, but not read
                found[path] += f" {_UNREADABLE}"
                continue
            try:
                self._walk(below, f"{path}/", depth - 1, ignore, found, seen)
            finally:
                os.close(below)

    def _describe(self, folder: int, name: str, path: str, found: dict[str, str], seen: _Contents) -> bool:
        """Add one entry; True when it is a folder to go into."""
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:  # gone meanwhile, or below a folder that may not be searched
            found[path] = _UNREADABLE
            return False
        kind = kind_of(status)
        found[path] = describe(kind, status.st_mode, self._about(folder, name, kind, status, seen))
        return kind == "folder"

    def _about(self, folder: int, name: str, kind: str, status: os.stat_result, seen: _Contents) -> str:
        if kind == "device":
            return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        try:
            if kind == "link":
                return os.readlink(name, dir_fd=folder)
            return self._content(folder, name, status, seen) if kind == "file" else ""
        except OSError:
            return _UNREADABLE

    def _content(self, folder: int, name: str, status: os.stat_result, seen: _Contents) -> str:
        known = seen.get(_identity(status)) or self._known.get(_identity(status))
        if known is None:
            known, status = _read_digest(folder, name)
        if time.time_ns() - status.st_ctime_ns > _CLOCK_NS:
            seen[_identity(status)] = known
        return known


def kind_of(status: os.stat_result) -> str:
    """One word; `whiteout` is what an overlay keeps in place of a removed entry."""
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return "whiteout"
    return _KINDS.get(stat.S_IFMT(status.st_mode), "other")


def describe(kind: str, mode: int, about: str) -> str:
    """One entry in words; `about` is the content's digest, the link's target or the device's number."""
    if kind == "link":
        return f"link to {about}"
    return f"{kind} {stat.S_IMODE(mode):03o} {about}".rstrip()


def digest_of(listing: Mapping[str, str]) -> str:
    """SHA-256 of a listing, in hex; paths and descriptions hold no NUL byte, which therefore separates them."""
    total = hashlib.sha256()
    for path in sorted(listing):
        total.update(os.fsencode(f"{path}\0{listing[path]}\0"))
    return total.hexdigest()


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What happened between two listings, one sentence per path, sorted; empty when nothing did."""
    return [
        _difference(path, before.get(path), after.get(path))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


def ignored(path: str, ignore: frozenset[str] = DEFAULT_IGNORE) -> bool:
    """True when a listing leaves the path out."""
    return not ignore.isdisjoint(path.split("/"))


def _difference(path: str, before: str | None, after: str | None) -> str:
    if before is None:
        return f"{path!r} is new: {after}"
    if after is None:
        return f"{path!r} is gone: it was {before}"
    return f"{path!r} was {before} and is {after}"


def _read_digest(folder: int, name: str) -> tuple[str, os.stat_result]:
    """The digest of what lies there now, and the status it is valid for."""
    fd = os.open(name, _files.READ, dir_fd=folder)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):  # swapped meanwhile
            return _UNREADABLE, status
        content = hashlib.sha256()
        for chunk in _chunks(fd, status):
            content.update(chunk)
        return content.hexdigest(), status
    finally:
        os.close(fd)


def _chunks(fd: int, status: os.stat_result) -> Iterator[bytes]:
    """The content up to its size at the start; of a mostly empty file only where something is, each with its place."""
    sparse = _files.mostly_holes(status)
    position = 0
    while position < status.st_size:
        if sparse:
            try:
                position = os.lseek(fd, position, os.SEEK_DATA)
            except OSError:  # only a hole is left
                break
            yield b"at %d:" % position
        chunk = os.pread(fd, min(1 << 20, status.st_size - position), position)
        if not chunk:
            break
        yield chunk
        position += len(chunk)
    if sparse:
        yield b"of %d" % status.st_size


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
