"""Known-right and known-wrong scripts of a `tool_use` task, made from its reference steps.

Right in another way: more lookups, all calls in one completion, other keys and words, effects in another order, calls
in another form. Wrong: the ending alone, no ending, the opposite ending, an effect twice, an effect left out, and what
the scenario itself knows.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from assay.ids import canonical_json, content_hash
from environments.base import Script, Solutions
from environments.domains._tool_use_draw import Step, finish, refuse, step
from environments.domains._tool_use_service import ENDINGS, Service
from environments.tools import MAX_CALLS, say_call

NOOP: Script = (say_call("finish", answer="Done."),)
SPARE_TURNS = 6


def with_keys(service: Service, steps: Sequence[Step]) -> list[Step]:
    """The steps with keys on their effects: equal calls get equal keys."""
    return [_with_key(service, each) for each in steps]


def spoken(steps: Sequence[Step]) -> Script:
    """One call per completion."""
    return tuple(say_call(each["name"], **each["arguments"]) for each in steps)


def solutions(hidden: Mapping[str, Any], service: Service) -> Solutions:
    """Oracle, no-op, wrong, equivalent and ladder of a task with this hidden part."""
    steps = hidden["oracle"]
    wrong = [*_wrong(steps, service), *hidden["wrong"]]
    return Solutions(
        oracle=spoken(steps),
        noop=NOOP,
        wrong=tuple(spoken(each) for each in wrong),
        equivalent=tuple(_equivalent(steps, service, independent=hidden["independent"])),
        ladder=(_looking_more(steps, service), *(spoken(steps[:num]) for num in range(len(steps) - 1, 0, -1))),
    )


def _with_key(service: Service, call: Step) -> Step:
    given = call["arguments"]
    if call["name"] in ENDINGS or not service.operation(call["name"]).effect or "key" in given:
        return call
    return step(call["name"], **given, key=f"{call['name']}-{content_hash(given, length=6)}")


def _effects(steps: Sequence[Step], service: Service) -> list[Step]:
    return [each for each in steps[:-1] if service.operation(each["name"]).effect]


def _wrong(steps: Sequence[Step], service: Service) -> list[list[Step]]:
    *calls, ending = steps
    effects = _effects(steps, service)
    found = [list(calls), [*calls, _opposite(ending, calls, service)]]
    if effects:
        found.append([ending])
    if len({canonical_json(each) for each in effects}) > 1:
        found.append([each for each in steps if each != effects[-1]])
    if again := [each for each in effects if service.operation(each["name"]).repeatable]:
        last = {**again[-1]["arguments"], "key": "once more"}
        found.append([*calls, step(again[-1]["name"], **last), ending])
    return found


def _opposite(ending: Step, calls: Sequence[Step], service: Service) -> Step:
    """Finishing where a refusal is right; refusing, with an id from the task, where the request can be done."""
    if ending["name"] == "refuse":
        return finish("Done.")
    ids = [value for each in calls for name, value in each["arguments"].items() if name.endswith("_id")]
    return refuse(service.reasons[0], ids[0])


def _equivalent(steps: Sequence[Step], service: Service, *, independent: bool) -> list[Script]:
    *calls, ending = steps
    found = [
        _looking_more(steps, service),
        _together(steps),
        spoken([*(_other_key(each) for each in calls), _other_words(ending)]),
        tuple(f"Next.\n```json\n{json.dumps(each, indent=1)}\n```" for each in steps),
    ]
    if independent:
        effects = _effects(steps, service)
        others = [each for each in calls if each not in effects]
        found.append(spoken([*others, *reversed(effects), ending]))
    return found


def _looking_more(steps: Sequence[Step], service: Service) -> Script:
    """More lookups before the end; by then every fault has struck."""
    looked = [each for each in steps[:-1] if not service.operation(each["name"]).effect][:2]
    first = service.operations[0].tool
    more = looked or [step(first.name, **dict.fromkeys(first.parameters["required"], "a"))]
    return spoken([*steps[:-1], *more, steps[-1]])


def _together(steps: Sequence[Step]) -> Script:
    said = spoken(steps)
    return tuple("\n".join(said[start : start + MAX_CALLS]) for start in range(0, len(said), MAX_CALLS))


def _other_key(call: Step) -> Step:
    given = call["arguments"]
    return step(call["name"], **{**given, "key": f"my {given['key']}"}) if "key" in given else call


def _other_words(ending: Step) -> Step:
    if ending["name"] == "refuse":
        return ending
    return finish(f"As you asked, it is done. The result is: {ending['arguments']['answer'].removesuffix('.')}.")
