"""What every domain promises, checked on a set of task directories and on a set of the SWE-bench family."""

import pytest

from environments.base import Domain
from tests.environments.domains.promises import *  # noqa: F403
from tests.environments.formats.conftest import made

pytestmark = pytest.mark.slow


@pytest.fixture(params=["harbor_set", "swe_set"])
def domain(request: pytest.FixtureRequest) -> Domain:
    return made(request.getfixturevalue(request.param))
