"""The episode of a domain that asks once: whatever the first completion says is the submission."""

from collections.abc import Callable

from environments.base import Outcome, Reply


class OneTurn:
    """`understood` tells whether a completion is an answer at all; the metric `valid_actions` is 1 then, else 0."""

    def __init__(self, understood: Callable[[str], bool]) -> None:
        self._understood = understood
        self._completion = ""

    async def reply(self, completion: str) -> Reply:
        self._completion = completion
        valid = self._understood(completion)
        return Reply(action=completion.strip() if valid else "", observation="", done=True, valid_action=valid)

    async def outcome(self) -> Outcome:
        valid = self._understood(self._completion)
        return Outcome(submission=self._completion, metrics={"valid_actions": float(valid)})

    async def state_hash(self) -> str:
        return ""

    async def close(self) -> None:
        """Nothing is held."""
