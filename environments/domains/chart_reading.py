"""Charts to read: one drawn chart, one question, one turn; scored by how far off the answer is.

    chart (a PNG in the prompt) + question ─► {"answer": 47.5} or a line "Answer: 47.5 GWh" ─► compared with the data

Numbers pass within a tolerance that follows from the axis (a fifth of a tick, more where two readings are combined),
counts and labels when they are right. Short of that, half the reward falls to nothing at five tolerances. Judging needs
no sandbox; drawing needs the extra `charts`.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from assay.errors import EnvironmentAuthorError
from assay.ids import content_hash
from assay.records import Cause, Image, Message, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments.base import Card, Domain, Episode, Outcome, ResourceProfile, Solutions
from environments.domains._chart_reading_answer import credit, is_right, read_answer
from environments.domains._chart_reading_ask import ASKERS, Question, ask, questions_of, told
from environments.domains._chart_reading_data import Chart, Ordered, draw_chart, themes
from environments.domains._chart_reading_draw import png, require_matplotlib
from environments.domains._common import task_id, task_rng
from environments.one_turn import OneTurn
from environments.rubric import score
from environments.sandboxes.base import Backend

NOOP = '{"answer": 0}'
_MOST_DRAWS = 2000
_HOW = (
    'Read the chart and answer with JSON: {"answer": ...}. Give a number for how much or how many, and a label as it '
    "is printed in the chart for which."
)


class ChartReading(Domain):
    """Full reward within the tolerance, at most half of it beyond."""

    id: str = "chart_reading"
    version: str = "1"

    class Config(PluginConfig):
        levels: tuple[int, ...] = Field(
            (1, 2, 1, 3, 2), min_length=1, description="Levels (1, 2 or 3) that tasks take in turn"
        )
        max_new_tokens: int = Field(48, ge=8, le=4096)

    def __init__(self, config: Config) -> None:
        self.config = config
        if unknown := set(config.levels) - {1, 2, 3}:
            raise EnvironmentAuthorError(f"chart_reading: levels {sorted(unknown)} do not exist; use 1, 2 or 3.")

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        """Raises ConfigurationError when matplotlib is missing."""
        require_matplotlib()
        level = self.config.levels[index % len(self.config.levels)]
        kinds = questions_of(level)
        name = kinds[index // len(self.config.levels) % len(kinds)]
        chart, question = _asked(name, level, split, task_rng(self.id, split, index, seed))
        return self._task(task_id(self.id, split, index), split, level, chart, question)

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """A gold answer of another series, a tolerance that lets anything pass, a lost chart, a question that gives its
        answer away, and a task without a gold answer."""
        chart, question = _asked("value", 2, "train", task_rng(self.id, "train", -1, seed))
        tasks = [self._task(task_id(self.id, "defect", i), "train", 2, chart, question) for i in range(5)]
        other = next(w for w in question.wrong if isinstance(w, float))
        said = f"{question.text} (It is {question.answer:g}.)"
        return [
            replace(tasks[0], hidden={**tasks[0].hidden, "expected": other}),
            replace(tasks[1], hidden={**tasks[1].hidden, "tolerance": 10.0 * float(question.answer)}),
            replace(tasks[2], prompt=tuple(replace(message, images=()) for message in tasks[2].prompt)),
            replace(tasks[3], prompt=(*tasks[3].prompt[:-1], replace(tasks[3].prompt[-1], content=said))),
            replace(tasks[4], hidden={k: v for k, v in tasks[4].hidden.items() if k != "expected"}),
        ]

    def card(self) -> Card:
        return Card(
            summary="Bar, line, area, pie and scatter charts and histograms, with a question on each",
            value="Reads values, differences, ratios, counts, extremes and trends off a chart",
            kind="answer",
            source=Source(name="assay", licence="Apache-2.0", version=self.version),
            levels=tuple(sorted(set(self.config.levels))),
            images=True,
            profile=ResourceProfile(expected_s=0.001, context_tokens=1536),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        """The ladder: right, just beyond the tolerance, further off, nothing."""
        if "reference" not in task.hidden:
            raise EnvironmentAuthorError(f"{task.id}: hidden has no 'reference' to demonstrate; add the right answer.")
        answer, tolerance, unit = task.hidden["reference"], task.hidden["tolerance"], task.hidden["unit"]
        ladder = [answer + by * tolerance for by in (1.5, 3.0, 4.5)] if tolerance else []
        return Solutions(
            oracle=(_said(answer),),
            noop=(NOOP,),
            wrong=tuple((text,) for text in _wrong(task)),
            equivalent=tuple((text,) for text in _equivalent(answer, tolerance, unit)),
            ladder=tuple((_said(value),) for value in ladder),
        )

    def check(self, task: TaskSpec) -> list[str]:
        missing = [name for name in ("expected", "reference", "tolerance", "unit", "wrong") if name not in task.hidden]
        if missing:
            return [f"hidden lacks {', '.join(missing)}"]
        problems = []
        if not any(message.images for message in task.prompt):
            problems.append("the prompt has no chart")
        expected, tolerance = task.hidden["expected"], task.hidden["tolerance"]
        if tolerance and abs(float(expected)) < 2 * tolerance:
            problems.append(f"the tolerance {tolerance:g} is too wide for the answer {expected:g}")
        if any(told(expected, message.content) for message in task.prompt):
            problems.append("the prompt contains the answer")
        return problems

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        return OneTurn(lambda completion: read_answer(completion) is not None)

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        expected, tolerance = task.hidden.get("expected"), task.hidden.get("tolerance")
        if not isinstance(expected, (int, float, str)) or expected == "":
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: hidden has no 'expected' answer to compare with")
        found = read_answer(outcome.submission)
        passed = is_right(found, expected, tolerance, task.hidden.get("unit", ""))
        value = 1.0 if passed else credit(found, expected, tolerance, task.hidden.get("unit", ""))
        return score(value, {}, passed=passed, judged="out_of_process")

    def _task(self, name: str, split: Split, level: int, chart: Chart, question: Question) -> TaskSpec:
        template = f"{chart.theme.name}/{chart.kind}/{question.name}"
        answer = {"expected": question.answer, "tolerance": question.tolerance, "unit": question.unit}
        return TaskSpec(
            id=name,
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=level,
            template=template,
            # The same number on another chart is another answer.
            answer_digest=content_hash([template, chart.title, question.text, question.answer]),
            prompt=(
                Message(role="system", content=_HOW),
                Message(role="user", content=question.text, images=(Image(data=png(chart)),)),
            ),
            public={"question": question.name, "chart": chart.kind},
            hidden={**answer, "reference": question.answer, "wrong": list(question.wrong)},
            max_turns=1,
            max_new_tokens=self.config.max_new_tokens,
        )


def _asked(name: str, level: int, split: Split, rng: random.Random) -> tuple[Chart, Question]:
    """A chart that answers a question of this kind clearly: charts are drawn up until one does."""
    for _ in range(_MOST_DRAWS):
        theme = rng.choice(themes(split))
        kinds = [kind for kind in ASKERS[name][0] if theme.categories in Ordered or kind not in ("line", "area")]
        chart = draw_chart(rng.choice(kinds), theme, level, split, rng)  # type: ignore[arg-type]
        if (question := ask(name, chart, rng)) is not None:
            return chart, question
    raise EnvironmentAuthorError(f"chart_reading: no chart of level {level} answers a question on {name!r}.")


def _said(answer: Any) -> str:
    return json.dumps({"answer": round(answer, 6) if isinstance(answer, float) else answer})


def _wrong(task: TaskSpec) -> list[str]:
    answer = task.hidden["reference"]
    texts = [_said(value) for value in task.hidden["wrong"]]
    if isinstance(answer, str):
        return [*texts, f"Answer: not {answer}"]
    return [*texts, f"The value is {answer:g}.", f"Answer: {answer:g}, or rather {_number(answer * 3 + 7)}"]


def _equivalent(answer: Any, tolerance: float | None, unit: str) -> list[str]:
    if isinstance(answer, str):
        return [
            f"Answer: {answer}",
            f'```json\n{{"answer": "{answer.upper()}"}}\n```',
            f"It is this one.\nanswer: **{answer}**.",
        ]
    near = [answer + 0.9 * tolerance, answer - 0.9 * tolerance] if tolerance else []
    return [
        *(_said(value) for value in near),
        f"Answer: {_number(answer)}{' ' + unit if unit else ''}",
        json.dumps({"answer": f"{_number(answer)} {unit}".strip()}),
        f"I read it off the axis.\n```json\n{_said(answer)}\n```",
        f"**Answer:** about {_number(answer)}.",
    ]


def _number(value: float) -> str:
    """With thousands separators: `1,234.5`."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")
