"""Which rollouts to do: tasks of an iteration, their groups, and what of them is not done yet.

Everything here is a pure function of its arguments; resuming is the set difference `missing`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from assay.errors import ConfigurationError
from assay.ids import derive_seed
from assay.records import Band, Purpose, RolloutRequest, SamplingParams, SolvabilityEstimate, TaskSpec

# A task nobody has estimated may well be trainable; one that is too hard today may not be tomorrow.
RANK = {Band.TRAINABLE: 0, Band.UNKNOWN: 0, Band.TOO_HARD: 1, Band.SATURATED: 2}


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
    tasks: Iterable[TaskSpec],
    estimates: Iterable[SolvabilityEstimate],
    times_trained: Mapping[str, int],
    num: int,
    *,
    seed: int,
) -> list[TaskSpec]:
    """`num` tasks for one iteration (all of them when there are fewer).

    Tasks that are trainable or unknown come before those too hard, and these before saturated ones. Among equals
    the one trained on least often comes first (`times_trained` by content hash): a policy that sees few tasks again
    and again learns those tasks instead of the domain. Then the known trainable ones, then a seeded order. Where
    several estimates of a task are given, the last counts.
    """
    bands = {estimate.task_hash: estimate.band for estimate in estimates}

    def standing(task: TaskSpec) -> tuple[int, int, bool, int, str]:
        band, times = bands.get(task.content_hash, Band.UNKNOWN), times_trained.get(task.content_hash, 0)
        return RANK[band], times, band is Band.UNKNOWN, derive_seed(seed, "order", task.content_hash), task.id

    return sorted(tasks, key=standing)[:num]


def group_requests(requests: Iterable[RolloutRequest]) -> Mapping[str, list[RolloutRequest]]:
    """Requests by group, groups and members in the order given."""
    groups: dict[str, list[RolloutRequest]] = {}
    for request in requests:
        groups.setdefault(request.group_id, []).append(request)
    return groups
