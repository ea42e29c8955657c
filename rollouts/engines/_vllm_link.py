"""A checked connection to one vLLM server, and what is known of the weights it holds."""

import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx

from assay.errors import EngineError
from assay.records import PolicyVersion
from rollouts.engines._vllm_checks import Served, check_logprobs, check_tokenizer, find_model
from rollouts.engines._vllm_http import Client
from rollouts.engines._vllm_proof import Reload, prove_reload
from rollouts.engines._vllm_reload import can_reload, check_marker, reload_weights, weights_checksum
from rollouts.engines._vllm_server import RELOAD_METHOD, LocalServer, served_dtype
from rollouts.engines._vllm_weights import Weights, exported, published

log = logging.getLogger("assay")


class Link:
    """`server` is set when this process started it. `weights_dir` is a folder that both sides see; empty: memory."""

    def __init__(self, client: Client, server: LocalServer | None, weights_dir: str) -> None:
        self.client = client
        self.server = server
        self._weights_dir = weights_dir
        self._served: Served | None = None
        self._can_reload = False
        self._checksum = ""
        self._sketch: str | None = None

    @property
    def model(self) -> Served:
        """The served model; EngineError before `check`."""
        if self._served is None:
            raise EngineError(f"The vLLM server at {self.client.url} was not checked yet; call load first.")
        return self._served

    async def check(self, model_name: str, tokenizer: Any, prompt_ids: tuple[int, ...]) -> None:
        """Raises EngineError unless the server has the right model and tokenizer and reports what it sampled from."""
        self._served = await find_model(self.client, self.server.name if self.server else model_name)
        await check_tokenizer(self.client, self._served, tokenizer)
        await check_logprobs(self.client, self._served, prompt_ids)
        self._can_reload = await can_reload(self.client)
        self._checksum = await weights_checksum(self.client) if self._can_reload else ""

    async def prove(self, home: str, tokenizer: Any, prompt_ids: tuple[int, ...]) -> None:
        """Raises EngineError unless reloads work; the server then holds weights that are no policy's."""
        if not self._can_reload:
            return
        if not self._shares_a_folder:
            log.warning("%s: weight reloads are not proven; set weights_dir to have them proven.", self.client.url)
            return
        how = Reload(
            client=self.client, served=self.model, method=self._method, folder=self._folder(), dtype=self._dtype
        )
        await prove_reload(how, home, tokenizer, prompt_ids)

    def weights(self, policy: PolicyVersion, live: Any | None, tokenizer: Any) -> AbstractContextManager[Weights]:
        """The policy's weights where the server can read them."""
        return published(policy.uri) if live is None else exported(live, tokenizer, self._folder(), self._dtype)

    async def reload(self, policy: PolicyVersion, weights: Weights, *, is_live: bool) -> None:
        """Make the server hold these weights. After an EngineError it is unknown what it holds."""
        if not self._can_reload:
            self._accept_as_started(policy, is_live=is_live)
            return
        before = self._checksum
        self._checksum = await reload_weights(self.client, weights.path, policy.id, method=self._method)
        differ, self._sketch = weights.surely_differ_from(self._sketch), weights.sketch
        if differ and self._checksum == before:
            raise EngineError(
                f"The vLLM server at {self.client.url} still holds the old weights after reloading {policy.id} from "
                f"{weights.path}. Does it see that folder, and this content in it?"
            )

    async def check_holds(self, version: str) -> None:
        """A server by URL may be reloaded by another run; raises EngineError when it was."""
        if self.server is None and self._can_reload:
            await check_marker(self.client, version)

    async def close(self) -> None:
        """Stops the server if this process started it."""
        await self.client.close()
        if self.server is not None:
            await self.server.stop()

    def _accept_as_started(self, policy: PolicyVersion, *, is_live: bool) -> None:
        root = self.model.root
        same = root == policy.uri or Path(root).absolute() == Path(policy.uri).absolute()
        if is_live or not same:
            wanted = "the trainer's live weights" if is_live else policy.uri
            raise EngineError(
                f"The vLLM server at {self.client.url} serves {root!r}, not {wanted}, and cannot reload weights. Start "
                "it with VLLM_SERVER_DEV_MODE=1 (vLLM 0.32 or later)."
            )

    @property
    def _method(self) -> str:
        return RELOAD_METHOD if self.server else "reload_weights"

    @property
    def _dtype(self) -> str:
        return served_dtype() if self.server else "bfloat16"

    @property
    def _shares_a_folder(self) -> bool:
        return bool(self._weights_dir) or httpx.URL(self.client.url).host in ("localhost", "127.0.0.1", "::1")

    def _folder(self) -> str:
        if not self._shares_a_folder:
            raise EngineError(
                f"The vLLM server {self.client.url} is on another machine and cannot read this one's memory. Set "
                "weights_dir to a folder that both see."
            )
        return self._weights_dir
