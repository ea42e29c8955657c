"""The test of a store that every backend's `check` runs: write, write once, read, list, delete.

It proves what the commit protocol rests on: a second conditional write must be refused. Some S3 servers
accept the condition and ignore it; tables on them would lose or double rows without a word.
"""

import uuid

from assay.errors import StoreError
from storage.backends.base import ObjectStore


def probe(objects: ObjectStore) -> None:
    """Raise a StoreError that says which step failed, unless the store does all of them."""
    key = f"probe/{uuid.uuid4().hex}"
    first, second = b"first", b"second"
    created = objects.put_if_absent(key, first)
    try:
        repeated = objects.put_if_absent(key, second)
        found, listed = objects.get(key), objects.list("probe/")
    finally:
        objects.delete(key)
    if not created or repeated or found != first:
        raise StoreError(
            f"{objects.root} ignores conditional writes: the second of two writes that must not replace was "
            f"{'accepted' if repeated else 'refused'} and {found!r} was read back, expected {first!r}. "
            "Commits need them: use AWS S3, SeaweedFS, MinIO, Ceph or a local folder."
        )
    if key not in listed:
        raise StoreError(f"{objects.root} does not list {key!r} right after it was written; commits need that.")
