"""`assay show ID`: one trajectory, task or policy, readable in one paste.

Every view is a dictionary first (`--json` prints it) and lines second. Texts from models and tasks are untrusted.
"""

import json
from collections.abc import Iterator
from typing import Any

from assay.errors import ConfigurationError
from console.images import image_lines, turn_views, with_views
from console.output import clean, one_line, table
from console.runs import Row, literal, rows
from storage.catalog import Catalog

MAX_LINES = 60


def find(catalog: Catalog, wanted: str) -> Row:
    """The view of what an id names: a trajectory, a task or a policy (also by name), by unique prefix.

    Raises ConfigurationError when nothing or more than one thing matches.
    """
    for kind, sql, view in KINDS:
        ids = [row["id"] for row in rows(catalog, sql.format(wanted=literal(wanted)))]
        chosen = [wanted] if wanted in ids else ids
        if len(chosen) > 1:
            raise ConfigurationError(f"{wanted!r} is ambiguous among {kind}: {', '.join(chosen[:5])}. Type more of it.")
        if chosen:
            return view(catalog, chosen[0]) | {"found_among": kind}
    raise ConfigurationError(
        f"Nothing in the store is called {wanted!r}. Ids of trajectories begin with t_, of policies with p_; tasks "
        'are named like record_extraction/train/017. Find some: assay sql "FROM trajectories SELECT trajectory_id".'
    )


def trajectory(catalog: Catalog, trajectory_id: str) -> Row:
    """A trajectory with its task, turns, verdict and siblings."""
    sql = f"FROM trajectories WHERE trajectory_id = {literal(trajectory_id)}"
    found = rows(catalog, sql)[0]
    turns_sql = f"FROM turns WHERE trajectory_id = {literal(trajectory_id)} ORDER BY turn_index"
    columns = (
        "turn_index, completion, finish_reason, action, observation, state_hash, len(completion_ids) AS num_tokens, "
        "sample_s, images"
    )
    siblings = (
        "FROM trajectories SELECT trajectory_id, sample_index, valid, reward, coalesce(cause, failure_cause) AS cause "
        f"WHERE group_id = {literal(found['group_id'])} ORDER BY sample_index"
    )
    return found | {
        "prompt": _prompt(catalog, found["task_hash"]),
        "turns": [turn_views(row) for row in rows(catalog, f"SELECT {columns} {turns_sql}")],
        "siblings": rows(catalog, siblings),
        "policy": _policy_name(catalog, found["first_policy"]),
        "sql": [sql, turns_sql],
    }


def task(catalog: Catalog, task_id: str) -> Row:
    """A task with its standing, the evidence for it and how each policy did on it."""
    where = f"task_id = {literal(task_id)}"
    sql = f"FROM tasks WHERE {where}"
    found = rows(catalog, sql)[-1]
    scores = (
        "FROM trajectories t LEFT JOIN policies p ON p.policy_id = t.first_policy SELECT coalesce(p.name, first_policy)"
        " AS policy, count(*) FILTER (valid) AS num_valid, count(*) FILTER (passed) AS num_passed, "
        f"avg(reward) FILTER (valid) AS reward WHERE t.{where} GROUP BY ALL ORDER BY min(t.started_at)"
    )
    evidence = f"FROM evidence SELECT probe, finding, summary WHERE {where} ORDER BY probe"
    standing = f"FROM certificates SELECT state, reasons, issued_at WHERE {where} ORDER BY issued_at DESC LIMIT 1"
    return found | {
        "prompt": [with_views(message) for message in json.loads(found["prompt_json"])],
        "standing": next(iter(rows(catalog, standing)), None),
        "evidence": rows(catalog, evidence),
        "scores": rows(catalog, scores),
        "sql": [sql, evidence],
    }


def policy(catalog: Catalog, policy_id: str) -> Row:
    """A policy version with its lineage back to the base, its batches and its evaluations."""
    sql = f"FROM policies WHERE policy_id = {literal(policy_id)}"
    found = rows(catalog, sql)[0]
    lineage = f"""
        WITH RECURSIVE up AS (
            SELECT policy_id, name, kind, parent, 0 AS depth FROM policies WHERE policy_id = {literal(policy_id)}
            UNION ALL SELECT p.policy_id, p.name, p.kind, p.parent, up.depth + 1
            FROM policies p JOIN up ON p.policy_id = up.parent)
        FROM up SELECT DISTINCT policy_id, name, kind, depth ORDER BY depth"""
    batch_ids = ", ".join(map(literal, found["batch_ids"] or [""]))
    batches = (
        "FROM batches SELECT batch_id, kind, iteration, count(*) AS num_trajectories, "
        "count(*) FILTER (used) AS num_used, count(*) FILTER (in_baseline) AS num_in_baseline "
        f"WHERE batch_id IN ({batch_ids}) GROUP BY ALL ORDER BY iteration"
    )
    evaluations = (
        "FROM evaluations SELECT domain, num_passed, num_valid, pass_rate, low_rate, high_rate "
        f"WHERE policy_version = {literal(policy_id)} ORDER BY domain"
    )
    return found | {
        "lineage": rows(catalog, lineage),
        "batches": rows(catalog, batches),
        "evaluations": rows(catalog, evaluations),
        "sql": [sql, batches],
    }


TRAJECTORY_IDS = """
    FROM trajectories SELECT DISTINCT trajectory_id AS id WHERE starts_with(trajectory_id, {wanted}) LIMIT 6"""
