"""What a comparison says of its rounds."""

import re

import pytest

from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.report import Comparison, Round, table
from benchmarks.workload import Workload


def a_comparison() -> Comparison:
    ours = [Round({"a": 1.0, "b": 1.0}, 100), Round({"a": 1.0, "b": 3.0}, 100), Round({"a": 2.0, "b": 2.0}, 100)]
    theirs = [Round({"a": 6.0, "b": 0.0}, 100), Round({"a": 4.0, "b": 4.0}, 100), Round({"a": 2.0, "b": 2.0}, 50)]
    return Comparison("work", "ours", "theirs", {"ours": ours, "theirs": theirs}, {"tool": "1"})


def test_ratios_compare_time_per_token_within_a_round() -> None:
    assert a_comparison().ratios == pytest.approx([3.0, 2.0, 2.0])


def test_json_and_table_tell_medians_and_where_they_were_measured() -> None:
    told = a_comparison().as_json()
    assert (told["sides"]["ours"]["median_s"], told["sides"]["theirs"]["median_s"], told["ratio"]["median"]) == (
        4,
        6,
        2,
    )
    assert {"date", "processor", "cores", "threads", "versions"} <= told.keys()
    assert "ours is 2.00 times as fast per token" in table(a_comparison())


def test_every_round_has_prompts_of_its_own() -> None:
    workload = Workload(groups=4, samples=2, tokens=8)
    first, second = workload.prompts(0), workload.prompts(1)
    assert len(set(first + second)) == 8
    assert first == workload.prompts(0)


def test_without_its_model_a_benchmark_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engines"]) == 1
    assert "make model" in capsys.readouterr().err


def test_no_name_means_every_benchmark(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sandbox", "environments"):  # they need no model, so they would run
        monkeypatch.setitem(BENCHMARKS, name, BENCHMARKS["engines"])
    assert main(["--steps", "1"]) == 1
    assert re.findall(r"^(\w+): ", capsys.readouterr().err, flags=re.MULTILINE) == list(BENCHMARKS)


def test_an_unknown_name_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["grpo"])
    assert "grpo_step, engines, sandbox" in capsys.readouterr().err
