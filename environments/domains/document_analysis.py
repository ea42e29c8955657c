"""Long reports with tables, footnotes, restated figures and distractors: JSON extraction and questions, with evidence.

    level 1   a short report in the prompt                one turn
    level 2   longer, other companies, units, plans       one turn
    level 3   the report behind tools, figures spread     several turns: search, read_section, read_page, submit

An answer is `{"values": ..., "evidence": ...}`. Values are compared field by field with units, dates, sets and lists
understood; an omission loses its share and a wrong value costs more (see `_document_metrics`). It passes when every
value is right, what is absent is null, and every citation is a true place. Nothing runs, so no sandbox is needed.
"""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from assay.errors import EnvironmentAuthorError
from assay.ids import content_hash
from assay.records import Cause, Message, RewardTerm, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments.base import Card, Domain, Episode, Outcome, ResourceProfile, Script, Solutions
from environments.domains import _document_answers as answers
from environments.domains import _document_task as making
from environments.domains._common import parse_object, task_id, task_rng
from environments.domains._document_formats import FORMATS, Document, Format
from environments.domains._document_library import SEARCH, SECTION, SUBMIT, Reading, tools_for
from environments.domains._document_metrics import Graded, fault, grade
from environments.domains._document_questions import KINDS, ask
from environments.one_turn import OneTurn
from environments.rubric import Rubric
from environments.sandboxes.base import Backend
from environments.tools import say_call

# In this order the weights sum to exactly 1.
RUBRIC = Rubric(outcome={"evidence": 0.15, "restraint": 0.15, "fields": 0.7}, process={"valid_actions": 1.0})
_HIDDEN = ("recipe", "digest", "spec", "expected", "places")
_SYSTEM = "You read company reports and answer with JSON that holds only what the report says."
Tokens = Annotated[int, Field(ge=1_000, le=1_000_000)]


