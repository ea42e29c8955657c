"""Services with a state of their own, acted on by calling tools; several turns; scored by what changed in the data.

    shop, rooms, files, bank      each a SQLite database in memory, 9 or 10 tools, and rules in the system prompt
    episode   completion -> calls -> results, faults now and then -> ... -> finish(answer) or refuse(reason, subject)
    verify    the difference between the first and the last state, the log of calls and the ending, compared with
              what was wanted

Levels: 1 a single effect or a single rule; 2 lookup and effect, a refusal, or one fault to recover from; 3 several
effects with conditions, a request that is granted in part, pages cut short. An effect nobody asked for, a broken rule
or a secret told make the reward 0, however much else was done.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, product, zip_longest
from typing import Any

from pydantic import Field

from assay.errors import EnvironmentAuthorError
from assay.ids import canonical_json, content_hash
from assay.records import Cause, Message, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments.base import Card, Domain, Episode, Outcome, ResourceProfile, Solutions
from environments.domains import (
    _tool_use_bank,
    _tool_use_bank_tasks,
    _tool_use_files,
    _tool_use_files_tasks,
    _tool_use_rooms,
    _tool_use_rooms_tasks,
    _tool_use_scoring,
    _tool_use_scripts,
    _tool_use_shop,
    _tool_use_shop_tasks,
)
from environments.domains._common import side, task_id, task_rng
from environments.domains._tool_use_draw import Draw, Plan, Scenario, Step, finish, step
from environments.domains._tool_use_episode import AtDesk
from environments.domains._tool_use_service import TODAY, Limits, Service, replay
from environments.domains._tool_use_state import Diff, diff
from environments.sandboxes.base import Backend

SERVICES: Mapping[str, Service] = {
    each.id: each
    for each in (_tool_use_shop.SERVICE, _tool_use_rooms.SERVICE, _tool_use_files.SERVICE, _tool_use_bank.SERVICE)
}
_BY_SERVICE = (
    _tool_use_shop_tasks.SCENARIOS,
    _tool_use_rooms_tasks.SCENARIOS,
    _tool_use_files_tasks.SCENARIOS,
    _tool_use_bank_tasks.SCENARIOS,
)
# The services take turns.
SCENARIOS: tuple[Scenario, ...] = tuple(each for each in chain(*zip_longest(*_BY_SERVICE)) if each is not None)
_HIDDEN_KEYS = ("world", "limits", "faults", "wanted", "ending", "facts", "secrets", "oracle", "num_reference_turns")
_HOW = """How to work:
- Call tools; amounts in tools are in cents (12.50 dollars are 1250).
- Every effect takes a `key` that you choose. After an error or a time-out the same call with the same key is safe: it \
is never done twice.
- Lists come in pages; as long as `next_cursor` is not null there is more.
- What was changed meanwhile is refused as stale: read it again, then decide.
- Do what is asked and nothing beyond it. Where the rules forbid all of it or a part, do the part that is allowed, \
then end with refuse. Otherwise end with finish."""


class ToolUse(Domain):
    """Act on a service within its rules; scored by the wanted changes of its state and the wanted answer."""

    id: str = "tool_use"
    version: str = "1"

    class Config(PluginConfig):
        services: tuple[str, ...] = Field(tuple(SERVICES), min_length=1, description="Services that tasks take in turn")
        levels: tuple[int, ...] = Field((1, 2, 3), min_length=1, description="Levels (1, 2 or 3) of the requests")
        max_new_tokens: int = Field(256, ge=32, le=4096)

    def __init__(self, config: Config) -> None:
        self.config = config
        if unknown := set(config.services) - set(SERVICES):
            raise EnvironmentAuthorError(f"tool_use: no services {sorted(unknown)}; use some of {', '.join(SERVICES)}.")
        self._scenarios = [s for s in SCENARIOS if s.service in config.services and s.level in config.levels]
        if not self._scenarios:
            raise EnvironmentAuthorError(f"tool_use: no requests of levels {config.levels}; use 1, 2 or 3.")

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        scenario = self._scenarios[index % len(self._scenarios)]
        return self._written(task_id(self.id, split, index), scenario, split, index, seed)

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """Nothing is wanted; an effect is wanted that the rules forbid; the prompt holds the calls to make."""
        part = next(each for each in SCENARIOS if each.id == "credit_and_phone")
        easy = next(each for each in SCENARIOS if each.id == "cancel_one")
        names = [task_id(self.id, "defect", number) for number in range(3)]
        idle = self._written(names[0], easy, "train", -1, seed, hidden={"wanted": {}})
        forbidden = self._written(names[1], part, "train", -2, seed)
        someone = forbidden.hidden["ending"]["arguments"]["subject"]
        breach = [step("give_credit", customer_id=someone, key="k", amount_cents=100_000), finish()]
        leaking = self._written(names[2], easy, "train", -3, seed)
        said = " ".join(canonical_json(each) for each in leaking.hidden["oracle"])
        return [
            idle,
            self._again(forbidden, hidden={"wanted": _wanted(SERVICES["shop"], forbidden.hidden, breach)}),
            self._again(leaking, more=f"For example: {said}"),
        ]

    def card(self) -> Card:
        return Card(
            summary="Requests to a shop, a calendar, a file store and a bank, served by calling tools within rules",
            value="Finds what a request is about, changes just that, keeps to the rules and recovers from failures",
            kind="tools",
            source=Source(name="assay", licence="Apache-2.0", version=self.version),
            levels=tuple(sorted({each.level for each in self._scenarios})),
            profile=ResourceProfile(memory_bytes=16 << 20, expected_s=0.02, context_tokens=8192),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        if lacking := [name for name in ("oracle", "wrong") if name not in task.hidden]:
            raise EnvironmentAuthorError(f"{task.id}: hidden lacks {', '.join(lacking)}; add the reference calls.")
        return _tool_use_scripts.solutions(task.hidden, SERVICES[task.public["service"]])

    def check(self, task: TaskSpec) -> list[str]:
        if lacking := _lacking(task):
            return [f"the task lacks {', '.join(lacking)}"]
        hidden, service = task.hidden, SERVICES[task.public["service"]]
        asked = "\n".join(message.content for message in task.prompt)
        found = [
            f"the prompt holds the call of {each['name']}"
            for each in hidden["oracle"]
            if canonical_json(each) in asked or canonical_json(each["arguments"]) in asked
        ]
        if not hidden["wanted"] and not hidden["facts"] and hidden["ending"]["name"] == "finish":
            found.append("nothing is wanted: doing nothing would pass")
        empty: dict[str, Any] = {table: {} for table in hidden["wanted"]}
        found += service.broken_rules({**empty, **hidden["world"]}, dict(hidden["wanted"]), hidden["limits"])
        if tuple(task.tools) != service.tools:
            found.append(f"the tools are not those of {service.id!r}")
        return found

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        if lacking := _lacking(task):
            raise EnvironmentAuthorError(f"{task.id}: the task lacks {', '.join(lacking)}")
        return AtDesk(task, SERVICES[task.public["service"]])

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        if lacking := _lacking(task):
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: the task lacks {', '.join(lacking)}")
        return _tool_use_scoring.grade(task, SERVICES[task.public["service"]], outcome)

    def _written(
        self,
        name: str,
        scenario: Scenario,
        split: Split,
        index: int,
        seed: int,
        *,
        hidden: Mapping[str, Any] | None = None,
    ) -> TaskSpec:
        rng, service = task_rng(self.id, split, index, seed), SERVICES[scenario.service]
        instances = list(product(range(len(scenario.phrasings)), range(len(service.limits))))
        phrasing, rules = rng.choice(side(instances, split, f"tool_use/{scenario.id}"))
        draw = Draw(rng, split, service.limits[rules])
        plan: Plan = scenario.write(draw)
        return self._task(
            name,
            split,
            scenario.level,
            f"{service.id}/{scenario.id}/{phrasing}-{rules}",
            _prompt(service, draw.limits, scenario.phrasings[phrasing].format(**plan.said)),
            service,
            {**_hidden(service, draw, plan), **(hidden or {})},
        )

    def _again(self, task: TaskSpec, *, hidden: Mapping[str, Any] | None = None, more: str = "") -> TaskSpec:
        """The task with another hidden part, or with more in its prompt."""
        first, last = task.prompt
        prompt = (first, Message(role=last.role, content=f"{last.content} {more}".strip()))
        service = SERVICES[task.public["service"]]
        return self._task(
            task.id, task.split, task.level, task.template, prompt, service, {**task.hidden, **(hidden or {})}
        )

    def _task(
        self,
        name: str,
        split: Split,
        level: int,
        template: str,
        prompt: tuple[Message, ...],
        service: Service,
        hidden: Mapping[str, Any],
    ) -> TaskSpec:
        after = {table: {key: each["after"] for key, each in rows.items()} for table, rows in hidden["wanted"].items()}
        longest = max(map(len, (hidden["oracle"], *hidden["wrong"])))
        return TaskSpec(
            id=name,
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=level,
            template=template,
            answer_digest=content_hash([after, hidden["ending"]]),
            prompt=prompt,
            public={"service": service.id},
            hidden=hidden,
            max_turns=longest + _tool_use_scripts.SPARE_TURNS,
            max_new_tokens=self.config.max_new_tokens,
            tools=service.tools,
        )


def _prompt(service: Service, limits: Limits, request: str) -> tuple[Message, ...]:
    rules = "\n".join(f"- {rule}" for rule in service.rules).format(**limits)
    system = f"{service.about}. Today is {TODAY}, a Wednesday.\nRules:\n{rules}\n{_HOW}"
    return (Message(role="system", content=system), Message(role="user", content=request))


def _hidden(service: Service, draw: Draw, plan: Plan) -> dict[str, Any]:
    """All that decides the score, and the scripts. What is wanted is what the reference steps change."""
    steps = _tool_use_scripts.with_keys(service, plan.steps)
    hidden = {
        "world": draw.world,
        "limits": dict(draw.limits),
        "faults": [dict(each) for each in plan.faults],
        "ending": steps[-1],
        "facts": [dict(each) for each in plan.facts],
        "secrets": list(plan.secrets),
        "oracle": steps,
        "wrong": [_tool_use_scripts.with_keys(service, each) for each in plan.wrong],
        "independent": plan.independent,
        "num_reference_turns": len(steps),
    }
    return {**hidden, "wanted": _wanted(service, hidden, steps)}


def _wanted(service: Service, hidden: Mapping[str, Any], steps: Sequence[Step]) -> Diff:
    """What these steps change, faults included; the last one is the ending."""
    calls = [(each["name"], each["arguments"]) for each in steps[:-1]]
    desk = replay(service, hidden["world"], hidden["faults"], calls)
    before = replay(service, hidden["world"], (), ())
    try:
        return diff(before.dump(), desk.dump())
    finally:
        desk.close()
        before.close()


def _lacking(task: TaskSpec) -> list[str]:
    """Parts without which the task can neither be acted on nor scored."""
    lacking = [f"hidden {name!r}" for name in _HIDDEN_KEYS if name not in task.hidden]
    return lacking if task.public.get("service") in SERVICES else [*lacking, "a known service"]
