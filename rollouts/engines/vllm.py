"""The `vllm` engine: samples from a vLLM server, one by URL as in production or one that it starts on this machine.

    load   ─► connect, check and prove the server, once ─► reload_weights ─► empty the prefix cache
    sample ─► POST /v1/completions: token ids in, token ids and log-probabilities (after temperature) out

vLLM lives in an environment of its own (`make vllm`): its pins exclude Prefect's.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from assay.errors import EngineError
from assay.records import Image, Message, PolicyVersion, Tool
from assay.registry import PluginConfig
from assay.settings import settings
from rollouts.chat import ChatTokenizer
from rollouts.engines._vllm_http import Client
from rollouts.engines._vllm_link import Link
from rollouts.engines._vllm_server import LocalServer, ServerOptions, check_executable
from rollouts.engines._vllm_weights import published
from rollouts.engines._vllm_wire import completion_body, read_completions
from rollouts.engines.base import Completion, SampleRequest

PROBE = (Message(role="user", content="Sort the letters: d b a c"),)
IDLE_POLL_S = 0.02


class VllmEngine:
    """One server, one loaded policy version. Any number of `sample` calls at once; the server batches them."""

    id: ClassVar[str] = "vllm"

    class Config(PluginConfig):
        """A running server's `url`, or none to start one. VLLM_API_KEY is sent to servers by URL when it is set.

        A server by URL needs --logprobs-mode processed_logprobs, and VLLM_SERVER_DEV_MODE=1 to follow a policy that
        learns; it must see policies and `weights_dir` under the same paths as this process.
        """

        url: str = Field("", description="http(s)://host:port of a vLLM server; empty starts one on this machine")
        model_name: str = Field("", description="The model's name on the server by url; empty means its only one")
        weights_dir: str = Field("", description="Folder that both sides see, for live weights; empty means memory")
        prove_reload: bool = Field(True, description="Test once that the server computes with what it reloads")
        request_timeout_s: float = Field(300, gt=0, description="Time limit of one request, waiting included")
        start_timeout_s: float = Field(600, gt=0, description="Time limit for a local server to get ready")
        max_num_seqs: int = Field(64, ge=1, le=4096, description="Completions a local server decodes at once")
        max_model_len: int | None = Field(None, ge=16, description="Context limit in tokens; empty: the model's own")
        kv_cache_gib: int = Field(1, ge=1, le=1024, description="A local CPU server's cache, GiB")
        extra_args: tuple[str, ...] = Field((), description="More command-line arguments for a local server")

        @field_validator("url")
        @classmethod
        def _http_url(cls, url: str) -> str:
            if url and not url.startswith(("http://", "https://")):
                raise ValueError("must start with http:// or https://")
            return url.rstrip("/").removesuffix("/v1")

    def __init__(self, config: "VllmEngine.Config") -> None:
        self.config = config
        if not config.url:
            check_executable(settings().vllm_executable)
        self._link: Link | None = None
        self._tokenizer: ChatTokenizer | None = None
        self._version: str | None = None
        self._num_open = 0

    @property
    def policy_version(self) -> str:
        """Id of the loaded version; EngineError before `load` and after one that failed."""
        if self._version is None:
            raise EngineError("No policy version is loaded in the vllm engine; call load first.")
        return self._version

    @property
    def takes_images(self) -> bool:
        """False: completions of token ids, which is how this engine samples, take no images."""
        return False

    def can_show_images(self, model: str) -> bool:
        """False, whatever the model."""
        return False

    async def load(self, policy: PolicyVersion, live: Any | None = None) -> None:
        """Serve this version from now on; waits for completions under way. The first call starts or checks the server.

        Raises EngineError when the server is not fit or keeps old weights; the next call then starts afresh.
        """
        self._version = None
        while self._num_open:  # noqa: ASYNC110 -- an asyncio.Event would tie the engine to one event loop
            await asyncio.sleep(IDLE_POLL_S)
        try:
            if self._link is None or not await self._link.client.is_healthy():
                await self.close()
                await self._connect(_home(policy, live))
            await self._hand_over(policy, live)
        except BaseException:
            # What the server holds now is unknown.
            await self.close()
            raise
        self._version = policy.id

    async def sample(self, request: SampleRequest) -> list[Completion]:
        """`request.num_samples` completions, in order; greedy ones are drawn once and repeated. Raises EngineError."""
        version, link, greedy = self.policy_version, self._connected(), request.sampling.greedy
        body = completion_body(
            link.model.name,
            request.prompt_ids,
            num_samples=1 if greedy else request.num_samples,
            temperature=request.sampling.temperature,
            max_new_tokens=request.sampling.max_new_tokens,
            seed=request.seed,
            stop_token_ids=tuple(sorted(self._chat().stop_token_ids)),
        )
        self._num_open += 1
        try:
            reply = await link.client.post("/v1/completions", body)
            await link.check_holds(version)
        finally:
            self._num_open -= 1
        completions = read_completions(reply, body["n"])
        return completions * request.num_samples if greedy else completions

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """The prompt's token ids, ending where the assistant begins."""
        return self._chat().encode_chat(messages, tools)

    def encode_reply(self, completion: Completion, observation: str, images: Sequence[Image] = ()) -> tuple[int, ...]:
        """The ids between a completion and the next one."""
        return self._chat().encode_reply(completion.token_ids, completion.finish_reason, observation)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return self._chat().decode(token_ids)

    async def close(self) -> None:
        """Idempotent; stops the server if this engine started it."""
        self._version = None
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _connect(self, home: str) -> None:
        """Reach a server that is fit; `home` is where the policy's config and tokenizer are."""
        chat = self._tokenizer = await asyncio.to_thread(ChatTokenizer, home)
        probe = chat.encode_chat(PROBE)
        self._link = await self._local(home) if not self.config.url else self._remote()
        await self._link.check(self.config.model_name, chat, probe)
        if self.config.prove_reload:
            await self._link.prove(home, chat.tokenizer, probe)

    async def _hand_over(self, policy: PolicyVersion, live: Any | None) -> None:
        link = self._connected()
        with ExitStack() as stack:
            weights = link.weights(policy, live, self._chat().tokenizer)
            there = await asyncio.to_thread(stack.enter_context, weights)
            await link.reload(policy, there, is_live=live is not None)

    def _remote(self) -> Link:
        client = Client(
            self.config.url,
            timeout_s=self.config.request_timeout_s,
            advice=lambda: "Is the url right, and does the server run?",
            api_key=os.environ.get("VLLM_API_KEY", ""),
        )
        return Link(client, None, self.config.weights_dir)

    async def _local(self, home: str) -> Link:
        config = self.config
        options = ServerOptions(
            python=settings().vllm_executable,
            start_timeout_s=config.start_timeout_s,
            request_timeout_s=config.request_timeout_s,
            max_num_seqs=config.max_num_seqs,
            max_model_len=config.max_model_len,
            kv_cache_gib=config.kv_cache_gib,
            extra_args=config.extra_args,
        )
        server = LocalServer(options)
        with published(home) as weights:
            client = await server.start(weights.path)
        return Link(client, server, config.weights_dir)

    def _connected(self) -> Link:
        if self._link is None:
            raise EngineError("The vllm engine has no server; call load first.")
        return self._link

    def _chat(self) -> ChatTokenizer:
        if self._tokenizer is None:
            raise EngineError("The vllm engine has no tokenizer; call load first.")
        return self._tokenizer


def _home(policy: PolicyVersion, live: Any | None) -> str:
    """Live weights need not be published yet; config and tokenizer are those of the model they came from."""
    return policy.uri if live is None or Path(policy.uri).is_dir() else str(live.config._name_or_path)
