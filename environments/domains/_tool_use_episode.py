"""The episode of `tool_use`: calls in, results out, until the agent ends it or its turns are used up.

The database lives in this process: the agent's text only ever becomes arguments that fit a tool's schema.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from assay.ids import canonical_json, content_hash
from assay.records import TaskSpec
from environments.base import Outcome, Reply
from environments.domains import _tool_use_scoring as scoring
from environments.domains._tool_use_service import ENDINGS, Desk, Service
from environments.domains._tool_use_state import diff
from environments.tools import BadCall, Call, read_calls


class AtDesk:
    """One agent at one desk."""

    def __init__(self, task: TaskSpec, service: Service) -> None:
        self._task = task
        self._desk = Desk(service, task.hidden["world"], task.hidden["faults"])
        self._before = self._desk.dump()
        self._ending: dict[str, Any] = {}
        self._num_turns = self._num_invalid = 0
        self._left: Outcome | None = None
        self._hash = ""

    async def reply(self, completion: str) -> Reply:
        self._num_turns += 1
        last = self._num_turns >= self._task.max_turns
        try:
            calls = read_calls(completion, self._task.tools)
        except BadCall as fault:
            self._num_invalid += 1
            return Reply(action="", observation=str(fault), done=last, valid_action=False)
        said: list[str] = []
        for call in calls:
            if call.name in ENDINGS:
                self._ending = {"name": call.name, "arguments": dict(call.arguments)}
                return Reply(action=_told(calls), observation="\n".join(said), done=True)
            said.append(_shown(self._desk.call(call.name, call.arguments)))
        return Reply(action=_told(calls), observation="\n".join(said), done=last)

    async def outcome(self) -> Outcome:
        return self._left or self._outcome()

    async def state_hash(self) -> str:
        return self._hash or content_hash(self._desk.dump(private=True))

    async def close(self) -> None:
        """What was left stays known."""
        if self._left is None:
            self._left, self._hash = self._outcome(), await self.state_hash()
            self._desk.close()

    def _outcome(self) -> Outcome:
        submission = scoring.write(diff(self._before, self._desk.dump()), self._desk.log, self._ending)
        metrics = {"num_turns": self._num_turns, "num_invalid_actions": self._num_invalid}
        log = self._desk.log
        counts = {
            "num_calls": len(log),
            "num_rejected_calls": sum(bool(each["error"]) and not each["fault"] for each in log),
            "num_faults": sum(bool(each["fault"]) for each in log),
        }
        return Outcome(submission=submission, metrics={name: float(n) for name, n in {**metrics, **counts}.items()})


def _shown(result: Mapping[str, Any]) -> str:
    return json.dumps(result, ensure_ascii=False)


def _told(calls: Sequence[Call]) -> str:
    return canonical_json([{"name": call.name, "arguments": dict(call.arguments)} for call in calls])
