"""The supervisor's side of one sandbox: its limits, its user, and its files on a tmpfs of their own.

boxes/ID/
├── files/N      what was written; the highest number is written to, lower ones are frozen by snapshots
├── work/N       overlayfs needs a scratch folder for each
├── merged       the work dir where there are layers or frozen files below; else files/N is the work dir itself
├── tmp  shm     /tmp and /dev/shm inside
└── extra/N      further folders to write to

snapshot: freeze files/N, mount files/N+1 over it          cost: what was changed, not the project's size
restore:  drop files/N, mount files/N+1 over the snapshot
fork:     a new box whose layers are this one's, frozen ones included; they live until the last user is gone
"""

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from environments.sandboxes import _kernel
from environments.sandboxes._jail import STAGE, Jail


@dataclass(frozen=True)
class Place:
    """What a box shows, as plain data; equal places are interchangeable until somebody has written to them."""

    image: str
    layers: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...]
    writable: tuple[str, ...]
    work_dir: str
    limits: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> "Place":
        return cls(
            image=header["image"],
            layers=tuple(header["layers"]),
            mounts=tuple(sorted(header["mounts"].items())),
            writable=tuple(header["writable"]),
            work_dir=header["work_dir"],
            limits=tuple(header["limits"].items()),
        )


class Home:
    """The tmpfs of one box, kept while forks still show what is frozen in it."""

    def __init__(self, name: str, disk_bytes: int, owner: tuple[int, int]) -> None:
        self.path, self.users = f"{STAGE}/boxes/{name}", 0
        inodes = max(1024, disk_bytes // 4096)
        os.mkdir(self.path, 0o711)
        # Other users may pass through, or bwrap could not reach what it binds; each folder below guards itself.
        options = f"size={disk_bytes},nr_inodes={inodes},mode=0711"
        try:
            _kernel.mount_tmpfs(self.path, options)
        except OSError:
            os.rmdir(self.path)
            raise
        self.folder("files", 0o711)
        self.folder("tmp", 0o700, owner)
        self.folder("shm", 0o700, owner)

    def folder(self, name: str, mode: int = 0o700, owner: tuple[int, int] | None = None) -> str:
        path = f"{self.path}/{name}"
        os.mkdir(path, mode)
        if owner:
            os.chown(path, *owner)
        return path

    def use(self) -> "Home":
        self.users += 1
        return self

    def leave(self) -> None:
        self.users -= 1
        if self.users == 0:
            _kernel.unmount(self.path)
            os.rmdir(self.path)


class Files:
    """A box's files. Raises OSError when the kernel refuses."""

    def __init__(self, name: str, place: Place, jail: Jail, owner: tuple[int, int], parent: "Files | None") -> None:
        self.place, self.owner, self._jail = place, owner, jail
        self._numbers = itertools.count()
        self._below = parent.frozen() if parent else [jail.layer(layer) for layer in self._sources()]
        self._home = Home(name, dict(place.limits)["disk_bytes"], owner)
        self._homes: list[Home] = [home.use() for home in (*(parent._homes if parent else ()), self._home)]
        self._merged, self._upper = "", ""
        self._snapshots = {"": list(self._below)}
        self._make_writable()
        try:
            self._write_over(self._below)
        except OSError:
            self.remove()
            raise

    @property
    def work_dir(self) -> str:
        """Where the work dir lies on the stage."""
        return self._merged or self._upper

    def binds(self) -> list[str]:
        """bwrap's arguments that show these files."""
        home = self._home.path
        shown = [("--bind", f"{home}/shm", "/dev/shm"), ("--bind", f"{home}/tmp", "/tmp")]
        shown += [("--bind", self.work_dir, self.place.work_dir)]
        shown += [("--ro-bind", self._jail.layer(source), inside) for inside, source in self.place.mounts]
        shown += [("--bind", f"{home}/extra/{n}", inside) for n, inside in enumerate(self.place.writable)]
        return [word for words in shown for word in words]

    def root(self) -> str:
        """The root file system to show."""
        places = [self.place.work_dir, *(inside for inside, _ in self.place.mounts), *self.place.writable]
        return self._jail.root(self.place.image, places)

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[int, ...]]:
        """Descriptors of the work dir and of the folders that hold what was changed in it, top first."""
        changed = [self._upper, *(path for path in self._below if f"{STAGE}/boxes/" in path)]
        with contextlib.ExitStack() as stack:
            fds = [os.open(p, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for p in (self.work_dir, *changed)]
            for fd in fds:
                stack.callback(os.close, fd)
            yield tuple(fds)

    def snapshot(self, name: str) -> None:
        """Freeze what is there. Nothing may run."""
        self._snapshots[name] = self.frozen()

    def restore(self, name: str) -> None:
        """Back to a snapshot; /tmp and /dev/shm become empty. Nothing may run. Raises KeyError for an unknown name."""
        below = self._snapshots[name]
        old = self._upper
        self._write_over(below)
        if old not in (path for paths in self._snapshots.values() for path in paths):
            shutil.rmtree(old, ignore_errors=True)
        for folder in ("tmp", "shm"):
            shutil.rmtree(f"{self._home.path}/{folder}")
            self._home.folder(folder, 0o700, self.owner)
        shutil.rmtree(f"{self._home.path}/extra")
        self._make_writable()

    def frozen(self) -> list[str]:
        """Freeze the folder written to, unless nothing was, and go on over it; all folders below, top first."""
        if os.listdir(self._upper):
            self._write_over([self._upper, *self._below])
        return list(self._below)

    def remove(self) -> None:
        """Drop everything that no fork still needs."""
        self._unmount()
        for home in self._homes:
            home.leave()
        self._homes = []

    def _make_writable(self) -> None:
        self._home.folder("extra", 0o711)
        for number, _ in enumerate(self.place.writable):
            self._home.folder(f"extra/{number}", 0o700, self.owner)

    def _sources(self) -> list[str]:
        """The folders below the work dir: the spec's layers, and what the image has at that path."""
        inside = self.place.image + self.place.work_dir
        return [*self.place.layers, *([inside] if self.place.image and self._jail.has(inside) else [])]

    def _write_over(self, below: list[str]) -> None:
        """A new folder to write to, shown over `below`."""
        number = next(self._numbers)
        upper = self._home.folder(f"files/{number}", 0o700, self.owner)
        merged = ""
        if below:
            merged = self._home.folder(f"merged{number}", 0o711)
            work = self._home.folder(f"work{number}")
            _kernel.mount_overlay(merged, below, upper, work, as_root=os.getuid() == 0)
        self._unmount()
        self._below, self._upper, self._merged = below, upper, merged

    def _unmount(self) -> None:
        if self._merged:
            _kernel.unmount(self._merged)
            os.rmdir(self._merged)
            shutil.rmtree(self._merged.replace("merged", "work"), ignore_errors=True)
            self._merged = ""
