"""Which rollouts to do: tasks of an iteration, their groups, and what of them is not done yet.

Everything here is a pure function of its arguments; resuming is the set difference `missing`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from assay.errors import ConfigurationError
from assay.ids import derive_seed
from assay.records import Band, Purpose, RolloutRequest, SamplingParams, SolvabilityEstimate, TaskSpec

# A task nobody has estimated may well be trainable; one that is too hard today may not be tomorrow.
PREFERENCE = (Band.TRAINABLE, Band.UNKNOWN, Band.TOO_HARD, Band.SATURATED)


def sampling_for(task: TaskSpec, sampling: SamplingParams) -> SamplingParams:
    """`sampling` within the task's own token limit."""
    return replace(sampling, max_new_tokens=min(sampling.max_new_tokens, task.max_new_tokens))


def plan_groups(
    tasks: Iterable[TaskSpec],
    policy_version: str,
    sampling: SamplingParams,
    group_size: int,
    purpose: Purpose,
    run_id: str,
) -> list[RolloutRequest]:
    """`group_size` requests per task, in the order of `tasks`; tasks of equal content make one group.

    Raises ConfigurationError for an empty group, and for a greedy one of more than 1: its members would be copies.
    """
    if group_size < 1:
        raise ConfigurationError(f"group_size is {group_size}; at least 1 is needed.")
    if sampling.greedy and group_size > 1:
        raise ConfigurationError(
            f"group_size is {group_size} at temperature 0, where all samples are the same; use 1 or a temperature."
        )
    requests = (
        RolloutRequest(
            task=task,
            policy_version=policy_version,
            sampling=sampling_for(task, sampling),
            index=index,
            purpose=purpose,
            run_id=run_id,
        )
        for task in tasks
        for index in range(group_size)
    )
    return list({request.id: request for request in requests}.values())


def missing(requests: Iterable[RolloutRequest], done_ids: Collection[str]) -> list[RolloutRequest]:
    """The requests whose trajectory is not among `done_ids`, in order."""
    done = frozenset(done_ids)
    return [request for request in requests if request.id not in done]


def choose_tasks(
    tasks: Sequence[TaskSpec],
    estimates: Iterable[SolvabilityEstimate],
    num: int,
    *,
    seed: int,
    iteration: int,
) -> list[TaskSpec]:
    """`num` tasks for one iteration (all of them when there are fewer), the trainable ones first.

    Within a band consecutive iterations walk one seeded order round and round, so every task comes equally often:
    of five tasks, two per iteration, iterations 0..4 take AB, CD, EA, BC, DE. Where several estimates of a task are
    given, the last counts.
    """
    bands = {estimate.task_hash: estimate.band for estimate in estimates}
    chosen: list[TaskSpec] = []
    for band in PREFERENCE:
        pool = [task for task in tasks if bands.get(task.content_hash, Band.UNKNOWN) is band]
        chosen += _walk(pool, num - len(chosen), seed, iteration)
    return chosen


def _walk(pool: Sequence[TaskSpec], num: int, seed: int, iteration: int) -> list[TaskSpec]:
    order = sorted(pool, key=lambda task: (derive_seed(seed, "order", task.content_hash), task.id))
    start = iteration * num
    return [order[(start + i) % len(order)] for i in range(min(num, len(order)))]


def group_requests(requests: Iterable[RolloutRequest]) -> Mapping[str, list[RolloutRequest]]:
    """Requests by group, groups and members in the order given."""
    groups: dict[str, list[RolloutRequest]] = {}
    for request in requests:
        groups.setdefault(request.group_id, []).append(request)
    return groups
