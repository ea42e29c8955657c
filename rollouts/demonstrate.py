"""The oracle as an engine: it plays each task's reference solution turn by turn, in the policy's own tokens.

Demonstrations run through the same episodes and verifiers as any rollout, so a warm start learns only from proven ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from assay.errors import EngineError
from assay.records import Image, Message, PolicyVersion, TaskSpec, Tool, record
from assay.registry import PluginConfig
from environments.base import Domain, Script
from rollouts.chat import ChatTokenizer
from rollouts.engines.base import Completion, SampleRequest
from rollouts.images import images_in

ORACLE = "oracle"
_Context = tuple[tuple[int, ...], tuple[Image, ...]]


@record
class Spoken(Completion):
    """Turn `turn` of a script, said in the context `prompt_ids` with its `images`."""

    prompt_ids: tuple[int, ...]
    images: tuple[Image, ...]
    script: Script
    turn: int


class OracleEngine:
    """Completions are reference solutions, so their log-probabilities are 0 (probability one)."""

    id: ClassVar[str] = ORACLE
    Config: ClassVar[type[Any]] = PluginConfig

    def __init__(self, chat: ChatTokenizer, tasks: Iterable[TaskSpec], domain_of: Mapping[str, Domain]) -> None:
        self._chat = chat
        # What is said next in each context that has come up: its tokens, and its images, which may look alike in them.
        self._next: dict[_Context, tuple[Script, int]] = {
            (chat.encode_chat(task.prompt, task.tools), images_in(task.prompt)): (
                domain_of[task.domain].solutions(task).oracle,
                0,
            )
            for task in tasks
        }

    @property
    def takes_images(self) -> bool:
        """As the model whose tokens it speaks."""
        return self._chat.takes_images

    def can_show_images(self, model: str) -> bool:
        return self._chat.takes_images

    @property
    def policy_version(self) -> str:
        return ORACLE

    async def load(self, policy: PolicyVersion, live: Any | None = None) -> None:
        raise EngineError(f"The oracle is its own policy; it cannot load {policy.name}.")

    async def sample(self, request: SampleRequest) -> list[Completion]:
        script, turn = self._next.get((request.prompt_ids, request.images), ((), 0))
        if turn >= len(script):
            raise EngineError("The oracle has nothing to say here; its solution should have ended the episode.")
        ids = self._chat.encode_completion(script[turn])
        spoken = Spoken(
            token_ids=ids,
            logprobs=(0.0,) * len(ids),
            finish_reason="stop",
            prompt_ids=request.prompt_ids,
            images=request.images,
            script=script,
            turn=turn,
        )
        return [spoken] * request.num_samples

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        return self._chat.encode_chat(messages, tools)

    def encode_reply(self, completion: Completion, observation: str, images: Sequence[Image] = ()) -> tuple[int, ...]:
        between = self._chat.encode_reply(completion.token_ids, completion.finish_reason, observation, images)
        if isinstance(completion, Spoken):
            context = (*completion.prompt_ids, *completion.token_ids, *between)
            self._next[context, (*completion.images, *images)] = (completion.script, completion.turn + 1)
        return between

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._chat.decode(token_ids)

    async def close(self) -> None:
        """Nothing is held."""
