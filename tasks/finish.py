"""The end of a run: its verdict for people, and the event that says it is complete."""

from typing import Any

import polars as pl

from assay.progress import emit
from tasks.artifacts import markdown, table
from tasks.run import RunRef, record_event
from tasks.workshop import Workshop, workshop

_HELDOUT = """
SELECT domain, policy_name, policy_kind, iteration, pass_rate, low_rate, high_rate, num_passed, num_valid
FROM evaluations WHERE run_id = ? ORDER BY domain, iteration, num_tasks
"""
_WASTE = """
SELECT domain, coalesce(cause, drop_reason, 'trained') AS cause, count(*) AS num_trajectories
FROM batches LEFT JOIN rewards USING (trajectory_id)
WHERE batches.run_id = ? GROUP BY ALL ORDER BY domain, num_trajectories DESC
"""


async def finish_run(run: RunRef) -> None:
    """Four artifacts with stable keys, then the event `finished`."""
    shop = workshop(run.config)
    heldout = shop.catalog().sql(_HELDOUT, [run.run_id]).pl()
    waste = shop.catalog().sql(_WASTE.replace("SELECT domain", "SELECT batches.domain AS domain"), [run.run_id]).pl()
    await markdown("verdict", _verdict(run, heldout), f"Verdict of {run.name}")
    await table("held-out-by-domain", heldout.to_dicts(), "Held-out pass rate by domain and policy version")
    await table("waste-by-cause", waste.to_dicts(), "What became of every training trajectory")
    await markdown("links", _links(run, shop), "Where everything is")
    record_event(shop.store, run, "finished", "run", run.config.iterations, run.elapsed_s(), {"number": run.number})
    emit("run", run_id=run.run_id, name=run.name, state="finished", store=shop.store.uri)


def _verdict(run: RunRef, heldout: pl.DataFrame) -> str:
    lines = [f"## {run.name}", "", "| domain | before | after warm start | after |", "|---|---|---|---|"]
    for domain in heldout["domain"].unique().sort():
        rows = heldout.filter(pl.col("domain") == domain).to_dicts()
        kinds = {kind: [row for row in rows if row["policy_kind"] == kind] for kind in ("base", "sft", "grpo")}
        cells = [_cell(kinds[kind][-1]) if kinds[kind] else "-" for kind in kinds]
        lines.append(f"| {domain} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    return f"{row['pass_rate']:.2f} [{row['low_rate']:.2f}, {row['high_rate']:.2f}]"


def _links(run: RunRef, shop: Workshop) -> str:
    return (
        f"Run `{run.run_id}`, store `{shop.store.uri}`.\n\n"
        f"- `assay report --run {run.run_id} --open`\n- `assay status --run {run.run_id}`\n"
        f"- `assay sql \"FROM trajectories WHERE run_id = '{run.run_id}'\"`\n"
    )
