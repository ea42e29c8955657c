"""From an address to an object store: `s3://bucket/prefix`, or a folder."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from assay.errors import ConfigurationError
from assay.registry import build_plugin
from assay.settings import Settings, settings
from storage.backends.base import ObjectStore


def open_object_store(uri: str | None = None, machine: Settings | None = None) -> ObjectStore:
    """The backend for an address; empty means the one in the settings. Opening asks nothing of the store yet.

    Raises ConfigurationError for an address of another kind.
    """
    machine = machine or settings()
    uri = uri or machine.store_uri
    scheme = urlsplit(uri).scheme if "://" in uri else ""
    if scheme == "s3":
        return build_plugin("store", "s3", _s3_options(uri, machine))
    if scheme == "file":
        uri = unquote(urlsplit(uri).path)
    elif scheme:
        raise ConfigurationError(
            f"The store {uri!r} has the unknown scheme {scheme!r}. "
            "Set ASSAY_STORE to a folder or to s3://bucket/prefix."
        )
    return build_plugin("store", "folder", {"path": Path(uri)})


def _s3_options(uri: str, machine: Settings) -> dict[str, object]:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    if not bucket:
        raise ConfigurationError(f"The store {uri!r} names no bucket. Set ASSAY_STORE to s3://bucket/prefix.")
    return {
        "bucket": bucket,
        "prefix": prefix,
        "endpoint": machine.s3_endpoint,
        "access_key": machine.s3_access_key,
        "secret_key": machine.s3_secret_key,
        "region": machine.s3_region,
    }
