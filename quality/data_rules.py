"""What must hold of rollouts before anything is trained on them, as sentences with the expectation that checks each.

    trajectories, rewards, turns --facts--> flat frames with one true/false column per relation --> rules on them

The frames have the columns of the tables of the same names. Relations between columns and tables become columns that
are true or false, never null: an expectation on values skips nulls, so nulls have a rule of their own.
"""

from collections.abc import Collection, Sequence
from typing import Any

import polars as pl

from assay.errors import DataGateError
from assay.records import Cause, record

# float32 rounding can lift the log-probability of a certain token just above 0.
LOGPROB_SLACK = 1e-4
ENDS = ("done", "max_turns", "truncated", "agent_timeout", "failed")
CAUSES = tuple(cause.value for cause in Cause)
NEEDED = {
    "trajectories": "trajectory_id task_hash first_policy last_policy num_turns num_tokens end_reason failure_cause "
    "sample_index temperature wall_s",
    "rewards": "trajectory_id valid reward passed cause verify_s",
    "turns": "trajectory_id turn_index prompt_ids completion_ids logprobs policy_version",
}


@record
class Rule:
    """A sentence and the Great Expectations class, with its arguments, that checks it."""

    sentence: str
    expectation: str
    arguments: dict[str, Any]


@record
class Checked:
    """A flat frame, the column that names its rows to a person, and the rules that must hold of it."""

    name: str
    facts: pl.DataFrame
    row_id: str
    rules: Sequence[Rule]


def check_columns(name: str, frame: pl.DataFrame) -> None:
    """Raise DataGateError naming the columns that a frame lacks."""
    lacking = [column for column in NEEDED[name].split() if column not in frame.columns]
    if lacking:
        raise DataGateError(f"The {name} lack the columns {', '.join(lacking)}; read them from the table of that name.")


def trajectory_checks(
    trajectories: pl.DataFrame,
    rewards: pl.DataFrame,
    turns: pl.DataFrame,
    *,
    policies: Collection[str],
    trusted: Collection[str],
) -> Checked:
    """Trajectories: identity, trusted tasks, expected policies, failure and end agree, tokens as in their turns."""
    rows = turns.group_by("trajectory_id").agg(
        pl.len().alias("turn_rows"), pl.col("completion_ids").list.len().sum().alias("token_rows")
    )
    failed = pl.col("end_reason") == "failed"
    facts = (
        trajectories.join(rows, on="trajectory_id", how="left")
        .with_columns(pl.col("turn_rows", "token_rows").fill_null(0))
        .select(
            "trajectory_id",
            "task_hash",
            "first_policy",
            "last_policy",
            "end_reason",
            "failure_cause",
            "sample_index",
            "temperature",
            "wall_s",
            missing=_missing("trajectories", "failure_cause"),
            rewarded=_among("trajectory_id", rewards["trajectory_id"]),
            cause_iff_failed=(pl.col("failure_cause").is_not_null() == failed).fill_null(False),
            has_turns=(failed | (pl.col("num_turns") >= 1)).fill_null(False),
            turns_kept=(pl.col("num_turns") == pl.col("turn_rows")).fill_null(False),
            tokens_kept=(pl.col("num_tokens") == pl.col("token_rows")).fill_null(False),
        )
    )
    rules = [
        Rule(
            sentence="there is a trajectory", expectation="ExpectTableRowCountToBeBetween", arguments={"min_value": 1}
        ),
        NOTHING_MISSING,
        _unique("trajectory", "trajectory_id"),
        _one_of("every task has a trusted certificate", "task_hash", trusted),
        _one_of("every first turn is of an expected policy", "first_policy", policies),
        _one_of("every last turn is of an expected policy", "last_policy", policies),
        _one_of("every end is a known one", "end_reason", ENDS),
        _values("every cause of failure is a known one", "InSet", "failure_cause", value_set=list(CAUSES)),
        _true("a cause of failure is set exactly on failed trajectories", "cause_iff_failed"),
        _true("every trajectory that did not fail has a turn", "has_turns"),
        _true("every trajectory has all its turns", "turns_kept"),
        _true("every trajectory has all its tokens", "tokens_kept"),
        _true("every trajectory has a reward row", "rewarded"),
        _at_least("sample indices start at 0", "sample_index", 0),
        _at_least("temperatures are not negative", "temperature", 0),
        _at_least("times are not negative", "wall_s", 0),
    ]
    return Checked(name="trajectories", facts=facts, row_id="trajectory_id", rules=rules)


