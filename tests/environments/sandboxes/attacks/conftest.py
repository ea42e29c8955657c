"""The attacks go for the bubblewrap backend, one for all of them, for its flags are what the controls take away."""

from collections.abc import Iterator

import pytest

from environments.sandboxes.bubblewrap import Bubblewrap


@pytest.fixture(scope="session")
def backend() -> Iterator[Bubblewrap]:
    made = Bubblewrap(Bubblewrap.Config())
    yield made
    made.close()
