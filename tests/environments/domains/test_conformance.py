"""What every domain promises, checked on each one that ships."""

from tests.environments.domains.promises import *  # noqa: F403
