"""The embedded engine: causal language models of transformers, some with eyes, sampled in this process.

    sample() ... sample()  ->  queue  ->  worker threads, one Decoder each  ->  futures

Requests join whatever is being decoded, so concurrent calls are batched without waiting for each other.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from assay.errors import EngineError
from assay.processor import fast_dtype
from assay.records import Image, Message, PolicyVersion, Tool
from assay.registry import PluginConfig
from assay.settings import settings
from rollouts.chat import ChatTokenizer
from rollouts.engines.base import Completion, SampleRequest
from rollouts.image_chat import ImageChat, chat_for, sees_images


class TransformersEngine:
    """Samples exactly: log-probabilities are those of the distribution drawn from (temperature, nothing else)."""

    id: ClassVar[str] = "transformers"

    class Config(PluginConfig):
        dtype: Literal["auto", "float32", "bfloat16"] = Field(
            "auto", description="auto: the faster of the two on this processor"
        )
        num_threads: int = Field(0, ge=0, le=64, description="Worker threads; 0 means ASSAY_NUM_THREADS")
        max_batch_size: int = Field(256, ge=1, le=4096, description="Completions under way at once, per worker")
        prefix_cache_mib: int = Field(384, ge=0, description="Memory for contexts already computed")
        batch_wait_s: float = Field(0.005, ge=0, le=1, description="How long an idle engine waits for company")

    def __init__(self, config: Config) -> None:
        self.config = config
        self._policy_version = ""
        self._chat: ChatTokenizer | None = None
        self._model: Any = None
        self._prefixes: Any = None
        self._queue: deque[Any] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._active: list[int] = []
        self._stopping = False
        self.num_tokens = 0
        self.busy_s = 0.0

    @property
    def policy_version(self) -> str:
        """Id of the loaded version; EngineError before `load`."""
        if not self._policy_version:
            raise EngineError("No policy is loaded into the engine. Call load(policy) first.")
        return self._policy_version

    @property
    def takes_images(self) -> bool:
        """Whether the loaded model sees images."""
        return self._chat is not None and self._chat.takes_images

    def can_show_images(self, model: str) -> bool:
        """Whether the model at this path or hub id sees images."""
        return sees_images(model)

    async def load(self, policy: PolicyVersion, live: Any | None = None) -> None:
        """Serve this version from now on; waits for completions under way. See the contract in `base`."""
        await asyncio.to_thread(self._load, policy, live)

    async def sample(self, request: SampleRequest) -> list[Completion]:
        """`request.num_samples` completions, in order. Raises EngineError."""
        from rollouts.engines._decoder import Job

        future: Future[list[Completion]] = Future()
        limit = self._room(request)

        def deliver(completions: list[Completion]) -> None:
            try:
                future.set_result(completions)
            except InvalidStateError:  # the caller went away in this very moment
                return

        job = Job(request, deliver, future.cancelled, limit)
        with self._changed:
            self._queue.append((job, future))
            self._start_workers()
            self._changed.notify_all()
        return await asyncio.wrap_future(future)

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """The prompt's token ids, ending where the assistant begins."""
        return self._tokenizer.encode_chat(messages, tools)

    def encode_reply(self, completion: Completion, observation: str, images: Sequence[Image] = ()) -> tuple[int, ...]:
        """The ids between a completion and the next one."""
        return self._tokenizer.encode_reply(completion.token_ids, completion.finish_reason, observation, images)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return self._tokenizer.decode(token_ids)

    async def close(self) -> None:
        """Idempotent; ends the workers and frees the weights."""
        await asyncio.to_thread(self._close)

    @property
    def _eyes(self) -> ImageChat | None:
        return self._chat if isinstance(self._chat, ImageChat) else None

    @property
    def _tokenizer(self) -> ChatTokenizer:
        if self._chat is None:
            raise EngineError("No policy is loaded into the engine. Call load(policy) first.")
        return self._chat

    def _room(self, request: SampleRequest) -> int:
        """How many tokens may be sampled: what was asked for, within the model's context."""
        model, prompt = self._model, len(request.prompt_ids)
        if model is None:
            raise EngineError("No policy is loaded into the engine. Call load(policy) first.")
        limit = _context_limit(model.config)
        if not 0 < prompt < limit or request.num_samples < 1 or request.sampling.max_new_tokens < 1:
            raise EngineError(
                f"Can't sample {request.num_samples} x {request.sampling.max_new_tokens} tokens after a prompt of "
                f"{prompt}: each must be at least 1, and the model's context is {limit} tokens. Shorten the prompt."
            )
        return min(request.sampling.max_new_tokens, limit - prompt)

    def _load(self, policy: PolicyVersion, live: Any | None) -> None:
        import torch

        from rollouts.engines._prefixes import PrefixCache
        from rollouts.engines._weights import copy_policy, read_policy, refresh_policy

        torch.set_num_threads(1)  # workers are threads of ours: they scale better and tolerate busy machines
        dtype = fast_dtype() if self.config.dtype == "auto" else getattr(torch, self.config.dtype)
        with self._changed:
            self._changed.wait_for(lambda: not self._queue and not any(self._active))
            if live is None:
                self._chat = chat_for(policy.uri)
                self._model = read_policy(policy.uri, dtype)
            else:
                self._chat = self._chat or ChatTokenizer(_tokenizer_home(policy, live))
                if self._model is None:
                    self._model = copy_policy(live, dtype)
                else:
                    refresh_policy(self._model, live)
            self._prefixes = PrefixCache(self.config.prefix_cache_mib << 20)
            self._policy_version = policy.id

    def _start_workers(self) -> None:
        if not self._threads:
            count = self.config.num_threads or settings().num_threads
            self._stopping = False
            self._active = [0] * count
            self._threads = [
                threading.Thread(target=self._work, args=(i,), name=f"engine-{i}", daemon=True) for i in range(count)
            ]
            for thread in self._threads:
                thread.start()

    def _work(self, me: int) -> None:
        """Take jobs and decode until told to stop; a failure fails the jobs it hit, not the engine."""
        jobs: list[tuple[Any, Future[list[Completion]]]] = []
        decoder: Any = None
        while True:
            taken = self._take(me, idle=not jobs)
            if taken is None:
                return
            jobs += taken
            started = time.monotonic()
            try:
                decoder = self._advance(decoder, [job for job, _ in taken])
            except Exception as error:  # whatever it was, the callers must hear of it
                _fail([future for _, future in jobs], error)
            jobs = [(job, future) for job, future in jobs if not future.done()]
            decoder = decoder if jobs else None  # an idle worker holds neither old weights nor memory
            with self._changed:
                self.busy_s += time.monotonic() - started
                self._active[me] = sum(job.request.num_samples - len(job.done) for job, _ in jobs)
                self._changed.notify_all()

    def _advance(self, decoder: Any, jobs: list[Any]) -> Any:
        from rollouts.engines._decoder import Decoder

        if decoder is None:
            decoder = Decoder(self._model, self._tokenizer.stop_token_ids, self._prefixes, self._eyes)
        decoder.admit(jobs)
        decoder.step()
        return decoder

    def _take(self, me: int, *, idle: bool) -> list[tuple[Any, Future[list[Completion]]]] | None:
        """This worker's fair share of what waits; blocks while it has nothing else to do. None: stop."""
        with self._changed:
            if idle:
                self._changed.wait_for(lambda: self._queue or self._stopping)
                if not self._stopping and not any(self._active):
                    self._changed.wait(self.config.batch_wait_s)
            if self._stopping:
                return None
            waiting = sum(job.request.num_samples for job, _ in self._queue)
            share = -(-(waiting + sum(self._active)) // len(self._active))
            taken = []
            while self._queue and self._active[me] < min(share, self.config.max_batch_size):
                job, future = self._queue.popleft()
                if not future.cancelled():
                    taken.append((job, future))
                    self._active[me] += job.request.num_samples
            return taken

    def _close(self) -> None:
        with self._changed:
            self._stopping = True
            _fail([future for _, future in self._queue], EngineError("The engine was closed."))
            self._queue.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._threads, self._active = [], []
        self._model = self._prefixes = None
        self._policy_version = ""


def _fail(futures: Sequence[Future[list[Completion]]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            failure = EngineError(f"Sampling failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            future.set_exception(failure)


def _context_limit(config: Any) -> int:
    """Tokens of context, the sliding window included: within it, sliding attention is full attention."""
    config = config.get_text_config()
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    return min(config.max_position_embeddings, window or config.max_position_embeddings)


def _tokenizer_home(policy: PolicyVersion, live: Any) -> str:
    return policy.uri if Path(policy.uri).is_dir() else str(live.config._name_or_path)