def reward_checks(rewards: pl.DataFrame, trajectories: pl.DataFrame, *, max_invalid_rate: float) -> Checked:
    """Rewards: one per trajectory, in range, null exactly when invalid, not too many invalid."""
    failed = trajectories.filter(pl.col("end_reason") == "failed")["trajectory_id"]
    valid = pl.col("valid")
    facts = rewards.select(
        "trajectory_id",
        "reward",
        "cause",
        "valid",
        "verify_s",
        missing=_missing("rewards", "reward", "cause"),
        known=_among("trajectory_id", trajectories["trajectory_id"]),
        reward_iff_valid=(pl.col("reward").is_not_null() == valid).fill_null(False),
        reward_finite=pl.col("reward").is_finite().fill_null(True),
        cause_iff_invalid=(pl.col("cause").is_null() == valid).fill_null(False),
        passed_is_valid=(valid | ~pl.col("passed")).fill_null(False),
        failed_is_invalid=~(valid.fill_null(True) & _among("trajectory_id", failed)),
        invalid=(~valid).cast(pl.Float64),
    )
    rules = [
        NOTHING_MISSING,
        _unique("reward", "trajectory_id"),
        _true("every reward's trajectory exists", "known"),
        _values("every reward lies in 0..1", "Between", "reward", min_value=0, max_value=1),
        _true("every reward is a finite number", "reward_finite"),
        _true("a reward is null exactly on invalid trajectories", "reward_iff_valid"),
        _values("every cause is a known one", "InSet", "cause", value_set=list(CAUSES)),
        _true("a cause is set exactly on invalid trajectories", "cause_iff_invalid"),
        _true("only valid trajectories pass", "passed_is_valid"),
        _true("no failed trajectory has a reward", "failed_is_invalid"),
        _at_least("verification times are not negative", "verify_s", 0),
        Rule(
            sentence=f"at most {max_invalid_rate:.0%} of the trajectories are invalid",
            expectation="ExpectColumnMeanToBeBetween",
            arguments={"column": "invalid", "max_value": max_invalid_rate},
        ),
    ]
    return Checked(name="rewards", facts=facts, row_id="trajectory_id", rules=rules)


def turn_checks(turns: pl.DataFrame, trajectories: pl.DataFrame, *, policies: Collection[str]) -> Checked:
    """Turns: tokens and log-probabilities in pairs, finite, not above 0, under an expected policy."""
    tokens, logprobs = pl.col("completion_ids").list, pl.col("logprobs").list
    finite = logprobs.eval(pl.element().is_finite().fill_null(False)).list.all()
    facts = turns.select(
        "policy_version",
        "turn_index",
        missing=_missing("turns"),
        turn=pl.format("{}#{}", "trajectory_id", "turn_index"),
        known=_among("trajectory_id", trajectories["trajectory_id"]),
        prompt_len=pl.col("prompt_ids").list.len().fill_null(0),
        completion_len=tokens.len().fill_null(0),
        paired=(tokens.len() == logprobs.len()).fill_null(False),
        finite=finite.fill_null(False),
        highest=logprobs.max(),
    )
    rules = [
        NOTHING_MISSING,
        _unique("turn", "turn"),
        _true("every turn's trajectory exists", "known"),
        _one_of("every turn is of an expected policy", "policy_version", policies),
        _at_least("turns count from 0", "turn_index", 0),
        _at_least("every prompt has a token", "prompt_len", 1),
        _at_least("every completion has a token", "completion_len", 1),
        _true("every sampled token has a log-probability", "paired"),
        _true("every log-probability is a finite number", "finite"),
        _values("no log-probability is above 0", "Between", "highest", max_value=LOGPROB_SLACK),
    ]
    return Checked(name="turns", facts=facts, row_id="turn", rules=rules)


def _among(column: str, known: pl.Series) -> pl.Expr:
    return pl.col(column).is_in(known.unique().to_list()).fill_null(False)


def _values(sentence: str, kind: str, column: str, **arguments: Any) -> Rule:
    return Rule(
        sentence=sentence, expectation=f"ExpectColumnValuesToBe{kind}", arguments={"column": column} | arguments
    )


def _true(sentence: str, column: str) -> Rule:
    return _values(sentence, "InSet", column, value_set=[True])


def _one_of(sentence: str, column: str, allowed: Collection[str]) -> Rule:
    return _values(sentence, "InSet", column, value_set=sorted(allowed))


def _at_least(sentence: str, column: str, least: float) -> Rule:
    return _values(sentence, "Between", column, min_value=least)


def _unique(what: str, column: str) -> Rule:
    return _values(f"no {what} is there twice", "Unique", column)


def _missing(table: str, *may_be_null: str) -> pl.Expr:
    """The names of the needed columns that are null in a row, or empty text."""
    needed = [column for column in NEEDED[table].split() if column not in may_be_null]
    names = [pl.when(pl.col(column).is_null()).then(pl.lit(column)) for column in needed]
    return pl.concat_str(names, separator=" ", ignore_nulls=True)


NOTHING_MISSING = _values("no needed value is null", "InSet", "missing", value_set=[""])
