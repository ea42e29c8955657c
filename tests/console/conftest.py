"""One finished run in a real store, shared by the tests that only read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.settings import settings
from storage.catalog import Catalog
from tests.console.lake import make_lake


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with one finished run."""
    folder = tmp_path_factory.mktemp("lake") / "store"
    make_lake(str(folder))
    return folder


@pytest.fixture(scope="session")
def catalog(lake: Path) -> Catalog:
    from storage.store import Store

    return Catalog(Store.open(str(lake)))


@pytest.fixture
def home(tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Settings that point at the lake and at a home of this test's own."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASSAY_STORE", str(lake))
    settings.cache_clear()
    yield tmp_path / "home"
    settings.cache_clear()
