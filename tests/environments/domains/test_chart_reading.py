"""Charts: the text gives nothing away, drawing repeats and is thread-safe, answers are read as they are meant."""

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.records import Split, Verdict
from assay.registry import build_plugin
from environments.base import Script, play
from environments.domains._chart_reading_answer import as_number, credit, is_right, read_answer
from environments.domains._chart_reading_ask import told
from environments.domains._chart_reading_data import THEMES, axis_for, draw_chart, themes
from environments.domains._chart_reading_draw import png
from environments.domains.chart_reading import ChartReading
from tests.environments.domains.conftest import NoPlace

SPLITS: tuple[Split, ...] = ("train", "heldout")


@pytest.fixture(scope="module")
def charts() -> ChartReading:
    domain: ChartReading = build_plugin("domain", "chart_reading")
    return domain


async def judged(domain: ChartReading, task: Any, script: Script) -> Verdict:
    return await domain.verify(task, await play(domain, task, script, NoPlace()), NoPlace())


def test_the_text_without_the_chart_does_not_hold_the_answer(charts: ChartReading) -> None:
    for split in SPLITS:
        for index in range(8):
            task = charts.make_task(split, index, 5)
            assert task.prompt[-1].images
            assert not any(told(task.hidden["expected"], message.content) for message in task.prompt)
            assert not told(task.hidden["expected"], str(dict(task.public)))


def test_charts_are_small_pngs(charts: ChartReading) -> None:
    for index in range(6):
        (image,) = charts.make_task("train", index, 6).prompt[-1].images
        assert image.data.startswith(b"\x89PNG")
        assert 4_000 < len(image.data) < 30_000
        assert b"Software" not in image.data
        assert b"tIME" not in image.data


def test_drawing_is_the_same_in_threads_and_whatever_a_persons_settings() -> None:
    import matplotlib

    theme = THEMES[0]
    drawn = [draw_chart("line", theme, 3, "train", random.Random(i)) for i in range(4)]
    alone = [png.__wrapped__(chart) for chart in drawn]
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}), ThreadPoolExecutor(4) as threads:
        assert list(threads.map(png.__wrapped__, drawn)) == alone
        assert matplotlib.rcParams["font.size"] == 30


def test_without_matplotlib_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from assay.registry import build_plugin; from assay.errors import ConfigurationError\n"
        "domain = build_plugin('domain', 'chart_reading'); domain.card()\n"
        "try: domain.make_task('train', 0, 0)\n"
        "except ConfigurationError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "assay[charts]" in said


def test_splits_share_no_theme() -> None:
    assert not {t.name for t in themes("train")} & {t.name for t in themes("heldout")}
    assert len(themes("train")) + len(themes("heldout")) == len(THEMES)


@pytest.mark.parametrize(
    ("completion", "value"),
    [
        ('{"answer": 47.5}', 47.5),
        ('It is 3.\n```json\n{"answer": "1,250 GWh"}\n```', "1,250 GWh"),
        ("Answer: about 47.5 GWh", "about 47.5 GWh"),
        ("**Answer:** Norway", "Norway"),
        ('{"answer": 1} no, {"answer": 2}', 2),
        ('{"answer": 1}\nAnswer: 2', "2"),
        ('{"answer": true}', None),
        ('{"answer": NaN}', None),
        ('{"answer": 1e999}', None),
        ('{"answer": 1, "answer": 2}', None),
        ('{"answer": ' + "9" * 5000 + "}", None),
        ('{"answer": [1]}', None),
        ("47.5", None),
        ("Answer:", None),
    ],
)
def test_the_last_answer_is_read(completion: str, value: Any) -> None:
    assert read_answer(completion) == value


@pytest.mark.parametrize(
    ("said", "unit", "value"),
    [
        ("1,234.5", "", 1234.5),
        ("1 234 t", "t", 1234.0),
        ("between 3 and 4", "", 4.0),
        ("−7", "", -7.0),
        ("12 thousand", "", None),
        ("12 thousand t", "thousand t", 12.0),
        ("12 million USD", "thousand USD", None),
        ("none", "", None),
        (float("inf"), "", None),
        (True, "", None),
        (10**400, "", None),
    ],
)
def test_numbers_are_read_with_units_and_separators(said: Any, unit: str, value: float | None) -> None:
    assert as_number(said, unit) == value


def test_credit_falls_with_the_error_and_a_label_has_none() -> None:
    # Tolerance 2 around 100: right up to 102; half at the edge, nothing from 110 on.
    assert is_right(102, 100.0, 2.0, "")
    assert not is_right(102.1, 100.0, 2.0, "")
    assert [credit(v, 100.0, 2.0, "") for v in (102, 106, 110, 200)] == [0.5, 0.25, 0.0, 0.0]
    assert [credit(v, 5, 0.0, "") for v in (6, 4, 7)] == [0.25, 0.25, 0.0]
    assert credit("Peru", "Chile", None, "") == 0.0
    assert is_right(" chile.", "Chile", None, "")
    assert not is_right("Chile or Peru", "Chile", None, "")


@given(st.floats(0.5, 9999), st.floats(0, 5000))
def test_an_axis_holds_its_values_in_few_round_steps(top: float, foot: float) -> None:
    axis = axis_for(THEMES[0].measure, top)
    assert axis.low == 0.0
    assert axis.high >= top
    assert 4 <= len(axis.ticks) <= 11
    assert axis.value_at(axis.place(top)) == pytest.approx(top)


async def test_a_task_without_a_gold_answer_is_invalid(charts: ChartReading) -> None:
    task = charts.make_task("train", 0, 0)
    assert not (await judged(charts, replace(task, hidden={}), ('{"answer": 1}',))).valid


@pytest.mark.slow
async def test_hundreds_of_charts_accept_what_is_right_and_nothing_else(charts: ChartReading) -> None:
    num = {"tasks": 0, "wrong": 0, "equivalent": 0, "confused": 0}
    before: Script = ()
    for split in SPLITS:
        for index in range(110):
            task = charts.make_task(split, index, 7)
            known = charts.solutions(task)
            assert charts.check(task) == []
            oracle, noop = await judged(charts, task, known.oracle), await judged(charts, task, known.noop)
            assert (oracle.passed, oracle.reward, noop.reward) == (True, 1.0, 0.0), task.id
            assert len(known.wrong) >= 5
            assert len(known.equivalent) >= 3
            for script in known.wrong:
                assert not (await judged(charts, task, script)).passed, (task.id, script)
            for script in known.equivalent:
                assert (await judged(charts, task, script)).reward == 1.0, (task.id, script)
            num["confused"] += bool(before) and (await judged(charts, task, before)).passed
            before = known.oracle
            num["tasks"] += 1
            num["wrong"] += len(known.wrong)
            num["equivalent"] += len(known.equivalent)
    assert num["confused"] <= 0.02 * num["tasks"], num
