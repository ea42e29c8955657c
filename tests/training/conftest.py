"""A tiny model, built once."""

from pathlib import Path

import pytest

from training.tiny_model import build_tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=2, hidden=64)
