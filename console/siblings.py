"""`assay try TASK --policy P -n 8`: real rollouts of one task side by side, and what they say of it.

The posterior pass rate and its band are those of the flows; where nearly all rollouts agree on an answer that is
rejected, the task may be what is wrong.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from assay.config import SolvabilityConfig
from assay.ids import short_id
from assay.records import Band, PolicyVersion, SamplingParams, TaskSpec, VerifiedTrajectory, record
from assay.registry import build_plugin
from assay.settings import settings
from console.output import one_line, put, put_json, say, table
from console.runs import Row
from console.trying import find_task, seen
from environments.base import Domain
from environments.sandboxes.base import Backend
from quality.solvability import band, posterior
from rollouts.collect import collect
from rollouts.concurrency import utc_now
from rollouts.engines.base import Engine
from rollouts.plan import plan_groups
from rollouts.verify import verify

DEADLINE_S = 900.0
MAX_NEW_TOKENS = 1 << 20  # the task's own limit applies
WIDTH = 72


@record
class Rolling:
    """How siblings are drawn: how many, at which temperature, by which engine, in which sandbox."""

    num: int
    temperature: float
    engine: str
    sandbox: str


def by_policy(wanted: str, policy: str, how: Rolling, *, seed: int, as_json: bool) -> int:
    """Roll out the siblings; the exit code is 0 when one passed. `policy` is a folder, a hub id or `base`."""
    domain, task = find_task(wanted, seed)
    version = _version(policy)
    for line in seen(task):
        say(line)
    say(f"--- {how.num} rollouts of {version.uri}")
    verified = asyncio.run(_roll_out(domain, task, version, how))
    if as_json:
        put_json({"task_id": task.id, "siblings": [_row(v) for v in verified], **_rate(verified)})
    else:
        put(_side_by_side(verified))
        put(_conclusion(verified))
    return 0 if any(v.verdict.passed for v in verified) else 1


def _version(policy: str) -> PolicyVersion:
    local = str(Path(policy).absolute()) if Path(policy).is_dir() else policy
    uri = settings().model_uri if policy == "base" else local
    return PolicyVersion(
        id=short_id("p", ["try", uri]),
        name="tried",
        kind="base",
        parent=None,
        uri=uri,
        batch_ids=(),
        run_id="try",
        num_updates=0,
        metrics={},
        created_at=utc_now(),
    )


async def _roll_out(domain: Domain, task: TaskSpec, version: PolicyVersion, how: Rolling) -> list[VerifiedTrajectory]:
    engine: Engine = build_plugin("engine", how.engine)
    backend: Backend = build_plugin("sandbox", how.sandbox)
    try:
        await engine.load(version)
        sampling = SamplingParams(temperature=how.temperature, max_new_tokens=MAX_NEW_TOKENS)
        requests = plan_groups([task], version.id, sampling, how.num, "solvability", "try")
        domains = {task.domain: domain}
        trajectories = await collect(requests, domains, engine, backend, max_concurrency=how.num, deadline_s=DEADLINE_S)
        return await verify(trajectories, [task], domains, backend, max_concurrency=4)
    finally:
        await engine.close()
        backend.close()


def _row(v: VerifiedTrajectory) -> Row:
    failure = v.verdict.failure
    return {
        "reward": v.verdict.reward,
        "passed": v.verdict.passed,
        "invalid": failure.cause.value if failure else None,
        "end": v.trajectory.end,
        "num_turns": len(v.trajectory.turns),
        "num_tokens": v.trajectory.num_tokens,
        "last": v.trajectory.turns[-1].completion if v.trajectory.turns else "",
    }


def _side_by_side(verified: Sequence[VerifiedTrajectory]) -> str:
    rows = []
    for number, each in enumerate(map(_row, verified)):
        reward = f"invalid({each['invalid']})" if each["invalid"] else f"{each['reward']:.2f}"
        shape = [str(each["num_turns"]), str(each["num_tokens"]), each["end"]]
        rows.append([str(number), reward, *shape, one_line(each["last"], WIDTH)])
    return table(["", "reward", "turns", "tokens", "end", "last completion"], rows)


def _rate(verified: Sequence[VerifiedTrajectory]) -> Row:
    valid = [v for v in verified if v.verdict.valid]
    num_passed = sum(v.verdict.passed for v in valid)
    found = posterior(num_passed, len(valid))
    return {
        "num_valid": len(valid),
        "num_passed": num_passed,
        "pass_rate": found.mean,
        "low_rate": found.low,
        "high_rate": found.high,
        "band": band(num_passed, len(valid), SolvabilityConfig.model_validate({})).value,
        "agreed": _agreed(valid),
    }


def _agreed(valid: Sequence[VerifiedTrajectory]) -> str | None:
    """What most rollouts submitted although it is rejected, if most did."""
    counts = Counter(v.trajectory.submission.strip() for v in valid if not v.verdict.passed)
    text, count = counts.most_common(1)[0] if counts else ("", 0)
    return text if text and len(valid) >= 4 and count > len(valid) // 2 else None


def _conclusion(verified: Sequence[VerifiedTrajectory]) -> str:
    rate = _rate(verified)
    told = f"{rate['num_passed']} of {rate['num_valid']} valid rollouts pass: {rate['band']} {rate['pass_rate']:.2f} "
    told += f"[{rate['low_rate']:.2f}, {rate['high_rate']:.2f}]"
    if rate["agreed"] and rate["band"] != Band.TRAINABLE:
        told += f"; most agree on {one_line(rate['agreed'], 60)!r}, which is rejected: is the task right?"
    return told
