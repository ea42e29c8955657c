"""Drawing completions from an engine, with what must be remembered of each draw, and the engine's faults told apart."""

from collections.abc import Iterator
from contextlib import contextmanager

from assay.errors import EngineError
from assay.records import record
from rollouts.concurrency import Clock
from rollouts.engines.base import Completion, Engine, SampleRequest
from rollouts.failures import traceback_tail


@record
class Drawn:
    """One completion, the context it saw, and the policy version that was loaded when it was asked for."""

    prompt_ids: tuple[int, ...]
    completion: Completion
    policy_version: str
    sample_s: float


@contextmanager
def engine_faults() -> Iterator[None]:
    """Whatever the engine raises inside the block leaves it as EngineError."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"The engine broke unexpectedly:\n{traceback_tail(error)}") from error


async def draw(engine: Engine, request: SampleRequest, clock: Clock) -> list[Drawn]:
    """`request.num_samples` completions, checked. Raises EngineError, whatever went wrong."""
    started = clock()
    with engine_faults():
        version = engine.policy_version
        completions = await engine.sample(request)
    sample_s = clock() - started
    if len(completions) != request.num_samples:
        raise EngineError(f"The engine returned {len(completions)} completions of {request.num_samples}.")
    for completion in completions:
        _check(completion, request)
    return [
        Drawn(prompt_ids=request.prompt_ids, completion=completion, policy_version=version, sample_s=sample_s)
        for completion in completions
    ]


def _check(completion: Completion, request: SampleRequest) -> None:
    num_tokens, limit = len(completion.token_ids), request.sampling.max_new_tokens
    if not 1 <= num_tokens <= limit:
        raise EngineError(f"The engine returned a completion of {num_tokens} tokens; 1..{limit} were asked for.")
    if len(completion.logprobs) != num_tokens:
        raise EngineError(f"The engine returned {len(completion.logprobs)} log-probabilities for {num_tokens} tokens.")
