"""Unpacks layers, one on top of the other, into a folder that nothing leads out of.

No link is ever followed, ownership becomes ours, special files and set-id bits are dropped, and everything stays ours
to remove. Whiteouts (`.wh.NAME`, `.wh..wh..opq`) hide what came from the layers before.
"""

import contextlib
import os
import shutil
import stat
import tarfile

from assay.errors import SandboxError
from environments.sandboxes import _files
from environments.sandboxes._archive import Archive

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_MAX_PATH = 4096


class Unpacker:
    """Unpacks into the open folder `root`, at most so many bytes and entries over all layers."""

    def __init__(self, root: int, max_bytes: int, max_entries: int) -> None:
        self._root, self._max_bytes, self._max_entries = root, max_bytes, max_entries
        self.num_bytes = self.num_entries = 0
        self._made: set[str] = set()
        self._parent: tuple[list[str], int] | None = None

    def apply(self, layer: Archive) -> None:
        """Unpack one layer. Raises SandboxError for what is refused, OSError for troubles of the machine."""
        self._made = set()
        try:
            for entry in layer:
                if names := _names(entry.name, entry.name):
                    self._count(1, entry.size if entry.isreg() else 0)
                    self._add(layer, entry, names)
        finally:
            self._leave()

    def _add(self, layer: Archive, entry: tarfile.TarInfo, names: list[str]) -> None:
        *_, name = names
        if name.startswith(_WHITEOUT):
            self._white_out(names)
        elif entry.isdir():
            self._make_folder(entry, names)
        elif entry.isreg():
            self._make_file(layer, entry, names)
        elif entry.issym():
            os.symlink(_text(entry), name, dir_fd=self._cleared(entry.name, names))
        elif entry.islnk():
            self._make_link(entry, names)

    def _make_folder(self, entry: tarfile.TarInfo, names: list[str]) -> None:
        folder, name = self._enter(entry.name, names[:-1]), names[-1]
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
        os.fchmod(self._enter(entry.name, names), entry.mode & 0o1777 | 0o700)

    def _make_file(self, layer: Archive, entry: tarfile.TarInfo, names: list[str]) -> None:
        fd = os.open(names[-1], _files.CREATE, 0o600, dir_fd=self._cleared(entry.name, names))
        try:
            for chunk in layer.chunks(entry):
                _files.write_all(fd, chunk)
            os.fchmod(fd, entry.mode & 0o777 | 0o600)
            with contextlib.suppress(OverflowError, ValueError):  # Python looks at it to see if its caches are fresh
                os.utime(fd, (entry.mtime, entry.mtime))
        finally:
            os.close(fd)

    def _make_link(self, entry: tarfile.TarInfo, names: list[str]) -> None:
        *above, old = _names(entry.linkname, entry.name) or [""]
        if [*above, old] == names:
            return
        try:
            with _files.open_folder(self._root, above) as source:
                if not stat.S_ISREG(os.stat(old, dir_fd=source, follow_symlinks=False).st_mode):
                    raise FileNotFoundError
                folder = self._cleared(entry.name, names)
                os.link(old, names[-1], src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _refused(entry.name, f"it is a hard link to {entry.linkname!r}, which is no file inside") from error

    def _white_out(self, names: list[str]) -> None:
        *above, mark = names
        hidden = mark.removeprefix(_WHITEOUT)
        self._leave()
        try:
            with _files.open_folder(self._root, above) as folder:
                if mark == _OPAQUE:
                    self._hide_all(folder, above)
                elif not hidden.startswith(_WHITEOUT) and hidden not in ("", ".", ".."):
                    self._hide(folder, [*above, hidden])
        except (FileNotFoundError, NotADirectoryError):
            return  # there is nothing to hide

    def _hide_all(self, folder: int, above: list[str]) -> None:
        for name in os.listdir(folder):
            self._hide(folder, [*above, name])

    def _hide(self, folder: int, names: list[str]) -> None:
        """Remove what the layers before put there; what this one has put there stays."""
        if "/".join(names) not in self._made:
            _remove(folder, names[-1])
        elif stat.S_ISDIR(os.stat(names[-1], dir_fd=folder, follow_symlinks=False).st_mode):
            with _files.open_folder(folder, names[-1:]) as below:
                self._hide_all(below, names)

    def _cleared(self, shown: str, names: list[str]) -> int:
        """The open folder that holds `names`, without whatever was there under that name."""
        folder = self._enter(shown, names[:-1])
        try:
            os.unlink(names[-1], dir_fd=folder)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            _remove(folder, names[-1])
        self._made.add("/".join(names))
        return folder

    def _enter(self, shown: str, names: list[str]) -> int:
        """The open folder, made where it is missing; it stays open until the next one is wanted."""
        if self._parent is not None and self._parent[0] == names:
            return self._parent[1]
        self._leave()
        folder = os.dup(self._root)
        for position, name in enumerate(names, start=1):
            try:
                below = self._open_or_make(folder, name)
            except NotADirectoryError as error:
                inside = "/".join(names[:position])
                raise _refused(shown, f"its way leads through {inside!r}, which is a link or a file") from error
            finally:
                os.close(folder)
            folder = below
            self._made.add("/".join(names[:position]))
        self._parent = names, folder
        return folder

    def _open_or_make(self, folder: int, name: str) -> int:
        try:
            return os.open(name, _files.FOLDER, dir_fd=folder)
        except FileNotFoundError:
            self._count(1, 0)
            os.mkdir(name, 0o700, dir_fd=folder)
            below = os.open(name, _files.FOLDER, dir_fd=folder)
            os.fchmod(below, 0o755)
            return below

    def _leave(self) -> None:
        if self._parent is not None:
            os.close(self._parent[1])
            self._parent = None

    def _count(self, num_entries: int, num_bytes: int) -> None:
        self.num_entries += num_entries
        self.num_bytes += num_bytes
        if self.num_entries > self._max_entries or self.num_bytes > self._max_bytes:
            raise SandboxError(
                f"it unpacks to more than {self._max_bytes} bytes or {self._max_entries} entries, which is the most "
                "allowed; use a smaller one or raise max_bytes or max_entries"
            )


def _names(path: str, shown: str) -> list[str]:
    """The names a path inside goes through, none for the root itself; SandboxError when it could lead out."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names or "\0" in path:
        raise _refused(shown, f"the path {path!r} is absolute or contains '..' or a NUL byte")
    if len(names) > _files.MAX_DEPTH or len(os.fsencode(path)) > _MAX_PATH:
        raise _refused(shown[:100], f"its path is longer than {_MAX_PATH} bytes or {_files.MAX_DEPTH} folders")
    return names


def _text(entry: tarfile.TarInfo) -> str:
    if not entry.linkname or "\0" in entry.linkname:
        raise _refused(entry.name, f"it is a link to {entry.linkname!r}")
    return entry.linkname


def _refused(name: str, why: str) -> SandboxError:
    return SandboxError(f"its entry {name!r} is refused: {why}; make the archive without it")


def _remove(folder: int, name: str) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)
