"""Loaded by a local vLLM server into its workers (`--worker-extension-cls`): weight reloads that leave nothing stale.

vLLM 0.32 on a CPU computes with reordered copies of its weights and forgets, when it reloads, the copy that an output
layer tied to the embeddings made at start: the server goes on with the first policy's output layer. This folder is all
that the server's Python sees of Assay.
"""

from typing import Any

from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod


class PolicyReload:
    """Mixed into vLLM's worker class."""

    reload_weights: Any
    model_runner: Any

    def reload_policy(self, weights_path: str) -> None:
        """Hold the weights at `weights_path`, a directory or hub id, from now on."""
        self.reload_weights(weights_path=weights_path)
        for module in self.model_runner.get_model().modules():
            if isinstance(getattr(module, "quant_method", None), UnquantizedEmbeddingMethod):
                module.quant_method.process_weights_after_loading(module)
