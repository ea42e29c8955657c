"""Merging small files and deleting files that nothing names: what keeps a growing store quick to read.

    commits   a  b  c | d  e            files named by commits
    number 1  [a b c]                   one merged file; a, b and c keep their commit objects, so keys stay taken
    number 2  [a b c d e]               made from number 1, and replaces it

Compactions are numbered and each number is written once, so of two that start from the same state one wins.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise

import polars as pl

from storage.backends.base import ObjectStore
from storage.backends.folder import TEMPORARY
from storage.commits import Commit, Compaction, MergedFile, encode
from storage.files import read_bytes, write_file
from storage.log import Log, each
from storage.names import DATA, age_s, compaction_key
from storage.tables import TABLES
from storage.typed import PART, with_parts

MAX_BYTES = 64 << 20
Group = list[MergedFile]


def compact(objects: ObjectStore, log: Log, table: str, max_rows: int, now: datetime) -> int:
    """Merge neighbouring small files of a table; returns how many files were merged, 0 when there was nothing to do."""
    latest = log.latest(table)
    groups = _groups(_sources(log.commits(table, latest), latest), max_rows)
    small = [group for group in groups if len(group) > 1]
    if not small:
        return 0
    merged = [_merge(objects, table, group, now) for group in small]
    kept = [group[0] for group in groups if len(group) == 1 and _is_merged(group[0])]
    files = tuple(sorted([*merged, *kept], key=_order))
    new = Compaction(table, latest.number + 1 if latest else 1, now.isoformat(), files)
    if objects.put_if_absent(compaction_key(table, new.number), encode(new)):
        return sum(map(len, small))
    for mine in merged:
        objects.delete(mine.file.key)
    return 0


def sweep(objects: ObjectStore, log: Log, older_than_s: float, now: datetime) -> list[str]:
    """Delete old data files and compactions that nothing names, and what crashed writers left; returns their keys."""
    doomed = [key for key in objects.list(TEMPORARY) if (age_s(key, now) or 0) > older_than_s]
    for table in TABLES:
        doomed += _unnamed(objects, log, table, older_than_s, now)
    each(objects.delete, doomed)
    return sorted(doomed)


def _unnamed(objects: ObjectStore, log: Log, table: str, older_than_s: float, now: datetime) -> list[str]:
    compactions = log.compactions(table)
    recent = _recent(compactions, older_than_s, now)
    latest = compactions[-1] if compactions else None
    named = {merged.file.key for compaction in recent for merged in compaction.files}
    named |= _read_by_commit(log.commits(table, latest), latest, older_than_s, now)
    files = [k for k in objects.list(f"{DATA}{table}/") if k not in named and (age_s(k, now) or 0) > older_than_s]
    keep = {compaction_key(table, compaction.number) for compaction in recent}
    old = [compaction_key(table, c.number) for c in compactions if compaction_key(table, c.number) not in keep]
    return files + old


def _recent(compactions: list[Compaction], older_than_s: float, now: datetime) -> list[Compaction]:
    """The compaction that counts, and those it replaced so lately that somebody may still read their files."""
    replaced = [c for c, successor in pairwise(compactions) if _age(successor.at, now) <= older_than_s]
    return [*replaced, *compactions[-1:]]


def _read_by_commit(
    commits: Iterable[Commit], latest: Compaction | None, older_than_s: float, now: datetime
) -> set[str]:
    """Files of commits that no compaction covers, or only lately."""
    long_merged = {
        commit.part
        for merged in (latest.files if latest else ())
        if _age(merged.at, now) > older_than_s
        for commit in merged.commits
    }
    return {c.file.key for c in commits if c.file is not None and c.part not in long_merged}


def _sources(commits: Iterable[Commit], latest: Compaction | None) -> list[MergedFile]:
    """What there is to merge, in order: merged files, and single commits in the same form."""
    covered = latest.commits if latest else {}
    single = [MergedFile(c.file, c.at, (c,)) for c in commits if c.file is not None and c.part not in covered]
    return sorted([*(latest.files if latest else ()), *single], key=_order)


def _groups(sources: Iterable[MergedFile], max_rows: int) -> list[Group]:
    """Neighbours that fit into one file."""
    groups: list[Group] = []
    for source in sources:
        together = [*groups[-1], source] if groups else []
        fits = (
            sum(s.file.num_rows for s in together) <= max_rows and sum(s.file.num_bytes for s in together) <= MAX_BYTES
        )
        if together and fits:
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def _merge(objects: ObjectStore, table: str, group: Group, now: datetime) -> MergedFile:
    frames = each(lambda source: _with_parts(objects, table, source), group)
    file = write_file(objects, table, "merged", pl.concat(frames), now)
    return MergedFile(file, now.isoformat(), tuple(commit for source in group for commit in source.commits))


def _with_parts(objects: ObjectStore, table: str, source: MergedFile) -> pl.DataFrame:
    return with_parts(table, read_bytes(objects, source.file), source.commits[0].part)


def _is_merged(source: MergedFile) -> bool:
    return PART in source.file.columns


def _order(merged: MergedFile) -> tuple[str, str]:
    return merged.commits[0].order


def _age(at: str, now: datetime) -> float:
    return (now - datetime.fromisoformat(at)).total_seconds()
