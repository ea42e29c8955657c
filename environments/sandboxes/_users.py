"""Which user of this machine a sandbox runs as, when root runs Assay: somebody that no person and no service is."""

import os

_UIDS = range(900_001, 965_536)  # far above what distributions hand out to people and services
_SMALL_UIDS = range(61_184, 65_000)  # systemd's pool for throw-away users, for containers that map 65,536 ids

Owner = tuple[int, int]  # uid and gid


def throwaway(number: int) -> Owner:
    """A uid and gid of one sandbox; the next number gives other ones."""
    uids = _pool()
    uid = uids[1 + number % (len(uids) - 1)]
    return uid, uid


def of_layers() -> Owner:
    """Whom the files of layers belong to inside: one for all sandboxes that show any, for they are shared."""
    if os.getuid() != 0:
        return os.getuid(), os.getgid()
    return _pool()[0], _pool()[0]


def _pool() -> range:
    return _UIDS if _is_mapped(_UIDS[-1]) else _SMALL_UIDS


def _is_mapped(uid: int) -> bool:
    """Whether this process could become `uid`: in a container with few user ids it could not."""
    with open("/proc/self/uid_map") as file:
        return any(int(first) <= uid < int(first) + int(count) for first, _, count in map(str.split, file))
