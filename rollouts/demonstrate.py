"""The oracle as an engine: it answers each task with the domain's reference solution, in the policy's own tokens.

Demonstrations run through the same episodes and verifiers as any rollout, so a warm start learns only from proven ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from assay.errors import EngineError
from assay.records import Message, PolicyVersion, TaskSpec
from assay.registry import PluginConfig
from environments.base import Domain
from rollouts.chat import ChatTokenizer
from rollouts.engines.base import Completion, SampleRequest

ORACLE = "oracle"


class OracleEngine:
    """Completions are reference solutions, so their log-probabilities are 0 (probability one)."""

    id: ClassVar[str] = ORACLE
    Config: ClassVar[type[Any]] = PluginConfig

    def __init__(self, chat: ChatTokenizer, tasks: Iterable[TaskSpec], domain_of: Mapping[str, Domain]) -> None:
        self._chat = chat
        self._answers = {chat.encode_chat(task.prompt): domain_of[task.domain].solutions(task).oracle for task in tasks}

    @property
    def policy_version(self) -> str:
        return ORACLE

    async def load(self, policy: PolicyVersion, live: Any | None = None) -> None:
        raise EngineError(f"The oracle is its own policy; it cannot load {policy.name}.")

    async def sample(self, request: SampleRequest) -> list[Completion]:
        answer = self._answers.get(request.prompt_ids)
        if answer is None:
            raise EngineError("The oracle answers first turns only; its solution should have ended the episode.")
        ids = self._chat.encode_completion(answer)
        completion = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), finish_reason="stop")
        return [completion] * request.num_samples

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return self._chat.encode_chat(messages)

    def encode_reply(self, completion: Completion, observation: str) -> tuple[int, ...]:
        return self._chat.encode_reply(completion.token_ids, completion.finish_reason, observation)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._chat.decode(token_ids)

    async def close(self) -> None:
        """Nothing is held."""
