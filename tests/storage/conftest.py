"""Every storage test that takes `objects` or `store` runs on a local folder and on a real S3 server."""

import uuid
from pathlib import Path

import pytest

from storage.backends.base import ObjectStore
from storage.objects import open_object_store
from storage.store import Store
from tests.services import S3Server


@pytest.fixture(params=["folder", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty object store whose address has a space, a quote and an accent."""
    if request.param == "folder":
        return open_object_store(str(tmp_path / "sto're [é]*"))
    server: S3Server = request.getfixturevalue("s3_server")
    return open_object_store(machine=server.settings(f"{uuid.uuid4().hex}/sto're é"))


@pytest.fixture
def store(objects: ObjectStore) -> Store:
    return Store(objects)


@pytest.fixture
def local(tmp_path: Path) -> Store:
    """A store in a folder, for what does not depend on the backend."""
    return Store.open(str(tmp_path / "store"))
