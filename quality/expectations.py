"""The data gate before training: Great Expectations over trajectories, rewards and turns.

The rules are in `data_rules`; here they are run and told in sentences. An expectation that raised says nothing about
the data: it is an error of the gate itself, raised as `GateBroken`, and nothing passes a broken gate.
"""

import logging
import os
from collections.abc import Collection, Sequence
from typing import Any

import polars as pl

from assay.errors import ConfigurationError, DataGateError
from assay.progress import emit
from quality.data_rules import Checked, check_columns, reward_checks, trajectory_checks, turn_checks

SHOWN = 3


class GateBroken(DataGateError):
    """An expectation could not be evaluated; the data may be good or bad."""


def gate(
    trajectories: pl.DataFrame,
    rewards: pl.DataFrame,
    turns: pl.DataFrame,
    *,
    policies: Collection[str],
    trusted: Collection[str],
    max_invalid_rate: float,
) -> list[str]:
    """Every rule that held, as a sentence. Frames have the columns of the tables; `rewards` one verifier version.

    `policies` are the ids the turns may be of, `trusted` the content hashes of tasks with a trusted certificate.
    Raises DataGateError that names each broken rule with the number of rows and a few of them, and GateBroken when a
    rule could not be evaluated. The first call in a process imports Great Expectations, which takes seconds.
    """
    if not 0 <= max_invalid_rate <= 1:
        raise ConfigurationError(f"max_invalid_rate is {max_invalid_rate}; it must lie in 0..1.")
    for name, frame in (("trajectories", trajectories), ("rewards", rewards), ("turns", turns)):
        check_columns(name, frame)
    checks = [
        trajectory_checks(trajectories, rewards, turns, policies=policies, trusted=trusted),
        reward_checks(rewards, trajectories, max_invalid_rate=max_invalid_rate),
        turn_checks(turns, trajectories, policies=policies),
    ]
    held: list[str] = []
    broken: list[str] = []
    for check in checks:
        for sentence, reason in evaluate(check):
            (broken if reason else held).append(f"{check.name}: {reason or sentence}")
    emit("gate", num_rules=len(held) + len(broken), num_broken=len(broken), broken=tuple(broken))
    if broken:
        raise DataGateError(
            f"The data gate is closed, {len(broken)} of {len(held) + len(broken)} rules are broken: "
            f"{'; '.join(broken)}. Nothing was trained on these rollouts; look at the rows named."
        )
    return held


def evaluate(check: Checked) -> list[tuple[str, str]]:
    """Each rule's sentence with what broke it, empty where it holds. Raises GateBroken."""
    result = _validate(check)
    for outcome in result.results:
        if told := _exception(outcome.exception_info):
            raise GateBroken(f"{check.name}: {_sentence(outcome)!r} could not be evaluated: {told}")
    if len(result.results) != len(check.rules):
        raise GateBroken(f"{check.name}: {len(result.results)} of {len(check.rules)} rules were evaluated.")
    return [(_sentence(outcome), "" if outcome.success else _reason(outcome, check)) for outcome in result.results]


def _validate(check: Checked) -> Any:
    gx = _great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    asset = context.data_sources.add_pandas("rollouts").add_dataframe_asset(check.name)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": check.facts.to_pandas()})
    expectations = [
        getattr(gx.expectations, rule.expectation)(**rule.arguments, meta={"sentence": rule.sentence})
        for rule in check.rules
    ]
    suite = gx.ExpectationSuite(name=check.name, expectations=expectations)
    shown = {"result_format": "SUMMARY", "unexpected_index_column_names": [check.row_id]}
    return batch.validate(suite, result_format=shown)


def _great_expectations() -> Any:
    os.environ["GX_ANALYTICS_ENABLED"] = "False"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations

    return great_expectations


def _sentence(outcome: Any) -> str:
    return str(outcome.expectation_config.meta["sentence"])


def _exception(info: dict[str, Any]) -> str:
    """The message of what an expectation raised: told flat, or per metric where a metric raised."""
    nested: Sequence[Any] = [info, *info.values()]
    raised = [each for each in nested if isinstance(each, dict) and each.get("raised_exception")]
    return str(raised[0].get("exception_message") or "no message") if raised else ""


def _reason(outcome: Any, check: Checked) -> str:
    """`not true that every reward lies in 0..1: 2 rows, such as t_1 (1.5)`."""
    told, column = outcome.result, outcome.expectation_config.kwargs.get("column")
    if "unexpected_count" not in told:
        return f"not true that {_sentence(outcome)}: it is {told.get('observed_value')}"
    rows = told.get("partial_unexpected_index_list") or []
    shown = ", ".join(f"{row.get(check.row_id)} ({row.get(column)})" for row in rows[:SHOWN])
    return f"not true that {_sentence(outcome)}: {told['unexpected_count']} rows" + (
        f", such as {shown}" if shown else ""
    )
