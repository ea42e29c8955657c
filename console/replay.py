"""`assay replay TRAJECTORY_ID`: play a recorded trajectory again, and show the first turn that comes out otherwise.

The task and the options of domain and sandbox are those of the run that recorded it; only the sandbox may be another
one. Every view is a dictionary first (`--json` prints it) and lines second. Recorded texts are untrusted.
"""

import asyncio
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from assay.config import PluginChoice, PostTrainConfig
from assay.errors import ConfigurationError, unknown_choice
from assay.records import Cause
from assay.registry import build_plugin
from console.configure import assignment, set_path
from console.output import clean, one_line, put, put_json, say
from console.runs import Row
from console.sql import open_catalog
from environments.base import Domain
from environments.catalogue import build_domain
from rollouts.replay import Replay
from rollouts.replay import replay as play_again
from tasks.lookup import Recorded, recorded

MAX_LINES = 60


def replay(wanted: str, *, sets: Sequence[str], as_json: bool) -> int:
    """Replay and report; returns the exit code: 0 equal, 1 diverges or no answer, 4 the sandbox failed."""
    found = recorded(open_catalog(), wanted)
    choice = sandbox_choice(found.config.sandbox, sets)
    domain = _domain(found)
    say(f"replaying {found.trajectory.id} on {one_line(found.task.id)} in {choice.id}")
    result = _play(found, domain, choice)
    shown = view(found, choice, result)
    if as_json:
        put_json(shown)
    else:
        put("\n".join(lines(shown)))
    return exit_code(result)


def sandbox_choice(kept: PluginChoice, sets: Sequence[str]) -> PluginChoice:
    """The recorded sandbox with overrides such as `sandbox.options.max_concurrency=1` or `sandbox.id=other`."""
    changes = dict(map(assignment, sets))
    for path in changes:
        if path != "sandbox.id" and not path.startswith("sandbox.options."):
            raise ConfigurationError(
                f"--set {path} would replay something else than was recorded. Set sandbox.id or sandbox.options.KEY."
            )
    plugin_id = str(changes.pop("sandbox.id", kept.id))
    # Options belong to one plugin: those recorded stay only when it stays.
    raw: Row = {"sandbox": {"options": copy.deepcopy(kept.options) if plugin_id == kept.id else {}}}
    for path, value in changes.items():
        set_path(raw, path, value)
    return PluginChoice(id=plugin_id, options=raw["sandbox"]["options"])


def exit_code(result: Replay) -> int:
    if result.failure is not None and result.failure.cause is Cause.SANDBOX:
        return 4
    return 0 if result.standing == "equal" else 1


def view(found: Recorded, choice: PluginChoice, result: Replay) -> Row:
    """What was replayed and what came of it, in plain values. Turns count from 0, as in the table `turns`."""
    trajectory, failure = found.trajectory, result.failure
    return {
        "trajectory_id": trajectory.id,
        "task_id": trajectory.task_id,
        "policy_version": trajectory.first_policy,
        "end_reason": trajectory.end,
        "recorded_failure": f"{trajectory.failure.cause}: {trajectory.failure.detail}" if trajectory.failure else None,
        "recorded_sandbox": trajectory.sandbox,
        "sandbox": choice.id,
        "result": result.standing,
        "num_turns": result.num_turns,
        "num_compared": result.num_compared,
        "num_hashes": result.num_hashes,
        "ending_compared": result.ending,
        "turn_index": result.turn,
        "differences": [
            {"name": d.name, "recorded": d.recorded, "replayed": d.replayed, "diff": d.diff()}
            for d in result.differences
        ],
        "cause": failure.cause.value if failure else None,
        "detail": failure.detail if failure else None,
    }


def lines(shown: Row) -> Iterator[str]:
    """The view for a person."""
    yield f"{shown['trajectory_id']}  {one_line(shown['task_id'])}  ended {shown['end_reason']}"
    yield f"recorded in {one_line(shown['recorded_sandbox'])}, replayed in {one_line(shown['sandbox'])}"
    if shown["recorded_failure"]:
        yield f"the rollout failed, so its last complete turn is the last: {one_line(shown['recorded_failure'], 160)}"
    yield _compared(shown)
    if shown["result"] == "not_replayed":
        yield f"could not be replayed ({shown['cause']}): {one_line(shown['detail'])}"
    elif shown["result"] == "equal":
        yield "equal"
    else:
        yield f"diverges at turn {shown['turn_index'] + 1}"
        for difference in shown["differences"]:
            yield from _difference_lines(difference)


def _compared(shown: Row) -> str:
    hashes = f" ({shown['num_hashes']} with their state hash)" if shown["num_hashes"] else ", no state hash"
    ending = ", and the ending" if shown["ending_compared"] else ""
    words = f"compared {shown['num_compared']} of {shown['num_turns']} turns"
    return f"{words}{hashes}{ending}" if shown["num_compared"] else words


def _difference_lines(difference: Row) -> Iterator[str]:
    diff = difference["diff"]
    yield from ("", f"{difference['name']}:")
    yield from (clean(f"  {line}") for line in diff[:MAX_LINES])
    if len(diff) > MAX_LINES:
        yield f"  ... {len(diff) - MAX_LINES} more lines (assay replay --json has them)"


def _domain(found: Recorded) -> Domain:
    config: PostTrainConfig = found.config
    name = found.trajectory.domain
    if name not in config.domains:
        raise unknown_choice(f"domain of run {found.trajectory.run_id}", name, config.domains)
    domain: Domain = build_domain(name, config.domains[name].options)
    return domain


def _play(found: Recorded, domain: Domain, choice: PluginChoice) -> Replay:
    backend: Any = build_plugin("sandbox", choice.id, dict(choice.options))
    deadline_s = found.config.rollout.deadline_s
    try:
        return asyncio.run(play_again(found.trajectory, found.task, domain, backend, deadline_s=deadline_s))
    finally:
        backend.close()
