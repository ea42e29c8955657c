"""`assay try`: be the agent on one task, or watch a policy be it.

By hand: exactly what the model sees (messages, tools), then a completion from the keyboard and the environment's reply,
turn by turn, and the verdict with its terms. Where a task has a shell, a line is a command.
"""

import asyncio
import re
import sys
from collections.abc import Iterator

from assay.errors import ConfigurationError, SandboxUnavailable
from assay.records import Message, Split, TaskSpec, Verdict
from assay.registry import build_plugin
from console.inspection import chosen_domain
from console.output import clean, one_line, put, put_json, say, table
from console.runs import Row
from environments.base import Domain, Episode, Outcome
from environments.sandboxes.base import Backend
from environments.tools import say_call
from environments.workbench import FINISH, RUN
from rollouts.verify import judge

JUDGE_S = 120.0
SPLITS: tuple[Split, ...] = ("train", "heldout")
_TASK = re.compile(r"(?P<domain>.+?)/(?:(?P<split>train|heldout)/)?(?P<index>\d+)")
END = "."


def find_task(wanted: str, seed: int) -> tuple[Domain, TaskSpec]:
    """`DOMAIN/train/3`, `DOMAIN/3` for training tasks, or `DOMAIN/NAME` where tasks have names; a folder of task
    directories may stand for the domain. Raises ConfigurationError for anything else."""
    if found := _TASK.fullmatch(wanted):
        domain = chosen_domain(found["domain"])[1]
        split: Split = "heldout" if found["split"] == "heldout" else "train"
        return domain, _task_at(domain, split, int(found["index"]), seed)
    place, _, name = wanted.rpartition("/")
    if not place:
        raise _no_task(wanted)
    domain = chosen_domain(place)[1]
    if task := next((task for task in _named(domain, seed) if task.id == f"{domain.id}/{name}"), None):
        return domain, task
    raise _no_task(wanted)


def _task_at(domain: Domain, split: Split, index: int, seed: int) -> TaskSpec:
    try:
        return domain.make_task(split, index, seed)
    except IndexError as error:
        there = domain.num_tasks(split)
        raise ConfigurationError(f"{domain.id} has {there} tasks in {split}; {index} is beyond.") from error


def _named(domain: Domain, seed: int) -> Iterator[TaskSpec]:
    """The tasks of a finite set."""
    for split in SPLITS:
        for index in range(domain.num_tasks(split) or 0):
            yield domain.make_task(split, index, seed)


def _no_task(wanted: str) -> ConfigurationError:
    return ConfigurationError(
        f"{wanted!r} names no task; write DOMAIN/INDEX, DOMAIN/train/INDEX, DOMAIN/heldout/INDEX or DOMAIN/NAME, for "
        "example record_extraction/train/3. `assay domains` lists the domains."
    )


def by_hand(wanted: str, *, seed: int, sandbox: str, as_json: bool) -> int:
    """Play one episode from the keyboard or a pipe; the exit code is 0 when it passed, 1 otherwise."""
    domain, task = find_task(wanted, seed)
    backend: Backend = build_plugin("sandbox", sandbox)
    try:
        verdict = asyncio.run(_play(domain, task, backend))
    finally:
        backend.close()
    if as_json:
        put_json(_as_json(task, verdict))
    else:
        put("\n".join(told(verdict)))
    return 0 if verdict.passed else 1


async def _play(domain: Domain, task: TaskSpec, backend: Backend) -> Verdict:
    report = await backend.probe()
    if not report.works:
        raise SandboxUnavailable(f"The sandbox {report.backend} does not work here: {report.detail}")
    for line in seen(task):
        say(line)
    episode = await domain.open(task, backend)
    try:
        outcome = await _converse(task, episode)
    finally:
        await episode.close()
    return await judge(domain, task, outcome, backend, timeout_s=JUDGE_S)


async def _converse(task: TaskSpec, episode: Episode) -> Outcome:
    completions = _completions(task)
    for turn in range(task.max_turns):
        say(f"--- turn {turn + 1} of {task.max_turns}: {_how(task)}")
        completion = await asyncio.to_thread(next, completions, None)
        if completion is None:
            break
        reply = await episode.reply(completion)
        if reply.observation:
            say(clean(reply.observation))
        if not reply.valid_action:
            say("[not understood as an action]")
        for image in reply.images:
            say(f"[{image.media_type}, {len(image.data):,} bytes, sha256 {image.digest[:12]}]")
        if reply.done:
            break
    return await episode.outcome()


def _how(task: TaskSpec) -> str:
    if _has(task, RUN.name):
        return f"a command; `finish` or `finish ANSWER` ends; a tool call as the model writes it, up to a line `{END}`"
    return f"the answer as the model would write it, up to a line `{END}`"


def _completions(task: TaskSpec) -> Iterator[str]:
    """What is typed, one completion after the other."""
    shell = _has(task, RUN.name)
    lines = iter(sys.stdin.readline, "")
    for line in lines:
        text = line.rstrip("\n")
        if shell and text.strip() and not text.startswith(("<", "{", "`")):
            yield _shell(text)
            continue
        block = [] if text == END else [text]
        while text != END:
            text = next(lines, END).rstrip("\n")
            block += [] if text == END else [text]
        yield "\n".join(block)


def _shell(line: str) -> str:
    word, _, rest = line.strip().partition(" ")
    if word == FINISH.name:
        return say_call(FINISH.name, **({"answer": rest} if rest else {}))
    return say_call(RUN.name, command=line)


def _has(task: TaskSpec, name: str) -> bool:
    return any(tool.name == name for tool in task.tools)


def seen(task: TaskSpec) -> list[str]:
    """The task as the policy gets it."""
    lines = [f"{task.id}  level {task.level}, {task.max_turns} turns, {task.max_new_tokens} new tokens each"]
    for message in task.prompt:
        lines += [f"--- {message.role}", *_pictures(message), clean(message.content)]
    if task.tools:
        lines.append("--- tools")
        lines += [
            f"{tool.name}({', '.join(tool.parameters.get('properties', ()))}): {tool.description}"
            for tool in task.tools
        ]
    return lines


def _pictures(message: Message) -> list[str]:
    return [f"[{i.media_type}, {len(i.data):,} bytes, sha256 {i.digest[:12]}]" for i in message.images]


def told(verdict: Verdict) -> list[str]:
    """The verdict in words, with its terms."""
    if verdict.failure:
        return [f"invalid ({verdict.failure.cause}): {one_line(verdict.failure.detail)}"]
    rows = [[t.name, f"{t.value:.2f}", f"{t.weight:.2f}", one_line(t.note, 80)] for t in verdict.terms]
    standing = "passed" if verdict.passed else "not passed"
    return [
        f"{standing}, reward {verdict.reward:.2f}, judged {verdict.judged}",
        table(["term", "value", "weight", ""], rows),
    ]


def _as_json(task: TaskSpec, verdict: Verdict) -> Row:
    terms = [{"name": t.name, "value": t.value, "weight": t.weight, "note": t.note} for t in verdict.terms]
    failure = {"cause": verdict.failure.cause, "detail": verdict.failure.detail} if verdict.failure else None
    return {
        "task_id": task.id,
        "passed": verdict.passed,
        "reward": verdict.reward,
        "judged": verdict.judged,
        "terms": terms,
        "invalid": failure,
    }
