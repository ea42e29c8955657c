"""The end of a run in at most fifteen lines, then what to type next."""

from collections.abc import Iterator

from console.books import Count
from console.output import clock, counted, one_line
from console.summary import QUERIES, HeldOut, Rate, Summary

SHOWN_DEFECTS, SHOWN_PHASES = 3, 5
WORDS = {"inspect": "inspected", "solvability": "solvable", "rollout": "rolled out", "train": "trained on"}


def summary_lines(summary: Summary) -> list[str]:
    """What came out, for a person."""
    return [
        _head(summary),
        *map(held_out_line, summary.held_out),
        *map(count_line, summary.counts),
        *_defect_lines(summary),
        infra_line(summary),
        _time_line(summary),
        f"{'store':<12}{summary.store}",
        *([f"{'report':<12}{summary.report}"] if summary.report else []),
    ]


def next_lines(summary: Summary) -> list[str]:
    """Commands to type next, and three questions to ask."""
    show = [f"  assay show {summary.trajectory_id}"] if summary.trajectory_id else []
    commands = [f"  assay report --run {summary.run_id} --open", *show, "  assay sql --query why_zero"]
    return ["next", *commands, *(f'  assay sql "{sql}"' for _, sql in QUERIES)]


def held_out_line(held_out: HeldOut) -> str:
    """`held-out    record_extraction  v0 0.25 [0.15, 0.39] -> v10 0.93 [0.83, 0.98]  +0.68 [0.50, 0.79]`."""
    stages = [
        ("", held_out.before),
        ("warm start ", held_out.warm_start),
        ("", held_out.after),
    ]
    told = [word + _rate(rate) for word, rate in stages if rate is not None]
    change = ""
    if held_out.difference is not None:
        by, low, high = held_out.difference
        change = f"  {by:+.2f} [{low:+.2f}, {high:+.2f}]"
    return f"{'held-out':<12}{one_line(held_out.domain, 30)}  {' -> '.join(told)}{change}"


def count_line(count: Count) -> str:
    """`rolled out  320 trajectories, 311 kept, 9 dropped (sandbox 6, deadline 3)`."""
    dropped = sum(count.dropped.values())
    why = f", {dropped} dropped ({counted(dict(count.dropped))})" if dropped else ""
    return f"{WORDS[count.stage]:<12}{count.num_in} {count.what}, {count.num_kept} kept{why}"


def infra_line(summary: Summary) -> str:
    """How many trajectories are invalid, by cause, and how many of them any baseline contains."""
    total = sum(summary.failures.values())
    causes = f" ({counted(dict(summary.failures))})" if total else ""
    return f"{'invalid':<12}{total} trajectories{causes}, {summary.failures_in_baseline} in any baseline"


def _rate(rate: Rate) -> str:
    return f"{one_line(rate.policy_name)} {rate.rate:.2f} [{rate.low_rate:.2f}, {rate.high_rate:.2f}]"


def _head(summary: Summary) -> str:
    where = "" if summary.state == "finished" else f" at {summary.stage}"
    return (
        f"{one_line(summary.name)} #{summary.number}  {summary.state}{where} after {clock(summary.total_s)}"
        f"  policy {one_line(summary.policy_name or 'none')}  run {summary.run_id}"
    )


def _time_line(summary: Summary) -> str:
    """The longest phases, then the rest of the run together."""
    longest = list(summary.seconds.items())[:SHOWN_PHASES]
    rest = summary.total_s - sum(seconds for _, seconds in longest)
    phases = [*longest, ("rest", rest)] if rest >= 1 else longest
    return f"{'time':<12}" + "  ".join(f"{stage} {clock(seconds)}" for stage, seconds in phases)


def _defect_lines(summary: Summary) -> Iterator[str]:
    planted = sum(defect.planted for defect in summary.defects)
    if summary.defects:
        yield f"{'caught':<12}{len(summary.defects)} defective tasks, {planted} of them planted"
    for defect in summary.defects[:SHOWN_DEFECTS]:
        yield f"  {one_line(defect.task_id, 44)}  {one_line(defect.probe)}: {one_line(defect.evidence, 100)}"
    if len(summary.defects) > SHOWN_DEFECTS:
        yield f"  {len(summary.defects) - SHOWN_DEFECTS} more: assay sql --query defects"
    if summary.planted_missed:
        names = one_line(", ".join(summary.planted_missed), 100)
        yield f"{'MISSED':<12}planted defects that inspection trusted: {names}"
