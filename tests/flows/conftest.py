"""A whole small pipeline: tiny model, sort-letters domain, real Prefect server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.config import PostTrainConfig, parse_config
from assay.settings import settings
from storage.catalog import Catalog
from storage.store import Store
from training.tiny_model import build_tiny_model

ROOT = Path(__file__).resolve().parent.parent.parent
SORT = "tests.sort_letters:SortLetters"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_tiny_model(tmp_path_factory.mktemp("tiny") / "model", seed=0))


@pytest.fixture
def store() -> Store:
    """The store the flows under test write to."""
    return Store.open(settings().store_uri)


@pytest.fixture
def catalog(store: Store) -> Iterator[Catalog]:
    """Open when the flow has run: it shows what was committed by then."""
    view = Catalog(store)
    yield view
    view.close()


def sort_config(model: str, **changes: Any) -> PostTrainConfig:
    """A pipeline of seconds: one warm start, a few iterations of small groups."""
    raw: dict[str, Any] = {
        "name": "sort",
        "model": model,
        "iterations": 2,
        "evaluate_every": 2,
        "domains": {
            SORT: {
                "num_train": 64,
                "num_heldout": 24,
                "groups_per_iteration": 8,
                "demonstrations": 64,
                "include_defects": True,
            }
        },
        "solvability": {"num_tasks": 8, "samples_per_task": 4},
        "rollout": {"group_size": 8, "temperature": 1.0},
        "trainer": {"id": "embedded", "options": {}},
    }
    return parse_config(raw | changes)


def rows(query: str) -> list[dict[str, Any]]:
    """The answer to a query on the store as it is now."""
    view = Catalog(Store.open(settings().store_uri))
    try:
        return view.sql(query).pl().to_dicts()
    finally:
        view.close()


def write_config(path: Path, config: PostTrainConfig) -> Path:
    """As `assay run --config` reads it."""
    path.write_text(config.model_dump_json())
    return path
