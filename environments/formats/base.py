"""What a foreign format is: task sets made by others, each seen as a domain of ours.

    build_domain("reasoning_gym/leg_counting", options)
        └── Format(options).domain("leg_counting") -> Domain with id "reasoning_gym/leg_counting"

One file per format; the domains it gives pass the same conformance suite as our own.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from environments.base import Domain


class Format(Protocol):
    """Reads one format. `Config` are the options of each of its domains (difficulty, or where the files are)."""

    id: ClassVar[str]
    Config: ClassVar[type[Any]]

    def missing(self) -> str:
        """What has to be installed before it can be used, as a sentence; empty when it can be used."""
        ...

    def names(self) -> Sequence[str]:
        """The sets that need no further options; empty where sets are the user's own files, or nothing is installed."""
        ...

    def domain(self, name: str) -> Domain:
        """A set as a domain with id `<format>/<name>`; tasks that can't be read are its `left_out`.

        Raises ConfigurationError for an unknown name, or when the set cannot be read at all.
        """
        ...