TASK_IDS = "FROM tasks SELECT DISTINCT task_id AS id WHERE starts_with(task_id, {wanted}) ORDER BY 1 LIMIT 6"
# A name such as v3 is used by every run; the newest run's is meant.
POLICY_IDS = """
    FROM policies SELECT DISTINCT policy_id AS id WHERE starts_with(policy_id, {wanted}) OR (name = {wanted}
    AND created_at = (FROM policies SELECT max(created_at) WHERE name = {wanted})) LIMIT 6"""

KINDS = (
    ("trajectories", TRAJECTORY_IDS, trajectory),
    ("tasks", TASK_IDS, task),
    ("policies", POLICY_IDS, policy),
)


def lines(view: Row) -> list[str]:
    """A view for a person."""
    body = {"trajectories": _trajectory_lines, "tasks": _task_lines, "policies": _policy_lines}[view["found_among"]](
        view
    )
    replay = [f"assay replay {view['trajectory_id']}"] if view["found_among"] == "trajectories" else []
    return [*body, "", *(f'assay sql "{sql}"' for sql in view["sql"]), *replay]


def verdict_words(row: Row) -> str:
    """The verdict in words: `passed, reward 1.00` or `invalid (sandbox): no room; it counts for nothing`."""
    cause = row.get("cause") or row.get("failure_cause")
    if cause:
        detail = one_line(row.get("detail") or row.get("failure_detail") or "no detail")
        return f"invalid ({one_line(cause)}): {detail}; it has no reward and is in no baseline"
    if row.get("valid") is None:
        return "not verified yet"
    return f"{'passed' if row['passed'] else 'not passed'}, reward {row['reward']:.2f} (judged {row['judged']})"


def sibling_words(view: Row) -> str:
    """`[0.67]  1.00  invalid(sandbox)`: the group in order, this trajectory in brackets."""
    words = []
    for row in view["siblings"]:
        word = f"{row['reward']:.2f}" if row["reward"] is not None else f"invalid({row['cause'] or 'not verified'})"
        words.append(f"[{word}]" if row["trajectory_id"] == view["trajectory_id"] else word)
    return "  ".join(words)


def _trajectory_lines(view: Row) -> Iterator[str]:
    yield f"{view['trajectory_id']}  {one_line(view['task_id'])}  level {view['level']}"
    yield (
        f"{view['purpose']} rollout of iteration {view['iteration']}, policy {one_line(view['policy'])}, temperature "
        f"{view['temperature']:g}, {view['num_tokens']} tokens, {view['wall_s']:.1f} s, ended {view['end_reason']}"
    )
    yield from _prompt_lines(view["prompt"])
    for turn in view["turns"]:
        yield from ("", f"turn {turn['turn_index'] + 1}: policy ({turn['num_tokens']} tokens, {turn['finish_reason']})")
        yield from _block(turn["completion"])
        if turn["observation"] or turn["images"]:
            yield f"turn {turn['turn_index'] + 1}: reply"
            yield from map(clean, image_lines(turn["images"]))
            yield from _block(turn["observation"])
    yield from ("", f"verdict: {verdict_words(view)}")
    if view["terms"]:
        yield from table(["term", "value", "weight", "note"], [list(t.values()) for t in view["terms"]]).splitlines()
    yield f"siblings: {sibling_words(view)}"


def _task_lines(view: Row) -> Iterator[str]:
    yield f"{one_line(view['task_id'])}  level {view['level']}  {view['split']}  content {view['task_hash']}"
    standing = view["standing"]
    reasons = "; ".join(map(one_line, standing["reasons"] or [])) if standing else ""
    yield f"{standing['state'] if standing else 'not inspected'}" + (f": {reasons}" if reasons else "")
    yield from _prompt_lines(view["prompt"])
    if view["evidence"]:
        yield from ("", *table(["probe", "finding", "summary"], _values(view["evidence"])).splitlines())
    if view["scores"]:
        yield from ("", *table(["policy", "valid", "passed", "reward"], _values(view["scores"])).splitlines())


def _policy_lines(view: Row) -> Iterator[str]:
    yield f"{one_line(view['name'])}  {view['policy_id']}  {view['kind']}  {view['num_updates']} updates"
    yield f"weights {one_line(view['uri'])}"
    yield "lineage " + " <- ".join(f"{one_line(row['name'])} ({row['kind']})" for row in view["lineage"])
    for title in ("batches", "evaluations"):
        if view[title]:
            yield from ("", *table(list(view[title][0]), _values(view[title])).splitlines())


def _values(found: list[Row]) -> list[list[Any]]:
    return [list(row.values()) for row in found]


def _prompt_lines(prompt: list[Row]) -> Iterator[str]:
    for message in prompt:
        yield from ("", f"{one_line(message['role'])}:")
        yield from map(clean, image_lines(message.get("images", ())))
        yield from _block(message["content"])


def _block(text: str) -> Iterator[str]:
    """Indented, cleaned, and cut where nobody reads on; `--json` has all of it."""
    found = clean(text).splitlines() or [""]
    yield from (f"  {line}" for line in found[:MAX_LINES])
    if len(found) > MAX_LINES:
        yield f"  ... {len(found) - MAX_LINES} more lines (assay show --json has them)"


def _prompt(catalog: Catalog, task_hash: str) -> list[Row]:
    found = rows(catalog, f"FROM tasks SELECT prompt_json WHERE task_hash = {literal(task_hash)} LIMIT 1")
    return [with_views(message) for message in json.loads(found[0]["prompt_json"])] if found else []


def _policy_name(catalog: Catalog, policy_id: str) -> str:
    found = rows(catalog, f"FROM policies SELECT name WHERE policy_id = {literal(policy_id)} LIMIT 1")
    return str(found[0]["name"]) if found else policy_id
