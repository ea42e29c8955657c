"""Sentences and short forms to JSON records of four fields; one turn; scored field by field.

The comparison needs no sandbox: a completion is data, parsed here and compared with the hidden record. What counts
as equal: text after Unicode compatibility normalisation, whatever its case and spacing; numbers by value, also
written as text (`1250`, `1250.0`, `"1,250"`). The first JSON object of the completion counts, fenced or amid prose.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from pydantic import Field

from assay.errors import EnvironmentAuthorError
from assay.ids import content_hash
from assay.records import Cause, Message, RewardTerm, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments.base import Card, Domain, Episode, Outcome, ResourceProfile, Solutions
from environments.domains import _record_extraction_text as text
from environments.domains._common import parse_object, plain, task_id, task_rng
from environments.one_turn import OneTurn
from environments.sandboxes.base import Backend

_NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d{1,30})(\.\d{1,30})?")


class RecordExtraction(Domain):
    """Read a text, answer with `{"field": value, ...}`: 0.1 for the right keys, 0.9 times the share of right values."""

    id: str = "record_extraction"
    version: str = "1"

    class Config(PluginConfig):
        levels: tuple[int, ...] = Field(
            (1, 2, 1, 3, 1), min_length=1, description="Levels (1, 2 or 3) that tasks take in turn"
        )
        max_new_tokens: int = Field(48, ge=8, le=1024)

    def __init__(self, config: Config) -> None:
        self.config = config
        if unknown := set(config.levels) - {1, 2, 3}:
            raise EnvironmentAuthorError(f"record_extraction: levels {sorted(unknown)} do not exist; use 1, 2 or 3.")

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        rng = task_rng(self.id, split, index, seed)
        layout = rng.choice(text.layouts(self.config.levels[index % len(self.config.levels)], split))
        answer = text.draw_record(text.KINDS[layout.kind], layout.level, split, rng)
        document = text.write_document(layout, answer, split, rng)
        return self._task(task_id(self.id, split, index), split, layout, document, answer, {"expected": answer})

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """A gold value taken from the wrong sentence, a blank gold record, and a task without a gold record."""
        rng = task_rng(self.id, "train", -1, seed)
        layout = text.Layout(kind="order", level=1, parts=(0, 1))
        answer = text.draw_record(text.KINDS["order"], 1, "train", rng)
        document = text.write_document(layout, answer, "train", rng)
        other = rng.choice([city for city in text.pool("city", "train") if city != answer["city"]])
        hidden: tuple[tuple[str, dict[str, Any]], ...] = (
            (f"{document} It replaces the order from {other}.", {"expected": {**answer, "city": other}}),
            (document, {"expected": dict.fromkeys(answer, "")}),
            (document, {}),
        )
        return [
            self._task(task_id(self.id, "defect", i), "train", layout, said, answer, gold)
            for i, (said, gold) in enumerate(hidden)
        ]

    def card(self) -> Card:
        return Card(
            summary="Sentences and short forms, read into JSON records of four fields",
            value="Reads what a short text says into the fields it is asked for",
            kind="extraction",
            source=Source(name="assay", licence="Apache-2.0", version=self.version),
            levels=tuple(sorted(set(self.config.levels))),
            profile=ResourceProfile(expected_s=0.001, context_tokens=512),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        if "record" not in task.hidden:
            raise EnvironmentAuthorError(f"{task.id}: hidden has no 'record' to demonstrate; add the reference answer.")
        answer: dict[str, Any] = dict(task.hidden["record"])
        oracle = json.dumps(answer)
        return Solutions.of_answers(
            oracle=oracle,
            noop=json.dumps(dict.fromkeys(answer, "")),
            wrong=_wrong_answers(task, answer),
            equivalent=(
                json.dumps(dict(reversed(answer.items()))),
                json.dumps(answer, indent=2),
                f"Here is the record:\n```json\n{oracle}\n```",
                json.dumps({k: f"  {v} ".upper() if isinstance(v, str) else float(v) for k, v in answer.items()}),
                json.dumps({k: v if isinstance(v, str) else f"{v:,}" for k, v in answer.items()}),
            ),
        )

    def check(self, task: TaskSpec) -> list[str]:
        missing = [name for name in ("expected", "record") if name not in task.hidden]
        if missing or "fields" not in task.public:
            return [f"hidden lacks {', '.join(missing)}" if missing else "public lacks 'fields'"]
        problems = []
        if set(task.hidden["expected"]) != set(task.public["fields"]):
            problems.append(f"gold has keys {sorted(task.hidden['expected'])}, asked {sorted(task.public['fields'])}")
        shown = task.prompt[-1].content
        for name, value in task.hidden["expected"].items():
            if str(value) not in shown.replace(",", "") and str(value) not in shown:
                problems.append(f"the gold value of {name!r} does not occur in the text: {value!r}")
        if json.dumps(task.hidden["record"]) in "\n".join(m.content for m in task.prompt):
            problems.append("the prompt contains the answer")
        return problems

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        return OneTurn(lambda completion: parse_object(completion) is not None)

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        expected = task.hidden.get("expected")
        if not isinstance(expected, Mapping) or not expected:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: hidden has no 'expected' record to compare with")
        found = parse_object(outcome.submission)
        right_keys = found is not None and set(found) == set(expected)
        right = [name for name in expected if found is not None and same_value(found.get(name), expected[name])]
        terms = (
            RewardTerm(name="keys", value=float(right_keys), weight=0.1),
            RewardTerm(name="fields", value=len(right) / len(expected), weight=0.9, note=f"right: {', '.join(right)}"),
        )
        return Verdict.of(terms, passed=right_keys and len(right) == len(expected), judged="out_of_process")

    def _task(
        self, name: str, split: Split, layout: text.Layout, document: str, answer: Mapping[str, Any], gold: dict
    ) -> TaskSpec:
        kind = text.KINDS[layout.kind]
        fields = {f: "number" if source == "number" else "text" for f, source in kind.fields.items()}
        return TaskSpec(
            id=name,
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=layout.level,
            template=layout.name,
            answer_digest=content_hash(dict(answer)),
            prompt=_prompt(kind, document),
            public={"fields": fields, "document": document},
            hidden={"record": dict(answer), **gold},
            max_turns=1,
            max_new_tokens=self.config.max_new_tokens,
        )


def same_value(found: Any, expected: Any) -> bool:
    """Equality of one field, as the module's docstring defines it.

    >>> same_value("1,250", 1250), same_value(" oslo", "Oslo"), same_value(True, 1)
    (True, True, False)
    """
    if isinstance(expected, str):
        return isinstance(found, str) and plain(found) == plain(expected)
    return _number(found) == Decimal(expected)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        return None
    if isinstance(value, str):
        return Decimal(value.strip().replace(",", "")) if _NUMBER.fullmatch(value.strip()) else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        return Decimal(value)
    except InvalidOperation:
        return None


def _prompt(kind: text.Kind, document: str) -> tuple[Message, ...]:
    """One worked example as an exchange of its own, then the text to read."""
    said, answer = kind.example
    return (
        Message(role="system", content="Extract the record as JSON."),
        Message(role="user", content=said),
        Message(role="assistant", content=json.dumps(answer)),
        Message(role="user", content=document),
    )


def _wrong_answers(task: TaskSpec, answer: dict[str, Any]) -> tuple[str, ...]:
    """Mistakes a policy makes: a near value, fields exchanged or missing, everything at once, the worked example."""
    numbers = [name for name, value in answer.items() if not isinstance(value, str)]
    texts = [name for name in answer if name not in numbers]
    first, second = texts[:2]
    kind = text.KINDS[task.template.split("/")[0]]
    wrong = (
        {**answer, numbers[0]: answer[numbers[0]] + 1},
        {**answer, numbers[0]: answer[numbers[0]] * 1000},
        {**answer, first: answer[second], second: answer[first]},
        {name: value for name, value in answer.items() if name != first},
        {**answer, "note": "extra"},
        {**answer, first: f"{answer[first]} or {answer[second]}"},
        {**answer, first: None},
        dict.fromkeys(answer, task.public["document"]),
        dict(kind.example[1]),
        list(answer.values()),
    )
    return tuple(map(json.dumps, wrong))
