"""The `vllm` engine: samples from a vLLM server, one by URL as in production or one that it starts on this machine.

    load   ─► connect and check the server, once ─► reload_weights ─► empty the prefix cache ─► prove the change
    sample ─► POST /v1/completions: token ids in, token ids and log-probabilities (after temperature) out

vLLM lives in an environment of its own (`make vllm`): its pins exclude Prefect's.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, ClassVar

import httpx
from pydantic import Field, field_validator

from assay.errors import EngineError
from assay.records import Message, PolicyVersion
from assay.registry import PluginConfig
from assay.settings import settings
from rollouts.chat import ChatTokenizer
from rollouts.engines._vllm_checks import Served, check_logprobs, check_tokenizer, find_model
from rollouts.engines._vllm_http import Client
from rollouts.engines._vllm_reload import can_reload, check_marker, reload_weights, weights_checksum
from rollouts.engines._vllm_server import LocalServer, ServerOptions, check_executable, served_dtype
from rollouts.engines._vllm_weights import Weights, exported, published
from rollouts.engines._vllm_wire import completion_body, read_completions
from rollouts.engines.base import Completion, SampleRequest

PROBE = (Message(role="user", content="Sort the letters: d b a c"),)
IDLE_POLL_S = 0.02


class VllmEngine:
    """One server, one loaded policy version. Any number of `sample` calls at once; the server batches them."""

    id: ClassVar[str] = "vllm"

    class Config(PluginConfig):
        """A running server's `url`, or none to start one. VLLM_API_KEY is sent to servers by URL when it is set."""

        url: str = Field("", description="http(s)://host:port of a vLLM server; empty starts one on this machine")
        model_name: str = Field("", description="The model's name on the server by url; empty means its only one")
        weights_dir: str = Field("", description="Folder that both sides see, for live weights; empty means memory")
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
        self._server: LocalServer | None = None
        self._client: Client | None = None
        self._served: Served | None = None
        self._tokenizer: ChatTokenizer | None = None
        self._version: str | None = None
        self._can_reload = False
        self._checksum = ""
        self._sketch: str | None = None
        self._num_open = 0

    @property
    def policy_version(self) -> str:
        """Id of the loaded version; EngineError before `load` and after one that failed."""
        if self._version is None:
            raise EngineError("No policy version is loaded in the vllm engine; call load first.")
        return self._version

    async def load(self, policy: PolicyVersion, live: Any | None = None) -> None:
        """Serve this version from now on; waits for completions under way. The first call starts or checks the server.

        A server by URL must see `policy.uri` (and `weights_dir` for live weights) under the same path. Raises
        EngineError when the server is not fit or keeps its old weights.
        """
        self._version = None
        while self._num_open:  # noqa: ASYNC110 -- an asyncio.Event would tie the engine to one event loop
            await asyncio.sleep(IDLE_POLL_S)
        if self._client is None or not await self._client.is_healthy():
            await self.close()
            self._tokenizer = await asyncio.to_thread(ChatTokenizer, _tokenizer_home(policy, live))
        with ExitStack() as stack:
            weights = await asyncio.to_thread(stack.enter_context, self._weights(policy, live))
            started = self._client is None and await self._connect(weights)
            if not started:
                await self._reload(policy, weights, is_live=live is not None)
            self._sketch = weights.sketch
        self._version = policy.id

    async def sample(self, request: SampleRequest) -> list[Completion]:
        """`request.num_samples` completions, in order; greedy ones are drawn once and repeated. Raises EngineError."""
        version, client, greedy = self.policy_version, self._connected(), request.sampling.greedy
        body = self._body(request, num_samples=1 if greedy else request.num_samples)
        self._num_open += 1
        try:
            reply = await client.post("/v1/completions", body)
            if self._server is None and self._can_reload:
                await check_marker(client, version)
        finally:
            self._num_open -= 1
        completions = read_completions(reply, body["n"])
        return completions * request.num_samples if greedy else completions

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The prompt's token ids, ending where the assistant begins."""
        return self._chat().encode_chat(messages)

    def encode_reply(self, completion: Completion, observation: str) -> tuple[int, ...]:
        """The ids between a completion and the next one."""
        return self._chat().encode_reply(completion.token_ids, completion.finish_reason, observation)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return self._chat().decode(token_ids)

    async def close(self) -> None:
        """Idempotent; stops the server if this engine started it."""
        self._version = None
        client, self._client = self._client, None
        server, self._server = self._server, None
        if client is not None:
            await client.close()
        if server is not None:
            await server.stop()

    async def _connect(self, weights: Weights) -> bool:
        """True when a server was started just now, and so holds these weights."""
        try:
            self._client = await self._reach(weights.path)
            await self._check(self._client)
        except BaseException:
            await self.close()
            raise
        return self._server is not None

    async def _reach(self, model: str) -> Client:
        config = self.config
        if config.url:
            return Client(
                config.url,
                timeout_s=config.request_timeout_s,
                advice=lambda: "Is the url right, and does the server run?",
                api_key=os.environ.get("VLLM_API_KEY", ""),
            )
        self._server = LocalServer(
            ServerOptions(
                python=settings().vllm_executable,
                start_timeout_s=config.start_timeout_s,
                request_timeout_s=config.request_timeout_s,
                max_num_seqs=config.max_num_seqs,
                max_model_len=config.max_model_len,
                kv_cache_gib=config.kv_cache_gib,
                extra_args=config.extra_args,
            )
        )
        return await self._server.start(model)

    async def _check(self, client: Client) -> None:
        self._served = await find_model(client, self._server.name if self._server else self.config.model_name)
        await check_tokenizer(client, self._served, self._chat())
        await check_logprobs(client, self._served, self.encode_chat(PROBE))
        self._can_reload = await can_reload(client)
        self._checksum = await weights_checksum(client) if self._can_reload else ""

    def _weights(self, policy: PolicyVersion, live: Any | None) -> AbstractContextManager[Weights]:
        if live is None:
            return published(policy.uri)
        dtype = "bfloat16" if self.config.url else served_dtype()
        return exported(live, self._chat().tokenizer, self._live_folder(), dtype)

    def _live_folder(self) -> str:
        host = httpx.URL(self.config.url).host if self.config.url else "localhost"
        if not self.config.weights_dir and host not in ("localhost", "127.0.0.1", "::1"):
            raise EngineError(
                f"The vLLM server {self.config.url} is on another machine and cannot read this one's memory. Set "
                "weights_dir to a folder that both see."
            )
        return self.config.weights_dir

    async def _reload(self, policy: PolicyVersion, weights: Weights, *, is_live: bool) -> None:
        client = self._connected()
        if not self._can_reload:
            return self._accept_as_started(policy, is_live=is_live)
        try:
            before, self._checksum = self._checksum, await reload_weights(client, weights.path, policy.id)
            if weights.surely_differ_from(self._sketch) and self._checksum == before:
                raise EngineError(
                    f"The vLLM server at {client.url} still holds the old weights after reloading {policy.id} from "
                    f"{weights.path}. Does it see that folder, and this content in it?"
                )
        except BaseException:
            # What the server holds now is unknown: the next load starts afresh.
            await self.close()
            raise

    def _accept_as_started(self, policy: PolicyVersion, *, is_live: bool) -> None:
        served = self._model()
        same = served.root == policy.uri or Path(served.root).absolute() == Path(policy.uri).absolute()
        if is_live or not same:
            wanted = "the trainer's live weights" if is_live else policy.uri
            raise EngineError(
                f"The vLLM server at {self.config.url} serves {served.root!r}, not {wanted}, and cannot reload "
                "weights. Start it with VLLM_SERVER_DEV_MODE=1 (vLLM 0.32 or later)."
            )

    def _body(self, request: SampleRequest, *, num_samples: int) -> dict[str, Any]:
        return completion_body(
            self._model().name,
            request.prompt_ids,
            num_samples=num_samples,
            temperature=request.sampling.temperature,
            max_new_tokens=request.sampling.max_new_tokens,
            seed=request.seed,
            stop_token_ids=tuple(sorted(self._chat().stop_token_ids)),
        )

    def _connected(self) -> Client:
        if self._client is None:
            raise EngineError("The vllm engine is closed; call load first.")
        return self._client

    def _model(self) -> Served:
        if self._served is None:
            raise EngineError("The vllm engine has no server; call load first.")
        return self._served

    def _chat(self) -> ChatTokenizer:
        if self._tokenizer is None:
            raise EngineError("The vllm engine has no tokenizer; call load first.")
        return self._tokenizer


def _tokenizer_home(policy: PolicyVersion, live: Any | None) -> str:
    """Live weights need not be published yet; their tokenizer is that of the model they came from."""
    return policy.uri if live is None or Path(policy.uri).is_dir() else str(live.config._name_or_path)
