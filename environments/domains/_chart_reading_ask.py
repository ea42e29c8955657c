"""Questions on a chart: what is asked, the answer, how far off a careful reading may be, and how it is usually missed.

    value  difference  ratio  total  count  highest / lowest (a label)  trend (a label)

A question whose answer is not clear to the eye (two bars of nearly one height, a value on the threshold) is not asked.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator

from assay.records import record
from environments.domains._chart_reading_data import Axis, Chart, Series, rounded

Answer = float | int | str
# From here on, in units of the tolerance, an answer earns nothing; 0 must be at least so far off.
WORTHLESS = 5.0
_CLEAR = 3.0  # readings of two places that are told apart with certainty, in units of the reading error


@record
class Question:
    """`tolerance` (same unit as the answer) is 0 for counts and None for labels. `wrong` are misreadings of this chart,
    none of them right; `unit` may follow the number."""

    name: str
    text: str
    answer: Answer
    tolerance: float | None
    unit: str
    wrong: tuple[Answer, ...]


Asker = Callable[[Chart, random.Random], Question | None]


def questions_of(level: int) -> tuple[str, ...]:
    """The kinds of a level, in the order in which tasks take them."""
    return {
        1: ("value", "highest", "count", "value", "lowest"),
        2: ("value", "difference", "total", "trend", "ratio", "count", "highest"),
        3: ("value", "ratio", "difference", "lowest", "trend", "total"),
    }[level]


def ask(name: str, chart: Chart, rng: random.Random) -> Question | None:
    """A question of this kind, or None where the chart does not answer one clearly."""
    question = ASKERS[name][1](chart, rng)
    if question is None or not _fair(question):
        return None
    return question


def _fair(question: Question) -> bool:
    """No other answer is as good, 0 is worth nothing, and the text does not hold the answer."""
    if isinstance(question.answer, str):
        return len(question.wrong) >= 3 and not told(question.answer, question.text)
    clear = question.tolerance == 0 or abs(question.answer) > (WORTHLESS + 1) * (question.tolerance or 0.0)
    return clear and question.answer >= 0 and not told(question.answer, question.text)


def told(answer: Answer, text: str) -> bool:
    """Whether the answer occurs in a text, as a number or as words."""
    if isinstance(answer, str):
        return answer.casefold() in text.casefold()
    return any(float(word) == answer for word in re.findall(r"\d+(?:\.\d+)?", text.replace(",", "")))


def _value(chart: Chart, rng: random.Random) -> Question | None:
    if chart.kind == "scatter":
        return _extreme_point(chart, rng)
    series, place = rng.choice(chart.series), rng.randrange(len(chart.categories))
    axis, value = chart.axis_of(series), series.values[place]
    error = axis.reading_error(value) * (1.5 if chart.piled else 1.0)
    text = f"What is {_subject(chart, series, place)}, in {axis.measure.unit}?"
    return _number("value", text, value, error, axis, _misread(chart, series, place))


def _extreme_point(chart: Chart, rng: random.Random) -> Question | None:
    """The height of the point farthest right of one group."""
    series = rng.choice(chart.series)
    xs = sorted(series.xs)
    if chart.x_axis is None or xs[-1] - xs[-2] < 2 * chart.x_axis.reading_error(xs[-1]):
        return None
    place = series.xs.index(xs[-1])
    value = series.values[place]
    text = (
        f"Look at the points of {series.name}. What is the {chart.axis.measure.name.lower()} of the one farthest to "
        f"the right, in {chart.axis.measure.unit}?"
    )
    wrong = [v for other in chart.series for v in other.values if v != value]
    return _number("value", text, value, chart.axis.reading_error(value), chart.axis, [xs[-1], *wrong])


def _difference(chart: Chart, rng: random.Random) -> Question | None:
    series = rng.choice(chart.series)
    first, second = rng.sample(range(len(chart.categories)), 2)
    if series.values[first] < series.values[second]:
        first, second = second, first
    axis, a, b = chart.axis_of(series), series.values[first], series.values[second]
    if axis.log or chart.piled:
        return None
    error = 1.5 * axis.step / 5
    text = (
        f"By how much is {_subject(chart, series, first)} larger than {_subject(chart, series, second)}, "
        f"in {axis.measure.unit}?"
    )
    wrong = [-(a - b), a, b, a + b, *(abs(a - v) for v in series.values), axis.step * round((a - b) / axis.step)]
    return _number("difference", text, rounded(a - b, 6), error, axis, wrong)


def _ratio(chart: Chart, rng: random.Random) -> Question | None:
    series = rng.choice(chart.series)
    if chart.piled:
        return None
    first, second = rng.sample(range(len(chart.categories)), 2)
    if series.values[first] < series.values[second]:
        first, second = second, first
    axis, a, b = chart.axis_of(series), series.values[first], series.values[second]
    relative = axis.reading_error(a) / a + axis.reading_error(b) / b
    if a < 1.3 * b or relative > 1 / (WORTHLESS + 2):
        if not (axis.log and a > 1.3 * b):
            return None
        relative = 1 / (WORTHLESS + 1.5)
    text = f"How many times as large is {_subject(chart, series, first)} as {_subject(chart, series, second)}?"
    wrong = [b / a, a, b, a - b, *(v / b for v in series.values), *(a / v for v in series.values)]
    return _number("ratio", text, a / b, relative * a / b, None, wrong)


def _total(chart: Chart, rng: random.Random) -> Question | None:
    """The height of a pile, or the sum of two bins."""
    if chart.kind == "histogram":
        first = rng.randrange(len(chart.categories) - 1)
        values = chart.series[0].values
        a, b = values[first], values[first + 1]
        low, high = chart.edges[first], chart.edges[first + 2]
        text = f"How many cases lie between {low:g} and {high:g} ({chart.x_label})?"
        wrong = [a, b, abs(a - b), sum(values), *(a + v for v in values)]
        return _number("total", text, a + b, 1.5 * chart.axis.step / 5, chart.axis, wrong)
    if not chart.piled:
        return None
    place = rng.randrange(len(chart.categories))
    parts = [series.values[place] for series in chart.series]
    measure = chart.axis.measure
    text = f"What is the {measure.name.lower()} of all groups together {_where(chart, place)}, in {measure.unit}?"
    others = [sum(s.values[i] for s in chart.series) for i in range(len(chart.categories)) if i != place]
    wrong = [*parts, sum(parts[:-1]), sum(parts) / len(parts), *others]
    return _number("total", text, rounded(sum(parts), 6), chart.axis.step / 5, chart.axis, wrong)


def _count(chart: Chart, rng: random.Random) -> Question | None:
    """How many lie above a line of the grid."""
    if chart.piled or chart.axis.log:
        return None
    series = rng.choice([s for s in chart.series if not s.secondary])
    limit = rng.choice(chart.axis.ticks[1:-1])
    if any(abs(value - limit) < chart.axis.reading_error(value) for value in series.values):
        return None
    above = sum(value > limit for value in series.values)
    what = {"scatter": "points", "histogram": "bins"}.get(chart.kind, f"values on the axis {chart.x_label!r}")
    whose = f" of {series.name}" if len(chart.series) > 1 else ""
    unit = chart.axis.measure.unit
    text = f"For how many of the {what}{whose} is the {chart.axis.measure.name.lower()} above {limit:,g} {unit}?"
    if above < 2:
        return None
    everything = sum(value > limit for s in chart.series for value in s.values)
    wrong = [above + 1, above - 1, above + 2, len(series.values), len(series.values) - above, everything, 0, limit]
    return Question(
        name="count", text=text, answer=above, tolerance=0.0, unit="",
        wrong=tuple(dict.fromkeys(w for w in wrong if w != above)),
    )  # fmt: skip


def _highest(chart: Chart, rng: random.Random) -> Question | None:
    return _extreme(chart, rng, "highest")


def _lowest(chart: Chart, rng: random.Random) -> Question | None:
    return _extreme(chart, rng, "lowest")


def _extreme(chart: Chart, rng: random.Random, which: str) -> Question | None:
    """The label of the extreme category; of a scatter plot the group of the extreme point."""
    sign = 1 if which == "highest" else -1
    if chart.kind == "scatter":
        labels: tuple[str, ...] = tuple(series.name for series in chart.series)
        values = tuple(max(series.values, key=lambda v: sign * v) for series in chart.series)
        axis, what = chart.axis, f"Which group has the point with the {which} {chart.axis.measure.name.lower()}?"
        distractors = [chart.axis.measure.name, f"{labels[0]} and {labels[1]}", "none"]
    else:
        series = rng.choice(chart.series)
        labels, values, axis = chart.categories, series.values, chart.axis_of(series)
        whose = f" of {series.name}" if len(chart.series) > 1 and not series.secondary else ""
        what = f"At which label of the chart is the {axis.measure.name.lower()}{whose} {which}?"
        distractors = [series.name, "none"]
    order = sorted(range(len(values)), key=lambda i: -sign * values[i])
    best, second = values[order[0]], values[order[1]]
    clear = _CLEAR if chart.kind != "pie" else 1.0
    if abs(axis.place(best) - axis.place(second)) < clear * _eye(axis):
        return None
    wrong = [labels[i] for i in order[1:]] + [*distractors, f"{labels[order[0]]} or {labels[order[1]]}"]
    return _label(which, what, labels[order[0]], wrong)


def _trend(chart: Chart, rng: random.Random) -> Question | None:
    """The only group that ends lower (or higher) than it began."""
    series = [s for s in chart.series if not s.secondary]
    if chart.kind not in ("line", "bars") or len(series) < 2:
        return None
    changes = [chart.axis.place(s.values[-1]) - chart.axis.place(s.values[0]) for s in series]
    if any(abs(change) < _CLEAR * _eye(chart.axis) for change in changes):
        return None
    for word, wanted in (("lower", [c < 0 for c in changes]), ("higher", [c > 0 for c in changes])):
        if sum(wanted) == 1:
            name = series[wanted.index(True)].name
            text = (
                f"Which group is {word} at {chart.categories[-1]} than at {chart.categories[0]}, "
                f"unlike every other group measured in {chart.axis.measure.unit}?"
            )
            others = [s.name for s in chart.series if s.name != name]
            said = [*others, "all of them", "none", chart.categories[-1], f"{name} and {others[0]}"]
            return _label("trend", text, name, said)
    return None


_OVER = ("bars", "line", "pie", "histogram", "scatter")
ASKERS: dict[str, tuple[tuple[str, ...], Asker]] = {
    "value": (("bars", "stacked", "line", "area", "pie", "histogram", "scatter"), _value),
    "difference": (("bars", "line", "pie", "histogram"), _difference),
    "ratio": (("bars", "line", "histogram"), _ratio),
    "total": (("stacked", "area", "histogram"), _total),
    "count": (("bars", "line", "histogram", "scatter"), _count),
    "highest": (("bars", "line", "pie", "scatter"), _highest),
    "lowest": (("bars", "line", "pie", "scatter"), _lowest),
    "trend": (("line", "bars"), _trend),
}
"""For each kind of question the charts that can answer it."""


def _eye(axis: Axis) -> float:
    """The reading error as a share of the axis."""
    return 0.05 / (len(axis.ticks) - 1) if axis.log else axis.step / 5 / (axis.high - axis.low)


def _subject(chart: Chart, series: Series, place: int) -> str:
    """`the exports of Norway in 2003`, `the price in May`, `the number of cases from 10 to 20`."""
    if chart.kind == "pie":
        return f"the share of {chart.categories[place]}"
    if chart.kind == "histogram":
        return f"the number of cases from {chart.categories[place]}"
    name = chart.axis_of(series).measure.name.lower()
    whose = "" if series.secondary or len(chart.series) == 1 else f" of {series.name}"
    return f"the {name}{whose} {_where(chart, place)}"


def _where(chart: Chart, place: int) -> str:
    joint = "in" if chart.theme.categories in ("years", "months", "countries", "cities") else "for"
    return f"{joint} {chart.categories[place]}"


def _misread(chart: Chart, series: Series, place: int) -> Iterator[float]:
    """Another series, another category, the other axis, the tick beside, the foot of the pile."""
    value, axis = series.values[place], chart.axis_of(series)
    yield from (other.values[place] for other in chart.series if other is not series)
    yield from (v for i, v in enumerate(series.values) if i != place)
    yield from (tick for tick in axis.ticks if 0 < abs(tick - value) < axis.step or axis.log)
    if chart.secondary is not None:
        other = chart.axis if series.secondary else chart.secondary
        yield other.value_at(axis.place(value))
    if chart.piled:
        yield sum(s.values[place] for s in chart.series)


def _number(
    name: str, text: str, answer: float, tolerance: float, axis: Axis | None, wrong: Iterable[float]
) -> Question | None:
    """A question on a number; misreadings that happen to be right, or negative by rounding, are left out."""
    answer = rounded(answer, 6)
    beyond = (answer + 1.6 * tolerance, answer - 1.6 * tolerance, answer + 3 * tolerance, answer * 1000, answer / 1000)
    kept = [rounded(w, 4) for w in (*wrong, *beyond)]
    far = tuple(dict.fromkeys(w for w in kept if abs(w - answer) > 1.2 * tolerance))
    return Question(
        name=name, text=text, answer=answer, tolerance=rounded(tolerance, 4), unit=axis.measure.unit if axis else "",
        wrong=far,
    )  # fmt: skip


def _label(name: str, text: str, answer: str, wrong: Iterable[str]) -> Question:
    kept = tuple(dict.fromkeys(w for w in wrong if w != answer))
    return Question(name=name, text=text, answer=answer, tolerance=None, unit="", wrong=kept)