class DocumentAnalysis(Domain):
    """Find figures in a report and answer with them and the places where they stand."""

    id: str = "document_analysis"
    version: str = "1"

    class Config(PluginConfig):
        levels: tuple[int, ...] = Field(
            (1, 2, 1, 3, 1), min_length=1, description="Levels (1, 2 or 3) that tasks take in turn"
        )
        target_tokens: tuple[Tokens, Tokens, Tokens] = Field(
            (1_000, 3_000, 6_000),
            description="Length of the report by level, at 4 characters a token; level 3 takes some 3,000 at least",
        )
        formats: tuple[Format, ...] = Field(FORMATS, min_length=1, description="text, markdown, html, pdf")
        kinds: tuple[str, ...] = Field(tuple(KINDS), min_length=1, description="Kinds of questions")
        max_turns: int = Field(16, ge=2, le=256, description="Turns where the report is behind tools")
        max_new_tokens: int = Field(1024, ge=64, le=8192)

    def __init__(self, config: Config) -> None:
        self.config = config
        if unknown := set(config.levels) - {1, 2, 3}:
            raise EnvironmentAuthorError(f"document_analysis: levels {sorted(unknown)} do not exist; use 1, 2 or 3.")
        if strange := set(config.kinds) - set(KINDS):
            raise EnvironmentAuthorError(
                f"document_analysis: kinds {sorted(strange)} do not exist; use some of {', '.join(KINDS)}."
            )

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        rng = task_rng(self.id, split, index, seed)
        level = self.config.levels[index % len(self.config.levels)]
        template = rng.choice(making.templates(level, self.config.kinds, self.config.formats, split))
        recipe = making.recipe(template, split, self.config.target_tokens[level - 1], rng.getrandbits(53))
        return self._task(task_id(self.id, split, index), template, recipe, {})

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """Gold as first reported instead of restated, gold without any value, and a task without gold."""
        rng = task_rng(self.id, "train", -1, seed)
        tasks = []
        for i in range(3):
            template = rng.choice(making.templates(1, ("profile", "growth"), ("text",), "train"))
            recipe = making.recipe(template, "train", 1_000, rng.getrandbits(53))
            made = making.build(recipe)
            first = ask(template.kind, made.company, made.company.first, made.picks).gold
            faults = ({"expected": first}, {"expected": _emptied(first), "places": {}}, dict.fromkeys(_HIDDEN[1:]))
            tasks.append(self._task(task_id(self.id, "defect", i), template, recipe, faults[i]))
        return tasks

    def card(self) -> Card:
        levels = tuple(sorted(set(self.config.levels)))
        longest = max(self.config.target_tokens[level - 1] for level in levels)
        return Card(
            summary="Company reports of 1k to 1M tokens: extraction to JSON and questions over distant sections",
            value="Reads long documents, keeps restated, foreign and absent figures apart, and cites its evidence",
            kind="tools" if max(levels) >= making.TOOLS_FROM_LEVEL else "extraction",
            source=Source(name="assay", licence="Apache-2.0", version=self.version),
            levels=levels,
            profile=ResourceProfile(
                memory_bytes=(256 << 20) + 60 * longest,
                expected_s=0.1 + longest / 80_000,
                context_tokens=self._context(),
            ),
        )

    def _context(self) -> int:
        """Roughly the longest context: the report in the prompt, or some twenty thousand tokens of what tools show."""
        in_prompt = [self.config.target_tokens[level - 1] for level in self.config.levels if level < 3]
        behind = [20_000] if max(self.config.levels) >= making.TOOLS_FROM_LEVEL else []
        return max([tokens + tokens // 2 + 1_000 for tokens in in_prompt] + behind)

    def solutions(self, task: TaskSpec) -> Solutions:
        if "recipe" not in task.hidden:
            raise EnvironmentAuthorError(f"{task.id}: hidden has no 'recipe' to make the reference answer from.")
        made, kind = making.build(task.hidden["recipe"]), task.hidden["recipe"]["kind"]
        question, places = made.question, made.places
        labels = _all_places(made.document)
        wrong = answers.wrong(kind, made.company, made.picks, places, labels)
        right = answers.right(question, places)
        return Solutions(
            oracle=(*_looking(task, places), *_script(task, right)),
            noop=_script(task, answers.nulls(question)),
            wrong=tuple(_script(task, answer) for answer in wrong),
            equivalent=tuple(_script(task, answer, fenced=True) for answer in answers.equivalent(question, places)),
            ladder=tuple(_script(task, answer) for answer in answers.ladder(question, places)),
        )

    def check(self, task: TaskSpec) -> list[str]:
        missing = [name for name in _HIDDEN if not isinstance(task.hidden.get(name), (Mapping, str))]
        if missing:
            return [f"hidden lacks {', '.join(missing)}"]
        made = making.build(task.hidden["recipe"])
        shown = "\n".join(message.content for message in task.prompt)
        found = making.problems(made, shown, task.hidden, behind_tools=bool(task.tools))
        if json.dumps(task.hidden["expected"]) in shown:
            found.append("the prompt contains the answer")
        return found

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        if not task.tools:
            return OneTurn(lambda completion: parse_object(completion) is not None)
        # A million tokens take seconds to make.
        return Reading(task, await asyncio.to_thread(making.library, task.hidden["recipe"]))

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        hidden = task.hidden
        if not all(isinstance(hidden.get(name), Mapping) for name in ("spec", "expected", "places")):
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: hidden lacks 'spec', 'expected' or 'places'")
        if what := fault(hidden["spec"], hidden["expected"], hidden["places"]):
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: {what}")
        answer = parse_object(outcome.submission)
        graded = grade(hidden["spec"], answer or {}, hidden["expected"], hidden["places"])
        return _verdict(graded, answer, outcome.metrics)

    def _task(
        self, name: str, template: making.Template, recipe: Mapping[str, Any], faults: Mapping[str, Any]
    ) -> TaskSpec:
        made = making.build(recipe)
        behind_tools = template.level >= making.TOOLS_FROM_LEVEL
        paged = made.document.num_pages > 0
        asked = making.instructions(made.question, paged=paged, behind_tools=behind_tools)
        gold = {"spec": made.question.spec, "expected": made.question.gold, "places": made.places}
        return TaskSpec(
            id=name,
            domain=self.id,
            environment_version=self.version,
            split=recipe["split"],
            level=template.level,
            template=template.name,
            answer_digest=content_hash(made.question.gold),
            prompt=(
                Message(role="system", content=_SYSTEM),
                Message(role="user", content=asked if behind_tools else f"{asked}\n\n{made.document.text()}"),
            ),
            public={"format": template.form, "kind": template.kind, "num_pages": made.document.num_pages},
            hidden={"recipe": dict(recipe), "digest": made.digest, **gold, **faults},
            max_turns=self.config.max_turns if behind_tools else 1,
            max_new_tokens=self.config.max_new_tokens,
            tools=tools_for(paged=paged) if behind_tools else (),
        )


def _verdict(graded: Graded, answer: Mapping[str, Any] | None, metrics: Mapping[str, float]) -> Verdict:
    """The rubric's verdict, with what is only counted as terms without weight."""
    right = [path for path, tally in graded.fields.items() if tally.right >= tally.due and not tally.wrong]
    hallucinated = [path for path, tally in graded.fields.items() if tally.wrong]
    valid_actions = float(metrics.get("valid_actions", 0.0))
    verdict = RUBRIC.score(
        {
            "fields": graded.field_score,
            "evidence": graded.evidence_score,
            "restraint": graded.restraint,
            "valid_actions": min(1.0, max(0.0, valid_actions)) if math.isfinite(valid_actions) else 0.0,
        },
        passed=answer is not None and graded.perfect,
        judged="out_of_process",
        gates={"parsed": answer is not None},
        notes={"fields": f"right: {', '.join(right)}", "restraint": f"wrong: {', '.join(hallucinated)}"},
    )
    counted = {"hallucination_rate": 1.0 - graded.restraint, "omission_rate": graded.omission_rate}
    extra = tuple(RewardTerm(name=name, value=value, weight=0.0) for name, value in (counted | _lists(graded)).items())
    return Verdict.of((*verdict.terms, *extra), passed=verdict.passed, judged=verdict.judged)


def _lists(graded: Graded) -> dict[str, float]:
    """Means of precision and recall over the fields that are due."""
    due = [tally for tally in graded.fields.values() if tally.due]
    if not due:
        return {}
    return {name: sum(getattr(tally, name) for tally in due) / len(due) for name in ("precision", "recall")}


def _script(task: TaskSpec, answer: Mapping[str, Any], *, fenced: bool = False) -> Script:
    if task.tools:
        return (say_call(SUBMIT.name, answer=answer),)
    text = json.dumps(answer)
    return (f"Here is what the report says:\n```json\n{text}\n```" if fenced else text,)


def _looking(task: TaskSpec, places: Mapping[str, Any]) -> Script:
    """The turns of an oracle that searches once and reads each section that it will cite."""
    if not task.tools:
        return ()
    sections = dict.fromkeys(place["section"] for known in answers.evidence(places).values() for place in known)
    most = max(0, task.max_turns - 2)
    read = [say_call(SECTION.name, section=section) for section in sections][:most]
    return (say_call(SEARCH.name, query="annual report number restated"), *read)[: task.max_turns - 1]


def _all_places(document: Document) -> list[dict[str, Any]]:
    """A place in every section, for citing."""
    return [
        {"section": part.label, "title": part.title} | ({"page": _page(part.text)} if document.num_pages else {})
        for part in document.parts
    ]


def _page(text: str) -> int:
    """The page on which a section starts."""
    return int(text.removeprefix("[page ").partition("]")[0])


def _emptied(gold: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _emptied(value) if isinstance(value, Mapping) else None for name, value in gold.items()}
