"""Which rollouts a stage wants. A plan follows from what is stored, so every flow that asks gets the same one."""

from assay.records import PolicyVersion, SamplingParams, TaskSpec
from rollouts.demonstrate import ORACLE
from rollouts.plan import choose_tasks
from tasks.inspect_tasks import trusted
from tasks.load_tasks import tasks_at
from tasks.lookup import times_trained
from tasks.roll_out import RolloutPlan
from tasks.solvability import candidates, worth_training
from tasks.stages import MAX_NEW_TOKENS, Stage
from tasks.workshop import workshop

_GREEDY = SamplingParams(temperature=0.0, max_new_tokens=MAX_NEW_TOKENS)


def plan_iteration(stage: Stage) -> RolloutPlan:
    """The groups of an iteration; in iteration 0 the demonstrations of the warm start."""
    return plan_demonstrations(stage) if stage.iteration == 0 else plan_training(stage)


def plan_training(stage: Stage) -> RolloutPlan:
    """`groups_per_iteration` tasks of each domain among those worth training on."""
    specs, estimates = worth_training(stage)
    times = times_trained(workshop(stage.config), stage)
    chosen: list[TaskSpec] = []
    for name, domain in stage.config.domains.items():
        mine = [spec for spec in specs if spec.domain == name]
        chosen += choose_tasks(mine, estimates, times, domain.groups_per_iteration, seed=stage.run.sampling_seed)
    return RolloutPlan(
        purpose="train",
        iteration=stage.iteration,
        policy=stage.policy,
        tasks=stage.tasks,
        task_hashes=_hashes(chosen),
        group_size=stage.config.rollout.group_size,
        sampling=stage.sampling(),
    )


def plan_demonstrations(stage: Stage) -> RolloutPlan:
    """The oracle's solution of the first `demonstrations` trusted training tasks of each domain."""
    specs = candidates(workshop(stage.config), stage)
    chosen: list[TaskSpec] = []
    for name, domain in stage.config.domains.items():
        chosen += [spec for spec in specs if spec.domain == name][: domain.demonstrations]
    return RolloutPlan(
        purpose="demonstration",
        iteration=0,
        policy=oracle_policy(stage),
        tasks=stage.tasks,
        task_hashes=_hashes(chosen),
        group_size=1,
        sampling=_GREEDY,
    )


def plan_evaluation(stage: Stage) -> RolloutPlan:
    """Every trusted held-out task once, greedy."""
    heldout = [spec for spec in tasks_at(workshop(stage.config), stage.tasks) if spec.split == "heldout"]
    return RolloutPlan(
        purpose="evaluation",
        iteration=stage.iteration,
        policy=stage.policy,
        tasks=stage.tasks,
        task_hashes=_hashes(trusted(workshop(stage.config), heldout)),
        group_size=1,
        sampling=_GREEDY,
    )


def oracle_policy(stage: Stage) -> PolicyVersion:
    """The reference solutions as a policy; it has no weights and is not in the ledger."""
    return PolicyVersion(
        id=ORACLE,
        name=ORACLE,
        kind="base",
        parent=None,
        uri="",
        batch_ids=(),
        run_id=stage.run.run_id,
        num_updates=0,
        metrics={},
        created_at=stage.run.started_at,
    )


def _hashes(specs: list[TaskSpec]) -> tuple[str, ...]:
    return tuple(spec.content_hash for spec in specs)
