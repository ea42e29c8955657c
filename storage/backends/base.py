"""What an object store must do for the tables: read, list, write, and write once.

Keys are `/`-separated and relative to the store's root. One file per backend; one conformance suite.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from assay.errors import StoreError


class MissingKey(StoreError):
    """No object has this key."""


class ObjectStore(Protocol):
    """Raises StoreUnreachable when it does not answer, StoreError when it refuses."""

    id: ClassVar[str]
    Config: ClassVar[type[Any]]
    root: str

    def put(self, key: str, data: bytes) -> None:
        """Create or replace."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Create; False when the key exists. Of any number of racing calls exactly one returns True."""
        ...

    def get(self, key: str) -> bytes:
        """The bytes; MissingKey (a StoreError) when there is no such key."""
        ...

    def exists(self, key: str) -> bool: ...

    def list(self, prefix: str) -> list[str]:
        """Keys that start with a prefix, sorted."""
        ...

    def delete(self, key: str) -> None:
        """Idempotent."""
        ...

    def uri(self, key: str) -> str:
        """The full address of a key, as DuckDB and polars read it."""
        ...

    def create(self) -> None:
        """Make the root (folder or bucket) unless it is there."""
        ...

    def check(self) -> None:
        """Write, read back and delete a small object: raises a clear StoreError unless the store is usable."""
        ...

    def filesystem(self) -> Any | None:
        """An fsspec filesystem for DuckDB to register, or None when plain paths will do."""
        ...

    def secret(self) -> Mapping[str, str] | None:
        """Parameters of a DuckDB secret for its native reader, or None when plain paths will do."""
        ...
