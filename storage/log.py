"""The commit log: reading commits and compactions, and which files are live.

Commits never change, so each is fetched once per process; a compaction carries copies of the commits it covers, so
that a store with thousands of commits opens with a few reads.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from storage.backends.base import ObjectStore
from storage.commits import Commit, Compaction, LiveFile, Snapshot, decode_commit, decode_compaction, live_files
from storage.names import COMMITS, COMPACTIONS, commit_key
from storage.tables import TABLES

_READERS = 16
A = TypeVar("A")
B = TypeVar("B")


def each(function: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """`function` of every item, in order; several at a time, because a store answers slowly but in parallel."""
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(_READERS, len(items))) as pool:
        return list(pool.map(function, items))


class Log:
    """Commits and compactions of one object store."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._seen: dict[str, Commit] = {}

    def remember(self, commit: Commit) -> None:
        self._seen[commit_key(commit.table, commit.part)] = commit

    def commit(self, table: str, part: str) -> Commit:
        """One commit; MissingKey when there is none."""
        address = commit_key(table, part)
        if address not in self._seen:
            self._seen[address] = decode_commit(address, self._objects.get(address))
        return self._seen[address]

    def commits(self, table: str, latest: Compaction | None) -> list[Commit]:
        """All commits of a table, oldest first."""
        addresses = self._objects.list(f"{COMMITS}{table}/")
        self._fetch(addresses, [latest] if latest else [])
        return sorted((self._seen[address] for address in addresses), key=lambda commit: commit.order)

    def compactions(self, table: str) -> list[Compaction]:
        """All compactions of a table that are still there, the one that counts last."""
        return each(self._compaction, self._objects.list(f"{COMPACTIONS}{table}/"))

    def latest(self, table: str) -> Compaction | None:
        """The compaction that counts, or None."""
        addresses = self._objects.list(f"{COMPACTIONS}{table}/")
        return self._compaction(addresses[-1]) if addresses else None

    def live(self, table: str) -> tuple[LiveFile, ...]:
        """The files that hold a table's rows now, in order."""
        # The compaction first: commits that appear after it are read from their own files.
        latest = self.latest(table)
        return live_files(self.commits(table, latest), latest)

    def snapshot(self) -> Snapshot:
        """The live files of all tables now, with as few requests as that takes."""
        latest = {a.split("/")[1]: a for a in self._objects.list(COMPACTIONS)}
        compactions = {c.table: c for c in each(self._compaction, list(latest.values()))}
        addresses = [a for a in self._objects.list(COMMITS) if a.split("/")[1] in TABLES]
        self._fetch(addresses, compactions.values())
        commits: dict[str, list[Commit]] = {name: [] for name in TABLES}
        for address in addresses:
            commits[self._seen[address].table].append(self._seen[address])
        files = {name: live_files(commits[name], compactions.get(name)) for name in TABLES}
        return Snapshot(f"c_{len(addresses):06d}", files)

    def _compaction(self, address: str) -> Compaction:
        return decode_compaction(address, self._objects.get(address))

    def _fetch(self, addresses: Iterable[str], compactions: Iterable[Compaction]) -> None:
        for compaction in compactions:
            for commit in compaction.commits.values():
                self.remember(commit)
        new = [address for address in addresses if address not in self._seen]
        for address, data in zip(new, each(self._objects.get, new), strict=True):
            self._seen[address] = decode_commit(address, data)
